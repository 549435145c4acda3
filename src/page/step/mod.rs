//! How does one step look? Its sections in a fixed order, on the run page and on a page of its own.
//!
//! What a step line holds is read here from its JSON; what only the run knows (times, neighbours, events) is given.

pub(crate) mod api;
pub(crate) mod fill;
pub(crate) mod json;
pub(crate) mod json_line;
pub(crate) mod said;

use askama::Template;
use askama::filters::HtmlSafe;

use crate::analysis::format;
use crate::model::json::Json;
use crate::model::step::{Step, Value as TraceValue};
use crate::page::lens::Lens;
use crate::page::part::action::{Actions, not_shown};
use crate::page::part::critic::Critic;
use crate::page::part::decision::Decision;
use crate::page::part::fold::{Fold, Folded, Part};
use crate::page::part::json_tree::{JsonView, token};
use crate::page::part::prompt::Prompt;
use crate::page::part::sign::{Phrase, Sign};
use crate::page::part::state_diff::StateDiff;
use crate::page::part::svg::PhaseStrip;
use crate::page::part::text::Line;
use crate::page::part::{decision, href, text};
use crate::page::shell::Shell;

/// At most so many pictures of a step are looked for.
const MAX_ASSETS: usize = 50;

#[derive(Template)]
#[template(path = "step/page.html")]
pub(crate) struct StepPage<'a> {
    pub shell: Shell,
    pub lens: &'a Lens<'a>,
    pub view: StepView,
}

/// A step that replaces the one shown on the run page, and the title that goes with it.
#[derive(Debug, Clone, Template)]
#[template(path = "step/step_fragment.html")]
pub(crate) struct StepFragment {
    pub title: Line,
    pub view: StepView,
}

/// A value on a page of its own: a long text in parts, or a JSON value.
#[derive(Debug, Clone, Template)]
#[template(path = "step/value.html")]
pub(crate) struct ValuePage<'a> {
    pub shell: Shell,
    pub key: &'a str,
    /// Which value it is.
    pub title: Line,
    pub value: Value,
    /// The address of the raw bytes.
    pub raw: String,
}

#[derive(Debug, Clone)]
pub(crate) enum Value {
    Text(Part),
    /// A JSON value that is no text.
    Json(JsonView),
}

#[derive(Debug, Clone, Default, Template)]
#[template(path = "step/step_view.html")]
pub(crate) struct StepView {
    /// Its ordinal, the identity of the step.
    pub n: usize,
    /// `Step 4`, with the recorded id.
    pub title: Line,
    /// Place in the run, offset, duration, tokens, agent.
    pub facts: Line,
    /// Errors, retries, stops, failed commands.
    pub marks: Vec<Sign>,
    pub previous: Option<StepLink>,
    pub next: Option<StepLink>,
    /// The page of its own; empty where this is it.
    pub own: String,
    /// What shows the step in a terminal; empty for nothing.
    pub command: String,
    /// The step on the run page.
    pub link: String,
    /// The replay at this step; empty for none.
    pub replay: String,
    /// What is said of the way here; empty for nothing.
    pub note: Line,
    /// Why the line could not be read as a step.
    pub unreadable: Option<Phrase>,
    pub error: Option<StepError>,
    /// What the model wrote, in a step that failed; in others the sections below say it.
    pub wrote: Option<Folded>,
    /// What was said to the agent between the step before and this one, where records of their own tell it.
    pub asked: Option<Prompt>,
    pub thought: Option<Folded>,
    /// What the model said beside its calls, where that is no source of them.
    pub said: Option<Folded>,
    /// The decision; `None` only where the line is unreadable.
    pub decision: Option<Decision>,
    pub actions: Actions,
    /// The runs that it started: the run and how it ended.
    pub started: Vec<Phrase>,
    pub diff: Option<StateDiff>,
    pub critics: Vec<Critic>,
    /// What is said of critics that are not shown.
    pub more_critics: Line,
    pub observation: Option<Observation>,
    pub assets: Vec<Asset>,
    /// What is said of pictures that are not shown.
    pub more_assets: Line,
    /// What the line holds besides: key and value.
    pub rest: Vec<(Line, JsonView)>,
    /// How many fields that are.
    pub rest_count: Line,
    /// What is said of those that are not shown.
    pub more_rest: Line,
    pub prompt: Option<Prompt>,
    pub events: StepEvents,
    /// The step's line as it is in its file.
    pub raw: Option<RawLine>,
    /// The lines of its events, only linked.
    pub raw_events: Vec<RawLine>,
    /// How many lines of which file they are.
    pub raw_events_of: Line,
}

impl HtmlSafe for StepView {}

/// A way to a neighbouring step.
#[derive(Debug, Clone, Default)]
pub(crate) struct StepLink {
    /// The run page with that step selected, or its own page.
    pub href: String,
    /// The fragment that replaces the step shown; empty where the link is a plain one.
    pub fragment: String,
    /// The step in words: `3 replace_text`.
    pub label: Line,
}

#[derive(Debug, Clone)]
pub(crate) struct StepError {
    /// Its category; empty where none is recorded.
    pub category: Line,
    pub message: Folded,
    /// The phase it happened in and when.
    pub place: Line,
    /// Whether it was recoverable and what the engine did.
    pub outcome: Phrase,
}

#[derive(Debug, Clone)]
pub(crate) struct Observation {
    /// What is in it that is not shown elsewhere.
    pub says: Line,
    pub size: Line,
    pub view: JsonView,
}

/// A picture a step refers to.
#[derive(Debug, Clone)]
pub(crate) struct Asset {
    /// The address of the picture; `None` where it may not or cannot be shown.
    pub href: Option<String>,
    /// Why it is not shown.
    pub note: Line,
    /// What the picture is, in words.
    pub alt: Line,
    /// Path, size and type.
    pub caption: Line,
}

#[derive(Debug, Clone, Default)]
pub(crate) struct StepEvents {
    pub count: Line,
    pub strip: Option<PhaseStrip>,
    /// One row per phase or event.
    pub rows: Vec<StepEvent>,
}

/// One row of the events of a step.
#[derive(Debug, Clone, Default)]
pub(crate) struct StepEvent {
    /// The class of the phase's colour.
    pub class: &'static str,
    pub phase: Line,
    /// The stages, `start → pass`.
    pub stage: Line,
    /// When, from the start of the run.
    pub at: Line,
    pub lasted: Line,
    /// What to know about it.
    pub note: Phrase,
}

/// A line as it is in its file.
#[derive(Debug, Clone)]
pub(crate) struct RawLine {
    /// File, line and bytes.
    pub place: Line,
    pub size: Line,
    /// The text; `None` where it is only linked.
    pub text: Option<Folded>,
    /// The address of all of it.
    pub href: String,
}

/// What reading a step line needs to know besides the line.
pub(crate) struct Around<'r> {
    /// The last score a critic of that name gave before this step.
    pub previous_score: &'r dyn Fn(&str) -> Option<f64>,
    /// The address of a picture by its recorded path, or why it is not shown.
    pub picture: &'r dyn Fn(&str) -> Result<String, String>,
    /// The state before the step where the line has none.
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
    /// Fills the sections that come from the step itself: thought, decision, actions, state diff, critics, observation and
    /// pictures.
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
            parts.push("the results above again".to_owned());
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
        let says = if parts.is_empty() {
            String::new()
        } else {
            format!("Holds {}.", parts.join(", "))
        };
        Self {
            says: says.into(),
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
            alt: format!("{kind} the step refers to").into(),
            caption: caption.join(" · ").into(),
        }
    }
}

#[cfg(test)]
mod tests;
