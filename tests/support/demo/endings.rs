//! Runs that answer, are refused, get cancelled, fail, get killed, or recover.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::cast::{Actor, Decided, Device, Endless, Nothing, act, answer, engine, field};
use super::stage::{Run, Stage};
use trace_board::engine::{
    Action, AgentError, Cancel, Done, Resource, ResourceKind, State, StepCx, Task, ToolError,
};
use trace_board::error::Result;
use trace_board::tools::{ReadFile, WriteFile};

/// Required resources are missing.
pub(super) fn task_validation_failed(stage: &Stage) -> Result<Run> {
    stage.file("data/prices.csv", "apple;3\n");
    let engine = engine(Actor::new(stage, "clerk", (), |_, _| Ok(None)))
        .tool(ReadFile::new(stage.workspace()?, 1 << 10));
    let task = Task::new("Compare orders and prices.")
        .id("orders")
        .resource(Resource::at(ResourceKind::File, "data/prices.csv").required())
        .resource(Resource::at(ResourceKind::File, "data/orders.csv").required())
        .resource(Resource::at(ResourceKind::Dir, "archive").required());
    stage.play(engine, task)
}

/// The shortest run with an answer.
pub(super) fn final_answer(stage: &Stage) -> Result<Run> {
    let lines = stage.dice.between(20, 90);
    stage.file(
        "visitors.txt",
        &"a visitor\n".repeat(usize::try_from(lines).unwrap_or(20)),
    );
    let engine = engine(Actor::new(stage, "counter", (), count))
        .tool(stage.shell()?)
        .max_steps(4);
    stage.play(
        engine,
        Task::new("How many visitors were there?").id("visitors"),
    )
}

fn count(_: &State<()>, cx: &StepCx<'_>) -> Decided {
    let command = "echo $(($(wc -l < visitors.txt)))";
    match cx.last.first() {
        None => act(
            "Each line is a visitor.",
            Action::new("run_command").arg("command", command),
        ),
        Some(result) => {
            let many = field(&result.output, "stdout")
                .as_str()
                .unwrap_or_default()
                .trim();
            answer("That's the number.", format!("There were {many} visitors."))
        }
    }
}

#[derive(Debug, Default, Serialize, Deserialize)]
struct Boxes {
    unpacked: Vec<String>,
    store: String,
}

#[derive(Debug, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
struct Shelf {
    /// Which store.
    store: String,
}

/// One tool that succeeds at its third attempt, and another that always fails.
pub(super) fn tool_retry(stage: &Stage) -> Result<Run> {
    let boxes = stage.dice.between(3, 20);
    let open = Device::new(
        stage,
        "open_store",
        "Opens a store.",
        move |args: Shelf, cx| match (args.store.as_str(), cx.attempt) {
            ("harbour", _) => {
                Err(ToolError::new("the harbor is closed for the winter").category("closed"))
            }
            (_, 0 | 1) => Err(ToolError::new("the lock is frozen")
                .category("busy")
                .retryable()),
            (store, _) => Ok(json!({"store": store, "boxes": boxes})),
        },
    );
    let engine = engine(Actor::new(stage, "porter", Boxes::default(), fetch).reduce(unpack))
        .tool(open.takes(350).retries(2))
        .max_steps(8);
    stage.play(
        engine,
        Task::new("How many boxes are in storage?").id("boxes"),
    )
}

fn fetch(state: &State<Boxes>, cx: &StepCx<'_>) -> Decided {
    let open = |why: &str, store: &str| act(why, Action::new("open_store").arg("store", store));
    match (cx.last.first(), state.data.unpacked.first()) {
        (_, Some(boxes)) => answer(
            "The second store had them.",
            format!("There are {boxes} boxes."),
        ),
        (None, None) => open("The harbor is nearest.", "harbour"),
        (Some(failed), None) => open(
            &format!("\"{}\" Then the station.", failed.text()),
            "station",
        ),
    }
}

fn unpack(state: &mut State<Boxes>, step: &Done<'_>) {
    let Some(output) = step
        .results
        .first()
        .map(|result| &result.output)
        .filter(|output| output.is_object())
    else {
        return;
    };
    state.data.unpacked.push(field(output, "boxes").to_string());
    state.data.store = field(output, "store")
        .as_str()
        .unwrap_or_default()
        .to_owned();
}

/// An agent whose decisions keep failing until the run ends with an error.
pub(super) fn unrecoverable_error(stage: &Stage) -> Result<Run> {
    let ticket = stage.dice.between(100, 999);
    stage.file(
        "ticket.txt",
        &format!("ticket {ticket}: the printer is on fire\n"),
    );
    let engine = engine(Actor::new(stage, "operator", (), lose_the_thread))
        .tool(ReadFile::new(stage.workspace()?, 1 << 10))
        .max_steps(12);
    stage.play(engine, Task::new("Close the ticket.").id("ticket"))
}

fn lose_the_thread(_: &State<()>, cx: &StepCx<'_>) -> Decided {
    if cx.step < 2 {
        return act(
            "What does the ticket say?",
            Action::new("read_file").arg("path", "ticket.txt"),
        );
    }
    let tries = cx.step - 1;
    Err(AgentError::new(format!(
        "can't read the operator list: connection refused (try {tries})"
    )))
}

/// A user cancels the run while a tool is running.
pub(super) fn cancelled_immediate(stage: &Stage) -> Result<Run> {
    let cancel = stage.cancel.clone();
    let pump = Endless::new("pump", "Pumps until the cellar is dry.", move || {
        cancel.now()
    });
    let engine = engine(Actor::new(stage, "pumpman", (), pump_out))
        .tool(gauge(stage))
        .tool(pump)
        .max_steps(8);
    stage.play(engine, Task::new("Pump out the cellar.").id("cellar"))
}

/// Creates a gauge whose reading drops at each step.
fn gauge(stage: &Stage) -> Device<Nothing> {
    let level = stage.dice.between(40, 90);
    Device::new(
        stage,
        "read_gauge",
        "Reports the water level.",
        move |_, cx| Ok(json!({"cm": level - 3 * cx.step})),
    )
}

fn pump_out(_: &State<()>, cx: &StepCx<'_>) -> Decided {
    match cx.step {
        0 | 1 => act("How high is the water?", Action::new("read_gauge")),
        _ => act(
            "It's falling by itself, but slowly. Pump.",
            Action::new("pump"),
        ),
    }
}

/// A user cancels the run, and the current step finishes.
pub(super) fn cancelled_after_step(stage: &Stage) -> Result<Run> {
    let cancel = stage.cancel.clone();
    let gauge = gauge(stage);
    let note = Device::new(
        stage,
        "note",
        "Records the level.",
        move |_: Nothing, cx| {
            at_step(&cancel, cx.step, 3);
            Ok(Value::from("noted"))
        },
    );
    let engine = engine(Actor::new(stage, "watchman", (), watch))
        .tool(gauge)
        .tool(note)
        .max_steps(20);
    stage.play(
        engine,
        Task::new("Record the water level until evening.").id("water"),
    )
}

fn at_step(cancel: &Cancel, step: u64, wanted: u64) {
    if step == wanted {
        cancel.after_step();
    }
}

fn watch(_: &State<()>, cx: &StepCx<'_>) -> Decided {
    let tool = if cx.step.is_multiple_of(2) {
        "read_gauge"
    } else {
        "note"
    };
    act(format!("Hour {}.", cx.step / 2 + 1), Action::new(tool))
}

#[derive(Debug, Default, Serialize, Deserialize)]
struct Copying {
    copied: u64,
    of: u64,
}

/// The process is killed inside a tool, so the run is never closed.
pub(super) fn crash(stage: &Stage) -> Result<Run> {
    let of = stage.dice.between(500, 900);
    let engine =
        engine(Actor::new(stage, "archivist", Copying { copied: 0, of }, copy).reduce(copied))
            .tool(WriteFile::new(stage.workspace()?))
            .tool(Endless::new(
                "copy_all",
                "Copies everything that is left.",
                super::tell_parent,
            ))
            .max_steps(20);
    stage.play(
        engine,
        Task::new("Copy the archive to the new disk.").id("archive"),
    )
}

fn copy(state: &State<Copying>, cx: &StepCx<'_>) -> Decided {
    let Copying { copied, of } = state.data;
    if cx.step == 4 {
        return act(
            "That's too slow. Copy the rest at once.",
            Action::new("copy_all"),
        );
    }
    let action = Action::new("write_file")
        .arg("path", format!("part_{}", cx.step))
        .arg("text", "x\n".repeat(20));
    act(format!("{copied} of {of} copied; twenty more."), action)
}

fn copied(state: &mut State<Copying>, step: &Done<'_>) {
    if step
        .results
        .iter()
        .all(trace_board::engine::ToolResult::is_ok)
    {
        state.data.copied += 20;
    }
}
