//! What do programs read of a question over many runs? The sums of every rule, and how far the question is.

use serde::Serialize;

use crate::analysis::sweep::{Effect, MAX_LOST, Sum, Sweep as Sums, reasons};
use crate::page::json::{Ignored, time};
use crate::page::sweep::words::{answer, best};
use crate::page::sweep::{Context, Standing};

/// A question over many runs.
#[derive(Debug, Serialize)]
pub(crate) struct Sweep {
    state: &'static str,
    /// Names this answer: `again=NUMBER` asks anew, `cancel=NUMBER` ends it.
    number: i64,
    /// Runs asked.
    done: usize,
    /// Runs to ask.
    total: usize,
    /// When the runs were looked at.
    as_of: Option<String>,
    /// Runs that changed, came or went since.
    changed: usize,
    query: String,
    ignored: Vec<Ignored>,
    /// The rule whose number is varied.
    sweep: Option<&'static str>,
    values: Vec<f64>,
    answer: Option<String>,
    /// The limit that saves most without losing an answer.
    best: Option<String>,
    /// Everything below is null until the question is answered.
    runs: Option<Runs>,
    limits: Option<Vec<Rule>>,
    rules: Option<Vec<Rule>>,
    /// The rules that are not varied, where there are several.
    together: Option<Rule>,
}

#[derive(Debug, Serialize)]
struct Runs {
    asked: u64,
    answers: u64,
    going: u64,
    estimated: u64,
    inferred: u64,
    vanished: u64,
    unread: u64,
    unknown: Vec<Unknown>,
}

#[derive(Debug, Serialize)]
struct Unknown {
    needs: String,
    runs: u64,
}

#[derive(Debug, Serialize)]
struct Rule {
    rule: String,
    /// The limit, of a varied rule.
    value: Option<f64>,
    runs_cut: u64,
    same: u64,
    not_reached: u64,
    unknown: u64,
    answers_kept: u64,
    answers_lost: u64,
    answers_unknown: u64,
    /// At most 50 of them.
    lost: Vec<Lost>,
    steps: Option<Amount>,
    tokens: Option<Amount>,
    ms: Option<Amount>,
}

#[derive(Debug, Serialize)]
struct Lost {
    key: String,
    step: Option<u64>,
}

/// Null where no run is known.
#[derive(Debug, Serialize)]
struct Amount {
    /// The runs it is a sum of.
    runs: u64,
    answers: u64,
    answers_kept: u64,
    spent: u64,
    saved: u64,
}

impl Amount {
    fn of(sum: &Sum) -> Option<Self> {
        let Sum { runs, answers, kept, spent, saved, .. } = *sum;
        (runs > 0).then_some(Self { runs, answers, answers_kept: kept, spent, saved })
    }
}

fn rule(rule: String, value: Option<f64>, effect: &Effect) -> Rule {
    let lost = effect.lost.named.iter().take(MAX_LOST);
    Rule {
        rule,
        value,
        runs_cut: effect.cut,
        same: effect.same,
        not_reached: effect.not_reached,
        unknown: effect.unknown,
        answers_kept: effect.kept,
        answers_lost: effect.lost.count,
        answers_unknown: effect.unknown_answers,
        lost: lost.map(|(key, step)| Lost { key: key.to_string(), step: *step }).collect(),
        steps: Amount::of(&effect.steps),
        tokens: Amount::of(&effect.tokens),
        ms: Amount::of(&effect.ms),
    }
}

/// The document of a question over many runs.
pub(crate) fn sweep(context: &Context, standing: &Standing<'_>) -> Sweep {
    let inquiry = standing.inquiry;
    let sums = standing.sweep;
    let values = inquiry.values();
    let limits = |sums: &Sums| {
        let limits = inquiry.names().zip(values).zip(sums.limits());
        limits.map(|((name, value), effect)| rule(name, Some(*value), effect)).collect()
    };
    let rules = |sums: &Sums| {
        let rules = inquiry.names().skip(values.len()).zip(sums.rules());
        rules.map(|(name, effect)| rule(name, None, effect)).collect()
    };
    let together = sums.filter(|_| inquiry.asks_together()).and_then(|sums| sums.rules().last());
    Sweep {
        state: standing.state.word(),
        number: standing.number,
        done: standing.done,
        total: standing.total,
        as_of: time(standing.number),
        changed: standing.changed,
        query: context.query.to_string(),
        ignored: context.query.ignored.iter().map(Ignored::from).collect(),
        sweep: inquiry.dial().map(|dial| dial.name()),
        values: values.to_vec(),
        answer: sums.map(|_| answer(standing)),
        best: best(standing).map(|(name, _)| name),
        runs: sums.map(|sums| Runs {
            asked: sums.runs,
            answers: sums.answers,
            going: sums.going,
            estimated: sums.estimated,
            inferred: sums.inferred,
            vanished: sums.vanished,
            unread: sums.unread,
            unknown: reasons(sums).into_iter().map(|(needs, runs)| Unknown { needs: needs.to_owned(), runs }).collect(),
        }),
        limits: sums.map(limits),
        rules: sums.map(rules),
        together: together.map(|effect| rule("all of them".to_owned(), None, effect)),
    }
}
