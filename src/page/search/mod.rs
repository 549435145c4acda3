//! Defines the page at `/search`, which searches the text of all runs, and the part that shows hits
//! as they arrive.
//!
//! The page starts with the answer in a sentence, followed by the progress and the hits of each
//! run.

mod grouped;
pub(crate) mod handler;
pub(crate) mod json;
mod task;
#[cfg(test)]
mod tests;
pub(crate) mod words;

use std::collections::HashMap;
use std::sync::Arc;

use askama::Template;
use askama::filters::HtmlSafe;
use jiff::tz::TimeZone;

pub(crate) use task::Search;

use crate::analysis::format::{count, counted};
use crate::analysis::query::Ignored;
use crate::analysis::search::{Hit, LineMatch, MAX_HITS, Tally};
use crate::analysis::summary::Summary;
use crate::model::TraceFile;
use crate::page::part::job::{AsOf, Progress, Status};
use crate::page::part::{href, text};
use crate::page::search::grouped::RunHits;
use crate::page::shell::Shell;

/// How many hits are shown by default.
const SHOWN: usize = 200;

/// The request, and the data for the rest of the page.
#[derive(Debug, Clone)]
pub(crate) struct Context {
    /// `q`: the text to search for.
    pub(crate) text: String,
    /// `in`: the query that selects runs, as typed.
    pub(crate) typed: String,
    /// The query's terms that were ignored.
    pub(crate) ignored: Vec<Ignored>,
    /// How many hits to show.
    pub(crate) limit: usize,
    /// Why nothing is searched, if the text isn't valid.
    pub(crate) fault: Option<String>,
    /// The number of runs on the board.
    pub(crate) known: usize,
    pub(crate) zone: TimeZone,
}

/// The progress of a search.
#[derive(Debug, Clone)]
pub(crate) struct Standing {
    pub(crate) status: Status,
    pub(crate) tally: Tally,
}

/// The page at `/search`.
#[derive(Debug, Template)]
#[template(path = "search/page.html")]
pub(crate) struct SearchPage<'a> {
    pub(crate) shell: Shell,
    pub(crate) body: Body<'a>,
}

#[derive(Debug, Template)]
#[template(path = "search/search_poll.html")]
pub(crate) struct SearchPart<'a> {
    pub(crate) body: Body<'a>,
}

/// The results. Without a `standing`, no search was requested.
#[derive(Debug, Clone, Copy, Template)]
#[template(path = "search/search_body.html")]
pub(crate) struct Body<'a> {
    pub(crate) context: &'a Context,
    pub(crate) standing: Option<&'a Standing>,
    /// The runs with hits by their keys, except for runs that are gone.
    pub(crate) known: &'a HashMap<String, Arc<Summary>>,
}

impl HtmlSafe for Body<'_> {}

impl Context {
    fn title(&self) -> String {
        match &*self.text {
            "" => "Search".to_owned(),
            text => format!("Search: {}", text::one_line(text, 40).0),
        }
    }

    fn url(&self, path: &str, more: (&str, &str)) -> String {
        let limit = if self.limit == SHOWN {
            String::new()
        } else {
            self.limit.to_string()
        };
        href::with_query(
            path,
            &[
                ("q", &self.text),
                ("in", &self.typed),
                ("limit", &limit),
                more,
            ],
        )
    }
}

impl<'a> Body<'a> {
    /// Returns the address that updates the page while the search is running.
    fn poll(&self) -> Option<String> {
        self.standing?
            .status
            .state
            .is_running()
            .then(|| self.context.url("/live/search", ("", "")))
    }

    fn answer(&self) -> String {
        match (self.standing, &self.context.fault) {
            (Some(Standing { status, tally }), _) => {
                words::answer(status.state, tally, self.shown(tally))
            }
            (None, Some(why)) => why.clone(),
            (None, None) if self.context.known == 0 => "No runs yet.".to_owned(),
            (None, None) => format!(
                "Search the texts, keys and numbers of {}.",
                counted(self.context.known, "run")
            ),
        }
    }

    fn shown(&self, tally: &Tally) -> usize {
        tally.kept.min(self.context.limit)
    }

    fn as_of(&self, standing: &Standing) -> AsOf<'a> {
        let href = self
            .context
            .url("/search", ("again", &standing.status.number.to_string()));
        AsOf {
            status: standing.status,
            zone: &self.context.zone,
            again: "Search again",
            href,
        }
    }

    fn progress(&self, Standing { status, tally }: &Standing) -> Option<Progress> {
        let (runs, runs_done) = (tally.runs as u64, tally.runs_done as u64);
        // Some bytes of the files are skipped, so only their share is shown.
        let (counts, done, total) = match tally.bytes {
            0 => ("Runs searched", runs_done, runs),
            all => ("Bytes searched", tally.bytes_done.min(all), all),
        };
        let words = format!("{} of {}", count(runs_done), counted(tally.runs, "run"));
        status.state.is_running().then(|| Progress {
            counts,
            done,
            total: total.max(1),
            words,
            cancel: self
                .context
                .url("/search", ("cancel", &status.number.to_string())),
            reload: self.context.url("/search", ("", "")),
        })
    }

    /// Returns the hits to show, grouped by run.
    fn runs<'t>(&'t self, tally: &'t Tally) -> Vec<RunHits<'t>> {
        let mut runs: Vec<(&str, Vec<_>)> = Vec::new();
        for (key, found, hit) in tally.hits().take(self.context.limit) {
            match runs.last_mut().filter(|(last, _)| *last == key) {
                Some((_, hits)) => hits.push((found, hit)),
                None => runs.push((key, vec![(found, hit)])),
            }
        }
        runs.into_iter()
            .map(|(key, hits)| RunHits::new(key, self.known.get(key).map(|run| &**run), hits))
            .collect()
    }

    /// Returns the text and address of the link that shows all hits kept.
    fn more(&self, tally: &Tally) -> Option<(String, String)> {
        let all = Context {
            limit: MAX_HITS,
            ..self.context.clone()
        };
        let is_over = self
            .standing
            .is_some_and(|standing| !standing.status.state.is_running());
        let all_kept = if is_over && tally.kept == tally.found {
            "all "
        } else {
            ""
        };
        let words = format!("Show {all_kept}{}", count(tally.kept as u64));
        (self.shown(tally) < tally.kept).then(|| (words, all.url("/search", ("", ""))))
    }

    /// Returns the address that shows the line of a hit.
    fn hit_href(&self, key: &str, found: &LineMatch) -> String {
        match (found.file, found.place.step) {
            _ if found.place.beside_records => href::run(key),
            (_, Some(step)) => href::run_at(key, step),
            (TraceFile::Events, None) => href::tab(key, "events"),
            (TraceFile::Manifest, None) => href::tab(key, "manifest"),
            (TraceFile::Steps, None) => href::run(key),
        }
    }

    fn note(&self, found: &LineMatch, hit: &Hit) -> &'static str {
        match (found.line.as_text, hit.in_key) {
            (true, _) => "not JSON, searched as text",
            (false, true) => "field name",
            (false, false) => "",
        }
    }
}
