//! Draws a sweep as a curve of answers kept against steps or tokens spent, with one point for each
//! limit. Limits with the same result share a point.

use std::ops::RangeInclusive;

use crate::analysis::format;
use crate::analysis::sweep::{Measure, PreparedSweep, Sum, Sweep, SweepRule};
use crate::page::sweep::table::{amount, limit, row_id};

/// The size of the plot area, which stretches to the width of the page. The template draws the axes
/// around it.
const WIDTH: f64 = 640.0;
const HEIGHT: f64 = 200.0;
/// The space that a label needs, horizontally and vertically.
const ROOM: (f64, f64) = (34.0, 14.0);

/// The curve of the limits.
#[derive(Debug)]
pub(super) struct Curve<'a> {
    sweep_rule: &'a SweepRule,
    measure: Measure,
    /// The sum at any limit. The recorded values are the same in all of them.
    sum: Sum,
    /// Whether the sum covers all runs.
    is_whole: bool,
    /// Points from the strictest limit to the loosest.
    pub(super) points: Vec<Point>,
}

/// One or more consecutive limits with the same result.
#[derive(Debug)]
pub(super) struct Point {
    pub(super) x: f64,
    pub(super) y: f64,
    /// The element id of the table row with the same numbers.
    pub(super) row: String,
    /// The limit: `14`, or `20–40`.
    pub(super) name: String,
    /// The full description.
    pub(super) title: String,
    /// Whether it saves the most without losing an answer.
    pub(super) is_best: bool,
    /// Whether there is room for its label.
    pub(super) is_named: bool,
}

impl Point {
    /// Returns the label's horizontal offset from the point, its distance from the top, and its
    /// text anchor. Near the top right corner the label would overlap the one of the recorded
    /// result, so it's placed left of the point.
    pub(super) fn label(&self) -> (f64, f64, &'static str) {
        let at_edge = self.x > WIDTH - 60.0 && self.y < 40.0;
        if at_edge {
            (-10.0, self.y + 4.0, "end")
        } else {
            (0.0, self.y - 10.0, "middle")
        }
    }

    /// Returns the horizontal position in percent.
    pub(super) fn across(&self) -> f64 {
        self.x * 100.0 / WIDTH
    }
}

impl<'a> Curve<'a> {
    /// Draws the curve.
    ///
    /// # Errors
    /// Returns the reason if there is nothing to draw.
    pub(super) fn of(
        prepared: &PreparedSweep,
        sweep_rule: &'a SweepRule,
        sweep: &Sweep,
        best: Option<usize>,
    ) -> Result<Self, &'static str> {
        let measure = sweep.measure();
        let sum = sweep
            .limits()
            .first()
            .map(|effect| *effect.sum(measure))
            .unwrap_or_default();
        if sum.runs == 0 {
            return Err("No curve: not enough data to tell what each limit would have spent.");
        }
        if sum.answers == 0 || sum.recorded() == 0 {
            return Err("No curve: none of these runs has an answer to lose.");
        }
        let mut curve = Self {
            sweep_rule,
            measure,
            sum,
            is_whole: sum.runs == sweep.runs,
            points: Vec::new(),
        };
        // The recorded result and the best limit take precedence over other labels.
        let mut taken = vec![(WIDTH, 0.0)];
        let best_at = best
            .and_then(|best| sweep.limits().get(best))
            .map(|effect| curve.place(effect.sum(measure)));
        taken.extend(best_at.filter(|at| is_free(&taken, *at)));
        for places in same_places(sweep, measure) {
            let Some(effect) = sweep.limits().get(*places.start()) else {
                continue;
            };
            let (sum, (x, y)) = (effect.sum(measure), curve.place(effect.sum(measure)));
            let is_best = best.is_some_and(|best| places.contains(&best));
            let is_named = is_best || is_free(&taken, (x, y));
            if is_named && !is_best {
                taken.push((x, y));
            }
            let name = name(prepared.values(), &places);
            // The effect also counts the runs that the chart omits, because they lack data.
            let stopped = match curve.is_whole {
                true => format!(", {} stopped", format::counted(effect.cut as usize, "run")),
                false => String::new(),
            };
            let title = format!(
                "{} {name}: {} of {} kept, {} spent, {} saved{stopped}",
                sweep_rule.name(),
                sum.kept,
                format::counted(curve.sum.answers as usize, "answer"),
                amount(sum.spent, measure),
                amount(sum.saved, measure),
            );
            let row = row_id(*places.start());
            curve.points.push(Point {
                x,
                y,
                row,
                name,
                title,
                is_best,
                is_named,
            });
        }
        Ok(curve)
    }

    fn place(&self, sum: &Sum) -> (f64, f64) {
        let x = WIDTH * sum.spent as f64 / self.sum.recorded() as f64;
        (
            x,
            HEIGHT * (1.0 - sum.kept as f64 / self.sum.answers as f64),
        )
    }

    fn unit(&self) -> &'static str {
        if self.measure == Measure::Tokens {
            "tokens"
        } else {
            "steps"
        }
    }

    /// Returns a description of the curve.
    pub(super) fn label(&self) -> String {
        format!(
            "Answers kept by {} spent, one point per limit of {}",
            self.unit(),
            self.sweep_rule.name()
        )
    }

    /// Returns the label of the horizontal axis: `tokens spent`.
    pub(super) fn across(&self) -> String {
        format!("{} spent", self.unit())
    }

    /// States what is on the curve: `96 runs, 52 answers`. Only runs with enough data for every limit
    /// are, so that its points are comparable.
    pub(super) fn covers(&self) -> String {
        let runs = format::counted(self.sum.runs as usize, "run");
        let answers = format::counted(self.sum.answers as usize, "answer");
        let complete = if self.is_whole {
            ""
        } else {
            " with complete data"
        };
        format!("{runs}{complete}, {answers}")
    }

    pub(super) fn recorded(&self) -> String {
        format!(
            "as recorded: {}, {}",
            format::counted(self.sum.answers as usize, "answer"),
            amount(self.sum.recorded(), self.measure)
        )
    }

    /// Returns the ticks of the horizontal axis at round numbers: the position in percent and the
    /// label.
    pub(super) fn ticks_x(&self) -> Vec<(f64, String)> {
        let recorded = self.sum.recorded();
        let step = round_step(recorded, 5);
        let text = |number| {
            if self.measure == Measure::Tokens {
                // Ticks are round numbers.
                format::tokens(number).replace(".0", "")
            } else {
                format::count(number)
            }
        };
        let numbers = (0..=recorded / step).map(|part| part * step);
        numbers
            .map(|number| (number as f64 / recorded.max(1) as f64 * 100.0, text(number)))
            .collect()
    }

    /// Returns the ticks of the vertical axis, omitting fractions of an answer.
    pub(super) fn ticks_y(&self) -> Vec<(f64, String)> {
        let answers = self.sum.answers as f64;
        let whole = [0.0, 0.5, 1.0]
            .into_iter()
            .filter(|share| (answers * share).fract() == 0.0);
        whole
            .map(|share| {
                (
                    (1.0 - share) * HEIGHT,
                    format::count((answers * share) as u64),
                )
            })
            .collect()
    }

    /// Returns the line through the points.
    pub(super) fn line(&self) -> String {
        let points: Vec<String> = self
            .points
            .iter()
            .map(|point| format!("{:.1},{:.1}", point.x, point.y))
            .collect();
        points.join(" ")
    }
}

/// Returns the smallest of 1, 2 and 5 times a power of ten that divides `end` into at most `most`
/// parts.
fn round_step(end: u64, most: u64) -> u64 {
    let powers = std::iter::successors(Some(1_u64), |power| power.checked_mul(10));
    let mut steps = powers.flat_map(|power| [1, 2, 5].map(|by| power.saturating_mul(by)));
    steps.find(|step| end / step <= most).unwrap_or(u64::MAX)
}

/// Whether a label at this point overlaps no label placed so far.
fn is_free(taken: &[(f64, f64)], (x, y): (f64, f64)) -> bool {
    taken
        .iter()
        .all(|(a, b)| (a - x).abs() > ROOM.0 || (b - y).abs() > ROOM.1)
}

/// Groups consecutive limits with the same result.
fn same_places(sweep: &Sweep, measure: Measure) -> Vec<RangeInclusive<usize>> {
    let mut places: Vec<RangeInclusive<usize>> = Vec::new();
    for (place, effect) in sweep.limits().iter().enumerate() {
        let first = places.last().map(|last| *last.start());
        let same = first
            .and_then(|first| sweep.limits().get(first))
            .is_some_and(|it| it.sum(measure) == effect.sum(measure));
        match (first, places.last_mut()) {
            (Some(first), Some(last)) if same => *last = first..=place,
            _ => places.push(place..=place),
        }
    }
    places
}

/// Formats one limit or a range of limits: `14` or `20–40`.
fn name(values: &[f64], places: &RangeInclusive<usize>) -> String {
    match (values.get(*places.start()), values.get(*places.end())) {
        (Some(from), Some(to)) if from != to => format!("{}–{}", limit(*from), limit(*to)),
        (Some(one), _) => limit(*one),
        _ => String::new(),
    }
}
