//! Finds the patterns that led up to the stop: series of similar steps that reach the end of the
//! newest run.
//!
//! A pattern is named only if it explains the end. A loop explains why a budget ran out, but not
//! why the run answered. Calls are compared by the text that the index keeps. A call that the index
//! had to shorten is never equal to another.

use std::borrow::Cow;
use std::collections::HashMap;

use crate::analysis::format::{count, counted, exit_code, score};
use crate::analysis::newest::{label, newest_run};
use crate::analysis::run_status::RunStatus;
use crate::analysis::verdict::ENGINE_KEYS;
use crate::model::step::NO_WORDS;
use crate::model::telling::{Tells, telling_line};
use crate::model::{
    BROKEN_REPLY, CANCELLED, CallEnd, Can, EndKind, Index, NO_REPLY, StepHead, StopReason, Symbol,
};

/// The number of equal calls in a row that count as a repetition.
const MIN_EQUAL: usize = 3;
/// The number of waits in a row that count as a repetition. It's higher than [`MIN_EQUAL`] because
/// a few waits in a row are normal.
const MIN_WAITS: usize = 5;
/// The number of rounds after which alternating calls count as a repetition.
const MIN_ROUNDS: usize = 2;
/// The number of steps in a row without a state change that are reported.
const MIN_IDLE: usize = 3;
/// The number of equal errors in a row that are reported.
const MIN_ERRORS: usize = 2;
/// The length of a trend in scores or request sizes that is reported; steps.
const MIN_TREND: usize = 3;
/// A fall in scores by more than this is reported. A drop by more than this between two scores also
/// counts as trouble.
const FALL: f64 = 0.3;
/// The usual names of state keys in which an agent logs its own calls.
const LOG_KEYS: [&str; 5] = [
    "scratchpad",
    "history",
    "messages",
    "tool_calls",
    "last_tool",
];
/// The length at which a call or an error is truncated in a sentence; characters.
const MAX_CHARS: usize = 80;

/// Returns whether `to` is more than [`FALL`] below `from`. The tolerance is for rounding errors:
/// the fall from 0.9 to 0.6 is 0.3, which must not count, but the floating-point difference isn't
/// exact.
pub(super) fn is_fall(from: f64, to: f64) -> bool {
    from - to > FALL + 1e-9
}

/// A series of similar consecutive steps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Pattern {
    pub(super) kind: PatternKind,
    /// The first step, as an ordinal.
    pub(super) first: usize,
    /// The last step, as an ordinal.
    pub(super) last: usize,
    /// One sentence without a full stop: `Starting at step 7, ...`.
    pub(super) text: String,
}

/// What the steps of a pattern have in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PatternKind {
    /// The same call, answer or wait is repeated.
    Same,
    /// Two or three calls alternate.
    Turns,
    /// The same error is repeated.
    Error,
    /// The state doesn't change.
    Idle,
    /// A critic's scores fall.
    Fall,
    /// The requests grow.
    Growth,
}

impl PatternKind {
    /// Returns whether the steps repeat each other.
    pub(super) fn is_loop(self) -> bool {
        matches!(self, PatternKind::Same | PatternKind::Turns)
    }
}

/// Returns up to two patterns that explain an end under `mark` and `reason`, best explanation
/// first.
pub(super) fn patterns_before_stop(
    index: &Index,
    mark: RunStatus,
    reason: Option<&str>,
) -> Vec<Pattern> {
    use PatternKind::{Error, Fall, Growth, Idle, Same, Turns};
    let reason = reason.map(StopReason::parse);
    let wanted: &[PatternKind] = match (mark, reason) {
        (RunStatus::Limit, Some(StopReason::BudgetTokens | StopReason::ContextOverflow)) => {
            &[Growth, Same, Turns, Error, Idle]
        }
        (RunStatus::Limit, _) if is_window_full(index) => &[Growth, Same, Turns, Error, Idle],
        (RunStatus::Limit, _) => &[Same, Turns, Error, Idle],
        (RunStatus::Critic, _) => &[Fall, Same, Turns, Error, Idle],
        (RunStatus::Died, _) => &[Same, Turns, Error],
        // The run may have died in a loop, but no record shows it.
        (RunStatus::Unknown, _) if just_ends(index) => &[Same, Turns, Error],
        (RunStatus::Error, _) => &[Error],
        _ => return Vec::new(),
    };
    let mut found: Vec<Pattern> = wanted
        .iter()
        .filter_map(|kind| pattern(index, *kind))
        .collect();
    // Steps that repeat a call rarely change the state, so the loop is the better explanation.
    if found.iter().any(|pattern| pattern.kind.is_loop()) {
        found.retain(|pattern| pattern.kind != Idle);
    }
    found.truncate(2);
    found
}

/// Returns whether another tool's run ended because its context window was full.
fn is_window_full(index: &Index) -> bool {
    let manifest = index.manifest().get();
    let ended = manifest.and_then(|manifest| manifest.ended.as_deref());
    ended.is_some_and(|ended| ended.kind() == Some(EndKind::Context))
}

/// Returns whether another tool wrote the trace and it ends without a recorded reason.
fn just_ends(index: &Index) -> bool {
    index.format().is_one_file()
        && index
            .manifest()
            .get()
            .is_some_and(|manifest| manifest.ended.is_none())
}

/// Returns the pattern of one kind that reaches the end of the newest run.
fn pattern(index: &Index, kind: PatternKind) -> Option<Pattern> {
    // Abandoned steps, which the run later went back past, didn't lead to its end.
    let steps = newest_run(index).filter(|(_, step)| !step.is_abandoned);
    let (first, text) = match kind {
        PatternKind::Same | PatternKind::Turns => {
            let mut repeats = Repeats::default();
            steps
                .clone()
                .for_each(|(n, step)| repeats.push(n, key(index, step)));
            let repeat = repeats
                .now()
                .filter(|repeat| (repeat.period == 1) == (kind == PatternKind::Same))?;
            (repeat.first, repeat.text(index))
        }
        PatternKind::Error => {
            let (last, step) = steps.clone().next_back()?;
            let last = failure(index, last, step)?;
            let (first, times) = tail(steps.clone(), |(n, step)| {
                failure(index, n, step).as_ref() == Some(&last)
            })?;
            let text = format!(
                "the same error occurred in {times} consecutive steps: {}",
                short(&last)
            );
            (times >= MIN_ERRORS).then_some((first, text))?
        }
        // A format that can't record state doesn't show that the state is unchanged.
        PatternKind::Idle if index.format().can.state == Can::No => return None,
        PatternKind::Idle => {
            if !index.format().tells_each_change() {
                return None;
            }
            let idle =
                |(_, step): (usize, &StepHead)| step.fate.is_readable() && step.changed.is_empty();
            let (first, times) = tail(steps.clone(), idle)?;
            (times >= MIN_IDLE)
                .then(|| (first, format!("the state didn't change for {times} steps")))?
        }
        PatternKind::Fall => fall(index)?,
        PatternKind::Growth => growth(index)?,
    };
    let (last, _) = steps.clone().next_back()?;
    let begin = steps.clone().find(|(n, _)| *n == first).map(label)?;
    Some(Pattern {
        kind,
        first,
        last,
        text: format!("Starting at {begin}, {text}"),
    })
}

/// Returns the first of the steps at the end that satisfy `like`, and their number.
fn tail<'a>(
    steps: impl DoubleEndedIterator<Item = (usize, &'a StepHead)>,
    like: impl Fn((usize, &'a StepHead)) -> bool,
) -> Option<(usize, usize)> {
    let row = steps.rev().take_while(|step| like(*step));
    row.fold(None, |found, (n, _)| {
        Some((n, found.map_or(1, |(_, times)| times + 1)))
    })
}

/// Finds a critic whose scores fall up to the end: each score is below the previous one, and the
/// total fall is more than [`FALL`]. Returns the first step and a description.
fn fall(index: &Index) -> Option<(usize, String)> {
    let mut rows: HashMap<Symbol, Trend> = HashMap::new();
    for (n, step) in newest_run(index) {
        for mark in &step.critics {
            let Some(score) = mark.score else { continue };
            rows.entry(mark.name)
                .or_default()
                .push(n, score, |before, now| now < before);
        }
    }
    let lost = |trend: &Trend| trend.from - trend.to;
    let falling = rows
        .into_iter()
        .filter(|(_, trend)| trend.len >= MIN_TREND && is_fall(trend.from, trend.to));
    // Breaks ties by the name that comes first in the file, so that the result is deterministic.
    let deepest =
        falling.max_by(|(a, one), (b, other)| lost(one).total_cmp(&lost(other)).then(b.cmp(a)));
    deepest.map(|(name, trend)| {
        let words = format!(
            "{}'s scores fell from {} to {}",
            index.name(name),
            score(trend.from),
            score(trend.to)
        );
        (trend.first, words)
    })
}

/// Finds requests that grow up to the end and at least double. Returns the first step and a
/// description.
fn growth(index: &Index) -> Option<(usize, String)> {
    let requests = || newest_run(index).filter(|(_, step)| step.tokens.is_some());
    let input = |step: &StepHead| step.usage.get().input;
    // Otherwise only the sum of a request and its reply is known.
    let is_split = requests().all(|(_, step)| input(step).is_some());
    let mut row = Trend::default();
    for (n, step) in requests() {
        let whole = step.tokens.unwrap_or_default();
        let tokens = input(step).filter(|_| is_split).unwrap_or(whole);
        row.push(n, tokens as f64, |before, now| now > before);
    }
    (row.len >= MIN_TREND && row.to >= 2.0 * row.from).then(|| {
        let (from, to) = (count(row.from as u64), count(row.to as u64));
        let about = if (row.first..index.steps().len()).any(|n| index.tokens_estimated(n)) {
            "≈"
        } else {
            ""
        };
        (
            row.first,
            match is_split {
                true => format!("requests grew from {about}{from} to {to} tokens"),
                false => format!("requests with replies grew from {about}{from} to {to} tokens"),
            },
        )
    })
}

/// A series of numbers that rise or fall.
#[derive(Debug, Clone, Default)]
struct Trend {
    first: usize,
    len: usize,
    from: f64,
    to: f64,
}

impl Trend {
    fn push(&mut self, n: usize, value: f64, continues: impl Fn(f64, f64) -> bool) {
        if self.len > 0 && continues(self.to, value) {
            self.len += 1;
        } else {
            (self.first, self.len, self.from) = (n, 1, value);
        }
        self.to = value;
    }
}

/// The key of a step that only waits, regardless of the reason.
pub(super) const WAIT: &str = "wait";
/// The call text in the index of a step that waits because the model's text contained no decision.
const NOT_UNDERSTOOD: &str = "wait: model text not understood";

/// Returns the call of a step as a key for comparison, or `None` if the index doesn't keep all of
/// it.
pub(super) fn key<'a>(index: &Index, step: &'a StepHead) -> Option<&'a str> {
    // The index marks truncated or missing arguments with `…`. It keeps only the first of several
    // actions.
    let whole = step.fate.is_readable()
        && step.actions <= 1
        && !step.call.is_empty()
        && !step.call.contains('…');
    match index.name(step.mode) {
        "handoff" => None,
        "wait" if &*step.call != NOT_UNDERSTOOD => Some(WAIT),
        _ => whole.then_some(&*step.call),
    }
}

/// Returns the error of a step, as the trace words it.
pub(super) fn failure<'a>(index: &'a Index, n: usize, step: &'a StepHead) -> Option<Cow<'a, str>> {
    let event = || index.error_of(n).map(|(_, text)| &**text);
    let code = || Some(format!("a command {}", exited(step)?));
    step.error
        .as_deref()
        .or_else(event)
        .map(Cow::Borrowed)
        .or_else(|| code().map(Cow::Owned))
}

/// Returns the shell command that failed first in a step.
pub(super) fn failed_command(step: &StepHead) -> Option<&str> {
    step.failed_call.as_ref()?.command.as_deref()
}

/// Returns `exited with code 1`, with the line that tells most about the failure.
pub(super) fn exited(step: &StepHead) -> Option<String> {
    let code = step.returncode?;
    let printed = step
        .failed_call
        .as_ref()
        .and_then(|failed| failed.printed.as_deref());
    let printed = printed.map_or_else(String::new, |line| format!(": {line}"));
    Some(format!("exited with code {}{printed}", exit_code(code)))
}

/// Describes the error in a step head: a cancelled call, a missing model reply, or a tool or
/// command that failed. A cancelled call isn't a failure. Returns `None` if the head has no error.
pub(super) fn describe_failure(index: &Index, step: &StepHead) -> Option<String> {
    let mut failed = step
        .calls
        .iter()
        .filter(|call| call.end == CallEnd::Failed)
        .map(|call| index.name(call.name));
    // If different tools failed, the head doesn't say which of them reported the error.
    let tool = failed
        .next()
        .filter(|tool| !tool.is_empty() && failed.all(|other| other == *tool));
    let command = failed_command(step).map(|command| format!("`{command}`"));
    let who = command.as_deref().or(tool);
    let Some(error) = step.error.as_deref() else {
        return Some(format!("{} {}", who.unwrap_or("a command"), exited(step)?));
    };
    if let Some(words) = error.strip_prefix(CANCELLED) {
        return Some(format!("a call was cancelled: {words}"));
    }
    if let Some(words) = error.strip_prefix(NO_REPLY) {
        return Some(format!("the model didn't reply: {words}"));
    }
    if let Some(words) = error.strip_prefix(BROKEN_REPLY) {
        return Some(format!("the model's reply is incomplete: {words}"));
    }
    Some(match who {
        // Some tools begin their messages with their names.
        Some(tool) if error.starts_with(tool) => error.to_owned(),
        who if error == NO_WORDS => format!("{} {NO_WORDS}", who.unwrap_or("a tool")),
        who => format!("{} failed: {error}", who.unwrap_or("a tool")),
    })
}

/// Returns the part of an engine's error that tells most.
pub(super) fn of_engine(error: &str) -> Cow<'_, str> {
    telling_line(error, Tells::First)
}

/// Detects steps that repeat the step one, two or three before; fed step by step.
#[derive(Debug, Default)]
pub(super) struct Repeats<'a> {
    /// The latest calls, newest first.
    recent: [Option<&'a str>; 3],
    /// For each period, at index `period - 1`: the number of steps in a row that equal the step
    /// `period` before them.
    equal: [usize; 3],
    last: usize,
}

/// A stretch of repeated calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Repeat<'a> {
    /// The first step.
    pub(super) first: usize,
    /// The number of steps after which a call repeats.
    pub(super) period: usize,
    len: usize,
    calls: [Option<&'a str>; 3],
}

impl<'a> Repeats<'a> {
    /// The number of steps after which a repetition of any period has been detected.
    pub(super) const LONGEST: usize = MIN_ROUNDS * 3;

    pub(super) fn push(&mut self, n: usize, key: Option<&'a str>) {
        for (equal, before) in self.equal.iter_mut().zip(self.recent) {
            *equal = if key.is_some() && key == before {
                *equal + 1
            } else {
                0
            };
        }
        self.recent.rotate_right(1);
        if let Some(newest) = self.recent.first_mut() {
            *newest = key;
        }
        self.last = n;
    }

    /// Returns the repetition that includes the newest step.
    pub(super) fn now(&self) -> Option<Repeat<'a>> {
        (1..).zip(self.equal).find_map(|(period, equal)| {
            let len = equal + period;
            let least = match period {
                1 if self.recent.first() == Some(&Some(WAIT)) => MIN_WAITS,
                1 => MIN_EQUAL,
                _ => MIN_ROUNDS * period,
            };
            let first = (self.last + 1).checked_sub(len)?;
            (equal > 0 && len >= least).then_some(Repeat {
                first,
                period,
                len,
                calls: self.recent,
            })
        })
    }
}

impl Repeat<'_> {
    /// Returns the calls of one round, and the same calls joined into one line.
    fn round(&self) -> (Vec<&str>, String) {
        // Rotates the round so that it starts with the first call of the stretch.
        let mut round: Vec<&str> = self
            .calls
            .iter()
            .copied()
            .take(self.period)
            .flatten()
            .rev()
            .collect();
        let led = self.len % round.len().max(1);
        round.rotate_right(led);
        let calls: Vec<String> = round.iter().map(|call| short(call)).collect();
        (round, calls.join(", "))
    }

    /// Describes what is repeated and how often. The text starts in the middle of a sentence.
    fn text(&self, index: &Index) -> String {
        let (round, calls) = self.round();
        let times = self.len;
        match (round.as_slice(), self.mode(index)) {
            ([WAIT], _) => format!(
                "the agent did nothing but wait for {}",
                counted(times, "step")
            ),
            ([NOT_UNDERSTOOD], _) => {
                format!("{times} model replies in a row couldn't be parsed")
            }
            ([_], "final") => format!("the same answer was given {times} times in a row"),
            ([_], _) if self.has_no_call(index) => {
                let words = words(&calls);
                format!("the model produced the same reply {times} times in a row: “{words}”")
            }
            ([_], _) => format!("the same call was made {times} times in a row: {calls}"),
            (round, _) => format!(
                "{} calls alternated for {times} steps: {calls}",
                number(round.len())
            ),
        }
    }

    /// Describes what is repeated, from the viewpoint of the first step of the repetition.
    pub(super) fn begins(&self, index: &Index) -> String {
        let (round, calls) = self.round();
        match (round.as_slice(), self.mode(index)) {
            ([NOT_UNDERSTOOD], _) => "several model replies in a row couldn't be parsed".to_owned(),
            ([_], "final") => "the same answer repeats".to_owned(),
            ([_], _) if self.has_no_call(index) => {
                format!("the same reply repeats: {}", words(&calls))
            }
            ([_], _) => format!("the same call repeats: {calls}"),
            (round, _) => format!("{} calls alternate: {calls}", number(round.len())),
        }
    }

    /// Returns whether it's one call that changed the state each time, such as a move. Keys that
    /// only count or log what the agent does don't count.
    pub(super) fn makes_progress(&self, index: &Index) -> bool {
        let changed = |step: &StepHead| {
            let mut keys = step.changed.iter().map(|key| index.name(*key));
            keys.any(|key| !ENGINE_KEYS.contains(&key) && !LOG_KEYS.contains(&key))
        };
        let steps = self.first..self.first + self.len;
        let mut steps = steps.map(|n| index.steps().get(n));
        self.period == 1 && steps.all(|step| step.is_some_and(changed))
    }

    /// Returns whether the repeated step made no tool call.
    fn has_no_call(&self, index: &Index) -> bool {
        let first = index.steps().get(self.first);
        first.is_some_and(|step| step.actions == 0)
    }

    fn mode<'i>(&self, index: &'i Index) -> &'i str {
        index
            .steps()
            .get(self.first)
            .map(|step| index.name(step.mode))
            .unwrap_or_default()
    }
}

/// Returns the words of a reply without a call. The index calls it a thought even if it's a text that
/// was truncated.
fn words(call: &str) -> &str {
    call.strip_prefix("thought: ").unwrap_or(call)
}

fn number(calls: usize) -> &'static str {
    if calls == 2 { "two" } else { "three" }
}

/// Shortens a text to fit into a sentence.
fn short(text: &str) -> String {
    let mut chars = text.trim_end_matches('.').chars();
    let head: String = chars.by_ref().take(MAX_CHARS).collect();
    if chars.next().is_some() {
        format!("{head}…")
    } else {
        head
    }
}
