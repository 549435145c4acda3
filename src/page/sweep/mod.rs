//! What does it look like to ask other rules about many runs? The page at `/whatif`, and the part that fills itself.
//!
//! The answer comes first, in a sentence; then the form, the curve and the tables it is taken from.

pub(crate) mod handler;
pub(crate) mod json;

use askama::Template;
use askama::filters::HtmlSafe;
use jiff::tz::TimeZone;

use crate::analysis::query::Query;
use crate::analysis::sweep::{Inquiry, Sweep};
use crate::page::part::href;
use crate::page::part::job::{Progress, State, Told};
use crate::page::part::text::Line;
use crate::page::shell::Shell;

pub(crate) mod curve;
pub(crate) mod fill;
pub(crate) mod table;
#[cfg(test)]
mod tests;
pub(crate) mod words;

pub(crate) use crate::page::sweep::curve::Curve;
pub(crate) use crate::page::sweep::fill::{page, part};
pub(crate) use crate::page::sweep::table::Table;

/// What was typed; the address holds it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Form {
    /// `q`: which runs.
    pub query: String,
    /// `sweep`: the rule whose number is varied.
    pub sweep: String,
    /// `values`: its limits.
    pub values: String,
    /// `critic`: for `critic_below`.
    pub critic: String,
    /// `streak`: for `critic_below`, low scores in a row.
    pub streak: String,
    /// `rule`: rules that are asked as they are.
    pub rules: Vec<String>,
}

impl Form {
    /// An address that asks the same, with more parameters behind.
    fn url(&self, path: &str, more: &[(&str, &str)]) -> String {
        let mut pairs = vec![
            ("q", self.query.as_str()),
            ("sweep", &self.sweep),
            ("values", &self.values),
            ("critic", &self.critic),
            ("streak", &self.streak),
        ];
        pairs.extend(self.rules.iter().map(|rule| ("rule", rule.as_str())));
        pairs.extend(more);
        href::with_query(path, &pairs)
    }
}

/// What the page needs to know besides the sums.
#[derive(Debug, Clone)]
pub(crate) struct Context {
    /// What was typed.
    pub form: Form,
    /// Its query, read.
    pub query: Query,
    /// Why nothing is asked: a rule or a limit that cannot be used.
    pub fault: Option<String>,
    /// Critics to choose from.
    pub critics: Vec<String>,
    /// How many runs the board knows.
    pub known: usize,
    /// What is around every page; the title is still to come.
    pub shell: Shell,
    /// The reader's zone.
    pub zone: TimeZone,
}

/// How far the question is.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Standing<'a> {
    /// Whether it is answered.
    pub state: State,
    /// When it began, in microseconds since the epoch; also its name in addresses.
    pub number: i64,
    /// Runs asked.
    pub done: usize,
    /// Runs to ask.
    pub total: usize,
    /// Runs that changed, came or went since.
    pub changed: usize,
    /// What is asked.
    pub inquiry: &'a Inquiry,
    /// The sums, once there are any.
    pub sweep: Option<&'a Sweep>,
}

/// The page at `/whatif`.
#[derive(Debug, Clone, Template)]
#[template(path = "sweep/page.html")]
pub(crate) struct SweepPage {
    /// What is around it.
    pub shell: Shell,
    /// The address that fills the page while the question is under way.
    pub poll: Option<String>,
    /// The answer.
    pub head: Head,
    /// What to ask.
    pub fields: Fields,
    /// What it is taken from.
    pub body: Body,
}

/// The answer to the page's poll.
#[derive(Debug, Clone, Template)]
#[template(path = "sweep/sweep_poll.html")]
pub(crate) struct SweepPart {
    /// The next poll; `None` ends it.
    pub poll: Option<String>,
    /// The answer.
    pub head: Head,
    /// What it is taken from.
    pub body: Body,
}

/// The answer in a sentence, and as of when.
#[derive(Debug, Clone, Default, Template)]
#[template(path = "sweep/sweep_head.html")]
pub(crate) struct Head {
    /// The answer, or that it is under way.
    pub answer: Line,
    /// What else belongs to it: what it is over, what cannot be told.
    pub second: Line,
    /// Of which moment it is.
    pub told: Told,
}

impl HtmlSafe for Head {}

/// The form.
#[derive(Debug, Clone, Default)]
pub(crate) struct Fields {
    /// What was typed.
    pub form: Form,
    /// Terms of the query that were not understood, with what was expected.
    pub ignored: Vec<(String, String)>,
    /// The rules that can be varied: name, what its number counts, whether it is chosen.
    pub dials: Vec<(&'static str, &'static str, bool)>,
    /// Critics to choose from.
    pub critics: Vec<String>,
    /// What is wrong with a rule or a limit.
    pub fault: Option<String>,
    /// The runs the query selects.
    pub runs: String,
}

/// What is below the form.
#[derive(Debug, Clone, Default, Template)]
#[template(path = "sweep/sweep_body.html")]
pub(crate) struct Body {
    /// How far it is, while it is under way.
    pub progress: Option<Progress>,
    /// The curve of the varied rule.
    pub curve: Option<Curve>,
    /// Why there is no curve.
    pub no_curve: Option<&'static str>,
    /// Its limits.
    pub limits: Option<Table>,
    /// The other rules.
    pub rules: Option<Table>,
    /// What the numbers leave out, one sentence each.
    pub notes: Vec<Line>,
}

impl HtmlSafe for Body {}
