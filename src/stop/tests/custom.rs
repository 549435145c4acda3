//! Edge case 19: rules in code.

use super::*;
use crate::analysis::rule_replay::replay;

fn over(limit: u64) -> impl Fn(&StopCx<'_, u64>) -> bool + Send + Sync {
    move |cx| cx.facts.step + cx.state > limit
}

#[test]
fn case_19_closures_are_recorded_as_opaque_and_quoted_in_a_replay() {
    let set = StopSet::<u64>::builder()
        .policy_when("too far", Gate::AfterDecide, over(11))
        .accept_when("short", |cx| {
            cx.facts
                .final_answer
                .as_ref()
                .is_some_and(|text| text.len() < 3)
        })
        .build()
        .expect("sound");
    let run = live(&set, &10, Stats::default(), &steps(5));
    assert_eq!(
        (run.code(), run.place()),
        ("too far", (Some(2), Some(Gate::AfterDecide)))
    );
    assert_eq!(
        (run.verdict().outcome, run.verdict().stop_reason.as_str()),
        (Outcome::Halted, "agent_condition")
    );

    let written = serde_json::to_value(set.record()).expect("rules can be written");
    assert_eq!(
        written["policies"][0]["rule"],
        serde_json::json!({"opaque": ["after_decide"]})
    );
    let again: StopRules = serde_json::from_value(written).expect("and read");
    let again = StopSet::<()>::builder()
        .rules(again)
        .build()
        .expect("sound");
    assert_eq!(replay(&again, &run.recorded).verdict, run.verdict);
    let unknown = replay(&again, &steps(2)).unknown;
    assert_eq!(unknown[0].needs, "its recorded answer");

    let accepted = live(
        &set,
        &0,
        Stats::default(),
        &[answer(0, "long"), answer(1, "ok")],
    );
    assert_eq!(
        (accepted.code(), accepted.verdict().outcome),
        ("short", Outcome::Completed)
    );
    assert_eq!(accepted.verdict().stop_reason, "success");
    assert_eq!(accepted.refused[0].id, "short");
}

#[test]
fn a_set_can_be_shared_between_threads() {
    fn shared<T: Send + Sync>(_: &T) {}
    shared(
        &StopSet::<u64>::builder()
            .policy_when("far", Gate::AfterStep, over(1))
            .build()
            .expect("sound"),
    );
}

struct Fails;

impl StopCriterion<()> for Fails {
    fn id(&self) -> &str {
        "fails"
    }

    fn check(&self, _: &StopCx<'_, ()>) -> Result<Check, CriterionError> {
        Err(CriterionError::new("no answer").because(std::io::Error::other("the disk is gone")))
    }
}

#[test]
fn case_19_a_rule_that_fails_or_panics_ends_the_run_as_failed() {
    let failing = StopSet::builder()
        .policy_with(Fails)
        .build()
        .expect("sound");
    let run = live(&failing, &(), Stats::default(), &steps(2));
    assert_eq!(
        (run.code(), run.verdict().outcome),
        ("criterion_error", Outcome::Failed)
    );
    assert_eq!(
        run.verdict().reading.detail,
        "the rule fails failed: no answer: the disk is gone"
    );

    let panicking = StopSet::builder()
        .policy_when("panics", Gate::BeforeStep, |_| panic!("oh no"))
        .build();
    let panicking = panicking.expect("sound");
    let run = live(&panicking, &(), Stats::default(), &steps(2));
    assert_eq!((run.code(), run.place().0), ("criterion_error", None));
    assert_eq!(
        run.verdict().reading.detail,
        "the rule panics panicked: oh no"
    );
    assert_eq!(replay(&panicking, &run.recorded).verdict, run.verdict);
}

#[test]
fn case_19_ids_collide_with_nothing() {
    let named = |id: &str| RuleEntry {
        id: Some(id.into()),
        ..StopSpec::from(MaxSteps { steps: 1 }).into()
    };
    for (first, second) in [
        ("a", "a"),
        ("stop[1]", ""),
        ("budget.steps", "x"),
        ("critic[0]", "x"),
        ("decision", "x"),
    ] {
        let builder = StopSet::<()>::builder().policy(named(first));
        let builder = if second.is_empty() {
            builder.policy(MaxSteps { steps: 1 })
        } else {
            builder.policy(named(second))
        };
        assert!(builder.build().is_err(), "{first} and {second}");
    }
    let unlike = StopSet::<()>::builder()
        .policy(named("a"))
        .policy(named("b"))
        .policy_when("c", Gate::AfterStep, |_| true);
    assert_eq!(
        unlike.build().expect("ids differ").record().policies.len(),
        3
    );
}
