//! Searches the text of all runs: the page at `/search`, the part that shows hits as they arrive, and
//! the JSON.
//!
//! The page starts with the answer in a sentence, followed by the progress and the hits of each run.
//! A request starts a search and changes nothing else. Repeating the request returns the same search.

mod grouped;
pub(crate) mod keeper;
mod said;
mod task;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use askama::Template;
use askama::filters::HtmlSafe;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::IntoResponse;
use jiff::tz::TimeZone;
use schemars::JsonSchema;
use serde::Serialize;

use task::Scope;
pub(crate) use task::Search;

use crate::analysis::format::{bytes, count, counted};
use crate::analysis::query::Ignored;
use crate::analysis::search::{Hit, LineMatch, LinePlace, MAX_HITS, Needle, TITLE, Tally};
use crate::analysis::summary::Summary;
use crate::model::TraceFile;
use crate::model::time::utc;
use crate::page::answer::{html, json};
use crate::page::app::AppState;
use crate::page::blocking::blocking;
use crate::page::error::{Answer, WebError};
use crate::page::jobs::over::Over;
use crate::page::jobs::{Job, Question};
use crate::page::params::Params;
use crate::page::part::job::{self, AsOf, Progress, Status};
use crate::page::part::{href, text};
use crate::page::search::grouped::RunHits;
use crate::page::shell::{NavItem, Shell};

/// How many hits are shown by default.
const SHOWN: usize = 200;

/// The values of the parameter `scope`.
const FILES: &str = "files";
/// Documents have the older word for messages and tool calls.
const SAID: &str = "said";
const MESSAGES: &str = "messages";

fn unknown_scope(scope: &str) -> WebError {
    WebError::bad_request("Invalid scope", "The scope is files or messages.")
        .named(scope)
        .hint("Use messages for messages and tool calls, or files for everything in the files.")
}

/// `GET /search`
pub(crate) async fn page(State(state): State<AppState>, params: Params) -> Answer {
    let (context, job) = ask(&state, &params, Asker::Person).await?;
    let status = if context.fault.is_some() {
        StatusCode::BAD_REQUEST
    } else {
        StatusCode::OK
    };
    let shell = Shell {
        title: context.title(),
        ..state.shell(NavItem::None)
    };
    let page = show(&state, context, job, move |body| {
        html(&SearchPage { shell, body })
    })
    .await?;
    Ok((status, page).into_response())
}

/// `GET /live/search`
pub(crate) async fn part(State(state): State<AppState>, params: Params) -> Answer {
    let (context, job) = ask(&state, &params, Asker::Person).await?;
    show(&state, context, job, |body| html(&SearchPart { body })).await
}

/// `GET /api/search`
pub(crate) async fn api(State(state): State<AppState>, params: Params) -> Answer {
    let (context, job) = ask(&state, &params, Asker::Program).await?;
    if let Some(why) = &context.fault {
        return Err(WebError::bad_request("Invalid search text", why));
    }
    show(&state, context, job, |body| {
        json(&document(body.context, body.standing))
    })
    .await
}

/// Who waits for a response. A person wants the first results early.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Asker {
    Person,
    Program,
}

/// The values of the parameter `wait`.
const ALL: &str = "all";
const HITS: &str = "hits";

/// Returns whether a program wants the first hits early, like a person, and the counts later.
///
/// # Errors
/// Fails if the parameter `wait` has an unknown value.
fn is_in_a_hurry(params: &Params) -> Result<bool, WebError> {
    match params.text("wait") {
        "" | ALL => Ok(false),
        HITS => Ok(true),
        other => Err(
            WebError::bad_request("Invalid wait", "A search waits for all or hits.")
                .named(other)
                .hint("Use hits to get the first hits early, and the counts with a later request."),
        ),
    }
}

/// Returns the request, and its search if the text is valid.
async fn ask(
    state: &AppState,
    params: &Params,
    asker: Asker,
) -> Result<(Context, Option<Arc<Job<Search>>>), WebError> {
    let text = params.text("q").to_owned();
    let query = state.query(params.text("in"));
    let needle = Needle::new(&text);
    let scope = match params.text("scope") {
        "" if asker == Asker::Person => Scope::Said,
        "" | FILES => Scope::Files,
        SAID | MESSAGES => Scope::Said,
        other => return Err(unknown_scope(other)),
    };
    let is_in_a_hurry = is_in_a_hurry(params)? || asker == Asker::Person;
    let context = Context {
        scope,
        typed: params.text("in").to_owned(),
        limit: params.number("limit")?.unwrap_or(SHOWN).clamp(1, MAX_HITS),
        ignored: query.ignored.clone(),
        fault: needle.as_ref().err().filter(|_| !text.is_empty()).cloned(),
        known: if needle.is_err() {
            state.library.counted().len()
        } else {
            0
        },
        zone: state.zone.clone(),
        text,
    };
    let Ok(needle) = needle else {
        return Ok((context, None));
    };
    let question = Question {
        text: format!("{query}\n{scope:?}\n{}", needle.text()),
        times: query.times(),
    };
    let (library, texts) = (Arc::clone(&state.library), state.texts.get().cloned());
    let make = move || {
        let over = Over::of(&library, query);
        let threads = library.threads();
        Ok::<_, WebError>(Search::new(needle, scope, over, texts, threads))
    };
    let searches = &state.searches;
    let limit = context.limit;
    let job = if is_in_a_hurry {
        let is_enough = move |search: &Search| search.has(limit);
        searches.ask(params, question, make, is_enough).await?
    } else {
        searches.ask_for_program(params, question, make).await?
    };
    Ok((context, Some(job)))
}

/// Renders the current state of the search on a blocking thread.
async fn show(
    state: &AppState,
    context: Context,
    job: Option<Arc<Job<Search>>>,
    make: impl FnOnce(Body<'_>) -> Answer + Send + 'static,
) -> Answer {
    let library = Arc::clone(&state.library);
    blocking(move || {
        // Read the status before the tally, so that a finished search has all its hits.
        let standing = job.map(|job| {
            let status = job.status(&job.task.over, &library);
            Standing {
                status,
                tally: job.task.tally(),
            }
        });
        let keys = standing
            .iter()
            .flat_map(|standing| standing.tally.found_in.iter().take(context.limit));
        let known = keys
            .filter_map(|found| Some((found.key.to_string(), library.run(&found.key)?.summary())))
            .collect();
        make(Body {
            context: &context,
            standing: standing.as_ref(),
            known: &known,
        })
    })
    .await?
}

/// The request, and the data for the rest of the page.
#[derive(Debug, Clone)]
struct Context {
    /// `q`: the text to search for.
    text: String,
    /// `in`: the query that selects runs, as typed.
    typed: String,
    scope: Scope,
    /// The query's terms that were ignored.
    ignored: Vec<Ignored>,
    /// How many hits to show.
    limit: usize,
    /// Why the search didn't start, if the text isn't valid.
    fault: Option<String>,
    /// The number of known runs, unless they are searched.
    known: usize,
    zone: TimeZone,
}

/// The progress of a search.
#[derive(Debug, Clone)]
struct Standing {
    status: Status,
    tally: Tally,
}

/// The page at `/search`.
#[derive(Debug, Template)]
#[template(path = "search/page.html")]
struct SearchPage<'a> {
    shell: Shell,
    body: Body<'a>,
}

#[derive(Debug, Template)]
#[template(path = "search/search_poll.html")]
struct SearchPart<'a> {
    body: Body<'a>,
}

/// The results. Without a `standing`, no search was requested.
#[derive(Debug, Clone, Copy, Template)]
#[template(path = "search/search_body.html")]
struct Body<'a> {
    context: &'a Context,
    standing: Option<&'a Standing>,
    /// The runs with hits by their keys, except for runs that are gone.
    known: &'a HashMap<String, Arc<Summary>>,
}

impl HtmlSafe for Body<'_> {}

impl Context {
    fn is_in_files(&self) -> bool {
        self.scope == Scope::Files
    }

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
        let scope = match self.scope {
            Scope::Said => "",
            Scope::Files => FILES,
        };
        href::with_query(
            path,
            &[
                ("q", &self.text),
                ("in", &self.typed),
                ("scope", scope),
                ("limit", &limit),
                more,
            ],
        )
    }
}

impl Scope {
    fn name(self) -> &'static str {
        match self {
            Scope::Said => SAID,
            Scope::Files => FILES,
        }
    }
}

impl<'a> Body<'a> {
    /// Returns the link that searches everything in the files, if only a part was searched.
    fn everything(&self) -> Option<String> {
        let is_part = self.context.scope == Scope::Said && self.standing.is_some();
        let files = Context {
            scope: Scope::Files,
            ..self.context.clone()
        };
        is_part.then(|| files.url("/search", ("", "")))
    }

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
            (Some(Standing { status, tally }), _) => answer(status.state, tally, self.shown(tally)),
            (None, Some(why)) => why.clone(),
            (None, None) if self.context.known == 0 => "No runs yet.".to_owned(),
            (None, None) => format!("Search {}.", counted(self.context.known, "run")),
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

#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Search")]
pub(crate) struct SearchDocument<'a> {
    /// Null if no search was requested.
    state: Option<job::State>,
    /// The id of this search. `again=NUMBER` repeats it, and `cancel=NUMBER` cancels it.
    number: Option<i64>,
    text: &'a str,
    query: &'a str,
    ignored: &'a [Ignored],
    /// Where the text was searched: `said`, or `files`.
    scope: &'static str,
    /// When the runs were selected.
    as_of: Option<String>,
    /// Runs that changed, appeared or disappeared since.
    changed: usize,
    #[serde(flatten)]
    tally: Cow<'a, Tally>,
    hits: Vec<HitDocument<'a>>,
    /// How many more fields contain the text: beyond `limit`, or beyond the hits kept for a line or
    /// in total.
    hits_left_out: usize,
}

/// The first occurrence of the text in a field.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Hit")]
struct HitDocument<'a> {
    run: &'a str,
    file: TraceFile,
    #[serde(flatten)]
    place: LinePlace,
    /// Null if the line isn't JSON. With the scope `said`, what the text is: `title`, `prompt`, `thought`,
    /// `reply`, `answer`, `call TOOL`, `result TOOL`, `error`, `error TOOL` or `critic`.
    field: Option<&'a str>,
    #[serde(flatten)]
    hit: &'a Hit,
}

/// Returns the results of a search that runs anywhere, not only on a server. `state` and `tally`
/// are `None` if no search was requested.
pub(crate) fn found<'a>(
    text: &'a str,
    query: &'a str,
    state: Option<job::State>,
    tally: Option<&'a Tally>,
    limit: usize,
) -> SearchDocument<'a> {
    let hit = |(key, found, hit): (&'a str, &'a LineMatch, &'a Hit)| HitDocument {
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
    SearchDocument {
        state,
        number: None,
        text,
        query,
        ignored: &[],
        scope: FILES,
        as_of: None,
        changed: 0,
        tally: tally.map_or_else(Cow::default, Cow::Borrowed),
        hits_left_out: tally.map_or(0, |tally| tally.found.saturating_sub(hits.len())),
        hits,
    }
}

/// Returns a search of the known runs in their current state.
fn document<'a>(context: &'a Context, standing: Option<&'a Standing>) -> SearchDocument<'a> {
    let (status, tally) = (
        standing.map(|standing| standing.status),
        standing.map(|standing| &standing.tally),
    );
    SearchDocument {
        number: status.map(|status| status.number),
        ignored: &context.ignored,
        scope: context.scope.name(),
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

/// Names the location of a line: `step 3`, `step 3, event 12`, `event 12`, `manifest`, `run title`.
/// Text outside a document's records belongs to no step. A line that the index doesn't know is named by its byte
/// offset in the file.
pub(crate) fn place(found: &LineMatch) -> String {
    let place = found.place;
    match found.of_the_run() {
        Some(TITLE) => return "run title".to_owned(),
        Some(_) => return "prompt after the last step".to_owned(),
        None => {}
    }
    match (found.file, place.step, place.event) {
        _ if place.beside_records => "document".to_owned(),
        (TraceFile::Manifest, ..) => "manifest".to_owned(),
        (_, Some(step), Some(event)) => format!("step {step}, event {event}"),
        (_, Some(step), None) => format!("step {step}"),
        (_, None, Some(event)) => format!("event {event}"),
        (file, None, None) => format!("{} byte {}", file.name(), place.offset),
    }
}

/// Names the location of a hit in its line. Empty if [`place`] already does.
pub(crate) fn path<'a>(found: &LineMatch, hit: &'a Hit) -> &'a str {
    match found.of_the_run() {
        Some(_) => "",
        None => &hit.path,
    }
}

/// Summarizes the result: `12 matches in 3 of 110 runs.` A field that contains the text twice is one
/// match.
fn answer(state: job::State, tally: &Tally, shown: usize) -> String {
    let found = counted(tally.found, "match");
    let of = |done: usize| format!("{} of {}", count(done as u64), counted(tally.runs, "run"));
    let searched = of(tally.runs_done);
    match state {
        job::State::Running if tally.found == 0 => {
            format!("No matches yet ({searched} searched).")
        }
        job::State::Running => format!("{found} so far ({searched} searched)."),
        job::State::Done if tally.runs == 0 => "No runs to search.".to_owned(),
        job::State::Done if tally.found == 0 => {
            format!("No matches in {}.", counted(tally.runs, "run"))
        }
        job::State::Done if shown < tally.found => format!(
            "{found} in {}. Showing {}.",
            of(tally.runs_with),
            count(shown as u64)
        ),
        job::State::Done => format!("{found} in {}.", of(tally.runs_with)),
        job::State::Cancelled => format!("Cancelled: {found} so far ({searched} searched)."),
        job::State::Failed => format!(
            "The search failed because of a bug in board. So far: {found} ({searched} searched)."
        ),
    }
}

/// Formats the amount searched and the time taken: `120 MB in 0.2 s`, or `340 runs in the index and
/// 12 MB of files in 0.2 s`.
fn searched(tally: &Tally) -> String {
    let took = match tally.took.as_secs_f64() {
        short if short < 0.1 => "less than 0.1 s".to_owned(),
        seconds => format!("{seconds:.1} s"),
    };
    let read = bytes(tally.bytes_done);
    match (counted(tally.runs_from_index, "run"), tally.bytes_done) {
        _ if tally.runs_from_index == 0 => format!("{read} in {took}"),
        (runs, 0) => format!("{runs} in the index in {took}"),
        (runs, _) => format!("{runs} in the index and {read} of files in {took}"),
    }
}

/// Lists what couldn't be searched, one sentence each.
fn left_out(tally: &Tally) -> Vec<String> {
    let mut sentences: Vec<String> = tally
        .left_out
        .iter()
        .map(|left| format!("{}, {}: {}", left.key, left.file.name(), left.why))
        .collect();
    let more = tally.left_out_count.saturating_sub(sentences.len());
    if more > 0 {
        sentences.push(format!("and {}", counted(more, "file")));
    }
    sentences
}
