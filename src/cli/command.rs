//! What the commands share: the help for RUN, their exit codes and failures, and their JSON.

use std::io::{self, Write};

use super::terminal::TerminalFilter;
use crate::error::Error;
use crate::model::names::first_chars;

/// The help text for RUN, shared by all commands.
pub(super) const RUN: &str =
    "A run as `board list` prints it: a directory, a file, or part of a file (LOG.eval/ID_epoch_N)";

/// The hint for a query with an unknown field.
pub(super) const FIELDS: &str = "`board list --help` lists all fields";

/// Prints a warning to stderr.
pub(super) fn warn(text: &str) {
    // If stderr is closed, there's no other place for it.
    let _ = writeln!(
        TerminalFilter::new(io::stderr(), &io::stderr()),
        "board: warning: {text}"
    );
}

/// The reason why a command failed.
#[derive(Debug)]
pub(super) enum Failure {
    /// An error for the user.
    Told(Error),
    /// The output can't be written.
    Output(io::Error),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Told(error)
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::Output(error)
    }
}

impl From<serde_json::Error> for Failure {
    fn from(error: serde_json::Error) -> Self {
        Self::Output(error.into())
    }
}

/// The exit code of a command that completed.
pub(super) type Done = std::result::Result<u8, Failure>;

/// Parses a whole number. The standard library's error doesn't say what is valid.
pub(super) fn whole_number<T: std::str::FromStr>(text: &str) -> std::result::Result<T, String> {
    text.parse()
        .map_err(|_| "must be a whole number ≥ 0".to_owned())
}

/// Truncates a text longer than `max` characters, and ends it with an ellipsis.
pub(super) fn cut(text: &str, max: usize) -> String {
    if first_chars(text, max).is_none() {
        return text.to_owned();
    }
    format!("{}…", first_chars(text, max - 1).unwrap_or_default())
}

/// Writes one JSON document, pretty-printed, followed by a newline.
pub(super) fn write_json(
    out: &mut dyn Write,
    document: &impl serde::Serialize,
) -> std::result::Result<(), Failure> {
    serde_json::to_writer_pretty(&mut *out, document)?;
    out.write_all(b"\n")?;
    Ok(())
}
