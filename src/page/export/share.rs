//! Saves a run for other people: the form (`#sheet`) in the header of a run, the page that says what
//! will be redacted, and the file itself.
//!
//! Files are redacted unless the request says otherwise.

use std::io::{self, Write};
use std::ops::Range;
use std::sync::Arc;

use askama::Template;
use axum::extract::State;
use axum::http::header::{CONTENT_DISPOSITION, CONTENT_TYPE};
use axum::response::IntoResponse;

use crate::live::Run;
use crate::page::answer::html;
use crate::page::app::AppState;
use crate::page::blocking::blocking;
use crate::page::error::{Answer, WebError};
use crate::page::export::{Export, atif, file_name, otlp, write_export};
use crate::page::extract::{RunParam, no_such_step};
use crate::page::params::Params;
use crate::page::part::href;
use crate::page::part::share_form::{Check, ShareForm, turn_of};
use crate::page::part::text::{Line, one_line};
use crate::page::run::handler::{related_runs, shell};
use crate::page::run::markdown;
use crate::page::run_view::RunView;
use crate::page::shell::{Shell, now};

/// Limits the characters of the run's title below the heading.
const TITLE_CHARS: usize = 120;

/// The page that says what will be redacted.
#[derive(Template)]
#[template(path = "export/share.html")]
struct SharePage {
    shell: Shell,
    form: ShareForm,
    run: String,
    /// The title of the run, or its key.
    of: Line,
}

/// `GET /runs/{key}/share`: the form, with what will be redacted.
pub(crate) async fn page(
    State(state): State<AppState>,
    RunParam(run): RunParam,
    params: Params,
) -> Answer {
    let step = checked_step(&run, params.number("step")?)?;
    // Searching a run for secrets reads all of it, like writing it.
    let turn = state.downloads.take().await?;
    let shell = Shell {
        title: format!("{}: Share", run.key()),
        stream: None,
        ..shell(&state, &run)
    };
    let page = blocking(move || {
        let _turn = turn;
        let copy = run.redacted().map_err(|error| WebError::fault(&error))?;
        let (summary, index) = run.shown();
        let view = RunView {
            summary: &summary,
            index: &index,
            lines: &*run,
            now: now(),
            stale: None,
            related_runs: &Vec::new,
            zone: &state.zone,
        };
        Ok::<_, WebError>(SharePage {
            shell,
            run: href::run(view.key()),
            of: view
                .summary
                .session_title()
                .map_or_else(
                    || view.key().to_owned(),
                    |title| one_line(title, TITLE_CHARS).0,
                )
                .into(),
            form: ShareForm::new(&view, step).checked(Check::new(copy.blanked(), copy.samples())),
        })
    });
    html(&page.await.flatten()?)
}

fn checked_step(run: &Run, step: Option<usize>) -> Result<Option<usize>, WebError> {
    let total = run.index().steps().len();
    match step.filter(|n| *n >= total) {
        Some(n) => Err(no_such_step(run, total, n)),
        None => Ok(step),
    }
}

/// The format of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum As {
    Html,
    Markdown,
    Atif,
    Otlp,
}

/// `GET /runs/{key}/export`: saves the run. `as` is the format, `part` is `all`, `turn` or `step`, and
/// `redact=0` saves it as recorded.
pub(crate) async fn save(
    State(state): State<AppState>,
    RunParam(run): RunParam,
    params: Params,
) -> Answer {
    let step = checked_step(&run, params.number("step")?)?;
    let invalid =
        |what: &str, value: &str| WebError::bad_request("Invalid value", what).named(value);
    let (form, mime, ending) = match params.text("as") {
        "" | "html" => (As::Html, "text/html; charset=utf-8", "html"),
        "markdown" => (As::Markdown, "text/markdown; charset=utf-8", "md"),
        "atif" => (As::Atif, "application/json", "atif.json"),
        "otlp" => (As::Otlp, "application/json", "otlp.json"),
        other => return Err(invalid("as must be html, markdown, atif or otlp.", other)),
    };
    // Unknown values would otherwise reveal secrets.
    let redact = match params.text("redact") {
        "" | "1" => true,
        "0" => false,
        other => return Err(invalid("redact must be 0 or 1.", other)),
    };
    let only = match (params.text("part"), step) {
        ("" | "all", _) => None,
        (_, None) => {
            let what = "part=turn and part=step need a step.";
            return Err(WebError::bad_request("No step is given", what));
        }
        ("step", Some(n)) => Some(n..n + 1),
        ("turn", Some(n)) => {
            let index = run.index();
            let turn = turn_of(&index, n).map(|(_, steps)| steps);
            Some(turn.unwrap_or(0..index.steps().len()))
        }
        (other, _) => return Err(invalid("part must be all, turn or step.", other)),
    };
    if only.is_some() && matches!(form, As::Atif | As::Otlp) {
        let what = "ATIF and OTLP files contain the whole run.";
        return Err(WebError::bad_request(
            "A part can't be saved in this format",
            what,
        ));
    }
    if form == As::Otlp && run.index().first_ts().is_none() && run.summary().started.is_none() {
        let what = "This run records no times, but a span needs a start time.";
        return Err(WebError::bad_request("Can't export this run as OTLP", what));
    }
    let name = file_name(run.key(), ending);
    let of = state.clone();
    let body =
        crate::page::download::body(&state, move |out| write(&run, &of, form, only, redact, out));
    let headers = [
        (CONTENT_TYPE, mime.to_owned()),
        (
            CONTENT_DISPOSITION,
            format!("attachment; filename=\"{name}\""),
        ),
    ];
    Ok((headers, body.await?).into_response())
}

fn write(
    run: &Arc<Run>,
    state: &AppState,
    form: As,
    only: Option<Range<usize>>,
    redact: bool,
    out: &mut dyn Write,
) -> io::Result<()> {
    let (summary, index) = run.shown();
    let related_runs = || related_runs(&state.library, &summary);
    let view = RunView {
        summary: &summary,
        index: &index,
        lines: &**run,
        now: now(),
        stale: None,
        related_runs: &related_runs,
        zone: &state.zone,
    };
    if redact {
        let copy = run.redacted()?;
        let summary = run.summary_of_copy(&copy);
        let view = view.of_copy(&summary, copy.index(), &copy);
        let export = Export::redacted(None, copy.blanked()).only(only);
        return write_as(form, &view, &export, out);
    }
    let picture = |recorded: &str| run.dir().read_asset(recorded).ok().map(|(_, bytes)| bytes);
    write_as(form, &view, &Export::whole(None, &picture).only(only), out)
}

fn write_as(
    form: As,
    view: &RunView<'_>,
    export: &Export<'_>,
    out: &mut dyn Write,
) -> io::Result<()> {
    match form {
        As::Html => write_export(view, export, out),
        As::Markdown => {
            // Child runs would be searched for again for each step.
            let view = &RunView {
                related_runs: &Vec::new,
                ..*view
            };
            let total = view.index.steps().len();
            let steps = export.only.clone().unwrap_or(0..total);
            let mut notes = super::notes(view, export);
            // A redacted file says so itself.
            if export.redacted.is_none() {
                notes.push("Images are omitted.".to_owned());
            }
            markdown::write_about(out, view, steps.start..steps.end.min(total), &notes)?;
            markdown::write(out, view, export.only.clone())
        }
        As::Atif => atif::write(view, out),
        As::Otlp => {
            let trace = otlp::Trace::new(*view).map_err(io::Error::other)?;
            otlp::write(&trace, out)
        }
    }
}
