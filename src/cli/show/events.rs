//! Prints the events of a run, one per line.

use std::io::Write;

use super::super::Failure;
use super::super::look::{Ink, Look};
use super::super::open::Opened;
use super::event_line;
use crate::analysis::format::{offset, or_missing, visible_line};
use crate::format;
use crate::model::step::Value;
use crate::model::{EventHead, EventKind, Record};
use crate::page::step::json;

/// Writes a table: number, time since the first event, step, phase and stage, and any error.
pub(super) fn write(out: &mut dyn Write, run: &Opened, look: &Look) -> Result<(), Failure> {
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
fn end_of(run: &Opened, n: usize, event: &EventHead) -> crate::Result<Option<(Ink, String)>> {
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
pub(super) fn write_json_of(out: &mut dyn Write, run: &Opened) -> Result<(), Failure> {
    let total = run.index.events().len();
    write!(out, "{{\"total\":{total},\"events\":[")?;
    for n in 0..total {
        let line = event_line(run, n)?;
        out.write_all(if n == 0 { b"\n" } else { b",\n" })?;
        if let Some(event) = json::event(&run.index, n, &line) {
            serde_json::to_writer(&mut *out, &event)?;
        }
    }
    writeln!(out, "]}}")?;
    Ok(())
}
