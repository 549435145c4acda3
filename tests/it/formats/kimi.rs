//! Tests sessions of Kimi Code.

use serde_json::{Value, json};

use super::truth::{FIELDS, compare};
use super::{Read, damaged, read, sample};

fn agent(session: u8, agent: &str) -> std::path::PathBuf {
    sample(&format!(
        "tools/kimi-code/wd_ledger_0a1b2c3d4e5f/{}/agents/{agent}/wire.jsonl",
        id(session)
    ))
}

fn id(session: u8) -> String {
    format!("session_4d5e6f70-0000-4000-8000-0000000000a{session}")
}

#[test]
fn a_session_is_read_by_its_lines() {
    let run = read(&agent(1, "main"));
    let row = &run.row;
    assert_eq!((row.steps, row.errors, row.issues), (4, 1, (0, 0)));
    // 1,060, 1,140, 1,390, 1,360.
    assert_eq!((row.tokens, row.usage.cached), (Some(4_950), Some(3_400)));
    assert_eq!((row.tool_calls, row.tool_errors), (Some(4), Some(1)));
    assert_eq!(row.changed, ["files.split.py"]);
    assert_eq!(
        (&*row.verdict.sentence, row.verdict.certainty.as_str()),
        ("Answered at step 3", "recorded")
    );
    let manifest = run.index.manifest().get().expect("a manifest");
    assert_eq!((manifest.turns, manifest.children), (Some(1), Some(1)));
    assert_eq!(manifest.child_ids, [format!("{}/agent-0", id(1)).into()]);
    assert_eq!(
        (manifest.run_id.as_deref(), manifest.project.as_deref()),
        (Some(&*id(1)), Some("/home/me/ledger"))
    );
    let step = run.step(0);
    assert_eq!(step["model"], "glm-5");
    assert_eq!(step["decision"]["rationale"], "Read first.");
    assert_eq!(step["action_results"][1]["returncode"], 1);
}

#[test]
fn a_sub_agent_is_a_run_of_its_own() {
    let run = read(&agent(1, "agent-0"));
    // 520, 590.
    assert_eq!((run.row.steps, run.row.tokens), (2, Some(1_110)));
    assert_eq!(run.row.parent.as_deref(), Some(&*id(1)));
    assert_eq!(
        run.row.run_id.as_deref(),
        Some(&*format!("{}/agent-0", id(1)))
    );
    assert_eq!(run.row.task.as_deref(), Some("Say what is lost."));
}

#[test]
fn a_turn_that_completed_with_a_truncated_reply_did_not_answer() {
    let path = agent(2, "main");
    let text = std::fs::read_to_string(&path).expect("the sample");
    let temp = tempfile::tempdir().expect("a directory");
    let first = temp.path().join("wire.jsonl");
    let (turn, _) = text.split_once("\n{\"type\":\"turn.prompt\",\"agentId\":\"main\",\"input\":[{\"type\":\"text\",\"text\":\"Build").expect("a second turn");
    std::fs::write(&first, turn).expect("written");
    let run = read(&first);
    assert_eq!(
        run.row.verdict.sentence,
        "Reply token limit reached in step 0"
    );
    let both = read(&path);
    assert!(
        both.row
            .verdict
            .sentence
            .starts_with("Cancelled by the user in step 1 "),
        "{}",
        both.row.verdict.sentence
    );
    // 864, 920. The record that ends an interrupted step has no tokens.
    assert_eq!((both.row.steps, both.row.tokens), (2, Some(1_784)));
    assert_eq!(both.step(1)["action_results"][0]["status"], "cancelled");
}

#[test]
fn a_failed_request_is_no_step_and_a_limit_is_named() {
    let row = read(&agent(3, "main")).row;
    assert_eq!((row.steps, row.tokens), (1, Some(715)));
    assert!(
        row.verdict.sentence.starts_with("Step limit reached"),
        "{}",
        row.verdict.sentence
    );
    assert_eq!(row.verdict.outcome.as_str(), "truncated");
}

/// Reads a session of these records, each with its own time.
fn session(records: &[Value]) -> (tempfile::TempDir, Read) {
    let header =
        json!({"type": "metadata", "protocol_version": "1.5", "created_at": 1_777_885_200_000_i64});
    let mut text = format!("{header}\n");
    for (n, record) in records.iter().enumerate() {
        let mut record = record.clone();
        record["time"] = json!(1_777_885_200_001_i64 + i64::try_from(n).expect("few"));
        text.push_str(&format!("{record}\n"));
    }
    let temp = tempfile::tempdir().expect("a directory");
    let path = temp.path().join("wire.jsonl");
    std::fs::write(&path, text).expect("written");
    let run = read(&path);
    (temp, run)
}

fn prompt(words: &str, origin: &str) -> Value {
    json!({"type": "context.append_message", "message": {"role": "user",
        "content": [{"type": "text", "text": words}], "origin": {"kind": origin}}})
}

fn event(event: &Value) -> Value {
    json!({"type": "context.append_loop_event", "event": event})
}

fn begins(step: &str) -> Value {
    event(&json!({"type": "step.begin", "uuid": step}))
}

fn says(step: &str, part: &Value) -> Value {
    event(&json!({"type": "content.part", "stepUuid": step, "part": part}))
}

fn calls(step: &str, id: &str, name: &str, args: &Value) -> Value {
    event(
        &json!({"type": "tool.call", "stepUuid": step, "toolCallId": id, "name": name, "args": args}),
    )
}

fn gives(id: &str, output: &str, failed: bool) -> Value {
    let mut result = json!({"output": output});
    if failed {
        result["isError"] = json!(true);
    }
    event(&json!({"type": "tool.result", "toolCallId": id, "result": result}))
}

/// Ends a step that used this many tokens of input and a tenth as many of output.
fn ends(step: &str, input: u64) -> Value {
    let usage = json!({"inputOther": input, "output": input / 10, "inputCacheRead": 0, "inputCacheCreation": 0});
    event(&json!({"type": "step.end", "uuid": step, "finishReason": "end_turn", "usage": usage}))
}

fn completed() -> Value {
    json!({"type": "turn.ended", "turnId": 0, "reason": "completed"})
}

/// Returns the start or the end of the task that the call `a` runs in the background.
fn task(kind: &str, status: &str, more: &Value) -> Value {
    let mut info = json!({"taskId": "bash-1", "status": status, "parentToolCallId": "a"});
    for (key, value) in more.as_object().into_iter().flatten() {
        info[key] = value.clone();
    }
    json!({"type": kind, "info": info, "outputTail": "bg\n"})
}

#[test]
fn the_end_of_a_task_in_the_background_is_that_of_its_call() {
    let of = |status: &str, more: &Value| {
        session(&[
            prompt("Go.", "user"),
            begins("s1"),
            calls(
                "s1",
                "a",
                "Bash",
                &json!({"command": "sleep 1; exit 4", "run_in_background": true}),
            ),
            task("task.started", "running", &Value::Null),
            gives("a", "task_id: bash-1\nstatus: running", false),
            ends("s1", 1_000),
            begins("s2"),
            says("s2", &json!({"type": "text", "text": "It runs."})),
            ends("s2", 1_000),
            task("task.terminated", status, more),
            completed(),
        ])
    };
    let (_temp, failed) = of("failed", &json!({"exitCode": 4}));
    assert_eq!(
        (failed.row.tool_errors, failed.row.issues),
        (Some(1), (0, 0))
    );
    let result = &failed.step(0)["action_results"][0];
    assert_eq!(
        (&result["status"], &result["returncode"], &result["error"]),
        (&json!("error"), &json!(4), &json!("bg"))
    );
    assert_eq!(&*failed.row.verdict.sentence, "Answered at step 1");
    let (_temp, completed) = of("completed", &json!({"exitCode": 0}));
    assert_eq!(completed.row.tool_errors, Some(0));
    assert_eq!(completed.step(0)["action_results"][0]["status"], "success");
    let (_temp, stopped) = of("killed", &json!({"stopReason": "Session closed"}));
    assert_eq!(stopped.row.tool_errors, Some(0));
    assert_eq!(stopped.step(0)["action_results"][0]["status"], "cancelled");
    // Nobody knows how a lost one ended.
    let (_temp, lost) = of("lost", &Value::Null);
    assert_eq!(lost.step(0)["action_results"][0]["status"], "success");
}

#[test]
fn a_call_that_the_user_stopped_or_refused_did_not_fail() {
    for (output, status) in [
        ("Interrupted by user", "cancelled"),
        ("Session closed", "cancelled"),
        (
            "The user manually interrupted \"Grep\" (and anything else running at the same time).",
            "cancelled",
        ),
        ("Tool \"Grep\" was aborted", "cancelled"),
        (
            "Tool \"Bash\" was not run because the user rejected the approval request. Reason: no",
            "cancelled",
        ),
        ("Tool \"Bash\" not found", "error"),
        ("x\nInterrupted by user", "cancelled"),
        (
            "Interrupted by user\nCommand failed with exit code: 1.",
            "error",
        ),
    ] {
        let (_temp, run) = session(&[
            prompt("Go.", "user"),
            begins("s1"),
            calls("s1", "a", "Bash", &json!({"command": "exit 3"})),
            gives("a", output, true),
            ends("s1", 1_000),
        ]);
        assert_eq!(
            run.step(0)["action_results"][0]["status"],
            status,
            "{output}"
        );
        let errors = u64::from(status == "error");
        assert_eq!(run.row.tool_errors, Some(errors), "{output}");
    }
}

#[test]
fn a_call_waits_for_the_permission_of_the_user() {
    let ask = |id: &str, tool: &str| json!({"type": "interaction.request", "agentId": "main", "id": id, "kind": "approval", "request": {"toolName": tool}});
    let answer = |id: &str| json!({"type": "interaction.resolved", "agentId": "main", "id": id, "response": {"decision": "approved"}});
    let asks = |records: &[Value]| {
        let (_temp, run) = session(records);
        let manifest = run.index.manifest().get().expect("a manifest");
        manifest.asks_user.as_deref().map(str::to_owned)
    };
    let mut records = vec![
        prompt("Clean up.", "user"),
        begins("a"),
        ask("1", "Bash"),
        ask("2", "Write"),
    ];
    let words = |tool: &str| Some(format!("the request for permission to use {tool}"));
    assert_eq!(asks(&records), words("Bash"));
    records.push(answer("1"));
    assert_eq!(asks(&records), words("Write"));
    // The program was killed, and started again.
    records.extend([prompt("Go on.", "user"), begins("b")]);
    assert_eq!(asks(&records), None);
}

#[test]
fn the_exit_code_of_a_long_output_comes_before_the_reference_to_all_of_it() {
    let long = "1\nlast\nCommand failed with exit code: 77.\n\ntask_id: bash-9\noutput_size_bytes: 1288900\n\
                next_step: Use TaskOutput(task_id=\"bash-9\") to query the task output.";
    let (_temp, run) = session(&[
        prompt("Go.", "user"),
        begins("s1"),
        calls("s1", "a", "Bash", &json!({"command": "x"})),
        gives("a", long, true),
        ends("s1", 1_000),
    ]);
    let result = &run.step(0)["action_results"][0];
    assert_eq!(result["returncode"], 77);
    assert_eq!(
        result["error"],
        "1\nlast\nCommand failed with exit code: 77."
    );
}

#[test]
fn a_list_of_tasks_is_state() {
    let todos = json!([{"title": "a", "status": "in_progress"}]);
    let (_temp, run) = session(&[
        prompt("Go.", "user"),
        begins("s1"),
        calls("s1", "a", "TodoList", &json!({"todos": todos})),
        calls("s1", "b", "TodoList", &json!({})),
        gives("a", "Todo list updated.", false),
        gives("b", "Current todo list:", false),
        ends("s1", 1_000),
    ]);
    assert_eq!(run.row.changed, ["todos"]);
    assert_eq!(run.step(0)["state_diff"]["todos"]["after"], todos);
}

#[test]
fn a_usage_of_zeros_is_unknown() {
    let (_temp, run) = session(&[
        prompt("Go.", "user"),
        begins("s1"),
        calls("s1", "a", "Bash", &json!({"command": "x"})),
        gives("a", "", false),
        ends("s1", 0),
        begins("s2"),
        says("s2", &json!({"type": "text", "text": "Done."})),
        ends("s2", 1_000),
        completed(),
    ]);
    assert_eq!(
        (run.row.tokens, run.row.steps_without_tokens),
        (Some(1_100), 1)
    );
    assert_eq!(
        run.row.spent.iter().map(|spent| spent.unknown).sum::<u32>(),
        1
    );
}

#[test]
fn a_reply_without_text_is_no_answer() {
    let of = |part: &Value| {
        session(&[
            prompt("Go.", "user"),
            begins("s1"),
            says("s1", part),
            ends("s1", 1_000),
            completed(),
        ])
    };
    let (_temp, silent) = of(&json!({"type": "think", "think": "Nothing to say."}));
    assert_eq!(
        &*silent.row.verdict.sentence,
        "Turn ended without an answer after step 0"
    );
    assert_eq!(silent.row.verdict.outcome.as_str(), "unknown");
    let (_temp, said) = of(&json!({"type": "text", "text": "Done."}));
    assert_eq!(&*said.row.verdict.sentence, "Answered at step 0");
}

#[test]
fn tags_in_a_prompt_are_the_users_unless_the_program_wrote_it() {
    let words = "<system-reminder>fake</system-reminder> Why?";
    let (_temp, run) = session(&[prompt(words, "user"), begins("s1"), ends("s1", 1_000)]);
    assert_eq!(run.row.task.as_deref(), Some(words));
    let program = "<system-reminder>\nNo goal.\n</system-reminder>";
    let (_temp, run) = session(&[
        prompt(program, "system_trigger"),
        prompt("Go.", "user"),
        begins("s1"),
        ends("s1", 1_000),
    ]);
    assert_eq!(
        (run.row.task.as_deref(), run.row.turns),
        (Some("Go."), Some(1))
    );
}

#[test]
fn a_damaged_session_loses_only_what_is_damaged() {
    (1..=3).for_each(|session| damaged(&agent(session, "main")));
    damaged(&agent(1, "agent-0"));
}

#[test]
fn real_sessions_agree_with_what_is_known_of_them() {
    // Kimi Code doesn't record reasoning tokens.
    let fields: Vec<_> = FIELDS
        .into_iter()
        .filter(|field| !field.starts_with("thought"))
        .collect();
    let is_session = |file: &str| file.ends_with("wire.jsonl");
    let known = [(
        "sigint-in-tool",
        "calls without an answer",
        0,
        "the result says that the session was closed",
    )];
    compare("kimi-code", is_session, &fields, &known);
}

/// Changes the sample's first session, and reads it.
fn changed(session: u8, change: impl Fn(&str) -> String) -> super::Read {
    let text = std::fs::read_to_string(agent(session, "main")).expect("the sample");
    let temp = tempfile::tempdir().expect("a directory");
    let path = temp.path().join("wire.jsonl");
    std::fs::write(&path, change(&text)).expect("written");
    read(&path)
}

#[test]
fn a_reply_that_the_providers_filter_blocked_is_a_refusal() {
    let row = changed(3, |text| {
        text.replace("loop.max_steps_exceeded", "provider.filtered")
    })
    .row;
    let sentence = &row.verdict.sentence;
    assert!(
        sentence.starts_with("The model refused to continue after step 0"),
        "{sentence}"
    );
    assert_eq!(row.verdict.outcome.as_str(), "failed");
}

#[test]
fn a_list_of_tasks_is_a_part_of_the_state() {
    let run = changed(1, |text| {
        text.replace("\"name\":\"Edit\"", "\"name\":\"TodoList\"")
            .replace(
                "\"old_string\"",
                "\"todos\":[{\"title\":\"a\",\"status\":\"done\"}],\"old_string\"",
            )
    });
    assert_eq!(run.row.changed, ["todos"]);
}
