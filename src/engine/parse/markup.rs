//! Finds tags in text that is nearly XML, and parses the values between them.
//!
//! Handles tags, attributes and values, but not decisions. Moves only forward. A tag or value
//! without an end is an error, so no part is searched twice.

use std::collections::BTreeMap;

use super::diagnostics::{Fault, snippet};
use super::literal::{consumed, is_word};

/// Maximum length of a reference, from `&` to `;`.
const MAX_REFERENCE: usize = 12;

/// A position in a text.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cursor<'t> {
    pub(super) rest: &'t str,
}

/// An opening tag.
#[derive(Debug)]
pub(super) struct Tag<'t> {
    pub(super) name: &'t str,
    pub(super) attributes: BTreeMap<&'t str, String>,
    /// Whether the tag is self-closing.
    pub(super) empty: bool,
}

/// The next part of an element.
#[derive(Debug)]
pub(super) enum Next<'t> {
    Open(Tag<'t>),
    Close(&'t str),
    Comment,
    End,
}

impl<'t> Cursor<'t> {
    /// Returns the position of the first opening tag `name`.
    pub(super) fn find(text: &'t str, name: &str) -> Option<Self> {
        let mut rest = text;
        loop {
            rest = rest.get(rest.find('<')?..)?;
            let after = rest.strip_prefix('<')?;
            if split_name(after).0.eq_ignore_ascii_case(name) {
                return Some(Self { rest });
            }
            rest = after;
        }
    }

    /// Parses the opening tag at the cursor.
    pub(super) fn open(&mut self) -> Result<Tag<'t>, Fault> {
        let (name, after) = split_name(self.rest.strip_prefix('<').unwrap_or_default());
        self.rest = after;
        let mut attributes = BTreeMap::new();
        loop {
            self.rest = self.rest.trim_start();
            for (end, empty) in [(">", false), ("/>", true)] {
                if let Some(after) = self.rest.strip_prefix(end) {
                    self.rest = after;
                    return Ok(Tag {
                        name,
                        attributes,
                        empty,
                    });
                }
            }
            let (key, after) = split_name(self.rest);
            let quoted = after.trim_start().strip_prefix('=').map(str::trim_start);
            let quote = quoted
                .and_then(|quoted| quoted.chars().next())
                .filter(|quote| matches!(quote, '"' | '\''));
            let (false, Some(quote), Some(quoted)) = (key.is_empty(), quote, quoted) else {
                let what = format!(
                    "the tag {} contains something other than key=\"value\"",
                    snippet(name)
                );
                return Err(self.fault(what, after.trim().is_empty()));
            };
            let Some((value, after)) = quoted
                .strip_prefix(quote)
                .and_then(|value| value.split_once(quote))
            else {
                return Err(self.fault(
                    format!("the attribute {} is not closed", snippet(key)),
                    true,
                ));
            };
            let mut text = String::new();
            unescape(value, &mut text);
            if attributes.insert(key, text).is_some() {
                return Err(
                    self.fault(format!("the attribute {} is repeated", snippet(key)), false)
                );
            }
            self.rest = after;
        }
    }

    /// Returns the text up to the next tag or comment, and that tag or comment.
    pub(super) fn next(&mut self) -> Result<(&'t str, Next<'t>), Fault> {
        let start = self.rest;
        loop {
            let Some((_, tag)) = self
                .rest
                .find('<')
                .and_then(|at| self.rest.split_at_checked(at))
            else {
                self.rest = "";
                return Ok((start, Next::End));
            };
            self.rest = tag;
            let beside = consumed(start, tag);
            if let Some(comment) = tag.strip_prefix("<!--") {
                let Some((_, after)) = comment.split_once("-->") else {
                    return Err(self.fault("a comment is not closed", true));
                };
                self.rest = after;
                return Ok((beside, Next::Comment));
            }
            if let Some((name, after)) = closing(tag) {
                self.rest = after;
                return Ok((beside, Next::Close(name)));
            }
            let after = tag.strip_prefix('<').unwrap_or_default();
            if !split_name(after).0.is_empty() {
                return Ok((beside, Next::Open(self.open()?)));
            }
            self.rest = after;
        }
    }

    /// Returns the text up to the closing tag `name`, with references and CDATA sections resolved.
    pub(super) fn value(&mut self, name: &str) -> Result<String, Fault> {
        let start = *self;
        let mut text = String::new();
        loop {
            let Some((plain, tag)) = self
                .rest
                .find('<')
                .and_then(|at| self.rest.split_at_checked(at))
            else {
                return Err(
                    start.fault(format!("the element {} is not closed", snippet(name)), true)
                );
            };
            unescape(plain, &mut text);
            if let Some(section) = tag.strip_prefix("<![CDATA[") {
                let Some((inside, after)) = section.split_once("]]>") else {
                    return Err(start.fault("a CDATA section is not closed", true));
                };
                text.push_str(inside);
                self.rest = after;
                continue;
            }
            if let Some((_, after)) =
                closing(tag).filter(|(closed, _)| closed.eq_ignore_ascii_case(name))
            {
                self.rest = after;
                return Ok(text);
            }
            text.push('<');
            self.rest = tag.strip_prefix('<').unwrap_or_default();
        }
    }

    fn fault(self, what: impl Into<String>, cut: bool) -> Fault {
        Fault {
            left: self.rest.len(),
            what: what.into(),
            cut,
        }
    }
}

/// Splits off the name of a tag or attribute from the start. The name may be empty.
fn split_name(text: &str) -> (&str, &str) {
    if !text.starts_with(|letter: char| letter.is_alphabetic() || letter == '_') {
        return ("", text);
    }
    let end = text.find(|letter| !(is_word(letter) || matches!(letter, '-' | '.' | ':')));
    text.split_at_checked(end.unwrap_or(text.len()))
        .unwrap_or_default()
}

/// Splits off a closing tag from the start. Returns its name and the rest.
fn closing(text: &str) -> Option<(&str, &str)> {
    let (name, after) = split_name(text.strip_prefix("</")?);
    let after = after.trim_start().strip_prefix('>')?;
    Some((name, after)).filter(|_| !name.is_empty())
}

/// Appends `plain` with its references resolved. An `&` that doesn't start a reference is kept.
fn unescape(plain: &str, text: &mut String) {
    let mut pieces = plain.split('&');
    text.push_str(pieces.next().unwrap_or_default());
    for piece in pieces {
        let end = piece
            .bytes()
            .take(MAX_REFERENCE)
            .position(|byte| byte == b';');
        let letter = end.and_then(|end| reference(piece.get(..end)?).zip(piece.get(end + 1..)));
        match letter {
            Some((letter, after)) => {
                text.push(letter);
                text.push_str(after);
            }
            None => {
                text.push('&');
                text.push_str(piece);
            }
        }
    }
}

fn reference(name: &str) -> Option<char> {
    Some(match name {
        "amp" => '&',
        "lt" => '<',
        "gt" => '>',
        "quot" => '"',
        "apos" => '\'',
        _ => {
            let number = name.strip_prefix('#')?;
            let code = match number.strip_prefix(['x', 'X']) {
                Some(digits) => u32::from_str_radix(digits, 16),
                None => number.parse(),
            };
            char::from_u32(code.ok()?)?
        }
    })
}

/// Removes layout from a value: if it starts with a line break, that line break and the last one
/// are removed.
pub(super) fn block(text: String) -> String {
    let layout = [' ', '\t', '\r'];
    let Some(lines) = text.trim_start_matches(layout).strip_prefix('\n') else {
        return text;
    };
    let inner = lines
        .trim_end_matches(layout)
        .strip_suffix('\n')
        .unwrap_or(lines);
    inner.strip_suffix('\r').unwrap_or(inner).to_owned()
}
