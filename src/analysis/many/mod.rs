//! Sums up many runs: what changed, totals against the period before, runs by day, models, repeated
//! tasks, hours, stop reasons, tools and projects. [`super::overview`] is about a single run.
//!
//! A run counts wholly on the day on which it started. Totals are those of the run table.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};

use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use schemars::JsonSchema;
use serde::{Serialize, Serializer};

use super::calendar::{Calendar, Moment};
use super::call_times::Durations;
use super::columns::{COST, DURATION, MODEL, STOP, TOKENS};
use super::cost_shares::CostShares;
use super::failures::{FirstSeen, PeriodFailures, RECENT_DAYS, of_period};
use super::run_result::RunResult;
use super::select::{Adding, Amount, Total};
use super::summary::Summary;
use super::usage::{Days, Part, Used, by_cost, parts};
use crate::model::time::utc;

mod change_point;
mod ranked;
mod scale;
mod tasks;
#[cfg(test)]
mod tests;
mod trend;
mod words;

pub(crate) use ranked::Ranked;
pub(crate) use scale::Unit;
pub(crate) use tasks::{RepeatedTask, task_query};
pub(crate) use trend::{amounts, counts, relative};
pub(crate) use words::{Fact, percentile_words};

use scale::Scale;
use tasks::first_line;
use trend::Periods;

/// Below this many runs, charts say less than the list of the runs.
pub(crate) const MIN_CHARTED: usize = 20;
/// The failures that are listed: the newest.
const MAX_FAILURES: usize = 6;
/// A new failure isn't a finding if it ended fewer runs.
const MIN_ENDED: usize = 3;

/// The results that count as trouble. The others are ends as they should be, or unknown ones.
pub(crate) const TROUBLE: [RunResult; 3] = [RunResult::Limit, RunResult::Failed, RunResult::Error];

/// What to sum up.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Asked<'a> {
    /// The days on which the runs started.
    pub days: Days,
    /// The current time, in microseconds since the epoch.
    pub now: i64,
    /// The zone of the reader.
    pub zone: &'a TimeZone,
    /// Maximum number of rows of a list.
    pub limit: usize,
    /// Whether only the totals, the runs by day and the newest runs are needed, which an open page
    /// updates.
    pub is_part: bool,
}

/// Many runs, summed up.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
pub(crate) struct Overview {
    /// The first day, `YYYY-MM-DD`, if limited.
    pub since: Option<String>,
    /// The last day, if limited.
    pub until: Option<String>,
    /// The finding, in a sentence.
    pub answer: String,
    /// What the sentence is about.
    pub finding: Finding,
    /// The totals of the period.
    pub totals: Totals,
    /// The totals of the same number of days before, up to the same time of day. Null if there are
    /// none, or if the very first run began after those days.
    pub before: Option<Totals>,
    /// How often tasks passed that both periods have.
    pub shared_tasks: Option<SharedTasks>,
    /// The number of tasks that were run at least twice.
    pub repeated_tasks: usize,
    /// The number of repeated tasks in which no change was looked for, although they have enough runs:
    /// all, if there are more than 2,000, or those for which there was too little time.
    pub tasks_not_searched: usize,
    /// The period that each bar of a chart covers: `day`, `week` or `month`.
    pub bars_are: &'static str,
    /// The bars, oldest first. Empty if no run records when it started.
    pub bars: Vec<Bar>,
    /// The newest runs that ended with a limit, a failure or an error.
    pub newest_failures: Vec<RunLine>,
    /// What failed in the period.
    pub failures: PeriodFailures,
    /// All runs, the newest first, if there are fewer than 20.
    pub newest_runs: Vec<RunLine>,
    /// What all models used, with a value for each bar.
    pub all_models: ModelRow,
    /// The models, the most expensive first.
    pub models: Ranked<ModelRow>,
    /// The repeated tasks with a recorded result, in order of reliability, lowest first.
    pub tasks: Ranked<RepeatedTask>,
    /// The number of runs that started in each hour, from Monday to Sunday.
    pub hours: Vec<Vec<usize>>,
    /// The stop reasons, the most frequent ones of each result first.
    pub stop_reasons: Ranked<StopReason>,
    /// The tools that runs called, those whose calls took longest first.
    pub tools: Ranked<ToolRow>,
    /// How long the calls of all tools took together, in milliseconds, as far as known, in runs that
    /// are over.
    pub tool_ms: Option<f64>,
    /// The tool calls of all runs that record them.
    pub tool_calls: Option<u64>,
    /// The number of failed tool calls, in runs that record which calls failed.
    pub tool_errors: Option<u64>,
    /// The tool calls of runs that record which failed.
    pub tool_calls_with_errors: Option<u64>,
    /// The projects, the most expensive first.
    pub projects: Ranked<ProjectRow>,
    /// The number of duplicates of these runs, which aren't counted.
    pub duplicates: usize,
    /// The number of matching runs that are left out because the days are limited and they don't
    /// record when they started.
    pub runs_without_time: usize,
    /// The number of runs whose start is outside the bars, such as in the future.
    pub runs_without_bar: usize,
    /// The number of matching runs on any day.
    pub runs_on_any_day: usize,
    /// The current day in the zone of the reader.
    #[serde(skip)]
    pub today: Date,
    /// The days of the report.
    #[serde(skip)]
    pub days: Days,
}

/// What the first line says.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub(crate) enum Finding {
    /// A repeated task passes less often, or more often, than it did.
    ChangePoint {
        /// The first line of the task.
        task: String,
        /// The query that selects its runs. Null if the task is too long for one.
        query: Option<String>,
        /// The day of the first run after the change.
        since: String,
        /// The runs since then that passed.
        passed: usize,
        /// The runs since then.
        runs: usize,
        /// The runs before that passed.
        passed_before: usize,
        /// The runs before.
        runs_before: usize,
        /// The chance that shuffled runs look like this, times the number of tasks.
        p: f64,
    },
    /// A failure that ended several runs and that no run before the period has.
    NewFailure {
        /// The id, for `failure:ID` in queries.
        id: String,
        /// The message, as in `/api/failures`.
        message: String,
        /// The runs that it ended.
        runs_ended: usize,
        /// The day on which it first happened, if recorded.
        since: Option<String>,
    },
    /// The cost changed.
    Cost {
        /// The cost before, in US dollars.
        before: f64,
        /// The project whose cost changed most, if any records one.
        project: Option<String>,
        /// The change of its cost.
        change: f64,
    },
    /// Nothing stands out.
    #[default]
    Totals,
}

/// Totals of runs.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
pub(crate) struct Totals {
    /// The number of runs.
    pub runs: usize,
    /// The number of runs by result. A run that may still be running has none.
    pub results: BTreeMap<RunResult, usize>,
    /// The number of runs that record whether they passed.
    pub judged: usize,
    /// How many of them passed.
    pub passed: usize,
    /// The tokens.
    pub tokens: Measure,
    /// The cost in US dollars.
    pub cost: Measure,
    /// The run time in milliseconds.
    pub duration_ms: Measure,
}

/// The sum of a number over runs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, JsonSchema)]
pub(crate) struct Measure {
    /// The sum. Null if no run records it.
    pub sum: Option<f64>,
    /// The median of the runs that record it.
    pub median: Option<f64>,
    /// The number of runs that record it.
    pub runs: usize,
    /// Whether the sum includes estimates.
    pub is_estimated: bool,
    /// Whether the true sum may be higher: some values are lower bounds or unknown.
    pub is_lower_bound: bool,
}

impl Measure {
    /// Creates the sum over `runs` runs.
    fn new(total: Total, runs: usize) -> Self {
        let sum = total.sum;
        Self {
            sum: (sum.known > 0).then_some(sum.amount),
            median: total.median,
            runs: sum.known,
            is_estimated: sum.is_estimate,
            is_lower_bound: sum.is_lower_bound(runs),
        }
    }
}

/// How often the tasks passed that both periods have. Each task has the same weight.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub(crate) struct SharedTasks {
    /// The number of tasks.
    pub tasks: usize,
    /// The mean of their pass rates before, from 0 to 1.
    pub rate_before: f64,
    /// The mean of their pass rates now.
    pub rate: f64,
}

/// A bar of a chart.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub(crate) struct Bar {
    /// The first day.
    pub since: String,
    /// The last day.
    pub until: String,
    /// The number of runs.
    pub runs: usize,
    /// The number of runs by result. A run that may still be running has none.
    pub results: BTreeMap<RunResult, usize>,
}

/// A run in a list.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub(crate) struct RunLine {
    /// The key of the run.
    pub key: String,
    /// The title.
    pub title: String,
    /// The result. Null while it may still be running.
    pub result: Option<RunResult>,
    /// Why it stopped, in a sentence.
    pub verdict: String,
    /// The recorded stop reason.
    pub stop_reason: Option<String>,
    /// The project directory.
    pub project: Option<String>,
    /// The model.
    pub model: Option<String>,
    /// The number of steps.
    pub steps: Option<usize>,
    /// The tokens.
    pub tokens: Option<u64>,
    /// The cost in US dollars, recorded or estimated.
    pub cost: Option<f64>,
    /// Whether the cost is an estimate.
    pub cost_is_estimated: bool,
    /// Whether the cost may be higher, since some of it isn't recorded.
    pub cost_is_lower_bound: bool,
    /// The run time in milliseconds.
    pub duration_ms: Option<f64>,
    /// When it started.
    // In microseconds since the epoch.
    #[serde(rename = "started_at", serialize_with = "time")]
    #[schemars(with = "Option<String>")]
    pub started: Option<i64>,
}

fn time<S: Serializer>(micros: &Option<i64>, serializer: S) -> Result<S::Ok, S::Error> {
    micros.and_then(utc).serialize(serializer)
}

/// What a model used.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
pub(crate) struct ModelRow {
    /// The model. Empty if it isn't recorded, or for all models.
    pub name: String,
    /// The sums.
    #[serde(flatten)]
    pub used: Used,
    /// The sums of the period before.
    pub before: Option<Used>,
    /// The tokens and the cost for each bar.
    pub bars: Vec<ModelBar>,
}

/// What a model used in a bar of a chart.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, JsonSchema)]
pub(crate) struct ModelBar {
    /// The tokens.
    pub tokens: u64,
    /// The cost in US dollars, as far as known.
    pub cost: Option<f64>,
    /// Whether any part of the cost is an estimate.
    pub cost_is_estimated: bool,
    /// Whether the cost may be higher, since some of these tokens have no known cost.
    pub cost_is_lower_bound: bool,
}

/// A stop reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub(crate) struct StopReason {
    /// The recorded word. Null if none is recorded.
    pub name: Option<String>,
    /// The result of most runs with it. Null if most may still be running.
    pub result: Option<RunResult>,
    /// The number of runs.
    pub runs: usize,
    /// The number of runs in the period before.
    pub before: Option<usize>,
    /// The number of runs for each bar.
    pub bars: Vec<usize>,
}

/// A tool.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
pub(crate) struct ToolRow {
    /// Its name.
    pub name: String,
    /// The number of runs that called it.
    pub runs: usize,
    /// These runs by result.
    pub results: BTreeMap<RunResult, usize>,
    /// The number of its calls.
    pub calls: u64,
    /// The number of its calls with a recorded outcome.
    pub calls_judged: u64,
    /// The number of its failed calls.
    pub calls_failed: u64,
    /// How long its calls took together, in milliseconds, as far as known, in runs that are over.
    pub total_ms: Option<f64>,
    /// The number of its calls with a known duration, in runs that are over.
    pub calls_timed: u64,
    /// The duration in milliseconds that half of these calls didn't exceed, within 5%. Null for
    /// fewer than 20 calls.
    pub p50_ms: Option<f64>,
    /// The duration in milliseconds that 95% of these calls didn't exceed, within 5%. Null for
    /// fewer than 20 calls.
    pub p95_ms: Option<f64>,
}

/// A project.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
pub(crate) struct ProjectRow {
    /// Its directory. Null for runs that don't record one.
    pub name: Option<String>,
    /// The number of runs.
    pub runs: usize,
    /// The number of runs by result.
    pub results: BTreeMap<RunResult, usize>,
    /// The tokens.
    pub tokens: Option<u64>,
    /// The cost in US dollars, as far as known.
    pub cost: Option<f64>,
    /// Whether any part of the cost is an estimate.
    pub cost_is_estimated: bool,
    /// Whether the cost may be higher, since some of it isn't recorded.
    pub cost_is_lower_bound: bool,
    /// The cost in the period before.
    pub cost_before: Option<f64>,
    /// The number of runs in the period before.
    pub runs_before: usize,
}

/// A run with the day and the hour at which it started.
type Placed<'a> = (&'a Summary, Option<Moment>);

/// Counts the runs that [`overview`] sums up.
pub(crate) fn number<'a>(runs: impl IntoIterator<Item = &'a Summary>, asked: &Asked<'_>) -> usize {
    let mut calendar = Calendar::new(asked.zone);
    let runs = runs.into_iter().filter(|run| run.counts());
    let mut day = |run: &Summary| Some(calendar.at(run.started?)?.day);
    runs.filter(|run| asked.days.has(day(run))).count()
}

/// Sums up `runs`. Runs that don't count are skipped. With `asked.is_part`, only what changes on an
/// open page is summed up.
pub(crate) fn overview<'a>(
    runs: impl IntoIterator<Item = &'a Summary>,
    asked: &Asked<'_>,
) -> Overview {
    let periods = Periods::new(asked.days, asked.now, asked.zone);
    let mut calendar = Calendar::new(asked.zone);
    let (mut now, mut before): (Vec<Placed<'_>>, Vec<&Summary>) = (Vec::new(), Vec::new());
    // The runs of all days before, in which a failure may have been seen.
    let mut earlier: Vec<&Summary> = Vec::new();
    let (mut first, mut runs_without_time, mut runs_on_any_day) = (None::<Date>, 0, 0);
    for run in runs.into_iter().filter(|run| run.counts()) {
        let moment = run.started.and_then(|at| calendar.at(at));
        let day = moment.map(|moment| moment.day);
        first = match (first, day) {
            (Some(first), Some(day)) => Some(first.min(day)),
            (first, day) => first.or(day),
        };
        runs_on_any_day += 1;
        if periods.days.has(day) {
            now.push((run, moment));
        } else if day.is_none() {
            runs_without_time += 1;
        } else {
            if asked.days.since.is_some_and(|since| day < Some(since)) {
                earlier.push(run);
            }
            if periods.was_before(day, run.started) {
                before.push(run);
            }
        }
    }
    let is_compared = periods.complete_before(first).is_some() && !before.is_empty();
    if !is_compared {
        before.clear();
    }
    let today = Timestamp::from_microsecond(asked.now)
        .unwrap_or_default()
        .to_zoned(asked.zone.clone())
        .date();
    let runs: Vec<&Summary> = now.iter().map(|(run, _)| *run).collect();
    let report = Report {
        scale: scale(&now, asked.days, today),
        shares: CostShares::of(runs.iter().copied()),
        shares_before: CostShares::of(before.iter().copied()),
        runs,
        now,
        before,
        is_compared,
        limit: asked.limit,
    };
    let tasks_now = tasks::by_task(&report.runs);
    let tasks_before = tasks::by_task(&report.before);
    let shared = tasks::shared(&tasks_now, &tasks_before);
    let word = |day: Option<Date>| day.map(|day| day.to_string());
    let totals = totals(&report.runs, &report.shares);
    let totals_before = is_compared.then(|| self::totals(&report.before, &report.shares_before));
    let mut overview = Overview {
        since: word(asked.days.since),
        until: word(asked.days.until),
        before: totals_before,
        shared_tasks: shared.map(|(tasks, rate_before, rate)| SharedTasks {
            tasks,
            rate_before,
            rate,
        }),
        repeated_tasks: tasks::repeated(&report.runs),
        bars_are: report.unit().as_str(),
        bars: report.bars(),
        newest_failures: report.newest(MAX_FAILURES, |result| {
            result.is_some_and(|result| TROUBLE.contains(&result))
        }),
        newest_runs: match report.runs.len() {
            ..MIN_CHARTED => report.newest(MIN_CHARTED, |_| true),
            _ => Vec::new(),
        },
        duplicates: report.runs.iter().map(|run| run.relation.copies).sum(),
        totals,
        runs_without_time,
        runs_on_any_day,
        today,
        days: asked.days,
        ..Overview::default()
    };
    overview.runs_without_bar = match &report.scale {
        Some(_) => dated(&report.now) - overview.bars.iter().map(|bar| bar.runs).sum::<usize>(),
        None => 0,
    };
    if asked.is_part {
        return overview;
    }
    let mut projects = report.projects();
    let day = |at: i64, calendar: &mut Calendar<'_>| calendar.at(at).map(|moment| moment.day);
    let (change, not_searched) = change(&tasks_now, &mut |at| day(at, &mut calendar));
    overview.tasks_not_searched = not_searched;
    let earlier = earlier.iter().copied();
    overview.failures = report.failures(earlier, asked.now);
    let new_failure = || {
        let failure = overview.failures.largest_new.as_ref()?;
        let first = failure.first_at.and_then(|at| calendar.at(at));
        (failure.runs_ended >= MIN_ENDED).then(|| Finding::NewFailure {
            id: failure.id.clone(),
            message: failure.message.clone(),
            runs_ended: failure.runs_ended,
            since: first.map(|first| first.day.to_string()),
        })
    };
    overview.finding = change
        .or_else(new_failure)
        .or_else(|| costs(&overview.totals, overview.before.as_ref(), &projects))
        .unwrap_or_default();
    projects.retain(|row| row.runs > 0);
    (overview.all_models, overview.models) = report.models();
    overview.tasks = tasks::rows(&tasks_now, asked.limit);
    overview.hours = report.hours();
    overview.stop_reasons = report.stop_reasons();
    (overview.tools, overview.tool_ms) = report.tools();
    (overview.tool_calls, overview.tool_errors) = (
        report.sum(|run| run.tool_calls),
        report.sum(|run| run.tool_errors),
    );
    overview.tool_calls_with_errors =
        report.sum(|run| run.tool_calls.filter(|_| run.tool_errors.is_some()));
    overview.projects = Ranked::new(projects, asked.limit);
    overview.answer = overview.sentence();
    overview
}

/// Returns how many of the runs record when they started.
fn dated(runs: &[Placed<'_>]) -> usize {
    runs.iter().filter(|(_, moment)| moment.is_some()).count()
}

/// Returns the days before the period, whether or not it has ended.
fn days_before(days: Days, today: Date) -> Option<Days> {
    let until = days.until.map_or(today, |until| until.min(today));
    Days {
        until: Some(until),
        ..days
    }
    .before()
}

/// Returns the bars for the days of the period on which runs started. If the first and the last day
/// are both known, days without runs have bars too.
fn scale(now: &[Placed<'_>], days: Days, today: Date) -> Option<Scale> {
    let known = || {
        now.iter()
            .filter_map(|(_, moment)| Some(moment.as_ref()?.day))
    };
    // A clock that is wrong mustn't squeeze the chart.
    let first = known().min()?;
    let last = known().max()?.min(today).max(first);
    let until = days.until.unwrap_or(last).min(today.max(last));
    Some(Scale::new(
        days.since.unwrap_or(first),
        if days.since.is_some() { until } else { last },
    ))
}

fn totals(runs: &[&Summary], shares: &CostShares<'_>) -> Totals {
    let [mut tokens, mut cost, mut duration] = [TOKENS, COST, DURATION].map(Adding::new);
    let mut totals = Totals {
        runs: runs.len(),
        ..Totals::default()
    };
    let mut read = 0;
    for run in runs {
        if let Some(result) = run.result() {
            *totals.results.entry(result).or_default() += 1;
        }
        if let Some(passed) = run.solved() {
            totals.judged += 1;
            totals.passed += usize::from(passed);
        }
        // As in the run table, a run that is still being read has no final numbers.
        if run.partial {
            continue;
        }
        read += 1;
        for sum in [&mut tokens, &mut cost, &mut duration] {
            sum.add(run, shares);
        }
    }
    let [tokens, cost, duration] =
        [tokens, cost, duration].map(|sum| Measure::new(sum.total(), read));
    Totals {
        tokens,
        cost,
        duration_ms: duration,
        ..totals
    }
}

/// Finds the clearest change of a repeated task. Also returns the number of tasks that weren't searched.
fn change(
    tasks: &[(&str, tasks::TaskRuns<'_>)],
    day: &mut dyn FnMut(i64) -> Option<Date>,
) -> (Option<Finding>, usize) {
    // Without times, the order of the runs is unknown.
    let dated: Vec<(&str, tasks::TaskRuns<'_>)> = tasks
        .iter()
        .map(|(task, runs)| {
            let runs = runs.iter().filter(|(run, _)| run.started.is_some());
            (*task, runs.copied().collect())
        })
        .collect();
    let results: Vec<Vec<bool>> = dated
        .iter()
        .map(|(_, runs)| runs.iter().map(|(_, passed)| *passed).collect())
        .collect();
    let found = change_point::find(&results);
    let passed = |runs: &[(&Summary, bool)]| runs.iter().filter(|(_, passed)| *passed).count();
    let mut finding = || {
        let point = found.point?;
        let (task, runs) = dated.get(point.task)?;
        let (before, after) = runs.split_at_checked(point.at)?;
        let since = day(after.first()?.0.started?)?;
        Some(Finding::ChangePoint {
            task: first_line(task),
            query: task_query(task),
            since: since.to_string(),
            passed: passed(after),
            runs: after.len(),
            passed_before: passed(before),
            runs_before: before.len(),
            p: point.p,
        })
    };
    (finding(), found.not_searched)
}

/// Returns the change of the cost, if it's large and both periods have enough runs.
fn costs(now: &Totals, before: Option<&Totals>, projects: &[ProjectRow]) -> Option<Finding> {
    /// Changes by less than a quarter happen every week.
    const LARGE: f64 = 1.25;
    let before = before?;
    let enough = now.cost.runs.min(before.cost.runs) >= trend::FEW;
    let (cost, was) = (now.cost.sum?, before.cost.sum?);
    let is_large = was > 0.0 && cost > 0.0 && (cost / was >= LARGE || was / cost >= LARGE);
    if !enough || !is_large {
        return None;
    }
    let change = |row: &ProjectRow| row.cost.unwrap_or(0.0) - row.cost_before.unwrap_or(0.0);
    let sign = if cost > was { 1.0 } else { -1.0 };
    let most = projects
        .iter()
        .max_by(|a, b| (change(a) * sign).total_cmp(&(change(b) * sign)));
    Some(Finding::Cost {
        before: was,
        project: most.and_then(|row| row.name.clone()),
        change: most.map_or(0.0, change),
    })
}

/// The runs of a report.
struct Report<'a> {
    now: Vec<Placed<'a>>,
    /// The runs of `now`.
    runs: Vec<&'a Summary>,
    before: Vec<&'a Summary>,
    /// The shares in recorded costs among `runs`, and among `before`.
    shares: CostShares<'a>,
    shares_before: CostShares<'a>,
    is_compared: bool,
    scale: Option<Scale>,
    limit: usize,
}

impl<'a> Report<'a> {
    fn unit(&self) -> Unit {
        self.scale.as_ref().map_or(Unit::Day, |scale| scale.unit)
    }

    /// Returns the bar of a run.
    fn bar(&self, moment: Option<Moment>) -> Option<usize> {
        self.scale.as_ref()?.bar(moment?.day)
    }

    /// Adds up a number that runs may record. `None` if no run does.
    fn sum(&self, of: impl Fn(&Summary) -> Option<u64>) -> Option<u64> {
        let known = self.runs.iter().filter_map(|run| of(run));
        known.reduce(u64::saturating_add)
    }

    fn number_of_bars(&self) -> usize {
        self.scale.as_ref().map_or(0, |scale| scale.bars.len())
    }

    fn bars(&self) -> Vec<Bar> {
        let days = self.scale.iter().flat_map(|scale| &scale.bars);
        let mut bars: Vec<Bar> = days
            .map(|(since, until)| Bar {
                since: since.to_string(),
                until: until.to_string(),
                runs: 0,
                results: BTreeMap::new(),
            })
            .collect();
        for (run, moment) in &self.now {
            let Some(bar) = self.bar(*moment).and_then(|at| bars.get_mut(at)) else {
                continue;
            };
            bar.runs += 1;
            if let Some(result) = run.result() {
                *bar.results.entry(result).or_default() += 1;
            }
        }
        bars
    }

    /// Returns the newest runs with such a result.
    fn newest(&self, limit: usize, is_shown: impl Fn(Option<RunResult>) -> bool) -> Vec<RunLine> {
        let mut runs: Vec<&Summary> = self
            .runs
            .iter()
            .copied()
            .filter(|run| is_shown(run.result()))
            .collect();
        let newest = |run: &&Summary| Reverse(run.started.or(run.updated));
        if runs.len() > limit && limit > 0 {
            runs.select_nth_unstable_by_key(limit - 1, newest);
            runs.truncate(limit);
        }
        runs.sort_by(|a, b| newest(a).cmp(&newest(b)).then_with(|| a.key.cmp(&b.key)));
        runs.into_iter().map(RunLine::of).collect()
    }

    /// Returns the failures of the period. `earlier` are the runs before.
    fn failures(&self, earlier: impl Iterator<Item = &'a Summary>, now: i64) -> PeriodFailures {
        const DAY: i64 = 86_400_000_000;
        let runs = self.now.iter();
        of_period(
            runs.map(|(run, moment)| (*run, self.bar(*moment))),
            earlier,
            self.number_of_bars(),
            now.saturating_sub(RECENT_DAYS * DAY),
            MAX_FAILURES,
        )
    }

    /// Returns what all models used, and what each used.
    fn models(&self) -> (ModelRow, Ranked<ModelRow>) {
        let mut used: HashMap<&str, Used> = HashMap::new();
        let mut before: HashMap<&str, Used> = HashMap::new();
        let mut bars: HashMap<(&str, usize), ModelBar> = HashMap::new();
        let mut all = Used::default();
        let mut all_before = Used::default();
        let mut all_bars = vec![ModelBar::default(); self.number_of_bars()];
        // As in the totals, a run that is still being read has no final numbers.
        let is_read = |run: &Summary| !run.partial;
        for (n, (run, moment)) in self.now.iter().enumerate() {
            if !is_read(run) {
                continue;
            }
            let bar = self.bar(*moment);
            for part in parts(run, self.shares.cost(run)) {
                used.entry(part.model).or_default().add(&part, n + 1);
                all.add(&part, n + 1);
                let Some(bar) = bar else { continue };
                bars.entry((part.model, bar)).or_default().add(&part);
                if let Some(sum) = all_bars.get_mut(bar) {
                    sum.add(&part);
                }
            }
        }
        for (n, run) in self.before.iter().enumerate() {
            if !is_read(run) {
                continue;
            }
            for part in parts(run, self.shares_before.cost(run)) {
                before.entry(part.model).or_default().add(&part, n + 1);
                all_before.add(&part, n + 1);
            }
        }
        let mut names: Vec<(&str, Used)> = used.into_iter().collect();
        names.sort_by(|(a, used), (b, other)| by_cost(used, other).then_with(|| a.cmp(b)));
        let Ranked { rows, left_out } = Ranked::new(names, self.limit);
        let rows = rows
            .into_iter()
            .map(|(name, used)| ModelRow {
                name: name.to_owned(),
                used,
                before: before.remove(name),
                bars: (0..self.number_of_bars())
                    .map(|bar| bars.get(&(name, bar)).copied().unwrap_or_default())
                    .collect(),
            })
            .collect();
        let all = ModelRow {
            name: String::new(),
            used: all,
            before: self.is_compared.then_some(all_before),
            bars: all_bars,
        };
        (all, Ranked { rows, left_out })
    }

    fn hours(&self) -> Vec<Vec<usize>> {
        let mut hours = vec![vec![0; 24]; 7];
        for moment in self.now.iter().filter_map(|(_, moment)| *moment) {
            let day = moment.day.weekday().to_monday_zero_offset();
            let day = usize::try_from(day).unwrap_or_default();
            if let Some(count) = hours.get_mut(day).and_then(|day| day.get_mut(moment.hour)) {
                *count += 1;
            }
        }
        hours
    }

    fn stop_reasons(&self) -> Ranked<StopReason> {
        fn word(run: &Summary) -> Option<&str> {
            Some(STOP.recorded_text(run)).filter(|word| !word.is_empty())
        }
        let mut found: HashMap<Option<&str>, HashMap<Option<RunResult>, usize>> = HashMap::new();
        let mut bars: HashMap<(Option<&str>, usize), usize> = HashMap::new();
        for (run, moment) in &self.now {
            let reason = word(run);
            *found
                .entry(reason)
                .or_default()
                .entry(run.result())
                .or_default() += 1;
            if let Some(bar) = self.bar(*moment) {
                *bars.entry((reason, bar)).or_default() += 1;
            }
        }
        let mut before: HashMap<Option<&str>, usize> = HashMap::new();
        for run in &self.before {
            *before.entry(word(run)).or_default() += 1;
        }
        let mut names: Vec<(Option<&str>, Option<RunResult>, usize)> = found
            .into_iter()
            .map(|(name, results)| {
                let runs = results.values().sum();
                let most = results
                    .into_iter()
                    .max_by_key(|(result, count)| (*count, Reverse(*result)));
                (name, most.and_then(|(result, _)| result), runs)
            })
            .collect();
        // The most frequent ones are shown, in the order of the results.
        names.sort_by_key(|(name, _, runs)| (Reverse(*runs), *name));
        let Ranked { mut rows, left_out } = Ranked::new(names, self.limit);
        rows.sort_by_key(|(name, result, runs)| (result.is_none(), *result, Reverse(*runs), *name));
        let rows = rows
            .into_iter()
            .map(|(name, result, runs)| StopReason {
                name: name.map(str::to_owned),
                result,
                runs,
                before: self
                    .is_compared
                    .then(|| before.get(&name).copied().unwrap_or_default()),
                bars: (0..self.number_of_bars())
                    .map(|bar| bars.get(&(name, bar)).copied().unwrap_or_default())
                    .collect(),
            })
            .collect();
        Ranked { rows, left_out }
    }

    /// Returns the tools, those whose calls took longest first, and how long all calls took.
    fn tools(&self) -> (Ranked<ToolRow>, Option<f64>) {
        let mut found: HashMap<&str, ToolRow> = HashMap::new();
        let mut durations = Durations::default();
        for run in &self.runs {
            let result = run.result();
            durations.add(&run.call_times, &run.tools);
            for (tool, sum) in run.tools.iter().zip(&run.tool_sums) {
                let row = found.entry(tool).or_default();
                row.runs += 1;
                if let Some(result) = result {
                    *row.results.entry(result).or_default() += 1;
                }
                row.calls += u64::from(sum.calls);
                row.calls_judged += u64::from(sum.judged);
                row.calls_failed += u64::from(sum.failed);
                if sum.ms > 0.0 {
                    *row.total_ms.get_or_insert_default() += f64::from(sum.ms);
                }
            }
        }
        let mut rows: Vec<(&str, ToolRow)> = found.into_iter().collect();
        let ms = |row: &ToolRow| row.total_ms.unwrap_or_default();
        rows.sort_by(|(a, row), (b, other)| {
            (ms(other).total_cmp(&ms(row)))
                .then_with(|| other.calls.cmp(&row.calls))
                .then_with(|| a.cmp(b))
        });
        let all_ms = rows.iter().map(|(_, row)| ms(row)).sum();
        let tools = Ranked::new(rows, self.limit).map(|(name, row)| ToolRow {
            name: name.to_owned(),
            calls_timed: durations.calls(name),
            p50_ms: durations.percentile(name, 50),
            p95_ms: durations.percentile(name, 95),
            ..row
        });
        (tools, Some(all_ms).filter(|ms| *ms > 0.0))
    }

    /// Returns the projects of both periods.
    fn projects(&self) -> Vec<ProjectRow> {
        fn name<'a>(run: &&'a Summary) -> Option<&'a str> {
            run.project.as_deref().filter(|name| !name.is_empty())
        }
        fn new(name: Option<&str>) -> ProjectRow {
            ProjectRow {
                name: name.map(str::to_owned),
                ..ProjectRow::default()
            }
        }
        let mut found: BTreeMap<Option<&str>, ProjectRow> = BTreeMap::new();
        for run in &self.runs {
            let name = name(run);
            let row = found.entry(name).or_insert_with(|| new(name));
            row.runs += 1;
            if let Some(result) = run.result() {
                *row.results.entry(result).or_default() += 1;
            }
            if run.partial {
                continue;
            }
            if let Some(tokens) = run.tokens {
                let sum = row.tokens.get_or_insert_default();
                *sum = sum.saturating_add(tokens);
            }
            let cost = Amount::of(COST, run, &self.shares);
            if let Some(cost) = cost {
                *row.cost.get_or_insert_default() += cost.number;
                row.cost_is_estimated |= cost.is_estimate;
                row.cost_is_lower_bound |= cost.is_lower_bound;
            }
        }
        for run in &self.before {
            let name = name(run);
            let row = found.entry(name).or_insert_with(|| new(name));
            row.runs_before += 1;
            let cost = Amount::of(COST, run, &self.shares_before).filter(|_| !run.partial);
            if let Some(cost) = cost {
                *row.cost_before.get_or_insert_default() += cost.number;
            }
        }
        let mut rows: Vec<ProjectRow> = found.into_values().collect();
        let cost = |row: &ProjectRow| row.cost.unwrap_or(0.0);
        rows.sort_by(|a, b| {
            cost(b)
                .total_cmp(&cost(a))
                .then(b.tokens.cmp(&a.tokens))
                .then(b.runs.cmp(&a.runs))
        });
        rows
    }
}

impl ModelBar {
    fn add(&mut self, part: &Part<'_>) {
        self.tokens = self.tokens.saturating_add(part.tokens());
        match part.cost() {
            Some(cost) => {
                *self.cost.get_or_insert_default() += cost;
                self.cost_is_estimated |= part.is_estimate();
            }
            None => self.cost_is_lower_bound |= part.tokens() > 0,
        }
    }
}

impl RunLine {
    fn of(run: &Summary) -> Self {
        let cost = Amount::of(COST, run, &CostShares::default());
        let text = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
        Self {
            key: run.key.to_string(),
            title: first_line(run.title()),
            result: run.result(),
            verdict: run.verdict.sentence.to_string(),
            stop_reason: text(STOP.recorded_text(run)),
            project: run.project.clone(),
            model: text(MODEL.recorded_text(run)),
            steps: run.steps_known(),
            tokens: run.tokens,
            cost: cost.as_ref().map(|cost| cost.number),
            cost_is_estimated: cost.as_ref().is_some_and(|cost| cost.is_estimate),
            cost_is_lower_bound: cost.is_some_and(|cost| cost.is_lower_bound),
            duration_ms: run.duration_ms,
            started: run.started,
        }
    }
}
