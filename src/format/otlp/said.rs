//! Reads messages from the events of a span, and from log records that name a span. Up to version
//! 1.36, the conventions put messages there instead of in attributes of the span.

use std::collections::HashMap;

use super::super::value::{filled, is_text, member, unpacked};
use super::span::{Choice, Message, Raw, Span, SpanEvent, attributes, plain, said};
use crate::format::Part;
use crate::format::part::text;
use crate::model::json::walk;

/// An event of a span, or a log record.
struct Told<'a> {
    name: String,
    attributes: HashMap<String, &'a str>,
    body: Option<&'a str>,
}

impl Told<'_> {
    /// Returns the value of an attribute as JSON. Text that contains JSON is parsed.
    fn json(&self, key: &str) -> Option<String> {
        let value = plain(self.attributes.get(key)?, 0);
        Some(text(Some(&value)).map_or(value, |text| unpacked(&text)))
            .filter(|value| value != "null")
    }

    /// Returns the content as a JSON object: the body, the attribute that replaces it, or the
    /// attributes themselves.
    fn content(&self) -> String {
        let body = self
            .body
            .map(|body| plain(body, 0))
            .filter(|body| body != "null");
        let body = body.map(|body| text(Some(&body)).map_or(body, |text| unpacked(&text)));
        if let Some(object) = body.or_else(|| self.json("gen_ai.event.content")) {
            return object;
        }
        let members = ["message", "content", "tool_calls", "finish_reason"];
        let members = members
            .into_iter()
            .filter_map(|key| Some(format!("\"{key}\":{}", self.json(key)?)));
        format!("{{{}}}", members.collect::<Vec<_>>().join(","))
    }

    /// Adds the event's share of a reply.
    fn add_to(&self, part: &mut Part) {
        match &*self.name {
            "gen_ai.choice" => {
                let content = self.content();
                let choice = Choice::of(&content);
                let message = match choice.message {
                    Some(message) if is_text(Some(message)) => {
                        part.text.extend(filled(Some(message)));
                        Message::default()
                    }
                    Some(message) => Message::of(message),
                    None => Message::of(&content),
                };
                add(&message, part);
                part.finish = filled(choice.finish_reason).or(part.finish.take());
            }
            "gen_ai.content.completion" => {
                let content = self.json("gen_ai.completion").unwrap_or_default();
                match content.starts_with('[') {
                    true => {
                        walk::items(&content).for_each(|message| add(&Message::of(message), part))
                    }
                    false => part.text.extend(filled(Some(&content))),
                }
            }
            _ => {
                let messages = self.json("gen_ai.output.messages");
                for message in messages
                    .as_deref()
                    .into_iter()
                    .flat_map(walk::items)
                    .map(Message::of)
                {
                    add(&message, part);
                    part.finish = filled(message.finish_reason).or(part.finish.take());
                }
            }
        }
    }

    /// Returns the user's request.
    fn asked(&self) -> Option<String> {
        let content = match &*self.name {
            "gen_ai.user.message" => self.content(),
            "gen_ai.content.prompt" => self.json("gen_ai.prompt")?,
            _ => self.json("gen_ai.input.messages")?,
        };
        if is_text(Some(&content)) {
            return filled(Some(&content));
        }
        let users = |message: &Message<'_>| message.role.is_none_or(|role| role == "\"user\"");
        let spoken =
            |message: Message<'_>| Some(said(&message).0).filter(|words| !words.is_empty());
        match content.starts_with('[') {
            true => walk::items(&content)
                .map(Message::of)
                .filter(users)
                .find_map(spoken),
            false => Some(Message::of(&content)).filter(users).and_then(spoken),
        }
    }
}

fn add(message: &Message<'_>, part: &mut Part) {
    let (words, thought, calls) = said(message);
    part.text
        .extend(Some(words).filter(|words| !words.is_empty()));
    part.thought.extend(thought);
    part.calls.extend(calls);
}

impl Span<'_> {
    /// Returns whether the record is a log record.
    pub(super) fn is_log(&self) -> bool {
        let Raw {
            start,
            name,
            body,
            event,
            observed,
            time,
            ..
        } = self.raw;
        start.is_none()
            && name.is_none()
            && [body, event, observed, time].iter().any(Option::is_some)
    }

    fn events(&self) -> impl Iterator<Item = Told<'_>> {
        let events = self
            .raw
            .events
            .into_iter()
            .flat_map(walk::items)
            .map(SpanEvent::of);
        let own = self.is_log().then(|| Told {
            name: filled(self.raw.event)
                .or_else(|| self.text(&["event.name"]))
                .unwrap_or_default(),
            attributes: self.attributes.clone(),
            body: self.raw.body,
        });
        let of_span = events.map(|event| Told {
            name: text(event.name).unwrap_or_default(),
            attributes: attributes(event.attributes),
            body: None,
        });
        own.into_iter().chain(of_span)
    }

    /// Adds the text of its reply from its events.
    pub(super) fn said_in_events(&self, part: &mut Part) {
        self.events().for_each(|event| event.add_to(part));
    }

    /// Returns a tool's output as JSON, if an event of its span records it.
    pub(super) fn gave_in_events(&self) -> Option<String> {
        self.events()
            .filter(|event| event.name == "gen_ai.tool.message")
            .find_map(|event| {
                let content = event.content();
                member(&content, "content")
                    .filter(|content| *content != "null")
                    .map(str::to_owned)
            })
    }

    /// Returns the user's request, if an event records it.
    pub(super) fn asked_in_events(&self) -> Option<String> {
        self.events().find_map(|event| event.asked())
    }
}
