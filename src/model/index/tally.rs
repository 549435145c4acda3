//! Sums up the heads as they arrive, so that a long run isn't walked again after each of its lines.
//!
//! The newest steps are summed again after each change, so any of them may still be replaced by a
//! more complete head. Replacing an older step, or changing a step's id, requires summing
//! everything again.
//!
//! Steps and events are joined by id run here. If their id runs differ in number, that join is wrong,
//! and queries that depend on it walk the heads instead.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher as _};

use super::super::step::Usage;
use super::super::{Fate, StepHead, Symbol};
use super::Index;
use super::skip::Hole;

/// The number of newest steps that can be replaced at no cost.
const OPEN: usize = 32;
/// The most score points kept.
const MAX_LOWS: usize = 48;

/// The sums over the steps.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Tally {
    /// The sums over the newest run.
    pub run: RunTally,
    /// The steps of the whole file whose ids don't follow the previous id.
    pub jumps: Places,
    /// The readable steps of the whole file that have no facts.
    pub without_facts: Places,
    /// The lines of the whole file that repeat the previous one and begin no run.
    pub repeats: Places,
    /// The steps of the whole file that the run abandoned by going back.
    pub left: Places,
    /// A hash of the identities of all steps of the file, as [`Index::identity_of`]. Equal
    /// sequences of steps have equal hashes.
    pub chain: u64,
    /// The number of steps summed.
    pub(super) end: usize,
}

/// The number of steps of one kind, and the ordinal of the first.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Places {
    /// The first, if there is one.
    pub first: Option<usize>,
    /// How many there are.
    pub count: usize,
}

/// The sums over the steps of one run.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RunTally {
    /// The number of lines that are JSON.
    pub readable: usize,
    /// The number of lines without a readable step: not JSON, or not an object.
    pub unread: usize,
    /// The lowest score of the last step that has one.
    pub last_score: Option<f64>,
    /// The lowest scores, downsampled.
    pub lows: Lows,
    /// The critics, in order of appearance.
    pub critics: Distinct,
    /// The tools, in order of appearance.
    pub tools: Distinct,
    /// The agents, in order of appearance.
    pub agents: Distinct,
    /// The state keys that steps changed, in order of appearance.
    pub changed: Distinct,
    /// The newest running token total that isn't 0.
    pub tokens: Option<u64>,
    /// The tokens used so far, from running totals and from the steps without one.
    pub tokens_so_far: Option<u64>,
    /// The tokens by model, in order of appearance. Steps that don't name their model count under
    /// the empty name.
    pub spent: Vec<(Symbol, Spent)>,
    /// The tokens by kind, from the steps that record them.
    pub usage: Usage,
    /// Whether any of the tokens is known to be an estimate.
    pub tokens_estimated: bool,
    /// The number of tool calls requested.
    pub calls: u64,
    /// The number of failed tool calls.
    pub failed_calls: u64,
    /// The number of steps that belong to other agents.
    pub nested: usize,
    /// The number of steps whose tokens are unknown.
    pub untold_tokens: usize,
    /// The number of steps without a token count, even if their tokens are known from a total or
    /// known to be none.
    pub without_count: usize,
    /// Whether any step is unreadable or has a call with an unknown outcome.
    pub untold_calls: bool,
    /// The first step whose id doesn't follow the previous id.
    pub first_jump: Option<usize>,
    /// The number of lines that repeat the previous one. They count in none of the sums.
    pub repeats: usize,
    /// The number of steps in which something failed, if events are joined by id run.
    pub failed: usize,
}

/// Lines of the newest run that contain no record and are only counted.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Void {
    /// The number of lines.
    count: usize,
    /// How many of them are readable.
    readable: usize,
}

impl Void {
    pub(super) fn add(&mut self, step: &StepHead) {
        self.count += 1;
        self.readable += usize::from(step.fate.is_readable());
    }
}

/// Token sums of steps.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Spent {
    /// The input tokens.
    pub input: u64,
    /// The part of the input tokens that came from a cache.
    pub cached: u64,
    /// The output tokens.
    pub output: u64,
    /// The number of steps whose tokens are unknown.
    pub untold: usize,
    /// The cost in US dollars of the steps that record it. Their tokens are in none of the sums.
    pub paid: f64,
}

impl Spent {
    fn add(&mut self, usage: Usage, cost: Option<f64>) {
        match (cost, usage.input.zip(usage.output)) {
            (Some(cost), _) => self.paid += cost,
            (None, None) => self.untold += 1,
            (None, Some((input, output))) => {
                self.input = self.input.saturating_add(input);
                self.output = self.output.saturating_add(output);
                self.cached = self
                    .cached
                    .saturating_add(usage.cached.unwrap_or(0).min(input));
            }
        }
    }
}

/// Distinct symbols, in order of appearance.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Distinct {
    list: Vec<Symbol>,
    seen: HashSet<Symbol>,
}

impl std::fmt::Debug for Distinct {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_list().entries(&self.list).finish()
    }
}

impl Distinct {
    fn add(&mut self, symbol: Symbol) {
        if self.seen.insert(symbol) {
            self.list.push(symbol);
        }
    }

    /// Iterates over the symbols.
    pub fn iter(&self) -> impl Iterator<Item = Symbol> {
        self.list.iter().copied()
    }
}

/// Downsamples scores by keeping the lowest of each few consecutive numbers, because people look
/// for low scores. The group size is a power of two, large enough to keep fewer than 49 numbers, so
/// that growing it needs only the kept numbers.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Lows {
    lows: Vec<f64>,
    /// The group size, as a power of two.
    power: u32,
    /// How many numbers were added.
    count: usize,
}

impl Lows {
    fn push(&mut self, number: f64) {
        let begins = self.count.is_multiple_of(1 << self.power);
        self.count += 1;
        match self.lows.last_mut().filter(|_| !begins) {
            Some(low) if number.total_cmp(low).is_lt() => *low = number,
            Some(_) => {}
            None => self.lows.push(number),
        }
        if self.lows.len() > MAX_LOWS {
            let lower = |pair: &[f64]| pair.iter().copied().min_by(f64::total_cmp);
            self.lows = self.lows.chunks(2).filter_map(lower).collect();
            self.power += 1;
        }
    }

    /// Returns the lowest number of each group.
    pub fn as_slice(&self) -> &[f64] {
        &self.lows
    }
}

impl Tally {
    /// Updates the ordinals of steps after a hole.
    fn cut(&mut self, hole: Hole) {
        for places in [
            &mut self.jumps,
            &mut self.without_facts,
            &mut self.repeats,
            &mut self.left,
        ] {
            places.first = places.first.map(|at| hole.moved(at));
        }
        self.run.first_jump = self.run.first_jump.map(|at| hole.moved(at));
    }
}

impl Places {
    fn add(&mut self, ordinal: usize) {
        self.first.get_or_insert(ordinal);
        self.count += 1;
    }
}

impl RunTally {
    fn add(&mut self, step: &StepHead) {
        self.readable += usize::from(step.fate != Fate::Unreadable);
        self.unread += usize::from(!step.fate.is_readable());
        if let Some(score) = step.lowest_score() {
            self.last_score = Some(score);
            self.lows.push(score);
        }
        step.critics
            .iter()
            .for_each(|mark| self.critics.add(mark.name));
        step.tools().for_each(|tool| self.tools.add(tool));
        self.calls = self.calls.saturating_add(u64::from(step.actions));
        self.failed_calls = self
            .failed_calls
            .saturating_add(u64::from(step.failed_calls));
        self.untold_calls |= step.tool_errors().is_none();
        step.changed.iter().for_each(|key| self.changed.add(*key));
        if step.agent != Symbol::default() {
            self.agents.add(step.agent);
        }
        self.spend(step);
        self.tokens_estimated |= step.tokens_estimated;
        self.nested += usize::from(step.is_nested);
        self.without_count += usize::from(step.fate.is_readable() && step.tokens.is_none());
        let is_told = step.tokens_alone(self.tokens_so_far).is_some();
        self.untold_tokens += usize::from(step.fate.is_readable() && !is_told);
        self.tokens = step.total_told().or(self.tokens);
        self.tokens_so_far = step.tokens_with(self.tokens_so_far);
    }

    fn add_void(&mut self, void: Void) {
        self.readable += void.readable;
        self.unread += void.count - void.readable;
        self.without_count += void.readable;
        self.untold_tokens += void.readable;
        self.untold_calls |= void.count > 0;
        self.failed += void.count;
    }

    fn spend(&mut self, step: &StepHead) {
        let usage = step.usage_alone(self.tokens_so_far);
        if usage.input.is_some() {
            self.usage = if self.usage.input.is_some() {
                self.usage.plus(usage)
            } else {
                usage
            };
        }
        let others = || {
            step.other_models
                .iter()
                .map(|(model, usage)| (*model, usage.get()))
        };
        let own = others().fold(usage, |own, (_, other)| own.less(other));
        self.spend_of(step.model, own, step.cost_usd);
        for (model, usage) in others() {
            // The recorded cost of the step covers all its models.
            self.spend_of(model, usage, step.cost_usd.map(|_| 0.0));
        }
    }

    fn spend_of(&mut self, model: Symbol, usage: Usage, cost: Option<f64>) {
        match self.spent.iter_mut().find(|(known, _)| *known == model) {
            Some((_, spent)) => spent.add(usage, cost),
            None => {
                let mut spent = Spent::default();
                spent.add(usage, cost);
                self.spent.push((model, spent));
            }
        }
    }
}

fn hash(what: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    what.hash(&mut hasher);
    hasher.finish()
}

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
            part.add(step);
            part.failed += usize::from(!step.is_ok() || self.error_of(n).is_some());
            if n + 1 == start + copied {
                // Totals continue from the copied steps.
                own.tokens_so_far = before.tokens_so_far;
            }
        }
        (before, own)
    }

    /// Returns a hash that step `n` shares only with its copies. In a run that is a single file, it
    /// covers what the step asks for and when, and is `None` if the time is unknown. In a format
    /// without times, it covers only what the step asks for. In other runs, it covers the id, the
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
    }

    /// Counts the steps that have a round.
    pub(super) fn count_joined(&mut self) {
        self.joined = (0..self.steps.len())
            .filter(|at| self.has_round(*at))
            .count();
    }

    /// Stores the sums over the steps before `hole.to`, some of which will be dropped.
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
            // The lines it stands for are counted separately.
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
        if step.is_left {
            tally.left.add(n);
        }
        tally.run.add(step);
        let has_error = || {
            self.in_same_lap(n)
                .is_some_and(|group| group.error.is_some())
        };
        tally.run.failed += usize::from(!step.is_ok() || has_error());
    }

    /// Returns whether an id between these two is really missing, rather than out of order.
    fn jumps(&self, from: i64, to: i64) -> bool {
        self.step_runs.late() == 0 || self.step_runs.leaves_out(from, to)
    }

    fn in_same_lap(&self, ordinal: usize) -> Option<&super::Group> {
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

    /// Returns whether step `ordinal` has a round, joined by id run, that no earlier line has.
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

    /// Updates the failure count after the newest group got its first error.
    pub(super) fn fail_newest_group(&mut self) {
        let Some(n) = self
            .step_of_newest_group()
            .filter(|n| *n < self.settled.end)
        else {
            return;
        };
        let in_this_lap = self.step_runs.of(n)
            == self
                .settled
                .end
                .checked_sub(1)
                .and_then(|last| self.step_runs.of(last));
        let was_well = self.steps.get(n).is_some_and(StepHead::is_ok);
        self.settled.run.failed += usize::from(in_this_lap && was_well);
    }
}
