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
mod several;
mod table;
#[cfg(test)]
mod tests;
mod threshold_handle;

use askama::Template;
use askama::filters::HtmlSafe;

use crate::analysis::format;
use crate::analysis::scores::{Intervention, MAX_CRITICS, Pair, Rank, Scores, agreement, in_words};
use crate::model::{CriticAction, TraceFile};
use crate::page::part::chart::series_of;
use crate::page::part::href;
use crate::page::part::sign::Sign;
use crate::page::part::text::{self, one_line};
use crate::page::run::head::{RunHead, Tabs};
use crate::page::run_view::RunView;
use crate::page::scores::critic_texts::{CriticText, critic_texts};
use crate::page::scores::heat::Heat;
use crate::page::scores::lane::LaneView;
use crate::page::scores::plot::{Along, Px, Request, VisibleRange, tick_class};
use crate::page::scores::table::Table;
use crate::page::shell::{Pulse, Shell};
use crate::stop::{CriticBelow, StopSpec};

/// Lanes that are drawn, at most.
const MAX_LANES: usize = 24;
/// Critic requests that are listed, at most. Each one reads a line.
const MAX_REQUESTS: usize = 50;
/// If there are more critics, the page has a heat map of all.
const MAX_WITHOUT_MAP: usize = 3;
/// Longer patches and reasons are truncated in the list; characters.
const REASON_CHARS: usize = 160;

/// The parameters of a scores page.
#[derive(Debug, Clone, Default)]
pub(crate) struct Query {
    /// The threshold as typed. May be empty.
    pub threshold: String,
    /// The critic that the threshold is for. Empty for all critics.
    pub critic: String,
    /// The table ends before this step. By default it shows the last steps.
    pub before: Option<usize>,
    /// The visible part of the axis, in steps or in percent of the run.
    pub from: Option<usize>,
    pub to: Option<usize>,
    /// The current step of the other tabs, which this page ignores.
    pub step: Option<usize>,
}

impl Query {
    /// Returns the threshold, if it is a number.
    pub(crate) fn threshold(&self) -> Option<f64> {
        self.threshold
            .trim()
            .parse()
            .ok()
            .filter(|number: &f64| number.is_finite())
    }

    /// Returns whether the typed threshold isn't a number.
    pub(crate) fn is_wrong(&self) -> bool {
        !self.threshold.trim().is_empty() && self.threshold().is_none()
    }

    /// Returns the threshold that applies to a critic.
    pub(crate) fn threshold_of(&self, critic: &str) -> Option<f64> {
        self.threshold()
            .filter(|_| self.critic.is_empty() || self.critic == critic)
    }

    /// Returns the visible part of an axis from 0 to `end`: the requested range, or the whole axis.
    pub(crate) fn visible(&self, end: f64) -> VisibleRange {
        VisibleRange::new(self.from, self.to, end).unwrap_or(VisibleRange::WHOLE)
    }

    /// Returns whether the requested range has fewer than two of the run's steps.
    pub(crate) fn is_empty_range(&self, steps: usize) -> bool {
        VisibleRange::new(self.from, self.to, steps.saturating_sub(1) as f64).is_none()
    }

    /// Returns the address of `path` with these parameters and others.
    pub(crate) fn address(&self, path: &str, others: &[(&str, &str)]) -> String {
        let [before, from, to, step] = [self.before, self.from, self.to, self.step]
            .map(|at| at.map(|at| at.to_string()).unwrap_or_default());
        let fields = [
            ("threshold", self.threshold.as_str()),
            ("critic", &self.critic),
            ("before", &before),
            ("from", &from),
            ("to", &to),
            ("step", &step),
        ];
        href::with_query(path, &[&fields[..], others].concat())
    }
}

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
}

impl HtmlSafe for ScoresBody<'_> {}

impl<'a> ScoresBody<'a> {
    pub(crate) fn new(view: &'a RunView<'a>, query: Query) -> Self {
        Self {
            view,
            query,
            scores: Scores::of(view.index),
        }
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
        self.scores
            .of_run
            .iter()
            .any(|given| given.reason.is_some())
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

/// Returns the critic outputs in the line of step `n`. Empty if the line can't be read.
fn critic_texts_at(view: &RunView<'_>, n: usize) -> Vec<CriticText> {
    let span = view
        .index
        .steps()
        .get(n)
        .map(|step| step.span)
        .unwrap_or_default();
    view.lines
        .short_line(TraceFile::Steps, span)
        .map(|line| critic_texts(&line))
        .unwrap_or_default()
}

fn or_no_score(score: Option<f64>) -> String {
    score.map_or_else(|| "no score".to_owned(), format::score)
}

/// Returns a rank correlation with its interpretation, or explains why there is none. The
/// thresholds are the usual ones of textbooks, not those of a statistical test.
fn rank(pair: &Pair) -> (String, &'static str) {
    let rank = match pair.rank {
        Rank::TooFew => return ("too few".to_owned(), "fewer than 3 steps with both scores"),
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
