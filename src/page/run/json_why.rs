//! What do programs read of a run's end? The explanation, with its evidence and how every rule stood.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Number;

use crate::analysis::copies::CopySays;
use crate::analysis::summary::Summary;
use crate::analysis::verdict::LimitFrom;
use crate::analysis::why::{self, Evidence, Standing, Trouble, why as explain};
use crate::model::{Gate, Index, Lines, Op, StopVerdict};

/// Why a run stopped.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Why<'a> {
    /// The answer in a sentence, without a full stop.
    headline: &'a str,
    /// What happened besides, one full sentence; empty where nothing did.
    second: &'a str,
    outcome: &'static str,
    /// As recorded.
    stop_reason: Option<&'a str>,
    /// `recorded`, `inferred` from the last records, or `unknown`.
    certainty: &'static str,
    /// The last step that really ran, as an ordinal.
    step: Option<usize>,
    evidence: Vec<Evidence>,
    /// Every rule that could have ended the run, and how it stood.
    rules: Vec<Rule>,
    /// How near the limits are, of a run that goes on.
    pace: Option<String>,
    /// Where the files contradict each other, a sentence each.
    contradictions: Vec<String>,
    /// What copies of the run say that is something else.
    copies: Vec<CopyJson>,
    first_trouble: Option<Trouble>,
    liveness: &'static str,
}

/// What a copy of a run says that is something else than what the run says which counts.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct CopyJson {
    /// The copy.
    key: String,
    /// Its answer to why the run stopped, without a full stop.
    verdict: String,
    outcome: &'static str,
    /// As the copy records it.
    stop_reason: Option<String>,
    /// `recorded`, `inferred` from the last records, or `unknown`.
    certainty: &'static str,
    /// Whether it tells of another end.
    other_end: bool,
    /// What else differs, such as its tokens, its cost or a score.
    differs: Vec<String>,
}

impl CopyJson {
    /// Those of a run.
    pub(crate) fn all(summary: &Summary) -> Vec<Self> {
        let copies = summary.relation.says.iter();
        let copy = |copy: &CopySays| Self {
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

/// A rule: how it stood, and what is recorded of its verdict. It is true where `measured op limit`.
#[derive(Debug, Serialize, JsonSchema)]
struct Rule {
    /// `budget.steps`, `stop[2]`, `critics`.
    id: String,
    /// `budget_steps`, `stagnation`, `critic_stop`.
    kind: String,
    result: Standing,
    /// Whether it was true at the same moment without being what ended the run.
    also: bool,
    /// Whether the last records suggest that it ended the run, and no file says so.
    inferred: bool,
    measured: Option<Number>,
    limit: Option<Number>,
    op: Option<Op>,
    unit: Option<String>,
    /// Who set the limit, or how it is known.
    limit_from: Option<&'static str>,
    /// What was left until the limit.
    headroom: Option<Number>,
    note: Option<String>,
    fired: bool,
    /// The code of its verdict.
    code: Option<String>,
    /// Which part of the engine asked it.
    source: Option<String>,
    gate: Option<Gate>,
    step_id: Option<i64>,
    detail: Option<String>,
}

/// Why the run stopped.
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

/// A whole number as it was written, without a fraction.
fn number(value: f64) -> Option<Number> {
    let whole = value.fract() == 0.0 && value.abs() < 9e15;
    if whole {
        Some(Number::from(value as i64))
    } else {
        Number::from_f64(value)
    }
}
