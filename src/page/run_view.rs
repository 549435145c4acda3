//! Defines what the pages of a run read: its index, summary, lines, clock and time zone, and the
//! phrases they share.
//!
//! It has no markup and no HTTP, and reads lines only through [`Lines`].

use std::sync::Arc;
use std::time::Duration;

use jiff::tz::TimeZone;

use crate::analysis::format;
use crate::analysis::summary::Summary;
use crate::analysis::timing::Begins;
use crate::analysis::timing::own_start;
use crate::live::{Editor, EditorFile};
use crate::model::time::Stamp;
use crate::model::{Index, Lines, RunKey};
use crate::page::part::href;
use crate::page::part::sign::{Link, Phrase};
use crate::page::part::svg::PhaseClass;
use crate::page::part::text::{Line, one_line};
use crate::page::shell::Status;

/// Longer titles are truncated in the title of a page; characters.
const TITLE_CHARS: usize = 80;
/// Events per page. Each takes about twelve elements.
pub(crate) const EVENTS_PER_PAGE: usize = 50;

/// Returns what pages call a run: its title, shortened.
pub(crate) fn name(summary: &Summary) -> String {
    one_line(summary.title(), TITLE_CHARS).0
}

/// Returns the title of a page about a run: the run without its full stop, and what the page shows.
pub(crate) fn page_title(summary: &Summary, shows: &str) -> String {
    let name = name(summary);
    format!("{}: {shows}", name.trim_end_matches(['.', ':']))
}

/// A view of a run for the pages.
#[derive(Clone, Copy)]
pub(crate) struct RunView<'a> {
    pub summary: &'a Summary,
    pub index: &'a Index,
    pub lines: &'a dyn Lines,
    /// The current time, in microseconds since the epoch.
    pub now: i64,
    /// Why the data isn't being updated, if it isn't.
    pub stale: Option<&'a str>,
    /// Finds the related runs among all known runs.
    pub related_runs: &'a dyn Fn() -> Vec<RelatedRun>,
    /// The time zone for clock times.
    pub zone: &'a TimeZone,
    /// The editor that files are linked to.
    pub editor: Option<&'a Editor>,
    /// Counts the files that the Files tab lists: 0 if it may have other content, `None` if it has
    /// none. May read the lines of the run.
    pub files: &'a dyn Fn() -> Option<u64>,
}

/// A run related to this one.
#[derive(Debug, Clone)]
pub(crate) enum RelatedRun {
    /// Its parent run.
    Parent(RunKey),
    /// A child run.
    Child(Arc<Summary>),
    /// A run that branched from it.
    Branch(Arc<Summary>),
    /// Another segment of the same thread, recorded in a separate file.
    Segment(Arc<Summary>),
}

/// Counts the child runs among the related runs.
pub(crate) fn child_count(related: &[RelatedRun]) -> usize {
    let is_child = |related: &&RelatedRun| matches!(related, RelatedRun::Child(_));
    related.iter().filter(is_child).count()
}

impl std::fmt::Debug for RunView<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RunView")
            .field("run", &self.summary.key)
            .finish_non_exhaustive()
    }
}

impl<'a> RunView<'a> {
    /// Returns a view of a copy of the run without its secrets. It has no related runs, because
    /// their names aren't redacted.
    pub(crate) fn of_copy<'b>(
        &self,
        summary: &'b Summary,
        index: &'b Index,
        lines: &'b dyn Lines,
    ) -> RunView<'b>
    where
        'a: 'b,
    {
        RunView {
            summary,
            index,
            lines,
            related_runs: &Vec::new,
            editor: None,
            files: &|| Some(0),
            ..*self
        }
    }
}

/// The same for a run without a view.
pub(crate) fn is_conversation(summary: &Summary, index: &Index) -> bool {
    index.format().is_conversation() || summary.sample.is_some()
}

impl RunView<'_> {
    pub(crate) fn key(&self) -> &str {
        self.summary.key.as_str()
    }

    /// Returns whether the run is read from top to bottom, as a conversation: a session of a coding
    /// agent, or a sample of an evaluation. Other runs are looked through step by step.
    pub(crate) fn is_conversation(&self) -> bool {
        is_conversation(self.summary, self.index)
    }

    pub(crate) fn status(&self) -> Status {
        Status::of(self.summary)
    }

    /// Whether the run may still write.
    pub(crate) fn is_alive(&self) -> bool {
        self.summary.life.liveness.may_grow()
    }

    /// Explains why there is no step to show, without a trailing period.
    pub(crate) fn no_step(&self) -> &'static str {
        self.summary.no_step(self.index)
    }

    /// Returns the child runs in order of their start. Each has the step whose calls were running
    /// when it started, if the timestamps show one.
    pub(crate) fn children(&self) -> Vec<(Arc<Summary>, Option<usize>)> {
        let children = (self.related_runs)()
            .into_iter()
            .filter_map(|related_runs| match related_runs {
                RelatedRun::Child(summary) => Some(summary),
                RelatedRun::Parent(_) | RelatedRun::Branch(_) | RelatedRun::Segment(_) => None,
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

    /// Returns the number of child runs.
    pub(crate) fn child_count(&self) -> usize {
        child_count(&(self.related_runs)())
    }

    /// Returns the title of a page: the run, the selected `part` if any, and the verdict.
    pub(crate) fn title(&self, part: &str) -> String {
        let part = if part.is_empty() {
            String::new()
        } else {
            format!("{part} · ")
        };
        page_title(
            self.summary,
            &format!("{part}{}", self.summary.verdict.sentence),
        )
    }

    /// Returns what pages call the run: its title, shortened.
    pub(crate) fn name(&self) -> String {
        name(self.summary)
    }

    /// Returns the name with its code.
    pub(crate) fn coded_name(&self) -> Phrase {
        Phrase::coded(&self.name())
    }

    /// Names the sub-agent that made step `n`. Empty if the run's own agent did.
    pub(crate) fn helper(&self, n: usize) -> &str {
        let step = self.index.steps().get(n).filter(|step| step.is_nested);
        match step.map(|step| self.index.name(step.agent)) {
            Some("") => "sub-agent",
            Some(name) => name,
            None => "",
        }
    }

    /// Returns the address of the run page with step `n` selected.
    pub(crate) fn at_step(&self, n: usize) -> String {
        href::run_at(self.key(), n)
    }

    /// Returns the address of the panel for the unfinished step.
    pub(crate) fn at_pending(&self) -> String {
        format!("{}#pending", href::run(self.key()))
    }

    /// Returns the label of step `n`: its recorded id, or else its ordinal.
    pub(crate) fn label(&self, n: usize) -> String {
        self.index.label(n)
    }

    /// Returns the address of event `n`, expanded in the table of events.
    pub(crate) fn at_event(&self, n: usize) -> String {
        let after = (n / EVENTS_PER_PAGE * EVENTS_PER_PAGE).to_string();
        let query = [
            ("tab", "events"),
            ("after", after.as_str()),
            ("open", &n.to_string()),
        ];
        let query = href::with_query(&href::run(self.key()), &query);
        format!("{query}#event-{n}")
    }

    /// Returns the time shown as 0: the start of the run. If the run branched from another, the
    /// copied steps come before it.
    pub(crate) fn zero(&self) -> Option<i64> {
        own_start(self.index).or(self.index.first_ts())
    }

    /// Formats a time as an offset from the start of the run. Times before the first event aren't
    /// plausible, so they yield an empty line.
    pub(crate) fn offset(&self, micros: Option<i64>) -> Line {
        let at = micros.filter(|at| self.index.first_ts().is_some_and(|first| *at >= first));
        at.zip(self.zero())
            .map_or_else(Line::default, |(at, zero)| format::offset(at - zero).into())
    }

    /// Returns a file of the run for addresses that open it in the editor. `None` without an editor,
    /// and for paths that aren't files within the run's working directory now.
    pub(crate) fn in_editor(&self, path: &str) -> Option<EditorFile<'_>> {
        let project = self.summary.project.as_deref()?;
        self.editor?.file(path, project)
    }

    /// Links the first file and line that an error names to the editor: `Open src/a.rs:10`.
    pub(crate) fn error_in_editor(&self, error: &str) -> Option<Link> {
        let project = self.summary.project.as_deref()?;
        let place = self.editor?.place_in(error, project)?;
        Some(Link::new(format!("Open {}", place.words), place.address))
    }

    /// Formats a time in RFC 3339 for `datetime`.
    pub(crate) fn iso(&self, micros: i64) -> String {
        self.clock(micros)
            .map_or_else(String::new, |clock| clock.iso)
    }

    /// Formats a time with its date and zone: `22 Feb 2026, 09:15:02.123 (+01:00)`.
    pub(crate) fn exact(&self, micros: i64) -> String {
        self.clock(micros)
            .map_or_else(String::new, |clock| clock.title)
    }

    /// Formats a time with its date and zone, and in UTC if that's another zone: `22 Feb 2026,
    /// 09:15:02.123 (+01:00) · 08:15:02 UTC`.
    pub(crate) fn with_utc(&self, micros: i64) -> String {
        let stamp = Stamp {
            micros,
            zoned: true,
        };
        let local = self.exact(micros);
        match format::clock(stamp, &TimeZone::UTC) {
            Some(utc) if self.time_of_day(micros) != utc.text => {
                format!("{local} · {} UTC", utc.text)
            }
            _ => local,
        }
    }

    /// Formats the time of day: `09:15:02`.
    pub(crate) fn time_of_day(&self, micros: i64) -> String {
        self.clock(micros)
            .map_or_else(String::new, |clock| clock.text)
    }

    fn clock(&self, micros: i64) -> Option<format::Clock> {
        let zoned = true;
        format::clock(Stamp { micros, zoned }, self.zone)
    }
}

/// Returns the color class and the displayed name of a phase.
pub(crate) fn phase(name: &str) -> (PhaseClass, String) {
    let (class, shown) = match name {
        "OBSERVE" => ("decide", "Observe"),
        "DECIDE" => ("decide", "Decide"),
        "ACT" => ("act", "Act"),
        "REDUCE" => ("reduce", "Reduce"),
        "CRITIC" => ("critic", "Critics"),
        "CHECK_STOP" => ("check", "Check stop"),
        "GATE" => ("check", "Gate"),
        "RECOVER" => ("recover", "Recover"),
        "DECIDE_ERROR" => ("recover", "Decide error"),
        "ACT_ERROR" => ("recover", "Act error"),
        "REDUCE_ERROR" => ("recover", "Reduce error"),
        "COMPACT" => ("plain", "Compact"),
        "" => ("plain", "(no phase)"),
        other => ("plain", other),
    };
    (class, shown.to_owned())
}

pub(crate) fn micros(micros: i64) -> String {
    format::duration(Duration::from_micros(
        u64::try_from(micros).unwrap_or_default(),
    ))
}
