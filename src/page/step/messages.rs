//! Finds the prompt of a step, the prompts before it, and the model's output.
//!
//! In traces of other tools, these come from the records between two replies of the model, if the
//! records name the speaker.

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use crate::analysis::format::count;
use crate::format::{MESSAGE, OwnWords, SYSTEM, USER_SHELL, UserShell, own_words_of};
use crate::model::index::Group;
use crate::model::json::{Json, walk};
use crate::model::step::Value;
use crate::model::{CallEnd, Compaction, EventKind, Index, Record, Symbol, TraceFile};
use crate::page::part::attachment;
use crate::page::part::fold::{Fold, ValueLinks};
use crate::page::part::href;
use crate::page::part::json_tree::token;
use crate::page::part::prompt::{CONTENT, EarlierPrompt, Message, Prompt, text_of_block};
use crate::page::part::text::{Line, one_line};
use crate::page::run_view::RunView;
use crate::page::step::stored_texts::with_texts;

/// Limits the rounds searched for the previous prompt.
const MAX_ROUNDS: usize = 50;
/// Limits the records read between two replies.
const MAX_RECORDS: usize = 200;
/// Limits the records of a reply that are searched for its prompt.
const MAX_OWN: usize = 4;
/// Longer records aren't read for a list of steps; bytes.
pub(super) const MAX_LISTED_BYTES: u64 = 256 << 10;

/// Returns the prompt of step `n`, whose events are `group`.
pub(crate) fn prompt(
    view: &RunView<'_>,
    n: usize,
    group: &Group,
    fold: &mut Fold,
) -> Option<Prompt> {
    if view.index.format().assemble.is_some() {
        return of_records(view, n, fold);
    }
    let links = |at: usize| ValueLinks::below(&href::event(view.key(), at));
    let (at, input) = event_of(view, group, EventKind::Prompt)?;
    let before = before(view, group);
    let first = first_prompt(view, group).filter(|(first, _)| *first != at);
    let event = crate::format::event(&input);
    let messages = |record: &'_ Record<'_>| {
        crate::format::event(record)
            .messages
            .map(|list| list.text.to_owned())
    };
    let before = before.and_then(|(record, label)| Some((messages(&record)?, label)));
    let first = match &first {
        Some((_, record)) => messages(record),
        None => event.messages.map(|list| list.text.to_owned()),
    };
    let known = EarlierPrompt {
        before: before
            .as_ref()
            .map(|(list, label)| (list.as_str(), label.clone())),
        first: first.as_deref(),
        only_news: view.index.format().prompts_hold_news,
        setup: href::tab(view.key(), "prompt"),
    };
    let prompt = Prompt::new(&event, &known, links(at), fold);
    let Some((at, output)) = event_of(view, group, EventKind::Output) else {
        return Some(prompt);
    };
    Some(prompt.with_output(&crate::format::event(&output), links(at), fold))
}

/// Returns the newest prompt in earlier rounds, and the label of its step.
fn before(view: &RunView<'_>, group: &Group) -> Option<(Record<'static>, String)> {
    let own = view
        .index
        .groups()
        .partition_point(|other| other.first < group.first);
    let run = view.index.run_of(own);
    for at in (0..own)
        .rev()
        .take(MAX_ROUNDS)
        .take_while(|at| view.index.run_of(*at) == run)
    {
        let Some(group) = view.index.groups().get(at) else {
            continue;
        };
        if let Some((_, record)) = event_of(view, group, EventKind::Prompt) {
            let label = match (view.index.step_of(at), group.step_id) {
                (Some(n), _) => view.label(n),
                (None, Some(id)) => id.to_string(),
                (None, None) => "without an id".to_owned(),
            };
            return Some((record, label));
        }
    }
    None
}

/// Returns the first prompt of the round's run within the directory.
fn first_prompt(view: &RunView<'_>, group: &Group) -> Option<(usize, Record<'static>)> {
    let own = view
        .index
        .groups()
        .partition_point(|other| other.first < group.first);
    let segment = view.index.segments().get(view.index.run_of(own)?)?;
    let events = view.index.events().range(segment.first_event..group.end);
    let (offset, event) = events
        .enumerate()
        .find(|(_, event)| event.kind == EventKind::Prompt)?;
    Some((
        segment.first_event + offset,
        view.lines.record(TraceFile::Events, event.span).ok()?,
    ))
}

/// Returns the prompt from the reply's own records in a trace of another tool, if one of them lists
/// the messages.
fn of_records(view: &RunView<'_>, n: usize, fold: &mut Fold) -> Option<Prompt> {
    let own = parts(view, n);
    if let Some((at, record)) = own.take(MAX_OWN).find_map(|at| listed(view, at)) {
        let before = n.checked_sub(1).and_then(|before| {
            let (_, record) = parts(view, before)
                .take(MAX_OWN)
                .find_map(|at| listed(view, at))?;
            Some((record, view.label(before)))
        });
        let first = parts(view, 0)
            .take(MAX_OWN)
            .find_map(|at| listed(view, at))
            .map(|(_, record)| record);
        let list = |record: &'_ Record<'_>| input(&record.text).map(str::to_owned);
        let before = before.and_then(|(record, label)| Some((list(&record)?, label)));
        let first = first.as_ref().and_then(list);
        let known = EarlierPrompt {
            before: before
                .as_ref()
                .map(|(list, label)| (list.as_str(), label.clone())),
            first: first.as_deref(),
            only_news: false,
            setup: href::tab(view.key(), "prompt"),
        };
        let links = ValueLinks::below(&href::event(view.key(), at));
        return Some(Prompt::of_list(
            input(&record.text)?,
            "/input",
            0,
            &known,
            links,
            fold,
        ));
    }
    None
}

/// Returns what the agent of another tool was sent between the previous reply and this one, without
/// the replies themselves.
pub(crate) fn new_messages(view: &RunView<'_>, n: usize, fold: &mut Fold) -> Option<Prompt> {
    view.index.format().assemble?;
    let messages = between(view, n, fold);
    (!messages.is_empty()).then(|| Prompt {
        messages,
        ..Prompt::default()
    })
}

/// Returns the records that a step is assembled from.
fn parts(view: &RunView<'_>, n: usize) -> impl Iterator<Item = usize> {
    view.index.parts_of(n).flatten()
}

/// Returns a record that contains the list of messages sent to the model.
fn listed(view: &RunView<'_>, at: usize) -> Option<(usize, Record<'static>)> {
    let record = view
        .lines
        .record(TraceFile::Events, view.index.events().get(at)?.span)
        .ok()?;
    input(&record.text)?;
    Some((at, with_texts(view, record)))
}

/// Returns that list if all its objects name the speaker.
pub(crate) fn input(record: &str) -> Option<&str> {
    let input = Value {
        text: record,
        ..Value::default()
    }
    .get("input")
    .filter(|input| input.starts_with('['))?;
    let has_role = |message| {
        Value {
            text: message,
            ..Value::default()
        }
        .get("role")
        .is_some()
    };
    let mut items = walk::items(input).peekable();
    items.peek()?;
    items.all(has_role).then_some(input)
}

/// A prompt by the user, or text that the user typed while a tool ran and the model read
/// afterwards.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Prompted {
    /// The event that records it, if one does.
    pub event: Option<usize>,
    /// When it was recorded, in microseconds since the epoch.
    pub ts: Option<i64>,
    /// The text. Empty if the prompt consists of pictures.
    pub words: String,
    /// Whether that event contains pictures.
    pub has_pictures: bool,
}

/// A shell command that the user ran, without asking the model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct UserCommand {
    /// The event that records the command, and the one that records its output.
    pub event: usize,
    pub output_event: usize,
    /// When it was recorded, in microseconds since the epoch.
    pub ts: Option<i64>,
    /// The command. Empty if only its output is recorded.
    pub command: String,
    /// The output, if recorded.
    pub output: Option<String>,
    /// Whether the output is in a record that is too long to be read for a list.
    pub is_too_long: bool,
    /// The exit code, if recorded.
    pub exit: Option<i64>,
}

/// Returns the commands that the user ran between the previous reply and step `n`, at most `most`.
pub(crate) fn user_commands_before(view: &RunView<'_>, n: usize, most: usize) -> Vec<UserCommand> {
    let mut found: Vec<UserCommand> = Vec::new();
    let (Some(stage), Some(events)) = (view.index.names().find(USER_SHELL), events_before(view, n))
    else {
        return found;
    };
    let all = view.index.events().range(events.clone());
    for (offset, event) in all.enumerate().filter(|(_, event)| event.stage == stage) {
        let at = events.start + offset;
        let is_too_long = event.span.len > MAX_LISTED_BYTES;
        let record = (!is_too_long)
            .then(|| view.lines.record(TraceFile::Events, event.span).ok())
            .flatten();
        let json = record.as_ref().and_then(|record| Json::parse(&record.text));
        let words = json.as_ref();
        let words = words.and_then(|json| prompted(json, words_of(view)));
        let words = words.unwrap_or_default();
        let ran = json
            .as_ref()
            .and_then(UserShell::in_record)
            .or_else(|| UserShell::of(&words))
            .or(is_too_long.then(UserShell::default));
        let Some(ran) = ran else {
            continue;
        };
        // Claude Code writes the output after its command.
        let waiting = found
            .last_mut()
            .filter(|last| last.output.is_none() && !last.is_too_long);
        if let (None, Some(waiting)) = (&ran.command, waiting) {
            (waiting.output, waiting.output_event) = (ran.whole_output(), at);
            waiting.is_too_long = is_too_long;
            continue;
        }
        if found.len() >= most {
            break;
        }
        found.push(UserCommand {
            event: at,
            output_event: at,
            ts: event.ts,
            command: ran.command.unwrap_or_default().to_owned(),
            output: ran.whole_output(),
            is_too_long,
            exit: ran.exit,
        });
    }
    found
}

/// Returns the events between the previous reply and step `n`, and the first of the step. `None` if
/// the format's records don't identify prompts.
fn events_before(view: &RunView<'_>, n: usize) -> Option<Range<usize>> {
    view.index.format().assemble?;
    let before = n
        .checked_sub(1)
        .and_then(|before| parts(view, before).next());
    let start = before.map_or(0, |first| first + 1);
    let end = parts(view, n).next().unwrap_or(view.index.events().len());
    Some(start.min(end)..end)
}

/// Returns what the user wrote between the previous reply and step `n`, including on abandoned
/// branches. If `n` is the number of steps, returns what came after the last step. Supports only
/// formats whose records identify prompts. For text, so without prompts that consist of pictures.
pub(crate) fn prompts_before(view: &RunView<'_>, n: usize) -> Vec<Prompted> {
    let mut prompts = first_prompts_before(view, n, usize::MAX);
    prompts.retain(|prompt| !prompt.words.is_empty());
    prompts
}

/// Returns the same for a page, with all prompts, at most `most`. A run without recorded prompts
/// begins with its task.
pub(crate) fn prompts_or_task(view: &RunView<'_>, n: usize, most: usize) -> Vec<Prompted> {
    let mut prompts = first_prompts_before(view, n, most);
    if prompts.is_empty() && n == 0 {
        prompts.extend(recorded_task(view).or_else(|| {
            view.summary.task.as_ref().map(|task| Prompted {
                event: None,
                ts: None,
                words: task.to_string(),
                has_pictures: false,
            })
        }));
    }
    prompts
}

/// Returns the whole text of the task, if it's a message of the user. The summary has its beginning.
fn recorded_task(view: &RunView<'_>) -> Option<Prompted> {
    view.index.format().assemble?;
    let task = view.summary.task.as_deref()?;
    let (at, _) = view.index.newest_segments().first()?.init.as_ref()?;
    let event = view.index.events().get(*at)?;
    let record = view.lines.record(TraceFile::Events, event.span).ok()?;
    let record = with_texts(view, record);
    let json = Json::parse(&record.text)?;
    let words = prompted(&json, words_of(view))?;
    words
        .starts_with(task.trim_end_matches('…'))
        .then_some(Prompted {
            event: Some(*at),
            ts: event.ts,
            words,
            has_pictures: has_pictures(&json),
        })
}

/// The characters that are kept of a prompt on one line.
const PROMPT_LINE_CHARS: usize = 120;

/// Returns the beginning of a prompt on one line.
pub(crate) fn line_of_prompt(prompt: &Prompted) -> Line {
    if prompt.words.is_empty() && prompt.has_pictures {
        return "Image".into();
    }
    let words = prompt.words.split_whitespace().take(PROMPT_LINE_CHARS);
    one_line(&words.collect::<Vec<_>>().join(" "), PROMPT_LINE_CHARS)
        .0
        .into()
}

/// Returns the prompt that step `n` answers, or the task. Prompts before that got no reply. Reads only
/// its record, because there may be any number of them.
pub(crate) fn answered_prompt(view: &RunView<'_>, n: usize) -> Option<Prompted> {
    let last = events_before(view, n).and_then(|Range { start, end }| {
        let events = view.index.events().range(start..end).enumerate();
        let mut prompts = events.filter(|(_, event)| is_prompt(view.index.name(event.stage)));
        prompts.next_back().map(|(offset, _)| start + offset)
    });
    last.and_then(|at| prompts_in(view, n, at..at + 1, usize::MAX).pop())
        .or_else(|| prompts_or_task(view, n, 1).pop())
}

/// Returns the beginning of the prompt that step `n` answers, or of the task, on one line.
pub(crate) fn prompt_line(view: &RunView<'_>, n: usize) -> Option<Line> {
    answered_prompt(view, n).as_ref().map(line_of_prompt)
}

/// Returns whether an event of this stage is a prompt.
fn is_prompt(stage: &str) -> bool {
    matches!(stage, "prompt" | QUEUED)
}

/// The prompts before a step that have the same words.
#[derive(Debug, Default)]
struct SameWords {
    /// The position of the one without pictures.
    bare: Option<usize>,
    /// The number of those with pictures that no record of another kind has repeated yet.
    unrepeated: usize,
}

fn first_prompts_before(view: &RunView<'_>, n: usize, most: usize) -> Vec<Prompted> {
    let Some(Range { start, end }) = events_before(view, n) else {
        return Vec::new();
    };
    let last = (end + 1).min(view.index.events().len());
    prompts_in(view, n, start..last, most)
}

/// Returns the prompts before step `n` in these events, at most `most`.
fn prompts_in(view: &RunView<'_>, n: usize, range: Range<usize>, most: usize) -> Vec<Prompted> {
    let (start, reply) = (range.start, events_before(view, n).map(|before| before.end));
    let mut found: Vec<(usize, Prompted)> = Vec::new();
    let mut known: HashMap<String, SameWords> = HashMap::new();
    // A text may occur both in a prompt and in another record of it. The prompt takes precedence.
    for of_prompt in [true, false] {
        // A record with several messages may contain the reply and the text before it.
        for (offset, event) in view.index.events().range(range.clone()).enumerate() {
            if found.len() >= most {
                break;
            }
            let at = start + offset;
            let stage = view.index.name(event.stage);
            if is_prompt(stage) != of_prompt || !of_prompt && stage != USER_TEXT {
                continue;
            }
            let Ok(record) = view.lines.record(TraceFile::Events, event.span) else {
                continue;
            };
            let record = with_texts(view, record);
            let Some(json) = Json::parse(&record.text) else {
                continue;
            };
            let is_reply = Some(at) == reply;
            let (words, has_pictures) = match messages(&json) {
                Some(list) => (listed_before(list, n, words_of(view)), false),
                None if is_reply => (Vec::new(), false),
                None => {
                    let has_pictures = has_pictures(&json);
                    let words = prompted(&json, words_of(view));
                    // A prompt may be a picture without words.
                    let words = words.or_else(|| has_pictures.then(String::new));
                    (words.into_iter().collect(), has_pictures)
                }
            };
            let is_said = |words: &String| !words.is_empty() || has_pictures;
            for words in words.into_iter().filter(is_said) {
                let is_known = known.contains_key(&words);
                let same = known.entry(words.clone()).or_default();
                if is_known && !has_pictures {
                    continue;
                }
                // One of two records of a prompt may lack its pictures.
                if let Some(other) = same.bare.take() {
                    if let Some((_, other)) = found.get_mut(other) {
                        (other.event, other.has_pictures) = (Some(at), true);
                    }
                    same.unrepeated += usize::from(of_prompt);
                    continue;
                }
                if !of_prompt && same.unrepeated > 0 {
                    same.unrepeated -= 1;
                    continue;
                }
                if has_pictures {
                    same.unrepeated += usize::from(of_prompt);
                } else {
                    same.bare = Some(found.len());
                }
                let prompt = Prompted {
                    event: Some(at),
                    ts: event.ts,
                    words,
                    has_pictures,
                };
                found.push((at, prompt));
            }
        }
    }
    found.sort_by_key(|(at, _)| *at);
    found.into_iter().map(|(_, prompt)| prompt).collect()
}

/// Pictures of one prompt, and how deep they may be in its record.
const MAX_PICTURES: usize = 10;
const MAX_DEPTH: usize = 8;

/// Returns whether a record contains a picture.
fn has_pictures(record: &Json<'_>) -> bool {
    !first_pictures(record, 1).is_empty()
}

/// Returns the JSON pointers of the pictures in a record.
pub(crate) fn pictures_in(record: &Json<'_>) -> Vec<String> {
    first_pictures(record, MAX_PICTURES)
}

fn first_pictures(record: &Json<'_>, most: usize) -> Vec<String> {
    fn collect(
        value: &Json<'_>,
        at: &mut String,
        depth: usize,
        most: usize,
        found: &mut Vec<String>,
    ) {
        if found.len() >= most || depth > MAX_DEPTH {
            return;
        }
        if attachment::of(value).is_some_and(|inside| inside.is_picture()) {
            return found.push(at.clone());
        }
        let length = at.len();
        match value {
            Json::Array(items) => {
                for (place, item) in items.iter().enumerate() {
                    at.push_str(&format!("/{place}"));
                    collect(item, at, depth + 1, most, found);
                    at.truncate(length);
                }
            }
            Json::Object(members) => {
                for (key, member) in members {
                    at.push_str(&format!("/{}", token(key)));
                    collect(member, at, depth + 1, most, found);
                    at.truncate(length);
                }
            }
            _ => {}
        }
    }
    let mut found = Vec::new();
    collect(record, &mut String::new(), 0, most, &mut found);
    found
}

/// Returns the messages of a record that lists all of them.
fn messages<'v, 'a>(record: &'v Json<'a>) -> Option<&'v [Json<'a>]> {
    match record.get("$set")?.get("messages")? {
        Json::Array(messages) => Some(messages),
        _ => None,
    }
}

fn words_of(view: &RunView<'_>) -> OwnWords {
    own_words_of(view.index.format())
}

/// Returns what the user wrote in a list of messages between the previous reply and step `n`.
fn listed_before(messages: &[Json<'_>], n: usize, own: OwnWords) -> Vec<String> {
    let is_kind =
        |message: &Json<'_>, kind: &str| message.get("type").and_then(Json::as_str) == Some(kind);
    let mut replies = 0;
    let mut found = Vec::new();
    for message in messages {
        replies += usize::from(is_kind(message, "gemini"));
        let given = |part: &Json<'_>| part.get("functionResponse").is_some();
        let is_given =
            matches!(message.get("content"), Some(Json::Array(parts)) if parts.iter().any(given));
        if replies == n && is_kind(message, "user") && !is_given {
            let words = own_text_of(message, own);
            let is_prompt = !words.starts_with("<session_context>") && !UserShell::is_in(&words);
            found.extend(Some(words).filter(|_| is_prompt));
        }
    }
    found
}

/// The stage that readers set for text typed while a tool ran.
const QUEUED: &str = "queued_command";
/// The stage that readers set for user text that doesn't start a turn.
const USER_TEXT: &str = "user_text";

/// Returns what the user wrote in a prompt record. The record may also be the text itself, or a list of
/// messages. Only the user's count.
fn prompted(record: &Json<'_>, own: OwnWords) -> Option<String> {
    match record {
        Json::String(words) => return Some(own(words).to_owned()),
        Json::Array(list) => {
            let is_user = |message: &&Json<'_>| role_of(message) == Some("user");
            let words = list.iter().filter(is_user);
            let words = words.map(|message| own_text_of(message, own));
            let words: Vec<String> = words.filter(|words| !words.is_empty()).collect();
            return (!words.is_empty()).then(|| words.join("\n\n"));
        }
        _ => {}
    }
    if let Some(queued) = record
        .get("attachment")
        .and_then(|attachment| attachment.get("prompt"))
    {
        return Some(own_words_in(queued, own));
    }
    if let Some(words) = record
        .get("payload")
        .and_then(|payload| payload.get("message"))
        .and_then(Json::as_str)
    {
        return Some(own(words).to_owned());
    }
    PLACES.iter().find_map(|(_, way)| {
        let message = way.iter().try_fold(record, |at, key| at.get(key))?;
        Some(own_text_of(message, own)).filter(|words| !words.is_empty())
    })
}

fn between(view: &RunView<'_>, n: usize, fold: &mut Fold) -> Vec<Message> {
    let Some(end) = parts(view, n).next() else {
        return Vec::new();
    };
    let before: Vec<usize> = n
        .checked_sub(1)
        .into_iter()
        .flat_map(|before| parts(view, before))
        .collect();
    let start = before.first().map_or(0, |first| first + 1);
    // A step may have a million records, so a set is needed.
    let before: HashSet<usize> = before.into_iter().collect();
    let mut found: Vec<Message> = Vec::new();
    let mut known: Vec<String> = Vec::new();
    let mut system = 0;
    for at in (start..end)
        .filter(|at| !before.contains(at))
        .take(MAX_RECORDS)
    {
        let Some(event) = view.index.events().get(at) else {
            continue;
        };
        let Ok(record) = view.lines.record(TraceFile::Events, event.span) else {
            continue;
        };
        let record = with_texts(view, record);
        let Some(json) = Json::parse(&record.text) else {
            continue;
        };
        let stage = view.index.name(event.stage);
        if let Some(message) = alone(&json, stage) {
            let mine = fold.elsewhere(ValueLinks::below(&href::event(view.key(), at)));
            let shown = Message::alone(message, &json, fold);
            fold.elsewhere(mine);
            // The model reads the system message first, whatever the order of the records.
            let place = if message == "system" {
                system
            } else {
                found.len()
            };
            system += usize::from(message == "system");
            found.insert(place.min(found.len()), shown);
            continue;
        }
        let queued = queued(&json);
        let Some((pointer, message)) = queued
            .as_ref()
            .map(|(at, message)| (*at, message))
            .or_else(|| spoken(&json))
        else {
            continue;
        };
        // A message may be recorded twice: by the program itself and in its log.
        let words = text_of(message);
        if known.contains(&words) || !fold.takes(found.len()) {
            continue;
        }
        known.push(words);
        let mine = fold.elsewhere(ValueLinks::below(&href::event(view.key(), at)));
        let mut message = Message::spoken(message, pointer, fold);
        if let Some(compaction) = compaction_at(view, at) {
            message.facts = compaction.into();
        }
        found.push(message);
        fold.elsewhere(mine);
    }
    found
}

/// Returns who wrote a record that is only the content of a message.
fn alone(record: &Json<'_>, stage: &str) -> Option<&'static str> {
    let is_content = matches!(record, Json::String(_) | Json::Array(_));
    match stage {
        SYSTEM if is_content => Some("system"),
        "prompt" if matches!(record, Json::String(_)) => Some("user"),
        _ => None,
    }
}

fn role_of<'v>(message: &'v Json<'_>) -> Option<&'v str> {
    message.get("role").and_then(Json::as_str)
}

/// A system message of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SystemMessage {
    /// The event that records it.
    pub event: usize,
    /// The text. `None` if the record is too long to be shown with the steps.
    pub words: Option<String>,
}

/// Returns the system messages between the previous reply and step `n`, at most `most`. Supports
/// only formats whose records identify them.
pub(crate) fn system_before(view: &RunView<'_>, n: usize, most: usize) -> Vec<SystemMessage> {
    let names = view.index.names();
    let (Some(phase), Some(stage)) = (names.find(MESSAGE), names.find(SYSTEM)) else {
        return Vec::new();
    };
    let Some(events) = events_before(view, n) else {
        return Vec::new();
    };
    let all = view.index.events().range(events.clone()).enumerate();
    let system = all
        .filter(|(_, event)| (event.phase, event.stage) == (phase, stage))
        .take(most);
    let read = system.filter_map(|(offset, event)| {
        let at = events.start + offset;
        if event.span.len > MAX_LISTED_BYTES {
            return Some(SystemMessage {
                event: at,
                words: None,
            });
        }
        let record = view.lines.record(TraceFile::Events, event.span).ok()?;
        let record = with_texts(view, record);
        let json = Json::parse(&record.text)?;
        alone(&json, SYSTEM)?;
        let words = words_in(&json);
        (!words.trim().is_empty()).then_some(SystemMessage {
            event: at,
            words: Some(words),
        })
    });
    read.collect()
}

/// Returns text typed while a tool ran as a message, with its location as a JSON pointer.
fn queued<'a>(record: &Json<'a>) -> Option<(&'static str, Json<'a>)> {
    let attachment = record.get("attachment")?;
    let is_queued = attachment.get("type").and_then(Json::as_str) == Some(QUEUED);
    let is_prompt = attachment
        .get("commandMode")
        .and_then(Json::as_str)
        .is_none_or(|mode| mode == "prompt");
    let prompt = attachment
        .get("prompt")
        .filter(|_| is_queued && is_prompt)?;
    let members = [
        ("role", Json::String("user".into())),
        ("content", prompt.clone()),
    ];
    Some((
        "/attachment",
        Json::Object(members.map(|(key, value)| (key.into(), value)).into()),
    ))
}

/// Describes the compaction that event `at` records.
fn compaction_at(view: &RunView<'_>, at: usize) -> Option<String> {
    let compactions = view
        .index
        .manifest()
        .get()
        .map(|manifest| manifest.compactions.as_slice())
        .unwrap_or_default();
    compactions
        .iter()
        .find(|compaction| compaction.event == at)
        .map(|compaction| compaction_in_words(view.index, compaction))
}

/// Formats a compaction: "context compacted (auto), 167,000 tokens before, 21,000 after". If a number
/// isn't recorded, names the input of the request before or after it.
pub(crate) fn compaction_in_words(index: &Index, compaction: &Compaction) -> String {
    let trigger = if compaction.trigger.is_empty() {
        String::new()
    } else {
        format!(" ({})", compaction.trigger)
    };
    let mut words = format!("context compacted{trigger}");
    let next = index.step_after(compaction.event);
    let input = |n: Option<usize>| index.steps().get(n?)?.usage.get().input;
    match compaction.tokens {
        Some(tokens) => words.push_str(&format!(", {} tokens before", count(tokens))),
        None => {
            let last = next.unwrap_or(index.steps().len()).checked_sub(1);
            let read = input(last).map(count);
            words.extend(read.map(|read| format!(", {read} tokens in the request before")));
        }
    }
    match compaction.tokens_after {
        Some(tokens) => words.push_str(&format!(", {} after", count(tokens))),
        None => {
            let read = input(next).map(count);
            words.extend(read.map(|read| format!(", {read} in the next request")));
        }
    }
    words
}

/// The stages of records that say that the agent was interrupted.
const INTERRUPTED: [&str; 2] = ["interrupted", "turn_aborted"];
/// Codex writes who interrupted it in one of this many records before.
const MAX_BEFORE: usize = 4;
/// Maximum number of interruptions between two steps that are read.
const MAX_INTERRUPTIONS: usize = 16;

/// Returns whether a record of Codex says that the user caused the interruption: as the last line of
/// a call's output, or in a message to the model.
fn is_by_user(record: &Json<'_>) -> bool {
    let Some(payload) = record.get("payload") else {
        return false;
    };
    let kind = payload.get("type").and_then(Json::as_str);
    if kind.is_some_and(|kind| kind.ends_with("_output")) {
        let output = payload.get("output");
        let text = output.and_then(|output| output.get("content").unwrap_or(output).as_str());
        return text.and_then(|text| text.lines().last()) == Some("aborted by user");
    }
    let parts = payload.get("content").and_then(Json::as_array);
    kind == Some("message")
        && parts.into_iter().flatten().any(|part| {
            let text = part.get("text").and_then(Json::as_str);
            text.is_some_and(|text| text.starts_with("<turn_aborted>\nThe user interrupted"))
        })
}

/// Describes the interruption between the previous step and step `n`, if one is recorded:
/// "Interrupted by the user · Bash was cancelled".
pub(crate) fn interruption_before(view: &RunView<'_>, n: usize) -> Option<String> {
    let index = view.index;
    let stages = INTERRUPTED.map(|stage| index.names().find(stage));
    if stages.iter().all(Option::is_none) {
        return None;
    }
    let events = events_before(view, n)?;
    let all = index.events().range(events.clone()).enumerate();
    let stops = all.filter(|(_, event)| stages.contains(&Some(event.stage)));
    let mut stops = stops.take(MAX_INTERRUPTIONS);
    let who = stops.find_map(|(offset, event)| match index.name(event.stage) {
        "turn_aborted" => {
            let says = |at: usize, is: &dyn Fn(&Json<'_>) -> bool| {
                let event = index.events().get(at);
                let event = event.filter(|event| event.span.len <= MAX_LISTED_BYTES);
                event.is_some_and(|event| {
                    let record = view.lines.record(TraceFile::Events, event.span).ok();
                    let json = record.as_ref().and_then(|record| Json::parse(&record.text));
                    json.as_ref().is_some_and(is)
                })
            };
            let at = events.start + offset;
            // Another reason isn't an interruption.
            let is_interrupted = |record: &Json<'_>| {
                let reason = record.get("payload").and_then(|all| all.get("reason"));
                reason.and_then(Json::as_str) == Some("interrupted")
            };
            if !says(at, &is_interrupted) {
                return None;
            }
            let mut before = at.saturating_sub(MAX_BEFORE)..at;
            let by_user = before.any(|at| says(at, &is_by_user));
            Some(if by_user { " by the user" } else { "" })
        }
        _ => Some(" by the user"),
    })?;
    let step = n.checked_sub(1).and_then(|last| index.steps().get(last));
    let calls = step.map(|step| &*step.calls).unwrap_or_default();
    let stopped = calls.iter().filter(|call| call.end == CallEnd::Stopped);
    let names: Vec<&str> = stopped.map(|call| index.name(call.name)).collect();
    let mut words = format!("Interrupted{who}");
    match names.as_slice() {
        [] => {}
        [""] => words.push_str(" · 1 call was cancelled"),
        [name] => words.push_str(&format!(" · {name} was cancelled")),
        names => words.push_str(&format!(
            " · {} calls were cancelled",
            count(names.len() as u64)
        )),
    }
    Some(words)
}

/// Maximum number of steps that are searched for the model before a change of it.
const MAX_MODEL_STEPS: usize = 1_000;

/// Describes the change if step `n` used another model than its agent's previous step.
pub(crate) fn model_change(view: &RunView<'_>, n: usize) -> Option<String> {
    let steps = view.index.steps();
    let step = steps
        .get(n)
        .filter(|step| step.model != Symbol::default())?;
    let before = steps.range(0..n).rev().take(MAX_MODEL_STEPS);
    let before = before
        .filter(|before| before.agent == step.agent && before.model != Symbol::default())
        .find(|before| !before.is_abandoned || step.is_abandoned)?;
    (before.model != step.model).then(|| {
        let [from, to] = [before.model, step.model].map(|model| view.index.name(model));
        format!("Model changed from {from} to {to}")
    })
}

/// Returns the compactions between the previous step and step `n`.
pub(crate) fn compactions_before<'a>(
    view: &RunView<'a>,
    n: usize,
) -> impl Iterator<Item = &'a Compaction> + use<'a> {
    let all = view
        .index
        .manifest()
        .get()
        .map(|manifest| manifest.compactions.as_slice())
        .unwrap_or_default();
    let first = |n: usize| {
        view.index
            .steps()
            .get(n)?
            .parts
            .first()
            .and_then(|at| usize::try_from(*at).ok())
    };
    let start = n.checked_sub(1).and_then(first).unwrap_or_default();
    let end = if all.is_empty() {
        0
    } else {
        first(n).unwrap_or(usize::MAX)
    };
    all.iter()
        .filter(move |compaction| (start..end).contains(&compaction.event))
}

/// Where a record may contain a message: the JSON pointer and its keys.
const PLACES: [(&str, &[&str]); 9] = [
    ("", &[]),
    ("/message", &["message"]),
    ("/message/payload", &["message", "payload"]),
    ("/payload", &["payload"]),
    ("/payload/item", &["payload", "item"]),
    ("/llm_message", &["llm_message"]),
    ("/args", &["args"]),
    ("/data", &["data"]),
    ("/payload/input/command", &["payload", "input", "command"]),
];

/// Returns the message in a record and its JSON pointer, unless the model wrote it.
fn spoken<'v, 'a>(record: &'v Json<'a>) -> Option<(&'static str, &'v Json<'a>)> {
    let source = record.get("source").and_then(Json::as_str);
    PLACES.iter().find_map(|(pointer, way)| {
        let message = way.iter().try_fold(record, |at, key| at.get(key))?;
        let role = message
            .get("role")
            .or(message.get("type"))
            .and_then(Json::as_str)
            .or(source)?;
        let has_words = CONTENT
            .iter()
            .any(|key| message.get(key).is_some_and(|value| !value.is_empty()));
        let speaks = matches!(
            role,
            "user" | "system" | "developer" | "UserMessage" | "user_message"
        ) && has_words;
        speaks.then_some((*pointer, message))
    })
}

/// Returns the whole text of a message.
fn text_of(message: &Json<'_>) -> String {
    content_of(message).map(words_in).unwrap_or_default()
}

/// Returns what the user wrote in a message.
fn own_text_of(message: &Json<'_>, own: OwnWords) -> String {
    content_of(message)
        .map(|content| own_words_in(content, own))
        .unwrap_or_default()
}

fn content_of<'v, 'a>(message: &'v Json<'a>) -> Option<&'v Json<'a>> {
    CONTENT.iter().find_map(|key| message.get(key))
}

/// Joins the texts of a message's content with line breaks. The content is a text, or blocks with
/// or without text.
fn words_in(content: &Json<'_>) -> String {
    match content {
        Json::String(text) => text.to_string(),
        Json::Array(blocks) => blocks
            .iter()
            .filter_map(text_in)
            .collect::<Vec<_>>()
            .join("\n"),
        _ => String::new(),
    }
}

/// Returns the same without texts that a program added to those of the user.
fn own_words_in(content: &Json<'_>, own: OwnWords) -> String {
    match content {
        Json::String(text) => own(text).to_owned(),
        Json::Array(blocks) => {
            let is_own = |block: &&Json<'_>| block.get("synthetic") != Some(&Json::Bool(true));
            let texts = blocks.iter().filter(is_own).filter_map(text_in);
            let texts = texts.filter_map(|text| {
                let words = own(text);
                (!words.is_empty() || text.is_empty()).then_some(words)
            });
            texts.collect::<Vec<_>>().join("\n")
        }
        _ => String::new(),
    }
}

/// Returns the text of a block.
fn text_in<'v>(block: &'v Json<'_>) -> Option<&'v str> {
    block.as_str().or_else(|| Some(text_of_block(block)?.0))
}

/// Returns the first event of this kind in a group, with its index.
pub(super) fn event_of(
    view: &RunView<'_>,
    group: &Group,
    kind: EventKind,
) -> Option<(usize, Record<'static>)> {
    let events = view.index.events().range(group.first..group.end);
    let (offset, event) = events.enumerate().find(|(_, event)| event.kind == kind)?;
    let record = view.lines.record(TraceFile::Events, event.span).ok()?;
    Some((group.first + offset, record))
}
