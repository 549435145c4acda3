//! Collects the facts that stop rules look at in each step, as recorded or as far as the files
//! allow.
//!
//! If the format records no facts, they are inferred from step heads and events. What the files
//! don't record stays unknown. [`Record::inferred`] lists what is inferred rather than read.

use std::borrow::Cow;
use std::ops::Range;

use serde::Deserialize;

use super::lost::{Lost, foreign, lost};
use super::newest::{are_steps_unknown, newest_run};
use super::stated;
use crate::format;
use crate::model::index::{AnswerSort, Group, STEPS_AT_ONCE, Segment};
use crate::model::json::walk;
use crate::model::names::MAX_ANSWER_BYTES;
use crate::model::price::Prices;
use crate::model::step::Value;
use crate::model::{
    Can, EventHead, EventKind, Index, Lines, Manifest, Outcome, RecordedFacts, Span, StepHead,
    StopReason, TraceFile,
};
use crate::stop::{
    Code, CriticFact, Gate, LineFacts, Phase, Source, Stats, StepError, StepFacts, StopRules, Text,
    Usage,
};

mod whole;

#[cfg(test)]
pub(crate) mod tests;

pub(crate) use whole::Whole;

/// The newest run of a directory, as the stop rules see it.
#[derive(Debug, Clone, Default)]
pub struct Record {
    /// The facts of the steps by ordinal. The last step may have reached only its first gate.
    pub facts: Vec<StepFacts>,
    /// The rules of the run, if recorded.
    pub rules: Option<StopRules>,
    /// The counters of the run that this one resumes.
    pub resumed: Stats,
    /// Descriptions of the facts that are inferred rather than recorded; empty for runs of the
    /// board's own engine.
    pub inferred: Vec<&'static str>,
    /// The replies of sub-agents among the steps, which aren't steps of the run itself: the
    /// position in `facts` of the step that called them, and what they used.
    pub nested: Vec<(usize, StepFacts)>,
    /// The number of steps whose facts are unreadable.
    pub unread: usize,
    /// The steps that ran but have no line.
    pub lost: Option<Lost>,
    /// The ordinal from which lines may not be steps, because there are more lines than steps ran.
    pub foreign: Option<u64>,
    /// Whether the lines of steps are in a different order than the steps ran.
    pub disordered: bool,
    /// Whether the records don't show where each step begins, so that `facts` has only some of the
    /// steps.
    pub steps_unknown: bool,
    /// Whether the next step had begun: it is in progress, or the run died in it.
    pub begun: bool,
    /// Whether the cost of any step is an estimate.
    pub cost_estimated: bool,
    /// What is recorded for the run as a whole, if another tool wrote the trace.
    pub(crate) whole: Whole,
}

/// Estimates the cost of step `n` in US dollars by its tokens. `None` if a token count or a price
/// isn't known.
pub(crate) fn estimated_cost(
    index: &Index,
    n: usize,
    head: &StepHead,
    prices: &Prices,
) -> Option<f64> {
    let of_run = index.manifest().get();
    let of_run = of_run.and_then(|manifest| manifest.model_of_steps());
    let model = Some(index.name(head.model)).filter(|model| !model.is_empty());
    let model = model.or(of_run).unwrap_or_default();
    let others = || {
        head.other_models
            .iter()
            .map(|(model, usage)| (index.name(*model), usage.get()))
    };
    let usage = head.usage_alone(index.tokens_before(n));
    let own = others().fold(usage, |own, (_, other)| own.less(other));
    let all = std::iter::once((model, own)).chain(others());
    all.map(|(model, usage)| prices.cost_of_request(model, usage))
        .sum()
}

impl Record {
    /// Returns whether the tokens of any step are an estimate.
    pub fn is_estimated(&self) -> bool {
        self.facts
            .iter()
            .filter_map(|facts| facts.usage)
            .any(|usage| usage.estimated)
    }

    /// Adds estimated costs, by tokens and these prices, to steps that don't record their costs.
    #[must_use]
    pub fn priced(mut self, index: &Index, prices: Option<&Prices>) -> Self {
        let Some(prices) = prices else { return self };
        for facts in self
            .facts
            .iter_mut()
            .chain(self.nested.iter_mut().map(|(_, facts)| facts))
        {
            let n = usize::try_from(facts.step).unwrap_or(usize::MAX);
            let Some(head) = index.steps().get(n) else {
                continue;
            };
            if facts.cost_usd.is_none() && facts.usage != Some(Usage::default()) {
                facts.cost_usd = estimated_cost(index, n, head, prices);
                facts.cost_estimated = facts.cost_usd.is_some();
                self.cost_estimated |= facts.cost_estimated;
            }
        }
        self.count_nested();
        self
    }

    /// Counts what sub-agents used as used after the decision of the step that called them.
    fn count_nested(&mut self) {
        (self.whole.unknown_tokens, self.whole.unknown_cost) = (0, 0);
        for (place, _) in &self.nested {
            if let Some(facts) = self.facts.get_mut(*place) {
                (facts.late_usage, facts.late_cost_usd) = (Usage::default(), None);
            }
        }
        for (place, nested) in &self.nested {
            self.whole.unknown_tokens += u64::from(nested.usage.is_none());
            self.whole.unknown_cost += u64::from(nested.cost().is_none());
            if let Some((facts, usage)) = self.facts.get_mut(*place).zip(nested.usage) {
                facts.late(usage, nested.cost_usd);
                facts.cost_estimated |= nested.cost_estimated;
            }
        }
    }

    /// Returns the counters before the first step: those of the resumed run, and what the run used
    /// that its steps don't record.
    pub fn start(&self) -> Stats {
        self.whole.added_to(self.resumed.clone(), &self.facts)
    }

    /// Returns the last step that ran, even if only up to its decision.
    pub fn last_step(&self) -> Option<u64> {
        let ran = |facts: &&StepFacts| facts.reached > Gate::BeforeStep;
        self.facts.iter().rev().find(ran).map(|facts| facts.step)
    }
}

/// The amount of detail that a caller needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Depth {
    /// Counters, times, tools and scores. Reads the index, and a line only if the index has no room
    /// for its facts.
    Heads,
    /// Also whether texts are equal and answers empty. Reads the lines of runs without recorded
    /// facts.
    Hashes,
    /// Also the texts themselves. Reads lines.
    Texts,
}

/// Collects the facts of the newest run.
pub(crate) fn record(index: &Index, lines: &dyn Lines, depth: Depth) -> Record {
    // Facts take more memory than heads. So only the first and the newest steps of a very long run
    // have facts.
    let left_out = left_out(index);
    let steps = newest_run(index);
    let count = steps.clone().count() - left_out.len();
    let gap = left_out.clone();
    let steps = steps.filter(move |(n, _)| !gap.contains(n));
    let lost = with_gap(lost(index), &left_out);
    let foreign = foreign(index);
    let begun = lost.is_none() && index.pending_group().is_some();
    let disordered = index.has_disordered_steps();
    if index.format().can.facts != Can::Yes {
        let steps_unknown = are_steps_unknown(index);
        let manifest = index
            .manifest()
            .get()
            .filter(|_| index.format().is_one_file());
        let mut record = Record {
            lost,
            foreign,
            disordered,
            steps_unknown,
            begun,
            ..inferred(index, (steps, count), lines, depth)
        };
        if let Some(manifest) = manifest {
            let agreed = |unit, stated: bool| {
                stated::total(index, unit)
                    .agreed()
                    .copied()
                    .filter(|_| stated)
            };
            let is_total = manifest.tokens.is_some()
                && !manifest.tokens_of_steps
                && manifest.replies_uncounted == 0;
            record.whole.tokens = agreed("tokens", is_total).map(|tokens| tokens as u64);
            record.whole.cost_usd = agreed("usd", manifest.cost_usd.is_some());
            record.whole.took_ms =
                agreed("ms", manifest.latency_s.is_some()).map(|ms| ms.round() as u64);
            record.whole.end_unknown = manifest.end_unknown;
            record.whole.judges = manifest
                .scores
                .iter()
                .map(|given| given.name.to_string())
                .collect();
        }
        return record;
    }
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Manifest {
        stop_rules: Option<StopRules>,
        resumed_from: Option<Stats>,
    }
    let kept = index
        .manifest()
        .get()
        .and_then(|manifest| manifest.rules.as_deref());
    let manifest: Manifest = match kept {
        Some(kept) => serde_json::from_str(kept).ok(),
        None => lines
            .manifest()
            .ok()
            .and_then(|text| serde_json::from_slice(&text).ok()),
    }
    .unwrap_or_default();
    let (rules, resumed) = (
        manifest.stop_rules,
        manifest.resumed_from.unwrap_or_default(),
    );
    let mut record = Record {
        rules,
        resumed,
        lost,
        foreign,
        disordered,
        begun,
        ..Record::default()
    };
    record.facts.reserve_exact(count + 1);
    for (ordinal, head) in steps {
        // Opening a line takes longer than everything else, so a line is opened only if it has
        // facts that its head lacks. Lines without facts aren't opened, as their number is
        // unlimited.
        let facts = head
            .facts
            .as_deref()
            .and_then(|kept| match (depth, &kept.json) {
                (Depth::Heads | Depth::Hashes, Some(json)) => {
                    from_head(index, ordinal, head, kept, json)
                }
                (Depth::Texts, _) | (_, None) => from_line(ordinal, head, lines),
            });
        record.unread += usize::from(facts.is_none());
        let mut facts = facts.unwrap_or_else(|| StepFacts::unread(ordinal as u64));
        // A step with no usage called no model, unless another record of it shows a reply. Critics'
        // requests are counted separately.
        let is_silent =
            facts.usage == Some(Usage::default()) && facts.late_usage == Usage::default();
        if is_silent && (head.tokens > Some(0) || has_reply(index, ordinal)) {
            facts.usage = None;
        }
        record.facts.push(facts);
    }
    record.facts.extend(at_the_end(index, lines));
    settle_usage(index, &mut record.facts);
    record
}

/// Returns the facts and rules of a run of board's own engine, as far as the index holds them.
/// Returns `None` if the index holds no rules.
pub(super) fn kept(index: &Index) -> Option<Record> {
    let rules = index.manifest_of_end()?.rules.as_ref();
    let mut record = rules
        .filter(|_| index.format().can.facts == Can::Yes)
        .map(|_| record(index, &NoLines, Depth::Heads))?;
    let whole = index.answer().agreed().copied();
    let whole = whole
        .filter(|answer| answer.sort == AnswerSort::Text && answer.text.len() <= MAX_ANSWER_BYTES);
    for facts in record.facts.iter_mut().filter(|facts| facts.candidate) {
        let hash = usize::try_from(facts.step)
            .ok()
            .and_then(|n| index.steps().get(n)?.answer);
        let text = whole
            .filter(|answer| hash == Some(answer.hash))
            .map(|answer| answer.text);
        facts.is_answer_cut = text.is_none();
        if let Some(text) = text {
            facts.final_answer = Some(text.to_owned());
        } else if facts
            .final_answer
            .as_ref()
            .is_some_and(|answer| !answer.is_empty())
        {
            // A head holds the start of an answer on one line.
            facts.final_answer = Some(UNKNOWN_ANSWER.to_owned());
        }
    }
    Some(record)
}

/// Replaces an answer that the index holds only in part. It isn't blank and contains no word.
const UNKNOWN_ANSWER: &str = "\u{fffd}";

/// Refuses to read lines, so that only the index is used.
struct NoLines;

impl Lines for NoLines {
    fn line(&self, _: TraceFile, _: Span) -> Result<Vec<u8>, String> {
        Err("only the index may be read".to_owned())
    }
    fn manifest(&self) -> Result<Vec<u8>, String> {
        Err("only the index may be read".to_owned())
    }
    fn has_asset(&self, _: &str) -> Result<(), String> {
        Err("only the index may be read".to_owned())
    }
}

/// Returns the steps whose facts and requests record different tokens: the ordinal, the tokens of
/// the facts, the tokens of the requests.
pub(super) fn disputed_usage(index: &Index) -> impl Iterator<Item = (usize, u64, u64)> {
    newest_run(index).filter_map(|(n, step)| {
        let of_facts = step.facts.as_deref()?.tokens?;
        step.tokens
            .filter(|of_request| *of_request != of_facts)
            .map(|of_request| (n, of_facts, of_request))
    })
}

/// Resolves differences between the tokens of facts and requests by the total that all other
/// records agree on. If the total matches neither, the usage of these steps is unknown.
fn settle_usage(index: &Index, facts: &mut [StepFacts]) {
    let mut disputed = disputed_usage(index).peekable();
    if disputed.peek().is_none() {
        return;
    }
    let taken =
        |facts: &StepFacts| facts.usage.map_or(0, |usage| usage.total()) + facts.late_usage.total();
    let of_facts: u64 = facts.iter().map(taken).sum();
    let agreed = stated::total(index, "tokens")
        .agreed()
        .map(|total| *total as u64);
    if agreed == Some(of_facts) {
        return;
    }
    let fits = agreed.is_some() && agreed == index.tally().run.tokens;
    for (n, _, of_request) in disputed {
        let usage = Usage::reported(of_request, 0);
        let own = facts.iter_mut().find(|facts| facts.step == n as u64);
        own.into_iter()
            .for_each(|facts| facts.usage = Some(usage).filter(|_| fits));
    }
}

/// Returns the middle steps of the newest run, which are skipped if it has more steps than can be
/// held at once.
fn left_out(index: &Index) -> Range<usize> {
    let (start, most) = (index.newest_start(), STEPS_AT_ONCE);
    let end = index.steps().len();
    if end - start <= most {
        start..start
    } else {
        start + most / 2..end - most / 2
    }
}

/// Adds skipped steps to the lost ones.
fn with_gap(lost: Option<Lost>, gap: &Range<usize>) -> Option<Lost> {
    if gap.is_empty() {
        return lost;
    }
    let (count, from) = lost.map_or((0, u64::MAX), |lost| (lost.count, lost.from));
    Some(Lost {
        count: count + gap.len(),
        from: from.min(gap.start as u64),
        is_skipped: true,
    })
}

/// Returns whether events show a model's reply in a step.
fn has_reply(index: &Index, ordinal: usize) -> bool {
    // Most runs that don't call a model have no such event.
    let replied = index
        .newest_segments()
        .iter()
        .any(|segment| segment.outputs > 0);
    let round = index.round_of(ordinal).filter(|_| replied);
    round.is_some_and(|group| {
        index
            .events()
            .range(group.first..group.end)
            .any(|event| event.kind == EventKind::Output)
    })
}

fn from_line(ordinal: usize, head: &StepHead, lines: &dyn Lines) -> Option<StepFacts> {
    let record = lines.record(TraceFile::Steps, head.span).ok()?;
    StepFacts::from_step(ordinal as u64, &format::step(&record)?).ok()
}

/// Returns the facts of a step of board's own engine without reading its line. The facts show
/// only whether texts are equal.
fn from_head(
    index: &Index,
    ordinal: usize,
    head: &StepHead,
    kept: &RecordedFacts,
    json: &str,
) -> Option<StepFacts> {
    let line: LineFacts = serde_json::from_str(json).ok()?;
    let error = kept
        .error
        .as_deref()
        .map(serde_json::from_str)
        .transpose()
        .ok()?;
    let facts = line.into_facts(ordinal as u64);
    let candidate = index.name(head.mode) == "final";
    let (hash, len) = kept.text;
    Some(StepFacts {
        text: if len == 0 {
            Text::default()
        } else {
            Text::Redacted { len, hash }
        },
        actions: actions(index, head),
        candidate,
        final_answer: candidate.then(|| answer(head)).or(facts.final_answer),
        error,
        critics: critics(index, head),
        ..facts
    })
}

/// Returns the names of a step's actions; `None` if the index doesn't have all of them.
fn actions(index: &Index, head: &StepHead) -> Option<Vec<String>> {
    let all_named = head.tools().count() == head.actions as usize;
    all_named.then(|| {
        head.tools()
            .map(|tool| index.name(tool).to_owned())
            .collect()
    })
}

/// Returns the start of the answer, as the index keeps it.
fn answer(head: &StepHead) -> String {
    head.call
        .strip_prefix("answer: ")
        .unwrap_or_default()
        .to_owned()
}

fn critics(index: &Index, head: &StepHead) -> Vec<CriticFact> {
    let deciding = head.deciding();
    let critic = |(at, mark): (usize, &crate::model::CriticMark)| CriticFact {
        name: index.name(mark.name).to_owned(),
        wish: mark.action.into(),
        reason: head
            .critic_reason
            .as_deref()
            .filter(|_| Some(at) == deciding)
            .map(str::to_owned),
        score: mark.score.or(mark.infinite.map(f64::from)),
    };
    head.critics.iter().enumerate().map(critic).collect()
}

/// Returns the facts of a step that reached only its first gate. The END event holds them, and the
/// step has no line.
fn at_the_end(index: &Index, lines: &dyn Lines) -> Option<StepFacts> {
    let (event, end, _) = index.segment()?.end.as_ref()?;
    if let Some(facts) = &end.facts {
        return serde_json::from_str(facts).ok();
    }
    let record = lines
        .record(TraceFile::Events, index.events().get(*event)?.span)
        .ok()?;
    serde_json::from_str(format::event(&record).facts?.text).ok()
}

/// Describes the facts that are inferred rather than read.
const INFERRED: &[&str] = &[TIMES, CHANGES, FAILURES];

/// The inference for rules about time.
pub(super) const TIMES: &str = "times come from event timestamps (the recording machine's clock)";
/// The inference for rules about changes of the state.
pub(super) const CHANGES: &str = "the state counts as changed if state_diff names a field, and as unknown if an observation shows any other change";
/// The same for a format that doesn't record each change of the state.
pub(super) const CHANGES_UNTOLD: &str =
    "whether a step changed the state counts as unknown, since this format doesn't record it";
/// The inference for rules about failed steps.
pub(super) const FAILURES: &str =
    "a step counts as failed if an error ended it or its only call failed";

/// A further inference for runs that record tokens and whose steps need not call a model.
const SCRIPTED: &str = "a step without a model request is assumed to have used no tokens";

/// A further inference for runs whose records include those of sub-agents.
const NESTED: &str = "sub-agent replies inside a call aren't counted as steps of the run, and their usage is added to the step that made the call";

/// Returns the facts of these steps, without those of sub-agents.
fn inferred<'a>(
    index: &'a Index,
    (steps, count): (impl Iterator<Item = (usize, &'a StepHead)> + Clone, usize),
    lines: &dyn Lines,
    depth: Depth,
) -> Record {
    let segments = index.newest_segments();
    let origin = segments
        .first()
        .and_then(|segment| segment.span)
        .map(|(first, _)| first);
    let clock_until = segments
        .iter()
        .find_map(|segment| segment.goes_back)
        .unwrap_or(usize::MAX);
    // If all steps are nested, the records don't show in which step.
    let is_whole = steps.clone().any(|(_, head)| !head.is_nested);
    // If no step records tokens, any step may have used some.
    let says_tokens =
        |(_, head): (usize, &StepHead)| head.tokens.is_some() || head.tokens_total > Some(0);
    let scripted_is_free = !index.format().is_one_file() && steps.clone().any(says_tokens);
    let mut builder = FactsBuilder {
        index,
        origin,
        clock_until,
        changes: 0,
        scripted_is_free,
    };
    let mut record = Record {
        inferred: INFERRED.to_vec(),
        ..Record::default()
    };
    record.facts.reserve_exact(count + 1);
    if !index.format().tells_each_change() {
        let changes = record.inferred.iter_mut().find(|fact| **fact == CHANGES);
        changes.into_iter().for_each(|fact| *fact = CHANGES_UNTOLD);
    }
    if scripted_is_free {
        record.inferred.push(SCRIPTED);
    }
    for (ordinal, head) in steps {
        if is_whole && head.is_nested {
            let (usage, cost_usd) = (builder.usage(ordinal, false), head.cost_usd);
            let nested = StepFacts {
                usage,
                cost_usd,
                ..StepFacts::unknown(ordinal as u64)
            };
            record
                .nested
                .push((record.facts.len().saturating_sub(1), nested));
            continue;
        }
        let mut facts = builder.step(ordinal, head);
        let is_read =
            depth == Depth::Heads || builder.texts(ordinal, head, lines, &mut facts).is_ok();
        record.unread += usize::from(!is_read || facts.is_unread);
        record.facts.push(facts);
    }
    if let Some(segment) = index.segment() {
        builder.end(segment, &mut record.facts);
    }
    builder.answered(&mut record.facts);
    if !record.nested.is_empty() {
        record.inferred.push(NESTED);
        record.count_nested();
    }
    record
}

/// Collects facts from the records of one run, in order.
struct FactsBuilder<'a> {
    index: &'a Index,
    /// The start of the run; microseconds since the Unix epoch.
    origin: Option<i64>,
    /// The event at which the clock went back.
    clock_until: usize,
    /// The number of state changes seen so far.
    changes: u64,
    /// Whether a step that didn't call a model used no tokens.
    scripted_is_free: bool,
}

impl<'a> FactsBuilder<'a> {
    /// Returns the time of an event since the start of the run; milliseconds.
    fn ms(&self, at: usize) -> Option<u64> {
        self.since(
            self.index
                .events()
                .get(at)
                .filter(|_| at < self.clock_until)?
                .ts?,
        )
    }

    fn since(&self, ts: i64) -> Option<u64> {
        u64::try_from(ts.checked_sub(self.origin?)? / 1000).ok()
    }

    /// Returns when a step ended: at its last event, or when the last activity that its events
    /// began was over.
    fn ended(&self, group: &Group) -> Option<u64> {
        let until = group
            .until
            .filter(|_| group.end <= self.clock_until)
            .and_then(|ts| self.since(ts));
        self.ms(group.end.checked_sub(1)?).max(until)
    }

    fn step(&mut self, ordinal: usize, head: &StepHead) -> StepFacts {
        let group = self.index.round_of(ordinal);
        let asked = self.events(group, EventKind::Prompt).next().is_some();
        // Without events, it's unknown whether a step called a model. A step of another tool is a
        // model's reply.
        let scripted = group.is_some() && !asked && !self.index.format().is_one_file();
        let candidate = self.index.name(head.mode) == "final";
        let is_unread = !head.fate.is_readable();
        let is_told = !is_unread
            && head.outside.is_empty()
            && self.index.format().tells_each_change()
            && (head.has_state_diff || self.index.format().is_one_file());
        self.changes += u64::from(!head.changed.is_empty() || !is_told);
        let usage = self.usage(ordinal, scripted);
        let error = self.error(group, head);
        // The engine's own errors are recorded only in events.
        let is_error_unknown =
            error.is_none() && !self.index.format().is_one_file() && group.is_none();
        StepFacts {
            t_start_ms: group.and_then(|group| self.ms(group.first)),
            t_decided_ms: group.and_then(|group| {
                let events = self.index.events().range(group.first..group.end);
                self.ms(group.first
                    + events
                        .clone()
                        .position(|event| event.kind == EventKind::Decided)?)
            }),
            t_end_ms: group.and_then(|group| self.ended(group)),
            usage,
            text: if scripted {
                Text::default()
            } else {
                Text::Unknown
            },
            actions: actions(self.index, head).filter(|_| !is_unread),
            candidate,
            final_answer: candidate.then(|| answer(head)),
            cost_usd: head.cost_usd,
            is_error_unknown: is_error_unknown || (is_unread && error.is_none()),
            is_unread,
            error,
            signature: is_told.then_some(self.changes),
            critics: critics(self.index, head),
            ..StepFacts::unknown(ordinal as u64)
        }
    }

    /// Returns the tokens of the step.
    fn usage(&self, ordinal: usize, scripted: bool) -> Option<Usage> {
        // No rule distinguishes input from output.
        let usage = self
            .index
            .tokens_of(ordinal)
            .map(|tokens| Usage::reported(tokens, 0));
        usage.or_else(|| (scripted && self.scripted_is_free).then(Usage::default))
    }

    fn error(&self, group: Option<&Group>, head: &StepHead) -> Option<StepError> {
        if let Some((phase, message)) = group.and_then(|group| group.error.as_ref()) {
            let phase = match self.index.name(*phase) {
                "DECIDE_ERROR" => Phase::Decide,
                "ACT_ERROR" => Phase::Act,
                // A failure of the environment is a result like a tool's, and the step continues.
                "ACT" => return None,
                _ => Phase::Reduce,
            };
            return Some(StepError {
                phase,
                message: message.to_string(),
                recovered: true,
            });
        }
        let of_call = head.error.as_deref();
        let of_call = of_call.filter(|_| head.actions == 1 && !head.is_of_reply());
        let message = of_call.map(str::to_owned);
        let of_call = message.map(|message| StepError {
            phase: Phase::Act,
            message,
            recovered: true,
        });
        of_call.or_else(|| {
            if group.is_none() {
                self.reported(head)
            } else {
                None
            }
        })
    }

    /// Returns the error that the manifest records for a step without events.
    fn reported(&self, head: &StepHead) -> Option<StepError> {
        let manifest = self
            .index
            .manifest()
            .get()
            .filter(|_| self.index.segments().len() <= 1)?;
        let failure = manifest
            .failures
            .iter()
            .find(|failure| failure.step_id.is_some() && failure.step_id == head.step_id)?;
        let phase = match &*failure.phase {
            "DECIDE" => Phase::Decide,
            "ACT" => Phase::Act,
            _ => Phase::Reduce,
        };
        Some(StepError {
            phase,
            message: failure.message.to_string(),
            recovered: true,
        })
    }

    /// Reads the texts of a step: the full answer from its line, and the model's text from its
    /// event. Since QitOS 0.6, the model's text on the line is blanked.
    fn texts(
        &self,
        ordinal: usize,
        head: &StepHead,
        lines: &dyn Lines,
        facts: &mut StepFacts,
    ) -> Result<(), String> {
        if facts.candidate
            || head
                .changed
                .iter()
                .any(|key| self.index.name(*key) == "final_result")
        {
            let record = lines.record(TraceFile::Steps, head.span)?;
            let step = format::step(&record).ok_or("the line isn't a step")?;
            let text = |value: Value<'_>| value.string().map(Cow::into_owned);
            let decided = step.decision.as_ref().filter(|_| facts.candidate);
            let set = || {
                let changes = step.changes?;
                let change = changes
                    .iter()
                    .filter(|change| change.key == "final_result")
                    .last()?;
                walk::string(change.after()?).map(Cow::into_owned)
            };
            facts.final_answer = decided
                .and_then(|decision| decision.answer)
                .and_then(text)
                .or_else(set);
        }
        if self.index.format().is_one_file() {
            let record = lines.record(TraceFile::Steps, head.span)?;
            let step = format::step(&record).ok_or("the line isn't a step")?;
            let text = step.text.and_then(Value::string).map(Cow::into_owned);
            facts.text = text.map(Text::Known).unwrap_or(if step.is_text_unknown {
                Text::Unknown
            } else {
                Text::default()
            });
        }
        let group = self.index.round_of(ordinal);
        if let Some(event) = self.events(group, EventKind::Output).last() {
            let record = lines.record(TraceFile::Events, event.span)?;
            let text = format::event(&record)
                .output
                .and_then(Value::string)
                .ok_or("the event has no output")?;
            facts.text = Text::Known(text.into_owned());
        }
        Ok(())
    }

    /// Adds what the recorded end shows about the last step. After a budget stop, adds the next
    /// step, which never ran.
    fn end(&self, segment: &Segment, facts: &mut Vec<StepFacts>) {
        let Some((at, end, _)) = &segment.end else {
            return;
        };
        let ended = self.ms(*at);
        let step = facts.last().map_or(0, |last| last.step + 1);
        let reason = end.reason.as_deref().map(StopReason::parse);
        let answer = segment
            .stop
            .as_ref()
            .and_then(|(_, stop)| stop.answer.as_deref());
        match (reason, facts.last_mut()) {
            (
                Some(StopReason::BudgetSteps | StopReason::BudgetTime | StopReason::BudgetTokens),
                _,
            ) => {
                let next = StepFacts {
                    reached: Gate::BeforeStep,
                    t_start_ms: ended,
                    ..StepFacts::unknown(step)
                };
                facts.push(next);
            }
            (Some(StopReason::AgentCondition), Some(last)) => last.agent_stop = true,
            (Some(StopReason::EnvTerminal), Some(last)) => last.env_terminal = true,
            (Some(StopReason::UnrecoverableError), Some(last)) => {
                if let Some(error) = &mut last.error {
                    error.recovered = false;
                }
            }
            (Some(StopReason::ContextOverflow), Some(last)) => {
                last.force(
                    Gate::AfterStep,
                    Source::Error,
                    Code::ContextOverflow,
                    "the request didn't fit the context window",
                );
            }
            (Some(StopReason::CancelledImmediate), Some(last)) => {
                last.force(
                    Gate::AfterStep,
                    Source::Cancel,
                    Code::CancelledImmediate,
                    "cancelled",
                );
            }
            (Some(StopReason::Success | StopReason::Final), Some(last)) if !last.candidate => {
                last.final_answer = last.final_answer.take().or(answer.map(str::to_owned));
            }
            _ => {}
        }
    }

    /// Adds the answer of another tool's run that completed, if the tool records it for the run but
    /// for no step. Such an answer is a submission, and it belongs to the last step.
    fn answered(&self, facts: &mut [StepFacts]) {
        let whole = |manifest: &&Manifest| self.index.format().is_one_file() && !manifest.is_cut;
        let Some(manifest) = self.index.manifest().get().filter(whole) else {
            return;
        };
        let is_well = manifest
            .ended
            .as_ref()
            .is_some_and(|end| end.outcome == Outcome::Completed);
        let answer = manifest.final_result.as_deref().filter(|_| is_well);
        let (Some(answer), Some(last)) = (answer, facts.last_mut()) else {
            return;
        };
        let head = usize::try_from(last.step)
            .ok()
            .and_then(|n| self.index.steps().get(n));
        // The writer of the trace may record a truncated reply as the answer.
        let is_cut = head.is_some_and(|head| format::is_at_limit(self.index.name(head.finish)));
        if !last.candidate && last.final_answer.is_none() && !is_cut {
            let (known, is_whole) = format::uncut(answer);
            (last.final_answer, last.is_answer_cut) = (Some(known.to_owned()), !is_whole);
        }
    }

    /// Returns the events of this kind in a group.
    fn events<'b>(
        &'b self,
        group: Option<&Group>,
        kind: EventKind,
    ) -> impl Iterator<Item = &'b EventHead> + use<'a, 'b> {
        let events = self
            .index
            .events()
            .range(group.map_or(0..0, |group| group.first..group.end));
        events.filter(move |event| event.kind == kind)
    }
}
