//! The pages and parts of one run. Each handler: name the thing, take the index, fill a struct, render.

use std::sync::Arc;

use askama::Template;
use axum::extract::State;
use axum::http::header::{CONTENT_DISPOSITION, CONTENT_TYPE};
use axum::http::{HeaderName, StatusCode};
use axum::response::{Html, IntoResponse, Response};

use crate::live::Run;
use crate::model::{Lines as _, MAX_LINE_BYTES, Record, Span, TraceFile};
use crate::page::app::AppState;
use crate::page::blocking::blocking;
use crate::page::error::WebError;
use crate::page::export::picture_type;
use crate::page::extract::{EventParam, LastPart, Params, RunParam, StepParam};
use crate::page::lens::Lens;
use crate::page::part::fold::ValueLinks;
use crate::page::part::href;
use crate::page::part::sign::Link;
use crate::page::run::events::EventsQuery;
use crate::page::run::steps::{Window, next_mark, rows, rows_at, steps_tab};
use crate::page::run::{Content, RunPage, RunPulse};
use crate::page::runs::handler::{now, shown_roots};
use crate::page::shell::{Place, Pulse, Shell};
use crate::page::step::fill::{StepPlace, step_view};
use crate::page::step::{StepFragment, StepPage, ValuePage};

/// Runs `show` off the async threads on the run's index as it is now, and turns what it makes into an answer.
pub(crate) async fn with_lens<T: Send + 'static>(
    state: &AppState,
    run: &Arc<Run>,
    show: impl FnOnce(&Lens<'_>) -> T + Send + 'static,
) -> Result<T, WebError> {
    let (run, zone) = (Arc::clone(run), state.zone.clone());
    let shown = blocking(move || {
        let summary = run.summary();
        let index = run.index();
        show(&Lens { summary: &summary, index: &index, lines: &*run, now: now(), zone: &zone })
    });
    shown.await
}

pub(crate) fn html(page: &impl Template) -> Result<Response, WebError> {
    page.render().map(|html| Html(html).into_response()).map_err(|error| WebError::fault(&error))
}

pub(crate) fn answer(state: &AppState, result: Result<Response, WebError>) -> Response {
    result.unwrap_or_else(|error| error.respond(state, false))
}

pub(crate) fn shell(state: &AppState, run: &Run, title: String) -> Shell {
    let ended = !run.summary().life.liveness.may_grow();
    Shell {
        title,
        root: shown_roots(state),
        stream: Some(format!("{}/events", href::run(run.key().as_str()))),
        revision: run.revision_now(),
        boot: state.boot.to_string(),
        ended,
        place: Place::Run,
    }
}

pub(crate) fn crumb() -> Vec<Link> {
    vec![Link::new("Runs", "/")]
}

/// The answer to a pulse that nothing can be put into: the page loads itself again.
pub(crate) fn load_again() -> Response {
    [(HeaderName::from_static("hx-refresh"), "true")].into_response()
}

/// Whether the run has ended, for the address of the next pulse, so that its end is told once.
pub(crate) fn ended(lens: &Lens<'_>) -> &'static str {
    if lens.summary.life.liveness.may_grow() { "" } else { "1" }
}

/// What is said where the run ended since the pulse whose address holds `told`.
pub(crate) fn run_ended(lens: &Lens<'_>, told: &str) -> Option<String> {
    (told != "1" && !ended(lens).is_empty()).then(|| format!("Run ended: {}", lens.summary.verdict.sentence))
}

/// `GET /runs/{key}`
pub(crate) async fn page(State(state): State<AppState>, RunParam(run): RunParam, params: Params) -> Response {
    answer(&state, run_page(&state, &run, &params).await)
}

async fn run_page(state: &AppState, run: &Arc<Run>, params: &Params) -> Result<Response, WebError> {
    let (step, before, after) = (params.number("step")?, params.number("before")?, params.number("after")?);
    let total = run.index().steps().len();
    if let Some(n) = step.filter(|n| *n >= total.max(1)) {
        let error =
            WebError::not_found("This run has no step", &crate::page::extract::has_steps(total)).named(&n.to_string());
        return Err(error.link("The run", href::run(run.key().as_str())));
    }
    // The form of the events tab sends only what it filters by.
    let tab = if params.has("phase") { "events" } else { params.text("tab") }.to_owned();
    if !matches!(tab.as_str(), "" | "state" | "events" | "manifest" | "issues") {
        let error = WebError::not_found("A run page has no tab", "It has steps, state, events, manifest and issues.")
            .named(&tab);
        return Err(error.link("The run", href::run(run.key().as_str())));
    }
    let shown = Shown::of(tab, params);
    let shell = shell(state, run, String::new());
    let html_page = with_lens(state, run, move |lens| {
        let part = part_title(lens, &shown.tab, step);
        let alive = lens.summary.life.liveness.may_grow();
        let total = lens.index.steps().len();
        let mut at_end = after.is_none();
        let mut held = None;
        let content = match shown.tab.as_str() {
            "state" => {
                at_end = step.is_none();
                let n = step.or(total.checked_sub(1));
                Content::State(n.and_then(|n| crate::page::state::fill::state_tab(lens, n, &shown.key)).map(Box::new))
            }
            "events" => Content::Events(crate::page::run::events::events_tab(
                lens,
                &EventsQuery { phase: shown.phase.clone(), after },
            )),
            "manifest" => Content::Manifest(crate::page::run::files::manifest_tab(lens)),
            "issues" => Content::Issues(crate::page::run::files::issues_tab(lens, after.unwrap_or_default())),
            _ => {
                let window = Window::new(total, step, before);
                held = Some(window);
                let n = step.or(window.end.checked_sub(1));
                let selected = n.and_then(|n| Some((n, step_view(lens, n, StepPlace::List)?)));
                let follow = alive.then_some(step.is_none() && before.is_none());
                Content::Steps(Box::new(steps_tab(lens, window, selected, follow)))
            }
        };
        RunPage {
            pulse: Some(pulse_from(lens, shell.revision, &shown, at_end.then_some(total), held)),
            shell: Shell { title: crate::page::run::head::content_title(lens, &part), ..shell },
            crumb: crumb(),
            head: if shown.tab == "state" {
                crate::page::run::head::head_with_verdict(lens)
            } else {
                crate::page::run::head::head(lens)
            },
            verdict: crate::page::run::verdict::verdict(lens),
            tabs: crate::page::run::head::tabs(lens, &shown.tab),
            content,
        }
    })
    .await?;
    html(&html_page)
}

/// What a reader chose to see of a run, for the title of the page.
fn part_title(lens: &Lens<'_>, tab: &str, step: Option<usize>) -> String {
    match (tab, step) {
        ("events", _) => "Events".to_owned(),
        ("manifest", _) => "Manifest".to_owned(),
        ("issues", _) => "Issues".to_owned(),
        ("state", Some(n)) => format!("State after step {}", lens.label(n)),
        ("state", None) => "State".to_owned(),
        (_, Some(n)) => format!("Step {}", lens.label(n)),
        (_, None) => String::new(),
    }
}

/// Which part of a run a page shows below its tabs.
struct Shown {
    tab: String,
    /// The events tab shows only this phase.
    phase: String,
    /// The state tab shows the history of this key.
    key: String,
}

impl Shown {
    fn of(tab: String, params: &Params) -> Self {
        Self { tab, phase: params.text("phase").to_owned(), key: params.text("key").to_owned() }
    }
}

/// The pulse of a page that knows of the steps before `steps`, and holds the rows of a window of them. Without `steps`
/// nothing below the tabs is sent, because the page shows something that does not change.
fn pulse_from(lens: &Lens<'_>, revision: u64, shown: &Shown, steps: Option<usize>, held: Option<Window>) -> Pulse {
    let base = format!("{}/live", href::run(lens.summary.key.as_str()));
    let steps = steps.map(|steps| steps.to_string()).unwrap_or_default();
    let since = revision.to_string();
    let rows = held.map(|Window { first, end }| format!("{first}-{end}")).unwrap_or_default();
    let query = [
        ("tab", &*shown.tab),
        ("phase", &shown.phase),
        ("key", &shown.key),
        ("steps", &steps),
        ("rows", &rows),
        ("ended", ended(lens)),
        ("since", &since),
    ];
    Pulse { url: href::with_query(&base, &query), revision, count: 0, noun: "step", say: None }
}

/// `GET /runs/{key}/live`
pub(crate) async fn pulse(State(state): State<AppState>, run: Result<RunParam, WebError>, params: Params) -> Response {
    match (run, params.has("awaited")) {
        (Ok(RunParam(run)), false) => answer(&state, run_pulse(&state, &run, &params).await),
        (Ok(_), true) => load_again(),
        (Err(_), true) => StatusCode::NO_CONTENT.into_response(),
        // The run went away while somebody looked at it; its page says so when it is loaded again.
        (Err(_), false) => load_again(),
    }
}

async fn run_pulse(state: &AppState, run: &Arc<Run>, params: &Params) -> Result<Response, WebError> {
    let known = params.number("steps")?;
    let read = params.number("shown")?;
    let held = Window::parse(params.text("rows"));
    let follow = params.text("follow") == "1";
    let shown = Shown::of(params.text("tab").to_owned(), params);
    // Taken before the index is read: what comes in between is asked for once more.
    let revision = run.revision_now();
    let told = params.text("ended").to_owned();
    let pulse = with_lens(state, run, move |lens| {
        let total = lens.index.steps().len();
        let held = held.map(|held| held.grown(known.unwrap_or_default(), total, follow));
        let mut pulse = RunPulse {
            pulse: pulse_from(lens, revision, &shown, known.map(|_| total), held),
            title: Some(
                crate::page::run::head::content_title(lens, &part_title(lens, &shown.tab, read.filter(|_| !follow)))
                    .into(),
            ),
            head: Some(if shown.tab == "state" {
                crate::page::run::head::head_with_verdict(lens)
            } else {
                crate::page::run::head::head(lens)
            }),
            verdict: (shown.tab != "state").then(|| crate::page::run::verdict::verdict(lens)),
            tabs: Some(crate::page::run::head::tabs(lens, &shown.tab)),
            ..RunPulse::default()
        };
        if known.is_some() && shown.tab == "events" {
            let query = EventsQuery { phase: shown.phase.clone(), after: None };
            pulse.events = Some(crate::page::run::events::events_tab(lens, &query));
        }
        if known.is_some_and(|known| known < total) && shown.tab == "state" {
            pulse.state = crate::page::state::fill::state_tab(lens, total - 1, &shown.key).map(Box::new);
        }
        if let Some(known) = known.filter(|_| shown.tab.is_empty()) {
            pulse.pending = Some(crate::page::run::pending::pending_slot(lens));
            pulse.end = Some(crate::page::run::steps::end_slot(lens));
            pulse.pulse.count = total.saturating_sub(known);
            let newest = total.checked_sub(1).filter(|_| follow && total > known);
            pulse.rows = held.map(|held| rows(lens, held, newest.or(read)));
            // The last step the page knew may have been provisional, or got its events only now.
            let changed = newest.or(read.filter(|_| read == known.checked_sub(1)));
            pulse.selected = changed.and_then(|n| step_view(lens, n, StepPlace::List));
        }
        pulse.pulse.say = run_ended(lens, &told);
        pulse
    })
    .await?;
    html(&pulse)
}

/// `GET /runs/{key}/steps/{n}`
pub(crate) async fn step(State(state): State<AppState>, StepParam(run, n): StepParam) -> Response {
    let shell = shell(&state, &run, String::new());
    let shown = with_lens(&state, &run, move |lens| {
        let view = step_view(lens, n, StepPlace::Alone)?;
        let name = lens.summary.key.as_str();
        Some(StepPage {
            // The step is written; the page of one step needs no news.
            shell: Shell { title: format!("{name}: {}", view.title.as_str()), stream: None, ..shell },
            crumb: [crumb(), vec![Link::new(name, href::run_at(name, n))]].concat(),
            run: name.into(),
            view,
        })
    });
    let shown = shown.await.and_then(|page| page.ok_or_else(gone));
    answer(&state, shown.and_then(|page| html(&page)))
}

/// `GET /runs/{key}/steps/{n}/part`; with `to=mark` it is the next step after `n` that has a mark.
pub(crate) async fn step_part(State(state): State<AppState>, StepParam(run, n): StepParam, params: Params) -> Response {
    let to_mark = params.text("to") == "mark";
    let part = with_lens(&state, &run, move |lens| {
        let n = if to_mark { next_mark(lens, n).unwrap_or(n) } else { n };
        let view = step_view(lens, n, StepPlace::List)?;
        let title = crate::page::run::head::content_title(lens, view.title.as_str()).into();
        Some((StepFragment { title, view }, lens.at_step(n)))
    });
    let part = part.await.and_then(|part| part.ok_or_else(gone)).and_then(|(part, address)| {
        let part = html(&part)?;
        Ok(if to_mark { ([("hx-push-url", address)], part).into_response() } else { part })
    });
    answer(&state, part)
}

/// `GET /runs/{key}/steps/part`: the rows around a line of the list, or around a step.
pub(crate) async fn rows_part(State(state): State<AppState>, RunParam(run): RunParam, params: Params) -> Response {
    let part = async {
        let (line, step) = (params.number("line")?, params.number("step")?);
        let read = params.number("shown")?;
        let part = with_lens(&state, &run, move |lens| match step {
            Some(n) => rows(lens, Window::around(n, lens.index.steps().len()), read),
            None => rows_at(lens, line.unwrap_or_default(), read),
        });
        html(&part.await?)
    };
    answer(&state, part.await)
}

fn gone() -> WebError {
    WebError::not_found("This step is not there any more", "The files changed while the page was made.")
}

/// One line of a file, or the manifest.
struct Source {
    run: Arc<Run>,
    file: TraceFile,
    /// `None` for the manifest.
    span: Option<Span>,
    /// The address of its `value` and `raw`.
    base: String,
    name: String,
}

impl Source {
    fn step(run: Arc<Run>, n: usize) -> Self {
        let span = run.index().steps().get(n).map(|step| step.span);
        let base = href::step(run.key().as_str(), n);
        Self { run, file: TraceFile::Steps, span, base, name: format!("step-{n}.json") }
    }

    fn event(run: Arc<Run>, n: usize) -> Self {
        let span = run.index().events().get(n).map(|event| event.span);
        let base = format!("{}/events/{n}", href::run(run.key().as_str()));
        Self { run, file: TraceFile::Events, span, base, name: format!("event-{n}.json") }
    }

    fn manifest(run: Arc<Run>) -> Self {
        let base = format!("{}/manifest", href::run(run.key().as_str()));
        Self { run, file: TraceFile::Manifest, span: None, base, name: "manifest.json".to_owned() }
    }

    fn read(&self) -> Result<Vec<u8>, WebError> {
        let read = match self.span {
            Some(span) => self.run.line(self.file, span),
            None => self.run.manifest(),
        };
        read.map_err(|why| {
            let error = WebError::not_found("This cannot be read now", &format!("The system says: {why}."))
                .named(self.file.name());
            error.link("The run", href::run(self.run.key().as_str()))
        })
    }

    async fn raw(self, state: AppState) -> Response {
        let read = blocking(move || {
            let bytes = match self.span {
                // A manifest that is too large for a page can still be had.
                None => self.run.whole_manifest().ok().flatten().map_or_else(|| self.read(), Ok)?,
                Some(_) => self.read()?,
            };
            let name = format!("inline; filename=\"{}\"", self.name);
            Ok(([(CONTENT_TYPE, "text/plain; charset=utf-8".to_owned()), (CONTENT_DISPOSITION, name)], bytes)
                .into_response())
        });
        answer(&state, read.await.flatten())
    }

    async fn value(self, state: AppState, params: Params) -> Response {
        let (at, part) = (params.text("at").to_owned(), params.number("part"));
        let shell = Shell { stream: None, ..shell(&state, &self.run, String::new()) };
        let shown = blocking(move || {
            let part = part?.unwrap_or(1);
            let links = ValueLinks { value: format!("{}/value", self.base), raw: format!("{}/raw", self.base) };
            if self.span.is_some_and(|span| span.len > MAX_LINE_BYTES) {
                let detail = "It has more bytes than the board parses.";
                let error = WebError::not_found("This line is not taken apart", detail).named(&self.name);
                return Err(error.link("The whole line", format!("{}/raw", self.base)));
            }
            let bytes = self.read()?;
            let value = crate::page::step::fill::value_of(&bytes, &at, part, links).ok_or_else(|| {
                let error =
                    WebError::not_found("There is no value at", "The line has none there, or no such part.").named(&at);
                error.link("The whole line", format!("{}/raw", self.base))
            })?;
            let key = self.run.key().as_str().to_owned();
            let title = if at.is_empty() { self.name.clone() } else { format!("{at} of {}", self.name) };
            html(&ValuePage {
                shell: Shell { title: format!("{key}: {title}"), ..shell },
                crumb: [crumb(), vec![Link::new(key.as_str(), href::run(&key))]].concat(),
                title: title.into(),
                value,
                raw: Some(format!("{}/raw", self.base)),
            })
        });
        answer(&state, shown.await.flatten())
    }
}

/// `GET /runs/{key}/steps/{n}/raw`
pub(crate) async fn step_raw(State(state): State<AppState>, StepParam(run, n): StepParam) -> Response {
    Source::step(run, n).raw(state).await
}

/// `GET /runs/{key}/steps/{n}/value`
pub(crate) async fn step_value(
    State(state): State<AppState>,
    StepParam(run, n): StepParam,
    params: Params,
) -> Response {
    Source::step(run, n).value(state, params).await
}

/// `GET /runs/{key}/events/{n}/raw`
pub(crate) async fn event_raw(State(state): State<AppState>, EventParam(run, n): EventParam) -> Response {
    Source::event(run, n).raw(state).await
}

/// `GET /runs/{key}/events/{n}/value`
pub(crate) async fn event_value(
    State(state): State<AppState>,
    EventParam(run, n): EventParam,
    params: Params,
) -> Response {
    Source::event(run, n).value(state, params).await
}

/// `GET /runs/{key}/manifest/raw`
pub(crate) async fn manifest_raw(State(state): State<AppState>, RunParam(run): RunParam) -> Response {
    Source::manifest(run).raw(state).await
}

/// `GET /runs/{key}/manifest/value`
pub(crate) async fn manifest_value(State(state): State<AppState>, RunParam(run): RunParam, params: Params) -> Response {
    Source::manifest(run).value(state, params).await
}

/// `GET /runs/{key}/steps/{n}/assets/{asset}`: the picture at that place of the step's list, if the run holds it.
pub(crate) async fn asset(
    State(state): State<AppState>,
    StepParam(run, n): StepParam,
    LastPart(which): LastPart,
) -> Response {
    let read = blocking(move || {
        let source = Source::step(Arc::clone(&run), n);
        let record = Record::read(source.read()?);
        let step = crate::format::step(&record).unwrap_or_default();
        let picture = which.parse::<usize>().ok().and_then(|at| step.pictures.get(at));
        let path = picture.and_then(|picture| picture.path.as_deref());
        let missing = |why: &str| WebError::not_found("There is no such picture", why).named(&which);
        let path = path.ok_or_else(|| missing("The step names none at this place."))?;
        let (path, bytes) = run.dir().read_asset(path).map_err(|error| missing(&format!("It is {error}.")))?;
        let mime = path.to_str().and_then(picture_type).ok_or_else(|| missing("Its name is not that of a picture."))?;
        Ok(([(CONTENT_TYPE, mime)], bytes).into_response())
    });
    answer(&state, read.await.flatten())
}
