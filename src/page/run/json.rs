//! What do programs read of a run? Its row, its manifest, the oddities of its files and the runs inside its directory.

use serde::Serialize;

use crate::analysis::health;
use crate::analysis::summary::Summary;
use crate::model::Index;
use crate::page::json::time;
use crate::page::runs::json::RunRow;
use crate::page::step::json::segment_of;
use crate::page::step::json_line::Line;

/// One run with what lists leave out.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Run<'a> {
    /// What lists show of it.
    #[serde(flatten)]
    pub row: RunRow<'a>,
    /// The answer.
    pub final_result: Option<String>,
    /// The manifest; `null` where there is none that can be read.
    pub manifest: Option<Line<'a>>,
    /// Whether `manifest` is a repaired copy.
    pub manifest_repaired: bool,
    /// The text of a manifest that is not JSON.
    pub manifest_text: Option<Line<'a>>,
    /// The oddities, the first thousand found while reading and all others; `issues` is their number.
    pub issues_list: Vec<Issue>,
    /// The runs inside the directory, usually one.
    pub segments: Vec<Segment>,
}

/// One oddity of the files.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Issue {
    /// `manifest.json`, `steps.jsonl` or `events.jsonl`.
    pub file: &'static str,
    /// The line, counted from 1.
    pub line: Option<u64>,
    /// Bytes from the start of the file to the start of the line.
    pub offset: Option<u64>,
    /// What is odd.
    pub reason: String,
    /// The sort of oddity, in a word or two.
    pub kind: &'static str,
    /// Whether it costs data; otherwise it is only worth knowing.
    pub problem: bool,
}

/// One run inside a directory that several wrote into.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Segment {
    /// The ordinal of its first step.
    pub first_step: Option<usize>,
    /// The number of its first event, counted from 0.
    pub first_event: usize,
    /// How many steps belong to it.
    pub steps: usize,
    /// The time of its first event that has one.
    pub started_at: Option<String>,
    /// Why it stopped, as written.
    pub stop_reason: Option<String>,
}

/// A run; `manifest` is the text of its manifest.
pub(crate) fn run<'a>(summary: &'a Summary, index: &Index, manifest: Option<&'a [u8]>) -> Run<'a> {
    let manifest = manifest.map(Line::of);
    let (manifest, manifest_text) = match manifest {
        Some(text @ Line::Text(_)) => (None, Some(text)),
        manifest => (manifest, None),
    };
    Run {
        row: RunRow(summary),
        final_result: summary.answer.clone(),
        manifest_repaired: manifest.as_ref().is_some_and(Line::is_changed),
        manifest,
        manifest_text,
        issues_list: issues(index),
        segments: segments(summary, index),
    }
}

/// The oddities of a run's files, in the order of their places.
pub(crate) fn issues(index: &Index) -> Vec<Issue> {
    let issue = |issue: crate::model::Issue| Issue {
        file: issue.file.name(),
        line: issue.line,
        offset: issue.offset,
        kind: issue.kind.label(),
        problem: issue.kind.is_problem(),
        reason: issue.reason,
    };
    health::issues(index).into_iter().map(issue).collect()
}

fn segments(summary: &Summary, index: &Index) -> Vec<Segment> {
    let last = index.segments().len().saturating_sub(1);
    let segment = |(at, segment): (usize, &crate::model::index::Segment)| {
        let next = index.segments().get(at + 1).map_or(index.events().len(), |next| next.first_event);
        let events = index.events().get(segment.first_event..next).unwrap_or_default();
        let recorded = segment.end.as_ref().and_then(|(_, end, _)| end.reason.as_deref().map(str::to_owned));
        Segment {
            first_step: None,
            first_event: segment.first_event,
            steps: 0,
            started_at: events.iter().find_map(|event| event.ts).and_then(time),
            stop_reason: recorded.or_else(|| summary.verdict.stop_reason.clone().filter(|_| at == last)),
        }
    };
    let mut segments: Vec<Segment> = index.segments().iter().enumerate().map(segment).collect();
    for n in 0..index.steps().len() {
        if let Some(segment) = segment_of(index, n).and_then(|at| segments.get_mut(at)) {
            segment.first_step.get_or_insert(n);
            segment.steps += 1;
        }
    }
    segments
}
