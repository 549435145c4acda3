use super::*;
use crate::engine::parse::{JsonText, Parser};

fn parse(text: &str) -> Parsed {
    JsonText.parse(text)
}

/// Returns the decision to call `read` with `args`.
fn read(args: &Value) -> Value {
    json!({"mode": "act", "do": [["read", args]]})
}

#[test]
fn well_formed() {
    let table = [
        (
            r#"{"thought": "t", "action": {"name": "read", "args": {"path": "a", "n": [1, -2, 0.5, true, null]}}}"#,
            json!({"mode": "act", "why": "t", "do": [["read", {"path": "a", "n": [1, -2, 0.5, true, null]}]]}),
        ),
        (r#"{"action": {"name": "read"}}"#, read(&json!({}))),
        (
            r#"{"actions": [{"name": "a", "args": {}}, {"name": "b", "args": {"x": 1}}], "action": null}"#,
            json!({"mode": "act", "do": [["a", {}], ["b", {"x": 1}]]}),
        ),
        (
            r#"{"final_answer": " 42 "}"#,
            json!({"mode": "final", "answer": "42"}),
        ),
        (
            r#"{"Final Answer": "42", "mode": "final"}"#,
            json!({"mode": "final", "answer": "42"}),
        ),
        (
            r#"{"action": {"name": "read", "args": {}}, "final_answer": ""}"#,
            read(&json!({})),
        ),
        (r#"{"mode": "wait"}"#, json!({"mode": "wait"})),
        (
            r#"{"mode": "WAIT", "rationale": "later"}"#,
            json!({"mode": "wait", "why": "later"}),
        ),
        (
            r#"{"reflection": "r", "answer": "x"}"#,
            json!({"mode": "final", "answer": "x", "meta": {"reflection": "r"}}),
        ),
        (
            r#"{"action": {"name": "read", "args": {"s": "\"\\\/\b\f\n\r\té\ud83d\ude00"}}}"#,
            read(&json!({"s": "\"\\/\u{8}\u{c}\n\r\té😀"})),
        ),
        (
            "<think>perhaps {\"final_answer\": \"no\"}</think>{\"final_answer\": \"yes\"}",
            json!({"mode": "final", "answer": "yes"}),
        ),
    ];
    for (text, decision) in table {
        assert_eq!(direct(parse(text)), decision, "{text}");
    }
}

#[test]
fn repairs() {
    use Extraction::*;
    let table = [
        (
            "```json\n{\"action\": {\"name\": \"read\", \"args\": {}}}\n```",
            json!({}),
            Fenced,
        ),
        (
            "```\n{\"action\": {\"name\": \"read\", \"args\": {}}}",
            json!({}),
            Fenced,
        ),
        (
            "I do {\"action\": {\"name\": \"read\", \"args\": {}}} now",
            json!({}),
            Extracted,
        ),
        (
            "Of {x} and {\"n\": 1}: {\"action\": {\"name\": \"read\", \"args\": {}}}",
            json!({}),
            Extracted,
        ),
        (
            "A \"{\" opens {\"action\": {\"name\": \"read\", \"args\": {}}}",
            json!({}),
            Extracted,
        ),
        (
            r#"{"action": {"name": "read", "args": {"l": [1, 2,],},},}"#,
            json!({"l": [1, 2]}),
            TrailingComma,
        ),
        (
            r#"{'action': {'name': 'read', 'args': {'t': True, 'f': False, 'n': None, 'q': 'it\'s "so"'}}}"#,
            json!({"t": true, "f": false, "n": null, "q": "it's \"so\""}),
            PythonLiteral,
        ),
        (
            r#"{"action": {"name": "read", "args": {"re": "\d+\.x"}}}"#,
            json!({"re": r"\d+\.x"}),
            PythonLiteral,
        ),
        (
            "{\"action\": {\"name\": \"read\", \"args\": {\"s\": '''a\n'b'\\x41\\101\\0''', \"r\": r'\\d'}}}",
            json!({"s": "a\n'b'AA\0", "r": r"\d"}),
            PythonLiteral,
        ),
        (
            r#"{"action": {"name": "read", "args": {"n": [+1, .5, 5., -.5e1]}}}"#,
            json!({"n": [1, 0.5, 5.0, -5.0]}),
            PythonLiteral,
        ),
        (
            "{\"action\": {\"name\": \"read\", \"args\": {\"s\": \"a\n\tb\"}}}",
            json!({"s": "a\n\tb"}),
            ControlChars,
        ),
        (
            r#"{"action": {"name": "read", "args": {"n": [18446744073709551616, -9223372036854775809, 1e999]}}}"#,
            json!({"n": ["18446744073709551616", "-9223372036854775809", "1e999"]}),
            NumberAsText,
        ),
        (
            r#"{"action": {"name": "read", "args": {"a": "b""#,
            json!({"a": "b"}),
            Truncated,
        ),
        (
            "```json\n{\"action\": {\"name\": \"read\", \"args\": {\"a\": [true\n```",
            json!({"a": [true]}),
            Truncated,
        ),
    ];
    for (text, args, mode) in table {
        assert_eq!(repaired(parse(text)), (read(&args), mode), "{text}");
    }
}

#[test]
fn integers_of_64_bits_keep_their_digits() {
    let text = r#"{"action": {"name": "read", "args": {"n": [18446744073709551615, -9223372036854775808]}}}"#;
    assert_eq!(
        direct(parse(text)),
        read(&json!({"n": [u64::MAX, i64::MIN]}))
    );
}

#[test]
fn refusals() {
    use Trouble::*;
    let table = [
        ("", EmptyOutput, None),
        (" \n", EmptyOutput, None),
        ("The answer is 42.", InvalidJson, None),
        ("42", InvalidJson, None),
        (
            "<think>perhaps {\"final_answer\": \"x\"}",
            InvalidJson,
            None,
        ),
        ("{}", MissingActionOrFinal, None),
        (r#"{"result": 42}"#, MissingActionOrFinal, None),
        (r#"{"thought": "hm"}"#, MissingActionOrFinal, None),
        (r#"{"final_answer": " "}"#, MissingActionOrFinal, None),
        // Broken in the middle.
        (
            r#"{"action": {"name": "read" "args": {}}}"#,
            InvalidJson,
            None,
        ),
        (
            r#"{"action": {"name": "read", args: {}}}"#,
            InvalidJson,
            None,
        ),
        (
            r#"{"action": {"name": read, "args": {}}}"#,
            InvalidJson,
            None,
        ),
        (
            r#"{"thought": "he said "hi" to me", "final_answer": "x"}"#,
            InvalidJson,
            None,
        ),
        (r#"{"a": bad {"final_answer": "x"}}"#, InvalidJson, None),
        (r#"{"final_answer": "\x41"}"#, InvalidJson, None),
        (r#"{"final_answer": "\ud800"}"#, InvalidJson, None),
        (
            r#"{"final_answer": "a", "final_answer": "b"}"#,
            InvalidJson,
            None,
        ),
        (
            r#"{"action": {"name": "read", "args": {"n": NaN}}}"#,
            InvalidJson,
            None,
        ),
        (
            r#"{"action": {"name": "read", "args": {"n": 007}}}"#,
            InvalidJson,
            None,
        ),
        // Truncated.
        (r#"{"#, InvalidJson, None),
        (r#"{"final_ans"#, InvalidJson, None),
        (r#"{"final_answer": "the first ha"#, InvalidJson, None),
        (
            r#"{"action": {"name": "run", "args": {"command": "rm -r /data/tm"#,
            InvalidJson,
            None,
        ),
        (
            r#"{"action": {"name": "wait", "args": {"seconds": 1"#,
            InvalidJson,
            None,
        ),
        (
            r#"{"action": {"name": "read", "args": {"path": "a","#,
            InvalidJson,
            None,
        ),
        (
            r#"{"action": {"name": "clear""#,
            MissingRequiredField,
            Some("action.args"),
        ),
        // Two objects.
        (
            r#"{"final_answer": "a"} {"final_answer": "b"}"#,
            InvalidJson,
            None,
        ),
        (
            r#"{"final_answer": "a"} {"final_answer": b}"#,
            InvalidJson,
            None,
        ),
        (
            r#"{"final_answer": "a", "answer": "b"}"#,
            InvalidActionSchema,
            Some("final_answer"),
        ),
        (
            r#"{"final_answer": "a", "action": {"name": "read"}}"#,
            InvalidActionSchema,
            None,
        ),
        (
            r#"{"action": {"name": "a"}, "actions": [{"name": "b"}]}"#,
            InvalidActionSchema,
            Some("actions"),
        ),
        // Wrong shape.
        (r#"{"action": "read"}"#, InvalidActionSchema, Some("action")),
        (
            r#"{"actions": [{"name": "a"}, 1]}"#,
            InvalidActionSchema,
            Some("actions[1]"),
        ),
        (
            r#"{"action": {"args": {}}}"#,
            MissingRequiredField,
            Some("action.name"),
        ),
        (
            r#"{"action": {"name": " ", "args": {}}}"#,
            MissingRequiredField,
            Some("action.name"),
        ),
        (
            r#"{"action": {"name": "read", "arguments": {"a": 1}}}"#,
            MissingRequiredField,
            Some("action.args"),
        ),
        (
            r#"{"action": {"name": "read", "args": "a"}}"#,
            InvalidActionSchema,
            Some("action.args"),
        ),
        (
            r#"{"action": {"name": "read", "args": null}}"#,
            InvalidActionSchema,
            Some("action.args"),
        ),
        (
            r#"{"actions": [{"name": "read", "args": ["a"]}]}"#,
            InvalidActionSchema,
            Some("actions[0].args"),
        ),
        (
            r#"{"final_answer": 42}"#,
            InvalidActionSchema,
            Some("final_answer"),
        ),
        (
            r#"{"mode": "final"}"#,
            MissingRequiredField,
            Some("final_answer"),
        ),
        (
            r#"{"mode": "act", "final_answer": "a"}"#,
            MissingRequiredField,
            Some("action"),
        ),
        (
            r#"{"mode": "dance", "final_answer": "a"}"#,
            InvalidActionSchema,
            Some("mode"),
        ),
        (
            r#"{"mode": 1, "final_answer": "a"}"#,
            InvalidActionSchema,
            Some("mode"),
        ),
    ];
    for (text, wrong, path) in table {
        assert_eq!(
            code(parse(text)),
            (wrong, path.map(str::to_owned)),
            "{text}"
        );
    }
}

#[test]
fn what_has_no_meaning_is_named() {
    let text = r#"{"mode": "act", "confidence": 1, "action": {"name": "read", "args": {}, "id": 7}, "final_answer": "x"}"#;
    let parsed = parse(text);
    let diagnostics = parsed.diagnostics.clone().unwrap();
    assert_eq!(diagnostics.code, Trouble::IgnoredContent);
    assert_eq!(
        diagnostics.details,
        r#"Ignored: the action's key "id", the key "confidence", the final answer "x"."#
    );
    assert_eq!(repaired(parsed), (read(&json!({})), Extraction::Direct));
}

#[test]
fn nesting_is_limited() {
    let nested = |depth: usize| {
        let (open, close) = ("[".repeat(depth), "]".repeat(depth));
        parse(&format!(
            r#"{{"action": {{"name": "read", "args": {{"a": {open}{close}}}}}}}"#
        ))
    };
    direct(nested(61));
    assert_eq!(code(nested(62)).0, Trouble::InvalidJson);
    assert_eq!(code(nested(100_000)).0, Trouble::InvalidJson);
}

#[test]
fn a_record_has_the_keys_of_the_format() {
    let wrong = refused(parse(&format!("{{\"final_answer\": é{}", "x".repeat(1000))));
    assert_eq!(
        wrong.details,
        format!(
            "At character 18: {:?} is not a value; put text in quotes.",
            format!("é{}…", "x".repeat(38))
        )
    );
    assert_eq!(
        (
            wrong.raw_output_preview.chars().count(),
            wrong.raw_output_chars
        ),
        (280, 1018)
    );
    let record = serde_json::to_value(&wrong).unwrap();
    assert_eq!(
        (&record["parser"], &record["contract"]),
        (&json!("json"), &json!("json_decision_v1"))
    );
    assert_eq!(
        (&record["severity"], &record["code"]),
        (&json!("error"), &json!("invalid_json"))
    );
    assert_eq!(
        (record.get("issue_path"), record.get("extraction_mode")),
        (None, None)
    );

    let put_right = parse("{'final_answer': 'x'}").diagnostics.unwrap();
    let record = serde_json::to_value(&put_right).unwrap();
    assert_eq!(
        (&record["severity"], &record["code"]),
        (&json!("warning"), &json!("salvaged_json_payload"))
    );
    assert_eq!(
        (&record["extraction_mode"], &record["salvage_applied"]),
        (&json!("python_literal"), &json!(true))
    );
}
