//! What was said to the model before a step, and what did it write? Finds the prompt of the step and those before it.
//!
//! Of other tools' runs the records between two replies of the model tell it, where they say who speaks.

use crate::model::index::Group;
use crate::model::json::{Json, walk};
use crate::model::step::Value;
use crate::model::{EventKind, Record, TraceFile};
use crate::page::lens::Lens;
use crate::page::part::fold::{Fold, ValueLinks};
use crate::page::part::href;
use crate::page::part::prompt::{EarlierPrompt, Message, Prompt};
use crate::page::step::fill::event_of;

/// The prompt before is looked for in so many rounds.
const MAX_ROUNDS: usize = 50;
/// So many records between two replies are looked at.
const MAX_RECORDS: usize = 200;
/// The prompt of a reply is looked for in so many of its records.
const MAX_OWN: usize = 4;

/// The prompt of a step whose events are `group`.
pub(crate) fn prompt(lens: &Lens<'_>, n: usize, group: &Group, fold: &mut Fold) -> Option<Prompt> {
    if lens.index.format().assemble.is_some() {
        return of_records(lens, n, fold);
    }
    let links = |at: usize| ValueLinks::below(&href::event(lens.key(), at));
    let (at, input) = event_of(lens, group, EventKind::Prompt)?;
    let before = before(lens, group);
    let first = first_prompt(lens, group).filter(|(first, _)| *first != at);
    let event = crate::format::event(&input);
    let messages = |record: &'_ Record<'_>| crate::format::event(record).messages.map(|list| list.text.to_owned());
    let before = before.and_then(|(record, label)| Some((messages(&record)?, label)));
    let first = match &first {
        Some((_, record)) => messages(record),
        None => event.messages.map(|list| list.text.to_owned()),
    };
    let known = EarlierPrompt {
        before: before.as_ref().map(|(list, label)| (list.as_str(), label.clone())),
        first: first.as_deref(),
        only_news: lens.index.format().prompts_hold_news,
        setup: href::tab(lens.key(), "prompt"),
    };
    let prompt = Prompt::new(&event, &known, links(at), fold);
    let Some((at, output)) = event_of(lens, group, EventKind::Output) else { return Some(prompt) };
    Some(prompt.with_output(&crate::format::event(&output), links(at), fold))
}

/// The newest prompt in the rounds before this one, and its step.
fn before(lens: &Lens<'_>, group: &Group) -> Option<(Record<'static>, String)> {
    let own = lens.index.groups().partition_point(|other| other.first < group.first);
    let run = lens.index.run_of(own);
    for at in (0..own).rev().take(MAX_ROUNDS).take_while(|at| lens.index.run_of(*at) == run) {
        let Some(group) = lens.index.groups().get(at) else { continue };
        if let Some((_, record)) = event_of(lens, group, EventKind::Prompt) {
            let label = match (lens.index.step_of(at), group.step_id) {
                (Some(n), _) => lens.label(n),
                (None, Some(id)) => id.to_string(),
                (None, None) => "without id".to_owned(),
            };
            return Some((record, label));
        }
    }
    None
}

/// The first prompt of the run in the directory that the round belongs to.
fn first_prompt(lens: &Lens<'_>, group: &Group) -> Option<(usize, Record<'static>)> {
    let own = lens.index.groups().partition_point(|other| other.first < group.first);
    let segment = lens.index.segments().get(lens.index.run_of(own)?)?;
    let events = lens.index.events().range(segment.first_event..group.end);
    let (offset, event) = events.enumerate().find(|(_, event)| event.kind == EventKind::Prompt)?;
    Some((segment.first_event + offset, lens.lines.record(TraceFile::Events, event.span).ok()?))
}

/// What other tools' records tell: the list of messages in a record of the reply itself.
fn of_records(lens: &Lens<'_>, n: usize, fold: &mut Fold) -> Option<Prompt> {
    let own = parts(lens, n);
    if let Some((at, record)) = own.iter().take(MAX_OWN).find_map(|at| listed(lens, *at)) {
        let before = n.checked_sub(1).and_then(|before| {
            let (_, record) = parts(lens, before).iter().take(MAX_OWN).find_map(|at| listed(lens, *at))?;
            Some((record, lens.label(before)))
        });
        let first = parts(lens, 0).iter().take(MAX_OWN).find_map(|at| listed(lens, *at)).map(|(_, record)| record);
        let list = |record: &'_ Record<'_>| input(&record.text).map(str::to_owned);
        let before = before.and_then(|(record, label)| Some((list(&record)?, label)));
        let first = first.as_ref().and_then(list);
        let known = EarlierPrompt {
            before: before.as_ref().map(|(list, label)| (list.as_str(), label.clone())),
            first: first.as_deref(),
            only_news: false,
            setup: href::tab(lens.key(), "prompt"),
        };
        let links = ValueLinks::below(&href::event(lens.key(), at));
        return Some(Prompt::of_list(input(&record.text)?, "/input", 0, &known, links, fold));
    }
    None
}

/// What was said to the agent of another tool between the reply before and this one, and is no part of either.
pub(crate) fn asked(lens: &Lens<'_>, n: usize, fold: &mut Fold) -> Option<Prompt> {
    lens.index.format().assemble?;
    let messages = between(lens, n, fold);
    (!messages.is_empty()).then(|| Prompt { messages, ..Prompt::default() })
}

/// The records that a step is put together from.
fn parts(lens: &Lens<'_>, n: usize) -> Vec<usize> {
    let parts = lens.index.steps().get(n).map(|step| step.parts.iter());
    parts.into_iter().flatten().filter_map(|at| usize::try_from(*at).ok()).collect()
}

/// A record that holds the list of messages that the model was sent.
fn listed(lens: &Lens<'_>, at: usize) -> Option<(usize, Record<'static>)> {
    let record = lens.lines.record(TraceFile::Events, lens.index.events().get(at)?.span).ok()?;
    input(&record.text)?;
    Some((at, record))
}

/// That list: objects that say who speaks.
pub(crate) fn input(record: &str) -> Option<&str> {
    let input = Value { text: record, ..Value::default() }.get("input").filter(|input| input.starts_with('['))?;
    let has_role = |message| Value { text: message, ..Value::default() }.get("role").is_some();
    let mut items = walk::items(input).peekable();
    items.peek()?;
    items.all(has_role).then_some(input)
}

fn between(lens: &Lens<'_>, n: usize, fold: &mut Fold) -> Vec<Message> {
    let before = n.checked_sub(1).map(|before| parts(lens, before)).unwrap_or_default();
    let own = parts(lens, n);
    let Some(end) = own.first().copied() else { return Vec::new() };
    let start = before.first().map_or(0, |first| first + 1);
    let mut found: Vec<Message> = Vec::new();
    let mut known: Vec<String> = Vec::new();
    for at in (start..end).filter(|at| !before.contains(at)).take(MAX_RECORDS) {
        let Some(event) = lens.index.events().get(at) else { continue };
        let Ok(record) = lens.lines.record(TraceFile::Events, event.span) else { continue };
        let Some(json) = Json::parse(&record.text) else { continue };
        let Some((pointer, message)) = spoken(&json) else { continue };
        // A message may be told of twice, as a record of the program and as one of its log.
        let words = text_of(message);
        if known.contains(&words) || !fold.takes(found.len()) {
            continue;
        }
        known.push(words);
        let mine = fold.elsewhere(ValueLinks::below(&href::event(lens.key(), at)));
        found.push(Message::spoken(message, pointer, fold));
        fold.elsewhere(mine);
    }
    found
}

/// Where a message may stand in a record.
const PLACES: [(&str, &[&str]); 6] = [
    ("", &[]),
    ("/message", &["message"]),
    ("/payload", &["payload"]),
    ("/payload/item", &["payload", "item"]),
    ("/llm_message", &["llm_message"]),
    ("/args", &["args"]),
];

/// The message in a record that is not the model's, and its place there.
fn spoken<'v, 'a>(record: &'v Json<'a>) -> Option<(&'static str, &'v Json<'a>)> {
    let source = record.get("source").and_then(Json::as_str);
    PLACES.iter().find_map(|(pointer, way)| {
        let message = way.iter().try_fold(record, |at, key| at.get(key))?;
        let role = message.get("role").or(message.get("type")).and_then(Json::as_str).or(source)?;
        let has_words = ["content", "parts"].iter().any(|key| message.get(key).is_some_and(|value| !value.is_empty()));
        let speaks = matches!(role, "user" | "system" | "developer" | "UserMessage") && has_words;
        speaks.then_some((*pointer, message))
    })
}

/// All that a message says.
fn text_of(message: &Json<'_>) -> String {
    let content = message.get("content").or(message.get("parts"));
    match content {
        Some(Json::String(text)) => text.to_string(),
        Some(Json::Array(blocks)) => {
            let text = |block: &Json<'_>| block.as_str().or(block.get("text")?.as_str()).map(str::to_owned);
            blocks.iter().filter_map(text).collect::<Vec<_>>().join("\n")
        }
        _ => String::new(),
    }
}
