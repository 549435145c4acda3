//! Sums up the heads as they arrive, so that a long run isn't walked again after each of its lines.
//!
//! The newest steps are summed again after each change, so any of them may still be replaced by a
//! more complete head. Replacing an older step, or changing a step's id, requires summing
//! everything again.
//!
//! Steps and events are joined by id run here. If their id runs differ in number, that join is wrong,
//! and queries that depend on it walk the heads instead.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash, Hasher as _};

use super::skip::Hole;
use super::tally::{RunTally, Tally};
use super::{Group, Index};
use crate::model::failure::message::fold;
use crate::model::failure::{FailureKey, FailureSource, FailureTally};
use crate::model::head::no_output;
use crate::model::telling::{Tells, telling_line};
use crate::model::{StepHead, Symbol};

/// The number of newest steps that can be replaced at no cost.
const OPEN: usize = 32;

impl Index {
    /// Returns the sums over the steps.
    pub fn tally(&self) -> &Tally {
        &self.tally
    }

    /// Returns the sums over the first `copied` steps of the newest run, and over the others.
    pub fn tally_apart(&self, copied: usize) -> (RunTally, RunTally) {
        let start = self.newest_start();
        let (mut before, mut own) = (RunTally::default(), RunTally::default());
        for (n, step) in self
            .steps
            .iter()
            .enumerate()
            .skip(start)
            .filter(|(n, _)| !self.is_repeat(*n))
        {
            let part = if n < start + copied {
                &mut before
            } else {
                &mut own
            };
            part.add(step, self.time_of(n));
            self.add_failure(part, (n, step), self.error_of(n));
            if n + 1 == start + copied {
                // Totals continue from the copied steps.
                own.tokens_so_far = before.tokens_so_far;
            }
        }
        own.add_failed(self.void);
        (before, own)
    }

    /// Returns the sums over the steps of the newest run, except those in `skip`.
    pub fn tally_without(&self, skip: &BTreeSet<usize>) -> RunTally {
        let mut tally = RunTally::default();
        for (n, step) in self.steps.iter().enumerate().skip(self.newest_start()) {
            if !skip.contains(&n) && !self.is_repeat(n) {
                tally.add(step, self.time_of(n));
                self.add_failure(&mut tally, (n, step), self.error_of(n));
            }
        }
        tally.add_failed(self.void);
        tally
    }

    /// Returns a hash that step `n` shares only with its copies. In a run that is a single file, it
    /// covers what the step asks for and when, and is `None` if the time is unknown. In a captured
    /// stream without times, it covers only what the step asks for. In a session without times, it
    /// covers the ids of the step's calls, and is `None` if the first step has none. In other runs, it covers the id, the
    /// request, the results and the state changes.
    pub fn identity_of(&self, n: usize) -> Option<u64> {
        let step = self.steps.get(n)?;
        if self.format().is_one_file() {
            let event = self
                .events
                .get(usize::try_from(*step.parts.first()?).ok()?)?;
            if self.format().is_untimed_stream() {
                return Some(hash(&step.asked_hash));
            }
            if self.format().is_known_by_calls {
                let asked = (step.call_ids, step.asked_hash, step.tokens);
                return Some(hash(&asked)).filter(|_| n > 0 || step.call_ids != 0);
            }
            return Some(hash(&(event.ts?, step.asked_hash)));
        }
        Some(hash(&(
            step.step_id,
            step.asked_hash,
            step.result_hash,
            step.state_hash,
        )))
    }

    /// Returns when step `n` began, in microseconds since the epoch.
    pub fn time_of(&self, n: usize) -> Option<i64> {
        let first = self
            .steps
            .get(n)?
            .parts
            .first()
            .and_then(|event| self.events.get(usize::try_from(*event).ok()?));
        first.map_or_else(|| self.round_of(n)?.started, |event| event.ts)
    }

    /// Returns one past the last event of step `n`, as an index into [`Index::events`].
    pub fn end_of(&self, n: usize) -> Option<usize> {
        match self.steps.get(n)?.parts.last() {
            Some(event) => Some(usize::try_from(*event).ok()? + 1),
            None => Some(self.round_of(n)?.end),
        }
    }

    /// Returns the number of steps of the newest run in which something failed.
    pub fn failed_steps(&self) -> usize {
        if self.joins_by_laps() || self.step_skips.is_cut() {
            return self.tally.run.failed;
        }
        let failed = |(n, step): &(usize, &StepHead)| {
            !self.is_repeat(*n) && (!step.is_ok() || self.error_of(*n).is_some())
        };
        self.steps
            .iter()
            .enumerate()
            .skip(self.newest_start())
            .filter(failed)
            .count()
    }

    /// Returns the number of groups that no step line belongs to.
    pub fn count_without_line(&self) -> usize {
        self.kept_without_line()
            .unwrap_or_else(|| self.groups_without_line().len())
    }

    /// Returns the number of groups that no step line belongs to, if the per-id-run count is valid.
    pub(super) fn kept_without_line(&self) -> Option<usize> {
        self.groups
            .len()
            .checked_sub(self.joined)
            .filter(|_| self.joins_by_laps())
    }

    /// Returns whether the per-id-run join is right for this run.
    fn joins_by_laps(&self) -> bool {
        self.step_runs.len() == self.group_runs.len()
            && self.step_runs.is_exact()
            && self.group_runs.is_exact()
    }

    /// Discards the sums if they cover the step at `ordinal`, because it changed.
    pub(super) fn unsettle(&mut self, ordinal: usize) {
        if ordinal < self.settled.end {
            self.unsettle_all();
        }
    }

    /// Discards the sums over all kept steps. Dropped steps keep theirs.
    pub(super) fn unsettle_all(&mut self) {
        self.settled = self.base.clone();
        self.has_late_error = false;
    }

    /// Counts the steps that have a group.
    pub(super) fn count_joined(&mut self) {
        self.joined = (0..self.steps.len())
            .filter(|at| self.has_round(*at))
            .count();
    }

    /// Stores the sums over the steps before `hole.to`. The steps in the hole are dropped afterwards.
    pub(super) fn settle_hole(&mut self, hole: Hole) {
        let mut base = std::mem::take(&mut self.base);
        for n in base.end..hole.to {
            self.add(&mut base, n);
        }
        base.end = hole.from + 1;
        base.cut(hole);
        if self.settled.end >= hole.to {
            self.settled.end = hole.moved(self.settled.end - 1) + 1;
            self.settled.cut(hole);
        } else {
            self.settled = base.clone();
        }
        self.base = base;
    }

    /// Adds new steps to the sums. All but the newest ones are added for good.
    pub(super) fn add_up(&mut self) {
        // While a directory is read, its lines may be far ahead of its events, so each piece has errors
        // of steps that are added already. The sums get all of them at once, after the last piece.
        if self.has_late_error && !self.more {
            self.unsettle_all();
        }
        let mut settled = std::mem::take(&mut self.settled);
        for n in settled.end..self.steps.len().saturating_sub(OPEN) {
            self.add(&mut settled, n);
        }
        let mut tally = settled.clone();
        for n in tally.end..self.steps.len() {
            self.add(&mut tally, n);
        }
        if self.newest_start() == self.steps.len() {
            tally.run = RunTally::default();
        } else {
            tally.run.add_void(self.void);
        }
        (self.settled, self.tally) = (settled, tally);
    }

    /// Adds step `n`, which must follow the last step in the tally.
    fn add(&self, tally: &mut Tally, n: usize) {
        let Some(step) = self.steps.get(n) else {
            return;
        };
        tally.end = n + 1;
        if self.step_skips.get(n).is_some() {
            // The lines it replaces are counted separately.
            return;
        }
        tally.chain = hash(&(tally.chain, self.identity_of(n)));
        if self.step_runs.begins_at(n) {
            tally.run = RunTally::default();
        } else if let Some(before) = n
            .checked_sub(1)
            .and_then(|before| self.steps.get(before)?.step_id)
            && step
                .step_id
                .is_some_and(|id| id > before.saturating_add(1) && self.jumps(before, id))
        {
            tally.run.first_jump.get_or_insert(n);
            tally.jumps.add(n);
        }
        if self.is_repeat(n) {
            tally.repeats.add(n);
            tally.run.repeats += 1;
            return;
        }
        if step.fate.is_readable() && step.facts.is_none() {
            tally.without_facts.add(n);
        }
        if step.is_abandoned {
            tally.abandoned.add(n);
        }
        tally.run.add(step, self.time_of(n));
        let group = self.in_same_lap(n);
        let error = group.and_then(|group| group.error.as_ref());
        self.add_failure(&mut tally.run, (n, step), error);
    }

    /// Counts step `n` if something failed in it: in its line, or with an error in its group.
    fn add_failure(
        &self,
        tally: &mut RunTally,
        (n, step): (usize, &StepHead),
        error: Option<&(Symbol, Box<str>)>,
    ) {
        let failed = self.failure_keys(step, error);
        tally.failed += usize::from(!failed.is_empty());
        let time = failed.first().and_then(|_| self.time_of(n));
        tally.failures.add((n, step), failed, time);
    }

    /// Returns what failed in a step, and how often: the first failure, and those of further calls.
    /// Empty if nothing failed.
    pub fn failure_keys(
        &self,
        step: &StepHead,
        error: Option<&(Symbol, Box<str>)>,
    ) -> Vec<(FailureKey, u32)> {
        let Some(first) = self.failure_key(step, error) else {
            return Vec::new();
        };
        let mut keys = vec![(first, 1_u32)];
        let failed = step.failed_call.as_deref();
        for other in failed.into_iter().flat_map(|failed| &failed.others) {
            let message = self.name(other.message);
            let key = FailureKey {
                source: FailureSource::Tool,
                tool: other.tool,
                message: message.into(),
            };
            match keys.iter_mut().find(|(known, _)| *known == key) {
                Some((_, times)) => *times = times.saturating_add(other.calls),
                None => keys.push((key, other.calls)),
            }
        }
        keys
    }

    /// Returns what failed first in a step and how, or `None` if nothing did.
    fn failure_key(
        &self,
        step: &StepHead,
        error: Option<&(Symbol, Box<str>)>,
    ) -> Option<FailureKey> {
        if step.is_ok() {
            return error.map(|error| self.key_in_step(step, error));
        }
        let key = |source, tool, message: &str| FailureKey {
            source,
            tool,
            message: message.into(),
        };
        let message = self.name(step.failure);
        Some(match (&step.error, step.returncode) {
            _ if !step.fate.is_readable() => {
                key(FailureSource::Run, Symbol::default(), "unreadable line")
            }
            (Some(_), _) if step.is_of_reply() => {
                key(FailureSource::Model, Symbol::default(), message)
            }
            (Some(words), _) if message.is_empty() => {
                key(FailureSource::Tool, step.failed_tool, &fold(words))
            }
            (None, Some(code)) if message.is_empty() => {
                key(FailureSource::Tool, step.failed_tool, &no_output(code))
            }
            (Some(_), _) | (None, Some(_)) => key(FailureSource::Tool, step.failed_tool, message),
            (None, None) => match error {
                Some(error) => self.key_in_step(step, error),
                None => key(FailureSource::Model, Symbol::default(), "no decision"),
            },
        })
    }

    /// Returns the key of an error in an event of this step.
    fn key_in_step(&self, step: &StepHead, error: &(Symbol, Box<str>)) -> FailureKey {
        let key = self.key_of_event(error);
        let mut tools = step.tools();
        match (tools.next(), tools.next()) {
            (Some(tool), None) if key.source == FailureSource::Tool => FailureKey { tool, ..key },
            _ => key,
        }
    }

    /// Returns the key of an error that an event records: its phase and its message.
    pub fn key_of_event(&self, (phase, words): &(Symbol, Box<str>)) -> FailureKey {
        // An error in the phase ACT itself is the environment's.
        let source = match self.name(*phase) {
            phase if phase.starts_with("DECIDE") => FailureSource::Model,
            "ACT_ERROR" => FailureSource::Tool,
            _ => FailureSource::Run,
        };
        FailureKey {
            source,
            tool: Symbol::default(),
            message: fold(&telling_line(words, Tells::First)).into(),
        }
    }

    /// Returns the failed steps of the newest run by message. Their number is
    /// [`Index::failed_steps`].
    pub fn failures(&self) -> Cow<'_, FailureTally> {
        if self.joins_by_laps() || self.step_skips.is_cut() {
            return Cow::Borrowed(&self.tally.run.failures);
        }
        let mut tally = RunTally::default();
        for (n, step) in self.steps.iter().enumerate().skip(self.newest_start()) {
            if !self.is_repeat(n) {
                self.add_failure(&mut tally, (n, step), self.error_of(n));
            }
        }
        Cow::Owned(tally.failures)
    }

    /// Returns whether an id between these two is really missing, rather than out of order.
    fn jumps(&self, from: i64, to: i64) -> bool {
        self.step_runs.late() == 0 || self.step_runs.leaves_out(from, to)
    }

    fn in_same_lap(&self, ordinal: usize) -> Option<&Group> {
        let (id, run_index) = (
            self.steps.get(ordinal)?.step_id?,
            self.step_runs.of(ordinal)?,
        );
        self.groups.get(self.group_ids().find(run_index, id)?)
    }

    /// Updates the join count for the newest step, whose group may already exist.
    pub(super) fn join_newest_step(&mut self) {
        let newest = self.steps.len().checked_sub(1);
        self.joined += usize::from(newest.is_some_and(|n| self.has_round(n)));
    }

    /// Returns whether step `ordinal` has a group, joined by id run, that no earlier line has.
    pub(super) fn has_round(&self, ordinal: usize) -> bool {
        !self.is_repeat(ordinal)
            && !self.step_runs.is_double(ordinal)
            && self.in_same_lap(ordinal).is_some()
    }

    /// Returns the step of the newest group, joined by id run.
    fn step_of_newest_group(&self) -> Option<usize> {
        let newest = self.groups.len().checked_sub(1)?;
        let (id, run_index) = (
            self.groups.get(newest)?.step_id?,
            self.group_runs.of(newest)?,
        );
        self.step_ids().find(run_index, id)
    }

    /// Updates the join count for the newest group, whose step may already exist.
    pub(super) fn join_newest_group(&mut self) {
        self.joined += usize::from(self.step_of_newest_group().is_some());
    }

    /// Notes that the newest group got its first error, if its step is among the settled sums. What
    /// happened after that step is in the sums too.
    pub(super) fn fail_newest_group(&mut self) {
        self.has_late_error |= self
            .step_of_newest_group()
            .is_some_and(|n| (self.base.end..self.settled.end).contains(&n));
    }
}

fn hash(what: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    what.hash(&mut hasher);
    hasher.finish()
}
