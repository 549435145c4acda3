//! Draws numbers as small pictures. They use only classes and presentation attributes, since the
//! pages allow no inline style. Every picture has a text, or the same number next to it.

use askama::Template;
use askama::filters::HtmlSafe;

use crate::analysis::format;
use crate::page::part::text::Line;

/// The color class of a step's phase: `decide`, `act`, `reduce`, `critic`, `check`, `recover` or
/// `plain`.
pub(crate) type PhaseClass = &'static str;

/// A score on the scale from 0 to 1, with a tick at the previous score.
#[derive(Debug, Clone, Template)]
#[template(path = "part/axis.html")]
pub(crate) struct Axis {
    /// The length of the bar, of 128.
    pub width: String,
    /// The number of the critic's color. 0 if it belongs to no critic.
    pub series: usize,
    /// The path of the tick at the previous score. Empty if there isn't one.
    pub tick: String,
}

impl HtmlSafe for Axis {}

impl Axis {
    /// Creates a bar for `score`. Returns `None` if it is outside the scale.
    pub(crate) fn new(score: f64, previous: Option<f64>) -> Option<Self> {
        let on_scale = |score: &f64| (0.0..=1.0).contains(score);
        let tick = previous
            .filter(on_scale)
            .map(|at| format!("M{:.1} 0v14", at * 128.0))
            .unwrap_or_default();
        on_scale(&score).then(|| Self {
            width: format!("{:.1}", score * 128.0),
            series: 0,
            tick,
        })
    }
}

/// One part of a bar or strip.
#[derive(Debug, Clone)]
pub(crate) struct Stretch {
    pub x: String,
    pub width: String,
    pub class: PhaseClass,
    /// The phase and its time as text.
    pub title: Line,
}

/// The share of each phase in one step's time.
#[derive(Debug, Clone, Template)]
#[template(path = "part/phase_strip.html")]
pub(crate) struct PhaseStrip {
    /// The parts from left to right, in thousandths.
    pub parts: Vec<Stretch>,
}

impl HtmlSafe for PhaseStrip {}

impl PhaseStrip {
    /// Creates a strip from the class, name and milliseconds of each phase. Returns `None` if no
    /// phase took any time.
    pub(crate) fn new(phases: &[(PhaseClass, &str, f64)]) -> Option<Self> {
        let total: f64 = phases.iter().map(|(_, _, ms)| ms.max(0.0)).sum();
        // A phase of a few microseconds must stay visible and clickable.
        let parts = stretches(phases.iter().copied(), total, 1000.0, 6.0);
        (total > 0.0).then_some(Self { parts })
    }
}

fn stretches<'n>(
    phases: impl Iterator<Item = (PhaseClass, &'n str, f64)>,
    total_ms: f64,
    length: f64,
    least: f64,
) -> Vec<Stretch> {
    let phases: Vec<_> = phases
        .map(|(class, name, ms)| (class, name, if ms.is_finite() { ms.max(0.0) } else { 0.0 }))
        .collect();
    let room = (length - least * phases.len() as f64).max(0.0);
    let mut x = 0.0;
    let mut parts = Vec::new();
    for (class, name, ms) in phases {
        let share = if total_ms > 0.0 {
            (ms / total_ms).min(1.0)
        } else {
            0.0
        };
        let width = (least + share * room).min(length - x);
        let title = if name.is_empty() {
            String::new()
        } else {
            format!("{name} {}", format::millis(ms))
        };
        parts.push(Stretch {
            x: format!("{x:.1}"),
            width: format!("{width:.1}"),
            class,
            title: title.into(),
        });
        x += width;
    }
    parts
}

#[cfg(test)]
mod tests {
    use crate::page::part::svg::*;

    #[test]
    fn only_scores_on_the_scale_have_an_axis() {
        assert_eq!(Axis::new(0.5, Some(0.25)).unwrap().tick, "M32.0 0v14");
        assert_eq!(Axis::new(0.5, Some(4.0)).unwrap().tick, "");
        assert!(Axis::new(1.01, None).is_none() && Axis::new(f64::NAN, None).is_none());
    }

    #[test]
    fn strips_show_short_phases_and_never_overflow() {
        let strip = PhaseStrip::new(&[
            ("decide", "Decide", 3412.6),
            ("act", "Act", 0.001),
            ("check", "Check stop", 2.1),
        ])
        .unwrap();
        let ends: Vec<f64> = strip
            .parts
            .iter()
            .map(|p| p.x.parse::<f64>().unwrap() + p.width.parse::<f64>().unwrap())
            .collect();
        assert!(ends.iter().all(|end| *end <= 1000.2), "{ends:?}");
        assert_eq!(strip.parts[1].width, "6.0");
        assert_eq!(strip.parts[0].title.as_str(), "Decide 3.4 s");
        assert!(PhaseStrip::new(&[("act", "Act", 0.0)]).is_none());
        assert!(strip.render().unwrap().contains("role=\"img\""));
    }
}
