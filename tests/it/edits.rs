//! Tests the newest edits over all runs: the command, the page and the JSON.

use std::path::Path;

use crate::board::Board;
use crate::cli::board;
use crate::disk::copy;

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
    let page = board.get("/edits?after=2").text();
    assert!(page.contains("4 edits in 1 run, showing 3–4."), "{page}");
}
