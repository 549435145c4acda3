//! Counts the child runs of a session whose files are next to the session's file.
//!
//! A failed call doesn't name the child run that it started, and neither does a workflow or a
//! compaction. Only the path of the child's file shows which session started it.

use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::path::{Component, Path};

use super::beneath::{Dir, Kind};
use super::dir::RunDir;
use super::frames;
use crate::format::{ChildFiles, is_lines};

/// Maximum number of names checked for one session.
const MAX_NAMES: usize = 10_000;
/// How many directories deep child runs are searched for, below the directory named after the
/// session.
const MAX_DEPTH: usize = 3;

/// Counts the child runs next to the session file of `dir`, whose recorded id is `id`.
pub(super) fn count(dir: &RunDir, id: Option<&str>) -> u64 {
    let Some(files) = dir.tool().and_then(|tool| tool.child_files()) else {
        return 0;
    };
    let file = dir
        .path()
        .file_name()
        .and_then(OsStr::to_str)
        .unwrap_or_default();
    let stem = file.split_once('.').map_or(file, |(stem, _)| stem);
    let name = if files.by_id {
        id.unwrap_or_default()
    } else {
        stem
    };
    // The id comes from the trace and must not lead out of the directory.
    let mut parts = Path::new(name).components();
    if !(matches!(parts.next(), Some(Component::Normal(_))) && parts.next().is_none()) {
        return 0;
    }
    let mut below = dir.below().to_owned();
    if files.is_beside_directory && !below.pop() {
        return 0;
    }
    let place = files.below.replace("{}", name);
    let mut left = MAX_NAMES;
    walk(dir.root(), &below.join(place), &files, MAX_DEPTH, &mut left)
}

fn walk(root: &Path, below: &Path, files: &ChildFiles, depth: usize, left: &mut usize) -> u64 {
    let Ok(names) = Dir::open(root, below).and_then(|dir| dir.names()) else {
        return 0;
    };
    let mut found = 0;
    // A file may be there compressed too.
    let mut files_here: HashSet<OsString> = HashSet::new();
    for (name, kind) in names {
        let Some(rest) = left.checked_sub(1) else {
            break;
        };
        *left = rest;
        let is_child = |name: &str| name.starts_with(files.begins) && is_lines(name);
        match kind {
            Kind::Dir if depth > 0 => {
                found += walk(root, &below.join(name), files, depth - 1, left)
            }
            Kind::File if frames::plain(&name).to_str().is_some_and(is_child) => {
                files_here.insert(frames::plain(&name).to_owned());
            }
            _ => {}
        }
    }
    found + files_here.len() as u64
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use ruzstd::encoding::{CompressionLevel, compress_to_vec};

    use crate::trace::RunDir;

    const SESSION: &str =
        "sample_runs/tools/claude-code/-home-me-ledger/5f0c7a52-6d0e-4a53-9b0c-0f6f2b3f1a02";

    #[test]
    fn a_child_counts_once_however_its_file_is_compressed() {
        let root = tempfile::tempdir().unwrap();
        let session = root.path().join("session.jsonl");
        fs::copy(format!("{SESSION}.jsonl"), &session).unwrap();
        let below = root.path().join("session/subagents");
        fs::create_dir_all(&below).unwrap();
        let child = fs::read(Path::new(SESSION).join("subagents/agent-a1b2c3d4e5.jsonl")).unwrap();
        let children = || {
            let dir = RunDir::of_file(&session).unwrap().unwrap();
            super::count(&dir, None)
        };
        assert_eq!(children(), 0);
        let packed = compress_to_vec(&*child, CompressionLevel::Fastest);
        for (name, bytes, count) in [
            ("agent-a.jsonl.zst", &packed, 1),
            ("agent-a.jsonl", &child, 1),
            ("agent-b.JSONL.ZST", &packed, 2),
            ("agent-c.json.zst", &packed, 2),
        ] {
            fs::write(below.join(name), bytes).unwrap();
            assert_eq!(children(), count, "{name}");
        }
    }
}
