//! Counts the failed steps and calls of a run by tool and folded message, and what happened after
//! each.
//!
//! A run keeps a bounded list. Steps whose first message has no place in it are only counted.

pub mod message;

use serde::{Deserialize, Serialize};

use super::fingerprint::Print;
use super::words::words;
use super::{StepHead, Symbol};

/// Maximum number of messages of a run that are counted apart.
pub const MAX_MESSAGES: usize = 64;
/// Maximum number of failures whose next step is awaited. A run has those of one step for each agent that
/// works at the same time.
const MAX_AWAITED: usize = 64;

words! {
    /// What failed.
    #[derive(Default)]
    pub enum FailureSource {
        /// A call of a tool.
        #[default]
        Tool = "tool",
        /// A request to the model, or its reply.
        Model = "model",
        /// The program that ran the agent, or the recording of the run.
        Run = "run",
    }
}

words! {
    /// What the agent did in the step after a failed one.
    pub enum AfterFailure {
        /// It made the same call again, and that failed too.
        SameFailed = "same_call_failed",
        /// It made the same call again, and that worked.
        SameWorked = "same_call_worked",
        /// It called the same tool with other arguments.
        SameTool = "same_tool",
        /// It called another tool.
        OtherTool = "other_tool",
        /// It replied without a call.
        Reply = "reply",
        /// No step follows.
        Nothing = "nothing",
    }
}

/// How often each [`AfterFailure`] happened, in its order.
pub type Afterwards = [u32; AfterFailure::ALL.len()];

/// What the failures of a group have in common.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FailureKey {
    /// What failed.
    pub source: FailureSource,
    /// The tool, or the empty symbol if it isn't known or no tool failed.
    pub tool: Symbol,
    /// The folded message.
    pub message: Box<str>,
}

/// The failed steps of a run that have one message.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct FailureGroup {
    /// Their source, tool and message.
    pub key: FailureKey,
    /// The ordinal of the first step, unless the step has no line.
    pub first: Option<usize>,
    /// The ordinal of the last step.
    pub last: Option<usize>,
    /// The number of steps.
    pub steps: u32,
    /// The steps among them whose first failure this is, so that each failed step is in one group.
    pub steps_first: u32,
    /// How often it happened. A step may have several calls that failed with it.
    pub times: u32,
    /// When the first step began, in microseconds since the epoch, if recorded.
    pub first_at: Option<i64>,
    /// When the last step began.
    pub last_at: Option<i64>,
    /// What happened next.
    pub next: Afterwards,
}

/// The failed steps of a run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct FailureTally {
    groups: Vec<FailureGroup>,
    /// The number of failed steps whose first failure is in none of the groups.
    pub left_out: usize,
    awaited: Vec<Awaited>,
}

/// A failed step whose next step isn't known yet.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Awaited {
    group: usize,
    is_nested: bool,
    agent: Symbol,
    asked_hash: u64,
}

/// Returns the number that identifies a group of failures on every machine.
pub fn id_of(source: FailureSource, tool: &str, message: &str) -> u64 {
    let mut print = Print::default();
    print.word(source.as_str());
    print.word(tool);
    print.word(message);
    print.done()
}

impl FailureTally {
    /// Returns the groups and what happened next, by their first step. Steps that nothing follows so
    /// far count as such.
    pub fn groups(&self) -> impl Iterator<Item = (&FailureGroup, Afterwards)> {
        self.groups.iter().enumerate().map(|(at, group)| {
            let mut next = group.next;
            for _ in self.awaited.iter().filter(|awaited| awaited.group == at) {
                count(&mut next, AfterFailure::Nothing);
            }
            (group, next)
        })
    }

    /// Adds the next step of the run. `failed` is what failed in it and how often, each key once.
    pub(super) fn add(
        &mut self,
        step: (usize, &StepHead),
        failed: Vec<(FailureKey, u32)>,
        time: Option<i64>,
    ) {
        self.follow(step.1, failed.first().map(|(key, _)| key));
        for (at, failed) in failed.into_iter().enumerate() {
            self.add_one(step, failed, at == 0, time);
        }
    }

    fn add_one(
        &mut self,
        (n, step): (usize, &StepHead),
        (key, times): (FailureKey, u32),
        is_first: bool,
        time: Option<i64>,
    ) {
        let Some(group) = self.place(key) else {
            self.left_out += usize::from(is_first);
            return;
        };
        let Some(sum) = self.groups.get_mut(group) else {
            return;
        };
        sum.first.get_or_insert(n);
        sum.last = Some(n);
        sum.steps = sum.steps.saturating_add(1);
        sum.steps_first = sum.steps_first.saturating_add(u32::from(is_first));
        sum.times = sum.times.saturating_add(times);
        sum.first_at = sum.first_at.or(time);
        sum.last_at = time.or(sum.last_at);
        if self.awaited.len() == MAX_AWAITED {
            let oldest = self.awaited.remove(0);
            if let Some(group) = self.groups.get_mut(oldest.group) {
                count(&mut group.next, AfterFailure::Nothing);
            }
        }
        self.awaited.push(Awaited {
            group,
            is_nested: step.is_nested,
            agent: step.agent,
            asked_hash: step.asked_hash,
        });
    }

    /// Adds a failure in a step that has no line.
    pub fn add_without_step(&mut self, key: FailureKey, time: Option<i64>) {
        let Some(sum) = self.place(key).and_then(|at| self.groups.get_mut(at)) else {
            self.left_out += 1;
            return;
        };
        for number in [&mut sum.steps, &mut sum.steps_first, &mut sum.times] {
            *number = number.saturating_add(1);
        }
        sum.first_at = sum.first_at.or(time);
        sum.last_at = time.or(sum.last_at);
        count(&mut sum.next, AfterFailure::Nothing);
    }

    /// Updates the ordinals of steps after a hole.
    pub(super) fn cut(&mut self, moved: impl Fn(usize) -> usize) {
        for group in &mut self.groups {
            group.first = group.first.map(&moved);
            group.last = group.last.map(&moved);
        }
    }

    /// Returns the position of the group with this key, if it has or gets one.
    fn place(&mut self, key: FailureKey) -> Option<usize> {
        if let Some(at) = self.groups.iter().position(|group| group.key == key) {
            return Some(at);
        }
        if self.groups.len() >= MAX_MESSAGES || &*key.message == super::names::OVERFLOW {
            return None;
        }
        self.groups.push(FailureGroup {
            key,
            ..FailureGroup::default()
        });
        Some(self.groups.len() - 1)
    }

    /// Notes what happened after the failed steps that this step follows.
    fn follow(&mut self, step: &StepHead, failed: Option<&FailureKey>) {
        let Self {
            groups, awaited, ..
        } = self;
        awaited.retain(|before| {
            // Sub-agents run at the same time.
            if (before.is_nested, before.agent) != (step.is_nested, step.agent) {
                return true;
            }
            if let Some(group) = groups.get_mut(before.group) {
                let after = after(&group.key, before, step, failed);
                count(&mut group.next, after);
            }
            false
        });
    }
}

fn after(
    key: &FailureKey,
    before: &Awaited,
    step: &StepHead,
    failed: Option<&FailureKey>,
) -> AfterFailure {
    let again = match failed {
        Some(_) => AfterFailure::SameFailed,
        None => AfterFailure::SameWorked,
    };
    if key.source != FailureSource::Tool {
        // A request is repeated by the next one.
        return match failed {
            Some(failed) if failed.source != key.source => AfterFailure::SameWorked,
            _ => again,
        };
    }
    let mut tools = step.tools();
    match tools.next() {
        None => AfterFailure::Reply,
        Some(_) if step.asked_hash == before.asked_hash => again,
        Some(tool) if tool == key.tool || tools.any(|tool| tool == key.tool) => {
            AfterFailure::SameTool
        }
        Some(_) => AfterFailure::OtherTool,
    }
}

fn count(next: &mut Afterwards, after: AfterFailure) {
    if let Some(count) = next.get_mut(after as usize) {
        *count = count.saturating_add(1);
    }
}
