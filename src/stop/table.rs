//! Generates RULES.md, which describes all rules, from the code.

use std::fmt::Write as _;

use super::rules::{RULES, StopSpec, ending};
use crate::model::{Code, Gate, Source};

/// The text above the table.
const ABOVE: &str = "\
# Stop rules

A rule is written in its short form or as JSON. It is checked at one of the three gates of a step: `before_step`,
`after_decide` (after the decision, before its actions) or `after_step`. It ends the run if it is true. If the decision is an
answer, the answer is judged first: rules of `after_decide` are then checked after the step.

- N, USD, SECONDS, SCORE and STEPS are the numbers of the rule.
- \"off\" is the value that disables the rule. \"–\" means that no value does.
- The engine's budget (`Builder::max_steps`, `[budget]` in an agent file, the limits of a `Task`) isn't a rule. With a step or
  token limit of 0 there, no step runs.
- `critic_below`, `any_of`, `all_of` and `max_cost` are board's own. The other rules come from QitOS, awaken and potato_agent. The
  Scores page links to `critic_below`, `Builder::max_cost` adds `max_cost`, and the What-if page evaluates all four.
- The outcome is board's, and the stop reason is QitOS's word for the end. QitOS has no word for a limit on cost, so `max_cost` has
  the stop reason of a token budget.

| rule | JSON | checked | true when | off | outcome | stop reason |
|---|---|---|---|---|---|---|
";

/// Returns a Markdown table of all built-in rules below an explanation: how each is written, where
/// it is checked, when it is true, and how it ends a run.
pub(crate) fn rules_table() -> String {
    let mut table = String::from(ABOVE);
    for row in RULES {
        let Ok(spec) = row.example.parse::<StopSpec>() else {
            continue;
        };
        let json = serde_json::to_string(&spec).unwrap_or_default();
        let code = match &spec {
            StopSpec::FinalResult(_) => Code::Final,
            _ => Code::from(row.name),
        };
        let source = if spec.is_completion() {
            Source::Completion
        } else {
            Source::Policy
        };
        let is_group = spec.rule().members().is_some();
        let (asked, outcome, reason) = match row.name {
            "any_of" => (
                "with each member".to_owned(),
                "the true member's",
                "the true member's",
            ),
            "all_of" => (
                "with the last member".to_owned(),
                "the first member's",
                "the first member's",
            ),
            _ => {
                let gates = spec
                    .compile(None)
                    .map(|rule| rule.gates())
                    .unwrap_or_default();
                let gates: Vec<_> = gates.iter().map(Gate::as_str).collect();
                let (outcome, reason) = ending(&code, &source);
                (gates.join(", "), outcome.as_str(), reason)
            }
        };
        let short = if is_group { row.name } else { row.example };
        let off = row
            .off
            .map_or_else(|| "–".to_owned(), |off| format!("`{off}`"));
        let when = row.when;
        // Writing to a string can't fail.
        let _ = writeln!(
            table,
            "| `{short}` | `{json}` | {asked} | {when} | {off} | {outcome} | {reason} |"
        );
    }
    table
}
