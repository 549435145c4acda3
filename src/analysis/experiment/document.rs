//! Defines the answer of an experiment, which is also its JSON.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::Serialize;

use super::measure::Measure;
use super::sets::{Judged, Set, rate_of};
use super::setting::Setting;
use super::statistics::{MIN_TASKS, rate};
use super::success::{Rule, RuleOption};
use crate::model::words::words;

words! {
    /// Which runs of the two sets belong together.
    pub(crate) enum By {
        /// Those of the same task.
        Task = "task",
        /// None: the sets are compared as a whole.
        Nothing = "nothing",
    }
}

impl By {
    /// Returns the word for it that people use. Documents have an older one.
    pub(crate) fn label(self) -> &'static str {
        match self {
            By::Task => By::Task.as_str(),
            By::Nothing => "none",
        }
    }
}

impl fmt::Display for By {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for By {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        By::ALL
            .into_iter()
            .find(|by| by.label() == text || by.as_str() == text)
            .ok_or_else(|| format!("`{text}` must be `task` or `none`"))
    }
}

words! {
    /// What an experiment shows about success.
    #[schemars(rename = "ExperimentFinding")]
    pub(crate) enum Finding {
        /// B clearly succeeds more often.
        Better = "better",
        /// B clearly succeeds less often.
        Worse = "worse",
        /// The difference isn't clear.
        NotClear = "not_clear",
        /// There are too few tasks for any result to be clear.
        TooFew = "too_few",
        /// Too many runs record no result.
        Unknown = "unknown",
        /// A set has no run.
        Empty = "empty",
    }
}

/// What to compare, and how.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Question {
    /// The query that selects the runs of A.
    pub a: String,
    /// The query that selects the runs of B.
    pub b: String,
    /// How runs are paired.
    pub by: By,
    /// What counts as a success.
    pub success: Rule,
}

/// One of the two sets.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
pub(crate) struct Side {
    /// The query that selects the runs.
    pub query: String,
    /// The number of matching runs.
    pub matched: usize,
    /// The number of runs that were compared: finished ones that don't match both queries.
    pub runs: usize,
    /// The number of runs that haven't finished. They aren't compared.
    pub unfinished: usize,
    /// The number of other files with the same records as some run. They aren't compared.
    pub duplicates: usize,
    /// The number of tasks.
    pub tasks: usize,
    /// The number of runs that don't record a task. They can't be paired.
    pub without_task: usize,
    /// The number of runs whose success is known.
    pub known: usize,
    /// The runs whose success is compared, and is known.
    pub judged: usize,
    /// How many of these succeeded.
    pub solved: usize,
    /// The mean success rate of the tasks, 0 to 1.
    pub rate: Option<f64>,
    /// The lower end of its 95% interval.
    pub rate_low: Option<f64>,
    /// The upper end.
    pub rate_high: Option<f64>,
    /// The fewest and the most runs of a compared task.
    pub runs_per_task: Option<(usize, usize)>,
}

/// A run of a task.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "ExperimentTaskRun")]
pub(crate) struct TaskRun {
    /// The key of the run.
    pub run: String,
    /// Whether it succeeded, if known.
    pub solved: Option<bool>,
    /// Its stop reason, if recorded.
    pub stop_reason: Option<String>,
}

/// A task that both sets have.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub(crate) struct TaskRow {
    /// The beginning of the task's text, without what all tasks begin with.
    pub name: String,
    /// The success rate in A, 0 to 1, if known.
    pub a_rate: Option<f64>,
    /// The success rate in B.
    pub b_rate: Option<f64>,
    /// The side that solved the task, if most of its runs succeeded and at most half of the other's.
    pub only: Option<Set>,
    /// The runs of A, oldest first.
    pub a: Vec<TaskRun>,
    /// The runs of B.
    pub b: Vec<TaskRun>,
    /// The number of further runs, which are left out.
    pub runs_left_out: usize,
    /// The number of runs of A that succeeded, and the number whose success is known.
    pub a_solved: (usize, usize),
    /// The same for B.
    pub b_solved: (usize, usize),
    /// The most frequent stop reason of each set's runs that didn't succeed.
    #[serde(skip)]
    pub failed_with: (Option<String>, Option<String>),
    /// A run of each set that shows the difference, if there is one.
    pub compare: (String, String),
    /// The whole text of the task, if it's short.
    #[serde(skip)]
    pub text: Option<String>,
}

/// How many runs stopped for a reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub(crate) struct ReasonRow {
    /// The recorded stop reason; null if none is recorded.
    pub reason: Option<String>,
    /// The number of runs in A.
    pub a: usize,
    /// The number of runs in B.
    pub b: usize,
}

/// How sure the answer is.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
pub(crate) struct Certainty {
    /// Whether runs of the same task were paired.
    pub paired: bool,
    /// How often the signs of the differences were flipped. Null without pairs.
    pub flips: Option<usize>,
    /// Whether that is every combination of signs.
    pub exact: bool,
    /// The smallest difference in tasks that the test finds in 4 of 5 such experiments.
    pub finds: Option<f64>,
    /// The same with twice as many runs of each task, if tasks have several runs.
    pub finds_with_twice_the_runs: Option<f64>,
    /// The number of tasks with which the test finds half that difference.
    pub tasks_for_half: Option<usize>,
    /// The number of measures for which p-values are corrected.
    pub corrected: usize,
}

/// The comparison of two sets of runs.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub(crate) struct Experiment {
    /// The answer in a sentence.
    pub verdict: String,
    /// The answer about success, as a word.
    pub finding: Finding,
    /// Further sentences: the test, and what wasn't compared.
    pub details: Vec<String>,
    /// How runs are paired.
    pub by: By,
    /// What counts as a success: `recorded`, `finished`, or a score such as `tests>=1`.
    pub success: String,
    /// The first set.
    pub a: Side,
    /// The second set.
    pub b: Side,
    /// The number of runs that match both queries. They belong to neither set.
    pub in_both: usize,
    /// The number of compared tasks: those that both sets have and whose success is known.
    pub tasks: usize,
    /// The number of tasks that both sets have.
    pub shared_tasks: usize,
    /// How many tasks came out better in B.
    pub better: usize,
    /// How many came out worse in B.
    pub worse: usize,
    /// How many came out the same.
    pub same: usize,
    /// How many only A solved: most of its runs succeeded, and at most half of B's.
    pub only_a: usize,
    /// How many only B solved.
    pub only_b: usize,
    /// The smallest and the largest possible lead of B in tasks, if the runs without a known success
    /// had failed or succeeded. Null if the success of all runs is known.
    pub unknown_range: Option<(f64, f64)>,
    /// The measures, success first.
    pub measures: Vec<Measure>,
    /// What the runs of the two sets were made with.
    pub settings: Vec<Setting>,
    /// The tasks that both sets have: first those that only one side solved.
    pub task_rows: Vec<TaskRow>,
    /// The number of further tasks, which are left out.
    pub task_rows_left_out: usize,
    /// The stop reasons, the most frequent first.
    pub stop_reasons: Vec<ReasonRow>,
    /// The runs of A and of B whose stop reasons are counted.
    pub stop_reasons_of: (usize, usize),
    /// The number of further stop reasons, which are left out.
    pub stop_reasons_left_out: usize,
    /// What else could count as a success, with the number of runs for which it's known.
    pub other_rules: Vec<RuleOption>,
    /// How sure the answer is.
    pub certainty: Certainty,
    /// The names of the tasks that both sets have, in the order of their positions.
    #[serde(skip)]
    pub task_names: Vec<String>,
    /// The condition that was checked, if any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub condition: Option<Decision>,
}

/// Whether a condition holds.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub(crate) struct Decision {
    /// The condition.
    pub condition: String,
    /// Whether it holds; null if that can't be decided.
    pub holds: Option<bool>,
    /// The reason in a sentence without a full stop.
    pub why: String,
}

impl Side {
    /// Adds the success rate over tasks, each with its runs.
    pub(super) fn rated(&mut self, tasks: &[&[Judged<'_>]]) {
        let known = || {
            let runs = tasks.iter().flat_map(|runs| runs.iter());
            runs.filter_map(|judged| judged.solved)
        };
        self.judged = known().count();
        self.solved = known().filter(|solved| *solved).count();
        let rates: Vec<f64> = tasks.iter().filter_map(|runs| rate_of(runs)).collect();
        if let Some((share, (low, high))) = rate(&rates, self.judged) {
            (self.rate, self.rate_low, self.rate_high) = (Some(share), Some(low), Some(high));
        }
        let runs = || {
            let known =
                |runs: &&[Judged<'_>]| runs.iter().filter(|judged| judged.solved.is_some()).count();
            tasks.iter().map(known)
        };
        self.runs_per_task = runs().min().zip(runs().max());
    }

    /// Returns the numbers of independent successes and runs.
    pub(super) fn counts(&self) -> (usize, usize) {
        (self.solved, self.judged)
    }
}

impl TaskRow {
    /// Returns how different the sides are.
    pub(super) fn size(&self) -> f64 {
        let difference = self.b_rate.zip(self.a_rate).map(|(b, a)| (b - a).abs());
        difference.unwrap_or(-1.0)
    }

    /// Returns the runs of a set.
    pub(crate) fn runs(&self, set: Set) -> &[TaskRun] {
        match set {
            Set::A => &self.a,
            Set::B => &self.b,
        }
    }

    /// Returns how many runs of a set succeeded, of how many whose success is known.
    pub(crate) fn solved(&self, set: Set) -> (usize, usize) {
        match set {
            Set::A => self.a_solved,
            Set::B => self.b_solved,
        }
    }

    /// Returns the most frequent stop reason of the runs of a set that didn't succeed.
    pub(crate) fn failed_with(&self, set: Set) -> Option<&str> {
        match set {
            Set::A => self.failed_with.0.as_deref(),
            Set::B => self.failed_with.1.as_deref(),
        }
    }
}

impl Experiment {
    /// Decides what the experiment shows about success.
    pub(super) fn found(&self) -> Finding {
        let is_unknown = |side: &Side| side.known * 2 < side.runs;
        if self.a.runs == 0 || self.b.runs == 0 {
            return Finding::Empty;
        }
        let is_paired = self.certainty.paired;
        let units = if is_paired {
            self.shared_tasks
        } else {
            self.a.judged.min(self.b.judged)
        };
        if is_paired && units < MIN_TASKS {
            return Finding::TooFew;
        }
        if is_unknown(&self.a) || is_unknown(&self.b) {
            return Finding::Unknown;
        }
        if units < MIN_TASKS || (is_paired && self.tasks < MIN_TASKS) {
            return Finding::TooFew;
        }
        match self.success() {
            Some(success) if success.is_clear && success.difference > Some(0.0) => Finding::Better,
            Some(success) if success.is_clear => Finding::Worse,
            _ => Finding::NotClear,
        }
    }

    /// Returns the measure of success.
    pub(crate) fn success(&self) -> Option<&Measure> {
        self.measures.first()
    }

    /// Returns the measure with this name.
    pub(crate) fn measure(&self, name: &str) -> Option<&Measure> {
        self.measures.iter().find(|measure| measure.name == name)
    }

    /// Returns the side of a set.
    pub(crate) fn side(&self, set: Set) -> &Side {
        match set {
            Set::A => &self.a,
            Set::B => &self.b,
        }
    }

    /// Returns how many tasks only this side solved.
    pub(crate) fn only_count(&self, set: Set) -> usize {
        match set {
            Set::A => self.only_a,
            Set::B => self.only_b,
        }
    }

    /// Returns the listed tasks that only this side solved.
    pub(crate) fn only(&self, set: Set) -> impl Iterator<Item = &TaskRow> {
        let rows = self.task_rows.iter();
        rows.filter(move |row| row.only == Some(set))
    }

    /// Returns the settings that differ between the sets.
    pub(crate) fn differing(&self) -> impl Iterator<Item = &Setting> {
        self.settings.iter().filter(|setting| setting.differs)
    }
}
