//! Defines why a record wasn't written.

use std::fmt;
use std::io;
use std::path::PathBuf;

use crate::model::MAX_LINE_BYTES;
use crate::model::strict::NotJson;

/// Why a record wasn't written. No part of it is in the file.
#[derive(Debug)]
#[non_exhaustive]
pub enum WriteError {
    /// The system returned an error.
    Io {
        /// The file that couldn't be written.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The record contains a value that can't be JSON.
    NotJson {
        /// The record: `step 3`, `event DECIDE of step 3`, `the manifest`.
        record: String,
        /// The path to the value, and the reason.
        source: NotJson,
    },
    /// The line is too long for readers to parse.
    TooLong {
        /// The record.
        record: String,
        /// Its length in bytes.
        bytes: u64,
    },
    /// A step id isn't the previous one plus one.
    StepOrder {
        /// The expected id.
        expected: u64,
        /// The actual id.
        got: u64,
    },
    /// A method was called in the wrong state, with an explanation.
    OutOfTurn(&'static str),
}

impl fmt::Display for WriteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WriteError::Io { path, .. } => write!(f, "can't write {}", path.display()),
            WriteError::NotJson { record, .. } => write!(f, "{record} can't be written as JSON"),
            WriteError::TooLong { record, bytes } => {
                write!(
                    f,
                    "{record} has {bytes} bytes, more than the limit of {MAX_LINE_BYTES} a line"
                )
            }
            WriteError::StepOrder { expected, got } => {
                write!(f, "expected step {expected}, got step {got}")
            }
            WriteError::OutOfTurn(why) => f.write_str(why),
        }
    }
}

impl std::error::Error for WriteError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            WriteError::Io { source, .. } => Some(source),
            WriteError::NotJson { source, .. } => Some(source),
            _ => None,
        }
    }
}
