//! What the commands share: the help for RUN, their exit codes and failures, and their JSON.

use std::io::{self, Write};
use std::sync::Arc;

use jiff::civil::Date;

use super::config::{followed_tags, tag_file};
use super::look::Look;
use crate::analysis::query::{Clock, Query};
use crate::error::{Error, Kind};
use crate::live::FollowedTags;
use crate::model::names::first_chars;

/// The help text for RUN, shared by all commands.
pub(super) const RUN: &str =
    "The path of a run: its directory, its file, or part of a file (LOG.eval/ID_epoch_N)";

/// The hint for a query with a term that can't be used.
const FIELDS: &str = "`board list --help` lists all fields";

/// The days on which runs started.
#[derive(Debug, Clone, Copy, clap::Args)]
pub(super) struct Between {
    /// Only runs that started on this day or later
    #[arg(long, value_name = "YYYY-MM-DD", value_parser = day)]
    pub(super) since: Option<Date>,
    /// Only runs that started on this day or earlier
    #[arg(long, value_name = "YYYY-MM-DD", value_parser = day)]
    pub(super) until: Option<Date>,
}

impl Between {
    /// Checks that the first day isn't after the last.
    pub(super) fn check(self) -> std::result::Result<(), Error> {
        match self.since.zip(self.until) {
            Some((since, until)) if since > until => {
                let what = format!("--since {since} is after --until {until}");
                Err(Error::new(Kind::Usage, what))
            }
            _ => Ok(()),
        }
    }

    /// Returns the term of a query that selects the runs that started on these days.
    pub(super) fn term(self) -> Option<String> {
        let word = |day: Option<Date>| day.map(|day| day.to_string()).unwrap_or_default();
        let is_open = self.since.is_none() && self.until.is_none();
        (!is_open).then(|| format!("started:{}..{}", word(self.since), word(self.until)))
    }
}

/// Parses a day.
fn day(text: &str) -> std::result::Result<Date, String> {
    text.parse()
        .map_err(|_| format!("`{text}` isn't a date; use YYYY-MM-DD"))
}

/// Parses a query of a command. A page skips and lists a term that it can't use; for a command it's
/// an error, because the output may be read by a program.
pub(super) fn query(command: &str, text: &str, look: &Look) -> std::result::Result<Query, Error> {
    query_at(command, text, &Clock::at(look.now, &look.zone))
}

/// Parses a query whose dates are those of `clock`, as [`query`] does.
pub(super) fn query_at(
    command: &str,
    text: &str,
    clock: &Clock,
) -> std::result::Result<Query, Error> {
    // A query may begin with a hyphen, which negates a term, so clap takes an unknown option, or one
    // that stands where a query is missing, for a query.
    if let Some(option) = text.split(' ').next().filter(|word| word.starts_with("--")) {
        return Err(unknown_option(command, option));
    }
    let query = Query::parse_at(text, clock);
    match query.ignored.first() {
        Some(term) => {
            let what = format!("can't use the term {}: {}", term.text, term.why);
            Err(Error::new(Kind::Usage, what).hint(FIELDS))
        }
        None => Ok(query),
    }
}

/// Returns the error for an option that the command doesn't have.
pub(super) fn unknown_option(command: &str, option: &str) -> Error {
    Error::new(Kind::Usage, format!("unknown option {option}"))
        .hint(format!("`board {command} --help` shows the options"))
}

/// Reads the user's tags for these queries, once. If the file can't be used, that's an error for a
/// query that asks for tags, since it would find other runs. Other queries only warn.
pub(super) fn tags_for(queries: &[&Query]) -> std::result::Result<Arc<FollowedTags>, Error> {
    if queries.iter().any(|query| query.asks_for_tags()) {
        return FollowedTags::read(tag_file()).map(Arc::new);
    }
    Ok(followed_tags())
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
