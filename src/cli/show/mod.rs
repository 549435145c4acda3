//! `board show`: prints a run, one of its steps, or its events, as text or JSON.

use std::io::{self, Write};
use std::path::PathBuf;

use clap::ValueEnum;
use serde::Serialize;

use super::command::{Done, Failure, write_json};
use super::config::Settings;
use super::look::{Ink, Look, ink_of};
use super::open::open;
use super::outline;
use crate::analysis::diff::{Kind as PieceKind, changes_of_step, same};
use crate::analysis::format::{
    age, bound, bytes, clock, count, counted, lowered, millis, offset, or_missing, score,
    visible_line,
};
use crate::analysis::health;
use crate::analysis::life::Liveness;
use crate::analysis::run_document;
use crate::analysis::stated;
use crate::analysis::step_document;
use crate::analysis::timing::began;
use crate::analysis::verdict::{LimitFrom, reading};
use crate::error::{Error, Kind, Result};
use crate::format;
use crate::model::index::Segment;
use crate::model::json::Json;
use crate::model::repair::repair;
use crate::model::step::Value;
use crate::model::time::Stamp;
use crate::model::{Certainty, EventHead, EventKind, Index, Record, StepHead, TraceFile};
use crate::page::run::markdown;
use crate::page::step::fill::LEFT;
use crate::recorded::RecordedRun;

const WEEK_MICROS: u64 = 7 * 86_400 * 1_000_000;

mod transcript;

/// Limits the steps without a line that are listed. The issues list all of them.
const MAX_UNWRITTEN: usize = 8;

/// The fields shown first, in this order.
const FIRST: [&str; 5] = [
    "decision",
    "actions",
    "action_results",
    "tool_invocations",
    "critic_outputs",
];
/// Fields already shown in the step's heading.
const IN_HEAD: [&str; 2] = ["step_id", "agent_id"];
/// Limits the pieces shown of a changed value. Its row counts all of them.
const MAX_PIECES: usize = 40;
/// The length in bytes at which a piece is truncated, with a note.
const MAX_PIECE_BYTES: usize = 2_000;

/// Show a run, one of its steps, or its events
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[arg(value_name = "RUN", help = super::command::RUN)]
    run: PathBuf,
    /// Show one step in full; steps are counted from 0
    #[arg(long, value_name = "N", allow_hyphen_values = true, value_parser = super::command::whole_number::<usize>)]
    step: Option<usize>,
    /// List the steps of a session, one per line, instead of its transcript
    #[arg(long, conflicts_with = "step")]
    steps: bool,
    /// Show the events of the run or step
    #[arg(long)]
    events: bool,
    /// The output format; md is a transcript for pasting
    #[arg(long, value_enum, default_value_t)]
    format: Format,
    /// Print one JSON document; same as `--format json`
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    settings: Settings,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
enum Format {
    #[default]
    Text,
    Md,
    Json,
}

/// A run with the heads of all its steps.
#[derive(Debug, Serialize)]
struct Whole<'a> {
    #[serde(flatten)]
    row: run_document::Run<'a>,
    steps_list: Vec<step_document::StepSummary>,
}

pub(super) fn run(args: &Args, look: &Look, out: &mut dyn Write) -> Done {
    if args.json && args.format == Format::Md {
        return Err(Error::new(Kind::Usage, "--json and --format md exclude each other").into());
    }
    let run = open(&args.run, look.now)?
        .with_near(&args.run, look.now)
        .priced(&args.settings.read()?.prices);
    let json = args.json || args.format == Format::Json;
    match args.step {
        Some(n) if !json && args.format == Format::Md => {
            check_step(&run, n)?;
            markdown::write(out, &run.view(look), Some(n..n + 1))?;
        }
        None if !json && args.format == Format::Md => {
            markdown::write(out, &run.view(look), None)?;
        }
        Some(n) => {
            check_step(&run, n)?;
            if json {
                write_step_json(out, &run, n)?
            } else {
                write_step(out, &run, n, args.events, look)?
            }
        }
        None if args.events && json => write_events_json(out, &run)?,
        None if json => {
            let manifest = run.manifest();
            let row = run_document::run(&run.summary, &run.index, manifest.as_deref());
            let heads = step_document::steps(&run.index, None, usize::MAX).steps;
            write_json(
                out,
                &Whole {
                    row,
                    steps_list: heads,
                },
            )?;
        }
        None => {
            write_head(out, &run, look)?;
            if args.events {
                write_events(out, &run, look)?
            } else if run.view(look).is_conversation()
                && !args.steps
                && !run.index.steps().is_empty()
            {
                transcript::write(out, &run, look)?
            } else {
                write_steps(out, &run, look)?
            }
        }
    }
    Ok(0)
}

/// Returns an error if the run has no step `n`.
pub(super) fn check_step(run: &RecordedRun, n: usize) -> Result<()> {
    let total = run.index.steps().len();
    if n < total {
        return Ok(());
    }
    let path = &*run.summary.path;
    let has = run.summary.has_steps(path, &run.index, total);
    let what = match total {
        0 => format!("there is no step {n} in {path}: {}", lowered(&has)),
        _ => format!("there is no step {n}: {has}"),
    };
    Err(Error::new(Kind::NotFound, what))
}

/// Writes the verdict and the facts of the run, one per line.
fn write_head(out: &mut dyn Write, run: &RecordedRun, look: &Look) -> io::Result<()> {
    let summary = &run.summary;
    let verdict = &summary.verdict;
    let mark = look.paint(ink_of(summary), summary.shown_status().as_str());
    writeln!(
        out,
        "{}  {mark}",
        look.paint(Ink::Heading, &visible_line(run.name()))
    )?;
    writeln!(out, "{}.", visible_line(&verdict.sentence))?;
    if !verdict.second.is_empty() {
        writeln!(out, "{}", visible_line(&verdict.second))?;
    }
    writeln!(out)?;
    let at = |micros: i64| {
        // For an older time, the date is enough.
        let recent = look.now.abs_diff(micros) < WEEK_MICROS;
        let age = if recent {
            format!(", {}", age(micros, look.now, &look.zone))
        } else {
            String::new()
        };
        Some(format!("{}{age}", moment(micros, look)?))
    };
    let mut fact = |name: &str, value: Option<String>| match value {
        Some(value) => writeln!(
            out,
            "{}  {}",
            look.paint(Ink::Dim, &format!("{name:<8}")),
            visible_line(&value)
        ),
        None => Ok(()),
    };
    fact(
        "run id",
        summary
            .run_id
            .as_deref()
            .filter(|id| *id != summary.key.as_str())
            .map(str::to_owned),
    )?;
    fact("title", summary.recorded_title().map(str::to_owned))?;
    fact("task", summary.task.as_deref().map(str::to_owned))?;
    fact("target", summary.target.as_deref().map(str::to_owned))?;
    fact("model", summary.models_words())?;
    fact(
        "agents",
        Some(summary.agents.join(", ")).filter(|agents| !agents.is_empty()),
    )?;
    fact("parent", summary.parent.as_deref().map(str::to_owned))?;
    fact(
        "continues",
        summary
            .continues
            .as_ref()
            .map(|thread| format!("thread {thread}")),
    )?;
    fact("status", Some(summary.shown_status().as_str().to_owned()))?;
    fact("liveness", Some(liveness(run)))?;
    fact("recorded", Some(recorded(run)))?;
    fact("ended by", rule(&run.index))?;
    let among = || {
        format!(
            "the newest of {} in this directory; numbers cover only this run",
            summary.runs_here()
        )
    };
    fact("run", (summary.runs_here() > 1).then(among))?;
    fact("steps", Some(steps(run)))?;
    fact(
        "events",
        summary.events_known().map(|events| count(events as u64)),
    )?;
    let disputed = |unit| stated::disputed_in_words(&run.index, unit);
    fact("tokens", summary.tokens_words().or(disputed("tokens")))?;
    fact("cost", summary.cost_words().or(disputed("usd")))?;
    fact("duration", summary.took_words().or(disputed("ms")))?;
    let noted = |micros| {
        let at = at(micros)?;
        Some(match run.index.lacks_offset() {
            true => format!("{} (UTC assumed)", at.trim_end_matches(" UTC")),
            false => at,
        })
    };
    fact("started", summary.started.and_then(noted))?;
    fact("updated", summary.updated.and_then(noted))?;
    fact(
        "critics",
        Some(summary.critics.join(", ")).filter(|critics| !critics.is_empty()),
    )?;
    fact("issues", issues(run))?;
    if let Some(answer) = &summary.answer {
        writeln!(out, "\n{}", look.paint(Ink::Heading, "answer"))?;
        outline::block(out, 1, answer)?;
    }
    writeln!(out)
}

/// Formats a time on the reader's clock, with date and zone.
fn moment(micros: i64, look: &Look) -> Option<String> {
    clock(
        Stamp {
            micros,
            zoned: true,
        },
        &look.zone,
    )
    .map(|clock| clock.title)
}

/// Describes the liveness.
fn liveness(run: &RecordedRun) -> String {
    let word = run.summary.life.liveness.word();
    match run.summary.verdict.certainty {
        // What isn't known can't be inferred.
        _ if run.summary.life.liveness == Liveness::Unknown => word.to_owned(),
        Certainty::Inferred => format!("{word} (inferred)"),
        Certainty::Recorded | Certainty::Unknown => word.to_owned(),
    }
}

/// Describes what the files record about the end.
fn recorded(run: &RecordedRun) -> String {
    let summary = &run.summary;
    let has_manifest = !run.index.format().is_one_file();
    let status = match &summary.status {
        Some(status) => format!("manifest status {status}, "),
        None if has_manifest => "no manifest status, ".to_owned(),
        None => String::new(),
    };
    let reason = summary.verdict.stop_reason.as_ref();
    let reason = reason.map(|reason| format!("stop reason {reason}"));
    let disputed =
        || stated::end_by_who(&run.index).map(|said| format!("disputed stop reason: {said}"));
    let reason = reason
        .or_else(disputed)
        .unwrap_or_else(|| "no stop reason".to_owned());
    format!("{status}{reason}")
}

/// Returns the rule that ended the run, if recorded.
fn rule(index: &Index) -> Option<String> {
    let stop = index.stop()?;
    let detail = reading(stop)
        .or_else(|| Some(stop.reading.detail.to_string()).filter(|detail| !detail.is_empty()));
    Some(format!(
        "{}{}",
        stop.criterion,
        detail.map_or_else(String::new, |detail| format!(": {detail}"))
    ))
}

fn steps(run: &RecordedRun) -> String {
    let summary = &run.summary;
    let steps = summary
        .steps_known()
        .map_or_else(|| "unknown".to_owned(), |steps| count(steps as u64));
    let failed = summary.steps_with_failures();
    let failed = if failed > 0 {
        format!(", {} failed", count(failed as u64))
    } else {
        String::new()
    };
    let nested = match summary.steps_nested {
        0 => String::new(),
        nested => format!(", {} by sub-agents", count(nested as u64)),
    };
    let limit = summary
        .verdict
        .limit
        .map_or_else(String::new, |limit| match limit.from {
            LimitFrom::Inferred => String::new(),
            LimitFrom::State => format!(" (state.max_steps is {})", limit.steps),
            _ if summary.steps_known().is_none() => format!(" (limit {})", limit.steps),
            _ => format!(" of {}", limit.steps),
        });
    format!("{steps}{limit}{nested}{failed}")
}

fn issues(run: &RecordedRun) -> Option<String> {
    let (issues, problems) = run.summary.issues;
    let path = run.summary.path.trim_end_matches('/');
    (issues > 0).then(|| {
        let counts = health::in_words((issues, problems));
        format!("{counts}; see board check {path}")
    })
}

/// Writes a line for each step, followed by errors and critic requests.
fn write_steps(
    out: &mut dyn Write,
    run: &RecordedRun,
    look: &Look,
) -> std::result::Result<(), Failure> {
    let index = &run.index;
    let total = index.steps().len();
    if total == 0 {
        writeln!(out, "{}.", run.summary.no_step(index))?;
        return Ok(write_unwritten(out, index, look)?);
    }
    let width = (total - 1).to_string().len().max("n".len());
    let relabelled = index
        .steps()
        .iter()
        .enumerate()
        .any(|(n, step)| step.step_id != Some(n as i64));
    let label_head = if relabelled {
        format!("{:>6}  ", "id")
    } else {
        String::new()
    };
    let scored = index
        .steps()
        .iter()
        .any(|step| step.lowest_score().is_some());
    let score_head = if scored {
        format!("{:>5}  ", "score")
    } else {
        String::new()
    };
    let head = format!(
        "{:>width$}  {label_head}{:>11}  {score_head}what",
        "n", "took"
    );
    writeln!(out, "{}", look.paint(Ink::Dim, &head))?;
    let mut segment = Some(0);
    for n in 0..total {
        let (Some(step), Some(head)) = (index.steps().get(n), step_document::summary(index, n))
        else {
            continue;
        };
        if head.segment.is_some() && head.segment != segment {
            segment = head.segment;
            let began = segment.and_then(|at| index.segments().get(at));
            let branched = index
                .manifest()
                .get()
                .and_then(|manifest| manifest.branched_after)
                == Some(n as u64);
            let upto = index
                .segments()
                .iter()
                .take(segment.unwrap_or_default() + 1);
            let words = if branched {
                "the steps above are copied from its parent".to_owned()
            } else if began.is_some_and(Segment::continues_previous) {
                "resumed here".to_owned()
            } else {
                format!(
                    "run {} in this directory",
                    upto.filter(|segment| !segment.continues_previous()).count()
                )
            };
            writeln!(out, "{}", look.paint(Ink::Dim, &format!("-- {words}")))?;
        }
        let label = head
            .step_id
            .map_or_else(|| "-".to_owned(), |id| id.to_string());
        let label = if relabelled {
            format!("{label:>6}  ")
        } else {
            String::new()
        };
        let took = or_missing(head.duration_ms, millis);
        let lowest = or_missing(step.lowest_score(), score);
        let lowest = if scored {
            format!("{lowest:>5}  ")
        } else {
            String::new()
        };
        let start = format!("{n:>width$}  {label}{took:>11}  {lowest}");
        writeln!(out, "{start}{}", what(step, index, look))?;
        let indent = " ".repeat(start.chars().count());
        for (ink, note) in notes(&head, step.critic_reason.as_deref()) {
            writeln!(out, "{indent}{}", look.paint(ink, &visible_line(&note)))?;
        }
    }
    Ok(write_unwritten(out, index, look)?)
}

/// Writes the steps that only events record: the running one, or the one in which the run died.
fn write_unwritten(out: &mut dyn Write, index: &Index, look: &Look) -> io::Result<()> {
    let unwritten = index.groups_without_line();
    for at in unwritten.iter().copied().take(MAX_UNWRITTEN) {
        let Some(group) = index.groups().get(at) else {
            continue;
        };
        let id = group
            .step_id
            .map_or_else(|| "a step".to_owned(), |id| format!("step {id}"));
        let events = counted(group.end - group.first, "event");
        let decided = group
            .decision()
            .map_or_else(String::new, |call| format!(": {call}"));
        let line = match health::interrupted_round_note(index, at) {
            "" => format!("{id} has {events} but no line in steps.jsonl{decided}"),
            // The step may have a line by now, from when it was repeated.
            note => {
                let have = if group.end - group.first == 1 {
                    "has"
                } else {
                    "have"
                };
                format!("{events} of {id} {have} no matching line{note}")
            }
        };
        writeln!(out, "{}", visible_line(&line))?;
        if let Some((_, error)) = &group.error {
            writeln!(
                out,
                "  {}",
                look.paint(Ink::Bad, &visible_line(&format!("error: {error}")))
            )?;
        }
    }
    match unwritten.len().saturating_sub(MAX_UNWRITTEN) {
        0 => Ok(()),
        more => writeln!(out, "and {} more", count(more as u64)),
    }
}

fn what(step: &StepHead, index: &Index, look: &Look) -> String {
    match index.name(step.mode) {
        _ if !step.fate.is_readable() && step.call.is_empty() => {
            look.paint(Ink::Bad, "unreadable line")
        }
        _ if !step.fate.is_readable() => look.paint(Ink::Bad, &step.call),
        _ if !step.call.is_empty() => visible_line(&step.call).into_owned(),
        "" => look.paint(Ink::Bad, "no decision"),
        mode => visible_line(mode).into_owned(),
    }
}

fn notes(head: &step_document::StepSummary, critic_reason: Option<&str>) -> Vec<(Ink, String)> {
    let mut notes = Vec::new();
    if let Some(error) = &head.error {
        notes.push((Ink::Bad, format!("error: {error}")));
    }
    if let Some(code) = head.returncode {
        let printed = head.printed.as_deref();
        let printed = printed.map_or_else(String::new, |line| format!(": {line}"));
        notes.push((Ink::Bad, format!("exit code {code}{printed}")));
    }
    if head.left {
        notes.push((Ink::Dim, LEFT.to_owned()));
    }
    let asked = head
        .critics
        .iter()
        .find(|critic| matches!(critic.action, "retry" | "stop"));
    if let Some(critic) = asked {
        let reason = critic_reason.filter(|reason| !reason.is_empty());
        let reason = reason.map_or_else(String::new, |reason| format!(": {reason}"));
        notes.push((
            Ink::Warning,
            format!("{} requested a {}{reason}", critic.name, critic.action),
        ));
    }
    notes
}

/// Reads the line of an event.
fn event_line(run: &RecordedRun, n: usize) -> Result<Vec<u8>> {
    let span = run
        .index
        .events()
        .get(n)
        .map(|event| event.span)
        .unwrap_or_default();
    run.line(TraceFile::Events, span)
}

/// Writes the step with its lines as one document.
fn write_step_json(
    out: &mut dyn Write,
    run: &RecordedRun,
    n: usize,
) -> std::result::Result<(), Failure> {
    let line = line_of(run, n)?;
    let events = events_of(run, n)?;
    match step_document::step(&run.index, n, &line, &events) {
        Some(step) => write_json(out, &step),
        None => Ok(()),
    }
}

/// Writes the step as text.
fn write_step(
    out: &mut dyn Write,
    run: &RecordedRun,
    n: usize,
    events: bool,
    look: &Look,
) -> std::result::Result<(), Failure> {
    let line = line_of(run, n)?;
    let (text, repairs) = repair(&line);
    write_step_head(out, run, n, look)?;
    repairs.iter().try_for_each(|what| {
        writeln!(
            out,
            "{}",
            look.paint(Ink::Warning, &format!("repaired: {what}"))
        )
    })?;
    match Json::parse(&text) {
        Some(Json::Object(members)) => write_record(out, &Json::Object(members), look)?,
        _ => {
            heading(out, "the unreadable line", look)?;
            outline::block(out, 1, &String::from_utf8_lossy(&line))?;
        }
    }
    if events {
        let range = step_document::events_of(&run.index, n);
        heading(out, "events", look)?;
        if range.is_empty() {
            writeln!(
                out,
                "  No events can be attributed to this step with certainty."
            )?;
        }
        for (at, line) in range.zip(events_of(run, n)?) {
            let text = repair(&line).0;
            match Json::parse(&text) {
                Some(event) => outline::write(out, 1, &at.to_string(), &event, look)?,
                None => outline::block(out, 1, &String::from_utf8_lossy(&line))?,
            }
        }
    }
    Ok(())
}

fn line_of(run: &RecordedRun, n: usize) -> Result<Vec<u8>> {
    let span = run
        .index
        .steps()
        .get(n)
        .map(|step| step.span)
        .unwrap_or_default();
    run.line(TraceFile::Steps, span)
}

fn events_of(run: &RecordedRun, n: usize) -> Result<Vec<Vec<u8>>> {
    step_document::events_of(&run.index, n)
        .map(|at| event_line(run, at))
        .collect()
}

fn write_step_head(
    out: &mut dyn Write,
    run: &RecordedRun,
    n: usize,
    look: &Look,
) -> io::Result<()> {
    let (Some(step), Some(head)) = (
        run.index.steps().get(n),
        step_document::summary(&run.index, n),
    ) else {
        return Ok(());
    };
    let label = match head.step_id {
        Some(id) if id == n as i64 => String::new(),
        Some(id) => format!(", recorded as step {id}"),
        None => ", recorded without an id".to_owned(),
    };
    let title = format!("step {n} of {}", visible_line(run.name()));
    writeln!(out, "{}{label}", look.paint(Ink::Heading, &title))?;
    writeln!(out, "{}", what(step, &run.index, look))?;
    for (ink, note) in notes(&head, step.critic_reason.as_deref()) {
        writeln!(out, "{}", look.paint(ink, &visible_line(&note)))?;
    }
    writeln!(out)?;
    let mut fact = |name: &str, value: Option<String>| match value {
        Some(value) => writeln!(
            out,
            "{}  {}",
            look.paint(Ink::Dim, &format!("{name:<8}")),
            visible_line(&value)
        ),
        None => Ok(()),
    };
    fact("agent", head.agent_id)?;
    fact("took", head.duration_ms.map(millis))?;
    let group = run.index.round_of(n);
    let since = |at: i64| {
        run.index
            .first_ts()
            .map_or_else(String::new, |first| offset(at.saturating_sub(first)))
    };
    let started = group.and_then(|group| began(&run.index, group));
    fact(
        "started",
        started.and_then(|at| Some(format!("{}, {}", moment(at, look)?, since(at)))),
    )?;
    let mark = bound(false, head.tokens_estimated == Some(true));
    fact(
        "tokens",
        head.tokens.map(|tokens| format!("{mark}{}", count(tokens))),
    )?;
    let (file, size) = (
        run.index.format().file_name(TraceFile::Steps),
        bytes(step.span.len),
    );
    fact(
        "line",
        Some(format!(
            "{} of {file}, byte {}, {size}",
            head.line, head.offset
        )),
    )
}

fn write_record(out: &mut dyn Write, record: &Json<'_>, look: &Look) -> io::Result<()> {
    let members = record.as_object().unwrap_or_default();
    let (mut empty, mut rest) = (Vec::new(), Vec::new());
    for name in FIRST {
        let Some(value) = record.get(name).filter(|value| !value.is_empty()) else {
            continue;
        };
        let copied = record
            .get("decision")
            .and_then(|decision| decision.get("actions"));
        if name == "actions" && copied.is_some_and(|copied| same(copied, value)) {
            continue;
        }
        section(out, name, value, look)?;
    }
    if let Some(diff) = record.get("state_diff").filter(|diff| !diff.is_empty()) {
        write_changes(out, diff, look)?;
    }
    for (name, value) in members {
        match &**name {
            name if value.is_empty() => empty.push(visible_line(name)),
            name if FIRST.contains(&name) || IN_HEAD.contains(&name) || name == "state_diff" => {}
            name => rest.push((name, value)),
        }
    }
    // Short fields are grouped, so that they don't scatter between the long ones.
    let (long, short): (Vec<_>, Vec<_>) = rest
        .into_iter()
        .partition(|(_, value)| value.as_object().is_some() || value.as_array().is_some());
    long.into_iter()
        .try_for_each(|(name, value)| section(out, name, value, look))?;
    if !short.is_empty() {
        heading(out, "other fields", look)?;
        short
            .into_iter()
            .try_for_each(|(name, value)| outline::write(out, 1, name, value, look))?;
    }
    if empty.is_empty() {
        Ok(())
    } else {
        writeln!(
            out,
            "\n{} {}",
            look.paint(Ink::Dim, "empty:"),
            empty.join(", ")
        )
    }
}

fn heading(out: &mut dyn Write, name: &str, look: &Look) -> io::Result<()> {
    writeln!(out, "\n{}", look.paint(Ink::Heading, &visible_line(name)))
}

fn section(out: &mut dyn Write, name: &str, value: &Json<'_>, look: &Look) -> io::Result<()> {
    heading(out, name, look)?;
    match value {
        Json::Object(members) => members
            .iter()
            .try_for_each(|(key, value)| outline::write(out, 1, key, value, look)),
        Json::Array(items) => items
            .iter()
            .enumerate()
            .try_for_each(|(at, item)| outline::write(out, 1, &format!("[{at}]"), item, look)),
        Json::String(text) => outline::block(out, 1, text),
        scalar => writeln!(out, "  {}", visible_line(&scalar.to_string())),
    }
}

/// Writes the changes of the state: a row for each key, and the pieces added and removed.
fn write_changes(out: &mut dyn Write, diff: &Json<'_>, look: &Look) -> io::Result<()> {
    heading(out, "state_diff", look)?;
    for change in changes_of_step(diff) {
        let (path, words) = change.row();
        writeln!(
            out,
            "  {}  {}",
            visible_line(&path),
            look.paint(Ink::Dim, &visible_line(&words))
        )?;
        let pieces = change.pieces(MAX_PIECES, MAX_PIECE_BYTES);
        for piece in pieces.pieces {
            let (ink, sign) = match piece.kind {
                PieceKind::Ins => (Ink::Good, '+'),
                PieceKind::Del => (Ink::Bad, '-'),
                PieceKind::Same => (Ink::Dim, ' '),
            };
            let path = if piece.path.is_empty() {
                String::new()
            } else {
                format!("{}: ", piece.path)
            };
            let cut = match piece.left_out {
                0 => String::new(),
                more => format!(" … and {} more", bytes(more as u64)),
            };
            let line = format!("{sign} {path}{}{cut}", piece.text);
            writeln!(out, "    {}", look.paint(ink, &visible_line(&line)))?;
        }
        if pieces.more > 0 {
            writeln!(out, "    … and {} more", count(pieces.more as u64))?;
        }
    }
    Ok(())
}

/// Writes a table: number, time since the first event, step, phase and stage, and any error.
fn write_events(
    out: &mut dyn Write,
    run: &RecordedRun,
    look: &Look,
) -> std::result::Result<(), Failure> {
    let index = &run.index;
    let total = index.events().len();
    if total == 0 {
        writeln!(out, "No events.")?;
        return Ok(());
    }
    let first = index.first_ts().unwrap_or_default();
    let width = (total - 1).to_string().len();
    let since = |ts: Option<i64>| or_missing(ts, |ts| offset(ts.saturating_sub(first)));
    let since_width = index
        .events()
        .iter()
        .map(|event| since(event.ts).chars().count())
        .max()
        .unwrap_or_default();
    let head = format!(
        "{:>width$}  {:>since_width$}  {:>4}  what",
        "n", "time", "step"
    );
    writeln!(out, "{}", look.paint(Ink::Dim, &head))?;
    for (n, event) in index.events().iter().enumerate() {
        let step = index
            .group_at(n)
            .filter(|_| event.fate.is_readable())
            .and_then(|group| index.step_of(group));
        let step = step.map_or_else(String::new, |step| step.to_string());
        let start = format!("{n:>width$}  {:>since_width$}  {step:>4}", since(event.ts));
        let phase = match (index.name(event.phase), event.fate.is_readable()) {
            (_, false) => look.paint(Ink::Bad, "unreadable line"),
            ("", true) => "no phase".to_owned(),
            (phase, true) => visible_line(phase).into_owned(),
        };
        let stage = visible_line(index.name(event.stage));
        write!(
            out,
            "{start}  {phase}{}{stage}",
            if stage.is_empty() { "" } else { " " }
        )?;
        if let Some((ink, words)) = end_of(run, n, event)? {
            write!(out, "  {}", look.paint(ink, &visible_line(&words)))?;
        }
        writeln!(out)?;
    }
    Ok(())
}

/// Returns an event's error or stop reason. Reads its line only if the index suggests that there's
/// one.
fn end_of(run: &RecordedRun, n: usize, event: &EventHead) -> Result<Option<(Ink, String)>> {
    let stops = matches!(
        event.kind,
        EventKind::RunEnd | EventKind::Stopped | EventKind::CriticStop
    );
    if event.ok && !stops || !event.fate.is_readable() {
        return Ok(None);
    }
    let record = Record::read(event_line(run, n)?);
    let line = format::event(&record);
    let error = line.error.and_then(Value::string);
    let reason = line.stop_reason.and_then(Value::string);
    Ok(match (error, reason) {
        (Some(error), _) => Some((Ink::Bad, format!("error: {error}"))),
        (None, Some(reason)) => Some((Ink::Dim, reason.into_owned())),
        (None, None) if !event.ok => Some((Ink::Bad, "not ok".to_owned())),
        (None, None) => None,
    })
}

/// Writes all events as one document, reading one line of the file at a time.
fn write_events_json(out: &mut dyn Write, run: &RecordedRun) -> std::result::Result<(), Failure> {
    let total = run.index.events().len();
    write!(out, "{{\"total\":{total},\"events\":[")?;
    for n in 0..total {
        let line = event_line(run, n)?;
        out.write_all(if n == 0 { b"\n" } else { b",\n" })?;
        if let Some(event) = step_document::event(&run.index, n, &line) {
            serde_json::to_writer(&mut *out, &event)?;
        }
    }
    writeln!(out, "]}}")?;
    Ok(())
}
