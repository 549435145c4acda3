//! Represents what records state about a run as a whole, and whether they agree.
//!
//! Several records may state the same fact: a manifest in two fields, an event, the steps together.
//! None of them takes precedence. If they differ, the fact is disputed, and all statements are kept
//! with their sources.

use std::borrow::Cow;
use std::fmt;

use serde::{Deserialize, Serialize};

use super::stored;

/// A fact about a run as a whole that more than one record may state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Fact {
    /// Why the run ended, as a word.
    End,
    /// The answer.
    Answer,
    /// A limit in this unit: `steps`, `tokens`, `ms`, `usd`, `turns`, `messages`.
    #[serde(deserialize_with = "stored::word")]
    Limit(stored::Word),
    /// A total in this unit: `steps`, `tokens`, `ms`, `usd`.
    #[serde(deserialize_with = "stored::word")]
    Total(stored::Word),
}

/// The value that a record states.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Said {
    /// A word or a text. An empty one is an answer that was recorded as empty.
    Text(Box<str>),
    /// A number.
    Number(f64),
    /// `null`.
    Null,
    /// A value of an unexpected type: a number as written, or `an object`.
    Other(Box<str>),
}

/// The source of a statement.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Source {
    /// The record, as the subject of a sentence: `the manifest`.
    #[serde(deserialize_with = "stored::word")]
    pub who: stored::Word,
    /// The file, or empty if the run has only one.
    #[serde(deserialize_with = "stored::word")]
    pub file: stored::Word,
    /// The 1-based line in that file, or `None` for a file without lines.
    pub line: Option<u64>,
    /// The field, as a JSON Pointer or in the tool's own words. Empty for a sum over several
    /// records.
    pub field: Cow<'static, str>,
}

impl Source {
    /// Creates the source for a field of `manifest.json`.
    pub fn manifest(field: &'static str) -> Self {
        Self {
            who: "the manifest",
            file: "manifest.json",
            line: None,
            field: field.into(),
        }
    }
}

/// Formats the source as in `manifest.json /summary/steps` or `events.jsonl:38
/// /payload/stop/limit`.
impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.file)?;
        if let Some(line) = self.line {
            write!(f, ":{line}")?;
        }
        let gap = if self.file.is_empty() || self.field.is_empty() {
            ""
        } else {
            " "
        };
        write!(f, "{gap}{}", self.field)
    }
}

/// One record's statement about the run as a whole.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Statement {
    /// The fact it's about.
    pub fact: Fact,
    /// The stated value.
    pub said: Said,
    /// The source.
    pub source: Source,
}

impl Statement {
    /// Creates a statement of a number.
    pub fn number(fact: Fact, number: f64, source: Source) -> Self {
        Self {
            fact,
            said: Said::Number(number),
            source,
        }
    }

    /// Creates a statement of a text.
    pub fn text(fact: Fact, text: impl Into<Box<str>>, source: Source) -> Self {
        Self {
            fact,
            said: Said::Text(text.into()),
            source,
        }
    }
}

/// A value with its source.
#[derive(Debug, Clone, PartialEq)]
pub struct Stated<T> {
    /// The value.
    pub value: T,
    /// The source.
    pub source: Source,
}

/// What all records together state about one fact.
#[derive(Debug, Clone, PartialEq)]
pub enum Agreement<T> {
    /// No record states it.
    Unknown,
    /// All records that state it agree. Never empty.
    Agreed(Vec<Stated<T>>),
    /// At least two records differ.
    Disputed(Vec<Stated<T>>),
}

impl<T> Agreement<T> {
    /// Compares each statement with every other one.
    pub fn of(stated: Vec<Stated<T>>, is_same: impl Fn(&T, &T) -> bool) -> Self {
        let mut rest = stated.as_slice();
        while let Some((first, others)) = rest.split_first() {
            if others
                .iter()
                .any(|other| !is_same(&first.value, &other.value))
            {
                return Self::Disputed(stated);
            }
            rest = others;
        }
        if stated.is_empty() {
            Self::Unknown
        } else {
            Self::Agreed(stated)
        }
    }

    /// Returns the value that all records agree on.
    pub fn agreed(&self) -> Option<&T> {
        match self {
            Self::Agreed(stated) => stated.first().map(|first| &first.value),
            _ => None,
        }
    }

    /// Returns all statements, if they differ.
    pub fn disputed(&self) -> Option<&[Stated<T>]> {
        match self {
            Self::Disputed(stated) => Some(stated),
            _ => None,
        }
    }

    /// Returns whether any record states the fact.
    pub fn is_stated(&self) -> bool {
        !matches!(self, Self::Unknown)
    }
}

/// Groups the statements by value, in order of appearance, each with all its sources.
pub fn by_value<T>(
    stated: &[Stated<T>],
    is_same: impl Fn(&T, &T) -> bool,
) -> Vec<(&T, Vec<&Source>)> {
    let mut found: Vec<(&T, Vec<&Source>)> = Vec::new();
    for Stated { value, source } in stated {
        match found.iter_mut().find(|(known, _)| is_same(known, value)) {
            Some((_, sources)) => sources.push(source),
            None => found.push((value, vec![source])),
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stated(values: &[i64]) -> Vec<Stated<i64>> {
        values
            .iter()
            .map(|value| Stated {
                value: *value,
                source: Source::manifest("/x"),
            })
            .collect()
    }

    #[test]
    fn records_agree_or_all_of_them_are_kept() {
        let of = |values: &[i64]| Agreement::of(stated(values), |a, b| a == b);
        assert_eq!(of(&[]), Agreement::Unknown);
        assert_eq!(of(&[6, 6]).agreed(), Some(&6));
        let disputed = of(&[6, 6, 60]);
        assert_eq!(
            (disputed.agreed(), disputed.disputed().map(<[_]>::len)),
            (None, Some(3))
        );
        let near = Agreement::of(stated(&[1, 2, 3]), |a: &i64, b: &i64| (a - b).abs() <= 1);
        assert!(
            near.disputed().is_some(),
            "1 and 3 are too far apart, whatever lies between"
        );
    }

    #[test]
    fn a_place_names_file_line_and_field() {
        let source = Source {
            who: "the END event",
            file: "events.jsonl",
            line: Some(38),
            field: "/payload/stop".into(),
        };
        assert_eq!(source.to_string(), "events.jsonl:38 /payload/stop");
        let only = Source {
            who: "the log",
            file: "",
            line: None,
            field: "limit.reason".into(),
        };
        assert_eq!(only.to_string(), "limit.reason");
    }
}
