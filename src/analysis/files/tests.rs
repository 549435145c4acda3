//! Tests that a list that follows a run equals a list that is read at once, and that it reads only
//! the necessary lines.

use std::cell::Cell;
use std::fmt::Write as _;

use super::*;
use crate::analysis::facts::tests::Files as Run;
use crate::model::Span;

/// A run that counts the lines that are read.
struct Counted {
    run: Run,
    _dir: tempfile::TempDir,
    read: Cell<usize>,
}

impl Lines for Counted {
    fn line(&self, file: TraceFile, span: Span) -> Result<Vec<u8>, String> {
        self.read.set(self.read.get() + 1);
        self.run.line(file, span)
    }
    fn manifest(&self) -> Result<Vec<u8>, String> {
        self.run.manifest()
    }
    fn has_asset(&self, recorded: &str) -> Result<(), String> {
        self.run.has_asset(recorded)
    }
}

/// Returns a run whose steps edit these files, each with the number of new lines. A step with an
/// empty name makes no edit.
fn run(edits: &[(&str, usize)]) -> Counted {
    let dir = tempfile::tempdir().unwrap();
    let mut lines = String::new();
    for (n, (path, added)) in edits.iter().enumerate() {
        let new = "new\\n".repeat(*added);
        let args = format!(r#"{{"path":"{path}","old":"old\n","new":"{new}"}}"#);
        let action = if path.is_empty() {
            String::new()
        } else {
            format!(r#"{{"name":"str_replace","args":{args}}}"#)
        };
        let result = if path.is_empty() {
            ""
        } else {
            r#"{"status":"success","output":"ok"}"#
        };
        let decision = r#"{"mode":"act"}"#;
        let _ = writeln!(
            lines,
            r#"{{"step_id":{n},"decision":{decision},"actions":[{action}],"action_results":[{result}]}}"#
        );
    }
    std::fs::write(dir.path().join("steps.jsonl"), lines).unwrap();
    std::fs::write(
        dir.path().join("manifest.json"),
        r#"{"run_id":"r","status":"running"}"#,
    )
    .unwrap();
    Counted {
        run: Run::open(dir.path()),
        _dir: dir,
        read: Cell::new(0),
    }
}

/// Updates the list after a run grew or changed. Returns the number of lines that were read.
fn follow(list: &mut Followed, edits: &[(&str, usize)]) -> usize {
    let run = run(edits);
    let files = list.files(&run.run.index, &run);
    let read = run.read.replace(0);
    assert_eq!(
        *files,
        *Followed::default().files(&run.run.index, &run),
        "the same as reading everything at once"
    );
    read
}

#[test]
fn only_new_steps_are_read() {
    let list = &mut Followed::default();
    let mut edits = vec![("a", 1), ("", 0), ("b", 2), ("a", 3)];
    assert_eq!(follow(list, &edits), 3, "a step without calls is not read");
    assert_eq!(
        list.list
            .files
            .iter()
            .map(|file| (&*file.path, file.added))
            .collect::<Vec<_>>(),
        [("a", Some(4)), ("b", Some(2))]
    );
    assert_eq!(follow(list, &edits), 0);
    edits.push(("c", 1));
    assert_eq!(follow(list, &edits), 1);
}

#[test]
fn a_replaced_step_and_those_after_it_are_read_again() {
    let list = &mut Followed::default();
    follow(list, &[("a", 1), ("b", 2), ("a", 3), ("c", 1)]);
    assert_eq!(
        follow(list, &[("a", 1), ("b", 2), ("d", 3), ("a", 1), ("b", 1)]),
        3
    );
    assert_eq!(follow(list, &[("a", 1)]), 0, "a run that became shorter");
    assert_eq!(
        follow(list, &[("z", 1)]),
        1,
        "another run under the same name"
    );
    assert_eq!(follow(list, &[]), 0);
}

#[test]
fn a_long_run_is_read_in_pieces_that_form_one_list() {
    let run = run(&[("a", 1), ("", 0), ("b", 2), ("a", 3), ("c", 1)]);
    let list = &mut Followed::default();
    let seen = |files: &Files| (files.edits, files.pending);
    assert_eq!(
        seen(&list.read(&run.run.index, &run, 2)),
        (2, 2),
        "a step without calls doesn't count toward the limit"
    );
    assert_eq!(run.read.replace(0), 2);
    assert_eq!(seen(&list.read(&run.run.index, &run, 2)), (4, 0));
    assert_eq!(run.read.replace(0), 2);
    assert_eq!(
        *list.read(&run.run.index, &run, 2),
        *Followed::default().files(&run.run.index, &run)
    );
}

#[test]
fn only_patches_without_text_are_hidden() {
    let dir = tempfile::tempdir().unwrap();
    let edit = r#"{"name":"str_replace","args":{"path":"a","old":"x","new":"y"}}"#;
    let patch = |text: &str| format!(r#"{{"name":"apply_patch","args":{{"input":"{text}"}}}}"#);
    let malformed = patch(r"*** Begin Patch\n*** Change: a\n*** End Patch");
    let line = |n: usize, actions: &str| {
        format!(
            r#"{{"step_id":{n},"decision":{{"mode":"act"}},"actions":[{actions}],"action_results":[]}}"#
        ) + "\n"
    };
    let redacted = patch("[REDACTED_INPUT len=62]");
    let beside = [edit, &patch(""), &redacted].join(",");
    let lines = line(0, &malformed) + &line(1, &beside) + &line(2, &redacted);
    std::fs::write(dir.path().join("steps.jsonl"), lines).unwrap();
    let manifest = r#"{"run_id":"r","status":"running"}"#;
    std::fs::write(dir.path().join("manifest.json"), manifest).unwrap();
    let run = Run::open(dir.path());
    let files = Followed::default().files(&run.index, &run);
    assert_eq!((files.edits, &*files.hidden), (1, &[1, 1, 2][..]));
}

/// Counts the lines of the edits of one step with these calls and changes, as a tool's session holds
/// them.
fn counted(calls: &str, changes: &str) -> Vec<(&'static str, Option<usize>, Option<usize>)> {
    let dir = tempfile::tempdir().unwrap();
    let results = vec![r#"{"status":"success"}"#; calls.matches("\"name\"").count()].join(",");
    let line = format!(
        r#"{{"step_id":0,"decision":{{"mode":"act"}},"actions":[{calls}],"action_results":[{results}],"state_diff":{{{changes}}}}}"#
    );
    std::fs::write(dir.path().join("steps.jsonl"), line + "\n").unwrap();
    let manifest = r#"{"run_id":"r","status":"running"}"#;
    std::fs::write(dir.path().join("manifest.json"), manifest).unwrap();
    let run = Run::open(dir.path());
    let head = run.index.steps().get(0).unwrap();
    let record = Lines::record(&run, TraceFile::Steps, head.span).unwrap();
    let step = crate::format::step(&record).unwrap();
    let (found, _) = of_step(0, head, &step, true, &mut MAX_PAIRS.clone());
    for (_, edit) in &found {
        let shown = with_edit(edit, &step, |shown| (shown.added, shown.removed));
        assert_eq!(
            shown,
            edit.added.zip(edit.removed),
            "the lines that are shown"
        );
    }
    let counts = |(_, edit): (String, Edited)| (edit.kind, edit.added, edit.removed);
    found.into_iter().map(counts).collect()
}

#[test]
fn recorded_changes_count_where_a_call_holds_a_part() {
    let write = r#"{"name":"Write","args":{"file_path":"/p/a.py","content":"x\n"}}"#;
    let before = r#""files.a.py":{"before":"1\n2\nx\n","after":"x\n"}"#;
    assert_eq!(counted(write, before), [("written", Some(0), Some(2))]);
    let unknown = r#""files.a.py":{"after":"x\n"}"#;
    assert_eq!(counted(write, unknown), [("written", Some(1), Some(0))]);
    let other = r#""files.ba.py":{"before":"1\n2\nx\n","after":"x\n"}"#;
    assert_eq!(counted(write, other), [("written", Some(1), Some(0))]);
    let twice = [write, write].join(",");
    assert_eq!(counted(&twice, before), [("written", Some(1), Some(0)); 2]);
    let all = r#"{"name":"Edit","args":{"file_path":"/p/a.py","old_string":"x","new_string":"y","replace_all":true}}"#;
    let three = r#""files.a.py":{"before":"x\nx\nx\n","after":"y\ny\ny\n"}"#;
    assert_eq!(counted(all, three), [("changed", Some(3), Some(3))]);
    let deletion = r#"{"name":"apply_patch","args":{"input":"*** Begin Patch\n*** Delete File: a.py\n*** End Patch"}}"#;
    let deleted = r#""files.a.py":{"before":"1\n2\n","after":null}"#;
    assert_eq!(counted(deletion, deleted), [("deleted", Some(0), Some(2))]);
}
