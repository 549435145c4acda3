//! Tests sessions and streams of Qwen Code.

use super::truth::{FIELDS, compare};
use super::{damaged, read, sample};

const SESSION: &str = "7a1b2c3d-0000-4000-8000-0000000000d";

#[test]
fn a_session_is_read_by_its_lines() {
    let run = read(&sample(&format!("tools/qwen/chats/{SESSION}1.jsonl")));
    let row = &run.row;
    assert_eq!(
        (row.steps, row.errors, row.events, row.issues),
        (3, 1, 10, (0, 0))
    );
    // 9,060, 9,330, 9,714.
    assert_eq!(row.tokens, Some(28_104));
    assert_eq!(row.tools, ["run_shell_command", "edit", "agent"]);
    assert_eq!(row.changed, ["files.split.py"]);
    assert_eq!(
        row.verdict.sentence,
        "Finished at step 2 (inferred: the last reply made no tool calls)"
    );
    let manifest = run.index.manifest().get().expect("a manifest");
    assert_eq!((manifest.turns, manifest.children), (Some(1), Some(1)));
    assert_eq!(
        (manifest.tool.as_deref(), manifest.project.as_deref()),
        (Some("Qwen Code 0.24.4"), Some("/home/me/ledger"))
    );
    let step = run.step(0);
    assert_eq!(step["decision"]["rationale"], "Read first.");
    let failed = &step["action_results"][0];
    assert_eq!(
        (&failed["error"], &failed["returncode"]),
        (&"99 != 100".into(), &1.into())
    );
    assert_eq!(
        step["state_diff"]["files.split.py"]["before"],
        "return a // b\n"
    );
}

#[test]
fn a_reply_of_a_sub_agent_is_spread_over_lines() {
    let run = read(&sample(&format!(
        "tools/qwen/subagents/{SESSION}1/agent-general-purpose-c3.jsonl"
    )));
    assert_eq!((run.row.steps, run.row.tokens), (2, Some(6_380)));
    assert_eq!(run.row.parent.as_deref(), Some(&*format!("{SESSION}1")));
    assert_eq!(
        run.step(0)["action_results"][0]["metadata"]["latency_ms"],
        95.0
    );
}

#[test]
fn an_error_that_nothing_comes_after_is_the_end() {
    let run = read(&sample(&format!("tools/qwen/chats/{SESSION}2.jsonl")));
    let verdict = &run.row.verdict;
    assert!(
        verdict
            .sentence
            .starts_with("API error after step 0: 400 This request"),
        "{}",
        verdict.sentence
    );
    assert_eq!(verdict.certainty.as_str(), "inferred");
}

#[test]
fn messages_of_one_reply_are_one_step_in_a_stream() {
    let run = read(&sample("tools/qwen-stream/answered.jsonl"));
    let row = &run.row;
    assert_eq!(
        (row.steps, row.errors, row.tokens, row.issues),
        (2, 1, Some(18_374), (0, 0))
    );
    assert_eq!(
        (&*row.verdict.sentence, row.verdict.certainty.as_str()),
        ("Answered at step 1", "recorded")
    );
    assert_eq!(run.step(0)["model_response"]["text"], "I read it.");
    assert_eq!(
        run.index
            .manifest()
            .get()
            .and_then(|manifest| manifest.tool.as_deref()),
        Some("Qwen Code 0.24.4")
    );
    let stopped = read(&sample("tools/qwen-stream/loop.jsonl"));
    assert!(
        stopped
            .row
            .verdict
            .sentence
            .starts_with("Stopped by loop detection after step 0: Loop detection halted")
    );
}

#[test]
fn a_damaged_session_loses_only_what_is_damaged() {
    damaged(&sample(&format!("tools/qwen/chats/{SESSION}3.jsonl")));
    damaged(&sample("tools/qwen-stream/cut.jsonl"));
}

/// The reply that the program's loop detection discarded is in no file.
const LOOP: [(&str, &str, u64, &str); 8] = [
    ("loops", "replies", 4, "thrown away"),
    ("loops", "calls", 4, "thrown away"),
    ("loops", "failed calls", 4, "thrown away"),
    ("loops", "calls without an answer", 0, "thrown away"),
    ("loops", "input", 37_806, "thrown away"),
    ("loops", "cached", 36_600, "thrown away"),
    ("loops", "output", 86, "thrown away"),
    ("loops", "tokens of the run", 37_892, "thrown away"),
];

#[test]
fn real_sessions_agree_with_what_is_known_of_them() {
    let is_session = |file: &str| file.starts_with("projects/") && file.ends_with(".jsonl");
    compare("qwen", is_session, &FIELDS, &LOOP);
}

#[test]
fn real_streams_agree_with_what_is_known_of_them() {
    let own = "replies of sub-agents aren't printed";
    let known = [
        ("subagent", "replies", 3, own),
        ("subagent", "calls", 1, own),
        ("subagent", "input", 28_100, own),
        ("subagent", "cached", 18_500, own),
        ("subagent", "output", 73, own),
        // The last record has the totals with those of sub-agents.
        ("subagent", "input of the run", 34_400, own),
        ("subagent", "cached of the run", 21_500, own),
        ("subagent", "output of the run", 153, own),
    ];
    let known: Vec<_> = LOOP.into_iter().chain(known).collect();
    let fields: Vec<_> = FIELDS
        .into_iter()
        .filter(|field| !field.starts_with("thought"))
        .collect();
    compare("qwen", |file| file == "stream.jsonl", &fields, &known);
}

/// Writes a session in the shape of version 0.24.
struct Lines {
    lines: Vec<serde_json::Value>,
    agent: Option<&'static str>,
}

impl Lines {
    fn new(agent: Option<&'static str>) -> Self {
        let lines = Vec::new();
        Self { lines, agent }
    }

    fn add(&mut self, kind: &str, more: &serde_json::Value) {
        let n = self.lines.len();
        let mut line = serde_json::json!({
            "uuid": format!("u{n}"), "sessionId": "s", "timestamp": format!("2026-05-04T09:00:0{n}.000Z"),
            "type": kind, "version": "0.24.4", "agentId": self.agent,
        });
        let (object, more) = (line.as_object_mut().unwrap(), more.as_object().unwrap());
        object.extend(more.clone());
        self.lines.push(line);
    }

    fn message(&mut self, kind: &str, part: &serde_json::Value) {
        self.add(
            kind,
            &serde_json::json!({"message": {"role": "x", "parts": [part]}}),
        );
    }

    fn event(&mut self, event: &serde_json::Value) {
        let payload = serde_json::json!({"uiEvent": event});
        let more = serde_json::json!({"subtype": "ui_telemetry", "systemPayload": payload});
        self.add("system", &more);
    }

    fn response(&mut self) {
        self.event(&serde_json::json!({"event.name": "qwen-code.api_response"}));
    }

    fn write(&self, path: &std::path::Path) {
        let lines: String = self.lines.iter().map(|line| format!("{line}\n")).collect();
        std::fs::write(path, lines).expect("written");
    }
}

#[test]
fn the_first_reply_may_be_the_interrupted_one() {
    let temp = tempfile::tempdir().expect("a directory");
    let file = temp.path().join("session.jsonl");
    let end = |writer: Option<&str>, tokens: Option<u32>| {
        let mut lines = Lines::new(None);
        lines.message("user", &serde_json::json!({"text": "Talk to me."}));
        let mut more = serde_json::json!({"message": {"role": "model", "parts": [{"text": "A long story beg"}]}});
        if let Some(writer) = writer {
            more["provenance"] = writer.into();
        }
        if let Some(tokens) = tokens {
            more["usageMetadata"] =
                serde_json::json!({"promptTokenCount": 90, "candidatesTokenCount": tokens});
        }
        lines.add("assistant", &more);
        lines.write(&file);
        let row = read(&file).row;
        (row.verdict.outcome.as_str(), row.answer.is_some())
    };
    assert_eq!(end(Some("assistant_output"), None), ("cancelled", false));
    assert_eq!(end(Some("assistant_output"), Some(9)), ("completed", true));
    // An older version doesn't record responses.
    assert_eq!(end(None, None), ("completed", true));
}

#[test]
fn a_reply_without_a_response_of_the_service_was_interrupted() {
    let temp = tempfile::tempdir().expect("a directory");
    let file = temp.path().join("session.jsonl");
    let text = |text: &str| serde_json::json!({"text": text});
    let call =
        serde_json::json!({"functionCall": {"id": "c", "name": "run_shell_command", "args": {}}});
    let given = serde_json::json!({"functionResponse": {"id": "c", "name": "run_shell_command", "response": {"output": "hi"}}});
    let ends = |responses: [bool; 2], error: bool| {
        let mut lines = Lines::new(None);
        lines.message("user", &text("Say hi."));
        if responses[0] {
            lines.response();
        }
        lines.message("assistant", &call);
        lines.message("tool_result", &given);
        if responses[1] {
            lines.response();
        }
        if error {
            let event = serde_json::json!({"event.name": "qwen-code.api_error", "error_message": "terminated"});
            lines.event(&event);
        }
        lines.message("assistant", &text("A long story beg"));
        lines.write(&file);
        let row = read(&file).row;
        (row.verdict.sentence.to_string(), row.answer.is_some())
    };
    let cut = "Interrupted in step 1 while the model replied; its complete response isn't recorded";
    assert_eq!(ends([true, false], false), (cut.to_owned(), false));
    // No usage either, but a response.
    let answered = "Finished at step 1 (inferred: the last reply made no tool calls)";
    assert_eq!(ends([true, true], false), (answered.to_owned(), true));
    // Without any record of a response, nothing is known about it.
    assert_eq!(ends([false, false], false), (answered.to_owned(), true));
    let failed = "API error after step 1: terminated (inferred from \"api_error\")";
    assert_eq!(ends([true, false], true), (failed.to_owned(), false));
}

#[test]
fn the_document_next_to_a_sub_agents_file_records_its_end() {
    let temp = tempfile::tempdir().expect("a directory");
    let file = temp.path().join("agent-general-purpose-c3.jsonl");
    let mut lines = Lines::new(Some("general-purpose-c3"));
    lines.message("user", &serde_json::json!({"text": "Look."}));
    let ends = |lines: &Lines, state: &str| {
        lines.write(&file);
        let state_file = temp.path().join("agent-general-purpose-c3.meta.json");
        std::fs::write(state_file, state).expect("written");
        let verdict = read(&file).row.verdict;
        let certainty = verdict.certainty.as_str();
        (verdict.sentence.to_string(), certainty)
    };
    let error = r#""Unhandled error. ({\n  subagentId: 'a',\n  error: '400 bad thing',\n  timestamp: 1\n})""#;
    let failed = format!(r#"{{"agentId":"a","status":"failed","lastError":{error}}}"#);
    let (sentence, certainty) = ends(&lines, &failed);
    assert!(sentence.contains("Failed with an error"), "{sentence}");
    assert!(sentence.ends_with(": 400 bad thing"), "{sentence}");
    assert_eq!(certainty, "recorded");
    let running = ends(&lines, r#"{"status":"running"}"#);
    assert!(running.0.starts_with("No model reply"), "{}", running.0);
    lines.message("assistant", &serde_json::json!({"text": "Nobody."}));
    let completed = ends(&lines, r#"{"status":"completed"}"#);
    assert_eq!(completed, ("Answered at step 0".to_owned(), "recorded"));
}

#[test]
fn a_failed_command_has_its_output_as_error() {
    let temp = tempfile::tempdir().expect("a directory");
    let file = temp.path().join("session.jsonl");
    let result = |output: &str, exit: &str, signal: &str, display: serde_json::Value| {
        let report = format!(
            "Command: x\nDirectory: (root)\nOutput: {output}\nError: (none)\nExit Code: {exit}\n\
             Signal: {signal}\nProcess Group PGID: (none)"
        );
        let mut lines = Lines::new(None);
        lines.message("user", &serde_json::json!({"text": "Try it."}));
        let call =
            serde_json::json!({"id": "c", "name": "run_shell_command", "args": {"command": "x"}});
        lines.message("assistant", &serde_json::json!({"functionCall": call}));
        let given = serde_json::json!({"id": "c", "name": "run_shell_command", "response": {"error": report}});
        lines.add(
            "tool_result",
            &serde_json::json!({
                "message": {"role": "user", "parts": [{"functionResponse": given}]},
                "toolCallResult": {"callId": "c", "status": "error", "resultDisplay": display},
            }),
        );
        lines.write(&file);
        let result = read(&file).step(0)["action_results"][0].clone();
        let error = result["error"].as_str().map(str::to_owned);
        (error.unwrap_or_default(), result["returncode"].as_i64())
    };
    let shown =
        |output: &str| serde_json::json!({"type": "shell_result", "exitCode": 1, "output": output});
    assert_eq!(
        result("two", "1", "(none)", shown("two")),
        ("two".to_owned(), Some(1))
    );
    let silent = ("exit code 1, no output".to_owned(), Some(1));
    assert_eq!(result("(empty)", "1", "(none)", shown("")), silent);
    // Older versions record no more than the text.
    assert_eq!(result("(empty)", "1", "(none)", "".into()), silent);
    let killed = ("ended by signal 9, no output".to_owned(), None);
    assert_eq!(result("(empty)", "(none)", "9", "".into()), killed);
}
