//! Compares the input of model requests with the model's context window.

use super::format;
use super::newest::newest_run;
use super::summary::Summary;
use crate::model::price::{PriceSource, Prices};
use crate::model::{Index, StepHead};

/// A model's context window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Window {
    /// Its size in tokens.
    pub tokens: u64,
    /// Where the size comes from.
    pub source: WindowSource,
}

/// Where the size of a context window comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WindowSource {
    /// The trace records it.
    Recorded,
    /// The model's name selects it: `claude-sonnet-4-5[1m]`.
    Named,
    /// The price list has it.
    Listed,
    /// The model also has a larger window, which must be turned on.
    Default,
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
/// The end of a model's name with which Claude Code requests a window of [`LONG_TOKENS`].
const LONG: &str = "[1m]";
const LONG_TOKENS: u64 = 1_000_000;
/// The smaller of the two windows of a Claude 4.
const CLAUDE_TOKENS: u64 = 200_000;

impl Window {
    /// Returns the window of the model of `step`: recorded, or else that of the model. A listed
    /// window that is smaller than `largest`, the most input tokens of any request, is wrong for this
    /// run, so the window is unknown. It's also unknown if the model may have been used with either
    /// of two windows.
    pub(crate) fn of(
        index: &Index,
        step: Option<&StepHead>,
        largest: u64,
        prices: Option<&Prices>,
    ) -> Option<Self> {
        let manifest = index.manifest().get();
        if let Some(tokens) = manifest.and_then(|manifest| manifest.context_window) {
            let source = WindowSource::Recorded;
            return Some(Self { tokens, source });
        }
        let of_step = step.map(|step| index.name(step.model));
        let model = of_step
            .filter(|model| !model.is_empty())
            .or_else(|| manifest?.model_of_steps())?;
        if model.ends_with(LONG) {
            let (tokens, source) = (LONG_TOKENS, WindowSource::Named);
            return Some(Self { tokens, source });
        }
        let (price, from) = prices?.of(model)?;
        let listed = price.window.filter(|window| *window >= largest)?;
        let is_large = listed > CLAUDE_TOKENS && largest <= CLAUDE_TOKENS;
        let has_two = is_large && from == PriceSource::List && is_claude_4(model);
        // Requests beyond the smaller window cost more, so it's what a request gets.
        let is_priced_apart = price.tiers.iter().any(|tier| tier.above == CLAUDE_TOKENS);
        let (tokens, source) = match has_two {
            true if is_priced_apart => (CLAUDE_TOKENS, WindowSource::Default),
            true => return None,
            false => (listed, WindowSource::Listed),
        };
        Some(Self { tokens, source })
    }

    /// Describes the source of the size if the trace doesn't record it, after a comma.
    pub(crate) fn note(self) -> &'static str {
        match self.source {
            WindowSource::Recorded => "",
            WindowSource::Named => ", window from the model's name",
            WindowSource::Listed => ", window from the price list",
            WindowSource::Default => ", the model's default window",
        }
    }
}

/// Returns whether a model is a Claude 4. Their programs turn on a window of 1M tokens for some users,
/// and don't record it with each reply. Later models have no smaller window.
fn is_claude_4(model: &str) -> bool {
    let model = model.to_ascii_lowercase();
    ["opus", "sonnet", "haiku"].iter().any(|family| {
        let version = model.split_once(family).map(|(_, version)| version);
        version.is_some_and(|version| version.starts_with("-4") || version.starts_with(" 4"))
    })
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
