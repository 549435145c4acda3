//! Shows the output of critics. Reads `critic_outputs` of any writer: with or without names, and
//! with any kind of score.

use askama::Template;
use askama::filters::HtmlSafe;

use crate::model::json::Json;
use crate::model::step::{CriticOutput, Value};
use crate::page::part::chart::series_of;
use crate::page::part::fold::{Fold, Folded};
use crate::page::part::json_tree::{JsonView, token};
use crate::page::part::sign::Sign;
use crate::page::part::svg::Axis;
use crate::page::part::text::Line;

/// Longer reasons are folded; bytes.
const REASON: usize = 400;
#[derive(Debug, Clone, Default, Template)]
#[template(path = "part/critic.html")]
pub(crate) struct Critic {
    /// The critic's name, or `critic 1` by position.
    pub name: Line,
    /// The action that the critic requested.
    pub mark: Sign,
    /// The bar on the scale from 0 to 1. `None` if the score is outside it.
    pub axis: Option<Axis>,
    /// The score: with two decimals if it is on the scale, otherwise as recorded.
    pub score: Line,
    /// The recorded score, if it has more decimals than `score`.
    pub exact: Line,
    /// Explains a missing bar, or states the previous score.
    pub remark: Line,
    /// A short reason.
    pub reason: Line,
    /// A long reason.
    pub long_reason: Option<Folded>,
    pub details: Option<JsonView>,
    /// Changes that the critic requested: patches of the prompt or the state, and unknown keys.
    pub patches: Vec<Patch>,
}

impl HtmlSafe for Critic {}

/// A change that a critic requested.
#[derive(Debug, Clone)]
pub(crate) struct Patch {
    /// The key, such as `instruction_patch`.
    pub label: Line,
    pub value: JsonView,
}

impl Critic {
    /// Sets the critic's color, which is the same on all pages of a run with these `critics`.
    pub(crate) fn colour(&mut self, critics: &[String]) {
        if let Some(axis) = &mut self.axis {
            axis.series = series_of(critics, self.name.as_str());
        }
    }

    /// Reads the outputs of a step, as many as the page has room for. `previous` returns the last
    /// score before this step from a critic of that name.
    pub(crate) fn read_all(
        outputs: &[CriticOutput<'_>],
        previous: impl Fn(&str) -> Option<f64>,
        fold: &mut Fold,
    ) -> Vec<Self> {
        let mut critics = Vec::new();
        for (index, output) in outputs.iter().enumerate() {
            if !fold.takes(index) {
                break;
            }
            critics.push(Self::read(output, &previous, fold));
        }
        critics
    }

    fn read(
        output: &CriticOutput<'_>,
        previous: impl Fn(&str) -> Option<f64>,
        fold: &mut Fold,
    ) -> Self {
        let at = output.value.at;
        let mut critic = Self {
            name: output.name.as_ref().into(),
            mark: action_sign(output.word),
            ..Self::default()
        };
        critic.rate(
            output.raw_score.map(Value::json).as_ref(),
            previous(&output.name),
        );
        match output.reason.map(Value::json) {
            Some(Json::String(reason)) if reason.len() > REASON || reason.contains('\n') => {
                critic.long_reason = Some(fold.text(&reason, &at.member("/reason").to_string()));
            }
            Some(Json::String(reason)) => critic.reason = reason.as_ref().into(),
            Some(other) => critic.reason = other.to_string().into(),
            None => {}
        }
        if !output.value.is_object() {
            critic.details = Some(fold.json(&output.value.json(), &at.to_string()));
            return critic;
        }
        critic.details = output
            .details
            .map(|details| fold.json(&details.json(), &details.at.to_string()));
        for (shown, (key, value)) in output.rest.iter().enumerate() {
            if !fold.takes(shown) {
                break;
            }
            fold.spend(key);
            let value = fold.json(&value.json(), &format!("{at}/{}", token(key)));
            critic.patches.push(Patch {
                label: key.as_ref().into(),
                value,
            });
        }
        critic
    }

    fn rate(&mut self, score: Option<&Json<'_>>, previous: Option<f64>) {
        let number = score
            .and_then(Json::as_f64)
            .filter(|number| number.is_finite());
        self.axis = number.and_then(|number| Axis::new(number, previous));
        match (score, number, &self.axis) {
            (None | Some(Json::Null), ..) => self.score = "no score".into(),
            (Some(score), Some(number), Some(_)) => {
                self.score = format!("{number:.2}").into();
                let recorded = score.to_string();
                if recorded.len() > self.score.as_str().len() {
                    self.exact = recorded.into();
                }
                self.remark = previous
                    .map(|was| format!("was {was:.2}"))
                    .unwrap_or_default()
                    .into();
            }
            (Some(score), Some(_), None) => {
                self.score = score.to_string().into();
                self.remark = "outside the scale".into();
            }
            (Some(score), None, _) => {
                // In repaired lines, these words were bare literals.
                self.score = match score {
                    Json::String(word) if matches!(&**word, "NaN" | "Infinity" | "-Infinity") => {
                        (&**word).into()
                    }
                    other => other.to_string().into(),
                };
                self.remark = "not a number".into();
            }
        }
    }
}

/// Returns the sign of the action that a critic requested. `stop` and `retry` decide. After any
/// other action the run continues.
fn action_sign(word: Option<Value<'_>>) -> Sign {
    match word.map(Value::json) {
        Some(Json::String(action)) => match action.as_ref() {
            "continue" => Sign::plain("mk", "continue"),
            "retry" => Sign::word("mk retry", "retry", "retry"),
            "stop" => Sign::word("mk stop", "critic", "stop"),
            "failed" => Sign::word("mk err", "error", "failed"),
            other => Sign::word("mk", "unknown", other),
        },
        Some(other) => Sign::word("mk", "unknown", other.to_string()),
        None => Sign::plain("mk", "no action"),
    }
}

#[cfg(test)]
mod tests {
    use crate::page::part::critic::*;
    use crate::page::part::fold::ValueLinks;

    fn read(text: &str) -> Vec<Critic> {
        let previous = |name: &str| (name == "Old").then_some(0.4);
        let step = format!(r#"{{"critic_outputs": {text}}}"#);
        let step = crate::format::step_in(&step).unwrap();
        Critic::read_all(
            &step.critics,
            previous,
            &mut Fold::new(ValueLinks::default()),
        )
    }

    #[test]
    fn scores_keep_their_scale() {
        let critics = read(
            r#"[{"critic_name": "Old", "action": "retry", "score": 0.2, "reason": "r", "details": {"returncode": 1},
            "instruction_patch": "Read it."}, {"action": "continue", "score": 7}, {"score": "high"}, {"score": null}, {"name": "n"}]"#,
        );
        let scores: Vec<_> = critics
            .iter()
            .map(|c| (c.name.as_str(), c.score.as_str(), c.remark.as_str()))
            .collect();
        assert_eq!(
            scores,
            [
                ("Old", "0.20", "was 0.40"),
                ("critic 2", "7", "outside the scale"),
                ("critic 3", "\"high\"", "not a number"),
                ("critic 4", "no score", ""),
                ("n", "no score", "")
            ]
        );
        assert_eq!(
            critics
                .iter()
                .filter(|critic| critic.axis.is_some())
                .count(),
            1
        );
        assert_eq!(critics[0].patches[0].label.as_str(), "instruction_patch");
        let html = critics[0].render().unwrap();
        assert!(
            html.contains("#i-retry") && html.contains("returncode") && html.contains("Read it."),
            "{html}"
        );
    }

    #[test]
    fn odd_outputs_are_shown_as_they_are() {
        let critics = read(r#"["text", null, {"action": "explode", "reason": 7}, [1]]"#);
        assert_eq!(critics.len(), 4);
        assert!(critics[0].details.is_some());
        assert_eq!(critics[2].mark.text.as_str(), "explode");
        assert_eq!(critics[2].reason.as_str(), "7");
        assert!(read("{}").is_empty());
    }

    #[test]
    fn hostile_critics_are_text() {
        let e = serde_json::to_string("<script></textarea>\"'\u{202e}\u{0}").unwrap();
        let critics = read(&format!(
            r#"[{{"critic_name": {e}, "action": {e}, "score": {e}, "reason": {e}, "details": {{{e}: {e}}}, {e}: {e}}},
            {{"reason": "{}"}}, {e}]"#,
            "<script>\\n".repeat(60)
        ));
        let html: String = critics
            .iter()
            .map(|critic| critic.render().unwrap())
            .collect();
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
