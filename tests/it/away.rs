//! Tests that a run that can't be read at the moment gets no verdict, and is read later without a
//! restart.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use ruzstd::encoding::{CompressionLevel, compress_to_vec};
use serde_json::Value;

use crate::board::{BINARY, Board};
use crate::disk::walk;
use crate::wait::until;

/// Writes a compressed Codex session with an answer, too long to be decompressed in memory.
fn long_session(root: &Path) -> PathBuf {
    let samples = walk(Path::new("sample_runs/tools/codex/sessions"));
    let sample = samples
        .iter()
        .find(|path| path.to_string_lossy().ends_with("a1.jsonl"))
        .unwrap();
    let text = fs::read_to_string(sample).unwrap();
    let (head, rest) = text.split_once('\n').unwrap();
    let padding =
        "{\"timestamp\":\"2026-05-04T09:00:00.100Z\",\"type\":\"compacted_note\",\"payload\":{}}\n"
            .repeat(130_000);
    let packed = compress_to_vec(
        format!("{head}\n{padding}{rest}").as_bytes(),
        CompressionLevel::Fastest,
    );
    let path = root.join("rollout-1.jsonl.zst");
    fs::write(&path, packed).unwrap();
    path
}

fn row(board: &Board) -> Value {
    board.json("/api/runs?limit=9")["runs"][0].clone()
}

#[test]
fn a_temporary_directory_without_room_is_no_verdict() {
    let (root, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let session = long_session(root.path());
    let temp = elsewhere.path().join("later");
    let mut command = Command::new(BINARY);
    command
        .arg("serve")
        .arg(root.path())
        .args(["--no-cache", "--port", "0"])
        .env("TMPDIR", &temp);
    let board = Board::spawn(command, root.path());
    let told = until("the row is no longer partial", || {
        Some(row(&board)).filter(|row| row["partial"] == false)
    });
    let verdict = told["verdict"].as_str().unwrap();
    assert!(
        verdict.starts_with("Can't be read right now: there is no space to decompress it in "),
        "{told}"
    );
    assert_eq!(
        (&told["outcome"], &told["mark"], &told["liveness"]),
        (&"unknown".into(), &"unknown".into(), &"unknown".into())
    );

    let why = |temp: &Path| {
        Command::new(BINARY)
            .arg("why")
            .arg(&session)
            .env("TMPDIR", temp)
            .output()
            .unwrap()
    };
    let said = String::from_utf8(why(&temp).stdout).unwrap();
    assert!(
        said.contains("Can't be read right now") && !said.contains("0 steps"),
        "{said}"
    );

    fs::create_dir(&temp).unwrap();
    let read = until("it is read", || {
        Some(row(&board)).filter(|row| row["mark"] == "answered")
    });
    assert_eq!(
        (&read["outcome"], &read["partial"]),
        (&"completed".into(), &false.into()),
        "{read}"
    );
    assert!(
        String::from_utf8(why(&temp).stdout)
            .unwrap()
            .contains("finished")
    );
}

/// A write beyond the file size limit would kill the program.
#[cfg(unix)]
#[test]
fn a_limit_on_the_length_of_files_ends_nothing() {
    let root = tempfile::tempdir().unwrap();
    let session = long_session(root.path());
    let limited = format!("ulimit -f 64; exec {BINARY} why \"$0\"");
    let why = Command::new("sh")
        .arg("-c")
        .arg(limited)
        .arg(&session)
        .output()
        .unwrap();
    let said = String::from_utf8(why.stdout).unwrap();
    assert!(
        said.contains("Can't be read right now: there is no space to decompress it"),
        "{said} {:?}",
        why.status
    );
}

/// Skipped as root, who can read everything.
#[cfg(unix)]
#[test]
fn files_without_rights_are_no_verdict() {
    use std::os::unix::fs::PermissionsExt as _;
    let root = tempfile::tempdir().unwrap();
    crate::disk::copy(
        Path::new("sample_runs/agent_condition"),
        &root.path().join("run"),
    );
    let steps = root.path().join("run/steps.jsonl");
    let allow = |mode| fs::set_permissions(&steps, fs::Permissions::from_mode(mode)).unwrap();
    allow(0);
    if fs::File::open(&steps).is_ok() {
        return;
    }
    let board = Board::serve(root.path());
    let told = until("the row is no longer partial", || {
        Some(row(&board)).filter(|row| row["partial"] == false)
    });
    assert!(
        told["verdict"]
            .as_str()
            .unwrap()
            .starts_with("Can't be read right now: Permission denied"),
        "{told}"
    );
    assert_eq!(
        (&told["outcome"], &told["mark"]),
        (&"unknown".into(), &"unknown".into())
    );
    allow(0o644);
    until("it is read", || {
        (row(&board)["outcome"] == "completed").then_some(())
    });
}
