//! Shows the table of scores: a window of steps, by default the last ones. Scores that aren't
//! numbers are shown as recorded.

use std::ops::Range;

use crate::analysis::format;
use crate::analysis::scores::{Lane, Point};
use crate::page::part::href;
use crate::page::part::sign::Link;
use crate::page::scores::critic_texts::CriticText;
use crate::page::scores::plot::Request;
use crate::page::scores::{MAX_LANES, Query, ScoresBody, critic_texts_at};

/// Steps that fit side by side on a laptop.
const WINDOW: usize = 24;

/// Scores by step, with a row for each critic.
pub(crate) struct Table<'a> {
    body: &'a ScoresBody<'a>,
    /// The visible steps.
    pub steps: Range<usize>,
    /// The critic outputs of the steps where a critic gave no number.
    read: Vec<(usize, Vec<CriticText>)>,
}

/// A critic's output for one step.
pub(crate) struct Cell {
    pub text: String,
    /// The recorded score, if it has more decimals than `text`.
    pub exact: Option<String>,
    /// Whether the score is below the threshold.
    pub is_low: bool,
    pub request: Request,
}

impl<'a> Table<'a> {
    /// Builds the table of the steps before `query.before`, or of the last steps.
    pub(crate) fn new(body: &'a ScoresBody<'a>) -> Self {
        let total = body.scores.steps;
        let end = body
            .query
            .before
            .filter(|before| *before > 0)
            .map_or(total, |before| before.min(total));
        let steps = end.saturating_sub(WINDOW)..end;
        let heads = body.view.index.steps();
        let has_no_number = |n: &usize| {
            heads
                .get(*n)
                .is_some_and(|step| step.critics.iter().any(|mark| mark.score.is_none()))
        };
        let read = steps
            .clone()
            .filter(has_no_number)
            .map(|n| (n, critic_texts_at(body.view, n)))
            .collect();
        Self { body, steps, read }
    }

    /// States which steps are visible.
    pub(crate) fn about(&self) -> String {
        let (shown, total, label) = (self.steps.len(), self.body.scores.steps, |n| {
            self.body.view.label(n)
        });
        if shown == total {
            return format!("all {}", format::counted(total, "step"));
        }
        let (first, last) = (
            label(self.steps.start),
            label(self.steps.end.saturating_sub(1)),
        );
        format!(
            "steps {first} to {last}, {shown} of {}",
            format::count(total as u64)
        )
    }

    pub(crate) fn lanes(&self) -> impl Iterator<Item = &Lane> {
        self.body.scores.lanes.iter().take(MAX_LANES)
    }

    pub(crate) fn cells(&self, lane: &Lane) -> Vec<Cell> {
        self.steps.clone().map(|n| self.cell(lane, n)).collect()
    }

    fn cell(&self, lane: &Lane, n: usize) -> Cell {
        let from = lane.points.partition_point(|point| point.n < n);
        let here = || {
            lane.points
                .iter()
                .skip(from)
                .take_while(|point| point.n == n)
        };
        let join = |texts: Vec<String>| texts.join(" / ");
        let text = join(
            here()
                .map(|point| {
                    point
                        .score
                        .map_or_else(|| self.recorded(point), format::score)
                })
                .collect(),
        );
        let exact = join(
            here()
                .filter_map(|point| point.score)
                .map(|score| score.to_string())
                .collect(),
        );
        let threshold = self.body.query.threshold_of(&lane.name);
        let is_low = |point: &Point| {
            point
                .score
                .zip(threshold)
                .is_some_and(|(score, threshold)| score < threshold)
        };
        Cell {
            is_low: here().any(is_low),
            request: here()
                .map(Request::of)
                .find(|request| *request != Request::None)
                .unwrap_or_default(),
            exact: Some(exact).filter(|exact| exact.len() > text.len()),
            text: if text.is_empty() {
                format::MISSING.to_owned()
            } else {
                text
            },
        }
    }

    /// Returns a non-numeric score as recorded in its line.
    fn recorded(&self, point: &Point) -> String {
        let critic_texts = self
            .read
            .iter()
            .find(|(n, _)| *n == point.n)
            .and_then(|(_, critic_texts)| critic_texts.get(point.place));
        let score = critic_texts
            .map(|critic_texts| critic_texts.score.clone())
            .filter(|score| !score.is_empty());
        score.unwrap_or_else(|| "no score".to_owned())
    }

    /// Returns how far the critics differ at each step. Returns `None` if there is only one critic.
    pub(crate) fn spread(&self) -> Option<Vec<Option<f64>>> {
        let several = self.on_scale() > 1;
        several.then(|| {
            self.body
                .scores
                .spread()
                .get(self.steps.clone())
                .unwrap_or_default()
                .to_vec()
        })
    }

    /// States which critics the spread is based on, if not on all.
    pub(crate) fn spread_of(&self) -> &'static str {
        if self.on_scale() < self.body.scores.lanes.len() {
            " (critics on a 0 to 1 scale)"
        } else {
            ""
        }
    }

    fn on_scale(&self) -> usize {
        self.body
            .scores
            .lanes
            .iter()
            .filter(|lane| lane.fits())
            .count()
    }

    /// Links to the first, earlier, later and last steps, if they exist.
    pub(crate) fn windows(&self) -> Vec<Link> {
        let (Range { start, end }, total) = (self.steps.clone(), self.body.scores.steps);
        let windows = [
            ("First", start > WINDOW, Some(WINDOW.min(total))),
            ("← Earlier", start > 0, Some(start.max(WINDOW))),
            (
                "Later →",
                end < total,
                Some(end + WINDOW).filter(|before| *before < total),
            ),
            ("Last", end + WINDOW < total, None),
        ];
        let path = href::scores(self.body.view.key());
        let link = |(words, _, before)| {
            let query = Query {
                before,
                ..self.body.query.clone()
            };
            Link::new(words, format!("{}#numbers", query.address(&path, &[])))
        };
        windows
            .into_iter()
            .filter(|(_, exists, _)| *exists)
            .map(link)
            .collect()
    }
}
