//! Tests sessions of Cline's command line.

use super::truth::{FIELDS, compare};
use super::{damaged, read, sample};

fn messages(name: &str) -> std::path::PathBuf {
    sample(&format!("tools/cline/sessions/{name}.messages.json"))
}

const MAIN: &str = "1777885200000_aaaa1/1777885200000_aaaa1";

#[test]
fn a_session_is_read_from_its_messages_and_its_status() {
    let run = read(&messages(MAIN));
    let row = &run.row;
    assert_eq!((row.steps, row.errors, row.issues), (4, 2, (0, 0)));
    // 1,060, 1,140, 1,350, 1,410.
    assert_eq!((row.tokens, row.usage.cached), (Some(4_960), Some(3_300)));
    assert_eq!((row.tool_calls, row.tool_errors), (Some(5), Some(2)));
    assert_eq!(row.changed, ["files./home/me/ledger/split.py"]);
    assert_eq!(
        (&*row.verdict.sentence, row.verdict.certainty.as_str()),
        ("Answered at step 3", "recorded")
    );
    let manifest = run.index.manifest().get().expect("a manifest");
    assert_eq!(manifest.run_id.as_deref(), Some("1777885200000_aaaa1"));
    assert_eq!(manifest.model.as_deref(), Some("glm-5"));
    assert_eq!(manifest.project.as_deref(), Some("/home/me/ledger"));
    assert_eq!((manifest.turns, manifest.children), (Some(1), Some(1)));
    assert_eq!(
        row.task.as_deref(),
        Some("Splitting 100 by 3 loses a cent.")
    );
    let step = run.step(0);
    assert_eq!(step["model"], "glm-5");
    assert_eq!(step["decision"]["rationale"], "Read first.");
    assert_eq!(step["action_results"][0]["status"], "success");
    assert_eq!(step["action_results"][1]["returncode"], 1);
    let head = run.index.steps().get(0).expect("a step");
    let failed = head.failed_call.as_deref().expect("a failed call");
    assert_eq!(failed.command.as_deref(), Some("python3 -m unittest -q"));
    // JSON in a text.
    assert_eq!(run.step(1)["action_results"][0]["output"], "The rest.");
    assert_eq!(run.step(1)["action_results"][1]["status"], "error");
    let diff = run.step(2).to_string();
    assert!(
        diff.contains("@@ -2,1 +2,2 @@\\n-    return [a // b] * b\\n+    c, d = divmod(a, b)"),
        "{diff}"
    );
}

#[test]
fn a_sub_agent_is_a_run_without_a_status() {
    let run = read(&messages("1777885200000_aaaa1/agent_1777885202000_bbbb1"));
    // 520, 590.
    assert_eq!((run.row.steps, run.row.tokens), (2, Some(1_110)));
    assert_eq!(run.row.parent.as_deref(), Some("1777885200000_aaaa1"));
    assert_eq!(run.row.task.as_deref(), Some("Say what is lost."));
    assert_eq!(
        (
            run.row.verdict.outcome.as_str(),
            run.row.verdict.certainty.as_str()
        ),
        ("completed", "inferred")
    );
}

#[test]
fn the_status_names_the_end() {
    let row = |name: &str| read(&messages(&format!("{name}/{name}"))).row;
    let row_2 = row("1777888800000_aaaa2");
    assert_eq!(row_2.verdict.outcome.as_str(), "cancelled");
    assert_eq!((row_2.tool_calls, row_2.tool_errors), (Some(1), Some(0)));
    let cut = row("1777892400000_aaaa3");
    assert_eq!(cut.verdict.sentence, "Reply token limit reached in step 1");
    // 564, 574. The program's own request is no prompt.
    assert_eq!((cut.tokens, cut.turns), (Some(1_138), Some(1)));
    let failed = row("1777896000000_aaaa4");
    assert_eq!(
        failed.verdict.sentence,
        "Failed with an error: Internal server error"
    );
    assert_eq!(failed.steps, 0);
    let killed = row("1777899600000_aaaa5");
    // The reader can't know whether the process still runs.
    assert_eq!(killed.verdict.outcome.as_str(), "unknown");
}

#[test]
fn a_session_without_its_status_has_an_inferred_end() {
    let temp = tempfile::tempdir().expect("a directory");
    let copy = temp.path().join("1777885200000_aaaa1.messages.json");
    std::fs::copy(messages(MAIN), &copy).expect("copied");
    let row = read(&copy).row;
    assert_eq!(row.verdict.certainty.as_str(), "inferred");
    assert_eq!(row.verdict.outcome.as_str(), "completed");
    assert_eq!(row.tokens, Some(4_960));
}

/// Reads a session of these messages without a status.
fn written(messages: &str) -> (tempfile::TempDir, super::Read) {
    let temp = tempfile::tempdir().expect("a directory");
    let path = temp.path().join("1777885200000_bbbb1.messages.json");
    let text = format!(
        r#"{{"version": 1, "updated_at": "2026-05-04T09:00:09.000Z", "agent": "lead", "sessionId": "1777885200000_bbbb1", "messages": [{messages}], "system_prompt": "You code."}}"#
    );
    std::fs::write(&path, text).expect("written");
    let run = read(&path);
    (temp, run)
}

const PROMPT: &str = r#"{"id": "m1", "role": "user", "content": [{"type": "text", "text": "Look."}], "ts": 1777885200000}"#;

#[test]
fn the_error_of_several_items_is_that_of_those_that_failed() {
    let call = |id: &str, name: &str| {
        format!(r#"{{"type": "tool_use", "id": "{id}", "name": "{name}", "input": {{}}}}"#)
    };
    let reply = format!(
        r#"{{"id": "m2", "role": "assistant", "content": [{}, {}], "ts": 1777885201000, "modelInfo": {{"id": "glm-5"}}}}"#,
        call("c1", "run_commands"),
        call("c2", "read_files"),
    );
    let results = r#"{"id": "m3", "role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "name": "run_commands", "content": [{"query": "echo a", "result": "a\n", "success": true}, {"query": "exit 7", "result": "[Command exited with code 7]", "error": "Command exited with code 7", "success": false}, {"query": "echo b", "result": "b\n", "success": true}]}, {"type": "tool_result", "tool_use_id": "c2", "name": "read_files", "content": [{"query": "a.py", "result": "1 | x", "success": true}, {"query": "/none", "result": "", "error": "Error reading file: ENOENT", "success": false}]}], "ts": 1777885202000}"#;
    let (_temp, run) = written(&[PROMPT, &reply, results].join(", "));
    let step = run.step(0);
    let of = |n: usize| step["action_results"][n].clone();
    assert_eq!(of(0)["returncode"], 7);
    assert_eq!(of(0)["error"], "a\n\nb\n\n[Command exited with code 7]");
    assert_eq!(of(1)["error"], "Error reading file: ENOENT\n1 | x");
}

#[test]
fn the_results_of_a_team_say_what_became_of_a_task() {
    let call = |id: &str, name: &str| {
        format!(r#"{{"type": "tool_use", "id": "{id}", "name": "{name}", "input": {{}}}}"#)
    };
    let calls = [
        call("c1", "team_spawn_teammate"),
        call("c2", "team_run_task"),
        call("c3", "other"),
    ];
    let reply = format!(
        r#"{{"id": "m2", "role": "assistant", "content": [{}], "ts": 1777885201000, "modelInfo": {{"id": "glm-5"}}}}"#,
        calls.join(", ")
    );
    let result = |id: &str, name: &str, content: &str| {
        format!(
            r#"{{"type": "tool_result", "tool_use_id": "{id}", "name": "{name}", "content": {}}}"#,
            serde_json::json!(content)
        )
    };
    let results = [
        result(
            "c1",
            "team_spawn_teammate",
            r#"{"agentId":"mate","status":"spawned"}"#,
        ),
        result(
            "c2",
            "team_run_task",
            r#"{"status":"running","dispatched":true,"text":"Done."}"#,
        ),
        result("c3", "other", r#"{"status":"spawned"}"#),
    ];
    let results = format!(
        r#"{{"id": "m3", "role": "user", "content": [{}], "ts": 1777885202000}}"#,
        results.join(", ")
    );
    let (_temp, run) = written(&[PROMPT, &reply, &results].join(", "));
    let step = run.step(0);
    let status = |n: usize| step["action_results"][n]["status"].clone();
    assert_eq!(
        [0, 1, 2].map(status),
        ["success", "success", "not recorded"]
    );
}

#[test]
fn an_error_that_nothing_follows_ends_a_run_without_a_status() {
    let error = r#"{"id": "e1", "role": "assistant", "content": [{"type": "text", "text": "bad thing"}], "ts": 1777885201000, "metadata": {"displayOnly": true, "displayRole": "error"}}"#;
    let (_temp, run) = written(&[PROMPT, error].join(", "));
    assert_eq!(
        (
            run.row.verdict.outcome.as_str(),
            run.row.verdict.certainty.as_str()
        ),
        ("failed", "inferred")
    );
    assert!(run.row.verdict.sentence.contains("bad thing"));
}

#[test]
fn a_damaged_session_loses_only_what_is_damaged() {
    damaged(&messages(MAIN));
}

#[test]
fn real_sessions_agree_with_what_is_known_of_them() {
    // Cline doesn't record reasoning tokens.
    let fields: Vec<_> = FIELDS
        .into_iter()
        .filter(|field| !field.starts_with("thought"))
        .collect();
    let is_session = |file: &str| file.ends_with(".messages.json");
    let known = [(
        "sigint-in-tool",
        "calls without an answer",
        0,
        "the result says that the command was aborted",
    )];
    compare("cline", is_session, &fields, &known);
}
