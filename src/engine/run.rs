//! Runs a task to its verdict: starts the run, checks it, executes the steps, and closes it in all
//! cases.

use std::io;
use std::time::Duration;

use serde::Serialize;
use serde_json::{Value, json};

use super::agent::{Agent, AgentError};
use super::builder::Engine;
use super::cancel::{Lost, caught, caught_now};
use super::clock::SystemClock;
use super::earlier::{Earlier, Spent};
use super::hook::Moment;
use super::log::{Event, Log};
use super::off_limits::OffLimits;
use super::recorder::{Opening, ending};
use super::recovery::Failures;
use super::result::{RunResult, TaskResult};
use super::session::{Run, Session};
use super::staging::stage;
use super::state::{Snapshot, State};
use super::talk::Conversation;
use super::task::{Task, TaskIssue};
use super::toolbox::clip;
use crate::error::{Error, Kind, Result};
use crate::stop::{Budget, Code, Origin, Outcome, Source, Stats, StepFacts, StopSet, StopVerdict};
use crate::trace::UNKNOWN_TIME;

/// Maximum length of the last text in the END event, in bytes. The text's step has all of it.
const MAX_LAST_TEXT_BYTES: usize = 16 << 10;
/// Time limit for the environment's cleanup.
const CLOSE: Duration = Duration::from_secs(10);

impl<A: Agent> Engine<A> {
    /// Runs the task to its end. Every failure, including failures of the agent, a critic or the
    /// disk, becomes the verdict of the result. An engine runs only once, so that no counters carry
    /// over to another run.
    pub async fn run(self, task: impl Into<Task>) -> RunResult<A::Data> {
        self.play(task.into(), None).await
    }

    /// Resumes a run from its trace, with its task, state, conversation, counters and time.
    ///
    /// The rules and limits are this engine's, and count from the start of the run: after three
    /// steps, `max_steps(5)` leaves two. The environment is reset. Files stay as they are.
    ///
    /// The run is recorded in its own directory, so the engine must not have a
    /// [`Builder::record`](super::Builder::record).
    ///
    /// # Errors
    /// Fails if the engine has a writer, the run belongs to an agent with another name, the state
    /// doesn't fit this agent, or the agent can't resume. Nothing is written then. A branch may use
    /// another agent.
    pub async fn resume(mut self, mut earlier: Earlier) -> Result<RunResult<A::Data>> {
        earlier.check(self.agent.name(), self.parts.writer.as_ref())?;
        let state = earlier.state::<A::Data>(self.agent.name())?;
        let agent = &mut self.agent;
        let heard = caught_now(|| agent.resume(&earlier.task, &state))
            .map_err(AgentError::fatal)
            .flatten();
        heard.map_err(|error| {
            Error::new(Kind::Usage, "the agent can't resume this run")
                .because(io::Error::other(error.message))
        })?;
        let task = std::mem::take(&mut earlier.task);
        Ok(self.play(task, Some((state, earlier))).await)
    }

    /// Checks that this engine can resume the run, without writing anything.
    pub(crate) fn check(&self, earlier: &Earlier) -> Result<()> {
        earlier.check(self.agent.name(), self.parts.writer.as_ref())?;
        earlier.state::<A::Data>(self.agent.name()).map(drop)
    }

    async fn play(
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
        parts.limit_judging(rules.budget());
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
            stats: Stats::default(),
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
            open_step: None,
            spent: Spent::default(),
            asking: None,
            task,
        };
        let resumed = earlier.as_ref().map(Earlier::told);
        let mut feedback = Vec::new();
        let begun_at = run.clock.now_us();
        let mut started_at = begun_at;
        let mut branched_from = Value::Null;
        if let Some(earlier) = &mut earlier {
            run.take_up(earlier, rules.carried(&earlier.facts));
            feedback = std::mem::take(&mut earlier.feedback);
            // A branch begins now. The start of a resumed run may be unknown.
            if earlier.parent().is_none() {
                started_at = earlier.started_at.unwrap_or(UNKNOWN_TIME);
            }
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
        // A state that is refused is part of the result, too.
        let mut refused = None;
        let made = made
            .map_err(|panic| (Code::AgentFailed, panic))
            .and_then(|made| {
                let mut state = made.map_err(|error| (Code::AgentFailed, error.message))?;
                let checked =
                    caught_now(|| first_state(&mut state, &run.task, &mut rules, run.goes_on))
                        .map_err(|panic| (Code::AgentFailed, panic))
                        .and_then(|checked| {
                            checked.map_err(|wrong| (Code::TaskValidationFailed, wrong))
                        });
                match checked {
                    Ok((before, snapshot)) => Ok((state, before, snapshot)),
                    Err(wrong) => {
                        refused = Some(state);
                        Err(wrong)
                    }
                }
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
            record_process: parts.record_process,
            env: parts.env.as_deref().map(|env| env.name()),
            guards: parts.guards.iter().map(|guard| guard.name()).collect(),
            started_at,
            parent: parts.parent.as_deref(),
            branched_from,
            metadata: &parts.metadata,
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
        // The events begin with the run's clock, before the first files are written.
        run.log
            .event(Event::new(run.first, "INIT", "", payload), || begun_at);
        run.log.flush();
        let (state, snapshot, _) = match made {
            Ok(made) => made,
            Err((code, wrong)) => {
                let verdict = StopVerdict::outside(Source::Preflight, code, None, wrong);
                return run.close(refused, verdict);
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

/// Completes the agent's initial state and checks it. Its step limit counts if it's below that of
/// the rules.
///
/// Returns two snapshots: one from before this engine's first step, against which the first change
/// is recorded, and one of the current state.
fn first_state<D: Serialize, S>(
    state: &mut State<D>,
    task: &Task,
    rules: &mut StopSet<S>,
    goes_on: bool,
) -> std::result::Result<(Snapshot, Snapshot), String> {
    let before = if goes_on {
        Some(Snapshot::of(state).map_err(|wrong| wrong.to_string())?)
    } else {
        state.task.clone_from(&task.objective);
        None
    };
    // Results of an earlier run don't belong to this run.
    state.stop_reason = None;
    state.final_result = None;
    state.validate().map_err(|wrong| wrong.to_string())?;
    let budget = rules.budget().steps;
    if let Some(own) = state
        .max_steps
        .filter(|own| budget.is_none_or(|budget| *own < budget.limit))
    {
        rules.limit(Budget::default().steps(own, Origin::State));
    }
    let snapshot = Snapshot::of(state).map_err(|wrong| wrong.to_string())?;
    snapshot.check_names().map_err(|wrong| wrong.to_string())?;
    Ok((before.unwrap_or_else(|| snapshot.clone()), snapshot))
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
                format!(" ({more} more problem{})", if more == 1 { "" } else { "s" })
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
                    format!("the environment {} doesn't offer it", env.name()),
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

    async fn close(mut self, verdict: StopVerdict) -> RunResult<A::Data> {
        for hook in &mut self.parts.hooks {
            let _ = caught_now(|| hook.on(&Moment::RunEnd { verdict: &verdict }));
        }
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
    fn close<D>(mut self, mut state: Option<State<D>>, verdict: StopVerdict) -> RunResult<D> {
        if let Some(state) = &mut state {
            state.stop_reason = Some(verdict.stop_reason.clone());
        }
        let task = self.end(state.as_ref(), &verdict);
        RunResult {
            step_count: task.metrics.steps,
            trace: self.log.dir(),
            trace_error: self.log.broken.take(),
            steps: std::mem::take(&mut self.log.steps),
            events: std::mem::take(&mut self.log.events),
            last_text: self.last_text.take(),
            stats: std::mem::take(&mut self.stats),
            verdict,
            state,
            task,
        }
    }

    /// Writes the end.
    fn end<D>(&mut self, state: Option<&State<D>>, verdict: &StopVerdict) -> TaskResult {
        let took = Duration::from_millis(self.stats.elapsed_ms.unwrap_or_else(|| self.ms()));
        let answer = state.and_then(|state| state.final_result.as_deref());
        let told = |words: &str| {
            state
                .map(|state| state.criterion(words))
                .unwrap_or_default()
        };
        let steps = self.first + self.log.steps.len() as u64;
        let task = TaskResult::new(&self.task, verdict, answer, told, took, steps, &self.stats);
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
            stop: verdict,
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
            .finish(|| ending(verdict, &task, &self.failures, took, ts));
        task
    }
}

impl Drop for Run {
    /// Closes the run as cancelled if its future is dropped, for example by a timeout. The step in
    /// progress has no line, but its tokens and its time count.
    fn drop(&mut self) {
        if !self.log.is_open {
            return;
        }
        self.stats.elapsed_ms = Some(self.ms());
        let mut spent = self.spent;
        if let Some(asking) = self.asking.take().filter(|asking| asking.has_begun()) {
            spent.usage = spent.usage.plus(asking.usage());
            spent.cost_usd = None;
        }
        if let Some(step) = self.open_step.filter(|_| spent != Spent::default()) {
            self.stats
                .add_unfinished(step, spent.usage, spent.cost_usd, spent.cost_estimated);
        }
        let verdict = StopVerdict::outside(
            Source::Cancel,
            Code::CancelledImmediate,
            self.open_step
                .or(self.log.steps.last().map(|last| last.step)),
            "the run was dropped before it ended",
        );
        self.end::<()>(None, &verdict);
    }
}
