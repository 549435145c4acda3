//! Reads lines of text files.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::workspace::{Workspace, blocking, invalid};
use crate::engine::{Tool, ToolCx, ToolError};

/// A tool that reads lines of a text file.
#[derive(Debug, Clone)]
pub struct ReadFile {
    workspace: Workspace,
    max_bytes: usize,
}

impl ReadFile {
    /// Creates a tool that reads files in `workspace` and returns at most `max_bytes` per call.
    pub fn new(workspace: Workspace, max_bytes: usize) -> Self {
        Self {
            workspace,
            max_bytes,
        }
    }
}

/// What to read.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ReadArgs {
    /// The file, relative to the workspace.
    pub path: String,
    /// The first line, counted from 1. Defaults to the file's first line.
    #[serde(default)]
    pub start_line: Option<u64>,
    /// The last line, inclusive. Defaults to the file's last line.
    #[serde(default)]
    pub end_line: Option<u64>,
}

/// Lines of a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Lines {
    /// The path as given.
    pub path: String,
    /// The lines with their line endings. Invalid UTF-8 is replaced with U+FFFD.
    pub text: String,
    /// Number of the first line returned. 0 if no line is returned.
    pub start_line: u64,
    /// Number of the last line returned. 0 if no line is returned.
    pub end_line: u64,
    /// Number of lines in the file.
    pub total_lines: u64,
    /// Number of bytes of the requested lines that aren't returned.
    pub truncated_bytes: u64,
    /// Which lines are missing, and how to get them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

impl Tool for ReadFile {
    type Args = ReadArgs;
    type Output = Lines;

    fn name(&self) -> &str {
        "read_file"
    }

    fn description(&self) -> &str {
        "Reads a text file in the workspace, whole or from start_line to end_line. Long results are truncated \
         and say how to get the rest."
    }

    async fn call(&self, args: ReadArgs, _cx: ToolCx<'_>) -> Result<Lines, ToolError> {
        let (workspace, max_bytes) = (self.workspace.clone(), self.max_bytes);
        blocking(move || read(&workspace, args, max_bytes)).await
    }
}

fn read(workspace: &Workspace, args: ReadArgs, max_bytes: usize) -> Result<Lines, ToolError> {
    let first = args.start_line.unwrap_or(1);
    let last = args.end_line.unwrap_or(u64::MAX);
    if first == 0 || last < first {
        return Err(invalid(format!(
            "lines {first} to {last}: lines are counted from 1, and the last can't be before the first"
        )));
    }
    let bytes = workspace.read(&args.path)?;
    let mut lines = Lines {
        path: args.path,
        text: String::new(),
        start_line: 0,
        end_line: 0,
        total_lines: 0,
        truncated_bytes: 0,
        note: None,
    };
    let mut room = max_bytes;
    let mut kept = Vec::new();
    for (number, line) in (1..).zip(bytes.split_inclusive(|byte| *byte == b'\n')) {
        lines.total_lines = number;
        if number < first || number > last {
            continue;
        }
        // After a line that doesn't fit, no later line is returned, so that the result has no gap.
        if lines.truncated_bytes > 0 || line.len() > room {
            lines.truncated_bytes += line.len() as u64;
            continue;
        }
        room -= line.len();
        kept.extend_from_slice(line);
        lines.start_line = first;
        lines.end_line = number;
    }
    if lines.total_lines < first
        && (first > 1 || args.start_line.is_some() && lines.total_lines > 0)
    {
        return Err(invalid(format!(
            "{}: has {} lines, so there is no line {first}",
            lines.path, lines.total_lines
        )));
    }
    lines.text = String::from_utf8_lossy(&kept).into_owned();
    if lines.truncated_bytes > 0 {
        lines.note = Some(rest(&lines, first, last, max_bytes));
    }
    Ok(lines)
}

/// Explains how to get the missing lines.
fn rest(lines: &Lines, first: u64, last: u64, max_bytes: usize) -> String {
    let next = if lines.end_line == 0 {
        first
    } else {
        lines.end_line + 1
    };
    let last = last.min(lines.total_lines);
    let many = lines.truncated_bytes;
    if lines.end_line == 0 {
        return format!(
            "line {first} alone is longer than the limit of {max_bytes} bytes; read parts of it with a command"
        );
    }
    format!("lines {next} to {last} are omitted ({many} bytes); continue with start_line {next}")
}
