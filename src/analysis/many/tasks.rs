//! Repeated tasks: how often each was run and passed, and what that says about the next runs.

use std::collections::HashMap;

use schemars::JsonSchema;
use serde::Serialize;

use crate::analysis::query::Needle;
use crate::analysis::run_result::RunResult;
use crate::analysis::summary::Summary;
use crate::model::names::first_chars;

/// The runs of a task that are listed: the newest.
const MAX_LISTED: usize = 40;
/// Longer tasks have no query; bytes.
const MAX_QUERIED: usize = 1_000;
/// The characters of a name, at most.
const MAX_NAME: usize = 200;
/// The `k` of pass@k.
pub const K: usize = 3;

/// A task that was run at least twice with a recorded result.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct RepeatedTask {
    /// The first line of the task.
    pub name: String,
    /// The query that selects its runs. Null if the task is too long for one.
    pub query: Option<String>,
    /// The number of runs that record whether they passed.
    pub runs: usize,
    /// How many of them passed.
    pub passed: usize,
    /// The share of runs that passed: the chance that the next one does.
    pub pass_at_1: f64,
    /// The lower end of the 95% interval of that chance.
    pub low: f64,
    /// The upper end.
    pub high: f64,
    /// The chance that at least one of three runs passes. Null for fewer than three runs.
    pub pass_at_3: Option<f64>,
    /// The chance that all of three runs pass.
    pub all_of_3: Option<f64>,
    /// The newest of these runs, from old to new.
    pub newest: Vec<TaskRun>,
}

/// A run of a repeated task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct TaskRun {
    /// The key of the run.
    pub key: String,
    /// Whether it passed.
    pub passed: bool,
}

/// Returns whether a run passed, as far as its result records that.
pub(super) fn passed(run: &Summary) -> Option<bool> {
    match run.result()? {
        RunResult::Success => Some(true),
        RunResult::Failed => Some(false),
        _ => run.has_passed().filter(|passed| !passed),
    }
}

/// The runs of a task from old to new, each with whether it passed.
pub(super) type TaskRuns<'a> = Vec<(&'a Summary, bool)>;

/// Groups runs by their task. Skips runs that don't record whether they passed.
pub(super) fn by_task<'a>(runs: &[&'a Summary]) -> Vec<(&'a str, TaskRuns<'a>)> {
    let mut found: Vec<(&str, TaskRuns<'_>)> = Vec::new();
    let mut places: HashMap<&str, usize> = HashMap::new();
    for run in runs {
        let Some((task, passed)) = run.task.as_deref().zip(passed(run)) else {
            continue;
        };
        if task.trim().is_empty() {
            continue;
        }
        let place = *places.entry(task).or_insert_with(|| {
            found.push((task, Vec::new()));
            found.len() - 1
        });
        if let Some((_, own)) = found.get_mut(place) {
            own.push((run, passed));
        }
    }
    for (_, own) in &mut found {
        own.sort_by(|(a, _), (b, _)| (a.started, a.key.as_str()).cmp(&(b.started, b.key.as_str())));
    }
    found
}

/// Counts the tasks that were run at least twice.
pub(super) fn repeated(runs: &[&Summary]) -> usize {
    let mut counts: HashMap<&str, usize> = HashMap::new();
    for task in runs.iter().filter_map(|run| run.task.as_deref()) {
        *counts.entry(task).or_default() += 1;
    }
    counts.values().filter(|count| **count > 1).count()
}

/// Returns the repeated tasks, the least reliable first.
pub(super) fn rows(tasks: &[(&str, TaskRuns<'_>)]) -> Vec<RepeatedTask> {
    let mut rows: Vec<RepeatedTask> = tasks
        .iter()
        .filter(|(_, runs)| runs.len() > 1)
        .map(|(task, runs)| row(task, runs))
        .collect();
    rows.sort_by(|a, b| {
        let by_rate = a.pass_at_1.total_cmp(&b.pass_at_1);
        by_rate
            .then(b.runs.cmp(&a.runs))
            .then_with(|| a.name.cmp(&b.name))
    });
    rows
}

fn row(task: &str, runs: &TaskRuns<'_>) -> RepeatedTask {
    let (number, passed) = (
        runs.len(),
        runs.iter().filter(|(_, passed)| *passed).count(),
    );
    let (low, high) = wilson(passed, number);
    let skipped = number.saturating_sub(MAX_LISTED);
    let listed = runs.iter().skip(skipped);
    RepeatedTask {
        name: first_line(task),
        query: query(task),
        runs: number,
        passed,
        pass_at_1: passed as f64 / number as f64,
        low,
        high,
        pass_at_3: pass_at(passed, number, K),
        all_of_3: all_of(passed, number, K),
        newest: listed
            .map(|(run, passed)| TaskRun {
                key: run.key.to_string(),
                passed: *passed,
            })
            .collect(),
    }
}

/// Returns the query for the runs of a task.
pub(super) fn query(task: &str) -> Option<String> {
    (task.len() <= MAX_QUERIED).then(|| format!("task={}", Needle::new(task)))
}

/// Returns the pass rates of the tasks that both periods have: the number of tasks, the mean of
/// their rates before, and now. Other tasks may be easier or harder.
pub(super) fn shared(
    now: &[(&str, TaskRuns<'_>)],
    before: &[(&str, TaskRuns<'_>)],
) -> Option<(usize, f64, f64)> {
    let rate = |runs: &TaskRuns<'_>| {
        runs.iter().filter(|(_, passed)| *passed).count() as f64 / runs.len() as f64
    };
    let before: HashMap<&str, f64> = before
        .iter()
        .map(|(task, runs)| (*task, rate(runs)))
        .collect();
    let both: Vec<(f64, f64)> = now
        .iter()
        .filter_map(|(task, runs)| Some((*before.get(task)?, rate(runs))))
        .collect();
    let mean = |of: fn(&(f64, f64)) -> f64| both.iter().map(of).sum::<f64>() / both.len() as f64;
    (!both.is_empty()).then(|| (both.len(), mean(|pair| pair.0), mean(|pair| pair.1)))
}

/// Returns the 95% interval of a chance of which `passed` of `number` trials succeeded (Wilson).
pub(super) fn wilson(passed: usize, number: usize) -> (f64, f64) {
    const Z: f64 = 1.959_964;
    if number == 0 {
        return (0.0, 1.0);
    }
    let number = number as f64;
    let rate = passed as f64 / number;
    let whole = 1.0 + Z * Z / number;
    let middle = (rate + Z * Z / (2.0 * number)) / whole;
    let spread = (rate * (1.0 - rate) / number + Z * Z / (4.0 * number * number)).sqrt();
    let half = Z * spread / whole;
    ((middle - half).max(0.0), (middle + half).min(1.0))
}

/// Returns the chance that at least one of `k` runs passes, drawn from `number` runs of which
/// `passed` passed. `None` if there are fewer than `k`.
pub(super) fn pass_at(passed: usize, number: usize, k: usize) -> Option<f64> {
    let failed = number.checked_sub(passed)?;
    (number >= k).then(|| 1.0 - drawn(failed, number, k))
}

/// Returns the chance that all of `k` runs pass.
pub(super) fn all_of(passed: usize, number: usize, k: usize) -> Option<f64> {
    (number >= k && passed <= number).then(|| drawn(passed, number, k))
}

/// Returns the chance that `k` runs drawn from `number` are all among `some` of them.
fn drawn(some: usize, number: usize, k: usize) -> f64 {
    if some < k {
        return 0.0;
    }
    let draw = |at: usize| (some - at) as f64 / (number - at) as f64;
    (0..k).map(draw).product()
}

/// Returns the first line of a text, not longer than a name.
pub(super) fn first_line(text: &str) -> String {
    let line = text.lines().map(str::trim).find(|line| !line.is_empty());
    let line = line.unwrap_or_default();
    match first_chars(line, MAX_NAME) {
        Some(start) => format!("{start}…"),
        None => line.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pass_at_k_counts_draws_without_replacement() {
        // 8 of 30: 1 − C(22,3)/C(30,3) = 1 − 1540/4060.
        assert!((pass_at(8, 30, 3).unwrap() - (1.0 - 1_540.0 / 4_060.0)).abs() < 1e-12);
        assert!((all_of(8, 30, 3).unwrap() - 56.0 / 4_060.0).abs() < 1e-12);
        assert_eq!((pass_at(0, 3, 3), all_of(0, 3, 3)), (Some(0.0), Some(0.0)));
        assert_eq!((pass_at(3, 3, 3), all_of(3, 3, 3)), (Some(1.0), Some(1.0)));
        assert_eq!((pass_at(1, 3, 3), all_of(2, 3, 3)), (Some(1.0), Some(0.0)));
        assert_eq!((pass_at(2, 2, 3), all_of(2, 2, 3)), (None, None));
        assert_eq!((pass_at(3, 2, 1), all_of(3, 2, 1)), (None, None));
    }

    #[test]
    fn an_interval_holds_the_rate_and_narrows_with_more_runs() {
        let (low, high) = wilson(8, 30);
        // Computed by hand with the formula of Wilson (1927).
        assert!((low - 0.141_8).abs() < 5e-4, "{low}");
        assert!((high - 0.444_5).abs() < 5e-4, "{high}");
        assert_eq!(wilson(0, 0), (0.0, 1.0));
        let (low, high) = wilson(30, 30);
        assert!(low < 1.0 && high > 0.999_999, "{low} {high}");
        assert!(wilson(80, 300).0 > wilson(8, 30).0);
    }
}
