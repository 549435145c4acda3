//! Converts times to positions on the scale of a timeline. Long gaps are cut from the scale.

/// Shorter gaps are never cut; microseconds. If all steps together take less than `SHORT`, gaps of that length are
/// short.
const SHORT: i64 = 10_000_000;
const LEAST_SHORT: i64 = 1_000_000;
/// A gap is cut if it's longer than this part of the time outside of gaps.
const PART: i64 = 10;
/// The mean width of a cut, as a share of the picture.
const CUT: f64 = 0.034;
/// The share of the picture that all cuts may take.
const ALL_CUTS: f64 = 0.4;
/// Maximum number of gaps that are cut.
const CUTS: usize = 60;
/// The smallest distance between tick marks, as a share of the picture.
const APART: f64 = 0.065;

/// A time scale with cuts. Positions are shares of the whole picture, from 0 to 1.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Scale {
    /// The times with their own scale, in order.
    parts: Vec<Part>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
struct Part {
    from: i64,
    to: i64,
    left: f64,
    right: f64,
}

/// A part of the scale, as a share of it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Window {
    pub left: f64,
    pub right: f64,
}

impl Window {
    /// Everything.
    pub(super) const ALL: Self = Self {
        left: 0.0,
        right: 1.0,
    };

    /// Returns the position inside the window, as a share of it. It's outside of 0 to 1 for places
    /// that aren't visible.
    pub(super) fn x(self, place: f64) -> f64 {
        (place - self.left) / self.width()
    }

    pub(super) fn width(self) -> f64 {
        (self.right - self.left).max(f64::MIN_POSITIVE)
    }

    /// Returns a window with the same middle and another width. It stays within the scale.
    pub(super) fn scaled(self, by: f64) -> Self {
        let width = (self.width() * by).min(1.0);
        let left = ((self.left + self.right - width) / 2.0).clamp(0.0, 1.0 - width);
        Self {
            left,
            right: left + width,
        }
    }

    pub(super) fn is_all(self) -> bool {
        self.left <= 0.0 && self.right >= 1.0
    }
}

/// Returns the sum of the lengths of time spans.
fn length(spans: &[(i64, i64)]) -> i64 {
    let lengths = spans.iter().map(|(from, to)| to.saturating_sub(*from));
    lengths.fold(0, i64::saturating_add)
}

impl Scale {
    /// Builds a scale over these time spans. Returns `None` without spans. With `cuts`, long
    /// gaps are shortened.
    pub(super) fn over(mut spans: Vec<(i64, i64)>, cuts: bool) -> Option<Self> {
        spans.sort_unstable();
        let all = length(&joined(&spans, 0));
        let short = all.clamp(LEAST_SHORT, SHORT);
        let busy = joined(&spans, if cuts { short } else { i64::MAX });
        let shown = length(&busy);
        let mut gaps: Vec<i64> = busy
            .windows(2)
            .filter_map(|pair| match pair {
                [a, b] => Some(b.0.saturating_sub(a.1)),
                _ => None,
            })
            .collect();
        gaps.sort_unstable_by(|a, b| b.cmp(a));
        let longest = gaps.get(CUTS).copied().unwrap_or_default();
        let parts = joined(&busy, short.max(shown / PART).max(longest));
        let shown = length(&parts);
        let cuts = parts.len().checked_sub(1)?;
        let cut = CUT.min(ALL_CUTS / cuts.max(1) as f64) * cuts as f64;
        let unit = (1.0 - cut) / shown.max(1) as f64;
        // A longer gap is wider: by as much for each tenfold.
        let weights: Vec<f64> = parts
            .windows(2)
            .map(|pair| match pair {
                [a, b] => (b.0.saturating_sub(a.1) as f64 / short as f64).log10() + 1.0,
                _ => 1.0,
            })
            .map(|weight| weight.max(1.0))
            .collect();
        let all: f64 = weights.iter().sum();
        let mut weights = weights.into_iter();
        let mut x = 0.0;
        let parts = parts.into_iter().map(|(from, to)| {
            let left = x;
            let right = left + to.saturating_sub(from) as f64 * unit;
            x = right + weights.next().map_or(0.0, |weight| cut * weight / all);
            Part {
                from,
                to,
                left,
                right,
            }
        });
        Some(Self {
            parts: parts.collect(),
        })
    }

    /// Returns the points between which time and position are proportional.
    fn points(&self) -> impl DoubleEndedIterator<Item = (i64, f64)> {
        self.parts
            .iter()
            .flat_map(|part| [(part.from, part.left), (part.to, part.right)])
    }

    /// Returns the position of a time.
    pub(super) fn x(&self, at: i64) -> f64 {
        let next = self.parts.partition_point(|part| part.from <= at);
        let before = next.checked_sub(1).and_then(|last| self.parts.get(last));
        let between = |(t0, x0): (i64, f64), (t1, x1): (i64, f64)| {
            x0 + (x1 - x0) * at.saturating_sub(t0) as f64 / t1.saturating_sub(t0) as f64
        };
        match (before, self.parts.get(next)) {
            (Some(part), _) if at < part.to => {
                between((part.from, part.left), (part.to, part.right))
            }
            (Some(part), Some(next)) => between((part.to, part.right), (next.from, next.left)),
            (Some(part), None) => part.right,
            (None, Some(next)) => next.left,
            (None, None) => 0.0,
        }
    }

    /// Returns the time at a position.
    pub(super) fn at(&self, place: f64) -> i64 {
        let before = self.points().rfind(|(_, x)| *x <= place);
        let after = self.points().find(|(_, x)| *x > place);
        match (before, after) {
            (Some((t0, x0)), Some((t1, x1))) => {
                t0 + (t1.saturating_sub(t0) as f64 * (place - x0) / (x1 - x0)) as i64
            }
            (Some((time, _)), None) | (None, Some((time, _))) => time,
            (None, None) => 0,
        }
    }

    /// Returns the window that shows the times `from..to`, at least a ten-thousandth of the scale.
    pub(super) fn window(&self, from: Option<i64>, to: Option<i64>) -> Window {
        const LEAST: f64 = 1e-4;
        let left = from.map_or(0.0, |from| self.x(from)).clamp(0.0, 1.0);
        let right = to.map_or(1.0, |to| self.x(to)).clamp(0.0, 1.0);
        if right - left >= LEAST {
            return Window { left, right };
        }
        let left = left.min(right).min(1.0 - LEAST);
        Window {
            left,
            right: left + LEAST,
        }
    }

    /// Returns each cut: its position, and the times that it skips.
    pub(super) fn cuts(&self) -> impl Iterator<Item = (f64, f64, i64, i64)> {
        self.parts.windows(2).filter_map(|pair| match pair {
            [a, b] => Some((a.right, b.left, a.to, b.from)),
            _ => None,
        })
    }

    /// Returns the points of the scale for a script: `position,micros` since `zero`.
    pub(super) fn for_script(&self, zero: i64) -> String {
        let point = |(time, x): (i64, f64)| format!("{x:.6},{}", time.saturating_sub(zero));
        self.points().map(point).collect::<Vec<_>>().join(" ")
    }

    /// Returns tick marks at round times that are visible in a window: the position in the window
    /// and the time since the last of `origins`, which are in order.
    pub(super) fn ticks(&self, window: Window, origins: &[i64]) -> Vec<(f64, String)> {
        const STEPS: [i64; 31] = [
            1,
            10,
            100,
            1_000,
            2_000,
            5_000,
            10_000,
            20_000,
            50_000,
            100_000,
            200_000,
            500_000,
            1_000_000,
            2_000_000,
            5_000_000,
            10_000_000,
            15_000_000,
            30_000_000,
            60_000_000,
            120_000_000,
            300_000_000,
            600_000_000,
            900_000_000,
            1_800_000_000,
            3_600_000_000,
            7_200_000_000,
            14_400_000_000,
            43_200_000_000,
            86_400_000_000,
            864_000_000_000,
            8_640_000_000_000,
        ];
        let unit = self
            .parts
            .iter()
            .map(|part| (part.right - part.left) / part.to.saturating_sub(part.from).max(1) as f64)
            .fold(0.0, f64::max)
            / window.width();
        let step = STEPS
            .into_iter()
            .find(|step| *step as f64 * unit >= APART)
            .unwrap_or(i64::MAX);
        let mut ticks: Vec<(f64, String)> = Vec::new();
        let last = self.parts.last().map_or(0, |part| part.to);
        let (first, end) = (self.at(window.left), self.at(window.right));
        let ends = origins.iter().skip(1).copied().chain([last.max(end)]);
        for (origin, next) in origins.iter().zip(ends) {
            for part in &self.parts {
                let from = part.from.max(*origin).max(first);
                let to = part.to.min(next).min(end);
                let since = from.saturating_sub(*origin);
                let mut since = since
                    .saturating_sub(1)
                    .div_euclid(step)
                    .saturating_add(1)
                    .saturating_mul(step);
                // With several origins, each has its own label.
                if since == 0 && origins.len() > 1 {
                    since = step;
                }
                loop {
                    let at = origin.saturating_add(since);
                    if at > to || step == i64::MAX {
                        break;
                    }
                    let x = window.x(self.x(at));
                    let is_free = ticks.last().is_none_or(|(last, _)| x - last >= APART * 0.9);
                    if is_free && (0.0..=0.985).contains(&x) {
                        ticks.push((x, clock(since, step)));
                    }
                    since = since.saturating_add(step);
                }
            }
        }
        ticks
    }
}

/// Joins spans whose gap isn't longer than `gap`. The spans are in order of their beginning.
fn joined(spans: &[(i64, i64)], gap: i64) -> Vec<(i64, i64)> {
    let mut parts: Vec<(i64, i64)> = Vec::new();
    for (from, to) in spans {
        match parts.last_mut() {
            Some(last) if from.saturating_sub(last.1) <= gap => last.1 = last.1.max(*to),
            _ => parts.push((*from, *to)),
        }
    }
    parts
}

/// Formats a time on the scale: `1:30`, `2:05:00`, `0.25 s`. `step` is the distance between marks.
pub(super) fn clock(micros: i64, step: i64) -> String {
    let sign = if micros < 0 { "\u{2212}" } else { "" };
    let size = micros.unsigned_abs();
    if size == 0 {
        return "0".to_owned();
    }
    if step < 1_000 {
        return format!("{sign}{size} µs");
    }
    if step < 1_000_000 && size < 1_000_000 {
        return format!("{sign}{} ms", size / 1_000);
    }
    let (minutes, seconds) = (size / 60_000_000, size / 1_000_000 % 60);
    if step < 1_000_000 {
        let parts = size / 1_000 % 1_000;
        return match minutes {
            0 => format!("{sign}{seconds}.{parts:03} s"),
            _ => format!("{sign}{minutes}:{seconds:02}.{parts:03}"),
        };
    }
    match (minutes / 60 / 24, minutes / 60 % 24, minutes % 60) {
        (0, 0, minutes) => format!("{sign}{minutes}:{seconds:02}"),
        (0, hours, minutes) => format!("{sign}{hours}:{minutes:02}:{seconds:02}"),
        (days, 0, 0) => format!("{sign}{days} d"),
        (days, hours, minutes) => format!("{sign}{days} d {hours}:{minutes:02}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: i64 = 60_000_000;

    #[test]
    fn long_silences_are_cut_and_named() {
        let spans = vec![
            (0, MINUTE),
            (11 * MINUTE, 12 * MINUTE),
            (MINUTE, 2 * MINUTE),
        ];
        let scale = Scale::over(spans.clone(), true).unwrap();
        let cuts: Vec<_> = scale.cuts().collect();
        let [(left, right, 120_000_000, 660_000_000)] = cuts[..] else {
            panic!("{cuts:?}")
        };
        assert!((left - 0.966 * 2.0 / 3.0).abs() < 1e-9, "{left}");
        assert!((right - left - 0.034).abs() < 1e-9, "{right}");
        assert!((scale.x(MINUTE) - 0.322).abs() < 1e-9);
        let middle = scale.x(390 * 1_000_000);
        assert!((middle - (left + right) / 2.0).abs() < 1e-9, "in a cut");
        assert!((scale.x(12 * MINUTE) - 1.0).abs() < 1e-9);
        assert_eq!(Scale::over(Vec::new(), true), None);
        let whole = Scale::over(spans, false).unwrap();
        assert_eq!(whole.cuts().count(), 0);
        assert!((whole.x(6 * MINUTE) - 0.5).abs() < 1e-9);
    }

    #[test]
    fn a_gap_that_is_a_small_part_of_the_run_is_not_cut() {
        let cuts = |gap: i64| {
            let spans = vec![(0, 30 * MINUTE), (30 * MINUTE + gap, 60 * MINUTE + gap)];
            Scale::over(spans, true).unwrap().cuts().count()
        };
        assert_eq!((cuts(6 * MINUTE), cuts(6 * MINUTE + 1)), (0, 1));
    }

    #[test]
    fn waits_of_a_quick_run_are_cut_alike() {
        const SECOND: i64 = 1_000_000;
        let spans = [
            (0, 158_000),
            (13_900_000, 14_100_000),
            (20_350_000, 22_000_000),
        ];
        let scale = Scale::over(spans.to_vec(), true).unwrap();
        let cuts: Vec<i64> = scale
            .cuts()
            .map(|(_, _, from, to)| (to - from) / SECOND)
            .collect();
        assert_eq!(cuts, [13, 6]);
        let spans = vec![(0, 2 * SECOND), (5 * SECOND, 7 * SECOND)];
        assert_eq!(Scale::over(spans, true).unwrap().cuts().count(), 0);
    }

    #[test]
    fn a_longer_wait_is_wider() {
        let ends = [0, 2, 300, 6000].map(|minutes| minutes * MINUTE);
        let scale = Scale::over(ends.map(|at| (at, at + MINUTE)).to_vec(), true).unwrap();
        let widths: Vec<f64> = scale.cuts().map(|(left, right, ..)| right - left).collect();
        assert!(widths.is_sorted() && widths.len() == 3, "{widths:?}");
        assert!(widths[2] > 1.4 * widths[0], "{widths:?}");
        assert!((scale.x(ends[3] + MINUTE) - 1.0).abs() < 1e-9);
    }

    #[test]
    fn cuts_leave_room_for_the_steps() {
        let spans = (0..500).map(|n| (n * 100 * MINUTE, n * 100 * MINUTE + MINUTE));
        let scale = Scale::over(spans.collect(), true).unwrap();
        let cut: f64 = scale.cuts().map(|(left, right, ..)| right - left).sum();
        assert!(cut < 0.41 && scale.cuts().count() <= CUTS, "{cut}");
    }

    #[test]
    fn what_takes_no_time_has_a_place() {
        let scale = Scale::over(vec![(7, 7)], true).unwrap();
        assert_eq!(
            (scale.x(7), scale.x(i64::MAX), scale.x(i64::MIN)),
            (0.0, 0.0, 0.0)
        );
        assert_eq!(scale.at(0.5), 7);
        scale.ticks(Window::ALL, &[7]);
    }

    #[test]
    fn times_far_apart_do_not_overflow() {
        let scale = Scale::over(vec![(i64::MIN, i64::MIN), (i64::MAX, i64::MAX)], true).unwrap();
        assert!((0.0..=1.0).contains(&scale.x(0)));
        scale.ticks(Window::ALL, &[i64::MIN]);
        scale.ticks(scale.window(Some(i64::MIN), Some(0)), &[i64::MAX]);
    }

    #[test]
    fn positions_and_times_convert_to_each_other() {
        let scale = Scale::over(vec![(0, MINUTE), (60 * MINUTE, 61 * MINUTE)], true).unwrap();
        for at in [0, MINUTE / 3, MINUTE, 30 * MINUTE, 61 * MINUTE - 1] {
            assert!((scale.at(scale.x(at)) - at).abs() <= 1_000, "{at}");
        }
        let window = scale.window(Some(0), Some(MINUTE));
        assert!((window.x(scale.x(MINUTE / 2)) - 0.5).abs() < 1e-6);
        assert!(window.scaled(100.0).is_all());
        assert!((window.scaled(0.5).width() - window.width() / 2.0).abs() < 1e-9);
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
            let scale = Scale::over(vec![(123, 123 + length)], true).unwrap();
            let ticks = scale.ticks(Window::ALL, &[123]);
            assert!((3..=16).contains(&ticks.len()), "{length}: {ticks:?}");
            assert!(
                ticks.windows(2).all(|pair| pair[1].0 - pair[0].0 > 0.05),
                "{ticks:?}"
            );
        }
    }

    #[test]
    fn times_read_like_a_clock() {
        let shown = |micros| clock(micros, 1_000_000);
        assert_eq!(shown(90_000_000), "1:30");
        assert_eq!(shown(-90_000_000), "\u{2212}1:30");
        assert_eq!(shown(7_505_000_000), "2:05:05");
        assert_eq!(shown(86_400_000_000), "1 d");
        assert_eq!(shown(0), "0");
        assert_eq!(clock(250_000, 50_000), "250 ms");
        assert_eq!(clock(1_250_000, 50_000), "1.250 s");
        assert_eq!(clock(20, 10), "20 µs");
    }
}
