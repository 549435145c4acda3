//! How do two runs compare, for programs?

use serde::Serialize;
use serde_json::value::RawValue;

use crate::analysis::compare::{Comparison, Config, compare, config, measures};
use crate::analysis::summary::Summary;
use crate::model::Index;
use crate::model::json::Json;
use crate::page::runs::json::RunRow;

/// Two runs beside each other.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Compare<'a> {
    /// Run A.
    pub a: RunRow<'a>,
    /// Run B.
    pub b: RunRow<'a>,
    /// Where they part, in a sentence or two.
    pub summary: String,
    /// Whether anything but ids, times and numbers differs: a step, or a setting.
    pub differs: bool,
    /// The settings that differ, by likely effect.
    pub config: Vec<Setting>,
    /// How many more differ than are listed.
    pub config_more: usize,
    /// How many settings are equal.
    pub config_equal: usize,
    /// Numbers of both.
    pub metrics: Vec<Metric>,
    /// Every step of both, side by side.
    pub aligned: Vec<Pair>,
    /// How many rows both do the same from the beginning on.
    pub common_prefix: usize,
    /// Where they part; `null` where nothing that is compared differs.
    pub first_divergence: Option<Divergence>,
    /// The first row before that at which something differs although both do the same.
    pub first_unlike: Option<Divergence>,
}

/// A setting that differs; `null` is not recorded.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Setting {
    /// Where it stands in the manifest.
    pub path: String,
    /// In run A.
    pub a: Option<Box<RawValue>>,
    /// In run B.
    pub b: Option<Box<RawValue>>,
    /// What it bears on.
    pub affects: &'static str,
}

/// A number of both runs; `null` is not recorded.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Metric {
    /// What it is.
    pub name: &'static str,
    /// In run A.
    pub a: Option<f64>,
    /// In run B.
    pub b: Option<f64>,
    /// B less A.
    pub delta: Option<f64>,
}

/// Steps that stand side by side, as ordinals.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Pair {
    /// The step of run A.
    pub a: Option<usize>,
    /// The step of run B.
    pub b: Option<usize>,
    /// Whether both do the same: actions and arguments, or the answer.
    pub same: bool,
    /// What differs, weightiest first: `only_in_a`, `only_in_b`, `action`, `arguments`, `answer`, `result`, `error`,
    /// `critic`, `score`, `state` or `none`.
    pub what: &'static str,
}

/// A row at which something differs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Divergence {
    /// The step of run A.
    pub a: Option<usize>,
    /// The step of run B.
    pub b: Option<usize>,
    /// What differs.
    pub what: &'static str,
}

/// One run and what it is read from.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Side<'a> {
    /// The facts of its row.
    pub summary: &'a Summary,
    /// What is known of its lines.
    pub index: &'a Index,
    /// The text of its manifest, if it can be read.
    pub manifest: Option<&'a str>,
}

/// The settings of two runs.
pub(crate) fn settings(a: &Side<'_>, b: &Side<'_>) -> Config {
    let (one, other) = (a.manifest.and_then(Json::parse), b.manifest.and_then(Json::parse));
    config((a.summary, one.as_ref()), (b.summary, other.as_ref()))
}

/// Compares two runs.
pub(crate) fn compared<'a>(a: &Side<'a>, b: &Side<'a>) -> Compare<'a> {
    let comparison = compare(a.index, b.index);
    let config = settings(a, b);
    let at = |row: Option<usize>| {
        let row = comparison.rows.get(row?)?;
        Some(Divergence { a: row.pair.a, b: row.pair.b, what: row.relation.word() })
    };
    Compare {
        a: RunRow(a.summary),
        b: RunRow(b.summary),
        summary: comparison.sentence(a.index, b.index),
        differs: comparison.first.is_some() || !config.differs.is_empty(),
        config_more: config.more,
        config_equal: config.equal.len(),
        config: config.differs.into_iter().map(setting).collect(),
        metrics: metrics(a, b),
        first_divergence: at(comparison.first),
        first_unlike: at(comparison.before),
        common_prefix: comparison.common,
        aligned: pairs(&comparison),
    }
}

fn setting(setting: crate::analysis::compare::Setting) -> Setting {
    let raw = |text: Option<String>| text.and_then(|text| RawValue::from_string(text).ok());
    Setting { path: setting.path, a: raw(setting.a), b: raw(setting.b), affects: setting.affects }
}

fn pairs(comparison: &Comparison) -> Vec<Pair> {
    let rows = comparison.rows.iter();
    rows.map(|row| Pair { a: row.pair.a, b: row.pair.b, same: row.pair.same, what: row.relation.word() }).collect()
}

fn metrics(a: &Side<'_>, b: &Side<'_>) -> Vec<Metric> {
    let pairs = measures(a.summary, a.index).into_iter().zip(measures(b.summary, b.index));
    pairs
        .map(|(one, other)| Metric {
            name: one.id,
            a: one.value,
            b: other.value,
            delta: other.value.zip(one.value).map(|(other, one)| other - one),
        })
        .collect()
}
