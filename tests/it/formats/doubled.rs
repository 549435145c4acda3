//! Tests lines that occur twice or out of order: their contents count once if that can be
//! determined, and each such line is an issue with its line number.

use std::fs;
use std::path::Path;

use trace_board::trace::RunDir;

use super::{Read, read, sample};

/// A sample of lines, and which of them the tool may legitimately repeat.
type Sample = (&'static str, fn(&str) -> bool);

const SAMPLES: [Sample; 18] = [
    (
        "droid/-home-me-ledger/d0000000-0000-4000-8000-00000000000a.jsonl",
        |_| false,
    ),
    (
        "claude-code/-home-me-ledger/5f0c7a52-6d0e-4a53-9b0c-0f6f2b3f1a02.jsonl",
        |_| false,
    ),
    ("claude-code-stream/answered.jsonl", |_| false),
    (
        "codex/sessions/2026/05/04/rollout-2026-05-04T09-00-00-019df000-0000-7000-8000-0000000000a1.jsonl",
        |_| false,
    ),
    ("codex-exec/answered.jsonl", |line| {
        !["item.completed", "thread.started", "turn.started"]
            .iter()
            .any(|kind| line.contains(kind))
    }),
    (
        "gemini/chats/session-2026-05-04T09-00-3b0c1d2e.jsonl",
        |line| !line.starts_with("{\"id\""),
    ),
    ("gemini-stream/answered.jsonl", |line| {
        line.contains("\"delta\"")
    }),
    (
        "qwen/chats/7a1b2c3d-0000-4000-8000-0000000000d1.jsonl",
        |_| false,
    ),
    ("qwen-stream/answered.jsonl", |_| false),
    (
        "pi/--home-me-ledger--/2026-05-04T09-00-00-000Z_019df000-0000-7000-8000-0000000000e1.jsonl",
        |_| false,
    ),
    ("pi-stream/answered.jsonl", |line| {
        !["session", "message_end", "turn_end", "tool_execution_start"]
            .iter()
            .any(|kind| line.contains(&format!("{{\"type\":\"{kind}\"")))
    }),
    (
        "copilot/7c1d2e3f-0000-4000-8000-0000000000f1/events.jsonl",
        |_| false,
    ),
    ("copilot-stream/answered.jsonl", |_| false),
    (
        "kimi-code/wd_ledger_0a1b2c3d4e5f/session_4d5e6f70-0000-4000-8000-0000000000a1/agents/main/wire.jsonl",
        |_| false,
    ),
    (
        "vibe/unified/3c4d5e6f-0000-4000-8000-0000000000a1/journal/0000000000000001.jsonl",
        |_| false,
    ),
    (
        "vibe2/session_20260504_090000_5e6f7a8b/messages.jsonl",
        |_| false,
    ),
    (
        "gptme/2026-05-04-walking-green-otter/conversation.jsonl",
        |_| false,
    ),
    ("openhands/events/events.jsonl", |_| false),
];

type Counts = (usize, Option<u64>, Option<u64>, Option<u64>, Option<u64>);

fn counts(run: &Read) -> Counts {
    (
        run.row.steps,
        run.row.tokens,
        run.row.tool_calls,
        run.row.tool_errors,
        run.row.turns,
    )
}

/// Reads these lines from a file with the sample's name.
fn of(path: &Path, lines: &[&str]) -> Read {
    fs::write(
        path,
        lines
            .iter()
            .map(|line| format!("{line}\n"))
            .collect::<String>(),
    )
    .expect("written");
    read(path)
}

/// Numbers of the lines with issues.
fn places(run: &Read) -> Vec<u64> {
    run.index
        .issues()
        .listed()
        .iter()
        .filter_map(|issue| issue.line)
        .collect()
}

#[test]
fn a_line_that_is_there_twice_counts_once_and_is_named() {
    let temp = tempfile::tempdir().expect("a directory");
    for (name, may_repeat) in SAMPLES {
        let from = sample("tools").join(name);
        let path = temp.path().join(from.file_name().expect("a name"));
        let text = fs::read_to_string(&from).expect("the sample");
        // Each line of this program has an id, but some in the sample lack theirs.
        let is_without = name.starts_with("claude-code-stream");
        let with_id = |(n, line): (usize, &str)| match line.strip_suffix('}') {
            Some(rest) if is_without && !line.contains("\"uuid\"") => {
                format!("{rest},\"uuid\":\"line {n}\"}}")
            }
            _ => line.to_owned(),
        };
        let lines: Vec<String> = text.lines().enumerate().map(with_id).collect();
        let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        let (as_it_is, mut tried) = (counts(&of(&path, &lines)), 0);
        for at in (0..lines.len()).filter(|at| !may_repeat(lines[*at])) {
            let mut twice = lines.clone();
            twice.insert(at + 1, lines[at]);
            let run = of(&path, &twice);
            assert_eq!(counts(&run), as_it_is, "line {} of {name}", at + 1);
            assert!(
                places(&run).contains(&(at as u64 + 2)),
                "line {} of {name}: {:?}",
                at + 1,
                places(&run)
            );
            tried += 1;
        }
        assert!(tried >= 4, "{tried} lines of {name}");
    }
}

#[test]
fn a_span_that_is_exported_twice_counts_once() {
    let temp = tempfile::tempdir().expect("a directory");
    let text = fs::read_to_string(sample("tools/otlp/traces.jsonl")).expect("the sample");
    let (once, twice) = (
        temp.path().join("once.jsonl"),
        temp.path().join("twice.jsonl"),
    );
    fs::write(&once, &text).expect("written");
    fs::write(&twice, text.repeat(2)).expect("written");
    let found = trace_board::trace::RootScanner::new(temp.path().to_owned())
        .scan()
        .runs;
    assert_eq!(found.len(), 6);
    for key in found
        .keys()
        .filter_map(|key| key.as_str().strip_prefix("once.jsonl/"))
    {
        let (once, twice) = (read(&once.join(key)), read(&twice.join(key)));
        assert_eq!(counts(&once), counts(&twice), "{key}");
        assert_eq!(once.row.cost_usd, twice.row.cost_usd);
        assert_eq!(twice.row.issues.0 - once.row.issues.0, once.row.events);
    }
}

#[test]
fn lines_out_of_their_order_are_named() {
    let temp = tempfile::tempdir().expect("a directory");
    // Formats in which each line has a timestamp or names the line before.
    let samples = [
        (
            "codex/sessions/2026/05/04/rollout-2026-05-04T09-00-00-019df000-0000-7000-8000-0000000000a1.jsonl",
            10,
        ),
        (
            "claude-code/-home-me-ledger/5f0c7a52-6d0e-4a53-9b0c-0f6f2b3f1a02/subagents/agent-a1b2c3d4e5.jsonl",
            2,
        ),
        ("gemini-stream/answered.jsonl", 7),
        (
            "qwen/subagents/7a1b2c3d-0000-4000-8000-0000000000d1/agent-general-purpose-c3.jsonl",
            1,
        ),
        (
            "pi/--home-me-ledger--/2026-05-04T09-00-00-000Z_019df000-0000-7000-8000-0000000000e1.jsonl",
            8,
        ),
        (
            "copilot/7c1d2e3f-0000-4000-8000-0000000000f1/events.jsonl",
            8,
        ),
    ];
    for (name, at) in samples {
        let from = sample("tools").join(name);
        let path = temp.path().join(from.file_name().expect("a name"));
        let text = fs::read_to_string(&from).expect("the sample");
        let mut lines: Vec<&str> = text.lines().collect();
        let before = of(&path, &lines).row.issues.0;
        lines.swap(at, at + 1);
        assert!(of(&path, &lines).row.issues.0 > before, "{name}");
    }
}

#[test]
fn what_two_sessions_of_a_stream_took_is_added_up() {
    let temp = tempfile::tempdir().expect("a directory");
    let path = temp.path().join("stream.jsonl");
    for (name, id, children) in [
        (
            "codex-exec/answered.jsonl",
            "019df000-0000-7000-8000-0000000000b1",
            true,
        ),
        ("gemini-stream/answered.jsonl", "2026-05-04T09", false),
    ] {
        let text = fs::read_to_string(sample("tools").join(name)).expect("the sample");
        let once = of(&path, &text.lines().collect::<Vec<_>>());
        let mut other = text.replace(id, "2026-05-04T10");
        if !children {
            let session = once.row.run_id.clone().expect("an id");
            other = other.replace(&*session, "another");
        }
        let both = text.clone() + &other;
        let twice = of(&path, &both.lines().collect::<Vec<_>>());
        assert_eq!(
            twice.row.tokens,
            once.row.tokens.map(|tokens| 2 * tokens),
            "{name}"
        );
        assert_eq!(
            twice.row.usage.input,
            once.row.usage.input.map(|input| 2 * input),
            "{name}"
        );
        assert_eq!(
            places(&twice).first(),
            Some(&(text.lines().count() as u64 + 1)),
            "{name}"
        );
        if !children {
            let took = |run: &Read| run.index.manifest().get().and_then(|run| run.latency_s);
            assert_eq!(took(&twice), took(&once).map(|took| 2.0 * took));
        }
    }
}

#[test]
fn a_line_of_qwen_without_an_id_is_no_copy() {
    let temp = tempfile::tempdir().expect("a directory");
    let path = temp
        .path()
        .join("7a1b2c3d-0000-4000-8000-0000000000d1.jsonl");
    let text = fs::read_to_string(sample(
        "tools/qwen/chats/7a1b2c3d-0000-4000-8000-0000000000d1.jsonl",
    ))
    .expect("it");
    let once = counts(&of(&path, &text.lines().collect::<Vec<_>>()));
    let lines: Vec<String> = text
        .lines()
        .enumerate()
        .map(|(n, line)| {
            let mut line: serde_json::Value = serde_json::from_str(line).expect("JSON");
            // The first line identifies the file's format.
            if n > 0 {
                line["uuid"] = serde_json::Value::Null;
            }
            line.to_string()
        })
        .collect();
    assert_eq!(
        counts(&of(
            &path,
            &lines.iter().map(String::as_str).collect::<Vec<_>>()
        )),
        once
    );
}

/// A repeated first line of a file, or an item reported again after its end.
#[test]
fn a_stream_that_begins_again_says_so() {
    let temp = tempfile::tempdir().expect("a directory");
    let path = temp.path().join("exec.jsonl");
    let text = fs::read_to_string(sample("tools/codex-exec/answered.jsonl")).expect("the sample");
    let lines: Vec<&str> = text.lines().collect();
    let run = of(&path, &[lines.clone(), lines.clone()].concat());
    assert_eq!(places(&run), [lines.len() as u64 + 1]);
    let last = run.index.issues().listed().last().expect("one");
    assert!(
        last.reason.starts_with("the stream starts over"),
        "{}",
        last.reason
    );
    assert!(RunDir::of_file(&path).expect("readable").is_some());
}

/// A call and its result, identified by parts of their lines.
const PAIRS: [(&str, &str, &str); 9] = [
    (
        "claude-code/-home-me-ledger/5f0c7a52-6d0e-4a53-9b0c-0f6f2b3f1a01.jsonl",
        "\"id\":\"toolu_01c\"",
        "\"tool_use_id\":\"toolu_01c\"",
    ),
    (
        "claude-code-stream/answered.jsonl",
        "\"id\":\"toolu_3\"",
        "\"tool_use_id\":\"toolu_3\"",
    ),
    (
        "codex/sessions/2026/05/04/rollout-2026-05-04T09-00-00-019df000-0000-7000-8000-0000000000a1.jsonl",
        "\\\"python3 -m unittest -q\\\"}\",\"call_id\":\"call_b\"",
        "output\",\"call_id\":\"call_b\"",
    ),
    (
        "gemini-stream/answered.jsonl",
        "\"tool_name\":\"replace\"",
        "\"tool_id\":\"b\",\"status\"",
    ),
    (
        "qwen/chats/7a1b2c3d-0000-4000-8000-0000000000d1.jsonl",
        "\"functionCall\":{\"id\":\"c1\"",
        "\"callId\":\"c1\"",
    ),
    (
        "pi/--home-me-ledger--/2026-05-04T09-00-00-000Z_019df000-0000-7000-8000-0000000000e1.jsonl",
        "\"toolCall\",\"id\":\"toolu_b\"",
        "\"toolCallId\":\"toolu_b\"",
    ),
    (
        "pi-stream/answered.jsonl",
        "\"message_end\",\"message\":{\"role\":\"assistant\"",
        "\"message_end\",\"message\":{\"role\":\"toolResult\"",
    ),
    (
        "copilot/7c1d2e3f-0000-4000-8000-0000000000f1/events.jsonl",
        "\"name\":\"bash\"",
        "complete\",\"data\":{\"toolCallId\":\"call_b\"",
    ),
    (
        "kimi-code/wd_ledger_0a1b2c3d4e5f/session_4d5e6f70-0000-4000-8000-0000000000a1/agents/main/wire.jsonl",
        "\"toolCallId\":\"call_b\",\"name\"",
        "\"parentUuid\":\"ucall_b\"",
    ),
];

#[test]
fn a_result_that_stands_before_its_call_is_the_result_of_that_call() {
    let temp = tempfile::tempdir().expect("a directory");
    for (name, call, result) in PAIRS {
        let from = sample("tools").join(name);
        let path = temp.path().join(from.file_name().expect("a name"));
        let text = fs::read_to_string(&from).expect("the sample");
        let mut lines: Vec<&str> = text.lines().collect();
        let calls = |run: &Read| {
            let failed: u64 = run
                .index
                .steps()
                .iter()
                .map(|step| u64::from(step.failed_calls))
                .sum();
            (run.row.tool_calls, run.row.tool_errors, failed)
        };
        let before = calls(&of(&path, &lines));
        assert!(before.0.is_some() && before.2 > 0, "{name}");
        let at = |words: &str| {
            lines
                .iter()
                .position(|line| line.contains(words))
                .unwrap_or_else(|| panic!("{words}"))
        };
        let (call, result) = (at(call), at(result));
        let moved = lines.remove(result);
        lines.insert(call, moved);
        let run = of(&path, &lines);
        assert_eq!(calls(&run), before, "{name}");
        assert!(
            places(&run).contains(&(call as u64 + 1)),
            "{name}: {:?}",
            places(&run)
        );
        let shown = (0..run.index.steps().len()).any(|n| {
            let results = run.step(n)["action_results"]
                .as_array()
                .cloned()
                .unwrap_or_default();
            results.iter().any(|result| result["status"] == "error")
        });
        assert!(shown, "{name}: on its page the call failed as well");
    }
}

#[test]
fn a_result_whose_call_is_not_there_leaves_unknown_how_many_failed() {
    let temp = tempfile::tempdir().expect("a directory");
    for (name, call, result) in PAIRS {
        let from = sample("tools").join(name);
        let path = temp.path().join(from.file_name().expect("a name"));
        let text = fs::read_to_string(&from).expect("the sample");
        let lines: Vec<&str> = text.lines().filter(|line| !line.contains(call)).collect();
        let place = lines
            .iter()
            .position(|line| line.contains(result))
            .expect("the result") as u64
            + 1;
        let run = of(&path, &lines);
        assert_eq!(
            (run.row.tool_calls, run.row.tool_errors),
            (None, None),
            "{name}"
        );
        assert!(places(&run).contains(&place), "{name}: {:?}", places(&run));
    }
}

#[test]
fn a_stream_of_texts_in_pieces_that_is_there_twice_counts_once() {
    let temp = tempfile::tempdir().expect("a directory");
    let path = temp.path().join("stream.jsonl");
    let text =
        fs::read_to_string(sample("tools/gemini-stream/answered.jsonl")).expect("the sample");
    let lines: Vec<&str> = text.lines().collect();
    let (once, twice) = (
        of(&path, &lines),
        of(&path, &[lines.clone(), lines.clone()].concat()),
    );
    assert_eq!(counts(&twice), counts(&once));
    assert_eq!(
        (&twice.row.verdict, &twice.row.answer),
        (&once.row.verdict, &once.row.answer)
    );
    assert_eq!(places(&twice).len(), lines.len(), "each line is named");
}

#[test]
fn totals_are_those_of_the_steps_that_they_cover() {
    let temp = tempfile::tempdir().expect("a directory");
    let path = temp.path().join("stream.jsonl");
    for (name, id, total) in [
        (
            "codex-exec/answered.jsonl",
            "019df000-0000-7000-8000-0000000000b1",
            "turn.completed",
        ),
        (
            "gemini-stream/answered.jsonl",
            "3b0c1d2e-0000-4000-8000-0000000000c1",
            "\"stats\"",
        ),
        (
            "claude-code-stream/answered.jsonl",
            "5f0c7a52-6d0e-4a53-9b0c-0f6f2b3f1b01",
            "\"modelUsage\"",
        ),
    ] {
        let text = fs::read_to_string(sample("tools").join(name)).expect("the sample");
        let other = text
            .replace(id, "another")
            .replace("msg_", "msg_2")
            .replace("toolu_", "toolu_2");
        let other = other.replace("2026-05-04T09", "2026-05-04T10");
        let told = |first: &str, second: &str, without: &dyn Fn(usize, &str) -> bool| {
            let lines: Vec<&str> = [first.lines(), second.lines()]
                .into_iter()
                .enumerate()
                .flat_map(|(session, lines)| {
                    lines.filter(move |line| !(line.contains(total) && without(session, line)))
                })
                .collect();
            let run = of(&path, &lines);
            let took = run.index.manifest().get().and_then(|run| run.latency_s);
            (run.row.tokens, run.row.cost_usd, took, run.row.usage.input)
        };
        let both = told(&text, &other, &|_, _| false);
        assert!(both.0.is_some(), "{name}");
        for untold in 0..2 {
            let part = told(&text, &other, &|session, _| session == untold);
            assert_eq!(
                part,
                (None, None, None, None),
                "{name}: session {untold} doesn't record it"
            );
        }
    }
}
