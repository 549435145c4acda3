//! Compares what the runs of two sets were made with.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::Serialize;

use super::sets::{Judged, Set, Two};
use crate::analysis::format::counted;
use crate::analysis::summary::Summary;

/// Maximum number of values of a setting that are listed for each side.
const MAX_VALUES: usize = 8;
/// Shares of a value that are this close don't differ.
const SAME_SHARE: f64 = 0.1;
/// Microseconds in a day.
const DAY: i64 = 86_400_000_000;

/// A setting of the runs of both sets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "ExperimentSetting")]
pub(crate) struct Setting {
    /// The setting.
    pub name: &'static str,
    /// Whether the sides differ: a value that one side has more often by a tenth of its runs. If most
    /// runs of a side don't record the setting, it doesn't count as different.
    pub differs: bool,
    /// Whether most runs of both sides record it, and the sides don't differ.
    #[serde(skip)]
    pub(crate) is_same: bool,
    /// Whether the setting limits how far a run can get.
    pub is_limit: bool,
    /// The values in A, the most frequent first.
    pub a: Vec<SettingValue>,
    /// The values in B.
    pub b: Vec<SettingValue>,
}

/// A value of a setting.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub(crate) struct SettingValue {
    /// The value.
    pub value: String,
    /// The number of runs with it.
    pub runs: usize,
}

impl Setting {
    /// Returns the values of a side.
    pub(crate) fn values(&self, set: Set) -> &[SettingValue] {
        match set {
            Set::A => &self.a,
            Set::B => &self.b,
        }
    }

    /// Lists the values of a side, with numbers of runs if there are several: `20 (8 runs), 30 (1
    /// run)`.
    pub(crate) fn words(&self, set: Set) -> String {
        match self.values(set) {
            [] => "not recorded".to_owned(),
            [one] => one.value.clone(),
            several => {
                let one = |value: &SettingValue| {
                    format!("{} ({})", value.value, counted(value.runs, "run"))
                };
                let all: Vec<String> = several.iter().map(one).collect();
                // A value may be a list.
                let is_list = several.iter().any(|value| value.value.contains(", "));
                all.join(if is_list { "; " } else { ", " })
            }
        }
    }
}

type Read = fn(&Summary) -> Option<String>;

/// The settings that a summary knows, and whether they're limits.
const SETTINGS: [(&str, bool, Read); 7] = [
    ("model", false, |run| {
        let several = (run.models.len() > 1).then(|| run.models.join(" + "));
        several.or_else(|| run.model.as_deref().map(str::to_owned))
    }),
    ("prompt", false, |run| {
        run.prompt_hash.as_deref().map(str::to_owned)
    }),
    ("step limit", true, |run| {
        let limit = run.verdict.budget()?;
        Some(limit.steps.to_string())
    }),
    ("agent", false, |run| listed(&run.agents)),
    ("writer", false, |run| {
        run.tool.as_deref().map(str::to_owned)
    }),
    ("critics", false, |run| listed(&run.critics)),
    ("tools called", false, |run| {
        let mut tools = run.tools.to_vec();
        tools.sort();
        listed(&tools)
    }),
];

fn listed(names: &[String]) -> Option<String> {
    (!names.is_empty()).then(|| names.join(", "))
}

/// Compares the settings that any run records.
pub(super) fn settings(compared: &Two<Vec<Judged<'_>>>) -> Vec<Setting> {
    let mut all = Vec::new();
    for (name, is_limit, read) in SETTINGS {
        let counts = compared.map(|runs| {
            let mut counts: BTreeMap<String, usize> = BTreeMap::new();
            for value in runs.iter().filter_map(|judged| read(judged.run)) {
                *counts.entry(value).or_default() += 1;
            }
            counts
        });
        if counts.a.is_empty() && counts.b.is_empty() {
            continue;
        }
        let sum = counts.map(|counts| counts.values().sum::<usize>().max(1) as f64);
        let share = |set: Set, value: &String| {
            let runs = counts.of(set).get(value).copied().unwrap_or_default();
            runs as f64 / sum.of(set)
        };
        // The share of runs that would need another value for both sides to be alike.
        let values: BTreeSet<&String> = counts.a.keys().chain(counts.b.keys()).collect();
        let apart = |value: &String| (share(Set::A, value) - share(Set::B, value)).abs();
        let apart: f64 = values.into_iter().map(apart).sum::<f64>() / 2.0;
        let is_recorded = |set: Set| {
            let runs: usize = counts.of(set).values().sum();
            runs > 0 && runs * 2 >= compared.of(set).len()
        };
        let is_known = is_recorded(Set::A) && is_recorded(Set::B);
        let differs = is_known && apart >= SAME_SHARE;
        all.push(Setting {
            name,
            differs,
            is_same: is_known && !differs,
            is_limit,
            a: sorted(&counts.a),
            b: sorted(&counts.b),
        });
    }
    all.extend(dates(compared));
    all
}

/// Compares the days on which the runs started. Sets differ if their days don't overlap, and are the
/// same if their first and last days are.
fn dates(compared: &Two<Vec<Judged<'_>>>) -> Option<Setting> {
    let days = compared.map(|runs| {
        let days = || {
            let started = runs.iter().filter_map(|judged| judged.run.started);
            started.map(|started| started.div_euclid(DAY))
        };
        let count = days().count();
        days()
            .min()
            .zip(days().max())
            .map(|(first, last)| (first, last, count))
    });
    let value = |days: Option<(i64, i64, usize)>| {
        let (first, last, runs) = days?;
        let (first, last) = (day(first)?, day(last)?);
        let value = if first == last {
            first
        } else {
            format!("{first} to {last}")
        };
        Some(SettingValue { value, runs })
    };
    let differs = days
        .a
        .zip(days.b)
        .is_some_and(|(a, b)| a.1 < b.0 || b.1 < a.0);
    let is_same = days
        .a
        .zip(days.b)
        .is_some_and(|(a, b)| (a.0, a.1) == (b.0, b.1));
    let (a, b) = (value(days.a), value(days.b));
    (a.is_some() || b.is_some()).then(|| Setting {
        name: "date",
        differs,
        is_same,
        is_limit: false,
        a: a.into_iter().collect(),
        b: b.into_iter().collect(),
    })
}

/// Formats a day since the epoch, in UTC.
fn day(day: i64) -> Option<String> {
    let at = jiff::Timestamp::from_microsecond(day.checked_mul(DAY)?).ok()?;
    Some(at.strftime("%Y-%m-%d").to_string())
}

fn sorted(counts: &BTreeMap<String, usize>) -> Vec<SettingValue> {
    let mut values: Vec<SettingValue> = counts
        .iter()
        .map(|(value, runs)| SettingValue {
            value: value.clone(),
            runs: *runs,
        })
        .collect();
    values.sort_by(|a, b| b.runs.cmp(&a.runs).then_with(|| a.value.cmp(&b.value)));
    values.truncate(MAX_VALUES);
    values
}
