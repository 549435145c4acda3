//! Lists the rules that could have ended a run and how close each came: one row for every rule in
//! the records.
//!
//! A rule that isn't recorded gets a row that states this, if a reader would expect it. Nothing is
//! guessed.

use crate::analysis::summary::Summary;
use crate::model::{Can, Index, Lines, Reading};

mod inferred;
mod recorded;
mod status;
mod tool;

use status::ENDED;
pub use status::{RuleStatus, Standing};

/// Returns the rules of a run, starting with the one that ended it.
pub(super) fn rules(summary: &Summary, index: &Index, lines: &dyn Lines) -> Vec<RuleStatus> {
    let recorded = index.format().can.limits == Can::Yes || index.stop().is_some();
    if index.format().is_one_file() {
        return tool::rules(summary, index);
    }
    let mut rules = if recorded {
        recorded::rules(summary, index, lines)
    } else {
        inferred::rules(summary, index)
    };
    sort(&mut rules);
    rules
}

/// Returns the reading of the rule that ended a run, or presumably did. Reads no lines.
pub(super) fn ended_by(summary: &Summary, index: &Index) -> Option<Reading> {
    if let Some(stop) = index.stop() {
        return Some(stop.reading.clone());
    }
    let is_one_file = index.format().is_one_file();
    let rules = if is_one_file {
        tool::rules(summary, index)
    } else {
        inferred::rules(summary, index)
    };
    rules
        .into_iter()
        .find(|rule| rule.result == Standing::Fired || rule.is_inferred)
        .map(|rule| rule.reading)
}

/// The note for a run that something else ended.
const NOT_BY_RULE: &str = "an event ended the run, not a rule";

/// Formats "1 fired, 5 not fired, 2 off" for the heading of the table. Counts only rules, and says
/// if something else ended the run, such as an error.
pub(crate) fn tally(rules: &[RuleStatus]) -> String {
    let is_end = |rule: &RuleStatus| rule.is_outcome && rule.stands == ENDED;
    let listed = || rules.iter().filter(|rule| !rule.is_outcome);
    match (rules.iter().any(is_end), listed().count()) {
        (true, 0) => NOT_BY_RULE.to_owned(),
        (true, _) => format!("{}; {NOT_BY_RULE}", tally_of(&listed())),
        (false, _) => tally_of(&listed()),
    }
}

fn tally_of<'a>(rules: &(impl Iterator<Item = &'a RuleStatus> + Clone)) -> String {
    match rules.clone().count() {
        0 => "none recorded".to_owned(),
        _ => counts(rules),
    }
}

/// Formats "1 fired, 6 not fired, 1 off, 2 unknown".
pub(crate) fn results(rules: &[RuleStatus]) -> String {
    counts(&rules.iter().filter(|rule| !rule.is_outcome))
}

fn counts<'a>(rules: &(impl Iterator<Item = &'a RuleStatus> + Clone)) -> String {
    let number = |result: Standing| rules.clone().filter(|rule| rule.result == result).count();
    let inferred = rules.clone().filter(|rule| rule.is_inferred).count();
    let also = rules.clone().filter(|rule| rule.also).count();
    let parts = [
        (number(Standing::Fired), "fired"),
        (inferred, "fired (inferred)"),
        (also, "also true"),
        (number(Standing::Held).saturating_sub(also), "not fired"),
        (number(Standing::Off), "off"),
        (
            number(Standing::Unknown).saturating_sub(inferred),
            "unknown",
        ),
    ];
    let parts = parts.iter().filter(|(rules, _)| *rules > 0);
    let parts: Vec<String> = parts
        .map(|(rules, words)| format!("{rules} {words}"))
        .collect();
    parts.join(", ")
}

/// Sorts fired rules first, then those that were also true, then by share used, then off, then
/// unknown.
fn sort(rules: &mut [RuleStatus]) {
    let rank = |rule: &RuleStatus| match rule.result {
        Standing::Fired => 0,
        Standing::Held if rule.also => 1,
        Standing::Held => 2,
        Standing::Off => 3,
        Standing::Unknown => 4,
    };
    let share = |rule: &RuleStatus| rule.share().unwrap_or(-1.0);
    rules.sort_by(|a, b| rank(a).cmp(&rank(b)).then(share(b).total_cmp(&share(a))));
}
