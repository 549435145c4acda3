//! A judge and a retry: one model writes, another scores the text, and a low score triggers a
//! retry.
//!
//! Run `cargo run --example judge_and_retry`, then `board serve runs`. The scores rise from step to
//! step, and the judge's tokens count as the run's. Both models here are lists of scripted replies.

use std::error::Error;
use std::path::Path;

use trace_board::engine::{
    ChatModel, Critic, CriticCx, CriticError, Engine, LastCalls, Message, ModelAgent, Opinion,
    Reply, Request, RunResult, Scripted,
};
use trace_board::trace::RunWriter;

/// The lowest score that is accepted.
const ENOUGH: f64 = 0.7;

/// A critic that calls a model.
struct Judge<M> {
    model: M,
}

impl<D: Sync, M: ChatModel> Critic<D> for Judge<M> {
    fn name(&self) -> &str {
        "judge"
    }

    async fn judge(&self, step: CriticCx<'_, D>) -> Result<Opinion, CriticError> {
        let Some(answer) = step.answer() else {
            return Ok(Opinion::proceed("no answer yet"));
        };
        let question = format!(
            "Rate the clarity of this sentence from 0 to 1, then say what it lacks:\n{answer}"
        );
        let request = Request::new(vec![Message::user(question)]);
        let reply = self.model.complete(&request, &|_| ()).await?;
        let (score, lacks) = reply.text.split_once(' ').unwrap_or((&reply.text, ""));
        // A critic that fails ends the run, with this error as the reason. To continue instead,
        // return an opinion.
        let score: f64 = score
            .parse()
            .map_err(|_| CriticError::new(format!("the judge gave no score: {}", reply.text)))?;
        let opinion = if score < ENOUGH {
            Opinion::retry(lacks).instruction(lacks)
        } else {
            Opinion::proceed(lacks)
        };
        Ok(opinion.score(score).usage(reply.usage.unwrap_or_default()))
    }
}

/// Runs the agent and records its trace below `runs`.
pub async fn run(runs: &Path) -> Result<RunResult<LastCalls>, Box<dyn Error>> {
    let writer = Scripted::new([
        Reply::text("The cache is invalidated on mutation.").usage(60, 9),
        Reply::text("When you change a file, the board reads it again.").usage(110, 12),
        Reply::text(
            "When a file changes, the board reads only the new part and shows it immediately.",
        )
        .usage(160, 17),
    ]);
    let judge = Scripted::new([
        Reply::text("0.3 Who does what? Write it for users.").usage(40, 11),
        Reply::text("0.6 Does it read the whole file again?").usage(40, 8),
        Reply::text("0.9 nothing").usage(44, 4),
    ]);
    let engine = Engine::builder(ModelAgent::new("writer", ""))
        .model(writer)
        .critic(Judge { model: judge })
        .max_steps(5)
        .record(RunWriter::create(runs, "judge_and_retry")?)
        .build()?;
    Ok(engine
        .run("Explain in one sentence how the board follows files.")
        .await)
}

#[tokio::main(flavor = "current_thread")]
#[allow(
    dead_code,
    clippy::print_stdout,
    reason = "a test includes this file and calls `run`"
)]
async fn main() -> Result<(), Box<dyn Error>> {
    let result = run(Path::new("runs")).await?;
    println!(
        "{} after {} steps: {}",
        result.verdict.code,
        result.step_count,
        result.require_answer()?
    );
    Ok(())
}
