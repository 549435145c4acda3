//! Where is each rule, asked by itself, first true? One pass over recorded facts, for any number of rules.
//!
//! [`StopSet::replay`] ends where the first rule stops the run; here the run goes on as it is recorded, so that every rule
//! is asked about all of it. What a run would have done after its recorded end is nobody's to say.

use super::build::{Ask, Entry};
use super::check::Check;
use super::facts::{GateSet, StepFacts};
use super::rules::ending;
use super::stats::Stats;
use super::{StopSet, Unknown};
use crate::model::{Code, Gate, Outcome, Reading, Source};

/// What rules, each asked by itself, say about a recorded run.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Firsts {
    /// The budget's limits, then the completion rules, then the policies.
    pub rules: Vec<FirstStop>,
    /// What the whole record comes to.
    pub end: Tally,
}

/// One rule over a whole record.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct FirstStop {
    /// The rule.
    pub id: String,
    /// Its list.
    pub source: Source,
    /// Where it is first true; `None` where it is not, as far as the record goes.
    pub stop: Option<Stopped>,
    /// The first step at which it could not be told and might have been true, up to where it is.
    pub unknown: Option<Unknown>,
    /// The first step whose answer it refuses, with what was missed. A refusal shapes later prompts.
    pub refused: Option<(u64, Reading)>,
}

/// A rule that is true.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Stopped {
    /// The last step that ran, if only up to its decision.
    pub step: Option<u64>,
    /// Where in the step.
    pub gate: Gate,
    /// Under which name.
    pub code: Code,
    /// What was measured.
    pub reading: Reading,
    /// How the run would have come out.
    pub outcome: Outcome,
    /// What the run comes to up to there.
    pub at: Tally,
}

/// What a run comes to up to a gate.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tally {
    /// Steps that ran, if only up to their decision.
    pub ran: u64,
    /// Tokens; `None` where a step's are not recorded.
    pub tokens: Option<u64>,
    /// Milliseconds since the run began; `None` where the gate's time is not recorded.
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

impl<S> StopSet<S> {
    /// Asks each rule by itself over recorded steps, in order, going on from `stats`.
    pub fn firsts<'a>(
        &self,
        mut stats: Stats,
        steps: impl IntoIterator<Item = &'a StepFacts>,
    ) -> Firsts {
        let budget = self
            .budget_checks(&stats)
            .map(|(id, ..)| FirstStop::new(id, Source::Budget));
        let mut budget: Vec<FirstStop> = budget.collect();
        let start = |list: &[Entry<S>], source: Source| -> Vec<FirstStop> {
            list.iter()
                .map(|entry| FirstStop::new(&entry.id, source.clone()))
                .collect()
        };
        let mut completion = start(&self.completion, Source::Completion);
        let mut policies = start(&self.policies, Source::Policy);
        let mut ran = 0;
        for facts in steps {
            for gate in facts.gates() {
                self.fold(gate, &mut stats, facts);
                // The first gate after `before_step` is the one at which the step has run.
                let first =
                    gate == Gate::AfterDecide || (gate == Gate::AfterStep && facts.decide_failed());
                ran += u64::from(first);
                if gate == Gate::BeforeStep {
                    for (first, (_, _, check)) in
                        open(budget.iter_mut().zip(self.budget_checks(&stats)))
                    {
                        first.take(check, gate, &stats, ran, facts);
                    }
                }
                if gate == Gate::AfterStep && facts.judges_answers() && facts.is_answer() {
                    for (first, entry) in open(completion.iter_mut().zip(&self.completion)) {
                        let check = replayed(entry, GateSet::ALL, gate, &stats, facts);
                        first.take(check, gate, &stats, ran, facts);
                    }
                }
                if gate == Gate::AfterStep
                    && facts.is_unread
                    && facts.error.is_none()
                    && !facts.is_answer()
                {
                    for (first, entry) in open(completion.iter_mut().zip(&self.completion)) {
                        let check = match replayed(entry, GateSet::ALL, gate, &stats, facts) {
                            off @ Check::Off(_) => off,
                            _ => Check::Unknown("whether each step answered".into()),
                        };
                        first.take(check, gate, &stats, ran, facts);
                    }
                }
                let due = facts.due(gate);
                for (first, entry) in open(policies.iter_mut().zip(&self.policies)) {
                    if entry.gates.meets(due) {
                        let check = replayed(entry, due, gate, &stats, facts);
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
}

/// The rules that were not true yet.
fn open<'a, T>(
    rules: impl Iterator<Item = (&'a mut FirstStop, T)>,
) -> impl Iterator<Item = (&'a mut FirstStop, T)> {
    rules.filter(|(first, _)| first.stop.is_none())
}

/// Asks a rule without a state: one in code says what it is recorded to have said.
pub(super) fn replayed<S>(
    entry: &Entry<S>,
    due: GateSet,
    gate: Gate,
    stats: &Stats,
    facts: &StepFacts,
) -> Check {
    if let Ask::Built(rule) = &entry.ask {
        return rule.check(due, stats, facts);
    }
    let mut answers = facts.opaque.iter();
    let answer = answers.find(|answer| answer.id == entry.id && answer.gate == gate);
    answer.map_or_else(
        || Check::Unknown("its recorded answer".into()),
        |answer| answer.check.clone(),
    )
}
