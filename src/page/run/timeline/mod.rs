//! Shows where the time of a run went: the model, the tools, waits for the user and child runs, each
//! in a lane of one picture. Lists the slowest steps and the tools below.
//!
//! The picture is complete without scripts. `timeline.js` adds keys, a panel for the current block,
//! and zooming without a new page. Times that aren't recorded aren't drawn.

mod picture;
mod rows;
mod scale;
mod shown;
mod tables;

use askama::Template;
use askama::filters::HtmlSafe;

use crate::analysis::format;
use crate::analysis::lanes::{Lane, Lanes};
use crate::model::StepHead;
use crate::page::part::sign::Link;
use crate::page::part::text::Line;
use crate::page::run::timeline::picture::Picture;
use crate::page::run::timeline::rows::Rows;
use crate::page::run::timeline::scale::{Scale, Window};
pub(crate) use crate::page::run::timeline::shown::Shown;
use crate::page::run::timeline::tables::{Slow, ToolRow, model_lane, slowest, tools};
use crate::page::run_view::{RunView, micros};

/// The axis begins with the run if its first step begins at most so much later; microseconds.
const MAX_LEAD: i64 = 10_000_000;

/// The timeline of a run (`#timeline`).
#[derive(Template)]
#[template(path = "run/timeline.html")]
pub(crate) struct Timeline<'a> {
    view: &'a RunView<'a>,
    shown: Shown,
    legend: Vec<Legend>,
    /// `None` if no time is known.
    picture: Option<Picture>,
    notes: Vec<String>,
    slowest: Vec<Slow>,
    tools: Vec<ToolRow>,
    /// What the times of the tools contain. May be empty.
    tool_note: String,
    /// The steps as a table, if asked for.
    rows: Option<Rows>,
}

impl HtmlSafe for Timeline<'_> {}

/// A lane in the legend, with its total.
struct Legend {
    class: &'static str,
    name: &'static str,
    total: Line,
}

impl<'a> Timeline<'a> {
    pub(crate) fn new(view: &'a RunView<'a>, shown: Shown) -> Self {
        let lanes = Lanes::of(view.index);
        let children = view.children();
        let zero = view.zero().unwrap_or_default();
        // The axis begins where the run does, unless that's long before its first step.
        let first = lanes.blocks.iter().map(|block| block.from).min();
        let lead = first.map(|first| first.saturating_sub(zero));
        let lead = lead.filter(|lead| view.zero().is_some() && (1..=MAX_LEAD).contains(lead));
        let spans = lanes
            .blocks
            .iter()
            .filter(|block| !block.is_wait())
            .map(|block| (block.from, block.to))
            .chain(
                children
                    .iter()
                    .filter_map(|(child, _)| picture::span(child)),
            )
            .chain(lead.map(|lead| (zero, zero.saturating_add(lead))));
        let scale = Scale::over(spans.collect(), !shown.has_whole_waits);
        let picture = scale.map(|scale| {
            let at = |seconds: f64| zero.saturating_add((seconds * 1e6) as i64);
            let window = scale.window(shown.from.map(at), shown.to.map(at));
            Picture::new(view, &lanes, &children, scale, window, shown.step)
        });
        let mut notes = Vec::new();
        notes.extend(copied(view, &lanes));
        notes.extend(untimed(view, &lanes).filter(|_| picture.is_some()));
        notes.extend(without_model(view, &lanes));
        notes.extend(picture.as_ref().and_then(Picture::merged));
        Self {
            view,
            legend: legend(view, &lanes, children.len()),
            picture,
            notes,
            slowest: slowest(view, &lanes),
            tools: tools(view, &lanes),
            tool_note: tool_note(view, &lanes),
            rows: (shown.has_table && has_rows(view)).then(|| Rows::new(view, &shown)),
            shown,
        }
    }

    /// Returns the heading: `Timeline of 34 steps`.
    fn title(&self) -> String {
        match self.view.index.steps().len() {
            0 => self.view.no_step().to_owned(),
            steps => format!("Timeline of {}", format::counted(steps, "step")),
        }
    }

    /// Returns the addresses that change what is visible: less, more, and all of it.
    fn zooms(&self) -> Option<(String, String, Option<String>)> {
        let picture = self.picture.as_ref()?;
        let to = |window: Window| self.at_window(picture, window);
        let whole = (!picture.window.is_all()).then(|| to(Window::ALL));
        Some((
            to(picture.window.scaled(2.0)),
            to(picture.window.scaled(0.5)),
            whole,
        ))
    }

    fn at_window(&self, picture: &Picture, window: Window) -> String {
        let zero = self.view.zero().unwrap_or_default();
        let at = |place: f64| {
            let since = picture.scale.at(place).saturating_sub(zero);
            (!window.is_all()).then_some(since as f64 / 1e6)
        };
        let shown = Shown {
            from: at(window.left),
            to: at(window.right),
            ..self.shown.clone()
        };
        shown.address(self.view.key())
    }

    /// Returns the link that shortens long waits or shows them in full. `None` without long waits.
    fn waits(&self) -> Option<Link> {
        let is_cut = self.picture.as_ref()?.scale.cuts().next().is_some();
        let shown = Shown {
            has_whole_waits: !self.shown.has_whole_waits,
            from: None,
            to: None,
            ..self.shown.clone()
        };
        let label = if self.shown.has_whole_waits {
            "Shorten long waits"
        } else {
            "Show long waits in full"
        };
        (is_cut || self.shown.has_whole_waits)
            .then(|| Link::new(label, shown.address(self.view.key())))
    }

    /// States how many calls have no recorded time. Empty if all have one.
    fn without_time(&self) -> String {
        let calls: usize = self.tools.iter().map(|row| row.untimed).sum();
        match calls {
            0 => String::new(),
            1 => "The time of 1 call isn't recorded.".to_owned(),
            calls => format!(
                "The times of {} aren't recorded.",
                format::counted(calls, "call")
            ),
        }
    }

    /// Returns the address of this page with or without the table of all steps.
    fn table(&self) -> String {
        let shown = Shown {
            has_table: !self.shown.has_table,
            ..self.shown.clone()
        };
        let place = if shown.has_table { "#allsteps" } else { "" };
        format!("{}{place}", shown.address(self.view.key()))
    }
}

fn legend(view: &RunView<'_>, lanes: &Lanes, children: usize) -> Vec<Legend> {
    let mut legend = Vec::new();
    let mut add = |class, name, total: Line| legend.push(Legend { class, name, total });
    let has = |lane| lanes.blocks.iter().any(|block| block.lane == lane);
    let is_split = has(Lane::Model) || has(Lane::Tools);
    let total = |lane: Lane| -> Line {
        let total = lanes.total(lane);
        match total.micros {
            Some(took) if total.untimed > 0 => format!("at least {}", micros(took)).into(),
            Some(took) => micros(took).into(),
            None => "unknown".into(),
        }
    };
    if is_split && (has(Lane::Model) || lanes.without_model > 0) {
        let model = match (lanes.total(Lane::Model).micros, lanes.without_model) {
            (Some(took), 1..) => format!("at least {}", micros(took)).into(),
            _ => total(Lane::Model),
        };
        add("model", model_lane(view), model);
    }
    if has(Lane::Tools) {
        add("tool", "Tools", total(Lane::Tools));
    }
    if has(Lane::Engine) {
        add("engine", "Engine", total(Lane::Engine));
    }
    if has(Lane::Steps) {
        add("step", "Steps", total(Lane::Steps));
    }
    let mut failed: Vec<Option<usize>> = lanes
        .blocks
        .iter()
        .filter(|block| block.is_failed)
        .map(|block| block.step)
        .collect();
    failed.sort_unstable();
    failed.dedup();
    let is_cancelled = |step: &Option<usize>| {
        let head = step.and_then(|n| view.index.steps().get(n));
        head.is_some_and(StepHead::is_cancelled)
    };
    let (cancelled, failed): (Vec<_>, Vec<_>) = failed.into_iter().partition(is_cancelled);
    for (name, steps) in [("Failed", failed), ("Cancelled", cancelled)] {
        if !steps.is_empty() {
            add("fail", name, format::counted(steps.len(), "step").into());
        }
    }
    if has(Lane::Approval) {
        add("ask", "Waiting for approval", total(Lane::Approval));
    }
    if has(Lane::User) {
        add("wait", "Waiting for the user", total(Lane::User));
    }
    if has(Lane::Nested) {
        let steps = format::counted(lanes.total(Lane::Nested).blocks, "step");
        add("child", "Sub-agents", steps.into());
    }
    if children > 0 {
        let count = format::count(children as u64).into();
        let name = if children == 1 {
            "Child run"
        } else {
            "Child runs"
        };
        add("child", name, count);
    }
    legend
}

/// States that steps were copied from another run.
fn copied(view: &RunView<'_>, lanes: &Lanes) -> Option<String> {
    let copied = view.summary.copied_steps();
    let which = match copied {
        0 => return None,
        1 => "The first step was".to_owned(),
        _ => format!("The first {} steps were", format::count(copied as u64)),
    };
    let zero = view.zero().unwrap_or_default();
    let is_early = lanes
        .blocks
        .iter()
        .any(|block| block.is_copied && block.from < zero);
    let own = lanes
        .blocks
        .iter()
        .find(|block| !block.is_copied)
        .map(|block| view.offset(Some(block.from)));
    let more = match own {
        _ if is_early => " Times before 0 belong to that run.".to_owned(),
        Some(began) if !began.is_empty() => format!(" This run's own steps start at {began}."),
        _ => String::new(),
    };
    Some(format!("{which} copied from another run.{more}"))
}

/// States how many steps have no span, because they record no time or only one.
fn untimed(view: &RunView<'_>, lanes: &Lanes) -> Option<String> {
    let total = view.index.steps().len();
    match lanes.untimed {
        0 => None,
        1 => Some("1 step isn't shown: its duration isn't recorded.".to_owned()),
        untimed => Some(format!(
            "{} of {} aren't shown: their durations aren't recorded.",
            format::count(untimed as u64),
            format::counted(total, "step")
        )),
    }
}

/// States that the model's time isn't known for some steps.
fn without_model(view: &RunView<'_>, lanes: &Lanes) -> Option<String> {
    let name = view.index.format().name;
    match lanes.without_model {
        0 => None,
        1 => Some("The time of 1 request isn't recorded, so its model time is unknown.".to_owned()),
        _ if lanes.total(Lane::Model).blocks == 0 => Some(format!(
            "{name} files don't record when a request was sent, so the model's time is unknown."
        )),
        without => Some(format!(
            "The times of {} aren't recorded, so their model time is unknown.",
            format::counted(without, "request")
        )),
    }
}

/// Says what the times of tools contain, if they are the times between records.
fn tool_note(view: &RunView<'_>, lanes: &Lanes) -> String {
    let format = view.index.format();
    // A lane of an engine has the phase that makes the calls.
    let has_phases = !format.is_one_file();
    let is_measured = lanes.is_tool_time_measured && format.is_session;
    if !has_phases && !is_measured {
        return String::new();
    }
    let mut steps = view.index.steps().iter();
    let is_recorded = steps.any(|step| step.calls.iter().any(|call| call.ms().is_some()));
    let recorded = if is_recorded {
        " The table has the durations that calls record; the lanes also have the time around them."
    } else {
        ""
    };
    if has_phases {
        return recorded.trim_start().to_owned();
    }
    let has_approvals = lanes
        .blocks
        .iter()
        .any(|block| block.lane == Lane::Approval);
    let permissions = if has_approvals {
        "Tool time runs from the call, or from its approval, to the result."
    } else if format.name.starts_with("Claude Code") {
        "Tool time includes permission prompts: Claude Code doesn't record them."
    } else {
        "Tool time runs from the call to its result, so it includes any permission prompts."
    };
    format!("{permissions} Model time runs from the previous record to the reply.{recorded}")
}

/// Returns whether the table of steps has any rows.
fn has_rows(view: &RunView<'_>) -> bool {
    !view.index.steps().is_empty() || view.index.unfinished_group().is_some()
}
