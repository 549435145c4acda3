//! Tests the newest edits over all runs: the command, the page and the JSON.

use std::fs;
use std::path::Path;

use crate::board::Board;
use crate::cli::board;
use crate::disk::copy;
use crate::html::{page, texts};

/// Copies a run with four edits to a directory called `name`.
fn with_edits(name: &str) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let sample = Path::new(env!("CARGO_MANIFEST_DIR")).join("sample_runs/critic_stop");
    copy(&sample, &dir.path().join(name));
    dir
}

#[cfg(unix)]
#[test]
fn a_run_whose_name_has_a_line_feed_stays_on_its_line() {
    let dir = with_edits("two\nlines");
    let said = board(&["edits", &dir.path().display().to_string()]);
    assert_eq!((said.code, said.stderr.as_str()), (0, ""));
    let lines: Vec<&str> = said.stdout.lines().collect();
    assert_eq!(lines.len(), 5, "{}", said.stdout);
    assert!(
        lines.iter().take(4).all(|line| line.ends_with("two↵lines")),
        "{}",
        said.stdout
    );
}

#[test]
fn a_page_beyond_the_last_edit_says_how_many_there_are() {
    let dir = with_edits("run");
    let board = Board::serve(dir.path());
    board.until_read();
    for after in [4, 500, usize::MAX] {
        let page = board.get(&format!("/edits?after={after}"));
        assert_eq!(page.status, 200);
        let text = page.text();
        assert!(text.contains(">4 edits in 1 run.<"), "{text}");
        assert!(text.contains("href=\"/edits\">Newest edits<"), "{text}");
        let answer = board.json(&format!("/api/edits?after={after}"));
        assert_eq!(answer["edits"], serde_json::json!([]));
        assert_eq!(answer["next"], serde_json::Value::Null);
    }
    let page = board.get("/edits?after=2");
    let text = page.text();
    assert!(text.contains("4 edits in 1 run, showing 3–4."), "{text}");
}

#[test]
fn an_edit_that_the_run_was_rewound_over_is_abandoned() {
    let case = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/cases/12-cc-rewind/73552791-8b74-47b9-8576-f6b911452161.jsonl");
    let wanted = [
        (
            r#""name": "Bash", "input": {"command": "A"}"#,
            r#""name": "Write", "input": {"file_path": "/home/u/proj/a.txt", "content": "A\n"}"#,
        ),
        (
            r#""content": "boom", "is_error": true"#,
            r#""content": "File created""#,
        ),
    ];
    let mut text = fs::read_to_string(&case).unwrap();
    for (from, to) in wanted {
        assert!(text.contains(from));
        text = text.replace(from, to);
    }
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join(case.file_name().unwrap()), text).unwrap();
    let root = dir.path().display().to_string();
    let said = board(&["edits", &root]).stdout;
    assert!(said.contains("a.txt (abandoned: "), "{said}");
    let answer: serde_json::Value =
        serde_json::from_str(&board(&["edits", &root, "--json"]).stdout).unwrap();
    assert_eq!(answer["edits"][0]["left"], true, "{answer}");
}

/// Returns the keys of the runs that a query finds.
fn found(board: &Board, query: &str) -> Vec<String> {
    let runs = board.json(&format!("/api/runs?q={query}"));
    let keys = runs["runs"].as_array().unwrap().iter();
    keys.map(|run| run["key"].as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn a_submitted_patch_names_the_files_that_a_run_edited() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("sample_runs/tools/swe-agent");
    let board = Board::serve(&root);
    board.until_read();
    let mut keys = found(&board, "file%3Asplit.py");
    keys.sort_unstable();
    assert_eq!(keys, ["cost_limit.traj", "submitted.traj"]);
    assert!(found(&board, "file%3Aother.py").is_empty());
    // The tab counts what it lists, though no step records a change.
    for key in keys {
        let tabs = texts(&page(&board, &format!("/runs/{key}")), "nav.tabs a");
        assert!(tabs.contains(&"Files 1".to_owned()), "{key}: {tabs:?}");
    }
}

#[test]
fn the_calls_of_a_run_name_the_files_that_it_edited() {
    let dir = with_edits("run");
    let board = Board::serve(dir.path());
    board.until_read();
    let files = board.json("/api/runs/run/files");
    let path = files["files"][0]["path"].as_str().unwrap();
    assert_eq!(found(&board, &format!("file%3A{path}")), ["run"], "{path}");
    assert!(found(&board, "file%3Aother.py").is_empty());
}
