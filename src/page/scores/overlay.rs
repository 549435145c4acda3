//! How do the scores of several runs look in one picture? A line for each run, or the median and the band in which
//! half of many runs lie.
//!
//! Where a step stands along the axis is for the caller to say: its place in the run, its share of it, or the row of an
//! alignment.

use std::fmt::Write as _;

use askama::Template;
use askama::filters::HtmlSafe;

use crate::analysis::format;
use crate::analysis::scores::{Band, Series, range};
use crate::page::part::href;
use crate::page::part::text::Line;
use crate::page::scores::plot::{Frame, Level, Mark, Spot, Tick, at, with_marks};

const FRAME: Frame = Frame { left: 34.0, right: 1348.0, top: 12.0, bottom: 236.0, range: (0.0, 1.0) };
/// A line has two points for each of so many columns, one a pixel.
const LINE_COLUMNS: usize = 1314;
/// Points of all lines that lead to their step.
const MAX_LINKS: usize = 600;
/// More runs than this are drawn as a band.
pub(crate) const MAX_LINES: usize = 6;
/// So many columns stand for the runs of a band.
pub(crate) const BAND_COLUMNS: usize = 200;
/// What a band is.
pub(crate) const BAND: &str = "The band is where the middle half of the runs lies, the line inside it their median; \
                        a run's value is its lowest score in a column. The first run is drawn as a line.";

/// A run to draw.
#[derive(Debug, Clone)]
pub(crate) struct Source {
    /// The run's key.
    pub key: String,
    /// Its scores.
    pub series: Series,
    /// The label of each of its points' steps.
    pub labels: Vec<String>,
    /// Where each of its points stands, from 0 at the left edge to 1 at the right; as many as there are points.
    pub places: Vec<f64>,
}

/// The axis along which steps stand.
#[derive(Debug, Clone, Default)]
pub(crate) struct Axis {
    /// What it is: `step`, `share of the run`.
    pub name: &'static str,
    /// Its labels, each with its place from 0 to 1.
    pub ticks: Vec<(f64, String)>,
}

/// A picture of the scores of several runs.
#[derive(Debug, Clone, Default, Template)]
#[template(path = "scores/overlay.html")]
pub(crate) struct Overlay {
    /// What it shows: `Lowest critic score of each step, 5 runs`.
    pub title: Line,
    /// What the axis is.
    pub axis: &'static str,
    /// Marks along the left edge.
    pub levels: Vec<Tick>,
    /// Marks along the lower edge.
    pub ticks: Vec<Tick>,
    /// The threshold.
    pub threshold: Option<Level>,
    /// Where half of the runs lie, as an area; empty for none.
    pub band: String,
    /// The median of the runs; empty for none.
    pub median: String,
    /// A line for each run.
    pub lines: Vec<Drawn>,
    /// What is said below: how many points are drawn, where that is not all.
    pub caption: Line,
}

impl HtmlSafe for Overlay {}

/// One run in the picture.
#[derive(Debug, Clone, Default)]
pub(crate) struct Drawn {
    /// The letter at the end of its line.
    pub letter: String,
    /// Its colour and dash, from 1 to 6: the classes `s1` of lines, `d1` of points and `t1` of letters.
    pub series: usize,
    /// The line.
    pub path: String,
    /// Points that lead to their step.
    pub dots: Vec<Dot>,
    /// Where the letter stands.
    pub letter_x: String,
    /// As `letter_x`, from above.
    pub letter_y: String,
}

/// A point of a chart that leads to its step.
#[derive(Debug, Clone, Default)]
pub(crate) struct Dot {
    /// The step's ordinal.
    pub n: usize,
    /// The run page at this step.
    pub href: String,
    /// Its numbers in words.
    pub title: Line,
    /// From the left.
    pub x: String,
    /// From above.
    pub y: String,
    /// From above, where the glyph of a mark has its foot.
    pub foot: String,
    /// The octagon of a stop; empty for others.
    pub octagon: String,
    /// What was asked for there.
    pub mark: Mark,
}

impl Dot {
    pub(crate) fn new(key: &str, spot: &Spot, title: impl Into<Line>, x: f64, y: f64) -> Self {
        let href = href::run_at(key, spot.n);
        let octagon = if spot.mark == Mark::Stop {
            format!("M{:.1} {:.1}h6l4 4v6l-4 4h-6l-4-4v-6z", x - 3.0, y - 7.0)
        } else {
            String::new()
        };
        Self { n: spot.n, href, title: title.into(), x: at(x), y: at(y), foot: at(y + 3.5), octagon, mark: spot.mark }
    }
}

/// The letter of the run at `place`.
pub(crate) fn letter(place: usize) -> String {
    let letter = u32::try_from(place).ok().and_then(|place| char::from_u32(u32::from(b'A') + place));
    letter.filter(char::is_ascii_uppercase).map_or_else(|| (place + 1).to_string(), String::from)
}

impl Overlay {
    /// Draws up to six runs as lines.
    pub(crate) fn lines(title: String, axis: &Axis, runs: &[Source], threshold: Option<f64>) -> Self {
        let scores = || runs.iter().flat_map(|run| run.series.points.iter().map(|(_, score)| *score));
        let fits = |score: &f64| (0.0..=1.0).contains(score);
        let tame =
            |run: &Source| !run.series.points.is_empty() && run.series.points.iter().all(|(_, score)| fits(score));
        // One run that keeps to no scale must not press the others flat.
        let shared = if runs.iter().any(tame) { (0.0, 1.0) } else { range(scores()) };
        let off = scores().filter(|score| !(shared.0..=shared.1).contains(score)).count();
        let frame = Frame { range: shared, ..FRAME };
        let columns = (MAX_LINKS / 2 / runs.len().clamp(1, MAX_LINES)).max(1);
        let mut overlay = Self::empty(title, axis, frame, threshold);
        let (mut points, mut drawn) = (0, 0);
        for (place, run) in runs.iter().take(MAX_LINES).enumerate() {
            let spots = spots(run);
            let (path, kept) = frame.line(&spots, LINE_COLUMNS);
            points += spots.len();
            drawn += kept;
            overlay.lines.push(line(frame, place, run, &spots, path, columns));
        }
        let mut captions = Vec::new();
        if drawn < points {
            let (drawn, points) = (format::count(drawn as u64), format::count(points as u64));
            captions.push(format!("{drawn} of {points} points drawn; the lowest and highest of each pixel are kept"));
        }
        if off > 0 {
            let points = format::counted(off, "score");
            captions.push(format!("{points} outside 0 to 1 drawn at the edge; pointing at one says the number"));
        }
        overlay.caption = captions.join(" · ").into();
        overlay
    }

    /// Draws what many runs have: the median and the band between the quartiles, and the first run as a line.
    pub(crate) fn band(
        title: String,
        axis: &Axis,
        first: Option<&Source>,
        bands: &[Option<Band>],
        threshold: Option<f64>,
    ) -> Self {
        let scores = bands.iter().flatten().flat_map(|band| [band.low, band.high]);
        let own = first.iter().flat_map(|run| run.series.points.iter().map(|(_, score)| *score));
        let frame = Frame { range: range(scores.chain(own)), ..FRAME };
        let mut overlay = Self::empty(title, axis, frame, threshold);
        let place = |column: usize| frame.x((column as f64 + 0.5) / bands.len().max(1) as f64);
        let known: Vec<(usize, Band)> =
            bands.iter().enumerate().filter_map(|(at, band)| Some((at, (*band)?))).collect();
        for stretch in known.chunk_by(|a, b| a.0 + 1 == b.0) {
            for (start, (column, band)) in stretch.iter().enumerate() {
                let pen = if start == 0 { 'M' } else { 'L' };
                let (x, y) = (place(*column), frame.y(band.high));
                let _ = write!(overlay.band, "{pen}{x:.1} {y:.1}");
                let _ = write!(overlay.median, "{pen}{x:.1} {:.1}", frame.y(band.median));
                overlay.median.push_str(if start == 0 { "h0" } else { "" });
            }
            for (column, band) in stretch.iter().rev() {
                let _ = write!(overlay.band, "L{:.1} {:.1}", place(*column), frame.y(band.low));
            }
            overlay.band.push('z');
        }
        if let Some(run) = first {
            let spots = spots(run);
            let (path, _) = frame.line(&spots, LINE_COLUMNS);
            overlay.lines.push(line(frame, 0, run, &spots, path, MAX_LINKS / 6));
        }
        overlay
    }

    fn empty(title: String, axis: &Axis, frame: Frame, threshold: Option<f64>) -> Self {
        let tick = |(place, text): &(f64, String)| Tick { at: at(frame.x(*place)), text: text.clone() };
        Self {
            title: title.into(),
            axis: axis.name,
            levels: frame.levels(),
            ticks: axis.ticks.iter().map(tick).collect(),
            threshold: threshold.and_then(|threshold| frame.level(threshold)),
            ..Self::default()
        }
    }
}

fn spots(run: &Source) -> Vec<Spot> {
    let mark = |n: &usize| match n {
        n if run.series.stops.binary_search(n).is_ok() => Mark::Stop,
        n if run.series.retries.binary_search(n).is_ok() => Mark::Retry,
        _ => Mark::None,
    };
    let mut before = None;
    let mut spots = Vec::with_capacity(run.series.points.len());
    for ((n, score), x) in run.series.points.iter().zip(&run.places) {
        let after_gap = before.is_some_and(|before| before + 1 < *n);
        before = Some(*n);
        spots.push(Spot { n: *n, x: *x, score: *score, mark: mark(n), after_gap });
    }
    spots
}

fn line(frame: Frame, place: usize, run: &Source, spots: &[Spot], path: String, columns: usize) -> Drawn {
    let letter = letter(place);
    let dots = with_marks(spots, columns).into_iter().filter_map(|kept| {
        let (spot, label) = (spots.get(kept)?, run.labels.get(kept)?);
        let asked = if spot.mark == Mark::None { String::new() } else { format!(" · {}", spot.mark.words()) };
        let title = format!("{letter} {} · step {label} · {}{asked}", run.key, format::score(spot.score));
        Some(Dot::new(&run.key, spot, title, frame.x(spot.x), frame.y(spot.score)))
    });
    let (x, y) = spots.last().map_or((0.0, 0.0), |spot| (frame.x(spot.x), frame.y(spot.score)));
    Drawn {
        series: place % MAX_LINES + 1,
        path,
        dots: dots.collect(),
        letter_x: at(x + 10.0),
        letter_y: at(y + 4.0),
        letter,
    }
}
