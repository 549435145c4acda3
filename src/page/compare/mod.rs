//! Defines the page that compares runs side by side: outcomes, the step where they diverge, all
//! steps aligned, settings and metrics.
//!
//! Everything below the title is a single part, `#compare`, which updates while a run is live.

mod moment;

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::sync::Arc;

use askama::Template;
use askama::filters::HtmlSafe;
use axum::extract::State;
use axum::response::{IntoResponse, Redirect};

use crate::analysis::compare::{
    Comparison, ComparisonOfSeveral, Config, MAX_ALIGNED, MAX_DIFFERS, Measure, Relation, Row,
    RowOfSeveral, SettingOfSeveral, Side, compare, compare_several, compared_runs, measures,
    settings_of_several,
};
use crate::analysis::format;
use crate::analysis::scores::{Series, series};
use crate::analysis::summary::Summary;
use crate::live::Run;
use crate::model::{CriticAction, StepHead};
use crate::page::answer::{html, json, load_again};
use crate::page::app::AppState;
use crate::page::blocking::blocking;
use crate::page::compare::moment::{Opened, side_class};
use crate::page::error::{Answer, WebError};
use crate::page::extract::{MAX_RUNS, no_such_run};
use crate::page::params::Params;
use crate::page::part::fold::Folded;
use crate::page::part::href;
use crate::page::part::sign::{Link, Phrase, Sign};
use crate::page::part::text::{self, Block, one_line};
use crate::page::part::tool::relative_in_text;
use crate::page::run::step_row::in_words;
use crate::page::run_view::{RunView, micros, name};
use crate::page::scores::overlay::{Axis, BAND, MAX_LINES, Overlay, Source, letter};
use crate::page::scores::plot::VisibleRange;
use crate::page::shell::{NavItem, Pulse, Shell, Status, now};

/// Limits the elements of the aligned steps of two runs, and of several, which take more room
/// elsewhere. Limits those before the first difference, which are folded, and those of the settings.
const ROW_ELEMENTS: usize = 480;
const ROW_ELEMENTS_OF_SEVERAL: usize = 360;
const BEFORE_ELEMENTS: usize = 120;
const SETTING_ELEMENTS: usize = 120;
/// Limits the characters of a call in a row, a task or answer in the summary, and the value of a
/// setting.
const MAX_CALL: usize = 200;
const MAX_ANSWER: usize = 240;
const MAX_VALUE: usize = 600;
/// Limits the lines of an answer or a task in the summary, and of the value of a setting.
const MAX_ANSWER_LINES: usize = 4;
const MAX_VALUE_LINES: usize = 12;
/// Limits the characters of a title in the heading.
const MAX_TITLE: usize = 60;
/// The same in the summary of a run.
const MAX_CARD_TITLE: usize = 320;
/// Limits the tools listed for the common steps.
const MAX_TOOLS: usize = 4;
/// Limits the keys to choose from.
const MAX_KEYS: usize = 500;
/// The heading of the branches, which are suggested first.
const BRANCHES: &str = "A run and its branch";
/// Limits the suggestions of each kind.
const MAX_LIKELY: usize = 12;

#[derive(Template)]
#[template(path = "compare/page.html")]
pub(crate) struct ComparePage<'a> {
    pub shell: Shell,
    /// Fetches changes while a run is live.
    pub pulse: Option<Pulse>,
    /// The choice of runs, if fewer than two are selected.
    pub choice: Option<Choice>,
    pub body: Option<CompareBody<'a>>,
}

/// The fields for choosing two runs.
pub(crate) struct Choice {
    /// The keys as typed.
    pub a: String,
    pub b: String,
    /// The run already selected.
    pub chosen: Option<Arc<Summary>>,
    /// All runs, newest first.
    pub runs: Vec<Arc<Summary>>,
}

impl Choice {
    /// Returns the runs that can be compared with the selected one.
    fn others(&self) -> impl Iterator<Item = &Arc<Summary>> {
        let is_other = |run: &&Arc<Summary>| {
            self.chosen
                .as_ref()
                .is_none_or(|chosen| !is_same_run(chosen, run))
        };
        self.runs.iter().filter(is_other).take(MAX_KEYS)
    }

    /// Returns run A: the key as typed, or else the selected run's.
    fn a(&self) -> &str {
        let chosen = self
            .chosen
            .as_ref()
            .filter(|_| self.a.is_empty() && self.b.is_empty());
        chosen.map_or(&self.a, |run| run.key.as_str())
    }

    /// Suggests comparisons, grouped by reason. If a run is selected, suggests others of its task
    /// and its neighbors in time. Otherwise, pairs each run with the previous one of the same
    /// task.
    fn likely(&self) -> Vec<Likely<'_>> {
        let Some(chosen) = &self.chosen else {
            return self.pairs();
        };
        let address = |other: &str| match self.a() {
            "" => href::compare(other, chosen.key.as_str()),
            _ => href::compare(chosen.key.as_str(), other),
        };
        let offer = |run: &'_ Arc<Summary>| address(run.key.as_str());
        let is_same = |run: &&Arc<Summary>| {
            run.task.is_some() && run.task == chosen.task && !is_same_run(chosen, run)
        };
        let same = self.runs.iter().filter(is_same).take(MAX_LIKELY);
        let at = self.runs.iter().position(|run| is_same_run(chosen, run));
        let next = at
            .and_then(|at| self.runs.get(at.checked_sub(1)?))
            .map(|run| (run, "next run"));
        let before = at
            .and_then(|at| self.runs.get(at + 1))
            .map(|run| (run, "previous run"));
        let beside = next.into_iter().chain(before);
        [
            Likely {
                why: BRANCHES,
                offers: self.branches(Some(chosen)),
            },
            Likely {
                why: "Runs of the same task, newest first",
                offers: same
                    .map(|run| Offer {
                        runs: vec![&**run],
                        note: "",
                        href: offer(run),
                    })
                    .collect(),
            },
            Likely {
                why: "Previous and next runs",
                offers: beside
                    .map(|(run, note)| Offer {
                        runs: vec![&**run],
                        note,
                        href: offer(run),
                    })
                    .collect(),
            },
        ]
        .into_iter()
        .filter(|likely| !likely.offers.is_empty())
        .collect()
    }

    /// Suggests pairs of runs, newest first. The older run is A.
    fn pairs(&self) -> Vec<Likely<'_>> {
        let branches = self.branches(None);
        if !branches.is_empty() {
            let rest = self.pairs_of_tasks();
            return std::iter::once(Likely {
                why: BRANCHES,
                offers: branches,
            })
            .chain(rest)
            .collect();
        }
        self.pairs_of_tasks()
    }

    /// Pairs runs that branched from others with the run they branched from, newest first. The
    /// original run is A.
    fn branches(&self, of: Option<&Arc<Summary>>) -> Vec<Offer<'_>> {
        let is_parent = |branch: &Summary, run: &Summary| {
            branch.parent.is_some()
                && (branch.parent == run.run_id
                    || branch.parent.as_deref() == Some(run.key.as_str()))
        };
        let branched = self.runs.iter().filter(|run| run.branched_after.is_some());
        let pairs = branched.filter_map(|branch| {
            Some((
                self.runs
                    .iter()
                    .find(|run| run.key != branch.key && is_parent(branch, run))?,
                branch,
            ))
        });
        let is_meant = |one: &Arc<Summary>, other: &Arc<Summary>| {
            of.is_none_or(|of| [&one.key, &other.key].contains(&&of.key))
        };
        let pairs = pairs
            .filter(|(parent, branch)| is_meant(parent, branch))
            .take(MAX_LIKELY);
        pairs
            .map(|(parent, branch)| Offer {
                runs: vec![&**parent, &**branch],
                note: "",
                href: href::compare(parent.key.as_str(), branch.key.as_str()),
            })
            .collect()
    }

    /// Suggests pairs of runs with the same task, or else pairs of consecutive runs.
    fn pairs_of_tasks(&self) -> Vec<Likely<'_>> {
        let pair = |older: &'_ Arc<Summary>, newer: &'_ Arc<Summary>| {
            href::compare(older.key.as_str(), newer.key.as_str())
        };
        let mut waiting: HashMap<&str, &Arc<Summary>> = HashMap::new();
        let mut same = Vec::new();
        for run in &self.runs {
            let Some(task) = run.task.as_deref().filter(|task| !task.is_empty()) else {
                continue;
            };
            if let Some(newer) = waiting.insert(task, run) {
                same.push(Offer {
                    runs: vec![&**run, &**newer],
                    note: "",
                    href: pair(run, newer),
                });
                if same.len() == MAX_LIKELY {
                    break;
                }
            }
        }
        if !same.is_empty() {
            return vec![Likely {
                why: "Pairs of runs of the same task, newest first",
                offers: same,
            }];
        }
        let beside = self
            .runs
            .iter()
            .zip(self.runs.iter().skip(1))
            .take(MAX_LIKELY);
        let offers: Vec<_> = beside
            .map(|(newer, older)| Offer {
                runs: vec![&**older, &**newer],
                note: "",
                href: pair(older, newer),
            })
            .collect();
        Some(Likely {
            why: "Consecutive runs, newest first",
            offers,
        })
        .into_iter()
        .filter(|likely| !likely.offers.is_empty())
        .collect()
    }
}

/// Whether both are the same run: one file, or duplicates with the same records.
fn is_same_run(one: &Summary, other: &Summary) -> bool {
    let counted = |run: &Summary| {
        let counted = run.relation.duplicate_of.as_ref();
        counted.unwrap_or(&run.key).clone()
    };
    counted(one) == counted(other)
}

/// Comparisons suggested for the same reason.
struct Likely<'a> {
    why: &'static str,
    offers: Vec<Offer<'a>>,
}

/// A suggested comparison: the missing run, or both runs.
struct Offer<'a> {
    runs: Vec<&'a Summary>,
    note: &'static str,
    href: String,
}

/// The response to the pulse of a comparison.
#[derive(Template)]
#[template(path = "compare/compare_pulse.html")]
pub(crate) struct ComparePulse<'a> {
    pub pulse: Pulse,
    pub body: CompareBody<'a>,
}

/// The comparison, `#compare`.
#[derive(Template)]
#[template(path = "compare/compare_body.html")]
pub(crate) struct CompareBody<'a> {
    pub runs: &'a [RunView<'a>],
    /// The aligned steps of two runs, or of a few.
    pub two: Option<Two<'a>>,
    pub several: Option<Several<'a>>,
    config: Config<SettingOfSeveral>,
    /// The index of the first setting shown.
    setting: usize,
    metrics: Vec<MetricRow>,
}

impl HtmlSafe for CompareBody<'_> {}

/// The parts of a comparison that a page shows.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Place {
    /// The first row of the requested window.
    pub from: Option<usize>,
    /// Whether equal rows of several runs are shown.
    pub all: bool,
    /// The index of the first setting.
    pub setting: usize,
}

/// A number of each run.
struct MetricRow {
    values: Vec<Measure>,
}

impl MetricRow {
    fn name(&self) -> &'static str {
        self.values.first().map_or("", |measure| measure.name)
    }

    /// Returns the difference between two runs.
    fn delta(&self) -> Option<String> {
        match self.values.as_slice() {
            [a, b] => Some(a.unit.delta(a.value, b.value)),
            _ => None,
        }
    }

    /// Whether no run records the number, or all of several runs that do have the same one. Cost and
    /// duration are always of interest.
    fn is_idle(&self) -> bool {
        let mut recorded = self
            .values
            .iter()
            .filter(|measure| measure.value.is_some() || measure.lower_bound.is_some())
            .map(Measure::words);
        let first = recorded.next();
        let is_asked_for = self
            .values
            .first()
            .is_some_and(|measure| ["duration_ms", "cost_usd"].contains(&measure.id));
        let may_hide = self.values.len() > 2 && !is_asked_for;
        first.is_none() || may_hide && recorded.all(|value| first.as_ref() == Some(&value))
    }
}

impl<'a> CompareBody<'a> {
    /// Compares `runs`.
    pub(crate) fn new(runs: &'a [RunView<'a>], place: Place) -> Self {
        let Place { from, all, setting } = place;
        let two = match runs {
            [a, b] => Some(Two {
                a,
                b,
                comparison: compare(a.index, b.index),
                from,
            }),
            _ => None,
        };
        let is_aligned = (3..=MAX_ALIGNED).contains(&runs.len());
        let several = is_aligned.then(|| Several {
            runs,
            comparison: compare_several(&runs.iter().map(|run| run.index).collect::<Vec<_>>()),
            from: from.unwrap_or_default(),
            all,
        });
        let sides: Vec<Side<'_>> = runs.iter().map(side).collect();
        let config = settings_of_several(&sides);
        let setting = match setting < config.differs.len() {
            true => setting,
            false => 0,
        };
        Self {
            runs,
            two,
            several,
            config,
            setting,
            metrics: metrics(runs),
        }
    }

    fn heading(&self) -> String {
        if self.runs.len() > 2 {
            // The titles are below.
            return format!("{} compared", format::counted(self.runs.len(), "run"));
        }
        heading(&self.runs.iter().map(|run| run.summary).collect::<Vec<_>>())
    }

    /// Returns the heading with the code in titles.
    fn coded_heading(&self) -> Phrase {
        if self.runs.len() > 2 {
            return Phrase::from(self.heading());
        }
        coded_heading(&self.runs.iter().map(|run| run.summary).collect::<Vec<_>>())
    }

    /// Returns how many settings are shown at once. Each has up to two elements for each run.
    fn settings_at_once(&self) -> usize {
        (SETTING_ELEMENTS / (3 + 2 * self.runs.len())).max(1)
    }

    /// Returns the settings shown.
    fn settings(&self) -> impl Iterator<Item = &SettingOfSeveral> {
        let settings = self.config.differs.iter();
        settings.skip(self.setting).take(self.settings_at_once())
    }

    /// Links to the settings before and after those shown.
    fn settings_pages(&self) -> Vec<Link> {
        let keys: Vec<&str> = self.runs.iter().map(RunView::key).collect();
        let page = |label: String, at: usize| Link::new(label, href::compare_settings(&keys, at));
        let size = self.settings_at_once();
        let left = self
            .config
            .differs
            .len()
            .saturating_sub(self.setting + size);
        let earlier = (self.setting > 0).then(|| {
            let label = format::counted(self.setting, "earlier setting");
            page(label, self.setting.saturating_sub(size))
        });
        let later = (left > 0).then(|| {
            let label = format::counted(left, "more setting");
            page(label, self.setting + size)
        });
        earlier.into_iter().chain(later).collect()
    }

    fn sentence(&self) -> String {
        let mut tasks = self.runs.iter().map(|view| view.summary.task.as_deref());
        let first = tasks.next().flatten();
        let is_other = |task: Option<&str>| task.is_some() && first.is_some() && task != first;
        let sentence = match (&self.two, &self.several) {
            (Some(two), _) => two.comparison.sentence(two.a.index, two.b.index),
            (None, Some(several)) => {
                let indexes: Vec<_> = self.runs.iter().map(|run| run.index).collect();
                several.comparison.sentence(&indexes)
            }
            (None, None) => format!(
                "{} side by side. Steps are aligned for up to {MAX_ALIGNED} runs.",
                format::counted(self.runs.len(), "run")
            ),
        };
        if tasks.any(is_other) {
            format!("Different tasks. {sentence}")
        } else {
            sentence
        }
    }

    /// Names the runs that are the same as an earlier one.
    fn repeats(&self) -> Vec<String> {
        let mut notes = Vec::new();
        for (at, run) in self.runs.iter().enumerate() {
            let mut before = self.runs.iter().take(at);
            let Some(same) = before.position(|other| is_same_run(run.summary, other.summary))
            else {
                continue;
            };
            let (one, other) = (letter(same), letter(at));
            let is_file = self.runs.get(same).map(|same| same.key()) == Some(run.key());
            notes.push(if is_file {
                format!("{one} and {other} are the same run.")
            } else {
                format!("{one} and {other} are two records of the same run.")
            });
        }
        notes
    }

    /// Overlays the scores of the runs, if critics gave any.
    fn overlay(&self) -> Option<Overlay> {
        match &self.two {
            Some(two) => of_two(&two.comparison, two.a, two.b),
            None => of_many(self.runs),
        }
    }

    fn metrics(&self, idle: bool) -> Vec<&MetricRow> {
        let rows = self.metrics.iter();
        rows.filter(|row| row.is_idle() == idle).collect()
    }

    /// Describes the metrics that are hidden.
    fn idle_words(&self) -> String {
        let rows = format::counted(self.metrics(true).len(), "metric");
        match self.two {
            Some(_) => format!("{rows} not recorded"),
            None => format!("{rows} equal or not recorded"),
        }
    }
}

/// Returns the numbers of the runs.
fn metrics(runs: &[RunView<'_>]) -> Vec<MetricRow> {
    let mut rows: Vec<MetricRow> = Vec::new();
    for view in runs {
        let own = measures(view.summary, view.index);
        rows.resize_with(own.len(), || MetricRow { values: Vec::new() });
        for (row, measure) in rows.iter_mut().zip(own) {
            row.values.push(measure);
        }
    }
    rows
}

/// Returns how many rows with these numbers of elements fit into `most` elements, but at least one.
fn fitting(elements: impl Iterator<Item = usize>, most: usize) -> usize {
    let mut left = Some(most);
    let fits = |elements: &usize| {
        left = left.and_then(|left| left.checked_sub(*elements));
        left.is_some()
    };
    elements.take_while(fits).count().max(1)
}

/// Returns the number of elements of a row with these steps: two for the row, two for its name, and
/// those of each cell.
fn elements<'a>(steps: impl Iterator<Item = Option<&'a StepHead>>) -> usize {
    let cell = |step: Option<&StepHead>| {
        let Some(step) = step else { return 1 };
        let has = |is: bool, elements: usize| if is { elements } else { 0 };
        let sign =
            step.fate.is_readable() && crate::page::run::step_row::sign(step, None).is_some();
        3 + has(step.lowest_score().is_some(), 1)
            + has(step.requested(CriticAction::Retry), 3)
            + has(step.requested(CriticAction::Stop), 3)
            + has(sign, 3)
    };
    4 + steps.map(cell).sum::<usize>()
}

/// Names the compared runs: `“A title” and “B title”`. Runs with the same title are counted.
fn heading(runs: &[&Summary]) -> String {
    heading_parts(runs).concat()
}

/// Returns the same with the code in titles.
fn coded_heading(runs: &[&Summary]) -> Phrase {
    let parts = heading_parts(runs).into_iter();
    parts.fold(Phrase::new(), |words, part| words.with_code(&part))
}

/// Returns the titles and the words between them.
fn heading_parts(runs: &[&Summary]) -> Vec<String> {
    let names: Vec<String> = runs
        .iter()
        .map(|run| one_line(name(run).trim_end_matches('.'), MAX_TITLE).0)
        .collect();
    let parts = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
    match names.as_slice() {
        [] => parts(&["Compare"]),
        [one] => parts(&[one]),
        [first, rest @ ..] if rest.iter().all(|name| name == first) => {
            let is_one = runs
                .split_first()
                .is_some_and(|(one, others)| others.iter().all(|other| other.key == one.key));
            match is_one {
                true => parts(&["“", first, "” and itself"]),
                false => {
                    let count = format::counted(names.len(), "run");
                    parts(&[&count, " of “", first, "”"])
                }
            }
        }
        [one, other] => parts(&["“", one, "” and “", other, "”"]),
        [one, two, three] => parts(&["“", one, "”, “", two, "” and “", three, "”"]),
        [one, two, rest @ ..] => {
            let more = format!("” and {} more", rest.len());
            parts(&["“", one, "”, “", two, &more])
        }
    }
}

/// Returns the first lines of prose, as Markdown if it contains any.
fn prose(text: &str) -> Folded {
    let text = Block::beginning(text.trim_start(), MAX_ANSWER_LINES, MAX_ANSWER);
    Folded::prose_of(&text.to_string())
}

/// The aligned steps of three or more runs.
pub(crate) struct Several<'a> {
    runs: &'a [RunView<'a>],
    comparison: ComparisonOfSeveral,
    /// The first row of the requested window.
    from: usize,
    /// Whether equal rows are shown too.
    all: bool,
}

/// A row of the table of several runs.
enum Shown<'r> {
    Row(&'r RowOfSeveral),
    /// Consecutive rows that are hidden because they are equal in all runs: the first and their
    /// number.
    Equal(usize, usize),
}

impl Several<'_> {
    fn total(&self) -> usize {
        self.comparison.rows.len()
    }

    fn first(&self) -> Option<&RowOfSeveral> {
        self.comparison.rows.get(self.comparison.first?)
    }

    fn place(&self, row: &RowOfSeveral) -> String {
        let indexes: Vec<_> = self.runs.iter().map(|run| run.index).collect();
        self.comparison.place(row, &indexes)
    }

    fn is_first(&self, row: &RowOfSeveral) -> bool {
        self.first().is_some_and(|first| std::ptr::eq(first, row))
    }

    /// Returns the first difference with the full content of its steps.
    fn opened(&self) -> Option<Opened> {
        let row = self.first().filter(|_| self.from == 0)?;
        let views: Vec<&RunView<'_>> = self.runs.iter().collect();
        let next = |run: usize| {
            let rows = self.comparison.rows.iter();
            let mut later = rows.skip(self.comparison.first.unwrap_or_default());
            later.find_map(|row| row.steps.get(run).copied().flatten())
        };
        Some(Opened::new(&views, &row.steps, &next))
    }

    /// Returns the rows of the window and the row after it.
    fn window(&self) -> (Vec<Shown<'_>>, usize) {
        let mut shown = Vec::new();
        let (mut at, mut left) = (self.from.min(self.total()), ROW_ELEMENTS_OF_SEVERAL);
        while let Some(row) = self.comparison.rows.get(at) {
            let rest = self.comparison.rows.get(at..).unwrap_or_default();
            let equal = rest.iter().take_while(|row| self.is_hidden(row)).count();
            // The link to equal rows takes three elements.
            let elements = if equal > 0 { 3 } else { self.elements(row) };
            if elements > left && !shown.is_empty() {
                break;
            }
            left = left.saturating_sub(elements);
            if equal > 0 {
                shown.push(Shown::Equal(at, equal));
            } else {
                shown.push(Shown::Row(row));
            }
            at += equal.max(1);
        }
        (shown, at)
    }

    fn rows(&self) -> Vec<Shown<'_>> {
        self.window().0
    }

    fn is_hidden(&self, row: &RowOfSeveral) -> bool {
        row.same && !self.all
    }

    fn elements(&self, row: &RowOfSeveral) -> usize {
        let steps = self.runs.iter().zip(&row.steps);
        elements(steps.map(|(view, n)| step_at(view, *n)))
    }

    /// Returns the address of the rows from `from`.
    fn address(&self, from: usize, all: bool) -> String {
        let keys: Vec<&str> = self.runs.iter().map(RunView::key).collect();
        href::compare_from(&keys, Some(from).filter(|from| *from > 0), all)
    }

    fn equal(&self) -> usize {
        self.comparison.rows.iter().filter(|row| row.same).count()
    }

    /// Links to earlier and later rows, and to the rows that are hidden or shown.
    fn pages(&self) -> Vec<Link> {
        let mut pages = Vec::new();
        if self.from > 0 {
            let rows = self.comparison.rows.get(..self.from).unwrap_or_default();
            let elements = rows.iter().rev().map(|row| match self.is_hidden(row) {
                true => 0,
                false => self.elements(row),
            });
            let before = self
                .from
                .saturating_sub(fitting(elements, ROW_ELEMENTS_OF_SEVERAL));
            pages.push(Link::new("Earlier rows", self.address(before, self.all)));
        }
        let next = self.window().1;
        if next < self.total() {
            pages.push(Link::new("Later rows", self.address(next, self.all)));
        }
        if self.all && self.equal() > 0 {
            pages.push(Link::new("Hide equal steps", self.address(0, false)));
        }
        pages
    }
}

pub(crate) struct Two<'a> {
    pub a: &'a RunView<'a>,
    pub b: &'a RunView<'a>,
    pub comparison: Comparison,
    /// The first row of the requested window.
    from: Option<usize>,
}

impl Two<'_> {
    fn total(&self) -> usize {
        self.comparison.rows.len()
    }

    fn first(&self) -> Option<&Row> {
        self.comparison.rows.get(self.comparison.first?)
    }

    fn lockstep(&self, at: usize) -> String {
        href::lockstep(self.a.key(), self.b.key(), at)
    }

    /// Returns the first row of the requested window, clamped to the existing rows.
    fn window(&self) -> Option<usize> {
        self.from
            .map(|from| from.min(self.total().saturating_sub(1)))
    }

    /// Returns the text next to the title: how rows are aligned, or which ones are shown.
    fn about(&self) -> String {
        let Some(from) = self.window() else {
            return match self.first() {
                Some(_) => "aligned by action and arguments".to_owned(),
                None => String::new(),
            };
        };
        let last = (from + self.shown(from))
            .min(self.total())
            .saturating_sub(1);
        let shown = format::range(from as u64, last as u64);
        format!(
            "aligned steps {shown} of {}",
            format::count(self.total() as u64)
        )
    }

    /// Whether a line of either run can't be read, so that it isn't compared.
    fn has_unreadable(&self) -> bool {
        self.comparison
            .rows
            .iter()
            .any(|row| row.relation == Relation::Unreadable)
    }

    /// Returns the number of rows before the first difference.
    fn common(&self) -> usize {
        self.comparison.first.unwrap_or(self.total())
    }

    /// Returns the title of the rows before the first difference.
    fn before_title(&self) -> &'static str {
        if self.first().is_some() {
            "Steps before the first difference"
        } else {
            "Aligned steps"
        }
    }

    /// Returns how many rows from `from` on are shown.
    fn after(&self, from: usize, most: usize) -> usize {
        let rows = self.comparison.rows.get(from..).unwrap_or_default();
        fitting(rows.iter().map(|row| self.elements(row)), most)
    }

    /// Returns how many rows before `end` are shown.
    fn before(&self, end: usize, most: usize) -> usize {
        let rows = self.comparison.rows.get(..end).unwrap_or_default();
        fitting(rows.iter().rev().map(|row| self.elements(row)), most).min(end)
    }

    fn elements(&self, row: &Row) -> usize {
        let steps = [step_at(self.a, row.pair.a), step_at(self.b, row.pair.b)];
        elements(steps.into_iter())
    }

    /// Returns how many rows before the first difference are shown. Without a difference, there's
    /// nothing after them.
    fn common_shown(&self) -> usize {
        let most = match self.first() {
            Some(_) => BEFORE_ELEMENTS,
            None => ROW_ELEMENTS,
        };
        self.before(self.common(), most)
    }

    /// Returns how many rows from `from` on are shown after the first difference, or in the requested
    /// window.
    fn shown(&self, from: usize) -> usize {
        let most = match self.from {
            Some(_) => ROW_ELEMENTS,
            None => ROW_ELEMENTS - BEFORE_ELEMENTS,
        };
        self.after(from, most)
    }

    /// Returns the rows shown before the first difference.
    fn rows_before(&self) -> Vec<(usize, &Row)> {
        if self.from.is_some() {
            Vec::new()
        } else {
            self.rows(self.common() - self.common_shown()..self.common())
        }
    }

    /// Returns the first difference with the full content of both steps.
    fn opened(&self) -> Option<Opened> {
        let row = self.first().filter(|_| self.from.is_none())?;
        Some(opened(&self.comparison, row, self.a, self.b))
    }

    /// Returns the rows after the first difference, or those of the requested window.
    fn rows_after(&self) -> Vec<(usize, &Row)> {
        let from = self
            .window()
            .or(self.comparison.first.map(|first| first + 1))
            .unwrap_or(self.total());
        self.rows(from..from + self.shown(from))
    }

    fn rows(&self, range: Range<usize>) -> Vec<(usize, &Row)> {
        self.comparison
            .rows
            .iter()
            .enumerate()
            .skip(range.start)
            .take(range.len())
            .collect()
    }

    /// Links to earlier rows, the first difference, and later rows, if they exist.
    fn pages(&self) -> Vec<Link> {
        let page = |label: String, at| {
            let keys = [self.a.key(), self.b.key()];
            Link::new(label, href::compare_from(&keys, at, false))
        };
        let rows = |rows: usize| format::counted(rows, "row");
        let total = self.total();
        let mut pages = Vec::new();
        if let Some(from) = self.window() {
            pages.extend((from > 0).then(|| {
                page(
                    "Earlier rows".to_owned(),
                    Some(from - self.before(from, ROW_ELEMENTS)),
                )
            }));
            pages.push(page("First difference".to_owned(), None));
            let end = from + self.shown(from);
            pages.extend((end < total).then(|| page("Later rows".to_owned(), Some(end))));
            return pages;
        }
        let hidden = self.common() - self.common_shown();
        if hidden > 0 {
            pages.push(page(
                format!("{} earlier", rows(hidden)),
                Some(hidden - self.before(hidden, ROW_ELEMENTS)),
            ));
        }
        let after = self.common() + 1;
        let after = after + self.shown(after);
        if after < total {
            pages.push(page(format!("{} later", rows(total - after)), Some(after)));
        }
        pages
    }

    /// Names the steps of a row: `step 5`, or `step 5 of A, step 7 of B`.
    fn words(&self, row: &Row) -> String {
        match (
            row.pair.a.map(|n| self.a.label(n)),
            row.pair.b.map(|n| self.b.label(n)),
        ) {
            (Some(one), Some(other)) if one == other => format!("step {one}"),
            (Some(one), Some(other)) => format!("step {one} of A, step {other} of B"),
            (Some(one), None) => format!("step {one} of A"),
            (None, Some(other)) => format!("step {other} of B"),
            (None, None) => "no step".to_owned(),
        }
    }

    /// Describes the tools that the common steps call, and the differences within those steps.
    fn common_words(&self) -> String {
        let rows = self
            .comparison
            .rows
            .get(..self.common())
            .unwrap_or_default();
        let mut tools: Vec<&str> = Vec::new();
        for step in rows.iter().filter_map(|row| step_at(self.a, row.pair.a)) {
            for tool in step.tools().map(|tool| self.a.index.name(tool)) {
                if !tools.contains(&tool) {
                    tools.push(tool);
                }
            }
        }
        let more = if tools.len() > MAX_TOOLS { ", …" } else { "" };
        tools.truncate(MAX_TOOLS);
        let mut parts = vec![format!("{}{more}", tools.join(", "))];
        let of_a: Vec<_> = rows
            .iter()
            .filter_map(|row| step_at(self.a, row.pair.a))
            .collect();
        let of_b: Vec<_> = rows
            .iter()
            .filter_map(|row| step_at(self.b, row.pair.b))
            .collect();
        for (letter, steps) in [("A", of_a), ("B", of_b)] {
            let retried = steps
                .iter()
                .filter(|step| step.requested(CriticAction::Retry))
                .count();
            if retried > 0 {
                parts.push(format!(
                    "{letter}: retry requested in {}",
                    format::counted(retried, "step")
                ));
            }
        }
        let unlike = rows.iter().filter(|row| row.relation.differs()).count();
        if unlike > 0 {
            parts.push(format!(
                "results, critics, scores or states differ in {}",
                format::counted(unlike, "step")
            ));
        }
        parts.retain(|part| !part.is_empty());
        parts.join(" · ")
    }
}

/// Opens the steps of a row of two runs.
fn opened(comparison: &Comparison, row: &Row, a: &RunView<'_>, b: &RunView<'_>) -> Opened {
    let next = |run: usize| {
        let rest = comparison.rows.iter().skip_while(|other| *other != row);
        let step = |row: &Row| if run == 0 { row.pair.a } else { row.pair.b };
        rest.filter_map(step).next()
    };
    Opened::new(&[a, b], &[row.pair.a, row.pair.b], &next)
}

/// Reads the compared parts of a run.
fn side<'a>(view: &RunView<'a>) -> Side<'a> {
    Side::new(view.summary, view.index, view.lines)
}

fn step_at<'a>(view: &RunView<'a>, n: Option<usize>) -> Option<&'a StepHead> {
    view.index.steps().get(n?)
}

fn call(step: &StepHead) -> String {
    let words = match &*step.call {
        "" => "no decision recorded",
        call => call,
    };
    one_line(words, MAX_CALL).0
}

/// A step in a row of aligned steps.
struct Cell<'a> {
    step: &'a StepHead,
    /// What the step did, in the words of the step list.
    words: String,
}

/// Describes the steps of a row. If they did different things that the step list says alike, each ends
/// with the part of its call that differs.
fn cells<'a>(steps: &[(&RunView<'a>, Option<usize>)], is_same: bool) -> Vec<Option<Cell<'a>>> {
    let cell = |(view, n): &(&RunView<'a>, Option<usize>)| {
        let step = step_at(view, *n)?;
        let words = in_words(view, (*n)?)?;
        let words = one_line(&words, MAX_CALL).0;
        Some(Cell { step, words })
    };
    let mut cells: Vec<Option<Cell<'_>>> = steps.iter().map(cell).collect();
    let mut said = cells.iter().flatten().map(|cell| cell.words.as_str());
    let first = said.next();
    let (mut others, mut differs) = (0, false);
    for words in said {
        others += 1;
        differs |= Some(words) != first;
    }
    // A step of one run alone has nothing to differ from.
    if is_same || differs || others == 0 {
        return cells;
    }
    let relative = |(view, n): &(&RunView<'a>, Option<usize>)| {
        let project = view.summary.project.as_deref().unwrap_or_default();
        let call = step_at(view, *n)?.call.replace('\n', " ");
        Some(relative_in_text(&call, project).as_str().to_owned())
    };
    let calls: Vec<Option<String>> = steps.iter().map(relative).collect();
    let known: Vec<&str> = calls.iter().flatten().map(String::as_str).collect();
    let common = common_start(&known);
    for (cell, call) in cells.iter_mut().zip(&calls) {
        let rest = call.as_deref().and_then(|call| from_argument(call, common));
        if let (Some(cell), Some(rest)) = (cell, rest) {
            let words = format!("{} … {rest}", cell.words);
            cell.words = one_line(&words, MAX_CALL).0;
        }
    }
    cells
}

/// Returns how many bytes all texts have in common at their start.
fn common_start(texts: &[&str]) -> usize {
    let Some((first, others)) = texts.split_first() else {
        return 0;
    };
    let same = |other: &&str| {
        let pairs = first.char_indices().zip(other.chars());
        let differs = pairs.into_iter().find(|((_, one), two)| one != two);
        differs.map_or(first.len().min(other.len()), |((at, _), _)| at)
    };
    others.iter().map(same).min().unwrap_or(0)
}

/// Returns the end of a call from the argument that contains byte `at`, or from a few characters before
/// it in a long argument. `None` if the call ends there.
fn from_argument(call: &str, at: usize) -> Option<&str> {
    /// Bytes before the difference that are shown at most.
    const BEFORE: usize = 24;
    let known = call.get(..at)?;
    let rest = call.get(at..)?;
    if rest.trim_end_matches([')', '"', '…']).is_empty() {
        return None;
    }
    let start = known.rfind([',', '(']).map_or(0, |comma| comma + 1);
    let near = match at - start > BEFORE {
        true => (at - BEFORE..=at).find(|at| call.is_char_boundary(*at))?,
        false => start,
    };
    call.get(near..).map(str::trim_start)
}

/// Describes the two steps of a row.
fn cells_of_two<'a>(two: &Two<'a>, row: &Row) -> Vec<Option<Cell<'a>>> {
    let steps = [(two.a, row.pair.a), (two.b, row.pair.b)];
    cells(&steps, !row.relation.is_divergence())
}

/// Describes the steps of a row of several runs.
fn cells_of_several<'a>(runs: &[RunView<'a>], row: &RowOfSeveral) -> Vec<Option<Cell<'a>>> {
    let steps: Vec<_> = runs.iter().zip(row.steps.iter().copied()).collect();
    cells(&steps, !row.is_divergence())
}

/// Returns the title for the summary of a run.
fn card_title(summary: &Summary) -> Phrase {
    Phrase::coded(&one_line(summary.title(), MAX_CARD_TITLE).0)
}

/// Returns the task of a run, without the title that it begins with. `None` if it says no more.
fn beyond_title(summary: &Summary) -> Option<&str> {
    let task = summary.task.as_deref()?.trim();
    let title = summary.title().trim();
    // A long title isn't shown whole.
    if !one_line(title, MAX_CARD_TITLE).1 {
        return Some(task);
    }
    let rest = task.strip_prefix(title).unwrap_or(task).trim_start();
    let is_same = || {
        let words = task.split_whitespace();
        words.eq(title.split_whitespace())
    };
    (!rest.is_empty() && !is_same()).then_some(rest)
}

/// Returns `5`, or `A 5 · B 7` if the two steps of the row have different labels.
fn label(row: &Row, a: &RunView<'_>, b: &RunView<'_>) -> String {
    match (
        row.pair.a.map(|n| a.label(n)),
        row.pair.b.map(|n| b.label(n)),
    ) {
        (Some(one), Some(other)) if one != other => format!("A\u{a0}{one} · B\u{a0}{other}"),
        (one, other) => one.or(other).unwrap_or_default(),
    }
}

/// Returns `5`, or the labels of all steps of the row if they differ: `A 5 · C 7`.
fn labels(row: &RowOfSeveral, runs: &[RunView<'_>]) -> String {
    let steps = runs.iter().zip(&row.steps);
    let labels: Vec<(usize, String)> = steps
        .enumerate()
        .filter_map(|(run, (view, n))| Some((run, view.label((*n)?))))
        .collect();
    match labels.as_slice() {
        [] => String::new(),
        [(_, first), rest @ ..] if rest.iter().all(|(_, label)| label == first) => first.clone(),
        _ => {
            let named = labels
                .iter()
                .map(|(run, label)| format!("{}\u{a0}{label}", letter(*run)));
            named.collect::<Vec<_>>().join(" · ")
        }
    }
}

/// Formats a setting as text, if it is recorded.
fn value(json: Option<&String>) -> Option<Block> {
    let json = json?;
    let plain = serde_json::from_str::<String>(json).unwrap_or_else(|_| json.clone());
    let plain = if plain.is_empty() { "\"\"" } else { &plain };
    Some(Block::beginning(plain, MAX_VALUE_LINES, MAX_VALUE))
}

/// Lists the names of equal settings, up to [`MAX_DIFFERS`].
fn equal_names(config: &Config<SettingOfSeveral>) -> String {
    let shown = config.equal.get(..MAX_DIFFERS).unwrap_or(&config.equal);
    match config.equal.len() - shown.len() {
        0 => shown.join(", "),
        more => format!(
            "{} and {} more",
            shown.join(", "),
            format::count(more as u64)
        ),
    }
}

/// The page that shows two runs row by row.
#[derive(Template)]
#[template(path = "compare/lockstep.html")]
pub(crate) struct LockstepPage<'a> {
    pub shell: Shell,
    pub a: &'a RunView<'a>,
    pub b: &'a RunView<'a>,
    pub comparison: Comparison,
    /// The displayed row, counted from 0.
    pub at: usize,
    pub relation: Relation,
    pub opened: Opened,
}

impl LockstepPage<'_> {
    fn to(&self, at: usize) -> String {
        href::lockstep(self.a.key(), self.b.key(), at)
    }

    fn last(&self) -> usize {
        self.comparison.rows.len().saturating_sub(1)
    }

    /// Returns the next row where the runs diverge.
    fn next_difference(&self) -> Option<usize> {
        let rows = self.comparison.rows.iter().enumerate().skip(self.at + 1);
        rows.into_iter()
            .find(|(_, row)| row.relation.is_divergence())
            .map(|(at, _)| at)
    }
}

/// Limits the labels below a chart.
const MAX_TICKS: usize = 10;

/// Overlays the scores of two runs by aligned row. Returns `None` if no critic gave a score.
fn of_two(comparison: &Comparison, a: &RunView<'_>, b: &RunView<'_>) -> Option<Overlay> {
    let rows = &comparison.rows;
    let place_of = |view: &RunView<'_>, of_a: bool| {
        let mut places = vec![0.0; view.index.steps().len()];
        for (at, row) in rows.iter().enumerate() {
            let n = if of_a { row.pair.a } else { row.pair.b };
            if let Some(place) = n.and_then(|n| places.get_mut(n)) {
                *place = share(at, rows.len());
            }
        }
        move |n: usize| places.get(n).copied().unwrap_or_default()
    };
    let all = [series(a.index, None), series(b.index, None)];
    let [one, other] = &all;
    let sources = [
        Source::new(a, one, place_of(a, true)),
        Source::new(b, other, place_of(b, false)),
    ];
    let ticks = ticks(rows.len(), |at| Some(label(rows.get(at)?, a, b)));
    let title = "Lowest critic score per step, A and B".to_owned();
    let some = all.iter().any(|series| !series.points.is_empty());
    some.then(|| {
        Overlay::lines(
            title,
            Axis {
                name: "aligned step",
                ticks,
                ends: None,
            },
            &sources,
            None,
        )
    })
}

/// Overlays the scores of several runs by step. Returns `None` if no critic gave a score.
fn of_many(views: &[RunView<'_>]) -> Option<Overlay> {
    let all: Vec<Series> = views.iter().map(|view| series(view.index, None)).collect();
    all.iter().find(|series| !series.points.is_empty())?;
    let longest = all.iter().map(|series| series.steps).max()?;
    let axis = Axis {
        name: "step",
        ticks: ticks(longest, |at| Some(at.to_string())),
        ends: None,
    };
    let title = "Lowest critic score per step";
    let mut sources = views
        .iter()
        .zip(&all)
        .map(|(view, series)| Source::new(view, series, |n| share(n, longest)));
    if views.len() <= MAX_LINES {
        return Some(Overlay::lines(
            title.to_owned(),
            axis,
            &sources.collect::<Vec<_>>(),
            None,
        ));
    }
    let title = format!("{title}, {} runs", all.len());
    let band = Overlay::band(
        title,
        axis,
        sources.next().as_ref(),
        &all,
        false,
        (VisibleRange::WHOLE, None),
    );
    Some(Overlay {
        caption: BAND.to_owned(),
        ..band
    })
}

/// Returns the position of row `at` of `rows` as a fraction of the width.
fn share(at: usize, rows: usize) -> f64 {
    at as f64 / rows.saturating_sub(1).max(1) as f64
}

fn ticks(rows: usize, label: impl Fn(usize) -> Option<String>) -> Vec<(f64, String)> {
    let every = rows.div_ceil(MAX_TICKS).max(1);
    (0..rows)
        .step_by(every)
        .filter_map(|at| Some((share(at, rows), label(at)?)))
        .collect()
}

/// The address of the pulse.
const PULSE: &str = "/live/compare";

/// The runs that an address names: up to six as `a`, `b`, `c` and so on, or any number as `run`.
struct Request {
    runs: Vec<Arc<Run>>,
    place: Place,
}

/// Parses the request. If it names fewer than two runs, the user still has to choose.
fn request(state: &AppState, params: &Params) -> Result<Request, WebError> {
    let mut keys: Vec<String> = href::SIDE_PARAMS
        .iter()
        .map(|name| params.text(name).to_owned())
        .collect();
    keys.extend(params.all("run").unwrap_or_default());
    keys.retain(|key| !key.is_empty());
    if keys.len() > 2 {
        let mut known = HashSet::new();
        keys.retain(|key| known.insert(key.clone()));
    }
    if keys.len() > MAX_RUNS {
        let detail = format!("Compare at most {MAX_RUNS} runs at once.");
        return Err(WebError::bad_request("Too many runs:", &detail).named(&keys.len().to_string()));
    }
    let run = |key: &String| {
        state
            .library
            .run(key)
            .ok_or_else(|| no_such_run(state, key).link("Choose runs", href::compare("", "")))
    };
    Ok(Request {
        runs: keys.iter().map(run).collect::<Result<_, _>>()?,
        place: Place {
            from: params.number("from")?,
            all: params.text("all") == "1",
            setting: params.number("setting")?.unwrap_or_default(),
        },
    })
}

/// Runs `show` on a blocking thread with the current state of the runs.
pub(crate) async fn with_views<T: Send + 'static>(
    state: &AppState,
    runs: Vec<Arc<Run>>,
    show: impl FnOnce(&[RunView<'_>]) -> Result<T, WebError> + Send + 'static,
) -> Result<T, WebError> {
    let zone = state.zone.clone();
    let shown = blocking(move || {
        let read: Vec<_> = runs
            .iter()
            .map(|run| (run.summary(), run.index(), run))
            .collect();
        let views: Vec<RunView<'_>> = read
            .iter()
            .map(|(summary, index, run)| RunView {
                summary,
                index,
                lines: &***run,
                now: now(),
                stale: None,
                related_runs: &Vec::new,
                zone: &zone,
                editor: None,
                files: &|| Some(0),
            })
            .collect();
        show(&views)
    });
    shown.await.flatten()
}

fn shell(state: &AppState, runs: &[Arc<Run>], title: String) -> Shell {
    let alive = runs
        .iter()
        .any(|run| run.summary().life.liveness.may_grow());
    Shell {
        title,
        stream: alive.then(|| "/events".to_owned()),
        revision: *state.library.revision().borrow(),
        ..state.shell(NavItem::Compare)
    }
}

fn title(runs: &[Arc<Run>]) -> String {
    let summaries: Vec<Arc<Summary>> = runs.iter().map(|run| run.summary()).collect();
    match summaries.as_slice() {
        [] | [_] => "Compare".to_owned(),
        runs => format!(
            "Compare {}",
            heading(&runs.iter().map(|run| &**run).collect::<Vec<_>>())
        ),
    }
}

/// `GET /compare`
pub(crate) async fn page(State(state): State<AppState>, params: Params) -> Answer {
    let request = request(&state, &params)?;
    // Each comparison of two has one address, so two marked runs become A and B.
    if let ([a, b], true) = (request.runs.as_slice(), params.has("run")) {
        return Ok(
            Redirect::to(&href::compare(a.key().as_str(), b.key().as_str())).into_response(),
        );
    }
    let shell = shell(&state, &request.runs, title(&request.runs));
    if request.runs.len() < 2 {
        let choice = choice(&state, &request.runs, &params);
        return html(&ComparePage {
            shell,
            pulse: None,
            choice: Some(choice),
            body: None,
        });
    }
    let pulse = shell
        .stream
        .is_some()
        .then(|| pulse(&request, shell.revision));
    with_views(&state, request.runs, move |views| {
        html(&ComparePage {
            shell,
            pulse,
            choice: None,
            body: Some(CompareBody::new(views, request.place)),
        })
    })
    .await
}

/// Collects the runs to choose from, newest first.
fn choice(state: &AppState, chosen: &[Arc<Run>], params: &Params) -> Choice {
    let mut runs: Vec<_> = state
        .library
        .counted()
        .iter()
        .map(|run| run.summary())
        .collect();
    runs.sort_by_key(|summary| Reverse(summary.updated));
    let chosen = chosen.first().map(|run| run.summary());
    Choice {
        a: params.text("a").to_owned(),
        b: params.text("b").to_owned(),
        chosen,
        runs,
    }
}

fn pulse(request: &Request, revision: u64) -> Pulse {
    let Place { from, all, setting } = request.place;
    let from = from.map(|from| from.to_string()).unwrap_or_default();
    let setting = setting.to_string();
    let since = revision.to_string();
    let mut pairs: Vec<(&str, &str)> = request
        .runs
        .iter()
        .map(|run| ("run", run.key().as_str()))
        .collect();
    let all = if all { "1" } else { "" };
    let setting = if setting == "0" { "" } else { &setting };
    pairs.extend([
        ("from", from.as_str()),
        ("all", all),
        ("setting", setting),
        ("since", &since),
    ]);
    Pulse {
        url: href::with_query(PULSE, &pairs),
        revision,
        ..Pulse::default()
    }
}

/// `GET /live/compare`: the updated comparison, or only a pulse if no run changed.
pub(crate) async fn part(State(state): State<AppState>, params: Params) -> Answer {
    // Read before the runs, so that changes made in between trigger another request.
    let revision = *state.library.revision().borrow();
    // A run disappeared while the page was open. Reloading the page shows the error.
    let Ok(request) = request(&state, &params) else {
        return Ok(load_again());
    };
    let since = params.number("since").ok().flatten().unwrap_or_default() as u64;
    let next = pulse(&request, revision);
    if request.runs.iter().all(|run| run.revision_now() <= since) {
        return html(&next);
    }
    with_views(&state, request.runs, move |views| {
        html(&ComparePulse {
            pulse: next,
            body: CompareBody::new(views, request.place),
        })
    })
    .await
}

/// `GET /compare/replay`
pub(crate) async fn lockstep(State(state): State<AppState>, params: Params) -> Answer {
    let (request, at) = (
        request(&state, &params)?,
        params.number("at")?.unwrap_or_default(),
    );
    if request.runs.len() != 2 {
        return Ok(
            Redirect::to(&href::compare(params.text("a"), params.text("b"))).into_response(),
        );
    }
    let shell = Shell {
        stream: None,
        ..shell(&state, &request.runs, String::new())
    };
    with_views(&state, request.runs, move |views| match views {
        [a, b] => lockstep_page(shell, a, b, at),
        _ => Err(WebError::fault(&"expected exactly two runs")),
    })
    .await
}

fn lockstep_page<'a>(shell: Shell, a: &'a RunView<'a>, b: &'a RunView<'a>, at: usize) -> Answer {
    let comparison = compare(a.index, b.index);
    let (one, other, total) = (a.key(), b.key(), comparison.rows.len());
    let Some(row) = comparison.rows.get(at).copied() else {
        let has = match total {
            0 => "Neither run has any steps.".to_owned(),
            _ => format!(
                "They have {}, numbered from 0 to {}.",
                format::counted(total, "aligned step"),
                total - 1
            ),
        };
        let error =
            WebError::not_found("These runs have no aligned step", &has).named(&at.to_string());
        return Err(error.link("Open the comparison", href::compare(one, other)));
    };
    let shell = Shell {
        title: format!(
            "Aligned step {at} (0 to {}): {}",
            total - 1,
            heading(&[a.summary, b.summary])
        ),
        ..shell
    };
    let opened = opened(&comparison, &row, a, b);
    html(&LockstepPage {
        shell,
        a,
        b,
        comparison,
        at,
        relation: row.relation,
        opened,
    })
}

/// `GET /api/compare`
pub(crate) async fn api(State(state): State<AppState>, params: Params) -> Answer {
    let runs = request(&state, &params)?.runs;
    if runs.len() > MAX_ALIGNED {
        let detail = format!("Compare at most {MAX_ALIGNED} runs at once.");
        return Err(WebError::bad_request("Too many runs:", &detail).named(&runs.len().to_string()));
    }
    with_views(&state, runs, |views| {
        let sides: Vec<Side<'_>> = views.iter().map(side).collect();
        compared_runs(&sides).map_or_else(
            || {
                Err(WebError::bad_request(
                    "Two runs are required",
                    "Pass their keys as a and b.",
                ))
            },
            |compared| json(&compared),
        )
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page::tests::{Recorded, tags};

    /// A run of steps that fail, with a score each, and many settings. It differs from others from
    /// its middle on.
    fn run(letter: usize) -> Recorded {
        let step = |n: usize| {
            let tool = if n < 100 {
                "read".to_owned()
            } else {
                format!("run_{letter}")
            };
            let status = if n.is_multiple_of(3) {
                "error"
            } else {
                "success"
            };
            let action = if n.is_multiple_of(20) {
                "retry"
            } else {
                "continue"
            };
            let words: String = (0..200)
                .map(|word| format!("w{} ", word * (1 + letter)))
                .collect();
            format!(
                r#"{{"step_id": {n}, "decision": {{"mode": "act", "rationale": "{words}", "actions": [{{"name": "{tool}", "args": {{"n": {n}}}}}]}}, "actions": [{{"name": "{tool}", "args": {{"n": {n}}}}}], "action_results": [{{"status": "{status}"}}], "critic_outputs": [{{"critic_name": "V", "action": "{action}", "score": 0.5}}]}}"#
            )
        };
        let steps: String = (0..300).map(|n| step(n) + "\n").collect();
        let settings: Vec<String> = (0..300)
            .map(|n| format!(r#""setting_{n}": "{}""#, n * letter))
            .collect();
        let manifest = format!(
            r#"{{"run_id": "{letter}", "run_meta": {{{}}}}}"#,
            settings.join(", ")
        );
        Recorded::files([("steps.jsonl", &*steps), ("manifest.json", &manifest)])
    }

    /// The steps and settings that aren't shown are behind links.
    #[test]
    fn a_comparison_of_long_runs_stays_small() {
        let runs: Vec<Recorded> = (0..6).map(run).collect();
        for count in [2, 6] {
            let views: Vec<RunView<'_>> = runs.iter().take(count).map(Recorded::view).collect();
            for place in [
                Place::default(),
                Place {
                    from: Some(120),
                    all: true,
                    setting: 20,
                },
            ] {
                let body = CompareBody::new(&views, place);
                assert!(
                    body.config.differs.len() > 200,
                    "{}",
                    body.config.differs.len()
                );
                let pages = body.settings_pages();
                assert_eq!(pages.len(), if place.setting > 0 { 2 } else { 1 });
                let html = body.render().unwrap();
                let elements = tags(&html).len();
                assert!(elements <= 1_380, "{elements} elements of {count} runs");
                assert!(html.contains("later") || html.contains("Later"), "{html}");
            }
        }
    }
}
