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

/// A place along the axis of a picture that is as wide as there is room, in parts of its width. `Px` of it is a place in the
/// lines, which are stretched; what is not to be stretched stands by this.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Along(pub(crate) f64);

impl fmt::Display for Along {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.2}%", self.0 / WIDTH * 100.0)
    }
}

/// The width of the lines of a picture, in units of their own.
pub(crate) const WIDTH: f64 = 1000.0;
/// A line with more points is a band: about as many as a picture has pixels.
pub(crate) const BAND_FROM: usize = 1_000;
/// Above so many points a dot is seen only where one points at it.
const DOTS: usize = 60;

/// The line through the scores, or the band in which they lie where there are more of them than pixels.
#[derive(Debug, Clone, Default)]
pub(crate) struct Trace {
    pub path: String,
    pub is_band: bool,
    /// Whether there are too many points for a dot each.
    pub is_dense: bool,
}

impl Trace {
    /// The class of the path by the number of its series.
    pub(crate) fn class(&self, series: usize) -> String {
        format!("{}{series}", if self.is_band { "b" } else { "s" })
    }
}

/// The part of an axis that is shown, from one place to another as shares of all of it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct View {
    pub from: f64,
    pub to: f64,
}

impl View {
    pub(crate) const WHOLE: Self = Self { from: 0.0, to: 1.0 };

    /// From `from` to `to` of an axis from 0 to `end`; `None` where that is nothing to see.
    pub(crate) fn new(from: Option<usize>, to: Option<usize>, end: f64) -> Option<Self> {
        let share = |at: Option<usize>, usual: f64| {
            at.map_or(usual, |at| (at as f64 / end.max(1.0)).clamp(0.0, 1.0))
        };
        let view = Self {
            from: share(from, 0.0),
            to: share(to, 1.0),
        };
        (view.from < view.to).then_some(view)
    }

    pub(crate) fn is_whole(self) -> bool {
        self == Self::WHOLE
    }

    /// Where a place of the whole axis stands in the view; outside of 0 to 1 it is not seen.
    pub(crate) fn of(self, share: f64) -> f64 {
        let at = (share - self.from) / (self.to - self.from);
        // The ends of the view are in it, however they were rounded.
        if (-1e-9..0.0).contains(&at) {
            0.0
        } else if (1.0..1.0 + 1e-9).contains(&at) {
            1.0
        } else {
            at
        }
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
    /// Whether it is seen only where one points at it.
    pub is_quiet: bool,
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
        Dot {
            n: spot.n,
            title,
            x: self.x(spot.x),
            y: self.y(spot.score),
            request: spot.request,
            is_quiet: false,
        }
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

    /// What is drawn for `spots`.
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

    /// The area between the lowest and the highest score of each of `columns`. A column without a score is a gap.
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

    /// The path through `spots`, thinned to two points for each of `columns`, and how many points that leaves. A step
    /// without a score is a gap.
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
            // A point of its own needs a line of no length to be seen.
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

/// A number on an axis needs no zeros at its end: `0`, `0.5`, `−20`.
pub(crate) fn bare(number: f64) -> String {
    let text = format::score(number);
    if text.contains('e') {
        // There is room for one digit.
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

/// The lowest and the highest of each column, in their order; all where they fit.
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

/// [`extremes`], and of each column the first point with each sort of request.
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

/// Ordinals for labels along the axis from step `first` to `last`: round distances, at most `most` of them.
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

/// The class of the label at a place among others: a few stay where the screen is narrow.
pub(crate) fn tick_class(place: usize, labels: usize) -> &'static str {
    if place.is_multiple_of(labels.div_ceil(6).max(1)) {
        "tick few"
    } else {
        "tick"
    }
}

/// Ordinals for labels along all of `steps`.
pub(crate) fn ticks(steps: usize, most: usize) -> impl Iterator<Item = usize> {
    ticks_between(0, steps.saturating_sub(1), most).take(steps)
}
