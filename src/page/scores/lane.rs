//! How does one critic's lane look? Its numbers on the left, its scores over the steps on the right.

use crate::analysis::format;
use crate::analysis::scores::{Lane, Point, Sums, course, in_words};
use crate::model::CriticAction;
use crate::page::part::href;
use crate::page::part::sign::{Fact, Phrase};
use crate::page::part::text::Line;
use crate::page::scores::overlay::Dot;
use crate::page::scores::plot::{Frame, Level, Mark, Spot, Tick, at, bare, ticks, with_marks};
use crate::page::scores::{LINKS, Query};

const LEFT: f64 = 44.0;
const RIGHT: f64 = 1036.0;
const TOP: f64 = 10.0;
const BOTTOM: f64 = 90.0;
/// A line has two points for each of so many columns, one a pixel.
const LINE_COLUMNS: usize = 992;
/// So many steps are named behind a count of retries or stops.
const NAMED: usize = 2;

/// One critic.
#[derive(Debug, Clone, Default)]
pub(crate) struct LaneView {
    /// Its place among the critics.
    pub id: usize,
    /// Its colour and dash, from 1 to 6.
    pub series: usize,
    /// Its name.
    pub name: Line,
    /// How it runs, in a sentence.
    pub course: Line,
    /// Its numbers.
    pub facts: Vec<Fact>,
    /// What the picture shows.
    pub label: Line,
    /// The same in numbers.
    pub about: Line,
    /// Marks along the left edge.
    pub levels: Vec<Tick>,
    /// Marks along the lower edge.
    pub ticks: Vec<Tick>,
    /// Where another run begins in the same directory.
    pub starts: Vec<String>,
    /// The threshold.
    pub threshold: Option<Level>,
    /// Whether not all points are drawn; those that are then take less room.
    pub thinned: bool,
    /// The line.
    pub line: String,
    /// Points that lead to their step.
    pub dots: Vec<Dot>,
    /// What is said below: a range of its own, points that are not drawn.
    pub caption: Line,
}

/// What a lane needs to know of its run.
pub(crate) struct Place<'a> {
    /// The run's key.
    pub(crate) key: &'a str,
    /// How many steps it has.
    pub(crate) steps: usize,
    /// The label of a step.
    pub(crate) label: &'a dyn Fn(usize) -> String,
    /// The reason a critic gave at a step, where it is known without reading the line.
    pub(crate) reason: &'a dyn Fn(usize, &str) -> Option<String>,
    /// Where another run begins in the same directory.
    pub(crate) starts: &'a [usize],
    /// How many lanes there are.
    pub(crate) lanes: usize,
}

impl LaneView {
    pub(crate) fn new(id: usize, lane: &Lane, query: &Query, place: &Place<'_>) -> Self {
        let sums = lane.sums();
        let range = lane.range();
        let frame = Frame { left: LEFT, right: RIGHT, top: TOP, bottom: BOTTOM, range };
        let spots = spots(lane, place.steps);
        let (line, drawn) = frame.line(&spots, LINE_COLUMNS);
        let columns = (LINKS / 2 / place.lanes.max(1)).clamp(20, 100);
        let name = lane.name.as_str();
        let kept = with_marks(&spots, columns).into_iter().filter_map(|kept| spots.get(kept));
        let mut dots: Vec<Dot> = kept
            .map(|spot| {
                let says = title(name, &format::score(spot.score), spot, place);
                Dot::new(place.key, spot, says, frame.x(spot.x), frame.y(spot.score))
            })
            .collect();
        // What was asked for without a score has no height; it stands on the lower edge.
        let without = unscored(lane, place.steps).take(columns);
        dots.extend(without.map(|spot| {
            Dot::new(place.key, &spot, title(name, "no score", &spot, place), frame.x(spot.x), frame.bottom)
        }));
        dots.sort_by_key(|dot| dot.n);
        let threshold = query.threshold_of(name);
        let mut caption = Vec::new();
        if range != (0.0, 1.0) {
            let ends = (bare(range.0), bare(range.1));
            caption.push(format!("scores do not fit 0 to 1; this axis is from {} to {}", ends.0, ends.1));
        }
        if drawn < spots.len() {
            let count = |number: usize| format::count(number as u64);
            caption.push(format!(
                "{} of {} points drawn, the lowest and highest of each pixel; {} lead to their step",
                count(drawn),
                count(spots.len()),
                count(dots.len())
            ));
        }
        let level = threshold.and_then(|threshold| frame.level(threshold));
        if let Some(threshold) = threshold.filter(|_| level.is_none()) {
            caption.push(format!("the threshold {} lies outside this axis", in_words(threshold)));
        }
        let ends = [0, place.steps.saturating_sub(1)].map(|n| (place.label)(n));
        let tick = |n: usize| Tick { at: at(frame.x(along(n, place.steps))), text: (place.label)(n) };
        Self {
            id,
            series: id % 6 + 1,
            name: name.into(),
            course: words(lane, &sums, threshold).into(),
            facts: facts(&sums, place),
            label: format!("{name}, steps {} to {}", ends[0], ends[1]).into(),
            about: about(&sums, place).into(),
            levels: frame.levels(),
            ticks: ticks(place.steps, 20).into_iter().map(tick).collect(),
            starts: place.starts.iter().map(|n| at(frame.x(along(*n, place.steps)))).collect(),
            threshold: level,
            thinned: dots.len() < spots.len(),
            line,
            dots,
            caption: caption.join("; ").into(),
        }
    }
}

/// Where step `n` stands: the first at the left edge, the last at the right.
fn along(n: usize, steps: usize) -> f64 {
    if steps > 1 { n as f64 / (steps - 1) as f64 } else { 0.5 }
}

pub(crate) fn mark(point: &Point) -> Mark {
    match point.action {
        CriticAction::Stop => Mark::Stop,
        CriticAction::Retry => Mark::Retry,
        _ if point.patches => Mark::Patch,
        _ => Mark::None,
    }
}

fn spots(lane: &Lane, steps: usize) -> Vec<Spot> {
    let mut before = None;
    let mut spots = Vec::with_capacity(lane.points.len());
    for point in &lane.points {
        let Some(score) = point.score else { continue };
        let after_gap = before.is_some_and(|before: usize| before + 1 < point.n);
        before = Some(point.n);
        spots.push(Spot { n: point.n, x: along(point.n, steps), score, mark: mark(point), after_gap });
    }
    spots
}

/// What was asked for without a score.
fn unscored(lane: &Lane, steps: usize) -> impl Iterator<Item = Spot> + '_ {
    let asked = lane.points.iter().filter(|point| point.score.is_none() && mark(point) != Mark::None);
    asked.map(move |point| Spot {
        n: point.n,
        x: along(point.n, steps),
        score: 0.0,
        mark: mark(point),
        after_gap: true,
    })
}

/// `step 9 · SafetyCritic 0.31 · retry · not yet`.
fn title(name: &str, score: &str, spot: &Spot, place: &Place<'_>) -> String {
    let title = format!("step {} · {name} {score}", (place.label)(spot.n));
    let asked = if spot.mark == Mark::None { String::new() } else { format!(" · {}", spot.mark.words()) };
    let reason = (place.reason)(spot.n, name).filter(|reason| !reason.is_empty());
    let reason = reason.map(|reason| format!(" · {reason}")).unwrap_or_default();
    format!("{title}{asked}{reason}")
}

fn words(lane: &Lane, sums: &Sums, threshold: Option<f64>) -> String {
    let course = course(lane);
    let Some(threshold) = threshold.filter(|_| sums.scored > 0) else { return course };
    let (below, _) = lane.below(threshold);
    let of = format::count(sums.scored as u64);
    format!("{course}; {} of {of} below {}", format::count(below as u64), in_words(threshold))
}

fn facts(sums: &Sums, place: &Place<'_>) -> Vec<Fact> {
    let score = |score: Option<f64>| format::or_missing(score, in_words);
    let at_step = |at: Option<(usize, f64)>| match at {
        Some((n, score)) => {
            let text = Phrase::new().text(format!("{} ", in_words(score)));
            text.link(format!("at {}", (place.label)(n)), href::run_at(place.key, n))
        }
        None => Phrase::from(format::MISSING),
    };
    let asked = |steps: &[usize]| {
        let mut phrase = Phrase::from(format::count(steps.len() as u64));
        for (at, n) in steps.iter().take(NAMED).enumerate() {
            phrase =
                phrase.text(if at == 0 { " at " } else { ", " }).link((place.label)(*n), href::run_at(place.key, *n));
        }
        if steps.len() > NAMED { phrase.text(", …") } else { phrase }
    };
    vec![
        Fact::new("last", score(sums.last.map(|(_, score)| score))),
        Fact::new("mean", score(sums.mean)),
        Fact::new("min", at_step(sums.lowest)),
        Fact::new("max", at_step(sums.highest)),
        Fact::new("retry", asked(&sums.retries)),
        Fact::new("stop", asked(&sums.stops)),
    ]
}

fn about(sums: &Sums, place: &Place<'_>) -> String {
    let (Some((_, last)), Some((n, lowest))) = (sums.last, sums.lowest) else { return "No score.".to_owned() };
    let scores = format::counted(sums.scored, "score");
    format!("{scores}; the last is {}, the lowest {} at step {}.", in_words(last), in_words(lowest), (place.label)(n))
}
