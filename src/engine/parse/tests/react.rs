use super::*;
use crate::engine::parse::{Parser, ReAct};

fn parse(text: &str) -> Parsed {
    ReAct.parse(text)
}

fn read(args: &Value) -> Value {
    json!({"mode": "act", "do": [["read", args]]})
}

#[test]
fn well_formed() {
    let table = [
        (
            "Thought: look\n there\nAction: read(path=\"a\", n=-1, on=True, off=None, l=[1, {'k': 'v'},], f=0.5)\n",
            json!({"mode": "act", "why": "look\n there", "do": [["read",
                {"path": "a", "n": -1, "on": true, "off": null, "l": [1, {"k": "v"}], "f": 0.5}]]}),
        ),
        ("Action: read()", read(&json!({}))),
        (
            "action 1 : read (\n  path = 'it\\'s',\n)",
            read(&json!({"path": "it's"})),
        ),
        ("**Action:** read(path='x')", read(&json!({"path": "x"}))),
        (
            "Action: read(s=\"\"\"a\n\"b\"\nAction: c()\n\"\"\", r=r'\\d', on=true)",
            read(&json!({"s": "a\n\"b\"\nAction: c()\n", "r": "\\d", "on": true})),
        ),
        (
            "Action: fs.read-file(a='b) (c')",
            json!({"mode": "act", "do": [["fs.read-file", {"a": "b) (c"}]]}),
        ),
        (
            "Action: read\nAction Input: {\"path\": \"a\"}\n",
            read(&json!({"path": "a"})),
        ),
        (
            "Action:\n{\"name\": \"read\", \"args\": {\"n\": 1}}",
            read(&json!({"n": 1})),
        ),
        (
            "Action: a(x=1)\nAction: b()",
            json!({"mode": "act", "do": [["a", {"x": 1}], ["b", {}]]}),
        ),
        (
            "Action: a(x=1); b()\nc()",
            json!({"mode": "act", "do": [["a", {"x": 1}], ["b", {}], ["c", {}]]}),
        ),
        (
            "I should look.\nAction: read()",
            json!({"mode": "act", "why": "I should look.", "do": [["read", {}]]}),
        ),
        (
            "<think>\nAction: no()\n</think>\nFinal Answer: 42",
            json!({"mode": "final", "answer": "42"}),
        ),
        (
            "Reflection: r\nFinal Answer: first\nNote: second\nAction: third()",
            json!({"mode": "final", "answer": "first\nNote: second\nAction: third()", "meta": {"reflection": "r"}}),
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
        ("```\nAction: read()\n```", json!({}), Fenced),
        (
            "Action:\n```python\nread(a=1)\n```",
            json!({"a": 1}),
            Fenced,
        ),
        ("Action: `read(a=1)`", json!({"a": 1}), Fenced),
        (
            "Action: read\nAction Input:\n```json\n{\"a\": 1}\n```",
            json!({"a": 1}),
            Fenced,
        ),
        (
            "Action: read\nAction Input: {'a': True}",
            json!({"a": true}),
            PythonLiteral,
        ),
        (
            "Action: read(a=\"x\ny\")",
            json!({"a": "x\ny"}),
            ControlChars,
        ),
        (
            "Action: read(a=99999999999999999999)",
            json!({"a": "99999999999999999999"}),
            NumberAsText,
        ),
        ("Action: read(a=\"x\"", json!({"a": "x"}), Truncated),
        ("Action: read(a=[1, [2]", json!({"a": [1, [2]]}), Truncated),
        (
            "Action: read(a=7\nThought: closed?",
            json!({"a": 7}),
            Truncated,
        ),
    ];
    for (text, args, mode) in table {
        let (decision, how) = repaired(parse(text));
        assert_eq!((&decision["do"], how), (&read(&args)["do"], mode), "{text}");
    }
    let fenced = repaired(parse("So:\n```\nFinal Answer: 42\n```"));
    assert_eq!(
        fenced,
        (
            json!({"mode": "final", "why": "So:\n```", "answer": "42"}),
            Fenced
        )
    );
}

#[test]
fn what_has_no_meaning_is_named() {
    let table = [
        (
            "Action: read()\nObservation: 42\nFinal Answer: 42",
            r#"an imagined result "42\nFinal Answer: 42""#,
        ),
        ("Observation: seen\nAction: read()", r#"the block "seen""#),
        (
            "Action: read() to see (it all)\nThought: t",
            r#"the text after an action "to see (it all)""#,
        ),
    ];
    for (text, ignored) in table {
        let parsed = parse(text);
        assert_eq!(
            parsed.diagnostics.as_ref().unwrap().details,
            format!("Ignored: {ignored}.")
        );
        assert_eq!(repaired(parsed).1, Extraction::Direct, "{text}");
    }
}

#[test]
fn refusals() {
    use Trouble::*;
    let table = [
        ("", EmptyOutput, None),
        ("The answer is 42.", MissingActionOrFinal, None),
        ("read(path='a')", MissingActionOrFinal, None),
        ("Thought: hm", MissingActionOrFinal, None),
        ("<think>\nFinal Answer: perhaps", MissingActionOrFinal, None),
        (
            "Final Answer: \n",
            MissingRequiredField,
            Some("final_answer"),
        ),
        ("Action:", InvalidActionSchema, Some("actions[0]")),
        ("Action: 42", InvalidActionSchema, Some("actions[0]")),
        (
            "Action: read",
            MissingRequiredField,
            Some("actions[0].args"),
        ),
        (
            "Action: read the file",
            MissingRequiredField,
            Some("actions[0].args"),
        ),
        (
            "Action: read\nAction Input: a.txt",
            InvalidActionSchema,
            Some("actions[0].args"),
        ),
        (
            "Action: read\nAction Input: {\"a\": ",
            InvalidActionSchema,
            Some("actions[0].args"),
        ),
        (
            "Action: read()\nAction Input: {\"a\": 1}",
            InvalidActionSchema,
            None,
        ),
        (
            "Action: read()\nFinal Answer: 42",
            InvalidActionSchema,
            None,
        ),
        ("Action: read('a')", InvalidActionSchema, Some("actions[0]")),
        (
            "Action: read(path=a.txt)",
            InvalidActionSchema,
            Some("actions[0].args.path"),
        ),
        (
            "Action: read(a=1, a=2)",
            InvalidActionSchema,
            Some("actions[0]"),
        ),
        (
            "Action: read(a=1 b=2)",
            InvalidActionSchema,
            Some("actions[0]"),
        ),
        (
            "Action: ok()\nAction: read(a=(1, 2))",
            InvalidActionSchema,
            Some("actions[1].args.a"),
        ),
        (
            "Action: {\"name\": \"read\", \"args\": [1]}",
            InvalidActionSchema,
            Some("actions[0].args"),
        ),
        (
            "Action: {\"args\": {}}",
            MissingRequiredField,
            Some("actions[0].name"),
        ),
        // Truncated.
        ("Action: clear(", InvalidActionSchema, Some("actions[0]")),
        (
            "Action: read(path=",
            InvalidActionSchema,
            Some("actions[0].args.path"),
        ),
        (
            "Action: read(path=\"a",
            InvalidActionSchema,
            Some("actions[0].args.path"),
        ),
        (
            "Action: wait(seconds=1",
            InvalidActionSchema,
            Some("actions[0].args.seconds"),
        ),
        (
            "Action: read(path=\"a\", ",
            InvalidActionSchema,
            Some("actions[0]"),
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
