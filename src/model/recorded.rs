//! Which verdict and which limits did the writer record? Only this crate's own engine does; QitOS records a word.
//!
//! Words are kept as written and every field but the code may be missing, since a reader must not refuse what a newer
//! writer says. What the words mean is known to [`crate::analysis`].

use super::loose::{Many, Maybe, Scalar, wire};
use super::names::capped;

/// A text kept in the index is cut to this many bytes.
const MAX_TEXT_BYTES: usize = 400;
/// At most this many ids are kept of the rules that were true besides.
const MAX_ALSO: usize = 16;

/// Why a run stopped, as its writer recorded it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RecordedStop {
    /// The name under which the run ended: `budget_steps`, `final`, a user's own.
    pub code: Box<str>,
    /// The rule's id: `budget.steps`, `stop[2]`.
    pub criterion: Box<str>,
    /// Who ended it: `policy`, `budget`, `critic` and so on.
    pub source: Box<str>,
    /// Where in the step it was decided.
    pub gate: Option<Box<str>>,
    /// The last step that really ran.
    pub step: Option<i64>,
    /// The coarse reason for other viewers.
    pub stop_reason: Option<Box<str>>,
    /// How the run went.
    pub outcome: Option<Box<str>>,
    /// The rule's own words; empty for none.
    pub detail: Box<str>,
    /// The number measured.
    pub measured: Option<f64>,
    /// The limit.
    pub limit: Option<f64>,
    /// The rule is true where `measured op limit`; empty without a comparison.
    pub op: Box<str>,
    /// The unit of both numbers.
    pub unit: Box<str>,
    /// Who set the limit: `default`, `engine`, `task` or `cli`.
    pub limit_from: Option<Box<str>>,
    /// The ids of the rules that were true at the same moment.
    pub also: Box<[Box<str>]>,
    /// The first and the last step the evidence names.
    pub rests_on: Option<(i64, i64)>,
}

/// Hashes a text for equality over versions and machines (FNV-1a, 64 bit, offset basis and prime of its authors).
pub fn text_hash(text: &str) -> u64 {
    let mix = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    text.bytes().fold(0xcbf2_9ce4_8422_2325, mix)
}

/// What a step of our own engine records for its stop rules, as far as it fits an index.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RecordedFacts {
    /// The `facts` key as written; `None` where it is longer than an index keeps, and the line has it.
    pub json: Option<Box<str>>,
    /// The `error` key as written, where the step failed.
    pub error: Option<Box<str>>,
    /// The [`text_hash`] of the model's text, and its length in bytes.
    pub said: (u64, u64),
}

/// Facts longer than this are left on their line: answers of rules in code may carry long texts.
const MAX_FACTS_BYTES: usize = 4_096;

impl RecordedFacts {
    /// Takes in the `facts` and the `error` of a step, and the model's text.
    pub(super) fn new(facts: &str, error: Option<&str>, text: &str) -> Self {
        let error = error.filter(|error| error.starts_with('{')).map(Into::into);
        let json = (facts.len() <= MAX_FACTS_BYTES).then(|| facts.into());
        Self { json, error, said: (text_hash(text), text.len() as u64) }
    }
}

/// The budget of a run, as its writer recorded it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RecordedBudget {
    /// Steps.
    pub steps: Option<RecordedLimit>,
    /// Milliseconds.
    pub time_ms: Option<RecordedLimit>,
    /// Tokens.
    pub tokens: Option<RecordedLimit>,
}

/// One limit.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RecordedLimit {
    /// The limit.
    pub limit: i64,
    /// Who set it, as written; `engine` where nobody is named.
    pub from: Box<str>,
}

wire! {
    pub(crate) struct StopWire<'a> {
        criterion: Scalar<'a>,
        source: Scalar<'a>,
        gate: Scalar<'a>,
        step: Scalar<'a>,
        code: Scalar<'a>,
        stop_reason: Scalar<'a>,
        outcome: Scalar<'a>,
        measured: Scalar<'a>,
        limit: Scalar<'a>,
        op: Scalar<'a>,
        unit: Scalar<'a>,
        detail: Scalar<'a>,
        limit_from: Scalar<'a>,
        also: Many<'a, Scalar<'a>>,
        evidence: Many<'a, Maybe<'a, EvidenceWire<'a>>>,
    }

    struct EvidenceWire<'a> {
        step: Scalar<'a>,
        from_step: Scalar<'a>,
        to_step: Scalar<'a>,
    }

    pub(crate) struct RulesWire<'a> {
        budget: Maybe<'a, BudgetWire<'a>>,
    }

    struct BudgetWire<'a> {
        steps: Maybe<'a, LimitWire<'a>>,
        time_ms: Maybe<'a, LimitWire<'a>>,
        tokens: Maybe<'a, LimitWire<'a>>,
    }

    struct LimitWire<'a> {
        limit: Scalar<'a>,
        from: Scalar<'a>,
    }
}

fn kept(scalar: &Scalar<'_>) -> Option<Box<str>> {
    scalar.text().map(|text| capped(text, MAX_TEXT_BYTES))
}

impl StopWire<'_> {
    /// The verdict; `None` where it does not name its code.
    pub(crate) fn read(&self) -> Option<Box<RecordedStop>> {
        let steps = self.evidence.items.iter().filter_map(Maybe::value);
        let steps = steps.flat_map(|found| [&found.step, &found.from_step, &found.to_step]).filter_map(Scalar::int);
        let rests_on = steps.fold(None, |range: Option<(i64, i64)>, step| {
            Some(range.map_or((step, step), |(from, to)| (from.min(step), to.max(step))))
        });
        Some(Box::new(RecordedStop {
            code: kept(&self.code)?,
            criterion: kept(&self.criterion).unwrap_or_default(),
            source: kept(&self.source).unwrap_or_default(),
            gate: kept(&self.gate),
            step: self.step.int(),
            stop_reason: kept(&self.stop_reason),
            outcome: kept(&self.outcome),
            detail: kept(&self.detail).unwrap_or_default(),
            measured: self.measured.number(),
            limit: self.limit.number(),
            op: kept(&self.op).unwrap_or_default(),
            unit: kept(&self.unit).unwrap_or_default(),
            limit_from: kept(&self.limit_from),
            also: self.also.items.iter().filter_map(kept).take(MAX_ALSO).collect(),
            rests_on,
        }))
    }
}

impl RulesWire<'_> {
    /// The budget; `None` where it has no limit.
    pub(crate) fn budget(&self) -> Option<Box<RecordedBudget>> {
        let budget = self.budget.value()?;
        let limit = |limit: &Maybe<'_, LimitWire<'_>>| match limit {
            Maybe::Value(full) => {
                let from = kept(&full.from).unwrap_or_else(|| "engine".into());
                Some(RecordedLimit { limit: full.limit.int()?, from })
            }
            Maybe::Other(bare) => Some(RecordedLimit { limit: bare.int()?, from: "engine".into() }),
        };
        let read = RecordedBudget {
            steps: limit(&budget.steps),
            time_ms: limit(&budget.time_ms),
            tokens: limit(&budget.tokens),
        };
        (read != RecordedBudget::default()).then(|| Box::new(read))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_verdict_is_kept_and_points_at_its_steps() {
        let text = r#"{"criterion": "stop[0]", "source": "policy", "gate": "after_step", "step": 4,
            "code": "stagnation", "stop_reason": "stagnation", "outcome": "halted", "measured": 3, "limit": 3,
            "op": ">=", "unit": "steps without change", "detail": "d", "limit_from": "task", "also": ["budget.steps", 7],
            "evidence": [{"from_step": 1, "to_step": 4}, {"step": 3, "action": 0}, "odd"]}"#;
        let stop = serde_json::from_str::<StopWire<'_>>(text).unwrap().read().unwrap();
        assert_eq!((&*stop.code, stop.step, stop.measured), ("stagnation", Some(4), Some(3.0)));
        assert_eq!((stop.rests_on, &*stop.also), (Some((1, 4)), &["budget.steps".into()][..]));
    }

    #[test]
    fn odd_verdicts_cost_only_what_is_odd() {
        let read = |text| serde_json::from_str::<StopWire<'_>>(text).unwrap().read();
        assert_eq!(read(r#"{"criterion": "x"}"#), None);
        let odd = read(r#"{"code": "final", "step": "4", "measured": [], "also": {}, "evidence": 7}"#).unwrap();
        assert_eq!(*odd, RecordedStop { code: "final".into(), ..RecordedStop::default() });
    }

    #[test]
    fn a_bare_limit_is_the_engines() {
        let read = |text| serde_json::from_str::<RulesWire<'_>>(text).unwrap().budget();
        let budget = read(r#"{"budget": {"steps": 8, "tokens": {"limit": 100, "from": "task"}, "time_ms": "x"}}"#);
        let limit = |limit, from: &str| Some(RecordedLimit { limit, from: from.into() });
        assert_eq!(budget.unwrap().steps, limit(8, "engine"));
        let budget = read(r#"{"budget": {"tokens": {"limit": 100, "from": "task"}}}"#).unwrap();
        assert_eq!((budget.steps.as_ref(), budget.tokens.clone()), (None, limit(100, "task")));
        assert_eq!(read(r#"{"budget": {}}"#), None);
    }

    #[test]
    fn the_hash_is_the_published_one() {
        assert_eq!(text_hash(""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(text_hash("a"), 0xaf63_dc4c_8601_ec8c);
    }
}
