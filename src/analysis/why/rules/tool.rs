//! Lists the limits of another tool's run: what ended it, the limits in its trace, and the usage of
//! the common limits, for which the trace doesn't record a limit.

use serde_json::Number;

use super::status::{ENDED, REFUTED, RuleStatus, Standing};
use crate::analysis::format::{bound, capitalised};
use crate::analysis::stated;
use crate::analysis::summary::{Cost, Summary};
use crate::analysis::verdict::ended;
use crate::model::{
    Bound, Certainty, EndKind, Ended, Index, Manifest, Named, Op, Outcome, Reading, counts_steps,
};

/// Returns the rules of the run, starting with the one that ended it.
pub(super) fn rules(summary: &Summary, index: &Index) -> Vec<RuleStatus> {
    let Some(manifest) = index.manifest().get() else {
        return Vec::new();
    };
    // Without a word and a limit, the end was inferred by board and isn't a rule.
    let ended = ended(index, &summary.life);
    let named = ended.filter(|ended| !ended.word.is_empty() || ended.limit.is_some());
    let mut rules: Vec<RuleStatus> = named.map(|ended| end(ended, index)).into_iter().collect();
    let is_limit = ended.is_some_and(|ended| ended.outcome == Outcome::Truncated);
    // A tool may count steps in its own unit, and may not record its limit's numbers.
    let kind = ended.and_then(Ended::kind);
    let is_same_kind = |unit: &str| kind.is_some() && EndKind::of_unit(unit) == kind;
    let spent = |unit: &str| spent(summary, manifest, unit);
    let named_unit = rules
        .first()
        .map(|rule| rule.reading.unit.to_string())
        .unwrap_or_default();
    for limit in &manifest.limits {
        let mut also = ended.iter().flat_map(|ended| &ended.also);
        if let Some(also) = also.find(|also| also.unit == limit.unit && also.limit == limit.limit) {
            let compared = (Some(also.measured), limit.op, Some(also.limit));
            let row = row(limit.name, compared, limit.unit, Standing::Held, "");
            rules.push(RuleStatus { also: true, ..row });
            continue;
        }
        // The one that ended the run is already first, with its measured value.
        if limit.unit == named_unit
            && rules
                .first()
                .is_some_and(|rule| rule.reading.limit() == Some(limit.limit))
        {
            continue;
        }
        let used = limit.used.or_else(|| spent(limit.unit));
        let its_bound = if limit.used.is_some() {
            limit.bound
        } else {
            Bound::Exact
        };
        let is_reached = used.and_then(|used| limit.is_reached_by(used, its_bound));
        let below = used
            .is_some_and(|used| its_bound != Bound::AtLeast && !limit.op.holds(used, limit.limit));
        // If two limits were reached at once, a trace names only one.
        let also = is_limit && limit.unit != named_unit && is_reached == Some(true);
        let mut result = if below || also {
            Standing::Held
        } else {
            Standing::Unknown
        };
        let mut stands = "";
        let reached = match used {
            Some(used) if used == limit.limit => "at its limit",
            _ => "over its limit",
        };
        let note = match used {
            Some(_) if limit.used.is_none() && is_estimate(summary, limit.unit) => BY_PRICES,
            // The bound is shown with the number.
            Some(_) if its_bound == Bound::AtMost && !below => "the exact number isn't recorded",
            Some(_) if its_bound != Bound::Exact => "",
            // The records of the end may disagree on its limit.
            Some(_) if below || also || limit.unit == named_unit => "",
            Some(_) if ended.is_none() => {
                stands = reached;
                ""
            }
            Some(_) => {
                (result, stands) = (Standing::Held, reached);
                "didn't stop the run, according to the trace"
            }
            None => "the usage isn't recorded",
        };
        let compared = (used, limit.op, Some(limit.limit));
        let mark = if limit.used.is_none() {
            mark(summary, limit.unit)
        } else {
            ""
        };
        rules.push(RuleStatus {
            also,
            stands,
            bound: its_bound,
            mark,
            ..row(limit.name, compared, limit.unit, result, note)
        });
    }
    let usual = [
        ("step limit", "steps"),
        ("token limit", "tokens"),
        ("cost limit", "usd"),
        ("time limit", "ms"),
    ];
    for (name, unit) in usual {
        if unit != named_unit
            && !is_same_kind(unit)
            && !manifest
                .limits
                .iter()
                .any(|limit| limit.unit == unit || (unit == "steps" && counts_steps(limit.unit)))
        {
            let estimate = is_estimate(summary, unit);
            let note = match unit {
                _ if estimate => "estimated from tokens and prices; no limit is recorded",
                "tokens" if mark(summary, unit).ends_with('≈') => {
                    "partly estimated; no limit is recorded"
                }
                "steps" if summary.steps_unknown => "neither the count nor a limit is recorded",
                _ => "no limit is recorded",
            };
            let measured = (spent(unit), Op::AtLeast, None);
            rules.push(RuleStatus {
                mark: mark(summary, unit),
                ..row(name, measured, unit, Standing::Unknown, note)
            });
        }
    }
    rules
}

/// The note for usage that no trace records.
const BY_PRICES: &str = "the usage is estimated from tokens and prices";

/// Returns whether the run's usage of this unit is an estimate.
fn is_estimate(summary: &Summary, unit: &str) -> bool {
    unit == "usd" && matches!(summary.cost(), Some(Cost::Estimated(_)))
}

/// Returns the mark of the run's usage of this unit, as lists show it: `≥≈`.
fn mark(summary: &Summary, unit: &str) -> &'static str {
    match unit {
        "tokens" => bound(summary.tokens_unknown > 0, summary.tokens_estimated),
        _ => bound(false, is_estimate(summary, unit)),
    }
}

/// Returns the run's usage of this unit, if known.
fn spent(summary: &Summary, manifest: &Manifest, unit: &str) -> Option<f64> {
    match unit {
        // Without any records, no value was measured.
        "steps" => Some(summary.steps_now.saturating_sub(summary.steps_nested) as f64)
            .filter(|_| summary.events > 0 && !summary.steps_unknown),
        "turns" => manifest.turns.map(|turns| turns as f64),
        "tokens" => summary.tokens.map(|tokens| tokens as f64),
        "usd" => summary.cost().map(Cost::usd),
        "ms" => summary.duration_ms,
        _ => None,
    }
}

fn end(ended: &Ended, index: &Index) -> RuleStatus {
    let limit = index.limit(ended.unit);
    let is_inferred = ended.certainty == Certainty::Inferred;
    let mut note = match &*ended.word {
        "" => String::new(),
        word if ended.is_own_word() => word.to_owned(),
        word if is_inferred => format!("from {word}"),
        word => format!("recorded as \"{word}\""),
    };
    // The verdict's sentence proves nothing.
    let words = match ended.restates_verdict() {
        true => String::new(),
        false => ended.words(),
    };
    if !words.is_empty() {
        let mark = if note.is_empty() { "" } else { "; " };
        note = format!("{note}{mark}{words}");
    }
    let limits = index
        .manifest()
        .get()
        .map(|manifest| manifest.limits.as_slice())
        .unwrap_or_default();
    // A lower bound below the limit proves nothing, but is worth showing.
    let own = limits
        .iter()
        .find(|limit| limit.unit == ended.unit && Some(limit.limit) == ended.limit);
    let bound = own
        .filter(|limit| ended.measured.is_none() && limit.bound == Bound::AtLeast)
        .and_then(|own| own.used);
    if let Some(used) = bound {
        let mark = if note.is_empty() { "" } else { "; " };
        let used = stated::amount(used, ended.unit);
        note = format!("{note}{mark}at least {used} used");
    }
    let disputed = limit
        .disputed()
        .map(|stated| stated::values(stated, ended.unit));
    let agreed = limit.agreed().copied().filter(|_| ended.limit.is_some());
    let word = if ended.word.is_empty() {
        &ended.headline
    } else {
        &ended.word
    };
    let is_recorded = ended.certainty == Certainty::Recorded;
    let rule = row(
        word,
        (ended.measured, ended.op, agreed),
        ended.unit,
        Standing::Fired,
        &note,
    );
    let (label, is_outcome) = named(ended);
    let stands = match (is_outcome, ended.outcome) {
        (false, _) => "",
        // Another file may continue the run.
        (true, Outcome::Unknown) => "recorded",
        (true, _) => ENDED,
    };
    let is_denied = !ended.refuted.is_empty();
    let is_refuted = rule.reading.is_refuted() || is_denied;
    let note = match disputed {
        Some(values) => format!("the records disagree on the limit: {values}"),
        None if is_denied => {
            "recorded as ending the run, but the numbers are below all its limits".to_owned()
        }
        None if is_refuted => REFUTED.to_owned(),
        None => rule.note.clone(),
    };
    let result = if is_recorded && !is_refuted {
        Standing::Fired
    } else {
        Standing::Unknown
    };
    RuleStatus {
        is_inferred,
        is_outcome,
        label,
        stands: if result == Standing::Fired {
            stands
        } else {
            ""
        },
        result,
        note,
        ..rule
    }
}

/// Returns the display name of what ended a run, and whether it's something else than a rule: an
/// error, a cancellation, or an unknown end.
fn named(ended: &Ended) -> (String, bool) {
    if ended.outcome == Outcome::Completed {
        // A record of the end may have no answer.
        let name = match &*ended.headline {
            "The agent finished" => "Agent finished",
            "The user ended the conversation" => "End of conversation",
            _ => "Final answer",
        };
        return (name.to_owned(), false);
    }
    let noun = match &*ended.headline {
        "Interrupted by the user" => "User cancellation",
        "Interrupted" => "Cancellation",
        "The sandbox failed" => "Sandbox failure",
        "The evaluation failed with an error" => "Evaluation error",
        Ended::REFUSED => "Refusal",
        Ended::CONTEXT_FULL => return ("Context window".to_owned(), false),
        headline => headline,
    };
    match Named::of(noun) {
        Named::Error(kind) => (capitalised(kind), true),
        Named::Limit(limit) => (limit.to_owned(), false),
        Named::Interruption(_) | Named::Other(_) => {
            let is_rule = matches!(ended.outcome, Outcome::Truncated | Outcome::Halted)
                || ended.kind().is_some();
            (noun.to_owned(), !is_rule)
        }
    }
}

fn row(
    name: &str,
    (measured, op, limit): (Option<f64>, Op, Option<f64>),
    unit: &'static str,
    result: Standing,
    note: &str,
) -> RuleStatus {
    let reading = Reading {
        measured: measured.and_then(Number::from_f64),
        limit: limit.and_then(Number::from_f64),
        op: limit.map(|_| op),
        unit: unit.into(),
        ..Reading::default()
    };
    RuleStatus {
        id: name.to_owned(),
        kind: name.to_owned(),
        result,
        reading,
        note: note.to_owned(),
        ..RuleStatus::default()
    }
}
