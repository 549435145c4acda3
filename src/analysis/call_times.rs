//! Keeps the number of calls of a run's tools and how long they took in a few bytes, and finds
//! percentiles over many runs.
//!
//! A duration is stored as one of 256 classes, eight for each factor of two. A percentile is the
//! middle of a class, so it differs from the exact one by at most 5%. A run with many different
//! durations has wider classes.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};

use serde::{Deserialize, Serialize};
use thin_vec::ThinVec;

use super::lanes::Lanes;
use super::newest::newest_run;
use crate::model::index::{RunTally, ToolCalls};
use crate::model::{Index, Symbol};

/// The classes of a doubling.
const PER_DOUBLING: f64 = 8.0;
/// The end of the first class in milliseconds, as a power of two. The last class then begins at 69
/// hours.
const FIRST_END: f64 = -4.0;
/// The entries of a run, at most: 256 bytes.
const MAX_ENTRIES: usize = 64;
/// Below this many calls, percentiles say less than the calls.
pub(crate) const MIN_CALLS: u64 = 20;

/// How long the calls of a run took: the position of the tool in [`Summary::tools`], the class of
/// the duration, and the number of calls.
///
/// [`Summary::tools`]: super::summary::Summary::tools
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallTimes(ThinVec<(u8, u8, u16)>);

/// The calls of one of a run's tools.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct ToolSum {
    /// How many there are.
    pub calls: u32,
    /// The calls with a recorded outcome.
    pub judged: u32,
    /// Those that failed.
    pub failed: u32,
    /// How long they took together, in milliseconds, as far as known. Like [`CallTimes`], 0 until the
    /// run is over.
    pub ms: f32,
}

/// Returns the calls of each tool of the run, in the order of [`Summary::tools`]. `own` are the steps
/// that count.
///
/// [`Summary::tools`]: super::summary::Summary::tools
pub(super) fn tool_sums(index: &Index, own: &RunTally) -> ThinVec<ToolSum> {
    let sum = |tool| {
        let ToolCalls {
            calls,
            judged,
            failed,
        } = own.tools.calls(tool);
        ToolSum {
            calls,
            judged,
            failed,
            ms: 0.0,
        }
    };
    index.tally().run.tools.iter().map(sum).collect()
}

impl CallTimes {
    /// Collects the durations of the calls in the steps of the newest run that count, and adds them to
    /// the sums of their tools. As on the timeline, a duration is recorded, or else it's the time from a
    /// step's only call to its result.
    pub(super) fn of(
        index: &Index,
        sums: &mut [ToolSum],
        is_counted: impl Fn(usize) -> bool,
    ) -> Self {
        let tools = index.tally().run.tools.iter();
        let places: HashMap<Symbol, usize> = tools.zip(0..).collect();
        if places.is_empty() {
            return Self::default();
        }
        let mut all_ms = vec![0.0; sums.len()];
        let took = Lanes::of(index).calls_took();
        let mut calls: BTreeMap<(u8, u8), u64> = BTreeMap::new();
        for (n, step) in newest_run(index).filter(|(n, _)| is_counted(*n)) {
            for call in &step.calls {
                // If several calls are timed together, the time of each is unknown.
                let only = || took.get(&n).filter(|_| step.actions == 1);
                let recorded = call.ms().map(f64::from);
                let ms = recorded.or_else(|| only().map(|micros| *micros as f64 / 1e3));
                let Some((tool, ms)) = places.get(&call.name).zip(ms) else {
                    continue;
                };
                if let Some(sum) = all_ms.get_mut(*tool) {
                    *sum += ms;
                }
                if let Ok(tool) = u8::try_from(*tool) {
                    *calls.entry((tool, class(ms))).or_default() += 1;
                }
            }
        }
        for (sum, ms) in sums.iter_mut().zip(all_ms) {
            sum.ms = ms as f32;
        }
        Self::new(calls)
    }

    fn new(mut calls: BTreeMap<(u8, u8), u64>) -> Self {
        let mut width = 1;
        while calls.len() > MAX_ENTRIES && width < u8::MAX / 2 {
            width *= 2;
            calls = merged(&calls, width);
        }
        let mut entries: Vec<((u8, u8), u64)> = calls.into_iter().collect();
        if entries.len() > MAX_ENTRIES {
            // So many tools are hardly ever called more than once each.
            entries.sort_by_key(|(key, calls)| (Reverse(*calls), *key));
            entries.truncate(MAX_ENTRIES);
        }
        let small = |calls: u64| u16::try_from(calls).unwrap_or(u16::MAX);
        Self(
            entries
                .into_iter()
                .map(|((tool, class), calls)| (tool, class, small(calls)))
                .collect(),
        )
    }

    /// Returns the times of a run with one tool.
    #[cfg(test)]
    pub(super) fn of_one_tool(ms: impl IntoIterator<Item = f64>) -> Self {
        let mut calls: BTreeMap<(u8, u8), u64> = BTreeMap::new();
        for ms in ms {
            *calls.entry((0, class(ms))).or_default() += 1;
        }
        Self::new(calls)
    }

    /// Iterates over the position of the tool, the class, and the number of calls.
    fn iter(&self) -> impl Iterator<Item = (usize, u8, u64)> {
        let entries = self.0.iter().copied();
        entries.map(|(tool, class, calls)| (usize::from(tool), class, u64::from(calls)))
    }
}

/// Merges each `width` neighboring classes into that of them with the most calls.
fn merged(calls: &BTreeMap<(u8, u8), u64>, width: u8) -> BTreeMap<(u8, u8), u64> {
    let mut groups: BTreeMap<(u8, u8), (u64, u8, u64)> = BTreeMap::new();
    for ((tool, class), calls) in calls {
        let (sum, best, most) = groups.entry((*tool, class / width)).or_default();
        *sum = sum.saturating_add(*calls);
        if calls > most {
            (*best, *most) = (*class, *calls);
        }
    }
    groups
        .into_iter()
        .map(|((tool, _), (sum, best, _))| ((tool, best), sum))
        .collect()
}

/// Returns the class of a duration.
fn class(ms: f64) -> u8 {
    // The conversion saturates: 0 for what is shorter, and 255 for what is longer.
    ((ms.log2() - FIRST_END) * PER_DOUBLING).floor().max(0.0) as u8
}

/// Returns the middle of a class, in milliseconds.
fn middle(class: u8) -> f64 {
    (FIRST_END + (f64::from(class) + 0.5) / PER_DOUBLING).exp2()
}

/// The durations of the calls of each tool over many runs.
#[derive(Debug, Default)]
pub(super) struct Durations<'a>(HashMap<&'a str, BTreeMap<u8, u64>>);

impl<'a> Durations<'a> {
    /// Adds the calls of a run with these tools.
    pub(super) fn add(&mut self, times: &CallTimes, tools: &'a [String]) {
        for (tool, class, calls) in times.iter() {
            if let Some(tool) = tools.get(tool) {
                let classes = self.0.entry(tool).or_default();
                *classes.entry(class).or_default() += calls;
            }
        }
    }

    /// Returns the number of a tool's calls with a known duration.
    pub(super) fn calls(&self, tool: &str) -> u64 {
        let classes = self.0.get(tool);
        classes.map_or(0, |classes| classes.values().sum())
    }

    /// Returns the duration in milliseconds that `percent` of the tool's calls didn't exceed. `None`
    /// if fewer than [`MIN_CALLS`] have a known duration.
    pub(super) fn percentile(&self, tool: &str, percent: u64) -> Option<f64> {
        let all = self.calls(tool);
        if all < MIN_CALLS {
            return None;
        }
        let rank = all.saturating_mul(percent).div_ceil(100);
        let mut below = 0;
        let classes = self.0.get(tool)?;
        let found = classes.iter().find(|(_, calls)| {
            below += **calls;
            below >= rank
        });
        // A class is too wide for more digits.
        found.map(|(class, _)| {
            format!("{:.2e}", middle(*class))
                .parse()
                .unwrap_or(middle(*class))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn percentiles(runs: &[CallTimes]) -> [Option<f64>; 2] {
        let tools = ["Bash".to_owned()];
        let mut durations = Durations::default();
        runs.iter().for_each(|run| durations.add(run, &tools));
        [50, 95].map(|percent| durations.percentile("Bash", percent))
    }

    #[test]
    fn percentiles_over_runs_differ_from_the_exact_ones_by_less_than_a_class() {
        // A wide range of durations, with a few in each run.
        let all: Vec<f64> = (1..=4_000)
            .map(|n: i32| 1.004_f64.powi(n * 7_919 % 4_000) * 0.3)
            .collect();
        let runs: Vec<CallTimes> = all
            .chunks(40)
            .map(|own| CallTimes::of_one_tool(own.iter().copied()))
            .collect();
        let mut sorted = all.clone();
        sorted.sort_by(f64::total_cmp);
        let exact = [sorted[1_999], sorted[3_799]];
        for (found, exact) in percentiles(&runs).into_iter().zip(exact) {
            let error = (found.unwrap() / exact - 1.0).abs();
            assert!(error <= 0.05, "{found:?} isn't near {exact}");
        }
        assert_eq!(
            percentiles(&[CallTimes::of_one_tool(vec![5.0; 19])]),
            [None, None]
        );
        assert!(percentiles(&[CallTimes::of_one_tool(vec![5.0; 20])])[0].is_some());
    }

    #[test]
    fn a_run_keeps_few_entries_and_counts_all_calls() {
        let long: Vec<f64> = (0..5_000).map(|n| 1.005_f64.powi(n)).collect();
        let run = CallTimes::of_one_tool(long.iter().copied());
        assert!(run.0.len() <= MAX_ENTRIES, "{}", run.0.len());
        assert_eq!(run.iter().map(|(.., calls)| calls).sum::<u64>(), 5_000);
        assert_eq!(size_of::<(u8, u8, u16)>() * MAX_ENTRIES, 256);
        let [middle, _] = percentiles(&[run]);
        let error = (middle.unwrap() / long[2_499]).log2().abs();
        assert!(error <= 1.0, "{middle:?}");
        let tools = (0..=u8::MAX).map(|tool| ((tool, 9), 1 + u64::from(tool)));
        let many = CallTimes::new(tools.collect());
        assert_eq!(many.0.len(), MAX_ENTRIES);
        assert_eq!(many.0[0], (255, 9, 256));
    }

    #[test]
    fn durations_beyond_the_classes_are_in_the_first_and_the_last() {
        assert_eq!([0.0, 0.01, -0.0].map(class), [0; 3]);
        assert_eq!([f64::from(f32::MAX), 1e12].map(class), [255; 2]);
        let hour = 3_600_000.0;
        assert!((middle(class(hour)) / hour - 1.0).abs() < 0.045);
    }
}
