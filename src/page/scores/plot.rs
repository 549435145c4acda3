//! Where does a score stand in a picture? Coordinates, ticks and thinning, the same for every chart of scores.

use std::fmt::Write as _;

use crate::analysis::format;
use crate::analysis::scores::{in_words, share};

/// What a critic asked for at a point.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Mark {
    /// Nothing but to go on.
    #[default]
    None,
    /// A change of the prompt or the state.
    Patch,
    /// A retry.
    Retry,
    /// A stop.
    Stop,
}

impl Mark {
    /// The letter inside its ring; a stop has a shape of its own.
    pub(crate) fn glyph(self) -> &'static str {
        match self {
            Mark::None | Mark::Stop => "",
            Mark::Patch => "+",
            Mark::Retry => "↻",
        }
    }

    /// What it means.
    pub(crate) fn words(self) -> &'static str {
        match self {
            Mark::None => "",
            Mark::Patch => "patch",
            Mark::Retry => "retry",
            Mark::Stop => "stop",
        }
    }
}

/// A score and its place along the axis.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Spot {
    /// The step's ordinal.
    pub n: usize,
    /// From 0 at the left edge to 1 at the right.
    pub x: f64,
    /// The score.
    pub score: f64,
    /// What was asked for there.
    pub mark: Mark,
    /// Whether a step without a score is between it and the one before, so that no line joins them.
    pub after_gap: bool,
}

/// The part of a picture in which scores stand.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Frame {
    pub(crate) left: f64,
    pub(crate) right: f64,
    pub(crate) top: f64,
    pub(crate) bottom: f64,
    /// The scores at its lower and upper edge.
    pub(crate) range: (f64, f64),
}

/// A mark on an axis.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Tick {
    /// Its place.
    pub at: String,
    /// What stands there.
    pub text: String,
}

/// A threshold: its line and the band below it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Level {
    /// The line, from above.
    pub y: String,
    /// The height of the band.
    pub height: String,
    /// Where its number stands.
    pub text_y: String,
    /// The number.
    pub text: String,
}

/// A coordinate as it is written.
pub(crate) fn at(number: f64) -> String {
    format!("{number:.1}")
}

impl Frame {
    pub(crate) fn x(&self, place: f64) -> f64 {
        self.left + place * (self.right - self.left)
    }

    pub(crate) fn y(&self, score: f64) -> f64 {
        self.bottom - share(self.range, score) * (self.bottom - self.top)
    }

    /// The lower edge, the middle and the upper edge; quarters between them where there is room.
    pub(crate) fn levels(&self) -> Vec<Tick> {
        let (low, high) = self.range;
        let parts: u32 = if self.bottom - self.top > 150.0 { 4 } else { 2 };
        let score = |part: u32| {
            let share = f64::from(part) / f64::from(parts);
            low * (1.0 - share) + high * share
        };
        let tick = |part| Tick { at: at(self.y(score(part))), text: bare(score(part)) };
        (0..=parts).map(tick).collect()
    }

    /// The threshold; `None` where it lies outside.
    pub(crate) fn level(&self, threshold: f64) -> Option<Level> {
        let (low, high) = self.range;
        (low..=high).contains(&threshold).then(|| {
            let y = self.y(threshold);
            let text = in_words(threshold);
            Level { y: at(y), height: at(self.bottom - y), text_y: at(y + 4.0), text }
        })
    }

    /// The path through `spots`, thinned to two points for each of `columns`, and how many points that leaves.
    pub(crate) fn line(&self, spots: &[Spot], columns: usize) -> (String, usize) {
        let kept = extremes(spots, columns);
        let mut path = String::with_capacity(kept.len() * 12);
        let mut before = None;
        for at in &kept {
            let Some(spot) = spots.get(*at) else { continue };
            let between = before.map_or(0, |before: usize| before + 1)..=*at;
            let broken = before.is_none() || spots.get(between).unwrap_or_default().iter().any(|spot| spot.after_gap);
            let (x, y) = (self.x(spot.x), self.y(spot.score));
            // A point of its own needs a line of no length to be seen.
            let _ = if broken { write!(path, "M{x:.1} {y:.1}h0") } else { write!(path, "L{x:.1} {y:.1}") };
            before = Some(*at);
        }
        (path, kept.len())
    }
}

/// A number on an axis needs no zeros at its end: `0`, `0.5`, `−20`.
pub(crate) fn bare(number: f64) -> String {
    let text = format::score(number);
    if text.contains('e') {
        // There is room for one digit.
        let sign = if number < 0.0 { String::from(format::MINUS) } else { String::new() };
        format!("{sign}{:.0e}", number.abs())
    } else {
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    }
}

/// The lowest and the highest of each column, in their order; all where they fit.
pub(crate) fn extremes(spots: &[Spot], columns: usize) -> Vec<usize> {
    if spots.len() <= 2 * columns {
        return (0..spots.len()).collect();
    }
    let mut kept = Vec::with_capacity(2 * columns);
    let mut start = 0;
    for group in spots.chunk_by(|a, b| column(a, columns) == column(b, columns)) {
        let own = || group.iter().zip(start..);
        let low = own().min_by(|a, b| a.0.score.total_cmp(&b.0.score)).map(|(_, at)| at);
        let high = own().max_by(|a, b| a.0.score.total_cmp(&b.0.score)).map(|(_, at)| at);
        kept.extend(low.min(high));
        kept.extend(low.max(high).filter(|_| low != high));
        start += group.len();
    }
    kept
}

/// [`extremes`], and of each column the first point with each sort of mark.
pub(crate) fn with_marks(spots: &[Spot], columns: usize) -> Vec<usize> {
    let mut kept = extremes(spots, columns);
    if kept.len() == spots.len() {
        return kept;
    }
    let mut start = 0;
    for group in spots.chunk_by(|a, b| column(a, columns) == column(b, columns)) {
        for mark in [Mark::Patch, Mark::Retry, Mark::Stop] {
            kept.extend(group.iter().position(|spot| spot.mark == mark).map(|at| start + at));
        }
        start += group.len();
    }
    kept.sort_unstable();
    kept.dedup();
    kept
}

fn column(spot: &Spot, columns: usize) -> usize {
    (spot.x * columns as f64) as usize
}

/// Ordinals for labels along the axis of `steps` steps: round distances, at most `most` of them.
pub(crate) fn ticks(steps: usize, most: usize) -> Vec<usize> {
    let mut distance = 1;
    for factor in [2, 5, 10].into_iter().cycle() {
        if steps.div_ceil(distance) <= most {
            break;
        }
        let tens = 10_usize.pow(distance.ilog10());
        distance = tens * factor;
    }
    (0..steps).step_by(distance).collect()
}
