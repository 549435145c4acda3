//! Shows the list of steps: the rows of a window, read from the index alone, and the end of the
//! list.
//!
//! The list is as high as the whole run. A page holds a part of its lines, and loads others when
//! they scroll into view. A line is a step, or a heading where another run begins in the same
//! directory.

use askama::Template;
use askama::filters::HtmlSafe;

use crate::analysis::format;
use crate::analysis::run_result::ShownStatus;
use crate::analysis::timing::{longest, stretches, took};
use crate::analysis::why;
use crate::model::index::Group;
use crate::model::{CriticAction, Fate, StepHead};
use crate::page::part::chart::series_of;
use crate::page::part::sign::{Link, Phrase, Sign};
use crate::page::part::{href, text};
use crate::page::run::marks::Marks;
use crate::page::run::pending::{PendingSlot, name};
use crate::page::run::pick::{Pick, Picker, WINDOW};
use crate::page::run_view::{RunView, micros, phase};
use crate::page::shell::Status;
use crate::page::step::StepView;
use crate::page::step::fill::{COPIED, LEFT, StepPlace, step_view};
use crate::page::step::messages::{compaction_in_words, compactions_before};

/// Rows that a page holds after loading more, at most.
pub(crate) const HELD: usize = 120;

/// The steps `first..end`, which have a row on a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Window {
    pub first: usize,
    pub end: usize,
}

impl Window {
    /// Returns the last rows, those around `selected`, or those before `before`.
    pub(crate) fn new(total: usize, selected: Option<usize>, before: Option<usize>) -> Self {
        match (selected, before) {
            (_, Some(before)) => Self::ending(before.min(total), WINDOW),
            (Some(n), None) => Self::ending((n + WINDOW / 2).max(WINDOW).min(total), WINDOW),
            (None, None) => Self::ending(total, WINDOW),
        }
    }

    /// Returns up to `rows` rows before `end`.
    fn ending(end: usize, rows: usize) -> Self {
        Self {
            first: end.saturating_sub(rows),
            end,
        }
    }

    /// Returns as many rows around `n` as a page may hold.
    pub(crate) fn around(n: usize, total: usize) -> Self {
        Self::ending((n + HELD / 2).max(HELD).min(total), HELD)
    }

    /// Parses `first-end`, the format that pages use.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (first, end) = text.split_once('-')?;
        let (first, end): (usize, usize) = (first.parse().ok()?, end.parse().ok()?);
        Some(Self {
            first,
            end: end.clamp(first, first.saturating_add(HELD)),
        })
    }

    /// Returns the new rows of a page that held this window when the run had `known` steps. The run
    /// now has `total`. A page gets new rows only if it holds the end of the list. With `follow`,
    /// it always gets the end.
    pub(crate) fn grown(self, known: usize, total: usize, follow: bool) -> Self {
        let kept = self.first.min(total)..self.end.min(total);
        if follow {
            Self::ending(total, HELD.min(total - kept.start).max(WINDOW))
        } else if self.end >= known {
            Self {
                first: kept.start,
                end: total.min(kept.start + HELD).max(kept.end),
            }
        } else {
            Self {
                first: kept.start,
                end: kept.end,
            }
        }
    }
}

/// Maps the steps of the list to its lines.
#[derive(Debug)]
struct ListLines {
    /// The first step of each run in the directory. Empty if there is only one run.
    run_starts: Vec<usize>,
    steps: usize,
}

impl ListLines {
    fn of(view: &RunView<'_>) -> Self {
        let steps = view.index.steps().len();
        let run_starts = Some(view.index.lap_starts())
            .filter(|run_starts| run_starts.len() > 1)
            .unwrap_or_default();
        Self {
            run_starts: run_starts
                .iter()
                .copied()
                .filter(|start| *start < steps)
                .collect(),
            steps,
        }
    }

    /// Returns the number of lines above step `n` and its heading.
    fn above(&self, n: usize) -> usize {
        n + self.run_starts.partition_point(|start| *start < n)
    }

    /// Returns the step on a line, or the step below the heading on it.
    fn step_on(&self, line: usize) -> usize {
        let words = self
            .run_starts
            .iter()
            .enumerate()
            .take_while(|(at, start)| *start + at < line)
            .count();
        line.saturating_sub(words).min(self.steps)
    }
}

/// The list of steps and the current step.
#[derive(Template)]
#[template(path = "run/steps.html")]
pub(crate) struct StepsTab<'a> {
    view: &'a RunView<'a>,
    picker: Picker<'a>,
    rows: StepRows<'a>,
    selected: Option<StepView>,
    /// Whether new steps may come. `Some(true)` means that the list follows them from the start.
    follow: Option<bool>,
}

impl HtmlSafe for StepsTab<'_> {}

impl<'a> StepsTab<'a> {
    /// Shows the rows of a window next to step `n`.
    pub(crate) fn new(
        view: &'a RunView<'a>,
        window: Window,
        n: Option<usize>,
        follow: Option<bool>,
    ) -> Self {
        let selected = n.and_then(|n| step_view(view, n, StepPlace::List));
        let rows = StepRows::new(view, window, n.filter(|_| selected.is_some()));
        Self {
            view,
            picker: Picker::new(view, Pick::default()),
            rows,
            selected,
            follow,
        }
    }

    /// Shows the selected rows next to step `n`, or next to the first selected step.
    pub(crate) fn picked(
        view: &'a RunView<'a>,
        picker: Picker<'a>,
        n: Option<usize>,
        follow: Option<bool>,
    ) -> Self {
        let n = n.or(picker.shown.first().copied());
        let selected = n.and_then(|n| step_view(view, n, StepPlace::List));
        let rows = StepRows::of(view, &picker.shown, Some(&picker.pick), n);
        Self {
            view,
            picker,
            rows,
            selected,
            follow,
        }
    }

    fn end(&self) -> EndSlot<'a> {
        EndSlot { view: self.view }
    }

    fn pending(&self) -> PendingSlot<'a> {
        PendingSlot { view: self.view }
    }

    fn link(&self, label: String, before: usize) -> Link {
        let run = href::run(self.view.key());
        Link::new(
            label,
            href::with_query(&run, &[("before", &before.to_string())]),
        )
    }

    fn earlier(&self) -> Option<Link> {
        let first = self.rows.window.first;
        (first > 0 && !self.rows.is_picked)
            .then(|| self.link(format!("{} earlier", WINDOW.min(first)), first))
    }

    fn later(&self) -> Option<Link> {
        let (end, total) = (self.rows.window.end, self.rows.lines.steps);
        let next = (end + WINDOW).min(total);
        (end < total && !self.rows.is_picked).then(|| match next == total {
            true => Link::new("last steps", href::run(self.view.key())),
            false => self.link(format!("{WINDOW} later"), next),
        })
    }

    /// Explains why there is no step to show.
    fn nothing(&self) -> &'static str {
        let none_matches = self.rows.is_picked && !self.view.index.steps().is_empty();
        if none_matches {
            "No steps match"
        } else {
            self.view.no_step()
        }
    }
}

/// Rows of the step list (`#steprows`), with space for the other rows above and below, so that the
/// scroll bar has the right size.
#[derive(Template)]
#[template(path = "run/step_rows.html")]
pub(crate) struct StepRows<'a> {
    view: &'a RunView<'a>,
    pub window: Window,
    lines: ListLines,
    rows: Vec<StepRow<'a>>,
    /// The bars next to the rows.
    marks: Marks,
    /// Whether the rows are a selection, or sorted.
    is_picked: bool,
}

impl HtmlSafe for StepRows<'_> {}

impl<'a> StepRows<'a> {
    /// Returns the rows of a window. `current` is the current step.
    pub(crate) fn new(view: &'a RunView<'a>, window: Window, current: Option<usize>) -> Self {
        let steps: Vec<usize> = (window.first..window.end.min(view.index.steps().len())).collect();
        Self {
            window,
            lines: ListLines::of(view),
            ..Self::of(view, &steps, None, current)
        }
        .with_drawings()
    }

    /// Returns the rows of these steps, in this order. `pick` is the selection they come from.
    fn of(
        view: &'a RunView<'a>,
        steps: &[usize],
        pick: Option<&Pick>,
        current: Option<usize>,
    ) -> Self {
        let row = |n: &usize| {
            let href = pick.map_or_else(
                || view.at_step(*n),
                |pick| pick.address(view.key(), pick.from, Some(*n)),
            );
            let step = view.index.steps().get(*n)?;
            Some(StepRow {
                view,
                n: *n,
                step,
                group: view.index.round_of(*n),
                href,
                is_current: current == Some(*n),
            })
        };
        let rows = steps.iter().filter_map(row).collect();
        let lines = ListLines {
            run_starts: Vec::new(),
            steps: steps.len(),
        };
        let window = Window {
            first: 0,
            end: steps.len(),
        };
        let rows = Self {
            view,
            window,
            lines,
            rows,
            marks: Marks::default(),
            is_picked: pick.is_some(),
        };
        if pick.is_some() {
            rows.with_drawings()
        } else {
            rows
        }
    }

    fn with_drawings(mut self) -> Self {
        let index = self.view.index;
        let longest = longest(index);
        for row in &self.rows {
            if self.lines.run_starts.contains(&row.n) {
                self.marks.next();
            }
            if row.step.fate != Fate::Provisional {
                let series = |name| series_of(&self.view.summary.critics, index.name(name));
                self.marks.scores(
                    row.step
                        .critics
                        .iter()
                        .map(|mark| (series(mark.name), mark.score)),
                );
            }
            if let Some(group) = row
                .group
                .filter(|group| longest > 0 && took(group).is_some())
            {
                let phases = stretches(index, group);
                self.marks.times(phases.iter().filter_map(|stretch| {
                    Some((
                        phase(index.name(stretch.phase)).0,
                        stretch.micros? as f64 / longest as f64,
                    ))
                }));
            }
            self.marks.next();
        }
        self
    }

    /// Returns the window, for the page to send back. Empty for a selection, whose rows don't
    /// change.
    fn held(&self) -> String {
        if self.is_picked {
            String::new()
        } else {
            format!("{}-{}", self.window.first, self.window.end)
        }
    }

    /// Returns the rows around line `line` of the list.
    pub(crate) fn at_line(view: &'a RunView<'a>, line: usize, current: Option<usize>) -> Self {
        let lines = ListLines::of(view);
        Self::new(
            view,
            Window::around(lines.step_on(line), lines.steps),
            current,
        )
    }

    /// Returns the number of lines above the rows.
    fn above(&self) -> usize {
        self.lines.above(self.window.first.min(self.lines.steps))
    }

    /// Returns the number of lines below the rows.
    fn below(&self) -> usize {
        (self.lines.steps + self.lines.run_starts.len())
            .saturating_sub(self.above() + self.marks.lines)
    }

    /// Returns the heading above a row, if another run begins there in the same directory.
    fn run_heading(&self, row: &StepRow<'_>) -> Option<String> {
        let run_heading = self
            .lines
            .run_starts
            .iter()
            .position(|start| *start == row.n)?;
        Some(format!(
            "run {} of {} in this directory",
            run_heading + 1,
            self.view.index.lap_starts().len()
        ))
    }
}

/// A row of the step list (`#step-{n}`).
#[derive(Template)]
#[template(path = "run/step_row.html")]
pub(crate) struct StepRow<'a> {
    view: &'a RunView<'a>,
    n: usize,
    step: &'a StepHead,
    group: Option<&'a Group>,
    href: String,
    /// Whether it is the current step.
    is_current: bool,
}

impl HtmlSafe for StepRow<'_> {}

impl<'a> StepRow<'a> {
    fn is_pending(&self) -> bool {
        self.step.fate == Fate::Provisional
    }

    fn sign(&self) -> Option<Sign> {
        sign(self.step, self.group)
    }

    fn note(&self) -> Option<Sign> {
        let is_copied = self.n < self.view.summary.copied_steps();
        let compacted = || compactions_before(self.view, self.n).next();
        let compacted = || Some(Sign::icon("mk", "split", compaction_in_words(compacted()?)));
        let copied = || is_copied.then(|| Sign::icon("mk", "split", COPIED));
        note(self.step).or_else(compacted).or_else(copied)
    }

    /// Lists the critics with their scores, which are drawn next to the row. Otherwise explains why
    /// there are none.
    fn scores(&self) -> String {
        if self.is_pending() {
            return "incomplete line".to_owned();
        }
        let scores = self.step.critics.iter().map(|mark| {
            let name = self.view.index.name(mark.name);
            mark.score.map_or_else(
                || format!("{name} no score"),
                |score| format!("{name} {}", format::score(score)),
            )
        });
        scores.collect::<Vec<_>>().join(", ")
    }

    /// Returns what the step did, in one line.
    fn did(&self) -> Did<'a> {
        let step = self.step;
        if !step.fate.is_readable() {
            // The text of a placeholder names its lines.
            return if step.call.is_empty() {
                Did::Nothing("unreadable line", "")
            } else {
                Did::Nothing("", &step.call)
            };
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
                name,
                args,
                more: more.trim_start().trim_end_matches(" more"),
            };
        }
        match (step.call.strip_prefix("answer: "), &*step.call) {
            (Some(answer), _) => Did::Answer(answer),
            (None, "") => match self.group.and_then(|group| group.error.as_ref()) {
                Some((_, text)) => Did::Nothing("no decision · ", text),
                None => Did::Nothing("no decision", ""),
            },
            (None, words) => Did::Words(words),
        }
    }

    /// Returns the whole text, which the row truncates.
    fn title(&self) -> text::Line {
        match self.did() {
            Did::Nothing(words, error) => format!("{words}{error}").into(),
            _ => text::shown(&*self.step.call),
        }
    }

    fn took(&self) -> Option<String> {
        self.group.and_then(took).map(micros)
    }

    fn tokens(&self) -> String {
        let mark = format::bound(false, self.view.index.tokens_estimated(self.n));
        format::or_missing(self.view.index.tokens_of(self.n), |tokens| {
            format!("{mark}{}", format::tokens(tokens))
        })
    }
}

/// The action of a step.
enum Did<'a> {
    /// Called a tool. `more` is `+2` if there were two more calls.
    Call {
        name: &'a str,
        args: &'a str,
        more: &'a str,
    },
    Answer(&'a str),
    /// Another action: waited, handed over.
    Words(&'a str),
    /// No decision or an unreadable line, with the error.
    Nothing(&'static str, &'a str),
}

/// Returns the next step after `n`, or before it if `back`, that has an error, a retry or a stop.
/// Wraps around at the end, and returns whether it did.
pub(crate) fn next_mark(view: &RunView<'_>, n: usize, back: bool) -> Option<(usize, bool)> {
    let marked = |n: &usize| {
        let step = view.index.steps().get(*n);
        step.is_some_and(|step| {
            note(step).is_some() || sign(step, view.index.round_of(*n)).is_some()
        })
    };
    let total = view.index.steps().len();
    let found = if back {
        (0..n.min(total))
            .rev()
            .chain((n + 1..total).rev())
            .find(marked)
    } else {
        (n + 1..total).chain(0..n.min(total)).find(marked)
    };
    found.map(|found| (found, if back { found > n } else { found < n }))
}

/// Returns the sign of an error in the step.
pub(crate) fn sign(step: &StepHead, group: Option<&Group>) -> Option<Sign> {
    let error = |words: String| Sign::icon("mk err", "error", words);
    if !step.fate.is_readable() {
        let words = if step.call.is_empty() {
            "unreadable line"
        } else {
            &*step.call
        };
        return Some(error(words.to_owned()));
    }
    if let Some((group, (_, text))) = group.and_then(|group| Some((group, group.error.as_ref()?))) {
        let recovered = if group.recovered {
            ", passed to recovery"
        } else {
            ""
        };
        return Some(error(format!("error{recovered}: {text}")));
    }
    if let Some(text) = &step.error {
        let what = if step.is_cancelled() {
            "call "
        } else {
            "tool error: "
        };
        return Some(error(format!("{what}{text}")));
    }
    if step.is_undecided() {
        return Some(error("no decision recorded".to_owned()));
    }
    let meaning = format!("the command {}", why::exited(step)?).into();
    Some(Sign {
        class: "mk err",
        icon: "",
        text: "≠0".into(),
        meaning,
    })
}

fn note(step: &StepHead) -> Option<Sign> {
    let reason = step.critic_reason.as_deref().unwrap_or_default();
    if step.requested(CriticAction::Retry) {
        return Some(Sign::icon(
            "mk retry",
            "retry",
            format!("retry requested: {reason}"),
        ));
    }
    if step.is_abandoned {
        return Some(Sign::icon("mk", "split", LEFT));
    }
    step.requested(CriticAction::Stop)
        .then(|| Sign::icon("mk stop", "critic", format!("stop requested: {reason}")))
}

/// The end of the list (`#endslot`): the END event, and events of steps without a line.
#[derive(Clone, Copy, Template)]
#[template(path = "run/end_slot.html")]
pub(crate) struct EndSlot<'a> {
    pub view: &'a RunView<'a>,
}

impl HtmlSafe for EndSlot<'_> {}

impl EndSlot<'_> {
    /// Returns the status, description and address of each line.
    fn lines(&self) -> Vec<(Status, Phrase, String)> {
        let (view, index) = (self.view, self.view.index);
        let mut lines = Vec::new();
        let Some(segment) = index.segment() else {
            return lines;
        };
        let pending = index.unfinished_group();
        let lost = |at: &usize| *at >= segment.first_group && Some(*at) != pending;
        let line = |status, strong: String, rest: String, href| {
            (status, Phrase::new().strong(strong).text(rest), href)
        };
        for at in index
            .groups_without_line()
            .into_iter()
            .filter(lost)
            .take(20)
        {
            let Some(group) = index.groups().get(at) else {
                continue;
            };
            let events = format::counted(group.end - group.first, "event");
            let rest = format!(" has {events} but was never written to steps.jsonl");
            lines.push(line(
                Status::Of(ShownStatus::Unknown),
                one(group, "a"),
                rest,
                view.at_event(group.first),
            ));
        }
        if let Some(group) = pending.and_then(|at| index.groups().get(at)) {
            let (mark, words) = if view.is_alive() {
                (ShownStatus::Running, "in progress")
            } else {
                (ShownStatus::Died, "never finished")
            };
            let call = group
                .decision
                .as_deref()
                .map_or_else(String::new, |call| format!(" · {call}"));
            lines.push(line(
                Status::Of(mark),
                one(group, "A"),
                format!(" {words}{call}"),
                view.at_pending(),
            ));
        }
        if let Some((event, end, _)) = &segment.end {
            let rest = format!(
                " · {} · event {event}",
                end.reason.as_deref().unwrap_or("no reason")
            );
            lines.push(line(
                view.status(),
                "END".to_owned(),
                rest,
                view.at_event(*event),
            ));
        } else if let Some(event) = segment.teardown {
            let rest = format!(" without END · event {event}");
            lines.push(line(
                Status::Of(ShownStatus::Died),
                "Tools closed".to_owned(),
                rest,
                view.at_event(event),
            ));
        }
        lines
    }
}

/// Names a step: `step 9`, or `a step without an id`.
fn one(group: &Group, article: &str) -> String {
    if group.step_id.is_some() {
        name(group)
    } else {
        format!("{article} {}", name(group))
    }
}
