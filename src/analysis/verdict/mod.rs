//! Explains in one sentence why a run stopped, using only the index and reading no lines.
//!
//! If no file records a measured value, the sentence omits it rather than inventing one.

use std::cell::OnceCell;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use thin_vec::ThinVec;

use super::compact::Shared;
use super::facts::lost;
use super::format::{self, counted};
use super::life::{Basis, Life, Liveness, stalled_after};
use super::newest::{
    after_the_end, has_answer, has_unreadable_tail, is_answer_blank, is_answer_null, kept_answer,
    label, newest_run,
};
use super::retrace::{Retraced, retrace};
use super::stated;
use crate::model::index::{Group, Segment};
use crate::model::{
    Agreement, CallEnd, Can, Certainty, Code, CriticAction, Fact, Index, Manifest, Op, Origin,
    Outcome, StepHead, StopReason, StopVerdict,
};

pub(super) mod cause;
mod claims;
mod contradiction;
mod ended;
mod now;
mod recorded;
mod rounds;
mod second;
mod stop_word;
#[cfg(test)]
mod tests;

pub use super::run_status::RunStatus;
pub(crate) use super::stated::tokens;
pub use recorded::{amount, reading};
pub(super) use rounds::other_run;

/// The reason why a run stopped.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verdict {
    /// The reason, without a full stop.
    pub sentence: Shared,
    /// One full sentence about anything else that happened; may be empty.
    pub second: Shared,
    /// The outcome.
    pub outcome: Outcome,
    /// The status.
    pub mark: RunStatus,
    /// Whether the sentence is recorded, inferred or unknown.
    pub certainty: Certainty,
    /// Whether the run ended well with an answer.
    pub answered: bool,
    /// The contradictions between the files about the end: one sentence each without a full stop,
    /// most serious first.
    pub contradictions: ThinVec<String>,
    /// The recorded stop reason, as written.
    pub stop_reason: Option<Shared>,
    /// The ordinal of the last step that actually ran; `None` also if that step has no line.
    pub step: Option<usize>,
    /// The step limit, and whether it's the one in effect.
    pub limit: Option<StepLimit>,
}

impl Verdict {
    /// Returns whether the run ended well with an answer, or `None` if it's unknown how the run
    /// ended.
    pub fn answer_known(&self) -> Option<bool> {
        let is_unknown = self.outcome == Outcome::Unknown && self.certainty == Certainty::Unknown;
        if is_unknown && !self.answered {
            None
        } else {
            Some(self.answered)
        }
    }

    /// Returns whether some records state how the run ended and others contradict them.
    pub fn is_denied(&self) -> bool {
        let is_stated = self.stop_reason.is_some() || self.outcome == Outcome::Unknown;
        !self.contradictions.is_empty() && is_stated && self.certainty != Certainty::Recorded
    }

    /// Returns the step limit, if it's recorded that the run ends at it.
    pub fn budget(&self) -> Option<StepLimit> {
        self.limit.filter(|limit| limit.from.is_budget())
    }
}

/// A step limit and its source.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepLimit {
    /// The maximum number of steps.
    pub steps: i64,
    /// The source of the limit.
    pub from: LimitFrom,
}

/// How a limit is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum LimitFrom {
    /// The records state who set it.
    SetBy(Origin),
    /// A criterion's own wording names it.
    Criteria,
    /// It's inferred from where the rule ended the run.
    Inferred,
    /// The agent's state contains it. It's checked in addition to the budget, and often larger.
    State,
}

impl LimitFrom {
    /// Returns the word used in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            LimitFrom::SetBy(origin) => origin.as_str(),
            LimitFrom::Criteria => "criteria",
            LimitFrom::Inferred => "inferred",
            LimitFrom::State => "state",
        }
    }

    /// Returns whether it's recorded that the run ends at this limit.
    pub fn is_budget(self) -> bool {
        matches!(self, LimitFrom::SetBy(_))
    }
}

/// Determines why a run stopped.
pub fn verdict(index: &Index, life: &Life) -> Verdict {
    let facts = Facts::of(index);
    let reason = facts.reason;
    let step = match facts.stop {
        // If two steps share an id, there's no way to know which was the last.
        Some(_) if index.double_steps().0 > 0 => None,
        Some(stop) => index
            .steps()
            .iter()
            .rposition(|head| head.step_id.is_some() && head.step_id == stop.step_id()),
        None if reason.is_some() && facts.group.is_some() && !facts.written => None,
        // The missing steps came after the last recorded one.
        None if facts.cut().is_some() => None,
        None => facts.last.map(|(ordinal, _)| ordinal),
    };
    let verdict = |outcome, mark, certainty, mut sentence: String| {
        let contradictions = contradiction::contradictions(&facts, life, outcome);
        // A statement that another record contradicts doesn't count as recorded.
        let is_denied = certainty == Certainty::Recorded && !contradictions.is_empty();
        let certainty = if is_denied {
            Certainty::Inferred
        } else {
            certainty
        };
        let is_said = facts.is_unsuccessful() || sentence.ends_with(recorded::DENIAL);
        if mark == RunStatus::Answered && !contradictions.is_empty() && !is_said {
            sentence.push_str(" · conflicting records");
        }
        let is_blank = mark == RunStatus::Answered && is_answer_blank(facts.index);
        let mark = if is_blank { RunStatus::Unknown } else { mark };
        if is_blank {
            sentence = format!("Ended with an empty answer{}", facts.step_after("at"));
        }
        let has_answer = kept_answer(facts.index).is_some();
        let answered = match mark {
            RunStatus::Answered => outcome == Outcome::Completed || has_answer,
            _ => outcome == Outcome::Completed && has_answer,
        };
        Verdict {
            sentence: sentence.into(),
            second: facts.second(mark).into(),
            outcome,
            mark,
            certainty,
            answered,
            contradictions: contradictions.into(),
            stop_reason: reason.map(Shared::from),
            step,
            limit: facts.limit(),
        }
    };
    if let Some(issue) = index.away() {
        // Whatever was read before, another board starting now couldn't determine the end.
        let sentence = capitalised(&issue.reason);
        return verdict(
            Outcome::Unknown,
            RunStatus::Unknown,
            Certainty::Unknown,
            sentence,
        );
    }
    if has_unreadable_tail(index) {
        let (outcome, mark, certainty) = match life.liveness {
            Liveness::Running => (Outcome::Running, RunStatus::Running, Certainty::Inferred),
            Liveness::Quiet => (Outcome::Running, RunStatus::Quiet, Certainty::Inferred),
            Liveness::Stalled => (Outcome::Running, RunStatus::Stalled, Certainty::Inferred),
            _ => (Outcome::Unknown, RunStatus::Unknown, Certainty::Unknown),
        };
        return verdict(outcome, mark, certainty, facts.unreadable_tail());
    }
    if let Some(ended) = index
        .manifest()
        .get()
        .and_then(|manifest| manifest.ended.as_deref())
    {
        let (mark, sentence) = ended::read(&facts, ended);
        let base = verdict(ended.outcome, mark, ended.certainty, sentence);
        return Verdict {
            stop_reason: Some(&*ended.word)
                .filter(|word| !word.is_empty())
                .map(Shared::from),
            ..base
        };
    }
    let is_over =
        matches!(life.liveness, Liveness::Died | Liveness::Unknown) && facts.cut().is_none();
    let presumed = index
        .manifest()
        .get()
        .and_then(|manifest| manifest.presumed_end.as_deref());
    if let Some(ended) = presumed.filter(|_| is_over) {
        let (mark, sentence) = ended::read(&facts, ended);
        let base = verdict(ended.outcome, mark, ended.certainty, sentence);
        return Verdict {
            stop_reason: Some(&*ended.word)
                .filter(|word| !word.is_empty())
                .map(Shared::from),
            ..base
        };
    }
    if let Some(said) = stated::end_by_who(index).filter(|_| life.liveness.is_over()) {
        let sentence = format!("The files disagree on how the run ended: {said}");
        return verdict(
            Outcome::Unknown,
            RunStatus::Unknown,
            Certainty::Unknown,
            sentence,
        );
    }
    if let Some(sentence) = facts
        .refuted()
        .filter(|_| life.liveness == Liveness::Finished)
    {
        let outcome = reason.map_or(Outcome::Unknown, |word| classify(StopReason::parse(word)).0);
        return verdict(
            facts.stop.map_or(outcome, |stop| stop.outcome),
            RunStatus::Unknown,
            Certainty::Unknown,
            sentence,
        );
    }
    match (life.liveness, reason) {
        (Liveness::Running, _) => verdict(
            Outcome::Running,
            RunStatus::Running,
            Certainty::Inferred,
            facts.now(),
        ),
        (Liveness::Quiet, _) => verdict(
            Outcome::Running,
            RunStatus::Quiet,
            Certainty::Inferred,
            facts.now(),
        ),
        (Liveness::Stalled, _) => verdict(
            Outcome::Running,
            RunStatus::Stalled,
            Certainty::Inferred,
            facts.stalled(life),
        ),
        (Liveness::Waiting | Liveness::Unknown, _) if let Some(sentence) = facts.asks(life) => {
            verdict(
                Outcome::Unknown,
                RunStatus::Unknown,
                Certainty::Inferred,
                sentence,
            )
        }
        (Liveness::Waiting, _) => verdict(
            Outcome::Unknown,
            RunStatus::Unknown,
            Certainty::Unknown,
            facts.waits(),
        ),
        (Liveness::Unknown, _) if let Some(cut) = facts.cut() => verdict(
            Outcome::Unknown,
            RunStatus::Unknown,
            Certainty::Unknown,
            capitalised(&cut),
        ),
        (Liveness::Unknown, _) if let Some(sentence) = facts.cancelled_call() => verdict(
            Outcome::Cancelled,
            RunStatus::Cancelled,
            Certainty::Inferred,
            sentence,
        ),
        (Liveness::Unknown, _) => {
            // No process waits for a user here, but that doesn't show that the program was killed.
            let closed = life.basis == Basis::Closed && index.format().no_end_reason.is_empty();
            let sentence = if closed {
                format!("No end recorded{}", facts.step_after("after"))
            } else {
                facts.unrecorded_end()
            };
            verdict(
                Outcome::Unknown,
                RunStatus::Unknown,
                Certainty::Unknown,
                sentence,
            )
        }
        (Liveness::Died, None) => verdict(
            Outcome::Failed,
            RunStatus::Died,
            Certainty::Inferred,
            facts.died(life),
        ),
        (_, word) => match (facts.stop, word) {
            (Some(stop), _) => {
                let (outcome, mark, sentence) = recorded::read(&facts, stop);
                verdict(outcome, mark, Certainty::Recorded, sentence)
            }
            (None, Some(word)) => {
                let (outcome, mark) = classify(StopReason::parse(word));
                let certainty = if mark == RunStatus::Unknown {
                    Certainty::Unknown
                } else {
                    Certainty::Recorded
                };
                verdict(outcome, mark, certainty, facts.stopped(word))
            }
            (None, None) => verdict(
                Outcome::Unknown,
                RunStatus::Unknown,
                Certainty::Unknown,
                facts.no_reason(),
            ),
        },
    }
}

fn classify(reason: StopReason) -> (Outcome, RunStatus) {
    use StopReason as R;
    match reason {
        R::Success | R::Final => (Outcome::Completed, RunStatus::Answered),
        R::AgentCondition | R::EnvTerminal => (Outcome::Completed, RunStatus::OwnRule),
        R::MaxSteps | R::BudgetSteps | R::BudgetTime | R::BudgetTokens => {
            (Outcome::Truncated, RunStatus::Limit)
        }
        R::Stagnation => (Outcome::Halted, RunStatus::Limit),
        R::CriticStop => (Outcome::Halted, RunStatus::Critic),
        R::ContextOverflow => (Outcome::Failed, RunStatus::Limit),
        R::UnrecoverableError | R::TaskValidationFailed | R::EnvCapabilityMismatch => {
            (Outcome::Failed, RunStatus::Error)
        }
        R::CancelledImmediate | R::CancelledAfterStep | R::Interrupt => {
            (Outcome::Cancelled, RunStatus::Cancelled)
        }
        R::Other => (Outcome::Unknown, RunStatus::Unknown),
    }
}

/// The parts of an index that a verdict uses.
struct Facts<'a> {
    index: &'a Index,
    segment: Option<&'a Segment>,
    manifest: Option<&'a Manifest>,
    /// The last step line and its ordinal.
    last: Option<(usize, &'a StepHead)>,
    /// The last round of the loop in the events.
    group: Option<&'a Group>,
    /// Whether the step of that round has its line.
    written: bool,
    reason: Option<&'a str>,
    /// The verdict recorded by our own engine.
    stop: Option<&'a StopVerdict>,
    /// The number of steps of the newest run in the directory, up to its end.
    done: usize,
    /// The comparison of the verdict with the recorded rules, computed on first use.
    retraced: OnceCell<Option<Retraced>>,
}

/// Returns whether records disagree on why the run ended.
pub(super) fn is_disputed(index: &Index) -> bool {
    index.end().disputed().is_some()
}

impl<'a> Facts<'a> {
    fn of(index: &'a Index) -> Self {
        let segment = index.segment();
        let manifest = index.manifest_of_end();
        // The code of a verdict isn't a stop reason if no record has the word.
        let reason = match index.end() {
            Agreement::Agreed(stated) => stated
                .into_iter()
                .find(|stated| !stated.source.field.ends_with("/stop/code")),
            Agreement::Unknown | Agreement::Disputed(_) => None,
        };
        let reason = reason.map(|stated| stated.value);
        // Anything after the END event isn't part of the run that it ends.
        let ended = segment
            .and_then(|segment| Some(segment.end.as_ref()?.0))
            .unwrap_or(usize::MAX);
        let newest = index.groups().iter().rposition(|group| group.first < ended);
        let newest = newest.filter(|at| segment.is_some_and(|segment| *at >= segment.first_group));
        // Events out of order don't show which round was the last.
        let newest = newest.filter(|_| !index.is_disordered());
        let group = newest.and_then(|at| index.groups().get(at));
        let written = newest.and_then(|at| index.step_of(at)).is_some();
        let after = after_the_end(index);
        let last = match index.has_disordered_steps() {
            true => index
                .last_step()
                .and_then(|n| Some((n, index.steps().get(n)?))),
            false => newest_run(index)
                .rev()
                .filter(|(_, step)| !step.is_abandoned)
                .nth(after),
        };
        let (stop, done) = (index.stop(), index.newest_len().saturating_sub(after));
        Self {
            index,
            segment,
            manifest,
            last,
            group,
            written,
            reason,
            stop,
            done,
            retraced: OnceCell::new(),
        }
    }

    /// Compares the recorded verdict with the recorded rules and steps.
    fn retraced(&self) -> Option<&Retraced> {
        self.retraced.get_or_init(|| retrace(self.index)).as_ref()
    }

    /// Returns "step 5": the last step in any file, by its recorded label if it has one.
    fn step(&self) -> Option<String> {
        let unwritten = self
            .group
            .filter(|_| !self.written)
            .and_then(|group| group.step_id);
        unwritten
            .map(|id| format!("step {id}"))
            .or_else(|| self.last.map(label))
    }

    /// Returns " at step 5" with the given preposition, or an empty string if no step is known.
    fn step_after(&self, preposition: &str) -> String {
        self.step()
            .map_or_else(String::new, |step| format!(" {preposition} {step}"))
    }

    /// Returns the step that was running, according to the events.
    fn step_now(&self) -> String {
        match self.group.and_then(|group| group.step_id) {
            Some(id) => format!("step {id}"),
            None => self.step().map_or_else(
                || "setup".to_owned(),
                |step| format!("the step after {step}"),
            ),
        }
    }

    fn limit(&self) -> Option<StepLimit> {
        let limit = |from| move |steps| StepLimit { steps, from };
        let held = self
            .manifest
            .and_then(|manifest| manifest.budget?.steps)
            .map_or(Origin::Task, |held| held.from);
        let state = self.segment.and_then(|segment| segment.state_limit);
        // If another tool's run ended at its own count of steps, that isn't a limit on the steps
        // here.
        let is_counted = |manifest: &Manifest| {
            manifest
                .statements
                .iter()
                .any(|it| it.fact == Fact::Limit("steps"))
        };
        let is_own = !self.index.format().is_one_file() || self.manifest.is_some_and(is_counted);
        match Some(self.index.limit("steps"))
            .filter(|_| is_own)
            .unwrap_or(Agreement::Unknown)
        {
            Agreement::Agreed(stated) => stated.first().map(|stated| StepLimit {
                steps: stated.value as i64,
                from: LimitFrom::SetBy(held),
            }),
            Agreement::Disputed(_) => None,
            Agreement::Unknown => self
                .spent_steps()
                .map(limit(LimitFrom::Inferred))
                .or(state.map(limit(LimitFrom::State))),
        }
    }

    /// Returns the headline for a limit if records disagree on the amount used.
    fn disputed_total(&self, what: &str, unit: &'static str) -> Option<String> {
        let total = stated::total(self.index, unit);
        let about = match unit {
            "steps" => "number of steps",
            "ms" => "time",
            other => other,
        };
        let values = stated::values(total.disputed()?, unit);
        Some(format!(
            "{what} · {} disagree on the {about} ({values})",
            stated::holders(self.index)
        ))
    }

    /// Returns the headline for a limit that records disagree on: the stated values, and the usage
    /// if exactly one of them was reached. `None` if the records agree.
    fn disputed_limit(
        &self,
        what: &str,
        limit: &Agreement<f64>,
        spent: (Option<f64>, Op, &str),
    ) -> Option<String> {
        let (stated, (measured, op, unit)) = (limit.disputed()?, spent);
        let values = stated::values(stated, unit);
        let reached = crate::model::stated::by_value(stated, |a, b| a == b);
        let mut reached = reached
            .into_iter()
            .filter(|(limit, _)| measured.is_some_and(|used| op.holds(used, **limit)));
        let used = match (measured, reached.next(), reached.next()) {
            (Some(used), Some((limit, sources)), None) => {
                // The manifest may state both.
                let source = sources
                    .iter()
                    .find(|source| source.file != "manifest.json")
                    .or(sources.first());
                let who = source.map_or("one record", |source| source.who);
                format!(", {} according to {who}", used_of(used, *limit, unit))
            }
            (Some(used), ..) => format!(" after {}", amount(used, unit)),
            (None, ..) => String::new(),
        };
        let (holders, what) = (stated::holders(self.index), lowered(what));
        Some(format!(
            "{} disagree on the limit ({values}): {what}{used}",
            capitalised(holders)
        ))
    }

    /// Describes where the run's only file is truncated or damaged.
    fn cut(&self) -> Option<String> {
        let manifest = self
            .manifest
            .filter(|manifest| manifest.is_cut || manifest.damage.is_some())?;
        let (file, after) = (self.index.format().file, self.step_after("after"));
        Some(match &manifest.damage {
            Some(damage) => format!("the {file} can't be read{after}: {damage}"),
            None if after.is_empty() => {
                format!("the {file} is truncated before its first step")
            }
            None => format!("the {file} is truncated{after}"),
        })
    }

    /// Describes a run without a recorded end in a format that may end without one.
    fn unrecorded_end(&self) -> String {
        match self.index.format().no_end_reason {
            "" => self.broken_off(),
            reason => format!("No end recorded{}: {reason}", self.step_after("after")),
        }
    }

    /// Describes a run whose last tool call was cancelled and that has no further records.
    fn cancelled_call(&self) -> Option<String> {
        let (n, step) = self
            .last
            .filter(|(_, step)| step.is_cancelled() && step.unanswered.is_none())?;
        let call = step
            .calls
            .iter()
            .rev()
            .find(|call| call.end == CallEnd::Stopped)?;
        let by_user = step
            .error
            .as_deref()
            .is_some_and(|words| words.to_lowercase().contains("user"));
        let who = if by_user { " by the user" } else { "" };
        let tool = self.index.name(call.name);
        Some(format!(
            "Cancelled{who} in {} while {tool} was running; no records follow",
            label((n, step))
        ))
    }

    /// Describes a run whose last turn is over with an unknown result.
    fn waits(&self) -> String {
        format!(
            "May be waiting for the user{}; no end of turn is recorded",
            self.step_after("after")
        )
    }

    /// Describes a run whose last tool call is a question to the user.
    fn asks(&self, life: &Life) -> Option<String> {
        let tool = self.manifest?.asks_user.as_deref()?;
        let step = self.step_after("in");
        Some(match life.liveness {
            Liveness::Waiting => format!("Waiting for the user{step}: {tool} has no answer"),
            _ => format!("Ends{step} with a question to the user: {tool} has no answer"),
        })
    }

    fn died(&self, life: &Life) -> String {
        let stop = self.decided_stop();
        if life.basis == Basis::Teardown {
            let stop = stop.map_or_else(String::new, |word| {
                format!(" after stopping for \"{word}\"")
            });
            return format!(
                "Died {}{stop}: unhandled exception in the engine, no END event",
                self.place()
            );
        }
        let Some(event) = self
            .index
            .events()
            .iter()
            .rev()
            .find(|event| event.fate.is_readable())
        else {
            return stop_word::without_events(self.index, self.step());
        };
        if let Some(word) = stop {
            return format!(
                "Died {}: it stopped for \"{word}\" but wrote no END event",
                self.place()
            );
        }
        let last = match self.index.name(event.phase) {
            "" => "an event without a phase",
            phase => phase,
        };
        let gone = if life.basis == Basis::Process {
            "; its process is gone"
        } else {
            ""
        };
        let doing = self.group.map(|group| self.doing(group));
        match doing.filter(|doing| !doing.is_empty()) {
            Some(doing) => {
                // The tool was running when the records end.
                let doing = match doing.strip_prefix("waiting for ") {
                    Some(tool) => format!("running {tool}"),
                    None => doing,
                };
                format!("Died {} while {doing}{gone}", self.place())
            }
            None => format!("Died {}; the last event is {last}{gone}", self.place()),
        }
    }

    /// Describes what the records of another tool's run lack at the end, and what that may mean.
    fn broken_off(&self) -> String {
        let lacks = self.lacks();
        let is_child = self
            .manifest
            .is_some_and(|manifest| manifest.parent.is_some());
        let may = if is_child {
            "killed, or stopped with its parent run"
        } else {
            "killed, or waiting for the user"
        };
        format!("{lacks} · {may}")
    }

    fn lacks(&self) -> String {
        match (self.waits_for(), self.last) {
            (Some((step, tool)), _) => {
                format!("Ends in {} without a result for {tool}", label(step))
            }
            (None, Some(last)) => {
                format!("Ends after {}: no model reply follows", label(last))
            }
            (None, None) if self.index.steps().is_empty() => {
                "Ends before the model's first reply".to_owned()
            }
            (None, None) => "Ends after rewinding to before its first step".to_owned(),
        }
    }

    /// Returns the run's own last step and its first tool without a result.
    fn waits_for(&self) -> Option<((usize, &StepHead), &str)> {
        let own = || {
            newest_run(self.index)
                .rev()
                .find(|(_, step)| !step.is_abandoned && !step.is_nested)
        };
        let last = self.last.filter(|(_, step)| !step.is_nested).or_else(own)?;
        let at = usize::from(last.1.unanswered?.get() - 1);
        Some((last, self.index.name(last.1.calls.get(at)?.name)))
    }

    /// Returns where a run died: "in step 4", or "after step 4" if that step has its line.
    fn place(&self) -> String {
        match self.step() {
            Some(step) if self.written => format!("after {step}"),
            _ => format!("in {}", self.step_now()),
        }
    }

    /// Returns the reason of a stop that was decided in the last round, if the run never reached
    /// its END.
    fn decided_stop(&self) -> Option<&'a str> {
        let (at, stop) = self.segment?.stop.as_ref()?;
        stop.reason.as_deref().filter(|_| {
            self.group
                .is_some_and(|group| (group.first..group.end).contains(at))
        })
    }

    fn stalled(&self, life: &Life) -> String {
        // Whole minutes, so that the sentence doesn't change on every refresh.
        let minutes = life.silence.unwrap_or_default() / 60_000_000;
        if self.index.slowest_gap() == 0 {
            let step = self.step_now();
            return format!(
                "No activity for {minutes} min in {step} (no earlier pauses to compare with)"
            );
        }
        let slowest = duration(self.index.slowest_gap());
        let after = duration(stalled_after(self.index.slowest_gap()));
        format!(
            "No activity for {minutes} min in {} (longest earlier pause: {slowest}, stalled after {after})",
            self.step_now()
        )
    }

    /// Returns the number of steps at which the budget ended the run. That's the step in the END
    /// event, which never began.
    fn spent_steps(&self) -> Option<i64> {
        let word = self
            .reason
            .filter(|word| StopReason::parse(word) == StopReason::BudgetSteps)?;
        let named = self
            .index
            .events()
            .get(self.segment?.end.as_ref()?.0)?
            .step_id;
        let done = i64::try_from(self.done).ok()?;
        (cause::cause(self.index, word) == cause::Cause::Budget && named == Some(done))
            .then_some(done)
    }

    /// Returns the mode of the last step's decision, or `None` if it's unknown.
    fn last_mode(&self) -> Option<&'a str> {
        let mode = match self.group.filter(|_| !self.written) {
            // If the step has no line, its events record the decision.
            Some(group) => match group.decision.as_deref()? {
                mode @ ("final" | "wait" | "handoff") => mode,
                _ => "act",
            },
            None => self.index.name(self.last?.1.mode),
        };
        Some(mode).filter(|mode| !mode.is_empty())
    }

    /// Returns whether the last step gave an answer.
    fn answers(&self) -> bool {
        self.last_mode() == Some("final")
    }

    /// Returns whether the files are known to contain no answer. That takes a manifest, and a last
    /// decision or a recorded null.
    fn has_no_answer(&self) -> bool {
        let is_other =
            self.last_mode().is_some_and(|mode| mode != "final") || is_answer_null(self.index);
        self.manifest.is_some() && !has_answer(self.index) && is_other
    }

    /// Returns whether it's known that no critic requested a stop in the last step. It isn't if a
    /// step has no line.
    fn no_critic_stopped(&self) -> bool {
        let by_event = self
            .segment
            .and_then(|segment| segment.critics.as_ref())
            .is_some_and(|(_, stopped, _)| *stopped);
        let by_step = self
            .last
            .is_none_or(|(_, step)| !step.fate.is_readable() || step.requested(CriticAction::Stop));
        // Scores below a threshold end a run with the same word.
        let by_score = self.stop.is_some_and(|stop| stop.code != Code::CriticStop);
        !by_event && !by_step && !by_score && lost(self.index).is_none()
    }

    /// Describes a stop reason that the files refute.
    fn refuted(&self) -> Option<String> {
        let word = self.reason?;
        let reason = StopReason::parse(word);
        if reason.says_answered() && self.has_no_answer() {
            return Some(format!(
                "Ended with \"{word}\"{}, but no file has an answer",
                self.step_after("after")
            ));
        }
        if reason == StopReason::CriticStop && self.no_critic_stopped() {
            let after = self.step_after("after");
            return Some(format!(
                "Ended with \"{word}\"{after}, but no critic requested a stop"
            ));
        }
        (reason.is_preflight() && self.done > 0).then(|| {
            format!(
                "Ended with \"{word}\" after {}, although that means the run never started",
                steps(self.done)
            )
        })
    }

    /// Returns whether success is recorded as false. QitOS before 0.1.0a1 ended every run with the
    /// word `final_result` and recorded false beside it, so in that case it means nothing.
    fn is_unsuccessful(&self) -> bool {
        let is_habit = self.reason == Some("final_result");
        !is_habit
            && self
                .manifest
                .is_some_and(|manifest| manifest.success == Some(false))
    }
}

/// Returns the reason of a stop that was decided in the newest run's last round, if the run never
/// reached its END.
pub(super) fn decided_stop(index: &Index) -> Option<&str> {
    Facts::of(index).decided_stop()
}

/// Returns the mode of the decision of the newest run's last step, or `None` if it's unknown.
pub(super) fn last_mode(index: &Index) -> Option<&str> {
    Facts::of(index).last_mode()
}

/// Describes the last event of a step that has no line, with the event's index.
pub(super) fn under_way(index: &Index) -> Option<(usize, String)> {
    let facts = Facts::of(index);
    let group = facts.group.filter(|_| !facts.written)?;
    let words = format!(
        "{} isn't in steps.jsonl; it was {}",
        capitalised(&facts.step_now()),
        facts.doing(group)
    );
    Some((group.end.checked_sub(1)?, words))
}

/// Returns whether every step records that it called no model. Only our own engine records that.
pub(super) fn asked_no_model(index: &Index) -> bool {
    let (tally, run) = (index.tally(), &index.tally().run);
    let all_tell = run.readable > 0 && tally.without_facts.count == 0 && lost(index).is_none();
    index.format().can.facts == Can::Yes && all_tell && run.without_count == run.readable
}

fn steps(number: usize) -> String {
    counted(number, "step")
}

fn duration(micros: i64) -> String {
    format::duration(Duration::from_micros(
        u64::try_from(micros).unwrap_or_default(),
    ))
}

/// Formats "6 of 60 steps", "31 s, limit 30 s" or "12 steps, limit 9".
pub(super) fn used_of(used: f64, limit: f64, unit: &str) -> String {
    match unit {
        "ms" | "usd" => compared(used, limit, unit),
        _ if used > limit => compared(used, limit, unit),
        _ => format!("{} of {}", stated::amount(used, unit), amount(limit, unit)),
    }
}

/// Formats "6 steps, limit 6" or "31 s, limit 30 s".
pub(super) fn compared(used: f64, limit: f64, unit: &str) -> String {
    let of_limit = if matches!(unit, "ms" | "usd") {
        unit
    } else {
        ""
    };
    format!("{}, limit {}", amount(used, unit), amount(limit, of_limit))
}

/// Makes the first letter lowercase.
pub(crate) fn lowered(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |first| {
        first.to_lowercase().chain(chars).collect()
    })
}

/// Makes the first letter uppercase.
pub(crate) fn capitalised(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |first| {
        first.to_uppercase().chain(chars).collect()
    })
}
