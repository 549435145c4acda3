//! What do programs read of a search? The hits so far, and how far it is.

use serde::Serialize;

use crate::analysis::search::{Found, Hit as Shown, LeftOut, Tally as Taken};
use crate::page::json::{Ignored, time};
use crate::page::search::{Context, Standing};

/// A search of many runs.
#[derive(Debug, Serialize)]
pub(crate) struct Search {
    /// `running` until it is `done`, `cancelled` or `failed`; null where nothing is searched for.
    pub state: Option<&'static str>,
    /// Names this search: `again=NUMBER` asks anew, `cancel=NUMBER` ends it.
    pub number: Option<i64>,
    /// The text.
    pub text: String,
    /// Which runs.
    pub query: String,
    /// Terms of the query that were not understood.
    pub ignored: Vec<Ignored>,
    /// When the runs were looked at.
    pub as_of: Option<String>,
    /// Runs that changed, came or went since.
    pub changed: usize,
    /// What was found.
    #[serde(flatten)]
    pub tally: Tally,
    /// Hits, at most as many as asked for.
    pub hits: Vec<Hit>,
}

/// What was found so far.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Tally {
    /// Runs to search.
    pub runs: usize,
    /// Runs searched.
    pub runs_done: usize,
    /// Runs with hits.
    pub runs_with_hits: usize,
    /// Bytes to search.
    pub bytes: u64,
    /// Bytes searched.
    pub bytes_done: u64,
    /// How long that took.
    pub elapsed_ms: u64,
    /// All hits so far.
    pub found: usize,
    /// How much could not be searched.
    pub left_out_count: usize,
    /// The first of them.
    pub left_out: Vec<Left>,
}

/// A hit: the first place of the text in a field.
#[derive(Debug, Serialize)]
pub(crate) struct Hit {
    run: String,
    file: &'static str,
    /// Where the line begins, in bytes.
    offset: u64,
    step: Option<usize>,
    event: Option<usize>,
    /// Null where the line is no JSON.
    field: Option<String>,
    in_key: bool,
    before: String,
    text: String,
    after: String,
}

/// Something that could not be searched.
#[derive(Debug, Serialize)]
pub(crate) struct Left {
    run: String,
    file: &'static str,
    why: String,
}

/// A hit in a run.
pub(crate) fn hit(key: &str, found: &Found, hit: &Shown) -> Hit {
    Hit {
        run: key.to_owned(),
        file: found.file.name(),
        offset: found.place.offset,
        step: found.place.step,
        event: found.place.event,
        field: (!found.line.as_text).then(|| hit.path.clone()),
        in_key: hit.in_key,
        before: hit.before.clone(),
        text: hit.text.clone(),
        after: hit.after.clone(),
    }
}

fn left(left: &LeftOut) -> Left {
    Left { run: left.key.clone(), file: left.file.name(), why: left.why.clone() }
}

impl From<&Taken> for Tally {
    fn from(tally: &Taken) -> Self {
        Self {
            runs: tally.runs,
            runs_done: tally.runs_done,
            runs_with_hits: tally.runs_with,
            bytes: tally.bytes,
            bytes_done: tally.bytes_done,
            elapsed_ms: u64::try_from(tally.took.as_millis()).unwrap_or(u64::MAX),
            found: tally.found,
            left_out_count: tally.left_out_count,
            left_out: tally.left_out.iter().map(left).collect(),
        }
    }
}

/// A search as it stands; `None` where nothing is searched for.
pub(crate) fn search(context: &Context, standing: Option<&Standing>) -> Search {
    let tally = standing.map(|standing| &standing.tally);
    let found = tally.map(|tally| tally.found_in.as_slice()).unwrap_or_default();
    let hits = found.iter().flat_map(|run| run.lines.iter().map(move |found| (&*run.key, found)));
    let hits = hits.flat_map(|(key, found)| found.line.hits.iter().map(move |shown| hit(key, found, shown)));
    Search {
        state: standing.map(|standing| standing.state.word()),
        number: standing.map(|standing| standing.number),
        text: context.text.clone(),
        query: context.typed.clone(),
        ignored: context.ignored.iter().map(Into::into).collect(),
        as_of: standing.and_then(|standing| time(standing.number)),
        changed: standing.map_or(0, |standing| standing.changed),
        tally: tally.map(Tally::from).unwrap_or_default(),
        hits: hits.take(context.limit).collect(),
    }
}
