//! What does a page of a run look at? Its index, its facts, its lines, the clock and the zone; and the words they share.
//!
//! No markup, no HTTP; lines are read only through [`Lines`].

use std::sync::Arc;
use std::time::Duration;

use jiff::tz::TimeZone;

use crate::analysis::format;
use crate::analysis::newest::own_start;
use crate::analysis::summary::Summary;
use crate::analysis::timing::Begins;
use crate::model::time::Stamp;
use crate::model::{Index, Lines, RunKey};
use crate::page::part::href;
use crate::page::part::svg::PhaseClass;
use crate::page::part::text::Line;
use crate::page::shell::Status;

/// A run as the pages see it.
#[derive(Clone, Copy)]
pub(crate) struct Lens<'a> {
    pub summary: &'a Summary,
    pub index: &'a Index,
    pub lines: &'a dyn Lines,
    /// The time now; microseconds since the epoch.
    pub now: i64,
    /// Why no news come of what is shown, if none do.
    pub stale: Option<&'a str>,
    /// Finds the runs on the board that it is related to, among all of them.
    pub kin: &'a dyn Fn() -> Vec<Kin>,
    /// The zone clock times are shown in.
    pub zone: &'a TimeZone,
}

/// A run that started this one, or that it started.
#[derive(Debug, Clone)]
pub(crate) enum Kin {
    /// The one that started it.
    Parent(RunKey),
    /// One that it started.
    Child(Arc<Summary>),
    /// One that branched from it.
    Branch(Arc<Summary>),
    /// Another segment of the same thread, in a file of its own.
    Segment(Arc<Summary>),
}

impl std::fmt::Debug for Lens<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Lens")
            .field("run", &self.summary.key)
            .finish_non_exhaustive()
    }
}

impl Lens<'_> {
    pub(crate) fn key(&self) -> &str {
        self.summary.key.as_str()
    }

    pub(crate) fn status(&self) -> Status {
        Status::of(self.summary)
    }

    /// Whether the run may still write.
    pub(crate) fn is_alive(&self) -> bool {
        self.summary.life.liveness.may_grow()
    }

    /// What is said where no step is there to show, without a full stop.
    pub(crate) fn no_step(&self) -> &'static str {
        self.summary.no_step(self.index)
    }

    /// The runs that this one started, each with the step that was under way when it began, where the times tell.
    pub(crate) fn children(&self) -> Vec<(Arc<Summary>, Option<usize>)> {
        let children = (self.kin)().into_iter().filter_map(|kin| match kin {
            Kin::Child(summary) => Some(summary),
            Kin::Parent(_) | Kin::Branch(_) | Kin::Segment(_) => None,
        });
        let mut children: Vec<Arc<Summary>> = children.collect();
        if children.is_empty() {
            return Vec::new();
        }
        children.sort_by_key(|child| child.started);
        let begins = Begins::of(self.index);
        let step = |child: &Summary| begins.calling_at(self.index, child.started?);
        children
            .into_iter()
            .map(|child| (Arc::clone(&child), step(&child)))
            .collect()
    }

    /// The title of a page: the run, what of it is shown where that was chosen, and the verdict.
    pub(crate) fn title(&self, part: &str) -> String {
        let part = if part.is_empty() {
            String::new()
        } else {
            format!("{part} · ")
        };
        format!("{}: {part}{}", self.key(), self.summary.verdict.sentence)
    }

    /// The address of the run page with step `n` selected.
    pub(crate) fn at_step(&self, n: usize) -> String {
        href::run_at(self.key(), n)
    }

    /// The address of the panel of the step that is not finished, or never was.
    pub(crate) fn at_pending(&self) -> String {
        format!("{}#pending", href::run(self.key()))
    }

    /// The label of step `n`: its recorded id, or its place where there is none.
    pub(crate) fn label(&self, n: usize) -> String {
        self.index.label(n)
    }

    /// The address of event `n` in the table of events, where it stands open.
    pub(crate) fn at_event(&self, n: usize) -> String {
        let after = (n / crate::page::run::events::PER_PAGE * crate::page::run::events::PER_PAGE)
            .to_string();
        let query = [
            ("tab", "events"),
            ("after", after.as_str()),
            ("open", &n.to_string()),
        ];
        let query = href::with_query(&href::run(self.key()), &query);
        format!("{query}#event-{n}")
    }

    /// The time that is called 0: when the run began. Of one that branched from another, its copied steps lie before.
    pub(crate) fn zero(&self) -> Option<i64> {
        own_start(self.index).or(self.index.first_ts())
    }

    /// A time as an offset from the run's beginning; empty for a time before its first event, which the clock cannot mean.
    pub(crate) fn offset(&self, micros: Option<i64>) -> Line {
        let at = micros.filter(|at| self.index.first_ts().is_some_and(|first| *at >= first));
        at.zip(self.zero())
            .map_or_else(Line::default, |(at, zero)| format::offset(at - zero).into())
    }

    /// A moment in RFC 3339 for `datetime`.
    pub(crate) fn iso(&self, micros: i64) -> String {
        format::clock(
            Stamp {
                micros,
                zoned: true,
            },
            self.zone,
        )
        .map_or_else(String::new, |clock| clock.iso)
    }
}

/// The colour class and the shown name of a phase.
pub(crate) fn phase(name: &str) -> (PhaseClass, String) {
    let (class, shown) = match name {
        "OBSERVE" => ("decide", "Observe"),
        "DECIDE" => ("decide", "Decide"),
        "ACT" => ("act", "Act"),
        "REDUCE" => ("reduce", "Reduce"),
        "CRITIC" => ("critic", "Critics"),
        "CHECK_STOP" => ("check", "Check stop"),
        "GATE" => ("check", "Gate"),
        "RECOVER" | "DECIDE_ERROR" | "ACT_ERROR" => ("recover", name),
        "" => ("plain", "(no phase)"),
        other => ("plain", other),
    };
    (
        class,
        if shown == "RECOVER" {
            "Recover".to_owned()
        } else {
            shown.to_owned()
        },
    )
}

pub(crate) fn micros(micros: i64) -> String {
    format::duration(Duration::from_micros(
        u64::try_from(micros).unwrap_or_default(),
    ))
}
