//! Finds the failures of a period that were first seen last, and which of them are new.

use std::cmp::{Ordering, Reverse};
use std::collections::HashMap;

use schemars::JsonSchema;
use serde::Serialize;

use super::{Same, first_seen, id_text, last_seen, name_of, place_of, plain, same, stamp};
use crate::analysis::summary::Summary;
use crate::model::failure::FailureSource;

/// A failure of a period.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
pub(crate) struct FirstSeen {
    /// The id, for `failure:ID` in queries.
    pub id: String,
    /// What failed.
    pub source: FailureSource,
    /// The tool, if known.
    pub tool: Option<String>,
    /// The message, as in `/api/failures`.
    pub message: String,
    /// The runs of the period that have it.
    pub runs: usize,
    /// The runs of the period that it ended.
    pub runs_ended: usize,
    /// When it first happened in any matching run, if recorded.
    pub first_seen: Option<String>,
    /// Whether no run before the period has it, although there are such runs.
    pub is_new: bool,
    /// Whether it was last seen more than 7 days ago.
    pub is_quiet: bool,
    /// The number of runs for each bar.
    pub bars: Vec<usize>,
    /// The time of `first_seen` in microseconds.
    #[serde(skip)]
    pub first_at: Option<i64>,
}

/// The failures of a period.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
pub(crate) struct PeriodFailures {
    /// The number of failures.
    pub failures: usize,
    /// The number of those that are new.
    pub new: usize,
    /// The ones that were first seen last.
    pub newest: Vec<FirstSeen>,
    /// The new one that ended most runs, or else the one with most runs.
    pub largest_new: Option<FirstSeen>,
}

impl FirstSeen {
    /// Returns where it happens: the tool, `model` or `run`.
    pub(crate) fn place(&self) -> &str {
        name_of(place_of(
            self.source,
            self.tool.as_deref().unwrap_or_default(),
        ))
    }

    /// Returns the message with `<n>` for `‹n›`.
    pub(crate) fn plain(&self) -> String {
        plain(&self.message)
    }
}

/// The sums over the runs with one failure.
#[derive(Debug, Clone, Default)]
struct Sum {
    id: u64,
    runs: usize,
    ended: usize,
    first_at: Option<i64>,
    last_at: Option<i64>,
    was_before: bool,
}

/// Compares places in the list: what was first seen last comes first.
fn order((same, sum): &(Same<'_>, Sum), (other, sum_of_other): &(Same<'_>, Sum)) -> Ordering {
    let newest = |sum: &Sum| Reverse((sum.first_at, sum.runs));
    (newest(sum).cmp(&newest(sum_of_other))).then_with(|| same.cmp(other))
}

/// Returns the failures of the runs of a period. Each of `now` comes with its bar, if it has one.
/// `before` are the matching runs of earlier days. A failure that was last seen before `recent`, in
/// microseconds, is quiet.
pub(in crate::analysis) fn of_period<'a>(
    now: impl Iterator<Item = (&'a Summary, Option<usize>)> + Clone,
    before: impl Iterator<Item = &'a Summary>,
    bars: usize,
    recent: i64,
    most: usize,
) -> PeriodFailures {
    let mut sums: HashMap<Same<'_>, Sum> = HashMap::new();
    for (run, _) in now.clone() {
        for failure in &run.failures {
            let sum = sums.entry(same(failure)).or_default();
            sum.id = failure.id;
            sum.runs += 1;
            sum.ended += usize::from(failure.ended);
            let first = first_seen(run, failure);
            sum.first_at = [sum.first_at, first].into_iter().flatten().min();
            sum.last_at = sum.last_at.max(last_seen(run, failure));
        }
    }
    let mut is_compared = false;
    for run in before {
        is_compared = true;
        for failure in &run.failures {
            if let Some(sum) = sums.get_mut(&same(failure)) {
                sum.was_before = true;
                let first = first_seen(run, failure);
                sum.first_at = [sum.first_at, first].into_iter().flatten().min();
            }
        }
    }
    let is_new = |sum: &Sum| is_compared && !sum.was_before;
    let mut all: Vec<(Same<'_>, Sum)> = sums.into_iter().collect();
    let failures = all.len();
    let new = all.iter().filter(|(_, sum)| is_new(sum)).count();
    let largest = all
        .iter()
        .filter(|(_, sum)| is_new(sum))
        .max_by_key(|(same, sum)| (sum.ended, sum.runs, Reverse(*same)))
        .cloned();
    if all.len() > most && most > 0 {
        all.select_nth_unstable_by(most - 1, order);
    }
    all.truncate(most);
    all.sort_by(order);
    let mut trends: HashMap<Same<'_>, Vec<usize>> = all
        .iter()
        .chain(&largest)
        .map(|(same, _)| (*same, vec![0; bars]))
        .collect();
    for (run, bar) in now {
        let Some(bar) = bar else { continue };
        for failure in &run.failures {
            let trend = trends.get_mut(&same(failure));
            if let Some(runs) = trend.and_then(|trend| trend.get_mut(bar)) {
                *runs += 1;
            }
        }
    }
    let done = |(same, sum): (Same<'_>, Sum)| {
        let (source, tool, message) = same;
        FirstSeen {
            id: id_text(sum.id),
            source,
            tool: Some(tool.to_owned()).filter(|tool| !tool.is_empty()),
            message: message.to_owned(),
            runs: sum.runs,
            runs_ended: sum.ended,
            first_seen: sum.first_at.and_then(stamp),
            is_new: is_new(&sum),
            is_quiet: sum.last_at.is_some_and(|last| last < recent),
            bars: trends.get(&same).cloned().unwrap_or_default(),
            first_at: sum.first_at,
        }
    };
    PeriodFailures {
        failures,
        new,
        newest: all.into_iter().map(&done).collect(),
        largest_new: largest.map(done),
    }
}
