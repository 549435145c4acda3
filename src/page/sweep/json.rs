//! What do programs read of a question over many runs? The sums of every rule, and how far the question is.

use serde::Serialize;

use crate::analysis::sweep::{Effect, Sweep as Sums};
use crate::page::json::{object, time};
use crate::page::sweep::words::{answer, best};
use crate::page::sweep::{Context, Standing};

#[derive(Debug, Serialize)]
struct Rule<'a> {
    rule: String,
    /// The limit, of a varied rule.
    value: Option<f64>,
    #[serde(flatten)]
    effect: &'a Effect,
}

/// The document of a question over many runs: `number` names this answer (`again=NUMBER` asks anew, `cancel=NUMBER` ends it),
/// `as_of` is when the runs were looked at, `changed` those that changed, came or went since, `best` the limit that saves
/// most without losing an answer. From `runs` on everything is `null` until the question is answered; `together` are the
/// rules that are not varied, where there are several.
pub(crate) fn document<'a>(context: &'a Context, standing: &Standing<'a>) -> impl Serialize + use<'a> {
    let (inquiry, sums) = (standing.inquiry, standing.sweep);
    let values = inquiry.values();
    let limits = |sums: &'a Sums| {
        let limits = inquiry.names().zip(values).zip(sums.limits());
        limits.map(|((rule, value), effect)| Rule { rule, value: Some(*value), effect }).collect::<Vec<_>>()
    };
    let rules = |sums: &'a Sums| {
        let rules = inquiry.names().skip(values.len()).zip(sums.rules());
        rules.map(|(rule, effect)| Rule { rule, value: None, effect }).collect::<Vec<_>>()
    };
    let together = sums.filter(|_| inquiry.asks_together()).and_then(|sums| sums.rules().last());
    object!({
        state: standing.status.state,
        number: standing.status.number,
        done: standing.done,
        total: standing.total,
        as_of: time(standing.status.number),
        changed: standing.status.changed,
        query: context.query.to_string(),
        ignored: &context.query.ignored,
        sweep: inquiry.dial().map(|dial| dial.name()),
        values: values,
        answer: sums.map(|_| answer(standing)),
        best: best(standing).map(|(name, _)| name),
        runs: sums,
        limits: sums.map(limits),
        rules: sums.map(rules),
        together: together.map(|effect| Rule { rule: "all of them".to_owned(), value: None, effect }),
    })
}
