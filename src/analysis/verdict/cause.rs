//! Determines which rule caused a stop word. QitOS uses the same word for its budget and for a
//! criterion that counts the same thing. The stop check, the END event and the numbers show which
//! of them it was. Otherwise it's unknown.

use super::{last_mode, tokens};
use crate::analysis::facts::lost;
use crate::analysis::newest::{after_the_end, newest_run, took_ms};
use crate::model::event::StopNote;
use crate::model::index::is_same_total;
use crate::model::{Agreement, Can, Index, Op, Reading, Stated, StopReason};

/// The cause of the stop word of a run that records no verdict.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::analysis) enum Cause<'a> {
    /// The word itself names it: an answer, a critic, the environment, an error.
    Named,
    /// The budget.
    Budget,
    /// A criterion in the list.
    Criterion(Criterion<'a>),
    /// No file records which rule, or the numbers refute the rule that the word names.
    NotRecorded,
}

/// A criterion, as described by its own words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::analysis) struct Criterion<'a> {
    /// The built-in criterion of QitOS; `None` for any other.
    pub(in crate::analysis) own: Option<Own>,
    /// Its wording.
    pub(in crate::analysis) words: &'a str,
}

/// The built-in criteria of QitOS.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::analysis) enum Own {
    /// Steps, by their ids.
    Steps,
    /// Time, on the criterion's own clock.
    Time,
    /// Tokens.
    Tokens,
    /// Consecutive steps in which a signature didn't change.
    Stagnation,
    /// A final result in the state.
    Result,
}

impl Criterion<'_> {
    /// Returns what the criterion compared, parsed from its words. `None` if they contain no
    /// number.
    pub(in crate::analysis) fn reading(&self) -> Option<Reading> {
        let own = self.own?;
        let (measured, limit, is_seconds) = compared(self.words)?;
        let scale = if is_seconds { 1e3 } else { 1.0 };
        let unit = match own {
            Own::Steps => "steps",
            Own::Time => "ms",
            Own::Tokens => "tokens",
            Own::Stagnation => "equal signatures",
            Own::Result => "",
        };
        let number = |value: f64| serde_json::Number::from_f64(value * scale);
        let limit = limit.and_then(number);
        Some(Reading {
            measured: number(measured),
            limit,
            op: Some(Op::AtLeast),
            unit: unit.into(),
            ..Reading::default()
        })
    }
}

/// Parses the numbers in a criterion's words, such as `elapsed=0.840s >=
/// max_runtime_seconds=0.700s` or `stagnant_steps=3`. Also returns whether they're seconds.
fn compared(detail: &str) -> Option<(f64, Option<f64>, bool)> {
    let number = |side: &str| {
        let value = side.split_once('=')?.1.trim();
        value
            .strip_suffix('s')
            .unwrap_or(value)
            .parse::<f64>()
            .ok()
            .filter(|value| value.is_finite())
    };
    let sides = [" >= ", " > ", " reached "]
        .into_iter()
        .find_map(|op| detail.split_once(op));
    match sides {
        Some((measured, limit)) => Some((
            number(measured)?,
            Some(number(limit)?),
            measured.trim().ends_with('s'),
        )),
        None => Some((number(detail)?, None, detail.trim().ends_with('s'))),
    }
}

impl Own {
    /// Recognises the words of a criterion.
    fn of(words: &str) -> Option<Self> {
        match words.split_once('=') {
            Some(("step_id", rest)) if rest.contains(" reached max_steps=") => Some(Own::Steps),
            Some(("elapsed", rest)) if rest.contains(" >= max_runtime_seconds=") => Some(Own::Time),
            Some(("total_tokens", rest)) if rest.contains(" >= max_tokens=") => Some(Own::Tokens),
            Some(("stagnant_steps", _)) => Some(Own::Stagnation),
            None if words == "state.final_result is set" => Some(Own::Result),
            _ => None,
        }
    }
}

/// Determines the cause of `word`, with which the newest run ended.
pub(in crate::analysis) fn cause<'a>(index: &'a Index, word: &str) -> Cause<'a> {
    let reason = StopReason::parse(word);
    let limit = matches!(
        reason,
        StopReason::BudgetSteps | StopReason::BudgetTime | StopReason::BudgetTokens
    );
    if let Some((_, criterion)) = criterion(index, word) {
        return Cause::Criterion(criterion);
    }
    let checked = checked(index, word);
    // An agent may have set the word itself, whatever then stopped the run: a final decision, its
    // own condition, the environment, or a criterion without words.
    if reason == StopReason::Stagnation
        || checked.is_some() && (limit || reason == StopReason::MaxSteps)
    {
        return Cause::NotRecorded;
    }
    if reason == StopReason::Final && last_mode(index).is_some_and(|mode| mode != "final") {
        return Cause::NotRecorded;
    }
    if !limit {
        return Cause::Named;
    }
    // The budget is checked before a step, and its END event is not `ok`. That of a criterion is.
    let ended_ok = index
        .segment()
        .and_then(|segment| segment.end.as_ref())
        .map(|(.., ok)| *ok);
    match (Spent::of(index, reason).is_used_up(), ended_ok) {
        (Some(false), _) | (_, Some(true)) | (None, None) => Cause::NotRecorded,
        (Some(true), _) | (None, Some(false)) => Cause::Budget,
    }
}

/// Returns the criterion that ended the newest run with `word`, and the index of its event. Only
/// criteria add words to the stop check.
pub(in crate::analysis) fn criterion<'a>(
    index: &'a Index,
    word: &str,
) -> Option<(usize, Criterion<'a>)> {
    let (at, _) = index.segment()?.stop.as_ref()?;
    let words = checked(index, word)?
        .detail
        .as_deref()
        .filter(|words| !words.is_empty())?;
    Some((
        *at,
        Criterion {
            own: Own::of(words),
            words,
        },
    ))
}

/// Returns the stop check that ended the newest run with `word`.
fn checked<'a>(index: &'a Index, word: &str) -> Option<&'a StopNote> {
    let (_, stop) = index.segment()?.stop.as_ref()?;
    Some(stop).filter(|stop| stop.reason.as_deref() == Some(word))
}

/// A limit of the task's budget and how much of it was used, as far as the files record it.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::analysis) struct Spent {
    /// The usage, in steps, milliseconds or tokens.
    pub(in crate::analysis) measured: Option<f64>,
    /// The comparison.
    pub(in crate::analysis) op: Op,
    /// The limit, as stated by the records.
    pub(in crate::analysis) limit: Agreement<f64>,
}

impl Spent {
    /// Returns the limit that `reason` names. Has no numbers for any other reason.
    pub(in crate::analysis) fn of(index: &Index, reason: StopReason) -> Self {
        let of = |measured, op, unit| Self {
            measured,
            op,
            limit: index.limit(unit),
        };
        match reason {
            StopReason::BudgetSteps => of(counted_steps(index), Op::AtLeast, "steps"),
            StopReason::BudgetTime => of(took_ms(index), Op::Above, "ms"),
            StopReason::BudgetTokens => of(
                tokens(index).map(|tokens| tokens as f64),
                Op::AtLeast,
                "tokens",
            ),
            _ => Self {
                measured: None,
                op: Op::AtLeast,
                limit: Agreement::Unknown,
            },
        }
    }

    /// Returns how much of the limit that `reason` names was used before the last step began, if
    /// that was all of it. The budget is checked before each step, so under this limit the last
    /// step wouldn't have run.
    pub(in crate::analysis) fn overrun(index: &Index, reason: StopReason) -> Option<f64> {
        let spent = Self::of(index, reason);
        let limit = *spent.limit.agreed()?;
        let is_whole = index.newest_segments().len() <= 1
            && index.format().can.facts != Can::Yes
            && !index.is_partial();
        if !is_whole || index.format().is_one_file() || index.is_disordered() {
            return None;
        }
        let used = match reason {
            StopReason::BudgetSteps => spent
                .measured
                .map(|steps| steps - 1.0)
                .filter(|steps| *steps >= 0.0),
            StopReason::BudgetTokens => {
                let before = newest_run(index).rev().nth(after_the_end(index) + 1);
                before
                    .and_then(|(_, step)| step.tokens_total)
                    .map(|tokens| tokens as f64)
            }
            StopReason::BudgetTime => {
                time_before_the_last(index).filter(|used| !is_same_total("ms", *used, limit))
            }
            _ => None,
        };
        used.filter(|used| spent.op.holds(*used, limit))
    }

    /// Returns whether the limit was reached. `None` if a number is missing, or if records state
    /// both a limit that was reached and one that wasn't.
    pub(in crate::analysis) fn is_used_up(&self) -> Option<bool> {
        let stated = match &self.limit {
            Agreement::Unknown => return None,
            Agreement::Agreed(stated) | Agreement::Disputed(stated) => stated,
        };
        let measured = self.measured?;
        let is_reached = |stated: &Stated<f64>| self.op.holds(measured, stated.value);
        match (stated.iter().all(is_reached), stated.iter().any(is_reached)) {
            (true, _) => Some(true),
            (_, false) => Some(false),
            _ => None,
        }
    }
}

/// Returns how long the newest run had taken when its last step began, in milliseconds.
fn time_before_the_last(index: &Index) -> Option<f64> {
    let segment = index
        .segment()
        .filter(|segment| segment.goes_back.is_none())?;
    let begun = index.events().get(segment.init.as_ref()?.0)?.ts?;
    let ended = segment.end.as_ref().map_or(usize::MAX, |(at, ..)| *at);
    let last = index
        .groups()
        .iter()
        .rev()
        .find(|group| group.first < ended)?;
    Some((last.started.filter(|_| last.first >= segment.first_event)? - begun) as f64 / 1e3)
}

/// Returns the number of steps that ran, if each of them has a line.
fn counted_steps(index: &Index) -> Option<f64> {
    let (first, manifest, segment) = (
        index.newest_start(),
        index.manifest().get(),
        index.segment(),
    );
    // Steps without a line ran too, so the file doesn't show their number. A round cut short by an
    // exception wasn't a step.
    let ended = segment.is_some_and(|segment| segment.end.is_some())
        || manifest.is_some_and(|manifest| manifest.is_final());
    // The round that is running, or in which a run died, isn't a step yet.
    let begun = segment.map_or(0, |segment| {
        index.groups().len().saturating_sub(segment.first_group + 1)
    });
    let whole = if ended {
        lost(index).is_none()
    } else {
        begun <= index.newest_len()
    };
    // A line without a round either wasn't a step or can't be distinguished from one.
    let odd =
        !index.is_disordered() && (first..index.steps().len()).any(|n| index.group_of(n).is_none());
    let odd = odd && segment.is_some_and(|segment| segment.first_group < index.groups().len());
    (whole && !odd).then(|| index.newest_len().saturating_sub(after_the_end(index)) as f64)
}
