use super::*;

fn keys(found: &RootScan) -> Vec<&str> {
    found.runs.keys().map(RunKey::as_str).collect()
}

#[test]
fn runs_at_any_depth_up_to_eight() {
    let root = tempfile::tempdir().unwrap();
    for path in ["a", "b/c/d/e/f/g/h/i", "b/c/d/e/f/g/h/i/j", "a/sub"] {
        let dir = root.path().join(path);
        fs::create_dir_all(&dir).unwrap();
        fs::write(dir.join("manifest.json"), "{}").unwrap();
    }
    fs::create_dir_all(root.path().join("empty")).unwrap();
    fs::create_dir_all(root.path().join("a/assets")).unwrap();
    let mut scanner = RootScanner::new(root.path().to_owned());
    let found = scanner.scan();
    assert_eq!(keys(&found), ["a", "a/sub", "b/c/d/e/f/g/h/i"]);
    assert_eq!(found.skipped, [Skipped { path: "empty".to_owned(), reason: "no trace file in it".to_owned() }]);
    fs::remove_dir_all(root.path().join("a/sub")).unwrap();
    assert_eq!(keys(&scanner.scan()), ["a", "b/c/d/e/f/g/h/i"]);
}

#[test]
fn a_root_that_is_missing_or_a_file_or_a_run() {
    let root = tempfile::tempdir().unwrap();
    let inside = root.path().join("runs");
    assert_eq!(RootScanner::new(inside.clone()).scan().fault.as_deref(), Some("it does not exist yet"));
    fs::write(&inside, "x").unwrap();
    assert_eq!(RootScanner::new(inside.clone()).scan().fault.as_deref(), Some("it is not a directory"));
    fs::remove_file(&inside).unwrap();
    fs::create_dir(&inside).unwrap();
    fs::write(inside.join("events.jsonl"), "").unwrap();
    assert_eq!(keys(&RootScanner::new(inside).scan()), ["runs"]);
}

#[test]
fn a_look_says_that_it_goes_on_before_each_directory() {
    let root = tempfile::tempdir().unwrap();
    for n in 0..40 {
        fs::create_dir(root.path().join(format!("{n:02}"))).unwrap();
    }
    let mut scanner = RootScanner::new(root.path().to_owned());
    for _ in ["first", "unchanged"] {
        let calls = std::cell::Cell::new(0);
        scanner.scan_with(&|| calls.set(calls.get() + 1));
        assert_eq!(calls.get(), 41);
    }
}

#[test]
fn a_look_at_a_part_of_a_root_goes_no_further() {
    let root = tempfile::tempdir().unwrap();
    for n in 0..40 {
        let dir = root.path().join(format!("{n:02}"));
        fs::create_dir(&dir).unwrap();
        fs::write(dir.join("manifest.json"), "{}").unwrap();
        fs::write(root.path().join(format!("{n:02}.jsonl")), "{}").unwrap();
    }
    let mut scanner = RootScanner::new(root.path().to_owned());
    let looked_into = |scanner: &RootScanner| {
        scanner.cache.len() + scanner.cache.values().map(|listing| listing.files.len()).sum::<usize>()
    };
    let (found, is_all) = scanner.scan_some(50);
    assert_eq!((found.runs.len(), is_all, looked_into(&scanner)), (9, false, 50));
    let (found, is_all) = RootScanner::new(root.path().to_owned()).scan_some(5);
    assert_eq!((found.runs.len(), is_all), (0, false), "files alone");
    let (found, is_all) = RootScanner::new(root.path().to_owned()).scan_some(81);
    assert_eq!((found.runs.len(), is_all), (40, true));
}

#[cfg(unix)]
#[test]
fn links_to_directories_are_named_and_not_followed() {
    let (root, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    fs::write(outside.path().join("manifest.json"), "{}").unwrap();
    std::os::unix::fs::symlink(outside.path(), root.path().join("link")).unwrap();
    let found = RootScanner::new(root.path().to_owned()).scan();
    assert!(found.runs.is_empty());
    assert!(found.skipped[0].reason.contains("link"));
}

#[cfg(unix)]
#[test]
fn a_run_that_came_is_seen_although_the_time_of_its_directory_was_put_back() {
    let root = tempfile::tempdir().unwrap();
    let hour_ago = std::time::SystemTime::now() - std::time::Duration::from_secs(3600);
    let add = |name: &str| {
        fs::create_dir(root.path().join(name)).unwrap();
        fs::write(root.path().join(name).join("manifest.json"), "{}").unwrap();
        fs::File::open(root.path()).unwrap().set_modified(hour_ago).unwrap();
    };
    add("a");
    let mut scanner = RootScanner::new(root.path().to_owned());
    assert_eq!(keys(&scanner.scan()), ["a"]);
    add("b");
    assert_eq!(keys(&scanner.scan()), ["a", "b"]);
}
