//! Defines the page at `/whatif`, which evaluates other rules on many runs, and the part that
//! updates it.
//!
//! The page starts with the answer in a sentence, followed by the form, the curve and the tables
//! behind the answer.

mod curve;
pub(crate) mod handler;
pub(crate) mod json;
mod table;
mod task;
#[cfg(test)]
mod tests;
mod words;

use askama::Template;
use askama::filters::HtmlSafe;
use jiff::tz::TimeZone;

pub(crate) use task::{Standing, SweepTask};

use crate::analysis::format::{capitalised, count, counted};
use crate::analysis::headline::Headline;
use crate::analysis::query::Query;
use crate::analysis::sweep::sweep_rules;
use crate::page::part::job::{AsOf, Progress};
use crate::page::part::{href, text};
use crate::page::shell::Shell;
use crate::page::sweep::curve::Curve;
use crate::page::sweep::table::Table;

/// The form fields as typed. The address contains them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Form {
    /// `q`: the query that selects runs.
    query: String,
    /// `sweep`: the rule whose limit is varied.
    sweep: String,
    /// `values`: the limits to try.
    values: String,
    /// `critic`: the critic, for `critic_below`.
    critic: String,
    /// `streak`: the number of consecutive low scores, for `critic_below`.
    streak: String,
    /// `rule`: the rules to evaluate unchanged.
    rules: Vec<String>,
}

impl Form {
    /// Returns an address for the same question, with one more parameter.
    fn url(&self, path: &str, more: (&str, &str)) -> String {
        let mut pairs = vec![
            ("q", self.query.as_str()),
            ("sweep", &self.sweep),
            ("values", &self.values),
            ("critic", &self.critic),
            ("streak", &self.streak),
        ];
        pairs.extend(self.rules.iter().map(|rule| ("rule", rule.as_str())));
        pairs.push(more);
        href::with_query(path, &pairs)
    }
}

/// The data the page needs in addition to the sums.
#[derive(Debug, Clone)]
pub(crate) struct Context {
    form: Form,
    /// The parsed query.
    query: Query,
    /// The invalid rule or limit that prevents the evaluation.
    fault: Option<String>,
    /// The critics to choose from.
    critics: Vec<String>,
    /// The number of runs on the board, and how many of them the query selects.
    known: usize,
    selected: usize,
    zone: TimeZone,
}

/// A question and its answer. `standing` is missing until a question is asked.
#[derive(Debug, Clone, Copy)]
pub(crate) struct View<'a> {
    context: &'a Context,
    standing: Option<Standing<'a>>,
}

/// The page at `/whatif`.
#[derive(Debug, Template)]
#[template(path = "sweep/page.html")]
pub(crate) struct SweepPage<'a> {
    shell: Shell,
    view: View<'a>,
}

#[derive(Debug, Template)]
#[template(path = "sweep/sweep_poll.html")]
pub(crate) struct SweepPart<'a> {
    view: View<'a>,
}

/// The answer in a sentence, and the time it refers to.
#[derive(Debug, Template)]
#[template(path = "sweep/sweep_head.html")]
pub(crate) struct Head<'a> {
    view: View<'a>,
}

impl HtmlSafe for Head<'_> {}

/// The content below the form.
#[derive(Debug, Template)]
#[template(path = "sweep/sweep_body.html")]
pub(crate) struct Body<'a> {
    progress: Option<Progress>,
    /// The curve of the varied rule, or the reason why it can't be drawn.
    curve: Option<Result<Curve<'a>, &'static str>>,
    limits: Option<Table<'a>>,
    rules: Option<Table<'a>>,
    notes: Vec<String>,
}

impl HtmlSafe for Body<'_> {}

impl<'a> View<'a> {
    fn title(&self) -> String {
        let sweep_rule = self
            .standing
            .and_then(|standing| standing.prepared.sweep_rule());
        sweep_rule.map_or_else(
            || "What-if".to_owned(),
            |sweep_rule| format!("What-if: {}", sweep_rule.name()),
        )
    }

    /// Returns the address that updates the page while the question is being answered.
    fn poll(&self) -> Option<String> {
        self.standing?
            .status
            .state
            .is_running()
            .then(|| self.context.form.url("/live/whatif", ("", "")))
    }

    /// Lists the rules that can be varied: the name, the unit of the limit, and whether it is
    /// selected.
    fn sweep_rules(&self) -> impl Iterator<Item = (&'static str, &'static str, bool)> {
        let sweep_rule = self
            .standing
            .and_then(|standing| standing.prepared.sweep_rule());
        let chosen = sweep_rule.map_or(&*self.context.form.sweep, |sweep_rule| sweep_rule.name());
        sweep_rules().map(move |(name, counts)| (name, counts, name == chosen))
    }

    /// Describes which runs the query selects.
    fn selected(&self) -> String {
        if self.context.known == 0 {
            return "none yet".to_owned();
        }
        let known = count(self.context.known as u64);
        if self.context.form.query.trim().is_empty() {
            return format!("all {known}");
        }
        format!("{} of {known}", count(self.context.selected as u64))
    }

    /// Returns why the question can't be evaluated, as the headline.
    fn fault(&self) -> Option<Headline> {
        let fault = self.context.fault.as_deref()?;
        // The name of a rule stays as it is.
        let is_name = fault
            .split(' ')
            .next()
            .is_some_and(|word| word.contains('_'));
        let fault = if is_name {
            fault.to_owned()
        } else {
            capitalised(fault)
        };
        Some(match fault.split_once(". ") {
            Some((lead, more)) => Headline::from(format!("{lead}.")).and(&format!("{more}.")),
            None => format!("{fault}.").into(),
        })
    }

    fn head(&self) -> Head<'a> {
        Head { view: *self }
    }

    fn as_of(&self, standing: &Standing<'_>) -> AsOf<'a> {
        let href = self
            .context
            .form
            .url("/whatif", ("again", &standing.status.number.to_string()));
        AsOf {
            status: standing.status,
            zone: &self.context.zone,
            again: "Evaluate again",
            href,
        }
    }

    fn progress(&self, standing: &Standing<'_>) -> Option<Progress> {
        standing.status.state.is_running().then(|| Progress {
            counts: "Runs evaluated",
            done: standing.done as u64,
            total: standing.total as u64,
            words: format!(
                "{} of {}",
                count(standing.done as u64),
                counted(standing.total, "run")
            ),
            cancel: self
                .context
                .form
                .url("/whatif", ("cancel", &standing.status.number.to_string())),
            reload: self.context.form.url("/whatif", ("", "")),
        })
    }

    fn body(&self) -> Body<'a> {
        let progress = self.standing.and_then(|standing| self.progress(&standing));
        let empty = Body {
            progress,
            curve: None,
            limits: None,
            rules: None,
            notes: Vec::new(),
        };
        let Some(standing) = self.standing else {
            return empty;
        };
        let Some(sweep) = standing.sweep.filter(|sweep| sweep.runs > 0) else {
            return empty;
        };
        let sweep_rule = standing.prepared.sweep_rule();
        let best = sweep_rule.and_then(|_| sweep.best());
        Body {
            curve: sweep_rule
                .map(|sweep_rule| Curve::of(standing.prepared, sweep_rule, sweep, best)),
            limits: Table::limits(standing.prepared, sweep, best),
            rules: Table::rules(standing.prepared, sweep),
            notes: words::notes(&standing, sweep),
            ..empty
        }
    }
}
