//! Defines what the file of a format provides: a [`Tool`] with a [`Reader`] for its records.

use std::ffi::OsStr;
use std::path::Path;

use super::{Draft, Shape};
use crate::model::Format;

/// A tool whose traces are read.
#[derive(Debug)]
pub struct Tool {
    /// The name of its traces, and what they can record.
    pub format: Format,
    /// How its files are split into records.
    pub shape: Shape,
    /// Whether a file with this name and beginning (at most
    /// [`HEAD_BYTES`](super::HEAD_BYTES)) is one of its traces.
    pub(super) is: fn(name: &str, head: &[u8]) -> bool,
    /// Creates a reader for one trace.
    pub(super) reader: fn() -> Box<dyn Reader>,
}

impl Tool {
    /// Creates a reader for one trace.
    pub fn reader(&self) -> Box<dyn Reader> {
        (self.reader)()
    }
}

/// Reads the records of one trace in order.
pub trait Reader: std::fmt::Debug + Send {
    /// Takes in a record: an object as JSON text, or any value in a document. Every record that is
    /// an object must become exactly one event.
    fn record(&mut self, record: Source<'_>, draft: &mut Draft<'_>);

    /// Takes in the second document of the run, if it has one, as JSON text.
    fn beside(&mut self, _text: &str) {}

    /// Takes in the newest lines of the file that repeats the records with an offset, or nothing if
    /// there is no such file. Returns whether the records so far were read with another offset.
    fn clock(&mut self, _lines: &str) -> bool {
        false
    }

    /// Called after the last available record was taken in. Records facts that depend on all
    /// records, such as how the run ended.
    fn look(&mut self, draft: &mut Draft<'_>);
}

/// A record and its origin.
#[derive(Debug, Clone, Copy)]
pub struct Source<'a> {
    /// Its JSON text.
    pub text: &'a str,
    /// The index of its path among the paths of [`Shape::Document`].
    pub path: usize,
    /// Its key, if that path matches any member of an object.
    pub key: &'a str,
    /// The path of the file.
    pub file: &'a Path,
}

impl<'a> Source<'a> {
    /// The name of the file, without directories.
    pub(super) fn name(&self) -> &'a str {
        self.file
            .file_name()
            .and_then(OsStr::to_str)
            .unwrap_or_default()
    }

    /// The name of its directory.
    pub(super) fn folder(&self) -> &'a str {
        self.file
            .parent()
            .and_then(Path::file_name)
            .and_then(OsStr::to_str)
            .unwrap_or_default()
    }
}
