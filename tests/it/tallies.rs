//! Tests the running sums over a run's steps. However its files grew, were truncated or started
//! over, the sums equal those computed from all heads, and those of a fresh reader.

use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::path::Path;
use std::time::Duration;

use proptest::prelude::*;
use trace_board::analysis::health;
use trace_board::analysis::life::ExternalFacts;
use trace_board::analysis::newest::newest_run;
use trace_board::analysis::summary::{Summary, summary};
use trace_board::model::index::Tally;
use trace_board::model::{Fate, Index, RunKey, StepHead};
use trace_board::trace::{RunDir, RunReader};

use crate::properties::{follow, read_at_once};
use crate::soak::times;

/// A change to a run.
#[derive(Debug, Clone)]
enum Deed {
    /// Writes `count` steps with these ids. Their events come before or after them, or not at all.
    Steps {
        first: i64,
        stride: i64,
        count: usize,
        events: Events,
        step: &'static str,
    },
    /// Writes a single line.
    Line(&'static str, &'static str),
    /// Truncates a file to this many thousandths of its length.
    Cut(&'static str, u64),
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Events {
    None,
    Before,
    /// With an error in each.
    Failing,
    /// Read after the step's line.
    Late,
    /// Read after all steps' lines.
    Last,
    /// Without lines of the steps.
    Alone,
}

const STEPS: [&str; 9] = [
    "",
    r#", "decision": {"mode": "act", "actions": [{"name": "look", "args": {}}]}"#,
    r#", "decision": {"mode": "act"}, "critic_outputs": [{"critic_name": "a", "score": 0.5, "action": "continue"}]"#,
    r#", "decision": {"mode": "wait"}, "critic_outputs": [{"critic_name": "b", "score": -3, "action": "retry"}, {"score": 1}]"#,
    r#", "decision": {"mode": "act"}, "state_diff": {"plan": {"before": 1, "after": 2}}"#,
    r#", "decision": {"mode": "final"}, "agent_id": "two", "model_response": {"usage": {"total_tokens": 5}}"#,
    r#", "decision": {"mode": "act"}, "action_results": [{"status": "error", "error": "no"}]"#,
    r#", "decision": {"mode": "act"}, "actions": [{}, {}], "action_results": [{"status": "success", "output": {"exit_code": 2}}], "context": {"input_tokens_total": 7, "output_tokens": 2, "cached_tokens": 3}"#,
    r#", "decision": {"mode": "act"}, "context": {"prompt_tokens": 1, "tokens_total": 70}, "facts": {"step": 1}"#,
];

const LINES: [(&str, &str); 9] = [
    ("steps.jsonl", "no JSON"),
    ("steps.jsonl", "[1]"),
    ("steps.jsonl", "{}"),
    ("steps.jsonl", ""),
    ("events.jsonl", "no JSON"),
    ("events.jsonl", r#"{"phase": "INIT", "step_id": 0}"#),
    (
        "events.jsonl",
        r#"{"phase": "END", "step_id": 3, "payload": {"stop_reason": "final"}}"#,
    ),
    (
        "events.jsonl",
        r#"{"phase": "ACT", "ts": "2026-11-21T20:25:58+00:00"}"#,
    ),
    (
        "events.jsonl",
        r#"{"phase": "ACT", "ts": "2026-11-21T10:25:58+00:00", "payload": {"stage": "start"}}"#,
    ),
];

fn deed() -> impl Strategy<Value = Deed> {
    let events = prop::sample::select(vec![
        Events::None,
        Events::Before,
        Events::Before,
        Events::Failing,
        Events::Late,
        Events::Last,
        Events::Alone,
    ]);
    let count = prop_oneof![3 => 1_usize..8, 1 => 30_usize..120];
    let step = prop::sample::select(STEPS.to_vec());
    let first = prop_oneof![Just(i64::MIN), Just(0), 0_i64..40];
    let stride = prop_oneof![8 => Just(1_i64), 1 => Just(2), 1 => Just(0)];
    let steps =
        (first, stride, count, events, step).prop_map(|(first, stride, count, events, step)| {
            Deed::Steps {
                first,
                stride,
                count,
                events,
                step,
            }
        });
    let line = prop::sample::select(LINES.to_vec()).prop_map(|(file, line)| Deed::Line(file, line));
    let cut = (
        prop::sample::select(vec!["steps.jsonl", "events.jsonl"]),
        0_u64..1000,
    )
        .prop_map(|(f, n)| Deed::Cut(f, n));
    prop_oneof![12 => steps, 6 => line, 1 => cut]
}

/// Applies the change. `next` is the id of the next step.
fn act(dir: &Path, deed: &Deed, next: &mut i64, mut look: impl FnMut()) {
    let append = |file: &str, line: &str| {
        let mut file = OpenOptions::new()
            .create(true)
            .append(true)
            .open(dir.join(file))
            .unwrap();
        file.write_all(format!("{line}\n").as_bytes()).unwrap();
    };
    match deed {
        Deed::Line(file, line) => append(file, line),
        Deed::Cut(name, share) => {
            if let Ok(file) = OpenOptions::new().write(true).open(dir.join(name)) {
                file.set_len(file.metadata().unwrap().len() * share / 1000)
                    .unwrap();
            }
        }
        Deed::Steps {
            first,
            stride,
            count,
            events,
            step,
        } => {
            if *first != i64::MIN {
                *next = *first;
            }
            let events_of = |id: i64| {
                let begin = format!(
                    r#"{{"step_id": {id}, "phase": "DECIDE", "payload": {{"stage": "state_ready"}}}}"#
                );
                append("events.jsonl", &begin);
                if *events != Events::Before {
                    let error = format!(
                        r#"{{"step_id": {id}, "phase": "RECOVER", "ok": false, "error": "late"}}"#
                    );
                    append("events.jsonl", &error);
                }
            };
            let from = *next;
            for _ in 0..*count {
                if matches!(events, Events::Before | Events::Failing) {
                    events_of(*next);
                }
                if *events != Events::Alone {
                    append("steps.jsonl", &format!(r#"{{"step_id": {next}{step}}}"#));
                }
                if *events == Events::Late {
                    look();
                    events_of(*next);
                }
                *next += stride;
            }
            if matches!(events, Events::Last | Events::Alone) {
                look();
                (0..*count).for_each(|n| events_of(from + n as i64 * stride));
            }
        }
    }
}

/// Sums up all heads.
fn walked(index: &Index) -> String {
    let steps: Vec<(usize, &StepHead)> = newest_run(index).collect();
    let failed = |(n, step): &&(usize, &StepHead)| {
        !step.is_ok()
            || index
                .round_of(*n)
                .is_some_and(|round| round.error.is_some())
    };
    let first_round = index
        .newest_segments()
        .first()
        .map_or(0, |segment| segment.first_group);
    let rounds = (first_round..index.groups().len()).filter(|at| index.step_of(*at).is_none());
    let failed_rounds = rounds
        .filter(|at| {
            index
                .groups()
                .get(*at)
                .is_some_and(|round| round.error.is_some())
        })
        .count();
    let scores: Vec<f64> = steps
        .iter()
        .filter_map(|(_, step)| step.lowest_score())
        .collect();
    let mut size = 1;
    while scores.len().div_ceil(size) > 48 {
        size *= 2;
    }
    let lows: Vec<f64> = scores
        .chunks(size)
        .filter_map(|few| few.iter().copied().min_by(f64::total_cmp))
        .collect();
    let first_event = index
        .newest_segments()
        .first()
        .map_or(0, |segment| segment.first_event);
    let distinct = |names: &mut dyn Iterator<Item = &str>| {
        let mut list: Vec<String> = Vec::new();
        names.for_each(|name| {
            list.extend((!list.iter().any(|known| known == name)).then(|| name.to_owned()))
        });
        list
    };
    format!(
        "{:?}",
        (
            steps
                .iter()
                .filter(|(_, step)| step.fate != Fate::Unreadable)
                .count(),
            index
                .events()
                .iter()
                .skip(first_event)
                .filter(|event| event.fate != Fate::Unreadable)
                .count(),
            steps.iter().filter(failed).count() + failed_rounds,
            (
                scores.last().filter(|_| !index.has_disordered_steps()),
                lows
            ),
            steps
                .iter()
                .rev()
                .find_map(|(_, step)| step.tokens_total.filter(|tokens| *tokens > 0)),
            (
                steps
                    .iter()
                    .map(|(_, step)| u64::from(step.actions))
                    .sum::<u64>(),
                steps
                    .iter()
                    .map(|(_, step)| u64::from(step.failed_calls))
                    .sum::<u64>(),
            ),
            distinct(
                &mut steps
                    .iter()
                    .flat_map(|(_, step)| &step.critics)
                    .map(|mark| index.name(mark.name))
            ),
            distinct(
                &mut steps
                    .iter()
                    .flat_map(|(_, step)| step.tools())
                    .map(|tool| index.name(tool))
            ),
            distinct(
                &mut steps
                    .iter()
                    .map(|(_, step)| index.name(step.agent))
                    .filter(|name| !name.is_empty())
            ),
            distinct(
                &mut steps
                    .iter()
                    .flat_map(|(_, step)| &step.changed)
                    .map(|key| index.name(*key))
            ),
            health::issues(index).len() + index.issues().total() - index.issues().listed().len(),
        )
    )
}

/// The same sums from the summary, or from the tally where the summary leaves them unknown.
fn kept(told: &Summary, tally: &Tally) -> String {
    format!(
        "{:?}",
        (
            tally.run.readable,
            told.events,
            told.errors,
            (told.last_score.as_ref(), &told.spark),
            told.tokens.or(tally.run.tokens),
            (
                told.tool_calls.unwrap_or(tally.run.calls),
                told.tool_errors.unwrap_or(tally.run.failed_calls)
            ),
            &told.critics,
            &told.tools,
            &told.agents,
            &told.changed,
            told.issues.0,
        )
    )
}

fn told(index: &Index) -> Summary {
    summary(
        &RunKey::new("r"),
        String::new(),
        index,
        ExternalFacts {
            now: 1 << 50,
            ..ExternalFacts::default()
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(times(10, 64) as u32))]

    #[test]
    fn the_kept_sums_are_those_of_all_heads_walked_again(
        deeds in prop::collection::vec(deed(), 1..12),
        limit in prop_oneof![Just(u64::MAX), 1_u64..3_000],
    ) {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("manifest.json"), r#"{"run_id": "r", "status": "running"}"#).unwrap();
        let mut reader = RunReader::settling(RunDir::alone(dir.path()), Duration::ZERO);
        let mut index = Index::default();
        let mut next = 0;
        for deed in &deeds {
            act(dir.path(), deed, &mut next, || follow(&mut reader, &mut index, limit));
            follow(&mut reader, &mut index, limit);
            prop_assert_eq!(kept(&told(&index), index.tally()), walked(&index), "{:?}", deed);
            let run = told(&index);
            let failed: usize = run.failures.iter().map(|failure| failure.steps as usize).sum();
            prop_assert_eq!(failed + run.failures_left_out, run.errors, "{:?}", deed);
            let without_line = (0..index.groups().len()).filter(|at| index.step_of(*at).is_none());
            prop_assert_eq!(index.groups_without_line(), without_line.collect::<Vec<_>>(), "{:?}", deed);
        }
        let fresh = read_at_once(dir.path(), Duration::ZERO);
        prop_assert_eq!(told(&index), told(&fresh));
    }
}

/// Events that are read first show a single run, so lines out of order don't start another. The
/// order of reading must not affect how state changes are followed.
#[test]
fn lines_out_of_order_have_the_same_issues_whenever_their_events_are_read() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(
        dir.path().join("manifest.json"),
        r#"{"run_id": "r", "status": "running"}"#,
    )
    .unwrap();
    let mut reader = RunReader::settling(RunDir::alone(dir.path()), Duration::ZERO);
    let mut index = Index::default();
    fs::write(
        dir.path().join("events.jsonl"),
        "{\"phase\": \"INIT\", \"step_id\": 0}\n",
    )
    .unwrap();
    follow(&mut reader, &mut index, u64::MAX);
    let changed = r#", "state_diff": {"plan": {"before": 1, "after": 2}}"#;
    let line = |id: i64| {
        format!(
            "{{\"step_id\": {id}{}}}\n",
            if id < 3 { changed } else { "" }
        )
    };
    let lines: String = [3, 4, 0, 1, 2].map(line).concat();
    fs::write(
        dir.path().join("steps.jsonl"),
        lines + &format!("{{\"step_id\": 3{changed}}}\n"),
    )
    .unwrap();
    follow(&mut reader, &mut index, u64::MAX);
    let fresh = read_at_once(dir.path(), Duration::ZERO);
    assert_eq!(health::issues(&index), health::issues(&fresh));
}

/// One run wrote all lines, so only 0 and 1 are late. A line that repeats a late one is late as
/// well.
#[test]
fn a_late_line_that_is_repeated_leaves_the_order_of_the_others() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(
        dir.path().join("manifest.json"),
        r#"{"run_id": "r", "status": "running"}"#,
    )
    .unwrap();
    let mut reader = RunReader::settling(RunDir::alone(dir.path()), Duration::ZERO);
    let mut index = Index::default();
    let events = [
        r#"{"phase": "INIT", "step_id": 0}"#,
        r#"{"step_id": 9, "phase": "DECIDE", "payload": {"stage": "state_ready"}}"#,
    ];
    let ids = (9..39).chain([0]).chain([1; 33]);
    let steps: String = ids.map(|id| format!("{{\"step_id\": {id}}}\n")).collect();
    fs::write(dir.path().join("steps.jsonl"), steps).unwrap();
    follow(&mut reader, &mut index, u64::MAX);
    fs::write(
        dir.path().join("events.jsonl"),
        events.map(|event| format!("{event}\n")).concat(),
    )
    .unwrap();
    follow(&mut reader, &mut index, u64::MAX);
    assert_eq!(index.lap_starts(), [0]);
    assert_eq!(
        (index.count_without_line(), index.groups_without_line()),
        (0, vec![])
    );
    assert_eq!(index.step_of(0), Some(0));
}
