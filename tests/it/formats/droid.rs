//! Tests sessions of Droid.

use serde_json::{Value, json};

use super::{damaged, read, sample};

fn session(letter: char) -> std::path::PathBuf {
    sample(&format!(
        "tools/droid/-home-me-ledger/d0000000-0000-4000-8000-00000000000{letter}.jsonl"
    ))
}

#[test]
fn a_session_with_its_settings() {
    let run = read(&session('a'));
    let row = &run.row;
    assert_eq!(
        (row.steps, row.errors, row.events, row.issues),
        (3, 1, 9, (0, 0))
    );
    // 900 + 40 + 3,000, and 160.
    assert_eq!((row.tokens, row.usage.cached), (Some(4_100), Some(3_000)));
    assert_eq!((row.tool_calls, row.tool_errors), (Some(3), Some(1)));
    assert_eq!(row.turns, Some(1));
    assert_eq!(
        (row.task.as_deref(), row.title()),
        (Some("The total is wrong, fix it."), "Fix the ledger total")
    );
    assert_eq!(row.project.as_deref(), Some("/home/me/ledger"));
    assert_eq!(
        (&*row.verdict.sentence, row.verdict.certainty.as_str()),
        ("Answered at step 2", "recorded")
    );
    let manifest = run.index.manifest().get().expect("a manifest");
    assert_eq!(manifest.model.as_deref(), Some("glm-4.6"));
    assert_eq!(manifest.cost_usd, None);
    let step = run.step(0);
    assert_eq!(step["action_results"][0]["status"], "error", "{step}");
    assert!(step.to_string().contains("FAILED (failures=1)"));
}

#[test]
fn a_sub_agent_names_the_session_that_started_it() {
    let run = read(&session('b'));
    assert_eq!(
        run.row.parent.as_deref(),
        Some("d0000000-0000-4000-8000-00000000000a")
    );
    // The output includes the reasoning.
    assert_eq!(
        (run.row.tokens, run.row.usage.reasoning),
        (Some(350), Some(20))
    );
    assert_eq!(run.row.verdict.outcome.as_str(), "unknown");
}

#[test]
fn a_later_turn_without_an_outcome_has_no_end() {
    let run = read(&session('c'));
    assert_eq!((run.row.steps, run.row.turns), (2, Some(2)));
    assert_eq!(run.row.title(), "Build it.", "its own says nothing");
    assert_eq!(run.row.verdict.outcome.as_str(), "unknown");
    let manifest = run.index.manifest().get().expect("a manifest");
    assert_eq!(manifest.compactions.len(), 1);
    assert!(manifest.awaits_user);
}

/// A session with one prompt and these lines after it.
fn made(lines: &[Value]) -> (tempfile::TempDir, std::path::PathBuf) {
    let temp = tempfile::tempdir().unwrap();
    let path = temp.path().join("s.jsonl");
    let prompt = message("user", &json!([{"type": "text", "text": "Fix it."}]));
    let start = json!({"type": "session_start", "id": "s", "title": "Fix it.", "cwd": "/p"});
    let all = [start, prompt].into_iter().chain(lines.iter().cloned());
    let text: String = all.map(|line| format!("{line}\n")).collect();
    std::fs::write(&path, text).unwrap();
    (temp, path)
}

fn message(role: &str, content: &Value) -> Value {
    json!({"type": "message", "id": content.to_string(), "timestamp": "2026-01-02T09:00:00.000Z",
        "message": {"role": role, "content": content}})
}

fn calls(tool: &str) -> Value {
    let call = json!({"type": "tool_use", "id": "c1", "name": tool, "input": {"command": "ls"}});
    let mut line = message(
        "assistant",
        &json!([{"type": "text", "text": "I look."}, call]),
    );
    line["message"]["modelId"] = "m".into();
    line
}

fn gives(text: &str, failed: bool) -> Value {
    let result =
        json!([{"type": "tool_result", "tool_use_id": "c1", "is_error": failed, "content": text}]);
    message("user", &result)
}

fn outcome(reason: &str) -> Value {
    json!({"type": "agent_turn_outcome", "turnId": "t", "reason": reason, "resultKind": "text"})
}

/// What the program tells its user.
fn told(text: &str) -> Value {
    let mut line = message("user", &json!([{"type": "text", "text": text}]));
    line["message"]["visibility"] = "user_only".into();
    line
}

#[test]
fn a_completed_turn_without_an_answer_is_no_success() {
    let own = message(
        "assistant",
        &json!([{"type": "text", "text": "Exec ended early: no permission."}]),
    );
    let silent = told("The model produced several responses without output.");
    let refused = "Error: Tool execution cancelled by user";
    for (lines, outcome, words) in [
        (
            vec![calls("Execute"), gives(refused, true)],
            "cancelled",
            "Cancelled in step 0 during a call to Execute",
        ),
        (
            vec![calls("Read"), gives("text", false), silent],
            "unknown",
            "Turn ended without an answer after step 0: The model produced several",
        ),
        (
            vec![calls("Execute"), gives("Error: not permitted", true), own],
            "unknown",
            "Turn ended without an answer after step 0: Exec ended early",
        ),
    ] {
        let lines: Vec<Value> = lines
            .into_iter()
            .chain([self::outcome("completed")])
            .collect();
        let (_temp, path) = made(&lines);
        let run = read(&path);
        let verdict = &run.row.verdict;
        assert_eq!(verdict.outcome.as_str(), outcome, "{}", verdict.sentence);
        assert!(verdict.sentence.contains(words), "{}", verdict.sentence);
        assert_eq!(run.row.answer, None, "{}", verdict.sentence);
        assert_eq!(run.row.steps, 1);
    }
}

#[test]
fn a_failed_request_is_told_with_its_error() {
    let error =
        "BYOK Error: 429 rate limit reached\n\nUpstream error: x\n\nIf this persists, look.";
    let lines = [
        calls("Read"),
        gives("text", false),
        told(error),
        outcome("model_rate_limited"),
    ];
    let (_temp, path) = made(&lines);
    let run = read(&path);
    assert_eq!(
        (&*run.row.verdict.sentence, run.row.verdict.outcome.as_str()),
        ("API error after step 0: 429 rate limit reached", "failed")
    );
}

#[test]
fn calls_name_their_exit_code_and_who_stopped_them() {
    let failed = "Error: Command failed (exit code: 3)\nno\n\n[Process exited with code 3]";
    let (_temp, path) = made(&[calls("Execute"), gives(failed, true)]);
    let run = read(&path);
    assert_eq!(run.step(0)["action_results"][0]["returncode"], 3);
    assert_eq!(run.row.tool_errors, Some(1));
    let stopped = gives("Tool execution cancelled by user", true);
    let (_temp, path) = made(&[calls("Execute"), stopped]);
    let run = read(&path);
    assert_eq!(run.step(0)["action_results"][0]["status"], "cancelled");
    assert_eq!(run.row.tool_errors, Some(0));
}

#[test]
fn a_question_waits_for_the_user() {
    let (_temp, path) = made(&[calls("AskUser")]);
    let run = read(&path);
    let manifest = run.index.manifest().get().expect("a manifest");
    assert!(manifest.awaits_user);
    assert_eq!(manifest.asks_user.as_deref(), Some("AskUser"));
}

#[test]
fn a_damaged_session_loses_only_what_is_damaged() {
    ['a', 'b', 'c']
        .into_iter()
        .for_each(|letter| damaged(&session(letter)));
}
