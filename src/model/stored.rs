//! Stores parts of an index as bytes and reads them back, where their types alone don't say how.
//!
//! The bytes are read only by the build that wrote them, so they need no version.

use std::collections::HashSet;
use std::sync::{LazyLock, Mutex, PoisonError};

use serde::de::{DeserializeOwned, Error as _};
use serde::ser::Error as _;
use serde::{Deserialize as _, Deserializer, Serialize, Serializer};

/// A text from a table of this crate. A field of this type is read with [`word`]. Written out, serde
/// would borrow it from the bytes.
pub(super) type Word = &'static str;

/// The longest text that a table of this crate contains is shorter than this many bytes, and there
/// are fewer texts than this.
const MAX_WORD_BYTES: usize = 256;
const MAX_WORDS: usize = 4_096;

/// Reads a text that comes from a table of this crate.
///
/// # Errors
/// Fails for a text that is too long, or that is one too many.
pub(super) fn word<'de, D: Deserializer<'de>>(source: D) -> Result<Word, D::Error> {
    // Each text is leaked once, as if it were part of the program.
    static KNOWN: LazyLock<Mutex<HashSet<&'static str>>> = LazyLock::new(Mutex::default);
    let text = Box::<str>::deserialize(source)?;
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(word) = known.get(&*text) {
        return Ok(word);
    }
    if text.len() > MAX_WORD_BYTES || known.len() >= MAX_WORDS {
        return Err(D::Error::custom("not a word of this program"));
    }
    let word: &'static str = Box::leak(text);
    known.insert(word);
    Ok(word)
}

/// Stores a value as JSON, for types whose JSON omits members.
pub(super) mod as_json {
    use super::*;

    pub(in crate::model) fn serialize<T: Serialize, S: Serializer>(
        value: &T,
        target: S,
    ) -> Result<S::Ok, S::Error> {
        let json = serde_json::to_string(value).map_err(S::Error::custom)?;
        target.serialize_str(&json)
    }

    pub(in crate::model) fn deserialize<'de, T: DeserializeOwned, D: Deserializer<'de>>(
        source: D,
    ) -> Result<T, D::Error> {
        let json = Box::<str>::deserialize(source)?;
        serde_json::from_str(&json).map_err(D::Error::custom)
    }
}
