//! Draws the lane of one critic: its numbers on the left, its scores over the steps on the right.

use crate::analysis::format;
use crate::analysis::scores::{Lane, Sums, course, in_words};
use crate::model::CriticAction;
use crate::page::part::text::Line;
use crate::page::run_view::RunView;
use crate::page::scores::plot::{
    Along, Dot, Frame, Level, Request, Spot, Trace, VisibleRange, WIDTH, bare, ticks_between,
    with_requests,
};
use crate::page::scores::query::Query;
use crate::page::scores::threshold_handle::ThresholdHandle;

pub(crate) const FRAME: Frame = Frame {
    left: 0.0,
    right: WIDTH,
    top: 10.0,
    bottom: 90.0,
    range: (0.0, 1.0),
};
/// Clickable points in all lanes of a page, approximately at most. Each is three nodes of the
/// document.
const LINKS: usize = 600;
/// Maximum number of marked starts of further runs.
const MAX_STARTS: usize = 200;

pub(crate) struct LaneView<'a> {
    view: &'a RunView<'a>,
    pub lane: &'a Lane,
    pub sums: Sums,
    pub frame: Frame,
    pub threshold: Option<f64>,
    /// Whether the threshold applies to this critic.
    is_asked: bool,
    /// The visible steps.
    pub visible: VisibleRange,
    /// The number of visible scores.
    points: usize,
    pub line: Trace,
    pub dots: Vec<Dot>,
}

impl<'a> LaneView<'a> {
    /// Builds one of the `lanes` lanes on a page.
    pub(crate) fn new(view: &'a RunView<'a>, lane: &'a Lane, query: &Query, lanes: usize) -> Self {
        let (frame, threshold) = (
            Frame {
                range: lane.range(),
                ..FRAME
            },
            query.threshold_of(&lane.name),
        );
        let visible = query.visible((view.index.steps().len().saturating_sub(1)) as f64);
        let spots: Vec<Spot> = spots(view, lane, visible, true).collect();
        let line = frame.trace(&spots);
        let columns = (LINKS / 2 / lanes.max(1)).clamp(20, 100);
        let kept = with_requests(&spots, columns)
            .into_iter()
            .filter_map(|kept| spots.get(kept));
        let scored = kept.map(|spot| Dot {
            is_quiet: line.is_dense,
            ..frame.dot(spot, title(view, lane, &format::score(spot.score), spot))
        });
        let mut dots: Vec<Dot> = scored.collect();
        // A request without a score has no height, so it's drawn on the lower edge.
        let unscored = spots_without_score(view, lane, visible).take(columns);
        dots.extend(unscored.map(|spot| Dot {
            y: frame.bottom,
            ..frame.dot(&spot, title(view, lane, "no score", &spot))
        }));
        dots.sort_by_key(|dot| dot.n);
        let is_asked = query.critic.is_empty() || query.critic == lane.name;
        Self {
            view,
            lane,
            sums: lane.sums(),
            points: spots.len(),
            line,
            frame,
            threshold,
            is_asked,
            visible,
            dots,
        }
    }

    /// Describes the course of the scores in a sentence.
    pub(crate) fn course(&self) -> String {
        let course = course(self.lane);
        let Some(threshold) = self.threshold.filter(|_| self.sums.scored > 0) else {
            return course;
        };
        let (below, _) = self.lane.below(threshold);
        let (below, scored) = (
            format::count(below as u64),
            format::count(self.sums.scored as u64),
        );
        format!(
            "{course}; {below} of {scored} below {}",
            in_words(threshold)
        )
    }

    pub(crate) fn last(&self) -> Option<f64> {
        self.sums.last.map(|(_, score)| score)
    }

    /// Returns the handle of the threshold. Returns `None` if the threshold is for another critic.
    pub(crate) fn threshold_handle(&self) -> Option<ThresholdHandle<'_>> {
        self.is_asked
            .then(|| ThresholdHandle::new(self.frame, &self.lane.name, self.threshold))
    }

    pub(crate) fn level(&self) -> Option<Level> {
        self.frame.level(self.threshold)
    }

    /// Returns the first and the last visible step.
    pub(crate) fn ends(&self) -> (usize, usize) {
        let last = self.view.index.steps().len().saturating_sub(1);
        let at = |share: f64| share * last as f64;
        (
            at(self.visible.from).round() as usize,
            at(self.visible.to).round() as usize,
        )
    }

    /// Returns the label of the picture.
    pub(crate) fn label(&self) -> Line {
        let (first, last) = self.ends();
        format!(
            "{}, steps {} to {}",
            self.lane.name,
            self.view.label(first),
            self.view.label(last)
        )
        .into()
    }

    /// Describes the picture in words.
    pub(crate) fn description(&self) -> String {
        let (Some((_, last)), Some((n, lowest))) = (self.sums.last, self.sums.lowest) else {
            return "No scores.".to_owned();
        };
        let (scores, lowest) = (format::counted(self.sums.scored, "score"), in_words(lowest));
        let of = if self.visible.is_whole() {
            ""
        } else {
            "Of all steps: "
        };
        format!(
            "{of}{scores}. Last: {}. Lowest: {lowest} at step {}.",
            in_words(last),
            self.view.label(n)
        )
    }

    pub(crate) fn ticks(&self) -> impl Iterator<Item = (Along, String)> {
        let (first, last) = self.ends();
        let some = ticks_between(first, last, 20).take(self.view.index.steps().len());
        some.map(|n| (self.x(n), self.view.label(n)))
    }

    /// Returns the positions where another run begins in the same directory.
    pub(crate) fn starts(&self) -> impl Iterator<Item = Along> {
        let (first, last) = self.ends();
        let inside = self
            .view
            .index
            .lap_starts()
            .iter()
            .skip(1)
            .filter(move |n| (first..=last).contains(*n));
        inside.take(MAX_STARTS).map(|n| self.x(*n))
    }

    fn x(&self, n: usize) -> Along {
        Along(self.frame.x(self.visible.of(along(self.view, n))))
    }

    /// States where the picture deviates: a separate axis, omitted points, a threshold outside the
    /// axis.
    pub(crate) fn caption(&self) -> String {
        let mut caption = Vec::new();
        let (low, high) = self.frame.range;
        if !self.lane.fits() {
            caption.push(format!(
                "scores outside 0 to 1, axis from {} to {}",
                bare(low),
                bare(high)
            ));
        }
        if !self.visible.is_whole() {
            let ((first, last), total) = (
                self.ends(),
                format::count(self.view.index.steps().len() as u64),
            );
            let (first, last) = (self.view.label(first), self.view.label(last));
            caption.push(format!(
                "steps {first} to {last} of {total} (the numbers cover all steps)"
            ));
        }
        let [points, links] =
            [self.points, self.dots.len()].map(|number| format::count(number as u64));
        if self.line.is_band {
            caption.push(format!(
                "{points} points, drawn as a band from lowest to highest per pixel, {links} clickable"
            ));
        } else if self.dots.len() < self.points {
            caption.push(format!("{links} of {points} points are clickable"));
        }
        if let Some(threshold) = self.threshold.filter(|_| self.level().is_none()) {
            caption.push(format!(
                "the threshold {} is outside this axis",
                in_words(threshold)
            ));
        }
        caption.join(" · ")
    }
}

/// Returns the position of step `n`, from 0 at the left edge for the first step to 1 for the last.
fn along(view: &RunView<'_>, n: usize) -> f64 {
    let steps = view.index.steps().len();
    if steps > 1 {
        n as f64 / (steps - 1) as f64
    } else {
        0.5
    }
}

/// Returns the points with a score, or those without.
fn spots<'a>(
    view: &'a RunView<'_>,
    lane: &'a Lane,
    visible: VisibleRange,
    scored: bool,
) -> impl Iterator<Item = Spot> + 'a {
    let points = lane
        .points
        .iter()
        .filter(move |point| point.score.is_some() == scored);
    let spots = points.map(move |point| Spot {
        n: point.n,
        x: visible.of(along(view, point.n)),
        score: point.score.unwrap_or_default(),
        request: Request::of(point),
    });
    spots.filter(|spot| (0.0..=1.0).contains(&spot.x))
}

fn spots_without_score<'a>(
    view: &'a RunView<'_>,
    lane: &'a Lane,
    visible: VisibleRange,
) -> impl Iterator<Item = Spot> + 'a {
    spots(view, lane, visible, false).filter(|spot| spot.request != Request::None)
}

/// Describes a point: `step 9 · SafetyCritic 0.31 · retry · not yet`.
fn title(view: &RunView<'_>, lane: &Lane, score: &str, spot: &Spot) -> String {
    let mut title = format!("step {} · {} {score}", view.label(spot.n), lane.name);
    let reason = reason(view, spot.n, &lane.name).unwrap_or_default();
    for part in [spot.request.word(), reason]
        .into_iter()
        .filter(|part| !part.is_empty())
    {
        title.push_str(" · ");
        title.push_str(part);
    }
    title
}

/// Returns the critic's reason. The index keeps only the reason of the first critic that requested
/// an action.
fn reason<'a>(view: &'a RunView<'_>, n: usize, critic: &str) -> Option<&'a str> {
    let step = view.index.steps().get(n)?;
    let asks = step
        .critics
        .iter()
        .find(|mark| matches!(mark.action, CriticAction::Retry | CriticAction::Stop))?;
    step.critic_reason
        .as_deref()
        .filter(|_| view.index.name(asks.name) == critic)
}
