//! Finds steps of the newest run that ran but have no line, and lines that may not be steps.

use std::collections::HashSet;

use super::format;
use super::newest::newest_run;
use crate::model::event::SpentNote;
use crate::model::index::{Group, Segment};
use crate::model::{EventKind, Index, StepHead};

/// Steps that ran according to the events or the manifest's count but have no line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lost {
    /// The number of steps.
    pub count: usize,
    /// The ordinal of the first missing step. Later steps can't be counted.
    pub from: u64,
    /// Whether the steps have lines, but the run has more steps than board keeps.
    pub is_skipped: bool,
}

impl Lost {
    /// Explains why these steps are unknown: "3 steps have no line in steps.jsonl".
    pub fn words(self) -> String {
        let (have, are) = if self.count == 1 {
            ("has", "is")
        } else {
            ("have", "are")
        };
        let steps = format::counted(self.count, "step");
        match self.is_skipped {
            true => format!("{steps} {are} skipped because the run has more than board keeps"),
            false => format!("{steps} {have} no line in steps.jsonl"),
        }
    }
}

/// Returns the steps of the newest run that are counted but not kept.
fn skipped(index: &Index) -> Option<Lost> {
    let start = index.newest_start();
    let mut skips = index
        .step_skips()
        .list()
        .iter()
        .filter(|skip| skip.at >= start);
    let first = skips.next()?;
    let count = index
        .newest_lines()
        .saturating_sub(index.steps().len() - start)
        + 1
        + skips.count();
    Some(Lost {
        count,
        from: first.at as u64,
        is_skipped: true,
    })
}

/// Returns the steps of the newest run that were completed but have no line, or that are counted
/// but not kept.
pub(super) fn lost(index: &Index) -> Option<Lost> {
    if let Some(skipped) = skipped(index) {
        return Some(skipped);
    }
    let (there, unread) = (index.newest_len(), unread(index));
    // Without an END event, the last round may still be in progress, unless an exception ended it.
    let under_way = |segment: &Segment| segment.end.is_none() && segment.teardown.is_none();
    let open = |segment: &Segment| segment.first_group + usize::from(under_way(segment));
    let rounds = match index.segment() {
        // Events out of order begin the same round repeatedly. Then only steps that no line has
        // count as missing.
        Some(_) if index.is_disordered() => there + unwritten(index),
        Some(segment) => index.groups().len().saturating_sub(open(segment)),
        None => 0,
    };
    // A writer that wrote a line twice may have counted both.
    let missing = rounds
        .saturating_sub(there)
        .max(counted(index).saturating_sub(index.newest_lines()));
    // An unreadable line is a step if there are as many rounds as lines. Without other records, it
    // may not be a step.
    let is_told = rounds.max(counted(index)) > 0 || !index.groups().is_empty();
    let count = if is_told {
        missing
    } else {
        missing.max(unread)
    };
    // Ids count up by one. A jump means that a line is missing.
    let jump = index.tally().run.first_jump.unwrap_or(index.steps().len());
    let torn = (unread > 0 && !is_told)
        .then(|| first_unread(index))
        .flatten();
    let from = torn.map_or(jump, |torn| torn.min(jump));
    (count > 0).then_some(Lost {
        count,
        from: from as u64,
        is_skipped: false,
    })
}

/// Returns the number of unreadable lines of the newest run, in formats whose lines are steps.
pub(super) fn unread(index: &Index) -> usize {
    if index.format().is_one_file() {
        0
    } else {
        index.tally().run.unread
    }
}

fn first_unread(index: &Index) -> Option<usize> {
    newest_run(index)
        .find(|(_, step)| !step.fate.is_readable())
        .map(|(n, _)| n)
}

/// Returns what the replies used in the step in which the newest run broke off, if its events
/// record it. The step may have used more.
pub(super) fn spent_without_line(index: &Index) -> Option<SpentNote> {
    unfinished(index)?.unwritten.as_ref()?.spent
}

/// Returns the events of the step in which the newest run broke off.
pub(super) fn unfinished(index: &Index) -> Option<&Group> {
    index.groups().get(index.unfinished_group()?)
}

/// Returns the number of steps of the newest run that events name but no line has.
fn unwritten(index: &Index) -> usize {
    let written: HashSet<i64> = newest_run(index)
        .filter_map(|(_, step)| step.step_id)
        .collect();
    let first = index.segment().map_or(0, |segment| segment.first_group);
    let named: HashSet<i64> = index
        .groups()
        .iter()
        .skip(first)
        .filter_map(|group| group.step_id)
        .collect();
    named.difference(&written).count()
}

/// Returns whether the newest run broke off in a step that has a recorded model reply but no line.
/// Sums over steps don't include that reply's usage.
pub(super) fn has_reply_without_line(index: &Index) -> bool {
    let events = unfinished(index).map(|group| group.first..group.end);
    let is_reply = |n: usize| {
        index
            .events()
            .get(n)
            .is_some_and(|event| event.kind == EventKind::Output)
    };
    events.is_some_and(|mut events| events.any(is_reply))
}

/// Returns the first line of the newest run that may not be a step, if there are more lines than
/// steps ran.
pub(super) fn foreign(index: &Index) -> Option<u64> {
    // If events were dropped, the number of rounds is unknown.
    if index.format().is_one_file() || index.event_skips().is_cut() {
        return None;
    }
    let first = index.newest_start();
    let newest = index
        .newest_segments()
        .first()
        .filter(|_| !index.is_disordered());
    let rounds = newest.map_or(0, |segment| {
        index.groups().len().saturating_sub(segment.first_group)
    });
    let ran = rounds.max(counted(index));
    if ran == 0 || index.newest_lines() <= ran {
        return None;
    }
    let is_odd = |step: &StepHead| !step.fate.is_readable() || step.step_id.is_none();
    let odd = index.steps().iter().skip(first).position(is_odd)?;
    Some((first + odd) as u64)
}

/// Returns whether the number of completed steps of the newest run is known and equals the number
/// of its lines. A step that an exception ended isn't completed.
pub(super) fn is_counted(index: &Index) -> bool {
    let died = index
        .segment()
        .is_some_and(|segment| segment.end.is_none() && segment.teardown.is_some());
    let is_only_the_last =
        |lost: Lost| died && lost.count == 1 && counted(index) <= index.newest_lines();
    lost(index).is_none_or(is_only_the_last)
        && foreign(index).is_none()
        && index.double_steps().0 == 0
}

/// Returns the number of steps by the manifest; 0 if the manifest isn't final or several runs wrote
/// into the directory.
fn counted(index: &Index) -> usize {
    let manifest = index
        .manifest()
        .get()
        .filter(|manifest| manifest.is_final() && index.segments().len() <= 1);
    manifest
        .filter(|_| !index.is_partial())
        .map_or(0, |manifest| manifest.steps_counted())
}
