//! Defines the JSON document of a search: its hits so far and its progress.

use std::borrow::Cow;

use schemars::JsonSchema;
use serde::Serialize;

use crate::analysis::query::Ignored;
use crate::analysis::search::{self, LineMatch, Tally};
use crate::model::TraceFile;
use crate::model::time::utc;
use crate::page::part::job::State;
use crate::page::search::{Context, Standing};

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Search<'a> {
    /// Null if no search was requested.
    state: Option<State>,
    /// The id of this search. `again=NUMBER` repeats it, and `cancel=NUMBER` cancels it.
    number: Option<i64>,
    text: &'a str,
    query: &'a str,
    ignored: &'a [Ignored],
    /// When the runs were selected.
    as_of: Option<String>,
    /// Runs that changed, appeared or disappeared since.
    changed: usize,
    #[serde(flatten)]
    tally: Cow<'a, Tally>,
    hits: Vec<Hit<'a>>,
    /// How many more fields contain the text: beyond `limit`, or beyond the hits kept for a line or
    /// in total.
    hits_left_out: usize,
}

/// The first occurrence of the text in a field.
#[derive(Debug, Serialize, JsonSchema)]
struct Hit<'a> {
    run: &'a str,
    file: TraceFile,
    #[serde(flatten)]
    place: search::LinePlace,
    /// Null if the line isn't JSON.
    field: Option<&'a str>,
    #[serde(flatten)]
    hit: &'a search::Hit,
}

/// Returns the results of a search that runs anywhere, not only on the board. `state` and `tally`
/// are `None` if no search was requested.
pub(crate) fn found<'a>(
    text: &'a str,
    query: &'a str,
    state: Option<State>,
    tally: Option<&'a Tally>,
    limit: usize,
) -> Search<'a> {
    let hit = |(key, found, hit): (&'a str, &'a LineMatch, &'a search::Hit)| Hit {
        run: key,
        file: found.file,
        place: found.place,
        field: (!found.line.as_text).then_some(&*hit.path),
        hit,
    };
    let hits: Vec<_> = tally
        .into_iter()
        .flat_map(Tally::hits)
        .take(limit)
        .map(hit)
        .collect();
    Search {
        state,
        number: None,
        text,
        query,
        ignored: &[],
        as_of: None,
        changed: 0,
        tally: tally.map_or_else(Cow::default, Cow::Borrowed),
        hits_left_out: tally.map_or(0, |tally| tally.found.saturating_sub(hits.len())),
        hits,
    }
}

/// Returns a search on the board in its current state.
pub(crate) fn document<'a>(context: &'a Context, standing: Option<&'a Standing>) -> Search<'a> {
    let (status, tally) = (
        standing.map(|standing| standing.status),
        standing.map(|standing| &standing.tally),
    );
    Search {
        number: status.map(|status| status.number),
        ignored: &context.ignored,
        as_of: status.and_then(|status| utc(status.number)),
        changed: status.map_or(0, |status| status.changed),
        ..found(
            &context.text,
            &context.typed,
            status.map(|status| status.state),
            tally,
            context.limit,
        )
    }
}
