//! Which facts of a run have a column? The run table, its JSON and CSV, `board list`, sorting and the fields of a query
//! all take them from [`COLUMNS`].
//!
//! Knows no markup, no address and no query: only what a column is called, what it holds and where it stands.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::time::Duration;

use jiff::tz::TimeZone;

use super::format;
use super::summary::{Cost, Summary};

mod step;
mod table;
#[cfg(test)]
mod tests;

pub use step::StepSubject;
pub use table::{COLUMNS, INDEXING, NO_MODEL, NO_STOP};

/// The run's name on the board.
pub const RUN: &Column = named("run");
/// The board's word for how a run stands.
pub const STATUS: &Column = named("status");
/// The recorded stop reason.
pub const STOP: &Column = named("stop");
/// The model's name.
pub const MODEL: &Column = named("model");
/// The run that started a run.
pub const PARENT: &Column = named("parent");
/// The newest change.
pub const UPDATED: &Column = named("updated");

/// The column of this name; a build fails where there is none.
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

/// A fact of a run, in all places where it is shown, sorted by or asked for.
#[derive(Clone, Copy)]
pub struct Column {
    /// The name in addresses and queries; distinct.
    pub name: &'static str,
    /// Another name that a query takes.
    alias: Option<&'static str>,
    /// The key in JSON and the head in CSV, with the unit; `None` where programs do not get it.
    pub key: Option<&'static str>,
    /// What it is called in a sentence.
    pub label: &'static str,
    /// What it holds.
    pub kind: Kind,
    /// The word that stands for an unknown value in queries and filters.
    absent: Option<&'static str>,
    /// Gives the words that a query finds besides the value.
    also: Option<Words<Summary>>,
    /// What a query that is asked of steps finds.
    of_step: Option<OfStep>,
    /// The phase of a step that fills it; `None` where it is known from the first event on.
    pub phase: Option<&'static str>,
    /// Whether its values are too long to sort by.
    long: bool,
    /// Whether the values of several runs add up.
    pub sums: bool,
    /// Gives a lower bound in milliseconds where the value is unknown.
    least: Option<fn(&Summary) -> Option<f64>>,
    /// Whether it is a sum over the steps of a run, of which some may not say what they add to it.
    of_tokens: bool,
    /// Whether runs are put together by it.
    pub groups: bool,
    /// Its place on the page; `None` where it has none.
    pub cell: Option<Cell>,
}

/// Gives words, one call each.
type Words<T> = fn(&T, &mut dyn FnMut(&str));

/// What a column holds, and how it is read off a run; `None` is unknown.
#[derive(Debug, Clone, Copy)]
pub enum Kind {
    /// A word of a fixed list.
    Word(fn(&Summary) -> Option<&str>),
    /// A text that people or programs make up.
    Text(fn(&Summary) -> Option<&str>),
    /// Several such texts.
    List(fn(&Summary) -> &[String]),
    /// A whole number.
    Count(fn(&Summary) -> Option<i64>),
    /// A critic's score.
    Score(fn(&Summary) -> Option<f64>),
    /// A duration in milliseconds.
    Millis(fn(&Summary) -> Option<f64>),
    /// An amount of US dollars.
    Usd(fn(&Summary) -> Option<Cost>),
    /// A moment in microseconds since the epoch.
    Time(fn(&Summary) -> Option<i64>),
    /// Yes or no.
    Flag(fn(&Summary) -> Option<bool>),
}

/// What one cell holds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Value<'a> {
    /// A word or a text.
    Text(&'a str),
    /// Several texts.
    List(&'a [String]),
    /// A whole number.
    Count(i64),
    /// A score.
    Score(f64),
    /// Milliseconds.
    Millis(f64),
    /// US dollars.
    Usd(Cost),
    /// Microseconds since the epoch.
    Time(i64),
    /// Yes or no.
    Flag(bool),
}

type StepWords = fn(&StepSubject<'_>, &mut dyn FnMut(&str));
type StepNumbers = fn(&StepSubject<'_>, &mut dyn FnMut(f64));

/// What a query about a column finds in one step.
#[derive(Debug, Clone, Copy)]
enum OfStep {
    Words(StepWords),
    Numbers(StepNumbers),
    Flag(fn(&StepSubject<'_>) -> Option<bool>),
}

/// Where a column stands in the run table.
#[derive(Debug, Clone, Copy)]
pub struct Cell {
    /// Its place from the left.
    place: u8,
    /// The words of its head.
    pub head: &'static str,
    /// How much room it needs.
    pub width: Width,
    /// Whether it is left out where no row shown has a value.
    pub optional: bool,
    /// Whether `board list` shows it too.
    pub in_list: bool,
}

/// The room that a column needs on a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Width {
    /// A shape and a word.
    Status,
    /// The name of the run, and its task.
    Name,
    /// What the others leave.
    Rest,
    /// A bar and the number of steps.
    Bar,
    /// A line of scores and the last one.
    Spark,
    /// A number.
    Number,
    /// A word or two.
    Text,
    /// An age.
    Age,
}

impl Value<'_> {
    /// The value as one line of a table; `None` where it is nothing that can be said, such as a duration below zero.
    pub fn words(self, now: i64, zone: &TimeZone) -> Option<String> {
        Some(match self {
            Value::Text(text) => format::visible_line(text).into_owned(),
            Value::List(texts) => format::visible_line(&texts.join(", ")).into_owned(),
            Value::Count(number) => {
                u64::try_from(number).map_or_else(|_| format::signed(number), format::tokens)
            }
            Value::Score(score) => format::score(score),
            Value::Millis(ms) => format::duration(Duration::try_from_secs_f64(ms / 1e3).ok()?),
            Value::Usd(Cost::Recorded(amount)) => format::usd(amount),
            Value::Usd(Cost::Estimated(amount)) => format!("~{}", format::usd(amount)),
            Value::Time(micros) => format::age(micros, now, zone),
            Value::Flag(flag) => if flag { "yes" } else { "no" }.to_owned(),
        })
    }
}

impl Width {
    /// Whether its values stand on the right.
    pub fn is_right(self) -> bool {
        matches!(self, Width::Number | Width::Age)
    }
}

impl Column {
    /// The column of this name or alias, in any letter case.
    pub fn find(name: &str) -> Option<&'static Column> {
        COLUMNS.iter().find(|column| {
            column.name.eq_ignore_ascii_case(name)
                || column
                    .alias
                    .is_some_and(|alias| alias.eq_ignore_ascii_case(name))
        })
    }

    /// What `run` has in this column; `None` where it is unknown.
    pub fn value<'a>(&self, run: &'a Summary) -> Option<Value<'a>> {
        match self.kind {
            Kind::Word(read) | Kind::Text(read) => read(run).map(Value::Text),
            Kind::List(read) => Some(Value::List(read(run))),
            Kind::Count(read) => read(run).map(Value::Count),
            Kind::Score(read) => read(run).map(Value::Score),
            Kind::Millis(read) => read(run).map(Value::Millis),
            Kind::Usd(read) => read(run).map(Value::Usd),
            Kind::Time(read) => read(run).map(Value::Time),
            Kind::Flag(read) => read(run).map(Value::Flag),
        }
    }

    /// What a table shows of `run` in this column: the value, else its lower bound.
    pub fn shown<'a>(&self, run: &'a Summary) -> Option<Value<'a>> {
        self.value(run)
            .or_else(|| self.least?(run).map(Value::Millis))
    }

    /// Whether `run` has more in this column than is known.
    pub fn is_least(&self, run: &Summary) -> bool {
        let is_bound = || {
            self.least
                .is_some_and(|least| self.value(run).is_none() && least(run).is_some())
        };
        self.of_tokens && run.tokens_untold > 0 || is_bound()
    }

    /// Whether the value in this column of `run` has estimated tokens in it.
    pub fn is_estimate(&self, run: &Summary) -> bool {
        self.of_tokens && run.tokens_estimated
    }

    /// Marks the words of a value: `≥` for a lower bound, `≈` for an estimate.
    pub fn bound(&self, run: &Summary, words: &str) -> String {
        format!(
            "{}{words}",
            format::bound(self.is_least(run), self.is_estimate(run))
        )
    }

    /// Explains the mark of [`Column::bound`]; `None` where there is none.
    pub fn bound_words(&self, run: &Summary) -> Option<String> {
        let least = self.is_least(run).then(|| match self.of_tokens {
            true => format!(
                "{} not record their tokens",
                super::summary::steps_do(run.tokens_untold)
            ),
            false => "the clock went back, so only a lower bound is known".to_owned(),
        });
        let estimate = self
            .is_estimate(run)
            .then(|| format::SOME_ESTIMATED.to_owned());
        let words: Vec<String> = least.into_iter().chain(estimate).collect();
        (!words.is_empty()).then(|| words.join(", "))
    }

    /// The text of this column, or the word for an unknown one; empty where there is neither.
    pub fn word<'a>(&self, run: &'a Summary) -> &'a str {
        let text = match self.kind {
            Kind::Word(read) | Kind::Text(read) => read(run).filter(|text| !text.is_empty()),
            _ => None,
        };
        text.or(self.absent).unwrap_or_default()
    }

    /// The columns that runs are put together by.
    pub fn grouping() -> impl Iterator<Item = &'static Column> {
        COLUMNS.iter().filter(|column| column.groups)
    }

    /// Its place in a table for which a reader chose it: shown also where it is empty.
    fn cell_if_chosen(&self) -> Cell {
        let width = match self.kind {
            Kind::Word(_) | Kind::Text(_) | Kind::List(_) => Width::Text,
            Kind::Time(_) => Width::Age,
            Kind::Count(_) | Kind::Score(_) | Kind::Millis(_) | Kind::Usd(_) | Kind::Flag(_) => {
                Width::Number
            }
        };
        let own = Cell {
            place: UNPLACED,
            head: self.label,
            width,
            optional: false,
            in_list: false,
        };
        self.cell.map_or(own, |cell| Cell {
            optional: false,
            ..cell
        })
    }

    /// Its head in CSV, where every column has one: its key, else its name, else, where that is another's key, its label.
    pub fn csv_head(&self) -> &'static str {
        let is_key = COLUMNS.iter().any(|other| other.key == Some(self.name));
        self.key
            .unwrap_or(if is_key { self.label } else { self.name })
    }

    /// Whether one can sort by it.
    pub fn is_sortable(&self) -> bool {
        !self.long && !matches!(self.kind, Kind::List(_) | Kind::Flag(_))
    }

    /// Whether it holds words, not numbers.
    pub fn is_text(&self) -> bool {
        matches!(self.kind, Kind::Word(_) | Kind::Text(_) | Kind::List(_))
    }

    /// Gives every word that a query finds in this column of `run`.
    pub fn words(&self, run: &Summary, out: &mut dyn FnMut(&str)) {
        match self.kind {
            Kind::List(read) => read(run).iter().for_each(|text| out(text)),
            _ if self.absent.is_some() => out(self.word(run)),
            Kind::Word(read) | Kind::Text(read) => read(run).into_iter().for_each(&mut *out),
            _ => {}
        }
        if let Some(also) = self.also {
            also(run, out);
        }
    }

    /// The number that a query compares in this column of `run`: durations in seconds, moments in microseconds.
    pub fn number(&self, run: &Summary) -> Option<f64> {
        match self.value(run)? {
            Value::Count(number) | Value::Time(number) => Some(number as f64),
            Value::Millis(ms) => Some(ms / 1e3),
            Value::Score(number) => Some(number),
            Value::Usd(cost) => Some(cost.usd()),
            Value::Text(_) | Value::List(_) | Value::Flag(_) => None,
        }
    }

    /// Whether this column of `run` says yes.
    pub fn flag(&self, run: &Summary) -> Option<bool> {
        match self.value(run)? {
            Value::Flag(flag) => Some(flag),
            _ => None,
        }
    }

    /// Gives every word that a query finds in this column of a step.
    pub fn words_of_step(&self, step: &StepSubject<'_>, out: &mut dyn FnMut(&str)) {
        if let Some(OfStep::Words(read)) = self.of_step {
            read(step, out);
        }
    }

    /// Gives every number that a query compares in this column of a step.
    pub fn numbers_of_step(&self, step: &StepSubject<'_>, out: &mut dyn FnMut(f64)) {
        if let Some(OfStep::Numbers(read)) = self.of_step {
            read(step, out);
        }
    }

    /// Whether this column of a step says yes.
    pub fn flag_of_step(&self, step: &StepSubject<'_>) -> Option<bool> {
        match self.of_step {
            Some(OfStep::Flag(read)) => read(step),
            _ => None,
        }
    }
}

/// A column of the run table and its place there.
pub type Shown = (&'static Column, Cell);

/// Where a column stands that has no place of its own: before the newest change.
const UNPLACED: u8 = 85;

/// Brings columns into the order of the table.
pub fn in_order(columns: &mut [Shown]) {
    columns.sort_by_key(|(_, cell)| cell.place);
}

/// The columns of these names as a reader chose them, in their order. The run's own name is always among them.
///
/// # Errors
/// The first name that no column has.
pub fn chosen<'a>(names: impl Iterator<Item = &'a str>) -> Result<Vec<Shown>, &'a str> {
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
    Ok(columns)
}

/// The columns of the run table with their cells, from left to right, without optional ones that none of `runs` fills.
pub fn shown<T: AsRef<Summary>>(runs: &[&T]) -> Vec<Shown> {
    let is_said = |value: Value<'_>| !matches!(value, Value::Text(""));
    let fills = |column: &Column| {
        runs.iter()
            .any(|run| column.shown((*run).as_ref()).is_some_and(is_said))
    };
    let mut cells: Vec<_> = COLUMNS
        .iter()
        .filter_map(|column| Some((column, column.cell?)))
        .filter(|(column, cell)| !cell.optional || fills(column))
        .collect();
    in_order(&mut cells);
    cells
}

/// Columns are told apart by their names.
impl PartialEq for Column {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for Column {}

impl Hash for Column {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

impl fmt::Debug for Column {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}
