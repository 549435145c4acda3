//! How did each call of a step go, and how long did it take? In as few bytes as the index can keep of it.

use super::step::{Invocation, NO_ANSWER, NOT_RECORDED, Outcome, Step};
use super::{Names, StepHead, Symbol};

/// One call in the index: its tool, how it went and how long it took.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CallMark {
    /// The tool; empty where the call does not name it.
    pub name: Symbol,
    /// How it went.
    pub end: CallEnd,
    /// Milliseconds; infinite where that is not recorded, in half the bytes of an option.
    ms: f32,
}

/// How a call went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallEnd {
    /// Nothing came back yet.
    Open,
    /// What came back does not say.
    Untold,
    /// Well.
    Well,
    /// It failed.
    Failed,
    /// Somebody stopped it, or it was not made.
    Stopped,
}

impl CallMark {
    /// Those of a step, in order.
    pub(super) fn all(step: &Step<'_>, names: &mut Names) -> impl Iterator<Item = Self> {
        step.calls.iter().enumerate().map(|(at, call)| {
            let (result, invocation) = told(step, at);
            let efforts = [
                result.map(|result| &result.effort),
                invocation.map(|invocation| &invocation.effort),
            ];
            let ms = efforts
                .into_iter()
                .flatten()
                .find_map(|effort| effort.latency_ms)
                .filter(|ms| *ms >= 0.0);
            Self {
                name: call
                    .name
                    .as_deref()
                    .map(|name| names.intern(name))
                    .unwrap_or_default(),
                end: CallEnd::of(result, invocation),
                ms: ms.map_or(f32::INFINITY, |ms| ms as f32),
            }
        })
    }

    /// How long it took, in milliseconds.
    pub fn ms(self) -> Option<f32> {
        Some(self.ms).filter(|ms| ms.is_finite())
    }

    /// Whether it went well; `None` where that is not known.
    pub fn is_ok(self) -> Option<bool> {
        self.end.is_ok()
    }
}

impl StepHead {
    /// How many of its calls failed; `None` where it is not known of each how it went.
    pub fn tool_errors(&self) -> Option<u32> {
        let is_told =
            self.fate.is_readable() && self.calls.iter().all(|call| call.is_ok().is_some());
        is_told.then_some(self.failed_calls)
    }
}

impl CallEnd {
    /// Whether it went well; `None` where that is not known.
    pub fn is_ok(self) -> Option<bool> {
        match self {
            CallEnd::Open | CallEnd::Untold => None,
            CallEnd::Well => Some(true),
            CallEnd::Failed | CallEnd::Stopped => Some(false),
        }
    }

    /// How many calls of a step failed, also of those that it does not name.
    pub(super) fn count_failed(step: &Step<'_>) -> u32 {
        let places = 0..step.results.len().max(step.invocations.len());
        let ends = places
            .map(|at| told(step, at))
            .map(|(result, invocation)| Self::of(result, invocation));
        u32::try_from(ends.filter(|end| *end == CallEnd::Failed).count()).unwrap_or(u32::MAX)
    }

    /// By what came back, and by how it was carried out where that is recorded apart.
    pub fn of(result: Option<&Outcome<'_>>, invocation: Option<&Invocation<'_>>) -> Self {
        let stopped = |status: Option<&str>| matches!(status, Some("cancelled" | "skipped"));
        let result_word = result.and_then(|result| result.status.as_deref());
        let word = invocation.and_then(|invocation| invocation.status.as_deref());
        if stopped(result_word) || stopped(word) {
            return CallEnd::Stopped;
        }
        let failed = result.is_some_and(|result| result.has_failed() || result.exit.is_some());
        match (
            failed || invocation.is_some_and(Invocation::has_failed),
            result_word,
        ) {
            (true, _) => CallEnd::Failed,
            (false, Some(NO_ANSWER)) => CallEnd::Open,
            (false, Some(NOT_RECORDED)) => CallEnd::Untold,
            _ if result.is_none() && invocation.is_none() => CallEnd::Open,
            _ => CallEnd::Well,
        }
    }
}

/// What is told of the call at a place.
fn told<'s, 'a>(
    step: &'s Step<'a>,
    at: usize,
) -> (Option<&'s Outcome<'a>>, Option<&'s Invocation<'a>>) {
    (step.results.get(at), step.invocations.get(at))
}
