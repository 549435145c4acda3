//! Builds the page at `/` and the responses to its pulse from a list of runs.
//!
//! Pure: the caller provides the runs, the time and the state of the watcher. Must not know
//! requests or the store of the runs.

use std::rc::Rc;
use std::sync::Arc;

use jiff::tz::TimeZone;

use crate::analysis::columns::{Column, Kind, Shown as ShownColumn, shown as shown_columns};
use crate::analysis::format;
use crate::analysis::query::{Query, Sort};
use crate::analysis::select::{Groups, Selection, Survey, Window, groups, select, survey};
use crate::analysis::summary::Summary;
use crate::live::SkippedTotal;
use crate::page::part::href;
use crate::page::runs::fill::row::Row;
use crate::page::runs::fill::shown::Shown;
use crate::page::runs::fill::stores::Store;
use crate::page::runs::{RunsBody, RunsPage, RunsParts, RunsPulse, RunsUpdate};
use crate::page::shell::{NavItem, Pulse, Shell, Skipped};

pub(crate) mod about;
pub(crate) mod filters;
pub(crate) mod group;
pub(crate) mod row;
pub(crate) mod shown;
pub(crate) mod stores;
#[cfg(test)]
mod tests;

/// Rows in a window by default.
pub(crate) const WINDOW: usize = 200;
/// Rows on a page, at most. More would be slow to draw and to read.
pub(crate) const MAX_ROWS: usize = 1_000;

/// The address of the revision stream.
const STREAM: &str = "/events";
/// The address of the pulse.
const PULSE: &str = "/live/runs";

/// The inputs of the page other than the runs.
#[derive(Debug, Clone)]
pub(crate) struct ListContext {
    pub roots: Vec<Root>,
    /// The roots that are object stores.
    pub stores: Vec<Store>,
    /// Directories with traces of other tools that were detected but not opened.
    pub elsewhere: Vec<(&'static str, String)>,
    pub watch: Watch,
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
    /// `group`: the column to group runs by.
    pub group: Option<&'static Column>,
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
}

/// A watched root.
#[derive(Debug, Clone, Default)]
pub(crate) struct Root {
    /// The root as the user typed it.
    pub shown: String,
    /// Why it can't be read: `it does not exist yet`.
    pub fault: Option<String>,
    /// The first skipped files and directories.
    pub skipped: Vec<Skipped>,
    /// The numbers of skipped files and directories.
    pub skipped_total: SkippedTotal,
}

/// How the board notices changes.
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

/// Returns the page at `/`.
pub(crate) fn page<'a>(ctx: &'a ListContext, runs: &'a [Listed]) -> RunsPage<'a> {
    let list = Rc::new(List::new(ctx, runs));
    let shell = Shell {
        title: list.title(),
        root: ctx.root(),
        stream: Some(STREAM.to_owned()),
        revision: ctx.revision,
        boot: ctx.boot.clone(),
        ended: false,
        place: NavItem::Runs,
    };
    let rows = list.shown();
    RunsPage {
        shell,
        pulse: list.pulse(&rows, &list.columns, 0),
        body: list.body(|_| false),
    }
}

/// Returns the response to the page's pulse: the changes since the revision `ctx.since`.
///
/// The pulse's address names the rows that the page shows. If possible, only single rows are
/// replaced, added or removed. Otherwise the whole body is sent, and the page keeps the parts that
/// are equal. That happens if a run vanished, if a run appeared while the table isn't sorted by
/// change, or if nothing matches any more.
pub(crate) fn pulse<'a>(ctx: &'a ListContext, runs: &'a [Listed]) -> RunsPulse<'a> {
    let list = Rc::new(List::new(ctx, runs));
    let shown = ctx.rows.as_deref().and_then(Shown::parse);
    let since = ctx.since.unwrap_or(0);
    let (pulse, update) = match shown {
        Some(_) if since == ctx.revision => {
            let url = ctx.pulse_url(ctx.rows.as_deref().unwrap_or_default(), &ctx.columns);
            (list.pulse_at(url, 0), RunsUpdate::Nothing)
        }
        shown => shown
            .and_then(|shown| list.parts(since, &shown))
            .unwrap_or_else(|| list.whole(since)),
    };
    RunsPulse {
        pulse,
        list,
        update,
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
        group: Option<&Column>,
        query: &str,
        sort: Sort,
        after: &str,
    ) -> String {
        let pairs = self.pairs(query, sort, after);
        let mut pairs: Vec<_> = pairs
            .iter()
            .map(|(name, value)| (*name, value.as_str()))
            .collect();
        pairs.push(("group", group.map_or("", |group| group.name)));
        pairs.extend(self.marks.iter().map(|mark| ("mark", mark.as_str())));
        href::with_query("/", &pairs)
    }

    fn pulse_url(&self, rows: &str, columns: &str) -> String {
        let after = self.after.as_deref().unwrap_or_default();
        let pairs = self.pairs(&self.query, self.sort, after);
        let mut pairs: Vec<_> = pairs
            .iter()
            .map(|(name, value)| (*name, value.as_str()))
            .collect();
        let since = self.revision.to_string();
        pairs.extend(self.marks.iter().map(|mark| ("mark", mark.as_str())));
        pairs.push(("group", self.group.map_or("", |group| group.name)));
        pairs.extend([
            ("since", since.as_str()),
            ("rows", rows),
            ("columns", columns),
        ]);
        href::with_query(PULSE, &pairs)
    }

    /// Returns the names of the chosen columns, in the format of the address.
    pub(crate) fn cols(&self) -> String {
        self.chosen
            .iter()
            .map(|(column, _)| column.name)
            .collect::<Vec<_>>()
            .join(",")
    }

    fn pairs(&self, query: &str, sort: Sort, after: &str) -> [(&'static str, String); 5] {
        let unless = |usual: bool, text: String| if usual { String::new() } else { text };
        [
            ("q", query.to_owned()),
            ("sort", unless(sort == Sort::default(), sort.to_string())),
            (
                "limit",
                unless(self.limit == WINDOW, self.limit.to_string()),
            ),
            ("after", after.to_owned()),
            ("cols", self.cols()),
        ]
    }
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
fn columns_of(ctx: &ListContext, rows: &[&Listed]) -> Arc<[ShownColumn]> {
    if ctx.chosen.is_empty() {
        shown_columns(rows).into()
    } else {
        ctx.chosen.as_slice().into()
    }
}

/// Returns the names of the optional columns.
fn optional(columns: &[ShownColumn]) -> String {
    let names = columns
        .iter()
        .filter(|(_, cell)| cell.optional)
        .map(|(column, _)| column.name);
    names.collect::<Vec<_>>().join(",")
}

impl<'a> List<'a> {
    fn new(ctx: &'a ListContext, runs: &'a [Listed]) -> Self {
        let query = Query::parse(&ctx.query);
        let after = ctx.after.as_deref();
        let window = Window {
            limit: ctx.limit / group::ROWS,
            after,
            rows: group::ROWS,
        };
        let groups = ctx
            .group
            .map(|by| groups(runs, &query, by, ctx.sort, window));
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
    fn is_first(&self) -> bool {
        self.ctx.after.is_none() || self.selection.after_ignored
    }

    /// Returns the rows that the page shows, for its pulse. Empty for groups, where a change of one
    /// run affects more than its row.
    fn shown(&self) -> String {
        if self.groups.is_some() {
            String::new()
        } else {
            shown::write(&self.selection.rows, self.runs)
        }
    }

    /// Returns the pulse of a page that shows `rows`, in the format of [`shown::write()`], and
    /// `columns`.
    fn pulse(&self, rows: &str, columns: &[ShownColumn], fresh: usize) -> Pulse {
        self.pulse_at(self.ctx.pulse_url(rows, &optional(columns)), fresh)
    }

    fn pulse_at(&self, url: String, fresh: usize) -> Pulse {
        Pulse {
            url,
            revision: self.ctx.revision,
            count: fresh,
            noun: "run",
            say: None,
        }
    }

    fn body(self: &Rc<Self>, is_new: impl Fn(&Listed) -> bool) -> RunsBody<'a> {
        let groups = self.group_rows(&is_new);
        let rows = self.selection.rows.iter().filter(|_| self.groups.is_none());
        RunsBody {
            list: Rc::clone(self),
            rows: rows
                .map(|listed| self.row(listed, &self.columns, is_new(listed)))
                .collect(),
            groups,
        }
    }

    /// Returns the row of `listed`. `is_new` highlights it as changed.
    fn row(&self, listed: &'a Listed, columns: &Arc<[ShownColumn]>, is_new: bool) -> Row<'a> {
        let (run, ctx) = (&*listed.summary, self.ctx);
        let marked = ctx.marks.iter().any(|mark| mark == run.key.as_str());
        let heads = !ctx.chosen.is_empty();
        Row {
            run,
            columns: Arc::clone(columns),
            now: ctx.now,
            zone: &ctx.zone,
            marked,
            is_new,
            heads,
            depth: 0,
        }
    }

    fn whole(self: &Rc<Self>, since: u64) -> (Pulse, RunsUpdate<'a>) {
        let rows = &self.selection.rows;
        let fresh = rows.iter().filter(|listed| listed.born > since).count();
        (
            self.pulse(&self.shown(), &self.columns, fresh),
            RunsUpdate::Whole(self.body(|listed| listed.revision > since)),
        )
    }

    /// Returns single rows, if they suffice to update a page that shows `shown`.
    fn parts(&self, since: u64, shown: &Shown) -> Option<(Pulse, RunsUpdate<'a>)> {
        let (rows, left): (Vec<&'a Listed>, Vec<&'a Listed>) = self
            .runs
            .iter()
            .filter(|listed| shown.holds(listed.born))
            .partition(|listed| self.query.matches(&*listed.summary));
        if rows.is_empty() || rows.len() + left.len() != shown.count() {
            return None;
        }
        let is_news = |listed: &&&Listed| listed.revision > since && !shown.holds(listed.born);
        let fresh: Vec<&'a Listed> = self
            .selection
            .rows
            .iter()
            .filter(|_| self.is_first())
            .filter(is_news)
            .copied()
            .collect();
        // A new run belongs on top only if the newest change comes first. A page that has grown
        // long is reduced to one window.
        let too_long = rows.len() + fresh.len() > 2 * self.ctx.limit.max(1);
        if !fresh.is_empty() && (self.ctx.sort != Sort::default() || too_long) {
            return None;
        }
        let all = [rows.as_slice(), &fresh].concat();
        let columns = columns_of(self.ctx, &all);
        if optional(&columns) != self.ctx.columns {
            return None;
        }
        let made = |listed: &&'a Listed| self.row(listed, &columns, true);
        let changed = rows
            .iter()
            .filter(|listed| listed.revision > since)
            .map(made)
            .collect();
        let parts = RunsParts {
            changed,
            fresh: fresh.iter().map(made).collect(),
            gone: left
                .iter()
                .map(|listed| href::run_id(listed.summary.key.as_str()))
                .collect(),
            rows: all.len(),
        };
        Some((
            self.pulse(&shown::write(&all, self.runs), &columns, fresh.len()),
            RunsUpdate::Parts(parts),
        ))
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
