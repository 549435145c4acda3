//! Searches the workspace's files with a regular expression.

use std::io::{self, Read};
use std::path::{Path, PathBuf};

use cap_std::fs::Dir;
use regex::bytes::{Regex, RegexBuilder};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::list::here;
use super::workspace::{Workspace, blocking, failure, invalid, is_binary, open_file};
use crate::engine::{OffLimits, Tool, ToolCx, ToolError};

/// Maximum size of a compiled pattern, in bytes. Matching takes linear time, but compiling may not.
const MAX_REGEX_BYTES: usize = 1 << 20;
/// Maximum number of matches in a result.
const MAX_HITS: usize = 200;
/// Longer matching lines are truncated to this length, in bytes.
const MAX_LINE_BYTES: usize = 300;
/// Longer files are skipped.
const MAX_FILE_BYTES: u64 = 4 << 20;
/// Maximum number of files, and of bytes, read per search.
const MAX_FILES: u64 = 20_000;
const MAX_TOTAL_BYTES: u64 = 256 << 20;
/// Maximum nesting depth of directories.
const MAX_DEPTH: usize = 32;

/// A tool that finds lines by a regular expression.
#[derive(Debug, Clone)]
pub struct Search {
    workspace: Workspace,
}

impl Search {
    /// Creates a tool that searches files in `workspace`.
    pub fn new(workspace: Workspace) -> Self {
        Self { workspace }
    }
}

/// What to search for.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SearchArgs {
    /// A regular expression to search for in each line.
    pub pattern: String,
    /// The directory or file to search, relative to the workspace. Defaults to the whole workspace.
    #[serde(default = "here")]
    pub path: String,
    /// A regular expression that a file's path must match, such as `\.rs$`.
    #[serde(default)]
    pub files: Option<String>,
    /// Whether to ignore case.
    #[serde(default)]
    pub ignore_case: bool,
}

/// The result of a search.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct SearchResult {
    /// The matching lines, sorted by path and line number.
    pub hits: Vec<Hit>,
    /// Number of files searched.
    pub files_searched: u64,
    /// Number of files skipped because they are binary, too long or unreadable, and of directories
    /// that are too deep or unreadable.
    pub files_skipped: u64,
    /// Whether the search stopped before it was complete.
    pub truncated: bool,
    /// Why the search stopped, and how to get better results.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// A matching line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Hit {
    /// The file, relative to the workspace.
    pub path: String,
    /// Line number, starting at 1.
    pub line: u64,
    /// The line, truncated if long.
    pub text: String,
}

impl Tool for Search {
    type Args = SearchArgs;
    type Output = SearchResult;

    fn name(&self) -> &str {
        "search"
    }

    fn description(&self) -> &str {
        "Finds lines that match a regular expression in the workspace's text files. Links and .git are not followed."
    }

    async fn call(&self, args: SearchArgs, cx: ToolCx<'_>) -> Result<SearchResult, ToolError> {
        let (workspace, off_limits) = (self.workspace.clone(), cx.off_limits.clone());
        blocking(move || search(&workspace, &args, &off_limits)).await
    }
}

fn search(
    workspace: &Workspace,
    args: &SearchArgs,
    off_limits: &OffLimits,
) -> Result<SearchResult, ToolError> {
    let compile = |pattern: &str, ignore_case: bool| {
        let built = RegexBuilder::new(pattern)
            .case_insensitive(ignore_case)
            .size_limit(MAX_REGEX_BYTES)
            .build();
        built.map_err(|wrong| invalid(format!("the pattern {pattern:?} does not compile: {wrong}")))
    };
    let pattern = compile(&args.pattern, args.ignore_case)?;
    let files = args
        .files
        .as_deref()
        .map(|files| compile(files, false))
        .transpose()?;
    let mut walk = Walk {
        workspace,
        off_limits,
        pattern,
        files,
        found: SearchResult::default(),
        bytes: 0,
    };
    let start = workspace.inside(&args.path)?;
    let told = |error: io::Error| failure(&args.path, &error);
    let metadata = workspace.dir().metadata(start).map_err(told)?;
    let shown: PathBuf = start
        .components()
        .filter(|part| *part != std::path::Component::CurDir)
        .collect();
    if metadata.is_dir() {
        let dir = workspace.dir().open_dir(start).map_err(told)?;
        walk.dir(&dir, &shown, 0).map_err(told)?;
    } else {
        walk.file(workspace.dir(), start, &shown);
    }
    Ok(walk.found)
}

struct Walk<'a> {
    workspace: &'a Workspace,
    off_limits: &'a OffLimits,
    pattern: Regex,
    files: Option<Regex>,
    found: SearchResult,
    bytes: u64,
}

impl Walk<'_> {
    fn stop(&mut self, note: String) {
        self.found.truncated = true;
        self.found.note = Some(note);
    }

    /// Searches everything below `dir`, in order of name. Doesn't follow links.
    fn dir(&mut self, dir: &Dir, shown: &Path, depth: usize) -> io::Result<()> {
        if depth > MAX_DEPTH {
            self.found.files_skipped += 1;
            return Ok(());
        }
        let mut entries: Vec<_> = dir.entries()?.filter_map(Result::ok).collect();
        entries.sort_by_key(cap_std::fs::DirEntry::file_name);
        for entry in entries {
            if self.found.truncated {
                break;
            }
            let name = entry.file_name();
            let shown = shown.join(&name);
            let Ok(kind) = entry.file_type() else {
                continue;
            };
            // A trace contains the hits of earlier searches, so searching it would find them again.
            if kind.is_dir()
                && self
                    .workspace
                    .is_entry_off_limits(&entry, &shown, self.off_limits)
            {
                continue;
            }
            if kind.is_dir() && name != ".git" {
                // An unreadable directory doesn't end the search.
                match entry.open_dir() {
                    Ok(below) => self.dir(&below, &shown, depth + 1).unwrap_or(()),
                    Err(_) => self.found.files_skipped += 1,
                }
            } else if kind.is_file() {
                self.file(dir, Path::new(&name), &shown);
            }
        }
        Ok(())
    }

    fn file(&mut self, dir: &Dir, path: &Path, shown: &Path) {
        let shown = shown.to_string_lossy().replace('\\', "/");
        if self
            .files
            .as_ref()
            .is_some_and(|files| !files.is_match(shown.as_bytes()))
        {
            return;
        }
        if self.found.files_searched >= MAX_FILES || self.bytes >= MAX_TOTAL_BYTES {
            let many = self.found.files_searched;
            self.stop(format!(
                "stopped after {many} files; search a smaller directory or fewer files"
            ));
            return;
        }
        let mut bytes = Vec::new();
        let read = open_file(dir, path)
            .and_then(|file| file.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes));
        if read.is_err() || bytes.len() as u64 > MAX_FILE_BYTES || is_binary(&bytes) {
            self.found.files_skipped += 1;
            return;
        }
        self.found.files_searched += 1;
        self.bytes += bytes.len() as u64;
        for (line, text) in (1..).zip(bytes.split_inclusive(|byte| *byte == b'\n')) {
            let text = text.strip_suffix(b"\n").unwrap_or(text);
            let text = text.strip_suffix(b"\r").unwrap_or(text);
            if !self.pattern.is_match(text) {
                continue;
            }
            if self.found.hits.len() == MAX_HITS {
                self.stop(format!(
                    "only the first {MAX_HITS} matches are listed; narrow the pattern or the path"
                ));
                return;
            }
            self.found.hits.push(Hit {
                path: shown.clone(),
                line,
                text: cut(text),
            });
        }
    }
}

/// Returns a line as text, truncated if long.
fn cut(line: &[u8]) -> String {
    match line.split_at_checked(MAX_LINE_BYTES) {
        Some((head, rest)) if !rest.is_empty() => {
            format!(
                "{} [{} more bytes]",
                String::from_utf8_lossy(head),
                rest.len()
            )
        }
        _ => String::from_utf8_lossy(line).into_owned(),
    }
}
