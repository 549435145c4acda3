//! Serves a run as a single file at `/runs/{key}/export.html`.
//!
//! It's sent as a download, because the file carries its own content security policy. The board's
//! policy forbids all inline scripts and would break the file if it were shown in place.

use std::cell::OnceCell;
use std::io;
use std::sync::Arc;

use axum::extract::State;
use axum::http::header::{CONTENT_DISPOSITION, CONTENT_TYPE};
use axum::response::IntoResponse;

use crate::live::Run;
use crate::model::RunKey;
use crate::page::app::AppState;
use crate::page::error::{Answer, WebError};
use crate::page::export::fill::{Export, write_export};
use crate::page::extract::{RunParam, no_such_step};
use crate::page::params::Params;
use crate::page::run::handler::related_runs;
use crate::page::run_view::RunView;
use crate::page::shell::now;

/// `GET /runs/{key}/export.html`. `step` and `event` set where it opens, and `redact=1` redacts
/// secrets.
pub(crate) async fn page(
    State(state): State<AppState>,
    RunParam(run): RunParam,
    params: Params,
) -> Answer {
    let (step, event) = (params.number("step")?, params.number("event")?.unwrap_or(1));
    let total = run.index().steps().len();
    if let Some(n) = step.filter(|n| *n >= total) {
        return Err(no_such_step(&run, total, n));
    }
    let cursor = step.map(|step| (step, event));
    // Reject unknown values, because treating them as `0` would reveal secrets.
    let redact = match params.text("redact") {
        "" | "0" => false,
        "1" => true,
        other => {
            return Err(
                WebError::bad_request("Invalid value", "redact must be 0 or 1.").named(other),
            );
        }
    };
    let name = file_name(run.key());
    let of = state.clone();
    let body =
        crate::page::download::body(&state, move |out| write(&run, &of, cursor, redact, out))
            .await?;
    let headers = [
        (CONTENT_TYPE, "text/html; charset=utf-8".to_owned()),
        (
            CONTENT_DISPOSITION,
            format!("attachment; filename=\"{name}\""),
        ),
    ];
    Ok((headers, body).into_response())
}

fn write(
    run: &Arc<Run>,
    state: &AppState,
    cursor: Option<(usize, usize)>,
    redact: bool,
    out: &mut dyn io::Write,
) -> io::Result<()> {
    let zone = &state.zone;
    if redact {
        let copy = run.redacted()?;
        let summary = run.summary_of(copy.index());
        let view = RunView {
            summary: &summary,
            index: copy.index(),
            lines: &copy,
            now: now(),
            stale: None,
            // Related runs aren't redacted, so their names are omitted.
            related_runs: &Vec::new,
            zone,
        };
        return write_export(
            &view,
            &Export {
                cursor,
                redacted: Some(copy.blanked()),
                picture: &|_| None,
            },
            out,
        );
    }
    let (summary, index) = (run.summary(), run.index());
    let found = OnceCell::new();
    let related_runs = || {
        found
            .get_or_init(|| related_runs(&state.library, &summary))
            .clone()
    };
    let view = RunView {
        summary: &summary,
        index: &index,
        lines: &**run,
        now: now(),
        stale: None,
        related_runs: &related_runs,
        zone,
    };
    let picture = |recorded: &str| run.dir().read_asset(recorded).ok().map(|(_, bytes)| bytes);
    write_export(
        &view,
        &Export {
            cursor,
            redacted: None,
            picture: &picture,
        },
        out,
    )
}

/// Turns the last part of the key into a file name that is valid on every system.
fn file_name(key: &RunKey) -> String {
    let safe = |letter: char| {
        if letter.is_ascii_alphanumeric() || "-_".contains(letter) {
            letter
        } else {
            '_'
        }
    };
    format!(
        "{}.html",
        key.name().chars().take(80).map(safe).collect::<String>()
    )
}
