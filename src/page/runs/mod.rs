//! What does the run table look like? The page at `/`, its parts, and the answer to its pulse.
//!
//! A row holds the facts of its run and the columns of the table; the numbers about all runs are ready words.

pub(crate) mod api;
pub(crate) mod fill;
pub(crate) mod handler;
pub(crate) mod json;

use askama::Template;
use askama::filters::HtmlSafe;

use crate::analysis::columns::Cell;
use crate::page::part::chart::Segment;
use crate::page::runs::fill::row::{Row, class};
use crate::page::shell::{Pulse, Shell, Skipped, Status, When};

/// The page at `/`.
#[derive(Debug, Clone, Template)]
#[template(path = "runs/page.html")]
pub(crate) struct RunsPage<'a> {
    /// What is around it.
    pub shell: Shell,
    /// Fetches what changed.
    pub pulse: Pulse,
    /// What is on it.
    pub body: RunsBody<'a>,
}

/// What the page shows below the bar.
#[derive(Debug, Clone, Template)]
#[template(path = "runs/runs_body.html")]
pub(crate) enum RunsBody<'a> {
    /// No run is known.
    Empty(Box<EmptyRoot>),
    /// Runs are known, though a filter may match none.
    Table(Box<RunsTable<'a>>),
}

impl HtmlSafe for RunsBody<'_> {}

/// The answer to the pulse of the page at `/`.
#[derive(Debug, Clone, Template)]
#[template(path = "runs/runs_pulse.html")]
pub(crate) struct RunsPulse<'a> {
    /// The next pulse.
    pub pulse: Pulse,
    /// The new words of `<title>`, without the product's name.
    pub title: String,
    /// What changed.
    pub news: RunsNews<'a>,
}

/// What changed in the run table.
#[derive(Debug, Clone)]
pub(crate) enum RunsNews<'a> {
    /// Nothing that this page shows.
    Nothing,
    /// The kind of page: the first run came, the last one went, a filter began or ceased to match.
    Whole(RunsBody<'a>),
    /// Single rows and the numbers about all of them.
    Parts(Box<RunsParts<'a>>),
}

/// Single rows and the numbers about all of them.
#[derive(Debug, Clone, Default)]
pub(crate) struct RunsParts<'a> {
    /// Rows that are on the page and changed; each is replaced where it is.
    pub changed: Vec<Row<'a>>,
    /// Rows that go on top, in the order in which they are shown.
    pub fresh: Vec<Row<'a>>,
    /// Element ids (`href::run_id`) of rows that go.
    pub gone: Vec<String>,
    /// The line under the bar.
    pub head: RunsHead,
    /// The summary.
    pub strip: Strip,
    /// The filters with their counts.
    pub facets: Facets,
    /// The line below the table.
    pub foot: RunsFoot,
}

/// The run table with all that belongs to it.
#[derive(Debug, Clone, Default)]
pub(crate) struct RunsTable<'a> {
    /// The line under the bar.
    pub head: RunsHead,
    /// The summary of the runs that match.
    pub strip: Strip,
    /// The search box.
    pub search: Search,
    /// The filters with their counts.
    pub facets: Facets,
    /// What the table is, for those who do not see it: `Runs, newest change first`.
    pub caption: String,
    /// The head cells.
    pub columns: Vec<Head>,
    /// One window of rows.
    pub rows: Vec<Row<'a>>,
    /// Shown in place of the table where the filter matches nothing.
    pub no_match: Option<NoMatch>,
    /// The marked runs.
    pub tray: Tray,
    /// The line below the table.
    pub foot: RunsFoot,
}

/// The marked runs.
#[derive(Debug, Clone, Default)]
pub(crate) struct Tray {
    /// Their keys.
    pub marks: Vec<String>,
    /// Whether there are none.
    pub none: bool,
    /// `2 marked`.
    pub count: String,
    /// Their names in a row.
    pub names: String,
    /// Those that have no row in this table.
    pub elsewhere: Vec<String>,
    /// The list without marks.
    pub clear: String,
}

/// The title line of the run table.
#[derive(Debug, Clone, Default, Template)]
#[template(path = "runs/runs_head.html")]
pub(crate) struct RunsHead {
    /// `130 in`, followed by the root; with a filter `12 of 130 in`.
    pub count: String,
    /// The root as the person typed it.
    pub root: String,
    /// More counts: `1 running`, `1 stalled`.
    pub counts: Vec<String>,
    /// The newest change.
    pub changed: Option<When>,
    /// While the first look goes on: `indexing 120 of 2,000`.
    pub indexing: Option<String>,
}

impl HtmlSafe for RunsHead {}

/// The summary of the runs that match.
#[derive(Debug, Clone, Default, Template)]
#[template(path = "runs/runs_strip.html")]
pub(crate) struct Strip {
    /// Of what: `Summary of 130 runs`.
    pub label: String,
    /// The share that answered: `60 %`, or `–` where none has ended.
    pub answered: String,
    /// Of how many: `78 of 128 ended`.
    pub of: String,
    /// `3 of them disagree with success`, with the list of them.
    pub note: Option<(String, String)>,
    /// The stop-reason bar, from `chart::stack`. Live runs are not part of it.
    pub segments: Vec<Segment>,
    /// What stands in its place where it has no parts.
    pub nothing: &'static str,
    /// The classes below the bar.
    pub legend: Vec<Chip>,
    /// Medians as term and value: `median steps`, `4`.
    pub medians: Vec<(&'static str, String)>,
}

impl HtmlSafe for Strip {}

/// The search box.
#[derive(Debug, Clone, Default)]
pub(crate) struct Search {
    /// The query as typed.
    pub query: String,
    /// The order to keep, if it is not the default.
    pub sort: Option<String>,
    /// Where the list is without a query; `None` where there is no query.
    pub clear: Option<String>,
    /// Terms that were not understood, with one line each on what was expected. The other terms filter.
    pub ignored: Vec<(String, String)>,
}

/// The groups of filters.
#[derive(Debug, Clone, Default, Template)]
#[template(path = "runs/runs_facets.html")]
pub(crate) struct Facets {
    /// `Status`, `Stop reason`, `Model`.
    pub groups: Vec<Facet>,
}

impl HtmlSafe for Facets {}

/// One group of filters.
#[derive(Debug, Clone)]
pub(crate) struct Facet {
    /// Its name.
    pub name: &'static str,
    /// What is always shown.
    pub chips: Vec<Chip>,
    /// What is behind `n more`.
    pub more: Vec<Chip>,
}

/// One filter: a link that adds its term to the query, or takes it away.
#[derive(Debug, Clone, Template)]
#[template(path = "runs/chip.html")]
pub(crate) struct Chip {
    /// Its words.
    pub label: String,
    /// How many runs it would leave.
    pub count: String,
    /// The list with this filter toggled.
    pub href: String,
    /// Whether it is part of the query.
    pub active: bool,
    /// The shape before the words.
    pub status: Option<Status>,
}

impl HtmlSafe for Chip {}

/// A head cell of the run table.
#[derive(Debug, Clone)]
pub(crate) struct Head {
    /// The words and the width.
    pub cell: Cell,
    /// The list in this order, or in reverse; `None` where one cannot sort by it.
    pub href: Option<String>,
    /// Whether the table is in this order now, and if so whether the largest value comes first.
    pub descending: Option<bool>,
}

impl Head {
    fn class(&self) -> &'static str {
        class(self.cell.width)
    }
}

/// A filter that matches nothing.
#[derive(Debug, Clone, Default)]
pub(crate) struct NoMatch {
    /// The query as typed.
    pub query: String,
    /// What would be there without one of the terms.
    pub drops: Vec<Without>,
    /// The list without a filter.
    pub all: String,
}

/// A term that could go, and what is there without it.
#[derive(Debug, Clone)]
pub(crate) struct Without {
    /// The term.
    pub term: String,
    /// What that would leave: `12 runs`.
    pub count: String,
    /// The list without it.
    pub href: String,
}

/// The line below the table.
#[derive(Debug, Clone, Default, Template)]
#[template(path = "runs/runs_foot.html")]
pub(crate) struct RunsFoot {
    /// `Showing 200 of 2,000`.
    pub showing: String,
    /// All runs that match, as CSV.
    pub csv: String,
    /// The first window, on later ones.
    pub first: Option<String>,
    /// `Show 200 more` and its address.
    pub more: Option<(String, String)>,
    /// How changes are noticed: `watching with file notifications`.
    pub watch: String,
    /// The last full look.
    pub looked: Option<When>,
    /// `2 directories skipped`.
    pub skipped_label: String,
    /// Directories that are not listed.
    pub skipped: Vec<Skipped>,
}

impl HtmlSafe for RunsFoot {}

/// A root without runs.
#[derive(Debug, Clone, Default)]
pub(crate) struct EmptyRoot {
    /// The root as the person typed it.
    pub root: String,
    /// What is wrong with it, if it is not merely empty: `./runs does not exist yet`.
    pub trouble: Option<String>,
    /// The last full look.
    pub looked: Option<When>,
    /// What it found: `3 directories, none of them a run`.
    pub found: String,
    /// How changes are noticed.
    pub watch: String,
    /// Directories that are not listed.
    pub skipped: Vec<Skipped>,
}
