//! Shows the system prompt and the tools that the model received. They are shown once per run, and
//! the steps link to them.

use askama::Template;
use askama::filters::HtmlSafe;

use crate::analysis::format;
use crate::format::SYSTEM;
use crate::model::json::Json;
use crate::model::{EventKind, Record, TraceFile};
use crate::page::part::action::not_shown;
use crate::page::part::fold::{Fold, ValueLinks};
use crate::page::part::href;
use crate::page::part::json_tree::{JsonView, find};
use crate::page::part::prompt::{Message, system};
use crate::page::part::text::{Line, one_line};
use crate::page::run_view::RunView;
use crate::page::step::messages::input;
use crate::page::step::stored_texts::with_texts;

/// Records that are read at the start of another tool's run. The system prompt and the tools come
/// first.
const MAX_RECORDS: usize = 40;
/// Maximum number of system messages that are shown.
const MAX_MESSAGES: usize = 50;
/// Larger records aren't read in advance. They are assumed to hold a system prompt or tools.
const MAX_RECORD_BYTES: u64 = 256 << 10;
/// Longer descriptions of tools are truncated; characters.
const MAX_WORDS: usize = 160;

/// The system prompt and the tools of a run.
#[derive(Template)]
#[template(path = "run/setup.html")]
pub(crate) struct SetupTab {
    messages: Vec<Message>,
    tools: Vec<Tool>,
    /// States the number of tools.
    count: Line,
    /// States how many tools aren't shown.
    more: Line,
}

impl HtmlSafe for SetupTab {}

/// A tool that the model could call.
struct Tool {
    name: Line,
    /// The description, in one line.
    description: Line,
    /// The whole record of the tool, if it has more than a name.
    all: Option<JsonView>,
}

/// Returns whether another tool's run records a system prompt or tools.
pub(crate) fn has_setup(view: &RunView<'_>) -> bool {
    let (mut tab, fold) = (SetupTab::empty(), &mut Fold::new(ValueLinks::default()));
    view.index.events().iter().take(MAX_RECORDS).any(|event| {
        if event.span.len > MAX_RECORD_BYTES {
            return true;
        }
        if let Ok(record) = view.lines.record(TraceFile::Events, event.span) {
            tab.record(view.index.name(event.stage), &record, fold);
        }
        !tab.messages.is_empty() || !tab.tools.is_empty()
    })
}

impl SetupTab {
    fn empty() -> Self {
        Self {
            messages: Vec::new(),
            tools: Vec::new(),
            count: Line::default(),
            more: Line::default(),
        }
    }

    pub(crate) fn new(view: &RunView<'_>) -> Self {
        let fold = &mut Fold::new(ValueLinks::default());
        let mut out = Self::empty();
        let events = view.index.events();
        if view.index.format().is_one_file() {
            for (at, event) in events.iter().take(MAX_RECORDS).enumerate() {
                let Ok(record) = view.lines.record(TraceFile::Events, event.span) else {
                    continue;
                };
                fold.elsewhere(ValueLinks::below(&href::event(view.key(), at)));
                let record = with_texts(view, record);
                out.record(view.index.name(event.stage), &record, fold);
            }
            return out;
        }
        let first = events
            .iter()
            .enumerate()
            .find(|(_, event)| event.kind == EventKind::Prompt);
        if let Some((at, event)) = first
            && let Ok(record) = view.lines.record(TraceFile::Events, event.span)
        {
            fold.elsewhere(ValueLinks::below(&href::event(view.key(), at)));
            let list = crate::format::event(&record).messages;
            out.prompt(list.map_or("", |list| list.text), "/payload/messages", fold);
        }
        if let Some(text) = view.lines.manifest_text()
            && let Some(manifest) = Json::parse(&text)
        {
            fold.elsewhere(ValueLinks::below(&href::manifest(view.key())));
            let tools = ["tool_manifest", "tool_versions"].into_iter();
            let tools = tools.filter_map(|key| {
                Some((key, manifest.get(key).filter(|tools| !tools.is_empty())?))
            });
            if let Some((key, tools)) = tools.into_iter().next() {
                out.tools(tools, &format!("/{key}"), fold);
            }
        }
        out
    }

    /// Adds the system messages of a prompt.
    fn prompt(&mut self, list: &str, at: &str, fold: &mut Fold) {
        for message in system(list).take(MAX_MESSAGES) {
            let place =
                crate::model::json::walk::items(list).position(|item| std::ptr::eq(item, message));
            let at = format!("{at}/{}", place.unwrap_or_default());
            self.messages
                .push(Message::new(&Json::checked(message), &at, Fold::text, fold));
        }
    }

    /// Adds the system prompt and tools in a record of another tool, under any of the known names.
    /// `stage` is that of its event.
    fn record(&mut self, stage: &str, record: &Record<'_>, fold: &mut Fold) {
        let Some(json) = Json::parse(&record.text) else {
            return;
        };
        if stage == SYSTEM && matches!(json, Json::String(_) | Json::Array(_)) {
            if self.messages.len() < MAX_MESSAGES {
                self.messages.push(Message::alone("system", &json, fold));
            }
            return;
        }
        if self.messages.is_empty()
            && let Some(list) = input(&record.text)
        {
            self.prompt(list, "/input", fold);
        }
        for at in [
            "/payload/base_instructions/text",
            "/payload/instructions",
            "/system_prompt",
            "/systemPrompt",
            "/system_prompt/text",
        ] {
            if let Some(text) = find(&json, at)
                .and_then(Json::as_str)
                .filter(|text| !text.is_empty())
            {
                self.add_message("system", text, at, fold);
            }
        }
        for at in ["", "/payload", "/message"] {
            let message = find(&json, at).filter(|message| {
                matches!(
                    message.get("role").and_then(Json::as_str),
                    Some("system" | "developer")
                )
            });
            if let Some(message) = message.filter(|_| self.messages.len() < MAX_MESSAGES) {
                self.messages.push(Message::spoken(message, at, fold));
            }
        }
        for at in [
            "/tools",
            "/payload/tools",
            "/payload/dynamic_tools",
            "/agent/tool_definitions",
        ] {
            if let Some(tools) =
                find(&json, at).filter(|tools| !tools.is_empty() && self.tools.is_empty())
            {
                self.tools(tools, at, fold);
            }
        }
    }

    fn add_message(&mut self, role: &'static str, text: &str, at: &str, fold: &mut Fold) {
        let texts = vec![fold.text(text, at)];
        let facts = format::bytes(text.len() as u64).into();
        self.messages.push(Message {
            role: role.into(),
            facts,
            texts,
            others: Vec::new(),
        });
    }

    /// Adds the tools in a list or an object.
    fn tools(&mut self, tools: &Json<'_>, at: &str, fold: &mut Fold) {
        let of_list = tools.as_array().unwrap_or_default().iter().enumerate();
        let of_list = of_list.map(|(place, tool)| (place.to_string(), named(tool), tool));
        let of_object = tools.as_object().unwrap_or_default().iter();
        let of_object = of_object.map(|(key, tool)| (key.to_string(), key.to_string(), tool));
        let all: Vec<_> = of_list.chain(of_object).collect();
        self.count = format::counted(all.len(), "tool").into();
        for (place, name, tool) in &all {
            if !fold.takes(self.tools.len()) {
                break;
            }
            let description = ["description", "/function/description"].into_iter();
            let description = description
                .filter_map(|key| tool.get(key).or_else(|| find(tool, key))?.as_str())
                .next();
            let view = match tool {
                Json::String(_) => None,
                _ => Some(fold.json(
                    tool,
                    &format!("{at}/{}", crate::page::part::json_tree::token(place)),
                )),
            };
            let description = one_line(description.unwrap_or_default(), MAX_WORDS)
                .0
                .into();
            self.tools.push(Tool {
                name: name.as_str().into(),
                description,
                all: view,
            });
        }
        self.more = not_shown(all.len() - self.tools.len(), "more tool", "more tools");
    }
}

/// Returns the name of a tool in a list.
fn named(tool: &Json<'_>) -> String {
    let name = tool.as_str().or(tool.get("name").and_then(Json::as_str));
    let name = name.or_else(|| find(tool, "/function/name").and_then(Json::as_str));
    name.unwrap_or("no name").to_owned()
}
