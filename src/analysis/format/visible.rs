//! Makes hidden characters in trace texts visible.
//!
//! A trace may hold anything: escape sequences that would control a terminal, marks that change the
//! reading direction, characters without a glyph. These are replaced by visible characters with no
//! effect.

use std::borrow::Cow;
use std::fmt::Write;

/// Shows control characters as symbols (`␛`) and invisible format characters as `⟨U+202E⟩`. Keeps
/// tabs and line feeds. The line end of Windows becomes a line feed.
///
/// Keeps joiners and variation selectors that scripts and emoji need. The result is safe for a
/// terminal. In HTML it must still be escaped.
pub fn visible(text: &str) -> Cow<'_, str> {
    shown(text, false, true, push_symbol)
}

/// Converts like [`visible`], but to one line: tabs and line feeds become symbols too.
pub(crate) fn visible_line(text: &str) -> Cow<'_, str> {
    shown(text, true, true, push_symbol)
}

/// Converts like [`visible`], but writes hidden characters as JSON escapes (`\u202e`), so that a
/// document keeps its meaning.
pub(crate) fn json_visible(text: &str) -> Cow<'_, str> {
    shown(text, false, false, |out, c| {
        for unit in c.encode_utf16(&mut [0; 2]) {
            // Writing to a string can't fail.
            let _ = write!(out, "\\u{unit:04x}");
        }
    })
}

/// `joins_ends` is whether a carriage return before a line feed is left out.
fn shown(
    text: &str,
    one_line: bool,
    joins_ends: bool,
    push: impl Fn(&mut String, char),
) -> Cow<'_, str> {
    let mut before = None;
    let mut chars = text.char_indices().peekable();
    let mut out = String::new();
    let mut copied = 0;
    while let Some((at, c)) = chars.next() {
        let after = chars.peek().map(|(_, c)| *c);
        let kept = match c {
            '\t' | '\n' => !one_line,
            _ => !is_hidden(c, before, after),
        };
        before = Some(c);
        if !kept {
            out.push_str(text.get(copied..at).unwrap_or_default());
            if !(joins_ends && c == '\r' && after == Some('\n')) {
                push(&mut out, c);
            }
            copied = at + c.len_utf8();
        }
    }
    if copied == 0 {
        return Cow::Borrowed(text);
    }
    out.push_str(text.get(copied..).unwrap_or_default());
    Cow::Owned(out)
}

fn push_symbol(out: &mut String, c: char) {
    let code = u32::from(c);
    match code {
        // All fonts have these two symbols. Few have those of the block below.
        0x09 => out.push('⇥'),
        0x0a => out.push('↵'),
        // The block "Control Pictures" has the symbols in the same order.
        0..0x20 => out.extend(char::from_u32(0x2400 + code)),
        0x7f => out.push('\u{2421}'),
        // Writing to a string can't fail.
        _ => drop(write!(out, "⟨U+{code:04X}⟩")),
    }
}

/// Returns whether `c` is invisible or changes the order in which other characters are shown.
fn is_hidden(c: char, before: Option<char>, after: Option<char>) -> bool {
    if matches!(c, ' '..='~') {
        return false;
    }
    match c {
        // Zero-width joiners and non-joiners are part of Persian, Indic scripts and emoji.
        '\u{200c}' | '\u{200d}' => {
            !(before.is_some_and(is_written) && after.is_some_and(is_written))
        }
        // Variation selectors select the glyph of the character before. Digits, `#` and `*` begin
        // keycaps.
        '\u{fe00}'..='\u{fe0f}' => {
            !before.is_some_and(|c| c.is_ascii_digit() || matches!(c, '#' | '*') || is_written(c))
        }
        _ => c.is_control() || is_format(c),
    }
}

/// Returns whether `c` is a visible character outside ASCII, so that a joiner or selector next to
/// it has an effect.
fn is_written(c: char) -> bool {
    // Emoji may have a joiner after a selector, but not two selectors or two joiners in a row.
    let selector = matches!(c, '\u{fe0f}');
    !c.is_ascii() && !c.is_whitespace() && !c.is_control() && (selector || !is_invisible(c))
}

fn is_invisible(c: char) -> bool {
    matches!(c, '\u{200c}' | '\u{200d}' | '\u{fe00}'..='\u{fe0f}') || is_format(c)
}

/// Returns whether `c` is in Unicode's category Cf, a line separator, or a letter or selector
/// without a glyph.
fn is_format(c: char) -> bool {
    matches!(
        c,
        '\u{ad}'
            | '\u{34f}'
            | '\u{600}'..='\u{605}'
            | '\u{61c}'
            | '\u{6dd}'
            | '\u{70f}'
            | '\u{8e2}'
            | '\u{115f}'..='\u{1160}'
            | '\u{17b4}'..='\u{17b5}'
            | '\u{180b}'..='\u{180f}'
            | '\u{200b}'
            | '\u{200e}'..='\u{200f}'
            | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{3164}'
            | '\u{feff}'
            | '\u{ffa0}'
            | '\u{fff0}'..='\u{fffb}'
            | '\u{1bca0}'..='\u{1bca3}'
            | '\u{1d173}'..='\u{1d17a}'
            | '\u{e0000}'..='\u{e0fff}'
    )
}
