//! Finds the complete records at the beginning of a file of lines, so that format detection never
//! sees a torn line.

use std::borrow::Cow;
use std::sync::OnceLock;

use super::Values;
use crate::model::json::{Json, walk};
use crate::model::split::{restarts, split};

/// Bytes at the beginning of a file that are used to detect its format.
pub const HEAD_BYTES: usize = 64 << 10;

/// The most lines that are examined.
const MAX_LINES: usize = 64;
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// The endings of files that are recognized as traces. One that ends in another comes before it.
const ENDINGS: [&str; 5] = [".traj.json", ".jsonl", ".json", ".traj", ".eval"];
/// The endings of compressed files.
const COMPRESSED: [&str; 2] = [".zst", ".gz"];

/// Returns a file's name without this ending, if it has it in any case.
fn without_ending<'a>(name: &'a str, ending: &str) -> Option<&'a str> {
    let (start, end) = name.split_at_checked(name.len().checked_sub(ending.len())?)?;
    end.eq_ignore_ascii_case(ending).then_some(start)
}

/// Returns whether a file's name has one of these endings, in any case.
pub(super) fn has_ending(name: &str, endings: &[&str]) -> bool {
    endings
        .iter()
        .any(|ending| without_ending(name, ending).is_some())
}

/// Returns a file's name with the ending of a trace in lower case: `A.jsonl` for `A.JSONL`.
pub(super) fn with_lower_ending(name: &str) -> Cow<'_, str> {
    let known = ENDINGS
        .iter()
        .find_map(|ending| Some((without_ending(name, ending)?, ending)));
    match known {
        Some((start, ending)) if !name.ends_with(ending) => Cow::Owned(format!("{start}{ending}")),
        _ => Cow::Borrowed(name),
    }
}

/// Returns whether a file of this name may be a trace, so that it is worth opening.
pub fn may_be_trace(name: &str) -> bool {
    has_ending(before_compression(name).unwrap_or(name), &ENDINGS)
        || store(name).is_some()
        || name == HISTORY
}

/// The name of a history of Aider.
pub(super) const HISTORY: &str = ".aider.chat.history.md";
/// The names of databases with runs, without the ending, and whether more may follow the name:
/// development versions add that of their channel, as in `opencode-dev.db`.
const STORES: [(&str, bool); 5] = [
    ("opencode", true),
    ("kilo", true),
    ("state", false),
    ("crush", false),
    ("sessions", false),
];
/// How a database begins.
pub(crate) const SQLITE: &[u8] = b"SQLite format 3\0";

/// The names of databases that the user's environment gives to a program, with that program's own. The
/// schema of a database may be in its log, so only the name says whose it is.
static NAMED_STORES: OnceLock<Vec<(String, &'static str)>> = OnceLock::new();

/// Sets the names that the user's environment gives to databases, each with the name of the program's
/// own without its ending. Only the first call counts.
#[cfg(feature = "board")]
pub(crate) fn name_stores(names: Vec<(String, &'static str)>) {
    let _ = NAMED_STORES.set(names);
}

/// Returns which of the [`STORES`] a file of this name may be.
fn store(name: &str) -> Option<&'static str> {
    let named = NAMED_STORES.get().into_iter().flatten();
    let mut named = named.filter(|(known, _)| known == name);
    if let Some((_, store)) = named.next() {
        return Some(store);
    }
    let stem = name
        .strip_suffix(".db")
        .filter(|_| cfg!(feature = "board"))?;
    let is_it = |(store, may_go_on): &&(&str, bool)| {
        stem.strip_prefix(store)
            .is_some_and(|rest| rest.is_empty() || *may_go_on && rest.starts_with('-'))
    };
    STORES.iter().find(is_it).map(|(store, _)| *store)
}

/// Returns whether a file is the database `program`, by its name and its beginning. Its tables may be
/// in another file.
pub(super) fn is_store_of(name: &str, head: &[u8], program: &str) -> bool {
    head.starts_with(SQLITE) && store(name) == Some(program)
}

/// Returns the name of the database to which a file belongs that has its newest rows.
pub(crate) fn store_of_log(name: &str) -> Option<&str> {
    name.strip_suffix("-wal")
        .filter(|database| store(database).is_some())
}

/// Returns whether a file of this name has a record on each line.
pub(crate) fn is_lines(name: &str) -> bool {
    has_ending(name, &[".jsonl"])
}

/// Returns the name of a file of lines without its endings, compressed or not.
pub(super) fn stem(name: &str) -> Option<&str> {
    without_ending(before_compression(name).unwrap_or(name), ".jsonl")
}

/// Returns the name that a file of lines had before it was compressed, if it is compressed.
pub(crate) fn before_compression(name: &str) -> Option<&str> {
    COMPRESSED
        .iter()
        .find_map(|ending| without_ending(name, ending))
        .filter(|plain| is_lines(plain))
}

/// Returns whether an object has the members of a record rather than of a value inside one.
pub fn is_record(object: &str) -> bool {
    are_of_record(walk::members(object))
}

fn are_of_record<'a>(members: impl Iterator<Item = (&'a str, &'a str)>) -> bool {
    let mut keys: Vec<Cow<'_, str>> = Vec::new();
    let mut kind = None;
    for (key, value) in members {
        let Some(key) = walk::string(key) else {
            continue;
        };
        if key == "type" {
            kind = walk::string(value);
        }
        keys.push(key);
    }
    let has = |key: &str| keys.iter().any(|known| known == key);
    let has_any = |any: &[&str]| any.iter().any(|key| has(key));
    let of_thread = |kind: &str| {
        ["thread.", "turn.", "item."]
            .iter()
            .any(|start| kind.starts_with(start))
    };
    has("run_id") && has("phase")
        || has("step_id") && has_any(&["decision", "action_results", "state_diff", "facts"])
        || kind.is_some() && has_any(&["timestamp", "session_id", "sessionId", "uuid"])
        || kind.is_some_and(|kind| of_thread(&kind))
        || has("sessionId") && has_any(&["projectHash", "uuid"])
        || has("id") && has("timestamp") && has("source")
}

/// Returns the beginning of a file without its byte order mark. In a file of lines, each complete
/// record gets its own line, and torn records are left out. The last record may be truncated.
pub(super) fn mended(head: &[u8], is_lines: bool) -> Cow<'_, [u8]> {
    let is_full = head.len() >= HEAD_BYTES;
    let head = head.strip_prefix(BYTE_ORDER_MARK).unwrap_or(head);
    if !is_lines {
        return Cow::Borrowed(head);
    }
    let is_clean = |line: &[u8]| {
        line.trim_ascii().is_empty() || std::str::from_utf8(line).is_ok_and(Json::is_json)
    };
    let (whole, last) = match memchr::memrchr(b'\n', head) {
        Some(end) => (
            head.get(..end).unwrap_or_default(),
            head.get(end + 1..).unwrap_or_default(),
        ),
        None => (&b""[..], head),
    };
    let lines = || whole.split(|byte| *byte == b'\n').take(MAX_LINES);
    // A long line may continue beyond the beginning. An object nested in it isn't a separate
    // record.
    let is_cut = is_full && is_begun(last);
    let (is_first, is_last_clean) = (whole.is_empty(), is_cut || is_clean(last));
    // The last line is searched only if it is also the first, or if no other line holds a record.
    if lines().all(is_clean)
        && (is_last_clean || !is_first && lines().any(|line| line.starts_with(b"{")))
    {
        return Cow::Borrowed(head);
    }
    let mut out: Vec<u8> = Vec::with_capacity(head.len());
    let mut add = |line: &[u8]| {
        out.extend_from_slice(line);
        out.push(b'\n');
    };
    for line in lines().filter(|_| !is_first) {
        match is_clean(line) {
            true => add(line),
            false => split(line, is_record)
                .iter()
                .for_each(|piece| add(line.get(piece.from..piece.to).unwrap_or_default())),
        }
    }
    let pieces = if is_last_clean {
        Vec::new()
    } else {
        split(last, is_record)
    };
    pieces
        .iter()
        .for_each(|piece| add(last.get(piece.from..piece.to).unwrap_or_default()));
    let rest = last
        .get(pieces.last().map_or(0, |piece| piece.to)..)
        .unwrap_or_default()
        .trim_ascii_start();
    let begun = restarts(rest).filter(|_| !is_cut).find(|at| {
        let text = String::from_utf8_lossy(rest.get(*at..).unwrap_or_default());
        are_of_record(walk::begun(&text).into_iter())
    });
    out.extend_from_slice(rest.get(begun.unwrap_or(0)..).unwrap_or_default());
    // A file that contains only torn lines is recognized by those.
    if out.contains(&b'{') {
        Cow::Owned(out)
    } else {
        Cow::Borrowed(head)
    }
}

/// Returns whether a line is the beginning of a single JSON value and is valid so far.
fn is_begun(line: &[u8]) -> bool {
    let mut values = Values::new(&[]);
    values.push(line, |_| {});
    !values.is_broken()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endings_are_known_in_any_case() {
        for (name, lower) in [
            ("A.JSONL", "A.jsonl"),
            ("X.TRAJ.JSON", "X.traj.json"),
            ("X.Traj.json", "X.traj.json"),
            ("B.C.Eval", "B.C.eval"),
            ("é.JSON", "é.json"),
            ("a.jsonl", "a.jsonl"),
            ("A.TXT", "A.TXT"),
            ("JSON", "JSON"),
        ] {
            let found = with_lower_ending(name);
            assert_eq!(found, lower);
            assert_eq!(matches!(found, Cow::Owned(_)), name != lower, "{name}");
        }
        assert_eq!(before_compression("A.JSONL.GZ"), Some("A.JSONL"));
        assert_eq!(before_compression("a.json.gz"), None);
        for (name, of) in [
            ("a.jsonl", Some("a")),
            ("a.b.JSONL", Some("a.b")),
            ("a.jsonl.gz", Some("a")),
            ("a.gz", None),
            ("a.json", None),
        ] {
            assert_eq!(stem(name), of);
        }
        assert!(may_be_trace("a.Jsonl.ZST") && !may_be_trace("a.eval.zst"));
    }

    fn text(head: &str) -> String {
        String::from_utf8(mended(head.as_bytes(), true).into_owned()).unwrap()
    }

    #[test]
    fn a_line_longer_than_the_head_is_not_torn() {
        let event = r#"{"id":1,"timestamp":"2025-05-12T09:00:02","source":"agent"},"#;
        let line = format!(
            r#"{{"instance_id":"i","history":[{}"#,
            event.repeat(HEAD_BYTES / event.len() + 1)
        );
        let head = &line[..HEAD_BYTES];
        assert_eq!(text(head), head);
        let torn = format!("{{\"type\":\"use{head}");
        assert_ne!(text(&torn[..HEAD_BYTES]), torn[..HEAD_BYTES]);
    }

    #[test]
    fn records_after_a_torn_line_are_read() {
        let record = r#"{"type":"system","session_id":"a","version":"1"}"#;
        for stub in [
            "",
            "{",
            "\u{feff}",
            "{\"type\":\"sys",
            "{\"type\":\"system\",\"data\":",
            "preamble ",
        ] {
            assert_eq!(
                text(&format!("{stub}{record}\n{record}\n")).trim_end(),
                format!("{record}\n{record}"),
                "{stub}"
            );
            assert_eq!(
                text(&format!("{stub}{record}")).trim_end(),
                record,
                "{stub}"
            );
            let cut = format!("{record},\"more\":\"x").replace("},", ",");
            assert_eq!(text(&format!("{stub}{cut}")), cut, "{stub}");
        }
    }

    #[test]
    fn a_file_of_only_torn_lines_stays_unchanged() {
        assert_eq!(
            text("{\"step_id\": 0, \"deci\n"),
            "{\"step_id\": 0, \"deci\n"
        );
        assert_eq!(text("{\"step_id\": 0"), "{\"step_id\": 0");
    }
}
