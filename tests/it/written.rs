//! Tests that the engine's traces are readable, however the run ended. Uses `board check`, and also
//! QitOS's own tools if `tests/interop/run` sets `BOARD_INTEROP_RUNS`, the directory in which to
//! keep the runs.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::sync::Notify;
use trace_board::engine::{
    Action, Agent, AgentError, Builder, Cancel, Critic, CriticCx, CriticError, Decision, Done,
    Engine, Env, EnvError, EnvStep, ModelError, ModelErrorKind, Opinion, Reply, Scripted, State,
    StepCx, Stepping, Task, ToolCall, ToolResult,
};
use trace_board::stop::StopSpec;
use trace_board::trace::RunWriter;

use crate::board::BINARY;
use crate::engine_runs::{Echo, Hang};

/// Copies a run to the directory that `tests/interop/run` checks.
pub(crate) fn keep(run: &Path) {
    if let Some(kept) = std::env::var_os("BOARD_INTEROP_RUNS").map(PathBuf::from) {
        crate::disk::copy(run, &kept.join(run.file_name().unwrap()));
    }
}

/// Plays decisions. After the last one, the model decides. Without a model, the agent waits.
struct Play {
    decisions: VecDeque<Result<Decision, &'static str>>,
    has_model: bool,
    stops_at: u64,
}

#[derive(Debug, Default, Serialize, Deserialize)]
struct Notes {
    seen: Vec<String>,
    nested: Value,
}

impl Agent for Play {
    type Data = Notes;

    fn name(&self) -> &str {
        "play"
    }

    async fn decide(
        &mut self,
        _: &State<Notes>,
        _: &StepCx<'_>,
    ) -> Result<Option<Decision>, AgentError> {
        match self.decisions.pop_front() {
            Some(decision) => decision.map(Some).map_err(AgentError::new),
            None if self.has_model => Ok(None),
            None => Ok(Some(Decision::wait("the play is over"))),
        }
    }

    fn reduce(&mut self, state: &mut State<Notes>, step: &Done<'_>) -> Result<(), AgentError> {
        state
            .data
            .seen
            .extend(step.results.iter().map(ToolResult::text));
        let seen = state.data.seen.len();
        state.data.nested = json!({"deep": [{"count": seen, "half": 0.5}]});
        Ok(())
    }

    fn should_stop(&self, state: &State<Notes>) -> bool {
        state.data.seen.len() as u64 >= self.stops_at
    }
}

struct Judge(Opinion);

impl Critic<Notes> for Judge {
    fn name(&self) -> &str {
        "judge"
    }

    async fn judge(&self, cx: CriticCx<'_, Notes>) -> Result<Opinion, CriticError> {
        Ok(if cx.step == 0 {
            self.0.clone()
        } else {
            Opinion::proceed("fine").score(0.9)
        })
    }
}

struct Maze;

impl Env for Maze {
    fn name(&self) -> &str {
        "maze"
    }

    async fn reset(&mut self, _: &Task) -> Result<(), EnvError> {
        Ok(())
    }

    async fn observe(&mut self) -> Result<Value, EnvError> {
        Ok(json!({"at": [0, 0]}))
    }

    async fn step(&mut self, _: &Decision, _: &[ToolResult]) -> Result<EnvStep, EnvError> {
        Ok(EnvStep {
            observation: json!({"at": [1, 0]}),
            done: true,
            reward: Some(1.0),
            ..EnvStep::default()
        })
    }
}

fn echo(text: &str) -> Decision {
    Decision::act([Action::new("echo").arg("text", text)])
}

fn play(decisions: impl IntoIterator<Item = Decision>) -> Builder<Play> {
    agent(Play {
        decisions: decisions.into_iter().map(Ok).collect(),
        has_model: false,
        stops_at: u64::MAX,
    })
}

fn agent(agent: Play) -> Builder<Play> {
    Engine::builder(agent)
        .tool(Echo)
        .clock(Stepping::new(
            1_700_000_000_000_000,
            Duration::from_millis(3),
        ))
        .record_process(false)
}

fn talks(replies: impl IntoIterator<Item = Result<Reply, ModelError>>) -> Builder<Play> {
    let silent = Play {
        decisions: VecDeque::new(),
        has_model: true,
        stops_at: u64::MAX,
    };
    agent(silent).model(Scripted::with_failures(replies))
}

/// JSON, HTML, scripts and the line splitting of other languages treat these characters
/// differently.
const ODD: &str =
    "\u{2028}\u{85}\u{b}\u{1c} </script><!-- \" \\ \u{7f} \u{1f980} \u{202e} e\u{301}";

/// A run for each ending, named after its stop reason, up to the dot.
fn runs() -> Vec<(&'static str, Builder<Play>, Task)> {
    let rule = |text: &str| text.parse::<StopSpec>().expect("a rule");
    let call = |id: &str| ToolCall::new(id, "echo", r#"{"text": "a"}"#);
    let overflow = || {
        Err(ModelError::new(
            ModelErrorKind::Overflow,
            "too long by 7 tokens",
        ))
    };
    let cancelled = Cancel::new();
    cancelled.now();
    let branch = Decision::branch([echo("left"), echo("right")]);
    let task = || Task::new("Say it.");
    let fails = Play {
        decisions: vec![Err("no luck"); 9].into(),
        has_model: false,
        stops_at: u64::MAX,
    };
    let content = Play {
        decisions: vec![Ok(echo("1")); 3].into(),
        has_model: false,
        stops_at: 2,
    };
    vec![
        (
            "final",
            play([echo("one"), Decision::final_answer("done")]),
            task(),
        ),
        (
            "final.odd",
            play([echo(ODD), Decision::final_answer(ODD).because(ODD)]),
            Task::new(ODD).id("odd"),
        ),
        (
            "final.branch",
            play([
                branch,
                Decision::wait("a moment"),
                Decision::final_answer("chosen"),
            ]),
            task(),
        ),
        (
            "final.retry",
            play([
                Decision::final_answer("42"),
                Decision::final_answer("42 [1]"),
            ])
            .critic(Judge(
                Opinion::retry("no source")
                    .score(0.2)
                    .instruction("Name a source."),
            )),
            task(),
        ),
        (
            "final.tool_errors",
            play([
                Decision::act([Action::new("ecko"), Action::new("echo").arg("txt", 3)]),
                Decision::final_answer("x"),
            ]),
            task(),
        ),
        (
            "final.model",
            talks([
                Ok(Reply::calls([call("a"), call("b")]).usage(10, 5)),
                Ok(Reply::text("<think>hm</think>Both said.").usage(30, 4)),
            ]),
            task(),
        ),
        (
            "success",
            play([Decision::final_answer("no"), Decision::final_answer("DONE")])
                .stop(rule("keyword=DONE")),
            task(),
        ),
        (
            "budget_steps",
            play([echo("1"), echo("2"), echo("3")]).max_steps(2),
            task(),
        ),
        ("budget_steps.none", play([echo("1")]).max_steps(0), task()),
        (
            "budget_time",
            play([echo("1"), echo("2")]).max_runtime(Duration::from_millis(1)),
            task(),
        ),
        (
            "budget_tokens",
            talks([
                Ok(Reply::calls([call("a")]).usage(90, 20)),
                Ok(Reply::text("late").usage(1, 1)),
            ]),
            task().max_tokens(100),
        ),
        ("agent_condition", agent(content), task()),
        (
            "agent_condition.forbidden",
            play([echo("1")]).stop(rule("stop_on_tool=echo")),
            task(),
        ),
        (
            "critic_stop",
            play([echo("1")]).critic(Judge(Opinion::stop("wrong").score(0.1).detail("rule", 3))),
            task(),
        ),
        ("stagnation", play([]).stop(rule("stagnation=3")), task()),
        (
            "env_terminal",
            play([echo("1"), echo("2")]).env(Maze),
            task(),
        ),
        ("task_validation_failed", play([echo("1")]), Task::new(" ")),
        (
            "env_capability_mismatch",
            play([echo("1")]),
            task().needs("browser"),
        ),
        (
            "context_overflow",
            talks([Ok(Reply::calls([call("a")])), overflow(), overflow()]),
            task(),
        ),
        ("unrecoverable_error", agent(fails), task()),
        (
            "cancelled_immediate",
            play([echo("1")]).cancel(cancelled),
            task(),
        ),
    ]
}

/// A run that is dropped in the middle of a tool call.
async fn abandoned(root: &Path) {
    let called = Arc::new(Notify::new());
    let hangs =
        play([echo("one"), Decision::act([Action::new("hang")])]).tool(Hang(Arc::clone(&called)));
    let writer = RunWriter::create(root, "abandoned").unwrap();
    let engine = hangs.record(writer).build().unwrap();
    tokio::select! {
        _ = engine.run("Say it, then hang.") => panic!("it hangs"),
        () = called.notified() => {}
    }
}

#[tokio::test]
async fn a_run_with_any_end_is_complete() {
    let scratch = tempfile::tempdir().unwrap();
    let root = std::env::var_os("BOARD_INTEROP_RUNS")
        .map_or_else(|| scratch.path().to_owned(), PathBuf::from);
    let mut dirs = Vec::new();
    for (name, builder, task) in runs() {
        let writer = RunWriter::create(&root, name).unwrap();
        let result = builder.record(writer).build().unwrap().run(task).await;
        assert_eq!(result.trace_error, None, "{name}");
        let manifest = std::fs::read_to_string(root.join(name).join("manifest.json")).unwrap();
        let manifest: Value = serde_json::from_str(&manifest).unwrap();
        let reason = name.split('.').next().unwrap();
        assert_eq!(
            manifest["summary"]["stop_reason"], reason,
            "{name}: {}",
            result.verdict.reading.detail
        );
        dirs.push(root.join(name));
    }
    abandoned(&root).await;
    dirs.push(root.join("abandoned"));
    let check = Command::new(BINARY)
        .arg("check")
        .args(&dirs)
        .output()
        .unwrap();
    assert!(
        check.status.success(),
        "{}",
        String::from_utf8_lossy(&check.stdout)
    );

    let manifest = std::fs::read_to_string(root.join("abandoned/manifest.json")).unwrap();
    assert_eq!(
        serde_json::from_str::<Value>(&manifest).unwrap()["status"],
        "stopped",
        "dropping a run ends it"
    );
}
