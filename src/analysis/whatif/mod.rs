//! Determines where other rules would have stopped a recorded run, by re-evaluating the engine's
//! own rules over recorded facts.
//!
//! Makes no claims beyond the recorded end, since it's unknown what a run would have done there.

use schemars::JsonSchema;
use serde::Serialize;

use super::facts::{Depth, Record};
use super::format::amount;
use super::rule_replay::{FirstStop, Firsts, Stopped, Tally, first_stops, survey};
use super::stated::{compared, limit_beside};
use crate::model::Index;
use crate::stop::{
    Check, Code, EntryRule, Gate, Outcome, Reading, Reads, RuleEntry, SpecError, Stats, StepFacts,
    StopSet, StopSpec,
};

mod headline;
mod near;
mod report;
#[cfg(test)]
mod tests;
mod typed;

pub use near::near;
pub(crate) use report::EndCause;
pub use report::{Recorded, RuleEffect, WhatIfReport, report};
pub use typed::{Typed, Wrong, rule_set, typed};

/// The effect of a rule on a run.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct RuleResult {
    /// `earlier`, `same`, `not_reached` or `unknown`.
    #[serde(rename = "result")]
    #[schemars(with = "String")]
    pub found: StopTiming,
    // The step at which it stops the run; `None` also if it stops the run before the first step.
    pub(crate) step: Option<u64>,
    // Only a report knows it.
    pub(crate) step_id: Option<i64>,
    /// The point within the step.
    pub gate: Option<Gate>,
    /// The code of the rule's verdict.
    #[schemars(with = "Option<String>")]
    pub code: Option<Code>,
    // One sentence without a full stop.
    pub(crate) detail: String,
    pub(crate) saved: Saved,
    /// Whether the stop would have cut anything off: later steps, or the rest of the last one.
    pub cuts: bool,
    /// Whether the run's answer would have been lost; null if unknown.
    pub answer_lost: Option<bool>,
    /// The missing fact, if the result is unknown.
    pub needs: Option<String>,
    /// The first step where the result is unknown.
    pub unknown_from: Option<u64>,
    /// The latest step at which the rule stops the run, if it is unknown whether it stops earlier.
    pub at_latest: Option<u64>,
    /// The first step whose answer the rule rejects.
    pub refused: Option<u64>,
    /// How the rule is switched off, if it is.
    pub off: Option<String>,
}

impl RuleResult {
    /// Returns whether the rule stops the run.
    pub fn fires(&self) -> bool {
        matches!(self.found, StopTiming::Earlier | StopTiming::Same)
    }

    /// Returns the rule's own explanation. If the result is unknown, adds the range of steps where
    /// the rule would fire.
    pub fn reason(&self, index: &Index) -> String {
        let latest = self.at_latest.map_or_else(String::new, |at| {
            format!(" (fires by step {} at the latest)", label(index, at))
        });
        match (&self.off, &self.needs, self.unknown_from) {
            (Some(how), ..) => format!("disabled ({how})"),
            // Nothing is known of any step.
            (None, Some(needs), Some(_)) if index.steps().is_empty() => format!("unknown: {needs}"),
            (None, Some(needs), Some(from)) => {
                format!("unknown from step {}{latest}: {needs}", label(index, from))
            }
            _ => self.detail.clone(),
        }
    }

    /// Returns what happens to the run's answer; `None` if nothing does. `answered` states whether
    /// the run has one.
    pub fn answer(&self, answered: bool) -> Option<&'static str> {
        match (self.cuts, self.answer_lost) {
            (true, Some(true)) => Some("lost"),
            (true, Some(false)) if answered => Some("kept"),
            (true, Some(false)) => Some("none"),
            (_, None) => Some("unknown"),
            (false, Some(_)) => None,
        }
    }
}

/// Returns the label of a step by its ordinal.
pub fn label(index: &Index, step: u64) -> String {
    usize::try_from(step).map_or_else(|_| step.to_string(), |step| index.label(step))
}

/// Where a rule stops a run, relative to the recorded end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum StopTiming {
    /// Before the recorded end.
    Earlier,
    /// At the step of the recorded end.
    Same,
    /// Not before the recorded end.
    NotReached,
    /// A fact is missing.
    Unknown,
}

impl StopTiming {
    /// Returns the words shown to users.
    pub fn words(self) -> &'static str {
        match self {
            StopTiming::Earlier => "earlier",
            StopTiming::Same => "same",
            StopTiming::NotReached => "not reached",
            StopTiming::Unknown => "unknown",
        }
    }
}

/// The reason why steps can't be counted.
const STEPS_UNTOLD: &str = "step boundaries aren't recorded";

/// The savings of stopping there.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Saved {
    /// The steps saved. Null if it's unknown or the rule doesn't stop the run.
    pub(crate) steps: Option<u64>,
    /// The tokens saved.
    pub(crate) tokens: Option<u64>,
    /// The time saved, in milliseconds on the clock of the machine that recorded the run.
    pub ms: Option<u64>,
}

/// Rules that are ready to be evaluated for many runs.
#[derive(Debug)]
pub struct RuleSet {
    specs: Vec<StopSpec>,
    set: StopSet,
    depth: Depth,
    /// For each rule, how it's switched off, if it is.
    off: Vec<Option<String>>,
    /// Whether board suggested these rules.
    suggested: bool,
}

impl RuleSet {
    /// Prepares rules.
    ///
    /// # Errors
    /// Returns which rule can't be used, why, and how to write one of its kind.
    pub fn new(specs: Vec<StopSpec>) -> Result<Self, SpecError> {
        let mut builder = StopSet::builder();
        for (place, spec) in specs.iter().enumerate() {
            let spec = ready(spec)?;
            builder = builder.rule(RuleEntry::from(spec).named(place.to_string()));
        }
        let depth = specs.iter().map(depth).max().unwrap_or(Depth::Heads);
        // Each rule was checked separately, including patterns.
        let set = builder.build_fail_closed()?;
        let off = switched_off(&set);
        let off = (0..specs.len())
            .map(|place| off(&place.to_string()))
            .collect();
        Ok(Self {
            set,
            specs,
            depth,
            off,
            suggested: false,
        })
    }

    /// Marks the rules as board's own suggestion, which the headline mentions.
    #[must_use]
    pub fn suggested(self, suggested: bool) -> Self {
        Self { suggested, ..self }
    }

    /// Returns the rules, in the order of the results.
    pub fn specs(&self) -> &[StopSpec] {
        &self.specs
    }

    /// Returns how deeply a run must be read for the rules.
    pub fn depth(&self) -> Depth {
        self.depth
    }

    /// Evaluates each rule separately for a run. `answered` states whether the run has an answer to
    /// lose, if known.
    pub fn ask(&self, record: &Record, answered: impl Into<Option<bool>>) -> Vec<RuleResult> {
        self.ask_all(record, answered).0
    }

    /// Returns the same, along with the totals of the whole record.
    pub fn ask_all(
        &self,
        record: &Record,
        answered: impl Into<Option<bool>>,
    ) -> (Vec<RuleResult>, Tally) {
        let answered = answered.into();
        let firsts = first_stops(&self.set, record.start(), &record.facts);
        // A set keeps completion rules before policies. The ids identify the rules.
        let mut by_place: Vec<Option<&FirstStop>> = vec![None; self.specs.len()];
        for first in &firsts.rules {
            if let Some(place) = first
                .id
                .parse()
                .ok()
                .and_then(|place: usize| by_place.get_mut(place))
            {
                *place = Some(first);
            }
        }
        let answer = |((spec, off), first): ((&StopSpec, &Option<String>), Option<&FirstStop>)| {
            Some(RuleResult {
                off: off.clone(),
                ..rule_result(Some(spec), first?, &firsts, record, answered)
            })
        };
        (
            self.specs
                .iter()
                .zip(&self.off)
                .zip(by_place)
                .filter_map(answer)
                .collect(),
            firsts.end,
        )
    }
}

/// Returns how the rules of a set are switched off, by id, from their state before the first step.
fn switched_off(set: &StopSet) -> impl Fn(&str) -> Option<String> + use<> {
    let readings = survey(set, &Stats::default(), &StepFacts::unknown(0)).into_iter();
    let off: Vec<(String, String)> = readings
        .filter_map(|reading| match reading.check {
            Check::Off(how) => Some((reading.id, how.into_owned())),
            _ => None,
        })
        .collect();
    move |id| {
        off.iter()
            .find(|(of, _)| of == id)
            .map(|(_, how)| how.clone())
    }
}

/// Returns why a rule can't be used at all.
fn fault(spec: &StopSpec) -> Option<String> {
    spec.lint()
        .into_iter()
        .next()
        .or_else(|| Some(spec.validate(None).err()?.to_string()))
}

/// Checks a rule separately, so that the error is about this rule.
fn ready(spec: &StopSpec) -> Result<StopSpec, SpecError> {
    match fault(spec) {
        None => Ok(spec.clone()),
        Some(why) => {
            let (name, example) = (spec.name(), spec.row().example);
            Err(SpecError::new(format!(
                "the rule {name} can't be used: {why}. Example: {example}"
            )))
        }
    }
}

/// Returns how deeply a run must be read for a rule.
fn depth(spec: &StopSpec) -> Depth {
    match spec.reads() {
        Reads::Numbers => Depth::Heads,
        Reads::Hashes => Depth::Hashes,
        Reads::Texts => Depth::Texts,
    }
}

/// Returns the effect of a rule on a run. Without `spec`, it's one of the run's own rules.
fn rule_result(
    spec: Option<&StopSpec>,
    first: &FirstStop,
    firsts: &Firsts,
    record: &Record,
    answered: Option<bool>,
) -> RuleResult {
    let last = record.last_step();
    let stop = first.stop.as_ref();
    let refused = first.refused.as_ref().map(|(step, _)| *step);
    if let Some((needs, from, latest)) = missing(spec, first, record, last) {
        return RuleResult {
            found: StopTiming::Unknown,
            detail: format!("not enough data: {needs}"),
            needs: Some(needs),
            unknown_from: Some(from),
            at_latest: latest,
            refused,
            answer_lost: None,
            ..nothing()
        };
    }
    let Some(stop) = stop else {
        return RuleResult {
            detail: not_reached(first, last),
            refused,
            ..nothing()
        };
    };
    let found = if stop.step < last || record.lost.is_some() || record.begun {
        StopTiming::Earlier
    } else {
        StopTiming::Same
    };
    // A stop after the decision of the last step is at that step, but its actions and their results
    // would not exist.
    let end = record
        .facts
        .iter()
        .rev()
        .find(|facts| Some(facts.step) == last);
    let spares = found == StopTiming::Earlier || end.is_some_and(|end| stop.gate < end.reached);
    // A rule that accepts the recorded answer at the recorded step ends the run as recorded.
    let cuts = spares && (found == StopTiming::Earlier || stop.outcome != Outcome::Completed);
    RuleResult {
        found,
        step: stop.step,
        gate: Some(stop.gate),
        code: Some(stop.code.clone()),
        detail: in_words(&stop.reading),
        saved: if spares {
            saved(stop, firsts.end, record)
        } else {
            Saved::NONE
        },
        cuts,
        answer_lost: if cuts && stop.outcome != Outcome::Completed {
            answered
        } else {
            Some(false)
        },
        refused,
        ..nothing()
    }
}

/// Formats a comparison for display. A rule with more detail provides its own text.
fn in_words(reading: &Reading) -> String {
    let number =
        |number: &Option<serde_json::Number>| number.as_ref().and_then(serde_json::Number::as_f64);
    let plain = matches!(&*reading.unit, "ms" | "steps" | "rounds" | "tokens");
    let (Some(measured), Some(limit), true) =
        (number(&reading.measured), number(&reading.limit), plain)
    else {
        return reading.detail.to_string();
    };
    if reading.detail.contains("partly estimated") {
        let (measured, limit) = (
            amount(measured, &reading.unit),
            limit_beside(limit, &reading.unit),
        );
        format!("{measured} (partly estimated), limit {limit}")
    } else {
        compared(measured, limit, &reading.unit)
    }
}

fn nothing() -> RuleResult {
    RuleResult {
        found: StopTiming::NotReached,
        step: None,
        step_id: None,
        gate: None,
        code: None,
        detail: String::new(),
        saved: Saved::default(),
        cuts: false,
        answer_lost: Some(false),
        needs: None,
        unknown_from: None,
        at_latest: None,
        refused: None,
        off: None,
    }
}

/// Returns why a rule can't be evaluated, the first step affected, and the latest step at which it
/// stops the run.
fn missing(
    spec: Option<&StopSpec>,
    first: &FirstStop,
    record: &Record,
    last: Option<u64>,
) -> Option<(String, u64, Option<u64>)> {
    let stopped = first.stop.as_ref().and_then(|stop| stop.step);
    if record.steps_unknown {
        return Some((STEPS_UNTOLD.to_owned(), 0, None));
    }
    if record.disordered {
        return Some((
            "the order of the steps is unknown because their lines are out of order".to_owned(),
            0,
            None,
        ));
    }
    let stopped_by = |step: u64| first.stop.is_some() && stopped <= Some(step);
    // A missing step may have interrupted a streak, so a later stop isn't an upper bound.
    if let Some(lost) = record
        .lost
        .filter(|lost| lost.from == 0 || !stopped_by(lost.from - 1))
    {
        return Some((lost.words(), lost.from, None));
    }
    if let Some(from) = record
        .foreign
        .filter(|from| *from == 0 || !stopped_by(*from - 1))
    {
        return Some((
            "steps.jsonl has more lines than the run had steps".to_owned(),
            from,
            None,
        ));
    }
    if let Some(unknown) = &first.unknown {
        return Some((
            format!("{} isn't recorded", unknown.needs),
            unknown.step,
            stopped,
        ));
    }
    // The run's own rules refused the same answer, so the recorded run is what followed.
    let own = record.rules.iter().flat_map(|rules| &rules.completion);
    let refused_too = spec.is_none_or(|spec| {
        own.into_iter()
            .any(|entry| entry.rule == EntryRule::Spec(spec.clone()))
    });
    let (refused, _) = first.refused.as_ref().filter(|_| !refused_too)?;
    let went_on = Some(*refused) < last && !stopped_by(*refused);
    let after = "what the run would have done after its answer was rejected is unknown".to_owned();
    went_on.then_some((after, *refused + 1, None))
}

fn not_reached(first: &FirstStop, last: Option<u64>) -> String {
    match &first.refused {
        _ if last.is_none() => "no steps ran".to_owned(),
        Some((_, miss)) if !miss.detail.is_empty() => {
            format!("rejects the recorded answer: {}", miss.detail)
        }
        Some(_) => "rejects the recorded answer".to_owned(),
        None => "not reached".to_owned(),
    }
}

fn saved(stop: &Stopped, end: Tally, record: &Record) -> Saved {
    let less = |(whole, part): (u64, u64)| whole.saturating_sub(part);
    let lost = record.lost.map_or(0, |lost| lost.count as u64) + u64::from(record.begun);
    // A run without recorded tokens is assumed to have used none, but may have used some.
    let tokens = end
        .tokens
        .filter(|tokens| *tokens > 0 || record.inferred.is_empty());
    // The usage of steps without a line is unknown.
    let spent = |whole: Option<u64>, part| whole.filter(|_| lost == 0).zip(part).map(less);
    Saved {
        steps: Some(end.ran.saturating_sub(stop.at.ran) + lost)
            .filter(|_| record.foreign.is_none()),
        tokens: spent(tokens, stop.at.tokens),
        ms: spent(end.ms, stop.at.ms),
    }
}

impl Saved {
    const NONE: Saved = Saved {
        steps: Some(0),
        tokens: Some(0),
        ms: Some(0),
    };
}

/// Returns the rule that would have ended the run if all applied together: the first in time and
/// then in order.
///
/// The rule is `None` if none stops the run. The second value is true if a rule that can't be
/// evaluated might have stopped the run at or before that step.
pub fn together(results: &[RuleResult]) -> (Option<(usize, &RuleResult)>, bool) {
    let stops =
        |result: &RuleResult| matches!(result.found, StopTiming::Earlier | StopTiming::Same);
    let first = results
        .iter()
        .enumerate()
        .filter(|(_, result)| stops(result));
    let first = first.min_by_key(|(_, result)| (result.step, result.gate));
    let until = first.map(|(_, result)| result.step);
    let open = |from: u64| until.is_none_or(|until| Some(from) <= until);
    (
        first,
        results
            .iter()
            .filter_map(|result| result.unknown_from)
            .any(open),
    )
}
