//! Reads fields of any type without failing. These readers accept every JSON value.
//!
//! A derived struct rejects a whole line if one field has an unexpected type. Lines that other
//! programs wrote must not be lost for that reason, so each field is read as "the scalar, if it's
//! one", "the object, if it's one" or "the array, if it's one".

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use super::stated::Said;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

/// Defines structs for the fields of an object that board reads. Each field may be missing and
/// has a type that accepts every value, so reading one fails only if the text isn't JSON.
macro_rules! wire {
    ($($(#[$meta:meta])* $vis:vis struct $name:ident<$life:lifetime> { $($field_vis:vis $field:ident: $type:ty),* $(,)? })*) => {
        $(
            $(#[$meta])*
            #[derive(Debug, Default, serde::Deserialize)]
            #[serde(default)]
            $vis struct $name<$life> {
                $(#[serde(borrow)] $field_vis $field: $type,)*
            }
        )*
    };
}

pub(crate) use wire;

/// A scalar of any type. The content of arrays and objects is skipped.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) enum Scalar<'a> {
    #[default]
    Absent,
    Null,
    Bool(bool),
    Int(i64),
    Float(f64),
    Str(Cow<'a, str>),
    Array,
    Object,
}

impl<'a> Scalar<'a> {
    /// Reads a value whose syntax was checked. Returns `None` if it can't be decoded: a number too
    /// large for any type, or half of a surrogate pair.
    pub(crate) fn of(value: &'a str) -> Option<Self> {
        match value.bytes().next()? {
            b'[' => Some(Scalar::Array),
            b'{' => Some(Scalar::Object),
            b'"' => super::json::walk::string(value).map(Scalar::Str),
            _ => serde_json::from_str(value).ok(),
        }
    }
}

impl Scalar<'_> {
    pub(crate) fn str(&self) -> Option<&str> {
        match self {
            Scalar::Str(text) => Some(text),
            _ => None,
        }
    }

    /// Returns the text of a nonempty string.
    pub(crate) fn text(&self) -> Option<&str> {
        self.str().filter(|text| !text.is_empty())
    }

    pub(crate) fn bool(&self) -> Option<bool> {
        match self {
            Scalar::Bool(value) => Some(*value),
            _ => None,
        }
    }

    /// Returns a finite number.
    pub(crate) fn number(&self) -> Option<f64> {
        match self {
            Scalar::Int(value) => Some(*value as f64),
            Scalar::Float(value) => Some(*value).filter(|value| value.is_finite()),
            _ => None,
        }
    }

    /// Returns an integer, even if spelled `1.0`.
    pub(crate) fn int(&self) -> Option<i64> {
        match self {
            Scalar::Int(value) => Some(*value),
            Scalar::Float(value) if value.fract() == 0.0 && value.abs() < 9e15 => {
                Some(*value as i64)
            }
            _ => None,
        }
    }

    /// Returns what the value states in place of a text, or `None` if it's a text or missing.
    pub(crate) fn odd(&self) -> Option<Said> {
        Some(match self {
            Scalar::Absent | Scalar::Str(_) => return None,
            Scalar::Null => Said::Null,
            Scalar::Bool(value) => Said::Other(value.to_string().into()),
            Scalar::Int(value) => Said::Other(value.to_string().into()),
            Scalar::Float(value) => Said::Other(value.to_string().into()),
            Scalar::Array | Scalar::Object => Said::Other(self.type_name().into()),
        })
    }

    /// Returns the type in words, for issues.
    pub(crate) fn type_name(&self) -> &'static str {
        match self {
            Scalar::Absent => "missing",
            Scalar::Null => "null",
            Scalar::Bool(_) => "a boolean",
            Scalar::Int(_) => "a number",
            Scalar::Float(_) => "a decimal number",
            Scalar::Str(_) => "a string",
            Scalar::Array => "an array",
            Scalar::Object => "an object",
        }
    }
}

struct ScalarVisitor;

impl<'de> Visitor<'de> for ScalarVisitor {
    type Value = Scalar<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }
    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(Scalar::Null)
    }
    fn visit_bool<E>(self, value: bool) -> Result<Self::Value, E> {
        Ok(Scalar::Bool(value))
    }
    fn visit_i64<E>(self, value: i64) -> Result<Self::Value, E> {
        Ok(Scalar::Int(value))
    }
    fn visit_u64<E>(self, value: u64) -> Result<Self::Value, E> {
        Ok(i64::try_from(value).map_or(Scalar::Float(value as f64), Scalar::Int))
    }
    fn visit_f64<E>(self, value: f64) -> Result<Self::Value, E> {
        Ok(Scalar::Float(value))
    }
    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
        Ok(Scalar::Str(Cow::Borrowed(text)))
    }
    fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
        Ok(Scalar::Str(Cow::Owned(text.to_owned())))
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        while seq.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Scalar::Array)
    }
    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(Scalar::Object)
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Scalar<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ScalarVisitor)
    }
}

/// An object read as `T`, or the scalar or array found instead.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Maybe<'a, T> {
    Value(T),
    Other(Scalar<'a>),
}

impl<T> Default for Maybe<'_, T> {
    fn default() -> Self {
        Maybe::Other(Scalar::Absent)
    }
}

impl<T> Maybe<'_, T> {
    pub(crate) fn value(&self) -> Option<&T> {
        match self {
            Maybe::Value(value) => Some(value),
            Maybe::Other(_) => None,
        }
    }
}

macro_rules! forward_scalars {
    ($wrap:path) => {
        fn visit_unit<E: serde::de::Error>(self) -> Result<Self::Value, E> {
            ScalarVisitor.visit_unit().map($wrap)
        }
        fn visit_bool<E: serde::de::Error>(self, value: bool) -> Result<Self::Value, E> {
            ScalarVisitor.visit_bool(value).map($wrap)
        }
        fn visit_i64<E: serde::de::Error>(self, value: i64) -> Result<Self::Value, E> {
            ScalarVisitor.visit_i64(value).map($wrap)
        }
        fn visit_u64<E: serde::de::Error>(self, value: u64) -> Result<Self::Value, E> {
            ScalarVisitor.visit_u64(value).map($wrap)
        }
        fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<Self::Value, E> {
            ScalarVisitor.visit_f64(value).map($wrap)
        }
        fn visit_borrowed_str<E: serde::de::Error>(self, text: &'de str) -> Result<Self::Value, E> {
            ScalarVisitor.visit_borrowed_str(text).map($wrap)
        }
        fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Self::Value, E> {
            ScalarVisitor.visit_str(text).map($wrap)
        }
    };
}

impl<'de: 'a, 'a, T: Deserialize<'de>> Deserialize<'de> for Maybe<'a, T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct MaybeVisitor<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for MaybeVisitor<T> {
            type Value = Maybe<'de, T>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("any value")
            }
            forward_scalars!(Maybe::Other);
            fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<Self::Value, A::Error> {
                ScalarVisitor.visit_seq(seq).map(Maybe::Other)
            }
            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
                T::deserialize(MapAccessDeserializer::new(map)).map(Maybe::Value)
            }
        }
        deserializer.deserialize_any(MaybeVisitor(PhantomData))
    }
}

/// Maximum number of items of an array that [`Many`] keeps.
const MAX_ITEMS: usize = 4_096;

/// An array read item by item as `T`, or the value found instead.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Many<'a, T> {
    pub(crate) items: Vec<T>,
    pub(crate) instead: Option<Scalar<'a>>,
}

impl<T> Default for Many<'_, T> {
    fn default() -> Self {
        Many {
            items: Vec::new(),
            instead: None,
        }
    }
}

impl<'a, T> Many<'a, T> {
    fn other(scalar: Scalar<'a>) -> Self {
        Many {
            items: Vec::new(),
            instead: Some(scalar),
        }
    }
}

impl<'de: 'a, 'a, T: Deserialize<'de>> Deserialize<'de> for Many<'a, T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ManyVisitor<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for ManyVisitor<T> {
            type Value = Many<'de, T>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("any value")
            }
            forward_scalars!(Many::other);
            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
                ScalarVisitor.visit_map(map).map(Many::other)
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
                let mut items = Vec::new();
                while items.len() < MAX_ITEMS {
                    let Some(item) = seq.next_element()? else {
                        return Ok(Many {
                            items,
                            instead: None,
                        });
                    };
                    items.push(item);
                }
                while seq.next_element::<IgnoredAny>()?.is_some() {}
                Ok(Many {
                    items,
                    instead: None,
                })
            }
        }
        deserializer.deserialize_any(ManyVisitor(PhantomData))
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    #[derive(Debug, Default, Deserialize)]
    #[serde(default)]
    struct Wire<'a> {
        #[serde(borrow)]
        id: Scalar<'a>,
        #[serde(borrow)]
        inner: Maybe<'a, Inner<'a>>,
        #[serde(borrow)]
        list: Many<'a, Maybe<'a, Inner<'a>>>,
    }

    #[derive(Debug, Default, Deserialize)]
    #[serde(default)]
    struct Inner<'a> {
        #[serde(borrow)]
        x: Scalar<'a>,
    }

    #[test]
    fn every_type_is_accepted_everywhere() {
        for value in [
            "null",
            "true",
            "3",
            "-1.5",
            "1e300",
            "\"s\"",
            "[1,[2]]",
            "{\"x\":{\"y\":1}}",
        ] {
            let text =
                format!("{{\"id\":{value},\"inner\":{value},\"list\":{value},\"else\":{value}}}");
            serde_json::from_str::<Wire<'_>>(&text).unwrap();
            let text = format!("{{\"list\":[{value},{value}]}}");
            assert_eq!(
                serde_json::from_str::<Wire<'_>>(&text)
                    .unwrap()
                    .list
                    .items
                    .len(),
                2
            );
        }
    }

    #[test]
    fn whole_numbers_may_be_spelled_as_floats() {
        let wire: Wire<'_> = serde_json::from_str(r#"{"id": 7.0, "inner": {"x": 1.5}}"#).unwrap();
        assert_eq!(wire.id.int(), Some(7));
        assert_eq!(wire.inner.value().unwrap().x.int(), None);
    }
}
