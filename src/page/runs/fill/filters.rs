//! Builds the controls that select runs: the search box, the filters, the column heads, and
//! suggestions if nothing matches.

use askama::Template;
use askama::filters::HtmlSafe;

use crate::analysis::columns::{COLUMNS, Column, INDEXING, MODEL, RUN, STATUS, STOP};
use crate::analysis::format;
use crate::analysis::query::{Query, Sort, Term};
use crate::analysis::run_result::ShownStatus;
use crate::page::runs::fill::list::{List, ListContext};
use crate::page::runs::fill::row::line;
use crate::page::shell::Status;

/// Filters of a group that are always shown, at most, in addition to the active ones.
const MAX_CHIPS: usize = 6;
/// Filters behind `n more`, at most. A sweep may record a different model for each run.
const MAX_MORE: usize = 60;
/// Terms that the page suggests dropping, at most. Each one requires a pass over all runs.
const MAX_DROPS: usize = 8;

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
    pub(crate) fn chosen(&self) -> String {
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
        self.count.map(|number| format::count(number as u64))
    }
}

impl List<'_> {
    /// Returns the address of the list with `value` of `field` added to the query or removed from
    /// it.
    pub(crate) fn toggled(&self, field: &'static Column, value: &str) -> String {
        self.ctx
            .url(&self.query.toggled(field, value), self.ctx.sort, "")
    }

    pub(crate) fn chip(
        &self,
        field: &'static Column,
        value: &str,
        count: usize,
        status: Option<Status>,
    ) -> Chip {
        Chip {
            label: line(value),
            count: Some(count),
            href: self.toggled(field, value),
            active: self.query.has(field, value),
            status,
        }
    }

    /// Returns the sort order, if it isn't the default.
    pub(crate) fn sort(&self) -> Option<String> {
        (self.ctx.sort != Sort::default()).then(|| self.ctx.sort.to_string())
    }

    /// Returns the address of the list without a query.
    pub(crate) fn cleared(&self) -> String {
        self.ctx.url("", self.ctx.sort, "")
    }

    /// Returns the columns that can be chosen, and whether the table has each. The name of a run is
    /// always shown.
    pub(crate) fn offered_columns(&self) -> impl Iterator<Item = (&'static Column, bool)> {
        let is_shown =
            |column: &&'static Column| self.columns.iter().any(|(shown, _)| shown == column);
        COLUMNS
            .iter()
            .filter(|column| **column != *RUN)
            .map(move |column| (column, is_shown(&column)))
    }

    /// Returns the address of the same rows with the default columns.
    pub(crate) fn usual_columns(&self) -> String {
        let ctx = ListContext {
            chosen: Vec::new(),
            ..self.ctx.clone()
        };
        ctx.url(
            &ctx.query,
            ctx.sort,
            ctx.after.as_deref().unwrap_or_default(),
        )
    }

    /// Returns the groups of filters.
    pub(crate) fn facets(&self) -> Vec<Facet> {
        let facets = &self.survey.facets;
        let groups = vec![
            self.status_facet(),
            self.facet("Stop reason", STOP, &facets.stops, STATUS),
            self.facet("Model", MODEL, &facets.models, MODEL),
            self.grouping(),
        ];
        groups
            .into_iter()
            .filter(|group| !group.chips.is_empty())
            .collect()
    }

    /// Returns the grouping options: the columns in which any run has a value.
    fn grouping(&self) -> Facet {
        let chip = |label: &str, by: Option<&'static Column>| Chip {
            label: label.to_owned(),
            count: None,
            href: self.ctx.url_by(by, &self.ctx.query, self.ctx.sort, ""),
            active: self.ctx.group == by,
            status: None,
        };
        let is_on = |column: &&'static Column| self.ctx.group == Some(*column);
        let columns = Column::grouping()
            .filter(|column| is_on(column) || self.survey.groups.contains(column));
        let mut chips: Vec<Chip> = columns
            .map(|column| chip(column.name, Some(column)))
            .collect();
        if !chips.is_empty() {
            chips.insert(0, chip("none", None));
        }
        Facet {
            name: "Group by",
            chips,
            more: Vec::new(),
        }
    }

    fn status_facet(&self) -> Facet {
        let facets = &self.survey.facets;
        let without = self.query.without_field(STATUS);
        let all = Chip {
            label: "all".to_owned(),
            count: Some(facets.marks.values().sum::<usize>() + facets.indexing),
            active: without.terms.len() == self.query.terms.len(),
            href: self.ctx.url(&without.to_string(), self.ctx.sort, ""),
            status: None,
        };
        let marks = ShownStatus::ALL.into_iter().map(|status| {
            (
                status.as_str(),
                facets.marks.get(&status).copied().unwrap_or_default(),
                Status::Of(status),
            )
        });
        let words = marks.chain([(INDEXING, facets.indexing, Status::Indexing)]);
        let some = words.filter(|(word, count, _)| *count > 0 || self.query.has(STATUS, word));
        let chips = some.map(|(word, count, status)| self.chip(STATUS, word, count, Some(status)));
        Facet {
            name: "Status",
            chips: std::iter::once(all).chain(chips).collect(),
            more: Vec::new(),
        }
    }

    /// Returns the most frequent words and the active ones, with the others behind `n more`. If
    /// there are too many even for that, the last link sorts the list by `by`, which brings equal
    /// words together.
    fn facet(
        &self,
        name: &'static str,
        field: &'static Column,
        words: &[(String, usize)],
        by: &'static Column,
    ) -> Facet {
        let ranked = words.iter().enumerate();
        let (first, later): (Vec<_>, Vec<_>) =
            ranked.partition(|(rank, (word, _))| *rank < MAX_CHIPS || self.query.has(field, word));
        let chip =
            |(_, (word, count)): &(usize, &(String, usize))| self.chip(field, word, *count, None);
        let mut more: Vec<Chip> = later.iter().take(MAX_MORE).map(chip).collect();
        let others = later.get(MAX_MORE..).unwrap_or_default();
        if !others.is_empty() {
            more.push(Chip {
                label: format!(
                    "{} others, sorted by {}",
                    format::count(others.len() as u64),
                    by.name
                ),
                count: Some(others.iter().map(|(_, (_, count))| *count).sum()),
                href: self.ctx.url(
                    &self.ctx.query,
                    Sort {
                        by,
                        reversed: false,
                    },
                    "",
                ),
                active: false,
                status: None,
            });
        }
        Facet {
            name,
            chips: first.iter().map(chip).collect(),
            more,
        }
    }

    /// Returns the address of the list sorted by a column, or in reverse. Returns `None` if it
    /// can't be sorted by that column.
    pub(crate) fn sorted(&self, column: &'static Column) -> Option<String> {
        column.is_sortable().then(|| {
            self.ctx
                .url(&self.ctx.query, self.ctx.sort.clicked(column), "")
        })
    }

    /// Returns whether the largest value comes first. Returns `None` if the table isn't sorted by
    /// this column.
    pub(crate) fn descending(&self, column: &Column) -> Option<bool> {
        (*self.ctx.sort.by == *column).then(|| self.ctx.sort.is_descending())
    }

    /// If nothing matches: returns the terms that could be dropped, how many runs would then match,
    /// and the address.
    pub(crate) fn drops(&self) -> Vec<(String, String, String)> {
        let drop = |(at, term): (usize, &Term)| {
            let without = self.query.without(at);
            let query = Query::parse(&without);
            let left = self
                .runs
                .iter()
                .filter(|listed| query.matches(&*listed.summary))
                .count();
            (
                line(&term.to_string()),
                format::counted(left, "run"),
                self.ctx.url(&without, self.ctx.sort, ""),
            )
        };
        self.query
            .terms
            .iter()
            .enumerate()
            .take(MAX_DROPS)
            .map(drop)
            .collect()
    }
}
