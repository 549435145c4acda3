//! Describes why a run ended: the rule, the measured value and its limit, who set the limit, and
//! the outcome.
//!
//! The engine writes this record into its END event and its manifest, and board reads both into
//! the same type. QitOS records only a word, the [`StopReason`].

use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::names::capped;

mod budget;
mod code;
mod ended;
mod headline;
mod kinds;
mod reading;
mod reason;

pub use budget::{Budget, Limit};
pub use code::Code;
pub(crate) use ended::counts_steps;
pub use ended::{Bound, Candidate, EndKind, Ended, Reached, ToolLimit};
pub use headline::{Named, limit_of};
pub use kinds::{Certainty, Gate, Origin, Outcome, Phase, Source};
pub use reading::{Evidence, Measured, Op, Reading};
pub use reason::StopReason;

/// Texts of a verdict are truncated to this many bytes in an index.
const MAX_TEXT_BYTES: usize = 400;
/// The index keeps at most this many ids of other rules that were true.
pub(crate) const MAX_ALSO: usize = 16;

/// Why a run stopped.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct StopVerdict {
    /// The rule's id: `stop[2]`, `accept[0]`, `budget.steps`, the id of a custom rule, or the name
    /// of what ended the run.
    pub criterion: String,
    /// Who ended it.
    pub source: Source,
    /// The gate at which the run was stopped, or `None` if it never reached one.
    pub gate: Option<Gate>,
    /// The last step that ran, or `None` if none did.
    pub step: Option<u64>,
    /// The code of the rule.
    pub code: Code,
    /// The coarse reason, for other viewers.
    pub stop_reason: String,
    /// The outcome of the run.
    pub outcome: Outcome,
    /// The comparison that decided.
    #[serde(flatten)]
    pub reading: Reading,
    /// Who set the limit, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit_from: Option<Origin>,
    /// The ids of all other rules that were true at the same gate, in the order of evaluation.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub also: Vec<String>,
}

impl StopVerdict {
    /// Creates a verdict that the engine reaches outside its gates, such as for a rejected task or
    /// a failure of the recorder.
    pub fn outside(
        source: Source,
        code: Code,
        step: Option<u64>,
        detail: impl Into<String>,
    ) -> Self {
        Self {
            criterion: code.as_str().to_owned(),
            gate: None,
            step,
            stop_reason: code.stop_reason(&source).to_owned(),
            outcome: code.outcome(&source),
            source,
            code,
            reading: Reading::text(detail),
            limit_from: None,
            also: Vec::new(),
        }
    }

    /// Returns the outcome that the code implies. A custom code implies none, so its recorded
    /// outcome is returned.
    pub(crate) fn implied_outcome(&self) -> Outcome {
        let by_code = self.code.outcome(&self.source);
        // Without an answer, the agent, the environment and a policy halt a run.
        let is_without_answer = !matches!(self.source, Source::Decision | Source::Completion)
            && (by_code, self.outcome) == (Outcome::Completed, Outcome::Halted);
        if matches!(self.code, Code::Custom(_)) || is_without_answer {
            self.outcome
        } else {
            by_code
        }
    }

    /// Returns the stop reason that the code implies. The reason of an answer isn't used without
    /// one.
    pub(crate) fn implied_reason(&self) -> &'static str {
        let by_code = self.code.stop_reason(&self.source);
        let is_completed = self.implied_outcome() == Outcome::Completed;
        if StopReason::parse(by_code).says_answered() && !is_completed {
            StopReason::WITHOUT_ANSWER
        } else {
            by_code
        }
    }

    /// Returns whether the run was dropped within its last step. That step then has events but no
    /// line, and isn't in the totals.
    pub(crate) fn is_of_open_step(&self) -> bool {
        self.gate.is_none() && self.code == Code::CancelledImmediate && self.step.is_some()
    }

    /// Returns the recorded id of the last step that ran.
    pub fn step_id(&self) -> Option<i64> {
        self.step.and_then(|step| i64::try_from(step).ok())
    }

    /// Reads a recorded verdict into an index. Truncates the texts, and reduces the evidence to its
    /// range of steps, unless it's a single action. Returns `None` if the verdict has no code.
    pub(crate) fn read(recorded: Option<&RawValue>) -> Option<Box<Self>> {
        let mut stop: Self = serde_json::from_str(recorded?.get()).ok()?;
        let cut = |text: &str| capped(text, MAX_TEXT_BYTES);
        for text in [&mut stop.criterion, &mut stop.stop_reason]
            .into_iter()
            .chain(&mut stop.also)
        {
            *text = cut(text).into();
        }
        stop.also.truncate(MAX_ALSO);
        stop.code = Code::from(&*cut(stop.code.as_str()));
        stop.source = Source::from(&*cut(stop.source.as_str()));
        stop.reading.unit = String::from(cut(&stop.reading.unit)).into();
        stop.reading.detail = String::from(cut(&stop.reading.detail)).into();
        if !matches!(&*stop.reading.evidence, [Evidence::Action { .. }]) {
            let steps = stop.reading.steps();
            stop.reading.evidence = steps
                .map(|(from_step, to_step)| Evidence::Steps { from_step, to_step })
                .into_iter()
                .collect();
        }
        Some(Box::new(stop))
    }
}

// Implemented by hand, so that one unexpected field doesn't lose a verdict from a newer writer.
// Only the code is required. Other missing or unknown values count as not recorded.
impl<'de> Deserialize<'de> for StopVerdict {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut stop = Map::deserialize(deserializer)?;
        let code: Option<Code> = take(&mut stop, "code");
        let code = code
            .filter(|code| !code.as_str().is_empty())
            .ok_or_else(|| D::Error::missing_field("code"))?;
        let source = take(&mut stop, "source").unwrap_or(Source::Other(Box::default()));
        let outcome = take(&mut stop, "outcome")
            .filter(|word| !matches!(word, Outcome::Running | Outcome::Unknown));
        let stop_reason: Option<String> = take(&mut stop, "stop_reason");
        Ok(Self {
            criterion: take(&mut stop, "criterion").unwrap_or_default(),
            gate: take(&mut stop, "gate"),
            step: take(&mut stop, "step"),
            stop_reason: stop_reason.unwrap_or_else(|| code.stop_reason(&source).to_owned()),
            outcome: outcome.unwrap_or_else(|| code.outcome(&source)),
            source,
            code,
            reading: Reading {
                measured: take(&mut stop, "measured"),
                limit: take(&mut stop, "limit"),
                op: take(&mut stop, "op"),
                unit: take(&mut stop, "unit").unwrap_or_default(),
                detail: take(&mut stop, "detail").unwrap_or_default(),
                evidence: take_list(&mut stop, "evidence"),
            },
            limit_from: take(&mut stop, "limit_from"),
            also: take_list(&mut stop, "also"),
        })
    }
}

fn take<T: DeserializeOwned>(object: &mut Map<String, Value>, key: &str) -> Option<T> {
    serde_json::from_value(object.remove(key)?).ok()
}

/// Returns the items that can be parsed.
fn take_list<T: DeserializeOwned>(object: &mut Map<String, Value>, key: &str) -> Vec<T> {
    let items: Vec<Value> = take(object, key).unwrap_or_default();
    items
        .into_iter()
        .filter_map(|item| serde_json::from_value(item).ok())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Option<Box<StopVerdict>> {
        StopVerdict::read(Some(serde_json::from_str(text).unwrap()))
    }

    #[test]
    fn a_verdict_is_kept_with_the_range_of_its_evidence() {
        let stop = read(
            r#"{"criterion": "stop[0]", "source": "policy", "gate": "after_step", "step": 4,
            "code": "stagnation", "stop_reason": "stagnation", "outcome": "halted", "measured": 3, "limit": 3,
            "op": ">=", "unit": "steps without change", "detail": "d", "limit_from": "task", "also": ["budget.steps", 7],
            "evidence": [{"from_step": 1, "to_step": 4}, {"step": 5, "new": 0}, "odd"]}"#,
        );
        let stop = stop.unwrap();
        assert_eq!(
            (&stop.code, stop.step, stop.limit_from),
            (&Code::Stagnation, Some(4), Some(Origin::Task))
        );
        assert_eq!(
            (stop.reading.steps(), &*stop.also),
            (Some((1, 5)), &["budget.steps".to_owned()][..])
        );
        assert_eq!(stop.reading.evidence.len(), 1);
    }

    #[test]
    fn odd_verdicts_cost_only_what_is_odd() {
        assert_eq!(read(r#"{"criterion": "x"}"#), None);
        assert_eq!(read("7"), None);
        let odd = read(
            r#"{"code": "final", "step": "4", "measured": [], "op": "==", "outcome": "running", "gate": "new", "also": {},
            "limit_from": "moon", "evidence": 7, "source": "dream"}"#,
        );
        let bare = StopVerdict {
            criterion: String::new(),
            reading: Reading::default(),
            ..StopVerdict::outside(Source::Other("dream".into()), Code::Final, None, "")
        };
        assert_eq!(odd.as_deref(), Some(&bare));
        let long = read(&format!(
            r#"{{"code": "{0}", "detail": "{0}"}}"#,
            "x".repeat(9_000)
        ))
        .unwrap();
        assert!(long.code.as_str().len() < 410 && long.reading.detail.len() < 410);
    }
}
