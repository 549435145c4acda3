//! What does the run table look like? The page at `/`, its parts, and the answer to its pulse.
//!
//! The templates ask the list; a row holds the facts of its run and the columns of the table.

pub(crate) mod api;
pub(crate) mod fill;
pub(crate) mod handler;
pub(crate) mod json;
pub(crate) mod named;

use std::rc::Rc;

use askama::Template;
use askama::filters::HtmlSafe;

use crate::analysis::format::{self, count};
use crate::page::part::href;
use crate::page::runs::fill::List;
use crate::page::runs::fill::group::GroupRows;
use crate::page::runs::fill::row::{Row, class, line};
use crate::page::shell::{Pulse, Shell, Status};

/// The page at `/`.
#[derive(Template)]
#[template(path = "runs/page.html")]
pub(crate) struct RunsPage<'a> {
    pub shell: Shell,
    pub pulse: Pulse,
    pub body: RunsBody<'a>,
}

/// What the page shows below the bar, `#runs`: the table with all that belongs to it, or why there is none.
#[derive(Template)]
#[template(path = "runs/runs_body.html")]
pub(crate) struct RunsBody<'a> {
    pub list: Rc<List<'a>>,
    /// One window of rows; none where they stand in groups.
    pub rows: Vec<Row<'a>>,
    /// One window of groups.
    pub groups: Vec<GroupRows<'a>>,
}

impl HtmlSafe for RunsBody<'_> {}

/// The answer to the pulse of the page at `/`.
#[derive(Template)]
#[template(path = "runs/runs_pulse.html")]
pub(crate) struct RunsPulse<'a> {
    pub pulse: Pulse,
    pub list: Rc<List<'a>>,
    pub news: RunsNews<'a>,
}

pub(crate) enum RunsNews<'a> {
    /// Nothing that this page shows.
    Nothing,
    /// The kind of page: the first run came, the last one went, a filter began or ceased to match.
    Whole(RunsBody<'a>),
    /// Single rows and the numbers about all of them.
    Parts(RunsParts<'a>),
}

pub(crate) struct RunsParts<'a> {
    /// Rows that are on the page and changed; each is replaced where it is.
    pub changed: Vec<Row<'a>>,
    /// Rows that go on top, in the order in which they are shown.
    pub fresh: Vec<Row<'a>>,
    /// Element ids (`href::run_id`) of rows that go.
    pub gone: Vec<String>,
    /// How many the page has then.
    pub rows: usize,
}

#[derive(Debug)]
pub(crate) struct Facet {
    pub name: &'static str,
    /// What is always shown.
    pub chips: Vec<Chip>,
    /// What is behind `n more`.
    pub more: Vec<Chip>,
}

impl Facet {
    /// What of it is on, for a place that shows no more.
    fn chosen(&self) -> String {
        let on: Vec<&str> = self
            .chips
            .iter()
            .chain(&self.more)
            .filter(|chip| chip.active)
            .map(|chip| &*chip.label)
            .collect();
        if on.is_empty() {
            "any".to_owned()
        } else {
            on.join(", ")
        }
    }
}

/// One filter: a link that adds its term to the query, or takes it away.
#[derive(Debug, Template)]
#[template(path = "runs/chip.html")]
pub(crate) struct Chip {
    pub label: String,
    /// How many runs it would leave, where it leaves some out.
    pub count: Option<usize>,
    pub href: String,
    /// Whether it is part of the query.
    pub active: bool,
    pub status: Option<Status>,
}

impl HtmlSafe for Chip {}

impl Chip {
    fn count(&self) -> Option<String> {
        self.count.map(|number| count(number as u64))
    }
}
