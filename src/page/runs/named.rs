//! Finds the run that a user named by its key, path or id.

use std::path::Path;

use crate::analysis::closest::closest;
use crate::live::Library;
use crate::model::RunKey;

/// Maximum number of runs with a similar name that are returned.
const MAX_CLOSE: usize = 3;

/// Returns the run with this key, path or id.
///
/// # Errors
/// If several runs have this id, returns them. If none matches, returns runs with a similar name.
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
