//! Filters terminal output: only text and board's own colors pass, no other control sequences.
//!
//! Commands write text from traces in many places, as lines and as JSON. All of it passes through
//! here, so none of it has to be trusted. Output to a file or a program isn't changed.

use std::io::{self, IsTerminal, Write};

use crate::analysis::format::json_visible;

/// Sequences that set or reset a color or weight. `Look`, the log and the help write only these.
const STYLES: [&str; 13] = [
    "\x1b[0m", "\x1b[1m", "\x1b[2m", "\x1b[3m", "\x1b[4m", "\x1b[31m", "\x1b[32m", "\x1b[33m",
    "\x1b[34m", "\x1b[35m", "\x1b[36m", "\x1b[90m", "\x1b[m",
];

/// A writer that shows control characters as escapes: `\u001b`, `\u202e`. In JSON, these escapes
/// represent the same text.
#[derive(Debug)]
pub struct TerminalFilter<W> {
    out: W,
    closed: bool,
    /// The first bytes of an incomplete character.
    begun: Vec<u8>,
}

impl<W: Write> TerminalFilter<W> {
    /// Wraps `out`. Filters only if `leads_to` is a terminal.
    pub fn new(out: W, leads_to: &impl IsTerminal) -> Self {
        Self {
            out,
            closed: leads_to.is_terminal(),
            begun: Vec::new(),
        }
    }

    fn pass(&mut self, text: &str) -> io::Result<()> {
        let mut rest = text;
        while let Some(at) = rest.find('\x1b') {
            let (before, from) = rest.split_at(at);
            self.out.write_all(json_visible(before).as_bytes())?;
            let style = STYLES
                .iter()
                .find(|style| from.starts_with(**style))
                .copied();
            self.out.write_all(style.unwrap_or("\\u001b").as_bytes())?;
            rest = from.get(style.map_or(1, str::len)..).unwrap_or_default();
        }
        self.out.write_all(json_visible(rest).as_bytes())
    }
}

impl<W: Write> Write for TerminalFilter<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if !self.closed {
            return self.out.write(bytes);
        }
        let mut all = std::mem::take(&mut self.begun);
        all.extend_from_slice(bytes);
        for chunk in all.utf8_chunks() {
            self.pass(chunk.valid())?;
            let at_end = chunk.invalid().as_ptr_range().end == all.as_ptr_range().end;
            let may_go_on = at_end
                && std::str::from_utf8(chunk.invalid()).is_err_and(|bad| bad.error_len().is_none());
            if may_go_on {
                self.begun = chunk.invalid().to_vec();
            } else if !chunk.invalid().is_empty() {
                self.out.write_all("\u{fffd}".as_bytes())?;
            }
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(pieces: &[&[u8]]) -> String {
        let mut filter = TerminalFilter {
            out: Vec::new(),
            closed: true,
            begun: Vec::new(),
        };
        pieces
            .iter()
            .for_each(|piece| filter.write_all(piece).unwrap());
        String::from_utf8(filter.out).unwrap()
    }

    #[test]
    fn what_a_terminal_obeys_is_shown() {
        for (given, seen) in [
            (
                "plain äöü \u{1f469}\u{200d}\u{1f680}\n\tmore",
                "plain äöü \u{1f469}\u{200d}\u{1f680}\n\tmore",
            ),
            ("\x1b]52;c;aGk=\x07", "\\u001b]52;c;aGk=\\u0007"),
            (
                "a\u{9b}31mb\u{7f}c\rd\x08",
                "a\\u009b31mb\\u007fc\\u000dd\\u0008",
            ),
            (
                "\u{202e}txt.exe \u{2066}x\u{2069}",
                "\\u202etxt.exe \\u2066x\\u2069",
            ),
            ("\u{e0041}", "\\udb40\\udc41"),
            (
                "\x1b[1mheading\x1b[0m \x1b[8mhidden\x1b[2J",
                "\x1b[1mheading\x1b[0m \\u001b[8mhidden\\u001b[2J",
            ),
        ] {
            assert_eq!(shown(&[given.as_bytes()]), seen);
        }
        assert_eq!(
            shown(&[b"\xff\xc3", b"\xa4\xe2\x80", b"\xae"]),
            "\u{fffd}ä\\u202e",
            "in pieces"
        );
    }

    #[test]
    fn a_document_says_the_same_behind_it() {
        let texts = [
            "\u{7f}\u{80}\u{9b}",
            "\u{202e}",
            "\u{e0041}\u{feff}",
            "\u{1b}[2J",
            "plain",
        ];
        let document = serde_json::to_string(&texts).unwrap();
        let seen = shown(&[document.as_bytes()]);
        assert!(seen.is_ascii(), "{seen}");
        assert_eq!(serde_json::from_str::<Vec<String>>(&seen).unwrap(), texts);
    }

    #[test]
    fn what_goes_to_a_program_stays() {
        let bytes = b"\xff\x1b[2J\xe2\x80\xae";
        let mut filter =
            TerminalFilter::new(Vec::new(), &std::fs::File::open("/dev/null").unwrap());
        filter.write_all(bytes).unwrap();
        assert_eq!(filter.out, bytes);
    }
}
