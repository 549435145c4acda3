//! Determines from a file's name and beginning what wrote it: a tool that board supports,
//! QitOS, board's engine, or another program. Must not know the disk.

use std::borrow::Cow;

use super::lines::{HISTORY, has_ending, is_lines, mended, with_lower_ending};
use super::tools::tool_of;
use super::value::{is_text, objects};
use super::watch::begun;
use super::{Tool, gptme, vibe};
use crate::model::TraceFile;
use crate::model::json::Json;
use crate::model::names::with_article;

/// The program that a file comes from.
#[derive(Debug, Clone)]
pub enum Origin {
    /// A trace of a supported tool.
    Tool(&'static Tool),
    /// A file of a run of QitOS, or of board's engine.
    Run,
    /// The file has the name of one of a run's three files, but its content is inconclusive: it's
    /// empty, or a record is truncated.
    Unclear,
    /// The file looks like a trace but isn't read, for this reason.
    Skipped(Cow<'static, str>),
    /// The file doesn't look like a trace.
    Other,
}

/// The most lines that are examined.
const MAX_LINES: usize = 64;

/// The reason for a file without a record.
pub const EMPTY: &str = "empty file";
/// The reason for a file whose records identify no format.
pub const UNKNOWN: &str = "unknown format";
const UTF16: &str = "UTF-16 text: save it as UTF-8 so that board can read it";

/// Returns the origin of a file with this name that begins with `head`, which has at most
/// [`HEAD_BYTES`](super::HEAD_BYTES).
pub fn origin(name: &str, head: &[u8]) -> Origin {
    let file = TraceFile::ALL.into_iter().find(|file| file.name() == name);
    // `A.JSONL` is treated as `A.jsonl`. Only the three files must have their exact names.
    let name = &*with_lower_ending(name);
    if let Some(text) = utf16(head) {
        // Configuration files are JSON too, so only a known trace is reported.
        let is_trace = file.is_some()
            || is_lines(name)
            || tool_of(name, &text).is_some()
            || foreign(name, &text).is_some();
        return if is_trace {
            Origin::Skipped(UTF16.into())
        } else {
            Origin::Other
        };
    }
    if vibe::is_part(name, head) || is_lines(name) && gptme::is_part(head) {
        return Origin::Other;
    }
    let head: &[u8] = &mended(head, is_lines(name));
    if let Some(tool) = tool_of(name, head) {
        return Origin::Tool(tool);
    }
    match file.map(|file| is_of_run(file, head)) {
        Some(Some(true)) => return Origin::Run,
        Some(None) => return Origin::Unclear,
        Some(Some(false)) | None => {}
    }
    if let Some(tool) = foreign(name, head) {
        let tool = with_article(tool);
        return Origin::Skipped(format!("unsupported format (looks like {tool})").into());
    }
    let is_named = file.is_some() || is_lines(name) || has_ending(name, &[".traj", ".eval"]);
    // The names of OpenCode's sessions and of Amp's threads distinguish them from other documents.
    let is_document = ["ses_", "T-"].iter().any(|start| name.starts_with(start));
    let is_named_empty = is_document && name.ends_with(".json") && head.is_empty();
    match is_named || is_named_empty {
        true if head.trim_ascii().is_empty() => Origin::Skipped(EMPTY.into()),
        true => Origin::Skipped(UNKNOWN.into()),
        false => Origin::Other,
    }
}

/// Returns whether a file with this name is examined although its name begins with a dot.
pub fn is_hidden_trace(name: &str) -> bool {
    name == HISTORY
}

/// Returns whether a directory with this name is searched although its name begins with a dot: Crush
/// keeps its sessions in one.
pub fn is_hidden_folder(name: &str) -> bool {
    cfg!(feature = "board") && name == ".crush"
}

/// Decodes the beginning of a UTF-16 file, recognized by its byte order mark, as UTF-8.
fn utf16(head: &[u8]) -> Option<Vec<u8>> {
    let (unit, text): (fn([u8; 2]) -> u16, _) = match head {
        [0xff, 0xfe, text @ ..] => (u16::from_le_bytes, text),
        [0xfe, 0xff, text @ ..] => (u16::from_be_bytes, text),
        _ => return None,
    };
    let units = text.as_chunks().0.iter().map(|pair| unit(*pair));
    Some(
        char::decode_utf16(units)
            .map(|char| char.unwrap_or(char::REPLACEMENT_CHARACTER))
            .collect::<String>()
            .into(),
    )
}

/// The members of a manifest. Other programs' files with the same name have other members.
const OF_MANIFEST: &[&str] = &[
    "schema_version",
    "run_id",
    "status",
    "step_count",
    "event_count",
    "summary",
    "model_id",
    "writer",
    "stop",
    "stop_rules",
    "run_spec",
    "run_config_hash",
    "parent_run_id",
    "agent_name",
    "token_usage",
    "benchmark_name",
    "latency_seconds",
    "cost",
    "seed",
    "started_at",
    "updated_at",
];
const OF_STEP: &[&str] = &[
    "step_id",
    "decision",
    "action_results",
    "critic_outputs",
    "state_diff",
    "actions",
    "tool_invocations",
    "observation",
];
const OF_EVENT: &[&str] = &["run_id", "step_id", "phase", "ok", "error", "payload", "ts"];

/// The phases of events, as named by all versions of QitOS and by board's engine.
const PHASES: &[&str] = &[
    "INIT",
    "OBSERVE",
    "DECIDE",
    "DECIDE_ERROR",
    "ACT",
    "ACT_ERROR",
    "REDUCE",
    "CRITIC",
    "CHECK_STOP",
    "RECOVER",
    "END",
    "COMPACT",
    "HANDOFF_START",
    "HANDOFF_END",
    "DELEGATE_START",
    "DELEGATE_END",
    "toolset_setup_start",
    "toolset_setup_end",
    "toolset_setup_error",
    "toolset_teardown_start",
    "toolset_teardown_end",
    "toolset_teardown_error",
];

/// Returns whether a file with the name of one of a run's three files is one. Returns `None` if its
/// content is inconclusive: it's empty, or truncated before a distinctive member.
fn is_of_run(file: TraceFile, head: &[u8]) -> Option<bool> {
    let is_blank = |byte: &u8| *byte == 0 || byte.is_ascii_whitespace();
    if head.iter().all(is_blank) {
        return None;
    }
    // A manifest is a single object over many lines.
    let mut texts: Vec<&[u8]> = if file == TraceFile::Manifest {
        vec![head.trim_ascii_start()]
    } else {
        Vec::new()
    };
    if file != TraceFile::Manifest {
        texts.extend(
            head.split(|byte| *byte == b'\n')
                .filter(|line| line.starts_with(b"{"))
                .take(MAX_LINES),
        );
    }
    let mut found = Some(false);
    for text in texts {
        let object = begun(text);
        let keys: Vec<&str> = object
            .iter()
            .map(|(key, _)| key.trim_matches('"'))
            .collect();
        let value = |key: &str| {
            object
                .iter()
                .find(|(name, _)| name.trim_matches('"') == key)
                .map(|(_, value)| *value)
        };
        let has = |key: &str| keys.contains(&key);
        let begins =
            |key: &str, opening: char| value(key).is_some_and(|value| value.starts_with(opening));
        let (is_ours, may_be, known) = match file {
            TraceFile::Manifest => {
                let is_counted = has("summary") || has("step_count");
                let is_known = has("run_id") && has("schema_version") && is_counted;
                (
                    is_known || has("run_id") && has("stop_rules"),
                    false,
                    OF_MANIFEST,
                )
            }
            TraceFile::Steps => {
                let is_numbered = value("step_id").is_some_and(|id| id.parse::<i64>().is_ok());
                let is_odd = value("decision").is_some_and(|decision| decision.starts_with('"'));
                let is_step = begins("decision", '{')
                    || begins("action_results", '[')
                    || begins("state_diff", '{');
                let is_step = is_step || begins("critic_outputs", '[');
                (is_numbered && is_step, is_numbered && !is_odd, OF_STEP)
            }
            TraceFile::Events => {
                let phase = value("phase").map(|phase| phase.trim_matches('"'));
                let is_known = phase.is_some_and(|phase| PHASES.contains(&phase));
                (
                    is_known && has("step_id") && has("payload"),
                    is_known,
                    OF_EVENT,
                )
            }
        };
        if is_ours {
            return Some(true);
        }
        // The truncated part may contain the distinctive members, and a record may have few
        // members.
        let is_cut = || std::str::from_utf8(text).map_or(true, |text| !Json::is_json(text));
        if text.starts_with(b"{")
            && keys.iter().all(|key| known.contains(key))
            && (object.is_empty() || may_be || is_cut())
        {
            found = None;
        }
    }
    found
}

fields! {
    struct Line {
        kind = "type", timestamp, role,
        session = "sessionID", session_id = "sessionId", part, hook = "hookEventName", event,
        turn = "turnId", status = "generationStatus", dir = "sessionDir", work = "workDir",
    }
}

/// Returns what an unsupported file is, if its beginning is conclusive.
fn foreign(name: &str, head: &[u8]) -> Option<&'static str> {
    if is_lines(name) {
        return objects(head).take(8).find_map(foreign_line);
    }
    None
}

fn foreign_line(text: &str) -> Option<&'static str> {
    let line = Line::of(text);
    let kind = line
        .kind
        .map(|kind| kind.trim_matches('"'))
        .unwrap_or_default();
    if is_text(line.session_id) && is_text(line.dir) && is_text(line.work) {
        Some("Kimi Code session index")
    } else if line.role == Some("\"meta\"") && kind.starts_with("system.") {
        Some("Kimi Code stream")
    } else if is_text(line.turn) && line.status.is_some() && is_text(line.session_id) {
        Some("Mistral Vibe stream")
    } else if is_text(line.session) && line.part.is_some() && line.timestamp.is_some() {
        Some("OpenCode or Kilo stream")
    } else if kind == "hook_event" && is_text(line.hook)
        || kind == "agent_event" && line.event.is_some()
    {
        Some("Cline stream")
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(name: &str, head: &str) -> String {
        match origin(name, head.as_bytes()) {
            Origin::Tool(tool) => tool.format.name.to_owned(),
            Origin::Run => "run".to_owned(),
            Origin::Unclear => "unclear".to_owned(),
            Origin::Skipped(reason) => reason.into_owned(),
            Origin::Other => "other".to_owned(),
        }
    }

    #[test]
    fn a_run_is_recognised_by_the_content_of_its_files() {
        for (name, head, whose) in [
            ("manifest.json", "", "unclear"),
            ("manifest.json", " \n", "unclear"),
            ("manifest.json", "[1]", "unknown format"),
            ("manifest.json", "{}", "unclear"),
            ("manifest.json", "{\"run_id\": \"a", "unclear"),
            (
                "manifest.json",
                "{\n  \"schema_version\": \"v1\",\n  \"status\": \"running\"",
                "unclear",
            ),
            (
                "manifest.json",
                "{\"schema_version\": \"v1\", \"run_id\": \"a\", \"summary\": {}}",
                "run",
            ),
            (
                "manifest.json",
                "{\"run_id\": \"a\", \"stop_rules\": {}}",
                "run",
            ),
            (
                "manifest.json",
                "{\"run_id\": \"a\", \"status\": \"running\"}",
                "unknown format",
            ),
            (
                "manifest.json",
                "{\"schema_version\": \"v1\", \"run_id\": \"a\", \"status\": \"ok\"}",
                "unknown format",
            ),
            (
                "manifest.json",
                "{\"run_id\": \"a\", \"step_count\": 9, \"summary\": {\"loss\": 0.2}}",
                "unknown format",
            ),
            (
                "manifest.json",
                "{\"name\": \"app\", \"version\": \"1\"}",
                "unknown format",
            ),
            (
                "manifest.json",
                "{\"checkpoint\":{\"chunks\":[]},\"created_at\":\"2026\",\"generation\":\"01\",\"manifest_version\":1}",
                "other",
            ),
            (
                "events.jsonl",
                "{\"run_id\": \"a\", \"step_id\": 0, \"phase\": \"INIT\", \"payload\": {\"task\": \"x",
                "run",
            ),
            (
                "events.jsonl",
                "garbage\n{\"step_id\": 0, \"phase\": \"END\", \"payload\": {}}\n",
                "run",
            ),
            ("events.jsonl", "garbage\n", "unknown format"),
            ("events.jsonl", "\0\0\0", "unclear"),
            (
                "events.jsonl",
                "{\"run_id\": \"a\", \"step_id\": 0, \"pha",
                "unclear",
            ),
            (
                "events.jsonl",
                "{\"step_id\": 0, \"phase\": \"train\", \"payload\": {}}\n",
                "unknown format",
            ),
            (
                "events.jsonl",
                "{\"phase\": \"INIT\", \"message\": \"hi\"}\n",
                "unknown format",
            ),
            ("events.jsonl", "{}\n{}\n", "unclear"),
            ("events.jsonl", "{\"level\": \"info\"}\n", "unknown format"),
            (
                "events.jsonl",
                "{\"type\":\"session.start\",\"data\":{\"sessionId\":\"a\"},\"id\":\"b\",\"parentId\":null}\n",
                "Copilot CLI session",
            ),
            (
                "events.jsonl",
                "{\"seq\": 1, \"ts\": \"2026\", \"type\": \"message_append\", \"payload\": {}}\n",
                "other",
            ),
            ("steps.jsonl", "{\"step_id\": 0", "unclear"),
            (
                "steps.jsonl",
                "{\"step_id\": 0, \"decision\": null, \"action_results\": []}\n",
                "run",
            ),
            (
                "steps.jsonl",
                "{\"step_id\": 0, \"loss\": 0.5}\n",
                "unknown format",
            ),
            (
                "steps.jsonl",
                "{\"step_id\": \"a1\", \"decision\": \"yes\", \"actions\": []}\n",
                "unknown format",
            ),
            (
                "steps.jsonl",
                "{\"step\": 0, \"action\": \"x\", \"observation\": \"y\"}\n",
                "unknown format",
            ),
            ("steps.jsonl", "1\n2\n", "unknown format"),
            ("steps.jsonl", "{\"loss\": 0.5}\n", "unknown format"),
        ] {
            assert_eq!(said(name, head), whose, "{name}: {head}");
        }
    }

    #[test]
    fn files_that_look_like_traces_are_named_and_others_are_not() {
        for (name, head, whose) in [
            ("a.jsonl", "", "empty file"),
            ("a.jsonl", "{\"a\": 1}\n", "unknown format"),
            ("a.traj", "x", "unknown format"),
            ("a.json", "{\"a\": 1}", "other"),
            ("package.json", "", "other"),
            (
                "a.jsonl",
                "{\"type\":\"metadata\",\"protocol_version\":\"1.5\",\"created_at\":1}",
                "Kimi Code session",
            ),
            (
                "a.json",
                "{\"sessionId\": \"a\", \"title\": \"t\", \"workspaceDirectory\": \"/\", \"history\": [",
                "Continue session",
            ),
            ("crush.db", "SQLite format 3\0", "Crush session"),
            ("opencode.db", "SQLite format 3\0", "OpenCode session"),
            ("opencode.db", "no database", "other"),
        ] {
            assert_eq!(said(name, head), whose, "{name}: {head}");
        }
    }

    #[test]
    fn a_torn_first_line_does_not_decide_whose_file_it_is() {
        let qwen = r#"{"type":"system","subtype":"init","session_id":"a","qwen_code_version":"1"}"#;
        let codex = r#"{"type":"thread.started","thread_id":"a"}"#;
        for (record, whose) in [(qwen, "Qwen Code stream"), (codex, "Codex exec stream")] {
            let stub = &record[..record.len() - 9];
            for before in ["", "{", "\u{feff}", stub, "{\"type\":", "hello ", "\0\0"] {
                for end in ["", "\n", "\0", "\r{\"type\":\"x\"}"] {
                    assert_eq!(
                        said("a.jsonl", &format!("{before}{record}{end}")),
                        whose,
                        "{before}|{end}"
                    );
                }
            }
        }
        assert_eq!(
            said(
                "manifest.json",
                "\u{feff}{\"run_id\": \"a\", \"stop_rules\": {}}"
            ),
            "run"
        );
        let event = r#"{"step_id": 0, "phase": "INIT", "payload": {}}"#;
        assert_eq!(
            said("events.jsonl", &format!("{{\"step_id\": 0, \"pha{event}\n")),
            "run"
        );
    }

    #[test]
    fn text_in_utf_16_is_named_whichever_way_its_bytes_stand() {
        let text = "{\"sessionId\": \"a\", \"uuid\": \"b\"}\n";
        let little: Vec<u8> = [0xff, 0xfe]
            .into_iter()
            .chain(text.encode_utf16().flat_map(u16::to_le_bytes))
            .collect();
        let big: Vec<u8> = [0xfe, 0xff]
            .into_iter()
            .chain(text.encode_utf16().flat_map(u16::to_be_bytes))
            .collect();
        for head in [little, big] {
            assert!(matches!(origin("a.jsonl", &head), Origin::Skipped(reason) if reason == UTF16));
            assert!(matches!(origin("events.jsonl", &head), Origin::Skipped(_)));
            assert!(matches!(origin("settings.json", &head), Origin::Other));
        }
    }
}
