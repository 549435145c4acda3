//! Cases of sessions of Claude Code, Codex, Gemini CLI and Qwen Code.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use super::{assert_says, board, board_json, cases};

const GOAL: &str =
    "r_codex_goal/rollout-2026-11-22T15-36-14-01a203e6-9b2b-7ae3-bf0b-dc51e1c29044.jsonl";

/// The rows of `board list DIRECTORY`, by the ends of their keys.
fn row<'a>(list: &'a Value, end: &str) -> &'a Value {
    let rows = list["runs"].as_array().unwrap();
    let found = rows
        .iter()
        .find(|row| row["key"].as_str().unwrap().ends_with(end));
    found.unwrap_or_else(|| panic!("no run {end} in {list:#}"))
}

/// The only row of `board list DIRECTORY`.
fn only(directory: &str) -> Value {
    let list = board_json(&["list", directory]);
    assert_eq!(list["total"], 1, "{list:#}");
    list["runs"][0].clone()
}

/// The file of a case that holds one.
fn file(case: &str) -> String {
    let mut names = fs::read_dir(cases().join(case))
        .unwrap()
        .map(|entry| entry.unwrap().file_name());
    let name = names
        .find(|name| name.to_str().unwrap().ends_with(".jsonl"))
        .unwrap();
    format!("{case}/{}", name.to_str().unwrap())
}

/// `board why` as JSON of a file with these lines.
fn why_of(name: &str, lines: &[Value]) -> Value {
    let temp = tempfile::tempdir().unwrap();
    let path = written(temp.path(), name, lines);
    board_json(&["why", &path])
}

fn written(directory: &Path, name: &str, lines: &[Value]) -> String {
    let path = directory.join(name);
    fs::write(
        &path,
        lines
            .iter()
            .map(|line| format!("{line}\n"))
            .collect::<String>(),
    )
    .unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn a_goal_turn_without_steps_does_not_replace_the_answer() {
    let why = board_json(&["why", GOAL]);
    assert_eq!(
        why["headline"],
        "Answered at step 2 · a turn started by its goal (turn_trigger goal) was interrupted 14 ms later, before any step"
    );
    assert_eq!(why["outcome"], "completed");
    assert_says(
        &board(&["show", GOAL]),
        &["The goal is set; one test is red."],
    );
}

#[test]
fn what_if_loses_the_answer_before_a_goal_turn_without_steps() {
    assert_says(
        &board(&["whatif", GOAL, "--rule", "max_steps=2"]),
        &["The answer would have been lost"],
    );
}

#[test]
fn a_prompt_that_got_no_step_keeps_the_answer_and_is_named() {
    let line = |id: &str, parent: Value, kind: &str, message: Value| {
        json!({"parentUuid": parent, "sessionId": "5f0c7a52-0000-4000-8000-000000000001", "uuid": id, "type": kind,
            "timestamp": format!("2026-05-04T09:00:0{}Z", &id[1..]), "version": "2.1.330", "message": message})
    };
    let said = json!([{"type": "text", "text": "Done."}]);
    let why = why_of(
        "5f0c7a52-0000-4000-8000-000000000001.jsonl",
        &[
            line(
                "u1",
                Value::Null,
                "user",
                json!({"role": "user", "content": "Fix it"}),
            ),
            line(
                "a2",
                "u1".into(),
                "assistant",
                json!({"id": "m", "model": "m", "content": said, "stop_reason": "end_turn"}),
            ),
            line(
                "u3",
                "a2".into(),
                "user",
                json!({"role": "user", "content": "And now?"}),
            ),
            line(
                "u4",
                "u3".into(),
                "user",
                json!({"role": "user", "content": [{"type": "text", "text": "[Request interrupted by user]"}]}),
            ),
        ],
    );
    assert_eq!(why["outcome"], "completed");
    let sentence = "Finished at step 0 (inferred from \"end_turn\") · a later turn was interrupted by the user, before any step";
    assert_eq!(why["headline"], sentence);
}

#[test]
fn a_codex_turn_that_nobody_is_recorded_to_have_stopped_is_only_interrupted() {
    let line = |second: u32, kind: &str, payload: Value| json!({"timestamp": format!("2026-05-04T09:00:{second:02}Z"), "type": kind, "payload": payload});
    let call =
        json!({"type": "function_call", "name": "exec_command", "arguments": "{}", "call_id": "c"});
    let why = why_of(
        "rollout-1.jsonl",
        &[
            line(
                1,
                "session_meta",
                json!({"id": "t", "cwd": "/p", "source": "exec"}),
            ),
            line(
                2,
                "event_msg",
                json!({"type": "task_started", "turn_id": "1"}),
            ),
            line(3, "response_item", call),
            line(
                4,
                "event_msg",
                json!({"type": "turn_aborted", "turn_id": "1", "reason": "interrupted"}),
            ),
        ],
    );
    assert_eq!(
        why["headline"],
        "Cancelled in step 0 during a call to exec_command"
    );
    assert_eq!(why["outcome"], "cancelled");
}

#[test]
fn the_total_that_qwen_records_is_the_tokens_of_the_run_and_a_difference_is_an_issue() {
    let shown = board_json(&["show", "r_qwen_max_tokens/stream.jsonl"]);
    assert_eq!(shown["tokens"], 90_640);
    let issue =
        "the result records 90,640 tokens, but the steps add up to 18,128 (4 retries are recorded)";
    assert_says(
        &board(&["list", "r_qwen_max_tokens", "--json"]),
        &["\"problems\": 1"],
    );
    let output = std::process::Command::new(crate::board::BINARY)
        .current_dir(cases())
        .args(["check", "r_qwen_max_tokens/stream.jsonl"])
        .output()
        .unwrap();
    assert_says(&String::from_utf8_lossy(&output.stdout), &[issue]);
}

#[test]
fn a_child_whose_call_failed_is_counted_by_its_parent() {
    let session =
        "r_cc_subagent_fails/projects/-home-dev-project/e7f2529e-9e52-4289-aecc-b7ca2d605dde.jsonl";
    assert_eq!(board_json(&["show", session])["children"], 1);
    let grouped = board(&["list", "r_cc_subagent_fails", "--group", "parent"]);
    assert_says(&grouped, &["agent-a4ab82d7efff65d20.jsonl"]);
}

#[test]
fn a_cancelled_call_that_ends_a_qwen_run_is_no_failure() {
    let sentence =
        "Cancelled by the user in step 0 during a call to run_shell_command; no records follow";
    let session =
        "r_qwen_sigint/projects/-home-dev-project/chats/de830730-c8a8-4812-b0fe-45bef0dda2da.jsonl";
    for (path, certainty) in [
        ("r_qwen_sigint/stream.jsonl", "inferred"),
        (session, "recorded"),
    ] {
        let why = board_json(&["why", path]);
        assert_eq!(why["headline"], sentence, "{path}");
        assert_eq!(
            (&why["outcome"], &why["certainty"]),
            (&"cancelled".into(), &certainty.into())
        );
        assert!(!board(&["why", path]).contains("a tool failed"), "{path}");
    }
}

#[test]
fn a_session_that_just_ends_is_unknown() {
    let line = |second: u32, kind: &str, payload: Value| json!({"timestamp": format!("2026-05-04T09:00:{second:02}Z"), "type": kind, "payload": payload});
    let call =
        json!({"type": "function_call", "name": "exec_command", "arguments": "{}", "call_id": "c"});
    let why = why_of(
        "rollout-1.jsonl",
        &[
            line(
                1,
                "session_meta",
                json!({"id": "t", "cwd": "/p", "source": "exec"}),
            ),
            line(
                2,
                "event_msg",
                json!({"type": "task_started", "turn_id": "1"}),
            ),
            line(3, "response_item", call),
        ],
    );
    let sentence = "No result for exec_command in step 0: killed, or waiting for the user";
    assert_eq!(why["headline"], sentence);
    assert_eq!(
        (&why["outcome"], &why["certainty"]),
        (&"unknown".into(), &"unknown".into())
    );
}

#[test]
fn an_advisor_within_a_reply_is_counted_under_its_own_model() {
    let run = only("70-cc-advisor");
    assert_eq!(run["tokens"], 234_930 + 167_224);
    assert_eq!(
        run["models"],
        json!(["claude-sonnet-4-5", "claude-opus-4-7"])
    );
}

#[test]
fn results_of_mcp_servers_that_failed_are_failures() {
    let run = only("58-cx-mcp-results");
    assert_eq!(
        (&run["tool_calls"], &run["tool_errors"]),
        (&3.into(), &2.into())
    );
    let path = file("58-cx-mcp-results");
    assert_says(
        &board(&["show", &path]),
        &["no such page", "tool call failed for `docs/find`"],
    );
}

#[test]
fn an_odd_is_error_says_nothing_and_is_an_issue() {
    let temp = tempfile::tempdir().unwrap();
    let line = |id: &str, kind: &str, message: Value| {
        json!({"sessionId": "5f0c7a52-0000-4000-8000-000000000001", "uuid": id, "type": kind,
            "timestamp": format!("2026-05-04T09:00:0{}Z", &id[1..]), "version": "2.1.330", "message": message})
    };
    let call = json!([{"type": "tool_use", "id": "c1", "name": "Bash", "input": {}}]);
    let result = |flag: Value| json!([{"type": "tool_result", "tool_use_id": "c1", "content": "x", "is_error": flag}]);
    let lines = [
        line("u1", "user", json!({"role": "user", "content": "Fix it"})),
        line(
            "a2",
            "assistant",
            json!({"id": "m", "model": "m", "content": call, "stop_reason": "tool_use"}),
        ),
        line(
            "u3",
            "user",
            json!({"role": "user", "content": result("yes".into())}),
        ),
    ];
    written(
        temp.path(),
        "5f0c7a52-0000-4000-8000-000000000001.jsonl",
        &lines,
    );
    let root = temp.path().to_str().unwrap();
    let run = board_json(&["list", root])["runs"][0].clone();
    assert_eq!(
        (&run["tool_errors"], &run["issues"]),
        (&Value::Null, &1.into())
    );
    let more = [
        lines[0].clone(),
        lines[1].clone(),
        line(
            "u3",
            "user",
            json!({"role": "user", "content": result(false.into())}),
        ),
        line(
            "u4",
            "user",
            json!({"role": "user", "content": result(true.into())}),
        ),
    ];
    written(
        temp.path(),
        "5f0c7a52-0000-4000-8000-000000000001.jsonl",
        &more,
    );
    let run = board_json(&["list", root])["runs"][0].clone();
    assert_eq!(
        (&run["tool_errors"], &run["issues"]),
        (&1.into(), &1.into()),
        "a contrary result is an issue"
    );
}

#[test]
fn agents_of_a_workflow_are_children_of_its_session() {
    let list = board_json(&["list", "15-cc-workflow"]);
    assert_eq!(
        row(&list, "2edd5e15-d913-4a95-8eb7-f4b76a4fd1ce.jsonl")["children"],
        2
    );
    for agent in ["agent-wfaga.jsonl", "agent-wfagb.jsonl"] {
        assert_eq!(
            row(&list, agent)["parent"],
            "2edd5e15-d913-4a95-8eb7-f4b76a4fd1ce"
        );
    }
    let board = crate::board::Board::serve(&cases().join("15-cc-workflow"));
    board.until_read();
    let page = board.get("/runs/2edd5e15-d913-4a95-8eb7-f4b76a4fd1ce.jsonl");
    assert_says(page.text(), &["agent-wfaga.jsonl", "agent-wfagb.jsonl"]);
}

#[test]
fn exports_hold_the_prompts_of_all_branches() {
    let path = file("12-cc-rewind");
    let prompts = ["plan A or B?", "Take A", "Take B"];
    assert_says(&board(&["show", &path, "--format", "md"]), &prompts);
    let atif: Value = serde_json::from_str(&board(&["export", &path, "--atif", "-"])).unwrap();
    let steps = atif["steps"].as_array().unwrap();
    let sources: Vec<&str> = steps
        .iter()
        .map(|step| step["source"].as_str().unwrap())
        .collect();
    assert_eq!(
        sources,
        ["user", "agent", "user", "agent", "agent", "user", "agent"]
    );
    let said: Vec<&str> = steps
        .iter()
        .filter(|step| step["source"] == "user")
        .map(|step| step["message"].as_str().unwrap())
        .collect();
    assert_eq!(said, prompts);
    assert_says(&board(&["export", &path, "--otlp", "-"]), &prompts);
    assert_says(&board(&["export", &path, "--html", "-"]), &prompts);
}

#[test]
fn what_the_user_typed_while_a_tool_ran_stands_before_the_reply_that_read_it() {
    let path = file("10-cc-queued-command");
    let typed = "please also check zebra-quux";
    assert_says(&board(&["show", &path, "--format", "md"]), &[typed]);
    assert_says(&board(&["export", &path, "--html", "-"]), &[typed]);
    let atif: Value = serde_json::from_str(&board(&["export", &path, "--atif", "-"])).unwrap();
    let steps = atif["steps"].as_array().unwrap();
    let at = steps
        .iter()
        .position(|step| step["message"] == typed)
        .unwrap();
    assert_eq!(
        (at, &steps[at]["source"]),
        (2, &"user".into()),
        "behind the call, before the reply"
    );
    let step = board_serving(
        "10-cc-queued-command",
        &format!("/runs/{}/steps/1", path.split('/').next_back().unwrap()),
    );
    assert_says(&step, &[typed]);
}

/// The page at `path` of a board on the case.
fn board_serving(case: &str, path: &str) -> String {
    let board = crate::board::Board::serve(&cases().join(case));
    board.until_read();
    board.get(path).text().to_owned()
}

#[test]
fn a_patch_in_a_script_is_an_edit_with_counts() {
    let path = file("45-cx-code-mode");
    let key = path.split('/').next_back().unwrap();
    let files = board_serving("45-cx-code-mode", &format!("/runs/{key}?tab=files"));
    assert_says(&files, &["lib/a.ts", "+1", "−1"]);
}

#[test]
fn the_diff_of_a_file_change_is_shown_relative_to_the_project() {
    let path = file("45c-cx-code-mode-item");
    let key = path.split('/').next_back().unwrap();
    let files = board_serving("45c-cx-code-mode-item", &format!("/runs/{key}?tab=files"));
    assert_says(&files, &["lib/", "a.ts", "+1", "−1", "new.ts"]);
    assert!(!files.contains("/home/u/proj/lib"), "{files}");
    let step = board_serving("45c-cx-code-mode-item", &format!("/runs/{key}/steps/0"));
    assert_says(&step, &["let x = ", "files.lib/a.ts"]);
}

#[test]
fn segments_of_one_thread_are_linked() {
    let first = "rollout-2026-05-01T10-00-00-97b7dc8d-6263-46d4-8c8b-9ef49c2f2804.jsonl";
    let second = "rollout-2026-05-01T11-00-00-97b7dc8d-6263-46d4-8c8b-9ef49c2f2804_3645a8ab-c4d2-4808-838a-8adab64b1e69.jsonl";
    let list = board_json(&["list", "47-cx-segments"]);
    assert_eq!(
        row(&list, second)["continues"],
        "97b7dc8d-6263-46d4-8c8b-9ef49c2f2804"
    );
    assert_eq!(row(&list, first)["continues"], Value::Null);
    assert_says(
        &board_serving("47-cx-segments", &format!("/runs/{second}")),
        &["continues ", first],
    );
    assert_says(
        &board_serving("47-cx-segments", &format!("/runs/{first}")),
        &["continued in ", second],
    );
}

#[test]
fn a_record_behind_a_torn_one_on_the_same_line_is_read() {
    let run = only("08-cc-stub-joined");
    assert_eq!(
        (&run["tool_errors"], &run["issues"], &run["problems"]),
        (&0.into(), &1.into(), &1.into())
    );
    assert_says(
        &board(&["show", &file("08-cc-stub-joined"), "--format", "md"]),
        &["slept"],
    );
}

#[test]
fn titles_of_sessions_are_found_by_the_filter() {
    assert_eq!(only("13-cc-titles")["title"], "Kestrel rename");
    for word in ["kestrel", "wombat"] {
        assert_eq!(
            board_json(&["list", "13-cc-titles", word])["matched"],
            1,
            "{word}"
        );
    }
    assert_eq!(
        board_json(&["list", "13-cc-titles", "nothing-like-it"])["matched"],
        0
    );
}

#[test]
fn the_page_marks_a_compaction_and_the_tokens_before_it() {
    let path = file("22-cc-compaction");
    let key = path.split('/').next_back().unwrap();
    let words = "context compacted (auto), 167,000 tokens before";
    assert_says(
        &board_serving("22-cc-compaction", &format!("/runs/{key}?tab=steps")),
        &[words],
    );
    assert_says(
        &board_serving("22-cc-compaction", &format!("/runs/{key}?tab=transcript")),
        &["Context compacted (auto), 167,000 tokens before"],
    );
    assert_says(
        &board_serving("22-cc-compaction", &format!("/runs/{key}/steps/2")),
        &[words],
    );
}

#[test]
fn text_beside_a_picture_is_in_the_transcript() {
    let temp = tempfile::tempdir().unwrap();
    let picture = json!({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}});
    let line = |id: &str, kind: &str, message: Value| {
        json!({"sessionId": "5f0c7a52-0000-4000-8000-000000000001", "uuid": id, "type": kind,
            "timestamp": format!("2026-05-04T09:00:0{}Z", &id[1..]), "version": "2.1.330", "message": message})
    };
    let call = json!([{"type": "tool_use", "id": "c1", "name": "Read", "input": {}}]);
    let told = json!([{"type": "text", "text": "words beside the giraffe"}, picture.clone()]);
    let path = written(
        temp.path(),
        "5f0c7a52-0000-4000-8000-000000000001.jsonl",
        &[
            line(
                "u1",
                "user",
                json!({"role": "user", "content": [picture, {"type": "text", "text": "look at the zebra"}]}),
            ),
            line(
                "a2",
                "assistant",
                json!({"id": "m", "model": "m", "content": call, "stop_reason": "tool_use"}),
            ),
            line(
                "u3",
                "user",
                json!({"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": told}]}),
            ),
        ],
    );
    let both = ["look at the zebra", "words beside the giraffe"];
    assert_says(&board(&["show", &path, "--format", "md"]), &both);
    assert_says(&board(&["export", &path, "--atif", "-"]), &both);
    assert_says(&board(&["export", &path, "--otlp", "-"]), &both);
}

#[test]
fn a_running_total_that_is_none_of_the_steps_is_no_issue() {
    let line = |second: u32, kind: &str, payload: Value| json!({"timestamp": format!("2026-05-04T09:00:{second:02}Z"), "type": kind, "payload": payload});
    let usage = |read: u64, wrote: u64, total: u64| json!({"input_tokens": read, "output_tokens": wrote, "total_tokens": total});
    let said = |second, words: &str| {
        let content = json!([{"type": "output_text", "text": words}]);
        line(
            second,
            "response_item",
            json!({"type": "message", "role": "assistant", "content": content}),
        )
    };
    let total = |second, usage: Value| {
        line(
            second,
            "event_msg",
            json!({"type": "token_count", "info": {"total_token_usage": usage}}),
        )
    };
    let issues = |more: &[Value]| {
        let temp = tempfile::tempdir().unwrap();
        let first = [
            line(
                1,
                "session_meta",
                json!({"id": "t", "cwd": "/p", "source": "exec"}),
            ),
            line(
                2,
                "event_msg",
                json!({"type": "task_started", "turn_id": "1"}),
            ),
            said(3, "One."),
            line(4, "token_usage_record", json!({"usage": usage(10, 5, 15)})),
        ];
        written(
            temp.path(),
            "rollout-1.jsonl",
            &[first.as_slice(), more].concat(),
        );
        board_json(&["list", temp.path().to_str().unwrap()])["runs"][0]["issues"].as_u64()
    };
    assert_eq!(issues(&[total(5, usage(10, 5, 15))]), Some(0));
    assert_eq!(
        issues(&[total(5, usage(90, 5, 95))]),
        Some(1),
        "another sum"
    );
    let later = line(7, "token_usage_record", json!({"usage": usage(20, 5, 25)}));
    assert_eq!(
        issues(&[total(5, usage(10, 5, 15)), said(6, "Two."), later]),
        Some(0),
        "older than the last reply"
    );
    assert_eq!(
        issues(&[total(5, usage(0, 0, 258_400))]),
        Some(0),
        "the size of the window"
    );
}
