//! Finds copies and children of a run near its own file. A command that gets one file also checks
//! the files next to it and in the directories above it.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::table::copies::{relations, whole};
use crate::analysis::copies::marks;
use crate::analysis::summary::Summary;
use crate::live::Listed;
use crate::model::RunKey;
use crate::recorded::RecordedRun;
use crate::trace::{RunDir, beginning, is_packed, may_be_lines};

/// The maximum number of directories to check: that of the file, and those above it.
const MAX_UP: usize = 6;
/// The maximum number of names to check in each directory.
const MAX_NAMES: usize = 500;
/// The maximum number of files to compare with the run.
const MAX_FILES: usize = 50;
/// The maximum number of compressed files whose beginnings are read. Each may need megabytes.
const MAX_PACKED: usize = 50;
/// A file with records of the run contains its id within this many bytes of its start.
const HEAD_BYTES: u64 = 64 << 10;

impl RecordedRun {
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
        // The keys of all runs are paths below the same directory.
        let read = |run: &Listed| match run.key == own {
            true => {
                let summary = Summary {
                    key: own.clone(),
                    ..self.summary.clone()
                };
                (Arc::new(summary), marks(&self.index))
            }
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

/// Returns the files near `own` whose text contains `id` at its beginning.
fn near(own: &Path, id: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut packed = 0;
    for dir in own.ancestors().skip(1).take(MAX_UP) {
        let Ok(names) = fs::read_dir(dir) else {
            continue;
        };
        let paths = names.take(MAX_NAMES).flatten().map(|entry| entry.path());
        let mut paths: Vec<PathBuf> = paths
            .filter(|path| path != own && may_be_lines(path))
            .collect();
        paths.sort_unstable();
        let mut is_read = |path: &PathBuf| {
            packed += usize::from(is_packed(path));
            !is_packed(path) || packed <= MAX_PACKED
        };
        paths.retain(|path| is_read(path) && names_id(path, id));
        found.extend(paths);
        if found.len() >= MAX_FILES {
            break;
        }
    }
    found.truncate(MAX_FILES);
    found
}

fn names_id(path: &Path, id: &str) -> bool {
    let has_id = |head: Vec<u8>| memchr::memmem::find(&head, id.as_bytes()).is_some();
    !id.is_empty() && beginning(path, HEAD_BYTES).is_ok_and(has_id)
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

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::*;

    #[test]
    fn compressed_files_and_endings_in_capitals_are_near_too() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path().canonicalize().unwrap();
        let packed = |text: &str| {
            let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
            packed.write_all(text.as_bytes()).unwrap();
            packed.finish().unwrap()
        };
        let write = |name: &str, bytes: &[u8]| fs::write(root.join(name), bytes).unwrap();
        let line = "{\"sessionId\":\"id-1\"}\n";
        write("own.jsonl", line.as_bytes());
        write("a.jsonl.gz", &packed(line));
        write("b.JSONL", line.as_bytes());
        write("c.jsonl.gz", &packed("{\"sessionId\":\"id-2\"}\n"));
        write("d.jsonl.gz", b"id-1");
        write("e.txt.gz", &packed(line));
        let found = near(&root.join("own.jsonl"), "id-1");
        assert_eq!(found, ["a.jsonl.gz", "b.JSONL"].map(|name| root.join(name)));
    }
}
