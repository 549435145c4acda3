//! Adds up to two sentences about the end: other rules that were true, and what the run did instead
//! of answering.

use super::cause::Spent;
use super::facts::{Facts, is_disputed, steps};
use super::{RunStatus, recorded};
use crate::analysis::chain;
use crate::analysis::format::{count, score};
use crate::analysis::newest::{has_answer, kept_answer, label, newest_run};
use crate::analysis::stated;
use crate::model::names::the_critic;
use crate::model::{CANCELLED, CriticAction, RUN_CANCELLED, StepHead, StopReason};
use crate::stop::{self, BUDGETS};

/// A last score below this, on a scale from 0 to 1, is low.
const LOW: f64 = 0.5;

/// Fewer failed steps than this aren't reported as most of the steps.
const MIN_FAILED: usize = 3;

/// Ends a sentence with a full stop, unless it ends with one or was truncated.
fn full_stop(sentence: &str) -> String {
    if sentence.ends_with(['.', '…']) {
        sentence.to_owned()
    } else {
        format!("{sentence}.")
    }
}

impl Facts<'_> {
    /// Returns the additional sentences; may be empty.
    pub(super) fn second(&self, mark: RunStatus) -> String {
        let of_stop = |stop| recorded::also(stop, self.retraced());
        let mut also = self
            .stop
            .filter(|stop| !stop.also.is_empty())
            .map(of_stop)
            .unwrap_or_default();
        let reached = stated::also_reached(self.index)
            .into_iter()
            .chain(self.budgets_reached());
        let reached: Vec<String> = reached.collect();
        if also.is_empty() && !reached.is_empty() {
            also = format!("At the same time, {}.", reached.join(" and "));
        }
        let own = self.besides(mark).unwrap_or_default();
        let notes = self
            .manifest
            .into_iter()
            .flat_map(|manifest| &manifest.notes)
            .map(|note| &**note);
        let all = [&*also, &*own]
            .into_iter()
            .filter(|words| !words.is_empty())
            .chain(notes);
        all.collect::<Vec<_>>().join(" ")
    }

    /// Returns the other budget limits that were used up when one of them ended a run of QitOS.
    fn budgets_reached(&self) -> Vec<String> {
        let reason = self
            .reason
            .map(StopReason::parse)
            .filter(|_| self.stop.is_none());
        if reason.and_then(stop::budget_of).is_none() {
            return Vec::new();
        }
        let others = BUDGETS.iter().filter(|row| Some(row.reason) != reason);
        let is_reached = |budget| {
            Spent::of(self.index, budget).is_used_up() == Some(true)
                && Spent::overrun(self.index, budget).is_none()
        };
        let reached = others.filter(|row| is_reached(row.reason));
        reached.map(|row| row.clause.to_owned()).collect()
    }

    /// Returns the first that applies: a refused answer, a loop, the last error, another sequence
    /// of similar steps, a low last score, mostly failed steps, no answer.
    fn besides(&self, mark: RunStatus) -> Option<String> {
        let preflight = self
            .reason
            .is_some_and(|word| StopReason::parse(word).is_preflight());
        if preflight || self.stop.is_some_and(|stop| stop.step.is_none()) || is_disputed(self.index)
        {
            return None;
        }
        let ended = self.reason.is_some();
        let kept = kept_answer(self.index).is_some() && self.manifest.is_some();
        // The first sentence already covers an answer in the last step.
        let unanswered = ended && !has_answer(self.index) && !self.answers();
        let patterns = chain::patterns_before_stop(self.index, mark, self.reason);
        let pattern = |is_loop: bool| {
            let found = patterns
                .iter()
                .find(|pattern| pattern.kind.is_loop() == is_loop);
            found.map(|pattern| full_stop(&pattern.text))
        };
        let low_counts = unanswered && matches!(mark, RunStatus::Limit | RunStatus::Error);
        // A refused answer may be the last step's, and doesn't count as accepted.
        let may_be_refused = ended && !kept && mark != RunStatus::Answered;
        // Each of these may walk all steps, so they're evaluated only when needed.
        let refused = may_be_refused.then(|| self.refused()).flatten();
        refused
            .or_else(|| pattern(true))
            .or_else(|| self.last_error(mark))
            .or_else(|| pattern(false))
            .or_else(|| low_counts.then(|| self.low_score()).flatten())
            .or_else(|| self.mostly_failed(mark))
            // A run recorded as answered gave an answer, even if it isn't recorded.
            .or_else(|| {
                (unanswered && self.reason == Some("final"))
                    .then(|| "Its answer isn't recorded.".to_owned())
            })
            .or_else(|| unanswered.then(|| "No answer was given.".to_owned()))
    }

    /// Describes the last answer that a critic sent back.
    fn refused(&self) -> Option<String> {
        let is_refused = |step: &StepHead| {
            self.index.name(step.mode) == "final" && step.requested(CriticAction::Retry)
        };
        let (n, step) = newest_run(self.index)
            .rev()
            .find(|(_, step)| is_refused(step))?;
        let critic = step
            .critics
            .iter()
            .find(|mark| mark.action == CriticAction::Retry)?;
        let why = step.critic_reason.as_deref().filter(|why| !why.is_empty());
        let why = why.map_or_else(String::new, |why| {
            format!(": {}", why.trim_end_matches('.'))
        });
        Some(format!(
            "{} rejected the answer in {}{why}.",
            self.index.name(critic.name),
            label((n, step))
        ))
    }

    fn last_error(&self, mark: RunStatus) -> Option<String> {
        let engine = self
            .group
            .filter(|_| self.reason.is_none())
            .and_then(|group| group.error.as_ref());
        if let Some((_, error)) = engine {
            let error = chain::of_engine(error);
            return Some(full_stop(&format!("Error in {}: {error}", self.step_now())));
        }
        let last = self.last?;
        let error = last.1.error.as_deref();
        // The first sentence says that the run was cancelled.
        let is_told = |error: &&str| {
            mark == RunStatus::Cancelled && error.strip_prefix(CANCELLED) == Some(RUN_CANCELLED)
        };
        error.filter(|error| !is_told(error))?;
        let failure = chain::describe_failure(self.index, last.1)?;
        Some(format!("In {}, {}", label(last), full_stop(&failure)))
    }

    /// Describes a run that gave up: it ended with an answer after more than half of its steps, and
    /// at least [`MIN_FAILED`], failed. Steps that it abandoned in a rewind don't count. Returns
    /// `None` for a run with a recorded success, and if not all steps are known.
    fn mostly_failed(&self, mark: RunStatus) -> Option<String> {
        let has_succeeded = self
            .manifest
            .is_some_and(|manifest| manifest.success == Some(true));
        if mark != RunStatus::Answered || has_succeeded || self.index.step_skips().is_cut() {
            return None;
        }
        let (mut all, mut failed) = (0_usize, 0_usize);
        for (n, step) in newest_run(self.index).filter(|(_, step)| !step.is_abandoned) {
            let is_failed = !step.is_ok() && !step.is_cancelled();
            all += 1;
            failed += usize::from(is_failed || self.index.error_of(n).is_some());
        }
        (failed >= MIN_FAILED && failed * 2 > all)
            .then(|| format!("{} of {} failed.", count(failed as u64), steps(all)))
    }

    fn low_score(&self) -> Option<String> {
        let (n, step) = newest_run(self.index)
            .rev()
            .find(|(_, step)| step.lowest_score().is_some())?;
        let low = step.lowest_score().filter(|low| (0.0..LOW).contains(low))?;
        let critic = step.critics.iter().find(|mark| mark.score == Some(low))?;
        Some(format!(
            "The lowest score in {} is {}, from {}.",
            label((n, step)),
            score(low),
            the_critic(self.index.name(critic.name))
        ))
    }
}
