//! Defines how well a line could be parsed.

/// How well a line could be parsed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Fate {
    /// Parsed as written.
    #[default]
    Good,
    /// Parsed after a repair, or without some fields.
    Repaired,
    /// The last line, complete except for its line terminator. It may still change.
    Provisional,
    /// JSON, but not an object.
    Foreign,
    /// Not JSON, or longer than the board parses.
    Unreadable,
}

impl Fate {
    /// Returns whether the line is an object whose fields can be shown.
    pub fn is_readable(self) -> bool {
        matches!(self, Fate::Good | Fate::Repaired | Fate::Provisional)
    }
}
