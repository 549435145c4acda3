//! Surveys the matching runs: counts for the filters, totals and medians.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::Summary;
use super::group::{Amount, GROUPINGS, Grouping, Sum};
use crate::analysis::columns::{COST, Column, DURATION, MODEL, STATUS, STOP, TOKENS};
use crate::analysis::cost_shares::CostShares;
use crate::analysis::query::Query;
use crate::analysis::run_result::ShownStatus;

/// Statistics of the matching runs.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Survey {
    /// The number of runs.
    pub total: usize,
    /// The number of matching runs.
    pub matched: usize,
    /// The newest change of a matching run, in microseconds since the epoch.
    pub newest: Option<i64>,
    /// The number of duplicates of the matching runs. No count or sum includes them.
    pub copies: usize,
    /// How many of the matching runs have files that contradict each other about the end.
    pub contradicted: usize,
    /// The tokens of the matching runs.
    pub tokens: Total,
    /// Their cost in US dollars.
    pub cost: Total,
    /// Their run times in milliseconds.
    pub duration: Total,
    /// The filter counts.
    pub facets: Facets,
    /// What the runs can be grouped by: what some run records.
    pub groups: Vec<&'static Grouping>,
}

/// The sum of a column over the runs that record it, and its distribution.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Total {
    /// The sum.
    pub sum: Sum,
    /// How many of the values are estimates, or include one.
    pub estimated: usize,
    /// The median. With an even count, the mean of the two middle values.
    pub median: Option<f64>,
}

/// How many runs each filter would show. The counts of a group ignore the query's terms on that
/// group, so that they cover the alternatives.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Facets {
    /// The runs for each `status`, as shown. A status without runs is omitted.
    pub marks: BTreeMap<ShownStatus, usize>,
    /// `status:indexing`: runs that are still being read.
    pub indexing: usize,
    /// The runs for each `stop`, most frequent first.
    pub stops: Vec<(String, usize)>,
    /// The statuses of the runs with a stop reason, for each of `stops`.
    pub stop_marks: HashMap<String, BTreeSet<ShownStatus>>,
    /// The runs for each `model`, most frequent first.
    pub models: Vec<(String, usize)>,
}

/// Surveys all runs with `query`.
pub(crate) fn survey<T: AsRef<Summary>>(all: &[T], query: &Query) -> Survey {
    // If the query has no term on the field, it needn't be evaluated twice.
    let without = |field| {
        Some(query.without_field(field)).filter(|other| other.terms.len() < query.terms.len())
    };
    let [status, stop, model] = [STATUS, STOP, MODEL].map(without);
    let mut tally = Tally {
        open: GROUPINGS.iter().collect(),
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
            let status = run.shown_status();
            let marks = tally.stops.entry(STOP.word(run)).or_default();
            *marks.entry(status).or_default() += 1;
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
    stops: HashMap<&'a str, BTreeMap<ShownStatus, usize>>,
    models: HashMap<&'a str, usize>,
    matched: Vec<&'a Summary>,
    /// The groupings that some run records. `open` contains the others.
    groups: Vec<&'static Grouping>,
    open: Vec<&'static Grouping>,
}

impl Tally<'_> {
    fn see_groups(&mut self, run: &Summary) {
        let groups = &mut self.groups;
        self.open.retain(|grouping| {
            let has = grouping.has(run);
            groups.extend(has.then_some(*grouping));
            !has
        });
    }

    fn survey(self, total: usize) -> Survey {
        let (mut newest, mut copies, mut contradicted) = (None, 0, 0);
        let [mut tokens, mut cost, mut duration] = [TOKENS, COST, DURATION].map(Adding::new);
        let shares = CostShares::of(self.matched.iter().copied());
        // One pass, because with a hundred thousand runs most of the work is fetching each from
        // memory.
        for run in &self.matched {
            newest = newest.max(run.updated);
            copies += run.relation.copies;
            if run.partial {
                continue;
            }
            contradicted += usize::from(!run.verdict.contradictions.is_empty());
            for total in [&mut tokens, &mut cost, &mut duration] {
                total.add(run, &shares);
            }
        }
        Survey {
            total,
            matched: self.matched.len(),
            newest,
            copies,
            contradicted,
            tokens: tokens.total(),
            cost: cost.total(),
            duration: duration.total(),
            groups: self.groups,
            facets: Facets {
                marks: self.marks,
                indexing: self.indexing,
                stop_marks: self
                    .stops
                    .iter()
                    .map(|(word, marks)| {
                        let statuses = marks.keys().copied().collect();
                        ((*word).to_owned(), statuses)
                    })
                    .collect(),
                stops: by_frequency(
                    self.stops
                        .into_iter()
                        .map(|(word, marks)| (word, marks.values().sum()))
                        .collect(),
                ),
                models: by_frequency(self.models),
            },
        }
    }
}

/// Sorts by frequency, then by name. Merges spellings that differ only in letter case, because a
/// query matches all of them.
pub(crate) fn by_frequency(counts: HashMap<&str, usize>) -> Vec<(String, usize)> {
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

/// A column being added up.
pub(crate) struct Adding {
    column: &'static Column,
    total: Total,
    numbers: Vec<f64>,
}

impl Adding {
    pub(crate) fn new(column: &'static Column) -> Self {
        Self {
            column,
            total: Total::default(),
            numbers: Vec::new(),
        }
    }

    pub(crate) fn add(&mut self, run: &Summary, shares: &CostShares<'_>) {
        if let Some(amount) = Amount::of(self.column, run, shares) {
            self.total.sum.include(amount);
            self.total.estimated += usize::from(amount.is_estimate);
            self.numbers.push(amount.number);
        }
    }

    pub(crate) fn total(self) -> Total {
        Total {
            median: median(self.numbers),
            ..self.total
        }
    }
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
