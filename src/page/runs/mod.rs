//! Shows the run table: the page at `/`, its parts, and the response to its pulse.
//!
//! The templates call methods of the list. A row holds the facts of its run and the columns of the
//! table.

pub(crate) mod api;
pub(crate) mod csv;
pub(crate) mod fill;
pub(crate) mod handler;
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

/// The page below the bar (`#runs`): the table and its controls, or the reason why there is no
/// table.
#[derive(Template)]
#[template(path = "runs/runs_body.html")]
pub(crate) struct RunsBody<'a> {
    pub list: Rc<List<'a>>,
    /// One window of rows. Empty if the runs are grouped.
    pub rows: Vec<Row<'a>>,
    /// One window of groups.
    pub groups: Vec<GroupRows<'a>>,
}

impl HtmlSafe for RunsBody<'_> {}

/// The response to the pulse of the page at `/`.
#[derive(Template)]
#[template(path = "runs/runs_pulse.html")]
pub(crate) struct RunsPulse<'a> {
    pub pulse: Pulse,
    pub list: Rc<List<'a>>,
    pub update: RunsUpdate<'a>,
}

pub(crate) enum RunsUpdate<'a> {
    /// The page shows none of the changes.
    Nothing,
    /// The whole body, because the kind of page changed: the first run appeared, the last one
    /// vanished, or the filter started or stopped matching any runs.
    Whole(RunsBody<'a>),
    /// Single rows, and the totals.
    Parts(RunsParts<'a>),
}

pub(crate) struct RunsParts<'a> {
    /// Changed rows of the page, which are replaced in place.
    pub changed: Vec<Row<'a>>,
    /// New rows for the top of the table, in display order.
    pub fresh: Vec<Row<'a>>,
    /// Element ids (`href::run_id`) of rows to remove.
    pub gone: Vec<String>,
    /// The number of rows on the page after the update.
    pub rows: usize,
}

#[derive(Debug)]
pub(crate) struct Facet {
    pub name: &'static str,
    /// The filters that are always shown.
    pub chips: Vec<Chip>,
    /// The filters behind `n more`.
    pub more: Vec<Chip>,
}

impl Facet {
    /// Summarises the active filters, for places that show nothing else.
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

/// One filter: a link that adds its term to the query, or removes it.
#[derive(Debug, Template)]
#[template(path = "runs/chip.html")]
pub(crate) struct Chip {
    pub label: String,
    /// The number of matching runs, if the filter excludes any.
    pub count: Option<usize>,
    pub href: String,
    /// Whether the query has the term.
    pub active: bool,
    pub status: Option<Status>,
}

impl HtmlSafe for Chip {}

impl Chip {
    fn count(&self) -> Option<String> {
        self.count.map(|number| count(number as u64))
    }
}
