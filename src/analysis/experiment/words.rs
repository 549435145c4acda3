//! Words the answer of an experiment.

use super::document::{Experiment, Finding, Side};
use super::figures::{
    change_words, interval_words, p_words, percent_words, points_words, score_words, share_words,
    tasks_digits, tasks_words,
};
use super::measure::{Measure, Unit};
use super::sets::Set;
use super::statistics::{MAX_TASKS, MIN_TASKS};
use crate::analysis::format::{self, count, counted};

/// A change of this size is small enough to be called about the same.
const ABOUT_THE_SAME: f64 = 0.1;

impl Measure {
    /// Returns the function that formats its differences.
    pub(crate) fn format(&self) -> fn(f64) -> String {
        match self.unit {
            Unit::Tasks => tasks_words,
            Unit::Score => score_words,
            Unit::Share => points_words,
            Unit::Change => change_words,
        }
    }

    /// Returns the difference in words: `+6`.
    pub(crate) fn difference_words(&self) -> String {
        format::or_missing(self.difference, self.format())
    }

    /// Returns the 95% interval in words: `+1 to +11`.
    pub(crate) fn interval(&self) -> String {
        let ends = self.low.zip(self.high);
        format::or_missing(ends, |(low, high)| interval_words(low, high, self.format()))
    }

    /// Returns the corrected p-value in words.
    pub(crate) fn p_words(&self) -> String {
        format::or_missing(self.p_corrected, p_words)
    }

    /// Returns what the difference means: `B better`, `not clear`.
    pub(crate) fn reading(&self) -> String {
        match (self.better, self.p_corrected, self.low) {
            (Some(set), ..) => format!("{} better", set.letter()),
            (None, Some(_), Some(_)) => "not clear".to_owned(),
            (None, Some(_), None) => "not enough data".to_owned(),
            (None, None, _) if self.a.is_none() || self.b.is_none() => "unknown".to_owned(),
            _ => "not tested".to_owned(),
        }
    }
}

impl Experiment {
    /// Returns the answer in a sentence.
    pub(super) fn verdict_words(&self) -> String {
        let (a, b) = (&self.a, &self.b);
        match self.finding {
            Finding::Empty => self.empty_words(),
            Finding::TooFew if self.certainty.paired && self.shared_tasks < MIN_TASKS => format!(
                "Too few tasks: A and B share {}, and {MIN_TASKS} are needed.",
                self.shared_tasks
            ),
            Finding::TooFew if self.certainty.paired => format!(
                "Too few tasks: the result is known on both sides for {}, and {MIN_TASKS} are needed.",
                self.tasks
            ),
            Finding::TooFew => format!(
                "Too few runs: A has {} and B has {}. Each set needs at least {MIN_TASKS}.",
                a.judged, b.judged
            ),
            Finding::Unknown => {
                let unknown = |side: &Side| {
                    let unknown = side.runs - side.known;
                    match unknown {
                        0 => None,
                        _ if unknown == side.runs => Some("all runs".to_owned()),
                        _ => Some(format!("{unknown} of {} runs", side.runs)),
                    }
                };
                if a.known + b.known == 0 {
                    return format!(
                        "Success is unknown: no run in A or B records {}.",
                        self.needed().0
                    );
                }
                let runs = match (unknown(a), unknown(b)) {
                    (Some(a), Some(b)) => format!("{a} of A and {b} of B"),
                    (Some(a), None) => format!("{a} of A"),
                    (None, Some(b)) => format!("{b} of B"),
                    (None, None) => "some runs".to_owned(),
                };
                format!("Success is unknown: {runs} record {}.", self.needed().1)
            }
            Finding::Better | Finding::Worse | Finding::NotClear => {
                let mut words = self.success_words();
                if let Some(limits) = self.limit_words() {
                    words.push_str(&format!(", but {limits}"));
                }
                if let Some(cost) = self.cost_words() {
                    words.push_str(&format!("; {cost}"));
                }
                words.push('.');
                words
            }
        }
    }

    /// Returns the word for a task or run that succeeded: `solved`, or `finished` by that rule.
    pub(crate) fn solved_word(&self) -> &'static str {
        match self.success.as_str() {
            "finished" => "finished",
            _ => "solved",
        }
    }

    /// Returns what shows whether a run succeeded, and its absence.
    fn needed(&self) -> (&'static str, &'static str) {
        match self.success.as_str() {
            "recorded" => ("a result", "no result"),
            "finished" => ("an end", "no end"),
            _ => ("this score", "no such score"),
        }
    }

    fn empty_words(&self) -> String {
        let (a, b) = (&self.a, &self.b);
        let which = match (a.runs, b.runs) {
            (0, 0) => "A and B",
            (0, _) => "A",
            _ => "B",
        };
        let has = match which {
            "A and B" => "have",
            _ => "has",
        };
        let matched = if which == "B" { b.matched } else { a.matched };
        let unfinished = if which == "B" {
            b.unfinished
        } else {
            a.unfinished
        };
        if which == "A and B" && a.matched == 0 && b.matched == 0 {
            "Neither A nor B matches any runs.".to_owned()
        } else if matched == 0 {
            format!("{which} matches no runs.")
        } else if which == "A and B" && b.matched == 0 {
            "B matches no runs.".to_owned()
        } else if self.in_both > 0 && unfinished == 0 {
            format!(
                "{which} {has} no runs of {} own: {} match both.",
                if which == "A and B" { "their" } else { "its" },
                counted(self.in_both, "run")
            )
        } else {
            format!("{which} {has} no finished run.")
        }
    }

    /// States the difference in success: `B solves 6 more of 48 tasks, 95% interval +1 to +11`.
    fn success_words(&self) -> String {
        let Some(success) = self.success() else {
            return String::new();
        };
        let (verb, plural) = match self.success.as_str() {
            "finished" => ("finishes", "finish"),
            _ => ("solves", "solve"),
        };
        let difference = success.difference.unwrap_or_default();
        let interval = success.interval();
        let is_clear = self.finding != Finding::NotClear;
        let before = if is_clear {
            ""
        } else {
            "No clear difference: "
        };
        if self.certainty.paired {
            let tasks = self.tasks;
            let solved = |share: Option<f64>| Some(tasks_digits(share? * tasks as f64));
            let both =
                solved(success.a).filter(|a| !is_clear && solved(success.b).as_ref() == Some(a));
            if let Some(both) = both {
                return format!(
                    "{before}A and B both {plural} {both} of {tasks} tasks, 95% interval {interval}"
                );
            }
            let digits = tasks_digits(difference.abs());
            let more = match difference {
                _ if digits == "0" => "as many".to_owned(),
                _ if difference > 0.0 => format!("{digits} more"),
                _ => format!("{digits} fewer"),
            };
            format!("{before}B {verb} {more} of {tasks} tasks, 95% interval {interval}")
        } else {
            let share = |value: Option<f64>| value.map_or_else(String::new, share_words);
            let points = points_words(difference);
            format!(
                "{before}B {verb} {} and A {}, {points} points, 95% interval {interval}",
                share(success.b),
                share(success.a)
            )
        }
    }

    /// States that the sides had different limits. A side that may run longer has an advantage.
    fn limit_words(&self) -> Option<String> {
        let limit = self.differing().find(|setting| setting.is_limit)?;
        Some(format!(
            "the {} differs (A {}, B {})",
            limit.name,
            limit.words(Set::A),
            limit.words(Set::B)
        ))
    }

    /// States the difference in cost, if it's clear: `costs 12% more`.
    fn cost_words(&self) -> Option<String> {
        let cost = self.measure("cost")?;
        let difference = cost.difference?;
        let (low, high) = cost.low.zip(cost.high)?;
        let digits = percent_words(difference);
        if cost.is_clear && difference > 0.0 {
            Some(format!("costs {digits} more"))
        } else if cost.is_clear {
            Some(format!("costs {digits} less"))
        } else if low > -ABOUT_THE_SAME && high < ABOUT_THE_SAME {
            Some("costs about the same".to_owned())
        } else {
            None
        }
    }

    /// Returns whether the cost was compared and its difference isn't clear.
    fn is_cost_unclear(&self) -> bool {
        let cost = self.measure("cost");
        let is_tested = cost.is_some_and(|cost| cost.difference.is_some() && cost.low.is_some());
        is_tested && self.cost_words().is_none()
    }

    /// Returns further sentences: the test, and what wasn't compared.
    pub(super) fn details_words(&self) -> Vec<String> {
        let mut all = Vec::new();
        match self.finding {
            Finding::Empty => {}
            Finding::TooFew if self.certainty.paired => {
                all.push(format!(
                    "With fewer than {MIN_TASKS} tasks, no result can reach p < 0.05."
                ));
            }
            // The answer says how many runs are needed.
            Finding::TooFew => {}
            Finding::Unknown => {
                if let Some((low, high)) = self.unknown_range {
                    all.push(format!(
                        "Depending on how those runs ended, the difference is anywhere from {} to {} tasks.",
                        tasks_words(low),
                        tasks_words(high)
                    ));
                }
                all.push("Choose another success rule, or compare what is known.".to_owned());
            }
            _ => all.extend(self.test_words()),
        }
        all.extend(self.left_out());
        all
    }

    fn test_words(&self) -> Vec<String> {
        let mut all = Vec::new();
        let p = self.success().map(Measure::p_words).unwrap_or_default();
        let p = match p.strip_prefix('<') {
            Some(p) => format!("p < {p}"),
            None => format!("p = {p}"),
        };
        if self.certainty.paired {
            all.push(format!(
                "Paired permutation test over tasks, {p}. {} got better, {} got worse, {} stayed the same.",
                counted(self.better, "task"),
                self.worse,
                self.same
            ));
        } else {
            let why = match self.shared_tasks {
                0 => "A and B share no task, so runs were compared unpaired",
                _ => "Runs were compared unpaired, one run of each task",
            };
            all.push(format!(
                "{why}: Fisher's exact test, {p}. The sets may differ in difficulty."
            ));
        }
        if self.is_cost_unclear() {
            all.push("No clear difference in cost.".to_owned());
        }
        if self.finding == Finding::NotClear
            && let Some(finds) = self.certainty.finds
        {
            let up_to = self
                .success()
                .and_then(|success| Some(success.low?.abs().max(success.high?.abs())));
            if let Some(up_to) = up_to {
                all.push(format!(
                    "A difference of up to {} tasks is possible.",
                    tasks_digits(up_to)
                ));
            }
            let half = self.certainty.tasks_for_half.unwrap_or_default();
            all.push(format!(
                "To detect a difference of {} in {} tasks, compare about {} tasks.",
                tasks_digits(finds / 2.0),
                self.tasks,
                count(half as u64)
            ));
        }
        all
    }

    /// States which runs weren't compared.
    fn left_out(&self) -> Vec<String> {
        let mut all = Vec::new();
        let (a, b) = (&self.a, &self.b);
        if self.in_both > 0 && self.finding != Finding::Empty {
            let (runs, match_, are) = match self.in_both {
                1 => ("1 run".to_owned(), "matches", "It is"),
                n => (format!("{} runs", count(n as u64)), "match", "They are"),
            };
            all.push(format!(
                "{runs} {match_} both A and B. {are} in neither set."
            ));
        }
        let several = |a: usize, b: usize| -> Option<String> {
            match (a, b) {
                (0, 0) => None,
                (a, 0) => Some(format!("{} of A", counted(a, "run"))),
                (0, b) => Some(format!("{} of B", counted(b, "run"))),
                (a, b) => Some(format!(
                    "{} of A and {} of B",
                    counted(a, "run"),
                    count(b as u64)
                )),
            }
        };
        if let Some(runs) = several(a.unfinished, b.unfinished) {
            all.push(format!("Not counted (unfinished): {runs}."));
        }
        let is_judged = !matches!(self.finding, Finding::Empty | Finding::Unknown);
        if let Some(runs) = several(a.runs - a.known, b.runs - b.known).filter(|_| is_judged) {
            let range = self.unknown_range.filter(|_| self.certainty.paired);
            let range = range.map_or_else(String::new, |(low, high)| {
                format!(
                    " Depending on how those runs ended, the difference is anywhere from {} to {} tasks.",
                    tasks_words(low),
                    tasks_words(high)
                )
            });
            all.push(format!(
                "Not counted ({} recorded): {runs}.{range}",
                self.needed().1
            ));
        }
        if self.certainty.paired {
            if let Some(runs) = several(a.without_task, b.without_task) {
                all.push(format!("Not paired (no task recorded): {runs}."));
            }
            let only = |side: &Side| side.tasks - self.shared_tasks;
            let tasks = match (only(a), only(b)) {
                (0, 0) => None,
                (n, 0) => Some(format!("{} only in A", counted(n, "task"))),
                (0, n) => Some(format!("{} only in B", counted(n, "task"))),
                (n, m) => Some(format!(
                    "{} only in A and {} only in B",
                    counted(n, "task"),
                    count(m as u64)
                )),
            };
            all.extend(tasks.map(|tasks| format!("Not compared: {tasks}.")));
            if self.shared_tasks > MAX_TASKS {
                all.push(format!(
                    "Only {} of {} shared tasks were compared.",
                    count(MAX_TASKS as u64),
                    count(self.shared_tasks as u64)
                ));
            }
        }
        let duplicates = a.duplicates + b.duplicates;
        if duplicates > 0 {
            all.push(format!(
                "{} of these runs {} counted.",
                counted(duplicates, "duplicate"),
                if duplicates == 1 { "isn't" } else { "aren't" }
            ));
        }
        all
    }

    /// Explains how sure the answer is: a term, and its sentences.
    pub(crate) fn certainty_words(&self) -> Vec<(&'static str, String)> {
        let mut all = Vec::new();
        let certainty = &self.certainty;
        if !certainty.paired {
            all.push((
                "Test",
                "Fisher's exact test of one run per task, two-sided.".to_owned(),
            ));
            all.push((
                "Interval",
                "Newcombe's, from Wilson's intervals of each side.".to_owned(),
            ));
            all.push((
                "Assumes",
                "Runs are independent of each other. The tasks of both sets are equally hard. Steps, tokens, cost and time aren't tested.".to_owned(),
            ));
            return all;
        }
        let flips = certainty.flips.unwrap_or_default() as u64;
        let how = if certainty.exact {
            format!("in all {} ways", count(flips))
        } else {
            format!("{} times at random, from a fixed seed", count(flips))
        };
        all.push((
            "Test",
            format!(
                "Paired permutation test: flips the sign of each task's difference {how}. Two-sided, mid-p. With one run per task it is McNemar's test."
            ),
        ));
        let is_same = self.success().is_some_and(|success| success.p == Some(1.0));
        let interval = if self.finding == Finding::TooFew {
            "With so few tasks, the test can't rule out any difference."
        } else if is_same && self.better + self.worse == 0 {
            "All tasks had the same result. With 95% confidence, the difference is within the interval."
        } else {
            "All differences that the same test doesn't reject at 5%. For success, it excludes 0 exactly when p < 0.05. The intervals of other measures aren't corrected, so they can exclude 0 although p ≥ 0.05."
        };
        all.push(("Interval", interval.to_owned()));
        all.push((
            "Assumes",
            "Tasks are independent of each other. Runs of one task aren't: they count as one mean. Nothing but the listed differences changed between the sets.".to_owned(),
        ));
        all.push((
            "Corrected",
            format!(
                "Holm over {}. Not corrected: success, the main measure. Repeating the comparison after each new run causes more false alarms.",
                counted(certainty.corrected, "measure")
            ),
        ));
        if let Some(finds) = certainty.finds {
            let mut words = format!(
                "With {} tasks this test finds a difference of {} in 4 of 5 experiments. Smaller ones are often missed.",
                self.tasks,
                tasks_digits(finds)
            );
            match certainty.finds_with_twice_the_runs {
                Some(twice) => words.push_str(&format!(
                    " With twice as many runs of each task it would find {}.",
                    tasks_digits(twice)
                )),
                None => words.push_str(" Several runs of each task find smaller ones."),
            }
            all.push(("Smallest detectable difference", words));
        }
        all
    }

    /// Lists the settings that differ and those that are the same, without a full stop.
    pub(crate) fn settings_words(&self) -> (String, String) {
        let differs: Vec<&str> = self.differing().map(|setting| setting.name).collect();
        let same = self.settings.iter().filter(|setting| setting.is_same);
        let same: Vec<&str> = same.map(|setting| setting.name).collect();
        (differs.join(", "), same.join(", "))
    }

    /// Names the runs whose settings are compared, if the sets have others: ` (in the 3 compared
    /// runs)`.
    pub(crate) fn compared_words(&self) -> String {
        let (a, b) = self.stop_reasons_of;
        match (a, b) == (self.a.runs, self.b.runs) {
            true => String::new(),
            false => format!(" (in the {})", counted(a + b, "compared run")),
        }
    }
}
