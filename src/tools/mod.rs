//! What can an agent touch? The files of one directory, and, where it is allowed to, the shell.
//!
//! Knows no model and no file that describes an agent. Every tool is an [`engine::Tool`](crate::engine::Tool) over a
//! [`Workspace`]:
//!
//! | tool | does | is bound by |
//! |---|---|---|
//! | [`ReadFile`] | gives lines of a text file | bytes of an answer, bytes of a file |
//! | [`WriteFile`] | replaces a file whole, at once or not at all | |
//! | [`ReplaceLines`] | replaces some lines of a file, refuses where they are not what was expected | bytes of a file |
//! | [`ListDir`] | names what is in a directory, with kinds and sizes | entries |
//! | [`Search`] | finds lines by a regular expression | matches, files, bytes |
//! | [`RunCommand`] | runs a shell command | time, bytes of output |
//!
//! The file tools cannot leave the workspace: neither by `..`, nor by an absolute path, nor through a link, nor by a
//! link that is put there while they work. They write nothing where the run is recorded, and [`Search`] and [`ListDir`]
//! pass over it; who names a trace may read it, which changes nothing. [`RunCommand`] **is no sandbox**: the command can do what its user can do.

mod command;
mod edit;
pub(crate) mod group;
mod kept;
mod list;
mod read;
mod search;
mod workspace;

// Links, pipes and groups are those of Unix, and so are the words of its errors.
#[cfg(test)]
#[cfg(unix)]
mod tests;

pub use command::{CommandArgs, Ran, RunCommand, passed_on};
pub use edit::{ReplaceArgs, ReplaceLines, Replaced, WriteArgs, WriteFile, Written};
pub use list::{Entry, ListArgs, ListDir, Listing};
pub use read::{Lines, ReadArgs, ReadFile};
pub use search::{Hit, Search, SearchArgs, SearchResult};
pub use workspace::Workspace;
