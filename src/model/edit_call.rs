//! Recognizes calls that ask a tool to edit a file, mostly by their arguments rather than the name of
//! the tool.

use std::borrow::Cow;

use super::json::walk;

/// The arguments that name a file.
pub(crate) const PATHS: [&str; 9] = [
    "file_path",
    "path",
    "filePath",
    "filepath",
    "filename",
    "file",
    "target_file",
    "absolute_path",
    "notebook_path",
];
/// The arguments with the text before and the text after.
pub(crate) const PAIRS: [(&str, &str); 10] = [
    ("old_string", "new_string"),
    ("old_str", "new_str"),
    ("oldString", "newString"),
    ("old_text", "new_text"),
    ("oldText", "newText"),
    ("old", "new"),
    ("search", "replace"),
    ("find", "replace"),
    ("from_text", "to_text"),
    ("before", "after"),
];
/// The arguments with the text for lines that are given by their numbers.
pub(crate) const NUMBERED: [&str; 4] = ["text", "new_text", "new_str", "replacement_text"];
/// The arguments with a text that is inserted.
pub(crate) const INSERTED: [&str; 3] = ["new_str", "insert_text", "text"];
/// The arguments with the whole text of a file.
pub(crate) const WHOLE: [&str; 5] = ["content", "contents", "file_text", "new_content", "text"];

/// Longer paths don't count; bytes.
const MAX_PATH: usize = 1_000;
/// The arguments of a call that are looked at.
const MAX_ARGUMENTS: usize = 64;

/// Returns whether a tool writes a whole text, judged by its name.
pub(crate) fn writes(name: &str) -> bool {
    let lower = name.to_ascii_lowercase();
    lower.contains("write") || lower.contains("create") || lower == "save" || appends(name)
}

/// Returns whether a tool writes after the existing text, judged by its name.
pub(crate) fn appends(name: &str) -> bool {
    name.to_ascii_lowercase().contains("append")
}

/// Returns whether a tool changes parts of a file, judged by its name.
pub(crate) fn replaces(name: &str) -> bool {
    let lower = name.to_ascii_lowercase();
    lower.contains("edit") || lower.contains("replace")
}

/// Returns the file that a call asks to edit. `args` is its arguments as JSON text.
pub(crate) fn edited_file<'a>(name: &str, args: &'a str) -> Option<Cow<'a, str>> {
    let args = Arguments::of(args);
    let path = PATHS.iter().find_map(|key| args.text(key))?;
    let path = walk::string(path).filter(|path| (1..=MAX_PATH).contains(&path.len()))?;
    let list = args.get("edits").and_then(|list| walk::items(list).next());
    let command = args.text("command");
    let inserts = args.get("insert_line").is_some() || command == Some("\"insert\"");
    let is_numbered = args.get("start_line").is_some() && args.get("end_line").is_some();
    let has_any = |keys: &[&str]| keys.iter().any(|key| args.text(key).is_some());
    let is_edit = args.has_pair()
        || list.is_some_and(|first| Arguments::of(first).has_pair())
        || inserts && has_any(&INSERTED)
        || is_numbered && replaces(name) && has_any(&NUMBERED)
        || (writes(name) || command == Some("\"create\"")) && has_any(&WHOLE);
    is_edit.then_some(path)
}

/// The first arguments of a call.
struct Arguments<'a>(Vec<(&'a str, &'a str)>);

impl<'a> Arguments<'a> {
    fn of(object: &'a str) -> Self {
        Self(walk::members(object).take(MAX_ARGUMENTS).collect())
    }

    /// Returns the JSON text of an argument.
    fn get(&self, name: &str) -> Option<&'a str> {
        let is_name = |key: &str| {
            let bare = key.strip_prefix('"').and_then(|key| key.strip_suffix('"'));
            bare == Some(name)
        };
        let found = self.0.iter().rfind(|(key, _)| is_name(key));
        found.map(|(_, value)| *value)
    }

    /// Returns the JSON text of an argument if it's a string.
    fn text(&self, name: &str) -> Option<&'a str> {
        self.get(name).filter(|value| value.starts_with('"'))
    }

    fn has_pair(&self) -> bool {
        let has = |key: &str| self.text(key).is_some();
        PAIRS.iter().any(|(old, new)| has(old) && has(new))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_edit_is_recognized_by_its_arguments() {
        for (name, args, file) in [
            (
                "t",
                r#"{"path": "a\"b", "old_str": "x", "new_str": "y"}"#,
                Some("a\"b"),
            ),
            (
                "t",
                r#"{"file_path": "a", "edits": [{"oldText": "x", "newText": "y"}]}"#,
                Some("a"),
            ),
            (
                "t",
                r#"{"command": "create", "path": "a", "file_text": ""}"#,
                Some("a"),
            ),
            (
                "t",
                r#"{"command": "insert", "path": "a", "insert_line": 1, "new_str": "x"}"#,
                Some("a"),
            ),
            ("write_file", r#"{"path": "a", "content": "x"}"#, Some("a")),
            (
                "replace_lines",
                r#"{"path": "a", "start_line": 1, "end_line": 2, "text": "x"}"#,
                Some("a"),
            ),
            (
                "read_file",
                r#"{"path": "a", "start_line": 1, "end_line": 2}"#,
                None,
            ),
            ("read_file", r#"{"path": "a", "content": "x"}"#, None),
            ("write_file", r#"{"content": "x"}"#, None),
            ("write_file", r#"{"path": "", "content": "x"}"#, None),
            ("write_file", r#"{"path": 1, "content": "x"}"#, None),
            ("write_file", "not JSON", None),
            ("t", r#"{"path": "a", "edits": []}"#, None),
        ] {
            assert_eq!(edited_file(name, args).as_deref(), file, "{args}");
        }
    }
}
