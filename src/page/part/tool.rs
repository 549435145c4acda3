//! Shows a tool call as one line that opens: the tool, the main argument, the lines it changed, and
//! the first line of its result.

use askama::Template;
use askama::filters::HtmlSafe;

use crate::model::Format;
use crate::model::telling::says_nothing;
use crate::page::part::action::Pair;
use crate::page::part::edit::FileEdit;
use crate::page::part::sign::Phrase;
use crate::page::part::text::Line;

/// Edits with more lines are closed at first.
const OPEN_LINES: usize = 20;

/// A tool call with its result.
#[derive(Debug, Clone, Template)]
#[template(path = "part/tool.html")]
pub(crate) struct ToolLine {
    /// The name of the tool.
    pub name: Line,
    /// The main argument, with paths relative to the project.
    pub object: Line,
    /// The number of lines that its edits add and remove.
    pub lines: Option<(usize, usize)>,
    /// The first line of the result. Empty for edits and for lists of tasks.
    pub preview: Line,
    /// The kind of its only edit: a new file, or a file written as a whole.
    pub note: Line,
    /// Whether it makes exactly one edit, which the line describes.
    is_one: bool,
    /// Whether it failed.
    pub is_failed: bool,
    /// Whether it's open at first: errors and short edits are.
    is_open: bool,
    /// The call and its result.
    pub pair: Pair,
    /// The child runs that the call started.
    pub started: Vec<Phrase>,
}

impl HtmlSafe for ToolLine {}

impl ToolLine {
    /// Formats a call of a step in a trace of this format. `project` is the directory that paths are
    /// relative to; it may be empty.
    pub(crate) fn new(mut pair: Pair, step: &str, project: &str, format: &Format) -> Self {
        // Edits are regions of the page, so their names must differ between steps.
        for edit in &mut pair.edits {
            edit.name = format!("{}, step {step}", edit.name).into();
        }
        let is_failed = pair.marks.iter().any(|mark| mark.class.contains("err"));
        let lines = Some(&pair.edits)
            .filter(|edits| !edits.is_empty())
            .map(|edits| {
                edits.iter().fold((0, 0), |(added, removed), edit| {
                    (added + edit.added, removed + edit.removed)
                })
            });
        let shown: usize = pair.edits.iter().map(FileEdit::lines).sum();
        let is_short = lines.is_some() && shown <= OPEN_LINES;
        let (name, object) = match &pair.call {
            Some(call) => {
                let object = match format.has_command_tools {
                    true => without_name(call.name.as_str(), call.object.as_str()),
                    false => call.object.as_str(),
                };
                (call.name.clone(), relative_in_text(object, project))
            }
            None => ("result".into(), Line::default()),
        };
        if pair.confirms_edits {
            pair.blocks.clear();
            pair.rest.clear();
            pair.small = Line::default();
        }
        // An error that only has the exit code says less than the output.
        let is_only_error = pair.blocks.len() == 1;
        let worst = pair.blocks.iter().find(|block| {
            block.error && (is_only_error || !says_nothing(block.first_line.as_str()))
        });
        let output = pair.blocks.iter().find(|block| !block.error);
        let is_progress = pair.call.as_ref().is_some_and(|call| call.is_progress);
        let preview = worst
            .or(output)
            .or(pair.blocks.first())
            .filter(|_| !is_progress || is_failed)
            .map(|block| block.first_line.clone());
        Self {
            name,
            object,
            lines,
            preview: relative_in_text(preview.unwrap_or_default().as_str(), project),
            note: match pair.edits.as_slice() {
                // Without the explanation in parentheses.
                [edit] => edit
                    .note
                    .as_str()
                    .split(" (")
                    .next()
                    .unwrap_or_default()
                    .into(),
                _ => Line::default(),
            },
            is_one: pair.edits.len() == 1,
            is_failed,
            is_open: is_failed || is_short,
            pair,
            started: Vec::new(),
        }
    }
}

impl ToolLine {
    /// Returns how many bytes of a child run's task the call gave it. `None` if it gave another one.
    pub(crate) fn asked(&self, task: &str) -> Option<usize> {
        same_task(self.pair.asks.as_deref().unwrap_or_default(), task)
    }

    /// Returns the main argument for a narrow list. Of a file that the call reads or edits, that's
    /// the name without its directory.
    pub(crate) fn short_object(&self) -> &str {
        let object = self.object.as_str();
        let is_file = !self.pair.edits.is_empty() || self.pair.reads.is_some();
        match object.rsplit_once('/') {
            Some((_, name)) if is_file && !name.is_empty() && !object.contains(' ') => name,
            _ => object,
        }
    }
}

/// Compares two tasks. A truncated one ends with an ellipsis. Returns how many bytes they share if they
/// are the same.
fn same_task(one: &str, other: &str) -> Option<usize> {
    let parts = |text| match str::strip_suffix(text, "…") {
        Some(start) => (start.trim(), true),
        None => (text.trim(), false),
    };
    let mut tasks = [parts(one), parts(other)];
    tasks.sort_by_key(|(text, _)| text.len());
    let [(short, is_cut), (long, _)] = tasks;
    let is_same = short == long || is_cut && long.starts_with(short);
    (!short.is_empty() && is_same).then_some(short.len())
}

/// Removes the name of a tool from the beginning of its command. A shell may run a script with its own
/// name.
fn without_name<'a>(name: &str, object: &'a str) -> &'a str {
    match object.strip_prefix(name) {
        Some("") if name != "bash" => "",
        Some(rest) if name != "bash" && rest.starts_with(' ') => rest.trim_start(),
        _ => object,
    }
}

/// Removes the path of the project from the paths in a text.
pub(crate) fn relative_in_text(text: &str, project: &str) -> Line {
    let project = project.trim_end_matches('/');
    // A project at the root of the disk would turn every path into another one.
    if project.len() < 2 {
        return text.into();
    }
    if text.trim() == project {
        return ".".into();
    }
    let mut inside = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once(project) {
        inside.push_str(before);
        let is_start = inside
            .chars()
            .next_back()
            .is_none_or(|last| last.is_whitespace() || "\"'`=:(,".contains(last));
        let path = after.strip_prefix('/').filter(|path| {
            let next = path.chars().next();
            next.is_some_and(|next| !next.is_whitespace() && !"\"'`;&|)".contains(next))
        });
        match path.filter(|_| is_start) {
            Some(path) => rest = path,
            None => {
                inside.push_str(project);
                rest = after;
            }
        }
    }
    inside.push_str(rest);
    inside.into()
}

#[cfg(test)]
mod tests {
    use super::{relative_in_text, same_task, without_name};

    #[test]
    fn a_task_is_the_same_if_nothing_but_its_end_is_missing() {
        for (one, other, same) in [
            ("fix the parser", "fix the parser", Some(14)),
            ("fix the parser ", "fix the parser", Some(14)),
            ("fix the…", "fix the parser", Some(7)),
            ("fix the parser of…", "fix the…", Some(7)),
            // A search for the first word gave no task.
            ("fix", "fix the parser", None),
            ("fix", "fix the…", None),
            ("fix it…", "fix the parser", None),
            // Many tasks begin like others.
            (
                &format!("{}a", "x".repeat(400)),
                &format!("{}b", "x".repeat(400)),
                None,
            ),
            ("…", "fix", None),
            ("", "", None),
        ] {
            assert_eq!(same_task(one, other), same, "{one} {other}");
            assert_eq!(same_task(other, one), same, "{other} {one}");
        }
    }

    #[test]
    fn a_tool_that_is_a_command_is_named_once() {
        assert_eq!(without_name("create", "create a.py"), "a.py");
        assert_eq!(without_name("submit", "submit"), "");
        assert_eq!(without_name("create", "created.py"), "created.py");
        assert_eq!(without_name("bash", "bash bash"), "bash bash");
    }

    #[test]
    fn paths_are_relative_to_the_project() {
        let shown = |text| relative_in_text(text, "/home/a/proj").as_str().to_owned();
        assert_eq!(shown("/home/a/proj/src/lib.rs:1–20"), "src/lib.rs:1–20");
        assert_eq!(shown("cd /home/a/proj && ls"), "cd /home/a/proj && ls");
        assert_eq!(shown("/home/a/proj"), ".");
        assert_eq!(shown("/home/a/project/x"), "/home/a/project/x");
        assert_eq!(shown("rm -r /home/a/proj/"), "rm -r /home/a/proj/");
        assert_eq!(shown("cd /home/a/proj/ && ls"), "cd /home/a/proj/ && ls");
        assert_eq!(shown("ls /mnt/home/a/proj/x"), "ls /mnt/home/a/proj/x");
        assert_eq!(shown("diff '/home/a/proj/a' /home/a/proj/b"), "diff 'a' b");
        assert_eq!(relative_in_text("/etc/passwd", "/").as_str(), "/etc/passwd");
    }
}
