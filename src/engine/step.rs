//! Executes one step: gate, decision, gate, actions, state, critics, gate, and the step's line.

use std::borrow::Cow;

use serde::Serialize;
use serde_json::Value;

use super::admit::Admitted;
use super::agent::{Agent, Done, StepCx};
use super::builder::Parts;
use super::cancel::{Lost, Wish, caught_now};
use super::clock::step_seed;
use super::decision::{Action, Decision, Mode};
use super::earlier::Spent;
use super::env::{EnvError, EnvStep};
use super::fault::{Fault, NoDecision};
use super::hook::Moment;
use super::result::StepRecord;
use super::session::{Run, Session};
use super::state::{Snapshot, StateDiff};
use super::talk::Conversation;
use super::tool::ToolCx;
use super::toolbox::ToolResult;
use crate::stop::{Code, Gate, Outcome, Phase, Ruling, Source, StepError, StepFacts, StopVerdict};

/// Maximum size of all outputs of one step together, in bytes. Keeps the step's line below the
/// limit of readers.
const MAX_STEP_BYTES: usize = 2 << 20;

impl<A: Agent> Session<A> {
    /// Runs one step. Returns a verdict if the run ends.
    pub(super) async fn step(&mut self, step: u64) -> Option<StopVerdict> {
        let mut facts = StepFacts::begin(step, self.run.ms());
        facts.resumed = self.run.goes_on && step == self.run.first;
        if facts.resumed {
            self.run.lost.add_to(&mut facts);
            self.run.spent = self.run.lost;
        }
        let ruling = self.ask(Gate::BeforeStep, &mut facts);
        if ruling.verdict.is_some() {
            self.run.unwritten = Some(facts);
            return ruling.verdict;
        }
        self.run.open_step = Some(step);
        let mut record = StepRecord::new(step, facts);
        self.hear(|_, state| Some(Moment::BeforeStep { step, state }));
        self.emit(step, "DECIDE", "start", ());
        self.decide_into(&mut record).await;
        record.facts.t_decided_ms = Some(self.run.ms());
        if !record.facts.decide_failed() {
            let ruling = self.ask(Gate::AfterDecide, &mut record.facts);
            if ruling.verdict.is_some() {
                return self.end_step(record, ruling, None);
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
        self.end_step(record, ruling, next)
    }

    /// Checks the rules at a gate.
    fn ask(&mut self, gate: Gate, facts: &mut StepFacts) -> Ruling {
        self.outside(gate, facts);
        if gate != Gate::BeforeStep {
            // The rules add it to `stats`.
            self.run.spent = Spent::default();
        }
        self.rules.check(
            gate,
            &mut self.run.stats,
            facts,
            &self.state,
            self.talk.texts(),
        )
    }

    /// Returns whether the run was cancelled before the step could complete.
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
                let ready = Ready {
                    mode: decision.mode,
                    actions: &decision.actions,
                    final_answer: answer,
                };
                self.emit(step, "DECIDE", "decision_ready", ready);
                let facts = &mut record.facts;
                facts.actions = Some(
                    decision
                        .actions
                        .iter()
                        .map(|action| action.name.clone())
                        .collect(),
                );
                facts.candidate = decision.mode == Mode::Final;
                if facts.candidate {
                    facts.final_answer.clone_from(&decision.final_answer);
                    self.run.last_text.clone_from(&decision.final_answer);
                }
                record.decision = Some(decision);
            }
            Err(NoDecision::Failed(fault)) => self.fail(record, Phase::Decide, fault),
            Err(NoDecision::Ended) => {}
            Err(NoDecision::Overflow(why)) => {
                record
                    .facts
                    .force(Gate::AfterDecide, Source::Error, Code::ContextOverflow, why);
            }
        }
    }

    async fn observe(&mut self, record: &mut StepRecord) -> Result<(), NoDecision> {
        let Some(env) = &mut self.parts.env else {
            return Ok(());
        };
        self.run.log.flush();
        let observed = self.parts.cancel.guard(async { env.observe().await }).await;
        record.observation = self
            .env_gave("could not be observed", observed)
            .ok_or(NoDecision::Ended)?;
        Ok(())
    }

    /// Returns the environment's result. If the environment failed or the run was cancelled,
    /// returns `None`, and the next gate ends the run.
    fn env_gave<T>(&mut self, what: &str, answer: Result<Result<T, EnvError>, Lost>) -> Option<T> {
        match answer {
            Ok(Ok(given)) => return Some(given),
            Ok(Err(error)) => self.env_failed(what, &error.to_string()),
            Err(Lost::Panicked(text)) => self.env_failed(what, &text),
            Err(Lost::Cancelled) => {}
        }
        None
    }

    fn env_failed(&mut self, what: &str, why: &str) {
        let name = self.parts.env.as_ref().map_or("", |env| env.name());
        let wrong = format!("the environment {name} {what}: {why}");
        self.run
            .fault
            .get_or_insert((Source::Error, Code::EnvFailed, wrong));
    }

    async fn decide(&mut self, record: &mut StepRecord) -> Result<Decision, NoDecision> {
        if self.run.fault.is_some() {
            return Err(NoDecision::Ended);
        }
        self.run.log.flush();
        let cx = cx(&self.run, &self.parts, &self.talk, &self.feedback, record);
        let (agent, state) = (&mut self.agent, &self.state);
        let decided = self
            .parts
            .cancel
            .guard(async { agent.decide(state, &cx).await })
            .await?;
        let decided = decided.map_err(Fault::from)?;
        let decision = match decided {
            Some(decision) => decision,
            None => self.ask_model(record).await?,
        };
        let selector = &*self.parts.selector;
        let decision = caught_now(|| decision.resolve(selector))
            .map_err(|text| Fault::new("panic", text).fatal())?;
        let decision = decision.and_then(|decision| decision.validate().map(|()| decision));
        Ok(decision.map_err(|wrong| Fault::new("invalid_decision", wrong))?)
    }

    async fn act(&mut self, record: &mut StepRecord) -> Option<EnvStep> {
        let decision = record.decision.as_ref()?;
        let step = record.step;
        if decision.mode == Mode::Act {
            self.emit(step, "ACT", "start", ());
            let mut results = Vec::with_capacity(decision.actions.len());
            let mut room = MAX_STEP_BYTES;
            let mut ended = false;
            let mut place = 0;
            while let Some((part, _)) = self
                .tools
                .first_part(decision.actions.get(place..).unwrap_or_default())
            {
                // The results of calls that are refused. Calls that are allowed wait until the
                // guards have decided on all calls of their part.
                let mut refused = Vec::with_capacity(part.len());
                let mut admitted = Vec::with_capacity(part.len());
                for action in part {
                    let at = place;
                    place += 1;
                    if ended || self.parts.cancel.wish() == Wish::Now {
                        refused.push(Some(ToolResult::skipped(action)));
                        continue;
                    }
                    match self
                        .admit(step, at, action, &mut record.facts.waited_ms)
                        .await
                    {
                        Admitted::AsIs => admitted.push(Cow::Borrowed(action)),
                        Admitted::Changed(other) => admitted.push(Cow::Owned(other)),
                        Admitted::Refused(result) => {
                            refused.push(Some(result));
                            continue;
                        }
                        Admitted::Ended(why) => {
                            refused.push(Some(ToolResult::refused(action, &why)));
                            record.facts.force(
                                Gate::AfterStep,
                                Source::Policy,
                                Code::from("guard_stop"),
                                why,
                            );
                            ended = true;
                            continue;
                        }
                    }
                    refused.push(None);
                }
                for action in &admitted {
                    self.tell(&Moment::Call { step, action });
                }
                let cx = ToolCx {
                    step,
                    workspace: self.parts.workspace.as_deref(),
                    attempt: 0,
                    off_limits: &self.off_limits,
                    cancel: Some(&self.parts.cancel),
                    run: self.dir.as_deref(),
                    state: Some(&self.snapshot),
                    env: self.shared.as_ref(),
                };
                self.run.log.flush();
                let made = self
                    .tools
                    .call_all(&admitted, cx, &*self.run.clock, &self.parts.cancel)
                    .await;
                let mut made = made.into_iter();
                for mut result in refused
                    .into_iter()
                    .filter_map(|refused| refused.or_else(|| made.next()))
                {
                    room -= result.fit(room).min(room);
                    self.tell(&Moment::Result {
                        step,
                        place: results.len(),
                        result: &result,
                    });
                    results.push(result);
                }
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
        self.step_env(record).await
    }

    async fn step_env(&mut self, record: &StepRecord) -> Option<EnvStep> {
        let decision = record.decision.as_ref()?;
        let env = self.parts.env.as_mut()?;
        self.run.log.flush();
        let stepped = self
            .parts
            .cancel
            .guard(async { env.step(decision, &record.results).await })
            .await;
        let done = self.env_gave("failed", stepped)?;
        #[derive(Serialize)]
        struct Stepped<'a> {
            env_result: &'a EnvStep,
        }
        self.emit(
            record.step,
            "ACT",
            "env_step",
            Stepped { env_result: &done },
        );
        Some(done)
    }

    fn reduce(&mut self, record: &mut StepRecord, env: Option<&EnvStep>) {
        let Some(decision) = record.decision.as_ref() else {
            return;
        };
        let done = Done {
            step: record.step,
            decision,
            results: &record.results,
            env,
        };
        let at = self.state.current_step;
        let reduced = caught_now(|| self.agent.reduce(&mut self.state, &done));
        let fault = match reduced {
            Ok(Ok(())) => match self.state.validate() {
                Ok(()) if self.state.current_step == at => None,
                Ok(()) => Some(Fault::new(
                    "state_error",
                    "the agent changed state.current_step, which the engine counts",
                )),
                Err(wrong) => Some(Fault::new("state_error", wrong.to_string())),
            },
            Ok(Err(error)) => Some(error.into()),
            Err(text) => Some(Fault::new("panic", text).fatal()),
        };
        match fault {
            None => self.emit(record.step, "REDUCE", "state_reduced", ()),
            Some(mut fault) => {
                if let Err(wrong) = self.put_back() {
                    fault = Fault::new(
                        "state_error",
                        format!("{}; the state before is lost too: {wrong}", fault.message),
                    );
                    fault = fault.fatal();
                }
                self.fail(record, Phase::Reduce, fault);
            }
        }
    }

    /// Restores the state from before the step.
    fn put_back(&mut self) -> Result<(), String> {
        self.state = self.snapshot.state().map_err(|wrong| wrong.to_string())?;
        // The result of an earlier part of the run no longer applies.
        (self.state.stop_reason, self.state.final_result) = (None, None);
        Ok(())
    }

    /// Adds the facts for the last gate. Returns a snapshot of the new state, if it can be
    /// serialized.
    fn measure(&mut self, record: &mut StepRecord, env: Option<&EnvStep>) -> Option<Snapshot> {
        let stops = caught_now(|| self.agent.should_stop(&self.state));
        let stops = stops.unwrap_or_else(|text| {
            let wrong = format!("the agent's should_stop failed: {text}");
            self.run
                .fault
                .get_or_insert((Source::Error, Code::AgentFailed, wrong));
            false
        });
        record.facts.agent_stop = stops;
        if let Some(reason) = &self.state.stop_reason {
            match stop_code(reason) {
                None => record.facts.agent_stop = true,
                Some(code) => {
                    let detail = format!("the agent set its stop reason to {reason}");
                    record
                        .facts
                        .force(Gate::AfterStep, Source::Agent, code, detail);
                }
            }
        }
        if let (Some(env), Some(done)) = (&self.parts.env, env) {
            match caught_now(|| env.is_terminal(done)) {
                Ok(ends) => record.facts.env_terminal = ends,
                Err(text) => self.env_failed("could not say whether it ended", &text),
            }
        }
        // An answer that was set with another stop reason is kept, but not judged.
        let is_judged = matches!(
            self.state.stop_reason.as_deref(),
            None | Some("final" | "success")
        );
        let set = self.state.final_result.as_deref();
        let set = set.filter(|answer| !answer.trim().is_empty());
        record.facts.agent_success = self.state.stop_reason.as_deref() == Some("success");
        record.facts.kept_answer = set.is_some() && !is_judged;
        if !record.facts.candidate {
            record.facts.final_answer = set.filter(|_| is_judged).map(str::to_owned);
        }
        let all_failed =
            !record.results.is_empty() && record.results.iter().all(|result| !result.is_ok());
        let ends = record.facts.agent_stop
            || record.facts.env_terminal
            || record.facts.final_answer.is_some();
        if all_failed && !ends && !self.is_interrupted(record) && record.facts.error.is_none() {
            // The agent gets the errors and the run continues. Several such steps in a row count as
            // failed steps.
            let message = record
                .results
                .first()
                .map(ToolResult::text)
                .unwrap_or_default();
            record.facts.error = Some(StepError {
                phase: Phase::Act,
                message,
                recovered: true,
            });
        }
        self.state.current_step += 1;
        match Snapshot::of(&self.state) {
            Ok(next) => {
                let custom = self
                    .parts
                    .signature
                    .as_ref()
                    .map(|signature| caught_now(|| signature(&self.state)));
                // 53 bits, so that readers with double-precision numbers keep it exact.
                record.facts.signature = match custom {
                    None => Some(next.signature() >> 11),
                    Some(Ok(hash)) => Some(hash >> 11),
                    Some(Err(text)) => {
                        let wrong = format!("the state's signature failed: {text}");
                        self.run
                            .fault
                            .get_or_insert((Source::Error, Code::AgentFailed, wrong));
                        None
                    }
                };
                Some(next)
            }
            Err(wrong) => {
                self.run
                    .fault
                    .get_or_insert((Source::Error, Code::AgentFailed, wrong.to_string()));
                None
            }
        }
    }

    /// Records the step and returns the verdict, if the run ends.
    fn end_step(
        &mut self,
        mut record: StepRecord,
        ruling: Ruling,
        mut next: Option<Snapshot>,
    ) -> Option<StopVerdict> {
        let step = record.step;
        for refusal in &ruling.refused {
            self.advise(format!(
                "The answer was not accepted: {}",
                refusal.reading.detail
            ));
        }
        if self.settle(&record, &ruling) {
            next = Snapshot::of(&self.state).ok().or(next);
        }
        if let Some(next) = next {
            record.state_diff = self.snapshot.advance(next);
        }
        #[derive(Serialize)]
        struct GoesOn {
            /// Feedback for the next prompt, in addition to the agent's own text.
            #[serde(skip_serializing_if = "Vec::is_empty")]
            feedback: Vec<String>,
        }
        let minded = GoesOn {
            feedback: self.feedback.clone(),
        };
        #[derive(Serialize)]
        struct Stopped<'a> {
            #[serde(flatten)]
            minded: GoesOn,
            stop_reason: &'a str,
            stop_detail: &'a str,
            #[serde(skip_serializing_if = "Option::is_none")]
            final_result: Option<&'a str>,
            #[serde(skip_serializing_if = "std::ops::Not::not")]
            env_terminal: bool,
        }
        match &ruling.verdict {
            None => self.emit(step, "CHECK_STOP", "continue", minded),
            Some(verdict) => {
                let answer = self.state.final_result.clone();
                let stopped = Stopped {
                    minded,
                    stop_reason: &verdict.stop_reason,
                    stop_detail: &verdict.reading.detail,
                    final_result: answer.as_deref(),
                    env_terminal: record.facts.env_terminal,
                };
                self.emit(step, "CHECK_STOP", "stop", stopped);
            }
        }
        let run = &mut self.run;
        record.tokens_total = run.stats.tokens.total();
        run.log
            .step(self.agent.name(), record, || run.clock.now_us());
        self.hear(|run, state| {
            Some(Moment::AfterStep {
                record: run.log.steps.last()?,
                state,
            })
        });
        ruling.verdict
    }

    /// Applies the ruling to the state, and returns whether the state changed. An answer that
    /// wasn't accepted becomes the last text.
    fn settle(&mut self, record: &StepRecord, ruling: &Ruling) -> bool {
        let completed = ruling
            .verdict
            .as_ref()
            .is_some_and(|verdict| verdict.outcome == Outcome::Completed);
        let refused = !ruling.refused.is_empty();
        let ended = ruling.verdict.is_some();
        let mut changed = ended;
        let is_agents = ruling
            .verdict
            .as_ref()
            .is_some_and(|verdict| verdict.source == Source::Agent);
        if let Some(answer) = self
            .state
            .final_result
            .take_if(|_| refused || (ended && !completed && !is_agents))
        {
            self.run.last_text = Some(answer);
            changed = true;
        }
        if let Some(verdict) = &ruling.verdict {
            if matches!(verdict.source, Source::Decision | Source::Completion)
                && record.facts.candidate
            {
                self.state
                    .final_result
                    .clone_from(&record.facts.final_answer);
            }
            self.state.stop_reason = Some(verdict.stop_reason.clone());
        }
        changed
    }
}

/// Returns the agent's context for a step. Takes the parts of the session separately, so that the
/// agent can be borrowed mutably.
pub(super) fn cx<'a, D>(
    run: &'a Run,
    parts: &'a Parts<D>,
    talk: &Conversation,
    feedback: &'a [String],
    record: &'a StepRecord,
) -> StepCx<'a> {
    StepCx {
        step: record.step,
        task: &run.task,
        observation: &record.observation,
        last: run.log.steps.last().map_or(&run.last, |last| &last.results),
        feedback,
        prompted: talk.has_begun(),
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
            tokens_total: 0,
        }
    }
}

/// Returns the code of a stop reason that the agent set. `None` for reasons that only request the
/// end.
fn stop_code(reason: &str) -> Option<Code> {
    match reason {
        "final" | "success" | "agent_condition" => None,
        "unrecoverable_error" => Some(Code::AgentFailed),
        "interrupt" => Some(Code::CancelledAfterStep),
        "env_terminal" => Some(Code::EnvTerminal),
        // All other reasons are codes. The state has already refused unknown ones.
        other => Some(Code::from(other)),
    }
}

/// Omits the count from an event if nothing failed, which is the usual case.
fn is_none_of_them(failed: &usize) -> bool {
    *failed == 0
}
