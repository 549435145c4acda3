//! Where does a text stand in a trace? In its strings, keys and numbers, however the file spells them.
//!
//! Knows lines and no files. The bytes are only sifted at first: what cannot hold the text is never parsed. What may
//! hold it is parsed, and the text is looked for in what the line says, escapes resolved.

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
pub use tally::{InRun, LeftOut, MAX_HITS, Tally};

/// A longer text is refused.
pub const MAX_TEXT_CHARS: usize = 500;
/// So many hits are kept of one line; more are counted.
pub const MAX_HITS_IN_LINE: usize = 20;
/// So much is shown before and after the text.
const CHARS_BEFORE: usize = 50;
const CHARS_AFTER: usize = 120;
/// A longer path is cut at its start.
const MAX_PATH_CHARS: usize = 160;

/// A text to look for. ASCII letters match in either case.
#[derive(Debug, Clone)]
pub struct Needle {
    text: String,
    /// Finds the text in what a line says.
    whole: Finder,
    /// A line in which none of these stands cannot say the text.
    sieve: Vec<Sift>,
}

/// Where the text stands in a line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Hit {
    /// The field: `action_results[0].output`; empty where the line is no JSON.
    #[serde(skip)]
    pub path: String,
    /// Whether it is the field's name that holds the text.
    pub in_key: bool,
    /// What stands before it, as far as it is shown.
    pub before: String,
    /// The text as it stands there.
    pub text: String,
    /// What stands behind it, as far as it is shown.
    pub after: String,
}

/// What was found in a line.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct InLine {
    /// One for each field, the first of them.
    pub hits: Vec<Hit>,
    /// All fields that hold the text.
    pub found: usize,
    /// The line is no JSON, so it was searched as it stands.
    pub as_text: bool,
}

/// A line that holds the text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LineMatch {
    /// The file.
    pub file: TraceFile,
    /// What the line is.
    pub place: LinePlace,
    /// Where in it the text stands.
    pub line: InLine,
}

/// What a line of a run is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, JsonSchema)]
pub struct LinePlace {
    /// Where it begins in its file, in bytes.
    pub offset: u64,
    /// The step it is or belongs to.
    pub step: Option<usize>,
    /// The event, by its place among the events.
    pub event: Option<usize>,
    /// Whether it is what a document says beside its records.
    pub beside_records: bool,
}

impl Needle {
    /// Prepares a search.
    ///
    /// # Errors
    /// The text is empty or too long; in a sentence.
    pub fn new(text: &str) -> Result<Self, String> {
        if text.chars().count() > MAX_TEXT_CHARS {
            return Err(format!(
                "A text of at most {MAX_TEXT_CHARS} characters can be searched for."
            ));
        }
        let whole = Finder::new(text.as_bytes()).ok_or("There is no text to search for.")?;
        Ok(Self {
            text: text.to_owned(),
            whole,
            sieve: sieve(text),
        })
    }

    /// The text as it was given.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The lines of `block` that may hold the text, in order, each without its line end.
    pub fn candidates<'a>(&'a self, block: &'a [u8]) -> Candidates<'a> {
        let next = self.sieve.iter().map(|sift| sift.find(block, 0)).collect();
        Candidates {
            sieve: &self.sieve,
            block,
            next,
            from: 0,
        }
    }

    /// What `line` says of the text.
    pub fn look(&self, line: &[u8]) -> InLine {
        let mut found = InLine::default();
        let text = String::from_utf8_lossy(line);
        if let Some(json) = Json::parse(&text) {
            self.walk(&json, &mut Vec::new(), &mut found);
            return found;
        }
        // As far as the board repairs a line, it shows the repaired one.
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
                    // A name alone says little.
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

    /// Takes in the first place of the text in `value`, if it holds it.
    fn take(&self, value: &str, path: &[Part<'_>], in_key: bool, found: &mut InLine) {
        let Some(at) = self.whole.find(value.as_bytes(), 0) else {
            return;
        };
        found.found += 1;
        if found.hits.len() >= MAX_HITS_IN_LINE {
            return;
        }
        // A text is found where it begins, and only ASCII letters differ: both ends are ends of characters.
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

/// A step on the way to a field.
#[derive(Debug, Clone, Copy)]
enum Part<'a> {
    Key(&'a str),
    Item(usize),
}

/// A path as it is written elsewhere on the board: `a.b[0]["odd key"]`.
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

/// A value that is said in a few words.
fn short<'a>(json: &'a Json<'_>) -> Option<&'a str> {
    match json {
        Json::Null => Some("null"),
        Json::Bool(value) => Some(if *value { "true" } else { "false" }),
        Json::Number(text) | Json::Deep(text) => Some(text),
        Json::String(text) => Some(text),
        Json::Array(_) | Json::Object(_) => None,
    }
}

/// The last `chars` characters, with a mark where some are left out.
fn end(text: &str, chars: usize) -> Cow<'_, str> {
    match text.char_indices().rev().nth(chars) {
        Some((at, left_out)) => Cow::Owned(format!(
            "…{}",
            text.get(at + left_out.len_utf8()..).unwrap_or_default()
        )),
        None => Cow::Borrowed(text),
    }
}

/// Lines in which the text may stand.
#[derive(Debug)]
pub struct Candidates<'a> {
    sieve: &'a [Sift],
    block: &'a [u8],
    /// Where each part of the sieve next stands.
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

/// What stands in every line that says `text`, one of them at least.
fn sieve(text: &str) -> Vec<Sift> {
    // These stand for themselves wherever a writer escapes only what it must; a slash may have a backslash before it.
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
