//! Tests that lines copied from another session count only there, and that steps before a rewind
//! aren't part of the final branch.

use std::fmt::Write as _;
use std::fs;

use serde_json::{Value, json};
use trace_board::analysis::health;
use trace_board::model::IssueKind;

use super::{Read, read};

const FIRST: &str = "11111111-1111-4111-8111-111111111111";
const SECOND: &str = "22222222-2222-4222-8222-222222222222";

/// Reads these lines from a file of this name.
fn lines(name: &str, lines: &[Value]) -> Read {
    let temp = tempfile::tempdir().expect("a directory");
    let text = lines.iter().fold(String::new(), |mut text, line| {
        writeln!(text, "{line}").expect("a text");
        text
    });
    fs::write(temp.path().join(name), text).expect("written");
    read(&temp.path().join(name))
}

fn session(id: &str, lines_of: &[Value]) -> Read {
    lines(&format!("{id}.jsonl"), lines_of)
}

fn at(second: u32) -> String {
    format!("2026-11-20T09:15:{second:02}.000Z")
}

/// A prompt in a session.
fn prompt(session: &str, uuid: &str, parent: Option<&str>, second: u32) -> Value {
    json!({"type": "user", "sessionId": session, "uuid": uuid, "parentUuid": parent, "isSidechain": false,
        "timestamp": at(second), "message": {"role": "user", "content": format!("Prompt {uuid}.")}})
}

/// A reply with ten input tokens and five output tokens.
fn reply(session: &str, uuid: &str, parent: &str, second: u32, block: &Value) -> Value {
    let message = uuid.trim_end_matches(|c: char| c.is_ascii_lowercase());
    let finish = if block["type"] == "tool_use" {
        "tool_use"
    } else {
        "end_turn"
    };
    json!({"type": "assistant", "sessionId": session, "uuid": uuid, "parentUuid": parent, "isSidechain": false,
        "timestamp": at(second), "message": {"id": format!("msg_{message}"), "role": "assistant", "model": "m",
        "content": [block], "stop_reason": finish, "usage": {"input_tokens": 10, "output_tokens": 5}}})
}

fn said(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

fn call(id: &str) -> Value {
    json!({"type": "tool_use", "id": id, "name": "Bash", "input": {"command": id}})
}

fn result(session: &str, uuid: &str, parent: &str, second: u32, call: &str) -> Value {
    json!({"type": "user", "sessionId": session, "uuid": uuid, "parentUuid": parent, "isSidechain": false,
        "timestamp": at(second), "message": {"role": "user", "content": [{"type": "tool_result", "tool_use_id": call,
        "content": "ok"}]}})
}

fn queued(session: &str, second: u32) -> Value {
    json!({"type": "queue-operation", "operation": "enqueue", "sessionId": session, "timestamp": at(second)})
}

fn cost(session: &str) -> Value {
    json!({"type": "cost-state", "sessionId": session, "totalCostUSD": 0.5})
}

/// Steps, tokens, task, and the steps abandoned by a rewind.
fn seen(run: &Read) -> (usize, Option<u64>, Option<&str>, Vec<usize>) {
    let left = run
        .index
        .steps()
        .iter()
        .enumerate()
        .filter(|(_, step)| step.is_abandoned)
        .map(|(n, _)| n)
        .collect();
    (run.row.steps, run.row.tokens, run.row.task.as_deref(), left)
}

fn reasons(run: &Read, kind: IssueKind) -> Vec<String> {
    health::issues(&run.index)
        .into_iter()
        .filter(|issue| issue.kind == kind)
        .map(|issue| issue.reason)
        .collect()
}

#[test]
fn what_a_fork_repeats_of_another_session_counts_there() {
    let old = [
        prompt(FIRST, "a", None, 1),
        reply(FIRST, "1", "a", 2, &said("Noted.")),
    ];
    let new = [
        prompt(SECOND, "b", Some("1"), 30),
        reply(SECOND, "2", "b", 33, &said("Seven.")),
    ];
    let own = (1, Some(15), Some("Prompt b."), vec![]);
    let fork = |copies: Vec<Value>| {
        let mut all = vec![
            json!({"type": "mode", "sessionId": SECOND}),
            queued(SECOND, 20),
        ];
        all.extend(copies);
        all.extend(new.iter().cloned().chain([cost(SECOND)]));
        session(SECOND, &all)
    };
    // Copied under the new id, but older than the session.
    let renamed: Vec<Value> = old
        .iter()
        .cloned()
        .map(|line| with(line, "sessionId", json!(SECOND)))
        .collect();
    let run = fork(renamed.clone());
    assert_eq!(seen(&run), own);
    assert_eq!(
        run.row.duration_ms,
        Some(13_000.0),
        "the copies are from another time"
    );
    assert_eq!(
        run.row.cost_usd, None,
        "the cost line continues the other session's count"
    );
    assert_eq!(
        reasons(&run, IssueKind::Copied),
        ["2 records copied from another run (counted there, not here)"]
    );
    // The lines name the session that they come from.
    let marked = |line: Value| {
        with(
            line,
            "forkedFrom",
            json!({"sessionId": FIRST, "messageUuid": "a"}),
        )
    };
    let late: Vec<Value> = renamed
        .iter()
        .cloned()
        .map(marked)
        .map(|line| with(line, "timestamp", json!(at(25))))
        .collect();
    let run = fork(late);
    assert_eq!(seen(&run), own);
    assert!(reasons(&run, IssueKind::Copied)[0].contains(&format!(
        "copied from run {FIRST} (counted there, not here)"
    )));
    // Copied with the old id, before the session's own lines.
    let run = session(SECOND, &[old.as_slice(), new.as_slice()].concat());
    assert_eq!((seen(&run), run.row.run_id.as_deref()), (own, Some(SECOND)));
    // The other session counts them, and so does a file with any other name, which may be a copy of
    // a file.
    let all = (2, Some(30), Some("Prompt a."), vec![]);
    assert_eq!(
        seen(&session(FIRST, &[old.as_slice(), new.as_slice()].concat())),
        all
    );
    assert_eq!(
        seen(&lines(
            "kept.jsonl",
            &[old.as_slice(), new.as_slice()].concat()
        )),
        all
    );
}

fn with(mut line: Value, key: &str, value: Value) -> Value {
    line[key] = value;
    line
}

#[test]
fn a_prompt_that_goes_on_from_an_earlier_line_leaves_a_branch() {
    let first = [
        prompt(FIRST, "a", None, 1),
        reply(FIRST, "1a", "a", 2, &call("c1")),
    ];
    let rest = [
        result(FIRST, "r", "1a", 3, "c1"),
        reply(FIRST, "2", "r", 4, &said("Wrong.")),
    ];
    let again = [
        prompt(FIRST, "b", Some("1a"), 5),
        reply(FIRST, "3", "b", 6, &said("Right.")),
    ];
    let all = [first.as_slice(), rest.as_slice(), again.as_slice()].concat();
    let run = session(FIRST, &all);
    assert_eq!(
        seen(&run),
        (3, Some(45), Some("Prompt a."), vec![1]),
        "its tokens were spent"
    );
    assert_eq!(run.row.answer.as_deref(), Some("Right."));
    assert_eq!(
        reasons(&run, IssueKind::Left),
        ["1 step was abandoned when the session was rewound"]
    );
    let waits = session(FIRST, &all[..5]);
    assert_eq!(waits.row.answer, None, "an abandoned answer doesn't count");
    assert!(
        waits.row.verdict.sentence.contains("step 0"),
        "{}",
        waits.row.verdict.sentence
    );
    // The session may return to an abandoned branch.
    let back = [all.clone(), vec![prompt(FIRST, "d", Some("2"), 7)]].concat();
    assert_eq!(seen(&session(FIRST, &back)).3, [2]);
}

#[test]
fn calls_that_run_beside_each_other_are_no_branches() {
    let all = [
        prompt(FIRST, "a", None, 1),
        reply(FIRST, "1a", "a", 2, &call("c1")),
        reply(FIRST, "1b", "1a", 3, &call("c2")),
        result(FIRST, "r1", "1a", 4, "c1"),
        result(FIRST, "r2", "1b", 5, "c2"),
        reply(FIRST, "2", "r1", 6, &said("Done.")),
    ];
    assert_eq!(
        seen(&session(FIRST, &all)),
        (2, Some(30), Some("Prompt a."), vec![])
    );
    // A command that the user runs in between may name the program's own line as its parent again.
    let note = with(prompt(FIRST, "n", None, 1), "isMeta", json!(true));
    let command = json!("<bash-input>ls</bash-input>");
    let command = with(
        prompt(FIRST, "s", Some("n"), 7),
        "message",
        json!({"role": "user", "content": command}),
    );
    let all = [
        note,
        prompt(FIRST, "a", Some("n"), 2),
        reply(FIRST, "1", "a", 3, &said("Done.")),
        command,
    ];
    assert_eq!(seen(&session(FIRST, &all)).3, [0_usize; 0]);
}

#[test]
fn a_file_of_nothing_but_branches_is_read_in_time() {
    let mut all = vec![prompt(FIRST, "a", None, 1)];
    let mut parent = "a".to_owned();
    for n in 0..3_000 {
        all.push(reply(FIRST, &format!("{n}"), &parent, 2, &said("x")));
        parent = n.to_string();
    }
    // Each line moves from the end of one long branch to the end of another.
    for n in 3_000..6_000 {
        all.push(prompt(
            FIRST,
            &format!("p{n}"),
            Some(if n % 2 == 0 { "a" } else { "2999" }),
            3,
        ));
    }
    assert_eq!(seen(&session(FIRST, &all)).0, 3_000);
}

/// The id of a Codex session or turn that started `second` seconds after the test's start time.
fn codex_id(second: u64, n: u64) -> String {
    // 2026-11-20T09:15:00Z.
    let millis = 1_795_166_100_000_u64 + second * 1_000;
    let hex = format!("{millis:012x}");
    format!("{}-{}-7000-8000-{n:012x}", &hex[..8], &hex[8..])
}

fn line(second: u32, kind: &str, payload: &Value) -> Value {
    json!({"timestamp": at(second), "type": kind, "payload": payload})
}

/// A Codex turn: a prompt and a reply, with 100 input tokens and 10 output tokens.
fn turn(id: &str, second: u32, words: &str) -> Vec<Value> {
    let item = |payload| line(second, "response_item", &payload);
    let told = |payload| line(second, "event_msg", &payload);
    let usage = json!({"input_tokens": 100, "output_tokens": 10, "total_tokens": 110});
    vec![
        told(json!({"type": "task_started", "turn_id": id})),
        item(
            json!({"type": "message", "role": "user", "content": [{"type": "input_text", "text": words}]}),
        ),
        told(json!({"type": "user_message", "message": words})),
        item(
            json!({"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": format!("To {words}")}]}),
        ),
        line(second, "token_usage_record", &json!({"usage": usage})),
        told(
            json!({"type": "task_complete", "turn_id": id, "last_agent_message": format!("To {words}")}),
        ),
    ]
}

#[test]
fn a_fork_of_codex_begins_with_the_first_turn_that_is_not_older_than_it() {
    let (parent, fork) = (codex_id(1, 1), codex_id(20, 2));
    let meta = |id: &str, second, from: Value| {
        line(
            second,
            "session_meta",
            &json!({"id": id, "cwd": "/w", "forked_from_id": from}),
        )
    };
    let mut all = vec![
        meta(&fork, 20, json!(parent)),
        meta(&parent, 20, Value::Null),
    ];
    // Rewritten at the moment of the fork.
    all.extend(turn(&codex_id(2, 3), 20, "one"));
    all.extend(turn(&codex_id(21, 4), 30, "two"));
    let run = lines("rollout-a.jsonl", &all);
    assert_eq!(
        (seen(&run), run.row.run_id.as_deref()),
        ((1, Some(110), Some("two"), vec![]), Some(&*fork))
    );
    assert_eq!(run.row.verdict.sentence, "Answered at step 0");
    assert!(
        reasons(&run, IssueKind::Copied)[0]
            .starts_with(&format!("7 records copied from run {parent} ("))
    );
    let manifest = run.index.manifest().get().expect("a manifest");
    assert_eq!(
        (manifest.turns, manifest.parent.as_deref()),
        (Some(1), None)
    );
    // Without such ids, everything written at one moment is the copy.
    let old: Vec<Value> = [
        vec![meta("fork", 20, json!("old"))],
        turn("u1", 20, "one"),
        turn("u2", 30, "two"),
    ]
    .concat();
    assert_eq!(
        seen(&lines("rollout-b.jsonl", &old)),
        (1, Some(110), Some("two"), vec![])
    );
    // A session that isn't a fork owns all its lines.
    let own: Vec<Value> = [
        vec![meta(&fork, 20, Value::Null)],
        turn(&codex_id(2, 3), 20, "one"),
    ]
    .concat();
    assert_eq!(seen(&lines("rollout-c.jsonl", &own)).0, 1);
}

#[test]
fn turns_of_codex_that_were_rolled_back_are_no_part_of_the_way_to_the_end() {
    let meta = line(
        0,
        "session_meta",
        &json!({"id": codex_id(0, 1), "cwd": "/w"}),
    );
    let back_at = |second, turns: u64| {
        vec![line(
            second,
            "event_msg",
            &json!({"type": "thread_rolled_back", "num_turns": turns}),
        )]
    };
    let back = |turns| back_at(9, turns);
    let turns = |upto: u32| {
        (1..=upto).flat_map(|n| turn(&codex_id(n.into(), n.into()), n, &format!("t{n}")))
    };
    let of = |more: Vec<Value>| {
        lines(
            "rollout-a.jsonl",
            &[vec![meta.clone()], turns(3).collect(), more].concat(),
        )
    };
    let run = of(back(2));
    assert_eq!(seen(&run), (3, Some(330), Some("t1"), vec![1, 2]));
    assert_eq!(
        (run.row.verdict.sentence.as_str(), run.row.answer.as_deref()),
        ("Answered at step 0", Some("To t1"))
    );
    let run = of([back(1), back_at(10, 1), turn(&codex_id(12, 9), 12, "t4")].concat());
    assert_eq!(
        (seen(&run).3, run.row.answer.as_deref()),
        (vec![1, 2], Some("To t4"))
    );
    let run = of(back(99));
    let said =
        "No model reply after rewinding to before the first step: killed, or waiting for the user";
    assert_eq!(
        (seen(&run).3, run.row.verdict.sentence.as_str()),
        (vec![0, 1, 2], said)
    );
    assert_eq!(seen(&of(back(0))).3, [0_usize; 0]);
}

#[test]
fn messages_of_gemini_that_were_gone_back_to_before_are_left() {
    let header = json!({"sessionId": "s", "projectHash": "h", "startTime": at(0)});
    let asked = |id: &str, second| json!({"id": id, "timestamp": at(second), "type": "user", "content": [{"text": id}]});
    let reply = |id: &str, second| {
        json!({"id": id, "timestamp": at(second), "type": "gemini", "content": id, "model": "m",
        "tokens": {"input": 9, "output": 1}})
    };
    let back = |id: &str| json!({"$rewindTo": id});
    let all = [
        header,
        asked("u1", 1),
        reply("g1", 2),
        asked("u2", 3),
        reply("g2", 4),
        back("u2"),
    ];
    let run = lines("session-1.jsonl", &all);
    assert_eq!((seen(&run).3, run.row.answer.as_deref()), (vec![1], None));
    let more = [all.as_slice(), &[asked("u3", 6), reply("g3", 7)]].concat();
    let run = lines("session-1.jsonl", &more);
    assert_eq!((seen(&run).3, run.row.steps), (vec![1], 3));
    let odd = [all.as_slice(), &[back("nobody")]].concat();
    assert_eq!(
        reasons(&lines("session-1.jsonl", &odd), IssueKind::Join).len(),
        1
    );
}

#[test]
fn a_line_that_is_there_twice_counts_once() {
    let doubled = |lines: &[Value]| {
        lines
            .iter()
            .flat_map(|line| [line.clone(), line.clone()])
            .collect::<Vec<_>>()
    };
    let meta = line(
        0,
        "session_meta",
        &json!({"id": codex_id(0, 1), "cwd": "/w"}),
    );
    let codex = [
        vec![meta],
        turn(&codex_id(1, 1), 1, "t1"),
        turn(&codex_id(2, 2), 2, "t2"),
    ]
    .concat();
    let claude = [
        prompt(FIRST, "a", None, 1),
        reply(FIRST, "1", "a", 2, &call("c1")),
        result(FIRST, "r", "1", 3, "c1"),
        reply(FIRST, "2", "r", 4, &said("Done.")),
    ];
    let parts = |text: &str| json!({"parts": [{"text": text}]});
    let usage = json!({"promptTokenCount": 9, "candidatesTokenCount": 1});
    let qwen = |uuid: &str, kind: &str, second, usage: &Value| {
        json!({"sessionId": FIRST, "uuid": uuid, "timestamp": at(second), "type": kind, "message": parts(uuid),
            "model": "m", "usageMetadata": usage})
    };
    let qwen = [
        qwen("u", "user", 1, &Value::Null),
        qwen("a", "assistant", 2, &usage),
    ];
    let header = json!({"sessionId": "s", "projectHash": "h", "startTime": at(0)});
    let gemini = [
        header,
        json!({"id": "u1", "timestamp": at(1), "type": "user", "content": [{"text": "Go."}]}),
        json!({"id": "g1", "timestamp": at(2), "type": "gemini", "content": "Gone.", "model": "m", "tokens": {"input": 9}}),
    ];
    let files: [(&str, &[Value]); 4] = [
        ("rollout-a.jsonl", &codex),
        (FIRST, &claude),
        ("q.jsonl", &qwen),
        ("s.jsonl", &gemini),
    ];
    for (name, all) in files {
        let name = if name == FIRST {
            format!("{FIRST}.jsonl")
        } else {
            name.to_owned()
        };
        let (once, twice) = (lines(&name, all), lines(&name, &doubled(all)));
        let turns = |run: &Read| {
            run.index
                .manifest()
                .get()
                .and_then(|manifest| manifest.turns)
        };
        assert_eq!(
            (seen(&twice), turns(&twice)),
            (seen(&once), turns(&once)),
            "{name}"
        );
        assert_eq!(
            twice.row.verdict.sentence, once.row.verdict.sentence,
            "{name}"
        );
        assert!(once.row.steps > 0 && reasons(&once, IssueKind::Join).is_empty());
        assert!(!reasons(&twice, IssueKind::Join).is_empty(), "{name}");
    }
}

#[test]
fn lines_that_share_an_id_and_say_different_things_are_not_the_same() {
    let name = format!("{FIRST}.jsonl");
    let all = [
        prompt(FIRST, "a", None, 1),
        reply(FIRST, "1", "a", 2, &call("c1")),
        result(FIRST, "1", "1", 3, "c1"),
        reply(FIRST, "2", "1", 4, &said("Done.")),
    ];
    let run = lines(&name, &all);
    assert_eq!(
        (
            run.row.steps,
            run.row.verdict.sentence.starts_with("Finished at step 1")
        ),
        (2, true)
    );
    assert!(
        reasons(&run, IssueKind::Join).is_empty(),
        "{:?}",
        reasons(&run, IssueKind::Join)
    );
    assert_eq!(
        run.index.steps().get(0).map(|step| step.unanswered),
        Some(None)
    );
    // The same content with another timestamp is the same line.
    let again = lines(
        &name,
        &[&all[..], &[result(FIRST, "1", "1", 9, "c1")]].concat(),
    );
    assert_eq!(
        reasons(&again, IssueKind::Join),
        ["the line is repeated and counts only once"]
    );
}
