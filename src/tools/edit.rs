//! Writes files and replaces lines in them. Each change is atomic.

use std::io::{self, Write};
use std::path::Path;

use cap_std::fs::{Dir, OpenOptions};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::workspace::{Workspace, blocking, failure, invalid};
use crate::engine::{OffLimits, Tool, ToolCx, ToolError};

/// A tool that replaces the whole content of a file.
#[derive(Debug, Clone)]
pub struct WriteFile {
    workspace: Workspace,
}

impl WriteFile {
    /// Creates a tool that writes files in `workspace`.
    pub fn new(workspace: Workspace) -> Self {
        Self { workspace }
    }
}

/// What to write.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WriteArgs {
    /// The file, relative to the workspace. Missing directories are created.
    pub path: String,
    /// The whole new content.
    pub text: String,
}

/// The result of writing a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Written {
    /// The path as given.
    pub path: String,
    /// Size of the file in bytes.
    pub bytes: u64,
    /// Whether the file is new.
    pub created: bool,
}

impl Tool for WriteFile {
    type Args = WriteArgs;
    type Output = Written;

    fn name(&self) -> &str {
        "write_file"
    }

    fn description(&self) -> &str {
        "Writes a file in the workspace, replacing its content. Creates missing directories."
    }

    async fn call(&self, args: WriteArgs, cx: ToolCx<'_>) -> Result<Written, ToolError> {
        let (workspace, off_limits) = (self.workspace.clone(), cx.off_limits.clone());
        blocking(move || {
            let created = replace(&workspace, &args.path, args.text.as_bytes(), &off_limits)?;
            Ok(Written {
                path: args.path,
                bytes: args.text.len() as u64,
                created,
            })
        })
        .await
    }
}

/// A tool that replaces lines of a file.
#[derive(Debug, Clone)]
pub struct ReplaceLines {
    workspace: Workspace,
}

impl ReplaceLines {
    /// Creates a tool that edits files in `workspace`.
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
    /// The last line to replace, inclusive. One less than start_line inserts before it.
    pub end_line: u64,
    /// The new lines; empty deletes the old ones.
    pub text: String,
    /// The expected text of the first line. If it differs, the file isn't changed.
    #[serde(default)]
    pub expect: Option<String>,
}

/// The result of replacing lines.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Replaced {
    /// The path as given.
    pub path: String,
    /// Number of lines removed.
    pub removed_lines: u64,
    /// Number of lines added.
    pub added_lines: u64,
    /// Number of lines in the file after the change.
    pub total_lines: u64,
}

impl Tool for ReplaceLines {
    type Args = ReplaceArgs;
    type Output = Replaced;

    fn name(&self) -> &str {
        "replace_lines"
    }

    fn description(&self) -> &str {
        "Replaces the lines start_line to end_line of a text file in the workspace. Pass the expected text of the \
         first line in `expect`: if it differs, the file isn't changed."
    }

    async fn call(&self, args: ReplaceArgs, cx: ToolCx<'_>) -> Result<Replaced, ToolError> {
        let (workspace, off_limits) = (self.workspace.clone(), cx.off_limits.clone());
        blocking(move || {
            let old = workspace.read(&args.path)?;
            let (new, replaced) = splice(&old, args)?;
            replace(&workspace, &replaced.path, &new, &off_limits)?;
            Ok(replaced)
        })
        .await
    }
}

/// Returns the content after replacing the lines. Works on bytes, so invalid UTF-8 elsewhere in the
/// file is preserved.
fn splice(old: &[u8], args: ReplaceArgs) -> Result<(Vec<u8>, Replaced), ToolError> {
    let lines: Vec<&[u8]> = old.split_inclusive(|byte| *byte == b'\n').collect();
    let total = lines.len();
    let (start, end) = (args.start_line, args.end_line);
    let place = |line: u64| usize::try_from(line).unwrap_or(usize::MAX);
    let (from, to) = (place(start).saturating_sub(1), place(end));
    if start == 0 || from > total || to > total || to < from {
        let path = &args.path;
        return Err(invalid(format!(
            "{path}: has {total} lines; lines {start} to {end} cannot be replaced"
        )));
    }
    let before = lines.get(..from).unwrap_or_default();
    let gone = lines.get(from..to).unwrap_or_default();
    let after = lines.get(to..).unwrap_or_default();
    if let Some(expected) = &args.expect {
        let there = lines
            .get(from)
            .map(|line| String::from_utf8_lossy(line))
            .unwrap_or_default();
        if expected.trim_end_matches(['\r', '\n']) != there.trim_end_matches(['\r', '\n']) {
            let message = format!(
                "{}: line {start} is {there:?}, not the expected text; the file was not changed",
                args.path
            );
            return Err(invalid(message));
        }
    }

    let crlf = lines.first().is_some_and(|line| line.ends_with(b"\r\n"));
    let mut text = args.text;
    if crlf {
        text = text.replace("\r\n", "\n").replace('\n', "\r\n");
    }
    let end_of_line = if crlf { "\r\n" } else { "\n" };
    // If the file's last line has no line ending, its replacement gets none. Everywhere else, a
    // line ending keeps lines apart.
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

/// Replaces a file's content atomically and returns whether the file is new. A link that stays
/// inside the workspace is followed. A link that leads out of it or to nothing is refused.
fn replace(
    workspace: &Workspace,
    path: &str,
    bytes: &[u8],
    off_limits: &OffLimits,
) -> Result<bool, ToolError> {
    let told = |error: io::Error| failure(path, &error);
    let mut inside = workspace.inside(path)?.to_owned();
    if inside.file_name().is_none() || path.ends_with(['/', '\\']) {
        return Err(invalid(format!("{path}: names no file")));
    }
    if workspace
        .dir()
        .symlink_metadata(&inside)
        .is_ok_and(|found| found.is_symlink())
    {
        inside = workspace.dir().canonicalize(&inside).map_err(told)?;
    }
    let (Some(name), above) = (inside.file_name(), inside.parent()) else {
        return Err(invalid(format!("{path}: names no file")));
    };
    let above = above
        .filter(|above| !above.as_os_str().is_empty())
        .unwrap_or(Path::new("."));
    let allowed = |dir: &Dir, shown: &Path| match workspace.is_off_limits(dir, shown, off_limits) {
        Ok(false) => Ok(()),
        Ok(true) => Err(invalid(format!(
            "{path}: runs are recorded there, so tools can't write to it"
        ))),
        Err(error) => Err(told(error)),
    };
    // Checked before directories are created, so that none is created in a recorded run.
    let there = above.ancestors().find_map(|above| {
        let above = if above.as_os_str().is_empty() {
            Path::new(".")
        } else {
            above
        };
        workspace.dir().open_dir(above).ok().map(|dir| (dir, above))
    });
    there.map_or(Ok(()), |(dir, shown)| allowed(&dir, shown))?;
    let parent = workspace
        .dir()
        .open_dir(above)
        .or_else(|error| match error.kind() {
            io::ErrorKind::NotFound => workspace
                .dir()
                .create_dir_all(above)
                .and_then(|()| workspace.dir().open_dir(above)),
            _ => Err(error),
        });
    let parent = parent.map_err(told)?;
    allowed(&parent, above)?;
    write_and_rename(&parent, Path::new(name), bytes).map_err(told)
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
        // Keeps a script executable.
        if let Some(metadata) = before.as_ref().filter(|metadata| metadata.is_file()) {
            file.set_permissions(metadata.permissions())?;
        }
        file.sync_all()?;
        parent.rename(&temporary, parent, name)
    };
    let written = write();
    if written.is_err() {
        // The first error is the one to report.
        let _ = parent.remove_file(&temporary);
    }
    written.map(|()| before.is_none())
}

/// Creates a new file next to `name`. Retries other names, since others may be writing the same
/// file.
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
