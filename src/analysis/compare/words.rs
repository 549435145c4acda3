//! Says in a sentence where two runs diverge.

use std::collections::BTreeSet;

use super::{Comparison, ComparisonOfSeveral, Config, Relation, RowOfSeveral, Side};
use crate::analysis::format::count;
use crate::analysis::lost::lost;
use crate::analysis::newest::are_steps_unknown;
use crate::analysis::number::counted;
use crate::analysis::stated::listed;
use crate::model::{CriticAction, Index, StepHead};

impl Comparison {
    /// Says where the runs diverge. If their steps are the same, also what else differs.
    pub(crate) fn whole_sentence(&self, a: &Side<'_>, b: &Side<'_>, settings: &Config) -> String {
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
    pub(crate) fn sentence(&self, a: &Index, b: &Index) -> String {
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

impl ComparisonOfSeveral {
    /// Says in one or two sentences where the runs diverge.
    pub(crate) fn sentence(&self, runs: &[&Index]) -> String {
        if let Some(steps) = self.not_aligned {
            return format!(
                "The runs have {steps} steps, too many to align.",
                steps = count(steps as u64)
            );
        }
        let whole = match self.rows.len() {
            0 => "No run has step records.".to_owned(),
            n => format!("Same actions in {} of all runs.", all(n)),
        };
        let Some(row) = self.first.and_then(|at| self.rows.get(at)) else {
            let unread = |row: &RowOfSeveral| row.relation == Relation::Unreadable;
            return match self.rows.iter().filter(|row| unread(row)).count() {
                0 => whole,
                unread => format!(
                    "No known differences in {}. A line is unreadable in {}.",
                    counted(self.rows.len(), "step"),
                    counted(unread, "row")
                ),
            };
        };
        let place = self.place(row, runs);
        if !row.is_divergence() {
            return format!("{whole} {} first differ at {place}.", judged(row.relation));
        }
        let common = match self.common {
            0 => String::new(),
            1 => " Same actions in the first step.".to_owned(),
            n => format!(" Same actions in the first {}.", counted(n, "step")),
        };
        format!(
            "The runs diverge at {place}: {}.{common}",
            self.parting(row, runs)
        )
    }

    /// Returns `step 5`, or `step 5 of A and step 7 of B and C`.
    pub(crate) fn place(&self, row: &RowOfSeveral, runs: &[&Index]) -> String {
        let labels = runs.iter().zip(&row.steps);
        let labels = labels.map(|(index, n)| n.map(|n| index.label(n)));
        let groups = grouped(labels.enumerate().filter_map(|(at, n)| Some((at, n?))));
        match groups.as_slice() {
            [] => "no step".to_owned(),
            [(step, _)] => format!("step {step}"),
            groups => listed(
                groups
                    .iter()
                    .map(|(step, of)| format!("step {step} of {}", letters(of)))
                    .collect(),
            ),
        }
    }

    /// Says what each run does at a row, runs that do the same together.
    fn parting(&self, row: &RowOfSeveral, runs: &[&Index]) -> String {
        let at = self.first.unwrap_or_default();
        let doing = |(run, (index, n)): (usize, (&&Index, &Option<usize>))| {
            let step = n.and_then(|n| index.steps().get(n));
            let continues = || {
                let mut later = self.rows.iter().skip(at).map(|row| row.steps.get(run));
                later.any(|step| step.copied().flatten().is_some())
            };
            let words = match step {
                Some(step) => does(index, step),
                None if continues() => "has no matching step".to_owned(),
                None if are_steps_unknown(index) => "has no more recorded steps".to_owned(),
                None => "has no more steps".to_owned(),
            };
            (run, (words, step.map(|step| step.asked_hash)))
        };
        let groups = grouped(runs.iter().zip(&row.steps).enumerate().map(doing));
        let mut parts: Vec<String> = Vec::new();
        for (at, ((words, asked), of)) in groups.iter().enumerate() {
            let mut before = groups.iter().take(at).map(|((before, _), _)| before);
            let again = if asked.is_some() && before.any(|before| before == words) {
                match words.as_str() {
                    "answers" => " with a different text",
                    _ => " with different arguments",
                }
            } else {
                ""
            };
            let words = if of.len() > 1 {
                plural(words)
            } else {
                words.clone()
            };
            parts.push(format!("{} {words}{again}", letters(of)));
        }
        parts.join(", ")
    }
}

/// Groups runs by a value, in the order in which the values first occur.
fn grouped<T: PartialEq>(values: impl Iterator<Item = (usize, T)>) -> Vec<(T, Vec<usize>)> {
    let mut groups: Vec<(T, Vec<usize>)> = Vec::new();
    for (at, value) in values {
        match groups.iter_mut().find(|(known, _)| *known == value) {
            Some((_, of)) => of.push(at),
            None => groups.push((value, vec![at])),
        }
    }
    groups
}

/// Returns the letters of runs: `A, B and D`.
pub(super) fn letters(runs: &[usize]) -> String {
    listed(runs.iter().map(|at| letter(*at)).collect())
}

/// Returns the letter of the run at `place`, or its number after `Z`.
pub(crate) fn letter(place: usize) -> String {
    let letter = u32::try_from(place)
        .ok()
        .and_then(|place| char::from_u32(u32::from(b'A') + place));
    letter
        .filter(char::is_ascii_uppercase)
        .map_or_else(|| (place + 1).to_string(), String::from)
}

/// Turns what one run does into what several do: `calls x` into `call x`.
fn plural(does: &str) -> String {
    let (verb, rest) = does.split_once(' ').unwrap_or((does, ""));
    let verb = match verb {
        "has" => "have",
        verb => verb.strip_suffix('s').unwrap_or(verb),
    };
    format!("{verb} {rest}").trim_end().to_owned()
}

impl RowOfSeveral {
    /// Returns the label shown next to the row.
    pub(crate) fn label(&self) -> String {
        let mut having = Vec::new();
        let mut lacking = Vec::new();
        for (at, step) in self.steps.iter().enumerate() {
            if step.is_some() {
                having.push(at);
            } else {
                lacking.push(at);
            }
        }
        match (having.as_slice(), lacking.as_slice()) {
            (_, []) => self.relation.label().to_owned(),
            ([_], _) => format!("only in {}", letters(&having)),
            _ if self.relation == Relation::Same => format!("not in {}", letters(&lacking)),
            _ => format!("not in {}, {}", letters(&lacking), self.relation.label()),
        }
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

/// Returns `call read_file`, `call read_file twice`, or `call read_file and 2 more tools`. If not all
/// calls are known, `call read_file and make 20 more calls`.
fn call(index: &Index, step: &StepHead) -> String {
    let tools: Vec<_> = step.tools().collect();
    let calls = step.actions as usize;
    let first = tools.first().copied();
    let tool = first.map_or("an unnamed tool", |tool| index.name(tool));
    let others: BTreeSet<_> = tools.iter().filter(|tool| Some(**tool) != first).collect();
    match (calls, others.len()) {
        (0 | 1, _) => format!("call {tool}"),
        _ if tools.len() < calls => {
            format!("call {tool} and make {}", counted(calls - 1, "more call"))
        }
        (2, 0) => format!("call {tool} twice"),
        (_, 0) => format!("call {tool} {calls} times"),
        (_, more) => format!("call {tool} and {}", counted(more, "more tool")),
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
