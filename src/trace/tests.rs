use std::fs;
use std::time::Duration;

use serde_json::{Value, json};

use super::{EventLine, RunDir, RunEnd, RunInfo, RunReader, RunWriter};
use crate::model::{Code, Fate, Index, IssueKind, Source, StopVerdict};

const ALL: u64 = 1 << 40;

fn event(step: usize) -> String {
    format!(r#"{{"step_id": {step}, "phase": "ACT", "ts": "2026-01-01T00:00:00Z"}}"#)
}

fn reader(dir: &tempfile::TempDir, settle: Duration) -> RunReader {
    RunReader::settling(RunDir::alone(dir.path()), settle)
}

fn passing(index: &Index, kind: IssueKind) -> usize {
    index
        .passing_issues()
        .iter()
        .filter(|issue| issue.kind == kind)
        .count()
}

#[test]
fn a_missing_newline_is_reported_only_while_it_is_missing() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("events.jsonl");
    let (mut reader, mut index) = (reader(&dir, Duration::ZERO), Index::default());
    fs::write(&path, event(0)).unwrap();
    index.apply(reader.refresh(ALL));
    assert_eq!(
        (
            index.events().get(0).unwrap().fate,
            passing(&index, IssueKind::Unterminated)
        ),
        (Fate::Provisional, 1)
    );
    index.apply(reader.refresh(ALL));
    assert_eq!(passing(&index, IssueKind::Unterminated), 1);
    fs::write(&path, format!("{}\n{}\n", event(0), event(1))).unwrap();
    index.apply(reader.refresh(ALL));
    assert_eq!(
        (index.events().len(), index.events().get(0).unwrap().fate),
        (2, Fate::Good)
    );
    assert_eq!(
        (
            passing(&index, IssueKind::Unterminated),
            index.issues().total()
        ),
        (0, 0)
    );
}

#[test]
fn an_unfinished_line_may_be_rewritten() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("events.jsonl");
    for first in [String::new(), format!("{}\n", event(0))] {
        let (mut reader, mut index) = (reader(&dir, Duration::from_secs(3600)), Index::default());
        fs::write(&path, format!("{first}{}", "x".repeat(5_000))).unwrap();
        index.apply(reader.refresh(ALL));
        for times in [1, 100] {
            fs::write(
                &path,
                format!("{first}{}", format!("{}\n", event(1)).repeat(times)),
            )
            .unwrap();
            index.apply(reader.refresh(ALL));
            assert_eq!(
                (index.events_read(), index.issues().total()),
                (times + first.lines().count(), 0)
            );
        }
    }
}

fn phases(index: &Index, name: &str) -> usize {
    index
        .events()
        .iter()
        .filter(|event| index.name(event.phase) == name)
        .count()
}

/// Writes `lines` events, reads them, and changes a letter after `at`.
fn changed_inside(lines: usize, at: usize) -> (tempfile::TempDir, RunReader, Index) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("events.jsonl");
    let mut text: String = (0..lines).map(|n| event(n) + "\n").collect();
    fs::write(&path, &text).unwrap();
    let (mut reader, mut index) = (reader(&dir, Duration::from_secs(3600)), Index::default());
    index.apply(reader.refresh(ALL));
    let at = at + text[at..].find("ACT").unwrap();
    text.replace_range(at..at + 3, "END");
    fs::write(&path, text).unwrap();
    (dir, reader, index)
}

#[test]
fn what_changes_between_both_ends_of_a_file_is_read_again() {
    let (_dir, mut reader, mut index) = changed_inside(100, 3_000);
    assert_eq!(phases(&index, "END"), 0);
    let delta = reader.refresh(ALL);
    assert!(delta.restarted);
    index.apply(delta);
    assert_eq!((phases(&index, "END"), index.events().len()), (1, 100));
    assert_eq!(index.issues().total(), 0, "the current file has no issues");
}

#[cfg(unix)]
#[test]
fn a_time_set_back_hides_no_change() {
    let (dir, mut reader, mut index) = changed_inside(100, 3_000);
    let path = dir.path().join("events.jsonl");
    index.apply(reader.refresh(ALL));
    assert_eq!(phases(&index, "END"), 1);
    let time = fs::metadata(&path).unwrap().modified().unwrap();
    let text = fs::read_to_string(&path).unwrap().replace("END", "ACT");
    fs::write(&path, text).unwrap();
    fs::File::options()
        .write(true)
        .open(&path)
        .unwrap()
        .set_modified(time)
        .unwrap();
    index.apply(reader.refresh(ALL));
    assert_eq!(phases(&index, "END"), 0);
}

#[test]
fn a_file_that_is_only_touched_is_not_read_again() {
    let (dir, mut reader, mut index) = changed_inside(100, 3_000);
    index.apply(reader.refresh(ALL));
    let hour = std::time::SystemTime::now() + Duration::from_secs(3600);
    fs::File::options()
        .write(true)
        .open(dir.path().join("events.jsonl"))
        .unwrap()
        .set_modified(hour)
        .unwrap();
    let delta = reader.refresh(ALL);
    assert!(!delta.restarted && delta.events.is_empty());
}

#[test]
fn what_changes_while_a_file_grows_is_found_once_it_is_quiet() {
    use std::io::Write as _;
    let (dir, mut reader, mut index) = changed_inside(9_000, 400_000);
    let mut file = fs::OpenOptions::new()
        .append(true)
        .open(dir.path().join("events.jsonl"))
        .unwrap();
    writeln!(file, "{}", event(9_000)).unwrap();
    let mut delta = reader.refresh(ALL);
    assert_eq!(
        (delta.restarted, delta.events.len()),
        (false, 1),
        "one block is compared, but not the changed one"
    );
    let start = std::time::Instant::now();
    while !delta.restarted {
        assert!(reader.is_unsettled() && start.elapsed() < Duration::from_secs(20));
        index.apply(delta);
        delta = reader.refresh(ALL);
    }
    index.apply(delta);
    assert_eq!(phases(&index, "END"), 1);
}

#[cfg(unix)]
#[test]
fn a_manifest_of_the_same_size_and_time_is_read_again() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("manifest.json");
    fs::write(&path, r#"{"run_id": "one"}"#).unwrap();
    let time = std::time::SystemTime::now() - Duration::from_secs(3600);
    let set_back = || {
        fs::File::options()
            .write(true)
            .open(&path)
            .unwrap()
            .set_modified(time)
            .unwrap()
    };
    set_back();
    let (mut reader, mut index) = (reader(&dir, Duration::ZERO), Index::default());
    index.apply(reader.refresh(ALL));
    fs::write(&path, r#"{"run_id": "two"}"#).unwrap();
    set_back();
    index.apply(reader.refresh(ALL));
    assert_eq!(
        index.manifest().get().unwrap().run_id.as_deref(),
        Some("two")
    );
    fs::write(&path, r#"{"run_id": "two"}"#).unwrap();
    assert!(
        reader.refresh(ALL).manifest.is_none(),
        "the same content isn't reported again"
    );
    fs::write(&path, r#"{"run_id": "two", "what nobody reads": 1}"#).unwrap();
    assert!(reader.refresh(ALL).manifest.is_some());
}

/// A step as the engine writes it, with every key that readers know.
fn step(step_id: u64) -> Value {
    json!({
        "step_id": step_id,
        "agent_id": "coder",
        "observation": {"task": "t", "note": "before\u{2028}after"},
        "decision": {"mode": "act", "rationale": "try", "final_answer": null, "candidates": [], "meta": {}},
        "actions": [{"name": "run", "args": {"cmd": "ls"}}],
        "action_results": [{"status": "error", "output": null, "error": "no such file"}],
        "tool_invocations": [{"tool_name": "run", "status": "error", "attempts": 1, "latency_ms": 1.5,
            "error_category": "runtime_error", "error": "no such file"}],
        "critic_outputs": [{"critic_name": "tests", "action": "retry", "reason": "red", "score": 0.25, "details": {},
            "instruction_patch": "", "modified_prompt": "", "state_patch": {}}],
        "state_diff": {"current_step": {"before": step_id, "after": step_id + 1}},
        "context": {"input_tokens_total": 30, "output_tokens": 12, "tokens_total": 42 * (step_id + 1)},
        "parser_diagnostics": {},
        "facts": {"step": step_id},
        "error": null,
    })
}

#[test]
fn what_is_written_reads_back_without_an_issue() {
    const START: i64 = 1_795_309_020_000_000;
    let root = tempfile::tempdir().unwrap();
    let mut writer = RunWriter::create(root.path(), "run").unwrap();
    let (mut reader, mut index) = (reader_of(writer.dir()), Index::default());
    let info = RunInfo {
        started_at: START,
        model_id: Some("m".to_owned()),
        seed: json!(7),
        task_meta: json!({"budget": {"max_steps": 8}}),
        agent_name: Some("coder".to_owned()),
        pid: Some(4_000_000),
        host: Some("here".to_owned()),
        ..RunInfo::default()
    };
    writer.begin(info).unwrap();
    index.apply(reader.refresh(ALL));
    let running = index.manifest().get().unwrap();
    assert_eq!(
        (
            running.status.as_deref(),
            running.is_final(),
            running.format.name
        ),
        (Some("running"), false, "board")
    );
    assert_eq!(
        (
            running.stop_reason.as_deref(),
            running.tokens,
            running.failures.len()
        ),
        (None, None, 0)
    );
    for step_id in 0..3 {
        let ts = START + i64::try_from(step_id).unwrap() * 700_000;
        let line = EventLine {
            step_id,
            phase: "DECIDE",
            stage: "start",
            ok: true,
            payload: (),
            error: None,
            ts,
        };
        writer.event(&line).unwrap();
        writer
            .event(&EventLine {
                phase: "ACT_ERROR",
                stage: "",
                ok: false,
                error: Some("no luck"),
                ..line
            })
            .unwrap();
        writer.step(step_id, ts, &step(step_id)).unwrap();
        index.apply(reader.refresh(ALL));
    }
    let end = RunEnd {
        ended_at: Some(START + 3_000_000),
        stop: Some(StopVerdict::outside(
            Source::Critic,
            Code::CriticStop,
            Some(2),
            "low",
        )),
        final_result: Some("none".to_owned()),
        failures: vec![
            json!({"step_id": 1, "phase": "ACT", "category": "tool_error", "message": "m",
            "recoverable": true, "decision": "continue"}),
        ],
        token_usage: Some(126),
        latency_seconds: Some(3.0),
        task_result: json!({"success": false}),
        ..RunEnd::default()
    };
    writer.finish(end).unwrap();
    index.apply(reader.refresh(ALL));
    assert_eq!(
        (index.issues().total(), index.passing_issues().len()),
        (0, 0)
    );
    let manifest = index.manifest().get().unwrap();
    assert_eq!(manifest.run_id.as_deref(), Some("run"));
    assert_eq!(
        (manifest.status.as_deref(), manifest.stop_reason.as_deref()),
        (Some("completed"), Some("critic_stop"))
    );
    assert_eq!(
        (manifest.started_at, manifest.updated_at),
        (Some(START), Some(START + 3_000_000))
    );
    assert_eq!(
        (manifest.step_count, manifest.event_count, manifest.tokens),
        (Some(3), Some(6), Some(126))
    );
    assert_eq!(
        (manifest.pid, manifest.host.as_deref()),
        (Some(4_000_000), Some("here"))
    );
    assert_eq!(
        (
            index.limit("steps").agreed().copied(),
            manifest.seed,
            manifest.success
        ),
        (Some(8.0), Some(7), Some(false))
    );
    assert_eq!(
        (manifest.failures.len(), manifest.latency_s),
        (1, Some(3.0))
    );
    assert_eq!((index.steps().len(), index.events().len()), (3, 6));
    for (n, head) in index.steps().iter().enumerate() {
        assert_eq!(
            (head.fate, head.step_id),
            (Fate::Good, i64::try_from(n).ok())
        );
        assert_eq!(
            (head.actions, head.critics[0].score, head.tokens),
            (1, Some(0.25), Some(42))
        );
        let line = reader
            .dir()
            .read_span(crate::model::TraceFile::Steps, head.span)
            .unwrap();
        assert_eq!(
            serde_json::from_slice::<Value>(&line).unwrap(),
            step(n as u64)
        );
    }
    let first = index.events().get(0).unwrap();
    assert_eq!(
        (first.ok, first.ts, first.step_id),
        (true, Some(START), Some(0))
    );
    assert!(!index.events().get(1).unwrap().ok);
    // A second reader that starts after the end sees the same heads.
    let mut late = Index::default();
    late.apply(reader_of(writer.dir()).refresh(ALL));
    assert_eq!(
        (late.steps(), late.events()),
        (index.steps(), index.events())
    );
}

fn reader_of(dir: &std::path::Path) -> RunReader {
    RunReader::settling(RunDir::alone(dir), Duration::ZERO)
}

#[test]
fn a_picture_that_is_too_large_is_refused_and_not_cut() {
    let dir = tempfile::tempdir().unwrap();
    let assets = dir.path().join("assets");
    fs::create_dir(&assets).unwrap();
    fs::write(assets.join("small.png"), b"png").unwrap();
    let large = fs::File::create(assets.join("large.png")).unwrap();
    large.set_len((32 << 20) + 1).unwrap();
    let run = RunDir::alone(dir.path());
    let (path, bytes) = run.read_asset("/moved/elsewhere/small.png").unwrap();
    assert!(
        path.ends_with("assets/small.png") && bytes == b"png",
        "{}",
        path.display()
    );
    assert_eq!(
        run.read_asset("assets/large.png").unwrap_err().to_string(),
        "larger than 32 MiB"
    );
    large.set_len(32 << 20).unwrap();
    assert_eq!(
        run.read_asset("assets/large.png").unwrap().1.len(),
        32 << 20
    );
}

#[test]
fn stamps_cover_only_what_another_reader_would_return_too() {
    let dir = tempfile::tempdir().unwrap();
    let write = |file: &str, text: &str| {
        let path = dir.path().join(file);
        std::fs::write(&path, text).unwrap();
        let hour_ago = std::time::SystemTime::now() - Duration::from_secs(3600);
        std::fs::File::options()
            .append(true)
            .open(path)
            .unwrap()
            .set_modified(hour_ago)
            .unwrap();
    };
    let manifest = r#"{"run_id": "a", "status": "completed"}"#;
    write("manifest.json", manifest);
    write("steps.jsonl", "{\"step_id\": 0}\n");
    let mut reader = reader_of(dir.path());
    reader.refresh(ALL);
    let stamps = reader.stamps();
    assert!(stamps.is_some() && stamps == crate::trace::Stamps::of(reader.dir()));
    // The last good manifest is shown, but no file contains it any more.
    write("manifest.json", "{");
    reader.refresh(ALL);
    assert_eq!(reader.stamps(), None);
    write("manifest.json", manifest);
    reader.refresh(ALL);
    assert_eq!(reader.stamps(), crate::trace::Stamps::of(reader.dir()));
    write("steps.jsonl", "{\"step_id\": 7, \"agent_id\": \"other\"}\n");
    assert!(reader.refresh(ALL).restarted);
    assert_eq!(reader.stamps(), crate::trace::Stamps::of(reader.dir()));
}

#[test]
fn each_complete_record_on_a_line_counts_with_its_own_place() {
    let end =
        r#"{"run_id": "r", "step_id": 1, "phase": "END", "payload": {"stop_reason": "final"}}"#;
    let step = |id: usize| format!(r#"{{"step_id": {id}, "decision": {{"mode": "act"}}}}"#);
    for (before, behind) in [
        ("", ""),
        (event(0).as_str(), ""),
        ("{\"run_id\": \"r\", \"pha", ""),
        ("{\"run_id\": \"r\", \"payload\":", ""),
        ("{\"run_id\": \"r\", \"payload\": {\"text\": \"a \\", ""),
        ("{", "\0\0"),
        ("\0\0", "xy"),
        ("\u{feff}", "}"),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let line = format!("{before}{end}{behind}");
        fs::write(dir.path().join("events.jsonl"), format!("{line}\n")).unwrap();
        fs::write(
            dir.path().join("steps.jsonl"),
            format!("{}{}\r{}\n", step(0), step(1), step(2)),
        )
        .unwrap();
        let index = super::read_index(&RunDir::alone(dir.path()));
        let last = index.events().last().unwrap();
        assert_eq!(index.name(last.phase), "END", "{line}");
        assert_eq!((last.line, last.span.len), (1, end.len() as u64), "{line}");
        let at = usize::try_from(last.span.offset).unwrap();
        assert_eq!(line.get(at..at + end.len()), Some(end));
        assert_eq!(
            index.events().len(),
            1 + usize::from(before.ends_with('}')),
            "{line}"
        );
        assert_eq!(
            index
                .steps()
                .iter()
                .map(|step| step.step_id)
                .collect::<Vec<_>>(),
            [0, 1, 2].map(Some)
        );
        assert!(
            index
                .steps()
                .iter()
                .all(|step| step.line == 1 && step.fate == Fate::Good)
        );
        assert!(
            index
                .issues()
                .listed()
                .iter()
                .any(|issue| issue.kind == IssueKind::Joined)
        );
    }
}

#[test]
fn records_on_an_unfinished_line_are_read_again_when_it_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("events.jsonl");
    let (mut reader, mut index) = (reader(&dir, Duration::ZERO), Index::default());
    fs::write(&path, format!("{}{{\"step_id\": 1, \"pha", event(0))).unwrap();
    index.apply(reader.refresh(ALL));
    assert_eq!(index.events().len(), 1);
    fs::write(&path, format!("{}{}\n", event(0), event(1))).unwrap();
    index.apply(reader.refresh(ALL));
    assert_eq!(
        index
            .events()
            .iter()
            .map(|event| event.step_id)
            .collect::<Vec<_>>(),
        [Some(0), Some(1)]
    );
}
