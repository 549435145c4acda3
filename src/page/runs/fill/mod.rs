//! How does a list of runs become the page at `/` and the answers to its pulse?
//!
//! Pure: the runs, the clock and how the watching goes come from the caller. Knows nothing of requests or of what
//! keeps the runs.

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
use crate::page::runs::{RunsBody, RunsNews, RunsPage, RunsParts, RunsPulse};
use crate::page::shell::{NavItem, Pulse, Shell, Skipped};

pub(crate) mod about;
pub(crate) mod filters;
pub(crate) mod group;
pub(crate) mod row;
pub(crate) mod shown;
pub(crate) mod stores;
#[cfg(test)]
mod tests;

/// Rows in a window where the address does not say.
pub(crate) const WINDOW: usize = 200;
/// A page shows at most this many rows; more would be slow to draw and to read.
pub(crate) const MAX_ROWS: usize = 1_000;

/// The address of the revision stream.
const STREAM: &str = "/events";
/// The address of the pulse.
const PULSE: &str = "/live/runs";

/// What the page needs to know besides the runs.
#[derive(Debug, Clone)]
pub(crate) struct ListContext {
    pub roots: Vec<Root>,
    /// Those roots that are object stores.
    pub stores: Vec<Store>,
    /// Tools and the directories with their traces that nobody asked to be opened.
    pub elsewhere: Vec<(&'static str, String)>,
    pub watch: Watch,
    /// When the roots were last looked at, if they were; microseconds since the epoch.
    pub looked: Option<i64>,
    /// How many runs are read, of how many, while some are not.
    pub indexing: Option<(usize, usize)>,
    /// The time now; microseconds since the epoch.
    pub now: i64,
    pub zone: TimeZone,
    /// `q`: the query as typed.
    pub query: String,
    pub sort: Sort,
    /// `group`: what runs are put together by.
    pub group: Option<&'static Column>,
    /// `limit`: rows in a window.
    pub limit: usize,
    /// `after`: where the window before ended.
    pub after: Option<String>,
    /// The revision, read before the runs were: what changes meanwhile is then only told twice.
    pub revision: u64,
    /// Which start of the server this is.
    pub boot: String,
    /// `since`: the revision the page shows. Of a pulse only.
    pub since: Option<u64>,
    /// `mark`: keys of runs that are marked.
    pub marks: Vec<String>,
    /// `rows`: which rows the page shows, from the pulse's own address. Of a pulse only.
    pub rows: Option<String>,
    /// `columns`: the names of the optional columns that the page shows, likewise.
    pub columns: String,
    /// `cols`: the columns that the reader chose; none where the table has its usual ones.
    pub chosen: Vec<ShownColumn>,
}

/// A watched root.
#[derive(Debug, Clone, Default)]
pub(crate) struct Root {
    /// The root as the person typed it.
    pub shown: String,
    /// Why it cannot be read, if it cannot: `it does not exist yet`.
    pub fault: Option<String>,
    /// Files and directories that are not listed, the first of them.
    pub skipped: Vec<Skipped>,
    /// How many there are.
    pub skipped_total: SkippedTotal,
}

/// How changes are noticed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Watch {
    /// The system tells.
    Native,
    /// By looking again and again, with the reason.
    Poll(String),
    /// Not at the moment, with the reason.
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

/// The page at `/`.
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

/// The answer to the page's pulse: what changed since the revision `ctx.since`.
///
/// The pulse's address names the rows that the page shows, so each row is replaced, added or taken away where that is
/// enough. Where it is not (a run vanished, the order is not by change and a run came, nothing matches any more) the
/// whole body is sent; the page keeps what is the same in it.
pub(crate) fn pulse<'a>(ctx: &'a ListContext, runs: &'a [Listed]) -> RunsPulse<'a> {
    let list = Rc::new(List::new(ctx, runs));
    let shown = ctx.rows.as_deref().and_then(Shown::parse);
    let since = ctx.since.unwrap_or(0);
    let (pulse, news) = match shown {
        Some(_) if since == ctx.revision => {
            let url = ctx.pulse_url(ctx.rows.as_deref().unwrap_or_default(), &ctx.columns);
            (list.pulse_at(url, 0), RunsNews::Nothing)
        }
        shown => shown
            .and_then(|shown| list.parts(since, &shown))
            .unwrap_or_else(|| list.whole(since)),
    };
    RunsPulse { pulse, list, news }
}

impl ListContext {
    /// The roots as the person typed them.
    pub(crate) fn root(&self) -> String {
        let roots: Vec<_> = self
            .roots
            .iter()
            .map(|root| format::visible_line(&root.shown))
            .collect();
        roots.join(", ")
    }

    /// The list with another query, order or window; what is as usual is left out.
    pub(crate) fn url(&self, query: &str, sort: Sort, after: &str) -> String {
        self.url_by(self.group, query, sort, after)
    }

    /// The same, put together by another column or by none.
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

    /// The names of the chosen columns, as the address has them.
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

/// The runs as the query asks for them.
pub(crate) struct List<'a> {
    pub ctx: &'a ListContext,
    pub runs: &'a [Listed],
    pub query: Query,
    pub selection: Selection<'a, Listed>,
    /// Where runs are put together, the groups of which the selection has the first runs.
    pub groups: Option<Groups<'a, Listed>>,
    pub survey: Survey,
    pub columns: Arc<[ShownColumn]>,
}

/// The columns of a table of `rows`.
fn columns_of(ctx: &ListContext, rows: &[&Listed]) -> Arc<[ShownColumn]> {
    if ctx.chosen.is_empty() {
        shown_columns(rows).into()
    } else {
        ctx.chosen.as_slice().into()
    }
}

/// The names of the optional ones.
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

    /// `Runs (130)`, and with a filter `Runs (12 of 130)`.
    pub(crate) fn title(&self) -> String {
        format!("Runs ({})", self.matched())
    }

    /// Whether the window is the first one.
    fn is_first(&self) -> bool {
        self.ctx.after.is_none() || self.selection.after_ignored
    }

    /// Which rows the page shows, for its pulse. What one run changes in a group is more than its row.
    fn shown(&self) -> String {
        if self.groups.is_some() {
            String::new()
        } else {
            shown::write(&self.selection.rows, self.runs)
        }
    }

    /// The pulse of a page that shows `rows`, as [`shown::write()`] writes them, and `columns`.
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

    /// The row of `listed`; `is_new` gives it the edge of a row that changed.
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

    fn whole(self: &Rc<Self>, since: u64) -> (Pulse, RunsNews<'a>) {
        let rows = &self.selection.rows;
        let fresh = rows.iter().filter(|listed| listed.born > since).count();
        (
            self.pulse(&self.shown(), &self.columns, fresh),
            RunsNews::Whole(self.body(|listed| listed.revision > since)),
        )
    }

    /// Single rows, where they are enough to bring a page that shows `shown` up to date.
    fn parts(&self, since: u64, shown: &Shown) -> Option<(Pulse, RunsNews<'a>)> {
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
        // On top is the place of a new run only where the newest change comes first. A page that grew for long is
        // cut back to one window.
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
            RunsNews::Parts(parts),
        ))
    }

    /// `Runs, newest change first`, `Runs by steps, most first`; with what they are put together by.
    pub(crate) fn caption(&self) -> String {
        let group = self
            .ctx
            .group
            .map_or_else(String::new, |by| format!(", put together by {}", by.label));
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
