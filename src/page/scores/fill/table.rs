//! Which numbers stand in the table of scores? A window of steps, the last ones first, with what is no number as recorded.

use crate::analysis::format;
use crate::analysis::scores::{Lane, Point, Scores};
use crate::page::lens::Lens;
use crate::page::part::sign::Link;
use crate::page::scores::fill::{MAX_LANES, said_at, window_of};
use crate::page::scores::plot::Mark;
use crate::page::scores::said::Said;
use crate::page::scores::{Cell, Query, Table, TableRow, mark};

/// So many steps fit beside each other on a laptop.
const WINDOW: usize = 24;

/// The table of the steps before `query.before`, or of the last ones.
pub(crate) fn table(lens: &Lens<'_>, scores: &Scores, query: &Query) -> Table {
    let total = scores.steps;
    let end = query.before.filter(|before| *before > 0).map_or(total, |before| before.min(total));
    let start = end.saturating_sub(WINDOW);
    // Lines are read only where a critic spoke and gave no number.
    let spoke =
        |n: usize| lens.index.steps().get(n).is_some_and(|step| step.critics.iter().any(|mark| mark.score.is_none()));
    let read: Vec<(usize, Vec<Said>)> = (start..end).filter(|n| spoke(*n)).map(|n| (n, said_at(lens, n))).collect();
    let rows = scores.lanes.iter().take(MAX_LANES).map(|lane| TableRow {
        name: lane.name.as_str().into(),
        cells: (start..end).map(|n| cell(lane, n, query, &read)).collect(),
    });
    let rows: Vec<TableRow> = rows.collect();
    let spread = scores.spread();
    let spread =
        spread.get(start..end).unwrap_or_default().iter().map(|apart| format::or_missing(*apart, format::score));
    let on_scale = scores.lanes.iter().filter(|lane| lane.fits()).count();
    let several = on_scale > 1;
    Table {
        about: about(lens, start, end, total).into(),
        head: (start..end).map(|n| Link::new(lens.label(n), lens.at_step(n))).collect(),
        rows,
        spread: if several { spread.map(Into::into).collect() } else { Vec::new() },
        spread_of: if on_scale < scores.lanes.len() { " of critics on 0 to 1" } else { "" },
        windows: windows(lens, query, start, end, total),
    }
}

fn about(lens: &Lens<'_>, start: usize, end: usize, total: usize) -> String {
    match end - start {
        shown if shown == total => format!("all {}", format::counted(total, "step")),
        shown => {
            let last = end.saturating_sub(1);
            let of = format::count(total as u64);
            format!("steps {} to {}, {shown} of {of}", lens.label(start), lens.label(last))
        }
    }
}

fn windows(lens: &Lens<'_>, query: &Query, start: usize, end: usize, total: usize) -> Vec<Link> {
    let link = |words: &str, before: Option<usize>| Link::new(words, window_of(lens, query, before));
    let mut links = Vec::new();
    if start > WINDOW {
        links.push(link("First", Some(WINDOW.min(total))));
    }
    if start > 0 {
        links.push(link("← Earlier", Some(start.max(WINDOW))));
    }
    if end < total {
        links.push(link("Later →", Some(end + WINDOW).filter(|before| *before < total)));
    }
    if end + WINDOW < total {
        links.push(link("Last", None));
    }
    links
}

fn cell(lane: &Lane, n: usize, query: &Query, read: &[(usize, Vec<Said>)]) -> Cell {
    let from = lane.points.partition_point(|point| point.n < n);
    let points: Vec<&Point> = lane.points.iter().skip(from).take_while(|point| point.n == n).collect();
    if points.is_empty() {
        return Cell { text: format::MISSING.into(), ..Cell::default() };
    }
    let recorded = |point: &Point| {
        let said = read.iter().find(|(step, _)| *step == n).and_then(|(_, said)| said.get(point.place));
        said.map(|said| said.score.clone()).filter(|score| !score.is_empty()).unwrap_or_else(|| "no score".to_owned())
    };
    let text = |point: &&Point| point.score.map_or_else(|| recorded(point), format::score);
    let texts: Vec<String> = points.iter().map(text).collect();
    let exact: Vec<String> = points.iter().filter_map(|point| Some(point.score?.to_string())).collect();
    let (text, exact) = (texts.join(" / "), exact.join(" / "));
    let threshold = query.threshold_of(&lane.name);
    let below = |point: &&Point| point.score.zip(threshold).is_some_and(|(score, threshold)| score < threshold);
    Cell {
        low: points.iter().any(below),
        mark: points.iter().map(|point| mark(point)).find(|mark| *mark != Mark::None).unwrap_or_default(),
        exact: if exact.len() > text.len() { exact.into() } else { "".into() },
        text: text.into(),
    }
}
