//! What went wrong, said to a person: what, why, and what to do next.
//!
//! Knows no HTTP and no terminal colours; `web` and `cli` turn an [`Error`] into a page or into text.

use std::fmt;

/// A failure with the advice that goes with it.
///
/// `{}` is the message alone, for callers that walk the causes themselves. `{:#}` is all of it on one line: the message,
/// its causes, the hints. `{:?}` is the same, so that `?` out of `main` and `unwrap` tell it to a person:
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

/// Which kind of failure it is; decides the exit code and the HTTP status.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// The request itself is wrong: a bad argument, a bad value.
    Usage,
    /// The thing asked for is not there.
    NotFound,
    /// The thing is there and cannot be read or used.
    Unreadable,
    /// A fault of the board itself.
    Bug,
}

/// The result of everything here that can fail.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// Makes an error of `kind`; `message` names the thing and what is wrong with it.
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

    /// Adds the underlying cause.
    #[must_use]
    pub fn because(mut self, source: impl std::error::Error + Send + Sync + 'static) -> Self {
        self.source = Some(Box::new(source));
        self
    }

    /// The kind of failure.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Advice, one sentence each.
    pub fn hints(&self) -> &[String] {
        &self.hints
    }

    /// The process exit code: 2 wrong usage, 3 not found or unreadable, 70 a bug of ours (BSD `EX_SOFTWARE`).
    pub fn exit_code(&self) -> u8 {
        match self.kind {
            Kind::Usage => 2,
            Kind::NotFound | Kind::Unreadable => 3,
            Kind::Bug => 70,
        }
    }
}

/// The causes of an error in words, from the nearest to the first.
pub fn causes(error: &Error) -> impl Iterator<Item = String> {
    let first = std::error::Error::source(error);
    std::iter::successors(first, |cause| cause.source()).map(ToString::to_string)
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

/// The text of `{:#}`: what a program prints that returns the error from `main`.
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
    fn all_of_an_error_is_told_where_that_is_asked_for() {
        #[derive(Debug)]
        struct Outer(io::Error);
        impl fmt::Display for Outer {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("the file is unread")
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
            "no rules: the file is unread: no disk"
        );
        let error = error.hint("mount it").hint("or name another");
        let all = "no rules: the file is unread: no disk (hint: mount it; or name another)";
        assert_eq!(format!("{error:#}"), all);
        assert_eq!(format!("{error:?}"), all);
        assert_eq!(format!("{error:#?}"), all);
        assert_eq!(error.to_string(), "no rules");
    }
}
