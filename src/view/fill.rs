//! How does a run's index become the ready values of a page? One function for each part of the run page.
//!
//! Knows the model and what `analysis` makes of it; reads lines only through [`Lines`]. No markup, no HTTP.

mod compare;
mod events;
mod export;
mod files;
mod pending;
mod replay;
mod run;
mod says;
mod scores;
mod state;
mod step;
mod steps;
mod verdict;
mod whatif;

use std::time::Duration;

use jiff::tz::TimeZone;

pub use compare::{compare_body, compare_many, opened};
pub use events::{EventsQuery, events_tab};
pub use export::{Export, write_export};
pub use files::{issues_tab, manifest_tab};
pub use pending::pending_slot;
pub use replay::{NoPlace, ReplayQuery, replay};
pub use run::{content_title, head, head_with_verdict, tabs};
pub use scores::{scores_body, scores_form, scores_mark};
pub use state::{Moment, StateLink, state_panel, state_tab};
pub use step::{StepPlace, manifest_text, readable, step_line, step_view, value_of};
pub use steps::{WINDOW, Window, end_slot, row, rows_from, steps_tab};
pub use verdict::verdict;
pub use whatif::{from_form, typed_rules, whatif};

use super::svg::PhaseClass;
use super::text::Line;
use super::{Status, format, href};
use crate::analysis::summary::Summary;
use crate::model::time::Stamp;
use crate::model::{Index, Lines};

/// A run as the pages see it.
pub struct Lens<'a> {
    /// The facts of its row.
    pub summary: &'a Summary,
    /// What is known without reading a line.
    pub index: &'a Index,
    /// Where lines are read.
    pub lines: &'a dyn Lines,
    /// The time now; microseconds since the epoch.
    pub now: i64,
    /// The zone clock times are shown in.
    pub zone: &'a TimeZone,
}

impl std::fmt::Debug for Lens<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Lens").field("run", &self.summary.key).finish_non_exhaustive()
    }
}

impl Lens<'_> {
    fn key(&self) -> &str {
        self.summary.key.as_str()
    }

    /// The address of the run page with step `n` selected.
    fn at_step(&self, n: usize) -> String {
        href::run_at(self.key(), n)
    }

    /// The label of step `n`: its recorded id, or its place where there is none.
    pub(crate) fn label(&self, n: usize) -> String {
        self.index.label(n)
    }

    /// The address of event `n` in the table of events.
    fn at_event(&self, n: usize) -> String {
        let after = (n / events::PER_PAGE * events::PER_PAGE).to_string();
        let query = href::with_query(&href::run(self.key()), &[("tab", "events"), ("after", &after)]);
        format!("{query}#event-{n}")
    }

    /// A time as an offset from the run's first event.
    fn offset(&self, micros: Option<i64>) -> Line {
        let start = self.index.first_ts();
        micros.zip(start).map_or_else(Line::default, |(at, start)| format::offset(at - start).into())
    }

    /// A moment in RFC 3339 for `datetime`.
    fn iso(&self, micros: i64) -> String {
        format::clock(Stamp { micros, zoned: true }, self.zone).map_or_else(String::new, |clock| clock.iso)
    }
}

/// The status of a run as a shape and a word.
pub fn status(summary: &Summary) -> Status {
    super::list::status(summary.verdict.mark)
}

/// The colour class and the shown name of a phase.
fn phase(name: &str) -> (PhaseClass, String) {
    let (class, shown) = match name {
        "OBSERVE" => ("decide", "Observe"),
        "DECIDE" => ("decide", "Decide"),
        "ACT" => ("act", "Act"),
        "REDUCE" => ("reduce", "Reduce"),
        "CRITIC" => ("critic", "Critics"),
        "CHECK_STOP" => ("check", "Check stop"),
        "RECOVER" | "DECIDE_ERROR" | "ACT_ERROR" => ("recover", name),
        "" => ("plain", "(no phase)"),
        other => ("plain", other),
    };
    (class, if shown == "RECOVER" { "Recover".to_owned() } else { shown.to_owned() })
}

fn micros(micros: i64) -> String {
    format::duration(Duration::from_micros(u64::try_from(micros).unwrap_or_default()))
}
