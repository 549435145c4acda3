//! What do programs read of what other rules would have done? The same answers as the page's.

use serde::Serialize;

use crate::analysis::summary::Summary;
use crate::analysis::whatif::{Answer, Answers};
use crate::model::Index;

/// What rules would have done to one run. Every `step` is an ordinal.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct WhatIf {
    /// The run.
    pub key: String,
    /// What all asked rules together would have done.
    pub headline: String,
    /// Where it really ended.
    pub recorded: Recorded,
    /// The asked rules, in the order in which they were asked.
    pub rules: Vec<Rule>,
    /// The run's own rules, asked again, and whatever else ended it.
    pub own_rules: Vec<Rule>,
    /// The place in `rules` of the one that would have ended the run first; `null` where none would have.
    pub first: Option<usize>,
    /// What is worked out and not read.
    pub inferred: Vec<&'static str>,
    /// Steps whose facts could not be read.
    pub unread: usize,
    /// Steps that ran and have no line.
    pub lost: usize,
    /// Whether tokens of a step were estimated.
    pub estimated: bool,
}

/// Where a run really ended.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Recorded {
    /// The last step that ran.
    pub step: Option<u64>,
    /// Its recorded id.
    pub step_id: Option<i64>,
    /// The recorded stop reason, as written.
    pub stop_reason: Option<String>,
    /// How it came out.
    pub outcome: &'static str,
    /// Whether it may go on, so that `step` is only the last so far.
    pub live: bool,
}

/// What one rule would have done.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Rule {
    /// The rule in its short form, or as JSON where it has none.
    pub rule: String,
    /// `earlier`, `same`, `not_reached` or `unknown`.
    pub result: &'static str,
    /// The step at which it stops the run; `null` also where it lets none run.
    pub step: Option<u64>,
    /// Its recorded id.
    pub step_id: Option<i64>,
    /// Where in the step: `before_step`, `after_decide` or `after_step`.
    pub gate: Option<&'static str>,
    /// The code under which it does.
    pub code: Option<String>,
    /// One sentence, without a full stop.
    pub detail: String,
    /// What stopping there spares.
    pub saved: Saved,
    /// Whether a good end would have been lost.
    pub answer_lost: bool,
    /// The fact that is missing.
    pub needs: Option<String>,
    /// The step from which on it cannot be told.
    pub unknown_from: Option<u64>,
    /// The step at which it stops the run at the latest, where it cannot be told whether earlier.
    pub at_latest: Option<u64>,
    /// The first step whose answer it refuses.
    pub refused: Option<u64>,
    /// How it is switched off.
    pub off: Option<String>,
    /// Whether it is what ended the run.
    pub ended: bool,
}

/// What stopping earlier spares; `null` is unknown.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Saved {
    /// Steps.
    pub steps: Option<u64>,
    /// Tokens.
    pub tokens: Option<u64>,
    /// Milliseconds on the recorded machine.
    pub ms: Option<u64>,
}

/// What `answers` say, for programs.
pub(crate) fn whatif(answers: &Answers, summary: &Summary, index: &Index) -> WhatIf {
    let id = |step: Option<u64>| index.steps().get(usize::try_from(step?).ok()?)?.step_id;
    let rule = |Answer { rule, ended, result, .. }: &Answer| Rule {
        rule: rule.to_string(),
        result: result.found.word(),
        step: result.step,
        step_id: id(result.step),
        gate: result.gate.map(|gate| gate.as_str()),
        code: result.code.as_ref().map(ToString::to_string),
        detail: result.detail.clone(),
        saved: Saved { steps: result.saved.steps, tokens: result.saved.tokens, ms: result.saved.ms },
        answer_lost: result.answer_lost,
        needs: result.needs.clone(),
        unknown_from: result.unknown_from,
        at_latest: result.at_latest,
        refused: result.refused,
        off: result.off.clone(),
        ended: *ended,
    };
    let list = |own: bool| answers.rules.iter().filter(|answer| answer.own == own).map(rule).collect();
    let last = answers.steps.map(|(_, last)| last);
    WhatIf {
        key: summary.key.to_string(),
        headline: answers.headline.clone(),
        recorded: Recorded {
            step: last,
            step_id: id(last),
            stop_reason: summary.verdict.stop_reason.clone(),
            outcome: summary.verdict.outcome.as_str(),
            live: answers.live,
        },
        rules: list(false),
        own_rules: list(true),
        first: answers.first,
        inferred: answers.inferred.clone(),
        unread: answers.unread,
        lost: answers.lost,
        estimated: answers.estimated,
    }
}
