//! Compares two runs step by step and finds where they diverge.
//!
//! Runs diverge at the first step where they *do* something different: an action, its arguments, an
//! answer, or a step that only one run has. If they never do, they diverge at the first step with a
//! different *outcome*: a result, an error, a critic or its action, a numeric score, or the state
//! changes. Reads no lines, only the index. So the reasons of critics, full patches and non-numeric
//! scores are not compared.

mod align;
mod config;
mod document;
mod metrics;
mod several;
#[cfg(test)]
mod tests;
mod words;

pub(crate) use align::{Pair, align};
pub(crate) use config::{
    Config, MAX_DIFFERS, Setting, SettingOfSeveral, config, config_of_several,
};
pub(crate) use document::{
    ComparedRuns, Side, compared, compared_runs, settings, settings_of_several,
};
#[cfg(test)]
use metrics::Unit;
pub(crate) use metrics::{Measure, measures, measures_of_two};
pub(crate) use several::{ComparisonOfSeveral, MAX_ALIGNED, RowOfSeveral, compare_several};
pub(crate) use words::letter;

use schemars::JsonSchema;
use serde::Serialize;

use crate::model::{CriticMark, Index, StepHead};

/// The relation of the two steps of a row. Earlier variants are the larger differences.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Relation {
    /// Only run A has this step.
    #[serde(rename = "only_in_a")]
    OnlyA,
    /// Only run B has this step.
    #[serde(rename = "only_in_b")]
    OnlyB,
    /// The steps do something different.
    Action,
    /// The steps make the same calls with different arguments.
    Arguments,
    /// Both steps answer, with different texts.
    Answer,
    /// The steps do the same and get different results.
    Result,
    /// The errors differ, or only one step has an error.
    Error,
    /// The critics differ, or their actions do.
    Critic,
    /// A critic's score differs.
    Score,
    /// The state changes differ: in the keys, or in the values before or after.
    State,
    /// No recorded difference, but the writer truncated a result, so the full results may differ.
    #[serde(rename = "result_cut")]
    Cut,
    /// A line of at least one of the steps is unreadable, so differences are unknown.
    Unreadable,
    /// No difference in anything that is compared.
    #[serde(rename = "none")]
    Same,
}

impl Relation {
    /// Returns the label shown next to a row.
    pub(crate) fn label(self) -> &'static str {
        match self {
            Relation::OnlyA => "only in A",
            Relation::OnlyB => "only in B",
            Relation::Action => "action differs",
            Relation::Arguments => "arguments differ",
            Relation::Answer => "answer differs",
            Relation::Result => "result differs",
            Relation::Error => "error differs",
            Relation::Critic => "critic differs",
            Relation::Score => "score differs",
            Relation::State => "state differs",
            Relation::Cut => "result truncated",
            Relation::Unreadable => "unreadable",
            Relation::Same => "same",
        }
    }

    /// Returns whether the steps are known to differ.
    pub(crate) fn differs(self) -> bool {
        self < Relation::Cut
    }

    /// Returns whether the runs do something different here.
    pub(crate) fn is_divergence(self) -> bool {
        self <= Relation::Answer
    }
}

/// One row of a comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
pub(crate) struct Row {
    /// The steps.
    #[serde(flatten)]
    pub pair: Pair,
    /// Whether everything that is compared is the same.
    pub same: bool,
    /// The relation of the steps.
    #[serde(rename = "what")]
    pub relation: Relation,
}

/// The comparison of two runs, step by step.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Comparison {
    /// Every step of both runs, aligned.
    pub rows: Vec<Row>,
    /// The row at which the runs diverge; `None` if no difference is known.
    pub first: Option<usize>,
    /// The first earlier row with a difference although both steps do the same.
    pub before: Option<usize>,
    /// The number of rows at the start in which both runs do the same.
    pub common: usize,
}

/// Compares two runs.
pub(crate) fn compare(a: &Index, b: &Index) -> Comparison {
    let row = |pair: Pair| {
        let relation = relation(a, b, pair);
        Row {
            pair,
            same: relation == Relation::Same,
            relation,
        }
    };
    let rows: Vec<Row> = align(a, b).into_iter().map(row).collect();
    let parts = rows.iter().position(|row| row.relation.is_divergence());
    let differs = rows.iter().position(|row| row.relation.differs());
    let common = rows
        .iter()
        .position(|row| row.relation.is_divergence() || row.relation == Relation::Unreadable);
    let common = common.unwrap_or(rows.len());
    Comparison {
        first: parts.or(differs),
        before: differs.filter(|at| parts.is_some_and(|parts| *at < parts)),
        common,
        rows,
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

/// Returns the difference between two steps that do not do the same.
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

/// Returns the difference between two steps that do the same.
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
    // Some writers don't record the names of critics. So names are compared only if both steps have
    // them.
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
