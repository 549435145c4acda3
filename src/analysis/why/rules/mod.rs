//! Lists the rules that could have ended a run and how close each came: one row for every rule in
//! the records.
//!
//! A rule that isn't recorded gets a row that says so, if a reader would miss it. Nothing is
//! guessed.

use crate::analysis::format;
use crate::analysis::summary::Summary;
use crate::model::{Can, Index, Lines, Reading};

mod inferred;
mod recorded;
mod status;
mod tool;

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

/// Formats "1 fired, 6 not fired, 1 off, 2 unknown" for the heading of the table, or "8 rules, none
/// fired (1 off, 2 unknown)".
pub fn tally(rules: &[RuleStatus]) -> String {
    let has_fired = |rule: &RuleStatus| rule.result == Standing::Fired || rule.is_inferred;
    if rules.iter().any(has_fired) {
        return results(rules);
    }
    let all = format::counted(rules.len(), "rule");
    format!("{all}, {}", results(rules))
}

/// Formats "1 fired, 6 not fired, 1 off, 2 unknown", or "none fired (1 off, 2 unknown)".
pub fn results(rules: &[RuleStatus]) -> String {
    let number = |result: Standing| rules.iter().filter(|rule| rule.result == result).count();
    let fired = number(Standing::Fired);
    let inferred = rules.iter().filter(|rule| rule.is_inferred).count();
    let also = rules.iter().filter(|rule| rule.also).count();
    let is_none = fired == 0 && inferred == 0;
    let mut parts = Vec::new();
    if fired > 0 {
        parts.push(format!("{fired} fired"));
    }
    if inferred > 0 {
        parts.push(format!("{inferred} inferred"));
    }
    if also > 0 {
        parts.push(format!("{also} also true"));
    }
    let held = number(Standing::Held) - also;
    let open = [
        // "None fired" says the same.
        (if is_none { 0 } else { held }, "not fired"),
        (number(Standing::Off), "off"),
        (number(Standing::Unknown) - inferred, "unknown"),
    ];
    parts.extend(
        open.iter()
            .filter(|(rules, _)| *rules > 0)
            .map(|(rules, words)| format!("{rules} {words}")),
    );
    let parts = parts.join(", ");
    match parts.as_str() {
        _ if !is_none => parts,
        "" => "none fired".to_owned(),
        parts => format!("none fired ({parts})"),
    }
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
