//! Finds copies and children of a run near its own file. A command that gets one file also checks
//! the files next to it and in the directories above it.

use std::fs::{self, File};
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::open::Opened;
use super::table::copies::{relations, whole};
use crate::analysis::copies::marks;
use crate::live::Listed;
use crate::model::RunKey;
use crate::trace::RunDir;

/// The maximum number of directories to check: that of the file, and those above it.
const MAX_UP: usize = 6;
/// The maximum number of names to check in each directory.
const MAX_NAMES: usize = 500;
/// The maximum number of files to compare with the run.
const MAX_FILES: usize = 50;
/// A file with records of the run contains its id within this many bytes of its start.
const HEAD_BYTES: u64 = 64 << 10;

impl Opened {
    /// Returns the run with its relations to nearby files applied.
    pub(super) fn with_near(self, path: &Path, now: i64) -> Self {
        let Some(id) = self
            .summary
            .run_id
            .clone()
            .filter(|_| self.index.format().is_one_file())
        else {
            return self;
        };
        let Ok(own) = fs::canonicalize(path) else {
            return self;
        };
        let near = near(&own, &id);
        if near.is_empty() {
            return self;
        }
        let base = common(near.iter().map(PathBuf::as_path).chain([&*own]));
        let key =
            |path: &Path| RunKey::new(&path.strip_prefix(&base).unwrap_or(path).to_string_lossy());
        let listed = |path: &PathBuf| {
            let dir = RunDir::of_file(path).ok().flatten()?;
            Some(Listed {
                key: key(path),
                path: path.to_string_lossy().into_owned(),
                root: base.clone(),
                dir,
            })
        };
        let runs: Vec<Listed> = near.iter().chain([&own]).filter_map(listed).collect();
        let own = key(&own);
        let read = |run: &Listed| match run.key == own {
            true => (Arc::new(self.summary.clone()), marks(&self.index)),
            false => whole(run, now),
        };
        let found = relations(&runs, &|_| None, &read).remove(own.as_str());
        let Some(relation) = found else { return self };
        // In a file viewed on its own, steps that count elsewhere are included.
        let relation = relation.beside();
        let summary = self.summary.clone().related(relation, || &self.index);
        let mut run = self;
        run.summary = summary;
        run
    }
}

/// Returns the files near `own` whose first bytes contain `id`.
fn near(own: &Path, id: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for dir in own.ancestors().skip(1).take(MAX_UP) {
        let Ok(names) = fs::read_dir(dir) else {
            continue;
        };
        let paths = names.take(MAX_NAMES).flatten().map(|entry| entry.path());
        let is_lines = |path: &PathBuf| path.extension().is_some_and(|kind| kind == "jsonl");
        let mut paths: Vec<PathBuf> = paths
            .filter(is_lines)
            .filter(|path| path != own && names_id(path, id))
            .collect();
        paths.sort_unstable();
        found.extend(paths);
    }
    found.truncate(MAX_FILES);
    found
}

fn names_id(path: &Path, id: &str) -> bool {
    let is_file = fs::metadata(path).is_ok_and(|what| what.is_file());
    let Some(file) = File::open(path).ok().filter(|_| is_file) else {
        return false;
    };
    let mut head = Vec::new();
    let read = file.take(HEAD_BYTES).read_to_end(&mut head);
    read.is_ok() && !id.is_empty() && head.windows(id.len()).any(|part| part == id.as_bytes())
}

/// Returns the deepest directory that contains all paths.
fn common<'a>(mut paths: impl Iterator<Item = &'a Path>) -> PathBuf {
    let first = paths
        .next()
        .and_then(Path::parent)
        .map(Path::to_owned)
        .unwrap_or_default();
    paths.fold(first, |mut common, path| {
        while !path.starts_with(&common) && common.pop() {}
        common
    })
}
