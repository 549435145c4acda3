//! Overlays the scores of the compared runs: by aligned row for two runs, by step for more. More
//! than six runs are drawn as a band.

use crate::analysis::compare::Comparison;
use crate::analysis::scores::{Series, series};
use crate::page::compare::label;
use crate::page::run_view::RunView;
use crate::page::scores::overlay::{Axis, BAND, MAX_LINES, Overlay, Source};
use crate::page::scores::plot::VisibleRange;

/// Limits the labels below a chart.
const MAX_TICKS: usize = 10;

/// Overlays the scores of two runs by aligned row. Returns `None` if no critic gave a score.
pub(crate) fn of_two(comparison: &Comparison, a: &RunView<'_>, b: &RunView<'_>) -> Option<Overlay> {
    let rows = &comparison.rows;
    let place_of = |view: &RunView<'_>, of_a: bool| {
        let mut places = vec![0.0; view.index.steps().len()];
        for (at, row) in rows.iter().enumerate() {
            let n = if of_a { row.pair.a } else { row.pair.b };
            if let Some(place) = n.and_then(|n| places.get_mut(n)) {
                *place = share(at, rows.len());
            }
        }
        move |n: usize| places.get(n).copied().unwrap_or_default()
    };
    let all = [series(a.index, None), series(b.index, None)];
    let [one, other] = &all;
    let sources = [
        Source::new(a, one, place_of(a, true)),
        Source::new(b, other, place_of(b, false)),
    ];
    let ticks = ticks(rows.len(), |at| Some(label(rows.get(at)?, a, b)));
    let title = "Lowest critic score per step, A and B".to_owned();
    let some = all.iter().any(|series| !series.points.is_empty());
    some.then(|| {
        Overlay::lines(
            title,
            Axis {
                name: "aligned step",
                ticks,
                ends: None,
            },
            &sources,
            None,
        )
    })
}

/// Overlays the scores of several runs by step. Returns `None` if no critic gave a score.
pub(crate) fn of_many(views: &[RunView<'_>]) -> Option<Overlay> {
    let all: Vec<Series> = views.iter().map(|view| series(view.index, None)).collect();
    all.iter().find(|series| !series.points.is_empty())?;
    let longest = all.iter().map(|series| series.steps).max()?;
    let axis = Axis {
        name: "step",
        ticks: ticks(longest, |at| Some(at.to_string())),
        ends: None,
    };
    let title = "Lowest critic score per step";
    let mut sources = views
        .iter()
        .zip(&all)
        .map(|(view, series)| Source::new(view, series, |n| share(n, longest)));
    if views.len() <= MAX_LINES {
        return Some(Overlay::lines(
            title.to_owned(),
            axis,
            &sources.collect::<Vec<_>>(),
            None,
        ));
    }
    let title = format!("{title}, {} runs", all.len());
    let band = Overlay::band(
        title,
        axis,
        sources.next().as_ref(),
        &all,
        false,
        (VisibleRange::WHOLE, None),
    );
    Some(Overlay {
        caption: BAND.to_owned(),
        ..band
    })
}

/// Returns the position of row `at` of `rows` as a fraction of the width.
fn share(at: usize, rows: usize) -> f64 {
    at as f64 / rows.saturating_sub(1).max(1) as f64
}

fn ticks(rows: usize, label: impl Fn(usize) -> Option<String>) -> Vec<(f64, String)> {
    let every = rows.div_ceil(MAX_TICKS).max(1);
    (0..rows)
        .step_by(every)
        .filter_map(|at| Some((share(at, rows), label(at)?)))
        .collect()
}
