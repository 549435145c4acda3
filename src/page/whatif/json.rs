//! What do programs read of what other rules would have done? The same answers as the page's.

use schemars::JsonSchema;
use serde::Serialize;

use crate::analysis::summary::Summary;
use crate::analysis::whatif::{Answer, Answers};
use crate::model::{Gate, Index};

/// What rules would have done to one run. Every `step` is an ordinal.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct WhatIf {
    key: String,
    headline: String,
    recorded: Recorded,
    /// The asked rules, in their order.
    rules: Vec<Rule>,
    /// The run's own, asked again.
    own_rules: Vec<Rule>,
    /// The place in `rules` of the one that would have ended the run first.
    first: Option<usize>,
    /// What these answers rest on that is worked out rather than recorded.
    inferred: Vec<&'static str>,
    /// Steps whose facts could not be read.
    unread: usize,
    /// Steps that ran and have no line.
    lost: usize,
    /// Whether the step after them all had begun, and has no line.
    begun: bool,
    /// Whether some tokens are an estimate.
    estimated: bool,
}

/// How the run itself ended.
#[derive(Debug, Serialize, JsonSchema)]
struct Recorded {
    step: Option<u64>,
    step_id: Option<i64>,
    stop_reason: Option<String>,
    outcome: &'static str,
    /// Whether it still goes on.
    live: bool,
}

/// What one rule would have done.
#[derive(Debug, Serialize, JsonSchema)]
struct Rule {
    rule: String,
    /// `earlier`, `same`, `not_reached` or `unknown`.
    result: &'static str,
    step: Option<u64>,
    step_id: Option<i64>,
    /// Where in the step.
    gate: Option<Gate>,
    /// The code of its verdict.
    code: Option<String>,
    detail: String,
    saved: Saved,
    /// Whether something that ran would not have: later steps, or the rest of the last one.
    cuts: bool,
    /// Whether the run's answer would have been lost; null where that is unknown.
    answer_lost: Option<bool>,
    /// The fact that is missing, where it cannot be told.
    needs: Option<String>,
    /// The step from which on it cannot be told.
    unknown_from: Option<u64>,
    /// The step at which it stops the run at the latest, where it cannot be told whether earlier.
    at_latest: Option<u64>,
    /// The first step whose answer the rule refuses.
    refused: Option<u64>,
    /// How the rule is switched off, where it is.
    off: Option<String>,
    /// Whether it is what ended the run.
    ended: bool,
}

/// What stopping there spares.
#[derive(Debug, Serialize, JsonSchema)]
struct Saved {
    steps: Option<u64>,
    tokens: Option<u64>,
    /// Milliseconds on the recorded machine.
    ms: Option<u64>,
}

/// The answers for a run.
pub(crate) fn whatif(answers: &Answers, summary: &Summary, index: &Index) -> WhatIf {
    let rules = |own: bool| {
        let rules = answers.rules.iter().filter(|answer| answer.own == own);
        rules.map(|answer| rule(answer, index)).collect::<Vec<_>>()
    };
    let step = answers.steps.map(|(_, last)| last);
    WhatIf {
        key: summary.key.to_string(),
        headline: answers.headline.clone(),
        recorded: Recorded {
            step,
            step_id: id(index, step),
            stop_reason: summary.verdict.stop_reason.clone(),
            outcome: summary.verdict.outcome.as_str(),
            live: answers.live,
        },
        rules: rules(false),
        own_rules: rules(true),
        first: answers.first,
        inferred: answers.inferred.clone(),
        unread: answers.unread,
        lost: answers.lost,
        begun: answers.begun,
        estimated: answers.estimated,
    }
}

fn rule(
    Answer {
        rule,
        ended,
        result,
        ..
    }: &Answer,
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
