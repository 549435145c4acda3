//! Shows what failed in many runs: the page at `/failures`, and its JSON.
//!
//! The page begins with the failure that ended most runs. One failure is open at a time, with an
//! example, its newest runs and what happened next.

use askama::Template;
use axum::extract::State;

use crate::analysis::failures::{
    Example, Failure, Failures, Part, Place, Share, Standing, Wanted, failures, message_of_end,
    parts,
};
use crate::analysis::format::{self, MISSING, age, count, counted, date, last_part};
use crate::analysis::query::{Clock, Ignored, Needle, Query};
use crate::analysis::summary::Summary;
use crate::model::failure::FailureSource;
use crate::page::answer::{html, json};
use crate::page::app::AppState;
use crate::page::blocking::blocking;
use crate::page::error::{Answer, WebError};
use crate::page::params::Params;
use crate::page::part::{href, text};
use crate::page::runs::fill::list::Listed;
use crate::page::runs::handler::listed;
use crate::page::shell::{NavItem, Shell, Status, now};

/// Maximum number of rows on the page. The JSON has more.
const MAX_ROWS: usize = 200;
/// Failures of the JSON by default.
const DEFAULT_LIMIT: usize = 1_000;
/// The height of a trend, and of its highest bar.
const HEIGHT: usize = 22;
const HIGHEST: usize = 20;
/// The characters of an original message that are shown.
const MAX_MESSAGE: usize = 600;
/// A period, and the term of the query that selects it.
const PERIODS: [(&str, &str); 5] = [
    ("Today", "started:today"),
    ("7 days", "started:7d"),
    ("30 days", "started:30d"),
    ("90 days", "started:90d"),
    ("All", ""),
];
/// Which failures are listed: the word in the address, and the label.
const SHOWN: [(&str, &str); 5] = [
    ("", "All"),
    ("new", "New"),
    ("rising", "Rising"),
    ("ended", "Ended a run"),
    ("quiet", "Not seen for 7 days"),
];

/// `GET /failures`
pub(crate) async fn page(State(state): State<AppState>, params: Params) -> Answer {
    let show = shown(params.text("show"))?;
    let [place, open] = ["where", "open"].map(|name| params.text(name).to_owned());
    let query = params.filter("q")?.to_owned();
    blocking(move || {
        let (now, zone) = (now(), &state.zone);
        let parsed = Query::parse_at(&query, &Clock::at(now, zone));
        let (runs, _) = listed(&state, &parsed);
        let chosen_place = Some(&place).filter(|place| !place.is_empty());
        let chosen_place = chosen_place.map(|place| Place::of(place));
        let is_chosen = |one: &Standing<'_>| {
            is_shown(show, one) && chosen_place.as_ref().is_none_or(|place| one.is_at(place))
        };
        let wanted = Wanted {
            most: MAX_ROWS,
            open: &open,
            is_chosen: &is_chosen,
        };
        let report = failures(chosen(&runs, &parsed), now, zone, &wanted);
        let example = report
            .failures
            .iter()
            .find(|failure| failure.id == open)
            .and_then(|failure| failure.examples.first())
            .map(|example| original(&state, example));
        let shell = state.shell(NavItem::Failures);
        html(&FailuresPage {
            shell: Shell {
                title: "Failures".to_owned(),
                ..shell
            },
            view: View {
                query,
                ignored: parsed.ignored,
                show,
                place,
                open,
                example,
                now,
                zone: state.zone.clone(),
                report,
            },
        })
    })
    .await
    .flatten()
}

/// `GET /api/failures`
pub(crate) async fn api(State(state): State<AppState>, params: Params) -> Answer {
    let limit = params.limit(DEFAULT_LIMIT)?;
    let text = params.filter("q")?.to_owned();
    blocking(move || {
        let now = now();
        let query = Query::parse_at(&text, &Clock::at(now, &state.zone));
        let (runs, _) = listed(&state, &query);
        let wanted = Wanted::first(limit);
        json(&failures(chosen(&runs, &query), now, &state.zone, &wanted))
    })
    .await
    .flatten()
}

/// Iterates over the runs that a query selects.
fn chosen<'a>(runs: &'a [Listed], query: &'a Query) -> impl Iterator<Item = &'a Summary> {
    let runs = runs.iter().map(|listed| &*listed.summary);
    runs.filter(|run| query.matches(*run))
}

fn shown(text: &str) -> Result<&'static str, WebError> {
    let known = SHOWN.iter().find(|(word, _)| *word == text);
    known.map(|(word, _)| *word).ok_or_else(|| {
        let detail = "`show` must be one of: new, rising, ended, quiet.";
        WebError::bad_request("Invalid choice", detail).named(text)
    })
}

fn is_shown(show: &str, failure: &Standing<'_>) -> bool {
    match show {
        "new" => failure.is_new,
        "rising" => failure.is_rising,
        "ended" => failure.ended > 0,
        "quiet" => failure.is_quiet,
        _ => true,
    }
}

/// An example in the words of its run.
struct Original {
    /// The command that failed, on one line.
    command: text::Line,
    /// The message before it was folded. Empty if it wasn't read.
    message: text::Line,
}

/// Reads the message of an example from its run.
fn original(state: &AppState, example: &Example) -> Original {
    let none = Original {
        command: "".into(),
        message: "".into(),
    };
    let Some(run) = state.library.run(&example.run) else {
        return none;
    };
    let is_end = example.ended && example.steps == 0;
    // Reading a large run takes longer than anybody waits for an example.
    if !is_end && example.step.is_none() || run.is_parked() && run.is_large() {
        return none;
    }
    let index = run.index_once();
    let Some(n) = example.step else {
        let summary = run.summary();
        let message = message_of_end(&index, &summary.life);
        return Original {
            message: cut(message.unwrap_or(&summary.verdict.sentence)),
            ..none
        };
    };
    let Some(step) = index.steps().get(n) else {
        return none;
    };
    let failed = step.failed_call.as_deref();
    let printed = failed.and_then(|failed| failed.printed.as_deref());
    let code = || {
        let code = step.returncode?;
        Some(format!("exit code {}", format::exit_code(code)))
    };
    let message = index.failure_of(n).or(printed).map(str::to_owned);
    Original {
        command: cut(failed
            .and_then(|failed| failed.command.as_deref())
            .unwrap_or_default()),
        message: cut(&message.or_else(code).unwrap_or_default()),
    }
}

fn cut(text: &str) -> text::Line {
    text::one_line(text, MAX_MESSAGE).0.into()
}

#[derive(Template)]
#[template(path = "failures/page.html")]
struct FailuresPage {
    shell: Shell,
    view: View,
}

/// The content of the page.
struct View {
    query: String,
    ignored: Vec<Ignored>,
    /// The word of [`SHOWN`].
    show: &'static str,
    /// The word for where listed failures happen ([`Place::word`]). Empty for all.
    place: String,
    /// The id of the open failure.
    open: String,
    example: Option<Original>,
    now: i64,
    zone: jiff::tz::TimeZone,
    report: Failures,
}

/// A link of a row of choices, and whether it's the current one.
struct Choice {
    href: String,
    name: text::Line,
    count: String,
    is_current: bool,
}

/// A part of a message: words, or the word for something that was folded.
pub(crate) struct Piece {
    pub(crate) words: text::Line,
    pub(crate) is_folded: bool,
}

/// A bar of a trend.
struct Bar {
    /// The position and the width in percent.
    x: String,
    width: String,
    y: usize,
    height: usize,
    title: String,
    /// The days, the number of runs, and the address of these runs.
    days: String,
    runs: usize,
    href: String,
}

/// A number with its bar.
struct Weighed {
    name: text::Line,
    href: Option<String>,
    count: String,
    width: u64,
}

/// The cells of a row.
struct Row<'a> {
    failure: &'a Failure,
    href: String,
    is_open: bool,
    place: text::Line,
    message: Vec<Piece>,
    bars: Vec<Bar>,
    runs: String,
    times: String,
    ended: String,
    last: String,
    first: String,
}

/// A run of the open failure.
struct Case {
    status: Status,
    href: String,
    title: text::Line,
    /// The project and the model.
    about: text::Line,
    /// The first step, and how many more.
    steps: String,
    fate: &'static str,
    when: String,
}

impl View {
    /// Returns the first line: the failure that ended most runs, or how many runs ended with one.
    fn answer(&self) -> (String, Vec<Piece>, String) {
        let plain = |text: String| (text, Vec::new(), String::new());
        let Some((message, runs, ended)) = &self.report.all.first else {
            return plain(match self.report.runs {
                0 if self.query.is_empty() => "No runs.".to_owned(),
                0 => "No runs match.".to_owned(),
                runs => format!("No failures in {}.", counted(runs, "run")),
            });
        };
        // If none ended a run, the first has most runs.
        let (before, after) = match ended {
            0 => (
                format!("{} failed with “", counted(*runs, "run")),
                "” and continued.",
            ),
            // If each failure ended one run, none of them leads.
            _ if self.has_no_lead() => {
                return plain(format!(
                    "{} of {} ended with a failure.",
                    count(self.report.runs_ended as u64),
                    counted(self.report.runs, "run")
                ));
            }
            ended => (format!("{} ended with “", counted(*ended, "run")), "”."),
        };
        (before, pieces(message), after.to_owned())
    }

    /// Returns the second sentence.
    fn detail(&self) -> String {
        let all = self.report.all.failures;
        if all == 0 {
            return String::new();
        }
        let new = match self.report.all.new {
            0 => String::new(),
            new => format!(
                "{} of {} {} new in the last 7 days. ",
                count(new as u64),
                counted(all, "failure"),
                if new == 1 { "is" } else { "are" }
            ),
        };
        if self.has_no_lead() {
            format!("{new}{}.", self.report.runs_with_failures_words())
        } else {
            format!("{new}{}", self.report.runs_words())
        }
    }

    /// Returns whether several failures ended a run and none ended more than one. The headline
    /// then says how many runs ended with a failure.
    fn has_no_lead(&self) -> bool {
        matches!(self.report.all.first, Some((_, _, 1))) && self.report.runs_ended > 1
    }

    /// Returns the days from the first failure to the last.
    fn days(&self) -> Option<String> {
        let all = &self.report.all;
        let (first, last) = (all.first_at?, all.last_at?);
        let date = |at, now| date(at, now, &self.zone);
        // If the years differ, both ends have theirs.
        let [first, last] = match date(first, last) == date(first, first) {
            true => [date(first, self.now), date(last, self.now)],
            false => [date(first, last), date(last, first)],
        };
        Some(if first == last {
            first
        } else {
            format!("{first} – {last}")
        })
    }

    fn days_per_bar(&self) -> String {
        let per = match self.report.days_per_bar {
            1 => "Runs per day".to_owned(),
            days => format!("Runs per {days} days"),
        };
        let day = |day: &Option<String>| day.as_deref()?.parse::<jiff::civil::Date>().ok();
        let days = day(&self.report.first_day).zip(day(&self.report.last_day));
        match days {
            Some((first, last)) if first < last => {
                let words = |day: jiff::civil::Date| day.strftime("%-d %b").to_string();
                format!("{per}, {} – {}", words(first), words(last))
            }
            _ => per,
        }
    }

    /// Returns the numbers of the bars of a failure, the newest first.
    fn by_day(&self, failure: &Failure) -> Vec<Weighed> {
        let bars = self.bars(failure);
        let most = bars.iter().map(|bar| bar.runs).max().unwrap_or(1).max(1);
        let weighed = |bar: Bar| Weighed {
            name: bar.days.into(),
            count: count(bar.runs as u64),
            width: (bar.runs * 100 / most) as u64,
            href: Some(bar.href),
        };
        bars.into_iter().rev().map(weighed).collect()
    }

    /// Returns the command that prints the same.
    fn command(&self) -> String {
        if self.query.is_empty() {
            return "board failures".to_owned();
        }
        let query = self.query.replace('\'', r"'\''");
        format!("board failures --query '{query}'")
    }

    fn json(&self) -> String {
        href::with_query("/api/failures", &[("q", &self.query), ("limit", "10000")])
    }

    fn periods(&self) -> Vec<Choice> {
        let is_period = |word: &str| {
            PERIODS
                .iter()
                .any(|(_, term)| !term.is_empty() && *term == word)
        };
        let words: Vec<&str> = self.query.split(' ').collect();
        let current = words.iter().copied().find(|word| is_period(word));
        let rest: Vec<&str> = words.into_iter().filter(|word| !is_period(word)).collect();
        let rest = rest.join(" ");
        let choice = |(label, term): &(&str, &str)| {
            let query = format!("{rest} {term}");
            Choice {
                href: href::failures(query.trim(), self.show, &self.place, ""),
                name: (*label).into(),
                count: String::new(),
                is_current: current.unwrap_or_default() == *term,
            }
        };
        PERIODS.iter().map(choice).collect()
    }

    fn kinds(&self) -> Vec<Choice> {
        let all = &self.report.all;
        let number = |word: &str| match word {
            "new" => all.new,
            "rising" => all.rising,
            "ended" => all.ended,
            "quiet" => all.quiet,
            _ => all.failures,
        };
        let choice = |(word, label): &(&'static str, &str)| Choice {
            href: href::failures(&self.query, word, &self.place, ""),
            name: (*label).into(),
            count: count(number(word) as u64),
            is_current: self.show == *word,
        };
        SHOWN.iter().map(choice).collect()
    }

    /// Returns the tools with the most failures.
    fn places(&self) -> Vec<Choice> {
        let choice = |(place, number): &(Place, u64)| {
            let word = place.word();
            let is_current = self.place == word;
            Choice {
                href: href::failures(
                    &self.query,
                    self.show,
                    if is_current { "" } else { &word },
                    "",
                ),
                name: place.name().into(),
                count: count(*number),
                is_current,
            }
        };
        self.report.all.places.iter().map(choice).collect()
    }

    fn rows(&self) -> Vec<Row<'_>> {
        let row = |failure| self.row(failure);
        self.report.failures.iter().map(row).collect()
    }

    fn row<'a>(&self, failure: &'a Failure) -> Row<'a> {
        let is_open = self.open == failure.id;
        let open = if is_open { "" } else { failure.id.as_str() };
        Row {
            href: match is_open {
                // Closes the row without scrolling.
                true => format!(
                    "{}#{}",
                    href::failures(&self.query, self.show, &self.place, open),
                    failure.id
                ),
                false => href::failures(&self.query, self.show, &self.place, open),
            },
            is_open,
            place: failure.place().into(),
            message: pieces(&failure.message),
            bars: self.bars(failure),
            runs: count(failure.runs as u64),
            times: count(failure.times),
            ended: count(failure.runs_ended as u64),
            last: self.seen(failure.last_at),
            first: self.seen(failure.first_at),
            failure,
        }
    }

    /// Returns how many rows aren't shown.
    fn hidden(&self) -> Option<String> {
        let hidden = self.report.failures_left_out;
        (hidden > 0).then(|| format!("{} more are in the JSON.", count(hidden as u64)))
    }

    fn bars(&self, failure: &Failure) -> Vec<Bar> {
        let highest = failure
            .trend
            .iter()
            .copied()
            .max()
            .unwrap_or_default()
            .max(1);
        let share = 100.0 / failure.trend.len().max(1) as f64;
        let first = self.report.first_day.as_deref();
        let first: Option<jiff::civil::Date> = first.and_then(|day| day.parse().ok());
        let bar = |(at, runs): (usize, &usize)| {
            let days = i32::try_from(at)
                .ok()?
                .checked_mul(self.report.days_per_bar)?;
            let day = first?.checked_add(jiff::Span::new().days(days)).ok()?;
            let height = (runs * HIGHEST).div_ceil(highest);
            let last = day
                .checked_add(jiff::Span::new().days(self.report.days_per_bar - 1))
                .ok()?;
            let (days, started) = match last == day {
                true => (day.strftime("%a %-d %b %Y").to_string(), day.to_string()),
                false => (
                    format!(
                        "{} – {}",
                        day.strftime("%-d %b"),
                        last.strftime("%-d %b %Y")
                    ),
                    format!("{day}..{last}"),
                ),
            };
            let query = format!("{} failure:{} started:{started}", self.query, failure.id);
            Some(Bar {
                x: format!("{:.2}%", share * (at as f64 + 0.1)),
                width: format!("{:.2}%", share * 0.8),
                y: HEIGHT - 1 - height,
                height,
                title: format!("{days}: {}", counted(*runs, "run")),
                days,
                runs: *runs,
                href: href::runs(query.trim()),
            })
        };
        let bars = failure.trend.iter().enumerate();
        bars.filter(|(_, runs)| **runs > 0)
            .filter_map(bar)
            .collect()
    }

    fn seen(&self, at: Option<i64>) -> String {
        at.map_or(MISSING.to_owned(), |at| age(at, self.now, &self.zone))
    }

    /// Returns the address of the runs that have a failure.
    fn runs_with(&self, failure: &Failure) -> String {
        href::runs(format!("{} failure:{}", self.query, failure.id).trim())
    }

    fn next(&self, failure: &Failure) -> Vec<Weighed> {
        let rows = failure.next.rows(failure.source);
        let most = rows.iter().map(|(_, count)| *count).max().unwrap_or(1);
        rows.into_iter()
            .map(|(words, number)| Weighed {
                name: words.into(),
                href: None,
                count: count(number),
                width: number * 100 / most.max(1),
            })
            .collect()
    }

    /// Returns where a failure happens: a heading, and its names.
    fn shares(&self, failure: &Failure) -> Vec<(&'static str, Vec<Weighed>)> {
        let weighed = |field: &'static str, share: &Share| {
            let value = Needle::new(&*share.name);
            let query = format!("{} failure:{} {field}={value}", self.query, failure.id);
            Weighed {
                name: match field {
                    "project" => last_part(&share.name).into(),
                    _ => share.name.as_str().into(),
                },
                href: Some(href::runs(query.trim())),
                count: count(share.runs as u64),
                width: (share.runs * 100 / failure.runs.max(1)) as u64,
            }
        };
        [
            ("Project", "project", &failure.projects),
            ("Model", "model", &failure.models),
            ("Writer", "writer", &failure.tools),
        ]
        .into_iter()
        .map(|(head, field, shares)| {
            let all = shares.iter().map(|share| weighed(field, share));
            (head, all.collect::<Vec<_>>())
        })
        .filter(|(_, shares)| !shares.is_empty())
        .collect()
    }

    /// Returns the runs of the open failure.
    fn cases(&self, failure: &Failure) -> Vec<Case> {
        let case = |example: &Example| {
            let more = example.steps.saturating_sub(1);
            Case {
                status: Status::Of(example.status),
                href: match example.step {
                    Some(step) => href::run_at(&example.run, step),
                    None => href::run(&example.run),
                },
                title: example.title.as_str().into(),
                about: example.about.as_str().into(),
                steps: match (example.step, more) {
                    (Some(step), 0) => format!("step {step}"),
                    (Some(step), more) => {
                        format!("step {step}, and {}", counted(more as usize, "other step"))
                    }
                    (None, _) => MISSING.to_owned(),
                },
                fate: if example.ended {
                    "ended the run"
                } else {
                    "continued"
                },
                when: self.seen(example.micros),
            }
        };
        failure.examples.iter().map(case).collect()
    }

    /// Explains the marks in a message.
    fn folded(failure: &Failure) -> Option<String> {
        let mut words: Vec<&str> = Vec::new();
        for part in failure.parts() {
            if let Part::Folded(word) = part
                && !words.contains(&word)
            {
                words.push(word);
            }
        }
        let name = |word: &&str| match *word {
            "n" => "numbers",
            "path" => "paths",
            "text" => "quoted text",
            "time" => "times",
            "address" => "addresses",
            "id" => "ids",
            _ => "models",
        };
        let names: Vec<&str> = words.iter().map(name).collect();
        let list = match names.as_slice() {
            [] => return None,
            [one] => (*one).to_owned(),
            [start @ .., last] => format!("{} and {last}", start.join(", ")),
        };
        Some(format!("{} may differ.", format::capitalised(&list)))
    }

    fn is_of_run(failure: &Failure) -> bool {
        failure.source == FailureSource::Run
    }
}

/// Returns the parts of a folded message.
pub(crate) fn pieces(message: &str) -> Vec<Piece> {
    let piece = |part| match part {
        Part::Words(words) => Piece {
            words: words.into(),
            is_folded: false,
        },
        Part::Folded(word) => Piece {
            words: word.into(),
            is_folded: true,
        },
    };
    parts(message).into_iter().map(piece).collect()
}
