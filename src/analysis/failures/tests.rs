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
        steps_first: steps,
        times: steps,
        first: NonZeroU32::new(4),
        last: NonZeroU32::new(3 + steps),
        first_at: at.and_then(NonZeroU32::new),
        last_at: at.and_then(NonZeroU32::new),
        next,
    }
}

fn run(key: &str, failures: Vec<RunFailure>) -> Summary {
    let mut run = sample::run(key, RunStatus::Answered, Some("final"));
    let started = failures.first().and_then(|failure| failure.first_at);
    run.started = started.map(|at| i64::from(at.get()) * 1_000_000);
    run.failures = failures.into();
    run
}

fn report(runs: &[Summary]) -> Failures {
    wanted(runs, &Wanted::first(usize::MAX))
}

fn wanted(runs: &[Summary], wanted: &Wanted<'_>) -> Failures {
    failures(runs, i64::from(NOON) * 1_000_000, &TimeZone::UTC, wanted)
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
        "2 of 3 runs had failures; 1 of them ended with one."
    );
    let limited = wanted(&runs, &Wanted::first(1));
    assert_eq!((limited.failures.len(), limited.failures_left_out), (1, 2));
    assert_eq!(limited.failures.first(), report.failures.first());
    assert_eq!(limited.all, report.all);
    let open = Wanted {
        open: &report.failures[2].id,
        ..Wanted::first(1)
    };
    let opened = wanted(&runs, &open);
    assert_eq!(
        messages(&opened),
        [("lost", 1, 1, 1), ("often", 1, 9, 0)],
        "the open failure is listed too"
    );
    assert_eq!(opened.failures_left_out, 1);
    let chosen = Wanted {
        is_chosen: &|one| one.tool == "x",
        ..Wanted::first(9)
    };
    let chosen = wanted(&runs, &chosen);
    assert_eq!(messages(&chosen), [("twice", 2, 2, 0), ("often", 1, 9, 0)]);
    assert_eq!((chosen.failures_left_out, chosen.all.failures), (0, 3));
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

/// A tool may be named like a source, and like the word for such a tool.
#[test]
fn a_tool_named_run_is_not_the_run() {
    let of = |source, tool: &str| RunFailure {
        source,
        id: id_of(source, tool, "no"),
        ..failure(tool, "no", 1, None)
    };
    let tool = FailureSource::Tool;
    let runs = [run(
        "a",
        vec![
            of(FailureSource::Run, ""),
            of(FailureSource::Model, ""),
            of(tool, ""),
            of(tool, "run"),
            of(tool, "model"),
            of(tool, "tool"),
            of(tool, "tool:run"),
            of(tool, "bash"),
        ],
    )];
    let report = report(&runs);
    let places = &report.all.places;
    assert_eq!(places.len(), 8);
    let words: Vec<String> = places.iter().map(|(place, _)| place.word()).collect();
    for known in ["run", "model", "tool", "tool:run", "bash", "tool:tool:run"] {
        assert!(words.iter().any(|word| word == known), "{words:?}");
    }
    for (place, count) in places {
        assert_eq!((Place::of(&place.word()), *count), (place.clone(), 1));
        let chosen = Wanted {
            is_chosen: &|one| one.is_at(place),
            ..Wanted::first(9)
        };
        assert_eq!(wanted(&runs, &chosen).failures.len(), 1, "{place:?}");
    }
}

#[test]
fn failures_with_one_id_by_accident_stay_apart() {
    let one = failure("x", "no", 1, None);
    let other = RunFailure {
        message: "other".into(),
        ..one.clone()
    };
    let report = report(&[run("a", vec![one]), run("b", vec![other])]);
    assert_eq!(messages(&report), [("no", 1, 1, 0), ("other", 1, 1, 0)]);
}

#[test]
fn times_after_now_are_neither_recent_nor_days_of_a_trend() {
    let at = |days: u32| Some(NOON - days * DAY_S);
    let ahead = Some(NOON + 400 * DAY_S);
    let runs = [
        run("a", vec![failure("x", "no", 1, at(2))]),
        run("b", vec![failure("x", "no", 1, ahead)]),
        run("c", vec![failure("x", "late", 1, ahead)]),
        run("d", vec![failure("x", "old", 1, at(50))]),
    ];
    let report = report(&runs);
    assert_eq!(report.last_day.as_deref(), Some("2026-11-26"));
    let late = report.failures.iter().find(|one| one.message == "late");
    let late = late.unwrap();
    assert!(!late.is_new && !late.is_rising);
    assert_eq!(late.trend.iter().sum::<usize>(), 0);
    let no = report.failures.iter().find(|one| one.message == "no");
    assert_eq!(no.unwrap().trend.iter().sum::<usize>(), 1);
}

#[test]
fn a_failure_without_a_time_was_last_seen_when_its_run_began() {
    let mut late = run("a", vec![failure("x", "no", 1, None)]);
    let began = i64::from(NOON - DAY_S) * 1_000_000;
    late.started = Some(began);
    late.updated = Some(i64::from(NOON) * 1_000_000);
    let report = report(&[late]);
    let one = &report.failures[0];
    assert_eq!((one.first_at, one.last_at), (Some(began), Some(began)));
    assert_eq!(one.examples[0].micros, one.last_at);
}

#[test]
fn a_run_of_which_a_part_was_read_may_have_more_failures() {
    let mut part = run("a", vec![failure("x", "no", 1, None)]);
    part.partial = true;
    assert_eq!(report(&[part, run("b", vec![])]).runs_incomplete, 1);
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
    assert_eq!(
        next.rows(FailureSource::Model)[0].0,
        "retried, failed again"
    );
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

#[test]
fn the_failures_of_a_period_are_those_first_seen_last_and_new_if_no_earlier_run_has_them() {
    let at = |days: u32| Some(NOON - days * DAY_S);
    let ended = |failure: RunFailure| RunFailure {
        ended: true,
        ..failure
    };
    let before = [run("a", vec![failure("x", "old", 1, at(40))])];
    let now = [
        run(
            "b",
            vec![
                failure("x", "old", 1, at(20)),
                failure("x", "often", 1, at(20)),
            ],
        ),
        run("c", vec![failure("x", "often", 1, at(9))]),
        run("d", vec![ended(failure("", "fatal", 1, at(2)))]),
        run("e", vec![]),
    ];
    let of = |before: &[Summary], most| {
        let bars = [Some(0), Some(1), Some(1), None];
        let recent = i64::from(NOON - 7 * DAY_S) * 1_000_000;
        of_period(now.iter().zip(bars), before.iter(), 2, recent, most)
    };
    let all = of(&before, 9);
    assert_eq!((all.failures, all.new), (3, 2));
    let rows: Vec<_> = all
        .newest
        .iter()
        .map(|one| {
            let flags = (one.is_new, one.is_quiet);
            (
                &*one.message,
                one.runs,
                one.runs_ended,
                flags,
                &one.bars[..],
            )
        })
        .collect();
    assert_eq!(
        rows,
        [
            ("fatal", 1, 1, (true, false), &[0, 1][..]),
            ("often", 2, 0, (true, true), &[1, 1]),
            ("old", 1, 0, (false, true), &[1, 0]),
        ]
    );
    assert_eq!(
        all.newest[2].first_at,
        Some(i64::from(at(40).unwrap()) * 1_000_000)
    );
    // Of the new ones, the one that ended most runs is the largest, whether or not it's listed.
    let largest = |of: PeriodFailures| of.largest_new.map(|one| (one.message, one.bars));
    assert_eq!(
        largest(of(&before, 0)),
        Some(("fatal".to_owned(), vec![0, 1]))
    );
    // Without earlier runs, nothing is known to be new.
    let alone = of(&[], 9);
    assert_eq!((alone.new, alone.largest_new), (0, None));
}
