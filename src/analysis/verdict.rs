//! Why did the run stop, in one sentence? From what the index holds, without reading a line.
//!
//! A measured value that no file records is left out of the sentence, never made up.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::format::{self, count, counted, score};
use super::life::{Basis, Life, Liveness, stalled_after};
use super::newest::{label, newest_run};
use crate::model::index::{Group, Segment};
use crate::model::{
    Certainty, CriticAction, EventKind, Index, Manifest, Origin, Outcome, StepHead, StopReason, StopVerdict,
};

mod recorded;
mod second;
#[cfg(test)]
mod tests;

pub use super::mark::Mark;
pub use recorded::{amount, reading};

/// The answer to "why did this run stop?".
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verdict {
    /// The answer, without a full stop.
    pub sentence: String,
    /// What happened besides, one full sentence; empty where nothing did.
    pub second: String,
    /// How it came out.
    pub outcome: Outcome,
    /// Its mark.
    pub mark: Mark,
    /// What the sentence rests on.
    pub certainty: Certainty,
    /// The recorded stop reason, as written.
    pub stop_reason: Option<String>,
    /// The last step that really ran, as an ordinal.
    pub step: Option<usize>,
    /// The step limit, and whether it is the one that counts.
    pub limit: Option<StepLimit>,
}

/// A limit on steps, and where it comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepLimit {
    /// The most steps.
    pub steps: i64,
    /// Who set it.
    pub from: LimitFrom,
}

/// How a limit is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum LimitFrom {
    /// It is recorded who set it.
    SetBy(Origin),
    /// A criterion's own words name it.
    Criteria,
    /// It is where the rule ended the run.
    Inferred,
    /// The agent's state has it, which is checked beside the budget and is often larger.
    State,
}

impl LimitFrom {
    /// The word used in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            LimitFrom::SetBy(origin) => origin.as_str(),
            LimitFrom::Criteria => "criteria",
            LimitFrom::Inferred => "inferred",
            LimitFrom::State => "state",
        }
    }

    /// Whether it is recorded that the run ends at this limit.
    pub fn is_budget(self) -> bool {
        matches!(self, LimitFrom::SetBy(_))
    }
}

/// Judges a run.
pub fn verdict(index: &Index, life: &Life) -> Verdict {
    let facts = Facts::of(index);
    let reason = facts.reason.clone();
    let step = match facts.stop {
        Some(stop) => index.steps().iter().rposition(|head| head.step_id.is_some() && head.step_id == stop.step_id()),
        None => facts.last.map(|(ordinal, _)| ordinal),
    };
    let verdict = |outcome, mark, certainty, sentence| Verdict {
        sentence,
        second: facts.second(mark),
        outcome,
        mark,
        certainty,
        stop_reason: reason.clone(),
        step,
        limit: facts.limit(),
    };
    match (life.liveness, reason.as_deref()) {
        (Liveness::Running, _) => verdict(Outcome::Running, Mark::Running, Certainty::Inferred, facts.now()),
        (Liveness::Quiet, _) => verdict(Outcome::Running, Mark::Quiet, Certainty::Inferred, facts.now()),
        (Liveness::Stalled, _) => verdict(Outcome::Running, Mark::Stalled, Certainty::Inferred, facts.stalled(life)),
        (Liveness::Died, None) => verdict(Outcome::Failed, Mark::Died, Certainty::Inferred, facts.died(life)),
        (_, word) => match (facts.stop, word) {
            (Some(stop), _) => {
                let (outcome, mark, sentence) = recorded::read(&facts, stop);
                verdict(outcome, mark, Certainty::Recorded, sentence)
            }
            (None, Some(word)) => {
                let (outcome, mark) = classify(StopReason::parse(word));
                let certainty = if mark == Mark::Unknown { Certainty::Unknown } else { Certainty::Recorded };
                verdict(outcome, mark, certainty, facts.stopped(word))
            }
            (None, None) => verdict(Outcome::Unknown, Mark::Unknown, Certainty::Unknown, facts.no_reason()),
        },
    }
}

fn classify(reason: StopReason) -> (Outcome, Mark) {
    use StopReason as R;
    match reason {
        R::Success | R::Final => (Outcome::Completed, Mark::Answered),
        R::AgentCondition | R::EnvTerminal => (Outcome::Completed, Mark::OwnRule),
        R::MaxSteps | R::BudgetSteps | R::BudgetTime | R::BudgetTokens => (Outcome::Truncated, Mark::Limit),
        R::Stagnation => (Outcome::Halted, Mark::Limit),
        R::CriticStop => (Outcome::Halted, Mark::Critic),
        R::ContextOverflow => (Outcome::Failed, Mark::Limit),
        R::UnrecoverableError | R::TaskValidationFailed | R::EnvCapabilityMismatch => (Outcome::Failed, Mark::Error),
        R::CancelledImmediate | R::CancelledAfterStep | R::Interrupt => (Outcome::Cancelled, Mark::Cancelled),
        R::Other => (Outcome::Unknown, Mark::Unknown),
    }
}

/// The parts of an index that a verdict speaks of.
struct Facts<'a> {
    index: &'a Index,
    segment: Option<&'a Segment>,
    manifest: Option<&'a Manifest>,
    /// The last step line, and its ordinal.
    last: Option<(usize, &'a StepHead)>,
    /// The last round of the loop that events tell of.
    group: Option<&'a Group>,
    /// Whether the step of that round has its line.
    written: bool,
    reason: Option<String>,
    /// The verdict as our own engine records it.
    stop: Option<&'a StopVerdict>,
    /// How many steps the newest run in the directory has.
    done: usize,
}

impl<'a> Facts<'a> {
    fn of(index: &'a Index) -> Self {
        let segment = index.segment();
        let manifest = index.manifest().get();
        let from_end = segment.and_then(|segment| segment.end.as_ref()?.1.reason.as_deref());
        let reason = manifest.and_then(|manifest| manifest.stop_reason.as_deref()).or(from_end);
        let group = segment.and_then(|segment| index.groups().get(segment.first_group..)?.last());
        let last = newest_run(index).next_back();
        let newest = index.groups().len().checked_sub(1).filter(|_| group.is_some());
        let written = newest.and_then(|at| index.step_of(at)).is_some();
        let reason = reason.map(str::to_owned);
        let (stop, done) = (index.stop(), index.steps().len() - index.newest_start());
        Self { index, segment, manifest, last, group, written, reason, stop, done }
    }

    /// "step 5", the last one that any file tells of, by the recorded label where there is one.
    fn step(&self) -> Option<String> {
        let unwritten = self.group.filter(|_| !self.written).and_then(|group| group.step_id);
        unwritten.map(|id| format!("step {id}")).or_else(|| self.last.map(label))
    }

    /// " at step 5", with whatever preposition fits; nothing where no step is known.
    fn step_after(&self, preposition: &str) -> String {
        self.step().map_or_else(String::new, |step| format!(" {preposition} {step}"))
    }

    /// The step that was under way, by the events.
    fn step_now(&self) -> String {
        match self.group.and_then(|group| group.step_id) {
            Some(id) => format!("step {id}"),
            None => self.step().map_or_else(|| "the set-up".to_owned(), |step| format!("the step after {step}")),
        }
    }

    fn limit(&self) -> Option<StepLimit> {
        let init = self.segment.and_then(|segment| segment.init.as_ref()?.1.max_steps);
        let task = self.manifest.and_then(|manifest| manifest.max_steps).or(init);
        let ended_by_steps =
            self.reason.as_deref().is_some_and(|word| StopReason::parse(word) == StopReason::BudgetSteps);
        let state = self.segment.and_then(|segment| segment.state_limit);
        let limit = |from| move |steps| StepLimit { steps, from };
        // What held is recorded by our own engine, the task's limit over all others.
        let held = self.manifest.and_then(|manifest| manifest.budget?.steps);
        let held = held.and_then(|held| Some(limit(LimitFrom::SetBy(held.from))(i64::try_from(held.limit).ok()?)));
        held.or(task.map(limit(LimitFrom::SetBy(Origin::Task))))
            .or_else(|| ended_by_steps.then(|| limit(LimitFrom::Inferred)(self.done as i64)))
            .or(state.map(limit(LimitFrom::State)))
    }

    fn stopped(&self, word: &str) -> String {
        let detail = self.segment.and_then(|segment| segment.stop.as_ref()?.1.detail.as_deref());
        let bracketed = |text: Option<&str>| text.map_or_else(String::new, |text| format!(" ({text})"));
        let sentence = match StopReason::parse(word) {
            StopReason::Success => format!("Success criteria met{}", self.step_after("at")),
            StopReason::Final => format!("Answered{}", self.step_after("at")),
            StopReason::BudgetSteps => match self.limit().filter(|limit| limit.from.is_budget()) {
                Some(limit) => format!("Step budget used up: {} of {} steps", self.done, limit.steps),
                None => format!("Step budget used up after {}", steps(self.done)),
            },
            StopReason::MaxSteps => format!("Step limit reached after {}{}", steps(self.done), bracketed(detail)),
            StopReason::BudgetTime => {
                let elapsed = self.elapsed().map_or_else(String::new, |micros| format!(" after {}", duration(micros)));
                format!("Time budget used up{elapsed}{}", bracketed(detail))
            }
            StopReason::BudgetTokens => {
                let used = self.tokens().map_or_else(String::new, |tokens| format!(" after {} tokens", count(tokens)));
                format!("Token budget used up{used}{}", bracketed(detail))
            }
            StopReason::ContextOverflow => {
                let overflow = self.segment.and_then(|segment| segment.overflow.as_ref());
                let words = overflow.map_or_else(String::new, |(_, words)| format!(": {words}"));
                format!("Context window full{words}")
            }
            StopReason::AgentCondition => format!("The agent's own stop condition held{}", self.step_after("after")),
            StopReason::CriticStop => self.critic_stop(),
            StopReason::Stagnation => match detail.and_then(|detail| detail.strip_prefix("stagnant_steps=")) {
                Some(number) => format!("State unchanged for {number} steps in a row"),
                None => format!("State unchanged for too long{}", bracketed(detail)),
            },
            StopReason::EnvTerminal => format!("The environment ended the episode{}", self.step_after("at")),
            StopReason::TaskValidationFailed => {
                format!("Not started: the task did not pass validation{}", bracketed(self.preflight_issue()))
            }
            // QitOS gives the same reason to an environment that fails its health check.
            StopReason::EnvCapabilityMismatch => {
                let issue = self.preflight_issue();
                let unhealthy = issue.is_some_and(|issue| issue.starts_with("ENV_HEALTH"));
                let why = if unhealthy {
                    "the environment is not healthy"
                } else {
                    "a tool needs what the environment lacks"
                };
                format!("Not started: {why}{}", bracketed(issue))
            }
            StopReason::UnrecoverableError => self.error(),
            StopReason::CancelledImmediate => format!("Cancelled at once during {}", self.step_now()),
            StopReason::CancelledAfterStep => format!("Cancelled{}", self.step_after("after")),
            StopReason::Interrupt => format!("Interrupted from outside in {}", self.step_now()),
            StopReason::Other => format!("Stopped with \"{word}\", a reason the board does not know"),
        };
        sentence + &self.asides(word)
    }

    /// Short additions to the sentence: an answer that exists although something else ended the run, and so on.
    fn asides(&self, word: &str) -> String {
        let mut asides = String::new();
        let answered = matches!(StopReason::parse(word), StopReason::Final | StopReason::Success);
        let answer = self.manifest.and_then(|manifest| manifest.final_result.as_deref());
        if !answered && answer.is_some() && !StopReason::parse(word).is_preflight() {
            asides.push_str(" · an answer was ready");
        }
        if answered && self.manifest.is_some_and(|manifest| manifest.success == Some(false)) {
            asides.push_str(" · but success is recorded as false");
        }
        if let Some(segment) = self.segment {
            let mut add = |number: usize, one: &str, many: &str| match number {
                0 => {}
                1 => asides.push_str(&format!(" · {one}")),
                _ => asides.push_str(&format!(" · {}", many.replace("{}", &number.to_string()))),
            };
            add(segment.retries, "1 critic retry", "{} critic retries");
            if StopReason::parse(word) != StopReason::UnrecoverableError {
                add(segment.recoveries, "after 1 recovered error", "after {} recovered errors");
            }
        }
        asides
    }

    fn critic_stop(&self) -> String {
        let reason = self.segment.and_then(|segment| segment.critics.as_ref()).filter(|(_, stopped, _)| *stopped);
        let (mut who, mut at) = ("a critic".to_owned(), String::new());
        let mut why = reason.map(|(_, _, reason)| reason.to_string());
        if let Some((_, step)) = self.last
            && let Some(mark) = step.critics.iter().find(|mark| mark.action == CriticAction::Stop)
        {
            self.index.name(mark.name).clone_into(&mut who);
            at = mark.score.map_or_else(String::new, |value| format!(" at {}", score(value)));
            why = why.or_else(|| step.critic_reason.as_deref().map(str::to_owned));
        }
        let why = why.filter(|why| !why.is_empty()).map_or_else(String::new, |why| format!(": {why}"));
        format!("Stopped by {who}{at}{why}")
    }

    fn error(&self) -> String {
        if let Some(failure) = self.manifest.and_then(|manifest| manifest.failures.last()) {
            let step = failure.step_id.map_or_else(|| self.step_now(), |id| format!("step {id}"));
            return format!("{} in {step}: {}", failure.category, failure.message.trim_end_matches('.'));
        }
        match self.segment.and_then(|segment| segment.error.as_ref()) {
            Some((_, text)) => format!("Error in {}: {}", self.step_now(), text.trim_end_matches('.')),
            None => format!("Ended by an error in {}; no file holds its words", self.step_now()),
        }
    }

    /// Whether a file has the words of the error that ended the run.
    fn has_error(&self) -> bool {
        self.manifest.is_some_and(|manifest| !manifest.failures.is_empty())
            || self.segment.is_some_and(|segment| segment.error.is_some())
    }

    fn preflight_issue(&self) -> Option<&str> {
        self.segment?.end.as_ref()?.1.issue.as_deref()
    }

    fn no_reason(&self) -> String {
        match self.step() {
            Some(step) => format!("Ended after {step} without a reason"),
            None => "Ended without a reason and without a step".to_owned(),
        }
    }

    fn died(&self, life: &Life) -> String {
        let stop = self.decided_stop();
        if life.basis == Basis::Teardown {
            let stop = stop.map_or_else(String::new, |word| format!(" after it stopped for \"{word}\""));
            return format!("Crashed {}{stop}: torn down without an END event", self.place());
        }
        let Some(event) = self.index.events().iter().rev().find(|event| event.fate.is_readable()) else {
            return match self.step() {
                Some(step) => format!("Died after {step}: no event was written"),
                None => "Died before step 0: no event was written".to_owned(),
            };
        };
        if let Some(word) = stop {
            return format!("Died {}: it stopped for \"{word}\", but no END event was written", self.place());
        }
        let phase = self.index.name(event.phase);
        let gone = if life.basis == Basis::Process { "its process is gone" } else { "nothing since" };
        format!("Died {}: last event is {phase}, {gone}", self.place())
    }

    /// Where a run that died was: "in step 4", or "after step 4" where that step has its line.
    fn place(&self) -> String {
        match self.step() {
            Some(step) if self.written => format!("after {step}"),
            _ => format!("in {}", self.step_now()),
        }
    }

    /// The reason of a stop that was decided in the last round, although the run never came to its END.
    fn decided_stop(&self) -> Option<&str> {
        let (at, stop) = self.segment?.stop.as_ref()?;
        stop.reason.as_deref().filter(|_| self.group.is_some_and(|group| (group.first..group.end).contains(at)))
    }

    fn stalled(&self, life: &Life) -> String {
        // Whole minutes, so that the sentence does not change with every look.
        let minutes = life.silence.unwrap_or_default() / 60_000_000;
        let slowest = duration(self.index.slowest_gap());
        let after = duration(stalled_after(self.index.slowest_gap()));
        format!(
            "Quiet for {minutes} min in {} · longest pause before took {slowest}, stalled after {after}",
            self.step_now()
        )
    }

    fn now(&self) -> String {
        let limit = self.limit().filter(|limit| limit.from.is_budget());
        let of = limit.map_or_else(String::new, |limit| format!(" of {}", limit.steps));
        let Some(group) = self.group else {
            return match (self.step(), self.index.events().is_empty()) {
                (Some(step), _) => format!("{} done{of}, no events to say what it does now", capitalised(&step)),
                (None, true) => "Started; nothing written yet".to_owned(),
                (None, false) => "Setting up".to_owned(),
            };
        };
        let step = group.step_id.map_or_else(|| "the next step".to_owned(), |id| format!("step {id}"));
        format!("{}{of}: {}", capitalised(&step), self.doing(group))
    }

    fn doing(&self, group: &Group) -> String {
        let newest = group.end.checked_sub(1).and_then(|at| self.index.events().get(at));
        let (phase, kind) = newest.map_or_else(Default::default, |event| (self.index.name(event.phase), event.kind));
        match phase {
            _ if matches!(kind, EventKind::Decided | EventKind::Acting) => match group.decision.as_deref() {
                // Without a call in it, a decision reads as its mode.
                Some("final") => "giving its answer".to_owned(),
                Some("wait") => "waiting".to_owned(),
                Some("handoff") => "handing over to another agent".to_owned(),
                Some(call) => format!("waiting for {}", call.split('(').next().unwrap_or(call)),
                None => "waiting for a tool".to_owned(),
            },
            "HANDOFF_START" => "handing over to another agent".to_owned(),
            "DECIDE" | "OBSERVE" => "thinking".to_owned(),
            "ACT" | "REDUCE" => "updating state".to_owned(),
            "CRITIC" => "asking critics".to_owned(),
            "CHECK_STOP" => "checking rules".to_owned(),
            "COMPACT" => "shortening the conversation".to_owned(),
            "RECOVER" | "DECIDE_ERROR" | "ACT_ERROR" | "REDUCE_ERROR" => "recovering from an error".to_owned(),
            phase => phase.to_lowercase().replace('_', " "),
        }
    }

    /// Whether the last step gave an answer.
    fn answers(&self) -> bool {
        self.last.is_some_and(|(_, step)| self.index.name(step.mode) == "final")
    }

    /// The writer's own figure, or the time between the first and the last event; microseconds.
    fn elapsed(&self) -> Option<i64> {
        let latency = self.manifest.and_then(|manifest| manifest.latency_s).map(|seconds| (seconds * 1e6) as i64);
        latency.or_else(|| Some(self.index.last_ts()? - self.index.first_ts()?))
    }

    fn tokens(&self) -> Option<u64> {
        tokens(self.index)
    }
}

/// What was going on in a step that has no line, by its last event.
pub(super) fn under_way(index: &Index) -> Option<(usize, String)> {
    let facts = Facts::of(index);
    let group = facts.group.filter(|_| !facts.written)?;
    let words = format!("{} left no line; it was {}", capitalised(&facts.step_now()), facts.doing(group));
    Some((group.end.checked_sub(1)?, words))
}

/// Tokens of the run: the manifest's figure, else the last cumulative one of a step.
pub fn tokens(index: &Index) -> Option<u64> {
    let manifest = index.manifest().get().and_then(|manifest| manifest.tokens);
    manifest.or_else(|| index.steps().iter().rev().find_map(|step| step.tokens_total.filter(|tokens| *tokens > 0)))
}

fn steps(number: usize) -> String {
    counted(number, "step")
}

fn duration(micros: i64) -> String {
    format::duration(Duration::from_micros(u64::try_from(micros).unwrap_or_default()))
}

/// The text with a large first letter.
pub(crate) fn capitalised(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |first| first.to_uppercase().chain(chars).collect())
}
