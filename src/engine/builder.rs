//! Builds an engine from an agent and its parts, and checks them before anything runs.

use std::collections::BTreeSet;
use std::fmt;
use std::future::Future;
use std::path::PathBuf;
use std::time::Duration;

use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::agent::Agent;
use super::cancel::Cancel;
use super::chat::{ChatModel, DynModel};
use super::clock::Clock;
use super::critic::{Critic, CriticCx, CriticError, DynCritic, FnCritic, Opinion};
use super::decision::{First, Selector};
use super::env::{DynEnv, Env};
use super::fn_tool::FnTool;
use super::guard::{DynGuard, DynPerson, FnGuard, Guard, GuardCx, Pass, Person};
use super::history::{HistoryPolicy, Keep};
use super::hook::{FnHook, Hook, Moment};
use super::parse::Parser;
use super::recovery::{Recovery, RecoverySteps};
use super::state::State;
use super::tool::{Tool, ToolError};
use super::toolbox::Toolbox;
use crate::error::{Error, Kind, Result};
use crate::model::price::Prices;
use crate::stop::{
    Budget, Limit, MaxCost, Origin, RuleEntry, SpecError, StopSet, StopSetBuilder, StopSpec,
};
use crate::trace::RunWriter;

/// The default step budget, as in QitOS.
pub(super) const DEFAULT_STEPS: u64 = 10;

/// Runs an agent once. Created by [`Engine::builder`].
pub struct Engine<A: Agent> {
    pub(super) agent: A,
    pub(super) tools: Toolbox,
    pub(super) rules: StopSet<State<A::Data>>,
    pub(super) parts: Parts<A::Data>,
}

/// The parts of an engine.
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
    pub(super) workspace: Option<PathBuf>,
    pub(super) writer: Option<RunWriter>,
    pub(super) record_process: bool,
    pub(super) parent: Option<String>,
    pub(super) metadata: Map<String, Value>,
    pub(super) prices: Prices,
    pub(super) on_text: Box<dyn Fn(&str) + Send + Sync>,
}

impl<D> Parts<D> {
    /// Limits how long an answer may be judged after the run's time is over.
    pub(super) fn limit_judging(&mut self, budget: Budget) {
        let is_real = self.clock.as_ref().is_none_or(|clock| clock.is_real());
        let twice = |limit: Limit| Duration::from_millis(limit.limit.saturating_mul(2));
        self.hard_timeout = self
            .hard_timeout
            .or(budget.time_ms.filter(|_| is_real).map(twice));
    }
}

/// Hashes a state for the stagnation rule.
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
    /// Returns a builder for an engine that runs `agent`.
    pub fn builder(agent: A) -> Builder<A> {
        Builder {
            tools: Toolbox::default(),
            rules: StopSet::builder(),
            budget: Budget::default(),
            limits_from: Origin::Engine,
            max_cost: None,
            wrong: Vec::new(),
            no_step_limit: false,
            fail_closed: false,
            record_in: None,
            wrong_rule: None,
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
                workspace: None,
                writer: None,
                record_process: true,
                parent: None,
                metadata: Map::new(),
                prices: Prices::default(),
                on_text: Box::new(|_| ()),
            },
            agent,
        }
    }
}

/// Builds an [`Engine`].
pub struct Builder<A: Agent> {
    agent: A,
    tools: Toolbox,
    rules: StopSetBuilder<State<A::Data>>,
    budget: Budget,
    limits_from: Origin,
    max_cost: Option<f64>,
    no_step_limit: bool,
    fail_closed: bool,
    record_in: Option<PathBuf>,
    /// The first rule that can't be parsed.
    wrong_rule: Option<SpecError>,
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

    /// Adds a tool made from an `async` function or closure. Shorthand for
    /// [`tool`](Self::tool) with [`FnTool::new`]. [`FnTool`] also takes functions that block, and its
    /// documentation shows a closure that uses values from outside.
    ///
    /// ```
    /// # use trace_board::engine::{Agent, Builder};
    /// #[derive(serde::Deserialize, schemars::JsonSchema)]
    /// struct Sum {
    ///     numbers: Vec<i64>,
    /// }
    ///
    /// # fn with_tool<A: Agent>(builder: Builder<A>) -> Builder<A> {
    /// builder.tool_fn("add", "Adds numbers.", async |sum: Sum| Ok(sum.numbers.iter().sum::<i64>()))
    /// # }
    /// ```
    #[must_use]
    pub fn tool_fn<Args, Output, Done>(
        self,
        name: impl Into<String>,
        description: impl Into<String>,
        function: impl Fn(Args) -> Done + Send + Sync + 'static,
    ) -> Self
    where
        Args: DeserializeOwned + JsonSchema + Send,
        Output: Serialize + Send,
        Done: Future<Output = Result<Output, ToolError>> + Send + 'static,
    {
        self.tool(FnTool::new(name, description, function))
    }

    /// Adds a critic. Critics are called in order.
    #[must_use]
    pub fn critic(mut self, critic: impl Critic<A::Data> + 'static) -> Self {
        self.parts.critics.push(Box::new(critic));
        self
    }

    /// Adds a critic made from a closure:
    ///
    /// ```
    /// # use trace_board::engine::{Agent, Builder};
    /// use trace_board::engine::Opinion;
    /// # fn with_critic<A: Agent>(builder: Builder<A>) -> Builder<A> {
    /// builder.critic_fn("numbers", |step| Ok(match step.answer() {
    ///     Some(answer) if !answer.contains(char::is_numeric) => Opinion::retry("Give a number."),
    ///     _ => Opinion::proceed(""),
    /// }))
    /// # }
    /// ```
    #[must_use]
    pub fn critic_fn(
        self,
        name: impl Into<String>,
        judge: impl Fn(CriticCx<'_, A::Data>) -> Result<Opinion, CriticError> + Send + Sync + 'static,
    ) -> Self {
        let name = name.into();
        self.critic(FnCritic { name, judge })
    }

    /// Adds a guard. Guards are called in order before each tool call.
    #[must_use]
    pub fn guard(mut self, guard: impl Guard<A::Data> + 'static) -> Self {
        self.parts.guards.push(Box::new(guard));
        self
    }

    /// Adds a guard made from a closure:
    ///
    /// ```
    /// # use trace_board::engine::{Agent, Builder};
    /// use trace_board::engine::Pass;
    /// # fn with_guard<A: Agent>(builder: Builder<A>) -> Builder<A> {
    /// builder.guard_fn("careful", |call| Ok(match call.tool {
    ///     "delete" => Pass::Deny("nothing may be deleted".to_owned()),
    ///     _ => Pass::Allow,
    /// }))
    /// # }
    /// ```
    #[must_use]
    pub fn guard_fn(
        self,
        name: impl Into<String>,
        judge: impl Fn(GuardCx<'_, A::Data>) -> Result<Pass, String> + Send + Sync + 'static,
    ) -> Self {
        let name = name.into();
        self.guard(FnGuard { name, judge })
    }

    /// Sets the person to ask if a guard requires approval. Without a person, the call is denied.
    /// Waiting counts as run time. If a limit or a rule ends the run before the person answers, the
    /// call is denied.
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

    /// Adds a hook made from a closure:
    ///
    /// ```
    /// # use trace_board::engine::{Agent, Builder};
    /// use trace_board::engine::Moment;
    /// # fn with_hook<A: Agent>(builder: Builder<A>) -> Builder<A> {
    /// builder.hook_fn("prints", |moment| {
    ///     if let Moment::Call { step, action } = moment {
    ///         println!("step {step} calls {}", action.name);
    ///     }
    ///     Ok(())
    /// })
    /// # }
    /// ```
    #[must_use]
    pub fn hook_fn(
        self,
        name: impl Into<String>,
        on: impl FnMut(&Moment<'_, A::Data>) -> Result<(), String> + Send + 'static,
    ) -> Self {
        let name = name.into();
        self.hook(FnHook { name, on })
    }

    /// Sets the model, which decides if the agent doesn't. Without a model, an agent whose
    /// [`Agent::decide`] returns `None` fails its first step, and the run ends as
    /// `step_failed`.
    #[must_use]
    pub fn model(mut self, model: impl ChatModel + 'static) -> Self {
        self.parts.model = Some(Box::new(model));
        self
    }

    /// Sets a parser for decisions that the model writes as text. Without a parser, the model calls
    /// tools natively, and a reply without calls is its answer.
    #[must_use]
    pub fn parser(mut self, parser: impl Parser + 'static) -> Self {
        self.parts.parser = Some(Box::new(parser));
        self
    }

    /// Sets how much of the conversation to send: a [`Keep`] or a custom policy.
    #[must_use]
    pub fn history(mut self, policy: impl HistoryPolicy + 'static) -> Self {
        self.parts.history = Box::new(policy);
        self
    }

    /// Sets when a run continues after a failed step.
    #[must_use]
    pub fn recovery(mut self, recovery: impl Recovery + 'static) -> Self {
        self.parts.recovery = Box::new(recovery);
        self
    }

    /// Sets which candidate of a branch to choose. The default is the first.
    #[must_use]
    pub fn selector(mut self, selector: impl Selector + 'static) -> Self {
        self.parts.selector = Box::new(selector);
        self
    }

    /// Adds a stop rule: one of the structs in [`stop`](crate::stop), or a rule in its short form.
    /// Rules that accept answers go to the completion list, all others to the policies. For custom
    /// rules, see [`Builder::rules`].
    ///
    /// ```
    /// # use trace_board::engine::{Agent, Builder};
    /// use trace_board::stop::Keyword;
    /// # fn ruled<A: Agent>(builder: Builder<A>) -> Builder<A> {
    /// builder.stop("loop_detection=3").stop(Keyword { keyword: "DONE".to_owned() })
    /// # }
    /// ```
    ///
    /// To limit steps, time, tokens or the cost, use [`max_steps`](Self::max_steps),
    /// [`max_runtime`](Self::max_runtime), [`max_tokens`](Self::max_tokens) and
    /// [`max_cost`](Self::max_cost). The rules that count the same (`max_steps`, `max_rounds`,
    /// `max_runtime`, `timeout`, `token_budget`, `max_cost`) are for agent files, for what-if, and for
    /// lists of rules from other engines.
    #[must_use]
    pub fn stop<R>(mut self, rule: R) -> Self
    where
        R: TryInto<StopSpec>,
        SpecError: From<R::Error>,
    {
        match rule.try_into() {
            Ok(rule) => self.rules = self.rules.rule(rule),
            Err(wrong) => {
                self.wrong_rule.get_or_insert(wrong.into());
            }
        }
        self
    }

    /// Adds stop rules of every kind, including custom rules and those of a record. The limits of
    /// this builder override a record's.
    #[must_use]
    pub fn rules(
        mut self,
        add: impl FnOnce(StopSetBuilder<State<A::Data>>) -> StopSetBuilder<State<A::Data>>,
    ) -> Self {
        self.rules = add(self.rules);
        self
    }

    /// Limits the steps. Without this, the limit is ten; see
    /// [`no_step_limit`](Self::no_step_limit). With 0, no step runs. (The rule
    /// `max_steps=0` is off instead.)
    ///
    /// Calling `max_steps`, `max_runtime`, `max_tokens` or `max_cost` again replaces that limit. A
    /// task's own limits override them; see [`Task::max_steps`](super::Task::max_steps). A resumed run counts all of
    /// its parts.
    #[must_use]
    pub fn max_steps(mut self, steps: u64) -> Self {
        self.budget = self.budget.steps(steps, self.limits_from);
        self
    }

    /// Limits the time of the run. When it is over, decisions and tool calls are interrupted. An
    /// answer that was given before is still judged by the critics and the rules, for at most the
    /// same time again. Waiting for a person counts as run time.
    ///
    /// With a [`Clock`] that doesn't follow real time, the limit is only checked before each step.
    #[must_use]
    pub fn max_runtime(mut self, limit: Duration) -> Self {
        self.budget = self.budget.time(limit, self.limits_from);
        self
    }

    /// Limits the input and output tokens of all model calls, including those of critics that
    /// report them. Checked before each step, so the last step may exceed the limit. Tokens that a
    /// model doesn't report are estimated.
    ///
    /// The tokens of a [`SubAgent`](super::SubAgent) don't count, because they belong to its own
    /// run. Limit them where its builder is made.
    #[must_use]
    pub fn max_tokens(mut self, tokens: u64) -> Self {
        self.budget = self.budget.tokens(tokens, self.limits_from);
        self
    }

    /// Limits the cost in US dollars, which must be more than 0. Checked after each step, as the
    /// rule `max_cost`. It counts what [`max_tokens`](Self::max_tokens) counts.
    ///
    /// A cost that isn't reported is estimated from [`prices`](Self::prices). **If a reply has
    /// neither a cost nor a price, its cost is unknown and doesn't count toward the limit.**
    ///
    /// ```
    /// # use trace_board::engine::{Agent, Builder};
    /// use trace_board::model::price::Prices;
    /// # fn limited<A: Agent>(builder: Builder<A>) -> Builder<A> {
    /// builder.max_cost(0.5).prices(Prices::default().with_list())
    /// # }
    /// ```
    #[must_use]
    pub fn max_cost(mut self, usd: f64) -> Self {
        self.max_cost = Some(usd);
        self
    }

    /// Sets the origin of the limits that the verdict names. A program that takes them from its command line
    /// uses [`Origin::Cli`]. The default is [`Origin::Engine`].
    #[must_use]
    pub fn limits_from(mut self, origin: Origin) -> Self {
        self.limits_from = origin;
        let Budget {
            steps,
            time_ms,
            tokens,
        } = &mut self.budget;
        for limit in [steps, time_ms, tokens].into_iter().flatten() {
            limit.from = origin;
        }
        self
    }

    /// Removes the default step limit.
    #[must_use]
    pub fn no_step_limit(mut self) -> Self {
        self.no_step_limit = true;
        self
    }

    /// Accepts patterns that don't compile, and lets them stop the run instead of failing the
    /// build. Meant for rules from a file that is already in use.
    #[must_use]
    pub fn fail_closed(mut self) -> Self {
        self.fail_closed = true;
        self
    }

    /// Sets what counts as a change of state for the stagnation rule. By default, everything except
    /// the step counter and the metrics.
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

    /// Sets the seed from which agents get their random numbers, and records it.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.parts.seed = Some(seed);
        self
    }

    /// Sets the handle that cancels the run.
    #[must_use]
    pub fn cancel(mut self, cancel: Cancel) -> Self {
        self.parts.cancel = cancel;
        self
    }

    /// Ends the run after this time and drops all work in progress, including the judging of an
    /// answer. By default, twice the time limit.
    #[must_use]
    pub(crate) fn hard_timeout(mut self, limit: Duration) -> Self {
        self.parts.hard_timeout = Some(limit);
        self
    }

    /// Sets the directory with the task's files.
    #[must_use]
    pub fn workspace(mut self, dir: impl Into<PathBuf>) -> Self {
        self.parts.workspace = Some(dir.into());
        self
    }

    /// Sets the prices of models. They are used to estimate the cost of a reply that doesn't report
    /// one.
    #[must_use]
    pub fn prices(mut self, prices: Prices) -> Self {
        self.parts.prices = prices;
        self
    }

    /// Records the run with `writer`. [`Engine::resume`] records by itself and refuses an engine
    /// with a writer.
    #[must_use]
    pub fn record(mut self, writer: RunWriter) -> Self {
        self.parts.writer = Some(writer);
        self
    }

    /// Records the run in a new directory below `root`, which is named after the agent and the time.
    /// [`RunResult::trace`](super::RunResult::trace) is its path. [`record`](Self::record) lets
    /// you name the run.
    #[must_use]
    pub fn record_in(mut self, root: impl Into<PathBuf>) -> Self {
        self.record_in = Some(root.into());
        self
    }

    /// Sets the parent run, so that board links the two. [`SubAgent`](super::SubAgent) does
    /// this.
    #[must_use]
    pub fn parent(mut self, run_id: impl Into<String>) -> Self {
        self.parts.parent = Some(run_id.into());
        self
    }

    /// Adds data about the run, which is recorded in the manifest under `summary.run_meta.metadata`.
    /// For data about the task, see [`Task::metadata`](super::Task::metadata).
    #[must_use]
    pub fn metadata(mut self, key: impl Into<String>, value: impl Into<Value>) -> Self {
        self.parts.metadata.insert(key.into(), value.into());
        self
    }

    /// Sets whether to record the process id and the host name, which tell board whether the run is
    /// still alive. Without them, traces are reproducible. The default is true.
    #[must_use]
    pub fn record_process(mut self, record: bool) -> Self {
        self.parts.record_process = record;
        self
    }

    /// Sets a callback for the model's text as it streams in.
    #[must_use]
    pub fn on_text(mut self, on_text: impl Fn(&str) + Send + Sync + 'static) -> Self {
        self.parts.on_text = Box::new(on_text);
        self
    }

    /// Builds the engine.
    ///
    /// # Errors
    /// Fails if two tools, critics or rules have the same name, if a rule or limit can't be used, or
    /// if the directory for the run can't be created.
    pub fn build(mut self) -> Result<Engine<A>> {
        let mut names = BTreeSet::new();
        for critic in &self.parts.critics {
            if !names.insert(critic.name().to_owned()) {
                self.wrong
                    .push(format!("two critics are named {:?}", critic.name()));
            }
        }
        if !self.wrong.is_empty() {
            let wrong = self.wrong.join("; ");
            let hint = "give each tool and each critic a unique name";
            return Err(
                Error::new(Kind::Usage, format!("can't build the engine: {wrong}")).hint(hint),
            );
        }
        if let Some(usd) = self.max_cost {
            if usd.is_nan() || usd <= 0.0 {
                let message = format!("max_cost must be more than 0 dollars, not {usd}");
                return Err(Error::new(Kind::Usage, message).hint("omit it to allow any cost"));
            }
            let rule = RuleEntry {
                from: self.limits_from,
                ..StopSpec::from(MaxCost { usd }).into()
            };
            self.rules = self.rules.policy(rule);
        }
        let mut budget = self.budget;
        if budget.steps.is_none() && !self.no_step_limit && !self.rules.limits_steps() {
            budget = budget.steps(DEFAULT_STEPS, Origin::Default);
        }
        let rules = self.rules.budget(budget);
        let rules = if self.fail_closed {
            rules.build_fail_closed()
        } else {
            rules.build()
        };
        let rules = match self.wrong_rule {
            None => rules,
            Some(wrong) => Err(wrong),
        }?;
        if let (None, Some(root)) = (&self.parts.writer, &self.record_in) {
            let now = jiff::Zoned::now();
            self.parts.writer = Some(RunWriter::create_dated(root, self.agent.name(), &now)?);
        }
        Ok(Engine {
            agent: self.agent,
            tools: self.tools,
            rules,
            parts: self.parts,
        })
    }
}

/// Makes `?` work with a rule that is parsed, in a function that returns [`crate::Result`].
impl From<SpecError> for Error {
    fn from(wrong: SpecError) -> Self {
        Error::new(Kind::Usage, "invalid stop rule")
            .because(wrong)
            .hint(
                "write a rule like max_steps=8, or as JSON; the `stop` module documents all rules",
            )
    }
}
