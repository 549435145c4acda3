//! Tests figures computed for other tools' runs: which step a reply belongs to, tokens and cost
//! over time, what a score refers to, and which reply is an answer. Runs the same commands as users
//! do.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

use super::sample;
use crate::board::BINARY;

/// Returns a command's JSON output for this file.
fn said(path: &Path, command: &[&str]) -> Value {
    let output = Command::new(BINARY)
        .args(command)
        .arg("--json")
        .arg(path)
        .output()
        .expect("it runs");
    serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{command:?}: {output:?}"))
}

/// Returns the what-if results of these rules.
fn asked(path: &Path, rules: &[&str]) -> Vec<Value> {
    let rules: Vec<&str> = rules.iter().flat_map(|rule| ["--rule", rule]).collect();
    let told = said(path, &[&["whatif"], &rules[..]].concat());
    told["runs"][0]["rules"].as_array().expect("rules").clone()
}

#[test]
fn a_limit_between_what_the_steps_cost_and_what_the_run_cost_cannot_be_told() {
    // The steps cost $0.0095. A reply that isn't in the file makes up the rest of $0.0125.
    let path = sample("tools/mini-swe-agent/submitted.traj.json");
    let rules = [
        "max_cost=0.002",
        "max_cost=0.006",
        "max_cost=0.009",
        "max_cost=0.011",
        "max_cost=0.0125",
        "max_cost=0.013",
    ];
    let told = asked(&path, &rules);
    let words: Vec<_> = told
        .iter()
        .map(|rule| rule["result"].as_str().unwrap())
        .collect();
    assert_eq!(
        words,
        [
            "earlier",
            "unknown",
            "unknown",
            "unknown",
            "unknown",
            "not_reached"
        ]
    );
    assert_eq!(
        told[3]["needs"],
        "the step that spent the remaining $0.003 isn't recorded"
    );
    let between = |at: usize| {
        (
            told[at]["unknown_from"].as_u64(),
            told[at]["at_latest"].as_u64(),
        )
    };
    assert_eq!(
        (between(1), between(2), between(3)),
        ((Some(0), Some(1)), (Some(1), Some(2)), (Some(2), None))
    );
    // Tables have no value where rules have none.
    let root = path.parent().expect("a directory");
    let output = Command::new(BINARY)
        .args(["table", "steps", "--format", "jsonl"])
        .arg(root)
        .output()
        .expect("it runs");
    let steps = String::from_utf8(output.stdout).expect("text");
    let counted: Vec<_> = steps
        .lines()
        .map(|step| serde_json::from_str::<Value>(step).expect("JSON"))
        .filter(|step| step["transcript_id"] == "submitted.traj.json")
        .map(|step| {
            (
                step["cost_usd"].as_f64(),
                step["cost_so_far"].as_f64(),
                step["tokens_so_far"].as_u64(),
            )
        })
        .collect();
    let expected = [(0.004, 940), (0.003, 2_170), (0.0025, 3_595)]
        .map(|(cost, tokens)| (Some(cost), None, Some(tokens)));
    assert_eq!(counted, expected);
}

/// Returns each rule's result and step.
fn outcomes(path: &Path, rules: &[&str]) -> Vec<(String, Option<u64>)> {
    let word = |rule: &Value| {
        (
            rule["result"].as_str().expect("a word").to_owned(),
            rule["step"].as_u64(),
        )
    };
    asked(path, rules).iter().map(word).collect()
}

fn at(word: &str, step: u64) -> (String, Option<u64>) {
    (word.to_owned(), Some(step))
}

fn nowhere(word: &str) -> (String, Option<u64>) {
    (word.to_owned(), None)
}

#[test]
fn a_reply_of_a_sub_agent_is_no_step_of_the_run() {
    // Two replies of the run, with one of a sub-agent in between.
    let stream = sample("tools/claude-code-stream/answered.jsonl");
    let rules = ["max_steps=1", "max_steps=2", "max_steps=3", "final_result"];
    assert_eq!(
        outcomes(&stream, &rules),
        [
            at("earlier", 0),
            at("same", 2),
            nowhere("not_reached"),
            at("same", 2)
        ]
    );
    let told = asked(&stream, &["max_steps=1"]);
    assert_eq!(told[0]["saved"]["steps"], 1);
    let shown = said(&stream, &["show"]);
    let nested: Vec<_> = shown["steps_list"]
        .as_array()
        .expect("steps")
        .iter()
        .map(|step| &step["nested"])
        .collect();
    assert_eq!(nested, [false, true, false]);
    let why = said(&stream, &["why"]);
    let measured = why["rules"]
        .as_array()
        .expect("rules")
        .iter()
        .find(|rule| rule["unit"] == "steps");
    assert_eq!(measured.map(|rule| &rule["measured"]), Some(&2.into()));
    // 130 and 160 tokens for $0.002 and $0.003. The sub-agent has 55 tokens for $0.0005.
    let trace = sample("tools/otlp/traces.jsonl").join("a".repeat(32));
    let rules = [
        "max_steps=2",
        "max_steps=3",
        "token_budget=180",
        "token_budget=340",
        "token_budget=345",
    ];
    let expected = [
        at("same", 2),
        nowhere("not_reached"),
        at("same", 2),
        at("same", 2),
        nowhere("not_reached"),
    ];
    assert_eq!(outcomes(&trace, &rules), expected);
    assert_eq!(
        outcomes(&trace, &["max_cost=0.0025", "max_cost=0.006"]),
        [at("earlier", 0), nowhere("not_reached")]
    );
    let inferred =
        said(&trace, &["whatif", "--rule", "max_steps=2"])["runs"][0]["inferred"].to_string();
    assert!(
        inferred.contains("sub-agent replies inside a call aren't counted as steps of the run"),
        "{inferred}"
    );
}

#[test]
fn tables_count_no_reply_of_a_sub_agent() {
    let output = Command::new(BINARY)
        .args(["table", "steps", "--format", "jsonl"])
        .arg(sample("tools/otlp"))
        .output();
    let steps = String::from_utf8(output.expect("it runs").stdout).expect("text");
    let rows = steps
        .lines()
        .map(|step| serde_json::from_str::<Value>(step).expect("JSON"));
    let of_planner = rows.filter(|step| {
        step["transcript_id"]
            .as_str()
            .is_some_and(|key| key.ends_with("aaa"))
    });
    let counted: Vec<_> = of_planner
        .map(|step| {
            (
                step["step"].as_u64(),
                step["steps_so_far"].as_u64(),
                step["tokens"].as_u64(),
            )
        })
        .collect();
    let row = |step, counted, tokens| (Some(step), Some(counted), Some(tokens));
    assert_eq!(counted, [row(0, 1, 130), row(1, 1, 55), row(2, 2, 160)]);
}

#[test]
fn a_score_of_the_run_as_a_whole_is_no_step_s() {
    let trial = sample("tools/harbor/nightly/ledger__solved");
    let scores = said(&trial, &["scores"]);
    assert_eq!(scores["critics"], serde_json::json!([]));
    assert_eq!(
        scores["run"],
        serde_json::json!([{"name": "reward", "score": 1.0, "score_text": null, "reason": null}])
    );
    let output = Command::new(BINARY)
        .arg("scores")
        .arg(&trial)
        .output()
        .expect("it runs");
    let text = String::from_utf8(output.stdout).expect("text");
    let rows: Vec<Vec<&str>> = text
        .lines()
        .skip(1)
        .map(|line| line.split_whitespace().collect())
        .collect();
    assert_eq!(
        rows,
        [vec!["step", "reward"], vec!["run", "1.00"]],
        "{text}"
    );
    assert!(
        text.lines()
            .next()
            .is_some_and(|line| line.ends_with(": 1 critic for the whole run")),
        "{text}"
    );
    let board = crate::board::Board::serve(&sample("tools/harbor"));
    board.until_read();
    assert_eq!(
        board.json("/api/runs/nightly%2Fledger__solved/scores")["run"][0]["score"],
        1.0
    );
    let page =
        scraper::Html::parse_document(board.get("/runs/nightly%2Fledger__solved/scores").text());
    assert_eq!(
        crate::html::texts(&page, "#of-run tbody tr"),
        ["reward1.00"]
    );
    assert!(crate::html::texts(&page, "#scores .lane").is_empty());
    // A rule on step scores has none to evaluate.
    let told = asked(
        &trial,
        &["critic_below=reward:0.5", "critic_below=nobody:0.5"],
    );
    let needs = "a step score from reward (it scored only the whole run) isn't recorded";
    assert_eq!(
        (&told[0]["result"], &told[0]["needs"]),
        (&"unknown".into(), &needs.into())
    );
    assert_eq!(
        told[1]["needs"],
        "a score from the critic nobody isn't recorded"
    );
}

#[test]
fn what_a_sample_was_given_at_its_end_is_no_critic_of_its_last_step() {
    let log = sample("tools/inspect/ledger.json").join("rent_epoch_2");
    let needs = "a step score from graded (it scored only the whole run) isn't recorded";
    let told = asked(&log, &["critic_below=graded:0.5"]);
    assert_eq!(
        (&told[0]["result"], &told[0]["needs"]),
        (&"unknown".into(), &needs.into())
    );
    let scores = said(&log, &["scores"]);
    assert_eq!(scores["critics"], serde_json::json!([]));
    assert_eq!(
        scores["run"],
        serde_json::json!([{"name": "graded", "score": 0.0, "score_text": null, "reason": null}])
    );
    assert_eq!(said(&log, &["show"])["last_score"], 0.0);
    // A score given between two steps belongs to a step.
    let first = sample("tools/inspect/ledger.json").join("rent_epoch_1");
    assert_eq!(
        outcomes(&first, &["critic_below=progress:0.6"]),
        [at("earlier", 0)]
    );
}

#[test]
fn what_was_submitted_is_the_final_result() {
    let rules = ["final_result", "keyword=fixed", "keyword=divmod"];
    let small = sample("tools/mini-swe-agent/submitted.traj.json");
    assert_eq!(
        outcomes(&small, &rules),
        [at("same", 2), at("same", 2), nowhere("not_reached")]
    );
    let patch = sample("tools/swe-agent/submitted.traj");
    let last =
        said(&patch, &["whatif", "--rule", "max_steps=99"])["runs"][0]["recorded"]["step"].as_u64();
    let last = last.expect("a last step");
    assert_eq!(
        outcomes(&patch, &rules),
        [at("same", last), nowhere("not_reached"), at("same", last)]
    );
    // Only the start of a long submission is kept, so a missing text may be in the rest.
    let text = std::fs::read_to_string(&small).expect("the sample");
    let mut whole: Value = serde_json::from_str(&text).expect("JSON");
    let long: Value = format!("{}the end", "fixed ".repeat(200)).into();
    whole["info"]["submission"] = long.clone();
    let exit = whole["messages"]
        .as_array_mut()
        .and_then(|messages| messages.last_mut())
        .expect("a message");
    exit["extra"]["submission"] = long;
    let temp = tempfile::tempdir().expect("a directory");
    let path = temp.path().join("long.traj.json");
    std::fs::write(&path, whole.to_string()).expect("written");
    let rules = [
        "final_result",
        "keyword=fixed",
        "keyword=end",
        "structured_output",
    ];
    assert_eq!(
        outcomes(&path, &rules),
        [
            at("same", 2),
            at("same", 2),
            nowhere("unknown"),
            nowhere("unknown")
        ]
    );
    assert_eq!(
        asked(&path, &["keyword=end"])[0]["needs"],
        "the whole answer isn't recorded"
    );
    // A submission forced when the money ran out isn't the agent's answer.
    assert_eq!(
        outcomes(
            &sample("tools/swe-agent/cost_limit.traj"),
            &["final_result"]
        ),
        [nowhere("not_reached")]
    );
}

#[test]
fn a_reply_that_was_cut_at_its_limit_is_no_final_result() {
    let text = std::fs::read_to_string(sample("tools/claude-code-stream/answered.jsonl"))
        .expect("the sample");
    let lines = text.lines().map(|line| {
        let mut line: Value = serde_json::from_str(line).expect("JSON");
        if line["message"]["id"] == "msg_3" {
            line["message"]["stop_reason"] = "max_tokens".into();
        }
        if line["type"] == "result" {
            line["stop_reason"] = "max_tokens".into();
        }
        format!("{line}\n")
    });
    let temp = tempfile::tempdir().expect("a directory");
    let path = temp.path().join("cut.jsonl");
    std::fs::write(&path, lines.collect::<String>()).expect("written");
    assert_eq!(outcomes(&path, &["final_result"]), [nowhere("not_reached")]);
    assert_eq!(said(&path, &["show"])["steps_list"][2]["mode"], "thought");
    // The same holds for an OpenTelemetry trace, if the finish reason is `length`.
    let traces = std::fs::read_to_string(sample("tools/otlp/traces.jsonl")).expect("the sample");
    let path = temp.path().join("traces.jsonl");
    std::fs::write(&path, &traces).expect("written");
    let planner = || path.join("a".repeat(32));
    assert_eq!(outcomes(&planner(), &["final_result"]), [at("same", 2)]);
    let cut = traces.replace(
        r#"\"finish_reason\": \"stop\""#,
        r#"\"finish_reason\": \"length\""#,
    );
    assert_ne!(cut, traces);
    std::fs::write(&path, cut).expect("written");
    assert_eq!(
        outcomes(&planner(), &["final_result"]),
        [nowhere("not_reached")]
    );
}

#[test]
fn a_stopped_call_is_none_that_failed() {
    let (temp, board) = {
        let temp = tempfile::tempdir().expect("a directory");
        crate::disk::copy(
            &sample("cancelled_immediate"),
            &temp.path().join("cancelled_immediate"),
        );
        let board = crate::board::Board::serve(temp.path());
        board.until_read();
        (temp, board)
    };
    let codex = sample("tools/codex/sessions/2026/05/04")
        .join("rollout-2026-05-04T09-00-03-019df000-0000-7000-8000-0000000000a2.jsonl");
    let own = temp.path().join("cancelled_immediate");
    for run in [said(&own, &["show"]), said(&codex, &["show"])] {
        assert_eq!(run["tool_errors"], 0);
        let calls = run["steps_list"]
            .as_array()
            .expect("steps")
            .iter()
            .flat_map(|step| step["calls"].as_array());
        let calls: Vec<&Value> = calls.flatten().collect();
        assert!(calls.iter().all(|call| call["ok"] != false), "{calls:?}");
        let stopped: Vec<_> = calls
            .iter()
            .filter(|call| call["stopped"] == true)
            .collect();
        assert!(
            stopped.len() == 1 && stopped[0]["ok"].is_null(),
            "{calls:?}"
        );
    }
    let steps = board.json("/api/runs/cancelled_immediate/steps");
    let calls = steps["steps"]
        .as_array()
        .expect("steps")
        .iter()
        .flat_map(|step| step["calls"].as_array())
        .flatten();
    assert_eq!(calls.filter(|call| call["stopped"] == true).count(), 1);
}

#[test]
fn what_caches_held_is_told_where_it_is_of_the_same_steps() {
    let cached = |path: &Path| said(path, &["show"])["tokens_cached"].as_u64();
    let trial = sample("tools/harbor/nightly/ledger__solved");
    assert_eq!(cached(&trial), Some(500));
    let temp = tempfile::tempdir().expect("a directory");
    let copy = temp.path().join("trial");
    crate::disk::copy(&trial, &copy);
    // More than the steps' input, so it includes other requests, and their cached share is unknown.
    let result = std::fs::read_to_string(copy.join("result.json")).expect("read");
    let more = result.replace("2000", "2600");
    assert_ne!(more, result);
    std::fs::write(copy.join("result.json"), more).expect("written");
    assert_eq!(cached(&copy), None);
    // A trajectory alone has its own totals.
    let text = std::fs::read_to_string(copy.join("agent/trajectory.json")).expect("read");
    let mut whole: Value = serde_json::from_str(&text).expect("JSON");
    whole["final_metrics"]["total_cached_tokens"] = 400.into();
    let path = temp.path().join("a.trajectory.json");
    std::fs::write(&path, whole.to_string()).expect("written");
    assert_eq!(cached(&path), Some(400));
}

#[test]
fn a_sample_took_as_long_as_its_log_says() {
    let run = said(
        &sample("tools/inspect/ledger.json").join("rent_epoch_1"),
        &["show"],
    );
    assert_eq!(run["duration_ms"], 9_000.0, "its events would give 7,300");
}
