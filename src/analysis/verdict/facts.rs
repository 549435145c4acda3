//! Selects the records of an index that show how the newest run ended.

use std::cell::OnceCell;

use super::wording::Wording;
use crate::analysis::format::{self, amount, capitalised, lowered};
use crate::analysis::lost::lost;
use crate::analysis::newest::{after_the_end, has_answer, is_answer_null, label, newest_run};
use crate::analysis::retrace::{Retraced, retrace};
use crate::analysis::stated::{self, used_of};
use crate::model::index::{Group, Segment};
use crate::model::{Agreement, Code, CriticAction, Index, Manifest, Op, StepHead, StopVerdict};

/// The parts of an index that a verdict uses.
pub(super) struct Facts<'a> {
    pub(super) index: &'a Index,
    pub(super) segment: Option<&'a Segment>,
    pub(super) manifest: Option<&'a Manifest>,
    /// The last step line and its ordinal.
    pub(super) last: Option<(usize, &'a StepHead)>,
    /// The last round of the loop in the events.
    pub(super) group: Option<&'a Group>,
    /// Whether the step of that round has its line.
    pub(super) written: bool,
    pub(super) reason: Option<&'a str>,
    /// The verdict recorded by board's engine.
    pub(super) stop: Option<&'a StopVerdict>,
    /// The number of steps of the newest run in the directory, up to its end.
    pub(super) done: usize,
    /// The comparison of the verdict with the recorded rules, computed on first use.
    retraced: OnceCell<Option<Retraced>>,
}

impl<'a> Facts<'a> {
    pub(super) fn of(index: &'a Index) -> Self {
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
    pub(super) fn retraced(&self) -> Option<&Retraced> {
        self.retraced.get_or_init(|| retrace(self.index)).as_ref()
    }

    /// Returns "step 5": the last step in any file, by its recorded label if it has one.
    pub(super) fn step(&self) -> Option<String> {
        let unwritten = self
            .group
            .filter(|_| !self.written)
            .and_then(|group| group.step_id);
        unwritten
            .map(|id| format!("step {id}"))
            .or_else(|| self.last.map(label))
    }

    /// Returns " at step 5" with the given preposition, or an empty string if no step is known.
    pub(super) fn step_after(&self, preposition: &str) -> String {
        self.step()
            .map_or_else(String::new, |step| format!(" {preposition} {step}"))
    }

    /// Returns the step that was running, according to the events.
    pub(super) fn step_now(&self) -> String {
        match self.group.and_then(|group| group.step_id) {
            Some(id) => format!("step {id}"),
            None => match self.step() {
                Some(step) => format!("the step after {step}"),
                None if self.is_asked() => "the first step".to_owned(),
                None => "setup".to_owned(),
            },
        }
    }

    /// Returns whether a recorded prompt asks the model for a reply.
    pub(super) fn is_asked(&self) -> bool {
        let turns = self.manifest.and_then(|manifest| manifest.turns);
        turns.is_some_and(|turns| turns > 0)
    }

    /// Returns the headline for a limit if records disagree on the amount used.
    pub(super) fn disputed_total(&self, what: &str, unit: &'static str) -> Option<Wording> {
        let total = stated::total(self.index, unit);
        let about = match unit {
            "steps" => "number of steps",
            "ms" => "time",
            other => other,
        };
        let values = stated::values(total.disputed()?, unit);
        let holders = stated::holders(self.index);
        let dispute = format!("{holders} disagree on the {about} ({values})");
        Some(Wording::from(what.to_owned()).note(&dispute))
    }

    /// Returns the headline for a limit that records disagree on: the stated values, and the usage
    /// if exactly one of them was reached. `None` if the records agree.
    pub(super) fn disputed_limit(
        &self,
        what: &str,
        limit: &Agreement<f64>,
        spent: (Option<f64>, Op, &str),
    ) -> Option<Wording> {
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
        let holders = capitalised(holders);
        Some(format!("{holders} disagree on the limit ({values}): {what}{used}").into())
    }

    /// Describes where the run's only file is truncated or damaged.
    pub(super) fn cut(&self) -> Option<String> {
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

    /// Returns the run's own last step and its first tool without a result.
    pub(super) fn waits_for(&self) -> Option<((usize, &StepHead), &str)> {
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
    pub(super) fn place(&self) -> String {
        match self.step() {
            Some(step) if self.written => format!("after {step}"),
            _ => format!("in {}", self.step_now()),
        }
    }

    /// Returns the reason of a stop that was decided in the last round, if the run never reached
    /// its END.
    pub(super) fn decided_stop(&self) -> Option<&'a str> {
        let (at, stop) = self.segment?.stop.as_ref()?;
        stop.reason.as_deref().filter(|_| {
            self.group
                .is_some_and(|group| (group.first..group.end).contains(at))
        })
    }

    /// Returns the mode of the last step's decision, or `None` if it's unknown.
    pub(super) fn last_mode(&self) -> Option<&'a str> {
        let mode = match self.group.filter(|_| !self.written) {
            // If the step has no line, its events record the decision.
            Some(group) => match group.decision()? {
                mode @ ("final" | "wait" | "handoff") => mode,
                _ => "act",
            },
            None => self.index.name(self.last?.1.mode),
        };
        Some(mode).filter(|mode| !mode.is_empty())
    }

    /// Returns whether the last step gave an answer.
    pub(super) fn answers(&self) -> bool {
        self.last_mode() == Some("final")
    }

    /// Returns whether the files are known to contain no answer. That takes a manifest, and a last
    /// decision or a recorded null.
    pub(super) fn has_no_answer(&self) -> bool {
        let is_other =
            self.last_mode().is_some_and(|mode| mode != "final") || is_answer_null(self.index);
        self.manifest.is_some() && !has_answer(self.index) && is_other
    }

    /// Returns whether it's known that no critic requested a stop in the last step. It isn't if a
    /// step has no line.
    pub(super) fn no_critic_stopped(&self) -> bool {
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

    /// Returns whether success is recorded as false. QitOS before 0.1.0a1 ended every run with the
    /// word `final_result` and recorded false next to it, so in that case it means nothing.
    pub(super) fn is_unsuccessful(&self) -> bool {
        let is_habit = self.reason == Some("final_result");
        !is_habit
            && self
                .manifest
                .is_some_and(|manifest| manifest.success == Some(false))
    }
}

/// Returns whether records disagree on why the run ended.
pub(in crate::analysis) fn is_disputed(index: &Index) -> bool {
    index.end().disputed().is_some()
}

/// Returns the reason of a stop that was decided in the newest run's last round, if the run never
/// reached its END.
pub(in crate::analysis) fn decided_stop(index: &Index) -> Option<&str> {
    Facts::of(index).decided_stop()
}

/// Returns the mode of the decision of the newest run's last step, or `None` if it's unknown.
pub(in crate::analysis) fn last_mode(index: &Index) -> Option<&str> {
    Facts::of(index).last_mode()
}

/// Formats "3 steps".
pub(super) fn steps(number: usize) -> String {
    format::counted(number, "step")
}
