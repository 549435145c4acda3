//! Reads threads of Amp: one document, `threads/T-ID.json`, that is rewritten as it grows. Newer
//! versions keep threads only on Amp's server.
//!
//! A message of the model has its tokens, its model, and the state of its reply. A result is in the
//! next message of the user, with the status of the call. Messages have no times, only their usage
//! does. This reader is based on public descriptions of such files. No thread was made to try it.

use super::conversation::Conversation;
use super::ends::{End, ends};
use super::part::{self, quoted, text};
use super::value::{
    count, cut, filled, hunks, int, listed, member, micros, millis, own_words_in, short,
    stage_beside, unpacked,
};
use super::watch::begun;
use super::{Answer, CallDraft, Draft, EventDraft, Part, Reader, Shape, Source, Tokens, Tool};
use crate::model::json::walk;
use crate::model::step::{DECLINED, NO_WORDS};
use crate::model::{Can, Capabilities, Ended, Format, Outcome};

/// A thread.
pub(super) static THREAD: Tool = Tool {
    format: Format {
        name: "Amp thread",
        can: Capabilities {
            state: Can::Partly,
            times: Can::Partly,
            tokens: Can::Yes,
            ..Capabilities::NONE
        },
        file: "thread",
        no_end_reason: "Amp's thread doesn't record how its last reply ended",
        is_session: true,
        resume: "amp threads continue",
        names_copied: true,
        assemble: Some(assembled),
        ..Format::UNKNOWN
    },
    shape: Shape::Document(&[
        &["messages", "*"],
        &["id"],
        &["created"],
        &["title"],
        &["env"],
        &["relationships"],
    ]),
    is: |name, head| {
        let members = begun(head);
        let of = |wanted: &str| {
            let mut found = members
                .iter()
                .filter(|(key, _)| key.trim_matches('"') == wanted);
            found.next().map(|(_, value)| *value)
        };
        let is_thread = text(of("id")).is_some_and(|id| id.starts_with("T-"));
        name.ends_with(".json")
            && is_thread
            && ["created", "v"].iter().any(|key| int(of(key)).is_some())
    },
    reader: || Box::new(Thread::default()),
};

/// Why a complete reply ended.
const ENDS: &[End] = ends! {
    "end_turn" | "stop" => Completed, "Answered";
    "max_tokens" | "length" => Truncated, Ended::CUT_REPLY;
};

/// The states of a reply that isn't complete.
const STATES: &[End] = ends! {
    "cancelled" => Cancelled, "Interrupted by the user";
    "error" => Failed, "Failed with an error";
};

fields! {
    struct Message { role, content, usage, state }
    struct State { kind = "type", stop = "stopReason", error }
    struct Usage {
        model, input = "inputTokens", output = "outputTokens", cached = "cacheReadInputTokens",
        written = "cacheCreationInputTokens", total = "totalInputTokens", timestamp,
    }
    struct Block {
        kind = "type", text, thinking, id, name, input, call = "toolUseID", run,
    }
    struct Run { status, result, error, reason }
    struct Related { thread = "threadID", kind = "type", role }
}

/// A thread while it is being read.
#[derive(Debug, Default)]
struct Thread {
    conversation: Conversation,
    end: Option<Ended>,
}

impl Reader for Thread {
    fn record(&mut self, record: Source<'_>, draft: &mut Draft<'_>) {
        let value = Some(record.text);
        match record.path {
            0 => return self.message(record.text, draft),
            1 => draft.run().run_id = short(value),
            2 => draft.run().started_at = millis(value),
            3 => draft.run().titles = short(value).into_iter().collect(),
            4 => draft.run().project = project(record.text),
            _ => {
                for related in walk::items(record.text).map(Related::of) {
                    draft.run().names_others |= filled(related.thread).is_some();
                    let is_child = related.role == Some("\"child\"");
                    if is_child && related.kind == Some("\"handoff\"") {
                        draft.run().continues = short(related.thread);
                    }
                }
            }
        }
        if record.text.starts_with('{') {
            draft.event(EventDraft::new("environment", None));
        }
    }

    fn look(&mut self, draft: &mut Draft<'_>) {
        let end = self.end.clone();
        let is_answered = end
            .as_ref()
            .is_some_and(|end| end.outcome == Outcome::Completed);
        let last = self.conversation.last().filter(|_| is_answered);
        let answer = last.and_then(|n| draft.said(n));
        let at = draft.latest().filter(|_| end.is_some());
        let run = draft.run();
        run.tool = Some("Amp".into());
        run.updated_at = at;
        run.awaits_user = end.is_some();
        run.ended = end.map(Box::new);
        run.final_result = answer;
        run.turns = Some(self.conversation.turns());
    }
}

impl Thread {
    fn message(&mut self, record: &str, draft: &mut Draft<'_>) {
        let message = Message::of(record);
        let role = text(message.role).unwrap_or_default();
        let ts = message
            .usage
            .and_then(|usage| micros(Usage::of(usage).timestamp));
        let mark = EventDraft::new(&role, ts);
        match &*role {
            "assistant" => {
                let part = part_of(record);
                let state = message.state.map(State::of).unwrap_or_default();
                let failed = text(state.kind).as_deref() == Some("error");
                draft.name_model(&part);
                let mark = mark.failed(failed);
                self.conversation.reply(None, None, mark, part, draft);
                self.end = ended(&state).map(|end| end.at_event(draft.newest()));
            }
            "user" if results(message.content).next().is_some() => {
                let part = part_of(record);
                let n = self.conversation.step_of(&part);
                self.end = None;
                let stage = stage_beside(&own_words_in(message.content), mark.stage);
                draft.results(n.as_slice(), mark.stage(stage), part);
            }
            "user" => {
                self.end = None;
                let words = own_words_in(message.content);
                self.conversation.prompt(&words, &mark, draft);
            }
            _ => {
                draft.event(mark.stage("note"));
            }
        }
    }
}

/// Returns the end of the turn that a reply completes, if it does.
fn ended(state: &State<'_>) -> Option<Ended> {
    let kind = text(state.kind)?;
    if kind == "complete" {
        return End::of(ENDS, &text(state.stop)?);
    }
    let end = End::of(STATES, &kind)?;
    let error = state.error.map(words_of).filter(|words| !words.is_empty());
    Some(match error {
        Some(words) if end.outcome == Outcome::Failed => end.detail(cut(&words)),
        _ => end,
    })
}

/// Returns the words of an error: a text, or an object with a message.
fn words_of(error: &str) -> String {
    let message = || filled(member(error, "message"));
    text(Some(error)).or_else(message).unwrap_or_default()
}

/// Returns the first directory of the environment in which the thread was begun.
fn project(environment: &str) -> Option<Box<str>> {
    let trees = member(member(environment, "initial")?, "trees")?;
    let uri = filled(member(walk::items(trees).next()?, "uri"))?;
    uri.strip_prefix("file://").map(cut)
}

/// Returns the results in a message's content.
fn results(content: Option<&str>) -> impl Iterator<Item = Block<'_>> {
    blocks(content).filter(|block| block.kind == Some("\"tool_result\""))
}

fn blocks(content: Option<&str>) -> impl Iterator<Item = Block<'_>> {
    listed(content).map(Block::of)
}

/// Returns the line of step `n`.
fn assembled(n: usize, records: &[String]) -> String {
    part::line(n, records.iter().map(|record| part_of(record)))
}

/// Returns the part of a step that a message contains.
fn part_of(record: &str) -> Part {
    let message = Message::of(record);
    let mut part = Part::default();
    if message.role != Some("\"assistant\"") {
        for block in results(message.content) {
            answer(&block, &mut part);
        }
        return part;
    }
    if let Some(usage) = message.usage.map(Usage::of) {
        part.model = filled(usage.model);
        part.tokens = Some(tokens(&usage));
    }
    part.finish = message
        .state
        .and_then(|state| filled(State::of(state).stop));
    part.text.extend(filled(message.content));
    for block in blocks(message.content) {
        match block.kind {
            Some("\"text\"") => part.text.extend(filled(block.text)),
            Some("\"thinking\"") => part.thought.extend(filled(block.thinking)),
            Some("\"tool_use\"") => part.calls.push(CallDraft {
                id: text(block.id).unwrap_or_default(),
                name: text(block.name).unwrap_or_default(),
                args: block.input.unwrap_or("{}").to_owned(),
            }),
            _ => {}
        }
    }
    part
}

/// Adds a result, unless the call is still running.
fn answer(block: &Block<'_>, part: &mut Part) {
    let run = block.run.map(Run::of).unwrap_or_default();
    let status = text(run.status).unwrap_or_default();
    let exit = run
        .result
        .filter(|result| result.starts_with('{'))
        .and_then(|result| int(member(result, "exitCode")));
    let (status, other) = match &*status {
        "done" if exit.is_some_and(|exit| exit != 0) => ("error", None),
        "done" => ("success", None),
        "error" => ("error", None),
        "cancelled" => ("cancelled", filled(run.reason)),
        "rejected-by-user" => {
            let words = filled(run.reason);
            ("cancelled", words.or_else(|| Some(DECLINED.to_owned())))
        }
        _ => return,
    };
    let said = run.result.map(result_words).unwrap_or_default();
    let failed = status != "success";
    let error = run.error.map(words_of).filter(|words| !words.is_empty());
    if let Some(diff) = run.result.filter(|_| !failed).and_then(diff_in) {
        part.diffs.push((part.changes.len(), diff.1));
        part.changes.push((format!("files.{}", diff.0), None, None));
    }
    part.answers.push(Answer {
        call: text(block.call).unwrap_or_default(),
        status: Some(status),
        error: failed.then(|| {
            let said = Some(said.clone()).filter(|said| !said.is_empty());
            error
                .or(other)
                .or(said)
                .unwrap_or_else(|| NO_WORDS.to_owned())
        }),
        exit,
        output: match (failed, said.is_empty()) {
            (true, _) => "null".to_owned(),
            (false, false) => quoted(&said),
            (false, true) => unpacked(run.result.unwrap_or("null")),
        },
        ..Answer::default()
    });
}

/// Returns the text of a result: a text, or the output of an object.
fn result_words(result: &str) -> String {
    let output = || filled(member(result, "output"));
    let inside = || result.starts_with('{').then(output).flatten();
    text(Some(result)).or_else(inside).unwrap_or_default()
}

/// Returns the file and the hunks of the diff in a result.
fn diff_in(result: &str) -> Option<(String, String)> {
    if !result.starts_with('{') {
        return None;
    }
    let diff = filled(member(result, "diff"))?;
    let file = diff.lines().find_map(|line| {
        line.strip_prefix("+++ ")
            .or_else(|| line.strip_prefix("Index: "))
    })?;
    let file = file.split('\t').next().unwrap_or(file).to_owned();
    Some((file, hunks(diff.trim_end().trim_end_matches("```"))?))
}

/// Converts the tokens of a reply. The total of the input includes the cache.
fn tokens(usage: &Usage<'_>) -> Tokens {
    let [input, cached, written] = [usage.input, usage.cached, usage.written].map(count);
    let sum = input.map(|input| {
        input
            .saturating_add(cached.unwrap_or_default())
            .saturating_add(written.unwrap_or_default())
    });
    Tokens {
        input: count(usage.total).or(sum),
        cached,
        output: count(usage.output),
        written,
        ..Tokens::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_running_call_has_no_result_and_a_failed_command_is_an_error() {
        let part = |run: &str| {
            let block = format!(r#"{{"type":"tool_result","toolUseID":"a","run":{run}}}"#);
            part_of(&format!(r#"{{"role":"user","content":[{block}]}}"#))
        };
        let status = |run: &str| {
            let part = part(run);
            let answer = part.answers.first();
            answer.map(|answer| (answer.status, answer.exit, answer.error.clone()))
        };
        assert_eq!(status(r#"{"status":"in-progress"}"#), None);
        assert_eq!(status("7"), None);
        assert_eq!(
            status(r#"{"status":"done","result":{"output":"x","exitCode":2}}"#),
            Some((Some("error"), Some(2), Some("x".to_owned())))
        );
        assert_eq!(
            status(r#"{"status":"error","error":{"message":"no file"}}"#),
            Some((Some("error"), None, Some("no file".to_owned())))
        );
        assert_eq!(
            status(r#"{"status":"rejected-by-user"}"#),
            Some((Some("cancelled"), None, Some(DECLINED.to_owned())))
        );
        let diff =
            r#"{"status":"done","result":{"diff":"--- a.py\n+++ a.py\n@@ -1 +1 @@\n-a\n+b\n"}}"#;
        assert_eq!(part(diff).changes[0].0, "files.a.py");
        assert!(part(diff).diffs[0].1.starts_with("@@ -1"));
    }

    #[test]
    fn huge_counts_are_bounded() {
        let usage =
            r#"{"inputTokens":18446744073709551615,"cacheReadInputTokens":18446744073709551615}"#;
        assert!(
            tokens(&Usage::of(usage))
                .input
                .is_none_or(|input| input > 0)
        );
    }
}
