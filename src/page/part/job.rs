//! How far is a question over many runs? What the pages of a search and of a sweep say of it alike.
//!
//! Knows neither what is asked nor who works on it.

use jiff::tz::TimeZone;

use crate::analysis::format;
use crate::model::time::Stamp;

/// Whether a question over many runs is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    /// Not yet.
    Running,
    /// Yes.
    Done,
    /// For some runs; somebody ended it.
    Cancelled,
    /// A fault of the board ended it.
    Failed,
}

impl State {
    /// The word of the JSON contract.
    pub(crate) fn word(self) -> &'static str {
        match self {
            State::Running => "running",
            State::Done => "done",
            State::Cancelled => "cancelled",
            State::Failed => "failed",
        }
    }

    /// Whether more will come.
    pub(crate) fn is_running(self) -> bool {
        self == State::Running
    }
}

/// Of which moment the answer is. Printed by `parts/job_told.html`.
#[derive(Debug, Clone, Default)]
pub(crate) struct Told {
    /// When the runs were looked at.
    pub as_of: Option<format::Clock>,
    /// `14 runs changed since`.
    pub changed: Option<String>,
    /// Asks the same of the runs as they are now: words and address.
    pub again: Option<(&'static str, String)>,
}

impl Told {
    /// What is told of a question that was asked at `asked`, in microseconds since the epoch, and is over `changed` runs
    /// that are not what they were. While it is under way, nothing is offered instead.
    pub(crate) fn of(state: State, asked: i64, changed: usize, zone: &TimeZone, again: (&'static str, String)) -> Self {
        let over = !state.is_running();
        Self {
            as_of: format::clock(Stamp { micros: asked, zoned: true }, zone),
            changed: (over && changed > 0).then(|| format!("{} changed since", format::counted(changed, "run"))),
            again: over.then_some(again),
        }
    }
}

/// How far a question is. Printed by `parts/job_progress.html`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Progress {
    /// What is counted: `Runs asked`.
    pub counts: &'static str,
    /// What is done.
    pub done: u64,
    /// What there is to do.
    pub total: u64,
    /// `1,200 of 10,000 runs`.
    pub words: String,
    /// Ends it.
    pub cancel: String,
    /// The page itself, to load it again.
    pub reload: String,
}
