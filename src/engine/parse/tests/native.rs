use super::*;
use crate::engine::ToolCall;
use crate::engine::parse::native;

fn call(name: &str, arguments: &str) -> ToolCall {
    ToolCall::new("c1", name, arguments)
}

#[test]
fn well_formed() {
    let table = [
        (r#"{"path": "a"}"#, json!({"path": "a"})),
        ("{}", json!({})),
        ("", json!({})),
        (" \n", json!({})),
    ];
    for (arguments, args) in table {
        let parsed = native(&[call("read", arguments)], "because");
        assert_eq!(
            parsed.decision.as_ref().unwrap().actions[0].id.as_deref(),
            Some("c1")
        );
        assert_eq!(
            direct(parsed),
            json!({"mode": "act", "why": "because", "do": [["read", args]]})
        );
    }
    let without_id = native(
        &[ToolCall {
            id: String::new(),
            ..call("read", "{}")
        }],
        "",
    );
    assert_eq!(without_id.decision.unwrap().actions[0].id, None);
}

#[test]
fn repairs() {
    use Extraction::*;
    let table = [
        ("```json\n{\"a\": 1}\n```", Fenced),
        ("args: {\"a\": 1}", Extracted),
        ("{\"a\": 1,}", TrailingComma),
        ("{'a': 1}", PythonLiteral),
        ("{\"a\": 1 ", Truncated),
    ];
    for (arguments, mode) in table {
        let parsed = native(&[call("list", "{}"), call("read", arguments)], "");
        let diagnostics = parsed.diagnostics.clone().unwrap();
        assert_eq!(
            (diagnostics.code, diagnostics.raw_output_preview.as_str()),
            (Trouble::SalvagedToolArguments, arguments.trim())
        );
        assert_eq!(
            repaired(parsed),
            (
                json!({"mode": "act", "do": [["list", {}], ["read", {"a": 1}]]}),
                mode
            )
        );
    }
}

#[test]
fn one_broken_call_refuses_all_and_is_named() {
    use Trouble::*;
    let table = [
        (r#"{"path": "a"#, InvalidJson),
        (r#"{"path": a}"#, InvalidJson),
        ("path = a", InvalidJson),
        (r#"{"a": 1} {"a": 2}"#, InvalidJson),
        (r#"["x", {"a": 1}]"#, InvalidActionSchema),
        (r#"["x", {"a": 1}"#, InvalidActionSchema),
        (r#"[x, {"a": 1}]"#, InvalidJson),
        (r#""{\"a\": 1}""#, InvalidActionSchema),
        ("null", InvalidActionSchema),
        ("7", InvalidActionSchema),
    ];
    for (arguments, wrong) in table {
        let refusal = refused(native(
            &[call("list", "{}"), call("read", arguments)],
            "text",
        ));
        assert_eq!(
            (refusal.code, refusal.issue_path.as_deref()),
            (wrong, Some("tool_calls[1].arguments")),
            "{arguments}"
        );
        assert!(
            refusal
                .repair_instruction
                .starts_with("The call of \"read\" cannot be read: "),
            "{refusal:?}"
        );
        assert_eq!(refusal.raw_output_preview, arguments);
    }
    assert_eq!(
        code(native(&[call(" ", "{}")], "")),
        (MissingRequiredField, Some("tool_calls[0].name".to_owned()))
    );
}

#[test]
fn text_without_calls_is_no_decision() {
    assert_eq!(
        code(native(&[], "The answer is 42.")),
        (Trouble::MissingActionOrFinal, None)
    );
    assert_eq!(code(native(&[], " ")), (Trouble::EmptyOutput, None));
}
