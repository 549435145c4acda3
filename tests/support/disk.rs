//! Finds the test data, and lists and copies directories.

use std::fs;
use std::path::{Path, PathBuf};

/// Returns the directory of recorded runs in this repository.
pub(crate) fn corpus() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus")
}

/// Lists every path below `root`, sorted. Symlinks are listed but not followed.
pub(crate) fn walk(root: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut open = vec![root.to_owned()];
    while let Some(dir) = open.pop() {
        let Ok(entries) = fs::read_dir(&dir) else {
            continue;
        };
        for entry in entries.flatten() {
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                open.push(entry.path());
            }
            found.push(entry.path());
        }
    }
    found.sort();
    found
}

/// Copies a directory recursively.
pub(crate) fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("the target can be made");
    for path in walk(from) {
        let target = to.join(path.strip_prefix(from).expect("walk stays below its root"));
        if path.is_dir() {
            fs::create_dir_all(&target).expect("the target can be made");
        } else {
            fs::copy(&path, &target).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        }
    }
}
