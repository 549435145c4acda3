//! Tests the edge cases of the stop rules, and the property that a replay gives the recorded
//! verdict.

mod answers;
mod critics;
mod custom;
mod limits;
#[cfg(feature = "board")]
mod schemas;
mod spec;
mod texts;

use super::*;

/// Returns a successful step that takes ten milliseconds, with 10 input tokens, 5 output tokens,
/// one action, a unique state and no text.
pub(crate) fn step(n: u64) -> StepFacts {
    StepFacts {
        reached: Gate::AfterStep,
        t_decided_ms: Some(n * 10 + 5),
        t_end_ms: Some(n * 10 + 10),
        usage: Some(Usage::reported(10, 5)),
        actions: Some(vec!["look".to_owned()]),
        signature: Some(n),
        ..StepFacts::begin(n, n * 10)
    }
}

pub(crate) fn steps(count: u64) -> Vec<StepFacts> {
    (0..count).map(step).collect()
}

/// Returns a step with a final decision.
pub(crate) fn answer(n: u64, text: &str) -> StepFacts {
    StepFacts {
        candidate: true,
        final_answer: Some(text.to_owned()),
        actions: Some(Vec::new()),
        ..step(n)
    }
}

/// Returns a step whose model wrote text next to its action.
fn said(n: u64, text: &str) -> StepFacts {
    StepFacts {
        text: Text::Known(text.to_owned()),
        ..step(n)
    }
}

fn failed(n: u64, phase: Phase) -> StepFacts {
    let error = StepError {
        phase,
        message: format!("no luck in step {n}"),
        recovered: true,
    };
    StepFacts {
        error: Some(error),
        ..step(n)
    }
}

pub(crate) fn critic(name: &str, wish: CriticWish) -> CriticFact {
    CriticFact {
        name: name.to_owned(),
        wish,
        reason: Some(format!("{name} says so")),
        score: Some(0.5),
    }
}

/// Returns the facts that an engine knows about a step at `gate`.
fn seen_at(gate: Gate, whole: &StepFacts, opaque: &[OpaqueAnswer]) -> StepFacts {
    let mut facts = match gate {
        Gate::AfterStep => whole.clone(),
        _ => StepFacts {
            t_start_ms: whole.t_start_ms,
            ..StepFacts::begin(whole.step, 0)
        },
    };
    if gate == Gate::AfterDecide {
        facts.t_decided_ms = whole.t_decided_ms;
        facts.usage = whole.usage;
        facts.text = whole.text.clone();
        facts.calls = whole.calls;
        facts.actions = whole.actions.clone();
        facts.candidate = whole.candidate;
        facts.final_answer = whole.final_answer.clone().filter(|_| whole.candidate);
    }
    facts.forced = whole.forced.clone().filter(|end| end.gate <= gate);
    facts.opaque = opaque.to_vec();
    facts
}

/// The run that an engine would have made of these steps.
pub(crate) struct Run {
    pub(crate) verdict: Option<StopVerdict>,
    pub(crate) recorded: Vec<StepFacts>,
    pub(crate) stats: Stats,
    refused: Vec<Refusal>,
    unknown: Vec<Unknown>,
}

impl Run {
    fn code(&self) -> &str {
        self.verdict
            .as_ref()
            .map_or("none", |verdict| verdict.code.as_str())
    }

    fn verdict(&self) -> &StopVerdict {
        self.verdict.as_ref().expect("the run was stopped")
    }

    /// Returns where the run stopped: the last step that ran and the gate.
    fn place(&self) -> (Option<u64>, Option<Gate>) {
        (self.verdict().step, self.verdict().gate)
    }
}

pub(crate) fn live<S>(set: &StopSet<S>, state: &S, stats: Stats, steps: &[StepFacts]) -> Run {
    let mut run = Run {
        verdict: None,
        recorded: Vec::new(),
        stats,
        refused: Vec::new(),
        unknown: Vec::new(),
    };
    for whole in steps {
        let mut opaque = Vec::new();
        for gate in Gate::ALL {
            if gate == Gate::AfterDecide && whole.decide_failed() {
                continue;
            }
            let mut facts = seen_at(gate, whole, &opaque);
            let ruling = set.check(gate, &mut run.stats, &mut facts, state, &[]);
            opaque.clone_from(&facts.opaque);
            run.refused.extend(ruling.refused);
            run.unknown.extend(ruling.unknown);
            if ruling.verdict.is_some() || gate == Gate::AfterStep {
                run.recorded.push(facts);
            }
            if ruling.verdict.is_some() {
                run.verdict = ruling.verdict;
                return run;
            }
        }
    }
    run
}

/// Runs the rules, given in the short form, over the steps.
pub(crate) fn run(rules: &[&str], steps: &[StepFacts]) -> Run {
    live(&set(rules), &(), Stats::default(), steps)
}

pub(crate) fn set(rules: &[&str]) -> StopSet {
    let parse = |rule: &&str| rule.parse::<StopSpec>().expect("the rule parses");
    let builder = rules
        .iter()
        .map(parse)
        .fold(StopSet::<()>::builder(), StopSetBuilder::rule);
    builder.build().expect("the set is valid")
}

fn budget(budget: Budget, steps: &[StepFacts]) -> Run {
    let set = StopSet::builder()
        .budget(budget)
        .build()
        .expect("the budget is valid");
    live(&set, &(), Stats::default(), steps)
}

#[test]
fn each_limit_of_a_budget_has_one_wording() {
    let words = crate::stop::BUDGETS.each_ref().map(|row| {
        assert_eq!(row.reason, crate::model::StopReason::parse(row.code));
        (row.headline, row.clause)
    });
    assert_eq!(
        words,
        [
            ("Step limit reached", "the step limit was reached"),
            ("Time limit reached", "the time limit was reached"),
            ("Token limit reached", "the token limit was reached"),
        ]
    );
}
