//! Tests sessions of Mistral Vibe.

use std::sync::Arc;

use trace_board::analysis::summary::Summary;
use trace_board::model::Index;
use trace_board::model::price::Prices;
use trace_board::trace::{RunDir, RunReader};

use super::truth::{FIELDS, compare};
use super::{damaged, read, sample};
use crate::cli::board;
use crate::disk::{copy, walk};

fn journal(session: u8) -> std::path::PathBuf {
    sample(&format!(
        "tools/vibe/unified/{}/journal/0000000000000001.jsonl",
        id(session)
    ))
}

fn id(session: u8) -> String {
    format!("3c4d5e6f-0000-4000-8000-0000000000a{session}")
}

#[test]
fn a_session_is_read_from_its_journal() {
    let run = read(&journal(1));
    let row = &run.row;
    assert_eq!((row.steps, row.errors, row.issues), (4, 1, (0, 0)));
    // 1,060, 1,140, 1,350, 1,410.
    assert_eq!((row.tokens, row.usage.cached), (Some(4_960), Some(3_300)));
    assert_eq!(
        (row.usage.output, row.usage.reasoning),
        (Some(160), Some(20))
    );
    assert_eq!((row.tool_calls, row.tool_errors), (Some(5), Some(1)));
    assert_eq!(row.changed, ["files.split.py", "files.NOTES.md"]);
    assert_eq!(
        (&*row.verdict.sentence, row.verdict.certainty.as_str()),
        ("Answered at step 3", "recorded")
    );
    let step = run.step(0);
    assert_eq!(step["decision"]["rationale"], "Read first.");
    // A command that failed is a success of its tool.
    let results = &step["action_results"];
    assert_eq!(
        (&results[1]["status"], &results[1]["returncode"]),
        (&"error".into(), &1.into())
    );
    assert_eq!(results[1]["error"], "AssertionError: 99 != 100\n");
    assert_eq!(
        results[0]["output"],
        "def split(a, b):\n    return [a // b] * b\n"
    );
}

#[test]
fn the_document_beside_the_journal_names_the_model_and_the_sessions_around() {
    let run = read(&journal(1));
    let manifest = run.index.manifest().get().expect("a manifest");
    assert_eq!(manifest.run_id.as_deref(), Some(&*id(1)));
    assert_eq!(manifest.model.as_deref(), Some("glm-5"));
    assert_eq!(manifest.project.as_deref(), Some("/home/me/ledger"));
    assert_eq!(manifest.titles, ["Lost cent".into()]);
    assert_eq!((manifest.turns, manifest.children), (Some(1), Some(1)));
    assert_eq!(manifest.child_ids, [id(3).into()]);
    let child = read(&journal(3)).row;
    assert_eq!(child.parent.as_deref(), Some(&*id(1)));

    // A copy of the journal alone says less.
    let temp = tempfile::tempdir().expect("a directory");
    let copy = temp.path().join("journal.jsonl");
    std::fs::copy(journal(1), &copy).expect("copied");
    let alone = read(&copy);
    let manifest = alone.index.manifest().get().expect("a manifest");
    assert_eq!((&manifest.model, &manifest.project), (&None, &None));
    assert_eq!(alone.row.tokens, Some(4_960));
}

#[test]
fn an_edit_is_a_diff() {
    let run = read(&journal(1));
    let step = run.step(1);
    let diff = step.to_string();
    assert!(
        diff.contains("@@ -2,1 +2,2 @@\\n-    return [a // b] * b\\n+    c, d = divmod(a, b)"),
        "{diff}"
    );
}

#[test]
fn a_turn_that_completed_with_a_truncated_reply_did_not_answer() {
    let path = journal(2);
    let text = std::fs::read_to_string(&path).expect("the sample");
    let temp = tempfile::tempdir().expect("a directory");
    let first = temp.path().join("journal.jsonl");
    let turn: String = text
        .lines()
        .take(10)
        .map(|line| format!("{line}\n"))
        .collect();
    std::fs::write(&first, turn).expect("written");
    let run = read(&first);
    assert_eq!(
        run.row.verdict.sentence,
        "Reply token limit reached in step 1"
    );
    let both = read(&path);
    // 564, 574, 620.
    assert_eq!((both.row.steps, both.row.tokens), (3, Some(1_758)));
    assert_eq!(both.row.verdict.outcome.as_str(), "cancelled");
    assert_eq!(both.step(2)["action_results"][0]["status"], "cancelled");
}

#[test]
fn a_limit_and_a_failed_request_are_named() {
    let row = read(&journal(3)).row;
    // 520, 590.
    assert_eq!(
        (row.steps, row.tokens, row.tool_errors),
        (2, Some(1_110), Some(1))
    );
    assert_eq!(row.verdict.outcome.as_str(), "truncated");
    assert!(
        row.verdict.sentence.starts_with("Turn limit reached"),
        "{}",
        row.verdict.sentence
    );
    let row = read(&journal(4)).row;
    assert_eq!((row.steps, row.tokens), (1, Some(520)));
    assert_eq!(
        row.verdict.sentence,
        "API error after step 0: Invalid API key"
    );
}

#[test]
fn a_journal_that_begins_later_says_what_is_missing() {
    let text = std::fs::read_to_string(journal(2)).expect("the sample");
    let temp = tempfile::tempdir().expect("a directory");
    let later = temp.path().join("0000000000000012.jsonl");
    let lines: String = text
        .lines()
        .skip(11)
        .map(|line| format!("{line}\n"))
        .collect();
    std::fs::write(&later, lines).expect("written");
    let run = read(&later);
    let manifest = run.index.manifest().get().expect("a manifest");
    assert_eq!(run.row.steps, 1);
    assert_eq!(manifest.notes.len(), 1, "{:?}", manifest.notes);
}

#[test]
fn the_tokens_of_a_resumed_session_include_what_came_before() {
    let temp = tempfile::tempdir().expect("a directory");
    let meta = journal(2).with_file_name("../meta.json");
    std::fs::copy(meta, temp.path().join("meta.json")).expect("copied");
    let journals = temp.path().join("journal");
    std::fs::create_dir(&journals).expect("created");
    let later = journals.join("0000000000000012.jsonl");
    let mut spent = [500, 100, 30];
    let mut lines = String::new();
    let text = std::fs::read_to_string(journal(2)).expect("the sample");
    for line in text.lines().skip(11) {
        let mut line: serde_json::Value = serde_json::from_str(line).expect("JSON");
        let usage = &line["payload"]["input"]["command"]["result"]["usage"];
        for (sum, key) in [
            (0, "input_tokens"),
            (1, "cached_input_tokens"),
            (2, "output_tokens"),
        ] {
            spent[sum] += usage[key].as_u64().unwrap_or_default();
        }
        let changes = line["payload"]["delta"].as_array_mut();
        for change in changes
            .into_iter()
            .flatten()
            .filter(|change| change["op"] == "set_envelope")
        {
            change["state"]["session"]["tokenUsage"] = serde_json::json!({
                "inputTokens": spent[0], "cachedInputTokens": spent[1], "outputTokens": spent[2],
            });
        }
        lines += &format!("{line}\n");
    }
    std::fs::write(&later, lines).expect("written");
    let run = read(&later);
    let (row, manifest) = (&run.row, run.index.manifest().get().expect("a manifest"));
    // The reply after the start took 620.
    assert_eq!((row.steps, row.tokens), (1, Some(530 + 620)));
    assert_eq!(
        (row.usage.input, row.usage.cached, row.usage.output),
        (Some(spent[0]), Some(spent[1]), Some(spent[2]))
    );
    assert!(row.tokens_of_thread);
    // The steps that are left are only a part of it, and so is their cost.
    let prices = Arc::new(Prices::default().with_list());
    let priced = row.clone().priced(&prices);
    assert_eq!(priced.cost_estimated_usd(), None);
    assert!(priced.cost_at_least_usd().is_some());
    assert_eq!(row.model_calls, None);
    assert_eq!(manifest.started_at, Some(1_777_888_800_000_000));
    assert_eq!(row.started, manifest.started_at);
    assert!(
        row.duration_ms.is_some_and(|ms| ms > 60_000.0),
        "{:?}",
        row.duration_ms
    );
}

#[test]
fn a_call_that_the_core_refuses_has_failed() {
    let temp = tempfile::tempdir().expect("a directory");
    let path = temp.path().join("journal.jsonl");
    let mut lines = Vec::new();
    let mut add = |kind: &str, payload: serde_json::Value| {
        let sequence = lines.len() + 1;
        lines.push(serde_json::json!({
            "payload": payload, "recovery_journal_record_version": 1, "sequence": sequence, "type": kind,
        }));
    };
    let input = |command: serde_json::Value, at: u64| serde_json::json!({"input": {"command": command, "determinism": {"time_unix_ms": 1_777_888_800_000_u64 + at}}});
    let prompt = serde_json::json!({"type": "user_message", "content": [{"type": "text", "text": "Make coffee."}]});
    add("core_input", input(prompt, 0));
    let reply = |parts: serde_json::Value| serde_json::json!({"type": "completion_succeeded", "result": {"finish_reason": "stop", "parts": parts}});
    let call = |id: &str, name: &str| serde_json::json!({"type": "tool_call", "id": id, "name": name, "arguments_json": "{}"});
    add(
        "core_input",
        input(
            reply(serde_json::json!([
                call("a", "make_coffee"),
                call("b", "bash")
            ])),
            1,
        ),
    );
    let done = serde_json::json!({"type": "tool_succeeded", "call_id": "b", "result": {"content": [{"type": "text", "text": "hi"}]}});
    add("core_input", input(done, 2));
    let error = r#"{"result":{"type":"error","error":{"name":"InvalidToolCall","message":"unsupported top-level tool"}}}"#;
    let given = |id: &str, outcome: &str, said: &str| serde_json::json!({"role": "tool", "tool_call_id": id, "outcome": outcome, "content": [{"type": "text", "text": said}]});
    let messages = [
        given("a", "failure", error),
        given("b", "failure", "no"),
        given("z", "failure", "no"),
    ];
    let request = serde_json::json!({"iteration": 1, "model_input": {"messages": {"messages": messages, "type": "append"}}});
    add(
        "action_intent",
        serde_json::json!({"kind": "completion", "request": request}),
    );
    add(
        "core_input",
        input(
            reply(serde_json::json!([{"type": "text", "text": "No."}])),
            3,
        ),
    );
    let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
    std::fs::write(&path, text).expect("written");
    let run = read(&path);
    let row = &run.row;
    assert_eq!(
        (row.steps, row.tool_calls, row.tool_errors),
        (2, Some(2), Some(1))
    );
    let results = &run.step(0)["action_results"];
    assert_eq!(
        (&results[0]["status"], &results[0]["error"]),
        (&"error".into(), &"unsupported top-level tool".into())
    );
    assert_eq!(results[1]["status"], "success");
    damaged(&path);
}

#[test]
fn a_damaged_session_loses_only_what_is_damaged() {
    (1..=4).for_each(|session| damaged(&journal(session)));
}

#[test]
fn real_sessions_agree_with_what_is_known_of_them() {
    let is_session = |file: &str| file.contains("/journal/0000000000000001");
    let why = "the result says that the call was cancelled";
    let known = [
        ("sigint-in-tool", "calls without an answer", 0, why),
        ("sigkill-in-tool", "calls without an answer", 0, why),
        ("sigkill-in-tool", "stopped calls", 1, why),
    ];
    compare("vibe", is_session, &FIELDS, &known);
}

const OF_2: &str = "tools/vibe2/session_20260504_090000_5e6f7a8b";
const CHILD_OF_2: &str = "agents/explore_20260504_090009_5e6f7a8c";

#[test]
fn a_session_of_version_2_ends_with_a_cancelled_command() {
    let run = read(&sample(&format!("{OF_2}/messages.jsonl")));
    let row = &run.row;
    assert_eq!(
        (row.steps, row.errors, row.issues, row.turns),
        (5, 2, (0, 0), Some(2))
    );
    assert_eq!((row.tokens, row.usage.cached), (Some(5_770), Some(4_100)));
    assert_eq!((row.tool_calls, row.tool_errors), (Some(6), Some(1)));
    assert_eq!(row.changed, ["files.split.py", "files.NOTES.md"]);
    assert_eq!(
        (row.verdict.outcome.as_str(), row.verdict.certainty.as_str()),
        ("cancelled", "recorded")
    );
    assert_eq!(
        (row.project.as_deref(), row.title()),
        (Some("/home/me/ledger"), "Lost cent")
    );
    let manifest = run.index.manifest().get().expect("a manifest");
    assert_eq!(manifest.model.as_deref(), Some("glm"));
    assert_eq!(
        manifest.child_ids,
        ["5e6f7a8b-0000-4000-8000-0000000000b2".into()]
    );
    let step = run.step(0);
    assert_eq!(step["decision"]["rationale"], "Read first.");
    let results = &step["action_results"];
    assert_eq!(
        (&results[0]["status"], &results[1]["returncode"]),
        (&"success".into(), &1.into())
    );
    let child = read(&sample(&format!("{OF_2}/{CHILD_OF_2}/messages.jsonl"))).row;
    assert_eq!(
        child.parent.as_deref(),
        Some("5e6f7a8b-0000-4000-8000-0000000000b1")
    );
    assert_eq!((child.steps, child.tokens), (1, Some(308)));
}

#[test]
fn real_sessions_of_version_2_agree_with_what_is_known_of_them() {
    let is_session = |file: &str| file.ends_with("/messages.jsonl");
    // Messages have no tokens, but the second document has those of the session.
    let of_steps = ["input", "cached", "output", "thought", "thought of the run"];
    let fields: Vec<&str> = FIELDS
        .into_iter()
        .filter(|field| !of_steps.contains(field))
        .collect();
    let why = "the program saves a reply after its calls have run";
    let known = [
        ("sigkill-in-tool", "replies", 1, why),
        ("sigkill-in-tool", "calls", 1, why),
        ("sigkill-in-tool", "calls without an answer", 0, why),
        ("sigkill-in-tool", "tokens of the run", 129, why),
        ("sigkill-in-tool", "input of the run", 120, why),
        ("sigkill-in-tool", "cached of the run", 80, why),
        ("sigkill-in-tool", "output of the run", 9, why),
    ];
    compare("vibe2", is_session, &fields, &known);
}

/// Sessions of version 2 are messages without times. The tokens are in the second document.
#[test]
fn a_session_of_version_2_is_read_from_its_messages_and_their_second_document() {
    let call = |id: &str, name: &str, arguments: serde_json::Value| {
        let function = serde_json::json!({"name": name, "arguments": arguments.to_string()});
        serde_json::json!({"id": id, "index": 0, "function": function, "type": "function"})
    };
    let reply = |id: &str, words: &str, calls: Vec<serde_json::Value>| serde_json::json!({"role": "assistant", "content": words, "injected": false, "message_id": id, "tool_calls": calls});
    let failed = "<tool_error>bash failed: Command failed: 'make'\nReturn code: 2\nStderr: no rule</tool_error>";
    let messages = [
        serde_json::json!({"role": "user", "content": "Fix it.", "injected": false, "message_id": "m1"}),
        reply(
            "m2",
            "I build it.",
            vec![
                call("c1", "bash", serde_json::json!({"command": "make"})),
                call(
                    "c2",
                    "write_file",
                    serde_json::json!({"file_path": "/p/a.py", "content": "x = 1\n"}),
                ),
            ],
        ),
        serde_json::json!({"role": "tool", "content": failed, "injected": false, "name": "bash", "tool_call_id": "c1"}),
        serde_json::json!({"role": "tool", "content": "bytes_written: 6", "injected": false, "name": "write_file", "tool_call_id": "c2",
            "tool_result": {"output": {"file_path": "/p/a.py", "bytes_written": 6}, "duration": 0.25, "cancelled": false}}),
        serde_json::json!({"role": "user", "content": "Remember the plan.", "injected": true, "message_id": "m3"}),
        reply("m4", "Done.", vec![]),
    ];
    let meta = serde_json::json!({"session_id": "ab12cd34-0000", "start_time": "2026-05-04T09:00:00+00:00", "end_time": "2026-05-04T09:00:30+00:00",
        "git_branch": "main", "environment": {"working_directory": "/p"}, "title": "Mend it", "config": {"model_name": "devstral"},
        "stats": {"session_prompt_tokens": 900, "session_cached_tokens": 300, "session_completion_tokens": 50, "session_cost": 0.01}});
    let temp = tempfile::tempdir().expect("a directory");
    let path = temp.path().join("messages.jsonl");
    let write = |messages: &[serde_json::Value]| {
        let text: String = messages.iter().map(|line| format!("{line}\n")).collect();
        std::fs::write(&path, text).expect("written");
    };
    write(&messages);
    // Without the second document, the tokens are unknown.
    let run = read(&path);
    assert_eq!((run.row.steps, run.row.tokens), (2, None));
    std::fs::write(temp.path().join("meta.json"), meta.to_string()).expect("written");
    let run = read(&path);
    let row = &run.row;
    assert_eq!((row.steps, row.errors, row.issues), (2, 1, (0, 0)));
    assert_eq!((row.tokens, row.usage.cached), (Some(950), Some(300)));
    assert_eq!((row.tool_calls, row.tool_errors), (Some(2), Some(1)));
    assert_eq!((row.turns, row.title()), (Some(1), "Mend it"));
    assert_eq!(row.changed, ["files./p/a.py"]);
    assert_eq!(
        &*row.verdict.sentence,
        "Finished at step 1 (inferred: the last reply made no tool calls)"
    );
    let manifest = run.index.manifest().get().expect("a manifest");
    assert_eq!(manifest.run_id.as_deref(), Some("ab12cd34-0000"));
    assert_eq!(manifest.model.as_deref(), Some("devstral"));
    assert_eq!(
        (manifest.cost_usd, manifest.cost_estimated),
        (Some(0.01), true)
    );
    let results = &run.step(0)["action_results"];
    assert_eq!(results[0]["returncode"], 2);
    assert_eq!(results[1]["metadata"]["latency_ms"], 250.0);
    damaged(&path);
    // A call without a result ends nothing.
    write(&messages[..2]);
    assert_eq!(read(&path).row.verdict.outcome.as_str(), "unknown");
}

/// Writes the segment of a resumed session. Its first request contains the conversation before, with
/// these messages.
fn resumed(path: &std::path::Path, kind: &str, preview: &str, before: &[serde_json::Value]) {
    let mut sequence = 25;
    let mut lines = String::new();
    let mut add = |kind: &str, payload: serde_json::Value| {
        sequence += 1;
        let line = serde_json::json!({
            "payload": payload, "recovery_journal_record_version": 1, "sequence": sequence, "type": kind,
        });
        lines += &format!("{line}\n");
    };
    let input = |command: serde_json::Value, at: u64| serde_json::json!({"input": {"command": command, "determinism": {"time_unix_ms": 1_777_888_800_000_u64 + at}}});
    let text = |words: &str| serde_json::json!([{"type": "text", "text": words}]);
    add(
        "core_input",
        input(
            serde_json::json!({"type": "user_message", "content": text("Second.")}),
            0,
        ),
    );
    let session = serde_json::json!({"preview": preview, "createdAt": 1_777_888_700_000_u64,
        "tokenUsage": {"inputTokens": 2_700, "cachedInputTokens": 1_400, "outputTokens": 100}});
    add(
        "projection_delta",
        serde_json::json!({"delta": [{"op": "set_envelope", "state": {"session": session}}]}),
    );
    let last = serde_json::json!({"role": "user", "content": text("Second.")});
    let messages: Vec<_> = before.iter().chain([&last]).collect();
    let request = serde_json::json!({"iteration": 0, "model_input": {"messages": {"messages": messages, "type": kind}}});
    add(
        "action_intent",
        serde_json::json!({"kind": "completion", "request": request}),
    );
    let call = serde_json::json!([{"type": "tool_call", "id": "z", "name": "bash", "arguments_json": "{}"}]);
    let reply = serde_json::json!({"type": "completion_succeeded", "result": {"finish_reason": "tool_calls", "parts": call,
        "usage": {"input_tokens": 1_200, "cached_input_tokens": 200, "output_tokens": 40}}});
    add("core_input", input(reply, 1));
    let done = serde_json::json!({"type": "tool_succeeded", "call_id": "z", "result": {"structured_content": {"returncode": 0, "stdout": "b"}}});
    add("core_input", input(done, 2));
    std::fs::write(path, lines).expect("written");
}

#[test]
fn a_session_that_was_closed_was_not_resumed() {
    let temp = tempfile::tempdir().expect("a directory");
    let path = temp.path().join("0000000000000022.jsonl");
    let state = serde_json::json!({"session": {"preview": "First.", "title": null}, "latestTurn": {"status": "completed"}});
    let line = serde_json::json!({"payload": {"delta": [{"op": "set_envelope", "state": state}]},
        "recovery_journal_record_version": 1, "sequence": 22, "type": "projection_delta"});
    std::fs::write(&path, format!("{line}\n")).expect("written");
    let row = read(&path).row;
    assert_eq!((row.turns, row.model_calls), (None, None));
    assert_eq!(&*row.titles, ["First.".to_owned()]);
    assert_eq!(
        &*row.verdict.second,
        "Vibe keeps no journal of what came before: 21 records. The number of replies and calls in them is unknown."
    );
}

/// Writes a session that was closed: its journal has only the state that the program shows, and the
/// conversation is in chunks. Returns the path of the journal.
fn closed(root: &std::path::Path) -> std::path::PathBuf {
    let at = |millis: u64| 1_777_888_800_000_u64 + millis;
    let text = |words: &str| serde_json::json!([{"type": "text", "text": words}]);
    let call = |id: &str, name: &str, args: serde_json::Value| {
        serde_json::json!({"type": "tool_call", "id": id, "name": name,
            "arguments": {"type": "json", "raw": args.to_string(), "value": args}})
    };
    let message =
        |message: serde_json::Value| serde_json::json!({"message": message, "source": "history"});
    let given = |id: &str, outcome: &str, words: &str| {
        message(
            serde_json::json!({"role": "tool", "tool_call_id": id, "outcome": outcome, "content": text(words)}),
        )
    };
    let lost = r#"{"result": {"type": "error", "error": {"name": "InvalidToolCall", "message": "no such tool"}}}"#;
    let edit = serde_json::json!({"file_path": "a.py", "old_string": "x", "new_string": "y"});
    let messages = serde_json::json!([
        message(serde_json::json!({"role": "user", "content": text("First.")})),
        message(serde_json::json!({"role": "assistant", "content": [
            {"type": "reasoning", "content": text("Think.")},
            {"type": "text", "text": "I look."},
            call("a", "bash", serde_json::json!({"command": "exit 3"})),
            call("b", "bash", serde_json::json!({"command": "ls"})),
            call("c", "none", serde_json::json!({})),
        ]})),
        given("a", "success", r#"{"returncode": 3, "stdout": "", "stderr": "bad"}"#),
        given("b", "success", r#"{"returncode": 0, "stdout": "a.py"}"#),
        given("c", "failure", lost),
        {"message": {"role": "user", "content": text(DISCARDED)}, "source": "injection"},
        message(serde_json::json!({"role": "assistant", "content": [call("d", "edit", edit.clone())]})),
        given("d", "success", r#"{"file": "a.py"}"#),
        message(serde_json::json!({"role": "assistant", "content": text("Done.")})),
    ]);
    let more = serde_json::json!([
        message(serde_json::json!({"role": "user", "content": text("Second.")})),
        message(serde_json::json!({"role": "assistant", "content": text("Again.")})),
    ]);
    let said = |role: &str, words: &str, millis: u64| serde_json::json!({"type": "message", "role": role, "content": text(words), "createdAt": at(millis), "updatedAt": at(millis)});
    let effect = |tool: &str,
                  input: serde_json::Value,
                  from: u64,
                  to: u64,
                  output: serde_json::Value| {
        serde_json::json!({"type": "effect", "createdAt": at(from), "updatedAt": at(to),
            "detail": {"toolName": tool, "input": input}, "state": {"status": "completed", "output": output}})
    };
    let printed = |code: i32, out: &str, err: &str| serde_json::json!({"type": "success", "content": [], "structured_content": {"returncode": code, "stdout": out, "stderr": err}});
    let edited = serde_json::json!({"type": "success", "content": [], "structured_content": {"file": "a.py"},
        "_meta": {"mistralai.vibe.sdk.search_replace": {"blocks": [
            {"old_lines": ["x\n"], "new_lines": ["y\n"], "old_start_line": 1, "new_start_line": 1}]}}});
    let entries = serde_json::json!([
        said("user", "First.", 0),
        said("assistant", "I look.", 1_000),
        // The second call came first.
        effect(
            "file_system.bash",
            serde_json::json!({"command": "ls", "timeout_seconds": 120}),
            1_100,
            1_200,
            printed(0, "a.py", "")
        ),
        effect(
            "file_system.bash",
            serde_json::json!({"command": "exit 3", "timeout_seconds": 120}),
            1_100,
            1_300,
            printed(3, "", "bad")
        ),
        effect(
            "file_system.search_replace",
            serde_json::json!({"file_path": "a.py"}),
            2_000,
            2_100,
            edited
        ),
        said("assistant", "Done.", 3_000),
        said("user", "Second.", 60_000),
    ]);
    let session = serde_json::json!({"preview": "First.", "createdAt": at(0), "title": null,
        "tokenUsage": {"inputTokens": 4_000, "cachedInputTokens": 1_000, "outputTokens": 200}});
    let state = serde_json::json!({"session": session, "latestTurn": {"status": "completed"}});
    let snapshot =
        serde_json::json!({"history": {"entries": [said("assistant", "Again.", 61_000)]}});
    let manifest = serde_json::json!({
        "manifest_version": 1, "generation": "0000000000000021",
        "checkpoint": {"path": "checkpoint.json", "chunks": ["aa", "bb"]},
        "projection_state": {"path": "projection-state.json", "chunks": ["cc"]},
        "recovery_journal_segment": {"path": "journal/0000000000000022.jsonl"},
    });
    let record = serde_json::json!({"payload": {"delta": [{"op": "set_envelope", "state": state}]},
        "recovery_journal_record_version": 1, "sequence": 22, "type": "projection_delta"});
    let meta = serde_json::json!({"session_id": id(1), "config": {"model_name": "glm-5"}});
    let dir = root.join("unified").join(id(1));
    let generation = dir.join("generations/0000000000000021");
    for below in ["journal", "chunks"] {
        std::fs::create_dir_all(dir.join(below)).expect("created");
    }
    std::fs::create_dir_all(&generation).expect("created");
    let checkpoint = serde_json::json!({"compaction_count": 0, "context": {"messages": []}});
    let files = [
        (dir.join("meta.json"), meta),
        (dir.join("chunks/aa.json"), messages),
        (dir.join("chunks/bb.json"), more),
        (dir.join("chunks/cc.json"), entries),
        (generation.join("manifest.json"), manifest),
        (generation.join("checkpoint.json"), checkpoint),
        (
            generation.join("projection-state.json"),
            serde_json::json!({"snapshot": snapshot}),
        ),
        (dir.join("journal/0000000000000022.jsonl"), record),
    ];
    for (path, document) in files {
        std::fs::write(path, format!("{document}\n")).expect("written");
    }
    dir.join("journal/0000000000000022.jsonl")
}

const DISCARDED: &str = "Your previous response was discarded because it reached the output token limit after 512 tokens before it finished. Continue.";

#[test]
fn a_closed_session_has_the_steps_of_its_saved_state() {
    let temp = tempfile::tempdir().expect("a directory");
    let path = closed(temp.path());
    let run = read(&path);
    let row = &run.row;
    assert_eq!((row.steps, row.turns, row.issues), (4, Some(2), (0, 0)));
    // A reply was discarded.
    assert_eq!((row.model_calls, row.tokens_unknown), (Some(5), 1));
    assert_eq!((row.tool_calls, row.tool_errors), (Some(4), Some(2)));
    assert_eq!(row.tokens, Some(4_200));
    assert_eq!(row.changed, ["files.a.py"]);
    assert_eq!(
        (&*row.verdict.sentence, row.verdict.certainty.as_str()),
        ("Answered at step 3", "recorded")
    );
    assert_eq!(
        &*row.verdict.second,
        "Its journal begins at record 22. The steps before it are from the session's saved state, without tokens."
    );
    let step = run.step(0);
    assert_eq!(step["decision"]["rationale"], "Think.");
    let results = &step["action_results"];
    assert_eq!(results[0]["returncode"], 3);
    assert_eq!(results[0]["error"], "bad");
    assert_eq!(results[1]["output"], "a.py");
    assert_eq!(results[2]["error"], "no such tool");
    assert!(run.step(1).to_string().contains("@@ -1,1 +1,1 @@"));
    let times: Vec<_> = (run.index.events().iter())
        .map(|event| event.ts.map(|ts| ts / 1_000 - 1_777_888_800_000))
        .collect();
    // The results are in the order of the calls. A time before that of the result above it is left out.
    let known = [Some(0), Some(1_000), Some(1_300), None];
    assert_eq!(times.get(..4), Some(&known[..]));
    assert_eq!(times.last(), Some(&None));
    assert_eq!(times.iter().rev().nth(1), Some(&Some(61_000)));
}

#[test]
fn a_saved_state_that_lacks_a_part_says_so() {
    let temp = tempfile::tempdir().expect("a directory");
    let path = closed(temp.path());
    let dir = path.ancestors().nth(2).expect("a session");
    std::fs::remove_file(dir.join("chunks/aa.json")).expect("removed");
    let row = read(&path).row;
    assert_eq!((row.steps, row.turns, row.model_calls), (1, None, None));
    assert!(
        row.verdict
            .second
            .contains("A part of that state is missing"),
        "{}",
        row.verdict.second
    );
    // A name that is a path is none of a chunk.
    let manifest = dir.join("generations/0000000000000021/manifest.json");
    let text = std::fs::read_to_string(&manifest).expect("read");
    std::fs::write(temp.path().join("aa.json"), "[]").expect("written");
    std::fs::write(&manifest, text.replace("\"aa\"", "\"../../../aa\"")).expect("written");
    assert!(
        read(&path)
            .row
            .verdict
            .second
            .contains("A part of that state is missing")
    );
    // Without the state, the journal says what it knows.
    std::fs::remove_dir_all(dir.join("generations")).expect("removed");
    let row = read(&path).row;
    assert_eq!((row.steps, row.model_calls), (0, None));
    assert!(
        row.verdict.second.contains("Vibe keeps no journal"),
        "{}",
        row.verdict.second
    );
}

#[test]
fn a_journal_that_grows_after_a_saved_state_adds_steps() {
    let temp = tempfile::tempdir().expect("a directory");
    let path = closed(temp.path());
    let dir = RunDir::of_file(&path)
        .expect("it can be read")
        .expect("a trace");
    let (mut reader, mut index) = (
        RunReader::settling(dir, std::time::Duration::ZERO),
        Index::default(),
    );
    index.apply(reader.refresh(u64::MAX));
    assert_eq!(index.steps().len(), 4);
    let next = temp.path().join("next.jsonl");
    resumed(&next, "append", "First.", &[]);
    let more = std::fs::read_to_string(&next).expect("read");
    let mut file = std::fs::OpenOptions::new()
        .append(true)
        .open(&path)
        .expect("opened");
    std::io::Write::write_all(&mut file, more.as_bytes()).expect("written");
    let delta = reader.refresh(u64::MAX);
    assert!(!delta.restarted);
    index.apply(delta);
    assert_eq!(index.steps().len(), 5);
    let run = read(&path);
    assert_eq!((run.row.steps, run.row.turns), (5, Some(3)));
    // The totals before the journal, and the reply in it.
    assert_eq!(run.row.tokens, Some(2_800 + 1_240));
    assert!(
        run.row
            .verdict
            .second
            .starts_with("The session was resumed. Its journal begins at record 22.")
    );
    assert_eq!(run.step(4)["action_results"][0]["output"], "b");
}

/// Real sessions that ended by themselves have both: a journal, and the state that was saved at the
/// end.
#[test]
fn real_sessions_are_the_same_without_their_journal() {
    let Some(root) = std::env::var_os("BOARD_AGENTS").map(std::path::PathBuf::from) else {
        eprintln!("skipped: BOARD_AGENTS names no directory of sessions");
        return;
    };
    let first = "journal/0000000000000001.jsonl";
    let mut compared = 0;
    for path in walk(&root.join("vibe")) {
        if !path.ends_with(first) {
            continue;
        }
        let dir = path.ancestors().nth(2).expect("a session");
        let newest = std::fs::read_dir(dir.join("journal")).expect("listed");
        let newest = newest
            .map(|entry| entry.expect("an entry").path())
            .max()
            .expect("a journal");
        let journal = std::fs::read_to_string(&path).expect("read");
        let state = journal
            .lines()
            .rev()
            .find(|line| line.contains("set_envelope"));
        let Some(state) = state.filter(|_| newest != path) else {
            continue;
        };
        let temp = tempfile::tempdir().expect("a directory");
        let target = temp.path().join(id(1));
        copy(dir, &target);
        std::fs::remove_file(target.join(first)).expect("removed");
        let newest = target
            .join("journal")
            .join(newest.file_name().expect("a name"));
        std::fs::write(&newest, format!("{state}\n")).expect("written");
        let (whole, closed) = (read(&path), read(&newest));
        let shown = |run: &super::Read| {
            let steps = 0..run.index.steps().len();
            let of = |n| {
                let step = run.step(n);
                // The words of an interruption differ.
                let mut results = step["action_results"].clone();
                for result in results.as_array_mut().into_iter().flatten() {
                    if result["status"] == "cancelled" {
                        result["error"] = "".into();
                    }
                }
                let rest = ["decision", "actions", "state_diff"].map(|key| step[key].clone());
                (rest, results)
            };
            steps.map(of).collect::<Vec<_>>()
        };
        let discarded = closed.row.model_calls.unwrap_or_default() - closed.row.steps as u64;
        assert_eq!(
            closed.row.steps as u64 + discarded,
            whole.row.steps as u64,
            "{}",
            path.display()
        );
        if discarded == 0 {
            assert_eq!(shown(&closed), shown(&whole), "{}", path.display());
        }
        let facts = |row: &Summary| {
            (
                row.tool_calls,
                row.tool_errors,
                row.turns,
                row.changed.clone(),
            )
        };
        assert_eq!(facts(&closed.row), facts(&whole.row), "{}", path.display());
        compared += 1;
    }
    assert!(compared >= 5, "{compared}");
}

#[test]
fn what_came_before_a_resumption_is_counted_from_the_first_request() {
    let temp = tempfile::tempdir().expect("a directory");
    let path = temp.path().join("0000000000000026.jsonl");
    let message = |role: &str, words: &str| serde_json::json!({"role": role, "content": [{"type": "text", "text": words}]});
    let call = |id: &str| serde_json::json!({"type": "tool_call", "id": id, "name": "bash", "arguments": {}});
    let given = |id: &str, outcome: &str, words: &str| {
        serde_json::json!({"role": "tool", "tool_call_id": id, "outcome": outcome, "name": "bash",
            "content": [{"type": "text", "text": words}]})
    };
    let discarded = "Your previous response was discarded because it reached the output token limit after 512 tokens before it finished. Continue.";
    let before = [
        message("system", "You help."),
        message("user", "First,\nand at once."),
        serde_json::json!({"role": "assistant", "content": [call("a"), call("b"), call("c")]}),
        given("a", "success", r#"{"returncode": 0, "stdout": "a"}"#),
        given("b", "success", r#"{"returncode": 3, "stdout": ""}"#),
        given("c", "failure", r#"{"result": {"type": "error"}}"#),
        message("user", discarded),
        message("user", discarded),
        message("assistant", "A."),
    ];
    resumed(&path, "replace", "First, and at…", &before);
    let run = read(&path);
    let row = &run.row;
    // Two replies and two that were discarded, and one in the journal.
    assert_eq!((row.steps, row.model_calls), (1, Some(5)));
    // The first prompt names a session without a title.
    assert_eq!(&*row.titles, ["First, and at…".to_owned()]);
    assert_eq!((row.tool_calls, row.tool_errors), (Some(4), Some(2)));
    assert_eq!(row.turns, Some(2));
    // The session's own total lacks the discarded replies.
    assert_eq!((row.tokens, row.tokens_unknown), (Some(2_800 + 1_240), 2));
    // A conversation that was compacted begins with something else.
    let is_unknown = |kind: &str, preview: &str| {
        resumed(&path, kind, preview, &before);
        let row = read(&path).row;
        assert_eq!((row.steps, row.tokens), (1, Some(4_040)));
        let calls = (row.model_calls, row.tool_calls, row.tool_errors);
        calls == (None, None, None) && row.turns.is_none()
    };
    assert!(is_unknown("replace", "Before."));
    assert!(is_unknown("append", "First, and at…"));
    assert!(!is_unknown("replace", "First, and"));
    damaged(&path);
}

#[test]
fn a_resumption_leaves_the_key_of_a_session_as_it_is() {
    let temp = tempfile::tempdir().expect("a directory");
    let dir = temp.path().join("unified").join(id(2));
    let journals = dir.join("journal");
    std::fs::create_dir_all(&journals).expect("created");
    let first = journals.join("0000000000000001.jsonl");
    std::fs::copy(journal(2), &first).expect("copied");
    std::fs::write(journals.join("0000000000000023.jsonl"), "").expect("written");
    std::fs::copy(
        sample(&format!("tools/vibe/unified/{}/meta.json", id(2))),
        dir.join("meta.json"),
    )
    .expect("copied");
    let list = |root: &std::path::Path| {
        let said = board(&["list", &root.display().to_string(), "--json"]);
        let list: serde_json::Value = serde_json::from_str(&said.stdout).expect("JSON");
        let runs = list["runs"].as_array().expect("runs").clone();
        let of = |run: &serde_json::Value| {
            (
                run["key"].as_str().expect("a key").to_owned(),
                run["steps"].as_u64(),
            )
        };
        runs.iter().map(of).collect::<Vec<_>>()
    };
    let key = format!("unified/{}", id(2));
    assert_eq!(list(temp.path()), [(key.clone(), Some(3))]);
    // Vibe deletes the older segment when the program starts again after this one.
    resumed(
        &journals.join("0000000000000023.jsonl"),
        "append",
        "First.",
        &[],
    );
    assert_eq!(list(temp.path()), [(key.clone(), Some(1))]);
    std::fs::remove_file(&first).expect("removed");
    assert_eq!(list(temp.path()), [(key.clone(), Some(1))]);
    assert_eq!(list(&dir), [(id(2), Some(1))]);
    for path in [dir, journals] {
        let run = trace_board::trace::RunDir::of_file(&path).expect("readable");
        assert!(run.is_some(), "{}", path.display());
    }
    let said = board(&["show", &temp.path().join(key).display().to_string()]);
    assert_eq!(said.code, 0, "{}", said.stderr);
}

/// A prompt, and the change of what the program shows when the reply to it is interrupted after its first
/// words.
const INTERRUPTED: &str = r#"{"payload":{"input":{"command":{"type":"user_message","content":[{"text":"Tell a story.","type":"text"}]},"determinism":{"time_unix_ms":1777888900000}}},"recovery_journal_record_version":1,"sequence":900,"type":"core_input"}
{"payload":{"delta":[{"entry":{"content":[{"text":"Once upon","type":"text"}],"createdAt":1777888901000,"updatedAt":1777888902000,"outcome":{"cause":"interrupt","type":"discarded"},"role":"assistant","type":"message"},"op":"append_entry"},{"op":"set_envelope","state":{"latestTurn":{"status":"interrupted","reason":"client interrupt"}}}]},"recovery_journal_record_version":1,"sequence":901,"type":"projection_delta"}
"#;

#[test]
fn an_interrupted_reply_is_a_step_that_did_not_fail() {
    let temp = tempfile::tempdir().expect("a directory");
    let path = temp.path().join("journal.jsonl");
    let text = std::fs::read_to_string(journal(1)).expect("the sample");
    std::fs::write(&path, format!("{text}{INTERRUPTED}")).expect("written");
    let run = read(&path);
    let step = run.step(4);
    assert_eq!(step["model_response"]["text"], "Once upon");
    assert_eq!(step["error"]["phase"], "reply");
    assert_eq!(step["decision"]["mode"], "thought");
    let row = &run.row;
    assert_eq!((row.steps, row.errors, row.issues), (5, 1, (0, 0)));
    assert_eq!(row.answer, None);
    let head = run.index.steps().get(4).expect("a step");
    assert!(head.is_interrupted() && head.is_cancelled() && head.is_ok());
    assert_eq!(
        &*row.verdict.sentence,
        "Cancelled after step 4: client interrupt · Vibe records hitting a time, token or cost limit the same way"
    );
    // A reply that the program asks for again isn't one that the user saw.
    let retried = changed(1, |text| {
        let again = INTERRUPTED.replace("\"cause\":\"interrupt\"", "\"cause\":\"retry\"");
        format!("{text}{again}")
    });
    assert_eq!(retried.row.steps, 4);
    // An interruption before the first word leaves no step.
    let empty = changed(1, |text| {
        format!("{text}{}", INTERRUPTED.replace("Once upon", " "))
    });
    assert_eq!(empty.row.steps, 4);
}

#[test]
fn a_saved_state_has_an_interrupted_reply() {
    let temp = tempfile::tempdir().expect("a directory");
    let path = closed(temp.path());
    let chunk = path
        .ancestors()
        .nth(2)
        .expect("a session")
        .join("chunks/cc.json");
    let mut entries: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(&chunk).expect("read")).expect("JSON");
    let reply = serde_json::json!({"type": "message", "role": "assistant", "createdAt": 1_777_888_804_000_u64,
        "updatedAt": 1_777_888_805_000_u64, "content": [{"type": "text", "text": "And th"}],
        "outcome": {"type": "discarded", "cause": "interrupt"}});
    // It ended the first turn.
    let list = entries.as_array_mut().expect("a list");
    list.insert(list.len() - 1, reply);
    std::fs::write(&chunk, entries.to_string()).expect("written");
    let run = read(&path);
    assert_eq!((run.row.steps, run.row.turns), (5, Some(2)));
    let step = run.step(3);
    assert_eq!(step["model_response"]["text"], "And th");
    assert_eq!(step["error"]["message"], "interrupted");
    assert_eq!(run.step(4)["decision"]["final_answer"], "Again.");
}

/// Changes the words of a journal, and reads it.
fn changed(session: u8, change: impl Fn(&str) -> String) -> super::Read {
    let text = std::fs::read_to_string(journal(session)).expect("the sample");
    let temp = tempfile::tempdir().expect("a directory");
    let path = temp.path().join("journal.jsonl");
    std::fs::write(&path, change(&text)).expect("written");
    read(&path)
}

#[test]
fn a_turn_that_the_providers_filter_ended_did_not_answer() {
    let row = changed(1, |text| {
        let (before, last) = text
            .rsplit_once("\"finish_reason\":\"stop\"")
            .expect("a reply");
        format!("{before}\"finish_reason\":\"content_filter\"{last}")
    })
    .row;
    assert_eq!(
        (&*row.verdict.sentence, row.verdict.outcome.as_str()),
        ("The model refused to continue after step 3", "failed")
    );
    assert_eq!(row.answer, None);
}

/// Returns a record of a journal.
fn record(sequence: u64, kind: &str, payload: &serde_json::Value) -> String {
    let record = serde_json::json!({
        "payload": payload, "recovery_journal_record_version": 1, "sequence": sequence, "type": kind,
    });
    format!("{record}\n")
}

#[test]
fn the_summary_of_a_compaction_is_no_step() {
    use serde_json::json;
    let compaction = |status: &str| {
        let details = json!({"attempt": 1, "trigger": "manual"});
        let entry = json!({"kind": "compaction", "details": details, "generationStatus": status});
        json!({"delta": [{"entry": entry, "op": "append_entry"}]})
    };
    let request = json!({"action_id": "act-2-1", "compaction_id": "act-2-1", "iteration": 0});
    let usage = json!({"input_tokens": 2_000, "output_tokens": 12});
    let parts = json!([{"text": "A summary.", "type": "text"}]);
    let reply = json!({"finish_reason": "stop", "parts": parts, "usage": usage});
    let command = json!({"action_id": "act-2-1", "result": reply, "type": "completion_succeeded"});
    let input = json!({"command": command, "determinism": {"time_unix_ms": 1_777_885_205_000_u64}});
    let more = [
        (
            "action_intent",
            json!({"kind": "completion", "request": request}),
        ),
        ("projection_delta", compaction("in_progress")),
        ("core_input", json!({"input": input})),
        ("projection_delta", compaction("completed")),
    ];
    let run = changed(1, |text| {
        let more = (43..)
            .zip(&more)
            .map(|(n, (kind, payload))| record(n, kind, payload));
        text.to_owned() + &more.collect::<String>()
    });
    let row = &run.row;
    assert_eq!(
        (row.steps, row.tokens, row.issues),
        (4, Some(4_960), (0, 0))
    );
    assert_eq!(&*row.verdict.sentence, "Answered at step 3");
    assert_eq!(row.answer.as_deref(), Some("No cent is lost now."));
    let manifest = run.index.manifest().get().expect("a manifest");
    let [compaction] = &*manifest.compactions else {
        panic!("{:?}", manifest.compactions)
    };
    assert_eq!((&*compaction.trigger, compaction.event), ("manual", 45));
    let note = "2012 more tokens went to compactions outside the steps.";
    assert_eq!(manifest.notes, [note.into()]);
}

#[test]
fn an_open_request_for_permission_is_the_users_turn() {
    use serde_json::json;
    let effect = json!({"kind": "tool", "toolName": "file_system.bash"});
    let detail = json!({"effect": effect, "kind": "approval"});
    let asked =
        json!({"callback_id": "approval-1", "kind": "approval", "routing": {"detail": detail}});
    let answered = json!({"callback_id": "approval-1", "state": "resolved"});
    let asks = |more: &str| {
        let run = changed(1, |text| {
            let begun: Vec<&str> = text.lines().take(7).collect();
            begun.join("\n") + "\n" + more
        });
        let manifest = run.index.manifest().get().expect("a manifest");
        (manifest.asks_user.clone(), manifest.awaits_user)
    };
    let asked = record(8, "callback_registered", &asked);
    let words = "the request for permission to use bash";
    assert_eq!(asks(&asked), (Some(words.into()), true));
    let answered = asked + &record(9, "callback_resolved", &answered);
    assert_eq!(asks(&answered), (None, false));
}

#[test]
fn a_reply_without_words_is_no_answer() {
    let row = changed(1, |text| text.replace("\"No cent is lost now.\"", "\" \"")).row;
    assert_eq!(
        (&*row.verdict.sentence, row.verdict.outcome.as_str()),
        (
            "Turn ended without an answer after step 3 (inferred from \"stop\")",
            "unknown"
        )
    );
}

#[test]
fn an_error_of_a_request_is_one_line_without_urls() {
    let sentence = |words: &str| {
        let words = serde_json::to_string(words).expect("a string");
        let run = changed(4, |text| text.replace("\"Invalid API key.\"", &words));
        run.row.verdict.sentence.to_string()
    };
    let more = "for url 'http://127.0.0.1:1/v1/chat/completions'\nFor more information check: https://developer.mozilla.org/en-US/docs/Web/HTTP/Status";
    assert_eq!(
        sentence(&format!(
            "Client error '400 Bad Request' {more}/400: no such model"
        )),
        "API error after step 0: 400 Bad Request: no such model"
    );
    assert_eq!(
        sentence(&format!("Server error '502 Bad Gateway' {more}/502")),
        "API error after step 0: 502 Bad Gateway"
    );
    assert_eq!(sentence("one\n\n two"), "API error after step 0: one two");
}

#[test]
fn a_list_of_tasks_is_a_part_of_the_state() {
    let todos = r#"[{"id":"1","content":"a","status":"pending"}]"#;
    let call = |args: &str| {
        let reply = serde_json::json!({"type": "completion_succeeded", "result": {"finish_reason": "tool_call",
            "parts": [{"type": "tool_call", "id": "a", "name": "todo", "arguments_json": args}]}});
        let done = serde_json::json!({"type": "tool_succeeded", "call_id": "a",
            "result": {"content": [{"type": "text", "text": "ok"}]}});
        let lines = [reply, done].into_iter().enumerate().map(|(n, command)| {
            let input = serde_json::json!({"command": command, "determinism": {"time_unix_ms": 1_777_888_800_000_u64}});
            serde_json::json!({"payload": {"input": input}, "recovery_journal_record_version": 1,
                "sequence": n + 1, "type": "core_input"})
        });
        let text: String = lines.map(|line| format!("{line}\n")).collect();
        changed(1, |_| text.clone())
    };
    let written = call(&format!(r#"{{"action":"write","todos":{todos}}}"#));
    assert_eq!(written.row.changed, ["todos"]);
    let read = call(r#"{"action":"read","todos":null}"#);
    assert!(read.row.changed.is_empty());
}
