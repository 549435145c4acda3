//! Summarizes the outcome and duration of each tool call in the few bytes that the index can
//! afford.

use std::borrow::Cow;
use std::num::NonZeroU64;

use serde::{Deserialize, Serialize};

use super::fingerprint::of_line;
use super::json::walk;
use super::step::{Call, Invocation, NO_ANSWER, NOT_RECORDED, Outcome, Step};
use super::{Names, Symbol};

/// A tool call in the index: its tool, its outcome and its duration.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct CallMark {
    /// The tool, or the empty symbol if the call doesn't name it.
    pub name: Symbol,
    /// The outcome.
    pub end: CallEnd,
    /// Milliseconds, or infinity if not recorded. This takes half the bytes of an `Option`.
    ms: f32,
    /// A hash of the command that the call runs in a shell, if it runs one. Commands that differ
    /// only in white space have the same.
    pub command: Option<NonZeroU64>,
}

/// The outcome of a tool call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum CallEnd {
    /// No result yet.
    Open,
    /// A result is recorded, but not whether the call succeeded.
    Unknown,
    /// Succeeded.
    Succeeded,
    /// Failed.
    Failed,
    /// Cancelled, or skipped.
    Stopped,
}

impl CallMark {
    /// Returns the marks of a step's calls, in order.
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
                command: call
                    .command()
                    .and_then(|command| NonZeroU64::new(of_line(on_one_line(&command).as_bytes()))),
            }
        })
    }

    /// Returns the duration in milliseconds, if recorded.
    pub fn ms(self) -> Option<f32> {
        Some(self.ms).filter(|ms| ms.is_finite())
    }

    /// Returns whether the call succeeded, or `None` if unknown.
    pub fn is_ok(self) -> Option<bool> {
        self.end.is_ok()
    }
}

impl CallEnd {
    /// Returns whether the call succeeded, or `None` if unknown.
    pub fn is_ok(self) -> Option<bool> {
        match self {
            CallEnd::Open | CallEnd::Unknown => None,
            CallEnd::Succeeded => Some(true),
            CallEnd::Failed | CallEnd::Stopped => Some(false),
        }
    }

    /// Returns the outcome of the call at this position of a step.
    pub(super) fn at(step: &Step<'_>, at: usize) -> Self {
        let (result, invocation) = told(step, at);
        Self::of(result, invocation)
    }

    /// Counts the failed calls of a step, including results without a matching call.
    pub(super) fn count_failed(step: &Step<'_>) -> u32 {
        let places = 0..step.results.len().max(step.invocations.len());
        let ends = places
            .map(|at| told(step, at))
            .map(|(result, invocation)| Self::of(result, invocation));
        u32::try_from(ends.filter(|end| *end == CallEnd::Failed).count()).unwrap_or(u32::MAX)
    }

    /// Derives the outcome from the result, and from the invocation where the trace records one
    /// separately.
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
            (false, Some(NOT_RECORDED)) => CallEnd::Unknown,
            _ if result.is_none() && invocation.is_none() => CallEnd::Open,
            _ => CallEnd::Succeeded,
        }
    }
}

impl Call<'_> {
    /// Returns the command that the call runs in a shell: its argument `command` or `cmd`, a text
    /// or a list of words, or `commands`, a list of commands that run one after the other.
    pub(crate) fn command(&self) -> Option<Cow<'_, str>> {
        /// What editors take as their `command`.
        const EDITS: [&str; 5] = ["view", "create", "str_replace", "insert", "undo_edit"];
        let args = self.args?;
        let (key, value) = walk::members(args.text)
            .find(|(key, _)| matches!(*key, "\"command\"" | "\"cmd\"" | "\"commands\""))?;
        if let Some(text) = walk::string(value) {
            let is_command = !text.trim().is_empty() && !EDITS.contains(&&*text);
            return is_command.then_some(text);
        }
        let words: Vec<Cow<'_, str>> = walk::items(value).map_while(walk::string).collect();
        match words.as_slice() {
            [] => None,
            commands if key == "\"commands\"" => Some(commands.join("; ").into()),
            // `["bash", "-lc", "make"]`
            [_, flags, command] if flags.starts_with('-') && flags.ends_with('c') => {
                Some(command.clone())
            }
            words => Some(words.join(" ").into()),
        }
    }
}

/// Returns a command with each run of white space as one space.
pub(super) fn on_one_line(command: &str) -> String {
    let mut line = String::with_capacity(command.len());
    for word in command.split_whitespace() {
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    line
}

/// Returns the result and the invocation of the call at `at`.
fn told<'s, 'a>(
    step: &'s Step<'a>,
    at: usize,
) -> (Option<&'s Outcome<'a>>, Option<&'s Invocation<'a>>) {
    (step.results.get(at), step.invocations.get(at))
}
