//! Tests that the overview, its JSON, the command and the MCP tool agree, and that terms that can't be
//! used are errors for commands.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::board::Board;
use crate::cli::board;

/// Writes a run of one of our traces: a task, its result, and when it started.
fn write(root: &Path, name: &str, task: &str, status: &str, at: &str) {
    let dir = root.join(name);
    fs::create_dir_all(&dir).unwrap();
    let success = status == "success";
    let manifest = json!({
        "run_id": name, "status": "completed", "model_name": "m", "started_at": at, "updated_at": at,
        "summary": {"task": task, "stop_reason": if success { "final" } else { "budget_steps" }, "steps": 1},
    });
    fs::write(dir.join("manifest.json"), manifest.to_string()).unwrap();
    let event = |phase: &str, payload: Value| {
        json!({"ts": at, "run_id": name, "step_id": 0, "phase": phase, "ok": true, "payload": payload})
            .to_string()
    };
    let events = [
        event("INIT", json!({"stage": "start", "task": task})),
        event(
            "END",
            json!({"stop_reason": if success { "final" } else { "budget_steps" }}),
        ),
    ];
    fs::write(dir.join("events.jsonl"), events.join("\n") + "\n").unwrap();
    let step = json!({"step_id": 0, "decision": {"mode": "final", "final_answer": "done"}});
    fs::write(dir.join("steps.jsonl"), step.to_string() + "\n").unwrap();
}

fn many() -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    for n in 0..24 {
        let status = if n % 4 == 0 { "limit" } else { "success" };
        let at = format!("2026-11-{:02}T{:02}:30:00Z", n % 12 + 1, n);
        write(root.path(), &format!("run-{n:02}"), "fix it", status, &at);
    }
    root
}

#[test]
fn the_command_the_api_and_the_page_agree() {
    let root = many();
    let path = root.path().display().to_string();
    let said = board(&["overview", &path, "--json"]);
    assert_eq!((said.code, said.stderr.as_str()), (0, ""));
    let own: Value = serde_json::from_str(&said.stdout).unwrap();
    assert_eq!(own["totals"]["runs"], 24);
    assert_eq!(own["repeated_tasks"], 1);
    let served = Board::serve(root.path());
    served.until_read();
    let answer = served.json("/api/overview");
    for field in [
        "totals",
        "finding",
        "answer",
        "bars",
        "hours",
        "stop_reasons",
        "projects",
    ] {
        assert_eq!(answer[field], own[field], "{field}");
    }
    let page = served.get("/overview?period=all");
    assert_eq!(page.status, 200);
    assert!(page.text().contains(own["answer"].as_str().unwrap()));
    // Every bar and every hour leads to as many runs as it says.
    let matched = |query: &str| served.json(&format!("/api/runs?q={query}"))["matched"].clone();
    for bar in own["bars"].as_array().unwrap() {
        let day = format!("started%3A{}", bar["since"].as_str().unwrap());
        assert_eq!(matched(&day), bar["runs"], "{bar}");
        for (result, runs) in bar["results"].as_object().unwrap() {
            assert_eq!(
                matched(&format!("{day}%20result%3A{result}")),
                *runs,
                "{bar}"
            );
        }
    }
    for (day, hours) in own["hours"].as_array().unwrap().iter().enumerate() {
        let day = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"][day];
        for (hour, runs) in hours.as_array().unwrap().iter().enumerate() {
            if *runs != 0 {
                let query = format!("weekday%3A{day}%20hour%3A{hour}");
                assert_eq!(matched(&query), *runs, "{query}");
            }
        }
    }
    let week = served.json("/api/overview?since=2026-11-07&until=2026-11-12");
    assert_eq!(week["totals"]["runs"], 12);
    assert_eq!(week["before"]["runs"], 12);
    let text = board(&[
        "overview",
        &path,
        "--since",
        "2026-11-07",
        "--until",
        "2026-11-12",
    ]);
    assert_eq!(text.code, 0, "{}", text.stderr);
    assert!(
        text.stdout.contains("Changes are relative to 1 Nov"),
        "{}",
        text.stdout
    );
    assert_eq!(served.get("/api/overview?since=today").status, 400);
    assert_eq!(served.get("/overview?period=1y").status, 400);
}

#[test]
fn tools_have_their_calls_failures_and_times_everywhere() {
    let root = many();
    for n in 0..24 {
        let call = json!({"name": "look", "args": {}});
        let took = if n < 20 { 1_200.0 } else { 60_000.0 };
        let (status, error) = match n {
            ..3 => ("error", json!("no such file: x")),
            _ => ("success", Value::Null),
        };
        let steps = [
            json!({
                "step_id": 0, "decision": {"mode": "act", "actions": [call]},
                "tool_invocations": [{"tool_name": "look", "status": status, "error": error, "latency_ms": took}],
                "action_results": [{"status": status, "error": error}],
            }),
            json!({"step_id": 1, "decision": {"mode": "final", "final_answer": "done"}}),
        ];
        let lines = steps.map(|step| step.to_string() + "\n").concat();
        let path = root.path().join(format!("run-{n:02}/steps.jsonl"));
        fs::write(path, lines).unwrap();
    }
    let path = root.path().display().to_string();
    let said = board(&["overview", &path, "--json"]);
    let own: Value = serde_json::from_str(&said.stdout).unwrap();
    let tool = &own["tools"]["rows"][0];
    assert_eq!(
        (&tool["name"], &tool["calls_timed"]),
        (&json!("look"), &json!(24))
    );
    let numbers = ["runs", "calls", "calls_judged", "calls_failed"].map(|field| &tool[field]);
    assert_eq!(numbers, [&json!(24), &json!(24), &json!(24), &json!(3)]);
    assert_eq!(tool["total_ms"], 20.0 * 1_200.0 + 4.0 * 60_000.0);
    for (percentile, exact) in [("p50_ms", 1_200.0), ("p95_ms", 60_000.0)] {
        let found = tool[percentile].as_f64().unwrap();
        assert!((found / exact - 1.0).abs() < 0.045, "{tool}");
    }
    let text = board(&["overview", &path]);
    let line = text.stdout.lines().find(|line| line.starts_with("look"));
    let words: Vec<&str> = line
        .unwrap()
        .split("  ")
        .filter(|word| !word.is_empty())
        .collect();
    let [calls, failed, rate, p50, p95, total] = words[words.len() - 6..] else {
        panic!("{words:?}");
    };
    let others = [calls, failed, rate, total].map(str::trim);
    assert_eq!(others, ["24", "3", "13%", "4 min 24 s"]);
    assert!(
        p50.trim().starts_with("≈1.") && p95.trim().starts_with('≈'),
        "{words:?}"
    );
    let served = Board::serve(root.path());
    served.until_read();
    assert_eq!(served.json("/api/overview")["tools"], own["tools"]);
    let page = served.get("/overview?period=all");
    for cell in [calls, rate, p50, p95, total, "100%"] {
        let cell = format!("<td class=\"r v\">{}<", cell.trim());
        assert!(page.text().contains(&cell), "{cell}");
    }
    // The failed calls lead to the failures of the tool.
    let failures = "/failures?where=look";
    assert!(
        page.text()
            .contains(&format!("<a href=\"{failures}\">3</a>")),
        "{}",
        page.text()
    );
    let listed = served.get(failures);
    assert!(listed.text().contains("no such file"), "{}", listed.text());
}

#[test]
fn pages_without_charts_say_why() {
    let root = many();
    let served = Board::serve(root.path());
    served.until_read();
    let text = |path: &str| served.get(path).text().to_owned();
    let few = text("/overview?q=run%3Arun-0&period=all");
    assert!(few.contains("Charts need at least 20 runs."), "{few}");
    assert!(
        few.contains("run-09") && !few.contains("Hours of the week"),
        "{few}"
    );
    let none = text("/overview?q=model%3Ax%20steps%3E3&period=all");
    assert!(none.contains("No runs match"), "{none}");
    assert!(none.contains("Without <code>model:x</code>"), "{none}");
    // Live parts come with the kind of page that asks for them.
    let part = served.get("/live/overview?period=all&kind=charts");
    assert!(
        part.text().contains("hx-target=\"#perday\""),
        "{}",
        part.text()
    );
    let changed = served.get("/live/overview?period=all&kind=few");
    assert_eq!(changed.header("hx-refresh"), "true");
}

#[test]
fn a_command_refuses_a_term_that_it_cannot_use() {
    let root = many();
    let path = root.path().display().to_string();
    for args in [
        &["list", &path, "modell:x"][..],
        &["edits", &path, "modell:x"],
        &["search", &path, "text", "--in", "modell:x"],
        &["table", "runs", &path, "--in", "modell:x"],
        &["usage", "daily", &path, "--query", "modell:x"],
        &["overview", &path, "--query", "modell:x"],
    ] {
        let said = board(args);
        assert_eq!((said.code, said.stdout.as_str()), (2, ""), "{args:?}");
        assert!(
            said.stderr.contains(
                "can't use the term modell:x: no field is called `modell` (did you mean model?)"
            ),
            "{args:?}: {}",
            said.stderr
        );
    }
    let list = |args: &[&str]| {
        let said = board(&[&["list", &path, "--json"], args].concat());
        let listed: Value = serde_json::from_str(&said.stdout).unwrap();
        listed["matched"].clone()
    };
    assert_eq!(list(&["--since", "2026-11-07"]), 12);
    assert_eq!(list(&["--until", "2026-11-01"]), 2);
    assert_eq!(
        list(&[
            "result:limit",
            "--since",
            "2026-11-07",
            "--until",
            "2026-11-08"
        ]),
        0
    );
    assert_eq!(list(&["cost:none"]), 24);
    let said = board(&["list", &path, "--group", "day", "--json"]);
    let listed: Value = serde_json::from_str(&said.stdout).unwrap();
    assert_eq!(listed["groups_total"], 12);
    assert_eq!(listed["groups"][0]["name"], "2026-11-12");
    let results: u64 = listed["groups"]
        .as_array()
        .unwrap()
        .iter()
        .flat_map(|group| group["results"].as_object().unwrap().values())
        .filter_map(Value::as_u64)
        .sum();
    assert_eq!(results, 24);
}
