//! Shows the decision of a step: who made it, how it was parsed, its reasoning, and the parser's
//! diagnostics.

use askama::Template;
use askama::filters::HtmlSafe;

use crate::analysis::format;
use crate::model::json::Json;
use crate::model::step::{CriticAction, NOT_RECORDED, Parsing, Step, Value};
use crate::page::part::branch::Branch;
use crate::page::part::fold::{Fold, Folded};
use crate::page::part::json_tree::JsonView;
use crate::page::part::sign::{Phrase, Sign};
use crate::page::part::text;
use crate::page::part::text::Line;

#[derive(Debug, Clone, Default, Template)]
#[template(path = "part/decision.html")]
pub(crate) struct Decision {
    /// The recorded mode. Empty if the step has no decision.
    pub(crate) mode: Line,
    /// Explains the mode, who made the decision and how it was parsed.
    pub description: Phrase,
    pub answer: Option<Folded>,
    /// The alternatives that the agent considered.
    pub branch: Option<Branch>,
    /// The parser's diagnostics.
    pub trouble: Option<Trouble>,
    /// The rest of the decision's `meta`.
    pub meta: Option<JsonView>,
}

impl HtmlSafe for Decision {}

#[derive(Debug, Clone)]
pub(crate) struct Trouble {
    /// The severity.
    pub mark: Sign,
    /// The code, the summary and the details.
    pub description: Phrase,
    /// The recorded preview of the model's raw output.
    pub wrote: Option<Folded>,
    /// The repair instruction for the model.
    pub asks: Option<Folded>,
    pub all: JsonView,
}

/// Returns whether the deciding critic asked for a retry of the step.
fn sent_back(step: &Step<'_>) -> bool {
    let actions = || step.critics.iter().map(|output| output.action);
    CriticAction::deciding(actions()).and_then(|at| actions().nth(at)) == Some(CriticAction::Retry)
}

impl Decision {
    /// Formats the decision of a step.
    pub(crate) fn new(step: &Step<'_>, fold: &mut Fold) -> Self {
        let mut out = Self {
            trouble: trouble(&step.parsing, fold),
            ..Self::default()
        };
        let Some(decision) = step
            .decision
            .as_ref()
            .filter(|decision| !decision.value.is_empty())
        else {
            out.description = Phrase::new().dim("None. The step ended before a decision was made.");
            return out;
        };
        if !decision.value.is_object() {
            out.description =
                Phrase::new().dim("Not recorded as a decision. See the rest of the record.");
            return out;
        }
        let mode = decision.mode.as_deref().unwrap_or("no mode");
        out.mode = mode.into();
        let target = decision.handoff.as_deref();
        let actions = step.calls.total();
        out.description = match (mode, target) {
            ("act", _) => format::counted(actions, "action").into(),
            ("final", _) if sent_back(step) => "an answer, sent back by a critic".into(),
            ("final", _) => "an answer".into(),
            ("wait", _) => "nothing to do in this step".into(),
            ("handoff", Some(target)) => Phrase::new().text("hands off to ").strong(target),
            ("handoff", None) => "hands off (recipient not recorded)".into(),
            ("thought", _) => "no action".into(),
            (NOT_RECORDED, _) => {
                out.mode = Line::default();
                Phrase::new().dim("no decision recorded")
            }
            _ => Phrase::new().dim("unknown mode"),
        };
        out.description = read_by(&step.parsing, out.description);
        out.answer = decision.answer.map(|answer| {
            let (text, at) = (answer.plain(), answer.at.to_string());
            if answer.string().is_some() {
                fold.prose(&text, &at)
            } else {
                fold.text(&text, &at)
            }
        });
        out.branch = Branch::new(&decision.value.json(), fold);
        let is_told = |key: &str| match key {
            "parser_diagnostics" | "handoff_target" => true,
            "branch" => out.branch.is_some(),
            _ => false,
        };
        // The diagnostics repeat the step's own parser fields.
        if let Some((meta, Json::Object(members))) = decision.meta.map(|meta| (meta, meta.json())) {
            let own: Vec<_> = members
                .into_iter()
                .filter(|(key, _)| !is_told(key))
                .collect();
            out.meta =
                (!own.is_empty()).then(|| fold.json(&Json::Object(own), &meta.at.to_string()));
        }
        out
    }
}

/// Returns the decision's reasoning.
pub(crate) fn thought(step: &Step<'_>, fold: &mut Fold) -> Option<Folded> {
    let rationale = step.decision.as_ref()?.rationale?;
    let thought = rationale
        .string()
        .filter(|thought| !thought.trim().is_empty())?;
    Some(fold.prose(&thought, &rationale.at.to_string()))
}

/// Adds who made the decision, and which parsers tried to read it.
fn read_by(parsing: &Parsing<'_>, description: Phrase) -> Phrase {
    let attempts = parsing.attempts.map(Value::json);
    let attempts = attempts
        .as_ref()
        .and_then(Json::as_array)
        .unwrap_or_default();
    let mut description = match parsing.source.as_deref() {
        Some("agent") => description.text(", decided by the agent's code"),
        Some("native_tool_calls") => description.text(", from native tool calls"),
        Some("native_text_final") => {
            description.text(", from plain text although tool calls were preferred")
        }
        Some("agent_interpretation") => description.text(", interpreted by the agent"),
        Some("parser") | None => description,
        Some(other) => description.text(", source ").code(other),
    };
    if let Some(parser) = parsing.parser.as_deref() {
        description = description.text(", parsed by ").code(parser);
        description = match attempts.len() {
            0 => description,
            1 => description.text(" on the first attempt"),
            n => {
                let tried = attempts.iter().map(|attempt| {
                    let part = |key: &str| attempt.get(key).and_then(Json::as_str).unwrap_or("?");
                    format!("{} {}", part("parser"), part("result"))
                });
                description
                    .text(format!(" after {n} attempts"))
                    .dim(format!(" · {}", tried.collect::<Vec<_>>().join(", ")))
            }
        };
    }
    if parsing.is_fallback {
        description = description.dim(" · fallback parser");
    }
    if parsing.is_salvaged {
        description = description.dim(" · output was repaired");
    }
    if let Some(reason) = parsing.no_native_calls.as_deref() {
        description = description.dim(" · tool calls not used: ").code(reason);
    }
    description
}

fn trouble(parsing: &Parsing<'_>, fold: &mut Fold) -> Option<Trouble> {
    let at = parsing.diagnostics?.at;
    let diagnostics = parsing.diagnostics?.json();
    let word = |key: &str| {
        diagnostics
            .get(key)
            .and_then(Json::as_str)
            .filter(|word| !word.is_empty())
    };
    let severity = word("severity").unwrap_or("no severity");
    let mark = match severity {
        "error" => Sign::word("mk err", "error", severity),
        "warning" => Sign::word("mk lim", "limit", severity),
        _ => Sign::plain("mk", severity),
    };
    let mut description = Phrase::new().code(word("code").unwrap_or("no code"));
    for key in ["summary", "details"] {
        if let Some(words) = word(key) {
            description = description.text(format!(" {}", text::one_line(words, 300).0));
        }
    }
    let wrote =
        word("raw_output_preview").map(|raw| fold.text(raw, &format!("{at}/raw_output_preview")));
    let asks = word("repair_instruction")
        .map(|words| fold.text(words, &format!("{at}/repair_instruction")));
    Some(Trouble {
        mark,
        description,
        wrote,
        asks,
        all: fold.json(&diagnostics, &at.to_string()),
    })
}

#[cfg(test)]
mod tests {
    use crate::page::part::decision::*;
    use crate::page::part::fold::ValueLinks;

    fn read(step: &str) -> (Decision, String) {
        let decision = Decision::new(
            &crate::format::step_in(step).unwrap(),
            &mut Fold::new(ValueLinks::default()),
        );
        let html = decision.render().unwrap();
        (decision, html)
    }

    #[test]
    fn modes_read_as_sentences() {
        assert!(
            read(r#"{"decision": {"mode": "act", "actions": [1]}, "decision_source": "agent"}"#)
                .1
                .contains("1 action, decided by")
        );
        assert!(
            read(r#"{"decision": {"mode": "wait"}}"#)
                .1
                .contains("nothing to do")
        );
        assert!(
            read(r#"{"decision": {"mode": "handoff", "meta": {"handoff_target": "coder"}}}"#)
                .1
                .contains("<strong>coder</strong>")
        );
        let (decision, html) =
            read(r#"{"decision": {"mode": "final", "final_answer": "Done.\nAll of it."}}"#);
        assert_eq!(decision.answer.unwrap().shown, "Done.\nAll of it.");
        assert!(html.contains(">final<"), "{html}");
        assert!(read(r#"{"decision": null}"#).1.contains("None."));
        assert!(
            read(r#"{"decision": {"mode": "branch"}}"#)
                .1
                .contains("unknown mode")
        );
        assert!(
            read(r#"{"decision": {"mode": "final", "final_answer": {"a": 1}}}"#)
                .1
                .contains("{&#34;a&#34;: 1}")
        );
    }

    #[test]
    fn parsers_and_their_trouble_are_told() {
        let (decision, html) = read(
            r#"{"decision": {"mode": "act", "actions": [1, 2], "meta": {"score": 3, "parser_diagnostics": {}}},
            "decision_source": "parser", "parser_selected": "JsonDecisionParser", "parser_salvage_applied": true,
            "parser_attempts": [{"parser": "A", "result": "error"}, {"parser": "B", "result": "success"}],
            "parser_diagnostics": {"severity": "warning", "code": "salvaged_json_payload", "summary": "It was fenced.",
            "raw_output_preview": "```json"}}"#,
        );
        for words in [
            "2 actions",
            "JsonDecisionParser",
            "after 2 attempts",
            "A error, B success",
            "It was fenced.",
            "```json",
            "repaired",
        ] {
            assert!(html.contains(words), "{words} in {html}");
        }
        assert_eq!(decision.trouble.unwrap().mark.text.as_str(), "warning");
        assert!(decision.meta.is_some());
    }

    #[test]
    fn hostile_decisions_are_text() {
        let e = serde_json::to_string("<script></textarea>\"'\u{202e}\u{0}").unwrap();
        let step = format!(
            r#"{{"decision": {{"mode": {e}, "final_answer": {e}, "rationale": {e}, "meta": {{{e}: {e}}}}}, "decision_source": {e},
            "parser_selected": {e}, "parser_attempts": [{{"parser": {e}}}, {e}], "native_tool_call_fallback_reason": {e},
            "parser_diagnostics": {{"severity": {e}, "code": {e}, "summary": {e}, "details": {e}, "raw_output_preview": {e}}}}}"#
        );
        let thought = thought(
            &crate::format::step_in(&step).unwrap(),
            &mut Fold::new(ValueLinks::default()),
        )
        .unwrap();
        let html = read(&step).1 + &thought.render().unwrap();
        assert!(
            !html.contains("<script") && !html.contains("</textarea"),
            "{html}"
        );
        assert!(
            !html.contains('\u{202e}') && !html.contains('\u{0}'),
            "{html}"
        );
    }
}
