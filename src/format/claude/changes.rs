//! Determines the changes of files and plans in a tool result of Claude Code, with their old and
//! new content if the program records both.

use crate::format::part::{quoted, text};
use crate::format::value::is_true;
use crate::model::json::walk;

fields! {
    pub(super) struct Result {
        file = "filePath", old = "oldString", new = "newString", original = "originalFile", all = "replaceAll", content,
        old_todos = "oldTodos", new_todos = "newTodos", interrupted, agent = "agentId", task, task_id = "taskId",
        change = "statusChange", background = "backgroundTaskId", contents = "originalFileContents", edits, kind = "type",
    }
    struct Replaced { old = "old_string", new = "new_string", all = "replace_all" }
}

/// Applies edits to the text of a file in order. Returns `None` if one doesn't apply.
fn replaced<'a>(
    original: Option<&str>,
    mut edits: impl Iterator<Item = Replaced<'a>>,
) -> Option<String> {
    let after = edits.try_fold(text(original)?, |file, edit| {
        let (old, new) = (text(edit.old)?, text(edit.new)?);
        let many = if is_true(edit.all) && !old.is_empty() {
            usize::MAX
        } else {
            1
        };
        file.contains(&*old)
            .then(|| file.replacen(&*old, &new, many))
    });
    after.map(|after| quoted(&after))
}

/// Returns the files and plans that a result reports as changed, with both sides if known.
pub(super) fn changes(
    result: &Result<'_>,
    cwd: Option<&str>,
) -> Vec<(String, Option<String>, Option<String>)> {
    let mut changes = Vec::new();
    if let Some(path) = text(result.file)
        && (result
            .original
            .or(result.contents)
            .or(result.edits)
            .or(result.old)
            .is_some()
            || result.content.is_some() && text(result.kind).as_deref() == Some("create"))
    {
        let short = cwd
            .and_then(|cwd| path.strip_prefix(cwd))
            .map_or(&*path, |path| path.trim_start_matches('/'));
        let original = result.original.or(result.contents);
        let one = || Replaced {
            old: result.old,
            new: result.new,
            all: result.all,
            ..Replaced::default()
        };
        let after = match (result.content, result.edits, result.old) {
            // The whole file was written.
            (Some(content), None, None) => Some(content.to_owned()),
            (_, Some(edits), _) => replaced(original, walk::items(edits).map(Replaced::of)),
            _ => replaced(original, [one()].into_iter()),
        };
        changes.push((format!("files.{short}"), original.map(str::to_owned), after));
    }
    if let Some(todos) = result.new_todos {
        changes.push((
            "todos".to_owned(),
            result.old_todos.map(str::to_owned),
            Some(todos.to_owned()),
        ));
    }
    fields! { struct Change { from, to } struct Task { id, subject } }
    if let (Some(id), Some(change)) = (text(result.task_id), result.change.map(Change::of)) {
        changes.push((
            format!("tasks.{id}"),
            change.from.map(str::to_owned),
            change.to.map(str::to_owned),
        ));
    } else if let Some(task) = result
        .task
        .filter(|task| task.starts_with('{'))
        .map(Task::of)
        && let Some(id) = text(task.id)
    {
        changes.push((format!("tasks.{id}"), None, task.subject.map(str::to_owned)));
    }
    changes
}
