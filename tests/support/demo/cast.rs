//! An agent, critics and tools built from functions, so that a scenario contains little but its
//! story.

use std::sync::Arc;
use std::time::Duration;

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::stage::{Dice, Stage};
use trace_board::engine::{
    Action, Agent, AgentError, Builder, Clock, Critic, CriticCx, CriticError, Decision, Done,
    Engine, Opinion, Prompt, Reply, State, StepCx, Task, Tool, ToolCall, ToolCx, ToolError,
    ToolLimits,
};

type Decide<D> = fn(&State<D>, &StepCx<'_>) -> Result<Option<Decision>, AgentError>;

/// A scenario's state as the engine sees it. One type serves all scenarios, because the compiler
/// instantiates an engine per type, and thirty of them take minutes.
type Loose = Map<String, Value>;

/// Converts a state to the scenario's own type.
fn typed<D: DeserializeOwned>(state: &State<Loose>) -> Result<State<D>, AgentError> {
    // A scenario without data uses `()`, which is JSON's null.
    let data = if state.data.is_empty() {
        Value::Null
    } else {
        Value::Object(state.data.clone())
    };
    let data = serde_json::from_value(data)
        .map_err(|wrong| AgentError::fatal(format!("the state is not this scenario's: {wrong}")))?;
    Ok(state.clone().with(data))
}

/// An agent built from functions. It pauses on the run's clock before each decision.
pub(super) struct Actor<D> {
    name: &'static str,
    data: D,
    clock: Arc<dyn Clock>,
    /// Seed of the pauses.
    seed: u64,
    decide: Decide<D>,
    prepare: Option<fn(&State<D>, &StepCx<'_>) -> Prompt>,
    reduce: fn(&mut State<D>, &Done<'_>),
    enough: fn(&State<D>) -> bool,
}

impl<D> Actor<D> {
    /// Creates an agent that starts with `data` and decides with `decide`.
    pub(super) fn new(stage: &Stage, name: &'static str, data: D, decide: Decide<D>) -> Self {
        let clock = Arc::clone(&stage.clock);
        let seed = stage.seed;
        Self {
            name,
            data,
            clock,
            seed,
            decide,
            prepare: None,
            reduce: |_, _| (),
            enough: |_| false,
        }
    }

    /// Sets the function that updates the state after a step.
    pub(super) fn reduce(mut self, reduce: fn(&mut State<D>, &Done<'_>)) -> Self {
        self.reduce = reduce;
        self
    }

    /// Sets the condition for the agent to stop.
    pub(super) fn enough(mut self, enough: fn(&State<D>) -> bool) -> Self {
        self.enough = enough;
        self
    }

    /// Sets the function that builds the prompt.
    pub(super) fn prompt(mut self, prepare: fn(&State<D>, &StepCx<'_>) -> Prompt) -> Self {
        self.prepare = Some(prepare);
        self
    }
}

/// Builds an engine around this actor.
pub(super) fn engine<D: Serialize + DeserializeOwned + 'static>(
    actor: Actor<D>,
) -> Builder<Player> {
    let Actor {
        name,
        data,
        clock,
        seed,
        decide,
        prepare,
        reduce,
        enough,
    } = actor;
    let data = match serde_json::to_value(data) {
        Ok(Value::Object(data)) => data,
        _ => Map::new(),
    };
    Engine::builder(Player {
        name,
        data,
        clock,
        seed,
        decide: Box::new(move |state, cx| decide(&typed(state)?, cx)),
        prepare: prepare.map(|prepare| -> Prepare {
            Box::new(move |state, cx| Ok(prepare(&typed(state)?, cx)))
        }),
        reduce: Box::new(move |state, done| {
            let mut own: State<D> = typed(state)?;
            reduce(&mut own, done);
            let data = serde_json::to_value(&own.data).unwrap_or_default();
            let Value::Object(data) = data else {
                return Ok(());
            };
            *state = own.with(data);
            Ok(())
        }),
        enough: Box::new(move |state| typed(state).is_ok_and(|state| enough(&state))),
    })
}

type Deciding = Box<dyn Fn(&State<Loose>, &StepCx<'_>) -> Decided + Send + Sync>;
type Reducing = Box<dyn Fn(&mut State<Loose>, &Done<'_>) -> Result<(), AgentError> + Send>;
type Enough = Box<dyn Fn(&State<Loose>) -> bool + Send>;
type Prepare = Box<dyn Fn(&State<Loose>, &StepCx<'_>) -> Result<Prompt, AgentError> + Send>;

/// An [`Actor`] whose state has the common type [`Loose`].
pub(super) struct Player {
    name: &'static str,
    data: Loose,
    clock: Arc<dyn Clock>,
    seed: u64,
    decide: Deciding,
    prepare: Option<Prepare>,
    reduce: Reducing,
    enough: Enough,
}

impl Agent for Player {
    type Data = Loose;

    fn name(&self) -> &str {
        self.name
    }

    fn init_state(&mut self, task: &Task) -> Result<State<Loose>, AgentError> {
        Ok(State::new(&*task.objective, std::mem::take(&mut self.data)))
    }

    fn prepare(&mut self, state: &State<Loose>, cx: &StepCx<'_>) -> Result<Prompt, AgentError> {
        match &self.prepare {
            Some(prepare) => prepare(state, cx),
            None => Ok(Prompt {
                system: None,
                user: (cx.step == 0).then(|| state.task.clone()),
            }),
        }
    }

    async fn decide(&mut self, state: &State<Loose>, cx: &StepCx<'_>) -> Decided {
        self.clock
            .sleep(Duration::from_millis(
                Dice::new(self.seed ^ cx.seed).between(300, 1_500),
            ))
            .await;
        (self.decide)(state, cx)
    }

    fn reduce(&mut self, state: &mut State<Loose>, step: &Done<'_>) -> Result<(), AgentError> {
        (self.reduce)(state, step)
    }

    fn should_stop(&self, state: &State<Loose>) -> bool {
        (self.enough)(state)
    }
}

/// The result of an [`Actor`]'s decision. `None` leaves the decision to the model.
pub(super) type Decided = Result<Option<Decision>, AgentError>;

/// Decides on one action, with a rationale.
pub(super) fn act(why: impl Into<String>, action: Action) -> Decided {
    Ok(Some(Decision::act([action]).because(why)))
}

/// Decides on a final answer, with a rationale.
pub(super) fn answer(why: impl Into<String>, text: impl Into<String>) -> Decided {
    Ok(Some(Decision::final_answer(text).because(why)))
}

/// A model reply with text, one tool call and its token usage.
pub(super) fn calls(
    text: &str,
    id: &str,
    name: &str,
    arguments: &Value,
    usage: (u64, u64),
) -> Reply {
    let call = ToolCall::new(id, name, arguments.to_string());
    let mut reply = Reply::calls([call]).usage(usage.0, usage.1);
    reply.text = text.to_owned();
    reply.finish_reason = Some("tool_calls".to_owned());
    reply
}

/// A model reply without tool calls, and its token usage.
pub(super) fn says(text: &str, usage: (u64, u64)) -> Reply {
    let mut reply = Reply::text(text).usage(usage.0, usage.1);
    reply.finish_reason = Some("stop".to_owned());
    reply
}

/// Leaves every decision to the model.
pub(super) fn ask<D>(_: &State<D>, _: &StepCx<'_>) -> Decided {
    Ok(None)
}

/// Returns a field of a value, or null.
pub(super) fn field<'a>(value: &'a Value, key: &str) -> &'a Value {
    value.get(key).unwrap_or(&Value::Null)
}

/// Returns an input of the task, or null.
pub(super) fn input<'a>(cx: &StepCx<'a>, key: &str) -> &'a Value {
    cx.task.inputs.get(key).unwrap_or(&Value::Null)
}

/// A critic built from one function.
pub(super) struct Reviewer<D> {
    name: &'static str,
    judge: fn(&CriticCx<'_, D>) -> Opinion,
}

/// Creates a critic called `name`.
pub(super) fn reviewer<D>(
    name: &'static str,
    judge: fn(&CriticCx<'_, D>) -> Opinion,
) -> Reviewer<D> {
    Reviewer { name, judge }
}

impl<D: DeserializeOwned + Sync> Critic<Loose> for Reviewer<D> {
    fn name(&self) -> &str {
        self.name
    }

    async fn judge(&self, step: CriticCx<'_, Loose>) -> Result<Opinion, CriticError> {
        let state = typed(step.state).map_err(|wrong| CriticError::new(wrong.message))?;
        Ok((self.judge)(&step.with(&state)))
    }
}

/// A tool built from one function, with a simulated duration.
pub(super) struct Device<A> {
    name: &'static str,
    about: &'static str,
    clock: Arc<dyn Clock>,
    takes: Duration,
    limits: ToolLimits,
    needs: &'static [&'static str],
    work: Work<A>,
}

type Work<A> = Box<dyn Fn(A, ToolCx<'_>) -> Result<Value, ToolError> + Send + Sync>;

impl<A> Device<A> {
    /// Creates a tool that takes a fifth of a second.
    pub(super) fn new(
        stage: &Stage,
        name: &'static str,
        about: &'static str,
        work: impl Fn(A, ToolCx<'_>) -> Result<Value, ToolError> + Send + Sync + 'static,
    ) -> Self {
        let (clock, takes) = (Arc::clone(&stage.clock), Duration::from_millis(200));
        Self {
            name,
            about,
            clock,
            takes,
            limits: ToolLimits::default(),
            needs: &[],
            work: Box::new(work),
        }
    }

    /// Sets the duration.
    pub(super) fn takes(mut self, millis: u64) -> Self {
        self.takes = Duration::from_millis(millis);
        self
    }

    /// Sets the number of retries.
    pub(super) fn retries(mut self, retries: u32) -> Self {
        self.limits.retries = retries;
        self
    }

    /// Sets the capabilities that it needs from the environment.
    pub(super) fn needs(mut self, needs: &'static [&'static str]) -> Self {
        self.needs = needs;
        self
    }
}

impl<A: DeserializeOwned + JsonSchema + Send> Tool for Device<A> {
    type Args = A;
    type Output = Value;

    fn name(&self) -> &str {
        self.name
    }

    fn description(&self) -> &str {
        self.about
    }

    async fn call(&self, args: A, cx: ToolCx<'_>) -> Result<Value, ToolError> {
        self.clock.sleep(self.takes).await;
        (self.work)(args, cx)
    }

    fn limits(&self) -> ToolLimits {
        self.limits
    }

    fn needs(&self) -> &[&str] {
        self.needs
    }
}

/// No arguments.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Nothing {}

/// A tool that never returns.
pub(super) struct Endless {
    name: &'static str,
    about: &'static str,
    begun: Box<dyn Fn() + Send + Sync>,
}

impl Endless {
    /// Creates a tool that calls `begun` once it's running.
    pub(super) fn new(
        name: &'static str,
        about: &'static str,
        begun: impl Fn() + Send + Sync + 'static,
    ) -> Self {
        Self {
            name,
            about,
            begun: Box::new(begun),
        }
    }
}

impl Tool for Endless {
    type Args = Nothing;
    type Output = ();

    fn name(&self) -> &str {
        self.name
    }

    fn description(&self) -> &str {
        self.about
    }

    async fn call(&self, _: Nothing, _: ToolCx<'_>) -> Result<(), ToolError> {
        (self.begun)();
        std::future::pending().await
    }

    fn limits(&self) -> ToolLimits {
        ToolLimits {
            timeout: None,
            ..ToolLimits::default()
        }
    }
}
