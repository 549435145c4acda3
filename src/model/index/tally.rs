//! What do the heads add up to? Kept while they come, so that nobody walks a long run again after each of its lines.
//!
//! The newest steps are added anew after each change, so that one of them may still be replaced by a head that says
//! more. Whoever replaces an older one, or gives a step another id, has all added up again.
//!
//! Steps and events are joined lap by lap here. Where their laps differ in number, that is not how they belong together,
//! and whoever asks what depends on it has the heads walked.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher as _};

use super::super::step::Usage;
use super::super::{Fate, StepHead, Symbol};
use super::Index;
use super::skip::Hole;

/// So many of the newest steps may be replaced at no cost.
const OPEN: usize = 32;
/// At most so many points are kept of the scores.
const MAX_LOWS: usize = 48;

/// What the steps add up to.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Tally {
    /// Of the newest run.
    pub run: RunTally,
    /// Of the whole file: the steps whose ids do not follow the id before.
    pub jumps: Places,
    /// Of the whole file: the readable steps without facts.
    pub without_facts: Places,
    /// Of the whole file: the lines that repeat the one before and begin no run.
    pub repeats: Places,
    /// Steps that the run went back to before.
    pub left: Places,
    /// A hash of what the steps of the whole file ask for, and when: equal where the steps are.
    pub chain: u64,
    /// So many steps are added up.
    pub(super) end: usize,
}

/// Steps of one sort: how many, and the ordinal of the first.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Places {
    /// The first, if there is one.
    pub first: Option<usize>,
    /// How many there are.
    pub count: usize,
}

/// What the steps of one run add up to.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RunTally {
    /// Lines that are JSON.
    pub readable: usize,
    /// Lines that hold no readable step: they are no JSON, or no object.
    pub unread: usize,
    /// The lowest score of the last step that has one.
    pub last_score: Option<f64>,
    /// The lowest scores, thinned.
    pub lows: Lows,
    /// The critics, in order of appearance.
    pub critics: Distinct,
    /// The tools, in order of appearance.
    pub tools: Distinct,
    /// The agents, in order of appearance.
    pub agents: Distinct,
    /// The state keys that steps changed, in order of appearance.
    pub changed: Distinct,
    /// The newest count of all tokens so far that is not 0.
    pub tokens: Option<u64>,
    /// What its steps took so far, by their totals and by those that have none.
    pub tokens_so_far: Option<u64>,
    /// What each model was asked for, in order of appearance; under the empty name where steps do not name it.
    pub spent: Vec<(Symbol, Spent)>,
    /// The tokens of steps that tell of them apart.
    pub usage: Usage,
    /// Whether any of the tokens is known to be an estimate.
    pub tokens_estimated: bool,
    /// The calls that steps ask for.
    pub calls: u64,
    /// Those that failed.
    pub failed_calls: u64,
    /// Steps that are none of the run's own.
    pub nested: usize,
    /// Steps that do not say what they took.
    pub untold_tokens: usize,
    /// Steps that count no tokens, whether they say so by that or not.
    pub without_count: usize,
    /// A step has a call of which it is not known how it went, or cannot be read.
    pub untold_calls: bool,
    /// The first step whose id does not follow the id before.
    pub first_jump: Option<usize>,
    /// Lines that repeat the one before; they count in none of the sums.
    pub repeats: usize,
    /// Steps in which something failed, where events are joined lap by lap.
    pub failed: usize,
}

/// Lines of the newest run that hold no record and are counted alone.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Void {
    /// How many there are.
    count: usize,
    /// Those that can be read.
    readable: usize,
}

impl Void {
    pub(super) fn add(&mut self, step: &StepHead) {
        self.count += 1;
        self.readable += usize::from(step.fate.is_readable());
    }
}

/// Tokens of steps, added up.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Spent {
    /// All that was read.
    pub input: u64,
    /// Of it, what a cache held.
    pub cached: u64,
    /// All that was written.
    pub output: u64,
    /// Steps that do not say what they took.
    pub untold: usize,
    /// What steps cost that say so, in US dollars; their tokens are in none of the sums.
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

/// Symbols, each once, in order of appearance.
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

    /// The symbols.
    pub fn iter(&self) -> impl Iterator<Item = Symbol> {
        self.list.iter().copied()
    }
}

/// The lowest of each few numbers in a row, because a low score is what people look for. As many in a row as it takes to
/// keep less than 49 of them, and always a power of two: what is kept does not have to be read again.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Lows {
    lows: Vec<f64>,
    /// Numbers in a row, as a power of two.
    power: u32,
    /// How many numbers there were.
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

    /// The lowest of each few.
    pub fn as_slice(&self) -> &[f64] {
        &self.lows
    }
}

impl Tally {
    /// Moves the places of steps to where they are after a hole.
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
            // What the step cost is recorded for all its models together.
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
    /// What the steps add up to.
    pub fn tally(&self) -> &Tally {
        &self.tally
    }

    /// What the first `copied` steps of the newest run add up to, and the others.
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
                // Totals go on from there.
                own.tokens_so_far = before.tokens_so_far;
            }
        }
        (before, own)
    }

    /// A hash that step `n` shares with its copies alone: what it asks for, and when. `None` where its time is unknown. Steps
    /// of a format without times have a hash of what they ask for.
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

    /// When step `n` began; microseconds since the epoch.
    pub fn time_of(&self, n: usize) -> Option<i64> {
        let first = self
            .steps
            .get(n)?
            .parts
            .first()
            .and_then(|event| self.events.get(usize::try_from(*event).ok()?));
        first.map_or_else(|| self.round_of(n)?.started, |event| event.ts)
    }

    /// One past the last event of step `n`, as an index into [`Index::events`].
    pub fn end_of(&self, n: usize) -> Option<usize> {
        match self.steps.get(n)?.parts.last() {
            Some(event) => Some(usize::try_from(*event).ok()? + 1),
            None => Some(self.round_of(n)?.end),
        }
    }

    /// Steps of the newest run in which something failed.
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

    /// How many groups no step line belongs to.
    pub fn count_without_line(&self) -> usize {
        self.kept_without_line()
            .unwrap_or_else(|| self.groups_without_line().len())
    }

    /// The same as far as it is kept.
    pub(super) fn kept_without_line(&self) -> Option<usize> {
        self.groups
            .len()
            .checked_sub(self.joined)
            .filter(|_| self.joins_by_laps())
    }

    /// Whether what is kept of steps and events together is how they belong together.
    fn joins_by_laps(&self) -> bool {
        self.step_laps.len() == self.group_laps.len()
            && self.step_laps.is_exact()
            && self.group_laps.is_exact()
    }

    /// Has all steps added up again that are kept, since the one at `ordinal` changed.
    pub(super) fn unsettle(&mut self, ordinal: usize) {
        if ordinal < self.settled.end {
            self.unsettle_all();
        }
    }

    /// Has all steps added up again that are kept. What was dropped keeps what it added up to.
    pub(super) fn unsettle_all(&mut self) {
        self.settled = self.base.clone();
    }

    /// Counts the steps that have a round.
    pub(super) fn count_joined(&mut self) {
        self.joined = (0..self.steps.len())
            .filter(|at| self.has_round(*at))
            .count();
    }

    /// Notes what the steps before `hole.to` add up to, before it drops some of them.
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

    /// Adds up what came, all but the newest steps for good.
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

    /// Adds step `n`, the one that follows what is in the tally.
    fn add(&self, tally: &mut Tally, n: usize) {
        let Some(step) = self.steps.get(n) else {
            return;
        };
        tally.end = n + 1;
        if self.step_skips.get(n).is_some() {
            // Those that it stands for are counted apart.
            return;
        }
        tally.chain = hash(&(tally.chain, self.identity_of(n)));
        if self.step_laps.begins_at(n) {
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

    /// Whether an id between these two is missing, and not only in another place.
    fn jumps(&self, from: i64, to: i64) -> bool {
        self.step_laps.late() == 0 || self.step_laps.leaves_out(from, to)
    }

    fn in_same_lap(&self, ordinal: usize) -> Option<&super::Group> {
        let (id, lap) = (
            self.steps.get(ordinal)?.step_id?,
            self.step_laps.of(ordinal)?,
        );
        self.groups.get(self.group_ids().find(lap, id)?)
    }

    /// Notes that the newest step came, whose group may have come before.
    pub(super) fn join_newest_step(&mut self) {
        let newest = self.steps.len().checked_sub(1);
        self.joined += usize::from(newest.is_some_and(|n| self.has_round(n)));
    }

    /// Whether step `ordinal` has a round lap by lap, which no line before it has.
    pub(super) fn has_round(&self, ordinal: usize) -> bool {
        !self.is_repeat(ordinal)
            && !self.step_laps.is_double(ordinal)
            && self.in_same_lap(ordinal).is_some()
    }

    /// The step of the newest group, lap by lap.
    fn step_of_newest_group(&self) -> Option<usize> {
        let newest = self.groups.len().checked_sub(1)?;
        let (id, lap) = (
            self.groups.get(newest)?.step_id?,
            self.group_laps.of(newest)?,
        );
        self.step_ids().find(lap, id)
    }

    /// Notes that the newest group came, whose step may have come before.
    pub(super) fn join_newest_group(&mut self) {
        self.joined += usize::from(self.step_of_newest_group().is_some());
    }

    /// Notes that the newest group has an error now and had none before.
    pub(super) fn fail_newest_group(&mut self) {
        let Some(n) = self
            .step_of_newest_group()
            .filter(|n| *n < self.settled.end)
        else {
            return;
        };
        let in_this_lap = self.step_laps.of(n)
            == self
                .settled
                .end
                .checked_sub(1)
                .and_then(|last| self.step_laps.of(last));
        let was_well = self.steps.get(n).is_some_and(StepHead::is_ok);
        self.settled.run.failed += usize::from(in_this_lap && was_well);
    }
}
