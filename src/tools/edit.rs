//! How is a file changed? Written anew as a whole, or some of its lines replaced; always at once or not at all.

use std::io::{self, Write};
use std::path::Path;

use cap_std::fs::{Dir, OpenOptions};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::workspace::{Workspace, blocking, failure, invalid};
use crate::engine::{Tool, ToolCx, ToolError};

/// Replaces a file whole.
#[derive(Debug, Clone)]
pub struct WriteFile {
    workspace: Workspace,
}

impl WriteFile {
    /// Writes below `workspace`.
    pub fn new(workspace: Workspace) -> Self {
        Self { workspace }
    }
}

/// What to write.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WriteArgs {
    /// The file, relative to the workspace; directories on the way are made.
    pub path: String,
    /// The whole new content.
    pub text: String,
}

/// What was written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Written {
    /// The file as it was named.
    pub path: String,
    /// How many bytes it has now.
    pub bytes: u64,
    /// Whether it was not there before.
    pub created: bool,
}

impl Tool for WriteFile {
    type Args = WriteArgs;
    type Output = Written;

    fn name(&self) -> &str {
        "write_file"
    }

    fn description(&self) -> &str {
        "Writes a file of the workspace, replacing what it held. Makes the directories on the way."
    }

    async fn call(&self, args: WriteArgs, _cx: ToolCx<'_>) -> Result<Written, ToolError> {
        let workspace = self.workspace.clone();
        blocking(move || {
            let created = replace(&workspace, &args.path, args.text.as_bytes())?;
            Ok(Written { path: args.path, bytes: args.text.len() as u64, created })
        })
        .await
    }
}

/// Replaces some lines of a file.
#[derive(Debug, Clone)]
pub struct ReplaceLines {
    workspace: Workspace,
}

impl ReplaceLines {
    /// Changes files below `workspace`.
    pub fn new(workspace: Workspace) -> Self {
        Self { workspace }
    }
}

/// What to replace.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ReplaceArgs {
    /// The file, relative to the workspace.
    pub path: String,
    /// The first line to replace, counted from 1. One past the last line appends.
    pub start_line: u64,
    /// The last line to replace, which is included. One less than start_line inserts before it.
    pub end_line: u64,
    /// The new lines; empty deletes the old ones.
    pub text: String,
    /// The first line to replace as you believe it to be; where it differs, nothing is changed.
    #[serde(default)]
    pub expect: Option<String>,
}

/// What was replaced.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Replaced {
    /// The file as it was named.
    pub path: String,
    /// How many lines went.
    pub removed_lines: u64,
    /// How many lines came.
    pub added_lines: u64,
    /// How many lines it has now.
    pub total_lines: u64,
}

impl Tool for ReplaceLines {
    type Args = ReplaceArgs;
    type Output = Replaced;

    fn name(&self) -> &str {
        "replace_lines"
    }

    fn description(&self) -> &str {
        "Replaces the lines start_line to end_line of a text file of the workspace. Give the first of them in `expect` to \
         be refused where the file has changed."
    }

    async fn call(&self, args: ReplaceArgs, _cx: ToolCx<'_>) -> Result<Replaced, ToolError> {
        let workspace = self.workspace.clone();
        blocking(move || {
            let old = workspace.read(&args.path)?;
            let (new, replaced) = splice(&old, args)?;
            replace(&workspace, &replaced.path, &new)?;
            Ok(replaced)
        })
        .await
    }
}

/// The content after the lines are replaced. Works on bytes: what is no UTF-8 elsewhere in the file stays as it is.
fn splice(old: &[u8], args: ReplaceArgs) -> Result<(Vec<u8>, Replaced), ToolError> {
    let lines: Vec<&[u8]> = old.split_inclusive(|byte| *byte == b'\n').collect();
    let total = lines.len();
    let (start, end) = (args.start_line, args.end_line);
    let place = |line: u64| usize::try_from(line).unwrap_or(usize::MAX);
    let (from, to) = (place(start).saturating_sub(1), place(end));
    if start == 0 || from > total || to > total || to < from {
        let path = &args.path;
        return Err(invalid(format!("{path}: has {total} lines; lines {start} to {end} cannot be replaced")));
    }
    let before = lines.get(..from).unwrap_or_default();
    let gone = lines.get(from..to).unwrap_or_default();
    let after = lines.get(to..).unwrap_or_default();
    if let Some(expected) = &args.expect {
        let there = lines.get(from).map(|line| String::from_utf8_lossy(line)).unwrap_or_default();
        if expected.trim_end_matches(['\r', '\n']) != there.trim_end_matches(['\r', '\n']) {
            let message =
                format!("{}: line {start} is {there:?}, not what was expected; nothing is changed", args.path);
            return Err(invalid(message));
        }
    }

    let crlf = lines.first().is_some_and(|line| line.ends_with(b"\r\n"));
    let mut text = args.text;
    if crlf {
        text = text.replace("\r\n", "\n").replace('\n', "\r\n");
    }
    let end_of_line = if crlf { "\r\n" } else { "\n" };
    // A file whose last line has no end keeps it so; everywhere else lines must not run into each other.
    let last_is_open = after.is_empty() && gone.last().is_some_and(|line| !line.ends_with(b"\n"));
    if !text.is_empty() && !text.ends_with('\n') && !last_is_open {
        text.push_str(end_of_line);
    }
    let mut new = before.concat();
    if !text.is_empty() && new.last().is_some_and(|byte| *byte != b'\n') {
        new.extend_from_slice(end_of_line.as_bytes());
    }
    new.extend_from_slice(text.as_bytes());
    new.extend(after.concat());

    let added = text.split_inclusive('\n').count();
    let replaced = Replaced {
        path: args.path,
        removed_lines: gone.len() as u64,
        added_lines: added as u64,
        total_lines: (total - gone.len() + added) as u64,
    };
    Ok((new, replaced))
}

/// Puts `bytes` in the place of a file and says whether there was none. A reader sees the old content or the new one;
/// a link is replaced, and what it leads to is left alone.
fn replace(workspace: &Workspace, path: &str, bytes: &[u8]) -> Result<bool, ToolError> {
    let inside = workspace.inside(path)?;
    let Some(name) = inside.file_name().filter(|_| !path.ends_with(['/', '\\'])) else {
        return Err(invalid(format!("{path}: names no file")));
    };
    let name = Path::new(name);
    let parent = match inside.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => {
            let made = workspace.dir().create_dir_all(parent).and_then(|()| workspace.dir().open_dir(parent));
            made.map_err(|error| failure(path, &error))?
        }
        _ => workspace.dir().try_clone().map_err(|error| failure(path, &error))?,
    };
    write_and_rename(&parent, name, bytes).map_err(|error| failure(path, &error))
}

fn write_and_rename(parent: &Dir, name: &Path, bytes: &[u8]) -> io::Result<bool> {
    let before = match parent.symlink_metadata(name) {
        Ok(metadata) if metadata.is_dir() => return Err(io::ErrorKind::IsADirectory.into()),
        Ok(metadata) => Some(metadata),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Err(error),
    };
    let (mut file, temporary) = create_beside(parent, name)?;
    let mut write = || {
        file.write_all(bytes)?;
        // A script stays executable.
        if let Some(metadata) = before.as_ref().filter(|metadata| metadata.is_file()) {
            file.set_permissions(metadata.permissions())?;
        }
        file.sync_all()?;
        parent.rename(&temporary, parent, name)
    };
    let written = write();
    if written.is_err() {
        // The first error is the one to tell.
        let _ = parent.remove_file(&temporary);
    }
    written.map(|()| before.is_none())
}

/// A new file beside `name`; others may be at the same work.
fn create_beside(parent: &Dir, name: &Path) -> io::Result<(cap_std::fs::File, String)> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    for attempt in 0..100 {
        let temporary = format!(".{}.{}-{attempt}.tmp", name.display(), std::process::id());
        match parent.open_with(&temporary, &options) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            done => return done.map(|file| (file, temporary)),
        }
    }
    Err(io::ErrorKind::AlreadyExists.into())
}
