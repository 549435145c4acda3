//! Keeps the rows of many runs small. A file may hold a hundred thousand runs, and their rows stay
//! in memory.

use std::borrow::Borrow;
use std::collections::HashSet;
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, PoisonError};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A value in the size of a pointer. Most runs have the default, which takes no memory.
#[derive(Debug, Clone, Default)]
pub struct Seldom<T>(Option<Box<T>>);

/// A type whose default is available as a reference.
pub trait Blank: Default + PartialEq + 'static {
    /// Returns the default.
    fn blank() -> &'static Self;
}

impl<T: Blank> From<T> for Seldom<T> {
    fn from(value: T) -> Self {
        Self((value != *T::blank()).then(|| Box::new(value)))
    }
}

impl<T: Blank> Deref for Seldom<T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.0.as_deref().unwrap_or_else(|| T::blank())
    }
}

impl<T: Blank> DerefMut for Seldom<T> {
    fn deref_mut(&mut self) -> &mut T {
        self.0.get_or_insert_default()
    }
}

impl<T: Blank> PartialEq for Seldom<T> {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl<T: Blank + Serialize> Serialize for Seldom<T> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(to)
    }
}

impl<'de, T: Blank + Deserialize<'de>> Deserialize<'de> for Seldom<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        Option::deserialize(from).map(Self)
    }
}

/// A text that many runs have in common, such as the name of a model. Equal short texts are one
/// allocation.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Shared(Arc<str>);

/// The shared texts.
static TEXTS: Mutex<Option<Texts>> = Mutex::new(None);
/// More texts aren't shared.
const MAX_TEXTS: usize = 4_096;
/// Longer texts aren't shared.
const MAX_BYTES: usize = 200;

#[derive(Default)]
struct Texts {
    known: HashSet<Arc<str>>,
    /// The number of texts that found no place.
    missed: usize,
}

impl Texts {
    fn share(&mut self, text: &str) -> Arc<str> {
        if let Some(known) = self.known.get(text) {
            return Arc::clone(known);
        }
        let text: Arc<str> = text.into();
        if self.known.len() >= MAX_TEXTS {
            // Sentences about runs that are being read are soon unused. To look for them each time would be slow.
            if self.missed.is_multiple_of(MAX_TEXTS) {
                self.known.retain(|known| Arc::strong_count(known) > 1);
            }
            self.missed += 1;
        }
        if self.known.len() < MAX_TEXTS {
            self.known.insert(Arc::clone(&text));
        }
        text
    }
}

impl Shared {
    /// Returns the text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<&str> for Shared {
    fn from(text: &str) -> Self {
        if text.len() > MAX_BYTES {
            return Self(text.into());
        }
        let mut texts = TEXTS.lock().unwrap_or_else(PoisonError::into_inner);
        Self(texts.get_or_insert_default().share(text))
    }
}

impl From<String> for Shared {
    fn from(text: String) -> Self {
        text.as_str().into()
    }
}

impl Default for Shared {
    fn default() -> Self {
        "".into()
    }
}

impl Deref for Shared {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl AsRef<str> for Shared {
    fn as_ref(&self) -> &str {
        self
    }
}

impl Borrow<str> for Shared {
    fn borrow(&self) -> &str {
        self
    }
}

impl PartialEq<str> for Shared {
    fn eq(&self, other: &str) -> bool {
        **self == *other
    }
}

impl PartialEq<&str> for Shared {
    fn eq(&self, other: &&str) -> bool {
        **self == **other
    }
}

impl PartialEq<String> for Shared {
    fn eq(&self, other: &String) -> bool {
        **self == **other
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}

impl fmt::Display for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&**self, f)
    }
}

impl Serialize for Shared {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        self.as_str().serialize(to)
    }
}

impl<'de> Deserialize<'de> for Shared {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        // A text in the cache may contain escapes, so it can't always be borrowed.
        std::borrow::Cow::<'de, str>::deserialize(from).map(|text| Self::from(&*text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unused_texts_make_room_for_others() {
        let mut texts = Texts::default();
        let kept = texts.share("kept");
        (0..MAX_TEXTS).for_each(|n| drop(texts.share(&format!("step {n}"))));
        let new = texts.share("new");
        assert!(texts.known.len() < 10);
        assert!(Arc::ptr_eq(&kept, &texts.share("kept")) && Arc::ptr_eq(&new, &texts.share("new")));
    }

    #[test]
    fn equal_short_texts_are_one_allocation() {
        let (a, b) = (
            Shared::from("one model"),
            Shared::from("one model".to_owned()),
        );
        assert!(Arc::ptr_eq(&a.0, &b.0));
        let long = "x".repeat(MAX_BYTES + 1);
        let (a, b) = (Shared::from(&*long), Shared::from(&*long));
        assert!(a == b && !Arc::ptr_eq(&a.0, &b.0));
        let json = serde_json::to_string(&Shared::from("a \"b\"")).unwrap();
        assert_eq!(serde_json::from_str::<Shared>(&json).unwrap(), "a \"b\"");
    }
}
