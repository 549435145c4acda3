//! Makes the records that a journal lacks from the snapshot before it.
//!
//! When a session is closed or resumed, Vibe stores its state as a generation, begins a new journal,
//! and deletes older ones. A generation names chunks, which are lists: of the messages that the model
//! got, and of the entries that the program shows. The messages have the replies and their calls. The
//! entries have the times, and the results as the tools returned them. Both become records like those
//! of a journal. Instead of a number they have the member `before`.

use std::collections::VecDeque;
use std::io;

use super::record::{ABANDONED, Asked, DISCARDED, Fault, Shown};
use crate::format::lines::stem;
use crate::format::part::text;
use crate::format::shape::Nearby;
use crate::format::value::{count, is_text, listed, member, spoken};
use crate::model::json::{Json, walk};

/// The directory of the generations, next to that of the journals.
const GENERATIONS: &str = "generations";
/// The directory of the chunks.
const CHUNKS: &str = "chunks";
/// The directory of results that are too large for the conversation, one file each.
const RESULTS: &str = "tool-results";
/// How the text begins that replaces such a result.
const LARGE: &str = "<system>The tool output is large.";
/// At most this many of the newest generations are read. Vibe keeps two.
const MAX_GENERATIONS: usize = 8;
/// Longer manifests aren't read; bytes. One is read each time that a journal changes.
const MAX_MANIFEST_BYTES: usize = 1 << 20;
/// The files of a session are read up to this many bytes, and this many chunks for each list.
const MAX_BYTES: usize = 64 << 20;
const MAX_CHUNKS: usize = 10_000;
/// What belongs to a message is searched for in this many entries. It's usually the first.
const MAX_SEARCHED: usize = 200;

fields! {
    struct Manifest {
        generation, checkpoint, shown = "projection_state", segment = "recovery_journal_segment",
    }
    struct Piece { kind = "type", id, name, arguments }
}

/// Returns the manifest of the generation after which the journal `name` begins, or `None` if it
/// doesn't exist.
///
/// # Errors
/// Fails if a file can't be read now.
pub(super) fn snapshot(name: &str, nearby: &dyn Nearby) -> io::Result<Option<String>> {
    // The first record of a session has the number 1.
    let is_first = stem(name).and_then(|stem| stem.parse::<u64>().ok()) <= Some(1);
    if is_first {
        return Ok(None);
    }
    let mut generations = nearby.names(&[GENERATIONS])?;
    generations.sort_unstable();
    for generation in generations.iter().rev().take(MAX_GENERATIONS) {
        let Some(manifest) = nearby.text(
            &[GENERATIONS, generation, "manifest.json"],
            MAX_MANIFEST_BYTES,
        )?
        else {
            continue;
        };
        let segment = Manifest::of(&manifest).segment;
        let path = text(segment.and_then(|segment| member(segment, "path")));
        if path
            .as_deref()
            .and_then(|path| path.strip_prefix("journal/"))
            == Some(name)
        {
            return Ok(Some(manifest));
        }
    }
    Ok(None)
}

/// Returns the records of the session until the generation with this manifest, one per line.
///
/// # Errors
/// Fails if a file can't be read now.
pub(super) fn records(manifest: &str, nearby: &dyn Nearby) -> io::Result<String> {
    let manifest = Manifest::of(manifest);
    let generation = text(manifest.generation).unwrap_or_default();
    let mut left = MAX_BYTES;
    let mut lists = |part: Option<&str>, path: &[&str]| -> io::Result<(Vec<String>, bool, bool)> {
        let (mut lists, mut is_whole) = (Vec::new(), true);
        let chunks = listed(part.and_then(|part| member(part, "chunks")));
        for (at, chunk) in chunks.enumerate() {
            if at == MAX_CHUNKS {
                is_whole = false;
                break;
            }
            let name = text(Some(chunk)).unwrap_or_default();
            let list = nearby.text(&[CHUNKS, &format!("{name}.json")], left)?;
            match list.filter(|list| is_list(list)) {
                Some(list) => {
                    left -= list.len();
                    lists.push(list);
                }
                None => is_whole = false,
            }
        }
        // What isn't in a chunk yet.
        let file = text(part.and_then(|part| member(part, "path"))).unwrap_or_default();
        let document = nearby.text(&[GENERATIONS, &generation, &file], left)?;
        let document = document.filter(|document| Json::is_json(document));
        let rest = document.as_deref().and_then(|document| {
            path.iter()
                .try_fold(document, |value, key| member(value, key))
        });
        if let Some(rest) = rest.filter(|rest| is_list(rest)) {
            left = left.saturating_sub(rest.len());
            lists.push(rest.to_owned());
        }
        is_whole &= document.is_some();
        let compactions = document
            .as_deref()
            .and_then(|it| count(member(it, "compaction_count")));
        Ok((lists, is_whole, compactions.is_some_and(|count| count > 0)))
    };
    let (messages, is_whole, is_compacted) = lists(manifest.checkpoint, &["context", "messages"])?;
    let (entries, ..) = lists(manifest.shown, &["snapshot", "history", "entries"])?;
    let entries = entries
        .iter()
        .flat_map(|list| walk::items(list))
        .map(Shown::of);
    let mut records = Records::new(Turns::of(entries), nearby, left);
    if is_compacted {
        records.add("compacted", "null", None);
    }
    if !is_whole {
        records.add("missing", "null", None);
    }
    for message in messages.iter().flat_map(|list| walk::items(list)) {
        records.message(message)?;
    }
    records.end_turn();
    Ok(records.text)
}

fn is_list(text: &str) -> bool {
    text.trim_start().starts_with('[') && Json::is_json(text)
}

/// What the program shows of a turn.
#[derive(Default)]
struct ShownTurn<'a> {
    prompt: String,
    /// When it was sent, as JSON.
    at: Option<&'a str>,
    /// The replies' texts and when they came, in order.
    replies: VecDeque<(String, Option<&'a str>)>,
    /// The calls that were made, in order.
    calls: VecDeque<Shown<'a>>,
    /// The reply that was interrupted, which ended the turn. The model doesn't get it.
    cut_off: Option<Shown<'a>>,
}

/// What the program shows, by turns.
struct Turns<'a> {
    turns: VecDeque<ShownTurn<'a>>,
    /// The prompts that weren't found among them.
    misses: usize,
}

impl<'a> Turns<'a> {
    fn of(entries: impl Iterator<Item = Shown<'a>>) -> Self {
        let mut turns: VecDeque<ShownTurn<'_>> = VecDeque::new();
        for entry in entries {
            match (entry.kind, entry.role, turns.back_mut()) {
                (Some("\"message\""), Some("\"user\""), _) => turns.push_back(ShownTurn {
                    prompt: spoken(entry.content),
                    at: entry.created,
                    ..ShownTurn::default()
                }),
                (_, _, Some(turn)) if entry.is_cut_off() => turn.cut_off = Some(entry),
                (Some("\"message\""), Some("\"assistant\""), Some(turn)) => {
                    turn.replies
                        .push_back((spoken(entry.content), entry.created));
                }
                (Some("\"effect\""), _, Some(turn)) => turn.calls.push_back(entry),
                _ => {}
            }
        }
        Self { turns, misses: 0 }
    }

    /// Returns the next turn with this prompt, or an empty one.
    fn turn(&mut self, prompt: &str) -> ShownTurn<'a> {
        if self.misses > MAX_SEARCHED {
            return ShownTurn::default();
        }
        let at = self.turns.iter().position(|turn| turn.prompt == prompt);
        let Some(at) = at else {
            self.misses += 1;
            return ShownTurn::default();
        };
        self.turns.drain(..at);
        self.turns.pop_front().unwrap_or_default()
    }
}

impl<'a> ShownTurn<'a> {
    /// Takes the next reply with this text, and returns when it came.
    fn reply(&mut self, said: &str) -> Option<&'a str> {
        let mut replies = self.replies.iter().take(MAX_SEARCHED);
        let at = replies.position(|(text, _)| text == said)?;
        self.replies.remove(at)?.1
    }

    /// Takes the next call of this tool with these arguments. Calls that the program refused aren't
    /// there.
    fn call(&mut self, name: &str, args: &str) -> Option<Shown<'a>> {
        let fits = |entry: &Shown<'_>| {
            let detail = entry.detail.unwrap_or_default();
            let tool = text(member(detail, "toolName")).unwrap_or_default();
            let input = member(detail, "input").unwrap_or_default();
            // The program adds default values. Its tool for edits has another name and form.
            let has_all = || {
                walk::members(args).all(|(key, value)| {
                    let key = key.trim_matches('"');
                    member(input, key).is_some_and(|given| is_same(given, value))
                })
            };
            match tool.rsplit('.').next() {
                Some("search_replace") if name == "edit" => true,
                tool => tool == Some(name) && has_all(),
            }
        };
        let at = self.calls.iter().take(MAX_SEARCHED).position(fits)?;
        self.calls.remove(at)
    }
}

fn is_same(a: &str, b: &str) -> bool {
    match (Json::parse(a), Json::parse(b)) {
        (Some(a), Some(b)) => crate::model::json::same(&a, &b),
        _ => false,
    }
}

/// The records so far.
struct Records<'a> {
    nearby: &'a dyn Nearby,
    /// How many bytes of large results may still be read.
    left: usize,
    shown: Turns<'a>,
    turn: ShownTurn<'a>,
    /// The calls without a result, by id, and what the program shows of them.
    open: VecDeque<(String, Option<Shown<'a>>)>,
    text: String,
    count: u64,
}

impl<'a> Records<'a> {
    fn new(shown: Turns<'a>, nearby: &'a dyn Nearby, left: usize) -> Self {
        Self {
            nearby,
            left,
            shown,
            turn: ShownTurn::default(),
            open: VecDeque::new(),
            text: String::new(),
            count: 0,
        }
    }

    /// Adds a record of this kind. `at` is a time in milliseconds since the epoch.
    fn add(&mut self, kind: &str, command: &str, at: Option<&str>) {
        self.count += 1;
        let (n, at) = (self.count, at.unwrap_or("null"));
        let line = format!(
            "{{\"recovery_journal_record_version\":1,\"before\":{n},\"type\":\"{kind}\",\"payload\":\
             {{\"input\":{{\"command\":{command},\"determinism\":{{\"time_unix_ms\":{at}}}}}}}}}"
        );
        // Outside of strings, a line end is a space, and in strings it's escaped.
        self.text.extend(line.split(['\n', '\r']));
        self.text.push('\n');
    }

    /// Adds the record of a message in the context.
    fn message(&mut self, item: &'a str) -> io::Result<()> {
        let message = Asked::of(member(item, "message").unwrap_or_default());
        let said = spoken(message.content);
        let content = message
            .content
            .filter(|content| Json::is_json(content))
            .unwrap_or("[]");
        match message.role {
            Some("\"user\"") if member(item, "source") != Some("\"history\"") => {
                let kind = if said.starts_with(DISCARDED) {
                    "discarded"
                } else {
                    "injected"
                };
                self.add(kind, "null", None);
            }
            Some("\"user\"") => {
                self.end_turn();
                self.turn = self.shown.turn(&said);
                let at = self.turn.at;
                self.add(
                    "core_input",
                    &format!("{{\"type\":\"user_message\",\"content\":{content}}}"),
                    at,
                );
            }
            Some("\"assistant\"") => self.reply(content, &said),
            Some("\"tool\"") => self.result(&message, content, &said)?,
            _ => self.add("injected", "null", None),
        }
        Ok(())
    }

    /// Adds the record of the reply that was interrupted, if the turn ended with one.
    fn end_turn(&mut self) {
        let Some(reply) = self.turn.cut_off.take() else {
            return;
        };
        let content = reply.content.unwrap_or("[]");
        self.add(
            "core_input",
            &format!("{{\"type\":\"completion_interrupted\",\"content\":{content}}}"),
            reply.updated,
        );
    }

    fn reply(&mut self, content: &'a str, said: &str) {
        let mut parts = Vec::new();
        let mut at = Some(said)
            .filter(|said| !said.is_empty())
            .and_then(|said| self.turn.reply(said));
        for piece in walk::items(content) {
            let Piece {
                kind: Some("\"tool_call\""),
                id: Some(id),
                name: Some(name),
                arguments,
                ..
            } = Piece::of(piece)
            else {
                parts.push(piece.to_owned());
                continue;
            };
            let of = |key| arguments.and_then(|arguments| member(arguments, key));
            let entry = text(Some(name))
                .and_then(|name| self.turn.call(&name, of("value").unwrap_or("{}")));
            at = at.or(entry.as_ref().and_then(|entry| entry.created));
            self.open
                .push_back((text(Some(id)).unwrap_or_default(), entry));
            let raw = of("raw")
                .filter(|raw| is_text(Some(raw)))
                .unwrap_or("\"{}\"");
            parts.push(format!(
                "{{\"type\":\"tool_call\",\"id\":{id},\"name\":{name},\"arguments_json\":{raw}}}"
            ));
        }
        // A call that never got a result doesn't hide later ones.
        while self.open.len() > MAX_SEARCHED {
            self.open.pop_front();
        }
        let parts = parts.join(",");
        self.add(
            "core_input",
            &format!("{{\"type\":\"completion_succeeded\",\"result\":{{\"parts\":[{parts}]}}}}"),
            at,
        );
    }

    fn result(&mut self, message: &Asked<'_>, content: &str, said: &str) -> io::Result<()> {
        let id = text(message.call).unwrap_or_default();
        let mut open = self.open.iter().take(MAX_SEARCHED);
        let open = open.position(|(call, _)| *call == id);
        let entry = open.and_then(|at| self.open.remove(at)?.1);
        let state = entry.as_ref().and_then(|entry| entry.state);
        let output = state
            .and_then(|state| member(state, "output"))
            .filter(|output| output.starts_with('{'));
        let has_failed = message.outcome == Some("\"failure\"");
        let is_large = !has_failed && said.starts_with(LARGE);
        let file =
            is_large.then(|| format!("{}-{id}.json", text(message.name).unwrap_or_default()));
        let whole = match file {
            Some(file) => self.nearby.text(&[RESULTS, &file], self.left)?,
            None => None,
        };
        self.left -= whole.as_ref().map_or(0, String::len);
        let whole = whole.filter(|whole| Json::is_json(whole));
        let result = match (whole, output) {
            (Some(whole), _) => format!("{{\"structured_content\":{whole}}}"),
            (None, Some(output)) => output.to_owned(),
            (None, None) if has_failed => failure(said),
            (None, None) if said.starts_with('{') && Json::is_json(said) => {
                format!("{{\"structured_content\":{said}}}")
            }
            (None, None) => format!("{{\"content\":{content}}}"),
        };
        let kind = if has_failed {
            "tool_failed"
        } else {
            "tool_succeeded"
        };
        let id = message.call.unwrap_or("null");
        let at = entry.and_then(|entry| entry.updated);
        self.add(
            "core_input",
            &format!("{{\"type\":\"{kind}\",\"call_id\":{id},\"result\":{result}}}"),
            at,
        );
        Ok(())
    }
}

/// Returns a failed result as a journal has it, for one that the model got as text.
fn failure(said: &str) -> String {
    let error = Some(said).filter(|said| Json::is_json(said));
    let error = error.and_then(|said| member(member(said, "result")?, "error"));
    let fault = error.map(Fault::of).unwrap_or_default();
    let code = match error.and_then(|error| member(error, "name")) {
        Some("\"Interrupted\"") => serde_json::Value::from(ABANDONED).to_string(),
        name => fault.code.or(name).unwrap_or("null").to_owned(),
    };
    let words = fault
        .message
        .map_or_else(|| serde_json::Value::from(said).to_string(), str::to_owned);
    format!("{{\"error\":{{\"code\":{code},\"message\":{words}}}}}")
}
