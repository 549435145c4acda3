use std::fs;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::*;
use crate::error::causes;
use crate::model::{Code, Source, StopVerdict};

/// 2026-11-22T00:57:00Z.
const START: i64 = 1_795_309_020_000_000;

fn begun(root: &Path) -> RunWriter {
    let mut writer = RunWriter::create(root, "run").unwrap();
    writer
        .begin(RunInfo {
            started_at: START,
            ..RunInfo::default()
        })
        .unwrap();
    writer
}

fn event<P>(step_id: u64, ts: i64, payload: P) -> EventLine<'static, P> {
    EventLine {
        step_id,
        phase: "DECIDE",
        stage: "start",
        ok: true,
        payload,
        error: None,
        ts,
    }
}

fn text(writer: &RunWriter, file: &str) -> String {
    fs::read_to_string(writer.dir().join(file)).unwrap()
}

fn manifest(writer: &RunWriter) -> Value {
    serde_json::from_str(&text(writer, "manifest.json")).unwrap()
}

fn names(dir: &Path) -> Vec<String> {
    let name =
        |entry: std::io::Result<fs::DirEntry>| entry.unwrap().file_name().into_string().unwrap();
    let mut names: Vec<_> = fs::read_dir(dir).unwrap().map(name).collect();
    names.sort();
    names
}

/// Returns the error and its causes as a user sees them.
fn told(error: &WriteError) -> String {
    let mut text = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text
}

#[test]
fn a_name_goes_to_one_writer_however_it_is_asked_for() {
    let root = tempfile::tempdir().unwrap();
    let names = || ["x".to_owned(), "y".to_owned()];
    let first = RunWriter::create_first(root.path(), names()).unwrap();
    assert_eq!(first.run_id(), "x");
    let error = RunWriter::create(root.path(), "x").unwrap_err();
    assert!(
        error.to_string().starts_with("can't reserve disk space"),
        "{error}"
    );
    let second = RunWriter::create(root.path(), "y").unwrap();
    let taken = RunWriter::create_first(root.path(), names()).unwrap_err();
    assert!(taken.to_string().starts_with("every name"), "{taken}");
    // Nothing was written, so the names are free again.
    drop((first, second));
    assert_eq!(fs::read_dir(root.path()).unwrap().count(), 0);
    assert_eq!(RunWriter::create(root.path(), "x").unwrap().run_id(), "x");
}

#[test]
fn what_somebody_else_did_to_the_files_is_told_at_the_end() {
    let found = |harm: &dyn Fn(&Path)| {
        let root = tempfile::tempdir().unwrap();
        let mut writer = begun(root.path());
        for step in 0..3 {
            writer.event(&event(step, START, ())).unwrap();
            writer.step(step, START, &json!({"step_id": step})).unwrap();
        }
        harm(writer.dir());
        writer.finish(RunEnd::default()).unwrap();
        assert_eq!(
            manifest(&writer).get("altered").is_some(),
            !writer.altered().is_empty()
        );
        writer.altered().join("; ")
    };
    let steps = |dir: &Path| dir.join("steps.jsonl");
    assert_eq!(found(&|_| ()), "");
    assert_eq!(
        found(&|dir| fs::remove_file(steps(dir)).unwrap()),
        "steps.jsonl was removed"
    );
    let longer = |dir: &Path| {
        fs::write(steps(dir), fs::read_to_string(steps(dir)).unwrap() + "{}\n").unwrap()
    };
    assert_eq!(
        found(&longer),
        "steps.jsonl has 45 bytes, and 42 were written"
    );
    let other = |dir: &Path| {
        fs::write(
            steps(dir),
            fs::read_to_string(steps(dir)).unwrap().replace('1', "2"),
        )
        .unwrap()
    };
    assert_eq!(
        found(&other),
        "steps.jsonl contains different lines than were written"
    );
    #[cfg(unix)]
    {
        let copied = |dir: &Path| {
            fs::copy(dir.join("events.jsonl"), dir.join("x")).unwrap();
            fs::rename(dir.join("x"), dir.join("events.jsonl")).unwrap();
        };
        assert_eq!(
            found(&copied),
            "events.jsonl isn't the file that was written"
        );
        let linked = |dir: &Path| {
            fs::rename(steps(dir), dir.join("x")).unwrap();
            std::os::unix::fs::symlink("x", steps(dir)).unwrap();
        };
        assert_eq!(
            found(&linked),
            "steps.jsonl isn't the file that was written"
        );
    }
}

#[cfg(unix)]
#[test]
fn a_manifest_is_not_written_through_a_link() {
    let root = tempfile::tempdir().unwrap();
    fs::write(root.path().join("precious"), "kept").unwrap();
    let mut writer = begun(root.path());
    std::os::unix::fs::symlink(
        root.path().join("precious"),
        writer.dir().join(".manifest.json.tmp"),
    )
    .unwrap();
    writer.finish(RunEnd::default()).unwrap();
    assert_eq!(
        fs::read_to_string(root.path().join("precious")).unwrap(),
        "kept"
    );
}

#[test]
fn an_event_is_one_compact_line() {
    let root = tempfile::tempdir().unwrap();
    let mut writer = begun(root.path());
    writer
        .event(&event(3, START + 123_456, json!({"a": [1, 2.5]})))
        .unwrap();
    writer.event(&event(3, START, ())).unwrap();
    writer.event(&event(3, START, json!({}))).unwrap();
    let bare = EventLine {
        stage: "",
        error: Some("no \"luck\""),
        ok: false,
        ..event(3, START, json!({"a": 1}))
    };
    writer.event(&bare).unwrap();
    writer
        .event(&EventLine {
            stage: "",
            ..event(4, START, ())
        })
        .unwrap();
    let lines: Vec<_> = text(&writer, "events.jsonl")
        .lines()
        .map(str::to_owned)
        .collect();
    assert_eq!(
        lines,
        [
            r#"{"step_id":3,"phase":"DECIDE","ok":true,"payload":{"stage":"start","a":[1,2.5]},"ts":"2026-11-22T00:57:00.123456Z"}"#,
            r#"{"step_id":3,"phase":"DECIDE","ok":true,"payload":{"stage":"start"},"ts":"2026-11-22T00:57:00.000000Z"}"#,
            r#"{"step_id":3,"phase":"DECIDE","ok":true,"payload":{"stage":"start"},"ts":"2026-11-22T00:57:00.000000Z"}"#,
            r#"{"step_id":3,"phase":"DECIDE","ok":false,"payload":{"a":1},"error":"no \"luck\"","ts":"2026-11-22T00:57:00.000000Z"}"#,
            r#"{"step_id":4,"phase":"DECIDE","ok":true,"payload":{},"ts":"2026-11-22T00:57:00.000000Z"}"#,
        ]
    );
    assert_eq!(writer.counts(), (0, 5));
}

#[test]
fn a_record_stays_one_line_for_every_reader() {
    let root = tempfile::tempdir().unwrap();
    let mut writer = begun(root.path());
    let raw = RawValue::from_string("{ \r\n \"x\": \"\u{2028}\u{2029}\u{85}\u{e9}\"\n}".to_owned())
        .unwrap();
    let empty = RawValue::from_string("{\n}".to_owned()).unwrap();
    writer.step(0, START, &raw).unwrap();
    writer.event(&event(0, START, raw)).unwrap();
    writer.event(&event(0, START, empty)).unwrap();
    assert_eq!(
        text(&writer, "steps.jsonl"),
        "{    \"x\": \"\\u2028\\u2029\\u0085\u{e9}\" }\n"
    );
    let events = text(&writer, "events.jsonl");
    assert_eq!(events.lines().count(), 2);
    for line in events.lines() {
        let read: Value = serde_json::from_str(line).unwrap();
        assert_eq!(read["payload"]["stage"], "start");
    }
    assert!(events.contains(r#""x": "\u2028\u2029\u0085"#));
}

#[test]
fn steps_come_in_order_from_any_first_one() {
    let root = tempfile::tempdir().unwrap();
    let mut writer = begun(root.path());
    writer.step(7, START, &json!({"step_id": 7})).unwrap();
    for wrong in [7, 9, 0] {
        let error = writer.step(wrong, START, &json!({})).unwrap_err();
        assert!(matches!(error, WriteError::StepOrder { expected: 8, got } if got == wrong));
    }
    writer.step(8, START, &json!({"step_id": 8})).unwrap();
    assert_eq!(
        text(&writer, "steps.jsonl"),
        "{\"step_id\":7}\n{\"step_id\":8}\n"
    );
    assert_eq!(writer.counts(), (2, 0));
}

#[test]
fn calls_out_of_turn_are_errors() {
    let root = tempfile::tempdir().unwrap();
    let mut writer = RunWriter::create(root.path(), "run").unwrap();
    let out_of_turn = |done: Result<(), WriteError>| matches!(done, Err(WriteError::OutOfTurn(_)));
    assert!(out_of_turn(writer.event(&event(0, START, ()))));
    assert!(out_of_turn(writer.step(0, START, &json!({}))));
    assert!(out_of_turn(writer.finish(RunEnd::default())));
    writer.begin(RunInfo::default()).unwrap();
    assert!(out_of_turn(writer.begin(RunInfo::default())));
    writer.finish(RunEnd::default()).unwrap();
    assert!(out_of_turn(writer.begin(RunInfo::default())));
    assert!(out_of_turn(writer.event(&event(0, START, ()))));
    assert!(out_of_turn(writer.step(0, START, &json!({}))));
    assert!(out_of_turn(writer.finish(RunEnd::default())));
    assert_eq!(
        (writer.counts(), text(&writer, "events.jsonl").len()),
        ((0, 0), 0)
    );
}

#[test]
fn a_time_that_cannot_be_expressed_is_left_out() {
    for clock in [i64::MIN, i64::MAX, -62_167_219_200_000_001] {
        let root = tempfile::tempdir().unwrap();
        let mut writer = RunWriter::create(root.path(), "run").unwrap();
        let info = RunInfo {
            started_at: clock,
            ..RunInfo::default()
        };
        writer.begin(info).unwrap();
        writer.event(&event(0, clock, ())).unwrap();
        writer.event(&event(0, START, ())).unwrap();
        writer.event(&event(0, clock, ())).unwrap();
        writer.step(0, clock, &json_step(0.5)).unwrap();
        assert_eq!(manifest(&writer)["status"], "running");
        writer.finish(RunEnd::default()).unwrap();
        let manifest = manifest(&writer);
        assert_eq!(manifest["status"], "completed");
        assert_eq!(
            (&manifest["started_at"], &manifest["updated_at"]),
            (&Value::Null, &Value::Null)
        );
        let events = text(&writer, "events.jsonl");
        let times: Vec<_> = events
            .lines()
            .map(|line| serde_json::from_str::<Value>(line).unwrap()["ts"].is_string())
            .collect();
        assert_eq!(times, [false, true, false]);
    }
}

#[test]
fn what_json_does_not_have_is_refused_and_nothing_is_written() {
    let root = tempfile::tempdir().unwrap();
    let mut writer = begun(root.path());
    let error = writer
        .event(&event(
            2,
            START,
            [("score", f64::NAN)].into_iter().collect::<Scores>(),
        ))
        .unwrap_err();
    assert_eq!(
        told(&error),
        "event DECIDE of step 2 can't be written as JSON: payload.score is NaN"
    );
    let error = writer
        .step(2, START, &json_step(f64::INFINITY))
        .unwrap_err();
    assert_eq!(
        told(&error),
        "step 2 can't be written as JSON: critic_outputs[0].score is Infinity"
    );
    let error = writer.event(&event(2, START, [1])).unwrap_err();
    assert_eq!(
        told(&error),
        "event DECIDE of step 2 can't be written as JSON: payload has no fields"
    );
    assert_eq!(writer.counts(), (0, 0));
    assert_eq!(
        text(&writer, "steps.jsonl") + &text(&writer, "events.jsonl"),
        ""
    );
    // The id of the rejected step is still the next one.
    writer.step(2, START, &json_step(0.5)).unwrap();
    let error = writer
        .finish(RunEnd {
            cost: Some(f64::NAN),
            ..RunEnd::default()
        })
        .unwrap_err();
    assert_eq!(
        told(&error),
        "the manifest can't be written as JSON: summary.cost is NaN"
    );
    assert_eq!(manifest(&writer)["status"], "running");
    writer.finish(RunEnd::default()).unwrap();
    assert_eq!(manifest(&writer)["status"], "completed");
}

type Scores = std::collections::BTreeMap<&'static str, f64>;

fn json_step(score: f64) -> impl Serialize {
    #[derive(Serialize)]
    struct Step {
        step_id: u64,
        critic_outputs: Vec<Scores>,
    }
    Step {
        step_id: 2,
        critic_outputs: vec![Scores::from([("score", score)])],
    }
}

#[test]
fn a_line_as_long_as_readers_parse_is_written_and_a_longer_one_is_not() {
    let root = tempfile::tempdir().unwrap();
    let mut writer = begun(root.path());
    let line = |bytes: u64| "x".repeat(usize::try_from(bytes).unwrap() - 2);
    let error = writer
        .step(0, START, &line(MAX_LINE_BYTES + 1))
        .unwrap_err();
    assert!(matches!(error, WriteError::TooLong { bytes, .. } if bytes == MAX_LINE_BYTES + 1));
    writer.step(0, START, &line(MAX_LINE_BYTES)).unwrap();
    assert_eq!(
        text(&writer, "steps.jsonl").len() as u64,
        MAX_LINE_BYTES + 1
    );
}

#[test]
fn a_run_id_is_one_plain_directory_name() {
    let root = tempfile::tempdir().unwrap();
    let long = "x".repeat(201);
    for id in [
        "", ".", "..", ".hidden", "a/b", "/", "/etc", "a/", "a\\b", "a\0b", "a\nb", &long,
    ] {
        let error = RunWriter::create(root.path(), id).unwrap_err();
        assert_eq!(
            (error.kind(), error.hints().len()),
            (Kind::Usage, 1),
            "{id:?}"
        );
    }
    assert_eq!(names(root.path()), [""; 0]);
    for id in ["run-1", "a b", "\u{e9}\u{4e2d}", "a..b", &long[1..]] {
        assert_eq!(RunWriter::create(root.path(), id).unwrap().run_id(), id);
    }
}

#[test]
fn a_directory_with_a_trace_is_not_written_into() {
    let root = tempfile::tempdir().unwrap();
    for file in ["manifest.json", "steps.jsonl", "events.jsonl"] {
        let dir = root.path().join(file.replace('.', "_"));
        fs::create_dir(&dir).unwrap();
        fs::write(dir.join(file), "").unwrap();
        let error =
            RunWriter::create(root.path(), dir.file_name().unwrap().to_str().unwrap()).unwrap_err();
        assert!(
            error.to_string().ends_with("already contains a trace"),
            "{error}"
        );
        assert_eq!((error.kind(), error.hints().len()), (Kind::Usage, 2));
        assert!(error.hints()[1].contains("Earlier::open"), "{error:?}");
    }
    fs::write(root.path().join("file"), "").unwrap();
    let error = RunWriter::create(root.path(), "file").unwrap_err();
    assert_eq!(
        (error.kind(), causes(&error).count()),
        (Kind::Unreadable, 1)
    );
}

#[test]
fn a_directory_has_one_writer() {
    let root = tempfile::tempdir().unwrap();
    let unused = RunWriter::create(root.path(), "run").unwrap();
    let taken = || {
        let error = RunWriter::create(root.path(), "run").unwrap_err();
        error.to_string()
    };
    assert!(taken().contains("can't reserve disk space"), "{}", taken());
    // An unused writer leaves nothing behind.
    drop(unused);
    assert_eq!(fs::read_dir(root.path()).unwrap().count(), 0);
    let mut first = RunWriter::create(root.path(), "run").unwrap();
    first.begin(RunInfo::default()).unwrap();
    first.event(&event(0, START, ())).unwrap();
    assert!(taken().contains("already contains a trace"), "{}", taken());
    first.finish(RunEnd::default()).unwrap();
    assert_eq!(manifest(&first)["status"], "completed");
    assert_eq!(
        names(first.dir()),
        ["events.jsonl", "manifest.json", "steps.jsonl"]
    );
}

#[test]
fn the_manifest_is_refreshed_once_a_second_of_the_lines_time() {
    let root = tempfile::tempdir().unwrap();
    let mut writer = begun(root.path());
    let seen = |writer: &RunWriter| {
        let manifest = manifest(writer);
        let number = |key: &str| manifest[key].as_u64().unwrap();
        (
            number("step_count"),
            number("event_count"),
            manifest["updated_at"].as_str().unwrap()[17..26].to_owned(),
        )
    };
    let at = |steps, events, second: &str| (steps, events, second.to_owned());
    assert_eq!(seen(&writer), at(0, 0, "00.000000"));
    writer.event(&event(0, START + 999_999, ())).unwrap();
    assert_eq!(seen(&writer), at(0, 0, "00.000000"));
    writer.event(&event(0, START + 1_000_000, ())).unwrap();
    assert_eq!(seen(&writer), at(0, 2, "01.000000"));
    writer.step(0, START + 1_900_000, &json!({})).unwrap();
    assert_eq!(seen(&writer), at(0, 2, "01.000000"));
    writer.step(1, START + 2_500_000, &json!({})).unwrap();
    assert_eq!(seen(&writer), at(2, 2, "02.500000"));
    // Back by half a minute, as when a clock is adjusted.
    writer.event(&event(0, START - 27_500_000, ())).unwrap();
    assert_eq!(seen(&writer), at(2, 3, "32.500000"));
    assert_eq!(manifest(&writer)["status"], "running");
    writer.event(&event(0, START - 27_400_000, ())).unwrap();
    writer.finish(RunEnd::default()).unwrap();
    assert_eq!(seen(&writer), at(2, 4, "32.600000"));
}

fn ended(code: Code) -> Option<StopVerdict> {
    Some(StopVerdict::outside(Source::Policy, code, None, ""))
}

#[test]
fn the_status_follows_the_outcome() {
    for (code, status) in [
        (Code::Final, "completed"),
        (Code::MaxSteps, "completed"),
        (Code::Stagnation, "completed"),
        (Code::AgentFailed, "failed"),
        (Code::CancelledAfterStep, "stopped"),
    ] {
        let root = tempfile::tempdir().unwrap();
        let mut writer = begun(root.path());
        writer
            .finish(RunEnd {
                stop: ended(code),
                ..RunEnd::default()
            })
            .unwrap();
        assert_eq!(manifest(&writer)["status"], status);
    }
}

#[test]
fn the_reserve_lasts_from_the_beginning_to_the_end() {
    let root = tempfile::tempdir().unwrap();
    let mut writer = begun(root.path());
    let reserve = fs::metadata(writer.dir().join(".reserve")).unwrap();
    assert_eq!(reserve.len(), 64 << 10);
    writer.finish(RunEnd::default()).unwrap();
    assert!(!writer.dir().join(".reserve").exists());
    // A writer that is dropped in the middle doesn't leave one behind either.
    let other = root.path().join("other");
    fs::create_dir(&other).unwrap();
    drop(begun(&other));
    assert_eq!(
        names(&other.join("run")),
        ["events.jsonl", "manifest.json", "steps.jsonl"]
    );
}

#[test]
fn readers_never_see_half_a_manifest() {
    let root = tempfile::tempdir().unwrap();
    let mut writer = begun(root.path());
    let path = writer.dir().join("manifest.json");
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let mut highest = 0;
            while !done.load(Ordering::Relaxed) {
                let manifest: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
                let events = manifest["event_count"].as_u64().unwrap();
                assert!(events >= highest, "counts never decrease");
                highest = events;
            }
            highest
        });
        for second in 1..=2_000 {
            writer
                .event(&event(0, START + second * 1_000_000, ()))
                .unwrap();
        }
        done.store(true, Ordering::Relaxed);
        assert!(reader.join().unwrap() > 0);
    });
    assert_eq!(manifest(&writer)["event_count"], 2_000);
}

/// Names the directory of a small file system. Set for the copy of this test that runs inside one.
const SMALL_DISK: &str = "BOARD_TEST_SMALL_DISK";

/// Mounts a disk of 1 MiB in a separate namespace, if permitted, and runs this test again on it.
#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_leaves_whole_lines_and_a_closed_manifest() {
    if let Some(disk) = std::env::var_os(SMALL_DISK) {
        fill(Path::new(&disk));
        fs::remove_dir_all(Path::new(&disk).join("run")).unwrap();
        return fill_with_held_events(Path::new(&disk));
    }
    let disk = tempfile::tempdir().unwrap();
    let mount = r#"mount -t tmpfs -o size=1m small "$0" || exit 77; exec "$@""#;
    let inside = Command::new("unshare")
        .args(["-rm", "sh", "-c", mount])
        .args([disk.path(), &std::env::current_exe().unwrap()])
        .args([
            "--exact",
            "trace::write::tests::a_full_disk_leaves_whole_lines_and_a_closed_manifest",
        ])
        .env(SMALL_DISK, disk.path())
        .output();
    match inside {
        Ok(done)
            if done.status.code() == Some(77)
                || String::from_utf8_lossy(&done.stderr).contains("unshare") =>
        {
            eprintln!(
                "SKIPPED: no disk can be mounted here: {}",
                String::from_utf8_lossy(&done.stderr).trim()
            );
        }
        Ok(done) => {
            let said = String::from_utf8_lossy(&done.stdout);
            assert!(done.status.success() && said.contains("1 passed"), "{said}");
        }
        Err(error) => eprintln!("SKIPPED: no unshare here: {error}"),
    }
}

#[cfg(target_os = "linux")]
fn fill(disk: &Path) {
    let mut writer = begun(disk);
    let line = |step_id: u64| json!({"step_id": step_id, "observation": "x".repeat(5_000)});
    let steps = (0_u64..).find(|step_id| match writer.step(*step_id, START, &line(*step_id)) {
        Ok(()) => false,
        Err(error) => {
            let full = |source: &io::Error| source.kind() == io::ErrorKind::StorageFull;
            assert!(matches!(&error, WriteError::Io { path, source } if full(source) && path.ends_with("steps.jsonl")));
            true
        }
    });
    let steps = steps.unwrap();
    assert!(!writer.dir().join(".reserve").exists());
    // The failed line reached the end of the disk and was removed again.
    let text = text(&writer, "steps.jsonl");
    assert!(text.ends_with('\n') && text.lines().count() as u64 == steps);
    assert!(
        text.lines()
            .all(|line| serde_json::from_str::<Value>(line).is_ok())
    );
    let end = EventLine {
        phase: "END",
        stage: "",
        ok: false,
        ..event(steps, START, json!({"stop": "x".repeat(9_000)}))
    };
    writer.event(&end).unwrap();
    let failed = RunEnd {
        stop: ended(Code::AgentFailed),
        task_result: json!("x".repeat(9_000)),
        ..RunEnd::default()
    };
    writer.finish(failed).unwrap();
    let manifest = manifest(&writer);
    assert_eq!(
        (&manifest["status"], &manifest["step_count"]),
        (&json!("failed"), &json!(steps))
    );
    assert_eq!(
        names(writer.dir()),
        ["events.jsonl", "manifest.json", "steps.jsonl"]
    );
}

#[cfg(target_os = "linux")]
fn fill_with_held_events(disk: &Path) {
    let mut writer = begun(disk);
    let payload = || json!({"text": "x".repeat(3_000)});
    let mut rounds = 0;
    let error = loop {
        for _ in 0..3 {
            writer.hold(&event(0, START, payload())).unwrap();
        }
        match writer.flush() {
            Ok(()) => rounds += 1,
            Err(error) => break error,
        }
    };
    assert!(told(&error).contains("events.jsonl"), "{}", told(&error));
    // All events of the failed write were removed again.
    assert_eq!(writer.counts(), (0, 3 * rounds));
    let end = EventLine {
        phase: "END",
        ..event(0, START, payload())
    };
    writer.event(&end).unwrap();
    let text = text(&writer, "events.jsonl");
    let phases: Vec<_> = text
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap()["phase"].take())
        .collect();
    assert_eq!(phases.len() as u64, 3 * rounds + 1);
    assert_eq!(phases.last(), Some(&json!("END")));
    writer.finish(RunEnd::default()).unwrap();
    assert_eq!(writer.altered(), [""; 0]);
    assert_eq!(manifest(&writer)["event_count"], json!(3 * rounds + 1));
}

#[test]
fn held_events_are_written_with_what_follows() {
    let root = tempfile::tempdir().unwrap();
    let mut writer = begun(root.path());
    let lines = |writer: &RunWriter| {
        let count = |file| text(writer, file).lines().count() as u64;
        let there = (count("steps.jsonl"), count("events.jsonl"));
        assert_eq!(writer.counts(), there);
        there
    };
    let hold = |writer: &mut RunWriter, text: &str| {
        let payload = json!({"text": text});
        writer.hold(&event(0, START, payload)).unwrap();
    };
    hold(&mut writer, "one");
    hold(&mut writer, "two");
    assert_eq!(lines(&writer), (0, 0));
    writer.flush().unwrap();
    assert_eq!(lines(&writer), (0, 2));
    hold(&mut writer, "three");
    writer.step(0, START, &json!({"step_id": 0})).unwrap();
    assert_eq!(lines(&writer), (1, 3));
    hold(&mut writer, "four");
    writer.event(&event(1, START, ())).unwrap();
    assert_eq!(lines(&writer), (1, 5));
    let large = "x".repeat(MAX_HELD_BYTES);
    hold(&mut writer, &large);
    assert_eq!(lines(&writer), (1, 6), "more isn't held");
    writer.finish(RunEnd::default()).unwrap();
    assert_eq!(writer.altered(), [""; 0]);
    let texts: Vec<_> = text(&writer, "events.jsonl")
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap()["payload"]["text"].take())
        .collect();
    assert_eq!(
        texts,
        [
            json!("one"),
            json!("two"),
            json!("three"),
            json!("four"),
            Value::Null,
            json!(large)
        ]
    );
}

#[test]
fn the_last_manifest_takes_the_room_of_the_reserve() {
    let root = tempfile::tempdir().unwrap();
    let mut writer = begun(root.path());
    // A directory in place of the temporary file makes the first try fail, and the reserve is
    // released.
    let temp = writer.dir().join(".manifest.json.tmp");
    fs::create_dir(&temp).unwrap();
    assert!(matches!(
        writer.finish(RunEnd::default()),
        Err(WriteError::Io { .. })
    ));
    assert_eq!(
        (
            manifest(&writer)["status"].as_str(),
            writer.dir().join(".reserve").exists()
        ),
        (Some("running"), false)
    );
    fs::remove_dir(&temp).unwrap();
    writer.finish(RunEnd::default()).unwrap();
    assert_eq!(manifest(&writer)["status"], "completed");
}

#[test]
fn a_writer_that_writes_nothing_leaves_only_directories_that_were_there() {
    let root = tempfile::tempdir().unwrap();
    let dir = |name: &str| root.path().join("runs").join(name);
    drop(RunWriter::create(root.path().join("runs"), "new").unwrap());
    assert!(!dir("new").exists() && root.path().join("runs").exists());
    fs::create_dir(dir("there")).unwrap();
    drop(RunWriter::create(root.path().join("runs"), "there").unwrap());
    assert!(dir("there").exists(), "the writer didn't create it");
    let mut writer = RunWriter::create(root.path().join("runs"), "begun").unwrap();
    writer.begin(RunInfo::default()).unwrap();
    drop(writer);
    assert!(dir("begun").join("manifest.json").exists());
}
