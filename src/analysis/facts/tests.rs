//! What an index keeps of the facts is enough to ask the rules again.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::*;
use crate::model::{Source, Span, TraceFile};
use crate::stop::StopSet;
use crate::trace::{RunDir, RunReader};

/// A run directory read to its end.
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
        self.dir.read_span(file, span).map_err(|error| error.to_string())
    }
    fn manifest(&self) -> Result<Vec<u8>, String> {
        self.dir.read_all(TraceFile::Manifest, 1 << 20).map_err(|error| error.to_string())
    }
    fn has_asset(&self, _: &str) -> Result<(), String> {
        Ok(())
    }
}

/// The run directories below a folder of the project.
pub(crate) fn runs_below(folder: &str) -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
    let mut runs: Vec<PathBuf> = std::fs::read_dir(&root).unwrap().map(|entry| entry.unwrap().path()).collect();
    runs.retain(|path| path.join("manifest.json").is_file());
    runs.sort();
    assert!(!runs.is_empty(), "{} has runs", root.display());
    runs
}

/// The facts without what an index has no room for: whole texts and reasons.
fn without_texts(mut facts: StepFacts) -> StepFacts {
    if let Text::Known(text) = &facts.text
        && !text.is_empty()
    {
        facts.text = Text::Redacted { len: text.len() as u64, hash: crate::stop::text_hash(text) };
    }
    facts.critics.iter_mut().for_each(|critic| critic.reason = None);
    facts.final_answer = facts.final_answer.map(|_| String::new());
    facts
}

#[test]
fn an_index_keeps_all_facts_of_our_own_runs_but_texts() {
    for path in runs_below("sample_runs") {
        let files = Files::open(&path);
        let (heads, lines) = (files.record(Depth::Heads), files.record(Depth::Texts));
        assert_eq!((heads.unread, lines.unread), (0, 0), "{}", path.display());
        let bare = |record: Record| record.facts.into_iter().map(without_texts).collect::<Vec<_>>();
        assert_eq!(bare(heads), bare(lines), "{}", path.display());
    }
}

#[test]
fn the_recorded_rules_over_what_was_read_give_the_recorded_verdict() {
    for path in runs_below("sample_runs") {
        let files = Files::open(&path);
        let record = files.record(Depth::Texts);
        let manifest = files.index.manifest().get().expect("a manifest");
        let rules = record.rules.clone().expect("our own engine records its rules");
        let set: StopSet = StopSet::builder().rules(rules).build_fail_closed().expect("sound rules");
        let again = set.replay_from(record.resumed.clone(), &record.facts).verdict;
        let again = again.map(|verdict| (verdict.criterion, verdict.code.to_string(), verdict.step));
        let stop = manifest.stop.as_ref();
        // Checks before the first step are no rules.
        let stop = stop.filter(|stop| stop.source != Source::Preflight);
        let recorded = stop.map(|stop| (stop.criterion.to_string(), stop.code.to_string(), stop.step));
        assert_eq!(again, recorded, "{}", path.display());
    }
}

#[test]
fn an_infinite_score_is_a_fact() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus/q060/q060_nan_infinity");
    let record = Files::open(&path).record(Depth::Heads);
    let scores: Vec<Option<f64>> = record.facts.iter().map(|facts| facts.critics.first()?.score).collect();
    assert_eq!(scores[..4], [None, Some(f64::INFINITY), Some(f64::NEG_INFINITY), Some(0.0)]);
}

#[test]
fn a_run_of_qitos_is_told_as_far_as_its_files_go() {
    let path =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus/model_driven/qitos_coding_20260222_044138_940343");
    let record = Files::open(&path).record(Depth::Texts);
    assert_eq!((record.unread, record.rules.is_none()), (0, true));
    assert!(!record.inferred.is_empty());
    // This layout does not say what a request cost, and the events say that a model was asked.
    assert!(record.facts.iter().all(|facts| facts.usage.is_none()), "{:?}", record.facts);
    let [first, second] = record.facts.as_slice() else { panic!("two steps: {:?}", record.facts) };
    assert!(first.t_start_ms < first.t_end_ms && first.t_end_ms <= second.t_start_ms);
    assert!(record.facts.iter().all(|facts| facts.text.known().is_some_and(|text| !text.is_empty())));
}

#[test]
fn a_run_that_starts_over_in_a_used_directory_has_no_steps_before_its_first_line() {
    let used = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus/q060/q060_rerun_same_id");
    let lines = |name: &str| -> Vec<String> {
        std::fs::read_to_string(used.join(name)).unwrap().lines().map(|line| format!("{line}\n")).collect()
    };
    let (steps, events) = (lines("steps.jsonl"), lines("events.jsonl"));
    let first_run = steps.iter().skip(1).position(|line| line.contains("\"step_id\": 0")).unwrap() + 1;
    let began = events.iter().rposition(|line| line.contains("\"INIT\"")).unwrap();
    let decided = began + events[began..].iter().position(|line| line.contains("decision_ready")).unwrap();
    let dir = tempfile::tempdir().unwrap();
    std::fs::copy(used.join("manifest.json"), dir.path().join("manifest.json")).unwrap();
    std::fs::write(dir.path().join("steps.jsonl"), steps[..first_run].concat()).unwrap();
    std::fs::write(dir.path().join("events.jsonl"), events[..=decided].concat()).unwrap();
    let files = Files::open(dir.path());
    assert_eq!((files.index.segments().len(), files.index.steps().len()), (2, first_run));
    assert_eq!(files.index.newest_start(), first_run, "the lines that are there are the other run's");
    let record = files.record(Depth::Heads);
    assert_eq!((record.facts.len(), record.lost), (0, None));
    // With its first line it has one step.
    std::fs::write(dir.path().join("steps.jsonl"), steps[..=first_run].concat()).unwrap();
    assert_eq!(Files::open(dir.path()).record(Depth::Heads).facts.len(), 1);
}
