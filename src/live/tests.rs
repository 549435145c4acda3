use std::fs;
use std::time::Duration;

use super::run::Run;
use super::*;
use crate::trace::{RunDir, RunReader};

fn write_run(root: &std::path::Path, key: &str, manifest: &str) -> PathBuf {
    let dir = root.join(key);
    fs::create_dir_all(&dir).unwrap();
    fs::write(dir.join("manifest.json"), manifest).unwrap();
    dir
}

#[test]
fn where_roots_overlap_a_run_is_listed_once() {
    let root = tempfile::tempdir().unwrap();
    write_run(root.path(), "a", "{}");
    write_run(root.path(), "sub/b", "{}");
    let library = Library::load(vec![root.path().to_owned(), root.path().join("sub"), root.path().to_owned()]);
    let mut dirs: Vec<PathBuf> = library.runs().iter().map(|run| run.dir().path().to_owned()).collect();
    dirs.dedup();
    assert_eq!((library.runs().len(), dirs.len()), (2, 2));
}

#[test]
fn a_path_is_shown_below_the_root_as_it_was_typed() {
    let root = tempfile::tempdir().unwrap();
    let run = write_run(root.path(), "same/same", "{}");
    let shown = |root: PathBuf| Library::load(vec![root]).runs()[0].summary().path.clone();
    assert_eq!(shown(run.clone()), run.to_string_lossy());
    assert_eq!(shown(root.path().join("same")), run.to_string_lossy());
    let typed = run.join("../same/.");
    assert_eq!(shown(typed.clone()), typed.to_string_lossy());
}

#[test]
fn damage_that_stays_is_told_once() {
    let root = tempfile::tempdir().unwrap();
    for manifest in ["", "{\"run_id\": ", "[1]"] {
        let dir = write_run(root.path(), "a", manifest);
        let reader = RunReader::settling(RunDir::alone(&dir), Duration::ZERO);
        let run = Run::new(RunKey::new("a"), "a".to_owned(), reader);
        assert!(run.refresh(1 << 20).changed);
        assert!(!run.refresh(1 << 20).changed, "{manifest}");
    }
}

#[cfg(unix)]
#[test]
fn a_root_that_leads_elsewhere_keeps_a_run_of_the_same_name() {
    let (old, new, base) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    write_run(old.path(), "a", "{}");
    let moved = write_run(new.path(), "a", "{}");
    let link = base.path().join("runs");
    std::os::unix::fs::symlink(old.path(), &link).unwrap();
    let shared = Arc::new(Shared::new(std::slice::from_ref(&link)));
    let mut scanner = scan::Scanner::new(Arc::clone(&shared), vec![link.clone()], Options::default());
    scanner.look_at_roots();
    fs::remove_file(&link).unwrap();
    std::os::unix::fs::symlink(new.path(), &link).unwrap();
    scanner.look_at_roots();
    let runs = shared.runs.read().unwrap();
    let dirs: Vec<PathBuf> = runs.values().map(|run| run.dir().path().to_owned()).collect();
    assert_eq!(dirs, [fs::canonicalize(moved).unwrap()]);
}
