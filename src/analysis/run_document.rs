//! Defines the JSON document of a run: its row, its manifest, the issues of its files, and the runs inside
//! its directory.

use std::collections::HashMap;

use schemars::JsonSchema;
use serde::Serialize;

use super::columns::RunRow;
use super::copies::CopyDifferences;
use super::health::{self, FileIssue};
use super::step_document::segment_of;
use super::summary::Summary;
use crate::format::uncut;
use crate::model::json_line::Line;
use crate::model::time::utc;
use crate::model::{Index, Manifest};

/// A run, with more fields than in lists.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Run<'a> {
    #[serde(flatten)]
    row: RunRow<'a>,
    /// The Git branches that were checked out in the project, in order. At most 4 are listed.
    branches: Vec<&'a str>,
    /// The Git commit that was checked out when the run began.
    commit: Option<&'a str>,
    /// The reasoning efforts that the model was asked for, in order. At most 4 are listed.
    efforts: Vec<&'a str>,
    /// The command that continues the run, in the directory of its project.
    resume: Option<String>,
    /// The answer, truncated to about 400 characters.
    final_result: Option<&'a str>,
    /// Whether `final_result` is only the beginning of the answer. Null if there is no answer.
    final_result_cut: Option<bool>,
    /// Duplicates of the run whose records differ.
    copies: &'a [CopyDifferences],
    /// The manifest as JSON, possibly repaired.
    manifest: Option<Line<'a>>,
    manifest_repaired: bool,
    /// The text of a manifest that isn't JSON.
    manifest_text: Option<Line<'a>>,
    /// The issues in file order. Of those found while reading, only the first thousand are listed.
    issues_list: Vec<FileIssue>,
    /// The runs inside the directory, usually one.
    segments: Vec<Segment>,
}

/// One of the runs that were written to the same directory.
#[derive(Debug, Serialize, JsonSchema)]
struct Segment {
    /// The first step, counted from 0.
    first_step: Option<usize>,
    /// The first event, counted from 0.
    first_event: usize,
    steps: usize,
    started_at: Option<String>,
    stop_reason: Option<String>,
}

/// Returns the JSON of a run with the manifest text `manifest`.
pub(crate) fn run<'a>(
    summary: &'a Summary,
    index: &'a Index,
    manifest: Option<&'a [u8]>,
) -> Run<'a> {
    let (manifest, manifest_text) = match manifest.map(Line::of) {
        Some(text @ Line::Text(_)) => (None, Some(text)),
        manifest => (manifest, None),
    };
    let read = index.manifest().get();
    let names = |names: fn(&Manifest) -> &[Box<str>]| {
        let names = read.into_iter().flat_map(names);
        names.map(|name| &**name).collect()
    };
    let repaired = manifest.as_ref().is_some_and(Line::is_changed);
    Run {
        row: RunRow(summary),
        branches: names(|read| &read.branches),
        commit: read.and_then(|read| read.commit.as_deref()),
        efforts: names(|read| &read.efforts),
        resume: read.and_then(Manifest::resume),
        final_result: summary.answer.as_deref(),
        final_result_cut: summary.answer.as_deref().map(|answer| !uncut(answer).1),
        copies: &summary.relation.differences,
        manifest,
        manifest_repaired: repaired,
        manifest_text,
        issues_list: health::issues(index),
        segments: segments(summary, index),
    }
}

fn segments(summary: &Summary, index: &Index) -> Vec<Segment> {
    // The first step of each run, and the number of its steps.
    let mut steps: HashMap<usize, (usize, usize)> = HashMap::new();
    for n in 0..index.steps().len() {
        if let Some(at) = segment_of(index, n) {
            steps.entry(at).or_insert((n, 0)).1 += 1;
        }
    }
    let last = index.segments().len().saturating_sub(1);
    let segments = index.segments().iter().enumerate().map(|(at, segment)| {
        let next = index
            .segments()
            .get(at + 1)
            .map_or(index.events().len(), |next| next.first_event);
        let events = index.events().range(segment.first_event..next);
        let recorded = segment
            .end
            .as_ref()
            .and_then(|(_, end, _)| end.reason.as_deref());
        Segment {
            first_step: steps.get(&at).map(|(first, _)| *first),
            first_event: segment.first_event,
            steps: steps.get(&at).map_or(0, |(_, steps)| *steps),
            started_at: events.clone().find_map(|event| event.ts).and_then(utc),
            stop_reason: recorded
                .or(summary
                    .verdict
                    .stop_reason
                    .as_deref()
                    .filter(|_| at == last))
                .map(str::to_owned),
        }
    });
    segments.collect()
}
