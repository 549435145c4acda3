//! What stands in the list of steps? Rows of a window, taken from the index alone, and what comes after the last.
//!
//! The list is as high as the run is long: a page holds some of its lines, and asks for others when they come into sight.
//! A line is a step, or the words where another run begins in the same directory.

use crate::analysis::format;
use crate::analysis::timing::{longest, stretches, took};
use crate::model::index::Group;
use crate::model::{CriticAction, CriticMark, Fate, StepHead};
use crate::page::lens::{Lens, micros, phase, status};
use crate::page::part::href;
use crate::page::part::sign::{Link, Phrase, Sign};
use crate::page::run::marks::Marks;
use crate::page::run::{Did, EndLine, EndSlot, Row, StepRow, StepRows, StepsTab};
use crate::page::shell::Status;
use crate::page::step::StepView;

/// So many rows come with the page.
pub(crate) const WINDOW: usize = 60;
/// A page holds at most so many, once it has asked for others.
pub(crate) const HELD: usize = 120;

/// The steps that have a row on a page: `first..end`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Window {
    /// The first ordinal.
    pub first: usize,
    /// One past the last ordinal.
    pub end: usize,
}

impl Window {
    /// The last rows, or those around `selected`. `before` asks for the rows before it.
    pub(crate) fn new(total: usize, selected: Option<usize>, before: Option<usize>) -> Self {
        match (selected, before) {
            (_, Some(before)) => Self::ending(before.min(total), WINDOW),
            (Some(n), None) => Self::ending((n + WINDOW / 2).max(WINDOW).min(total), WINDOW),
            (None, None) => Self::ending(total, WINDOW),
        }
    }

    /// At most `rows` rows up to `end`.
    fn ending(end: usize, rows: usize) -> Self {
        Self { first: end.saturating_sub(rows), end }
    }

    /// As many rows as a page may hold, around `n`.
    pub(crate) fn around(n: usize, total: usize) -> Self {
        Self::ending((n + HELD / 2).max(HELD).min(total), HELD)
    }

    /// Reads `first-end`, as a page writes it.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (first, end) = text.split_once('-')?;
        let (first, end): (usize, usize) = (first.parse().ok()?, end.parse().ok()?);
        Some(Self { first, end: end.clamp(first, first.saturating_add(HELD)) })
    }

    /// The rows of a page that had these when the run had `known` steps, now that it has `total`. Only a page that holds
    /// the end of the list gets new ones; one that follows the run gets the end in any case.
    pub(crate) fn grown(self, known: usize, total: usize, follow: bool) -> Self {
        let kept = self.first.min(total)..self.end.min(total);
        if follow {
            Self::ending(total, HELD.min(total - kept.start).max(WINDOW))
        } else if self.end >= known {
            Self { first: kept.start, end: total.min(kept.start + HELD).max(kept.end) }
        } else {
            Self { first: kept.start, end: kept.end }
        }
    }
}

/// Which step stands on which line of the list.
#[derive(Debug)]
struct ListLines {
    /// The first step of each run in the directory; empty where there is only one.
    laps: Vec<usize>,
    steps: usize,
}

impl ListLines {
    fn of(lens: &Lens<'_>) -> Self {
        let steps = lens.index.steps().len();
        let laps = Some(lens.index.lap_starts()).filter(|laps| laps.len() > 1).unwrap_or_default();
        Self { laps: laps.iter().copied().filter(|start| *start < steps).collect(), steps }
    }

    /// Lines above step `n` and above the words before it.
    fn above(&self, n: usize) -> usize {
        n + self.laps.partition_point(|start| *start < n)
    }

    /// The step on a line, or the first one after the words on it.
    fn step_on(&self, line: usize) -> usize {
        let words = self.laps.iter().enumerate().take_while(|(at, start)| *start + at < line).count();
        line.saturating_sub(words).min(self.steps)
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
        critics: lens.summary.critics.join(", ").into(),
        earlier,
        later,
        rows: rows(lens, window, current),
        end: end_slot(lens),
        pending: crate::page::run::pending::pending_slot(lens),
        selected: selected.map(|(_, view)| view),
        nothing: Phrase::from(nothing),
        follow,
    }
}

/// The rows around line `line` of the list.
pub(crate) fn rows_at(lens: &Lens<'_>, line: usize, current: Option<usize>) -> StepRows {
    let lines = ListLines::of(lens);
    rows(lens, Window::around(lines.step_on(line), lines.steps), current)
}

/// The rows of a window; `current` is the step that is read.
pub(crate) fn rows(lens: &Lens<'_>, window: Window, current: Option<usize>) -> StepRows {
    let lines = ListLines::of(lens);
    let longest = longest(lens.index);
    let (mut rows, mut marks) = (Vec::new(), Marks::default());
    for n in window.first..window.end.min(lines.steps) {
        let Some(step) = lens.index.steps().get(n) else { break };
        if let Some(lap) = lines.laps.iter().position(|start| *start == n) {
            rows.push(Row::Segment(
                format!("run {} of {} in this directory", lap + 1, lens.index.lap_starts().len()).into(),
            ));
            marks.next();
        }
        let group = lens.index.round_of(n);
        if step.fate != Fate::Provisional {
            marks.scores(step.critics.iter().map(|mark| mark.score));
        }
        if let Some(group) = group.filter(|group| longest > 0 && took(group).is_some()) {
            let phases = stretches(lens.index, group);
            marks.times(phases.iter().filter_map(|stretch| {
                Some((phase(lens.index.name(stretch.phase)).0, stretch.micros? as f64 / longest as f64))
            }));
        }
        marks.next();
        rows.push(Row::Step(Box::new(row(lens, n, step, group, current == Some(n)))));
    }
    let above = lines.above(window.first.min(lines.steps));
    let all = lines.steps + lines.laps.len();
    StepRows { window, above, below: all.saturating_sub(above + marks.lines), steps: lines.steps, rows, marks }
}

fn row(lens: &Lens<'_>, n: usize, step: &StepHead, group: Option<&Group>, current: bool) -> StepRow {
    let sign = sign(step, group);
    let asked = asked(step);
    let pending = step.fate == Fate::Provisional;
    let score = |mark: &CriticMark| {
        let name = lens.index.name(mark.name);
        mark.score.map_or_else(|| format!("{name} no score"), |score| format!("{name} {score:.2}"))
    };
    let scores = step.critics.iter().map(score).collect::<Vec<_>>().join(", ");
    StepRow {
        n,
        label: lens.label(n).into(),
        href: lens.at_step(n),
        marked: sign.is_some() || asked.is_some(),
        current,
        pending,
        sign,
        did: did(step, group),
        title: (&*step.call).into(),
        scores: if pending { "no line end".into() } else { scores.into() },
        asked,
        took: group
            .and_then(took)
            .map_or_else(|| Phrase::new().dim(format::MISSING), |time| Phrase::from(micros(time))),
        tokens: format::or_missing(step.tokens, format::tokens).into(),
    }
}

/// The next step after `n` with an error, a retry or a stop, from the start again after the last.
pub(crate) fn next_mark(lens: &Lens<'_>, n: usize) -> Option<usize> {
    let marked = |n: &usize| {
        let step = lens.index.steps().get(*n);
        step.is_some_and(|step| asked(step).is_some() || sign(step, lens.index.round_of(*n)).is_some())
    };
    (n + 1..lens.index.steps().len()).chain(0..n).find(marked)
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
