//! Long tasks: agents that plan, wait, choose between branches, or stop on their own condition.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::cast::{Actor, Decided, Device, Nothing, act, answer, engine, field};
use super::stage::{Run, Stage};
use crate::highest_score::HighestScore;
use trace_board::engine::{Action, Decision, Done, State, StepCx, Task};
use trace_board::error::Result;
use trace_board::tools::{ListDir, WriteFile};

/// A plan with nested parts.
#[derive(Debug, Serialize, Deserialize)]
struct Handbook {
    plan: Vec<Item>,
    files: Vec<String>,
}

#[derive(Debug, Serialize, Deserialize)]
struct Item {
    title: String,
    status: Status,
    parts: Vec<Part>,
}

#[derive(Debug, Serialize, Deserialize)]
struct Part {
    title: String,
    status: Status,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    waits_for: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Status {
    Todo,
    Doing,
    Blocked,
    Done,
}

const CHAPTERS: &[(&str, &[&str])] = &[
    ("install", &["packages", "first start"]),
    ("use", &["commands", "settings", "changes since last year"]),
    ("repair", &["log files", "backups"]),
];

/// A planner that ends when no work is left.
pub(super) fn plan(stage: &Stage) -> Result<Run> {
    let blocked = stage.dice.between(1, 3);
    let part = |title: &&str| Part {
        title: (*title).to_owned(),
        status: Status::Todo,
        waits_for: None,
    };
    let item = |(title, parts): &(&str, &[&str])| Item {
        title: (*title).to_owned(),
        status: Status::Todo,
        parts: parts.iter().map(part).collect(),
    };
    let mut plan: Vec<Item> = CHAPTERS.iter().map(item).collect();
    let parts = plan.iter_mut().flat_map(|item| &mut item.parts);
    if let Some(part) = parts
        .skip(usize::try_from(blocked).unwrap_or(1))
        .step_by(3)
        .next()
    {
        (part.status, part.waits_for) = (Status::Blocked, Some("repair / backups".to_owned()));
    }
    let workspace = stage.workspace()?;
    let data = Handbook {
        plan,
        files: Vec::new(),
    };
    let engine = engine(
        Actor::new(stage, "planner", data, next_part)
            .reduce(tick_off)
            .enough(all_done),
    )
    .tool(WriteFile::new(workspace.clone()))
    .tool(ListDir::new(workspace))
    .max_steps(20);
    stage.play(
        engine,
        Task::new("Write the handbook, one file per part.").id("handbook"),
    )
}

fn next_part(state: &State<Handbook>, _: &StepCx<'_>) -> Decided {
    let plan = &state.data.plan;
    let parts = || {
        plan.iter()
            .flat_map(|item| item.parts.iter().map(move |part| (item, part)))
    };
    let left = parts()
        .filter(|(_, part)| part.status != Status::Done)
        .count();
    let next = parts().find(|(_, part)| part.status == Status::Todo);
    let Some((item, part)) = next else {
        return act(
            "Everything is written. Check it once more.",
            Action::new("list_dir").arg("path", "."),
        );
    };
    let path = format!("{}/{}.md", item.title, part.title.replace(' ', "_"));
    let why = format!(
        "{left} {} to write. Next: {} / {}, which depends on nothing unfinished.",
        if left == 1 { "part" } else { "parts" },
        item.title,
        part.title
    );
    let text = format!(
        "# {}\n\nHow to {}: {}.\n",
        part.title, item.title, part.title
    );
    act(
        why,
        Action::new("write_file")
            .arg("path", path)
            .arg("text", text),
    )
}

fn tick_off(state: &mut State<Handbook>, step: &Done<'_>) {
    let path = step
        .results
        .first()
        .and_then(|result| field(&result.output, "path").as_str())
        .filter(|path| path.ends_with(".md"));
    let Handbook { plan, files } = &mut state.data;
    let mut finished = String::new();
    for item in plan.iter_mut() {
        for part in &mut item.parts {
            if path
                == Some(&*format!(
                    "{}/{}.md",
                    item.title,
                    part.title.replace(' ', "_")
                ))
            {
                part.status = Status::Done;
                finished = format!("{} / {}", item.title, part.title);
            }
        }
    }
    for item in plan.iter_mut() {
        for part in item
            .parts
            .iter_mut()
            .filter(|part| part.waits_for.as_deref() == Some(&*finished))
        {
            (part.status, part.waits_for) = (Status::Todo, None);
        }
        item.status = match item
            .parts
            .iter()
            .filter(|part| part.status == Status::Done)
            .count()
        {
            0 => Status::Todo,
            done if done == item.parts.len() => Status::Done,
            _ if item.parts.iter().any(|part| part.status == Status::Todo) => Status::Doing,
            _ => Status::Blocked,
        };
    }
    files.extend(path.map(str::to_owned));
    let done = plan
        .iter()
        .filter(|item| item.status == Status::Done)
        .count();
    state
        .metrics
        .insert("chapters_done".to_owned(), done.into());
}

fn all_done(state: &State<Handbook>) -> bool {
    state
        .data
        .plan
        .iter()
        .all(|item| item.status == Status::Done)
}

/// An agent that sets its own stop reason.
pub(super) fn agent_condition(stage: &Stage) -> Result<Run> {
    let letters = stage.dice.between(9, 14);
    let engine = engine(
        Actor::new(
            stage,
            "sorter",
            Letters {
                left: letters,
                sorted: 0,
            },
            sort,
        )
        .reduce(sorted),
    )
    .tool(Device::new(
        stage,
        "sort_letters",
        "Sorts up to `many` letters.",
        |args: Many, _| Ok(args.many.into()),
    ))
    .max_steps(12);
    stage.play(
        engine,
        Task::new("Sort the letters until the box is empty.").id("letters"),
    )
}

#[derive(Debug, Serialize, Deserialize)]
struct Letters {
    left: u64,
    sorted: u64,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Many {
    /// How many.
    many: u64,
}

fn sort(state: &State<Letters>, _: &StepCx<'_>) -> Decided {
    let many = state.data.left.min(3);
    act(
        format!("{} are left, and I can hold three.", state.data.left),
        Action::new("sort_letters").arg("many", many),
    )
}

fn sorted(state: &mut State<Letters>, step: &Done<'_>) {
    let many = step
        .results
        .first()
        .and_then(|result| result.output.as_u64())
        .unwrap_or_default();
    state.data.left = state.data.left.saturating_sub(many);
    state.data.sorted += many;
    if state.data.left == 0 {
        // The format defines this reason, so it can't be refused.
        let _ = state.set_stop("agent_condition", None);
    }
}

/// An agent that waits for a job.
pub(super) fn wait(stage: &Stage) -> Result<Run> {
    let place = stage.dice.between(2, 4);
    let queue = move |_: Nothing, cx: trace_board::engine::ToolCx<'_>| {
        let ahead = place.saturating_sub(cx.step / 2);
        let status = if ahead == 0 { "done" } else { "queued" };
        Ok(json!({"status": status, "jobs_ahead": ahead}))
    };
    let engine = engine(Actor::new(stage, "builder", Waited::default(), patience).reduce(look))
        .tool(Device::new(
            stage,
            "job_status",
            "Reports the progress of the job.",
            queue,
        ))
        .max_steps(14);
    stage.play(
        engine,
        Task::new("Wait until the build is done, then say so.").id("build"),
    )
}

#[derive(Debug, Default, Serialize, Deserialize)]
struct Waited {
    jobs_ahead: Option<u64>,
    waits: u64,
}

fn patience(state: &State<Waited>, cx: &StepCx<'_>) -> Decided {
    let Waited { jobs_ahead, waits } = state.data;
    match jobs_ahead {
        Some(0) => answer(
            "The job is done.",
            format!("The build is done, after {waits} waits."),
        ),
        Some(ahead) if !cx.step.is_multiple_of(2) => {
            let jobs = if ahead == 1 { "job is" } else { "jobs are" };
            Ok(Some(Decision::wait(format!(
                "{ahead} {jobs} ahead of ours; asking again right away wouldn't help."
            ))))
        }
        _ => act("How far along is it?", Action::new("job_status")),
    }
}

fn look(state: &mut State<Waited>, step: &Done<'_>) {
    match step.results.first() {
        Some(result) => state.data.jobs_ahead = field(&result.output, "jobs_ahead").as_u64(),
        None => state.data.waits += 1,
    }
}

/// An agent that scores three branches at each crossing.
pub(super) fn branch(stage: &Stage) -> Result<Run> {
    let engine = engine(Actor::new(stage, "hiker", Walk::default(), choose).reduce(walked))
        .tool(Device::new(
            stage,
            "walk",
            "Walks `km` kilometers along a path.",
            |args: Way, _| Ok(json!({"way": args.way, "km": args.km})),
        ))
        .selector(HighestScore)
        .max_steps(8);
    stage.play(
        engine,
        Task::new("Walk at least 12 km to the hut, and choose the best path at each crossing.")
            .id("hike"),
    )
}

#[derive(Debug, Default, Serialize, Deserialize)]
struct Walk {
    km: f64,
    ways: Vec<String>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Way {
    /// Which way.
    way: String,
    /// How far.
    km: f64,
}

fn choose(state: &State<Walk>, cx: &StepCx<'_>) -> Decided {
    if state.data.km >= 12.0 {
        let text = format!(
            "Arrived after {:.1} km: {}.",
            state.data.km,
            state.data.ways.join(", ")
        );
        return answer("The hut is in sight.", text);
    }
    let ways = [
        ("ridge", "a view, and wind"),
        ("forest", "shade, and roots"),
        ("road", "fast, and dull"),
    ];
    let candidates = ways.iter().zip([0, 16, 32]).map(|((way, why), shift)| {
        let drawn = cx.seed >> shift;
        let (km, score) = (
            2.0 + (drawn % 25) as f64 / 10.0,
            (drawn / 25 % 100) as f64 / 100.0,
        );
        Decision::act([Action::new("walk").arg("way", *way).arg("km", km)])
            .because(*why)
            .meta("score", score)
    });
    Ok(Some(
        Decision::branch(candidates).because("Three paths lead on from here."),
    ))
}

fn walked(state: &mut State<Walk>, step: &Done<'_>) {
    let Some(result) = step.results.first() else {
        return;
    };
    // Computes in tenths, because sums of fractions aren't exact.
    let tenths = |km: f64| (km * 10.0).round();
    state.data.km = (tenths(state.data.km)
        + tenths(field(&result.output, "km").as_f64().unwrap_or_default()))
        / 10.0;
    state
        .data
        .ways
        .extend(field(&result.output, "way").as_str().map(str::to_owned));
}
