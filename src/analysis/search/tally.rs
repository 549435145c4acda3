//! Collects the progress and results of a search of many runs.
//!
//! Knows neither threads nor files: the caller reports what it read and found.

use std::sync::Arc;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Serialize, Serializer};

use super::{Hit, LineMatch};
use crate::model::TraceFile;

/// Limits the hits kept. Further hits are only counted.
pub(crate) const MAX_HITS: usize = 1_000;

/// The progress and results of a search so far.
#[derive(Debug, Clone, Default, Serialize, JsonSchema)]
pub(crate) struct Tally {
    /// The number of runs to search.
    pub runs: usize,
    /// The number of files that match the query but aren't searched, because they have the same
    /// records as another run.
    pub duplicates_left_out: usize,
    /// The number of runs searched.
    pub runs_done: usize,
    /// How many of them were searched in the index of texts, without reading their files.
    pub runs_from_index: usize,
    /// The number of searched runs that contain the text.
    #[serde(rename = "runs_with_hits")]
    pub runs_with: usize,
    /// Bytes to search, from the file sizes at the start of the search; 0 if not computed.
    pub bytes: u64,
    /// Bytes searched.
    pub bytes_done: u64,
    /// The time taken.
    #[serde(rename = "elapsed_ms", serialize_with = "milliseconds")]
    #[schemars(with = "u64")]
    pub took: Duration,
    /// The number of hits.
    pub found: usize,
    /// The number of hits kept.
    #[serde(skip)]
    pub kept: usize,
    /// The kept hits, by run.
    #[serde(skip)]
    pub found_in: Vec<InRun>,
    /// The number of items that couldn't be searched, including those not listed.
    pub left_out_count: usize,
    /// The items that couldn't be searched.
    pub left_out: Vec<LeftOut>,
}

/// The hits in a run.
#[derive(Debug, Clone)]
pub(crate) struct InRun {
    /// The run's key.
    pub key: Arc<str>,
    /// Its lines that contain the text.
    pub lines: Arc<Vec<LineMatch>>,
}

/// An item that couldn't be searched.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub(crate) struct LeftOut {
    /// The run's key.
    #[serde(rename = "run")]
    pub key: String,
    /// The file.
    pub file: TraceFile,
    /// The reason.
    pub why: String,
}

fn milliseconds<S: Serializer>(time: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u64(u64::try_from(time.as_millis()).unwrap_or(u64::MAX))
}

impl Tally {
    /// Counts the hits of a line in the run `key`, and keeps them while fewer than `max` are kept.
    pub(crate) fn keep(&mut self, max: usize, key: &str, mut found: LineMatch) {
        self.found += found.line.found;
        found.line.hits.truncate(max.saturating_sub(self.kept));
        if found.line.hits.is_empty() {
            return;
        }
        self.kept += found.line.hits.len();
        match self.found_in.last_mut().filter(|run| *run.key == *key) {
            Some(run) => Arc::make_mut(&mut run.lines).push(found),
            None => self.found_in.push(InRun {
                key: key.into(),
                lines: Arc::new(vec![found]),
            }),
        }
    }

    /// Returns the kept hits, each with its run and line.
    pub(crate) fn hits(&self) -> impl Iterator<Item = (&str, &LineMatch, &Hit)> {
        let lines = self
            .found_in
            .iter()
            .flat_map(|run| run.lines.iter().map(|found| (&*run.key, found)));
        lines.flat_map(|(key, found)| found.line.hits.iter().map(move |hit| (key, found, hit)))
    }

    /// Counts an item that couldn't be searched, and lists it while fewer than `max` are listed.
    pub(crate) fn leave_out(&mut self, max: usize, left: LeftOut) {
        self.left_out_count += 1;
        if self.left_out.len() < max {
            self.left_out.push(left);
        }
    }
}
