//! Defines how well a line could be parsed.

use super::words::words;

words! {
    /// How well a line could be parsed.
    #[derive(Default)]
    pub enum Fate {
        /// Parsed as written.
        #[default]
        Good = "good",
        /// Parsed after a repair, or without some fields.
        Repaired = "repaired",
        /// The last line, complete except for its line terminator. It may still change.
        Provisional = "provisional",
        /// JSON, but not an object.
        Foreign = "foreign",
        /// Not JSON, or longer than board parses.
        Unreadable = "unreadable",
    }
}

impl Fate {
    /// Returns whether the line is an object whose fields can be shown.
    pub fn is_readable(self) -> bool {
        matches!(self, Fate::Good | Fate::Repaired | Fate::Provisional)
    }
}
