//! Defines the page that compares runs side by side: outcomes, the step where two runs diverge, all
//! steps aligned, settings and metrics.
//!
//! Everything below the title is a single part, `#compare`, which updates while a run is live.

pub(crate) mod handler;
pub(crate) mod json;
mod moment;
mod overlay;

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use askama::Template;
use askama::filters::HtmlSafe;

use crate::analysis::compare::{
    Comparison, Config, MAX_DIFFERS, Measure, Relation, Row, compare, measures, measures_of_two,
};
use crate::analysis::format;
use crate::analysis::summary::Summary;
use crate::model::{CriticAction, StepHead};
use crate::page::compare::json::{Side, settings};
use crate::page::compare::moment::Opened;
use crate::page::part::href;
use crate::page::part::sign::{Link, Sign};
use crate::page::part::text::{self, one_line};
use crate::page::run_view::{RunView, micros};
use crate::page::scores::overlay::{Overlay, letter};
use crate::page::shell::{Pulse, Shell, Status};

/// Limits the rows shown at once.
const WINDOW: usize = 200;
/// Limits the characters of a call in a row, an answer in the summary, and the value of a setting.
const MAX_CALL: usize = 200;
const MAX_ANSWER: usize = 160;
const MAX_VALUE: usize = 200;
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
    fn keys(&self) -> impl Iterator<Item = &str> {
        self.runs.iter().take(MAX_KEYS).map(|run| run.key.as_str())
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
    /// and its neighbours in time. Otherwise, pairs each run with the previous one of the same
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
            run.task.is_some() && run.task == chosen.task && run.key != chosen.key
        };
        let same = self.runs.iter().filter(is_same).take(MAX_LIKELY);
        let at = self.runs.iter().position(|run| run.key == chosen.key);
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
    /// The part that exists only for two runs.
    pub two: Option<Two<'a>>,
}

impl HtmlSafe for CompareBody<'_> {}

impl<'a> CompareBody<'a> {
    /// Compares `runs`. `from` is the first row of the requested window.
    pub(crate) fn new(runs: &'a [RunView<'a>], from: Option<usize>) -> Self {
        let two = if let [a, b] = runs {
            Some(Two {
                a,
                b,
                comparison: compare(a.index, b.index),
                from,
            })
        } else {
            None
        };
        Self { runs, two }
    }

    fn sentence(&self) -> String {
        let many = || {
            format!(
                "{} side by side. Steps are aligned only for two runs.",
                format::counted(self.runs.len(), "run")
            )
        };
        self.two.as_ref().map_or_else(many, |two| {
            two.comparison.sentence(two.a.index, two.b.index)
        })
    }

    /// Overlays the scores of the runs, if critics gave any.
    fn overlay(&self) -> Option<Overlay> {
        match &self.two {
            Some(two) => overlay::of_two(&two.comparison, two.a, two.b),
            None => overlay::of_many(self.runs),
        }
    }

    fn measures(&self) -> Vec<Vec<Measure>> {
        self.runs
            .iter()
            .map(|view| measures(view.summary, view.index))
            .collect()
    }
}

/// Returns the class for the letter of the run at `place`.
fn side_class(place: usize) -> &'static str {
    match place {
        0 => "side-a",
        1 => "side-b",
        _ => "side-c",
    }
}

/// Joins prose into one line, with line ends as spaces.
fn prose(text: &str) -> String {
    one_line(
        &text.split_whitespace().collect::<Vec<_>>().join(" "),
        MAX_ANSWER,
    )
    .0
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
            return "aligned by action and arguments".to_owned();
        };
        let shown = format::range(from as u64 + 1, (from + WINDOW).min(self.total()) as u64);
        format!("rows {shown} of {}", format::count(self.total() as u64))
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

    /// Returns the rows shown before the first difference.
    fn before(&self) -> Vec<(usize, &Row)> {
        if self.from.is_some() {
            Vec::new()
        } else {
            self.rows(self.common().saturating_sub(WINDOW)..self.common())
        }
    }

    /// Returns the first difference with the full content of both steps.
    fn opened(&self) -> Option<Opened> {
        let row = self.first().filter(|_| self.from.is_none())?;
        Some(Opened::new(&self.comparison, row, self.a, self.b))
    }

    /// Returns the rows after the first difference, or those of the requested window.
    fn after(&self) -> Vec<(usize, &Row)> {
        let from = self
            .window()
            .or(self.comparison.first.map(|first| first + 1))
            .unwrap_or(self.total());
        self.rows(from..from + WINDOW)
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
            Link::new(label, href::compare_from(self.a.key(), self.b.key(), at))
        };
        let rows = |rows: usize| format::counted(rows, "row");
        let total = self.total();
        let mut pages = Vec::new();
        if let Some(from) = self.window() {
            pages.extend(
                (from > 0)
                    .then(|| page("Earlier rows".to_owned(), Some(from.saturating_sub(WINDOW)))),
            );
            pages.push(page("First difference".to_owned(), None));
            pages.extend(
                (from + WINDOW < total).then(|| page("Later rows".to_owned(), Some(from + WINDOW))),
            );
            return pages;
        }
        let hidden = self.common().saturating_sub(WINDOW);
        if hidden > 0 {
            pages.push(page(
                format!("{} earlier", rows(hidden)),
                Some(hidden.saturating_sub(WINDOW)),
            ));
        }
        let after = self.common() + 1 + WINDOW;
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

    fn measures(&self) -> impl Iterator<Item = (Measure, Measure)> {
        measures_of_two(
            (self.a.summary, self.a.index),
            (self.b.summary, self.b.index),
        )
    }

    fn config(&self) -> Config {
        settings(&Side::of(self.a), &Side::of(self.b))
    }
}

fn step_at<'a>(view: &RunView<'a>, n: Option<usize>) -> Option<&'a StepHead> {
    view.index.steps().get(n?)
}

fn call(step: &StepHead) -> String {
    one_line(
        if step.call.is_empty() {
            "no decision recorded"
        } else {
            &step.call
        },
        MAX_CALL,
    )
    .0
}

/// Returns `5`, or `5 · 7` if the two steps of the row have different labels.
fn label(row: &Row, a: &RunView<'_>, b: &RunView<'_>) -> String {
    match (
        row.pair.a.map(|n| a.label(n)),
        row.pair.b.map(|n| b.label(n)),
    ) {
        (Some(one), Some(other)) if one != other => format!("{one} · {other}"),
        (one, other) => one.or(other).unwrap_or_default(),
    }
}

/// Formats a setting as text, if it is recorded.
fn value(json: Option<&String>) -> Option<String> {
    let json = json?;
    let plain = serde_json::from_str::<String>(json).unwrap_or_else(|_| json.clone());
    Some(one_line(if plain.is_empty() { "\"\"" } else { &plain }, MAX_VALUE).0)
}

/// Describes how many settings differ.
fn differing(config: &Config) -> String {
    match config.count() {
        0 => "no settings differ".to_owned(),
        1 => "1 setting differs".to_owned(),
        count => format!("{} settings differ", format::count(count as u64)),
    }
}

/// Lists the names of equal settings, up to [`MAX_DIFFERS`].
fn equal_names(config: &Config) -> String {
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
