//! What do programs read of a rule? How it stood, what it measured against what, and what its verdict says.

use serde::Serialize;
use serde_json::Number;

use crate::analysis::verdict::LimitFrom;
use crate::analysis::why::{self, Standing};
use crate::model::{Op, StopVerdict};

/// A rule and how it stood when the run ended, or stands now.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Rule {
    /// The rule's id: `budget.steps`, `stop[2]`.
    pub id: String,
    /// Which sort of rule it is: `budget_steps`, `stagnation`.
    pub kind: String,
    /// `fired`, `held`, `off` or `unknown`.
    pub result: &'static str,
    /// Whether it was true at the same moment without being what ended the run.
    pub also: bool,
    /// The number measured.
    pub measured: Option<Number>,
    /// The limit.
    pub limit: Option<Number>,
    /// The rule is true where `measured op limit`.
    pub op: Option<&'static str>,
    /// The unit of both numbers.
    pub unit: Option<String>,
    /// Who set the limit: `task`, `engine`, `cli`, `default`, `criteria`, or `inferred` from where it ended the run.
    pub limit_from: Option<&'static str>,
    /// How far the measured number is from the limit.
    pub headroom: Option<Number>,
    /// A few words besides: why it is off, what is not recorded.
    pub note: Option<String>,
    /// Whether it ended the run; the same as a result of `fired`.
    pub fired: bool,
    /// The name under which the run ended, where the rule's verdict is recorded.
    pub code: Option<String>,
    /// Who it belongs to: `policy`, `budget`, `critic` and so on, where its verdict is recorded.
    pub source: Option<String>,
    /// Where in the step it was asked, where its verdict is recorded.
    pub gate: Option<&'static str>,
    /// The recorded id of the last step that really ran, where its verdict is recorded.
    pub step_id: Option<i64>,
    /// The rule's own words, where its verdict is recorded.
    pub detail: Option<String>,
}

/// A whole number as it was written, without a fraction.
fn number(value: f64) -> Option<Number> {
    let whole = value.fract() == 0.0 && value.abs() < 9e15;
    if whole { Some(Number::from(value as i64)) } else { Number::from_f64(value) }
}

fn text(text: &str) -> Option<String> {
    Some(text.to_owned()).filter(|text| !text.is_empty())
}

impl Rule {
    /// The row of a rule.
    pub(crate) fn of(rule: &why::Rule) -> Self {
        let stop = rule.stop.as_deref();
        Self {
            id: rule.id.clone(),
            kind: rule.kind.clone(),
            result: rule.result.as_str(),
            also: rule.also,
            measured: rule.reading.measured().and_then(number),
            limit: rule.reading.limit().and_then(number),
            op: rule.reading.op.map(Op::as_str),
            unit: text(&rule.reading.unit),
            limit_from: rule.limit_from.map(LimitFrom::as_str),
            headroom: rule.reading.headroom().and_then(number),
            note: text(&rule.note),
            fired: rule.result == Standing::Fired,
            code: stop.and_then(|stop| text(stop.code.as_str())),
            source: stop.and_then(|stop| text(stop.source.as_str())),
            gate: stop.and_then(|stop| Some(stop.gate?.as_str())),
            step_id: stop.and_then(StopVerdict::step_id),
            detail: stop.and_then(|stop| text(&stop.reading.detail)),
        }
    }
}
