//! How do the scores of critics look? A lane for each critic of one run, and the lines of several runs over each other.

pub mod overlay;
pub mod plot;
