//! Tests files of several runs that are too large to be listed on the scan thread.

use super::*;

#[test]
fn runs_of_a_large_file_come_to_the_board_and_follow_its_changes() {
    let dir = tempfile::tempdir().unwrap();
    let root = fs::canonicalize(dir.path()).unwrap();
    let results = |runs: usize| {
        let run = |n: usize| format!(r#"{{"id":"s{n}","task_id":"t{n}","trial":0,"messages":[]}}"#);
        let runs: Vec<String> = (0..runs).map(run).collect();
        let (runs, padding) = (runs.join(","), " ".repeat(2 << 20));
        format!(
            r#"{{"timestamp":"2026-03-02T10:00:59","info":{{"user_info":{{}},"agent_info":{{}}}},"tasks":[],"simulations":[{runs}]{padding}}}"#
        )
    };
    fs::write(root.join("results.json"), results(2)).unwrap();
    let library = Library::open(vec![root.clone()], Options::default());
    let runs = || library.shared.runs.read().unwrap().len();
    until("both runs are listed", || {
        runs() == 2 && library.status().indexing == 0
    });
    fs::write(root.join("results.json"), results(3)).unwrap();
    until("all runs are listed", || {
        runs() == 3 && library.status().indexing == 0
    });
}
