//! The parameters of a scores page, and its addresses.

use crate::page::part::href;
use crate::page::scores::plot::VisibleRange;

/// The parameters of a scores page.
#[derive(Debug, Clone, Default)]
pub(crate) struct Query {
    /// The threshold as typed. May be empty.
    pub threshold: String,
    /// The critic that the threshold is for. Empty for all critics.
    pub critic: String,
    /// The table ends before this step. By default it shows the last steps.
    pub before: Option<usize>,
    /// The visible part of the axis, in steps or in percent of the run.
    pub from: Option<usize>,
    pub to: Option<usize>,
    /// The current step of the other tabs, which this page ignores.
    pub step: Option<usize>,
}

impl Query {
    /// Returns the threshold, if it is a number.
    pub(crate) fn threshold(&self) -> Option<f64> {
        self.threshold
            .trim()
            .parse()
            .ok()
            .filter(|number: &f64| number.is_finite())
    }

    /// Returns whether the typed threshold isn't a number.
    pub(crate) fn is_wrong(&self) -> bool {
        !self.threshold.trim().is_empty() && self.threshold().is_none()
    }

    /// Returns the threshold that applies to a critic.
    pub(crate) fn threshold_of(&self, critic: &str) -> Option<f64> {
        self.threshold()
            .filter(|_| self.critic.is_empty() || self.critic == critic)
    }

    /// Returns the visible part of an axis from 0 to `end`: the requested range, or the whole axis.
    pub(crate) fn visible(&self, end: f64) -> VisibleRange {
        VisibleRange::new(self.from, self.to, end).unwrap_or(VisibleRange::WHOLE)
    }

    /// Returns whether the requested range has fewer than two of the run's steps.
    pub(crate) fn is_empty_range(&self, steps: usize) -> bool {
        VisibleRange::new(self.from, self.to, steps.saturating_sub(1) as f64).is_none()
    }

    /// Returns why the requested range has fewer than two of the run's steps, if so.
    pub(crate) fn empty_range(&self, steps: usize) -> Option<String> {
        if steps == 0 || !self.is_empty_range(steps) {
            return None;
        }
        let last = steps.saturating_sub(1);
        let typed = [self.from, self.to].into_iter().flatten();
        Some(match (self.from, self.to) {
            (Some(from), Some(to)) if from > to => {
                "The first step must come before the last.".to_owned()
            }
            _ if typed.max() > Some(last) => format!("The run's last step is {last}."),
            _ => "Choose at least two steps.".to_owned(),
        })
    }

    /// Returns the address of `path` with these parameters and others.
    pub(crate) fn address(&self, path: &str, others: &[(&str, &str)]) -> String {
        let [before, from, to, step] = [self.before, self.from, self.to, self.step]
            .map(|at| at.map(|at| at.to_string()).unwrap_or_default());
        let fields = [
            ("threshold", self.threshold.as_str()),
            ("critic", &self.critic),
            ("before", &before),
            ("from", &from),
            ("to", &to),
            ("step", &step),
        ];
        href::with_query(path, &[&fields[..], others].concat())
    }
}
