//! Tests sessions of gptme.

use std::fs;
use std::path::PathBuf;

use serde_json::json;
use trace_board::model::Index;
use trace_board::model::time::parse_ts;
use trace_board::trace::{RedactedRun, RootScanner, RunDir, RunReader, SkippedKind};

use super::truth::{FIELDS, compare};
use super::{Read, damaged, read, sample};

const NAMED: &str = "2026-05-04-walking-green-otter";
const IN_BLOCKS: &str = "2026-05-04-sleeping-blue-heron";

fn session(name: &str) -> PathBuf {
    sample(&format!("tools/gptme/{name}/conversation.jsonl"))
}

/// Reads a session of these lines.
fn written(lines: &[&str]) -> Read {
    let temp = tempfile::tempdir().expect("a directory");
    let path = temp.path().join("conversation.jsonl");
    let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
    fs::write(&path, text).expect("written");
    read(&path)
}

#[test]
fn a_session_is_read_from_its_conversation() {
    let run = read(&session(NAMED));
    let row = &run.row;
    assert_eq!((row.steps, row.errors, row.issues), (6, 1, (0, 0)));
    // 1,060, 1,140, 1,350, 1,410, 1,460, 1,505.
    assert_eq!((row.tokens, row.usage.cached), (Some(7_925), Some(6_250)));
    assert_eq!(
        (row.usage.output, row.usage.reasoning),
        (Some(175), Some(20))
    );
    assert_eq!((row.tool_calls, row.tool_errors), (Some(5), Some(1)));
    assert_eq!(row.changed, ["files.split.py", "files.NOTES.md"]);
    assert_eq!(row.turns, Some(1));
    assert_eq!(
        (&*row.verdict.sentence, row.verdict.certainty.as_str()),
        ("The agent finished at step 5", "recorded")
    );
    let manifest = run.index.manifest().get().expect("a manifest");
    assert_eq!(manifest.run_id.as_deref(), Some(NAMED));
    assert_eq!(manifest.model.as_deref(), Some("local/glm-5"));
    assert_eq!(manifest.project.as_deref(), Some("/home/me/ledger"));
    assert_eq!(manifest.branches, ["main".into()]);
    let cost = manifest.cost_usd.expect("a cost");
    assert!((cost - 0.006).abs() < 1e-9, "{cost}");
    assert_eq!(manifest.final_result.as_deref(), Some("Nothing is left."));
}

/// Returns the time of the first record in hours after midnight of that day in UTC, and the number of
/// issues.
fn began(index: &Index) -> (f64, usize) {
    let midnight = parse_ts("2026-05-04T00:00:00Z").expect("a time").micros;
    let micros = index.first_ts().expect("a time") - midnight;
    (
        (micros as f64 / 360e6).round() / 10.0,
        index.issues().total(),
    )
}

#[test]
fn the_file_of_events_has_the_offset_of_the_times() {
    assert_eq!(began(&read(&session(NAMED)).index), (7.0, 0));
    // It has none.
    assert_eq!(began(&read(&session(IN_BLOCKS)).index).1, 1);

    let temp = tempfile::tempdir().expect("a directory");
    let copy = temp.path().join("conversation.jsonl");
    fs::copy(session(NAMED), &copy).expect("copied");
    let dir = RunDir::of_file(&copy).expect("readable").expect("a trace");
    let mut reader = RunReader::new(dir.clone());
    let mut index = Index::default();
    index.apply(reader.refresh(u64::MAX));
    assert_eq!(began(&index), (9.0, 1));
    // A message is written to the other file a moment later.
    let events = temp.path().join("events.jsonl");
    let whole = fs::read_to_string(session(NAMED).with_file_name("events.jsonl")).expect("read");
    let (first, _) = whole.split_once('\n').expect("lines");
    fs::write(&events, &first[..60]).expect("written");
    index.apply(reader.refresh(u64::MAX));
    assert_eq!(began(&index), (9.0, 1), "a torn line");
    fs::write(&events, format!("{first}\n")).expect("written");
    let delta = reader.refresh(u64::MAX);
    assert!(delta.restarted);
    index.apply(delta);
    assert_eq!(began(&index), (7.0, 0));
    fs::write(&events, whole).expect("written");
    let delta = reader.refresh(u64::MAX);
    assert!(!delta.restarted && delta.events.is_empty());
    index.apply(delta);
    assert_eq!((began(&index), index.steps().len()), ((7.0, 0), 6));

    // So does a copy without secrets.
    let redacted = RedactedRun::of(&dir).expect("copied");
    assert_eq!(began(redacted.index()), (7.0, 0));
    fs::remove_file(&events).expect("removed");
    index.apply(reader.refresh(u64::MAX));
    assert_eq!(began(&index), (9.0, 1));
}

#[test]
fn errors_silence_and_interruptions_end_a_session() {
    let line = |role: &str, content: &str, more: &str| {
        format!(
            r#"{{"role": "{role}", "content": "{content}", "timestamp": "2026-05-04T10:00:00.{:06}"{more}}}"#,
            content.len() * 7 + more.len()
        )
    };
    let end = |rest: &[&str]| {
        let prompt = line("user", "Go.", "");
        let first = line("assistant", "@shell(c1): {\"command\": \"echo hi\"}", "");
        let first = first.replace(
            "{\"command\": \"echo hi\"}",
            r#"{\"command\": \"echo hi\"}"#,
        );
        let result = line("system", "Ran command", r#", "call_id": "c1""#);
        let lines = [&[&*prompt, &first, &result], rest].concat();
        let run = written(&lines);
        assert_eq!(
            (run.row.tool_calls, run.row.tool_errors),
            (Some(1), Some(0))
        );
        let verdict = run.row.verdict;
        let certainty = verdict.certainty.as_str();
        (
            verdict.outcome.as_str(),
            certainty,
            verdict.sentence.to_string(),
        )
    };
    let fatal = |class: &str| {
        let more = format!(
            r#", "metadata": {{"error": true, "error_class": "{class}", "exit_code": 76}}"#
        );
        line("system", &format!(r"error: {class}\nkey expired"), &more)
    };
    let (outcome, certainty, sentence) = end(&[&fatal("auth_error")]);
    assert_eq!((outcome, certainty), ("failed", "recorded"));
    assert_eq!(sentence, "API error after step 0: key expired");
    let (outcome, _, sentence) = end(&[&fatal("generic")]);
    assert_eq!(outcome, "failed");
    assert_eq!(sentence, "Failed with an error after step 0: key expired");

    let reminder = |n: usize| {
        let spaces = " ".repeat(n);
        let words = format!("<system>No tool call detected in last message. {spaces}</system>");
        line("user", &words, "")
    };
    let said = |words: &str| line("assistant", words, "");
    let (one, two) = (reminder(1), reminder(2));
    let (a, b, c) = (
        said("One."),
        said("Two, two."),
        said("Three, three, three."),
    );
    assert_eq!(end(&[&a, &one, &b]).0, "unknown");
    assert_eq!(end(&[&a, &one, &b, &two]).0, "unknown");
    let (outcome, certainty, sentence) = end(&[&a, &one, &b, &two, &c]);
    assert_eq!((outcome, certainty), ("halted", "inferred"));
    let stopped = "Stopped after step 3: two reminders to call a tool had no effect";
    assert_eq!(sentence, stopped);

    let stopped = said("A long st... ^C Interrupted");
    let (outcome, certainty, _) = end(&[&stopped]);
    assert_eq!((outcome, certainty), ("cancelled", "recorded"));
    assert_eq!(end(&[&stopped, &one]).0, "unknown");
}

#[test]
fn a_repository_without_commits_has_no_branch() {
    let workspace = |branch: &str| {
        let text = format!(
            r#"{{"role":"system","content":"Git Status\n\n**Branch:** `{branch}` (clean)","timestamp":"2026-05-04T09:00:00","hide":true}}"#
        );
        let run = written(&[
            &text,
            r#"{"role":"user","content":"Look.","timestamp":"2026-05-04T09:00:01"}"#,
        ]);
        let manifest = run.index.manifest().get().expect("a manifest");
        manifest.branches.to_vec()
    };
    assert_eq!(workspace("main"), ["main".into()]);
    assert_eq!(workspace("unknown"), []);
}

#[test]
fn thoughts_and_calls_are_parts_of_the_text() {
    let run = read(&session(NAMED));
    let step = run.step(0);
    assert_eq!(step["decision"]["rationale"], "Read first.");
    assert_eq!(step["model_response"]["text"], "I read the code.");
    assert_eq!(step["actions"][0]["name"], "shell");
    let step = run.step(1);
    assert_eq!(step["action_results"][0]["status"], "error");
    assert_eq!(step["action_results"][0]["returncode"], 1);
    // A brace in a string doesn't end the arguments.
    let args = run.step(3)["actions"][0].to_string();
    assert!(
        args.contains(r#"Braces } and \"quotes\" are text."#),
        "{args}"
    );
    // A call in a code block is an example.
    let step = run.step(4);
    assert_eq!(step["actions"].as_array().map(Vec::len), Some(0));
    assert!(
        step["model_response"]["text"]
            .as_str()
            .expect("a text")
            .contains("@shell(call_x): {}")
    );
}

#[test]
fn a_code_block_is_a_call_if_a_result_follows() {
    let run = read(&session(IN_BLOCKS));
    let row = &run.row;
    assert_eq!(row.steps, 4);
    assert_eq!((row.tool_calls, row.tool_errors), (Some(4), Some(1)));
    // 520, 570, 630, 660.
    assert_eq!((row.tokens, row.turns), (Some(2_380), Some(2)));
    assert_eq!(row.changed, ["files.notes.md"]);
    assert_eq!(row.verdict.outcome.as_str(), "cancelled");
    let names = |n: usize| {
        let step = run.step(n);
        let calls = step["actions"].as_array().expect("calls").clone();
        calls
            .iter()
            .map(|call| call["name"].as_str().expect("a name").to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!([names(0), names(1)].concat(), ["shell", "save", "shell"]);
    assert!(names(2).is_empty());
    let step = run.step(1);
    assert!(
        step.to_string().contains(r#""content":"One file.""#),
        "{step}"
    );
    assert_eq!(step["action_results"][1]["returncode"], 1);
    let step = run.step(3);
    assert!(step.to_string().contains("sleep 600 && date"), "{step}");
    assert_eq!(step["action_results"][0]["status"], "cancelled");
}

#[test]
fn a_command_that_ends_the_shell_has_its_exit_code() {
    let ended = |command: &str, code: &str, how: &str| {
        let words = format!(
            r"Ran command: `{command}`\n\n`[gptme] The shell exited ({how}), so a fresh shell was started.`\n\nReturn code: {code}\n\n\nNote: the shell exited ({how}) during this command, so gptme started a fresh shell."
        );
        format!(r#"{{"role": "system", "content": "{words}", "timestamp": "2026-05-04T10:00:02"}}"#)
    };
    for (command, code, how) in [
        ("exit 3", "3", "code 3"),
        ("kill -9 $$", "-9", "killed by SIGKILL"),
    ] {
        let run = written(&[
            r#"{"role": "user", "content": "End it.", "timestamp": "2026-05-04T10:00:00"}"#,
            &format!(
                r#"{{"role": "assistant", "content": "```shell\n{command}\n```", "timestamp": "2026-05-04T10:00:01"}}"#
            ),
            &ended(command, code, how),
            r#"{"role": "assistant", "content": "It ended.", "timestamp": "2026-05-04T10:00:03"}"#,
        ]);
        assert_eq!(
            (run.row.tool_calls, run.row.tool_errors),
            (Some(1), Some(1))
        );
        let step = run.index.steps().get(0).expect("a step");
        assert_eq!(step.returncode, code.parse().ok());
    }
}

#[test]
fn a_call_that_the_user_does_not_allow_is_cancelled() {
    let reply = json!({
        "role": "assistant",
        "content": "I run it.\n@shell(call_1): {\"command\": \"touch a\"}",
        "timestamp": "2026-05-04T09:00:01.000000",
    });
    for words in [
        "Declined by user",
        "Unknown response: x",
        "No changes made, execution skipped",
    ] {
        let result = json!({
            "role": "system",
            "content": words,
            "timestamp": "2026-05-04T09:00:02.000000",
            "call_id": "call_1",
        });
        let prompt =
            r#"{"role": "user", "content": "Go.", "timestamp": "2026-05-04T09:00:00.000000"}"#;
        let run = written(&[prompt, &reply.to_string(), &result.to_string()]);
        let step = run.index.steps().get(0).expect("a step");
        assert!(step.is_cancelled(), "{words}");
        assert_eq!(run.row.tool_errors, Some(0), "{words}");
    }
}

#[test]
fn without_complete_the_end_is_unknown() {
    let text = fs::read_to_string(session(NAMED)).expect("the sample");
    let lines: Vec<&str> = text.lines().collect();
    for most in [13, 14, 15] {
        let row = written(&lines[..most]).row;
        assert_eq!(row.verdict.outcome.as_str(), "unknown", "{most} lines");
    }
    let limited = r#"{"role": "system", "content": "Stopped.", "timestamp": "2026-05-04T09:00:12", "metadata": {"max_steps_stop": true}}"#;
    let row = written(&[&lines[..13], &[limited]].concat()).row;
    assert_eq!(row.verdict.outcome.as_str(), "truncated");
    assert!(
        row.verdict.sentence.starts_with("Step limit reached"),
        "{}",
        row.verdict.sentence
    );
    // A further prompt begins another turn.
    let more = r#"{"role": "user", "content": "And now?", "timestamp": "2026-05-04T09:10:00"}"#;
    let again = r#"{"role": "assistant", "content": "Hm.", "timestamp": "2026-05-04T09:10:01"}"#;
    let row = written(&[&lines[..], &[more, again]].concat()).row;
    assert_eq!(
        (row.verdict.outcome.as_str(), row.turns),
        ("unknown", Some(2))
    );
}

#[test]
fn the_answer_may_come_before_the_call_of_complete() {
    let line = |second: u32, role: &str, content: &str, call: Option<&str>| {
        let time = format!("2026-05-04T09:00:{second:02}");
        let mut line = json!({"role": role, "content": content, "timestamp": time});
        if let Some(call) = call {
            line["call_id"] = json!(call);
        }
        line.to_string()
    };
    let nudge = "<system>No tool call detected in last message.</system>";
    let done = "Task complete. Autonomous session finished.";
    let lines = [
        line(1, "user", "Go.", None),
        line(
            2,
            "assistant",
            "Looking.\n@shell(call_1): {\"command\": \"ls\"}",
            None,
        ),
        line(3, "system", "Ran command: `ls`", Some("call_1")),
        line(4, "assistant", "Two done.", None),
        line(5, "user", nudge, None),
        line(6, "assistant", "@complete(call_2): {}", None),
        line(7, "system", done, Some("call_2")),
    ];
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    let answer = |lines: &[&str]| written(lines).row.answer;
    assert_eq!(answer(&lines).as_deref(), Some("Two done."));
    // Text next to other calls isn't an answer.
    let without = [&lines[..3], &lines[5..]].concat();
    assert_eq!(answer(&without), None);
    // An earlier turn's answer isn't that of the last turn.
    let next = line(8, "user", "More.", None);
    let last = line(9, "assistant", "@complete(call_3): {}", None);
    let end = line(10, "system", done, Some("call_3"));
    let more = [&lines[..], &[&*next, &*last, &*end]].concat();
    assert_eq!(answer(&more), None);
}

#[test]
fn a_directory_is_one_run() {
    let temp = tempfile::tempdir().expect("a directory");
    let text = fs::read_to_string(session(NAMED)).expect("the sample");
    let event = |(n, line): (usize, &str)| {
        format!(
            r#"{{"seq": {n}, "ts": "2026-05-04T09:00:01+00:00", "type": "message_append", "payload": {{"message": {line}}}}}"#
        ) + "\n"
    };
    let events: String = text.lines().enumerate().map(event).collect();
    let receipt = r#"{"record_type": "emission_receipt", "event_id": "a", "ts": "2026-05-04T09:00:01+00:00", "runtime": "gptme"}"#;
    let saving = r#"{"ts": "2026-05-04T09:00:01+00:00", "source": "shell", "original_tokens": 9, "kept_tokens": 5, "saved_tokens": 4}"#;
    let dir = temp.path().join(NAMED);
    fs::create_dir_all(dir.join("branches/main-edit-0")).expect("made");
    for (name, text) in [
        ("conversation.jsonl", &*text),
        ("events.jsonl", &*events),
        ("branches/main-edit-0/events.jsonl", &*events),
        ("lesson-emissions.jsonl", receipt),
        ("context-savings.jsonl", saving),
        ("prompt-queue-closed", ""),
    ] {
        fs::write(dir.join(name), text).expect("written");
    }
    let found = RootScanner::new(temp.path().to_owned()).scan();
    let keys: Vec<&str> = found.runs.keys().map(|key| key.as_str()).collect();
    assert_eq!(keys, [format!("{NAMED}/conversation.jsonl")]);
    let mut skipped = found.skipped.iter();
    assert!(
        skipped.all(|skipped| skipped.kind == SkippedKind::Directory),
        "{:?}",
        found.skipped
    );
    assert_eq!(read(&dir).row.steps, 6);
}

#[test]
fn another_list_of_messages_is_no_session() {
    let temp = tempfile::tempdir().expect("a directory");
    let text = fs::read_to_string(session(NAMED)).expect("the sample");
    for (name, text) in [
        ("messages.jsonl", &*text),
        ("conversation.jsonl", r#"{"role": "user", "content": "Hi"}"#),
        (
            "conversation.jsonl",
            r#"{"role": "tool", "content": "Hi", "timestamp": "2026-05-04T09:00:00"}"#,
        ),
    ] {
        let path = temp.path().join(name);
        fs::write(&path, text).expect("written");
        assert!(
            RunDir::of_file(&path).expect("readable").is_none(),
            "{text}"
        );
    }
    // The instructions may be longer than what is examined.
    let long = format!(
        r#"{{"role": "system", "content": "{}", "timestamp": "2026-05-04T09:00:00"}}"#,
        "You are a helper. ".repeat(10_000)
    );
    let lines: Vec<&str> = text.lines().skip(1).collect();
    assert_eq!(written(&[&[&*long], &lines[..]].concat()).row.steps, 6);
}

#[test]
fn a_damaged_session_loses_only_what_is_damaged() {
    for name in [NAMED, IN_BLOCKS] {
        damaged(&session(name));
    }
}

#[test]
fn real_sessions_agree_with_what_is_known_of_them() {
    let is_session = |file: &str| file.ends_with("/conversation.jsonl");
    let first = "of parallel calls, the program keeps the first";
    let killed = "the program writes a reply after its calls have run";
    let known = [
        ("finishes", "calls", 5, first),
        ("errors-then-recovers", "calls", 6, first),
        ("errors-then-recovers", "failed calls", 2, first),
        ("sigkill-in-tool", "replies", 1, killed),
        ("sigkill-in-tool", "calls", 1, killed),
        ("sigkill-in-tool", "calls without an answer", 0, killed),
        ("sigkill-in-tool", "input", 3_000, killed),
        ("sigkill-in-tool", "cached", 0, killed),
        ("sigkill-in-tool", "output", 20, killed),
        ("sigkill-in-tool", "tokens of the run", 3_020, killed),
    ];
    compare("gptme", is_session, &FIELDS, &known);
}
