//! Finds a text in the lines of a trace: in strings, keys and numbers, regardless of how the file
//! escapes them.
//!
//! Knows lines but no files. A fast scan of the bytes first excludes lines that can't contain the
//! text. The remaining lines are parsed and searched with escapes resolved.

mod finder;
mod tally;

use std::borrow::Cow;
use std::fmt::Write as _;
use std::ops::Range;

use schemars::JsonSchema;
use serde::Serialize;

use crate::model::TraceFile;
use crate::model::json::Json;
use crate::model::names::clipped;
use crate::model::repair::{Retreat, retreat};
use finder::{Finder, Sift};
#[cfg(test)]
pub(crate) use tally::InRun;
pub(crate) use tally::{LeftOut, MAX_HITS, Tally};

/// The longest text that can be searched for, in characters.
pub(crate) const MAX_TEXT_CHARS: usize = 500;
/// Limits the hits kept for one line. Further hits are only counted.
pub(crate) const MAX_HITS_IN_LINE: usize = 20;
/// The characters shown before the text; [`CHARS_AFTER`] are shown after it.
const CHARS_BEFORE: usize = 50;
const CHARS_AFTER: usize = 120;
/// Longer paths are truncated at the start.
const MAX_PATH_CHARS: usize = 160;

/// A text to search for. ASCII letters match in either case.
#[derive(Debug, Clone)]
pub(crate) struct Needle {
    text: String,
    /// Finds the text in the resolved content of a line.
    whole: Finder,
    /// A line that contains none of these can't contain the text.
    sieve: Vec<Sift>,
}

/// An occurrence of the text in a line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub(crate) struct Hit {
    /// The field, such as `action_results[0].output`. Empty if the line isn't JSON.
    #[serde(skip)]
    pub path: String,
    /// Whether the text is in the field's name.
    pub in_key: bool,
    /// The text before the match, truncated.
    pub before: String,
    /// The match, spelled as in the trace.
    pub text: String,
    /// The text after the match, truncated.
    pub after: String,
}

/// The matches in a line.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct InLine {
    /// One hit for each field with a match, up to [`MAX_HITS_IN_LINE`].
    pub hits: Vec<Hit>,
    /// The number of fields that contain the text.
    pub found: usize,
    /// Whether the line isn't JSON and was searched as plain text.
    pub as_text: bool,
}

/// A line that contains the text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LineMatch {
    /// The file.
    pub file: TraceFile,
    /// The line's location.
    pub place: LinePlace,
    /// The matches in the line.
    pub line: InLine,
}

impl LineMatch {
    /// Returns the name of a text that was found on its own and belongs to no step: the title, or a
    /// prompt after the last step.
    pub(crate) fn of_the_run(&self) -> Option<&str> {
        let is_outside = self.file == TraceFile::Steps && self.place == LinePlace::default();
        let hit = self.line.hits.first().filter(|_| is_outside)?;
        matches!(&*hit.path, TITLE | PROMPT).then_some(&*hit.path)
    }
}

/// The names of texts that may belong to no step.
pub(crate) const TITLE: &str = "title";
pub(crate) const PROMPT: &str = "prompt";

/// The location of a line in a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, JsonSchema)]
pub(crate) struct LinePlace {
    /// The byte offset of the line in its file.
    pub offset: u64,
    /// The step that the line is or belongs to.
    pub step: Option<usize>,
    /// The event, by its index among the run's events.
    pub event: Option<usize>,
    /// Whether the line is the part of a document outside its records.
    pub beside_records: bool,
}

impl Needle {
    /// Prepares a search.
    ///
    /// # Errors
    /// Returns a sentence if the text is empty or too long.
    pub(crate) fn new(text: &str) -> Result<Self, String> {
        if text.chars().count() > MAX_TEXT_CHARS {
            return Err(format!(
                "The search text can have at most {MAX_TEXT_CHARS} characters."
            ));
        }
        let whole = Finder::new(text.as_bytes()).ok_or("The search text is empty.")?;
        Ok(Self {
            text: text.to_owned(),
            whole,
            sieve: sieve(text),
        })
    }

    /// Returns the text as given.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// Returns the byte at which the text first occurs in `text`.
    pub(crate) fn first_in(&self, text: &str) -> Option<usize> {
        self.whole.find(text.as_bytes(), 0)
    }

    /// Returns the lines of `block` that may contain the text, in order and without their line
    /// endings.
    pub(crate) fn candidates<'a>(&'a self, block: &'a [u8]) -> Candidates<'a> {
        let next = self.sieve.iter().map(|sift| sift.find(block, 0)).collect();
        Candidates {
            sieve: &self.sieve,
            block,
            next,
            from: 0,
        }
    }

    /// Searches `line`.
    pub(crate) fn look(&self, line: &[u8]) -> InLine {
        let mut found = InLine::default();
        let text = String::from_utf8_lossy(line);
        if let Some(json) = Json::parse(&text) {
            self.walk(&json, &mut Vec::new(), &mut found);
            return found;
        }
        // If board can repair a line, it shows the repaired one.
        if let Retreat::Repaired { text, .. } = retreat(line, |text| Json::parse(text).is_some())
            && let Some(json) = Json::parse(&text)
        {
            self.walk(&json, &mut Vec::new(), &mut found);
            return found;
        }
        found.as_text = true;
        self.take(&text, &[], false, &mut found);
        found
    }

    fn walk<'j>(&self, json: &'j Json<'_>, path: &mut Vec<Part<'j>>, found: &mut InLine) {
        match json {
            Json::Array(items) => {
                for (at, item) in items.iter().enumerate() {
                    path.push(Part::Item(at));
                    self.walk(item, path, found);
                    path.pop();
                }
            }
            Json::Object(members) => {
                for (key, value) in members {
                    path.push(Part::Key(key));
                    let before = found.hits.len();
                    self.take(key, path, true, found);
                    // A key alone says little, so its value is shown too.
                    if let Some(hit) = found.hits.get_mut(before)
                        && let Some(value) = short(value)
                    {
                        let _ = write!(hit.after, ": {}", clipped(value, CHARS_AFTER));
                    }
                    self.walk(value, path, found);
                    path.pop();
                }
            }
            other => self.take(short(other).unwrap_or_default(), path, false, found),
        }
    }

    /// Searches a text on its own. `path` is what the hit calls it.
    pub(crate) fn look_in(&self, text: &str, path: &str) -> Option<Hit> {
        let mut found = InLine::default();
        self.take(text, &[], false, &mut found);
        let hit = found.hits.pop()?;
        Some(Hit {
            path: path.to_owned(),
            ..hit
        })
    }

    /// Adds the first occurrence of the text in `value`, if there's one.
    fn take(&self, value: &str, path: &[Part<'_>], in_key: bool, found: &mut InLine) {
        let Some(at) = self.whole.find(value.as_bytes(), 0) else {
            return;
        };
        found.found += 1;
        if found.hits.len() >= MAX_HITS_IN_LINE {
            return;
        }
        // The match begins at a character boundary and differs only in the case of ASCII letters,
        // so both ends are character boundaries.
        let (before, rest) = value.split_at_checked(at).unwrap_or((value, ""));
        let (text, after) = rest
            .split_at_checked(self.whole.len())
            .unwrap_or((rest, ""));
        found.hits.push(Hit {
            path: spelled(path),
            in_key,
            before: end(before, CHARS_BEFORE).into_owned(),
            text: text.to_owned(),
            after: clipped(after, CHARS_AFTER).into_owned(),
        });
    }
}

/// An element of a path to a field.
#[derive(Debug, Clone, Copy)]
enum Part<'a> {
    Key(&'a str),
    Item(usize),
}

/// Formats a path like the rest of board: `a.b[0]["odd key"]`.
fn spelled(path: &[Part<'_>]) -> String {
    let mut text = String::new();
    for part in path {
        // Writing into a string cannot fail.
        let _ = match part {
            Part::Item(at) => write!(text, "[{at}]"),
            Part::Key(key)
                if !key.is_empty()
                    && key.chars().all(|c| c.is_alphanumeric() || "_-".contains(c)) =>
            {
                write!(text, "{}{key}", if text.is_empty() { "" } else { "." })
            }
            Part::Key(key) => write!(text, "[{}]", Json::String(Cow::Borrowed(key))),
        };
    }
    end(&text, MAX_PATH_CHARS).into_owned()
}

/// Returns the text of a scalar value.
fn short<'a>(json: &'a Json<'_>) -> Option<&'a str> {
    match json {
        Json::Null => Some("null"),
        Json::Bool(value) => Some(if *value { "true" } else { "false" }),
        Json::Number(text) | Json::Deep(text) => Some(text),
        Json::String(text) => Some(text),
        Json::Array(_) | Json::Object(_) => None,
    }
}

/// Returns the last `chars` characters, with an ellipsis if text was removed.
fn end(text: &str, chars: usize) -> Cow<'_, str> {
    match text.char_indices().rev().nth(chars) {
        Some((at, left_out)) => Cow::Owned(format!(
            "…{}",
            text.get(at + left_out.len_utf8()..).unwrap_or_default()
        )),
        None => Cow::Borrowed(text),
    }
}

/// Iterates over the lines that may contain the text.
#[derive(Debug)]
pub(crate) struct Candidates<'a> {
    sieve: &'a [Sift],
    block: &'a [u8],
    /// The next occurrence of each part of the sieve.
    next: Vec<Option<usize>>,
    from: usize,
}

impl Iterator for Candidates<'_> {
    type Item = Range<usize>;

    fn next(&mut self) -> Option<Range<usize>> {
        for (sift, next) in self.sieve.iter().zip(&mut self.next) {
            if next.is_some_and(|at| at < self.from) {
                *next = sift.find(self.block, self.from);
            }
        }
        let at = self.next.iter().flatten().min().copied()?;
        let start = memchr::memrchr(b'\n', self.block.get(..at)?).map_or(0, |end| end + 1);
        let end =
            memchr::memchr(b'\n', self.block.get(at..)?).map_or(self.block.len(), |end| at + end);
        self.from = end + 1;
        Some(start..end)
    }
}

/// Returns patterns. Every line that contains `text` contains at least one of them.
fn sieve(text: &str) -> Vec<Sift> {
    // Writers that escape only what they must leave these unchanged. A slash may have a backslash
    // before it.
    let plain = |c: char| matches!(c, ' '..='~') && !matches!(c, '"' | '\\' | '/');
    let stretch = text
        .split(|c| !plain(c))
        .max_by_key(|stretch| stretch.len())
        .unwrap_or_default();
    if !stretch.is_empty() {
        // Some writers escape letters too: `\u003c`.
        return Finder::new(stretch.as_bytes())
            .map(Sift::Text)
            .into_iter()
            .chain([Sift::escaped_ascii()])
            .collect();
    }
    let first = text.chars().next().unwrap_or_default();
    let unit = first
        .encode_utf16(&mut [0; 2])
        .first()
        .copied()
        .unwrap_or_default();
    let short = match first {
        '\n' => "\\n",
        '\r' => "\\r",
        '\t' => "\\t",
        '\u{8}' => "\\b",
        '\u{c}' => "\\f",
        _ => "",
    };
    let spellings = [
        first.to_string(),
        format!("\\u{unit:04x}"),
        short.to_owned(),
    ];
    spellings
        .iter()
        .filter_map(|spelling| Finder::new(spelling.as_bytes()))
        .map(Sift::Text)
        .collect()
}

#[cfg(test)]
mod tests;
