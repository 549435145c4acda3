//! Serializes values to JSON text that says exactly what the value says.
//!
//! `serde_json` silently writes `NaN` and the infinities as `null`, and a reader then mistakes a
//! computation error for a missing number. Here they are rejected with their path, or written as
//! words.

use std::fmt;

use serde::ser::{
    Error as _, Serialize, SerializeMap, SerializeSeq, SerializeStruct, SerializeStructVariant,
    SerializeTuple, SerializeTupleStruct, SerializeTupleVariant, Serializer,
};

/// How to handle numbers that JSON can't represent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NonFinite {
    /// Return an error, because a computation went wrong somewhere.
    Refuse,
    /// Write the strings `"NaN"`, `"Infinity"` and `"-Infinity"`. For user data that the trace only
    /// carries.
    AsText,
}

/// A value that can't be JSON, and the path to the fault.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotJson {
    /// The path, such as `critic_outputs[0].score`. Empty for the whole value.
    pub path: String,
    /// The fault, as the rest of a sentence: "is NaN".
    pub what: String,
}

impl NotJson {
    /// Returns the same fault, seen from a value that contains this one as `field`.
    #[must_use]
    pub fn inside(self, field: &str) -> Self {
        let path = match self.path.as_bytes().first() {
            None => field.to_owned(),
            Some(b'[') => format!("{field}{}", self.path),
            Some(_) => format!("{field}.{}", self.path),
        };
        Self { path, ..self }
    }
}

impl fmt::Display for NotJson {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = if self.path.is_empty() {
            "the value"
        } else {
            &self.path
        };
        write!(f, "{place} {}", self.what)
    }
}

impl std::error::Error for NotJson {}

/// Appends `value` to `out` as compact JSON. The text is byte for byte the same as that of
/// `serde_json`, unless that would lose information.
///
/// # Errors
/// Returns an error for a number that isn't finite, unless it should become text, for a map key
/// that is neither text nor a number, and for errors that the value itself reports. `out` is then
/// unchanged.
pub fn write_json<T: Serialize + ?Sized>(
    value: &T,
    non_finite: NonFinite,
    out: &mut Vec<u8>,
) -> Result<(), NotJson> {
    let start = out.len();
    let mut json = serde_json::Serializer::new(&mut *out);
    Checked { value, non_finite }
        .serialize(&mut json)
        .map_err(|error| {
            let path = place(out.get(start..).unwrap_or_default());
            out.truncate(start);
            let reason = error.to_string();
            let what = if NON_FINITE.contains(&&*reason) {
                reason
            } else {
                format!("can't be written as JSON: {reason}")
            };
            NotJson { path, what }
        })
}

/// Formats a JSON text over several lines, with an indentation of two spaces as in `serde_json`.
///
/// A second formatter would compile the serialization of every type a second time.
pub fn indented(json: &[u8]) -> Vec<u8> {
    fn new_line(out: &mut Vec<u8>, depth: usize) {
        out.push(b'\n');
        out.extend(std::iter::repeat_n(b' ', depth * 2));
    }
    let mut out = Vec::with_capacity(json.len() * 3 / 2);
    let mut depth = 0_usize;
    let mut opened = false;
    let mut rest = json;
    while let Some((&letter, tail)) = rest.split_first() {
        rest = tail;
        if letter.is_ascii_whitespace() {
            continue;
        }
        let closes = matches!(letter, b']' | b'}');
        if closes {
            depth = depth.saturating_sub(1);
        }
        if opened != closes {
            new_line(&mut out, depth);
        }
        opened = matches!(letter, b'[' | b'{');
        out.push(letter);
        match letter {
            b'[' | b'{' => depth += 1,
            b',' => new_line(&mut out, depth),
            b':' => out.push(b' '),
            b'"' => {
                let (string, tail) = tail.split_at((string_len(tail) + 1).min(tail.len()));
                out.extend_from_slice(string);
                rest = tail;
            }
            _ => {}
        }
    }
    out
}

const NON_FINITE: [&str; 3] = ["is NaN", "is Infinity", "is -Infinity"];

/// Returns the path of the value that would come next in an incomplete JSON text.
///
/// Parsing the text afterwards costs nothing on success, and works however a value calls its
/// serializer.
fn place(text: &[u8]) -> String {
    /// An open array with the index of its current item, or an open object with the quoted key of
    /// the member that lacks a value.
    enum Open<'a> {
        Array(usize),
        Object(Option<&'a [u8]>),
    }
    let mut open = Vec::new();
    let mut rest = text;
    while let Some((letter, tail)) = rest.split_first() {
        rest = tail;
        match (letter, open.last_mut()) {
            (b'[', _) => open.push(Open::Array(0)),
            (b'{', _) => open.push(Open::Object(None)),
            (b']' | b'}', _) => {
                open.pop();
                if let Some(Open::Object(key)) = open.last_mut() {
                    *key = None;
                }
            }
            (b',', Some(Open::Array(index))) => *index += 1,
            (b',', Some(Open::Object(key))) => *key = None,
            (b'"', top) => {
                let (string, tail) = tail.split_at(string_len(tail));
                rest = tail.get(1..).unwrap_or_default();
                if let Some(Open::Object(key)) = top {
                    *key = key.is_none().then_some(string);
                }
            }
            (b':', _) => {}
            (letter, Some(Open::Object(key))) if !letter.is_ascii_whitespace() => *key = None,
            _ => {}
        }
    }
    let mut path = String::new();
    for level in open {
        match level {
            Open::Array(index) => path.push_str(&format!("[{index}]")),
            Open::Object(None) => {}
            Open::Object(Some(key)) => {
                let key = String::from_utf8_lossy(key);
                let plain = key
                    .chars()
                    .all(|letter| letter.is_alphanumeric() || letter == '_')
                    && !key.is_empty();
                match (plain, path.is_empty()) {
                    (true, true) => path.push_str(&key),
                    (true, false) => path.push_str(&format!(".{key}")),
                    (false, _) => path.push_str(&format!("[\"{key}\"]")),
                }
            }
        }
    }
    path
}

/// Returns the distance to the quote that ends a string.
fn string_len(text: &[u8]) -> usize {
    let mut escaped = false;
    let end = text.iter().position(|letter| {
        let ends = *letter == b'"' && !escaped;
        escaped = *letter == b'\\' && !escaped;
        ends
    });
    end.unwrap_or(text.len())
}

/// A value that is serialized through [`Strict`], together with everything inside it.
struct Checked<'a, T: ?Sized> {
    value: &'a T,
    non_finite: NonFinite,
}

impl<T: Serialize + ?Sized> Serialize for Checked<'_, T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.value.serialize(Strict {
            inner: serializer,
            non_finite: self.non_finite,
        })
    }
}

/// A serializer, or a part of one, that checks every float before the inner one sees it.
struct Strict<S> {
    inner: S,
    non_finite: NonFinite,
}

impl<S> Strict<S> {
    fn check<'a, T: ?Sized>(&self, value: &'a T) -> Checked<'a, T> {
        Checked {
            value,
            non_finite: self.non_finite,
        }
    }
}

fn wrap<S, E>(inner: Result<S, E>, non_finite: NonFinite) -> Result<Strict<S>, E> {
    inner.map(|inner| Strict { inner, non_finite })
}

impl<S: Serializer> Strict<S> {
    fn odd(self, value: f64) -> Result<S::Ok, S::Error> {
        let [nan, plus, minus] = NON_FINITE;
        let word = if value.is_nan() {
            nan
        } else if value > 0.0 {
            plus
        } else {
            minus
        };
        match self.non_finite {
            NonFinite::Refuse => Err(S::Error::custom(word)),
            NonFinite::AsText => self.inner.serialize_str(word.trim_start_matches("is ")),
        }
    }
}

macro_rules! forward {
    ($($method:ident($($name:ident: $type:ty),*);)*) => {
        $(fn $method(self, $($name: $type),*) -> Result<Self::Ok, Self::Error> {
            self.inner.$method($($name),*)
        })*
    };
}

macro_rules! forward_open {
    ($($method:ident($($name:ident: $type:ty),*) -> $compound:ident;)*) => {
        $(fn $method(self, $($name: $type),*) -> Result<Self::$compound, Self::Error> {
            wrap(self.inner.$method($($name),*), self.non_finite)
        })*
    };
}

impl<S: Serializer> Serializer for Strict<S> {
    type Ok = S::Ok;
    type Error = S::Error;
    type SerializeSeq = Strict<S::SerializeSeq>;
    type SerializeTuple = Strict<S::SerializeTuple>;
    type SerializeTupleStruct = Strict<S::SerializeTupleStruct>;
    type SerializeTupleVariant = Strict<S::SerializeTupleVariant>;
    type SerializeMap = Strict<S::SerializeMap>;
    type SerializeStruct = Strict<S::SerializeStruct>;
    type SerializeStructVariant = Strict<S::SerializeStructVariant>;

    fn serialize_f32(self, value: f32) -> Result<S::Ok, S::Error> {
        if value.is_finite() {
            self.inner.serialize_f32(value)
        } else {
            self.odd(f64::from(value))
        }
    }

    fn serialize_f64(self, value: f64) -> Result<S::Ok, S::Error> {
        if value.is_finite() {
            self.inner.serialize_f64(value)
        } else {
            self.odd(value)
        }
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<S::Ok, S::Error> {
        let value = self.check(value);
        self.inner.serialize_some(&value)
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(
        self,
        name: &'static str,
        value: &T,
    ) -> Result<S::Ok, S::Error> {
        let value = self.check(value);
        self.inner.serialize_newtype_struct(name, &value)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        name: &'static str,
        index: u32,
        variant: &'static str,
        value: &T,
    ) -> Result<S::Ok, S::Error> {
        let value = self.check(value);
        self.inner
            .serialize_newtype_variant(name, index, variant, &value)
    }

    fn collect_str<T: fmt::Display + ?Sized>(self, value: &T) -> Result<S::Ok, S::Error> {
        self.inner.collect_str(value)
    }

    fn is_human_readable(&self) -> bool {
        self.inner.is_human_readable()
    }

    forward! {
        serialize_bool(value: bool);
        serialize_i8(value: i8);
        serialize_i16(value: i16);
        serialize_i32(value: i32);
        serialize_i64(value: i64);
        serialize_i128(value: i128);
        serialize_u8(value: u8);
        serialize_u16(value: u16);
        serialize_u32(value: u32);
        serialize_u64(value: u64);
        serialize_u128(value: u128);
        serialize_char(value: char);
        serialize_str(value: &str);
        serialize_bytes(value: &[u8]);
        serialize_none();
        serialize_unit();
        serialize_unit_struct(name: &'static str);
        serialize_unit_variant(name: &'static str, index: u32, variant: &'static str);
    }

    forward_open! {
        serialize_seq(len: Option<usize>) -> SerializeSeq;
        serialize_tuple(len: usize) -> SerializeTuple;
        serialize_tuple_struct(name: &'static str, len: usize) -> SerializeTupleStruct;
        serialize_tuple_variant(name: &'static str, index: u32, variant: &'static str, len: usize)
            -> SerializeTupleVariant;
        serialize_map(len: Option<usize>) -> SerializeMap;
        serialize_struct(name: &'static str, len: usize) -> SerializeStruct;
        serialize_struct_variant(name: &'static str, index: u32, variant: &'static str, len: usize)
            -> SerializeStructVariant;
    }
}

macro_rules! forward_items {
    ($($part:ident $method:ident;)*) => {
        $(impl<S: $part> $part for Strict<S> {
            type Ok = S::Ok;
            type Error = S::Error;
            fn $method<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), S::Error> {
                let value = self.check(value);
                self.inner.$method(&value)
            }
            fn end(self) -> Result<S::Ok, S::Error> {
                self.inner.end()
            }
        })*
    };
}

forward_items! {
    SerializeSeq serialize_element;
    SerializeTuple serialize_element;
    SerializeTupleStruct serialize_field;
    SerializeTupleVariant serialize_field;
}

macro_rules! forward_fields {
    ($($part:ident)*) => {
        $(impl<S: $part> $part for Strict<S> {
            type Ok = S::Ok;
            type Error = S::Error;
            fn serialize_field<T: Serialize + ?Sized>(&mut self, key: &'static str, value: &T) -> Result<(), S::Error> {
                let value = self.check(value);
                self.inner.serialize_field(key, &value)
            }
            fn skip_field(&mut self, key: &'static str) -> Result<(), S::Error> {
                self.inner.skip_field(key)
            }
            fn end(self) -> Result<S::Ok, S::Error> {
                self.inner.end()
            }
        })*
    };
}

forward_fields! { SerializeStruct SerializeStructVariant }

// The inner serializer handles keys. It rejects invalid ones, including floats that aren't finite.
impl<S: SerializeMap> SerializeMap for Strict<S> {
    type Ok = S::Ok;
    type Error = S::Error;

    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<(), S::Error> {
        self.inner.serialize_key(key)
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), S::Error> {
        let value = self.check(value);
        self.inner.serialize_value(&value)
    }

    fn serialize_entry<K: Serialize + ?Sized, V: Serialize + ?Sized>(
        &mut self,
        key: &K,
        value: &V,
    ) -> Result<(), S::Error> {
        let value = self.check(value);
        self.inner.serialize_entry(key, &value)
    }

    fn end(self) -> Result<S::Ok, S::Error> {
        self.inner.end()
    }
}

#[cfg(test)]
mod tests;
