//! Errors for people: what happened, why, and what to do next.
//!
//! Independent of HTTP and terminal colors. `serve` and `cli` turn an [`Error`] into a page or
//! text.

use std::fmt;

/// An error with its kind, cause and hints.
///
/// `{}` prints only the message, for callers that walk the causes themselves. `{:#}` prints
/// everything on one line: the message, its causes and its hints. `{:?}` prints the same as `{:#}`,
/// so `?` in `main` and `unwrap` show the full error:
///
/// ```
/// use trace_board::{Error, Kind};
///
/// let cause = std::io::Error::other("the disk is full");
/// let error = Error::new(Kind::Unreadable, "cannot write the run").because(cause).hint("make room");
/// assert_eq!(format!("{error}"), "cannot write the run");
/// assert_eq!(format!("{error:#}"), "cannot write the run: the disk is full (hint: make room)");
/// assert_eq!(format!("{error:?}"), format!("{error:#}"));
/// ```
pub struct Error {
    kind: Kind,
    message: String,
    hints: Vec<String>,
    source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

/// Rewrites a parser's message, which names types of the code, in plain words.
pub(crate) fn in_plain_words(message: &str) -> String {
    let mut words = message
        .replace("unknown variant", "unknown value")
        .replace("unknown field", "unknown key");
    if words.starts_with("unknown ") {
        words = words
            .replacen(", expected one of ", "; use one of ", 1)
            .replacen(", expected ", "; use ", 1);
    }
    if let Some(key) = words.strip_prefix("missing field ") {
        words = format!("{key} is missing");
    }
    let invalid = words.strip_prefix("invalid type: ");
    let invalid = invalid.or_else(|| words.strip_prefix("invalid value: "));
    let Some((found, expected)) = invalid.and_then(|rest| rest.rsplit_once(", expected ")) else {
        return words;
    };
    let expected = match expected {
        "u64" | "u32" | "usize" => "a whole number ≥ 0",
        "i64" => "a whole number",
        "f64" => "a number",
        "a sequence" => "a list",
        "a boolean" => "true or false",
        "a map" => "a table of keys and values",
        other => other,
    };
    format!("must be {expected}, not {}", literal(found))
}

/// Returns a value as it was written. The parser puts its type before it: ``integer `-1` ``.
fn literal(found: &str) -> &str {
    if let Some(text) = found.strip_prefix("string ") {
        return text;
    }
    let quoted = ["integer ", "floating point ", "boolean "]
        .into_iter()
        .find_map(|kind| {
            found
                .strip_prefix(kind)?
                .strip_prefix('`')?
                .strip_suffix('`')
        });
    match found {
        "sequence" => "a list",
        "map" => "a table",
        other => quoted.unwrap_or(other),
    }
}

/// The kind of an [`Error`]. Determines the exit code and the HTTP status.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// The request itself is wrong, such as a bad argument or value.
    Usage,
    /// The requested thing doesn't exist.
    NotFound,
    /// The thing exists but can't be read or used.
    Unreadable,
    /// A bug in board itself.
    Bug,
}

/// The result of a fallible operation in this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// Creates an error of the given kind. `message` names the thing and what is wrong with it.
    pub fn new(kind: Kind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
            hints: Vec::new(),
            source: None,
        }
    }

    /// Adds one sentence of advice.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hints.push(hint.into());
        self
    }

    /// Sets the underlying cause.
    #[must_use]
    pub fn because(mut self, source: impl std::error::Error + Send + Sync + 'static) -> Self {
        self.source = Some(Box::new(source));
        self
    }

    /// Returns the kind of error.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Returns the hints, one sentence each.
    pub fn hints(&self) -> &[String] {
        &self.hints
    }

    /// Returns the process exit code: 2 for wrong usage, 3 for not found or unreadable, and 70 for
    /// a bug in board (BSD `EX_SOFTWARE`).
    pub fn exit_code(&self) -> u8 {
        match self.kind {
            Kind::Usage => 2,
            Kind::NotFound | Kind::Unreadable => 3,
            Kind::Bug => 70,
        }
    }
}

/// Returns the messages of an error's causes, starting with the direct cause.
pub fn causes(error: &Error) -> impl Iterator<Item = String> {
    let first = std::error::Error::source(error);
    let all = std::iter::successors(first, |cause| cause.source()).map(ToString::to_string);
    // Some libraries repeat a cause in the text of the error around it.
    let mut before = String::new();
    all.filter(move |cause| {
        let is_new = !before.ends_with(cause.as_str());
        before.clone_from(cause);
        is_new
    })
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        if f.alternate() {
            causes(self).try_for_each(|cause| write!(f, ": {cause}"))?;
            if !self.hints.is_empty() {
                write!(f, " (hint: {})", self.hints.join("; "))?;
            }
        }
        Ok(())
    }
}

/// Prints the same text as `{:#}`, for programs that return the error from `main`.
impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:#}")
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.as_deref().map(|source| source as _)
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    #[test]
    fn a_value_may_contain_the_words_of_the_parser() {
        assert_eq!(
            in_plain_words("invalid type: string \"a, expected b\", expected u64"),
            "must be a whole number ≥ 0, not \"a, expected b\""
        );
    }

    #[test]
    fn a_wrong_value_is_shown_as_it_is_written() {
        for (message, words) in [
            (
                "invalid value: integer `-1`, expected u64",
                "must be a whole number ≥ 0, not -1",
            ),
            (
                "invalid type: integer `3`, expected a string",
                "must be a string, not 3",
            ),
            (
                "invalid type: boolean `true`, expected f64",
                "must be a number, not true",
            ),
            (
                "invalid type: sequence, expected a map",
                "must be a table of keys and values, not a list",
            ),
            (
                "unknown variant `x`, expected one of `a`, `b`, `c`",
                "unknown value `x`; use one of `a`, `b`, `c`",
            ),
            (
                "unknown field `x`, expected `a` or `b`",
                "unknown key `x`; use `a` or `b`",
            ),
        ] {
            assert_eq!(in_plain_words(message), words);
        }
    }

    #[test]
    fn the_alternate_form_shows_the_whole_error() {
        #[derive(Debug)]
        struct Outer(io::Error);
        impl fmt::Display for Outer {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("the file cannot be read")
            }
        }
        impl std::error::Error for Outer {
            fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
                Some(&self.0)
            }
        }
        let error = Error::new(Kind::Usage, "no rules").because(Outer(io::Error::other("no disk")));
        assert_eq!(error.to_string(), "no rules");
        assert_eq!(
            format!("{error:#}"),
            "no rules: the file cannot be read: no disk"
        );
        let error = error.hint("mount it").hint("or name another");
        let all = "no rules: the file cannot be read: no disk (hint: mount it; or name another)";
        assert_eq!(format!("{error:#}"), all);
        assert_eq!(format!("{error:?}"), all);
        assert_eq!(format!("{error:#?}"), all);
        assert_eq!(error.to_string(), "no rules");
    }
}
