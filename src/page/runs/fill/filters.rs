//! Builds the controls that select runs: the search box, the filters, the column heads, and
//! suggestions if nothing matches.

use askama::Template;
use askama::filters::HtmlSafe;

use crate::analysis::columns::{
    COLUMNS, Column, INDEXING, MODEL, NO_STOP, RUN, STATUS, STOP, Shown, TITLE, Width,
};
use crate::analysis::format;
use crate::analysis::query::{Clock, Query, Sort, Term, Test};
use crate::analysis::run_result::ShownStatus;
use crate::analysis::select::{GROUPINGS, Grouping, no_such_status};
use crate::page::part::chart::{Segment, Share, stack};
use crate::page::part::href;
use crate::page::runs::fill::list::{List, ListContext};
use crate::page::runs::fill::row::line;
use crate::page::shell::Status;

/// A word with the number of runs that have it.
type Counted = (String, usize);

/// Filters in a menu, at most, in addition to the active ones. A sweep may record a different model
/// for each run.
const MAX_CHIPS: usize = 60;
/// The order of statuses in the bar: ends without trouble, limits and rules, trouble, others.
pub(super) const ENDS: [ShownStatus; 10] = [
    ShownStatus::Succeeded,
    ShownStatus::Finished,
    ShownStatus::Limit,
    ShownStatus::Stopped,
    ShownStatus::Critic,
    ShownStatus::Unsolved,
    ShownStatus::Error,
    ShownStatus::Died,
    ShownStatus::Cancelled,
    ShownStatus::Unknown,
];
/// The statuses of runs that haven't ended.
pub(super) const LIVE: [ShownStatus; 3] = [
    ShownStatus::Running,
    ShownStatus::Quiet,
    ShownStatus::Stalled,
];
/// Maximum number of terms that the page suggests dropping. Each one requires a pass over all runs.
const MAX_DROPS: usize = 8;

/// A menu of filters.
#[derive(Debug)]
pub(crate) struct Facet {
    pub name: &'static str,
    pub sections: Vec<Section>,
}

/// Filters of one kind in a menu.
#[derive(Debug)]
pub(crate) struct Section {
    /// The heading; empty if the menu needs none.
    pub name: &'static str,
    pub chips: Vec<Chip>,
}

impl Facet {
    /// Summarizes the active filters, for places that show nothing else.
    pub(crate) fn chosen(&self) -> String {
        let on: Vec<&str> = self
            .sections
            .iter()
            .flat_map(|section| &section.chips)
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
    /// Returns whether a menu may truncate the label.
    fn is_long(&self) -> bool {
        self.label.chars().nth(40).is_some()
    }

    fn count(&self) -> Option<String> {
        self.count.map(|number| format::count(number as u64))
    }
}

/// Returns the sections that contain a filter.
fn sections(all: impl IntoIterator<Item = (&'static str, Vec<Chip>)>) -> Vec<Section> {
    all.into_iter()
        .map(|(name, chips)| Section { name, chips })
        .filter(|section| !section.chips.is_empty())
        .collect()
}

/// Returns the column that a column head sorts by: the title for the run's name, and the status for
/// the outcome.
fn sort_of(column: &'static Column, width: Width) -> &'static Column {
    match width {
        Width::Name => TITLE,
        Width::Outcome => STATUS,
        _ => column,
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

    /// Returns the columns that can be chosen, their names, and whether the table has each. The
    /// title of a run is always shown.
    pub(crate) fn offered_columns(
        &self,
    ) -> impl Iterator<Item = (&'static Column, &'static str, bool)> {
        let is_shown =
            |column: &&'static Column| self.columns.iter().any(|(shown, _)| shown == column);
        COLUMNS
            .iter()
            .filter(|column| **column != *RUN)
            .map(move |column| {
                let label = match column {
                    column if *column == *TITLE => "title (recorded)",
                    column => column.label,
                };
                (column, label, is_shown(&column))
            })
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

    /// Returns the menus of filters.
    pub(crate) fn facets(&self) -> Vec<Facet> {
        let facets = &self.survey.facets;
        let groups = vec![
            self.stop_facet(),
            self.facet("Model", MODEL, &facets.models),
            self.grouping(),
        ];
        groups
            .into_iter()
            .filter(|group| !group.sections.is_empty())
            .collect()
    }

    /// Returns the grouping options: what any run records.
    fn grouping(&self) -> Facet {
        let chip = |label: &str, by: Option<&'static Grouping>| Chip {
            label: label.to_owned(),
            count: None,
            href: self.ctx.url_by(by, &self.ctx.query, self.ctx.sort, ""),
            active: self.ctx.group == by,
            status: None,
        };
        let is_on = |by: &&'static Grouping| self.ctx.group == Some(*by);
        let offered = GROUPINGS
            .iter()
            .filter(|by| is_on(by) || self.survey.groups.contains(by));
        let mut chips: Vec<Chip> = offered.map(|by| chip(by.label, Some(by))).collect();
        if !chips.is_empty() {
            chips.insert(0, chip("none", None));
        }
        Facet {
            name: "Group by",
            sections: sections([("", chips)]),
        }
    }

    /// Returns the statuses that the bar shows, in its order, with the active ones.
    pub(crate) fn ends(&self) -> Vec<Chip> {
        self.statuses(&ENDS)
    }

    /// Returns the statuses of runs that haven't ended.
    pub(crate) fn live(&self) -> Vec<Chip> {
        let mut chips = self.statuses(&LIVE);
        let indexing = self.survey.facets.indexing;
        if indexing > 0 || self.query.has(STATUS, INDEXING) {
            chips.push(self.chip(STATUS, INDEXING, indexing, Some(Status::Indexing)));
        }
        chips
    }

    fn statuses(&self, statuses: &[ShownStatus]) -> Vec<Chip> {
        let marks = &self.survey.facets.marks;
        let chip = |status: &ShownStatus| {
            let (word, count) = (status.as_str(), marks.get(status).copied());
            let is_there = count.is_some() || self.query.has(STATUS, word);
            let status = Some(Status::Of(*status));
            is_there.then(|| self.chip(STATUS, word, count.unwrap_or_default(), status))
        };
        statuses.iter().filter_map(chip).collect()
    }

    /// Returns the link that removes the filter by status, if there is one.
    pub(crate) fn every_status(&self) -> Option<Chip> {
        let facets = &self.survey.facets;
        let without = self.query.without_field(STATUS);
        (without.terms.len() < self.query.terms.len()).then(|| Chip {
            label: "all".to_owned(),
            count: Some(facets.marks.values().sum::<usize>() + facets.indexing),
            active: false,
            href: self.ctx.url(&without.to_string(), self.ctx.sort, ""),
            status: None,
        })
    }

    /// Returns the bar of outcomes: a part for each status of runs that ended, and whether the
    /// filter leaves it out.
    pub(crate) fn segments(&self) -> Vec<(Segment, bool)> {
        let ends = self.ends();
        let is_filtered = ends.iter().chain(&self.live()).any(|chip| chip.active);
        let out: Vec<&str> = ends
            .iter()
            .filter(|chip| is_filtered && !chip.active)
            .map(|chip| &*chip.label)
            .collect();
        let share = |chip: &Chip| {
            Some(Share {
                status: chip.status?,
                name: chip.label.clone(),
                count: chip.count?,
                href: chip.href.clone(),
            })
        };
        let shares = ends.iter().filter_map(share).collect();
        stack(shares)
            .into_iter()
            .map(|segment| {
                let is_out = out.contains(&&*segment.share.name);
                (segment, is_out)
            })
            .collect()
    }

    /// Returns the stop reasons by the statuses of the runs with them, the most frequent first. A
    /// reason of runs that ended in different ways has a place for each. Runs without a recorded reason
    /// may have any status, so they come last.
    fn stop_facet(&self) -> Facet {
        let facets = &self.survey.facets;
        let (shown, others) = self.ranked(STOP, &facets.stops);
        let is_in = |word: &str, group: StopGroup| match facets.stop_marks.get(word) {
            Some(statuses) if word != NO_STOP => {
                statuses.iter().any(|status| stop_group(*status) == group)
            }
            _ => group == StopGroup::Other,
        };
        let of = |group: StopGroup| -> Vec<Chip> {
            shown
                .iter()
                .filter(|(word, _)| is_in(word, group))
                .map(|(word, count)| self.chip(STOP, word, *count, None))
                .collect()
        };
        let others = others.map(|others| self.others(&others, STATUS));
        Facet {
            name: "Stop reason",
            sections: sections([
                ("Answers", of(StopGroup::Answers)),
                ("Limits", of(StopGroup::Limits)),
                ("Stops and critics", of(StopGroup::Stops)),
                ("Errors", of(StopGroup::Errors)),
                ("Cancelled", of(StopGroup::Cancelled)),
                ("Other", of(StopGroup::Other)),
                ("", others.into_iter().collect()),
            ]),
        }
    }

    /// Returns the words, the most frequent and the active ones first. If there are too many, the
    /// last link sorts the list by this column, which brings equal words together.
    fn facet(
        &self,
        name: &'static str,
        field: &'static Column,
        words: &[(String, usize)],
    ) -> Facet {
        let (shown, others) = self.ranked(field, words);
        let mut chips: Vec<Chip> = shown
            .iter()
            .map(|(word, count)| self.chip(field, word, *count, None))
            .collect();
        chips.extend(others.map(|others| self.others(&others, field)));
        Facet {
            name,
            sections: sections([("", chips)]),
        }
    }

    /// Returns the words that a menu shows, and the others.
    fn ranked<'w>(
        &self,
        field: &'static Column,
        words: &'w [Counted],
    ) -> (Vec<&'w Counted>, Option<Vec<&'w Counted>>) {
        let ranked = words.iter().enumerate();
        let (shown, others): (Vec<_>, Vec<_>) =
            ranked.partition(|(rank, (word, _))| *rank < MAX_CHIPS || self.query.has(field, word));
        let words = |ranked: Vec<(usize, &'w (String, usize))>| -> Vec<_> {
            ranked.into_iter().map(|(_, word)| word).collect()
        };
        let others = words(others);
        (
            words(shown),
            Some(others).filter(|others| !others.is_empty()),
        )
    }

    /// Returns a link to the runs with any word that the menu has no room for.
    fn others(&self, others: &[&(String, usize)], by: &'static Column) -> Chip {
        let sort = Sort {
            by,
            reversed: false,
        };
        Chip {
            label: format!(
                "{} more: list sorted by {}",
                format::count(others.len() as u64),
                by.label
            ),
            count: Some(others.iter().map(|(_, count)| *count).sum()),
            href: self.ctx.url(&self.ctx.query, sort, ""),
            active: false,
            status: None,
        }
    }

    /// Returns the address of the list sorted by a column, or in reverse. Returns `None` if it
    /// can't be sorted by that column.
    pub(crate) fn sorted(&self, (column, cell): &Shown) -> Option<String> {
        let by = sort_of(column, cell.width);
        by.is_sortable()
            .then(|| self.ctx.url(&self.ctx.query, self.ctx.sort.clicked(by), ""))
    }

    /// Returns whether the largest value comes first. Returns `None` if the table isn't sorted by
    /// this column.
    pub(crate) fn descending(&self, (column, cell): &Shown) -> Option<bool> {
        let by = self.ctx.sort.by;
        (*by == *sort_of(column, cell.width)).then(|| self.ctx.sort.is_descending())
    }

    /// Returns the address of a search for the query's plain words in the text of all runs, if it
    /// has any.
    pub(crate) fn in_all_texts(&self) -> Option<String> {
        let words = self.query.terms.iter().filter(|term| !term.negated);
        let words: Vec<&str> = words
            .filter_map(|term| match &term.test {
                Test::Text(needle) => Some(needle.text()),
                _ => None,
            })
            .collect();
        (!words.is_empty()).then(|| href::search(&words.join(" "), ""))
    }

    /// Explains a filter by a status that doesn't exist.
    pub(crate) fn no_such_status(&self) -> Option<String> {
        no_such_status(&self.query)
    }

    /// If nothing matches: returns the terms that could be dropped, how many runs would then match,
    /// and the address.
    pub(crate) fn drops(&self) -> Vec<(String, String, String)> {
        let drop = |(at, term): (usize, &Term)| {
            let without = self.query.without(at);
            let clock = Clock::at(self.ctx.now, &self.ctx.zone);
            let query = Query::parse_at(&without, &clock);
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
/// The sections of the menu of stop reasons.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum StopGroup {
    Answers,
    Limits,
    Stops,
    Errors,
    Cancelled,
    Other,
}

/// Returns the section for runs with this status.
fn stop_group(status: ShownStatus) -> StopGroup {
    use ShownStatus as S;
    match status {
        S::Succeeded | S::Finished | S::Unsolved => StopGroup::Answers,
        S::Limit => StopGroup::Limits,
        S::Stopped | S::Critic => StopGroup::Stops,
        S::Error | S::Died => StopGroup::Errors,
        S::Cancelled => StopGroup::Cancelled,
        S::Running | S::Quiet | S::Stalled | S::Unknown => StopGroup::Other,
    }
}
