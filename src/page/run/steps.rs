//! What stands in the list of steps? Rows of a window, taken from the index alone, and what comes after the last.

use crate::analysis::format;
use crate::analysis::timing::{longest, stretches, took};
use crate::model::index::Group;
use crate::model::{CriticAction, Fate, StepHead};
use crate::page::lens::{Lens, micros, phase, status};
use crate::page::part::href;
use crate::page::part::sign::{Link, Phrase, Sign};
use crate::page::part::svg::{PhaseBar, Pips};
use crate::page::part::text::Line;
use crate::page::run::{Did, EndLine, EndSlot, Row, StepRow, StepsTab};
use crate::page::shell::Status;
use crate::page::step::StepView;

/// So many rows are shown at once.
pub(crate) const WINDOW: usize = 200;

/// The rows that are shown: `first..end`, taken so that the selected one is among them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Window {
    /// The first ordinal.
    pub first: usize,
    /// One past the last ordinal.
    pub end: usize,
}

impl Window {
    /// The last rows, or those around `selected` where it is not among them. `before` asks for the rows before it.
    pub(crate) fn new(total: usize, selected: Option<usize>, before: Option<usize>) -> Self {
        let end = before.unwrap_or(total).min(total);
        let tail = Self { first: end.saturating_sub(WINDOW), end };
        match selected {
            Some(n) if before.is_none() && n < tail.first => {
                let first = n.saturating_sub(WINDOW / 2);
                Self { first, end: (first + WINDOW).min(total) }
            }
            _ => tail,
        }
    }
}

/// The step list beside the step that is read.
pub(crate) fn steps_tab(
    lens: &Lens<'_>,
    window: Window,
    selected: Option<(usize, StepView)>,
    follow: Option<bool>,
) -> StepsTab {
    let total = lens.index.steps().len();
    let current = selected.as_ref().map(|(n, _)| *n);
    let link = |label: String, before: usize| {
        Link::new(label, href::with_query(&href::run(lens.key()), &[("before", &before.to_string())]))
    };
    let earlier = (window.first > 0).then(|| link(format!("earlier {}", WINDOW.min(window.first)), window.first));
    let later = (window.end < total).then(|| {
        let next = (window.end + WINDOW).min(total);
        if next == total {
            Link::new("to the last steps", href::run(lens.key()))
        } else {
            link(format!("later {WINDOW}"), next)
        }
    });
    let nothing = match (total == 0 && lens.index.groups().is_empty(), lens.summary.life.liveness.may_grow()) {
        (true, true) => "No step has begun yet.",
        (true, false) => "No step was recorded.",
        (false, true) => "No step has a line yet.",
        (false, false) => "No step has a line; what is known of them is in their events.",
    };
    StepsTab {
        caption: caption(window, total),
        critics: lens.summary.critics.join(", ").into(),
        earlier,
        later,
        rows: rows(lens, window.first, window.end, current, false),
        end: if window.end == total { end_slot(lens) } else { EndSlot::default() },
        pending: crate::page::run::pending::pending_slot(lens),
        selected: selected.map(|(_, view)| view),
        nothing: Phrase::from(nothing),
        follow,
    }
}

/// Says nothing that a new row would make wrong, since rows are added without it.
fn caption(window: Window, total: usize) -> Line {
    match window {
        Window { first: 0, end } if end == total => "All steps".into(),
        Window { first, end } if end == total => format!("Steps from {first} to the last").into(),
        Window { first, end } => format!("Steps {first} to {}", end.saturating_sub(1)).into(),
    }
}

/// The rows from ordinal `first` to the end of the run, for a page that has the ones before.
pub(crate) fn rows_from(lens: &Lens<'_>, first: usize) -> Vec<Row> {
    rows(lens, first, lens.index.steps().len(), None, true)
}

fn rows(lens: &Lens<'_>, first: usize, end: usize, current: Option<usize>, new: bool) -> Vec<Row> {
    let laps = lens.index.lap_starts();
    let longest = longest(lens.index);
    let mut rows = Vec::new();
    for n in first..end {
        if let Some(lap) = laps.iter().position(|start| *start == n).filter(|_| laps.len() > 1) {
            rows.push(Row::Segment(format!("run {} of {} in this directory", lap + 1, laps.len()).into()));
        }
        rows.extend(row_of(lens, n, current == Some(n), new, longest).map(|row| Row::Step(Box::new(row))));
    }
    rows
}

/// The row of step `n`.
pub(crate) fn row(lens: &Lens<'_>, n: usize, current: bool) -> Option<StepRow> {
    row_of(lens, n, current, false, longest(lens.index))
}

fn row_of(lens: &Lens<'_>, n: usize, current: bool, new: bool, longest: i64) -> Option<StepRow> {
    let step = lens.index.steps().get(n)?;
    let group = lens.index.round_of(n);
    let sign = sign(step, group);
    let asked = asked(step);
    Some(StepRow {
        n,
        label: lens.label(n).into(),
        href: lens.at_step(n),
        fragment: format!("{}/part", href::step(lens.key(), n)),
        marked: sign.is_some() || asked.is_some(),
        new,
        current,
        pending: step.fate == Fate::Provisional,
        sign,
        did: did(step, group),
        title: (&*step.call).into(),
        pips: Pips::new(step.critics.iter().map(|mark| (lens.index.name(mark.name), mark.score))),
        asked,
        phase: if step.fate == Fate::Provisional { "no line end".into() } else { "".into() },
        bar: group.and_then(|group| bar(lens, group, longest)),
        took: group
            .and_then(took)
            .map_or_else(|| Phrase::new().dim(format::MISSING), |time| Phrase::from(micros(time))),
        tokens: format::or_missing(step.tokens, format::tokens).into(),
    })
}

/// What went wrong, as a sign before the call.
pub(crate) fn sign(step: &StepHead, group: Option<&Group>) -> Option<Sign> {
    let error = |words: String| Sign::icon("mk err", "error", words);
    if !step.fate.is_readable() {
        return Some(error("unreadable line".to_owned()));
    }
    if let Some((_, text)) = group.and_then(|group| group.error.as_ref()) {
        let recovered = group.is_some_and(|group| group.recovered) && step.fate.is_readable();
        return Some(error(format!("error{}: {text}", if recovered { ", reported to recovery" } else { "" })));
    }
    if let Some(text) = &step.error {
        return Some(error(format!("tool error: {text}")));
    }
    let code = step.returncode?;
    Some(Sign {
        class: "mk err", icon: "", text: "≠0".into(), meaning: format!("the command returned {code}").into()
    })
}

fn asked(step: &StepHead) -> Option<Sign> {
    let reason = step.critic_reason.as_deref().unwrap_or_default();
    if step.asked(CriticAction::Retry) {
        return Some(Sign::icon("mk retry", "retry", format!("retry asked for: {reason}")));
    }
    step.asked(CriticAction::Stop).then(|| Sign::icon("mk stop", "critic", format!("stop asked for: {reason}")))
}

pub(crate) fn did(step: &StepHead, group: Option<&Group>) -> Did {
    if !step.fate.is_readable() {
        return Did::Nil("unreadable line".into());
    }
    if step.actions > 0
        && let Some((name, rest)) = step.call.split_once('(')
    {
        let (args, more) = match rest.rfind(" +").filter(|_| step.actions > 1) {
            Some(at) => rest.split_at(at),
            None => (rest, ""),
        };
        let args = args.strip_suffix(')').unwrap_or(args);
        return Did::Call {
            name: name.into(),
            args: args.into(),
            more: more.trim_start().trim_end_matches(" more").into(),
        };
    }
    if let Some(answer) = step.call.strip_prefix("answer: ") {
        return Did::Answer(answer.into());
    }
    if !step.call.is_empty() {
        return Did::Words((&*step.call).into());
    }
    match group.and_then(|group| group.error.as_ref()) {
        Some((_, text)) => Did::Nil(format!("no decision · {text}").into()),
        None => Did::Nil("no decision".into()),
    }
}

fn bar(lens: &Lens<'_>, group: &Group, longest: i64) -> Option<PhaseBar> {
    took(group).filter(|_| longest > 0)?;
    let times: Vec<_> = stretches(lens.index, group)
        .iter()
        .filter_map(|stretch| Some((phase(lens.index.name(stretch.phase)).0, stretch.micros? as f64 / 1e3)))
        .collect();
    Some(PhaseBar::new(&times, longest as f64 / 1e3))
}

/// The step that has no line yet, or never got one.
fn unfinished(lens: &Lens<'_>, group: &Group) -> EndLine {
    let alive = lens.summary.life.liveness.may_grow();
    let name = group.step_id.map_or_else(|| "A step without id".to_owned(), |id| format!("step {id}"));
    let call = group.decision.as_deref().map_or_else(String::new, |call| format!(" · {call}"));
    let words = if alive { "in progress" } else { "never finished" };
    EndLine {
        status: if alive { Status::Running } else { Status::Died },
        text: Phrase::new().strong(name).text(format!(" {words}{call}")),
        href: "#pending".to_owned(),
    }
}

/// What comes after the last step.
pub(crate) fn end_slot(lens: &Lens<'_>) -> EndSlot {
    let mut lines = Vec::new();
    let Some(segment) = lens.index.segment() else { return EndSlot::default() };
    let pending = lens.index.pending_group();
    let lost = |at: &usize| *at >= segment.first_group && Some(*at) != pending;
    for at in lens.index.groups_without_line().into_iter().filter(lost).take(20) {
        let Some(group) = lens.index.groups().get(at) else { continue };
        let name = group.step_id.map_or_else(|| "a step without id".to_owned(), |id| format!("step {id}"));
        let events = format::counted(group.end - group.first, "event");
        let text = Phrase::new().strong(name).text(format!(" has {events} and no line"));
        lines.push(EndLine { status: Status::Unknown, text, href: lens.at_event(group.first) });
    }
    lines.extend(pending.and_then(|at| lens.index.groups().get(at)).map(|group| unfinished(lens, group)));
    if let Some((event, end, _)) = &segment.end {
        let reason = end.reason.as_deref().unwrap_or("no reason");
        let text = Phrase::new().strong("END").text(format!(" · {reason} · event {event}"));
        lines.push(EndLine { status: status(lens.summary), text, href: lens.at_event(*event) });
    } else if let Some(event) = segment.teardown {
        let text = Phrase::new().strong("Torn down").text(format!(" without END · event {event}"));
        lines.push(EndLine { status: Status::Died, text, href: lens.at_event(event) });
    }
    EndSlot { lines }
}
