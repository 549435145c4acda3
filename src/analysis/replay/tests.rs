//! Positions, clocks and breakpoints of every run in the corpus, and of a run with known times.

use std::path::Path;

use super::*;
use crate::analysis::facts::tests::{Files, runs_below};

fn corpus(run: &str) -> Files {
    Files::open(
        &Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("tests/corpus")
            .join(run),
    )
}

fn every_run(check: impl Fn(&str, &Index, &Track)) {
    let mut runs = 0;
    for group in ["q010", "q030", "q060", "emulated"] {
        for path in runs_below(&format!("tests/corpus/{group}")) {
            let files = Files::open(&path);
            check(
                &path.display().to_string(),
                &files.index,
                &Track::new(&files.index),
            );
            runs += 1;
        }
    }
    assert!(runs > 20, "{runs} runs");
}

#[test]
fn every_event_has_one_position_and_every_step_at_least_one() {
    every_run(|run, index, track| {
        let mut events: Vec<usize> = track.parts().iter().flat_map(Part::range).collect();
        events.sort_unstable();
        assert_eq!(
            events,
            (0..index.events().len()).collect::<Vec<_>>(),
            "{run}"
        );
        for n in 0..index.steps().len() {
            assert!(track.find(Scene::Step(n)).is_some(), "{run} step {n}");
        }
        assert_eq!(
            track.len(),
            track.parts().iter().map(Part::positions).sum::<usize>(),
            "{run}"
        );
    });
}

#[test]
fn a_position_and_its_name_are_the_same_place() {
    every_run(|run, _, track| {
        for at in 0..track.len() {
            let (part, event) = track.part(at).unwrap();
            assert_eq!(part.at + event, at, "{run}");
            let cursor = Cursor {
                scene: part.scene,
                event,
            };
            assert_eq!(track.position(cursor), Some(at), "{run} {cursor:?}");
        }
        assert!(track.part(track.len()).is_none(), "{run}");
    });
}

#[test]
fn on_and_back_is_where_one_was() {
    every_run(|run, _, track| {
        for at in 0..track.len() {
            if at < track.last() {
                assert_eq!(track.by_events(track.by_events(at, 1), -1), at, "{run}");
            }
            let (part, _) = track.part(at).unwrap();
            let next = track.by_steps(at, 1);
            if track.part(next).unwrap().0.scene != part.scene {
                assert_eq!(track.by_steps(next, -1), part.at, "{run}");
            }
        }
        let mut at = 0;
        (0..1000).for_each(|_| at = track.by_events(at, 1));
        assert_eq!(at, track.last().min(1000), "{run}");
        (0..1000).for_each(|_| at = track.by_events(at, -1));
        assert_eq!(at, 0, "{run}");
        (0..1000).for_each(|_| at = track.by_steps(at, 1));
        assert_eq!(at, track.last(), "{run}: past the last step is the end");
        (0..1000).for_each(|_| at = track.by_steps(at, -1));
        assert_eq!(at, 0, "{run}");
    });
}

#[test]
fn clocks_only_go_forward_and_add_up() {
    every_run(|run, index, track| {
        for clock in [Clock::Step, Clock::Time, Clock::Gaps] {
            let mut sum = 0;
            for at in 0..track.len() {
                let offset = track.offset(index, clock, at);
                let rounded = if clock == Clock::Step { 1_000 } else { 0 };
                assert!(
                    (offset - sum).abs() <= rounded * i64::try_from(at + 1).unwrap(),
                    "{run} {clock:?} {at}"
                );
                let wait = track.wait(index, clock, at);
                assert!(
                    wait >= 0 && (clock != Clock::Gaps || wait <= GAP_MICROS),
                    "{run} {clock:?} {at}"
                );
                sum += wait;
            }
            if clock != Clock::Step {
                assert_eq!(track.total(clock), sum, "{run} {clock:?}");
            }
        }
        assert!(
            track.total(Clock::Gaps) <= track.total(Clock::Time),
            "{run}"
        );
    });
}

#[test]
fn playing_reaches_the_end_and_stops_where_it_is_told() {
    every_run(|run, index, track| {
        for clock in [Clock::Step, Clock::Time, Clock::Gaps] {
            let mut at = 0;
            while let Some((next, _)) = track.tick(index, clock, at, 50_000, None) {
                assert!(next > at, "{run}");
                at = next;
            }
            assert_eq!(at, track.last(), "{run} {clock:?}");
            for stop in 1..track.len() {
                let (next, _) = track
                    .tick(index, clock, stop - 1, i64::MAX, Some(stop))
                    .unwrap();
                assert_eq!(next, stop, "{run}");
            }
        }
    });
}

#[test]
fn a_run_with_known_parts() {
    let files = corpus("q060/q060_handoff");
    let track = Track::new(&files.index);
    let scenes: Vec<_> = track
        .parts()
        .iter()
        .map(|part| (part.scene, part.events))
        .collect();
    assert_eq!(scenes.first(), Some(&(Scene::Start, 3)));
    assert_eq!(scenes.last().map(|last| last.0), Some(Scene::End));
    assert_eq!(scenes[1], (Scene::Step(0), 10));
    assert_eq!(
        track.position(Cursor {
            scene: Scene::Step(0),
            event: 9
        }),
        Some(12)
    );
    assert_eq!(
        track.position(Cursor {
            scene: Scene::Step(0),
            event: 10
        }),
        None
    );
    assert_eq!(
        track.position(Cursor {
            scene: Scene::Step(7),
            event: 0
        }),
        None
    );
}

#[test]
fn nothing_recorded_is_no_position() {
    let track = Track::new(&Index::default());
    assert!(track.is_empty());
    assert!(track.part(0).is_none());
    assert_eq!((track.by_events(0, 3), track.by_steps(0, 3)), (0, 0));
    assert_eq!(track.tick(&Index::default(), Clock::Step, 0, 1, None), None);
}

#[test]
fn breakpoints_find_steps_and_say_what_they_do_not_understand() {
    let files = corpus("q060/q060_handoff");
    let index = &files.index;
    let breaks = ["tool:run_python", "nonsense<", "state.tool_calls changed"]
        .map(|text| Breakpoint::new(index, text));
    assert_eq!(breaks[0].steps, [3]);
    assert!(breaks[1].steps.is_empty() && !breaks[1].query.ignored.is_empty());
    assert_eq!(breaks[2].steps, [0, 2, 3, 5]);
    let track = Track::new(index);
    let place = |n: usize, phase: &str| {
        let part = track.find(Scene::Step(n)).unwrap();
        let phase = index.names().find(phase);
        part.at
            + part
                .range()
                .rposition(|event| Some(index.events().get(event).unwrap().phase) == phase)
                .unwrap()
    };
    let next = |at: usize, back: bool| next_hit(&breaks, index, &track, at, back);
    // A changed key exists after REDUCE, and a tool's result once the tool has returned.
    let all = [
        place(0, "REDUCE"),
        place(2, "REDUCE"),
        place(3, "ACT"),
        place(3, "REDUCE"),
        place(5, "REDUCE"),
    ];
    let walked: Vec<usize> = std::iter::successors(next(0, false), |at| next(*at, false)).collect();
    assert_eq!(walked, all);
    let back: Vec<usize> =
        std::iter::successors(next(track.last(), true), |at| next(*at, true)).collect();
    assert_eq!(back, all.iter().rev().copied().collect::<Vec<_>>());
    let (part, event) = track.part(all[2]).unwrap();
    assert_eq!(
        first_hit(&breaks, index, part, event).map(|hit| hit.text.as_str()),
        Some("tool:run_python")
    );
    assert_eq!(first_hit(&breaks, index, part, 0), None);
}

#[test]
fn as_many_steps_have_a_mark_of_failure_as_the_run_counts() {
    let mut undecided = 0;
    for path in runs_below("sample_runs") {
        let index = Files::open(&path).index;
        let failed =
            |n: &usize| has(&index, *n, StepFlag::Error) || has(&index, *n, StepFlag::Code);
        let marked = (index.newest_start()..index.steps().len())
            .filter(failed)
            .count();
        assert_eq!(marked, index.failed_steps(), "{}", path.display());
        undecided += index
            .steps()
            .iter()
            .filter(|step| step.fate.is_readable() && step.is_undecided())
            .count();
    }
    assert!(
        undecided > 0,
        "one of these runs ended before a decision was made"
    );
}

#[test]
fn marks_tell_errors_before_anything_else() {
    let files = corpus("q060/q060_recovered_errors");
    let marks: Vec<_> = (0..files.index.steps().len())
        .map(|n| mark(&files.index, n))
        .collect();
    assert!(marks.contains(&Some(StepFlag::Error)), "{marks:?}");
    let first = marks.iter().position(Option::is_some);
    assert_eq!(next_mark(&files.index, None), first);
    assert_eq!(
        next_mark(&files.index, Some(marks.len())),
        first,
        "starts again from the top"
    );
}
