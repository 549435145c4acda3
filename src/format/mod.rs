//! How does each tool write a trace? Bytes in, the shapes of `model` out.
//!
//! A format is one file here and one row of `FORMATS`. Behind this room nobody asks who wrote a run: what a record says
//! is in [`Step`], [`Event`] and [`Manifest`], and what no record of that sort can say is in
//! [`Capabilities`](crate::model::Capabilities). Must not know the disk, pages or rules.
//!
//! All formats so far are dialects of one directory of three files, so one reader takes the lines of all, whichever the
//! manifest turns out to be. A format of another shape brings a reader of its own in its row: what cuts its file into
//! records (lines, elements of a document, members of an archive), and its `read` from a record to a [`Step`]. A step that
//! is spread over several records is the fold of [`StepHead::absorb`] over them, and a page's step is what `read` says of
//! each of its ranges.

mod board;
mod qitos;

#[cfg(test)]
pub(crate) use qitos::event_kind;

use crate::model::event::Event;
use crate::model::repair::{Remark, has_half_pair};
use crate::model::{EventHead, EventNote, Format, Manifest, Names, Record, Step, StepHead};

/// One row of the table.
struct Row {
    format: Format,
    /// Whether the text of a manifest is of this format; asked in the order of the table.
    recognise: fn(&str) -> bool,
}

/// The formats that are known.
static FORMATS: [&Row; 4] = [&board::BOARD, &qitos::V06, &qitos::V03, &qitos::V01];

/// Reads a manifest. `Err` says why nothing of it can be used.
///
/// # Errors
/// A remark for the list of issues: torn, not JSON, or not an object.
pub fn manifest(text: &[u8]) -> Result<(Manifest, Vec<Remark>), Remark> {
    let format = |text: &str| {
        let row = FORMATS.iter().find(|row| (row.recognise)(text));
        row.map_or(&Format::UNKNOWN, |row| &row.format)
    };
    qitos::manifest(text, format)
}

/// Reads a line of steps as the index keeps it; never fails. Its place is left for the caller to fill.
pub fn step_head(line: &[u8], names: &mut Names) -> (StepHead, Vec<Remark>) {
    let mut head = StepHead::default();
    let text = std::str::from_utf8(line).ok().filter(|text| !has_half_pair(text));
    // Nearly all lines are read at once; what is wrong with the others is found out apart.
    if let Some(step) = text.and_then(qitos::step) {
        head.absorb(&step, names);
        return (head, step.remarks);
    }
    let record = Record::of(line);
    let Some(step) = step(&record) else { return (StepHead::unread(record.fate, line), record.remarks) };
    let mut remarks = record.remarks.clone();
    head.fate = record.fate;
    head.absorb(&step, names);
    remarks.extend(step.remarks);
    (head, remarks)
}

/// Reads a line of events as the index keeps it; never fails. Its place is left for the caller to fill.
pub fn event_head(line: &[u8], names: &mut Names) -> (EventHead, Option<EventNote>, Vec<Remark>) {
    qitos::event_head(line, names)
}

/// The step that a record holds; `None` where it holds none.
pub fn step<'a>(record: &'a Record<'_>) -> Option<Step<'a>> {
    qitos::step(&record.text).filter(|_| record.fate.is_readable())
}

#[cfg(all(test, feature = "analysis"))]
pub(crate) use qitos::{event as event_in, step as step_in};

/// What the text of a line of events says, beyond its head.
pub fn event<'a>(record: &'a Record<'_>) -> Event<'a> {
    if record.fate.is_readable() { qitos::event(&record.text) } else { Event::default() }
}

#[cfg(test)]
mod tests;
