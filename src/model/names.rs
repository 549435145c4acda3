//! Which names occur in a run? Phases, stages, tools, critics and state keys repeat thousands of times; each is
//! kept once and named by a small number.

use std::borrow::Cow;
use std::collections::HashMap;

/// A name in the [`Names`] of its run. The default is the empty name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash, PartialOrd, Ord)]
pub struct Symbol(u16);

/// At most this many names are kept apart; later ones all read as [`OVERFLOW`]. Real runs have some dozens; a file
/// whose state has a million keys must not fill the memory.
const MAX_NAMES: usize = 20_000;
/// A name longer than this many bytes is cut, with an ellipsis at its end.
const MAX_NAME_BYTES: usize = 256;
/// What a name beyond the first 20,000 reads as.
pub const OVERFLOW: &str = "(one of too many names)";

/// The names of one run, in order of appearance.
#[derive(Debug, Clone, Default)]
pub struct Names {
    list: Vec<Box<str>>,
    by_name: HashMap<Box<str>, Symbol>,
}

impl Names {
    /// The symbol of `name`, new if it was not seen before.
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
        // Symbol 0 is the empty name, so the first one is 1. MAX_NAMES fits in 16 bits.
        let symbol = Symbol(u16::try_from(self.list.len() + 1).unwrap_or(u16::MAX));
        self.list.push(name.into());
        self.by_name.insert(name.into(), symbol);
        symbol
    }

    /// The symbol of a name that was seen, without adding it.
    pub fn find(&self, name: &str) -> Option<Symbol> {
        self.by_name.get(name).copied()
    }

    /// The text of a symbol.
    pub fn get(&self, symbol: Symbol) -> &str {
        match usize::from(symbol.0).checked_sub(1) {
            None => "",
            Some(index) => self.list.get(index).map_or(OVERFLOW, |name| name),
        }
    }

    /// How many names there are.
    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// Whether no name was seen.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// The names from the `from`-th on, for a reader that already has the first ones.
    pub fn since(&self, from: usize) -> &[Box<str>] {
        self.list.get(from..).unwrap_or_default()
    }

    /// Appends names that another copy handed out after ours ended.
    pub(crate) fn extend(&mut self, names: &[Box<str>]) {
        for name in names {
            self.intern(name);
        }
    }
}

/// The longest start of `text` of at most `max` bytes that ends between characters.
pub fn cut_at(text: &str, max: usize) -> &str {
    text.get(..text.floor_char_boundary(max)).unwrap_or(text)
}

/// The first `max` characters of `text` where it has more; `None` where it is whole.
pub fn first_chars(text: &str, max: usize) -> Option<&str> {
    let (end, _) = text.char_indices().nth(max)?;
    text.get(..end)
}

/// The first `max` characters of `text`, with an ellipsis where that is not all.
pub fn clipped(text: &str, max: usize) -> Cow<'_, str> {
    first_chars(text, max).map_or(Cow::Borrowed(text), |start| Cow::Owned(format!("{start}…")))
}

/// An answer is cut to this many bytes wherever it is kept, so that two copies of one answer stay equal.
pub(crate) const MAX_ANSWER_BYTES: usize = 2_000;

/// `text`, cut to `max` bytes with an ellipsis where it is longer.
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
