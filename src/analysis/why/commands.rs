//! Counts the commands that failed in the newest run, and those of them that passed later.

use std::collections::HashMap;
use std::num::NonZeroU64;

use schemars::JsonSchema;
use serde::Serialize;

use crate::analysis::format::count;
use crate::analysis::lost::lost;
use crate::analysis::newest::newest_run;
use crate::model::{CallEnd, Index};

/// The shell commands that failed. A command that ran several times counts once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
pub struct FailedCommands {
    /// The number of different commands that failed. White space makes no difference.
    pub count: usize,
    /// How many of them succeeded after their last failure.
    pub passed_later: usize,
    /// How often they failed, together.
    #[serde(skip)]
    #[schemars(skip)]
    pub(crate) failures: usize,
    /// Whether steps are missing, in which a command may have passed.
    #[serde(skip)]
    #[schemars(skip)]
    pub(crate) are_steps_missing: bool,
}

impl FailedCommands {
    /// Describes them: `3 different commands failed, 2 passed later`. Several failed steps may have run
    /// the same command.
    pub fn words(self) -> String {
        let passed = match (self.count, self.passed_later) {
            (1, 0) if self.are_steps_missing => {
                return "1 command failed and didn't pass in the steps that could be read"
                    .to_owned();
            }
            (1, 0) => return "1 command failed and never passed".to_owned(),
            (1, _) => {
                let times = match self.failures {
                    1 => "once".to_owned(),
                    2 => "twice".to_owned(),
                    times => format!("{} times", count(times as u64)),
                };
                return format!("1 command failed {times}, then passed");
            }
            (_, 0) if self.are_steps_missing => {
                "none passed in the steps that could be read".to_owned()
            }
            (_, 0) => "none passed later".to_owned(),
            (all, passed) if all == passed => "each passed later".to_owned(),
            (_, passed) => format!("{} passed later", count(passed as u64)),
        };
        format!(
            "{} different commands failed, {passed}",
            count(self.count as u64)
        )
    }
}

/// Returns the failed commands, or `None` if there aren't any or not all calls are known.
pub(super) fn failed_commands(index: &Index) -> Option<FailedCommands> {
    let mut passed: HashMap<NonZeroU64, bool> = HashMap::new();
    let mut failures = 0;
    for (_, step) in newest_run(index) {
        // The index doesn't have the calls of skipped steps, nor all calls of a step with many.
        if step.actions as usize > step.calls.len() {
            return None;
        }
        for call in &step.calls {
            let Some(command) = call.command else {
                continue;
            };
            match call.end {
                CallEnd::Failed => {
                    passed.insert(command, false);
                    failures += 1;
                }
                CallEnd::Succeeded => {
                    passed.entry(command).and_modify(|passed| *passed = true);
                }
                CallEnd::Open | CallEnd::Unknown | CallEnd::Stopped => {}
            }
        }
    }
    let is_whole = !index.step_skips().is_cut();
    (is_whole && !passed.is_empty()).then(|| FailedCommands {
        failures,
        are_steps_missing: lost(index).is_some(),
        count: passed.len(),
        passed_later: passed.values().filter(|passed| **passed).count(),
    })
}
