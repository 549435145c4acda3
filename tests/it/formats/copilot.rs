//! Tests sessions and streams of GitHub Copilot CLI.

use serde_json::{Value, json};

use super::truth::{FIELDS, compare, files, sessions};
use super::{Read, damaged, read, sample};
use crate::cli::board;

fn session(n: u8) -> std::path::PathBuf {
    sample(&format!(
        "tools/copilot/7c1d2e3f-0000-4000-8000-0000000000f{n}/events.jsonl"
    ))
}

#[test]
fn a_session_is_read_by_its_lines() {
    let run = read(&session(1));
    let row = &run.row;
    assert_eq!(
        (row.steps, row.steps_nested, row.errors, row.issues),
        (6, 2, 1, (0, 0))
    );
    // 3,060, 3,340, 1,020, 1,230, 3,690, 3,810; the program's own total is the same.
    assert_eq!((row.tokens, row.usage.cached), (Some(16_150), Some(10_900)));
    assert_eq!((row.tool_calls, row.tool_errors), (Some(5), Some(1)));
    assert_eq!(row.tools, ["view", "bash", "task", "edit"]);
    assert_eq!(row.changed, ["files.split.py"]);
    assert_eq!(row.cost_usd, Some(0.02));
    assert_eq!(
        (&*row.verdict.sentence, row.verdict.certainty.as_str()),
        ("Answered at step 5", "recorded")
    );
    let manifest = run.index.manifest().get().expect("a manifest");
    assert_eq!((manifest.turns, manifest.children), (Some(1), Some(1)));
    assert_eq!(
        (manifest.tool.as_deref(), manifest.project.as_deref()),
        (Some("Copilot CLI 1.0.102"), Some("/home/me/ledger"))
    );
    assert!(!manifest.awaits_user, "the program exited");
    assert_eq!(
        row.task.as_deref(),
        Some("Splitting 100 by 3 loses a cent.")
    );
    // The results are in the order in which the calls ended.
    let results = &run.step(0)["action_results"];
    assert_eq!(
        (&results[0]["status"], &results[1]["status"]),
        (&"success".into(), &"error".into())
    );
    assert_eq!(results[1]["returncode"], 1);
    // From the start of a call to its end.
    assert_eq!(results[0]["metadata"]["latency_ms"], 410.0);
    assert_eq!(run.step(2)["agent_id"], "checker");
    let edit = &run.step(4)["state_diff"]["files.split.py"];
    let diff = edit["diff"].as_str().expect("a diff");
    assert!(diff.starts_with("@@ -1,2 +1,3 @@"), "{diff}");
}

#[test]
fn a_reply_whose_message_was_dropped_is_a_step() {
    let run = read(&session(2));
    let row = &run.row;
    // 2,064, 2,018, 2,130.
    assert_eq!((row.steps, row.tokens), (3, Some(6_212)));
    assert!(
        row.verdict
            .sentence
            .starts_with("Cancelled by the user in step 2 "),
        "{}",
        row.verdict.sentence
    );
    let calls = run.step(2);
    assert_eq!(calls["action_results"].as_array().map(Vec::len), Some(0));
}

#[test]
fn an_error_before_the_exit_is_the_end() {
    let row = read(&session(3)).row;
    assert!(
        row.verdict
            .sentence
            .starts_with("API error after step 0: Failed to get response"),
        "{}",
        row.verdict.sentence
    );
    assert_eq!(row.verdict.certainty.as_str(), "recorded");
    assert_eq!((row.tool_calls, row.tool_errors), (Some(1), Some(1)));
}

#[test]
fn a_request_that_is_no_reply_is_no_step() {
    let text = std::fs::read_to_string(session(1)).expect("the sample");
    let request = r#"{"type":"session.usage_record","data":{"usage":{"model":"gpt-5.1","inputTokens":70,"outputTokens":7,"apiCallId":"s1","interactionType":"summary"}},"id":"f1-x","timestamp":"2026-05-04T09:00:30.000Z","parentId":"f1-001"}"#;
    let (before, end) = text
        .split_once("{\"type\":\"session.shutdown\"")
        .expect("an exit");
    let temp = tempfile::tempdir().expect("a directory");
    let path = temp.path().join("events.jsonl");
    let text = format!("{before}{request}\n{{\"type\":\"session.shutdown\"{end}");
    std::fs::write(&path, text).expect("written");
    let run = read(&path);
    assert_eq!((run.row.steps, run.row.tokens), (6, Some(16_150)));
    let manifest = run.index.manifest().get().expect("a manifest");
    assert_eq!(
        manifest.notes,
        ["77 more tokens went to requests outside the steps.".into()]
    );
}

#[test]
fn a_message_that_the_program_wrote_is_no_reply() {
    let path = session(1);
    let (before, text) = (read(&path), std::fs::read_to_string(&path).expect("a file"));
    let own = r#"{"type":"assistant.message","data":{"messageId":"own","content":"","toolRequests":[{"toolCallId":"own_call","name":"read_bash","arguments":{"shellId":"0","delay":0}}]},"id":"own-1","timestamp":"NOW"}
{"type":"tool.execution_start","data":{"toolCallId":"own_call","toolName":"read_bash","arguments":{"shellId":"0","delay":0}},"id":"own-2","timestamp":"NOW"}
{"type":"tool.execution_complete","data":{"toolCallId":"own_call","success":true,"result":{"content":"done"}},"id":"own-3","timestamp":"NOW"}
"#;
    let shutdown = text
        .rfind(r#"{"type":"session.shutdown""#)
        .expect("an exit");
    let temp = tempfile::tempdir().expect("a directory");
    let with = temp.path().join("events.jsonl");
    let (head, tail) = text.split_at(shutdown);
    let (_, now) = tail.split_once(r#""timestamp":""#).expect("a time");
    let own = own.replace("NOW", &now[..24]);
    std::fs::write(&with, format!("{head}{own}{tail}")).expect("written");
    let after = read(&with);
    let facts = |run: &Read| {
        (
            run.row.steps,
            run.row.tool_calls,
            run.row.tokens,
            run.row.issues,
        )
    };
    assert_eq!(facts(&after), facts(&before));
    assert_eq!(after.row.verdict.sentence, before.row.verdict.sentence);
}

#[test]
fn a_call_that_was_killed_is_no_failed_one() {
    let text = std::fs::read_to_string(session(3)).expect("a file");
    let killed = r#""success":false,"error":{"message":"Tool execution was interrupted before a result was recorded.","code":"interrupted"}"#;
    let temp = tempfile::tempdir().expect("a directory");
    let path = temp.path().join("events.jsonl");
    let lines: Vec<String> = text
        .lines()
        .map(|line| match line.split_once(r#""success":"#) {
            Some((head, _)) if line.contains("tool.execution_complete") => {
                let end = line.rfind(r#","id":"#).unwrap_or(line.len());
                format!("{head}{killed}}}{}", &line[end..])
            }
            _ => line.to_owned(),
        })
        .collect();
    assert!(lines.iter().any(|line| line.contains("interrupted")));
    std::fs::write(&path, lines.join("\n") + "\n").expect("written");
    let run = read(&path);
    assert_eq!((run.row.tool_errors, run.row.issues), (Some(0), (0, 0)));
}

#[test]
fn a_call_that_a_rule_denies_has_failed() {
    let first = std::fs::read_to_string(session(1)).expect("the sample");
    let first = first.lines().next().expect("a line");
    let made = |code: &str| {
        let lines = [
            serde_json::json!({"type": "assistant.message", "data": {"messageId": "m", "model": "gpt-5.1", "content": "",
                "toolRequests": [{"toolCallId": "c", "name": "bash", "arguments": {"command": "rm x"}}],
                "apiCallId": "r"}, "id": "e1", "timestamp": "2026-05-04T09:00:01.000Z"}),
            serde_json::json!({"type": "tool.execution_complete", "data": {"toolCallId": "c", "success": false,
                "error": {"message": "Permission to run this tool was denied due to the following rules: `shell(rm)`",
                    "code": code}},
                "id": "e2", "timestamp": "2026-05-04T09:00:02.000Z"}),
        ];
        let temp = tempfile::tempdir().expect("a directory");
        let path = temp.path().join("events.jsonl");
        std::fs::write(&path, format!("{first}\n{}\n{}\n", lines[0], lines[1])).expect("written");
        let run = read(&path);
        (temp, run)
    };
    let (_temp, denied) = made("denied");
    assert_eq!(
        (denied.row.tool_calls, denied.row.tool_errors),
        (Some(1), Some(1))
    );
    assert_eq!(denied.step(0)["action_results"][0]["status"], "error");
    let (_temp, rejected) = made("rejected");
    assert_eq!(rejected.row.tool_errors, Some(0));
    assert_eq!(rejected.step(0)["action_results"][0]["status"], "cancelled");
}

/// The records of sub-agents that run at once are between each other.
#[test]
fn replies_that_come_while_another_one_is_written_begin_no_step_again() {
    let at = |n: usize| format!("2026-05-04T09:00:{n:02}.000Z");
    let line = |n: usize, kind: &str, agent: Option<&str>, data: &Value| {
        let mut line = json!({"type": kind, "data": data, "id": format!("r{n}"), "timestamp": at(n), "parentId": null});
        if let Some(agent) = agent {
            line["agentId"] = json!(agent);
        }
        line
    };
    let spent = |id: &str| {
        json!({"usage": {"model": "gpt-5", "inputTokens": 100, "outputTokens": 10, "apiCallId": id,
            "interactionType": "conversation-agent", "finishReason": "tool_calls"}})
    };
    let says = |id: &str, calls: &[&str]| {
        let calls = calls
            .iter()
            .map(|call| json!({"toolCallId": call, "name": "bash", "arguments": {}}));
        json!({"content": "", "apiCallId": id, "model": "gpt-5", "turnId": "0", "toolRequests": calls.collect::<Vec<_>>()})
    };
    let ends = |call: &str, exit: i64| json!({"toolCallId": call, "success": true, "result": {"content": "x"}, "shellExecution": {"exitCode": exit}});
    let lines = [
        (
            "session.start",
            None,
            json!({"sessionId": "s", "context": {"cwd": "/p"}}),
        ),
        ("user.message", None, json!({"content": "Ask two helpers."})),
        ("session.usage_record", None, spent("m1")),
        ("assistant.message", None, says("m1", &["t1", "t2"])),
        ("session.usage_record", Some("a"), spent("a1")),
        ("session.usage_record", Some("b"), spent("b1")),
        ("assistant.message", Some("a"), says("a1", &["c1"])),
        ("assistant.message", Some("b"), says("b1", &["c2"])),
        ("tool.execution_complete", Some("b"), ends("c2", 5)),
        ("tool.execution_complete", Some("a"), ends("c1", 0)),
        ("tool.execution_complete", None, ends("t1", 0)),
        ("tool.execution_complete", None, ends("t2", 0)),
    ];
    let lines = lines.iter().enumerate();
    let text: String = lines
        .map(|(n, &(kind, agent, ref data))| format!("{}\n", line(n, kind, agent, data)))
        .collect();
    let temp = tempfile::tempdir().expect("a directory");
    let path = temp.path().join("events.jsonl");
    std::fs::write(&path, text).expect("written");
    let row = read(&path).row;
    assert_eq!((row.steps, row.steps_nested, row.issues), (3, 2, (0, 0)));
    assert_eq!((row.tool_calls, row.tool_errors), (Some(4), Some(1)));
}

#[test]
fn a_request_for_permission_names_its_call_and_ends_when_the_program_starts_again() {
    let start = json!({"sessionId": "s", "context": {"cwd": "/p"}});
    let calls = [("a", "view"), ("b", "bash")];
    let calls = calls.map(|(id, name)| json!({"toolCallId": id, "name": name, "arguments": {}}));
    let mut records = vec![
        ("session.start", start.clone()),
        ("user.message", json!({"content": "Clean up."})),
        (
            "assistant.message",
            json!({"content": "", "apiCallId": "m", "model": "gpt-5", "toolRequests": calls}),
        ),
        (
            "permission.requested",
            json!({"requestId": "1", "permissionRequest": {"kind": "shell", "toolCallId": "b"}}),
        ),
    ];
    let asks = |records: &[(&str, Value)]| {
        let lines = records.iter().enumerate().map(|(n, (kind, data))| {
            let line = json!({"type": kind, "data": data, "id": format!("r{n}"), "parentId": null,
                "timestamp": format!("2026-05-04T09:00:{n:02}.000Z")});
            format!("{line}\n")
        });
        let temp = tempfile::tempdir().expect("a directory");
        let path = temp.path().join("events.jsonl");
        std::fs::write(&path, lines.collect::<String>()).expect("written");
        let run = read(&path);
        let manifest = run.index.manifest().get().expect("a manifest");
        manifest.asks_user.as_deref().map(str::to_owned)
    };
    let bash = Some("the request for permission to use bash".to_owned());
    assert_eq!(asks(&records), bash);
    let mut answered = records.clone();
    answered.push(("permission.completed", json!({"requestId": "1"})));
    assert_eq!(asks(&answered), None);
    // The program was killed. The next reply's call needs no permission.
    let next = json!([{"toolCallId": "c", "name": "view", "arguments": {}}]);
    records.extend([
        ("session.resume", start),
        ("user.message", json!({"content": "Go on."})),
        (
            "assistant.message",
            json!({"content": "", "apiCallId": "n", "model": "gpt-5", "toolRequests": next}),
        ),
    ]);
    assert_eq!(asks(&records), None);
}

#[test]
fn a_stream_records_no_tokens() {
    let row = read(&sample("tools/copilot-stream/answered.jsonl")).row;
    assert_eq!((row.steps, row.tokens, row.issues), (2, None, (0, 0)));
    assert_eq!(
        (&*row.verdict.sentence, row.verdict.certainty.as_str()),
        (
            "Finished at step 1 (inferred: the last reply made no tool calls)",
            "inferred"
        ),
        "a stream doesn't record whether a filter ended the reply"
    );
    assert_eq!(
        row.run_id.as_deref(),
        Some("7c1d2e3f-0000-4000-8000-0000000000f4")
    );
    // The program dropped a reply, so the last one may be incomplete too.
    let cut = read(&sample("tools/copilot-stream/cut.jsonl")).row;
    assert_eq!((cut.steps, cut.model_calls), (1, None));
    assert_eq!(cut.verdict.outcome.as_str(), "unknown");
}

#[test]
fn an_end_that_output_only_suggests_does_not_contradict_the_session() {
    let id = "7c1d2e3f-0000-4000-8000-0000000000f9";
    let line = |n: usize, kind: &str, data: Value| {
        let time = format!("2026-05-04T09:00:0{n}.000Z");
        let line = json!({"type": kind, "data": data, "id": format!("e{n}"), "timestamp": time, "parentId": n.checked_sub(1).map(|n| format!("e{n}"))});
        format!("{line}\n")
    };
    let prompt = line(1, "user.message", json!({"content": "Go."}));
    let begun = line(2, "assistant.turn_start", json!({"turnId": "0"}));
    let used = line(
        3,
        "session.usage_record",
        json!({"usage": {"model": "gpt-5", "inputTokens": 100, "outputTokens": 10, "apiCallId": "r", "finishReason": "content_filter"}}),
    );
    let reply = line(
        4,
        "assistant.message",
        json!({"messageId": "m", "model": "gpt-5", "content": "I can't", "apiCallId": "r", "toolRequests": []}),
    );
    let over = line(5, "assistant.turn_end", json!({"turnId": "0"}));
    let start = line(
        0,
        "session.start",
        json!({"sessionId": id, "version": 1, "copilotVersion": "1.0.102", "startTime": "2026-05-04T09:00:00.000Z", "selectedModel": "gpt-5"}),
    );
    let result = json!({"type": "result", "timestamp": "2026-05-04T09:00:06.000Z", "sessionId": id, "exitCode": 0});
    let temp = tempfile::tempdir().expect("a directory");
    let dir = temp.path().join(id);
    std::fs::create_dir(&dir).expect("created");
    let session = [&*start, &prompt, &begun, &used, &reply, &over].concat();
    std::fs::write(dir.join("events.jsonl"), session).expect("written");
    let output = [&*prompt, &begun, &reply, &over, &format!("{result}\n")].concat();
    std::fs::write(temp.path().join("stdout.jsonl"), output).expect("written");
    let said = board(&["list", &temp.path().display().to_string(), "--json"]);
    assert_eq!(said.code, 0, "{}", said.stderr);
    let list: Value = serde_json::from_str(&said.stdout).expect("JSON");
    let run = &list["runs"][0];
    assert_eq!(
        (&list["runs"][1], &run["outcome"]),
        (&Value::Null, &"failed".into())
    );
    let copy = run["copies_say"][0].as_str().expect("words");
    assert!(
        copy.starts_with("stdout.jsonl suggests: Finished"),
        "{copy}"
    );
    assert_eq!(run["contradictions"], 0, "{run}");
}

#[test]
fn a_damaged_session_loses_only_what_is_damaged() {
    (1..=3).for_each(|n| damaged(&session(n)));
    damaged(&sample("tools/copilot-stream/answered.jsonl"));
}

/// A call that was running when the program was interrupted has no result.
const KNOWN: [(&str, &str, u64, &str); 1] =
    [("sigint-in-tool", "stopped calls", 0, "not recorded")];

#[test]
fn real_sessions_agree_with_what_is_known_of_them() {
    let is_session = |file: &str| file.ends_with("events.jsonl");
    compare("copilot", is_session, &FIELDS, &KNOWN);
}

#[test]
fn real_streams_agree_with_their_sessions() {
    for dir in sessions("copilot") {
        let read_one = |wanted: fn(&str) -> bool| {
            let file = files(&dir, wanted).into_iter().next()?;
            Some(read(&file))
        };
        let printed = read_one(|file| file == "stream.jsonl");
        let kept = read_one(|file| file.ends_with("events.jsonl")).expect("its session");
        let Some(printed) = printed.filter(|run| run.row.run_id.is_some()) else {
            continue;
        };
        assert_eq!(printed.row.run_id, kept.row.run_id);
        // The output lacks dropped replies.
        let is_cut = dir.ends_with("max-tokens");
        let of = |run: &Read| {
            let row = &run.row;
            // The output doesn't name the agent's working directory.
            let calls = (row.tool_calls, row.tool_errors, row.changed.len());
            let end = (row.steps, row.verdict.outcome);
            (calls, Some(end).filter(|_| !is_cut))
        };
        assert_eq!(of(&printed), of(&kept), "{}", dir.display());
    }
}
