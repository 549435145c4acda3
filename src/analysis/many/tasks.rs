//! Repeated tasks: how often each was run and passed, and what that says about the next runs.

use std::collections::HashMap;

use schemars::JsonSchema;
use serde::Serialize;

use super::ranked::Ranked;
use crate::analysis::experiment::statistics::{pass_at, wilson};
use crate::analysis::query::Needle;
use crate::analysis::summary::Summary;
use crate::analysis::task_text::TaskText;
use crate::model::names::first_chars;

/// The runs of a task that are listed: the newest.
const MAX_LISTED: usize = 40;
/// Longer tasks have no query; bytes.
const MAX_QUERIED: usize = 1_000;
/// Maximum number of characters of a name.
const MAX_NAME: usize = 200;
/// The `k` of pass@k.
pub(crate) const K: usize = 3;

/// A task that was run at least twice with a recorded result.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub(crate) struct RepeatedTask {
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
    /// The newest of these runs, oldest first.
    pub newest: Vec<TaskRun>,
}

/// A run of a repeated task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub(crate) struct TaskRun {
    /// The key of the run.
    pub key: String,
    /// Whether it passed.
    pub passed: bool,
}

/// The runs of a task, oldest first, each with whether it passed.
pub(super) type TaskRuns<'a> = Vec<(&'a Summary, bool)>;

/// Groups runs by their task. Skips runs that don't record whether they passed.
pub(super) fn by_task<'a>(runs: &[&'a Summary]) -> Vec<(&'a str, TaskRuns<'a>)> {
    let mut found: Vec<(&str, TaskRuns<'_>)> = Vec::new();
    let mut places: HashMap<TaskText<'_>, usize> = HashMap::new();
    for run in runs {
        let Some((task, passed)) = run.task.as_deref().zip(run.solved()) else {
            continue;
        };
        if task.trim().is_empty() {
            continue;
        }
        let place = *places.entry(TaskText(task)).or_insert_with(|| {
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
    let mut counts: HashMap<TaskText<'_>, usize> = HashMap::new();
    let tasks = runs.iter().filter_map(|run| run.task.as_deref());
    for task in tasks.filter(|task| !task.trim().is_empty()) {
        *counts.entry(TaskText(task)).or_default() += 1;
    }
    counts.values().filter(|count| **count > 1).count()
}

/// Returns the repeated tasks that passed least often, at most `limit`.
pub(super) fn rows(tasks: &[(&str, TaskRuns<'_>)], limit: usize) -> Ranked<RepeatedTask> {
    let mut ranked: Vec<(f64, &(&str, TaskRuns<'_>))> = tasks
        .iter()
        .filter(|(_, runs)| runs.len() > 1)
        .map(|task| (rate(&task.1), task))
        .collect();
    ranked.sort_by(|(a, (name, runs)), (b, (other, others))| {
        let by_rate = a.total_cmp(b);
        by_rate
            .then(others.len().cmp(&runs.len()))
            .then_with(|| name.cmp(other))
    });
    let Ranked { rows, left_out } = Ranked::new(ranked, limit);
    let rows = rows.into_iter();
    Ranked {
        rows: rows.map(|(_, (task, runs))| row(task, runs)).collect(),
        left_out,
    }
}

/// Returns the share of the runs that passed.
fn rate(runs: &TaskRuns<'_>) -> f64 {
    runs.iter().filter(|(_, passed)| *passed).count() as f64 / runs.len() as f64
}

fn row(task: &str, runs: &TaskRuns<'_>) -> RepeatedTask {
    let (number, passed) = (
        runs.len(),
        runs.iter().filter(|(_, passed)| *passed).count(),
    );
    let rate = passed as f64 / number as f64;
    let (low, high) = wilson(rate, number as f64);
    let (pass_at_3, all_of_3) = pass_at(K, passed, number).unzip();
    let skipped = number.saturating_sub(MAX_LISTED);
    let listed = runs.iter().skip(skipped);
    RepeatedTask {
        name: first_line(task),
        query: task_query(task),
        runs: number,
        passed,
        pass_at_1: rate,
        low,
        high,
        pass_at_3,
        all_of_3,
        newest: listed
            .map(|(run, passed)| TaskRun {
                key: run.key.to_string(),
                passed: *passed,
            })
            .collect(),
    }
}

/// Returns the query for the runs of a task. `None` if its text is too long for an address.
pub(crate) fn task_query(task: &str) -> Option<String> {
    (task.len() <= MAX_QUERIED).then(|| format!("task={}", Needle::new(task)))
}

/// Returns the pass rates of the tasks that both periods have: the number of tasks, the mean of
/// their rates before, and now. Other tasks may be easier or harder.
pub(super) fn shared(
    now: &[(&str, TaskRuns<'_>)],
    before: &[(&str, TaskRuns<'_>)],
) -> Option<(usize, f64, f64)> {
    let before: HashMap<TaskText<'_>, f64> = before
        .iter()
        .map(|(task, runs)| (TaskText(task), rate(runs)))
        .collect();
    let both: Vec<(f64, f64)> = now
        .iter()
        .filter_map(|(task, runs)| Some((*before.get(&TaskText(task))?, rate(runs))))
        .collect();
    let mean = |of: fn(&(f64, f64)) -> f64| both.iter().map(of).sum::<f64>() / both.len() as f64;
    (!both.is_empty()).then(|| (both.len(), mean(|pair| pair.0), mean(|pair| pair.1)))
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
