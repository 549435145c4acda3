//! Reads a line as one record, repairs it if needed, and remarks on what was wrong with it.

use std::borrow::Cow;

use super::fate::Fate;
use super::issue::{IssueKind, Remark};
use super::json::Json;
use super::repair::{Retreat, has_half_pair, retreat};
use super::split::split;

/// A line as text, which is JSON if possible, and the changes made to it.
#[derive(Debug, Clone)]
pub struct Record<'a> {
    /// The text: the line itself, a repaired copy, or its bytes as lossy UTF-8.
    pub text: Cow<'a, str>,
    /// How well the line could be parsed.
    pub fate: Fate,
    /// The remarks on the line.
    pub remarks: Vec<Remark>,
}

impl<'a> Record<'a> {
    /// Reads a line. Never fails. If a line contains several records, the last one counts.
    pub fn of(line: &'a [u8]) -> Self {
        let whole = Self::whole(line);
        if whole.fate != Fate::Unreadable {
            return whole;
        }
        let mut pieces = split(line, |_| false);
        let Some(last) = pieces.pop() else {
            return whole;
        };
        let read = Self::whole(line.get(last.from..last.to).unwrap_or_default());
        let remarks = pieces
            .into_iter()
            .flat_map(|piece| piece.remarks)
            .chain(last.remarks)
            .chain(read.remarks);
        // A borrowed text would have to be the whole line.
        Self {
            text: Cow::Owned(read.text.into_owned()),
            fate: read.fate,
            remarks: remarks.collect(),
        }
    }

    /// Reads a line as one record. Never fails. A line that contains more or less than one record
    /// is unreadable.
    pub fn whole(line: &'a [u8]) -> Self {
        let text = std::str::from_utf8(line)
            .ok()
            .filter(|text| !has_half_pair(text) && Json::is_json(text));
        let object = |text: &str| text.trim_ascii_start().starts_with('{');
        if let Some(text) = text.filter(|text| object(text)) {
            return Self {
                text: Cow::Borrowed(text),
                fate: Fate::Good,
                remarks: Vec::new(),
            };
        }
        let (fate, remarks) = match retreat(line, |text| Json::is_json(text) && object(text)) {
            Retreat::Repaired { text, repairs } => {
                let remarks = repairs
                    .iter()
                    .map(|what| (IssueKind::Repaired, (*what).to_owned()))
                    .collect();
                return Self {
                    text: Cow::Owned(text),
                    fate: Fate::Repaired,
                    remarks,
                };
            }
            // Members are read one by one, whatever they contain.
            Retreat::Salvaged { .. } => (Fate::Good, Vec::new()),
            Retreat::Foreign(what) => (
                Fate::Foreign,
                vec![(
                    IssueKind::Foreign,
                    format!("expected an object, found {what}"),
                )],
            ),
            Retreat::NotJson { why, .. } => (
                Fate::Unreadable,
                vec![(IssueKind::NotJson, format!("not JSON: {why}"))],
            ),
        };
        Self {
            text: String::from_utf8_lossy(line),
            fate,
            remarks,
        }
    }

    /// Reads a line and takes ownership of its text.
    pub fn read(line: Vec<u8>) -> Record<'static> {
        let Record {
            text,
            fate,
            remarks,
        } = Record::of(&line);
        let text = match text {
            Cow::Owned(text) => text,
            // A borrowed text is the whole line.
            Cow::Borrowed(_) => String::from_utf8(line).unwrap_or_default(),
        };
        Record {
            text: Cow::Owned(text),
            fate,
            remarks,
        }
    }

    /// Returns the repairs of the line in words, or nothing if it's as written.
    pub fn repairs(&self) -> impl Iterator<Item = &str> {
        let repaired = |remark: &&Remark| remark.0 == IssueKind::Repaired;
        self.remarks
            .iter()
            .filter(repaired)
            .map(|(_, what)| what.as_str())
    }
}
