//! What was the model asked, and what did it write? Reads the payloads of `model_input` and `model_output` events.

use askama::Template;
use askama::filters::HtmlSafe;

use crate::analysis::format;
use crate::model::event::Event;
use crate::model::json::Json;
use crate::model::step::Value;
use crate::page::part::action::not_shown;
use crate::page::part::fold::{Fold, Folded, ValueLinks};
use crate::page::part::json_tree::JsonView;
use crate::page::part::text::Line;

/// The Prompt section of a step: one call of a model.
#[derive(Debug, Clone, Default, Template)]
#[template(path = "part/prompt.html")]
pub(crate) struct Prompt {
    /// How many messages and how much text; empty where there is no new one.
    pub summary: Line,
    /// How many were sent besides, and where they stand; empty for none.
    pub earlier: Line,
    pub messages: Vec<Message>,
    /// What is said of those that are not shown.
    pub more: Line,
    pub output: Option<Folded>,
    /// The tools it called besides.
    pub calls: Option<JsonView>,
}

impl HtmlSafe for Prompt {}

#[derive(Debug, Clone)]
pub(crate) struct Message {
    /// Who speaks.
    pub role: Line,
    /// Size, name and origin.
    pub facts: Line,
    pub texts: Vec<Folded>,
    /// What is in it besides text.
    pub others: Vec<JsonView>,
}

impl Prompt {
    /// Reads the messages of an event; `links` address that event. `only_new` is whether the writer leaves out the messages
    /// of the prompts before.
    pub(crate) fn new(input: &Event<'_>, only_new: bool, links: ValueLinks, fold: &mut Fold) -> Self {
        let mine = fold.elsewhere(links);
        let list = input.messages.map(Value::json);
        let list = list.as_ref();
        let all = list.and_then(Json::as_array).unwrap_or_default();
        let mut messages = Vec::new();
        for (index, message) in all.iter().enumerate() {
            if !fold.takes(index) {
                break;
            }
            messages.push(Message::new(message, &format!("/payload/messages/{index}"), fold));
        }
        let more = not_shown(all.len() - messages.len(), "more message", "more messages");
        fold.elsewhere(mine);
        let size = list.map_or(0, |list| list.to_string().len());
        let mut summary = format!("{}, {}", format::counted(all.len(), "message"), format::bytes(size as u64));
        let earlier = input.messages_before.filter(|earlier| only_new && *earlier >= 1.0).unwrap_or_default() as usize;
        let earlier = (earlier > 0).then(|| {
            summary = match all.len() {
                0 => String::new(),
                new => format!("{}, {}", format::counted(new, "new message"), format::bytes(size as u64)),
            };
            let nothing = if messages.is_empty() { "; no new one" } else { "" };
            format!("{}, shown in the steps before{nothing}", format::counted(earlier, "earlier message")).into()
        });
        Self {
            summary: summary.into(),
            earlier: earlier.unwrap_or_default(),
            messages,
            more,
            output: None,
            calls: None,
        }
    }

    /// Adds what the model wrote, from its `model_output` event.
    #[must_use]
    pub(crate) fn with_output(mut self, output: &Event<'_>, links: ValueLinks, fold: &mut Fold) -> Self {
        let mine = fold.elsewhere(links);
        let text = output.output.and_then(|text| Some((text.string()?, text.at.to_string())));
        self.output = text.map(|(text, at)| fold.text(&text, &at));
        let calls = output.tool_calls.filter(|calls| !calls.is_empty());
        self.calls = calls.map(|calls| fold.json(&calls.json(), &calls.at.to_string()));
        fold.elsewhere(mine);
        self
    }
}

impl Message {
    fn new(message: &Json<'_>, at: &str, fold: &mut Fold) -> Self {
        let word = |key: &str| message.get(key).and_then(Json::as_str);
        let mut out = Self {
            role: word("role").unwrap_or("no role").into(),
            facts: Line::default(),
            texts: Vec::new(),
            others: Vec::new(),
        };
        let at_content = format!("{at}/content");
        match message.get("content") {
            Some(Json::String(content)) => out.texts.push(fold.text(content, &at_content)),
            Some(Json::Array(blocks)) => {
                for (index, block) in blocks.iter().enumerate() {
                    let at = format!("{at_content}/{index}");
                    match block.get("text").and_then(Json::as_str) {
                        Some(content) => out.texts.push(fold.text(content, &format!("{at}/text"))),
                        None => out.others.push(fold.json(block, &at)),
                    }
                }
            }
            Some(Json::Null) | None => {}
            Some(other) => out.others.push(fold.json(other, &at_content)),
        }
        for (key, value) in message.as_object().unwrap_or_default() {
            if !matches!(key.as_ref(), "role" | "content" | "_step_id" | "name") && !value.is_empty() {
                let named = Json::Object(vec![(key.clone(), value.clone())]);
                // The pointer of the message itself: the member keeps its key inside the shown object.
                out.others.push(fold.json(&named, at));
            }
        }
        let step = message.get("_step_id").map(|step| format!("from step {step}"));
        let size = Some(format::bytes(message.get("content").map_or(0, |content| content.to_string().len() as u64)));
        let facts: Vec<_> = [word("name").map(str::to_owned), step, size].into_iter().flatten().collect();
        out.facts = facts.join(" · ").into();
        out
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
        let fold = &mut Fold::new(ValueLinks { value: "/step".into(), raw: String::new() });
        let links = ValueLinks { value: "/event".into(), raw: String::new() };
        let long = "x".repeat(crate::page::part::fold::LONG + 1);
        let output = format!(r#"{{"payload": {{"raw_output": "{long}"}}}}"#);
        let prompt =
            Prompt::new(&event_of(event), false, links.clone(), fold).with_output(&event_of(&output), links, fold);
        let roles: Vec<_> = prompt.messages.iter().map(|message| message.role.as_str()).collect();
        assert_eq!(roles, ["system", "user", "assistant", "no role"]);
        assert!(prompt.summary.as_str().starts_with("4 messages, "));
        assert!(prompt.messages[1].facts.as_str().contains("from step 2"));
        let html = prompt.render().unwrap();
        assert!(html.contains("Be exact.") && html.contains("tool_calls") && html.contains("image_base64"), "{html}");
        assert!(html.contains("/event?at=%2Fpayload%2Fraw_output"), "links lead to the event");
        assert_eq!(fold.links.value, "/step");
    }

    #[test]
    fn messages_told_before_are_counted_where_the_writer_leaves_them_out() {
        let event =
            r#"{"payload": {"history_message_count": 12, "messages": [{"role": "user", "content": "Go on."}]}}"#;
        let fold = &mut Fold::new(ValueLinks::default());
        let mut read = |only_new| Prompt::new(&event_of(event), only_new, ValueLinks::default(), fold);
        let (ours, other) = (read(true), read(false));
        assert_eq!(ours.earlier.as_str(), "12 earlier messages, shown in the steps before");
        assert!(ours.summary.as_str().starts_with("1 new message, "));
        assert_eq!((other.earlier.as_str(), other.summary.as_str().starts_with("1 message, ")), ("", true));
        let output = r#"{"payload": {"raw_output": "", "tool_calls": [{"name": "run_tests"}]}}"#;
        let html = ours.with_output(&event_of(output), ValueLinks::default(), fold).render().unwrap();
        assert!(html.contains("12 earlier messages") && html.contains("run_tests"), "{html}");
    }

    #[test]
    fn hostile_messages_are_text() {
        let e = serde_json::to_string("<script></textarea>\"'\u{202e}\u{0}").unwrap();
        let event = format!(
            r#"{{"payload": {{"messages": [{{"role": {e}, "content": {e}, "name": {e}, {e}: {e}}}, {{"content": [{{"text": {e}}}, {e}]}}], "raw_output": {e}}}}}"#
        );
        let event = event_of(&event);
        let fold = &mut Fold::new(ValueLinks::default());
        let html = Prompt::new(&event, false, ValueLinks::default(), fold)
            .with_output(&event, ValueLinks::default(), fold)
            .render()
            .unwrap();
        assert!(!html.contains("<script") && !html.contains("</textarea"), "{html}");
        assert!(!html.contains('\u{202e}') && !html.contains('\u{0}'), "{html}");
    }
}
