//! Converts times to positions on the scale of a timeline. Long gaps are cut from the scale.

use crate::analysis::format;
use crate::page::run_view::micros;

/// Longer gaps are cut; microseconds.
const LONG: i64 = 300_000_000;
/// The width of a cut, as a share of the picture.
const CUT: f64 = 0.03;
/// The smallest distance between tick marks, as a share of the picture.
const APART: f64 = 0.14;
/// Gaps that are cut, at most. The rest of the picture must have room for the steps.
const CUTS: usize = 10;

/// A time scale with cuts.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Scale {
    /// The visible time ranges, in order: from, to, left edge, right edge.
    parts: Vec<(i64, i64, f64, f64)>,
    /// The time labelled 0.
    zero: i64,
    width: f64,
}

impl Scale {
    /// Builds a scale over these time spans. Returns `None` if there are none.
    pub(super) fn over(spans: &[(i64, i64)], zero: i64, width: f64) -> Option<Self> {
        let mut spans = spans.to_vec();
        spans.sort_unstable();
        let mut parts: Vec<(i64, i64)> = Vec::new();
        for (from, to) in spans {
            let is_full = parts.len() > CUTS;
            match parts.last_mut() {
                Some(last) if from - last.1 <= LONG || is_full => last.1 = last.1.max(to),
                _ => parts.push((from, to)),
            }
        }
        let shown: i64 = parts.iter().map(|(from, to)| to - from).sum();
        let cuts = parts.len().checked_sub(1)?;
        let unit = width * (1.0 - CUT * cuts as f64) / shown.max(1) as f64;
        let mut x = 0.0;
        let parts = parts.into_iter().map(|(from, to)| {
            let left = x;
            let right = left + (to - from) as f64 * unit;
            x = right + width * CUT;
            (from, to, left, right)
        });
        Some(Self {
            parts: parts.collect(),
            zero,
            width,
        })
    }

    /// Returns the x coordinate of a time. A time inside a cut is at its left edge.
    pub(super) fn x(&self, at: i64) -> f64 {
        let part = self
            .parts
            .partition_point(|part| part.0 <= at)
            .saturating_sub(1);
        let Some((from, to, left, right)) = self.parts.get(part) else {
            return 0.0;
        };
        left + (right - left) * (at.clamp(*from, *to) - from) as f64 / (to - from).max(1) as f64
    }

    /// Returns the x coordinate of the middle of each cut, and the duration that it skips.
    pub(super) fn cuts(&self) -> Vec<(f64, String)> {
        let cut = |pair: &[(i64, i64, f64, f64)]| match pair {
            [a, b] => Some(((a.3 + b.2) / 2.0, micros(b.0 - a.1))),
            _ => None,
        };
        self.parts.windows(2).filter_map(cut).collect()
    }

    /// Returns tick marks at round times: the x coordinate, and the time since the start of the
    /// run.
    pub(super) fn ticks(&self) -> Vec<(f64, String)> {
        const STEPS: [i64; 13] = [
            1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000,
        ];
        let shown: i64 = self.parts.iter().map(|part| part.1 - part.0).sum();
        // Round numbers of milliseconds, seconds, minutes and hours.
        let units = [1_000, 1_000_000, 60_000_000, 3_600_000_000_i64];
        let steps = units
            .iter()
            .flat_map(|unit| STEPS.iter().map(move |step| unit * step));
        let step = steps
            .filter(|step| *step as f64 >= shown as f64 * APART)
            .min()
            .unwrap_or(i64::MAX);
        let mut ticks: Vec<(f64, String)> = Vec::new();
        for (from, to, ..) in &self.parts {
            let mut at = self.zero
                + (from - self.zero)
                    .div_euclid(step)
                    .saturating_add(1)
                    .saturating_mul(step);
            if ticks.is_empty() {
                at = *from;
            }
            while at <= *to {
                let x = self.x(at);
                let is_free = ticks
                    .last()
                    .is_none_or(|(last, _)| x - last >= self.width * APART * 0.9);
                if is_free && x <= self.width * 0.94 {
                    let since = at - self.zero;
                    ticks.push((x, short(&format::offset(since))));
                }
                at = self.zero + ((at - self.zero).div_euclid(step) + 1).saturating_mul(step);
            }
        }
        ticks
    }

    /// Formats an x coordinate as a percentage of the width, for pictures without a view box.
    pub(super) fn percent(&self, x: f64) -> String {
        format!("{:.2}%", 100.0 * x / self.width)
    }
}

/// Drops the zeros at the end of the seconds: `+1 min 40 s`, `+0.045 s`.
fn short(offset: &str) -> String {
    let number = offset.strip_suffix(" s").unwrap_or(offset);
    let number = number.trim_end_matches('0').trim_end_matches('.');
    // The number isn't all zeros, because it has a decimal point.
    format!("{number} s")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_silences_are_cut_and_named() {
        let minute = 60_000_000;
        let scale = Scale::over(
            &[
                (0, minute),
                (11 * minute, 12 * minute),
                (minute, 2 * minute),
            ],
            0,
            1_000.0,
        )
        .unwrap();
        assert_eq!(
            scale.cuts(),
            [(2.0 * 970.0 / 3.0 + 15.0, "9 min".to_owned())]
        );
        assert!(
            (scale.x(minute) - 970.0 / 3.0).abs() < 0.01,
            "{}",
            scale.x(minute)
        );
        assert_eq!(scale.x(5 * minute), scale.x(2 * minute), "in a cut");
        assert_eq!(scale.x(12 * minute), 1_000.0);
        assert_eq!(Scale::over(&[], 0, 1_000.0), None);
    }

    #[test]
    fn what_takes_no_time_has_a_place() {
        let scale = Scale::over(&[(7, 7)], 7, 1_000.0).unwrap();
        assert_eq!(
            (scale.x(7), scale.x(i64::MAX), scale.x(i64::MIN)),
            (0.0, 0.0, 0.0)
        );
        assert_eq!(scale.ticks().len(), 1);
    }

    #[test]
    fn marks_of_the_scale_are_round_and_do_not_collide() {
        for length in [
            3_000,
            250_000,
            90_000_000,
            3_000_000_000,
            90_000_000_000_000,
        ] {
            let scale = Scale::over(&[(123, 123 + length)], 123, 1_000.0).unwrap();
            let ticks = scale.ticks();
            assert!((2..=8).contains(&ticks.len()), "{length}: {ticks:?}");
            assert!(
                ticks.windows(2).all(|pair| pair[1].0 - pair[0].0 > 100.0),
                "{ticks:?}"
            );
        }
    }
}
