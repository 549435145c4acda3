//! Serves one line of a file or the manifest, raw or as a page of one value, and the pictures that
//! a step refers to.

use std::sync::Arc;

use axum::extract::State;
use axum::http::header::{CONTENT_DISPOSITION, CONTENT_TYPE};
use axum::response::IntoResponse;

use crate::live::Run;
use crate::model::json::Json;
use crate::model::{Lines as _, MAX_LINE_BYTES, Record, Span, TraceFile};
use crate::page::answer::html;
use crate::page::app::AppState;
use crate::page::blocking::blocking;
use crate::page::error::{Answer, WebError};
use crate::page::export::picture_type;
use crate::page::extract::{EventParam, LastPart, RunParam, StepParam};
use crate::page::params::Params;
use crate::page::part::fold::ValueLinks;
use crate::page::part::json_tree::find;
use crate::page::part::{attachment, href};
use crate::page::run::handler::shell;
use crate::page::shell::Shell;
use crate::page::step::ValuePage;
use crate::page::step::fill::value_of;

struct Source {
    run: Arc<Run>,
    file: TraceFile,
    /// `None` means the manifest.
    span: Option<Span>,
    links: ValueLinks,
    name: String,
}

impl Source {
    fn step(run: Arc<Run>, n: usize) -> Self {
        let span = run.index().steps().get(n).map(|step| step.span);
        let links = ValueLinks::below(&href::step(run.key().as_str(), n));
        Self {
            run,
            file: TraceFile::Steps,
            span,
            links,
            name: format!("step-{n}.json"),
        }
    }

    fn event(run: Arc<Run>, n: usize) -> Self {
        let span = run.index().events().get(n).map(|event| event.span);
        let links = ValueLinks::below(&href::event(run.key().as_str(), n));
        Self {
            run,
            file: TraceFile::Events,
            span,
            links,
            name: format!("event-{n}.json"),
        }
    }

    fn manifest(run: Arc<Run>) -> Self {
        let links = ValueLinks::below(&href::manifest(run.key().as_str()));
        let name = run.manifest_name();
        Self {
            run,
            file: TraceFile::Manifest,
            span: None,
            links,
            name,
        }
    }

    fn read(&self) -> Result<Vec<u8>, WebError> {
        let read = match self.span {
            Some(span) => self.run.line(self.file, span),
            None => self.run.manifest(),
        };
        read.map_err(|why| self.unreadable(&why))
    }

    fn unreadable(&self, why: &str) -> WebError {
        let error = WebError::not_found("Can't read", &format!("Reason: {why}."));
        error
            .named(self.file.name())
            .link("Open the run", href::run(self.run.key().as_str()))
    }

    /// Streams the raw bytes, however many.
    async fn raw(self, state: AppState) -> Answer {
        let name = format!("inline; filename=\"{}\"", self.name);
        if self.file == TraceFile::Steps && self.run.dir().tool().is_some() {
            // In formats of other tools, a step isn't one line that could be copied.
            let line = blocking(move || self.read()).await.flatten()?;
            let kind = "text/plain; charset=utf-8".to_owned();
            return Ok(([(CONTENT_TYPE, kind), (CONTENT_DISPOSITION, name)], line).into_response());
        }
        let opened = blocking(move || {
            let opened = self.run.dir().open_span(self.file, self.span);
            opened.map_err(|error| self.unreadable(&error.to_string()))
        });
        let (mut pieces, len) = opened.await.flatten()?;
        let body = crate::page::download::body(&state, move |out| {
            let written = std::io::copy(&mut pieces, out)?;
            // A truncated response must not look complete.
            if written == len {
                Ok(())
            } else {
                Err(std::io::ErrorKind::UnexpectedEof.into())
            }
        });
        let kind = "text/plain; charset=utf-8".to_owned();
        Ok((
            [(CONTENT_TYPE, kind), (CONTENT_DISPOSITION, name)],
            body.await?,
        )
            .into_response())
    }

    /// Serves the picture at a pointer in the line, if its bytes are those of a picture.
    async fn picture(self, params: Params) -> Answer {
        let read = blocking(move || {
            let at = params.text("at");
            let missing =
                || WebError::not_found("No image at", "The record has no image there.").named(at);
            if self.span.is_some_and(|span| span.len > MAX_LINE_BYTES) {
                return Err(missing());
            }
            let record = Record::read(self.read()?);
            let json = Json::parse(&record.text).ok_or_else(missing)?;
            let inside = find(&json, at)
                .and_then(attachment::of)
                .ok_or_else(missing)?;
            let (kind, bytes) = inside.picture().ok_or_else(missing)?;
            Ok(([(CONTENT_TYPE, kind)], bytes).into_response())
        });
        read.await.flatten()
    }

    /// Serves the value at a pointer in the line: the text of a string, or anything else as JSON.
    async fn text(self, params: Params) -> Answer {
        let read = blocking(move || {
            let at = params.text("at");
            let missing =
                || WebError::not_found("No value at", "The record has no value there.").named(at);
            if self.span.is_some_and(|span| span.len > MAX_LINE_BYTES) {
                return Err(missing());
            }
            let record = Record::read(self.read()?);
            let json = Json::parse(&record.text).ok_or_else(missing)?;
            let text = match find(&json, at).ok_or_else(missing)? {
                Json::String(text) => text.to_string(),
                other => other.to_string(),
            };
            Ok(([(CONTENT_TYPE, "text/plain; charset=utf-8")], text).into_response())
        });
        read.await.flatten()
    }

    async fn value(self, state: AppState, params: Params) -> Answer {
        match params.text("as") {
            "picture" => return self.picture(params).await,
            "text" => return self.text(params).await,
            _ => {}
        }
        let part = params.number("part")?.unwrap_or(1);
        let shell = Shell {
            stream: None,
            ..shell(&state, &self.run)
        };
        let shown = blocking(move || {
            let at = params.text("at");
            let whole = |error: WebError| error.link("Raw line", self.links.raw.clone());
            if self.span.is_some_and(|span| span.len > MAX_LINE_BYTES) {
                let error = WebError::not_found(
                    "Too large to parse:",
                    "The line is longer than board parses. Open the raw line instead.",
                );
                return Err(whole(error.named(&self.name)));
            }
            let Some(value) = value_of(&self.read()?, at, part, self.links.clone()) else {
                let error = WebError::not_found(
                    "No value at",
                    "The record has no value there, or the value has no such part.",
                );
                return Err(whole(error.named(at)));
            };
            let key = self.run.key().as_str();
            let title = if at.is_empty() {
                self.name
            } else {
                format!("{at} of {}", self.name)
            };
            let shell = Shell {
                title: format!("{key}: {title}"),
                ..shell
            };
            html(&ValuePage {
                shell,
                key,
                title: title.into(),
                value,
                raw: self.links.raw,
            })
        });
        shown.await.flatten()
    }
}

/// `GET /runs/{key}/steps/{n}/raw`
pub(crate) async fn step_raw(
    State(state): State<AppState>,
    StepParam(run, n): StepParam,
) -> Answer {
    Source::step(run, n).raw(state).await
}

/// `GET /runs/{key}/steps/{n}/value`
pub(crate) async fn step_value(
    State(state): State<AppState>,
    StepParam(run, n): StepParam,
    params: Params,
) -> Answer {
    Source::step(run, n).value(state, params).await
}

/// `GET /runs/{key}/events/{n}/raw`
pub(crate) async fn event_raw(
    State(state): State<AppState>,
    EventParam(run, n): EventParam,
) -> Answer {
    Source::event(run, n).raw(state).await
}

/// `GET /runs/{key}/events/{n}/value`
pub(crate) async fn event_value(
    State(state): State<AppState>,
    EventParam(run, n): EventParam,
    params: Params,
) -> Answer {
    Source::event(run, n).value(state, params).await
}

/// `GET /runs/{key}/manifest/raw`
pub(crate) async fn manifest_raw(State(state): State<AppState>, RunParam(run): RunParam) -> Answer {
    Source::manifest(run).raw(state).await
}

/// `GET /runs/{key}/manifest/value`
pub(crate) async fn manifest_value(
    State(state): State<AppState>,
    RunParam(run): RunParam,
    params: Params,
) -> Answer {
    Source::manifest(run).value(state, params).await
}

/// `GET /runs/{key}/steps/{n}/assets/{asset}`: serves the picture at that index of the step's
/// pictures, if the run's directory has it.
pub(crate) async fn asset(StepParam(run, n): StepParam, LastPart(which): LastPart) -> Answer {
    let read = blocking(move || {
        let source = Source::step(Arc::clone(&run), n);
        let record = Record::read(source.read()?);
        let step = crate::format::step(&record).unwrap_or_default();
        let picture = which
            .parse::<usize>()
            .ok()
            .and_then(|at| step.pictures.get(at));
        let path = picture.and_then(|picture| picture.path.as_deref());
        let missing = |why: &str| WebError::not_found("No such image:", why).named(&which);
        let path = path.ok_or_else(|| missing("The step has no image with this number."))?;
        let (path, bytes) = run
            .dir()
            .read_asset(path)
            .map_err(|error| missing(&format!("Reason: {error}.")))?;
        let mime = path
            .to_str()
            .and_then(picture_type)
            .ok_or_else(|| missing("The file name isn't that of an image."))?;
        Ok(([(CONTENT_TYPE, mime)], bytes).into_response())
    });
    read.await.flatten()
}
