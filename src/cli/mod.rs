//! The command-line interface. Only this module knows clap, and only this one reads arguments and the
//! terminal.
//!
//! Every command writes to the `out` it's given, so that tests read what a user would.

use std::ffi::OsString;
use std::io::{self, Write};

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory as _, Parser, Subcommand};

use crate::error::{Error, Kind, Result};

mod check;
mod columns;
mod command;
mod config;
mod demo;
mod diff;
mod edits;
mod experiment;
mod export;
mod failures;
mod list;
mod look;
mod mcp;
mod near;
mod open;
mod outline;
mod overview;
mod roots;
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
mod tag;
mod terminal;
#[cfg(test)]
mod tests;
mod usage;
mod warning;
mod whatif;
mod why;

pub use crate::analysis::format::visible;
pub use look::{Look, colours};
pub use terminal::TerminalFilter;

use command::Failure;

/// The command line.
#[derive(Debug, Parser)]
#[command(
    name = "board",
    version,
    about = "A local, read-only viewer for the traces of AI agents"
)]
#[command(
    after_help = "Exit codes: 0 success, 1 nothing found (`search`, `tag`), runs differ, issues found, run not completed or condition holds, 2 usage error, 3 not found or unreadable, 70 internal error"
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
    Edits(edits::Args),
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
    Tag(tag::Args),
    Usage(usage::Args),
    Overview(overview::Args),
    Failures(failures::Args),
    Experiment(experiment::Args),
    Demo(demo::Args),
    Mcp(mcp::Args),
    Run(run::Args),
    Completions(shell::Completions),
    Man(shell::Man),
}

/// Returns the error that explains a usage error better: if the value of an unknown option is in the
/// way, since the option itself is taken for a query.
pub fn unknown_option(usage: &clap::Error, args: &[OsString]) -> Option<Error> {
    let value = match usage.get(ContextKind::InvalidArg)? {
        ContextValue::String(value) if usage.kind() == ErrorKind::UnknownArgument => value,
        _ => return None,
    };
    let args: Vec<&str> = args.iter().filter_map(|arg| arg.to_str()).collect();
    let command = *args.get(1)?;
    let mut pairs = args.iter().zip(args.iter().skip(1));
    let (option, _) = pairs.find(|(_, after)| **after == *value)?;
    let name = option.strip_prefix("--").filter(|name| !name.is_empty())?;
    let commands = Args::command();
    let mut known = commands.find_subcommand(command)?.get_arguments();
    let is_known = name == "help" || known.any(|arg| arg.get_long() == Some(name));
    (!is_known && !value.starts_with('-')).then(|| command::unknown_option(command, option))
}

/// Runs a command and returns its exit code.
///
/// # Errors
/// Returns the command's error. A closed pipe isn't an error, since the reader has seen enough.
pub fn run(args: Args, look: &Look, out: &mut dyn Write) -> Result<u8> {
    sessions::name_databases();
    let done = match args.command {
        Command::Serve(args) => serve::run(&args, out).map_err(Failure::from),
        Command::List(args) => list::run(args, look, out),
        Command::Search(args) => search::run(&args, look, out),
        Command::Edits(args) => edits::run(args, look, out),
        Command::Show(args) => show::run(&args, look, out),
        Command::State(args) => state::run(&args, look, out),
        Command::Why(args) => why::run(&args, look, out),
        Command::WhatIf(args) => whatif::run(&args, look, out),
        Command::Scores(args) => scores::run(&args, look, out),
        Command::Diff(args) => diff::run(&args, look, out),
        Command::Check(args) => check::run(&args, look, out),
        Command::Export(args) => export::run(&args, look, out),
        Command::Table(args) => table::run(&args, look, out),
        Command::Tag(args) => tag::run(&args, look, out),
        Command::Usage(args) => usage::run(&args, look, out),
        Command::Overview(args) => overview::run(&args, look, out),
        Command::Failures(args) => failures::run(&args, look, out),
        Command::Experiment(args) => experiment::run(&args, look, out),
        Command::Demo(args) => demo::run(&args, look, out),
        Command::Mcp(args) => mcp::run(&args, out),
        Command::Run(args) => run::run(&args, look, out),
        Command::Completions(args) => shell::completions(&args, Args::command(), out),
        Command::Man(args) => shell::man(&args, Args::command(), out),
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
