//! Finds the patch that a run submitted as its answer.
//!
//! A row has only the beginning of a long answer. The whole answer is a text in one of the last
//! records.

use super::change::Net;
use super::net;
use crate::analysis::patch::unified_diff;
use crate::format::uncut;
use crate::model::json::Json;
use crate::model::{Index, Lines, Span, TraceFile};

/// Maximum number of files of a submitted patch that are shown.
const MAX_FILES: usize = 500;
/// The last steps and events that are searched for the whole answer.
const RECORDS: usize = 4;
/// Texts nested deeper aren't found.
const MAX_DEPTH: usize = 6;
/// The pairs of lines that may be compared.
const MAX_PAIRS: usize = 10_000_000;

/// A file of a patch that the run submitted as its answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Submitted {
    /// The path in the patch.
    pub path: String,
    /// Its change.
    pub net: Net,
    /// The trace has only the beginning of the patch, and this file is the last one in it.
    pub is_cut: bool,
}

/// Returns the files of a patch that a run submitted as its answer. Empty if the answer isn't a
/// patch.
pub(crate) fn submitted(answer: &str, index: &Index, lines: &dyn Lines) -> Vec<Submitted> {
    let (known, is_whole) = uncut(answer);
    if !known.contains("diff --git ") && !known.contains("--- ") {
        return Vec::new();
    }
    if is_whole {
        return of_text(known, true);
    }
    let steps = index.steps().iter().rev().take(RECORDS);
    let events = index.events().iter().rev().take(RECORDS);
    let steps = steps.map(|step| (TraceFile::Steps, step.span));
    let events = events.map(|event| (TraceFile::Events, event.span));
    let found = |(file, span): (TraceFile, Span)| {
        let record = lines.record(file, span).ok()?;
        text_with(&Json::parse(&record.text)?, known, MAX_DEPTH)
    };
    // A whole patch that is too long to be read shows its beginning, too.
    let whole = events.chain(steps).find_map(found);
    let whole = whole.map(|text| of_text(&text, true)).unwrap_or_default();
    if whole.is_empty() {
        of_text(known, false)
    } else {
        whole
    }
}

/// Returns the text in a record that begins like the answer.
fn text_with(json: &Json<'_>, start: &str, depth: usize) -> Option<String> {
    let depth = depth.checked_sub(1)?;
    match json {
        Json::String(text) => {
            let text = text.trim();
            text.starts_with(start).then(|| text.to_owned())
        }
        Json::Array(items) => items.iter().find_map(|item| text_with(item, start, depth)),
        Json::Object(members) => members
            .iter()
            .find_map(|(_, value)| text_with(value, start, depth)),
        _ => None,
    }
}

fn of_text(text: &str, is_whole: bool) -> Vec<Submitted> {
    let edits = unified_diff(text);
    let (count, mut work) = (edits.len(), MAX_PAIRS);
    let of_edit = |(at, edit): (usize, &_)| {
        let mut net = net::of_patch(edit, &mut work);
        let is_cut = !is_whole && at + 1 == count;
        // The lines of such a patch don't show how they end.
        let is_plain = !text.contains("\n\\ ") && !text.contains('\r');
        net.is_patch &= !is_cut && is_plain;
        Submitted {
            path: edit.path.clone().into_owned(),
            net,
            is_cut,
        }
    };
    edits
        .iter()
        .enumerate()
        .take(MAX_FILES)
        .map(of_edit)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATCH: &str = "diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1,2 +1,2 @@ fn f\n a\n-b\n+B\n--- /dev/null\n+++ b/y\n@@ -0,0 +1 @@\n+y\n";

    #[test]
    fn each_file_of_a_patch_has_its_change() {
        let found = of_text(PATCH, true);
        let patches: Vec<_> = found
            .iter()
            .map(|file| file.net.patch(&file.path).unwrap())
            .collect();
        assert_eq!(
            patches,
            [
                "diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1,2 +1,2 @@\n a\n-b\n+B\n",
                "diff --git a/y b/y\nnew file mode 100644\n--- /dev/null\n+++ b/y\n@@ -0,0 +1,1 @@\n+y\n",
            ]
        );
        assert!(of_text("The answer is 42.", true).is_empty());
    }

    #[test]
    fn a_truncated_patch_says_so_and_cannot_be_copied() {
        let found = of_text(PATCH.strip_suffix("+y\n").unwrap(), false);
        let cut: Vec<_> = found
            .iter()
            .map(|file| (file.is_cut, file.net.is_patch))
            .collect();
        assert_eq!(cut.first(), Some(&(false, true)));
        assert!(
            cut.last()
                .is_some_and(|(is_cut, is_patch)| *is_cut && !is_patch),
            "{cut:?}"
        );
    }

    #[test]
    fn the_whole_answer_is_found_in_a_record() {
        let json = Json::parse(r#"{"a": [1, {"b": "\n--- a/x\n+++ b/x\nmore\n"}]}"#).unwrap();
        assert_eq!(
            text_with(&json, "--- a/x", MAX_DEPTH).as_deref(),
            Some("--- a/x\n+++ b/x\nmore")
        );
        assert_eq!(text_with(&json, "--- a/y", MAX_DEPTH), None);
    }
}
