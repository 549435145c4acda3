//! Divides the time of a run into lanes: what the model, the tools and the user took, as far as the
//! times of events show.
//!
//! A time that isn't recorded makes no block, or a block without a duration. No time is estimated.

use std::collections::BTreeMap;

use super::newest::copied;
use super::timing::{began, stretches, took};
use super::turns::prompts;
use crate::model::event::EventKind;
use crate::model::index::Group;
use crate::model::{Index, StepHead, Symbol};

/// Who was busy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Lane {
    /// The model, from the request to its reply.
    Model,
    /// The tools, from the calls to their results.
    Tools,
    /// The engine, in another phase of its loop.
    Engine,
    /// A step whose time isn't divided.
    Steps,
    /// The user, from the end of a turn to the next prompt.
    User,
    /// The user, from a request for approval of a call to the answer.
    Approval,
    /// Steps of another agent that a call started, recorded in the same trace.
    Nested,
}

/// A time in which somebody was busy with one step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Block {
    /// Who was busy.
    pub lane: Lane,
    /// The beginning, in microseconds since the epoch.
    pub from: i64,
    /// The end.
    pub to: i64,
    /// Whether the time between them is known. If not, something happened at this time.
    pub is_timed: bool,
    /// The step, or the step that the user's prompt begins. `None` for a step without a record.
    pub step: Option<usize>,
    /// The engine's name of the phase, or the empty symbol if the trace has no phases.
    pub phase: Symbol,
    /// Whether it failed.
    pub is_failed: bool,
    /// Whether the step was copied from another run.
    pub is_copied: bool,
}

impl Block {
    /// Returns how long it took, in microseconds.
    pub(crate) fn took(&self) -> Option<i64> {
        self.is_timed.then(|| self.to.saturating_sub(self.from))
    }

    /// Returns whether the agent waited for a person.
    pub(crate) fn is_wait(&self) -> bool {
        matches!(self.lane, Lane::User | Lane::Approval)
    }

    /// Removes waits for approval from a block of `step`, and returns the remaining blocks. The waits
    /// must be sorted and must not overlap.
    fn without(self, waits: &[(i64, i64)], step: &StepHead) -> Vec<Self> {
        if !self.is_timed || self.is_wait() || self.lane == Lane::Nested {
            return vec![self];
        }
        let next = waits.partition_point(|(_, to)| *to <= self.from);
        let cut = waits.iter().skip(next);
        let mut cut = cut.take_while(|(from, _)| *from < self.to).peekable();
        if cut.peek().is_none() {
            return vec![self];
        }
        // A single call begins with the approval.
        let is_call = self.lane == Lane::Tools && step.actions == 1;
        let mut parts = Vec::new();
        let mut at = self.from;
        for (from, to) in cut {
            let before = Self {
                from: at,
                to: *from,
                ..self
            };
            parts.extend((before.from < before.to && !is_call).then_some(before));
            at = *to;
        }
        parts.extend((at < self.to).then_some(Self { from: at, ..self }));
        parts
    }
}

/// The lanes of a run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Lanes {
    /// All blocks, in order of their beginning.
    pub blocks: Vec<Block>,
    /// The beginning of each turn: its first step, and the time of its prompt or of the step. Empty
    /// if the trace doesn't record prompts.
    pub turns: Vec<(usize, i64)>,
    /// The number of steps without a block.
    pub untimed: usize,
    /// The number of steps whose model time isn't recorded, although their tool time or another part
    /// is.
    pub without_model: usize,
    /// Whether the times of tools run from the record of a call to the record of its result.
    pub is_tool_time_measured: bool,
}

/// The total of a lane.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct LaneTotal {
    /// Microseconds, if the duration of a block is known. Overlapping blocks count each.
    pub micros: Option<i64>,
    /// The number of blocks.
    pub blocks: usize,
    /// The number of blocks with an unknown duration.
    pub untimed: usize,
}

impl Lanes {
    /// Divides the time of all steps. A step in progress is one too.
    pub(crate) fn of(index: &Index) -> Self {
        let mut lanes = Self::default();
        let copied = copied(index).unwrap_or_default();
        let prompts = prompts(index);
        let mut prompts = prompts.iter().peekable();
        let mut approvals: BTreeMap<i64, i64> = merged(index.approvals()).into_iter().collect();
        // The end of everything before the step.
        let mut end: Option<i64> = None;
        for (n, step) in index.steps().iter().enumerate() {
            let mut prompt: Option<i64> = None;
            let mut is_turn = false;
            while let Some((_, ts)) = prompts.next_if(|(of, _)| *of <= n) {
                is_turn = true;
                // A prompt that was typed while the agent was busy waited for the agent.
                let is_later = |ts: &i64| end.is_none_or(|end| *ts > end);
                prompt = prompt.or(ts.filter(is_later));
            }
            let first = lanes.blocks.len();
            if let Some(group) = index.round_of(n) {
                let before = prompt.or(end.filter(|_| !is_turn));
                lanes.step(index, n, step, group, before);
                lanes.cut_approvals(first, step, &mut approvals);
            }
            let own = lanes.blocks.get_mut(first..).unwrap_or_default();
            own.iter_mut()
                .for_each(|block| block.is_copied = n < copied);
            lanes.untimed += usize::from(own.is_empty());
            if is_turn {
                let begins = prompt.or(own.iter().map(|block| block.from).min());
                lanes.turns.extend(begins.map(|begins| (n, begins)));
            }
            let until = own
                .iter()
                .filter(|block| block.lane != Lane::Nested)
                .map(|block| block.to)
                .max();
            if let Some((from, to)) = end.zip(prompt) {
                lanes.blocks.push(Block {
                    step: Some(n),
                    ..block(Lane::User, from, to)
                });
            }
            end = end.max(until);
        }
        let open = index
            .unfinished_group()
            .and_then(|at| index.groups().get(at));
        if let Some(group) = open {
            let first = lanes.blocks.len();
            let step = StepHead::default();
            lanes.phases(index, None, &step, group);
            lanes.cut_approvals(first, &step, &mut approvals);
        }
        lanes.blocks.sort_by_key(|block| (block.from, block.to));
        lanes
    }

    /// Returns the total of a lane, without steps that were copied from another run.
    pub(crate) fn total(&self, lane: Lane) -> LaneTotal {
        let own = self
            .blocks
            .iter()
            .filter(|block| block.lane == lane && !block.is_copied);
        own.fold(LaneTotal::default(), |total, block| LaneTotal {
            micros: match block.took() {
                Some(took) => Some(total.micros.unwrap_or_default().saturating_add(took)),
                None => total.micros,
            },
            blocks: total.blocks + 1,
            untimed: total.untimed + usize::from(!block.is_timed),
        })
    }

    /// Returns the time from the beginning of the first step to the end of the last one without the
    /// waits for the user, in microseconds. `None` if a step has no time.
    pub(crate) fn active(&self) -> Option<i64> {
        if self.untimed > 0 {
            return None;
        }
        let own = || self.blocks.iter().filter(|block| !block.is_copied);
        let from = own().map(|block| block.from).min()?;
        let to = own().map(|block| block.to).max()?;
        let waits: Vec<(i64, i64)> = own()
            .filter(|block| block.is_wait() && block.is_timed)
            .map(|block| (block.from, block.to))
            .collect();
        let waited = merged(&waits).into_iter().fold(0_i64, |sum, (from, to)| {
            sum.saturating_add(to.saturating_sub(from))
        });
        Some(to.saturating_sub(from).saturating_sub(waited))
    }

    /// Returns the duration of the calls of each step with one block of calls, in microseconds.
    pub(crate) fn calls_took(&self) -> BTreeMap<usize, i64> {
        let mut took: BTreeMap<usize, Option<i64>> = BTreeMap::new();
        for block in self.blocks.iter().filter(|block| block.lane == Lane::Tools) {
            let Some(n) = block.step else { continue };
            took.entry(n)
                .and_modify(|known| *known = None)
                .or_insert(block.took());
        }
        took.into_iter()
            .filter_map(|(n, took)| Some((n, took?)))
            .collect()
    }

    /// Divides a step. `before` is when the prompt came, or when the step before it was over.
    fn step(
        &mut self,
        index: &Index,
        n: usize,
        step: &StepHead,
        group: &Group,
        before: Option<i64>,
    ) {
        if step.is_nested {
            let span = began(index, group).zip(took(group));
            self.blocks.extend(span.map(|(from, took)| Block {
                step: Some(n),
                is_failed: has_failed(step),
                ..block(Lane::Nested, from, from + took)
            }));
        } else if index.format().is_one_file() {
            self.records(index, n, step, group, before);
        } else {
            self.phases(index, Some(n), step, group);
        }
    }

    /// Takes the waits for approval out of the blocks of a step, which begin at `first`. Takes these
    /// waits out of `approvals`, which maps the beginning of each to its end, so that a wait belongs
    /// to one step.
    fn cut_approvals(&mut self, first: usize, step: &StepHead, approvals: &mut BTreeMap<i64, i64>) {
        let own = self.blocks.get(first..).unwrap_or_default();
        let timed = || own.iter().filter(|block| block.is_timed);
        let span = timed()
            .map(|block| block.from)
            .min()
            .zip(timed().map(|block| block.to).max());
        let Some((began, ended)) = span.filter(|(began, ended)| began < ended) else {
            return;
        };
        let mut waits: Vec<(i64, i64)> = approvals
            .range(..ended)
            .rev()
            .take_while(|(_, to)| **to > began)
            .map(|(from, to)| (*from, *to))
            .collect();
        if waits.is_empty() {
            return;
        }
        waits.reverse();
        for (from, _) in &waits {
            approvals.remove(from);
        }
        let n = own.first().and_then(|block| block.step);
        let own: Vec<Block> = self.blocks.drain(first..).collect();
        self.blocks
            .extend(own.into_iter().flat_map(|one| one.without(&waits, step)));
        self.blocks
            .extend(waits.into_iter().map(|(from, to)| Block {
                step: n,
                ..block(Lane::Approval, from, to)
            }));
    }

    /// Divides a step by the phases of the engine that wrote its events.
    fn phases(&mut self, index: &Index, n: Option<usize>, step: &StepHead, group: &Group) {
        if began(index, group).is_none() {
            return;
        }
        let first = self.blocks.len();
        let failed_in = group.error.as_ref().map(|(phase, _)| *phase);
        for stretch in stretches(index, group) {
            let name = index.name(stretch.phase);
            let lane = match name {
                "DECIDE" | "DECIDE_ERROR" => Lane::Model,
                "ACT" | "ACT_ERROR" => Lane::Tools,
                _ => Lane::Engine,
            };
            let Some((from, took)) = stretch.started.zip(stretch.micros) else {
                continue;
            };
            let is_failed = failed_in == Some(stretch.phase)
                || lane == Lane::Tools && step.actions > 0 && has_failed(step);
            self.blocks.push(Block {
                step: n,
                phase: stretch.phase,
                is_failed,
                ..block(lane, from, from + took)
            });
        }
        let own = self.blocks.get(first..).unwrap_or_default();
        if own.iter().all(|block| block.lane == Lane::Engine) {
            self.blocks.truncate(first);
            self.whole(index, n, step, group);
        }
    }

    /// Adds a step whose time isn't divided.
    fn whole(&mut self, index: &Index, n: Option<usize>, step: &StepHead, group: &Group) {
        let span = began(index, group).zip(took(group));
        self.blocks.extend(span.map(|(from, took)| Block {
            step: n,
            is_failed: has_failed(step) || group.error.is_some(),
            ..block(Lane::Steps, from, from + took)
        }));
    }

    /// Divides a step by its records: replies, and results of its calls.
    fn records(
        &mut self,
        index: &Index,
        n: usize,
        step: &StepHead,
        group: &Group,
        before: Option<i64>,
    ) {
        // The request for the first step may be older than all records.
        let is_first = || {
            let mut segments = index.segments().iter();
            segments.any(|segment| segment.first_event == group.first)
        };
        let requested = began(index, group).or_else(|| group.started.filter(|_| is_first()));
        let Some(mut at) = requested else {
            return;
        };
        let first = self.blocks.len();
        let has_calls = step.actions > 0;
        let mut own: Vec<usize> = (group.first..group.end)
            .filter(|at| {
                index
                    .events()
                    .get(*at)
                    .is_some_and(|event| event.step_id == group.step_id)
            })
            // A part before the step only adds facts, such as the model of the turn.
            .chain(index.parts_of(n).flatten().filter(|at| *at >= group.first))
            .collect();
        own.sort_unstable();
        own.dedup();
        // The request is recorded if it's older than the first record.
        let replied = own.first().and_then(|first| index.events().get(*first)?.ts);
        let mut is_asked = replied.is_some_and(|replied| replied > at);
        // The agent of a session sends a request when the results before it or a prompt came.
        let before = before.filter(|before| *before < at && index.format().is_session);
        if let Some(before) = before.filter(|_| !is_asked) {
            (at, is_asked) = (before, true);
        }
        // The last block, as long as it may grow.
        let mut open: Option<Block> = None;
        let mut first_result = None;
        for event in own.iter().filter_map(|at| index.events().get(*at)) {
            let is_reply = event.kind != EventKind::Inside;
            if !is_reply && !has_calls {
                continue;
            }
            let Some(ts) = event.ts else { continue };
            if ts < at {
                // The clock went back, so no time of this step is certain.
                self.blocks.truncate(first);
                return;
            }
            let lane = if is_reply { Lane::Model } else { Lane::Tools };
            if !is_reply {
                first_result = first_result.or(Some(ts));
            }
            let from = match open {
                Some(known) if known.lane == lane => known.from,
                _ => {
                    self.blocks.extend(open.take());
                    at
                }
            };
            open = Some(Block {
                step: Some(n),
                is_timed: if is_reply { is_asked } else { ts > from },
                ..block(lane, from, ts)
            });
            // What follows the first reply was requested when the result before it came.
            is_asked |= !is_reply;
            at = ts;
        }
        self.blocks.extend(open);
        let own = self.blocks.get(first..).unwrap_or_default();
        let has_call_time = own
            .iter()
            .any(|block| block.lane == Lane::Tools && block.took() > Some(0));
        // A session records a result when its call ends, which is the end of the block already.
        if !index.format().is_session || !has_call_time {
            self.end_calls(step, group, first, first_result);
        }
        let own = self.blocks.get_mut(first..).unwrap_or_default();
        // A reply whose request isn't recorded is no block.
        let lacks_model = !own
            .iter()
            .any(|block| block.lane == Lane::Model && block.is_timed);
        let is_failed = has_failed(step);
        let is_of_reply = step.is_of_reply() && !step.is_interrupted();
        let has_tools = own.iter().any(|block| block.lane == Lane::Tools);
        for block in own.iter_mut() {
            block.is_failed = match block.lane {
                Lane::Tools => is_failed && !is_of_reply,
                _ => is_of_reply || is_failed && !has_tools,
            };
        }
        let kept = |block: &Block| block.lane != Lane::Model || block.is_timed;
        let own: Vec<Block> = self.blocks.drain(first..).filter(kept).collect();
        self.is_tool_time_measured |= own.iter().any(|block| block.lane == Lane::Tools);
        self.without_model += usize::from(lacks_model && !own.is_empty());
        self.blocks.extend(own);
        if self.blocks.len() == first {
            self.whole(index, Some(n), step, group);
        }
    }

    /// Sets the end of a step's calls, if the trace records it instead of the time of the results.
    fn end_calls(&mut self, step: &StepHead, group: &Group, first: usize, result: Option<i64>) {
        if step.actions == 0 {
            return;
        }
        // The longest call is a lower bound for all of them.
        let recorded = step
            .calls
            .iter()
            .filter_map(|call| call.ms())
            .reduce(f32::max);
        let recorded = recorded.map(|ms| (f64::from(ms) * 1e3) as i64);
        let own = self.blocks.get_mut(first..).unwrap_or_default();
        let replied = own
            .iter()
            .filter(|block| block.lane == Lane::Model)
            .map(|block| block.to)
            .max();
        let known = own.iter_mut().rev().find(|block| block.lane == Lane::Tools);
        let Some(from) = result.or(replied).or(group.started) else {
            return;
        };
        let to = match (group.until, recorded) {
            // These records have the time at which a call began.
            (Some(until), _) if until >= from => until,
            (_, Some(took)) => from.saturating_add(took),
            _ => return,
        };
        match known {
            Some(known)
                if group.until.is_none()
                    && known.to.saturating_sub(known.from) >= to.saturating_sub(from) => {}
            Some(known) => (known.from, known.to, known.is_timed) = (from, to.max(known.to), true),
            None => {
                let n = own.first().and_then(|block| block.step);
                self.blocks.push(Block {
                    step: n,
                    ..block(Lane::Tools, from, to)
                });
            }
        }
    }
}

/// Sorts time spans, and joins those that overlap. Those that only touch may belong to two steps.
fn merged(spans: &[(i64, i64)]) -> Vec<(i64, i64)> {
    let mut spans = spans.to_vec();
    spans.sort_unstable();
    let mut merged: Vec<(i64, i64)> = Vec::new();
    for (from, to) in spans {
        match merged.last_mut() {
            Some(last) if from < last.1 => last.1 = last.1.max(to),
            _ => merged.push((from, to)),
        }
    }
    merged
}

fn block(lane: Lane, from: i64, to: i64) -> Block {
    Block {
        lane,
        from,
        to,
        is_timed: true,
        step: None,
        phase: Symbol::default(),
        is_failed: false,
        is_copied: false,
    }
}

fn has_failed(step: &StepHead) -> bool {
    step.is_failed() || step.returncode.is_some()
}

#[cfg(test)]
mod tests;
