//! Builds the row of one run in the table.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use askama::Template;
use askama::filters::HtmlSafe;
use jiff::tz::TimeZone;

use crate::analysis::columns::{Cell, Column, Shown, Value, Width};
use crate::analysis::format;
use crate::analysis::health;
use crate::analysis::summary::{Cost, Summary};
use crate::analysis::verdict::{LimitFrom, RunStatus};
use crate::model::{Certainty, StopReason, tool_of};
use crate::page::part::chart::{Spark, filled};
use crate::page::part::href;
use crate::page::shell::{Status, When};

/// Longer tasks, verdicts and model names are truncated in the table; characters. The run's page
/// shows the whole text.
const MAX_LINE: usize = 240;

/// Returns the class that sets a column's width and alignment.
pub(crate) fn class(width: Width) -> &'static str {
    match width {
        Width::Status => "c-st",
        Width::Name => "c-run",
        Width::Outcome | Width::Rest => "c-v",
        Width::Steps => "c-steps r",
        Width::Bar => "c-steps",
        Width::Spark => "c-score",
        Width::Duration => "c-dur",
        Width::Cost => "c-cost",
        Width::Number => "c-num",
        Width::Text => "c-text",
        Width::Age => "c-upd",
    }
}

/// One run in the table.
#[derive(Debug, Clone, Template)]
#[template(path = "runs/run_row.html")]
pub(crate) struct Row<'a> {
    pub(crate) run: &'a Summary,
    /// The columns of the table.
    pub(crate) columns: Arc<[Shown]>,
    /// The current time, in microseconds since the epoch.
    pub(crate) now: i64,
    pub(crate) zone: &'a TimeZone,
    pub(crate) marked: bool,
    /// Whether the run changed since the page was opened.
    pub(crate) is_new: bool,
    /// Whether each cell repeats its column head, for narrow screens where a row is a block.
    pub(crate) heads: bool,
    /// Whether the row has a checkbox. Otherwise a key or a click on its edge marks it.
    pub(crate) marking: bool,
    /// Whether the rows are grouped by project, so that a row needn't name it.
    pub(crate) of_project: bool,
    /// The depth below a run that started it.
    pub(crate) depth: usize,
}

impl HtmlSafe for Row<'_> {}

/// Longer names are shortened in the middle; characters. The last [`NAME_END`] characters stay,
/// since the names of a series differ at the end.
const MAX_NAME: usize = 28;
const NAME_END: usize = 16;
/// Longer titles are truncated in the table, which has room for fewer characters.
const MAX_TITLE: usize = 140;
/// Titles up to this many characters aren't truncated.
const SHORT_TITLE: usize = 32;

impl Row<'_> {
    pub(crate) fn id(&self) -> String {
        href::run_id(self.run.key.as_str())
    }

    fn key(&self) -> Cow<'_, str> {
        format::visible_line(self.run.key.as_str())
    }

    /// Returns the key, or only its last part if it is long. If that is long too, it's shortened in
    /// the middle.
    pub(crate) fn short_name(&self) -> String {
        let key = self.key();
        if key.chars().count() <= MAX_NAME {
            return key.into_owned();
        }
        let key = format::visible_line(self.run.key.name());
        let length = key.chars().count();
        if length <= MAX_NAME {
            return key.into_owned();
        }
        let start = key.chars().take(MAX_NAME - 1 - NAME_END);
        start
            .chain(['…'])
            .chain(key.chars().skip(length - NAME_END))
            .collect()
    }

    /// Returns the title if the table may truncate it. The address of the link has the key.
    fn tooltip(&self) -> Option<String> {
        Some(self.title()).filter(|title| title.chars().count() > SHORT_TITLE)
    }

    /// Returns the project of a session and its tool, or the tool and the name of another run, whose
    /// end may be truncated.
    fn badge(&self) -> String {
        let words = match self.run.is_session {
            true => [self.place(), self.tool()],
            false => [self.tool(), self.place()],
        };
        words.into_iter().flatten().collect::<Vec<_>>().join(" · ")
    }

    pub(crate) fn title(&self) -> String {
        row_title(self.run)
    }

    /// Returns where the run belongs: the project of a session, the names of a sample, or the name of
    /// another run, since runs of one task have the same title. `None` if the title or the group says it.
    pub(crate) fn place(&self) -> Option<String> {
        let last = |path: &str| {
            path.trim_end_matches(['/', '\\'])
                .rsplit(['/', '\\'])
                .next()
                .map(line)
        };
        let place = match self.run.project.as_deref().and_then(last) {
            Some(project) if self.run.is_session => project,
            _ if self.run.is_session => return None,
            _ if let Some(sample) = &self.run.sample => line(&sample.words().join(" · ")),
            _ => self.short_name(),
        };
        let is_of_group = self.of_project && self.run.is_session;
        Some(place).filter(|place| !place.is_empty() && !is_of_group && *place != self.title())
    }

    /// Returns whether another run started this one. A branch has a parent, too.
    pub(crate) fn is_helper(&self) -> bool {
        self.run.parent.is_some() && self.run.branched_after.is_none()
    }

    /// Returns the name of the tool that wrote the trace, without its version.
    pub(crate) fn tool(&self) -> Option<String> {
        let known = self.run.tool.as_deref().unwrap_or(&self.run.format);
        let is_version = |word: &str| {
            let word = word.strip_prefix('v').unwrap_or(word);
            word.starts_with(|first: char| first.is_ascii_digit()) || word == "up"
        };
        let words = known.split_whitespace();
        let words: Vec<&str> = words.take_while(|word| !is_version(word)).collect();
        let words = words.join(" ");
        let tool = match self.run.tool {
            Some(_) => &words,
            None => tool_of(&words),
        };
        Some(line(tool)).filter(|tool| !tool.is_empty())
    }

    pub(crate) fn status(&self) -> Status {
        if self.run.partial {
            Status::Indexing
        } else {
            Status::of(self.run)
        }
    }

    /// Returns how the run ended, in a few words.
    pub(crate) fn end(&self) -> String {
        line(&self.run.end_in_brief())
    }

    /// Returns the classes of the cell with the end: its shape, its color, and whether the end is
    /// inferred.
    fn end_classes(&self) -> String {
        let status = self.status();
        let is_over = !self.run.partial && !self.run.life.liveness.may_grow();
        let is_inferred = is_over && self.run.verdict.certainty == Certainty::Inferred;
        let inferred = if is_inferred { " inf" } else { "" };
        let tint = match status.class() {
            "plain" => String::new(),
            class => format!(" {class}"),
        };
        format!("c-v o {}{tint}{inferred}", status.icon())
    }

    /// Explains the end: the verdict, and where else the run is stored.
    fn end_words(&self) -> String {
        let (verdict, note) = self.verdict();
        let notes = note.into_iter().chain(self.stored());
        let words: Vec<String> = [verdict].into_iter().chain(notes).collect();
        words.join(" · ")
    }

    /// Returns the classes of the row.
    fn classes(&self) -> &'static str {
        match (self.is_new, self.marked) {
            (true, true) => "isnew marked",
            (true, false) => "isnew",
            (false, true) => "marked",
            (false, false) => "",
        }
    }

    /// Returns the verdict and its note. A run that is still being read has no verdict yet.
    pub(crate) fn verdict(&self) -> (String, Option<String>) {
        if self.run.partial {
            return (self.run.end_in_brief(), None);
        }
        match self.run.verdict.sentence.split_once(" · ") {
            Some((sentence, note)) => (line(sentence), Some(line(note))),
            None => (line(&self.run.verdict.sentence), None),
        }
    }

    /// Returns where else the run is stored, and how its end is recorded there.
    pub(crate) fn stored(&self) -> Vec<String> {
        self.run.relation.notes().map(|note| line(&note)).collect()
    }

    /// Returns what the copies of the run record about its end, if that differs, and whether the
    /// run counts in another row. The cell explains the rest if one points at it.
    fn elsewhere(&self) -> Vec<String> {
        let relation = &self.run.relation;
        let duplicate = relation.duplicate_of.as_ref();
        let duplicate = duplicate.map(|key| format!("duplicate of {key}"));
        duplicate
            .into_iter()
            .chain(relation.beside_verdict())
            .map(|note| line(&note))
            .collect()
    }

    /// Counts the issues if any of them loses data: `1 problem, 2 notes`.
    pub(crate) fn issues(&self) -> Option<String> {
        let (issues, problems) = self.run.issues;
        (problems > 0).then(|| health::in_words((issues, problems)))
    }

    /// Returns the step limit of the newest run in the directory. A limit in the agent's state
    /// doesn't count, because the budget is checked first and is often smaller.
    pub(crate) fn limit(&self) -> Option<usize> {
        let limit = self
            .run
            .verdict
            .limit
            .filter(|limit| self.run.steps_now > 0 && limit.from != LimitFrom::State)?;
        usize::try_from(limit.steps).ok()
    }

    /// Returns the width of the filled part of the bar.
    fn filled(&self, limit: &usize) -> String {
        filled(self.run.steps_now, *limit)
    }

    fn limit_words(&self, limit: &usize) -> String {
        format::count(*limit as u64)
    }

    /// Returns the class that indents the row.
    fn indent(&self) -> &'static str {
        match self.depth {
            0 => "",
            1 => " kid in1",
            2 => " kid in2",
            _ => " kid in3",
        }
    }

    fn class(&self, cell: &Cell) -> &'static str {
        class(cell.width)
    }

    /// Returns whether the step limit ended the run.
    pub(crate) fn is_ended_by(&self, limit: &usize) -> bool {
        let verdict = &self.run.verdict;
        // A rule may have used a different limit than the known one.
        let is_step_limit = verdict
            .stop_reason
            .as_deref()
            .is_some_and(|word| StopReason::parse(word).is_step_limit());
        is_step_limit && self.run.steps_now >= *limit && verdict.mark == RunStatus::Limit
    }

    /// Returns the number of all steps, if it's known.
    pub(crate) fn all_steps(&self) -> String {
        let steps = self.run.steps_known();
        format::or_missing(steps, |steps| format::count(steps as u64))
    }

    /// Returns the number of steps. With a limit, counts only the steps that the limit applies to.
    pub(crate) fn steps(&self) -> String {
        match (self.limit(), self.run.steps) {
            (_, _) if self.run.steps_unknown => format::MISSING.to_owned(),
            (Some(_), _) => format::count(self.run.steps_now as u64),
            (None, steps) => format::count(steps as u64),
        }
    }

    /// Describes the steps and the limit, for a cell that is too narrow.
    fn steps_words(&self) -> String {
        let done = match self.run.steps_unknown {
            true => "an unknown number of steps".to_owned(),
            false => format::counted(self.run.steps_now, "step"),
        };
        self.limit().map_or_else(
            || done.clone(),
            |limit| format!("{done} of {}", format::count(limit as u64)),
        )
    }

    pub(crate) fn spark(&self) -> Option<Spark> {
        Spark::new(&self.run.spark.iter().copied().map(Some).collect::<Vec<_>>())
    }

    /// Returns the value in `column` as one line of text.
    pub(crate) fn words(&self, column: &Column) -> Option<String> {
        let value = column.shown(self.run)?;
        let words = match value {
            Value::Text(text) => Some(line(text)),
            _ => value.words(self.now, self.zone),
        };
        let words = words.map(|words| column.bound(self.run, &words));
        words.filter(|words| !words.is_empty())
    }

    /// Explains the mark before a value in `column`: the basis of an estimate, or what a lower
    /// bound lacks.
    pub(crate) fn basis(&self, column: &Column) -> Option<String> {
        match column.shown(self.run)? {
            Value::Usd(Cost::Estimated(_)) => self.run.estimated_from(),
            _ => column.bound_words(self.run),
        }
    }

    /// Returns the time in `column` in seconds since the epoch, for the clock of the page.
    fn seconds(&self, column: &Column) -> i64 {
        match column.value(self.run) {
            Some(Value::Time(micros)) => micros.div_euclid(1_000_000),
            _ => 0,
        }
    }

    /// Returns when the run started, in seconds since the epoch, or nothing if that is unknown.
    fn started(&self) -> String {
        let started = self.run.started;
        started.map_or_else(String::new, |micros| {
            micros.div_euclid(1_000_000).to_string()
        })
    }

    /// Returns the value in `column` as a time.
    pub(crate) fn when(&self, column: &Column) -> Option<When> {
        match column.value(self.run)? {
            Value::Time(micros) => When::of(micros, self.now, self.zone),
            _ => None,
        }
    }
}

/// Formats milliseconds. Returns `None` if they aren't a valid duration.
pub(crate) fn duration(ms: f64) -> Option<String> {
    Duration::try_from_secs_f64(ms / 1e3)
        .ok()
        .map(format::duration)
}

/// Formats text of a trace as one line of at most [`MAX_LINE`] characters.
pub(crate) fn line(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    let text = words.join(" ");
    let shown = format::visible_line(&text);
    match shown.char_indices().nth(MAX_LINE) {
        Some((end, _)) => format!("{}…", shown.get(..end).unwrap_or_default().trim_end()),
        None => shown.into_owned(),
    }
}

/// Returns the title of a run for a row.
pub(crate) fn row_title(run: &Summary) -> String {
    let title = line(run.title());
    match title.char_indices().nth(MAX_TITLE) {
        Some((end, _)) => format!("{}…", title.get(..end).unwrap_or_default().trim_end()),
        None => title,
    }
}
