//! Serializes the state of a rule as one flat list of fields, with its numbers and its verdict.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Serialize, Serializer};
use serde_json::Number;

use super::{RuleStatus, Standing};
use crate::analysis::verdict::LimitFrom;
use crate::model::{Gate, Op, StopVerdict};

/// A stop rule with its result and its recorded verdict. The rule is true if `measured op limit`.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "RuleStatus")]
struct Rule<'a> {
    /// The rule's id: `budget.steps`, `stop[2]`, `critics`.
    id: &'a str,
    /// The rule's kind: `budget_steps`, `stagnation`, `critic_stop`.
    kind: &'a str,
    result: Standing,
    /// Whether it was true at the same moment but didn't end the run.
    also: bool,
    /// Whether the last records suggest that it ended the run, although no file records it.
    inferred: bool,
    measured: Option<Number>,
    limit: Option<Number>,
    op: Option<Op>,
    unit: Option<&'a str>,
    /// Who set the limit, or how it is known.
    limit_from: Option<&'static str>,
    /// The amount left until the limit.
    headroom: Option<Number>,
    note: Option<&'a str>,
    fired: bool,
    /// The code of its verdict.
    code: Option<&'a str>,
    /// The part of the engine that checked the rule.
    source: Option<&'a str>,
    gate: Option<Gate>,
    step_id: Option<i64>,
    detail: Option<&'a str>,
}

impl<'a> From<&'a RuleStatus> for Rule<'a> {
    fn from(rule: &'a RuleStatus) -> Self {
        let text = |text: &'a str| Some(text).filter(|text| !text.is_empty());
        let (reading, stop) = (&rule.reading, rule.stop.as_deref());
        Self {
            id: &rule.id,
            kind: &rule.kind,
            result: rule.result,
            also: rule.also,
            inferred: rule.is_inferred,
            measured: reading.measured().and_then(number),
            limit: reading.limit().and_then(number),
            op: reading.op,
            unit: text(&reading.unit),
            limit_from: rule.limit_from.map(LimitFrom::as_str),
            headroom: reading.headroom().and_then(number),
            note: text(&rule.note),
            fired: rule.result == Standing::Fired,
            code: stop.and_then(|stop| text(stop.code.as_str())),
            source: stop.and_then(|stop| text(stop.source.as_str())),
            gate: stop.and_then(|stop| stop.gate),
            step_id: stop.and_then(StopVerdict::step_id),
            detail: stop.and_then(|stop| text(&stop.reading.detail)),
        }
    }
}

impl Serialize for RuleStatus {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Rule::from(self).serialize(serializer)
    }
}

impl JsonSchema for RuleStatus {
    fn schema_name() -> Cow<'static, str> {
        Rule::schema_name()
    }

    fn schema_id() -> Cow<'static, str> {
        Rule::schema_id()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        Rule::json_schema(generator)
    }
}

/// Converts a number. A whole number gets no fraction.
fn number(value: f64) -> Option<Number> {
    let whole = value.fract() == 0.0 && value.abs() < 9e15;
    if whole {
        Some(Number::from(value as i64))
    } else {
        Number::from_f64(value)
    }
}
