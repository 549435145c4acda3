//! How does a sweep look as a picture? Answers kept against what is spent: one point a limit, points at one place as one.

use crate::analysis::format;
use crate::analysis::sweep::{Measure, Sum, Sweep};
use crate::page::part::text::Line;
use crate::page::sweep::Standing;
use crate::page::sweep::table::{limit, row_id};
use crate::page::sweep::words::amount;

/// The picture's inner part; its template draws the rest around it.
const WIDTH: f64 = 640.0;
const HEIGHT: f64 = 200.0;
/// A label needs so much room of its own.
const ROOM: (f64, f64) = (34.0, 14.0);

/// The curve of the limits.
#[derive(Debug, Clone, Default)]
pub(crate) struct Curve {
    /// What it shows, in a sentence.
    pub label: Line,
    /// The words along the lower edge: `tokens spent over 96 runs`.
    pub across: String,
    /// The words along the left edge: `answers kept, of 52`.
    pub up: String,
    /// Marks along the lower edge.
    pub ticks_x: Vec<Tick>,
    /// Marks along the left edge.
    pub ticks_y: Vec<Tick>,
    /// The line through the points.
    pub line: String,
    /// The points, from the strictest limit to the loosest.
    pub points: Vec<Point>,
    /// What was recorded.
    pub recorded: Point,
}

/// A mark on an edge.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Tick {
    /// Its place.
    pub at: String,
    /// Its number.
    pub text: String,
}

/// What a point stands for besides its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Mark {
    /// A limit.
    #[default]
    Limit,
    /// The limit that saves most without losing an answer.
    Best,
    /// What was recorded.
    Recorded,
}

impl Mark {
    /// The class that draws it.
    pub(crate) fn class(self) -> &'static str {
        match self {
            Mark::Limit => "pt",
            Mark::Best => "pt best",
            Mark::Recorded => "pt rec",
        }
    }

    /// Its size.
    pub(crate) fn radius(self) -> &'static str {
        match self {
            Mark::Limit => "4",
            Mark::Best => "6",
            Mark::Recorded => "8",
        }
    }
}

/// A place in the picture.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Point {
    /// From the left.
    pub x: String,
    /// From above.
    pub y: String,
    /// The row of the table with the same numbers.
    pub href: String,
    /// All of it in words.
    pub title: Line,
    /// The limit, where there is room for it.
    pub label: Option<Line>,
    /// Where the label is, to the right.
    pub label_x: String,
    /// Where the label is, from above.
    pub label_y: String,
    /// Which part of the label is there: `middle` or `end`.
    pub anchor: &'static str,
    /// What it stands for.
    pub mark: Mark,
}

/// Draws the limits; `Err` says why there is nothing to draw.
pub(crate) fn curve(standing: &Standing<'_>, sweep: &Sweep, best: Option<usize>) -> Result<Curve, &'static str> {
    let measure = sweep.measure();
    let dial = standing.inquiry.dial().ok_or("")?;
    let first = sweep.limits().first().map(|effect| *effect.sum(measure)).unwrap_or_default();
    let (answers, recorded) = (first.answers, first.recorded());
    if first.runs == 0 {
        return Err("There is no curve: of no run can it be told what each of these limits would have spent.");
    }
    if answers == 0 || recorded == 0 {
        return Err("There is no curve: none of these runs has an answer that a limit could lose.");
    }
    let place = |sum: &Sum| {
        let x = WIDTH * sum.spent as f64 / recorded as f64;
        let y = HEIGHT * (1.0 - sum.kept as f64 / answers as f64);
        (format!("{x:.1}"), format!("{y:.1}"), x, y)
    };
    let values = standing.inquiry.values();
    let groups = groups(sweep, measure, best);
    let mut taken: Vec<(f64, f64)> = Vec::new();
    let mut label = |x: f64, y: f64| {
        let free = taken.iter().all(|(a, b)| (a - x).abs() > ROOM.0 || (b - y).abs() > ROOM.1);
        if free {
            taken.push((x, y));
        }
        free
    };
    // The two that matter have their label whatever else is near.
    label(WIDTH, 0.0);
    if let Some(effect) = best.and_then(|best| sweep.limits().get(best)) {
        let (_, _, x, y) = place(effect.sum(measure));
        label(x, y);
    }
    let mut points = Vec::new();
    for group in &groups {
        let Some(effect) = sweep.limits().get(group.start) else { continue };
        let sum = effect.sum(measure);
        let (x, y, at_x, at_y) = place(sum);
        let mark = if group.is_best { Mark::Best } else { Mark::Limit };
        let name = name(values.get(group.start), values.get(group.end));
        let words = format!(
            "{} {name}: {} of {answers} answers kept, {} spent, {} saved, {} cut",
            dial.name(),
            sum.kept,
            amount(sum.spent, measure),
            amount(sum.saved, measure),
            format::counted(effect.cut as usize, "run"),
        );
        let shown = group.is_best || label(at_x, at_y);
        // Above its point it would run into the label of what is recorded; there it stands before its point.
        let at_edge = at_x > WIDTH - 60.0 && at_y < 40.0;
        points.push(Point {
            label_x: format!("{:.1}", if at_edge { at_x - 10.0 } else { at_x }),
            label_y: format!("{:.1}", if at_edge { at_y + 4.0 } else { at_y - 10.0 }),
            anchor: if at_edge { "end" } else { "middle" },
            x,
            y,
            href: format!("#{}", row_id(group.start)),
            title: words.into(),
            label: shown.then(|| name.into()),
            mark,
        });
    }
    let line: Vec<String> = points.iter().map(|point| format!("{},{}", point.x, point.y)).collect();
    let tick = |share: f64, text: String, size: f64| Tick { at: format!("{:.1}", share * size), text };
    let whole = |number: u64| match measure {
        Measure::Tokens => format::tokens(number),
        _ => format::count(number),
    };
    // Each stands where its whole number is.
    let parts = recorded.clamp(1, 4);
    let ticks = (0..=parts).map(|part| recorded.saturating_mul(part) / parts);
    let unit = if measure == Measure::Tokens { "tokens" } else { "steps" };
    let over = format::counted(first.runs as usize, "run");
    Ok(Curve {
        label: format!("Answers kept against {unit} spent, one point for each limit of {}", dial.name()).into(),
        across: format!("{unit} spent, over {over}"),
        up: format!("answers kept, of {}", format::count(answers)),
        ticks_x: ticks.map(|number| tick(number as f64 / recorded.max(1) as f64, whole(number), WIDTH)).collect(),
        // Half an answer is none.
        ticks_y: [0.0, 0.5, 1.0]
            .into_iter()
            .filter(|share| (answers as f64 * share).fract() == 0.0)
            .map(|share| tick(1.0 - share, format::count((answers as f64 * share) as u64), HEIGHT))
            .collect(),
        line: line.join(" "),
        points,
        recorded: Point {
            x: format!("{WIDTH:.1}"),
            y: "0.0".to_owned(),
            href: "#recorded".to_owned(),
            title: format!("as recorded: {answers} answers, {}", amount(recorded, measure)).into(),
            label_x: format!("{WIDTH:.1}"),
            label_y: "-14.0".to_owned(),
            anchor: "middle",
            mark: Mark::Recorded,
            ..Point::default()
        },
    })
}

/// Limits that follow each other and come to the same place.
struct Group {
    start: usize,
    end: usize,
    is_best: bool,
}

fn groups(sweep: &Sweep, measure: Measure, best: Option<usize>) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    for (place, effect) in sweep.limits().iter().enumerate() {
        let same = |group: &&mut Group| {
            sweep.limits().get(group.start).is_some_and(|first| first.sum(measure) == effect.sum(measure))
        };
        match groups.last_mut().filter(same) {
            Some(group) => group.end = place,
            None => groups.push(Group { start: place, end: place, is_best: false }),
        }
    }
    for group in &mut groups {
        group.is_best = best.is_some_and(|best| (group.start..=group.end).contains(&best));
    }
    groups
}

/// `14`, or `20–40`.
fn name(from: Option<&f64>, to: Option<&f64>) -> String {
    match (from, to) {
        (Some(from), Some(to)) if from != to => format!("{}–{}", limit(*from), limit(*to)),
        (Some(one), _) => limit(*one),
        _ => String::new(),
    }
}
