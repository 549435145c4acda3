//! Tests that every recorded run is read correctly, by comparing the corpus with the tables in its
//! README.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::SystemTime;

use base64::Engine as _;
use serde_json::Value;

use crate::board::{BINARY, Board};
use crate::disk::{corpus, walk};
use crate::tables::{self, Row, Stop};

/// Starts a board over recorded runs and waits until all are read. Also returns its rows by
/// directory name.
pub(crate) fn serve_all(root: &Path) -> (Board, BTreeMap<String, Value>) {
    let board = Board::serve(root);
    board.until_read();
    let answer = board.json("/api/runs?limit=1000");
    let runs = answer["runs"].as_array().expect("a list of runs").clone();
    let name = |run: &Value| {
        let key = run["key"].as_str().expect("a run has a key");
        key.rsplit('/').next().unwrap_or(key).to_owned()
    };
    let runs = runs.into_iter().map(|run| (name(&run), run)).collect();
    (board, runs)
}

/// Serves `root` and compares every run with the tables of its README.
pub(crate) fn listed_as_the_tables_say(root: &Path) {
    let (_board, runs) = serve_all(root);
    let mut wrong = Vec::new();
    for row in tables::read(root) {
        match runs.get(&row.name) {
            Some(run) => wrong.extend(differences(&row, run)),
            None if row.name == "emulated_empty_directory" => {}
            None => wrong.push(format!("{} is not listed", row.name)),
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Runs whose manifest or events count a different number of steps than there are lines, so the
/// number is unknown.
const UNCOUNTED: [&str; 5] = [
    "emulated_q060_garbage_lines",
    "emulated_q060_jsonl_empty",
    "emulated_q060_steps_last_line_cut",
    "emulated_q060_steps_missing",
    "q060_tracing_provider",
];

/// Lists the differences between `run` and `row`.
fn differences(row: &Row, run: &Value) -> Vec<String> {
    let mut wrong = Vec::new();
    for (what, lines) in [("steps", row.steps), ("events", row.events)] {
        // An invalid line counts if it has a line end. A torn last line doesn't.
        let got = run[what].as_u64().unwrap_or(0);
        let is_missing = what == "events" && row.name == "emulated_q060_events_missing";
        let is_untold = is_missing || what == "steps" && UNCOUNTED.contains(&&*row.name);
        if is_untold != run[what].is_null() {
            wrong.push(format!(
                "{}: {what} is {}, known: {}",
                row.name, run[what], !is_untold
            ));
        }
        if is_untold {
            continue;
        }
        // The tables count all lines of a file, the board only those of the newest run in it.
        let holds = match run["segment_count"].as_u64() {
            Some(2..) => (1..lines.good).contains(&got),
            _ => got == lines.good || got == lines.good + lines.bad,
        };
        if !holds {
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
        Stop::Named(name) => check(
            "stop_reason",
            run["stop_reason"].clone(),
            name.as_str().into(),
        ),
        Stop::Null => check("stop_reason", run["stop_reason"].clone(), Value::Null),
        Stop::Unsaid => {}
    }
    wrong
}

#[test]
fn every_run_is_listed_as_its_table_says() {
    listed_as_the_tables_say(&corpus());
}

#[test]
fn a_run_directory_is_never_written_to() {
    let state = || -> Vec<(std::path::PathBuf, SystemTime, u64)> {
        let meta = |path: &Path| path.symlink_metadata().expect("it exists");
        walk(&corpus())
            .into_iter()
            .map(|path| {
                (
                    path.clone(),
                    meta(&path).modified().unwrap(),
                    meta(&path).len(),
                )
            })
            .collect()
    };
    let before = state();
    let (board, runs) = serve_all(&corpus());
    for run in runs.values() {
        let key = crate::client::segment(run["key"].as_str().unwrap());
        assert_eq!(board.get(&format!("/runs/{key}")).status, 200, "{key}");
        assert_eq!(
            board.get(&format!("/api/runs/{key}/raw")).status,
            200,
            "{key}"
        );
    }
    drop(board);
    assert_eq!(before, state());
}

#[test]
fn lines_come_back_byte_for_byte() {
    let (board, runs) = serve_all(&corpus());
    for run in runs.values() {
        let key = run["key"].as_str().unwrap();
        let raw = board.json(&format!("/api/runs/{}/raw", crate::client::segment(key)));
        for (file, lines) in [
            ("steps.jsonl", &raw["steps"]),
            ("events.jsonl", &raw["events"]),
        ] {
            let on_disk = fs::read(corpus().join(key).join(file)).unwrap_or_default();
            let mut sent = Vec::new();
            for line in lines.as_array().into_iter().flatten() {
                sent.extend(bytes(line));
                sent.push(b'\n');
            }
            if !on_disk.ends_with(b"\n") {
                sent.pop();
            }
            assert!(
                sent == on_disk,
                "{key}/{file}: {} bytes sent, {} on disk",
                sent.len(),
                on_disk.len()
            );
        }
        let manifest = fs::read(corpus().join(key).join("manifest.json")).unwrap_or_default();
        assert_eq!(bytes(&raw["manifest"]), manifest, "{key}");
    }
}

/// Returns a line's bytes: sent as text, or as Base64 if it isn't UTF-8. Empty without a file.
fn bytes(line: &Value) -> Vec<u8> {
    match (line.as_str(), line["base64"].as_str()) {
        (Some(text), _) => text.as_bytes().to_vec(),
        (None, Some(code)) => base64::engine::general_purpose::STANDARD
            .decode(code)
            .expect("it is Base64"),
        (None, None) => Vec::new(),
    }
}

#[test]
fn every_oddity_of_the_corpus_is_named_with_its_place() {
    let mut said = String::new();
    let is_run = |dir: &Path| {
        ["manifest.json", "steps.jsonl", "events.jsonl"]
            .iter()
            .any(|file| dir.join(file).is_file())
    };
    for dir in walk(&corpus()).into_iter().filter(|path| is_run(path)) {
        let name = dir.strip_prefix(corpus()).unwrap();
        let mut check = Command::new(BINARY);
        let output = check
            .arg("check")
            .arg(name)
            .current_dir(corpus())
            .env("NO_COLOR", "1")
            .output()
            .unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let found = !text.ends_with(": no issues\n");
        assert_eq!(output.status.code(), Some(i32::from(found)), "{text}");
        said.push_str(&text);
    }
    insta::assert_snapshot!(said);
}

#[test]
fn the_corpus_stays_small() {
    let bytes: u64 = walk(&corpus())
        .iter()
        .filter_map(|path| fs::metadata(path).ok())
        .map(|meta| meta.len())
        .sum();
    assert!(bytes < 3_500_000, "{bytes} bytes");
}
