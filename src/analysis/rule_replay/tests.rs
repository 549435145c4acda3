//! Edge cases 24 and 25: the recorded rules on the recorded facts yield the recorded verdict.

use proptest::prelude::*;

use super::*;
use crate::soak::times;
use crate::stop::tests::{answer, critic, live, run, set, step, steps};
use crate::stop::*;

fn rule() -> impl Strategy<Value = StopSpec> {
    let n = 0_u64..6;
    let leaf = prop_oneof![
        n.clone()
            .prop_map(|rounds| StopSpec::from(MaxRounds { rounds })),
        n.clone()
            .prop_map(|steps| StopSpec::from(MaxSteps { steps })),
        n.clone()
            .prop_map(|seconds| StopSpec::from(Timeout { seconds })),
        n.clone().prop_map(|seconds| StopSpec::from(MaxRuntime {
            seconds: seconds as f64 / 2.0
        })),
        (0_u64..60).prop_map(|max_total| StopSpec::from(TokenBudget { max_total })),
        n.clone()
            .prop_map(|max| StopSpec::from(ConsecutiveErrors { max })),
        n.clone()
            .prop_map(|window| StopSpec::from(LoopDetection { window })),
        n.prop_map(|steps| StopSpec::from(Stagnation { steps })),
        "[ab]?".prop_map(|tool_name| StopSpec::from(StopOnTool { tool_name })),
        "[ab(]?".prop_map(|pattern| StopSpec::from(ContentMatch { pattern })),
        (0_u64..4).prop_map(|steps| StopSpec::from(CriticBelow {
            critic: "a".into(),
            score: 0.5,
            steps
        })),
        Just(StopSpec::from(FinalResult {})),
        "[ab]?".prop_map(|keyword| StopSpec::from(Keyword { keyword })),
        any::<bool>().prop_map(|fenced| StopSpec::from(StructuredOutput {
            schema: None,
            fenced
        })),
    ];
    leaf.prop_recursive(2, 6, 3, |inner| {
        let of = prop::collection::vec(inner, 1..4);
        prop_oneof![
            of.clone().prop_map(|of| StopSpec::from(AnyOf { of })),
            of.prop_map(|of| StopSpec::from(AllOf { of })),
        ]
    })
}

fn critics() -> impl Strategy<Value = Vec<CriticFact>> {
    let wish = prop_oneof![
        8 => Just(CriticWish::Continue),
        2 => Just(CriticWish::Retry),
        1 => Just(CriticWish::Stop),
        1 => Just(CriticWish::Failed),
    ];
    // Eighths, because serde_json may be off by one unit in the last place for other fractions.
    let score = prop::option::of((0_u8..8).prop_map(|eighths| f64::from(eighths) / 8.0));
    let one = ("[ab]", wish, score).prop_map(|(name, wish, score)| CriticFact {
        name,
        wish,
        reason: None,
        score,
    });
    prop::collection::vec(one, 0..3)
}

fn error() -> impl Strategy<Value = Option<StepError>> {
    let phase = prop_oneof![Just(Phase::Decide), Just(Phase::Act), Just(Phase::Reduce)];
    let one = (phase, prop::bool::weighted(0.9)).prop_map(|(phase, recovered)| StepError {
        phase,
        message: "no luck".into(),
        recovered,
    });
    prop::option::weighted(0.2, one)
}

fn forced() -> impl Strategy<Value = Option<Forced>> {
    let gate = prop::sample::select(Gate::ALL.to_vec());
    let end = prop_oneof![
        Just((Source::Cancel, Code::CancelledImmediate)),
        Just((Source::Error, Code::ContextOverflow)),
    ];
    let one = (gate, end).prop_map(|(gate, (source, code))| Forced {
        gate,
        source,
        code,
        detail: "so".into(),
    });
    prop::option::weighted(0.03, one)
}

prop_compose! {
    fn facts()(
        times in prop::option::weighted(0.9, (0_u64..900, 0_u64..900, 0_u64..900)),
        usage in prop::option::weighted(0.9, (0_u64..9, 0_u64..9)),
        late in 0_u64..3,
        text in prop_oneof![Just(Text::Unknown), "[ab]{0,2}".prop_map(Text::Known)],
        actions in prop::option::weighted(0.9, prop::collection::vec("[abc]", 0..3)),
        candidate in prop::bool::weighted(0.2),
        final_answer in prop::option::weighted(0.2, "[ab1]{0,2}"),
        error in error(),
        signature in prop::option::weighted(0.9, 0_u64..2),
        critics in critics(),
        agent_stop in prop::bool::weighted(0.03),
        env_terminal in prop::bool::weighted(0.03),
        forced in forced(),
    ) -> StepFacts {
        let tokens = |input, output| Usage::reported(input, output);
        StepFacts {
            t_start_ms: times.map(|(start, _, _)| start),
            t_decided_ms: times.map(|(start, decide, _)| start + decide),
            t_end_ms: times.map(|(start, decide, act)| start + decide + act),
            usage: usage.map(|(input, output)| tokens(input, output)),
            late_usage: tokens(late, 0),
            text, actions, candidate, final_answer, error, signature, critics, agent_stop, env_terminal, forced,
            ..StepFacts::unknown(0)
        }
    }
}

/// Returns the steps in order, each starting a second after the previous one.
fn in_order(mut steps: Vec<StepFacts>) -> Vec<StepFacts> {
    for (facts, n) in steps.iter_mut().zip(0_u64..) {
        facts.step = n;
        for time in [
            &mut facts.t_start_ms,
            &mut facts.t_decided_ms,
            &mut facts.t_end_ms,
        ]
        .into_iter()
        .flatten()
        {
            *time += n * 1000;
        }
    }
    steps
}

proptest! {
    #![proptest_config(ProptestConfig { cases: times(60, 400) as u32, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn case_24_recorded_rules_over_recorded_facts_give_the_recorded_verdict(
        rules in prop::collection::vec(rule(), 0..5),
        limits in prop::option::of((0_u64..9, 0_u64..9000, 0_u64..200)),
        steps in prop::collection::vec(facts(), 0..12),
    ) {
        let mut builder = StopSet::<u64>::builder()
            .policy_when("third", Gate::AfterDecide, |cx| cx.facts.step == *cx.state)
            .accept_when("digit", |cx| cx.facts.final_answer.as_ref().is_some_and(|text| text.contains('1')));
        builder = rules.into_iter().fold(builder, StopSetBuilder::rule);
        if let Some((steps, ms, tokens)) = limits {
            let time = std::time::Duration::from_millis(ms);
            let origin = Origin::Task;
            builder = builder.budget(Budget::default().steps(steps, origin).time(time, origin).tokens(tokens, origin));
        }
        let set = builder.build_fail_closed().expect("the rules are valid");
        let run = live(&set, &9, Stats::default(), &in_order(steps));

        // Round-trips through text, like a trace.
        let rules = serde_json::to_string(&set.record()).expect("rules can be written");
        let facts = serde_json::to_string(&run.recorded).expect("facts can be written");
        let rules: StopRules = serde_json::from_str(&rules).expect("rules can be read");
        let facts: Vec<StepFacts> = serde_json::from_str(&facts).expect("facts can be read");
        let again = StopSet::<()>::builder().rules(rules).build_fail_closed().expect("the recorded rules are valid");
        let replayed = replay(&again, &facts);
        prop_assert_eq!(&replayed.verdict, &run.verdict);
        prop_assert_eq!(&replayed.stats, &run.stats);

        // Evaluated independently, a rule stops where the run ended or not at all, and the rule that
        // ended the run does stop.
        let firsts = first_stops(&again, Stats::default(), &facts);
        let reached = facts.last().map(|last| last.reached);
        for first in &firsts.rules {
            let ended = run.verdict.as_ref().is_some_and(|verdict| verdict.criterion == first.id);
            prop_assert!(first.stop.is_some() || !ended, "{} ended the run", first.id);
            let Some(stop) = &first.stop else { continue };
            prop_assert_eq!((stop.step, Some(stop.gate)), (run.stats.last_step, reached));
            if let Some(verdict) = run.verdict.as_ref().filter(|_| ended) {
                prop_assert_eq!((&stop.code, &stop.reading), (&verdict.code, &verdict.reading));
            }
        }

        let verdict = serde_json::to_string(&run.verdict).expect("a verdict can be written");
        prop_assert_eq!(serde_json::from_str::<Option<StopVerdict>>(&verdict).expect("and read"), run.verdict);
    }
}

#[test]
fn case_25_earlier_same_and_not_reached() {
    let recorded = run(&["max_steps=5"], &steps(9)).recorded;
    let earlier = replay(&set(&["max_steps=3"]), &recorded);
    assert_eq!(
        earlier.verdict.as_ref().and_then(|verdict| verdict.step),
        Some(2)
    );
    assert_eq!((earlier.stats.steps, earlier.stats.tokens.total()), (3, 45));
    let same = replay(&set(&["token_budget=70"]), &recorded);
    assert_eq!(same.verdict.and_then(|verdict| verdict.step), Some(4));
    let not_reached = replay(&set(&["max_steps=6"]), &recorded);
    assert_eq!((not_reached.verdict, not_reached.stats.steps), (None, 5));
    assert_eq!(not_reached.readings.len(), 1);
    let Check::Pass(reading) = &not_reached.readings[0].check else {
        panic!("it passes")
    };
    assert_eq!(reading.headroom(), Some(1.0));
}

#[test]
fn rules_asked_each_by_itself_do_not_end_the_record_for_each_other() {
    // A critic vetoed the answer of step 3, and the run continued.
    let vetoed = StepFacts {
        critics: vec![critic("a", CriticWish::Retry)],
        ..answer(3, "no")
    };
    let recorded = [steps(3), vec![vetoed, step(4), answer(5, "yes")]].concat();
    let set = set(&[
        "max_steps=2",
        "max_rounds=5",
        "keyword=yes",
        "token_budget=1000",
        "keyword=maybe",
    ]);
    let firsts = first_stops(&set, Stats::default(), &recorded);
    let told: Vec<_> = firsts
        .rules
        .iter()
        .map(|first| (&*first.id, first.stop.as_ref()))
        .collect();
    let place = |at: usize| {
        told[at]
            .1
            .map(|stop| (stop.step, stop.gate, stop.at.ran, stop.at.tokens))
    };
    assert_eq!(
        (told[0].0, place(0)),
        ("accept[0]", Some((Some(5), Gate::AfterStep, 6, Some(90))))
    );
    assert_eq!((told[1].0, place(1)), ("accept[1]", None));
    assert_eq!(
        firsts.rules[1].refused.as_ref().map(|(step, _)| *step),
        Some(5),
        "the vetoed one was not judged"
    );
    assert_eq!(
        (told[2].0, place(2)),
        ("stop[0]", Some((Some(1), Gate::AfterStep, 2, Some(30))))
    );
    assert_eq!(
        (told[3].0, place(3)),
        ("stop[1]", Some((Some(4), Gate::AfterDecide, 5, Some(75))))
    );
    assert_eq!((told[4].0, place(4)), ("stop[2]", None));
    assert_eq!(
        (firsts.end.ran, firsts.end.tokens, firsts.end.ms),
        (6, Some(90), Some(60))
    );
}

#[test]
fn what_was_not_known_is_settled_by_what_follows_where_that_can_be() {
    let dark = |n| StepFacts {
        t_decided_ms: None,
        actions: None,
        ..step(n)
    };
    let rules = set(&["timeout=1", "stop_on_tool=rm"]);
    let unknown = |recorded: &[StepFacts]| {
        let firsts = first_stops(&rules, Stats::default(), recorded);
        firsts
            .rules
            .into_iter()
            .map(|first| first.unknown.map(|unknown| unknown.step))
            .collect::<Vec<_>>()
    };
    assert_eq!(
        unknown(&[step(0), dark(1), step(2)]),
        [None, Some(1)],
        "time only grows, tools come and go"
    );
    assert_eq!(unknown(&[step(0), dark(1)]), [Some(1), Some(1)]);
}

#[test]
fn case_25_what_the_record_lacks_is_named() {
    let bare: Vec<_> = (0..3).map(StepFacts::unknown).collect();
    let rules = [
        "timeout=1",
        "token_budget=1",
        "stop_on_tool=x",
        "content_match=x",
        "loop_detection=2",
        "stagnation=1",
    ];
    let rules: Vec<_> = rules
        .into_iter()
        .chain(["critic_below=a:0.5", "max_steps=9"])
        .collect();
    let replayed = replay(&set(&rules), &bare);
    assert_eq!(replayed.verdict, None);
    let unknown: Vec<_> = replayed
        .unknown
        .iter()
        .map(|unknown| (unknown.id.as_str(), unknown.step))
        .collect();
    assert_eq!(unknown.len(), 7, "all but max_steps: {unknown:?}");
    assert!(
        unknown.iter().all(|(_, step)| *step == 0),
        "each is reported only at its first step"
    );
    assert_eq!(
        replay(&set(&["max_steps=2"]), &bare)
            .verdict
            .and_then(|verdict| verdict.step),
        Some(1)
    );
}

#[test]
fn case_25_a_refused_answer_is_remembered() {
    let recorded = run(&[], &[step(0), answer(1, "no")]).recorded;
    let stricter = replay(&set(&["keyword=yes"]), &recorded);
    assert_eq!((stricter.verdict, stricter.refused), (None, Some(1)));
    assert_eq!(replay(&set(&[]), &recorded).refused, None);
}
