//! A run of 300 steps: an observatory through a night, with looks through the telescope.

use serde::{Deserialize, Serialize};
use serde_json::json;

use super::cast::{Actor, Decided, Device, Nothing, act, engine, reviewer};
use super::stage::{Dice, Run, Stage};
use trace_board::engine::{Action, CriticCx, Decision, Done, Opinion, State, StepCx, Task};
use trace_board::error::Result;

const STEPS: u64 = 300;
/// The observer looks every this many steps and waits in between, which also keeps the trace small.
const LOOK: u64 = 4;
/// Number of steps between entries in the book.
const ENTRY: u64 = 20;

#[derive(Debug, Default, Serialize, Deserialize)]
struct Night {
    /// In hundredths of an arc second.
    drift: i64,
    book: Vec<String>,
}

/// A long run whose critics' scores wander.
pub(super) fn long(stage: &Stage) -> Result<Run> {
    let night = stage.dice.between(0, u64::from(u32::MAX));
    let look = Device::new(
        stage,
        "look",
        "Looks through the telescope.",
        move |_: Nothing, cx| Ok(json!(Dice::new(night ^ cx.step << 32).between(0, 8))),
    );
    let engine = engine(Actor::new(stage, "observer", Night::default(), watch).reduce(write_down))
        .tool(look)
        .critic(reviewer("air", air))
        .critic(reviewer("aim", aim));
    stage.play(
        engine,
        Task::new("Follow the star until morning.")
            .id("night")
            .max_steps(STEPS),
    )
}

fn watch(state: &State<Night>, cx: &StepCx<'_>) -> Decided {
    if !cx.step.is_multiple_of(LOOK) {
        return Ok(Some(Decision::default()));
    }
    let why = match state.data.drift {
        _ if cx.step.is_multiple_of(ENTRY) => "Time to write it down.",
        drift if drift.abs() > 20 => "It's moving away.",
        _ => "Steady.",
    };
    act(why, Action::new("look"))
}

fn write_down(state: &mut State<Night>, step: &Done<'_>) {
    let night = &mut state.data;
    let Some(moved) = step
        .results
        .first()
        .and_then(|result| result.output.as_i64())
    else {
        return;
    };
    night.drift += moved - 4;
    if step.step.is_multiple_of(ENTRY) {
        night.book.push(format!("{}: {}", step.step, night.drift));
    }
}

/// The air is calmer around midnight, but never still.
fn air(step: &CriticCx<'_, Night>) -> Opinion {
    let from_midnight = (2.0 * step.step as f64 - STEPS as f64) / STEPS as f64;
    let gust = Dice::new(step.step).between(0, 20) as f64 / 100.0;
    Opinion::proceed("").score(hundredths(0.9 - 0.5 * from_midnight * from_midnight - gust))
}

/// The smaller the drift, the better the score.
fn aim(step: &CriticCx<'_, Night>) -> Opinion {
    let drift = step.state.data.drift.abs();
    let opinion = Opinion::proceed(if drift > 40 { "far off" } else { "" });
    opinion.score(hundredths(1.0 / (1.0 + drift as f64 / 25.0)))
}

/// Rounds to two decimals, which is all a reader needs.
fn hundredths(score: f64) -> f64 {
    (score * 100.0).round() / 100.0
}
