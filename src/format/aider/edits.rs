//! Finds an edit in the text of a reply, in the formats without markers around it: whole files, unified
//! diffs, and patches. Other code blocks look the same, so the caller names the file that was edited.

use std::collections::HashSet;

use crate::format::CallDraft;
use crate::format::part::quoted;

/// The headers of a patch.
const HEADERS: [&str; 3] = ["*** Update File: ", "*** Add File: ", "*** Delete File: "];
const PATCH: [&str; 2] = ["*** Begin Patch\n", "*** End Patch\n"];

/// Returns the call that edits the file, with the part of the text that says how. Without one, the call
/// has only the path.
pub(super) fn of(path: &str, words: &str, id: String) -> CallDraft {
    let patch = patch(path, words).or_else(|| diff(path, words));
    let (name, text) = match &patch {
        Some(patch) => ("edit", Some(("patch", &**patch))),
        None => ("write", whole(path, words).map(|text| ("content", text))),
    };
    let text = text.map(|(key, text)| format!(",\"{key}\":{}", quoted(text)));
    CallDraft {
        id,
        name: text.as_ref().map_or("edit", |_| name).to_owned(),
        args: format!("{{\"path\":{}{}}}", quoted(path), text.unwrap_or_default()),
    }
}

/// Returns the first files of the patches and unified diffs in a text, at most `most`.
pub(super) fn patched(words: &str, most: usize) -> Vec<String> {
    let in_patch = words.lines().filter_map(in_header);
    let in_diff = diffs(words).into_iter().map(|(path, _)| path);
    let mut known = HashSet::new();
    let paths = in_patch.chain(in_diff).filter(|path| known.insert(*path));
    paths.take(most).map(str::to_owned).collect()
}

fn in_header(line: &str) -> Option<&str> {
    let path = HEADERS
        .iter()
        .find_map(|header| line.strip_prefix(header))?;
    Some(path.trim())
}

/// Returns the sections of the file in the patches of a text, as one patch.
fn patch(path: &str, words: &str) -> Option<String> {
    let (mut out, mut is_in) = (String::new(), false);
    for line in words.split_inclusive('\n') {
        match in_header(line.trim_end()) {
            Some(named) => is_in = named == path,
            None if line.starts_with("*** ") && !is_detail(line) || line.starts_with("```") => {
                is_in = false;
            }
            None => {}
        }
        if is_in {
            out.push_str(line.trim_end_matches(['\r', '\n']));
            out.push('\n');
        }
    }
    (!out.is_empty()).then(|| [PATCH[0], &out, PATCH[1]].concat())
}

/// Returns whether a line is part of the section of a file.
fn is_detail(line: &str) -> bool {
    line.starts_with("*** Move to: ") || line.starts_with("*** End of File")
}

/// Returns the parts of the unified diffs of a text that are about the file.
fn diff(path: &str, words: &str) -> Option<String> {
    let parts: Vec<&str> = diffs(words)
        .into_iter()
        .filter(|(named, _)| *named == path)
        .map(|(_, part)| part)
        .collect();
    (!parts.is_empty()).then(|| parts.concat())
}

/// Returns the files of the unified diffs in the blocks of a text, each with its part.
fn diffs(words: &str) -> Vec<(&str, &str)> {
    let mut found: Vec<(&str, &str)> = Vec::new();
    for (_, block) in blocks(words).filter(|(fence, _)| fence.info.starts_with("diff")) {
        let mut begun: Option<(&str, usize)> = None;
        let (mut at, mut before) = (0, "");
        for line in block.split_inclusive('\n') {
            if let Some(named) = line.strip_prefix("+++ ")
                && let Some(old) = before.strip_prefix("--- ")
            {
                let start = at - before.len();
                let part = |(path, from)| Some((path, block.get(from..start)?));
                found.extend(begun.and_then(part));
                begun = Some((named_in(old.trim(), named.trim()), start));
            }
            at += line.len();
            before = line;
        }
        found.extend(begun.and_then(|(path, from)| Some((path, block.get(from..)?))));
    }
    found
}

/// Returns the path in the two lines above a diff. Git puts letters before it.
fn named_in<'a>(old: &str, new: &'a str) -> &'a str {
    let is_of_git = old.starts_with("a/") || old == "/dev/null";
    new.strip_prefix("b/").filter(|_| is_of_git).unwrap_or(new)
}

/// Returns the content of the first block below the name of the file.
fn whole<'a>(path: &str, words: &'a str) -> Option<&'a str> {
    let file = path.rsplit('/').next().unwrap_or(path);
    // The model may name another directory than the program.
    let is_named = |above: &str| above == path || above.rsplit('/').next() == Some(file);
    let (_, block) = blocks(words).find(|(fence, _)| is_named(bare(fence.above)))?;
    Some(block)
}

/// Returns the path in the line above a block, without the marks around it.
fn bare(line: &str) -> &str {
    line.trim().trim_matches(['*', '`', '#', ':', ' '])
}

/// The line that begins a block: the one above it, and what follows the backticks.
struct Fence<'a> {
    above: &'a str,
    info: &'a str,
}

/// Returns the blocks of a text with their first lines. A block that isn't closed goes to the end.
fn blocks(words: &str) -> impl Iterator<Item = (Fence<'_>, &str)> {
    let (mut at, mut above) = (0, "");
    std::iter::from_fn(move || {
        while let Some(line) = words.get(at..)?.split_inclusive('\n').next() {
            at += line.len();
            let info = line.trim_start_matches('`');
            let ticks = line.len() - info.len();
            if ticks < 3 {
                above = line;
                continue;
            }
            let fence = Fence {
                above: std::mem::take(&mut above),
                info: info.trim(),
            };
            let rest = words.get(at..)?;
            let closing = line.get(..ticks)?;
            let mut end = 0;
            for line in rest.split_inclusive('\n') {
                if line.starts_with(closing) {
                    at += line.len();
                    break;
                }
                end += line.len();
            }
            at += end;
            return Some((fence, rest.get(..end)?));
        }
        None
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn called(path: &str, words: &str) -> String {
        let call = of(path, words, String::new());
        format!("{} {}", call.name, call.args)
    }

    #[test]
    fn a_whole_file_is_a_block_below_its_name() {
        for (words, content) in [
            ("a.py\n```python\nx = 1\n```\n", Some("x = 1\\n")),
            ("**src/a.py**:\n```\nx = 1\n```\n", Some("x = 1\\n")),
            (
                "Run:\n```sh\nmake\n```\n\n`a.py`\n````\n```\nx\n```\n````\n",
                Some("```\\nx\\n```\\n"),
            ),
            ("a.py\n```\nx = 1", Some("x = 1")),
            ("b.py\n```\nx = 1\n```\n", None),
            ("```\nx = 1\n```\n", None),
            ("", None),
        ] {
            let expected = match content {
                Some(content) => format!(r#"write {{"path":"a.py","content":"{content}"}}"#),
                None => r#"edit {"path":"a.py"}"#.to_owned(),
            };
            assert_eq!(called("a.py", words), expected, "{words}");
        }
    }

    #[test]
    fn a_diff_names_its_files() {
        let words = "```diff\n--- a.py\n+++ a.py\n@@ @@\n-x\n+y\n--- a/b.py\n+++ b/b.py\n@@ @@\n+z\n```\nSo:\n```diff\n--- a.py\n+++ a.py\n@@ @@\n+w\n```\n";
        assert_eq!(patched(words, 9), ["a.py", "b.py"]);
        assert_eq!(
            called("a.py", words),
            r#"edit {"path":"a.py","patch":"--- a.py\n+++ a.py\n@@ @@\n-x\n+y\n--- a.py\n+++ a.py\n@@ @@\n+w\n"}"#
        );
        assert_eq!(
            called("b.py", words),
            r#"edit {"path":"b.py","patch":"--- a/b.py\n+++ b/b.py\n@@ @@\n+z\n"}"#
        );
        // Another block isn't a diff.
        assert!(patched("```\n--- a\n+++ a\n```\n", 9).is_empty());
    }

    #[test]
    fn a_patch_names_its_files() {
        let words = "*** Begin Patch\n*** Update File: a.py\n@@ def f\n-x\n+y\n*** End of File\n*** Add File: b.py\n+z\n*** End Patch\nDone.\n";
        assert_eq!(patched(words, 9), ["a.py", "b.py"]);
        assert_eq!(
            called("a.py", words),
            r#"edit {"path":"a.py","patch":"*** Begin Patch\n*** Update File: a.py\n@@ def f\n-x\n+y\n*** End of File\n*** End Patch\n"}"#
        );
        assert_eq!(
            called("b.py", words),
            r#"edit {"path":"b.py","patch":"*** Begin Patch\n*** Add File: b.py\n+z\n*** End Patch\n"}"#
        );
    }
}
