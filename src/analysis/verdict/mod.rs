//! Explains in one sentence why a run stopped, using only the index and reading no lines.
//!
//! If no file records a measured value, the sentence omits it rather than inventing one.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use thin_vec::ThinVec;

use super::compact::Shared;
use super::format::{self, capitalised};
use super::life::{Basis, Life, Liveness, stalled_after};
use super::newest::{has_unreadable_tail, is_answer_blank, kept_answer, label};
use super::stated;
use crate::model::{CallEnd, Certainty, Ended, Index, Outcome, StopReason};

pub(super) mod cause;
mod claims;
mod contradiction;
pub(super) mod criterion;
mod ended;
mod facts;
mod now;
mod recorded;
mod rounds;
mod second;
mod stop_word;
#[cfg(test)]
mod tests;
mod unsolved;
mod wording;

pub(crate) use super::run_status::RunStatus;
pub(crate) use cause::{LimitFrom, StepLimit};
pub(super) use facts::{decided_stop, is_disputed, last_mode};
pub(super) use recorded::ENGINE_KEYS;
pub(crate) use recorded::{is_reason_borrowed, reading};
pub(super) use rounds::other_run;
pub(super) use unsolved::{UNSOLVED, deciding, is_part_of_reward};
pub(crate) use wording::{Note, NoteKind};

use facts::{Facts, steps};
use stop_word::classify;
use wording::{NEXT, Wording};

/// The reason why a run stopped.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verdict {
    /// The reason with its notes, without a full stop.
    pub sentence: Shared,
    /// The sentence without its notes and without what shows the end. Empty if it has neither.
    pub(super) head: Shared,
    /// The same in the few words of a table cell. Empty if the head is short enough.
    pub brief: Shared,
    /// Further facts about the end, in the order of the sentence.
    pub notes: ThinVec<Note>,
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
    /// Returns the sentence without its notes and without what shows the end.
    pub fn head(&self) -> &str {
        if self.head.is_empty() {
            &self.sentence
        } else {
            &self.head
        }
    }

    /// Returns the verdict with a note that names the file which records it, and without what is only
    /// known of that file.
    #[must_use]
    pub(crate) fn recorded_in(mut self, key: &str) -> Self {
        let note = Note::new(NoteKind::Other, format!("recorded in {key}"));
        self.head = self.head().into();
        self.sentence = format!("{}{NEXT}{}", self.sentence, note.words).into();
        self.notes.push(note);
        Self {
            second: Shared::default(),
            contradictions: ThinVec::new(),
            ..self
        }
    }

    /// Returns whether the sentence names what shows the end, in brackets after the head.
    pub(crate) fn names_basis(&self) -> bool {
        let rest = self.sentence.strip_prefix(self.head());
        rest.is_some_and(|rest| rest.starts_with(" ("))
    }

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

/// Determines why a run stopped.
pub(crate) fn verdict(index: &Index, life: &Life) -> Verdict {
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
    let verdict = |outcome, mark, certainty, mut wording: Wording| {
        let contradictions = contradiction::contradictions(&facts, life, outcome);
        // A statement that another record contradicts doesn't count as recorded.
        let is_denied = certainty == Certainty::Recorded && !contradictions.is_empty();
        let certainty = if is_denied {
            Certainty::Inferred
        } else {
            certainty
        };
        let is_said = facts.is_unsuccessful() || wording.has(NoteKind::Denial);
        if mark == RunStatus::Answered && !contradictions.is_empty() && !is_said {
            wording = wording.note("conflicting records");
        }
        let is_blank = mark == RunStatus::Answered && is_answer_blank(facts.index);
        let mark = if is_blank { RunStatus::Unknown } else { mark };
        if is_blank {
            wording = format!("Ended with an empty answer{}", facts.step_after("at")).into();
        }
        let has_answer = kept_answer(facts.index).is_some();
        let answered = match mark {
            RunStatus::Answered => outcome == Outcome::Completed || has_answer,
            _ => outcome == Outcome::Completed && has_answer,
        };
        let second = facts.second(mark);
        let is_undenied = mark == RunStatus::Answered && contradictions.is_empty();
        // Whether the answer is right matters more than how the run ended.
        let (sentence, head, second) = match facts.unsolved().filter(|_| is_undenied) {
            Some(unsolved) => {
                let second = unsolved::how_it_ended(&wording, &second);
                (unsolved, "", second)
            }
            None => {
                let (sentence, head) = wording.sentence();
                (sentence, head, second)
            }
        };
        Verdict {
            sentence: sentence.into(),
            head: head.into(),
            brief: wording.brief.as_str().into(),
            notes: wording.notes.into(),
            second: second.into(),
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
            sentence.into(),
        );
    }
    if has_unreadable_tail(index) {
        let (outcome, mark, certainty) = match life.liveness {
            Liveness::Running => (Outcome::Running, RunStatus::Running, Certainty::Inferred),
            Liveness::Quiet => (Outcome::Running, RunStatus::Quiet, Certainty::Inferred),
            Liveness::Stalled => (Outcome::Running, RunStatus::Stalled, Certainty::Inferred),
            _ => (Outcome::Unknown, RunStatus::Unknown, Certainty::Unknown),
        };
        return verdict(outcome, mark, certainty, facts.unreadable_tail().into());
    }
    if let Some(ended) = facts.ended(life) {
        let (mark, wording) = ended::read(&facts, ended);
        let base = verdict(ended.outcome, mark, ended.certainty, wording);
        return Verdict {
            // Board's own description of the last records isn't a recorded reason.
            stop_reason: Some(&*ended.word)
                .filter(|word| !word.is_empty() && !ended.is_own_word())
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
            sentence.into(),
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
            sentence.into(),
        );
    }
    match (life.liveness, reason) {
        (Liveness::Running, _) => verdict(
            Outcome::Running,
            RunStatus::Running,
            Certainty::Inferred,
            facts.now().into(),
        ),
        (Liveness::Quiet, _) => verdict(
            Outcome::Running,
            RunStatus::Quiet,
            Certainty::Inferred,
            facts.now().into(),
        ),
        (Liveness::Stalled, _) => verdict(
            Outcome::Running,
            RunStatus::Stalled,
            Certainty::Inferred,
            facts.stalled(life).into(),
        ),
        (Liveness::Waiting | Liveness::Unknown, _) if let Some(sentence) = facts.asks(life) => {
            verdict(
                Outcome::Unknown,
                RunStatus::Unknown,
                Certainty::Inferred,
                sentence.into(),
            )
        }
        (Liveness::Waiting, _) => verdict(
            Outcome::Unknown,
            RunStatus::Unknown,
            Certainty::Unknown,
            facts.waits().into(),
        ),
        (Liveness::Unknown, _) if let Some(cut) = facts.cut() => verdict(
            Outcome::Unknown,
            RunStatus::Unknown,
            Certainty::Unknown,
            capitalised(&cut).into(),
        ),
        (Liveness::Unknown, _) if let Some(sentence) = facts.cancelled() => verdict(
            Outcome::Cancelled,
            RunStatus::Cancelled,
            Certainty::Inferred,
            sentence.into(),
        ),
        (Liveness::Unknown, _) => {
            // No process waits for a user here, but that doesn't show that the program was killed.
            let is_untold = matches!(life.basis, Basis::Closed | Basis::Untimed);
            let why = index.format().no_end_reason;
            let sentence = if is_untold || !why.is_empty() {
                format!("No end recorded{}", facts.step_after("after"))
            } else {
                facts.broken_off()
            };
            let verdict = verdict(
                Outcome::Unknown,
                RunStatus::Unknown,
                Certainty::Unknown,
                sentence.into(),
            );
            let second = match (why, &*verdict.second) {
                ("", second) => second.to_owned(),
                (why, "") => format!("{}.", capitalised(why)),
                (why, second) => format!("{}. {second}", capitalised(why)),
            };
            Verdict {
                second: second.into(),
                ..verdict
            }
        }
        (Liveness::Died, None) => verdict(
            Outcome::Failed,
            RunStatus::Died,
            Certainty::Inferred,
            facts.died(life).into(),
        ),
        (_, word) => match (facts.stop, word) {
            (Some(stop), _) => {
                let (outcome, mark, wording) = recorded::read(&facts, stop);
                verdict(outcome, mark, Certainty::Recorded, wording)
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
                facts.no_reason().into(),
            ),
        },
    }
}

impl<'a> Facts<'a> {
    /// Returns the end of another tool's run.
    fn ended(&self, life: &Life) -> Option<&'a Ended> {
        let manifest = self.index.manifest().get()?;
        let is_over = matches!(life.liveness, Liveness::Died | Liveness::Unknown)
            && !has_unreadable_tail(self.index)
            && self.cut().is_none();
        let presumed = manifest.presumed_end.as_deref().filter(|_| is_over);
        manifest.ended.as_deref().or(presumed)
    }
}

impl Facts<'_> {
    /// Describes a run whose last tool call was cancelled and that has no further records.
    fn cancelled(&self) -> Option<String> {
        let (_, last) = self.last.filter(|(_, step)| step.unanswered.is_none())?;
        let (step, during) = self.cancelled_call()?;
        let by_user = last
            .error
            .as_deref()
            .is_some_and(|words| words.to_lowercase().contains("user"));
        let who = if by_user { " by the user" } else { "" };
        Some(format!(
            "Cancelled{who} in {step} {during}; no records follow"
        ))
    }

    /// Returns the last step and its cancelled call: "during a call to bash". A call without a
    /// result, or one that wasn't permitted, may never have run.
    fn cancelled_call(&self) -> Option<(String, String)> {
        let (n, step) = self.last?;
        let stopped = || {
            let call = step.calls.iter().rev();
            call.filter(|_| step.is_cancelled())
                .find(|call| call.end == CallEnd::Stopped)
        };
        let waiting = || step.calls.get(usize::from(step.unanswered?.get() - 1));
        let call = stopped().or_else(waiting)?;
        let during = match self.index.name(call.name) {
            "" => "during a tool call".to_owned(),
            tool => format!("during a call to {tool}"),
        };
        Some((label((n, step)), during))
    }

    /// Returns whether the user declined a call of the last step, which doesn't stop the turn. Claude
    /// Code says so also of a call that it cancelled, in other words.
    fn has_declined(&self) -> bool {
        let error = self.last.and_then(|(_, step)| step.error.as_deref());
        error.is_some_and(|words| {
            ["rejected by user", "denied", "declined"]
                .iter()
                .any(|word| words.contains(word))
        })
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
        let stopped = stop.map(|word| {
            let place = self.place();
            format!("Died {place}: stop reason \"{word}\" recorded, but no END event")
        });
        if life.basis == Basis::Teardown {
            return stopped.unwrap_or_else(|| {
                let place = self.place();
                format!("Died {place}: the engine closed its tools but wrote no END event")
            });
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
        if let Some(stopped) = stopped {
            return stopped;
        }
        let gone = if life.basis == Basis::Process {
            "; its process is gone"
        } else {
            ""
        };
        match self.group.and_then(|group| self.doing(group)) {
            Some(doing) => {
                format!("Died {} while {}{gone}", self.place(), doing.in_the_past())
            }
            None => {
                let last = self.phase(Some(event));
                format!("Died {}; the last event is {last}{gone}", self.place())
            }
        }
    }

    /// Describes what the records of another tool's run lack at the end, and what that may mean.
    fn broken_off(&self) -> String {
        let lacks = self.lacks();
        let is_child = self
            .manifest
            .is_some_and(|manifest| manifest.parent.is_some());
        // A tool may be waiting for its approval. A missing reply isn't up to the user.
        let is_reply_missing =
            self.waits_for().is_none() && (self.last.is_some() || self.index.steps().is_empty());
        let may = match (is_child, is_reply_missing) {
            (true, _) => "killed, or stopped with its parent run",
            (false, true) => "killed, interrupted or stopped",
            (false, false) => "killed, or waiting for the user",
        };
        format!("{lacks}: {may}")
    }

    fn lacks(&self) -> String {
        match (self.waits_for(), self.last) {
            (Some((step, tool)), _) => {
                format!("No result for {tool} in {}", label(step))
            }
            (None, Some(last)) => {
                format!("No model reply after {}", label(last))
            }
            (None, None) if self.index.steps().is_empty() => "No model reply".to_owned(),
            (None, None) => "No model reply after rewinding to before the first step".to_owned(),
        }
    }

    fn stalled(&self, life: &Life) -> String {
        // Whole minutes, so that the sentence doesn't change on every refresh.
        let minutes = life.silence.unwrap_or_default() / 60_000_000;
        if self.index.slowest_gap() == 0 {
            let step = self.step_now();
            return format!("No activity for {minutes} min in {step}");
        }
        let slowest = duration(self.index.slowest_gap());
        let after = duration(stalled_after(self.index.slowest_gap()));
        format!(
            "No activity for {minutes} min in {} (longest earlier pause: {slowest}, stalled after {after})",
            self.step_now()
        )
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
        if self.stop.is_some_and(is_reason_borrowed) {
            return None;
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
}

/// Returns the end of another tool's run: as recorded, or as presumed once no more records follow.
pub(super) fn ended<'a>(index: &'a Index, life: &Life) -> Option<&'a Ended> {
    Facts::of(index).ended(life)
}

/// Returns the error in the records of the run's end: of the end itself, of the failure that ended
/// the run, or of the stop check.
pub(in crate::analysis) fn error_of_end<'a>(index: &'a Index, life: &Life) -> Option<&'a str> {
    let detail = ended(index, life).map(|ended| &*ended.detail);
    let fatal = || Some(&*index.manifest().get()?.fatal()?.message);
    let stop = || index.stop().map(|stop| &*stop.reading.detail);
    let filled = |text: &&str| !text.is_empty();
    detail
        .filter(filled)
        .or_else(|| fatal().filter(filled))
        .or_else(|| stop().filter(filled))
}

/// Returns whether the sentence itself says that no end is recorded.
pub(super) fn says_no_end(index: &Index, life: &Life) -> bool {
    let facts = Facts::of(index);
    let may_say = match life.liveness {
        Liveness::Waiting => true,
        Liveness::Unknown => {
            !index.format().no_end_reason.is_empty()
                && facts.cut().is_none()
                && stated::end_by_who(index).is_none()
        }
        _ => false,
    };
    may_say && index.away().is_none() && !has_unreadable_tail(index) && facts.ended(life).is_none()
}

/// Describes the last event of a step that has no line, with the event's index.
pub(super) fn under_way(index: &Index) -> Option<(usize, String)> {
    let facts = Facts::of(index);
    let group = facts.group.filter(|_| !facts.written)?;
    let was = facts
        .doing(group)
        .map_or_else(String::new, |doing| match doing {
            now::Doing::Agent(_) => format!(". The agent was {}", doing.in_the_past()),
            _ => format!(". It was {}", doing.in_the_past()),
        });
    let words = format!(
        "{} isn't in steps.jsonl{was}",
        capitalised(&facts.step_now())
    );
    Some((group.end.checked_sub(1)?, words))
}

fn duration(micros: i64) -> String {
    format::duration(Duration::from_micros(
        u64::try_from(micros).unwrap_or_default(),
    ))
}
