//! Shows the alternatives that the agent considered: the candidates of a decision and the note on
//! which one won.

use askama::Template;
use askama::filters::HtmlSafe;

use crate::model::json::Json;
use crate::page::part::fold::Fold;
use crate::page::part::sign::Phrase;
use crate::page::part::text;
use crate::page::part::text::Line;

/// Longer calls and answers are truncated; characters. A link leads to the whole text.
const CALL: usize = 160;
/// Maximum number of candidates that are shown.
const MAX_ROWS: usize = 50;

#[derive(Debug, Clone, Default, Template)]
#[template(path = "part/branch.html")]
pub(crate) struct Branch {
    /// Names the selector and its reason.
    pub description: Phrase,
    pub rows: Vec<Candidate>,
    /// States how many candidates aren't shown. May be empty.
    pub more: Line,
    /// The address of all candidates on a separate page.
    pub href: Option<String>,
}

impl HtmlSafe for Branch {}

#[derive(Debug, Clone, Default)]
pub(crate) struct Candidate {
    /// The recorded score.
    pub score: Line,
    /// The call or answer that the candidate proposed.
    pub call: Line,
    /// The agent's reason.
    pub why: Line,
    /// Whether the candidate won.
    pub chosen: bool,
}

impl Branch {
    /// Reads a decision. Returns `None` if it has no candidates.
    pub(crate) fn new(decision: &Json<'_>, fold: &Fold) -> Option<Self> {
        let candidates = decision
            .get("candidates")
            .and_then(Json::as_array)
            .filter(|list| !list.is_empty())?;
        let note = decision.get("meta").and_then(|meta| meta.get("branch"));
        let word = |key: &str| {
            note.and_then(|note| note.get(key)?.as_str())
                .filter(|word| !word.is_empty())
        };
        let chosen = note.and_then(|note| note.get("chosen")?.as_f64());
        let mut description = match word("selector") {
            Some(selector) => Phrase::new().text("Chosen by ").code(selector),
            None => Phrase::new().dim("Selector not recorded"),
        };
        if let Some(why) = word("why") {
            description = description.text(format!(": {}", text::one_line(why, 300).0));
        }
        if let Some(rationale) = word("rationale") {
            description = description.dim(format!(" · {}", text::one_line(rationale, 300).0));
        }
        let rows = candidates.iter().take(MAX_ROWS).enumerate();
        let more = candidates.len().saturating_sub(MAX_ROWS);
        Some(Self {
            description,
            rows: rows
                .map(|(at, candidate)| Candidate::new(candidate, chosen == Some(at as f64)))
                .collect(),
            more: if more > 0 {
                format!("and {more} more").into()
            } else {
                Line::default()
            },
            href: fold.links.value("/decision/candidates"),
        })
    }
}

impl Candidate {
    fn new(candidate: &Json<'_>, chosen: bool) -> Self {
        let word = |key: &str| {
            candidate
                .get(key)
                .and_then(Json::as_str)
                .filter(|word| !word.is_empty())
        };
        let actions = candidate
            .get("actions")
            .and_then(Json::as_array)
            .unwrap_or_default();
        let call = match (actions, word("final_answer")) {
            ([only], _) => called(only),
            ([first, others @ ..], _) => format!("{} +{} more", called(first), others.len()),
            ([], Some(answer)) => format!("answer: {answer}"),
            ([], None) => word("mode").unwrap_or("no mode").to_owned(),
        };
        let score = candidate
            .get("score")
            .filter(|score| !matches!(score, Json::Null));
        Self {
            score: score.map_or_else(|| "–".to_owned(), Json::to_string).into(),
            call: text::one_line(&call, CALL).0.into(),
            why: text::one_line(word("rationale").unwrap_or_default(), CALL)
                .0
                .into(),
            chosen,
        }
    }
}

/// Formats an action for a list.
fn called(action: &Json<'_>) -> String {
    let name = action
        .get("name")
        .and_then(Json::as_str)
        .unwrap_or("no name");
    let args = action
        .get("args")
        .and_then(Json::as_object)
        .unwrap_or_default();
    let args: Vec<_> = args
        .iter()
        .map(|(key, value)| format!("{key}={value}"))
        .collect();
    format!("{name}({})", args.join(", "))
}

#[cfg(test)]
mod tests {
    use crate::page::part::branch::*;
    use crate::page::part::fold::ValueLinks;

    fn read(decision: &str) -> Option<Branch> {
        Branch::new(
            &Json::parse(decision).unwrap(),
            &Fold::new(ValueLinks::default()),
        )
    }

    #[test]
    fn the_one_that_won_stands_out_and_the_others_stay() {
        let branch = read(
            r#"{"mode": "act", "candidates": [
            {"mode": "act", "actions": [{"name": "read", "args": {"path": "a"}}, {"name": "b"}], "score": 0.25},
            {"mode": "final", "final_answer": "Done", "score": 0.9, "rationale": "sure"}, {"mode": "wait"}, 7],
            "meta": {"branch": {"chosen": 1, "selector": "highest_score", "why": "score 0.9", "rationale": "two ways"}}}"#,
        );
        let branch = branch.unwrap();
        let rows: Vec<_> = branch
            .rows
            .iter()
            .map(|row| (row.score.as_str(), row.call.as_str(), row.chosen))
            .collect();
        assert_eq!(
            rows,
            [
                ("0.25", "read(path=\"a\") +1 more", false),
                ("0.9", "answer: Done", true),
                ("–", "wait", false),
                ("–", "no mode", false)
            ]
        );
        let html = branch.render().unwrap();
        assert!(
            html.contains("highest_score") && html.contains("two ways") && html.contains("chosen"),
            "{html}"
        );
        assert_eq!(html.matches("#i-ok").count(), 1);
    }

    #[test]
    fn a_decision_without_candidates_is_no_branch() {
        assert!(read(r#"{"mode": "act"}"#).is_none() && read(r#"{"candidates": []}"#).is_none());
        assert!(read(r#"{"candidates": "x"}"#).is_none());
    }

    #[test]
    fn hostile_candidates_are_text() {
        let e = serde_json::to_string("<script></textarea>\"'\u{202e}\u{0}").unwrap();
        let branch = read(&format!(
            r#"{{"candidates": [{{"rationale": {e}, "score": {e}, "actions": [{{"name": {e}, "args": {{{e}: {e}}}}}]}}],
            "meta": {{"branch": {{"selector": {e}, "why": {e}, "rationale": {e}, "chosen": {e}}}}}}}"#
        ));
        let html = branch.unwrap().render().unwrap();
        assert!(
            !html.contains("<script") && !html.contains('\u{202e}') && !html.contains('\u{0}'),
            "{html}"
        );
    }
}
