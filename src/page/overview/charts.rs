//! Computes the coordinates of the charts. Horizontal ones are in percent of the width and vertical
//! ones in pixels, so that a chart follows the width of the page and its text never scales.

use askama::Template;
use askama::filters::HtmlSafe;

use crate::analysis::many::TROUBLE;
use crate::analysis::run_result::RunResult;

/// The height of the chart of runs, without its labels.
const HEIGHT: f64 = 240.0;
/// The height of a row of small bars.
pub(super) const SMALL: f64 = 22.0;
/// Room above small bars for the number of the highest one.
const PEAK_ROOM: f64 = 12.0;
/// The results from the line upwards, and from the line downwards.
const UPWARDS: [Option<RunResult>; 5] = [
    Some(RunResult::Success),
    Some(RunResult::Finished),
    Some(RunResult::Cancelled),
    Some(RunResult::Unknown),
    None,
];

/// How a result looks: its class, the pattern that fills it if any, and its symbol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Look {
    pub(super) class: &'static str,
    pub(super) fill: &'static str,
    pub(super) icon: &'static str,
    pub(super) tint: &'static str,
}

/// Returns how a result looks. `None` is a run that may still be running.
pub(super) fn look(result: Option<RunResult>) -> Look {
    let (class, fill, icon, tint) = match result {
        Some(RunResult::Success) => ("o-success", "", "i-ok", "ok"),
        Some(RunResult::Finished) => ("o-finished", "", "i-disc", "plain"),
        Some(RunResult::Cancelled) => ("o-cancelled", "url(#p-cancel)", "i-cancel", "plain"),
        Some(RunResult::Unknown) => ("o-unknown", "url(#p-unknown)", "i-unknown", "plain"),
        None => ("o-open", "", "i-ring", "running"),
        Some(RunResult::Limit) => ("o-limit", "url(#p-limit)", "i-limit", "limit"),
        Some(RunResult::Failed) => ("o-failed", "url(#p-failed)", "i-failed", "error"),
        Some(RunResult::Error) => ("o-error", "", "i-error", "error"),
    };
    Look {
        class,
        fill,
        icon,
        tint,
    }
}

/// Returns the word for a result.
pub(super) fn word(result: Option<RunResult>) -> &'static str {
    result.map_or("may still be running", RunResult::label)
}

/// All results in the order of the chart.
pub(super) fn order() -> impl Iterator<Item = Option<RunResult>> {
    UPWARDS.into_iter().chain(TROUBLE.map(Some))
}

/// A rectangle that is a link.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Mark {
    pub(super) href: String,
    pub(super) title: String,
    pub(super) class: &'static str,
    pub(super) fill: &'static str,
    pub(super) x: String,
    pub(super) y: String,
    pub(super) width: String,
    pub(super) height: String,
}

/// A label below a chart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Tick {
    pub(super) x: String,
    pub(super) anchor: &'static str,
    pub(super) words: String,
    /// Whether a narrow page shows it too.
    pub(super) is_major: bool,
}

/// A column of the chart of runs.
#[derive(Debug, Clone)]
pub(super) struct Column {
    pub(super) name: String,
    /// The terms that select its runs.
    pub(super) href: String,
    pub(super) runs: usize,
    /// The number of runs, the link to them, and the name of the result.
    pub(super) parts: Vec<Part>,
}

/// The runs of a column with one result.
#[derive(Debug, Clone)]
pub(super) struct Part {
    pub(super) result: Option<RunResult>,
    pub(super) runs: usize,
    pub(super) href: String,
}

/// Runs by day and result: trouble below the line, everything else above it, on one scale.
#[derive(Debug, Clone, Template)]
#[template(path = "overview/runs_chart.html")]
pub(super) struct RunsChart {
    pub(super) height: f64,
    pub(super) label: String,
    /// The lines: their place, their number, and whether it's the zero line.
    lines: Vec<(String, String, bool)>,
    /// The hit area of each column.
    columns: Vec<Mark>,
    marks: Vec<Mark>,
    /// The number above the highest column.
    peak: Option<(String, String, String)>,
    ticks: Vec<Tick>,
    tick_y: String,
}

impl HtmlSafe for RunsChart {}

impl RunsChart {
    pub(super) fn new(label: String, columns: &[Column], ticks: Vec<Tick>) -> Self {
        let is_trouble = |part: &&Part| part.result.is_some_and(|result| TROUBLE.contains(&result));
        let down = |column: &Column| -> usize {
            let parts = column.parts.iter().filter(is_trouble);
            parts.map(|part| part.runs).sum()
        };
        let up = |column: &Column| column.runs - down(column).min(column.runs);
        let most_up = columns.iter().map(up).max().unwrap_or_default();
        let most_down = columns.iter().map(down).max().unwrap_or_default();
        let step = nice(most_up.max(most_down).max(1) as f64 / 4.0);
        let above = (most_up as f64 / step).ceil().max(1.0) * step;
        let below = (most_down as f64 / step).ceil() * step;
        // The number above the highest column needs room.
        let (top, scale) = (14.0, HEIGHT / (above + below));
        let zero = top + above * scale;
        let count = ((above + below) / step).round() as usize;
        let lines = (0..=count).map(|n| {
            let value = above - n as f64 * step;
            let y = top + n as f64 * step * scale;
            (pixels(y), number(value.abs()), value.abs() < step / 2.0)
        });
        let width = 100.0 / columns.len().max(1) as f64;
        let mut marks = Vec::new();
        for (at, column) in columns.iter().enumerate() {
            let left = at as f64 * width;
            let (mut high, mut low) = (zero, zero + 1.0);
            for part in column.parts.iter().filter(|part| part.runs > 0) {
                let height = part.runs as f64 * scale;
                let y = if is_trouble(&part) {
                    low += height;
                    low - height
                } else {
                    high -= height;
                    high
                };
                let look = look(part.result);
                marks.push(Mark {
                    href: part.href.clone(),
                    title: format!("{}: {} {}", column.name, part.runs, word(part.result)),
                    class: look.class,
                    fill: look.fill,
                    x: percent(left + width * 0.1),
                    y: pixels(y),
                    width: percent(width * 0.8),
                    height: pixels(height.max(1.0)),
                });
            }
        }
        let peak = columns
            .iter()
            .enumerate()
            .max_by_key(|(at, column)| (column.runs, std::cmp::Reverse(*at)))
            .filter(|(_, column)| column.runs > 0)
            .map(|(at, column)| {
                (
                    percent((at as f64 + 0.5) * width),
                    pixels(zero - up(column) as f64 * scale - 4.0),
                    number(column.runs as f64),
                )
            });
        let hits = columns.iter().enumerate().map(|(at, column)| Mark {
            href: column.href.clone(),
            title: title(column),
            class: "hit",
            fill: "",
            x: percent(at as f64 * width),
            y: pixels(top),
            width: percent(width),
            height: pixels(HEIGHT),
        });
        Self {
            height: top + HEIGHT + 20.0,
            label,
            lines: lines.collect(),
            columns: hits.collect(),
            marks,
            peak,
            ticks,
            tick_y: pixels(top + HEIGHT + 15.0),
        }
    }
}

/// Words a column: `Tue 27 Oct: 54 runs. 7 success, 47 finished`.
fn title(column: &Column) -> String {
    let parts: Vec<String> = column
        .parts
        .iter()
        .filter(|part| part.runs > 0)
        .map(|part| format!("{} {}", part.runs, word(part.result)))
        .collect();
    let runs = crate::analysis::format::counted(column.runs, "run");
    match parts.is_empty() {
        true => format!("{}: no runs", column.name),
        false => format!("{}: {runs}. {}", column.name, parts.join(", ")),
    }
}

/// A row of small bars, each with its own link.
#[derive(Debug, Clone, Template)]
#[template(path = "overview/small_bars.html")]
pub(super) struct SmallBars {
    pub(super) label: String,
    pub(super) height: f64,
    base: String,
    marks: Vec<Mark>,
    /// The number of the highest bar: its position, its anchor, and the text.
    peak: Option<(String, &'static str, String)>,
}

impl HtmlSafe for SmallBars {}

/// A small bar.
#[derive(Debug, Clone)]
pub(super) struct Small {
    pub(super) value: f64,
    pub(super) href: String,
    pub(super) title: String,
}

impl SmallBars {
    /// With `peak`, the highest bar carries its number.
    pub(super) fn new(
        label: String,
        class: &'static str,
        height: f64,
        bars: Vec<Small>,
        peak: Option<&dyn Fn(f64) -> String>,
    ) -> Self {
        let most = bars.iter().map(|bar| bar.value).fold(0.0, f64::max);
        let width = 100.0 / bars.len().max(1) as f64;
        let room = if peak.is_some() { PEAK_ROOM } else { 0.0 };
        let highest = bars
            .iter()
            .enumerate()
            .max_by(|(_, a), (_, b)| a.value.total_cmp(&b.value));
        let peak = highest
            .zip(peak)
            .filter(|((_, bar), _)| bar.value > 0.0)
            .map(|((at, bar), words)| {
                let middle = (at as f64 + 0.5) * width;
                // A number at the edge must not leave the chart.
                let (x, anchor) = match middle {
                    ..15.0 => (at as f64 * width, "start"),
                    85.0.. => ((at as f64 + 1.0) * width, "end"),
                    _ => (middle, "middle"),
                };
                (percent(x), anchor, words(bar.value))
            });
        let marks = bars.into_iter().enumerate().filter_map(|(at, bar)| {
            if bar.value <= 0.0 || !bar.value.is_finite() {
                return None;
            }
            let size = (bar.value / most * (height - 1.0 - room)).max(1.5);
            Some(Mark {
                href: bar.href,
                title: bar.title,
                class,
                fill: "",
                x: percent(at as f64 * width + width * 0.11),
                y: pixels(height - 0.5 - size),
                width: percent(width * 0.78),
                height: pixels(size),
            })
        });
        Self {
            marks: marks.collect(),
            base: pixels(height - 0.5),
            label,
            height,
            peak,
        }
    }
}

/// The results of some runs as one bar.
#[derive(Debug, Clone, Template)]
#[template(path = "overview/mix.html")]
pub(super) struct Mix {
    pub(super) label: String,
    pub(super) marks: Vec<Mark>,
}

impl HtmlSafe for Mix {}

impl Mix {
    pub(super) fn new(parts: Vec<Part>) -> Self {
        let all: usize = parts.iter().map(|part| part.runs).sum();
        let scale = 100.0 / all.max(1) as f64;
        let words = |part: &Part| format!("{} {}", part.runs, word(part.result));
        let label: Vec<String> = parts
            .iter()
            .filter(|part| part.runs > 0)
            .map(words)
            .collect();
        let mut before = 0;
        let mut marks = Vec::new();
        for part in parts.into_iter().filter(|part| part.runs > 0) {
            let (x, width) = (before as f64 * scale, part.runs as f64 * scale);
            before += part.runs;
            let look = look(part.result);
            marks.push(Mark {
                title: words(&part),
                href: part.href,
                class: look.class,
                fill: look.fill,
                x: percent(x),
                y: "0".to_owned(),
                width: percent((width - 0.3).max(0.3)),
                height: "10".to_owned(),
            });
        }
        Self {
            label: label.join(", "),
            marks,
        }
    }
}

/// The median and the 95th percentile of durations, on a logarithmic scale.
#[derive(Debug, Clone, Template)]
#[template(path = "overview/range.html")]
pub(super) struct Range {
    label: String,
    from: String,
    to: String,
}

impl HtmlSafe for Range {}

/// The durations at which a [`Range`] has a line, in milliseconds, with their names.
pub(super) const LINES: [(f64, &str); 4] = [
    (100.0, "0.1 s"),
    (1e3, "1 s"),
    (1e4, "10 s"),
    (1e5, "100 s"),
];

impl Range {
    pub(super) fn new(p50: f64, p95: f64) -> Self {
        let [low, high] = [p50, p95].map(crate::analysis::format::millis);
        Self {
            label: format!("p50 {low}, p95 {high}"),
            from: Self::place(&p50),
            to: Self::place(&p95),
        }
    }

    /// Returns the place of a duration: from 10 ms to 500 s.
    pub(super) fn place(ms: &f64) -> String {
        const FIRST: f64 = 10.0;
        const LAST: f64 = 500_000.0;
        let ms = ms.clamp(FIRST, LAST);
        percent((ms / FIRST).log10() / (LAST / FIRST).log10() * 100.0)
    }
}

/// Runs by hour of the week. The area of a dot is the number of runs.
#[derive(Debug, Clone, Template)]
#[template(path = "overview/hours.html")]
pub(super) struct Hours {
    pub(super) label: String,
    height: f64,
    /// The days: their name, the sum of the row, and the place of the text.
    rows: Vec<(&'static str, String, String)>,
    /// The places without a run.
    empty: Vec<(String, String)>,
    dots: Vec<Dot>,
    /// The hours below.
    hours: Vec<(String, String, bool)>,
    hours_y: String,
}

impl HtmlSafe for Hours {}

#[derive(Debug, Clone)]
pub(super) struct Dot {
    pub(super) href: String,
    pub(super) title: String,
    pub(super) x: String,
    pub(super) y: String,
    pub(super) radius: String,
}

/// The days of the week as people read them.
pub(super) const WEEKDAYS: [&str; 7] = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];

impl Hours {
    pub(super) fn new(
        label: String,
        hours: &[Vec<usize>],
        href: impl Fn(usize, usize) -> String,
    ) -> Self {
        const CELL: f64 = 21.0;
        const LARGEST: f64 = 8.6;
        let most = hours.iter().flatten().copied().max().unwrap_or(1).max(1);
        let x = |hour: usize| percent((hour as f64 + 0.5) * 100.0 / 24.0);
        let y = |day: usize| day as f64 * CELL + 11.0;
        let (mut empty, mut dots) = (Vec::new(), Vec::new());
        for (day, row) in hours.iter().enumerate() {
            for (hour, runs) in row.iter().copied().enumerate() {
                if runs == 0 {
                    empty.push((x(hour), pixels(y(day))));
                    continue;
                }
                let name = WEEKDAYS.get(day).copied().unwrap_or_default();
                let radius = (runs as f64 / most as f64).sqrt() * LARGEST;
                dots.push(Dot {
                    href: href(day, hour),
                    title: format!(
                        "{name} {hour:02}:00–{:02}:00: {}",
                        hour + 1,
                        crate::analysis::format::counted(runs, "run")
                    ),
                    x: x(hour),
                    y: pixels(y(day)),
                    radius: pixels(radius.max(1.4)),
                });
            }
        }
        let rows = WEEKDAYS.iter().zip(hours).enumerate();
        Self {
            label,
            height: 7.0 * CELL + 20.0,
            rows: rows
                .map(|(day, (name, row))| {
                    let sum: usize = row.iter().sum();
                    (*name, number(sum as f64), pixels(y(day) + 4.0))
                })
                .collect(),
            empty,
            dots,
            hours: (0..24)
                .step_by(3)
                .map(|hour| (x(hour), format!("{hour:02}"), hour % 6 == 0))
                .collect(),
            hours_y: pixels(7.0 * CELL + 14.0),
        }
    }
}

/// Returns a step of a scale that people can read: 1, 2 or 5 times a power of ten.
fn nice(step: f64) -> f64 {
    let step = step.max(1.0);
    let power = 10_f64.powf(step.log10().floor());
    [1.0, 2.0, 5.0, 10.0]
        .into_iter()
        .map(|factor| factor * power)
        .find(|nice| *nice >= step - 1e-9)
        .unwrap_or(step)
}

pub(super) fn percent(value: f64) -> String {
    format!("{value:.2}%")
}

fn pixels(value: f64) -> String {
    format!("{value:.1}")
}

fn number(value: f64) -> String {
    crate::analysis::format::count(value.round() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_of_a_scale_are_round() {
        for (step, nice_step) in [
            (0.2, 1.0),
            (1.3, 2.0),
            (4.0, 5.0),
            (33.0, 50.0),
            (60.0, 100.0),
        ] {
            assert!((nice(step) - nice_step).abs() < 1e-9, "{step}");
        }
    }

    #[test]
    fn trouble_is_below_the_line_and_both_halves_share_a_scale() {
        let part = |result, runs| Part {
            result,
            runs,
            href: String::new(),
        };
        let column = Column {
            name: "Mon".to_owned(),
            href: String::new(),
            runs: 12,
            parts: vec![
                part(Some(RunResult::Finished), 8),
                part(None, 0),
                part(Some(RunResult::Limit), 4),
            ],
        };
        let chart = RunsChart::new(String::new(), &[column], Vec::new());
        let [up, down] = &chart.marks[..] else {
            panic!("{chart:?}");
        };
        let y = |mark: &Mark| mark.y.parse::<f64>().unwrap();
        let height = |mark: &Mark| mark.height.parse::<f64>().unwrap();
        assert!((height(up) / height(down) - 2.0).abs() < 0.01);
        let zero = chart.lines.iter().find(|(.., is_zero)| *is_zero).unwrap();
        let zero: f64 = zero.0.parse().unwrap();
        assert!((y(up) + height(up) - zero).abs() < 0.2, "{chart:?}");
        assert!((y(down) - zero - 1.0).abs() < 0.2, "{chart:?}");
        assert_eq!(title_of(&chart), "Mon: 12 runs. 8 finished, 4 limit");
    }

    fn title_of(chart: &RunsChart) -> &str {
        &chart.columns[0].title
    }
}
