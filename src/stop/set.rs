//! Checks a set of rules at the gates of a step.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};

use super::budget::BUDGETS;
use super::check::Check;
use super::custom::StopCx;
use super::entry::{Ask, Entry};
use super::facts::{CriticWish, Forced, GateSet, OpaqueAnswer, StepFacts};
use super::record::{RuleEntry, StopRules};
use super::rules::ending;
use super::stats::Stats;
use super::text::clip;
use crate::model::names::the_critic;
use crate::model::{
    Budget, Code, Evidence, Gate, Origin, Outcome, Reading, Source, StopReason, StopVerdict,
};

/// The rules of a run. The set holds no state: the running totals are in the caller's [`Stats`], so
/// one set can serve many runs.
pub struct StopSet<S = ()> {
    pub(super) budget: Budget,
    pub(crate) completion: Vec<Entry<S>>,
    pub(crate) policies: Vec<Entry<S>>,
}

/// The result of checking a set at a gate.
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct Ruling {
    /// The end of the run, if it ended.
    pub verdict: Option<StopVerdict>,
    /// Why the completion rules didn't accept the candidate answer. Serves as feedback for the next
    /// prompt.
    pub refused: Vec<Refusal>,
    /// The rules that couldn't be evaluated.
    pub unknown: Vec<Unknown>,
}

/// Why a completion rule refused an answer.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Refusal {
    /// The rule's id.
    pub id: String,
    /// What the rule found missing.
    pub reading: Reading,
}

/// A rule that couldn't be evaluated because a fact is missing.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Unknown {
    /// The rule's id.
    pub id: String,
    /// The step at which the rule was checked.
    pub step: u64,
    /// The missing fact.
    pub needs: String,
}

impl<S> fmt::Debug for StopSet<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("StopSet").field(&self.record()).finish()
    }
}

impl<S> StopSet<S> {
    /// Overrides limits of the set's budget, as a task's limits override the engine's. Limits that
    /// `budget` doesn't set are kept.
    pub fn limit(&mut self, budget: Budget) {
        self.budget = self.budget.overridden_by(budget);
    }

    /// Returns the budget, which is checked before each step.
    pub fn budget(&self) -> Budget {
        self.budget
    }

    /// Returns the time in milliseconds from which a rule ends the run in any case, at the next
    /// gate where the rule is checked.
    pub(crate) fn ends_at_ms(&self) -> Option<u64> {
        let times = self.policies.iter().filter_map(|entry| match &entry.ask {
            Ask::Built(rule) => rule.ends_at_ms(),
            Ask::Live(_) | Ask::Recorded => None,
        });
        times.min()
    }

    /// Returns the rules as recorded, each with its id and origin. For a custom rule, only its
    /// gates are recorded.
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

    /// Adds the facts of a step at `gate` to `stats` and checks the rules of that gate.
    ///
    /// Must be called in order at each gate a step reaches. A step whose decision failed skips
    /// `after_decide`, and the rules of that gate are checked after the step. The results of custom
    /// rules are added to the facts. `texts` holds the model's replies so far and is only read by
    /// custom rules.
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

    /// Checks the rules of a gate. Without a state, custom rules give their recorded results.
    pub(crate) fn evaluate(
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
                // An immediate cancel discards the answer. A cancel after the step still lets the
                // answer be accepted.
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
                // The next step's budget covers the same moment, so it's listed here next to another
                // stop. A budget that is the only reason to stop waits for that step.
                if !evaluation.hits.is_empty() {
                    evaluation.budget(self);
                }
            }
        }
        evaluation.close()
    }

    /// Adds the facts of a gate to the totals, including those that depend on a rule's own numbers.
    pub(crate) fn fold(&self, gate: Gate, stats: &mut Stats, facts: &StepFacts) {
        stats.fold(gate, facts);
        if gate == Gate::AfterStep {
            for entry in self.completion.iter().chain(&self.policies) {
                if let Ask::Built(rule) = &entry.ask {
                    rule.fold(stats, facts);
                }
            }
        }
    }

    /// Returns the totals of a recorded run, for resuming it. No rule stops it here.
    pub fn carried<'a>(&self, steps: impl IntoIterator<Item = &'a StepFacts>) -> Stats {
        let mut stats = Stats::default();
        for facts in steps {
            for gate in facts.gates() {
                self.fold(gate, &mut stats, facts);
            }
        }
        stats
    }

    pub(crate) fn budget_checks<'a>(
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

/// A check of all rules at one gate, in progress.
struct Evaluation<'a, S> {
    gate: Gate,
    stats: &'a Stats,
    facts: &'a StepFacts,
    /// The state and the model's texts, for custom rules. `None` in a replay.
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

    /// Stops if the step failed and wasn't recovered.
    fn lost(&mut self) {
        let Some(error) = self.facts.error.as_ref().filter(|error| !error.recovered) else {
            return;
        };
        let (step, phase) = (self.facts.step, error.phase);
        let message = clip(&error.message, 240).to_owned();
        let (code, verb) = if self.facts.untried {
            (Code::StepFailed, "failed")
        } else {
            (Code::RecoveryExhausted, "failed and wasn't recovered")
        };
        let reading = Reading::text(format!("{} {verb}: {message}", phase.as_str())).evidence([
            Evidence::Failure {
                step,
                phase,
                message,
            },
        ]);
        self.hit("recovery", Source::Recovery, code, reading);
    }

    /// Stops if the first critic that doesn't say continue failed or says stop.
    fn critics(&mut self) {
        let Some((at, critic)) = self.facts.deciding_critic() else {
            return;
        };
        let (code, verb) = match critic.wish {
            CriticWish::Retry => return,
            CriticWish::Failed => (Code::CriterionError, "failed"),
            _ => (Code::CriticStop, "requested a stop"),
        };
        let why = critic.reason.as_deref().filter(|reason| !reason.is_empty());
        let who = the_critic(&critic.name);
        let detail = match why {
            Some(reason) => format!("{who} {verb}: {}", clip(reason, 240)),
            None => format!("{who} {verb}"),
        };
        let score = critic.score.filter(|score| score.is_finite());
        let reason = why.map(|reason| clip(reason, 240).to_owned());
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
        // If all rules of the list are switched off, the default applies.
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
                let (code, text) = if self.facts.agent_success {
                    (Code::Success, "the agent reported success")
                } else {
                    (Code::Final, "the agent set its final result")
                };
                self.hit("agent", Source::Agent, code, Reading::text(text));
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
                Reading::text("the environment ended the episode"),
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
            return entry.replayed(due, self.gate, self.stats, self.facts);
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
        // A rule only gets shared references, so a panic can't leave anything but its own state
        // inconsistent.
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
        let keeps_answer = self.facts.has_own_answer() && self.ruling.refused.is_empty();
        let mut hits = self.hits.into_iter();
        self.ruling.verdict = hits.next().map(
            |Hit {
                 criterion,
                 source,
                 code,
                 reading,
                 from,
             }| {
                let (mut outcome, mut stop_reason) = ending(&code, &source);
                // A run without an answer isn't completed, whatever its code.
                if outcome == Outcome::Completed && !brings_answer(&source) && !keeps_answer {
                    outcome = Outcome::Halted;
                    if StopReason::parse(stop_reason).says_answered() {
                        stop_reason = StopReason::WITHOUT_ANSWER;
                    }
                }
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

/// Returns whether a run that this source ended has an accepted answer.
fn brings_answer(source: &Source) -> bool {
    matches!(source, Source::Decision | Source::Completion)
}
