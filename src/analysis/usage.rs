//! Adds up what runs used: tokens and cost by day, week, month, run, model or project.
//!
//! The sums are those of the run table: a run's parts add up to its tokens and its cost there. A
//! recorded cost of a whole run is distributed over its days and models in proportion to what their
//! tokens cost by the prices, or else to their number.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use jiff::ToSpan as _;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use schemars::JsonSchema;
use serde::Serialize;

use super::calendar::{Calendar, monday, quarter};
use super::cost_shares::CostShares;
use super::format::{self, counted};
use super::kinds::{KindRow, KindTokens, Kinds};
use super::summary::{Cost, Spent, Summary};
use crate::model::price::{KindCosts, LIST_DATE};

/// How a report groups runs: one row per day, model or other unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum By {
    /// A day in the reader's time zone.
    Day,
    /// A week, from Monday.
    Week,
    /// A month.
    Month,
    /// A run.
    Session,
    /// A model.
    Model,
    /// The directory in which the agent worked.
    Project,
}

impl By {
    /// All of them.
    pub(crate) const ALL: [By; 6] = [
        By::Day,
        By::Week,
        By::Month,
        By::Session,
        By::Model,
        By::Project,
    ];

    /// Returns the word for it in commands and addresses.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            By::Day => "daily",
            By::Week => "weekly",
            By::Month => "monthly",
            By::Session => "session",
            By::Model => "model",
            By::Project => "project",
        }
    }

    /// Returns the word for it that people use. Documents have an older one for runs.
    fn word(self) -> &'static str {
        match self {
            By::Session => "run",
            by => by.as_str(),
        }
    }

    /// Returns all words, joined by commas.
    pub(crate) fn words() -> String {
        By::ALL.map(By::word).join(", ")
    }

    /// Returns what a row is: `day`, `model`.
    pub(crate) fn unit(self) -> &'static str {
        match self {
            By::Day => "day",
            By::Week => "week",
            By::Month => "month",
            by => by.word(),
        }
    }

    /// Returns the head of the column with the names of the rows.
    pub(crate) fn head(self) -> &'static str {
        match self {
            By::Day => "Day",
            By::Week => "Week from",
            By::Month => "Month",
            By::Session => "Run",
            By::Model => "Model",
            By::Project => "Project",
        }
    }

    /// Returns whether each row is a period of time.
    pub(crate) fn is_period(self) -> bool {
        matches!(self, By::Day | By::Week | By::Month)
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
            .find(|by| by.word() == text || by.as_str() == text)
            .ok_or_else(|| format!("must be one of: {}", By::words()))
    }
}

/// The days that a report covers, in the reader's time zone.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Days {
    /// The first day, if there is a limit.
    pub since: Option<Date>,
    /// The last day, if there is a limit.
    pub until: Option<Date>,
}

impl Days {
    /// Returns the last `days` days up to `today`.
    pub(crate) fn last(days: i32, today: Date) -> Self {
        Self {
            since: today.checked_sub((days - 1).days()).ok(),
            until: Some(today),
        }
    }

    /// Returns as many days right before these, if both limits are known.
    pub(crate) fn before(self) -> Option<Self> {
        let (since, until) = (self.since?, self.until?);
        let days = since.until(until).ok()?.get_days() + 1;
        Some(Self {
            since: since.checked_sub(days.days()).ok(),
            until: since.yesterday().ok(),
        })
    }

    pub(super) fn has(self, day: Option<Date>) -> bool {
        match day {
            Some(day) => {
                self.since.is_none_or(|since| day >= since)
                    && self.until.is_none_or(|until| day <= until)
            }
            None => self == Self::default(),
        }
    }
}

/// Sums over runs, or over parts of them.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
pub(crate) struct Used {
    /// The number of runs that used anything.
    pub runs: usize,
    /// All tokens.
    pub tokens: u64,
    /// Input tokens that were neither read from a cache nor written to one.
    pub tokens_uncached: u64,
    /// Input tokens that were written to a cache, if any run records them.
    pub tokens_cache_write: Option<u64>,
    /// Input tokens that were read from a cache, if any run records them.
    pub tokens_cached: Option<u64>,
    /// Output tokens.
    pub tokens_out: u64,
    /// Tokens recorded only as a total.
    pub tokens_other: u64,
    /// The cost in US dollars, as far as known.
    pub cost: Option<f64>,
    /// Whether any part of the cost is an estimate.
    pub cost_is_estimated: bool,
    /// The number of runs with tokens that have no known cost. They aren't part of `cost`.
    pub runs_without_cost: usize,
    /// The tokens that have no known cost.
    pub tokens_without_cost: u64,
    /// The run that was counted last, so that a run with several parts counts once.
    #[serde(skip)]
    newest_run: usize,
    /// The run that was last counted as one without cost.
    #[serde(skip)]
    newest_without: usize,
}

impl Used {
    /// Adds what a run used. `run` is a number from 1 that no other run has.
    pub(super) fn add(&mut self, part: &Part<'_>, run: usize) {
        let plus = |sum: &mut Option<u64>, more: Option<u64>| {
            *sum = match (*sum, more) {
                (Some(sum), Some(more)) => Some(sum.saturating_add(more)),
                (sum, more) => sum.or(more),
            };
        };
        self.tokens = self.tokens.saturating_add(part.tokens());
        self.tokens_uncached = self.tokens_uncached.saturating_add(part.uncached);
        plus(&mut self.tokens_cache_write, part.cache_write);
        plus(&mut self.tokens_cached, part.cached);
        self.tokens_out = self.tokens_out.saturating_add(part.output);
        self.tokens_other = self.tokens_other.saturating_add(part.other);
        if self.newest_run != run {
            self.newest_run = run;
            self.runs += 1;
        }
        match part.cost {
            Some(cost) => {
                *self.cost.get_or_insert_default() += cost;
                self.cost_is_estimated |= part.is_estimate;
            }
            None if part.tokens() > 0 => {
                self.tokens_without_cost = self.tokens_without_cost.saturating_add(part.tokens());
                if self.newest_without != run {
                    self.newest_without = run;
                    self.runs_without_cost += 1;
                }
            }
            None => {}
        }
    }

    /// Formats the cost with its marks: `≥≈$1.20`.
    pub(crate) fn cost_words(&self) -> String {
        // A lower bound of nothing says nothing.
        let is_nothing = self.runs_without_cost > 0 && self.cost == Some(0.0);
        if self.cost.is_none() && self.tokens > 0 || is_nothing {
            return "unknown".to_owned();
        }
        format::cost(
            self.cost,
            self.cost_is_estimated,
            self.runs_without_cost > 0,
        )
    }

    /// Explains the marks of the costs: the mark, and what it means.
    pub(crate) fn marks(&self) -> Vec<(&'static str, String)> {
        let mut marks = Vec::new();
        if self.cost_is_estimated {
            marks.push((
                "≈",
                format!("estimated from list prices of {LIST_DATE}, or your own"),
            ));
        }
        if self.runs_without_cost > 0 {
            marks.push((
                "≥",
                format!(
                    "excludes {} tokens of {} without a known price",
                    format::tokens(self.tokens_without_cost),
                    counted(self.runs_without_cost, "run")
                ),
            ));
        }
        marks
    }

    /// Returns the share of the input tokens that came from a cache, in percent, if recorded.
    pub(crate) fn cached_percent(&self) -> Option<u64> {
        let cached = self.tokens_cached?;
        let input = self
            .tokens_uncached
            .saturating_add(self.tokens_cache_write.unwrap_or(0))
            .saturating_add(cached);
        (input > 0).then(|| (u128::from(cached) * 100 / u128::from(input)) as u64)
    }
}

/// A row of a report.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "UsageRow")]
pub(crate) struct Row {
    /// The first day of the period, the key of the run, the model, or the project. Empty if it isn't
    /// recorded.
    pub name: String,
    /// The title of the run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// The sums.
    #[serde(flatten)]
    pub used: Used,
    /// The models of a period, a run or a project, the most expensive first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub models: Vec<ModelRow>,
}

/// What one model used within a row.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "UsageModelRow")]
pub(crate) struct ModelRow {
    /// The model. Empty if it isn't recorded.
    pub name: String,
    /// The sums.
    #[serde(flatten)]
    pub used: Used,
}

/// What runs used.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub(crate) struct Usage {
    /// How the rows are grouped: `daily`, `weekly`, `monthly`, `session`, `model` or `project`.
    pub by: &'static str,
    /// The first day, `YYYY-MM-DD`, if limited.
    pub since: Option<String>,
    /// The last day, if limited.
    pub until: Option<String>,
    /// The rows: periods, oldest first, others by cost.
    pub rows: Vec<Row>,
    /// The number of further rows, which are left out.
    pub rows_left_out: usize,
    /// The sums over all rows. A run that's part of several rows counts once.
    pub total: Used,
    /// The tokens and the cost by kind of token. The costs are estimated from prices, except recorded
    /// costs that can't be broken down.
    pub kinds: Vec<KindRow>,
    /// The number of matching runs that started on these days and record neither tokens nor a cost.
    pub runs_without_usage: usize,
    /// The number of matching runs with usage that is left out because the days are limited and the
    /// time of some steps is unknown.
    pub runs_without_time: usize,
    /// The first day on which any matching run used anything, whatever the limits.
    pub first_day: Option<String>,
    /// The number of matching runs, whatever the limits.
    #[serde(skip)]
    runs: usize,
}

impl Usage {
    /// Keeps at most `most` rows: the newest periods, or the most expensive others.
    #[must_use]
    pub(crate) fn limited(mut self, by: By, most: usize) -> Self {
        let left_out = self.rows.len().saturating_sub(most);
        if by.is_period() {
            self.rows.drain(..left_out);
        } else {
            self.rows.truncate(most);
        }
        self.rows_left_out += left_out;
        self
    }

    /// Returns whether no run matches, on any day.
    pub(crate) fn is_of_no_run(&self) -> bool {
        self.runs == 0
    }

    /// States which runs record no usage, without a full stop.
    pub(crate) fn without_usage(&self) -> Option<String> {
        let runs = self.runs_without_usage;
        (runs > 0).then(|| format!("{} without recorded usage", counted(runs, "run")))
    }

    /// States which steps can't be assigned to a day, without a full stop.
    pub(crate) fn without_time(&self) -> Option<String> {
        let runs = counted(self.runs_without_time, "run");
        (self.runs_without_time > 0)
            .then(|| format!("Excludes steps without a recorded time ({runs})"))
    }
}

/// What a run used with one model in a quarter of an hour.
#[derive(Debug, Clone, Default)]
pub(super) struct Part<'a> {
    quarter: Option<i32>,
    pub(super) model: &'a str,
    uncached: u64,
    cache_write: Option<u64>,
    cached: Option<u64>,
    output: u64,
    other: u64,
    cost: Option<f64>,
    is_estimate: bool,
    /// What the tokens cost by the prices, by kind.
    by_price: Option<KindCosts>,
}

impl Part<'_> {
    pub(super) fn cost(&self) -> Option<f64> {
        self.cost
    }

    /// Returns whether the cost is an estimate.
    pub(super) fn is_estimate(&self) -> bool {
        self.is_estimate
    }

    pub(super) fn tokens(&self) -> u64 {
        self.kinds().sum()
    }

    fn kinds(&self) -> KindTokens {
        KindTokens {
            uncached: self.uncached,
            cache_write: self.cache_write.unwrap_or(0),
            cache_read: self.cached.unwrap_or(0),
            output: self.output,
            other: self.other,
        }
    }
}

/// Returns what the run used, by model and time. `cost` is what the run counts.
pub(super) fn parts(run: &Summary, cost: Option<Cost>) -> Vec<Part<'_>> {
    let prices = run.prices.as_deref();
    let (records_writes, records_reads) = (run.usage.written.is_some(), run.usage.cached.is_some());
    let part = |spent: &'_ Spent| {
        let beside = spent.cached.saturating_add(spent.written);
        let known = |tokens: u64, is_recorded: bool| (tokens > 0 || is_recorded).then_some(tokens);
        Part {
            quarter: spent.quarter,
            uncached: spent.input.saturating_sub(beside),
            cache_write: known(spent.written, records_writes),
            cached: known(spent.cached, records_reads),
            output: spent.output,
            cost: spent.cost(prices),
            is_estimate: !spent.is_paid,
            by_price: spent.costs_by_price(prices),
            ..Part::default()
        }
    };
    let mut parts: Vec<Part<'_>> = run
        .spent
        .iter()
        .filter(|spent| spent.tokens() > 0 || spent.paid > 0.0)
        .map(|spent| Part {
            model: spent.model.as_str(),
            ..part(spent)
        })
        .collect();
    let known = parts.iter().map(Part::tokens).fold(0, u64::saturating_add);
    // An estimate from prices is that of the parts.
    let is_by_prices = run.cost_by_run_usd.is_none() && matches!(cost, Some(Cost::Estimated(_)));
    let whole = cost.filter(|_| !is_by_prices);
    let rest = run.tokens.unwrap_or(0).saturating_sub(known);
    if rest > 0 || (parts.is_empty() && whole.is_some()) {
        parts.push(Part {
            quarter: parts
                .last()
                .and_then(|part| part.quarter)
                .or_else(|| quarter(run.started?)),
            model: run.model.as_deref().unwrap_or_default(),
            other: rest,
            ..Part::default()
        });
    }
    if let Some(whole) = whole {
        let is_estimate = matches!(whole, Cost::Estimated(_));
        distribute(&mut parts, whole.usd(), is_estimate);
    }
    parts
}

/// Sets the costs of the parts so that they add up to `whole`.
fn distribute(parts: &mut [Part<'_>], whole: f64, is_estimate: bool) {
    let priced: Option<f64> = parts.iter().map(|part| part.cost).sum();
    let by_price = priced.is_some_and(|priced| priced > 0.0);
    let weight = |part: &Part<'_>| match part.cost.filter(|_| by_price) {
        Some(cost) => cost,
        None => part.tokens() as f64,
    };
    let sum: f64 = parts.iter().map(weight).sum();
    let count = parts.len() as f64;
    for part in parts {
        let share = if sum > 0.0 {
            weight(part) / sum
        } else {
            1.0 / count
        };
        part.cost = Some(whole * share);
        part.is_estimate = is_estimate;
    }
}

/// A row under construction.
#[derive(Default)]
struct Sums<'a> {
    title: Option<&'a str>,
    used: Used,
    models: BTreeMap<&'a str, Used>,
}

/// Returns the first day of the period that contains `day`.
fn period(by: By, day: Date) -> Date {
    match by {
        By::Week => monday(day),
        By::Month => day.first_of_month(),
        _ => day,
    }
}

/// Adds up what `runs` used on these days.
pub(crate) fn usage<'a>(
    runs: impl Iterator<Item = &'a Summary> + Clone,
    by: By,
    days: Days,
    zone: &TimeZone,
) -> Usage {
    let mut calendar = Calendar::new(zone);
    let mut rows: BTreeMap<Name<'a>, Sums<'a>> = BTreeMap::new();
    let mut total = Used::default();
    let mut kinds = Kinds::default();
    let mut first: Option<Date> = None;
    let (mut all_runs, mut runs_without_usage, mut runs_without_time) = (0, 0, 0);
    let shares = CostShares::of(runs.clone());
    // As in the run table, a run that is still being read has no final numbers.
    let runs = runs.filter(|run| run.counts() && !run.partial);
    for (n, run) in runs.enumerate() {
        let n = n + 1;
        let parts = parts(run, shares.cost(run));
        all_runs += 1;
        let is_unlimited = days == Days::default();
        if parts.is_empty()
            && (is_unlimited || days.has(calendar.day(run.started.and_then(quarter))))
        {
            runs_without_usage += 1;
        }
        let mut is_left_out = false;
        for part in &parts {
            let day = calendar.day(part.quarter);
            first = match (first, day) {
                (Some(first), Some(day)) => Some(first.min(day)),
                (first, day) => first.or(day),
            };
            if !days.has(day) {
                is_left_out |= day.is_none();
                continue;
            }
            let name = match by {
                By::Session => Name::Text(run.key.as_str()),
                By::Model => Name::Text(part.model),
                By::Project => Name::Text(run.project.as_deref().unwrap_or_default()),
                _ => Name::Day(day.map(|day| period(by, day))),
            };
            let row = rows.entry(name).or_default();
            row.used.add(part, n);
            total.add(part, n);
            kinds.add(part.kinds(), part.cost, part.by_price);
            if by == By::Session {
                row.title = Some(run.title());
            }
            if by != By::Model {
                row.models.entry(part.model).or_default().add(part, n);
            }
        }
        runs_without_time += usize::from(is_left_out);
    }
    let mut rows: Vec<Row> = rows
        .into_iter()
        .map(|(name, sums)| row(name, sums))
        .collect();
    if !by.is_period() {
        rows.sort_by(|a, b| by_cost(&a.used, &b.used));
    }
    let words = |day: Option<Date>| day.map(|day| day.to_string());
    Usage {
        by: by.as_str(),
        since: words(days.since),
        until: words(days.until),
        rows,
        rows_left_out: 0,
        total,
        kinds: kinds.rows(),
        runs_without_usage,
        runs_without_time,
        first_day: words(first),
        runs: all_runs,
    }
}

/// The name of a row. Periods are in the order of time, and one without a time comes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Name<'a> {
    Day(Option<Date>),
    Text(&'a str),
}

fn row(name: Name<'_>, sums: Sums<'_>) -> Row {
    let mut models: Vec<ModelRow> = sums
        .models
        .into_iter()
        .map(|(name, used)| ModelRow {
            name: name.to_owned(),
            used,
        })
        .collect();
    models.sort_by(|a, b| by_cost(&a.used, &b.used));
    Row {
        name: match name {
            Name::Day(day) => day.map(|day| day.to_string()).unwrap_or_default(),
            Name::Text(text) => text.to_owned(),
        },
        title: sums.title.map(str::to_owned),
        used: sums.used,
        models,
    }
}

/// Orders by cost, then by tokens, the highest first.
pub(super) fn by_cost(a: &Used, b: &Used) -> std::cmp::Ordering {
    let cost = |used: &Used| used.cost.unwrap_or(0.0);
    cost(b)
        .total_cmp(&cost(a))
        .then_with(|| Reverse(a.tokens).cmp(&Reverse(b.tokens)))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::analysis::select::sample;
    use crate::analysis::verdict::RunStatus;
    use crate::model::price::{Price, Prices, RequestSize};

    /// 26 November 2026, 23:30 UTC, in quarters of an hour.
    const LATE: i32 = 1_995_262;

    fn spent(model: &str, quarter: Option<i32>, input: u64) -> Spent {
        Spent {
            model: model.into(),
            quarter,
            size: RequestSize::default(),
            input,
            output: 10,
            ..Spent::default()
        }
    }

    fn summary(key: &str, spent: Vec<Spent>) -> Summary {
        let price = Price {
            input: 1_000.0,
            ..Price::default()
        };
        let prices = Prices::new([("m".to_owned(), price)].into(), "p".to_owned()).unwrap();
        let tokens = spent.iter().map(Spent::tokens).sum();
        Summary {
            tokens: Some(tokens),
            spent: spent.into(),
            ..sample::run(key, RunStatus::Answered, None)
        }
        .priced(&Arc::new(prices))
    }

    fn names(report: &Usage) -> Vec<(&str, u64, usize)> {
        let row = |row: &'_ Row| (row.used.tokens, row.used.runs);
        report
            .rows
            .iter()
            .map(|one| (one.name.as_str(), row(one).0, row(one).1))
            .collect()
    }

    #[test]
    fn runs_without_usage_count_on_the_day_of_their_start() {
        let mut run = sample::run("a", RunStatus::Answered, None);
        (run.tokens, run.rare.cost_usd) = (None, None);
        run.started = Some(i64::from(LATE) * 900_000_000);
        let without = |since: &str| {
            let days = Days {
                since: since.parse().ok(),
                until: None,
            };
            let report = usage([&run].into_iter(), By::Day, days, &TimeZone::UTC);
            assert!(!report.is_of_no_run());
            report.runs_without_usage
        };
        assert_eq!(["", "2026-11-26", "2026-11-27"].map(without), [1, 1, 0]);
    }

    #[test]
    fn a_day_begins_at_midnight_in_the_readers_zone() {
        let runs = [
            summary(
                "a",
                vec![spent("m", Some(LATE), 90), spent("m", Some(LATE + 1), 190)],
            ),
            summary("b", vec![spent("m", Some(LATE + 2), 290)]),
        ];
        let by = |by, zone: &TimeZone| usage(runs.iter(), by, Days::default(), zone);
        let utc = by(By::Day, &TimeZone::UTC);
        assert_eq!(
            names(&utc),
            [("2026-11-26", 300, 1), ("2026-11-27", 300, 1)]
        );
        let kathmandu = TimeZone::fixed(
            jiff::tz::offset(0).saturating_add(jiff::SignedDuration::from_mins(345)),
        );
        assert_eq!(names(&by(By::Day, &kathmandu)), [("2026-11-27", 600, 2)]);
        let west = TimeZone::fixed(jiff::tz::offset(-1));
        assert_eq!(names(&by(By::Day, &west)), [("2026-11-26", 600, 2)]);
        assert_eq!(
            names(&by(By::Week, &TimeZone::UTC)),
            [("2026-11-23", 600, 2)]
        );
        assert_eq!(
            names(&by(By::Month, &TimeZone::UTC)),
            [("2026-11-01", 600, 2)]
        );
        assert_eq!(utc.total.runs, 2);
        assert!((utc.total.cost.unwrap() - 0.57).abs() < 1e-9);
    }

    #[test]
    fn limits_select_days_and_leave_out_what_has_no_time() {
        let mut timeless = summary("c", vec![spent("m", None, 5)]);
        timeless.started = None;
        let runs = [
            summary(
                "a",
                vec![spent("m", Some(LATE), 90), spent("m", Some(LATE + 2), 190)],
            ),
            timeless,
        ];
        let day: Date = "2026-11-27".parse().unwrap();
        let report = usage(runs.iter(), By::Day, Days::last(1, day), &TimeZone::UTC);
        assert_eq!(names(&report), [("2026-11-27", 200, 1)]);
        assert_eq!(report.runs_without_time, 1);
        assert_eq!(report.first_day.as_deref(), Some("2026-11-26"));
        let all = usage(runs.iter(), By::Day, Days::default(), &TimeZone::UTC);
        assert_eq!(names(&all)[0], ("", 15, 1));
        let week = Days::last(7, day);
        assert_eq!(
            week.before().map(|days| (days.since, days.until)),
            Some(("2026-11-14".parse().ok(), "2026-11-20".parse().ok()))
        );
    }

    #[test]
    fn a_recorded_cost_is_distributed_and_other_tokens_are_kept_apart() {
        let mut paid = summary(
            "a",
            vec![spent("m", Some(LATE), 90), spent("m", Some(LATE + 2), 290)],
        );
        paid.rare.cost_usd = Some(2.0);
        paid.tokens = Some(500);
        let unpriced = summary("b", vec![spent("n", Some(LATE), 40)]);
        let runs = [paid, unpriced];
        let report = usage(runs.iter(), By::Model, Days::default(), &TimeZone::UTC);
        let [m, other, n] = &report.rows[..] else {
            panic!("{report:?}");
        };
        assert_eq!(
            (m.name.as_str(), m.used.tokens, other.used.tokens_other),
            ("m", 400, 100)
        );
        assert!((report.total.cost.unwrap() - 2.0).abs() < 1e-9);
        assert!(!m.used.cost_is_estimated);
        assert_eq!((n.name.as_str(), n.used.cost), ("n", None));
        assert_eq!(
            (report.total.tokens, report.total.tokens_without_cost),
            (550, 50)
        );
        assert_eq!(report.total.runs_without_cost, 1);
        let by_kind = |one: fn(&KindRow) -> f64| report.kinds.iter().map(one).sum::<f64>();
        assert!((by_kind(|kind| kind.cost.unwrap_or(0.0)) - 2.0).abs() < 1e-9);
        assert!((by_kind(|kind| kind.tokens as f64) - 550.0).abs() < 1e-9);
    }

    #[test]
    fn a_limit_keeps_the_newest_periods_and_the_most_expensive_others() {
        let runs = [
            summary("a", vec![spent("m", Some(LATE), 90)]),
            summary("b", vec![spent("n", Some(LATE + 2), 290)]),
        ];
        let limited = |by| usage(runs.iter(), by, Days::default(), &TimeZone::UTC).limited(by, 1);
        let (days, models) = (limited(By::Day), limited(By::Model));
        assert_eq!(names(&days), [("2026-11-27", 300, 1)]);
        assert_eq!(names(&models), [("m", 100, 1)]);
        assert_eq!((days.rows_left_out, models.rows_left_out), (1, 1));
        assert_eq!(days.total.tokens, 400);
    }
}
