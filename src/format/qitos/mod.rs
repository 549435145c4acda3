//! Reads runs that are a directory of three files: those of QitOS, whose three layouts all call
//! themselves `v1`, and those of board's engine.

mod event;
mod layout;
mod manifest;
mod step;

pub(crate) use event::event;
#[cfg(test)]
pub(crate) use event::kind as event_kind;
pub use event::read as event_head;
#[cfg(feature = "board")]
pub(crate) use layout::named as directory_format;
pub use manifest::read as manifest;
pub use step::head as step_head;
pub(crate) use step::read as step;
pub(super) use step::{critics, outcome_of};
