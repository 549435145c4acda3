//! Completes the end of a run from its limits and totals, for all tools. A record of the end often
//! names a limit without its value, and other records of the run have it.

use crate::model::{Fact, Manifest};

/// Clears the token counts on which the statements of the run disagree. They are unknown.
pub(super) fn dispute(run: &mut Manifest) {
    let differ = |unit: &str| {
        let mut stated = run
            .statements
            .iter()
            .filter(|stated| matches!(stated.fact, Fact::Total(of) if of == unit));
        let first = stated.next().map(|first| &first.said);
        first.is_some_and(|first| stated.any(|other| other.said != *first))
    };
    let [input, output, cached] = ["tokens_in", "tokens_out", "tokens_cached"].map(differ);
    run.usage.input = run.usage.input.filter(|_| !input);
    run.usage.output = run.usage.output.filter(|_| !output);
    run.usage.cached = run.usage.cached.filter(|_| !cached);
}

/// Completes the recorded end from the limits and the totals of the run.
pub(super) fn settle(run: &mut Manifest) {
    let (tokens, cost) = (run.tokens, run.cost_usd.filter(|_| !run.cost_estimated));
    let spent = |unit: &str| match unit {
        "tokens" => tokens.map(|tokens| tokens as f64),
        "usd" => cost,
        _ => None,
    };
    if let Some(ended) = &mut run.ended {
        ended.settle(&run.limits, spent);
    }
}
