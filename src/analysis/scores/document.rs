//! Provides the JSON of critics' scores: one series per critic, and the scores of the whole run.

use std::borrow::Cow;

use schemars::JsonSchema;
use serde::Serialize;

use crate::model::step::Value;
use crate::model::{Index, Record, RunScore, Symbol};

/// The critics of a run, in order of appearance.
// Those of all runs of a directory, with the texts of their lines.
#[derive(Debug, Default, Serialize, JsonSchema)]
#[schemars(rename = "Scores")]
pub struct RecordedScores {
    pub(crate) critics: Vec<CriticScores>,
    /// Scores of the whole run, from critics that judged it at its end. They belong to no step.
    pub run: Vec<RunScore>,
}

/// A critic and its outputs.
#[derive(Debug, Serialize, JsonSchema)]
pub struct CriticScores {
    pub(crate) name: String,
    /// Its outputs, in the order of the steps.
    pub points: Vec<RecordedPoint>,
}

/// A critic's output for a step.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Point")]
pub struct RecordedPoint {
    pub(crate) n: usize,
    /// The score, if it is a finite number.
    pub score: Option<f64>,
    /// A score that isn't a finite number: the text of a string, otherwise JSON.
    pub score_text: Option<String>,
    /// `continue`, `retry`, `stop`, or any other word as recorded.
    pub action: String,
    pub(crate) reason: Option<String>,
}

/// Returns the scores of a run. `line` reads the line of a step, and is called only for steps with
/// critics.
///
/// If a line can't be read, its reasons and non-numeric scores are missing.
pub fn recorded_scores(
    index: &Index,
    mut line: impl FnMut(usize) -> Option<Vec<u8>>,
) -> RecordedScores {
    let mut order: Vec<Symbol> = Vec::new();
    let of_run = index
        .manifest()
        .get()
        .into_iter()
        .flat_map(|manifest| &manifest.scores);
    let mut scores = RecordedScores {
        run: of_run.cloned().collect(),
        ..RecordedScores::default()
    };
    for (n, step) in index
        .steps()
        .iter()
        .enumerate()
        .filter(|(_, step)| !step.critics.is_empty())
    {
        let bytes = line(n).unwrap_or_default();
        let record = Record::of(&bytes);
        let critic_texts = crate::format::step(&record).unwrap_or_default();
        // The index also skips outputs that aren't objects.
        let mut outputs = critic_texts
            .critics
            .iter()
            .filter(|output| output.value.is_object());
        for mark in &step.critics {
            let output = outputs.next();
            let at = order
                .iter()
                .position(|name| *name == mark.name)
                .unwrap_or_else(|| {
                    order.push(mark.name);
                    scores.critics.push(CriticScores {
                        name: index.name(mark.name).to_owned(),
                        points: Vec::new(),
                    });
                    order.len() - 1
                });
            let text =
                |value: Option<Value<'_>>| value.and_then(Value::string).map(Cow::into_owned);
            let raw_score = output
                .and_then(|output| output.raw_score)
                .filter(|score| score.text != "null");
            let point = RecordedPoint {
                n,
                score: mark.score,
                score_text: raw_score
                    .filter(|_| mark.score.is_none())
                    .map(|score| score.plain().into_owned()),
                action: text(output.and_then(|output| output.word))
                    .unwrap_or_else(|| mark.action.as_str().to_owned()),
                reason: text(output.and_then(|output| output.reason)),
            };
            if let Some(critic) = scores.critics.get_mut(at) {
                critic.points.push(point);
            }
        }
    }
    scores
}
