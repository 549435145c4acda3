//! Evaluates stop rules over the recorded steps of a run, with the totals and checks of the live
//! engine.
//!
//! | function | answers |
//! |---|---|
//! | [`replay()`], [`replay_from`] | where a set of rules stops the run |
//! | [`survey`] | the state of every rule at one point |
//! | [`first_stops`] | where each rule stops the run, evaluated independently |
//! | [`course()`] | the totals after each step |
//!
//! Executes nothing, and reads no lines: the facts of the steps come from outside.

mod course;
mod first;
mod replay;
#[cfg(test)]
mod tests;

pub use course::{Counted, course};
pub use first::{FirstStop, Firsts, Stopped, Tally, first_stops};
pub use replay::{RuleReading, WhatIf, replay, replay_from, survey};
