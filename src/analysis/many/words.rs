//! Words an overview, for pages, the terminal and the JSON.

use jiff::civil::Date;

use super::{
    Finding, FirstSeen, Measure, Overview, TROUBLE, ToolRow, Totals, amounts, counts, relative,
};
use crate::analysis::format::{self, MISSING, count, counted, last_part};
use crate::analysis::run_result::RunResult;

/// A number of the totals: its name, the sum, how it changed, and what else there is to say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fact {
    /// What is counted.
    pub name: &'static str,
    /// The sum.
    pub sum: String,
    /// The change against the period before, or the size of the sample.
    pub change: String,
    /// The line below.
    pub more: String,
}

impl Overview {
    /// Returns whether there are enough runs for charts.
    pub(crate) fn has_charts(&self) -> bool {
        self.totals.runs >= super::MIN_CHARTED
    }

    /// Returns whether any run records when it started.
    pub(crate) fn has_times(&self) -> bool {
        !self.bars.is_empty()
    }

    /// Returns the finding as a sentence around the name that it's about: what comes before the name,
    /// the name, and the rest.
    pub(crate) fn sentence_parts(&self) -> (String, Option<String>, String) {
        match &self.finding {
            Finding::ChangePoint {
                task,
                since,
                passed,
                runs,
                passed_before,
                runs_before,
                ..
            } => (
                String::new(),
                Some(task.clone()),
                format!(
                    " was solved in {passed} of {} since {}; before that, in {passed_before} of {runs_before}.",
                    counted(*runs, "run"),
                    self.day_words(since),
                ),
            ),
            Finding::NewFailure { runs_ended, .. } => (
                format!("{} ended with “", counted(*runs_ended, "run")),
                self.failures
                    .largest_new
                    .as_ref()
                    .map(|failure| failure.plain()),
                format!("”{}, none before.", self.since_words()),
            ),
            Finding::Cost { .. } => {
                let sentence = self.cost_sentence().unwrap_or_default();
                (String::new(), None, sentence)
            }
            Finding::Totals => (String::new(), None, self.totals_sentence()),
        }
    }

    pub(super) fn sentence(&self) -> String {
        let (before, name, rest) = self.sentence_parts();
        format!("{before}{}{rest}", name.unwrap_or_default())
    }

    /// Words the day of the finding: ` since 17 Nov`.
    fn since_words(&self) -> String {
        match &self.finding {
            Finding::NewFailure {
                since: Some(day), ..
            } => format!(" since {}", self.day_words(day)),
            _ => String::new(),
        }
    }

    /// Words the new failures around the message of the largest: `3 failures are new; the largest, `,
    /// the message, and `, hit 33 runs.` `None` if there are none, or if the finding is about it.
    pub(crate) fn new_failures(&self) -> Option<(String, &FirstSeen, String)> {
        let largest = self.failures.largest_new.as_ref()?;
        if matches!(self.finding, Finding::NewFailure { .. }) {
            return None;
        }
        let start = match self.failures.new {
            1 => "1 failure is new: ".to_owned(),
            new => format!("{} failures are new; the largest, ", count(new as u64)),
        };
        let runs = counted(largest.runs, "run");
        let ended = match largest.runs_ended {
            0 => format!(", hit {runs}."),
            ended => format!(", hit {runs} and ended {}.", count(ended as u64)),
        };
        Some((start, largest, ended))
    }

    /// Returns further sentences: what the finding doesn't say.
    pub(crate) fn details(&self) -> Vec<String> {
        let mut details = Vec::new();
        if self.totals.runs > 0 && !self.has_times() {
            details.push(
                "These runs don't record when they started, so there are no charts by day and no changes."
                    .to_owned(),
            );
        }
        if !matches!(self.finding, Finding::Cost { .. }) {
            details.extend(self.cost_change().map(|(words, _)| format!("{words}.")));
        }
        if !matches!(self.finding, Finding::Totals) && self.has_charts() {
            details.push(self.totals_sentence());
        }
        if self.totals.runs > 0 && !self.has_charts() && self.has_times() {
            let least = super::MIN_CHARTED;
            details.push(format!("Charts need at least {least} runs."));
        }
        details
    }

    /// Words the period: ` today`, ` in the last 30 days`, ` from 27 Oct to 25 Nov`. Empty for all time.
    pub(crate) fn period(&self) -> String {
        match (self.days.since, self.days.until) {
            (None, None) => String::new(),
            (Some(since), Some(until)) if since == until && until == self.today => {
                " today".to_owned()
            }
            (Some(since), Some(until)) if since == until => {
                format!(" on {}", self.words_of(since))
            }
            (Some(since), Some(until)) if until == self.today => {
                let days = since.until(until).map_or(0, |span| span.get_days()) + 1;
                format!(" in the last {days} days")
            }
            (Some(since), Some(until)) => {
                format!(" from {} to {}", self.words_of(since), self.words_of(until))
            }
            (Some(since), None) => format!(" since {}", self.words_of(since)),
            (None, Some(until)) => format!(" until {}", self.words_of(until)),
        }
    }

    /// Words the days for a heading: `27 Oct – 25 Nov 2026`, `all time`.
    pub(crate) fn heading(&self) -> String {
        let whole = |day: Date| day.strftime("%-d %b %Y").to_string();
        match (self.days.since, self.days.until) {
            (None, None) => "all time".to_owned(),
            (Some(since), Some(until)) if since == until => whole(since),
            (Some(since), Some(until)) if since.year() == until.year() => {
                format!("{} – {}", since.strftime("%-d %b"), whole(until))
            }
            (Some(since), Some(until)) => format!("{} – {}", whole(since), whole(until)),
            (Some(since), None) => format!("since {}", whole(since)),
            (None, Some(until)) => format!("until {}", whole(until)),
        }
    }

    /// Words a day, `YYYY-MM-DD`: `17 Nov`, with the year if it isn't the current one.
    pub(crate) fn day_words(&self, day: &str) -> String {
        day.parse()
            .map_or_else(|_| day.to_owned(), |day| self.words_of(day))
    }

    fn words_of(&self, day: Date) -> String {
        let format = match day.year() == self.today.year() {
            true => "%-d %b",
            false => "%-d %b %Y",
        };
        day.strftime(format).to_string()
    }

    /// Words how the cost changed, and what comes before the amount: `Cost rose 67%`, ` to `.
    fn cost_change(&self) -> Option<(String, &'static str)> {
        let before = self.before.as_ref()?;
        let (now, was) = (self.totals.cost.sum?, before.cost.sum?);
        if before.cost.runs < super::trend::FEW || was <= 0.0 {
            return None;
        }
        let change = relative(now, was)?;
        Some(match change.strip_prefix(['+', '\u{2212}']) {
            Some(percent) if now > was => (format!("Cost rose {percent}"), " to "),
            Some(percent) => (format!("Cost fell {percent}"), " to "),
            None if change == "±0%" => return None,
            None => {
                let times = change.trim_start_matches('×');
                (format!("Cost is {times} times what it was"), ", at ")
            }
        })
    }

    fn cost_sentence(&self) -> Option<String> {
        let Finding::Cost {
            project, change, ..
        } = &self.finding
        else {
            return None;
        };
        let (first, before) = self.cost_change()?;
        let to = self.totals.cost.cost();
        let project = project.as_deref().filter(|_| change.abs() > 0.0);
        let by = project.map(|project| {
            let mark = if self.totals.cost.is_estimated {
                "≈"
            } else {
                ""
            };
            let size = format::usd(change.abs());
            let verb = if *change > 0.0 { "added" } else { "saved" };
            let name = format::visible_line(last_part(project)).into_owned();
            format!("; {name} {verb} {mark}{size}")
        });
        Some(format!("{first}{before}{to}{}.", by.unwrap_or_default()))
    }

    fn totals_sentence(&self) -> String {
        let totals = &self.totals;
        let runs = counted(totals.runs, "run");
        let period = self.period();
        if totals.runs == 0 {
            return format!("No runs{period}.");
        }
        if !self.has_charts() {
            let results: Vec<String> = totals
                .results
                .iter()
                .map(|(result, number)| format!("{} {}", count(*number as u64), verb(*result)))
                .chain(totals.unfinished_words())
                .collect();
            return format!("{runs}{period}: {}.", results.join(", "));
        }
        let of = |result| totals.results.get(&result).copied().unwrap_or_default();
        let good = of(RunResult::Success) + of(RunResult::Finished);
        let open = of(RunResult::Unknown) + totals.unfinished();
        // A share of what is known would read like a share of all.
        match open * 2 > totals.runs {
            true => format!("{runs}{period}. How most of them ended is unknown."),
            false => format!(
                "{runs}{period}: {} finished or succeeded.",
                format::percent(good as u64, totals.runs as u64)
            ),
        }
    }

    /// Returns the totals in words, each with its change.
    pub(crate) fn facts(&self) -> Vec<Fact> {
        let (now, before) = (&self.totals, self.before.as_ref());
        let runs_before = before.map_or(0, |before| before.runs);
        let change = |of: fn(&Totals) -> &Measure, words: fn(f64) -> String| {
            let before = of(before?);
            amounts(of(now).sum?, before.sum?, before.runs, words)
        };
        let per_run = |measure: &Measure, words: fn(f64) -> String, lack: &str| {
            let median = measure
                .median
                .map(|median| format!("median {}", words(median)));
            let missing = now.runs.saturating_sub(measure.runs);
            let missing = (missing > 0 && measure.runs > 0)
                .then(|| format!("{} without {lack}", counted(missing, "run")));
            joined(median.into_iter().chain(missing))
        };
        let repeated = match self.repeated_tasks {
            0 => "no task was run twice".to_owned(),
            1 => "1 task ran more than once".to_owned(),
            tasks => format!("{} tasks ran more than once", count(tasks as u64)),
        };
        let shared = self.shared_tasks.map(|shared| {
            let percent = |rate: f64| format::percent((rate * 1e6).round() as u64, 1_000_000);
            format!(
                "{} in both periods: {} → {}",
                counted(shared.tasks, "task"),
                percent(shared.rate_before),
                percent(shared.rate)
            )
        });
        let of = |result| now.results.get(&result).copied().unwrap_or_default();
        // Runs that only fail or hit limits don't show how many others solved their task.
        let is_recorded = of(RunResult::Success) + of(RunResult::Failed) > 0;
        let judged = if is_recorded { now.judged } else { 0 };
        let ended: usize = now.results.values().sum();
        let unknown = match ended.saturating_sub(now.judged) {
            0 => String::new(),
            some => format!(
                "{} don't record success or failure",
                counted(some, "ended run")
            ),
        };
        vec![
            Fact {
                name: "Runs",
                sum: count(now.runs as u64),
                change: before
                    .and_then(|_| counts(now.runs, runs_before))
                    .unwrap_or_default(),
                more: repeated,
            },
            Fact {
                name: "Solved",
                sum: match judged {
                    0 => "unknown".to_owned(),
                    judged => format::percent(now.passed as u64, judged as u64),
                },
                change: match judged {
                    0 => String::new(),
                    judged => format!(
                        "{} of {} whose success is known",
                        count(now.passed as u64),
                        counted(judged, "run")
                    ),
                },
                more: match (judged, now.judged) {
                    (0, 0) => "no run records whether it solved its task".to_owned(),
                    (0, 1) => {
                        "no run records a success; 1 limit or error counts as not solved".to_owned()
                    }
                    (0, others) => format!(
                        "no run records a success; {} limits and errors count as not solved",
                        count(others as u64)
                    ),
                    _ => shared.unwrap_or(unknown),
                },
            },
            Fact {
                name: "Tokens",
                sum: now.tokens.tokens(),
                change: change(|totals| &totals.tokens, tokens).unwrap_or_default(),
                more: per_run(&now.tokens, tokens, "token counts"),
            },
            Fact {
                name: "Cost",
                sum: now.cost.cost(),
                change: change(|totals| &totals.cost, format::usd).unwrap_or_default(),
                more: per_run(&now.cost, format::usd, "a cost"),
            },
            Fact {
                name: "Duration",
                sum: now.duration_ms.time(),
                change: change(|totals| &totals.duration_ms, format::millis).unwrap_or_default(),
                more: per_run(&now.duration_ms, format::millis, "a duration"),
            },
        ]
    }

    /// Returns the busiest hour of the week: the day from Monday, the hour, and the number of runs.
    pub(crate) fn busiest(&self) -> Option<(usize, usize, usize)> {
        let all = self.hours.iter().enumerate().flat_map(|(day, hours)| {
            let hours = hours.iter().enumerate();
            hours.map(move |(hour, runs)| (day, hour, *runs))
        });
        all.max_by_key(|(day, hour, runs)| (*runs, std::cmp::Reverse((*day, *hour))))
            .filter(|(.., runs)| *runs > 0)
    }

    /// Returns the part of all call time that a tool's calls took: `79%`.
    pub(crate) fn tool_share(&self, row: &ToolRow) -> String {
        let whole = |ms: f64| ms.round() as u64;
        match row.total_ms.zip(self.tool_ms) {
            Some((ms, all)) => format::percent(whole(ms), whole(all)),
            None => MISSING.to_owned(),
        }
    }

    /// States what the numbers don't count, and what changes compare with.
    pub(crate) fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        if let (Some(_), Some(since), Some(before)) = (
            self.before.as_ref(),
            self.days.since,
            super::days_before(self.days, self.today),
        ) {
            let first = before.since.unwrap_or(since);
            let last = before.until.unwrap_or(since);
            let is_open = self.days.until.is_none_or(|until| until >= self.today);
            let cut = if is_open {
                ", up to the same time of day"
            } else {
                ""
            };
            notes.push(format!(
                "Changes are relative to {} – {}{cut}.",
                self.words_of(first),
                self.words_of(last)
            ));
        }
        let most = super::change_point::MAX_TASKS;
        match self.tasks_not_searched {
            0 => {}
            tasks if tasks > most => notes.push(format!(
                "Not checked for changes: {} tasks. Among more than {}, some change by chance.",
                count(tasks as u64),
                count(most as u64)
            )),
            tasks => notes.push(format!(
                "Not checked for changes: {}. That would take too long.",
                counted(tasks, "task")
            )),
        }
        match self.duplicates {
            0 => {}
            1 => notes.push("1 duplicate isn't counted.".to_owned()),
            copies => notes.push(format!(
                "{} duplicates aren't counted.",
                count(copies as u64)
            )),
        }
        if self.runs_without_time > 0 {
            notes.push(format!(
                "{} excluded: no start time recorded.",
                counted(self.runs_without_time, "run")
            ));
        }
        if self.runs_without_bar > 0 {
            notes.push(format!(
                "{} outside the chart, such as in the future.",
                counted(self.runs_without_bar, "run")
            ));
        }
        let unpriced = self.all_models.used.runs_without_cost;
        if unpriced > 0 {
            notes.push(format!(
                "{} without a known price. Add prices with --prices FILE.",
                counted(unpriced, "run")
            ));
        }
        notes
    }
}

impl Totals {
    /// Returns the number of runs that may still be running or are still being read.
    pub(crate) fn unfinished(&self) -> usize {
        self.runs
            .saturating_sub(self.results.values().sum::<usize>())
    }

    fn unfinished_words(&self) -> Option<String> {
        let number = self.unfinished();
        (number > 0).then(|| format!("{} may still be running", count(number as u64)))
    }

    /// Returns the number of runs that ended with trouble.
    pub(crate) fn trouble(&self) -> usize {
        TROUBLE
            .iter()
            .filter_map(|result| self.results.get(result))
            .sum()
    }
}

impl Measure {
    /// Returns the mark of a number of tokens: `≥≈`.
    pub(crate) fn mark(&self) -> &'static str {
        format::bound(self.is_lower_bound, self.is_estimated)
    }

    /// Words a number of tokens: `≥739.0M`.
    pub(crate) fn tokens(&self) -> String {
        self.sum.map_or_else(
            || "unknown".to_owned(),
            |sum| format!("{}{}", self.mark(), tokens(sum)),
        )
    }

    /// Words an amount of money: `≈$439.32`.
    pub(crate) fn cost(&self) -> String {
        self.sum.map_or_else(
            || "unknown".to_owned(),
            |sum| format::cost(Some(sum), self.is_estimated, self.is_lower_bound),
        )
    }

    /// Words a time: `74 h 8 min`.
    pub(crate) fn time(&self) -> String {
        self.sum.map_or_else(
            || "unknown".to_owned(),
            |sum| {
                let mark = format::bound(self.is_lower_bound, false);
                format!("{mark}{}", format::millis(sum))
            },
        )
    }
}

/// Words a percentile of durations, which is approximate: `≈1.2 s`.
pub(crate) fn percentile_words(ms: Option<f64>) -> String {
    ms.map_or_else(
        || MISSING.to_owned(),
        |ms| format!("≈{}", format::millis(ms)),
    )
}

fn tokens(number: f64) -> String {
    format::tokens(number.round() as u64)
}

fn joined(parts: impl Iterator<Item = String>) -> String {
    parts.collect::<Vec<_>>().join(" · ")
}

/// Says how runs turned out, after their number.
fn verb(result: RunResult) -> &'static str {
    match result {
        RunResult::Limit => "hit a limit",
        RunResult::Error => "ended with an error",
        RunResult::Failed => "didn't solve the task",
        RunResult::Success | RunResult::Finished | RunResult::Cancelled | RunResult::Unknown => {
            result.label()
        }
    }
}
