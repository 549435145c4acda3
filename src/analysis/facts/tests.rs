//! Tests that the facts in an index are enough to re-evaluate the rules.

use crate::analysis::rule_replay::replay_from;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::*;
use crate::model::{Source, Span, TraceFile};
use crate::stop::StopSet;
use crate::trace::{RunDir, RunReader};

/// A run directory, read to its end.
pub(crate) struct Files {
    pub(crate) index: Index,
    dir: RunDir,
}

impl Files {
    pub(crate) fn open(path: &Path) -> Self {
        let dir = RunDir::alone(path);
        let mut index = Index::default();
        index.apply(RunReader::settling(dir.clone(), Duration::ZERO).refresh(u64::MAX));
        Self { index, dir }
    }

    pub(crate) fn record(&self, depth: Depth) -> Record {
        record(&self.index, self, depth)
    }
}

impl Lines for Files {
    fn line(&self, file: TraceFile, span: Span) -> Result<Vec<u8>, String> {
        self.dir
            .read_span(file, span)
            .map_err(|error| error.to_string())
    }
    fn manifest(&self) -> Result<Vec<u8>, String> {
        self.dir
            .read_all(TraceFile::Manifest, 1 << 20)
            .map_err(|error| error.to_string())
    }
    fn has_asset(&self, _: &str) -> Result<(), String> {
        Ok(())
    }
}

/// Returns the run directories in a folder of the project.
pub(crate) fn runs_below(folder: &str) -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
    let mut runs: Vec<PathBuf> = std::fs::read_dir(&root)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    runs.retain(|path| path.join("manifest.json").is_file());
    runs.sort();
    assert!(!runs.is_empty(), "{} contains no runs", root.display());
    runs
}

/// Removes what an index has no room for: full texts and reasons.
fn without_texts(mut facts: StepFacts) -> StepFacts {
    if let Text::Known(text) = &facts.text
        && !text.is_empty()
    {
        facts.text = Text::Redacted {
            len: text.len() as u64,
            hash: crate::stop::text_hash(text),
        };
    }
    facts
        .critics
        .iter_mut()
        .for_each(|critic| critic.reason = None);
    facts.final_answer = facts.final_answer.map(|_| String::new());
    facts
}

#[test]
fn an_index_keeps_all_facts_of_our_own_runs_except_texts() {
    for path in runs_below("sample_runs") {
        let files = Files::open(&path);
        let (heads, lines) = (files.record(Depth::Heads), files.record(Depth::Texts));
        assert_eq!((heads.unread, lines.unread), (0, 0), "{}", path.display());
        let bare = |record: Record| {
            record
                .facts
                .into_iter()
                .map(without_texts)
                .collect::<Vec<_>>()
        };
        assert_eq!(bare(heads), bare(lines), "{}", path.display());
    }
}

/// Counts the lines that are read.
struct Counted<'a>(&'a Files, std::cell::Cell<usize>);

impl Lines for Counted<'_> {
    fn line(&self, file: TraceFile, span: Span) -> Result<Vec<u8>, String> {
        self.1.set(self.1.get() + 1);
        self.0.line(file, span)
    }
    fn manifest(&self) -> Result<Vec<u8>, String> {
        self.0.manifest()
    }
    fn has_asset(&self, _: &str) -> Result<(), String> {
        Ok(())
    }
}

#[test]
fn lines_without_facts_are_not_opened() {
    let of = Path::new(env!("CARGO_MANIFEST_DIR")).join("sample_runs/final");
    let dir = tempfile::tempdir().unwrap();
    for name in ["manifest.json", "events.jsonl"] {
        std::fs::copy(of.join(name), dir.path().join(name)).unwrap();
    }
    let whole = std::fs::read_to_string(of.join("steps.jsonl")).unwrap();
    let without_facts = |n: usize| {
        format!(
            "{{]{n}\n[{n}]\n{{\"step_id\": {}}}\n{{\"step_id\": {}, \"facts\": {{\"reached\": 1}}}}\n",
            2 * n,
            2 * n + 1
        )
    };
    let first = whole.lines().count();
    let steps = whole.clone() + &(first..first + 50).map(without_facts).collect::<String>();
    std::fs::write(dir.path().join("steps.jsonl"), steps).unwrap();
    let files = Files::open(dir.path());
    let reads = |depth| {
        let counted = Counted(&files, Default::default());
        let record = record(&files.index, &counted, depth);
        assert_eq!((record.facts.len(), record.unread), (first + 200, 200));
        counted.1.get()
    };
    assert_eq!(reads(Depth::Heads), reads(Depth::Hashes));
    assert!(
        reads(Depth::Heads) <= 1,
        "only the last event: {}",
        reads(Depth::Heads)
    );
    let with_an_object = first + 50;
    assert!(
        reads(Depth::Texts) <= with_an_object + 1,
        "{}",
        reads(Depth::Texts)
    );
}

#[test]
fn replaying_the_recorded_rules_gives_the_recorded_verdict() {
    for path in runs_below("sample_runs") {
        let files = Files::open(&path);
        let record = files.record(Depth::Texts);
        let manifest = files.index.manifest().get().expect("a manifest");
        let rules = record
            .rules
            .clone()
            .expect("board's engine records its rules");
        let set: StopSet = StopSet::builder()
            .rules(rules)
            .build_fail_closed()
            .expect("sound rules");
        let again = replay_from(&set, record.resumed.clone(), &record.facts).verdict;
        let again =
            again.map(|verdict| (verdict.criterion, verdict.code.to_string(), verdict.step));
        let stop = manifest.stop.as_ref();
        // Checks before the first step aren't rules.
        let stop = stop.filter(|stop| stop.source != Source::Preflight);
        let recorded =
            stop.map(|stop| (stop.criterion.to_string(), stop.code.to_string(), stop.step));
        assert_eq!(again, recorded, "{}", path.display());
    }
}

#[test]
fn an_infinite_score_is_a_fact() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus/q060/q060_nan_infinity");
    let record = Files::open(&path).record(Depth::Heads);
    let scores: Vec<Option<f64>> = record
        .facts
        .iter()
        .map(|facts| facts.critics.first()?.score)
        .collect();
    assert_eq!(
        scores[..4],
        [
            None,
            Some(f64::INFINITY),
            Some(f64::NEG_INFINITY),
            Some(0.0)
        ]
    );
}

#[test]
fn facts_of_a_qitos_run_are_inferred_from_its_files() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/corpus/model_driven/qitos_coding_20260222_044138_940343");
    let record = Files::open(&path).record(Depth::Texts);
    assert_eq!((record.unread, record.rules.is_none()), (0, true));
    assert!(!record.inferred.is_empty());
    // This format doesn't record the tokens of a request, and the events show that a model was
    // called.
    assert!(
        record.facts.iter().all(|facts| facts.usage.is_none()),
        "{:?}",
        record.facts
    );
    let [first, second] = record.facts.as_slice() else {
        panic!("two steps: {:?}", record.facts)
    };
    assert!(first.t_start_ms < first.t_end_ms && first.t_end_ms <= second.t_start_ms);
    assert!(
        record
            .facts
            .iter()
            .all(|facts| facts.text.known().is_some_and(|text| !text.is_empty()))
    );
}

#[test]
fn a_run_that_starts_over_in_a_used_directory_has_no_steps_before_its_first_line() {
    let used = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus/q060/q060_rerun_same_id");
    let lines = |name: &str| -> Vec<String> {
        std::fs::read_to_string(used.join(name))
            .unwrap()
            .lines()
            .map(|line| format!("{line}\n"))
            .collect()
    };
    let (steps, events) = (lines("steps.jsonl"), lines("events.jsonl"));
    let first_run = steps
        .iter()
        .skip(1)
        .position(|line| line.contains("\"step_id\": 0"))
        .unwrap()
        + 1;
    let began = events
        .iter()
        .rposition(|line| line.contains("\"INIT\""))
        .unwrap();
    let decided = began
        + events[began..]
            .iter()
            .position(|line| line.contains("decision_ready"))
            .unwrap();
    let dir = tempfile::tempdir().unwrap();
    std::fs::copy(used.join("manifest.json"), dir.path().join("manifest.json")).unwrap();
    std::fs::write(dir.path().join("steps.jsonl"), steps[..first_run].concat()).unwrap();
    std::fs::write(dir.path().join("events.jsonl"), events[..=decided].concat()).unwrap();
    let files = Files::open(dir.path());
    assert_eq!(
        (files.index.segments().len(), files.index.steps().len()),
        (2, first_run)
    );
    assert_eq!(
        files.index.newest_start(),
        first_run,
        "the existing lines belong to the other run"
    );
    let record = files.record(Depth::Heads);
    assert_eq!((record.facts.len(), record.lost), (0, None));
    // With its first line, the run has one step.
    std::fs::write(dir.path().join("steps.jsonl"), steps[..=first_run].concat()).unwrap();
    assert_eq!(Files::open(dir.path()).record(Depth::Heads).facts.len(), 1);
}

/// Writes a QitOS run with these files. Skips empty ones.
fn written(manifest: &str, steps: &str, events: &str) -> (tempfile::TempDir, Files) {
    let dir = tempfile::tempdir().unwrap();
    for (name, text) in [
        ("manifest.json", manifest),
        ("steps.jsonl", steps),
        ("events.jsonl", events),
    ] {
        if !text.is_empty() {
            std::fs::write(dir.path().join(name), text).unwrap();
        }
    }
    let files = Files::open(dir.path());
    (dir, files)
}

/// Returns a rule's verdict on the run, and the step.
fn told(files: &Files, rule: &str) -> (&'static str, Option<u64>) {
    use crate::analysis::whatif::RuleSet;
    let rule_set = RuleSet::new(vec![rule.parse().unwrap()]).unwrap();
    let result = rule_set
        .ask(&files.record(rule_set.depth()), false)
        .remove(0);
    (result.found.words(), result.step)
}

fn row(files: &Files) -> crate::analysis::summary::Summary {
    use crate::analysis::life::ExternalFacts;
    crate::analysis::summary::summary(
        &crate::model::RunKey::new("r"),
        String::new(),
        &files.index,
        ExternalFacts::default(),
    )
}

/// Returns the events of `count` rounds, from the first to the end.
fn rounds(count: u64) -> String {
    let event = |id: u64, phase: &str, stage: &str| {
        format!(
            r#"{{"step_id": {id}, "phase": "{phase}", "ok": true, "ts": "2026-03-01T10:00:0{id}+00:00", "payload": {{"stage": "{stage}", "stop_reason": "final"}}}}"#
        ) + "\n"
    };
    let round = |id| event(id, "DECIDE", "state_ready") + &event(id, "ACT", "start");
    event(0, "INIT", "") + &(0..count).map(round).collect::<String>() + &event(count - 1, "END", "")
}

/// Returns the line of a step that calls a tool.
fn line(id: u64) -> String {
    format!(
        r#"{{"step_id": {id}, "decision": {{"mode": "act", "actions": [{{"name": "read", "args": {{}}}}]}}, "action_results": [{{"ok": true}}], "state_diff": {{"n": {{"before": {id}, "after": {}}}}}}}"#,
        id + 1
    ) + "\n"
}

#[test]
fn steps_counted_only_in_the_summary_have_no_line() {
    let manifest = r#"{"run_id": "r", "status": "completed", "step_count": 0, "event_count": 1,
        "summary": {"stop_reason": "final", "steps": 6, "task_result": {"metrics": {"steps": 6}}}}"#;
    let setup = r#"{"step_id": 0, "phase": "toolset_setup_start", "ok": true, "ts": "2026-03-01T10:00:00+00:00"}"#;
    let (_dir, files) = written(manifest, "", &format!("{setup}\n"));
    assert_eq!(
        files.record(Depth::Heads).lost,
        Some(Lost {
            count: 6,
            from: 0,
            is_skipped: false
        })
    );
    assert_eq!(told(&files, "max_steps=3"), ("unknown", None));
    let row = row(&files);
    assert_eq!(
        (row.steps_known(), row.tool_calls, row.tool_errors),
        (None, None, None)
    );
    let issues = crate::analysis::health::issues(&files.index);
    let missing = |issue: &&crate::analysis::health::FileIssue| issue.file == TraceFile::Steps;
    assert_eq!(
        issues.iter().find(missing).map(|issue| &*issue.reason),
        Some("file not found, although the run had steps")
    );
}

#[test]
fn the_step_count_is_unknown_if_lines_are_missing() {
    let manifest = r#"{"run_id": "r", "status": "completed", "step_count": 3, "summary": {"stop_reason": "final"}}"#;
    let (_dir, files) = written(manifest, &line(0), &rounds(3));
    let lacking = row(&files);
    assert_eq!(
        (
            lacking.steps_known(),
            lacking.tool_calls,
            lacking.tool_errors
        ),
        (None, None, None)
    );
    let measures = crate::analysis::compare::measures(&lacking, &files.index);
    let known = measures
        .iter()
        .filter(|measure| measure.value.is_some())
        .map(|measure| measure.id);
    assert!(
        known
            .clone()
            .all(|id| !["steps", "tool_calls", "critic_retries", "errors"].contains(&id)),
        "{measures:?}"
    );
    let (_whole, whole) = written(manifest, &(line(0) + &line(1) + &line(2)), &rounds(3));
    let full = row(&whole);
    assert_eq!(
        (full.steps_known(), full.tool_calls, full.tool_errors),
        (Some(3), Some(3), Some(0))
    );
    let says = crate::analysis::compare::compare(&whole.index, &files.index)
        .sentence(&whole.index, &files.index);
    assert!(
        says.ends_with(
            "B's lines end here, although 2 more steps ran. Same actions in the first step."
        ),
        "{says}"
    );
}

#[test]
fn lines_that_are_not_steps_do_not_count() {
    let manifest = r#"{"run_id": "r", "status": "completed", "step_count": 3, "summary": {"stop_reason": "final"}}"#;
    let odd = "{\"step_id\": null, \"decision\": \"text\"}\n\"a string\"\n";
    let (_dir, files) = written(manifest, &(line(0) + &line(1) + odd + &line(2)), &rounds(3));
    assert_eq!(told(&files, "max_steps=2"), ("earlier", Some(1)));
    assert_eq!(told(&files, "max_steps=3"), ("unknown", None));
    assert_eq!(told(&files, "max_steps=4"), ("unknown", None));
    assert_eq!(row(&files).steps_known(), None);
    // An unreadable line is a step if there are as many rounds as lines.
    let (_dir, torn) = written(
        manifest,
        &(line(0) + "{\"step_id\": 1, \"dec\n" + &line(2)),
        &rounds(3),
    );
    assert_eq!(told(&torn, "max_steps=3"), ("same", Some(2)));
    assert_eq!(
        (
            row(&torn).steps_known(),
            row(&torn).tool_calls,
            row(&torn).errors_known()
        ),
        (Some(3), None, None)
    );
    assert_eq!(torn.record(Depth::Heads).unread, 1);
    for rule in [
        "stop_on_tool=write",
        "consecutive_errors=1",
        "critic_below=judge:0.5",
        "keyword=a",
        "stagnation=1",
    ] {
        assert_eq!(told(&torn, rule), ("unknown", None), "{rule}");
    }
}

#[test]
fn engine_errors_are_known_from_events_or_the_failure_report() {
    let manifest = |failures: &str| {
        format!(
            r#"{{"run_id": "r", "status": "completed", "step_count": 2, "summary": {{"stop_reason": "final", "failure_report": {{"failures": [{failures}]}}}}}}"#
        )
    };
    let steps = line(0) + &line(1);
    let (_dir, with_events) = written(&manifest(""), &steps, &rounds(2));
    assert_eq!(
        told(&with_events, "consecutive_errors=1"),
        ("not reached", None)
    );
    let (_dir, without) = written(&manifest(""), &steps, "");
    assert_eq!(told(&without, "consecutive_errors=1"), ("unknown", None));
    assert_eq!(
        told(&without, "consecutive_errors=3"),
        ("not reached", None),
        "the run has only two steps"
    );
    let failure =
        r#"{"step_id": 0, "phase": "DECIDE", "category": "model_error", "message": "reset"}"#;
    let (_dir, reported) = written(&manifest(failure), &steps, "");
    assert_eq!(
        told(&reported, "consecutive_errors=1"),
        ("earlier", Some(0))
    );
}

#[test]
fn a_step_without_a_request_used_no_tokens_only_if_other_steps_record_theirs() {
    let manifest = r#"{"run_id": "r", "status": "completed", "step_count": 2, "summary": {"stop_reason": "final"}}"#;
    let (_dir, untold) = written(manifest, &(line(0) + &line(1)), &rounds(2));
    let record = untold.record(Depth::Heads);
    assert!(
        record
            .facts
            .iter()
            .all(|facts| facts.usage.is_none() && facts.cost().is_none()),
        "{:?}",
        record.facts
    );
    assert!(
        !record
            .inferred
            .contains(&"a step without a model request is assumed to have used no tokens")
    );
    for rule in ["token_budget=100", "max_cost=0.01"] {
        assert_eq!(told(&untold, rule), ("unknown", None), "{rule}");
    }
    let context = r#""context": {"input_tokens_total": 90, "output_tokens": 9, "tokens_total": 99}, "state_diff""#;
    let (_dir, says) = written(
        manifest,
        &(line(0).replace("\"state_diff\"", context) + &line(1)),
        &rounds(2),
    );
    let tokens = says
        .record(Depth::Heads)
        .facts
        .iter()
        .map(|facts| facts.usage.map(Usage::total))
        .collect::<Vec<_>>();
    assert_eq!(tokens, [Some(99), Some(0)]);
    assert_eq!(told(&says, "token_budget=100"), ("not reached", None));
}

#[test]
fn a_failed_request_has_no_tokens_and_resets_no_total() {
    let manifest = r#"{"run_id": "r", "status": "failed", "step_count": 4, "summary": {"stop_reason": "unrecoverable_error"}}"#;
    let step = |id: u64, read: u64, wrote: u64, total: u64| {
        let context = format!(
            r#""context": {{"input_tokens_total": {read}, "output_tokens": {wrote}, "tokens_total": {total}}}, "state_diff""#
        );
        line(id).replace("\"state_diff\"", &context)
    };
    let steps =
        step(0, 260, 19, 279) + &step(1, 298, 0, 0) + &step(2, 315, 22, 616) + &step(3, 358, 0, 0);
    let (_dir, files) = written(manifest, &steps, "");
    let of = |n| {
        (
            files.index.tokens_of(n),
            files
                .index
                .steps()
                .get(n)
                .unwrap()
                .usage_alone(files.index.tokens_before(n))
                .input,
        )
    };
    assert_eq!(
        [0, 1, 2, 3].map(of),
        [
            (Some(279), Some(260)),
            (None, None),
            (Some(337), Some(315)),
            (None, None)
        ]
    );
    assert_eq!(row(&files).tokens, Some(616));
    let tokens: Vec<_> = files
        .record(Depth::Heads)
        .facts
        .iter()
        .map(|facts| facts.usage.map(Usage::total))
        .collect();
    assert_eq!(tokens, [0, 1, 2, 3].map(|n| of(n).0));
    // Another run in the same directory starts at zero.
    let (_dir, again) = written(
        manifest,
        &(steps + &step(0, 90, 9, 99) + &step(1, 1, 1, 101)),
        "",
    );
    assert_eq!(
        [4, 5].map(|n| again.index.tokens_of(n)),
        [Some(99), Some(2)]
    );
}

#[test]
fn a_single_time_gives_no_duration() {
    use crate::analysis::timing::took;
    use crate::analysis::timing::took_ms;
    let event = |second: u64, phase: &str| {
        format!(
            r#"{{"step_id": 0, "phase": "{phase}", "ok": true, "ts": "2026-03-01T10:00:0{second}+00:00", "payload": {{"stage": "start"}}}}"#
        ) + "\n"
    };
    let took = |manifest: &str, events: &str| {
        let (_dir, files) = written(manifest, &line(0), events);
        (
            took_ms(&files.index),
            files.index.round_of(0).and_then(took),
        )
    };
    let manifest = r#"{"run_id": "r", "status": "completed", "summary": {"stop_reason": "final"}}"#;
    assert_eq!(took(manifest, &event(1, "ACT")), (None, None));
    // Two equal times are a duration.
    assert_eq!(
        took(manifest, &(event(1, "ACT") + &event(1, "REDUCE"))),
        (Some(0.0), Some(0))
    );
    assert_eq!(
        took(manifest, &(event(1, "ACT") + &event(3, "REDUCE"))),
        (Some(2e3), Some(2_000_000))
    );
    // A recorded duration takes precedence.
    let latency = r#"{"run_id": "r", "status": "completed", "latency_seconds": 1.5, "summary": {"stop_reason": "final"}}"#;
    assert_eq!(took(latency, &event(1, "ACT")), (Some(1_500.0), None));
}

#[test]
fn a_step_without_a_state_diff_may_have_changed_the_state() {
    let manifest = r#"{"run_id": "r", "status": "completed", "step_count": 3, "summary": {"stop_reason": "final"}}"#;
    let untold = |id: u64| format!("{{\"step_id\": {id}, \"decision\": {{\"mode\": \"wait\"}}}}\n");
    let still = |id: u64| {
        format!(
            "{{\"step_id\": {id}, \"decision\": {{\"mode\": \"wait\"}}, \"state_diff\": {{}}}}\n"
        )
    };
    let (_dir, files) = written(manifest, &(0..3).map(still).collect::<String>(), &rounds(3));
    assert_eq!(told(&files, "stagnation=2"), ("same", Some(2)));
    let (_dir, files) = written(
        manifest,
        &(0..3).map(untold).collect::<String>(),
        &rounds(3),
    );
    assert_eq!(told(&files, "stagnation=2"), ("unknown", None));
}
