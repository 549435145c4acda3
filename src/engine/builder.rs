//! What is an engine made of? An agent and everything that attaches to it, checked before anything runs.

use std::collections::BTreeSet;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use super::agent::Agent;
use super::cancel::Cancel;
use super::chat::{ChatModel, DynModel};
use super::clock::Clock;
use super::critic::{Critic, DynCritic};
use super::decision::{First, Selector};
use super::env::{DynEnv, Env};
use super::guard::{DynGuard, DynPerson, Guard, Person};
use super::history::{HistoryPolicy, Keep};
use super::hook::Hook;
use super::parse::Parser;
use super::recovery::{Recovery, RecoverySteps};
use super::state::State;
use super::tool::Tool;
use super::toolbox::Toolbox;
use crate::error::{Error, Kind, Result};
use crate::model::price::Prices;
use crate::stop::{Budget, Origin, Pause, SpecError, Stats, StopSet, StopSetBuilder, StopSpec};
use crate::trace::RunWriter;

/// The step budget of an engine that is given none, as in QitOS.
pub const DEFAULT_STEPS: u64 = 10;

/// Runs an agent once. Made by [`Engine::builder`].
pub struct Engine<A: Agent> {
    pub(super) agent: A,
    pub(super) tools: Toolbox,
    pub(super) rules: StopSet<State<A::Data>>,
    pub(super) parts: Parts<A::Data>,
}

/// What attaches to an engine.
pub(super) struct Parts<D> {
    pub(super) critics: Vec<Box<dyn DynCritic<D>>>,
    pub(super) env: Option<Box<dyn DynEnv>>,
    pub(super) guards: Vec<Box<dyn DynGuard<D>>>,
    pub(super) person: Option<Box<dyn DynPerson>>,
    pub(super) hooks: Vec<Box<dyn Hook<D>>>,
    pub(super) model: Option<Box<dyn DynModel>>,
    pub(super) parser: Option<Box<dyn Parser>>,
    pub(super) history: Box<dyn HistoryPolicy>,
    pub(super) recovery: Box<dyn Recovery>,
    pub(super) selector: Box<dyn Selector>,
    pub(super) signature: Option<Signature<D>>,
    pub(super) clock: Option<Box<dyn Clock>>,
    pub(super) seed: Option<u64>,
    pub(super) cancel: Cancel,
    pub(super) hard_timeout: Option<Duration>,
    pub(super) resumed: Option<Stats>,
    pub(super) workspace: Option<PathBuf>,
    pub(super) writer: Option<RunWriter>,
    pub(super) process: Option<Process>,
    pub(super) parent: Option<String>,
    pub(super) prices: Prices,
    pub(super) on_text: Box<dyn Fn(&str) + Send + Sync>,
}

/// The process that writes a trace, so that a reader can see whether it is still there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Process {
    /// Its number.
    pub pid: u32,
    /// The machine's name, where it is known.
    pub host: Option<String>,
}

impl Process {
    /// This process.
    pub fn this() -> Self {
        Self {
            pid: std::process::id(),
            host: crate::trace::host_name(),
        }
    }
}

/// A hash of a state for the stagnation rule.
pub(super) type Signature<D> = Box<dyn Fn(&State<D>) -> u64 + Send + Sync>;

impl<A: Agent> fmt::Debug for Engine<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine")
            .field("agent", &self.agent.name())
            .field("tools", &self.tools)
            .finish_non_exhaustive()
    }
}

impl<A: Agent> Engine<A> {
    /// Begins an engine for `agent`.
    pub fn builder(agent: A) -> Builder<A> {
        Builder {
            tools: Toolbox::default(),
            rules: StopSet::builder(),
            budget: Budget::default(),
            wrong: Vec::new(),
            no_step_limit: false,
            fail_closed: false,
            parts: Parts {
                critics: Vec::new(),
                env: None,
                guards: Vec::new(),
                person: None,
                hooks: Vec::new(),
                model: None,
                parser: None,
                history: Box::new(Keep::default()),
                recovery: Box::new(RecoverySteps::default()),
                selector: Box::new(First),
                signature: None,
                clock: None,
                seed: None,
                cancel: Cancel::new(),
                hard_timeout: None,
                resumed: None,
                workspace: None,
                writer: None,
                process: Some(Process::this()),
                parent: None,
                prices: Prices::default(),
                on_text: Box::new(|_| ()),
            },
            agent,
        }
    }
}

/// Puts an [`Engine`] together.
pub struct Builder<A: Agent> {
    agent: A,
    tools: Toolbox,
    rules: StopSetBuilder<State<A::Data>>,
    budget: Budget,
    no_step_limit: bool,
    fail_closed: bool,
    wrong: Vec<String>,
    parts: Parts<A::Data>,
}

impl<A: Agent> fmt::Debug for Builder<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder")
            .field("agent", &self.agent.name())
            .field("tools", &self.tools)
            .finish_non_exhaustive()
    }
}

impl<A: Agent> Builder<A> {
    /// Adds a tool.
    #[must_use]
    pub fn tool(mut self, tool: impl Tool + 'static) -> Self {
        self.wrong.extend(self.tools.add(tool).err());
        self
    }

    /// Adds a critic; critics are heard in order.
    #[must_use]
    pub fn critic(mut self, critic: impl Critic<A::Data> + 'static) -> Self {
        self.parts.critics.push(Box::new(critic));
        self
    }

    /// Adds a guard; guards are asked in order before each call.
    #[must_use]
    pub fn guard(mut self, guard: impl Guard<A::Data> + 'static) -> Self {
        self.parts.guards.push(Box::new(guard));
        self
    }

    /// Sets who is asked where a guard wants a person to decide; without one the answer is no. The wait counts as time of
    /// the run; where its time is limited, by a budget, a rule or the hard timeout, no answer by then is none.
    #[must_use]
    pub fn person(mut self, person: impl Person + 'static) -> Self {
        self.parts.person = Some(Box::new(person));
        self
    }

    /// Sets the environment.
    #[must_use]
    pub fn env(mut self, env: impl Env + 'static) -> Self {
        self.parts.env = Some(Box::new(env));
        self
    }

    /// Adds a hook.
    #[must_use]
    pub fn hook(mut self, hook: impl Hook<A::Data> + 'static) -> Self {
        self.parts.hooks.push(Box::new(hook));
        self
    }

    /// Sets the model that decides where the agent does not. Without one, an agent whose [`Agent::decide`] decides nothing
    /// fails its first step, and the run ends as `recovery_exhausted`.
    #[must_use]
    pub fn model(mut self, model: impl ChatModel + 'static) -> Self {
        self.parts.model = Some(Box::new(model));
        self
    }

    /// Has decisions written as text and read by `parser`. Without one the model calls tools natively, and a reply of
    /// text alone is its answer.
    #[must_use]
    pub fn parser(mut self, parser: impl Parser + 'static) -> Self {
        self.parts.parser = Some(Box::new(parser));
        self
    }

    /// Says what of the conversation goes into a request: [`Keep`], or a policy of one's own.
    #[must_use]
    pub fn history(mut self, policy: impl HistoryPolicy + 'static) -> Self {
        self.parts.history = Box::new(policy);
        self
    }

    /// Says when a run goes on after a failed step.
    #[must_use]
    pub fn recovery(mut self, recovery: impl Recovery + 'static) -> Self {
        self.parts.recovery = Box::new(recovery);
        self
    }

    /// Says which candidate of a branch is taken; the first, if nobody says.
    #[must_use]
    pub fn selector(mut self, selector: impl Selector + 'static) -> Self {
        self.parts.selector = Box::new(selector);
        self
    }

    /// Adds a stop rule: one that accepts answers to the completion list, any other to the policies. A rule is a struct of
    /// [`stop`](crate::stop), or is read from its short form or JSON; [`Builder::rules`] takes those in code.
    ///
    /// ```
    /// # use trace_board::engine::{Agent, Builder};
    /// use trace_board::stop::{MaxCost, StopSpec};
    /// # fn limited<A: Agent>(builder: Builder<A>) -> Result<Builder<A>, Box<dyn std::error::Error>> {
    /// let builder = builder.stop(MaxCost { usd: 1.0 }).stop("loop_detection=3".parse::<StopSpec>()?);
    /// # Ok(builder)
    /// # }
    /// ```
    #[must_use]
    pub fn stop(self, rule: impl Into<StopSpec>) -> Self {
        let spec = rule.into();
        self.rules(|rules| {
            if spec.is_completion() {
                rules.accept(spec)
            } else {
                rules.policy(spec)
            }
        })
    }

    /// Adds stop rules of every kind, in code too.
    #[must_use]
    pub fn rules(
        mut self,
        add: impl FnOnce(StopSetBuilder<State<A::Data>>) -> StopSetBuilder<State<A::Data>>,
    ) -> Self {
        self.rules = add(self.rules);
        self
    }

    /// Sets limits, field by field; a task's go before them. Without a limit of steps there are ten. [`Origin`] is who is
    /// named in the verdict.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use trace_board::engine::{Agent, Builder};
    /// use trace_board::stop::{Budget, Origin};
    /// # fn limited<A: Agent>(builder: Builder<A>) -> Builder<A> {
    /// let limits = Budget::default().time(Duration::from_secs(60), Origin::Cli).tokens(50_000, Origin::Cli);
    /// builder.budget(limits)
    /// # }
    /// ```
    #[must_use]
    pub fn budget(mut self, budget: Budget) -> Self {
        self.budget = self.budget.overridden_by(budget);
        self
    }

    /// Limits the steps; shorthand for [`Builder::budget`].
    #[must_use]
    pub fn max_steps(self, steps: u64) -> Self {
        self.budget(Budget::default().steps(steps, Origin::Engine))
    }

    /// Limits the time; shorthand for [`Builder::budget`].
    #[must_use]
    pub fn max_runtime(self, limit: Duration) -> Self {
        self.budget(Budget::default().time(limit, Origin::Engine))
    }

    /// Limits the tokens, sent and received; shorthand for [`Builder::budget`].
    #[must_use]
    pub fn max_tokens(self, tokens: u64) -> Self {
        self.budget(Budget::default().tokens(tokens, Origin::Engine))
    }

    /// Lets the run go on until something else ends it.
    #[must_use]
    pub fn no_step_limit(mut self) -> Self {
        self.no_step_limit = true;
        self
    }

    /// Takes a pattern that does not compile and lets the run stop at it, instead of refusing to be built: for rules
    /// from a file that is already in use.
    #[must_use]
    pub fn fail_closed(mut self) -> Self {
        self.fail_closed = true;
        self
    }

    /// Sets what counts as a change of state for the stagnation rule; everything but the step counter and the metrics,
    /// if nobody says.
    #[must_use]
    pub fn signature(
        mut self,
        signature: impl Fn(&State<A::Data>) -> u64 + Send + Sync + 'static,
    ) -> Self {
        self.parts.signature = Some(Box::new(signature));
        self
    }

    /// Sets the clock.
    #[must_use]
    pub fn clock(mut self, clock: impl Clock + 'static) -> Self {
        self.parts.clock = Some(Box::new(clock));
        self
    }

    /// Sets the seed that agents are given, and records it.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.parts.seed = Some(seed);
        self
    }

    /// Sets the handle that ends the run from outside.
    #[must_use]
    pub fn cancel(mut self, cancel: Cancel) -> Self {
        self.parts.cancel = cancel;
        self
    }

    /// Ends the run after this time whatever is under way, which is dropped, the judging of an answer included. Off by
    /// default. The time of the budget ends what decides and acts as well, but lets critics judge an answer that is
    /// there; rules of time wait for a gate, and no person is waited for longer than they allow.
    #[must_use]
    pub fn hard_timeout(mut self, limit: Duration) -> Self {
        self.parts.hard_timeout = Some(limit);
        self
    }

    /// Goes on from the counters of an earlier run; says what the time between the two is worth.
    #[must_use]
    pub fn resume(mut self, stats: Stats, pause: Pause) -> Self {
        self.parts.resumed = Some(stats.resumed(pause));
        self
    }

    /// Sets the directory of the task's files.
    #[must_use]
    pub fn workspace(mut self, dir: impl Into<PathBuf>) -> Self {
        self.parts.workspace = Some(dir.into());
        self
    }

    /// Sets what models take for their tokens: the cost of a reply that does not say it is then estimated.
    #[must_use]
    pub fn prices(mut self, prices: Prices) -> Self {
        self.parts.prices = prices;
        self
    }

    /// Records the run. [`Engine::go_on`] records by itself and refuses an engine with this.
    #[must_use]
    pub fn record(mut self, writer: RunWriter) -> Self {
        self.parts.writer = Some(writer);
        self
    }

    /// Says which run started this one; the board links the two. [`SubAgent`](super::SubAgent) does so.
    #[must_use]
    pub fn parent(mut self, run_id: impl Into<String>) -> Self {
        self.parts.parent = Some(run_id.into());
        self
    }

    /// Sets which process is recorded; `None` for traces that shall be the same each time.
    #[must_use]
    pub fn process(mut self, process: Option<Process>) -> Self {
        self.parts.process = process;
        self
    }

    /// Hears the model's text as it comes, from models that stream.
    #[must_use]
    pub fn on_text(mut self, on_text: impl Fn(&str) + Send + Sync + 'static) -> Self {
        self.parts.on_text = Box::new(on_text);
        self
    }

    /// Makes the engine.
    ///
    /// # Errors
    /// Two tools or critics with one name, a rule that cannot be used, rules with one id.
    pub fn build(mut self) -> Result<Engine<A>> {
        let mut names = BTreeSet::new();
        for critic in &self.parts.critics {
            if !names.insert(critic.name().to_owned()) {
                self.wrong
                    .push(format!("there are two critics called {:?}", critic.name()));
            }
        }
        if !self.wrong.is_empty() {
            let wrong = self.wrong.join("; ");
            let hint = "give every tool and every critic a name of its own";
            return Err(
                Error::new(Kind::Usage, format!("the engine cannot be built: {wrong}")).hint(hint),
            );
        }
        let mut budget = self.budget;
        if budget.steps.is_none() && !self.no_step_limit {
            budget = budget.steps(DEFAULT_STEPS, Origin::Default);
        }
        let rules = self.rules.budget(budget);
        let rules = if self.fail_closed {
            rules.build_fail_closed()
        } else {
            rules.build()
        };
        let rules = rules.map_err(|wrong: SpecError| {
            Error::new(Kind::Usage, "a stop rule cannot be used")
                .because(wrong)
                .hint("rules are written as in max_steps=8, or as JSON; the table of rules is in the stop module")
        })?;
        Ok(Engine {
            agent: self.agent,
            tools: self.tools,
            rules,
            parts: self.parts,
        })
    }
}
