//! Checks parsers of model text: they return a decision or an error with a reason, and neither
//! outgrows the text.

use trace_board::engine::parse::{JsonText, Parsed, Parser, ReAct, XmlText, native};
use trace_board::engine::{Decision, ToolCall};

/// Parses a text with each grammar, and as the arguments of a native call.
pub fn model_text(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    let parsers: [&dyn Parser; 3] = [&ReAct, &JsonText, &XmlText];
    for parser in parsers {
        check(text, &parser.parse(text));
    }
    let call = ToolCall::new("", "read", text);
    check(text, &native(&[call], text));
}

fn check(text: &str, parsed: &Parsed) {
    let found = parsed.diagnostics.as_ref();
    let severity = found.map(|found| serde_json::json!(found)["severity"].clone());
    match &parsed.decision {
        Some(decision) => {
            assert_eq!(decision.validate(), Ok(()));
            assert!(severity.is_none_or(|severity| severity == "warning"));
            reads_back(decision);
        }
        None => assert_eq!(severity, Some("error".into())),
    }
    if let Some(found) = found {
        assert!(found.raw_output_preview.chars().count() <= 280);
        assert_eq!(found.raw_output_chars, text.chars().count());
        let own = found.summary.len() + found.details.len() + found.repair_instruction.len();
        assert!(own < 6000, "{found:?}");
    }
}

/// Asserts that a decision, written as JSON, parses back to the same decision without repairs.
fn reads_back(decision: &Decision) {
    let actions: Vec<_> = decision
        .actions
        .iter()
        .map(|action| serde_json::json!({"name": action.name, "args": action.args}))
        .collect();
    let mut object = serde_json::json!({"mode": decision.mode.as_str()});
    if !actions.is_empty() {
        object["actions"] = actions.into();
    }
    if let Some(answer) = &decision.final_answer {
        object["final_answer"] = answer.as_str().into();
    }
    let written = object.to_string();
    let again = JsonText.parse(&written);
    let read = again
        .decision
        .unwrap_or_else(|| panic!("{written} is a decision: {:?}", again.diagnostics));
    assert_eq!(
        (read.mode, &read.final_answer),
        (decision.mode, &decision.final_answer),
        "{written}"
    );
    let parts = |decision: &Decision| {
        decision
            .actions
            .iter()
            .map(|action| (action.name.clone(), action.args.clone()))
            .collect::<Vec<_>>()
    };
    assert_eq!(parts(&read), parts(decision), "{written}");
}
