//! Summarizes a record in one line: its most informative members, found by the names that trace
//! writers give them.
//!
//! Used in lists of records, which have one line each. The words are those of the record,
//! truncated, without inferences. Must not know pages or the format of a record.

use crate::model::json::Json;
use crate::model::names::clipped;

/// The maximum length of a digest; characters.
const MAX_CHARS: usize = 180;
/// The maximum length of one value in a digest.
const MAX_VALUE: usize = 90;
/// The depth to which records are searched.
const MAX_DEPTH: usize = 8;
/// The number of items of a list that are searched.
const MAX_ITEMS: usize = 6;

/// Members that describe a record, the most informative first.
const INFORMATIVE_KEYS: [&str; 30] = [
    "error",
    "raw_output",
    "rationale",
    "final_result",
    "task",
    "message",
    "text",
    "thinking",
    "tool_name",
    "name",
    "command",
    "cmd",
    "query",
    "file_path",
    "path",
    "mode",
    "decision",
    "final_answer",
    "score",
    "action",
    "reason",
    "stop_reason",
    "status",
    "returncode",
    "exit_code",
    "output",
    "content",
    "result",
    "summary",
    "description",
];
/// Members that only identify or locate a record. Its row shows them already.
const LOCATING_KEYS: [&str; 26] = [
    // Available tools aren't calls.
    "tools",
    "tool_definitions",
    "tool_choice",
    "oldTodos",
    "run_id",
    "step_id",
    "phase",
    "stage",
    "ok",
    "ts",
    "timestamp",
    "type",
    "id",
    "uuid",
    "parentUuid",
    "sessionId",
    "session_id",
    "version",
    "cwd",
    "gitBranch",
    "signature",
    "role",
    "tool_use_id",
    "call_id",
    "schema_version",
    "model",
];

/// The rank of a critic's output in [`INFORMATIVE_KEYS`].
const CRITIC: usize = 8;

/// Returns the digest of a record; empty if it has no informative members.
pub(crate) fn digest(record: &Json<'_>) -> String {
    let mut found = Vec::new();
    collect(record, "", 0, &mut found);
    found.sort_by_key(|(rank, ..)| *rank);
    let mut out = String::new();
    for (_, key, value) in found {
        let part = if key.is_empty() || is_plain(key) {
            value
        } else {
            format!("{key} {value}")
        };
        if part.is_empty() || out.contains(&part) {
            continue;
        }
        if out.chars().count() + part.chars().count() > MAX_CHARS {
            break;
        }
        if !out.is_empty() {
            out.push_str(" · ");
        }
        out.push_str(&part);
    }
    out
}

/// Returns whether a value is clear without its key.
fn is_plain(key: &str) -> bool {
    matches!(
        key,
        "text"
            | "content"
            | "message"
            | "thinking"
            | "name"
            | "tool_name"
            | "command"
            | "cmd"
            | "error"
            | "output"
    )
}

/// Returns the output of one critic: name, score, action and reason. They stay together, because
/// separate lists of names and scores don't show which score belongs to which critic.
fn critic(value: &Json<'_>) -> Option<String> {
    let name = value
        .get("critic_name")
        .or_else(|| value.get("name"))
        .and_then(Json::as_str)?;
    let score = value
        .get("score")
        .filter(|score| matches!(score, Json::Number(_)))?
        .to_string();
    let words =
        ["action", "reason"].map(|key| value.get(key).and_then(Json::as_str).unwrap_or_default());
    let parts = [name, &score]
        .into_iter()
        .chain(words)
        .flat_map(str::split_whitespace)
        .take(40);
    Some(clipped(&parts.collect::<Vec<_>>().join(" "), MAX_VALUE).into_owned())
}

fn collect<'a>(
    value: &'a Json<'a>,
    key: &'a str,
    depth: usize,
    found: &mut Vec<(usize, &'a str, String)>,
) {
    let rank = INFORMATIVE_KEYS
        .iter()
        .position(|informative| *informative == key);
    match value {
        Json::Object(members) if depth < MAX_DEPTH => {
            if let Some(said) = critic(value) {
                found.push((CRITIC, "", said));
                return;
            }
            for (key, value) in members
                .iter()
                .filter(|(key, _)| !LOCATING_KEYS.contains(&&**key))
            {
                collect(value, key, depth + 1, found);
            }
        }
        Json::Array(items) if depth < MAX_DEPTH => {
            items
                .iter()
                .take(MAX_ITEMS)
                .for_each(|item| collect(item, key, depth + 1, found));
        }
        Json::String(text) if !text.trim().is_empty() => {
            let words = text
                .split_whitespace()
                .take(40)
                .collect::<Vec<_>>()
                .join(" ");
            found.extend(rank.map(|rank| (rank, key, clipped(&words, MAX_VALUE).into_owned())));
        }
        Json::Number(_) | Json::Bool(_) => {
            found.extend(rank.map(|rank| (rank, key, value.to_string())))
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> String {
        digest(&Json::parse(text).unwrap())
    }

    #[test]
    fn the_most_informative_members_come_first() {
        let event = r#"{"run_id": "r", "step_id": 3, "phase": "ACT", "ok": false, "ts": "t",
            "payload": {"tool_name": "edit", "returncode": 2}, "error": "no such file"}"#;
        assert_eq!(of(event), "no such file · edit · returncode 2");
        let line = r#"{"type": "assistant", "uuid": "u", "message": {"role": "assistant", "content": [
            {"type": "thinking", "thinking": "Look\nfirst."}, {"type": "tool_use", "id": "t", "name": "Read", "input": {"file_path": "a.py"}}]}}"#;
        assert_eq!(of(line), "Look first. · Read · file_path a.py");
    }

    #[test]
    fn the_reply_in_a_deep_record_is_found() {
        let record = r#"{"type": "core_input", "payload": {"input": {"command": {"type": "completion_succeeded",
            "result": {"parts": [{"type": "text", "text": "One done."}]}}}}}"#;
        assert_eq!(of(record), "One done.");
    }

    #[test]
    fn a_score_follows_its_critic() {
        let event = r#"{"phase": "CRITIC", "payload": {"stage": "outputs", "critic_outputs": [
            {"critic_name": "neighbour", "action": "retry", "score": 0.4, "reason": "the hedge is not straight"},
            {"critic_name": "botanist", "action": "stop", "score": 0.2}]}}"#;
        assert_eq!(
            of(event),
            "neighbour 0.4 retry the hedge is not straight · botanist 0.2 stop"
        );
    }

    #[test]
    fn long_and_deep_records_are_bounded() {
        assert!(
            of(&format!(r#"{{"text": "{}"}}"#, "x".repeat(5_000)))
                .chars()
                .count()
                <= MAX_VALUE + 1
        );
        let deep = format!("{}1{}", r#"{"content": "#.repeat(40), "}".repeat(40));
        assert_eq!(of(&deep), "");
        let many: Vec<String> = (0..100)
            .map(|n| format!(r#"{{"name": "tool number {n}"}}"#))
            .collect();
        assert!(
            of(&format!(r#"{{"content": [{}]}}"#, many.join(",")))
                .chars()
                .count()
                <= MAX_CHARS
        );
        assert_eq!(of("{}"), "");
    }
}
