//! Tests that runs of our own engine are read correctly. They're made in this process and read over
//! HTTP and from the command line.

use std::path::Path;
use std::process::Command;

use scraper::Html;
use serde_json::Value;

use crate::board::{BINARY, Board};
use crate::engine_runs;
use crate::html::{page, texts};

/// Returns the id of a process that has exited.
fn gone() -> u32 {
    let mut child = Command::new(BINARY)
        .arg("--version")
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let pid = child.id();
    child.wait().unwrap();
    pid
}

fn runs() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    engine_runs::make(dir.path(), gone());
    dir
}

fn served(dir: &Path) -> Board {
    let board = Board::serve(dir);
    board.until_read();
    board
}

fn typed(args: &[&str], dir: &Path) -> (i32, String) {
    let done = Command::new(BINARY)
        .args(args)
        .current_dir(dir)
        .env("NO_COLOR", "1")
        .output()
        .unwrap();
    (
        done.status.code().unwrap(),
        String::from_utf8(done.stdout).unwrap(),
    )
}

#[test]
fn every_end_reads_as_its_recorded_verdict() {
    let dir = runs();
    let (_, list) = typed(&["list", ".", "--json"], dir.path());
    let list: Value = serde_json::from_str(&list).unwrap();
    let mut table: Vec<_> = list["runs"]
        .as_array()
        .unwrap()
        .iter()
        .map(|run| {
            let word = |key: &str| run[key].as_str().unwrap_or("-").to_owned();
            let second = run["verdict_second"]
                .as_str()
                .map_or_else(String::new, |second| format!(" | {second}"));
            let head = [
                word("key"),
                word("mark"),
                word("certainty"),
                word("verdict"),
            ]
            .join(" | ");
            format!(
                "{head}{second} | {} steps of {}, {} issues",
                run["steps"], run["max_steps"], run["issues"]
            )
        })
        // Whether this test's process can be inspected depends on the system.
        .filter(|line| !line.starts_with("died") && !line.starts_with("waiting"))
        .collect();
    table.sort();
    insta::assert_snapshot!(table.join("\n"), @r#"
    budget_both | limit | recorded | Step limit reached: 0 of 0 steps · before the first step | At the same time, the token limit was reached. | 0 steps of 0, 0 issues
    budget_first | limit | recorded | Step limit reached: 0 of 0 steps · before the first step | 0 steps of 0, 0 issues
    cancelled | cancelled | recorded | Cancelled after step 1 | No answer was given. | 2 steps of 10, 0 issues
    cancelled_first | cancelled | recorded | Cancelled before the first step | 0 steps of 10, 0 issues
    critic_failed | error | recorded | Failed with an error after step 0: the critic Broken failed: the tests could not be run | No answer was given. | 1 steps of 10, 0 issues
    critic_stop | critic stop | recorded | Stopped by the critic Strict (score 0.10): this leads nowhere | No answer was given. | 1 steps of 10, 0 issues
    final | answered | recorded | Answered at step 1 | 2 steps of 8, 0 issues
    model | answered | recorded | Answered at step 2 · after 1 recovered error | 3 steps of 10, 0 issues
    preflight | error | recorded | Not started: the required file "words.txt" does not exist | 0 steps of 10, 0 issues
    recovered | answered | recorded | Answered at step 2 · after 1 recovered error | 3 steps of 10, 0 issues
    refused | limit | recorded | Step limit reached: 3 of 3 steps · the answer wasn't accepted | 3 steps of 3, 0 issues
    "#);
}

#[test]
fn an_unfinished_run_lives_as_long_as_its_process() {
    if !cfg!(target_os = "linux") {
        return;
    }
    let dir = runs();
    let board = served(dir.path());
    let run = |name: &str| board.json(&format!("/api/runs/{name}"));
    let (died, waiting) = (run("died"), run("waiting"));
    assert_eq!(died["liveness"], "died");
    assert_eq!(
        died["verdict"],
        "Died in step 1 while running hang; its process is gone"
    );
    assert_eq!(
        waiting["liveness"], "stalled",
        "quiet for long, and its process is this one"
    );
    assert_eq!(
        (&died["status"], &waiting["status"]),
        (&Value::from("running"), &Value::from("running"))
    );
}

#[test]
fn programs_read_the_rule_that_ended_a_run() {
    let dir = runs();
    let board = served(dir.path());
    let why = board.json("/api/runs/budget_both/why");
    assert_eq!(why["certainty"], "recorded");
    assert_eq!(why["rules"][0]["id"], "budget.steps");
    assert_eq!(why["rules"][0]["limit_from"], "task");
    assert_eq!(
        (&why["rules"][0]["measured"], &why["rules"][0]["limit"]),
        (&Value::from(0), &Value::from(0))
    );
    assert_eq!(
        (&why["rules"][1]["id"], &why["rules"][1]["fired"]),
        (&"budget.tokens".into(), &false.into())
    );
    let (done, shown) = typed(&["show", "refused"], dir.path());
    assert_eq!(done, 0);
    assert!(
        shown.contains("ended by  budget.steps: 3 steps, limit 3 (set by the task)"),
        "{shown}"
    );
    let (clean, checked) = typed(
        &[
            "check",
            "final",
            "refused",
            "model",
            "preflight",
            "cancelled",
        ],
        dir.path(),
    );
    assert_eq!(clean, 0, "{checked}");
}

#[test]
fn a_step_shows_the_fields_that_only_boards_engine_writes() {
    let dir = runs();
    let board = served(dir.path());
    let page = |path: &str| page(&board, path);
    let words = |page: &Html, what: &str| texts(page, what).join("|");
    let branch = page("/runs/final/steps/0");
    assert_eq!(
        words(&branch, ".cands .won th code"),
        "echo(text=\"two\") +1 more"
    );
    assert_eq!(words(&branch, ".cands td.r"), "0.25|0.75|0.5");
    let sections = words(&branch, "h3");
    assert!(
        sections.contains("Decision") && !sections.contains("Also recorded"),
        "facts stay in the raw line"
    );
    assert!(words(&branch, ".sec").contains("8 keys unchanged"));
    let refused = words(&page("/runs/model/steps/0"), ".trouble");
    assert!(
        refused.contains("neither an action nor a final answer")
            && refused.contains("repair instruction")
    );
    let second = page("/runs/model/steps/1");
    assert!(words(&second, ".pair .head").contains("truncated from 330.0 KB"));
    assert!(words(&second, ".sec").contains("earlier message"));
    assert!(words(&page("/runs/critic_failed/steps/0"), ".crit .mk").contains("failed"));
    let manifest = words(&page("/runs/refused?tab=manifest"), ".checks tr");
    assert!(
        manifest.contains("at most 3 steps") && manifest.contains("keyword"),
        "{manifest}"
    );
}

/// If the two copies of the verdict differ, one of them was changed.
#[test]
fn two_verdicts_are_a_contradiction_and_a_lost_step_is_an_issue() {
    let dir = runs();
    let path = dir.path().join("refused/manifest.json");
    let manifest = std::fs::read_to_string(&path).unwrap();
    std::fs::write(
        &path,
        manifest.replace("\"budget.steps\"", "\"budget.tokens\""),
    )
    .unwrap();
    let steps = dir.path().join("final/steps.jsonl");
    let first = std::fs::read_to_string(&steps)
        .unwrap()
        .lines()
        .next()
        .unwrap()
        .to_owned();
    std::fs::write(&steps, first.replace("\"facts\"", "\"other\"") + "\n").unwrap();
    let steps = dir.path().join("recovered/steps.jsonl");
    let lines = std::fs::read_to_string(&steps).unwrap();
    let kept: Vec<_> = lines
        .lines()
        .enumerate()
        .filter(|(at, _)| *at != 1)
        .map(|(_, line)| format!("{line}\n"))
        .collect();
    std::fs::write(&steps, kept.concat()).unwrap();
    let board = served(dir.path());
    let why = board.json("/api/runs/refused/why");
    let told = "The manifest records budget_steps by budget.tokens after step 2, the END event budget_steps by \
                budget.steps after step 2";
    assert_eq!(why["contradictions"], serde_json::json!([told]));
    let (found, checked) = typed(&["check", "final"], dir.path());
    assert_eq!(found, 1);
    assert!(
        checked.contains("the verdict records that step 1 ran last, but the file ends at step 0"),
        "{checked}"
    );
    assert!(
        checked.contains("the step has no facts for re-evaluating stop rules"),
        "{checked}"
    );
    let (_, checked) = typed(&["check", "recovered"], dir.path());
    assert!(
        checked.contains(":2: byte")
            && checked.contains("starts with a different current_step than"),
        "{checked}"
    );
}
