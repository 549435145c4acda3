//! Runs the same checks on many more runs than this repository contains. Walks the directory in
//! `BOARD_TRACES`, which is structured like `tests/corpus`; skipped without it.

use std::path::PathBuf;
use std::process::Command;

use crate::board::BINARY;
use crate::disk::corpus;
use crate::format::{listed_as_the_tables_say, serve_all};

pub(crate) fn traces() -> Option<PathBuf> {
    let dir = std::env::var_os("BOARD_TRACES")
        .map(PathBuf::from)
        .filter(|dir| dir.join("README.md").is_file());
    if dir.is_none() {
        eprintln!("skipped: BOARD_TRACES names no directory of traces");
    }
    dir
}

#[test]
fn every_run_is_listed_as_its_table_says() {
    let Some(traces) = traces() else { return };
    listed_as_the_tables_say(&traces);
}

#[test]
fn every_page_of_every_run_and_step_answers() {
    let Some(traces) = traces() else { return };
    let (board, runs) = serve_all(&traces);
    let mut wrong = Vec::new();
    for run in runs.values() {
        let key = crate::client::segment(run["key"].as_str().expect("a key"));
        let mut paths: Vec<String> = ["", "?tab=events", "?tab=manifest", "?tab=issues"]
            .iter()
            .map(|tab| format!("/runs/{key}{tab}"))
            .collect();
        paths.extend(
            ["", "/steps", "/why", "/raw"]
                .iter()
                .map(|part| format!("/api/runs/{key}{part}")),
        );
        for n in 0..run["steps"].as_u64().unwrap_or(0) {
            paths.push(format!("/runs/{key}?step={n}"));
            paths.push(format!("/runs/{key}/steps/{n}"));
            paths.push(format!("/api/runs/{key}/steps/{n}"));
        }
        for path in paths {
            let status = board.get(&path).status;
            if status != 200 {
                wrong.push(format!("{status} {path}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The damage to each damaged run, as `board check` reports it.
const DAMAGE: &[(&str, &str)] = &[
    (
        "emulated_q030_manifest_cut",
        "manifest.json: problem: truncated",
    ),
    (
        "emulated_q060_events_missing",
        "events.jsonl: problem: file not found",
    ),
    (
        "emulated_q060_garbage_lines",
        "events.jsonl:8: byte 8252: problem: not JSON",
    ),
    (
        "emulated_q060_jsonl_empty",
        "steps.jsonl: problem: the manifest counts 6 records, but the file has 0",
    ),
    (
        "emulated_q060_last_line_without_newline",
        "steps.jsonl:4: byte 8889: note: the last line has no newline",
    ),
    (
        "emulated_q060_manifest_empty",
        "manifest.json: problem: empty (0 bytes)",
    ),
    (
        "emulated_q060_manifest_is_array",
        "manifest.json: problem: expected an object, found an array",
    ),
    (
        "emulated_q060_manifest_missing",
        "manifest.json: problem: file not found",
    ),
    (
        "emulated_q060_renamed_directory",
        "the directory is named emulated_q060_renamed_directory",
    ),
    (
        "emulated_q060_steps_last_line_cut",
        "steps.jsonl: byte 8889: problem: the last 1,437 bytes aren't a complete line",
    ),
    (
        "emulated_q060_steps_missing",
        "steps.jsonl: problem: file not found",
    ),
];

#[test]
fn damage_is_named() {
    let traces = traces().unwrap_or_else(corpus);
    for (name, words) in DAMAGE {
        let output = Command::new(BINARY)
            .arg("check")
            .arg(traces.join("emulated").join(name))
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        assert_eq!(output.status.code(), Some(1), "{name}: {text}");
        assert!(text.contains(words), "{name}: {text}");
    }
}

#[test]
fn other_rules_get_an_answer_for_every_run() {
    let Some(traces) = traces() else { return };
    assert!(crate::whatif::every_run_answers(&traces) > 100);
}
