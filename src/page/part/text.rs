//! Makes text from traces safe to show: on one line, with hidden characters visible.
//!
//! The templates escape markup. This module handles characters that are invisible or reorder their
//! neighbors.

use std::borrow::Cow;
use std::fmt;

use crate::analysis::format::{bytes, visible, visible_line};
use crate::model::names::{cut_at, first_chars};

/// Returns the first `max` characters as one visible line, and whether that is the whole text. A
/// truncated text ends with an ellipsis.
pub(crate) fn one_line(text: &str, max: usize) -> (String, bool) {
    match first_chars(text, max) {
        Some(start) => (format!("{}…", visible_line(start)), false),
        None => (visible_line(text).into_owned(), true),
    }
}

/// Converts a text of a trace for a template.
pub(crate) fn shown(text: impl AsRef<str>) -> Line {
    text.as_ref().into()
}

/// Longer lines are truncated; bytes. Names and summaries are short, and long texts are folded.
const MAX_LINE_BYTES: usize = 4_000;

/// One line of text without hidden characters, truncated if it is too long. Pages use this type for
/// all words that may come from a trace, so that [`visible_line`] can't be forgotten.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Line(String);

impl Line {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<&str> for Line {
    fn from(text: &str) -> Self {
        if text.len() <= MAX_LINE_BYTES {
            return Self(visible_line(text).into_owned());
        }
        let head = cut_at(text, MAX_LINE_BYTES);
        Self(format!(
            "{}… ({} in all)",
            visible_line(head),
            bytes(text.len() as u64)
        ))
    }
}

impl From<String> for Line {
    fn from(text: String) -> Self {
        if text.len() > MAX_LINE_BYTES {
            return Self::from(text.as_str());
        }
        match visible_line(&text) {
            Cow::Owned(visible) => Self(visible),
            Cow::Borrowed(_) => Self(text),
        }
    }
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A text of several lines without other hidden characters. The caller bounds its length.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Block(String);

impl Block {
    pub(crate) fn new(text: &str) -> Self {
        Self(visible(text).into_owned())
    }

    /// Returns the first lines and characters of a text, with an ellipsis if there are more.
    pub(crate) fn beginning(text: &str, max_lines: usize, max_chars: usize) -> Self {
        let text = text.trim_end();
        let end = text
            .match_indices('\n')
            .nth(max_lines.saturating_sub(1))
            .map_or(text.len(), |(at, _)| at);
        let lines = text.get(..end).unwrap_or(text);
        let shown = first_chars(lines, max_chars).unwrap_or(lines);
        let more = if shown.len() < text.len() { "…" } else { "" };
        Self(format!("{}{more}", visible(shown)))
    }
}

impl fmt::Display for Block {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Quotes a text as one word of a shell command. Invisible characters become escapes that bash and
/// zsh understand.
pub(crate) fn shell_word(text: &str) -> String {
    let is_plain = |c: char| {
        c.is_ascii_alphanumeric()
            || matches!(c, '/' | '.' | '_' | '-' | '+' | ':' | '@' | '%' | ',')
    };
    if text.starts_with('-') {
        return shell_word(&format!("./{text}"));
    }
    if !text.is_empty() && text.chars().all(is_plain) {
        return text.to_owned();
    }
    if visible_line(text) == text {
        return format!("'{}'", text.replace('\'', "'\\''"));
    }
    let mut word = String::from("$'");
    for c in text.chars() {
        let shown = String::from(c);
        match c {
            '\'' | '\\' => word.extend(['\\', c]),
            _ if visible_line(&shown) == shown => word.push(c),
            _ if u32::from(c) < 0x80 => word.push_str(&format!("\\x{:02x}", u32::from(c))),
            _ => word.push_str(&format!("\\U{:08x}", u32::from(c))),
        }
    }
    word.push('\'');
    word
}

#[cfg(test)]
mod tests {
    use crate::page::part::text::*;

    #[test]
    fn lines_hide_nothing() {
        assert_eq!(
            Line::from("a\r\n\tb\u{202e}\u{0}").as_str(),
            "a↵⇥b⟨U+202E⟩␀"
        );
        assert_eq!(Line::from("plain".to_owned()).as_str(), "plain");
    }

    #[test]
    fn a_line_that_is_none_is_cut() {
        let line = Line::from("é".repeat(MAX_LINE_BYTES));
        assert!(
            line.as_str().starts_with("éé")
                && line.as_str().contains("é… (")
                && line.as_str().ends_with(" in all)"),
            "{line}"
        );
        assert!(line.as_str().len() < MAX_LINE_BYTES + 40);
    }

    #[test]
    fn a_word_of_a_shell_is_one_word_and_hides_nothing() {
        assert_eq!(shell_word("runs/fix_bug"), "runs/fix_bug");
        assert_eq!(shell_word("a b's/$(x)"), r"'a b'\''s/$(x)'");
        assert_eq!(
            shell_word("a'\n\u{202e}\u{1b}é"),
            r"$'a\'\x0a\U0000202e\x1bé'"
        );
        assert_eq!(
            (shell_word("").as_str(), shell_word("-rf").as_str()),
            ("''", "./-rf")
        );
    }

    #[test]
    fn a_cut_line_says_so() {
        assert_eq!(one_line("añb", 3), ("añb".to_owned(), true));
        assert_eq!(one_line("añbc", 3), ("añb…".to_owned(), false));
    }
}
