//! Edge cases 1 to 6, 20 to 23 and 27: limits, their order, and where a run stops.

use std::time::Duration;

use super::*;
use crate::analysis::rule_replay::{replay, survey};

#[test]
fn max_cost_counts_what_completed_steps_cost_and_is_unknown_where_one_does_not_say() {
    let paid = |step: u64, cost_usd: Option<f64>| StepFacts {
        cost_usd,
        usage: Some(Usage::reported(9, 1)),
        ..StepFacts::unknown(step)
    };
    let steps: Vec<_> = (0..4).map(|step| paid(step, Some(0.1))).collect();
    for (rule, expected) in [
        ("max_cost=0.3", Some((Some(2), "$0.3, limit $0.3"))),
        ("max_cost=0.2", Some((Some(1), "$0.2, limit $0.2"))),
        ("max_cost=0.41", None),
        ("max_cost=0", None),
    ] {
        let set = StopSet::<()>::builder()
            .rule(rule.parse::<StopSpec>().expect("a rule"))
            .build()
            .expect("sound");
        let told = replay(&set, &steps);
        let verdict = told
            .verdict
            .as_ref()
            .map(|verdict| (verdict.step, &*verdict.reading.detail));
        assert_eq!(verdict, expected, "{rule}");
        if let Some(verdict) = &told.verdict {
            assert_eq!(
                (verdict.outcome, verdict.stop_reason.as_str()),
                (Outcome::Truncated, "budget_tokens")
            );
        }
        assert!(told.unknown.is_empty(), "{rule}");
    }
    let set = StopSet::<()>::builder()
        .rule(MaxCost { usd: 0.2 })
        .build()
        .expect("sound");
    let gap = replay(&set, &[paid(0, Some(0.1)), paid(1, None), paid(2, None)]);
    assert_eq!(
        (
            gap.verdict,
            gap.unknown[0].step,
            gap.unknown[0].needs.as_str()
        ),
        (None, 1, "the cost of some steps")
    );
    let enough = replay(&set, &[paid(0, None), paid(1, Some(0.3))]);
    assert_eq!(
        enough.verdict.and_then(|verdict| verdict.step),
        Some(1),
        "the known costs are enough"
    );
    let huge = replay(&set, &[paid(0, Some(1e300))])
        .verdict
        .expect("it ends")
        .reading
        .detail
        .to_string();
    assert!(
        huge.contains("e300, limit $0.2") && huge.len() < 40,
        "{huge}"
    );
    for wrong in [
        "max_cost",
        "max_cost=-1",
        "max_cost=inf",
        "max_cost=ten",
        r#"{"type":"max_cost","usd":"1"}"#,
    ] {
        assert!(wrong.parse::<StopSpec>().is_err(), "{wrong}");
    }
}

#[test]
fn case_1_at_one_below_and_one_above() {
    let decide = Gate::AfterDecide;
    let end = Gate::AfterStep;
    for (rule, at, gate, op, measured) in [
        ("max_rounds=3", 2, decide, Op::AtLeast, 3),
        ("max_steps=3", 2, end, Op::AtLeast, 3),
        ("token_budget=44", 2, decide, Op::Above, 45),
        ("token_budget=45", 3, decide, Op::Above, 60),
        ("token_budget=46", 3, decide, Op::Above, 60),
        ("stagnation=2", 2, end, Op::AtLeast, 2),
        ("consecutive_errors=3", 2, end, Op::AtLeast, 3),
        ("loop_detection=3", 2, decide, Op::AtLeast, 3),
    ] {
        let same = |n| StepFacts {
            text: Text::Known("again".into()),
            signature: Some(7),
            ..failed(n, Phase::Act)
        };
        let run = run(&[rule], &(0..6).map(same).collect::<Vec<_>>());
        let verdict = run.verdict();
        assert_eq!(run.place(), (Some(at), Some(gate)), "{rule}");
        assert_eq!(verdict.reading.op, Some(op), "{rule}");
        assert_eq!(verdict.reading.measured, Some(measured.into()), "{rule}");
        assert_eq!(verdict.criterion, "stop[0]");
    }
}

#[test]
fn case_1_time_at_one_below_and_one_above() {
    let at = |ms| StepFacts {
        t_decided_ms: Some(ms),
        t_end_ms: Some(ms),
        ..StepFacts::begin(0, 0)
    };
    for (rule, ms, code) in [
        ("timeout=1", 999, "none"),
        ("timeout=1", 1000, "none"),
        ("timeout=1", 1001, "timeout"),
        ("max_runtime=1", 999, "none"),
        ("max_runtime=1", 1000, "max_runtime"),
        ("max_runtime=1", 1001, "max_runtime"),
        // Only 0 is off. Less than a millisecond is a limit, too.
        ("max_runtime=0.0001", 0, "none"),
        ("max_runtime=0.0001", 1, "max_runtime"),
        ("max_runtime=1e300", u64::MAX - 1, "none"),
    ] {
        assert_eq!(run(&[rule], &[at(ms)]).code(), code, "{rule} at {ms} ms");
    }
    let limit = Budget::default().time(Duration::from_millis(20), Origin::Task);
    let stopped = budget(limit, &steps(5));
    assert_eq!(
        stopped.place(),
        (Some(2), Some(Gate::BeforeStep)),
        "20 ms isn't more than 20 ms, but 30 ms is"
    );
    assert_eq!(stopped.verdict().reading.op, Some(Op::Above));
    assert_eq!(stopped.verdict().limit_from, Some(Origin::Task));
}

#[test]
fn a_limit_in_seconds_is_shown_as_it_was_given() {
    for (rule, written, limit) in [
        (
            "max_runtime=1e300",
            "max_runtime=1e300",
            Amount::Text("1e300 s".into()),
        ),
        (
            "max_runtime=0.0001",
            "max_runtime=0.0001",
            Amount::Text("0.0001 s".into()),
        ),
        ("max_runtime=60", "max_runtime=60", Amount::Seconds(60)),
    ] {
        let spec: StopSpec = rule.parse().unwrap();
        assert_eq!((spec.to_string().as_str(), spec.limit()), (written, limit));
    }
}

#[test]
fn case_2_zero_is_off_for_policies_and_nothing_for_a_budget() {
    let off = RULES.iter().filter_map(|row| row.off);
    for rule in off.chain(["loop_detection=0"]) {
        let set = set(&[rule]);
        assert_eq!(
            live(&set, &(), Stats::default(), &steps(3)).code(),
            "none",
            "{rule}"
        );
        let readings = survey(&set, &Stats::default(), &answer(0, "x"));
        assert!(
            matches!(readings[0].check, Check::Off(_)),
            "{rule} is shown as off"
        );
    }
    for (zero, code) in [
        (Budget::default().steps(0, Origin::Cli), "budget_steps"),
        (
            Budget::default().time(Duration::ZERO, Origin::Cli),
            "budget_time",
        ),
        (Budget::default().tokens(0, Origin::Cli), "budget_tokens"),
    ] {
        let stopped = budget(zero, &steps(3));
        assert_eq!(
            (stopped.code(), stopped.place()),
            (code, (None, Some(Gate::BeforeStep)))
        );
        assert!(
            stopped.recorded.len() == 1 && stopped.stats.steps == 0,
            "nothing ran"
        );
    }
    assert_eq!(
        budget(Budget::default(), &steps(500)).code(),
        "none",
        "without a limit, the run never stops"
    );
}

#[test]
fn case_3_huge_limits_neither_overflow_nor_narrow() {
    let max = u64::MAX;
    for rule in [
        "timeout",
        "max_runtime",
        "consecutive_errors",
        "max_rounds",
        "token_budget",
    ] {
        for limit in [1 << 32, max] {
            let errors: Vec<_> = (0..5).map(|n| failed(n, Phase::Act)).collect();
            assert_eq!(
                run(&[&format!("{rule}={limit}")], &errors).code(),
                "none",
                "{rule}={limit}"
            );
        }
    }
    let hungry = |n| StepFacts {
        usage: Some(Usage::reported(max, max)),
        ..step(n)
    };
    let run = run(
        &["token_budget=18446744073709551614"],
        &[hungry(0), hungry(1)],
    );
    assert_eq!(
        run.verdict().reading.measured,
        Some(max.into()),
        "the sum saturates"
    );
    assert_eq!(run.place().0, Some(0));
}

#[test]
fn case_4_max_steps_runs_n_steps_and_max_rounds_n_decisions() {
    let by_steps = run(&["max_steps=3"], &steps(9));
    assert_eq!((by_steps.stats.steps, by_steps.stats.decisions), (3, 3));
    let by_rounds = run(&["max_rounds=3"], &steps(9));
    assert_eq!(
        (by_rounds.stats.steps, by_rounds.stats.decisions),
        (2, 3),
        "the last one's tools do not run"
    );
    let by_budget = budget(Budget::default().steps(3, Origin::Engine), &steps(9));
    assert_eq!(
        (by_budget.stats.steps, by_budget.place()),
        (3, (Some(2), Some(Gate::BeforeStep)))
    );
}

#[test]
fn case_5_tokens_equal_to_the_limit_pass_the_policy_and_spend_the_budget() {
    assert_eq!(run(&["token_budget=15"], &steps(1)).code(), "none");
    let stopped = budget(Budget::default().tokens(15, Origin::Engine), &steps(3));
    assert_eq!(
        (stopped.code(), stopped.place()),
        ("budget_tokens", (Some(0), Some(Gate::BeforeStep)))
    );
    assert_eq!(stopped.verdict().reading.op, Some(Op::AtLeast));
    assert_eq!(
        stopped.verdict().reading.evidence,
        [Evidence::Usage {
            step: 0,
            input: 10,
            output: 5
        }]
    );
}

#[test]
fn case_6_missing_usage_is_unknown_and_all_calls_of_a_step_count() {
    let silent = StepFacts {
        usage: None,
        ..step(0)
    };
    let unsure = run(&["token_budget=40"], &[silent.clone(), step(1)]);
    assert_eq!(unsure.code(), "none");
    assert_eq!(unsure.unknown[0].needs, "the token usage of some steps");
    assert_eq!(
        run(&["token_budget=20"], &[silent, step(1), step(2)]).code(),
        "token_budget",
        "the known tokens are enough to stop"
    );

    let repaired = Usage::default().plus(Usage::reported(10, 5));
    let repaired = repaired.plus(Usage::estimated(20, 10));
    let judged = StepFacts {
        usage: Some(repaired),
        late_usage: Usage::reported(7, 0),
        ..step(0)
    };
    let run = run(&["token_budget=51"], &[judged, step(1)]);
    assert_eq!(
        run.verdict().reading.measured,
        Some(67_u64.into()),
        "45 before the decision, 7 after it, 15 in step 1"
    );
    assert!(run.verdict().reading.detail.contains("estimated"));
    assert_eq!(
        run.verdict().reading.evidence,
        [Evidence::Usage {
            step: 1,
            input: 10,
            output: 5
        }]
    );
}

#[test]
fn case_20_swapping_two_rules_changes_the_winner_and_only_the_winner() {
    let one = run(
        &[
            "max_steps=2",
            "max_runtime=0",
            "stagnation=1",
            "max_steps=1",
        ],
        &steps(3),
    );
    assert_eq!(
        one.verdict().criterion,
        "stop[3]",
        "a rule that isn't true yet doesn't win by its position"
    );
    let still: Vec<_> = (0..3)
        .map(|n| StepFacts {
            signature: Some(1),
            ..step(n)
        })
        .collect();
    let ab = run(&["stagnation=1", "max_steps=2"], &still);
    let ba = run(&["max_steps=2", "stagnation=1"], &still);
    assert_eq!((ab.code(), ba.code()), ("stagnation", "max_steps"));
    assert_eq!(
        (ab.place(), &ab.verdict().also),
        (ba.place(), &ba.verdict().also)
    );
    assert_eq!(ab.verdict().also, ["stop[1]"]);
}

#[test]
fn case_20_everything_that_was_true_is_listed() {
    let last = StepFacts {
        critics: vec![critic("judge", CriticWish::Stop)],
        agent_stop: true,
        env_terminal: true,
        ..answer(0, "42")
    };
    let set = StopSet::builder()
        .budget(Budget::default().steps(1, Origin::Task))
        .rule(MaxRounds { rounds: 1 })
        .rule(MaxSteps { steps: 1 })
        .rule(Keyword {
            keyword: "4".into(),
        })
        .build();
    let run = live(&set.expect("sound"), &(), Stats::default(), &[last]);
    assert_eq!(run.verdict().criterion, "critic[0]");
    assert_eq!(
        run.verdict().also,
        [
            "accept[0]",
            "agent",
            "env",
            "stop[0]",
            "stop[1]",
            "budget.steps"
        ]
    );
}

#[test]
fn case_21_a_stop_names_the_last_step_that_ran() {
    let tool = run(&["stop_on_tool=look"], &steps(2));
    assert_eq!(tool.place(), (Some(0), Some(Gate::AfterDecide)));
    let end = run(&["max_steps=1"], &steps(2));
    assert_eq!(end.place(), (Some(0), Some(Gate::AfterStep)));
    let before = budget(Budget::default().steps(2, Origin::Engine), &steps(5));
    assert_eq!(before.place(), (Some(1), Some(Gate::BeforeStep)));
    assert_eq!(
        before
            .recorded
            .last()
            .map(|facts| (facts.step, facts.reached)),
        Some((2, Gate::BeforeStep))
    );
    let never = budget(Budget::default().steps(0, Origin::Engine), &steps(5));
    assert_eq!(never.place().0, None);
}

#[test]
fn case_22_counters_and_time_of_an_earlier_part_count() {
    let first = run(&["max_steps=9"], &steps(3));
    let snapshot = serde_json::to_string(&first.stats).expect("stats can be written");
    let carried = |ms| Stats {
        carried_ms: ms,
        ..serde_json::from_str(&snapshot).expect("and read")
    };
    let set = set(&["max_steps=4", "max_runtime=1"]);
    let again = live(&set, &(), carried(30), &[step(0)]);
    assert_eq!(again.code(), "max_steps");
    assert_eq!(again.stats.elapsed_ms, Some(40), "30 ms before, 10 ms now");
    let counted = live(&set, &(), carried(2030), &[step(0)]);
    assert_eq!(counted.stats.elapsed_ms, Some(2040));
    assert_eq!(
        counted.verdict().also,
        ["stop[1]"],
        "the earlier time used up the limit"
    );
}

#[test]
fn case_23_cancelled_before_the_first_step_in_a_step_and_after_the_answer() {
    let cancel = |gate, code| {
        Some(Forced {
            gate,
            source: Source::Cancel,
            code,
            detail: "interrupted".into(),
        })
    };
    let before = StepFacts {
        forced: cancel(Gate::BeforeStep, Code::CancelledImmediate),
        ..step(0)
    };
    let before = run(&[], &[before]);
    assert_eq!(
        (before.code(), before.place().0),
        ("cancelled_immediate", None)
    );
    assert_eq!(before.verdict().outcome, Outcome::Cancelled);

    let in_tool = StepFacts {
        forced: cancel(Gate::AfterStep, Code::CancelledImmediate),
        ..step(0)
    };
    let in_tool = run(&["max_steps=1"], &[in_tool]);
    assert_eq!(
        (in_tool.code(), in_tool.place().0),
        ("cancelled_immediate", Some(0))
    );
    assert_eq!(in_tool.verdict().also, ["stop[0]"]);

    let late = StepFacts {
        forced: cancel(Gate::AfterStep, Code::CancelledAfterStep),
        ..answer(0, "42")
    };
    let late = run(&[], &[late]);
    assert_eq!(
        (late.code(), &late.verdict().also[..]),
        ("final", &["cancelled_after_step".to_owned()][..])
    );
}

#[test]
fn case_27_no_list_of_rules_takes_the_budget_away() {
    let budget = Budget::default().steps(2, Origin::Engine);
    let rules = StopRules {
        completion: vec![StopSpec::from(FinalResult {}).into()],
        ..StopRules::default()
    };
    let set = StopSet::builder()
        .budget(budget)
        .rules(rules)
        .budget(Budget::default())
        .build()
        .expect("sound");
    assert_eq!(
        live(&set, &(), Stats::default(), &steps(5)).code(),
        "budget_steps"
    );
    let tighter = budget
        .tokens(9, Origin::Engine)
        .overridden_by(Budget::default().steps(1, Origin::Task));
    assert_eq!(
        tighter.steps,
        Some(Limit {
            limit: 1,
            from: Origin::Task
        })
    );
    assert_eq!(
        tighter.tokens.map(|limit| limit.from),
        Some(Origin::Engine),
        "field by field"
    );
}
