//! Shows many runs at once: the page at `/overview`, its live parts, and its JSON.
//!
//! The page begins with the finding. Every mark of a chart is a link to its runs. The marks aren't
//! tab stops, because the table behind each chart has the same links.

use askama::Template;
use axum::extract::State;
use axum::response::IntoResponse as _;
use jiff::civil::Date;

use crate::analysis::columns::Column as Field;
use crate::analysis::failures::{FirstSeen, Place};
use crate::analysis::format::{self, MISSING, count, counted, last_part};
use crate::analysis::many::{
    self, Asked, Bar, Fact, Finding, MIN_CHARTED, ModelRow, Overview, ProjectRow, RepeatedTask,
    RunLine, StopReason, ToolRow, overview,
};
use crate::analysis::query::{Ignored, Needle, Query};
use crate::analysis::run_result::RunResult;
use crate::analysis::summary::Summary;
use crate::analysis::usage::Days;
use crate::model::price::LIST_DATE;
use crate::page::answer::{html, json, load_again};
use crate::page::app::AppState;
use crate::page::blocking::blocking;
use crate::page::error::Answer;
use crate::page::failures::{Piece, pieces};
use crate::page::params::Params;
use crate::page::part::{href, text};
use crate::page::runs::fill::list::Listed;
use crate::page::runs::handler::listed;
use crate::page::shell::{NavItem, Pulse, Shell, When, now};
use crate::page::usage::{PERIODS, days, period, today};

mod charts;

use charts::{Column, Hours, Mix, Part, Range, RunsChart, SMALL, Small, SmallBars, Tick, WEEKDAYS};

/// Rows of a list on the page.
const ROWS: usize = 12;
/// Rows of a list of the JSON.
const JSON_ROWS: usize = 100;
/// The period of a page whose address names none, if enough runs started in it.
const PERIOD: (&str, i32) = ("30d", 30);
const DAY_MICROS: i64 = 86_400_000_000;
/// Terms that the page offers to drop if nothing matches. Each costs a pass over all runs.
const MAX_DROPS: usize = 8;
/// The address of the live parts.
const LIVE: &str = "/live/overview";

/// `GET /overview`
pub(crate) async fn page(State(state): State<AppState>, params: Params) -> Answer {
    blocking(move || {
        let revision = *state.library.revision().borrow();
        let view = View::of(&state, &params, false)?;
        let shell = state.shell(NavItem::Overview);
        html(&OverviewPage {
            shell: Shell {
                title: "Overview".to_owned(),
                stream: Some("/events".to_owned()),
                revision,
                ..shell
            },
            pulse: view.pulse(revision),
            view,
        })
    })
    .await
    .flatten()
}

/// `GET /live/overview`: the totals and the chart of runs. The finding stays until the page is
/// loaded again, so that the sentence doesn't change while somebody reads it.
pub(crate) async fn part(State(state): State<AppState>, params: Params) -> Answer {
    blocking(move || {
        let revision = *state.library.revision().borrow();
        let view = View::of(&state, &params, true)?;
        if params.text("kind") != view.kind() {
            return Ok(load_again().into_response());
        }
        html(&OverviewPart {
            pulse: view.pulse(revision),
            view,
        })
    })
    .await
    .flatten()
}

/// `GET /api/overview`
pub(crate) async fn api(State(state): State<AppState>, params: Params) -> Answer {
    let days = days(&params)?.unwrap_or_default();
    blocking(move || {
        let query = state.query(params.text("q"));
        let (runs, _) = listed(&state, &query);
        let asked = Asked {
            days,
            now: now(),
            zone: &state.zone,
            limit: JSON_ROWS,
            is_part: false,
        };
        json(&overview(chosen(&runs, &query), &asked))
    })
    .await
    .flatten()
}

/// Iterates over the runs that a query selects.
fn chosen<'a>(runs: &'a [Listed], query: &'a Query) -> impl Iterator<Item = &'a Summary> {
    let runs = runs.iter().map(|listed| &*listed.summary);
    runs.filter(|run| query.matches(*run))
}

#[derive(Template)]
#[template(path = "overview/page.html")]
struct OverviewPage {
    shell: Shell,
    pulse: Pulse,
    view: View,
}

#[derive(Template)]
#[template(path = "overview/part.html")]
struct OverviewPart {
    pulse: Pulse,
    view: View,
}

/// The content of the page.
struct View {
    query: String,
    ignored: Vec<Ignored>,
    /// The chosen period, or empty if the address names days.
    period: &'static str,
    overview: Overview,
    /// What could be dropped if nothing matches: the term, the runs that would match, and the link.
    drops: Vec<(String, String, String)>,
    now: i64,
    zone: jiff::tz::TimeZone,
}

/// A link of a row of choices, and whether it's the current one.
struct Choice {
    href: String,
    name: &'static str,
    is_current: bool,
}

/// A number with the address of its runs.
struct Cell {
    words: String,
    /// Empty if there are none.
    href: String,
}

/// A row of the table behind a chart.
struct TableRow {
    name: text::Line,
    href: String,
    cells: Vec<Cell>,
}

/// A row of the models.
struct ModelView {
    name: text::Line,
    href: String,
    runs: String,
    cost: String,
    cost_change: String,
    costs: Option<SmallBars>,
    tokens: String,
    token_change: String,
    token_bars: SmallBars,
    share: String,
    /// The share in percent, for its bar.
    cached: Option<u64>,
}

/// A row of the repeated tasks.
struct TaskView {
    name: text::Line,
    href: Option<String>,
    passed: String,
    rate: String,
    low: String,
    high: String,
    middle: String,
    interval: String,
    at_least_one: String,
    all: String,
    strip: Strip,
}

/// The runs of a task, oldest first.
struct Strip {
    label: String,
    marks: Vec<charts::Mark>,
}

/// A row of the stop reasons.
struct ReasonView {
    name: text::Line,
    href: String,
    icon: &'static str,
    tint: &'static str,
    word: &'static str,
    runs: String,
    share: String,
    change: String,
    bars: SmallBars,
    /// The share of the most frequent one in percent, if there are no times.
    width: String,
}

/// A row of the tools.
struct ToolView {
    name: text::Line,
    href: String,
    runs: String,
    calls: String,
    failed: Cell,
    rate: String,
    /// The width of the bar of the rate in percent.
    rate_width: Option<String>,
    p50: String,
    p95: String,
    range: Option<Range>,
    total: String,
    share: String,
}

/// A row of the projects.
struct MixView {
    name: text::Line,
    title: text::Line,
    href: String,
    runs: String,
    mix: Mix,
    tokens: String,
    cost: String,
    change: String,
}

/// The sentence about the new failures: the message of the largest, and the words around it.
struct NewFailures {
    before: String,
    message: Vec<Piece>,
    href: String,
    after: String,
}

/// A row of the newest failures.
struct MessageView {
    message: Vec<Piece>,
    href: String,
    place: text::Line,
    runs: String,
    runs_href: String,
    first: Option<When>,
    is_quiet: bool,
    bars: SmallBars,
}

/// A run in a list.
struct LineView {
    title: text::Line,
    href: String,
    icon: &'static str,
    tint: &'static str,
    word: &'static str,
    verdict: text::Line,
    place: text::Line,
    reason: text::Line,
    steps: String,
    tokens: String,
    cost: String,
    took: String,
    when: Option<When>,
}

/// Formats the cost of a bar with its marks.
fn cost_of(bar: &many::ModelBar) -> String {
    match bar.cost {
        None if bar.cost_is_lower_bound => "unknown".to_owned(),
        cost => format::cost(
            Some(cost.unwrap_or(0.0)),
            bar.cost_is_estimated,
            bar.cost_is_lower_bound,
        ),
    }
}

impl View {
    fn of(
        state: &AppState,
        params: &Params,
        is_part: bool,
    ) -> Result<Self, crate::page::error::WebError> {
        let own = days(params)?;
        let named = match params.text("period") {
            "" => None,
            text => Some(period(text)?),
        };
        let (now, today) = (now(), today(state));
        let text = params.filter("q")?.to_owned();
        let query = state.query(&text);
        let (runs, _) = listed(state, &query);
        let period = match (own, named) {
            (Some(_), _) => "",
            (None, Some(named)) => named,
            (None, None) => usual(chosen(&runs, &query), now),
        };
        let named = PERIODS.iter().find(|(name, ..)| *name == period);
        let last = named.and_then(|(_, _, days)| *days);
        let days = own.unwrap_or_else(|| last.map_or(Days::default(), |n| Days::last(n, today)));
        let asked = Asked {
            days,
            now,
            zone: &state.zone,
            limit: ROWS,
            is_part,
        };
        let overview = overview(chosen(&runs, &query), &asked);
        let mut view = Self {
            query: text,
            ignored: query.ignored.clone(),
            period,
            overview,
            drops: Vec::new(),
            now,
            zone: state.zone.clone(),
        };
        if view.overview.totals.runs == 0 {
            view.drops = view.drops_of(&query, |without| {
                let query = state.query(without);
                many::number(chosen(&runs, &query), &asked)
            });
        }
        Ok(view)
    }

    fn drops_of(
        &self,
        query: &Query,
        count: impl Fn(&str) -> usize,
    ) -> Vec<(String, String, String)> {
        let terms = query.terms.iter().enumerate().take(MAX_DROPS);
        terms
            .map(|(at, term)| {
                let without = query.without(at);
                let words = text::shown(term.to_string()).to_string();
                let runs = counted(count(&without), "run");
                (words, runs, self.address(&without, self.period))
            })
            .collect()
    }

    /// Returns the kind of page. A change of it can't be swapped in.
    fn kind(&self) -> &'static str {
        match self.overview.totals.runs {
            0 => "none",
            _ if !self.overview.has_charts() => "few",
            _ if !self.overview.has_times() => "timeless",
            _ => "charts",
        }
    }

    fn pulse(&self, revision: u64) -> Pulse {
        let (since, until) = self.own_days();
        let url = href::with_query(
            LIVE,
            &[
                ("q", &self.query),
                ("period", self.period),
                ("since", &since),
                ("until", &until),
                ("kind", self.kind()),
                ("rev", &revision.to_string()),
            ],
        );
        Pulse {
            url,
            revision,
            count: 0,
            noun: "run",
            say: None,
        }
    }

    /// Returns the days if the address names them.
    fn own_days(&self) -> (String, String) {
        let word = |day: Option<Date>| day.map(|day| day.to_string()).unwrap_or_default();
        match self.period {
            "" => (
                word(self.overview.days.since),
                word(self.overview.days.until),
            ),
            _ => Default::default(),
        }
    }

    fn address(&self, query: &str, period: &str) -> String {
        let (since, until) = match period {
            "" => self.own_days(),
            _ => Default::default(),
        };
        href::with_query(
            href::OVERVIEW,
            &[
                ("q", query),
                ("period", period),
                ("since", &since),
                ("until", &until),
            ],
        )
    }

    fn periods(&self) -> Vec<Choice> {
        let choice = |(name, label, _): &(&'static str, &'static str, Option<i32>)| Choice {
            href: self.address(&self.query, name),
            name: label,
            is_current: *name == self.period,
        };
        PERIODS.iter().map(choice).collect()
    }

    /// Returns the address of the same runs at any time, and their number.
    fn any_time(&self) -> (String, String) {
        (
            self.address(&self.query, "all"),
            counted(self.overview.runs_on_any_day, "run"),
        )
    }

    fn json(&self) -> String {
        let word = |day: Option<Date>| day.map(|day| day.to_string()).unwrap_or_default();
        let days = self.overview.days;
        href::with_query(
            "/api/overview",
            &[
                ("q", &self.query),
                ("since", &word(days.since)),
                ("until", &word(days.until)),
            ],
        )
    }

    /// Returns the command that prints the same numbers.
    fn command(&self) -> String {
        let mut command = "board overview".to_owned();
        let days = self.overview.days;
        let query = self.query.trim();
        if !query.is_empty() {
            // A word that begins with a hyphen would be an option.
            let gap = if query.starts_with('-') { " " } else { "" };
            let query = text::shell_word(&format!("{gap}{query}"));
            command.push_str(&format!(" --query {query}"));
        }
        if let Some(since) = days.since {
            command.push_str(&format!(" --since {since}"));
        }
        if let Some(until) = days.until.filter(|until| *until != self.overview.today) {
            command.push_str(&format!(" --until {until}"));
        }
        command
    }

    /// States of how many repeated tasks the results are known, if not of all.
    fn known_tasks(&self) -> Option<String> {
        let tasks = &self.overview.tasks;
        let (known, all) = (
            tasks.rows.len() + tasks.left_out,
            self.overview.repeated_tasks,
        );
        (known < all).then(|| {
            let [known, all] = [known, all].map(|tasks| count(tasks as u64));
            format!("{known} of {all} have known results.")
        })
    }

    /// Returns the finding: what comes before the name that it's about, the name with its link, and
    /// the rest of the sentence.
    fn finding(&self) -> (String, Option<(text::Line, Option<String>)>, text::Line) {
        let (before, name, rest) = self.overview.sentence_parts();
        let link = match &self.overview.finding {
            Finding::ChangePoint { query, .. } => query.as_deref().map(|terms| self.link(terms)),
            Finding::NewFailure { id, .. } => Some(self.failure(id)),
            _ => None,
        };
        let name = name.map(|name| (text::shown(name), link));
        (before, name, text::shown(rest))
    }

    /// Returns the address of the runs of the period that these terms select.
    fn link(&self, terms: &str) -> String {
        self.runs(&[&self.days_term(), terms])
    }

    /// Returns the term for the days of the period. Empty for all time.
    fn days_term(&self) -> String {
        let days = self.overview.days;
        let word = |day: Option<Date>| day.map(|day| day.to_string()).unwrap_or_default();
        match days == Days::default() {
            true => String::new(),
            false => format!("started:{}..{}", word(days.since), word(days.until)),
        }
    }

    /// Returns the address of the runs of the page's filter that all these terms select.
    fn runs(&self, terms: &[&str]) -> String {
        let all = [self.query.trim()].into_iter().chain(terms.iter().copied());
        let all: Vec<&str> = all.filter(|terms| !terms.is_empty()).collect();
        href::runs(&all.join(" "))
    }

    /// Returns a bar for each number of runs, which `terms` select.
    fn run_bars(&self, runs: &[usize], terms: &str) -> Vec<Small> {
        let bars = self.overview.bars.iter().zip(runs);
        bars.map(|(bar, runs)| Small {
            value: *runs as f64,
            href: self.bar_link(bar, terms),
            title: format!("{}: {}", self.bar_name(bar), counted(*runs, "run")),
        })
        .collect()
    }

    /// Returns the address of the runs of a bar.
    fn bar_link(&self, bar: &Bar, terms: &str) -> String {
        let days = match bar.since == bar.until {
            true => format!("started:{}", bar.since),
            false => format!("started:{}..{}", bar.since, bar.until),
        };
        self.runs(&[&days, terms])
    }

    /// Names a bar: `Tue 27 Oct`, `27 Oct – 2 Nov`, `Oct 2026`.
    fn bar_name(&self, bar: &Bar) -> String {
        let Ok(day) = bar.since.parse::<Date>() else {
            return bar.since.clone();
        };
        match self.overview.bars_are {
            "month" => day.strftime("%b %Y").to_string(),
            "week" if bar.since == bar.until => self.overview.day_words(&bar.since),
            "week" => format!(
                "{} – {}",
                self.overview.day_words(&bar.since),
                self.overview.day_words(&bar.until)
            ),
            _ => format!(
                "{} {}",
                day.strftime("%a"),
                self.overview.day_words(&bar.since)
            ),
        }
    }

    fn facts(&self) -> Vec<Fact> {
        self.overview.facts()
    }

    fn ticks(&self) -> Vec<Tick> {
        let bars = &self.overview.bars;
        let width = 100.0 / bars.len().max(1) as f64;
        let every = match (self.overview.bars_are, bars.len()) {
            ("day", 0..=10) => 1,
            ("day", 11..=45) => 7,
            ("day", _) => 14,
            (_, 0..=12) => 1,
            (_, 13..=30) => 4,
            _ => 12,
        };
        // Labels count from the newest bar, so that it has one.
        let place = |at: usize| (bars.len() - 1 - at).is_multiple_of(every);
        let named = bars.iter().enumerate().filter(|(at, _)| place(*at));
        let last = bars.len().saturating_sub(1);
        named
            .map(|(at, bar)| {
                let day: Option<Date> = bar.since.parse().ok();
                let is_today = bar.until == self.overview.today.to_string();
                let words = match (self.overview.bars_are, day) {
                    ("month", Some(day)) => day.strftime("%b %Y").to_string(),
                    ("day", Some(_)) if is_today => "today".to_owned(),
                    _ => self.overview.day_words(&bar.since),
                };
                let middle = (at as f64 + 0.5) * width;
                let (x, anchor) = match at {
                    _ if at == last && at > 0 => (100.0, "end"),
                    _ if middle < 4.0 => (at as f64 * width, "start"),
                    _ => (middle, "middle"),
                };
                Tick {
                    x: charts::percent(x),
                    anchor,
                    words,
                    is_major: (last - at).is_multiple_of(every * 2),
                }
            })
            .collect()
    }

    /// Returns the parts of a bar or of all runs.
    fn parts(
        &self,
        results: &std::collections::BTreeMap<RunResult, usize>,
        runs: usize,
        href: impl Fn(&str) -> String,
    ) -> Vec<Part> {
        let open = runs.saturating_sub(results.values().sum());
        charts::order()
            .map(|result| Part {
                result,
                runs: result.map_or(open, |result| {
                    results.get(&result).copied().unwrap_or_default()
                }),
                href: href(&result_terms(result)),
            })
            .collect()
    }

    fn columns(&self) -> Vec<Column> {
        let column = |bar: &Bar| Column {
            name: self.bar_name(bar),
            href: self.bar_link(bar, ""),
            runs: bar.runs,
            parts: self.parts(&bar.results, bar.runs, |terms| self.bar_link(bar, terms)),
        };
        self.overview.bars.iter().map(column).collect()
    }

    fn runs_chart(&self) -> RunsChart {
        let label = format!(
            "Runs by {} and result; the table below has the numbers",
            self.overview.bars_are
        );
        RunsChart::new(label, &self.columns(), self.ticks())
    }

    /// Returns the results with their numbers, which are the legend and the filter.
    fn legend(&self) -> Vec<(charts::Look, &'static str, String, String)> {
        let totals = &self.overview.totals;
        self.parts(&totals.results, totals.runs, |terms| self.link(terms))
            .into_iter()
            .filter(|part| part.runs > 0)
            .map(|part| {
                let number = count(part.runs as u64);
                let word = charts::word(part.result);
                (charts::look(part.result), word, number, part.href)
            })
            .collect()
    }

    /// Returns all runs as one bar.
    fn all_results(&self) -> Mix {
        let totals = &self.overview.totals;
        Mix::new(self.parts(&totals.results, totals.runs, |terms| self.link(terms)))
    }

    /// Returns the heads of the table of runs.
    fn result_heads(&self) -> Vec<&'static str> {
        charts::order().map(charts::word).collect()
    }

    /// Returns the rows of the table of runs, the newest first.
    fn runs_table(&self) -> Vec<TableRow> {
        let columns = self.columns();
        let row = |column: &Column| TableRow {
            name: column.name.as_str().into(),
            href: column.href.clone(),
            cells: [cell(column.runs, &column.href)]
                .into_iter()
                .chain(column.parts.iter().map(|part| cell(part.runs, &part.href)))
                .collect(),
        };
        columns.iter().rev().map(row).collect()
    }

    /// Returns the address of an open failure among those of the period.
    fn failure(&self, id: &str) -> String {
        href::failures(&self.failures_query(), "", "", id)
    }

    /// Returns the query for the runs of the period.
    fn failures_query(&self) -> String {
        let query = format!("{} {}", self.query.trim(), self.days_term());
        query.trim().to_owned()
    }

    /// Returns the sentence about the new failures.
    fn new_failures(&self) -> Option<NewFailures> {
        let (before, failure, after) = self.overview.new_failures()?;
        Some(NewFailures {
            before,
            message: pieces(&failure.message),
            href: self.failure(&failure.id),
            after,
        })
    }

    /// Returns the failures of the period that were first seen last.
    fn newest_messages(&self) -> Vec<MessageView> {
        let rows = self.overview.failures.newest.iter();
        rows.map(|failure| self.message(failure)).collect()
    }

    fn message(&self, failure: &FirstSeen) -> MessageView {
        let terms = format!("failure:{}", failure.id);
        MessageView {
            message: pieces(&failure.message),
            href: self.failure(&failure.id),
            place: failure.place().into(),
            runs: counted(failure.runs, "run"),
            runs_href: self.link(&terms),
            first: failure
                .first_at
                .and_then(|at| When::of(at, self.now, &self.zone)),
            is_quiet: failure.is_quiet,
            bars: SmallBars::new(
                format!("Runs per {}", self.overview.bars_are),
                "b-err",
                22.0,
                self.run_bars(&failure.bars, &terms),
                None,
            ),
        }
    }

    /// Returns the number of failures of the period, and their address.
    fn all_messages(&self) -> Cell {
        Cell {
            words: count(self.overview.failures.failures as u64),
            href: href::failures(&self.failures_query(), "", "", ""),
        }
    }

    fn failures(&self) -> Vec<LineView> {
        let lines = self.overview.newest_failures.iter();
        lines.map(|line| self.line(line)).collect()
    }

    fn newest(&self) -> Vec<LineView> {
        let lines = self.overview.newest_runs.iter();
        lines.map(|line| self.line(line)).collect()
    }

    fn all_failures(&self) -> Cell {
        let number = self.overview.totals.trouble();
        Cell {
            words: count(number as u64),
            href: self.link("result:limit,failed,error"),
        }
    }

    fn line(&self, line: &RunLine) -> LineView {
        let look = charts::look(line.result);
        let project = line.project.as_deref().map(last_part);
        let place: Vec<&str> = project.into_iter().chain(line.model.as_deref()).collect();
        LineView {
            title: line.title.as_str().into(),
            href: href::run(&line.key),
            icon: look.icon,
            tint: look.tint,
            word: charts::word(line.result),
            verdict: line.verdict.as_str().into(),
            place: place.join(" · ").into(),
            reason: line.stop_reason.as_deref().unwrap_or(MISSING).into(),
            steps: known(line.steps, |steps| count(steps as u64)),
            tokens: known(line.tokens, format::tokens),
            cost: format::cost(line.cost, line.cost_is_estimated, line.cost_is_lower_bound),
            took: known(line.duration_ms, format::millis),
            when: line
                .started
                .and_then(|at| When::of(at, self.now, &self.zone)),
        }
    }

    /// Returns whether any run has a known cost.
    fn has_costs(&self) -> bool {
        self.overview.all_models.used.cost.is_some()
    }

    fn models_note(&self) -> String {
        let used = &self.overview.all_models.used;
        match (used.cost.is_some(), used.cost_is_estimated) {
            (true, true) => format!("≈ estimated from list prices of {LIST_DATE}, or your own."),
            (true, false) => "Costs are recorded by the runs.".to_owned(),
            (false, _) => "No run has a known cost.".to_owned(),
        }
    }

    fn models(&self) -> Vec<ModelView> {
        let models = &self.overview.models.rows;
        // A single model would repeat the row of all.
        let all = (models.len() > 1).then(|| self.model(&self.overview.all_models, true));
        all.into_iter()
            .chain(models.iter().map(|model| self.model(model, false)))
            .collect()
    }

    fn model(&self, model: &ModelRow, is_all: bool) -> ModelView {
        let terms = match is_all {
            true => String::new(),
            false => used_model(&model.name),
        };
        let name = match model.name.as_str() {
            _ if is_all => "All models",
            "" => "not recorded",
            name => name,
        };
        let used = &model.used;
        let bars = |value: &dyn Fn(&many::ModelBar) -> f64,
                    words: &dyn Fn(&many::ModelBar) -> String| {
            let bars = self.overview.bars.iter().zip(&model.bars);
            let bars = bars.map(|(bar, sums)| Small {
                value: value(sums),
                href: self.bar_link(bar, &terms),
                title: format!("{}: {}", self.bar_name(bar), words(sums)),
            });
            bars.collect::<Vec<_>>()
        };
        let all_tokens = &self.overview.totals.tokens;
        let mark = if used.cost_is_estimated { "≈" } else { "" };
        let dollars = |usd: f64| format!("{mark}{}", format::usd(usd));
        let tokens = |number: f64| format::tokens(number as u64);
        let before = model.before.as_ref();
        let height = if is_all { 40.0 } else { SMALL + 6.0 };
        let unit = self.overview.bars_are;
        ModelView {
            name: name.into(),
            href: self.link(&terms),
            runs: counted(used.runs, "run"),
            cost: used.cost_words(),
            cost_change: before
                .and_then(|before| {
                    many::amounts(
                        used.cost?,
                        before.cost.unwrap_or(0.0),
                        before.runs,
                        format::usd,
                    )
                })
                .unwrap_or_default(),
            costs: used.cost.map(|_| {
                SmallBars::new(
                    format!("{name}: cost by {unit}"),
                    "b-cost",
                    height,
                    bars(&|bar| bar.cost.unwrap_or(0.0), &cost_of),
                    Some(&dollars),
                )
            }),
            tokens: match is_all {
                true => format!("{}{}", all_tokens.mark(), format::tokens(used.tokens)),
                false => format::tokens(used.tokens),
            },
            token_change: before
                .and_then(|before| {
                    many::amounts(
                        used.tokens as f64,
                        before.tokens as f64,
                        before.runs,
                        tokens,
                    )
                })
                .unwrap_or_default(),
            token_bars: SmallBars::new(
                format!("{name}: tokens by {unit}"),
                "b-tokens",
                height,
                bars(&|bar| bar.tokens as f64, &|bar| format::tokens(bar.tokens)),
                Some(&tokens),
            ),
            share: known(used.cached_percent(), |share| format!("{share}%")),
            cached: used.cached_percent(),
        }
    }

    /// Returns the table of costs and tokens by bar: the heads, and the rows from new to old.
    fn models_table(&self) -> (Vec<text::Line>, Vec<TableRow>) {
        let models = &self.overview.models.rows;
        let heads = models.iter().map(|model| match model.name.as_str() {
            "" => "not recorded".into(),
            name => name.into(),
        });
        let rows = self.overview.bars.iter().enumerate().rev();
        let rows = rows.map(|(at, bar)| TableRow {
            name: self.bar_name(bar).into(),
            href: self.bar_link(bar, ""),
            cells: models
                .iter()
                .map(|model| {
                    let sums = model.bars.get(at).copied().unwrap_or_default();
                    let cost = sums.cost.map(|_| cost_of(&sums));
                    let words = match (sums.tokens, cost) {
                        (0, None) => String::new(),
                        (tokens, None) => format::tokens(tokens),
                        (tokens, Some(cost)) => format!("{} · {cost}", format::tokens(tokens)),
                    };
                    Cell {
                        href: match words.is_empty() {
                            true => String::new(),
                            false => self.bar_link(bar, &used_model(&model.name)),
                        },
                        words,
                    }
                })
                .collect(),
        });
        (heads.collect(), rows.collect())
    }

    fn tasks(&self) -> Vec<TaskView> {
        self.overview
            .tasks
            .rows
            .iter()
            .map(|task| self.task(task))
            .collect()
    }

    fn task(&self, task: &RepeatedTask) -> TaskView {
        let percent = |rate: f64| format::percent((rate * 1e6).round() as u64, 1_000_000);
        let width = 100.0 / task.newest.len().max(1) as f64;
        // Few runs don't fill the width, so that a mark has the same size in most rows.
        let width = width.min(5.0);
        let marks = task
            .newest
            .iter()
            .enumerate()
            .map(|(at, run)| charts::Mark {
                href: href::run(&run.key),
                title: if run.passed { "solved" } else { "not solved" }.to_owned(),
                class: if run.passed { "t-ok" } else { "t-no" },
                fill: "",
                x: charts::percent(at as f64 * width),
                y: if run.passed { "2" } else { "9" }.to_owned(),
                width: charts::percent(width * 0.8),
                height: "7".to_owned(),
            });
        TaskView {
            name: task.name.as_str().into(),
            href: task.query.as_deref().map(|terms| self.link(terms)),
            passed: format!("{}/{}", task.passed, task.runs),
            rate: percent(task.pass_at_1),
            low: charts::percent(task.low * 100.0),
            high: charts::percent(task.high * 100.0),
            middle: charts::percent(task.pass_at_1 * 100.0),
            interval: format!("{} to {}", percent(task.low), percent(task.high)),
            at_least_one: known(task.pass_at_3, percent),
            all: known(task.all_of_3, percent),
            strip: Strip {
                label: format!("solved in {} of {} runs", task.passed, task.runs),
                marks: marks.collect(),
            },
        }
    }

    fn hours(&self) -> Hours {
        Hours::new(
            "Runs by hour of the week; the table below has the numbers".to_owned(),
            &self.overview.hours,
            |day, hour| self.link(&hour_terms(day, hour)),
        )
    }

    fn hours_note(&self) -> String {
        let zone = self.zone_name();
        let zone = zone.map(|name| format!(" {name}.")).unwrap_or_default();
        let busiest = self.overview.busiest().map(|(day, hour, runs)| {
            let day = WEEKDAYS.get(day).copied().unwrap_or_default();
            format!(
                " Busiest: {day} {hour:02}:00 with {}.",
                counted(runs, "run")
            )
        });
        format!(
            "Circle area: number of runs.{zone}{}",
            busiest.unwrap_or_default()
        )
    }

    fn hours_table(&self) -> Vec<TableRow> {
        let days = WEEKDAYS.iter().zip(&self.overview.hours).enumerate();
        days.map(|(day, (name, hours))| TableRow {
            name: (*name).into(),
            href: self.link(&format!("weekday:{}", name.to_lowercase())),
            cells: hours
                .iter()
                .enumerate()
                .map(|(hour, runs)| cell(*runs, &self.link(&hour_terms(day, hour))))
                .collect(),
        })
        .collect()
    }

    fn reasons(&self) -> Vec<ReasonView> {
        let rows = &self.overview.stop_reasons.rows;
        let most = rows.iter().map(|row| row.runs).max().unwrap_or_default();
        rows.iter().map(|row| self.reason(row, most)).collect()
    }

    fn reason(&self, row: &StopReason, most: usize) -> ReasonView {
        let terms = match &row.name {
            Some(name) => format!("stop:{}", Needle::new(name.as_str())),
            None => "stop:none".to_owned(),
        };
        let look = charts::look(row.result);
        let name = row.name.as_deref().unwrap_or("not recorded");
        ReasonView {
            href: self.link(&terms),
            icon: look.icon,
            tint: look.tint,
            word: charts::word(row.result),
            runs: count(row.runs as u64),
            share: format::percent(row.runs as u64, self.overview.totals.runs as u64),
            change: row
                .before
                .and_then(|before| many::counts(row.runs, before))
                .unwrap_or_default(),
            bars: SmallBars::new(
                format!("{}: runs by {}", text::shown(name), self.overview.bars_are),
                "b-ink",
                16.0,
                self.run_bars(&row.bars, &terms),
                None,
            ),
            width: format!("{:.1}", row.runs as f64 * 100.0 / most.max(1) as f64),
            name: name.into(),
        }
    }

    fn reasons_table(&self) -> (Vec<text::Line>, Vec<TableRow>) {
        let reasons = &self.overview.stop_reasons.rows;
        let heads = reasons
            .iter()
            .map(|row| row.name.as_deref().unwrap_or("not recorded").into());
        let rows = self.overview.bars.iter().enumerate().rev();
        let rows = rows.map(|(at, bar)| TableRow {
            name: self.bar_name(bar).into(),
            href: self.bar_link(bar, ""),
            cells: reasons
                .iter()
                .map(|row| {
                    let terms = match &row.name {
                        Some(name) => format!("stop:{}", Needle::new(name.as_str())),
                        None => "stop:none".to_owned(),
                    };
                    let runs = row.bars.get(at).copied().unwrap_or_default();
                    cell(runs, &self.bar_link(bar, &terms))
                })
                .collect(),
        });
        (heads.collect(), rows.collect())
    }

    fn tools(&self) -> Vec<ToolView> {
        self.overview
            .tools
            .rows
            .iter()
            .map(|row| self.tool(row))
            .collect()
    }

    fn tool(&self, row: &ToolRow) -> ToolView {
        /// The rate at which its bar is full. Most tools fail less often.
        const FULL: f64 = 0.2;
        let terms = equal("tool", &row.name);
        let is_judged = row.calls_judged > 0;
        let rate = row.calls_failed as f64 / row.calls_judged.max(1) as f64;
        let percentiles = row.p50_ms.zip(row.p95_ms);
        ToolView {
            name: row.name.as_str().into(),
            href: self.link(&terms),
            runs: counted(row.runs, "run"),
            calls: count(row.calls),
            failed: Cell {
                words: match is_judged {
                    true => count(row.calls_failed),
                    false => MISSING.to_owned(),
                },
                href: match row.calls_failed {
                    0 => String::new(),
                    _ => self.failures_at(&Place::of_tool(&row.name)),
                },
            },
            rate: format::percent(row.calls_failed, row.calls_judged),
            rate_width: is_judged.then(|| format!("{:.0}", (rate / FULL).min(1.0) * 100.0)),
            p50: many::percentile_words(row.p50_ms),
            p95: many::percentile_words(row.p95_ms),
            range: percentiles.map(|(p50, p95)| Range::new(p50, p95)),
            total: row.total_ms.map_or(MISSING.to_owned(), format::millis),
            share: self.overview.tool_share(row),
        }
    }

    /// Returns the address of the failures of the period that happened there.
    fn failures_at(&self, place: &Place) -> String {
        href::failures(&self.failures_query(), "", &place.word(), "")
    }

    /// Returns whether the duration of any call is known.
    fn has_call_times(&self) -> bool {
        self.overview.tool_ms.is_some()
    }

    /// Words the calls of all tools: `8,384 calls, 980 failed (12%)`.
    fn calls(&self) -> String {
        let Some(calls) = self.overview.tool_calls else {
            return "The runs don't record their calls.".to_owned();
        };
        let calls_words = match calls {
            1 => "1 call".to_owned(),
            _ => format!("{} calls", count(calls)),
        };
        let (failed, known) = (
            self.overview.tool_errors,
            self.overview.tool_calls_with_errors,
        );
        match failed.zip(known) {
            Some((failed, known)) if known == calls => format!(
                "{calls_words}, {} failed ({}).",
                count(failed),
                format::percent(failed, known)
            ),
            // Some runs don't record which calls failed.
            Some((failed, known)) => format!(
                "{calls_words}. {} of {} recorded results failed ({}).",
                count(failed),
                count(known),
                format::percent(failed, known)
            ),
            None => format!("{calls_words}."),
        }
    }

    fn projects(&self) -> Vec<MixView> {
        let rows = self.overview.projects.rows.iter();
        rows.map(|row| self.project(row)).collect()
    }

    fn project(&self, row: &ProjectRow) -> MixView {
        let terms = match &row.name {
            Some(name) => equal("project", name),
            None => "project:none".to_owned(),
        };
        let with = |more: &str| self.link(&format!("{terms} {more}"));
        let name = row.name.as_deref();
        let before = self.overview.before.is_some();
        MixView {
            name: name.map_or("no project recorded", last_part).into(),
            title: name.unwrap_or_default().into(),
            href: self.link(&terms),
            runs: count(row.runs as u64),
            mix: Mix::new(self.parts(&row.results, row.runs, with)),
            tokens: known(row.tokens, format::tokens),
            cost: format::cost(row.cost, row.cost_is_estimated, row.cost_is_lower_bound),
            change: row
                .cost
                .filter(|_| before)
                .and_then(|cost| {
                    let was = row.cost_before.unwrap_or(0.0);
                    many::amounts(cost, was, row.runs_before, format::usd)
                })
                .unwrap_or_default(),
        }
    }

    /// States how many rows a list leaves out: `12 of 56`.
    fn shown(&self, rows: usize, left_out: &usize) -> String {
        match left_out {
            0 => String::new(),
            _ => format!(
                "{} of {} shown",
                count(rows as u64),
                count((rows + left_out) as u64)
            ),
        }
    }

    /// Returns the name of the zone as people write it: `Europe/Berlin`, `UTC`.
    fn zone_name(&self) -> Option<&str> {
        let name = self.zone.iana_name()?;
        Some(name.strip_prefix("Etc/").unwrap_or(name))
    }

    fn notes(&self) -> Vec<String> {
        let mut notes = self.overview.notes();
        if let Some(zone) = self.zone_name() {
            notes.push(format!("Times are {zone}."));
        }
        notes
    }
}

/// Returns the terms for a result.
fn result_terms(result: Option<RunResult>) -> String {
    format!("result:{}", result.map_or("none", RunResult::as_str))
}

/// Returns the terms for an hour of the week.
fn hour_terms(day: usize, hour: usize) -> String {
    let day = WEEKDAYS.get(day).copied().unwrap_or_default();
    format!("weekday:{} hour:{hour}", day.to_lowercase())
}

/// Returns the term for a text of a field. An empty one isn't recorded.
fn equal(field: &str, text: &str) -> String {
    debug_assert!(Field::find(field).is_some());
    match text {
        "" => format!("{field}:none"),
        text => format!("{field}={}", Needle::new(text)),
    }
}

/// Returns the term for the runs that used a model, even as one of several.
fn used_model(name: &str) -> String {
    match name {
        "" => equal("model", name),
        name => equal("models", name),
    }
}

fn cell(runs: usize, href: &str) -> Cell {
    Cell {
        words: count(runs as u64),
        href: if runs > 0 { href } else { "" }.to_owned(),
    }
}

fn known<T>(value: Option<T>, words: impl Fn(T) -> String) -> String {
    value.map_or(MISSING.to_owned(), words)
}

/// Returns the usual period: the last 30 days if enough runs started in them, else all time.
fn usual<'a>(runs: impl Iterator<Item = &'a Summary>, now: i64) -> &'static str {
    let (name, days) = PERIOD;
    let earliest = now.saturating_sub(i64::from(days) * DAY_MICROS);
    let is_recent = |run: &&Summary| run.counts() && run.started.is_some_and(|at| at > earliest);
    match runs.filter(is_recent).take(MIN_CHARTED).count() {
        MIN_CHARTED => name,
        _ => "all",
    }
}
