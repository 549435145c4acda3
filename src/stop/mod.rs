//! Decides when a run stops: rules over recorded facts, checked at three gates of every step.
//!
//! The engine calls [`StopSet::check`] to stop a run, and board's What-if page evaluates the same
//! code over recorded facts, so the recorded rules give the recorded verdict. Rules read no clock:
//! times are facts, too.
//!
//! # Order
//!
//! | gate | checked, in this order |
//! |---|---|
//! | `before_step` | ends that no rule causes, such as cancellation or a failure; the budget (steps, time, tokens); policies of this gate |
//! | `after_decide` | ends that no rule causes; policies of this gate, unless the decision is a candidate answer |
//! | `after_step` | immediate ends that no rule causes; critics; completion rules, the agent and the environment, unless a critic asks for a retry or the step failed; cancellation after the step; policies of this gate and those that waited for the answer to be judged |
//!
//! Within a list, the first rule that stops wins. All other rules that would have stopped are
//! listed in [`StopVerdict::also`]. A limit never discards an answer: a candidate answer is judged
//! first, and a limit reached at the same time is listed in `also`. A limit of 0 switches a policy
//! off. In the [`Budget`], a limit of 0 allows nothing to run.
//!
#![doc = include_str!("RULES.md")]
//!
//! This table is generated from the code. A rule that it lacks is a [`StopCriterion`],
//! a custom rule.

// Depends on `model` only: no files, no clock, no engine.

mod args;
mod budget;
mod build;
mod check;
mod custom;
mod entry;
mod facts;
mod line;
mod record;
mod rules;
#[cfg(feature = "board")]
mod schema;
mod set;
mod spec;
mod stats;
#[cfg(test)]
mod table;
mod text;

pub use crate::model::end::{
    Budget, Code, Evidence, Gate, Limit, Measured, Op, Origin, Outcome, Phase, Reading, Source,
    StopVerdict,
};
pub use crate::model::recorded::text_hash;
pub use args::SpecError;
pub(crate) use budget::{BUDGETS, BudgetRow, budget_of, counts, label};
pub use build::StopSetBuilder;
pub use check::Check;
pub use custom::{CriterionError, SchemaCheck, SchemaCompiler, SchemaMiss, StopCriterion, StopCx};
pub(crate) use entry::{Ask, Entry};
pub use facts::{
    CriticFact, CriticWish, Forced, GateSet, OpaqueAnswer, StepError, StepFacts, Text, Usage,
};
pub use line::LineFacts;
pub use record::{EntryRule, RuleEntry, StopRules};
pub use rules::*;
pub use set::{Refusal, Ruling, StopSet, Unknown};
pub(crate) use stats::waited_for_people;
#[cfg(feature = "board")]
pub(crate) use stats::without_noise;
pub use stats::{Below, Cost, Stats, Streak, Took};

#[cfg(test)]
pub(crate) mod tests;
