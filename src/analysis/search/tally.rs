//! What was found so far? A search of many runs, taken down as it goes.
//!
//! Knows no threads and no files: whoever searches tells it what was read and what was found.

use std::sync::Arc;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Serialize, Serializer};

use super::{Hit, LineMatch};
use crate::model::TraceFile;

/// So many hits are kept; more are counted.
pub const MAX_HITS: usize = 1_000;

/// What was found so far.
#[derive(Debug, Clone, Default, Serialize, JsonSchema)]
pub struct Tally {
    /// Runs to search.
    pub runs: usize,
    /// Runs that were searched.
    pub runs_done: usize,
    /// Those of them that hold the text.
    #[serde(rename = "runs_with_hits")]
    pub runs_with: usize,
    /// Bytes to search, by the sizes of the files when it began; 0 if nothing added them up.
    pub bytes: u64,
    /// Bytes that were searched.
    pub bytes_done: u64,
    /// How long that took.
    #[serde(rename = "elapsed_ms", serialize_with = "milliseconds")]
    #[schemars(with = "u64")]
    pub took: Duration,
    /// All hits.
    pub found: usize,
    /// Those that are kept.
    #[serde(skip)]
    pub kept: usize,
    /// The hits that are kept, run by run.
    #[serde(skip)]
    pub found_in: Vec<InRun>,
    /// How much could not be searched, also what is not named.
    pub left_out_count: usize,
    /// What could not be searched.
    pub left_out: Vec<LeftOut>,
}

/// The hits in a run.
#[derive(Debug, Clone)]
pub struct InRun {
    /// The run.
    pub key: Arc<str>,
    /// Its lines that hold the text.
    pub lines: Arc<Vec<LineMatch>>,
}

/// Something that could not be searched.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct LeftOut {
    /// The run.
    #[serde(rename = "run")]
    pub key: String,
    /// The file.
    pub file: TraceFile,
    /// Why.
    pub why: String,
}

fn milliseconds<S: Serializer>(time: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u64(u64::try_from(time.as_millis()).unwrap_or(u64::MAX))
}

impl Tally {
    /// Counts the hits of a line of the run `key`, and keeps them while there are fewer than `max`.
    pub fn keep(&mut self, max: usize, key: &str, mut found: LineMatch) {
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

    /// The hits that are kept, each with its run and its line.
    pub fn hits(&self) -> impl Iterator<Item = (&str, &LineMatch, &Hit)> {
        let lines = self
            .found_in
            .iter()
            .flat_map(|run| run.lines.iter().map(|found| (&*run.key, found)));
        lines.flat_map(|(key, found)| found.line.hits.iter().map(move |hit| (key, found, hit)))
    }

    /// Counts what could not be searched, and names it while there are fewer than `max` of them.
    pub fn leave_out(&mut self, max: usize, left: LeftOut) {
        self.left_out_count += 1;
        if self.left_out.len() < max {
            self.left_out.push(left);
        }
    }
}
