//! Runs that belong together: copies, captured streams, and runs that other runs started.

use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use super::{assert_says, board, board_json};
use crate::board::{BINARY, Board};
use crate::wait::until;

const ID: &str = "5f0c7a52-6d0e-4a53-9b0c-0f6f2b3f1a01";
const THREAD: &str = "01a203e6-1faf-7593-925a-52ce4af41bae";
const CHILD: &str = "01a203e6-2faf-7593-925a-52ce4af41bae";

fn write(dir: &Path, name: &str, lines: &[Value]) {
    let path = dir.join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(
        path,
        lines
            .iter()
            .map(|line| format!("{line}\n"))
            .collect::<String>(),
    )
    .unwrap();
}

fn list(dir: &Path) -> Value {
    board_json(&["list", dir.to_str().unwrap()])
}

/// The rows of a list by key, each with a field.
fn field(list: &Value, field: &str) -> Vec<(String, Value)> {
    let row = |row: &Value| (row["key"].as_str().unwrap().to_owned(), row[field].clone());
    let mut rows: Vec<_> = list["runs"].as_array().unwrap().iter().map(row).collect();
    rows.sort_by(|(a, _), (b, _)| a.cmp(b));
    rows
}

fn sum(list: &Value, name: &str) -> i64 {
    field(list, name)
        .iter()
        .map(|(_, value)| value.as_i64().unwrap_or_default())
        .sum()
}

fn at(second: u32) -> String {
    format!("2026-05-04T09:00:{second:02}.000Z")
}

/// A line of a session of Claude Code, or of one of its agents.
fn line(n: u32, agent: Option<&str>, more: &Value) -> Value {
    let mut line = json!({"sessionId": ID, "timestamp": at(n), "uuid": format!("u{n}{agent:?}"), "parentUuid": null,
        "isSidechain": agent.is_some(), "cwd": "/p", "version": "2.1.330"});
    line.as_object_mut()
        .unwrap()
        .extend(more.as_object().unwrap().clone());
    agent
        .into_iter()
        .for_each(|agent| line["agentId"] = agent.into());
    line
}

fn message(id: &str, finish: &str, content: &Value, usage: (u64, u64)) -> Value {
    json!({"id": id, "model": "model-a", "role": "assistant", "stop_reason": finish, "content": content,
        "usage": {"input_tokens": usage.0, "output_tokens": usage.1}})
}

fn says(text: &str) -> Value {
    json!([{"type": "text", "text": text}])
}

fn calls(id: &str, name: &str) -> Value {
    json!([{"type": "tool_use", "id": id, "name": name, "input": {}}])
}

fn gives(call: &str) -> Value {
    json!({"role": "user", "content": [{"type": "tool_result", "tool_use_id": call, "content": "ok"}]})
}

/// The file of an agent with two steps, which took 30 + 3 tokens.
fn agent(id: &str, from: u32) -> Vec<Value> {
    let user =
        |content: Value| json!({"type": "user", "message": {"role": "user", "content": content}});
    let reply = |message: Value| json!({"type": "assistant", "message": message});
    vec![
        line(from, Some(id), &user("Look.".into())),
        line(
            from + 1,
            Some(id),
            &reply(message(
                &format!("m1{id}"),
                "tool_use",
                &calls(&format!("c{id}"), "Read"),
                (10, 1),
            )),
        ),
        line(
            from + 2,
            Some(id),
            &json!({"type": "user", "message": gives(&format!("c{id}"))}),
        ),
        line(
            from + 3,
            Some(id),
            &reply(message(
                &format!("m2{id}"),
                "end_turn",
                &says("Seen."),
                (20, 2),
            )),
        ),
    ]
}

/// A stream of Claude Code whose run asks an agent. The program took 100 + 10 tokens and the agent 30 + 3.
fn stream_with_agent() -> Vec<Value> {
    let line = |n: u32, more: Value| {
        let mut line = json!({"session_id": ID, "uuid": format!("s{n}"), "timestamp": at(n), "parent_tool_use_id": null});
        line.as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        line
    };
    let nested = json!({"type": "assistant", "parent_tool_use_id": "c1", "agent_id": "a1",
        "message": message("m1a1", "tool_use", &calls("ca1", "Read"), (10, 1))});
    vec![
        line(
            0,
            json!({"type": "system", "subtype": "init", "model": "model-a", "cwd": "/p", "claude_code_version": "2.1"}),
        ),
        line(
            1,
            json!({"type": "user", "message": {"role": "user", "content": "Go."}}),
        ),
        line(
            2,
            json!({"type": "assistant", "message": message("m1", "tool_use", &calls("c1", "Task"), (40, 5))}),
        ),
        line(4, nested),
        line(
            5,
            json!({"type": "user", "parent_tool_use_id": "c1", "agent_id": "a1", "message": gives("ca1")}),
        ),
        line(8, json!({"type": "user", "message": gives("c1")})),
        line(
            9,
            json!({"type": "assistant", "message": message("m2", "end_turn", &says("Done."), (60, 5))}),
        ),
        line(
            10,
            json!({"type": "result", "subtype": "success", "is_error": false, "result": "Done.",
            "total_cost_usd": 0.5, "usage": {"input_tokens": 100, "output_tokens": 10},
            "modelUsage": {"model-a": {"inputTokens": 130, "outputTokens": 13, "costUSD": 0.5}}}),
        ),
    ]
}

#[test]
fn what_an_agent_took_counts_once_where_the_captured_stream_counts() {
    let temp = tempfile::tempdir().unwrap();
    write(temp.path(), "stream.jsonl", &stream_with_agent());
    let alone = list(temp.path());
    assert_eq!(
        (
            sum(&alone, "tokens"),
            sum(&alone, "steps"),
            sum(&alone, "tool_calls")
        ),
        (143, 3, 2)
    );
    write(
        temp.path(),
        &format!("projects/p/{ID}/subagents/agent-a1.jsonl"),
        &agent("a1", 3),
    );
    let both = list(temp.path());
    assert_eq!(
        (
            sum(&both, "tokens"),
            sum(&both, "steps"),
            sum(&both, "tool_calls")
        ),
        (143, 4, 2),
        "{both:#}"
    );
    assert_eq!(field(&both, "tokens").last().unwrap().1, 110);
    assert_eq!(field(&both, "children").last().unwrap().1, 1);
    let groups = board_json(&["list", temp.path().to_str().unwrap(), "--group", "parent"]);
    assert_eq!(groups["groups"][0]["sums"]["tokens"]["sum"], 143);
    let rows = board(&["table", "runs", temp.path().to_str().unwrap()]);
    let rows: Vec<Value> = rows
        .lines()
        .map(|row| serde_json::from_str(row).unwrap())
        .collect();
    assert_eq!(
        rows.iter()
            .map(|row| row["total_tokens"].as_i64().unwrap())
            .sum::<i64>(),
        143
    );
    // An agent without a separate file still counts in the stream.
    let mut other = stream_with_agent();
    other[3]["agent_id"] = "a2".into();
    other[3]["message"] = message("m1a2", "tool_use", &calls("ca2", "Read"), (10, 1));
    other[4]["message"] = gives("ca2");
    other[4]["agent_id"] = "a2".into();
    other.insert(
        5,
        json!({"type": "assistant", "session_id": ID, "uuid": "s55", "parent_tool_use_id": "c1",
        "agent_id": "a1", "message": message("m1a1", "tool_use", &calls("ca1", "Read"), (10, 1))}),
    );
    write(temp.path(), "stream.jsonl", &other);
    let partly = list(temp.path());
    assert_eq!(
        (sum(&partly, "tokens"), sum(&partly, "steps")),
        (143, 5),
        "{partly:#}"
    );
}

/// What `codex exec --json` prints of a thread.
fn exec(text: &str, tokens: u64) -> Vec<Value> {
    let command = |kind: &str, status: &str| {
        json!({"type": kind, "item": {"id": "item_0", "type": "command_execution", "command": format!("ls {text}"),
            "aggregated_output": "", "exit_code": null, "status": status}})
    };
    vec![
        json!({"type": "thread.started", "thread_id": THREAD}),
        json!({"type": "turn.started"}),
        command("item.started", "in_progress"),
        command("item.completed", "completed"),
        json!({"type": "item.completed", "item": {"id": "item_1", "type": "agent_message", "text": text}}),
        json!({"type": "turn.completed", "usage": {"input_tokens": tokens, "cached_input_tokens": 0, "output_tokens": 1}}),
    ]
}

#[test]
fn a_stream_without_times_that_is_stored_twice_counts_once() {
    let temp = tempfile::tempdir().unwrap();
    let stream = exec("one", 100);
    write(temp.path(), "a/exec.jsonl", &stream);
    write(temp.path(), "b/exec.jsonl", &stream);
    let twice = list(temp.path());
    assert_eq!(
        (&twice["total"], &twice["copies"], sum(&twice, "tokens")),
        (&1.into(), &1.into(), 101)
    );
    assert_eq!(twice["runs"][0]["also_at"], json!(["b/exec.jsonl"]));
    // The beginning of one is a copy as well.
    write(temp.path(), "b/exec.jsonl", &stream[..3]);
    assert_eq!(list(temp.path())["total"], 1);
    // A later run of the thread is another run, be it with the same steps.
    for later in [exec("two", 100), exec("one", 250), stream[..2].to_vec()] {
        write(temp.path(), "b/exec.jsonl", &later);
        assert_eq!(list(temp.path())["total"], 2, "{later:?}");
    }
}

#[test]
fn what_a_thread_used_before_it_was_resumed_counts_once() {
    let temp = tempfile::tempdir().unwrap();
    for (name, text, tokens) in [("a", "one", 100), ("b", "two", 250), ("c", "three", 400)] {
        write(
            temp.path(),
            &format!("{name}/exec.jsonl"),
            &exec(text, tokens),
        );
    }
    let tokens = |list: &Value| {
        let runs = list["runs"].as_array().unwrap().iter();
        let mut tokens: Vec<u64> = runs.filter_map(|run| run["tokens"].as_u64()).collect();
        tokens.sort_unstable();
        tokens
    };
    // The total of each stream includes those before it.
    assert_eq!(tokens(&list(temp.path())), [101, 150, 150]);
    let usage = board_json(&["usage", "model", temp.path().to_str().unwrap()]);
    assert_eq!(usage["total"]["tokens"], 401, "{usage:#}");
    // Without them, what they used isn't known.
    fs::remove_dir_all(temp.path().join("a")).unwrap();
    assert_eq!(tokens(&list(temp.path())), [150, 251]);
}

#[test]
fn a_droid_session_that_goes_on_after_a_compaction_counts_only_its_own_tokens() {
    let temp = tempfile::tempdir().unwrap();
    let session = |id: &str, parent: Option<&str>, tokens: u64| {
        let reply = json!({"type": "message", "id": format!("m-{id}"), "timestamp": at(3), "message":
            {"role": "assistant", "content": [{"type": "text", "text": id}], "modelId": "m"}});
        let mut lines = vec![
            json!({"type": "session_start", "id": id, "title": "t", "cwd": "/p", "parent": parent}),
        ];
        if parent.is_some() {
            let summary = json!({"type": "compaction_state", "id": "c", "timestamp": at(1), "summaryText": "S"});
            lines.push(summary);
        }
        lines.extend([
            reply,
            json!({"type": "agent_turn_outcome", "turnId": "t", "reason": "completed"}),
        ]);
        write(temp.path(), &format!("-p/{id}.jsonl"), &lines);
        let counts = json!({"inputTokens": tokens, "outputTokens": 10, "cacheReadTokens": 0,
            "cacheCreationTokens": 0, "thinkingTokens": 4});
        let settings = json!({"model": "m", "tokenUsage": counts});
        write(temp.path(), &format!("-p/{id}.settings.json"), &[settings]);
    };
    session("old", None, 100);
    session("new", Some("old"), 140);
    let list = list(temp.path());
    assert_eq!(sum(&list, "tokens"), 150, "{list:#}");
    assert_says(
        &board(&["list", temp.path().to_str().unwrap()]),
        &["continues -p/old.jsonl (its tokens are counted there)"],
    );
}

/// A session that ends with `end_turn`, and the stream of the same run that records a limit.
fn session_and_stream(dir: &Path, result: &Value) {
    let session = [
        line(
            1,
            None,
            &json!({"type": "user", "message": {"role": "user", "content": "Go."}}),
        ),
        line(
            2,
            None,
            &json!({"type": "assistant", "message": message("m1", "end_turn", &says("Done."), (40, 5))}),
        ),
        line(
            3,
            None,
            &json!({"type": "cost-state", "totalCostUSD": 0.25}),
        ),
    ];
    write(dir, &format!("{ID}.jsonl"), &session);
    let mut result = result.clone();
    result["type"] = "result".into();
    result["session_id"] = ID.into();
    let stream = [
        json!({"type": "system", "subtype": "init", "session_id": ID, "model": "model-a", "uuid": "s0",
            "claude_code_version": "2.1"}),
        json!({"type": "assistant", "session_id": ID, "uuid": "s1", "timestamp": at(2),
            "message": message("m1", "end_turn", &says("Done."), (40, 5))}),
        result,
    ];
    write(dir, "stream.jsonl", &stream);
}

#[test]
fn what_a_copy_says_otherwise_is_in_every_output() {
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path().to_str().unwrap();
    let usage = json!({"model-a": {"inputTokens": 40, "outputTokens": 5}});
    let agrees = json!({"subtype": "success", "is_error": false, "result": "Done.", "total_cost_usd": 0.25,
        "modelUsage": usage});
    session_and_stream(temp.path(), &agrees);
    let row = list(temp.path())["runs"][0].clone();
    assert_eq!(
        (&row["copies_say"], &row["contradictions"]),
        (&json!([]), &0.into()),
        "{row:#}"
    );

    let ended = json!({"subtype": "error_max_turns", "is_error": true, "errors": ["Reached maximum number of turns (1)"],
        "total_cost_usd": 0.25, "modelUsage": usage});
    session_and_stream(temp.path(), &ended);
    let row = list(temp.path())["runs"][0].clone();
    assert!(
        row["copies_say"][0]
            .as_str()
            .unwrap()
            .contains("stream.jsonl records: Turn limit reached"),
        "{row:#}"
    );
    assert_eq!(
        (&row["outcome"], &row["contradictions"]),
        (&"completed".into(), &1.into())
    );
    assert_eq!(
        board_json(&["list", dir, "stop:error_max_turns"])["matched"],
        1
    );
    assert_eq!(
        board_json(&["list", dir, "outcome:truncated"])["matched"],
        1
    );
    assert_says(
        &board(&["list", dir, "--csv"]),
        &["copies_say", "stream.jsonl records: Turn limit reached"],
    );
    assert_says(
        &board(&["table", "runs", dir]),
        &["\"copies_say\":[\"stream.jsonl records: Turn limit reached"],
    );

    let spent = json!({"subtype": "success", "is_error": false, "result": "Done.", "total_cost_usd": 0.5,
        "modelUsage": {"model-a": {"inputTokens": 40, "outputTokens": 9999}}});
    session_and_stream(temp.path(), &spent);
    let row = list(temp.path())["runs"][0].clone();
    let said = json!([
        "stream.jsonl records: 10,039 tokens (here: 45 tokens)",
        "stream.jsonl records: cost $0.5000 (here: $0.2500)",
    ]);
    assert_eq!(
        (&row["copies_say"], &row["contradictions"]),
        (&said, &2.into()),
        "{row:#}"
    );
}

/// A thread of Codex.
fn thread(id: &str, parent: Option<&str>, from: u32) -> Vec<Value> {
    let line = |n: u32, kind: &str, payload: Value| json!({"timestamp": at(from + n), "type": kind, "payload": payload});
    vec![
        line(
            0,
            "session_meta",
            json!({"id": id, "parent_thread_id": parent, "cwd": "/p", "cli_version": "0.169.0"}),
        ),
        line(1, "event_msg", json!({"type": "task_started"})),
        line(
            2,
            "response_item",
            json!({"type": "message", "role": "assistant",
            "content": [{"type": "output_text", "text": id}]}),
        ),
        line(
            3,
            "event_msg",
            json!({"type": "task_complete", "last_agent_message": "Done."}),
        ),
    ]
}

#[test]
fn a_child_that_only_its_own_file_names_counts_as_a_child() {
    let temp = tempfile::tempdir().unwrap();
    write(temp.path(), "rollout-a.jsonl", &thread(THREAD, None, 0));
    assert_eq!(field(&list(temp.path()), "children")[0].1, 0);
    write(
        temp.path(),
        "rollout-b.jsonl",
        &thread(CHILD, Some(THREAD), 10),
    );
    assert_eq!(field(&list(temp.path()), "children")[0].1, 1);
    let table = board(&["table", "runs", temp.path().to_str().unwrap()]);
    let rows: Vec<Value> = table
        .lines()
        .map(|row| serde_json::from_str(row).unwrap())
        .collect();
    let of = |key: &str| {
        rows.iter().find(|row| row["transcript_id"] == key).unwrap()["children"].clone()
    };
    assert_eq!(
        (of("rollout-a.jsonl"), of("rollout-b.jsonl")),
        (1.into(), 0.into())
    );
    // A copy of the child is no second child.
    write(
        temp.path(),
        "archived_sessions/rollout-b.jsonl",
        &thread(CHILD, Some(THREAD), 10),
    );
    assert_eq!(field(&list(temp.path()), "children")[0].1, 1);
}

#[test]
fn an_agent_that_an_agent_started_is_the_child_of_that_agent() {
    let temp = tempfile::tempdir().unwrap();
    let session = [
        line(
            1,
            None,
            &json!({"type": "user", "message": {"role": "user", "content": "Go."}}),
        ),
        line(
            2,
            None,
            &json!({"type": "assistant", "message": message("m1", "tool_use", &calls("c1", "Task"), (40, 5))}),
        ),
        line(
            20,
            None,
            &json!({"type": "user", "message": gives("c1"), "toolUseResult": {"agentId": "a1"}}),
        ),
        line(
            21,
            None,
            &json!({"type": "assistant", "message": message("m2", "end_turn", &says("Done."), (60, 5))}),
        ),
    ];
    let mut first = agent("a1", 3);
    first[2]["toolUseResult"] = json!({"agentId": "a2"});
    write(temp.path(), &format!("{ID}.jsonl"), &session);
    write(
        temp.path(),
        &format!("{ID}/subagents/agent-a1.jsonl"),
        &first,
    );
    write(
        temp.path(),
        &format!("{ID}/subagents/agent-a2.jsonl"),
        &agent("a2", 4),
    );
    let list = list(temp.path());
    let (parents, children) = (field(&list, "parent"), field(&list, "children"));
    let words: Vec<_> = parents.iter().map(|(_, parent)| parent.as_str()).collect();
    assert_eq!(words, [None, Some(ID), Some("a1")], "{list:#}");
    assert_eq!(
        children
            .iter()
            .map(|(_, count)| count.as_i64().unwrap())
            .collect::<Vec<_>>(),
        [1, 1, 0]
    );
}

#[test]
fn duplicates_count_once_in_what_if_sweeps_and_for_coding_agents() {
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path().to_str().unwrap();
    let session = thread(THREAD, None, 0);
    for place in [
        "sessions/rollout-a.jsonl",
        "archived_sessions/rollout-a.jsonl",
    ] {
        write(temp.path(), place, &session);
    }
    for place in ["x/exec.jsonl", "y/exec.jsonl"] {
        let mut stream = exec("one", 100);
        stream[0]["thread_id"] = CHILD.into();
        write(temp.path(), place, &stream);
    }
    let paths = ["x/exec.jsonl", "y/exec.jsonl"].map(|place| format!("{dir}/{place}"));
    let asked = board_json(&["whatif", &paths[0], &paths[1], "--rule", "max_steps=1"]);
    assert_eq!(asked["runs"][1]["duplicate_of"], paths[0], "{asked:#}");

    let served = Board::serve(temp.path());
    served.until_read();
    until("copies are found", || {
        (served.json("/api/runs")["matched"] == 2).then_some(())
    });
    let swept = served.answered("/api/whatif?sweep=max_steps&values=1..3&q=");
    assert_eq!(
        (&swept["total"], &swept["runs"]["asked"]),
        (&2.into(), &2.into()),
        "{swept:#}"
    );
    let asked = served.answered("/api/whatif?rule=max_steps%3D1&q=");
    assert_eq!(asked["total"], 2, "{asked:#}");

    let mut command = Command::new(BINARY);
    let mut talk = command
        .args(["mcp", "--no-cache", dir])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call",
        "params": {"name": "list_runs", "arguments": {"query": ""}}});
    writeln!(talk.stdin.take().unwrap(), "{call}").unwrap();
    let answer: Value = serde_json::from_slice(&talk.wait_with_output().unwrap().stdout).unwrap();
    let text = answer["result"]["content"][0]["text"].as_str().unwrap();
    let listed: Value = serde_json::from_str(text).unwrap();
    assert_eq!(listed["runs"].as_array().unwrap().len(), 2, "{listed:#}");
    let also: Vec<_> = listed["runs"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| row["also_at"].to_string())
        .collect();
    assert!(also.iter().all(|also| also.len() > 2), "{also:?}");
}

/// A session of Copilot, the output of its program, and the spans that it exported. A program that was
/// killed doesn't print the id of its session.
#[test]
fn a_session_of_copilot_counts_once_with_its_stream_and_its_spans() {
    let record = |n: u32, kind: &str, data: Value| json!({"type": kind, "data": data, "id": format!("r{n}"), "timestamp": at(n), "parentId": null});
    let usage = json!({"apiCallId": "a1", "usage": {"model": "gpt-5.1", "inputTokens": 40, "outputTokens": 5, "apiCallId": "a1"}});
    let reply =
        json!({"content": "Done.", "apiCallId": "a1", "model": "gpt-5.1", "toolRequests": []});
    let printed = [
        record(2, "user.message", json!({"content": "Go."})),
        record(3, "assistant.turn_start", json!({"turnId": "0"})),
        record(5, "assistant.message", reply),
    ];
    let mut session = vec![record(
        1,
        "session.start",
        json!({"sessionId": ID, "copilotVersion": "1.0"}),
    )];
    session.extend_from_slice(&printed[..2]);
    session.push(record(4, "session.usage_record", usage));
    session.push(printed[2].clone());
    let span = |id: &str| {
        json!({"type": "span", "traceId": format!("{id:0>32}"), "spanId": "51aa4af570efa899", "name": "chat gpt-5.1",
        "kind": 2, "startTime": [1_767_323_043, 0], "endTime": [1_767_323_044, 0], "attributes": {"gen_ai.operation.name": "chat",
            "gen_ai.conversation.id": id, "gen_ai.request.model": "gpt-5.1", "gen_ai.response.finish_reasons": ["stop"],
            "gen_ai.usage.input_tokens": 40, "gen_ai.usage.output_tokens": 5},
        "status": {"code": 0}, "events": [], "resource": {"attributes": {"service.name": "github-copilot"}}})
    };
    let temp = tempfile::tempdir().unwrap();
    write(temp.path(), &format!("{ID}/events.jsonl"), &session);
    write(temp.path(), "stream.jsonl", &printed);
    write(temp.path(), "otel.jsonl", &[span(ID)]);
    let all = list(temp.path());
    assert_eq!(
        (&all["total"], &all["copies"], sum(&all, "tokens")),
        (&1.into(), &2.into(), 45),
        "{all}"
    );
    // The spans of another session count.
    write(temp.path(), "otel.jsonl", &[span("other")]);
    let all = list(temp.path());
    assert_eq!(
        (&all["total"], &all["copies"], sum(&all, "tokens")),
        (&2.into(), &1.into(), 90),
        "{all}"
    );
}

/// A program that resumed a session and was killed prints neither the session's id nor its first prompt.
#[test]
fn the_output_of_a_resumed_and_killed_copilot_counts_once_with_its_session() {
    let record = |n: u32, kind: &str, data: Value| json!({"type": kind, "data": data, "id": format!("r{n}"), "timestamp": at(n), "parentId": null});
    let start = |n: u32, kind: &str| record(n, kind, json!({"sessionId": ID}));
    let turn = |n: u32, prompt: &str| {
        let id = format!("a{n}");
        let usage = json!({"apiCallId": id, "usage": {"model": "gpt-5.1", "inputTokens": 40, "outputTokens": 5, "apiCallId": id}});
        [
            record(n, "user.message", json!({"content": prompt})),
            record(n + 1, "assistant.turn_start", json!({"turnId": "0"})),
            record(n + 2, "session.usage_record", usage),
            record(
                n + 3,
                "assistant.message",
                json!({"content": prompt, "apiCallId": id, "model": "gpt-5.1", "toolRequests": []}),
            ),
        ]
    };
    let (first, second, third) = (turn(2, "Go."), turn(12, "Further."), turn(22, "On."));
    let shutdown = |n| record(n, "session.shutdown", json!({"shutdownType": "routine"}));
    let session: Vec<Value> = [start(1, "session.start")]
        .into_iter()
        .chain(first.clone())
        .chain([shutdown(8), start(11, "session.resume")])
        .chain(second.clone())
        .chain([shutdown(18), start(21, "session.resume")])
        .chain(third.clone())
        .collect();
    let printed = |turn: &[Value; 4]| [turn[0].clone(), turn[1].clone(), turn[3].clone()];
    let temp = tempfile::tempdir().unwrap();
    write(temp.path(), &format!("{ID}/events.jsonl"), &session);
    for (name, turn) in [("1", &first), ("2", &second), ("3", &third)] {
        write(temp.path(), &format!("{name}.jsonl"), &printed(turn));
    }
    let all = list(temp.path());
    assert_eq!(
        (&all["total"], &all["copies"], sum(&all, "tokens")),
        (&1.into(), &3.into(), 135),
        "{all}"
    );
    // The output of another session counts.
    write(temp.path(), "4.jsonl", &printed(&turn(32, "Else.")));
    assert_eq!(list(temp.path())["total"], 2);
}

/// Threads of Amp may begin alike. Only those that name another thread may hold its messages.
#[test]
fn threads_of_amp_that_begin_alike_are_two_unless_they_name_each_other() {
    let thread = |id: &str, other: Option<&str>| {
        let related: Vec<Value> = other
            .iter()
            .map(|id| json!({"threadID": id, "type": "fork"}))
            .collect();
        json!({"v": 1, "id": id, "created": 1, "relationships": related, "messages": [
            {"role": "user", "content": [{"type": "text", "text": "Go."}]},
            {"role": "assistant", "content": [{"type": "text", "text": "Done."}], "state": {"type": "complete", "stopReason": "end_turn"},
                "usage": {"model": "m", "inputTokens": 40, "outputTokens": 5, "timestamp": at(2)}}]})
    };
    let temp = tempfile::tempdir().unwrap();
    let total = |others: [Option<&str>; 2]| {
        write(temp.path(), "T-1.json", &[thread("T-1", others[0])]);
        write(temp.path(), "T-2.json", &[thread("T-2", others[1])]);
        list(temp.path())["total"].clone()
    };
    assert_eq!(total([None, None]), 2);
    assert_eq!(total([Some("T-2"), Some("T-1")]), 1);
}
