//! Tests sessions of Claude Code.

use super::truth::{FIELDS, compare};
use super::{damaged, read, sample};

const PROJECT: &str = "tools/claude-code/-home-me-ledger";
const CHILD: &str = "tools/claude-code/-home-me-ledger/5f0c7a52-6d0e-4a53-9b0c-0f6f2b3f1a02/subagents/agent-a1b2c3d4e5.jsonl";

fn session(n: usize) -> std::path::PathBuf {
    sample(&format!(
        "{PROJECT}/5f0c7a52-6d0e-4a53-9b0c-0f6f2b3f1a0{n}.jsonl"
    ))
}

#[test]
fn a_reply_on_several_lines_is_one_step_and_its_tokens_count_once() {
    let run = read(&session(1));
    let row = &run.row;
    assert_eq!((row.steps, row.errors, row.events), (5, 2, 20));
    // 5,210 + 84, 5,650 + 46, 5,820 + 133, 5,990 + 40, 6,140 + 61.
    assert_eq!((row.tokens, row.cost_usd), (Some(29_174), Some(0.041225)));
    assert_eq!(row.tools, ["Read", "Bash", "Edit", "TodoWrite"]);
    assert_eq!(row.changed, ["files.split.py", "todos"]);
    assert_eq!(row.model.as_deref(), Some("claude-sonnet-4-5-20250929"));
    assert_eq!(
        row.verdict.sentence,
        "Finished at step 4 (inferred from \"end_turn\")"
    );
    assert_eq!(
        (
            row.verdict.certainty.as_str(),
            row.verdict.stop_reason.as_deref()
        ),
        ("inferred", Some("end_turn"))
    );
    assert!(
        row.task
            .as_deref()
            .is_some_and(|task| task.starts_with("Splitting 100 by 3"))
    );
}

#[test]
fn a_step_is_assembled_from_its_lines() {
    let run = read(&session(1));
    let step = run.step(0);
    assert_eq!(step["actions"][1]["action_id"], "toolu_01b");
    assert_eq!(step["action_results"][0]["status"], "success");
    assert_eq!(step["action_results"][1]["status"], "error");
    assert_eq!(
        step["decision"]["rationale"],
        "The shares must sum up to the total, so the rest has to go somewhere."
    );
    assert_eq!(
        step["model_response"]["text"],
        "I read the code and its tests first."
    );
    assert_eq!(step["context"]["cached_tokens"], 0);
    assert_eq!(run.index.steps().get(1).unwrap().returncode, Some(1));
    let edit = &run.step(2)["state_diff"]["files.split.py"];
    assert!(
        edit["before"]
            .as_str()
            .is_some_and(|text| text.contains("share = total // parts"))
    );
    assert!(
        edit["after"]
            .as_str()
            .is_some_and(|text| text.contains("divmod") && !text.contains("// parts\n    return"))
    );
}

#[test]
fn limits_children_and_what_was_cut_are_told() {
    let limited = read(&session(2));
    assert_eq!(
        limited.row.verdict.sentence,
        "Turn limit reached after step 1: 2 of 2 turns"
    );
    assert_eq!(limited.row.verdict.certainty.as_str(), "recorded");
    let manifest = limited.index.manifest().get().expect("a manifest");
    assert_eq!((manifest.turns, manifest.children), (Some(1), Some(1)));
    assert_eq!(limited.row.cost_usd, None, "no line records the cost");
    let child = read(&sample(CHILD));
    assert_eq!(
        child.row.parent.as_deref(),
        Some("5f0c7a52-6d0e-4a53-9b0c-0f6f2b3f1a02")
    );
    assert_eq!(child.row.run_id.as_deref(), Some("a1b2c3d4e5"));
    let cut = read(&session(3));
    assert_eq!(
        (cut.row.verdict.mark.word(), cut.row.steps, cut.row.issues.1),
        ("unknown", 1, 1)
    );
}

/// A file about such sessions may contain the text of an interruption, too.
#[test]
fn an_edit_of_a_file_with_the_words_of_an_interruption_is_no_interruption() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir
        .path()
        .join("5f0c7a52-6d0e-4a53-9b0c-0f6f2b3f1a01.jsonl");
    let text = std::fs::read_to_string(session(1)).unwrap();
    let edited = text.replace(
        "def split(",
        "# [Request interrupted by user for tool use]\\ndef split(",
    );
    assert_ne!(text, edited);
    std::fs::write(&path, edited).unwrap();
    assert_eq!(read(&path).row.errors, read(&session(1)).row.errors);
}

/// Session messages kept by other programs, without ids of lines, replies or the session.
#[test]
fn a_call_that_was_killed_is_no_failed_one() {
    let text = std::fs::read_to_string(session(1)).expect("the sample");
    let words = "[Tool call interrupted: the session ended before this call's result was recorded, so its outcome is unknown.]";
    let lines: Vec<String> = text
        .lines()
        .map(|line| {
            let mut value: serde_json::Value = serde_json::from_str(line).expect("JSON");
            for block in value["message"]["content"]
                .as_array_mut()
                .into_iter()
                .flatten()
            {
                if block["is_error"] == true {
                    block["content"] = words.into();
                    value["toolUseResult"] = words.into();
                    return value.to_string();
                }
            }
            line.to_owned()
        })
        .collect();
    let temp = tempfile::tempdir().expect("a directory");
    let path = temp
        .path()
        .join("5f0c7a52-6d0e-4a53-9b0c-0f6f2b3f1a01.jsonl");
    std::fs::write(&path, lines.join("\n") + "\n").expect("written");
    assert_eq!(read(&path).row.tool_errors, Some(0));
    assert_ne!(read(&session(1)).row.tool_errors, Some(0));
}

#[test]
fn a_total_that_counts_something_else_is_a_note() {
    let text = std::fs::read_to_string(session(1)).expect("the sample");
    let cost = r#"{"type":"cost-state","sessionId":"5f0c7a52-6d0e-4a53-9b0c-0f6f2b3f1a01","totalCostUSD":0.05,"modelUsage":{"claude-sonnet-4-5-20250929":{"inputTokens":40000,"outputTokens":1,"cacheReadInputTokens":0,"cacheCreationInputTokens":0}}}"#;
    let lines = text.lines().filter(|line| !line.contains("cost-state"));
    let lines: Vec<&str> = lines.chain([cost]).collect();
    let temp = tempfile::tempdir().expect("a directory");
    let path = temp
        .path()
        .join("5f0c7a52-6d0e-4a53-9b0c-0f6f2b3f1a01.jsonl");
    std::fs::write(&path, lines.join("\n") + "\n").expect("written");
    let run = read(&path);
    // A note, and no problem.
    assert_eq!(run.row.issues, (1, 0));
    assert!(run.row.verdict.contradictions.is_empty());
}

#[test]
fn messages_that_do_not_name_their_session_are_a_run() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("kept.jsonl");
    let message = |n: usize, kind: &str, content: serde_json::Value| {
        let usage = serde_json::json!({"input_tokens": 100, "output_tokens": n});
        let message =
            serde_json::json!({"model": "claude-sonnet-4-5", "content": content, "usage": usage});
        let line = serde_json::json!({"type": kind, "timestamp": format!("2026-05-04T09:00:0{n}Z"), "message": message});
        format!("{line}\n")
    };
    let call = serde_json::json!([{"type": "tool_use", "id": "a", "name": "Read", "input": {"file_path": "a.py"}}]);
    let result = serde_json::json!([{"type": "tool_result", "tool_use_id": "a", "content": "x", "is_error": true}]);
    let lines = [
        message(0, "user", "Read it.".into()),
        message(1, "assistant", call),
        message(2, "user", result),
        message(
            3,
            "assistant",
            serde_json::json!([{"type": "text", "text": "It is x."}]),
        ),
    ];
    std::fs::write(&path, lines.concat()).unwrap();
    let run = read(&path);
    assert_eq!(
        (run.row.steps, run.row.errors, run.row.tokens, run.row.turns),
        (2, 1, Some(204), Some(1))
    );
    assert_eq!(
        (run.row.task.as_deref(), run.row.run_id.as_deref()),
        (Some("Read it."), None)
    );
    assert_eq!(
        run.row.verdict.sentence,
        "Finished at step 1 (inferred: the last reply made no tool calls)"
    );
    assert_eq!(run.row.issues, (0, 0));
    // A duplicate line counts once.
    std::fs::write(&path, [&lines.concat(), lines[3].as_str()].concat()).unwrap();
    let twice = read(&path);
    assert_eq!(
        (twice.row.steps, twice.row.tokens, twice.row.issues),
        (2, Some(204), (1, 0))
    );
    std::fs::write(&path, &lines[0]).unwrap();
    assert_eq!(
        (read(&path).row.steps, read(&path).row.verdict.mark.word()),
        (0, "unknown")
    );
    // Similar lines of other programs aren't recognized as a Claude Code session.
    for other in [
        r#"{"type":"user","message":{"content":"x"}}"#,
        r#"{"type":"user","timestamp":"2026-05-04T09:00:00Z"}"#,
    ] {
        std::fs::write(&path, format!("{other}\n")).unwrap();
        assert!(
            trace_board::trace::RunDir::of_file(&path)
                .unwrap()
                .is_none(),
            "{other}"
        );
    }
}

#[test]
fn a_document_next_to_a_sub_agent_names_the_one_that_started_it() {
    let temp = tempfile::tempdir().expect("a directory");
    let path = temp.path().join("agent-a1b2c3d4e5.jsonl");
    std::fs::copy(sample(CHILD), &path).expect("copied");
    let document = r#"{"agentType":"general-purpose","parentAgentId":"a0","spawnDepth":2}"#;
    let beside = temp.path().join("agent-a1b2c3d4e5.meta.json");
    std::fs::write(&beside, document).expect("written");
    assert_eq!(read(&path).row.parent.as_deref(), Some("a0"));
    std::fs::write(&beside, r#"{"spawnDepth":1}"#).expect("written");
    assert_eq!(read(&path).row.parent, read(&sample(CHILD)).row.parent);
}

/// Returns a line of a session.
fn line(n: usize, more: &serde_json::Value) -> String {
    let mut line = serde_json::json!({"uuid": format!("u{n}"), "parentUuid": n.checked_sub(1).map(|n| format!("u{n}")), "sessionId": "5f0c7a52-6d0e-4a53-9b0c-0f6f2b3f1a09", "timestamp": format!("2026-05-04T09:00:0{n}Z"), "isSidechain": false});
    for (key, value) in more.as_object().expect("an object") {
        line[key] = value.clone();
    }
    format!("{line}\n")
}

#[test]
fn the_end_of_a_command_in_the_background_belongs_to_its_call() {
    use serde_json::json;
    let call = |id: &str| json!([{"type": "tool_use", "id": id, "name": "Bash", "input": {}}]);
    let result = |id: &str| json!([{"type": "tool_result", "tool_use_id": id, "content": "Command running in background with ID: t.", "is_error": false}]);
    let notice = |status: &str, said: &str| {
        format!(
            "<task-notification>\n<task-id>t</task-id>\n<tool-use-id>a</tool-use-id>\n<status>{status}</status>\n<summary>{said}</summary>\n</task-notification>"
        )
    };
    let begun = |n: usize, id: &str, task: serde_json::Value| {
        let reply = json!({"type": "assistant", "message": {"id": id, "role": "assistant", "model": "claude", "content": call(id), "stop_reason": "tool_use"}});
        let given = json!({"type": "user", "message": {"role": "user", "content": result(id)}, "toolUseResult": {"backgroundTaskId": task}});
        line(n, &reply) + &line(n + 1, &given)
    };
    let head = line(
        0,
        &json!({"type": "user", "message": {"role": "user", "content": "Go."}}),
    ) + &begun(1, "a", json!("t"))
        + &begun(3, "b", serde_json::Value::Null);
    let temp = tempfile::tempdir().expect("a directory");
    let path = temp
        .path()
        .join("5f0c7a52-6d0e-4a53-9b0c-0f6f2b3f1a09.jsonl");
    let read_with = |end: &str| {
        std::fs::write(&path, format!("{head}{end}")).expect("written");
        read(&path)
    };
    let said = "Background command \"x\" failed with exit code 4";
    let failed = notice("failed", said);
    let queued = json!({"type": "queue-operation", "operation": "enqueue", "timestamp": "2026-05-04T09:00:05Z", "sessionId": "5f0c7a52-6d0e-4a53-9b0c-0f6f2b3f1a09", "content": failed});
    let attached = json!({"type": "attachment", "attachment": {"type": "queued_command", "prompt": failed, "commandMode": "task-notification"}});
    let spoken = json!({"type": "user", "message": {"role": "user", "content": failed}});
    let lines = [format!("{queued}\n"), line(5, &attached), line(5, &spoken)];
    for end in [&*lines[0], &lines[1], &lines[2], &lines.concat()] {
        let run = read_with(end);
        let first = &run.step(0)["action_results"][0];
        assert_eq!(
            (&first["status"], &first["error"]),
            (&"error".into(), &said.into())
        );
        assert_eq!(
            (&first["returncode"], run.row.tool_errors),
            (&4.into(), Some(1))
        );
        assert_eq!(run.step(1)["action_results"][0]["status"], "success");
    }
    let status = |status: &str| {
        let end = json!({"type": "user", "message": {"role": "user", "content": notice(status, "It ended")}});
        let run = read_with(&line(5, &end));
        (
            run.step(0)["action_results"][0]["status"].clone(),
            run.row.tool_errors,
        )
    };
    assert_eq!(status("completed"), ("success".into(), Some(0)));
    assert_eq!(status("killed"), ("cancelled".into(), Some(0)));
    assert_eq!(status("odd"), ("success".into(), Some(0)));
}

#[test]
fn an_answer_as_json_ends_the_session() {
    let call = serde_json::json!([{"type": "tool_use", "id": "a", "name": "StructuredOutput", "input": {"n": 3}}]);
    let result = serde_json::json!([{"type": "tool_result", "tool_use_id": "a", "content": "Structured output provided successfully"}]);
    let lines = [
        line(
            0,
            &serde_json::json!({"type": "user", "message": {"role": "user", "content": "Count."}}),
        ),
        line(
            1,
            &serde_json::json!({"type": "assistant", "message": {"id": "m", "role": "assistant", "model": "claude", "content": call, "stop_reason": "tool_use"}}),
        ),
        line(
            2,
            &serde_json::json!({"type": "attachment", "attachment": {"type": "structured_output", "data": {"n": 3}, "toolUseID": "a"}}),
        ),
        line(
            3,
            &serde_json::json!({"type": "user", "message": {"role": "user", "content": result}, "toolEndsTurn": true}),
        ),
    ];
    let temp = tempfile::tempdir().expect("a directory");
    let path = temp
        .path()
        .join("5f0c7a52-6d0e-4a53-9b0c-0f6f2b3f1a09.jsonl");
    std::fs::write(&path, lines.concat()).expect("written");
    let row = read(&path).row;
    assert_eq!(
        (&*row.verdict.sentence, row.verdict.certainty.as_str()),
        ("Answered at step 0", "recorded")
    );
    assert_eq!(row.answer.as_deref(), Some(r#"{"n":3}"#));
    // Without the answer, nothing tells how the turn ended.
    let without = [&*lines[0], &lines[1], &lines[3]].concat();
    std::fs::write(&path, without).expect("written");
    assert_eq!(read(&path).row.answer, None);
}

#[test]
fn a_damaged_session_loses_only_what_is_damaged() {
    damaged(&session(3));
    damaged(&sample(CHILD));
}

#[test]
fn a_session_and_its_sub_agent_lead_to_each_other() {
    let board = crate::board::Board::serve(&sample("tools/claude-code"));
    board.until_read();
    let page = |key: &str| {
        board
            .get(&format!("/runs/{}", key.replace('/', "%2F")))
            .text()
            .to_owned()
    };
    let parent = "-home-me-ledger/5f0c7a52-6d0e-4a53-9b0c-0f6f2b3f1a02.jsonl";
    let child =
        "-home-me-ledger/5f0c7a52-6d0e-4a53-9b0c-0f6f2b3f1a02/subagents/agent-a1b2c3d4e5.jsonl";
    let link = |key: &str| format!("href=\"/runs/{}\"", key.replace('/', "%2F"));
    assert!(page(parent).contains(&link(child)));
    assert!(page(child).contains(&link(parent)));
}

#[test]
fn what_the_model_said_beside_its_calls_is_shown() {
    let board = crate::board::Board::serve(&sample("tools/claude-code"));
    board.until_read();
    let key = "-home-me-ledger/5f0c7a52-6d0e-4a53-9b0c-0f6f2b3f1a01.jsonl".replace('/', "%2F");
    let page = board.get(&format!("/runs/{key}/steps/0"));
    assert!(page.text().contains("I read the code and its tests first."));
    assert!(page.text().contains("so the rest has to go somewhere"));
    assert!(!page.text().contains("no tool ran"));
}

#[test]
fn real_sessions_agree_with_what_is_known_of_them() {
    let is_session = |name: &str| name.starts_with("projects/") && name.ends_with(".jsonl");
    let open = "a call has no result, so the number of failures is unknown";
    compare(
        "claude-code",
        is_session,
        &FIELDS,
        &[("max-budget", "failed calls of the run", 0, open)],
    );
}

#[test]
fn several_edits_of_one_file_are_a_change_of_it() {
    let change = |result: &serde_json::Value| {
        let dir = tempfile::tempdir().unwrap();
        let path = dir
            .path()
            .join("5f0c7a52-6d0e-4a53-9b0c-0f6f2b3f1a01.jsonl");
        let line = |uuid: &str, kind: &str, message: serde_json::Value| {
            serde_json::json!({"type": kind, "uuid": uuid, "sessionId": "5f0c7a52-6d0e-4a53-9b0c-0f6f2b3f1a01",
                "cwd": "/w", "message": message})
        };
        let call =
            serde_json::json!([{"type": "tool_use", "id": "c", "name": "MultiEdit", "input": {}}]);
        let mut answer = line(
            "u2",
            "user",
            serde_json::json!({"content": [{"type": "tool_result", "tool_use_id": "c", "content": "ok"}]}),
        );
        answer["toolUseResult"] = result.clone();
        let lines = [
            line("u1", "user", serde_json::json!({"content": "Go."})),
            line(
                "a1",
                "assistant",
                serde_json::json!({"id": "m", "content": call}),
            ),
            answer,
        ];
        std::fs::write(&path, lines.map(|line| format!("{line}\n")).concat()).unwrap();
        let run = read(&path);
        (
            run.row.changed.clone(),
            run.step(0)["state_diff"]["files.a.py"].clone(),
        )
    };
    let edit = |old: &str, new: &str, all: bool| serde_json::json!({"old_string": old, "new_string": new, "replace_all": all});
    let edits = serde_json::json!([edit("a", "b", true), edit("b", "c", false)]);
    for key in ["originalFileContents", "originalFile"] {
        let (changed, diff) =
            change(&serde_json::json!({"filePath": "/w/a.py", key: "a a", "edits": edits}));
        assert_eq!(changed, ["files.a.py"], "{key}");
        assert_eq!(
            (&diff["before"], &diff["after"]),
            (&"a a".into(), &"c b".into()),
            "{key}"
        );
    }
    let other = serde_json::json!([edit("a", "b", false), edit("z", "y", false)]);
    let result =
        serde_json::json!({"filePath": "/w/a.py", "originalFileContents": "a a", "edits": other});
    assert!(
        change(&result).1["after"].is_null(),
        "after an edit that doesn't apply, the result is unknown"
    );
}

#[test]
fn what_no_result_tells_of_is_neither_a_failure_nor_none() {
    let session =
        sample("tools/claude-code/-home-me-ledger/5f0c7a52-6d0e-4a53-9b0c-0f6f2b3f1a01.jsonl");
    let whole = read(&session);
    assert_eq!(whole.row.tool_errors, Some(2));
    let text = std::fs::read_to_string(&session).expect("the sample");
    let asked = text
        .lines()
        .position(|line| line.contains("\"type\":\"tool_use\""))
        .expect("it calls a tool");
    let temp = tempfile::tempdir().expect("a directory");
    let path = temp.path().join("pending.jsonl");
    let begun: String = text
        .lines()
        .take(asked + 1)
        .flat_map(|line| [line, "\n"])
        .collect();
    std::fs::write(&path, begun).expect("written");
    let run = read(&path);
    assert_eq!(
        run.index.steps().get(0).expect("a step").tool_errors(),
        None
    );
    assert_eq!((run.row.tool_calls, run.row.tool_errors), (Some(1), None));
}
