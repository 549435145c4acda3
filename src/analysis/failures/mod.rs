//! Adds up the failures of runs by message: how many runs and steps have each, how often it happened,
//! how many runs it ended, and what the agent did next.
//!
//! The messages are folded when a run is indexed ([`message`](crate::model::failure::message)).

mod first_seen;
mod of_run;
#[cfg(test)]
mod tests;

use std::cmp::{Ordering, Reverse};
use std::collections::HashMap;

use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan as _};
use schemars::JsonSchema;
use serde::Serialize;

pub(in crate::analysis) use first_seen::of_period;
pub(crate) use first_seen::{FirstSeen, PeriodFailures};
use of_run::MAX_ROWS;
pub(in crate::analysis) use of_run::failures as failures_of_run;
pub(crate) use of_run::{RunFailure, id_text, is_id, message_of_end};

use super::format::{count, counted, last_part};
use super::run_result::ShownStatus;
use super::summary::Summary;
use crate::model::failure::{AfterFailure, FailureSource};

pub(crate) use crate::model::failure::message::Part;
pub(crate) use crate::model::failure::message::parts;

/// Maximum number of bars of a trend. With more days, each bar covers several.
const MAX_BARS: i32 = 30;
/// Maximum number of days of a trend. Older runs have no bar.
const MAX_DAYS: i32 = 90;
/// The newest runs of a failure that are listed.
const MAX_RUNS: usize = 10;
/// The projects, models and agents of a failure that are listed.
const MAX_SHARES: usize = 6;
/// Maximum number of places that are counted.
const MAX_PLACES: usize = 8;
/// The days in which a failure counts as new, and without which it counts as quiet.
pub(crate) const RECENT_DAYS: i64 = 7;
/// A failure isn't rising with fewer runs in the recent days.
const MIN_RISING: usize = 4;

/// The failures of many runs, by message.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
pub(crate) struct Failures {
    /// The number of matching runs. Duplicates aren't counted.
    pub runs: usize,
    /// The runs in which something failed.
    pub runs_with_failures: usize,
    /// The runs that a failure ended.
    pub runs_ended: usize,
    /// The runs that lack records, so that they may have further failures.
    pub runs_incomplete: usize,
    /// The failed steps.
    pub steps: u64,
    /// The part of these steps whose first error is in none of the failures, because a run keeps only
    /// its first 16 messages.
    pub steps_left_out: u64,
    /// The first day of the trends, `YYYY-MM-DD`. Null if no time is known.
    pub first_day: Option<String>,
    /// The last day of the trends.
    pub last_day: Option<String>,
    /// The days that each number of a trend covers.
    pub days_per_bar: i32,
    /// The failures: those that ended most runs first, then by runs and how often they happened.
    pub failures: Vec<Failure>,
    /// The number of further failures, which are left out.
    pub failures_left_out: usize,
    /// The numbers of all failures, chosen or not.
    #[serde(skip)]
    pub all: Counts,
}

/// What the failures of many runs are together.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Counts {
    /// The number of failures.
    pub failures: usize,
    /// Those that are new.
    pub new: usize,
    /// Those that are rising.
    pub rising: usize,
    /// Those that ended a run.
    pub ended: usize,
    /// Those that are quiet.
    pub quiet: usize,
    /// When the first of them first happened, in microseconds.
    pub first_at: Option<i64>,
    /// When the last of them last happened.
    pub last_at: Option<i64>,
    /// The message, the runs and the runs that it ended, of the failure that comes first.
    pub first: Option<(String, usize, usize)>,
    /// The places with most failures, and their number.
    pub places: Vec<(Place, u64)>,
}

/// Where a failure happens: a tool, the model, or the program that runs the agent. A tool may be named
/// like one of these.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Place {
    source: FailureSource,
    tool: Option<String>,
}

impl Place {
    /// The start of the word for a tool whose name could be taken for something else.
    const TOOL: &str = "tool:";

    /// Reads the word of an address.
    pub(crate) fn of(word: &str) -> Self {
        let tool = |name: &str| Self {
            source: FailureSource::Tool,
            tool: Some(name.to_owned()).filter(|name| !name.is_empty()),
        };
        if let Some(name) = word.strip_prefix(Self::TOOL) {
            return tool(name);
        }
        let source = FailureSource::ALL
            .into_iter()
            .find(|one| one.as_str() == word);
        source.map_or_else(|| tool(word), |source| Self { source, tool: None })
    }

    /// Returns the place that is a tool.
    pub(crate) fn of_tool(name: &str) -> Self {
        Self::of(&format!("{}{name}", Self::TOOL))
    }

    /// Returns the word for addresses.
    pub(crate) fn word(&self) -> String {
        match &self.tool {
            Some(tool) if Self::of(tool) != *self => format!("{}{tool}", Self::TOOL),
            _ => self.name().to_owned(),
        }
    }

    /// Returns the name of the tool, or else the word of the source.
    pub(crate) fn name(&self) -> &str {
        name_of((self.source, self.tool.as_deref()))
    }
}

/// Which failures are wanted.
pub(crate) struct Wanted<'a> {
    /// At most this many are listed.
    pub most: usize,
    /// The id of one that is listed in any case. May be empty.
    pub open: &'a str,
    /// Whether a failure is listed.
    pub is_chosen: &'a dyn Fn(&Standing<'_>) -> bool,
}

impl std::fmt::Debug for Wanted<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut wanted = f.debug_struct("Wanted");
        wanted.field("most", &self.most).field("open", &self.open);
        wanted.finish_non_exhaustive()
    }
}

impl Wanted<'_> {
    /// Returns what wants the first failures.
    pub(crate) fn first(most: usize) -> Self {
        Self {
            most,
            open: "",
            is_chosen: &|_| true,
        }
    }
}

/// The numbers by which failures are sorted.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Standing<'a> {
    /// What failed.
    pub source: FailureSource,
    /// The tool. Empty if none is known.
    pub tool: &'a str,
    /// The folded message.
    pub message: &'a str,
    id: u64,
    runs: usize,
    /// The runs that it ended.
    pub ended: usize,
    steps: u64,
    times: u64,
    first_at: Option<i64>,
    last_at: Option<i64>,
    next: Next,
    runs_now: usize,
    runs_before: usize,
    /// Whether it's new.
    pub is_new: bool,
    /// Whether it's rising.
    pub is_rising: bool,
    /// Whether it's quiet.
    pub is_quiet: bool,
}

impl<'a> Standing<'a> {
    fn new(failure: &'a RunFailure) -> Self {
        Self {
            source: failure.source,
            tool: &failure.tool,
            message: &failure.message,
            id: failure.id,
            runs: 0,
            ended: 0,
            steps: 0,
            times: 0,
            first_at: None,
            last_at: None,
            next: Next::default(),
            runs_now: 0,
            runs_before: 0,
            is_new: false,
            is_rising: false,
            is_quiet: false,
        }
    }

    /// Returns whether it happens there.
    pub(crate) fn is_at(&self, place: &Place) -> bool {
        place_of(self.source, self.tool) == (place.source, place.tool.as_deref())
    }

    fn add(&mut self, run: &Summary, failure: &RunFailure, recent: &Recent) {
        self.runs += 1;
        self.steps += u64::from(failure.steps);
        self.times += u64::from(failure.times);
        self.ended += usize::from(failure.ended);
        let (first_at, last_at) = (first_seen(run, failure), last_seen(run, failure));
        self.first_at = [self.first_at, first_at].into_iter().flatten().min();
        self.last_at = self.last_at.max(last_at);
        self.next.add(failure);
        self.runs_now += usize::from(first_at.is_some_and(|at| recent.contains(at)));
        self.runs_before += usize::from(first_at.is_some_and(|at| recent.is_just_before(at)));
    }

    /// Sets the flags. `oldest` is when the oldest run began.
    fn judge(&mut self, recent: &Recent, oldest: Option<i64>) {
        self.is_new = oldest.is_some_and(|oldest| oldest < recent.from)
            && self.first_at.is_some_and(|first| recent.contains(first));
        self.is_rising =
            !self.is_new && self.runs_now >= MIN_RISING && self.runs_now >= 2 * self.runs_before;
        self.is_quiet = self.last_at.is_some_and(|last| last < recent.from);
    }

    /// Compares places in the list.
    fn order(&self, other: &Self) -> Ordering {
        let rank = |one: &Self| Reverse((one.ended, one.runs, one.times));
        rank(self)
            .cmp(&rank(other))
            .then_with(|| self.message.cmp(other.message))
            .then_with(|| self.id.cmp(&other.id))
            .then_with(|| (self.source, self.tool).cmp(&(other.source, other.tool)))
    }
}

/// Returns where a failure happens. `tool` is empty if none is known.
fn place_of(source: FailureSource, tool: &str) -> (FailureSource, Option<&str>) {
    let is_tool = source == FailureSource::Tool && !tool.is_empty();
    (source, is_tool.then_some(tool))
}

/// Returns the name of the tool, or else the word of the source.
fn name_of((source, tool): (FailureSource, Option<&str>)) -> &str {
    tool.unwrap_or(source.as_str())
}

/// The recent days, in microseconds. A later time is a mistake of a clock.
struct Recent {
    from: i64,
    to: i64,
}

impl Recent {
    fn contains(&self, at: i64) -> bool {
        (self.from..=self.to).contains(&at)
    }

    fn is_just_before(&self, at: i64) -> bool {
        (self.from.saturating_sub(RECENT_DAYS * DAY)..self.from).contains(&at)
    }
}

/// What failed in several runs with one message.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub(crate) struct Failure {
    /// The id, for `failure:ID` in queries. It depends only on source, tool and message.
    pub id: String,
    /// What failed.
    pub source: FailureSource,
    /// The tool, if known.
    pub tool: Option<String>,
    /// The error of each failed call or step, with numbers, paths, quoted texts, addresses, ids and times
    /// replaced: `‹n›`, `‹path›`, `‹text›`, `‹address›`, `‹id›`, `‹time›`, `‹model›`.
    pub message: String,
    /// The runs that have it.
    pub runs: usize,
    /// The runs that it ended.
    pub runs_ended: usize,
    /// The steps that have it. A step with several failed calls may have several failures.
    pub steps: u64,
    /// How often it happened: each failed call counts, even if several calls of one step failed.
    pub times: u64,
    /// When it first happened, if recorded.
    pub first_seen: Option<String>,
    /// When it last happened.
    pub last_seen: Option<String>,
    /// Whether it was first seen in the last 7 days, although there are older runs.
    pub is_new: bool,
    /// Whether it had at least 4 runs in the last 7 days, and at least twice as many as in the 7 days
    /// before. Never true for a new failure.
    pub is_rising: bool,
    /// Whether it was last seen more than 7 days ago.
    pub is_quiet: bool,
    /// The number of runs by the day on which they started, from `first_day` on: at most 90 days.
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
pub(crate) struct Next {
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
pub(crate) struct Example {
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
pub(crate) struct Share {
    /// The name.
    pub name: String,
    /// The number of runs.
    pub runs: usize,
}

impl Next {
    /// Returns what happened in words and how often, the most frequent first.
    pub(crate) fn rows(&self, source: FailureSource) -> Vec<(&'static str, u64)> {
        let is_call = source == FailureSource::Tool;
        let words = |call, request| if is_call { call } else { request };
        let mut rows = vec![
            ("ended the run", self.ended_run),
            (
                words("same call again, failed", "retried, failed again"),
                self.same_call_failed,
            ),
            (
                words("same call again, worked", "retried, worked"),
                self.same_call_worked,
            ),
            ("same tool, different arguments", self.same_tool),
            ("different tool", self.other_tool),
            ("replied without a tool call", self.reply),
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
    pub(crate) fn place(&self) -> &str {
        name_of(place_of(
            self.source,
            self.tool.as_deref().unwrap_or_default(),
        ))
    }

    /// Returns the words of the message and the marks between them.
    pub(crate) fn parts(&self) -> Vec<Part<'_>> {
        parts(&self.message)
    }

    /// Returns the message with marks for what varies: `‹n›`.
    pub(crate) fn plain(&self) -> String {
        plain(&self.message)
    }
}

/// Returns a folded message with `<n>` for `‹n›`.
fn plain(message: &str) -> String {
    let part = |part: &Part<'_>| match part {
        Part::Words(words) => (*words).to_owned(),
        Part::Folded(word) => format!("‹{word}›"),
    };
    parts(message).iter().map(part).collect()
}

impl Failures {
    /// Returns how many runs had a failure, and what became of them, in a sentence.
    pub(crate) fn runs_words(&self) -> String {
        let of = self.runs_with_failures_words();
        match self.runs_ended {
            0 => format!("{of}; none of them ended with one."),
            ended => format!("{of}; {} of them ended with one.", count(ended as u64)),
        }
    }

    /// Returns how many runs had a failure, without a full stop.
    pub(crate) fn runs_with_failures_words(&self) -> String {
        format!(
            "{} of {} had failures",
            count(self.runs_with_failures as u64),
            counted(self.runs, "run")
        )
    }

    /// States what isn't counted, in sentences without a full stop.
    pub(crate) fn left_out(&self) -> Vec<String> {
        let steps = (self.steps_left_out > 0).then(|| {
            format!(
                "{} of {} failed steps not listed: a run keeps its first {MAX_ROWS} messages",
                count(self.steps_left_out),
                count(self.steps)
            )
        });
        let runs = (self.runs_incomplete > 0).then(|| {
            let its = if self.runs_incomplete == 1 {
                "its"
            } else {
                "their"
            };
            format!(
                "{} may have had more failures than {its} records show",
                counted(self.runs_incomplete, "run")
            )
        });
        steps.into_iter().chain(runs).collect()
    }
}

/// Returns when a failure first happened in a run: at the time of the step, or else of the run.
fn first_seen(run: &Summary, failure: &RunFailure) -> Option<i64> {
    time(failure.first_at, run)
}

/// Returns when a failure last happened in a run. Later records of the run have nothing to do with
/// it.
fn last_seen(run: &Summary, failure: &RunFailure) -> Option<i64> {
    time(failure.last_at, run)
}

fn time(at: Option<std::num::NonZeroU32>, run: &Summary) -> Option<i64> {
    at.map(|seconds| i64::from(seconds.get()) * 1_000_000)
        .or(run.started)
}

/// What makes two failures of runs one. Their ids may be equal by accident.
type Same<'a> = (FailureSource, &'a str, &'a str);

fn same(failure: &RunFailure) -> Same<'_> {
    (failure.source, &failure.tool, &failure.message)
}

/// Adds up the failures of `runs`. `now` is in microseconds since the epoch.
///
/// Only the listed failures get a trend, examples and shares, because hostile runs have as many
/// messages as failed steps.
pub(crate) fn failures<'a>(
    runs: impl IntoIterator<Item = &'a Summary>,
    now: i64,
    zone: &TimeZone,
    wanted: &Wanted<'_>,
) -> Failures {
    let runs: Vec<&Summary> = runs.into_iter().filter(|run| run.counts()).collect();
    let recent = Recent {
        from: now.saturating_sub(RECENT_DAYS * DAY),
        to: now,
    };
    let mut sums: HashMap<Same<'_>, Standing<'_>> = HashMap::new();
    let mut report = Failures {
        runs: runs.len(),
        ..Failures::default()
    };
    let mut oldest: Option<i64> = None;
    for run in runs.iter().copied() {
        report.runs_with_failures +=
            usize::from(!run.failures.is_empty() || run.failures_left_out > 0);
        report.runs_ended += usize::from(run.failures.iter().any(|failure| failure.ended));
        report.runs_incomplete += usize::from(run.errors_unknown || run.partial);
        report.steps_left_out += run.failures_left_out as u64;
        report.steps += run.failures_left_out as u64;
        oldest = [oldest, run.started].into_iter().flatten().min();
        for failure in &run.failures {
            report.steps += u64::from(failure.steps_first);
            sums.entry(same(failure))
                .or_insert_with(|| Standing::new(failure))
                .add(run, failure, &recent);
        }
    }
    let mut all: Vec<Standing<'_>> = sums.into_values().collect();
    all.iter_mut().for_each(|one| one.judge(&recent, oldest));
    report.all = counts(&all);
    let with_failures = runs.iter().filter(|run| !run.failures.is_empty());
    let started = with_failures.filter_map(|run| run.started);
    let (first, last) = (started.clone().min(), started.max());
    let calendar = Calendar::new(zone, now, first, last);
    let words = |day: Option<Date>| day.map(|day| day.to_string());
    report.first_day = words(calendar.days.map(|(first, _)| first));
    report.last_day = words(calendar.days.map(|(_, last)| last));
    report.days_per_bar = calendar.days_per_bar;

    all.retain(|one| (wanted.is_chosen)(one));
    let chosen = all.len();
    let listed = listed(all, wanted);
    report.failures_left_out = chosen - listed.len();
    let places: HashMap<Same<'_>, usize> = listed
        .iter()
        .enumerate()
        .map(|(at, one)| ((one.source, one.tool, one.message), at))
        .collect();
    let mut cases: Vec<Vec<(&Summary, &RunFailure)>> = vec![Vec::new(); listed.len()];
    for run in runs {
        for failure in &run.failures {
            let own = places.get(&same(failure)).and_then(|at| cases.get_mut(*at));
            if let Some(own) = own {
                own.push((run, failure));
            }
        }
    }
    report.failures = listed
        .iter()
        .zip(cases)
        .map(|(one, cases)| one.done(cases, &calendar))
        .collect();
    report
}

/// Returns the failures that are listed, in order: the first ones, and the open one.
fn listed<'a>(mut all: Vec<Standing<'a>>, wanted: &Wanted<'_>) -> Vec<Standing<'a>> {
    if wanted.most < all.len() {
        all.select_nth_unstable_by(wanted.most, Standing::order);
        let rest = all.split_off(wanted.most);
        let is_open =
            |one: &Standing<'_>| !wanted.open.is_empty() && id_text(one.id) == wanted.open;
        let open = rest.into_iter().filter(is_open);
        all.extend(open.min_by(Standing::order));
    }
    all.sort_by(Standing::order);
    all
}

fn counts(all: &[Standing<'_>]) -> Counts {
    let number = |is: fn(&Standing<'_>) -> bool| all.iter().filter(|one| is(one)).count();
    let first = all.iter().min_by(|a, b| a.order(b));
    let mut places: HashMap<(FailureSource, Option<&str>), u64> = HashMap::new();
    for one in all {
        *places.entry(place_of(one.source, one.tool)).or_default() += 1;
    }
    let mut places: Vec<_> = places.into_iter().collect();
    places.sort_by(|a, b| {
        (b.1.cmp(&a.1)).then_with(|| (name_of(a.0), a.0).cmp(&(name_of(b.0), b.0)))
    });
    places.truncate(MAX_PLACES);
    let places = places.into_iter().map(|((source, tool), count)| {
        let tool = tool.map(str::to_owned);
        (Place { source, tool }, count)
    });
    Counts {
        failures: all.len(),
        new: number(|one| one.is_new),
        rising: number(|one| one.is_rising),
        ended: number(|one| one.ended > 0),
        quiet: number(|one| one.is_quiet),
        first_at: all.iter().filter_map(|one| one.first_at).min(),
        last_at: all.iter().filter_map(|one| one.last_at).max(),
        first: first.map(|one| (one.message.to_owned(), one.runs, one.ended)),
        places: places.collect(),
    }
}

/// A day in microseconds.
const DAY: i64 = 86_400_000_000;

impl Standing<'_> {
    /// Returns the failure. `cases` are its runs.
    fn done(&self, mut cases: Vec<(&Summary, &RunFailure)>, calendar: &Calendar<'_>) -> Failure {
        let mut trend = vec![0; calendar.bars()];
        for (run, _) in &cases {
            if let Some(bar) = run
                .started
                .and_then(|at| calendar.bar(at))
                .and_then(|bar| trend.get_mut(bar))
            {
                *bar += 1;
            }
        }
        let shares = |name: fn(&Summary) -> Option<&str>| {
            let mut counts: HashMap<&str, usize> = HashMap::new();
            for (run, _) in &cases {
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
        cases.sort_by(|(a, of_a), (b, of_b)| {
            let rank =
                |run, failure: &RunFailure| Reverse((failure.ended, last_seen(run, failure)));
            (rank(a, of_a).cmp(&rank(b, of_b))).then_with(|| a.key.cmp(&b.key))
        });
        let examples = cases.iter().take(MAX_RUNS);
        Failure {
            id: id_text(self.id),
            source: self.source,
            tool: Some(self.tool.to_owned()).filter(|tool| !tool.is_empty()),
            message: self.message.to_owned(),
            runs: self.runs,
            runs_ended: self.ended,
            steps: self.steps,
            times: self.times,
            first_seen: self.first_at.and_then(stamp),
            last_seen: self.last_at.and_then(stamp),
            is_new: self.is_new,
            is_rising: self.is_rising,
            is_quiet: self.is_quiet,
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
    let micros = last_seen(run, failure);
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
    /// Makes the days from the first time to the last one. Days after `now` have no bar.
    fn new(zone: &'a TimeZone, now: i64, first: Option<i64>, last: Option<i64>) -> Self {
        let span = first.zip(last);
        let span = span.map(|(first, last)| (first.min(now), last.min(now)));
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
