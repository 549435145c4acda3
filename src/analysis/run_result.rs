//! Defines how a run turned out, and the word that lists show for it.
//!
//! A run that gave an answer may still have failed its task. So an answer is only a success if the
//! trace records one.

use super::run_status::RunStatus;
use super::summary::Summary;
use crate::model::words::words;

words! {
    /// How a run turned out, regardless of what stopped it.
    pub enum RunResult {
        /// Success is recorded: by the trace, or as a full reward.
        Success = "success",
        /// Ended by itself, and neither success nor failure is recorded.
        Finished = "finished",
        /// Ended from outside.
        Cancelled = "cancelled",
        /// It isn't known how it ended.
        Unknown = "unknown",
        /// Ended by a limit.
        Limit = "limit",
        /// Failure is recorded, or a critic stopped the run.
        Failed = "failed",
        /// Ended with an error, or died.
        Error = "error",
    }
}

impl RunResult {
    /// Returns the word that people read.
    pub fn label(self) -> &'static str {
        match self {
            RunResult::Success => ShownStatus::Succeeded.as_str(),
            RunResult::Error => "error or died",
            RunResult::Failed
            | RunResult::Finished
            | RunResult::Cancelled
            | RunResult::Unknown
            | RunResult::Limit => self.as_str(),
        }
    }
}

words! {
    /// The status of a run as lists show it: what ended it, or how recently it wrote if it may still
    /// be running. Answered runs are divided by what is recorded about their success.
    pub enum ShownStatus {
        /// May still write, and wrote recently.
        Running = "running",
        /// May still write, but has been silent for longer than usual.
        Quiet = "quiet",
        /// May still write, but has been silent for so long that something may be wrong.
        Stalled = "stalled",
        /// Answered, and success is recorded.
        Succeeded = "succeeded",
        /// Answered, and neither success nor failure is recorded.
        Finished = "finished",
        /// Answered, and failure is recorded.
        Unsolved = "unsolved",
        /// Ended by a limit.
        Limit = "limit",
        /// Stopped by another rule: the agent's, the environment's or a custom one.
        Stopped = "stopped",
        /// Ended by a critic.
        Critic = "critic stop",
        /// Ended from outside.
        Cancelled = "cancelled",
        /// Failed with an error, or not started.
        Error = "error",
        /// Ended without recording an end.
        Died = "died",
        /// Ended in a way that isn't recorded, or with a word that board doesn't know.
        Unknown = "unknown",
    }
}

impl From<RunStatus> for ShownStatus {
    /// Returns the status if no success is recorded.
    fn from(mark: RunStatus) -> Self {
        match mark {
            RunStatus::Running => ShownStatus::Running,
            RunStatus::Quiet => ShownStatus::Quiet,
            RunStatus::Stalled => ShownStatus::Stalled,
            RunStatus::Answered => ShownStatus::Finished,
            RunStatus::Limit => ShownStatus::Limit,
            RunStatus::Stopped => ShownStatus::Stopped,
            RunStatus::Critic => ShownStatus::Critic,
            RunStatus::Cancelled => ShownStatus::Cancelled,
            RunStatus::Error => ShownStatus::Error,
            RunStatus::Died => ShownStatus::Died,
            RunStatus::Unknown => ShownStatus::Unknown,
        }
    }
}

impl ShownStatus {
    /// Returns whether the run answered, which [`RunStatus::Answered`] says without what came of
    /// it.
    pub fn is_answer(self) -> bool {
        matches!(
            self,
            ShownStatus::Succeeded | ShownStatus::Finished | ShownStatus::Unsolved
        )
    }
}

impl Summary {
    /// Returns what came of the run, or `None` while it may still be writing or is still being
    /// read.
    pub fn result(&self) -> Option<RunResult> {
        let passed = self.has_passed();
        Some(match self.verdict.mark {
            _ if self.partial => return None,
            RunStatus::Running | RunStatus::Quiet | RunStatus::Stalled => return None,
            _ if passed == Some(true) => RunResult::Success,
            RunStatus::Answered | RunStatus::Stopped | RunStatus::Unknown
                if passed == Some(false) =>
            {
                RunResult::Failed
            }
            RunStatus::Answered | RunStatus::Stopped => RunResult::Finished,
            RunStatus::Limit => RunResult::Limit,
            RunStatus::Critic => RunResult::Failed,
            RunStatus::Cancelled => RunResult::Cancelled,
            RunStatus::Error | RunStatus::Died => RunResult::Error,
            RunStatus::Unknown => RunResult::Unknown,
        })
    }

    /// Returns whether the run did its task, as far as its result says. A run that ended at a limit
    /// or with an error didn't, unless a success is recorded. A person's interruption doesn't show
    /// whether the agent would have.
    pub fn solved(&self) -> Option<bool> {
        match self.result()? {
            RunResult::Success => Some(true),
            RunResult::Failed | RunResult::Limit | RunResult::Error => Some(false),
            RunResult::Finished | RunResult::Cancelled | RunResult::Unknown => {
                self.has_passed().filter(|passed| !passed)
            }
        }
    }

    /// Returns the status that lists show.
    pub fn shown_status(&self) -> ShownStatus {
        match (self.verdict.mark, self.has_passed()) {
            (RunStatus::Answered, Some(true)) => ShownStatus::Succeeded,
            (RunStatus::Answered, Some(false)) => ShownStatus::Unsolved,
            (mark, _) => mark.into(),
        }
    }

    /// Returns whether the run succeeded, as far as that is recorded and no record contradicts it:
    /// by the trace itself, or by a reward of 1 or 0. Other rewards don't say which are good. If
    /// the trace and the reward differ, it's unknown.
    pub(super) fn has_passed(&self) -> Option<bool> {
        let is_number = |value: &str| value.parse::<f64>().is_ok();
        let is_rewarded = self
            .scores
            .iter()
            .any(|score| score.name == "reward" && score.value.as_deref().is_some_and(is_number));
        // A reward is the score of the run.
        let reward = self.last_score.filter(|_| is_rewarded);
        let by_reward = match reward {
            Some(1.0) => Some(true),
            Some(0.0) => Some(false),
            _ => None,
        };
        let agree = self.success.is_none() || by_reward.is_none() || self.success == by_reward;
        self.success
            .or(by_reward)
            .filter(|_| agree && self.verdict.contradictions.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::select::sample::run;
    use crate::analysis::summary::GivenScore;

    #[test]
    fn an_answer_is_a_success_only_if_one_is_recorded() {
        use RunResult as R;
        use ShownStatus as S;
        let of = |mark, success| {
            let mut run = run("a", mark, None);
            run.success = success;
            (run.result(), run.shown_status())
        };
        let (yes, no) = (Some(true), Some(false));
        for (mark, success, result, shown) in [
            (RunStatus::Answered, None, Some(R::Finished), S::Finished),
            (RunStatus::Answered, yes, Some(R::Success), S::Succeeded),
            (RunStatus::Answered, no, Some(R::Failed), S::Unsolved),
            (RunStatus::Stopped, None, Some(R::Finished), S::Stopped),
            (RunStatus::Stopped, no, Some(R::Failed), S::Stopped),
            // The result and the reason of the end are two facts.
            (RunStatus::Limit, yes, Some(R::Success), S::Limit),
            (RunStatus::Limit, no, Some(R::Limit), S::Limit),
            (RunStatus::Critic, None, Some(R::Failed), S::Critic),
            (RunStatus::Cancelled, no, Some(R::Cancelled), S::Cancelled),
            (RunStatus::Error, no, Some(R::Error), S::Error),
            (RunStatus::Died, None, Some(R::Error), S::Died),
            (RunStatus::Unknown, None, Some(R::Unknown), S::Unknown),
            (RunStatus::Running, None, None, S::Running),
            (RunStatus::Stalled, yes, None, S::Stalled),
        ] {
            assert_eq!(of(mark, success), (result, shown), "{mark:?} {success:?}");
        }
    }

    #[test]
    fn only_a_full_reward_and_none_at_all_say_how_it_went() {
        let of = |name: &str, score: f64| {
            let mut run = run("a", RunStatus::Answered, None);
            run.scores = [GivenScore {
                name: name.to_owned(),
                value: Some(score.to_string()),
            }]
            .into();
            run.last_score = Some(score);
            run.result()
        };
        assert_eq!(of("reward", 1.0), Some(RunResult::Success));
        assert_eq!(of("reward", 0.0), Some(RunResult::Failed));
        assert_eq!(of("reward", 0.999), Some(RunResult::Finished));
        assert_eq!(of("style", 1.0), Some(RunResult::Finished));
    }

    #[test]
    fn contradicting_records_and_unread_ones_prove_no_success() {
        let mut one = run("a", RunStatus::Answered, None);
        one.success = Some(true);
        one.verdict.contradictions = ["The status is failed".to_owned()].into();
        assert_eq!(one.result(), Some(RunResult::Finished));
        one.partial = true;
        assert_eq!(one.result(), None);
        let mut two = run("a", RunStatus::Answered, None);
        two.scores = [GivenScore {
            name: "reward".to_owned(),
            value: Some("0".to_owned()),
        }]
        .into();
        two.last_score = Some(0.0);
        two.success = Some(true);
        assert_eq!(two.result(), Some(RunResult::Finished), "they differ");
    }
}
