//! Compares two sets of runs: the page at `/experiments`, and its JSON.
//!
//! The page begins with the verdict. A is hollow and B is filled, everywhere.

use std::collections::{BTreeMap, HashMap, HashSet};

use askama::Template;
use axum::extract::State;

use crate::analysis::experiment::{
    By, Experiment, Finding, Measure, MeasureGroup, Question, ReasonRow, Rule, Set, Setting, Side,
    Spread, TaskRow, Unit, change_words, experiment, tasks_digits, tasks_words,
};
use crate::analysis::format::{self, MISSING, capitalised, count, counted};
use crate::analysis::many::task_query;
use crate::analysis::query::{Ignored, Needle, Query};
use crate::analysis::summary::Summary;
use crate::page::answer::{html, json};
use crate::page::app::AppState;
use crate::page::blocking::blocking;
use crate::page::error::{Answer, WebError};
use crate::page::params::Params;
use crate::page::part::{href, text};
use crate::page::runs::fill::list::Listed;
use crate::page::runs::handler::listed;
use crate::page::shell::{NavItem, Shell};

/// Maximum number of tasks listed for each side that alone solved them.
const MAX_FLIPS: usize = 40;
/// Maximum number of rows of the table of all tasks. The JSON has more.
const MAX_TASKS: usize = 200;
/// Maximum number of runs of a side for which a grid of tasks is drawn.
const MAX_GRID: usize = 5;
/// Rows of marks in a cell of the grid.
const CELL_ROWS: usize = 3;
/// The height of a cell of the grid, in pixels.
const CELL: usize = 54;
/// Limits the marks of runs next to a task.
const MAX_MARKS: usize = 8;
/// Maximum number of suggested pairs of sets.
const MAX_SUGGESTED: usize = 6;
/// The values of a field that are compared with each other for suggestions.
const MAX_VALUES: usize = 12;
/// Terms of a query without which the matches are counted.
const MAX_WITHOUT: usize = 6;

/// `GET /experiments`
pub(crate) async fn page(State(state): State<AppState>, params: Params) -> Answer {
    let asked = Asked::new(&params)?;
    // With many runs, a comparison takes a second.
    let turn = state.walk().await?;
    blocking(move || {
        let _turn = turn;
        let (a, b) = (state.query(&asked.a), state.query(&asked.b));
        let (runs, _) = listed(&state, &Query::default());
        let ignored: Vec<(Set, Ignored)> = [(Set::A, &a), (Set::B, &b)]
            .into_iter()
            .flat_map(|(set, query)| query.ignored.iter().map(move |term| (set, term.clone())))
            .collect();
        let is_asked = !asked.a.is_empty() && !asked.b.is_empty() && ignored.is_empty();
        let answer = is_asked.then(|| asked.answer(&runs, &a, &b));
        let is_empty = answer
            .as_ref()
            .is_none_or(|answer| answer.finding == Finding::Empty);
        let suggested = if is_empty {
            suggested(&runs)
        } else {
            Vec::new()
        };
        let without = match &answer {
            Some(answer) if answer.finding == Finding::Empty => {
                [(Set::A, answer.a.runs, &a), (Set::B, answer.b.runs, &b)]
                    .into_iter()
                    .filter(|(_, runs, _)| *runs == 0)
                    .flat_map(|(set, _, query)| without(&runs, set, query))
                    .collect()
            }
            _ => Vec::new(),
        };
        let shell = state.shell(NavItem::Experiments);
        html(&ExperimentPage {
            shell: Shell {
                title: "Experiments".to_owned(),
                ..shell
            },
            view: View {
                asked,
                ignored,
                answer,
                suggested,
                without,
            },
        })
    })
    .await
    .flatten()
}

/// `GET /api/experiments`
pub(crate) async fn api(State(state): State<AppState>, params: Params) -> Answer {
    let asked = Asked::new(&params)?;
    for (name, text) in [("a", &asked.a), ("b", &asked.b)] {
        if text.is_empty() {
            let detail = format!("{name} must be a query that selects runs.");
            return Err(WebError::bad_request("Missing query", &detail));
        }
        // A term that doesn't filter would select other runs than meant.
        if let Some(term) = Query::parse(text).ignored.first() {
            let error = WebError::bad_request("Invalid query", &format!("{}.", term.why));
            return Err(error.named(&term.text));
        }
    }
    let turn = state.walk().await?;
    blocking(move || {
        let _turn = turn;
        let (a, b) = (state.query(&asked.a), state.query(&asked.b));
        let (runs, _) = listed(&state, &Query::default());
        json(&asked.answer(&runs, &a, &b))
    })
    .await
    .flatten()
}

/// What an address asks.
struct Asked {
    a: String,
    b: String,
    by: By,
    success: Rule,
}

impl Asked {
    fn new(params: &Params) -> Result<Self, WebError> {
        let by = match params.text("by") {
            "" => By::Task,
            text => text.parse().map_err(|why: String| {
                WebError::bad_request("Invalid pairing", &format!("{why}.")).named(text)
            })?,
        };
        let rule = params.text("success");
        let success = rule.parse().map_err(|why: String| {
            WebError::bad_request("Invalid success rule", &format!("{why}.")).named(rule)
        })?;
        Ok(Self {
            a: params.filter("a")?.trim().to_owned(),
            b: params.filter("b")?.trim().to_owned(),
            by,
            success,
        })
    }

    fn answer(&self, runs: &[Listed], a: &Query, b: &Query) -> Experiment {
        let question = Question {
            a: self.a.clone(),
            b: self.b.clone(),
            by: self.by,
            success: self.success.clone(),
        };
        let chosen = |query: &Query| -> Vec<&Summary> {
            let runs = runs.iter().map(|listed| &*listed.summary);
            runs.filter(|run: &&Summary| query.matches(*run)).collect()
        };
        experiment(&chosen(a), &chosen(b), &question)
    }

    /// Returns the address of the page, or of its JSON, with these sets.
    fn href(&self, path: &str, a: &str, b: &str, success: &str) -> String {
        let by = match self.by {
            By::Task => "",
            by => by.as_str(),
        };
        let success = Some(success).filter(|rule| *rule != "recorded");
        href::with_query(
            path,
            &[
                ("a", a),
                ("b", b),
                ("by", by),
                ("success", success.unwrap_or_default()),
            ],
        )
    }
}

/// A link to two sets that have tasks in common.
struct Suggestion {
    href: String,
    a: text::Line,
    b: text::Line,
    tasks: String,
}

/// Suggests sets: runs with different values of a field that share tasks.
fn suggested(runs: &[Listed]) -> Vec<Suggestion> {
    let runs: Vec<&Summary> = runs
        .iter()
        .map(|listed| &*listed.summary)
        .filter(|run| run.counts() && run.task.is_some())
        .collect();
    let mut found: Vec<(usize, String, String)> = Vec::new();
    for field in ["run", "model"] {
        let value = |run: &'_ Summary| -> Option<String> {
            match field {
                // The directory: `prompt-v1/` of `prompt-v1/task-3`.
                "run" => {
                    let (dir, _) = run.key.as_str().rsplit_once('/')?;
                    Some(format!("{dir}/"))
                }
                _ => run.model.as_deref().map(str::to_owned),
            }
        };
        let mut tasks: BTreeMap<String, HashSet<&str>> = BTreeMap::new();
        for run in &runs {
            if let Some(value) = value(run) {
                let task = run.task.as_deref().unwrap_or_default();
                tasks.entry(value).or_default().insert(task);
            }
        }
        let mut values: Vec<(String, HashSet<&str>)> = tasks.into_iter().collect();
        values.sort_by(|x, y| y.1.len().cmp(&x.1.len()).then(x.0.cmp(&y.0)));
        values.truncate(MAX_VALUES);
        for (at, (a, of_a)) in values.iter().enumerate() {
            for (b, of_b) in values.iter().skip(at + 1) {
                let shared = of_a.intersection(of_b).count();
                let (first, second) = if a <= b { (a, b) } else { (b, a) };
                if shared > 0 {
                    found.push((shared, term(field, first), term(field, second)));
                }
            }
        }
    }
    found.sort_by(|x, y| y.0.cmp(&x.0).then_with(|| (&x.1, &x.2).cmp(&(&y.1, &y.2))));
    found.truncate(MAX_SUGGESTED);
    let suggestion = |(shared, a, b): (usize, String, String)| Suggestion {
        href: href::experiments(&a, &b),
        a: a.into(),
        b: b.into(),
        tasks: counted(shared, "shared task"),
    };
    found.into_iter().map(suggestion).collect()
}

/// Writes a term that a whole text of a field matches.
fn term(field: &str, value: &str) -> String {
    let is_plain = value
        .chars()
        .all(|c| c.is_ascii_alphanumeric() || "-_./:@+".contains(c));
    let sign = if field == "run" { ":" } else { "=" };
    if is_plain && !value.contains("..") {
        return format!("{field}{sign}{value}");
    }
    let value = value.replace('\\', "\\\\").replace('"', "\\\"");
    format!("{field}{sign}\"{value}\"")
}

/// A link to the runs that a query matches without one of its terms.
struct Without {
    term: text::Line,
    href: String,
    runs: String,
}

/// Counts the matches of a query without each of its terms.
fn without(runs: &[Listed], set: Set, query: &Query) -> Vec<Without> {
    let of = |(at, term): (usize, &crate::analysis::query::Term)| {
        let wider = query.without(at);
        let parsed = Query::parse(&wider);
        let matching = runs.iter().filter(|run| parsed.matches(&*run.summary));
        let found = matching.count();
        (found > 0).then(|| Without {
            term: format!("{} without {term}", set.letter()).into(),
            href: href::runs(&wider),
            runs: counted(found, "run"),
        })
    };
    let terms = query.terms.iter().enumerate().take(MAX_WITHOUT);
    terms.filter_map(of).collect()
}

#[derive(Template)]
#[template(path = "experiment/page.html")]
struct ExperimentPage {
    shell: Shell,
    view: View,
}

/// The content of the page.
struct View {
    asked: Asked,
    /// The terms that aren't understood.
    ignored: Vec<(Set, Ignored)>,
    answer: Option<Experiment>,
    suggested: Vec<Suggestion>,
    without: Vec<Without>,
}

/// A choice of a form.
struct Choice {
    value: String,
    label: text::Line,
    is_current: bool,
}

/// A row of the table of both sets.
struct SideRow {
    letter: &'static str,
    query: text::Line,
    href: String,
    runs: String,
    tasks: String,
    share: String,
    of: String,
    interval: String,
    date: text::Line,
    model: text::Line,
    prompt: text::Line,
}

/// A setting that differs.
struct SettingRow {
    name: &'static str,
    a: text::Line,
    b: text::Line,
}

/// A part of the table of measures, with the axis of its picture.
struct GroupRows {
    title: &'static str,
    note: String,
    ticks: Vec<Tick>,
    rows: Vec<MeasureRow>,
}

/// A label of an axis.
struct Tick {
    x: String,
    label: String,
    anchor: &'static str,
    /// Whether it's hidden on small screens.
    is_minor: bool,
}

/// A row of the table of measures.
struct MeasureRow {
    label: text::Line,
    is_code: bool,
    is_main: bool,
    a: String,
    a_note: String,
    b: String,
    b_note: String,
    difference: String,
    interval: String,
    /// The picture: the ends of the interval and the estimate.
    forest: Option<Forest>,
    p: String,
    reading: String,
    is_clear: bool,
}

struct Forest {
    low: String,
    high: String,
    at: String,
}

/// The tasks by the number of runs that each side solved.
struct Grid {
    height: usize,
    cells: Vec<Cell>,
    marks: Vec<GridMark>,
    columns: Vec<(String, usize)>,
    rows: Vec<(usize, usize)>,
    base: usize,
    title: usize,
    a_runs: usize,
    b_runs: usize,
}

struct Cell {
    x: String,
    y: usize,
    width: String,
    class: &'static str,
    count: usize,
    label_y: usize,
}

struct GridMark {
    x: String,
    y: usize,
    class: &'static str,
    href: String,
    title: text::Line,
}

/// The tasks that one side alone solved.
struct Flips {
    title: String,
    loser: &'static str,
    rows: Vec<FlipRow>,
    count: String,
    more: Option<String>,
}

struct FlipRow {
    task: text::Line,
    href: Option<String>,
    a: Vec<RunMark>,
    a_words: String,
    a_width: usize,
    b: Vec<RunMark>,
    b_words: String,
    b_width: usize,
    ended: text::Line,
    compare: String,
}

struct RunMark {
    href: String,
    title: text::Line,
    class: &'static str,
    x: usize,
    hit: usize,
    y: usize,
}

/// A row of the table of all tasks.
struct TaskCells {
    task: text::Line,
    href: Option<String>,
    a: String,
    b: String,
    compare: String,
}

/// The distribution of a measure.
struct SpreadRow {
    label: &'static str,
    a: String,
    b: String,
    boxes: Vec<BoxPlot>,
    ticks: Vec<Tick>,
    dots: Vec<Dot>,
    ratio_ticks: Vec<Tick>,
    higher: usize,
    tasks: usize,
}

struct BoxPlot {
    letter: &'static str,
    y: usize,
    top: usize,
    bar_top: usize,
    bar_end: usize,
    text_y: usize,
    points: Vec<(String, String)>,
    low: String,
    high: String,
    left: String,
    width: String,
    median: String,
}

struct Dot {
    x: String,
    y: String,
    title: text::Line,
}

/// A row of the stop reasons.
struct ReasonCells {
    name: text::Line,
    a: String,
    a_href: String,
    a_x: String,
    a_width: String,
    b: String,
    b_href: String,
    b_width: String,
    difference: String,
}

fn percent(value: f64) -> String {
    format!("{value:.2}%")
}

impl View {
    /// Returns the first line of the page.
    fn headline(&self) -> text::Line {
        if let Some((set, _)) = self.ignored.first() {
            let what = format!("Query {} has an invalid term.", set.letter());
            return what.into();
        }
        match &self.answer {
            Some(answer) => answer.verdict.as_str().into(),
            None => "Choose two sets of runs.".into(),
        }
    }

    /// Returns the sentences below it.
    fn details(&self) -> Vec<text::Line> {
        if !self.ignored.is_empty() {
            let term = |(_, term): &(Set, Ignored)| format!("{}: {}.", term.text, term.why).into();
            return self.ignored.iter().map(term).collect();
        }
        match &self.answer {
            Some(answer) => answer
                .details
                .iter()
                .map(|words| words.as_str().into())
                .collect(),
            None => vec![
                "Each is a query, as on the Runs page. Runs of the same task are paired, and each task counts once."
                    .into(),
            ],
        }
    }

    fn pairings(&self) -> Vec<Choice> {
        let choice = |by: By| Choice {
            value: by.to_string(),
            label: by.label().into(),
            is_current: by == self.asked.by,
        };
        By::ALL.into_iter().map(choice).collect()
    }

    fn rules(&self) -> Vec<Choice> {
        let others = self.answer.iter().flat_map(|answer| &answer.other_rules);
        let others = others.filter_map(|option| option.rule.parse::<Rule>().ok());
        let mut rules = vec![Rule::Recorded, Rule::Finished];
        rules.extend(others);
        rules.push(self.asked.success.clone());
        let mut seen = HashSet::new();
        rules.retain(|rule| seen.insert(rule.to_string()));
        let choice = |rule: Rule| Choice {
            value: rule.to_string(),
            label: rule.label().into(),
            is_current: rule == self.asked.success,
        };
        rules.into_iter().map(choice).collect()
    }

    fn swap(&self) -> String {
        let asked = &self.asked;
        asked.href(
            "/experiments",
            &asked.b,
            &asked.a,
            &asked.success.to_string(),
        )
    }

    fn json(&self) -> String {
        let asked = &self.asked;
        asked.href(
            "/api/experiments",
            &asked.a,
            &asked.b,
            &asked.success.to_string(),
        )
    }

    /// Returns the command that prints the same numbers.
    fn command(&self) -> text::Line {
        let asked = &self.asked;
        let mut command = format!("board experiment {} {}", word(&asked.a), word(&asked.b));
        if asked.by != By::Task {
            command.push_str(&format!(" --by {}", asked.by.label()));
        }
        if asked.success != Rule::Recorded {
            command.push_str(&format!(" --success {}", word(&asked.success.to_string())));
        }
        command.push_str(" --fail-if 'success.high < 0'");
        command.into()
    }

    /// Returns the comparison if there's anything to show below the verdict.
    fn shown(&self) -> Option<Shown<'_>> {
        let answer = self.answer.as_ref()?;
        (answer.finding != Finding::Empty).then_some(Shown { answer })
    }

    /// Returns other rules to choose from, if the success is unknown.
    fn offers(&self) -> Vec<(String, text::Line, String)> {
        let unknown = self
            .answer
            .iter()
            .filter(|answer| answer.finding == Finding::Unknown);
        let options = unknown.flat_map(|answer| &answer.other_rules);
        let offer = |option: &crate::analysis::experiment::RuleOption| {
            let rule: Rule = option.rule.parse().ok()?;
            let (a, b) = (&self.asked.a, &self.asked.b);
            Some((
                self.asked.href("/experiments", a, b, &option.rule),
                rule.label().into(),
                counted(option.known, "run"),
            ))
        };
        options.filter_map(offer).collect()
    }
}

/// The comparison, as the page shows it.
struct Shown<'a> {
    answer: &'a Experiment,
}

impl Shown<'_> {
    fn is_paired(&self) -> bool {
        self.answer.certainty.paired
    }

    fn has_flips(&self) -> bool {
        self.is_paired() && self.answer.tasks > 0
    }

    fn setting(&self, name: &str) -> Option<&Setting> {
        let mut settings = self.answer.settings.iter();
        settings.find(|setting| setting.name == name)
    }

    fn sides(&self) -> Vec<SideRow> {
        [Set::A, Set::B].map(|set| self.side(set)).into()
    }

    fn side(&self, set: Set) -> SideRow {
        let side: &Side = self.answer.side(set);
        let words = |name: &str| -> text::Line {
            match self.setting(name) {
                Some(setting) => setting.words(set).into(),
                None => MISSING.into(),
            }
        };
        let tasks = count(side.tasks as u64);
        SideRow {
            letter: set.letter(),
            query: side.query.as_str().into(),
            href: href::runs(&side.query),
            runs: count(side.runs as u64),
            tasks: match side.runs_per_task {
                Some((least, most)) if most > 1 => {
                    let each = format::range(least as u64, most as u64);
                    format!("{tasks}, {each} runs each")
                }
                _ => tasks,
            },
            share: format::or_missing(side.rate, |rate| format!("{:.0}%", (rate * 100.0).round())),
            of: match side.judged {
                0 => String::new(),
                judged => {
                    // Paired, the share is the mean over tasks.
                    let tasks = if self.is_paired() { "of tasks, " } else { "" };
                    let solved = count(side.solved as u64);
                    format!("{tasks}{solved} of {}", counted(judged, "run"))
                }
            },
            interval: format::or_missing(side.rate_low.zip(side.rate_high), |(low, high)| {
                format!("{:.0}%–{:.0}%", low * 100.0, high * 100.0)
            }),
            date: words("date"),
            model: words("model"),
            prompt: words("prompt"),
        }
    }

    /// Returns what differs and what doesn't, in words.
    fn settings(&self) -> (String, String) {
        self.answer.settings_words()
    }

    fn compared(&self) -> String {
        self.answer.compared_words()
    }

    /// Returns the settings to list with their values. Those in the table of both sets aren't
    /// repeated if they're simple.
    fn setting_rows(&self) -> Vec<SettingRow> {
        let is_simple = |setting: &&Setting| {
            let is_shown = ["date", "model", "prompt"].contains(&setting.name);
            !is_shown || setting.a.len().max(setting.b.len()) > 1 && setting.name != "date"
        };
        let differing = self.answer.differing().filter(is_simple);
        differing
            .map(|setting| SettingRow {
                name: setting.name,
                a: setting.words(Set::A).into(),
                b: setting.words(Set::B).into(),
            })
            .collect()
    }

    fn groups(&self) -> Vec<GroupRows> {
        let groups = [
            (MeasureGroup::Success, "Success"),
            (MeasureGroup::Scores, "Scores"),
            (MeasureGroup::Spent, "Resources"),
        ];
        let rows = groups.map(|(group, title)| {
            let measures: Vec<&Measure> = self
                .answer
                .measures
                .iter()
                .filter(|measure| measure.group == group)
                .collect();
            let scale = scale(&measures);
            let format = measures.first().map(|measure| measure.format());
            let ticks = match (scale, format) {
                (Some(scale), Some(format)) => [-1.0, -0.5, 0.0, 0.5, 1.0]
                    .into_iter()
                    .map(|at| Tick {
                        x: percent(place(at)),
                        label: match at {
                            0.0 => "0".to_owned(),
                            _ => format(at * scale),
                        },
                        anchor: "middle",
                        is_minor: at.abs() == 0.5,
                    })
                    .collect(),
                _ => Vec::new(),
            };
            GroupRows {
                title,
                note: self.note(group),
                ticks,
                rows: measures
                    .into_iter()
                    .map(|measure| self.measure(measure, scale))
                    .collect(),
            }
        });
        rows.into_iter()
            .filter(|group| !group.rows.is_empty())
            .collect()
    }

    fn note(&self, group: MeasureGroup) -> String {
        match group {
            MeasureGroup::Success if self.is_paired() && self.answer.tasks == 0 => {
                "main measure".to_owned()
            }
            MeasureGroup::Success if self.is_paired() => {
                format!(
                    "main measure, {} compared",
                    counted(self.answer.tasks, "task")
                )
            }
            MeasureGroup::Success => "main measure, in percentage points".to_owned(),
            MeasureGroup::Scores => "mean of the last score".to_owned(),
            MeasureGroup::Spent => "relative to A".to_owned(),
        }
    }

    fn measure(&self, measure: &Measure, scale: Option<f64>) -> MeasureRow {
        let is_in_tasks = measure.unit == Unit::Tasks;
        let amount = |value: Option<f64>| -> (String, String) {
            match value.filter(|_| is_in_tasks && measure.tasks > 0) {
                Some(share) => (
                    tasks_digits(share * measure.tasks as f64),
                    measure.amount(Some(share)),
                ),
                None => (measure.amount(value), String::new()),
            }
        };
        let ((a, a_note), (b, b_note)) = (amount(measure.a), amount(measure.b));
        let forest = || {
            let (scale, at) = (scale?, measure.difference?);
            let (low, high) = measure.low.zip(measure.high)?;
            let x = |value: f64| percent(place((value / scale).clamp(-1.04, 1.04)));
            Some(Forest {
                low: x(low),
                high: x(high),
                at: x(at),
            })
        };
        MeasureRow {
            label: measure.label.as_str().into(),
            is_code: measure.group == MeasureGroup::Scores,
            is_main: measure.name == "success",
            a,
            a_note,
            b,
            b_note,
            difference: measure.difference_words(),
            interval: measure.interval(),
            forest: forest(),
            p: measure.p_words(),
            reading: measure.reading(),
            is_clear: measure.is_clear,
        }
    }

    /// Returns the tasks by the number of runs that each side solved, if all tasks have the same
    /// small number of runs.
    fn grid(&self) -> Option<Grid> {
        let answer = self.answer;
        let (least_a, a_runs) = answer.a.runs_per_task?;
        let (least_b, b_runs) = answer.b.runs_per_task?;
        let is_even = least_a == a_runs && least_b == b_runs;
        let is_small = a_runs.max(b_runs) <= MAX_GRID && answer.task_rows_left_out == 0;
        if !is_even || !is_small || answer.tasks == 0 {
            return None;
        }
        let solved = |row: &TaskRow, set: Set| {
            let runs = row.runs(set).iter();
            runs.filter(|run| run.solved == Some(true)).count()
        };
        let mut cells: HashMap<(usize, usize), Vec<&TaskRow>> = HashMap::new();
        for row in &answer.task_rows {
            if row.a_rate.is_some() && row.b_rate.is_some() {
                let at = (solved(row, Set::A), solved(row, Set::B));
                cells.entry(at).or_default().push(row);
            }
        }
        let width = 100.0 / (a_runs + 1) as f64;
        // A mark takes 2.7% of the width, and the cell has a margin.
        let in_row = (((width - 2.0) / 2.7) as usize).max(1);
        let mut grid = Grid {
            height: CELL * (b_runs + 1) + 34,
            cells: Vec::new(),
            marks: Vec::new(),
            columns: (0..=a_runs)
                .map(|n| (percent(width * (n as f64 + 0.5)), n))
                .collect(),
            rows: (0..=b_runs)
                .map(|n| (CELL * (b_runs - n) + CELL / 2 + 4, n))
                .collect(),
            base: CELL * (b_runs + 1) + 14,
            title: CELL * (b_runs + 1) + 29,
            a_runs,
            b_runs,
        };
        for b in 0..=b_runs {
            for a in 0..=a_runs {
                let (x, y) = (width * a as f64, CELL * (b_runs - b));
                // The sides may have different numbers of runs.
                let class = match (b * a_runs).cmp(&(a * b_runs)) {
                    std::cmp::Ordering::Equal => "same",
                    std::cmp::Ordering::Greater => "more-b",
                    std::cmp::Ordering::Less => "more-a",
                };
                let rows = cells.remove(&(a, b)).unwrap_or_default();
                grid.cells.push(Cell {
                    x: percent(x),
                    y,
                    width: percent(width),
                    class,
                    count: rows.len(),
                    label_y: y + 13,
                });
                for (n, row) in rows.iter().take(in_row * CELL_ROWS).enumerate() {
                    grid.marks.push(GridMark {
                        x: percent(x + 1.4 + (n % in_row) as f64 * 2.7),
                        y: y + 20 + n / in_row * 11,
                        class,
                        href: compare(row),
                        title: format!("{}: A {a} of {a_runs}, B {b} of {b_runs}", row.name).into(),
                    });
                }
            }
        }
        Some(grid)
    }

    fn flips(&self) -> Vec<Flips> {
        let sides = [(Set::B, Set::A), (Set::A, Set::B)];
        let flips = |(winner, loser): (Set, Set)| {
            let all = self.answer.only_count(winner);
            let rows = self.answer.only(winner).take(MAX_FLIPS);
            Flips {
                title: format!(
                    "{} {}, {} didn't",
                    winner.letter(),
                    self.answer.solved_word(),
                    loser.letter()
                ),
                loser: loser.letter(),
                rows: rows
                    .map(|row| flip_row(row, loser, self.answer.solved_word()))
                    .collect(),
                count: counted(all, "task"),
                more: (all > MAX_FLIPS)
                    .then(|| format!("{} more are in the JSON.", count((all - MAX_FLIPS) as u64))),
            }
        };
        sides.map(flips).into()
    }

    /// Explains when a task counts as solved.
    fn flips_note(&self) -> String {
        let runs = |side: &Side| side.runs_per_task.map_or(1, |(_, most)| most);
        let word = self.success_word();
        if runs(&self.answer.a).max(runs(&self.answer.b)) > 1 {
            format!("{word} in most runs by one side only.")
        } else {
            format!("{word} by one side only.")
        }
    }

    /// Returns the word for success, with a capital letter: `Solved`.
    fn success_word(&self) -> String {
        capitalised(self.answer.solved_word())
    }

    fn tasks(&self) -> Vec<TaskCells> {
        let rows = self.answer.task_rows.iter().take(MAX_TASKS);
        rows.map(|row| TaskCells {
            task: row.name.as_str().into(),
            href: task_href(row),
            a: solved_words(row, Set::A, self.answer.solved_word()),
            b: solved_words(row, Set::B, self.answer.solved_word()),
            compare: compare(row),
        })
        .collect()
    }

    fn tasks_title(&self) -> String {
        let all = self.answer.task_rows.len() + self.answer.task_rows_left_out;
        match all {
            _ if all > MAX_TASKS => {
                format!("{MAX_TASKS} of {} tasks as a table", count(all as u64))
            }
            _ => format!("{} as a table", counted(all, "task")),
        }
    }

    fn spreads(&self) -> Vec<SpreadRow> {
        let names = ["steps", "tokens", "cost", "time"];
        let labels = [
            "Steps per run",
            "Tokens per run",
            "Cost per run",
            "Duration per run",
        ];
        names
            .into_iter()
            .zip(labels)
            .filter_map(|(name, label)| self.spread(self.answer.measure(name)?, label))
            .collect()
    }

    fn spread(&self, measure: &Measure, label: &'static str) -> Option<SpreadRow> {
        let (a, b) = (measure.a_spread?, measure.b_spread?);
        let (of_a, of_b) = &measure.points;
        let mut all: Vec<f64> = of_a.iter().chain(of_b).copied().collect();
        all.sort_by(f64::total_cmp);
        // A few runs that took far longer would press the others together.
        let top = all.get(all.len().saturating_sub(1) * 49 / 50).copied()?;
        let top = nice(top.max(a.p90).max(b.p90));
        let x = |value: f64| 100.0 * (value / top).clamp(0.0, 1.0);
        let ticks = [0.0, 0.25, 0.5, 0.75, 1.0].map(|at| Tick {
            x: percent(at * 100.0),
            label: if at == 0.0 {
                "0".to_owned()
            } else {
                whole(measure.amount(Some(top * at)))
            },
            // A label at an end would reach into the next column.
            anchor: match at {
                0.0 => "start",
                1.0 => "end",
                _ => "middle",
            },
            is_minor: at == 0.25 || at == 0.75,
        });
        let plot = |(letter, spread, points, y): (&'static str, Spread, &[f64], usize)| BoxPlot {
            letter,
            y,
            top: y - 6,
            bar_top: y - 8,
            bar_end: y + 8,
            text_y: y + 4,
            points: points
                .iter()
                .enumerate()
                // Points side by side would hide each other.
                .map(|(n, value)| {
                    (
                        percent(x(*value)),
                        format!("{:.1}", y as f64 - 5.0 + jitter(n)),
                    )
                })
                .collect(),
            low: percent(x(spread.p10)),
            high: percent(x(spread.p90)),
            left: percent(x(spread.p25)),
            width: percent((x(spread.p75) - x(spread.p25)).max(0.3)),
            median: percent(x(spread.median)),
        };
        Some(SpreadRow {
            label,
            a: measure.amount(Some(a.median)),
            b: measure.amount(Some(b.median)),
            boxes: vec![plot(("A", a, of_a, 13)), plot(("B", b, of_b, 35))],
            ticks: ticks.into(),
            dots: self.dots(measure),
            ratio_ticks: [
                (0.25, "¼"),
                (0.5, "½"),
                (1.0, "same"),
                (2.0, "2×"),
                (4.0, "4×"),
            ]
            .map(|(ratio, label)| Tick {
                x: percent(ratio_place(ratio)),
                label: label.to_owned(),
                anchor: "middle",
                is_minor: false,
            })
            .into(),
            higher: measure.task_values.iter().filter(|(_, a, b)| b > a).count(),
            tasks: measure.task_values.len(),
        })
    }

    /// Places a dot for each task at its ratio of B to A.
    fn dots(&self, measure: &Measure) -> Vec<Dot> {
        const STEP: f64 = 1.7;
        let mut stacked: HashMap<i64, usize> = HashMap::new();
        let mut ratios: Vec<(f64, usize, f64, f64)> = measure
            .task_values
            .iter()
            .filter(|(_, a, b)| *a > 0.0 && *b > 0.0)
            .map(|(at, a, b)| (b / a, *at, *a, *b))
            .collect();
        ratios.sort_by(|x, y| x.0.total_cmp(&y.0));
        let dot = |(ratio, at, a, b): (f64, usize, f64, f64)| {
            let bin = (ratio_place(ratio) / STEP).round();
            let below = stacked.entry(bin as i64).or_default();
            let y = (40.0 - *below as f64 * 6.2).max(4.0);
            *below += 1;
            let name = self.answer.task_names.get(at).map_or("", String::as_str);
            Dot {
                x: percent(bin * STEP),
                y: format!("{y:.1}"),
                title: format!(
                    "{name}: A {}, B {}",
                    measure.amount(Some(a)),
                    measure.amount(Some(b))
                )
                .into(),
            }
        };
        ratios.into_iter().map(dot).take(500).collect()
    }

    /// Explains the marks of costs.
    fn spread_note(&self) -> Option<String> {
        let cost = self.answer.measure("cost")?;
        cost.is_estimated.then(|| {
            let date = crate::model::price::LIST_DATE;
            format!("≈ estimated from list prices of {date}, or your own")
        })
    }

    fn reasons(&self) -> Vec<ReasonCells> {
        let rows = &self.answer.stop_reasons;
        let most = rows.iter().map(|row| row.a.max(row.b)).max().unwrap_or(1);
        let share = |runs: usize| runs as f64 * 100.0 / most.max(1) as f64;
        let link = |query: &str, reason: &Option<String>| {
            let reason = reason.as_deref().unwrap_or("not recorded");
            href::runs(&format!("{query} stop:{}", Needle::new(reason)))
        };
        let cells = |row: &ReasonRow| ReasonCells {
            name: row.reason.as_deref().unwrap_or("not recorded").into(),
            a: count(row.a as u64),
            a_href: link(&self.answer.a.query, &row.reason),
            a_x: percent(100.0 - share(row.a)),
            a_width: percent(share(row.a)),
            b: count(row.b as u64),
            b_href: link(&self.answer.b.query, &row.reason),
            b_width: percent(share(row.b)),
            difference: format::signed(row.b as i64 - row.a as i64),
        };
        rows.iter().map(cells).collect()
    }

    fn certainty(&self) -> Vec<(&'static str, String)> {
        let mut all = self.answer.certainty_words();
        let success = self.answer.success();
        if let Some(difference) = success.and_then(|success| success.difference)
            && self.is_paired()
        {
            let p = success.map(Measure::p_words).unwrap_or_default();
            let words = format!(
                "Mean difference {} of {} ({}), p {}.",
                tasks_words(difference),
                counted(self.answer.tasks, "task"),
                change_words(difference / self.answer.tasks.max(1) as f64),
                match p.strip_prefix('<') {
                    Some(p) => format!("< {p}"),
                    None => format!("= {p}"),
                }
            );
            all.insert(1.min(all.len()), ("Result", words));
        }
        all
    }

    fn runs(&self, set: &str) -> String {
        let (a, b) = self.answer.stop_reasons_of;
        let runs = if set == "A" { a } else { b };
        counted(runs, "run")
    }

    fn is_few(&self) -> bool {
        self.answer.finding == Finding::TooFew && self.is_paired()
    }
}

/// Shortens `5.0` and `200.0k`.
fn whole(amount: String) -> String {
    let unit = amount.trim_start_matches(|c: char| c.is_ascii_digit() || matches!(c, '.' | ','));
    match amount
        .strip_suffix(unit)
        .and_then(|number| number.strip_suffix(".0"))
    {
        Some(number) => format!("{number}{unit}"),
        None => amount,
    }
}

/// Quotes an argument of a shell command.
fn word(argument: &str) -> String {
    match argument.starts_with('-') {
        // A path would get `./`, but this is a query.
        true => format!("'{}'", argument.replace('\'', "'\\''")),
        false => text::shell_word(argument),
    }
}

/// Returns the place on the axis of differences of a value between −1 and 1, in percent.
fn place(at: f64) -> f64 {
    50.0 + 44.0 * at
}

/// Returns the place of a ratio on a logarithmic axis from a quarter to four times.
fn ratio_place(ratio: f64) -> f64 {
    50.0 + 24.0 * ratio.log2().clamp(-2.0, 2.0)
}

/// Spreads points over 10 pixels, always in the same way.
fn jitter(n: usize) -> f64 {
    (n * 61 % 101) as f64 / 10.0
}

/// Returns the end of the axis on which the intervals of these measures fit. A single interval that is
/// far wider than all differences ends at the border, or the others would be points.
fn scale(measures: &[&Measure]) -> Option<f64> {
    let largest = |values: &mut dyn Iterator<Item = f64>| values.map(f64::abs).fold(0.0, f64::max);
    let ends = measures
        .iter()
        .flat_map(|measure| [measure.low, measure.high]);
    let differences = measures.iter().filter_map(|measure| measure.difference);
    let widest = (4.0 * largest(&mut differences.into_iter())).max(1.0);
    let most = largest(&mut ends.flatten()).min(widest);
    (most > 0.0 && most.is_finite()).then(|| nice(most))
}

/// Rounds up to a number whose quarters have few digits.
fn nice(value: f64) -> f64 {
    if !(value > 0.0 && value.is_finite()) {
        return 1.0;
    }
    let unit = 10_f64.powf(value.log10().floor());
    let steps = [1.0, 1.2, 1.6, 2.0, 3.0, 4.0, 6.0, 8.0, 10.0];
    let step = steps.into_iter().find(|step| step * unit >= value * 0.999);
    step.unwrap_or(10.0) * unit
}

fn compare(row: &TaskRow) -> String {
    href::compare(&row.compare.0, &row.compare.1)
}

/// Returns the address of all runs of a task, if its text fits into one.
fn task_href(row: &TaskRow) -> Option<String> {
    let query = task_query(row.text.as_deref()?)?;
    Some(href::runs(&query))
}

/// Formats how many runs of a task succeeded: `2 of 3`, or the `word` for success for a single run.
fn solved_words(row: &TaskRow, set: Set, word: &str) -> String {
    let (solved, known) = row.solved(set);
    match (known, solved) {
        (0, _) => "unknown".to_owned(),
        (1, 0) => format!("not {word}"),
        (1, _) => word.to_owned(),
        _ => format!("{solved} of {known}"),
    }
}

fn flip_row(row: &TaskRow, loser: Set, word: &str) -> FlipRow {
    let marks = |set: Set| -> Vec<RunMark> {
        let runs = row.runs(set).iter().take(MAX_MARKS).enumerate();
        runs.map(|(n, run)| {
            let (class, y, words) = match run.solved {
                Some(true) => ("tk-ok", 1, word.to_owned()),
                Some(false) => ("tk-no", 9, format!("not {word}")),
                None => ("tk-un", 5, "unknown".to_owned()),
            };
            let reason = run.stop_reason.as_deref().unwrap_or("no stop reason");
            RunMark {
                href: href::run(&run.run),
                title: format!("{}, run {}: {words}, {reason}", set.letter(), n + 1).into(),
                class,
                x: n * 14 + 2,
                hit: n * 14,
                y,
            }
        })
        .collect()
    };
    let (a, b) = (marks(Set::A), marks(Set::B));
    let words = |set: Set| format!("{}: {}", set.letter(), solved_words(row, set, word));
    FlipRow {
        task: row.name.as_str().into(),
        href: task_href(row),
        a_width: a.len() * 14,
        a,
        a_words: words(Set::A),
        b_width: b.len() * 14,
        b,
        b_words: words(Set::B),
        ended: row.failed_with(loser).unwrap_or(MISSING).into(),
        compare: compare(row),
    }
}
