//! Builds the page at `/` and the responses to its pulse from a list of runs.
//!
//! Pure: the caller provides the runs, the time and the state of the watcher. Must not know
//! requests or the store of the runs.

use std::rc::Rc;
use std::sync::Arc;

use askama::Template;
use askama::filters::HtmlSafe;

use crate::analysis::columns::Shown as ShownColumn;
use crate::analysis::format;
use crate::analysis::query::Sort;
use crate::page::part::href;
use crate::page::runs::fill::group::GroupRows;
use crate::page::runs::fill::list::{List, ListContext, Listed, columns_of, optional};
use crate::page::runs::fill::row::{Row, class, line};
use crate::page::runs::fill::shown::Shown;
use crate::page::shell::{NavItem, Pulse, Shell, Status};

pub(crate) mod about;
pub(crate) mod filters;
pub(crate) mod group;
pub(crate) mod list;
pub(crate) mod row;
pub(crate) mod shown;
pub(crate) mod stores;
#[cfg(test)]
mod tests;

/// The address of the revision stream.
const STREAM: &str = "/events";
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

impl<'a> List<'a> {
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
            marking: ctx.marking,
            of_project: ctx.group.is_some_and(|by| by.name == "project"),
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
        // Time alone can bring in a run that didn't change. Its position isn't known here.
        let is_late = |listed: &&Listed| listed.revision <= since && !shown.holds(listed.born);
        if self.query.is_relative() && self.is_first() && self.selection.rows.iter().any(is_late) {
            return None;
        }
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
}
