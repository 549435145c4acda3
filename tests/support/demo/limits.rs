//! Runs that hit a limit or loop, from agents that never finish by themselves.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::cast::{Actor, Decided, Device, act, ask, calls, engine, field, says};
use super::stage::{Run, Stage};
use trace_board::engine::{Action, Decision, Done, Scripted, State, StepCx, Task};
use trace_board::error::Result;
use trace_board::stop::{Gate, Keyword, LoopDetection, MaxRounds, Stagnation, StopOnTool};
use trace_board::tools::{ListDir, ReadFile, Search};

/// A reader's position in a file.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Reading {
    next_line: u64,
    errors: Vec<String>,
}

/// An agent that reads a log longer than its step budget.
pub(super) fn budget_steps(stage: &Stage) -> Result<Run> {
    let mut log = String::new();
    for minute in 0..60 {
        let (level, disk) = (
            stage
                .dice
                .pick(&["INFO ", "INFO ", "INFO ", "ERROR"], "INFO "),
            stage.dice.between(40, 99),
        );
        log.push_str(&format!("10:{minute:02} {level} disk {disk} %\n"));
    }
    stage.file("server.log", &log);
    let engine = engine(
        Actor::new(
            stage,
            "reader",
            Reading {
                next_line: 1,
                errors: Vec::new(),
            },
            read_on,
        )
        .reduce(noted),
    )
    .tool(ReadFile::new(stage.workspace()?, 1 << 10));
    stage.play(
        engine,
        Task::new("Find every error in server.log.")
            .id("log")
            .max_steps(6),
    )
}

fn read_on(state: &State<Reading>, _: &StepCx<'_>) -> Decided {
    let (line, found) = (state.data.next_line, state.data.errors.len());
    let action = Action::new("read_file")
        .arg("path", "server.log")
        .arg("start_line", line)
        .arg("end_line", line + 7);
    act(
        format!("{found} errors so far; the next eight lines."),
        action,
    )
}

fn noted(state: &mut State<Reading>, step: &Done<'_>) {
    let Some(result) = step.results.first() else {
        return;
    };
    state.data.next_line = field(&result.output, "end_line")
        .as_u64()
        .unwrap_or_default()
        + 1;
    let lines = field(&result.output, "text")
        .as_str()
        .unwrap_or_default()
        .lines();
    state.data.errors.extend(
        lines
            .filter(|line| line.contains("ERROR"))
            .map(str::to_owned),
    );
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Frame {
    /// Which picture of the film.
    frame: u64,
}

/// An agent whose tool is too slow for its time budget.
pub(super) fn budget_time(stage: &Stage) -> Result<Run> {
    let render = Device::new(
        stage,
        "render",
        "Renders one frame of the film.",
        |args: Frame, _| Ok(json!({"frame": args.frame, "pixels": 921_600})),
    );
    let engine = engine(Actor::new(stage, "renderer", (), next_frame))
        .tool(render.takes(stage.dice.between(1_400, 2_400)))
        .max_runtime(Duration::from_secs(12))
        .max_steps(40);
    stage.play(
        engine,
        Task::new("Render the film frame by frame.").id("film"),
    )
}

fn next_frame(_: &State<()>, cx: &StepCx<'_>) -> Decided {
    act(
        format!("{} frames are done.", cx.step),
        Action::new("render").arg("frame", cx.step + 1),
    )
}

/// A model that uses up its token budget while reading.
pub(super) fn budget_tokens(stage: &Stage) -> Result<Run> {
    let mut replies = Vec::new();
    for chapter in 1..=8 {
        let name = format!("book/chapter_{chapter}.txt");
        stage.file(
            &name,
            &format!(
                "Chapter {chapter}\n\nIt was night number {}.\n",
                stage.dice.between(100, 999)
            ),
        );
        let usage = (
            350 * chapter + stage.dice.between(10, 90),
            stage.dice.between(30, 60),
        );
        let thought = format!("Chapter {chapter} may say which night it was.");
        replies.push(calls(
            &thought,
            &format!("call_{chapter}"),
            "read_file",
            &json!({"path": name}),
            usage,
        ));
    }
    let engine = engine(Actor::new(stage, "bookworm", (), ask))
        .model(Scripted::new(replies))
        .tool(ReadFile::new(stage.workspace()?, 1 << 10));
    stage.play(
        engine,
        Task::new("Which nights does the book describe?")
            .id("book")
            .max_steps(20)
            .max_tokens(4_000),
    )
}

/// A model whose last round is a rejected answer: the text is kept, but the run has no answer.
pub(super) fn max_rounds(stage: &Stage) -> Result<Run> {
    stage.file(
        "stock.txt",
        &format!(
            "apples {}\npears {}\n",
            stage.dice.between(3, 30),
            stage.dice.between(3, 30)
        ),
    );
    let replies = [
        calls(
            "See what's in stock.",
            "call_1",
            "list_dir",
            &json!({"path": "."}),
            (420, 28),
        ),
        calls(
            "The file says so.",
            "call_2",
            "read_file",
            &json!({"path": "stock.txt"}),
            (610, 30),
        ),
        says("There are apples and pears, I'm almost sure.", (740, 22)),
    ];
    let workspace = stage.workspace()?;
    let engine = engine(Actor::new(stage, "storekeeper", (), ask))
        .model(Scripted::new(replies))
        .tool(ListDir::new(workspace.clone()))
        .tool(ReadFile::new(workspace, 1 << 10))
        .stop(Keyword {
            keyword: "TOTAL".to_owned(),
        })
        .stop(MaxRounds { rounds: 3 });
    stage.play(
        engine,
        Task::new("How much fruit is in stock? End with TOTAL and the number.").id("stock"),
    )
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Named {
    /// Which one.
    name: String,
}

/// An agent that calls a forbidden tool.
pub(super) fn stop_on_tool(stage: &Stage) -> Result<Run> {
    stage.file("branches.txt", "main\nold-menu\nold-login\n");
    let delete = Device::new(
        stage,
        "delete_branch",
        "Deletes a branch permanently.",
        |args: Named, _| Ok(json!({"deleted": args.name})),
    );
    let engine = engine(Actor::new(stage, "janitor", (), clean_up))
        .tool(ReadFile::new(stage.workspace()?, 1 << 10))
        .tool(delete)
        .stop(StopOnTool {
            tool_name: "delete_branch".to_owned(),
        })
        .max_steps(8);
    stage.play(
        engine,
        Task::new("Say which branches are old.").id("branches"),
    )
}

fn clean_up(_: &State<()>, cx: &StepCx<'_>) -> Decided {
    let read = Action::new("read_file").arg("path", "branches.txt");
    if cx.step == 0 {
        return act("The branches are listed in a file.", read);
    }
    let both = [read, Action::new("delete_branch").arg("name", "old-menu")];
    Ok(Some(Decision::act(both).because(
        "old-menu looks old. Check once more, then delete it.",
    )))
}

/// An agent that learns nothing from what it reads.
pub(super) fn stagnation(stage: &Stage) -> Result<Run> {
    let door = stage.dice.between(2, 9);
    stage.file("riddle.txt", &format!("Behind door {door} is a liar.\n"));
    let engine = engine(Actor::new(stage, "riddler", Reading::default(), stare))
        .tool(ReadFile::new(stage.workspace()?, 1 << 10))
        .stop(Stagnation { steps: 4 })
        .max_steps(20);
    stage.play(engine, Task::new("Solve the riddle.").id("riddle"))
}

fn stare(_: &State<Reading>, cx: &StepCx<'_>) -> Decided {
    let why = [
        "Read it.",
        "Read it again.",
        "Maybe slowly.",
        "Maybe backwards.",
    ];
    let at = usize::try_from(cx.step).unwrap_or_default() % why.len();
    act(
        why.get(at).copied().unwrap_or_default(),
        Action::new("read_file").arg("path", "riddle.txt"),
    )
}

/// The agent's calls, as its own stop rule counts them.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Asked {
    patterns: Vec<String>,
}

/// An agent that alternates between the same two searches until a custom stop rule ends the run.
pub(super) fn tool_loop(stage: &Stage) -> Result<Run> {
    let key = stage
        .dice
        .pick(&["timeout", "retries", "colour"], "timeout");
    stage.file(
        "settings.toml",
        &format!("{key} = {}\n", stage.dice.between(3, 90)),
    );
    let engine = engine(Actor::new(stage, "seeker", Asked::default(), seek).reduce(remember))
        .tool(Search::new(stage.workspace()?))
        .rules(|rules| {
            rules.policy_when("asked_three_times", Gate::AfterStep, |cx| {
                let asked = cx
                    .state
                    .data
                    .get("patterns")
                    .and_then(Value::as_array)
                    .map_or(&[][..], Vec::as_slice);
                asked
                    .iter()
                    .any(|one| asked.iter().filter(|other| *other == one).count() >= 3)
            })
        })
        .max_steps(20);
    stage.play(
        engine,
        Task::new("Where is the password kept?").id("password"),
    )
}

fn seek(_: &State<Asked>, cx: &StepCx<'_>) -> Decided {
    let pattern = if cx.step.is_multiple_of(2) {
        "password"
    } else {
        "passwd"
    };
    act(
        format!("It may be called {pattern}."),
        Action::new("search").arg("pattern", pattern),
    )
}

fn remember(state: &mut State<Asked>, step: &Done<'_>) {
    let patterns = step
        .decision
        .actions
        .iter()
        .filter_map(|action| action.args.get("pattern")?.as_str());
    state.data.patterns.extend(patterns.map(str::to_owned));
}

/// A model that repeats itself.
pub(super) fn model_loop(stage: &Stage) -> Result<Run> {
    stage.file(
        "todo.txt",
        &format!("call number {}\n", stage.dice.between(1_000, 9_999)),
    );
    let same = |n: u64| {
        let usage = (300 + 90 * n, 25);
        calls(
            "I'll read the list to see what to do.",
            &format!("call_{n}"),
            "read_file",
            &json!({"path": "todo.txt"}),
            usage,
        )
    };
    let first = calls(
        "Is there a list?",
        "call_0",
        "list_dir",
        &json!({"path": "."}),
        (280, 20),
    );
    let workspace = stage.workspace()?;
    let engine = engine(Actor::new(stage, "helper", (), ask))
        .model(Scripted::new(
            std::iter::once(first).chain((1..9).map(same)),
        ))
        .tool(ListDir::new(workspace.clone()))
        .tool(ReadFile::new(workspace, 1 << 10))
        .stop(LoopDetection { window: 3 })
        .max_steps(12);
    stage.play(engine, Task::new("Do what is on the list.").id("todo"))
}
