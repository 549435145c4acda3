mod json;
mod native;
mod props;
mod react;
mod xml;

use serde_json::{Value, json};

use super::{Diagnostics, Extraction, Parsed, Severity, Trouble};
use crate::engine::{Action, Decision};

/// Returns the parts of a decision that the tables compare.
fn short(decision: &Decision) -> Value {
    let action = |action: &Action| json!([action.name, action.args]);
    let mut short = json!({ "mode": decision.mode });
    let facts = [
        ("why", json!(decision.rationale)),
        ("answer", json!(decision.final_answer)),
        ("do", decision.actions.iter().map(action).collect()),
        ("meta", Value::Object(decision.meta.clone())),
    ];
    for (key, value) in facts {
        if !matches!(&value, Value::Null) && value != json!([]) && value != json!({}) {
            short[key] = value;
        }
    }
    short
}

/// Returns the decision of a text without repairs or ignored parts.
#[track_caller]
fn direct(parsed: Parsed) -> Value {
    assert_eq!(parsed.diagnostics, None);
    let decision = parsed.decision.unwrap();
    assert_eq!(decision.validate(), Ok(()));
    short(&decision)
}

/// Returns the decision of a repaired text, with the most invasive repair.
#[track_caller]
fn repaired(parsed: Parsed) -> (Value, Extraction) {
    let diagnostics = parsed.diagnostics.unwrap();
    assert_eq!(diagnostics.severity, Severity::Warning, "{diagnostics:?}");
    assert!(!diagnostics.details.is_empty() && !diagnostics.repair_instruction.is_empty());
    let mode = diagnostics.extraction_mode.unwrap();
    assert_eq!(diagnostics.salvage_applied, mode != Extraction::Direct);
    let decision = parsed.decision.unwrap();
    assert_eq!(decision.validate(), Ok(()));
    (short(&decision), mode)
}

/// Returns why a text has no decision.
#[track_caller]
fn refused(parsed: Parsed) -> Diagnostics {
    assert_eq!(parsed.decision, None);
    let diagnostics = parsed.diagnostics.unwrap();
    assert_eq!(diagnostics.severity, Severity::Error);
    assert!(diagnostics.extraction_mode.is_none() && !diagnostics.salvage_applied);
    assert!(
        diagnostics
            .repair_instruction
            .contains(diagnostics.expected_shape)
    );
    diagnostics
}

#[track_caller]
fn code(parsed: Parsed) -> (Trouble, Option<String>) {
    let diagnostics = refused(parsed);
    (diagnostics.code, diagnostics.issue_path)
}
