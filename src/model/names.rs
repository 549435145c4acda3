//! Interns the names in a run. Phases, stages, tools, critics and state keys repeat thousands of
//! times, so each name is stored once and represented by a small number.

use std::borrow::Cow;
use std::collections::HashMap;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A name in the [`Names`] of its run. The default is the empty name.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Default, Hash, PartialOrd, Ord, Serialize, Deserialize,
)]
pub struct Symbol(u16);

/// Maximum number of distinct names. Later ones all read as [`OVERFLOW`]. Real runs have a few dozen, but a
/// file whose state has a million keys must not fill the memory.
const MAX_NAMES: usize = 20_000;
/// Names longer than this many bytes are truncated, with an ellipsis at the end.
const MAX_NAME_BYTES: usize = 256;
/// The text of every name beyond the first 20,000.
pub const OVERFLOW: &str = "(too many distinct names)";

/// Maximum number of distinct messages among the names. A run with many errors must not use up the names of
/// its tools.
const MAX_MESSAGES: usize = 2_000;

/// The names of one run, in order of appearance.
#[derive(Debug, Clone, Default)]
pub struct Names {
    list: Vec<Box<str>>,
    by_name: HashMap<Box<str>, Symbol>,
    /// The number of names that were first seen as messages.
    messages: usize,
}

impl Names {
    /// Returns the symbol of `name`, creating one if the name is new.
    pub fn intern(&mut self, name: &str) -> Symbol {
        if name.is_empty() {
            return Symbol::default();
        }
        if let Some(symbol) = self.by_name.get(name) {
            return *symbol;
        }
        if self.list.len() >= MAX_NAMES {
            return Symbol(u16::MAX);
        }
        if name.len() > MAX_NAME_BYTES {
            let cut = cut_at(name, MAX_NAME_BYTES - '…'.len_utf8());
            return self.intern(&format!("{cut}…"));
        }
        // Symbol 0 is the empty name, so the first name is 1. MAX_NAMES fits in 16 bits.
        let symbol = Symbol(u16::try_from(self.list.len() + 1).unwrap_or(u16::MAX));
        self.list.push(name.into());
        self.by_name.insert(name.into(), symbol);
        symbol
    }

    /// Returns the symbol of a message. Reads as [`OVERFLOW`] after 2,000 distinct ones.
    pub(crate) fn intern_message(&mut self, message: &str) -> Symbol {
        if self.messages >= MAX_MESSAGES && self.find(message).is_none() {
            return Symbol(u16::MAX);
        }
        let known = self.list.len();
        let symbol = self.intern(message);
        self.messages += usize::from(self.list.len() > known);
        symbol
    }

    /// Returns the symbol of a known name.
    pub fn find(&self, name: &str) -> Option<Symbol> {
        self.by_name.get(name).copied()
    }

    /// Returns the text of a symbol.
    pub fn get(&self, symbol: Symbol) -> &str {
        match usize::from(symbol.0).checked_sub(1) {
            None => "",
            Some(index) => self.list.get(index).map_or(OVERFLOW, |name| name),
        }
    }

    /// Returns the number of names.
    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// Returns whether there are no names.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Returns the names from position `from`, for a reader that already has the earlier ones.
    pub fn since(&self, from: usize) -> &[Box<str>] {
        self.list.get(from..).unwrap_or_default()
    }

    /// Appends names that another copy assigned after this one's last.
    pub(crate) fn extend(&mut self, names: &[Box<str>]) {
        for name in names {
            self.intern(name);
        }
    }
}

impl Serialize for Names {
    fn serialize<S: Serializer>(&self, target: S) -> Result<S::Ok, S::Error> {
        (&self.list, self.messages).serialize(target)
    }
}

impl<'de> Deserialize<'de> for Names {
    fn deserialize<D: Deserializer<'de>>(source: D) -> Result<Self, D::Error> {
        let (list, messages) = <(Vec<Box<str>>, usize)>::deserialize(source)?;
        let mut names = Self {
            messages,
            ..Self::default()
        };
        names.extend(&list);
        Ok(names)
    }
}

/// Returns the longest prefix of `text` that has at most `max` bytes and ends between characters.
pub fn cut_at(text: &str, max: usize) -> &str {
    text.get(..text.floor_char_boundary(max)).unwrap_or(text)
}

/// Returns the first `max` characters of `text`, or `None` if it has no more than that.
pub fn first_chars(text: &str, max: usize) -> Option<&str> {
    let (end, _) = text.char_indices().nth(max)?;
    text.get(..end)
}

/// Returns the first `max` characters of `text`, with an ellipsis if it has more.
pub fn clipped(text: &str, max: usize) -> Cow<'_, str> {
    first_chars(text, max).map_or(Cow::Borrowed(text), |start| Cow::Owned(format!("{start}…")))
}

/// Answers are truncated to this many bytes wherever they are kept, so that two copies of an answer
/// stay equal.
pub(crate) const MAX_ANSWER_BYTES: usize = 2_000;

/// Makes the first letter lowercase, unless the first word is an abbreviation: `API error`.
pub(crate) fn lowered(text: &str) -> String {
    let mut rest = text.chars();
    let first = rest.next();
    if rest.clone().next().is_some_and(char::is_uppercase) {
        return text.to_owned();
    }
    first.map_or_else(String::new, |first| {
        first.to_lowercase().chain(rest).collect()
    })
}

/// Returns "the critic style", or only the name if it begins with the word: "critic 1".
pub(crate) fn the_critic(name: &str) -> Cow<'_, str> {
    match name.split_once(' ') {
        Some(("critic", _)) => name.into(),
        _ => format!("the critic {name}").into(),
    }
}

/// Returns `text`, truncated to `max` bytes with an ellipsis if it's longer.
pub(crate) fn capped(text: &str, max: usize) -> Box<str> {
    if text.len() <= max {
        text.into()
    } else {
        format!("{}…", cut_at(text, max)).into_boxed_str()
    }
}

impl PartialEq for Names {
    fn eq(&self, other: &Self) -> bool {
        self.list == other.list
    }
}

/// Returns a name with its article: `an Aider session`.
pub(crate) fn with_article(name: &str) -> String {
    let article = match name.starts_with(['A', 'E', 'I', 'O']) {
        true => "an",
        false => "a",
    };
    format!("{article} {name}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_abbreviation_keeps_its_capitals() {
        assert_eq!(lowered("Turn limit reached"), "turn limit reached");
        assert_eq!(lowered("API error"), "API error");
        assert_eq!((lowered("A"), lowered("")), ("a".to_owned(), String::new()));
    }

    #[test]
    fn a_critic_is_not_called_one_twice() {
        assert_eq!(the_critic("critics"), "the critic critics");
        assert_eq!(the_critic("critic 1"), "critic 1");
    }
}
