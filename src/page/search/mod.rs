//! What does it look like to search the text of all runs? The page at `/search`, and the part that shows hits as they come.
//!
//! The answer comes first, in a sentence; then how far it is, then the hits, run by run.

pub(crate) mod handler;
pub(crate) mod json;

use askama::Template;
use askama::filters::HtmlSafe;
use jiff::tz::TimeZone;

use crate::analysis::format;
use crate::analysis::query::Ignored;
use crate::analysis::search::{Found, Hit, MAX_HITS, Tally};
use crate::model::TraceFile;
use crate::page::part::href;
use crate::page::part::job::{Progress, State, Told};
use crate::page::part::text::Line;
use crate::page::shell::Shell;

#[cfg(test)]
mod tests;
pub(crate) mod words;

/// So many hits are shown unless more are asked for.
pub(crate) const SHOWN: usize = 200;

/// What was asked, and what is around the page.
#[derive(Debug, Clone)]
pub(crate) struct Context {
    /// `q`: the text.
    pub text: String,
    /// `in`: which runs, as typed.
    pub(crate) typed: String,
    /// Terms of it that were not understood.
    pub ignored: Vec<Ignored>,
    /// How many hits to show.
    pub limit: usize,
    /// Why nothing is searched.
    pub fault: Option<String>,
    /// How many runs the board knows.
    pub known: usize,
    /// What is around every page; the title is still to come.
    pub shell: Shell,
    /// The reader's zone.
    pub zone: TimeZone,
}

/// How far a search is.
#[derive(Debug, Clone)]
pub(crate) struct Standing {
    /// Whether it has ended.
    pub state: State,
    /// When it began, in microseconds since the epoch; also its name in addresses.
    pub number: i64,
    /// Runs that changed, came or went since.
    pub changed: usize,
    /// What was found.
    pub tally: Tally,
}

/// The page at `/search`.
#[derive(Debug, Clone, Template)]
#[template(path = "search/page.html")]
pub(crate) struct SearchPage {
    /// What is around it.
    pub shell: Shell,
    /// The address that fills the page while the search goes on.
    pub poll: Option<String>,
    /// The text.
    pub text: String,
    /// Which runs.
    pub(crate) typed: String,
    /// Terms that were not understood, with what was expected.
    pub ignored: Vec<(String, String)>,
    /// What is found.
    pub body: Body,
}

/// The answer to the page's poll.
#[derive(Debug, Clone, Template)]
#[template(path = "search/search_poll.html")]
pub(crate) struct SearchPart {
    /// The next poll; `None` ends it.
    pub poll: Option<String>,
    /// What is found.
    pub body: Body,
}

/// What is found.
#[derive(Debug, Clone, Default, Template)]
#[template(path = "search/search_body.html")]
pub(crate) struct Body {
    /// The answer, or that it is under way.
    pub answer: Line,
    /// What it is over.
    pub second: Line,
    /// Of which moment it is.
    pub told: Told,
    /// How far it is, while it is under way.
    pub progress: Option<Progress>,
    /// The hits.
    pub runs: Vec<RunHits>,
    /// Shows all hits that are kept: text and address.
    pub more: Option<(String, String)>,
    /// What could not be searched, one sentence each.
    pub left_out: Vec<Line>,
}

impl HtmlSafe for Body {}

/// The hits of a run, as shown.
#[derive(Debug, Clone, Default)]
pub(crate) struct RunHits {
    /// The run's name.
    pub name: Line,
    /// Its page.
    pub href: String,
    /// The hits.
    pub hits: Vec<ShownHit>,
}

/// A hit, as shown.
#[derive(Debug, Clone, Default)]
pub(crate) struct ShownHit {
    /// `step 3`, `step 3, event 12`, `manifest`.
    pub place: String,
    /// Where that is shown.
    pub href: String,
    /// The field.
    pub field: Line,
    /// What is said of the hit: that a name holds the text, or that the line is no JSON.
    pub note: Option<&'static str>,
    /// What stands before the text.
    pub before: Line,
    /// The text as it stands there.
    pub text: Line,
    /// What stands behind it.
    pub after: Line,
}

/// The page at `/search`.
pub(crate) fn page(context: &Context, standing: Option<&Standing>) -> SearchPage {
    let named = |text: &str| format!("Search: {}", crate::page::part::text::one_line(text, 40).0);
    SearchPage {
        shell: Shell {
            title: if context.text.is_empty() { "Search".to_owned() } else { named(&context.text) },
            ..context.shell.clone()
        },
        poll: poll(context, standing),
        text: context.text.clone(),
        typed: context.typed.clone(),
        ignored: context.ignored.iter().map(|term| (term.text.clone(), term.why.clone())).collect(),
        body: body(context, standing),
    }
}

/// The answer to the page's poll.
pub(crate) fn part(context: &Context, standing: Option<&Standing>) -> SearchPart {
    SearchPart { poll: poll(context, standing), body: body(context, standing) }
}

fn poll(context: &Context, standing: Option<&Standing>) -> Option<String> {
    standing.filter(|standing| standing.state.is_running()).map(|_| url(context, "/live/search", &[]))
}

/// An address that asks the same, with more parameters behind.
fn url(context: &Context, path: &str, more: &[(&str, &str)]) -> String {
    let limit = if context.limit == SHOWN { String::new() } else { context.limit.to_string() };
    let pairs = [("q", context.text.as_str()), ("in", &context.typed), ("limit", &limit)];
    href::with_query(path, &[&pairs[..], more].concat())
}

fn body(context: &Context, standing: Option<&Standing>) -> Body {
    let Some(standing) = standing else {
        return Body { answer: words::nothing_asked(context).into(), ..Body::default() };
    };
    let (tally, number) = (&standing.tally, standing.number.to_string());
    let again = ("Search again", url(context, "/search", &[("again", &number)]));
    let shown = tally.kept.min(context.limit);
    let all = Context { limit: MAX_HITS, ..context.clone() };
    Body {
        answer: words::answer(standing, shown).into(),
        second: words::second(tally).into(),
        told: Told::of(standing.state, standing.number, standing.changed, &context.zone, again),
        progress: standing.state.is_running().then(|| Progress {
            counts: "Bytes searched",
            done: tally.bytes_done.min(tally.bytes),
            total: tally.bytes.max(1),
            words: format!(
                "{} of {}",
                format::bytes(tally.bytes_done),
                format::bytes(tally.bytes.max(tally.bytes_done))
            ),
            cancel: url(context, "/search", &[("cancel", &number)]),
            reload: url(context, "/search", &[]),
        }),
        runs: shown_hits(tally, context.limit),
        more: (shown < tally.kept)
            .then(|| (format!("Show {}", format::count(tally.kept as u64)), url(&all, "/search", &[]))),
        left_out: words::left_out(tally).into_iter().map(Line::from).collect(),
    }
}

fn shown_hits(tally: &Tally, limit: usize) -> Vec<RunHits> {
    let (mut runs, mut left): (Vec<RunHits>, usize) = (Vec::new(), limit);
    for run in &tally.found_in {
        let hits = run.lines.iter().flat_map(|found| found.line.hits.iter().map(move |hit| (found, hit)));
        let hits: Vec<ShownHit> = hits.take(left).map(|(found, hit)| shown_hit(&run.key, found, hit)).collect();
        left -= hits.len();
        if hits.is_empty() {
            break;
        }
        runs.push(RunHits { name: (&*run.key).into(), href: href::run(&run.key), hits });
    }
    runs
}

fn shown_hit(key: &str, found: &Found, hit: &Hit) -> ShownHit {
    ShownHit {
        place: words::place(found),
        href: match (found.file, found.place.step) {
            (_, Some(step)) => href::run_at(key, step),
            (TraceFile::Events, None) => href::tab(key, "events"),
            (TraceFile::Manifest, None) => href::tab(key, "manifest"),
            (TraceFile::Steps, None) => href::run(key),
        },
        field: hit.path.as_str().into(),
        note: match (found.line.as_text, hit.in_key) {
            (true, _) => Some("no JSON, searched as it stands"),
            (false, true) => Some("the field's name"),
            (false, false) => None,
        },
        before: hit.before.as_str().into(),
        text: hit.text.as_str().into(),
        after: hit.after.as_str().into(),
    }
}
