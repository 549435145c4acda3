//! Which rule is behind a stop word? QitOS gives one word to its budget and to a criterion that counts the same; which of
//! them it was shows in the stop check, in the END event and in the numbers, or it is not known.

use super::{last_mode, tokens};
use crate::analysis::facts::lost;
use crate::analysis::newest::{after_the_end, newest_run, took_ms};
use crate::model::event::StopNote;
use crate::model::index::is_same_total;
use crate::model::{Agreement, Can, Index, Op, Reading, Stated, StopReason};

/// What is behind the stop word of a run that records no verdict.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::analysis) enum Cause<'a> {
    /// What the word itself names: an answer, a critic, the environment, an error.
    Named,
    /// The budget.
    Budget,
    /// A criterion of the list.
    Criterion(Criterion<'a>),
    /// No file says which rule, or the numbers refute the one that the word names.
    NotRecorded,
}

/// A criterion, by what it says of itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::analysis) struct Criterion<'a> {
    /// Which of QitOS's own it is; `None` for any other.
    pub(in crate::analysis) own: Option<Own>,
    /// Its words.
    pub(in crate::analysis) words: &'a str,
}

/// The criteria that QitOS brings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::analysis) enum Own {
    /// Steps by their ids.
    Steps,
    /// Time by a clock of its own.
    Time,
    /// Tokens.
    Tokens,
    /// Steps in a row in which a signature did not change.
    Stagnation,
    /// A final result in the state.
    Result,
}

impl Criterion<'_> {
    /// What it compared, by its own words; `None` where they hold no number.
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

/// The numbers of a criterion's words, `elapsed=0.840s >= max_runtime_seconds=0.700s` or `stagnant_steps=3`, and
/// whether they are seconds.
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

/// What is behind `word`, with which the newest run ended.
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
    // An agent may have set the word itself, whatever then stopped the run: a final decision, its own condition, the
    // environment or a criterion without words.
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
    // The budget is asked before a step and ends the run as one that did not go well; a criterion's end is in order.
    let ended_ok = index
        .segment()
        .and_then(|segment| segment.end.as_ref())
        .map(|(.., ok)| *ok);
    match (Spent::of(index, reason).is_used_up(), ended_ok) {
        (Some(false), _) | (_, Some(true)) | (None, None) => Cause::NotRecorded,
        (Some(true), _) | (None, Some(false)) => Cause::Budget,
    }
}

/// The criterion that ended the newest run with `word`, and its event. Only criteria put words into the stop check.
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

/// What the stop check said that ended the newest run with `word`.
fn checked<'a>(index: &'a Index, word: &str) -> Option<&'a StopNote> {
    let (_, stop) = index.segment()?.stop.as_ref()?;
    Some(stop).filter(|stop| stop.reason.as_deref() == Some(word))
}

/// One limit of the task's budget, and what was used of it, as far as the files tell.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::analysis) struct Spent {
    /// What was used: steps, milliseconds, tokens.
    pub(in crate::analysis) measured: Option<f64>,
    /// How it is compared.
    pub(in crate::analysis) op: Op,
    /// The limit, as records state it.
    pub(in crate::analysis) limit: Agreement<f64>,
}

impl Spent {
    /// The limit that `reason` names; without numbers for any other reason.
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

    /// How much of the limit that `reason` names was used before the last step began, if that was all of it. The budget is
    /// asked before each step, so that a run under this limit had no such step.
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

    /// Whether the limit was reached; `None` without both numbers, or where records state one limit that was and one that
    /// was not.
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

/// How long the newest run had taken when its last step began, in milliseconds.
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

/// How many steps ran, where each of them has its line.
fn counted_steps(index: &Index) -> Option<f64> {
    let (first, manifest, segment) = (
        index.newest_start(),
        index.manifest().get(),
        index.segment(),
    );
    // Steps without a line ran, and their number is not the file's; a round that an exception cut was none.
    let ended = segment.is_some_and(|segment| segment.end.is_some())
        || manifest.is_some_and(|manifest| manifest.is_final());
    // The round in which a run died, or that is under way, is no step yet.
    let begun = segment.map_or(0, |segment| {
        index.groups().len().saturating_sub(segment.first_group + 1)
    });
    let whole = if ended {
        lost(index).is_none()
    } else {
        begun <= index.newest_len()
    };
    // A line that no round belongs to was no step, or one that nobody can tell from it.
    let odd =
        !index.is_disordered() && (first..index.steps().len()).any(|n| index.group_of(n).is_none());
    let odd = odd && segment.is_some_and(|segment| segment.first_group < index.groups().len());
    (whole && !odd).then(|| index.newest_len().saturating_sub(after_the_end(index)) as f64)
}
