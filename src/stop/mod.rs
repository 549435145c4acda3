//! When does a run stop? Rules over recorded facts, asked at three gates of every step.
//!
//! Knows the model only: no files, no clock, no engine. Times arrive as facts. The engine asks [`StopSet::check`] to
//! stop, what-if asks [`StopSet::replay`] to imagine, and both go through the same code; so the recorded rules over
//! the recorded facts give the recorded verdict.
//!
//! # Order
//!
//! | gate | asked, in this order |
//! |---|---|
//! | `before_step` | what ended the run from outside; the budget (steps, time, tokens); policies of this gate |
//! | `after_decide` | what ended the run from outside; policies of this gate, unless the decision is a candidate answer |
//! | `after_step` | what ended the run from outside at once; critics; completion, the agent, the environment, unless a critic asks for a retry or the step failed; cancellation; policies of this gate and those held back |
//!
//! Within a list the declared order decides: the first stop wins, and every other that was true stands in
//! [`StopVerdict::also`]. An answer is never thrown away for a limit: a candidate is judged first, and the limit that
//! was reached with it is listed beside it. A limit of 0 switches a policy off; in the [`Budget`] it lets nothing run.
//!
//! # Rules
//!
#![doc = include_str!("RULES.md")]
//!
//! The table is [`rules_table`]'s, made from the code.

#[cfg_attr(
    not(feature = "board"),
    allow(dead_code, reason = "the engine alone shows no rule to anybody")
)]
mod budget;
mod build;
mod check;
#[cfg(feature = "board")]
mod course;
mod custom;
mod facts;
mod first;
mod line;
mod record;
mod replay;
#[cfg_attr(
    not(feature = "board"),
    allow(dead_code, reason = "the engine alone shows no rule to anybody")
)]
mod rules;
#[cfg(feature = "board")]
mod schema;
#[cfg_attr(
    not(feature = "board"),
    allow(dead_code, reason = "the engine alone shows no rule to anybody")
)]
mod spec;
mod stats;
mod table;
mod text;

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};

pub use crate::model::end::{
    Budget, Code, Evidence, Gate, Limit, Measured, Op, Origin, Outcome, Phase, Reading, Source,
    StopVerdict,
};
pub use crate::model::recorded::text_hash;
pub(crate) use budget::BUDGETS;
pub use budget::BudgetRow;
#[cfg(feature = "board")]
pub(crate) use budget::{counts, label};
pub use build::StopSetBuilder;
pub use check::Check;
#[cfg(feature = "board")]
pub use course::{Counted, course};
pub use custom::{CriterionError, SchemaCheck, SchemaCompiler, SchemaMiss, StopCriterion, StopCx};
pub use facts::{
    CriticFact, CriticWish, Forced, GateSet, OpaqueAnswer, StepError, StepFacts, Text, Usage,
};
pub use first::{FirstStop, Firsts, Stopped, Tally};
pub use line::LineFacts;
pub use record::{EntryRule, RuleEntry, StopRules};
pub use replay::{RuleReading, WhatIf};
pub use rules::*;
pub use spec::SpecError;
pub(crate) use stats::waited_for_people;
pub use stats::{Below, Cost, Pause, Stats, Streak, Took, Whole};
pub use table::rules_table;

use build::{Ask, Entry};

/// The rules of a run. They hold no state: the fold is the caller's [`Stats`], so one set serves many runs.
pub struct StopSet<S = ()> {
    budget: Budget,
    completion: Vec<Entry<S>>,
    policies: Vec<Entry<S>>,
}

/// What came out at a gate.
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct Ruling {
    /// The end, where it is one.
    pub verdict: Option<StopVerdict>,
    /// Why the candidate answer was not accepted, by rule: feedback for the next prompt.
    pub refused: Vec<Refusal>,
    /// The rules that could not be told.
    pub unknown: Vec<Unknown>,
}

/// Why a completion rule did not accept an answer.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Refusal {
    /// The rule.
    pub id: String,
    /// What it missed.
    pub reading: Reading,
}

/// A rule that needs a fact which is not there.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Unknown {
    /// The rule.
    pub id: String,
    /// The step at which it was asked.
    pub step: u64,
    /// What it needs.
    pub needs: String,
}

impl<S> fmt::Debug for StopSet<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("StopSet").field(&self.record()).finish()
    }
}

impl<S> StopSet<S> {
    /// Begins a set; without any rule it stops at the first final decision.
    pub fn builder() -> StopSetBuilder<S> {
        StopSetBuilder::default()
    }

    /// Puts limits over those of the set, field by field: a task's over the engine's.
    pub fn limit(&mut self, budget: Budget) {
        self.budget = self.budget.overridden_by(budget);
    }

    /// The limits asked before each step.
    pub fn budget(&self) -> Budget {
        self.budget
    }

    /// The time in milliseconds at which a rule ends the run whatever else happens, at the next gate where it is asked.
    pub(crate) fn ends_at_ms(&self) -> Option<u64> {
        let times = self.policies.iter().filter_map(|entry| match &entry.ask {
            Ask::Built(rule) => rule.ends_at_ms(),
            Ask::Live(_) | Ask::Recorded => None,
        });
        times.min()
    }

    /// The rules as they are recorded, each with its id and origin; a rule in code leaves its gates.
    pub fn record(&self) -> StopRules {
        let list = |entries: &[Entry<S>]| {
            let entry = |entry: &Entry<S>| RuleEntry {
                id: Some(entry.id.clone()),
                rule: entry.written.clone(),
                from: entry.from,
            };
            entries.iter().map(entry).collect()
        };
        StopRules {
            budget: self.budget,
            completion: list(&self.completion),
            policies: list(&self.policies),
        }
    }

    /// Takes in the facts of a step at `gate` and asks whose turn it is.
    ///
    /// To be called at each gate a step comes to, in order; a step whose decision failed skips `after_decide`, and
    /// its rules are asked after the step. The answers of rules in code are added to the facts.
    /// `texts` is what the model said so far, which only rules in code look at.
    pub fn check(
        &self,
        gate: Gate,
        stats: &mut Stats,
        facts: &mut StepFacts,
        state: &S,
        texts: &[String],
    ) -> Ruling {
        facts.reached = gate;
        let (ruling, answers) = self.evaluate(gate, stats, facts, Some((state, texts)));
        facts.opaque.extend(answers);
        ruling
    }

    /// Asks at a gate; without a state, rules in code answer what they are recorded to have answered.
    fn evaluate(
        &self,
        gate: Gate,
        stats: &mut Stats,
        facts: &StepFacts,
        live: Option<(&S, &[String])>,
    ) -> (Ruling, Vec<OpaqueAnswer>) {
        self.fold(gate, stats, facts);
        let mut evaluation = Evaluation {
            gate,
            stats,
            facts,
            live,
            hits: Vec::new(),
            ruling: Ruling::default(),
            answers: Vec::new(),
        };
        let due = facts.due(gate);
        match gate {
            Gate::BeforeStep => {
                evaluation.forced(|_| true);
                evaluation.budget(self);
                evaluation.policies(&self.policies, due);
            }
            Gate::AfterDecide => {
                evaluation.forced(|_| true);
                evaluation.policies(&self.policies, due);
            }
            Gate::AfterStep => {
                // Who cancels at once wants no answer any more; who cancels after the step has it all the same.
                let at_once = |end: &Forced| {
                    end.source != Source::Cancel || end.code == Code::CancelledImmediate
                };
                evaluation.forced(at_once);
                evaluation.lost();
                evaluation.critics();
                if facts.judges_answers() {
                    evaluation.completion(&self.completion);
                }
                evaluation.forced(|end| !at_once(end));
                evaluation.policies(&self.policies, due);
                // The next step's budget is the same boundary; alone it waits for that step.
                if !evaluation.hits.is_empty() {
                    evaluation.budget(self);
                }
            }
        }
        evaluation.close()
    }

    /// Takes in the facts of a gate, for all rules together and for those that count by numbers of their own.
    fn fold(&self, gate: Gate, stats: &mut Stats, facts: &StepFacts) {
        stats.fold(gate, facts);
        if gate == Gate::AfterStep {
            for entry in self.completion.iter().chain(&self.policies) {
                if let Ask::Built(rule) = &entry.ask {
                    rule.fold(stats, facts);
                }
            }
        }
    }

    fn budget_checks<'a>(
        &'a self,
        stats: &'a Stats,
    ) -> impl Iterator<Item = (&'static str, Origin, Check)> + 'a {
        BUDGETS.iter().filter_map(|row| {
            let limit = (row.limit)(&self.budget)?;
            Some((row.id, limit.from, (row.check)(stats, limit.limit)))
        })
    }
}

struct Hit {
    criterion: String,
    source: Source,
    code: Code,
    reading: Reading,
    from: Option<Origin>,
}

/// One question at one gate, while it is being answered.
struct Evaluation<'a, S> {
    gate: Gate,
    stats: &'a Stats,
    facts: &'a StepFacts,
    /// The state and the model's texts, for rules in code; `None` in a replay.
    live: Option<(&'a S, &'a [String])>,
    hits: Vec<Hit>,
    ruling: Ruling,
    answers: Vec<OpaqueAnswer>,
}

impl<S> Evaluation<'_, S> {
    fn hit(&mut self, criterion: impl Into<String>, source: Source, code: Code, reading: Reading) {
        self.hits.push(Hit {
            criterion: criterion.into(),
            source,
            code,
            reading,
            from: None,
        });
    }

    fn forced(&mut self, wanted: impl FnOnce(&Forced) -> bool) {
        let gate = self.gate;
        if let Some(end) = self
            .facts
            .forced
            .as_ref()
            .filter(|end| end.gate == gate && wanted(end))
        {
            self.hit(
                end.code.as_str(),
                end.source.clone(),
                end.code.clone(),
                Reading::text(end.detail.clone()),
            );
        }
    }

    fn budget(&mut self, set: &StopSet<S>) {
        for (id, from, check) in set.budget_checks(self.stats) {
            self.take(id, Source::Budget, from, check);
        }
    }

    fn policies(&mut self, entries: &[Entry<S>], due: GateSet) {
        for entry in entries.iter().filter(|entry| entry.gates.meets(due)) {
            let check = self.ask(entry, due);
            self.take(&entry.id, Source::Policy, entry.from, check);
        }
    }

    /// A step that failed and could not be recovered.
    fn lost(&mut self) {
        let Some(error) = self.facts.error.as_ref().filter(|error| !error.recovered) else {
            return;
        };
        let (step, phase) = (self.facts.step, error.phase);
        let message = text::clip(&error.message, 240).to_owned();
        let reading = Reading::text(format!(
            "{} failed and was not recovered: {message}",
            phase.as_str()
        ))
        .evidence([Evidence::Failure {
            step,
            phase,
            message,
        }]);
        self.hit(
            "recovery",
            Source::Recovery,
            Code::RecoveryExhausted,
            reading,
        );
    }

    /// Asks the critics.
    fn critics(&mut self) {
        let Some((at, critic)) = self.facts.deciding_critic() else {
            return;
        };
        let (code, verb) = match critic.wish {
            CriticWish::Retry => return,
            CriticWish::Failed => (Code::CriterionError, "failed"),
            _ => (Code::CriticStop, "said stop"),
        };
        let why = critic.reason.as_deref().filter(|reason| !reason.is_empty());
        let detail = match why {
            Some(reason) => format!(
                "the critic {} {verb}: {}",
                critic.name,
                text::clip(reason, 240)
            ),
            None => format!("the critic {} {verb}", critic.name),
        };
        let score = critic.score.filter(|score| score.is_finite());
        let reason = why.map(|reason| text::clip(reason, 240).to_owned());
        let opinion = Evidence::Critic {
            step: self.facts.step,
            critic: at as u64,
            reason,
            score,
        };
        self.hit(
            format!("critic[{at}]"),
            Source::Critic,
            code,
            Reading::text(detail).evidence([opinion]),
        );
    }

    fn completion(&mut self, entries: &[Entry<S>]) {
        // A list whose rules are all switched off is no list.
        let mut declared = false;
        for entry in entries.iter().filter(|_| self.facts.is_answer()) {
            let check = self.ask(entry, GateSet::ALL);
            declared |= !matches!(check, Check::Off(_));
            if let Check::Pass(reading) = check {
                self.ruling.refused.push(Refusal {
                    id: entry.id.clone(),
                    reading,
                });
            } else {
                self.take(&entry.id, Source::Completion, entry.from, check);
            }
        }
        if !declared && self.facts.final_answer.is_some() {
            if self.facts.candidate {
                self.hit(
                    "decision",
                    Source::Decision,
                    Code::Final,
                    Reading::text("the final decision was accepted"),
                );
            } else {
                let reading = Reading::text("the agent set its final result");
                self.hit("agent", Source::Agent, Code::Final, reading);
            }
        }
        if self.facts.agent_stop {
            self.hit(
                "agent",
                Source::Agent,
                Code::AgentCondition,
                Reading::text("the agent asked to stop"),
            );
        }
        if self.facts.env_terminal {
            self.hit(
                "env",
                Source::Env,
                Code::EnvTerminal,
                Reading::text("the environment ended"),
            );
        }
    }

    fn take(&mut self, id: &str, source: Source, from: Origin, check: Check) {
        match check {
            Check::Stop { code, reading } => {
                self.hits.push(Hit {
                    criterion: id.to_owned(),
                    source,
                    code,
                    reading,
                    from: Some(from),
                });
            }
            Check::Unknown(needs) => self.ruling.unknown.push(Unknown {
                id: id.to_owned(),
                step: self.facts.step,
                needs: needs.into_owned(),
            }),
            Check::Pass(_) | Check::Off(_) => {}
        }
    }

    fn ask(&mut self, entry: &Entry<S>, due: GateSet) -> Check {
        let (Ask::Live(rule), Some((state, texts))) = (&entry.ask, self.live) else {
            return first::replayed(entry, due, self.gate, self.stats, self.facts);
        };
        let cx = StopCx {
            gate: self.gate,
            stats: self.stats,
            facts: self.facts,
            state,
            texts,
        };
        let failed = |what: String| Check::Stop {
            code: Code::CriterionError,
            reading: Reading::text(what),
        };
        // A rule only reads; whatever it breaks half way in is its own.
        let check = match catch_unwind(AssertUnwindSafe(|| rule.check(&cx))) {
            Ok(Ok(check)) => check,
            Ok(Err(error)) => {
                let cause = std::error::Error::source(&error)
                    .map(|cause| format!(": {cause}"))
                    .unwrap_or_default();
                failed(format!("the rule {} failed: {error}{cause}", entry.id))
            }
            Err(panic) => {
                let text = panic.downcast_ref::<&str>().copied();
                let text = text
                    .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
                    .unwrap_or("no message");
                failed(format!("the rule {} panicked: {text}", entry.id))
            }
        };
        self.answers.push(OpaqueAnswer {
            id: entry.id.clone(),
            gate: self.gate,
            check: check.clone(),
        });
        check
    }

    fn close(mut self) -> (Ruling, Vec<OpaqueAnswer>) {
        let mut hits = self.hits.into_iter();
        self.ruling.verdict = hits.next().map(
            |Hit {
                 criterion,
                 source,
                 code,
                 reading,
                 from,
             }| {
                let (outcome, stop_reason) = rules::ending(&code, &source);
                StopVerdict {
                    criterion,
                    gate: Some(self.gate),
                    step: self.stats.last_step,
                    stop_reason: stop_reason.to_owned(),
                    outcome,
                    limit_from: from.filter(|_| matches!(source, Source::Budget | Source::Policy)),
                    source,
                    code,
                    reading,
                    also: hits.map(|hit| hit.criterion).collect(),
                }
            },
        );
        (self.ruling, self.answers)
    }
}

// Last, since the check of the rooms' arrows reads a file up to its tests.
#[cfg(test)]
mod tests;
