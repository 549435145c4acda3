//! Collects the facts that stop rules look at in each step, as recorded or as far as the files
//! allow.
//!
//! If the format records no facts, they are inferred from step heads and events. What the files
//! don't record stays unknown. [`Record::inferred`] lists what is inferred rather than read.

use std::collections::HashSet;
use std::ops::Range;

use serde::Deserialize;

use super::newest::{are_steps_unknown, newest_run};
use super::stated;
use crate::format;
use crate::model::event::SpentNote;
use crate::model::index::{AnswerSort, Group, STEPS_AT_ONCE, Segment};
use crate::model::names::MAX_ANSWER_BYTES;
use crate::model::price::Prices;
use crate::model::{Can, EventKind, Index, Lines, RecordedFacts, Span, StepHead, TraceFile};
use crate::stop::{CriticFact, Gate, LineFacts, Stats, StepFacts, StopRules, Text, Usage, Whole};

mod inferred;
#[cfg(test)]
pub(crate) mod tests;

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
    pub whole: Whole,
}

/// Steps that ran according to the events or the manifest's count but have no line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lost {
    /// The number of steps.
    pub count: usize,
    /// The ordinal of the first missing step. Later steps can't be counted.
    pub from: u64,
    /// Whether the steps have lines, but the run has more steps than the board keeps.
    pub is_skipped: bool,
}

impl Lost {
    /// Says why these steps are unknown: "3 steps have no line in steps.jsonl".
    pub fn words(self) -> String {
        let (have, are) = if self.count == 1 {
            ("has", "is")
        } else {
            ("have", "are")
        };
        let steps = super::format::counted(self.count, "step");
        match self.is_skipped {
            true => format!("{steps} {are} skipped because the run has more than the board keeps"),
            false => format!("{steps} {have} no line in steps.jsonl"),
        }
    }
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
        let of_run = index
            .manifest()
            .get()
            .and_then(|manifest| manifest.model_of_steps())
            .unwrap_or_default();
        for facts in self
            .facts
            .iter_mut()
            .chain(self.nested.iter_mut().map(|(_, facts)| facts))
        {
            let n = usize::try_from(facts.step).unwrap_or(usize::MAX);
            let Some(head) = index.steps().get(n) else {
                continue;
            };
            let usage = head.usage_alone(index.tokens_before(n));
            if facts.cost_usd.is_none() && facts.usage != Some(Usage::default()) {
                let model = Some(index.name(head.model))
                    .filter(|model| !model.is_empty())
                    .unwrap_or(of_run);
                let others = || {
                    head.other_models
                        .iter()
                        .map(|(model, usage)| (index.name(*model), usage.get()))
                };
                let own = others().fold(usage, |own, (_, other)| own.less(other));
                let all = std::iter::once((model, own)).chain(others());
                facts.cost_usd = all.map(|(model, usage)| prices.cost(model, usage)).sum();
                facts.cost_estimated = facts.cost_usd.is_some();
                self.cost_estimated |= facts.cost_estimated;
            }
        }
        self.count_nested();
        self
    }

    /// Counts what sub-agents used as used after the decision of the step that called them.
    fn count_nested(&mut self) {
        (self.whole.untold_tokens, self.whole.untold_cost) = (0, 0);
        for (place, _) in &self.nested {
            if let Some(facts) = self.facts.get_mut(*place) {
                (facts.late_usage, facts.late_cost_usd) = (Usage::default(), None);
            }
        }
        for (place, nested) in &self.nested {
            self.whole.untold_tokens += u64::from(nested.usage.is_none());
            self.whole.untold_cost += u64::from(nested.cost().is_none());
            if let Some((facts, usage)) = self.facts.get_mut(*place).zip(nested.usage) {
                facts.late(usage, nested.cost_usd);
                facts.cost_estimated |= nested.cost_estimated;
            }
        }
    }

    /// Returns the counters before the first step: those of the resumed run, and what the run used
    /// that its steps don't record.
    pub fn start(&self) -> Stats {
        self.resumed.clone().of_whole(&self.whole, &self.facts)
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
pub fn record(index: &Index, lines: &dyn Lines, depth: Depth) -> Record {
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
            ..inferred::record(index, (steps, count), lines, depth)
        };
        if let Some(manifest) = manifest {
            let agreed = |unit, stated: bool| {
                stated::total(index, unit)
                    .agreed()
                    .copied()
                    .filter(|_| stated)
            };
            let is_total = manifest.tokens.is_some() && !manifest.tokens_of_steps;
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

/// Returns the facts and rules of a run of the board's own engine, as far as the index holds them.
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

/// Returns the steps of the newest run that are counted but not kept.
fn skipped(index: &Index) -> Option<Lost> {
    let start = index.newest_start();
    let mut skips = index
        .step_skips()
        .list()
        .iter()
        .filter(|skip| skip.at >= start);
    let first = skips.next()?;
    let count = index
        .newest_lines()
        .saturating_sub(index.steps().len() - start)
        + 1
        + skips.count();
    Some(Lost {
        count,
        from: first.at as u64,
        is_skipped: true,
    })
}

/// Returns the steps of the newest run that were completed but have no line, or that are counted
/// but not kept.
pub(super) fn lost(index: &Index) -> Option<Lost> {
    if let Some(skipped) = skipped(index) {
        return Some(skipped);
    }
    let (there, unread) = (index.newest_len(), unread(index));
    // Without an END event, the last round may still be in progress, unless an exception ended it.
    let under_way = |segment: &Segment| segment.end.is_none() && segment.teardown.is_none();
    let open = |segment: &Segment| segment.first_group + usize::from(under_way(segment));
    let rounds = match index.segment() {
        // Events out of order begin the same round repeatedly. Then only steps that no line has
        // count as missing.
        Some(_) if index.is_disordered() => there + unwritten(index),
        Some(segment) => index.groups().len().saturating_sub(open(segment)),
        None => 0,
    };
    // A writer that wrote a line twice may have counted both.
    let missing = rounds
        .saturating_sub(there)
        .max(counted(index).saturating_sub(index.newest_lines()));
    // An unreadable line is a step if there are as many rounds as lines. Without other records, it
    // may not be a step.
    let is_told = rounds.max(counted(index)) > 0 || !index.groups().is_empty();
    let count = if is_told {
        missing
    } else {
        missing.max(unread)
    };
    // Ids count up by one. A jump means that a line is missing.
    let jump = index.tally().run.first_jump.unwrap_or(index.steps().len());
    let torn = (unread > 0 && !is_told)
        .then(|| first_unread(index))
        .flatten();
    let from = torn.map_or(jump, |torn| torn.min(jump));
    (count > 0).then_some(Lost {
        count,
        from: from as u64,
        is_skipped: false,
    })
}

/// Returns the number of unreadable lines of the newest run, in formats whose lines are steps.
pub(super) fn unread(index: &Index) -> usize {
    if index.format().is_one_file() {
        0
    } else {
        index.tally().run.unread
    }
}

fn first_unread(index: &Index) -> Option<usize> {
    newest_run(index)
        .find(|(_, step)| !step.fate.is_readable())
        .map(|(n, _)| n)
}

/// Returns what the replies used in the step in which the newest run broke off, if its events
/// record it. The step may have used more.
pub(super) fn spent_without_line(index: &Index) -> Option<SpentNote> {
    unfinished(index)?.spent
}

fn unfinished(index: &Index) -> Option<&Group> {
    index.groups().get(index.unfinished_group()?)
}

/// Returns the number of steps of the newest run that events name but no line has.
fn unwritten(index: &Index) -> usize {
    let written: HashSet<i64> = newest_run(index)
        .filter_map(|(_, step)| step.step_id)
        .collect();
    let first = index.segment().map_or(0, |segment| segment.first_group);
    let named: HashSet<i64> = index
        .groups()
        .iter()
        .skip(first)
        .filter_map(|group| group.step_id)
        .collect();
    named.difference(&written).count()
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

/// Returns whether the newest run broke off in a step that has a recorded model reply but no line.
/// Sums over steps don't include that reply's usage.
pub(super) fn has_reply_without_line(index: &Index) -> bool {
    let events = unfinished(index).map(|group| group.first..group.end);
    let is_reply = |n: usize| {
        index
            .events()
            .get(n)
            .is_some_and(|event| event.kind == EventKind::Output)
    };
    events.is_some_and(|mut events| events.any(is_reply))
}

/// Returns the first line of the newest run that may not be a step, if there are more lines than
/// steps ran.
pub(super) fn foreign(index: &Index) -> Option<u64> {
    // If events were dropped, the number of rounds is unknown.
    if index.format().is_one_file() || index.event_skips().is_cut() {
        return None;
    }
    let first = index.newest_start();
    let newest = index
        .newest_segments()
        .first()
        .filter(|_| !index.is_disordered());
    let rounds = newest.map_or(0, |segment| {
        index.groups().len().saturating_sub(segment.first_group)
    });
    let ran = rounds.max(counted(index));
    if ran == 0 || index.newest_lines() <= ran {
        return None;
    }
    let is_odd = |step: &StepHead| !step.fate.is_readable() || step.step_id.is_none();
    let odd = index.steps().iter().skip(first).position(is_odd)?;
    Some((first + odd) as u64)
}

/// Returns whether the number of completed steps of the newest run is known and equals the number
/// of its lines. A step that an exception ended isn't completed.
pub(super) fn is_counted(index: &Index) -> bool {
    let died = index
        .segment()
        .is_some_and(|segment| segment.end.is_none() && segment.teardown.is_some());
    let is_only_the_last =
        |lost: Lost| died && lost.count == 1 && counted(index) <= index.newest_lines();
    lost(index).is_none_or(is_only_the_last)
        && foreign(index).is_none()
        && index.double_steps().0 == 0
}

/// Returns the number of steps by the manifest; 0 if the manifest isn't final or several runs wrote
/// into the directory.
fn counted(index: &Index) -> usize {
    let manifest = index
        .manifest()
        .get()
        .filter(|manifest| manifest.is_final() && index.segments().len() <= 1);
    manifest
        .filter(|_| !index.is_partial())
        .map_or(0, |manifest| manifest.steps_counted())
}

fn from_line(ordinal: usize, head: &StepHead, lines: &dyn Lines) -> Option<StepFacts> {
    let record = lines.record(TraceFile::Steps, head.span).ok()?;
    StepFacts::from_step(ordinal as u64, &format::step(&record)?).ok()
}

/// Returns the facts of a step of the board's own engine without reading its line. The facts show
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
