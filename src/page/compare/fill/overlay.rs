//! How do the scores of runs lie over each other here? By aligned row where two are compared, by step where more are;
//! more than six are a band.

use crate::analysis::compare::Comparison;
use crate::analysis::scores::{Series, bands, series};
use crate::page::compare::fill::label_of;
use crate::page::lens::Lens;
use crate::page::scores::overlay::{Axis, BAND, BAND_COLUMNS, MAX_LINES, Overlay, Source};

/// So many labels fit under a picture.
const MAX_TICKS: usize = 10;

/// The scores of two runs by the rows of their alignment; `None` where no critic gave one.
pub(crate) fn of_two(comparison: &Comparison, a: &Lens<'_>, b: &Lens<'_>) -> Option<Overlay> {
    let rows = &comparison.rows;
    let last = rows.len().saturating_sub(1).max(1) as f64;
    let place_of = |lens: &Lens<'_>, of_a: bool| {
        let mut places = vec![0.0; lens.index.steps().len()];
        for (at, row) in rows.iter().enumerate() {
            let n = if of_a { row.pair.a } else { row.pair.b };
            if let Some(place) = n.and_then(|n| places.get_mut(n)) {
                *place = at as f64 / last;
            }
        }
        places
    };
    let label = |at: usize| Some(label_of(rows.get(at)?, a, b));
    let ticks = ticks(rows.len(), label);
    let sources = [source(a, &place_of(a, true)), source(b, &place_of(b, false))];
    drawn("Lowest critic score of each step, A and B", "step, as aligned", ticks, &sources)
}

/// The scores of several runs by step; `None` where no critic gave one.
pub(crate) fn of_many(lenses: &[&Lens<'_>]) -> Option<Overlay> {
    let most = lenses.iter().map(|lens| lens.index.steps().len()).max()?;
    let last = most.saturating_sub(1).max(1) as f64;
    let places: Vec<f64> = (0..most).map(|n| n as f64 / last).collect();
    if lenses.len() > MAX_LINES {
        return band(lenses, most, &places);
    }
    let sources: Vec<Source> = lenses.iter().map(|lens| source(lens, &places)).collect();
    drawn("Lowest critic score of each step", "step", ticks(most, |at| Some(at.to_string())), &sources)
}

fn band(lenses: &[&Lens<'_>], most: usize, places: &[f64]) -> Option<Overlay> {
    let all: Vec<Series> = lenses.iter().map(|lens| series(lens.index, None)).collect();
    if all.iter().all(|run| run.points.is_empty()) {
        return None;
    }
    let share = |n: usize| n as f64 / most.max(1) as f64;
    let bands = bands(&all, most.clamp(1, BAND_COLUMNS), |_, n| (share(n), share(n + 1)));
    let axis = Axis { name: "step", ticks: ticks(most, |at| Some(at.to_string())) };
    let title = format!("Lowest critic score of each step, {} runs", all.len());
    let first = lenses.first().map(|lens| source(lens, places));
    Some(Overlay { caption: BAND.into(), ..Overlay::band(title, &axis, first.as_ref(), &bands, None) })
}

fn drawn(title: &str, name: &'static str, ticks: Vec<(f64, String)>, sources: &[Source]) -> Option<Overlay> {
    let some = sources.iter().any(|source| !source.series.points.is_empty());
    some.then(|| Overlay::lines(title.to_owned(), &Axis { name, ticks }, sources, None))
}

/// A run with the place of each of its steps.
fn source(lens: &Lens<'_>, places: &[f64]) -> Source {
    let series = series(lens.index, None);
    let points = series.points.iter();
    let labels = points.clone().map(|(n, _)| lens.label(*n)).collect();
    let places = points.map(|(n, _)| places.get(*n).copied().unwrap_or_default()).collect();
    Source { key: lens.key().to_owned(), series, labels, places }
}

fn ticks(rows: usize, label: impl Fn(usize) -> Option<String>) -> Vec<(f64, String)> {
    let every = rows.div_ceil(MAX_TICKS).max(1);
    let last = rows.saturating_sub(1).max(1) as f64;
    (0..rows).step_by(every).filter_map(|at| Some((at as f64 / last, label(at)?))).collect()
}
