//! The command-line interface. Only this module knows clap, and only this one reads the terminal
//! and the environment.
//!
//! Every command writes to the `out` it's given, so that tests read what a user would.

use std::io::{self, Write};

use clap::{Parser, Subcommand};

use crate::error::{Error, Kind, Result};
use crate::model::names::first_chars;

mod check;
mod config;
mod demo;
mod diff;
mod export;
mod list;
mod look;
mod mcp;
mod near;
mod open;
mod outline;
mod run;
mod scores;
mod search;
mod serve;
mod sessions;
mod shell;
mod show;
mod state;
mod stores;
mod table;
mod terminal;
#[cfg(test)]
mod tests;
mod whatif;
mod why;

pub use crate::analysis::format::visible;
pub use look::{Look, colours};
pub use terminal::TerminalFilter;

/// The help text for RUN, shared by all commands.
const RUN: &str =
    "A run as `board list` prints it: a directory, a file, or part of a file (LOG.eval/ID_epoch_N)";

/// The command line.
#[derive(Debug, Parser)]
#[command(
    name = "board",
    version,
    about = "A local, read-only board for inspecting traces of agent runs"
)]
#[command(
    after_help = "Exit codes: 0 success, 1 negative result, 2 usage error, 3 not found or unreadable, 70 internal error"
)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Serve(serve::Args),
    List(list::Args),
    Search(search::Args),
    Show(show::Args),
    State(state::Args),
    Why(why::Args),
    #[command(name = "whatif")]
    WhatIf(whatif::Args),
    Scores(scores::Args),
    Diff(diff::Args),
    Check(check::Args),
    Export(export::Args),
    Table(table::Args),
    Demo(demo::Args),
    Mcp(mcp::Args),
    Run(run::Args),
    Completions(shell::Completions),
    Man(shell::Man),
}

/// The reason why a command failed.
#[derive(Debug)]
enum Failure {
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
type Done = std::result::Result<u8, Failure>;

/// Runs a command and returns its exit code.
///
/// # Errors
/// Returns the command's error. A closed pipe isn't an error, since the reader has seen enough.
pub fn run(args: Args, look: &Look, out: &mut dyn Write) -> Result<u8> {
    let done = match args.command {
        Command::Serve(args) => serve::run(&args, out).map_err(Failure::from),
        Command::List(args) => list::run(args, look, out),
        Command::Search(args) => search::run(&args, look, out),
        Command::Show(args) => show::run(&args, look, out),
        Command::State(args) => state::run(&args, look, out),
        Command::Why(args) => why::run(&args, look, out),
        Command::WhatIf(args) => whatif::run(&args, look, out),
        Command::Scores(args) => scores::run(&args, look, out),
        Command::Diff(args) => diff::run(&args, look, out),
        Command::Check(args) => check::run(&args, look, out),
        Command::Export(args) => export::run(&args, look, out),
        Command::Table(args) => table::run(&args, look, out),
        Command::Demo(args) => demo::run(&args, look, out),
        Command::Mcp(args) => mcp::run(&args, out),
        Command::Run(args) => run::run(&args, look, out),
        Command::Completions(args) => shell::completions(&args, out),
        Command::Man(args) => shell::man(&args, out),
    };
    match done.and_then(|code| Ok(out.flush().map(|()| code)?)) {
        Ok(code) => Ok(code),
        Err(Failure::Output(error)) if error.kind() == io::ErrorKind::BrokenPipe => Ok(0),
        Err(Failure::Output(error)) => {
            Err(Error::new(Kind::Unreadable, "can't write the output").because(error))
        }
        Err(Failure::Told(error)) => Err(error),
    }
}

/// Parses a whole number. The standard library's error doesn't say what is valid.
fn whole_number<T: std::str::FromStr>(text: &str) -> std::result::Result<T, String> {
    text.parse()
        .map_err(|_| "must be a whole number from 0".to_owned())
}

/// Truncates to at most `max` characters, the last of which is then an ellipsis.
fn cut(text: &str, max: usize) -> String {
    if first_chars(text, max).is_none() {
        return text.to_owned();
    }
    format!("{}…", first_chars(text, max - 1).unwrap_or_default())
}

/// Writes one JSON document, pretty-printed, followed by a newline.
fn write_json(
    out: &mut dyn Write,
    document: &impl serde::Serialize,
) -> std::result::Result<(), Failure> {
    serde_json::to_writer_pretty(&mut *out, document)?;
    out.write_all(b"\n")?;
    Ok(())
}
