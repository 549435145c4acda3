use super::*;
use crate::model::{Delta, EventHead, EventNote, Format, Manifest, ManifestState, Names};

const SECOND: i64 = 1_000_000;

const SESSION: Format = Format {
    name: "Session",
    file: "session file",
    is_session: true,
    ..Format::UNKNOWN
};
const SPANS: Format = Format {
    is_session: false,
    ..SESSION
};

/// A record of a session, with its time in seconds.
enum Record {
    Prompt(i64),
    /// The first record of a reply: the step, when it was asked for, and when it came.
    Reply(i64, Option<i64>, i64),
    More(i64, i64),
    Result(i64, i64),
    /// A record without a time.
    Untimed(i64),
    /// A call that began at a time and was over at another.
    Span(i64, i64, i64),
    /// The person's answer to a question, with the times of both.
    Approved(i64, i64),
}
use Record::*;

/// Reads a run with one call in each step of `calls`.
fn run_of(
    format: &'static Format,
    steps: usize,
    calls: &[usize],
    records: impl IntoIterator<Item = Record>,
) -> Index {
    assembled(format, steps, calls, &[], records)
}

/// Reads a run whose steps are assembled from the records at `parts`, too.
fn assembled(
    format: &'static Format,
    steps: usize,
    calls: &[usize],
    parts: &[&[u32]],
    records: impl IntoIterator<Item = Record>,
) -> Index {
    let mut names = Names::default();
    let prompt = names.intern("prompt");
    let act = names.intern("act");
    let steps: Vec<StepHead> = (0..steps)
        .map(|n| StepHead {
            step_id: Some(n as i64),
            mode: act,
            line: n as u64 + 1,
            asked_hash: n as u64,
            actions: calls.iter().filter(|own| **own == n).count() as u32,
            parts: parts.get(n).copied().unwrap_or_default().into(),
            ..StepHead::default()
        })
        .collect();
    let event = |kind, step_id, ts: Option<i64>| EventHead {
        kind,
        step_id,
        ts: ts.map(|ts| ts * SECOND),
        ok: true,
        ..EventHead::default()
    };
    let events = records.into_iter().map(|record| match record {
        Prompt(ts) => {
            let mut event = event(EventKind::Other, None, Some(ts));
            event.stage = prompt;
            (event, None)
        }
        Reply(n, asked, ts) => (
            event(EventKind::StepStart, Some(n), Some(ts)),
            asked.map(|asked| EventNote::Asked(asked * SECOND)),
        ),
        More(n, ts) => (event(EventKind::Decided, Some(n), Some(ts)), None),
        Result(n, ts) => (event(EventKind::Inside, Some(n), Some(ts)), None),
        Untimed(n) => (event(EventKind::StepStart, Some(n), None), None),
        Approved(from, to) => (
            event(EventKind::Other, None, Some(to)),
            Some(EventNote::Approval(from * SECOND, to * SECOND)),
        ),
        Span(n, from, to) => (
            event(EventKind::Inside, Some(n), Some(from)),
            Some(EventNote::Until(to * SECOND)),
        ),
    });
    let mut index = Index::default();
    index.apply(Delta {
        steps,
        events: events.collect(),
        names: names.since(0).to_vec(),
        manifest: Some(ManifestState::Read(Box::new(Manifest {
            format,
            ..Manifest::default()
        }))),
        ..Delta::default()
    });
    index
}

/// Lists blocks as lane, step, and the seconds of the beginning and the end.
fn shown(lanes: &Lanes) -> Vec<(Lane, usize, i64, i64)> {
    lanes
        .blocks
        .iter()
        .map(|block| {
            let step = block.step.unwrap_or(usize::MAX);
            (block.lane, step, block.from / SECOND, block.to / SECOND)
        })
        .collect()
}

#[test]
fn a_turn_is_divided_between_model_tools_and_user() {
    let index = run_of(
        &SESSION,
        3,
        &[0],
        [
            Prompt(0),
            Reply(0, Some(1), 4),
            More(0, 5),
            Result(0, 9),
            Reply(1, Some(9), 12),
            Prompt(72),
            Reply(2, Some(72), 80),
        ],
    );
    let lanes = Lanes::of(&index);
    assert_eq!(
        shown(&lanes),
        [
            (Lane::Model, 0, 1, 5),
            (Lane::Tools, 0, 5, 9),
            (Lane::Model, 1, 9, 12),
            (Lane::User, 2, 12, 72),
            (Lane::Model, 2, 72, 80),
        ]
    );
    assert_eq!(lanes.turns, [(0, 0), (2, 72 * SECOND)]);
    assert_eq!(lanes.total(Lane::Model).micros, Some(15 * SECOND));
    assert_eq!(lanes.total(Lane::User).micros, Some(60 * SECOND));
    assert_eq!(lanes.calls_took(), BTreeMap::from([(0, 4 * SECOND)]));
    assert!(lanes.is_tool_time_measured);
}

/// A step may be assembled from an older record, too: that of the turn's model, or that of the text
/// that it edits.
#[test]
fn an_older_record_of_a_step_does_not_hide_its_times() {
    let records = || {
        [
            Prompt(0),
            Reply(0, Some(1), 4),
            Result(0, 9),
            Reply(1, Some(9), 12),
            Result(1, 13),
        ]
    };
    let alone = Lanes::of(&run_of(&SESSION, 2, &[0, 1], records()));
    let parts: [&[u32]; 2] = [&[0, 1, 2], &[2, 3, 4]];
    let lanes = Lanes::of(&assembled(&SESSION, 2, &[0, 1], &parts, records()));
    assert_eq!(lanes.untimed, 0);
    assert_eq!(shown(&lanes), shown(&alone));
}

#[test]
fn the_wait_for_an_approval_is_not_the_time_of_the_tool() {
    let run = |steps: usize, calls: &[usize]| {
        let records = [
            Prompt(0),
            Reply(0, Some(1), 4),
            Approved(5, 65),
            Result(0, 67),
            Reply(1, Some(67), 70),
        ];
        Lanes::of(&run_of(&SESSION, steps, calls, records))
    };
    let lanes = run(2, &[0]);
    assert_eq!(
        shown(&lanes),
        [
            (Lane::Model, 0, 1, 4),
            (Lane::Approval, 0, 5, 65),
            (Lane::Tools, 0, 65, 67),
            (Lane::Model, 1, 67, 70),
        ]
    );
    assert_eq!(lanes.total(Lane::Approval).micros, Some(60 * SECOND));
    assert_eq!(lanes.calls_took().get(&0), Some(&(2 * SECOND)));
    let several = run(2, &[0, 0]);
    assert_eq!(
        shown(&several).get(1..3),
        Some(&[(Lane::Tools, 0, 4, 5), (Lane::Approval, 0, 5, 65)][..]),
        "another call may have run"
    );
}

/// A hostile file has many approvals within many steps. Each is one block, and one wait.
#[test]
fn an_approval_belongs_to_one_step() {
    let n = 3_000;
    // Each request takes all of the time.
    let asked = (0..n).map(|at| Approved(10 + 2 * at, 11 + 2 * at));
    let replies = (0..n).map(|at| Reply(at, Some(1), 100_000));
    let records = [Prompt(0)].into_iter().chain(asked).chain(replies);
    let lanes = Lanes::of(&run_of(&SESSION, n as usize, &[], records));
    let approvals = lanes.total(Lane::Approval);
    assert_eq!(approvals.blocks, n as usize);
    assert_eq!(approvals.micros, Some(n * SECOND));
    // The first step is cut by each of its waits, and the others not at all.
    assert_eq!(lanes.total(Lane::Model).blocks, 2 * n as usize);
    assert_eq!(lanes.active(), Some((100_000 - 1 - n) * SECOND));
}

#[test]
fn approvals_and_waits_for_a_prompt_are_not_active_time() {
    let records = [
        Prompt(0),
        Reply(0, Some(0), 4),
        Approved(4, 64),
        Result(0, 67),
        Reply(1, Some(67), 70),
        Prompt(170),
        Reply(2, Some(170), 180),
    ];
    let lanes = Lanes::of(&run_of(&SESSION, 3, &[0], records));
    assert_eq!(lanes.active(), Some((180 - 60 - 100) * SECOND));
    // The clock of the approval overlaps the wait for the prompt.
    let mut lanes = lanes;
    lanes
        .blocks
        .push(block(Lane::Approval, 60 * SECOND, 75 * SECOND));
    assert_eq!(lanes.active(), Some((180 - 166) * SECOND));
}

#[test]
fn a_prompt_typed_while_the_agent_worked_is_no_wait() {
    let index = run_of(
        &SESSION,
        2,
        &[0],
        [
            Prompt(0),
            Reply(0, Some(0), 4),
            Prompt(6),
            Result(0, 9),
            Reply(1, Some(9), 12),
        ],
    );
    let lanes = Lanes::of(&index);
    assert!(
        lanes.blocks.iter().all(|block| block.lane != Lane::User),
        "{:?}",
        shown(&lanes)
    );
    assert_eq!(lanes.turns.len(), 2);
}

#[test]
fn calls_that_ran_between_parts_of_a_reply_have_their_own_blocks() {
    let index = run_of(
        &SESSION,
        1,
        &[0, 0],
        [
            Prompt(0),
            Reply(0, Some(0), 2),
            Result(0, 5),
            More(0, 6),
            Result(0, 10),
        ],
    );
    let lanes = Lanes::of(&index);
    assert_eq!(
        shown(&lanes),
        [
            (Lane::Model, 0, 0, 2),
            (Lane::Tools, 0, 2, 5),
            (Lane::Model, 0, 5, 6),
            (Lane::Tools, 0, 6, 10),
        ]
    );
    assert_eq!(lanes.calls_took(), BTreeMap::new(), "of which call?");
}

#[test]
fn calls_of_spans_overlap_and_end_with_the_last() {
    let index = run_of(
        &SPANS,
        1,
        &[0, 0],
        [Reply(0, Some(0), 2), Span(0, 2, 9), Span(0, 3, 5)],
    );
    let lanes = Lanes::of(&index);
    assert_eq!(
        shown(&lanes),
        [(Lane::Model, 0, 0, 2), (Lane::Tools, 0, 2, 9)]
    );
}

#[test]
fn a_request_without_a_time_has_no_model_time() {
    let records = || [Reply(0, None, 4), Result(0, 9), Reply(1, None, 20)];
    let spans = Lanes::of(&run_of(&SPANS, 2, &[0], records()));
    assert_eq!(shown(&spans), [(Lane::Tools, 0, 4, 9)]);
    assert_eq!((spans.without_model, spans.untimed), (1, 1));
    assert_eq!(spans.total(Lane::Model).micros, None);
    // A session sends the next request when it has the results.
    let session = Lanes::of(&run_of(&SESSION, 2, &[0], records()));
    assert_eq!(
        shown(&session),
        [(Lane::Tools, 0, 4, 9), (Lane::Model, 1, 9, 20)]
    );
    assert_eq!((session.without_model, session.untimed), (1, 0));
}

#[test]
fn missing_times_and_clocks_that_go_back_make_no_blocks() {
    let untimed = Lanes::of(&run_of(&SESSION, 1, &[], [Untimed(0)]));
    assert_eq!((untimed.blocks.len(), untimed.untimed), (0, 1));
    let back = Lanes::of(&run_of(
        &SESSION,
        2,
        &[0],
        [
            Prompt(0),
            Reply(0, Some(1), 8),
            Result(0, 3),
            Reply(1, Some(9), 12),
        ],
    ));
    assert_eq!(shown(&back), [(Lane::Model, 1, 9, 12)]);
    assert_eq!(back.untimed, 1);
}

#[test]
fn results_at_the_time_of_their_calls_have_an_unknown_duration() {
    let lanes = Lanes::of(&run_of(
        &SESSION,
        1,
        &[0],
        [Prompt(0), Reply(0, Some(0), 4), Result(0, 4)],
    ));
    let tools: Vec<&Block> = lanes
        .blocks
        .iter()
        .filter(|block| block.lane == Lane::Tools)
        .collect();
    assert_eq!(
        tools.iter().map(|block| block.took()).collect::<Vec<_>>(),
        [None]
    );
    let total = lanes.total(Lane::Tools);
    assert_eq!((total.micros, total.untimed), (None, 1));
}

#[test]
fn a_failure_is_the_tools_where_there_are_calls() {
    let index = run_of(
        &SESSION,
        1,
        &[0],
        [Prompt(0), Reply(0, Some(0), 2), Result(0, 5)],
    );
    let failed = |error: &str| {
        let mut index = index.clone();
        let mut step = index.steps().get(0).unwrap().clone();
        step.error = Some(error.into());
        index.apply(Delta {
            touched: vec![(0, step)],
            ..Delta::default()
        });
        let lanes = Lanes::of(&index);
        let failed = lanes.blocks.iter().filter(|block| block.is_failed);
        failed.map(|block| block.lane).collect::<Vec<_>>()
    };
    assert_eq!(failed("exit 1"), [Lane::Tools]);
    assert_eq!(failed("no reply: overloaded"), [Lane::Model]);
}

#[test]
fn an_engine_has_phases() {
    let mut names = Names::default();
    let mut phase = |name: &str| names.intern(name);
    let phases = [
        (phase("DECIDE"), EventKind::StateBefore, 0),
        (phase("DECIDE"), EventKind::Decided, 3),
        (phase("ACT"), EventKind::Acting, 4),
        (phase("REDUCE"), EventKind::Inside, 9),
        (phase("CHECK_STOP"), EventKind::Checked, 10),
    ];
    let act = names.intern("act");
    let mut index = Index::default();
    index.apply(Delta {
        steps: vec![StepHead {
            step_id: Some(0),
            mode: act,
            actions: 1,
            returncode: Some(1),
            ..StepHead::default()
        }],
        events: phases
            .iter()
            .map(|(phase, kind, ts)| {
                let event = EventHead {
                    kind: *kind,
                    phase: *phase,
                    step_id: Some(0),
                    ts: Some(ts * SECOND),
                    ok: true,
                    ..EventHead::default()
                };
                (event, None)
            })
            .collect(),
        names: names.since(0).to_vec(),
        ..Delta::default()
    });
    let lanes = Lanes::of(&index);
    assert_eq!(
        shown(&lanes),
        [
            (Lane::Model, 0, 0, 4),
            (Lane::Tools, 0, 4, 9),
            (Lane::Engine, 0, 9, 10),
            (Lane::Engine, 0, 10, 10),
        ]
    );
    let failed = lanes.blocks.iter().filter(|block| block.is_failed);
    assert_eq!(
        failed.map(|block| block.lane).collect::<Vec<_>>(),
        [Lane::Tools]
    );
    assert_eq!(lanes.turns, []);
}

#[test]
fn the_time_without_waits_for_the_user_is_active() {
    let active = |steps: usize, records: Vec<Record>| {
        let lanes = Lanes::of(&run_of(&SESSION, steps, &[], records));
        lanes.active().map(|active| active / SECOND)
    };
    let one = || vec![Prompt(0), Reply(0, Some(0), 4)];
    let mut two = one();
    two.extend([Prompt(90), Reply(1, Some(90), 96)]);
    assert_eq!(active(2, two), Some(10));
    assert_eq!(active(1, one()), Some(4));
    assert_eq!(active(1, vec![Untimed(0)]), None);
}
