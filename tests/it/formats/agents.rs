//! Tests sessions and streams of coding agents, built line by line: declined calls, ends, totals,
//! and user prompts.

use std::fs;
use std::process::Command;

use serde_json::{Value, json};
use trace_board::analysis::health;
use trace_board::model::Outcome;

use super::{Read, read};
use crate::board::BINARY;

const ID: &str = "5f0c7a52-6d0e-4a53-9b0c-0f6f2b3f1a01";

fn written(lines: &[Value]) -> (tempfile::TempDir, std::path::PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(format!("{ID}.jsonl"));
    fs::write(
        &path,
        lines
            .iter()
            .map(|line| format!("{line}\n"))
            .collect::<String>(),
    )
    .unwrap();
    (dir, path)
}

fn run(lines: &[Value]) -> Read {
    let (_dir, path) = written(lines);
    read(&path)
}

/// Returns the output of `board ARGS PATH` for a file of these lines.
fn printed(args: &[&str], lines: &[Value]) -> String {
    let (_dir, path) = written(lines);
    let output = Command::new(BINARY)
        .args(args)
        .arg(&path)
        .env("NO_COLOR", "1")
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "board {args:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).unwrap()
}

fn reasons(run: &Read) -> Vec<String> {
    health::issues(&run.index)
        .into_iter()
        .map(|issue| issue.reason)
        .collect()
}

fn at(second: u32) -> String {
    format!("2026-05-04T09:00:{second:02}.000Z")
}

fn with(mut line: Value, more: &Value) -> Value {
    line.as_object_mut()
        .unwrap()
        .extend(more.as_object().unwrap().clone());
    line
}

// Codex.

fn rollout(n: u32, kind: &str, payload: &Value) -> Value {
    json!({"timestamp": at(n), "type": kind, "payload": payload})
}

#[test]
fn a_call_that_its_user_declined_is_cancelled_and_did_not_fail() {
    let begin = [
        rollout(
            0,
            "session_meta",
            &json!({"id": ID, "cwd": "/p", "cli_version": "0.169.0"}),
        ),
        rollout(1, "event_msg", &json!({"type": "task_started"})),
        rollout(
            2,
            "response_item",
            &json!({"type": "function_call", "name": "exec_command", "arguments": "{}",
            "call_id": "c1"}),
        ),
    ];
    let item = rollout(
        3,
        "event_msg",
        &json!({"type": "item_completed", "item": {"type": "CommandExecution", "id": "c1",
        "status": "declined", "aggregated_output": "", "exit_code": null, "duration": {"secs": 0, "nanos": 5}}}),
    );
    let output = rollout(
        4,
        "response_item",
        &json!({"type": "function_call_output", "call_id": "c1",
        "output": "exec command rejected by user"}),
    );
    let aborted = rollout(
        5,
        "event_msg",
        &json!({"type": "turn_aborted", "reason": "interrupted"}),
    );
    for middle in [vec![item, output.clone()], vec![output]] {
        let lines = [&begin[..], &middle, std::slice::from_ref(&aborted)].concat();
        let (_dir, path) = written(&lines);
        let run = read(&path);
        assert_eq!(
            (run.row.tool_calls, run.row.tool_errors),
            (Some(1), Some(0)),
            "{middle:?}"
        );
        let result = &run.step(0)["action_results"][0];
        assert_eq!(
            (&result["status"], &result["error"]),
            (&"cancelled".into(), &"exec command rejected by user".into())
        );
        // Declining a call doesn't stop the turn.
        assert_eq!(run.row.verdict.sentence, "Cancelled after step 0");
    }
    let stream = run(&[
        json!({"type": "thread.started", "thread_id": ID}),
        json!({"type": "turn.started"}),
        json!({"type": "item.completed", "item": {"id": "item_0", "type": "command_execution", "command": "ls",
            "aggregated_output": "rejected by user", "exit_code": null, "status": "declined"}}),
        json!({"type": "item.completed", "item": {"id": "item_1", "type": "file_change", "status": "declined",
            "changes": [{"path": "/p/a", "kind": "update"}]}}),
    ]);
    assert_eq!(
        (
            stream.row.tool_calls,
            stream.row.tool_errors,
            stream.row.files_changed
        ),
        (Some(2), Some(0), None)
    );
}

#[test]
fn a_message_that_its_record_gives_to_the_user_is_in_every_export() {
    let lines = [
        rollout(
            0,
            "session_meta",
            &json!({"id": ID, "cwd": "/p", "cli_version": "0.169.0"}),
        ),
        rollout(
            1,
            "event_msg",
            &json!({"type": "user_message", "message": "PROMPT-ONE"}),
        ),
        rollout(
            2,
            "response_item",
            &json!({"type": "message", "role": "assistant",
            "content": [{"type": "output_text", "text": "Well."}]}),
        ),
        rollout(
            3,
            "response_item",
            &json!({"type": "message", "role": "user",
            "content": [{"type": "input_text", "text": "PROMPT-STEER"}],
            "internal_chat_message_metadata_passthrough":
                {"content_item_metadata": [{"provenance": {"type": "user"}}]}}),
        ),
        rollout(
            4,
            "response_item",
            &json!({"type": "message", "role": "user",
            "content": [{"type": "input_text", "text": "HARNESS"}],
            "internal_chat_message_metadata_passthrough":
                {"content_item_metadata": [{"provenance": {"type": "harness"}}]}}),
        ),
        rollout(
            5,
            "response_item",
            &json!({"type": "message", "role": "assistant",
            "content": [{"type": "output_text", "text": "Done."}]}),
        ),
    ];
    in_every_export(&lines, &["PROMPT-ONE", "PROMPT-STEER"], &["HARNESS"]);
}

/// Asserts that each export of these lines contains all of `said` and none of `others`.
#[track_caller]
fn in_every_export(lines: &[Value], said: &[&str], others: &[&str]) {
    for args in [
        &["show", "--format", "md"][..],
        &["export", "--atif", "-"],
        &["export", "--otlp", "-"],
    ] {
        let text = printed(args, lines);
        for words in said {
            assert!(
                text.contains(words),
                "{words} is missing in {args:?}:\n{text}"
            );
        }
        for words in others {
            assert!(!text.contains(words), "{words} is in {args:?}:\n{text}");
        }
    }
}

// Gemini CLI.

fn gemini(program: u32, reply: &str, stats: &Value) -> Vec<Value> {
    let at = |n: u32| at(program * 10 + n);
    vec![
        json!({"type": "init", "timestamp": at(0), "session_id": ID, "model": "model-a"}),
        json!({"type": "message", "timestamp": at(1), "role": "user", "content": reply}),
        json!({"type": "message", "timestamp": at(2), "role": "assistant", "content": reply, "delta": true}),
        json!({"type": "result", "timestamp": at(3), "status": "success", "stats": stats}),
    ]
}

#[test]
fn programs_that_write_into_one_stream_are_added_up() {
    let took = |input: u64, output: u64| json!({"total_tokens": input + output, "input_tokens": input, "output_tokens": output, "cached": 0});
    let first = gemini(0, "One.", &took(900, 100));
    let both = run(&[first.clone(), gemini(1, "Two.", &took(2_000, 50))].concat());
    let usage = both.row.usage;
    assert_eq!(
        (both.row.tokens, usage.input, usage.output),
        (Some(3_050), Some(2_900), Some(150))
    );
    // A program that reports no counts doesn't discard the earlier ones.
    let mut silent = first.clone();
    silent.push(
        json!({"type": "result", "timestamp": at(9), "status": "error", "stats": {"total_tokens": 0, "cached": 0},
        "error": {"type": "unknown", "message": "boom"}}),
    );
    let silent = run(&silent);
    assert_eq!(
        (silent.row.tokens, silent.row.verdict.outcome),
        (Some(1_000), Outcome::Completed)
    );
    assert!(
        silent.row.verdict.sentence.contains("boom"),
        "{:?}",
        silent.row.verdict
    );
    // The tokens of a program without a result are unknown.
    let lost = run(&[&first[..3], &gemini(1, "Two.", &took(2_000, 50))].concat());
    assert_eq!(
        (lost.row.tokens, lost.row.usage.input, lost.row.usage.cached),
        (None, None, None)
    );
    let nothing = run(&gemini(
        0,
        "One.",
        &json!({"total_tokens": 0, "input_tokens": 0, "cached": 0}),
    ));
    assert_eq!((nothing.row.tokens, nothing.row.usage.cached), (None, None));
}

#[test]
fn prompts_in_a_list_of_messages_are_in_every_export() {
    let user = |id: &str, text: &str| json!({"id": id, "timestamp": at(2), "type": "user", "content": [{"text": text}]});
    let reply = |id: &str, text: &str| json!({"id": id, "timestamp": at(3), "type": "gemini", "content": text});
    let header = json!({"sessionId": ID, "projectHash": "p", "startTime": at(0), "kind": "main"});
    let messages = [
        user("u0", "<session_context>\nHERE"),
        user("u1", "PROMPT-FIRST"),
        reply("g1", "One."),
        user("u2", "PROMPT-SECOND"),
        reply("g2", "Two."),
    ];
    let beside = json!({"id": "u3", "timestamp": at(6), "type": "user", "content":
        [{"functionResponse": {"id": "c1", "name": "f", "response": {"output": "x"}}}, {"text": "PROMPT-BESIDE"}]});
    let lines = [
        header,
        json!({"$set": {"messages": messages}}),
        beside,
        reply("g3", "Three."),
    ];
    in_every_export(
        &lines,
        &["PROMPT-FIRST", "PROMPT-SECOND", "PROMPT-BESIDE"],
        &["HERE"],
    );
    // Each prompt comes before its own reply.
    let text = printed(&["show", "--format", "md"], &lines);
    let place = |words: &str| text.find(words).unwrap();
    let places = [
        "PROMPT-FIRST",
        "\n## Step 0\n\n**Answer:**\n\n> One.",
        "PROMPT-SECOND",
        "\n## Step 1\n\n**Answer:**\n\n> Two.",
        "PROMPT-BESIDE",
        "\n## Step 2\n\n**Answer:**\n\n> Three.",
    ]
    .map(place);
    assert!(places.is_sorted(), "{places:?}\n{text}");
}

#[test]
fn the_turn_limit_of_a_stream_is_a_limit_of_turns() {
    let mut lines = gemini(0, "One.", &json!({}));
    lines[3] = json!({"type": "result", "timestamp": at(3), "status": "error", "stats": {},
        "error": {"type": "FatalTurnLimitedError", "message": "Reached max session turns for this session."}});
    let run = run(&lines);
    let ended = run.index.manifest().get().unwrap().ended.clone().unwrap();
    assert_eq!((ended.unit, ended.limit), ("turns", None));
    let (_dir, path) = written(&lines);
    let output = Command::new(BINARY)
        .args(["table", "runs"])
        .arg(path.parent().unwrap())
        .output()
        .unwrap();
    let row: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(row["stop_kind"], "steps", "{row:#}");
}

// Claude Code.

fn session(lines: &[Value]) -> Vec<Value> {
    let line = |(n, line): (usize, &Value)| {
        let before = n.checked_sub(1).map(|before| format!("u{before}"));
        with(
            json!({"sessionId": ID, "timestamp": at(n as u32), "uuid": format!("u{n}"), "parentUuid": before,
                "isSidechain": false, "cwd": "/p", "version": "2.1.330"}),
            line,
        )
    };
    lines.iter().enumerate().map(line).collect()
}

fn user(content: &Value) -> Value {
    json!({"type": "user", "message": {"role": "user", "content": content}})
}

fn reply(id: &str, finish: Option<&str>, content: &Value) -> Value {
    json!({"type": "assistant", "message": {"id": id, "model": "model-a", "stop_reason": finish, "content": content,
        "usage": {"input_tokens": 10, "output_tokens": 5}}})
}

fn says(id: &str, text: &str) -> Value {
    reply(
        id,
        Some("end_turn"),
        &json!([{"type": "text", "text": text}]),
    )
}

fn calls(id: &str, call: &str) -> Value {
    reply(
        id,
        Some("tool_use"),
        &json!([{"type": "tool_use", "id": call, "name": "Bash", "input": {}}]),
    )
}

fn gives(call: &str, text: &str) -> Value {
    user(
        &json!([{"type": "tool_result", "tool_use_id": call, "content": "ok"}, {"type": "text", "text": text}]),
    )
}

const INTERRUPTED: &str = "[Request interrupted by user]";

#[test]
fn an_interruption_behind_the_end_of_a_turn_is_told_and_does_not_replace_the_end() {
    let stop = user(&INTERRUPTED.into());
    let begin = [user(&"Go.".into()), says("m1", "Done.")];
    let run = |lines: &[Value]| super::agents::run(&session(lines));
    let after = run(&[&begin[..], std::slice::from_ref(&stop)].concat());
    assert_eq!(after.row.verdict.outcome, Outcome::Completed);
    assert!(
        after
            .row
            .verdict
            .sentence
            .contains("interrupted by the user"),
        "{:?}",
        after.row.verdict
    );
    // An interruption ends only an unfinished turn.
    let open = reply("m1", None, &json!([{"type": "text", "text": "Do"}]));
    for lines in [
        vec![begin[0].clone(), open, stop.clone()],
        vec![begin[0].clone(), calls("m1", "c1"), stop.clone()],
        vec![
            begin[0].clone(),
            calls("m1", "c1"),
            gives("c1", INTERRUPTED),
        ],
        [
            &begin[..],
            &[with(stop, &json!({"interruptedMessageId": "m1"}))],
        ]
        .concat(),
    ] {
        let cut = run(&lines);
        assert_eq!(cut.row.verdict.outcome, Outcome::Cancelled, "{lines:?}");
    }
}

fn stream(lines: &[Value]) -> Vec<Value> {
    let init = json!({"type": "system", "subtype": "init", "claude_code_version": "2.1", "model": "model-a"});
    let lines = std::iter::once(&init).chain(lines).enumerate();
    lines
        .map(|(n, line)| {
            with(
                json!({"session_id": ID, "uuid": format!("s{n}"),
        "parent_tool_use_id": null, "timestamp": at(n as u32)}),
                line,
            )
        })
        .collect()
}

#[test]
fn a_second_result_of_a_stream_is_told_and_does_not_replace_the_end() {
    let good =
        json!({"type": "result", "subtype": "success", "is_error": false, "result": "Done."});
    let bad = json!({"type": "result", "subtype": "error_during_execution", "is_error": true, "errors": ["boom"]});
    let run = run(&stream(&[says("m1", "Done."), good, bad]));
    assert_eq!(run.row.verdict.outcome, Outcome::Completed);
    assert!(
        run.row.verdict.sentence.contains("boom"),
        "{:?}",
        run.row.verdict
    );
}

#[test]
fn a_known_word_for_the_end_is_kept_and_no_failure_is_called_a_success() {
    let ended = |word: &str, is_error: bool| {
        let result = json!({"type": "result", "subtype": "success", "is_error": is_error, "terminal_reason": word});
        let verdict = run(&stream(&[says("m1", "Done."), result])).row.verdict;
        (verdict.outcome, verdict.stop_reason.unwrap().to_string())
    };
    for word in [
        "model_error",
        "image_error",
        "turn_setup_failed",
        "rapid_refill_breaker",
    ] {
        for is_error in [false, true] {
            assert_eq!(ended(word, is_error), (Outcome::Failed, word.to_owned()));
        }
    }
    assert_eq!(
        ended("something_new", true),
        (Outcome::Failed, "something_new".to_owned())
    );
    assert_eq!(
        ended("something_new", false),
        (Outcome::Unknown, "something_new".to_owned())
    );
    assert_eq!(
        ended("completed", true),
        (Outcome::Failed, "error".to_owned())
    );
    assert_eq!(ended("completed", false).0, Outcome::Completed);
}

#[test]
fn what_the_user_says_beside_a_result_or_behind_an_end_is_in_every_export() {
    let lines = session(&[
        user(&"PROMPT-ONE".into()),
        calls("m1", "c1"),
        gives("c1", "PROMPT-BESIDE"),
        says("m2", "Done."),
    ]);
    in_every_export(&lines, &["PROMPT-ONE", "PROMPT-BESIDE"], &[]);
    let reminded = session(&[
        user(&"PROMPT-ONE".into()),
        calls("m1", "c1"),
        gives("c1", "<system-reminder>NOTE"),
        says("m2", "Done."),
    ]);
    in_every_export(&reminded, &["PROMPT-ONE"], &["NOTE"]);
    let result =
        json!({"type": "result", "subtype": "success", "is_error": false, "result": "Done."});
    let noted = user(&"NOTED".into());
    let replayed = with(user(&"PROMPT-AGAIN".into()), &json!({"isReplay": true}));
    let lines = stream(&[
        calls("m1", "c1"),
        noted,
        replayed,
        says("m2", "Done."),
        result,
        user(&"PROMPT-THEN".into()),
        says("m3", "So."),
    ]);
    in_every_export(&lines, &["PROMPT-AGAIN", "PROMPT-THEN"], &["NOTED"]);
    assert_eq!(run(&lines).row.task, None, "the task wasn't printed");
}

#[test]
fn what_a_result_says_that_was_read_is_compared_with_the_replies() {
    let result = |read: u64| {
        json!({"type": "result", "subtype": "success", "is_error": false, "result": "Done.", "usage":
            {"input_tokens": read, "output_tokens": 5}, "modelUsage": {"model-a": {"inputTokens": read, "outputTokens": 5},
            "model-b": {"inputTokens": 77, "outputTokens": 7}}})
    };
    let told = |read: u64| reasons(&run(&stream(&[says("m1", "Done."), result(read)])));
    assert_eq!(told(10), [""; 0]);
    assert_eq!(
        told(4),
        ["the result records 9 tokens, but the steps add up to 15"]
    );
}

// Qwen Code.

#[test]
fn a_result_with_sub_agents_is_compared_where_they_say_what_they_took() {
    let told = |total: u64, cached: u64, task: Option<u64>| {
        let line = |n: u32, more: &Value| {
            with(
                json!({"session_id": ID, "uuid": format!("q{n}"), "parent_tool_use_id": null}),
                more,
            )
        };
        let usage = |input: u64, cached: u64| json!({"input_tokens": input, "output_tokens": 5, "cache_read_input_tokens": cached});
        let task = task.map(|tokens| {
            line(
                2,
                &json!({"type": "system", "subtype": "task_notification",
            "data": {"task_id": "t1", "usage": {"total_tokens": tokens}}}),
            )
        });
        let lines = [
            Some(line(
                0,
                &json!({"type": "system", "subtype": "init", "qwen_code_version": "0.24.4", "model": "model-a"}),
            )),
            Some(line(
                1,
                &json!({"type": "assistant", "message": {"id": "m1", "model": "model-a", "content":
                [{"type": "text", "text": "Done."}], "usage": usage(100, 40)}}),
            )),
            task,
            Some(line(
                3,
                &json!({"type": "result", "subtype": "success", "is_error": false, "result": "Done.",
                "usage": with(usage(total - 5, cached), &json!({"total_tokens": total}))}),
            )),
        ];
        reasons(&run(&lines.into_iter().flatten().collect::<Vec<_>>()))
    };
    assert_eq!(told(105, 40, None), [""; 0]);
    assert_eq!(
        told(105, 90, None),
        ["the result records 90 cached tokens, but the steps add up to 40"]
    );
    assert_eq!(told(165, 40, Some(60)), [""; 0]);
    let more =
        "the result records 965 tokens, but the steps add up to 105 and the child runs to 60";
    assert_eq!(told(965, 40, Some(60)), [more]);
}
