//! Who plays? An agent, critics and tools made of functions, so that a scenario is its story and little else.

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

/// What the state of a scenario holds, as the engine sees it: one type for all, since each type is an engine of its own
/// to the compiler, and thirty of them take minutes.
type Loose = Map<String, Value>;

/// A state as a scenario sees it.
fn typed<D: DeserializeOwned>(state: &State<Loose>) -> Result<State<D>, AgentError> {
    // A scenario without data has `()`, which is JSON's null.
    let data = if state.data.is_empty() {
        Value::Null
    } else {
        Value::Object(state.data.clone())
    };
    let data = serde_json::from_value(data)
        .map_err(|wrong| AgentError::fatal(format!("the state is not this scenario's: {wrong}")))?;
    Ok(state.clone().with(data))
}

/// An agent of functions. It thinks for a while before each decision, in the time of the run.
pub(super) struct Actor<D> {
    name: &'static str,
    data: D,
    clock: Arc<dyn Clock>,
    /// What its pauses are drawn from.
    seed: u64,
    decide: Decide<D>,
    prepare: Option<fn(&State<D>, &StepCx<'_>) -> Prompt>,
    reduce: fn(&mut State<D>, &Done<'_>),
    enough: fn(&State<D>) -> bool,
}

impl<D> Actor<D> {
    /// An agent that begins with `data` and does as `decide` says.
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

    /// Takes steps into the state.
    pub(super) fn reduce(mut self, reduce: fn(&mut State<D>, &Done<'_>)) -> Self {
        self.reduce = reduce;
        self
    }

    /// Says when it has had enough.
    pub(super) fn enough(mut self, enough: fn(&State<D>) -> bool) -> Self {
        self.enough = enough;
        self
    }

    /// Says what a model is told.
    pub(super) fn prompt(mut self, prepare: fn(&State<D>, &StepCx<'_>) -> Prompt) -> Self {
        self.prepare = Some(prepare);
        self
    }
}

/// An engine with this actor in it.
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

/// An [`Actor`] whose state is of the one type.
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

/// A decision as [`Actor`] wants it.
pub(super) type Decided = Result<Option<Decision>, AgentError>;

/// Does one thing, and says why.
pub(super) fn act(why: impl Into<String>, action: Action) -> Decided {
    Ok(Some(Decision::act([action]).because(why)))
}

/// Answers, and says why now.
pub(super) fn answer(why: impl Into<String>, text: impl Into<String>) -> Decided {
    Ok(Some(Decision::final_answer(text).because(why)))
}

/// What a model says with a call beside it, and what it cost.
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

/// What a model says without a call, and what it cost.
pub(super) fn says(text: &str, usage: (u64, u64)) -> Reply {
    let mut reply = Reply::text(text).usage(usage.0, usage.1);
    reply.finish_reason = Some("stop".to_owned());
    reply
}

/// An agent that leaves every decision to its model.
pub(super) fn ask<D>(_: &State<D>, _: &StepCx<'_>) -> Decided {
    Ok(None)
}

/// A field of a value; null where it has none.
pub(super) fn field<'a>(value: &'a Value, key: &str) -> &'a Value {
    value.get(key).unwrap_or(&Value::Null)
}

/// An input of the task; null where it has none.
pub(super) fn input<'a>(cx: &StepCx<'a>, key: &str) -> &'a Value {
    cx.task.inputs.get(key).unwrap_or(&Value::Null)
}

/// A critic of one function.
pub(super) struct Reviewer<D> {
    name: &'static str,
    judge: fn(&CriticCx<'_, D>) -> Opinion,
}

/// A critic called `name`.
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

/// A tool of one function, which takes its time.
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
    /// A tool that takes a fifth of a second.
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

    /// Says how long it takes.
    pub(super) fn takes(mut self, millis: u64) -> Self {
        self.takes = Duration::from_millis(millis);
        self
    }

    /// Tries again.
    pub(super) fn retries(mut self, retries: u32) -> Self {
        self.limits.retries = retries;
        self
    }

    /// Says what it needs of the environment.
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

/// A tool that never ends by itself.
pub(super) struct Endless {
    name: &'static str,
    about: &'static str,
    begun: Box<dyn Fn() + Send + Sync>,
}

impl Endless {
    /// Calls `begun` once it is under way.
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
