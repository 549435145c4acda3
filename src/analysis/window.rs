//! Compares the input of model requests with the model's context window.

use super::format;
use super::newest::newest_run;
use super::summary::Summary;
use crate::model::price::Prices;
use crate::model::{Index, StepHead};

/// A model's context window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Window {
    /// Its size in tokens.
    pub tokens: u64,
    /// Whether the size comes from the price list rather than from the trace.
    pub is_listed: bool,
}

/// A request that nearly fills the context window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NearlyFull {
    /// The step.
    pub step: usize,
    /// Its input tokens.
    pub input: u64,
    /// The window.
    pub window: Window,
}

/// A context is nearly full from this percentage of the window.
const FULL: u64 = 80;
/// A request explains an end if it's one of the run's last steps, at most this many.
const LAST: usize = 3;

impl Window {
    /// Returns the window of the model of `step`: recorded, or else listed. A listed window that
    /// is smaller than `largest`, the most input tokens of any request, is wrong for this run, so
    /// the window is unknown.
    pub(crate) fn of(
        index: &Index,
        step: Option<&StepHead>,
        largest: u64,
        prices: Option<&Prices>,
    ) -> Option<Self> {
        let manifest = index.manifest().get();
        if let Some(tokens) = manifest.and_then(|manifest| manifest.context_window) {
            let is_listed = false;
            return Some(Self { tokens, is_listed });
        }
        let of_step = step.map(|step| index.name(step.model));
        let model = of_step
            .filter(|model| !model.is_empty())
            .or_else(|| manifest?.model_of_steps())?;
        let (price, _) = prices?.of(model)?;
        let tokens = price.window.filter(|window| *window >= largest)?;
        Some(Self {
            tokens,
            is_listed: true,
        })
    }

    /// Describes the source of the size if the trace doesn't record it, after a comma.
    pub(crate) fn note(self) -> &'static str {
        if self.is_listed {
            ", window from the price list"
        } else {
            ""
        }
    }
}

impl NearlyFull {
    /// Returns the fullest of the last requests, if the run ended without an answer and the request
    /// nearly filled the window.
    pub(super) fn at_the_end(summary: &Summary, index: &Index) -> Option<Self> {
        if summary.verdict.answered || summary.life.liveness.may_grow() {
            return None;
        }
        let input = |step: &StepHead| step.usage.get().input.unwrap_or_default();
        let largest = newest_run(index).map(|(_, step)| input(step)).max()?;
        let end = index.steps().len();
        let (n, step) = newest_run(index)
            .filter(|(n, _)| n + LAST >= end)
            .max_by_key(|(_, step)| input(step))?;
        let window = Window::of(index, Some(step), largest, summary.prices.as_deref())?;
        let input = input(step);
        let is_full = u128::from(input) * 100 >= u128::from(window.tokens) * u128::from(FULL);
        (is_full && window.tokens > 0).then_some(Self {
            step: n,
            input,
            window,
        })
    }

    /// Describes it without a full stop: `Context 92% full at step 41: 184k of 200k tokens`.
    pub(super) fn words(self, index: &Index) -> String {
        format!(
            "Context {} full at step {}: {} of {} tokens{}",
            format::percent(self.input, self.window.tokens),
            index.label(self.step),
            format::tokens(self.input),
            format::tokens(self.window.tokens),
            self.window.note(),
        )
    }
}
