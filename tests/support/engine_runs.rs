//! Records one run of each kind with the board's own engine, in this process: small and
//! deterministic.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::sync::Notify;
use trace_board::engine::parse::ReAct;
use trace_board::engine::{
    Action, Agent, AgentError, Builder, Cancel, Critic, CriticCx, CriticError, Decision, Done,
    Engine, Opinion, Reply, Resource, ResourceKind, Scripted, State, StepCx, Stepping, Task, Tool,
    ToolCx, ToolError,
};
use trace_board::stop::Origin;
use trace_board::trace::RunWriter;

use crate::highest_score::HighestScore;

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
struct Notes {
    plan: Vec<String>,
    seen: Vec<String>,
}

/// Plays the given decisions and failures, then defers to the model, if there is one.
struct Play(VecDeque<Result<Decision, AgentError>>);

impl Agent for Play {
    type Data = Notes;

    fn name(&self) -> &str {
        "play"
    }

    fn init_state(&mut self, task: &Task) -> Result<State<Notes>, AgentError> {
        Ok(State::new(
            &*task.objective,
            Notes {
                plan: vec!["look".to_owned(), "say".to_owned()],
                seen: Vec::new(),
            },
        ))
    }

    async fn decide(
        &mut self,
        _: &State<Notes>,
        _: &StepCx<'_>,
    ) -> Result<Option<Decision>, AgentError> {
        self.0.pop_front().transpose()
    }

    fn reduce(&mut self, state: &mut State<Notes>, step: &Done<'_>) -> Result<(), AgentError> {
        state.data.seen.extend(
            step.results
                .iter()
                .map(|result| result.text().chars().take(40).collect()),
        );
        Ok(())
    }
}

#[derive(Deserialize, JsonSchema)]
pub(crate) struct EchoArgs {
    text: String,
    #[serde(default = "once")]
    times: usize,
}

fn once() -> usize {
    1
}

/// A tool that returns its argument.
pub(crate) struct Echo;

impl Tool for Echo {
    type Args = EchoArgs;
    type Output = String;

    fn name(&self) -> &str {
        "echo"
    }

    fn description(&self) -> &str {
        "Says it again."
    }

    async fn call(&self, args: EchoArgs, _: ToolCx<'_>) -> Result<String, ToolError> {
        if args.text == "fail" {
            Err(ToolError::new("no echo here"))
        } else {
            Ok(args.text.repeat(args.times))
        }
    }
}

#[derive(Deserialize, JsonSchema)]
pub(crate) struct NoArgs {}

/// A tool that notifies when called and never returns.
pub(crate) struct Hang(pub(crate) Arc<Notify>);

impl Tool for Hang {
    type Args = NoArgs;
    type Output = ();

    fn name(&self) -> &str {
        "hang"
    }

    fn description(&self) -> &str {
        "Never comes back."
    }

    async fn call(&self, _: NoArgs, _: ToolCx<'_>) -> Result<(), ToolError> {
        self.0.notify_one();
        std::future::pending().await
    }
}

/// A tool that requests cancellation after the current step.
struct Ends(Cancel);

impl Tool for Ends {
    type Args = NoArgs;
    type Output = ();

    fn name(&self) -> &str {
        "ends"
    }

    fn description(&self) -> &str {
        "Asks for the end."
    }

    async fn call(&self, _: NoArgs, _: ToolCx<'_>) -> Result<(), ToolError> {
        self.0.after_step();
        Ok(())
    }
}

/// A critic that returns the given opinion or error.
struct Says(&'static str, Result<Opinion, CriticError>);

impl Critic<Notes> for Says {
    fn name(&self) -> &str {
        self.0
    }

    async fn judge(&self, _: CriticCx<'_, Notes>) -> Result<Opinion, CriticError> {
        self.1.clone()
    }
}

fn echo(text: &str) -> Decision {
    Decision::act([Action::new("echo").arg("text", text)])
}

fn play(decisions: impl IntoIterator<Item = Decision>) -> Builder<Play> {
    with_failures(decisions.into_iter().map(Ok))
}

fn with_failures(
    decisions: impl IntoIterator<Item = Result<Decision, AgentError>>,
) -> Builder<Play> {
    Engine::builder(Play(decisions.into_iter().collect()))
        .tool(Echo)
        .clock(Stepping::new(
            1_790_000_000_000_000,
            Duration::from_millis(40),
        ))
        .record_process(false)
}

/// Records all runs below `root`. `gone` is the id of a process that has exited.
pub(crate) fn make(root: &Path, gone: u32) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .unwrap();
    let run = |name: &str, engine: Builder<Play>, task: Task| {
        let engine = engine
            .record(RunWriter::create(root, name).unwrap())
            .build()
            .unwrap();
        runtime.block_on(engine.run(task));
    };
    let ways = Decision::branch([
        echo("one").because("the short way").meta("score", 0.25),
        Decision::act([
            Action::new("echo").arg("text", "two"),
            Action::new("echo").arg("text", "three"),
        ])
        .because("two in one go")
        .meta("score", 0.75),
        Decision::final_answer("nothing to say").meta("score", 0.5),
    ]);
    let fine = || Says("Fine", Ok(Opinion::proceed("as told").score(0.9)));
    run(
        "final",
        play([
            ways.because("three ways to go on"),
            Decision::final_answer("said"),
        ])
        .selector(HighestScore)
        .critic(fine())
        .max_steps(8),
        "Say it.".into(),
    );
    run(
        "budget_first",
        play([echo("one")]),
        Task::new("Say it.").max_steps(0),
    );
    let keyword: trace_board::stop::StopSpec = "keyword=DONE".parse().unwrap();
    let no = || Decision::final_answer("not yet");
    run(
        "refused",
        play([echo("fail"), no(), no()]).stop(keyword),
        Task::new("Say DONE.").max_steps(3),
    );
    run(
        "budget_both",
        play([echo("one")]).max_tokens(0).limits_from(Origin::Cli),
        Task::new("Say it.").max_steps(0),
    );
    let low = Says("Strict", Ok(Opinion::stop("this leads nowhere").score(0.1)));
    run(
        "critic_stop",
        play([echo("one"), echo("two")]).critic(fine()).critic(low),
        "Say it.".into(),
    );
    let broken = Says(
        "Broken",
        Err(CriticError::new("the tests could not be run".to_owned())),
    );
    run(
        "critic_failed",
        play([echo("one")]).critic(fine()).critic(broken),
        "Say it.".into(),
    );
    let missing = Resource::at(ResourceKind::File, "words.txt").required();
    run(
        "preflight",
        play([echo("one")]).workspace(root),
        Task::new("Say it.").resource(missing),
    );
    let cancel = Cancel::new();
    cancel.now();
    run(
        "cancelled_first",
        play([echo("one")]).cancel(cancel),
        "Say it.".into(),
    );
    let cancel = Cancel::new();
    let ends = Decision::act([Action::new("ends")]);
    run(
        "cancelled",
        play([echo("one"), ends])
            .tool(Ends(cancel.clone()))
            .cancel(cancel),
        "Say it.".into(),
    );
    let lost = AgentError::new("the words are lost");
    run(
        "recovered",
        with_failures([
            Ok(echo("one")),
            Err(lost),
            Ok(Decision::final_answer("said")),
        ]),
        "Say it.".into(),
    );
    let replies = [
        Reply::text("I would rather not say.").usage(120, 9),
        Reply::text("Thought: as told\nAction: echo(text=\"ten letters\", times=30000)")
            .usage(190, 21),
        Reply::text("Thought: all said\nFinal Answer: said").usage(240, 12),
    ];
    run(
        "model",
        play([]).model(Scripted::new(replies)).parser(ReAct),
        "Say it, and say it long.".into(),
    );
    for (name, pid) in [("died", gone), ("waiting", std::process::id())] {
        let called = Arc::new(Notify::new());
        let engine = play([echo("one"), Decision::act([Action::new("hang")])])
            .tool(Hang(Arc::clone(&called)));
        let engine = engine
            .record_process(true)
            .record(RunWriter::create(root, name).unwrap())
            .build()
            .unwrap();
        let mut run = Box::pin(engine.run("Say it."));
        runtime.block_on(async {
            tokio::select! {
                _ = run.as_mut() => panic!("the tool came back"),
                () = called.notified() => {}
            }
        });
        // A killed process drops nothing, and dropping the run would close it.
        std::mem::forget(run);
        let manifest = root.join(name).join("manifest.json");
        let text = std::fs::read_to_string(&manifest).unwrap();
        let of = |pid: u32| format!("\"pid\": {pid},");
        assert_eq!(text.matches(&of(std::process::id())).count(), 1);
        std::fs::write(&manifest, text.replace(&of(std::process::id()), &of(pid))).unwrap();
    }
}
