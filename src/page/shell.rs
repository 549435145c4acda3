//! What is around every page, and how does a page learn of news?

use askama::Template;
use askama::filters::HtmlSafe;
use jiff::tz::TimeZone;

use crate::analysis::columns::INDEXING;
use crate::analysis::format;
use crate::analysis::summary::Summary;
use crate::analysis::verdict::RunStatus;
use crate::model::time::Stamp;

/// What every page has around its content.
#[derive(Debug, Clone, Default)]
pub(crate) struct Shell {
    /// The words of `<title>`, without the product's name.
    pub title: String,
    /// The watched root as the person typed it.
    pub root: String,
    /// The address of the revision stream, on pages that live.
    pub stream: Option<String>,
    pub revision: u64,
    /// Which start of the server made this page; a page from another start reloads itself.
    pub boot: String,
    /// Whether what this page shows has ended, so that the indicator says *Ended* and not *Live*.
    pub ended: bool,
    /// The place in the main navigation this page belongs to.
    pub place: NavItem,
}

impl Shell {
    /// The title with nothing hidden in it: it may hold the name of a directory.
    pub(crate) fn heading(&self) -> crate::page::part::text::Line {
        self.title.as_str().into()
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum NavItem {
    /// The run table itself.
    Runs,
    /// A page of one run, below the run table.
    Run,
    Compare,
    Scores,
    WhatIf,
    Search,
    /// None of them, as on an error page.
    #[default]
    None,
}

impl NavItem {
    /// The value of `aria-current` on the link to `place`.
    pub(crate) fn current(self, place: NavItem) -> Option<&'static str> {
        match self {
            NavItem::Run if place == NavItem::Runs => Some("true"),
            own => (own == place).then_some("page"),
        }
    }
}

/// The element that fetches what changed: a revision on the stream makes it ask `url`, and the answer holds the next
/// pulse and one `<hx-partial>` for each part that changed.
///
/// A page includes exactly one. An answer without news is a pulse alone, or status 204.
#[derive(Debug, Clone, Default, Template)]
#[template(path = "part/pulse.html")]
pub(crate) struct Pulse {
    /// Where the next news is; holds the cursor.
    pub url: String,
    /// The revision the page shows with this pulse in it.
    pub revision: u64,
    /// How many things are new since the last pulse; 0 on the page itself.
    pub count: usize,
    /// What they are, in the singular: `step`, `run`.
    pub noun: &'static str,
    /// A sentence for the live region that is not a count: `Run ended: answered at step 5`.
    pub say: Option<String>,
}

impl HtmlSafe for Pulse {}

/// How a run stands, as a shape and a word; the same in lists, headers and filters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Template)]
#[template(path = "part/status.html")]
pub(crate) enum Status {
    Of(RunStatus),
    /// Answered, and the files contradict each other about it.
    Contradicted,
    /// Not read far enough to say.
    Indexing,
}

impl Status {
    /// The status of a run that is read to its end.
    pub(crate) fn of(run: &Summary) -> Self {
        match run.verdict.mark {
            RunStatus::Answered if !run.verdict.contradictions.is_empty() => Status::Contradicted,
            mark => Status::Of(mark),
        }
    }

    pub(crate) fn word(self) -> &'static str {
        match self {
            Status::Of(mark) => mark.word(),
            Status::Contradicted => "answered ?",
            Status::Indexing => INDEXING,
        }
    }

    /// The symbol in the sprite, the class that colours it, and the class that fills its part of a bar.
    fn look(self) -> (&'static str, &'static str, &'static str) {
        let mark = match self {
            Status::Of(mark) => mark,
            Status::Contradicted => return ("i-doubt", "plain", "f-plain"),
            Status::Indexing => return ("i-dot", "plain", "f-plain"),
        };
        match mark {
            RunStatus::Answered => ("i-ok", "ok", "f-ok"),
            RunStatus::Limit => ("i-limit", "limit", "f-warn"),
            RunStatus::OwnRule => ("i-rule", "plain", "f-plain"),
            RunStatus::Critic => ("i-critic", "critic", "f-stop"),
            RunStatus::Error => ("i-error", "error", "f-err"),
            RunStatus::Cancelled => ("i-cancel", "plain", "f-hatch"),
            RunStatus::Running => ("i-running", "running", "f-plain"),
            RunStatus::Quiet => ("i-ring", "quiet", "f-plain"),
            RunStatus::Stalled => ("i-stalled", "stalled", "f-plain"),
            RunStatus::Died => ("i-died", "died", "f-err"),
            RunStatus::Unknown => ("i-unknown", "plain", "f-plain"),
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

    /// The shape without the word, for places that say the word themselves.
    pub(crate) fn mark(self) -> Shape {
        Shape { status: self }
    }
}

impl HtmlSafe for Status {}

/// The shape of a [`Status`] without its word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Template)]
#[template(path = "part/mark.html")]
pub(crate) struct Shape {
    status: Status,
}

impl HtmlSafe for Shape {}

/// A moment: in words for people, exact for machines. `clock.js` keeps the words true while the page is live.
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
    /// A moment in microseconds since the epoch, as an age; `None` outside the years that have dates.
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

/// A directory that was looked at and is not listed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Skipped {
    /// Its path below the root.
    pub name: String,
    /// Why it is not listed.
    pub reason: String,
}
