//! Finds secrets in a trace and blanks them: by the names of keys, by the well-known shapes of some
//! secrets, and wherever a value found that way occurs again. Also replaces what tells who wrote the
//! trace: home directories and e-mail addresses.
//!
//! Works on lines as text, without files. First a [`Search`] reads all lines, then its
//! [`Secrets`] blank them.

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use super::MAX_LINE_BYTES;
use super::json::Json;
use super::names::cut_at;
use super::repair::repair;

mod names;
mod private;
mod shapes;
mod text;

use names::{Held, held};
pub use private::{Kind, without_private};
pub use text::BLANK;

#[cfg(test)]
mod tests;

/// Shorter values are blanked next to their key but not elsewhere, because they may be any word.
const MIN_SOUGHT_BYTES: usize = 5;
/// Shorter values are only blanked elsewhere as a separate word.
const MIN_INSIDE_BYTES: usize = 8;
/// Maximum number of values that are searched for elsewhere.
pub const MAX_SOUGHT: usize = 1_000;

/// The values kept of each kind as samples, and their longest length; bytes.
const MAX_SAMPLES: usize = 3;
const MAX_SAMPLE: usize = 60;

/// A value that is blanked, for a preview. The text around it isn't kept, because it may be part of
/// another secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sample {
    /// Its kind.
    pub kind: Kind,
    /// The value, or its beginning.
    pub value: String,
}

/// How much of a trace was blanked.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Blanked {
    /// The number of values of each kind, in the order of [`Kind::ALL`].
    pub kinds: [usize; Kind::ALL.len()],
    /// The number of distinct values that are blanked only in place, because [`MAX_SOUGHT`] others
    /// are already searched for.
    pub not_sought: usize,
}

impl Blanked {
    /// Returns the number of values.
    pub fn found(&self) -> usize {
        self.kinds.iter().sum()
    }

    /// Returns each kind with the number of its values.
    pub fn each(&self) -> impl Iterator<Item = (Kind, usize)> {
        Kind::ALL.into_iter().zip(self.kinds)
    }
}

/// Collects the secrets of a trace.
#[derive(Debug, Clone, Default)]
pub struct Search {
    values: BTreeSet<String>,
    /// Values after the first [`MAX_SOUGHT`], as hashes, because they may be arbitrarily long.
    beyond: BTreeSet<u64>,
    kinds: [usize; Kind::ALL.len()],
    /// A few values of each kind.
    samples: Vec<Sample>,
}

/// The secrets found in a trace.
#[derive(Debug, Clone, Default)]
pub struct Secrets {
    /// The longest come first, because one may be a prefix of another.
    sought: Vec<String>,
    samples: Vec<Sample>,
    blanked: Blanked,
}

impl Search {
    /// Searches a line or a manifest for secrets.
    pub fn read(&mut self, line: &[u8]) {
        if line.len() as u64 > MAX_LINE_BYTES {
            return;
        }
        let text = repair(line).0;
        match Json::parse(&text) {
            Some(json) => self.walk(&json, Held::Open),
            None => self.read_text(&text),
        }
    }

    /// Returns how much of what was read would be blanked.
    pub fn blanked(&self) -> Blanked {
        Blanked {
            kinds: self.kinds,
            not_sought: self.beyond.len(),
        }
    }

    /// Returns a few of the values of each kind.
    pub fn samples(&self) -> &[Sample] {
        &self.samples
    }

    /// Returns the secrets after all lines were read.
    pub fn end(self) -> Secrets {
        let mut sought: Vec<String> = self
            .values
            .iter()
            .flat_map(|value| spellings(value))
            .collect();
        sought.retain(|value| is_sought(value));
        sought.sort_by(|a, b| b.len().cmp(&a.len()).then_with(|| a.cmp(b)));
        sought.dedup();
        Secrets {
            sought,
            blanked: self.blanked(),
            samples: self.samples,
        }
    }

    fn walk(&mut self, json: &Json<'_>, around: Held) {
        match json {
            Json::String(text) => match json_inside(text) {
                Some(inner) => self.walk(&inner, around),
                None => {
                    if around != Held::Open {
                        self.find(text, Kind::Named);
                    }
                    self.read_text(text);
                }
            },
            Json::Number(text) if around == Held::All => self.find(text, Kind::Named),
            Json::Array(items) => items.iter().for_each(|item| self.walk(item, around)),
            Json::Object(members) => {
                members
                    .iter()
                    .for_each(|(key, value)| self.walk(value, around.max(held(key))));
            }
            Json::Deep(text) => self.read_text(text),
            Json::Null | Json::Bool(_) | Json::Number(_) => {}
        }
    }

    fn read_text(&mut self, text: &str) {
        shapes::keys(text).for_each(|key| {
            self.find(key, Kind::Token);
        });
        for (range, kind) in private::found(text) {
            let value = text.get(range.clone()).unwrap_or_default();
            self.count(kind, value);
            // In `postgres://postgres:postgres@host`, the password is also a common word.
            let is_user = || {
                text.get(..range.start)
                    .and_then(|before| before.strip_suffix(':')?.strip_suffix(value))
                    .is_some_and(|before| before.ends_with('/'))
            };
            if kind == Kind::InAddress && !may_be_word(value) && !is_user() {
                self.seek(value);
                if let Ok(decoded) = percent_encoding::percent_decode_str(value).decode_utf8() {
                    self.seek(&decoded);
                }
            }
        }
        let keyless = private::without_keys(text);
        for found in text::values(&keyless) {
            let value = keyless.get(found.range).unwrap_or_default();
            if found.bare && may_be_word(value) {
                self.count(Kind::Named, value);
                continue;
            }
            self.find(value, Kind::Named);
            if let Some((start, _)) = value.split_once('\\').filter(|_| found.bare) {
                self.seek(start);
            }
        }
    }

    fn find(&mut self, value: &str, kind: Kind) {
        if !value.is_empty() && value != BLANK {
            self.count(kind, value);
            self.seek(value.trim());
        }
    }

    /// Counts a value, and keeps it as a sample if there are few of its kind.
    fn count(&mut self, kind: Kind, value: &str) {
        if let Some(count) = self.kinds.get_mut(kind as usize) {
            *count += 1;
        }
        let value = cut_at(value, MAX_SAMPLE);
        let own = || self.samples.iter().filter(|sample| sample.kind == kind);
        if own().count() < MAX_SAMPLES && !own().any(|sample| sample.value == value) {
            let value = value.to_owned();
            self.samples.push(Sample { kind, value });
        }
    }

    fn seek(&mut self, value: &str) {
        if !is_sought(value) || self.values.contains(value) {
            return;
        }
        if self.values.len() < MAX_SOUGHT {
            self.values.insert(value.to_owned());
        } else {
            let mut hash = DefaultHasher::new();
            value.hash(&mut hash);
            self.beyond.insert(hash.finish());
        }
    }
}

impl Secrets {
    /// Returns how much is blanked.
    pub fn blanked(&self) -> Blanked {
        self.blanked
    }

    /// Returns a few of the values of each kind.
    pub fn samples(&self) -> &[Sample] {
        &self.samples
    }

    /// Returns the line with every secret blanked. A line that isn't JSON, or is longer than the
    /// board parses, is blanked as a whole, because its keys are unknown.
    pub fn blank(&self, line: &[u8]) -> String {
        self.blank_json(line).unwrap_or_else(|| quote(BLANK))
    }

    /// Returns the line with every secret blanked, or `None` if it isn't JSON or is longer than the
    /// board parses.
    pub fn blank_json(&self, line: &[u8]) -> Option<String> {
        if line.len() as u64 > MAX_LINE_BYTES {
            return None;
        }
        let text = repair(line).0;
        let mut out = String::with_capacity(text.len());
        self.write(&Json::parse(&text)?, &mut out);
        Some(out)
    }

    fn write(&self, json: &Json<'_>, out: &mut String) {
        match json {
            Json::String(text) => match json_inside(text) {
                Some(inner) => {
                    let mut blanked = String::new();
                    self.write(&inner, &mut blanked);
                    // If nothing in it was a secret, keep the text itself, with its white space.
                    out.push_str(&quote(if blanked == inner.to_string() {
                        text
                    } else {
                        &blanked
                    }));
                }
                None => out.push_str(&quote(&self.without(text))),
            },
            Json::Number(text) => {
                let blanked = self.without_sought((*text).to_owned());
                out.push_str(&if blanked == *text {
                    blanked
                } else {
                    quote(BLANK)
                });
            }
            Json::Array(items) => {
                out.push('[');
                for (at, item) in items.iter().enumerate() {
                    out.push_str(if at == 0 { "" } else { ", " });
                    self.write(item, out);
                }
                out.push(']');
            }
            Json::Object(members) => {
                out.push('{');
                for (at, (key, value)) in members.iter().enumerate() {
                    out.push_str(if at == 0 { "" } else { ", " });
                    out.push_str(&quote(&self.without(key)));
                    out.push_str(": ");
                    if may_hold(held(key), value) {
                        out.push_str(&quote(BLANK))
                    } else {
                        self.write(value, out)
                    }
                }
                out.push('}');
            }
            // A value nested too deep to read may contain anything.
            Json::Deep(_) => out.push_str(&quote(BLANK)),
            Json::Null | Json::Bool(_) => out.push_str(&json.to_string()),
        }
    }

    fn without(&self, text: &str) -> String {
        // After `private_key=`, only the first word of a key is its value.
        let keyless = private::without_keys(text);
        private::without_private(&self.without_sought(text::without_values(&keyless)))
    }

    fn without_sought(&self, mut text: String) -> String {
        for secret in &self.sought {
            if !text.contains(secret.as_str()) {
                continue;
            }
            let anywhere = secret.len() >= MIN_INSIDE_BYTES;
            text = if anywhere {
                text.replace(secret.as_str(), BLANK)
            } else {
                without_word(&text, secret)
            };
        }
        text
    }
}

/// Returns whether a value without quotes may be part of the sentence or of a program, because it's
/// a short word.
fn may_be_word(value: &str) -> bool {
    value.len() < MIN_INSIDE_BYTES && value.chars().all(char::is_alphabetic)
}

/// Returns whether a value is searched for elsewhere.
fn is_sought(value: &str) -> bool {
    let common = text::COMMON
        .iter()
        .any(|common| common.eq_ignore_ascii_case(value));
    value.len() >= MIN_SOUGHT_BYTES && !common && !BLANK.contains(value)
}

/// Returns the forms to search for: the value itself, its JSON-escaped and JSON-decoded forms, and
/// the part after a scheme.
fn spellings(value: &str) -> Vec<String> {
    let mut all = vec![value.to_owned()];
    all.extend(text::after_scheme(value).map(str::to_owned));
    if let Some(Json::String(read)) = Json::parse(&format!("\"{value}\"")) {
        all.push(read.into_owned());
    }
    let inside_quotes = |value: &String| {
        let quoted = quote(value);
        quoted
            .get(1..quoted.len() - 1)
            .unwrap_or_default()
            .to_owned()
    };
    let escaped: Vec<String> = all.iter().map(inside_quotes).collect();
    all.extend(escaped);
    all
}

/// Blanks `word` in the text where no letter or digit is next to it.
fn without_word(text: &str, word: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut done = 0;
    for (at, _) in text.match_indices(word) {
        let (before, after) = (
            text.get(..at).unwrap_or_default(),
            text.get(at + word.len()..).unwrap_or_default(),
        );
        let inside = before
            .chars()
            .next_back()
            .is_some_and(char::is_alphanumeric)
            || after.chars().next().is_some_and(char::is_alphanumeric);
        if !inside {
            out.push_str(text.get(done..at).unwrap_or_default());
            out.push_str(BLANK);
            done = at + word.len();
        }
    }
    out.push_str(text.get(done..).unwrap_or_default());
    out
}

/// Returns whether a value can be a secret. Booleans are switches, and some numbers are counts.
fn may_hold(held: Held, value: &Json<'_>) -> bool {
    match value {
        Json::Bool(_) => false,
        Json::Number(_) => held == Held::All,
        value => held != Held::Open && !value.is_empty(),
    }
}

/// Parses JSON written into a text, such as the arguments of a call.
fn json_inside(text: &str) -> Option<Json<'_>> {
    let start = text.trim_start().as_bytes().first();
    let json = matches!(start, Some(b'{' | b'[')).then(|| Json::parse(text))??;
    matches!(json, Json::Array(_) | Json::Object(_)).then_some(json)
}

fn quote(text: &str) -> String {
    Json::String(text.into()).to_string()
}
