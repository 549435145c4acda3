//! Declares the fixed words of traces and pages, with one enum for each list of words.

/// Declares an enum whose variants are written as the given words, in JSON and by `as_str`.
macro_rules! words {
    ($(#[$meta:meta])* $vis:vis enum $name:ident { $($(#[$doc:meta])* $variant:ident = $word:literal,)* }) => {
        #[derive(
            Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash,
            serde::Serialize, serde::Deserialize, schemars::JsonSchema,
        )]
        $(#[$meta])*
        $vis enum $name {
            $($(#[$doc])* #[serde(rename = $word)] $variant,)*
        }

        impl $name {
            /// All values, in order.
            #[allow(dead_code, reason = "not every list of words is iterated")]
            $vis const ALL: [$name; [$($word),*].len()] = [$($name::$variant),*];

            /// Returns the value as written.
            #[allow(dead_code, reason = "some words are only written as JSON")]
            $vis fn as_str(self) -> &'static str {
                match self {
                    $($name::$variant => $word,)*
                }
            }
        }
    };
}

/// Declares an enum like [`words`] that also accepts unknown words.
macro_rules! open_words {
    (
        $(#[$meta:meta])*
        $vis:vis enum $name:ident, else $other:ident { $($(#[$doc:meta])* $variant:ident = $word:literal,)* }
    ) => {
        $(#[$meta])*
        #[derive(Debug, Clone, PartialEq, Eq)]
        #[non_exhaustive]
        $vis enum $name {
            $($(#[$doc])* $variant,)*
            /// Any other word.
            $other(Box<str>),
        }

        impl $name {
            /// All known values, in order.
            $vis const KNOWN: &'static [$name] = &[$($name::$variant),*];

            /// Returns the value as written.
            $vis fn as_str(&self) -> &str {
                match self {
                    $($name::$variant => $word,)*
                    $name::$other(word) => word,
                }
            }
        }

        impl From<&str> for $name {
            fn from(word: &str) -> Self {
                match word {
                    $($word => $name::$variant,)*
                    other => $name::$other(other.into()),
                }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.as_str())
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                Ok($name::from(&*String::deserialize(deserializer)?))
            }
        }
    };
}

pub(crate) use {open_words, words};

/// Formats an integer with commas between the thousands: `12,500`.
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}
