use std::num::NonZeroU32;

use super::*;
use crate::analysis::select::sample;
use crate::analysis::verdict::RunStatus;
use crate::model::RunKey;
use crate::model::failure::id_of;

/// 26 November 2026, 12:00 UTC, in seconds.
const NOON: u32 = 1_795_694_400;
const HOUR: u32 = 3_600;
const DAY_S: u32 = 24 * HOUR;

/// A failure of this tool, with the same call again after each step but the last.
fn failure(tool: &str, message: &str, steps: u32, at: Option<u32>) -> RunFailure {
    let mut next = [0; AfterFailure::ALL.len()];
    next[AfterFailure::SameFailed as usize] = steps.saturating_sub(1);
    next[AfterFailure::Nothing as usize] = u32::from(steps > 0);
    RunFailure {
        id: id_of(FailureSource::Tool, tool, message),
        tool: tool.into(),
        message: message.into(),
        source: FailureSource::Tool,
        ended: false,
        steps,
        first: NonZeroU32::new(4),
        last: NonZeroU32::new(3 + steps),
        first_at: at.and_then(NonZeroU32::new),
        last_at: at.and_then(NonZeroU32::new),
        next,
    }
}

fn run(key: &str, failures: Vec<RunFailure>) -> Summary {
    let mut run = sample::run(key, RunStatus::Answered, Some("final"));
    run.started = None;
    run.failures = failures.into();
    run
}

fn report(runs: &[Summary]) -> Failures {
    failures(runs, i64::from(NOON) * 1_000_000, &TimeZone::UTC)
}

fn messages(report: &Failures) -> Vec<(&str, usize, u64, usize)> {
    report
        .failures
        .iter()
        .map(|one| (one.message.as_str(), one.runs, one.steps, one.runs_ended))
        .collect()
}

#[test]
fn what_ended_runs_comes_first_then_runs_then_steps() {
    let ended = RunFailure {
        ended: true,
        ..failure("", "lost", 1, None)
    };
    let runs = [
        run(
            "a",
            vec![
                failure("x", "often", 9, None),
                failure("x", "twice", 1, None),
            ],
        ),
        run("b", vec![failure("x", "twice", 1, None), ended]),
        run("c", vec![]),
    ];
    let report = report(&runs);
    assert_eq!(
        messages(&report),
        [("lost", 1, 1, 1), ("twice", 2, 2, 0), ("often", 1, 9, 0)]
    );
    assert_eq!(
        (
            report.runs,
            report.runs_with_failures,
            report.runs_ended,
            report.steps
        ),
        (3, 2, 1, 12)
    );
    assert_eq!(
        report.runs_words(),
        "2 of 3 runs had a failure: 1 carried on, 1 ended with it."
    );
    let limited = report.limited(1);
    assert_eq!((limited.failures.len(), limited.failures_left_out), (1, 2));
}

#[test]
fn one_message_of_two_tools_is_two_failures() {
    let runs = [run(
        "a",
        vec![failure("x", "no", 1, None), failure("y", "no", 1, None)],
    )];
    let report = report(&runs);
    let places: Vec<&str> = report.failures.iter().map(Failure::place).collect();
    assert_eq!(report.failures.len(), 2);
    assert!(places.contains(&"x") && places.contains(&"y"));
}

#[test]
fn a_duplicate_counts_once() {
    let mut copy = run("b", vec![failure("x", "no", 1, None)]);
    let mut relation = (*copy.relation).clone();
    relation.duplicate_of = Some(RunKey::new("a"));
    copy.relation = relation.into();
    let runs = [run("a", vec![failure("x", "no", 1, None)]), copy];
    assert_eq!(messages(&report(&runs)), [("no", 1, 1, 0)]);
}

#[test]
fn the_last_step_of_a_run_that_a_failure_ended_counts_as_its_end() {
    let ended = RunFailure {
        ended: true,
        ..failure("x", "no", 3, None)
    };
    let report = report(&[
        run("a", vec![ended]),
        run("b", vec![failure("x", "no", 1, None)]),
    ]);
    let next = report.failures[0].next;
    assert_eq!(
        (next.ended_run, next.same_call_failed, next.nothing),
        (1, 2, 1)
    );
    assert_eq!(
        next.rows(FailureSource::Tool),
        [
            ("same call again, failed", 2),
            ("ended the run", 1),
            ("no further step", 1)
        ]
    );
    assert_eq!(next.rows(FailureSource::Model)[0].0, "tried again, failed");
}

#[test]
fn trends_have_a_bar_for_each_day_and_not_more_than_thirty() {
    let at = |days: u32| Some(NOON - days * DAY_S);
    let runs = [
        run("a", vec![failure("x", "no", 1, at(0))]),
        run("b", vec![failure("x", "no", 1, at(2))]),
        run("c", vec![failure("x", "no", 1, at(2))]),
    ];
    let few = report(&runs);
    assert_eq!(few.failures[0].trend, [2, 0, 1]);
    assert_eq!(
        (few.first_day.as_deref(), few.days_per_bar),
        (Some("2026-11-24"), 1)
    );
    assert_eq!(few.last_day.as_deref(), Some("2026-11-26"));
    let long = [
        run("a", vec![failure("x", "no", 1, at(0))]),
        run("b", vec![failure("x", "no", 1, at(99))]),
    ];
    let many = report(&long);
    // Older runs have no bar.
    assert_eq!(many.days_per_bar, 3);
    assert_eq!(many.failures[0].trend.len(), 30);
    assert_eq!(many.failures[0].trend.iter().sum::<usize>(), 1);
    assert_eq!(
        many.failures[0].first_seen.as_deref(),
        Some("2026-08-19T12:00:00Z")
    );
    let timeless = report(&[run("a", vec![failure("x", "no", 1, None)])]);
    assert_eq!(
        (timeless.failures[0].trend.len(), timeless.first_day),
        (0, None)
    );
}

#[test]
fn a_failure_is_new_rising_or_quiet_by_the_last_seven_days() {
    let at = |days: u32| Some(NOON - days * DAY_S);
    let named = |key: usize, message: &str, days: u32| {
        run(
            &format!("{message}{key}"),
            vec![failure("x", message, 1, at(days))],
        )
    };
    let mut runs: Vec<Summary> = (0..4).map(|n| named(n, "rising", 1)).collect();
    runs.push(named(9, "rising", 8));
    runs.push(named(0, "new", 1));
    runs.push(named(0, "quiet", 20));
    let old = i64::from(NOON - 30 * DAY_S) * 1_000_000;
    runs.push(Summary {
        started: Some(old),
        ..run("old", vec![])
    });
    let report = report(&runs);
    let flags = |message: &str| {
        let one = report
            .failures
            .iter()
            .find(|one| one.message == message)
            .unwrap();
        (one.is_new, one.is_rising, one.is_quiet)
    };
    assert_eq!(flags("rising"), (false, true, false));
    assert_eq!(flags("new"), (true, false, false));
    assert_eq!(flags("quiet"), (false, false, true));
}

#[test]
fn ids_are_the_same_everywhere() {
    let id = id_text(id_of(FailureSource::Tool, "Bash", "exit code 1, no output"));
    assert_eq!(id, "520b0c30cc6e");
    assert!(is_id(&id) && !is_id("no such id.."));
}
