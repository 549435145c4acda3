//! Holds the runs that a query selects, and what the page about them knows.

use std::sync::Arc;
use std::time::Instant;

use jiff::tz::TimeZone;

use crate::analysis::columns::{Kind, Shown as ShownColumn, shown as shown_columns};
use crate::analysis::format;
use crate::analysis::query::{Clock, Query, Sort};
use crate::analysis::select::{
    Grouping, Groups, Selection, Survey, Window, groups, select, survey,
};
use crate::analysis::summary::Summary;
use crate::live::{MirrorStatus, Skipped, SkippedTotal};
use crate::page::part::href;
use crate::page::runs::saved::View;
use crate::page::shell::Pulse;

/// Rows in a window by default.
pub(crate) const WINDOW: usize = 200;
/// Maximum number of rows on a page. More would be slow to draw and to read.
pub(crate) const MAX_ROWS: usize = 1_000;

/// Rows of a group that are shown.
pub(crate) const ROWS: usize = 5;
/// The address of the pulse.
pub(super) const PULSE: &str = "/live/runs";

/// The state of an object store, and when it was taken.
#[derive(Debug, Clone)]
pub(crate) struct Store {
    pub status: MirrorStatus,
    pub read_at: Instant,
}

/// The inputs of the page other than the runs.
#[derive(Debug, Clone)]
pub(crate) struct ListContext {
    pub roots: Vec<Root>,
    /// The roots that are object stores.
    pub stores: Vec<Store>,
    /// Directories with traces of other tools that were detected but not opened.
    pub elsewhere: Vec<(&'static str, String)>,
    pub watch: Watch,
    /// The number of duplicates among the listed runs.
    pub duplicates: usize,
    /// When the roots were last scanned, in microseconds since the epoch.
    pub looked: Option<i64>,
    /// During indexing: the number of runs read so far, and the number of all runs.
    pub indexing: Option<(usize, usize)>,
    /// The current time, in microseconds since the epoch.
    pub now: i64,
    pub zone: TimeZone,
    /// `q`: the query as typed.
    pub query: String,
    pub sort: Sort,
    /// `group`: what to group runs by.
    pub group: Option<&'static Grouping>,
    /// `limit`: the rows in a window.
    pub limit: usize,
    /// `after`: where the previous window ended.
    pub after: Option<String>,
    /// The revision, read before the runs. A change in between is then only sent twice.
    pub revision: u64,
    /// The id of this start of the server.
    pub boot: String,
    /// `since`: the revision that the page shows. Only pulses have it.
    pub since: Option<u64>,
    /// `mark`: the keys of marked runs.
    pub marks: Vec<String>,
    /// `rows`: the rows that the page shows, from the pulse's address. Only pulses have it.
    pub rows: Option<String>,
    /// `columns`: the names of the optional columns that the page shows. Only pulses have it.
    pub columns: String,
    /// `cols`: the columns that the user chose. Empty for the default columns.
    pub chosen: Vec<ShownColumn>,
    /// The saved views.
    pub views: Arc<[View]>,
    /// `marking`: whether the rows have checkboxes, for users without scripts or a mouse.
    pub marking: bool,
}

/// A watched root.
#[derive(Debug, Clone, Default)]
pub(crate) struct Root {
    /// The root as the user typed it.
    pub shown: String,
    /// Why it can't be read: `it does not exist yet`.
    pub fault: Option<String>,
    /// The first skipped files and directories.
    pub skipped: Arc<[Skipped]>,
    /// The numbers of skipped files and directories.
    pub skipped_total: SkippedTotal,
}

/// How board notices changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Watch {
    /// Through notifications of the operating system.
    Native,
    /// By scanning repeatedly, for this reason.
    Poll(String),
    /// Not at the moment, for this reason.
    Stalled(String),
}

/// A run with the revisions at which it changed and was found.
#[derive(Debug, Clone)]
pub(crate) struct Listed {
    pub summary: Arc<Summary>,
    /// The revision at which it last changed.
    pub revision: u64,
    /// The revision at which it was found. No two runs share one.
    pub born: u64,
}

impl AsRef<Summary> for Listed {
    fn as_ref(&self) -> &Summary {
        &self.summary
    }
}

impl ListContext {
    /// Returns the roots as the user typed them.
    pub(crate) fn root(&self) -> String {
        let roots: Vec<_> = self
            .roots
            .iter()
            .map(|root| format::visible_line(&root.shown))
            .collect();
        roots.join(", ")
    }

    /// Returns the address of the list with another query, sort order or window. Omits defaults.
    pub(crate) fn url(&self, query: &str, sort: Sort, after: &str) -> String {
        self.url_by(self.group, query, sort, after)
    }

    /// Returns the address of the list with another grouping, query, sort order or window.
    pub(crate) fn url_by(
        &self,
        group: Option<&Grouping>,
        query: &str,
        sort: Sort,
        after: &str,
    ) -> String {
        self.url_with(self.cols(), group, query, sort, after)
    }

    /// Returns the address of the list with another query and other columns.
    pub(crate) fn url_of_view(&self, query: &str, cols: String) -> String {
        self.url_with(cols, self.group, query, self.sort, "")
    }

    fn url_with(
        &self,
        cols: String,
        group: Option<&Grouping>,
        query: &str,
        sort: Sort,
        after: &str,
    ) -> String {
        let pairs = self.pairs(cols, query, sort, after);
        let mut pairs: Vec<_> = pairs
            .iter()
            .map(|(name, value)| (*name, value.as_str()))
            .collect();
        pairs.push(("group", group.map_or("", |group| group.name)));
        pairs.push(("marking", if self.marking { "1" } else { "" }));
        pairs.extend(self.marks.iter().map(|mark| ("mark", mark.as_str())));
        href::with_query("/", &pairs)
    }

    pub(super) fn pulse_url(&self, rows: &str, columns: &str) -> String {
        let after = self.after.as_deref().unwrap_or_default();
        let pairs = self.pairs(self.cols(), &self.query, self.sort, after);
        let mut pairs: Vec<_> = pairs
            .iter()
            .map(|(name, value)| (*name, value.as_str()))
            .collect();
        let since = self.revision.to_string();
        pairs.extend(self.marks.iter().map(|mark| ("mark", mark.as_str())));
        pairs.push(("group", self.group.map_or("", |group| group.name)));
        pairs.push(("marking", if self.marking { "1" } else { "" }));
        pairs.extend([
            ("since", since.as_str()),
            ("rows", rows),
            ("columns", columns),
        ]);
        href::with_query(PULSE, &pairs)
    }

    /// Returns the names of the chosen columns, in the format of the address.
    pub(crate) fn cols(&self) -> String {
        names(&self.chosen)
    }

    pub(super) fn pairs(
        &self,
        cols: String,
        query: &str,
        sort: Sort,
        after: &str,
    ) -> [(&'static str, String); 5] {
        let unless = |usual: bool, text: String| if usual { String::new() } else { text };
        [
            ("q", query.to_owned()),
            ("sort", unless(sort == Sort::default(), sort.to_string())),
            (
                "limit",
                unless(self.limit == WINDOW, self.limit.to_string()),
            ),
            ("after", after.to_owned()),
            ("cols", cols),
        ]
    }
}

/// Returns the names of columns, in the format of the address.
pub(crate) fn names(columns: &[ShownColumn]) -> String {
    let names = columns.iter().map(|(column, _)| column.name);
    names.collect::<Vec<_>>().join(",")
}

/// The runs that the query selects.
pub(crate) struct List<'a> {
    pub ctx: &'a ListContext,
    pub runs: &'a [Listed],
    pub query: Query,
    pub selection: Selection<'a, Listed>,
    /// The groups, if the runs are grouped. `selection` has the first runs of each.
    pub groups: Option<Groups<'a, Listed>>,
    pub survey: Survey,
    pub columns: Arc<[ShownColumn]>,
}

/// Returns the columns of a table of `rows`.
pub(super) fn columns_of(ctx: &ListContext, rows: &[&Listed]) -> Arc<[ShownColumn]> {
    if ctx.chosen.is_empty() {
        shown_columns(rows, ctx.group.is_some()).into()
    } else {
        ctx.chosen.as_slice().into()
    }
}

/// Returns the names of the optional columns.
pub(super) fn optional(columns: &[ShownColumn]) -> String {
    let names = columns
        .iter()
        .filter(|(_, cell)| cell.optional)
        .map(|(column, _)| column.name);
    names.collect::<Vec<_>>().join(",")
}

impl<'a> List<'a> {
    pub(super) fn new(ctx: &'a ListContext, runs: &'a [Listed]) -> Self {
        let clock = Clock::at(ctx.now, &ctx.zone);
        let query = Query::parse_at(&ctx.query, &clock);
        let after = ctx.after.as_deref();
        let window = Window {
            limit: ctx.limit / ROWS,
            after,
            rows: ROWS,
        };
        let groups = ctx
            .group
            .map(|by| groups(runs, &query, by, ctx.sort, window, &clock));
        let selection = match &groups {
            Some(groups) => groups.selection(),
            None => select(runs, &query, ctx.sort, ctx.limit, after),
        };
        let survey = survey(runs, &query);
        let columns = columns_of(ctx, &selection.rows);
        Self {
            ctx,
            runs,
            query,
            selection,
            groups,
            survey,
            columns,
        }
    }

    /// Returns the title: `Runs (130)`, or with a filter `Runs (12 of 130)`.
    pub(crate) fn title(&self) -> String {
        format!("Runs ({})", self.matched())
    }

    /// Returns whether this is the first window.
    pub(super) fn is_first(&self) -> bool {
        self.ctx.after.is_none() || self.selection.after_ignored
    }

    pub(super) fn pulse_at(&self, url: String, fresh: usize) -> Pulse {
        Pulse {
            url,
            revision: self.ctx.revision,
            count: fresh,
            noun: "run",
            say: None,
        }
    }

    /// Describes the sort order and the grouping: `Runs, newest change first`, `Runs by steps, most
    /// first`.
    pub(crate) fn caption(&self) -> String {
        let group = self
            .ctx
            .group
            .map_or_else(String::new, |by| format!(", grouped by {}", by.label));
        format!("{}{group}", self.in_order())
    }

    fn in_order(&self) -> String {
        let Sort { by, .. } = self.ctx.sort;
        let (largest, smallest) = match by.kind {
            Kind::Time(_) => {
                let end = if self.ctx.sort.is_descending() {
                    "newest"
                } else {
                    "oldest"
                };
                return format!("Runs, {end} {} first", by.label);
            }
            Kind::Word(_) | Kind::Text(_) | Kind::List(_) => ("Z to A", "A to Z"),
            Kind::Score(_) | Kind::Usd(_) => ("highest first", "lowest first"),
            Kind::Millis(_) => ("longest first", "shortest first"),
            Kind::Count(_) | Kind::Flag(_) => ("most first", "fewest first"),
        };
        format!(
            "Runs by {}, {}",
            by.label,
            if self.ctx.sort.is_descending() {
                largest
            } else {
                smallest
            }
        )
    }
}
