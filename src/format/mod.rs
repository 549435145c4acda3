//! How does each tool write a trace? Bytes in, the shapes of `model` out.
//!
//! A format is one file here and one row of the table. Behind this room nobody asks who wrote a run. Must not know the
//! disk, pages or rules.

mod qitos;

use crate::model::repair::{Record, Remark, has_half_pair};
use crate::model::{EventHead, EventNote, Names, Step, StepHead};

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

#[cfg(test)]
mod tests;
