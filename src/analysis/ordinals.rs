//! Describes the ordinals of a run with skipped steps.
//!
//! The ordinal of a step is its position among the steps that the index keeps. A run with skipped
//! steps has fewer ordinals than steps.

use super::format::count;
use crate::model::Index;

/// Describes how many steps a run has and which ordinals exist: `400,000 steps (board
/// keeps 124,400, numbered 0 to 124,399)`. Returns `None` if board keeps all steps, or none.
pub(crate) fn kept_of_all(index: &Index) -> Option<String> {
    let (kept, all) = (index.steps().len(), index.step_count());
    let last = kept.checked_sub(1).filter(|_| kept < all)?;
    let [kept, all, last] = [kept, all, last].map(|number| count(number as u64));
    Some(format!(
        "{all} steps (board keeps {kept}, numbered 0 to {last})"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Delta, Fate, StepHead};

    #[test]
    fn kept_and_recorded_steps_are_counted_separately() {
        let index = |void: usize| {
            let steps = (0..void)
                .map(|_| StepHead {
                    fate: Fate::Unreadable,
                    ..StepHead::default()
                })
                .collect();
            let mut index = Index::default();
            index.apply(Delta {
                steps,
                ..Delta::default()
            });
            index
        };
        assert_eq!(
            (kept_of_all(&index(0)), kept_of_all(&index(3))),
            (None, None)
        );
        let words = "1,000 steps (board keeps 17, numbered 0 to 16)";
        assert_eq!(kept_of_all(&index(1_000)).as_deref(), Some(words));
    }
}
