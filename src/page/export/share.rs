//! Saves a run for other people: the form (`#sheet`) in the header of a run, the page that says what
//! will be redacted, and the file itself.
//!
//! Files are redacted unless the request says otherwise.

use std::cell::OnceCell;
use std::io::{self, Write};
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use askama::Template;
use axum::extract::State;
use axum::http::header::{CONTENT_DISPOSITION, CONTENT_TYPE};
use axum::response::IntoResponse;

use crate::analysis::format;
use crate::live::Run;
use crate::page::answer::html;
use crate::page::app::AppState;
use crate::page::blocking::blocking;
use crate::page::error::{Answer, WebError};
use crate::page::export::{Child, Export, Saving, atif, file_name, otlp, save_as, write_export};
use crate::page::extract::{RunParam, no_such_step};
use crate::page::params::Params;
use crate::page::part::share_form::{Check, ShareForm, Sizes, turn_of};
use crate::page::part::sign::Phrase;
use crate::page::part::text::one_line;
use crate::page::part::{highlight, href};
use crate::page::run::handler::{related_runs, shell};
use crate::page::run_view::{RunView, page_title};
use crate::page::shell::{Shell, now};

/// Limits the bytes that are searched for the preview of a redaction.
const MAX_PREVIEW: u64 = 64 << 20;
/// Limits the bytes that are counted of a file.
const MAX_COUNTED: usize = 8 << 20;
/// Limits the steps and events, and the bytes, of a run whose size as a file is counted.
const MAX_RECORDS: usize = 20_000;
const MAX_BYTES: u64 = 16 << 20;
/// Code is colored for this long to count bytes. Those of the other colors are estimated.
const MAX_COLORING: Duration = Duration::from_millis(100);
/// The bytes around a colored span.
const SPAN_BYTES: usize = "<span class=\"c-s\"></span>".len();
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
    of: Phrase,
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
        title: page_title(&run.summary(), "Share"),
        stream: None,
        ..shell(&state, &run)
    };
    let page = blocking(move || {
        let _turn = turn;
        // Any of the child runs may be saved in the same file.
        let children = children(&state, &run, None);
        let held = Child::held(&children);
        let others: Vec<&Run> = held.iter().filter_map(Child::here).collect();
        let preview = run.redaction_preview(&others, MAX_PREVIEW);
        let preview = preview.map_err(|error| WebError::fault(&error))?;
        let (summary, index) = run.shown();
        let found = OnceCell::new();
        let related_runs = || {
            found
                .get_or_init(|| related_runs(&state.library, &summary))
                .clone()
        };
        let view = RunView {
            summary: &summary,
            index: &index,
            lines: &*run,
            now: now(),
            stale: None,
            related_runs: &related_runs,
            zone: &state.zone,
            editor: None,
            files: &|| Some(0),
        };
        Ok::<_, WebError>(SharePage {
            shell,
            run: href::run(view.key()),
            of: Phrase::coded(&one_line(view.summary.title(), TITLE_CHARS).0),
            form: ShareForm::new(&view, step)
                .checked(Check::new(&preview, MAX_PREVIEW))
                .sized(sizes(&view, run.dir().bytes())),
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
        other => return Err(invalid("`as` must be html, markdown, atif or otlp.", other)),
    };
    // Unknown values would otherwise reveal secrets.
    let redact = match params.text("redact") {
        "" | "1" => true,
        "0" => false,
        other => return Err(invalid("`redact` must be 0 or 1.", other)),
    };
    let only = match (params.text("part"), step) {
        ("" | "all", _) => None,
        (_, None) => {
            let what = "`part=turn` and `part=step` need a step.";
            return Err(WebError::bad_request("No step is given", what));
        }
        ("step", Some(n)) => Some(n..n + 1),
        ("turn", Some(n)) => {
            let index = run.index();
            let turn = turn_of(&index, n).map(|(_, steps)| steps);
            Some(turn.unwrap_or(0..index.steps().len()))
        }
        (other, _) => return Err(invalid("`part` must be all, turn or step.", other)),
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
    let children = match params.text("children") {
        "" | "0" => Vec::new(),
        "1" if matches!(form, As::Html | As::Markdown) => children(&state, &run, only.as_ref()),
        "1" => {
            let what = "ATIF and OTLP files contain one run. Export each child run by itself.";
            return Err(WebError::bad_request(
                "Child runs can't be saved in this format",
                what,
            ));
        }
        other => return Err(invalid("`children` must be 0 or 1.", other)),
    };
    let name = file_name(run.key(), ending);
    let saving = Saving {
        cursor: None,
        only,
        redact,
        children,
    };
    let of = state.clone();
    let body = crate::page::download::body(&state, move |out| {
        save_as(&run, &of, &saving, &mut |view, export| {
            write_as(form, view, export, out)
        })
    });
    let headers = [
        (CONTENT_TYPE, mime.to_owned()),
        (
            CONTENT_DISPOSITION,
            format!("attachment; filename=\"{name}\""),
        ),
    ];
    Ok((headers, body.await?).into_response())
}

/// Returns the child runs that the steps of a part started, in order of their start.
fn children(state: &AppState, run: &Run, only: Option<&Range<usize>>) -> Vec<Arc<Run>> {
    let (summary, index) = run.shown();
    let related_runs = || related_runs(&state.library, &summary);
    let view = RunView {
        summary: &summary,
        index: &index,
        lines: run,
        now: now(),
        stale: None,
        related_runs: &related_runs,
        zone: &state.zone,
        editor: None,
        files: &|| Some(0),
    };
    let is_in_part = |step: Option<usize>| match (only, step) {
        (Some(only), Some(step)) => only.contains(&step),
        (Some(_), None) => false,
        (None, _) => true,
    };
    let children = view.children().into_iter();
    children
        .filter(|(_, step)| is_in_part(*step))
        .filter_map(|(child, _)| state.library.run(child.key.as_str()))
        .collect()
}

fn write_as(
    form: As,
    view: &RunView<'_>,
    export: &Export<'_>,
    out: &mut dyn Write,
) -> io::Result<()> {
    match form {
        As::Html => write_export(view, export, out),
        As::Markdown => super::write_markdown(view, export, out),
        As::Atif => atif::write(view, out),
        As::Otlp => {
            let trace = otlp::Trace::new(*view).map_err(io::Error::other)?;
            otlp::write(&trace, out)
        }
    }
}

/// Counts bytes, and refuses more than [`MAX_COUNTED`].
#[derive(Default)]
struct Counter(usize);

impl Write for Counter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 = self.0.saturating_add(bytes.len());
        match self.0 > MAX_COUNTED {
            true => Err(io::Error::other("enough")),
            false => Ok(bytes.len()),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Returns the approximate size of the file in each format, without pictures. Empty if it can't be
/// saved in a format, or if the run, which has `bytes`, is too large to try it.
fn sizes(view: &RunView<'_>, bytes: u64) -> Sizes {
    let records = view.index.step_count() + view.index.event_count();
    if records > MAX_RECORDS || bytes > MAX_BYTES {
        return Sizes::default();
    }
    let size = |form: As| {
        let mut counter = Counter::default();
        let mut write = || write_as(form, view, &Export::whole(None, &|_| None), &mut counter);
        let (written, more_spans) = highlight::limited(MAX_COLORING, &mut write);
        let bytes = counter.0.saturating_add(more_spans * SPAN_BYTES);
        match written {
            Ok(()) => format!("≈{}", format::bytes(bytes as u64)),
            Err(_) if counter.0 > MAX_COUNTED => {
                format!("over {}", format::bytes(MAX_COUNTED as u64))
            }
            Err(_) => String::new(),
        }
    };
    Sizes {
        html: size(As::Html).into(),
        markdown: size(As::Markdown).into(),
        atif: size(As::Atif).into(),
        otlp: size(As::Otlp).into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_size_of_a_large_run_isnt_counted() {
        let run = crate::page::tests::Recorded::steps(["{\"step_id\": 0}".to_owned()]);
        let all = |bytes: u64| {
            let sizes = sizes(&run.view(), bytes);
            [sizes.html, sizes.markdown, sizes.atif].map(|size| size.is_empty())
        };
        assert_eq!(all(MAX_BYTES), [false; 3]);
        assert_eq!(all(MAX_BYTES + 1), [true; 3]);
        let lines = (0..=MAX_RECORDS).map(|n| format!("{{\"step_id\": {n}}}"));
        let run = crate::page::tests::Recorded::steps(lines);
        let sizes = sizes(&run.view(), 0);
        assert!(sizes.html.is_empty() && sizes.atif.is_empty());
    }
}
