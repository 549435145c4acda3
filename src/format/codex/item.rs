//! Converts one line of a Codex session into a part of its step.

use std::borrow::Cow;

use crate::format::part::{quoted, text};
use crate::format::value::{below, count, cut, filled, int, member, silent, spoken, unpacked};
use crate::format::{Answer, CallDraft, Part, Tokens};
use crate::model::json::walk;
use crate::model::step::{DECLINED, FAILED, NO_WORDS};
use crate::model::{Certainty, Ended, Outcome};

fields! {
    pub(super) struct Line { timestamp, ordinal, kind = "type", payload }
    pub(super) struct Payload {
        kind = "type", id, role, content, summary, call_id, name, namespace, arguments, input, output, action, status,
        revised_prompt, usage, info, item, reason, error, effort, git, last = "last_agent_message", message, model, cwd,
        version = "cli_version", parent = "parent_thread_id", source, history = "subagent_history_start_ordinal",
        code = "codex_error_info", child = "new_thread_id", forked = "forked_from_id", base = "history_base",
        passed = "internal_chat_message_metadata_passthrough",
        turn = "turn_id", dropped = "num_turns", attribution = "turn_attribution", ms = "duration_ms", exit_code, duration, changes, success, stderr, result, invocation,
    }
    pub(super) struct Item {
        kind = "type", id, status, exit_code, duration, changes, success, stderr, result, error, content,
        invocation, child = "agent_thread_id", receivers = "receiver_thread_ids", process = "process_id",
    }
    pub(super) struct Usage {
        input_tokens, cached_input_tokens, cache_write_input_tokens, output_tokens, reasoning_output_tokens, total_tokens,
    }
}

/// Returns the part of a step that a line contains.
pub(super) fn part_of(record: &str, project: Option<&str>) -> Part {
    let line = Line::of(record);
    let payload = line.payload.map(Payload::of).unwrap_or_default();
    let mut part = Part::default();
    match (text(line.kind).as_deref(), text(payload.kind).as_deref()) {
        (Some("token_usage_record"), _) => part.tokens = payload.usage.map(tokens),
        (Some("turn_context"), _) => part.model = text(payload.model),
        (_, Some("token_count")) => {
            part.tokens = payload
                .info
                .and_then(|info| member(info, "last_token_usage"))
                .map(tokens);
        }
        (_, Some("reasoning")) => {
            let texts = [payload.summary, payload.content].map(spoken);
            part.thought
                .extend(texts.into_iter().find(|text| !text.is_empty()));
        }
        (_, Some("message") | None) => {
            part.text
                .extend(Some(spoken(payload.content)).filter(|text| !text.is_empty()));
        }
        (_, Some("item_completed")) => item_of(
            payload.item.map(Item::of).unwrap_or_default(),
            project,
            &mut part,
        ),
        (_, Some("exec_command_end" | "patch_apply_end" | "mcp_tool_call_end")) => {
            let item = Item {
                id: payload.call_id,
                ..line.payload.map(Item::of).unwrap_or_default()
            };
            item_of(item, project, &mut part);
        }
        (_, Some(kind)) if kind.ends_with("_call") => {
            call_of(kind, &payload, line.timestamp, &mut part)
        }
        (_, Some(kind)) if kind.ends_with("_output") => part.answers.push(answer_of(&payload)),
        _ => {}
    }
    part
}

fn call_of(kind: &str, payload: &Payload<'_>, timestamp: Option<&str>, part: &mut Part) {
    // In older files a search has no id. Its time identifies it.
    let id = text(payload.call_id)
        .or_else(|| text(payload.id))
        .or_else(|| text(timestamp))
        .unwrap_or_default();
    let name = text(payload.name).unwrap_or_else(|| kind.trim_end_matches("_call").to_owned());
    let name = text(payload.namespace).map_or(name.clone(), |space| format!("{space}.{name}"));
    let args = match (text(payload.arguments), payload.input) {
        (Some(arguments), _) => unpacked(&arguments),
        (None, Some(input)) => format!("{{\"input\":{input}}}"),
        (None, None) => payload
            .arguments
            .or(payload.action)
            .or(payload.revised_prompt)
            .unwrap_or("{}")
            .to_owned(),
    };
    if name == "update_plan"
        && let Some(plan) = member(&args, "plan")
    {
        part.changes
            .push(("plan".to_owned(), None, Some(plan.to_owned())));
    }
    // Calls that the provider runs itself have no separate result.
    if matches!(kind, "web_search_call" | "image_generation_call") {
        let status = match text(payload.status).as_deref() {
            Some("completed") => Some("success"),
            Some("failed") => Some("error"),
            _ => None,
        };
        part.answers.push(Answer {
            call: id.clone(),
            status,
            ..Answer::default()
        });
    }
    part.calls.push(CallDraft { id, name, args });
}

/// Returns the result of a call from its output for the model. If a failure is recorded at all,
/// it's often only in the text.
fn answer_of(payload: &Payload<'_>) -> Answer {
    let output = payload.output.unwrap_or("null");
    let content = member(output, "content").or(Some(output));
    let said = spoken(content);
    let inner = if said.starts_with('{') {
        member(&said, "metadata")
    } else {
        None
    };
    let exit = inner
        .and_then(|inner| int(member(inner, "exit_code")))
        .or_else(|| exit_in(&said));
    let first = said.lines().next().unwrap_or_default();
    let failed = member(output, "success") == Some("false")
        || (first.starts_with("image path `") && first.ends_with("` is not a file"))
        || first.starts_with("Script failed")
        || first.starts_with("apply_patch verification failed")
        || first.starts_with("exec_command failed")
        || REFUSED.iter().any(|words| first.starts_with(words));
    let status = if is_aborted(&said) || is_rejected(&said) {
        Some("cancelled")
    } else if failed || exit.is_some_and(|exit| exit != 0) {
        Some("error")
    } else if exit.is_some()
        || first == "Script completed"
        || process_in(&said).is_some()
        || member(output, "success") == Some("true")
    {
        Some("success")
    } else {
        None
    };
    let bad = matches!(status, Some("error" | "cancelled"));
    let output = if said.is_empty() {
        output.to_owned()
    } else {
        quoted(&said)
    };
    Answer {
        call: text(payload.call_id).unwrap_or_default(),
        status,
        error: bad.then(|| match printed_in(&said) {
            Some(printed) if printed.trim().is_empty() => silent(exit),
            Some(printed) => printed.into_owned(),
            None if said.is_empty() => NO_WORDS.to_owned(),
            None => said.clone(),
        }),
        output: if bad { "null".to_owned() } else { output },
        exit,
        ms: None,
    }
}

/// How the output for a call begins that the program doesn't run, or whose file it can't find.
const REFUSED: [&str; 4] = [
    "unsupported call: ",
    "unsupported custom tool call: ",
    "failed to parse function arguments: ",
    "unable to locate image at `",
];

/// Returns what a command printed, if the output for the model says which part of it that is.
fn printed_in(said: &str) -> Option<Cow<'_, str>> {
    const BEFORE: &str = "\nOutput:";
    if said.starts_with('{') && member(said, "metadata").is_some() {
        return text(member(said, "output")).map(Cow::Owned);
    }
    let (_, printed) = match said.strip_suffix(BEFORE) {
        Some(head) => (head, ""),
        None => said.split_once("\nOutput:\n")?,
    };
    Some(Cow::Borrowed(printed))
}

/// Returns whether the user stopped a running call.
pub(super) fn is_aborted(said: &str) -> bool {
    said.lines().take(3).any(|line| line == "aborted by user")
}

/// Returns whether the user declined a call. The whole output is then a sentence like "exec command
/// rejected by user".
fn is_rejected(said: &str) -> bool {
    const MAX_BYTES: usize = 60;
    said.len() <= MAX_BYTES && !said.contains('\n') && said.ends_with("rejected by user")
}

/// Returns the exit code, if one of the first lines contains it.
fn exit_in(output: &str) -> Option<i64> {
    let line = |line: &str| {
        let rest = line
            .strip_prefix("Process exited with code ")
            .or_else(|| line.strip_prefix("Exit code: "))?;
        rest.trim().parse().ok()
    };
    head(output).find_map(line)
}

/// Returns the process of a command that continues, if one of the first lines names it. Such a call
/// succeeded. The call that polls the process gets the exit code.
pub(super) fn process_in(output: &str) -> Option<&str> {
    head(output).find_map(|line| line.strip_prefix("Process running with session ID "))
}

/// Returns the lines in front of a command's output.
fn head(output: &str) -> impl Iterator<Item = &str> {
    output.lines().take(6).take_while(|line| *line != "Output:")
}

/// Returns the agent's working directory, if the record is that of a turn or a session.
pub(super) fn project_of(record: &str) -> Option<String> {
    let line = Line::of(record);
    let is_told = matches!(line.kind, Some("\"turn_context\"" | "\"session_meta\""));
    text(line.payload.filter(|_| is_told).map(Payload::of)?.cwd)
}

/// Returns the status of a call to a server's tool, and the error message: by the server's
/// response, or by the error that prevented a response.
pub(super) fn served(
    result: Option<&str>,
    error: Option<&str>,
) -> (Option<&'static str>, Option<String>) {
    fields! { struct Served { ok = "Ok", err = "Err", content, is_error, failed = "isError" } }
    let words = |value: &str| {
        let said = text(Some(value)).or_else(|| text(member(value, "message")));
        said.filter(|said| !said.is_empty())
            .unwrap_or_else(|| NO_WORDS.to_owned())
    };
    if let Some(error) = error.filter(|error| *error != "null") {
        return (Some("error"), Some(words(error)));
    }
    let Some(result) = result.filter(|result| result.starts_with('{')) else {
        return (None, None);
    };
    let outer = Served::of(result);
    if let Some(error) = outer.err {
        return (Some("error"), Some(words(error)));
    }
    let inner = outer.ok.map_or(outer, Served::of);
    match inner.failed.or(inner.is_error) {
        Some("true") => {
            let said = spoken(inner.content);
            (
                Some("error"),
                Some(if said.is_empty() {
                    NO_WORDS.to_owned()
                } else {
                    said
                }),
            )
        }
        // The protocol allows omitting the flag on success.
        Some("false" | "null") | None => (Some("success"), None),
        // A value of another type has no meaning.
        Some(_) => (None, None),
    }
}

/// Returns the error flag of a server's tool result, if it isn't a boolean.
pub(super) fn odd_flag(result: Option<&str>) -> Option<&str> {
    let result = result.filter(|result| result.starts_with('{'))?;
    let inner = member(result, "Ok").unwrap_or(result);
    let flag = member(inner, "isError").or_else(|| member(inner, "is_error"))?;
    (!matches!(flag, "true" | "false" | "null")).then_some(flag)
}

/// Adds the program's record of a call, or of a part of one, to `part`.
fn item_of(item: Item<'_>, project: Option<&str>, part: &mut Part) {
    let exit = int(item.exit_code);
    let is_served = item.invocation.is_some() || item.kind == Some("\"McpToolCall\"");
    let (answered, told) = if is_served {
        served(item.result, item.error)
    } else {
        (None, None)
    };
    let status = text(item.status);
    // The user declined, so the call never ran.
    let is_declined = status.as_deref() == Some("declined");
    let bad = is_declined || status.as_deref() == Some("failed") || item.success == Some("false");
    let bad = bad || exit.is_some_and(|exit| exit != 0) || answered == Some("error");
    let is_image = item.kind == Some("\"ImageView\"");
    // The program applies a patch in a command itself, and its output has no exit code.
    let is_patch = item.kind == Some("\"FileChange\"") && status.as_deref() == Some("completed");
    let answered = answered.or((is_image || is_patch).then_some("success"));
    let ms = item.duration.and_then(|duration| {
        let of = |key: &str, unit: f64| Some(count(member(duration, key))? as f64 * unit);
        Some(of("secs", 1e3)? + of("nanos", 1e-6)?)
    });
    let is_call = is_image
        || is_served
        || exit.is_some()
        || status.is_some()
        || item.success.is_some()
        || ms.is_some();
    let is_call = is_call
        && !matches!(
            item.kind,
            Some("\"CollabAgentToolCall\"" | "\"SubAgentActivity\"")
        );
    if is_call {
        let error = || match exit {
            Some(exit) => format!("a command exited with code {exit}"),
            None if told.is_some() => told.clone().unwrap_or_default(),
            None => {
                let said = text(item.stderr).filter(|text| !text.is_empty());
                said.unwrap_or_else(|| if is_declined { DECLINED } else { FAILED }.to_owned())
            }
        };
        part.beside.push(Answer {
            call: text(item.id).unwrap_or_default(),
            status: match (is_declined, bad) {
                (true, _) => Some("cancelled"),
                (false, true) => Some("error"),
                (false, false) => answered,
            },
            error: bad.then(error),
            exit,
            ms,
            output: String::new(),
        });
    }
    if bad {
        return;
    }
    for (path, change) in item.changes.into_iter().flat_map(walk::members) {
        let (Some(path), kind) = (text(Some(path)), text(member(change, "type"))) else {
            continue;
        };
        let content = member(change, "content").map(str::to_owned);
        let (before, after) = match kind.as_deref() {
            Some("add") => (None, content),
            Some("delete") => (content, Some("null".to_owned())),
            // Only the lines around the change are recorded, so neither side is known.
            _ => (None, None),
        };
        let key = format!("files.{}", below(&path, project));
        let diff = filled(member(change, "unified_diff"));
        part.diffs
            .extend(diff.map(|diff| (part.changes.len(), diff)));
        part.changes.push((key, before, after));
        let moved_to = filled(member(change, "move_path"));
        part.changes
            .extend(moved_to.map(|path| (format!("files.{}", below(&path, project)), None, None)));
    }
}

/// Converts the tokens of a reply. Codex includes cached tokens in the input.
fn tokens(usage: &str) -> Tokens {
    let usage = Usage::of(usage);
    Tokens {
        input: count(usage.input_tokens),
        cached: count(usage.cached_input_tokens),
        output: count(usage.output_tokens),
        reasoning: count(usage.reasoning_output_tokens),
        written: count(usage.cache_write_input_tokens),
        written_1h: None,
    }
}

/// Returns the end that an error causes. The class of the error is a word, or an object with one
/// key.
pub(super) fn failure(class: Option<&str>, message: Option<&str>) -> Ended {
    let key = || {
        class
            .and_then(|class| walk::members(class).next())
            .and_then(|(key, _)| text(Some(key)))
    };
    let word = text(class)
        .or_else(key)
        .unwrap_or_else(|| "error".to_owned());
    let message = text(message).unwrap_or_default();
    // These errors have no separate class. Other messages may contain the same text in the middle.
    let is_unnamed = matches!(&*word, "other" | "error");
    let said = message
        .strip_prefix("stream disconnected before completion: ")
        .unwrap_or(&message);
    let begins = |words: &str| is_unnamed && said.starts_with(words);
    let (headline, outcome) = match &*word {
        "context_window_exceeded" => (Ended::CONTEXT_FULL, Outcome::Failed),
        // Like a rate limit, this is the service's limit for its user, not a limit of this run.
        "usage_limit_exceeded" => ("Provider usage limit reached", Outcome::Failed),
        "session_budget_exceeded" => ("Session limit reached", Outcome::Truncated),
        "sandbox_error" => ("Failed with a sandbox error", Outcome::Failed),
        "cyber_policy" => (Ended::REFUSED, Outcome::Failed),
        _ if begins("Incomplete response returned, reason: max_output_tokens") => {
            (Ended::CUT_REPLY, Outcome::Truncated)
        }
        _ if begins("Incomplete response returned, reason: content_filter") => {
            (Ended::REFUSED, Outcome::Failed)
        }
        _ if begins("Codex ran out of room in the model's context window")
            || begins("Your input exceeds the context window") =>
        {
            (Ended::CONTEXT_FULL, Outcome::Failed)
        }
        _ if is_unnamed => ("Failed with an error", Outcome::Failed),
        _ => ("API error", Outcome::Failed),
    };
    Ended::new(&word, headline, outcome, Certainty::Recorded).detail(cut(&message))
}
