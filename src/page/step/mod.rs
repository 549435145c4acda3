//! Shows one step as sections in a fixed order, on the run page and on the step's own page.
//!
//! The content of the step's line is read here from its JSON. Callers supply what only the run
//! knows: times, neighboring steps, and events.

pub(crate) mod api;
pub(crate) mod fill;
pub(crate) mod messages;
pub(crate) mod stored_texts;

use askama::Template;
use askama::filters::HtmlSafe;

use crate::analysis::format;
use crate::model::json::Json;
use crate::model::step::{Step, Value as TraceValue};
use crate::page::part::action::{Actions, not_shown};
use crate::page::part::critic::Critic;
use crate::page::part::decision::Decision;
use crate::page::part::fold::{Fold, Folded, Part};
use crate::page::part::json_tree::{JsonView, token};
use crate::page::part::prompt::Prompt;
use crate::page::part::sign::{Link, Phrase, Sign};
use crate::page::part::state_diff::StateDiff;
use crate::page::part::svg::PhaseStrip;
use crate::page::part::text::Line;
use crate::page::part::{decision, href, text};
use crate::page::run_view::RunView;
use crate::page::shell::Shell;

/// Limits the pictures read from a step.
const MAX_ASSETS: usize = 50;

#[derive(Template)]
#[template(path = "step/page.html")]
pub(crate) struct StepPage<'a> {
    pub shell: Shell,
    pub view: &'a RunView<'a>,
    pub step_view: StepView,
}

/// A step that replaces the one shown on the run page, with the new title.
#[derive(Debug, Clone, Template)]
#[template(path = "step/step_fragment.html")]
pub(crate) struct StepFragment {
    pub title: Line,
    pub step_view: StepView,
}

/// The page of a single value: a long text in parts, or a JSON value.
#[derive(Debug, Clone, Template)]
#[template(path = "step/value.html")]
pub(crate) struct ValuePage<'a> {
    pub shell: Shell,
    pub key: &'a str,
    /// The name of the value.
    pub title: Line,
    pub value: Value,
    /// The address of the raw bytes.
    pub raw: String,
}

#[derive(Debug, Clone)]
pub(crate) enum Value {
    Text(Part),
    /// A JSON value other than text.
    Json(JsonView),
}

#[derive(Debug, Clone, Default, Template)]
#[template(path = "step/step_view.html")]
pub(crate) struct StepView {
    /// The ordinal, which identifies the step.
    pub n: usize,
    /// `Step 4`, with the recorded id.
    pub title: Line,
    /// Number of steps in the run, offset, duration, tokens, agent.
    pub facts: Line,
    /// Errors, retries, stops, and failed commands.
    pub marks: Vec<Sign>,
    pub previous: Option<StepLink>,
    pub next: Option<StepLink>,
    /// The address of the step's own page. Empty on that page.
    pub own: String,
    /// The command that shows the step in a terminal. Empty if there isn't one.
    pub command: String,
    /// The address of the step on the run page.
    pub link: String,
    /// The address of the replay at this step. Empty if there isn't one.
    pub replay: String,
    /// Opens the file and line that the step's error names in the editor.
    pub editor: Option<Link>,
    /// A note about how the reader got here, or an empty string.
    pub note: Line,
    /// The reason if the line can't be read as a step.
    pub unreadable: Option<Phrase>,
    pub error: Option<StepError>,
    /// The model's text if the step failed. In other steps, the sections below contain it.
    pub wrote: Option<Folded>,
    /// Messages to the agent between the previous step and this one, if they have separate records.
    pub new_messages: Option<Prompt>,
    pub thought: Option<Folded>,
    /// The model's text next to its calls, unless the calls were parsed from it.
    pub reply: Option<Folded>,
    /// The decision. `None` only if the line is unreadable.
    pub decision: Option<Decision>,
    pub actions: Actions,
    /// The child runs that the step started, with how they ended.
    pub started: Vec<Phrase>,
    pub diff: Option<StateDiff>,
    pub critics: Vec<Critic>,
    /// The number of critics not shown.
    pub more_critics: Line,
    pub observation: Option<Observation>,
    pub assets: Vec<Asset>,
    /// The number of pictures not shown.
    pub more_assets: Line,
    /// The remaining fields of the line, as key and value.
    pub rest: Vec<(Line, JsonView)>,
    /// The number of remaining fields.
    pub rest_count: Line,
    /// The number of fields not shown.
    pub more_rest: Line,
    pub prompt: Option<Prompt>,
    /// Links to the prompt and the reply, if they are recorded as such.
    pub exchange: Vec<Link>,
    pub events: StepEvents,
    /// The step's line as recorded.
    pub raw: Option<RawLine>,
    /// Links to the lines of its events.
    pub raw_events: Vec<RawLine>,
    /// The number of these lines, and their file.
    pub raw_events_of: Line,
}

impl HtmlSafe for StepView {}

/// A link to a neighboring step.
#[derive(Debug, Clone, Default)]
pub(crate) struct StepLink {
    /// The address of the run page with that step selected, or of the step's own page.
    pub href: String,
    /// The fragment that replaces the displayed step. Empty if the link is a plain one.
    pub fragment: String,
    /// The step's name: `3 replace_text`.
    pub label: Line,
}

#[derive(Debug, Clone)]
pub(crate) struct StepError {
    /// The error's category. Empty if none is recorded.
    pub category: Line,
    pub message: Folded,
    /// The phase where it happened, and the time.
    pub place: Line,
    /// Whether it was recoverable, and how the engine reacted.
    pub outcome: Phrase,
}

#[derive(Debug, Clone)]
pub(crate) struct Observation {
    /// The content that isn't shown elsewhere.
    pub description: Line,
    pub size: Line,
    pub view: JsonView,
}

/// A picture that a step refers to.
#[derive(Debug, Clone)]
pub(crate) struct Asset {
    /// The address of the picture, or `None` if it can't or must not be shown.
    pub href: Option<String>,
    /// Why it isn't shown.
    pub note: Line,
    /// The alternative text.
    pub alt: Line,
    /// Path, size and type.
    pub caption: Line,
}

#[derive(Debug, Clone, Default)]
pub(crate) struct StepEvents {
    pub count: Line,
    pub strip: Option<PhaseStrip>,
    /// One row for each phase or event.
    pub rows: Vec<StepEvent>,
}

/// A row in the events of a step.
#[derive(Debug, Clone, Default)]
pub(crate) struct StepEvent {
    /// The phase's color class.
    pub class: &'static str,
    pub phase: Line,
    /// The stages: `start → pass`.
    pub stage: Line,
    /// The time since the start of the run.
    pub at: Line,
    pub lasted: Line,
    /// Further information.
    pub note: Phrase,
}

/// A line as recorded.
#[derive(Debug, Clone)]
pub(crate) struct RawLine {
    /// File, line number and byte range.
    pub place: Line,
    pub size: Line,
    /// The text, or `None` if it is only linked.
    pub text: Option<Folded>,
    /// The address of the whole line.
    pub href: String,
}

/// The data needed to read a step's line that the line doesn't have.
pub(crate) struct Around<'r> {
    /// Returns the last score before this step from the critic of that name.
    pub previous_score: &'r dyn Fn(&str) -> Option<f64>,
    /// Returns the address of a picture by its recorded path, or the reason it isn't shown.
    pub picture: &'r dyn Fn(&str) -> Result<String, String>,
    /// The state before the step, if the line doesn't contain one.
    pub state: Option<&'r Json<'r>>,
}

impl std::fmt::Debug for Around<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Around")
            .field("state", &self.state.is_some())
            .finish_non_exhaustive()
    }
}

impl StepView {
    /// Fills the sections that come from the step's line: thought, decision, actions, state diff,
    /// critics, observation and pictures.
    pub(crate) fn read(&mut self, step: &Step<'_>, around: &Around<'_>, fold: &mut Fold) {
        self.thought = decision::thought(step, fold);
        self.decision = Some(Decision::new(step, fold));
        self.actions = Actions::new(step, fold);
        let state = step.state.map(TraceValue::json);
        let state = state.as_ref().or(around.state);
        let changes = step.changes.map(|changes| changes.0);
        self.diff = changes.and_then(|changes| {
            StateDiff::new(&changes.json(), state, fold, &changes.at.to_string())
        });
        self.critics = Critic::read_all(&step.critics, around.previous_score, fold);
        self.more_critics = not_shown(
            step.critics.total() - self.critics.len(),
            "more critic",
            "more critics",
        );
        let assets = step.pictures.iter().take(MAX_ASSETS);
        self.assets = assets
            .map(|asset| Asset::read(&asset.value.json(), around.picture))
            .collect();
        self.more_assets = not_shown(
            step.pictures.total() - self.assets.len(),
            "more picture",
            "more pictures",
        );
        self.observation = step
            .observation
            .filter(|seen| !seen.is_empty())
            .map(|seen| Observation::new(seen, step, fold));
        let others: Vec<_> = step
            .rest
            .iter()
            .filter(|(_, value)| !value.is_empty())
            .collect();
        for (key, value) in &others {
            if !fold.takes(self.rest.len()) {
                break;
            }
            fold.spend(key);
            self.rest.push((
                key.as_ref().into(),
                fold.json(&value.json(), &format!("/{}", token(key))),
            ));
        }
        self.rest_count = format::counted(others.len(), "more field").into();
        self.more_rest = not_shown(others.len() - self.rest.len(), "more field", "more fields");
    }
}

impl Observation {
    fn new(observation: TraceValue<'_>, step: &Step<'_>, fold: &mut Fold) -> Self {
        let seen = observation.json();
        let mut parts = Vec::new();
        let results = seen
            .get("action_results")
            .and_then(Json::as_array)
            .filter(|results| !results.is_empty());
        let is_same = |results: &[Json<'_>]| {
            results.len() == step.results.total()
                && results
                    .iter()
                    .zip(step.results.iter())
                    .all(|(seen, result)| *seen == result.value.json())
        };
        if results.is_some_and(is_same) {
            parts.push("the results above".to_owned());
        }
        if let Some(state) = seen.get("state").and_then(Json::as_object) {
            parts.push(format!(
                "the state before this step ({})",
                format::counted(state.len(), "field")
            ));
        }
        let known = [
            "step_id",
            "step",
            "task",
            "state",
            "decision",
            "action_results",
            "metadata",
        ];
        let others = seen.as_object().unwrap_or_default().iter();
        parts.extend(
            others
                .filter(|(key, value)| !known.contains(&key.as_ref()) && !value.is_empty())
                .map(|(key, _)| key.to_string()),
        );
        let description = if parts.is_empty() {
            String::new()
        } else {
            format!("Contains {}.", parts.join(", "))
        };
        Self {
            description: description.into(),
            size: format::bytes(seen.to_string().len() as u64).into(),
            view: fold.json(&seen, &observation.at.to_string()),
        }
    }
}

impl Asset {
    fn read(asset: &Json<'_>, picture: &dyn Fn(&str) -> Result<String, String>) -> Self {
        let word = |key: &str| asset.get(key).and_then(Json::as_str);
        let kind = word("kind").unwrap_or("picture");
        let (href, note) = match word("path").map(picture) {
            Some(Ok(href)) => (Some(href), String::new()),
            Some(Err(why)) => (None, format!("Not shown: {why}")),
            None => (None, "Not shown: no path is recorded".to_owned()),
        };
        let size = match (asset.get("width"), asset.get("height")) {
            (Some(Json::Number(width)), Some(Json::Number(height))) => {
                Some(format!("{width} × {height}"))
            }
            _ => None,
        };
        let source = asset
            .get("source_step")
            .map(|step| format!("from step {step}"));
        let facts = [
            Some(kind.to_owned()),
            word("path").map(str::to_owned),
            size,
            word("mime_type").map(str::to_owned),
            source,
        ];
        let caption: Vec<_> = facts.into_iter().flatten().collect();
        Self {
            href,
            note: note.into(),
            alt: format!("{kind} of this step").into(),
            caption: caption.join(" · ").into(),
        }
    }
}

#[cfg(test)]
mod tests;
