use super::*;
use proptest::prelude::*;

/// Returns the rows as text: the sign and the line, with changed words in braces.
fn shown(edit: &Edit<'_>) -> Vec<String> {
    let row = |row: &Row<'_>| match row {
        Row::Place(place) => (*place).to_owned(),
        Row::Unchanged(count) => format!("... {count}"),
        Row::Numbered(lines, told) => format!("{} to {}, {told}", lines.start(), lines.end()),
        Row::Line(sign, parts) => {
            let sign = match sign {
                Sign::Same => " ",
                Sign::Del => "-",
                Sign::Ins => "+",
            };
            let part = |(changed, text): &(bool, &str)| {
                if *changed {
                    format!("{{{text}}}")
                } else {
                    (*text).to_owned()
                }
            };
            format!("{sign}{}", parts.iter().map(part).collect::<String>())
        }
    };
    edit.rows().iter().map(row).collect()
}

/// The path, the numbers of added and removed lines, and the rows.
type Found = (String, usize, usize, Vec<String>);

fn of(name: &str, args: &str) -> (Vec<Found>, Vec<String>) {
    let json = Json::parse(args).unwrap();
    let requested = requested_edits(name, &json);
    let edits = requested
        .edits
        .iter()
        .map(|edit| (edit.path.to_string(), edit.added, edit.removed, shown(edit)))
        .collect();
    (
        edits,
        requested
            .arguments
            .iter()
            .map(|key| (*key).to_owned())
            .collect(),
    )
}

#[test]
fn an_old_and_a_new_text() {
    let (edits, arguments) = of(
        "Edit",
        r#"{"file_path": "a.py", "old_string": "x = 1\ny = 2\n", "new_string": "x = 1\ny = 3\nz = 4\n", "replace_all": false}"#,
    );
    assert_eq!(
        edits,
        [(
            "a.py".to_owned(),
            2,
            1,
            vec![
                " x = 1".into(),
                "-y = 2".into(),
                "+y = 3".into(),
                "+z = 4".into()
            ]
        )]
    );
    assert_eq!(arguments, ["old_string", "new_string"]);
    let (edits, _) = of(
        "replace_text",
        r#"{"path": "a", "old": "return a - b", "new": "return a + b"}"#,
    );
    assert_eq!(edits[0].3, ["-return a {-} b", "+return a {+} b"]);
    let (edits, _) = of(
        "Edit",
        r#"{"file_path": "a", "old_string": "", "new_string": "one\ntwo"}"#,
    );
    assert_eq!((edits[0].1, edits[0].2), (2, 0));
}

#[test]
fn a_list_of_edits_and_a_whole_file() {
    let (edits, arguments) = of(
        "MultiEdit",
        r#"{"file_path": "a", "edits": [{"old_string": "1", "new_string": "2"}, {"old_string": "3", "new_string": ""}]}"#,
    );
    assert_eq!(
        (edits.len(), edits[1].3.clone(), arguments),
        (2, vec!["-3".to_owned()], vec!["edits".to_owned()])
    );
    let (edits, arguments) = of("Write", r#"{"file_path": "a", "content": "one\ntwo\n"}"#);
    assert_eq!(
        (edits[0].1, edits[0].3.clone(), arguments),
        (
            2,
            vec!["+one".into(), "+two".into()],
            vec!["content".into()]
        )
    );
    let (edits, _) = of(
        "str_replace_editor",
        r#"{"command": "create", "path": "a", "file_text": "x"}"#,
    );
    assert_eq!(edits[0].3, ["+x"]);
    let (edits, _) = of(
        "str_replace_editor",
        r#"{"command": "insert", "path": "a", "insert_line": 4, "new_str": "x"}"#,
    );
    assert_eq!(edits[0].3, ["+x"]);
}

#[test]
fn lines_by_their_numbers() {
    let (edits, arguments) = of(
        "replace_lines",
        r#"{"path": "a.sh", "start_line": 6, "end_line": 6, "expect": "    shift", "text": ""}"#,
    );
    assert_eq!(
        edits,
        [(
            "a.sh".to_owned(),
            0,
            1,
            vec!["6 to 6, 1".into(), "-    shift".into()]
        )]
    );
    assert_eq!(arguments, ["expect", "text"]);
    let (edits, _) = of(
        "replace_lines",
        r#"{"path": "a", "start_line": 4, "end_line": 6, "text": "one\ntwo"}"#,
    );
    assert_eq!(
        (edits[0].1, edits[0].2, edits[0].3.len()),
        (2, 3, 3),
        "{edits:?}"
    );
    let (edits, _) = of(
        "replace_lines",
        r#"{"path": "a", "start_line": 4, "end_line": 3, "text": "one"}"#,
    );
    assert_eq!(
        (edits[0].1, edits[0].2, &*edits[0].3[1]),
        (1, 0, "+one"),
        "inserted before line 4"
    );
    for odd in [
        r#"{"path": "a", "start_line": 9, "end_line": 3, "text": "one"}"#,
        r#"{"path": "a", "start_line": 1, "end_line": 4294967295, "text": "one"}"#,
        r#"{"path": "a", "start_line": -1, "end_line": 1.5, "text": "one"}"#,
    ] {
        assert!(of("replace_lines", odd).0.is_empty(), "{odd}");
    }
    assert!(
        of(
            "read_file",
            r#"{"path": "a", "start_line": 1, "end_line": 3, "text": "one"}"#
        )
        .0
        .is_empty()
    );
}

#[test]
fn texts_that_are_appended() {
    let (edits, arguments) = of("append_file", r#"{"path": "n.txt", "content": "line 0"}"#);
    assert_eq!(
        (edits[0].1, edits[0].2, arguments),
        (1, 0, vec!["content".to_owned()])
    );
}

#[test]
fn edits_of_the_file_that_a_tool_has_open() {
    let (edits, arguments) = of("edit", r#"{"search": "a:", "replace": "b:"}"#);
    assert_eq!(
        (&*edits[0].0, edits[0].1, edits[0].2),
        ("(file not recorded)", 1, 1)
    );
    assert_eq!(arguments, ["search", "replace"]);
    let (edits, _) = of(
        "edit",
        r#"{"start_line": 2, "end_line": 3, "replacement_text": "x"}"#,
    );
    assert_eq!((edits[0].1, edits[0].2), (1, 2));
    assert!(
        of("look", r#"{"search": "a:", "replace": "b:"}"#)
            .0
            .is_empty(),
        "the tool's name doesn't suggest edits"
    );
}

#[test]
fn calls_that_edit_no_file() {
    for (name, args) in [
        ("Read", r#"{"file_path": "a"}"#),
        ("search", r#"{"path": "a", "text": "needle"}"#),
        (
            "Bash",
            r#"{"command": "git diff", "description": "--- what changed"}"#,
        ),
        ("send", r#"{"old": "a", "new": "b"}"#),
        (
            "Edit",
            r#"{"file_path": "a", "old_string": 1, "new_string": "b"}"#,
        ),
        ("say", r#""--- a\n+++ b\n@@ -1 +1 @@\nnot a hunk""#),
    ] {
        assert_eq!(of(name, args), (vec![], vec![]), "{name} {args}");
    }
    // A patch that is written into a file changes only that file.
    let (edits, _) = of(
        "Write",
        r#"{"path": "fix.patch", "content": "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-1\n+2\n"}"#,
    );
    assert_eq!((edits.len(), edits[0].0.as_str()), (1, "fix.patch"));
}

#[test]
fn patches_in_both_forms() {
    let text = "*** Begin Patch\\n*** Update File: a.py\\n@@ def f():\\n x\\n-y\\n+z\\n*** Add File: b.py\\n+new\\n*** Delete File: c.py\\n*** End Patch";
    let (edits, arguments) = of("apply_patch", &format!(r#"{{"input": "{text}"}}"#));
    let paths: Vec<_> = edits
        .iter()
        .map(|edit| (edit.0.as_str(), edit.1, edit.2))
        .collect();
    assert_eq!(paths, [("a.py", 1, 1), ("b.py", 1, 0), ("c.py", 0, 0)]);
    assert_eq!(
        (edits[0].3.clone(), arguments),
        (
            vec!["@@ def f():".into(), " x".into(), "-y".into(), "+z".into()],
            vec!["input".to_owned()]
        )
    );
    assert_eq!(of("apply_patch", &format!("\"{text}\"")).0.len(), 3);
    let text = "diff --git a/x b/x\\n--- a/x\\t2026\\n+++ b/x\\n@@ -1,2 +1,2 @@ fn f\\n same\\n--- a dash\\n+++ a plus\\n\\\\ No newline at end of file\\n--- /dev/null\\n+++ b/y\\n@@ -0,0 +1 @@\\n+y\\n";
    let (edits, _) = of("git_apply", &format!(r#"{{"diff": "{text}"}}"#));
    let paths: Vec<_> = edits
        .iter()
        .map(|edit| (edit.0.as_str(), edit.1, edit.2))
        .collect();
    assert_eq!(paths, [("x", 1, 1), ("y", 1, 0)]);
    assert_eq!(edits[0].3[1], " same");
}

#[test]
fn lines_far_from_a_change_are_counted() {
    let old: Vec<String> = (0..30).map(|n| n.to_string()).collect();
    let mut new = old.clone();
    new[15] = "changed".to_owned();
    let args =
        serde_json::json!({"path": "a", "old": old.join("\n"), "new": new.join("\n")}).to_string();
    let rows = &of("edit", &args).0[0].3;
    assert_eq!(rows.first().map(String::as_str), Some("... 12"));
    assert_eq!(rows.last().map(String::as_str), Some("... 11"));
    assert_eq!(rows.len(), 2 + 2 * CONTEXT + 2);
}

proptest! {
    /// Unchanged and removed lines make up the old text. Unchanged and added lines make up the new
    /// one.
    #[test]
    fn nothing_is_lost(old in "[ab\n ]{0,60}", new in "[ab\n ]{0,60}") {
        let rows = compared(&old, &new).unwrap();
        let side = |other: Sign| rows.iter().filter(|row| row.0 != other).map(|row| row.1).collect::<Vec<_>>();
        let expected = |text: &str| if text.is_empty() { vec![] } else { lines(text).into_iter().map(str::to_owned).collect::<Vec<_>>() };
        prop_assert_eq!(side(Sign::Ins), expected(&old));
        prop_assert_eq!(side(Sign::Del), expected(&new));
    }

    #[test]
    fn no_text_panics(text in "(\\*\\*\\* (Begin Patch|Update File: a|Move to: é|End Patch)\n|--- a\n|\\+\\+\\+ b\n|@@ -1,2 \\+1 @@\n|[-+ é\\\\]?[a-é]*\n){0,12}") {
        for edit in patch(&text) {
            let count = |wanted: Sign| edit.rows().iter().filter(|row| matches!(row, Row::Line(sign, _) if *sign == wanted)).count();
            prop_assert_eq!((count(Sign::Ins), count(Sign::Del)), (edit.added, edit.removed));
        }
    }
}

#[test]
fn an_edit_too_large_to_compare_still_names_its_file() {
    let long = "x\n".repeat(MAX_BYTES);
    for args in [
        serde_json::json!({"path": "a", "old": long, "new": "y"}),
        serde_json::json!({"path": "a", "command": "create", "file_text": long}),
        serde_json::json!({"path": "a", "edits": [{"old_string": "x", "new_string": long}]}),
    ] {
        let text = args.to_string();
        let json = Json::parse(&text).unwrap();
        let requested = requested_edits("edit", &json);
        assert_eq!(
            (
                requested.edits.len(),
                requested.too_large,
                requested.arguments.len()
            ),
            (0, Some("a"), 0)
        );
    }
    let text =
        serde_json::json!({"cmd": format!("apply_patch <<E\n*** Begin Patch\n{long}")}).to_string();
    assert_eq!(
        requested_edits("exec", &Json::parse(&text).unwrap()).too_large,
        Some("(files in a patch)")
    );
    let text = serde_json::json!({"path": "a", "content": long}).to_string();
    assert_eq!(
        requested_edits("read_file", &Json::parse(&text).unwrap()).too_large,
        None
    );
}

#[test]
fn the_alignment_cost_is_known_in_advance() {
    let pairs = |args: &str| {
        to_align(&Json::parse(args).unwrap()).map(|(path, pairs)| (path.to_owned(), pairs))
    };
    assert_eq!(
        pairs(r#"{"path": "a", "old": "1\n2", "new": "1\n2\n3"}"#),
        Some(("a".to_owned(), 6))
    );
    let list =
        r#"{"file_path": "a", "edits": [{"old": "1", "new": "2"}, {"old": "1\n2", "new": "2"}]}"#;
    assert_eq!(pairs(list), Some(("a".to_owned(), 3)));
    assert_eq!(pairs(r#"{"path": "a", "content": "1\n2"}"#), None);
}

#[test]
fn blocks_between_conflict_markers_are_edits_of_the_file_that_the_call_names() {
    let edits = |patch: &str| {
        let args = serde_json::json!({"path": "a", "patch": patch}).to_string();
        let args = Json::parse(&args).unwrap();
        let found = requested_edits("patch", &args);
        let of = |edit: &Edit<'_>| (edit.path.to_string(), edit.removed, edit.added);
        found.edits.iter().map(of).collect::<Vec<_>>()
    };
    let one = "<<<<<<< ORIGINAL\nold\nsame\n=======\nnew\nsame\n>>>>>>> UPDATED";
    assert_eq!(edits(one), [("a".to_owned(), 1, 1)]);
    assert_eq!(edits(&format!("{one}\n{one}\n")), [("a".to_owned(), 2, 2)]);
    let new = "<<<<<<< SEARCH\n=======\nnew\n=======\n>>>>>>> REPLACE\n";
    assert_eq!(edits(new), [("a".to_owned(), 0, 2)]);
    assert_eq!(edits("<<<<<<< ORIGINAL\nold\n=======\nnew\n"), []);
    assert_eq!(edits("=======\nnew\n>>>>>>> UPDATED\n"), []);
}
