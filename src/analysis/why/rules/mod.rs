//! Lists the rules that could have ended a run and how close each came: one row for every rule in
//! the records.
//!
//! A rule that isn't recorded gets a row that says so, if a reader would miss it. Nothing is
//! guessed.

use crate::analysis::format::{self, count};
use crate::analysis::summary::Summary;
use crate::analysis::verdict::{self, LimitFrom};
use crate::model::words::words;
use crate::model::{Can, Index, Lines, Op, Reading, StopVerdict};
use crate::stop;

mod document;
mod inferred;
mod recorded;
mod tool;

/// The note for a rule that is recorded as fired but isn't shown as such.
const REFUTED: &str = "recorded as ending the run, but the numbers are below the limit";

/// The state of a rule when the run ended, or now.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RuleStatus {
    /// The rule's id: `budget.steps`, `stop[2]`, `critics`.
    pub id: String,
    /// The kind of rule: `budget_steps`, `stagnation`, `critic_stop`.
    pub kind: String,
    /// The display name of what ended another tool's run, whose kind is the tool's own word. Empty
    /// for all other rules.
    pub label: String,
    /// The state in words if the result doesn't describe it. May be empty.
    pub stands: &'static str,
    /// The result.
    pub result: Standing,
    /// Whether the last records suggest that it ended the run, although no file records that.
    pub is_inferred: bool,
    /// Whether it was true at the same moment but didn't end the run.
    pub also: bool,
    /// The measured value and the limit.
    pub reading: Reading,
    /// How the limit is known.
    pub limit_from: Option<LimitFrom>,
    /// A short note: why it's off, what isn't recorded, what it saw. May be empty.
    pub note: String,
    /// The recorded verdict, if this rule ended the run.
    pub stop: Option<Box<StopVerdict>>,
}

words! {
    /// The result of a rule.
    #[derive(Default)]
    pub enum Standing {
        /// It ended the run.
        Fired = "fired",
        /// It was evaluated, or could have been, and didn't end the run.
        Held = "held",
        /// It is switched off.
        Off = "off",
        /// The records don't show it.
        #[default]
        Unknown = "unknown",
    }
}

impl RuleStatus {
    /// Returns the share of the limit that is used, from 0 to 1.
    pub fn share(&self) -> Option<f64> {
        let (measured, limit) = (self.reading.measured()?, self.reading.limit()?);
        // A value that must not fall below a threshold starts at the top of the scale.
        let (used, of) = if self.reading.op == Some(Op::Below) {
            (1.0 - measured, 1.0 - limit)
        } else {
            (measured, limit)
        };
        let share = if of > 0.0 {
            used / of
        } else {
            f64::from(u8::from(used >= of))
        };
        Some(share.clamp(0.0, 1.0))
    }

    /// Returns the rule's display name.
    pub fn name(&self) -> String {
        if !self.label.is_empty() {
            return self.label.clone();
        }
        if self.id == "criteria" {
            return match &*self.kind {
                "max_steps" => "Step criterion",
                "max_runtime" => "Time criterion",
                "token_budget" => "Token criterion",
                "stagnation" => "Stagnation criterion",
                "final_result" => "Result criterion",
                "criteria" => "Stop criteria",
                _ => "Stop criterion",
            }
            .to_owned();
        }
        let name = match &*self.kind {
            "recovery_exhausted" | "unrecoverable_error" => "Error recovery",
            "final" => "Final answer",
            "critic_stop" => "Critic stop",
            "agent_condition" => "Agent condition",
            "env_terminal" => "Environment",
            "context_overflow" => "Context window",
            "env_capability_mismatch" => "Environment capability",
            "task_validation_failed" => "Task validation",
            "cancelled_immediate" => "Immediate cancellation",
            "cancelled_after_step" => "Cancellation",
            "interrupt" => "Interruption",
            "criteria" => "Stop criteria",
            "opaque" => "Rule in code",
            "unrecorded" => "Rule not recorded",
            other => match stop::label(other) {
                Some(label) => label,
                None => return verdict::capitalised(&other.replace('_', " ")),
            },
        };
        name.to_owned()
    }

    /// Returns whether the rule comes from a list of rules, so that its id is more specific than
    /// its name.
    pub fn is_listed(&self) -> bool {
        const OWN: [&str; 11] = [
            "rules",
            "decision",
            "critics",
            "recovery",
            "agent",
            "env",
            "criteria",
            "preflight",
            "context",
            "cancel",
            "success",
        ];
        !self.id.starts_with("budget.") && !OWN.contains(&&*self.id) && self.id != self.kind
    }

    /// Formats a number of this rule, without the unit that its name implies.
    pub fn amount(&self, value: f64) -> String {
        match &*self.reading.unit {
            "ms" => format::millis(value),
            "score" => format::score(value),
            "usd" => format::usd(value),
            "recovered errors" => format!("{} recovered", count(value as u64)),
            _ if value < 0.0 || value.fract() != 0.0 => value.to_string(),
            _ => count(value as u64),
        }
    }

    /// Returns the rule's state in a word or two. `ended` is false while the run continues.
    pub fn state(&self, ended: bool) -> String {
        match self.result {
            _ if self.is_inferred => "inferred".to_owned(),
            _ if !self.stands.is_empty() => self.stands.to_owned(),
            Standing::Fired => "fired".to_owned(),
            Standing::Held if self.also && ended => "also true".to_owned(),
            Standing::Held if ended => "not fired".to_owned(),
            Standing::Held => match self.reading.headroom() {
                Some(left) if left <= 0.0 => "none left".to_owned(),
                Some(left) => format!("{} left", self.amount(left)),
                None => "not fired".to_owned(),
            },
            Standing::Off => "off".to_owned(),
            Standing::Unknown => "unknown".to_owned(),
        }
    }
}

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
    match format::counted(rules.len(), "rule") {
        _ if !is_none => parts,
        all if parts.is_empty() => format!("{all}, none fired"),
        all => format!("{all}, none fired ({parts})"),
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

fn plain(id: &str, kind: &str, result: Standing, note: &str) -> RuleStatus {
    RuleStatus {
        id: id.to_owned(),
        kind: kind.to_owned(),
        result,
        note: note.to_owned(),
        ..RuleStatus::default()
    }
}
