//! What does the JSON text of a member say? Read without failing: a value of another type says nothing.

use crate::model::json::{Json, walk};
use crate::model::loose::Scalar;
use crate::model::names::capped;
use crate::model::stated::Source;
use crate::model::time::parse_ts;
use crate::model::{Bound, Certainty, Ended, Fact, Op, Outcome, Statement, ToolLimit};

use super::part::{quoted, text};

/// Texts of a prompt and an answer are kept up to this many bytes.
const MAX_TEXT_BYTES: usize = 400;
/// Arguments and options of a run are kept up to this many bytes.
const MAX_GIVEN_BYTES: usize = 16 << 10;

/// The text of a string, cut for the index.
pub(super) fn short(value: Option<&str>) -> Option<Box<str>> {
    text(value).map(|text| cut(&text))
}

/// What a reader calls a record in which the user says something and that begins no turn: beside what tools gave, or in a list
/// of messages.
pub(super) const USER_TEXT: &str = "user_text";

/// The stage of a record that gives results and may hold words of the user beside them: `stage`, or [`USER_TEXT`] where it
/// does. What programs write there stands in tags.
pub(super) fn stage_beside<'a>(words: &str, stage: &'a str) -> &'a str {
    let words = words.trim_start();
    if words.is_empty() || words.starts_with('<') {
        stage
    } else {
        USER_TEXT
    }
}

/// A text, cut for the index.
pub(super) fn cut(text: &str) -> Box<str> {
    capped(text, MAX_TEXT_BYTES)
}

/// What of a text that `cut` made stands in the trace, and whether that is all.
pub fn uncut(text: &str) -> (&str, bool) {
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

/// A finite number.
pub(super) fn number(value: Option<&str>) -> Option<f64> {
    Scalar::of(value?)?.number()
}

/// A number above zero; writers put 0 where nothing limits or nothing was counted.
pub(super) fn above_zero(value: Option<&str>) -> Option<f64> {
    number(value).filter(|number| *number > 0.0)
}

pub(super) fn is_true(value: Option<&str>) -> bool {
    value == Some("true")
}

/// A text that is not empty.
pub(super) fn filled(value: Option<&str>) -> Option<String> {
    text(value).filter(|text| !text.is_empty())
}

/// A time in seconds since the epoch, in microseconds.
pub(super) fn seconds(value: Option<&str>) -> Option<i64> {
    // Beyond any calendar it is no time.
    number(value)
        .filter(|seconds| seconds.abs() < 1e11)
        .map(|seconds| (seconds * 1e6) as i64)
}

/// A time as RFC 3339, in microseconds since the epoch.
pub(super) fn micros(value: Option<&str>) -> Option<i64> {
    parse_ts(&text(value)?).map(|stamp| stamp.micros)
}

/// A member of an object.
pub(super) fn member<'a>(object: &'a str, key: &str) -> Option<&'a str> {
    walk::members(object)
        .filter(|(name, _)| walk::string(name).is_some_and(|name| name == key))
        .last()
        .map(|(_, v)| v)
}

/// The texts of a message, one under the other: a string, or a list of parts that have a `text`.
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

/// JSON that stands in a string as the value that it is; any other text as a string.
pub(super) fn unpacked(inner: &str) -> String {
    // Inside of the line of a step it stands some levels deeper, and the depth that is read has an end.
    let deeper = format!("[[[[[[[[{inner}]]]]]]]]");
    if Json::is_json(inner) && Json::is_json(&deeper) {
        inner.trim().to_owned()
    } else {
        quoted(inner)
    }
}

/// The objects of a beginning of a file of lines. The last may be cut; its whole members are there.
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

/// Whether the value is a string.
pub(super) fn is_text(value: Option<&str>) -> bool {
    value.is_some_and(|value| value.starts_with('"'))
}

/// A path without the directory that the agent works in.
pub(super) fn below<'a>(path: &'a str, project: Option<&str>) -> &'a str {
    project
        .and_then(|project| path.strip_prefix(project)?.strip_prefix('/'))
        .unwrap_or(path)
}

/// What somebody was given, as JSON, where that is an object of no great length.
pub(super) fn given(object: Option<&str>) -> Option<Box<str>> {
    let object = object.filter(|text| text.starts_with('{') && text.len() <= MAX_GIVEN_BYTES)?;
    Some(Json::checked(object).to_string().into())
}

/// How a call went, where that is one of the words that all tools share.
pub(super) fn status(value: Option<&str>) -> Option<&'static str> {
    let word = text(value)?;
    ["success", "error", "cancelled"]
        .into_iter()
        .find(|known| *known == word)
}

/// The number that a text begins with, as people write it: `4.`, `$0.05`, `1,234`.
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

/// A limit that the trace names, where there is one.
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

/// A total that a field states for the whole run, to be compared with the other totals in this unit.
pub(super) fn total_in(unit: &'static str, total: f64, field: &'static str) -> Statement {
    let source = Source {
        who: "the trace",
        file: "",
        line: None,
        field: field.into(),
    };
    Statement::number(Fact::Total(unit), total, source)
}

/// An answer that a field states.
pub(super) fn answer_in(field: &'static str, answer: Box<str>) -> Statement {
    let source = Source {
        who: "the trace",
        file: "",
        line: None,
        field: field.into(),
    };
    Statement::text(Fact::Answer, answer, source)
}

/// The end of a run that `board export` wrote in the words of another format: what stands there beside it.
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
        Outcome::Truncated => "A limit ended it",
        Outcome::Halted => "A rule ended it",
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
