//! Reads histories of Aider: Markdown, appended to `.aider.chat.history.md` in the project, with all
//! sessions of that project.
//!
//! [`history`] converts each session to a document. The model writes edits as blocks in its text. Each
//! block becomes a call, and the program's message about the file becomes its result. Tokens are
//! rounded. The only recorded time is the start of the session. Limits, errors and interruptions are
//! recorded ends. In other edit formats than `diff`, an edit looks like any other code block, so it becomes
//! a call with the message about its file. In the format `whole`, a block is the whole file, even if it
//! contains such marks. This reader is based on version 0.86.

mod edits;
mod history;

use std::collections::HashSet;

use history::{History, is_said, started};

use super::conversation::Conversation;
use super::lines::HISTORY;
use super::part::{self, MAX_PIECES, quoted, text};
use super::turns::Turns;
use super::value::{cut, leading, member};
use super::{
    Answer, CallDraft, Draft, EventDraft, Part, Reader, Sections, Several, Shape, Source, Tokens,
    Tool,
};
use crate::model::step::{DECLINED, NO_WORDS};
use crate::model::{Can, Capabilities, Certainty, Ended, Format, IssueKind, Outcome, StepHead};

/// A session in a history.
pub(super) static SESSION: Tool = Tool {
    format: Format {
        name: "Aider session",
        can: Capabilities {
            state: Can::Partly,
            tokens: Can::Partly,
            cost: Can::Partly,
            ..Capabilities::NONE
        },
        file: "history",
        no_end_reason: "Aider records only errors, limits and interruptions",
        is_session: true,
        assemble: Some(assembled),
        ..Format::UNKNOWN
    },
    shape: Shape::Several(&Several {
        paths: &[&["records", "*"]],
        sections: Some(&Sections {
            begins: |line| started(line).map(|time| time.replace(' ', "_").replace(':', "-")),
            shows: is_said,
            rewrite: || Box::new(History::default()),
        }),
        ..Several::NONE
    }),
    is: |name, head| {
        name == HISTORY
            && head
                .split(|byte| *byte == b'\n')
                .take(64)
                .any(|line| started(line).is_some())
    },
    reader: || Box::new(Session::default()),
};

/// How messages of the program begin.
const TOKENS: &str = "Tokens: ";
const COST: &str = "Cost: ";
const APPLIED: &str = "Applied edit to ";
const RETRIES: &str = "Retrying in ";
const ERROR: &str = "litellm.";
const INTERRUPTED: &str = "^C";
const EMPTY: &str = "Empty response received from LLM";
const MODELS: [&str; 2] = ["Model: ", "Main model: "];
/// The model that makes the edits in the mode `architect`.
const EDITOR: &str = "Editor model: ";
/// What follows the name of the format of the edits in the message that names the model.
const EDIT_FORMAT: &str = " edit format";
/// The messages about an edit that wasn't made: because the user declined it or the file is ignored, and
/// because nothing may be changed.
const SKIPPED: &str = "Skipping edits to ";
const IGNORED: &str = " that matches gitignore spec.";
const NOT_APPLIED: &str = "Did not apply edit to ";
const DRY_RUN: &str = " (--dry-run)";
/// The commands that end the program, and its message when the user stops it.
const EXITS: [&str; 2] = ["/exit", "/quit"];
const KILLED: &str = "^C KeyboardInterrupt";
/// The message about blocks that don't match, after their number.
const MISMATCH: &str = " failed to match!";
/// The messages about a unified diff and a patch that can't be applied, and what names the file in the
/// first.
const NO_HUNK: &str = "hunk failed to apply!";
const NAMES_FILE: [&str; 2] = [
    " does not contain lines that match the diff you provided!",
    " contains multiple sets of lines that match the diff you provided!",
];
const NO_PATCH: [&str; 3] = [
    "Error parsing patch content: ",
    "Error applying action ",
    "Unexpected error applying action ",
];
/// The message about a reply or a conversation that is too long, after the model's name.
const TOKEN_LIMIT: &str = " has hit a token limit!";
/// The message about too many corrections, after their number.
const CORRECTIONS: &str = " reflections allowed, stopping.";

/// The name of the calls that the model's edits become.
const EDIT: &str = "edit";
const FENCE: &str = "```";
/// At most this many edits of a reply become calls.
const MAX_EDITS: usize = 256;
/// Longer replies aren't searched for edits.
const MAX_SEARCHED_BYTES: usize = 512 << 10;
/// Longer paths aren't paths; bytes.
const MAX_PATH_BYTES: usize = 1_000;

fields! {
    struct Record { role, content, started, cut }
}

/// A session while it is being read.
#[derive(Debug, Default)]
struct Session {
    conversation: Conversation,
    ends: Turns,
    end: Option<Ended>,
    model: Option<Box<str>>,
    /// Whether the model has replied to the last prompt, so that an interruption stops nothing.
    is_answered: bool,
    /// Whether the user ended the program.
    is_exited: bool,
    /// The message that names the format of the edits, if the model writes whole files.
    whole: Option<usize>,
    /// A hash of the words after a command that asks the model. The program repeats them as a prompt.
    asked: Option<u64>,
    /// A hash of the last reply. In the mode `architect`, the program gives it to the editor's model as a
    /// prompt.
    replied: Option<u64>,
    /// The first command. It's the title of a session without a prompt.
    command: Option<Box<str>>,
    /// The cost so far in US dollars, and the numbers of requests with tokens and with a cost.
    cost: f64,
    counted: u64,
    priced: u64,
}

impl Reader for Session {
    fn record(&mut self, record: Source<'_>, draft: &mut Draft<'_>) {
        if !record.text.starts_with('{') {
            return;
        }
        let said = Record::of(record.text);
        let role = text(said.role).unwrap_or_default();
        let words = text(said.content).unwrap_or_default();
        let mark = EventDraft::new(&role, None);
        match &*role {
            "start" => {
                let ts = draft.time(said.started);
                draft.event(EventDraft::new(&role, ts));
                draft.run().run_id = text(said.started).map(|time| cut(&time));
            }
            "user" => self.user(&words, &mark, draft),
            "assistant" => {
                self.replied = Some(print(&words));
                let part = reply_of(&words, self.whole.is_some());
                let n = self.conversation.reply(None, None, mark, part, draft);
                // The step is assembled from its records, so it needs the format of the edits.
                if let Some(at) = self.whole {
                    draft.refer(n, at);
                }
                // The text so far of an interrupted reply follows the interruption.
                self.end.take_if(|end| end.outcome != Outcome::Cancelled);
                (self.is_answered, self.asked) = (true, None);
            }
            _ => self.program(&words, record.text, mark, draft),
        }
        if said.cut.is_some() {
            draft.issue(
                IssueKind::TooLong,
                "a message is too long to read as a whole",
            );
        }
    }

    fn look(&mut self, draft: &mut Draft<'_>) {
        let (ended, answer) = self.settled(draft);
        let model = self.model.clone();
        let turns = self.conversation.turns();
        let run = draft.run();
        run.tool = Some("Aider".into());
        let command = self.command.clone();
        run.titles = command.filter(|_| turns == 0).into_iter().collect();
        run.model = model;
        run.awaits_user = ended.is_some() && !self.is_exited;
        run.ended = ended.map(Box::new);
        run.final_result = answer;
        run.turns = Some(turns);
        // By the program's own list of prices.
        run.cost_usd = Some(self.cost).filter(|cost| *cost > 0.0 && self.priced >= self.counted);
        run.cost_estimated = run.cost_usd.is_some();
    }
}

impl Session {
    fn user(&mut self, words: &str, mark: &EventDraft<'_>, draft: &mut Draft<'_>) {
        // Other commands ask the program for something.
        const ASKS: [&str; 4] = ["/ask ", "/code ", "/architect ", "/context "];
        let asked = ASKS.iter().find_map(|ask| words.strip_prefix(ask));
        let is_command = words.starts_with(['/', '!']) && asked.is_none();
        let said = Some(print(words));
        let is_again = self.asked.take() == said || self.replied.take() == said;
        if is_command {
            self.command.get_or_insert_with(|| cut(words.trim()));
        }
        self.is_exited = EXITS.contains(&words.trim());
        if self.is_exited && self.conversation.turns() > 0 {
            self.end
                .get_or_insert_with(|| Ended::unanswered(words.trim()));
        }
        if is_command || is_again {
            draft.event(EventDraft::new("user", None).stage("command"));
            return;
        }
        self.asked = asked.map(print);
        let (end, answer) = self.settled(draft);
        self.ends
            .begin(self.conversation.steps(), end, answer, None);
        (self.end, self.is_answered) = (None, false);
        self.conversation.prompt(words, mark, draft);
    }

    fn program(&mut self, words: &str, record: &str, mark: EventDraft<'_>, draft: &mut Draft<'_>) {
        let first = words.lines().next().unwrap_or_default();
        if first.starts_with(EMPTY) {
            self.conversation
                .reply(None, None, mark, Part::default(), draft);
            self.is_answered = true;
            let headline = "The model's reply was empty";
            let end = Ended::new(EMPTY, headline, Outcome::Failed, Certainty::Recorded);
            self.end = Some(end.at_event(draft.newest()));
            return;
        }
        let last = self.conversation.last();
        let part = part_of(record, last.and_then(|n| draft.step(n)), false);
        let of = |word, headline, outcome| Ended::new(word, headline, outcome, Certainty::Recorded);
        let end = if first.starts_with(ERROR) {
            Some(of("error", "API error", Outcome::Failed).detail(cut(first)))
        } else if first.ends_with(TOKEN_LIMIT) {
            let note = "Aider doesn't record whether the reply or the conversation was too long";
            Some(of("token limit", "Token limit reached", Outcome::Truncated).note(note))
        } else if first.ends_with(CORRECTIONS) {
            Some(of(
                "reflections",
                "Correction limit reached",
                Outcome::Truncated,
            ))
        } else if first.starts_with(INTERRUPTED) && !self.is_over() {
            Some(of("^C", "Interrupted by the user", Outcome::Cancelled))
        } else {
            None
        };
        let is_failure = end
            .as_ref()
            .is_some_and(|end| end.outcome == Outcome::Failed);
        self.cost += part.cost.unwrap_or_default();
        self.priced += u64::from(part.cost.is_some());
        if part.tokens.is_some() {
            self.counted += 1;
            let is_empty = |end: &Ended| &*end.word == EMPTY;
            let empty = self.end.take().filter(is_empty);
            self.end = empty.or_else(|| Some(Ended::answered(Ended::UNBROKEN)));
        }
        if first.starts_with(RETRIES) || first.ends_with(MISMATCH) {
            self.end = None;
        }
        self.is_exited |= first.starts_with(KILLED);
        let model = MODELS.iter().find_map(|start| first.strip_prefix(start));
        if let Some(model) = model {
            let name = model.split(" with ").next().unwrap_or(model);
            self.model = Some(cut(name));
        }
        let names_format = first.contains(EDIT_FORMAT);
        let says_nothing = part.answers.is_empty()
            && part.changes.is_empty()
            && part.tokens.is_none()
            && part.cost.is_none();
        if says_nothing {
            let at = draft.event(mark.failed(is_failure));
            // The mode `architect` has a second message, about the format of its editor.
            if names_format && (model.is_some() || first.starts_with(EDITOR)) {
                self.whole = writes_whole(first).then_some(at);
            }
        } else {
            draft.results(last.as_slice(), mark, part);
        }
        self.end = end
            .map(|end| end.at_event(draft.newest()))
            .or(self.end.take());
    }

    /// Returns whether the turn has ended, so that an interruption has no effect.
    fn is_over(&self) -> bool {
        self.is_answered && self.end.is_some() || self.conversation.turns() == 0
    }

    /// Returns the end and the answer. A turn without steps keeps those of the previous turn.
    fn settled(&self, draft: &Draft<'_>) -> (Option<Ended>, Option<Box<str>>) {
        let last = self.conversation.last();
        self.ends.settle_said(self.end.clone(), last, draft)
    }
}

/// Returns a hash of the words in a text.
fn print(words: &str) -> u64 {
    let mut said = String::with_capacity(words.len());
    for word in words.split_whitespace() {
        said.push_str(word);
        said.push(' ');
    }
    StepHead::print_of(said.as_bytes())
}

/// Returns the line of step `n`.
fn assembled(n: usize, records: &[String]) -> String {
    // No other record of a step is such a message.
    let is_whole = records.iter().any(|record| {
        let said = text(Record::of(record).content).unwrap_or_default();
        Record::of(record).role == Some("\"aider\"") && writes_whole(&said)
    });
    part::line_of(n, records, |record, step| {
        part_of(record, Some(step), is_whole)
    })
}

/// Returns whether a message names a model that writes whole files.
fn writes_whole(said: &str) -> bool {
    let is_model = said.starts_with(EDITOR) || MODELS.iter().any(|start| said.starts_with(start));
    let format = said.split_once(EDIT_FORMAT).map(|(format, _)| format);
    is_model && format.is_some_and(|format| format.ends_with("whole"))
}

/// Returns the part of a step that a record contains. `step` is the step so far, with its edits.
/// `is_whole` is whether the model writes whole files.
fn part_of(record: &str, step: Option<&Part>, is_whole: bool) -> Part {
    let said = Record::of(record);
    let words = text(said.content).unwrap_or_default();
    match said.role {
        Some("\"assistant\"") => reply_of(&words, is_whole),
        Some("\"aider\"") => step.map_or_else(Part::default, |step| told(&words, step)),
        _ => Part::default(),
    }
}

/// Returns the part of a step that is in a message of the program: tokens, or results of edits.
fn told(words: &str, step: &Part) -> Part {
    let first = words.lines().next().unwrap_or_default();
    let mut part = Part::default();
    if first.starts_with(COST) {
        part.cost = cost(first);
    } else if let Some(said) = first.strip_prefix(TOKENS) {
        part.tokens = Some(tokens(said));
        part.tokens_estimated = true;
        part.cost = cost(said);
    }
    if step.changes.len() >= MAX_PIECES {
        return part;
    }
    let is_open = |call: &CallDraft| step.answers.iter().all(|answer| answer.call != call.id);
    let of = |call: &CallDraft, key| text(member(&call.args, key)).unwrap_or_default();
    let changed = |path: &str| (format!("files.{path}"), None, None);
    let applied = first.strip_prefix(APPLIED);
    if let Some(path) = applied.filter(|path| path.len() <= MAX_PATH_BYTES) {
        let open = || step.calls.iter().filter(|call| is_open(call));
        let named: Vec<&CallDraft> = open().filter(|call| of(call, "path") == path).collect();
        // A line of several words above a block may be a path, or words with a path at the end.
        let is_path = |call: &&CallDraft| of(call, "path").ends_with(&format!(" {path}"));
        if named.is_empty()
            && let Some(call) = open().find(is_path)
        {
            part.calls.push(CallDraft {
                args: edit_of(path, &of(call, "patch")),
                ..call.clone()
            });
            part.answers.push(answer(call, None));
        }
        part.answers
            .extend(named.into_iter().map(|call| answer(call, None)));
        if part.answers.is_empty() && has_edits_in_text(step, &mut part) {
            add(&mut part, step, path, &searched(step), None);
        } else {
            part.changes.push(changed(path));
        }
    } else if let Some(path) = skipped(first) {
        let of_file = |call: &&CallDraft| is_open(call) && of(call, "path") == path;
        part.answers
            .extend(step.calls.iter().filter(of_file).map(declined));
        if part.answers.is_empty() && has_edits_in_text(step, &mut part) {
            add(
                &mut part,
                step,
                path,
                &searched(step),
                Some(first.to_owned()),
            );
            if let Some(answer) = part.answers.last_mut() {
                answer.status = Some("cancelled");
                answer.error = Some(DECLINED.to_owned());
            }
        }
    } else if first.ends_with(NO_HUNK) && has_edits_in_text(step, &mut part) {
        let of_file = |line: &str| {
            let path = NAMES_FILE.iter().find_map(|end| line.strip_suffix(end))?;
            Some(path.to_owned())
        };
        let bad: HashSet<String> = words.lines().filter_map(of_file).collect();
        let reply = searched(step);
        let paths = edits::patched(&reply, MAX_EDITS);
        if paths.is_empty() {
            add_unknown(&mut part, step, first);
        }
        for path in paths {
            // The hunks that don't match are repeated. The others were applied.
            let error = bad.contains(&path).then(|| first.to_owned());
            add(&mut part, step, &path, &reply, error);
        }
    } else if NO_PATCH.iter().any(|start| first.starts_with(start))
        && has_edits_in_text(step, &mut part)
    {
        // The files of the actions before the one that failed have messages of their own.
        let reply = searched(step);
        let paths = edits::patched(&reply, MAX_EDITS);
        if paths.is_empty() {
            add_unknown(&mut part, step, first);
        }
        let is_named = |path: &&String| first.contains(&format!(" to {path}: "));
        let named: Vec<&String> = paths.iter().filter(is_named).collect();
        let is_parsed = !named.is_empty();
        for path in paths.iter().filter(|path| !is_parsed || is_named(path)) {
            add(&mut part, step, path, &reply, Some(first.to_owned()));
        }
    } else if first.ends_with(MISMATCH) {
        let bad: HashSet<String> = blocks(words).map(|block| plain(block.text)).collect();
        let reason = words.lines().find_map(|line| line.strip_prefix("## "));
        let reason = cut(reason.unwrap_or(first));
        for call in step.calls.iter().filter(|call| is_open(call)) {
            // The blocks that don't match are repeated. The others were applied.
            let is_bad = bad.contains(&plain(&of(call, "patch")));
            part.answers
                .push(answer(call, is_bad.then(|| reason.clone().into_string())));
            if !is_bad {
                part.changes.push(changed(&of(call, "path")));
            }
        }
    }
    part
}

/// Returns whether a message is about an edit that has to be found in the text of the reply, because
/// the reply's edits aren't calls yet. Counts a message that there is no room for.
fn has_edits_in_text(step: &Part, part: &mut Part) -> bool {
    // A reply may be followed by any number of messages, and each would search it again.
    if step.calls.len() >= MAX_EDITS || step.answers.len() >= MAX_EDITS {
        part.beyond += 1;
        return false;
    }
    let is_marked = |call: &CallDraft| {
        let patch = member(&call.args, "patch");
        patch.is_some_and(|patch| patch.starts_with("\"<<<<<<< "))
    };
    !step.calls.iter().any(is_marked)
}

/// Returns the file of a message that an edit of it wasn't made.
fn skipped(first: &str) -> Option<&str> {
    let path = match first.strip_prefix(SKIPPED) {
        Some(path) => path.strip_suffix(IGNORED).unwrap_or(path),
        None => first.strip_prefix(NOT_APPLIED)?.strip_suffix(DRY_RUN)?,
    };
    Some(path).filter(|path| path.len() <= MAX_PATH_BYTES)
}

/// Returns the result of an edit that wasn't permitted.
fn declined(call: &CallDraft) -> Answer {
    Answer {
        status: Some("cancelled"),
        ..answer(call, Some(DECLINED.to_owned()))
    }
}

/// Returns the text of a reply in which edits are found. It's searched for each file.
fn searched(step: &Part) -> String {
    let words = step.text.iter().map(String::len).sum::<usize>();
    match words <= MAX_SEARCHED_BYTES {
        true => step.text.join("\n"),
        false => String::new(),
    }
}

/// Adds the edit of a file that is in the text of the `reply`, and its result.
fn add(part: &mut Part, step: &Part, path: &str, reply: &str, error: Option<String>) {
    let calls = || step.calls.iter().chain(&part.calls);
    let number = calls().count() + 1;
    if number > MAX_EDITS {
        part.beyond += 1;
        return;
    }
    // Several messages may be about the same file, and each edit has the file's text.
    let copied = calls().map(|call| call.args.len()).sum::<usize>();
    let reply = if copied > MAX_SEARCHED_BYTES {
        ""
    } else {
        reply
    };
    let call = edits::of(path, reply, format!("{EDIT} {number}"));
    if error.is_none() {
        let content = member(&call.args, "content").map(str::to_owned);
        part.changes.push((format!("files.{path}"), None, content));
    }
    part.answers.push(answer(&call, error));
    part.calls.push(call);
}

/// Adds an edit that failed and isn't found in the text of the reply. The file is unknown.
fn add_unknown(part: &mut Part, step: &Part, error: &str) {
    let call = CallDraft {
        id: format!("{EDIT} {}", step.calls.len() + part.calls.len() + 1),
        name: "edit".to_owned(),
        args: "{}".to_owned(),
    };
    part.answers.push(answer(&call, Some(error.to_owned())));
    part.calls.push(call);
}

/// Returns the lines of a block without their indentation, which the program leaves out in a message.
fn plain(block: &str) -> String {
    block.lines().map(str::trim).collect::<Vec<_>>().join("\n")
}

fn answer(call: &CallDraft, error: Option<String>) -> Answer {
    Answer {
        call: call.id.clone(),
        status: Some(if error.is_some() { "error" } else { "success" }),
        output: "null".to_owned(),
        error: error.map(|words| match &*words {
            "" => NO_WORDS.to_owned(),
            _ => words,
        }),
        ..Answer::default()
    }
}

/// Returns the text of a reply, and its edits. A path, a fence and a block between conflict markers are
/// an edit. A block without a path belongs to the file of the block before it. If the model writes whole
/// files (`is_whole`), such markers are part of a file.
fn reply_of(words: &str, is_whole: bool) -> Part {
    let mut part = Part::default();
    let (mut path, mut said, mut last) = ("", String::new(), 0);
    for block in blocks(words).filter(|_| !is_whole) {
        let [first, second] = block.above;
        let is_fenced = second.1.starts_with(FENCE);
        let (line, above) = if is_fenced { first } else { second };
        let named = named(above).or_else(|| named_in_words(above).filter(|_| is_fenced));
        path = named.unwrap_or(path);
        if part.calls.len() >= MAX_EDITS {
            part.beyond += 1;
            continue;
        }
        let end = block.end;
        part.calls.push(CallDraft {
            id: format!("{EDIT} {}", part.calls.len() + 1),
            name: EDIT.to_owned(),
            args: edit_of(path, block.text),
        });
        let start = match named {
            Some(_) => line,
            None if is_fenced => second.0,
            None => block.start,
        };
        said.push_str(words.get(last..start).unwrap_or_default());
        let rest = words.get(end..).unwrap_or_default();
        let fence = rest.split_inclusive('\n').next();
        let fence = fence.filter(|line| line.starts_with(FENCE));
        last = end + fence.map_or(0, str::len);
    }
    said.push_str(words.get(last..).unwrap_or_default());
    let said = said.trim();
    if !said.is_empty() {
        part.text.push(said.to_owned());
    }
    part
}

/// A block between conflict markers.
struct Block<'a> {
    /// The two lines above it, with their offsets.
    above: [(usize, &'a str); 2],
    start: usize,
    end: usize,
    text: &'a str,
}

fn blocks(words: &str) -> impl Iterator<Item = Block<'_>> {
    let (mut at, mut above, mut open) = (0, [(0, ""); 2], None);
    words.split_inclusive('\n').filter_map(move |line| {
        let (from, bare) = (at, line.trim_end());
        at += line.len();
        if bare.starts_with("<<<<<<< ") {
            open = Some((above, from));
        } else if bare.starts_with(">>>>>>> ") {
            let (above, start) = open.take()?;
            return Some(Block {
                above,
                start,
                end: at,
                text: words.get(start..at)?.trim_end(),
            });
        } else if open.is_none() {
            let [_, last] = above;
            above = [last, (from, bare)];
        }
        None
    })
}

/// Returns the path in the line above a block or its fence: a word.
fn named(line: &str) -> Option<&str> {
    let word = line.trim().trim_matches(['`', '*', '#', ':', ' ']);
    let is_path = !word.is_empty() && word.len() <= MAX_PATH_BYTES;
    (is_path && !word.contains(char::is_whitespace)).then_some(word)
}

/// Returns the path of several words in the line above the fence of a block. The last word has the
/// extension of the file.
fn named_in_words(line: &str) -> Option<&str> {
    const MAX_WORDS: usize = 4;
    let words = line.trim().trim_matches(['`', '*', '#', ' ']);
    let (name, extension) = words.rsplit_once('.')?;
    let is_extension =
        !extension.is_empty() && extension.bytes().all(|b| b.is_ascii_alphanumeric());
    let is_path = is_extension && words.len() <= MAX_PATH_BYTES && !name.ends_with([' ', '.']);
    (is_path && words.split_whitespace().count() <= MAX_WORDS).then_some(words)
}

/// Returns the arguments of an edit.
fn edit_of(path: &str, patch: &str) -> String {
    format!("{{\"path\":{},\"patch\":{}}}", quoted(path), quoted(patch))
}

/// Reads the tokens of a request: `2.5k sent, 1k cache hit, 43 received.` Those sent include the cache.
fn tokens(said: &str) -> Tokens {
    let counts = said.split(". Cost").next().unwrap_or(said);
    let of = |what: &str| {
        let number = counts
            .split(", ")
            .find_map(|count| count.trim_end_matches('.').strip_suffix(what))?;
        let scale = match number.chars().next_back()? {
            'k' => 1e3,
            'M' => 1e6,
            _ => 1.0,
        };
        let count = leading(number)? * scale;
        (count < 1e15).then(|| count.round() as u64)
    };
    Tokens {
        input: of(" sent"),
        cached: of(" cache hit"),
        written: of(" cache write"),
        output: of(" received"),
        ..Tokens::default()
    }
}

/// Reads the cost of a request in US dollars: `Cost: $0.0012 message, $0.0034 session.`
fn cost(said: &str) -> Option<f64> {
    let (_, cost) = said.split_once("Cost: ")?;
    leading(cost)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_after_a_reply_are_bounded() {
        let text = format!("a.py\n```\n{}```\n", "x = 1\n".repeat(5_000));
        for message in [
            "Applied edit to a.py",
            "UnifiedDiffNoMatch: hunk failed to apply!",
            "Error parsing patch content: no",
        ] {
            let mut step = Part {
                text: vec![text.clone()],
                ..Part::default()
            };
            let mut beyond = 0;
            for _ in 0..2 * MAX_EDITS {
                let part = told(message, &step);
                step.calls.extend(part.calls);
                step.answers.extend(part.answers);
                step.changes.extend(part.changes);
                beyond += part.beyond;
            }
            assert_eq!(step.calls.len(), MAX_EDITS, "{message}");
            assert!(beyond > 0, "{message}");
            let kept: usize = step.calls.iter().map(|call| call.args.len()).sum();
            assert!(kept < 2 << 20, "{message}: {kept} bytes");
        }
    }
}
