//! Defines the frame around every page, and how a page learns about changes.

use std::time::{SystemTime, UNIX_EPOCH};

use askama::Template;
use askama::filters::HtmlSafe;
use jiff::tz::TimeZone;

use crate::analysis::columns::INDEXING;
use crate::analysis::format;
use crate::analysis::run_result::ShownStatus;
use crate::analysis::summary::Summary;
use crate::analysis::verdict::RunStatus;
use crate::model::time::Stamp;
use crate::page::part::href;

/// Returns the current time, in microseconds since the epoch.
pub(crate) fn now() -> i64 {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    i64::try_from(since.as_micros()).unwrap_or(i64::MAX)
}

/// The data for the frame around a page's content.
#[derive(Debug, Clone, Default)]
pub(crate) struct Shell {
    /// The text of `<title>`, without the product's name.
    pub title: String,
    /// The watched root as the user typed it.
    pub root: String,
    /// The address of the revision stream, on pages that update live.
    pub stream: Option<String>,
    pub revision: u64,
    /// The boot id of the server that made this page. A page from another boot reloads itself.
    pub boot: String,
    /// Whether the run shown has ended. The indicator then says *Ended* instead of *Live*.
    pub ended: bool,
    /// The item of the main navigation that this page belongs to.
    pub place: NavItem,
}

impl Shell {
    /// Returns the title with hidden characters made visible, because it may contain a directory's
    /// name.
    pub(crate) fn heading(&self) -> crate::page::part::text::Line {
        self.title.as_str().into()
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum NavItem {
    /// The run table.
    Runs,
    /// A page of a single run, below the run table.
    Run,
    Compare,
    Scores,
    WhatIf,
    Edits,
    Usage,
    Overview,
    Failures,
    Experiments,
    /// No item, as on an error page.
    #[default]
    None,
}

impl NavItem {
    /// Returns the value of `aria-current` for the link to `place`.
    pub(crate) fn current(self, place: NavItem) -> Option<&'static str> {
        match self {
            NavItem::Run if place == NavItem::Runs => Some("true"),
            own => (own == place).then_some("page"),
        }
    }

    /// Returns whether the link to this page is in the menu *More*.
    pub(crate) fn is_in_menu(self) -> bool {
        MORE.iter().any(|link| link.place == self)
    }
}

/// A link of the main navigation.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NavLink {
    pub place: NavItem,
    pub label: &'static str,
    /// What the page shows, for the jump box.
    pub note: &'static str,
    pub href: &'static str,
    /// The key that follows `g` to open the page.
    pub go: &'static str,
}

const fn link(
    place: NavItem,
    label: &'static str,
    note: &'static str,
    href: &'static str,
    go: &'static str,
) -> NavLink {
    NavLink {
        place,
        label,
        note,
        href,
        go,
    }
}

/// The links of the bar, in order. The list of shortcuts and the jump box read these tables too.
#[rustfmt::skip]
pub(crate) const NAV: &[NavLink] = &[
    link(NavItem::Overview, "Overview", "what changed, and totals", href::OVERVIEW, "o"),
    link(NavItem::Runs, "Runs", "all runs", "/", "r"),
    link(NavItem::Failures, "Failures", "recurring failures", href::FAILURES, "l"),
    link(NavItem::Usage, "Usage", "tokens and cost", "/usage", "u"),
    link(NavItem::Compare, "Compare", "two runs or more", href::COMPARE, "c"),
    link(NavItem::Experiments, "Experiments", "two sets of runs", "/experiments", "x"),
];

/// The links of the menu *More*.
#[rustfmt::skip]
pub(crate) const MORE: &[NavLink] = &[
    link(NavItem::Scores, "Scores", "of several runs", "/scores", "s"),
    link(NavItem::WhatIf, "What-if", "try other stop rules on recorded runs", "/whatif", "w"),
    link(NavItem::Edits, "Recent edits", "files that agents changed", href::EDITS, "e"),
];

/// The element that fetches changes. When a new revision arrives on the stream, it requests `url`,
/// and the response contains the next pulse and an `<hx-partial>` for each changed part.
///
/// A page includes exactly one. A response without changes is a pulse alone, or status 204.
#[derive(Debug, Clone, Default, Template)]
#[template(path = "part/pulse.html")]
pub(crate) struct Pulse {
    /// The address of the next update. It contains the cursor.
    pub url: String,
    /// The revision of the page that includes this pulse.
    pub revision: u64,
    /// The number of new items since the last pulse; 0 on the page itself.
    pub count: usize,
    /// The singular noun for the items: `step`, `run`.
    pub noun: &'static str,
    /// A sentence for the live region instead of a count: `Run ended: answered at step 5`.
    pub say: Option<String>,
}

impl HtmlSafe for Pulse {}

/// A run's status as a symbol and a word, identical in lists, headers and filters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Template)]
#[template(path = "part/status.html")]
pub(crate) enum Status {
    Of(ShownStatus),
    /// Answered, but the files contradict each other about it.
    Contradicted,
    /// Not read far enough to tell.
    Indexing,
}

impl Status {
    /// Returns the status of a fully read run.
    pub(crate) fn of(run: &Summary) -> Self {
        match run.verdict.mark {
            RunStatus::Answered if !run.verdict.contradictions.is_empty() => Status::Contradicted,
            _ => Status::Of(run.shown_status()),
        }
    }

    pub(crate) fn word(self) -> &'static str {
        match self {
            Status::Of(status) => status.as_str(),
            Status::Contradicted => "finished ?",
            Status::Indexing => INDEXING,
        }
    }

    /// Returns the symbol in the sprite, the class that colors it, and the class that fills its
    /// part of a bar.
    fn look(self) -> (&'static str, &'static str, &'static str) {
        let status = match self {
            Status::Of(status) => status,
            Status::Contradicted => return ("i-doubt", "plain", "f-plain"),
            Status::Indexing => return ("i-dot", "plain", "f-plain"),
        };
        match status {
            // Green and red are for what is recorded.
            ShownStatus::Succeeded => ("i-ok", "ok", "f-ok"),
            ShownStatus::Finished => ("i-disc", "plain", "f-mid"),
            ShownStatus::Unsolved => ("i-failed", "error", "f-err"),
            ShownStatus::Limit => ("i-limit", "limit", "f-warn"),
            ShownStatus::Stopped => ("i-rule", "plain", "f-plain"),
            ShownStatus::Critic => ("i-critic", "critic", "f-stop"),
            ShownStatus::Error => ("i-error", "error", "f-err"),
            ShownStatus::Cancelled => ("i-cancel", "plain", "f-hatch"),
            ShownStatus::Running => ("i-running", "running", "f-plain"),
            ShownStatus::Quiet => ("i-ring", "quiet", "f-plain"),
            ShownStatus::Stalled => ("i-stalled", "stalled", "f-plain"),
            ShownStatus::Died => ("i-died", "died", "f-err"),
            ShownStatus::Unknown => ("i-unknown", "plain", "f-hatch"),
        }
    }

    pub(crate) fn icon(self) -> &'static str {
        self.look().0
    }

    pub(crate) fn class(self) -> &'static str {
        self.look().1
    }

    pub(crate) fn fill(self) -> &'static str {
        self.look().2
    }

    /// Returns the symbol without the word, for places that print the word themselves.
    pub(crate) fn mark(self) -> Shape {
        Shape { status: self }
    }
}

impl HtmlSafe for Status {}

/// The symbol of a [`Status`] without its word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Template)]
#[template(path = "part/mark.html")]
pub(crate) struct Shape {
    status: Status,
}

impl HtmlSafe for Shape {}

/// A moment, in words for people and in RFC 3339 for machines. `clock.js` keeps the words current
/// on live pages.
#[derive(Debug, Clone, PartialEq, Eq, Default, Template)]
#[template(path = "part/when.html")]
pub(crate) struct When {
    /// RFC 3339 with seconds and offset.
    pub iso: String,
    /// The age: `4 s ago`, `22 Feb`.
    pub words: String,
    /// The full local time with its zone.
    pub title: String,
}

impl HtmlSafe for When {}

impl When {
    /// Formats microseconds since the epoch as an age. Returns `None` if the year can't be
    /// represented as a date.
    pub(crate) fn of(micros: i64, now: i64, zone: &TimeZone) -> Option<Self> {
        let clock = format::clock(
            Stamp {
                micros,
                zoned: true,
            },
            zone,
        )?;
        Some(When {
            iso: clock.iso,
            words: format::age(micros, now, zone),
            title: clock.title,
        })
    }
}
