//! Infers the facts that stop rules look at for runs that don't record them, from step heads and
//! events.

use std::borrow::Cow;

use super::{Depth, Record, actions, answer, critics};
use crate::format;
use crate::model::index::{Group, Segment};
use crate::model::json::walk;
use crate::model::step::Value;
use crate::model::{
    EventHead, EventKind, Index, Lines, Manifest, Outcome, StepHead, StopReason, TraceFile,
};
use crate::stop::{Code, Gate, Phase, Source, StepError, StepFacts, Text, Usage};

/// Describes the facts that are inferred rather than read.
const INFERRED: &[&str] = &[
    "times come from event timestamps (the recording machine's clock)",
    "the state counts as changed if state_diff names a field, and as unknown if an observation shows any other change",
    "a step counts as failed if the engine hit an error or its only call failed (a return code alone doesn't count)",
];

/// A further inference for runs that record tokens and whose steps need not call a model.
const SCRIPTED: &str = "a step without a model request is assumed to have used no tokens";

/// A further inference for runs whose records include those of sub-agents.
const NESTED: &str = "sub-agent replies inside a call aren't counted as steps of the run, and their usage is added to the step that made the call";

/// Returns the facts of these steps, without those of sub-agents.
pub(super) fn record<'a>(
    index: &'a Index,
    (steps, count): (impl Iterator<Item = (usize, &'a StepHead)> + Clone, usize),
    lines: &dyn Lines,
    depth: Depth,
) -> Record {
    let segments = index.newest_segments();
    let origin = segments
        .first()
        .and_then(|segment| segment.span)
        .map(|(first, _)| first);
    let clock_until = segments
        .iter()
        .find_map(|segment| segment.goes_back)
        .unwrap_or(usize::MAX);
    // If all steps are nested, the records don't show in which step.
    let is_whole = steps.clone().any(|(_, head)| !head.is_nested);
    // If no step records tokens, any step may have used some.
    let says_tokens =
        |(_, head): (usize, &StepHead)| head.tokens.is_some() || head.tokens_total > Some(0);
    let scripted_is_free = !index.format().is_one_file() && steps.clone().any(says_tokens);
    let mut builder = FactsBuilder {
        index,
        origin,
        clock_until,
        changes: 0,
        scripted_is_free,
    };
    let mut record = Record {
        inferred: INFERRED.to_vec(),
        ..Record::default()
    };
    record.facts.reserve_exact(count + 1);
    if scripted_is_free {
        record.inferred.push(SCRIPTED);
    }
    for (ordinal, head) in steps {
        if is_whole && head.is_nested {
            let (usage, cost_usd) = (builder.usage(ordinal, false), head.cost_usd);
            let nested = StepFacts {
                usage,
                cost_usd,
                ..StepFacts::unknown(ordinal as u64)
            };
            record
                .nested
                .push((record.facts.len().saturating_sub(1), nested));
            continue;
        }
        let mut facts = builder.step(ordinal, head);
        let is_read =
            depth == Depth::Heads || builder.texts(ordinal, head, lines, &mut facts).is_ok();
        record.unread += usize::from(!is_read || facts.is_unread);
        record.facts.push(facts);
    }
    if let Some(segment) = index.segment() {
        builder.end(segment, &mut record.facts);
    }
    builder.answered(&mut record.facts);
    if !record.nested.is_empty() {
        record.inferred.push(NESTED);
        record.count_nested();
    }
    record
}

/// Collects facts from the records of one run, in order.
struct FactsBuilder<'a> {
    index: &'a Index,
    /// The start of the run; microseconds since the Unix epoch.
    origin: Option<i64>,
    /// The event at which the clock went back.
    clock_until: usize,
    /// The number of state changes seen so far.
    changes: u64,
    /// Whether a step that didn't call a model used no tokens.
    scripted_is_free: bool,
}

impl<'a> FactsBuilder<'a> {
    /// Returns the time of an event since the start of the run; milliseconds.
    fn ms(&self, at: usize) -> Option<u64> {
        self.since(
            self.index
                .events()
                .get(at)
                .filter(|_| at < self.clock_until)?
                .ts?,
        )
    }

    fn since(&self, ts: i64) -> Option<u64> {
        u64::try_from(ts.checked_sub(self.origin?)? / 1000).ok()
    }

    /// Returns when a step ended: at its last event, or when the last activity that its events
    /// began was over.
    fn ended(&self, group: &Group) -> Option<u64> {
        let until = group
            .until
            .filter(|_| group.end <= self.clock_until)
            .and_then(|ts| self.since(ts));
        self.ms(group.end.checked_sub(1)?).max(until)
    }

    fn step(&mut self, ordinal: usize, head: &StepHead) -> StepFacts {
        let group = self.index.round_of(ordinal);
        let asked = self.events(group, EventKind::Prompt).next().is_some();
        // Without events, it's unknown whether a step called a model. A step of another tool is a
        // model's reply.
        let scripted = group.is_some() && !asked && !self.index.format().is_one_file();
        let candidate = self.index.name(head.mode) == "final";
        let is_unread = !head.fate.is_readable();
        let is_told = !is_unread
            && head.outside.is_empty()
            && self.index.format().tells_each_change()
            && (head.has_state_diff || self.index.format().is_one_file());
        self.changes += u64::from(!head.changed.is_empty() || !is_told);
        let usage = self.usage(ordinal, scripted);
        let error = self.error(group, head);
        // The engine's own errors are recorded only in events.
        let is_error_untold =
            error.is_none() && !self.index.format().is_one_file() && group.is_none();
        StepFacts {
            t_start_ms: group.and_then(|group| self.ms(group.first)),
            t_decided_ms: group.and_then(|group| {
                let events = self.index.events().range(group.first..group.end);
                self.ms(group.first
                    + events
                        .clone()
                        .position(|event| event.kind == EventKind::Decided)?)
            }),
            t_end_ms: group.and_then(|group| self.ended(group)),
            usage,
            text: if scripted {
                Text::default()
            } else {
                Text::Unknown
            },
            actions: actions(self.index, head).filter(|_| !is_unread),
            candidate,
            final_answer: candidate.then(|| answer(head)),
            cost_usd: head.cost_usd,
            is_error_untold: is_error_untold || (is_unread && error.is_none()),
            is_unread,
            error,
            signature: is_told.then_some(self.changes),
            critics: critics(self.index, head),
            ..StepFacts::unknown(ordinal as u64)
        }
    }

    /// Returns the tokens of the step.
    fn usage(&self, ordinal: usize, scripted: bool) -> Option<Usage> {
        // No rule distinguishes input from output.
        let usage = self
            .index
            .tokens_of(ordinal)
            .map(|tokens| Usage::reported(tokens, 0));
        usage.or_else(|| (scripted && self.scripted_is_free).then(Usage::default))
    }

    fn error(&self, group: Option<&Group>, head: &StepHead) -> Option<StepError> {
        if let Some((phase, message)) = group.and_then(|group| group.error.as_ref()) {
            let phase = match self.index.name(*phase) {
                "DECIDE_ERROR" => Phase::Decide,
                "ACT_ERROR" => Phase::Act,
                // A failure of the environment is a result like a tool's, and the step continues.
                "ACT" => return None,
                _ => Phase::Reduce,
            };
            return Some(StepError {
                phase,
                message: message.to_string(),
                recovered: true,
            });
        }
        let of_call = head.error.as_deref().filter(|_| head.actions == 1);
        let message = of_call.map(str::to_owned);
        let of_call = message.map(|message| StepError {
            phase: Phase::Act,
            message,
            recovered: true,
        });
        of_call.or_else(|| {
            if group.is_none() {
                self.reported(head)
            } else {
                None
            }
        })
    }

    /// Returns the error that the manifest records for a step without events.
    fn reported(&self, head: &StepHead) -> Option<StepError> {
        let manifest = self
            .index
            .manifest()
            .get()
            .filter(|_| self.index.segments().len() <= 1)?;
        let failure = manifest
            .failures
            .iter()
            .find(|failure| failure.step_id.is_some() && failure.step_id == head.step_id)?;
        let phase = match &*failure.phase {
            "DECIDE" => Phase::Decide,
            "ACT" => Phase::Act,
            _ => Phase::Reduce,
        };
        Some(StepError {
            phase,
            message: failure.message.to_string(),
            recovered: true,
        })
    }

    /// Reads the texts of a step: the full answer from its line, and the model's text from its
    /// event. Since QitOS 0.6, the model's text on the line is blanked.
    fn texts(
        &self,
        ordinal: usize,
        head: &StepHead,
        lines: &dyn Lines,
        facts: &mut StepFacts,
    ) -> Result<(), String> {
        if facts.candidate
            || head
                .changed
                .iter()
                .any(|key| self.index.name(*key) == "final_result")
        {
            let record = lines.record(TraceFile::Steps, head.span)?;
            let step = format::step(&record).ok_or("the line isn't a step")?;
            let text = |value: Value<'_>| value.string().map(Cow::into_owned);
            let decided = step.decision.as_ref().filter(|_| facts.candidate);
            let set = || {
                let changes = step.changes?;
                let change = changes
                    .iter()
                    .filter(|change| change.key == "final_result")
                    .last()?;
                walk::string(change.after()?).map(Cow::into_owned)
            };
            facts.final_answer = decided
                .and_then(|decision| decision.answer)
                .and_then(text)
                .or_else(set);
        }
        if self.index.format().is_one_file() {
            let record = lines.record(TraceFile::Steps, head.span)?;
            let step = format::step(&record).ok_or("the line isn't a step")?;
            let text = step.text.and_then(Value::string).map(Cow::into_owned);
            facts.text = text.map(Text::Known).unwrap_or(if step.is_text_unknown {
                Text::Unknown
            } else {
                Text::default()
            });
        }
        let group = self.index.round_of(ordinal);
        if let Some(event) = self.events(group, EventKind::Output).last() {
            let record = lines.record(TraceFile::Events, event.span)?;
            let text = format::event(&record)
                .output
                .and_then(Value::string)
                .ok_or("the event has no output")?;
            facts.text = Text::Known(text.into_owned());
        }
        Ok(())
    }

    /// Adds what the recorded end shows about the last step. After a budget stop, adds the next
    /// step, which never ran.
    fn end(&self, segment: &Segment, facts: &mut Vec<StepFacts>) {
        let Some((at, end, _)) = &segment.end else {
            return;
        };
        let ended = self.ms(*at);
        let step = facts.last().map_or(0, |last| last.step + 1);
        let reason = end.reason.as_deref().map(StopReason::parse);
        let answer = segment
            .stop
            .as_ref()
            .and_then(|(_, stop)| stop.answer.as_deref());
        match (reason, facts.last_mut()) {
            (
                Some(StopReason::BudgetSteps | StopReason::BudgetTime | StopReason::BudgetTokens),
                _,
            ) => {
                let next = StepFacts {
                    reached: Gate::BeforeStep,
                    t_start_ms: ended,
                    ..StepFacts::unknown(step)
                };
                facts.push(next);
            }
            (Some(StopReason::AgentCondition), Some(last)) => last.agent_stop = true,
            (Some(StopReason::EnvTerminal), Some(last)) => last.env_terminal = true,
            (Some(StopReason::UnrecoverableError), Some(last)) => {
                if let Some(error) = &mut last.error {
                    error.recovered = false;
                }
            }
            (Some(StopReason::ContextOverflow), Some(last)) => {
                last.force(
                    Gate::AfterStep,
                    Source::Error,
                    Code::ContextOverflow,
                    "the request didn't fit the context window",
                );
            }
            (Some(StopReason::CancelledImmediate), Some(last)) => {
                last.force(
                    Gate::AfterStep,
                    Source::Cancel,
                    Code::CancelledImmediate,
                    "cancelled",
                );
            }
            (Some(StopReason::Success | StopReason::Final), Some(last)) if !last.candidate => {
                last.final_answer = last.final_answer.take().or(answer.map(str::to_owned));
            }
            _ => {}
        }
    }

    /// Adds the answer of another tool's run that completed, if the tool records it for the run but
    /// for no step. Such an answer is a submission, and it belongs to the last step.
    fn answered(&self, facts: &mut [StepFacts]) {
        let whole = |manifest: &&Manifest| self.index.format().is_one_file() && !manifest.is_cut;
        let Some(manifest) = self.index.manifest().get().filter(whole) else {
            return;
        };
        let is_well = manifest
            .ended
            .as_ref()
            .is_some_and(|end| end.outcome == Outcome::Completed);
        let answer = manifest.final_result.as_deref().filter(|_| is_well);
        let (Some(answer), Some(last)) = (answer, facts.last_mut()) else {
            return;
        };
        let head = usize::try_from(last.step)
            .ok()
            .and_then(|n| self.index.steps().get(n));
        // The writer of the trace may record a truncated reply as the answer.
        let is_cut = head.is_some_and(|head| format::is_at_limit(self.index.name(head.finish)));
        if !last.candidate && last.final_answer.is_none() && !is_cut {
            let (known, is_whole) = format::uncut(answer);
            (last.final_answer, last.is_answer_cut) = (Some(known.to_owned()), !is_whole);
        }
    }

    /// Returns the events of this kind in a group.
    fn events<'b>(
        &'b self,
        group: Option<&Group>,
        kind: EventKind,
    ) -> impl Iterator<Item = &'b EventHead> + use<'a, 'b> {
        let events = self
            .index
            .events()
            .range(group.map_or(0..0, |group| group.first..group.end));
        events.filter(move |event| event.kind == kind)
    }
}
