//! Is every recorded run read right? The corpus against the table in its README.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::SystemTime;

use serde_json::Value;

use crate::board::Board;
use crate::disk::{corpus, walk};
use crate::tables::{self, Row, Stop};
use crate::wait::until;

/// A board over recorded runs that has read them all, and what it lists, by directory name.
pub(crate) fn serve_all(root: &Path) -> (Board, BTreeMap<String, Value>) {
    let board = Board::serve(root);
    until("everything is read", || (board.json("/healthz")["indexing"] == 0).then_some(()));
    let answer = board.json("/api/runs?limit=1000");
    let runs = answer["runs"].as_array().expect("a list of runs").clone();
    let name = |run: &Value| {
        let key = run["key"].as_str().expect("a run has a key");
        key.rsplit('/').next().unwrap_or(key).to_owned()
    };
    let runs = runs.into_iter().map(|run| (name(&run), run)).collect();
    (board, runs)
}

/// What `run` has wrong, against `row`.
pub(crate) fn differences(row: &Row, run: &Value) -> Vec<String> {
    let mut wrong = Vec::new();
    for (what, lines) in [("steps", row.steps), ("events", row.events)] {
        // A bad line counts where it has its line end; a torn last line does not.
        let got = run[what].as_u64().unwrap_or(0);
        if got != lines.good && got != lines.good + lines.bad {
            wrong.push(format!("{}: {got} {what}, should be {lines:?}", row.name));
        }
    }
    let mut check = |what: &str, got: Value, wanted: Value| {
        if got != wanted {
            wrong.push(format!("{}: {what} is {got}, should be {wanted}", row.name));
        }
    };
    check("status", run["status"].clone(), row.status.clone().into());
    match &row.stop_reason {
        Stop::Named(name) => check("stop_reason", run["stop_reason"].clone(), name.as_str().into()),
        Stop::Null => check("stop_reason", run["stop_reason"].clone(), Value::Null),
        Stop::Unsaid => {}
    }
    wrong
}

#[test]
fn every_run_is_listed_as_its_table_says() {
    let (_board, runs) = serve_all(&corpus());
    let mut wrong = Vec::new();
    for row in tables::read(&corpus()) {
        match runs.get(&row.name) {
            Some(run) => wrong.extend(differences(&row, run)),
            None if row.name == "emulated_empty_directory" => {}
            None => wrong.push(format!("{} is not listed", row.name)),
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_run_directory_is_never_written_to() {
    let state = || -> Vec<(std::path::PathBuf, SystemTime, u64)> {
        let meta = |path: &Path| path.symlink_metadata().expect("it is there");
        walk(&corpus())
            .into_iter()
            .map(|path| (path.clone(), meta(&path).modified().unwrap(), meta(&path).len()))
            .collect()
    };
    let before = state();
    let (board, runs) = serve_all(&corpus());
    for run in runs.values() {
        let key = run["key"].as_str().unwrap().replace('/', "%2F");
        assert_eq!(board.get(&format!("/runs/{key}")).status, 200, "{key}");
        assert_eq!(board.get(&format!("/api/runs/{key}/raw")).status, 200, "{key}");
    }
    drop(board);
    assert_eq!(before, state());
}

#[test]
fn the_corpus_stays_small() {
    let bytes: u64 = walk(&corpus()).iter().filter_map(|path| fs::metadata(path).ok()).map(|meta| meta.len()).sum();
    assert!(bytes < 3_500_000, "{bytes} bytes");
}
