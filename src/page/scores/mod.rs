//! How do the scores of critics look? A lane for each critic of one run, and the lines of several runs over each other.
//!
//! Everything below the form is one part, `#scores`, which a live run changes. Lanes come from the index; a few lines are
//! read for what only they hold.

pub(crate) mod csv;
mod hand;
pub(crate) mod handler;
mod heat;
pub(crate) mod json;
mod lane;
pub(crate) mod overlay;
pub(crate) mod plot;
mod said;
mod several;
mod table;
#[cfg(test)]
mod tests;

use askama::Template;
use askama::filters::HtmlSafe;

use crate::analysis::format;
use crate::analysis::scores::{Intervention, MAX_CRITICS, Pair, Rank, Scores, agreement, in_words};
use crate::model::{CriticAction, TraceFile};
use crate::page::lens::Lens;
use crate::page::part::chart::series_of;
use crate::page::part::href;
use crate::page::part::sign::Sign;
use crate::page::part::text::{self, one_line};
use crate::page::run::head::{RunHead, Tabs};
use crate::page::scores::heat::Heat;
use crate::page::scores::lane::LaneView;
use crate::page::scores::plot::{Along, Px, Request, View, tick_class};
use crate::page::scores::said::{CriticText, said};
use crate::page::scores::table::Table;
use crate::page::shell::{Pulse, Shell};
use crate::stop::{CriticBelow, StopSpec};

/// At most so many lanes are drawn.
const MAX_LANES: usize = 24;
/// Of at most so many requests the lines are read.
const MAX_REQUESTS: usize = 50;
/// With more critics than this, a map of all is worth its room.
const MAX_WITHOUT_MAP: usize = 3;
/// A patch or a reason in the list is cut to this many characters.
const REASON_CHARS: usize = 160;

/// What the address of a scores page asks for.
#[derive(Debug, Clone, Default)]
pub(crate) struct Query {
    /// The threshold as typed; empty for none.
    pub threshold: String,
    /// The critic it is for; empty for each of them.
    pub critic: String,
    /// The table shows steps before this one; the last steps without it.
    pub before: Option<usize>,
    /// Where the axis begins and ends, in steps or in hundredths of the run.
    pub from: Option<usize>,
    pub to: Option<usize>,
    /// The step that is read in other tabs; nothing here depends on it.
    pub step: Option<usize>,
}

impl Query {
    /// The threshold, where it is a number.
    pub(crate) fn threshold(&self) -> Option<f64> {
        self.threshold
            .trim()
            .parse()
            .ok()
            .filter(|number: &f64| number.is_finite())
    }

    /// Whether something was typed that is no number.
    pub(crate) fn is_wrong(&self) -> bool {
        !self.threshold.trim().is_empty() && self.threshold().is_none()
    }

    /// The threshold that holds for a critic.
    pub(crate) fn threshold_of(&self, critic: &str) -> Option<f64> {
        self.threshold()
            .filter(|_| self.critic.is_empty() || self.critic == critic)
    }

    /// The part of an axis from 0 to `end` that is shown: what was asked for, else all of it.
    pub(crate) fn view(&self, end: f64) -> View {
        View::new(self.from, self.to, end).unwrap_or(View::WHOLE)
    }

    /// Whether a part of the steps of a run was asked for that does not hold two of them.
    pub(crate) fn is_empty_range(&self, steps: usize) -> bool {
        View::new(self.from, self.to, steps.saturating_sub(1) as f64).is_none()
    }

    /// `path` with these fields and others behind them.
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
    /// The page with all steps, where some are shown.
    fn whole(&self) -> Option<String> {
        let query = &self.body.query;
        let all = Query {
            from: None,
            to: None,
            ..query.clone()
        };
        let part = query.from.is_some() || query.to.is_some();
        part.then(|| all.address(&href::scores(self.body.lens.key()), &[]))
    }

    /// The threshold as stop rules to ask about.
    fn rule(&self) -> Option<String> {
        let (lens, query) = (self.body.lens, &self.body.query);
        let score = query.threshold()?;
        let critics = lens
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
        (!rules.is_empty()).then(|| href::whatif_with(lens.key(), &rules, query.step))
    }
}

/// The answer to the pulse of a scores page: all but the form, which belongs to the reader.
#[derive(Template)]
#[template(path = "scores/pulse.html")]
pub(crate) struct ScoresPulse<'a> {
    pub pulse: Pulse,
    pub title: text::Line,
    pub head: RunHead<'a>,
    pub tabs: Tabs<'a>,
    /// `None` where no score changed.
    pub body: Option<ScoresBody<'a>>,
}

/// What the critics said, `#scores`.
#[derive(Template)]
#[template(path = "scores/scores.html")]
pub(crate) struct ScoresBody<'a> {
    pub lens: &'a Lens<'a>,
    pub query: Query,
    pub scores: Scores,
}

impl HtmlSafe for ScoresBody<'_> {}

impl<'a> ScoresBody<'a> {
    pub(crate) fn new(lens: &'a Lens<'a>, query: Query) -> Self {
        Self {
            lens,
            query,
            scores: Scores::of(lens.index),
        }
    }

    /// What is said where no critic spoke.
    fn nothing(&self) -> String {
        let steps = self.lens.index.steps().len();
        let nothing = match steps {
            0 => format!("{}, so no score of one is known.", self.lens.no_step()),
            1 => "No critic spoke in the one step of this run.".to_owned(),
            _ => format!(
                "No critic spoke in the {} of this run.",
                format::counted(steps, "step")
            ),
        };
        let more = if self.lens.is_alive() {
            "The run goes on."
        } else {
            "A critic is part of an agent: it scores each step and may ask for a retry or a stop."
        };
        format!("{nothing} {more}")
    }

    fn lanes(&self) -> impl Iterator<Item = LaneView<'_>> {
        let lanes = self.scores.lanes.iter().take(MAX_LANES);
        let count = lanes.len();
        lanes.map(move |lane| LaneView::new(self.lens, lane, &self.query, count))
    }

    /// What is said of critics that have no lane; empty for nothing.
    fn left_out(&self) -> String {
        let critic = &self.query.critic;
        match self.scores.lanes.len().saturating_sub(MAX_LANES) {
            _ if !critic.is_empty() && !self.scores.has(critic) => {
                format!("No critic of this run is called {critic}.")
            }
            0 => String::new(),
            more => format!(
                "{} have no lane here; the CSV has them all.",
                format::counted(more, "more critic")
            ),
        }
    }

    /// Whether somebody explained a score of the run.
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
        let mut rows = self.scores.asked();
        let earlier = rows.len().saturating_sub(MAX_REQUESTS);
        Requests {
            body: self,
            earlier,
            rows: rows.split_off(earlier),
        }
    }

    /// All critics as one map, where there are many.
    fn heat(&self) -> Option<Heat<'_>> {
        (self.scores.lanes.len() > MAX_WITHOUT_MAP).then(|| Heat::new(self.lens, &self.scores))
    }

    fn table(&self) -> Table<'_> {
        Table::new(self)
    }

    fn agreement(&self) -> Vec<Pair> {
        agreement(&self.scores.lanes)
    }

    /// Which critics are compared, where not all are.
    fn agreement_of(&self) -> String {
        let some = self.scores.lanes.len() > MAX_CRITICS;
        if some {
            format!(" · pairs of the first {MAX_CRITICS} critics")
        } else {
            String::new()
        }
    }
}

/// What critics asked for besides going on.
struct Requests<'a> {
    body: &'a ScoresBody<'a>,
    /// How many are not listed.
    earlier: usize,
    rows: Vec<Intervention>,
}

impl Requests<'_> {
    fn about(&self) -> String {
        match self.earlier {
            0 => "the score that went with it, and the critic's next one".to_owned(),
            more => format!(
                "the last {MAX_REQUESTS}; {} before them are not listed",
                format::count(more as u64)
            ),
        }
    }

    /// The patch, or the reason.
    fn words(&self, asked: &Intervention) -> String {
        let said = said_at(self.body.lens, asked.point.n)
            .into_iter()
            .nth(asked.point.place)
            .unwrap_or_default();
        one_line(
            if said.patch.is_empty() {
                &said.reason
            } else {
                &said.patch
            },
            REASON_CHARS,
        )
        .0
    }
}

fn sign(asked: &Intervention) -> Sign {
    let point = &asked.point;
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

/// How far the next score lies from the one of the request: ` (+0.40)`.
fn change(asked: &Intervention) -> String {
    let Some(by) = asked
        .next
        .zip(asked.point.score)
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

/// What the line of step `n` says of its critics; nothing where it cannot be read.
fn said_at(lens: &Lens<'_>, n: usize) -> Vec<CriticText> {
    let span = lens
        .index
        .steps()
        .get(n)
        .map(|step| step.span)
        .unwrap_or_default();
    lens.lines
        .short_line(TraceFile::Steps, span)
        .map(|line| said(&line))
        .unwrap_or_default()
}

fn or_no_score(score: Option<f64>) -> String {
    score.map_or_else(|| "no score".to_owned(), format::score)
}

/// A rank correlation, or why there is none, and what that says; the borders are the usual ones of textbooks, not of any
/// test.
fn rank(pair: &Pair) -> (String, &'static str) {
    let rank = match pair.rank {
        Rank::TooFew => return ("too few".to_owned(), "fewer than 3 steps with both scores"),
        Rank::Flat => return ("none".to_owned(), "one of them never changes its score"),
        Rank::Of(rank) => rank,
    };
    let words = match rank {
        0.7.. => "rise and fall together",
        0.3.. => "rise and fall together more often than not",
        -0.3.. => "have little to do with each other",
        -0.7.. => "one rises where the other falls more often than not",
        _ => "one rises where the other falls",
    };
    (format::score(rank), words)
}
