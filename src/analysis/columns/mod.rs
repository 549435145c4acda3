//! Defines a column for each fact of a run. The run table, its JSON and CSV, `board list`, sorting
//! and query fields all use [`COLUMNS`].
//!
//! Must not know markup, addresses or queries. A column has a name, a value and a position.

use super::summary::Summary;

mod column;
mod document;
mod step;
mod table;
#[cfg(test)]
mod tests;

pub(crate) use column::{Cell, Column, Kind, Value, Width};
pub(crate) use document::RunRow;
pub(crate) use step::StepSubject;
pub(crate) use table::{COLUMNS, INDEXING, NO_STOP};

/// The name of the run in board.
pub(crate) const RUN: &Column = named("run");
/// The status that board assigns to the run.
pub(crate) const STATUS: &Column = named("status");
/// What came of the run.
pub(crate) const RESULT: &Column = named("result");
/// The recorded stop reason.
pub(crate) const STOP: &Column = named("stop");
/// The name of the model.
pub(crate) const MODEL: &Column = named("model");
/// The title.
pub(crate) const TITLE: &Column = named("title");
/// Why the run stopped.
pub(crate) const VERDICT: &Column = named("verdict");
/// The task.
pub(crate) const TASK: &Column = named("task");
/// The file of an eval whose samples are runs.
pub(crate) const LOG: &Column = named("log");
/// The project directory.
pub(crate) const PROJECT: &Column = named("project");
/// The program that wrote the trace.
pub(crate) const WRITER: &Column = named("writer");
/// The parent run.
pub(crate) const PARENT: &Column = named("parent");
/// The tokens.
pub(crate) const TOKENS: &Column = named("tokens");
/// The cost.
pub(crate) const COST: &Column = named("cost");
/// The run time.
pub(crate) const DURATION: &Column = named("duration");
/// The tags.
pub(crate) const TAG: &Column = named("tag");
/// The start time.
pub(crate) const STARTED: &Column = named("started");
/// The time of the latest change.
pub(crate) const UPDATED: &Column = named("updated");

/// Returns the column with this name. Fails the build if no column has it.
pub(super) const fn named(name: &str) -> &'static Column {
    let mut rest = COLUMNS;
    while let [column, others @ ..] = rest {
        if is_same(column.name.as_bytes(), name.as_bytes()) {
            return column;
        }
        rest = others;
    }
    panic!("no column has this name")
}

const fn is_same(mut a: &[u8], mut b: &[u8]) -> bool {
    while let ([first, rest @ ..], [other, others @ ..]) = (a, b) {
        if *first != *other {
            return false;
        }
        (a, b) = (rest, others);
    }
    a.is_empty() && b.is_empty()
}

impl Column {
    /// Returns the column with this name or alias. Ignores ASCII case.
    pub fn find(name: &str) -> Option<&'static Column> {
        COLUMNS.iter().find(|column| {
            column.name.eq_ignore_ascii_case(name)
                || column
                    .alias
                    .is_some_and(|alias| alias.eq_ignore_ascii_case(name))
        })
    }

    /// Returns the CSV header: the key, or else the name. If the name is the key of another column,
    /// returns the label. In CSV every column has a header.
    pub fn csv_head(&self) -> &'static str {
        let is_key = COLUMNS.iter().any(|other| other.key == Some(self.name));
        self.key
            .unwrap_or(if is_key { self.label } else { self.name })
    }
}

/// A column of the run table and its layout there.
pub(crate) type Shown = (&'static Column, Cell);

/// Sorts columns into the order of the table.
pub(crate) fn in_order(columns: &mut [Shown]) {
    columns.sort_by_key(|(_, cell)| cell.place);
}

/// Returns the columns with these names, which a reader chose, in the given order. Adds the column
/// of the run's name if it's missing.
///
/// # Errors
/// Returns the first name that no column has.
pub(crate) fn chosen<'a>(names: impl Iterator<Item = &'a str>) -> Result<Vec<Shown>, &'a str> {
    let mut columns: Vec<Shown> = Vec::new();
    for name in names {
        let column = Column::find(name).ok_or(name)?;
        if !columns.iter().any(|(known, _)| *known == column) {
            columns.push((column, column.cell_if_chosen()));
        }
    }
    if !columns.is_empty() && !columns.iter().any(|(column, _)| *column == RUN) {
        columns.insert(0, (RUN, RUN.cell_if_chosen()));
    }
    // Next to a column for the status, the sentence needn't begin with it.
    if columns.iter().any(|(column, _)| *column == STATUS) {
        for (column, cell) in &mut columns {
            if *column == VERDICT {
                (cell.head, cell.width) = (column.label, Width::Rest);
            }
        }
    }
    Ok(columns)
}

/// Returns the columns of the run table from left to right, with their layout, if the reader chose
/// none. Skips the columns that none of `runs` fills, except those that say which run it is and how
/// it ended. `of_groups` is whether they are the first ones of each group.
pub(crate) fn shown<T: AsRef<Summary>>(runs: &[&T], of_groups: bool) -> Vec<Shown> {
    let cells = COLUMNS.iter().filter_map(|column| {
        let cell = column.cell.filter(|cell| cell.by_default)?;
        let optional = ![RUN, VERDICT].contains(&column);
        Some((column, Cell { optional, ..cell }))
    });
    // A wide column of dashes takes the room of the titles.
    let is_seldom = |(column, cell): &Shown| {
        let filled = runs.iter().filter(|run| fills(column, (**run).as_ref()));
        let seldom = if of_groups { SELDOM_OF_GROUPS } else { SELDOM };
        cell.width == Width::Text && filled.count() * seldom < runs.len()
    };
    let mut cells = filled(cells, runs);
    cells.retain(|cell| !is_seldom(cell));
    cells
}

/// A column of texts is shown if at least one in so many runs fills it.
const SELDOM: usize = 20;
/// The same where a small group has as many rows as a large one.
const SELDOM_OF_GROUPS: usize = 4;

/// Returns whether a run has a value in a column.
fn fills(column: &Column, run: &Summary) -> bool {
    let is_said = |value: Value<'_>| !matches!(value, Value::Text("") | Value::List([]));
    column.shown(run).is_some_and(is_said)
}

/// Returns the columns of `board list`, with their layout. Skips optional columns that none of
/// `runs` fills.
pub(crate) fn of_list<T: AsRef<Summary>>(runs: &[&T]) -> Vec<Shown> {
    let cells = COLUMNS
        .iter()
        .filter_map(|column| Some((column, column.cell.filter(|cell| cell.in_list)?)));
    filled(cells, runs)
}

/// Returns the columns in the order of the table, without the optional ones that none of `runs`
/// fills.
fn filled<T: AsRef<Summary>>(cells: impl Iterator<Item = Shown>, runs: &[&T]) -> Vec<Shown> {
    let is_filled = |column: &Column| runs.iter().any(|run| fills(column, (*run).as_ref()));
    let mut cells: Vec<_> = cells
        .filter(|(column, cell)| !cell.optional || is_filled(column))
        .collect();
    in_order(&mut cells);
    cells
}
