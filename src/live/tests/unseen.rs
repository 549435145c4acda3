//! Tests changes that only another part of a run or of its file reveals.

use super::replaced::{fresh, sample, told};
use super::*;

/// Sets the modification times of files and directories to `hours` ago.
fn age(paths: &[PathBuf], hours: u64) {
    let time = std::time::SystemTime::now() - Duration::from_secs(hours * 3600);
    for path in paths {
        fs::File::open(path).unwrap().set_modified(time).unwrap();
    }
}

/// Returns a board that has read everything below `root`.
fn board(root: &Path) -> (Arc<Shared>, scan::Scanner) {
    let root = root.to_owned();
    let shared = Arc::new(Shared::new(std::slice::from_ref(&root), &[]));
    let mut scanner = scan::Scanner::new(Arc::clone(&shared), vec![root], Options::default());
    scanner.look_at_roots();
    while scanner.read_piece() {}
    (shared, scanner)
}

fn only(shared: &Shared) -> Arc<Run> {
    let runs = shared.runs.read().unwrap();
    assert_eq!(runs.len(), 1);
    Arc::clone(runs.values().next().unwrap())
}

#[cfg(unix)]
#[test]
fn a_record_that_is_written_over_in_its_own_file_is_seen() {
    for parked in [false, true] {
        let dir = tempfile::tempdir().unwrap();
        let root = fs::canonicalize(dir.path()).unwrap();
        let run = "openhands/conversations/111111110000400080000000000000a2";
        let from = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("sample_runs/tools")
            .join(run);
        fs::create_dir_all(root.join("a2/events")).unwrap();
        fs::copy(
            from.join("base_state.json"),
            root.join("a2/base_state.json"),
        )
        .unwrap();
        let mut files = vec![root.join("a2/base_state.json")];
        for entry in fs::read_dir(from.join("events")).unwrap() {
            let entry = entry.unwrap();
            files.push(root.join("a2/events").join(entry.file_name()));
            fs::copy(entry.path(), files.last().unwrap()).unwrap();
        }
        files.sort();
        files.push(root.join("a2/events"));
        age(&files, 1);
        let (shared, mut scanner) = board(&root);
        let run = only(&shared);
        assert_eq!(run.summary().issues.1, 0);
        // Requesting the index keeps the run open.
        match parked {
            true => assert!(run.is_parked() || run.park(false)),
            false => assert_eq!(told(&shared), fresh(&root)),
        }
        // Its directory's stamp doesn't change.
        fs::write(&files[1], "[").unwrap();
        age(&files[1..2], 1);
        scanner.refresh(&run);
        let seen = told(&shared);
        assert_eq!(seen, fresh(&root), "parked: {parked}");
        assert!(run.summary().issues.1 > 0, "{seen:?}");
    }
}

#[cfg(unix)]
#[test]
fn of_very_many_records_new_ones_are_read_at_once_and_changed_ones_are_seen() {
    let dir = tempfile::tempdir().unwrap();
    let root = fs::canonicalize(dir.path()).unwrap();
    let run = "openhands/conversations/111111110000400080000000000000a2";
    let from = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("sample_runs/tools")
        .join(run);
    fs::create_dir_all(root.join("a2/events")).unwrap();
    fs::copy(
        from.join("base_state.json"),
        root.join("a2/base_state.json"),
    )
    .unwrap();
    let mut events: Vec<_> = fs::read_dir(from.join("events"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    events.sort();
    let event = |n: usize| {
        root.join(format!(
            "a2/events/event-{n:05}-00000000-0000-4000-8000-000000000000.json"
        ))
    };
    for n in 0..1_200 {
        fs::copy(&events[n.min(1)], event(n)).unwrap();
    }
    let (shared, mut scanner) = board(&root);
    let run = only(&shared);
    // Requesting the index keeps the run open.
    assert_eq!(run.index().events().len(), 1_200);
    fs::copy(&events[1], event(1_200)).unwrap();
    scanner.refresh(&run);
    assert_eq!(
        run.index().events().len(),
        1_201,
        "even if not all files are checked"
    );
    fs::write(event(600), "[").unwrap();
    until("the change is seen", || {
        scanner.refresh(&run);
        while scanner.read_piece() {}
        told(&shared) == fresh(&root)
    });
    assert!(run.summary().issues.0 > 0);
}

#[test]
fn a_run_whose_file_gets_another_time_was_written_then() {
    let dir = tempfile::tempdir().unwrap();
    let root = fs::canonicalize(dir.path()).unwrap();
    let run = write_run(
        &root,
        "a",
        r#"{"run_id": "a", "schema_version": "v1", "status": "completed", "summary": {"stop_reason": "final"}}"#,
    );
    fs::write(run.join("steps.jsonl"), "{\"step_id\": 0}\n").unwrap();
    age(&[run.join("manifest.json")], 9);
    let files = [run.join("steps.jsonl")];
    age(&files, 1);
    let (shared, mut scanner) = board(&root);
    let updated = |shared: &Shared| only(shared).summary().updated.unwrap();
    let before = updated(&shared);
    // Requesting the index keeps the run open. A run without an index is reloaded whatever changed.
    only(&shared).index();
    age(&files, 5);
    scanner.refresh(&only(&shared));
    assert_eq!(updated(&shared), updated(&Library::load(vec![root]).shared));
    assert!(updated(&shared) < before - 3_600_000_000);
}

#[test]
fn damage_of_an_archive_is_an_issue_of_each_run_wherever_one_looks() {
    let dir = tempfile::tempdir().unwrap();
    let root = fs::canonicalize(dir.path()).unwrap();
    let path = root.join("l.eval");
    let whole = sample("inspect/ledger.eval");
    let issues = |shared: &Shared| {
        let runs = shared.runs.read().unwrap();
        runs.values()
            .map(|run| (run.key().to_string(), run.summary().issues.0))
            .collect::<Vec<_>>()
    };
    // Without the archive's central directory, its members are found by their headers.
    fs::write(&path, &whole[..whole.len() - 10]).unwrap();
    let (shared, mut scanner) = board(&root);
    let found = issues(&shared);
    assert!(
        !found.is_empty() && found.iter().all(|(_, issues)| *issues == 1),
        "{found:?}"
    );
    for run in shared.runs.read().unwrap().values() {
        let index = crate::trace::read_index(run.dir());
        assert_eq!(
            crate::analysis::health::counts(&index).0,
            1,
            "a run read on its own"
        );
        assert_eq!(run.index_once().passing_issues(), index.passing_issues());
    }
    let runs: Vec<_> = shared.runs.read().unwrap().values().cloned().collect();
    for run in &runs {
        assert!(run.is_parked() || run.park(false), "{}", run.key());
    }
    fs::write(&path, &whole).unwrap();
    scanner.look_at_roots();
    for run in &runs {
        scanner.refresh(run);
    }
    while scanner.read_piece() {}
    let mended = issues(&shared);
    assert!(mended.iter().all(|(_, issues)| *issues == 0), "{mended:?}");
    assert_eq!(told(&shared), fresh(&root));
}

#[cfg(unix)]
#[test]
fn a_member_that_is_damaged_or_mended_where_it_lies_is_read_again() {
    let dir = tempfile::tempdir().unwrap();
    let root = fs::canonicalize(dir.path()).unwrap();
    let path = root.join("l.eval");
    let whole = sample("inspect/ledger.eval");
    let mut damaged = whole.clone();
    // In the compressed bytes of the first sample. The central directory is unchanged.
    let name = b"samples/";
    let at = whole
        .windows(name.len())
        .position(|bytes| bytes == name)
        .unwrap()
        + 200;
    damaged[at..at + 2]
        .iter_mut()
        .for_each(|byte| *byte ^= 0xff);
    fs::write(&path, &whole).unwrap();
    let (shared, mut scanner) = board(&root);
    let runs: Vec<_> = shared.runs.read().unwrap().values().cloned().collect();
    let stamps = |run: &Run| crate::trace::Stamps::of(run.dir());
    for run in &runs {
        assert!(run.is_parked() || run.park(false), "{}", run.key());
    }
    // The first iteration finds the runs parked. Requesting the steps keeps them open.
    for (bytes, issues) in [(&damaged, true), (&whole, false), (&damaged, true)] {
        let before: Vec<_> = runs.iter().map(|run| stamps(run)).collect();
        // In place and with the old modification time: the file has the same size and age.
        fs::write(&path, bytes).unwrap();
        age(std::slice::from_ref(&path), 1);
        for run in &runs {
            scanner.refresh(run);
        }
        while scanner.read_piece() {}
        assert_eq!(runs.iter().any(|run| run.summary().issues.0 > 0), issues);
        assert!(
            runs.iter()
                .zip(before)
                .all(|(run, before)| stamps(run) != before),
            "the cached stamps are outdated"
        );
    }
    fs::write(&path, &whole).unwrap();
    for run in &runs {
        scanner.refresh(run);
    }
    while scanner.read_piece() {}
    assert_eq!(told(&shared), fresh(&root));
}
