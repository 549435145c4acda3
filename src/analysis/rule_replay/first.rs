//! Finds where each rule, evaluated independently, first stops a recorded run. One pass evaluates
//! any number of rules.
//!
//! [`replay`](super::replay()) ends when the first rule stops the run. Here the run continues as
//! recorded, so that every rule is evaluated over the whole run. What the run would have done after
//! its recorded end is unknown.

use crate::model::{Code, Gate, Outcome, Reading, Source};
use crate::stop::{Ask, Check, Entry, GateSet, Stats, StepFacts, StopSet, Unknown, ending};

/// The results of independently evaluated rules over a recorded run.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Firsts {
    /// One entry per rule: the budget's limits, then the completion rules, then the policies.
    pub rules: Vec<FirstStop>,
    /// The totals of the whole record.
    pub end: Tally,
}

/// The result of one rule over a whole record.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct FirstStop {
    /// The rule's id.
    pub id: String,
    /// The list the rule belongs to.
    pub source: Source,
    /// Where the rule first stops the run. `None` if it never does within the record.
    pub stop: Option<Stopped>,
    /// The first step at which the rule couldn't be evaluated and might have stopped the run. Only
    /// steps before `stop` count.
    pub unknown: Option<Unknown>,
    /// The first step whose answer the rule refuses, with the reading. A refusal affects later
    /// prompts.
    pub refused: Option<(u64, Reading)>,
}

/// Where and why a rule stops a run.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Stopped {
    /// The last step that ran, even if only up to its decision.
    pub step: Option<u64>,
    /// The gate of that step.
    pub gate: Gate,
    /// The code of the stop.
    pub code: Code,
    /// The measurement.
    pub reading: Reading,
    /// The outcome the run would have had.
    pub outcome: Outcome,
    /// The run's totals up to this point.
    pub at: Tally,
}

/// A run's totals up to a gate.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tally {
    /// Steps that ran, even if only up to their decision.
    pub ran: u64,
    /// Tokens. `None` if a step's tokens aren't recorded.
    pub tokens: Option<u64>,
    /// Milliseconds since the run began. `None` if the gate's time isn't recorded.
    pub ms: Option<u64>,
}

impl Tally {
    fn of(stats: &Stats, ran: u64) -> Self {
        Self {
            ran,
            tokens: stats.tokens_known(),
            ms: stats.elapsed_ms,
        }
    }
}

impl FirstStop {
    fn new(id: &str, source: Source) -> Self {
        Self {
            id: id.to_owned(),
            source,
            stop: None,
            unknown: None,
            refused: None,
        }
    }

    fn take(&mut self, check: Check, gate: Gate, stats: &Stats, ran: u64, facts: &StepFacts) {
        match check {
            Check::Stop { code, reading } => {
                let (outcome, _) = ending(&code, &self.source);
                let at = Tally::of(stats, ran);
                self.stop = Some(Stopped {
                    step: stats.last_step,
                    gate,
                    code,
                    reading,
                    outcome,
                    at,
                });
            }
            Check::Unknown(needs) if self.unknown.is_none() => {
                let unknown = Unknown {
                    id: self.id.clone(),
                    step: facts.step,
                    needs: needs.into_owned(),
                };
                self.unknown = Some(unknown);
            }
            Check::Pass(reading) if self.source == Source::Completion && self.refused.is_none() => {
                self.refused = Some((facts.step, reading));
            }
            Check::Pass(_) | Check::Unknown(_) | Check::Off(_) => {}
        }
    }
}

/// Evaluates each rule independently over recorded steps, in order, starting from `stats`.
pub fn first_stops<'a, S>(
    set: &StopSet<S>,
    mut stats: Stats,
    steps: impl IntoIterator<Item = &'a StepFacts>,
) -> Firsts {
    let budget = set
        .budget_checks(&stats)
        .map(|(id, ..)| FirstStop::new(id, Source::Budget));
    let mut budget: Vec<FirstStop> = budget.collect();
    let start = |list: &[Entry<S>], source: Source| -> Vec<FirstStop> {
        list.iter()
            .map(|entry| FirstStop::new(&entry.id, source.clone()))
            .collect()
    };
    let mut completion = start(&set.completion, Source::Completion);
    let mut policies = start(&set.policies, Source::Policy);
    let mut ran = 0;
    for facts in steps {
        for gate in facts.gates() {
            set.fold(gate, &mut stats, facts);
            // A step has run once its first gate after `before_step` is reached.
            let first =
                gate == Gate::AfterDecide || (gate == Gate::AfterStep && facts.decide_failed());
            ran += u64::from(first);
            if gate == Gate::BeforeStep {
                for (first, (_, _, check)) in open(budget.iter_mut().zip(set.budget_checks(&stats)))
                {
                    first.take(check, gate, &stats, ran, facts);
                }
            }
            if gate == Gate::AfterStep && facts.judges_answers() && facts.is_answer() {
                for (first, entry) in open(completion.iter_mut().zip(&set.completion)) {
                    let check = entry.replayed(GateSet::ALL, gate, &stats, facts);
                    first.take(check, gate, &stats, ran, facts);
                }
            }
            if gate == Gate::AfterStep
                && facts.is_unread
                && facts.error.is_none()
                && !facts.is_answer()
            {
                for (first, entry) in open(completion.iter_mut().zip(&set.completion)) {
                    let check = match entry.replayed(GateSet::ALL, gate, &stats, facts) {
                        off @ Check::Off(_) => off,
                        _ => Check::Unknown("whether some steps had an answer".into()),
                    };
                    first.take(check, gate, &stats, ran, facts);
                }
            }
            let due = facts.due(gate);
            for (first, entry) in open(policies.iter_mut().zip(&set.policies)) {
                if entry.gates.meets(due) {
                    let check = entry.replayed(due, gate, &stats, facts);
                    if let Ask::Built(rule) = &entry.ask
                        && rule.settles(&check, &stats)
                    {
                        first.unknown = None;
                    }
                    first.take(check, gate, &stats, ran, facts);
                }
            }
        }
    }
    let rules = budget
        .into_iter()
        .chain(completion)
        .chain(policies)
        .collect();
    Firsts {
        rules,
        end: Tally::of(&stats, ran),
    }
}

/// Skips rules that have already stopped.
fn open<'a, T>(
    rules: impl Iterator<Item = (&'a mut FirstStop, T)>,
) -> impl Iterator<Item = (&'a mut FirstStop, T)> {
    rules.filter(|(first, _)| first.stop.is_none())
}
