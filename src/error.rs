//! What went wrong, said to a person: what, why, and what to do next.
//!
//! Knows no HTTP and no terminal colours; `web` and `cli` turn an [`Error`] into a page or into text.

use std::fmt;

/// A failure with the advice that goes with it.
#[derive(Debug)]
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
        Self { kind, message: message.into(), hints: Vec::new(), source: None }
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
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.as_deref().map(|source| source as _)
    }
}
