//! What is around every page, and how does a page learn of news?

use askama::Template;
use askama::filters::HtmlSafe;
use jiff::tz::TimeZone;

use crate::analysis::format;
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
    /// The revision this page shows.
    pub revision: u64,
    /// Which start of the server made this page; a page from another start reloads itself.
    pub boot: String,
    /// Whether what this page shows has ended, so that the indicator says *Ended* and not *Live*.
    pub ended: bool,
    /// The place in the main navigation this page belongs to.
    pub place: Place,
}

impl Shell {
    /// The title with nothing hidden in it: it may hold the name of a directory.
    pub(crate) fn heading(&self) -> crate::page::part::text::Line {
        self.title.as_str().into()
    }
}

/// A place in the main navigation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Place {
    /// The run table itself.
    Runs,
    /// A page of one run, below the run table.
    Run,
    /// Runs beside each other.
    Compare,
    /// The scores of several runs over each other.
    Scores,
    /// Other rules over many runs.
    WhatIf,
    /// A text in all runs.
    Search,
    /// None of them, as on an error page.
    #[default]
    None,
}

impl Place {
    /// The value of `aria-current` on the link to the run table.
    pub(crate) fn current(self) -> Option<&'static str> {
        match self {
            Place::Runs => Some("page"),
            Place::Run => Some("true"),
            Place::Compare | Place::Scores | Place::WhatIf | Place::Search | Place::None => None,
        }
    }

    /// The value of `aria-current` on the link to comparisons.
    pub(crate) fn current_compare(self) -> Option<&'static str> {
        (self == Place::Compare).then_some("page")
    }

    /// The value of `aria-current` on the link to the scores of several runs.
    pub(crate) fn current_scores(self) -> Option<&'static str> {
        (self == Place::Scores).then_some("page")
    }

    /// The value of `aria-current` on the link to other rules over many runs.
    pub(crate) fn current_whatif(self) -> Option<&'static str> {
        (self == Place::WhatIf).then_some("page")
    }

    /// The value of `aria-current` on the link to the search of all runs.
    pub(crate) fn current_search(self) -> Option<&'static str> {
        (self == Place::Search).then_some("page")
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
    /// The agent gave an answer or met its success criteria.
    Answered,
    /// The same, and the files contradict each other about it.
    Contradicted,
    /// A budget, the step limit, the context window or stagnation ended it.
    Limit,
    /// A condition of the agent or of its environment ended it.
    OwnRule,
    /// A critic stopped it.
    CriticStop,
    /// An error ended it, or it never started.
    Error,
    /// Cancelled or interrupted.
    Cancelled,
    /// Being written now.
    Running,
    /// Alive, with nothing new for a while.
    Quiet,
    /// Silent for longer than its slowest step explains.
    Stalled,
    /// Its process is gone and nothing says that it ended.
    Died,
    /// Ended with a label the board does not know, or without one.
    Unknown,
    /// Not read far enough to say.
    Indexing,
}

impl Status {
    /// The word in the status column.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Status::Answered => "answered",
            Status::Contradicted => "answered ?",
            Status::Limit => "limit",
            Status::OwnRule => "own rule",
            Status::CriticStop => "critic stop",
            Status::Error => "error",
            Status::Cancelled => "cancelled",
            Status::Running => "running",
            Status::Quiet => "quiet",
            Status::Stalled => "stalled",
            Status::Died => "died",
            Status::Unknown => "unknown",
            Status::Indexing => "indexing",
        }
    }

    /// The symbol in the sprite.
    pub(crate) fn icon(self) -> &'static str {
        match self {
            Status::Answered => "i-ok",
            Status::Contradicted => "i-doubt",
            Status::Limit => "i-limit",
            Status::OwnRule => "i-rule",
            Status::CriticStop => "i-critic",
            Status::Error => "i-error",
            Status::Cancelled => "i-cancel",
            Status::Running => "i-running",
            Status::Quiet => "i-ring",
            Status::Stalled => "i-stalled",
            Status::Died => "i-died",
            Status::Unknown => "i-unknown",
            Status::Indexing => "i-dot",
        }
    }

    /// The class that colours the symbol.
    pub(crate) fn class(self) -> &'static str {
        match self {
            Status::Answered => "ok",
            Status::Limit => "limit",
            Status::CriticStop => "critic",
            Status::Error => "error",
            Status::Running => "running",
            Status::Quiet => "quiet",
            Status::Stalled => "stalled",
            Status::Died => "died",
            Status::Contradicted | Status::OwnRule | Status::Cancelled | Status::Unknown | Status::Indexing => "plain",
        }
    }

    /// The class that fills its part of a bar.
    pub(crate) fn fill(self) -> &'static str {
        match self {
            Status::Answered => "f-ok",
            Status::Limit => "f-warn",
            Status::CriticStop => "f-stop",
            Status::Error | Status::Died => "f-err",
            Status::Cancelled => "f-hatch",
            _ => "f-plain",
        }
    }

    /// The shape without the word, for places that say the word themselves.
    pub(crate) fn mark(self) -> Mark {
        Mark { status: self }
    }
}

impl HtmlSafe for Status {}

/// The shape of a [`Status`] without its word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Template)]
#[template(path = "part/mark.html")]
pub(crate) struct Mark {
    status: Status,
}

impl HtmlSafe for Mark {}

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
        let clock = format::clock(Stamp { micros, zoned: true }, zone)?;
        Some(When { iso: clock.iso, words: format::age(micros, now, zone), title: clock.title })
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
