//! Shows the messages of one model call and the model's output. New messages are shown as a
//! conversation. Those that were already in the previous prompt are folded, with their number and
//! size.

use std::borrow::Cow;
use std::collections::HashMap;

use askama::Template;
use askama::filters::HtmlSafe;

use crate::analysis::format;
use crate::model::event::Event;
use crate::model::json::{Json, walk};
use crate::model::step::Value;
use crate::page::part::action::not_shown;
use crate::page::part::fold::{Fold, Folded, ValueLinks};
use crate::page::part::json_tree::JsonView;
use crate::page::part::text::Line;

/// The Conversation section of a step: one call of a model.
#[derive(Debug, Clone, Default, Template)]
#[template(path = "part/prompt.html")]
pub(crate) struct Prompt {
    /// The number and size of the new messages. Empty if no messages are recorded.
    pub summary: Line,
    /// The new messages.
    pub messages: Vec<Message>,
    /// States how many new messages aren't shown.
    pub more: Line,
    /// The number of earlier messages, and their size or location. Empty if there aren't any.
    pub earlier: Line,
    /// The earlier messages that this prompt repeats, each with its beginning.
    pub again: Vec<Message>,
    /// States how many earlier messages aren't shown.
    pub more_again: Line,
    /// The address of the system prompt and the tools of the run. Empty if the run has none.
    pub setup: String,
    pub output: Option<Folded>,
    /// The tool calls of the model's output.
    pub calls: Option<JsonView>,
}

impl HtmlSafe for Prompt {}

#[derive(Debug, Clone)]
pub(crate) struct Message {
    /// The speaker.
    pub role: Line,
    /// The size, name and origin.
    pub facts: Line,
    pub texts: Vec<Folded>,
    /// The content that isn't text.
    pub others: Vec<JsonView>,
}

/// The messages that the model received before this prompt.
#[derive(Debug, Clone, Default)]
pub(crate) struct EarlierPrompt<'a> {
    /// The messages of the previous prompt, as JSON text, and the label of its step.
    pub before: Option<(&'a str, String)>,
    /// The messages of the run's first prompt, as JSON text. Its system prompt is shown separately.
    pub first: Option<&'a str>,
    /// Whether the format records only the new messages of each prompt.
    pub only_news: bool,
    /// The address of the system prompt and the tools.
    pub setup: String,
}

impl EarlierPrompt<'_> {
    /// Classifies messages as new, repeated or part of the system prompt.
    fn divide<'m>(&self, messages: &[&'m str]) -> Vec<MessageKind<'m>> {
        let mut left: HashMap<&str, usize> = HashMap::new();
        for message in self
            .before
            .iter()
            .flat_map(|(before, _)| walk::items(before))
        {
            *left.entry(message).or_default() += 1;
        }
        let setup: Vec<&str> = self.first.into_iter().flat_map(system).collect();
        let kind = messages.iter().map(|message| {
            let known = left.get_mut(message).filter(|left| **left > 0);
            let is_known = known.map(|left| *left -= 1).is_some();
            match setup.contains(message) {
                true => MessageKind::Setup(message),
                false if is_known => MessageKind::Again(message),
                false => MessageKind::New(message),
            }
        });
        kind.collect()
    }
}

/// The relation of a message to the earlier prompts.
enum MessageKind<'m> {
    New(&'m str),
    Again(&'m str),
    Setup(&'m str),
}

/// Returns the system and developer messages of a list.
pub(crate) fn system(list: &str) -> impl Iterator<Item = &str> {
    walk::items(list).filter(|message| {
        let role = Value {
            text: message,
            ..Value::default()
        }
        .get("role")
        .and_then(walk::string);
        matches!(role.as_deref(), Some("system" | "developer"))
    })
}

impl Prompt {
    /// Reads the messages of an event. `links` are the addresses of that event.
    pub(crate) fn new(
        input: &Event<'_>,
        known: &EarlierPrompt<'_>,
        links: ValueLinks,
        fold: &mut Fold,
    ) -> Self {
        let list = input.messages.map_or("", |list| list.text);
        let at = input
            .messages
            .map(|list| list.at.to_string())
            .unwrap_or_default();
        let before = input
            .messages_before
            .filter(|before| known.only_news && *before >= 1.0)
            .unwrap_or_default();
        Self::of_list(list, &at, before as usize, known, links, fold)
    }

    /// Reads a list of messages as JSON text, which is at `at` in its record. The record omits
    /// `before` earlier messages.
    pub(crate) fn of_list(
        list: &str,
        at: &str,
        before: usize,
        known: &EarlierPrompt<'_>,
        links: ValueLinks,
        fold: &mut Fold,
    ) -> Self {
        let mine = fold.elsewhere(links);
        let all: Vec<&str> = walk::items(list).collect();
        let kind = known.divide(&all);
        let mut out = Self {
            setup: known.setup.clone(),
            ..Self::default()
        };
        let (mut new, mut again, mut setup) = (Size::default(), Size::default(), Size::default());
        for (index, kind) in kind.iter().enumerate() {
            let at = format!("{at}/{index}");
            match kind {
                MessageKind::New(text) => {
                    new.add(text);
                    if fold.takes(out.messages.len()) {
                        out.messages.push(Message::new(
                            &Json::checked(text),
                            &at,
                            Fold::text,
                            fold,
                        ));
                    }
                }
                MessageKind::Again(text) => {
                    again.add(text);
                    if out.again.len() < MAX_AGAIN {
                        out.again.push(Message::new(
                            &Json::checked(text),
                            &at,
                            Fold::preview,
                            fold,
                        ));
                    }
                }
                MessageKind::Setup(text) => setup.add(text),
            }
        }
        fold.elsewhere(mine);
        let since = known
            .before
            .as_ref()
            .map(|(_, step)| format!(" since step {step}"))
            .unwrap_or_default();
        out.summary = match new.count {
            0 => format!("no new messages{since}").into(),
            _ if again.count + before + setup.count == 0 => new.words("message").into(),
            _ => format!("{}{since}", new.words("new message")).into(),
        };
        out.more = not_shown(
            new.count - out.messages.len(),
            "more message",
            "more messages",
        );
        out.more_again = not_shown(
            again.count - out.again.len(),
            "more message",
            "more messages",
        );
        out.earlier = match (again.count, before) {
            (0, 0) => Line::default(),
            (0, before) => format!(
                "{}, shown in earlier steps",
                format::counted(before, "earlier message")
            )
            .into(),
            _ => again.words("earlier message").into(),
        };
        if setup.count == 0
            && known
                .first
                .is_none_or(|first| system(first).next().is_none())
        {
            out.setup = String::new();
        }
        out
    }

    /// Adds the model's output, from its `model_output` event.
    #[must_use]
    pub(crate) fn with_output(
        mut self,
        output: &Event<'_>,
        links: ValueLinks,
        fold: &mut Fold,
    ) -> Self {
        let mine = fold.elsewhere(links);
        let text = output
            .output
            .and_then(|text| Some((text.string()?, text.at.to_string())));
        self.output = text.map(|(text, at)| fold.text(&text, &at));
        let calls = output.tool_calls.filter(|calls| !calls.is_empty());
        self.calls = calls.map(|calls| fold.json(&calls.json(), &calls.at.to_string()));
        fold.elsewhere(mine);
        self
    }
}

/// Maximum number of repeated messages that are listed. The earlier steps show them too.
const MAX_AGAIN: usize = 40;

/// A number of messages and their total size.
#[derive(Debug, Default)]
struct Size {
    count: usize,
    bytes: usize,
}

impl Size {
    fn add(&mut self, text: &str) {
        self.count += 1;
        self.bytes += text.len();
    }

    fn words(&self, what: &str) -> String {
        format!(
            "{}, {}",
            format::counted(self.count, what),
            format::bytes(self.bytes as u64)
        )
    }
}

/// The members of a message that may have its content, by the tool that wrote it.
pub(crate) const CONTENT: [&str; 4] = ["content", "parts", "content_json", "user_input"];

/// Returns the text of a block of a message's content, and the block's pointer to it.
pub(crate) fn text_of_block<'v>(block: &'v Json<'_>) -> Option<(&'v str, &'static str)> {
    let of = |block: &'v Json<'_>| block.get("text").and_then(Json::as_str);
    let own = of(block).map(|text| (text, "/text"));
    own.or_else(|| Some((of(block.get("data")?)?, "/data/text")))
}

/// A method of [`Fold`] that folds the text of a message, given its pointer.
type Folding = fn(&mut Fold, &str, &str) -> Folded;

impl Message {
    /// Reads the message at `at`. `folding` folds its texts.
    pub(crate) fn new(message: &Json<'_>, at: &str, folding: Folding, fold: &mut Fold) -> Self {
        let word = |key: &str| message.get(key).and_then(Json::as_str);
        let mut out = Self {
            role: word("role").or(word("type")).unwrap_or("no role").into(),
            facts: Line::default(),
            texts: Vec::new(),
            others: Vec::new(),
        };
        let key = CONTENT
            .into_iter()
            .find(|key| message.get(key).is_some())
            .unwrap_or("content");
        let at_content = format!("{at}/{key}");
        match message.get(key) {
            Some(Json::String(content)) => out.texts.push(folding(fold, content, &at_content)),
            Some(Json::Array(blocks)) => {
                for (index, block) in blocks.iter().enumerate() {
                    if !fold.takes(index) {
                        break;
                    }
                    let at = format!("{at_content}/{index}");
                    // Crush ends each message with one.
                    let is_end = block.get("type").and_then(Json::as_str) == Some("finish");
                    match (block, text_of_block(block)) {
                        _ if is_end => {}
                        (_, Some((content, within))) => {
                            out.texts
                                .push(folding(fold, content, &format!("{at}{within}")))
                        }
                        (Json::String(content), _) => out.texts.push(folding(fold, content, &at)),
                        _ => out.others.push(fold.json(block, &at)),
                    }
                }
            }
            Some(Json::Null) | None => {}
            Some(other) => out.others.push(fold.json(other, &at_content)),
        }
        for (member, value) in message.as_object().unwrap_or_default() {
            if !matches!(member.as_ref(), "role" | "type" | "_step_id" | "name")
                && member != key
                && !value.is_empty()
            {
                let named = Json::Object(vec![(member.clone(), value.clone())]);
                // This is the pointer of the message itself, because the shown object includes the
                // key.
                out.others.push(fold.json(&named, at));
            }
        }
        out.kind(message, key);
        out
    }

    /// Reads a message from a record of another tool: only its role and content. The rest of the
    /// record is in its events.
    pub(crate) fn spoken(message: &Json<'_>, at: &str, fold: &mut Fold) -> Self {
        let parts = ["role", "type"].into_iter().chain(CONTENT);
        let parts = parts.filter_map(|key| Some((key.into(), message.get(key)?.clone())));
        // A message without a role shows its type instead.
        let has_role = message.get("role").is_some();
        let parts = parts.filter(|(key, _): &(Cow<'_, str>, _)| !(has_role && key == "type"));
        Self::new(&Json::Object(parts.collect()), at, Fold::text, fold)
    }

    /// Shows a record that is only the content of a message: a text, or blocks.
    pub(crate) fn alone(role: &str, content: &Json<'_>, fold: &mut Fold) -> Self {
        let mut out = Self {
            role: role.into(),
            facts: Line::default(),
            texts: Vec::new(),
            others: Vec::new(),
        };
        match content {
            Json::String(words) => {
                out.facts = format::bytes(words.len() as u64).into();
                out.texts.push(fold.text(words, ""));
            }
            _ => {
                for (index, block) in content.as_array().unwrap_or_default().iter().enumerate() {
                    if !fold.takes(index) {
                        break;
                    }
                    match block.get("text").and_then(Json::as_str) {
                        Some(words) => out.texts.push(fold.text(words, &format!("/{index}/text"))),
                        None => out.others.push(fold.json(block, &format!("/{index}"))),
                    }
                }
            }
        }
        out
    }

    fn kind(&mut self, message: &Json<'_>, key: &str) {
        let word = |key: &str| message.get(key).and_then(Json::as_str);
        let step = message
            .get("_step_id")
            .map(|step| format!("from step {step}"));
        let size = Some(format::bytes(
            message
                .get(key)
                .map_or(0, |content| content.to_string().len() as u64),
        ));
        let facts: Vec<_> = [word("name").map(str::to_owned), step, size]
            .into_iter()
            .flatten()
            .collect();
        self.facts = facts.join(" · ").into();
    }
}

#[cfg(test)]
mod tests {
    use crate::page::part::prompt::*;

    fn event_of(text: &str) -> Event<'_> {
        crate::format::event_in(text)
    }

    #[test]
    fn messages_keep_their_order_and_their_links() {
        let event = r#"{"payload": {"messages": [{"role": "system", "content": "Be exact."},
            {"role": "user", "content": [{"type": "text", "text": "Look"}, {"type": "image_base64", "data": "AAAA"}], "_step_id": 2},
            {"role": "assistant", "content": null, "tool_calls": [{"id": 1}]}, "odd"]}}"#;
        let fold = &mut Fold::new(ValueLinks {
            value: "/step".into(),
            raw: String::new(),
        });
        let links = ValueLinks {
            value: "/event".into(),
            raw: String::new(),
        };
        let long = "x".repeat(crate::page::part::fold::LONG + 1);
        let output = format!(r#"{{"payload": {{"raw_output": "{long}"}}}}"#);
        let known = EarlierPrompt {
            setup: "/setup".into(),
            ..EarlierPrompt::default()
        };
        let prompt = Prompt::new(&event_of(event), &known, links.clone(), fold).with_output(
            &event_of(&output),
            links,
            fold,
        );
        let roles: Vec<_> = prompt
            .messages
            .iter()
            .map(|message| message.role.as_str())
            .collect();
        assert_eq!(roles, ["system", "user", "assistant", "no role"]);
        assert!(prompt.summary.as_str().starts_with("4 messages, "));
        assert!(prompt.messages[1].facts.as_str().contains("from step 2"));
        let html = prompt.render().unwrap();
        assert!(
            html.contains("Be exact.")
                && html.contains("tool_calls")
                && html.contains("image_base64"),
            "{html}"
        );
        assert!(
            html.contains("/event?at=%2Fpayload%2Fraw_output"),
            "links lead to the event"
        );
        assert_eq!(fold.links.value, "/step");
    }

    #[test]
    fn messages_told_before_are_counted_where_the_writer_leaves_them_out() {
        let event = r#"{"payload": {"history_message_count": 12, "messages": [{"role": "user", "content": "Go on."}]}}"#;
        let fold = &mut Fold::new(ValueLinks::default());
        let mut read = |only_news| {
            let known = EarlierPrompt {
                only_news,
                ..EarlierPrompt::default()
            };
            Prompt::new(&event_of(event), &known, ValueLinks::default(), fold)
        };
        let (ours, other) = (read(true), read(false));
        assert_eq!(
            ours.earlier.as_str(),
            "12 earlier messages, shown in earlier steps"
        );
        assert!(ours.summary.as_str().starts_with("1 new message, "));
        assert_eq!(
            (
                other.earlier.as_str(),
                other.summary.as_str().starts_with("1 message, ")
            ),
            ("", true)
        );
        let output = r#"{"payload": {"raw_output": "", "tool_calls": [{"name": "run_tests"}]}}"#;
        let html = ours
            .with_output(&event_of(output), ValueLinks::default(), fold)
            .render()
            .unwrap();
        assert!(
            html.contains("12 earlier messages") && html.contains("run_tests"),
            "{html}"
        );
    }

    #[test]
    fn only_what_the_step_before_did_not_say_is_news() {
        let system = r#"{"role": "system", "content": "Be exact."}"#;
        let (ask, again) = (
            r#"{"role": "user", "content": "Go on."}"#,
            r#"{"role": "user", "content": "And?"}"#,
        );
        let first = format!("[{system}, {ask}]");
        let event = format!(r#"{{"payload": {{"messages": [{system}, {ask}, {again}, {ask}]}}}}"#);
        let known = EarlierPrompt {
            before: Some((&first, "3".into())),
            first: Some(&first),
            only_news: false,
            setup: "/setup".into(),
        };
        let links = ValueLinks {
            value: "/event".into(),
            raw: String::new(),
        };
        let prompt = Prompt::new(
            &event_of(&event),
            &known,
            links,
            &mut Fold::new(ValueLinks::default()),
        );
        assert!(
            prompt.summary.as_str().starts_with("2 new messages, "),
            "{}",
            prompt.summary
        );
        assert!(
            prompt.summary.as_str().ends_with(" since step 3"),
            "{}",
            prompt.summary
        );
        let parts: Vec<_> = prompt
            .messages
            .iter()
            .map(|message| message.texts[0].shown.as_str())
            .collect();
        assert_eq!(
            parts,
            ["And?", "Go on."],
            "a repeated message counts as new"
        );
        assert!(
            prompt.earlier.as_str().starts_with("1 earlier message, "),
            "{}",
            prompt.earlier
        );
        let html = prompt.render().unwrap();
        assert!(
            !html.contains("Be exact.") && html.contains("/setup"),
            "the system prompt is shown separately: {html}"
        );
    }

    #[test]
    fn hostile_messages_are_text() {
        let e = serde_json::to_string("<script></textarea>\"'\u{202e}\u{0}").unwrap();
        let event = format!(
            r#"{{"payload": {{"messages": [{{"role": {e}, "content": {e}, "name": {e}, {e}: {e}}}, {{"content": [{{"text": {e}}}, {e}]}}], "raw_output": {e}}}}}"#
        );
        let event = event_of(&event);
        let fold = &mut Fold::new(ValueLinks::default());
        let html = Prompt::new(
            &event,
            &EarlierPrompt::default(),
            ValueLinks::default(),
            fold,
        )
        .with_output(&event, ValueLinks::default(), fold)
        .render()
        .unwrap();
        assert!(
            !html.contains("<script") && !html.contains("</textarea"),
            "{html}"
        );
        assert!(
            !html.contains('\u{202e}') && !html.contains('\u{0}'),
            "{html}"
        );
    }
}
