//! Shows the scores of critics: a lane for each critic of one run, and an overlay of several runs.
//!
//! Everything below the form is one part (`#scores`), which live runs update. Lanes come from the
//! index. Lines are read only for facts that the index doesn't keep.

mod critic_texts;
pub(crate) mod csv;
pub(crate) mod handler;
mod heat;
mod lane;
pub(crate) mod overlay;
pub(crate) mod plot;
pub(crate) mod query;
mod several;
#[cfg(test)]
mod tests;
mod threshold_handle;

use std::ops::Range;

use askama::Template;
use askama::filters::HtmlSafe;

use crate::analysis::format;
use crate::analysis::scores::{
    Intervention, Lane, MAX_CRITICS, Pair, Point, Rank, Scores, agreement, in_words,
};
use crate::model::json::Json;
use crate::model::{CriticAction, RunScore, TraceFile};
use crate::page::part::chart::series_of;
use crate::page::part::fold::{Fold, Folded, ValueLinks};
use crate::page::part::href;
use crate::page::part::json_tree::find;
use crate::page::part::sign::{Link, Sign};
use crate::page::part::text::{self, one_line};
use crate::page::run::head::{RunHead, Tabs};
use crate::page::run_view::RunView;
use crate::page::scores::critic_texts::{CriticText, critic_texts_at};
use crate::page::scores::heat::Heat;
use crate::page::scores::lane::LaneView;
use crate::page::scores::plot::{Along, Px, Request, tick_class};
use crate::page::scores::query::Query;
use crate::page::shell::{Pulse, Shell};
use crate::page::step::stored_texts::with_texts;
use crate::stop::{CriticBelow, StopSpec};

/// Maximum number of lanes that are drawn.
const MAX_LANES: usize = 24;
/// Maximum number of critic requests that are listed. Each one reads a line.
const MAX_REQUESTS: usize = 50;
/// If there are more critics, the page has a heat map of all.
const MAX_WITHOUT_MAP: usize = 3;
/// Longer patches and reasons are truncated in the list; characters.
const REASON_CHARS: usize = 160;

#[derive(Template)]
#[template(path = "scores/page.html")]
pub(crate) struct ScoresPage<'a> {
    pub shell: Shell,
    pub pulse: Pulse,
    pub head: RunHead<'a>,
    pub tabs: Tabs<'a>,
    pub body: ScoresBody<'a>,
}

impl ScoresPage<'_> {
    /// Returns the address of the page with all steps, if only a part is visible.
    fn whole(&self) -> Option<String> {
        let query = &self.body.query;
        let all = Query {
            from: None,
            to: None,
            ..query.clone()
        };
        let part = query.from.is_some() || query.to.is_some();
        part.then(|| all.address(&href::scores(self.body.view.key()), &[]))
    }

    /// Returns the address that tries the threshold as a stop rule.
    fn rule(&self) -> Option<String> {
        let (view, query) = (self.body.view, &self.body.query);
        let score = query.threshold()?;
        let critics = view
            .summary
            .critics
            .iter()
            .filter(|name| query.threshold_of(name).is_some())
            .take(MAX_LANES);
        let rule = |critic: &String| {
            StopSpec::from(CriticBelow {
                critic: critic.clone(),
                score,
                steps: 1,
            })
            .to_string()
        };
        let rules: Vec<String> = critics.map(rule).collect();
        (!rules.is_empty()).then(|| href::whatif_with(view.key(), &rules, query.step))
    }
}

/// The response to the pulse of a scores page: everything except the form, which the user may be
/// editing.
#[derive(Template)]
#[template(path = "scores/pulse.html")]
pub(crate) struct ScoresPulse<'a> {
    pub pulse: Pulse,
    pub title: text::Line,
    pub head: RunHead<'a>,
    pub tabs: Tabs<'a>,
    /// `None` if no score changed.
    pub body: Option<ScoresBody<'a>>,
}

/// The critics' scores (`#scores`).
#[derive(Template)]
#[template(path = "scores/scores.html")]
pub(crate) struct ScoresBody<'a> {
    pub view: &'a RunView<'a>,
    pub query: Query,
    pub scores: Scores,
    /// The explanation of each score of the whole run, if it has one.
    reasons: Vec<Option<Folded>>,
}

impl HtmlSafe for ScoresBody<'_> {}

impl<'a> ScoresBody<'a> {
    pub(crate) fn new(view: &'a RunView<'a>, query: Query) -> Self {
        let scores = Scores::of(view.index);
        let fold = &mut Fold::new(ValueLinks::default());
        let event = |given: &RunScore| given.source.as_ref().map(|(event, _)| *event);
        let mut reasons = Vec::new();
        // Scores of a sample are in one record.
        for given in scores.of_run.chunk_by(|a, b| event(a) == event(b)) {
            let record = given.first().and_then(event).and_then(|event| {
                let span = view.index.events().get(event)?.span;
                let record = view.lines.record(TraceFile::Events, span).ok()?;
                Some(with_texts(view, record))
            });
            let json = record.as_ref().and_then(|record| Json::parse(&record.text));
            let reason = |given| reason(view, given, json.as_ref(), fold);
            reasons.extend(given.iter().map(reason));
        }
        Self {
            view,
            query,
            reasons,
            scores,
        }
    }

    /// Returns the scores of the whole run, each with its explanation.
    fn of_run(&self) -> impl Iterator<Item = (&RunScore, Option<&Folded>)> {
        let reasons = self.reasons.iter().map(Option::as_ref);
        self.scores.of_run.iter().zip(reasons)
    }

    /// Explains why there are no scores.
    fn nothing(&self) -> String {
        let steps = self.view.index.steps().len();
        let nothing = match steps {
            0 => format!("{}, so there are no scores.", self.view.no_step()),
            1 => "No critic output in the only step of this run.".to_owned(),
            _ => format!(
                "No critic output in the {} of this run.",
                format::counted(steps, "step")
            ),
        };
        let more = if self.view.is_alive() {
            "The run is still active."
        } else {
            "A critic is part of an agent. It scores each step and can request a retry or a stop."
        };
        format!("{nothing} {more}")
    }

    fn lanes(&self) -> impl Iterator<Item = LaneView<'_>> {
        let lanes = self.scores.lanes.iter().take(MAX_LANES);
        let count = lanes.len();
        lanes.map(move |lane| LaneView::new(self.view, lane, &self.query, count))
    }

    /// States which critics have no lane. May be empty.
    fn left_out(&self) -> String {
        let critic = &self.query.critic;
        match self.scores.lanes.len().saturating_sub(MAX_LANES) {
            _ if !critic.is_empty() && !self.scores.has(critic) => {
                format!("This run has no critic named {critic}.")
            }
            0 => String::new(),
            more => format!(
                "Not charted: {}. The CSV has all of them.",
                format::counted(more, "more critic")
            ),
        }
    }

    /// Returns whether any score of the run has a reason.
    fn has_reasons(&self) -> bool {
        self.reasons.iter().any(Option::is_some)
    }

    fn critic(&self, lane: usize) -> &str {
        self.scores
            .lanes
            .get(lane)
            .map(|lane| lane.name.as_str())
            .unwrap_or_default()
    }

    fn requests(&self) -> Requests<'_> {
        let mut rows = self.scores.interventions();
        let earlier = rows.len().saturating_sub(MAX_REQUESTS);
        Requests {
            body: self,
            earlier,
            rows: rows.split_off(earlier),
        }
    }

    /// Returns a heat map of all critics, if there are many.
    fn heat(&self) -> Option<Heat<'_>> {
        (self.scores.lanes.len() > MAX_WITHOUT_MAP).then(|| Heat::new(self.view, &self.scores))
    }

    fn table(&self) -> Table<'_> {
        Table::new(self)
    }

    fn agreement(&self) -> Vec<Pair> {
        agreement(&self.scores.lanes)
    }

    /// States which critics are compared, if not all are.
    fn agreement_of(&self) -> String {
        let some = self.scores.lanes.len() > MAX_CRITICS;
        if some {
            format!(" · pairs of the first {MAX_CRITICS} critics")
        } else {
            String::new()
        }
    }
}

/// Returns the explanation of a score: the whole, if `record` contains it, otherwise the beginning
/// that the index keeps.
fn reason(
    view: &RunView<'_>,
    given: &RunScore,
    record: Option<&Json<'_>>,
    fold: &mut Fold,
) -> Option<Folded> {
    let kept = given.reason.as_deref()?;
    let whole = given.source.as_ref().and_then(|(event, pointer)| {
        let words = find(record?, pointer)?.as_str()?.to_owned();
        Some((
            words,
            ValueLinks::below(&href::event(view.key(), *event)),
            pointer,
        ))
    });
    let Some((words, links, pointer)) = whole else {
        return Some(fold.prose(kept, ""));
    };
    let own = fold.elsewhere(links);
    let folded = fold.prose(&words, pointer);
    fold.elsewhere(own);
    Some(folded)
}

/// The actions that critics requested, other than `continue`.
struct Requests<'a> {
    body: &'a ScoresBody<'a>,
    /// The number of requests that aren't listed.
    earlier: usize,
    rows: Vec<Intervention>,
}

impl Requests<'_> {
    fn about(&self) -> String {
        match self.earlier {
            0 => "with the score at that step and the next".to_owned(),
            more => format!(
                "the last {MAX_REQUESTS} ({} earlier ones not listed)",
                format::count(more as u64)
            ),
        }
    }

    /// Returns the patch, or else the reason.
    fn words(&self, intervention: &Intervention) -> String {
        let critic_texts = critic_texts_at(self.body.view, intervention.point.n)
            .into_iter()
            .nth(intervention.point.place)
            .unwrap_or_default();
        one_line(
            if critic_texts.patch.is_empty() {
                &critic_texts.reason
            } else {
                &critic_texts.patch
            },
            REASON_CHARS,
        )
        .0
    }
}

fn sign(intervention: &Intervention) -> Sign {
    let point = &intervention.point;
    match point.action {
        CriticAction::Retry => Sign::word(
            "mk retry",
            "retry",
            if point.patches {
                "retry, patch"
            } else {
                "retry"
            },
        ),
        CriticAction::Stop => Sign::word(
            "mk stop",
            "critic",
            if point.patches { "stop, patch" } else { "stop" },
        ),
        _ => Sign::plain("mk", "patch"),
    }
}

/// Formats the change from the score of the request to the next score: ` (+0.40)`.
fn change(intervention: &Intervention) -> String {
    let Some(by) = intervention
        .next
        .zip(intervention.point.score)
        .map(|((_, next), score)| next - score)
    else {
        return String::new();
    };
    let text = format::score(by);
    if by > 0.0 && text != "0.00" {
        format!(" (+{text})")
    } else {
        format!(" ({text})")
    }
}

fn or_no_score(score: Option<f64>) -> String {
    score.map_or_else(|| "no score".to_owned(), format::score)
}

/// Returns a rank correlation with its interpretation, or explains why there isn't one. The
/// thresholds are the usual ones of textbooks, not those of a statistical test.
fn rank(pair: &Pair) -> (String, &'static str) {
    let rank = match pair.rank {
        Rank::TooFew => {
            return (
                "not enough data".to_owned(),
                "fewer than 3 steps with both scores",
            );
        }
        Rank::Flat => return ("none".to_owned(), "one critic's score never changes"),
        Rank::Of(rank) => rank,
    };
    let words = match rank {
        0.7.. => "rise and fall together",
        0.3.. => "mostly rise and fall together",
        -0.3.. => "uncorrelated",
        -0.7.. => "one mostly rises when the other falls",
        _ => "one rises when the other falls",
    };
    (format::score(rank), words)
}

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
        let total = self.body.scores.steps;
        let label = |n| self.body.view.label(n);
        if self.steps.len() == total {
            return format!("all {}", format::counted(total, "step"));
        }
        let (first, last) = (
            label(self.steps.start),
            label(self.steps.end.saturating_sub(1)),
        );
        format!("steps {first}–{last} ({})", format::counted(total, "step"))
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
