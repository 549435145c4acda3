//! Finds the files that tools read, and the shell commands whose output reports changed files.

use crate::analysis::patch::{path_of, requested_edits};
use crate::model::StepHead;
use crate::model::json::Json;
use crate::model::names::cut_at;
use crate::model::step::Step;

/// Maximum number of reads of a run that are kept.
const MAX_READS: usize = 10_000;
/// Maximum number of commands of a run that are kept.
const MAX_REPORTED: usize = 50;
/// Longer paths aren't kept; bytes.
const MAX_PATH: usize = 1_000;
/// Longer commands and reports are truncated; bytes.
const MAX_WORDS: usize = 200;
/// The part of an output that is searched for a report; bytes from its end.
const MAX_OUTPUT: usize = 16 * 1024;

/// A file that a tool read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FileRead {
    /// The path, as the call names it.
    pub path: String,
    /// The ordinal of the step.
    pub step: usize,
    /// The index of the call in the step.
    pub call: usize,
}

/// A shell command whose output reports changed files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Reported {
    /// The ordinal of the step.
    pub step: usize,
    /// The command, truncated.
    pub command: String,
    /// The line of the output.
    pub words: String,
}

/// Adds the reads and the reporting commands of a step.
pub(super) fn add(
    n: usize,
    head: &StepHead,
    step: &Step<'_>,
    reads: &mut Vec<FileRead>,
    reported: &mut Vec<Reported>,
) {
    for (at, call) in step.calls.iter().enumerate() {
        let Some(args) = call.args.map(|args| args.json()) else {
            continue;
        };
        let name = call.name.as_deref().unwrap_or_default();
        let has_failed = head.calls.get(at).and_then(|mark| mark.is_ok()) == Some(false);
        let path = path_of(&args).filter(|path| path.len() <= MAX_PATH);
        if let Some(path) = path {
            let is_read = is_read(name, &args) && !has_failed && reads.len() < MAX_READS;
            if is_read && requested_edits(name, &args).edits.is_empty() {
                reads.push(FileRead {
                    path: path.to_owned(),
                    step: n,
                    call: at,
                });
            }
        } else if let Some(command) = command(&args).filter(|_| reported.len() < MAX_REPORTED) {
            let output = step.results.get(at).and_then(|result| result.output);
            let output = output.map(|output| output.plain()).unwrap_or_default();
            let from = output.ceil_char_boundary(output.len().saturating_sub(MAX_OUTPUT));
            let line = output
                .get(from..)
                .unwrap_or_default()
                .lines()
                .find(|line| reports(line));
            reported.extend(line.map(|line| Reported {
                step: n,
                command: cut_at(command.trim(), MAX_WORDS).to_owned(),
                words: cut_at(line.trim(), MAX_WORDS).to_owned(),
            }));
        }
    }
}

fn is_read(name: &str, args: &Json<'_>) -> bool {
    let name = name.to_ascii_lowercase();
    let is_view = args.get("command").and_then(Json::as_str) == Some("view");
    is_view
        || ["read", "view", "open", "cat"]
            .iter()
            .any(|word| name.starts_with(word))
}

fn command<'a>(args: &'a Json<'a>) -> Option<&'a str> {
    ["command", "cmd"]
        .iter()
        .find_map(|key| args.get(key).and_then(Json::as_str))
}

/// Returns whether a line of an output says that files changed: `6 files reformatted, 2 files left
/// unchanged`, `Fixed 3 errors`, `patching file a.py`.
fn reports(line: &str) -> bool {
    let line = line.trim().trim_end_matches(['.', '!']);
    let mut words = line
        .split([' ', ',', '(', ')'])
        .filter(|word| !word.is_empty());
    let words: Vec<&str> = words.by_ref().take(12).collect();
    let is_number = |word: &str| word.bytes().all(|byte| byte.is_ascii_digit()) && word != "0";
    match words.as_slice() {
        ["patching", "file", _, ..] | ["Fixed", "file", _] => true,
        [
            "Fixed",
            count,
            "error" | "error:" | "errors" | "errors:" | "file" | "files",
            ..,
        ] => is_number(count),
        ["reformatted", _] => true,
        words => words.windows(3).any(|words| match words {
            [
                count,
                "file" | "files",
                "reformatted" | "formatted" | "rewritten" | "updated",
            ] => is_number(count),
            _ => false,
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::reports;

    #[test]
    fn reports_of_formatters_are_found() {
        for line in [
            "6 files reformatted, 2 files left unchanged",
            "1 file reformatted",
            "Found 3 errors (3 fixed, 0 remaining).\nFixed 3 errors:",
            "patching file src/a.py",
            "reformatted src/a.py",
        ] {
            assert!(line.lines().any(reports), "{line}");
        }
        for line in [
            "0 files reformatted",
            "6 files would be reformatted",
            "2 files left unchanged",
            "1 file changed, 2 insertions(+)",
            "",
        ] {
            assert!(!reports(line), "{line}");
        }
    }
}
