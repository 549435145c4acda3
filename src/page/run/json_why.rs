//! Provides the JSON that explains why a run stopped, with its evidence and the result of every
//! rule.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Number;

use crate::analysis::copies::CopyDifferences;
use crate::analysis::summary::Summary;
use crate::analysis::verdict::LimitFrom;
use crate::analysis::why::{self, Evidence, Standing, Trouble, why as explain};
use crate::model::{Gate, Index, Lines, Op, StopVerdict};

/// Why a run stopped.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Why<'a> {
    /// The answer in a sentence, without a full stop.
    headline: &'a str,
    /// Another fact in one full sentence. May be empty.
    second: &'a str,
    outcome: &'static str,
    /// The recorded stop reason.
    stop_reason: Option<&'a str>,
    /// `recorded`, `inferred` from the last records, or `unknown`.
    certainty: &'static str,
    /// The ordinal of the last step that really ran.
    step: Option<usize>,
    evidence: Vec<Evidence>,
    /// The result of every rule that could have ended the run.
    rules: Vec<Rule>,
    /// How close a live run is to its limits.
    pace: Option<String>,
    /// Contradictions between the files, one sentence each.
    contradictions: Vec<String>,
    /// Copies of the run with different records.
    copies: Vec<CopyJson>,
    first_trouble: Option<Trouble>,
    liveness: &'static str,
}

/// A copy of a run whose records differ from those of the run that counts.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct CopyJson {
    /// The key of the copy.
    key: String,
    /// The copy's answer to why the run stopped, without a full stop.
    verdict: String,
    outcome: &'static str,
    /// The stop reason that the copy records.
    stop_reason: Option<String>,
    /// `recorded`, `inferred` from the last records, or `unknown`.
    certainty: &'static str,
    /// Whether the copy ended differently.
    other_end: bool,
    /// Other differences, such as tokens, cost or a score.
    differs: Vec<String>,
}

impl CopyJson {
    /// Returns the differing copies of a run.
    pub(crate) fn all(summary: &Summary) -> Vec<Self> {
        let copies = summary.relation.differences.iter();
        let copy = |copy: &CopyDifferences| Self {
            key: copy.key.clone(),
            verdict: copy.verdict.clone(),
            outcome: copy.outcome.as_str(),
            stop_reason: copy.stop_reason.clone(),
            certainty: copy.certainty.as_str(),
            other_end: copy.is_other_end,
            differs: copy.differs.clone(),
        };
        copies.map(copy).collect()
    }
}

/// A stop rule with its result and its recorded verdict. The rule is true if `measured op limit`.
#[derive(Debug, Serialize, JsonSchema)]
struct Rule {
    /// The rule's id: `budget.steps`, `stop[2]`, `critics`.
    id: String,
    /// The rule's kind: `budget_steps`, `stagnation`, `critic_stop`.
    kind: String,
    result: Standing,
    /// Whether it was true at the same moment but didn't end the run.
    also: bool,
    /// Whether the last records suggest that it ended the run, although no file records it.
    inferred: bool,
    measured: Option<Number>,
    limit: Option<Number>,
    op: Option<Op>,
    unit: Option<String>,
    /// Who set the limit, or how it is known.
    limit_from: Option<&'static str>,
    /// The amount left until the limit.
    headroom: Option<Number>,
    note: Option<String>,
    fired: bool,
    /// The code of its verdict.
    code: Option<String>,
    /// The part of the engine that checked the rule.
    source: Option<String>,
    gate: Option<Gate>,
    step_id: Option<i64>,
    detail: Option<String>,
}

/// Explains why the run stopped.
pub(crate) fn why<'a>(summary: &'a Summary, index: &Index, lines: &dyn Lines) -> Why<'a> {
    let (verdict, why) = (&summary.verdict, explain(summary, index, lines));
    Why {
        headline: &verdict.sentence,
        second: &verdict.second,
        outcome: verdict.outcome.as_str(),
        stop_reason: verdict.stop_reason.as_deref(),
        certainty: verdict.certainty.as_str(),
        step: verdict.step,
        evidence: why.evidence,
        rules: why.rules.into_iter().map(rule).collect::<Vec<_>>(),
        pace: why.pace,
        contradictions: why.contradictions,
        copies: CopyJson::all(summary),
        first_trouble: why.first_trouble,
        liveness: summary.life.liveness.word(),
    }
}

fn rule(rule: why::RuleStatus) -> Rule {
    let text = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
    let stop = rule.stop.as_deref();
    Rule {
        id: rule.id,
        kind: rule.kind,
        result: rule.result,
        also: rule.also,
        inferred: rule.is_inferred,
        measured: rule.reading.measured().and_then(number),
        limit: rule.reading.limit().and_then(number),
        op: rule.reading.op,
        unit: text(&rule.reading.unit),
        limit_from: rule.limit_from.map(LimitFrom::as_str),
        headroom: rule.reading.headroom().and_then(number),
        note: text(&rule.note),
        fired: rule.result == Standing::Fired,
        code: stop.and_then(|stop| text(stop.code.as_str())),
        source: stop.and_then(|stop| text(stop.source.as_str())),
        gate: stop.and_then(|stop| stop.gate),
        step_id: stop.and_then(StopVerdict::step_id),
        detail: stop.and_then(|stop| text(&stop.reading.detail)),
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
