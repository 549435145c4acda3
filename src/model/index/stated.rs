//! Collects what all records of a run state about its end, its limits, its answer and its totals.
//!
//! Everything that shows one of these facts uses this module. No record takes precedence: where two
//! differ, the fact is disputed. A manifest left by an earlier run in the same directory states
//! nothing about the newest one.

use std::borrow::Cow;
use std::num::NonZeroU64;

use super::{Index, Segment, Stopping};
use crate::model::event::StopNote;
use crate::model::head::{answer_hash, non_text_answer_hash};
use crate::model::stated::{Agreement, Fact, Said, Source, Stated};
use crate::model::{Code, Manifest, Origin, Reading, StopReason, StopVerdict, end};

/// A manifest is finished within this many microseconds of its run's last event.
const LATE_MICROS: i64 = 1_000_000;

/// Writers round costs, to cents at the coarsest, and sum the costs of steps in a different order.
const MOST_DECIMALS_USD: i32 = 2;
const ROUNDED_PART: f64 = 0.005;
/// The tolerances for the difference between two clocks of one run. It may be up to one second, but
/// at most half of the longer time. For a long run it may be a tenth. For the shortest runs it may
/// be the time that a slow disk takes to write the last record.
const CLOCK_MS: f64 = 1_000.0;
const CLOCK_PART: f64 = 0.1;
const WRITING_MS: f64 = 200.0;

/// An answer as one record states it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Answer<'a> {
    /// The text, as far as it's kept. Empty if the record contains an empty answer, or for a step,
    /// whose answer is kept as a hash. If the answer isn't a text, this is the value or its type.
    pub text: &'a str,
    /// The hash of the answer.
    pub hash: NonZeroU64,
    /// The step that gave the answer, if a step states it.
    pub step: Option<usize>,
    /// The kind of value.
    pub sort: AnswerSort,
}

/// The kind of value that a record contains as its answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AnswerSort {
    /// A text, which may be empty.
    Text,
    /// `null`.
    Null,
    /// A value that isn't a text.
    Other,
}

impl<'a> Answer<'a> {
    fn of(text: &'a str) -> Self {
        Self {
            text,
            hash: answer_hash(text),
            step: None,
            sort: AnswerSort::Text,
        }
    }

    /// Creates an answer from a value that isn't a text.
    fn odd(said: &'a Said) -> Self {
        let (text, sort) = match said {
            Said::Other(words) => (&**words, AnswerSort::Other),
            _ => ("", AnswerSort::Null),
        };
        Self {
            text,
            hash: non_text_answer_hash(said),
            step: None,
            sort,
        }
    }

    /// Returns whether the answer is a text that isn't blank, or a value of another type.
    pub fn is_filled(&self) -> bool {
        match self.sort {
            AnswerSort::Text => self.step.is_some() || !self.text.trim().is_empty(),
            AnswerSort::Null => false,
            AnswerSort::Other => true,
        }
    }
}

/// A recorded stop that the run ignored: it continued after the event.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Ignored<'a> {
    /// The event.
    pub event: usize,
    /// The recorded id of the step in which it came.
    pub step: Option<i64>,
    /// The content of the event.
    pub stopping: &'a Stopping,
}

/// Returns whether two words mean the same stop reason.
pub fn is_same_reason(a: &str, b: &str) -> bool {
    let (one, other) = (StopReason::parse(a), StopReason::parse(b));
    a == b || (one == other && one != StopReason::Other)
}

/// Returns whether two figures of the same total differ no more than clocks and rounding explain.
pub fn is_same_total(unit: &str, a: f64, b: f64) -> bool {
    let (apart, most) = ((a - b).abs(), a.abs().max(b.abs()));
    match unit {
        "usd" => apart <= rounding(a).max(rounding(b)) + most * ROUNDED_PART,
        "ms" => {
            apart
                <= CLOCK_MS
                    .min(most / 2.0)
                    .max(most * CLOCK_PART)
                    .max(WRITING_MS)
        }
        _ => apart < 0.5,
    }
}

/// Returns how far a figure in US dollars may be from the unrounded value, judging by its decimals.
fn rounding(value: f64) -> f64 {
    if value == 0.0 {
        return 0.0;
    }
    let written = value.to_string();
    let decimals = written
        .split_once('.')
        .map_or(0, |(_, decimals)| decimals.len());
    let decimals = i32::try_from(decimals)
        .unwrap_or(i32::MAX)
        .max(MOST_DECIMALS_USD);
    0.5 * 0.1_f64.powi(decimals.min(18))
}

impl Index {
    /// Returns the manifest, if the newest run wrote it. An unfinished manifest is always the
    /// newest run's.
    pub fn manifest_of_end(&self) -> Option<&Manifest> {
        let is_newest = |manifest: &&Manifest| {
            manifest.ended.is_some() || !manifest.is_final() || !self.is_from_earlier_run(manifest)
        };
        self.manifest.get().filter(is_newest)
    }

    /// Returns whether the directory was reused: events follow well after the manifest was
    /// finished, or another run began after it.
    pub fn is_from_earlier_run(&self, manifest: &Manifest) -> bool {
        let Some(finished) = manifest.updated_at else {
            return false;
        };
        let is_second = self.segments.len() > 1;
        let begun = self
            .segment()
            .filter(|_| is_second)
            .and_then(|segment| segment.span)
            .map(|(first, _)| first);
        let is_later =
            |event: Option<i64>, by| event.is_some_and(|event| event > finished.saturating_add(by));
        is_later(self.last_ts, LATE_MICROS) || is_later(begun, 0)
    }

    /// Returns whether the events of the newest run are out of order: both their times and their
    /// step ids go back.
    pub fn is_disordered(&self) -> bool {
        let Some(segment) = self.segment() else {
            return false;
        };
        let newest = self.group_runs.starts().last();
        segment.goes_back.is_some() && newest.is_some_and(|start| *start > segment.first_group)
    }

    /// Returns why the newest run ended, as a word. A stop check or a critic counts if no step
    /// follows it and an END event or a manifest also records an end.
    pub fn end(&self) -> Agreement<&str> {
        let mut stated: Vec<Stated<&str>> = Vec::new();
        let mut add = |value, source| stated.push(Stated { value, source });
        if let Some(manifest) = self.manifest_of_end() {
            let words = manifest
                .statements
                .iter()
                .filter(|statement| statement.fact == Fact::End);
            for statement in words {
                if let Said::Text(word) = &statement.said {
                    add(word, statement.source.clone());
                }
            }
            let stop = manifest
                .stop
                .as_deref()
                .map(|stop| (stop, Source::manifest("/stop/code")));
            stop.into_iter()
                .for_each(|(stop, source)| add(reason_of(stop), source));
        }
        let Some(segment) = self.segment() else {
            return Agreement::of(stated, |a, b| is_same_reason(a, b));
        };
        for (at, stopping) in self.stops_of(segment) {
            let Stopping::End(end) = stopping else {
                continue;
            };
            let source = |field| self.source("the END event", at, field);
            end.reason
                .as_deref()
                .into_iter()
                .for_each(|word| add(word, source("/payload/stop_reason")));
            end.stop
                .as_deref()
                .into_iter()
                .for_each(|stop| add(reason_of(stop), source("/payload/stop/code")));
        }
        if stated.is_empty() {
            return Agreement::Unknown;
        }
        // In board's engine, a stop reason in the agent's state counts before the critics.
        let is_agents = || {
            let stops = self.recorded_stops();
            stops
                .iter()
                .any(|(stop, _)| stop.source == end::Source::Agent)
        };
        for (at, stopping) in self
            .stops_of(segment)
            .filter(|(at, _)| self.is_last(segment, *at))
        {
            let (who, field, word) = match stopping {
                Stopping::Check(StopNote {
                    reason: Some(reason),
                    ..
                }) => ("the stop check", "/payload/stop_reason", &**reason),
                Stopping::Critic(_) if is_agents() => continue,
                Stopping::Critic(_) => ("the critics' event", "/phase", "critic_stop"),
                Stopping::Check(_) | Stopping::End(_) => continue,
            };
            stated.push(Stated {
                value: word,
                source: self.source(who, at, field),
            });
        }
        Agreement::of(stated, |a, b| is_same_reason(a, b))
    }

    /// Returns the recorded stops that the newest run ignored. The list is empty if the order of
    /// events is unknown.
    pub fn ignored_stops(&self) -> Vec<Ignored<'_>> {
        let Some(segment) = self.segment().filter(|_| !self.is_disordered()) else {
            return Vec::new();
        };
        let ignored = self
            .stops_of(segment)
            .filter(|(at, _)| !self.is_last(segment, *at));
        ignored
            .map(|(event, stopping)| {
                let step = self
                    .group_at(event)
                    .and_then(|group| self.groups.get(group)?.step_id);
                let named = || self.events.get(event).and_then(|event| event.step_id);
                Ignored {
                    event,
                    step: step.or_else(named),
                    stopping,
                }
            })
            .collect()
    }

    /// Returns the limit of the newest run in this unit. A recorded limit that the task didn't set
    /// overrides the task's.
    pub fn limit(&self, unit: &'static str) -> Agreement<f64> {
        let manifest = self.manifest_of_end();
        let mut stated: Vec<Stated<f64>> = Vec::new();
        let held = manifest
            .and_then(|manifest| manifest.budget)
            .and_then(|budget| match unit {
                "steps" => Some((budget.steps?, "/stop_rules/budget/steps")),
                "tokens" => Some((budget.tokens?, "/stop_rules/budget/tokens")),
                "ms" => Some((budget.time_ms?, "/stop_rules/budget/time_ms")),
                _ => None,
            });
        let mut add = |value: f64, source| stated.push(Stated { value, source });
        let own = |stop: &StopVerdict| code_of(unit).is_some_and(|code| stop.code == code);
        let of_stop = |stop: &StopVerdict| stop.reading.limit().filter(|_| own(stop));
        if let Some(limit) = manifest.and_then(|manifest| of_stop(manifest.stop.as_deref()?)) {
            add(limit, Source::manifest("/stop/limit"));
        }
        for statement in manifest
            .into_iter()
            .flat_map(|manifest| &manifest.statements)
        {
            let is_held = held.is_some_and(|(held, _)| held.from != Origin::Task);
            if let (Fact::Limit(of), Said::Number(limit)) = (statement.fact, &statement.said)
                && of == unit
                && !is_held
            {
                add(*limit, statement.source.clone());
            }
        }
        if let Some((held, field)) = held {
            add(held.limit as f64, Source::manifest(field));
        }
        if self.format().is_one_file() {
            let ended = manifest
                .and_then(|manifest| manifest.ended.as_deref())
                .filter(|ended| ended.unit == unit);
            let source = Source {
                who: "the trace",
                file: "",
                line: None,
                field: Cow::Borrowed("end record"),
            };
            let stated_before = stated
                .iter()
                .any(|stated| ended.is_some_and(|ended| ended.limit == Some(stated.value)));
            let limit = ended
                .and_then(|ended| ended.limit)
                .filter(|_| !stated_before);
            stated.extend(limit.map(|value| Stated { value, source }));
            return Agreement::of(stated, |a, b| a == b);
        }
        let Some(segment) = self.segment() else {
            return Agreement::of(stated, |a, b| a == b);
        };
        if let Some((at, init)) = segment
            .init
            .as_ref()
            .filter(|_| held.is_none_or(|(held, _)| held.from == Origin::Task))
        {
            let (limit, field) = match unit {
                "steps" => (
                    init.max_steps.map(|steps| steps as f64),
                    "/payload/task_meta/budget/max_steps",
                ),
                "tokens" => (
                    init.max_tokens.map(|tokens| tokens as f64),
                    "/payload/task_meta/budget/max_tokens",
                ),
                "ms" => (
                    init.max_seconds.map(|s| s * 1e3),
                    "/payload/task_meta/budget/max_runtime_seconds",
                ),
                _ => (None, ""),
            };
            limit
                .into_iter()
                .for_each(|limit| add(limit, self.source("the INIT event", *at, field)));
        }
        for (at, stopping) in self.stops_of(segment) {
            if let Stopping::End(end) = stopping
                && let Some(limit) = end.stop.as_deref().and_then(of_stop)
            {
                add(
                    limit,
                    self.source("the END event", at, "/payload/stop/limit"),
                );
            }
        }
        Agreement::of(stated, |a, b| a == b)
    }

    /// Returns the limit that ended the newest run, by its recorded verdicts. If the budget ended
    /// it, the statements of the budget count too.
    pub fn limit_of_stop(&self) -> Agreement<f64> {
        let stops = self.recorded_stops();
        let Some((first, _)) = stops.first() else {
            return Agreement::Unknown;
        };
        if let Some(unit) = unit_of(&first.code) {
            return self.limit(unit);
        }
        let limit = |(stop, source): &(&StopVerdict, Source)| {
            Some(Stated {
                value: stop.reading.limit()?,
                source: field_of(source, "limit"),
            })
        };
        Agreement::of(stops.iter().filter_map(limit).collect(), |a, b| a == b)
    }

    /// Returns the answer of the newest run. A step's answer counts if the run ended with that
    /// step. If the run ended with an answer, a record without one counts too.
    pub fn answer(&self) -> Agreement<Answer<'_>> {
        let mut stated: Vec<Stated<Answer<'_>>> = Vec::new();
        let is_answered = self
            .end()
            .agreed()
            .is_some_and(|word| StopReason::parse(word).says_answered());
        let manifest = self.manifest_of_end();
        // A manifest of a run that hasn't ended has no answer yet.
        let is_final = manifest.is_some_and(Manifest::is_final);
        for statement in manifest
            .into_iter()
            .flat_map(|manifest| &manifest.statements)
        {
            let value = match (statement.fact, &statement.said) {
                (Fact::Answer, Said::Text(text)) => Answer::of(text),
                (Fact::Answer, said) if is_answered && is_final => Answer::odd(said),
                _ => continue,
            };
            stated.push(Stated {
                value,
                source: statement.source.clone(),
            });
        }
        // For another tool's run, its reader determines the answer.
        if self.format().is_one_file() {
            let kept = self
                .manifest
                .get()
                .and_then(|manifest| manifest.final_result.as_deref());
            let source = Source {
                who: "the trace",
                file: "",
                line: None,
                field: Cow::Borrowed("final answer"),
            };
            stated.extend(kept.map(|text| Stated {
                value: Answer::of(text),
                source,
            }));
            return Agreement::of(stated, |a, b| a.hash == b.hash);
        }
        let last_check = self.segment().and_then(|segment| {
            let mut checks = self
                .stops_of(segment)
                .filter(|(at, _)| self.is_last(segment, *at));
            checks.rfind(|(_, stopping)| matches!(stopping, Stopping::Check(_)))
        });
        if let Some((at, Stopping::Check(note))) = last_check {
            let odd = note
                .non_text_answer
                .as_ref()
                .filter(|_| is_answered)
                .map(Answer::odd);
            let value = note.answer.as_deref().map(Answer::of).or(odd);
            let source = || self.source("the stop check", at, "/payload/final_result");
            stated.extend(value.map(|value| Stated {
                value,
                source: source(),
            }));
        }
        // An answer that wasn't accepted isn't the run's.
        if is_answered
            && !stated.is_empty()
            && let Some((n, step)) = self.last_answer()
            && let Some(hash) = step.answer
        {
            let is_decided = self.name(step.mode) == "final";
            let field = if is_decided {
                "/decision/final_answer"
            } else {
                "/state_diff/final_result/after"
            };
            let (who, file) = ("the last step", "steps.jsonl");
            let source = Source {
                who,
                file,
                line: Some(step.line),
                field: Cow::Borrowed(field),
            };
            // The head of a step shows the start of a text.
            let is_text =
                !is_decided || step.call.starts_with("answer:") || hash == answer_hash("");
            let sort = match hash == non_text_answer_hash(&Said::Null) {
                true => AnswerSort::Null,
                false if is_text || step.actions > 0 => AnswerSort::Text,
                false => AnswerSort::Other,
            };
            stated.push(Stated {
                value: Answer {
                    text: "",
                    hash,
                    step: Some(n),
                    sort,
                },
                source,
            });
        }
        Agreement::of(stated, |a, b| a.hash == b.hash)
    }

    /// Returns the last step of the newest run, if it decided on an answer or left one in the
    /// state.
    fn last_answer(&self) -> Option<(usize, &super::StepHead)> {
        let n = self.last_step()?;
        let step = self.steps.get(n).filter(|step| !step.is_abandoned)?;
        (self.name(step.mode) == "final" || step.answer.is_some()).then_some((n, step))
    }

    /// Returns the totals in this unit that the manifest and the verdicts state for the newest run.
    /// The caller adds the sums over steps.
    pub fn stated_totals(&self, unit: &'static str) -> Vec<Stated<f64>> {
        let mut stated: Vec<Stated<f64>> = Vec::new();
        let statements = self
            .manifest_of_end()
            .into_iter()
            .flat_map(|manifest| &manifest.statements);
        for statement in statements {
            if let (Fact::Total(of), Said::Number(total)) = (statement.fact, &statement.said)
                && of == unit
            {
                stated.push(Stated {
                    value: *total,
                    source: statement.source.clone(),
                });
            }
        }
        for (stop, source) in self.recorded_stops() {
            // If the number's unit isn't the one that the code counts, it's a total of neither.
            let is_of_unit =
                unit_of(&stop.code) == Some(unit) && ["", unit].contains(&&*stop.reading.unit);
            if let Some(total) = stop.reading.measured().filter(|_| is_of_unit) {
                stated.push(Stated {
                    value: total,
                    source: field_of(&source, "measured"),
                });
            }
        }
        stated
    }

    /// Returns the verdict that ended the newest run, if all its records agree on code and outcome.
    /// Fields that differ are blank.
    pub fn stop(&self) -> Option<&StopVerdict> {
        self.stop.as_deref()
    }

    /// Returns the recorded verdicts of the newest run with their sources.
    pub fn recorded_stops(&self) -> Vec<(&StopVerdict, Source)> {
        let of_manifest = self
            .manifest_of_end()
            .and_then(|manifest| manifest.stop.as_deref());
        let mut stops: Vec<_> = of_manifest
            .map(|stop| (stop, Source::manifest("/stop")))
            .into_iter()
            .collect();
        for (at, stopping) in self
            .segment()
            .into_iter()
            .flat_map(|segment| self.stops_of(segment))
        {
            if let Stopping::End(end) = stopping
                && let Some(stop) = end.stop.as_deref()
            {
                stops.push((stop, self.source("the END event", at, "/payload/stop")));
            }
        }
        stops
    }

    pub(super) fn settle_stop(&mut self) {
        self.stop = self.agreed_stop().map(Box::new);
    }

    fn agreed_stop(&self) -> Option<StopVerdict> {
        let stops = self.recorded_stops();
        let ((first, _), others) = stops.split_first()?;
        if others.iter().any(|(other, _)| other.code != first.code)
            || self.end().disputed().is_some()
        {
            return None;
        }
        let mut agreed = StopVerdict::clone(first);
        others
            .iter()
            .for_each(|(other, _)| agree(&mut agreed, other));
        if others
            .iter()
            .any(|(other, _)| other.outcome != first.outcome)
        {
            // If the outcomes differ, only the code's own meaning is undisputed.
            agreed.outcome = agreed.code.outcome(&agreed.source);
        }
        if others.iter().any(|(other, _)| other.step != first.step) {
            // If the steps differ, take the one that the step lines show as the last.
            let last = self
                .steps
                .last()
                .filter(|_| self.newest_start() < self.steps.len())
                .and_then(|step| step.step_id);
            agreed.step = stops
                .iter()
                .find(|(stop, _)| stop.step_id() == last && last.is_some())?
                .0
                .step;
        }
        if self.limit_of_stop().disputed().is_some() {
            agreed.reading = Reading {
                limit: None,
                detail: Cow::Borrowed(""),
                ..agreed.reading
            };
        }
        Some(agreed)
    }

    /// Returns the events of a run that say that it stops.
    fn stops_of<'a>(
        &'a self,
        segment: &'a Segment,
    ) -> impl DoubleEndedIterator<Item = (usize, &'a Stopping)> {
        segment.stops.iter().map(|(at, stopping)| (*at, stopping))
    }

    /// Returns whether no group of the run begins after event `at`.
    fn is_last(&self, segment: &Segment, at: usize) -> bool {
        self.is_disordered()
            || self
                .groups
                .last()
                .is_none_or(|group| group.first <= at || group.first < segment.first_event)
    }

    fn source(&self, who: &'static str, at: usize, field: &'static str) -> Source {
        let line = self.events.get(at).map(|event| event.line);
        Source {
            who,
            file: "events.jsonl",
            line,
            field: Cow::Borrowed(field),
        }
    }
}

fn field_of(source: &Source, name: &str) -> Source {
    Source {
        field: format!("{}/{name}", source.field).into(),
        ..source.clone()
    }
}

/// Returns the coarse reason of a verdict, derived from its code.
fn reason_of(stop: &StopVerdict) -> &str {
    // The name of a custom rule doesn't tell the reason.
    let is_own_word = stop.code.as_str() == stop.stop_reason;
    if is_own_word || matches!(stop.code, Code::Custom(_)) {
        &stop.stop_reason
    } else {
        stop.code.stop_reason(&stop.source)
    }
}

fn code_of(unit: &str) -> Option<Code> {
    match unit {
        "steps" => Some(Code::BudgetSteps),
        "tokens" => Some(Code::BudgetTokens),
        "ms" => Some(Code::BudgetTime),
        _ => None,
    }
}

fn unit_of(code: &Code) -> Option<&'static str> {
    ["steps", "tokens", "ms"]
        .into_iter()
        .find(|unit| code_of(unit).is_some_and(|of| of == *code))
}

/// Clears the fields of `agreed` that differ in `other`.
fn agree(agreed: &mut StopVerdict, other: &StopVerdict) {
    fn clear<T: PartialEq + Default>(mine: &mut T, other: &T) {
        if *mine != *other {
            *mine = T::default();
        }
    }
    clear(&mut agreed.criterion, &other.criterion);
    clear(&mut agreed.gate, &other.gate);
    if agreed.source != other.source {
        agreed.source = crate::model::Source::Other(Box::default());
    }
    clear(&mut agreed.limit_from, &other.limit_from);
    clear(&mut agreed.also, &other.also);
    let (reading, of) = (&mut agreed.reading, &other.reading);
    clear(&mut reading.measured, &of.measured);
    clear(&mut reading.limit, &of.limit);
    clear(&mut reading.op, &of.op);
    clear(&mut reading.unit, &of.unit);
    clear(&mut reading.detail, &of.detail);
    clear(&mut reading.evidence, &of.evidence);
}
