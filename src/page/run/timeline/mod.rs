//! Shows when things happened: steps, their phases and calls, and the runs that they started, on
//! one time scale.
//!
//! A page holds a window of steps, one line each. Below a step, each run that it started has a
//! line. Long gaps without a known event are cut from the scale and marked. Times that aren't
//! recorded aren't drawn.

mod scale;

use askama::Template;
use askama::filters::HtmlSafe;

use crate::analysis::format;
use crate::analysis::timing::{Stretch, began, stretches, took};
use crate::model::index::Group;
use crate::page::part::sign::Link;
use crate::page::part::{href, text};
use crate::page::run::marks::{class_of, rect};
use crate::page::run::timeline::scale::Scale;
use crate::page::run_view::{RunView, micros, phase};

/// Steps per page, and runs that one step started, at most.
const STEPS: usize = 50;
const CHILDREN: usize = 10;
/// The height of a line. The style sheet has the same number.
const LINE: usize = 28;
/// The top and height of the phases within their line, and of all calls together.
const PHASES: (f64, f64) = (6.0, 9.0);
const CALLS: (f64, f64) = (17.0, 8.0);
/// Calls of a step that get a bar, at most.
const MAX_CALLS: usize = 4;
/// The width of the picture.
const WIDTH: f64 = 1_000.0;

/// The timeline of a run (`#timeline`).
#[derive(Template)]
#[template(path = "run/timeline.html")]
pub(crate) struct Timeline<'a> {
    view: &'a RunView<'a>,
    first: usize,
    end: usize,
    rows: Vec<Row>,
    /// The class and path of each group of bars.
    paths: Vec<(&'static str, String)>,
    /// The class and name of the phases in the picture.
    legend: Vec<(&'static str, String)>,
    /// `None` if no time is known.
    scale: Option<Scale>,
    has_calls: bool,
    has_children: bool,
}

impl HtmlSafe for Timeline<'_> {}

/// A line of the timeline.
#[derive(Debug, Default)]
struct Row {
    href: String,
    name: String,
    words: String,
    /// Whether the line is another run.
    is_child: bool,
    is_current: bool,
    /// Whether the line is a step copied from another run.
    is_copy: bool,
    began: String,
    took: String,
    /// The phases or calls, with their durations.
    parts: String,
    span: Option<(i64, i64)>,
    phases: Vec<(String, &'static str, i64, i64)>,
    calls: Vec<(i64, i64)>,
}

impl<'a> Timeline<'a> {
    /// Shows the window of steps around `read`, or the last one.
    pub(crate) fn new(view: &'a RunView<'a>, read: Option<usize>) -> Self {
        let total = view.index.steps().len();
        let end = read
            .map_or(total, |n| (n + STEPS / 2).max(STEPS))
            .min(total);
        let first = end.saturating_sub(STEPS);
        let mut rows = Vec::new();
        let children = view.children();
        for n in first..end {
            rows.push(step(view, n, read == Some(n)));
            let own = children
                .iter()
                .filter(|(_, step)| *step == Some(n))
                .take(CHILDREN);
            rows.extend(own.map(|(child, _)| {
                let started = child.started;
                let took = child.duration_ms.map(|ms| (ms * 1e3) as i64);
                Row {
                    href: href::run(child.key.as_str()),
                    name: child.key.name().to_owned(),
                    words: child.verdict.sentence.to_string(),
                    is_child: true,
                    began: view.offset(started).to_string(),
                    took: format::or_missing(took, micros),
                    span: started
                        .zip(took)
                        .map(|(from, took)| (from, from + took.max(0))),
                    ..Row::default()
                }
            }));
        }
        let unfinished = view.index.unfinished_group().filter(|_| end == total);
        rows.extend(
            unfinished
                .and_then(|at| view.index.groups().get(at))
                .map(|group| {
                    let words = if view.is_alive() {
                        "in progress"
                    } else {
                        "never finished"
                    };
                    Row {
                        href: view.at_pending(),
                        words: words.to_owned(),
                        ..round(view, group)
                    }
                }),
        );
        let spans: Vec<(i64, i64)> = rows.iter().filter_map(|row| row.span).collect();
        let mut timeline = Self {
            view,
            first,
            end,
            has_children: rows.iter().any(|row| row.is_child),
            has_calls: rows.iter().any(|row| !row.calls.is_empty()),
            scale: Scale::over(&spans, view.zero().unwrap_or_default(), WIDTH),
            rows,
            paths: Vec::new(),
            legend: Vec::new(),
        };
        timeline.draw();
        timeline
    }

    fn draw(&mut self) {
        let Some(scale) = &self.scale else { return };
        for (line, row) in self.rows.iter().enumerate() {
            let top = (line * LINE) as f64;
            let mut bar = |class, from: i64, to: i64, y: f64, height: f64| {
                let x = scale.x(from);
                // Bars without a duration must be visible too.
                rect(
                    &mut self.paths,
                    class,
                    x,
                    top + y,
                    (scale.x(to) - x).max(1.5),
                    height,
                );
            };
            let Some((from, to)) = row.span else { continue };
            if row.is_child {
                bar("f-accent", from, to, 8.0, 12.0);
                continue;
            }
            bar("f-track", from, to, PHASES.0, PHASES.1);
            for (name, class, from, to) in &row.phases {
                bar(class_of(class), *from, *to, PHASES.0, PHASES.1);
                if !self.legend.iter().any(|(_, known)| known == name) {
                    self.legend.push((class, name.clone()));
                }
            }
            let height = CALLS.1 / row.calls.len().max(1) as f64;
            for (at, (from, to)) in row.calls.iter().enumerate() {
                bar(
                    "f-ink",
                    *from,
                    *to,
                    CALLS.0 + height * at as f64,
                    (height - 1.0).min(3.0),
                );
            }
        }
    }

    fn height(&self) -> usize {
        self.rows.len() * LINE
    }

    fn total(&self) -> usize {
        self.view.index.steps().len()
    }

    fn link(&self, label: &str, n: usize) -> Link {
        let run = href::run(self.view.key());
        Link::new(
            label,
            href::with_query(&run, &[("tab", "timeline"), ("step", &n.to_string())]),
        )
    }

    fn earlier(&self) -> Option<Link> {
        (self.first > 0)
            .then(|| self.link("earlier steps", self.first.saturating_sub(STEPS / 2 + 1)))
    }

    fn later(&self) -> Option<Link> {
        (self.end < self.total())
            .then(|| self.link("later steps", (self.end + STEPS / 2).min(self.total() - 1)))
    }

    /// Returns the heading: `Steps 0–49 (300 steps)`.
    fn title(&self) -> String {
        match self.end.checked_sub(1) {
            Some(last) if self.first < self.end => format!(
                "Steps {}–{} ({})",
                self.view.label(self.first),
                self.view.label(last),
                format::counted(self.total(), "step")
            ),
            _ => self.view.no_step().to_owned(),
        }
    }

    /// States that steps of this window were copied from another run. May be empty.
    fn copied(&self) -> String {
        let copied = Some(self.view.summary.copied_steps()).filter(|copied| self.first < *copied);
        copied.map_or_else(String::new, |copied| {
            let which = if copied == 1 {
                "The first step was".to_owned()
            } else {
                format!("The first {} steps were", format::count(copied as u64))
            };
            let zero = self.view.zero().unwrap_or_default();
            let is_early = |row: &&Row| row.span.is_some_and(|(from, _)| from < zero);
            let copies = || self.rows.iter().filter(|row| row.is_copy);
            let own = self.rows.iter().find(|row| !row.is_copy && !row.is_child);
            let more = match own.map(|row| &*row.began) {
                _ if copies().any(|row| is_early(&row)) => {
                    " Times before 0 belong to that run.".to_owned()
                }
                Some(began) if !began.is_empty() => {
                    format!(" This run's own steps start at {began}.")
                }
                _ => String::new(),
            };
            format!("{which} copied from another run.{more}")
        })
    }

    /// States how many lines have no time. May be empty.
    fn untimed(&self) -> String {
        match self.rows.iter().filter(|row| row.span.is_none()).count() {
            0 => String::new(),
            _ if self.scale.is_none() => String::new(),
            1 => "1 row has no recorded time".to_owned(),
            untimed => format!("{} have no recorded time", format::counted(untimed, "row")),
        }
    }
}

/// Builds the row of a step, with its phases and calls.
fn step(view: &RunView<'_>, n: usize, is_current: bool) -> Row {
    let (index, group) = (view.index, view.index.round_of(n));
    let Some(step) = index.steps().get(n) else {
        return Row::default();
    };
    let known = group.map(|group| round(view, group)).unwrap_or_default();
    let act = group.and_then(|group| {
        stretches(index, group)
            .into_iter()
            .find(|stretch| index.name(stretch.phase) == "ACT")?
            .started
    });
    // Calls have a recorded duration but no start time.
    let timed = step
        .calls
        .iter()
        .filter_map(|call| Some((call, call.ms()?)));
    let calls = act.map(|act| {
        timed
            .clone()
            .take(MAX_CALLS)
            .map(|(_, ms)| (act, act + (f64::from(ms) * 1e3) as i64))
            .collect()
    });
    let called = timed.map(|(call, ms)| {
        format!(
            "{} {}",
            index.name(call.name),
            format::millis(f64::from(ms))
        )
    });
    let parts: Vec<String> = Some(known.parts)
        .filter(|parts| !parts.is_empty())
        .into_iter()
        .chain(called)
        .collect();
    Row {
        href: view.at_step(n),
        name: view.label(n),
        words: step.call.to_string(),
        is_current,
        is_copy: n < view.summary.copied_steps(),
        parts: parts.join(", "),
        calls: calls.unwrap_or_default(),
        ..known
    }
}

/// Builds a row from the events of a round alone.
fn round(view: &RunView<'_>, group: &Group) -> Row {
    let index = view.index;
    let (from, lasted) = (began(index, group), took(group));
    let known = |stretch: &Stretch| {
        let (class, name) = phase(index.name(stretch.phase));
        Some((
            name,
            class,
            stretch.started?,
            stretch.started? + stretch.micros?,
        ))
    };
    let phases: Vec<_> = stretches(index, group).iter().filter_map(known).collect();
    let words: Vec<String> = phases
        .iter()
        .map(|(name, _, from, to)| format!("{name} {}", micros(to - from)))
        .collect();
    Row {
        name: group
            .step_id
            .map_or_else(|| "–".to_owned(), |id| id.to_string()),
        began: view.offset(from).to_string(),
        took: format::or_missing(lasted, micros),
        parts: words.join(", "),
        span: from.zip(lasted).map(|(from, lasted)| (from, from + lasted)),
        phases: if from.is_some() { phases } else { Vec::new() },
        ..Row::default()
    }
}
