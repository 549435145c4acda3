//! Provides tools for agents: the files of one directory and, if allowed, the shell.
//!
//! Independent of models and agent files. Every tool is an [`engine::Tool`](crate::engine::Tool)
//! over a [`Workspace`]:
//!
//! | tool | does | limits |
//! |---|---|---|
//! | [`ReadFile`] | reads lines of a text file | bytes of a result, bytes of a file |
//! | [`WriteFile`] | replaces a file's content atomically | |
//! | [`ReplaceLines`] | replaces lines of a file, unless they differ from the expected ones | bytes of a file |
//! | [`ListDir`] | lists a directory with kinds and sizes | entries |
//! | [`Search`] | finds lines that match a regular expression | matches, files, bytes |
//! | [`RunCommand`] | runs a shell command | time, bytes of output |
//!
//! The file tools can't leave the workspace: not with `..`, an absolute path or a link, and not
//! with a link created while they work. They don't write to the directory where the run is
//! recorded, and [`Search`] and [`ListDir`] skip it. Reading a trace by its path is allowed, since
//! that changes nothing. [`RunCommand`] is **not a sandbox**: a command can do whatever its user
//! can.

mod command;
mod edit;
mod kept;
mod list;
mod read;
mod search;
mod workspace;

// The tests use Unix links, pipes, process groups and error messages.
#[cfg(test)]
#[cfg(unix)]
mod tests;

pub use command::{CommandArgs, Ran, RunCommand, passed_on};
pub use edit::{ReplaceArgs, ReplaceLines, Replaced, WriteArgs, WriteFile, Written};
pub use list::{Entry, ListArgs, ListDir, Listing};
pub use read::{Lines, ReadArgs, ReadFile};
pub use search::{Hit, Search, SearchArgs, SearchResult};
pub use workspace::Workspace;
