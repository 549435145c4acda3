//! Do the commands say what a person or a script expects? Streams and exit codes of the real binary.

use std::fs;
use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::board::{BINARY, Board};
use crate::disk::{copy, corpus};

/// What a command left behind.
struct Said {
    code: i32,
    stdout: String,
    stderr: String,
}

fn board(args: &[&str]) -> Said {
    let output = Command::new(BINARY).args(args).env("NO_COLOR", "1").stdin(Stdio::null()).output().unwrap();
    Said {
        code: output.status.code().unwrap_or(-1),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
    }
}

fn in_corpus(name: &str) -> String {
    corpus().join(name).display().to_string()
}

/// An error: nothing on stdout, `code`, and lines of the one agreed shape on stderr.
#[track_caller]
fn fails(said: &Said, code: i32) {
    assert_eq!((said.code, said.stdout.as_str()), (code, ""), "{}", said.stderr);
    let mut lines = said.stderr.lines();
    assert!(lines.next().is_some_and(|line| line.starts_with("board: ")), "{}", said.stderr);
    assert!(lines.all(|line| line.starts_with("because: ") || line.starts_with("hint: ")), "{}", said.stderr);
    assert!(!said.stderr.contains("panicked"), "{}", said.stderr);
}

#[test]
fn what_is_not_there_is_named() {
    for command in ["list", "show", "check"] {
        let said = board(&[command, "no/such/place"]);
        fails(&said, 3);
        assert!(said.stderr.contains("no/such/place"), "{}", said.stderr);
    }
}

#[test]
fn wrong_usage_is_2() {
    for args in [&["no-such-command"][..], &["show"], &["list", "--no-such-option"], &["serve", "--port", "many"]] {
        let said = board(args);
        assert_eq!((said.code, said.stdout.as_str()), (2, ""), "{args:?}: {}", said.stderr);
        assert!(!said.stderr.is_empty());
    }
}

#[test]
fn a_root_that_is_a_file_is_refused() {
    let file = in_corpus("README.md");
    for command in ["list", "serve"] {
        let said = board(&[command, &file]);
        fails(&said, 3);
        assert!(said.stderr.contains("README.md"), "{}", said.stderr);
    }
}

#[test]
fn a_port_in_use_is_refused_with_a_hint() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let said = board(&["serve", &in_corpus("q060"), "--port", &port]);
    fails(&said, 3);
    assert!(said.stderr.contains(&port) && said.stderr.contains("hint: "), "{}", said.stderr);
}

#[test]
fn two_boards_on_one_port_do_not_share_it() {
    let dir = tempfile::tempdir().unwrap();
    let first = Board::serve(dir.path());
    let said = board(&["serve", &dir.path().display().to_string(), "--port", &first.address.port().to_string()]);
    fails(&said, 3);
}

#[test]
fn list_names_every_run() {
    let said = board(&["list", &in_corpus("q030")]);
    assert_eq!((said.code, said.stderr.as_str()), (0, ""));
    for name in ["q030_sigkill", "q030_task_validation_failed", "q030_unrecoverable_decide"] {
        assert_eq!(said.stdout.lines().filter(|line| line.contains(name)).count(), 1, "{}", said.stdout);
    }
    assert!(said.stdout.ends_with("3 runs\n"), "{}", said.stdout);
}

#[test]
fn list_takes_a_query() {
    let said = board(&["list", &in_corpus("q060"), "stop:cancelled_immediate"]);
    assert_eq!(said.code, 0, "{}", said.stderr);
    assert!(said.stdout.contains("q060_cancel_immediate"), "{}", said.stdout);
    assert!(!said.stdout.contains("q060_sigkill"), "{}", said.stdout);
}

#[test]
fn json_is_one_document_and_nothing_else() {
    let runs = ["list", &in_corpus("q060"), "--json"].map(str::to_owned);
    let run = ["show", &in_corpus("q060/q060_handoff"), "--json"].map(str::to_owned);
    let issues = ["check", &in_corpus("q060/q060_handoff"), "--json"].map(str::to_owned);
    for args in [runs, run, issues] {
        let said = board(&args.each_ref().map(String::as_str));
        assert!(said.code <= 1, "{args:?}: {}", said.stderr);
        serde_json::from_str::<Value>(&said.stdout).unwrap_or_else(|error| panic!("{args:?}: {error}"));
    }
}

#[test]
fn show_tells_a_step_in_full() {
    let run = in_corpus("q060/q060_handoff");
    let said = board(&["show", &run, "--step", "0"]);
    assert_eq!(said.code, 0, "{}", said.stderr);
    let beyond = board(&["show", &run, "--step", "7"]);
    fails(&beyond, 3);
    assert!(beyond.stderr.contains('7'), "{}", beyond.stderr);
}

#[test]
fn check_answers_no_where_there_is_damage() {
    let clean = board(&["check", &in_corpus("q060/q060_minimal")]);
    assert_eq!(clean.code, 0, "{}{}", clean.stdout, clean.stderr);
    let torn = board(&["check", &in_corpus("q060/q060_partial_line_events")]);
    assert_eq!(torn.code, 1, "{}{}", torn.stdout, torn.stderr);
    assert!(torn.stdout.contains("events.jsonl"), "{}", torn.stdout);
}

#[test]
fn a_reader_that_leaves_is_no_error() {
    let many = tempfile::tempdir().unwrap();
    for n in 0..2000 {
        let dir = many.path().join(format!("run-{n:04}-with-a-name-long-enough-to-fill-the-pipe-soon"));
        fs::create_dir(&dir).unwrap();
        fs::copy(corpus().join("q060/q060_minimal/manifest.json"), dir.join("manifest.json")).unwrap();
    }
    let mut child = Command::new(BINARY)
        .arg("list")
        .arg(many.path())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), String::from_utf8(output.stderr).unwrap().as_str()), (Some(0), ""));
}

#[cfg(unix)]
#[test]
fn what_may_not_be_read_is_said() {
    use std::os::unix::fs::PermissionsExt as _;
    let dir = tempfile::tempdir().unwrap();
    copy(&corpus().join("q060/q060_minimal"), &dir.path().join("good"));
    let locked = dir.path().join("locked");
    fs::create_dir(&locked).unwrap();
    fs::set_permissions(&locked, fs::Permissions::from_mode(0o000)).unwrap();
    let is_root = fs::read_dir(&locked).is_ok();
    let said = board(&["list", &dir.path().display().to_string()]);
    fs::set_permissions(&locked, fs::Permissions::from_mode(0o755)).unwrap();
    assert_eq!(said.code, 0, "{}", said.stderr);
    assert!(said.stdout.contains("good"), "{}", said.stdout);
    // Nothing is locked to the superuser.
    assert!(is_root || said.stderr.contains("locked"), "{}", said.stderr);
}

#[test]
fn plain_text_has_no_colour_where_it_is_not_wanted() {
    let said = board(&["list", &in_corpus("q060")]);
    assert!(!said.stdout.contains('\u{1b}'));
    assert!(Path::new(BINARY).is_file());
}
