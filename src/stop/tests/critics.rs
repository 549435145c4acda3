//! Edge cases 15 to 18: errors, critics, stagnation, groups.

use super::*;
use crate::analysis::rule_replay::{first_stops, survey};

#[test]
fn case_15_failed_steps_in_a_row() {
    let act = |n| failed(n, Phase::Act);
    let decide = |n| failed(n, Phase::Decide);
    let mixed = run(&["consecutive_errors=3"], &[act(0), decide(1), act(2)]);
    assert_eq!(
        (mixed.code(), mixed.place()),
        ("consecutive_errors", (Some(2), Some(Gate::AfterStep)))
    );
    let phases: Vec<_> = mixed.verdict().reading.evidence.iter().collect();
    assert!(matches!(
        phases[..],
        [
            Evidence::Failure {
                step: 0,
                phase: Phase::Act,
                ..
            },
            Evidence::Failure {
                step: 1,
                phase: Phase::Decide,
                ..
            },
            Evidence::Failure { step: 2, .. },
        ]
    ));
    let reset = run(
        &["consecutive_errors=2"],
        &[act(0), step(1), act(2), step(3)],
    );
    assert_eq!(
        (
            reset.code(),
            reset.stats.errors,
            reset.stats.consecutive_errors
        ),
        ("none", 2, 0)
    );

    let last = run(&["consecutive_errors=2", "max_steps=2"], &[act(0), act(1)]);
    assert_eq!(
        (last.code(), &last.verdict().also[..]),
        ("consecutive_errors", &["stop[1]".to_owned()][..])
    );
    assert_eq!(
        run(&["max_steps=2"], &[act(0), act(1)]).code(),
        "max_steps",
        "limits are checked after a recovered step"
    );
    assert_eq!(
        run(&["max_rounds=2"], &[decide(0), decide(1)]).code(),
        "max_rounds",
        "a failed decision counts as a round"
    );
    assert_eq!(
        run(&["token_budget=20"], &[decide(0), decide(1)]).code(),
        "token_budget",
        "its tokens count"
    );
}

#[test]
fn case_15_a_step_that_is_not_recovered_ends_the_run_and_its_answer_is_not_accepted() {
    let mut lost = StepFacts {
        error: failed(0, Phase::Reduce).error,
        ..answer(0, "42")
    };
    assert_eq!(
        run(&[], std::slice::from_ref(&lost)).code(),
        "none",
        "recovered, but no answer"
    );
    lost.error
        .as_mut()
        .expect("the step has an error")
        .recovered = false;
    let at_once = StepFacts {
        untried: true,
        ..lost.clone()
    };
    for (facts, code) in [(lost, "recovery_exhausted"), (at_once, "step_failed")] {
        let run = run(&[], &[facts]);
        assert_eq!(
            (run.code(), run.verdict().source.as_str()),
            (code, "recovery")
        );
        assert_eq!(run.verdict().stop_reason, "unrecoverable_error");
    }
}

#[test]
fn case_15_evidence_stays_bounded() {
    let many: Vec<_> = (0..100).map(|n| failed(n, Phase::Act)).collect();
    let run = run(&["consecutive_errors=100"], &many);
    assert_eq!(run.verdict().reading.evidence.len(), 8);
    assert_eq!(run.verdict().reading.measured, Some(100_u64.into()));
}

#[test]
fn case_16_critics_are_read_in_order_and_a_retry_vetoes_only_the_answer() {
    let judged = |wishes: &[CriticWish]| {
        let critics = wishes
            .iter()
            .zip(["a", "b"])
            .map(|(wish, name)| critic(name, *wish))
            .collect();
        StepFacts {
            critics,
            ..answer(0, "42")
        }
    };
    use CriticWish::{Continue, Failed, Retry, Stop};
    for (wishes, code) in [
        (&[Continue, Continue][..], "final"),
        (&[Continue, Stop], "critic_stop"),
        (&[Stop, Retry], "critic_stop"),
        (&[Retry, Stop], "none"),
        (&[Retry], "none"),
        (&[Failed], "criterion_error"),
    ] {
        assert_eq!(run(&[], &[judged(wishes)]).code(), code, "{wishes:?}");
    }
    let vetoed = run(&["max_steps=1", "token_budget=1"], &[judged(&[Retry])]);
    assert_eq!(
        (vetoed.code(), &vetoed.verdict().also[..]),
        ("max_steps", &["stop[1]".to_owned()][..])
    );
    let stopped = run(&[], &[judged(&[Continue, Stop])]);
    assert_eq!(
        (
            stopped.verdict().criterion.as_str(),
            &stopped.verdict().also[..]
        ),
        ("critic[1]", &["decision".to_owned()][..])
    );
    assert_eq!(
        stopped.verdict().reading.detail,
        "the critic b requested a stop: b says so"
    );
    assert_eq!(
        run(&[], &[judged(&[Failed])]).verdict().outcome,
        Outcome::Failed
    );
}

#[test]
fn case_16_a_score_that_stays_low() {
    let scored = |n, score: Option<f64>| StepFacts {
        critics: vec![CriticFact {
            score,
            ..critic("tests", CriticWish::Continue)
        }],
        ..step(n)
    };
    let scores = |list: &[Option<f64>]| {
        list.iter()
            .zip(0..)
            .map(|(score, n)| scored(n, *score))
            .collect::<Vec<_>>()
    };
    let low = run(
        &["critic_below=tests:0.5:2"],
        &scores(&[Some(0.4), Some(0.5), Some(0.1), Some(0.2)]),
    );
    assert_eq!((low.code(), low.place().0), ("critic_below", Some(3)));
    assert_eq!(low.verdict().stop_reason, "critic_stop");
    assert_eq!(
        low.verdict().reading.detail,
        "tests scored below 0.5, 2 times in a row (last 0.2)"
    );
    let gap = run(
        &["critic_below=tests:0.5:2"],
        &scores(&[Some(0.4), None, Some(f64::NAN), Some(0.4)]),
    );
    assert_eq!(
        (gap.place().0, gap.unknown.len()),
        (Some(3), 0),
        "a missing score doesn't break a streak"
    );
    let least = run(
        &["critic_below=tests:0.5"],
        &scores(&[Some(f64::INFINITY), Some(f64::NEG_INFINITY), Some(0.6)]),
    );
    assert_eq!(least.place().0, Some(1));
    assert_eq!(
        least.verdict().reading.detail,
        "tests scored -Infinity, below 0.5"
    );
    let late = run(&["critic_below=tests:0.5"], &scores(&[None, Some(0.6)]));
    assert_eq!(
        late.unknown.len(),
        1,
        "before the first score, the name may be wrong"
    );
    let twice = run(
        &["critic_below=tests:0.5:2", "critic_below=tests:0.5:2"],
        &scores(&[Some(0.4); 2]),
    );
    assert_eq!(
        twice.place().0,
        Some(1),
        "two equal rules do not count twice"
    );
}

#[test]
fn case_17_stagnation_starts_afresh_with_each_run_and_needs_signatures() {
    let still: Vec<_> = (0..9)
        .map(|n| StepFacts {
            signature: Some(5),
            ..step(n)
        })
        .collect();
    let set = set(&["stagnation=3"]);
    for _ in 0..2 {
        let run = live(&set, &(), Stats::default(), &still);
        assert_eq!(run.place().0, Some(3), "the fourth equal state");
        assert_eq!(
            run.verdict().reading.evidence,
            [Evidence::Steps {
                from_step: 0,
                to_step: 3
            }]
        );
    }
    let blind: Vec<_> = (0..9).map(StepFacts::unknown).collect();
    let run = live(&set, &(), Stats::default(), &blind);
    assert_eq!((run.code(), run.unknown.len()), ("none", 9));
    assert_eq!(run.unknown[0].needs, "whether some steps changed the state");
    let changed: Vec<_> = (0..9)
        .map(|n| StepFacts {
            signature: Some(n / 2),
            ..step(n)
        })
        .collect();
    assert_eq!(
        live(&set, &(), Stats::default(), &changed).code(),
        "none",
        "a critic's change of the state counts"
    );
}

#[test]
fn case_18_groups() {
    let all = r#"{"type":"all_of","of":[{"type":"max_steps","steps":2},{"type":"stop_on_tool","tool_name":"look"}]}"#;
    let both = run(&[all], &steps(5));
    assert_eq!(
        (both.code(), both.place()),
        ("max_steps", (Some(1), Some(Gate::AfterStep)))
    );
    assert!(
        both.verdict()
            .reading
            .detail
            .ends_with("and the model called look")
    );
    let any = r#"{"type":"any_of","of":[{"type":"max_steps","steps":2},{"type":"stop_on_tool","tool_name":"look"}]}"#;
    assert_eq!(
        run(&[any], &steps(5)).place(),
        (Some(0), Some(Gate::AfterDecide)),
        "each member at its own gate"
    );

    let nested = format!(r#"{{"type":"any_of","of":[{all},{{"type":"max_steps","steps":4}}]}}"#);
    assert_eq!(run(&[&nested], &steps(5)).place().0, Some(1));
    let off =
        r#"{"type":"all_of","of":[{"type":"max_steps","steps":2},{"type":"timeout","seconds":0}]}"#;
    assert_eq!(
        run(&[off], &steps(5)).code(),
        "max_steps",
        "a member that is off is skipped"
    );
    let all_off = set(&[r#"{"type":"any_of","of":[{"type":"timeout","seconds":0}]}"#]);
    assert!(matches!(
        survey(&all_off, &Stats::default(), &step(0))[0].check,
        Check::Off(_)
    ));

    let unsure = |kind, steps| {
        format!(
            r#"{{"type":"{kind}","of":[{{"type":"max_steps","steps":{steps}}},{{"type":"stagnation","steps":1}}]}}"#
        )
    };
    let blind = [StepFacts::unknown(0)];
    for (kind, limit, code, unknown) in [
        ("any_of", 1, "max_steps", 0),
        ("any_of", 9, "none", 1),
        ("all_of", 1, "none", 1),
        ("all_of", 9, "none", 0),
    ] {
        let run = run(&[&unsure(kind, limit)], &blind);
        assert_eq!(
            (run.code(), run.unknown.len()),
            (code, unknown),
            "{kind} with {limit}"
        );
    }
    for kind in ["any_of", "all_of"] {
        let empty: StopSpec = format!(r#"{{"type":"{kind}","of":[]}}"#)
            .parse()
            .expect("the rule parses");
        let wrong = StopSet::<()>::builder()
            .rule(empty)
            .build()
            .expect_err("an empty group");
        assert_eq!(
            wrong.to_string(),
            format!("stop[0]: {kind} needs at least one member")
        );
    }
}

#[test]
fn case_18_groups_of_completion_rules_accept() {
    let both = r#"{"type":"all_of","of":[{"type":"keyword","keyword":"DONE"},{"type":"structured_output"}]}"#;
    assert_eq!(run(&[both], &[answer(0, "DONE")]).code(), "none");
    let accepted = run(&[both], &[answer(0, "\"DONE\"")]);
    assert_eq!(
        (accepted.code(), accepted.verdict().source.as_str()),
        ("keyword", "completion")
    );
    let misplaced = StopSet::<()>::builder()
        .accept(MaxSteps { steps: 1 })
        .build();
    assert_eq!(
        misplaced.expect_err("a limit accepts nothing").to_string(),
        "accept[0] never accepts an answer, so it must be a policy"
    );
}

/// Returns the step at which the rule stops, and the first step at which it can't be evaluated.
fn first(rule: &str, steps: &[StepFacts]) -> (Option<u64>, Option<u64>) {
    let firsts = first_stops(&set(&[rule]), Stats::default(), steps);
    let first = &firsts.rules[0];
    (
        first.stop.as_ref().and_then(|stop| stop.step),
        first.unknown.as_ref().map(|unknown| unknown.step),
    )
}

#[test]
fn a_line_that_cannot_be_read_is_neither_a_success_nor_a_step_without_calls_critics_or_an_answer() {
    let bad = failed(0, Phase::Act);
    let steps = [bad, StepFacts::unread(1), step(2), step(3)];
    for (rule, told) in [
        ("consecutive_errors=1", (Some(0), None)),
        ("consecutive_errors=2", (None, Some(1))),
        ("consecutive_errors=3", (None, None)),
        ("stop_on_tool=look", (Some(0), None)),
        ("stop_on_tool=write", (None, Some(1))),
        ("content_match=a", (None, Some(1))),
        ("keyword=a", (None, Some(1))),
        ("final_result", (None, Some(1))),
        ("structured_output", (None, Some(1))),
        ("stagnation=1", (None, Some(1))),
        ("max_steps=3", (Some(2), None)),
    ] {
        assert_eq!(first(rule, &steps), told, "{rule}");
    }
    let again = [
        failed(0, Phase::Act),
        StepFacts::unread(1),
        failed(2, Phase::Act),
        failed(3, Phase::Act),
    ];
    assert_eq!(
        first("consecutive_errors=2", &again),
        (Some(3), Some(1)),
        "at step 3 at the latest"
    );
    assert_eq!(first("consecutive_errors=4", &again), (None, Some(3)));
    assert_eq!(first("consecutive_errors=5", &again), (None, None));
}

#[test]
fn a_critic_may_have_scored_a_step_whose_line_cannot_be_read() {
    let scored = |n: u64| StepFacts {
        critics: vec![critic("judge", CriticWish::Continue)],
        ..step(n)
    };
    let steps = [scored(0), StepFacts::unread(1), scored(2)];
    for (rule, told) in [
        ("critic_below=judge:0.4", (None, Some(1))),
        ("critic_below=judge:0.6", (Some(0), None)),
        ("critic_below=judge:0.6:2", (None, Some(1))),
        ("critic_below=judge:0.6:3", (None, Some(2))),
        ("critic_below=judge:0.6:4", (None, None)),
    ] {
        assert_eq!(first(rule, &steps), told, "{rule}");
    }
    let readable = [scored(0), step(1), scored(2)];
    assert_eq!(first("critic_below=judge:0.4", &readable), (None, None));
}
