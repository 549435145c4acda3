//! Draws the lanes of a timeline: places blocks on the scale, merges those too narrow to see, and
//! names each.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;

use crate::analysis::format;
use crate::analysis::lanes::{Block, Lane, Lanes};
use crate::analysis::summary::Summary;
use crate::page::part::href;
use crate::page::part::text::{Line, one_line};
use crate::page::run::timeline::scale::{Scale, Window, clock};
use crate::page::run::timeline::tables::{call_words, ended, is_scripted, model_lane};
use crate::page::run_view::{RunView, micros, phase};

/// Blocks with a separate element, at most.
const MAX_MARKS: usize = 170;
/// The width of a block that can still be seen, as a share of the picture.
const VISIBLE: f64 = 0.0016;
/// A merged block is at most this many times as wide as a block that can still be seen.
const MERGED: f64 = 4.0;
/// The height of the axis, of a lane, and of the blocks in a lane.
pub(super) const AXIS: usize = 26;
pub(super) const LANE: usize = 28;
const BLOCK: f64 = 20.0;
/// Blocks of one lane that overlap are drawn in this many rows, at most.
const MAX_ROWS: usize = 4;
/// Times shorter than this don't overlap, because recorded durations are rounded; microseconds.
const ROUNDING: i64 = 1_000;
/// The width that the name of a turn takes, as a share of the picture.
const TURN_NAME: f64 = 0.05;
/// The height of the edge for a failure among many blocks.
const LEAST_EDGE: f64 = 3.0;
/// The width of a letter inside a block, as a share of the picture.
const LETTER: f64 = 0.0042;

/// The lanes of a run, drawn.
#[derive(Debug)]
pub(super) struct Picture {
    pub scale: Scale,
    /// The visible part of the scale.
    pub window: Window,
    pub lanes: Vec<LaneRow>,
    /// In order of their beginning.
    pub marks: Vec<Mark>,
    /// The class and path of each color in the picture of the whole run, 1000 wide.
    pub overview: Vec<(&'static str, String)>,
    /// The path of the lines at the beginnings of turns, and their names.
    pub turn_lines: Vec<String>,
    pub turns: Vec<(String, String)>,
    pub ticks: Vec<(String, String)>,
    /// Cuts that aren't waits for the user: the position and the width, the middle, and the time.
    pub cuts: Vec<(String, String, String, String)>,
    /// The scale as a script reads it.
    pub points: String,
    /// How many blocks were too narrow, and how many blocks are drawn for them.
    narrow: (usize, usize),
}

/// A lane of the picture.
#[derive(Debug)]
pub(super) struct LaneRow {
    pub name: &'static str,
    /// What the lane says if it's empty.
    pub empty: &'static str,
}

/// A block of the picture, or several that are too narrow to be seen alone.
#[derive(Debug)]
pub(super) struct Mark {
    pub class: String,
    pub href: String,
    pub x: String,
    pub width: String,
    pub y: String,
    pub height: String,
    /// What it is, and how long it took, as one sentence.
    pub label: Line,
    /// The same for the panel: the title, then lines of a term, a tab and its description.
    pub panel: String,
    /// The edge that shows the share of a merged block that failed: its top and its height.
    pub failed: Option<(String, String)>,
    /// A text inside the block, and the position of its middle.
    pub inside: Option<(String, String)>,
    /// The lane, by its number.
    pub lane: usize,
    /// The step, to find the block again after zooming.
    pub step: String,
    /// Whether it's the tab stop.
    pub is_stop: bool,
    pub is_current: bool,
    place: f64,
}

/// A block on its way into the picture.
struct Placed<'a> {
    what: What<'a>,
    lane: usize,
    row: usize,
    rows: usize,
    left: f64,
    right: f64,
    is_failed: bool,
}

#[derive(Clone, Copy)]
enum What<'a> {
    Block(&'a Block),
    Child(&'a Summary),
}

/// Blocks that are drawn as one.
struct Group<'p, 'a> {
    blocks: Vec<&'p Placed<'a>>,
    left: f64,
    right: f64,
}

/// Returns the time of a child run, if it's recorded.
pub(super) fn span(child: &Summary) -> Option<(i64, i64)> {
    let took = (child.duration_ms? * 1e3) as i64;
    let from = child.started?;
    Some((from, from.saturating_add(took.max(0))))
}

impl Picture {
    pub(super) fn new(
        view: &RunView<'_>,
        lanes: &Lanes,
        children: &[(Arc<Summary>, Option<usize>)],
        scale: Scale,
        window: Window,
        current: Option<usize>,
    ) -> Self {
        let has = |lane| lanes.blocks.iter().any(|block| block.lane == lane);
        let is_split = has(Lane::Model) || has(Lane::Tools);
        let drawn_children: Vec<&Summary> = children
            .iter()
            .map(|(child, _)| &**child)
            .filter(|child| span(child).is_some())
            .collect();
        let name = |lane: Lane| match lane {
            // An engine may call no model.
            Lane::Model => (
                model_lane(view),
                is_split && (has(lane) || lanes.without_model > 0),
            ),
            Lane::Tools => ("Tools", has(lane)),
            Lane::Engine => ("Engine", has(lane)),
            Lane::Steps => ("Steps", has(lane)),
            Lane::User => ("Waiting for the user", has(lane)),
            Lane::Approval => ("Waiting for approval", has(lane)),
            Lane::Nested => ("Sub-agents", has(lane)),
        };
        let order = [
            Lane::Model,
            Lane::Tools,
            Lane::Engine,
            Lane::Steps,
            Lane::Approval,
            Lane::User,
            Lane::Nested,
        ];
        let shown: Vec<Lane> = order.into_iter().filter(|lane| name(*lane).1).collect();
        let mut rows: Vec<LaneRow> = shown
            .iter()
            .map(|lane| LaneRow {
                name: name(*lane).0,
                empty: if has(*lane) {
                    ""
                } else {
                    "unknown: the times of requests aren't recorded"
                },
            })
            .collect();
        if !drawn_children.is_empty() {
            rows.push(LaneRow {
                name: "Child runs",
                empty: "",
            });
        }
        let mut placed = Vec::new();
        for (at, lane) in shown.iter().enumerate() {
            let own = lanes.blocks.iter().filter(|block| block.lane == *lane);
            place(&scale, window, at, own.map(What::Block), &mut placed);
        }
        let all = drawn_children.iter().map(|child| What::Child(child));
        place(&scale, window, shown.len(), all, &mut placed);
        let overview = overview(&scale, lanes);
        let (groups, narrow) = merged(&placed);
        let names = Names {
            view,
            lanes,
            cuts: scale.cuts().map(|(_, _, from, to)| (from, to)).collect(),
        };
        let mut marks: Vec<Mark> = groups
            .iter()
            .map(|group| names.mark(group, current))
            .collect();
        marks.sort_by(|a, b| a.place.total_cmp(&b.place).then(a.lane.cmp(&b.lane)));
        let stop = marks.iter().position(|mark| mark.is_current);
        if let Some(mark) = marks.get_mut(stop.unwrap_or_default()) {
            mark.is_stop = true;
        }
        let mut picture = Self {
            points: scale.for_script(view.zero().unwrap_or_default()),
            scale,
            window,
            lanes: rows,
            marks,
            overview,
            turn_lines: Vec::new(),
            turns: Vec::new(),
            ticks: Vec::new(),
            cuts: Vec::new(),
            narrow,
        };
        picture.draw_axis(view, lanes);
        picture
    }

    fn draw_axis(&mut self, view: &RunView<'_>, lanes: &Lanes) {
        let window = self.window;
        let is_visible = |x: &f64| (0.0..=1.0).contains(x);
        let mut origins: Vec<i64> = Vec::new();
        if lanes.turns.len() > 1 {
            let mut last = f64::NEG_INFINITY;
            for (k, (_, at)) in lanes.turns.iter().enumerate() {
                origins.push(*at);
                let x = window.x(self.scale.x(*at));
                if is_visible(&x) && x - last >= TURN_NAME && x <= 1.0 - TURN_NAME {
                    self.turns.push((percent(x), format!("Turn {}", k + 1)));
                    self.turn_lines.push(percent(x));
                    last = x;
                }
            }
        } else {
            let first = lanes.blocks.first().map(|block| block.from);
            origins.extend(view.zero().or(first));
        }
        let names: Vec<f64> = lanes
            .turns
            .iter()
            .filter(|_| lanes.turns.len() > 1)
            .map(|(_, at)| window.x(self.scale.x(*at)))
            .filter(is_visible)
            .collect();
        // The name of a turn takes the place of a mark.
        let is_free = |x: f64| {
            names
                .iter()
                .all(|name| x < name - 0.02 || x > name + TURN_NAME + 0.012)
        };
        self.ticks = self
            .scale
            .ticks(window, &origins)
            .into_iter()
            .filter(|(x, _)| is_free(*x))
            .map(|(x, words)| (percent(x), words))
            .collect();
        let waits: Vec<&Block> = lanes
            .blocks
            .iter()
            .filter(|block| block.is_wait())
            .collect();
        for (left, right, from, to) in self.scale.cuts() {
            let is_wait = waits
                .iter()
                .any(|block| block.from <= from.saturating_add(ROUNDING) && block.to > from);
            let (left, right) = (window.x(left), window.x(right));
            if !is_wait && right > 0.0 && left < 1.0 {
                let words = clock(to.saturating_sub(from), 1_000_000);
                let middle = f64::midpoint(left.max(0.0), right.min(1.0));
                self.cuts
                    .push((percent(left), percent(right - left), percent(middle), words));
            }
        }
    }

    /// Returns the height of the picture.
    pub(super) fn height(&self) -> usize {
        AXIS + LANE * self.lanes.len() + 4
    }

    /// Returns the baseline of the text in a lane.
    pub(super) fn baseline(&self, lane: &usize) -> usize {
        AXIS + LANE * lane + 18
    }

    /// Returns the visible part in the picture of the whole run: its left edge and its width.
    pub(super) fn brush(&self) -> (String, String, &'static str) {
        let whole = if self.window.is_all() { " all" } else { "" };
        (
            percent(self.window.left),
            percent(self.window.width()),
            whole,
        )
    }

    pub(super) fn left(&self) -> String {
        format!("{:.6}", self.window.left)
    }

    pub(super) fn right(&self) -> String {
        format!("{:.6}", self.window.right)
    }

    /// States how many blocks were merged.
    pub(super) fn merged(&self) -> Option<String> {
        let (blocks, drawn) = self.narrow;
        (blocks > drawn).then(|| {
            format!(
                "{} too narrow to see {} merged into {}. Zoom in to see each.",
                format::counted(blocks, "span"),
                if blocks == 1 { "is" } else { "are" },
                format::count(drawn as u64)
            )
        })
    }
}

/// Places the blocks of a lane that are visible. Blocks that overlap get separate rows.
fn place<'a>(
    scale: &Scale,
    window: Window,
    lane: usize,
    blocks: impl Iterator<Item = What<'a>>,
    out: &mut Vec<Placed<'a>>,
) {
    let first = out.len();
    let mut ends: Vec<i64> = Vec::new();
    let mut blocks: Vec<(i64, i64, What<'a>)> = blocks
        .filter_map(|what| match what {
            What::Block(block) => Some((block.from, block.to, what)),
            What::Child(child) => span(child).map(|(from, to)| (from, to, what)),
        })
        .collect();
    blocks.sort_by_key(|(from, to, _)| (*from, *to));
    for (from, to, what) in blocks {
        let is_free = |end: &i64| *end <= from.saturating_add(ROUNDING);
        let row = match ends.iter().position(is_free) {
            Some(row) => row,
            None if ends.len() < MAX_ROWS => {
                ends.push(i64::MIN);
                ends.len() - 1
            }
            None => ends
                .iter()
                .enumerate()
                .min_by_key(|(_, end)| **end)
                .map_or(0, |(row, _)| row),
        };
        if let Some(end) = ends.get_mut(row) {
            *end = to.max(*end);
        }
        let (left, right) = (window.x(scale.x(from)), window.x(scale.x(to)));
        if right < 0.0 || left > 1.0 {
            continue;
        }
        let is_failed = match what {
            What::Block(block) => block.is_failed,
            What::Child(_) => false,
        };
        // Numbers of a picture that is far wider than the page would be cut by the browser.
        out.push(Placed {
            what,
            lane,
            row,
            rows: 0,
            left: left.max(-0.01),
            right: right.min(1.01),
            is_failed,
        });
    }
    let rows = ends.len().max(1);
    for block in out.iter_mut().skip(first) {
        block.rows = rows;
    }
}

/// Merges blocks that are too narrow to see with their neighbors, until the picture has few enough.
/// Returns the groups, and how many narrow blocks are in how many groups.
fn merged<'p, 'a>(placed: &'p [Placed<'a>]) -> (Vec<Group<'p, 'a>>, (usize, usize)) {
    let mut least = VISIBLE;
    loop {
        let mut groups: Vec<Group<'p, 'a>> = Vec::new();
        // The group in each lane and row that may grow.
        let mut open: BTreeMap<(usize, usize), usize> = BTreeMap::new();
        for block in placed {
            let key = (block.lane, block.row);
            let is_narrow = block.right - block.left < least;
            let known = open.get(&key).and_then(|at| groups.get_mut(*at));
            match known {
                Some(group)
                    if is_narrow
                        && block.left - group.right < least
                        && block.right - group.left <= MERGED * least =>
                {
                    group.right = group.right.max(block.right);
                    group.blocks.push(block);
                }
                _ => {
                    if is_narrow {
                        open.insert(key, groups.len());
                    } else {
                        open.remove(&key);
                    }
                    groups.push(Group {
                        blocks: vec![block],
                        left: block.left,
                        right: block.right,
                    });
                }
            }
        }
        if groups.len() <= MAX_MARKS || least > 4.0 {
            let several = groups.iter().filter(|group| group.blocks.len() > 1);
            let narrow = several.fold((0, 0), |(blocks, drawn), group| {
                (blocks + group.blocks.len(), drawn + 1)
            });
            return (groups, narrow);
        }
        least *= 1.5;
    }
}

/// Draws the whole run in one line: a path for each color. A failure too narrow to see alone is
/// only an edge below the others, because it would hide what surrounds it.
fn overview(scale: &Scale, lanes: &Lanes) -> Vec<(&'static str, String)> {
    /// The narrowest bar, and the smallest gap between bars, of 1000.
    const LEAST: f64 = 1.0;
    let mut bars: BTreeMap<&'static str, Vec<(f64, f64)>> = BTreeMap::new();
    let mut edges = String::new();
    let mut edge = f64::NEG_INFINITY;
    for block in &lanes.blocks {
        if block.lane == Lane::Nested {
            continue;
        }
        let (left, right) = (1e3 * scale.x(block.from), 1e3 * scale.x(block.to));
        let is_edge = block.is_failed && right - left < LEAST;
        let class = match is_edge {
            true => colour_of(block.lane),
            false => class_of(block),
        };
        let own = bars.entry(class).or_default();
        match own.last_mut() {
            Some(last) if left - last.1 < LEAST => last.1 = last.1.max(right),
            _ => own.push((left, right)),
        }
        if is_edge && left - edge >= LEAST {
            let _ = write!(edges, "M{left:.1} 12h{LEAST:.1}v5h-{LEAST:.1}z");
            edge = left;
        }
    }
    // The first one is drawn first.
    let order = ["t-w", "t-a", "t-s", "t-e", "t-m", "t-t", "t-f"];
    let path = |class: &'static str| {
        let own = bars.get(class)?;
        let mut path = String::new();
        for (left, right) in own {
            let width = (right - left).max(LEAST);
            let _ = write!(path, "M{left:.1} 3h{width:.1}v14h-{width:.1}z");
        }
        Some((class, path))
    };
    let edges = (!edges.is_empty()).then_some(("t-f", edges));
    order.into_iter().filter_map(path).chain(edges).collect()
}

fn class_of(block: &Block) -> &'static str {
    match block.lane {
        Lane::Nested => colour_of(Lane::Nested),
        _ if block.is_failed => "t-f",
        lane => colour_of(lane),
    }
}

fn colour_of(lane: Lane) -> &'static str {
    match lane {
        Lane::Model => "t-m",
        Lane::Tools => "t-t",
        Lane::Engine => "t-e",
        Lane::Steps => "t-s",
        Lane::User => "t-w",
        Lane::Approval => "t-a",
        Lane::Nested => "t-c",
    }
}

/// Formats a share of the width.
fn percent(share: f64) -> String {
    format!("{:.3}%", 100.0 * share)
}

/// Names blocks.
struct Names<'a> {
    view: &'a RunView<'a>,
    lanes: &'a Lanes,
    /// The times that the scale skips.
    cuts: Vec<(i64, i64)>,
}

impl Names<'_> {
    fn mark(&self, group: &Group<'_, '_>, current: Option<usize>) -> Mark {
        let first = group.blocks.first();
        let (lane, row, rows) = first.map_or((0, 0, 1), |one| (one.lane, one.row, one.rows));
        let (class, href, title, facts, step) = match first.map(|one| one.what) {
            Some(What::Child(child)) if group.blocks.len() == 1 => (
                "t-c".to_owned(),
                href::run(child.key.as_str()),
                format!("Child run {}", child.key.name()),
                vec![
                    (
                        "Took",
                        span(child).map(|(from, to)| micros(to.saturating_sub(from))),
                    ),
                    ("Ended", Some(child.verdict.sentence.to_string())),
                ],
                None,
            ),
            Some(What::Block(block)) if group.blocks.len() == 1 => self.block(block),
            _ => self.several(group),
        };
        let facts: Vec<(&str, String)> = facts
            .into_iter()
            .filter_map(|(term, words)| Some((term, words?)))
            .filter(|(_, words)| !words.is_empty())
            .map(|(term, words)| (term, one_line(&words, 160).0))
            .collect();
        let title = one_line(&title, 160).0;
        let words = facts.iter().map(|(term, words)| match *term {
            "Step" | "Steps" => format!("{} {words}", format::lowered(term)),
            "Took" | "First error" => words.clone(),
            "Failed" => format!("{words} failed"),
            term => format!("{}: {words}", format::lowered(term)),
        });
        let label = std::iter::once(title.clone())
            .chain(words)
            .collect::<Vec<_>>()
            .join(", ");
        let mut panel = title;
        for (term, words) in &facts {
            let _ = write!(panel, "\n{term}\t{words}");
        }
        let width = group.right - group.left;
        let block = first.and_then(|one| match one.what {
            What::Block(block) => Some(block),
            What::Child(_) => None,
        });
        let inside = block
            .filter(|block| block.is_wait())
            .and_then(Block::took)
            .map(|took| clock(took, 1_000_000))
            .filter(|words| width >= LETTER * (words.len() + 1) as f64)
            .map(|words| {
                let visible = (group.left.max(0.0), group.right.min(1.0));
                let middle = f64::midpoint(visible.0, visible.1);
                (percent(middle), words)
            });
        // The name of the link contains what is seen in it.
        let label = match &inside {
            // Checkers of names ignore what is in brackets.
            Some((_, words)) => format!("{label}, {words}"),
            None => label,
        };
        let height = (BLOCK - (rows - 1) as f64) / rows as f64;
        let top = (AXIS + LANE * lane) as f64 + 4.0 + (height + 1.0) * row as f64;
        let failed = group.blocks.iter().filter(|one| one.is_failed).count();
        let is_mixed = failed > 0 && failed < group.blocks.len();
        let failed = is_mixed.then(|| {
            let share = height * failed as f64 / group.blocks.len() as f64;
            let edge = share.max(LEAST_EDGE).min(height);
            (format!("{:.1}", top + height - edge), format!("{edge:.1}"))
        });
        let is_current = current.is_some()
            && group.blocks.iter().any(|one| match one.what {
                What::Block(block) => block.step == current && !block.is_wait(),
                What::Child(_) => false,
            });
        let thin = if width < 2.0 * VISIBLE { " thin" } else { "" };
        let many = if group.blocks.len() > 1 { " many" } else { "" };
        // The scale skips a part of a long wait, so its width tells little.
        let is_cut = block.is_some_and(|block| {
            let within = |(from, to): &(i64, i64)| block.from <= *from && *to <= block.to;
            block.is_wait() && self.cuts.iter().any(within)
        });
        let cut = if is_cut { " cut" } else { "" };
        let now = if is_current { " t-sel" } else { "" };
        Mark {
            class: format!("{class}{thin}{many}{cut}{now}"),
            href,
            x: percent(group.left),
            width: percent(width.max(0.0)),
            y: format!("{top:.1}"),
            height: format!("{height:.1}"),
            label: label.into(),
            panel,
            failed,
            inside,
            lane,
            step: step.map_or_else(String::new, |n| n.to_string()),
            is_stop: false,
            is_current,
            place: group.left,
        }
    }

    /// Names one block.
    fn block(&self, block: &Block) -> Named {
        let view = self.view;
        let step = block.step.and_then(|n| view.index.steps().get(n));
        let took = block.took().map_or_else(|| "unknown".to_owned(), micros);
        let href = block
            .step
            .map_or_else(|| view.at_pending(), |n| view.at_step(n));
        let phase_name = view.index.name(block.phase);
        let phase = (!phase_name.is_empty()).then(|| phase(phase_name).1);
        if block.lane == Lane::User {
            let next = block.step.and_then(|n| self.turn(n));
            let until = next.map(|turn| format!("turn {turn}"));
            let facts = vec![("Took", Some(took)), ("Until", until)];
            let title = "Waiting for the user".to_owned();
            return ("t-w".to_owned(), href, title, facts, block.step);
        }
        if block.lane == Lane::Approval {
            let number = block.step.map(|n| view.label(n));
            let call = step.map(|step| call_words(view, step));
            let facts = vec![("Step", number), ("Took", Some(took)), ("Call", call)];
            let title = "Waiting for approval".to_owned();
            return ("t-a".to_owned(), href, title, facts, block.step);
        }
        let title = match (block.lane, step) {
            (Lane::Tools | Lane::Steps | Lane::Nested, Some(step)) => call_words(view, step),
            (Lane::Model, Some(_)) if is_scripted(view) => "Decide".to_owned(),
            (Lane::Model, Some(_)) => "Model reply".to_owned(),
            (_, None) => {
                if view.is_alive() {
                    "Step in progress".to_owned()
                } else {
                    "Step that never finished".to_owned()
                }
            }
            _ => phase.clone().unwrap_or_default(),
        };
        let number = block.step.map(|n| {
            let copied = if block.is_copied { ", copied" } else { "" };
            match self.turn(n).filter(|_| self.lanes.turns.len() > 1) {
                Some(turn) => format!("{}, turn {turn}{copied}", view.label(n)),
                None => format!("{}{copied}", view.label(n)),
            }
        });
        let phase = phase.filter(|phase| *phase != title);
        let (end, error) = match block.is_failed {
            true => ended(view, block.step),
            false => (None, None),
        };
        let calls = step
            .filter(|step| block.lane == Lane::Tools && step.actions > 1)
            .map(|step| self.calls(step));
        let facts = vec![
            ("Step", number),
            ("Took", Some(took)),
            ("Phase", phase),
            ("Calls", calls),
            ("Ended", end),
            ("First error", error),
        ];
        (class_of(block).to_owned(), href, title, facts, block.step)
    }

    /// Lists the calls of a step with their recorded durations.
    fn calls(&self, step: &crate::model::StepHead) -> String {
        const MAX: usize = 6;
        let index = self.view.index;
        let call = |call: &crate::model::CallMark| match call.ms() {
            Some(ms) => format!(
                "{} {}",
                index.name(call.name),
                format::millis(f64::from(ms))
            ),
            None => index.name(call.name).to_owned(),
        };
        let mut calls: Vec<String> = step.calls.iter().take(MAX).map(call).collect();
        let more = (step.actions as usize).saturating_sub(calls.len());
        if more > 0 {
            calls.push(format!("{} more", format::count(more as u64)));
        }
        calls.join(", ")
    }

    /// Names blocks that are drawn as one. They lead to the first that failed, or to the first.
    fn several(&self, group: &Group<'_, '_>) -> Named {
        let view = self.view;
        let blocks: Vec<&Block> = group
            .blocks
            .iter()
            .filter_map(|one| match one.what {
                What::Block(block) => Some(block),
                What::Child(_) => None,
            })
            .collect();
        let Some(first) = blocks.first() else {
            let children = format::counted(group.blocks.len(), "child run");
            let href = group
                .blocks
                .first()
                .map(|one| match one.what {
                    What::Child(child) => href::run(child.key.as_str()),
                    What::Block(_) => href::run(view.key()),
                })
                .unwrap_or_default();
            return ("t-c".to_owned(), href, children, Vec::new(), None);
        };
        let noun = match first.lane {
            Lane::Model if is_scripted(view) => "decision",
            Lane::Model => "model reply",
            Lane::Tools => "tool span",
            Lane::Engine => "engine phase",
            Lane::Steps | Lane::Nested => "step",
            Lane::User | Lane::Approval => "wait",
        };
        let count = match noun {
            "model reply" => format!("{} model replies", format::count(blocks.len() as u64)),
            _ => format::counted(blocks.len(), noun),
        };
        let failed = blocks.iter().filter(|block| block.is_failed).count();
        let first_failed = blocks.iter().find(|block| block.is_failed);
        let (title, share) = match failed {
            0 => (count, None),
            all if all == blocks.len() => (format!("{count}, all failed"), None),
            failed => {
                let (failed, all) = (failed as u64, blocks.len() as u64);
                let share = format!("{} of {}", format::count(failed), format::count(all));
                (count, Some(share))
            }
        };
        let class = match share {
            Some(_) => colour_of(first.lane),
            None => class_of(first),
        };
        let took: i64 = blocks
            .iter()
            .filter_map(|block| block.took())
            .fold(0_i64, i64::saturating_add);
        let steps = || blocks.iter().filter_map(|block| block.step);
        let range = steps().min().zip(steps().max());
        let term = match range {
            Some((from, to)) if from == to => "Step",
            _ => "Steps",
        };
        let range = range.map(|(from, to)| {
            if from == to {
                view.label(from)
            } else {
                format!("{}–{}", view.label(from), view.label(to))
            }
        });
        let target = first_failed.unwrap_or(first).step;
        let href = target.map_or_else(|| view.at_pending(), |n| view.at_step(n));
        let first_failed = first_failed
            .filter(|_| share.is_some())
            .and_then(|block| Some(view.label(block.step?)));
        let facts = vec![
            (term, range),
            ("Failed", share),
            ("First failed step", first_failed),
            ("Took", Some(micros(took))),
        ];
        (class.to_owned(), href, title, facts, target)
    }

    /// Returns the number of the turn that a step belongs to.
    fn turn(&self, n: usize) -> Option<usize> {
        let turn = self.lanes.turns.partition_point(|(first, _)| *first <= n);
        (turn > 0).then_some(turn)
    }
}

/// The class, address, title, facts and step of a block.
type Named = (
    String,
    String,
    String,
    Vec<(&'static str, Option<String>)>,
    Option<usize>,
);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Symbol;

    #[test]
    fn a_failure_among_others_is_merged_with_them() {
        let block = Block {
            lane: Lane::Tools,
            from: 0,
            to: 1,
            is_timed: true,
            step: Some(0),
            phase: Symbol::default(),
            is_failed: false,
            is_copied: false,
        };
        let placed: Vec<Placed<'_>> = (0..4_000)
            .map(|n| Placed {
                what: What::Block(&block),
                lane: 0,
                row: 0,
                rows: 1,
                left: f64::from(n) / 4e3,
                right: f64::from(n + 1) / 4e3,
                is_failed: n % 40 == 0,
            })
            .collect();
        let (groups, _) = merged(&placed);
        assert!(groups.len() <= MAX_MARKS);
        let all: usize = groups.iter().map(|group| group.blocks.len()).sum();
        assert_eq!(all, 4_000);
        let failed =
            |group: &Group<'_, '_>| group.blocks.iter().filter(|one| one.is_failed).count();
        assert_eq!(groups.iter().map(failed).sum::<usize>(), 100);
        assert!(
            groups
                .iter()
                .all(|group| failed(group) < group.blocks.len())
        );
    }
}
