//! Which run does a text name that somebody wrote? Its key, its path, or its id.

use std::path::Path;

use crate::analysis::closest::closest;
use crate::live::Library;
use crate::model::RunKey;

/// So many runs of a similar name are told.
const MAX_CLOSE: usize = 3;

/// The run whose key, path or id the text is.
///
/// # Errors
/// There is none, or an id is that of several; with those that are meant or have a similar name.
pub(crate) fn named(library: &Library, text: &str) -> Result<RunKey, Vec<RunKey>> {
    if let Some(run) = library.run(text) {
        return Ok(run.key().clone());
    }
    let runs = library.runs();
    let whole = |path: &Path| std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let path = whole(Path::new(text));
    let by_path = || {
        runs.iter()
            .find(|run| whole(Path::new(&*run.summary().path)) == path)
    };
    let with_id = || {
        runs.iter()
            .filter(|run| run.summary().run_id.as_deref() == Some(text))
    };
    if let Some(run) = by_path() {
        return Ok(run.key().clone());
    }
    let meant: Vec<RunKey> = with_id().map(|run| run.key().clone()).collect();
    match meant.as_slice() {
        [one] => Ok(one.clone()),
        [] => Err(closest(
            text,
            runs.iter()
                .map(|run| (run.key().as_str(), run.key().clone())),
        )
        .take(MAX_CLOSE)
        .collect()),
        _ => Err(meant.into_iter().take(MAX_CLOSE).collect()),
    }
}
