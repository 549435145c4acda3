//! What runs can be grouped by: a column with one text for each run, or the day or the week on which
//! they started.

use std::borrow::Cow;

use jiff::ToSpan as _;
use jiff::civil::Date;

use crate::analysis::calendar::{Calendar, monday};
use crate::analysis::columns::{
    Column, INDEXING, LOG, MODEL, PARENT, PROJECT, STATUS, STOP, TASK, WRITER,
};
use crate::analysis::query::{Clock, Needle, Query};
use crate::analysis::summary::Summary;

/// Something that runs can be grouped by. Every run belongs to exactly one group, so that the totals
/// of all groups are those of all runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Grouping {
    /// The name in addresses and commands.
    pub name: &'static str,
    /// The name used in sentences.
    pub label: &'static str,
    of: Of,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Of {
    Column(&'static Column),
    /// The status as lists show it.
    Status,
    /// All agents of the run.
    Agents,
    Day,
    Week,
}

/// All of them, in the order of the menu.
pub(crate) static GROUPINGS: [Grouping; 11] = [
    of("day", "day", Of::Day),
    of("week", "week", Of::Week),
    of("model", "model", Of::Column(MODEL)),
    of("status", "status", Of::Status),
    of("stop", "stop reason", Of::Column(STOP)),
    of("writer", "writer", Of::Column(WRITER)),
    of("project", "project", Of::Column(PROJECT)),
    of("task", "task", Of::Column(TASK)),
    of("log", "log", Of::Column(LOG)),
    of("agent", "agent", Of::Agents),
    of("parent", "parent", Of::Column(PARENT)),
];

const fn of(name: &'static str, label: &'static str, of: Of) -> Grouping {
    Grouping { name, label, of }
}

impl Grouping {
    /// Returns the one with this name. In JSON, the writer of a run is its `tool`, so that is accepted too.
    pub(crate) fn find(name: &str) -> Option<&'static Grouping> {
        let name = if name == "tool" { "writer" } else { name };
        GROUPINGS.iter().find(|grouping| grouping.name == name)
    }

    /// Returns all names.
    pub(crate) fn names() -> String {
        let names: Vec<&str> = GROUPINGS.iter().map(|grouping| grouping.name).collect();
        names.join(", ")
    }

    /// Returns whether a group is a run with all its descendants.
    pub(crate) fn is_parent(&self) -> bool {
        self.of == Of::Column(PARENT)
    }

    /// Returns whether a group is a period of time.
    pub(crate) fn is_period(&self) -> bool {
        matches!(self.of, Of::Day | Of::Week)
    }

    /// Returns whether names that differ only in letter case are the same group, as for queries and on
    /// other pages.
    pub(super) fn ignores_case(&self) -> bool {
        self.of == Of::Column(TASK)
    }

    /// Returns whether the run records what it's grouped by.
    pub(crate) fn has(&self, run: &Summary) -> bool {
        match self.of {
            Of::Column(column) => column.is_recorded(run),
            Of::Status => true,
            Of::Agents => !run.agents.is_empty(),
            Of::Day | Of::Week => run.started.is_some(),
        }
    }

    /// Returns the name of the run's group: a text, or the first day of a period. Empty if it isn't
    /// recorded.
    pub(super) fn of<'a>(&self, run: &'a Summary, calendar: &mut Calendar<'_>) -> Cow<'a, str> {
        let mut day = |period: fn(Date) -> Date| {
            let moment = run.started.and_then(|at| calendar.at(at));
            Cow::Owned(moment.map_or_else(String::new, |moment| period(moment.day).to_string()))
        };
        match self.of {
            Of::Column(column) => Cow::Borrowed(column.recorded_text(run)),
            Of::Status if run.partial => Cow::Borrowed(INDEXING),
            Of::Status => Cow::Borrowed(run.shown_status().as_str()),
            Of::Agents => match run.agents.as_slice() {
                [agent] => Cow::Borrowed(agent),
                agents => Cow::Owned(agents.join(", ")),
            },
            Of::Day => day(|day| day),
            Of::Week => day(monday),
        }
    }

    /// Returns where a group belongs in an order by time, in microseconds since the epoch, if it's a
    /// period.
    pub(super) fn micros(&self, name: &str, clock: &Clock) -> Option<f64> {
        let day: Date = name.parse().ok().filter(|_| self.is_period())?;
        let start = day.to_zoned(clock.zone().clone()).ok()?;
        Some(start.timestamp().as_microsecond() as f64)
    }

    /// Returns the terms of a query that select the runs of a group. `None` if no terms select just
    /// these.
    pub(crate) fn terms(&self, name: &str) -> Option<String> {
        let is_value = |field: &Column| format!("{}={}", field.name, Needle::new(name));
        let terms = match self.of {
            Of::Column(field) if name.is_empty() => format!("{}:none", field.name),
            Of::Column(field) if *field == *STOP => format!("{}:{}", field.name, Needle::new(name)),
            Of::Column(field) => is_value(field),
            Of::Status => format!("{}:{}", STATUS.name, Needle::new(name)),
            Of::Agents if name.is_empty() => "agent:none".to_owned(),
            Of::Agents if name.contains(", ") => return None,
            Of::Agents => format!("agent={}", Needle::new(name)),
            Of::Day | Of::Week if name.is_empty() => "started:none".to_owned(),
            Of::Day => format!("started:{name}"),
            Of::Week => {
                let monday: Date = name.parse().ok()?;
                format!("started:{name}..{}", monday.checked_add(6.days()).ok()?)
            }
        };
        // A text may be such that no term is equal to it.
        let query = Query::parse(&terms);
        (query.terms.len() == 1 && query.ignored.is_empty()).then_some(terms)
    }
}
