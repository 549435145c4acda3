use proptest::prelude::*;

use super::*;

fn json(text: &str) -> Json<'_> {
    Json::parse(text).unwrap()
}

#[track_caller]
fn words(before: &str, after: &str, expected: &str) {
    assert_eq!(diff(&json(before), &json(after)).words(), expected);
}

/// Returns one line per piece: `path +ins`, `path -del`, `path  same`.
fn lines(change: &Change<'_>) -> Vec<String> {
    let sign = |kind| match kind {
        Kind::Ins => '+',
        Kind::Del => '-',
        Kind::Same => ' ',
    };
    change
        .pieces(100, 1000)
        .pieces
        .into_iter()
        .map(|piece| format!("{} {}{}", piece.path, sign(piece.kind), piece.text))
        .collect()
}

#[track_caller]
fn shows(before: &str, after: &str, expected: &[&str]) {
    assert_eq!(lines(&diff(&json(before), &json(after))), expected);
}

#[test]
fn equal_values() {
    for (a, b) in [
        ("1", "1.0"),
        ("0.1", "0.10"),
        ("1e2", "100"),
        (r#"{"a": 1, "b": [2]}"#, r#"{"b": [2.0], "a": 1}"#),
        (r#"{"a": 1, "a": 2}"#, r#"{"a": 2}"#),
        ("null", "null"),
        (r#""\u0061""#, r#""a""#),
    ] {
        assert_eq!(diff(&json(a), &json(b)), Change::Same, "{a} {b}");
    }
}

#[test]
fn values_that_only_look_equal() {
    for (a, b) in [
        ("12345678901234567", "12345678901234568"),
        ("0.1", "0.1000000000000000055"),
        ("0.0", "-0.0"),
        ("1e999", "2e999"),
        ("1", "true"),
        ("null", "[]"),
    ] {
        assert_ne!(diff(&json(a), &json(b)), Change::Same, "{a} {b}");
    }
}

#[test]
fn number_changes_have_a_delta() {
    words("0", "1", "number, +1");
    words("3", "2.5", "number, −0.5");
    words("0.1", "0.3", "number, +0.2");
    words("1", "12345", "number, +12,344");
    words("0.1", "0.30000000000000004", "number, ≈ +0.2");
    words("0.5", "0.3333333333", "number, ≈ −0.166667");
    words("-1", "1", "number, +2");
    words("12345678901234567890", "12345678901234567891", "number, +1");
    words("1", "1e300", "number");
    words("0.1", "0.10000000000000001", "number");
    shows("0", "1", &[" -0", " +1"]);
    let odd = Json::Number("NaN");
    assert_eq!(diff(&odd, &json("3.25")).words(), "number");
    assert_eq!(diff(&odd, &odd), Change::Same);
}

#[test]
fn types_and_booleans() {
    words(r#""1""#, "[1]", "type text → list");
    words("null", "{}", "type null → object");
    words("true", "false", "true → false");
    shows("5", r#""5""#, &[" -5", " +\"5\""]);
}

#[test]
fn texts_word_by_word() {
    let (before, after) = (
        r#""add() has its operands reversed""#,
        r#""add() has its operands right, operator wrong""#,
    );
    words(before, after, "text, 3 words changed");
    shows(
        before,
        after,
        &[
            "  add() has its operands ",
            " -reversed",
            " +right, operator wrong",
        ],
    );
    shows(
        r#""one two""#,
        r#""one two three""#,
        &["  one two", " + three"],
    );
    shows(
        r#""one two three four""#,
        r#""one six five four""#,
        &["  one ", " -two three", " +six five", "   four"],
    );
    words(r#""replace_text""#, r#""run_python""#, "text");
    words(r#""""#, r#""measure""#, "text");
    shows(r#""""#, r#""5""#, &[" -\"\"", " +\"5\""]);
    words(r#""a b""#, r#""a  b""#, "text, only whitespace changed");
    shows(
        r#""🧑‍🚀 flies""#,
        r#""🧑‍🔬 flies""#,
        &[" -🧑‍🚀", " +🧑‍🔬", "   flies"],
    );
}

#[test]
fn long_unchanged_text_is_shown_around_the_change_only() {
    let filler = "word ".repeat(50);
    let (before, after) = (
        format!("\"{filler}old {filler}\""),
        format!("\"{filler}new {filler}\""),
    );
    let (before, after) = (json(&before), json(&after));
    let pieces = diff(&before, &after).pieces(10, 1000).pieces;
    assert_eq!(pieces.len(), 4);
    assert_eq!(pieces[0].text.chars().count(), 41);
    assert!(pieces[0].text.starts_with('…') && pieces[3].text.ends_with('…'));
    assert_eq!(pieces[0].left_out, 250 - 40);
    assert_eq!(pieces[1].text, "old");
}

#[test]
fn large_texts_are_replaced_as_a_whole() {
    let before = Json::String("a ".repeat(200_000).into());
    let after = Json::String("b ".repeat(200_000).into());
    assert_eq!(
        diff(&before, &after).words(),
        "text replaced, 400,000 → 400,000 bytes"
    );
    // All words differ: there is nothing to trim and too much to align.
    let text = |start: u32| {
        (start..start + 5000)
            .map(|n| format!("w{n} "))
            .collect::<String>()
    };
    let (before, after) = (
        Json::String(text(0).into()),
        Json::String(text(100_000).into()),
    );
    assert!(diff(&before, &after).words().starts_with("text replaced, "));
    // A text of the same length with one change: equal ends are free.
    let long = text(0);
    let other = long.replace("w2500", "x");
    let (before, after) = (Json::String(long.into()), Json::String(other.into()));
    assert_eq!(diff(&before, &after).words(), "text, 1 word changed");
}

#[test]
fn objects_by_key() {
    let before = r#"{"id": 2, "title": "patch", "status": "done"}"#;
    let after = r#"{"id": 2, "title": "patch", "status": "failed"}"#;
    words(before, after, "1 of 3 fields changed");
    shows(before, after, &["status -done", "status +failed"]);
    words("{}", r#"{"a": 1}"#, "object, +1 field → 1");
    words(
        r#"{"a": 1, "b": 1}"#,
        r#"{"b": 1, "c": 2, "d": 3}"#,
        "object, +2 −1 fields → 3",
    );
    words(r#"{"a": 1}"#, "{}", "object, −1 field → 0");
    words(
        r#"{"a": 1, "b": 1}"#,
        r#"{"a": 2, "b": 1, "c": 3}"#,
        "object, 1 of 2 fields changed, +1 field → 3",
    );
    shows(
        r#"{"a": {"b c": [1]}, "z": 1}"#,
        r#"{"a": {"b c": [1, 2]}}"#,
        &["a[\"b c\"][1] +2", "z -1"],
    );
    shows(r#"{"a": 1, "a": 2}"#, r#"{"a": 3}"#, &["a -2", "a +3"]);
}

#[test]
fn lists_are_aligned() {
    words("[]", r#"["a", "b"]"#, "list, +2 items → 2");
    words("[1, 2, 3]", "[2, 3]", "list, −1 item → 2");
    words("[1, 2, 3]", "[1, 9, 3]", "list, 1 of 3 items changed");
    words("[1, 2]", "[2, 1]", "list, same 2 items, reordered");
    words(
        "[1, 2, 3]",
        "[1, 9, 3, 4]",
        "list, 1 of 3 items changed, +1 item → 4",
    );
    words("[1, 1]", "[1]", "list, −1 item → 1");
    shows(
        r#"["a", "b", "c"]"#,
        r#"["b", "c", "a"]"#,
        &["[0] -a", "[2] +a"],
    );
    shows("[1, [2, 3]]", "[1, [2, 4]]", &["[1][1] -3", "[1][1] +4"]);
}

#[test]
fn one_insertion_in_800_is_one_change() {
    let item = |n: i32| format!(r#"{{"id": {n}, "name": "n{n}", "v": {}}}"#, n * 3);
    let mut items: Vec<String> = (0..800).map(item).collect();
    let before = format!("[{}]", items.join(", "));
    items.insert(10, item(-1));
    items[500] = items[500].replace("\"v\": 1497", "\"v\": 999");
    let after = format!("[{}]", items.join(", "));
    let (before, after) = (json(&before), json(&after));
    let change = diff(&before, &after);
    assert_eq!(
        change.words(),
        "list, 1 of 800 items changed, +1 item → 801"
    );
    assert_eq!(
        lines(&change),
        [
            "[10] +{\"id\": -1, \"name\": \"n-1\", \"v\": -3}",
            "[500].v -1497",
            "[500].v +999"
        ]
    );
}

#[test]
fn lists_too_large_to_align_are_compared_by_position() {
    let list = |start: u32| {
        format!(
            "[{}]",
            (start..start + 5000)
                .map(|n| n.to_string())
                .collect::<Vec<_>>()
                .join(",")
        )
    };
    let (before, after) = (list(0), list(1_000_000));
    let (before, after) = (json(&before), json(&after));
    let change = diff(&before, &after);
    assert_eq!(
        change.words(),
        "list, 5,000 of 5,000 items changed, too large to align: compared by position"
    );
    let pieces = change.pieces(3, 100);
    assert_eq!((pieces.pieces.len(), pieces.more), (3, 9997));
}

#[test]
fn the_budget_is_shared() {
    let list = |start: u32| {
        let inner = |start: u32| {
            (start..start + 900)
                .map(|n| n.to_string())
                .collect::<Vec<_>>()
                .join(",")
        };
        format!(
            "[{}]",
            (0..20)
                .map(|n| format!("[{}]", inner(start + n * 1000)))
                .collect::<Vec<_>>()
                .join(",")
        )
    };
    let (before, after) = (list(0), list(1_000_000));
    let (before, after) = (json(&before), json(&after));
    let Change::Array(change) = diff(&before, &after) else {
        panic!()
    };
    let by_position =
        |item: &&Item<'_>| matches!(&item.change, Change::Array(inner) if inner.by_position);
    let count = change.items.iter().filter(by_position).count();
    assert!(count > 0 && count < 20, "{count}");
}

#[test]
fn deep_values_are_compared_whole() {
    let nested = |value: &str| format!("{}{value}{}", "[".repeat(200), "]".repeat(200));
    let (before, after) = (nested("1"), nested("2"));
    let (before, after) = (json(&before), json(&after));
    let change = diff(&before, &after);
    assert_eq!(
        change.narrowed(String::new()).1.words(),
        "list, too deeply nested to compare"
    );
    assert_eq!(diff(&before, &before), Change::Same);
}

#[test]
fn pieces_are_truncated_and_counted() {
    let (before, after) = (json("[]"), json(r#"["ééééé", "b", "c"]"#));
    let pieces = diff(&before, &after).pieces(2, 5);
    assert_eq!(pieces.more, 1);
    assert_eq!(pieces.pieces[0].text, "éé");
    assert_eq!(pieces.pieces[0].left_out, 6);
    assert_eq!(pieces.pieces[1].left_out, 0);
}

fn rows(state_diff: &str) -> Vec<(String, String)> {
    changes_of_step(&json(state_diff))
        .iter()
        .map(KeyChange::row)
        .collect()
}

#[test]
fn a_step_of_a_real_run() {
    let state_diff = r#"{
        "score": {"before": "1", "after": null},
        "best": {"before": null, "after": {"path": ["n0", "n1"], "value": 3.0}},
        "graph": {"before": {"n0": []}, "after": {"n0": [], "n1": ["n0"]}},
        "queue": {"before": ["patch", "verify", "review"], "after": ["verify", "review", "patch"]},
        "cursor": {"before": 2, "after": 3},
        "plan_steps": {
            "before": [{"id": 0, "status": "done", "cost": {"real": 0.1}}, {"id": 1, "status": "todo", "cost": {"real": 0.2}}],
            "after": [{"id": 0, "status": "done", "cost": {"real": 0.1}}, {"id": 1, "status": "done", "cost": {"real": 0.2}}]
        },
        "token": "__redacted__",
        "loss": {"before": 3.25, "after": 3.0}
    }"#;
    let expected = [
        ("best", "set"),
        ("cursor", "number, +1"),
        ("graph", "object, +1 field → 2"),
        ("loss", "number, −0.25"),
        ("plan_steps[1]", "1 of 3 fields changed"),
        ("queue", "list, same 3 items, reordered"),
        ("score", "cleared"),
        ("token", "changed, redacted"),
    ];
    assert_eq!(
        rows(state_diff),
        expected.map(|(path, words)| (path.to_owned(), words.to_owned()))
    );
    let diff = json(state_diff);
    let changes = changes_of_step(&diff);
    let pieces = changes[4].pieces(10, 100).pieces;
    assert_eq!(
        (pieces[0].path.as_str(), pieces[0].text.as_str()),
        ("status", "todo")
    );
}

#[test]
fn malformed_entries_are_described() {
    let row = |text: &str| {
        rows(text)
            .into_iter()
            .next()
            .map(|(path, words)| format!("{path}: {words}"))
    };
    assert_eq!(row("null"), None);
    assert_eq!(row("{}"), None);
    assert_eq!(
        row("[1]").as_deref(),
        Some(": the values before and after aren't recorded")
    );
    assert_eq!(
        row(r#""__redacted__""#).as_deref(),
        Some(": changed, redacted")
    );
    assert_eq!(
        row(r#"{"a": 5}"#).as_deref(),
        Some("a: the values before and after aren't recorded")
    );
    assert_eq!(
        row(r#"{"a": {"x": 5}}"#).as_deref(),
        Some("a: the values before and after aren't recorded")
    );
    assert_eq!(row(r#"{"a": {"after": 5}}"#).as_deref(), Some("a: new"));
    assert_eq!(
        row(r#"{"a": {"before": 5}}"#).as_deref(),
        Some("a: removed")
    );
    assert_eq!(
        row(r#"{"a": {"before": null, "after": null}}"#).as_deref(),
        Some("a: no visible change")
    );
    assert_eq!(
        row(r#"{"a": {"before": "__redacted__", "after": "__redacted__"}}"#).as_deref(),
        Some("a: changed, redacted")
    );
    let odd = json(r#"{"a": 5}"#);
    assert_eq!(changes_of_step(&odd)[0].pieces(5, 5).pieces[0].text, "5");
}

fn value() -> impl Strategy<Value = String> {
    let leaf = prop::sample::select(vec![
        "null",
        "true",
        "false",
        "0",
        "1",
        "1.0",
        "-0.5",
        "1e5",
        "12345678901234567890",
        r#""""#,
        r#""a b""#,
        r#""a c b""#,
        r#""x""#,
    ]);
    leaf.prop_map(str::to_owned)
        .prop_recursive(4, 40, 6, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..6)
                    .prop_map(|items| format!("[{}]", items.join(","))),
                prop::collection::vec(("[ab]{1,2}", inner), 0..5).prop_map(|members| {
                    let members: Vec<_> = members
                        .iter()
                        .map(|(key, value)| format!("\"{key}\":{value}"))
                        .collect();
                    format!("{{{}}}", members.join(","))
                }),
            ]
        })
}

/// Rebuilds the two sides of a text change.
fn sides(change: &TextChange<'_>) -> (String, String) {
    match change {
        TextChange::Replaced { before, after, .. } => ((*before).to_owned(), (*after).to_owned()),
        TextChange::Edited(parts) => {
            let side = |skipped: Kind| {
                parts
                    .iter()
                    .filter(|(kind, _)| *kind != skipped)
                    .map(|(_, text)| *text)
                    .collect()
            };
            (side(Kind::Ins), side(Kind::Del))
        }
    }
}

/// Checks the counts of a change against the compared values.
fn check(change: &Change<'_>, before: &Json<'_>, after: &Json<'_>) {
    match change {
        Change::Same => assert!(same(before, after)),
        Change::Object(object) => {
            assert_eq!(object.len_after, crate::model::json::members(after).len());
            let added = object
                .members
                .iter()
                .filter(|(_, change)| matches!(change, Change::Added(_)))
                .count();
            let removed = object
                .members
                .iter()
                .filter(|(_, change)| matches!(change, Change::Removed(_)))
                .count();
            assert_eq!(
                object.same + object.members.len() - removed,
                object.len_after
            );
            assert_eq!(
                object.same + object.members.len() - added,
                crate::model::json::members(before).len()
            );
        }
        Change::Array(array) => {
            let count = |wanted: fn(&Change<'_>) -> bool| {
                array
                    .items
                    .iter()
                    .filter(|item| wanted(&item.change))
                    .count()
            };
            let added = count(|change| matches!(change, Change::Added(_)));
            let removed = count(|change| matches!(change, Change::Removed(_)));
            let inside = array.items.len() - added - removed;
            assert_eq!(array.same + inside + added, after.as_array().unwrap().len());
            assert_eq!(
                array.same + inside + removed,
                before.as_array().unwrap().len()
            );
            for item in &array.items {
                match &item.change {
                    Change::Removed(value) => {
                        assert_eq!(*value, &before.as_array().unwrap()[item.index])
                    }
                    Change::Added(value) => {
                        assert_eq!(*value, &after.as_array().unwrap()[item.index])
                    }
                    _ => {}
                }
            }
        }
        _ => assert!(!same(before, after)),
    }
}

proptest! {
    #[test]
    fn counts_add_up(before in value(), after in value()) {
        let (before, after) = (json(&before), json(&after));
        let change = diff(&before, &after);
        prop_assert_eq!(matches!(change, Change::Same), same(&before, &after));
        check(&change, &before, &after);
        prop_assert!(!change.words().is_empty());
        let all = change.pieces(usize::MAX, usize::MAX);
        let some = change.pieces(2, 3);
        prop_assert_eq!(all.pieces.is_empty(), matches!(change, Change::Same));
        prop_assert_eq!(some.pieces.len() + some.more, all.pieces.len());
    }

    #[test]
    fn a_text_change_holds_both_texts(before in "[ab ,🧑‍🚀\n]{0,30}", after in "[ab ,🧑‍🚀\n]{0,30}") {
        let (a, b) = (Json::String(before.as_str().into()), Json::String(after.as_str().into()));
        if let Change::Text(change) = diff(&a, &b) {
            prop_assert_eq!(sides(&change), (before, after));
        }
    }

    #[test]
    fn any_state_diff_has_words(text in value()) {
        let value = json(&text);
        for change in changes_of_step(&value) {
            change.row();
            change.pieces(10, 10);
        }
    }
}
