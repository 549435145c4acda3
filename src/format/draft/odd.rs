//! Which figures and times of a record cannot be, or are not told whole? Each is said once of a step or a run. Knows no
//! records.

use super::{Draft, Part};
use crate::model::time::parse_ts;
use crate::model::{Issue, IssueKind, Manifest, TraceFile};

const CACHE: &str = "more tokens came from the cache than were read";
const COST: &str = "the cost is below zero, and does not count";
const OFFSET: &str = "the time names no offset; it and all others like it are taken as UTC";

/// What was said so far.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Said {
    cache: bool,
    cost: bool,
    offset: bool,
    time: bool,
}

impl Draft<'_> {
    /// A time as RFC 3339, in microseconds since the epoch. One without an offset is taken as UTC.
    pub fn time(&mut self, value: Option<&str>) -> Option<i64> {
        let stamp = parse_ts(&super::text(value)?)?;
        if !stamp.zoned && !std::mem::replace(&mut self.open.odd.offset, true) {
            self.issue(IssueKind::Offset, OFFSET);
        }
        Some(stamp.micros)
    }

    /// The same for a time of the run as a whole, which no record holds.
    pub fn time_of_whole(&mut self, value: Option<&str>) -> Option<i64> {
        let stamp = parse_ts(&super::text(value)?)?;
        if !stamp.zoned && !std::mem::replace(&mut self.open.odd.offset, true) {
            self.issue_of_whole(IssueKind::Offset, OFFSET);
        }
        Some(stamp.micros)
    }
}

impl Draft<'_> {
    /// A length of time, in seconds. Below zero it is unknown, and an issue says that `what` can't be.
    pub fn took(&mut self, seconds: Option<f64>, what: &str) -> Option<f64> {
        if seconds.is_some_and(|seconds| seconds < 0.0)
            && !std::mem::replace(&mut self.open.odd.time, true)
        {
            self.issue_of_whole(IssueKind::Time, format!("{what}, and does not count"));
        }
        seconds.filter(|seconds| *seconds >= 0.0)
    }

    /// The time between two moments, in seconds. If the second comes first, an issue says that `what` can't be.
    pub fn between(&mut self, start: Option<i64>, end: Option<i64>, what: &str) -> Option<f64> {
        let seconds = start
            .zip(end)
            .and_then(|(start, end)| end.checked_sub(start))
            .map(|micros| micros as f64 / 1e6);
        self.took(seconds, what)
    }
}

/// What is to be said of a step. A cost below zero is taken out.
pub(super) fn of_part(part: &mut Part, said: &mut Said) -> Vec<&'static str> {
    let tokens = part.tokens.unwrap_or_default();
    said.of(is_impossible(tokens.cached, tokens.input), &mut part.cost)
}

/// The same of the totals of a run.
pub(super) fn of_totals(run: &mut Manifest, said: &mut Said) -> Vec<Issue> {
    let (kind, file) = (IssueKind::Field, TraceFile::Manifest);
    let odd = said
        .of(
            is_impossible(run.usage.cached, run.usage.input),
            &mut run.cost_usd,
        )
        .into_iter();
    odd.map(|reason| Issue {
        kind,
        file,
        line: None,
        offset: None,
        reason: reason.to_owned(),
    })
    .collect()
}

impl Said {
    fn of(&mut self, has_odd_cache: bool, cost: &mut Option<f64>) -> Vec<&'static str> {
        let has_odd_cost = cost.take_if(|cost| *cost < 0.0).is_some();
        let odd = [
            (has_odd_cache, &mut self.cache, CACHE),
            (has_odd_cost, &mut self.cost, COST),
        ];
        odd.into_iter()
            .filter_map(|(is, said, reason)| {
                (is && !std::mem::replace(said, true)).then_some(reason)
            })
            .collect()
    }
}

/// Whether of so many tokens that were read so many cannot have come from the cache.
fn is_impossible(cached: Option<u64>, read: Option<u64>) -> bool {
    cached.zip(read).is_some_and(|(cached, read)| cached > read)
}
