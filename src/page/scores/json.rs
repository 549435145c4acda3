//! How did the critics judge, step by step? One series for each critic.

use serde::Serialize;

use crate::model::json::Json;
use crate::model::repair::repair;
use crate::model::{Index, Symbol};
use crate::page::step::json::action_word;
use crate::page::step::json_line::Line;

/// The critics of a run.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub(crate) struct Scores {
    /// In order of appearance.
    pub critics: Vec<CriticScores>,
}

/// One critic.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct CriticScores {
    /// Its name.
    pub name: String,
    /// What it said, in the order of the steps.
    pub points: Vec<Point>,
}

/// What a critic said about a step.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Point {
    /// The step's ordinal.
    pub n: usize,
    /// The score, where it is a finite number.
    pub score: Option<f64>,
    /// A score that is not a finite number: a string's own text, else JSON.
    pub score_text: Option<String>,
    /// `continue`, `retry`, `stop`, or any other word as written.
    pub action: String,
    /// Its reason.
    pub reason: Option<String>,
}

/// The scores of a run; `line` reads the line of a step, and is asked only for steps with critics.
///
/// Where a line cannot be read, reasons and odd scores are left out.
pub(crate) fn scores(index: &Index, mut line: impl FnMut(usize) -> Option<Vec<u8>>) -> Scores {
    let mut order: Vec<Symbol> = Vec::new();
    let mut scores = Scores::default();
    for (n, step) in index.steps().iter().enumerate().filter(|(_, step)| !step.critics.is_empty()) {
        let bytes = line(n).unwrap_or_default();
        let text = match Line::of(&bytes) {
            Line::Written(raw) => raw.get().to_owned(),
            Line::Repaired(_) | Line::Text(_) => repair(&bytes).0,
        };
        let json = Json::parse(&text);
        let outputs = json.as_ref().and_then(|step| step.get("critic_outputs")?.as_array()).unwrap_or_default();
        // The index, too, passes over outputs that are not objects.
        let mut outputs = outputs.iter().filter(|output| output.as_object().is_some());
        for mark in &step.critics {
            let output = outputs.next();
            let at = order.iter().position(|name| *name == mark.name).unwrap_or_else(|| {
                order.push(mark.name);
                scores.critics.push(CriticScores { name: index.name(mark.name).to_owned(), points: Vec::new() });
                order.len() - 1
            });
            let text = |key| output.and_then(|output| output.get(key)?.as_str()).map(str::to_owned);
            let raw_score = || output.and_then(|output| output.get("score")).filter(|score| **score != Json::Null);
            let point = Point {
                n,
                score: mark.score,
                score_text: if mark.score.is_none() { raw_score().map(own_text) } else { None },
                action: text("action").unwrap_or_else(|| action_word(mark.action).to_owned()),
                reason: text("reason"),
            };
            if let Some(critic) = scores.critics.get_mut(at) {
                critic.points.push(point);
            }
        }
    }
    scores
}

fn own_text(value: &Json<'_>) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}
