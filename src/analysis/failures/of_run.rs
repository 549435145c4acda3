//! The failures of one run, as its row keeps them: the failed steps by message, and which message
//! ended the run.

use std::num::NonZeroU32;

use serde::{Deserialize, Serialize};

use crate::analysis::compact::Shared;
use crate::analysis::life::Life;
use crate::analysis::verdict::{RunStatus, Verdict, ended, error_of_end};
use crate::model::failure::message::fold;
use crate::model::failure::{Afterwards, FailureKey, FailureSource, FailureTally, id_of};
use crate::model::telling::{Tells, telling_line};
use crate::model::{EndKind, Index, Symbol};

/// The failed steps of a run that have one message.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunFailure {
    /// The hash of source, tool and message.
    pub id: u64,
    /// The tool. Empty if none is known.
    pub tool: Shared,
    /// The folded message.
    pub message: Shared,
    /// What failed.
    pub source: FailureSource,
    /// Whether it ended the run.
    pub ended: bool,
    /// The number of steps. 0 if it ended the run after its last step.
    pub steps: u32,
    /// The steps among them whose first failure this is. Each failed step has one.
    pub steps_first: u32,
    /// How often it happened. A step may have several calls that failed with it.
    pub times: u32,
    /// The ordinal of the first step, unless the step has no line.
    pub first: Option<NonZeroU32>,
    /// The ordinal of the last step.
    pub last: Option<NonZeroU32>,
    /// When the first step began, in seconds since the epoch, if recorded.
    pub first_at: Option<NonZeroU32>,
    /// When the last step began.
    pub last_at: Option<NonZeroU32>,
    /// What the agent did after these steps.
    pub next: Afterwards,
}

/// Maximum number of messages that the row of a run keeps. The one that ended the run may be another.
pub(super) const MAX_ROWS: usize = 16;

/// The digits of an id in addresses and queries.
const ID_DIGITS: usize = 12;

impl RunFailure {
    /// Returns the id as addresses and queries spell it.
    pub fn id_text(&self) -> String {
        id_text(self.id)
    }

    /// Returns the ordinal of the first step.
    pub fn first_step(&self) -> Option<usize> {
        self.first.map(|n| n.get() as usize - 1)
    }

    /// Returns the ordinal of the last step.
    pub fn last_step(&self) -> Option<usize> {
        self.last.map(|n| n.get() as usize - 1)
    }
}

/// Returns an id as addresses and queries spell it.
pub(crate) fn id_text(id: u64) -> String {
    format!("{:012x}", id >> 16)
}

/// Returns whether a text may be the id of a failure.
pub(crate) fn is_id(text: &str) -> bool {
    text.len() == ID_DIGITS && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Keeps an ordinal in four bytes.
fn small(ordinal: usize) -> Option<NonZeroU32> {
    NonZeroU32::new(u32::try_from(ordinal.checked_add(1)?).ok()?)
}

fn seconds(micros: i64) -> Option<NonZeroU32> {
    NonZeroU32::new(u32::try_from(micros.div_euclid(1_000_000)).ok()?)
}

/// Returns the failures of a run, in the order of their first steps, and the number of failed steps
/// whose first failure is in none of them.
pub(in crate::analysis) fn failures(
    index: &Index,
    tally: &FailureTally,
    life: &Life,
    verdict: &Verdict,
) -> (Vec<RunFailure>, usize) {
    let end = end(index, life, verdict);
    let mut all: Vec<(&FailureKey, RunFailure)> = Vec::new();
    for (group, next) in tally.groups() {
        let row = RunFailure {
            steps: group.steps,
            steps_first: group.steps_first,
            times: group.times,
            first: group.first.and_then(small),
            last: group.last.and_then(small),
            first_at: group.first_at.and_then(seconds),
            last_at: group.last_at.and_then(seconds),
            next,
            ..row(index, &group.key)
        };
        all.push((&group.key, row));
    }
    if let Some(end) = &end {
        let last = index.steps().len().checked_sub(1).and_then(small);
        let is_last = |row: &RunFailure| row.last.is_none_or(|at| Some(at) == last);
        // A tool may print the message with which the run ends later.
        let is_same = |(key, row): &(&FailureKey, RunFailure)| {
            let is_of_end = (key.source, key.tool) == (end.source, end.tool);
            key.message == end.message && (is_of_end || is_last(row))
        };
        // The record of the end may quote a part of the message, or add to it.
        let is_alike = |(key, row): &(&FailureKey, RunFailure)| {
            is_last(row) && is_part(&key.message, &end.message)
        };
        let at = all
            .iter()
            .rposition(is_same)
            .or_else(|| all.iter().rposition(is_alike));
        match at.and_then(|at| all.get_mut(at)) {
            Some((_, known)) => known.ended = true,
            None => {
                let last_at = index.last_ts().and_then(seconds);
                let row = RunFailure {
                    ended: true,
                    times: 1,
                    first_at: last_at,
                    last_at,
                    ..row(index, end)
                };
                all.push((end, row));
            }
        }
    }
    kept(
        all.into_iter().map(|(_, row)| row).collect(),
        tally.left_out,
    )
}

/// Returns the first rows and the one that ended the run, and the number of steps whose first failure
/// is in none of them.
fn kept(mut rows: Vec<RunFailure>, left_out: usize) -> (Vec<RunFailure>, usize) {
    let rest = rows.split_off(rows.len().min(MAX_ROWS));
    let (ended, others): (Vec<_>, Vec<_>) = rest.into_iter().partition(|row| row.ended);
    rows.extend(ended);
    let steps: usize = others.iter().map(|row| row.steps_first as usize).sum();
    (rows, left_out.saturating_add(steps))
}

/// A shorter message isn't recognized as a part of another one; bytes.
const MIN_ALIKE: usize = 8;

/// Returns whether two messages are the same error and one of them quotes only a part of it.
fn is_part(a: &str, b: &str) -> bool {
    // `RuntimeError: boom`
    let is_end = |a: &str, b: &str| {
        !b.is_empty()
            && a.strip_suffix(b)
                .is_some_and(|start| start.is_empty() || start.ends_with(": "))
    };
    let is_long = a.len().min(b.len()) >= MIN_ALIKE;
    is_long && (a.contains(b) || b.contains(a)) || is_end(a, b) || is_end(b, a)
}

/// Returns the error of the last event that reports one. Of the events of one error, the first names
/// the phase in which it happened.
fn last_error(index: &Index) -> Option<FailureKey> {
    let (at, words) = index.segment()?.error.as_ref()?;
    let group = index.group_at(*at).and_then(|at| index.groups().get(at));
    let first = group
        .and_then(|group| group.error.as_ref())
        .filter(|(_, first)| first == words);
    match first {
        Some(error) => Some(index.key_of_event(error)),
        None => Some(index.key_of_event(&(index.events().get(*at)?.phase, words.clone()))),
    }
}

fn row(index: &Index, key: &FailureKey) -> RunFailure {
    let tool = index.name(key.tool);
    RunFailure {
        id: id_of(key.source, tool, &key.message),
        tool: tool.into(),
        message: (*key.message).into(),
        source: key.source,
        ended: false,
        steps: 0,
        steps_first: 0,
        times: 0,
        first: None,
        last: None,
        first_at: None,
        last_at: None,
        next: Afterwards::default(),
    }
}

/// Returns the recorded message of the error that ended a run, before it's folded.
pub(crate) fn message_of_end<'a>(index: &'a Index, life: &Life) -> Option<&'a str> {
    let last = || Some(&*index.segment()?.error.as_ref()?.1);
    error_of_end(index, life).or_else(last)
}

/// Returns the failure that ended the run, if one did.
fn end(index: &Index, life: &Life, verdict: &Verdict) -> Option<FailureKey> {
    if index.is_partial() {
        return None;
    }
    let recorded = ended(index, life);
    let is_full = recorded.is_some_and(|ended| ended.kind() == Some(EndKind::Context));
    match verdict.mark {
        RunStatus::Error | RunStatus::Died => {}
        RunStatus::Limit if is_full => {}
        _ => return None,
    }
    // The run died in the step of the last error.
    let unfinished = || {
        let group = index.groups().get(index.unfinished_group()?)?;
        Some(index.key_of_event(group.error.as_ref()?))
    };
    let event = last_error(index).filter(|_| verdict.mark == RunStatus::Error);
    if let Some(words) = error_of_end(index, life) {
        let message = fold(&telling_line(words, Tells::First));
        if let Some(event) = event.filter(|event| is_part(&event.message, &message)) {
            return Some(event);
        }
        let headline = recorded.map_or("", |ended| &*ended.headline);
        return Some(FailureKey {
            source: if is_full {
                FailureSource::Model
            } else {
                source_of_end(headline)
            },
            tool: Symbol::default(),
            message: message.into(),
        });
    }
    if let Some(key) = event.or_else(unfinished) {
        return Some(key);
    }
    let headline = recorded
        .map(|ended| &*ended.headline)
        .filter(|headline| !headline.is_empty());
    // The verdict may name tools and files of the run, so it doesn't say what failed.
    Some(FailureKey {
        source: headline.map_or(FailureSource::Run, source_of_end),
        tool: Symbol::default(),
        message: without_step(fold(headline.unwrap_or(verdict.head()))).into(),
    })
}

/// Removes the step in or after which a run died. It's no part of the cause.
fn without_step(message: String) -> String {
    let starts = ["Died in step ‹n›", "Died after step ‹n›"];
    match starts.iter().find_map(|start| message.strip_prefix(start)) {
        Some(rest) => format!("Died{rest}"),
        None => message,
    }
}

/// Returns what failed if a run recorded this end: `API error`, `The model refused to continue`.
fn source_of_end(headline: &str) -> FailureSource {
    if ["API", "model"].iter().any(|word| headline.contains(word)) {
        FailureSource::Model
    } else {
        FailureSource::Run
    }
}
