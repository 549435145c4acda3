//! Defines the JSON document of a what-if question over many runs: the sums of each rule and the
//! progress.

use schemars::JsonSchema;
use serde::Serialize;

use crate::analysis::query::Ignored;
use crate::analysis::sweep::{Effect, Sweep as Sums};
use crate::model::time::utc;
use crate::page::part::job::State;
use crate::page::sweep::Context;
use crate::page::sweep::task::Standing;
use crate::page::sweep::words::{answer, best};

/// The effect that one rule would have had on all runs.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "SweepRule")]
struct Rule<'a> {
    rule: String,
    /// The limit, if the rule is the varied one.
    value: Option<f64>,
    #[serde(flatten)]
    effect: &'a Effect,
}

/// A what-if question over many runs. `answer` and the fields after it are null until there is a
/// result.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Sweep<'a> {
    state: State,
    /// The id of this answer. `again=NUMBER` repeats the question, and `cancel=NUMBER` cancels it.
    number: i64,
    done: usize,
    total: usize,
    /// When the runs were selected.
    as_of: Option<String>,
    /// Runs that changed, appeared or disappeared since.
    changed: usize,
    query: String,
    /// The query's terms that were ignored.
    ignored: &'a [Ignored],
    /// The name of the varied rule.
    sweep: Option<&'static str>,
    /// The limits of the varied rule.
    values: &'a [f64],
    /// The answer in a sentence.
    answer: Option<String>,
    /// The limit that saves the most without losing an answer.
    best: Option<String>,
    runs: Option<&'a Sums>,
    limits: Option<Vec<Rule<'a>>>,
    /// The rules that aren't varied.
    rules: Option<Vec<Rule<'a>>>,
    /// All of these rules combined, if there are several.
    together: Option<Rule<'a>>,
}

/// Returns a question in its current state.
pub(crate) fn document<'a>(context: &'a Context, standing: &Standing<'a>) -> Sweep<'a> {
    let (prepared, sums) = (standing.prepared, standing.sweep);
    let values = prepared.values();
    let limits = |sums: &'a Sums| {
        let limits = prepared.names().zip(values).zip(sums.limits());
        limits
            .map(|((rule, value), effect)| Rule {
                rule,
                value: Some(*value),
                effect,
            })
            .collect::<Vec<_>>()
    };
    let rules = |sums: &'a Sums| {
        let rules = prepared.names().skip(values.len()).zip(sums.rules());
        rules
            .map(|(rule, effect)| Rule {
                rule,
                value: None,
                effect,
            })
            .collect::<Vec<_>>()
    };
    let together = sums
        .filter(|_| prepared.asks_together())
        .and_then(|sums| sums.rules().last());
    Sweep {
        state: standing.status.state,
        number: standing.status.number,
        done: standing.done,
        total: standing.total,
        as_of: utc(standing.status.number),
        changed: standing.status.changed,
        query: context.query.to_string(),
        ignored: &context.query.ignored,
        sweep: prepared.sweep_rule().map(|sweep_rule| sweep_rule.name()),
        values,
        answer: sums.map(|_| {
            let answer = answer(standing).to_string();
            // The API's text has no final period.
            answer
                .strip_suffix('.')
                .map(str::to_owned)
                .unwrap_or(answer)
        }),
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
