//! Serves the pages and parts of one run. Each handler names the run, takes its index, fills a
//! struct and renders it.

use std::cell::OnceCell;
use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Redirect};

use crate::analysis::files::submitted;
use crate::analysis::overview::Overview;
use crate::analysis::related::nearest;
use crate::analysis::summary::Summary;
use crate::analysis::timing::Begins;
use crate::live::{Library, Run};
use crate::model::RunKey;
use crate::page::answer::{html, load_again};
use crate::page::app::AppState;
use crate::page::blocking::blocking;
use crate::page::error::{Answer, WebError};
use crate::page::extract::{RunParam, StepParam, no_such_step};
use crate::page::params::Params;
use crate::page::part::href;
use crate::page::part::strip::Strip;
use crate::page::part::text::one_line;
use crate::page::run::changed::{self, ChangedTab, Place as FilePlace};
use crate::page::run::events::EventsTab;
use crate::page::run::files::{IssuesTab, ManifestTab};
use crate::page::run::head::{RunHead, Tabs};
use crate::page::run::lists::Lists;
use crate::page::run::markdown;
use crate::page::run::pending::PendingSlot;
use crate::page::run::pick::{Pick, Picker};
use crate::page::run::setup::SetupTab;
use crate::page::run::steps::{EndSlot, StepRows, StepsTab, Window, next_mark};
use crate::page::run::timeline::{self, Timeline};
use crate::page::run::transcript::{
    Find, Found, OtherPart, Outline, Place, Transcript, TranscriptPart,
};
use crate::page::run::verdict::Verdict;
use crate::page::run::{Content, RunPage, RunPulse, TabUpdate};
use crate::page::run_view::{RelatedRun, RunView, is_conversation, page_title};
use crate::page::shell::now;
use crate::page::shell::{NavItem, Pulse, Shell};
use crate::page::state::state_tab;
use crate::page::step::fill::{StepPlace, step_facts, step_view};
use crate::page::step::{StepFragment, StepPage};

/// Runs `show` on the run's current index, outside the async threads.
pub(crate) async fn with_view<T: Send + 'static>(
    state: &AppState,
    run: &Arc<Run>,
    show: impl FnOnce(&RunView<'_>) -> Result<T, WebError> + Send + 'static,
) -> Result<T, WebError> {
    let (run, zone, stale) = (
        Arc::clone(run),
        state.zone.clone(),
        state.library.status().stalled,
    );
    let (library, editor) = (Arc::clone(&state.library), state.editor.clone());
    let lists = Arc::clone(&state.lists);
    let shown = blocking(move || {
        let (summary, index) = run.shown();
        let stale = stale.as_deref();
        let found = OnceCell::new();
        let related_runs = || {
            found
                .get_or_init(|| related_runs(&library, &summary))
                .clone()
        };
        let view = RunView {
            summary: &summary,
            index: &index,
            lines: &*run,
            now: now(),
            stale,
            related_runs: &related_runs,
            zone: &zone,
            editor: editor.as_deref(),
            files: &|| Some(0),
        };
        let files = || files(&view, &lists);
        show(&RunView {
            files: &files,
            ..view
        })
    });
    shown.await.flatten()
}

/// The lines of longer runs aren't read to see what the Files tab has; bytes.
const MAX_SEARCHED: u64 = 2 << 20;

/// Counts the files of the Files tab: 0 if it may have content, `None` if it has none. If the index
/// doesn't have the edits, this reads the lines of a short run.
fn files(view: &RunView<'_>, lists: &Lists) -> Option<u64> {
    let summary = view.summary;
    if let Some(files) = summary.files_changed.filter(|files| *files > 0) {
        return Some(files);
    }
    let steps = view.index.steps().iter();
    let calling: Vec<u64> = steps
        .filter(|step| step.actions > 0)
        .map(|step| step.span.len)
        .collect();
    let bytes = calling
        .iter()
        .fold(0, |sum: u64, bytes| sum.saturating_add(*bytes));
    if bytes > MAX_SEARCHED {
        return Some(0);
    }
    let answer = summary.answer.as_deref().unwrap_or_default();
    let patches = submitted(answer, view.index, view.lines);
    if calling.is_empty() && patches.is_empty() && summary.files_edited.is_empty() {
        return None;
    }
    let all = lists.of(view);
    match changed::listed(view, &all, &patches) {
        _ if all.pending > 0 => Some(0),
        0 if all.is_empty() && summary.files_edited.is_empty() => None,
        files => Some(files),
    }
}

/// Finds the known runs that are related to this one: its parent run, its child runs and
/// branches, and the segments of the same session. A run's own trace may not record its child runs:
/// some are known only from the child's file.
pub(crate) fn related_runs(library: &Library, summary: &Summary) -> Vec<RelatedRun> {
    if summary.parent.is_none() && summary.run_id.is_none() {
        return Vec::new();
    }
    let (mut parents, mut children, mut duplicates) =
        (Vec::new(), Vec::new(), vec![summary.key.clone()]);
    let mut segments = Vec::new();
    for other in library.runs() {
        let other = other.summary();
        // The run that counts represents its duplicates. Only the duplicates of this run matter
        // here.
        if other.key == summary.key
            || !other.counts() && other.relation.duplicate_of.as_ref() != Some(&summary.key)
        {
            continue;
        }
        let is_parent = summary.parent.is_some()
            && (summary.parent == other.run_id
                || summary.parent.as_deref() == Some(other.key.as_str()));
        let is_same = summary.run_id.is_some()
            && other.run_id == summary.run_id
            && other.format == summary.format;
        if is_same && (summary.continues.is_some() || other.continues.is_some()) {
            segments.push(Arc::clone(&other));
        }
        if is_same {
            duplicates.push(other.key.clone());
        }
        if is_parent {
            parents.push(other.key.clone());
        } else if other.parent.is_some() && other.parent == summary.run_id {
            children.push(other);
        }
    }
    duplicates.sort_unstable();
    let parent = nearest(summary.key.as_str(), parents.iter().map(RunKey::as_str))
        .and_then(|at| parents.get(at).cloned());
    // If several runs have the same id, a child belongs to the nearest one.
    let is_own = |child: &Arc<Summary>| {
        let found = nearest(child.key.as_str(), duplicates.iter().map(RunKey::as_str))
            .and_then(|at| duplicates.get(at));
        found == Some(&summary.key)
    };
    let child = |other: Arc<Summary>| {
        if other.branched_after.is_some() {
            RelatedRun::Branch(other)
        } else {
            RelatedRun::Child(other)
        }
    };
    let children = children.into_iter().filter(is_own).map(child);
    segments.sort_by_key(|segment| segment.started);
    let segments = segments.into_iter().map(RelatedRun::Segment);
    parent
        .map(RelatedRun::Parent)
        .into_iter()
        .chain(children)
        .chain(segments)
        .collect()
}

/// Returns the shell of this run's pages. The handler sets the title.
pub(crate) fn shell(state: &AppState, run: &Run) -> Shell {
    Shell {
        stream: Some(format!("{}/events", href::run(run.key().as_str()))),
        revision: run.revision_now(),
        ended: run.summary().life.liveness.is_over(),
        ..state.shell(NavItem::Run)
    }
}

/// Returns whether the run has ended, for the address of the next pulse. The page then announces
/// the end only once.
pub(crate) fn ended(view: &RunView<'_>) -> &'static str {
    if view.is_alive() { "" } else { "1" }
}

/// Announces the end of the run, unless `is_end_shown` says that an earlier pulse did.
pub(crate) fn run_ended(view: &RunView<'_>, is_end_shown: &str) -> Option<String> {
    (is_end_shown != "1" && !view.is_alive())
        .then(|| format!("Run ended: {}", view.summary.verdict.sentence))
}

/// The values of the parameter `tab`. Without it, the page shows the steps.
const TABS: [&str; 8] = [
    "transcript",
    "timeline",
    "state",
    "events",
    "files",
    "prompt",
    "manifest",
    "issues",
];

/// The part of a run that a page shows below its tabs.
struct Shown {
    tab: String,
    /// The phase that filters the events tab.
    phase: String,
    /// The key whose history the state tab shows.
    key: String,
    /// The expanded event of the events tab.
    open: Option<usize>,
    /// The file whose edits the files tab shows.
    file: String,
    /// The text that the transcript is searched for.
    find: String,
}

impl Shown {
    /// Without a tab, a session or a sample opens with its transcript, unless the address names a
    /// step.
    fn of(params: &Params, is_conversation: bool) -> Self {
        let names_steps = ["step", "before", "steps", "rows"]
            .iter()
            .any(|name| params.has(name))
            || !Pick::of(params).is_all();
        let tab = match params.text("tab") {
            // The form of the events tab sends only its filter.
            _ if params.has("phase") => "events",
            "" if is_conversation && !names_steps => "transcript",
            "steps" => "",
            tab => tab,
        };
        let text = |name| params.text(name).to_owned();
        let open = params.text("open").parse().ok();
        Self {
            tab: tab.to_owned(),
            phase: text("phase"),
            key: text("key"),
            open,
            file: text("file"),
            find: text("find"),
        }
    }

    /// Returns the page title, which names the open tab and the step.
    fn title(&self, view: &RunView<'_>, step: Option<usize>) -> String {
        let part = match (&*self.tab, step) {
            ("events", _) => "Events".to_owned(),
            ("manifest", _) => "Manifest".to_owned(),
            ("issues", _) => "Issues".to_owned(),
            ("files", _) if !self.file.is_empty() => {
                format!("Edits of {}", one_line(&self.file, 80).0)
            }
            ("prompt", _) => "System prompt and tools".to_owned(),
            ("files", _) => "Files changed".to_owned(),
            ("timeline", _) => "Timeline".to_owned(),
            ("transcript", Some(n)) => format!("Transcript at step {}", view.label(n)),
            ("transcript", None) => "Transcript".to_owned(),
            ("state", Some(n)) => format!("State after step {}", view.label(n)),
            ("state", None) => "State".to_owned(),
            (_, Some(n)) => format!("Step {}", view.label(n)),
            (_, None) => String::new(),
        };
        view.title(&part)
    }

    /// Returns the header and the verdict. A list of steps is opened below the evidence, until a
    /// step is chosen.
    fn head<'a>(&self, view: &'a RunView<'a>, chosen: Option<usize>) -> (RunHead<'a>, Verdict<'a>) {
        let is_open = self.tab.is_empty() && chosen.is_none();
        (RunHead::new(view), Verdict::below_line(view, is_open))
    }

    /// Draws all steps in one picture. Its links open the current tab if the tab has steps. `read`
    /// is the current step.
    fn strip(&self, view: &RunView<'_>, read: Option<usize>) -> Strip {
        let tab = if Tabs::has_step(&self.tab) {
            &*self.tab
        } else {
            ""
        };
        Strip::new(view, tab, read)
    }

    /// Returns the pulse of a page that knows the first `steps` steps and holds a window of rows.
    /// Without `steps`, nothing below the tabs is sent, because that part of the page doesn't
    /// change.
    fn pulse(
        &self,
        view: &RunView<'_>,
        revision: u64,
        steps: Option<usize>,
        held: Option<Window>,
    ) -> Pulse {
        let base = format!("{}/live", href::run(view.key()));
        let steps = steps.map(|steps| steps.to_string()).unwrap_or_default();
        let open = self.open.map(|n| n.to_string()).unwrap_or_default();
        let rows = held
            .map(|Window { first, end }| format!("{first}-{end}"))
            .unwrap_or_default();
        let query = [
            ("tab", &*self.tab),
            ("phase", &self.phase),
            ("key", &self.key),
            ("open", &open),
            ("steps", &steps),
            ("rows", &rows),
            ("find", &self.find),
            ("ended", ended(view)),
            ("since", &revision.to_string()),
        ];
        Pulse {
            url: href::with_query(&base, &query),
            revision,
            noun: "step",
            ..Pulse::default()
        }
    }
}

/// `GET /runs/{key}`
pub(crate) async fn page(
    State(state): State<AppState>,
    RunParam(run): RunParam,
    params: Params,
) -> Answer {
    let (step, before, after) = (
        params.number("step")?,
        params.number("before")?,
        params.number("after")?,
    );
    let line = params.number("line")?.unwrap_or_default();
    let (total, is_read) = {
        let index = run.index();
        (index.steps().len(), is_conversation(&run.summary(), &index))
    };
    if let Some(n) = step.filter(|n| *n >= total.max(1)) {
        return Err(no_such_step(&run, total, n));
    }
    let (shown, pick) = (Shown::of(&params, is_read), Pick::of(&params));
    let timeline = timeline::Shown::of(&params, step);
    if !(shown.tab.is_empty() || TABS.contains(&shown.tab.as_str())) {
        let error = WebError::not_found(
            "Unknown tab:",
            &format!(
                "`tab` must be one of: steps, {}. Without it, the page shows the steps, or for a session the transcript.",
                TABS.join(", ")
            ),
        );
        return Err(error
            .named(&shown.tab)
            .link("Open the run", href::run(run.key().as_str())));
    }
    if let Some(child) = state.library.run(params.text("started")) {
        return started(&state, &run, child.summary().started).await;
    }
    let shell = shell(&state, &run);
    let found_in = Arc::clone(&run);
    let turn = if shown.tab == "files" || shown.tab == "transcript" && !shown.find.is_empty() {
        Some(state.walk().await?)
    } else {
        None
    };
    let lists = Arc::clone(&state.lists);
    let request = Arc::new(());
    let asked = Arc::downgrade(&request);
    let page = with_view(&state, &run, move |view| {
        let _turn = turn;
        let total = view.index.steps().len();
        let (mut at_end, mut held, mut reads) = (after.is_none(), None, step);
        let content = match shown.tab.as_str() {
            "state" => {
                at_end = step.is_none();
                let n = step.or(total.checked_sub(1));
                reads = n;
                Content::State(n.and_then(|n| state_tab(view, n, &shown.key)).map(Box::new))
            }
            "timeline" => {
                at_end = timeline.is_whole();
                Content::Timeline(Box::new(Timeline::new(view, timeline)))
            }
            "transcript" => {
                at_end = true;
                let place = match (step, before) {
                    (Some(n), _) => Place::From(n),
                    (None, Some(before)) => Place::Before(before),
                    // A live run is followed, others are read from the start.
                    (None, None) if view.is_alive() => Place::Before(total),
                    (None, None) => Place::From(0),
                };
                let find = Find::new(&found_in, view, &shown.find, &asked);
                let place = match find.first() {
                    Some(n) if step.is_none() && before.is_none() => Place::From(n),
                    _ => place,
                };
                let transcript = Transcript::new(view, place, find);
                held = Some(transcript.held());
                Content::Transcript(Box::new(transcript))
            }
            "events" => {
                Content::Events(EventsTab::new(view, shown.phase.clone(), after, shown.open))
            }
            "manifest" => Content::Manifest(ManifestTab::new(view)),
            "issues" => Content::Issues(IssuesTab::new(view, after.unwrap_or_default())),
            "prompt" => Content::Setup(SetupTab::new(view)),
            "files" => {
                let place = FilePlace {
                    file: &shown.file,
                    after: after.unwrap_or_default(),
                    line,
                };
                Content::Files(Box::new(ChangedTab::new(view, lists.of(view), &place)))
            }
            _ => {
                let is_all = pick.is_all();
                let follow = view
                    .is_alive()
                    .then_some(step.is_none() && before.is_none() && is_all);
                Content::Steps(Box::new(if is_all {
                    let window = Window::new(total, step, before);
                    held = Some(window);
                    reads = step.or(window.end.checked_sub(1));
                    StepsTab::new(view, window, reads, follow)
                } else {
                    let picker = Picker::new(view, pick.clone());
                    reads = step.or(picker.shown.first().copied());
                    StepsTab::picked(view, picker, step, follow)
                }))
            }
        };
        let (head, verdict) = shown.head(view, step);
        html(&RunPage {
            pulse: shown.pulse(view, shell.revision, at_end.then_some(total), held),
            shell: Shell {
                title: shown.title(view, step),
                ..shell
            },
            head: RunHead { step, ..head },
            verdict,
            strip: Some(shown.strip(view, reads)),
            tabs: Tabs {
                view,
                current: &shown.tab,
                step,
            },
            content,
        })
    });
    let page = page.await;
    drop(request);
    page
}

/// Redirects to the step that was in progress at a time, or to the run if no step is known for that
/// time.
async fn started(state: &AppState, run: &Arc<Run>, at: Option<i64>) -> Answer {
    with_view(state, run, move |view| {
        let n = at.and_then(|at| Begins::of(view.index).calling_at(view.index, at));
        let to = n.map_or_else(|| href::run(view.key()), |n| view.at_step(n));
        Ok(Redirect::to(&to).into_response())
    })
    .await
}

/// `GET /runs/{key}/live`
pub(crate) async fn pulse(
    State(state): State<AppState>,
    run: Result<RunParam, WebError>,
    params: Params,
) -> Answer {
    let awaited = params.has("awaited");
    let Ok(RunParam(run)) = run else {
        // The run doesn't exist yet, or it vanished while its page was open. After a reload, the
        // page says so.
        return Ok(if awaited {
            StatusCode::NO_CONTENT.into_response()
        } else {
            load_again()
        });
    };
    if awaited {
        return Ok(load_again());
    }
    let (known, read) = (params.number("steps")?, params.number("shown")?);
    let held = Window::parse(params.text("rows"));
    let follow = params.text("follow") == "1";
    // The address of a pulse names its tab.
    let shown = Shown::of(&params, false);
    // Read the revision before the index. A later change then triggers another pulse.
    let revision = run.revision_now();
    with_view(&state, &run, move |view| {
        let total = view.index.steps().len();
        let held = match shown.tab.as_str() {
            "transcript" => held,
            _ => held.map(|held| held.grown(known.unwrap_or_default(), total, follow)),
        };
        let mut pulse = shown.pulse(view, revision, known.map(|_| total), held);
        pulse.say = run_ended(view, params.text("ended"));
        let tab_update = known.and_then(|known| match shown.tab.as_str() {
            "events" => Some(TabUpdate::Events(EventsTab::new(
                view,
                shown.phase.clone(),
                None,
                shown.open,
            ))),
            // A page that shows a part of the time keeps it.
            "timeline" if params.has("part") => None,
            "timeline" => Some(TabUpdate::Timeline(Box::new(Timeline::new(
                view,
                timeline::Shown::default(),
            )))),
            "transcript" => {
                pulse.count = total.saturating_sub(known);
                // Only a page that holds the end gets new steps.
                let part = held
                    .filter(|held| held.end >= known)
                    .map(|_| TranscriptPart::new(view, Place::Before(total), &shown.find));
                let at = match held {
                    Some(held) if held.end < known => held.first,
                    _ => total.saturating_sub(1),
                };
                let outline = Outline::new(view, at);
                Some(TabUpdate::Transcript(outline, part, PendingSlot { view }))
            }
            "state" if known < total => Some(TabUpdate::State(Box::new(state_tab(
                view,
                total - 1,
                &shown.key,
            )?))),
            "" => {
                pulse.count = total.saturating_sub(known);
                let newest = total.checked_sub(1).filter(|_| follow && total > known);
                // The last known step may have been provisional, or its events may be new.
                let changed = newest.or(read.filter(|_| read == known.checked_sub(1)));
                // The number of all steps appears among the facts of a step.
                let stays = read.filter(|_| changed.is_none() && total != known);
                Some(TabUpdate::Steps {
                    facts: stays.map(|n| step_facts(view, n)),
                    rows: held.map(|held| StepRows::new(view, held, newest.or(read))),
                    end: EndSlot { view },
                    pending: PendingSlot { view },
                    selected: changed
                        .and_then(|n| step_view(view, n, StepPlace::List))
                        .map(Box::new),
                })
            }
            _ => None,
        });
        let (head, verdict) = shown.head(view, read.filter(|_| !follow));
        let title = shown.title(view, read.filter(|_| !follow));
        html(&RunPulse {
            pulse,
            title,
            head,
            verdict: Some(verdict),
            strip: Some(shown.strip(view, if follow { total.checked_sub(1) } else { read })),
            tabs: Tabs {
                view,
                current: &shown.tab,
                step: read.filter(|_| !follow),
            },
            tab_update,
        })
    })
    .await
}

/// `GET /runs/{key}/steps/{n}`
pub(crate) async fn step(State(state): State<AppState>, StepParam(run, n): StepParam) -> Answer {
    let shell = shell(&state, &run);
    with_view(&state, &run, move |view| {
        let step_view = step_view(view, n, StepPlace::Alone).ok_or_else(gone)?;
        let title = page_title(view.summary, step_view.title.as_str());
        // The step is complete, so its page needs no updates.
        html(&StepPage {
            shell: Shell {
                title,
                stream: None,
                ..shell
            },
            view,
            step_view,
        })
    })
    .await
}

/// `GET /runs/{key}/steps/{n}/part`: serves a step. `to=mark` selects the next step after `n` that
/// has a mark, and `to=mark-back` the previous one. `to=first` selects the most notable step of
/// `n..until`.
pub(crate) async fn step_part(
    State(state): State<AppState>,
    StepParam(run, n): StepParam,
    params: Params,
) -> Answer {
    let to = params.text("to").to_owned();
    let until = params.number("until")?.unwrap_or_default();
    with_view(&state, &run, move |view| {
        let from = n;
        let (n, wrapped) = match &*to {
            "mark" | "mark-back" => next_mark(view, n, to != "mark").unwrap_or((n, true)),
            "first" => (
                Overview::among(view.index, n, until).first().unwrap_or(n),
                false,
            ),
            _ => (n, false),
        };
        let mut step_view = step_view(view, n, StepPlace::List).ok_or_else(gone)?;
        if wrapped {
            step_view.note = past_the_end(&to, from == n).into();
        }
        let part = html(&StepFragment {
            title: view.title(step_view.title.as_str()).into(),
            step_view,
        })?;
        Ok(if to.is_empty() {
            part
        } else {
            ([("hx-push-url", view.at_step(n))], part).into_response()
        })
    })
    .await
}

/// `GET /runs/{key}/steps/part`: serves `count` rows around a line of the list, or around a step.
pub(crate) async fn rows_part(
    State(state): State<AppState>,
    RunParam(run): RunParam,
    params: Params,
) -> Answer {
    let (line, step, read) = (
        params.number("line")?,
        params.number("step")?,
        params.number("shown")?,
    );
    let rows = params.number("count")?.unwrap_or_default();
    with_view(&state, &run, move |view| {
        html(&match step {
            Some(n) => {
                let window = Window::around(n, view.index.steps().len(), rows);
                StepRows::new(view, window, read)
            }
            None => StepRows::at_line(view, line.unwrap_or_default(), rows, read),
        })
    })
    .await
}

/// `GET /runs/{key}/transcript/part`: serves the steps around a step, from it, or before it.
pub(crate) async fn transcript_part(
    State(state): State<AppState>,
    RunParam(run): RunParam,
    params: Params,
) -> Answer {
    let (step, before, around) = (
        params.number("step")?,
        params.number("before")?,
        params.number("around")?,
    );
    let place = match (around, before) {
        (Some(n), _) => Place::Around(n),
        (None, Some(n)) => Place::Before(n),
        (None, None) => Place::From(step.unwrap_or_default()),
    };
    let find = params.text("find").to_owned();
    with_view(&state, &run, move |view| {
        html(&OtherPart::new(view, place, &find))
    })
    .await
}

/// `GET /runs/{key}/transcript/found`: the steps that contain the text `find`, for the bar above the
/// transcript.
pub(crate) async fn transcript_found(
    State(state): State<AppState>,
    RunParam(run): RunParam,
    params: Params,
) -> Answer {
    let first = params.number("step")?.unwrap_or_default();
    let find = params.text("find").to_owned();
    let found_in = Arc::clone(&run);
    let turn = state.walk().await?;
    let request = Arc::new(());
    let asked = Arc::downgrade(&request);
    let found = with_view(&state, &run, move |view| {
        let _turn = turn;
        let find = Find::new(&found_in, view, &find, &asked);
        html(&Found::new(view, &find, first))
    });
    let found = found.await;
    drop(request);
    found
}

/// `GET /runs/{key}/transcript.md`: the run as Markdown, or only the steps `from..until`.
pub(crate) async fn transcript_md(
    State(state): State<AppState>,
    RunParam(run): RunParam,
    params: Params,
) -> Answer {
    let (from, until) = (params.number("from")?, params.number("until")?);
    let of = state.clone();
    let body = crate::page::download::body(&state, move |out| {
        let (summary, index) = run.shown();
        let view = RunView {
            summary: &summary,
            index: &index,
            lines: &*run,
            now: now(),
            stale: None,
            related_runs: &Vec::new,
            zone: &of.zone,
            editor: None,
            files: &|| Some(0),
        };
        let total = index.steps().len();
        let only = (from.is_some() || until.is_some())
            .then(|| from.unwrap_or_default()..until.map_or(total, |until| until.min(total)));
        markdown::write(out, &view, only)
    });
    let headers = [(CONTENT_TYPE, "text/markdown; charset=utf-8")];
    Ok((headers, body.await?).into_response())
}

/// Returns a note for a search for marks that wrapped around.
fn past_the_end(to: &str, is_only: bool) -> &'static str {
    match (is_only, to) {
        (true, _) => "No other step has a mark.",
        (false, "mark") => "No more marks; wrapped to the first.",
        (false, _) => "No earlier marks; wrapped to the last.",
    }
}

fn gone() -> WebError {
    WebError::not_found(
        "This step no longer exists",
        "The files changed while the page was being built.",
    )
}
