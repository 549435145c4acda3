//! What happens in a step? Gate, decision, gate, actions, state, critics, gate, and the line that tells it.

use serde::Serialize;
use serde_json::Value;

use super::agent::{Agent, Done, StepCx};
use super::cancel::{Lost, Wish, caught_now};
use super::clock::step_seed;
use super::decision::{Action, Decision, Mode};
use super::env::EnvStep;
use super::hook::Moment;
use super::log::Event;
use super::recorder::FailureLine;
use super::result::StepRecord;
use super::run::Session;
use super::state::{Snapshot, StateDiff};
use super::tool::ToolCx;
use super::toolbox::ToolResult;
use crate::stop::{Code, Gate, Outcome, Phase, Ruling, Source, StepError, StepFacts, StopVerdict, Text};

/// Why there is no decision.
pub(super) enum NoDecision {
    /// Something failed.
    Failed(Fault),
    /// The run is cancelled; the next gate says so.
    Cancelled,
    /// The request does not fit the model, however short.
    Overflow(String),
}

/// A failure within a step.
pub(super) struct Fault {
    pub(super) category: &'static str,
    pub(super) message: String,
    pub(super) recoverable: bool,
    /// What the next prompt is to say about it; the message, if nothing better is known.
    pub(super) advice: Option<String>,
}

impl Fault {
    pub(super) fn new(category: &'static str, message: impl Into<String>) -> Self {
        Self { category, message: message.into(), recoverable: true, advice: None }
    }

    pub(super) fn fatal(mut self) -> Self {
        self.recoverable = false;
        self
    }
}

impl From<Lost> for NoDecision {
    fn from(lost: Lost) -> Self {
        match lost {
            Lost::Cancelled => NoDecision::Cancelled,
            Lost::Panicked(text) => NoDecision::Failed(Fault::new("panic", text).fatal()),
        }
    }
}

impl From<Fault> for NoDecision {
    fn from(fault: Fault) -> Self {
        NoDecision::Failed(fault)
    }
}

impl<A: Agent> Session<A> {
    /// One step; a verdict ends the run.
    pub(super) async fn step(&mut self, step: u64) -> Option<StopVerdict> {
        let mut facts = StepFacts::begin(step, self.run.ms());
        let ruling = self.ask(Gate::BeforeStep, &mut facts);
        if ruling.verdict.is_some() {
            self.run.unwritten = Some(facts);
            return ruling.verdict;
        }
        let mut record = StepRecord::new(step, facts);
        self.hear(|_, state| Some(Moment::BeforeStep { step, state }));
        self.emit(step, "DECIDE", "start", ());
        self.decide_into(&mut record).await;
        record.facts.t_decided_ms = Some(self.run.ms());
        if !record.facts.decide_failed() {
            let ruling = self.ask(Gate::AfterDecide, &mut record.facts);
            if ruling.verdict.is_some() {
                return self.end_step(record, ruling);
            }
        }
        let env = self.act(&mut record).await;
        if record.facts.error.is_none() && !self.is_interrupted(&record) {
            self.reduce(&mut record, env.as_ref());
        }
        if record.facts.error.is_none() && !self.is_interrupted(&record) {
            self.hear_critics(&mut record).await;
        }
        let next = self.measure(&mut record, env.as_ref());
        record.facts.t_end_ms = Some(self.run.ms());
        let ruling = self.ask(Gate::AfterStep, &mut record.facts);
        if record.facts.error.is_none() {
            self.run.failures.consecutive = 0;
        }
        if ruling.verdict.is_none()
            && let Some(next) = next
        {
            record.state_diff = self.snapshot.advance(next);
        }
        self.end_step(record, ruling)
    }

    /// Asks the rules at a gate.
    fn ask(&mut self, gate: Gate, facts: &mut StepFacts) -> Ruling {
        self.outside(gate, facts);
        self.rules.check(gate, &mut self.run.stats, facts, &self.state)
    }

    /// Whether the run was cancelled before this step came to an end of its own.
    fn is_interrupted(&self, record: &StepRecord) -> bool {
        self.parts.cancel.wish() == Wish::Now && !record.facts.candidate
    }

    async fn decide_into(&mut self, record: &mut StepRecord) {
        let decided = match self.observe(record).await {
            Ok(()) => self.decide(record).await,
            Err(trouble) => Err(trouble),
        };
        let step = record.step;
        match decided {
            Ok(decision) => {
                self.feedback.clear();
                #[derive(Serialize)]
                struct Ready<'a> {
                    mode: Mode,
                    #[serde(skip_serializing_if = "<[_]>::is_empty")]
                    actions: &'a [Action],
                    #[serde(skip_serializing_if = "Option::is_none")]
                    final_answer: Option<&'a str>,
                }
                let answer = decision.final_answer.as_deref();
                let ready = Ready { mode: decision.mode, actions: &decision.actions, final_answer: answer };
                self.emit(step, "DECIDE", "decision_ready", ready);
                let facts = &mut record.facts;
                facts.actions = Some(decision.actions.iter().map(|action| action.name.clone()).collect());
                facts.candidate = decision.mode == Mode::Final;
                if facts.candidate {
                    facts.final_answer.clone_from(&decision.final_answer);
                    self.run.last_text.clone_from(&decision.final_answer);
                }
                record.decision = Some(decision);
            }
            Err(NoDecision::Failed(fault)) => self.fail(record, Phase::Decide, fault),
            Err(NoDecision::Cancelled) => {}
            Err(NoDecision::Overflow(why)) => {
                record.facts.force(Gate::AfterDecide, Source::Error, Code::ContextOverflow, why);
            }
        }
    }

    async fn observe(&mut self, record: &mut StepRecord) -> Result<(), NoDecision> {
        let Some(env) = &mut self.parts.env else { return Ok(()) };
        match self.parts.cancel.guard(env.observe()).await {
            Ok(Ok(observation)) => record.observation = observation,
            Ok(Err(error)) => self.env_failed("could not be observed", &error.to_string()),
            Err(Lost::Panicked(text)) => self.env_failed("could not be observed", &text),
            Err(Lost::Cancelled) => return Err(NoDecision::Cancelled),
        }
        Ok(())
    }

    fn env_failed(&mut self, what: &str, why: &str) {
        let name = self.parts.env.as_ref().map_or("", |env| env.name());
        let wrong = format!("the environment {name} {what}: {why}");
        self.run.fault.get_or_insert((Source::Error, Code::EnvFailed, wrong));
    }

    async fn decide(&mut self, record: &mut StepRecord) -> Result<Decision, NoDecision> {
        if self.run.fault.is_some() {
            // The gate after the decision ends the run; there is nothing to decide any more.
            return Ok(Decision::default());
        }
        let cx = cx(&self.run, &self.parts, &self.last, &self.feedback, record);
        let decided = self.parts.cancel.guard(self.agent.decide(&self.state, &cx)).await?;
        let decided = decided.map_err(|error| Fault {
            category: "agent_error",
            message: error.message,
            recoverable: error.recoverable,
            advice: None,
        })?;
        let decision = match decided {
            Some(decision) => decision,
            None => self.ask_model(record).await?,
        };
        let selector = &*self.parts.selector;
        let decision = caught_now(|| decision.resolve(selector)).map_err(|text| Fault::new("panic", text).fatal())?;
        let decision = decision.and_then(|decision| decision.validate().map(|()| decision));
        Ok(decision.map_err(|wrong| Fault::new("invalid_decision", wrong))?)
    }

    async fn act(&mut self, record: &mut StepRecord) -> Option<EnvStep> {
        let Some(decision) = record.decision.as_ref() else {
            self.last.clear();
            return None;
        };
        let step = record.step;
        if decision.mode == Mode::Act {
            self.emit(step, "ACT", "start", ());
            let mut results = Vec::with_capacity(decision.actions.len());
            for action in &decision.actions {
                if self.parts.cancel.wish() == Wish::Now {
                    results.push(ToolResult::skipped(action));
                    continue;
                }
                let cx = ToolCx { step, workspace: self.parts.workspace.as_deref(), attempt: 0 };
                results.push(self.tools.call(action, cx, &*self.run.clock, &self.parts.cancel).await);
            }
            self.talk.results(&decision.actions, &results);
            #[derive(Serialize)]
            struct Results {
                #[serde(skip_serializing_if = "is_none_of_them")]
                failed: usize,
            }
            let failed = results.iter().filter(|result| !result.is_ok()).count();
            self.emit(step, "ACT", "action_results", Results { failed });
            record.results = results;
        }
        self.last.clone_from(&record.results);
        self.step_env(record).await
    }

    async fn step_env(&mut self, record: &StepRecord) -> Option<EnvStep> {
        let decision = record.decision.as_ref()?;
        let env = self.parts.env.as_mut()?;
        match self.parts.cancel.guard(env.step(decision, &record.results)).await {
            Ok(Ok(done)) => {
                #[derive(Serialize)]
                struct Stepped<'a> {
                    env_result: &'a EnvStep,
                }
                self.emit(record.step, "ACT", "env_step", Stepped { env_result: &done });
                Some(done)
            }
            Ok(Err(error)) => {
                self.env_failed("failed", &error.to_string());
                None
            }
            Err(Lost::Panicked(text)) => {
                self.env_failed("failed", &text);
                None
            }
            Err(Lost::Cancelled) => None,
        }
    }

    fn reduce(&mut self, record: &mut StepRecord, env: Option<&EnvStep>) {
        let Some(decision) = record.decision.as_ref() else { return };
        let done = Done { step: record.step, decision, results: &record.results, env };
        let at = self.state.current_step;
        let reduced = caught_now(|| self.agent.reduce(&mut self.state, &done));
        let fault = match reduced {
            Ok(Ok(())) => match self.state.validate() {
                Ok(()) if self.state.current_step == at => None,
                Ok(()) => {
                    Some(Fault::new("state_error", "the agent changed state.current_step, which the engine counts"))
                }
                Err(wrong) => Some(Fault::new("state_error", wrong.to_string())),
            },
            Ok(Err(error)) => Some(Fault {
                category: "agent_error",
                message: error.message,
                recoverable: error.recoverable,
                advice: None,
            }),
            Err(text) => Some(Fault::new("panic", text).fatal()),
        };
        match fault {
            None => self.emit(record.step, "REDUCE", "state_reduced", ()),
            Some(mut fault) => {
                if let Err(wrong) = self.put_back() {
                    fault =
                        Fault::new("state_error", format!("{}; the state before is lost too: {wrong}", fault.message));
                    fault = fault.fatal();
                }
                self.fail(record, Phase::Reduce, fault);
            }
        }
    }

    /// Makes the state what it was before the step.
    fn put_back(&mut self) -> Result<(), String> {
        let object = Value::Object(self.snapshot.object());
        self.state = serde_json::from_value(object).map_err(|wrong| wrong.to_string())?;
        Ok(())
    }

    /// Fills in what the last gate looks at; the state afterwards, if it can be written down.
    fn measure(&mut self, record: &mut StepRecord, env: Option<&EnvStep>) -> Option<Snapshot> {
        let stops = caught_now(|| self.agent.should_stop(&self.state));
        let stops = stops.unwrap_or_else(|text| {
            let wrong = format!("the agent's should_stop failed: {text}");
            self.run.fault.get_or_insert((Source::Error, Code::AgentFailed, wrong));
            false
        });
        record.facts.agent_stop = stops || self.state.stop_reason.is_some();
        if let (Some(env), Some(done)) = (&self.parts.env, env) {
            record.facts.env_terminal = caught_now(|| env.is_terminal(done)).unwrap_or(done.done);
        }
        if !record.facts.candidate {
            let set = self.state.final_result.clone().filter(|answer| !answer.trim().is_empty());
            record.facts.final_answer = set;
        }
        let all_failed = !record.results.is_empty() && record.results.iter().all(|result| !result.is_ok());
        let ends = record.facts.agent_stop || record.facts.env_terminal || record.facts.final_answer.is_some();
        if all_failed && !ends && !self.is_interrupted(record) && record.facts.error.is_none() {
            // The agent sees the failures and the run goes on; in a row they count as failed steps.
            let message = record.results.first().map(ToolResult::text).unwrap_or_default();
            record.facts.error = Some(StepError { phase: Phase::Act, message, recovered: true });
        }
        self.state.current_step += 1;
        match Snapshot::of(&self.state) {
            Ok(next) => {
                let custom = self.parts.signature.as_ref().map(|signature| caught_now(|| signature(&self.state)));
                // 53 bits, so that readers whose numbers are doubles keep it whole.
                record.facts.signature = match custom {
                    None => Some(next.signature() >> 11),
                    Some(Ok(hash)) => Some(hash >> 11),
                    Some(Err(text)) => {
                        let wrong = format!("the state's signature failed: {text}");
                        self.run.fault.get_or_insert((Source::Error, Code::AgentFailed, wrong));
                        None
                    }
                };
                Some(next)
            }
            Err(wrong) => {
                self.run.fault.get_or_insert((Source::Error, Code::AgentFailed, wrong.to_string()));
                None
            }
        }
    }

    /// Writes the step down and says whether the run goes on.
    fn end_step(&mut self, mut record: StepRecord, ruling: Ruling) -> Option<StopVerdict> {
        let step = record.step;
        for refusal in &ruling.refused {
            self.feedback.push(format!("The answer was not accepted: {}", refusal.reading.detail));
        }
        if let Some(verdict) = &ruling.verdict {
            self.accept(&record, verdict);
            if let Ok(last) = Snapshot::of(&self.state) {
                record.state_diff = self.snapshot.advance(last);
            }
        }
        #[derive(Serialize)]
        struct Stopped<'a> {
            stop_reason: &'a str,
            stop_detail: &'a str,
            #[serde(skip_serializing_if = "Option::is_none")]
            final_result: Option<&'a str>,
            #[serde(skip_serializing_if = "std::ops::Not::not")]
            env_terminal: bool,
        }
        match &ruling.verdict {
            None => self.emit(step, "CHECK_STOP", "continue", ()),
            Some(verdict) => {
                let answer = self.state.final_result.clone();
                let stopped = Stopped {
                    stop_reason: &verdict.stop_reason,
                    stop_detail: &verdict.reading.detail,
                    final_result: answer.as_deref(),
                    env_terminal: record.facts.env_terminal,
                };
                self.emit(step, "CHECK_STOP", "stop", stopped);
            }
        }
        let run = &mut self.run;
        run.log.step(self.agent.name(), record, || run.clock.now_us());
        self.hear(|run, state| Some(Moment::AfterStep { record: run.log.steps.last()?, state }));
        ruling.verdict
    }

    /// Puts the end into the state.
    fn accept(&mut self, record: &StepRecord, verdict: &StopVerdict) {
        if verdict.outcome == Outcome::Completed && record.facts.candidate {
            self.state.final_result.clone_from(&record.facts.final_answer);
        }
        self.state.stop_reason = Some(verdict.stop_reason.clone());
    }

    /// Tells of a failure and asks whether the run may go on.
    fn fail(&mut self, record: &mut StepRecord, phase: Phase, fault: Fault) {
        let step = record.step;
        let failures = &mut self.run.failures;
        failures.consecutive += 1;
        failures.total += 1;
        let (consecutive, total) = (failures.consecutive, failures.total);
        let failure = super::recovery::Failure {
            step,
            phase,
            message: &fault.message,
            recoverable: fault.recoverable,
            consecutive,
            total,
        };
        let recovery = &mut self.parts.recovery;
        let recovered = caught_now(|| recovery.may_continue(&failure)).unwrap_or(false);
        #[derive(Serialize)]
        struct Told<'a> {
            category: &'a str,
            recoverable: bool,
        }
        #[derive(Serialize)]
        struct Recover {
            recovered: bool,
            consecutive: u64,
            total: u64,
        }
        let name = match phase {
            Phase::Act => "ACT_ERROR",
            Phase::Reduce => "REDUCE_ERROR",
            _ => "DECIDE_ERROR",
        };
        let told = Told { category: fault.category, recoverable: fault.recoverable };
        let error = fault.message.as_str();
        self.emit_with(Event::new(step, name, "", told).failed(error));
        self.emit_with(Event::new(step, "RECOVER", "", Recover { recovered, consecutive, total }).failed(error));
        self.run.failures.report.push(FailureLine {
            step_id: step,
            phase: phase.as_str().to_uppercase(),
            category: fault.category.to_owned(),
            message: fault.message.clone(),
            recoverable: fault.recoverable,
            decision: if recovered { "continue" } else { "stop" },
        });
        let advice = fault.advice.unwrap_or_else(|| format!("The last step failed: {}", fault.message));
        self.feedback.push(advice);
        record.facts.error = Some(StepError { phase, message: fault.message, recovered });
    }
}

/// What the agent knows in a step. Takes the session apart, so that the agent itself is left free to be borrowed.
pub(super) fn cx<'a, D>(
    run: &'a super::run::Run,
    parts: &'a super::builder::Parts<D>,
    last: &'a [ToolResult],
    feedback: &'a [String],
    record: &'a StepRecord,
) -> StepCx<'a> {
    StepCx {
        step: record.step,
        task: &run.task,
        observation: &record.observation,
        last,
        feedback,
        seed: step_seed(parts.seed.unwrap_or_default(), record.step),
        elapsed: std::time::Duration::from_millis(record.facts.t_start_ms.unwrap_or_default()),
        workspace: parts.workspace.as_deref(),
    }
}

impl StepRecord {
    fn new(step: u64, facts: StepFacts) -> Self {
        Self {
            step,
            observation: Value::Null,
            decision: None,
            results: Vec::new(),
            critics: Vec::new(),
            state_diff: StateDiff::default(),
            model: None,
            diagnostics: None,
            facts,
        }
    }
}

/// Left out of an event where nothing failed, as most often.
fn is_none_of_them(failed: &usize) -> bool {
    *failed == 0
}

/// The model's text as a fact.
pub(super) fn said(text: &str) -> Text {
    Text::Known(text.to_owned())
}
