//! Shows what runs used: the page at `/usage`, and its JSON.
//!
//! The page begins with the cost of the period, and how it compares with the period before.

use askama::Template;
use axum::extract::State;
use jiff::Timestamp;
use jiff::civil::Date;

use crate::analysis::format::{self, MISSING, count, counted, last_part};
use crate::analysis::kinds::KindRow;
use crate::analysis::many::relative;
use crate::analysis::query::{Ignored, Query};
use crate::analysis::summary::Summary;
use crate::analysis::usage::{By, Days, Usage, Used, usage};
use crate::page::answer::{html, json};
use crate::page::app::AppState;
use crate::page::blocking::blocking;
use crate::page::error::{Answer, WebError};
use crate::page::params::Params;
use crate::page::part::{href, text};
use crate::page::runs::fill::list::Listed;
use crate::page::runs::handler::listed;
use crate::page::shell::{NavItem, Shell, now};

/// Maximum number of rows on the page. The JSON has more.
const MAX_ROWS: usize = 400;
/// Rows of the JSON by default.
const DEFAULT_LIMIT: usize = 1_000;
/// Maximum number of models listed below a row.
const MAX_MODELS: usize = 12;
/// A period, and the number of its days. `all` has no limit.
pub(crate) const PERIODS: [(&str, &str, Option<i32>); 5] = [
    ("today", "Today", Some(1)),
    ("7d", "7 days", Some(7)),
    ("30d", "30 days", Some(30)),
    ("90d", "90 days", Some(90)),
    ("all", "All", None),
];
/// The period of a page whose address doesn't name one.
const PERIOD: &str = "30d";

/// `GET /usage`
pub(crate) async fn page(State(state): State<AppState>, params: Params) -> Answer {
    let (by, query) = (by(&params)?, params.filter("q")?.to_owned());
    let period = match params.text("period") {
        "" => PERIOD,
        text => period(text)?,
    };
    let own = days(&params)?;
    blocking(move || {
        let today = today(&state);
        let named = PERIODS.iter().find(|(name, ..)| *name == period);
        let last = named.and_then(|(_, _, days)| *days);
        let days = match own {
            Some(own) => own,
            None => last.map_or(Days::default(), |days| Days::last(days, today)),
        };
        let parsed = state.query(&query);
        let (runs, _) = listed(&state, &parsed);
        let chosen: Vec<&Summary> = chosen(&runs, &parsed).collect();
        let of = |by, days| usage(chosen.iter().copied(), by, days, &state.zone);
        let report = of(by, days).limited(by, MAX_ROWS);
        let first = report.first_day.as_deref().and_then(|day| day.parse().ok());
        let before = days.before().filter(|before: &Days| {
            // A period that began before the first run isn't complete.
            before
                .since
                .is_some_and(|since| first.is_some_and(|first: Date| first <= since))
        });
        let before = before.map(|before| of(by, before).total);
        let days_used = of(By::Day, Days::last(1, today)).total;
        let shell = state.shell(NavItem::Usage);
        html(&UsagePage {
            shell: Shell {
                title: "Usage".to_owned(),
                ..shell
            },
            view: View {
                by,
                period: if own.is_some() { "" } else { period },
                query,
                ignored: parsed.ignored,
                days,
                today,
                before,
                days_used,
                report,
            },
        })
    })
    .await
    .flatten()
}

/// `GET /api/usage`
pub(crate) async fn api(State(state): State<AppState>, params: Params) -> Answer {
    let by = by(&params)?;
    let days = days(&params)?.unwrap_or_default();
    let limit = params.limit(DEFAULT_LIMIT)?;
    blocking(move || {
        let query = state.query(params.text("q"));
        let (runs, _) = listed(&state, &query);
        let chosen: Vec<&Summary> = chosen(&runs, &query).collect();
        let report = usage(chosen.iter().copied(), by, days, &state.zone);
        json(&report.limited(by, limit))
    })
    .await
    .flatten()
}

/// Iterates over the runs that a query selects.
fn chosen<'a>(runs: &'a [Listed], query: &'a Query) -> impl Iterator<Item = &'a Summary> {
    let runs = runs.iter().map(|listed| &*listed.summary);
    runs.filter(|run| query.matches(*run))
}

fn by(params: &Params) -> Result<By, WebError> {
    match params.text("by") {
        "" => Ok(By::Day),
        text => text.parse().map_err(|_: String| {
            let detail = format!("Group by one of: {}.", By::words());
            WebError::bad_request("Can't group by", &detail).named(text)
        }),
    }
}

pub(crate) fn period(text: &str) -> Result<&'static str, WebError> {
    let known = PERIODS.iter().find(|(name, ..)| *name == text);
    known.map(|(name, ..)| *name).ok_or_else(|| {
        let names: Vec<&str> = PERIODS.iter().map(|(name, ..)| *name).collect();
        let detail = format!("`period` must be one of: {}.", names.join(", "));
        WebError::bad_request("Invalid period", &detail).named(text)
    })
}

/// Returns the days in the address, if it names any.
pub(crate) fn days(params: &Params) -> Result<Option<Days>, WebError> {
    let day = |name: &str| match params.text(name) {
        "" => Ok(None),
        text => text.parse().map(Some).map_err(|_| {
            let detail = format!("`{name}` must be a date: YYYY-MM-DD.");
            WebError::bad_request("Invalid day", &detail).named(text)
        }),
    };
    let days = Days {
        since: day("since")?,
        until: day("until")?,
    };
    if let Some((since, until)) = days.since.zip(days.until)
        && since > until
    {
        let detail = format!("`since` must not be after `until`, which is {until}.");
        return Err(WebError::bad_request("Invalid day", &detail).named(&since.to_string()));
    }
    Ok(Some(days).filter(|days| *days != Days::default()))
}

pub(crate) fn today(state: &AppState) -> Date {
    Timestamp::from_microsecond(now())
        .unwrap_or_default()
        .to_zoned(state.zone.clone())
        .date()
}

#[derive(Template)]
#[template(path = "usage/page.html")]
struct UsagePage {
    shell: Shell,
    view: View,
}

/// The content of the page.
struct View {
    by: By,
    /// The chosen period, or empty if the address names days.
    period: &'static str,
    query: String,
    ignored: Vec<Ignored>,
    days: Days,
    today: Date,
    /// The sums of the period before, if it's complete.
    before: Option<Used>,
    /// The sums of today.
    days_used: Used,
    report: Usage,
}

/// A link of a row of choices, and whether it's the current one.
struct Choice {
    href: String,
    name: &'static str,
    is_current: bool,
}

/// The cells of a row.
struct Cells {
    name: text::Line,
    /// The recorded name, for a tooltip.
    title: text::Line,
    href: Option<String>,
    is_model: bool,
    runs: String,
    uncached: String,
    cache_write: String,
    cached: String,
    share: String,
    output: String,
    cost: String,
    /// The width of the bar in percent.
    bar: u64,
}

/// The cells of a row of the table by kind of token.
struct KindCells {
    name: &'static str,
    tokens: String,
    tokens_share: String,
    per_million: String,
    cost: String,
    cost_share: String,
    /// The width of the bar in percent.
    bar: u64,
}

impl View {
    /// Returns the answer in a sentence: `≈$439.32 in the last 30 days, +67% on the 30 days before.`
    fn answer(&self) -> String {
        let total = &self.report.total;
        if self.report.rows.is_empty() {
            return match self.days == Days::default() {
                true => "No usage recorded.".to_owned(),
                false => "No usage recorded in this period.".to_owned(),
            };
        }
        let what = match total.cost {
            Some(_) => total.cost_words(),
            None => format!("{} tokens, cost unknown", format::tokens(total.tokens)),
        };
        let when = match (self.chosen(), self.days.since, self.days.until) {
            (Some(("today", ..)), ..) => "today".to_owned(),
            (Some((_, name, Some(_))), ..) => format!("in the last {name}"),
            (_, Some(since), Some(until)) => format!("from {since} to {until}"),
            (_, Some(since), None) => format!("since {since}"),
            (_, None, Some(until)) => format!("until {until}"),
            _ => format!("in {}", counted(total.runs, "run")),
        };
        let change = self.change().unwrap_or_default();
        let is_long = self.period != "today" && self.days.has_today(self.today);
        let today = match self.days_used.cost {
            Some(_) if is_long => format!(" Today {} so far.", self.days_used.cost_words()),
            _ => String::new(),
        };
        format!("{what} {when}{change}.{today}")
    }

    fn chosen(&self) -> Option<&'static (&'static str, &'static str, Option<i32>)> {
        PERIODS.iter().find(|(name, ..)| *name == self.period)
    }

    /// Compares the cost with that of the period before: `, +67% on the 30 days before`.
    fn change(&self) -> Option<String> {
        let (now, before) = (self.report.total.cost?, self.before.as_ref()?.cost?);
        let name = match self.period {
            "today" => "yesterday".to_owned(),
            _ => format!("the {} before", self.chosen()?.1),
        };
        let change = relative(now, before)?;
        Some(match change.strip_prefix('×') {
            Some(times) => format!(", {times} times that of {name}"),
            None => format!(", {change} on {name}"),
        })
    }

    /// Returns further sentences: where the tokens come from, and which ones aren't counted.
    fn detail(&self) -> Option<String> {
        let total = &self.report.total;
        let cached = total.cached_percent().map(|share| {
            let tokens = format::tokens(total.tokens);
            format!("{tokens} tokens. {share}% of the input was read from caches.")
        });
        let without_time = self.report.without_time().map(|words| format!("{words}."));
        let sentences: Vec<String> = cached.into_iter().chain(without_time).collect();
        (!sentences.is_empty()).then(|| sentences.join(" "))
    }

    fn periods(&self) -> Vec<Choice> {
        let choice = |(name, label, _): &(&'static str, &'static str, Option<i32>)| Choice {
            href: href::usage(&self.query, self.by.as_str(), name),
            name: label,
            is_current: *name == self.period,
        };
        PERIODS.iter().map(choice).collect()
    }

    fn groupings(&self) -> Vec<Choice> {
        let choice = |by: By| Choice {
            href: self.with(by),
            name: match by {
                By::Day => "Daily",
                By::Week => "Weekly",
                By::Month => "Monthly",
                By::Session => "By run",
                By::Model => "By model",
                By::Project => "By project",
            },
            is_current: by == self.by,
        };
        By::ALL.into_iter().map(choice).collect()
    }

    fn with(&self, by: By) -> String {
        let day = |day: Option<Date>| day.map(|day| day.to_string()).unwrap_or_default();
        let (since, until) = match self.period {
            "" => (day(self.days.since), day(self.days.until)),
            _ => Default::default(),
        };
        href::with_query(
            "/usage",
            &[
                ("by", by.as_str()),
                ("period", self.period),
                ("since", &since),
                ("until", &until),
                ("q", &self.query),
            ],
        )
    }

    fn json(&self) -> String {
        let day = |day: Option<Date>| day.map(|day| day.to_string()).unwrap_or_default();
        href::with_query(
            "/api/usage",
            &[
                ("by", self.by.as_str()),
                ("since", &day(self.days.since)),
                ("until", &day(self.days.until)),
                ("limit", "10000"),
                ("q", &self.query),
            ],
        )
    }

    /// Returns the command that prints the same numbers.
    fn command(&self) -> String {
        let by = match self.by {
            By::Session => "run",
            by => by.as_str(),
        };
        let mut command = format!("board usage {by}");
        if let Some(since) = self.days.since {
            command.push_str(&format!(" --since {since}"));
        }
        if let Some(until) = self.days.until.filter(|until| *until != self.today) {
            command.push_str(&format!(" --until {until}"));
        }
        command
    }

    /// Returns the cells of the rows. Periods are listed from new to old.
    fn rows(&self) -> Vec<Cells> {
        let rows = &self.report.rows;
        let most = rows
            .iter()
            .filter_map(|row| row.used.cost)
            .fold(0.0, f64::max);
        let mut ordered: Vec<_> = rows.iter().collect();
        if self.by.is_period() {
            ordered.reverse();
        }
        let mut all = Vec::new();
        for row in ordered {
            let shown = match (self.by, row.title.as_deref()) {
                (_, Some(title)) => title.to_owned(),
                (By::Day | By::Week | By::Month, _) => self.period_name(&row.name),
                (By::Project, _) => last_part(&row.name).to_owned(),
                _ => row.name.clone(),
            };
            all.push(Cells {
                title: row.name.as_str().into(),
                href: self.link(&row.name),
                bar: bar(row.used.cost, most),
                ..cells(&shown, &row.used, false)
            });
            // A single model would repeat the row.
            let models = Some(&row.models).filter(|models| models.len() > 1);
            let models = models.filter(|_| self.by != By::Session);
            let models = models.into_iter().flatten().take(MAX_MODELS);
            all.extend(models.map(|model| cells(&model.name, &model.used, true)));
        }
        all
    }

    /// Returns how many rows aren't shown.
    fn hidden(&self) -> Option<String> {
        let hidden = self.report.rows_left_out;
        (hidden > 0).then(|| format!("{} more rows are in the JSON.", count(hidden as u64)))
    }

    /// Returns whether each row is a run, so that its number of runs is always 1.
    fn is_by_run(&self) -> bool {
        self.by == By::Session
    }

    fn total(&self) -> Cells {
        cells("Total", &self.report.total, false)
    }

    fn period_name(&self, name: &str) -> String {
        let Ok(day) = name.parse::<Date>() else {
            return String::new();
        };
        let same_year = day.year() == self.today.year();
        let words = match (self.by, same_year) {
            (By::Month, _) => day.strftime("%b %Y"),
            (_, true) => day.strftime("%a %-d %b"),
            (_, false) => day.strftime("%a %-d %b %Y"),
        };
        words.to_string()
    }

    /// Returns the address of the runs of a row, or of its days.
    fn link(&self, name: &str) -> Option<String> {
        match self.by {
            _ if name.is_empty() => None,
            By::Session => Some(href::run(name)),
            By::Model => Some(self.runs_with("model", name)),
            By::Project => Some(self.runs_with("project", name)),
            By::Day => Some(href::with_query(
                "/usage",
                &[
                    ("by", By::Session.as_str()),
                    ("since", name),
                    ("until", name),
                    ("q", &self.query),
                ],
            )),
            By::Week | By::Month => {
                let since: Date = name.parse().ok()?;
                let until = match self.by {
                    By::Week => since.checked_add(jiff::Span::new().days(6)).ok()?,
                    _ => since.last_of_month(),
                };
                Some(href::with_query(
                    "/usage",
                    &[
                        ("by", By::Day.as_str()),
                        ("since", name),
                        ("until", &until.to_string()),
                        ("q", &self.query),
                    ],
                ))
            }
        }
    }

    fn runs_with(&self, field: &str, value: &str) -> String {
        let value = value.replace('"', "");
        href::runs(format!("{} {field}:\"{value}\"", self.query).trim())
    }

    /// Returns the rows of the table by kind of token. Empty if no cost can be divided.
    fn kinds(&self) -> Vec<KindCells> {
        let kinds = &self.report.kinds;
        let is_divided = |kind: &KindRow| kind.kind != "other" && kind.cost > Some(0.0);
        if !kinds.iter().any(is_divided) {
            return Vec::new();
        }
        let all_tokens = self.report.total.tokens;
        let all_cost: f64 = kinds.iter().filter_map(|kind| kind.cost).sum();
        let micros = |usd: f64| (usd * 1e6).round() as u64;
        let row = |kind: &KindRow| {
            let about = |usd: Option<f64>| match usd {
                Some(usd) => format!("≈{}", format::usd(usd)),
                None => MISSING.to_owned(),
            };
            KindCells {
                name: kind.name(),
                tokens: format::tokens(kind.tokens),
                tokens_share: format::percent(kind.tokens, all_tokens),
                per_million: about(kind.per_million()),
                cost: about(kind.cost),
                cost_share: match kind.cost {
                    Some(cost) => format::percent(micros(cost), micros(all_cost)),
                    None => MISSING.to_owned(),
                },
                bar: bar(kind.cost, all_cost),
            }
        };
        kinds.iter().map(row).collect()
    }

    /// Explains the marks in the table: the mark, and what it means.
    fn key(&self) -> Vec<(&'static str, String)> {
        let mut key = self.report.total.marks();
        if self.report.total.cost_is_estimated {
            key.push(("no mark", "a recorded cost".to_owned()));
        }
        key.push(("–", "not recorded".to_owned()));
        key
    }

    /// States what the table doesn't count.
    fn notes(&self) -> Vec<String> {
        let without_usage = self.report.without_usage().into_iter();
        without_usage
            .map(|words| format!("{words}."))
            .chain(["Duplicates aren't counted.".to_owned()])
            .collect()
    }
}

impl Days {
    fn has_today(self, today: Date) -> bool {
        self.until.is_none_or(|until| until >= today)
    }
}

fn bar(cost: Option<f64>, most: f64) -> u64 {
    match cost {
        Some(cost) if most > 0.0 => (cost * 100.0 / most).round().clamp(0.0, 100.0) as u64,
        _ => 0,
    }
}

fn cells(name: &str, used: &Used, is_model: bool) -> Cells {
    let known = |tokens: Option<u64>| tokens.map_or(MISSING.to_owned(), format::tokens);
    let name = if name.is_empty() {
        "not recorded"
    } else {
        name
    };
    Cells {
        name: name.into(),
        title: "".into(),
        href: None,
        is_model,
        runs: count(used.runs as u64),
        uncached: format::tokens(used.tokens_uncached),
        cache_write: known(used.tokens_cache_write),
        cached: known(used.tokens_cached),
        share: used
            .cached_percent()
            .map_or(MISSING.to_owned(), |share| format!("{share}%")),
        output: format::tokens(used.tokens_out),
        cost: used.cost_words(),
        bar: 0,
    }
}
