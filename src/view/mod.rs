//! How does it look? Typed pages and fragments over ready values; no axum, no files.
//!
//! Every page and every fragment is one struct with a template of the same name in `templates/`; templates loop,
//! branch and print. Every address is made by [`href`]. All text is escaped by the template engine; only structs of
//! this room count as markup.

use askama::Template;
use askama::filters::HtmlSafe;

pub mod action;
pub mod assets;
pub mod branch;
pub mod chart;
pub mod compare;
pub mod critic;
mod csv;
pub mod decision;
pub mod error;
pub mod export;
pub mod fill;
pub mod fold;
pub mod href;
pub mod job;
pub mod json;
pub mod list;
pub mod prompt;
pub mod replay;
pub mod run;
pub mod runs;
pub mod scores;
pub mod search;
pub mod sign;
pub mod state;
pub mod state_diff;
pub mod step;
pub mod svg;
pub mod sweep;
pub mod tabs;
pub mod text;
pub mod whatif;
pub mod wire;

pub use crate::analysis::format;

/// What every page has around its content.
#[derive(Debug, Clone, Default)]
pub struct Shell {
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
    pub fn heading(&self) -> text::Line {
        self.title.as_str().into()
    }
}

/// A place in the main navigation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Place {
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
    pub fn current(self) -> Option<&'static str> {
        match self {
            Place::Runs => Some("page"),
            Place::Run => Some("true"),
            Place::Compare | Place::Scores | Place::WhatIf | Place::Search | Place::None => None,
        }
    }

    /// The value of `aria-current` on the link to comparisons.
    pub fn current_compare(self) -> Option<&'static str> {
        (self == Place::Compare).then_some("page")
    }

    /// The value of `aria-current` on the link to the scores of several runs.
    pub fn current_scores(self) -> Option<&'static str> {
        (self == Place::Scores).then_some("page")
    }

    /// The value of `aria-current` on the link to other rules over many runs.
    pub fn current_whatif(self) -> Option<&'static str> {
        (self == Place::WhatIf).then_some("page")
    }

    /// The value of `aria-current` on the link to the search of all runs.
    pub fn current_search(self) -> Option<&'static str> {
        (self == Place::Search).then_some("page")
    }
}

/// The element that fetches what changed: a revision on the stream makes it ask `url`, and the answer holds the next
/// pulse and one `<hx-partial>` for each part that changed.
///
/// A page includes exactly one. An answer without news is a pulse alone, or status 204.
#[derive(Debug, Clone, Default, Template)]
#[template(path = "parts/pulse.html")]
pub struct Pulse {
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
#[template(path = "parts/status.html")]
pub enum Status {
    /// The agent gave an answer or met its success criteria.
    Answered,
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
    pub fn word(self) -> &'static str {
        match self {
            Status::Answered => "answered",
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
    pub fn icon(self) -> &'static str {
        match self {
            Status::Answered => "i-ok",
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
    pub fn class(self) -> &'static str {
        match self {
            Status::Answered => "ok",
            Status::Limit => "limit",
            Status::CriticStop => "critic",
            Status::Error => "error",
            Status::Running => "running",
            Status::Quiet => "quiet",
            Status::Stalled => "stalled",
            Status::Died => "died",
            Status::OwnRule | Status::Cancelled | Status::Unknown | Status::Indexing => "plain",
        }
    }

    /// The class that fills its part of a bar.
    pub fn fill(self) -> &'static str {
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
    pub fn mark(self) -> Mark {
        Mark { status: self }
    }
}

impl HtmlSafe for Status {}

/// The shape of a [`Status`] without its word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Template)]
#[template(path = "parts/mark.html")]
pub struct Mark {
    status: Status,
}

impl HtmlSafe for Mark {}

/// A moment: in words for people, exact for machines. `clock.js` keeps the words true while the page is live.
#[derive(Debug, Clone, PartialEq, Eq, Default, Template)]
#[template(path = "parts/when.html")]
pub struct When {
    /// RFC 3339 with seconds and offset.
    pub iso: String,
    /// The age: `4 s ago`, `22 Feb`.
    pub words: String,
    /// The full local time with its zone.
    pub title: String,
}

impl HtmlSafe for When {}

/// A directory that was looked at and is not listed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Skipped {
    /// Its path below the root.
    pub name: String,
    /// Why it is not listed.
    pub reason: String,
}

#[cfg(test)]
mod tests;
