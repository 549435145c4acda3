//! Tests whether two sets of tasks differ, and by how much. Knows numbers only.
//!
//! The test of paired values is a permutation test: if the two sides don't differ, each task's
//! difference is as likely to have the opposite sign. The interval holds every difference that this
//! test doesn't reject, so the two can't contradict each other. P-values are mid-p: results that are
//! exactly as extreme as the observed one count half.

use crate::analysis::random::Random;

/// Below this probability, a difference is called clear.
pub(crate) const ALPHA: f64 = 0.05;
/// With fewer tasks, no result is clear: all sign flips of 4 differences give p = 0.0625 at best.
pub(crate) const MIN_TASKS: usize = 5;
/// Up to this many tasks, every combination of signs is tried.
const MAX_EXACT: usize = 13;
/// Random flips of signs with more tasks.
const FLIPS: usize = 10_000;
/// Flips with very many tasks, at least.
const MIN_FLIPS: usize = 1_000;
/// Flips times tasks, at most, unless there are so many tasks that [`MIN_FLIPS`] are more.
const MAX_WORK: usize = 20_000_000;
/// Maximum number of tasks that a test uses.
pub(crate) const MAX_TASKS: usize = 20_000;
/// Halvings of the range in which an end of an interval lies.
const HALVINGS: usize = 40;
/// The start of the random numbers. It's fixed, so that the same runs always give the same p-value.
const SEED: u64 = 1;
/// The 97.5% quantile of the normal distribution.
const Z: f64 = 1.959_963_984_540_054;
/// A test with 80% power at 5% finds a difference of this many standard errors.
const POWER: f64 = 2.8;

/// An estimate with its 95% interval and p-value.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Effect {
    /// The estimate.
    pub estimate: f64,
    /// The ends of the 95% interval. `None` with fewer than [`MIN_TASKS`] tasks.
    pub interval: Option<(f64, f64)>,
    /// The two-sided mid-p-value.
    pub p: f64,
}

impl Effect {
    /// Returns the standard error that an interval of this width has if it's normal.
    pub(crate) fn standard_error(&self) -> Option<f64> {
        let (low, high) = self.interval?;
        Some((high - low) / (2.0 * Z))
    }

    /// Returns the smallest difference that the test would have found in 4 of 5 experiments like
    /// this one.
    pub(crate) fn smallest_found(&self) -> Option<f64> {
        Some(POWER * self.standard_error()?)
    }
}

/// Returns the smallest difference that a test finds in 4 of 5 experiments, given its standard
/// error.
pub(crate) fn smallest_found(standard_error: f64) -> f64 {
    POWER * standard_error
}

/// A paired value: `y − d·x` is what a true difference of `d` leaves.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Pair {
    /// The observed value.
    pub y: f64,
    /// How much a difference of 1 adds to `y`. Not negative.
    pub x: f64,
}

impl Pair {
    /// A pair of values whose difference is tested.
    pub(crate) fn difference(a: f64, b: f64) -> Self {
        Self { y: b - a, x: 1.0 }
    }

    /// A pair of values whose ratio `b / a` is tested.
    pub(crate) fn ratio(a: f64, b: f64) -> Self {
        Self { y: b, x: a }
    }
}

/// The sums of `y` and `x` after flips of the signs. A difference can be tested with them without
/// adding up all tasks again.
#[derive(Debug)]
struct Flips {
    sums: Vec<(f64, f64)>,
    observed: (f64, f64),
    /// The sums of the absolute values.
    size: (f64, f64),
    /// Whether `sums` has every combination of signs.
    is_exact: bool,
}

impl Flips {
    /// Flips the signs in all ways if there are few tasks, or else `flips` times at random.
    fn new(pairs: &[Pair], flips: usize) -> Self {
        let total = |value: fn(&Pair) -> f64| pairs.iter().map(value).sum::<f64>();
        let observed = (total(|pair| pair.y), total(|pair| pair.x));
        let size = (total(|pair| pair.y.abs()), total(|pair| pair.x.abs()));
        let is_exact = is_exact(pairs.len());
        let sums = if is_exact {
            let signs = |bits: u64| signed_sums(pairs, std::iter::once(bits));
            (0..1_u64 << pairs.len()).map(signs).collect()
        } else {
            let mut random = Random(SEED);
            (0..flips)
                .map(|_| signed_sums(pairs, std::iter::repeat_with(|| random.next())))
                .collect()
        };
        Self {
            sums,
            observed,
            size,
            is_exact,
        }
    }

    /// Returns the p-value of a true difference of `d`.
    fn p(&self, d: f64) -> f64 {
        let at = |(y, x): (f64, f64)| (y - d * x).abs();
        let observed = at(self.observed);
        // Sums of the same numbers in another order differ by rounding.
        let rounding = 1e-11 * (self.size.0 + d.abs() * self.size.1);
        let (mut more, mut same) = (0_usize, 0_usize);
        for sums in &self.sums {
            let difference = at(*sums) - observed;
            more += usize::from(difference > rounding);
            same += usize::from(difference.abs() <= rounding);
        }
        let (more, same, all) = (more as f64, same as f64, self.sums.len() as f64);
        if self.is_exact {
            (more + same / 2.0) / all
        } else {
            // The observed signs are one more combination.
            (more + same / 2.0 + 0.5) / (all + 1.0)
        }
    }

    /// Returns the last value between `inside`, which isn't rejected, and `outside`, which is.
    fn end(&self, mut inside: f64, mut outside: f64) -> f64 {
        for _ in 0..HALVINGS {
            let middle = inside.midpoint(outside);
            if self.p(middle) >= ALPHA {
                inside = middle;
            } else {
                outside = middle;
            }
        }
        inside
    }
}

/// Adds up `y` and `x` with the signs in the bits of `words`, 64 to a word.
fn signed_sums(pairs: &[Pair], words: impl Iterator<Item = u64>) -> (f64, f64) {
    let mut sums = (0.0, 0.0);
    for (chunk, mut bits) in pairs.chunks(64).zip(words) {
        for pair in chunk {
            // A loop without branches is several times as fast.
            let sign = 1.0 - 2.0 * (bits & 1) as f64;
            sums.0 += sign * pair.y;
            sums.1 += sign * pair.x;
            bits >>= 1;
        }
    }
    sums
}

/// Tests paired values against `null`, the difference or ratio of sides that are alike. Returns
/// `None` without tasks, or if `x` is zero throughout.
pub(crate) fn paired(pairs: &[Pair], null: f64) -> Option<Effect> {
    let pairs = pairs.get(..MAX_TASKS).unwrap_or(pairs);
    paired_by(pairs, null, flips(pairs.len()))
}

/// Returns how often signs are flipped at random.
pub(crate) fn flips(tasks: usize) -> usize {
    (MAX_WORK / tasks.max(1)).clamp(MIN_FLIPS, FLIPS)
}

/// Returns whether all combinations of signs are tried.
pub(crate) fn is_exact(tasks: usize) -> bool {
    tasks <= MAX_EXACT
}

fn paired_by(pairs: &[Pair], null: f64, flips: usize) -> Option<Effect> {
    let all_finite = pairs
        .iter()
        .all(|pair| pair.y.is_finite() && pair.x.is_finite());
    let flips = Flips::new(pairs, flips);
    let (y, x) = flips.observed;
    if pairs.is_empty() || !all_finite || x <= 0.0 {
        return None;
    }
    let estimate = y / x;
    let is_alike = pairs
        .iter()
        .all(|pair| (pair.y - null * pair.x).abs() <= 1e-12 * (pair.y.abs() + pair.x.abs()));
    let p = if is_alike { 1.0 } else { flips.p(null) };
    let interval = interval(pairs, &flips, estimate).filter(|_| pairs.len() >= MIN_TASKS);
    // Halving comes as close as rounding allows to an end that is exactly `null`.
    let interval = interval.map(|(low, high)| match p >= ALPHA {
        true => (low.min(null), high.max(null)),
        false => (low, high),
    });
    Some(Effect {
        estimate,
        interval,
        p,
    })
}

/// Returns the values around the estimate that the test doesn't reject. `None` if it rejects none on
/// some side.
fn interval(pairs: &[Pair], flips: &Flips, estimate: f64) -> Option<(f64, f64)> {
    let values = || {
        let values = pairs.iter().filter(|pair| pair.x > 0.0);
        values.map(|pair| pair.y / pair.x)
    };
    let low = values().fold(estimate, f64::min);
    let high = values().fold(estimate, f64::max);
    if low >= high {
        return Some((estimate, estimate));
    }
    // Beyond the lowest and the highest value, the signs of most tasks are equal.
    let end = |value: f64, direction: f64| {
        let mut step = 1e-6 * (high - low);
        for _ in 0..HALVINGS {
            let outside = value + direction * step;
            if flips.p(outside) < ALPHA {
                return Some(flips.end(estimate, outside));
            }
            step *= 4.0;
        }
        None
    };
    end(low, -1.0).zip(end(high, 1.0))
}

/// Corrects p-values for their number by Holm's method. The order stays.
pub(crate) fn holm(p: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..p.len()).collect();
    let value = |at: usize| p.get(at).copied().unwrap_or(1.0);
    order.sort_by(|a, b| value(*a).total_cmp(&value(*b)));
    let mut corrected = vec![1.0; p.len()];
    let mut highest = 0.0_f64;
    for (rank, at) in order.into_iter().enumerate() {
        highest = highest.max(value(at) * (p.len() - rank) as f64).min(1.0);
        if let Some(corrected) = corrected.get_mut(at) {
            *corrected = highest;
        }
    }
    corrected
}

/// Returns Wilson's 95% interval of a share of `n`, which may be a fraction.
pub(crate) fn wilson(share: f64, n: f64) -> (f64, f64) {
    let z2 = Z * Z;
    let centre = share + z2 / (2.0 * n);
    let half = Z * (share * (1.0 - share) / n + z2 / (4.0 * n * n)).sqrt();
    let scale = 1.0 + z2 / n;
    (
        ((centre - half) / scale).max(0.0),
        ((centre + half) / scale).min(1.0),
    )
}

/// Returns the mean success rate of tasks with its 95% interval. Runs of a task are alike, so the
/// interval counts as many runs as independent ones with the same variance.
pub(crate) fn rate(tasks: &[f64], runs: usize) -> Option<(f64, (f64, f64))> {
    let n = tasks.len() as f64;
    let share = tasks.iter().sum::<f64>() / n;
    if tasks.is_empty() || !share.is_finite() {
        return None;
    }
    let square = |task: &f64| (task - share) * (task - share);
    let variance = tasks.iter().map(square).sum::<f64>() / n;
    // Without any variance, the tasks may as well differ in ways that they didn't show.
    let effective = if variance > 0.0 {
        share * (1.0 - share) * n / variance
    } else {
        n
    };
    let effective = effective.clamp(1.0, runs.max(1) as f64);
    Some((share, wilson(share, effective)))
}

/// Returns Newcombe's 95% interval of the difference of two shares: `b − a`, each `(yes, all)`.
pub(crate) fn newcombe(a: (usize, usize), b: (usize, usize)) -> (f64, f64) {
    let of = |(yes, all): (usize, usize)| {
        let share = yes as f64 / all as f64;
        (share, wilson(share, all as f64))
    };
    let ((a, (low_a, high_a)), (b, (low_b, high_b))) = (of(a), of(b));
    let d = b - a;
    (
        d - (b - low_b).hypot(high_a - a),
        d + (high_b - b).hypot(a - low_a),
    )
}

/// Returns the two-sided p-value of Fisher's exact test: the probability of all tables with the same
/// sums that are at most as likely as this one.
pub(crate) fn fisher(a: (usize, usize), b: (usize, usize)) -> f64 {
    let (yes, all) = (a.0 + b.0, a.1 + b.1);
    // ln n! for each n.
    let mut factorial = Vec::with_capacity(all + 1);
    let mut sum = 0.0;
    for n in 0..=all {
        sum += (n.max(1) as f64).ln();
        factorial.push(sum);
    }
    let choose = |n: usize, k: usize| {
        let of = |n: usize| factorial.get(n).copied().unwrap_or_default();
        of(n) - of(k) - of(n - k)
    };
    let ln = |in_a: usize| choose(a.1, in_a) + choose(b.1, yes - in_a) - choose(all, yes);
    let own = ln(a.0);
    let tables = yes.saturating_sub(b.1)..=yes.min(a.1);
    let p: f64 = tables
        .map(ln)
        .filter(|other| *other <= own + 1e-7)
        .map(f64::exp)
        .sum();
    p.min(1.0)
}

/// Returns the probability that at least one of `k` runs succeeds, estimated from `passed` of `n`
/// runs, and the probability that all do. `None` if there are fewer than `k` runs.
pub(crate) fn pass_at(k: usize, passed: usize, n: usize) -> Option<(f64, f64)> {
    if k == 0 || n < k || passed > n {
        return None;
    }
    // C(m, k) / C(n, k)
    let share = |m: usize| {
        let factor = |i: usize| m.saturating_sub(i) as f64 / (n - i) as f64;
        (0..k).map(factor).product::<f64>()
    };
    Some((1.0 - share(n - passed), share(passed)))
}

/// Returns the largest share of tasks that may differ although none of `n` did, with 95%
/// confidence.
pub(crate) fn none_of(n: usize) -> f64 {
    1.0 - ALPHA.powf(1.0 / n as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn differences(values: &[f64]) -> Vec<Pair> {
        values.iter().map(|y| Pair { y: *y, x: 1.0 }).collect()
    }

    fn near(a: f64, b: f64) {
        assert!((a - b).abs() < 1e-9, "{a} isn't {b}");
    }

    /// One run a task: `better` tasks that only B solved, `worse` that only A solved.
    fn flipped(better: usize, worse: usize, same: usize) -> Vec<Pair> {
        let values = [(1.0, better), (-1.0, worse), (0.0, same)];
        let values = values
            .into_iter()
            .flat_map(|(value, n)| std::iter::repeat_n(value, n));
        differences(&values.collect::<Vec<_>>())
    }

    #[test]
    fn with_few_tasks_p_counts_all_flips() {
        // Of 8 sums of ±1 ±2 ±3, two are as large as 6 and none is larger.
        near(
            paired(&differences(&[1.0, 2.0, 3.0]), 0.0).unwrap().p,
            0.125,
        );
        // Of ±1 ±2 ±4, those beyond 4 + 1 − 2 = 3 are ±7 and ±5, and ±3 are equal.
        near(
            paired(&differences(&[1.0, -2.0, 4.0]), 0.0).unwrap().p,
            (4.0 + 1.0) / 8.0,
        );
        // Four equal signs can't be clear, five can.
        near(paired(&flipped(4, 0, 0), 0.0).unwrap().p, 0.0625);
        near(paired(&flipped(5, 0, 0), 0.0).unwrap().p, 0.031_25);
        near(paired(&flipped(4, 0, 9), 0.0).unwrap().p, 0.0625);
    }

    #[test]
    fn with_one_run_a_task_p_is_that_of_mcnemars_test() {
        // Binomial(8, ½): P(0) = 1/256, P(1) = 8/256. Mid-p is 2 (P(0) + P(1) / 2).
        near(paired(&flipped(7, 1, 4), 0.0).unwrap().p, 10.0 / 256.0);
        // b = c: 1 − P(1 of 2) / 2.
        near(paired(&flipped(1, 1, 8), 0.0).unwrap().p, 0.75);
        // Random flips come close to the exact value.
        let random = paired(&flipped(7, 1, 40), 0.0).unwrap().p;
        assert!((random - 10.0 / 256.0).abs() < 0.006, "{random}");
        assert_eq!(paired(&flipped(7, 1, 40), 0.0).unwrap().p, random);
    }

    #[test]
    fn the_interval_excludes_no_difference_if_and_only_if_p_is_below_5_percent() {
        for (better, worse, same) in [
            (5, 0, 0),
            (6, 1, 3),
            (7, 1, 4),
            (7, 1, 40),
            (9, 3, 36),
            (16, 7, 25),
            (3, 0, 45),
            (4, 4, 2),
            (4, 0, 9),
            (8, 2, 2),
            (40, 21, 100),
        ] {
            let effect = paired(&flipped(better, worse, same), 0.0).unwrap();
            let (low, high) = effect.interval.unwrap();
            assert!(low <= effect.estimate && effect.estimate <= high);
            assert_eq!(effect.p < ALPHA, low > 0.0, "{better} {worse} {same}");
            let swapped = paired(&flipped(worse, better, same), 0.0).unwrap();
            let (other, _) = swapped.interval.unwrap();
            assert!((other + high).abs() < 0.02, "both sides are treated alike");
        }
    }

    #[test]
    fn an_interval_of_five_values_is_known() {
        // Of 32 flips, only the two with equal signs have p = 1/32. So the interval ends where
        // another flip becomes as extreme: at the lowest and the highest value.
        let effect = paired(&differences(&[1.0, 2.0, 3.0, 4.0, 5.0]), 0.0).unwrap();
        let (low, high) = effect.interval.unwrap();
        near(effect.estimate, 3.0);
        assert!((low - 1.0).abs() < 1e-4 && (high - 5.0).abs() < 1e-4);
        assert_eq!(paired(&differences(&[1.0; 4]), 0.0).unwrap().interval, None);
    }

    #[test]
    fn a_ratio_is_that_of_the_totals() {
        let pairs: Vec<Pair> = (1..=20)
            .map(|n| Pair::ratio(f64::from(n), 1.25 * f64::from(n)))
            .collect();
        let effect = paired(&pairs, 1.0).unwrap();
        near(effect.estimate, 1.25);
        let (low, high) = effect.interval.unwrap();
        assert!((low - 1.25).abs() < 1e-5 && (high - 1.25).abs() < 1e-5);
        assert!(effect.p < 0.001);
        // A side without any amount has no ratio.
        assert_eq!(paired(&[Pair::ratio(0.0, 1.0)], 1.0), None);
        assert_eq!(paired(&[Pair::ratio(f64::NAN, 1.0)], 1.0), None);
        assert_eq!(paired(&[], 1.0), None);
        // Differences of millionths of a dollar aren't rounding.
        let tiny: Vec<Pair> = pairs
            .iter()
            .map(|pair| Pair::ratio(pair.x * 1e-9, pair.y * 1e-9))
            .collect();
        near(paired(&tiny, 1.0).unwrap().p, effect.p);
    }

    #[test]
    fn tasks_that_came_out_the_same_are_no_evidence() {
        let effect = paired(&flipped(0, 0, 48), 0.0).unwrap();
        assert_eq!((effect.estimate, effect.p), (0.0, 1.0));
        assert_eq!(effect.interval, Some((0.0, 0.0)));
        // 1 − 0.05^(1/48): three of 48 tasks.
        assert!((none_of(48) * 48.0 - 2.904).abs() < 0.001);
    }

    #[test]
    fn holm_multiplies_the_smallest_p_by_their_number() {
        assert_eq!(holm(&[0.01, 0.04, 0.03]), [0.03, 0.06, 0.06]);
        assert_eq!(holm(&[0.9, 0.5]), [1.0, 1.0]);
        assert!(holm(&[]).is_empty());
    }

    #[test]
    fn rates_and_their_differences_match_published_values() {
        // Newcombe 1998: 81 of 263, Wilson 0.2553 to 0.3662.
        let (low, high) = wilson(81.0 / 263.0, 263.0);
        assert!((low - 0.2553).abs() < 5e-5 && (high - 0.3662).abs() < 5e-5);
        // Newcombe 1998, method 10: 56/70 − 48/80 is 0.0524 to 0.3339.
        let (low, high) = newcombe((48, 80), (56, 70));
        assert!((low - 0.0524).abs() < 5e-5 && (high - 0.3339).abs() < 5e-5);
        // One run a task: the number of tasks.
        let tasks = [1.0, 1.0, 0.0, 1.0, 0.0];
        let (share, interval) = rate(&tasks, 5).unwrap();
        near(share, 0.6);
        let expected = wilson(0.6, 5.0);
        near(interval.0, expected.0);
        near(interval.1, expected.1);
        // Three runs that always agree count once.
        assert_eq!(rate(&tasks, 15), rate(&tasks, 5));
        assert!(rate(&[], 0).is_none());
    }

    #[test]
    fn fishers_test_matches_the_tea_tasting() {
        // 3 of 4 against 1 of 4: (16 + 16 + 1 + 1) / 70.
        near(fisher((3, 4), (1, 4)), 34.0 / 70.0);
        near(fisher((4, 4), (0, 4)), 2.0 / 70.0);
        near(fisher((0, 4), (0, 4)), 1.0);
    }

    #[test]
    fn pass_at_k_counts_the_choices_of_k_runs() {
        // C(2, 2) / C(4, 2) is 1/6.
        let (once, always) = pass_at(2, 2, 4).unwrap();
        near(once, 5.0 / 6.0);
        near(always, 1.0 / 6.0);
        assert_eq!(pass_at(3, 1, 2), None);
        assert_eq!(pass_at(1, 0, 3), Some((0.0, 0.0)));
    }

    /// The share of false alarms and of intervals that contain the true difference, over seeded
    /// experiments with 3 runs of each of 48 tasks.
    #[test]
    fn false_alarms_and_coverage_are_those_of_the_method() {
        let many = std::env::var_os("BOARD_SOAK").is_some();
        let (experiments, flips) = if many { (4_000, FLIPS) } else { (600, 500) };
        let mut random = Random(7);
        let mut unit = || (random.next() >> 11) as f64 / (1_u64 << 53) as f64;
        let mut one = |gain: f64| {
            let mut truth = 0.0;
            let pairs: Vec<Pair> = (0..48)
                .map(|task| {
                    let a: f64 = [0.04, 0.1, 0.2, 0.45, 0.6, 0.8, 0.93, 0.97][task % 8];
                    let b = (a + gain).min(0.98);
                    truth += (b - a) / 48.0;
                    let mut passed =
                        |rate: f64| (0..3).filter(|_| unit() < rate).count() as f64 / 3.0;
                    Pair::difference(passed(a), passed(b))
                })
                .collect();
            let effect = paired_by(&pairs, 0.0, flips).unwrap();
            let (low, high) = effect.interval.unwrap();
            (effect.p < ALPHA, low <= truth && truth <= high)
        };
        let (mut alarms, mut covered) = (0, 0);
        for _ in 0..experiments {
            alarms += usize::from(one(0.0).0);
            covered += usize::from(one(0.2).1);
        }
        let share = |n: usize| n as f64 / f64::from(experiments);
        assert!(share(alarms) <= 0.06, "{}", share(alarms));
        assert!(share(covered) >= 0.94, "{}", share(covered));
    }
}
