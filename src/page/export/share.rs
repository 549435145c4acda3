//! Saves a run for other people: the form (`#sheet`) in the header of a run, the page that says what
//! will be redacted, and the file itself.
//!
//! Files are redacted unless the request says otherwise.

use std::io::{self, Write};
use std::ops::Range;
use std::sync::Arc;

use askama::Template;
use askama::filters::HtmlSafe;
use axum::extract::State;
use axum::http::header::{CONTENT_DISPOSITION, CONTENT_TYPE};
use axum::response::IntoResponse;

use crate::analysis::format;
use crate::analysis::turns::turns;
use crate::live::Run;
use crate::model::Index;
use crate::model::redact::{Blanked, Kind, Sample};
use crate::page::answer::html;
use crate::page::app::AppState;
use crate::page::blocking::blocking;
use crate::page::error::{Answer, WebError};
use crate::page::export::{Export, atif, file_name, otlp, write_export};
use crate::page::extract::{RunParam, no_such_step};
use crate::page::params::Params;
use crate::page::part::href;
use crate::page::part::text::Line;
use crate::page::run::handler::{related_runs, shell};
use crate::page::run::markdown;
use crate::page::run_view::RunView;
use crate::page::shell::{Shell, now};

/// Values in the preview, at most.
const PREVIEW: usize = 8;

/// The form that saves a run (`#sheet`).
#[derive(Template)]
#[template(path = "export/share_form.html")]
pub(crate) struct ShareForm {
    run: String,
    /// The current step, and its turn if the run has several.
    step: Option<(usize, Line)>,
    turn: Option<usize>,
    /// What will be redacted. `None` if it wasn't looked for yet.
    check: Option<Check>,
}

impl HtmlSafe for ShareForm {}

/// What will be redacted.
struct Check {
    rows: Vec<CheckRow>,
    total: String,
    preview: Vec<Change>,
}

struct CheckRow {
    kind: &'static str,
    to: &'static str,
    count: usize,
}

/// A value in the preview, with the text around it.
struct Change {
    before: Line,
    value: Line,
    to: &'static str,
    after: Line,
}

impl ShareForm {
    pub(crate) fn new(view: &RunView<'_>, step: Option<usize>) -> Self {
        let step = step.filter(|n| *n < view.index.steps().len());
        let turn = step.and_then(|n| turn_of(view.index, n)).map(|(k, _)| k);
        Self {
            run: href::run(view.key()),
            step: step.map(|n| (n, view.label(n).into())),
            turn,
            check: None,
        }
    }

    /// Returns the address of the page that says what will be redacted.
    fn more(&self) -> String {
        let step = self.step.as_ref().map(|(n, _)| n.to_string());
        href::with_query(
            &format!("{}/share", self.run),
            &[("step", &step.unwrap_or_default())],
        )
    }
}

/// Returns the turn of a step, counted from 1, and its steps. `None` if the run has only one turn.
fn turn_of(index: &Index, n: usize) -> Option<(usize, Range<usize>)> {
    let turns = turns(index);
    if turns.len() < 2 {
        return None;
    }
    let at = turns.iter().rposition(|turn| turn.first <= n)?;
    let turn = turns.get(at)?;
    Some((at + 1, turn.first..turn.end))
}

impl Check {
    fn new(blanked: Blanked, samples: &[Sample]) -> Self {
        let row = |(kind, count): (Kind, usize)| CheckRow {
            kind: kind.name(),
            to: kind.replacement(),
            count,
        };
        let mut preview: Vec<&Sample> = samples.iter().collect();
        // One of each kind comes first.
        preview.sort_by_key(|sample| {
            let same = samples.iter().filter(|other| other.kind == sample.kind);
            (
                same.take_while(|other| *other != *sample).count(),
                sample.kind,
            )
        });
        let change = |sample: &Sample| Change {
            before: sample.before.as_str().into(),
            value: masked(sample).into(),
            to: sample.kind.replacement(),
            after: sample.after.as_str().into(),
        };
        Self {
            rows: blanked.each().map(row).collect(),
            total: format::counted(blanked.found(), "value"),
            preview: preview.into_iter().take(PREVIEW).map(change).collect(),
        }
    }
}

/// Returns the value for the preview. Of a secret, only the ends are shown.
fn masked(sample: &Sample) -> String {
    const ENDS: usize = 4;
    let is_secret = sample.kind.replacement() == Kind::Named.replacement();
    let letters: Vec<char> = sample.value.chars().collect();
    match letters.as_slice() {
        _ if !is_secret => sample.value.clone(),
        [first @ .., a, b, c, d] if first.len() >= 3 * ENDS => {
            let start: String = first.iter().take(ENDS).collect();
            format!("{start}…{a}{b}{c}{d}")
        }
        [first, ..] => format!("{first}…"),
        [] => String::new(),
    }
}

/// The page that says what will be redacted.
#[derive(Template)]
#[template(path = "export/share.html")]
struct SharePage {
    shell: Shell,
    form: ShareForm,
    run: String,
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
            form: ShareForm {
                check: Some(Check::new(copy.blanked(), copy.samples())),
                ..ShareForm::new(&view, step)
            },
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
            let total = view.index.steps().len();
            let steps = export.only.clone().unwrap_or(0..total);
            let mut notes = super::notes(view, export);
            notes.push("Pictures are left out too.".to_owned());
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

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(kind: Kind, value: &str) -> Sample {
        Sample {
            kind,
            before: String::new(),
            value: value.to_owned(),
            after: String::new(),
        }
    }

    #[test]
    fn a_preview_doesnt_show_secrets() {
        assert_eq!(
            masked(&sample(Kind::Token, "ghp_0123456789abcdef")),
            "ghp_…cdef"
        );
        assert_eq!(masked(&sample(Kind::Named, "swordfish")), "s…");
        assert_eq!(masked(&sample(Kind::Named, "")), "");
        assert_eq!(masked(&sample(Kind::Home, "/home/ann")), "/home/ann");
    }

    #[test]
    fn a_preview_begins_with_one_of_each_kind() {
        let samples = [
            sample(Kind::Home, "/home/a"),
            sample(Kind::Home, "/home/b"),
            sample(Kind::Email, "a@b.org"),
        ];
        let check = Check::new(Blanked::default(), &samples);
        let shown: Vec<&str> = check.preview.iter().map(|one| one.value.as_str()).collect();
        assert_eq!(shown, ["/home/a", "a@b.org", "/home/b"]);
    }
}
