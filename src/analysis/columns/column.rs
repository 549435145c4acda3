//! Defines a column: how it reads a fact of a run, and how a table and a query use it.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::time::Duration;

use jiff::tz::TimeZone;

use super::step::StepSubject;
use crate::analysis::failures;
use crate::analysis::format;
use crate::analysis::summary::{Cost, Summary};

/// The name of the column with the messages of failures.
const FAILURE: &str = "failure";
/// The position of a chosen column that has none: before the latest change.
const UNPLACED: u8 = 85;

/// A fact of a run that can be shown, sorted by and queried.
#[derive(Clone, Copy)]
pub struct Column {
    /// The unique name in addresses and queries.
    pub name: &'static str,
    /// Another name that queries accept.
    pub(super) alias: Option<&'static str>,
    /// The key in JSON and the header in CSV, with the unit. Without a key, the column isn't in the
    /// JSON, and [`Column::csv_head`] chooses the header.
    pub key: Option<&'static str>,
    /// The name used in sentences.
    pub label: &'static str,
    /// What the column contains, without a full stop, for `board list --help` and the OpenAPI
    /// document. The label if there's nothing to add.
    pub about: &'static str,
    /// The type of the value.
    pub kind: Kind,
    /// The word for an unknown value in queries and filters.
    pub(super) absent: Option<&'static str>,
    /// Provides further words that a query matches.
    pub(super) also: Option<Words<Summary>>,
    /// Provides what a query over steps matches.
    pub(super) of_step: Option<OfStep>,
    /// The phase of a step that fills the column. `None` if the value is known from the first
    /// event.
    pub phase: Option<&'static str>,
    /// Whether the values are too long to sort by.
    pub(super) long: bool,
    /// Whether the values of several runs can be added up.
    pub sums: bool,
    /// Returns a lower bound in milliseconds if the value is unknown.
    pub(super) lower_bound: Option<fn(&Summary) -> Option<f64>>,
    /// Whether the value is a token sum over the steps of a run. Some steps may not record their
    /// tokens.
    pub(super) of_tokens: bool,
    /// The layout in the run table; `None` if the table doesn't show the column.
    pub cell: Option<Cell>,
}

/// Passes words to a callback, one per call.
pub(super) type Words<T> = fn(&T, &mut dyn FnMut(&str));

/// The type of a column, with a function that reads its value from a run. `None` means unknown.
#[derive(Debug, Clone, Copy)]
pub enum Kind {
    /// A word from a fixed list.
    Word(fn(&Summary) -> Option<&str>),
    /// A free text.
    Text(fn(&Summary) -> Option<&str>),
    /// Several free texts.
    List(fn(&Summary) -> &[String]),
    /// An integer.
    Count(fn(&Summary) -> Option<i64>),
    /// A critic's score.
    Score(fn(&Summary) -> Option<f64>),
    /// A duration in milliseconds.
    Millis(fn(&Summary) -> Option<f64>),
    /// An amount in US dollars.
    Usd(fn(&Summary) -> Option<Cost>),
    /// A time in microseconds since the Unix epoch.
    Time(fn(&Summary) -> Option<i64>),
    /// Yes or no.
    Flag(fn(&Summary) -> Option<bool>),
}

/// The value of one cell.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Value<'a> {
    /// A word or a text.
    Text(&'a str),
    /// Several texts.
    List(&'a [String]),
    /// An integer.
    Count(i64),
    /// A score.
    Score(f64),
    /// Milliseconds.
    Millis(f64),
    /// US dollars.
    Usd(Cost),
    /// Microseconds since the Unix epoch.
    Time(i64),
    /// Yes or no.
    Flag(bool),
}

pub(super) type StepWords = fn(&StepSubject<'_>, &mut dyn FnMut(&str));
pub(super) type StepNumbers = fn(&StepSubject<'_>, &mut dyn FnMut(f64));

/// What a query on a column matches in one step.
#[derive(Debug, Clone, Copy)]
pub(super) enum OfStep {
    Words(StepWords),
    Numbers(StepNumbers),
    Flag(fn(&StepSubject<'_>) -> Option<bool>),
}

/// The layout of a column in the run table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cell {
    /// The position from the left; a sort key.
    pub(super) place: u8,
    /// The text of the header.
    pub head: &'static str,
    /// The width class.
    pub width: Width,
    /// Whether the column is hidden if no row shown has a value.
    pub optional: bool,
    /// Whether `board list` shows the column too.
    pub in_list: bool,
    /// Whether the table shows the column if the reader chose none.
    pub(super) by_default: bool,
}

/// The width class of a column on a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Width {
    /// A shape and a word.
    Status,
    /// The title of the run, its project and its tool.
    Name,
    /// A sentence about the end that begins with the status.
    Outcome,
    /// A sentence about the end, next to a column for the status.
    Rest,
    /// The number of steps.
    Steps,
    /// A bar of the step limit, and the number of steps.
    Bar,
    /// A sparkline of scores and the last score.
    Spark,
    /// A duration.
    Duration,
    /// An amount of money.
    Cost,
    /// Another number.
    Number,
    /// A word or two.
    Text,
    /// An age.
    Age,
}

impl Value<'_> {
    /// Formats the value as one line of a table. Returns `None` for an invalid value, such as a
    /// negative duration.
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
            Value::Usd(Cost::Estimated(amount)) => format!("≈{}", format::usd(amount)),
            Value::Time(micros) => format::age(micros, now, zone),
            Value::Flag(flag) => if flag { "yes" } else { "no" }.to_owned(),
        })
    }
}

impl Column {
    /// Returns the value of `run` in this column, or `None` if it is unknown.
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

    /// Returns the value that a table shows for `run`: the value, or else its lower bound.
    pub fn shown<'a>(&self, run: &'a Summary) -> Option<Value<'a>> {
        self.value(run).or_else(|| {
            let bound = self.lower_bound?(run)?;
            Some(match self.kind {
                Kind::Usd(_) => Value::Usd(Cost::Estimated(bound)),
                _ => Value::Millis(bound),
            })
        })
    }

    /// Returns whether the true value of `run` may be higher than the known one, which is then a
    /// lower bound.
    pub fn is_lower_bound(&self, run: &Summary) -> bool {
        let is_bound = || {
            self.lower_bound
                .is_some_and(|lower_bound| self.value(run).is_none() && lower_bound(run).is_some())
        };
        self.of_tokens && run.tokens_unknown > 0 || is_bound()
    }

    /// Returns whether the value of `run` includes estimated tokens.
    pub fn is_estimate(&self, run: &Summary) -> bool {
        self.of_tokens && run.tokens_estimated
    }

    /// Prefixes the formatted value with `≥` for a lower bound and `≈` for an estimate.
    pub fn bound(&self, run: &Summary, words: &str) -> String {
        format!(
            "{}{words}",
            format::bound(self.is_lower_bound(run), self.is_estimate(run))
        )
    }

    /// Explains the prefix that [`Column::bound`] adds. Returns `None` if it adds none.
    pub fn bound_words(&self, run: &Summary) -> Option<String> {
        let lower_bound = self.is_lower_bound(run).then(|| match self.of_tokens {
            true if run.tokens_unknown == 1 => "1 step doesn't record its tokens".to_owned(),
            true => format!(
                "{} don't record their tokens",
                format::counted(run.tokens_unknown, "step")
            ),
            false if matches!(self.kind, Kind::Usd(_)) => {
                "some steps have no known tokens or price".to_owned()
            }
            false => "the clock went backwards, so this is a lower bound".to_owned(),
        });
        let estimate = self
            .is_estimate(run)
            .then(|| format::SOME_ESTIMATED.to_owned());
        let words: Vec<String> = lower_bound.into_iter().chain(estimate).collect();
        (!words.is_empty()).then(|| words.join(", "))
    }

    /// Returns the text in this column, or the word for an unknown value. Empty if the column has
    /// neither.
    pub fn word<'a>(&self, run: &'a Summary) -> &'a str {
        let text = match self.kind {
            Kind::Word(read) | Kind::Text(read) => read(run).filter(|text| !text.is_empty()),
            _ => None,
        };
        text.or(self.absent).unwrap_or_default()
    }

    /// Returns the layout in a table for which the reader chose the columns. A chosen column is
    /// shown even if it is empty.
    pub(super) fn cell_if_chosen(&self) -> Cell {
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
            by_default: false,
        };
        self.cell.map_or(own, |cell| match cell.width {
            Width::Steps => Cell {
                head: "steps / limit",
                width: Width::Bar,
                ..cell
            },
            _ => Cell {
                optional: false,
                ..cell
            },
        })
    }

    /// Returns whether runs can be sorted by this column.
    pub fn is_sortable(&self) -> bool {
        !self.long && !matches!(self.kind, Kind::List(_) | Kind::Flag(_))
    }

    /// Returns whether the column holds words rather than numbers.
    pub fn is_text(&self) -> bool {
        matches!(self.kind, Kind::Word(_) | Kind::Text(_) | Kind::List(_))
    }

    /// Passes to `out` every word of `run` that a query on this column can match.
    pub fn words(&self, run: &Summary, out: &mut dyn FnMut(&str)) {
        match self.kind {
            Kind::List(read) => read(run).iter().for_each(|text| out(text)),
            _ if self.absent.is_some() => {
                let word = self.word(run);
                out(word);
                // A query for a word with `_` instead of its space needs no quotes.
                if self.absent == Some(word) && word.contains(' ') {
                    out(&word.replace(' ', "_"));
                }
            }
            Kind::Word(read) | Kind::Text(read) => read(run).into_iter().for_each(&mut *out),
            _ => {}
        }
        if let Some(also) = self.also {
            also(run, out);
        }
    }

    /// Returns the word for an unknown value in queries and filters, if the column has one.
    pub fn absent_word(&self) -> Option<&'static str> {
        self.absent
    }

    /// Returns whether `run` has a known value in this column.
    pub fn is_recorded(&self, run: &Summary) -> bool {
        match self.value(run) {
            Some(Value::Text(text)) => !text.is_empty(),
            Some(Value::List(texts)) => !texts.is_empty(),
            value => value.is_some(),
        }
    }

    /// Returns the recorded text in this column. Empty if there is none, or the column has no text.
    pub fn recorded_text<'a>(&self, run: &'a Summary) -> &'a str {
        match self.kind {
            Kind::Word(read) | Kind::Text(read) => read(run).unwrap_or_default(),
            _ => "",
        }
    }

    /// Returns whether a step has a known value in this column, or steps have no such value at all.
    pub fn is_recorded_in_step(&self, step: &StepSubject<'_>) -> bool {
        let mut found = false;
        match self.of_step {
            Some(OfStep::Words(read)) => read(step, &mut |_| found = true),
            Some(OfStep::Numbers(read)) => read(step, &mut |_| found = true),
            Some(OfStep::Flag(read)) => found = read(step).is_some(),
            None => found = true,
        }
        found
    }

    /// Returns whether `word` is another spelling of a value: the word for an unknown value without
    /// quotes, or the id of a failure.
    pub fn is_alias(&self, word: &str) -> bool {
        let is_alias = |absent: &str| absent.contains(' ') && absent.replace(' ', "_") == word;
        self.absent.is_some_and(is_alias) || self.name == FAILURE && failures::is_id(word)
    }

    /// Returns the number of `run` that a query on this column compares. Durations are in seconds,
    /// times in microseconds.
    pub fn number(&self, run: &Summary) -> Option<f64> {
        match self.value(run)? {
            Value::Count(number) | Value::Time(number) => Some(number as f64),
            Value::Millis(ms) => Some(ms / 1e3),
            Value::Score(number) => Some(number),
            Value::Usd(cost) => Some(cost.usd()),
            Value::Text(_) | Value::List(_) | Value::Flag(_) => None,
        }
    }

    /// Returns the value of `run` in a yes-or-no column; `None` for other columns or an unknown
    /// value.
    pub fn flag(&self, run: &Summary) -> Option<bool> {
        match self.value(run)? {
            Value::Flag(flag) => Some(flag),
            _ => None,
        }
    }

    /// Passes to `out` every word of a step that a query on this column can match.
    pub fn words_of_step(&self, step: &StepSubject<'_>, out: &mut dyn FnMut(&str)) {
        if let Some(OfStep::Words(read)) = self.of_step {
            read(step, out);
        }
    }

    /// Passes to `out` every number of a step that a query on this column compares.
    pub fn numbers_of_step(&self, step: &StepSubject<'_>, out: &mut dyn FnMut(f64)) {
        if let Some(OfStep::Numbers(read)) = self.of_step {
            read(step, out);
        }
    }

    /// Returns the value of a step in a yes-or-no column; `None` for other columns or an unknown
    /// value.
    pub fn flag_of_step(&self, step: &StepSubject<'_>) -> Option<bool> {
        match self.of_step {
            Some(OfStep::Flag(read)) => read(step),
            _ => None,
        }
    }
}

/// Columns are equal if their names are.
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
