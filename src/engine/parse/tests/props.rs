//! Tests properties of all texts: no panics, bounded work and output, and values are parsed as
//! written.

use proptest::prelude::*;
use serde_json::Map;

use super::*;
use crate::engine::parse::{JsonText, Parser, ReAct, XmlText, native};
use crate::engine::{ToolCall, ToolSpec};
use crate::soak::times;

const PARSERS: [&dyn Parser; 3] = [&ReAct, &JsonText, &XmlText];

/// Parses `text` with every parser.
fn all(text: &str) -> Vec<Parsed> {
    let call = ToolCall::new("", "read", text);
    let native = native(&[call], text);
    PARSERS
        .iter()
        .map(|parser| parser.parse(text))
        .chain([native])
        .collect()
}

/// Checks the properties of all texts.
fn check(text: &str) {
    for parsed in all(text) {
        let diagnostics = parsed.diagnostics.as_ref();
        match &parsed.decision {
            Some(decision) => {
                assert_eq!(decision.validate(), Ok(()));
                assert!(diagnostics.is_none_or(|found| found.severity == Severity::Warning));
                let size = serde_json::to_string(&short(decision)).unwrap().len();
                // A control character has six characters in JSON.
                assert!(size <= 6 * text.len() + 64, "{size} from {}", text.len());
            }
            None => assert_eq!(
                diagnostics.map(|found| found.severity),
                Some(Severity::Error)
            ),
        }
        if let Some(found) = diagnostics {
            assert!(found.raw_output_preview.chars().count() <= 280);
            assert_eq!(found.raw_output_chars, text.chars().count());
            let own = found.summary.len() + found.details.len() + found.repair_instruction.len();
            assert!(own < 6000, "{found:?}");
        }
    }
}

const VALID: [&str; 4] = [
    "Thought: t\nAction: read(path=\"a\", n=[1, {'k': None}], s='''x\ny''')\nAction: b()\nObservation: o",
    "Reflection: r\nAction: read\nAction Input: {\"a\": \"é\\ud83d\\ude00\\n\"}\nThought: x",
    r#"so ```json {"thought": "é😀", "actions": [{"name": "read", "args": {"a": [1, -2.5e3, null, "\u00e9\n"]}}], "mode": "act"} ```"#,
    "<decision mode='act'><think>é &lt; <![CDATA[x]]></think><action name=\"read\"><arg name='a' type='json'>[1]</arg></action></decision>",
];

/// Pieces with a meaning in one of the grammars.
#[rustfmt::skip]
const PIECES: &[&str] = &[
    "{", "}", "[", "]", "(", ")", "<", ">", "/>", "</", "\"", "'", "\"\"\"", "'''", "\\", "\\u", "\\ud83d", ",", ":",
    "=", "&", "&lt;", ";", "```", "`", "\n", " ", "1", "-", "1e", "true", "None", "r'", "Action:", "\nAction: f(",
    "\nThought: ", "\nFinal Answer:", "\nAction Input:", "\nObservation:", "<decision", "<decision>", "</decision>",
    "<action name='a'>", "</action>", "<arg name='a'>", "</arg>", "<think>", "</think>", "<![CDATA[", "]]>", "<!--",
    "-->", "mode=", "\"mode\":\"wait\"", "\"action\":", "\"name\":", "\"args\":", "\"final_answer\":", "é", "😀",
    "\u{0}",
];

/// Longer pieces that open something repeatedly.
#[rustfmt::skip]
const COMPOSED: &[&str] = &[
    "{\"", "{'", "{\"\"\"", "{r'", "{ ", "{ \"a\\", "{\"\\u", "{\"a\":", "{\"a\": [", "{}{", "\"{", "<a>", "<a ", "</a ",
    "&#", "\n#*", "Action: f(a=None\n", "Action: f()\n", "Action: f()\n \n", "f();", "\nAction: f(x='''", "```\n",
    "Action:\nObservation:\n",
];

/// Beginnings that change the meaning of the text after them.
#[rustfmt::skip]
const STARTS: &[&str] = &[
    "<decision>", "<decision><think>", "<decision><action name='a'><arg name='x'>", "<decision ", "Action: f(x=",
    "Action: f()\n", "Final Answer: ", "{\"thought\": \"", "{\"action\": {\"name\": \"a\", \"args\": {\"x\": ", "<think>",
];

fn piece() -> impl Strategy<Value = String> {
    prop_oneof![8 => prop::sample::select(PIECES).prop_map(str::to_owned), 1 => any::<String>()]
}

/// Generates JSON values, including fractions.
fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        any::<String>().prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 24, 5, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            prop::collection::btree_map(any::<String>(), inner, 0..5)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn no_text_panics(text in any::<String>()) {
        check(&text);
    }

    #[test]
    fn no_pieces_panic(pieces in prop::collection::vec(piece(), 0..40)) {
        check(&pieces.concat());
    }

    #[test]
    fn no_mutation_panics(
        valid in prop::sample::select(&VALID[..]), piece in piece(), at in any::<prop::sample::Index>(), cut in 0_usize..4
    ) {
        let mut letters: Vec<char> = valid.chars().collect();
        let at = at.index(letters.len());
        let end = (at + cut).min(letters.len());
        letters.splice(at..end, piece.chars());
        check(&letters.iter().collect::<String>());
    }

    /// If a text is truncated, the parsed value is still one that was written: no shorter text, no
    /// other number.
    #[test]
    fn a_cut_text_says_the_same_or_nothing(at in any::<prop::sample::Index>()) {
        let text = r#"{"action": {"name": "read", "args": {"path": "abc", "n": 123, "on": true}}}"#;
        let written = json!({"path": "abc", "n": 123, "on": true});
        if let Some(decision) = JsonText.parse(&text[..at.index(text.len())]).decision {
            for (key, value) in &decision.actions[0].args {
                prop_assert_eq!(value, &written[key]);
            }
        }
    }

    #[test]
    fn json_is_read_as_written(args in prop::collection::btree_map(any::<String>(), value(), 0..4)) {
        let args: Map<String, Value> = args.into_iter().collect();
        let text = json!({"action": {"name": "read", "args": &args}}).to_string();
        prop_assert_eq!(direct(JsonText.parse(&text)), json!({"mode": "act", "do": [["read", &args]]}));
        let input = format!("Action: read\nAction Input: {}", Value::Object(args.clone()));
        prop_assert_eq!(direct(ReAct.parse(&input)), json!({"mode": "act", "do": [["read", &args]]}));
        let calls = [ToolCall::new("", "read", Value::Object(args.clone()).to_string())];
        prop_assert_eq!(direct(native(&calls, "")), json!({"mode": "act", "do": [["read", &args]]}));
    }

    #[test]
    fn a_call_is_read_as_written(args in prop::collection::btree_map("[a-z_][a-z0-9_]{0,5}", value(), 0..4)) {
        // JSON and Python spell values in the same way, except for three words, which are parsed in
        // both spellings.
        let pairs: Vec<String> = args.iter().map(|(key, value)| format!("{key}={value}")).collect();
        let text = format!("Action: read({})", pairs.join(", "));
        prop_assert_eq!(direct(ReAct.parse(&text)), json!({"mode": "act", "do": [["read", args]]}));
    }

    #[test]
    fn an_xml_value_is_read_as_written(text in any::<String>()) {
        let escaped = text.replace('&', "&amp;").replace('<', "&lt;");
        let layout = format!("<decision><action name='read'><arg name='a'>\n{escaped}\n</arg></action></decision>");
        let found = direct(XmlText.parse(&layout));
        // The line break at the end of a block may be a Windows one.
        let text = text.strip_suffix('\r').unwrap_or(&text);
        prop_assert_eq!(found, json!({"mode": "act", "do": [["read", {"a": text}]]}));
    }
}

/// If the work weren't linear in the size of the text, these wouldn't finish.
#[test]
fn a_long_text_is_read_in_one_pass() {
    for piece in ["{", "\"", "(", "<"] {
        check(&piece.repeat(times(300_000, 1_000_000)));
    }
}

#[test]
fn any_piece_is_read_in_one_pass_however_often_it_stands_there() {
    for piece in PIECES.iter().chain(COMPOSED) {
        check(&piece.repeat(times(12_000, 60_000) / piece.len()));
        for start in STARTS {
            check(&format!(
                "{start}{}",
                piece.repeat(times(2_000, 10_000) / piece.len())
            ));
        }
    }
}

#[test]
fn instructions_name_the_tools_and_obey_themselves() {
    let tools = [ToolSpec::new(
        "read_file",
        "Reads a file.\n",
        json!({"type": "object"}),
    )];
    for parser in PARSERS {
        let told = parser.instructions(&tools);
        assert!(
            told.ends_with("- read_file: Reads a file.\n  {\"type\":\"object\"}"),
            "{told}"
        );
        assert!(parser.instructions(&[]).ends_with("There are no tools."));
    }
    let examples: [(&dyn Parser, &str, &str); 6] = [
        (
            &ReAct,
            "Thought: why\nAction: tool(key=\"value\", other=1)",
            "act",
        ),
        (&ReAct, "Thought: why\nFinal Answer: the answer", "final"),
        (
            &JsonText,
            r#"{"thought": "why", "action": {"name": "tool", "args": {"key": "value"}}}"#,
            "act",
        ),
        (&JsonText, r#"{"mode": "wait", "thought": "why"}"#, "wait"),
        (
            &XmlText,
            "<decision mode=\"final\"><think>why</think><final_answer>the answer</final_answer></decision>",
            "final",
        ),
        (
            &XmlText,
            "<decision mode=\"wait\"><think>why</think></decision>",
            "wait",
        ),
    ];
    for (parser, example, mode) in examples {
        assert!(parser.instructions(&[]).contains(example), "{example}");
        assert_eq!(direct(parser.parse(example))["mode"], mode);
    }
}
