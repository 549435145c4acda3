//! Parses and evaluates the queries that select runs or steps. The search box, facet chips and
//! breakpoints share it.
//!
//! | written | matches |
//! |---|---|
//! | `word`, `"two words"` | text that contains it: run id and key, task, model, verdict, final result |
//! | `status:limit`, `stop:final,success` | a whole word from a fixed list; a comma means "or" |
//! | `tag:baseline` | a whole tag |
//! | `task:`, `model:`, `agent:`, `tool:`, `critic:`, `file:` | a text that contains the value; with `=` the whole text |
//! | `steps>5`, `score:0.2..0.5`, `tokens>=10k` | a number; `field:n` and `field=n` mean "equal"; either end may be open |
//! | `duration<2m` | `250ms`, `90s`, `2m`, `1h`; a bare number is seconds |
//! | `started:2026-02-22`, `updated>2026-02-22T09:15` | a day, minute or second in the time zone of the clock; in UTC with a `Z` at its end |
//! | `started:2026-02-22..2026-02-28` | from the first day to the last one; either end may be open |
//! | `started:today`, `started:yesterday` | a day in the time zone of the clock |
//! | `weekday:mon..fri`, `hour:9..17`, `hour<6` | when the run started, in the time zone of the clock |
//! | `updated:7d`, `updated>7d`, `updated<2h` | in the last 7 days; after or before the time that long ago |
//! | `err:true`, `err:false` | yes or no |
//! | `cost:none`, `-model:none` | the value isn't recorded, or is; `model:"none"` is the word |
//! | `state.KEY changed` | a step that changed this key of the state, or a run with such a step |
//! | `-term` | everything the term doesn't match |
//!
//! All terms must match. Letter case never matters. Inside quotes, `\"` and `\\` mean `"` and `\`.
//! Terms that can't be parsed are kept in [`Query::ignored`] with what was expected, and the other
//! terms still filter.
//!
//! The fields are the columns of `columns::COLUMNS`. This module knows neither
//! indexes nor runs: anything that can be matched implements [`Subject`].

use super::columns::{Column, STARTED, TAG};

mod calendar;
mod parse;
mod sort;
#[cfg(test)]
mod tests;
mod words;

pub use calendar::{CalendarField, CalendarValues};
pub use parse::names;
pub use sort::Sort;
pub use words::{Amount, Bound, Clock, Needle};

/// A parsed query.
///
/// `Display` writes text that [`Query::parse`] reads back as the same query, with ignored terms
/// last.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Query {
    /// The terms that filter, in the order written.
    pub terms: Vec<Term>,
    /// The terms that couldn't be parsed.
    pub ignored: Vec<Ignored>,
}

/// One condition of a query.
#[derive(Debug, Clone, PartialEq)]
pub struct Term {
    /// Whether the term matches everything that `test` doesn't.
    pub negated: bool,
    /// The condition.
    pub test: Test,
}

/// The condition of a term. Several values are alternatives.
#[derive(Debug, Clone, PartialEq)]
pub enum Test {
    /// Free text.
    Text(Needle),
    /// A word of a field.
    Word {
        /// The field.
        field: &'static Column,
        /// Whether a value must equal the whole word, rather than a part of it.
        whole: bool,
        /// The values, at least one.
        any: Vec<Needle>,
    },
    /// A number.
    Number {
        /// The field.
        field: &'static Column,
        /// The conditions, at least one.
        any: Vec<Bound>,
    },
    /// Yes or no.
    Flag {
        /// The field.
        field: &'static Column,
        /// The value to match.
        wanted: bool,
    },
    /// When the run started, on the calendar.
    Calendar(CalendarValues),
    /// No value is recorded.
    Absent {
        /// The field.
        field: &'static Column,
    },
    /// A step that changed a key of the state, or a run with such a step.
    Changed {
        /// The key.
        key: String,
    },
}

/// A term that couldn't be parsed and doesn't filter.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, schemars::JsonSchema)]
pub struct Ignored {
    /// The term as written.
    #[serde(rename = "term")]
    pub text: String,
    /// Why the term was ignored, without a full stop.
    pub why: String,
}

/// Something that a query can match: a run or a step.
///
/// Implementations skip values they don't know. A term never matches a missing value, so its
/// negation always does: every subject matches exactly one of `term` and `-term`.
pub trait Subject {
    /// Passes every text that free words search to `out`.
    fn text(&self, out: &mut dyn FnMut(&str));

    /// Passes every word of `field` to `out`. If two vocabularies meet, it passes both words: for
    /// `status` board's word and the manifest's, for `critic` the names and their decisions.
    fn words(&self, field: &Column, out: &mut dyn FnMut(&str));

    /// Passes the numbers of `field` to `out`: usually one, or several if a step has several
    /// scores. Durations are in seconds, times in microseconds since the epoch.
    fn numbers(&self, field: &Column, out: &mut dyn FnMut(f64));

    /// Returns the value of the flag `field`, if known.
    fn flag(&self, field: &Column) -> Option<bool>;

    /// Returns whether `field` has a recorded value.
    fn is_recorded(&self, field: &Column) -> bool;

    /// Returns whether this is a step that changed `key` of the state, or a run with such a step.
    fn changed(&self, key: &str) -> bool;
}

impl Query {
    /// Returns whether the query asks for duplicates, which don't count because another file has the
    /// same records.
    pub fn asks_for_copies(&self) -> bool {
        self.asks_for("duplicate_of")
    }

    /// Returns whether the tags of a run matter, which the user may change.
    pub fn asks_for_tags(&self) -> bool {
        self.asks_for(TAG.name)
    }

    fn asks_for(&self, name: &str) -> bool {
        self.terms.iter().any(|term| {
            matches!(&term.test,
                Test::Word { field, .. } | Test::Absent { field } if field.name == name)
        })
    }

    /// Returns whether the query has no filtering terms.
    pub fn is_empty(&self) -> bool {
        self.terms.is_empty()
    }

    /// Returns whether a date of the query depends on the current time, such as `today` or `7d`.
    pub fn is_relative(&self) -> bool {
        self.relative().next().is_some()
    }

    /// Returns the times that the relative dates mean, in minutes since the epoch. A query that
    /// is parsed again selects by other times if they differ.
    pub fn times(&self) -> Vec<i64> {
        let minute = |amount: &Amount| (amount.value() / 60e6).floor() as i64;
        self.relative().map(minute).collect()
    }

    fn relative(&self) -> impl Iterator<Item = &Amount> {
        let bounds = self.terms.iter().filter_map(|term| match &term.test {
            Test::Number { any, .. } => Some(any),
            _ => None,
        });
        bounds.flatten().flat_map(Bound::relative)
    }

    /// Returns whether every term matches `subject`.
    pub fn matches(&self, subject: &(impl Subject + ?Sized)) -> bool {
        self.terms.iter().all(|term| term.matches(subject))
    }

    /// Returns the query's text without the term at `index`.
    pub fn without(&self, index: usize) -> String {
        let mut query = self.clone();
        if index < query.terms.len() {
            query.terms.remove(index);
        }
        query.to_string()
    }

    /// Returns the query without any term on `field`, so that a facet can count its own
    /// alternatives.
    #[must_use]
    pub fn without_field(&self, field: &Column) -> Query {
        let mut query = self.clone();
        query.terms.retain(|term| {
            !matches!(&term.test,
                Test::Word { field: other, .. } | Test::Absent { field: other } if *other == field)
        });
        query
    }

    /// Returns whether a term asks for `value` in `field`.
    pub fn has(&self, field: &Column, value: &str) -> bool {
        let value = Needle::new(value);
        self.terms
            .iter()
            .filter(|term| !term.negated)
            .filter_map(|term| term.values_of(field))
            .any(|values| values.iter().any(|other| other.same(&value)))
    }

    /// Returns the query with a term that requires one of `values` in `field`, or none of them if
    /// `negated`. Removes the terms that the new one implies.
    #[must_use]
    pub fn narrowed<'v>(
        &self,
        negated: bool,
        field: &'static Column,
        values: impl IntoIterator<Item = &'v str>,
    ) -> Query {
        let any: Vec<Needle> = values.into_iter().map(Needle::new).collect();
        let within = |wide: &[Needle]| {
            any.iter()
                .all(|value| wide.iter().any(|other| other.same(value)))
        };
        let mut query = self.clone();
        query
            .terms
            .retain(|term| negated || term.negated || !term.values_of(field).is_some_and(within));
        let term = Term {
            negated,
            test: Test::Word {
                field,
                whole: true,
                any,
            },
        };
        if !query.terms.contains(&term) {
            query.terms.push(term);
        }
        query
    }

    /// Returns the query's text after a click on a chip. Removes `value` if the query
    /// [`has`](Query::has) it. Otherwise adds it as an alternative of `field` and removes its
    /// exclusion.
    pub fn toggled(&self, field: &'static Column, value: &str) -> String {
        let (value, had) = (Needle::new(value), self.has(field, value));
        let mut query = self.clone();
        for term in &mut query.terms {
            if let Some(values) = term.values_mut(field) {
                values.retain(|other| !other.same(&value));
            }
        }
        query.terms.retain(|term| {
            term.values_of(field)
                .is_none_or(|values| !values.is_empty())
        });
        if !had {
            let open = query
                .terms
                .iter_mut()
                .filter(|term| !term.negated)
                .find_map(|term| term.values_mut(field));
            match open {
                Some(values) => values.push(value),
                None => query.terms.push(Term {
                    negated: false,
                    test: Test::Word {
                        field,
                        whole: true,
                        any: vec![value],
                    },
                }),
            }
        }
        query.to_string()
    }
}

impl Term {
    /// Returns whether the term matches `subject`.
    pub fn matches(&self, subject: &(impl Subject + ?Sized)) -> bool {
        self.test.holds(subject) != self.negated
    }

    fn values_of(&self, field: &Column) -> Option<&[Needle]> {
        match &self.test {
            Test::Word {
                field: other, any, ..
            } if *other == field => Some(any),
            _ => None,
        }
    }

    fn values_mut(&mut self, field: &Column) -> Option<&mut Vec<Needle>> {
        match &mut self.test {
            Test::Word {
                field: other, any, ..
            } if *other == field => Some(any),
            _ => None,
        }
    }
}

impl Test {
    fn holds(&self, subject: &(impl Subject + ?Sized)) -> bool {
        let mut found = false;
        match self {
            Test::Text(needle) => subject.text(&mut |text| found = found || needle.within(text)),
            Test::Word { field, whole, any } => {
                subject.words(field, &mut |word| {
                    found = found || any.iter().any(|needle| needle.fits(word, *whole));
                });
            }
            Test::Number { field, any } => {
                subject.numbers(field, &mut |number| {
                    found = found || any.iter().any(|bound| bound.holds(number))
                });
            }
            Test::Flag { field, wanted } => return subject.flag(field) == Some(*wanted),
            Test::Calendar(values) => {
                subject.numbers(STARTED, &mut |micros| found = found || values.hold(micros));
            }
            Test::Absent { field } => return !subject.is_recorded(field),
            Test::Changed { key } => return subject.changed(key),
        }
        found
    }
}
