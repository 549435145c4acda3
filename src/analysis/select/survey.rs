//! Surveys the matching runs: counts for the filters, how many answered, why runs ended, and
//! medians.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};

use super::Summary;
use crate::analysis::columns::{Column, MODEL, STATUS, STOP};
use crate::analysis::life::Liveness;
use crate::analysis::query::Query;
use crate::analysis::run_result::ShownStatus;
use crate::analysis::verdict::RunStatus;

/// Statistics of the matching runs.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Survey {
    /// The number of runs.
    pub total: usize,
    /// The number of matching runs.
    pub matched: usize,
    /// The number of matching runs by status. Excludes runs that are still being read.
    pub marks: BTreeMap<RunStatus, usize>,
    /// The newest change of a matching run, in microseconds since the epoch.
    pub newest: Option<i64>,
    /// The filter counts.
    pub facets: Facets,
    /// Statistics of the runs that ended.
    pub strip: Strip,
    /// The columns that runs can be grouped by: those with a value in some run.
    pub groups: Vec<&'static Column>,
}

/// How many runs each filter would show. The counts of a group ignore the query's terms on that
/// group, so that they cover the alternatives.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Facets {
    /// The runs for each `status`, as shown. A status without runs is omitted.
    pub marks: BTreeMap<ShownStatus, usize>,
    /// `status:indexing`: runs that are still being read.
    pub indexing: usize,
    /// The runs for each `stop`, most frequent first.
    pub stops: Vec<(String, usize)>,
    /// The runs for each `model`, most frequent first.
    pub models: Vec<(String, usize)>,
}

/// Statistics of the matching runs that ended. Excludes runs that may still write, are still being
/// read, or have an unknown end.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Strip {
    /// The number of runs that ended.
    pub ended: usize,
    /// The number of runs with an unknown end: they're silent, and no end is recorded or can be
    /// inferred.
    pub unknown: usize,
    /// How many of the ended runs answered.
    pub answered: usize,
    /// How many have files that contradict each other.
    pub contradicted: usize,
    /// Why they ended, grouped by status, most frequent reason first.
    pub ends: Vec<End>,
    /// Medians of their steps, time, tokens and scores.
    pub medians: Medians,
}

/// A way to end. Spellings of a reason that differ only in letter case are merged, because a query
/// matches all of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct End {
    /// The status, as shown.
    pub status: ShownStatus,
    /// The recorded stop reason.
    pub reason: Option<String>,
    /// The number of runs.
    pub count: usize,
}

/// Medians over the runs that record the value. With an even count, the mean of the two middle
/// values.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Medians {
    /// Steps.
    pub steps: Option<f64>,
    /// Milliseconds.
    pub duration_ms: Option<f64>,
    /// Tokens.
    pub tokens: Option<f64>,
    /// Whether one of these runs has tokens that are an estimate or a lower bound.
    pub tokens_inexact: bool,
    /// Last score.
    pub last_score: Option<f64>,
}

/// Surveys all runs with `query`.
pub fn survey<T: AsRef<Summary>>(all: &[T], query: &Query) -> Survey {
    // If the query has no term on the field, it needn't be evaluated twice.
    let without = |field| {
        Some(query.without_field(field)).filter(|other| other.terms.len() < query.terms.len())
    };
    let [status, stop, model] = [STATUS, STOP, MODEL].map(without);
    let mut tally = Tally {
        open: Column::grouping().collect(),
        ..Tally::default()
    };
    for run in all.iter().map(AsRef::as_ref) {
        tally.see_groups(run);
        let full = query.matches(run);
        let fits =
            |query: &Option<Query>| full || query.as_ref().is_some_and(|query| query.matches(run));
        if fits(&status) {
            if run.partial {
                tally.indexing += 1;
            } else {
                *tally.marks.entry(run.shown_status()).or_default() += 1;
            }
        }
        if fits(&stop) {
            *tally.stops.entry(STOP.word(run)).or_default() += 1;
        }
        if fits(&model) {
            *tally.models.entry(MODEL.word(run)).or_default() += 1;
        }
        if full {
            tally.matched.push(run);
        }
    }
    tally.survey(all.len())
}

#[derive(Debug, Default)]
struct Tally<'a> {
    marks: BTreeMap<ShownStatus, usize>,
    indexing: usize,
    stops: HashMap<&'a str, usize>,
    models: HashMap<&'a str, usize>,
    matched: Vec<&'a Summary>,
    /// Columns for grouping that have a value in some run. `open` contains the others.
    groups: Vec<&'static Column>,
    open: Vec<&'static Column>,
}

impl Tally<'_> {
    fn see_groups(&mut self, run: &Summary) {
        let groups = &mut self.groups;
        self.open.retain(|column| {
            let has = column.value(run).is_some();
            groups.extend(has.then_some(*column));
            !has
        });
    }

    fn survey(self, total: usize) -> Survey {
        let (marks, newest, strip) = sum(&self.matched);
        Survey {
            total,
            matched: self.matched.len(),
            marks,
            newest,
            strip,
            groups: self.groups,
            facets: Facets {
                marks: self.marks,
                indexing: self.indexing,
                stops: ranked(self.stops),
                models: ranked(self.models),
            },
        }
    }
}

/// Sorts by frequency, then by name. Merges spellings that differ only in letter case, because a
/// query matches all of them.
fn ranked(counts: HashMap<&str, usize>) -> Vec<(String, usize)> {
    let mut words: Vec<_> = counts.into_iter().collect();
    words.sort_unstable_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(b.0)));
    let mut at: HashMap<String, usize> = HashMap::with_capacity(words.len());
    let mut merged: Vec<(String, usize)> = Vec::with_capacity(words.len());
    for (word, count) in words {
        let place = *at.entry(word.to_lowercase()).or_insert(merged.len());
        match merged.get_mut(place) {
            Some((_, sum)) => *sum += count,
            None => merged.push((word.to_owned(), count)),
        }
    }
    merged.sort_by_key(|word| Reverse(word.1));
    merged
}

/// Sums up the matching runs: the counts by status, the newest change, and the strip. Uses one
/// pass, because with a hundred thousand runs most of the work is fetching each from memory.
fn sum(matched: &[&Summary]) -> (BTreeMap<RunStatus, usize>, Option<i64>, Strip) {
    let (mut marks, mut newest) = (BTreeMap::new(), None);
    let mut ends: BTreeMap<(ShownStatus, Option<&str>), usize> = BTreeMap::new();
    let (mut steps, mut durations, mut tokens, mut scores) =
        (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let (mut strip, mut tokens_inexact) = (Strip::default(), false);
    for run in matched {
        newest = newest.max(run.updated);
        if run.partial {
            continue;
        }
        *marks.entry(run.verdict.mark).or_default() += 1;
        if run.life.liveness.may_grow() {
            continue;
        }
        if run.life.liveness == Liveness::Unknown && run.verdict.mark == RunStatus::Unknown {
            strip.unknown += 1;
            continue;
        }
        strip.ended += 1;
        strip.answered += usize::from(run.verdict.answered);
        strip.contradicted += usize::from(!run.verdict.contradictions.is_empty());
        let reason = run
            .verdict
            .stop_reason
            .as_deref()
            .filter(|reason| !reason.is_empty());
        *ends.entry((run.shown_status(), reason)).or_default() += 1;
        steps.extend(run.steps_known().map(|steps| steps as f64));
        durations.extend(run.duration_ms);
        tokens.extend(run.tokens.map(|tokens| tokens as f64));
        tokens_inexact |= run.tokens.is_some() && (run.tokens_estimated || run.tokens_unknown > 0);
        scores.extend(run.last_score);
    }
    strip.ends = ways(ends);
    strip.medians = Medians {
        steps: median(steps),
        duration_ms: median(durations),
        tokens: median(tokens),
        tokens_inexact,
        last_score: median(scores),
    };
    (marks, newest, strip)
}

/// Returns the ways to end, grouped by status, most frequent first.
fn ways(ends: BTreeMap<(ShownStatus, Option<&str>), usize>) -> Vec<End> {
    let mut by_status: BTreeMap<ShownStatus, (usize, HashMap<&str, usize>)> = BTreeMap::new();
    for ((status, reason), count) in ends {
        let (unknown, reasons) = by_status.entry(status).or_default();
        match reason {
            Some(reason) => *reasons.entry(reason).or_default() += count,
            None => *unknown += count,
        }
    }
    let of_status = |(status, (unknown, reasons)): (ShownStatus, (usize, HashMap<&str, usize>))| {
        let without = (unknown > 0).then_some(End {
            status,
            reason: None,
            count: unknown,
        });
        let with = ranked(reasons).into_iter().map(move |(reason, count)| End {
            status,
            reason: Some(reason),
            count,
        });
        let mut ends: Vec<End> = without.into_iter().chain(with).collect();
        ends.sort_by_key(|end| Reverse(end.count));
        ends
    };
    by_status.into_iter().flat_map(of_status).collect()
}

fn median(mut values: Vec<f64>) -> Option<f64> {
    values.retain(|value| value.is_finite());
    let middle = values.len() / 2;
    let even = values.len().is_multiple_of(2);
    if values.is_empty() {
        return None;
    }
    let (below, upper, _) = values.select_nth_unstable_by(middle, f64::total_cmp);
    let lower = below
        .iter()
        .copied()
        .max_by(f64::total_cmp)
        .filter(|_| even);
    Some(lower.map_or(*upper, |lower| lower.midpoint(*upper)))
}
