//! Tests sessions of Codex.

use std::path::PathBuf;

use serde_json::json;

use super::truth::compare;
use super::{damaged, read, sample};
use crate::board::Board;
use crate::cli::board;

fn rollout(time: &str, n: usize) -> PathBuf {
    let dir = "tools/codex/sessions/2026/05/04";
    sample(&format!(
        "{dir}/rollout-2026-05-04T{time}-019df000-0000-7000-8000-0000000000a{n}.jsonl"
    ))
}

#[test]
fn the_items_between_two_records_of_tokens_are_one_step() {
    let run = read(&rollout("09-00-00", 1));
    let row = &run.row;
    assert_eq!(
        (row.steps, row.errors, row.events, row.issues),
        (4, 2, 32, (0, 0))
    );
    // 5,200 + 140, 5,500 + 60, 5,700 + 190, 5,950 + 88. The recorded running totals aren't added.
    assert_eq!((row.tokens, row.cost_usd), (Some(22_828), None));
    assert_eq!(
        row.tools,
        [
            "exec_command",
            "update_plan",
            "collaboration.spawn_agent",
            "exec"
        ]
    );
    assert_eq!(row.changed, ["plan", "files.split.py", "files.shares.py"]);
    assert_eq!(
        (row.model.as_deref(), row.task.as_deref()),
        (
            Some("gpt-5.5"),
            Some("Splitting 100 by 3 loses a cent. Fix it.")
        )
    );
    assert_eq!(
        (&*row.verdict.sentence, row.verdict.certainty.as_str()),
        ("Answered at step 3", "recorded")
    );
    assert_eq!(
        row.answer.as_deref(),
        Some("`split` spreads the rest now; the import is still missing.")
    );
    let manifest = run.index.manifest().get().expect("a manifest");
    assert_eq!(
        (manifest.turns, manifest.children, manifest.usage.cached),
        (Some(1), Some(1), Some(16_300))
    );
    assert_eq!(
        (manifest.tool.as_deref(), manifest.project.as_deref()),
        (Some("Codex 0.169.0"), Some("/home/me/ledger"))
    );
}

#[test]
fn a_call_failed_where_its_exit_code_or_a_command_inside_of_it_says_so() {
    let run = read(&rollout("09-00-00", 1));
    let first = run.step(0);
    assert_eq!(first["decision"]["rationale"], "**Reading first**");
    assert_eq!(first["actions"][0]["args"]["cmd"], "cat split.py");
    assert_eq!(first["action_results"][0]["status"], "success");
    assert_eq!(first["action_results"][0]["metadata"]["latency_ms"], 41.0);
    assert_eq!(
        (
            &first["action_results"][1]["status"],
            &first["action_results"][1]["error"]
        ),
        (&"error".into(), &"FAIL: test_sum\n99 != 100\n".into())
    );
    assert_eq!(run.index.steps().get(0).unwrap().returncode, Some(1));
    let plan = run.step(1);
    assert_eq!(
        plan["state_diff"]["plan"]["after"][0]["status"],
        "in_progress"
    );
    assert_eq!(
        plan["action_results"][1]["status"], "not recorded",
        "its outcome isn't recorded"
    );
    let script = run.step(2);
    assert_eq!(script["action_results"][0]["status"], "error");
    assert_eq!(
        script["action_results"][0]["error"],
        "a command exited with code 1"
    );
    assert_eq!(
        script["action_results"][0]["output"],
        "Script completed\nWall time 0.6 seconds\nOutput:\n\nImportError\n"
    );
    let change = &script["state_diff"]["files.split.py"];
    assert!(
        change["diff"]
            .as_str()
            .unwrap()
            .contains("+    return shares(total, parts)"),
        "{change}"
    );
    assert!(
        change.get("before").is_none() && change.get("after").is_none(),
        "{change}"
    );
}

#[test]
fn a_child_names_its_parent_and_its_copied_lines_do_not_count() {
    let run = read(&rollout("09-00-03", 2));
    assert_eq!((run.row.steps, run.row.tokens), (1, Some(3_020)));
    assert_eq!(
        run.row.parent.as_deref(),
        Some("019df000-0000-7000-8000-0000000000a1")
    );
    assert_eq!(run.row.task.as_deref(), Some("Who calls split()?"));
    assert_eq!(
        run.row.verdict.sentence,
        "Cancelled by the user in step 0 during a call to exec_command"
    );
    assert_eq!(run.step(0)["action_results"][0]["status"], "cancelled");
}

#[test]
fn older_sessions_have_totals_instead_of_records() {
    let run = read(&rollout("10-00-00", 3));
    assert_eq!(
        (run.row.steps, run.row.tokens, run.row.errors),
        (2, Some(130_150), 1)
    );
    assert_eq!(run.row.tools, ["web_search", "shell", "apply_patch"]);
    assert!(
        run.row
            .verdict
            .sentence
            .starts_with("Context window full after step 1")
    );
    assert_eq!(run.row.verdict.certainty.as_str(), "recorded");
    assert_eq!(run.step(0)["action_results"][1]["status"], "success");
}

#[test]
fn an_error_of_a_turn_counts_whatever_it_is() {
    let text = std::fs::read_to_string(rollout("09-00-00", 1)).expect("the sample");
    let temp = tempfile::tempdir().expect("a directory");
    let path = temp.path().join("rollout-a.jsonl");
    let ends = |error: &str| {
        let (is, other) = (
            "\"type\":\"task_complete\"",
            format!("\"error\":{error},\"type\":\"task_complete\""),
        );
        assert!(text.contains(is));
        std::fs::write(&path, text.replace(is, &other)).expect("written");
        let verdict = read(&path).row.verdict;
        (verdict.outcome, verdict.sentence.to_string())
    };
    use trace_board::model::Outcome::{Completed, Failed};
    assert_eq!(ends("null").0, Completed);
    let said = "Failed with an error after step 3: no room";
    assert_eq!(ends("\"no room\""), (Failed, said.to_owned()));
    assert_eq!(ends("{\"message\":\"no room\"}"), (Failed, said.to_owned()));
    assert_eq!(ends("true").0, Failed);
}

#[test]
fn a_call_that_the_program_refuses_has_failed_and_a_silent_command_has_its_code() {
    let text = std::fs::read_to_string(rollout("09-00-00", 1)).expect("the sample");
    let temp = tempfile::tempdir().expect("a directory");
    let path = temp.path().join("rollout-a.jsonl");
    let first = text.lines().next().expect("a line");
    let result = |output: &str| {
        let line = |at: u8, payload: serde_json::Value| json!({"timestamp": format!("2026-05-04T09:00:0{at}.000Z"), "type": "response_item", "payload": payload});
        let call = json!({"type": "function_call", "name": "exec_command", "arguments": "{}", "call_id": "c"});
        let given = json!({"type": "function_call_output", "call_id": "c", "output": output});
        let lines = format!("{first}\n{}\n{}\n", line(1, call), line(2, given));
        std::fs::write(&path, lines).expect("written");
        let result = read(&path).step(0)["action_results"][0].clone();
        let words = |key: &str| result[key].as_str().unwrap_or_default().to_owned();
        (words("status"), words("error"))
    };
    let failed = |error: &str| ("error".to_owned(), error.to_owned());
    for refusal in [
        "unsupported call: make_coffee",
        "failed to parse function arguments: missing field `cmd` at line 1 column 18",
    ] {
        assert_eq!(result(refusal), failed(refusal));
    }
    let head = "Chunk ID: 1\nWall time: 0.0000 seconds\nProcess exited with code 4\nOutput:";
    let silent = failed("exit code 4, no output");
    assert_eq!(result(head), silent);
    assert_eq!(result(&format!("{head}\n")), silent);
    assert_eq!(result(&format!("{head}\ntwo\n")), failed("two\n"));
    let older = |output: &str| json!({"output": output, "metadata": {"exit_code": 4}}).to_string();
    assert_eq!(result(&older("")), silent);
    assert_eq!(result(&older("two\n")), failed("two\n"));
}

/// Writes a session with these records after its first line, and reads it.
fn session(name: &str, records: &[(&str, serde_json::Value)]) -> (tempfile::TempDir, super::Read) {
    let text = std::fs::read_to_string(rollout("09-00-00", 1)).expect("the sample");
    let temp = tempfile::tempdir().expect("a directory");
    let path = temp.path().join(format!("rollout-{name}.jsonl"));
    let mut lines = format!("{}\n", text.lines().next().expect("a line"));
    for (at, (kind, payload)) in records.iter().enumerate() {
        let time = format!("2026-05-04T09:01:{at:02}.000Z");
        let line = json!({"timestamp": time, "type": kind, "payload": payload});
        lines.push_str(&format!("{line}\n"));
    }
    std::fs::write(&path, lines).expect("written");
    let run = read(&path);
    (temp, run)
}

fn call(id: &str, name: &str, arguments: &str) -> (&'static str, serde_json::Value) {
    let call =
        json!({"type": "function_call", "name": name, "arguments": arguments, "call_id": id});
    ("response_item", call)
}

fn output(id: &str, output: impl Into<serde_json::Value>) -> (&'static str, serde_json::Value) {
    let output: serde_json::Value = output.into();
    let given = json!({"type": "function_call_output", "call_id": id, "output": output});
    ("response_item", given)
}

fn done(item: impl Into<serde_json::Value>) -> (&'static str, serde_json::Value) {
    (
        "event_msg",
        json!({"type": "item_completed", "item": item.into()}),
    )
}

#[test]
fn a_command_that_is_polled_fails_once_and_one_that_is_not_has_its_end() {
    const RUNS: &str =
        "Chunk ID: 1\nWall time: 0.3 seconds\nProcess running with session ID 7\nOutput:\nbegun\n";
    let command = || {
        let item = json!({"type": "CommandExecution", "id": "a", "process_id": "7", "status": "failed", "exit_code": 6});
        done(item)
    };
    let poll = || call("b", "write_stdin", r#"{"session_id": 7, "chars": ""}"#);
    let ended = || {
        output(
            "b",
            json!("Wall time: 2.5 seconds\nProcess exited with code 6\nOutput:\n"),
        )
    };
    let statuses = |records: &[(&str, serde_json::Value)]| {
        let (_temp, run) = session("polled", records);
        let status = |n: usize| run.step(n)["action_results"][0]["status"].clone();
        let steps: Vec<_> = (0..run.row.steps).map(status).collect();
        (steps, run.row.tool_errors)
    };
    let begun = [call("a", "exec_command", "{}"), output("a", json!(RUNS))];
    let all = [&begun[..], &[poll(), command(), ended()]].concat();
    assert_eq!(
        statuses(&all),
        (vec!["success".into(), "error".into()], Some(1))
    );
    // Older versions record no item.
    let older = [&begun[..], &[poll(), ended()]].concat();
    assert_eq!(
        statuses(&older),
        (vec!["success".into(), "error".into()], Some(1))
    );
    let other = || {
        [
            call("c", "exec_command", "{}"),
            output("c", json!("Process exited with code 0\nOutput:\n")),
        ]
    };
    let unpolled = [&begun[..], &other(), &[command()]].concat();
    assert_eq!(
        statuses(&unpolled),
        (vec!["error".into(), "success".into()], Some(1))
    );
}

#[test]
fn a_picture_that_was_shown_and_a_patch_in_a_command_have_succeeded() {
    let image = json!([{"type": "input_image", "image_url": "data:image/png;base64,AA=="}]);
    let patched = "Wall time: 0.0 seconds\nOutput:\nExit code: 0\nOutput:\nSuccess.\n";
    let patch = json!({"type": "FileChange", "id": "d", "status": "completed", "changes": {"/a.txt": {"type": "add", "content": "a\n"}}});
    let records = [
        call("a", "view_image", "{}"),
        done(json!({"type": "ImageView", "id": "a", "path": "file:///pic.png"})),
        output("a", image),
        call("b", "view_image", "{}"),
        output(
            "b",
            json!("unable to locate image at `/none.png`: No such file or directory (os error 2)"),
        ),
        call("c", "view_image", "{}"),
        output("c", json!("image path `/dir` is not a file")),
        call("d", "exec_command", "{}"),
        done(patch),
        output("d", json!(patched)),
        // The part of a script says nothing about the script.
        call("e", "exec", "{}"),
        done(json!({"type": "ImageView", "id": "e-1", "path": "file:///pic.png"})),
        output("e", json!("…")),
    ];
    let (_temp, run) = session("seen", &records);
    let status = |n: usize| run.step(n)["action_results"][0]["status"].clone();
    let expected = ["success", "error", "error", "success"];
    assert_eq!((0..4).map(status).collect::<Vec<_>>(), expected);
    assert_eq!(status(4), "not recorded");
    assert_eq!(run.row.tool_errors, None);
}

#[test]
fn a_turn_that_only_runs_a_command_of_the_user_is_no_turn() {
    let event = |payload| ("event_msg", payload);
    let ran = "<user_shell_command>\n<command>\nexit 4\n</command>\n<result>\nExit code: 4\nOutput:\n\n</result>\n</user_shell_command>";
    let shell = json!({"type": "message", "role": "user", "content": [{"type": "input_text", "text": ran}]});
    let said = json!({"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Done."}]});
    let turn = [
        event(json!({"type": "task_started"})),
        event(json!({"type": "user_message", "message": "Go."})),
        ("response_item", said),
        event(json!({"type": "task_complete", "last_agent_message": "Done."})),
    ];
    let command = [
        event(json!({"type": "task_started"})),
        ("response_item", shell),
        event(json!({"type": "task_complete", "last_agent_message": null})),
    ];
    let row = |records: &[(&str, serde_json::Value)]| {
        let (_temp, run) = session("shell", records);
        let manifest = run.index.manifest().get().expect("a manifest");
        (manifest.turns, run.row.verdict.sentence.to_string())
    };
    let after = row(&[&turn[..], &command[..]].concat());
    assert_eq!(after, (Some(1), "Answered at step 0".to_owned()));
    let before = row(&[&command[..], &turn[..]].concat());
    assert_eq!(before, (Some(1), "Answered at step 0".to_owned()));
    assert_eq!(row(&command).0, Some(0));
}

#[test]
fn a_turn_of_a_stream_without_a_last_message_has_no_answer() {
    let temp = tempfile::tempdir().expect("a directory");
    let path = temp.path().join("stdout.jsonl");
    let ends = |items: &[serde_json::Value]| {
        let line = |kind: &str, item: &serde_json::Value| {
            format!("{}\n", json!({"type": kind, "item": item}))
        };
        let items: String = items
            .iter()
            .map(|item| line("item.completed", item))
            .collect();
        let (thread, turn) = (
            json!({"type": "thread.started", "thread_id": "t"}),
            json!({"type": "turn.started"}),
        );
        let end =
            json!({"type": "turn.completed", "usage": {"input_tokens": 9, "output_tokens": 1}});
        std::fs::write(&path, format!("{thread}\n{turn}\n{items}{end}\n")).expect("written");
        let row = read(&path).row;
        (
            row.verdict.sentence.to_string(),
            row.verdict.outcome.as_str(),
            row.answer,
        )
    };
    let command = json!({"id": "a", "type": "command_execution", "command": "ls", "aggregated_output": "", "exit_code": 0, "status": "completed"});
    let message = json!({"id": "b", "type": "agent_message", "text": "Done."});
    let none = || {
        (
            "Turn ended without an answer after step 0".to_owned(),
            "unknown",
            None,
        )
    };
    assert_eq!(ends(std::slice::from_ref(&command)), none());
    assert_eq!(ends(&[message.clone(), command.clone()]), none());
    let answered = ends(&[command, message]);
    assert_eq!(answered.0, "Answered at step 1");
    assert_eq!(answered.2.as_deref(), Some("Done."));
}

#[test]
fn the_stream_of_a_later_turn_without_steps_does_not_contradict_the_session() {
    let text = std::fs::read_to_string(rollout("09-00-00", 1)).expect("the sample");
    let id = "019df000-0000-7000-8000-0000000000a1";
    assert!(text.contains(id));
    let temp = tempfile::tempdir().expect("a directory");
    let error = json!({"message": "429 Too Many Requests", "codex_error_info": {"response_too_many_failed_attempts": {}}});
    let line = |payload: serde_json::Value| json!({"timestamp": "2026-05-04T10:00:00.000Z", "type": "event_msg", "payload": payload});
    let started = line(json!({"type": "task_started", "turn_id": "z"}));
    let ended = line(
        json!({"type": "task_complete", "turn_id": "z", "last_agent_message": null, "error": error}),
    );
    let session = format!("{text}{started}\n{ended}\n");
    std::fs::write(temp.path().join(format!("rollout-{id}.jsonl")), session).expect("written");
    let stream = [
        json!({"type": "thread.started", "thread_id": id}),
        json!({"type": "turn.started"}),
        json!({"type": "turn.failed", "error": {"message": "429 Too Many Requests"}}),
    ];
    let stream = stream.map(|line| format!("{line}\n")).concat();
    std::fs::write(temp.path().join("stdout.jsonl"), stream).expect("written");
    let said = board(&["list", &temp.path().display().to_string(), "--json"]);
    assert_eq!(said.code, 0, "{}", said.stderr);
    let list: serde_json::Value = serde_json::from_str(&said.stdout).expect("JSON");
    let run = list["runs"]
        .as_array()
        .expect("runs")
        .iter()
        .find(|run| run["format"] == "Codex session");
    let run = run.expect("the session");
    assert_eq!(run["contradictions"], 0, "{run}");
    let verdict = run["verdict"].as_str().expect("words");
    assert!(
        verdict.contains("a later turn has no steps: API error: 429"),
        "{verdict}"
    );
}

#[test]
fn a_later_turn_of_the_user_decides_the_end_even_without_steps() {
    let text = std::fs::read_to_string(rollout("09-00-00", 1)).expect("the sample");
    let temp = tempfile::tempdir().expect("a directory");
    let path = temp.path().join("rollout-a.jsonl");
    let line = |n: u32, kind: &str, payload: serde_json::Value| json!({"timestamp": format!("2026-05-04T10:00:0{n}.000Z"), "type": kind, "payload": payload});
    let started = |trigger: &str| {
        let attribution = json!({"turn_trigger": trigger});
        line(
            0,
            "event_msg",
            json!({"type": "task_started", "turn_id": "z", "turn_attribution": attribution}),
        )
    };
    let prompt = line(
        1,
        "event_msg",
        json!({"type": "user_message", "message": "And now?"}),
    );
    let stopped = line(
        2,
        "event_msg",
        json!({"type": "turn_aborted", "reason": "interrupted"}),
    );
    let error = json!({"message": "429 Too Many Requests", "codex_error_info": {"response_too_many_failed_attempts": {}}});
    let failed = line(
        2,
        "event_msg",
        json!({"type": "task_complete", "turn_id": "z", "last_agent_message": null, "error": error}),
    );
    let end = |lines: &[&serde_json::Value]| {
        let more: String = lines.iter().map(|line| format!("{line}\n")).collect();
        std::fs::write(&path, format!("{text}{more}")).expect("written");
        let row = read(&path).row;
        let is_answered = row.answer.is_some();
        (row.verdict.outcome.as_str().to_owned(), is_answered)
    };
    let answered = ("completed".to_owned(), true);
    assert_eq!(end(&[]), answered);
    let exec = started("exec");
    assert_eq!(
        end(&[&exec, &prompt, &stopped]),
        ("cancelled".to_owned(), false)
    );
    assert_eq!(
        end(&[&exec, &prompt, &failed]),
        ("failed".to_owned(), false)
    );
    // The output of the first turn doesn't contradict that.
    let id = "019df000-0000-7000-8000-0000000000a1";
    let stream = [
        json!({"type": "thread.started", "thread_id": id}),
        json!({"type": "turn.started"}),
        json!({"type": "item.completed", "item": {"id": "i", "type": "agent_message", "text": "Done."}}),
        json!({"type": "turn.completed", "usage": {"input_tokens": 9, "cached_input_tokens": 0, "output_tokens": 1}}),
    ];
    let output = temp.path().join("stdout.jsonl");
    std::fs::write(&output, stream.map(|line| format!("{line}\n")).concat()).expect("written");
    let said = board(&["list", &temp.path().display().to_string(), "--json"]);
    std::fs::remove_file(&output).expect("removed");
    let list: serde_json::Value = serde_json::from_str(&said.stdout).expect("JSON");
    let runs = list["runs"].as_array().expect("runs");
    let run = runs.iter().find(|run| run["format"] == "Codex session");
    let run = run.expect("the session");
    assert_eq!(
        (&run["outcome"], &run["certainty"], &run["contradictions"]),
        (&"failed".into(), &"recorded".into(), &0.into()),
        "{run}"
    );
    // Nobody prompted these turns.
    assert_eq!(end(&[&exec, &stopped]), answered);
    assert_eq!(end(&[&started("goal"), &prompt, &stopped]), answered);
}

#[test]
fn the_branch_the_effort_and_the_command_that_resumes_are_told() {
    let text = std::fs::read_to_string(rollout("09-00-00", 1)).expect("the sample");
    let git = r#""git":{"branch":"split","commit_hash":"0123456789abcdef"},"cli_version""#;
    let effort = r#""model":"gpt-5.5","effort":"high"}"#;
    let told =
        text.replacen("\"cli_version\"", git, 1)
            .replacen("\"model\":\"gpt-5.5\"}", effort, 1);
    let temp = tempfile::tempdir().expect("a directory");
    let path = temp.path().join("rollout-a.jsonl");
    std::fs::write(&path, told).expect("written");
    let board = Board::serve(temp.path());
    board.until_read();
    let run = board.json("/api/runs/rollout-a.jsonl");
    assert_eq!(
        (&run["branches"], &run["commit"], &run["efforts"]),
        (
            &json!(["split"]),
            &json!("0123456789abcdef"),
            &json!(["high"])
        )
    );
    let command = "codex resume 019df000-0000-7000-8000-0000000000a1";
    assert_eq!(run["resume"], command);
    let page = board.get("/runs/rollout-a.jsonl");
    for said in ["split at 0123456", command] {
        assert!(page.text().contains(said), "{said}");
    }
    // A sub-agent can't be continued alone.
    let child = read(&rollout("09-00-03", 2));
    let child = child.index.manifest().get().expect("a manifest");
    assert_eq!((child.resume(), &*child.efforts), (None, [].as_slice()));
}

#[test]
fn each_reply_has_the_model_of_its_turn() {
    let text = std::fs::read_to_string(rollout("09-00-00", 1)).expect("the sample");
    let context = text
        .lines()
        .find(|line| line.contains("\"turn_context\""))
        .expect("a turn");
    let lines: Vec<&str> = text.lines().collect();
    let last_call = lines.iter().rposition(|line| line.contains("_call\""));
    let (before, after) = lines.split_at(last_call.expect("a call"));
    let other = context
        .replace("gpt-5.5", "gpt-5.4")
        .replace("2026-05-04T09:00:00", "2026-05-04T09:00:09");
    let temp = tempfile::tempdir().expect("a directory");
    let path = temp.path().join("rollout-a.jsonl");
    let all = [before, &[&*other], after].concat().join("\n");
    std::fs::write(&path, all + "\n").expect("written");
    let run = read(&path);
    assert_eq!(run.row.models, ["gpt-5.4", "gpt-5.5"]);
    assert_eq!(run.step(0)["model"], "gpt-5.5");
    let newest = run.index.steps().len() - 1;
    assert_eq!(run.step(newest)["model"], "gpt-5.4");
}

#[test]
fn a_prompt_after_the_record_of_the_model_comes_before_the_first_step() {
    let text = std::fs::read_to_string(rollout("09-00-00", 1)).expect("the sample");
    let is_context = |line: &&str| line.contains("\"turn_context\"");
    let (context, others): (Vec<&str>, Vec<&str>) = text.lines().partition(is_context);
    let (first, rest) = others.split_at(1);
    let temp = tempfile::tempdir().expect("a directory");
    let path = temp.path().join("rollout-a.jsonl");
    let all = [first, &context, rest].concat().join("\n");
    std::fs::write(&path, all + "\n").expect("written");
    let said = board(&["show", &path.display().to_string()]).stdout;
    // The record of the model belongs to each step, but no step begins there.
    let (before, _) = said.split_once("\n  0  ").expect("step 0");
    assert!(before.contains("> Splitting 100 by 3"), "{said}");
}

#[test]
fn output_with_more_steps_than_the_session_has_replies_is_its_copy() {
    let text = std::fs::read_to_string(rollout("09-00-00", 1)).expect("the sample");
    let id = "019df000-0000-7000-8000-0000000000a1";
    let temp = tempfile::tempdir().expect("a directory");
    std::fs::write(temp.path().join(format!("rollout-{id}.jsonl")), text).expect("written");
    let item = |n: usize| json!({"type": "item.completed", "item": {"id": format!("i{n}"), "type": "command_execution", "command": "ls", "aggregated_output": "", "exit_code": 0, "status": "completed"}});
    let start = [
        json!({"type": "thread.started", "thread_id": id}),
        json!({"type": "turn.started"}),
    ];
    let stream: String = start
        .into_iter()
        .chain((0..9).map(item))
        .map(|line| format!("{line}\n"))
        .collect();
    std::fs::write(temp.path().join("stdout.jsonl"), stream).expect("written");
    let said = board(&["list", &temp.path().display().to_string(), "--json"]);
    let list: serde_json::Value = serde_json::from_str(&said.stdout).expect("JSON");
    let counted: Vec<_> = list["runs"]
        .as_array()
        .expect("runs")
        .iter()
        .filter(|run| run["duplicate_of"].is_null())
        .collect();
    assert_eq!(counted.len(), 1, "{list}");
    assert_eq!(counted[0]["format"], "Codex session");
}

#[test]
fn a_cut_session_ends_unknown_in_its_call() {
    let run = read(&rollout("11-00-00", 4));
    assert_eq!(
        (run.row.verdict.mark.word(), run.row.steps, run.row.issues.1),
        ("unknown", 1, 1)
    );
}

#[test]
fn a_damaged_session_loses_only_what_is_damaged() {
    damaged(&rollout("11-00-00", 4));
}

#[test]
fn real_sessions_agree_with_what_is_known_of_them() {
    let is_session = |file: &str| file.starts_with("sessions/") && file.ends_with(".jsonl");
    let known = &[(
        "goal-budget",
        "failed calls of the run",
        0,
        "another call's output doesn't record its outcome",
    )];
    compare("codex", is_session, &super::truth::FIELDS, known);
}

#[test]
fn a_call_that_is_done_closes_a_reply_in_a_stream() {
    let run = read(&sample("tools/codex-exec/answered.jsonl"));
    let row = &run.row;
    assert_eq!(
        (row.steps, row.errors, row.events, row.tokens),
        (6, 1, 15, Some(28_643))
    );
    assert_eq!(
        row.tools,
        [
            "todo_list",
            "command_execution",
            "file_change",
            "docs.search"
        ]
    );
    assert_eq!(row.changed, ["todos", "files./home/me/ledger/split.py"]);
    assert_eq!(
        (&*row.verdict.sentence, row.verdict.certainty.as_str()),
        ("Answered at step 5", "recorded")
    );
    assert_eq!(row.answer.as_deref(), Some("`split` spreads the rest now."));
    assert_eq!(run.step(1)["action_results"][0]["error"], "99 != 100\n");
    let limit = read(&sample("tools/codex-exec/output-limit.jsonl"));
    assert!(
        limit
            .row
            .verdict
            .sentence
            .starts_with("Reply token limit reached in step 0")
    );
    let cut = read(&sample("tools/codex-exec/cut.jsonl"));
    assert_eq!(
        (cut.row.verdict.mark.word(), cut.row.steps, cut.row.tokens),
        ("unknown", 1, None)
    );
    damaged(&sample("tools/codex-exec/cut.jsonl"));
}

#[test]
fn real_streams_agree_with_what_is_known_of_them() {
    let (unsaid, lost) = (
        "no call outside the program",
        "a turn that failed has no tokens",
    );
    let known = &[
        (
            "big-output",
            "replies",
            2,
            "a patch that doesn't apply isn't an item",
        ),
        (
            "big-output",
            "calls",
            1,
            "a patch that doesn't apply isn't an item",
        ),
        (
            "big-output",
            "failed calls",
            0,
            "a patch that doesn't apply isn't an item",
        ),
        ("compaction", "replies", 4, "the summary is not printed"),
        ("context-exceeded", "tokens of the run", 0, lost),
        (
            "finishes-code-mode",
            "replies",
            6,
            "a script's commands are separate items",
        ),
        (
            "finishes-code-mode",
            "calls",
            5,
            "a script's commands are separate items",
        ),
        ("goal-budget", "replies", 3, unsaid),
        ("goal-budget", "calls", 2, unsaid),
        ("max-output-tokens", "tokens of the run", 0, lost),
        ("server-error-500", "tokens of the run", 0, lost),
        (
            "sigint-in-tool",
            "stopped calls",
            0,
            "the stream just stops",
        ),
        (
            "sigint-in-tool",
            "calls without an answer",
            1,
            "the stream just stops",
        ),
        (
            "sigint-in-tool",
            "tokens of the run",
            0,
            "the stream just stops",
        ),
        (
            "sigkill-in-tool",
            "tokens of the run",
            0,
            "the stream just stops",
        ),
        ("subagent", "replies", 2, unsaid),
        ("subagent", "calls", 1, unsaid),
        (
            "subagent",
            "tokens of the run",
            39_459,
            "sub-agents are not counted",
        ),
    ];
    let fields = [
        "replies",
        "calls",
        "failed calls",
        "stopped calls",
        "calls without an answer",
        "tokens of the run",
    ];
    compare("codex", |file| file == "exec.jsonl", &fields, known);
    compare(
        "codex",
        |file| file == "exec.jsonl",
        &["calls of the run", "failed calls of the run"],
        known,
    );
}
