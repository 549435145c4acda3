//! Defines the JSON document of a what-if question about one run. It has the same answers as the
//! page.

use schemars::JsonSchema;
use serde::Serialize;

use crate::analysis::summary::Summary;
use crate::analysis::whatif::{RuleEffect, WhatIfReport};
use crate::model::{Gate, Index};

/// The effect that rules would have had on one run. Every `step` is an ordinal.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct WhatIf {
    key: String,
    headline: String,
    recorded: Recorded,
    /// The requested rules, in request order.
    rules: Vec<Rule>,
    /// The run's own rules, re-evaluated.
    own_rules: Vec<Rule>,
    /// The index in `rules` of the rule that would have ended the run first.
    first: Option<usize>,
    /// Inferred facts that these answers depend on.
    inferred: Vec<&'static str>,
    /// The number of steps whose facts could not be read.
    unread: usize,
    /// The number of steps that ran but have no line.
    lost: usize,
    /// Whether one more step had started, but has no line.
    begun: bool,
    /// Whether some token counts are estimates.
    estimated: bool,
}

/// How the run actually ended.
#[derive(Debug, Serialize, JsonSchema)]
struct Recorded {
    step: Option<u64>,
    step_id: Option<i64>,
    stop_reason: Option<String>,
    outcome: &'static str,
    /// Whether it is still running.
    live: bool,
}

/// The effect that one rule would have had.
#[derive(Debug, Serialize, JsonSchema)]
struct Rule {
    rule: String,
    /// `earlier`, `same`, `not_reached` or `unknown`.
    result: &'static str,
    step: Option<u64>,
    step_id: Option<i64>,
    /// The point within the step.
    gate: Option<Gate>,
    /// The code of the rule's verdict.
    code: Option<String>,
    detail: String,
    saved: Saved,
    /// Whether the stop would have cut anything off: later steps, or the rest of the last one.
    cuts: bool,
    /// Whether the run's answer would have been lost; null if unknown.
    answer_lost: Option<bool>,
    /// The missing fact, if the result is unknown.
    needs: Option<String>,
    /// The first step where the result is unknown.
    unknown_from: Option<u64>,
    /// The latest step at which the rule stops the run, if it is unknown whether it stops earlier.
    at_latest: Option<u64>,
    /// The first step whose answer the rule rejects.
    refused: Option<u64>,
    /// How the rule is switched off, if it is.
    off: Option<String>,
    /// Whether this rule ended the run.
    ended: bool,
}

/// The savings of stopping there.
#[derive(Debug, Serialize, JsonSchema)]
struct Saved {
    steps: Option<u64>,
    tokens: Option<u64>,
    /// Milliseconds on the clock of the machine that recorded the run.
    ms: Option<u64>,
}

/// Builds the document for a run.
pub(crate) fn whatif(report: &WhatIfReport, summary: &Summary, index: &Index) -> WhatIf {
    let rules = |own: bool| {
        let rules = report.rules.iter().filter(|answer| answer.own == own);
        rules.map(|answer| rule(answer, index)).collect::<Vec<_>>()
    };
    let step = report.steps.map(|(_, last)| last);
    WhatIf {
        key: summary.key.to_string(),
        headline: report.headline.clone(),
        recorded: Recorded {
            step,
            step_id: id(index, step),
            stop_reason: summary.verdict.stop_reason.as_deref().map(str::to_owned),
            outcome: summary.verdict.outcome.as_str(),
            live: report.live,
        },
        rules: rules(false),
        own_rules: rules(true),
        first: report.first,
        inferred: report.inferred.clone(),
        unread: report.unread,
        lost: report.lost,
        begun: report.begun,
        estimated: report.estimated,
    }
}

fn rule(
    RuleEffect {
        rule,
        ended,
        result,
        ..
    }: &RuleEffect,
    index: &Index,
) -> Rule {
    Rule {
        rule: rule.to_string(),
        result: result.found.word(),
        step: result.step,
        step_id: id(index, result.step),
        gate: result.gate,
        code: result.code.as_ref().map(ToString::to_string),
        detail: result.detail.clone(),
        saved: Saved {
            steps: result.saved.steps,
            tokens: result.saved.tokens,
            ms: result.saved.ms,
        },
        cuts: result.cuts,
        answer_lost: result.answer_lost,
        needs: result.needs.clone(),
        unknown_from: result.unknown_from,
        at_latest: result.at_latest,
        refused: result.refused,
        off: result.off.clone(),
        ended: *ended,
    }
}

fn id(index: &Index, step: Option<u64>) -> Option<i64> {
    index.steps().get(usize::try_from(step?).ok()?)?.step_id
}
