//! Suggests where to go for the words typed into the jump box: runs, steps and tabs of the open
//! run, pages, and shortcuts.
//!
//! All suggestions come from memory, because every keystroke requests them. They consist of text
//! and addresses, and the box renders the rows.

mod here;
#[cfg(test)]
mod tests;

use std::cmp::Reverse;
use std::sync::Arc;

use axum::extract::State;
use schemars::JsonSchema;
use serde::Serialize;

use crate::analysis::columns::StepSubject;
use crate::analysis::query::Needle;
use crate::analysis::summary::Summary;
use crate::page::answer;
use crate::page::app::AppState;
use crate::page::blocking::blocking;
use crate::page::error::Answer;
use crate::page::jump::here::Here;
use crate::page::keys::table::Section;
use crate::page::params::Params;
use crate::page::part::href;
use crate::page::run::handler::with_view;
use crate::page::run::head::Tabs;
use crate::page::run_view::RunView;
use crate::page::runs::fill::row::line;
use crate::page::shell::{MORE, NAV, Status};

/// Limits the suggested runs and steps.
const MAX_RUNS: usize = 12;
const MAX_STEPS: usize = 8;
/// How many of the newest runs to suggest before anything is typed.
const NEWEST: usize = 6;
/// Limits the characters of the input, because each word is searched for in every run.
const MAX_TYPED: usize = 200;

/// The suggestions, most likely first.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Offers {
    items: Vec<Offer>,
    /// How many runs match the words. Only the first of them are suggested.
    runs: usize,
}

/// A row of the jump box. It either leads to an address or presses a key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub(crate) struct Offer {
    kind: &'static str,
    label: String,
    /// The text next to the label.
    note: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    href: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<&'static str>,
}

impl Offer {
    fn to(
        kind: &'static str,
        label: impl Into<String>,
        note: impl Into<String>,
        href: String,
    ) -> Self {
        Self {
            kind,
            label: label.into(),
            note: note.into(),
            href: Some(href),
            key: None,
        }
    }
}

/// `GET /api/jump?q=WORDS&at=ADDRESS`. `at` is the address of the page where the box is open.
pub(crate) async fn api(State(state): State<AppState>, params: Params) -> Answer {
    let typed: String = params.text("q").trim().chars().take(MAX_TYPED).collect();
    let here = Here::read(params.text("at"));
    let run = here.run.as_deref().and_then(|key| state.library.run(key));
    let library = Arc::clone(&state.library);
    let all = move || {
        library
            .runs()
            .iter()
            .map(|run| run.summary())
            .collect::<Vec<_>>()
    };
    // Reloading an evicted run takes too long while someone is typing. A run stays loaded while its
    // page is open.
    let offers = match run.filter(|run| !run.is_parked()) {
        Some(run) => {
            with_view(&state, &run, move |view| {
                Ok(offers(&typed, &here, Some(view), &all()))
            })
            .await?
        }
        None => blocking(move || offers(&typed, &here, None, &all())).await?,
    };
    answer::json(&offers)
}

/// Returns the suggestions for `typed` on the page `here`, where the run `open` may be shown.
fn offers(typed: &str, here: &Here, open: Option<&RunView<'_>>, runs: &[Arc<Summary>]) -> Offers {
    let words: Vec<Needle> = typed.split_whitespace().map(Needle::new).collect();
    let matches_words = |offer: &Offer| {
        words
            .iter()
            .all(|word| word.within(&offer.label) || word.within(offer.kind))
    };
    let parts = open.map_or_else(Vec::new, |view| parts_of(view, here.step));
    let (called, other): (Vec<Offer>, Vec<Offer>) = parts
        .into_iter()
        .chain(pages())
        .filter(matches_words)
        .partition(|offer| words.is_empty() || starts_with(&offer.label, typed));
    let (found, count) = runs_with(&words, runs);
    let commands = here.sections().into_iter().flat_map(commands);
    // Who types the start of a tab's name wants the tab. Anything else more likely names a run.
    let mut items: Vec<Offer> = open
        .and_then(|view| step_called(typed, view))
        .into_iter()
        .chain(called)
        .chain(found)
        .chain(open.into_iter().flat_map(|view| steps_with(&words, view)))
        .chain(other)
        .chain(commands.filter(matches_words))
        .collect();
    if !typed.is_empty() {
        let quoted = line(typed);
        let search = format!("Search all runs for “{quoted}”");
        items.push(Offer::to(
            "search",
            search,
            "messages and tool calls",
            href::search(typed, ""),
        ));
        let filter = format!("Filter the list by “{quoted}”");
        items.push(Offer::to(
            "filter",
            filter,
            "on the Runs page",
            href::runs(typed),
        ));
    }
    Offers { items, runs: count }
}

/// Returns the tabs and other pages of a run, keeping the selected step.
fn parts_of(view: &RunView<'_>, step: Option<usize>) -> Vec<Offer> {
    let of = |label: &str, note: &str, href| Offer::to("tab", label, note, href);
    let tabs = Tabs {
        view,
        current: "",
        step,
    }
    .tabs();
    let tabs = tabs
        .into_iter()
        .map(|(_, href, label, count)| of(label, &count, href));
    let key = view.key();
    let replay = step.map_or_else(|| href::replay(key), |n| href::replay_at(key, n));
    let own = href::run(key);
    let at = |page: &str| match step {
        Some(n) => href::with_query(&format!("{own}/{page}"), &[("step", &n.to_string())]),
        None => format!("{own}/{page}"),
    };
    let more = [
        Offer::to("page", "Share", "save a redacted copy", at("share")),
        Offer::to(
            "page",
            "Open as Markdown",
            "as recorded",
            format!("{own}/transcript.md"),
        ),
        Offer::to("page", "Replay", "event by event", replay),
        Offer::to(
            "page",
            "Compare",
            "with another run",
            href::compare(key, ""),
        ),
    ];
    tabs.chain(more).collect()
}

fn pages() -> impl Iterator<Item = Offer> {
    let more = [
        ("Search", "the text of all runs", href::search("", "")),
        ("Keyboard shortcuts", "on all pages", href::KEYS.to_owned()),
    ];
    NAV.iter()
        .chain(MORE)
        .map(|link| (link.label, link.note, link.href.to_owned()))
        .chain(more)
        .map(|(label, note, href)| Offer::to("page", label, note, href))
}

/// Returns whether `text` starts with `start`, ignoring ASCII case.
fn starts_with(text: &str, start: &str) -> bool {
    text.get(..start.len())
        .is_some_and(|own| own.eq_ignore_ascii_case(start))
}

fn commands(section: &'static Section) -> impl Iterator<Item = Offer> {
    section
        .keys
        .iter()
        .filter(|key| key.is_command)
        .filter_map(|key| {
            let cap = *key.caps.first()?;
            Some(Offer {
                kind: "key",
                label: key.does.to_owned(),
                note: cap.to_owned(),
                href: None,
                key: Some(cap),
            })
        })
}

/// Match rank; lower is better. `None` if a word isn't found.
fn rank(words: &[Needle], run: &Summary) -> Option<u8> {
    let (key, name, title) = (run.key.as_str(), run.key.name(), run.title());
    if let [word] = words {
        let word = word.text();
        if name.eq_ignore_ascii_case(word) || key.eq_ignore_ascii_case(word) {
            return Some(0);
        }
        if starts_with(name, word) || starts_with(title, word) {
            return Some(1);
        }
    }
    if words.iter().all(|word| word.within(title)) {
        return Some(2);
    }
    if words.iter().all(|word| word.within(key)) {
        return Some(3);
    }
    let also = [
        Some(title),
        run.run_id.as_deref(),
        run.task.as_deref(),
        run.project.as_deref(),
        run.model.as_deref(),
    ]
    .map(Option::unwrap_or_default);
    let all = || {
        words
            .iter()
            .all(|word| word.within(key) || also.iter().any(|text| word.within(text)))
    };
    all().then_some(4)
}

/// Returns the best matching runs, newest first within a rank, and the number of matching runs.
fn runs_with(words: &[Needle], runs: &[Arc<Summary>]) -> (Vec<Offer>, usize) {
    let mut found: Vec<_> = runs
        .iter()
        .filter_map(|run| Some((rank(words, run)?, Reverse(run.updated), &run.key, run)))
        .collect();
    let count = found.len();
    let shown = if words.is_empty() { NEWEST } else { MAX_RUNS };
    found.sort_unstable_by(|a, b| (a.0, a.1, a.2.as_str()).cmp(&(b.0, b.1, b.2.as_str())));
    (
        found
            .into_iter()
            .take(shown)
            .map(|(.., run)| offer_of(run))
            .collect(),
        count,
    )
}

fn offer_of(run: &Summary) -> Offer {
    let (label, key) = (line(run.title()), line(run.key.as_str()));
    // Runs of one task have the same title.
    let other = Some(key).filter(|key| *key != label);
    let status = if run.partial {
        Status::Indexing
    } else {
        Status::of(run)
    };
    let description = if run.partial {
        String::new()
    } else {
        line(&run.verdict.sentence)
    };
    let note: Vec<String> = [Some(status.word().to_owned()), Some(description), other]
        .into_iter()
        .flatten()
        .filter(|text| !text.is_empty())
        .collect();
    Offer::to("run", label, note.join(" · "), href::run(run.key.as_str()))
}

/// Returns the step whose number was typed, with or without `step` before it.
fn step_called(typed: &str, view: &RunView<'_>) -> Option<Offer> {
    let number = typed
        .strip_prefix("step")
        .unwrap_or(typed)
        .trim_start_matches([' ', ':', '#']);
    let n: usize = number.parse().ok()?;
    let total = view.index.steps().len();
    // A recorded number takes precedence over an ordinal, because the list shows recorded numbers.
    let n = (0..total)
        .rev()
        .find(|at| view.label(*at) == number)
        .or(Some(n).filter(|n| *n < total))?;
    Some(step_offer(n, view))
}

/// Returns the first steps that contain all words.
fn steps_with(words: &[Needle], view: &RunView<'_>) -> Vec<Offer> {
    // A single letter occurs in every step.
    if words
        .iter()
        .map(|word| word.text().chars().count())
        .sum::<usize>()
        < 2
    {
        return Vec::new();
    }
    let description = |n: &usize| {
        let Some(step) = StepSubject::new(view.index, *n) else {
            return false;
        };
        words.iter().all(|word| {
            let mut found = false;
            step.texts(&mut |text| found = found || word.within(text));
            found
        })
    };
    (0..view.index.steps().len())
        .filter(description)
        .take(MAX_STEPS)
        .map(|n| step_offer(n, view))
        .collect()
}

fn step_offer(n: usize, view: &RunView<'_>) -> Offer {
    let call = view
        .index
        .steps()
        .get(n)
        .map(|step| line(&step.call))
        .unwrap_or_default();
    Offer::to(
        "step",
        format!("Step {}", view.label(n)),
        call,
        view.at_step(n),
    )
}
