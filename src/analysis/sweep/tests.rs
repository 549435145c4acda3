//! Tests sums over runs: what is counted, what is excluded, and that order doesn't matter.

use proptest::prelude::*;

use super::*;
use crate::analysis::facts::tests::{Files, runs_below};
use crate::analysis::life::ExternalFacts;
use crate::analysis::rule_replay::Tally;
use crate::analysis::summary::summary;
use crate::model::RunKey;
use crate::stop::{Gate, StepFacts, Usage};

fn spec(sweep: &str, values: &str, rules: &[&str]) -> Result<SweepSpec, InvalidSweep> {
    let typed = Typed {
        sweep,
        values,
        rules: rules.to_vec(),
        ..Typed::default()
    };
    SweepSpec::parse(&typed)
}

fn prepared(sweep: &str, values: &str, rules: &[&str]) -> PreparedSweep {
    spec(sweep, values, rules)
        .unwrap()
        .ready(std::iter::empty())
        .unwrap()
}

/// An empty summary. Tests set the fields they need.
fn blank(name: &str) -> Summary {
    summary(
        &RunKey::new(name),
        name.to_owned(),
        &crate::model::Index::default(),
        ExternalFacts::default(),
    )
}

/// A run of `steps` steps of one second and 10 tokens each, with an answer in the last if
/// `answered`.
fn run(name: &str, steps: u64, answered: bool, tokens: bool) -> (Summary, Record) {
    let step = |n: u64| StepFacts {
        reached: Gate::AfterStep,
        t_start_ms: Some(n * 1000),
        t_decided_ms: Some(n * 1000 + 600),
        t_end_ms: Some(n * 1000 + 1000),
        usage: tokens.then_some(Usage::reported(8, 2)),
        candidate: answered && n + 1 == steps,
        final_answer: (answered && n + 1 == steps).then(|| "forty two".to_owned()),
        ..StepFacts::begin(n, n * 1000)
    };
    let record = Record {
        facts: (0..steps).map(step).collect(),
        ..Record::default()
    };
    let mut summary = blank(name);
    summary.verdict.answered = answered;
    (summary, record)
}

fn sums(prepared: &PreparedSweep, runs: &[(Summary, Record)]) -> Sweep {
    let mut sweep = prepared.begin();
    runs.iter()
        .for_each(|(summary, record)| sweep.add(&prepared.ask(summary, record)));
    sweep
}

fn sweep_rule(name: &str) -> SweepRule {
    SweepRule::parse(name, "", "").unwrap()
}

#[test]
fn each_limit_says_what_it_cuts_loses_spends_and_saves() {
    let prepared = prepared("max_steps", "2..6", &[]);
    let sweep = sums(
        &prepared,
        &[
            run("short", 3, true, true),
            run("long", 6, false, true),
            run("late", 5, true, true),
        ],
    );
    assert_eq!((sweep.runs, sweep.answers), (3, 2));
    let rows: Vec<_> = sweep
        .limits()
        .iter()
        .map(|effect| {
            (
                effect.cut,
                effect.same,
                effect.lost,
                effect.kept,
                effect.steps.spent,
                effect.tokens.saved,
            )
        })
        .collect();
    assert_eq!(
        rows,
        [
            (3, 0, 2, 0, 6, 80),
            (2, 1, 1, 1, 9, 50),
            (2, 0, 1, 1, 11, 30),
            (1, 1, 0, 2, 13, 10),
            (0, 1, 0, 2, 14, 0)
        ]
    );
    assert!(
        sweep
            .limits()
            .iter()
            .all(|effect| effect.tokens.recorded() == 140 && effect.ms.recorded() == 14_000)
    );
    let lost: Vec<_> = sweep.limits()[1]
        .lost_in
        .iter()
        .map(|(key, step)| (key.as_str(), *step))
        .collect();
    assert_eq!(lost, [("late", Some(2))]);
    let best = sweep.best().unwrap();
    assert_eq!(prepared.names().nth(best).unwrap(), "max_steps=5");
}

#[test]
fn a_stop_within_the_last_step_cuts_the_run_and_may_lose_its_answer() {
    let prepared = prepared("max_rounds", "3", &["max_steps=3"]);
    let mut short = run("short", 3, true, true);
    // The answer is what the actions of the last step wrote to the state.
    short.1.facts.last_mut().unwrap().candidate = false;
    let sweep = sums(&prepared, &[short]);
    let row = |effect: &Effect| {
        (
            effect.cut,
            effect.same,
            effect.lost,
            effect.kept,
            effect.ms.saved,
        )
    };
    assert_eq!(
        row(&sweep.limits()[0]),
        (1, 0, 1, 0, 400),
        "before its actions"
    );
    assert_eq!(row(&sweep.rules()[0]), (0, 1, 0, 1, 0), "behind them");
}

#[test]
fn what_is_unknown_is_counted_and_in_no_sum() {
    let prepared = prepared("token_budget", "15,25", &[]);
    let sweep = sums(
        &prepared,
        &[run("told", 4, true, true), run("silent", 4, true, false)],
    );
    let [first, _] = sweep.limits() else {
        panic!("two limits")
    };
    assert_eq!(
        (
            first.cut,
            first.unknown,
            first.lost,
            first.kept,
            first.unknown_answers
        ),
        (1, 1, 1, 0, 1)
    );
    assert_eq!(
        first.steps,
        Sum {
            runs: 1,
            spenders: 1,
            answers: 1,
            kept: 0,
            spent: 2,
            saved: 2
        },
        "only the run that can be evaluated"
    );
    assert_eq!(
        first.tokens,
        Sum {
            runs: 1,
            spenders: 1,
            answers: 1,
            kept: 0,
            spent: 20,
            saved: 20
        }
    );
    assert_eq!(
        reasons(&sweep),
        [("the token usage of some steps isn't recorded", 1)]
    );
    // A rule that can be evaluated for a run without tokens counts its steps and omits its tokens.
    let steps = sums(
        &super::tests::prepared("max_steps", "2", &[]),
        &[run("silent", 4, true, false)],
    );
    assert_eq!(
        (steps.limits()[0].steps.runs, steps.limits()[0].tokens.runs),
        (1, 0)
    );
    assert_eq!(steps.measure(), Measure::Steps);
    // Scripted runs are known to spend nothing, so by tokens no limit is better than another.
    let scripted = |name: &str| {
        let mut run = run(name, 4, true, true);
        run.1
            .facts
            .iter_mut()
            .for_each(|facts| facts.usage = Some(Usage::default()));
        run
    };
    let mixed = sums(
        &super::tests::prepared("max_steps", "2", &[]),
        &[scripted("a"), scripted("b"), run("c", 4, true, true)],
    );
    assert_eq!(
        (
            mixed.limits()[0].tokens.runs,
            mixed.limits()[0].tokens.spenders
        ),
        (3, 1)
    );
    assert_eq!(mixed.measure(), Measure::Steps);
}

#[test]
fn a_run_counts_at_all_limits_or_at_none() {
    let mut gap = run("gap", 6, true, true);
    gap.1.facts[4].usage = None;
    let prepared = prepared("token_budget", "15,45", &[]);
    let sweep = sums(&prepared, &[gap, run("whole", 6, true, true)]);
    let cut: Vec<_> = sweep
        .limits()
        .iter()
        .map(|effect| (effect.cut, effect.unknown))
        .collect();
    assert_eq!(cut, [(2, 0), (1, 1)], "before the gap it can be evaluated");
    assert!(
        sweep
            .limits()
            .iter()
            .all(|effect| effect.tokens.runs == 1 && effect.tokens.recorded() == 60)
    );
}

#[test]
fn rules_beside_the_varied_one_are_asked_each_and_together() {
    let prepared = prepared("max_steps", "4", &["max_rounds=3", "token_budget=15"]);
    assert!(prepared.asks_together());
    assert_eq!(
        prepared.names().collect::<Vec<_>>(),
        ["max_steps=4", "max_rounds=3", "token_budget=15"]
    );
    let sweep = sums(
        &prepared,
        &[run("told", 5, true, true), run("silent", 5, true, false)],
    );
    let rows: Vec<_> = sweep
        .rules()
        .iter()
        .map(|effect| (effect.cut, effect.unknown, effect.tokens.saved))
        .collect();
    // The silent run may be over budget before its third round.
    assert_eq!(rows, [(2, 0, 20), (1, 1, 30), (1, 1, 30)]);
}

#[test]
fn a_limit_is_recommended_where_it_stands_out_and_answers_could_be_lost() {
    let chosen = |values: &str, runs: &[(Summary, Record)]| {
        let sweep = sums(&prepared("max_steps", values, &[]), runs);
        (sweep.choice(), sweep.best())
    };
    let answered = [run("a", 2, true, true), run("b", 4, true, true)];
    assert_eq!(
        chosen("1,2,3", &answered),
        (Choice::One(1), None),
        "each loses answers; 2 and 3 lose the fewest"
    );
    assert_eq!(
        chosen("2,3", &answered),
        (Choice::Tie(0), None),
        "each loses the same number"
    );
    assert_eq!(chosen("9", &answered), (Choice::Nothing, None));
    let unanswered = [run("a", 5, false, true), run("b", 4, false, true)];
    assert_eq!(chosen("1,2", &unanswered), (Choice::NoAnswers, None));
    let mixed = [run("a", 5, false, true), run("b", 2, true, true)];
    assert_eq!(chosen("2,3", &mixed), (Choice::One(0), Some(0)));
    // Both budgets stop the long run before its fifth step.
    let tied = sums(&prepared("token_budget", "31,35", &[]), &mixed);
    assert_eq!((tied.choice(), tied.best()), (Choice::Tie(0), None));
}

#[test]
fn limits_are_numbers_ranges_and_points() {
    let values = |sweep_rule: &SweepRule, text: &str| sweep_rule.values(text);
    let score = SweepRule::parse("critic_below", "tests", "1").unwrap();
    assert_eq!(
        values(&sweep_rule("max_steps"), "5, 1..3,2").unwrap(),
        [1.0, 2.0, 3.0, 5.0]
    );
    assert_eq!(
        values(&sweep_rule("token_budget"), "1000..20000/3").unwrap(),
        [1000.0, 10500.0, 20000.0]
    );
    assert_eq!(
        values(&sweep_rule("token_budget"), "1000..20000")
            .unwrap()
            .len(),
        MAX_VALUES
    );
    assert_eq!(
        values(&score, "0.1..0.3").unwrap(),
        [0.1, 0.15, 0.2, 0.25, 0.3]
    );
    for (sweep_rule, text, words) in [
        (
            &sweep_rule("max_steps"),
            "0",
            "\"0\" must be a whole number ≥ 1",
        ),
        (
            &sweep_rule("loop_detection"),
            "1",
            "\"1\" must be a whole number ≥ 2",
        ),
        (
            &sweep_rule("max_steps"),
            "-3",
            "\"-3\" must be a whole number ≥ 1",
        ),
        (
            &sweep_rule("max_steps"),
            "2.5",
            "\"2.5\" must be a whole number ≥ 1",
        ),
        (
            &sweep_rule("max_steps"),
            "9..3",
            "must go from smaller to larger",
        ),
        (
            &sweep_rule("max_steps"),
            "1..9/0",
            "1..9/0 must have 2 to 50 points",
        ),
        (
            &sweep_rule("max_steps"),
            "1..40,100..140",
            "81 limits are too many",
        ),
        (&sweep_rule("max_steps"), ",", "no limits are given"),
        (&score, "low", "\"low\" isn't a score"),
        (&score, "NaN", "\"NaN\" isn't a score"),
    ] {
        let wrong = values(sweep_rule, text).unwrap_err();
        assert!(wrong.why.contains(words), "{text}: {wrong:?}");
        assert_eq!(wrong.name.as_deref(), Some(sweep_rule.name()));
        assert!(
            values(sweep_rule, wrong.example.unwrap()).is_ok(),
            "{wrong:?}"
        );
    }
}

#[test]
fn limits_are_chosen_from_what_the_runs_took() {
    let took = |sweep_rule: SweepRule, tokens: &[u64]| {
        let runs: Vec<Summary> = tokens
            .iter()
            .map(|tokens| Summary {
                tokens: Some(*tokens),
                steps_now: *tokens as usize,
                ..blank("x")
            })
            .collect();
        sweep_rule.choose(runs.iter())
    };
    assert_eq!(
        took(sweep_rule("max_steps"), &[3, 5]),
        [1.0, 2.0, 3.0, 4.0, 5.0]
    );
    let few = took(sweep_rule("token_budget"), &[12_483, 900]);
    assert!(
        few.contains(&13_000.0) && few.contains(&900.0) && few.len() > 5,
        "{few:?}"
    );
    let many: Vec<u64> = (1..2000).map(|n| n * 37).collect();
    let many = took(sweep_rule("token_budget"), &many);
    assert!(
        (20..=MAX_VALUES).contains(&many.len()) && many.last() == Some(&74_000.0),
        "{many:?}"
    );
    // Without recorded usage, there's one limit that can't be evaluated.
    assert_eq!(took(sweep_rule("timeout"), &[4]), [1.0]);
    let paid = |cost_usd| {
        let mut run = blank("x");
        run.cost_usd = cost_usd;
        run
    };
    let cents = sweep_rule("max_cost").choose([paid(Some(0.041)), paid(None)].iter());
    assert_eq!(
        cents,
        [0.01, 0.02, 0.03, 0.04, 0.05],
        "at least what the run cost"
    );
    assert!(
        sweep_rule("max_cost").choose([paid(None)].iter()).len() > 10,
        "nothing recorded, so the usual limits"
    );
}

#[test]
fn a_question_that_cannot_be_asked_says_what_a_right_one_is() {
    let names = "max_steps, max_rounds";
    for (sweep, rules, name, words, example) in [
        (
            "",
            vec!["max_step=3"],
            "max_step=3",
            &*format!("unknown rule `max_step`; use one of {names}"),
            Some("max_steps=8"),
        ),
        (
            "",
            vec!["max_steps=-3"],
            "max_steps=-3",
            "max_steps must be a whole number",
            Some("max_steps=8"),
        ),
        (
            "",
            vec!["content_match=("],
            "content_match=(",
            "the pattern \"(\" doesn't compile",
            Some("content_match=(?i)done"),
        ),
        (
            "keyword",
            vec![],
            "keyword",
            "`keyword` can't be varied. Choose one of max_steps",
            None,
        ),
        (
            "critic_below",
            vec![],
            "critic_below",
            "choose a critic to vary its score",
            Some("critic=tests"),
        ),
    ] {
        let wrong = spec(sweep, "", &rules).unwrap_err();
        assert!(wrong.why.starts_with(words), "{wrong:?}");
        assert_eq!(
            (wrong.name.as_deref(), wrong.example),
            (Some(name), example)
        );
    }
    let many = vec!["max_steps=3"; MAX_RULES + 1];
    let wrong = spec("", "", &many).unwrap_err();
    assert_eq!(
        (wrong.name, &*wrong.why),
        (
            None,
            "21 rules are too many; at most 20 can be evaluated at once"
        )
    );
    let asked = spec("", "", &["", " "]).unwrap();
    assert_eq!(
        asked.to_string(),
        "max_steps auto",
        "an empty question sweeps max_steps"
    );
    assert_eq!(
        spec("max_steps", "2, 1", &[]),
        spec("max_steps", "1..2", &[]),
        "the same question, written in two ways"
    );
}

#[test]
fn the_runs_in_this_repository_are_swept() {
    let prepared = prepared("max_steps", "1..40", &[]);
    let mut sweep = prepared.begin();
    for path in runs_below("sample_runs") {
        let files = Files::open(&path);
        let name = path.file_name().unwrap().to_string_lossy();
        let summary = summary(
            &RunKey::new(&name),
            name.to_string(),
            &files.index,
            ExternalFacts::default(),
        );
        sweep.add(&prepared.ask(&summary, &files.record(prepared.depth())));
    }
    let told = |effect: &Effect| effect.cut + effect.same + effect.not_reached + effect.unknown;
    assert!(sweep.runs > 20 && sweep.answers > 10);
    assert!(
        sweep
            .limits()
            .iter()
            .all(|effect| told(effect) == sweep.runs && effect.unknown == 0)
    );
    let cuts: Vec<u64> = sweep.limits().iter().map(|effect| effect.cut).collect();
    assert!(
        cuts.is_sorted_by(|a, b| a >= b),
        "a looser limit cuts no more: {cuts:?}"
    );
    let spent: Vec<u64> = sweep
        .limits()
        .iter()
        .map(|effect| effect.tokens.spent)
        .collect();
    assert!(spent.is_sorted(), "and spends no less: {spent:?}");
}

fn any_told() -> impl Strategy<Value = SweepResult> {
    let found = prop_oneof![
        Just(StopTiming::Earlier),
        Just(StopTiming::Same),
        Just(StopTiming::NotReached),
        Just(StopTiming::Unknown)
    ];
    let number = || proptest::option::of(0_u64..50);
    (
        found,
        number(),
        (number(), number(), number()),
        any::<bool>(),
        any::<bool>(),
    )
        .prop_map(|(found, step, (steps, tokens, ms), within, lost)| {
            let cuts = found == StopTiming::Earlier || (within && found == StopTiming::Same);
            SweepResult {
                found,
                step,
                saved: Saved { steps, tokens, ms },
                cuts,
                answer_lost: lost && cuts,
                needs: (found == StopTiming::Unknown)
                    .then(|| "3 steps have no line in steps.jsonl".to_owned()),
            }
        })
}

fn any_answer() -> impl Strategy<Value = RunEffects> {
    let whole = (
        50_u64..90,
        proptest::option::of(50_u64..90),
        proptest::option::of(50_u64..90),
    );
    (
        "[a-z]{1,8}",
        any::<bool>(),
        any::<bool>(),
        whole,
        proptest::collection::vec(any_told(), 3),
    )
        .prop_map(|(key, well, going, (ran, tokens, ms), told)| {
            let answered = well || told.iter().any(|told| told.answer_lost);
            let whole = Tally { ran, tokens, ms };
            RunEffects {
                key: RunKey::new(&key),
                answered,
                going,
                whole,
                estimated: well,
                inferred: going,
                results: told,
            }
        })
}

proptest! {
    #[test]
    fn the_order_of_runs_does_not_matter(
        mut answers in proptest::collection::vec(any_answer(), 0..40),
    ) {
        // Keys are unique on a board.
        for (place, answer) in answers.iter_mut().enumerate() {
            answer.key = RunKey::new(&format!("{}-{place}", answer.key));
        }
        let add = |answers: &[RunEffects]| {
            let mut sweep = Sweep::new(2, 3);
            answers.iter().for_each(|answer| sweep.add(answer));
            sweep
        };
        let whole = add(&answers);
        answers.reverse();
        prop_assert_eq!(&add(&answers), &whole);
        for effect in &whole.effects {
            prop_assert_eq!(effect.cut + effect.same + effect.not_reached + effect.unknown, whole.runs);
            prop_assert_eq!(effect.kept + effect.lost + effect.unknown_answers, whole.answers);
        }
        let recorded: Vec<u64> = whole.limits().iter().map(|effect| effect.tokens.recorded()).collect();
        prop_assert!(recorded.windows(2).all(|pair| pair[0] == pair[1]), "all limits cover the same runs");
    }
}
