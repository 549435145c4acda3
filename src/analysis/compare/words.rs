//! Says in a sentence where two runs diverge.

use super::{Comparison, Relation};
use crate::analysis::facts::lost;
use crate::analysis::newest::is_untold;
use crate::analysis::number::counted;
use crate::model::{CriticAction, Index, StepHead};

/// Returns the sentence for a comparison.
pub(super) fn sentence(comparison: &Comparison, a: &Index, b: &Index) -> String {
    let mut unreadable = comparison
        .rows
        .iter()
        .filter(|row| row.relation == Relation::Unreadable);
    let unread = unreadable.clone().count();
    let unreadable = unreadable.next();
    let Some(row) = comparison.first.and_then(|at| comparison.rows.get(at)) else {
        return match comparison.rows.len() {
            0 if lost(a).or(lost(b)).is_some() => {
                "Neither run has a line of a step, though steps ran.".to_owned()
            }
            0 if is_untold(a) || is_untold(b) => "Neither run has a line of a step.".to_owned(),
            0 => "Neither run has a step.".to_owned(),
            n if unread > 0 => format!(
                "Nothing is known to differ in {}. {} a line cannot be read{}.",
                all(n),
                unreadable.map_or_else(String::new, |row| place(a, b, row.pair.a, row.pair.b)),
                if unread > 1 {
                    format!(", nor in {} more", counted(unread - 1, "row"))
                } else {
                    String::new()
                }
            ),
            n => match comparison
                .rows
                .iter()
                .find(|row| row.relation == Relation::Cut)
            {
                None => format!(
                    "The same actions, results, critics, scores and state changes in {}.",
                    all(n)
                ),
                Some(cut) => format!(
                    "The same actions, critics, scores and state changes in {}, and no other results as far as they are \
                     recorded. {} one was cut by its writer.",
                    all(n),
                    place(a, b, cut.pair.a, cut.pair.b)
                ),
            },
        };
    };
    if !row.relation.is_parting() {
        let n = comparison.rows.len();
        let steps = match unread {
            0 => all(n),
            unread => format!(
                "{} of {}, of which {unread} cannot be read",
                n - unread,
                counted(n, "step")
            ),
        };
        return format!(
            "Same actions in {steps}. {} {}.",
            place(a, b, row.pair.a, row.pair.b),
            judged(row.relation)
        );
    }
    let common = match comparison.common {
        0 => "No step in common at the start.".to_owned(),
        n => format!("Same actions for {}.", counted(n, "step")),
    };
    let one = row.pair.a.and_then(|n| a.steps().get(n));
    let other = row.pair.b.and_then(|n| b.steps().get(n));
    let place = place(a, b, row.pair.a, row.pair.b);
    let parting = match (row.relation, one, other) {
        (Relation::Answer, Some(one), Some(other)) => match (fate(one), fate(other)) {
            (left, right) if left == right => format!("{place} both answer, in other words"),
            (left, right) => format!("{place} both answer: A is {left}, B is {right}"),
        },
        (Relation::Arguments, Some(one), _) => {
            format!("{place} both {}, with other arguments", call(a, one))
        }
        (_, Some(one), Some(other)) => format!("{place} A {}, B {}", does(a, one), does(b, other)),
        (_, Some(one), None) => format!(
            "{place} A {}; {}",
            does(a, one),
            absent(comparison, ("B", b), |pair| pair.b)
        ),
        (_, None, Some(other)) => {
            format!(
                "{place} B {}; {}",
                does(b, other),
                absent(comparison, ("A", a), |pair| pair.a)
            )
        }
        (_, None, None) => place,
    };
    let before = comparison
        .before
        .and_then(|at| comparison.rows.get(at))
        .map_or_else(String::new, |row| {
            format!(
                " Before that, {} {} for the first time.",
                lower(&self::place(a, b, row.pair.a, row.pair.b)),
                judged(row.relation)
            )
        });
    format!("{common} {parting}.{before}")
}

fn all(n: usize) -> String {
    if n == 1 {
        "the one step".to_owned()
    } else {
        format!("all {}", counted(n, "step"))
    }
}

/// Returns `At step 5`, or `At step 5 of A and step 7 of B`.
fn place(a: &Index, b: &Index, one: Option<usize>, other: Option<usize>) -> String {
    let labels = (one.map(|n| a.label(n)), other.map(|n| b.label(n)));
    match labels {
        (Some(one), Some(other)) if one == other => format!("At step {one}"),
        (Some(one), Some(other)) => format!("At step {one} of A and step {other} of B"),
        (Some(label), None) | (None, Some(label)) => format!("At step {label}"),
        (None, None) => "At no step".to_owned(),
    }
}

fn lower(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |first| {
        first.to_lowercase().chain(chars).collect()
    })
}

/// Describes the difference at a step where both runs do the same.
fn judged(relation: Relation) -> &'static str {
    match relation {
        Relation::Result => "other results came back",
        Relation::Error => "other errors came up",
        Relation::Critic => "other critics spoke, or they asked for something else",
        Relation::Score => "the critics' scores differ",
        _ => "the state changed in another way",
    }
}

/// Describes how an answer was judged.
fn fate(step: &StepHead) -> &'static str {
    if step.asked(CriticAction::Retry) {
        "sent back by its critic"
    } else if step.asked(CriticAction::Stop) {
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
        return "has a line that cannot be read".to_owned();
    }
    if step.actions > 0 {
        return call(index, step).replacen("call", "calls", 1);
    }
    match index.name(step.mode) {
        "final" => "answers".to_owned(),
        "wait" => "waits".to_owned(),
        "handoff" => "hands over to another agent".to_owned(),
        "" => "decides nothing".to_owned(),
        mode => format!("decides on {mode}"),
    }
}

/// Returns `call read_file`, or `call read_file and 2 more tools`.
fn call(index: &Index, step: &StepHead) -> String {
    let tool = step
        .tools()
        .next()
        .map_or("a tool without a name", |tool| index.name(tool));
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
    let goes_on = comparison
        .rows
        .iter()
        .skip(at)
        .any(|row| step(&row.pair).is_some());
    match lost(index) {
        _ if goes_on => format!("{name} does not"),
        Some(lost) if lost.is_skipped => {
            format!(
                "{name} has no more lines, and {} of it are skipped",
                counted(lost.count, "step")
            )
        }
        Some(lost) => format!(
            "{name} has no more lines, though {} of it ran without one",
            counted(lost.count, "step")
        ),
        None if is_untold(index) => format!("{name} has no more lines of steps"),
        None => format!("{name} has no more steps"),
    }
}
