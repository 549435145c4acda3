//! What do programs read of a run's end? The explanation, with its evidence and how every rule stood.

use serde::Serialize;

use crate::analysis::summary::Summary;
use crate::analysis::why::{Evidence, Trouble, why as explain};
use crate::model::{Index, Lines};
use crate::page::whatif::json_rule::Rule;

/// Why a run stopped.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Why<'a> {
    /// The answer in one sentence, without a full stop.
    pub headline: &'a str,
    /// What happened besides, one or two full sentences; empty where nothing did.
    pub second: &'a str,
    /// How the run came out.
    pub outcome: &'static str,
    /// The recorded stop reason, as written.
    pub stop_reason: Option<&'a str>,
    /// What the headline rests on: `recorded`, `inferred` or `unknown`.
    pub certainty: &'static str,
    /// The last step that really ran, as an ordinal.
    pub step: Option<usize>,
    /// What shows it, the weightiest first.
    pub evidence: Vec<Evidence>,
    /// How every rule stood, the one that ended the run first.
    pub rules: Vec<Rule>,
    /// Which limit would end a run that goes on, an estimate in one sentence.
    pub pace: Option<String>,
    /// Where the files contradict each other.
    pub contradictions: Vec<String>,
    /// Where something went wrong first.
    pub first_trouble: Option<Trouble>,
    /// How alive the run is.
    pub liveness: &'static str,
}

/// Explains a run.
pub(crate) fn why<'a>(summary: &'a Summary, index: &Index, lines: &dyn Lines) -> Why<'a> {
    let (verdict, why) = (&summary.verdict, explain(summary, index, lines));
    Why {
        headline: &verdict.sentence,
        second: &verdict.second,
        outcome: verdict.outcome.as_str(),
        stop_reason: verdict.stop_reason.as_deref(),
        certainty: verdict.certainty.as_str(),
        step: verdict.step,
        evidence: why.evidence,
        rules: why.rules.iter().map(Rule::of).collect(),
        pace: why.pace,
        contradictions: why.contradictions,
        first_trouble: why.first_trouble,
        liveness: summary.life.liveness.word(),
    }
}
