//! Shows the progress of a job over many runs. The search page and the sweep page share it.
//!
//! Must not know the question of the job or its workers.

use askama::Template;
use askama::filters::HtmlSafe;
use jiff::tz::TimeZone;
use schemars::JsonSchema;
use serde::Serialize;

use crate::analysis::format::{self, Clock, counted};
use crate::model::time::Stamp;

/// The state of a job over many runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(rename = "JobState")]
pub(crate) enum State {
    Running,
    Done,
    /// Somebody cancelled it. It covers some of the runs.
    Cancelled,
    /// It failed because of a bug in board.
    Failed,
}

impl State {
    pub(crate) fn is_running(self) -> bool {
        self == State::Running
    }
}

/// A job, as a page sees it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Status {
    pub(crate) state: State,
    /// When the job began, in microseconds since the epoch. Also its number in addresses.
    pub(crate) number: i64,
    /// Runs that changed, appeared or vanished since.
    pub(crate) changed: usize,
}

/// The time of the job, and a link that repeats it for the current runs.
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

    /// Returns whether the job is over. Only then can it be repeated.
    fn is_over(&self) -> bool {
        !self.status.state.is_running()
    }

    fn changed(&self) -> Option<String> {
        let changed = self.status.changed;
        (self.is_over() && changed > 0)
            .then(|| format!("; {} changed since", counted(changed, "run")))
    }
}

/// The progress of a job.
#[derive(Debug, Template)]
#[template(path = "part/job_progress.html")]
pub(crate) struct Progress {
    /// The counted items: `Runs asked`.
    pub(crate) counts: &'static str,
    pub(crate) done: u64,
    pub(crate) total: u64,
    /// `1,200 of 10,000 runs`.
    pub(crate) words: String,
    pub(crate) cancel: String,
    /// The address of this page, to reload it.
    pub(crate) reload: String,
}

impl HtmlSafe for Progress {}
