//! Adds up the failures of runs by message: how many runs and steps have each, how many runs it
//! ended, and what the agent did next.
//!
//! The messages are folded when a run is indexed ([`message`](crate::model::failure::message)).

mod of_run;
#[cfg(test)]
mod tests;

use std::cmp::Reverse;
use std::collections::HashMap;

use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan as _};
use schemars::JsonSchema;
use serde::Serialize;

pub(in crate::analysis) use of_run::failures as failures_of_run;
pub use of_run::{RunFailure, id_text, is_id};

use super::format::{count, counted};
use super::run_result::ShownStatus;
use super::summary::Summary;
use crate::model::failure::message::parts;
use crate::model::failure::{AfterFailure, FailureSource};

pub use crate::model::failure::message::Part;

/// The bars of a trend, at most. With more days, a bar stands for several.
const MAX_BARS: i32 = 30;
/// The days of a trend, at most. Older runs have no bar.
const MAX_DAYS: i32 = 90;
/// The newest runs of a failure that are listed.
const MAX_RUNS: usize = 10;
/// The projects, models and agents of a failure that are listed.
const MAX_SHARES: usize = 6;
/// The days in which a failure counts as new, and without which it counts as quiet.
pub const RECENT_DAYS: i64 = 7;
/// A failure isn't rising with fewer runs in the recent days.
const MIN_RISING: usize = 4;

/// The failures of many runs, by message.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Failures {
    /// The number of matching runs. Duplicates count once.
    pub runs: usize,
    /// The runs in which something failed.
    pub runs_with_failures: usize,
    /// The runs that a failure ended.
    pub runs_ended: usize,
    /// The runs that lack records, so that they may have further failures.
    pub runs_incomplete: usize,
    /// The failed steps.
    pub steps: u64,
    /// The part of these steps that is in none of the failures, because a run keeps only its first 64
    /// messages.
    pub steps_left_out: u64,
    /// The first day of the trends, `YYYY-MM-DD`. Null if no time is known.
    pub first_day: Option<String>,
    /// The last day of the trends.
    pub last_day: Option<String>,
    /// The days that each number of a trend covers.
    pub days_per_bar: i32,
    /// The failures: those that ended most runs first, then by runs and steps.
    pub failures: Vec<Failure>,
    /// The number of further failures, which are left out.
    pub failures_left_out: usize,
}

/// What failed in several runs with one message.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Failure {
    /// The id, for `failure:ID` in queries. It depends only on source, tool and message.
    pub id: String,
    /// What failed.
    pub source: FailureSource,
    /// The tool, if known.
    pub tool: Option<String>,
    /// The first error of each step, with numbers, paths, quoted texts, addresses, ids and times
    /// replaced: `‹n›`, `‹path›`, `‹text›`, `‹address›`, `‹id›`, `‹time›`, `‹model›`.
    pub message: String,
    /// The runs that have it.
    pub runs: usize,
    /// The runs that it ended.
    pub runs_ended: usize,
    /// The steps that have it.
    pub steps: u64,
    /// When it first happened, if recorded.
    pub first_seen: Option<String>,
    /// When it last happened.
    pub last_seen: Option<String>,
    /// Whether it was first seen in the last 7 days, although there are older runs.
    pub is_new: bool,
    /// Whether it had at least twice as many runs in the last 7 days as in the 7 days before.
    pub is_rising: bool,
    /// Whether it was last seen more than 7 days ago.
    pub is_quiet: bool,
    /// The number of runs by day, from `first_day` on: at most 90 days.
    pub trend: Vec<usize>,
    /// What happened next.
    pub next: Next,
    /// The newest runs that have it, those that it ended first.
    pub examples: Vec<Example>,
    /// The projects in which it happened most.
    pub projects: Vec<Share>,
    /// The models with which it happened most.
    pub models: Vec<Share>,
    /// The programs with which it happened most.
    pub tools: Vec<Share>,
    /// The time of `first_seen` in microseconds.
    #[serde(skip)]
    pub first_at: Option<i64>,
    /// The time of `last_seen` in microseconds.
    #[serde(skip)]
    pub last_at: Option<i64>,
}

/// What happened after the steps in which something failed; numbers of steps.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Next {
    /// The failure ended the run.
    pub ended_run: u64,
    /// The same call or request was made again and failed.
    pub same_call_failed: u64,
    /// The same call or request was made again and worked.
    pub same_call_worked: u64,
    /// The same tool was called with other arguments.
    pub same_tool: u64,
    /// Another tool was called.
    pub other_tool: u64,
    /// The model replied without a call.
    pub reply: u64,
    /// No step followed, for another reason.
    pub nothing: u64,
}

/// A run that has a failure.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Example {
    /// The key of the run.
    pub run: String,
    /// Its title.
    pub title: String,
    /// Its status.
    pub status: ShownStatus,
    /// The first step that has the failure. Null if the step has no line, or if the run ended with
    /// it after its last step.
    pub step: Option<usize>,
    /// The number of steps.
    pub steps: u32,
    /// Whether it ended the run.
    pub ended: bool,
    /// When the last of these steps began, if recorded.
    pub at: Option<String>,
    /// The project and the model, as far as recorded.
    #[serde(skip)]
    pub about: String,
    /// The time in microseconds.
    #[serde(skip)]
    pub micros: Option<i64>,
}

/// A project, model or program, and the number of runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Share {
    /// The name.
    pub name: String,
    /// The number of runs.
    pub runs: usize,
}

impl Next {
    /// Returns what happened in words and how often, the most frequent first.
    pub fn rows(&self, source: FailureSource) -> Vec<(&'static str, u64)> {
        let is_call = source == FailureSource::Tool;
        let words = |call, request| if is_call { call } else { request };
        let mut rows = vec![
            ("ended the run", self.ended_run),
            (
                words("same call again, failed", "tried again, failed"),
                self.same_call_failed,
            ),
            (
                words("same call again, worked", "tried again, worked"),
                self.same_call_worked,
            ),
            ("same tool, other arguments", self.same_tool),
            ("another tool", self.other_tool),
            ("reply without a call", self.reply),
            ("no further step", self.nothing),
        ];
        rows.retain(|(_, count)| *count > 0);
        rows.sort_by_key(|(_, count)| Reverse(*count));
        rows
    }

    fn add(&mut self, failure: &RunFailure) {
        for (after, count) in AfterFailure::ALL.into_iter().zip(failure.next) {
            let sum = match after {
                AfterFailure::SameFailed => &mut self.same_call_failed,
                AfterFailure::SameWorked => &mut self.same_call_worked,
                AfterFailure::SameTool => &mut self.same_tool,
                AfterFailure::OtherTool => &mut self.other_tool,
                AfterFailure::Reply => &mut self.reply,
                AfterFailure::Nothing => &mut self.nothing,
            };
            // The step after which nothing follows is the one that ended the run.
            let is_end = after == AfterFailure::Nothing && failure.ended && count > 0;
            *sum += u64::from(count) - u64::from(is_end);
        }
        self.ended_run += u64::from(failure.ended);
    }
}

impl Failure {
    /// Returns where it happens: the tool, `model` or `run`.
    pub fn place(&self) -> &str {
        match (self.source, self.tool.as_deref()) {
            (FailureSource::Tool, Some(tool)) => tool,
            (source, _) => source.as_str(),
        }
    }

    /// Returns the words of the message and the marks between them.
    pub fn parts(&self) -> Vec<Part<'_>> {
        parts(&self.message)
    }

    /// Returns the message with `<n>` for `‹n›`, for terminals.
    pub fn plain(&self) -> String {
        let part = |part: &Part<'_>| match part {
            Part::Words(words) => (*words).to_owned(),
            Part::Folded(word) => format!("<{word}>"),
        };
        self.parts().iter().map(part).collect()
    }
}

impl Failures {
    /// Keeps at most `most` failures.
    #[must_use]
    pub fn limited(mut self, most: usize) -> Self {
        self.failures_left_out += self.failures.len().saturating_sub(most);
        self.failures.truncate(most);
        self
    }

    /// Returns how many runs had a failure, and what became of them, in a sentence.
    pub fn runs_words(&self) -> String {
        let carried = self.runs_with_failures.saturating_sub(self.runs_ended);
        let of = format!(
            "{} of {} had a failure",
            count(self.runs_with_failures as u64),
            counted(self.runs, "run")
        );
        match (carried, self.runs_ended) {
            (_, 0) => format!("{of}, and none ended with it."),
            (carried, ended) => format!(
                "{of}: {} carried on, {} ended with it.",
                count(carried as u64),
                count(ended as u64)
            ),
        }
    }

    /// States what isn't counted, in sentences without a full stop.
    pub fn left_out(&self) -> Vec<String> {
        let steps = (self.steps_left_out > 0).then(|| {
            format!(
                "{} of {} failed steps left out: a run keeps its first 64 messages",
                count(self.steps_left_out),
                count(self.steps)
            )
        });
        let runs = (self.runs_incomplete > 0).then(|| {
            format!(
                "{} may have more failures than their records show",
                counted(self.runs_incomplete, "run")
            )
        });
        steps.into_iter().chain(runs).collect()
    }
}

/// A failure under construction.
struct Sums<'a> {
    first: &'a RunFailure,
    steps: u64,
    ended: usize,
    first_at: Option<i64>,
    last_at: Option<i64>,
    next: Next,
    runs: Vec<(&'a Summary, &'a RunFailure)>,
}

/// Returns when a failure first or last happened in a run: at the time of the step, or else of the
/// run.
fn time(at: Option<std::num::NonZeroU32>, run: Option<i64>) -> Option<i64> {
    at.map(|seconds| i64::from(seconds.get()) * 1_000_000)
        .or(run)
}

/// Adds up the failures of `runs`. `now` is in microseconds since the epoch.
pub fn failures<'a>(
    runs: impl IntoIterator<Item = &'a Summary>,
    now: i64,
    zone: &TimeZone,
) -> Failures {
    let mut sums: HashMap<u64, Sums<'a>> = HashMap::new();
    let (mut all, mut failed, mut ended, mut incomplete) = (0, 0, 0, 0);
    let (mut steps, mut left_out) = (0, 0);
    let mut oldest: Option<i64> = None;
    for run in runs.into_iter().filter(|run| run.counts()) {
        all += 1;
        failed += usize::from(!run.failures.is_empty() || run.failures_left_out > 0);
        ended += usize::from(run.failures.iter().any(|failure| failure.ended));
        incomplete += usize::from(run.errors_unknown);
        left_out += run.failures_left_out as u64;
        steps += run.failures_left_out as u64;
        oldest = [oldest, run.started].into_iter().flatten().min();
        for failure in &run.failures {
            let sum = sums.entry(failure.id).or_insert_with(|| Sums {
                first: failure,
                steps: 0,
                ended: 0,
                first_at: None,
                last_at: None,
                next: Next::default(),
                runs: Vec::new(),
            });
            steps += u64::from(failure.steps);
            sum.steps += u64::from(failure.steps);
            sum.ended += usize::from(failure.ended);
            let first_at = time(failure.first_at, run.started);
            let last_at = time(failure.last_at, run.updated.filter(|_| first_at.is_some()));
            sum.first_at = [sum.first_at, first_at].into_iter().flatten().min();
            sum.last_at = sum.last_at.max(last_at);
            sum.next.add(failure);
            sum.runs.push((run, failure));
        }
    }
    let calendar = Calendar::new(
        zone,
        sums.values().flat_map(|sum| [sum.first_at, sum.last_at]),
    );
    let recent = now.saturating_sub(RECENT_DAYS * DAY);
    let mut failures: Vec<Failure> = sums
        .into_values()
        .map(|sum| sum.done(&calendar, recent, oldest))
        .collect();
    failures.sort_by(|a, b| {
        let rank = |failure: &Failure| Reverse((failure.runs_ended, failure.runs, failure.steps));
        rank(a)
            .cmp(&rank(b))
            .then_with(|| a.message.cmp(&b.message))
            .then_with(|| a.id.cmp(&b.id))
    });
    let words = |day: Option<Date>| day.map(|day| day.to_string());
    Failures {
        runs: all,
        runs_with_failures: failed,
        runs_ended: ended,
        runs_incomplete: incomplete,
        steps,
        steps_left_out: left_out,
        first_day: words(calendar.days.map(|(first, _)| first)),
        last_day: words(calendar.days.map(|(_, last)| last)),
        days_per_bar: calendar.days_per_bar,
        failures,
        failures_left_out: 0,
    }
}

/// A day in microseconds.
const DAY: i64 = 86_400_000_000;

impl Sums<'_> {
    fn done(mut self, calendar: &Calendar<'_>, recent: i64, oldest: Option<i64>) -> Failure {
        let mut trend = vec![0; calendar.bars()];
        let (mut now, mut before) = (0, 0);
        for (run, failure) in &self.runs {
            let at = time(failure.first_at, run.started);
            if let Some(bar) = at
                .and_then(|at| calendar.bar(at))
                .and_then(|bar| trend.get_mut(bar))
            {
                *bar += 1;
            }
            now += usize::from(at >= Some(recent));
            before += usize::from(at < Some(recent) && at >= Some(recent - RECENT_DAYS * DAY));
        }
        let shares = |name: fn(&Summary) -> Option<&str>| {
            let mut counts: HashMap<&str, usize> = HashMap::new();
            for (run, _) in &self.runs {
                if let Some(name) = name(run).filter(|name| !name.is_empty()) {
                    *counts.entry(name).or_default() += 1;
                }
            }
            let mut shares: Vec<Share> = counts
                .into_iter()
                .map(|(name, runs)| Share {
                    name: name.to_owned(),
                    runs,
                })
                .collect();
            shares.sort_by(|a, b| b.runs.cmp(&a.runs).then_with(|| a.name.cmp(&b.name)));
            shares.truncate(MAX_SHARES);
            shares
        };
        let projects = shares(|run| run.project.as_deref());
        let models = shares(|run| run.model.as_deref());
        let tools = shares(|run| run.tool.as_deref().or(Some(&run.format)));
        let runs = self.runs.len();
        self.runs.sort_by_key(|(run, failure)| {
            let at = time(failure.last_at, run.started);
            (Reverse(failure.ended), Reverse(at), run.key.clone())
        });
        let examples = self.runs.iter().take(MAX_RUNS);
        let is_new = oldest.is_some_and(|oldest| oldest < recent)
            && self.first_at.is_some_and(|first| first >= recent);
        Failure {
            id: id_text(self.first.id),
            source: self.first.source,
            tool: Some(self.first.tool.to_string()).filter(|tool| !tool.is_empty()),
            message: self.first.message.to_string(),
            runs,
            runs_ended: self.ended,
            steps: self.steps,
            first_seen: self.first_at.and_then(stamp),
            last_seen: self.last_at.and_then(stamp),
            is_new,
            is_rising: !is_new && now >= MIN_RISING && now >= 2 * before,
            is_quiet: self.last_at.is_some_and(|last| last < recent),
            trend,
            next: self.next,
            examples: examples
                .map(|(run, failure)| example(run, failure))
                .collect(),
            projects,
            models,
            tools,
            first_at: self.first_at,
            last_at: self.last_at,
        }
    }
}

fn example(run: &Summary, failure: &RunFailure) -> Example {
    let micros = time(failure.last_at, run.started);
    let project = run.project.as_deref().map(last_part);
    let about: Vec<&str> = project.into_iter().chain(run.model.as_deref()).collect();
    Example {
        run: run.key.as_str().to_owned(),
        title: run.title().to_owned(),
        status: run.shown_status(),
        step: failure.first_step(),
        steps: failure.steps,
        ended: failure.ended,
        at: micros.and_then(stamp),
        about: about.join(" · "),
        micros,
    }
}

/// Returns the last component of a path.
fn last_part(path: &str) -> &str {
    let trimmed = path.trim_end_matches(['/', '\\']);
    trimmed.rsplit(['/', '\\']).next().unwrap_or(path)
}

fn stamp(micros: i64) -> Option<String> {
    let at = Timestamp::from_microsecond(micros).ok()?;
    Some(at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string())
}

/// The days of the trends.
struct Calendar<'a> {
    zone: &'a TimeZone,
    days: Option<(Date, Date)>,
    days_per_bar: i32,
}

impl<'a> Calendar<'a> {
    fn new(zone: &'a TimeZone, times: impl Iterator<Item = Option<i64>>) -> Self {
        let mut span: Option<(i64, i64)> = None;
        for at in times.flatten() {
            let (first, last) = span.unwrap_or((at, at));
            span = Some((first.min(at), last.max(at)));
        }
        let mut calendar = Self {
            zone,
            days: None,
            days_per_bar: 1,
        };
        let days = span.and_then(|(first, last)| Some((calendar.day(first)?, calendar.day(last)?)));
        if let Some((first, last)) = days {
            let length = (days_between(first, last) + 1).min(MAX_DAYS);
            let per_bar = (length + MAX_BARS - 1) / MAX_BARS;
            // Whole bars, up to the last day.
            let bars = (length + per_bar - 1) / per_bar;
            let first = last
                .checked_sub((bars * per_bar - 1).days())
                .unwrap_or(first);
            calendar.days = Some((first, last));
            calendar.days_per_bar = per_bar;
        }
        calendar
    }

    fn day(&self, micros: i64) -> Option<Date> {
        let at = Timestamp::from_microsecond(micros).ok()?;
        Some(self.zone.to_datetime(at).date())
    }

    fn bars(&self) -> usize {
        let Some((first, last)) = self.days else {
            return 0;
        };
        let bars = (days_between(first, last) + 1) / self.days_per_bar;
        usize::try_from(bars).unwrap_or_default()
    }

    fn bar(&self, micros: i64) -> Option<usize> {
        let (first, _) = self.days?;
        let days = usize::try_from(days_between(first, self.day(micros)?)).ok()?;
        Some(days / usize::try_from(self.days_per_bar).ok()?)
    }
}

fn days_between(from: Date, to: Date) -> i32 {
    from.until(to).map_or(0, |span| span.get_days())
}
