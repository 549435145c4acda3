//! Lists steps with their recorded times: start, duration, phases and calls. A page holds a window of
//! them.

use crate::analysis::format;
use crate::analysis::timing::{Stretch, began, stretches, took};
use crate::model::index::Group;
use crate::page::part::sign::Link;
use crate::page::part::text::{self, Line};
use crate::page::run::timeline::shown::Shown;
use crate::page::run_view::{RunView, micros, phase};

/// Steps per page.
const STEPS: usize = 20;

/// A window of steps with their times.
#[derive(Debug)]
pub(super) struct Rows {
    /// `Steps 0–19 (300 steps)`.
    pub title: String,
    pub rows: Vec<Row>,
    pub earlier: Option<Link>,
    pub later: Option<Link>,
}

/// A step with its times.
#[derive(Debug, Default)]
pub(super) struct Row {
    pub href: String,
    pub name: Line,
    pub words: Line,
    pub is_current: bool,
    pub began: String,
    pub took: String,
    /// The phases and calls, with their durations.
    pub parts: Line,
}

impl Rows {
    /// Lists the steps around the current one, or the last ones.
    pub(super) fn new(view: &RunView<'_>, shown: &Shown) -> Self {
        let total = view.index.steps().len();
        let end = shown
            .step
            .map_or(total, |n| (n + STEPS / 2).max(STEPS))
            .min(total);
        let first = end.saturating_sub(STEPS);
        let mut rows: Vec<Row> = (first..end)
            .map(|n| step(view, n, shown.step == Some(n)))
            .collect();
        let open = view.index.unfinished_group().filter(|_| end == total);
        let open = open.and_then(|at| view.index.groups().get(at));
        rows.extend(open.map(|group| Row {
            href: view.at_pending(),
            words: if view.is_alive() {
                "in progress".into()
            } else {
                "never finished".into()
            },
            ..round(view, group)
        }));
        let link = |label: &str, n: usize| {
            let shown = Shown {
                step: Some(n),
                ..shown.clone()
            };
            Link::new(
                label.to_owned(),
                format!("{}#allsteps", shown.address(view.key())),
            )
        };
        let title = match end.checked_sub(1) {
            Some(last) if first < end => format!(
                "Steps {}–{} · {}",
                view.label(first),
                view.label(last),
                format::counted(total, "step")
            ),
            _ => view.no_step().to_owned(),
        };
        Self {
            title,
            rows,
            earlier: (first > 0).then(|| link("earlier steps", first.saturating_sub(STEPS / 2))),
            later: (end < total).then(|| link("later steps", (end + STEPS / 2).min(total - 1))),
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
    let called = step.calls.iter().filter_map(|call| {
        let ms = f64::from(call.ms()?);
        Some(format!("{} {}", index.name(call.name), format::millis(ms)))
    });
    let parts: Vec<String> = Some(known.parts.as_str().to_owned())
        .filter(|parts| !parts.is_empty())
        .into_iter()
        .chain(called)
        .collect();
    let copied = if n < view.summary.copied_steps() {
        "copied: "
    } else {
        ""
    };
    Row {
        href: view.at_step(n),
        name: view.label(n).into(),
        words: format!("{copied}{}", text::one_line(&step.call, 80).0).into(),
        is_current,
        parts: parts.join(", ").into(),
        ..known
    }
}

/// Builds a row from the events of a round alone.
fn round(view: &RunView<'_>, group: &Group) -> Row {
    let index = view.index;
    let (from, lasted) = (began(index, group), took(group));
    let words = |stretch: &Stretch| {
        let name = phase(index.name(stretch.phase)).1;
        Some(format!("{name} {}", micros(stretch.micros?)))
    };
    let parts: Vec<String> = stretches(index, group).iter().filter_map(words).collect();
    let began = view.offset(from).to_string();
    Row {
        name: group
            .step_id
            .map_or_else(|| "–".to_owned(), |id| id.to_string())
            .into(),
        began: if began.is_empty() {
            "unknown".to_owned()
        } else {
            began
        },
        took: format::or_missing(lasted, micros),
        parts: parts.join(", ").into(),
        ..Row::default()
    }
}
