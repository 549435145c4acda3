//! Lists directories.

use std::io;

use cap_std::fs::{Dir, DirEntry, FileType};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::workspace::{Workspace, blocking, failure};
use crate::engine::{Tool, ToolCx, ToolError};

/// Maximum number of entries in a result.
const MAX_ENTRIES: usize = 500;

/// A tool that lists a directory.
#[derive(Debug, Clone)]
pub struct ListDir {
    workspace: Workspace,
}

impl ListDir {
    /// Creates a tool that lists directories in `workspace`.
    pub fn new(workspace: Workspace) -> Self {
        Self { workspace }
    }
}

/// What to list.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ListArgs {
    /// The directory, relative to the workspace. Defaults to the workspace itself.
    #[serde(default = "here")]
    pub path: String,
}

pub(super) fn here() -> String {
    ".".to_owned()
}

/// The entries of a directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Listing {
    /// The path as given.
    pub path: String,
    /// The entries, sorted by name.
    pub entries: Vec<Entry>,
    /// Number of entries in the directory.
    pub total: u64,
    /// Whether some entries are missing from the list.
    pub truncated: bool,
}

/// An entry of a directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Entry {
    /// The entry's name.
    pub name: String,
    /// `file`, `dir`, `link` or `other`.
    pub kind: &'static str,
    /// Size of a file in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size_bytes: Option<u64>,
}

impl Tool for ListDir {
    type Args = ListArgs;
    type Output = Listing;

    fn name(&self) -> &str {
        "list_dir"
    }

    fn description(&self) -> &str {
        "Lists a directory in the workspace: names, kinds (file, dir, link, other) and file sizes."
    }

    async fn call(&self, args: ListArgs, cx: ToolCx<'_>) -> Result<Listing, ToolError> {
        let (workspace, off_limits) = (self.workspace.clone(), cx.off_limits.clone());
        blocking(move || {
            let inside = workspace.inside(&args.path)?;
            let shown = |entry: &DirEntry| {
                !workspace.is_entry_off_limits(entry, &inside.join(entry.file_name()), &off_limits)
            };
            let listed = workspace
                .dir()
                .open_dir(inside)
                .and_then(|dir| list(&dir, shown));
            let mut entries = listed.map_err(|error| failure(&args.path, &error))?;
            let total = entries.len();
            entries.truncate(MAX_ENTRIES);
            Ok(Listing {
                path: args.path,
                entries,
                total: total as u64,
                truncated: total > MAX_ENTRIES,
            })
        })
        .await
    }
}

fn list(dir: &Dir, shown: impl Fn(&DirEntry) -> bool) -> io::Result<Vec<Entry>> {
    let mut entries = Vec::new();
    for entry in dir.entries()? {
        let entry = entry?;
        if !shown(&entry) {
            continue;
        }
        let kind = kind(entry.file_type()?);
        // The file may be removed after it was listed. It still counts.
        let size_bytes = entry
            .metadata()
            .ok()
            .filter(|_| kind == "file")
            .map(|metadata| metadata.len());
        entries.push(Entry {
            name: entry.file_name().to_string_lossy().into_owned(),
            kind,
            size_bytes,
        });
    }
    entries.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(entries)
}

fn kind(file_type: FileType) -> &'static str {
    if file_type.is_symlink() {
        "link"
    } else if file_type.is_dir() {
        "dir"
    } else if file_type.is_file() {
        "file"
    } else {
        "other"
    }
}
