//! How does text written by strangers become readable without hiding anything? Knows strings and numbers only.
//!
//! Markup is escaped by the templates; this is about characters that are invisible or that reorder their neighbours.

use std::borrow::Cow;
use std::fmt::{self, Write as _};

/// Makes control, direction and zero-width characters visible; line ends and tabs stay.
pub fn visible(text: &str) -> Cow<'_, str> {
    rewrite(text, |c| c != '\n' && c != '\t' && hidden(c))
}

/// Like [`visible`], for places that are one line high: line ends and tabs become symbols too.
pub fn visible_line(text: &str) -> Cow<'_, str> {
    rewrite(text, hidden)
}

/// The first `max` characters as one visible line, and whether that is all. A cut ends with an ellipsis.
pub fn one_line(text: &str, max: usize) -> (String, bool) {
    match text.char_indices().nth(max) {
        Some((cut, _)) => {
            let mut line = visible_line(text.get(..cut).unwrap_or(text)).into_owned();
            line.push('…');
            (line, false)
        }
        None => (visible_line(text).into_owned(), true),
    }
}

/// One line of text in which nothing is hidden. Pages hold this type wherever a trace may have written the words,
/// so that no place can forget [`visible_line`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Line(String);

impl Line {
    /// Whether there is nothing in it.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The visible text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<&str> for Line {
    fn from(text: &str) -> Self {
        Self(visible_line(text).into_owned())
    }
}

impl From<String> for Line {
    fn from(text: String) -> Self {
        match visible_line(&text) {
            Cow::Owned(visible) => Self(visible),
            Cow::Borrowed(_) => Self(text),
        }
    }
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

fn rewrite(text: &str, show: impl Fn(char) -> bool) -> Cow<'_, str> {
    let Some(first) = text.find(&show) else { return Cow::Borrowed(text) };
    let (clean, rest) = text.split_at(first);
    let mut out = String::with_capacity(text.len() + 16);
    out.push_str(clean);
    for c in rest.chars() {
        if show(c) { push_symbol(&mut out, c) } else { out.push(c) }
    }
    Cow::Owned(out)
}

/// Whether a character cannot be seen, or changes how others are seen.
fn hidden(c: char) -> bool {
    // Joiners (U+200C, U+200D) stay: scripts and emoji need them.
    c.is_control()
        || matches!(c,
            '\u{00ad}' | '\u{061c}' | '\u{180e}' | '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

fn push_symbol(out: &mut String, c: char) {
    let code = u32::from(c);
    match code {
        // The Unicode block "Control Pictures" mirrors the C0 controls.
        0..=0x1f => out.push(char::from_u32(0x2400 + code).unwrap_or('␦')),
        0x7f => out.push('␡'),
        // Writing to a String cannot fail.
        _ => _ = write!(out, "⟨U+{code:04X}⟩"),
    }
}

/// A number of bytes: `248 bytes`, `4.1 KB`, `1.2 MB`. One KB is 1,024 bytes.
pub fn size(bytes: usize) -> String {
    const KB: f64 = 1024.0;
    let amount = bytes as f64;
    match bytes {
        1 => "1 byte".to_owned(),
        0..1024 => format!("{bytes} bytes"),
        // Rounding must not print "1024.0 KB".
        1024..1_048_525 => format!("{:.1} KB", amount / KB),
        1_048_525..1_073_689_396 => format!("{:.1} MB", amount / KB / KB),
        _ => format!("{:.1} GB", amount / KB / KB / KB),
    }
}

/// A count with thousands separators: `9,686`.
pub fn count(n: usize) -> String {
    let digits = n.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// A count and its noun: `1 item`, `3 items`.
pub fn counted(n: usize, noun: &str) -> String {
    format!("{} {noun}{}", count(n), if n == 1 { "" } else { "s" })
}

/// A latency given in milliseconds: `26.0 ms`, `412 ms`, `3.4 s`, `5 min 09 s`, `2 h 07 min`.
pub fn millis(ms: f64) -> String {
    // Bounds are where rounding would reach the next unit.
    if !ms.is_finite() || ms < 0.0 {
        return format!("{ms} ms");
    }
    let seconds = ms / 1000.0;
    if ms < 99.95 {
        format!("{ms:.1} ms")
    } else if ms < 999.5 {
        format!("{ms:.0} ms")
    } else if seconds < 99.95 {
        format!("{seconds:.1} s")
    } else if seconds < 3599.5 {
        let whole = seconds.round();
        format!("{:.0} min {:02.0} s", (whole / 60.0).floor(), whole % 60.0)
    } else {
        let minutes = (seconds / 60.0).round();
        format!("{:.0} h {:02.0} min", (minutes / 60.0).floor(), minutes % 60.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_hidden_stays_hidden() {
        assert_eq!(visible("a\u{0}b\u{1b}[31m\u{7f}"), "a␀b␛[31m␡");
        assert_eq!(visible("abc\u{202e}fed\u{2066}"), "abc⟨U+202E⟩fed⟨U+2066⟩");
        assert_eq!(visible("a\u{85}\u{e0041}"), "a⟨U+0085⟩⟨U+E0041⟩");
        assert_eq!(visible("keeps\n\ttabs"), "keeps\n\ttabs");
        assert_eq!(visible_line("a\r\n\tb"), "a␍␊␉b");
        assert!(matches!(visible("plain, 日本, 👩‍💻"), Cow::Borrowed(_)));
    }

    #[test]
    fn a_cut_line_says_so() {
        assert_eq!(one_line("añb", 3), ("añb".to_owned(), true));
        assert_eq!(one_line("añbc", 3), ("añb…".to_owned(), false));
    }

    #[test]
    fn measures_read_as_designed() {
        assert_eq!((size(248), size(4155), size(1_258_291)), ("248 bytes".into(), "4.1 KB".into(), "1.2 MB".into()));
        assert_eq!(size(1_048_570), "1.0 MB");
        assert_eq!((count(999), count(12806)), ("999".into(), "12,806".into()));
        assert_eq!((millis(26.0), millis(412.2), millis(3400.0)), ("26.0 ms".into(), "412 ms".into(), "3.4 s".into()));
        assert_eq!((millis(309_000.0), millis(7_620_000.0)), ("5 min 09 s".into(), "2 h 07 min".into()));
    }
}
