//! Provides the JSON documents that compare runs.

use schemars::JsonSchema;
use serde::Serialize;

use super::{
    Config, Measure, Relation, Row, RowOfSeveral, Setting, SettingOfSeveral, compare,
    compare_several, config, config_of_several, measures, measures_of_two,
};
use crate::analysis::columns::RunRow;
use crate::analysis::summary::Summary;
use crate::model::json::Json;
use crate::model::{Index, Lines};

/// One of the runs, with the data to compare.
#[derive(Debug)]
pub(crate) struct Side<'a> {
    /// Its summary.
    pub summary: &'a Summary,
    /// Its index.
    pub index: &'a Index,
    /// The text of its manifest, if it can be read.
    manifest: Option<String>,
}

impl<'a> Side<'a> {
    /// Reads the manifest of a run.
    pub(crate) fn new(summary: &'a Summary, index: &'a Index, lines: &dyn Lines) -> Self {
        Self {
            summary,
            index,
            manifest: lines.manifest_text(),
        }
    }
}

/// Compares the settings of two runs.
pub(crate) fn settings(a: &Side<'_>, b: &Side<'_>) -> Config {
    let [one, other] = [a, b].map(|side| side.manifest.as_deref().and_then(Json::parse));
    config((a.summary, one.as_ref()), (b.summary, other.as_ref()))
}

/// Compares the settings of several runs.
pub(crate) fn settings_of_several(sides: &[Side<'_>]) -> Config<SettingOfSeveral> {
    let manifests: Vec<Option<Json<'_>>> = sides
        .iter()
        .map(|side| side.manifest.as_deref().and_then(Json::parse))
        .collect();
    let runs: Vec<_> = sides
        .iter()
        .zip(&manifests)
        .map(|(side, manifest)| (side.summary, manifest.as_ref()))
        .collect();
    config_of_several(&runs)
}

/// Two runs side by side, or several.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(untagged)]
pub(crate) enum ComparedRuns<'a> {
    /// Exactly two.
    Two(Box<Compared<'a>>),
    /// Three or more.
    Several(Box<ComparedSeveral<'a>>),
}

/// Two runs side by side.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Compared<'a> {
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

/// A row of the comparison, identified by its steps, counted from 0.
#[derive(Debug, Serialize, JsonSchema)]
struct RowPlace {
    a: Option<usize>,
    b: Option<usize>,
    what: Relation,
}

/// Compares two runs.
pub(crate) fn compared<'a>(a: &Side<'a>, b: &Side<'a>) -> Compared<'a> {
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

/// Three or more runs side by side. Lists of values are in the order of the runs.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ComparedSeveral<'a> {
    runs: Vec<RunRow<'a>>,
    /// The differences in a sentence.
    summary: String,
    /// Whether a step or a setting differs. Ids, times and numbers don't count.
    pub differs: bool,
    /// The settings that differ.
    config: Vec<SettingOfSeveral>,
    /// How many more settings differ.
    config_more: usize,
    /// How many settings are equal.
    config_equal: usize,
    metrics: Vec<MetricOfSeveral>,
    /// All steps of all runs, side by side.
    aligned: Vec<RowOfSeveral>,
    /// How many rows all runs have in common at the start.
    common_prefix: usize,
    /// The number of steps, if there are too many to align. `differs` then covers only the settings.
    #[serde(skip_serializing_if = "Option::is_none")]
    steps_not_aligned: Option<usize>,
    /// The row where the runs diverge.
    first_divergence: Option<RowOfSeveral>,
}

/// A metric of several runs.
#[derive(Debug, Serialize, JsonSchema)]
struct MetricOfSeveral {
    name: &'static str,
    /// The value of each run; null if it isn't recorded.
    values: Vec<Option<f64>>,
    /// Whether each value is an estimate.
    estimated: Vec<bool>,
}

/// Compares two or more runs. Returns `None` for fewer.
pub(crate) fn compared_runs<'a>(sides: &[Side<'a>]) -> Option<ComparedRuns<'a>> {
    match sides {
        [] | [_] => None,
        [a, b] => Some(ComparedRuns::Two(Box::new(compared(a, b)))),
        _ => Some(ComparedRuns::Several(Box::new(compared_several(sides)))),
    }
}

fn compared_several<'a>(sides: &[Side<'a>]) -> ComparedSeveral<'a> {
    let indexes: Vec<&Index> = sides.iter().map(|side| side.index).collect();
    let comparison = compare_several(&indexes);
    let config = settings_of_several(sides);
    let all: Vec<Vec<Measure>> = sides
        .iter()
        .map(|side| measures(side.summary, side.index))
        .collect();
    let metric = |(at, first): (usize, &Measure)| {
        let of = || all.iter().filter_map(move |measures| measures.get(at));
        MetricOfSeveral {
            name: first.id,
            values: of().map(|measure| measure.value).collect(),
            estimated: of().map(|measure| measure.is_estimate).collect(),
        }
    };
    let metrics = all.first().into_iter().flatten().enumerate();
    ComparedSeveral {
        steps_not_aligned: comparison.not_aligned,
        runs: sides.iter().map(|side| RunRow(side.summary)).collect(),
        summary: comparison.sentence(&indexes),
        differs: comparison.first.is_some() || config.count() > 0,
        metrics: metrics.map(metric).collect(),
        config_more: config.more,
        config_equal: config.equal.len(),
        config: config.differs,
        common_prefix: comparison.common,
        first_divergence: comparison
            .first
            .and_then(|at| comparison.rows.get(at).cloned()),
        aligned: comparison.rows,
    }
}
