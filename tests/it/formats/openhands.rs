//! Tests conversations of the OpenHands SDK: a directory with a file per event, and events as
//! lines.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;
use trace_board::model::{Index, IssueKind, TraceFile};
use trace_board::trace::{RootScanner, RunDir, RunReader, read_index};

use super::{foreign, read, sample};
use crate::disk::walk;
use crate::soak::times;

fn conversation(n: usize) -> PathBuf {
    sample(&format!(
        "tools/openhands/conversations/111111110000400080000000000000a{n}"
    ))
}

/// Lists its event files in order.
fn events(dir: &Path) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = fs::read_dir(dir.join("events"))
        .expect("listed")
        .map(|entry| entry.expect("an entry").path())
        .collect();
    files.sort();
    files
}

/// Copies a conversation without its events.
fn begun(from: &Path) -> tempfile::TempDir {
    let temp = tempfile::tempdir().expect("a directory");
    fs::create_dir(temp.path().join("events")).expect("made");
    fs::copy(
        from.join("base_state.json"),
        temp.path().join("base_state.json"),
    )
    .expect("copied");
    temp
}

fn put(temp: &tempfile::TempDir, file: &Path, bytes: &[u8]) -> PathBuf {
    let to = temp
        .path()
        .join("events")
        .join(file.file_name().expect("a name"));
    fs::write(&to, bytes).expect("written");
    to
}

#[test]
fn the_calls_of_a_reply_are_one_step() {
    let run = read(&conversation(1));
    let row = &run.row;
    // Seven replies. The errors are a missing file, a command with exit status 3, an unknown tool
    // and invalid arguments. The issue is that its timestamps have no UTC offset.
    assert_eq!(
        (row.steps, row.errors, row.events, row.issues),
        (7, 4, 20, (1, 0))
    );
    assert_eq!((row.tokens, row.cost_usd), (Some(9_273), Some(0.010152)));
    assert_eq!(
        row.tools,
        [
            "terminal",
            "file_editor",
            "task_tracker",
            "no_such_tool",
            "finish"
        ]
    );
    assert_eq!(row.changed, ["files./home/me/demo/a.py", "tasks"]);
    assert_eq!(
        (row.task.as_deref(), row.model.as_deref()),
        (Some("Make a.py print 2."), Some("openai/small-1"))
    );
    assert_eq!(
        (&*row.verdict.sentence, row.verdict.certainty.as_str()),
        ("The agent finished at step 6", "recorded")
    );
    assert_eq!(row.answer.as_deref(), Some("a.py prints 2."));
    let manifest = run.index.manifest().get().expect("a manifest");
    assert_eq!(
        (manifest.run_id.as_deref(), manifest.turns),
        (Some("11111111-0000-4000-8000-0000000000a1"), Some(1))
    );
    assert_eq!(
        (manifest.project.as_deref(), manifest.usage.cached),
        (Some("/home/me/demo"), Some(2_000))
    );
}

#[test]
fn a_step_is_assembled_from_its_files() {
    let run = read(&conversation(1));
    let first = run.step(0);
    assert_eq!(first["decision"]["rationale"], "Which files are there?");
    assert_eq!(first["model_response"]["text"], "I look first.");
    assert_eq!(
        first["actions"][1]["args"],
        serde_json::json!({"command": "cat none.txt"}),
        "without its summary"
    );
    assert_eq!(first["action_results"][1]["status"], "success");
    assert_eq!(
        (&first["action_results"][1]["returncode"], &first["context"]),
        (&1.into(), &Value::Null)
    );
    let edit = run.step(2);
    assert_eq!(
        edit["state_diff"]["files./home/me/demo/a.py"]["after"],
        "print(2)\n"
    );
    assert_eq!(edit["state_diff"]["tasks"]["after"][0]["title"], "one");
    assert!(
        run.step(4)["action_results"][0]["error"]
            .as_str()
            .expect("words")
            .starts_with("Tool 'no_such_tool'")
    );
}

#[test]
fn limits_are_recorded_with_their_figures() {
    let steps = read(&conversation(2)).row.verdict;
    assert_eq!(
        &*steps.sentence,
        "Step limit reached after step 2: 3 of 3 iterations"
    );
    let cost = read(&conversation(4)).row.verdict;
    assert_eq!(
        &*cost.sentence,
        "Cost limit reached after step 2: $0.0420, limit $0.0300"
    );
    assert_eq!(
        (steps.certainty.as_str(), cost.certainty.as_str()),
        ("recorded", "recorded")
    );
}

#[test]
fn a_conversation_that_another_started_is_a_run_of_its_own() {
    let root = sample("tools/openhands");
    let found = RootScanner::new(root).scan();
    let keys: Vec<&str> = found.runs.keys().map(|key| key.as_str()).collect();
    let below = |n: usize| format!("conversations/111111110000400080000000000000a{n}");
    let child = format!("{}/subagents/111111110000400080000000000000a3", below(1));
    assert_eq!(
        keys,
        [
            below(1),
            child.clone(),
            below(2),
            below(4),
            "events/events.jsonl".to_owned()
        ]
    );
    let child = read(&sample("tools/openhands").join(child));
    assert_eq!(
        child.row.parent.as_deref(),
        Some("11111111-0000-4000-8000-0000000000a1")
    );
    assert_eq!(
        (child.row.verdict.mark.word(), child.row.steps),
        ("unknown", 2)
    );
    assert_eq!(
        &*child.row.verdict.sentence,
        "No result for terminal in step 1: killed, or stopped with its parent run"
    );
}

#[test]
fn how_a_conversation_stands_is_what_its_state_says() {
    let whole = fs::read_to_string(conversation(2).join("base_state.json")).expect("read");
    let files = events(&conversation(2));
    for (status, word, sentence) in [
        ("stuck", "stopped", "Stopped by loop detection after step 2"),
        ("paused", "cancelled", "Paused by the user after step 2"),
        (
            "waiting_for_confirmation",
            "unknown",
            "Waiting for user confirmation after step 2",
        ),
        ("idle", "unknown", "Waiting to run after step 2"),
        ("error", "error", "Failed with an error after step 2"),
        ("finished", "answered", "Answered at step 2"),
        (
            "running",
            "unknown",
            "No model reply after step 2: killed, interrupted or stopped",
        ),
    ] {
        let temp = begun(&conversation(2));
        // Without the event that records the limit.
        for file in files.iter().filter(|file| {
            !fs::read_to_string(file)
                .expect("read")
                .contains("MaxIterations")
        }) {
            put(&temp, file, &fs::read(file).expect("read"));
        }
        let status = format!("\"execution_status\":\"{status}\"");
        let state = whole.replace("\"execution_status\":\"error\"", &status);
        fs::write(temp.path().join("base_state.json"), state).expect("written");
        let row = read(temp.path()).row;
        assert_eq!(
            (row.verdict.mark.word(), &*row.verdict.sentence),
            (word, sentence)
        );
    }
}

#[test]
fn events_as_lines_are_known_by_what_they_say() {
    let run = read(&sample("tools/openhands/events/events.jsonl"));
    let row = &run.row;
    // The issue is that its timestamps have no UTC offset.
    assert_eq!((row.steps, row.events, row.issues), (3, 13, (1, 0)));
    assert_eq!((row.tokens, row.cost_usd), (Some(2_340), Some(0.00276)));
    assert_eq!(
        (&*row.verdict.sentence, row.verdict.certainty.as_str()),
        ("The agent finished at step 2", "recorded")
    );
    assert_eq!(
        read(&sample("tools/openhands/events")).row.steps,
        3,
        "the directory is named instead of its file"
    );
    // The same file name, but written by this crate.
    let temp = tempfile::tempdir().expect("a directory");
    fs::write(temp.path().join("events.jsonl"), "{\"phase\": \"INIT\"}\n").expect("written");
    let ours = RootScanner::new(temp.path().to_owned()).scan();
    assert!(ours.runs.values().all(|dir| dir.tool().is_none()) && ours.runs.len() == 1);
}

#[test]
fn a_file_whose_name_alone_is_known_becomes_what_it_says() {
    let temp = tempfile::tempdir().expect("a directory");
    fs::create_dir(temp.path().join("one")).expect("made");
    let path = temp.path().join("one/events.jsonl");
    let mut scanner = RootScanner::new(temp.path().to_owned());
    let mut keys = || {
        scanner
            .scan()
            .runs
            .into_keys()
            .map(|key| key.as_str().to_owned())
            .collect::<Vec<_>>()
    };
    // The first bytes written identify the format.
    fs::write(&path, "").expect("written");
    assert!(keys().is_empty());
    fs::copy(sample("tools/openhands/events/events.jsonl"), &path).expect("copied");
    assert_eq!(keys(), ["one/events.jsonl"]);
    assert_eq!(keys(), ["one/events.jsonl"]);
    fs::write(temp.path().join("one/steps.jsonl"), "").expect("written");
    assert_eq!(
        keys(),
        ["one/events.jsonl"],
        "an empty file next to it changes nothing"
    );
    fs::write(
        temp.path().join("one/steps.jsonl"),
        "{\"step_id\": 0, \"decision\": {}}\n",
    )
    .expect("written");
    assert_eq!(keys(), ["one"]);
}

/// Compares indexes without symbols, because symbol numbers depend on the order of the records.
fn told(index: &Index) -> impl PartialEq + std::fmt::Debug + use<> {
    let steps: Vec<_> = index
        .steps()
        .iter()
        .map(|step| {
            (
                step.span,
                step.parts.clone(),
                step.call.clone(),
                step.result_hash,
                step.unanswered,
                step.is_ok(),
            )
        })
        .collect();
    let events: Vec<_> = index
        .events()
        .iter()
        .map(|event| (event.span, event.line, event.kind, event.step_id))
        .collect();
    (
        steps,
        events,
        index.manifest().get().cloned(),
        index.issues().total(),
        index.events_file(),
    )
}

#[test]
fn events_that_come_one_by_one_make_the_same_run() {
    let from = conversation(1);
    let temp = begun(&from);
    let dir = RunDir::of_file(temp.path())
        .expect("readable")
        .expect("a conversation");
    let (mut reader, mut index) = (RunReader::new(dir.clone()), Index::default());
    let mut look = || {
        index.apply(reader.refresh(u64::MAX));
        (index.clone(), reader.is_unsettled())
    };
    for (n, file) in events(&from).iter().enumerate() {
        let bytes = fs::read(file).expect("read");
        // The writer opens the file and then writes.
        for part in [0, bytes.len() / 2] {
            put(&temp, file, &bytes[..part]);
            let (index, is_unsettled) = look();
            assert_eq!(
                (
                    index.events().len(),
                    index.passing_issues().len(),
                    is_unsettled
                ),
                (n, 1, true)
            );
        }
        put(&temp, file, &bytes);
        let (index, _) = look();
        assert_eq!(
            (index.events().len(), index.passing_issues().len()),
            (n + 1, 0)
        );
        assert_eq!(told(&index), told(&read_index(&dir)), "after {n}");
    }
}

#[test]
fn what_is_removed_or_comes_late_is_read_anew() {
    let from = conversation(1);
    let temp = begun(&from);
    let files = events(&from);
    let whole = |file: &PathBuf| fs::read(file).expect("read");
    files
        .iter()
        .filter(|file| **file != files[1])
        .for_each(|file| drop(put(&temp, file, &whole(file))));
    let dir = RunDir::of_file(temp.path())
        .expect("readable")
        .expect("a conversation");
    let (mut reader, mut index) = (RunReader::new(dir.clone()), Index::default());
    index.apply(reader.refresh(u64::MAX));
    assert_eq!(
        (index.events().len(), index.issues().count(IssueKind::Gap)),
        (19, 1)
    );
    put(&temp, &files[1], &whole(&files[1]));
    index.apply(reader.refresh(u64::MAX));
    // The issue is that its timestamps have no UTC offset.
    assert_eq!(
        (
            index.events().len(),
            index.issues().total(),
            index.issues().problems()
        ),
        (20, 1, 0)
    );
    assert_eq!(told(&index), told(&read_index(&dir)));
    fs::remove_file(
        temp.path()
            .join("events")
            .join(files[19].file_name().expect("a name")),
    )
    .expect("removed");
    index.apply(reader.refresh(u64::MAX));
    assert_eq!(index.events().len(), 19);
    put(&temp, &files[18], b"{}");
    index.apply(reader.refresh(u64::MAX));
    assert_eq!(
        told(&index),
        told(&read_index(&dir)),
        "one of the newest was rewritten"
    );
    fs::write(temp.path().join("base_state.json"), "{\"id\": ").expect("written");
    index.apply(reader.refresh(u64::MAX));
    assert_eq!(
        (index.passing_issues().len(), index.events().len()),
        (1, 19),
        "the last good state stays"
    );
}

#[test]
fn damage_in_a_file_costs_that_file() {
    let from = conversation(2);
    let files = events(&from);
    let temp = begun(&from);
    files
        .iter()
        .for_each(|file| drop(put(&temp, file, &fs::read(file).expect("read"))));
    let steps = |events: usize| {
        let dir = RunDir::of_file(temp.path())
            .expect("readable")
            .expect("a conversation");
        let index = read_index(&dir);
        assert!(index.events().len() >= events);
        for step in index.steps() {
            dir.line(|| &index, TraceFile::Steps, step.span)
                .expect("a listed step can be read");
        }
        index.steps().len()
    };
    assert_eq!(steps(9), 3);
    for file in [&files[2], &files[3], files.last().expect("one")] {
        let whole = fs::read(file).expect("read");
        // Only the last file may still be in progress.
        let events = if Some(file) == files.last() { 8 } else { 9 };
        for cut in (0..whole.len()).step_by(times(71, 7)) {
            put(&temp, file, &whole[..cut]);
            assert!(steps(events) >= 2);
            for byte in [0, b'"', b'{', 0xff] {
                let mut spoilt = whole.clone();
                spoilt[cut] = byte;
                put(&temp, file, &spoilt);
                assert!(steps(events) >= 2);
            }
        }
        put(&temp, file, &whole);
    }
    let state = fs::read(from.join("base_state.json")).expect("read");
    for cut in (state.len() / 2..state.len()).step_by(times(17, 3)) {
        fs::write(temp.path().join("base_state.json"), &state[..cut]).expect("written");
        assert_eq!(steps(9), 3);
    }
}

/// Counts replies, calls, errors and results in events of the SDK, independently of the reader.
fn counted(events: &[Value]) -> [usize; 4] {
    let kind = |event: &&Value, wanted: &str| event["kind"] == wanted;
    let all = |wanted: &str| events.iter().filter(|event| kind(event, wanted)).count();
    let replies: HashSet<&str> = events
        .iter()
        .filter_map(|event| event["llm_response_id"].as_str())
        .collect();
    let failed = events
        .iter()
        .filter(|event| event["observation"]["is_error"] == true)
        .count();
    [
        replies.len(),
        all("ActionEvent"),
        failed + all("AgentErrorEvent"),
        all("ObservationEvent") + all("AgentErrorEvent") + all("UserRejectObservation"),
    ]
}

#[test]
fn what_is_read_of_conversations_at_hand_is_what_stands_in_them() {
    let mut runs: Vec<(PathBuf, Vec<Value>)> = vec![];
    let mut files = walk(&sample("tools/openhands"));
    files.extend(foreign("openhands").iter().flat_map(|dir| walk(dir)));
    for file in files {
        let name = file
            .file_name()
            .and_then(|name| name.to_str())
            .unwrap_or_default();
        let json = |text: &str| serde_json::from_str::<Value>(text).expect("JSON");
        if name == "events.jsonl" {
            let events = fs::read_to_string(&file)
                .expect("read")
                .lines()
                .map(json)
                .collect();
            runs.push((file, events));
        } else if name == "base_state.json" && file.with_file_name("events").is_dir() {
            let dir = file.parent().expect("a directory");
            let events = events(dir)
                .iter()
                .map(|file| json(&fs::read_to_string(file).expect("read")))
                .collect();
            runs.push((dir.to_owned(), events));
        }
    }
    assert!(runs.len() >= 5);
    for (path, events) in runs {
        let run = read(&path);
        let steps: Vec<Value> = (0..run.index.steps().len()).map(|n| run.step(n)).collect();
        let sum = |count: &dyn Fn(&Value) -> usize| steps.iter().map(count).sum::<usize>();
        let results = |step: &Value, wanted: &dyn Fn(&str) -> bool| {
            let all = step["action_results"].as_array().into_iter().flatten();
            all.filter(|result| wanted(result["status"].as_str().unwrap_or_default()))
                .count()
        };
        let found = [
            steps.len(),
            sum(&|step| step["actions"].as_array().map_or(0, Vec::len)),
            sum(&|step| results(step, &|status| status == "error")),
            sum(&|step| results(step, &|status| status != "no answer")),
        ];
        // A result whose call isn't in the file is reported as an issue.
        let calls: HashSet<&str> = events
            .iter()
            .filter(|event| event["kind"] == "ActionEvent")
            .filter_map(|event| event["id"].as_str())
            .collect();
        let lost = |event: &&Value| {
            event["action_id"]
                .as_str()
                .is_some_and(|id| !calls.contains(id))
        };
        let (lost, kept): (Vec<Value>, Vec<Value>) =
            events.iter().cloned().partition(|event| lost(&event));
        assert_eq!(found, counted(&kept), "{}", path.display());
        assert_eq!(
            run.index.issues().count(IssueKind::Join),
            lost.len(),
            "{}",
            path.display()
        );
        assert_eq!(run.index.events().len(), events.len());
    }
}

#[test]
fn the_limit_that_it_was_given_is_told_with_its_iterations() {
    let run = read(&conversation(1));
    let limits = run
        .index
        .manifest()
        .get()
        .map(|run| run.limits.clone())
        .unwrap_or_default();
    let told: Vec<_> = limits
        .iter()
        .map(|limit| (limit.name, limit.limit, limit.unit, limit.used))
        .collect();
    assert_eq!(told, [("max_iterations", 500.0, "iterations", Some(7.0))]);
}

#[test]
fn a_result_that_nobody_asked_for_is_in_no_step() {
    let temp = tempfile::tempdir().expect("a directory");
    let text = fs::read_to_string(sample("tools/openhands/events/events.jsonl")).expect("read");
    let orphan = serde_json::json!({
        "id": "orphan", "source": "environment", "kind": "ObservationEvent",
        "action_id": "nobody", "tool_call_id": "nobody", "tool_name": "terminal",
        "observation": {"kind": "ExecuteBashObservation", "content": [{"type": "text", "text": "lost"}]},
    });
    let path = temp.path().join("events.jsonl");
    fs::write(&path, format!("{}\n{orphan}\n", text.trim_end())).expect("written");
    let (whole, more) = (
        read(&sample("tools/openhands/events/events.jsonl")),
        read(&path),
    );
    assert_eq!(more.row.events, whole.row.events + 1);
    assert_eq!(
        more.row.issues.0,
        whole.row.issues.0 + 1,
        "a result without a call before it"
    );
    let ends = |run: &super::Read| -> Vec<usize> {
        run.index.groups().iter().map(|group| group.end).collect()
    };
    assert_eq!(ends(&more), ends(&whole));
}
