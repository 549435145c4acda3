//! Says in a sentence where two runs diverge.

use super::{Comparison, Config, Relation, Side};
use crate::analysis::lost::lost;
use crate::analysis::newest::are_steps_unknown;
use crate::analysis::number::counted;
use crate::analysis::stated::listed;
use crate::model::{CriticAction, Index, StepHead};

impl Comparison {
    /// Says where the runs diverge. If their steps are the same, also what else differs.
    pub fn whole_sentence(&self, a: &Side<'_>, b: &Side<'_>, settings: &Config) -> String {
        let steps = self.sentence(a.index, b.index);
        let (one, other) = (a.summary, b.summary);
        let mut differ = Vec::new();
        if self.first.is_none() {
            if one.verdict.sentence != other.verdict.sentence {
                differ.push("the verdict".to_owned());
            }
            if one.last_score != other.last_score {
                differ.push("the last score".to_owned());
            }
            if settings.count() > 0 {
                differ.push(counted(settings.count(), "setting"));
            }
        }
        if differ.is_empty() {
            steps
        } else {
            format!("{steps} The runs differ in {}.", listed(differ))
        }
    }

    /// Says in one or two sentences where the runs diverge.
    pub fn sentence(&self, a: &Index, b: &Index) -> String {
        let mut unreadable = self
            .rows
            .iter()
            .filter(|row| row.relation == Relation::Unreadable);
        let unread = unreadable.clone().count();
        let unreadable = unreadable.next();
        let Some(row) = self.first.and_then(|at| self.rows.get(at)) else {
            return match self.rows.len() {
                0 if lost(a).or(lost(b)).is_some() => {
                    "Neither run has step records, although steps ran.".to_owned()
                }
                0 if are_steps_unknown(a) || are_steps_unknown(b) => {
                    "Neither run has step records.".to_owned()
                }
                0 => "Neither run has any steps.".to_owned(),
                n if unread > 0 => format!(
                    "No known differences in {}. At {}, a line is unreadable{}.",
                    counted(n, "step"),
                    unreadable.map_or_else(String::new, |row| place(a, b, row.pair.a, row.pair.b)),
                    if unread > 1 {
                        format!(" (and in {})", counted(unread - 1, "more row"))
                    } else {
                        String::new()
                    }
                ),
                n => match self.rows.iter().find(|row| row.relation == Relation::Cut) {
                    None => format!(
                        "{} the same in both runs: actions, results, critics with their scores, and state changes.",
                        match n {
                            1 => "The only step is".to_owned(),
                            2 => "The 2 steps are".to_owned(),
                            n => format!("All {} are", counted(n, "step")),
                        }
                    ),
                    Some(cut) => format!(
                        "No known differences: actions, critics, scores and state changes are the same in {}. \
                         Results match as far as recorded. At {}, one was truncated by its writer.",
                        all(n),
                        place(a, b, cut.pair.a, cut.pair.b)
                    ),
                },
            };
        };
        if !row.relation.is_divergence() {
            let n = self.rows.len();
            let steps = match unread {
                0 => all(n),
                unread => format!(
                    "{} of {} ({unread} unreadable)",
                    n - unread,
                    counted(n, "step")
                ),
            };
            return format!(
                "Same actions in {steps}. {} first differ at {}.",
                judged(row.relation),
                place(a, b, row.pair.a, row.pair.b)
            );
        }
        let common = match self.common {
            0 => String::new(),
            1 => " Same actions in the first step.".to_owned(),
            n => format!(" Same actions in the first {}.", counted(n, "step")),
        };
        let one = row.pair.a.and_then(|n| a.steps().get(n));
        let other = row.pair.b.and_then(|n| b.steps().get(n));
        let place = place(a, b, row.pair.a, row.pair.b);
        let parting = match (row.relation, one, other) {
            (Relation::Answer, Some(one), Some(other)) => match (fate(one), fate(other)) {
                (left, right) if left == right => "both answer, with different texts".to_owned(),
                (left, right) => format!("both answer, but A is {left} and B is {right}"),
            },
            (Relation::Arguments, Some(one), _) => {
                format!("both {}, with different arguments", call(a, one))
            }
            (_, Some(one), Some(other)) => format!("A {}, B {}", does(a, one), does(b, other)),
            (_, Some(one), None) => format!(
                "A {}, but {}",
                does(a, one),
                absent(self, ("B", b), |pair| pair.b)
            ),
            (_, None, Some(other)) => {
                format!(
                    "B {}, but {}",
                    does(b, other),
                    absent(self, ("A", a), |pair| pair.a)
                )
            }
            (_, None, None) => "neither run has the step".to_owned(),
        };
        let before = self
            .before
            .and_then(|at| self.rows.get(at))
            .map_or_else(String::new, |row| {
                format!(
                    " {} already differ at {}.",
                    judged(row.relation),
                    self::place(a, b, row.pair.a, row.pair.b)
                )
            });
        format!("The runs diverge at {place}: {parting}.{common}{before}")
    }
}

fn all(n: usize) -> String {
    match n {
        1 => "the only step".to_owned(),
        2 => "the 2 steps".to_owned(),
        n => format!("all {}", counted(n, "step")),
    }
}

/// Returns `step 5`, or `step 5 of A and step 7 of B`.
fn place(a: &Index, b: &Index, one: Option<usize>, other: Option<usize>) -> String {
    let labels = (one.map(|n| a.label(n)), other.map(|n| b.label(n)));
    match labels {
        (Some(one), Some(other)) if one == other => format!("step {one}"),
        (Some(one), Some(other)) => format!("step {one} of A and step {other} of B"),
        (Some(label), None) | (None, Some(label)) => format!("step {label}"),
        (None, None) => "no step".to_owned(),
    }
}

/// Returns what differs at a step where both runs do the same, as a plural subject.
fn judged(relation: Relation) -> &'static str {
    match relation {
        Relation::Result => "Results",
        Relation::Error => "Errors",
        Relation::Critic => "Critics or their actions",
        Relation::Score => "Critic scores",
        _ => "State changes",
    }
}

/// Describes how an answer was judged.
fn fate(step: &StepHead) -> &'static str {
    if step.requested(CriticAction::Retry) {
        "sent back by its critic"
    } else if step.requested(CriticAction::Stop) {
        "stopped by its critic"
    } else if step
        .critics
        .iter()
        .any(|mark| mark.action == CriticAction::Continue)
    {
        "accepted"
    } else {
        // There were no critics, or they failed, or their actions are unknown.
        "not judged"
    }
}

/// Describes what a step does, as in `A calls read_file`.
fn does(index: &Index, step: &StepHead) -> String {
    if !step.fate.is_readable() {
        return "has an unreadable line".to_owned();
    }
    if step.actions > 0 {
        return call(index, step).replacen("call", "calls", 1);
    }
    match index.name(step.mode) {
        "final" => "answers".to_owned(),
        "wait" => "waits".to_owned(),
        "handoff" => "hands off to another agent".to_owned(),
        "" => "makes no decision".to_owned(),
        mode => format!("decides on {mode}"),
    }
}

/// Returns `call read_file`, or `call read_file and 2 more tools`.
fn call(index: &Index, step: &StepHead) -> String {
    let tool = step
        .tools()
        .next()
        .map_or("an unnamed tool", |tool| index.name(tool));
    match step.actions.saturating_sub(1) {
        0 => format!("call {tool}"),
        more => format!("call {tool} and {}", counted(more as usize, "more tool")),
    }
}

/// Describes the run that lacks the step.
fn absent(
    comparison: &Comparison,
    (name, index): (&str, &Index),
    step: impl Fn(&super::Pair) -> Option<usize>,
) -> String {
    let at = comparison.first.unwrap_or_default();
    let continues = comparison
        .rows
        .iter()
        .skip(at)
        .any(|row| step(&row.pair).is_some());
    match lost(index) {
        _ if continues => format!("{name} has no matching step"),
        Some(lost) if lost.is_skipped => {
            format!(
                "{name}'s lines end here, although it has {} (skipped)",
                counted(lost.count, "more step")
            )
        }
        Some(lost) => format!(
            "{name}'s lines end here, although {} ran",
            counted(lost.count, "more step")
        ),
        None if are_steps_unknown(index) => format!("{name} has no more recorded steps"),
        None if index.steps().is_empty() => format!("{name} has no steps"),
        None => format!("{name} has no more steps"),
    }
}
