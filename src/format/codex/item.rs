//! What does one line of a Codex session say of the step that it belongs to?

use super::{Item, Line, Payload, Usage};
use crate::format::part::{quoted, text};
use crate::format::value::{count, int, member, spoken, unpacked};
use crate::format::{Answer, CallDraft, Part, Tokens};
use crate::model::json::walk;
use crate::model::step::NO_WORDS;

/// What a line says of the step that it belongs to.
pub(super) fn part_of(record: &str) -> Part {
    let line = Line::of(record);
    let payload = line.payload.map(Payload::of).unwrap_or_default();
    let mut part = Part::default();
    match (text(line.kind).as_deref(), text(payload.kind).as_deref()) {
        (Some("token_usage_record"), _) => part.tokens = payload.usage.map(tokens),
        (_, Some("token_count")) => {
            part.tokens = payload.info.and_then(|info| member(info, "last_token_usage")).map(tokens);
        }
        (_, Some("reasoning")) => {
            let texts = [payload.summary, payload.content].map(spoken);
            part.thought.extend(texts.into_iter().find(|text| !text.is_empty()));
        }
        (_, Some("message") | None) => {
            part.text.extend(Some(spoken(payload.content)).filter(|text| !text.is_empty()));
        }
        (_, Some("item_completed")) => item_of(payload.item.map(Item::of).unwrap_or_default(), &mut part),
        (_, Some("exec_command_end" | "patch_apply_end" | "mcp_tool_call_end")) => {
            let item = Item { id: payload.call_id, ..line.payload.map(Item::of).unwrap_or_default() };
            item_of(item, &mut part);
        }
        (_, Some(kind)) if kind.ends_with("_call") => call_of(kind, &payload, line.timestamp, &mut part),
        (_, Some(kind)) if kind.ends_with("_output") => part.answers.push(answer_of(&payload)),
        _ => {}
    }
    part
}

fn call_of(kind: &str, payload: &Payload<'_>, timestamp: Option<&str>, part: &mut Part) {
    // A search has no id in older files; what it then has for its own is its time.
    let id = text(payload.call_id).or_else(|| text(payload.id)).or_else(|| text(timestamp)).unwrap_or_default();
    let name = text(payload.name).unwrap_or_else(|| kind.trim_end_matches("_call").to_owned());
    let name = text(payload.namespace).map_or(name.clone(), |space| format!("{space}.{name}"));
    let args = match (text(payload.arguments), payload.input) {
        (Some(arguments), _) => unpacked(&arguments),
        (None, Some(input)) => format!("{{\"input\":{input}}}"),
        (None, None) => payload.arguments.or(payload.action).or(payload.revised_prompt).unwrap_or("{}").to_owned(),
    };
    if name == "update_plan"
        && let Some(plan) = member(&args, "plan")
    {
        part.changes.push(("plan".to_owned(), None, Some(plan.to_owned())));
    }
    // What the provider does itself has no result beside it.
    if matches!(kind, "web_search_call" | "image_generation_call") {
        let status = match text(payload.status).as_deref() {
            Some("completed") => Some("success"),
            Some("failed") => Some("error"),
            _ => None,
        };
        part.answers.push(Answer { call: id.clone(), status, ..Answer::default() });
    }
    part.calls.push(CallDraft { id, name, args });
}

/// What the model was given for a call. Whether it failed stands in the text, if anywhere.
fn answer_of(payload: &Payload<'_>) -> Answer {
    let output = payload.output.unwrap_or("null");
    let content = member(output, "content").or(Some(output));
    let said = spoken(content);
    let inner = if said.starts_with('{') { member(&said, "metadata") } else { None };
    let exit = inner.and_then(|inner| int(member(inner, "exit_code"))).or_else(|| exit_in(&said));
    let first = said.lines().next().unwrap_or_default();
    let failed = member(output, "success") == Some("false")
        || first.starts_with("Script failed")
        || first.starts_with("apply_patch verification failed")
        || first.starts_with("exec_command failed");
    let status = if said.lines().take(3).any(|line| line == "aborted by user") {
        Some("cancelled")
    } else if failed || exit.is_some_and(|exit| exit != 0) {
        Some("error")
    } else if exit.is_some() || first == "Script completed" || member(output, "success") == Some("true") {
        Some("success")
    } else {
        None
    };
    let bad = matches!(status, Some("error" | "cancelled"));
    let output = if said.is_empty() { output.to_owned() } else { quoted(&said) };
    Answer {
        call: text(payload.call_id).unwrap_or_default(),
        status,
        error: bad.then(|| match said.split_once("\nOutput:\n") {
            Some((_, told)) if !told.is_empty() => told.to_owned(),
            _ if said.is_empty() => NO_WORDS.to_owned(),
            _ => said.clone(),
        }),
        output: if bad { "null".to_owned() } else { output },
        exit,
        ms: None,
    }
}

/// The exit code, where one of the first lines says it.
fn exit_in(output: &str) -> Option<i64> {
    let line = |line: &str| {
        let rest = line.strip_prefix("Process exited with code ").or_else(|| line.strip_prefix("Exit code: "))?;
        rest.trim().parse().ok()
    };
    output.lines().take(6).take_while(|line| *line != "Output:").find_map(line)
}

/// What the program tells of a call, or of a part of it.
fn item_of(item: Item<'_>, part: &mut Part) {
    let exit = int(item.exit_code);
    let status = text(item.status);
    let bad = matches!(status.as_deref(), Some("failed" | "declined")) || item.success == Some("false");
    let bad = bad || exit.is_some_and(|exit| exit != 0);
    let ms = item.duration.and_then(|duration| {
        let of = |key: &str, unit: f64| Some(count(member(duration, key))? as f64 * unit);
        Some(of("secs", 1e3)? + of("nanos", 1e-6)?)
    });
    let is_call = exit.is_some() || status.is_some() || item.success.is_some() || ms.is_some();
    let is_call = is_call && !matches!(item.kind, Some("\"CollabAgentToolCall\"" | "\"SubAgentActivity\""));
    if is_call {
        let error = || match exit {
            Some(exit) => format!("a command ended with exit code {exit}"),
            None => text(item.stderr).filter(|text| !text.is_empty()).unwrap_or_else(|| "failed".to_owned()),
        };
        part.beside.push(Answer {
            call: text(item.id).unwrap_or_default(),
            status: bad.then_some("error"),
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
        let (Some(path), kind) = (text(Some(path)), text(member(change, "type"))) else { continue };
        let content = member(change, "content").map(str::to_owned);
        let (before, after) = match kind.as_deref() {
            Some("add") => (None, content),
            Some("delete") => (content, Some("null".to_owned())),
            // Only the lines around what changed are recorded: neither side is known.
            _ => (None, None),
        };
        part.changes.push((format!("files.{path}"), before, after));
    }
}

/// Codex counts what the cache held among the input.
fn tokens(usage: &str) -> Tokens {
    let usage = Usage::of(usage);
    Tokens {
        input: count(usage.input_tokens),
        cached: count(usage.cached_input_tokens),
        output: count(usage.output_tokens),
        reasoning: count(usage.reasoning_output_tokens),
    }
}
