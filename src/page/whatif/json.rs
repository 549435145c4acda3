//! What do programs read of what other rules would have done? The same answers as the page's.

use serde::Serialize;

use crate::analysis::summary::Summary;
use crate::analysis::whatif::{Answer, Answers};
use crate::model::Index;
use crate::page::json::object;

/// What rules would have done to one run: the asked ones in their order, and the run's own, asked again. Every `step` is an
/// ordinal; `first` is the place in `rules` of the one that would have ended the run first.
pub(crate) fn whatif(answers: &Answers, summary: &Summary, index: &Index) -> impl Serialize + use<> {
    let rules = |own: bool| {
        let rules = answers.rules.iter().filter(|answer| answer.own == own);
        rules.map(|answer| rule(answer, index)).collect::<Vec<_>>()
    };
    let step = answers.steps.map(|(_, last)| last);
    object!({
        key: summary.key.to_string(),
        headline: answers.headline.clone(),
        recorded: object!({
            step: step,
            step_id: id(index, step),
            stop_reason: summary.verdict.stop_reason.clone(),
            outcome: summary.verdict.outcome.as_str(),
            live: answers.live,
        }),
        rules: rules(false),
        own_rules: rules(true),
        first: answers.first,
        inferred: answers.inferred.clone(),
        unread: answers.unread,
        lost: answers.lost,
        begun: answers.begun,
        estimated: answers.estimated,
    })
}

/// What one rule would have done: `gate` is where in the step, `saved` what stopping there spares (`ms` on the recorded
/// machine), `unknown_from` the step from which on it cannot be told.
fn rule(Answer { rule, ended, result, .. }: &Answer, index: &Index) -> impl Serialize + use<> {
    object!({
        rule: rule.to_string(),
        result: result.found.word(),
        step: result.step,
        step_id: id(index, result.step),
        gate: result.gate.map(|gate| gate.as_str()),
        code: result.code.as_ref().map(ToString::to_string),
        detail: result.detail.clone(),
        saved: object!({ steps: result.saved.steps, tokens: result.saved.tokens, ms: result.saved.ms }),
        answer_lost: result.answer_lost,
        needs: result.needs.clone(),
        unknown_from: result.unknown_from,
        at_latest: result.at_latest,
        refused: result.refused,
        off: result.off.clone(),
        ended: *ended,
    })
}

fn id(index: &Index, step: Option<u64>) -> Option<i64> {
    index.steps().get(usize::try_from(step?).ok()?)?.step_id
}
