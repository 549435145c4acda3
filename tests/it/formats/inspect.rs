//! Tests Inspect logs: several runs in one file, which is a JSON document or an archive.

use std::fs;
use std::path::Path;

use serde_json::json;

use super::{Read, read, sample};
use crate::archives::{Packed, archive};
use trace_board::format::step_head;
use trace_board::model::{Index, IssueKind, RunKey, StepHead, TraceFile};
use trace_board::trace::{RootScan, RootScanner, RunDir, RunReader, read_index};

mod damaged;

fn run(name: &str) -> Read {
    read(&sample("tools/inspect").join(name))
}

fn keys(found: &RootScan) -> Vec<&str> {
    found.runs.keys().map(RunKey::as_str).collect()
}

fn reasons(found: &RootScan) -> Vec<(&str, &str)> {
    found
        .skipped
        .iter()
        .map(|skipped| (skipped.path.as_str(), skipped.reason.as_str()))
        .collect()
}

/// Reads a run and all its steps as pages do.
fn read_run(run: &RunDir) -> Index {
    let index = read_index(run);
    for step in index.steps() {
        let line = run
            .line(|| &index, TraceFile::Steps, step.span)
            .expect("a listed step can be read");
        serde_json::from_slice::<serde_json::Value>(&line).expect("it is JSON");
    }
    index
}

/// Reads every run below a directory and all its steps as pages do.
fn read_all(dir: &Path) -> (RootScan, Vec<Index>) {
    let found = RootScanner::new(dir.to_owned()).scan();
    let indexes = found.runs.values().map(read_run).collect();
    (found, indexes)
}

#[test]
fn each_sample_and_epoch_is_a_run() {
    let (found, _) = read_all(&sample("tools/inspect"));
    let of = |log: &str| {
        ["food/a b_epoch_1", "rent_epoch_1", "rent_epoch_2"]
            .map(|run| format!("{log}/{run}"))
            .to_vec()
    };
    let logs = [
        vec!["before-any-sample.json".to_owned()],
        of("ledger.eval"),
        of("ledger.json"),
    ];
    let mut expected = logs.concat();
    expected.push("running.eval/rent_epoch_2".to_owned());
    assert_eq!(keys(&found), expected);
    assert_eq!(reasons(&found), []);
}

#[test]
fn a_sample_that_answered() {
    for log in ["ledger.json", "ledger.eval"] {
        let run = run(&format!("{log}/rent_epoch_1"));
        let row = &run.row;
        // The scorer's question isn't a step, and its 73 tokens aren't the agent's.
        assert_eq!(
            (row.steps, row.errors, row.tokens, row.issues),
            (4, 1, Some(835), (0, 0)),
            "{log}"
        );
        let told = (
            row.verdict.certainty.as_str(),
            row.verdict.sentence.as_str(),
        );
        assert_eq!(
            told,
            (
                "inferred",
                "Finished at step 3 (inferred: no error or limit recorded)"
            ),
            "no record states it"
        );
        assert_eq!(
            (row.task.as_deref(), row.model.as_deref()),
            (Some("Add up the ledger."), Some("mockllm/model"))
        );
        let manifest = run.index.manifest().get().expect("a manifest");
        assert_eq!(
            (manifest.run_id.as_deref(), manifest.usage.cached),
            (Some("u-rent-1"), None),
            "the helper doesn't record it"
        );
        assert_eq!(manifest.final_result.as_deref(), Some("The sum is 1695."));
        assert_eq!(
            (manifest.tool.as_deref(), manifest.agent.as_deref()),
            (Some("Inspect 0.3.285"), Some("react"))
        );
        let limits: Vec<_> = manifest
            .limits
            .iter()
            .map(|limit| (limit.name, limit.limit, limit.used))
            .collect();
        assert_eq!(
            limits,
            [
                ("message_limit", 50.0, None),
                ("time_limit", 600e3, Some(9e3))
            ],
            "the sample's own value takes precedence"
        );
        let steps = [run.step(0), run.step(1), run.step(2), run.step(3)];
        assert_eq!(steps[0]["decision"]["rationale"], "The rows first.");
        let rows = steps[0]["action_results"][0]["output"]
            .as_str()
            .expect("a text stored elsewhere");
        assert_eq!(rows.lines().count(), 40);
        assert_eq!(steps[1]["actions"][0]["args"]["of"], rows);
        assert_eq!(
            steps[1]["action_results"][0]["error"],
            "parsing: row 7 is no number"
        );
        assert_eq!(steps[1]["action_results"][1]["output"], "1695");
        assert_eq!(
            (&steps[2]["agent_id"], &steps[1]["agent_id"]),
            (&"helper".into(), &serde_json::Value::Null)
        );
        assert!(
            steps[3]["decision"]["final_answer"]
                .as_str()
                .is_some_and(|text| text.starts_with("Rent is 1200"))
        );
        assert_eq!(
            steps[0]["context"]["input_tokens_total"], 130,
            "cached tokens are part of it"
        );
        assert_eq!(steps[0]["state_diff"]["rows"]["after"], 40);
        assert_eq!(
            steps[2]["state_diff"]["rows"],
            serde_json::json!({"before": 40, "after": 41})
        );
        assert_eq!(
            steps[3]["state_diff"],
            serde_json::json!({"completed": {"before": false, "after": true}})
        );
        assert_eq!(
            steps[0]["critic_outputs"][0],
            serde_json::json!({"name": "progress", "score": 0.5, "reason": "halfway"})
        );
        assert_eq!(
            steps[3]["critic_outputs"],
            json!(null),
            "a score at the end belongs to no step"
        );
        let scores: Vec<_> = manifest
            .scores
            .iter()
            .filter_map(|given| Some((&*given.name, given.score?)))
            .collect();
        assert_eq!(
            scores,
            [("graded", 1.0), ("style.short", 0.75), ("style.kind", 1.0)]
        );
        let head = run.index.steps().get(3).expect("a step");
        assert!(
            head.call.contains("the tram 65"),
            "the row has the text too: {}",
            head.call
        );
    }
}

#[test]
fn limits_and_errors_are_recorded() {
    let limit = run("ledger.eval/rent_epoch_2");
    let ended = limit
        .index
        .manifest()
        .get()
        .and_then(|manifest| manifest.ended.clone())
        .expect("an end");
    assert_eq!(
        (&*ended.word, ended.measured, ended.limit, ended.unit),
        ("token", Some(280.0), Some(250.0), "tokens")
    );
    assert_eq!(
        (
            limit.row.verdict.mark.word(),
            limit.row.verdict.certainty.as_str()
        ),
        ("limit", "recorded")
    );
    assert_eq!(
        limit
            .index
            .manifest()
            .get()
            .and_then(|manifest| manifest.success),
        Some(false)
    );
    assert_eq!(
        (limit.row.answer.as_deref(), limit.row.tokens),
        (None, Some(280)),
        "the last reply isn't an answer"
    );
    let failed = run("ledger.json/food/a b_epoch_1");
    assert_eq!(
        failed.row.verdict.sentence,
        "Failed with an error after step 1: RateLimitError('slow down')"
    );
    assert_eq!(
        failed.step(1)["error"]["message"],
        "RateLimitError: slow down"
    );
    let none = run("before-any-sample.json");
    assert_eq!(
        none.row.verdict.sentence,
        "The evaluation failed with an error: no key for the model"
    );
    assert_eq!(
        (none.row.steps, none.row.issues, none.row.model_calls),
        (0, (0, 0), None)
    );
    assert_eq!(
        none.index.format().file_name(TraceFile::Events),
        "log",
        "no sample records it"
    );
}

/// Reads a log of one sample with only this reply. `came_back` is the tool's result.
fn replied(status: &str, stop: &str, call: Option<&str>, came_back: &str) -> Read {
    let temp = tempfile::tempdir().expect("a directory");
    let calls: Vec<_> = call
        .iter()
        .map(|name| json!({"id": "c", "function": name, "arguments": {}}))
        .collect();
    let message = json!({"role": "assistant", "content": "Some words.", "tool_calls": calls});
    let usage = json!({"input_tokens": 10, "output_tokens": 5, "total_tokens": 15});
    let model = json!({"event": "model", "timestamp": "2026-11-20T10:00:00Z", "model": "m",
        "output": {"model": "m", "choices": [{"message": message, "stop_reason": stop}], "usage": usage}});
    let tool = json!({"event": "tool", "timestamp": "2026-11-20T10:00:01Z", "id": "c", "result": came_back});
    let events: Vec<_> = [model].into_iter().chain(call.map(|_| tool)).collect();
    let sample = json!({
        "id": 1, "epoch": 1, "output": {"completion": "Some words."}, "events": events, "model_usage": {}});
    // The log's common fields come before the samples.
    let log = format!(
        r#"{{"version": 2, "status": "{status}", "eval": {{"run_id": "r"}}, "samples": [{sample}]}}"#
    );
    let path = temp.path().join("l.json");
    fs::write(&path, log).expect("written");
    read(&path)
}

#[test]
fn the_last_reply_tells_whether_it_is_an_answer() {
    let of = |status: &str, stop: &str, call: Option<&str>, came_back: &str| {
        let row = replied(status, stop, call, came_back).row;
        format!(
            "{}, {}: {}",
            row.verdict.certainty.as_str(),
            row.answer.unwrap_or_default(),
            row.verdict.sentence
        )
    };
    let whole = "inferred, Some words.: Finished at step 0 (inferred: no error or limit recorded)";
    assert_eq!(of("success", "stop", None, ""), whole);
    assert_eq!(of("success", "tool_calls", Some("submit"), "1"), whole);
    assert_eq!(
        of("success", "tool_calls", Some("hand_in"), "Some words."),
        whole,
        "its result is the completion"
    );
    assert_eq!(
        of("success", "tool_calls", Some("add"), "3"),
        "inferred, : Ended without an answer after step 0 (inferred: a last reply with calls)"
    );
    assert_eq!(
        of("success", "max_tokens", None, ""),
        "recorded, : Reply token limit reached in step 0"
    );
    assert_eq!(
        of("success", "content_filter", None, ""),
        "recorded, : The model refused to continue after step 0"
    );
    assert_eq!(
        of("cancelled", "stop", None, ""),
        "inferred, Some words.: Finished at step 0 (inferred from \"stop\")"
    );
}

#[test]
fn a_path_to_one_of_several_runs() {
    assert_eq!(
        run("running.eval").row.steps,
        2,
        "the only run needs no name"
    );
    assert_eq!(
        run("ledger.eval/samples/rent_epoch_1.json").row.steps,
        4,
        "its path in the archive works too"
    );
    let several =
        RunDir::of_file(&sample("tools/inspect/ledger.eval")).expect_err("three runs exist");
    assert!(
        several
            .to_string()
            .contains("3 runs: food/a b_epoch_1, rent_epoch_1, rent_epoch_2"),
        "{several}"
    );
    let unknown = RunDir::of_file(&sample("tools/inspect/ledger.eval/rent_epoch_3"))
        .expect_err("no such run");
    assert!(
        unknown
            .to_string()
            .starts_with("no run in the file has that name"),
        "{unknown}"
    );
}

/// Returns the uncompressed members of an archive.
fn members(log: &str) -> Vec<(String, Vec<u8>)> {
    let found = RootScanner::new(sample("tools/inspect")).scan();
    let of_log = found
        .runs
        .iter()
        .filter(|(key, _)| key.as_str().starts_with(log));
    let mut members = Vec::new();
    for (key, run) in of_log {
        let name = key
            .as_str()
            .strip_prefix(&format!("{log}/"))
            .expect("a name");
        members.push((
            format!("samples/{name}.json"),
            run.read_all(TraceFile::Events, u64::MAX).expect("read"),
        ));
        let header = (
            "header.json".to_owned(),
            run.read_all(TraceFile::Manifest, u64::MAX).expect("read"),
        );
        if !members.contains(&header) {
            members.insert(0, header);
        }
    }
    members
}

fn write(dir: &Path, name: &str, members: &[(String, Vec<u8>)]) {
    let packed: Vec<Packed> = members
        .iter()
        .map(|(name, bytes)| Packed::deflated(name, bytes))
        .collect();
    fs::write(dir.join(name), archive(&packed)).expect("written");
}

#[test]
fn samples_appear_as_the_log_grows_and_known_ones_stay_as_they_were_read() {
    let temp = tempfile::tempdir().expect("a directory");
    let all = members("ledger.eval");
    write(temp.path(), "l.eval", &all[..2]);
    let mut scanner = RootScanner::new(temp.path().to_owned());
    let first = scanner.scan();
    assert_eq!(keys(&first), ["l.eval/food/a b_epoch_1"]);
    let mut reader = RunReader::new(first.runs.values().next().expect("a run").clone());
    let mut index = Index::default();
    index.apply(reader.refresh(u64::MAX));
    assert_eq!(index.steps().len(), 2);
    write(temp.path(), "l.eval", &all);
    assert_eq!(scanner.scan().runs.len(), 3);
    let again = reader.refresh(u64::MAX);
    assert!(
        !again.restarted && again.steps.is_empty(),
        "its member did not change"
    );
    let line = first.runs.values().next().expect("a run").line(
        || &index,
        TraceFile::Steps,
        index.steps().get(1).expect("a step").span,
    );
    assert!(line.is_ok(), "found at its current offset");
    fs::remove_file(temp.path().join("l.eval")).expect("removed");
    assert!(scanner.scan().runs.is_empty());
}

#[test]
fn a_document_that_is_replaced_has_other_runs() {
    let temp = tempfile::tempdir().expect("a directory");
    let whole = fs::read_to_string(sample("tools/inspect/ledger.json")).expect("the sample");
    let path = temp.path().join("l.json");
    fs::write(&path, &whole).expect("written");
    let mut scanner = RootScanner::new(temp.path().to_owned());
    let found = scanner.scan();
    let run = found
        .runs
        .get(&RunKey::new("l.json/rent_epoch_2"))
        .expect("a run")
        .clone();
    let index = read_index(&run);
    let span = index.steps().get(1).expect("a step").span;
    fs::write(
        &path,
        whole.replacen("\"success\"", "\"cancelled by a person\"", 1),
    )
    .expect("written");
    let moved = run.line(|| &index, TraceFile::Steps, span);
    assert!(
        moved.is_err_and(|why| why.contains("was rewritten")),
        "no page shows bytes from another offset"
    );
    fs::write(&path, whole.replace("\"epoch\": 2", "\"epoch\": 3")).expect("written");
    assert_eq!(keys(&scanner.scan()).last(), Some(&"l.json/rent_epoch_3"));
    assert!(!run.has_files());
}

#[test]
fn an_archive_without_its_directory_is_named_with_its_place() {
    let temp = tempfile::tempdir().expect("a directory");
    let whole = fs::read(sample("tools/inspect/ledger.eval")).expect("the sample");
    let start = whole
        .windows(4)
        .rposition(|bytes| bytes == b"PK\x03\x04")
        .expect("the last member");
    fs::write(temp.path().join("l.eval"), &whole[..start + 20]).expect("written");
    let (found, indexes) = read_all(temp.path());
    assert_eq!(found.runs.len(), 3);
    let said = format!(
        "the archive has no central directory (still being written, or truncated); its members are complete up to byte {start}"
    );
    assert_eq!(reasons(&found), [("l.eval", said.as_str())]);
    let torn = indexes[0].passing_issues();
    assert!(
        torn.iter()
            .any(|issue| issue.kind == IssueKind::Torn && issue.reason == said),
        "{torn:?}"
    );
}

#[test]
fn names_are_no_paths_and_the_last_of_two_counts() {
    let temp = tempfile::tempdir().expect("a directory");
    let inner = temp.path().join("inner");
    fs::create_dir(&inner).expect("made");
    let sample = members("running.eval").pop().expect("a sample").1;
    let names = ["../../evil", "/etc/evil", "..", "", "a?b#c%20", "nul\0l"];
    let mut packed: Vec<Packed> = names
        .iter()
        .map(|name| Packed::deflated(&format!("samples/{name}.json"), &sample))
        .collect();
    packed.push(Packed::deflated("samples/twice_epoch_1.json", b"{}"));
    packed.push(Packed::deflated("samples/twice_epoch_1.json", &sample));
    packed.push(Packed::deflated("elsewhere/x.json", &sample));
    fs::write(inner.join("l.eval"), archive(&packed)).expect("written");
    let (found, indexes) = read_all(&inner);
    assert_eq!(found.runs.len(), names.len() + 1);
    assert!(indexes.iter().all(|index| index.steps().len() == 2));
    assert!(
        found
            .runs
            .values()
            .all(|run| run.path().starts_with(inner.canonicalize().expect("there")))
    );
    assert!(
        reasons(&found)[0]
            .1
            .starts_with("members with a duplicate name: 1;")
    );
    let written: Vec<_> = fs::read_dir(temp.path())
        .expect("listed")
        .chain(fs::read_dir(&inner).expect("listed"))
        .collect();
    assert_eq!(written.len(), 2, "nothing is written");
}

#[test]
fn more_members_than_16_bits_count() {
    let temp = tempfile::tempdir().expect("a directory");
    let packed: Vec<Packed> = (0..65_536)
        .map(|n| Packed::stored(&format!("samples/{n}_epoch_1.json"), b"{\"id\":1}"))
        .collect();
    fs::write(temp.path().join("l.eval"), archive(&packed)).expect("written");
    let found = RootScanner::new(temp.path().to_owned()).scan();
    assert_eq!(found.runs.len(), 65_536);
}

/// Counts replies, calls and other figures from a sample's events, independently of the reader.
fn counted(sample: &serde_json::Value) -> [usize; 3] {
    let none = Vec::new();
    let events = sample["events"]
        .as_array()
        .or_else(|| sample["transcript"]["events"].as_array())
        .unwrap_or(&none);
    // In every known log, the scorers come last.
    let is_scorer = |event: &serde_json::Value| {
        ["span_begin", "step"].contains(&event["event"].as_str().unwrap_or_default())
            && event["type"]
                .as_str()
                .is_some_and(|kind| kind.starts_with("scorer"))
    };
    let events = &events[..events.iter().position(is_scorer).unwrap_or(events.len())];
    let of = |sort: &str| {
        events
            .iter()
            .filter(|event| event["event"] == sort)
            .collect::<Vec<_>>()
    };
    let calls = |event: &&serde_json::Value| {
        event["output"]["choices"][0]["message"]["tool_calls"]
            .as_array()
            .map_or(0, Vec::len)
    };
    let failed = of("tool")
        .iter()
        .filter(|event| event["error"].is_object())
        .count();
    [
        of("model").len(),
        of("model").iter().map(calls).sum(),
        failed,
    ]
}

/// Walks the directory in `BOARD_INSPECT`; skipped without it.
#[test]
fn real_logs_have_what_their_events_count() {
    let Some(dir) = std::env::var_os("BOARD_INSPECT") else {
        eprintln!("skipped: BOARD_INSPECT names no directory of logs");
        return;
    };
    let (found, indexes) = read_all(Path::new(&dir));
    assert!(!found.runs.is_empty());
    for ((key, run), index) in found.runs.iter().zip(indexes) {
        let Ok(text) = run.read_all(TraceFile::Events, u64::MAX) else {
            continue;
        };
        let sample: serde_json::Value = serde_json::from_slice(&text).expect("JSON");
        let (mut calls, mut failed) = (0, 0);
        for step in index.steps() {
            let line = run
                .line(|| &index, TraceFile::Steps, step.span)
                .expect("a step");
            let line: serde_json::Value = serde_json::from_slice(&line).expect("JSON");
            calls += line["actions"].as_array().map_or(0, Vec::len);
            let results = line["action_results"]
                .as_array()
                .map_or(&[][..], Vec::as_slice);
            failed += results
                .iter()
                .filter(|result| {
                    ["error", "cancelled"].contains(&result["status"].as_str().unwrap_or_default())
                })
                .count();
            assert!(
                !line.to_string().contains("\"attachment://"),
                "{key}: a text was not found"
            );
        }
        assert_eq!(
            [index.steps().len(), calls, failed],
            counted(&sample),
            "{key}"
        );
    }
}

#[test]
fn messages_are_counted_where_a_limit_is_on_them() {
    let temp = tempfile::tempdir().expect("a directory");
    let path = temp.path().join("log.json");
    let text = fs::read_to_string(sample("tools/inspect/ledger.json")).expect("the sample");
    let mut log: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    log["samples"].as_array_mut().expect("a list").truncate(1);
    let mut told = |messages: usize, limit: serde_json::Value| {
        log["samples"][0]["messages"] = (0..messages)
            .map(|_| json!({"role": "user", "content": "x"}))
            .collect();
        log["samples"][0]["limit"] = limit;
        fs::write(&path, log.to_string()).expect("written");
        let run = read(&path);
        let manifest = run.index.manifest().get().cloned().expect("a manifest");
        let used = manifest
            .limits
            .iter()
            .find(|limit| limit.name == "message_limit")
            .and_then(|limit| limit.used);
        (used, manifest.ended.map(|end| (end.measured, end.limit)))
    };
    assert_eq!(told(0, json!(null)).0, None, "a log may omit them");
    assert_eq!(told(7, json!(null)).0, Some(7.0));
    let ended = told(6, json!({"type": "message", "limit": 6}));
    assert_eq!(ended, (Some(6.0), Some((Some(6.0), Some(6.0)))));
}

/// Writes a changed copy of the sample `ledger.json`.
fn changed(change: impl Fn(&mut serde_json::Value)) -> (tempfile::TempDir, std::path::PathBuf) {
    let text = fs::read_to_string(sample("tools/inspect/ledger.json")).expect("the sample");
    let mut log: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    change(&mut log);
    let temp = tempfile::tempdir().expect("a directory");
    let path = temp.path().join("log.json");
    fs::write(&path, log.to_string()).expect("written");
    (temp, path)
}

#[test]
fn a_score_at_the_end_is_the_run_s_where_an_event_alone_tells_of_it() {
    let (_temp, path) = changed(|log| {
        let first = &mut log["samples"][0];
        first.as_object_mut().expect("a sample").remove("scores");
        let events = first["events"].as_array_mut().expect("events");
        let last = events
            .iter_mut()
            .rfind(|event| event["event"] == "score")
            .expect("a score");
        last["scorer"] = "judge".into();
    });
    let run = read(&path.join("rent_epoch_1"));
    let manifest = run.index.manifest().get().expect("a manifest");
    let scores: Vec<_> = manifest
        .scores
        .iter()
        .map(|given| (&*given.name, given.score))
        .collect();
    assert_eq!(scores, [("judge", Some(1.0))]);
    let critics: Vec<usize> = run
        .index
        .steps()
        .iter()
        .map(|step| step.critics.len())
        .collect();
    assert_eq!(
        critics,
        [1, 0, 0, 0],
        "the one between the steps belongs to a step"
    );
}

#[test]
fn a_step_that_does_not_say_what_it_took_makes_the_sum_a_least() {
    assert_eq!(run("ledger.json/rent_epoch_1").row.tokens_unknown, 0);
    let (_temp, path) = changed(|log| {
        log["samples"][0]["events"][5]["output"]
            .as_object_mut()
            .expect("a reply")
            .remove("usage");
    });
    let row = read(&path.join("rent_epoch_1")).row;
    assert_eq!((row.tokens, row.tokens_unknown), (Some(685), 1));
    assert_eq!(
        row.tokens_words().as_deref(),
        Some("at least 685; 1 step doesn't record its tokens")
    );
    // The sum over some models isn't the sum over all of them, either.
    let (_temp, path) = changed(|log| {
        let second = &mut log["samples"][1];
        for event in second["events"].as_array_mut().expect("events") {
            event["output"]
                .as_object_mut()
                .into_iter()
                .for_each(|output| drop(output.remove("usage")));
        }
    });
    let of = || read(&path.join("rent_epoch_2")).row.tokens;
    assert_eq!(of(), Some(280), "as the sample records it");
    let text = fs::read_to_string(&path).expect("written");
    let more = text.replacen(
        "\"model_usage\":{",
        "\"model_usage\":{\"other/model\":{\"output_tokens\":5},",
        3,
    );
    fs::write(&path, more).expect("written");
    assert_eq!(of(), None);
}

/// A reproducible sequence of pseudorandom numbers.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % (end as u64).max(1)).expect("it is below")
    }
}

/// Logs with bytes replaced, removed or doubled. `BOARD_SPOILT=N` tries more of them.
#[test]
fn the_row_of_a_step_of_a_spoilt_log_says_what_its_page_says() {
    let temp = tempfile::tempdir().expect("a directory");
    let path = temp.path().join("log.json");
    let many = std::env::var("BOARD_SPOILT")
        .ok()
        .and_then(|many| many.parse().ok())
        .unwrap_or(12);
    let mut files = vec![sample("tools/inspect/ledger.json")];
    if many > 100 {
        let logs = super::foreign("inspect")
            .map(|dir| crate::disk::walk(&dir))
            .unwrap_or_default();
        files.extend(
            logs.into_iter()
                .filter(|path| path.extension().is_some_and(|end| end == "json")),
        );
    }
    for seed in 0..many {
        let mut numbers = Numbers(0x9e37_79b9_7f4a_7c15 ^ (seed + 1));
        let from = &files[numbers.below(files.len())];
        let mut bytes = fs::read(from).expect("a log");
        for _ in 0..1 + numbers.below(6) {
            let at = numbers.below(bytes.len());
            let end = (at + 1 + numbers.below(200)).min(bytes.len());
            match numbers.below(5) {
                0 => drop(bytes.drain(at..end)),
                1 => {
                    let again = bytes[at..end].to_vec();
                    bytes.splice(at..at, again);
                }
                2 => {
                    let elsewhere = bytes[at..end].to_vec();
                    let to = numbers.below(bytes.len());
                    bytes.splice(to..to, elsewhere);
                }
                _ => bytes[at] = b"\"{}[],:0n\\\0\n\xff"[numbers.below(13)],
            }
        }
        fs::write(&path, &bytes).expect("written");
        for dir in RootScanner::new(temp.path().to_owned())
            .scan()
            .runs
            .values()
        {
            let index = read_index(dir);
            for (n, head) in index.steps().iter().enumerate() {
                let line = dir
                    .line(|| &index, TraceFile::Steps, head.span)
                    .expect("a listed step can be read");
                let (page, _) = step_head(&line, &mut index.names().clone());
                let StepHead {
                    span,
                    line,
                    parts,
                    fate,
                    unanswered,
                    is_abandoned,
                    is_nested,
                    outside,
                    ..
                } = head.clone();
                let links = Default::default();
                let page = StepHead {
                    span,
                    line,
                    parts,
                    fate,
                    unanswered,
                    is_abandoned,
                    is_nested,
                    outside,
                    links,
                    ..page
                };
                assert_eq!(
                    *head,
                    page,
                    "seed {seed}, step {n} of {}",
                    dir.path().display()
                );
            }
        }
    }
}

/// Returns a copy of the sample log whose first sample has these members, next to a system message
/// and a text that is stored once.
fn graded(members: &serde_json::Value) -> (tempfile::TempDir, std::path::PathBuf) {
    let (temp, path) = changed(|log| {
        log["eval"]["task"] = "tests/sums".into();
        log["results"]["scores"] = json!([{"name": "match", "metrics":
            {"accuracy": {"value": 0.5}, "stderr": {"value": 0.25}}}]);
        let first = &mut log["samples"][0];
        for (key, value) in members.as_object().expect("members") {
            first[key] = value.clone();
        }
        let list = json!([
            {"content": "You add numbers.\n\nOnly **numbers**.", "role": "system"},
            {"content": "Add up the ledger.", "role": "user"},
        ]);
        first["messages"] = list;
        // The event about the scorer's grade would contradict the changed score.
        let events = first["events"].as_array_mut().expect("events");
        events.retain(|event| event["event"] != "score" || event["intermediate"] == true);
    });
    let text = fs::read_to_string(&path).expect("written");
    let log: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    fs::write(&path, in_order_of_writing(&log)).expect("written");
    (temp, path)
}

/// Returns the text of a log whose samples have their members in Inspect's order: the input and the
/// messages are before the events.
fn in_order_of_writing(log: &serde_json::Value) -> String {
    const FIRST: [&str; 5] = ["id", "epoch", "input", "target", "messages"];
    let members = |object: &serde_json::Value, without: &[&str]| {
        let members = object.as_object().expect("an object").iter();
        let others = members.filter(|(key, _)| !without.contains(&key.as_str()));
        others
            .map(|(key, value)| format!("{}:{value}", json!(key)))
            .collect::<Vec<_>>()
    };
    let sample = |sample: &serde_json::Value| {
        let first = FIRST.map(|key| format!("{}:{}", json!(key), sample[key]));
        let all = [first.to_vec(), members(sample, &FIRST)].concat();
        format!("{{{}}}", all.join(","))
    };
    let samples = log["samples"].as_array().expect("samples").iter();
    let samples: Vec<String> = samples.map(sample).collect();
    let first = members(log, &["samples"]).join(",");
    format!("{{{first},\"samples\":[{}]}}", samples.join(","))
}

#[test]
fn a_system_message_that_is_too_long_is_linked() {
    let (_temp, path) = graded(&json!({}));
    let log = fs::read_to_string(&path).expect("a log");
    let long = "Add numbers. ".repeat(30_000);
    assert!(log.contains("You add numbers."));
    fs::write(&path, log.replace("You add numbers.", &long)).expect("written");
    let board = crate::board::Board::serve(path.parent().expect("its directory"));
    board.until_read();
    let page = board.get("/runs/log.json%2Frent_epoch_1?tab=transcript");
    let page = scraper::Html::parse_document(page.text());
    let system = "#t0 .sys";
    assert_eq!(
        crate::html::texts(&page, system),
        ["SystemToo long to show here. Show the record"]
    );
    let record = crate::html::hrefs(&page, &format!("{system} a")).remove(0);
    let event = board.get(&record);
    assert!(
        event.text().contains("Add numbers. Add numbers."),
        "{record}"
    );
}

#[test]
fn a_wrong_answer_is_told_with_its_target_and_its_scorer() {
    let (_temp, path) = graded(&json!({
        "target": ["1700", "1,700"],
        "scores": {"match": {"value": "I", "answer": " 1695 ", "explanation": "**Not** 1700.\n\nIt is:\n\n- less"}},
    }));
    let run = read(&path.join("rent_epoch_1"));
    let row = &run.row;
    assert_eq!(row.verdict.sentence.as_str(), "Unsolved: match 0.00");
    let second = row.verdict.second.as_str();
    assert!(
        second.starts_with("Finished at step 3 (inferred: no error or limit recorded)."),
        "{second}"
    );
    assert!(row.end_in_brief().starts_with("Unsolved: match 0.00"));
    assert_eq!(row.target.as_deref(), Some("1700, 1,700"));
    assert_eq!(row.scored_answer.as_deref(), Some("1695"));
    assert_eq!(row.grader_tokens, Some(73), "the scorer's question");
    let sample = row.sample.as_deref().expect("a sample");
    assert_eq!(sample.words(), ["sums", "sample rent", "epoch 1"]);
    assert_eq!(
        sample.results.as_deref(),
        Some("accuracy 0.50, stderr 0.25")
    );

    let board = crate::board::Board::serve(path.parent().expect("its directory"));
    board.until_read();
    let page = |address: &str| scraper::Html::parse_document(board.get(address).text());
    let key = "/runs/log.json%2Frent_epoch_1";
    let texts = crate::html::texts;
    let opened = page(key);
    assert_eq!(texts(&opened, "#runhead h1"), ["Add up the ledger."]);
    assert_eq!(
        texts(&opened, "#runhead .graded > div"),
        [
            "target1700, 1,700",
            "answer1695",
            "match0.00",
            "scoresall scores"
        ]
    );
    assert_eq!(
        texts(&opened, "#t0 .sys summary"),
        ["You add numbers."],
        "it opens at the transcript, with the system message first"
    );
    assert_eq!(texts(&opened, "#t0 .you .prose"), ["Add up the ledger."]);
    for tab in ["?tab=steps", "?tab=events", "?tab=prompt", "/scores"] {
        let graded = texts(&page(&format!("{key}{tab}")), "#runhead .graded dt");
        assert_eq!(graded, ["target", "answer", "match", "scores"], "{tab}");
    }
    let prompt = texts(&page(&format!("{key}?tab=prompt")), "section.tabbody");
    assert!(prompt[0].contains("You add numbers."), "{prompt:?}");
    let scores = page(&format!("{key}/scores"));
    assert_eq!(texts(&scores, "#of-run .reason strong"), ["Not"]);
    assert_eq!(texts(&scores, "#of-run .reason li"), ["less"]);
    let json = board.json("/api/runs/log.json%2Frent_epoch_1");
    assert_eq!(
        (&json["target"], &json["log"], &json["verdict"]),
        (
            &"1700, 1,700".into(),
            &"log.json".into(),
            &"Unsolved: match 0.00".into()
        )
    );
    let why = board.json("/api/runs/log.json%2Frent_epoch_1/why");
    let evidence: Vec<_> = (0..3)
        .map(|at| why["evidence"][at]["text"].clone())
        .collect();
    assert_eq!(evidence[0], "Target: 1700, 1,700");
    assert!(
        evidence[1]
            .as_str()
            .is_some_and(|text| text.starts_with("Answer: ")),
        "{evidence:?}"
    );
    assert_eq!(evidence[2], "match: **Not** 1700.");
    let found = board.json("/api/runs?q=target:1700");
    assert_eq!(found["runs"].as_array().map(Vec::len), Some(1));
    let group = texts(&page("/?group=log"), ".grp");
    assert!(
        group[0].contains("sums") && group[0].contains("accuracy 0.50, stderr 0.25"),
        "{group:?}"
    );
}

#[test]
fn a_prompt_is_the_texts_of_the_user_and_follows_references() {
    let picture = format!("data:image/png;base64,iVBORw0KGgo{}", "A".repeat(101));
    let (_temp, path) = graded(&json!({
        "input": [
            {"role": "system", "content": "Not this."},
            {"role": "user", "content": [
                {"type": "text", "text": "What is this a picture of?"},
                {"type": "image", "image": picture},
            ]},
            {"role": "user", "content": "attachment://abc123"},
        ],
        "attachments": {"abc123": "A text that is \"stored\" once."},
    }));
    let board = crate::board::Board::serve(path.parent().expect("its directory"));
    board.until_read();
    let page = scraper::Html::parse_document(board.get("/runs/log.json%2Frent_epoch_1").text());
    let said = crate::html::texts(&page, "#t0 .you .prose");
    assert_eq!(
        said,
        ["What is this a picture of?\n\nA text that is \"stored\" once."]
    );
    assert_eq!(
        page.select(&scraper::Selector::parse("#t0 .you img").expect("a selector"))
            .count(),
        1
    );
}

#[test]
fn the_traceback_of_an_error_is_below_its_evidence() {
    let (_temp, path) = graded(&json!({"error": {
        "message": "ValueError('unlucky')",
        "traceback": "Traceback (most recent call last):\n  File \"a.py\", line 3\nValueError: unlucky",
        "traceback_ansi": "",
    }}));
    let board = crate::board::Board::serve(path.parent().expect("its directory"));
    board.until_read();
    let page = scraper::Html::parse_document(board.get("/runs/log.json%2Frent_epoch_1").text());
    let traceback = crate::html::texts(&page, "#verdict-panel .tb");
    assert!(
        traceback[0].contains("line 3\nValueError: unlucky"),
        "{traceback:?}"
    );
}
