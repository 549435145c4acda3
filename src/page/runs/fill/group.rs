//! Builds the rows of grouped runs: a row for the group with its totals, then its first runs.

use askama::Template;
use askama::filters::HtmlSafe;

use jiff::civil::Date;

use crate::analysis::columns::{Column, Shown, Value, Width};
use crate::analysis::format::{self, counted, visible_line};
use crate::analysis::query::Query;
use crate::analysis::run_result::ShownStatus;
use crate::analysis::select::{Group, Grouping, Member};
use crate::analysis::summary::Cost;
use crate::page::part::chart::{Segment, Share, stack};
use crate::page::runs::fill::filters::{ENDS, LIVE};
use crate::page::runs::fill::list::{List, Listed};
use crate::page::runs::fill::row::{Row, class, line};
use crate::page::shell::{Status, When};

/// Longer names aren't linked; bytes.
const MAX_LINKED: usize = 1_000;

/// A group and its first rows.
#[derive(Debug, Clone, Template)]
#[template(path = "runs/group_rows.html")]
pub(crate) struct GroupRows<'a> {
    /// The row of the group. `None` for a single run under its own name.
    head: Option<Head>,
    pub(crate) rows: Vec<Row<'a>>,
}

impl HtmlSafe for GroupRows<'_> {}

/// The row of a group.
#[derive(Debug, Clone)]
pub(crate) struct Head {
    /// The element id.
    pub(crate) id: String,
    pub(crate) name: String,
    /// The recorded name.
    pub(crate) title: String,
    /// The address of the list of its runs.
    pub(crate) href: Option<String>,
    /// The number of runs: `12 runs`.
    pub(crate) runs: String,
    /// Further facts: `3 with outcome failed · 1 still active · showing the first 5`.
    pub(crate) notes: String,
    pub(crate) cells: Vec<Cell>,
    /// The bar of the outcomes of all its runs.
    pub(crate) segments: Vec<Segment>,
    /// Whether the rows below have checkboxes.
    pub(crate) marking: bool,
}

/// A cell in the row of a group.
#[derive(Debug, Clone)]
pub(crate) struct Cell {
    pub(crate) width: Width,
    pub(crate) text: Option<String>,
    pub(crate) title: Option<String>,
    pub(crate) when: Option<When>,
}

impl Cell {
    fn class(&self) -> &'static str {
        class(self.width)
    }
}

/// Returns the bar of a group's outcomes, in the order of the page's own bar.
fn segments(group: &Group<'_, Listed>) -> Vec<Segment> {
    let share = |status: &ShownStatus| {
        Some(Share {
            status: Status::Of(*status),
            name: status.as_str().to_owned(),
            count: *group.statuses.get(status)?,
            href: String::new(),
        })
    };
    stack(ENDS.iter().chain(&LIVE).filter_map(share).collect())
}

/// Words a period: `Sat 21 Nov 2026`, `Week from 16 Nov 2026`.
fn period(by: &Grouping, first: &str) -> Option<String> {
    let day: Date = first.parse().ok()?;
    Some(match by.name {
        "week" => format!("Week from {}", day.strftime("%-d %b %Y")),
        _ => day.strftime("%a %-d %b %Y").to_string(),
    })
}

impl<'a> List<'a> {
    /// Returns the groups of this window with their rows.
    pub(crate) fn group_rows(&self, is_new: impl Fn(&Listed) -> bool) -> Vec<GroupRows<'a>> {
        let Some(by) = self.ctx.group else {
            return Vec::new();
        };
        let group = |(at, group): (usize, &Group<'a, Listed>)| {
            let row = |member: &Member<'a, Listed>| {
                let row = self.row(member.run, &self.columns, is_new(member.run));
                Row {
                    depth: member.depth,
                    ..row
                }
            };
            let head = (!group.is_alone).then(|| Head {
                id: format!("group-{at}"),
                ..self.head(by, group)
            });
            GroupRows {
                head,
                rows: group.rows.iter().map(row).collect(),
            }
        };
        self.groups
            .iter()
            .flat_map(|groups| &groups.groups)
            .enumerate()
            .map(group)
            .collect()
    }

    fn head(&self, by: &'static Grouping, group: &Group<'a, Listed>) -> Head {
        let recorded = &*group.name;
        let period = by.is_period().then(|| period(by, recorded)).flatten();
        let first = group.rows.first().map(|row| &row.run.summary);
        let sample = first.and_then(|run| run.sample.as_deref());
        let sample = sample.filter(|_| by.name == "log" && !recorded.is_empty());
        let name = match group.head {
            Some(head) if by.is_parent() => Some(head.summary.title()),
            _ if let Some(task) = sample.and_then(|sample| sample.task_name()) => Some(task),
            _ if by.name == "project" => recorded
                .trim_end_matches(['/', '\\'])
                .rsplit(['/', '\\'])
                .next(),
            _ => period.as_deref().or(Some(recorded)),
        };
        let cell = |(column, cell): &Shown| self.cell(column, cell.width, group);
        let (failed, alive) = (group.failed, group.alive);
        let results = sample.and_then(|sample| sample.results.as_deref());
        let mut notes: Vec<String> = results.map(line).into_iter().collect();
        let mut note = |number: usize, words: String| notes.extend((number > 0).then_some(words));
        note(
            failed,
            format!("{} with outcome failed", format::count(failed as u64)),
        );
        note(alive, format!("{alive} may still be running"));
        note(group.copies, group.copies_in_words());
        note(group.branches, group.branches_in_words());
        note(
            group.runs - group.rows.len(),
            format!("showing the first {}", group.rows.len()),
        );
        Head {
            id: String::new(),
            name: match recorded {
                "" if by.is_period() => "no start recorded".to_owned(),
                "" if !by.is_parent() => format!("no {} recorded", by.label),
                _ => line(name.filter(|name| !name.is_empty()).unwrap_or(recorded)),
            },
            title: visible_line(recorded).into_owned(),
            href: self.runs_of(by, recorded, group),
            runs: counted(group.runs, "run"),
            notes: notes.join(" · "),
            cells: self.columns.iter().map(cell).collect(),
            segments: segments(group),
            marking: self.ctx.marking,
        }
    }

    /// Returns the address of the list of a group's runs. If the group descends from a run, these
    /// are the runs that it started.
    fn runs_of(
        &self,
        by: &'static Grouping,
        name: &str,
        group: &Group<'a, Listed>,
    ) -> Option<String> {
        let head = group.head.and_then(|head| head.summary.run_id.as_deref());
        let name = head.filter(|_| by.is_parent()).unwrap_or(name);
        let is_none = name.is_empty() && by.is_parent();
        if is_none || name.len() > MAX_LINKED {
            return None;
        }
        let own = Query::parse(&by.terms(name)?).terms;
        let mut query = Query {
            terms: self.query.terms.clone(),
            ignored: Vec::new(),
        };
        for term in own {
            if !query.terms.contains(&term) {
                query.terms.push(term);
            }
        }
        Some(self.ctx.url_by(None, &query.to_string(), self.ctx.sort, ""))
    }

    fn cell(&self, column: &'static Column, width: Width, group: &Group<'a, Listed>) -> Cell {
        let (now, zone) = (self.ctx.now, &self.ctx.zone);
        let empty = Cell {
            width,
            text: None,
            title: None,
            when: None,
        };
        if width == Width::Age {
            let when = group.newest.and_then(|micros| When::of(micros, now, zone));
            return Cell { when, ..empty };
        }
        let Some((sum, value)) = group
            .sum(column)
            .and_then(|sum| Some((sum, sum.value(column)?)))
        else {
            return empty;
        };
        let all = sum.counted() == group.runs;
        // An estimated cost has its own mark.
        let is_cost = matches!(value, Value::Usd(_));
        // A lower bound of 0 says nothing.
        let words = value.words(now, zone).filter(|words| all || words != "0");
        let words = words.map(|words| {
            let mark = format::bound(!all, sum.is_estimate && !is_cost);
            format!("{mark}{words}")
        });
        let from = || {
            group
                .rows
                .iter()
                .find_map(|row| row.run.summary.estimated_from())
        };
        let basis = match value {
            Value::Usd(Cost::Estimated(_)) => from(),
            _ => sum.is_estimate.then(|| format::SOME_ESTIMATED.to_owned()),
        };
        let part = (!all).then(|| {
            format!(
                "complete for {} of {}",
                sum.counted(),
                counted(group.runs, "run")
            )
        });
        let copies = (group.copies > 0).then(|| group.copies_in_words());
        let branches = (group.branches > 0).then(|| group.branches_in_words());
        let notes: Vec<String> = [part, basis, copies, branches]
            .into_iter()
            .flatten()
            .collect();
        // The cell may be too narrow for the value.
        let titles: Vec<String> = match notes.is_empty() {
            true => notes,
            false => words.iter().cloned().chain(notes).collect(),
        };
        Cell {
            text: words,
            title: Some(titles.join(", ")).filter(|title| !title.is_empty()),
            ..empty
        }
    }
}
