//! Defines the state of a rule, and serializes it as one flat list of fields, with its numbers and
//! its verdict.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Serialize, Serializer};
use serde_json::Number;

use crate::analysis::format::{self, capitalised, count};
use crate::analysis::verdict::LimitFrom;
use crate::model::words::words;
use crate::model::{Bound, Gate, Op, Reading, StopVerdict};
use crate::stop;

/// The note for a rule that is recorded as fired but isn't shown as such.
pub(super) const REFUTED: &str = "recorded as ending the run, but the numbers are below the limit";

/// The state of something that ended the run without being a rule.
pub(super) const ENDED: &str = "ended the run";

/// The state of a rule when the run ended, or now.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RuleStatus {
    /// The rule's id: `budget.steps`, `stop[2]`, `critics`.
    pub id: String,
    /// The kind of rule: `budget_steps`, `stagnation`, `critic_stop`.
    pub kind: String,
    /// The display name of what ended another tool's run, whose kind is the tool's own word. Empty
    /// for all other rules.
    pub label: String,
    /// The state in words if the result doesn't describe it. May be empty.
    pub stands: &'static str,
    /// The result.
    pub result: Standing,
    /// Whether the last records suggest that it ended the run, although no file records that.
    pub is_inferred: bool,
    /// Whether it isn't a rule but something else that ended the run, such as an error. It isn't
    /// counted as a rule.
    pub is_outcome: bool,
    /// Whether it was true at the same moment but didn't end the run.
    pub also: bool,
    /// The measured value and the limit.
    pub reading: Reading,
    /// Whether the measured value is exact or a bound.
    pub bound: Bound,
    /// The mark of a measured value that is an estimate or incomplete: `≥≈`. May be empty.
    pub mark: &'static str,
    /// How the limit is known.
    pub limit_from: Option<LimitFrom>,
    /// A short note: why it's off, what isn't recorded, what it saw. May be empty.
    pub note: String,
    /// The recorded verdict, if this rule ended the run.
    pub stop: Option<Box<StopVerdict>>,
}

words! {
    /// The result of a rule.
    #[derive(Default)]
    pub enum Standing {
        /// It ended the run.
        Fired = "fired",
        /// It didn't fire: it was evaluated, or could have been, and didn't end the run.
        Held = "held",
        /// It is switched off.
        Off = "off",
        /// The records don't show it.
        #[default]
        Unknown = "unknown",
    }
}

impl RuleStatus {
    /// Returns the share of the limit that is used, from 0 to 1.
    pub fn share(&self) -> Option<f64> {
        let (measured, limit) = (self.reading.measured()?, self.reading.limit()?);
        // A value that must not fall below a threshold starts at the top of the scale.
        let (used, of) = if self.reading.op == Some(Op::Below) {
            (1.0 - measured, 1.0 - limit)
        } else {
            (measured, limit)
        };
        let share = if of > 0.0 {
            used / of
        } else {
            f64::from(u8::from(used >= of))
        };
        Some(share.clamp(0.0, 1.0))
    }

    /// Returns the rule's display name.
    pub fn name(&self) -> String {
        if !self.label.is_empty() {
            return self.label.clone();
        }
        if self.id == "criteria" {
            return match &*self.kind {
                "max_steps" => "Step limit",
                "max_runtime" => "Time limit",
                "token_budget" => "Token limit",
                "stagnation" => "State unchanged",
                "final_result" => "Result criterion",
                "criteria" => "Stop criteria",
                _ => "Stop criterion",
            }
            .to_owned();
        }
        let name = match &*self.kind {
            "step_failed" | "recovery_exhausted" | "unrecoverable_error" => "Error recovery",
            "final" | "success" => "Final answer",
            "critic_stop" => "Critic stop",
            "max_iterations" => "Step limit",
            "per_instance_cost_limit" => "Per-instance cost limit",
            "per_instance_call_limit" => "Per-instance call limit",
            "agent_condition" => "Agent condition",
            "env_terminal" => "Environment",
            "context_overflow" => "Context window",
            "max_errors" => "Error limit",
            "env_capability_mismatch" => "Environment capability",
            "task_validation_failed" => "Task validation",
            "cancelled_immediate" => "Immediate cancellation",
            "cancelled_after_step" => "Cancellation",
            "interrupt" => "Interruption",
            "criteria" => "Stop criteria",
            "opaque" => "Custom rule",
            "unrecorded" => "Unrecorded rule",
            other => match stop::label(other) {
                Some(label) => label,
                None => return capitalised(&other.replace('_', " ")),
            },
        };
        name.to_owned()
    }

    /// Returns whether the rule comes from a list of rules, so that its id is more specific than
    /// its name.
    pub fn is_listed(&self) -> bool {
        const OWN: [&str; 11] = [
            "rules",
            "decision",
            "critics",
            "recovery",
            "agent",
            "env",
            "criteria",
            "preflight",
            "context",
            "cancel",
            "success",
        ];
        !self.id.starts_with("budget.") && !OWN.contains(&&*self.id) && self.id != self.kind
    }

    /// Formats a number of this rule, without the unit that its name implies.
    pub fn amount(&self, value: f64) -> String {
        match &*self.reading.unit {
            "ms" => format::millis(value),
            "score" => format::score(value),
            "usd" => format::usd(value),
            "recovered errors" => format!("{} recovered", count(value as u64)),
            _ if value < 0.0 || value.fract() != 0.0 => value.to_string(),
            _ => count(value as u64),
        }
    }

    /// Formats the measured value, as a bound if it is one.
    pub fn used(&self) -> Option<String> {
        let value = self.reading.measured()?;
        Some(format!(
            "{}{}{}",
            self.bound.words(),
            self.mark,
            self.amount(value)
        ))
    }

    /// Returns the rule's state in a word or two. `ended` is false while the run continues.
    pub fn state(&self, ended: bool) -> String {
        match self.result {
            _ if self.is_inferred => "fired (inferred)".to_owned(),
            _ if !self.stands.is_empty() => self.stands.to_owned(),
            Standing::Fired => "fired".to_owned(),
            Standing::Held if self.also && ended => "also true".to_owned(),
            Standing::Held if ended => "not fired".to_owned(),
            Standing::Held => match self.reading.headroom() {
                Some(left) if left <= 0.0 => "none left".to_owned(),
                Some(left) => format!("{} left", self.amount(left)),
                None => "not fired".to_owned(),
            },
            Standing::Off => "off".to_owned(),
            Standing::Unknown => "unknown".to_owned(),
        }
    }
}

pub(super) fn plain(id: &str, kind: &str, result: Standing, note: &str) -> RuleStatus {
    RuleStatus {
        id: id.to_owned(),
        kind: kind.to_owned(),
        result,
        note: note.to_owned(),
        ..RuleStatus::default()
    }
}

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
