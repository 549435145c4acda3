//! Tests sessions of Kimi CLI, and those that Kimi Code imported from it.

use std::process::Command;

use serde_json::{Value, json};

use super::{Read, damaged, read};
use crate::board::BINARY;

/// Writes a session below a directory with its id, and returns its file.
fn made(messages: &[(&str, Value)]) -> (tempfile::TempDir, std::path::PathBuf) {
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path().join("10eeedb1-58d1-477e-9e8e-13637fccfe73");
    std::fs::create_dir_all(&dir).unwrap();
    let header = json!({"type": "metadata", "protocol_version": "1.10"});
    let line = |(at, (kind, payload)): (usize, &(&str, Value))| json!({"timestamp": 1_795_962_365.25 + at as f64, "message": {"type": kind, "payload": payload}});
    let lines = messages.iter().enumerate().map(line);
    let text: String = [header]
        .into_iter()
        .chain(lines)
        .map(|line| format!("{line}\n"))
        .collect();
    let path = dir.join("wire.jsonl");
    std::fs::write(&path, text).unwrap();
    (temp, path)
}

fn begin(words: &str) -> (&'static str, Value) {
    ("TurnBegin", json!({"user_input": words}))
}

fn step(n: u32) -> (&'static str, Value) {
    ("StepBegin", json!({"n": n}))
}

fn says(words: &str) -> (&'static str, Value) {
    ("ContentPart", json!({"type": "text", "text": words}))
}

fn calls(id: &str, name: &str, args: &Value) -> (&'static str, Value) {
    let function = json!({"name": name, "arguments": args.to_string()});
    (
        "ToolCall",
        json!({"type": "function", "id": id, "function": function, "extras": null}),
    )
}

fn used(other: u64, cached: u64, output: u64) -> (&'static str, Value) {
    let usage = json!({"input_other": other, "output": output, "input_cache_read": cached, "input_cache_creation": 0});
    (
        "StatusUpdate",
        json!({"context_tokens": 1, "max_context_tokens": 100_000, "token_usage": usage}),
    )
}

fn gives(id: &str, is_error: bool, output: &str, message: &str) -> (&'static str, Value) {
    let value = json!({"is_error": is_error, "output": output, "message": message, "display": [], "extras": null});
    (
        "ToolResult",
        json!({"tool_call_id": id, "return_value": value}),
    )
}

fn end() -> (&'static str, Value) {
    ("TurnEnd", json!({}))
}

/// A turn with a command that fails.
fn first_turn() -> Vec<(&'static str, Value)> {
    let think = (
        "ContentPart",
        json!({"type": "think", "think": "I should look.", "encrypted": null}),
    );
    vec![
        begin("Fix add."),
        step(1),
        think,
        says("I run the tests."),
        calls("c1", "Shell", &json!({"command": "python3 test.py"})),
        used(1_000, 200, 50),
        gives(
            "c1",
            true,
            "AssertionError: -1\n",
            "Command failed with exit code: 1.",
        ),
        step(2),
    ]
}

fn verdict(run: &Read) -> (&str, &str) {
    (&run.row.verdict.sentence, run.row.verdict.outcome.as_str())
}

#[test]
fn a_session_with_two_turns() {
    let mut messages = first_turn();
    messages.extend([says("Fixed."), used(70, 2_500, 30), end()]);
    messages.extend([
        begin("Why?"),
        step(1),
        says("The sign."),
        used(500, 2_600, 33),
        end(),
    ]);
    let (_temp, path) = made(&messages);
    let run = read(&path);
    assert_eq!(
        (run.row.steps, run.row.turns, run.row.issues),
        (3, Some(2), (0, 0))
    );
    assert_eq!(
        (run.row.tool_calls, run.row.tool_errors),
        (Some(1), Some(1))
    );
    // 1,200 + 50, 2,570 + 30, 3,100 + 33.
    assert_eq!(
        (run.row.tokens, run.row.usage.cached),
        (Some(6_983), Some(5_300))
    );
    assert_eq!(run.row.task.as_deref(), Some("Fix add."));
    assert_eq!(
        run.row.run_id.as_deref(),
        Some("10eeedb1-58d1-477e-9e8e-13637fccfe73")
    );
    assert_eq!(verdict(&run), ("Answered at step 2", "completed"));
    let first = run.step(0);
    assert_eq!(first["action_results"][0]["returncode"], 1, "{first}");
    assert!(first.to_string().contains("I should look."));
    let shown = Command::new(BINARY).arg("show").arg(&path).output();
    let shown = String::from_utf8(shown.unwrap().stdout).unwrap();
    for words in ["> Fix add.", "> Why?", "The sign."] {
        assert!(shown.contains(words), "{words}: {shown}");
    }
    damaged(&path);
}

#[test]
fn an_end_is_inferred_from_what_came_before() {
    let retry = (
        "StepRetry",
        json!({"n": 2, "next_attempt": 2, "error_type": "APIStatusError", "status_code": 500}),
    );
    let given_up = ("StepInterrupted", json!({}));
    let open = calls("c2", "Shell", &json!({"command": "sleep 30"}));
    for (more, words, outcome) in [
        (
            vec![retry, given_up.clone(), end()],
            "API error after step 0: 500 APIStatusError",
            "failed",
        ),
        (vec![given_up, end()], "Cancelled after step 0", "cancelled"),
        (
            vec![open.clone(), used(1, 1, 1), end()],
            "Cancelled in step 1 during a call to Shell",
            "cancelled",
        ),
        (
            vec![open, used(1, 1, 1)],
            "No result for Shell in step 1",
            "unknown",
        ),
        (
            vec![end()],
            "Turn ended without an answer after step 0",
            "unknown",
        ),
    ] {
        let messages: Vec<_> = first_turn().into_iter().chain(more).collect();
        let (_temp, path) = made(&messages);
        let run = read(&path);
        let (sentence, found) = verdict(&run);
        assert!(sentence.contains(words), "{sentence}");
        assert_eq!(found, outcome, "{sentence}");
    }
}

#[test]
fn a_call_waits_for_the_permission_of_the_user() {
    let request = (
        "ApprovalRequest",
        json!({"id": "a", "tool_call_id": "c2", "sender": "Shell", "action": "run"}),
    );
    let mut messages = first_turn();
    messages.extend([calls("c2", "Shell", &json!({"command": "rm x"})), request]);
    let asks = |messages: &[(&str, Value)]| {
        let (_temp, path) = made(messages);
        let run = read(&path);
        let manifest = run.index.manifest().get().expect("a manifest");
        manifest.asks_user.as_deref().map(str::to_owned)
    };
    assert_eq!(
        asks(&messages).as_deref(),
        Some("the request for permission to use Shell")
    );
    messages.push((
        "ApprovalRequest",
        json!({"id": "b", "tool_call_id": "c2", "sender": "Shell", "action": "run"}),
    ));
    let answer = |id: &str| {
        let answer = json!({"request_id": id, "response": "approve"});
        ("ApprovalResponse", answer)
    };
    messages.push(answer("a"));
    assert!(asks(&messages).is_some(), "one request is still open");
    messages.push(answer("b"));
    assert_eq!(asks(&messages), None);
}

/// A session that Kimi Code imported.
fn imported(messages: &[Value]) -> (tempfile::TempDir, std::path::PathBuf) {
    let temp = tempfile::tempdir().unwrap();
    let path = temp.path().join("wire.jsonl");
    let time = 1_795_962_463_349_i64;
    let header = json!({"type": "metadata", "protocol_version": "1.0", "created_at": time});
    let prompt =
        json!({"role": "user", "content": [{"type": "text", "text": "Fix add."}], "toolCalls": []});
    let end = json!({"type": "turn.ended", "agentId": "main", "turnId": 0, "reason": "completed", "time": time});
    let messages = [prompt].into_iter().chain(messages.iter().cloned());
    let messages =
        messages.map(|message| json!({"type": "context.append_message", "message": message}));
    let lines = [header].into_iter().chain(messages).chain([end]);
    std::fs::write(
        &path,
        lines.map(|line| format!("{line}\n")).collect::<String>(),
    )
    .unwrap();
    (temp, path)
}

#[test]
fn an_imported_session_has_its_steps_and_no_certain_end() {
    let function = json!({"name": "Shell", "arguments": "{\"command\": \"python3 test.py\"}"});
    let reply = json!({"role": "assistant", "content": [{"type": "think", "think": "Hm."}, {"type": "text", "text": "I look."}],
        "toolCalls": [{"type": "function", "id": "c1", "function": function}]});
    let text = |text: &str| json!({"type": "text", "text": text});
    let fault = text("<system>ERROR: Command failed with exit code: 1.</system>");
    let result =
        json!({"role": "tool", "content": [fault, text("AssertionError: -1")], "toolCallId": "c1"});
    let answer = json!({"role": "assistant", "content": [text("Fixed.")], "toolCalls": []});
    let (_temp, path) = imported(&[reply.clone(), result.clone(), answer]);
    let run = read(&path);
    assert_eq!(
        (run.row.steps, run.row.turns, run.row.issues),
        (2, Some(1), (0, 0))
    );
    assert_eq!(
        (run.row.tool_calls, run.row.tool_errors),
        (Some(1), Some(1))
    );
    assert_eq!(run.row.answer.as_deref(), Some("Fixed."));
    assert_eq!(run.row.verdict.certainty.as_str(), "inferred");
    let first = run.step(0);
    assert_eq!(first["action_results"][0]["returncode"], 1, "{first}");
    assert!(first.to_string().contains("AssertionError: -1"));
    // The import calls every turn completed.
    let (_temp, path) = imported(&[reply, result]);
    let run = read(&path);
    let (sentence, outcome) = verdict(&run);
    assert!(
        sentence.starts_with("Turn ended without an answer after step 0"),
        "{sentence}"
    );
    assert_eq!((outcome, run.row.answer.as_deref()), ("unknown", None));
}
