//! Holds a verdict in words: a sentence with notes, and the few words of a table cell.

use serde::{Deserialize, Serialize};

use crate::analysis::compact::Shared;
use crate::analysis::stated::used_of;
use crate::model::limit_of;

/// Separates the notes in a sentence.
pub(super) const NEXT: &str = " · ";

/// A further fact about an end, after its sentence: "1 critic retry", "an answer was ready".
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Note {
    /// The kind.
    pub kind: NoteKind,
    /// The fact, without a full stop.
    pub words: Shared,
}

/// The kind of a note. Some columns of the run table show the same facts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum NoteKind {
    /// The reward.
    Reward,
    /// The errors that the run recovered from.
    Recovered,
    /// The recorded rules and steps contradict the verdict.
    Denial,
    /// Anything else.
    Other,
}

impl Note {
    /// Creates a note.
    pub fn new(kind: NoteKind, words: impl Into<Shared>) -> Self {
        Self {
            kind,
            words: words.into(),
        }
    }
}

/// A verdict in words.
pub(super) struct Wording {
    /// The sentence without notes.
    head: String,
    /// The same in the few words of a table cell. Empty if the sentence is short enough.
    pub(super) brief: String,
    /// What shows the end, in brackets after the head: "inferred from end_turn". Empty if the head
    /// says all.
    basis: String,
    pub(super) notes: Vec<Note>,
}

impl From<String> for Wording {
    fn from(head: String) -> Self {
        Self::new(head, String::new())
    }
}

impl Wording {
    /// Creates a verdict with a brief form.
    pub(super) fn new(head: String, brief: String) -> Self {
        Self {
            head,
            brief,
            basis: String::new(),
            notes: Vec::new(),
        }
    }

    /// Describes a limit that was reached: "Step limit reached after step 5: 6 of 6 steps", in
    /// brief "Step limit: 6 of 6 steps". `headline` is "Step limit reached".
    pub(super) fn limit(headline: &str, rest: &str, reached: Option<(f64, f64, &str)>) -> Self {
        let name = limit_of(headline).unwrap_or(headline);
        let Some((measured, limit, unit)) = reached else {
            let brief = format!("{name}{rest}");
            return Self::new(format!("{headline}{rest}"), brief);
        };
        let numbers = used_of(measured, limit, unit);
        let brief = format!("{name}: {numbers}");
        Self::new(format!("{headline}{rest}: {numbers}"), brief)
    }

    /// States what shows the end.
    pub(super) fn basis(self, basis: String) -> Self {
        Self { basis, ..self }
    }

    /// Adds a note, unless it's empty.
    pub(super) fn note(self, words: &str) -> Self {
        self.noted(Some(Note::new(NoteKind::Other, words)))
    }

    /// Adds notes, except empty ones.
    pub(super) fn noted(mut self, notes: impl IntoIterator<Item = Note>) -> Self {
        let notes = notes.into_iter().filter(|note| !note.words.is_empty());
        self.notes.extend(notes);
        self
    }

    pub(super) fn has(&self, kind: NoteKind) -> bool {
        self.notes.iter().any(|note| note.kind == kind)
    }

    /// Returns the sentence without the notes of this kind.
    pub(super) fn sentence_without(&self, kind: NoteKind) -> String {
        self.sentence_of(|note| note.kind != kind)
    }

    fn sentence_of(&self, is_told: impl Fn(&Note) -> bool) -> String {
        let mut sentence = self.head.clone();
        if !self.basis.is_empty() {
            sentence += &format!(" ({})", self.basis);
        }
        for note in self.notes.iter().filter(|note| is_told(note)) {
            sentence += NEXT;
            sentence += &note.words;
        }
        sentence
    }

    /// Returns the sentence, and its part without notes. The second is empty if that's all of it.
    pub(super) fn sentence(&self) -> (String, &str) {
        let sentence = self.sentence_of(|_| true);
        let is_all = sentence.len() == self.head.len();
        (sentence, if is_all { "" } else { &self.head })
    }
}
