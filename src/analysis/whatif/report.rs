//! Answers what other rules would have done to a run, along with what its own rules did.
//!
//! Pages, commands and JSON show the same [`WhatIfReport`]. This module knows how a run is read, but not
//! how it's laid out.

use std::fmt;

use schemars::JsonSchema;
use serde::{Serialize, Serializer};

use super::headline::headline;
use super::{RuleResult, RuleSet, StopTiming, nothing, rule_result, switched_off};
use crate::analysis::facts::{CHANGES, CHANGES_UNTOLD, Depth, FAILURES, Record, TIMES, record};
use crate::analysis::format::{self, counted};
use crate::analysis::headline::Headline;
use crate::analysis::rule_replay::{FirstStop, first_stops};
use crate::analysis::stated;
use crate::analysis::summary::Summary;
use crate::model::{Index, Lines, Outcome};
use crate::stop::{Amount, BUDGETS, BudgetRow, Counts, EntryRule, StopRules, StopSet, StopSpec};

/// The inference used if prices are given.
const BY_PRICES: &str = "step costs are estimated from tokens and the given prices";

/// The effect that rules would have had on one run. Every `step` is counted from 0.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[schemars(rename = "WhatIf")]
pub struct WhatIfReport {
    pub(crate) key: String,
    // What all requested rules together would have done, in full sentences.
    #[schemars(with = "String")]
    pub(crate) headline: Headline,
    pub(crate) recorded: Recorded,
    /// The requested rules, in request order.
    pub rules: Vec<RuleEffect>,
    /// The run's own rules, re-evaluated.
    pub own_rules: Vec<RuleEffect>,
    /// The index in `rules` of the rule that would have ended the run first.
    pub first: Option<usize>,
    /// Inferred facts that these answers depend on.
    pub inferred: Vec<&'static str>,
    /// The number of steps whose facts could not be read.
    pub unread: usize,
    /// The number of steps that ran but have no line.
    pub lost: usize,
    /// Whether one more step had started, but has no line.
    pub begun: bool,
    /// Whether some token counts are estimates.
    pub estimated: bool,
    /// The first and the last step that ran, as ordinals.
    #[serde(skip)]
    pub steps: Option<(u64, u64)>,
    /// Whether the lost steps do have lines but were skipped, because the run has more than the
    /// board keeps.
    #[serde(skip)]
    pub are_skipped: bool,
}

/// How the run actually ended.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Recorded {
    pub(crate) step: Option<u64>,
    pub(crate) step_id: Option<i64>,
    pub(crate) stop_reason: Option<String>,
    #[schemars(with = "String")]
    pub(crate) outcome: Outcome,
    /// Whether it is still running.
    // All results are then "so far".
    pub live: bool,
}

/// The effect that one rule would have had.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[schemars(rename = "RuleEffect")]
pub struct RuleEffect {
    #[schemars(with = "String")]
    pub(crate) rule: EndCause,
    /// What it would have done.
    #[serde(flatten)]
    pub result: RuleResult,
    /// Whether this rule ended the run.
    pub ended: bool,
}

impl RuleEffect {
    /// Returns the note on one of the run's own rules.
    pub fn own_note(&self) -> &'static str {
        match (self.ended, self.result.found) {
            (true, StopTiming::NotReached) => {
                "ended the recorded run; the recorded steps don't confirm it"
            }
            (true, _) => "ended the run",
            // Whether it would have fired isn't recorded, only that it didn't.
            (false, StopTiming::Unknown) => "didn't end the run",
            (false, _) => "as recorded",
        }
    }

    /// Explains the result of one of the run's own rules, with the note.
    pub fn own_reason(&self, index: &Index) -> String {
        let (why, note) = (self.result.reason(index), self.own_note());
        let is_held = self.result.found == StopTiming::NotReached && self.result.off.is_none();
        match self.ended {
            false if self.result.off.is_some() => why,
            false if is_held && self.result.refused.is_none() => why,
            true if is_held => note.to_owned(),
            _ => format!("{why} ({note})"),
        }
    }
}

/// A rule, or something else that ended a run.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum EndCause {
    /// A rule that can be written as text.
    Spec(StopSpec),
    /// A limit of the budget; for time in milliseconds.
    Budget(&'static BudgetRow, u64),
    /// A rule in code, by its id. Only its answers are recorded.
    InCode(String),
    /// The recorded name of what ended the run, if no rule did.
    Ending(String),
}

impl EndCause {
    /// Words a limit of the budget: `20`, `1 h`.
    pub(crate) fn limit_words(row: &BudgetRow, limit: u64) -> String {
        match row.rule.counts {
            Counts::Time => format::millis(limit as f64),
            _ => format::count(limit),
        }
    }
}

/// Writes the short form, or the recorded name.
impl fmt::Display for EndCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            EndCause::Spec(spec) => spec.fmt(f),
            EndCause::Budget(row, limit) => write!(f, "{}={limit}", row.written),
            EndCause::InCode(name) | EndCause::Ending(name) => f.write_str(name),
        }
    }
}

/// Serializes the same text.
impl Serialize for EndCause {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl WhatIfReport {
    /// Returns the requested rules, then the run's own.
    pub fn all_rules(&self) -> impl Iterator<Item = &RuleEffect> {
        self.rules.iter().chain(&self.own_rules)
    }

    /// Describes the gaps in the record that these answers depend on, each in a full sentence.
    pub fn gaps(&self) -> Vec<String> {
        let inferred = self.inferred.iter();
        let mut gaps: Vec<_> = inferred.map(|fact| format!("Inferred: {fact}.")).collect();
        if self.lost > 0 {
            gaps.push(self.of_the_lost());
        }
        if self.begun && !self.recorded.live {
            gaps.push(
                "The step in which the run died isn't in steps.jsonl, so what it did is unknown."
                    .to_owned(),
            );
        }
        if self.unread > 0 {
            gaps.push(format!(
                "{} couldn't be read.",
                counted(self.unread, "step")
            ));
        }
        gaps
    }

    /// Describes what is unknown because of steps that ran but have no usable record.
    fn of_the_lost(&self) -> String {
        let steps = counted(self.lost, "step");
        let (have, are, they) = if self.lost == 1 {
            ("has", "is", "it")
        } else {
            ("have", "are", "they")
        };
        match self.are_skipped {
            true => format!(
                "{steps} {are} skipped because the run has more than board keeps. What {they} did is unknown."
            ),
            false => format!(
                "{steps} ran but {have} no line in steps.jsonl. What {they} did is unknown."
            ),
        }
    }
}

/// Evaluates rules for a run.
pub fn report(
    rule_set: &RuleSet,
    summary: &Summary,
    index: &Index,
    lines: &dyn Lines,
) -> WhatIfReport {
    let heads = record(index, lines, Depth::Heads);
    let own_depth = heads.rules.as_ref().map_or(Depth::Heads, depth_of);
    let record = match rule_set.depth().max(own_depth) {
        Depth::Heads => heads,
        depth => record(index, lines, depth),
    };
    let record = record.priced(index, summary.prices.as_deref());
    let live = summary.life.liveness.may_grow();
    let answered = summary.verdict.answer_known();
    let results = rule_set.ask(&record, answered);
    let names: Vec<String> = rule_set.specs().iter().map(ToString::to_string).collect();
    let headline = headline(
        &results,
        &names,
        rule_set.suggested,
        &record,
        summary,
        index,
    );
    let first = super::together(&results).0.map(|(place, _)| place);
    let saves = |result: &RuleResult| result.saved.ms.is_some_and(|ms| ms > 0);
    let saves_time = results.iter().any(saves);
    let specs = rule_set.specs();
    let asked = specs.iter().zip(results);
    let asked = asked.map(|(spec, result)| RuleEffect {
        rule: EndCause::Spec(spec.clone()),
        ended: false,
        result,
    });
    let own = own(&record, index, answered);
    let ending = (!live && !own.iter().any(|answer| answer.ended))
        .then(|| ending(&record, summary, index))
        .flatten();
    // The saved times depend on the clock, too.
    let is_used = |fact: &&'static str| {
        *fact == TIMES && (saves_time || own.iter().any(|effect| saves(&effect.result)))
            || specs.iter().any(|spec| depends_on(spec, fact))
            || own.iter().any(|effect| effect.rule.depends_on(fact))
    };
    let used = record.inferred.iter().copied().filter(is_used);
    let inferred: Vec<&'static str> = used
        .chain(record.cost_estimated.then_some(BY_PRICES))
        .collect();
    let id = |step: Option<u64>| index.steps().get(usize::try_from(step?).ok()?)?.step_id;
    let with_id = |mut effect: RuleEffect| {
        effect.result.step_id = id(effect.result.step);
        effect
    };
    let steps = record
        .facts
        .first()
        .map(|facts| facts.step)
        .zip(record.last_step());
    let last = steps.map(|(_, last)| last);
    WhatIfReport {
        key: summary.key.to_string(),
        headline,
        recorded: Recorded {
            step: last,
            step_id: id(last),
            stop_reason: summary.verdict.stop_reason.as_deref().map(str::to_owned),
            outcome: summary.verdict.outcome,
            live,
        },
        rules: asked.map(with_id).collect(),
        own_rules: own.into_iter().chain(ending).map(with_id).collect(),
        first,
        steps,
        estimated: record.is_estimated(),
        inferred,
        unread: record.unread,
        lost: record.lost.map_or(0, |lost| lost.count),
        are_skipped: record.lost.is_some_and(|lost| lost.is_skipped),
        begun: record.begun,
    }
}

impl EndCause {
    /// Returns whether the result of this rule depends on an inference. That of a rule in code, and
    /// of an end without a rule, is recorded.
    fn depends_on(&self, inference: &str) -> bool {
        match self {
            EndCause::Spec(spec) => depends_on(spec, inference),
            EndCause::Budget(row, _) => match inference {
                TIMES => row.rule.counts == Counts::Time,
                CHANGES | CHANGES_UNTOLD | FAILURES => false,
                _ => true,
            },
            EndCause::InCode(_) | EndCause::Ending(_) => false,
        }
    }
}

/// Returns whether the result of a rule depends on an inference. Facts that are no rule's own, such
/// as the steps that count, concern all rules.
fn depends_on(spec: &StopSpec, inference: &str) -> bool {
    if let Amount::AnyOf(of) | Amount::AllOf(of) = spec.limit() {
        return of.iter().any(|member| depends_on(member, inference));
    }
    match inference {
        TIMES => spec.row().counts == Counts::Time,
        CHANGES | CHANGES_UNTOLD => spec.name() == "stagnation",
        FAILURES => spec.name() == "consecutive_errors",
        _ => true,
    }
}

/// Returns how deeply a run must be read for its own rules.
fn depth_of(rules: &StopRules) -> Depth {
    let specs = rules
        .completion
        .iter()
        .chain(&rules.policies)
        .filter_map(|entry| match &entry.rule {
            EntryRule::Spec(spec) => Some(super::depth(spec)),
            EntryRule::Opaque { .. } => None,
        });
    specs.max().unwrap_or(Depth::Heads)
}

/// Re-evaluates the run's own rules. Empty if they aren't recorded or can no longer be used.
fn own(record: &Record, index: &Index, answered: Option<bool>) -> Vec<RuleEffect> {
    let Some(rules) = &record.rules else {
        return Vec::new();
    };
    let Ok(set) = StopSet::builder().rules(rules.clone()).build_fail_closed() else {
        return Vec::new();
    };
    let firsts = first_stops(&set, record.start(), &record.facts);
    let (off, rules) = (switched_off(&set), set.record());
    let by = index.stop().map(|stop| &*stop.criterion);
    let answer = |first: &FirstStop| {
        let ended = by == Some(&*first.id);
        let mut result = RuleResult {
            off: off(&first.id),
            ..rule_result(None, first, &firsts, record, answered)
        };
        let unit = BUDGETS
            .iter()
            .find(|row| row.id == first.id)
            .map(|row| row.rule.unit);
        if let Some(stated) = unit.and_then(|unit| {
            index
                .limit(unit)
                .disputed()
                .map(|it| stated::values(it, unit))
        }) {
            let needs = format!("the records disagree on the limit ({stated})");
            let (detail, from) = (
                format!("not enough data: {needs}"),
                record.facts.first().map(|facts| facts.step),
            );
            let (found, answer_lost) = (StopTiming::Unknown, None);
            result = RuleResult {
                found,
                detail,
                needs: Some(needs),
                unknown_from: from,
                answer_lost,
                ..nothing()
            };
        } else if ended {
            // The recorded run is what this rule left.
            (result.cuts, result.answer_lost) = (false, Some(false));
        }
        Some(RuleEffect {
            rule: rule_of(&first.id, &rules)?,
            ended,
            result,
        })
    };
    firsts.rules.iter().filter_map(answer).collect()
}

fn rule_of(id: &str, rules: &StopRules) -> Option<EndCause> {
    if let Some(row) = BUDGETS.iter().find(|row| row.id == id) {
        return (row.limit)(&rules.budget).map(|limit| EndCause::Budget(row, limit.limit));
    }
    let mut entries = rules.completion.iter().chain(&rules.policies);
    let entry = entries.find(|entry| entry.id.as_deref() == Some(id))?;
    Some(match &entry.rule {
        EntryRule::Spec(spec) => EndCause::Spec(spec.clone()),
        EntryRule::Opaque { .. } => EndCause::InCode(id.to_owned()),
    })
}

/// Returns what ended the run if none of its recorded rules did: an answer, a critic, an error, or
/// an unrecorded rule.
fn ending(record: &Record, summary: &Summary, index: &Index) -> Option<RuleEffect> {
    let stop = index.stop();
    let name = stop
        .map(|stop| stop.code.to_string())
        .or_else(|| summary.verdict.stop_reason.as_deref().map(str::to_owned))?;
    let detail = stop
        .map(|stop| stop.reading.detail.to_string())
        .filter(|detail| !detail.is_empty());
    let said = RuleResult {
        gate: stop.and_then(|stop| stop.gate),
        code: stop.map(|stop| stop.code.clone()),
        detail: detail.unwrap_or_else(|| summary.verdict.sentence.to_string()),
        ..nothing()
    };
    let unknown_from = record
        .lost
        .map(|lost| lost.from)
        .or(record.foreign)
        .or(record.steps_unknown.then_some(0));
    let result = match unknown_from {
        // The step at which it ended has no line, or there's no way to know which line is its own.
        Some(from) => RuleResult {
            found: StopTiming::Unknown,
            unknown_from: Some(from),
            answer_lost: None,
            ..said
        },
        None => RuleResult {
            found: StopTiming::Same,
            step: record.last_step(),
            saved: super::Saved::NONE,
            ..said
        },
    };
    Some(RuleEffect {
        rule: EndCause::Ending(name),
        ended: true,
        result,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::facts::tests::{Files, runs_below};
    use crate::analysis::life::ExternalFacts;
    use crate::analysis::summary::summary;
    use crate::model::RunKey;

    #[test]
    fn what_ended_our_own_runs_is_told_at_the_recorded_step() {
        let mut by_rule = 0;
        for path in runs_below("sample_runs") {
            let files = Files::open(&path);
            let index = &files.index;
            let summary = summary(
                &RunKey::new("x"),
                path.display().to_string(),
                index,
                ExternalFacts::default(),
            );
            let told = report(&RuleSet::new(Vec::new()).unwrap(), &summary, index, &files);
            let Some(stop) = index.stop() else {
                assert!(
                    told.own_rules.iter().all(|answer| !answer.ended),
                    "{}",
                    path.display()
                );
                continue;
            };
            let ended: Vec<_> = told
                .own_rules
                .iter()
                .filter(|answer| answer.ended)
                .collect();
            assert_eq!(ended.len(), 1, "{}: {ended:?}", path.display());
            assert_eq!(
                (ended[0].result.found, ended[0].result.step),
                (StopTiming::Same, stop.step),
                "{}",
                path.display()
            );
            assert_eq!(
                ended[0].result.code.as_ref(),
                Some(&stop.code),
                "{}",
                path.display()
            );
            by_rule += usize::from(!matches!(ended[0].rule, EndCause::Ending(_)));
            let early = told
                .own_rules
                .iter()
                .filter(|answer| answer.result.found == StopTiming::Earlier);
            assert_eq!(
                early.count(),
                0,
                "none of its rules would have ended {} earlier",
                path.display()
            );
        }
        assert!(by_rule >= 10, "budgets and rules ended {by_rule} of them");
    }

    #[test]
    fn the_reason_of_an_own_rule_goes_with_its_result() {
        let words = |ended: bool, result: RuleResult| {
            let rule = EndCause::Ending("x".to_owned());
            let effect = RuleEffect {
                rule,
                ended,
                result,
            };
            effect.own_reason(&Index::default())
        };
        let unknown = || RuleResult {
            found: StopTiming::Unknown,
            needs: Some("why".to_owned()),
            unknown_from: Some(1),
            ..nothing()
        };
        let off = || RuleResult {
            off: Some("0".to_owned()),
            ..nothing()
        };
        let fires = || RuleResult {
            found: StopTiming::Same,
            detail: "3 steps, limit 3".to_owned(),
            ..nothing()
        };
        for (ended, result, told) in [
            (false, off(), "disabled (0)"),
            (false, nothing(), ""),
            (false, fires(), "3 steps, limit 3 (as recorded)"),
            (false, unknown(), "unknown: why (didn't end the run)"),
            (true, fires(), "3 steps, limit 3 (ended the run)"),
            (true, unknown(), "unknown: why (ended the run)"),
            (
                true,
                nothing(),
                "ended the recorded run; the recorded steps don't confirm it",
            ),
        ] {
            assert_eq!(words(ended, result), told);
        }
    }
}
