//! Runs a task to its verdict: starts the run, checks it, executes the steps, and closes it in all
//! cases.

use std::path::PathBuf;
use std::time::Duration;

use serde::Serialize;
use serde_json::{Value, json};

use super::agent::Agent;
use super::builder::{Engine, Parts};
use super::cancel::{Lost, Wish, caught, caught_now, cut_off};
use super::clock::{Clock, SystemClock};
use super::earlier::{Earlier, Spent};
use super::env::Shared;
use super::hook::{Moment, told};
use super::log::{Event, Log};
use super::off_limits::OffLimits;
use super::recorder::{FailureLine, Opening, ending};
use super::result::{RunResult, TaskResult};
use super::staging::stage;
use super::state::{Snapshot, State};
use super::talk::Conversation;
use super::task::{Task, TaskIssue};
use super::toolbox::{ToolResult, Toolbox, clip};
use crate::stop::{Code, Gate, Outcome, Source, Stats, StepFacts, StopSet, StopVerdict};

/// Maximum length of the last text in the END event, in bytes. The text's step has all of it.
const MAX_LAST_TEXT_BYTES: usize = 16 << 10;
/// Time limit for the environment's cleanup.
const CLOSE: Duration = Duration::from_secs(10);

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
    carried: Duration,
    issues: Vec<TaskIssue>,
}

/// Failed steps, as counted by the recovery policy.
#[derive(Debug, Default)]
pub(super) struct Failures {
    pub(super) consecutive: u64,
    pub(super) total: u64,
    pub(super) report: Vec<FailureLine>,
}

impl<A: Agent> Engine<A> {
    /// Runs the task to its end. Every failure, including failures of the agent, a critic or the
    /// disk, becomes the verdict of the result. An engine runs only once, so that no counters carry
    /// over to another run.
    pub async fn run(self, task: impl Into<Task>) -> RunResult<A::Data> {
        self.play(task.into(), None).await
    }

    pub(super) async fn play(
        self,
        task: Task,
        earlier: Option<(State<A::Data>, Earlier)>,
    ) -> RunResult<A::Data> {
        let Engine {
            mut agent,
            tools,
            mut rules,
            mut parts,
        } = self;
        rules.limit(task.limits());
        if let Some(limit) = parts.hard_timeout {
            parts.cancel.at_most(limit);
        }
        let (known, mut earlier) = earlier.unzip();
        let mut run = Run {
            clock: parts
                .clock
                .take()
                .unwrap_or_else(|| Box::new(SystemClock::start())),
            log: Log::new(parts.writer.take()),
            stats: parts.resumed.clone().unwrap_or_default(),
            last_text: None,
            fault: None,
            failures: Failures::default(),
            unwritten: None,
            last: Vec::new(),
            lost: Spent::default(),
            first: 0,
            goes_on: false,
            carried: Duration::ZERO,
            issues: Vec::new(),
            task,
        };
        let resumed = earlier.as_ref().map(Earlier::told);
        let mut feedback = Vec::new();
        let mut started_at = run.clock.now_us();
        let mut branched_from = Value::Null;
        if let Some(earlier) = &mut earlier {
            run.take_up(earlier, rules.carried(&earlier.facts));
            feedback = std::mem::take(&mut earlier.feedback);
            started_at = earlier.started_at.unwrap_or(started_at);
            parts.seed = parts.seed.or(earlier.seed);
            branched_from = earlier.branched_from();
        }
        if run.clock.is_real() {
            let spent = run.stats.elapsed_ms.unwrap_or_default();
            let left = |until_ms: u64| Duration::from_millis(until_ms.saturating_sub(spent));
            rules
                .budget()
                .time_ms
                .into_iter()
                .for_each(|limit| parts.cancel.limit(left(limit.limit)));
            rules
                .ends_at_ms()
                .into_iter()
                .for_each(|end| parts.cancel.answer_within(left(end)));
        }
        let made = known.map_or_else(
            || caught_now(|| agent.init_state(&run.task)),
            |known| Ok(Ok(known)),
        );
        let made = made
            .map_err(|panic| (Code::AgentFailed, panic))
            .and_then(|made| {
                let state = made.map_err(|error| (Code::AgentFailed, error.message))?;
                first_state(state, &rules, run.goes_on)
                    .map_err(|wrong| (Code::TaskValidationFailed, wrong))
            });
        let specs = tools.specs();
        let opening = Opening {
            agent: agent.name(),
            task: &run.task,
            model: parts.model.as_deref().map(|model| model.name()),
            parser: parts
                .parser
                .as_deref()
                .map(|parser| (parser.name(), parser.contract())),
            tools: &specs,
            seed: parts.seed,
            rules: &rules.record(),
            resumed: parts.resumed.as_ref(),
            process: parts.process.clone(),
            env: parts.env.as_deref().map(|env| env.name()),
            guards: parts.guards.iter().map(|guard| guard.name()).collect(),
            started_at,
            parent: parts.parent.as_deref(),
            branched_from,
        };
        run.log.begin(|| opening.info());
        let init = json!({
            "task": run.task.objective,
            "task_id": run.task.id,
            "task_meta": opening.task_meta(),
            "run_meta": opening.run_meta(),
            "env": {"enabled": opening.env.is_some(), "name": opening.env},
        });
        #[derive(Serialize)]
        struct Init<'a> {
            #[serde(flatten)]
            known: &'a Value,
            /// The earlier part of a resumed run.
            #[serde(skip_serializing_if = "Option::is_none")]
            resumed: Option<Value>,
            /// The only place with the complete state.
            state: Option<&'a Snapshot>,
        }
        let payload = Init {
            known: &init,
            resumed,
            state: made.as_ref().ok().map(|(.., snapshot)| snapshot),
        };
        run.log
            .event(Event::new(run.first, "INIT", "", payload), || {
                run.clock.now_us()
            });
        let (state, snapshot, _) = match made {
            Ok(made) => made,
            Err((code, wrong)) => {
                let verdict = StopVerdict::outside(Source::Preflight, code, None, wrong);
                return run.close(None, verdict);
            }
        };
        let talk = match caught_now(|| Conversation::new(parts.parser.as_deref(), specs)) {
            Ok(talk) => talk,
            Err(text) => {
                let verdict =
                    StopVerdict::outside(Source::Preflight, Code::AgentFailed, None, text);
                return run.close(Some(state), verdict);
            }
        };
        let dir = run.log.dir();
        let off_limits = OffLimits::new(
            dir.iter()
                .flat_map(|dir| [Some(&**dir), dir.parent()])
                .flatten(),
        );
        let mut session = Session {
            agent,
            tools,
            rules,
            parts,
            state,
            snapshot,
            talk,
            feedback,
            off_limits,
            dir,
            shared: None,
            run,
        };
        if let Some(mut earlier) = earlier {
            earlier.retell(&mut session.talk);
        }
        let verdict = caught(session.steps_after_preflight())
            .await
            .unwrap_or_else(|text| {
                // Catches all remaining panics, so that no run is left open.
                let step = session.run.stats.last_step;
                StopVerdict::outside(Source::Error, Code::AgentFailed, step, text)
            });
        session.close(verdict).await
    }
}

/// Checks the agent's initial state against the limits.
///
/// Also returns two snapshots: one from before this engine's first step, against which the first
/// change is recorded, and one of the current state.
fn first_state<D: Serialize, S>(
    mut state: State<D>,
    rules: &StopSet<S>,
    goes_on: bool,
) -> Result<(State<D>, Snapshot, Snapshot), String> {
    let before = if goes_on {
        Some(Snapshot::of(&state).map_err(|wrong| wrong.to_string())?)
    } else {
        None
    };
    // Results of an earlier run don't belong to this run.
    state.stop_reason = None;
    state.final_result = None;
    match (
        state.max_steps,
        rules.budget().steps.map(|limit| limit.limit),
    ) {
        (Some(max), Some(steps)) if max < steps => {
            return Err(format!(
                "state.max_steps {max} is below the budget of {steps} steps; raise it, leave it out, or lower the budget"
            ));
        }
        (Some(max), None) => {
            return Err(format!(
                "state.max_steps is {max}, but no budget limits the steps; set the budget instead"
            ));
        }
        _ => {}
    }
    state.validate().map_err(|wrong| wrong.to_string())?;
    let snapshot = Snapshot::of(&state).map_err(|wrong| wrong.to_string())?;
    snapshot.check_names().map_err(|wrong| wrong.to_string())?;
    Ok((state, before.unwrap_or_else(|| snapshot.clone()), snapshot))
}

impl<A: Agent> Session<A> {
    async fn steps_after_preflight(&mut self) -> StopVerdict {
        match self.preflight().await {
            Some(refused) => refused,
            None => self.steps().await,
        }
    }

    /// Checks everything that must be right before the first step.
    async fn preflight(&mut self) -> Option<StopVerdict> {
        let workspace = self.parts.workspace.as_deref();
        let mut issues = self.run.task.issues(workspace);
        issues.extend(self.env_issues());
        let issue = issues
            .iter()
            .find(|issue| !issue.is_env())
            .or(issues.first());
        let refused = issue.map(|issue| {
            let code = if issue.is_env() {
                Code::EnvCapabilityMismatch
            } else {
                Code::TaskValidationFailed
            };
            let more = issues.len() - 1;
            let more = if more > 0 {
                format!(", and {more} more")
            } else {
                String::new()
            };
            StopVerdict::outside(
                Source::Preflight,
                code,
                None,
                format!("{}{more}", issue.message),
            )
        });
        self.run.issues = issues;
        if refused.is_some() {
            return refused;
        }
        // A resumed run already has its files.
        if !self.run.goes_on
            && let Err(issue) = stage(&self.run.task.resources, workspace)
        {
            let what = issue.message.clone();
            self.run.issues.push(issue);
            return Some(StopVerdict::outside(
                Source::Preflight,
                Code::TaskValidationFailed,
                None,
                what,
            ));
        }
        if let Some(env) = &mut self.parts.env {
            let reset = self
                .parts
                .cancel
                .guard(async { env.reset(&self.run.task).await })
                .await;
            let failed = match reset {
                Ok(done) => done.err().map(|error| error.to_string()),
                Err(Lost::Panicked(text)) => Some(text),
                // The first gate ends the run.
                Err(Lost::Cancelled) => None,
            };
            if let Some(wrong) = failed {
                let wrong = format!("the environment {} could not be reset: {wrong}", env.name());
                return Some(StopVerdict::outside(
                    Source::Preflight,
                    Code::EnvFailed,
                    None,
                    wrong,
                ));
            }
            match caught_now(|| env.shared()) {
                Ok(shared) => self.shared = shared,
                Err(text) => {
                    let wrong = format!(
                        "the environment {} could not be shared with tools: {text}",
                        env.name()
                    );
                    return Some(StopVerdict::outside(
                        Source::Preflight,
                        Code::EnvFailed,
                        None,
                        wrong,
                    ));
                }
            }
        }
        self.hear(|run, state| {
            Some(Moment::RunStart {
                task: &run.task,
                state,
            })
        });
        None
    }

    fn env_issues(&self) -> Vec<TaskIssue> {
        let env = self.parts.env.as_deref();
        let offered = env.map(|env| env.capabilities()).unwrap_or_default();
        let wanted = self.run.task.env_spec.as_ref();
        let mut issues = Vec::new();
        if let Some(name) = wanted.and_then(|wanted| wanted.kind.as_deref())
            && env.is_none_or(|env| env.name() != name)
        {
            let there = env.map_or_else(
                || "there is none".to_owned(),
                |env| format!("there is {}", env.name()),
            );
            let message = format!("the task needs the environment {name}; {there}");
            issues.push(TaskIssue::new("ENV_MISMATCH", "env_spec.type", message));
        }
        let task_needs = wanted.into_iter().flat_map(|wanted| &wanted.capabilities);
        let task_needs = task_needs.map(|need| ("the task".to_owned(), need.clone()));
        let tools = self.tools.needs();
        let tool_needs = tools.flat_map(|(tool, needs)| {
            needs
                .into_iter()
                .map(move |need| (format!("the tool {tool}"), need))
        });
        for (who, need) in task_needs
            .chain(tool_needs)
            .filter(|(_, need)| !offered.contains(need))
        {
            let (code, what) = match env {
                None => (
                    "ENV_REQUIRED_OPS_MISSING",
                    "there is no environment".to_owned(),
                ),
                Some(env) => (
                    "ENV_OPS_GROUP_MISSING",
                    format!("the environment {} does not offer it", env.name()),
                ),
            };
            issues.push(TaskIssue::new(
                code,
                "env_spec.capabilities",
                format!("{who} needs {need:?}; {what}"),
            ));
        }
        issues
    }

    async fn steps(&mut self) -> StopVerdict {
        let mut step = self.run.first;
        loop {
            if let Some(verdict) = self.step(step).await {
                return verdict;
            }
            step += 1;
        }
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
            (Wish::AfterStep, Gate::BeforeStep) if self.run.log.steps.is_empty() => {
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
            (Wish::Now, Gate::AfterStep) if facts.candidate => {
                facts.force(
                    gate,
                    Source::Cancel,
                    Code::CancelledAfterStep,
                    "cancelled after the final decision",
                );
            }
            (Wish::Now, _) => {
                facts.force(gate, Source::Cancel, Code::CancelledImmediate, "cancelled");
            }
        }
    }

    /// Writes an event and notifies the hooks.
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

    async fn close(mut self, verdict: StopVerdict) -> RunResult<A::Data> {
        for hook in &mut self.parts.hooks {
            let _ = caught_now(|| hook.on(&Moment::RunEnd { verdict: &verdict }));
        }
        self.state.stop_reason = Some(verdict.stop_reason.clone());
        if verdict.outcome != Outcome::Completed
            && verdict.source != Source::Agent
            && let Some(answer) = self.state.final_result.take()
        {
            self.run.last_text = Some(answer);
        }
        let result = self.run.close(Some(self.state), verdict);
        if let Some(mut env) = self.parts.env {
            // The run is already closed. A failed cleanup doesn't change its verdict.
            let _ = tokio::time::timeout(CLOSE, caught(async { env.close().await })).await;
        }
        result
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

    /// Continues from the end of the earlier part of a run.
    fn take_up(&mut self, earlier: &mut Earlier, stats: Stats) {
        self.log = Log::new(earlier.writer());
        self.carried = Duration::from_millis(earlier.elapsed_ms);
        self.stats = Stats {
            elapsed_ms: Some(earlier.elapsed_ms),
            ..stats
        };
        self.failures = std::mem::take(&mut earlier.failures);
        self.last = std::mem::take(&mut earlier.last);
        self.lost = earlier.lost;
        self.last_text = earlier.last_text.take();
        (self.first, self.goes_on) = (earlier.steps(), true);
    }

    /// Writes the end and returns the result.
    fn close<D>(mut self, state: Option<State<D>>, verdict: StopVerdict) -> RunResult<D> {
        let took = Duration::from_millis(self.stats.elapsed_ms.unwrap_or_else(|| self.ms()));
        let answer = state
            .as_ref()
            .and_then(|state| state.final_result.as_deref());
        let told = |words: &str| {
            state
                .as_ref()
                .map(|state| state.criterion(words))
                .unwrap_or_default()
        };
        let task = TaskResult::new(&self.task, &verdict, answer, told, took, &self.stats);
        #[derive(Serialize)]
        struct End<'a> {
            stop_reason: &'a str,
            stop: &'a StopVerdict,
            /// The facts of a step that only reached its first gate.
            #[serde(skip_serializing_if = "Option::is_none")]
            facts: Option<&'a StepFacts>,
            #[serde(skip_serializing_if = "<[_]>::is_empty")]
            issues: &'a [TaskIssue],
            /// The last text, if no answer was accepted.
            #[serde(skip_serializing_if = "Option::is_none")]
            last_text: Option<&'a str>,
        }
        let mut last_text = self
            .last_text
            .clone()
            .filter(|_| task.final_result.is_none());
        if let Some(text) = &mut last_text {
            clip(text, MAX_LAST_TEXT_BYTES);
        }
        let payload = End {
            stop_reason: &verdict.stop_reason,
            stop: &verdict,
            facts: self.unwritten.as_ref(),
            issues: &self.issues,
            last_text: last_text.as_deref(),
        };
        let step = verdict.step.unwrap_or(0);
        // As in QitOS: not ok if something failed or was cancelled, but the error is only recorded
        // where it happened.
        let ok = !matches!(verdict.outcome, Outcome::Failed | Outcome::Cancelled);
        self.log.event(
            Event {
                ok,
                ..Event::new(step, "END", "", payload)
            },
            || self.clock.now_us(),
        );
        let ts = self.clock.now_us();
        self.log
            .finish(|| ending(&verdict, &task, &self.failures.report, took, ts));
        RunResult {
            step_count: self.stats.steps,
            trace: self.log.dir(),
            trace_error: self.log.broken.take(),
            steps: std::mem::take(&mut self.log.steps),
            events: std::mem::take(&mut self.log.events),
            last_text: self.last_text,
            stats: self.stats,
            verdict,
            state,
            task,
        }
    }
}
