//! Does all of it hold on many more runs than this repository keeps? Walks the directory named by `BOARD_TRACES`,
//! which has the shape of `tests/corpus`; without it there is nothing to do.

use std::path::PathBuf;
use std::process::Command;

use crate::board::BINARY;
use crate::disk::walk;
use crate::format::{differences, serve_all};
use crate::tables;

fn traces() -> Option<PathBuf> {
    let dir = std::env::var_os("BOARD_TRACES").map(PathBuf::from).filter(|dir| dir.join("README.md").is_file());
    if dir.is_none() {
        eprintln!("skipped: BOARD_TRACES names no directory of traces");
    }
    dir
}

#[test]
fn every_run_is_listed_as_its_table_says() {
    let Some(traces) = traces() else { return };
    let (_board, runs) = serve_all(&traces);
    let mut wrong = Vec::new();
    for row in tables::read(&traces) {
        match runs.get(&row.name) {
            Some(run) => wrong.extend(differences(&row, run)),
            None if row.name == "emulated_empty_directory" => {}
            None => wrong.push(format!("{} is not listed", row.name)),
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_page_of_every_run_and_step_answers() {
    let Some(traces) = traces() else { return };
    let (board, runs) = serve_all(&traces);
    let mut wrong = Vec::new();
    for run in runs.values() {
        let key = run["key"].as_str().expect("a key").replace('/', "%2F");
        let mut paths: Vec<String> =
            ["", "?tab=events", "?tab=manifest", "?tab=issues"].iter().map(|tab| format!("/runs/{key}{tab}")).collect();
        paths.extend(["", "/steps", "/why", "/raw"].iter().map(|part| format!("/api/runs/{key}{part}")));
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

#[test]
fn damage_is_named() {
    let Some(traces) = traces() else { return };
    for dir in walk(&traces.join("emulated")).into_iter().filter(|path| path.is_dir()) {
        let name = dir.file_name().expect("a name").to_string_lossy().into_owned();
        if name == "emulated_empty_directory" || !name.starts_with("emulated_") {
            continue;
        }
        let output = Command::new(BINARY).arg("check").arg(&dir).output().expect("the board runs");
        let text = String::from_utf8_lossy(&output.stdout);
        assert_eq!(output.status.code(), Some(1), "{name}: {text}");
        assert!(!text.trim().is_empty(), "{name}");
    }
}
