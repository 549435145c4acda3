//! Tests the index cache when board is stopped early.

use super::*;
use crate::analysis::verdict::RunStatus;
use crate::live::cache::Cache;

/// Returns the names of the runs in the cache file, in its order.
fn told(cache: &Path) -> Vec<String> {
    let text = fs::read_to_string(cache_file(cache)).unwrap();
    let place = |line: &str| {
        let line: serde_json::Value = serde_json::from_str(line.split_once(' ')?.1).ok()?;
        Some(
            Path::new(line.get("dir")?.as_str()?)
                .file_name()?
                .to_str()?
                .to_owned(),
        )
    };
    text.lines().filter_map(place).collect()
}

#[test]
fn a_board_that_is_ended_while_it_notes_what_it_knows_loses_the_cheapest_runs_alone() {
    let (root, dir) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    for (key, task) in [
        ("a", "short"),
        ("b", &*"long ".repeat(900)),
        ("c", &*"middle ".repeat(90)),
    ] {
        write_old_run(root.path(), key, task);
    }
    let roots = vec![root.path().to_owned()];
    let shared = Arc::new(Shared::new(&roots, &[]));
    let options = Options {
        poll: Some(Duration::MAX),
        ..Options::default()
    };
    let mut scanner = scan::Scanner::new(Arc::clone(&shared), roots, options);
    scanner.look_at_roots();
    while scanner.read_piece() {}
    let runs: Vec<_> = shared.runs.read().unwrap().values().cloned().collect();
    let place = fs::canonicalize(root.path()).unwrap();

    Cache::open(dir.path())
        .unwrap()
        .add(&place, "", &runs)
        .unwrap();
    assert_eq!(told(dir.path()), ["b", "c", "a"]);
    // Simulates that board was killed in the middle of the second run.
    let text = fs::read_to_string(cache_file(dir.path())).unwrap();
    let ends: Vec<usize> = text.match_indices('\n').map(|(at, _)| at).collect();
    fs::write(cache_file(dir.path()), &text[..(ends[2] + ends[3]) / 2]).unwrap();
    let next = Cache::open(dir.path()).unwrap();
    let known = next.load(&place);
    assert_eq!(
        known
            .keys()
            .map(|dir| dir.file_name().unwrap())
            .collect::<Vec<_>>(),
        ["b"]
    );
    // The next board adds the missing rows, once.
    next.add(&place, "", &runs).unwrap();
    next.add(&place, "", &runs).unwrap();
    assert_eq!(told(dir.path()), ["b", "c", "a"]);
    assert_eq!(next.load(&place).len(), 3);
    // A rewrite is abandoned when board stops, and the file is unchanged.
    next.hurry();
    assert!(next.save(&place, "", &runs[..1]).is_err());
    assert_eq!(told(dir.path()).len(), 3);
    fs::remove_file(cache_file(dir.path())).unwrap();
    next.add(&place, "", &runs).unwrap();
    assert_eq!(
        told(dir.path()).len(),
        3,
        "all runs are written again if the file is gone"
    );
}

#[test]
fn three_flipped_bits_of_a_row_cost_that_row_alone() {
    let (root, cache) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    for key in ["a", "b"] {
        write_old_run(root.path(), key, "count");
    }
    let told = |read: usize| {
        let run = |key: &str, read| (key.to_owned(), Some("count".to_owned()), read);
        vec![run("a", read), run("b", read)]
    };
    assert_eq!(start(root.path(), cache.path()), told(2));
    let good = fs::read(cache_file(cache.path())).unwrap();
    let row = good.iter().position(|byte| *byte == b'\n').unwrap() + 1;
    let end = row + good[row..].iter().position(|byte| *byte == b'\n').unwrap();
    for at in (row..end - 8).step_by(37) {
        let mut odd = good.clone();
        [(at, 1), (at + 3, 2), (at + 5, 4)]
            .into_iter()
            .for_each(|(at, bit)| odd[at] ^= bit);
        fs::write(cache_file(cache.path()), odd).unwrap();
        let found = start(root.path(), cache.path());
        assert!(found == told(1) || found == told(2), "byte {at}: {found:?}");
    }
}

#[test]
fn opening_a_run_corrects_the_row_that_the_cache_made_up() {
    let (root, dir) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let path = write_old_run(root.path(), "a", "count");
    let place = fs::canonicalize(root.path()).unwrap();
    let library = Library::load(vec![place.clone()]);
    let true_run = library.run("a").unwrap();
    let stamps = true_run.stamps().unwrap();
    let honest = Summary::clone(&true_run.summary());
    let mut made_up = honest.clone();
    made_up.verdict.mark = RunStatus::Died;
    made_up.verdict.sentence = "Died in step 7".into();
    made_up.answer = Some("forty-two".into());
    let run_dir = true_run.dir().clone();
    let run = Arc::new(Run::parked(run_dir, Duration::ZERO, stamps, made_up));
    let cache = Cache::open(dir.path()).unwrap();
    cache.save(&place, "", std::slice::from_ref(&run)).unwrap();
    let noted = |cache: &Cache| {
        cache
            .load(&place)
            .remove(&fs::canonicalize(&path).unwrap())
            .unwrap()
            .1
    };
    assert_eq!(noted(&cache).verdict.sentence, "Died in step 7");

    drop(run.index());
    assert_eq!(run.summary().verdict, honest.verdict);
    assert_eq!(run.summary().answer, honest.answer);
    // The cached row is corrected, too.
    run.refresh(1 << 20);
    cache.add(&place, "", std::slice::from_ref(&run)).unwrap();
    assert_eq!(
        noted(&Cache::open(dir.path()).unwrap()).verdict,
        honest.verdict
    );
}

#[cfg(unix)]
#[test]
fn a_cache_that_is_a_pipe_a_device_or_a_link_is_replaced_and_stops_nothing() {
    let (root, cache) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    write_old_run(root.path(), "a", "count");
    let told = |read| vec![("a".to_owned(), Some("count".to_owned()), read)];
    assert_eq!(start(root.path(), cache.path()), told(1));
    let file = cache_file(cache.path());
    let elsewhere = root.path().join("elsewhere");
    fs::copy(&file, &elsewhere).unwrap();
    for target in [None, Some(Path::new("/dev/zero")), Some(&*elsewhere)] {
        fs::remove_file(&file).unwrap();
        match target {
            Some(target) => std::os::unix::fs::symlink(target, &file).unwrap(),
            None => assert!(
                std::process::Command::new("mkfifo")
                    .arg(&file)
                    .status()
                    .unwrap()
                    .success()
            ),
        }
        assert_eq!(start(root.path(), cache.path()), told(1), "{target:?}");
        assert!(fs::symlink_metadata(&file).unwrap().is_file(), "{target:?}");
        assert_eq!(start(root.path(), cache.path()), told(0), "{target:?}");
    }
}

#[test]
fn a_line_without_an_end_is_not_held() {
    let (root, cache) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    write_old_run(root.path(), "a", "count");
    let told = |read| vec![("a".to_owned(), Some("count".to_owned()), read)];
    assert_eq!(start(root.path(), cache.path()), told(1));
    // Sparse zeros after the first row, without a line terminator.
    fs::File::options()
        .append(true)
        .open(cache_file(cache.path()))
        .unwrap()
        .set_len(64 << 20)
        .unwrap();
    assert_eq!(start(root.path(), cache.path()), told(0));
}
