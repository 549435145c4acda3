//! Reports impossible figures, each once per step or run. Must not know the format of a record.

use crate::format::Part;
use crate::model::{Issue, IssueKind, Manifest, TraceFile};

const CACHE: &str = "more cached tokens than input tokens are recorded";
const COST: &str = "the cost is negative, so it is ignored";

/// The issues that were reported so far.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Said {
    cache: bool,
    cost: bool,
    pub(super) offset: bool,
    pub(super) time: bool,
    pub(super) repairs: bool,
}

/// Returns the issues of a step that weren't reported yet. Clears a negative cost.
pub(super) fn of_part(part: &mut Part, said: &mut Said) -> Vec<&'static str> {
    let tokens = part.tokens.unwrap_or_default();
    said.of(is_impossible(tokens.cached, tokens.input), &mut part.cost)
}

/// Returns the issues of a run's totals in the same way.
pub(super) fn of_totals(run: &mut Manifest, said: &mut Said) -> Vec<Issue> {
    let (kind, file) = (IssueKind::Field, TraceFile::Manifest);
    let odd = said
        .of(
            is_impossible(run.usage.cached, run.usage.input),
            &mut run.cost_usd,
        )
        .into_iter();
    odd.map(|reason| Issue {
        kind,
        file,
        line: None,
        offset: None,
        reason: reason.to_owned(),
    })
    .collect()
}

impl Said {
    fn of(&mut self, has_odd_cache: bool, cost: &mut Option<f64>) -> Vec<&'static str> {
        let has_odd_cost = cost.take_if(|cost| *cost < 0.0).is_some();
        let odd = [
            (has_odd_cache, &mut self.cache, CACHE),
            (has_odd_cost, &mut self.cost, COST),
        ];
        odd.into_iter()
            .filter_map(|(is, said, reason)| {
                (is && !std::mem::replace(said, true)).then_some(reason)
            })
            .collect()
    }
}

/// Returns whether there are more cached tokens than input tokens.
fn is_impossible(cached: Option<u64>, read: Option<u64>) -> bool {
    cached.zip(read).is_some_and(|(cached, read)| cached > read)
}
