//! Why did a run end? The rule, what it measured against which limit, who set the limit, and how the run went.
//!
//! The engine writes this record into its END event and its manifest, and the same type is read from there. QitOS
//! records no more than a word, the [`StopReason`].

use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::names::capped;
use super::words::{open_words, words};

mod budget;
mod code;
mod ended;
mod reading;
mod reason;

pub use budget::{Budget, Limit};
pub use code::Code;
pub use ended::{Bound, Candidate, EndKind, Ended, Reached};
pub use reading::{Evidence, Measured, Op, Reading};
pub use reason::StopReason;

/// A text of a verdict is cut to this many bytes when it is read into an index.
const MAX_TEXT_BYTES: usize = 400;
/// At most this many ids are kept of the rules that were true besides.
pub(crate) const MAX_ALSO: usize = 16;

open_words! {
    /// Who ended the run.
    pub enum Source, else Other {
        /// A final decision, no completion rule being declared.
        Decision = "decision",
        /// The agent's own condition.
        Agent = "agent",
        /// The environment.
        Env = "env",
        /// A critic.
        Critic = "critic",
        /// A completion rule.
        Completion = "completion",
        /// A policy.
        Policy = "policy",
        /// The budget.
        Budget = "budget",
        /// The recovery of failed steps gave up.
        Recovery = "recovery",
        /// A check before the first step.
        Preflight = "preflight",
        /// Somebody outside.
        Cancel = "cancel",
        /// A failure of the engine's surroundings.
        Error = "error",
    }
}

words! {
    /// How a run came out, independent of the words its writer uses.
    #[derive(Default)]
    #[non_exhaustive]
    pub enum Outcome {
        /// It did what it set out to do, as far as its own rules tell.
        Completed = "completed",
        /// A limit cut it.
        Truncated = "truncated",
        /// A critic or a guard ended it.
        Halted = "halted",
        /// It broke.
        Failed = "failed",
        /// Somebody ended it from outside.
        Cancelled = "cancelled",
        /// It may still be going.
        Running = "running",
        /// It ended, and the files do not say how.
        #[default]
        Unknown = "unknown",
    }
}

words! {
    /// Who set a limit.
    #[derive(Default)]
    #[non_exhaustive]
    pub enum Origin {
        /// Nobody: it comes with the engine.
        Default = "default",
        /// The program that embeds the engine, or its agent file.
        #[default]
        Engine = "engine",
        /// The task.
        Task = "task",
        /// The command line.
        Cli = "cli",
    }
}

words! {
    /// Where in a step a rule is asked.
    #[non_exhaustive]
    pub enum Gate {
        /// Before anything of the step happens.
        BeforeStep = "before_step",
        /// After the decision, before its actions.
        AfterDecide = "after_decide",
        /// After actions, reduction and critics.
        AfterStep = "after_step",
    }
}

words! {
    /// The part of a step that failed.
    #[non_exhaustive]
    pub enum Phase {
        /// Observation and prompt.
        Prepare = "prepare",
        /// The decision, with the model behind it.
        Decide = "decide",
        /// The actions.
        Act = "act",
        /// The new state.
        Reduce = "reduce",
        /// The critics.
        Critic = "critic",
    }
}

words! {
    /// What a statement about the end of a run rests on.
    pub enum Certainty {
        /// The files say it.
        Recorded = "recorded",
        /// Concluded from what the files hold or lack.
        Inferred = "inferred",
        /// The files do not tell.
        Unknown = "unknown",
    }
}

/// Why a run stopped.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct StopVerdict {
    /// The rule's id: `stop[2]`, `accept[0]`, `budget.steps`, a user's own, or the name of what ended the run.
    pub criterion: String,
    /// Who ended it.
    pub source: Source,
    /// Where in the step it was decided; absent for a run that never reached one.
    pub gate: Option<Gate>,
    /// The last step that really ran, `None` where none did.
    pub step: Option<u64>,
    /// Under which name.
    pub code: Code,
    /// The coarse reason for other viewers.
    pub stop_reason: String,
    /// How the run went.
    pub outcome: Outcome,
    /// What was compared with what.
    #[serde(flatten)]
    pub reading: Reading,
    /// Who set the limit, where there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit_from: Option<Origin>,
    /// The ids of all others that were true on the same boundary, in the order in which they were asked.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub also: Vec<String>,
}

impl StopVerdict {
    /// A verdict the engine gives outside its gates: a refused task, a failure of the recorder.
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

    /// The last step that really ran, by its recorded id.
    pub fn step_id(&self) -> Option<i64> {
        self.step.and_then(|step| i64::try_from(step).ok())
    }

    /// Reads a recorded verdict into an index: texts are cut, and of the evidence only the range of its steps is kept.
    /// `None` where it does not name its code.
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
        let steps = stop.reading.steps();
        stop.reading.evidence = steps
            .map(|(from_step, to_step)| Evidence::Steps { from_step, to_step })
            .into_iter()
            .collect();
        Some(Box::new(stop))
    }
}

// By hand, since a verdict of a newer writer must not be lost for one odd field: only the code has to be there, and
// what is missing or cannot be understood reads as not said.
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

/// The items that can be understood.
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
