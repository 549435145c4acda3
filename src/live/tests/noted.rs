//! What is noted for the next start where the board is ended early.

use super::*;
use crate::live::cache::Cache;

/// The places of runs of which the file in `cache` tells something, in its order.
fn told(cache: &Path) -> Vec<String> {
    let text = fs::read_to_string(cache_file(cache)).unwrap();
    let place = |line: &str| {
        let line: serde_json::Value = serde_json::from_str(line).ok()?;
        Some(Path::new(line.get("dir")?.as_str()?).file_name()?.to_str()?.to_owned())
    };
    text.lines().filter_map(place).collect()
}

#[test]
fn a_board_that_is_ended_while_it_notes_what_it_knows_loses_the_cheapest_runs_alone() {
    let (root, dir) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    for (key, task) in [("a", "short"), ("b", &*"long ".repeat(900)), ("c", &*"middle ".repeat(90))] {
        write_old_run(root.path(), key, task);
    }
    let roots = vec![root.path().to_owned()];
    let shared = Arc::new(Shared::new(&roots, &[]));
    let options = Options { poll: Some(Duration::MAX), ..Options::default() };
    let mut scanner = scan::Scanner::new(Arc::clone(&shared), roots, options);
    scanner.look_at_roots();
    while scanner.read_piece() {}
    let runs: Vec<_> = shared.runs.read().unwrap().values().cloned().collect();
    let place = fs::canonicalize(root.path()).unwrap();

    Cache::open(dir.path()).unwrap().add(&place, "", &runs).unwrap();
    assert_eq!(told(dir.path()), ["b", "c", "a"]);
    // As if it had been ended in the middle of the second run.
    let text = fs::read_to_string(cache_file(dir.path())).unwrap();
    let ends: Vec<usize> = text.match_indices('\n').map(|(at, _)| at).collect();
    fs::write(cache_file(dir.path()), &text[..(ends[2] + ends[3]) / 2]).unwrap();
    let next = Cache::open(dir.path()).unwrap();
    let known = next.load(&place);
    assert_eq!(known.keys().map(|dir| dir.file_name().unwrap()).collect::<Vec<_>>(), ["b"]);
    // The next board adds what is missing, once.
    next.add(&place, "", &runs).unwrap();
    next.add(&place, "", &runs).unwrap();
    assert_eq!(told(dir.path()), ["b", "c", "a"]);
    assert_eq!(next.load(&place).len(), 3);
    // A file that is written anew is given up where the board ends, and stays as it was.
    next.hurry();
    assert!(next.save(&place, "", &runs[..1]).is_err());
    assert_eq!(told(dir.path()).len(), 3);
    fs::remove_file(cache_file(dir.path())).unwrap();
    next.add(&place, "", &runs).unwrap();
    assert_eq!(told(dir.path()).len(), 3, "where the file went, all are noted again");
}
