//! How does a whole run look in one narrow picture? Scores, phases and marks over all positions, thinned to columns.
//!
//! It is as wide as the slider below it and counts as the slider does: every event takes the same room. Up to as many
//! steps as there are columns each has its own; beyond that a column keeps the lowest score of its steps, and of
//! several marks the weightiest.

use std::collections::BTreeMap;

use crate::analysis::format;
use crate::analysis::replay::{Part, has, mark};
use crate::analysis::timing::stretches;
use crate::page::lens::phase;
use crate::page::replay::phases::group_of;
use crate::page::replay::{Replay, step};
use crate::page::scores::plot::Px;

pub(crate) use crate::analysis::replay::Mark;

const WIDTH: f64 = 1392.0;
/// Where the mark of the end stands.
pub(crate) const END: Px = Px(WIDTH - 9.0);
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

/// The picture of the whole run: a unit wide per position, scaled to the width of the page.
pub(crate) struct Scrub {
    pub steps: usize,
    /// How many steps have a score, how many a mark.
    pub scored: usize,
    pub marked: usize,
    /// The lines through the lowest scores; more than one where steps have none.
    pub lines: Vec<String>,
    /// The scores as points, where there is room.
    pub dots: Vec<(Px, Px)>,
    /// The phases, where there is room: class, left edge and width.
    pub bars: Vec<(&'static str, Px, Px)>,
    /// Errors, retries, stops, where there is room for their signs.
    pub marks: Vec<(Px, Mark)>,
    /// The same where there is not: a lane for each kind, with its class.
    pub lanes: Vec<(&'static str, String)>,
    /// Where breakpoints are.
    pub hits: Vec<Px>,
    /// The steps' names, and whether it is the step at the cursor.
    pub labels: Vec<(Px, String, bool)>,
    pub cursor: Px,
    /// How wide is what is still to come.
    pub later: Px,
}

impl Scrub {
    pub(crate) fn new(replay: &Replay<'_>) -> Self {
        let index = replay.lens.index;
        let scale = (WIDTH - 2.0 * PAD) / replay.track.last().max(1) as f64;
        let column = |x: f64| (x / WIDTH * COLUMNS as f64) as usize;
        let parts = replay.track.parts().iter().filter_map(|part| Some((part, step(part.scene)?)));
        let steps: Vec<(&Part, usize, f64)> = parts.map(|(part, n)| (part, n, middle(part, scale))).collect();
        let mut scores: BTreeMap<usize, (f64, f64)> = BTreeMap::new();
        let mut marks: BTreeMap<usize, (Mark, f64)> = BTreeMap::new();
        let mut hits: BTreeMap<usize, f64> = BTreeMap::new();
        let mut gaps: Vec<usize> = Vec::new();
        let (mut scored, mut marked) = (0, 0);
        for (_, n, x) in &steps {
            let (at, x) = (column(*x), *x);
            let score = index.steps().get(*n).and_then(|step| step.lowest_score());
            match score.filter(|score| (0.0..=1.0).contains(score)) {
                Some(score) => {
                    scored += 1;
                    let lowest = scores.entry(at).or_insert((score, x));
                    if score < lowest.0 {
                        *lowest = (score, x);
                    }
                }
                None => gaps.push(at),
            }
            if let Some(mark) = mark(index, *n) {
                marked += 1;
                let first = marks.entry(at).or_insert((mark, x));
                if mark < first.0 {
                    *first = (mark, x);
                }
            }
            if replay.breaks.iter().any(|one| one.hits(*n)) {
                hits.insert(at, x);
            }
        }
        let few = replay.track.parts().len() <= FEW;
        let cursor = PAD + scale * replay.at as f64;
        let dot = |(score, x): &(f64, f64)| (Px(*x), height(*score));
        Self {
            steps: steps.len(),
            scored,
            marked,
            lines: lines(&scores, &gaps),
            dots: if few { scores.values().map(dot).collect() } else { Vec::new() },
            bars: if few { bars(replay, scale) } else { blocks(replay, scale) },
            marks: if few { marks.values().map(|(mark, x)| (Px(*x), *mark)).collect() } else { Vec::new() },
            lanes: if few { Vec::new() } else { lanes(replay, &steps) },
            hits: hits.values().map(|x| Px(*x)).collect(),
            labels: labels(replay, &steps),
            cursor: Px(cursor),
            later: Px(WIDTH - cursor),
        }
    }

    pub(crate) fn title(&self) -> String {
        format!("{} with scores and marks", format::counted(self.steps, "step"))
    }

    /// The picture in numbers.
    pub(crate) fn description(&self) -> String {
        let step = |count| format::counted(count, "step");
        let hits = format::counted(self.hits.len(), "place");
        format!("{} with a score, {} with a mark, {hits} to stop at.", step(self.scored), step(self.marked))
    }
}

/// Where a step stands: in the middle of its positions.
fn middle(part: &Part, scale: f64) -> f64 {
    PAD + scale * (part.at as f64 + (part.positions() - 1) as f64 / 2.0)
}

fn height(score: f64) -> Px {
    Px(50.0 - 44.0 * score)
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
        let point = format!("{},{}", Px(*x), height(*score));
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

fn bars(replay: &Replay<'_>, scale: f64) -> Vec<(&'static str, Px, Px)> {
    let index = replay.lens.index;
    let mut bars = Vec::new();
    for part in replay.track.parts().iter().filter(|part| part.events > 0) {
        for stretch in stretches(index, &group_of(part)) {
            // An event takes the room half way to its neighbours; a step ends with a gap.
            let edge = |event: usize| PAD + scale * ((part.at + event - part.first) as f64 - 0.5);
            let gap = if stretch.end == part.first + part.events { 1.0 } else { 0.0 };
            let x = edge(stretch.first).max(0.0);
            let width = (edge(stretch.end).min(WIDTH) - gap - x).max(0.5);
            bars.push((phase(index.name(stretch.phase)).0, Px(x), Px(width)));
        }
    }
    if bars.len() > BARS { Vec::new() } else { bars }
}

/// The phases of a run of many steps: in each column the one that most of its events are of.
fn blocks(replay: &Replay<'_>, scale: f64) -> Vec<(&'static str, Px, Px)> {
    let index = replay.lens.index;
    let mut counts: BTreeMap<usize, BTreeMap<&'static str, usize>> = BTreeMap::new();
    let mut classes = BTreeMap::new();
    for part in replay.track.parts() {
        for (offset, event) in index.events().range(part.range()).enumerate() {
            let column = ((PAD + scale * (part.at + offset) as f64) / WIDTH * BARS as f64) as usize;
            let class = *classes.entry(event.phase).or_insert_with(|| phase(index.name(event.phase)).0);
            *counts.entry(column).or_default().entry(class).or_default() += 1;
        }
    }
    let width = WIDTH / BARS as f64;
    let mut blocks: Vec<(&'static str, usize, usize)> = Vec::new();
    for (column, counts) in counts {
        let Some((class, _)) = counts.into_iter().max_by_key(|(_, count)| *count) else { continue };
        match blocks.last_mut() {
            Some((known, _, end)) if *known == class && *end == column => *end += 1,
            _ => blocks.push((class, column, column + 1)),
        }
    }
    let block = |(class, first, end)| (class, Px(width * first as f64), Px(width * (end - first) as f64));
    blocks.into_iter().map(block).collect()
}

/// The marks of a run of many steps: a lane for each kind, so that none hides another.
fn lanes(replay: &Replay<'_>, steps: &[(&Part, usize, f64)]) -> Vec<(&'static str, String)> {
    let index = replay.lens.index;
    let kinds = [(Mark::Error, "error"), (Mark::Stop, "stop"), (Mark::Retry, "retry"), (Mark::Code, "code")];
    let lane = |(at, (kind, class)): (usize, (Mark, &'static str))| {
        let mut path = String::new();
        let mut last = None;
        for (_, n, x) in steps {
            let column = *x as usize;
            if last != Some(column) && has(index, *n, kind) {
                path.push_str(&format!("M{column} {}h2", 80 + 5 * at));
                last = Some(column);
            }
        }
        (class, path)
    };
    kinds.into_iter().enumerate().map(lane).filter(|(_, path)| !path.is_empty()).collect()
}

/// The names of some steps, and of the one at the cursor.
fn labels(replay: &Replay<'_>, steps: &[(&Part, usize, f64)]) -> Vec<(Px, String, bool)> {
    let every = steps.len().div_ceil(LABELS).max(1);
    let current = replay.part.and_then(|(part, _)| step(part.scene));
    let near = |n: usize| current.is_some_and(|current| n != current && n.abs_diff(current) * 2 < every);
    let shown = |n: usize| (n.is_multiple_of(every) && !near(n)) || current == Some(n);
    let label = |(part, n, x): &(&Part, usize, f64)| {
        let name = replay.name(part.scene);
        (Px(*x), name.trim_start_matches("Step ").to_owned(), current == Some(*n))
    };
    steps.iter().filter(|(_, n, _)| shown(*n)).map(label).collect()
}
