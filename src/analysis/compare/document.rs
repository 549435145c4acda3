//! Provides the JSON document that compares two runs.

use schemars::JsonSchema;
use serde::Serialize;

use super::{Config, Measure, Relation, Row, Setting, compare, config, measures_of_two};
use crate::analysis::columns::RunRow;
use crate::analysis::summary::Summary;
use crate::model::json::Json;
use crate::model::{Index, Lines};

/// One of the runs, with the data to compare.
#[derive(Debug)]
pub struct Side<'a> {
    /// Its summary.
    pub summary: &'a Summary,
    /// Its index.
    pub index: &'a Index,
    /// The text of its manifest, if it can be read.
    manifest: Option<String>,
}

impl<'a> Side<'a> {
    /// Reads the manifest of a run.
    pub fn new(summary: &'a Summary, index: &'a Index, lines: &dyn Lines) -> Self {
        Self {
            summary,
            index,
            manifest: lines.manifest_text(),
        }
    }
}

/// Compares the settings of two runs.
pub fn settings(a: &Side<'_>, b: &Side<'_>) -> Config {
    let [one, other] = [a, b].map(|side| side.manifest.as_deref().and_then(Json::parse));
    config((a.summary, one.as_ref()), (b.summary, other.as_ref()))
}

/// Two runs side by side.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Compared<'a> {
    a: RunRow<'a>,
    b: RunRow<'a>,
    /// The differences in a sentence.
    summary: String,
    /// Whether a step or a setting differs. Ids, times and numbers don't count.
    pub differs: bool,
    /// The settings that differ.
    config: Vec<Setting>,
    /// How many more settings differ.
    config_more: usize,
    /// How many settings are equal.
    config_equal: usize,
    metrics: Vec<Metric>,
    /// All steps of both runs, side by side.
    aligned: Vec<Row>,
    /// How many rows both runs have in common at the start.
    common_prefix: usize,
    /// The row where the runs diverge.
    first_divergence: Option<RowPlace>,
    /// The first row before that where something differs although both runs take the same action.
    first_unlike: Option<RowPlace>,
}

/// A metric of both runs.
#[derive(Debug, Serialize, JsonSchema)]
struct Metric {
    name: &'static str,
    a: Option<f64>,
    b: Option<f64>,
    /// `b` − `a`.
    delta: Option<f64>,
    /// Whether `a` is an estimate.
    a_estimated: bool,
    /// Whether `b` is an estimate.
    b_estimated: bool,
}

impl Metric {
    fn new((a, b): (Measure, Measure)) -> Self {
        Self {
            name: a.id,
            a: a.value,
            b: b.value,
            delta: b.value.zip(a.value).map(|(b, a)| b - a),
            a_estimated: a.is_estimate,
            b_estimated: b.is_estimate,
        }
    }
}

/// A row of the comparison, identified by the ordinals of its steps.
#[derive(Debug, Serialize, JsonSchema)]
struct RowPlace {
    a: Option<usize>,
    b: Option<usize>,
    what: Relation,
}

/// Compares two runs.
pub fn compared<'a>(a: &Side<'a>, b: &Side<'a>) -> Compared<'a> {
    let comparison = compare(a.index, b.index);
    let config = settings(a, b);
    let at = |row: Option<usize>| {
        let row = comparison.rows.get(row?)?;
        Some(RowPlace {
            a: row.pair.a,
            b: row.pair.b,
            what: row.relation,
        })
    };
    let metrics = measures_of_two((a.summary, a.index), (b.summary, b.index));
    Compared {
        a: RunRow(a.summary),
        b: RunRow(b.summary),
        summary: comparison.whole_sentence(a, b, &config),
        differs: comparison.first.is_some() || !config.differs.is_empty(),
        config: config.differs,
        config_more: config.more,
        config_equal: config.equal.len(),
        metrics: metrics.map(Metric::new).collect(),
        common_prefix: comparison.common,
        first_divergence: at(comparison.first),
        first_unlike: at(comparison.before),
        aligned: comparison.rows,
    }
}
