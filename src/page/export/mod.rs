//! Saves a run at `/runs/{key}/export.html` as a single HTML file that loads nothing and works in any
//! browser.
//!
//! The file has everything that the replay needs, but no observations or raw lines. That of a session
//! begins with its transcript. It reuses the parts of board's pages. Links to board become
//! links within the file or are removed.
//!
//! It's sent as a download, because the file carries its own content security policy. Board's
//! policy forbids all inline scripts and would break the file if it were shown in place.

pub(crate) mod atif;
pub(crate) mod index;
pub(crate) mod otlp;
pub(crate) mod share;

use std::cell::{OnceCell, RefCell};
use std::collections::BTreeMap;
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, Write};
use std::ops::Range;
use std::sync::Arc;

use askama::Template;
use axum::extract::State;
use axum::http::header::{CONTENT_DISPOSITION, CONTENT_TYPE};
use axum::response::IntoResponse;
use base64::Engine as _;
use jiff::tz::TimeZone;

use crate::analysis::format;
use crate::analysis::state::walk;
use crate::analysis::summary::Summary;
use crate::live::{Run, SharedSecrets};
use crate::model::json::Json;
use crate::model::redact::{Blanked, MAX_SOUGHT, without_private};
use crate::model::{Index, RunKey, TraceFile};
use crate::page::app::AppState;
use crate::page::error::{Answer, WebError};
use crate::page::export::index::{INDEX_CHARS, IndexRow, index_rows};
use crate::page::extract::{RunParam, no_such_step};
use crate::page::params::Params;
use crate::page::part::json_tree::find;
use crate::page::part::sign::Phrase;
use crate::page::part::strip::Strip;
use crate::page::part::text::{self, Line};
use crate::page::part::{attachment, href};
use crate::page::run::handler::related_runs;
use crate::page::run::head::RunHead;
use crate::page::run::markdown;
use crate::page::run::pending::PendingSlot;
use crate::page::run::transcript::SavedTranscript;
use crate::page::run::verdict::Verdict;
use crate::page::run_view::{RelatedRun, RunView, child_count, phase};
use crate::page::scores::ScoresBody;
use crate::page::scores::query::Query;
use crate::page::shell::now;
use crate::page::step::fill::{StepPlace, about, step_view};
use crate::page::step::{self, StepView};

/// The controls of the replay. The script that makes them work also shows them.
const BAR: &str = include_str!("../../../templates/export/export_bar.html");
/// The script that replays a saved run.
const SCRIPT: &str = include_str!("../../../static/export.js");

/// Limits the bytes of all pictures in the file.
const MAX_PICTURES: usize = 8_000_000;
/// Limits the bytes of the file up to which steps are written in full.
const MAX_TEXT: usize = 64_000_000;
/// Limits the bytes of the transcript in the file. The steps repeat what it shows.
const MAX_TRANSCRIPT: usize = 32_000_000;
/// Limits the bytes of the states in the file.
const MAX_STATES: usize = 8_000_000;
/// Limits the bytes of a state value. Longer values are truncated.
const MAX_VALUE: usize = 2_000;
/// Limits the child runs that are written after the steps.
const MAX_CHILDREN: usize = 50;
/// What is written instead of a child run whose files can't be read.
const AWAY: &str = "The files of this run aren't here.";
/// Limits the child runs listed.
const MAX_STARTED: usize = 500;

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
                WebError::bad_request("Invalid value", "`redact` must be 0 or 1.").named(other),
            );
        }
    };
    let name = file_name(run.key(), "html");
    let saving = Saving {
        cursor,
        redact,
        ..Saving::default()
    };
    let of = state.clone();
    let body = crate::page::download::body(&state, move |out| {
        save_as(&run, &of, &saving, &mut |view, export| {
            write_export(view, export, out)
        })
    })
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

/// The part of a run to save.
#[derive(Debug, Default)]
pub(crate) struct Saving {
    /// The step to open at and how many of its events to show.
    cursor: Option<(usize, usize)>,
    /// The steps to write. `None` writes all.
    only: Option<Range<usize>>,
    /// Whether secrets are redacted.
    redact: bool,
    /// The child runs to write after the steps.
    children: Vec<Arc<Run>>,
}

/// Passes the run as it's saved to `write`.
pub(crate) fn save_as(
    run: &Run,
    state: &AppState,
    what: &Saving,
    write: &mut dyn FnMut(&RunView<'_>, &Export<'_>) -> io::Result<()>,
) -> io::Result<()> {
    let summary = run.summary();
    let found = OnceCell::new();
    let related_runs = || {
        found
            .get_or_init(|| related_runs(&state.library, &summary))
            .clone()
    };
    let mut children = Child::held(&what.children);
    let secrets = what
        .redact
        .then(|| secrets(run, &mut children))
        .transpose()?
        .map(RefCell::new);
    let saved = Saved {
        zone: &state.zone,
        secrets: secrets.as_ref(),
    };
    saved.pass(run, || run.shown(), &related_runs, &mut |view, blanked| {
        let picture = |recorded: &str| run.dir().read_asset(recorded).ok().map(|(_, bytes)| bytes);
        let export = match blanked {
            Some(blanked) => Export::redacted(what.cursor, blanked),
            None => Export::whole(what.cursor, &picture),
        };
        let export = Export {
            only: what.only.clone(),
            saved: Some(&saved),
            children: &children,
            chosen: what.children.len(),
            child_count: child_count(&related_runs()),
            ..export
        };
        write(view, &export)
    })
}

/// Returns the secrets of the run and of the child runs that are saved with it.
fn secrets(run: &Run, children: &mut [Child<'_>]) -> io::Result<SharedSecrets> {
    let mut secrets = SharedSecrets::default();
    if children.is_empty() {
        // The copy of the run finds them.
        return Ok(secrets);
    }
    run.add_secrets(&mut secrets)?;
    for child in children {
        let is_read = child.here().is_some() && child.run.add_secrets(&mut secrets).is_ok();
        if !is_read {
            child.files = None;
        }
    }
    Ok(secrets)
}

/// A child run that is written after the steps.
struct Child<'a> {
    run: &'a Run,
    /// Keeps the files in place. `None` if they can't be read.
    files: Option<Box<dyn Send>>,
}

impl<'a> Child<'a> {
    /// Holds the files of the child runs that are written.
    fn held(runs: &'a [Arc<Run>]) -> Vec<Self> {
        let child = |run: &'a Arc<Run>| {
            let files = run.hold().ok().filter(|_| !run.summary().partial);
            Self {
                run,
                files: files.map(|files| Box::new(files) as Box<dyn Send>),
            }
        };
        runs.iter().take(MAX_CHILDREN).map(child).collect()
    }

    /// Returns the run if its files are here.
    fn here(&self) -> Option<&'a Run> {
        self.files.as_ref().map(|_| self.run)
    }
}

/// How runs are saved: as recorded, or redacted.
struct Saved<'a> {
    zone: &'a TimeZone,
    /// The secrets of all runs in the file, if it's redacted.
    secrets: Option<&'a RefCell<SharedSecrets>>,
}

/// Writes a view, with how much of the file is redacted if redaction was requested.
type WriteView<'w> = dyn FnMut(&RunView<'_>, Option<Blanked>) -> io::Result<()> + 'w;

impl Saved<'_> {
    /// Passes on a run as it's saved. Its summary and its index are read only if it isn't redacted.
    fn pass(
        &self,
        run: &Run,
        shown: impl FnOnce() -> (Arc<Summary>, Arc<Index>),
        related_runs: &dyn Fn() -> Vec<RelatedRun>,
        write: &mut WriteView<'_>,
    ) -> io::Result<()> {
        let view = |summary, index, lines| RunView {
            summary,
            index,
            lines,
            now: now(),
            stale: None,
            related_runs: &Vec::new,
            zone: self.zone,
            editor: None,
            files: &|| Some(0),
        };
        if let Some(secrets) = self.secrets {
            let copy = run.redacted(&mut secrets.borrow_mut())?;
            let summary = run.summary_of_copy(&copy);
            // The names of related runs aren't redacted.
            return write(&view(&summary, copy.index(), &copy), Some(copy.blanked()));
        }
        let (summary, index) = shown();
        let view = RunView {
            related_runs,
            ..view(&summary, &index, run)
        };
        write(&view, None)
    }

    /// Passes on a child run as it's saved. It doesn't stay open.
    fn pass_child(
        &self,
        child: &Child<'_>,
        write: &mut dyn FnMut(&RunView<'_>) -> io::Result<()>,
    ) -> io::Result<()> {
        let shown = || (child.run.summary(), child.run.index_once());
        self.pass(child.run, shown, &Vec::new, &mut |view, _| write(view))
    }

    /// Returns the name of a child run.
    fn name(&self, child: &Child<'_>) -> String {
        let key = child.run.key();
        match self.secrets {
            Some(_) => RunKey::new(&without_private(key.as_str()))
                .name()
                .to_owned(),
            None => key.name().to_owned(),
        }
    }
}

/// Turns the last part of the key into a file name that is valid on every system.
fn file_name(key: &RunKey, ending: &str) -> String {
    let safe = |letter: char| {
        if letter.is_ascii_alphanumeric() || "-_".contains(letter) {
            letter
        } else {
            '_'
        }
    };
    format!(
        "{}.{ending}",
        key.name().chars().take(80).map(safe).collect::<String>()
    )
}

/// Options for saving a run.
pub(crate) struct Export<'a> {
    /// The step to open at and how many of its events to show, as in the replay. `None` opens the
    /// verdict.
    cursor: Option<(usize, usize)>,
    /// How much was redacted, if redaction was requested.
    redacted: Option<Blanked>,
    /// The steps to write. `None` writes all.
    only: Option<Range<usize>>,
    /// Reads the picture at a recorded path.
    picture: &'a dyn Fn(&str) -> Option<Vec<u8>>,
    /// How child runs are saved.
    saved: Option<&'a Saved<'a>>,
    /// The child runs to write after the steps.
    children: &'a [Child<'a>],
    /// How many were chosen, and how many there are in all.
    chosen: usize,
    child_count: usize,
}

impl<'a> Export<'a> {
    /// Saves the run as it is. `picture` reads the picture at a recorded path.
    pub(crate) fn whole(
        cursor: Option<(usize, usize)>,
        picture: &'a dyn Fn(&str) -> Option<Vec<u8>>,
    ) -> Self {
        Self {
            cursor,
            redacted: None,
            only: None,
            picture,
            saved: None,
            children: &[],
            chosen: 0,
            child_count: 0,
        }
    }

    /// Saves a copy without secrets. Pictures aren't searched for secrets, so none are saved.
    pub(crate) fn redacted(cursor: Option<(usize, usize)>, blanked: Blanked) -> Self {
        Self {
            cursor,
            redacted: Some(blanked),
            only: None,
            picture: &|_| None,
            saved: None,
            children: &[],
            chosen: 0,
            child_count: 0,
        }
    }
}

impl fmt::Debug for Export<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Export")
            .field("cursor", &self.cursor)
            .finish_non_exhaustive()
    }
}

/// The part of the file before the first step.
#[derive(Template)]
#[template(path = "export/page.html")]
struct ExportHead<'a> {
    /// The nonce of the scripts and styles in this file. A trace's author can't know it.
    nonce: String,
    /// The step and the event of that step that the file opens at.
    cursor: Option<(usize, usize)>,
    /// When and where the run was saved from, and what is omitted.
    notes: Vec<String>,
    head: RunHead<'a>,
    verdict: Verdict<'a>,
    /// The steps of the run. `None` if the file contains only a part of them.
    strip: Option<Strip>,
    scores: Option<ScoresBody<'a>>,
    /// The child runs.
    started: Vec<Phrase>,
    has_transcript: bool,
}

/// The part of the file between the transcript and the first step.
#[derive(Template)]
#[template(path = "export/export_steps.html")]
struct ExportSteps {
    /// The steps in the file.
    steps: Vec<IndexRow>,
}

/// The beginning of the transcript.
#[derive(Template)]
#[template(path = "export/export_transcript.html")]
struct ExportTranscript {
    /// The first step of each turn, and the beginning of its prompt.
    turns: Vec<(usize, Line)>,
}

/// A step in the file, `#step-{n}`.
#[derive(Debug, Clone, Template)]
#[template(path = "export/export_step.html")]
struct ExportStep {
    /// `xstep`, or `xkid` for a step of a child run. The replay has only those of the run itself.
    class: &'static str,
    /// What its id begins with.
    prefix: String,
    step_view: StepView,
    /// The phase classes of its events, in order, separated by spaces.
    phases: String,
    /// The text that replaces the step's sections once the file is full. Empty otherwise.
    left_out: Line,
}

/// Writes the run as a self-contained page.
///
/// # Errors
/// Returns errors of the writer.
pub(crate) fn write_export(
    view: &RunView<'_>,
    export: &Export<'_>,
    out: &mut dyn Write,
) -> io::Result<()> {
    let total = view.index.steps().len();
    let steps = match &export.only {
        Some(only) => only.start.min(total)..only.end.min(total),
        None => 0..total,
    };
    let is_whole = steps == (0..total);
    let has_pending = steps.end == total && view.index.unfinished_group().is_some();
    let links = Links {
        run: href::run(view.key()),
        steps: steps.clone(),
        has_pending,
        prefix: String::new(),
    };
    let nonce = nonce(view);
    let scored = !view.summary.critics.is_empty();
    let children = view.children();
    // The child runs are matched to steps once above, rather than again for each step.
    let alone = RunView {
        related_runs: &Vec::new,
        ..*view
    };
    let page = ExportHead {
        nonce: nonce.clone(),
        cursor: export.cursor.filter(|_| is_whole && total > 0),
        notes: page_notes(view, export),
        head: RunHead {
            acts: false,
            ..RunHead::new(view)
        },
        verdict: Verdict::new(view),
        strip: is_whole.then(|| Strip::new(view, "", None)),
        scores: scored.then(|| ScoresBody::new(view, Query::default())),
        started: started(view, &children),
        has_transcript: view.is_conversation(),
    };
    let mut written = write_head(out, &page, &links)?;
    let mut pictures = 0;
    if page.has_transcript {
        written += write_transcript(view, export, &steps, &links, &mut pictures, out)?;
    }
    let before_steps = ExportSteps {
        steps: index_rows(view, steps.clone()),
    };
    written += write_part(out, &before_steps, &links, &mut |_| Err(String::new()))?;
    for n in steps.clone() {
        let mut step_view = step_view(&alone, n, StepPlace::Alone).unwrap_or_default();
        step_view.started = step::fill::started(&children, n);
        let full = written > MAX_TEXT;
        if !full {
            put_pictures_in(view, &mut step_view, export, &mut pictures);
        }
        let step = ExportStep {
            class: "xstep",
            prefix: String::new(),
            step_view,
            phases: phases(view, n),
            left_out: left_out(view, n, full),
        };
        let redacted = export.redacted.is_some();
        let mut picture = |address: &str| in_value(view, address, redacted, &mut pictures);
        written += write_part(out, &step, &links, &mut picture)?;
    }
    if has_pending {
        write_part(out, &PendingSlot { view }, &links, &mut |_| {
            Err(String::new())
        })?;
    }
    if let Some(saved) = export.saved {
        for (k, child) in (1..).zip(export.children) {
            let left = MAX_TEXT.saturating_sub(written);
            written += write_child(saved, child, k, left, out)?;
        }
    }
    write_end(out, &states(view, &steps), &nonce)
}

/// Writes the transcript of `steps`. Returns the bytes written.
fn write_transcript(
    view: &RunView<'_>,
    export: &Export<'_>,
    steps: &Range<usize>,
    links: &Links,
    pictures: &mut usize,
    out: &mut dyn Write,
) -> io::Result<usize> {
    let redacted = export.redacted.is_some();
    let mut picture = |address: &str| in_value(view, address, redacted, pictures);
    let mut transcript = SavedTranscript::new(view);
    let head = ExportTranscript {
        turns: transcript.turns(steps),
    };
    let mut written = write_part(out, &head, links, &mut picture)?;
    let mut end = steps.start;
    for n in steps.clone() {
        if written > MAX_TRANSCRIPT {
            break;
        }
        // The list of steps explains why a step can't be shown.
        if let Some(step) = transcript.step(n) {
            written += write_html(out, &step, links, &mut picture)?;
        }
        end = n + 1;
    }
    if end < steps.end {
        let left = format::counted(steps.end - end, "more step");
        write!(
            out,
            "<p class=\"dv\"><span>Size limit reached. The transcript omits {left}.</span></p>"
        )?;
    } else if end == view.index.steps().len() {
        written += write_part(out, &transcript.rest(), links, &mut picture)?;
    }
    out.write_all(b"</div>\n")?;
    Ok(written)
}

/// Returns the text that replaces a step's sections if the file is full.
fn left_out(view: &RunView<'_>, n: usize, is_full: bool) -> Line {
    let step = view.index.steps().get(n).filter(|_| is_full);
    let words =
        |call: &str| format!("{call} (size limit reached, the rest of this step is omitted)");
    step.map(|step| words(&step.call))
        .unwrap_or_default()
        .into()
}

/// A child run in the file, `#child-{k}`, before its steps.
#[derive(Template)]
#[template(path = "export/export_child.html")]
struct ExportChild<'a> {
    k: usize,
    name: &'a str,
    /// The verdict, the task and the number of steps. Empty if the run isn't read.
    sentence: &'a str,
    task: &'a str,
    steps: String,
    /// Why the steps aren't in the file, or empty.
    left_out: &'static str,
}

/// Writes a child run as a section, in about `left` bytes. Returns the bytes written.
fn write_child(
    saved: &Saved<'_>,
    child: &Child<'_>,
    k: usize,
    left: usize,
    out: &mut dyn Write,
) -> io::Result<usize> {
    let left_out = match (&child.files, left) {
        (None, _) => AWAY,
        // Otherwise a redacted copy of the run would be made and not used.
        (_, 0) => "Size limit reached, this run is omitted.",
        _ => {
            let mut written = 0;
            saved.pass_child(child, &mut |view| {
                written = write_child_steps(view, k, left, out)?;
                Ok(())
            })?;
            return Ok(written);
        }
    };
    let head = ExportChild {
        k,
        name: &saved.name(child),
        sentence: "",
        task: "",
        steps: String::new(),
        left_out,
    };
    let html = head.render().map_err(io::Error::other)?;
    writeln!(out, "{html}</section>")?;
    Ok(html.len())
}

fn write_child_steps(
    view: &RunView<'_>,
    k: usize,
    left: usize,
    out: &mut dyn Write,
) -> io::Result<usize> {
    let total = view.index.steps().len();
    let links = Links {
        run: href::run(view.key()),
        steps: 0..total,
        has_pending: false,
        prefix: format!("child-{k}-"),
    };
    let mut picture = |_: &str| Err("picture omitted:".to_owned());
    let head = ExportChild {
        k,
        name: view.summary.key.name(),
        sentence: &view.summary.verdict.sentence,
        task: view.summary.task.as_deref().unwrap_or_default(),
        steps: format::counted(total, "step"),
        left_out: "",
    };
    let mut written = write_part(out, &head, &links, &mut picture)?;
    for n in 0..total {
        let mut step_view = step_view(view, n, StepPlace::Alone).unwrap_or_default();
        for asset in &mut step_view.assets {
            asset.href = None;
            asset.note = "omitted: images of child runs".into();
        }
        let step = ExportStep {
            class: "xkid",
            prefix: links.prefix.clone(),
            step_view,
            phases: String::new(),
            left_out: left_out(view, n, written > left),
        };
        written += write_part(out, &step, &links, &mut picture)?;
    }
    out.write_all(b"</section>\n")?;
    Ok(written)
}

/// Writes the run as Markdown, with what the file contains, the list of its steps, and the child
/// runs that are saved with it.
///
/// # Errors
/// Returns errors of the writer.
pub(crate) fn write_markdown(
    view: &RunView<'_>,
    export: &Export<'_>,
    out: &mut dyn Write,
) -> io::Result<()> {
    // Child runs would be searched for again for each step.
    let view = &RunView {
        related_runs: &Vec::new,
        ..*view
    };
    let total = view.index.steps().len();
    let steps = export.only.clone().unwrap_or(0..total);
    let mut notes = notes(view, export);
    // Redacted files have this note already.
    if export.redacted.is_none() {
        notes.push("Images are omitted.".to_owned());
    }
    let rows = index_rows(view, steps.start..steps.end.min(total));
    markdown::write_title(out, view)?;
    markdown::write_about(out, &rows, &notes)?;
    markdown::write_untitled(out, view, export.only.clone())?;
    let Some(saved) = export.saved else {
        return Ok(());
    };
    for (k, child) in (1..).zip(export.children) {
        writeln!(out, "\n---\n\nChild run {k} of {}\n", export.chosen)?;
        match child.files {
            Some(_) => saved.pass_child(child, &mut |view| markdown::write(out, view, None))?,
            None => {
                let name = saved.name(child);
                writeln!(out, "{}: {AWAY}", markdown::escape(&name))?;
            }
        }
    }
    Ok(())
}

/// Lists the child runs: the name, the step if the timestamps show it, and the outcome.
fn started(view: &RunView<'_>, children: &[(Arc<Summary>, Option<usize>)]) -> Vec<Phrase> {
    let row = |(child, step): &(Arc<Summary>, Option<usize>)| {
        let words = Phrase::new().strong(child.key.name());
        let words = match step {
            Some(n) => words
                .text(" · ")
                .link(format!("step {}", view.label(*n)), view.at_step(*n)),
            None => words,
        };
        words.text(format!(" · {}", about(child)))
    };
    children.iter().take(MAX_STARTED).map(row).collect()
}

/// Returns what the page states about itself.
fn page_notes(view: &RunView<'_>, export: &Export<'_>) -> Vec<String> {
    let mut notes = notes(view, export);
    if export.only.is_some() {
        notes.push("The verdict and the scores are those of the whole run.".to_owned());
    }
    notes.push(format!(
        "Also omitted if the file would grow too large: images after the first {}, step details after the first {}.",
        format::bytes(MAX_PICTURES as u64),
        format::bytes(MAX_TEXT as u64)
    ));
    notes
}

/// States which child runs the file contains, if there are any.
fn child_note(view: &RunView<'_>, export: &Export<'_>) -> Option<String> {
    let (all, written) = (export.child_count, export.chosen);
    let counted = |count: usize| format::counted(count, "child run");
    if written > MAX_CHILDREN {
        return Some(format!(
            "This file contains the first {MAX_CHILDREN} of {}, after the steps.",
            counted(written)
        ));
    }
    if written > 0 {
        let words = match all.saturating_sub(written) {
            0 => counted(written),
            _ => format!("{written} of {}", counted(all)),
        };
        let more = "Images and child runs of child runs are omitted.";
        return Some(format!(
            "This file contains {words}, after the steps. {more}"
        ));
    }
    match all {
        // They are known only from the run's own files.
        0 => (export.redacted.is_some() && view.summary.children.is_some_and(|count| count > 0))
            .then(|| "Child runs aren't listed.".to_owned()),
        1 => Some("The steps of 1 child run aren't in this file.".to_owned()),
        all => Some(format!(
            "The steps of {} aren't in this file.",
            counted(all)
        )),
    }
}

/// Returns the notes about the export itself, for all formats that people read.
fn notes(view: &RunView<'_>, export: &Export<'_>) -> Vec<String> {
    let mut notes = vec![format!(
        "Exported by board {} on {} from {}.",
        env!("CARGO_PKG_VERSION"),
        view.exact(view.now),
        view.summary.path
    )];
    if view.is_alive() {
        notes
            .push("The run hadn't ended yet. This file contains its record up to then.".to_owned());
    }
    if let Some(only) = &export.only {
        notes.push(format!(
            "This file contains {} of {}.",
            match only.len() {
                1 => format!("step {}", view.label(only.start)),
                _ => format!(
                    "steps {}–{}",
                    view.label(only.start),
                    view.label(only.end.saturating_sub(1))
                ),
            },
            format::count(view.index.steps().len() as u64)
        ));
    }
    // The prompts of a session are among the messages of its steps.
    notes.push(
        if view.index.format().is_one_file() {
            "Omitted: system prompts that aren't messages, the definitions of tools, and raw lines. Long text is truncated, with its original length."
        } else {
            "Omitted: the messages to the model, observations and raw lines. Long text is truncated, with its original length."
        }
        .to_owned(),
    );
    notes.extend(child_note(view, export));
    if let Some(blanked) = export.redacted {
        let (found, not_sought) = (blanked.found(), blanked.not_sought);
        let values = match found {
            0 => "Redacted: nothing found. The search covers".to_owned(),
            1 => "1 value is redacted:".to_owned(),
            found => format!("{} values are redacted:", format::count(found as u64)),
        };
        notes.push(format!(
            "{values} values of keys that name a secret, in JSON and in text such as key=value, tokens of well-known services, private keys, passwords in addresses, home directories (~), user names in the names of directories, and e-mail addresses. The same text is redacted wherever it occurs if it has at least 8 bytes, or at least 5 as a separate word. Shorter ones, common words and short words without quotes are redacted only next to their keys. Images are omitted. Redaction can miss secrets."
        ));
        if not_sought > 0 {
            notes.push(format!(
                "{} of these values {} redacted only next to keys and may occur elsewhere in this file. The search covers at most {} different values.",
                format::count(not_sought as u64),
                if not_sought == 1 { "is" } else { "are" },
                format::count(MAX_SOUGHT as u64)
            ));
        }
    }
    notes
}

/// Embeds the pictures of a step as data while there is room.
fn put_pictures_in(
    view: &RunView<'_>,
    step_view: &mut StepView,
    export: &Export<'_>,
    spent: &mut usize,
) {
    if step_view.assets.is_empty() {
        return;
    }
    let span = view
        .index
        .steps()
        .get(step_view.n)
        .map(|step| step.span)
        .unwrap_or_default();
    let record = view.lines.record(TraceFile::Steps, span).ok();
    let step = record
        .as_ref()
        .and_then(crate::format::step)
        .unwrap_or_default();
    for asset in &mut step_view.assets {
        // The address in board ends with the picture's index in its list.
        let Some(place) = asset
            .href
            .take()
            .and_then(|href| href.rsplit_once('/')?.1.parse::<usize>().ok())
        else {
            continue;
        };
        let path = step
            .pictures
            .get(place)
            .and_then(|picture| picture.path.as_deref());
        let read = path.and_then(|path| Some((picture_type(path)?, (export.picture)(path)?)));
        match read {
            Some((_, bytes)) if bytes.len() > MAX_PICTURES => {
                asset.note = format!(
                    "omitted: larger than the limit of {} for all images",
                    format::bytes(MAX_PICTURES as u64)
                )
                .into();
            }
            Some((kind, bytes)) if *spent + bytes.len() <= MAX_PICTURES => {
                *spent += bytes.len();
                let data = base64::engine::general_purpose::STANDARD.encode(&bytes);
                asset.href = Some(format!("data:{kind};base64,{data}"));
            }
            Some(_) => {
                asset.note = format!(
                    "omitted: this file already has {} of images",
                    format::bytes(*spent as u64)
                )
                .into()
            }
            None => asset.note = "the image can't be read or is too large".into(),
        }
    }
}

/// Returns the picture in a value as data while there is room. `address` is the value's address on
/// board.
fn in_value(
    view: &RunView<'_>,
    address: &str,
    redacted: bool,
    spent: &mut usize,
) -> Result<String, String> {
    if redacted {
        return Err("picture omitted:".to_owned());
    }
    let read = || {
        let rest = address.strip_prefix(&href::run(view.key()))?;
        let (line, query) = rest.strip_prefix('/')?.split_once("/value?at=")?;
        let (file, n) = line.split_once('/')?;
        let n: usize = n.parse().ok()?;
        let (file, span) = match file {
            "steps" => (TraceFile::Steps, view.index.steps().get(n)?.span),
            _ => (TraceFile::Events, view.index.events().get(n)?.span),
        };
        let at = percent_encoding::percent_decode_str(query.split('&').next()?)
            .decode_utf8()
            .ok()?;
        let record = view.lines.record(file, span).ok()?;
        let json = Json::parse(&record.text)?;
        attachment::of(find(&json, &at)?)?.picture()
    };
    let (kind, bytes) = read().ok_or_else(|| "unreadable picture:".to_owned())?;
    if *spent + bytes.len() > MAX_PICTURES {
        return Err(format!(
            "picture omitted (over {} in total):",
            format::bytes(MAX_PICTURES as u64)
        ));
    }
    *spent += bytes.len();
    Ok(format!(
        "data:{kind};base64,{}",
        base64::engine::general_purpose::STANDARD.encode(&bytes)
    ))
}

/// Returns the phases of step `n`'s events as color classes.
fn phases(view: &RunView<'_>, n: usize) -> String {
    let Some(group) = view.index.round_of(n) else {
        return String::new();
    };
    let events = view.index.events().range(group.first..group.end);
    events
        .map(|event| phase(view.index.name(event.phase)).0)
        .collect::<Vec<_>>()
        .join(" ")
}

/// Returns as JSON, for each step, the keys whose value or writer differs from the step before:
/// `[key, value or null, writer or null, doubt]`.
fn states(view: &RunView<'_>, steps: &Range<usize>) -> String {
    let mut known: BTreeMap<String, (Option<String>, Option<usize>)> = BTreeMap::new();
    let mut out = String::from("[");
    walk(view.index, view.lines, &mut |n, keys| {
        if n < steps.start {
            return true;
        }
        out.push_str(if n == steps.start { "[" } else { ",\n[" });
        let mut first = true;
        for key in keys {
            if known
                .get(&key.key)
                .is_some_and(|(value, written)| *value == key.value && *written == key.written)
            {
                continue;
            }
            known.insert(key.key.clone(), (key.value.clone(), key.written));
            let quote = |text: &str| Json::String(text.into()).to_string();
            let value = key
                .value
                .as_deref()
                .map_or_else(|| "null".to_owned(), |value| quote(&cut(value)));
            let writer = key
                .written
                .map_or_else(|| "null".to_owned(), |step| step.to_string());
            out.push_str(if first { "" } else { "," });
            out.push_str(&format!(
                "[{},{value},{writer},{}]",
                quote(&format::visible_line(&key.key)),
                quote(key.doubt)
            ));
            first = false;
        }
        out.push(']');
        out.len() < MAX_STATES && n + 1 < steps.end
    });
    out.push(']');
    out
}

fn cut(value: &str) -> String {
    match value.len() > MAX_VALUE {
        true => {
            let head = crate::model::names::cut_at(value, MAX_VALUE);
            format!(
                "{}… ({} more)",
                format::visible_line(head),
                format::bytes((value.len() - head.len()) as u64)
            )
        }
        false => format::visible_line(value).into_owned(),
    }
}

/// Returns the nonce for the file. It depends on the microsecond of saving, which no trace can
/// know.
fn nonce(view: &RunView<'_>) -> String {
    let mut hash = DefaultHasher::new();
    (
        view.now,
        view.key(),
        view.index.steps().len(),
        view.index.events().len(),
    )
        .hash(&mut hash);
    view.summary.verdict.sentence.hash(&mut hash);
    format!("{:016x}", hash.finish())
}

/// Renders and writes a part of the file without any addresses of board. Returns the bytes
/// written.
///
/// # Errors
/// Returns errors of the writer and of the template.
fn write_part(
    out: &mut dyn Write,
    part: &impl Template,
    links: &Links,
    picture: &mut PictureAt<'_>,
) -> io::Result<usize> {
    let html = part.render().map_err(io::Error::other)?;
    write_html(out, &html, links, picture)
}

fn write_html(
    out: &mut dyn Write,
    html: &str,
    links: &Links,
    picture: &mut PictureAt<'_>,
) -> io::Result<usize> {
    let html = in_place(&prepared(html, links), &links.run, picture);
    out.write_all(html.as_bytes())?;
    Ok(html.len())
}

fn prepared(html: &str, links: &Links) -> String {
    let html = without(&offline(html, links), " data-value=\"");
    // A page with all steps has too many scrollable sections for them to be landmarks.
    html.replace(" role=\"region\"", " role=\"group\"")
}

/// Writes the part of the file before the first step, including the style sheet. Returns the bytes
/// written.
///
/// # Errors
/// Returns errors of the writer and of the template.
fn write_head(out: &mut dyn Write, head: &ExportHead<'_>, links: &Links) -> io::Result<usize> {
    let html = prepared(&head.render().map_err(io::Error::other)?, links);
    let style = crate::page::assets::find("export.css").map_or("", |asset| asset.text);
    // Text from traces is escaped, so the first `</head>` is the page's own.
    let (before, after) = html.split_once("</head>").unwrap_or((&html, ""));
    write!(
        out,
        "{before}<style nonce=\"{}\">{style}</style>\n</head>{after}",
        head.nonce
    )?;
    Ok(html.len() + style.len())
}

/// Writes the end of the file: the states as data, and the script.
///
/// # Errors
/// Returns errors of the writer.
fn write_end(out: &mut dyn Write, states: &str, nonce: &str) -> io::Result<()> {
    // In a script element, only `<` can start an end tag.
    let states = states.replace('<', "\\u003c");
    write!(
        out,
        "{BAR}</main>\n<script type=\"application/json\" id=\"states\">{states}</script>\n\
         <script type=\"module\" nonce=\"{nonce}\">{SCRIPT}</script>\n</body>\n</html>\n"
    )
}

/// Returns the data URL of the picture at an address of board, or the reason it isn't in the
/// file.
type PictureAt<'r> = dyn FnMut(&str) -> Result<String, String> + 'r;

/// Embeds the pictures found in this run's values, because the file can't request them from the
/// board.
fn in_place(html: &str, run: &str, picture: &mut PictureAt<'_>) -> String {
    const IMAGE: &str = "<img src=\"";
    let mut out = String::with_capacity(html.len());
    let mut rest = html;
    while let Some((before, found)) = rest.split_once(IMAGE) {
        out.push_str(before);
        let (address, after) = found.split_once('"').unwrap_or((found, ""));
        if address.starts_with(run) {
            match picture(&address.replace("&#38;", "&")) {
                Ok(data) => out.push_str(&format!("{IMAGE}{data}\"")),
                Err(why) => {
                    out.push_str(&format!("<span class=\"odd\">{why}</span> "));
                    rest = after.split_once('>').map_or("", |(_, after)| after);
                    continue;
                }
            }
        } else {
            out.push_str(&format!("{IMAGE}{address}\""));
        }
        rest = after;
    }
    out.push_str(rest);
    out
}

/// What links in the file can lead to.
struct Links {
    /// The address of the run in board.
    run: String,
    /// The steps in the file.
    steps: Range<usize>,
    /// Whether the step that never finished is in the file.
    has_pending: bool,
    /// What the ids of the steps begin with.
    prefix: String,
}

impl Links {
    /// Returns the address within the file for one in board. `None` if the file doesn't contain
    /// the target.
    fn within(&self, address: &str) -> Option<String> {
        let rest = match address.starts_with('#') {
            true => address,
            false => address.strip_prefix(&self.run)?,
        };
        let step = ["?step=", "/steps/", "#step-"]
            .iter()
            .find_map(|start| rest.strip_prefix(start)?.parse::<usize>().ok());
        match step {
            Some(step) => {
                let id = || format!("#{}step-{step}", self.prefix);
                self.steps.contains(&step).then(id)
            }
            None if rest == "#pending" => self.has_pending.then(|| rest.to_owned()),
            None => address.starts_with('#').then(|| address.to_owned()),
        }
    }
}

/// Turns links to this run's steps into links within the file, keeps fragment links, and removes
/// all others.
fn offline(html: &str, links: &Links) -> String {
    const ATTRIBUTE: &str = " href=\"";
    let mut out = String::with_capacity(html.len());
    let mut rest = html;
    while let Some(at) = rest.find(ATTRIBUTE) {
        let (before, found) = rest.split_at(at);
        let value = found.get(ATTRIBUTE.len()..).unwrap_or_default();
        let (value, after) = value.split_once('"').unwrap_or((value, ""));
        out.push_str(before);
        if let Some(value) = links.within(value) {
            out.push_str(&format!("{ATTRIBUTE}{value}\""));
        }
        rest = after;
    }
    out.push_str(rest);
    out
}

/// Removes an attribute and its value.
fn without(html: &str, attribute: &str) -> String {
    let mut parts = html.split(attribute);
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |all, part| {
        all + part.split_once('"').map_or("", |(_, after)| after)
    })
}

/// Returns the media type of a picture by its file name. Supports raster formats only, because an
/// SVG can contain scripts.
pub(super) fn picture_type(name: &str) -> Option<&'static str> {
    match name.rsplit_once('.')?.1.to_ascii_lowercase().as_str() {
        "png" => Some("image/png"),
        "jpg" | "jpeg" => Some("image/jpeg"),
        "gif" => Some("image/gif"),
        "webp" => Some("image/webp"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use crate::page::export::*;

    fn links(steps: Range<usize>) -> Links {
        Links {
            run: href::run("a/b"),
            steps,
            has_pending: true,
            prefix: String::new(),
        }
    }

    #[test]
    fn links_stay_inside_the_file_or_lead_nowhere() {
        let html = r##"<a href="/runs/a%2Fb?step=4">x</a> <a class="b" href="/runs/a%2Fb/steps/12">y</a> <a href="/runs/a%2Fb/steps/12/raw">w</a> <a href="/api/x" rel="next">z</a> <use href="#i-ok"></use>"##;
        assert_eq!(
            offline(html, &links(0..20)),
            r##"<a href="#step-4">x</a> <a class="b" href="#step-12">y</a> <a>w</a> <a rel="next">z</a> <use href="#i-ok"></use>"##
        );
        assert_eq!(
            offline("<a href=\"/runs/other?step=4\">x</a>", &links(0..20)),
            "<a>x</a>"
        );
        assert_eq!(
            offline("<a href=\"/runs/a%2Fb#pending\">x</a>", &links(0..20)),
            "<a href=\"#pending\">x</a>"
        );
    }

    #[test]
    fn links_to_steps_that_arent_in_the_file_become_text() {
        let html = r##"<a href="/runs/a%2Fb?step=4">x</a> <a href="/runs/a%2Fb/steps/12">y</a> <a href="#step-5">z</a> <a href="/runs/a%2Fb#pending">p</a>"##;
        let part = Links {
            has_pending: false,
            ..links(12..13)
        };
        assert_eq!(
            offline(html, &part),
            r##"<a>x</a> <a href="#step-12">y</a> <a>z</a> <a>p</a>"##
        );
    }

    #[test]
    fn an_attribute_that_leads_to_the_board_goes() {
        let html =
            r#"<q data-value="/runs/a/steps/0/value?at=">x</q><code data-value="/y">z</code>"#;
        assert_eq!(without(html, " data-value=\""), "<q>x</q><code>z</code>");
    }

    #[test]
    fn pictures_in_values_stand_in_the_file_or_are_named() {
        let html = r#"<a href="/x"><img src="/runs/a%2Fb/steps/4/value?at=%2Fx&#38;as=picture" alt="A" loading="lazy"></a> <img src="data:image/png;base64,AA" alt="B">"#;
        let mut asked = Vec::new();
        let mut picture = |address: &str| {
            asked.push(address.to_owned());
            Ok("data:image/png;base64,BB".to_owned())
        };
        let placed = in_place(html, &href::run("a/b"), &mut picture);
        assert_eq!(
            placed,
            r#"<a href="/x"><img src="data:image/png;base64,BB" alt="A" loading="lazy"></a> <img src="data:image/png;base64,AA" alt="B">"#
        );
        assert_eq!(asked, ["/runs/a%2Fb/steps/4/value?at=%2Fx&as=picture"]);
        let named = in_place(html, &href::run("a/b"), &mut |_| Err("omitted".to_owned()));
        assert_eq!(
            named,
            r#"<a href="/x"><span class="odd">omitted</span> </a> <img src="data:image/png;base64,AA" alt="B">"#
        );
    }

    #[test]
    fn a_child_run_says_which_steps_had_no_room() {
        let line = |n: usize| format!("{{\"step_id\": {n}}}");
        let run = crate::page::tests::Recorded::steps((0..5).map(line));
        let written = |left: usize| {
            let mut out = Vec::new();
            let count = write_child_steps(&run.view(), 2, left, &mut out).unwrap();
            let html = String::from_utf8(out).unwrap();
            assert_eq!(count + "</section>\n".len(), html.len());
            assert!(html.contains("id=\"child-2\"") && !html.contains("xstep"));
            for n in 0..5 {
                let id = format!("<section class=\"xkid stepview\" id=\"child-2-step-{n}\"");
                assert_eq!(html.matches(&id).count(), 1, "{html}");
            }
            let omitted = html.matches("the rest of this step is omitted").count();
            let written = html.matches("<h4>Decision</h4>").count();
            assert_eq!(written + omitted, 5, "{html}");
            (omitted, count)
        };
        let (omitted, whole) = written(MAX_TEXT);
        assert_eq!(omitted, 0);
        assert_eq!(written(1).0, 5);
        assert!((1..5).contains(&written(whole / 2).0));
    }

    #[test]
    fn data_cannot_leave_its_element() {
        let mut out = Vec::new();
        write_end(&mut out, "[\"</script><img>\"]", "n").unwrap();
        let html = String::from_utf8(out).unwrap();
        assert!(html.contains(r#"["\u003c/script>\u003cimg>"]"#), "{html}");
    }
}
