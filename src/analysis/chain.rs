//! What led up to the stop? The stretches of like steps that reach the end of the newest run.
//!
//! A stretch is named where it explains the end, and only then: a loop says why a budget ran out, and nothing about an
//! answer. Calls are compared by what the index keeps of them; a call it had to shorten is like no other.

use std::collections::HashMap;

use crate::analysis::format::{count, counted, score};
use crate::analysis::newest::{label, newest_run};
use crate::analysis::run_status::RunStatus;
use crate::model::{CANCELLED, Can, Index, NO_REPLY, StepHead, StopReason, Symbol};

/// So many equal calls in a row are a repetition.
const MIN_EQUAL: usize = 3;
/// So many waits in a row are one; fewer are what anybody does who waits for something.
const MIN_WAITS: usize = 5;
/// Calls that take turns are a repetition after so many rounds.
const MIN_ROUNDS: usize = 2;
/// So many steps in a row without a change of the state are worth a word.
const MIN_IDLE: usize = 3;
/// So many equal errors in a row are worth a word.
const MIN_ERRORS: usize = 2;
/// Scores or requests that go one way for so many steps are worth a word.
const MIN_TREND: usize = 3;
/// Scores fall where they lose more than this in all; also the drop between two scores that counts as trouble.
const FALL: f64 = 0.3;
/// A call or an error in a sentence is cut to so many characters.
const MAX_CHARS: usize = 80;

/// Whether `to` is so far below `from` that it counts; 0.9 and 0.6, which are not exact, lie 0.3 apart and no more.
pub(super) fn is_fall(from: f64, to: f64) -> bool {
    from - to > FALL + 1e-9
}

/// Like steps that follow each other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Stretch {
    /// What is alike.
    pub(super) sort: Sort,
    /// Its first step, as an ordinal.
    pub(super) first: usize,
    /// Its last step, as an ordinal.
    pub(super) last: usize,
    /// One sentence, without a full stop: `From step 7 on ...`.
    pub(super) text: String,
}

/// What steps of a stretch have in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sort {
    /// The same call, answer or wait again and again.
    Same,
    /// Two or three calls that take turns.
    Turns,
    /// The same error.
    Error,
    /// Nothing in the state changes.
    Idle,
    /// A critic's scores fall.
    Fall,
    /// Requests grow.
    Growth,
}

impl Sort {
    /// Whether the steps repeat each other.
    pub(super) fn is_loop(self) -> bool {
        matches!(self, Sort::Same | Sort::Turns)
    }
}

/// The stretches that explain an end under `mark` and `reason`, the best explanation first; at most two.
pub(super) fn before_the_stop(
    index: &Index,
    mark: RunStatus,
    reason: Option<&str>,
) -> Vec<Stretch> {
    use Sort::{Error, Fall, Growth, Idle, Same, Turns};
    let reason = reason.map(StopReason::parse);
    let wanted: &[Sort] = match (mark, reason) {
        (RunStatus::Limit, Some(StopReason::BudgetTokens | StopReason::ContextOverflow)) => {
            &[Growth, Same, Turns, Error, Idle]
        }
        (RunStatus::Limit, _) => &[Same, Turns, Error, Idle],
        (RunStatus::Critic, _) => &[Fall, Same, Turns, Error, Idle],
        (RunStatus::Died, _) => &[Same, Turns, Error],
        // It may have died in what it did again and again; no record says so.
        (RunStatus::Unknown, _) if just_ends(index) => &[Same, Turns, Error],
        (RunStatus::Error, _) => &[Error],
        _ => return Vec::new(),
    };
    let mut found: Vec<Stretch> = wanted
        .iter()
        .filter_map(|sort| stretch(index, *sort))
        .collect();
    // Steps that do the same again rarely change anything; the loop says it better.
    if found.iter().any(|stretch| stretch.sort.is_loop()) {
        found.retain(|stretch| stretch.sort != Idle);
    }
    found.truncate(2);
    found
}

/// Whether the trace of another tool just ends, without a record of why.
fn just_ends(index: &Index) -> bool {
    index.format().is_one_file()
        && index
            .manifest()
            .get()
            .is_some_and(|manifest| manifest.ended.is_none())
}

/// The stretch of one sort that reaches the end of the newest run.
fn stretch(index: &Index, sort: Sort) -> Option<Stretch> {
    // What the run went back to before did not lead to its end.
    let steps = newest_run(index).filter(|(_, step)| !step.is_left);
    let (first, text) = match sort {
        Sort::Same | Sort::Turns => {
            let mut repeats = Repeats::default();
            steps
                .clone()
                .for_each(|(n, step)| repeats.push(n, key(index, step)));
            let repeat = repeats
                .now()
                .filter(|repeat| (repeat.period == 1) == (sort == Sort::Same))?;
            (repeat.first, repeat.text(index))
        }
        Sort::Error => {
            let (last, step) = steps.clone().next_back()?;
            let last = failure(index, last, step)?;
            let (first, times) = tail(steps.clone(), |(n, step)| {
                failure(index, n, step).as_ref() == Some(&last)
            })?;
            let text = format!("{times} steps in a row failed alike: {}", short(&last));
            (times >= MIN_ERRORS).then_some((first, text))?
        }
        // No state is not an unchanged one.
        Sort::Idle if index.format().can.state == Can::No => return None,
        Sort::Idle => {
            if !index.format().tells_each_change() {
                return None;
            }
            let idle =
                |(_, step): (usize, &StepHead)| step.fate.is_readable() && step.changed.is_empty();
            let (first, times) = tail(steps.clone(), idle)?;
            (times >= MIN_IDLE).then(|| {
                (
                    first,
                    format!("{times} steps in a row changed nothing in the state"),
                )
            })?
        }
        Sort::Fall => fall(index)?,
        Sort::Growth => growth(index)?,
    };
    let (last, _) = steps.clone().next_back()?;
    let begin = steps.clone().find(|(n, _)| *n == first).map(label)?;
    Some(Stretch {
        sort,
        first,
        last,
        text: format!("From {begin} on {text}"),
    })
}

/// How many steps at the end are `like`, and the first of them.
fn tail<'a>(
    steps: impl DoubleEndedIterator<Item = (usize, &'a StepHead)>,
    like: impl Fn((usize, &'a StepHead)) -> bool,
) -> Option<(usize, usize)> {
    let row = steps.rev().take_while(|step| like(*step));
    row.fold(None, |found, (n, _)| {
        Some((n, found.map_or(1, |(_, times)| times + 1)))
    })
}

/// A critic whose scores fall up to the end: each below the one before, and by more than 0.3 in all.
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
    // Of equal falls the earlier name in the file, so that the words do not change from look to look.
    let deepest =
        falling.max_by(|(a, one), (b, other)| lost(one).total_cmp(&lost(other)).then(b.cmp(a)));
    deepest.map(|(name, trend)| {
        let words = format!(
            "the scores of {} fall from {} to {}",
            index.name(name),
            score(trend.from),
            score(trend.to)
        );
        (trend.first, words)
    })
}

/// Requests that grow up to the end, to twice the first or more.
fn growth(index: &Index) -> Option<(usize, String)> {
    let mut row = Trend::default();
    for (n, step) in newest_run(index) {
        let Some(tokens) = step.tokens else { continue };
        row.push(n, tokens as f64, |before, now| now > before);
    }
    (row.len >= MIN_TREND && row.to >= 2.0 * row.from).then(|| {
        let (from, to) = (count(row.from as u64), count(row.to as u64));
        let about = if (row.first..index.steps().len()).any(|n| index.tokens_estimated(n)) {
            "about "
        } else {
            ""
        };
        (
            row.first,
            format!("requests grow from {about}{from} to {to} tokens"),
        )
    })
}

/// Numbers that go one way.
#[derive(Debug, Clone, Default)]
struct Trend {
    first: usize,
    len: usize,
    from: f64,
    to: f64,
}

impl Trend {
    fn push(&mut self, n: usize, value: f64, goes_on: impl Fn(f64, f64) -> bool) {
        if self.len > 0 && goes_on(self.to, value) {
            self.len += 1;
        } else {
            (self.first, self.len, self.from) = (n, 1, value);
        }
        self.to = value;
    }
}

/// The key of a step that only waits, for whatever reason it gives.
pub(super) const WAIT: &str = "wait";
/// How the index reads a wait for want of a decision.
const NOT_UNDERSTOOD: &str = "wait: model text not understood";

/// What a step asks for, where the index keeps all of it.
pub(super) fn key<'a>(index: &Index, step: &'a StepHead) -> Option<&'a str> {
    // Arguments that were cut or left out are marked so, and of several actions only the first is kept.
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

/// What failed in a step, in the words of the trace.
pub(super) fn failure<'a>(
    index: &'a Index,
    n: usize,
    step: &'a StepHead,
) -> Option<std::borrow::Cow<'a, str>> {
    let event = || index.error_of(n).map(|(_, text)| &**text);
    let code = || {
        step.returncode
            .map(|code| format!("a command returned {code}"))
    };
    step.error
        .as_deref()
        .or_else(event)
        .map(Into::into)
        .or_else(|| code().map(Into::into))
}

/// What became of a call, by the error of its step's head: a call that somebody stopped did not fail.
pub(super) fn told(error: &str) -> String {
    match (error.strip_prefix(CANCELLED), error.strip_prefix(NO_REPLY)) {
        (Some(words), _) => format!("a call was cancelled: {words}"),
        (None, Some(words)) => format!("the model gave no reply: {words}"),
        (None, None) => format!("a tool failed: {error}"),
    }
}

/// Steps that repeat the one before, or the one two or three before; fed step by step.
#[derive(Debug, Default)]
pub(super) struct Repeats<'a> {
    /// The newest calls, the last one first.
    recent: [Option<&'a str>; 3],
    /// How many steps in a row equal the one `place + 1` steps before.
    equal: [usize; 3],
    last: usize,
}

/// A stretch of repeated calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Repeat<'a> {
    /// Its first step.
    pub(super) first: usize,
    /// After how many steps a call comes again.
    pub(super) period: usize,
    len: usize,
    calls: [Option<&'a str>; 3],
}

impl<'a> Repeats<'a> {
    /// A repetition has shown itself after so many steps.
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

    /// The repetition that the newest step belongs to.
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
    /// The calls of one round, and the same in one line.
    fn round(&self) -> (Vec<&str>, String) {
        // The call that comes first in the stretch leads.
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

    /// What is repeated, and how often; begins in the middle of a sentence.
    fn text(&self, index: &Index) -> String {
        let (round, calls) = self.round();
        let times = self.len;
        match (round.as_slice(), self.mode(index)) {
            ([WAIT], _) => format!("the agent only waited, {} in a row", counted(times, "step")),
            ([NOT_UNDERSTOOD], _) => {
                format!("the model's text was not understood {times} times in a row")
            }
            ([_], "final") => format!("the same answer was given {times} times in a row"),
            ([_], _) => format!("the same call was made {times} times in a row: {calls}"),
            (round, _) => format!(
                "{} calls take turns for {times} steps: {calls}",
                number(round.len())
            ),
        }
    }

    /// What is repeated, for a reader who looks at its start and not at its end.
    pub(super) fn begins(&self, index: &Index) -> String {
        let (round, calls) = self.round();
        match (round.as_slice(), self.mode(index)) {
            ([NOT_UNDERSTOOD], _) => {
                "the model's text is not understood again and again".to_owned()
            }
            ([_], "final") => "the same answer again and again".to_owned(),
            ([_], _) => format!("the same call again and again: {calls}"),
            (round, _) => format!("{} calls take turns: {calls}", number(round.len())),
        }
    }

    fn mode<'i>(&self, index: &'i Index) -> &'i str {
        index
            .steps()
            .get(self.first)
            .map(|step| index.name(step.mode))
            .unwrap_or_default()
    }
}

fn number(calls: usize) -> &'static str {
    if calls == 2 { "two" } else { "three" }
}

/// One line that fits into a sentence.
fn short(text: &str) -> String {
    let mut chars = text.trim_end_matches('.').chars();
    let head: String = chars.by_ref().take(MAX_CHARS).collect();
    if chars.next().is_some() {
        format!("{head}…")
    } else {
        head
    }
}
