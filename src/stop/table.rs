//! Which rules are there? One table, made from the rules themselves.

use std::fmt::Write as _;

use super::spec::StopSpec;
use crate::model::{Code, Source};

/// What the code cannot say about a rule by itself.
pub(super) struct Doc {
    pub(super) name: &'static str,
    /// An example in the short form, or in JSON where there is none.
    pub(super) example: &'static str,
    pub(super) when: &'static str,
    /// The example that is off.
    pub(super) off: Option<&'static str>,
}

const fn doc(name: &'static str, example: &'static str, when: &'static str, off: Option<&'static str>) -> Doc {
    Doc { name, example, when, off }
}

/// Every rule, limits first, then guards, then those that accept answers, then groups.
pub(super) const DOCS: &[Doc] = &[
    doc("max_rounds", "max_rounds=8", "decisions >= rounds", Some("max_rounds=0")),
    doc("max_steps", "max_steps=8", "completed steps >= steps", Some("max_steps=0")),
    doc("timeout", "timeout=60", "time at the decision > seconds", Some("timeout=0")),
    doc("max_runtime", "max_runtime=60", "time at the step's end >= seconds", Some("max_runtime=0")),
    doc("token_budget", "token_budget=1000", "tokens sent and received > max_total", Some("token_budget=0")),
    doc("consecutive_errors", "consecutive_errors=3", "failed steps in a row >= max", Some("consecutive_errors=0")),
    doc("stop_on_tool", "stop_on_tool=deploy", "an action has exactly this name", Some("stop_on_tool=")),
    doc("content_match", "content_match=(?i)done", "the model's text, not empty, matches", Some("content_match=")),
    doc("loop_detection", "loop_detection=3", "equal texts in a row >= window", Some("loop_detection=1")),
    doc("stagnation", "stagnation=3", "steps in a row that changed nothing >= steps", Some("stagnation=0")),
    doc(
        "critic_below",
        "critic_below=tests:0.5:2",
        "scores in a row < score, steps of them",
        Some("critic_below=tests:0.5:0"),
    ),
    doc("final_result", "final_result", "the final result is not empty", None),
    doc("keyword", "keyword=DONE", "the answer holds the keyword", Some("keyword=")),
    doc(
        "structured_output",
        "structured_output",
        "the answer, or a fenced block of it, is JSON and fits the schema",
        None,
    ),
    doc("any_of", r#"{"type":"any_of","of":[{"type":"max_steps","steps":8}]}"#, "one member is true", None),
    doc(
        "all_of",
        r#"{"type":"all_of","of":[{"type":"max_steps","steps":8}]}"#,
        "every member that is not off is true",
        None,
    ),
];

/// A rule of this name that is well written.
pub fn example(name: &str) -> Option<&'static str> {
    DOCS.iter().find(|doc| doc.name == name).map(|doc| doc.example)
}

/// The table of all built-in rules as markdown: how each is written, where it is asked, when it is true, what it means.
pub fn rules_table() -> String {
    let mut table = String::from(
        "| rule | JSON | asked | true when | off | outcome | stop reason |\n|---|---|---|---|---|---|---|\n",
    );
    for doc in DOCS {
        let Ok(spec) = doc.example.parse::<StopSpec>() else { continue };
        let json = serde_json::to_string(&spec).unwrap_or_default();
        let code = Code::from(doc.name);
        let source = if spec.is_completion() { Source::Completion } else { Source::Policy };
        let is_group = matches!(spec, StopSpec::AnyOf { .. } | StopSpec::AllOf { .. });
        let (asked, outcome, reason) = if is_group {
            match doc.name {
                "any_of" => ("with each member".to_owned(), "the true member's", "the true member's"),
                _ => ("with the last member".to_owned(), "the first member's", "the first member's"),
            }
        } else {
            let gates = spec.compile(None).map(|rule| rule.gates()).unwrap_or_default();
            let gates: Vec<_> = gates.iter().map(super::Gate::as_str).collect();
            (gates.join(", "), code.outcome(&source).as_str(), code.stop_reason(&source))
        };
        let short = if is_group { doc.name } else { doc.example };
        let off = doc.off.map_or_else(|| "never".to_owned(), |off| format!("`{off}`"));
        let when = doc.when;
        // Writing to a string cannot fail.
        let _ = writeln!(table, "| `{short}` | `{json}` | {asked} | {when} | {off} | {outcome} | {reason} |");
    }
    table
}
