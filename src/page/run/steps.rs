//! Shows the list of steps: the rows of a window, and the end of the list.
//!
//! The list is as high as the whole run. A page holds a part of its lines, and loads others when
//! they scroll into view. A line is a step, or a heading where a turn or another run in the same
//! directory begins.

use std::ops::Range;

use askama::Template;
use askama::filters::HtmlSafe;

use crate::analysis::format;
use crate::analysis::run_result::ShownStatus;
use crate::analysis::timing::{Stretch, longest, stretches, took};
use crate::analysis::turns::{Turn, turn_steps};
use crate::model::Fate;
use crate::model::index::Group;
use crate::page::part::chart::series_of;
use crate::page::part::sign::{Link, Phrase};
use crate::page::part::{href, text};
use crate::page::run::marks::Marks;
use crate::page::run::pending::{PendingSlot, name};
use crate::page::run::pick::{Pick, Picker, WINDOW};
use crate::page::run::step_row::{StepRow, note, sign};
use crate::page::run_view::{RunView, micros, phase};
use crate::page::shell::Status;
use crate::page::step::StepView;
use crate::page::step::fill::{StepPlace, step_view};
use crate::page::step::messages::prompt_line;

/// Maximum number of rows that a page holds after loading more.
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

    /// Returns `rows` rows around `n`, or as near to that as a page may hold.
    pub(crate) fn around(n: usize, total: usize, rows: usize) -> Self {
        let rows = rows.clamp(WINDOW, HELD);
        Self::ending((n + rows / 2).max(rows).min(total), rows)
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
#[derive(Debug, Default)]
struct ListLines {
    /// The steps that begin a run or a turn, in order. Each has a heading. Empty if there is only
    /// one run and one turn.
    headed: Vec<usize>,
    /// The steps of each turn. Empty if there is only one.
    turns: Vec<Range<usize>>,
    steps: usize,
}

impl ListLines {
    fn of(view: &RunView<'_>) -> Self {
        let steps = view.index.steps().len();
        let several = |starts: &[usize]| starts.len() > 1;
        let runs = Some(view.index.lap_starts()).filter(|starts| several(starts));
        let turns = Some(turn_steps(view.index)).filter(|turns| turns.len() > 1);
        let turns = turns.unwrap_or_default();
        let mut headed: Vec<usize> = turns.iter().map(|turn| turn.start).collect();
        headed.extend(runs.into_iter().flatten().filter(|start| **start < steps));
        headed.sort_unstable();
        headed.dedup();
        Self {
            headed,
            turns,
            steps,
        }
    }

    /// Returns the number of lines above step `n` and its heading.
    fn above(&self, n: usize) -> usize {
        n + self.headed.partition_point(|start| *start < n)
    }

    /// Returns the step on a line, or the step below the heading on it.
    fn step_on(&self, line: usize) -> usize {
        let words = self
            .headed
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
    /// Returns whether any step has critics. Some formats only have scores of the whole run.
    fn has_step_scores(&self) -> bool {
        let steps = self.view.index.steps();
        steps.iter().any(|step| !step.critics.is_empty())
    }

    /// Returns whether the time of any step is known.
    fn has_times(&self) -> bool {
        let index = self.view.index;
        let mut groups = (0..index.steps().len()).filter_map(|n| index.round_of(n));
        groups.any(|group| took(group).is_some())
    }

    /// Returns whether the tokens of any step are recorded.
    fn has_tokens(&self) -> bool {
        let steps = self.view.index.steps();
        steps.iter().any(|step| step.tokens.is_some())
    }

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
        Self::between(view, window, ListLines::of(view), current)
    }

    fn between(
        view: &'a RunView<'a>,
        window: Window,
        lines: ListLines,
        current: Option<usize>,
    ) -> Self {
        let steps: Vec<usize> = (window.first..window.end.min(view.index.steps().len())).collect();
        Self {
            window,
            lines,
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
        let children = view.children();
        let row = |n: &usize| {
            let href = pick.map_or_else(
                || view.at_step(*n),
                |pick| pick.address(view.key(), pick.from, Some(*n)),
            );
            StepRow::new(view, *n, href, current == Some(*n), &children)
        };
        let rows = steps.iter().filter_map(row).collect();
        let lines = ListLines {
            steps: steps.len(),
            ..ListLines::default()
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
            if self.lines.headed.binary_search(&row.n()).is_ok() {
                self.marks.next();
            }
            if row.step().fate != Fate::Provisional {
                let series = |name| series_of(&self.view.summary.critics, index.name(name));
                self.marks.scores(
                    row.step()
                        .critics
                        .iter()
                        .map(|mark| (series(mark.name), mark.score)),
                );
            }
            let timed = row.group().filter(|_| longest > 0);
            if let Some((group, all)) = timed.and_then(|group| Some((group, took(group)?))) {
                let phases = stretches(index, group);
                let share = |micros: i64| micros as f64 / longest as f64;
                let class = |stretch: &Stretch| phase(index.name(stretch.phase)).0;
                // Formats with a single record per step only say when the next one began.
                let known: i64 = phases.iter().filter_map(|stretch| stretch.micros).sum();
                let rest = phases.last().map(|last| (class(last), share(all - known)));
                let known = phases
                    .iter()
                    .filter_map(|stretch| Some((class(stretch), share(stretch.micros?))));
                self.marks.times(known.chain(rest));
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

    /// Returns about `rows` rows around line `line` of the list.
    pub(crate) fn at_line(
        view: &'a RunView<'a>,
        line: usize,
        rows: usize,
        current: Option<usize>,
    ) -> Self {
        let lines = ListLines::of(view);
        let window = Window::around(lines.step_on(line), lines.steps, rows);
        Self::between(view, window, lines, current)
    }

    /// Returns the number of lines above the rows.
    fn above(&self) -> usize {
        self.lines.above(self.window.first.min(self.lines.steps))
    }

    /// Returns the number of lines below the rows.
    fn below(&self) -> usize {
        (self.lines.steps + self.lines.headed.len()).saturating_sub(self.above() + self.marks.lines)
    }

    /// Returns the heading above a row, if a run or a turn begins there.
    fn heading(&self, row: &StepRow<'_>) -> Option<Heading> {
        self.lines.headed.binary_search(&row.n()).ok()?;
        let runs = self.view.index.lap_starts();
        let run = runs
            .iter()
            .position(|start| *start == row.n())
            .filter(|_| runs.len() > 1);
        let run = run.map(|run| format!("run {} of {} in this directory", run + 1, runs.len()));
        let turns = &self.lines.turns;
        let turn = turns.binary_search_by_key(&row.n(), |turn| turn.start);
        let turn = turn.ok().and_then(|at| {
            let steps = turns.get(at)?.clone();
            Some((at, Turn::new(self.view.index, steps)))
        });
        let Some((at, turn)) = turn else {
            return Some(Heading {
                name: run.unwrap_or_default().into(),
                ..Heading::default()
            });
        };
        let mut facts = vec![format::counted(turn.end - turn.first, "step")];
        facts.extend(turn.took.filter(|took| *took > 0).map(micros));
        let name = format!("Turn {}", at + 1);
        Some(Heading {
            name: run
                .map_or(name.clone(), |run| format!("{run} · {name}"))
                .into(),
            prompt: prompt_line(self.view, turn.first).unwrap_or_default(),
            facts: facts.join(" · ").into(),
        })
    }
}

/// What is above the first step of a run or a turn.
#[derive(Debug, Default)]
struct Heading {
    name: text::Line,
    /// The beginning of the prompt.
    prompt: text::Line,
    /// The number of steps, and the duration.
    facts: text::Line,
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

/// The end of the list (`#endslot`): the END event, and events of steps without a line.
#[derive(Clone, Copy, Template)]
#[template(path = "run/end_slot.html")]
pub(crate) struct EndSlot<'a> {
    pub view: &'a RunView<'a>,
}

impl HtmlSafe for EndSlot<'_> {}

impl EndSlot<'_> {
    /// Names the place of the lines, for screen readers.
    fn place(&self) -> &'static str {
        match self.view.index.steps().is_empty() {
            true => "Outside steps",
            false => "After the last step",
        }
    }

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
            let rest = match index.steps_file().exists {
                true => format!(" has {events} but was never written to steps.jsonl"),
                false => format!(" has {events} but no record: steps.jsonl is missing"),
            };
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
                .decision()
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
