//! Says how a turn of a session ended.

use std::ops::Range;

use super::run_result::ShownStatus;
use crate::model::Index;

/// How a turn ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TurnEnd {
    /// Its last step called no tool.
    Answered,
    Interrupted,
    Cancelled,
    Error,
    /// The next prompt came after a tool call.
    NoAnswer,
    /// The run ended with it.
    Run(ShownStatus),
}

impl TurnEnd {
    /// Returns how a turn ended before the next prompt. What a sub-agent did last doesn't count.
    pub(crate) fn of(index: &Index, turn: Range<usize>, is_interrupted: bool) -> Self {
        let own = turn.rev().find_map(|n| {
            let step = index.steps().get(n)?;
            (!step.is_nested).then_some((n, step))
        });
        match own {
            _ if is_interrupted => TurnEnd::Interrupted,
            Some((n, _)) if index.error_of(n).is_some() => TurnEnd::Error,
            Some((_, step)) if step.is_cancelled() => TurnEnd::Cancelled,
            Some((_, step)) if step.actions > 0 => TurnEnd::NoAnswer,
            _ => TurnEnd::Answered,
        }
    }

    /// Returns the words for a list. Empty if the turn ended with an answer.
    pub(crate) fn words(self) -> &'static str {
        match self {
            TurnEnd::Answered | TurnEnd::Run(ShownStatus::Succeeded | ShownStatus::Finished) => "",
            TurnEnd::Interrupted => "interrupted",
            TurnEnd::Cancelled => "cancelled",
            TurnEnd::Error => "error",
            TurnEnd::NoAnswer => "no answer",
            TurnEnd::Run(ShownStatus::Unknown) => "end unknown",
            TurnEnd::Run(status) => status.as_str(),
        }
    }

    pub(crate) fn is_error(self) -> bool {
        use ShownStatus as S;
        matches!(
            self,
            Self::Error | Self::Run(S::Unsolved | S::Error | S::Died)
        )
    }
}
