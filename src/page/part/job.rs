//! How far is a question over many runs? What the pages of a search and of a sweep say of it alike.
//!
//! Knows neither what is asked nor who works on it.

use askama::Template;
use askama::filters::HtmlSafe;
use jiff::tz::TimeZone;
use schemars::JsonSchema;
use serde::Serialize;

use crate::analysis::format::{self, Clock, counted};
use crate::model::time::Stamp;

/// Whether a question over many runs is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum State {
    Running,
    Done,
    /// For some runs; somebody ended it.
    Cancelled,
    /// A fault of the board ended it.
    Failed,
}

impl State {
    pub(crate) fn is_running(self) -> bool {
        self == State::Running
    }
}

/// A job as a page sees it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Status {
    pub(crate) state: State,
    /// When it began, in microseconds since the epoch; also its name in addresses.
    pub(crate) number: i64,
    /// Runs that changed, came or went since.
    pub(crate) changed: usize,
}

/// When the runs were looked at, and the link that asks the same of the runs as they are now.
#[derive(Debug, Template)]
#[template(path = "part/job_as_of.html")]
pub(crate) struct AsOf<'a> {
    pub(crate) status: Status,
    pub(crate) zone: &'a TimeZone,
    pub(crate) again: &'static str,
    pub(crate) href: String,
}

impl HtmlSafe for AsOf<'_> {}

impl AsOf<'_> {
    fn clock(&self) -> Option<Clock> {
        format::clock(
            Stamp {
                micros: self.status.number,
                zoned: true,
            },
            self.zone,
        )
    }

    /// Nothing is offered while the question is under way.
    fn is_over(&self) -> bool {
        !self.status.state.is_running()
    }

    fn changed(&self) -> Option<String> {
        let changed = self.status.changed;
        (self.is_over() && changed > 0)
            .then(|| format!("; {} changed since", counted(changed, "run")))
    }
}

/// How far a question is.
#[derive(Debug, Template)]
#[template(path = "part/job_progress.html")]
pub(crate) struct Progress {
    /// What is counted: `Runs asked`.
    pub(crate) counts: &'static str,
    pub(crate) done: u64,
    pub(crate) total: u64,
    /// `1,200 of 10,000 runs`.
    pub(crate) words: String,
    pub(crate) cancel: String,
    /// The page itself, to load it again.
    pub(crate) reload: String,
}

impl HtmlSafe for Progress {}
