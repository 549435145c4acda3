//! Reads values from the JSON text of members. Never fails: a value of an unexpected type counts as
//! absent.

use std::borrow::Cow;

use crate::model::head::no_output;
use crate::model::json::{Json, walk};
use crate::model::loose::Scalar;
use crate::model::names::capped;
use crate::model::path::relative;
use crate::model::stated::Source;
use crate::model::step::NO_WORDS;
use crate::model::time::parse_ts;
use crate::model::{Bound, Certainty, Ended, Fact, Op, Outcome, Statement, ToolLimit};

use super::CallDraft;
use super::added::own_words;
use super::part::{quoted, text};

/// Prompts and answers are kept up to this many bytes.
const MAX_TEXT_BYTES: usize = 400;
/// A run's arguments and options are kept up to this many bytes.
const MAX_GIVEN_BYTES: usize = 16 << 10;

/// The files of a submitted patch that are kept, at most.
const MAX_PATCHED: usize = 64;
/// Longer paths in a patch aren't kept; bytes.
const MAX_PATH_BYTES: usize = 1_000;

/// Returns the text of a string, truncated for the index.
pub(super) fn short(value: Option<&str>) -> Option<Box<str>> {
    text(value).map(|text| cut(&text))
}

/// Returns the first files that a unified diff changes. Empty if the text isn't one.
pub(super) fn patched(text: &str) -> Vec<Box<str>> {
    let text = text.trim_start();
    if !text.starts_with("diff --git ") && !text.starts_with("--- ") {
        return Vec::new();
    }
    let path = |line: &'_ str, sign: &str, side: &str| {
        let path = line.strip_prefix(sign)?.trim_end_matches('\r');
        let path = path.split_once('\t').map_or(path, |(path, _)| path);
        let path = path.strip_prefix(side).unwrap_or(path);
        let is_kept = path != "/dev/null" && (1..=MAX_PATH_BYTES).contains(&path.len());
        is_kept.then(|| Box::from(path))
    };
    let mut files: Vec<Box<str>> = Vec::new();
    let mut lines = text.split('\n').peekable();
    while let Some(line) = lines.next() {
        // Removed lines may begin like the name of a file, too. A file has both names.
        let Some(after) =
            lines.next_if(|next| line.starts_with("--- ") && next.starts_with("+++ "))
        else {
            continue;
        };
        // A deleted file has only its old name.
        let file = path(after, "+++ ", "b/").or_else(|| path(line, "--- ", "a/"));
        files.extend(file.filter(|file| !files.contains(file)));
        if files.len() == MAX_PATCHED {
            break;
        }
    }
    files
}

/// The stage of a record that contains text by the user but begins no turn, next to tool results or
/// in a list of messages.
pub(super) const USER_TEXT: &str = "user_text";

/// Returns the stage of a record with tool results: [`USER_TEXT`] if it also contains text by the
/// user, otherwise `stage`. Text in tags is written by programs.
pub(super) fn stage_beside<'a>(words: &str, stage: &'a str) -> &'a str {
    let words = own_words(words).trim_start();
    if words.is_empty() || words.starts_with('<') {
        stage
    } else {
        USER_TEXT
    }
}

/// Truncates a text for the index.
pub(super) fn cut(text: &str) -> Box<str> {
    capped(text, MAX_TEXT_BYTES)
}

/// Returns the part of a text from `cut` that is in the trace, and whether that is the whole
/// text.
pub(crate) fn uncut(text: &str) -> (&str, bool) {
    match text.strip_suffix('…') {
        Some(start) if text.len() >= MAX_TEXT_BYTES => (start, false),
        _ => (text, true),
    }
}

pub(super) fn int(value: Option<&str>) -> Option<i64> {
    Scalar::of(value?)?.int()
}

pub(super) fn count(value: Option<&str>) -> Option<u64> {
    u64::try_from(int(value)?).ok()
}

/// Returns a finite number.
pub(super) fn number(value: Option<&str>) -> Option<f64> {
    Scalar::of(value?)?.number()
}

/// Returns a number above zero. Some writers use 0 for a missing limit or count.
pub(super) fn above_zero(value: Option<&str>) -> Option<f64> {
    number(value).filter(|number| *number > 0.0)
}

pub(super) fn is_true(value: Option<&str>) -> bool {
    value == Some("true")
}

/// Returns a text unless it's empty.
pub(super) fn filled(value: Option<&str>) -> Option<String> {
    text(value).filter(|text| !text.is_empty())
}

/// Returns a time in microseconds, from seconds since the epoch.
pub(super) fn seconds(value: Option<&str>) -> Option<i64> {
    // Larger values are beyond any calendar.
    number(value)
        .filter(|seconds| seconds.abs() < 1e11)
        .map(|seconds| (seconds * 1e6) as i64)
}

/// Describes the tokens of requests that belong to no step, such as `summaries`. `None` if there are
/// none.
pub(super) fn aside(requests: &str, tokens: u64) -> Option<Box<str>> {
    (tokens > 0)
        .then(|| format!("{tokens} more tokens went to {requests} outside the steps.").into())
}

/// Returns a time in microseconds, from milliseconds since the epoch.
pub(super) fn millis(value: Option<&str>) -> Option<i64> {
    number(value)
        .filter(|millis| millis.abs() < 1e14)
        .map(|millis| (millis * 1e3) as i64)
}

/// Returns a time in microseconds, from seconds since the epoch, or from milliseconds if the number
/// is too large for those.
pub(super) fn time(value: Option<&str>) -> Option<i64> {
    seconds(value).or_else(|| millis(value))
}

/// Returns the items of a list. Any other value has none.
pub(super) fn listed(value: Option<&str>) -> impl Iterator<Item = &str> {
    let list = value.filter(|value| value.starts_with('['));
    list.into_iter().flat_map(walk::items)
}

/// Returns an RFC 3339 time in microseconds since the epoch.
pub(super) fn micros(value: Option<&str>) -> Option<i64> {
    parse_ts(&walk::string(value?)?).map(|stamp| stamp.micros)
}

/// Returns a member of an object. The last one counts if the key repeats.
pub(super) fn member<'a>(object: &'a str, key: &str) -> Option<&'a str> {
    walk::members(object)
        .filter(|(name, _)| walk::is_word(name, key))
        .last()
        .map(|(_, v)| v)
}

/// Returns the texts of a message, joined by newlines. A message is a string, or a list of parts
/// with a `text`.
pub(super) fn spoken(content: Option<&str>) -> String {
    let Some(content) = content else {
        return String::new();
    };
    text(Some(content)).unwrap_or_else(|| {
        let texts: Vec<String> = walk::items(content)
            .filter_map(|part| text(member(part, "text")))
            .collect();
        texts.join("\n")
    })
}

/// Returns the words of the user in a message, whose content is a text or a list of blocks, some of
/// which have a `text`. Joins them by newlines. The result is empty if programs wrote all of them.
pub(super) fn own_words_in(content: Option<&str>) -> String {
    if let Some(words) = text(content) {
        return own_words(&words).to_owned();
    }
    let texts = listed(content).filter_map(|block| text(member(block, "text")));
    let own = texts.filter_map(|text| {
        let words = own_words(&text);
        (!words.is_empty() || text.is_empty()).then(|| words.to_owned())
    });
    own.collect::<Vec<_>>().join("\n")
}

/// Returns whether programs wrote all texts of a message, and nothing else is in it. `own` are its
/// [`own_words_in`].
pub(super) fn is_added(content: Option<&str>, own: &str) -> bool {
    let is_text = |block: &str| text(member(block, "type")).is_some_and(|kind| kind == "text");
    own.is_empty() && !spoken(content).trim().is_empty() && listed(content).all(is_text)
}

/// Returns the message in an error of a model's provider: `500 {"error":{"message":"Overloaded"}}` is
/// `500 Overloaded`. An error of another form stays as it is.
pub(super) fn provider_error(error: &str) -> Cow<'_, str> {
    let parts = error.find('{').and_then(|at| error.split_at_checked(at));
    let message = parts.and_then(|(status, body)| {
        let body = Json::is_json(body).then(|| body.trim())?;
        let error = member(body, "error");
        let inside = error.filter(|error| error.starts_with('{'));
        let message = inside.and_then(|error| filled(member(error, "message")));
        let message = message
            .or_else(|| filled(error))
            .or_else(|| filled(member(body, "message")))?;
        Some(Cow::Owned(format!("{status}{message}")))
    });
    message.unwrap_or(Cow::Borrowed(error))
}

/// Returns the value of a string that contains JSON, or any other text as a JSON string.
pub(super) fn unpacked(inner: &str) -> String {
    if Json::is_json(inner) {
        inner.trim().to_owned()
    } else {
        quoted(inner)
    }
}

/// Returns a call in the layout of OpenAI's API, in which the arguments are JSON text.
pub(super) fn function_call(id: Option<&str>, function: Option<&str>) -> CallDraft {
    let of = |key| function.and_then(|function| member(function, key));
    let args = of("arguments");
    CallDraft {
        id: text(id).unwrap_or_default(),
        name: text(of("name")).unwrap_or_default(),
        args: match text(args) {
            Some(empty) if empty.is_empty() => "{}".to_owned(),
            Some(args) => unpacked(&args),
            None => args
                .filter(|args| *args != "null")
                .unwrap_or("{}")
                .to_owned(),
        },
    }
}

/// Returns the objects at the beginning of a file of lines. The last one may be truncated. Its
/// complete members are usable.
pub(super) fn objects(head: &[u8]) -> impl Iterator<Item = &str> {
    let lines =
        head.split(|byte| *byte == b'\n')
            .take(64)
            .map(|line| match std::str::from_utf8(line) {
                Ok(line) => line,
                Err(error) => line
                    .get(..error.valid_up_to())
                    .and_then(|line| std::str::from_utf8(line).ok())
                    .unwrap_or(""),
            });
    lines.filter(|line| line.starts_with('{'))
}

/// Returns whether the beginning of a file contains one of these texts. Much faster than looking into
/// its objects.
pub(super) fn contains(head: &[u8], texts: &[&str]) -> bool {
    let is_in = |text: &&str| memchr::memmem::find(head, text.as_bytes()).is_some();
    texts.iter().any(is_in)
}

/// Returns whether the value is a string.
pub(super) fn is_text(value: Option<&str>) -> bool {
    value.is_some_and(|value| value.starts_with('"'))
}

/// Returns a path relative to the agent's working directory, if it's inside.
pub(super) fn below<'a>(path: &'a str, project: Option<&str>) -> &'a str {
    relative(path, project.unwrap_or_default())
}

/// Returns the hunks of a unified diff of one file, without the lines above them that name the file.
pub(super) fn hunks(diff: &str) -> Option<String> {
    let at = match diff.starts_with("@@ ") {
        true => 0,
        false => diff.find("\n@@ ")? + 1,
    };
    diff.get(at..).map(str::to_owned)
}

/// Returns given data as JSON, if it's an object of at most [`MAX_GIVEN_BYTES`].
pub(super) fn given(object: Option<&str>) -> Option<Box<str>> {
    let object = object.filter(|text| text.starts_with('{') && text.len() <= MAX_GIVEN_BYTES)?;
    Some(Json::checked(object).to_string().into())
}

/// Returns the status of a call, if it's one of the words that all tools share.
pub(super) fn status(value: Option<&str>) -> Option<&'static str> {
    let word = text(value)?;
    ["success", "error", "cancelled"]
        .into_iter()
        .find(|known| *known == word)
}

/// Returns the number at the start of a text in common notations: `4.`, `$0.05`, `1,234`.
pub(super) fn leading(text: &str) -> Option<f64> {
    let text = text.trim_start().trim_start_matches('$');
    let end = text
        .find(|c: char| !(c.is_ascii_digit() || matches!(c, '.' | ',')))
        .unwrap_or(text.len());
    text.get(..end)?
        .trim_end_matches(['.', ','])
        .replace(',', "")
        .parse()
        .ok()
}

/// Returns the error of a command that failed and printed nothing.
pub(super) fn silent(exit: Option<i64>) -> String {
    exit.map_or_else(|| NO_WORDS.to_owned(), no_output)
}

/// Builds a limit, if the trace records one.
pub(super) fn limit(
    name: &'static str,
    limit: Option<f64>,
    unit: &'static str,
    used: Option<f64>,
) -> Option<ToolLimit> {
    limit.map(|limit| ToolLimit {
        name,
        limit,
        unit,
        used,
        bound: Bound::Exact,
        op: Op::AtLeast,
    })
}

/// Builds a total that a field records for the whole run, for comparison with other totals in this
/// unit.
pub(super) fn total_in(unit: &'static str, total: f64, field: &'static str) -> Statement {
    let source = Source {
        who: "the trace",
        file: "",
        line: None,
        field: field.into(),
    };
    Statement::number(Fact::Total(unit), total, source)
}

/// Builds an answer that a field records.
pub(super) fn answer_in(field: &'static str, answer: Box<str>) -> Statement {
    let source = Source {
        who: "the trace",
        file: "",
        line: None,
        field: field.into(),
    };
    Statement::text(Fact::Answer, answer, source)
}

/// Builds the end of a run that `board export` wrote in another tool's format, from the fields that
/// it adds.
pub(super) fn exported_end(
    outcome: &str,
    certainty: &str,
    reason: &str,
    verdict: &str,
) -> Option<Ended> {
    let outcome = Outcome::ALL
        .into_iter()
        .find(|known| known.as_str() == outcome)?;
    let headline = match outcome {
        Outcome::Completed => "Answered",
        Outcome::Truncated => "Stopped at a limit",
        Outcome::Halted => "Stopped by a rule",
        Outcome::Failed => "Failed",
        Outcome::Cancelled => "Cancelled",
        Outcome::Running => return None,
        Outcome::Unknown => "Ended",
    };
    let certainty = Certainty::ALL
        .into_iter()
        .find(|known| known.as_str() == certainty)
        .unwrap_or(Certainty::Unknown);
    let end = Ended::new(reason, headline, outcome, certainty);
    Some(Ended {
        is_sentence: !verdict.is_empty(),
        ..end.detail(cut(verdict))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_arguments_of_a_call_are_json_text_or_json() {
        let args = |args: &str| {
            let function = format!(r#"{{"name":"ls","arguments":{args}}}"#);
            let call = function_call(Some(r#""c1""#), Some(&function));
            assert_eq!((&*call.id, &*call.name), ("c1", "ls"));
            call.args
        };
        assert_eq!(args(r#""{\"path\":\".\"}""#), r#"{"path":"."}"#);
        assert_eq!(args(r#"{"path":"."}"#), r#"{"path":"."}"#);
        assert_eq!(args(r#""""#), "{}");
        assert_eq!(args("null"), "{}");
        assert_eq!(args(r#""{\"pa""#), r#""{\"pa""#, "a truncated text stays");
        assert_eq!(function_call(None, None).args, "{}");
    }

    #[test]
    fn a_patch_names_its_files() {
        let patch = "diff --git a/x.py b/x.py\nindex 1..2 100644\n--- a/x.py\n+++ b/x.py\n@@ -1,2 +1,2 @@\n--- a/no\n+b\n\
                     diff --git a/old b/old\n--- a/old\n+++ /dev/null\n@@ -1 +0,0 @@\n-a\n--- /dev/null\t2024\r\n+++ b/new\t2024\r\n@@ -0,0 +1 @@\n+a\n";
        let files = patched(patch);
        assert_eq!(files, ["x.py", "old", "new"].map(Box::from));
        assert!(patched("The answer is\n--- a/x\n+++ b/x").is_empty());
        let many: String = (0..100)
            .map(|n| format!("--- a/{n}\n+++ b/{n}\n"))
            .collect();
        assert_eq!(patched(&many).len(), MAX_PATCHED);
    }

    #[test]
    fn an_error_of_a_provider_is_its_message() {
        for (error, words) in [
            (
                r#"500 {"type":"error","error":{"type":"api_error","message":"Internal"},"id":1}"#,
                "500 Internal",
            ),
            (r#"{"error":"no credit"}"#, "no credit"),
            (r#"429: {"message":"slow down","code":7}"#, "429: slow down"),
            (r#"500 {"error":{"code":7}}"#, r#"500 {"error":{"code":7}}"#),
            (r#"bad {"message":"x"} here"#, r#"bad {"message":"x"} here"#),
            ("Connection error.", "Connection error."),
            ("", ""),
        ] {
            assert_eq!(provider_error(error), words);
        }
    }

    #[test]
    fn a_block_of_a_program_is_not_the_users() {
        let content = r#"[{"type":"text","text":"<system-reminder>a</system-reminder>\n"},
            {"type":"text","text":"Fix it."},{"type":"image"},7,
            {"type":"text","text":"<ide_selection>b</ide_selection>"},{"type":"text","text":"Now."}]"#;
        assert_eq!(own_words_in(Some(content)), "Fix it.\nNow.");
        assert_eq!(own_words_in(Some(r#""Fix it.""#)), "Fix it.");
        assert_eq!(own_words_in(Some("{}")), "");
        assert_eq!(own_words_in(None), "");
        let reminder = r#"{"type":"text","text":"<system-reminder>a</system-reminder>"}"#;
        let is_added = |content: &str| super::is_added(Some(content), &own_words_in(Some(content)));
        assert!(is_added(&format!("[{reminder}]")));
        assert!(!is_added(&format!(r#"[{reminder},{{"type":"image"}}]"#)));
        assert!(!is_added(content));
        assert!(!is_added(r#""""#));
    }
}
