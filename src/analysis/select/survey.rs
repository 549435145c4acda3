//! What do the runs that match have in common? Counts for the filters, the share that answered, why runs ended, medians.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};

use super::Summary;
use crate::analysis::columns::{Column, MODEL, STATUS, STOP};
use crate::analysis::life::Liveness;
use crate::analysis::query::Query;
use crate::analysis::verdict::RunStatus;

/// The runs that match, in numbers.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Survey {
    /// How many runs there are.
    pub total: usize,
    /// How many match.
    pub matched: usize,
    /// How many of those that match have each mark; runs that are still being read have none.
    pub marks: BTreeMap<RunStatus, usize>,
    /// The newest change among those that match; microseconds since the epoch.
    pub newest: Option<i64>,
    /// The filters.
    pub facets: Facets,
    /// How the runs ended.
    pub strip: Strip,
    /// The columns that runs can be put together by: those in which a run has a value.
    pub groups: Vec<&'static Column>,
}

/// How many runs each filter would show. A group's counts ignore the query's own terms about that group, so that they
/// say where one could go.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Facets {
    /// `status` by mark; those that no run has are left out.
    pub marks: BTreeMap<RunStatus, usize>,
    /// `status:indexing`: runs that are still being read.
    pub indexing: usize,
    /// `stop`, most frequent first.
    pub stops: Vec<(String, usize)>,
    /// `model`, most frequent first.
    pub models: Vec<(String, usize)>,
}

/// The runs that match and ended, in numbers. Runs that may still write or are still being read are left out, and so are
/// those of which nothing tells whether they ended.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Strip {
    /// How many ended.
    pub ended: usize,
    /// Of how many nothing tells whether they ended: they are silent, and no end is recorded or can be inferred.
    pub untold: usize,
    /// How many of these answered.
    pub answered: usize,
    /// How many have files that contradict each other about the end.
    pub contradicted: usize,
    /// Why they ended, by mark, most frequent reason first.
    pub ends: Vec<End>,
    /// What is in the middle of what they took.
    pub medians: Medians,
}

/// One way to end; spellings of a reason that differ in letter case are one, because a query finds both.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct End {
    /// Its mark.
    pub mark: RunStatus,
    /// The recorded stop reason.
    pub reason: Option<String>,
    /// How many runs ended so.
    pub count: usize,
}

/// Medians over the runs that record the value; between two values in the middle lies their mean.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Medians {
    /// Steps.
    pub steps: Option<f64>,
    /// Milliseconds.
    pub duration_ms: Option<f64>,
    /// Tokens.
    pub tokens: Option<f64>,
    /// Whether a run among them has tokens that are estimated or at least so many.
    pub tokens_inexact: bool,
    /// Last score.
    pub last_score: Option<f64>,
}

/// Looks at all runs with `query`.
pub fn survey<T: AsRef<Summary>>(all: &[T], query: &Query) -> Survey {
    // A query without a term about the field is the same without it, and is not asked twice.
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
                *tally.marks.entry(run.verdict.mark).or_default() += 1;
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
    marks: BTreeMap<RunStatus, usize>,
    indexing: usize,
    stops: HashMap<&'a str, usize>,
    models: HashMap<&'a str, usize>,
    matched: Vec<&'a Summary>,
    /// Columns to put runs together by that some run has a value in, and the others.
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

/// Most frequent first, then by name. Spellings that differ in letter case are one, because a query finds both.
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

/// Sums the runs that match up: how many have which mark, the newest change, and the strip. One pass: of a hundred thousand
/// runs, to fetch each from memory is most of the work.
fn sum(matched: &[&Summary]) -> (BTreeMap<RunStatus, usize>, Option<i64>, Strip) {
    let (mut marks, mut newest) = (BTreeMap::new(), None);
    let mut ends: BTreeMap<(RunStatus, Option<&str>), usize> = BTreeMap::new();
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
            strip.untold += 1;
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
        *ends.entry((run.verdict.mark, reason)).or_default() += 1;
        steps.extend(run.steps_known().map(|steps| steps as f64));
        durations.extend(run.duration_ms);
        tokens.extend(run.tokens.map(|tokens| tokens as f64));
        tokens_inexact |= run.tokens.is_some() && (run.tokens_estimated || run.tokens_untold > 0);
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

/// The ways to end by mark, most frequent first.
fn ways(ends: BTreeMap<(RunStatus, Option<&str>), usize>) -> Vec<End> {
    let mut by_mark: BTreeMap<RunStatus, (usize, HashMap<&str, usize>)> = BTreeMap::new();
    for ((mark, reason), count) in ends {
        let (untold, reasons) = by_mark.entry(mark).or_default();
        match reason {
            Some(reason) => *reasons.entry(reason).or_default() += count,
            None => *untold += count,
        }
    }
    let of_mark = |(mark, (untold, reasons)): (RunStatus, (usize, HashMap<&str, usize>))| {
        let without = (untold > 0).then_some(End {
            mark,
            reason: None,
            count: untold,
        });
        let with = ranked(reasons).into_iter().map(move |(reason, count)| End {
            mark,
            reason: Some(reason),
            count,
        });
        let mut ends: Vec<End> = without.into_iter().chain(with).collect();
        ends.sort_by_key(|end| Reverse(end.count));
        ends
    };
    by_mark.into_iter().flat_map(of_mark).collect()
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
