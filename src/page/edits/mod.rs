//! Lists the newest edits of files over all runs that match a query: the page at `/edits` and its JSON.
//!
//! Reads the calls of the newest runs, within fixed limits, and remembers what it found until a run
//! changes. The page says how many runs it looked at.

pub(crate) mod recent;

use std::sync::Arc;

use askama::Template;
use axum::extract::State;
use jiff::tz::TimeZone;

use crate::analysis::files::MAX_EDITS;
use crate::analysis::format::{self, counted};
use crate::page::answer::{html, json};
use crate::page::app::AppState;
use crate::page::blocking::blocking;
use crate::page::edits::recent::{PAGE, RecentEdit, RecentEdits};
use crate::page::error::{Answer, WebError};
use crate::page::params::Params;
use crate::page::part::{href, text};
use crate::page::shell::{NavItem, Shell, When, now};

/// The page at `/edits`.
#[derive(Debug, Template)]
#[template(path = "edits/page.html")]
struct EditsPage {
    shell: Shell,
    query: String,
    file: String,
    after: usize,
    found: RecentEdits,
    now: i64,
    zone: TimeZone,
}

impl EditsPage {
    /// Returns the answer in a sentence.
    fn answer(&self) -> String {
        let found = &self.found;
        if found.total == 0 {
            return "No file edits found.".to_owned();
        }
        // An address may name a page beyond the last edit.
        let is_part = !found.edits.is_empty() && found.edits.len() < found.total;
        let shown = is_part.then(|| {
            let (from, to) = (self.after + 1, self.after + found.edits.len());
            format!(", showing {}", format::range(from as u64, to as u64))
        });
        let edits = counted(found.total, "edit");
        let runs = counted(found.runs_looked_at, "run");
        format!("{edits} in {runs}{}.", shown.unwrap_or_default())
    }

    fn when(&self, edit: &RecentEdit) -> Option<When> {
        When::of(edit.micros()?, self.now, &self.zone)
    }

    fn at(&self, after: &usize) -> String {
        let after = match *after {
            0 => String::new(),
            after => after.to_string(),
        };
        let query = [("q", &*self.query), ("file", &self.file), ("after", &after)];
        href::with_query(href::EDITS, &query)
    }
}

async fn found(state: &AppState, params: &Params, limit: usize) -> Result<RecentEdits, WebError> {
    let query = state.query(params.text("q"));
    let (file, after) = (params.text("file").to_owned(), params.number("after")?);
    let (turn, library, known) = (
        state.walk().await?,
        Arc::clone(&state.library),
        Arc::clone(&state.edits),
    );
    blocking(move || {
        let _turn = turn;
        let window = (after.unwrap_or_default(), limit.min(MAX_EDITS));
        RecentEdits::of(&library, &known, query, &file, window)
    })
    .await
}

/// `GET /edits`
pub(crate) async fn page(State(state): State<AppState>, params: Params) -> Answer {
    let shell = Shell {
        title: "Recent edits".to_owned(),
        ..state.shell(NavItem::Edits)
    };
    html(&EditsPage {
        shell,
        query: params.text("q").to_owned(),
        file: params.text("file").to_owned(),
        after: params.number("after")?.unwrap_or_default(),
        found: found(&state, &params, PAGE).await?,
        now: now(),
        zone: state.zone.clone(),
    })
}

/// `GET /api/edits`
pub(crate) async fn api(State(state): State<AppState>, params: Params) -> Answer {
    let limit = params.limit(PAGE)?;
    json(&found(&state, &params, limit).await?)
}
