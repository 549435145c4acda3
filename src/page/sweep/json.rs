//! What do programs read of a question over many runs? The sums of every rule, and how far the question is.

use schemars::JsonSchema;
use serde::Serialize;

use crate::analysis::query::Ignored;
use crate::analysis::sweep::{Effect, Sweep as Sums};
use crate::page::json::time;
use crate::page::part::job::State;
use crate::page::sweep::words::{answer, best};
use crate::page::sweep::{Context, Standing};

/// What one rule would have done to all runs.
#[derive(Debug, Serialize, JsonSchema)]
struct Rule<'a> {
    rule: String,
    /// The limit, of a varied rule.
    value: Option<f64>,
    #[serde(flatten)]
    effect: &'a Effect,
}

/// A question over many runs. From `answer` on everything is `null` until it is answered.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Sweep<'a> {
    state: State,
    /// Names this answer: `again=NUMBER` asks anew, `cancel=NUMBER` ends it.
    number: i64,
    done: usize,
    total: usize,
    /// When the runs were looked at.
    as_of: Option<String>,
    /// Runs that changed, came or went since.
    changed: usize,
    query: String,
    /// Terms of the query that were not understood and do not filter.
    ignored: &'a [Ignored],
    /// The name of the varied rule.
    sweep: Option<&'static str>,
    /// Its limits.
    values: &'a [f64],
    /// The answer in a sentence.
    answer: Option<String>,
    /// The limit that saves most without losing an answer.
    best: Option<String>,
    runs: Option<&'a Sums>,
    limits: Option<Vec<Rule<'a>>>,
    /// The rules that are not varied.
    rules: Option<Vec<Rule<'a>>>,
    /// These together, where there are several.
    together: Option<Rule<'a>>,
}

/// A question over many runs as it stands.
pub(crate) fn document<'a>(context: &'a Context, standing: &Standing<'a>) -> Sweep<'a> {
    let (inquiry, sums) = (standing.inquiry, standing.sweep);
    let values = inquiry.values();
    let limits = |sums: &'a Sums| {
        let limits = inquiry.names().zip(values).zip(sums.limits());
        limits
            .map(|((rule, value), effect)| Rule {
                rule,
                value: Some(*value),
                effect,
            })
            .collect::<Vec<_>>()
    };
    let rules = |sums: &'a Sums| {
        let rules = inquiry.names().skip(values.len()).zip(sums.rules());
        rules
            .map(|(rule, effect)| Rule {
                rule,
                value: None,
                effect,
            })
            .collect::<Vec<_>>()
    };
    let together = sums
        .filter(|_| inquiry.asks_together())
        .and_then(|sums| sums.rules().last());
    Sweep {
        state: standing.status.state,
        number: standing.status.number,
        done: standing.done,
        total: standing.total,
        as_of: time(standing.status.number),
        changed: standing.status.changed,
        query: context.query.to_string(),
        ignored: &context.query.ignored,
        sweep: inquiry.dial().map(|dial| dial.name()),
        values,
        answer: sums.map(|_| answer(standing)),
        best: best(standing).map(|(name, _)| name),
        runs: sums,
        limits: sums.map(limits),
        rules: sums.map(rules),
        together: together.map(|effect| Rule {
            rule: "all of them".to_owned(),
            value: None,
            effect,
        }),
    }
}
