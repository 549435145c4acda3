//! What do programs read of the rule that ended a run? What its writer recorded, under the writer's names.

use serde::Serialize;
use serde_json::Number;

use crate::analysis::verdict::recorded;
use crate::model::Index;

/// A rule and what it measured.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Rule {
    /// The rule's id: `budget.steps`, `stop[2]`.
    pub id: String,
    /// The name under which the run ended; `null` for a rule of which only the id is recorded.
    pub code: Option<String>,
    /// Whether it ended the run; the others were true at the same moment.
    pub fired: bool,
    /// Who it belongs to: `policy`, `budget`, `critic` and so on.
    pub source: Option<String>,
    /// Where in the step it was asked.
    pub gate: Option<String>,
    /// The recorded id of the last step that really ran.
    pub step_id: Option<i64>,
    /// The number measured.
    pub measured: Option<Number>,
    /// The limit.
    pub limit: Option<Number>,
    /// The rule is true where `measured op limit`.
    pub op: Option<String>,
    /// The unit of both numbers.
    pub unit: Option<String>,
    /// Who set the limit.
    pub limit_from: Option<String>,
    /// The rule's own words.
    pub detail: Option<String>,
}

/// A whole number as it was written, without a fraction.
fn number(value: f64) -> Option<Number> {
    let whole = value.fract() == 0.0 && value.abs() < 9e15;
    if whole { Some(Number::from(value as i64)) } else { Number::from_f64(value) }
}

/// The rules that were true when the run ended, the one that ended it first; none where none is recorded.
pub fn rules(index: &Index) -> Vec<Rule> {
    let Some(stop) = recorded(index) else { return Vec::new() };
    let text = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
    let fired = Rule {
        id: stop.criterion.to_string(),
        code: text(&stop.code),
        fired: true,
        source: text(&stop.source),
        gate: stop.gate.as_deref().and_then(text),
        step_id: stop.step,
        measured: stop.measured.and_then(number),
        limit: stop.limit.and_then(number),
        op: text(&stop.op),
        unit: text(&stop.unit),
        limit_from: stop.limit_from.as_deref().and_then(text),
        detail: text(&stop.detail),
    };
    let also = stop.also.iter().map(|id| Rule {
        id: id.to_string(),
        code: None,
        fired: false,
        source: None,
        gate: stop.gate.as_deref().and_then(text),
        step_id: stop.step,
        measured: None,
        limit: None,
        op: None,
        unit: None,
        limit_from: None,
        detail: None,
    });
    std::iter::once(fired).chain(also).collect()
}
