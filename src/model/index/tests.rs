use super::*;

fn index(steps: &[i64], events: &[(&str, i64)]) -> Index {
    let mut names = Names::default();
    let steps = steps.iter().map(|id| StepHead { step_id: Some(*id), ..StepHead::default() }).collect();
    let mut delta = Delta { steps, ..Delta::default() };
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
        delta.events.push((head, None));
    }
    delta.names = names.since(0).to_vec();
    let mut index = Index::default();
    index.apply(delta);
    index
}

fn joined(index: &Index) -> Vec<Option<usize>> {
    (0..index.steps().len()).map(|ordinal| index.group_of(ordinal)).collect()
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
    let spans: Vec<_> = index.groups().iter().map(|group| (group.first, group.end)).collect();
    assert_eq!(spans, [(2, 5), (5, 7)]);
    assert_eq!((index.group_at(1), index.group_at(4), index.group_at(7)), (None, Some(0), None));
    assert_eq!(index.pending_group(), None);
}

#[test]
fn a_directory_used_twice_joins_lap_by_lap() {
    let run = [("INIT", 0), ("DECIDE/state_ready", 0), ("DECIDE/state_ready", 1), ("END", 1)];
    let index = index(&[0, 1, 0, 1], &[run, run].concat());
    assert_eq!(joined(&index), [Some(0), Some(1), Some(2), Some(3)]);
    assert_eq!(index.segments().len(), 2);
    assert!(!index.join_is_open());
}

#[test]
fn a_run_that_died_before_its_first_line_leaves_the_newest_events_to_the_lines() {
    let events =
        [("INIT", 0), ("DECIDE/state_ready", 0), ("INIT", 0), ("DECIDE/state_ready", 0), ("DECIDE/state_ready", 1)];
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
    let index = index(&[0], &[("INIT", 0), ("DECIDE/state_ready", 0), ("DECIDE/state_ready", 1), ("ACT/start", 1)]);
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
        at_once.apply(Delta { steps: (0..100).map(heads).collect(), ..Delta::default() });
        let mut later_on = Index::default();
        later_on.apply(Delta { steps: (0..100).map(first).collect(), ..Delta::default() });
        assert_eq!((later_on.tally().run.readable, at_once.tally().run.readable), (0, 1));
        later_on.apply(Delta { touched: vec![(touched, later(touched))], ..Delta::default() });
        assert_eq!(later_on.tally(), at_once.tally(), "{touched}");
        assert_eq!(later_on.failed_steps(), at_once.failed_steps());
    }
}
