//! Where does a score stand in a picture? Coordinates, ticks and thinning, the same for every chart of scores.

use std::fmt::{self, Write as _};

use crate::analysis::format;
use crate::analysis::scores::{Point, in_words, share};
use crate::model::CriticAction;

/// What a critic asked for besides going on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Request {
    #[default]
    None,
    Patch,
    Retry,
    Stop,
}

impl Request {
    pub(crate) fn of(point: &Point) -> Self {
        match point.action {
            CriticAction::Stop => Request::Stop,
            CriticAction::Retry => Request::Retry,
            _ if point.patches => Request::Patch,
            _ => Request::None,
        }
    }

    /// The letter inside its ring; a stop has a shape of its own.
    pub(crate) fn glyph(self) -> &'static str {
        match self {
            Request::None | Request::Stop => "",
            Request::Patch => "+",
            Request::Retry => "↻",
        }
    }

    pub(crate) fn word(self) -> &'static str {
        match self {
            Request::None => "",
            Request::Patch => "patch",
            Request::Retry => "retry",
            Request::Stop => "stop",
        }
    }
}

/// A coordinate or a length, as it is written in a picture.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Px(pub(crate) f64);

impl fmt::Display for Px {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.1}", self.0)
    }
}

/// A score and its place along the axis, from 0 at the left edge to 1 at the right.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Spot {
    pub n: usize,
    pub x: f64,
    pub score: f64,
    pub request: Request,
}

/// A point of a chart that leads to its step.
#[derive(Debug, Clone)]
pub(crate) struct Dot {
    pub n: usize,
    pub title: String,
    pub x: f64,
    pub y: f64,
    pub request: Request,
}

/// The part of a picture in which scores stand; `range` are the scores at its lower and upper edge.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Frame {
    pub left: f64,
    pub right: f64,
    pub top: f64,
    pub bottom: f64,
    pub range: (f64, f64),
}

/// A threshold in a picture: its line, and the band from there to the lower edge.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Level {
    pub y: Px,
    pub height: Px,
    pub text_y: Px,
    pub text: String,
}

impl Frame {
    pub(crate) fn x(&self, place: f64) -> f64 {
        self.left + place * (self.right - self.left)
    }

    pub(crate) fn y(&self, score: f64) -> f64 {
        self.bottom - share(self.range, score) * (self.bottom - self.top)
    }

    pub(crate) fn dot(&self, spot: &Spot, title: String) -> Dot {
        Dot { n: spot.n, title, x: self.x(spot.x), y: self.y(spot.score), request: spot.request }
    }

    /// The lower edge, the middle and the upper edge; quarters between them where there is room.
    pub(crate) fn levels(&self) -> Vec<(Px, String)> {
        let (low, high) = self.range;
        let parts: u32 = if self.bottom - self.top > 150.0 { 4 } else { 2 };
        let level = |part: u32| {
            let share = f64::from(part) / f64::from(parts);
            let score = low * (1.0 - share) + high * share;
            (Px(self.y(score)), bare(score))
        };
        (0..=parts).map(level).collect()
    }

    /// The threshold; `None` where it lies outside.
    pub(crate) fn level(&self, threshold: Option<f64>) -> Option<Level> {
        let (low, high) = self.range;
        threshold.filter(|threshold| (low..=high).contains(threshold)).map(|threshold| {
            let y = self.y(threshold);
            Level { y: Px(y), height: Px(self.bottom - y), text_y: Px(y + 4.0), text: in_words(threshold) }
        })
    }

    /// The path through `spots`, thinned to two points for each of `columns`, and how many points that leaves. A step
    /// without a score is a gap.
    pub(crate) fn line(&self, spots: &[Spot], columns: usize) -> (String, usize) {
        let kept = extremes(spots, columns);
        let mut path = String::with_capacity(kept.len() * 12);
        let mut before = None;
        for at in &kept {
            let Some(spot) = spots.get(*at) else { continue };
            let since = before.and_then(|before: usize| spots.get(before..=*at)).unwrap_or_default();
            let gap = since.iter().zip(since.iter().skip(1)).any(|(one, next)| one.n + 1 < next.n);
            let (x, y) = (Px(self.x(spot.x)), Px(self.y(spot.score)));
            // A point of its own needs a line of no length to be seen.
            let _ = if before.is_none() || gap { write!(path, "M{x} {y}h0") } else { write!(path, "L{x} {y}") };
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

/// [`extremes`], and of each column the first point with each sort of request.
pub(crate) fn with_requests(spots: &[Spot], columns: usize) -> Vec<usize> {
    let mut kept = extremes(spots, columns);
    if kept.len() == spots.len() {
        return kept;
    }
    let mut start = 0;
    for group in spots.chunk_by(|a, b| column(a, columns) == column(b, columns)) {
        for request in [Request::Patch, Request::Retry, Request::Stop] {
            kept.extend(group.iter().position(|spot| spot.request == request).map(|at| start + at));
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
pub(crate) fn ticks(steps: usize, most: usize) -> impl Iterator<Item = usize> {
    let mut distance = 1;
    for factor in [2, 5, 10].into_iter().cycle() {
        if steps.div_ceil(distance) <= most {
            break;
        }
        let tens = 10_usize.pow(distance.ilog10());
        distance = tens * factor;
    }
    (0..steps).step_by(distance)
}
