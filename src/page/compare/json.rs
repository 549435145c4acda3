//! How do two runs compare, for programs?

use serde::Serialize;

use crate::analysis::compare::{Config, Relation, Row, Setting, compare, config, measures_of_two};
use crate::analysis::summary::Summary;
use crate::model::json::Json;
use crate::model::{Index, Lines};
use crate::page::lens::Lens;
use crate::page::runs::json::RunRow;
use crate::page::step::fill::manifest_text;

/// Two runs beside each other.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Compare<'a> {
    pub a: RunRow<'a>,
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
    pub aligned: Vec<Row>,
    /// How many rows both do the same from the beginning on.
    pub common_prefix: usize,
    /// Where they part; `null` where nothing that is compared differs.
    pub first_divergence: Option<Divergence>,
    /// The first row before that at which something differs although both do the same.
    pub first_unlike: Option<Divergence>,
}

/// A number of both runs; `null` is not recorded.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Metric {
    pub name: &'static str,
    pub a: Option<f64>,
    pub b: Option<f64>,
    /// B less A.
    pub delta: Option<f64>,
}

/// A row at which something differs: the steps, and what.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Divergence {
    pub a: Option<usize>,
    pub b: Option<usize>,
    pub what: Relation,
}

/// One run and what it is read from.
pub(crate) struct Side<'a> {
    pub summary: &'a Summary,
    pub index: &'a Index,
    /// The text of its manifest, if it can be read.
    manifest: Option<String>,
}

impl<'a> Side<'a> {
    pub(crate) fn new(summary: &'a Summary, index: &'a Index, lines: &dyn Lines) -> Self {
        Self { summary, index, manifest: manifest_text(lines) }
    }

    pub(crate) fn of(lens: &Lens<'a>) -> Self {
        Self::new(lens.summary, lens.index, lens.lines)
    }
}

/// The settings of two runs.
pub(crate) fn settings(a: &Side<'_>, b: &Side<'_>) -> Config {
    let [one, other] = [a, b].map(|side| side.manifest.as_deref().and_then(Json::parse));
    config((a.summary, one.as_ref()), (b.summary, other.as_ref()))
}

/// Compares two runs.
pub(crate) fn compared<'a>(a: &Side<'a>, b: &Side<'a>) -> Compare<'a> {
    let comparison = compare(a.index, b.index);
    let config = settings(a, b);
    let at = |row: Option<usize>| {
        let row = comparison.rows.get(row?)?;
        Some(Divergence { a: row.pair.a, b: row.pair.b, what: row.relation })
    };
    let metrics = measures_of_two((a.summary, a.index), (b.summary, b.index)).map(|(one, other)| Metric {
        name: one.id,
        a: one.value,
        b: other.value,
        delta: other.value.zip(one.value).map(|(other, one)| other - one),
    });
    Compare {
        a: RunRow(a.summary),
        b: RunRow(b.summary),
        summary: comparison.sentence(a.index, b.index),
        differs: comparison.first.is_some() || !config.differs.is_empty(),
        config_more: config.more,
        config_equal: config.equal.len(),
        config: config.differs,
        metrics: metrics.collect(),
        first_divergence: at(comparison.first),
        first_unlike: at(comparison.before),
        common_prefix: comparison.common,
        aligned: comparison.rows,
    }
}
