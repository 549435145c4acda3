//! Describes a search in sentences.

use crate::analysis::format::{bytes, count, counted};
use crate::analysis::search::{LineMatch, Tally};
use crate::model::TraceFile;
use crate::page::part::job::State;

/// Names the location of a line: `step 3`, `step 3, event 12`, `event 12`, `manifest`. Text outside
/// a document's records belongs to no step. A line that the index doesn't know is named by its byte
/// offset in the file.
pub(crate) fn place(found: &LineMatch) -> String {
    let place = found.place;
    match (found.file, place.step, place.event) {
        _ if place.beside_records => "document".to_owned(),
        (TraceFile::Manifest, ..) => "manifest".to_owned(),
        (_, Some(step), Some(event)) => format!("step {step}, event {event}"),
        (_, Some(step), None) => format!("step {step}"),
        (_, None, Some(event)) => format!("event {event}"),
        (file, None, None) => format!("{} byte {}", file.name(), place.offset),
    }
}

/// Summarises the result: `12 matching fields in 3 of 110 runs.` A field that contains the text
/// twice counts once.
pub(crate) fn answer(state: State, tally: &Tally, shown: usize) -> String {
    let at_least = if state == State::Done {
        ""
    } else {
        "at least "
    };
    let fields = counted(tally.found, "matching field");
    let found = if shown < tally.found || state == State::Running {
        format!("{} of {at_least}{fields}", count(shown as u64))
    } else {
        format!("{at_least}{fields}")
    };
    let of = |done: usize| format!("{} of {}", count(done as u64), counted(tally.runs, "run"));
    match state {
        State::Running if tally.found == 0 => {
            format!("No matches yet, after {}.", of(tally.runs_done))
        }
        State::Running => format!("{found}, after {}.", of(tally.runs_done)),
        State::Done if tally.runs == 0 => "No runs to search.".to_owned(),
        State::Done if tally.found == 0 => format!("No matches in {}.", counted(tally.runs, "run")),
        State::Done => format!("{found} in {}.", of(tally.runs_with)),
        State::Cancelled => format!("Cancelled: {found}, after {}.", of(tally.runs_done)),
        State::Failed => format!(
            "The search failed because of a bug in the board. So far: {found}, after {}.",
            of(tally.runs_done)
        ),
    }
}

/// Formats the amount searched and the time taken: `120 MB in 0.2 s`.
pub(crate) fn searched(tally: &Tally) -> String {
    let took = match tally.took.as_secs_f64() {
        short if short < 0.1 => "less than 0.1 s".to_owned(),
        seconds => format!("{seconds:.1} s"),
    };
    format!("{} in {took}", bytes(tally.bytes_done))
}

/// Lists what couldn't be searched, one sentence each.
pub(crate) fn left_out(tally: &Tally) -> Vec<String> {
    let mut sentences: Vec<String> = tally
        .left_out
        .iter()
        .map(|left| format!("{}, {}: {}", left.key, left.file.name(), left.why))
        .collect();
    let more = tally.left_out_count.saturating_sub(sentences.len());
    if more > 0 {
        sentences.push(format!("and {}", counted(more, "file")));
    }
    sentences
}
