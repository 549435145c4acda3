//! Draws all steps of a run as one narrow picture, with links to notable steps. It has a lane for
//! the lowest score, one for the duration, and one for each kind of mark.
//!
//! Up to [`COLUMNS`] steps, each step has its own column. In longer runs, a column shows the
//! extremes of its steps. A lane is one path, however long the run. The words below the picture
//! state the same facts and link to steps. Links to ranges of steps cover the picture, so that it
//! works without scripts. These links are not tab stops, because the words are, and any step can be
//! reached by its number.

use std::fmt::Write as _;

use askama::Template;
use askama::filters::HtmlSafe;

use crate::analysis::format;
use crate::analysis::overview::{Context, Extremes, MARKS, Overview};
use crate::analysis::replay::StepFlag;
use crate::page::part::href;
use crate::page::part::text;
use crate::page::run_view::{RunView, micros};

/// Columns, at most: about as many as a wide page has pixels.
pub(crate) const COLUMNS: usize = 1_200;
/// Maximum number of links over the picture.
const LINKS: usize = 36;
/// Step labels below the picture, at most approximately.
const LABELS: usize = 20;
/// Heights of a lane of scores, of durations, of input tokens and of one kind of mark, and the gap
/// between lanes.
const SCORE: usize = 16;
const TIME: usize = 10;
const CONTEXT: usize = 28;
const MARK: usize = 6;
/// The smallest height of a bar of input tokens, and of a mark.
const LEAST: usize = 2;
const GAP: usize = 2;

/// The strip of a run, with the element id `strip`.
#[derive(Debug, Clone, Default, Template)]
#[template(path = "part/strip.html")]
pub(crate) struct Strip {
    steps: usize,
    columns: usize,
    height: usize,
    /// The class and path of each lane.
    lanes: Vec<(&'static str, String)>,
    /// The column of the current step.
    here: Option<usize>,
    /// The address and words of each range of steps.
    links: Vec<(String, String)>,
    /// The legend: class, symbol, words, address.
    legend: Vec<(&'static str, &'static str, String, String)>,
    /// Whether a click seeks to its position, as on a slider of the same width.
    seeks: bool,
    /// Step labels below the picture: the distance from the left edge in percent, and the label.
    axis: Vec<(f64, String)>,
}

/// Assigns steps to columns that may differ in width.
pub(crate) struct Layout<'a> {
    pub columns: usize,
    /// Returns the first and the last column of a step. Must be in the order of the steps.
    pub place: &'a dyn Fn(usize) -> (usize, usize),
    /// Returns the address of a step.
    pub to: &'a dyn Fn(usize) -> String,
    /// The marked column.
    pub here: usize,
    /// Which columns have a breakpoint. `stops` is the first step with one, and the number of such
    /// steps.
    pub hits: &'a [bool],
    pub stops: Option<(usize, usize)>,
}

impl HtmlSafe for Strip {}

impl Strip {
    /// Draws all steps of a run. The strip is hidden if there are fewer than two steps or nothing
    /// to draw. Links open `tab`, and step `current` is marked.
    pub(crate) fn new(view: &RunView<'_>, tab: &str, current: Option<usize>) -> Self {
        let steps = view.index.steps().len();
        if steps < 2 {
            return Self::default();
        }
        let columns = steps.min(COLUMNS);
        let column = |n: usize| n * columns / steps;
        let to = |n: usize| {
            let run = href::run(view.key());
            // Saved files look for this order of parameters, which all links to steps use.
            href::with_query(&run, &[("step", &n.to_string()), ("tab", tab)])
        };
        let place = |n: usize| (column(n), column(n));
        let layout = Layout {
            columns,
            place: &place,
            to: &to,
            here: 0,
            hits: &[],
            stops: None,
        };
        let drawn = Self::draw(view, &layout, |overview, columns| overview.of(columns));
        if drawn.lanes.is_empty() {
            return Self::default();
        }
        Self {
            here: current.map(column),
            ..drawn
        }
    }

    /// Draws all steps aligned with a slider over events.
    pub(crate) fn along(view: &RunView<'_>, layout: &Layout<'_>) -> Self {
        let steps = view.index.steps().len();
        if steps == 0 || layout.columns < 2 {
            return Self::default();
        }
        let mut strip = Self::draw(view, layout, |_, _| None);
        if let Some((first_step, count)) = layout.stops {
            let words = format!(
                "{}{}",
                format::counted(count, "breakpoint hit"),
                first(count, &view.label(first_step))
            );
            strip
                .legend
                .push(("hit", "", words, (layout.to)(first_step)));
            strip.lanes.push((
                "hit",
                bars(
                    layout
                        .hits
                        .iter()
                        .map(|is_hit| f64::from(u8::from(*is_hit))),
                    strip.height,
                ),
            ));
            strip.height += MARK + GAP;
        }
        let every = steps.div_ceil(LABELS).max(1);
        let middle = |n: usize| {
            let (first, last) = (layout.place)(n);
            (first + last) as f64 * 50.0 / (layout.columns - 1) as f64
        };
        strip.axis = (0..steps)
            .step_by(every)
            .map(|n| (middle(n), view.label(n)))
            .collect();
        Self {
            here: Some(layout.here),
            seeks: true,
            ..strip
        }
    }

    /// Draws the strip. `known` returns the extremes of a range of columns, if each step has only
    /// one column.
    fn draw(
        view: &RunView<'_>,
        layout: &Layout<'_>,
        known: impl Fn(&Overview, std::ops::Range<usize>) -> Option<Extremes>,
    ) -> Self {
        let Layout {
            columns, place, to, ..
        } = *layout;
        let (index, steps) = (view.index, view.index.steps().len());
        let overview = Overview::new(index, view.summary.prices.as_deref(), columns, place);
        let (lanes, height) = lanes(&overview);
        let shown = columns.min(LINKS);
        // Finds the first step that a monotonic condition accepts.
        let search = |from: &dyn Fn(usize) -> bool| {
            let (mut low, mut high) = (0, steps);
            while low < high {
                let middle = low.midpoint(high);
                if from(middle) {
                    high = middle
                } else {
                    low = middle + 1
                }
            }
            low
        };
        let links = (0..shown).map(|link| {
            let range = link * columns / shown..(link + 1) * columns / shown;
            let first = search(&|n| place(n).1 >= range.start).min(steps - 1);
            let end = search(&|n| place(n).0 >= range.end).max(first + 1);
            let within =
                known(&overview, range).unwrap_or_else(|| Overview::among(index, first, end));
            (
                to(within.first().unwrap_or(first)),
                range_words(view, first, end, &within),
            )
        });
        let links = links.collect();
        // The picture shows every run in the directory. The words describe the newest, like all
        // numbers of the header.
        let newest = match index.newest_start() {
            0 => overview.whole,
            start => Extremes {
                turns: overview.whole.turns,
                compacted: overview.whole.compacted,
                ..Overview::among(index, start, steps)
            },
        };
        let legend = legend(view, &newest, &overview, to);
        Self {
            steps,
            columns,
            height,
            lanes,
            links,
            legend,
            ..Self::default()
        }
    }
}

/// Returns the class and path of each lane that isn't empty, and their total height.
pub(crate) fn lanes(overview: &Overview) -> (Vec<(&'static str, String)>, usize) {
    let (whole, columns) = (&overview.whole, &overview.columns);
    let (mut lanes, mut top) = (Vec::new(), 1);
    if whole.lowest.is_some() {
        // Scores outside the scale are drawn at its edge. The words have the number.
        let height = |column: &Extremes| {
            column
                .lowest
                .map(|(score, _)| (1.0 - score.clamp(0.0, 1.0)) * SCORE as f64)
        };
        lanes.push(("low", stairs(columns.iter().map(height), top, None)));
        top += SCORE + GAP;
    }
    if let Some(fullest) = whole.fullest {
        let window = overview.window.map_or(0, |window| window.tokens);
        // The peak of a small context reaches an eighth of the height. The words state its share.
        let all = window
            .min(fullest.input.saturating_mul(8))
            .max(fullest.input);
        // Whole pixels, because neighbors are often alike and then share a line of the path.
        let height = |tokens: u64| {
            let height = (CONTEXT as f64 * (1.0 - tokens as f64 / all as f64)).round();
            match tokens {
                0 => height,
                _ => height.min((CONTEXT - LEAST) as f64),
            }
        };
        let tokens = |of: fn(&Context) -> Option<u64>| {
            columns
                .iter()
                .map(move |column| column.fullest.as_ref().and_then(of).map(height))
        };
        let base = Some(top + CONTEXT);
        // The cached part covers the lower part of the whole.
        let new = stairs(
            tokens(|context| context.cached.map(|_| context.input)),
            top,
            base,
        );
        lanes.extend(Some(("ctx-new", new)).filter(|(_, path)| !path.is_empty()));
        let rest = tokens(|context| Some(context.cached.unwrap_or(context.input)));
        lanes.push(("ctx", stairs(rest, top, base)));
        let cuts = columns.iter().enumerate();
        let cuts = cuts.filter(|(_, column)| column.compacted.is_some());
        let cuts: String = cuts.map(|(x, _)| format!("M{x} {top}v{CONTEXT}")).collect();
        lanes.extend(Some(("cut", cuts)).filter(|(_, path)| !path.is_empty()));
        top += CONTEXT + GAP;
    } else if let Some((longest, _)) = whole.longest.filter(|(longest, _)| *longest > 0) {
        // The shortest duration is drawn one unit high, so that only an unknown duration is a gap.
        let height = |column: &Extremes| {
            column
                .longest
                .map(|(took, _)| (TIME as f64 - 1.0) * (1.0 - took as f64 / longest as f64))
        };
        lanes.push((
            "took",
            stairs(columns.iter().map(height), top, Some(top + TIME)),
        ));
        top += TIME + GAP;
    }
    let kinds = MARKS
        .iter()
        .enumerate()
        .map(|(at, mark)| (class(*mark), Some(at)));
    for (class, at) in kinds.chain([("turn", None)]) {
        let of = |column: &Extremes| {
            at.map_or(column.turns, |at| column.marks.get(at).copied().flatten())
        };
        if of(whole).is_some() {
            // Of several steps in a column, the height shows the share that has the mark.
            let share = |column: &Extremes| match (of(column), at) {
                (Some((_, count)), Some(_)) => count as f64 / column.steps.max(1) as f64,
                (found, _) => f64::from(u8::from(found.is_some())),
            };
            lanes.push((class, bars(columns.iter().map(share), top)));
            top += MARK + GAP;
        }
    }
    (lanes, top)
}

fn class(mark: StepFlag) -> &'static str {
    match mark {
        StepFlag::Error => "error",
        StepFlag::Stop => "stop",
        StepFlag::Retry => "retry",
        StepFlag::Code => "code",
    }
}

/// Draws a line that steps from column to column at heights below `top`, filled down to `base` if
/// given. A missing height is a gap.
fn stairs(heights: impl Iterator<Item = Option<f64>>, top: usize, base: Option<usize>) -> String {
    let mut path = String::new();
    let mut before = None;
    for (x, height) in heights.enumerate() {
        // Differences below a tenth of a pixel can't be seen.
        let y = height.map(|height| ((top as f64 + height) * 10.0).round() / 10.0);
        let _ = match (before, y, base) {
            (None, Some(y), None) => write!(path, "M{x} {y}h1"),
            (None, Some(y), Some(base)) => write!(path, "M{x} {base}V{y}h1"),
            (Some(last), Some(y), _) if last == y => write!(path, "h1"),
            (Some(_), Some(y), _) => write!(path, "V{y}h1"),
            (Some(_), None, Some(base)) => write!(path, "V{base}"),
            (_, None, _) => Ok(()),
        };
        before = y;
    }
    if let Some(base) = base.filter(|_| before.is_some()) {
        let _ = write!(path, "V{base}");
    }
    path
}

/// Draws a bar for each group of adjacent columns with the same share of marked steps, as high as the
/// share.
fn bars(shares: impl Iterator<Item = f64>, top: usize) -> String {
    let mut path = String::new();
    let base = top + MARK;
    // Half pixels can be seen.
    let height = |share: f64| match share > 0.0 {
        true => ((share * MARK as f64).max(LEAST as f64) * 2.0).round() / 2.0,
        false => 0.0,
    };
    let mut open: Option<(usize, f64)> = None;
    for (x, height) in shares.map(height).chain([0.0]).enumerate() {
        if let Some((first, own)) = open.filter(|(_, own)| *own != height) {
            let y = base as f64 - own;
            let _ = write!(path, "M{first} {base}V{y}H{x}V{base}");
            open = None;
        }
        if height > 0.0 && open.is_none() {
            open = Some((x, height));
        }
    }
    path
}

/// Describes a range of steps: `steps 12–20: 2 errors, lowest score 0.20`.
fn range_words(view: &RunView<'_>, first: usize, end: usize, within: &Extremes) -> String {
    let mut words = match end - first {
        1 => format!("step {}", view.label(first)),
        _ => format!("steps {}–{}", view.label(first), view.label(end - 1)),
    };
    let counts = MARKS
        .iter()
        .zip(within.marks)
        .filter_map(|(mark, found)| Some(many(*mark, found?.1)));
    let turns = within
        .turns
        .map(|(_, count)| format::counted(count, "turn start"));
    let mut details: Vec<String> = counts.chain(turns).collect();
    details.extend(within.fullest.map(|context| {
        let tokens = format::tokens(context.input);
        match end - first {
            1 => format!("{tokens} input tokens"),
            _ => format!("up to {tokens} input tokens"),
        }
    }));
    details.extend(
        within
            .lowest
            .map(|(score, _)| format!("lowest score {}", format::score(score))),
    );
    details.extend(within.longest.map(|(took, _)| match end - first {
        1 => micros(took),
        _ => format!("longest {}", micros(took)),
    }));
    // Each run in a directory numbers its steps from the start.
    let run_starts = view.index.lap_starts();
    if run_starts.len() > 1 {
        let run_index = |n: usize| run_starts.partition_point(|start| *start <= n).max(1);
        let _ = match (run_index(first), run_index(end - 1)) {
            (one, last) if one == last => write!(words, " of run {one}"),
            (one, last) => write!(words, " of runs {one} to {last}"),
        };
    }
    if !details.is_empty() {
        words = format!("{words}: {}", details.join(", "));
    }
    words
}

/// Counts marks in words: `2 errors`.
fn many(mark: StepFlag, count: usize) -> String {
    match mark {
        StepFlag::Error => format::counted(count, "error"),
        StepFlag::Stop => format::counted(count, "critic stop"),
        StepFlag::Retry if count == 1 => "1 retry".to_owned(),
        StepFlag::Retry => format!("{} retries", format::count(count as u64)),
        StepFlag::Code => format::counted(count, "failed command"),
    }
}

/// Counts the steps with a mark. The verdict counts different commands instead.
fn steps_with(mark: StepFlag, count: usize) -> String {
    match mark {
        StepFlag::Error => format::counted(count, "failed step"),
        StepFlag::Code if count == 1 => "1 step with a failed command".to_owned(),
        StepFlag::Code => format!("{} with failed commands", format::counted(count, "step")),
        StepFlag::Stop | StepFlag::Retry => many(mark, count),
    }
}

/// Lists the extremes and marks of the newest run, in the order of the lanes.
fn legend(
    view: &RunView<'_>,
    whole: &Extremes,
    overview: &Overview,
    to: impl Fn(usize) -> String,
) -> Vec<(&'static str, &'static str, String, String)> {
    let mut legend = Vec::new();
    let label = |n: usize| view.label(n);
    let lowest = whole.lowest.map(|(score, n)| {
        (
            "low",
            format!(
                "lowest score: {} at step {}",
                format::score(score),
                label(n)
            ),
            n,
        )
    });
    if let Some(Context { input, step, .. }) = whole.fullest {
        let tokens = format::tokens(input);
        let at = format!("at step {}", label(step));
        let words = match overview.window {
            Some(window) => format!(
                "peak context {tokens} of {} tokens ({}) {at}{}",
                format::tokens(window.tokens),
                format::percent(input, window.tokens),
                window.note()
            ),
            // The verdict names the window.
            None if view.summary.verdict.stop_reason.as_deref() == Some("context_overflow") => {
                format!("peak context {tokens} tokens {at}")
            }
            None => format!("peak context {tokens} tokens {at}, context window unknown"),
        };
        legend.push(("ctx", "", words, to(step)));
        if let Some((input, cached)) = overview.cached {
            let share = format::percent(cached, input);
            let words = format!("{share} of the input cached");
            legend.push(("ctx-new", "", words, to(step)));
        }
    }
    let longest = whole
        .longest
        .filter(|(took, _)| *took > 0 && whole.fullest.is_none());
    let longest = longest.map(|(took, n)| {
        (
            "took",
            format!("longest: step {}, {}", label(n), micros(took)),
            n,
        )
    });
    legend.extend(
        lowest
            .into_iter()
            .chain(longest)
            .map(|(class, words, n)| (class, "", words, to(n))),
    );
    for (mark, found) in MARKS.iter().zip(whole.marks) {
        let icon = match mark {
            StepFlag::Error => "error",
            StepFlag::Stop => "critic",
            StepFlag::Retry => "retry",
            StepFlag::Code => "",
        };
        if let Some((n, count)) = found {
            let unread = match mark {
                StepFlag::Error => view.summary.errors_unread.min(count),
                _ => 0,
            };
            let words = match (count - unread, unread) {
                (failed, 0) => steps_with(*mark, failed),
                (0, unread) => format::counted(unread, "unreadable line"),
                (failed, unread) => format!(
                    "{}, {}",
                    steps_with(*mark, failed),
                    format::counted(unread, "unreadable line")
                ),
            };
            let words = format!("{words}{}", first(count, &label(n)));
            legend.push((class(*mark), icon, words, to(n)));
        }
    }
    if let Some((n, count)) = whole.turns {
        legend.push(("turn", "", format::counted(count, "turn start"), to(n)));
    }
    if let Some((n, count)) = whole.compacted {
        let words = format!(
            "{}{}",
            format::counted(count, "compaction"),
            first(count, &label(n))
        );
        legend.push(("cut", "", words, to(n)));
    }
    legend
}

/// Names the step of the only mark, or of the first of several.
fn first(count: usize, label: &str) -> String {
    if count > 1 {
        format!(", the first at step {label}")
    } else {
        format!(" at step {label}")
    }
}

#[cfg(test)]
mod tests;
