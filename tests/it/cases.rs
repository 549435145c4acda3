//! Tests for `tests/cases`: traces the board once got wrong, with the right answer.
//!
//! Each test names its case and asserts what a user reads there.

mod claims;
mod ends;
mod evals;
mod kin;
mod records;
mod replayed;
mod sessions;
mod stored;

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::board::BINARY;

/// The directory of all cases.
fn cases() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases")
}

/// Runs `board ARGS` in the directory of all cases and returns its stdout.
fn board(args: &[&str]) -> String {
    let output = Command::new(BINARY)
        .current_dir(cases())
        .args(args)
        .env("NO_COLOR", "1")
        .output()
        .unwrap();
    let (out, err) = (
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    assert!(
        output.status.success(),
        "board {args:?}: {}\n{out}{err}",
        output.status
    );
    out.into_owned()
}

/// Runs `board ARGS --json` and parses its stdout.
fn board_json(args: &[&str]) -> Value {
    let out = board(&[args, &["--json"]].concat());
    serde_json::from_str(&out).unwrap_or_else(|error| panic!("board {args:?}: {error}\n{out}"))
}

/// Asserts that `text` contains each of `parts`.
#[track_caller]
fn assert_says(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "{part:?} is missing in:\n{text}");
    }
}
