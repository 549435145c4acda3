//! Tests `board experiment`, its page and its JSON on runs written for it.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::board::Board;
use crate::cli::board;

/// Writes a run of a task that ended at once, in QitOS's format.
fn write(root: &Path, set: &str, task: usize, solved: bool, tokens: u64) {
    let text = format!("Make the tests of {task} pass.");
    write_task(root, set, (task, &text), solved, tokens);
}

/// Writes a run of the task with this number and text.
fn write_task(root: &Path, set: &str, (task, text): (usize, &str), solved: bool, tokens: u64) {
    let dir = root.join(set).join(format!("task-{task}"));
    fs::create_dir_all(&dir).unwrap();
    let reason = if solved { "success" } else { "max_steps" };
    let manifest = json!({
        "run_id": format!("{set}-{task}"), "schema_version": "v1", "status": "completed",
        "updated_at": "2026-01-01T00:00:05Z", "event_count": 2, "step_count": 1, "model_id": "m",
        "token_usage": tokens, "latency_seconds": 5.0, "cost": tokens as f64 / 1e6,
        "summary": {
            "stop_reason": reason, "final_result": solved.then_some("done"), "steps": 1,
            "token_usage": tokens, "task_result": {"success": solved, "stop_reason": reason},
        },
    });
    let events = [
        json!({"step_id": 0, "phase": "INIT", "ok": true, "ts": "2026-01-01T00:00:00Z",
            "payload": {"task": text, "state": {"max_steps": 1}}}),
        json!({"step_id": 0, "phase": "END", "ok": true, "ts": "2026-01-01T00:00:05Z",
            "payload": {"stop_reason": reason}}),
    ];
    let step = json!({"step_id": 0, "decision": {"mode": "act"}, "actions": [{"name": "a", "args": {}}],
        "action_results": [{"status": "success", "output": "ok"}]});
    let lines = |records: &[Value]| -> String {
        records.iter().map(|record| format!("{record}\n")).collect()
    };
    fs::write(dir.join("manifest.json"), manifest.to_string()).unwrap();
    fs::write(dir.join("events.jsonl"), lines(&events)).unwrap();
    fs::write(dir.join("steps.jsonl"), lines(&[step])).unwrap();
}

/// Sets of runs: `new` solves 7 tasks that `old` doesn't, `old` solves 1, and 4 come out the same.
fn sets() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    for (task, (old, new)) in "000000010011"
        .chars()
        .zip("111111100011".chars())
        .enumerate()
    {
        write(dir.path(), "old", task, old == '1', 1_000 + task as u64);
        write(dir.path(), "new", task, new == '1', 2_000 + 2 * task as u64);
    }
    dir
}

/// Runs `board experiment run:old/ run:new/` with more arguments.
fn experiment(root: &Path, more: &[&str]) -> crate::cli::Said {
    let root = root.to_str().unwrap();
    let mut args = vec!["experiment", "run:old/", "run:new/", root];
    args.extend(more);
    board(&args)
}

#[test]
fn the_verdict_comes_first_and_the_condition_sets_the_exit_code() {
    let dir = sets();
    let said = experiment(dir.path(), &[]);
    assert_eq!((said.code, said.stderr.as_str()), (0, ""));
    let lines: Vec<&str> = said.stdout.lines().collect();
    assert_eq!(
        lines[0],
        "B solves 6 more of 12 tasks, 95% interval >0 to +12; costs 100% more."
    );
    let row = |name: &str| -> Vec<&str> {
        let line = lines.iter().find(|line| line.starts_with(name));
        line.unwrap_or(&"")
            .split("  ")
            .map(str::trim)
            .filter(|cell| !cell.is_empty())
            .collect()
    };
    assert_eq!(
        row("Solved"),
        [
            "Solved tasks (of 12)",
            "3",
            "9",
            "+6",
            ">0 to +12",
            "0.039",
            "B better"
        ]
    );
    // 2 of 4,096 flips count half, and there are 4 measures: 0.00024 · 4.
    assert_eq!(row("Tokens")[5..], ["<0.001", "A better"]);
    assert!(
        said.stdout.contains("\nOnly B solved 7:  "),
        "{}",
        said.stdout
    );
    assert!(
        said.stdout.contains("\nOnly A solved 1:  "),
        "{}",
        said.stdout
    );
    for (condition, code, ends) in [
        (
            "success.high < 0",
            0,
            "ok: success.high is +12, not below 0\n",
        ),
        ("success.low > 0", 1, "fail: success.low is >0, above 0\n"),
        ("cost > 99%", 1, "fail: cost is +100%, above 99%\n"),
        (
            "cost.low < -5%",
            0,
            "ok: cost.low is +100%, not below −5%\n",
        ),
    ] {
        let said = experiment(dir.path(), &["--quiet", "--fail-if", condition]);
        assert_eq!(said.code, code, "{condition} {}", said.stdout);
        assert!(said.stdout.ends_with(ends), "{condition} {}", said.stdout);
        assert_eq!(said.stdout.lines().count(), 2);
    }
}

#[test]
fn what_cant_be_decided_doesnt_pass() {
    let dir = sets();
    let root = dir.path().to_str().unwrap();
    let few = ["experiment", "run:old/task-1", "run:new/task-1", root];
    let said = board(&[&few[..], &["--quiet", "--fail-if", "success < 0"]].concat());
    assert_eq!(said.code, 3, "{}", said.stdout);
    assert_eq!(
        said.stdout,
        "Too few tasks: A and B share 3, and 5 are needed.\n\
         undecided: Too few tasks: A and B share 3, and 5 are needed\n"
    );
    // Without a condition, nothing is to be decided.
    assert_eq!(board(&few).code, 0);
    let said = experiment(
        dir.path(),
        &["--success", "tests>=1", "--fail-if", "success<0"],
    );
    assert_eq!(said.code, 3);
    assert!(
        said.stdout
            .starts_with("Success is unknown: no run in A or B records this score.\n")
    );
    let empty = board(&[
        "experiment",
        "run:old/",
        "model:none",
        root,
        "--fail-if",
        "cost > 1%",
    ]);
    assert_eq!(empty.code, 3);
    assert!(
        empty.stdout.starts_with("B matches no runs.\n"),
        "{}",
        empty.stdout
    );
}

#[test]
fn unknown_terms_and_malformed_conditions_are_usage_errors() {
    let dir = sets();
    let root = dir.path().to_str().unwrap();
    let typo = board(&["experiment", "run:old/ statsu:x", "run:new/", root]);
    assert_eq!((typo.code, typo.stdout.as_str()), (2, ""));
    assert!(
        typo.stderr
            .starts_with("board: can't use the term statsu:x: no field is called `statsu`")
    );
    for more in [
        &["--fail-if", "success"][..],
        &["--fail-if", "succes < 0"],
        &["--fail-if", "cost > 10"],
        &["--success", "good"],
        &["--by", "weather"],
    ] {
        let said = experiment(dir.path(), more);
        assert_eq!((said.code, said.stdout.as_str()), (2, ""), "{more:?}");
    }
    let nowhere = board(&["experiment", "a", "b", "/nowhere/at/all"]);
    assert_eq!((nowhere.code, nowhere.stdout.as_str()), (3, ""));
}

#[test]
fn the_page_and_the_commands_print_the_same_answer() {
    let dir = sets();
    let said = experiment(dir.path(), &["--json"]);
    let printed: Value = serde_json::from_str(&said.stdout).unwrap();
    let board = Board::serve(dir.path());
    board.until_read();
    let served: Value = board.json("/api/experiments?a=run%3Aold%2F&b=run%3Anew%2F");
    assert_eq!(printed, served);
    assert_eq!(served["finding"], "better");
    assert_eq!(served["measures"][0]["difference"], 6.0);
    let page = board.get("/experiments?a=run%3Aold%2F&b=run%3Anew%2F");
    let verdict = served["verdict"].as_str().unwrap().replace('>', "&#62;");
    assert!(
        page.text()
            .contains(&format!("<p class=\"answer\">{verdict}</p>"))
    );
    // A term that isn't understood gives no verdict.
    let typo = board.get("/experiments?a=statsu%3Ax&b=run%3Anew%2F");
    assert!(typo.text().contains("Query A has an invalid term."));
    for query in [
        "",
        "a=x",
        "a=statsu%3Ax&b=y",
        "a=x&b=y&by=z",
        "a=x&b=y&success=z",
    ] {
        let path = format!("/api/experiments?{query}");
        assert_eq!(board.get(&path).status, 400, "{query}");
    }
}

#[test]
fn the_link_of_a_task_leads_to_exactly_its_runs() {
    let tasks = [
        "plain",
        "plain and more",
        "two  spaces",
        r#"say "hi", then stop"#,
        r#"say "hi", then"#,
        r"a\b",
        r#"a\"b"#,
        "it's 'quoted'",
        "none",
        "<b>",
        "1..2",
        "a,b",
        "-model:x",
        "first line\nsecond \"line\"",
        "100% & more + é",
    ];
    let dir = tempfile::tempdir().unwrap();
    for (n, task) in tasks.iter().enumerate() {
        write_task(dir.path(), "old", (n, task), false, 1_000);
        write_task(dir.path(), "new", (n, task), true, 1_000);
    }
    let board = Board::serve(dir.path());
    board.until_read();
    let page = board.get("/experiments?a=run%3Aold%2F&b=run%3Anew%2F&all=1");
    let links: std::collections::BTreeSet<&str> = page
        .text()
        .split("href=\"")
        .filter_map(|rest| rest.strip_prefix("/?q=task%3D")?.split_once('"'))
        .map(|(link, _)| link)
        .collect();
    assert_eq!(links.len(), tasks.len(), "{links:?}");
    let mut seen: Vec<String> = Vec::new();
    for link in links {
        let found = board.json(&format!("/api/runs?q=task%3D{link}"));
        assert_eq!(found["matched"], 2, "{link}: {found}");
        let mut of_rows = found["runs"].as_array().unwrap().iter();
        let task = of_rows.next().unwrap()["task"].as_str().unwrap().to_owned();
        assert!(of_rows.all(|row| row["task"] == *task), "{link}");
        seen.push(task);
    }
    seen.sort();
    let mut expected = tasks.map(str::to_owned);
    expected.sort();
    assert_eq!(seen, expected);
}
