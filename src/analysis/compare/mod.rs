//! Where did two runs part, and what differs between them?
//!
//! Runs part where what they *do* differs first: an action, its arguments, an answer, or a step that only one of them
//! has. Where they never do, they part at the first step that was *judged* or *answered* differently: a result, an
//! error, a critic or what it asked for, a score that is a number, the changes of the state. Reads no line: all of it is
//! in the index, so reasons of critics, patches in full and scores that are words are not compared.

mod align;
mod config;
mod metrics;
#[cfg(test)]
mod tests;
mod words;

pub use align::{Pair, align};
pub use config::{Config, MAX_DIFFERS, Setting, config};
pub use metrics::{Measure, Unit, measures, measures_of_two};

use schemars::JsonSchema;
use serde::Serialize;

use crate::model::{CriticMark, Index, StepHead};

/// How the two steps of a row relate. Later ones weigh less.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Relation {
    /// Only run A has this step.
    #[serde(rename = "only_in_a")]
    OnlyA,
    /// Only run B has it.
    #[serde(rename = "only_in_b")]
    OnlyB,
    /// They do something else.
    Action,
    /// They do the same with other arguments.
    Arguments,
    /// Both answer, in other words.
    Answer,
    /// They do the same, and other results come back.
    Result,
    /// Another error, or an error in one of them only.
    Error,
    /// Another critic speaks, or one asks for something else.
    Critic,
    /// A critic gives another score.
    Score,
    /// The state changes in another way: other keys, or other values before or after.
    State,
    /// Nothing that is recorded differs, but a writer cut a result, so that nobody knows whether the whole of it does.
    #[serde(rename = "result_cut")]
    Cut,
    /// A line of one of them, or of both, cannot be read, so that nobody knows what differs.
    Unreadable,
    /// Nothing that is compared differs.
    #[serde(rename = "none")]
    Same,
}

impl Relation {
    /// The relation as it stands beside a row.
    pub fn label(self) -> &'static str {
        match self {
            Relation::OnlyA => "only in A",
            Relation::OnlyB => "only in B",
            Relation::Action => "another action",
            Relation::Arguments => "arguments differ",
            Relation::Answer => "answer differs",
            Relation::Result => "result differs",
            Relation::Error => "error differs",
            Relation::Critic => "critic differs",
            Relation::Score => "score differs",
            Relation::State => "state differs",
            Relation::Cut => "result cut",
            Relation::Unreadable => "cannot be read",
            Relation::Same => "same",
        }
    }

    /// Whether it is known that something differs.
    pub fn differs(self) -> bool {
        self < Relation::Cut
    }

    /// Whether the runs do something else here.
    pub fn is_parting(self) -> bool {
        self <= Relation::Answer
    }
}

/// One row of a comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Row {
    /// The steps.
    #[serde(flatten)]
    pub pair: Pair,
    /// Whether nothing that is compared differs.
    pub same: bool,
    /// How they relate.
    #[serde(rename = "what")]
    pub relation: Relation,
}

/// Two runs, step by step.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Comparison {
    /// Every step of both runs, side by side.
    pub rows: Vec<Row>,
    /// The row at which the runs part; `None` where nothing that is compared is known to differ.
    pub first: Option<usize>,
    /// The first row before it at which something differs although both do the same.
    pub before: Option<usize>,
    /// How many rows both do the same from the beginning on.
    pub common: usize,
}

/// Compares two runs.
pub fn compare(a: &Index, b: &Index) -> Comparison {
    let row = |pair: Pair| {
        let relation = relation(a, b, pair);
        Row {
            pair,
            same: relation == Relation::Same,
            relation,
        }
    };
    let rows: Vec<Row> = align(a, b).into_iter().map(row).collect();
    let parts = rows.iter().position(|row| row.relation.is_parting());
    let differs = rows.iter().position(|row| row.relation.differs());
    let common = rows
        .iter()
        .position(|row| row.relation.is_parting() || row.relation == Relation::Unreadable);
    let common = common.unwrap_or(rows.len());
    Comparison {
        first: parts.or(differs),
        before: differs.filter(|at| parts.is_some_and(|parts| *at < parts)),
        common,
        rows,
    }
}

impl Comparison {
    /// Where the runs part, in one or two sentences.
    pub fn sentence(&self, a: &Index, b: &Index) -> String {
        words::sentence(self, a, b)
    }
}

fn relation(a: &Index, b: &Index, pair: Pair) -> Relation {
    let one = pair.a.and_then(|n| Some((n, a.steps().get(n)?)));
    let other = pair.b.and_then(|n| Some((n, b.steps().get(n)?)));
    match (one, other) {
        (None, _) => Relation::OnlyB,
        (_, None) => Relation::OnlyA,
        (Some((_, one)), Some((_, other)))
            if !one.fate.is_readable() || !other.fate.is_readable() =>
        {
            Relation::Unreadable
        }
        (Some(one), Some(other)) if pair.asks_same => after(a, b, one, other),
        (Some((_, one)), Some((_, other))) => asked(a, b, one, other),
    }
}

/// What differs between two steps that do not do the same.
fn asked(a: &Index, b: &Index, one: &StepHead, other: &StepHead) -> Relation {
    let tools = |index: &Index, step: &StepHead| -> Vec<String> {
        step.tools()
            .map(|tool| index.name(tool).to_owned())
            .collect()
    };
    let modes = (a.name(one.mode), b.name(other.mode));
    match (one.actions > 0, other.actions > 0) {
        (true, true) if tools(a, one) == tools(b, other) => Relation::Arguments,
        (false, false) if modes == ("final", "final") => Relation::Answer,
        _ => Relation::Action,
    }
}

/// What differs between two steps that do the same.
fn after(
    a: &Index,
    b: &Index,
    (n, one): (usize, &StepHead),
    (m, other): (usize, &StepHead),
) -> Relation {
    let failed = |index: &Index, n: usize, step: &StepHead| {
        let event = index.error_of(n);
        (
            step.error.clone(),
            step.returncode,
            event.map(|(_, text)| text.clone()),
        )
    };
    if failed(a, n, one) != failed(b, m, other) {
        return Relation::Error;
    }
    let is_cut = one.is_cut || other.is_cut;
    if one.result_hash != other.result_hash && !is_cut {
        return Relation::Result;
    }
    // Who spoke is compared where both say so; some writers record no names.
    let like = |(one, other): (&CriticMark, &CriticMark)| {
        let unknown = !one.is_named || !other.is_named;
        (one.action, one.patches) == (other.action, other.patches)
            && (unknown || a.name(one.name) == b.name(other.name))
    };
    if one.critics.len() != other.critics.len() || !one.critics.iter().zip(&other.critics).all(like)
    {
        return Relation::Critic;
    }
    let scores = |step: &StepHead| -> Vec<Option<f64>> {
        step.critics.iter().map(|mark| mark.score).collect()
    };
    if scores(one) != scores(other) {
        return Relation::Score;
    }
    match one.state_hash == other.state_hash {
        false => Relation::State,
        true if is_cut => Relation::Cut,
        true => Relation::Same,
    }
}
