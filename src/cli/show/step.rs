//! Prints one complete step, with the most important fields first.

use std::io::{self, Write};

use super::super::look::{Ink, Look};
use super::super::open::Opened;
use super::super::{Failure, outline, write_json};
use super::{event_line, moment, notes, what};
use crate::analysis::diff::{Kind, changes_of_step, same};
use crate::analysis::format::{bytes, count, millis, offset, visible_line};
use crate::analysis::timing::began;
use crate::model::TraceFile;
use crate::model::json::Json;
use crate::model::repair::repair;
use crate::page::step::json;

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

/// Writes the step with its lines as one document.
pub(super) fn write_json_of(out: &mut dyn Write, run: &Opened, n: usize) -> Result<(), Failure> {
    let line = line_of(run, n)?;
    let events = events_of(run, n)?;
    match json::step(&run.index, n, &line, &events) {
        Some(step) => write_json(out, &step),
        None => Ok(()),
    }
}

/// Writes the step as text.
pub(super) fn write(
    out: &mut dyn Write,
    run: &Opened,
    n: usize,
    events: bool,
    look: &Look,
) -> Result<(), Failure> {
    let line = line_of(run, n)?;
    let (text, repairs) = repair(&line);
    write_head(out, run, n, look)?;
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
        let range = json::events_of(&run.index, n);
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

fn line_of(run: &Opened, n: usize) -> crate::Result<Vec<u8>> {
    let span = run
        .index
        .steps()
        .get(n)
        .map(|step| step.span)
        .unwrap_or_default();
    run.line(TraceFile::Steps, span)
}

fn events_of(run: &Opened, n: usize) -> crate::Result<Vec<Vec<u8>>> {
    json::events_of(&run.index, n)
        .map(|at| event_line(run, at))
        .collect()
}

fn write_head(out: &mut dyn Write, run: &Opened, n: usize, look: &Look) -> io::Result<()> {
    let (Some(step), Some(head)) = (run.index.steps().get(n), json::step_head(&run.index, n))
    else {
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
    let about = if head.tokens_estimated == Some(true) {
        "about "
    } else {
        ""
    };
    fact(
        "tokens",
        head.tokens
            .map(|tokens| format!("{about}{}", count(tokens))),
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
                Kind::Ins => (Ink::Good, '+'),
                Kind::Del => (Ink::Bad, '-'),
                Kind::Same => (Ink::Dim, ' '),
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
