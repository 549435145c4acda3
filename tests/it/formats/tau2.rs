//! Tests tau2 simulations: several in a results file, or one per file.

use std::path::Path;
use std::process::Command;

use trace_board::trace::RootScanner;

use crate::board::BINARY;

use super::{damaged, read, sample};

#[test]
fn each_simulation_is_a_run() {
    let found = RootScanner::new(sample("tools/tau2")).scan();
    let keys: Vec<&str> = found.runs.keys().map(|key| key.as_str()).collect();
    // The file that lists the simulations isn't a run itself.
    let expected = [
        "results.json/restart_trial_0",
        "results.json/restart_trial_1",
        "voice/simulations/sim-voice-0.json",
    ];
    assert_eq!((keys.as_slice(), found.skipped.len()), (&expected[..], 0));
}

#[test]
fn a_conversation_that_its_user_ended() {
    let run = read(&sample("tools/tau2/results.json/restart_trial_0"));
    let row = &run.row;
    // Eleven messages and the reward. Neither the greeting nor the result of the user's own tool is
    // a step.
    assert_eq!(
        (row.steps, row.errors, row.events, row.issues),
        (3, 1, 12, (1, 0))
    );
    assert_eq!(row.duration_ms, Some(13_500.0), "as it records itself");
    // 110, 172 and 208.
    assert_eq!(
        (row.tokens, row.cost_usd, row.turns),
        (Some(490), Some(0.003), Some(3))
    );
    assert_eq!(
        (row.model.as_deref(), row.task.as_deref()),
        (Some("example/small-1"), Some("My line is dead."))
    );
    assert_eq!(row.tools, ["get_line"]);
    assert_eq!(
        (&*row.verdict.sentence, row.verdict.certainty.as_str()),
        (
            "The user ended the conversation at step 2 · reward 1",
            "recorded"
        )
    );
    let manifest = run.index.manifest().get().expect("a manifest");
    let scores: Vec<(&str, f64)> = manifest
        .scores
        .iter()
        .filter_map(|given| Some((&*given.name, given.score?)))
        .collect();
    let expected = [
        ("reward", 1.0),
        ("reward.DB", 1.0),
        ("reward.COMMUNICATE", 1.0),
        ("database", 1.0),
        ("actions met", 0.5),
        ("told as asked", 1.0),
    ];
    assert_eq!(
        (scores.as_slice(), manifest.success),
        (&expected[..], Some(true))
    );
    let first = run.step(0);
    assert_eq!(first["action_results"][0]["output"]["status"], "suspended");
    assert_eq!(
        first["action_results"][1]["error"],
        "Error: line L9 not found"
    );
}

#[test]
fn a_part_of_a_reward_is_no_score_of_the_run() {
    let text = std::fs::read_to_string(sample("tools/tau2/results.json")).expect("the sample");
    let mut results: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    for simulation in results["simulations"].as_array_mut().expect("a list") {
        simulation["reward_info"]
            .as_object_mut()
            .expect("what was given")
            .remove("reward");
    }
    let temp = tempfile::tempdir().expect("a directory");
    let path = temp.path().join("results.json");
    std::fs::write(&path, results.to_string()).expect("written");
    let row = read(&path.join("restart_trial_0")).row;
    assert_eq!(
        (row.last_score, row.critics.len()),
        (None, 5),
        "{:?}",
        row.critics
    );
}

#[test]
fn a_reason_that_is_not_known_is_no_error() {
    let text = std::fs::read_to_string(sample("tools/tau2/results.json")).expect("the sample");
    let ends = |reason: &str| {
        let mut results: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        results["simulations"][0]["termination_reason"] = reason.into();
        let temp = tempfile::tempdir().expect("a directory");
        let path = temp.path().join("results.json");
        std::fs::write(&path, results.to_string()).expect("written");
        read(&path.join("restart_trial_0")).row.verdict.outcome
    };
    use trace_board::model::Outcome::{Failed, Unknown};
    assert_eq!(["other", "other_error"].map(ends), [Unknown, Failed]);
}

#[test]
fn a_limit_is_told_with_its_figure() {
    let run = read(&sample("tools/tau2/results.json/restart_trial_1"));
    let verdict = &run.row.verdict;
    assert_eq!(
        (
            &*verdict.sentence,
            verdict.certainty.as_str(),
            run.row.steps
        ),
        (
            "Step limit reached after step 1 (6 simulator steps)",
            "recorded",
            2
        )
    );
    assert_eq!(
        run.index
            .manifest()
            .get()
            .and_then(|manifest| manifest.success),
        Some(false)
    );
}

#[test]
fn a_conversation_in_speech_is_shown_by_its_end() {
    let run = read(&sample("tools/tau2/voice/simulations/sim-voice-0.json"));
    assert_eq!(
        (run.row.steps, run.row.tokens, run.row.cost_usd),
        (0, None, None)
    );
    says_nothing_of_steps(&sample("tools/tau2/voice/simulations/sim-voice-0.json"));
    assert_eq!(
        &*run.row.verdict.sentence,
        "Failed with an infrastructure error: the service closed the connection"
    );
}

/// Returns a command's JSON output for this file.
fn said(path: &Path, command: &[&str]) -> serde_json::Value {
    let output = Command::new(BINARY)
        .args(command)
        .args(["--json"])
        .arg(path)
        .output()
        .expect("it runs");
    serde_json::from_slice(&output.stdout).expect("JSON")
}

/// Asserts that neither the number of steps nor the result of any rule that counts them is
/// reported.
fn says_nothing_of_steps(path: &Path) {
    let whatif = said(
        path,
        &[
            "whatif",
            "--rule",
            "max_steps=9",
            "--rule",
            "token_budget=9",
        ],
    );
    let run = &whatif["runs"][0];
    assert_eq!(
        run["headline"],
        "Step boundaries aren't recorded, so rules can't be evaluated."
    );
    let rules = ["rules", "own_rules"]
        .map(|key| run[key].as_array().expect("rules").as_slice())
        .concat();
    assert_eq!(rules.len(), 3);
    for rule in &rules {
        assert_eq!(
            (&rule["result"], &rule["unknown_from"]),
            (&"unknown".into(), &0.into()),
            "{rule}"
        );
        assert!(
            rule["step"].is_null() && rule["saved"]["steps"].is_null(),
            "{rule}"
        );
    }
    let why = said(path, &["why"]);
    let rule = why["rules"]
        .as_array()
        .expect("rules")
        .iter()
        .find(|rule| rule["unit"] == "steps")
        .expect("steps");
    let untold = "neither the count nor a limit is recorded";
    assert_eq!(
        (&rule["measured"], &rule["note"]),
        (&serde_json::Value::Null, &untold.into())
    );
    let told = |piece: &serde_json::Value| {
        piece["text"]
            .as_str()
            .is_some_and(|text| text.starts_with("Step boundaries aren't recorded"))
    };
    assert!(
        why["evidence"]
            .as_array()
            .expect("evidence")
            .iter()
            .any(told),
        "{why}"
    );
}

#[test]
fn how_many_steps_a_conversation_in_speech_has_is_not_known() {
    let text = std::fs::read_to_string(sample("tools/tau2/voice/simulations/sim-voice-0.json"))
        .expect("the sample");
    let mut one: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    let speech = |n: usize| {
        serde_json::json!({"tick_id": n, "timestamp": format!("2026-03-02T10:00:0{n}"), "agent_tool_calls": [],
            "agent_chunk": {"role": "assistant", "content": "One mo"}, "agent_tool_results": []})
    };
    let mut ticks = vec![speech(0), speech(1), speech(2), speech(3)];
    let call = |id: &str| serde_json::json!({"id": id, "name": "get_line", "arguments": {"id": id}, "requestor": "assistant"});
    let result = |id: &str, error: bool| serde_json::json!({"role": "tool", "id": id, "content": "x", "requestor": "assistant", "error": error});
    ticks[1]["agent_tool_calls"] = serde_json::json!([call("a"), call("b")]);
    ticks[1]["agent_tool_results"] = serde_json::json!([result("a", false)]);
    ticks[2]["agent_tool_results"] = serde_json::json!([result("b", true)]);
    one["ticks"] = ticks.into();
    let temp = tempfile::tempdir().expect("a directory");
    let path = temp.path().join("one.json");
    std::fs::write(&path, one.to_string()).expect("written");
    let run = read(&path);
    assert_eq!(
        (run.row.steps_known(), run.row.model_calls, run.row.turns),
        (None, None, None)
    );
    // Its tool calls are recorded.
    assert_eq!(
        (
            run.row.tool_calls,
            run.row.tool_errors,
            run.row.events,
            run.row.issues
        ),
        (Some(2), Some(1), 5, (1, 0))
    );
    says_nothing_of_steps(&path);
    let step = run.step(0);
    assert_eq!(
        (
            &step["action_results"][0]["output"],
            &step["action_results"][1]["error"]
        ),
        (&"x".into(), &"x".into())
    );
}

#[test]
fn a_message_that_is_there_twice_counts_once() {
    let text = std::fs::read_to_string(sample("tools/tau2/results.json")).expect("the sample");
    let results: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    let mut one = results["simulations"][1].clone();
    let temp = tempfile::tempdir().expect("a directory");
    let path = temp.path().join("one.json");
    let mut messages = || {
        std::fs::write(&path, one.to_string()).expect("written");
        let list = one["messages"].as_array_mut().expect("a list");
        list.push(list.last().expect("a message").clone());
        read(&path)
            .index
            .manifest()
            .get()
            .and_then(|run| run.trial.as_ref()?.messages)
    };
    let once = messages();
    assert!(once.is_some());
    assert_eq!(messages(), once);
}

#[test]
fn a_damaged_simulation_loses_only_what_is_damaged() {
    let text = std::fs::read_to_string(sample("tools/tau2/results.json")).expect("the sample");
    let results: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    let temp = tempfile::tempdir().expect("a directory");
    let path = temp.path().join("one.json");
    let mut one = results["simulations"][1].clone();
    one["messages"].as_array_mut().expect("a list").truncate(3);
    one["reward_info"] = serde_json::json!({"reward": 0.0});
    std::fs::write(&path, one.to_string()).expect("written");
    damaged(&path);
}
