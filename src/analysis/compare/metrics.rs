//! Collects the numbers that are compared between two runs. Every run has the same ones. Numbers
//! that aren't recorded stay unknown.

use crate::analysis::format;
use crate::analysis::newest::newest_run;
use crate::analysis::stated::{steps_agree, total};
use crate::analysis::summary::{Cost, Summary};
use crate::model::{CriticAction, Index, StepHead};

/// The unit of a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unit {
    /// A count.
    Count,
    /// Milliseconds.
    Millis,
    /// A critic's score.
    Score,
    /// US dollars.
    Usd,
}

/// One number of a run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Measure {
    /// The name in JSON.
    pub id: &'static str,
    /// The name on pages.
    pub name: &'static str,
    /// The unit.
    pub unit: Unit,
    /// The number; `None` if it isn't recorded, or if a line that may affect it is unreadable.
    pub value: Option<f64>,
    /// The lower bound, if the number is unknown.
    pub lower_bound: Option<f64>,
    /// Whether a line that may affect the number is unreadable.
    pub unread: bool,
    /// Whether the number is a lower bound.
    pub is_lower_bound: bool,
    /// Whether part of the number is an estimate.
    pub is_estimate: bool,
}

impl Measure {
    /// Formats the number, with a prefix for a lower bound or an estimate.
    pub(crate) fn words(&self) -> String {
        match self.value {
            _ if self.unread => "unknown".to_owned(),
            None if self.lower_bound.is_some() => format!("≥{}", self.unit.words(self.lower_bound)),
            None => self.unit.words(None),
            value => format!(
                "{}{}",
                format::bound(self.is_lower_bound, self.is_estimate),
                self.unit.words(value)
            ),
        }
    }
}

/// Returns the numbers of a run, always the same ones in the same order.
pub(crate) fn measures(summary: &Summary, index: &Index) -> Vec<Measure> {
    let has_lines = index.steps_file().exists && steps_agree(index);
    let steps = Some(newest_run(index)).filter(|_| has_lines && summary.steps_known().is_some());
    let events = index.events_file().exists;
    let sum = |of: fn(&StepHead) -> usize| {
        steps
            .clone()
            .map(|steps| steps.map(|(_, step)| of(step)).sum::<usize>() as f64)
    };
    let calls = summary.tool_calls.map(|calls| calls as f64);
    let scores = || newest_run(index).filter_map(|(_, step)| step.lowest_score());
    let mean = || {
        let (sum, number) = scores().fold((0.0, 0_u32), |(sum, number), score| {
            (sum + score, number + 1)
        });
        (number > 0).then(|| sum / f64::from(number))
    };
    let unread_steps = newest_run(index).any(|(_, step)| !step.fate.is_readable());
    let unread_events = index
        .newest_segments()
        .iter()
        .any(|segment| segment.unreadable > 0);
    // A recorded total of tokens includes those of unreadable lines.
    let counted = total(index, "tokens").agreed().is_some()
        && index
            .manifest()
            .get()
            .is_some_and(|manifest| manifest.tokens.is_some());
    let measure = |id, name, unit, value: Option<f64>| {
        let unread = match id {
            "duration_ms" | "issues" => false,
            "events" => unread_events,
            "errors" => unread_steps || unread_events,
            "tokens" => unread_steps && !counted,
            _ => unread_steps,
        };
        let lower_bound = summary.duration_at_least_ms.filter(|_| id == "duration_ms");
        let (is_lower_bound, is_estimate) = match id {
            "tokens" => (summary.tokens_unknown > 0, summary.tokens_estimated),
            _ => (false, false),
        };
        Measure {
            id,
            name,
            unit,
            value: value.filter(|_| !unread),
            lower_bound,
            unread,
            is_lower_bound,
            is_estimate,
        }
    };
    vec![
        measure(
            "steps",
            "Steps",
            Unit::Count,
            steps.as_ref().map(|_| summary.steps as f64),
        ),
        measure("duration_ms", "Duration", Unit::Millis, summary.duration_ms),
        cost(summary),
        measure(
            "events",
            "Events",
            Unit::Count,
            Some(summary.events as f64).filter(|_| events),
        ),
        measure(
            "tool_calls",
            "Tool calls",
            Unit::Count,
            calls.filter(|_| has_lines),
        ),
        measure(
            "critic_retries",
            "Critic retries",
            Unit::Count,
            // Other tools' traces without critic output don't record whether a critic asked for a
            // retry.
            sum(|step| usize::from(step.requested(CriticAction::Retry)))
                .filter(|_| !index.format().is_one_file() || !summary.critics.is_empty()),
        ),
        measure(
            "errors",
            "Failed steps",
            Unit::Count,
            steps
                .as_ref()
                .and_then(|_| Some(summary.errors_known()? as f64)),
        ),
        measure(
            "tokens",
            "Tokens",
            Unit::Count,
            summary.tokens.map(|tokens| tokens as f64),
        ),
        measure(
            "lowest_score",
            "Lowest score in any step",
            Unit::Score,
            scores().min_by(f64::total_cmp),
        ),
        measure(
            "mean_score",
            "Mean of the steps' lowest scores",
            Unit::Score,
            mean(),
        ),
        measure("last_score", "Last score", Unit::Score, summary.last_score),
        measure(
            "issues",
            "Issues in the trace",
            Unit::Count,
            Some(summary.issues.0 as f64),
        ),
    ]
}

/// Returns the cost of a run: recorded, or else estimated.
fn cost(summary: &Summary) -> Measure {
    let cost = summary.cost();
    Measure {
        id: "cost_usd",
        name: "Cost",
        unit: Unit::Usd,
        value: cost.map(Cost::usd),
        lower_bound: None,
        unread: false,
        is_lower_bound: false,
        is_estimate: matches!(cost, Some(Cost::Estimated(_))),
    }
}

/// Returns the numbers of two runs, pairwise.
pub(crate) fn measures_of_two(
    (a, of_a): (&Summary, &Index),
    (b, of_b): (&Summary, &Index),
) -> impl Iterator<Item = (Measure, Measure)> + use<> {
    measures(a, of_a).into_iter().zip(measures(b, of_b))
}

/// The relative error between sums of the same numbers in different orders.
const ROUNDING: f64 = 1e-12;

/// Formats a difference that rounds to zero at two decimals, with its first digit: `0.002`, `3e-7`.
fn small(apart: f64) -> String {
    let digits = (-apart.log10()).ceil().max(0.0) as usize;
    if digits <= 6 {
        format!("{apart:.digits$}")
    } else {
        format!("{apart:.0e}")
    }
}

impl Unit {
    /// Formats a number. Returns `not recorded` for `None`.
    pub(crate) fn words(self, value: Option<f64>) -> String {
        let Some(value) = value else {
            return "not recorded".to_owned();
        };
        match self {
            Unit::Count => format::count(value as u64),
            Unit::Millis => format::millis(value),
            Unit::Score => format::score(value),
            Unit::Usd => format::usd(value),
        }
    }

    /// Formats `b` − `a`: `+2`, `same`, `+90 ms · 2.1×`.
    pub(crate) fn delta(self, a: Option<f64>, b: Option<f64>) -> String {
        let Some((a, b)) = a.zip(b) else {
            return format::MISSING.to_owned();
        };
        let apart = (b - a).abs();
        // Rounding errors in the sums may make two means of the same scores differ in their last
        // digits.
        if a == b || (self == Unit::Score && apart <= ROUNDING * a.abs().max(b.abs())) {
            return "same".to_owned();
        }
        let size = match self.words(Some(apart)) {
            none if self == Unit::Score && none == format::score(0.0) => small(apart),
            size => size,
        };
        let sign = if b < a { format::MINUS } else { '+' };
        let times = (self == Unit::Millis && a > 0.0)
            .then(|| b / a)
            .filter(|times| *times >= 1.95);
        times.map_or_else(
            || format!("{sign}{size}"),
            |times| format!("{sign}{size} · {times:.1}×"),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scores_that_differ_are_not_called_the_same() {
        let delta = |a, b| Unit::Score.delta(Some(a), Some(b));
        assert_eq!(
            [
                delta(0.501, 0.503),
                delta(0.5, 0.4999999),
                delta(0.5, 0.496)
            ],
            ["+0.002", "−1e-7", "−0.004"]
        );
        assert_eq!(
            [delta(0.5, 0.75), delta(0.0, 0.0), delta(0.1 + 0.2, 0.3)],
            ["+0.25", "same", "same"]
        );
        assert_eq!(Unit::Score.delta(None, Some(0.5)), format::MISSING);
    }
}
