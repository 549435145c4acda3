//! Which runs, or which steps, did the person ask for? The search box, facet chips and breakpoints share it.
//!
//! | written | matches |
//! |---|---|
//! | `word`, `"two words"` | text that contains it: run id and key, task, model, verdict, final result |
//! | `status:limit`, `stop:final,success` | a word from a fixed list, whole; a comma means "or" |
//! | `task:`, `model:`, `agent:`, `tool:`, `critic:` | a text that contains the value; with `=` the whole text |
//! | `steps>5`, `score:0.2..0.5`, `tokens>=10k` | a number; `field:n` and `field=n` are "equal"; an end may be open |
//! | `duration<2m` | `250ms`, `90s`, `2m`, `1h`; a number alone is seconds |
//! | `started:2026-02-22`, `updated>2026-02-22T09:15` | a day, a minute or a second of UTC |
//! | `err:true`, `err:false` | yes or no |
//! | `state.KEY changed` | a step that changed this key of the state, or a run in which one did |
//! | `-term` | everything the term does not match |
//!
//! Terms are anded, letter case never matters, and in quotes `\"` and `\\` stand for `"` and `\`. What cannot be
//! understood is kept in [`Query::ignored`] with what was expected; the good terms still filter.
//!
//! The fields are the columns of [`COLUMNS`](super::columns::COLUMNS). Knows no index and no run: whatever can be matched
//! implements [`Subject`].

use std::fmt;

use super::columns::{Column, Kind};

mod parse;
mod sort;
#[cfg(test)]
mod tests;
mod words;

pub use sort::Sort;
pub use words::{Amount, Bound, Needle};

/// A query as understood.
///
/// `Display` writes it so that [`Query::parse`] reads the same query again, ignored terms last.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Query {
    /// The terms that filter, in the order written.
    pub terms: Vec<Term>,
    /// The terms that do not.
    pub ignored: Vec<Ignored>,
}

/// One condition of a query.
#[derive(Debug, Clone, PartialEq)]
pub struct Term {
    /// Whether the term asks for everything that `test` does not match.
    pub negated: bool,
    /// What is asked.
    pub test: Test,
}

/// What one term asks; several values of one test are alternatives.
#[derive(Debug, Clone, PartialEq)]
pub enum Test {
    /// Free text.
    Text(Needle),
    /// A word of a field.
    Word {
        /// The field.
        field: &'static Column,
        /// Whether a value is the whole word or a part of it.
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
        /// Which of both.
        wanted: bool,
    },
    /// A step that changed a key of the state, or a run with one.
    Changed {
        /// The key.
        key: String,
    },
}

/// A term that could not be understood.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, schemars::JsonSchema)]
pub struct Ignored {
    /// The term as written.
    #[serde(rename = "term")]
    pub text: String,
    /// What was expected instead, as one sentence without a full stop.
    pub why: String,
}

/// What a query can be asked of: a run, or one step.
///
/// What the subject does not know it leaves out. A term never matches what was left out; therefore its negation
/// always does, so that every subject is shown by exactly one of `term` and `-term`.
pub trait Subject {
    /// Gives every text that free words search.
    fn text(&self, out: &mut dyn FnMut(&str));

    /// Gives every word of `field`. Where two vocabularies meet, both words are given: `status` gives the board's
    /// word and the manifest's, `critic` the names and what they decided.
    fn words(&self, field: &Column, out: &mut dyn FnMut(&str));

    /// Gives the numbers of `field`: mostly one, several where a step has several scores. Durations are in seconds,
    /// moments in microseconds since the epoch.
    fn numbers(&self, field: &Column, out: &mut dyn FnMut(f64));

    /// Whether `field` says yes, where that is known.
    fn flag(&self, field: &Column) -> Option<bool>;

    /// Whether this is a step that changed `key` of the state, or a run with one.
    fn changed(&self, key: &str) -> bool;
}

impl Query {
    /// Reads a query. Never fails: see [`Query::ignored`].
    pub fn parse(text: &str) -> Self {
        parse::query(text)
    }

    /// Whether nothing filters.
    pub fn is_empty(&self) -> bool {
        self.terms.is_empty()
    }

    /// Whether every term accepts `subject`.
    pub fn matches(&self, subject: &(impl Subject + ?Sized)) -> bool {
        self.terms.iter().all(|term| term.matches(subject))
    }

    /// The query's text without the term at `index`.
    pub fn without(&self, index: usize) -> String {
        let mut query = self.clone();
        if index < query.terms.len() {
            query.terms.remove(index);
        }
        query.to_string()
    }

    /// The query without any term about `field`, so that a facet can count where one could go.
    #[must_use]
    pub fn without_field(&self, field: &Column) -> Query {
        let mut query = self.clone();
        query.terms.retain(
            |term| !matches!(&term.test, Test::Word { field: other, .. } if *other == field),
        );
        query
    }

    /// Whether a term asks for `value` in `field`.
    pub fn has(&self, field: &Column, value: &str) -> bool {
        let value = Needle::new(value);
        self.terms
            .iter()
            .filter(|term| !term.negated)
            .filter_map(|term| term.values_of(field))
            .any(|values| values.iter().any(|other| other.same(&value)))
    }

    /// The query with one more term, by which `field` holds one of `values`, or where `negated` none of them. Terms that
    /// this one implies give way to it.
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

    /// The query's text after a click on a chip: takes `value` out where [`Query::has`] it, else adds it as one more
    /// alternative of `field` and drops its exclusion.
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
    /// Whether the term accepts `subject`.
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
            Test::Changed { key } => return subject.changed(key),
        }
        found
    }
}

impl fmt::Display for Query {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut gap = "";
        for term in &self.terms {
            write!(f, "{gap}{term}")?;
            gap = " ";
        }
        for ignored in &self.ignored {
            write!(f, "{gap}{}", ignored.text)?;
            gap = " ";
        }
        Ok(())
    }
}

impl fmt::Display for Term {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", if self.negated { "-" } else { "" }, self.test)
    }
}

impl fmt::Display for Test {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Test::Text(needle) if parse::is_word(needle.text()) => f.write_str(needle.text()),
            Test::Text(needle) => words::quoted(needle.text(), f),
            Test::Word { field, whole, any } => {
                write!(
                    f,
                    "{}{}",
                    field.name,
                    if *whole && is_open(field) { "=" } else { ":" }
                )?;
                listed(any.iter(), f)
            }
            Test::Number { field, any } => {
                f.write_str(field.name)?;
                bounds(any, f)
            }
            Test::Flag { field, wanted } => write!(f, "{}:{wanted}", field.name),
            Test::Changed { key } => write!(f, "state.{} changed", words::Key(key)),
        }
    }
}

/// Whether people make up the words of `field`, so that `:` looks for a part of one. The other fields have fixed words,
/// and there `stop:final` must not find `final_result`.
fn is_open(field: &Column) -> bool {
    !matches!(field.kind, Kind::Word(_))
}

fn bounds(any: &[Bound], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    if let [bound] = any
        && bound.is_comparison()
    {
        return write!(f, "{bound}");
    }
    f.write_str(":")?;
    listed(any.iter(), f)
}

fn listed(
    values: impl Iterator<Item = impl fmt::Display>,
    f: &mut fmt::Formatter<'_>,
) -> fmt::Result {
    for (index, value) in values.enumerate() {
        write!(f, "{}{value}", if index == 0 { "" } else { "," })?;
    }
    Ok(())
}
