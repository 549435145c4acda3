//! Can a run be given away? The export over HTTP and from the command line, secrets blanked, and the Markdown transcript.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use crate::board::{BINARY, Board};
use crate::disk::{copy, corpus, walk};
use crate::wait::until;

fn sample(name: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("sample_runs").join(name)
}

fn board(args: &[&str]) -> Output {
    Command::new(BINARY).args(args).env("NO_COLOR", "1").output().unwrap()
}

/// A run in which a secret stands under its key, in the arguments of a call, in an output, and under a harmless key.
fn with_secrets(root: &Path) -> std::path::PathBuf {
    let run = root.join("leaky");
    copy(&sample("fix_bug"), &run);
    let steps = fs::read_to_string(run.join("steps.jsonl")).unwrap();
    let steps = steps.replacen(
        "\"decision\"",
        "\"api_key\":\"sk-very-secret-1\",\"noted\":\"he said sk-very-secret-1\",\"decision\"",
        1,
    );
    let steps = steps.replacen("sh test_cart.sh", "PASS=sk-very-secret-1 sh test_cart.sh", 2);
    assert_eq!(steps.matches("sk-very-secret-1").count(), 4);
    fs::write(run.join("steps.jsonl"), steps).unwrap();
    run
}

#[test]
fn the_export_is_a_download_that_carries_its_own_policy() {
    let dir = tempfile::tempdir().unwrap();
    copy(&corpus().join("q060/q060_html_injection"), &dir.path().join("a b"));
    let board = Board::serve(dir.path());
    until("it is read", || (board.json("/healthz")["indexing"] == 0).then_some(()));
    let response = board.get("/runs/a%20b/export.html?step=1&event=2");
    assert_eq!((response.status, response.header("content-type")), (200, "text/html; charset=utf-8"));
    assert_eq!(response.header("content-disposition"), "attachment; filename=\"a_b.html\"");
    let page = response.text();
    for part in
        ["default-src 'none'; style-src 'nonce-", "data-step=\"1\" data-event=\"2\"", "id=\"states\"", "</html>"]
    {
        assert!(page.contains(part), "{part}");
    }
    // One script of ours, one block of data, and whatever the trace wrote is text.
    assert_eq!((page.matches("<script").count(), page.matches("<style").count()), (2, 1));
    assert_eq!(board.get("/runs/a%20b/export.html?step=x").status, 400);
    assert_eq!(board.get("/runs/nobody/export.html").status, 404);
}

#[test]
fn secrets_are_blanked_where_asked_for_and_the_run_is_only_read() {
    let dir = tempfile::tempdir().unwrap();
    let run = with_secrets(dir.path());
    let before: Vec<_> = walk(&run).into_iter().map(|path| (fs::read(&path).unwrap(), path)).collect();
    let file = dir.path().join("out.html");
    let (run_arg, file_arg) = (run.to_str().unwrap(), file.to_str().unwrap());
    let said = board(&["export", run_arg, "--html", file_arg]);
    assert!(said.status.success());
    assert!(fs::read_to_string(&file).unwrap().contains("sk-very-secret-1"), "nothing is blanked unasked");
    let said = board(&["export", run_arg, "--html", file_arg, "--redact"]);
    assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr));
    let page = fs::read_to_string(&file).unwrap();
    assert!(!page.contains("sk-very-secret-1") && page.contains("__redacted__ sh test_cart.sh"));
    assert!(page.contains("1 value is blanked") && page.contains("Answered at step 10"));
    let board = Board::serve(dir.path());
    until("it is read", || (board.json("/healthz")["indexing"] == 0).then_some(()));
    assert!(!board.get("/runs/leaky/export.html?redact=1").text().contains("sk-very-secret-1"));
    let after: Vec<_> = walk(&run).into_iter().map(|path| (fs::read(&path).unwrap(), path)).collect();
    assert!(before == after, "the run directory is as it was");
}

#[test]
fn every_run_can_be_saved_and_transcribed() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("out.html");
    let is_run = |path: &std::path::PathBuf| path.join("manifest.json").is_file() || path.join("steps.jsonl").is_file();
    for run in walk(&corpus()).into_iter().filter(is_run) {
        let said = board(&["export", run.to_str().unwrap(), "--html", file.to_str().unwrap(), "--redact"]);
        assert!(said.status.success(), "{}: {}", run.display(), String::from_utf8_lossy(&said.stderr));
        assert!(fs::read_to_string(&file).unwrap().ends_with("</html>\n"), "{}", run.display());
        let said = board(&["show", run.to_str().unwrap(), "--format", "md"]);
        assert!(said.status.success() && said.stdout.starts_with(b"# "), "{}", run.display());
    }
}

#[test]
fn a_transcript_says_what_was_done_and_why_it_stopped() {
    let said = board(&["show", sample("fix_bug").to_str().unwrap(), "--format", "md"]);
    let text = String::from_utf8(said.stdout).unwrap();
    for part in [
        "# fix_bug: Answered at step 10\n",
        "**Task:** The tests of cart.sh fail.",
        "- Ended by decision (final)",
        "## Step 1\n\n> See it fail before anything is changed.\n\n`run_command(command=\"sh test_cart.sh\")` → success, returncode 1",
        "```\nok   total of nothing\n",
        "- state `suspect`: new, or was null\n",
        "- critic `tests` 0.50 continue: 2 of 4 fail, exit status 1\n",
    ] {
        assert!(text.contains(part), "{part} in {text}");
    }
    let one = board(&["show", sample("fix_bug").to_str().unwrap(), "--format", "md", "--step", "1"]);
    let one = String::from_utf8(one.stdout).unwrap();
    assert!(one.starts_with("## Step 1") && !one.contains("## Step 2") && text.contains(&one));
}

#[test]
fn what_cannot_be_written_is_said() {
    let run = sample("final");
    let said = board(&["export", run.to_str().unwrap(), "--html", "/nowhere/at/all.html"]);
    let error = String::from_utf8(said.stderr).unwrap();
    assert_eq!(said.status.code(), Some(3));
    assert!(error.starts_with("board: /nowhere/at/all.html cannot be written") && error.contains("hint: "), "{error}");
    let said = board(&["export", run.to_str().unwrap(), "--html", "-", "--step", "99"]);
    assert_eq!((said.status.code(), said.stdout.len()), (Some(3), 0));
}
