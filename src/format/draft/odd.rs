//! Reports impossible figures and incomplete times, each once per step or run. Must not know the
//! format of a record.

use super::{Draft, Part};
use crate::model::time::parse_ts;
use crate::model::{Issue, IssueKind, Manifest, TraceFile};

const CACHE: &str = "more cached tokens than input tokens are recorded";
const COST: &str = "the cost is negative, so it is ignored";
const OFFSET: &str = "the time has no UTC offset; all such times are assumed to be UTC";

/// The issues that were reported so far.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Said {
    cache: bool,
    cost: bool,
    offset: bool,
    time: bool,
}

impl Draft<'_> {
    /// Returns an RFC 3339 time in microseconds since the epoch. A time without an offset is
    /// assumed to be UTC.
    pub fn time(&mut self, value: Option<&str>) -> Option<i64> {
        let stamp = parse_ts(&super::text(value)?)?;
        if !stamp.zoned && !std::mem::replace(&mut self.open.odd.offset, true) {
            self.issue(IssueKind::Offset, OFFSET);
        }
        Some(stamp.micros)
    }

    /// Returns a time of the run as a whole in the same way. No record contains such a time.
    pub fn time_of_whole(&mut self, value: Option<&str>) -> Option<i64> {
        let stamp = parse_ts(&super::text(value)?)?;
        if !stamp.zoned && !std::mem::replace(&mut self.open.odd.offset, true) {
            self.issue_of_whole(IssueKind::Offset, OFFSET);
        }
        Some(stamp.micros)
    }
}

impl Draft<'_> {
    /// Returns a duration in seconds. If it is negative, returns `None` and reports `what` as an
    /// issue.
    pub fn took(&mut self, seconds: Option<f64>, what: &str) -> Option<f64> {
        if seconds.is_some_and(|seconds| seconds < 0.0)
            && !std::mem::replace(&mut self.open.odd.time, true)
        {
            self.issue_of_whole(IssueKind::Time, what);
        }
        seconds.filter(|seconds| *seconds >= 0.0)
    }

    /// Returns the time between two moments in seconds. If the second comes first, returns `None`
    /// and reports `what` as an issue.
    pub fn between(&mut self, start: Option<i64>, end: Option<i64>, what: &str) -> Option<f64> {
        let seconds = start
            .zip(end)
            .and_then(|(start, end)| end.checked_sub(start))
            .map(|micros| micros as f64 / 1e6);
        self.took(seconds, what)
    }
}

/// Returns the issues of a step that weren't reported yet. Clears a negative cost.
pub(super) fn of_part(part: &mut Part, said: &mut Said) -> Vec<&'static str> {
    let tokens = part.tokens.unwrap_or_default();
    said.of(is_impossible(tokens.cached, tokens.input), &mut part.cost)
}

/// Returns the issues of a run's totals in the same way.
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

/// Returns whether there are more cached tokens than input tokens.
fn is_impossible(cached: Option<u64>, read: Option<u64>) -> bool {
    cached.zip(read).is_some_and(|(cached, read)| cached > read)
}
