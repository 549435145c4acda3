//! Defines the sums over the steps of a run. `sum` adds the steps.

use std::collections::{BTreeMap, HashMap, HashSet};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::super::failure::FailureTally;
use super::super::price::RequestSize;
use super::super::step::Usage;
use super::super::{CallEnd, CallMark, Fate, StepHead, Symbol};
use super::skip::Hole;

/// Maximum number of score points kept.
const MAX_LOWS: usize = 48;

/// The sums over the steps.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
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
    pub abandoned: Places,
    /// A hash of the identities of all steps of the file, as `Index::identity_of`. Equal
    /// sequences of steps have equal hashes.
    pub chain: u64,
    /// The number of steps summed.
    pub(super) end: usize,
}

/// The number of steps of one kind, and the ordinal of the first.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Places {
    /// The first, if there is one.
    pub first: Option<usize>,
    /// How many there are.
    pub count: usize,
}

/// The sums over the steps of one run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
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
    /// The tools and their calls, in order of appearance.
    pub tools: Tools,
    /// The agents, in order of appearance.
    pub agents: Distinct,
    /// The state keys that steps changed, in order of appearance.
    pub changed: Distinct,
    /// The files that calls asked to edit in steps without recorded changes of files, in order of
    /// appearance.
    pub edited: Distinct,
    /// The newest running token total that isn't 0.
    pub tokens: Option<u64>,
    /// The tokens used so far, from running totals and from the steps without one.
    pub tokens_so_far: Option<u64>,
    /// The tokens by model, time and size of request, in order of appearance. Steps that don't name
    /// their model count under the empty name. A key may occur more than once.
    pub spent: Vec<(SpentKey, Spent)>,
    /// The tokens by kind, from the steps that record them.
    pub usage: Usage,
    /// Whether any of the tokens is marked as an estimate.
    pub tokens_estimated: bool,
    /// The number of tool calls requested.
    pub calls: u64,
    /// The number of failed tool calls.
    pub failed_calls: u64,
    /// The number of steps that belong to other agents.
    pub nested: usize,
    /// The number of steps whose tokens are unknown.
    pub unknown_tokens: usize,
    /// The number of steps without a token count, even if their tokens are known from a total or
    /// known to be none.
    pub without_count: usize,
    /// Whether any step is unreadable or has a call with an unknown outcome.
    pub unknown_calls: bool,
    /// The first step whose id doesn't follow the previous id.
    pub first_jump: Option<usize>,
    /// The number of lines that repeat the previous one. They count in none of the sums.
    pub repeats: usize,
    /// The number of steps in which something failed, if events are joined by id run.
    pub failed: usize,
    /// These steps by message.
    pub failures: FailureTally,
}

/// Lines of the newest run that contain no record and are only counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
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

/// The steps whose tokens are added up in one [`Spent`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct SpentKey {
    /// When the step began, in quarters of an hour since the epoch, because time zones differ from
    /// each other by multiples of that. `None` if its time isn't recorded, or if the run has more
    /// quarters than are kept.
    pub quarter: Option<i32>,
    /// The model.
    pub model: Symbol,
    /// The size of the requests, since some models charge more for large ones.
    pub size: RequestSize,
    /// Whether the steps record their cost.
    pub is_paid: bool,
}

/// Token sums of steps.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Spent {
    /// The input tokens.
    pub input: u64,
    /// The part of the input tokens that came from a cache.
    pub cached: u64,
    /// The part of the input tokens that was written to a cache.
    pub written: u64,
    /// The part of `written` that the cache keeps for an hour.
    pub written_1h: u64,
    /// The output tokens.
    pub output: u64,
    /// The number of steps whose tokens are unknown.
    pub unknown: usize,
    /// The cost in US dollars of the steps that record it.
    pub paid: f64,
}

/// Maximum number of quarters of an hour of a run that are kept apart. Later, all steps so far count as
/// steps without a time.
const MAX_SPENT: usize = 1_024;
/// How many of the newest entries may be added to. The times of steps hardly ever go back.
const OPEN_SPENT: usize = 16;
/// A quarter of an hour in microseconds.
pub const QUARTER: i64 = 900_000_000;

impl Spent {
    fn add(&mut self, usage: Usage, cost: Option<f64>) {
        self.paid += cost.unwrap_or_default();
        let Some((input, output)) = usage.input.zip(usage.output) else {
            self.unknown += 1;
            return;
        };
        let cached = usage.cached.unwrap_or(0).min(input);
        let written = usage.written.unwrap_or(0).min(input - cached);
        self.include(Self {
            input,
            cached,
            written,
            written_1h: usage.written_1h.unwrap_or(0).min(written),
            output,
            unknown: 0,
            paid: 0.0,
        });
    }

    fn include(&mut self, more: Self) {
        let Self {
            input,
            cached,
            written,
            written_1h,
            output,
            unknown,
            paid,
        } = self;
        for (sum, more) in [
            (input, more.input),
            (cached, more.cached),
            (written, more.written),
            (written_1h, more.written_1h),
            (output, more.output),
        ] {
            *sum = sum.saturating_add(more);
        }
        *unknown += more.unknown;
        *paid += more.paid;
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

impl Serialize for Distinct {
    fn serialize<S: Serializer>(&self, target: S) -> Result<S::Ok, S::Error> {
        self.list.serialize(target)
    }
}

impl<'de> Deserialize<'de> for Distinct {
    fn deserialize<D: Deserializer<'de>>(source: D) -> Result<Self, D::Error> {
        let mut distinct = Self::default();
        for symbol in Vec::deserialize(source)? {
            distinct.add(symbol);
        }
        Ok(distinct)
    }
}

/// The tools of some steps, in order of appearance, with the sums over their calls.
#[derive(Clone, Default, PartialEq)]
pub struct Tools {
    list: Vec<(Symbol, ToolCalls)>,
    /// The position of each tool in the list.
    places: HashMap<Symbol, usize>,
}

impl std::fmt::Debug for Tools {
    /// Tests compare the words of two tallies, and the order of a map differs each time.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(&self.list).finish()
    }
}

/// The calls of a tool.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolCalls {
    /// How many there are.
    pub calls: u32,
    /// The calls with a recorded outcome.
    pub judged: u32,
    /// Those that failed.
    pub failed: u32,
}

impl Tools {
    fn add(&mut self, call: &CallMark) {
        if call.name == Symbol::default() {
            return;
        }
        let place = *self.places.entry(call.name).or_insert(self.list.len());
        if place == self.list.len() {
            self.list.push((call.name, ToolCalls::default()));
        }
        if let Some((_, sum)) = self.list.get_mut(place) {
            let is_judged = call.is_ok().is_some();
            let has_failed = call.end == CallEnd::Failed;
            sum.calls = sum.calls.saturating_add(1);
            sum.judged = sum.judged.saturating_add(u32::from(is_judged));
            sum.failed = sum.failed.saturating_add(u32::from(has_failed));
        }
    }

    /// Iterates over the tools.
    pub fn iter(&self) -> impl Iterator<Item = Symbol> {
        self.list.iter().map(|(tool, _)| *tool)
    }

    /// Returns the calls of a tool.
    pub fn calls(&self, tool: Symbol) -> ToolCalls {
        let place = self.places.get(&tool).and_then(|at| self.list.get(*at));
        place.map(|(_, sum)| *sum).unwrap_or_default()
    }
}

impl Serialize for Tools {
    fn serialize<S: Serializer>(&self, target: S) -> Result<S::Ok, S::Error> {
        self.list.serialize(target)
    }
}

impl<'de> Deserialize<'de> for Tools {
    fn deserialize<D: Deserializer<'de>>(source: D) -> Result<Self, D::Error> {
        let list = Vec::<(Symbol, ToolCalls)>::deserialize(source)?;
        let places = list.iter().enumerate();
        let places = places.map(|(at, (tool, _))| (*tool, at)).collect();
        Ok(Self { list, places })
    }
}

/// Downsamples scores by keeping the lowest of each few consecutive numbers, because people look
/// for low scores. The group size is a power of two, large enough to keep fewer than 49 numbers, so
/// that growing it needs only the kept numbers.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
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
    pub(super) fn cut(&mut self, hole: Hole) {
        for places in [
            &mut self.jumps,
            &mut self.without_facts,
            &mut self.repeats,
            &mut self.abandoned,
        ] {
            places.first = places.first.map(|at| hole.moved(at));
        }
        self.run.first_jump = self.run.first_jump.map(|at| hole.moved(at));
        self.run.failures.cut(|at| hole.moved(at));
    }
}

impl Places {
    pub(super) fn add(&mut self, ordinal: usize) {
        self.first.get_or_insert(ordinal);
        self.count += 1;
    }
}

impl RunTally {
    /// Adds a step that began at this time, in microseconds since the epoch.
    pub(super) fn add(&mut self, step: &StepHead, time: Option<i64>) {
        self.readable += usize::from(step.fate != Fate::Unreadable);
        self.unread += usize::from(!step.fate.is_readable());
        if let Some(score) = step.lowest_score() {
            self.last_score = Some(score);
            self.lows.push(score);
        }
        step.critics
            .iter()
            .for_each(|mark| self.critics.add(mark.name));
        step.calls.iter().for_each(|call| self.tools.add(call));
        self.calls = self.calls.saturating_add(u64::from(step.actions));
        self.failed_calls = self
            .failed_calls
            .saturating_add(u64::from(step.failed_calls));
        self.unknown_calls |= step.tool_errors().is_none();
        step.changed.iter().for_each(|key| self.changed.add(*key));
        step.edited.iter().for_each(|file| self.edited.add(*file));
        if step.agent != Symbol::default() {
            self.agents.add(step.agent);
        }
        self.spend(step, time);
        self.tokens_estimated |= step.tokens_estimated;
        self.nested += usize::from(step.is_nested);
        self.without_count += usize::from(step.fate.is_readable() && step.tokens.is_none());
        let is_told = step.tokens_alone(self.tokens_so_far).is_some();
        self.unknown_tokens += usize::from(step.fate.is_readable() && !is_told);
        self.tokens = step.total_told().or(self.tokens);
        self.tokens_so_far = step.tokens_with(self.tokens_so_far);
    }

    pub(super) fn add_void(&mut self, void: Void) {
        self.readable += void.readable;
        self.unread += void.count - void.readable;
        self.without_count += void.readable;
        self.unknown_tokens += void.readable;
        self.unknown_calls |= void.count > 0;
        self.add_failed(void);
    }

    /// Adds the failures of lines without a record, but not the lines.
    pub(super) fn add_failed(&mut self, void: Void) {
        self.failed += void.count;
        self.failures.left_out += void.count;
    }

    fn spend(&mut self, step: &StepHead, time: Option<i64>) {
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
        let quarter = time.and_then(|time| i32::try_from(time.div_euclid(QUARTER)).ok());
        let key = |model, usage: Usage| SpentKey {
            quarter,
            model,
            size: RequestSize::of(usage.input),
            is_paid: step.cost_usd.is_some(),
        };
        self.spend_of(key(step.model, own), own, step.cost_usd);
        for (model, usage) in others() {
            // The recorded cost of the step covers all its models.
            self.spend_of(key(model, usage), usage, step.cost_usd.map(|_| 0.0));
        }
    }

    fn spend_of(&mut self, key: SpentKey, usage: Usage, cost: Option<f64>) {
        let mut newest = self.spent.iter_mut().rev().take(OPEN_SPENT);
        if let Some((_, spent)) = newest.find(|(known, _)| *known == key) {
            spent.add(usage, cost);
            return;
        }
        if self.spent.len() >= MAX_SPENT && self.spent.len().is_power_of_two() {
            self.merge_spent();
        }
        let mut spent = Spent::default();
        spent.add(usage, cost);
        self.spent.push((key, spent));
    }

    /// Merges the entries of each model, without their times.
    fn merge_spent(&mut self) {
        let mut merged: BTreeMap<SpentKey, (usize, Spent)> = BTreeMap::new();
        for (at, (key, spent)) in self.spent.iter().enumerate() {
            let key = SpentKey {
                quarter: None,
                ..*key
            };
            let (_, sum) = merged.entry(key).or_insert((at, Spent::default()));
            sum.include(*spent);
        }
        let mut merged: Vec<_> = merged.into_iter().collect();
        merged.sort_by_key(|(_, (at, _))| *at);
        self.spent = merged
            .into_iter()
            .map(|(key, (_, spent))| (key, spent))
            .collect();
    }
}
