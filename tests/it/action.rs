//! Tests the GitHub action that reports why runs failed, by running its script as a job would.

use std::fs;
use std::path::Path;
use std::process::Command;

#[test]
fn a_job_is_told_why_its_runs_failed_and_keeps_their_pages() {
    let home = Path::new(env!("CARGO_MANIFEST_DIR"));
    let dir = tempfile::tempdir().unwrap();
    let file = |name: &str| dir.path().join(name);
    let binaries = Path::new(env!("CARGO_BIN_EXE_board")).parent().unwrap();
    let path = format!("{}:{}", binaries.display(), std::env::var("PATH").unwrap());
    let done = Command::new("bash")
        .arg(home.join(".github/actions/why/why.sh"))
        .current_dir(home)
        .envs([
            ("PATH", path.as_str()),
            ("RUNS", "sample_runs"),
            ("QUERY", "run:crash,critic_stop"),
            ("LIMIT", "9"),
        ])
        .envs([("REDACT", "true"), ("XDG_CONFIG_HOME", "/nonexistent")])
        .envs([
            ("GITHUB_OUTPUT", file("output")),
            ("GITHUB_STEP_SUMMARY", file("summary")),
            ("PAGES", file("pages")),
        ])
        .output()
        .unwrap();
    assert!(
        done.status.success(),
        "{}",
        String::from_utf8_lossy(&done.stderr)
    );
    let count = fs::read_dir(file("pages")).unwrap().count();
    let said = fs::read_to_string(file("output")).unwrap();
    assert!(
        count > 1 && said == format!("failed={count}\n"),
        "{count} pages, {said}"
    );
    let summary = fs::read_to_string(file("summary")).unwrap();
    assert!(
        summary.starts_with("# Why runs stopped\n\n") && summary.contains("sample_runs/crash"),
        "{summary}"
    );
    // All text from a trace is indented, so that it can't act as markup.
    let ours = |line: &&str| {
        !line.starts_with("    ") && !line.starts_with("<details>") && *line != "</details>"
    };
    let ours: Vec<&str> = summary
        .lines()
        .filter(ours)
        .filter(|line| !line.is_empty())
        .collect();
    assert_eq!(ours.len(), 2, "{ours:?}");
    for page in fs::read_dir(file("pages")).unwrap() {
        let page = fs::read_to_string(page.unwrap().path()).unwrap();
        assert!(
            page.starts_with("<!doctype html>")
                && page.contains(" values of keys that name a secret")
        );
    }
}
