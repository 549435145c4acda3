//! Holds a run in progress: its agent, rules, state and records.
//!
//! Independent of the order of its phases, which `run` and `step` define.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use serde::Serialize;

use super::agent::Agent;
use super::builder::Parts;
use super::cancel::{Wish, cut_off};
use super::clock::Clock;
use super::earlier::Spent;
use super::hook::{Moment, told};
use super::log::{Event, Log};
use super::off_limits::OffLimits;
use super::recovery::Failures;
use super::state::{Snapshot, State};
use super::talk::Conversation;
use super::task::{Task, TaskIssue};
use super::tool::Shared;
use super::toolbox::{ToolResult, Toolbox};
use crate::stop::{Code, Gate, Source, Stats, StepFacts, StopSet, Usage};

/// A run in progress.
pub(super) struct Session<A: Agent> {
    pub(super) agent: A,
    pub(super) tools: Toolbox,
    pub(super) rules: StopSet<State<A::Data>>,
    pub(super) parts: Parts<A::Data>,
    pub(super) state: State<A::Data>,
    pub(super) snapshot: Snapshot,
    pub(super) talk: Conversation,
    /// Feedback from earlier steps.
    pub(super) feedback: Vec<String>,
    /// The directories of the trace.
    pub(super) off_limits: OffLimits,
    /// The run's directory.
    pub(super) dir: Option<PathBuf>,
    /// Data that the environment shares with tools.
    pub(super) shared: Option<Shared>,
    pub(super) run: Run,
}

/// The parts of a run that exist even if the agent couldn't start.
pub(super) struct Run {
    pub(super) task: Task,
    pub(super) clock: Box<dyn Clock>,
    pub(super) log: Log,
    pub(super) stats: Stats,
    pub(super) last_text: Option<String>,
    /// A failure outside the rules. Ends the run at the next gate.
    pub(super) fault: Option<(Source, Code, String)>,
    pub(super) failures: Failures,
    /// The facts of a step that has no line.
    pub(super) unwritten: Option<StepFacts>,
    /// The results of the last step before this engine's first one.
    pub(super) last: Vec<ToolResult>,
    /// Usage of the first step's requests so far, if another process began the step and didn't
    /// finish it.
    pub(super) lost: Spent,
    /// The ordinal of this engine's first step.
    pub(super) first: u64,
    /// Whether the run is resumed or branched, so that the trace has earlier steps.
    pub(super) goes_on: bool,
    /// Run time before the clock was started.
    pub(super) carried: Duration,
    pub(super) issues: Vec<TaskIssue>,
    /// The newest step that began.
    pub(super) open_step: Option<u64>,
    /// Usage of its requests, until it's part of `stats`.
    pub(super) spent: Spent,
    /// The request in progress.
    pub(super) asking: Option<Arc<Asking>>,
}

/// The progress of a request.
#[derive(Debug, Default)]
pub(super) struct Asking {
    /// Estimated tokens of the request.
    input: u64,
    pub(super) has_begun: AtomicBool,
    /// Bytes of text received.
    pub(super) bytes: AtomicU64,
}

impl Asking {
    pub(super) fn new(input: u64) -> Self {
        Self {
            input,
            ..Self::default()
        }
    }

    pub(super) fn has_begun(&self) -> bool {
        self.has_begun.load(Ordering::Relaxed)
    }

    /// Returns an estimate of the request's usage. The service won't report the usage of a dropped
    /// request.
    pub(super) fn usage(&self) -> Usage {
        let output = self.bytes.load(Ordering::Relaxed).div_ceil(4);
        Usage::estimated(self.input, output)
    }
}

/// Maximum number of feedback texts for one prompt. The newest are kept. More come together only if
/// an agent fails again and again before it asks its model.
const MAX_FEEDBACK: usize = 8;

impl<A: Agent> Session<A> {
    /// Adds a text to the next prompt.
    pub(super) fn advise(&mut self, text: String) {
        self.feedback.push(text);
        // An earlier version may have recorded more in a run that is resumed.
        let extra = self.feedback.len().saturating_sub(MAX_FEEDBACK);
        self.feedback.drain(..extra);
    }

    /// Adds an end from outside the rules to the facts, before the gate is checked.
    pub(super) fn outside(&mut self, gate: Gate, facts: &mut StepFacts) {
        self.run.fault = self.run.fault.take().or_else(|| self.run.log.fault());
        if let Some((source, code, detail)) = self.run.fault.take() {
            facts.force(gate, source, code, detail);
        }
        let may_end = !(gate == Gate::AfterDecide && facts.candidate);
        let waited = self.run.stats.waited_ms.saturating_add(facts.waited_ms);
        if let Some(limit) = self
            .parts
            .hard_timeout
            .filter(|_| may_end && self.parts.cancel.is_late())
        {
            facts.force(
                gate,
                Source::Budget,
                Code::BudgetTime,
                cut_off(limit.as_millis(), waited),
            );
        }
        if let Some(limit) = self
            .rules
            .budget()
            .time_ms
            .filter(|_| may_end && self.parts.cancel.dropped())
        {
            facts.force(
                gate,
                Source::Budget,
                Code::BudgetTime,
                cut_off(limit.limit.into(), waited),
            );
        }
        match (self.parts.cancel.wish(), gate) {
            (Wish::None, _) => {}
            (Wish::AfterStep, Gate::AfterDecide) => {}
            // The answer exists, so it is judged first.
            (Wish::Now, Gate::AfterDecide) if facts.candidate => {}
            (_, Gate::BeforeStep) if self.run.log.steps.is_empty() => {
                facts.force(
                    gate,
                    Source::Cancel,
                    Code::CancelledImmediate,
                    "cancelled before the first step",
                );
            }
            (Wish::AfterStep, Gate::BeforeStep | Gate::AfterStep) => {
                facts.force(
                    gate,
                    Source::Cancel,
                    Code::CancelledAfterStep,
                    "cancelled after the step",
                );
            }
            (Wish::Now, Gate::BeforeStep) => {
                facts.force(
                    gate,
                    Source::Cancel,
                    Code::CancelledImmediate,
                    "cancelled before the next step",
                );
            }
            (Wish::Now, Gate::AfterStep) if facts.candidate => {
                facts.force(
                    gate,
                    Source::Cancel,
                    Code::CancelledAfterStep,
                    "cancelled after the final decision",
                );
            }
            (Wish::Now, Gate::AfterDecide | Gate::AfterStep) => {
                facts.force(
                    gate,
                    Source::Cancel,
                    Code::CancelledImmediate,
                    "cancelled during the step",
                );
            }
        }
    }

    /// Records an event and notifies the hooks. It's written before the hooks are notified, before
    /// anything that may wait, or with the step's line.
    pub(super) fn emit<P: Serialize>(
        &mut self,
        step: u64,
        phase: &'static str,
        stage: &'static str,
        payload: P,
    ) {
        self.emit_with(Event::new(step, phase, stage, payload));
    }

    pub(super) fn emit_with<P: Serialize>(&mut self, event: Event<'_, P>) {
        let (step, phase, stage) = (event.step, event.phase, event.stage);
        let run = &mut self.run;
        run.log.event(event, || run.clock.now_us());
        if !self.parts.hooks.is_empty() {
            run.log.flush();
        }
        self.hear(|_, _| Some(Moment::Phase { step, phase, stage }));
    }

    /// Notifies the hooks of a moment. The first failure ends the run.
    pub(super) fn hear(
        &mut self,
        moment: impl for<'a> FnOnce(&'a Run, &'a State<A::Data>) -> Option<Moment<'a, A::Data>>,
    ) {
        if self.parts.hooks.is_empty() {
            return;
        }
        let Some(moment) = moment(&self.run, &self.state) else {
            return;
        };
        if let Some(wrong) = told(&mut self.parts.hooks, &moment) {
            self.run
                .fault
                .get_or_insert((Source::Error, Code::HookFailed, wrong));
        }
    }

    /// Like [`Session::hear`], for a moment that doesn't refer to the run or the state.
    pub(super) fn tell(&mut self, moment: &Moment<'_, A::Data>) {
        if let Some(wrong) = told(&mut self.parts.hooks, moment) {
            self.run
                .fault
                .get_or_insert((Source::Error, Code::HookFailed, wrong));
        }
    }
}

impl Run {
    pub(super) fn ms(&self) -> u64 {
        u64::try_from(
            self.clock
                .elapsed()
                .saturating_add(self.carried)
                .as_millis(),
        )
        .unwrap_or(u64::MAX)
    }
}
