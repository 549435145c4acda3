use super::*;

fn index(steps: &[i64], events: &[(&str, i64)]) -> Index {
    let mut names = Names::default();
    let steps = steps
        .iter()
        .map(|id| StepHead {
            step_id: Some(*id),
            ..StepHead::default()
        })
        .collect();
    let mut delta = Delta {
        steps,
        ..Delta::default()
    };
    for (name, id) in events {
        let (phase, stage) = name.split_once('/').unwrap_or((name, ""));
        let head = EventHead {
            step_id: Some(*id),
            kind: crate::format::event_kind(phase, stage),
            phase: names.intern(phase),
            stage: names.intern(stage),
            ok: true,
            ..EventHead::default()
        };
        let note = (*name == "END").then(|| EventNote::End(Box::default()));
        delta.events.push((head, note));
    }
    delta.names = names.since(0).to_vec();
    let mut index = Index::default();
    index.apply(delta);
    index
}

fn joined(index: &Index) -> Vec<Option<usize>> {
    (0..index.steps().len())
        .map(|ordinal| index.group_of(ordinal))
        .collect()
}

#[test]
fn events_join_by_id_and_life_cycle_stays_outside() {
    let index = index(
        &[0, 1],
        &[
            ("toolset_setup_start", 0),
            ("INIT", 0),
            ("DECIDE/state_ready", 0),
            ("ACT/start", 0),
            ("DELEGATE_START", 0),
            ("DECIDE/state_ready", 1),
            ("CHECK_STOP/stop", 0),
            ("END", 1),
            ("toolset_teardown_start", 0),
        ],
    );
    assert_eq!(joined(&index), [Some(0), Some(1)]);
    assert_eq!(index.segments().len(), 1);
    let spans: Vec<_> = index
        .groups()
        .iter()
        .map(|group| (group.first, group.end))
        .collect();
    assert_eq!(spans, [(2, 5), (5, 7)]);
    assert_eq!(
        (index.group_at(1), index.group_at(4), index.group_at(7)),
        (None, Some(0), None)
    );
    assert_eq!(index.pending_group(), None);
}

#[test]
fn a_directory_used_twice_joins_lap_by_lap() {
    let run = [
        ("INIT", 0),
        ("DECIDE/state_ready", 0),
        ("DECIDE/state_ready", 1),
        ("END", 1),
    ];
    let index = index(&[0, 1, 0, 1], &[run, run].concat());
    assert_eq!(joined(&index), [Some(0), Some(1), Some(2), Some(3)]);
    assert_eq!(index.segments().len(), 2);
    assert!(!index.join_is_open());
}

#[test]
fn a_run_that_died_before_its_first_line_leaves_the_newest_events_to_the_lines() {
    let events = [
        ("INIT", 0),
        ("DECIDE/state_ready", 0),
        ("INIT", 0),
        ("DECIDE/state_ready", 0),
        ("DECIDE/state_ready", 1),
    ];
    let index = index(&[0, 1], &events);
    assert_eq!(joined(&index), [Some(1), Some(2)]);
    assert!(index.join_is_open());
    assert_eq!(index.groups_without_line(), [0]);
}

#[test]
fn a_resumed_checkpoint_gives_the_repeated_step_its_second_events() {
    let events = [
        ("DECIDE/state_ready", 0),
        ("DECIDE/state_ready", 1),
        ("INIT", 0),
        ("DECIDE/state_ready", 1),
        ("DECIDE/state_ready", 2),
    ];
    let index = index(&[0, 1, 2], &events);
    assert_eq!(joined(&index), [Some(0), Some(2), Some(3)]);
}

#[test]
fn an_open_round_without_line_is_pending() {
    let index = index(
        &[0],
        &[
            ("INIT", 0),
            ("DECIDE/state_ready", 0),
            ("DECIDE/state_ready", 1),
            ("ACT/start", 1),
        ],
    );
    assert_eq!(index.pending_group(), Some(1));
    assert_eq!(index.step_of(0), Some(0));
}

#[test]
fn what_is_known_of_a_step_later_counts_as_if_it_had_been_known_at_once() {
    let head = |n: usize, fate, tokens| StepHead {
        step_id: Some(n as i64),
        mode: Symbol::default(),
        fate,
        tokens_total: tokens,
        ..StepHead::default()
    };
    let first = |n: usize| head(n, super::super::Fate::Unreadable, None);
    let later = |n: usize| head(n, super::super::Fate::Good, Some(n as u64));
    for touched in [0, 1, 66, 67, 68, 98, 99] {
        let heads = |n: usize| if n == touched { later(n) } else { first(n) };
        let mut at_once = Index::default();
        at_once.apply(Delta {
            steps: (0..100).map(heads).collect(),
            ..Delta::default()
        });
        let mut later_on = Index::default();
        later_on.apply(Delta {
            steps: (0..100).map(first).collect(),
            ..Delta::default()
        });
        assert_eq!(
            (later_on.tally().run.readable, at_once.tally().run.readable),
            (0, 1)
        );
        later_on.apply(Delta {
            touched: vec![(touched, later(touched))],
            ..Delta::default()
        });
        assert_eq!(later_on.tally(), at_once.tally(), "{touched}");
        assert_eq!(later_on.failed_steps(), at_once.failed_steps());
    }
}

/// The lines of a directory are read before most of its events. Each piece of them had errors of
/// steps that were summed up, so that each summed all steps again.
#[test]
fn late_errors_are_summed_once_after_the_last_piece() {
    use crate::model::EventKind;

    let all = 200;
    let steps = || {
        (0..all).map(|n| StepHead {
            step_id: Some(n),
            ..StepHead::default()
        })
    };
    let mut names = Names::default();
    let phase = names.intern("ACT_ERROR");
    let event = |n: i64| {
        let head = EventHead {
            step_id: Some(n),
            kind: EventKind::Other,
            phase,
            ..EventHead::default()
        };
        (
            head,
            Some(EventNote::Error(format!("cause {}", n % 3).into())),
        )
    };
    let delta = |steps, events, more| Delta {
        steps,
        events,
        more,
        names: names.since(0).to_vec(),
        ..Delta::default()
    };
    let mut at_once = Index::default();
    at_once.apply(delta(
        steps().collect(),
        (0..all).map(event).collect(),
        false,
    ));
    assert_eq!(at_once.failed_steps(), all as usize);
    let mut pieces = Index::default();
    pieces.apply(delta(steps().collect(), Vec::new(), true));
    let settled = pieces.settled.end;
    assert!(settled > 100, "{settled}");
    for n in 0..all {
        let empty = Delta {
            names: Vec::new(),
            ..delta(Vec::new(), vec![event(n)], true)
        };
        pieces.apply(empty);
        assert_eq!(pieces.settled.end, settled, "after event {n}");
    }
    pieces.apply(Delta::default());
    assert_eq!(pieces.tally(), at_once.tally());
    assert_eq!(pieces, at_once);
}

/// Returns the ordinal at which the newest run's steps begin, and the groups of all steps. Each of
/// `runs` lists the rounds of one run that begins with INIT. "0 1." is a run with END, and a round
/// "0!" evaluated the stop rules.
fn newest(steps: &[i64], runs: &[&str]) -> (usize, Vec<Option<usize>>) {
    let index = index(steps, &events_of(runs));
    (index.newest_start(), joined(&index))
}

fn events_of(runs: &[&str]) -> Vec<(&'static str, i64)> {
    let mut events = Vec::new();
    for run in runs {
        events.push(("INIT", 0));
        for round in run.trim_end_matches('.').split_whitespace() {
            let id = round.trim_end_matches('!').parse().unwrap();
            events.push(("DECIDE/state_ready", id));
            events.extend(round.ends_with('!').then_some(("CHECK_STOP/continue", id)));
        }
        events.extend(run.ends_with('.').then_some(("END", 0)));
    }
    events
}

#[test]
fn a_run_whose_lines_are_there_counts_them() {
    let (a, b, c, d) = (Some(0), Some(1), Some(2), Some(3));
    // Resumed with rising ids: over a round without a line, after one with a line, and in its first
    // round.
    assert_eq!(newest(&[0, 1, 2], &["0 1", "1 2"]), (0, vec![a, c, d]));
    assert_eq!(newest(&[0, 1, 2], &["0 1", "1 2."]), (0, vec![a, c, d]));
    assert_eq!(newest(&[0, 1, 2], &["0 1", "2"]), (0, vec![a, b, c]));
    assert_eq!(newest(&[0, 1], &["0 1", "2"]), (0, vec![a, b]));
    assert_eq!(newest(&[0], &["0 1", "1"]).0, 0);
    assert_eq!(newest(&[0, 1], &["0 1", "1!"]), (0, vec![a, c]));
    assert_eq!(newest(&[0, 1, 2], &["0 1", "1", "2"]), (0, vec![a, c, d]));
    // Died before its first line and restarted: in its first round, after its first line, after
    // more, to its end.
    assert_eq!(newest(&[], &["0", "0"]).0, 0);
    assert_eq!(newest(&[0], &["0", "0!"]), (0, vec![b]));
    assert_eq!(newest(&[0], &["0", "0."]), (0, vec![b]));
    assert_eq!(newest(&[0], &["0", "0 1"]), (0, vec![b]));
    assert_eq!(newest(&[0, 1], &["0", "0 1."]), (0, vec![b, c]));
    assert_eq!(newest(&[0, 1], &["0", "0", "0 1."]), (0, vec![c, d]));
    assert_eq!(newest(&[0, 1], &["", "0 1"]), (0, vec![a, b]));
    // Restarted after a finished run.
    assert_eq!(
        newest(&[0, 1, 0, 1], &["0 1.", "0 1."]),
        (2, vec![a, b, c, d])
    );
    assert_eq!(newest(&[0, 1, 0], &["0 1.", "0 1"]), (2, vec![a, b, c]));
    assert_eq!(newest(&[0, 0], &["0.", "0 1"]), (1, vec![a, b]));
    // The same, with a run between them that died before its first line.
    assert_eq!(newest(&[0, 1, 0], &["0 1.", "0", "0!"]).0, 2);
}

#[test]
fn a_new_run_in_its_first_round_has_no_line_of_the_run_before() {
    let (a, b, c) = (Some(0), Some(1), Some(2));
    assert_eq!(newest(&[0, 1, 2], &["0 1 2.", "0"]), (3, vec![a, b, c]));
    assert_eq!(newest(&[0, 1, 2], &["0 1 2.", "0!"]), (3, vec![a, b, c]));
    assert_eq!(newest(&[0, 1], &["0 1.", "0", "0"]).0, 2);
    assert_eq!(newest(&[0, 1, 2], &["0 1 2.", ""]), (3, vec![a, b, c]));
    // The same ids: the events show that the previous run reached the line.
    assert_eq!(newest(&[0], &["0.", "0"]), (1, vec![a]));
    assert_eq!(newest(&[0], &["0 1", "0"]), (1, vec![a]));
    assert_eq!(newest(&[0], &["0!", "0"]), (1, vec![a]));
    let open = index(&[0, 1], &events_of(&["0 1.", "0"]));
    assert_eq!(
        (
            open.pending_group(),
            open.groups_without_line(),
            open.join_is_open()
        ),
        (Some(2), vec![2], false)
    );
}

#[test]
fn without_rounds_the_lines_tell_of_runs() {
    assert_eq!(newest(&[0, 1, 0, 1], &["", ""]).0, 2);
    assert_eq!(newest(&[0, 1], &["", ""]).0, 2);
    assert_eq!(newest(&[0, 1, 0], &["0 1.", ""]).0, 2);
}

/// Builds an index in one or several deltas. The steps in `repeats` are byte for byte identical to
/// the previous one.
fn repeated(steps: &[i64], repeats: &[usize], runs: &[&str], at_once: bool) -> Index {
    let whole = index(steps, &events_of(runs));
    let head = |(n, step): (usize, &StepHead)| StepHead {
        repeats: repeats.contains(&n),
        ..step.clone()
    };
    let heads: Vec<StepHead> = whole.steps().iter().enumerate().map(head).collect();
    let events: Vec<_> = whole.events().iter().map(|event| (*event, None)).collect();
    let mut index = Index::default();
    if at_once {
        index.apply(Delta {
            steps: heads,
            events,
            ..Delta::default()
        });
    } else {
        events.into_iter().for_each(|event| {
            index.apply(Delta {
                events: vec![event],
                ..Delta::default()
            })
        });
        heads.into_iter().for_each(|head| {
            index.apply(Delta {
                steps: vec![head],
                ..Delta::default()
            })
        });
    }
    index
}

#[test]
fn a_line_written_twice_begins_no_run_unless_events_tell_of_one() {
    for at_once in [true, false] {
        let found = |steps: &[i64], repeats: &[usize], runs: &[&str]| {
            let index = repeated(steps, repeats, runs, at_once);
            let places = index.tally().repeats;
            assert_eq!(
                index.count_without_line(),
                index.groups_without_line().len(),
                "{runs:?}"
            );
            (
                index.lap_starts().to_vec(),
                (places.first, places.count),
                joined(&index),
            )
        };
        let (a, b, c) = (Some(0), Some(1), Some(2));
        assert_eq!(
            found(&[0, 1, 1], &[2], &["0 1"]),
            (vec![0], (Some(2), 1), vec![a, b, b])
        );
        assert_eq!(
            found(&[0, 1, 1, 1, 2], &[2, 3], &["0 1 2."]),
            (vec![0], (Some(2), 2), vec![a, b, b, b, c])
        );
        assert_eq!(
            found(&[0, 0], &[1], &[]),
            (vec![0], (Some(1), 1), vec![None, None])
        );
        assert_eq!(
            found(&[0, 0], &[1], &["0.", "0."]),
            (vec![0, 1], (None, 0), vec![a, b])
        );
        assert_eq!(
            found(&[0, 1, 1, 2], &[2], &["0 1", "1 2"]),
            (vec![0, 2], (None, 0), vec![a, b, c, Some(3)])
        );
        assert_eq!(
            found(&[0, 0, 0], &[1, 2], &["0.", "0 1"]),
            (vec![0, 1], (Some(2), 1), vec![a, b, b])
        );
        // Different bytes under the same id are a repeated step, and don't begin a run without
        // events.
        assert_eq!(found(&[0, 1, 1], &[], &["0 1"]).0, [0]);
    }
}

#[test]
fn lines_out_of_order_are_one_run_where_events_tell_of_one() {
    for at_once in [true, false] {
        let found = |steps: &[i64], runs: &[&str]| {
            let index = repeated(steps, &[], runs, at_once);
            assert_eq!(
                index.count_without_line(),
                index.groups_without_line().len(),
                "{runs:?}"
            );
            let late = index.late_steps();
            (
                index.lap_starts().to_vec(),
                late,
                joined(&index),
                index.tally().jumps.count,
                index.newest_len(),
            )
        };
        let (a, b, c, d) = (Some(0), Some(1), Some(2), Some(3));
        assert_eq!(
            found(&[0, 2, 1, 3], &["0 1 2 3."]),
            (vec![0], (1, Some(2)), vec![a, c, b, d], 0, 4)
        );
        assert_eq!(
            found(&[1, 0, 2, 3], &["0 1 2 3."]),
            (vec![0], (1, Some(1)), vec![b, a, c, d], 0, 4)
        );
        assert_eq!(
            found(&[3, 2, 1, 0], &["0 1 2 3."]),
            (vec![0], (3, Some(1)), vec![d, c, b, a], 0, 4)
        );
        // One line is missing, too.
        assert_eq!(
            found(&[0, 3, 1], &["0 1 2 3."]),
            (vec![0], (1, Some(2)), vec![a, d, b], 1, 3)
        );
        // If events record one run, a repeated id doesn't begin another. If they record several or
        // none, any falling id does.
        assert_eq!(found(&[0, 1, 1, 2], &["0 1 2."]).0, [0]);
        assert_eq!(found(&[0, 2, 1, 3], &["0 1 2", "1 3."]).0, [0, 2]);
        assert_eq!(found(&[0, 2, 1, 3], &[]).0, [0, 2]);
    }
}

#[test]
fn a_line_written_twice_counts_once() {
    let index = repeated(&[0, 1, 1, 2], &[2], &["0 1 2."], true);
    assert_eq!(
        (
            index.newest_len(),
            index.tally().run.readable,
            index.tally().run.repeats
        ),
        (3, 3, 1)
    );
}
