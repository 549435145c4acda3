//! Reads the words of the criterion that ended a run of QitOS.

use crate::model::event::StopNote;
use crate::model::{Index, Op, Reading};

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
    /// Recognizes the words of a criterion.
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
pub(super) fn checked<'a>(index: &'a Index, word: &str) -> Option<&'a StopNote> {
    let (_, stop) = index.segment()?.stop.as_ref()?;
    Some(stop).filter(|stop| stop.reason.as_deref() == Some(word))
}
