//! Says what a timeline shows, as its address does.

use crate::page::params::Params;
use crate::page::part::href;

/// What a timeline shows, as its address says.
#[derive(Debug, Clone, Default)]
pub(crate) struct Shown {
    /// The current step.
    pub step: Option<usize>,
    /// The visible times, in seconds since the start of the run.
    pub from: Option<f64>,
    pub to: Option<f64>,
    /// Whether long waits have their real width.
    pub has_whole_waits: bool,
    /// Whether the steps are listed.
    pub has_table: bool,
}

impl Shown {
    pub(crate) fn of(params: &Params, step: Option<usize>) -> Self {
        let seconds = |name| {
            let seconds: Option<f64> = params.text(name).parse().ok();
            seconds.filter(|seconds| seconds.is_finite())
        };
        Self {
            step,
            from: seconds("from"),
            to: seconds("to"),
            has_whole_waits: params.text("waits") == "whole",
            has_table: params.text("table") == "1",
        }
    }

    /// Whether this is the whole run, so that it may be updated in place.
    pub(crate) fn is_whole(&self) -> bool {
        self.step.is_none()
            && self.from.is_none()
            && self.to.is_none()
            && !self.has_whole_waits
            && !self.has_table
    }

    pub(super) fn address(&self, key: &str) -> String {
        let seconds = |seconds: Option<f64>| seconds.map(|at| at.to_string()).unwrap_or_default();
        let step = self.step.map(|n| n.to_string()).unwrap_or_default();
        let query = [
            ("tab", "timeline"),
            ("step", &*step),
            ("from", &seconds(self.from)),
            ("to", &seconds(self.to)),
            ("waits", if self.has_whole_waits { "whole" } else { "" }),
            ("table", if self.has_table { "1" } else { "" }),
        ];
        href::with_query(&href::run(key), &query)
    }
}
