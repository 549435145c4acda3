//! How does a whole run look in one narrow picture? Scores, phases and marks over all positions, thinned to columns.
//!
//! It is as wide as the slider below it and counts as the slider does: every event takes the same room. Up to as many
//! steps as there are columns each has its own; beyond that a column keeps the lowest score of its steps, and of
//! several marks the weightiest.

use std::collections::BTreeMap;

use crate::analysis::format;
use crate::analysis::replay::{Breakpoint, Mark, Part, mark};
use crate::analysis::timing::stretches;
use crate::model::index::Group;
use crate::page::replay::fill::{Place, step};
use crate::page::replay::{Bar, LabelAt, MarkAt, MarkKind, Scrub};

const WIDTH: f64 = 1392.0;
/// The first and the last position are so far from the edges, as the slider's are.
const PAD: f64 = 8.0;
/// At most so many scores, marks and hits are drawn.
const COLUMNS: usize = 400;
/// Up to so many steps show points and phases.
const FEW: usize = 60;
/// At most so many stretches of phases are drawn.
const BARS: usize = 600;
/// At most so many steps are named.
const LABELS: usize = 20;

/// The picture of the run.
pub(crate) fn scrub(place: &Place<'_>, breaks: &[Breakpoint]) -> Scrub {
    let parts = place.track.parts();
    let scale = (WIDTH - 2.0 * PAD) / place.track.last().max(1) as f64;
    let middle = |part: &Part| PAD + scale * (part.at as f64 + (part.positions() - 1) as f64 / 2.0);
    let column = |x: f64| (x / WIDTH * COLUMNS as f64) as usize;
    let mut scores: BTreeMap<usize, (f64, f64)> = BTreeMap::new();
    let mut marks: BTreeMap<usize, (Mark, f64)> = BTreeMap::new();
    let mut hits: BTreeMap<usize, f64> = BTreeMap::new();
    let mut gaps: Vec<usize> = Vec::new();
    let (mut scored, mut marked) = (0, 0);
    for (part, n) in parts.iter().filter_map(|part| Some((part, step(part.scene)?))) {
        let x = middle(part);
        let score = place.lens.index.steps().get(n).and_then(|step| step.lowest_score());
        match score.filter(|score| (0.0..=1.0).contains(score)) {
            Some(score) => {
                scored += 1;
                let lowest = scores.entry(column(x)).or_insert((score, x));
                if score < lowest.0 {
                    *lowest = (score, x);
                }
            }
            None => gaps.push(column(x)),
        }
        if let Some(mark) = mark(place.lens.index, n) {
            marked += 1;
            let first = marks.entry(column(x)).or_insert((mark, x));
            if mark < first.0 {
                *first = (mark, x);
            }
        }
        if breaks.iter().any(|one| one.hits(n)) {
            hits.insert(column(x), x);
        }
    }
    let few = parts.len() <= FEW;
    let lines = lines(&scores, &gaps);
    let mut marks: Vec<MarkAt> = marks.values().map(|(mark, x)| MarkAt { x: at(*x), kind: kind(*mark) }).collect();
    if !place.lens.summary.life.liveness.may_grow() {
        let end = crate::page::replay::fill::status(place.lens.summary).fill();
        marks.push(MarkAt { x: at(WIDTH - 9.0), kind: MarkKind::End(end) });
    }
    let cur = PAD + scale * place.at as f64;
    let steps = parts.iter().filter(|part| step(part.scene).is_some()).count();
    Scrub {
        title: format!("{} with scores and marks", format::counted(steps, "step")).into(),
        desc: format!(
            "Cursor in {}. {}, {}, {}.",
            place.track.part(place.at).map_or_else(String::new, |(part, _)| place.name(part.scene).to_lowercase()),
            format::counted(scored, "step") + " with a score",
            format::counted(marked, "step") + " with a mark",
            format::counted(hits.len(), "place") + " to stop at"
        )
        .into(),
        lines,
        dots: if few { scores.values().map(|(score, x)| (at(*x), height(*score))).collect() } else { Vec::new() },
        bars: if few { bars(place, scale) } else { Vec::new() },
        marks,
        hits: hits.values().map(|x| at(*x)).collect(),
        labels: labels(place, scale),
        cur: at(cur),
        later: (at(cur), at(WIDTH - cur)),
    }
}

fn at(x: f64) -> String {
    format!("{x:.1}")
}

fn height(score: f64) -> String {
    format!("{:.1}", 50.0 - 44.0 * score)
}

fn kind(mark: Mark) -> MarkKind {
    match mark {
        Mark::Error => MarkKind::Error,
        Mark::Stop => MarkKind::Stop,
        Mark::Retry => MarkKind::Retry,
        Mark::Code => MarkKind::Code,
    }
}

/// The lines through the scores; a column of steps without any is a gap.
fn lines(scores: &BTreeMap<usize, (f64, f64)>, gaps: &[usize]) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    let mut before = None;
    for (column, (score, x)) in scores {
        let gap = before.is_some_and(|before: usize| {
            let from = gaps.partition_point(|gap| *gap <= before);
            gaps.get(from).is_some_and(|gap| gap < column)
        });
        let point = format!("{},{}", at(*x), height(*score));
        match lines.last_mut().filter(|_| !gap) {
            Some(line) => {
                line.push(' ');
                line.push_str(&point);
            }
            None => lines.push(point),
        }
        before = Some(*column);
    }
    lines
}

fn bars(place: &Place<'_>, scale: f64) -> Vec<Bar> {
    let mut bars = Vec::new();
    for part in place.track.parts().iter().filter(|part| part.events > 0) {
        for stretch in stretches(place.lens.index, &group_of(part)) {
            // An event takes the room half way to its neighbours; a step ends with a gap.
            let edge = |event: usize| PAD + scale * ((part.at + event - part.first) as f64 - 0.5);
            let gap = if stretch.end == part.first + part.events { 1.0 } else { 0.0 };
            let x = edge(stretch.first).max(0.0);
            let width = (edge(stretch.end).min(WIDTH) - gap - x).max(0.5);
            let class = crate::page::lens::phase(place.lens.index.name(stretch.phase)).0;
            bars.push(Bar { class, x: at(x), width: at(width) });
        }
    }
    if bars.len() > BARS { Vec::new() } else { bars }
}

/// The events of a part as a round, to see its phases.
pub(crate) fn group_of(part: &Part) -> Group {
    Group { first: part.first, end: part.first + part.events, ..Group::default() }
}

/// The names of some steps, and of the one at the cursor.
fn labels(place: &Place<'_>, scale: f64) -> Vec<LabelAt> {
    let parts: Vec<&Part> = place.track.parts().iter().filter(|part| step(part.scene).is_some()).collect();
    let every = parts.len().div_ceil(LABELS).max(1);
    let current = place.track.part(place.at).and_then(|(part, _)| step(part.scene));
    let near = |n: usize| current.is_some_and(|current| n != current && n.abs_diff(current) * 2 < every);
    let shown = |n: usize| (n.is_multiple_of(every) && !near(n)) || current == Some(n);
    let label = |part: &&Part| {
        let n = step(part.scene).filter(|n| shown(*n))?;
        let name = place.name(part.scene);
        let x = PAD + scale * (part.at as f64 + (part.positions() - 1) as f64 / 2.0);
        Some(LabelAt { x: at(x), text: name.trim_start_matches("Step ").into(), current: current == Some(n) })
    };
    parts.iter().filter_map(label).collect()
}
