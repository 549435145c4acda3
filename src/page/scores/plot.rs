//! Computes coordinates, ticks and thinning for all charts of scores.

use std::fmt::{self, Write as _};

use crate::analysis::format;
use crate::analysis::scores::{Point, in_words, share};
use crate::model::CriticAction;

/// A critic's request, other than `continue`.
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

    /// Returns the letter inside the ring. A stop has a different shape.
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

/// A coordinate or a length, formatted for SVG.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Px(pub(crate) f64);

impl fmt::Display for Px {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.1}", self.0)
    }
}

/// An x coordinate, formatted as a percentage of the width. Used for elements that aren't stretched
/// with the picture. The lines are stretched, and use [`Px`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Along(pub(crate) f64);

impl fmt::Display for Along {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.2}%", self.0 / WIDTH * 100.0)
    }
}

/// The width of the lines of a picture, in user units.
pub(crate) const WIDTH: f64 = 1000.0;
/// A line with more points is drawn as a band. A picture has about as many pixels.
pub(crate) const BAND_FROM: usize = 1_000;
/// If there are more points, a dot is visible only under the pointer.
const DOTS: usize = 60;

/// The line through the scores, or a band if there are more scores than pixels.
#[derive(Debug, Clone, Default)]
pub(crate) struct Trace {
    pub path: String,
    pub is_band: bool,
    /// Whether there are too many points to show a dot for each.
    pub is_dense: bool,
}

impl Trace {
    /// Returns the class of the path, given the number of its series.
    pub(crate) fn class(&self, series: usize) -> String {
        format!("{}{series}", if self.is_band { "b" } else { "s" })
    }
}

/// The visible part of an axis. `from` and `to` are shares of the whole axis.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct VisibleRange {
    pub from: f64,
    pub to: f64,
}

impl VisibleRange {
    pub(crate) const WHOLE: Self = Self { from: 0.0, to: 1.0 };

    /// Returns the view from `from` to `to` of an axis from 0 to `end`. Returns `None` if that
    /// range is empty.
    pub(crate) fn new(from: Option<usize>, to: Option<usize>, end: f64) -> Option<Self> {
        let share = |at: Option<usize>, usual: f64| {
            at.map_or(usual, |at| (at as f64 / end.max(1.0)).clamp(0.0, 1.0))
        };
        let visible = Self {
            from: share(from, 0.0),
            to: share(to, 1.0),
        };
        (visible.from < visible.to).then_some(visible)
    }

    pub(crate) fn is_whole(self) -> bool {
        self == Self::WHOLE
    }

    /// Converts a share of the whole axis to a position in the view. Positions outside 0 to 1
    /// aren't visible.
    pub(crate) fn of(self, share: f64) -> f64 {
        let at = (share - self.from) / (self.to - self.from);
        // Rounding must not put the ends of the view outside it.
        if (-1e-9..0.0).contains(&at) {
            0.0
        } else if (1.0..1.0 + 1e-9).contains(&at) {
            1.0
        } else {
            at
        }
    }
}

/// A score and its position along the axis, from 0 at the left edge to 1 at the right.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Spot {
    pub n: usize,
    pub x: f64,
    pub score: f64,
    pub request: Request,
}

/// A clickable point of a chart.
#[derive(Debug, Clone)]
pub(crate) struct Dot {
    pub n: usize,
    pub title: String,
    pub x: f64,
    pub y: f64,
    pub request: Request,
    /// Whether it's visible only under the pointer.
    pub is_quiet: bool,
}

/// The area for scores in a picture. `range` has the scores at its lower and upper edge.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Frame {
    pub left: f64,
    pub right: f64,
    pub top: f64,
    pub bottom: f64,
    pub range: (f64, f64),
}

/// A threshold in a picture: its line, and the band down to the lower edge.
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
        Dot {
            n: spot.n,
            title,
            x: self.x(spot.x),
            y: self.y(spot.score),
            request: spot.request,
            is_quiet: false,
        }
    }

    /// Returns the labels of the lower edge, the middle and the upper edge. Adds quarters if there
    /// is room.
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

    /// Returns the threshold. Returns `None` if it is outside the range.
    pub(crate) fn level(&self, threshold: Option<f64>) -> Option<Level> {
        let (low, high) = self.range;
        threshold
            .filter(|threshold| (low..=high).contains(threshold))
            .map(|threshold| {
                let y = self.y(threshold);
                Level {
                    y: Px(y),
                    height: Px(self.bottom - y),
                    text_y: Px(y + 4.0),
                    text: in_words(threshold),
                }
            })
    }

    /// Returns the line or the band of `spots`.
    pub(crate) fn trace(&self, spots: &[Spot]) -> Trace {
        let is_dense = spots.len() > DOTS;
        if spots.len() > BAND_FROM {
            return Trace {
                path: self.band(spots, WIDTH as usize),
                is_band: true,
                is_dense,
            };
        }
        Trace {
            path: self.line(spots, WIDTH as usize).0,
            is_band: false,
            is_dense,
        }
    }

    /// Returns the area between the lowest and the highest score of each column. A column without a
    /// score is a gap.
    fn band(&self, spots: &[Spot], columns: usize) -> String {
        let ends = spots
            .chunk_by(|a, b| column(a, columns) == column(b, columns))
            .filter_map(|group| {
                let scores = || group.iter().map(|spot| spot.score);
                let (low, high) = (
                    scores().min_by(f64::total_cmp)?,
                    scores().max_by(f64::total_cmp)?,
                );
                Some((column(group.first()?, columns), low, high))
            });
        let ends: Vec<_> = ends.collect();
        let mut path = String::with_capacity(ends.len() * 22);
        let x = |at: usize| Px(self.x((at as f64 / columns as f64).min(1.0)));
        for stretch in ends.chunk_by(|a, b| a.0 + 1 == b.0) {
            for (start, (at, _, high)) in stretch.iter().enumerate() {
                let _ = write!(
                    path,
                    "{}{} {}",
                    if start == 0 { 'M' } else { 'L' },
                    x(*at),
                    Px(self.y(*high))
                );
            }
            for (at, low, _) in stretch.iter().rev() {
                let _ = write!(path, "L{} {}", x(*at), Px(self.y(*low)));
            }
            path.push('z');
        }
        path
    }

    /// Returns the path through `spots`, thinned to two points per column, and the number of points
    /// left. A step without a score is a gap.
    pub(crate) fn line(&self, spots: &[Spot], columns: usize) -> (String, usize) {
        let kept = extremes(spots, columns);
        let mut path = String::with_capacity(kept.len() * 12);
        let mut before = None;
        for at in &kept {
            let Some(spot) = spots.get(*at) else { continue };
            let since = before
                .and_then(|before: usize| spots.get(before..=*at))
                .unwrap_or_default();
            let gap = since
                .iter()
                .zip(since.iter().skip(1))
                .any(|(one, next)| one.n + 1 < next.n);
            let (x, y) = (Px(self.x(spot.x)), Px(self.y(spot.score)));
            // A single point needs a line of length zero to be visible.
            let _ = if before.is_none() || gap {
                write!(path, "M{x} {y}h0")
            } else {
                write!(path, "L{x} {y}")
            };
            before = Some(*at);
        }
        (path, kept.len())
    }
}

/// Formats a number on an axis, without trailing zeros: `0`, `0.5`, `−20`.
pub(crate) fn bare(number: f64) -> String {
    let text = format::score(number);
    if text.contains('e') {
        // There is room for only one digit.
        let sign = if number < 0.0 {
            String::from(format::MINUS)
        } else {
            String::new()
        };
        format!("{sign}{:.0e}", number.abs())
    } else {
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    }
}

/// Returns the lowest and the highest score of each column, in order. Returns all scores if they
/// fit.
pub(crate) fn extremes(spots: &[Spot], columns: usize) -> Vec<usize> {
    if spots.len() <= 2 * columns {
        return (0..spots.len()).collect();
    }
    let mut kept = Vec::with_capacity(2 * columns);
    let mut start = 0;
    for group in spots.chunk_by(|a, b| column(a, columns) == column(b, columns)) {
        let own = || group.iter().zip(start..);
        let low = own()
            .min_by(|a, b| a.0.score.total_cmp(&b.0.score))
            .map(|(_, at)| at);
        let high = own()
            .max_by(|a, b| a.0.score.total_cmp(&b.0.score))
            .map(|(_, at)| at);
        kept.extend(low.min(high));
        kept.extend(low.max(high).filter(|_| low != high));
        start += group.len();
    }
    kept
}

/// Returns [`extremes`], and the first request of each kind in every column.
pub(crate) fn with_requests(spots: &[Spot], columns: usize) -> Vec<usize> {
    let mut kept = extremes(spots, columns);
    if kept.len() == spots.len() {
        return kept;
    }
    let mut start = 0;
    for group in spots.chunk_by(|a, b| column(a, columns) == column(b, columns)) {
        for request in [Request::Patch, Request::Retry, Request::Stop] {
            kept.extend(
                group
                    .iter()
                    .position(|spot| spot.request == request)
                    .map(|at| start + at),
            );
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

/// Returns at most `most` ordinals for labels between step `first` and `last`, at round distances.
pub(crate) fn ticks_between(first: usize, last: usize, most: usize) -> impl Iterator<Item = usize> {
    let mut distance = 1;
    for factor in [2, 5, 10].into_iter().cycle() {
        if (last + 1).saturating_sub(first).div_ceil(distance) <= most {
            break;
        }
        let tens = 10_usize.pow(distance.ilog10());
        distance = tens * factor;
    }
    (first.div_ceil(distance) * distance..=last).step_by(distance)
}

/// Returns the class of a label. On narrow screens only a few labels stay.
pub(crate) fn tick_class(place: usize, labels: usize) -> &'static str {
    if place.is_multiple_of(labels.div_ceil(6).max(1)) {
        "tick few"
    } else {
        "tick"
    }
}

/// Returns the ordinals for labels along all of `steps`.
pub(crate) fn ticks(steps: usize, most: usize) -> impl Iterator<Item = usize> {
    ticks_between(0, steps.saturating_sub(1), most).take(steps)
}
