//! Shows the output of a terminal program. Colors stay colors, and other control sequences are
//! removed and counted.
//!
//! Text is never hidden: background colors, inverse and concealed text become plain text. Each
//! folded text links to the raw text, which has all controls.

use anstyle_parse::{DefaultCharAccumulator, Params, Parser, Perform};

/// A span of text in one style.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Span {
    /// The classes in the style sheet. Empty for plain text.
    pub class: String,
    pub text: String,
}

/// A text without its control sequences.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Plain {
    /// The visible text.
    pub text: String,
    /// The offset at which each style begins.
    styles: Vec<(usize, Style)>,
    /// The number of removed control sequences that don't set a style.
    pub left_out: usize,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Style {
    bold: bool,
    dim: bool,
    italic: bool,
    underline: bool,
    /// The index of a color in `COLOURS`.
    colour: Option<u8>,
}

const COLOURS: [&str; 8] = [
    "black", "red", "green", "yellow", "blue", "magenta", "cyan", "white",
];

impl Style {
    fn class(self) -> String {
        let words = [
            (self.bold, "t-bold"),
            (self.dim, "t-dim"),
            (self.italic, "t-italic"),
            (self.underline, "t-underline"),
        ];
        let mut classes: Vec<String> = words
            .iter()
            .filter(|(is_set, _)| *is_set)
            .map(|(_, word)| (*word).to_owned())
            .collect();
        let colour = self
            .colour
            .and_then(|colour| COLOURS.get(usize::from(colour)));
        classes.extend(colour.map(|colour| format!("t-{colour}")));
        classes.join(" ")
    }
}

impl Plain {
    /// Reads a text with escape characters. Returns `None` if it has none.
    pub(crate) fn of(text: &str) -> Option<Self> {
        memchr::memchr(0x1b, text.as_bytes())?;
        let mut out = Self::default();
        let mut parser = Parser::<DefaultCharAccumulator>::new();
        for byte in text.bytes() {
            parser.advance(&mut out, byte);
        }
        Some(out)
    }

    /// Returns the first `len` bytes as styled spans.
    pub(crate) fn spans(&self, len: usize) -> Vec<Span> {
        let starts = std::iter::once((0, Style::default())).chain(self.styles.iter().copied());
        let ends = self
            .styles
            .iter()
            .map(|(at, _)| *at)
            .chain([self.text.len()]);
        let spans = starts.zip(ends).filter_map(|((from, style), to)| {
            let text = self
                .text
                .get(from..to.min(len))
                .filter(|text| !text.is_empty())?;
            Some(Span {
                class: style.class(),
                text: text.to_owned(),
            })
        });
        spans.collect()
    }

    /// Applies the numbers of a color sequence (SGR). The numbers for 256 colors and true color
    /// take further numbers as arguments.
    fn restyle(&mut self, numbers: &[u16]) {
        let mut style = self
            .styles
            .last()
            .map_or_else(Style::default, |(_, style)| *style);
        let mut numbers = numbers.iter().copied();
        while let Some(number) = numbers.next() {
            match number {
                0 => style = Style::default(),
                1 => style.bold = true,
                2 => style.dim = true,
                3 => style.italic = true,
                4 => style.underline = true,
                22 => (style.bold, style.dim) = (false, false),
                23 => style.italic = false,
                24 => style.underline = false,
                30..=37 => style.colour = u8::try_from(number - 30).ok(),
                90..=97 => style.colour = u8::try_from(number - 90).ok(),
                39 => style.colour = None,
                38 | 48 => {
                    let own = match numbers.next() {
                        Some(5) => numbers
                            .next()
                            .filter(|index| *index < 16)
                            .map(|index| (index % 8) as u8),
                        Some(2) => {
                            numbers.by_ref().take(3).for_each(drop);
                            None
                        }
                        _ => None,
                    };
                    if number == 38 {
                        style.colour = own;
                    }
                }
                _ => {}
            }
        }
        self.styles.push((self.text.len(), style));
    }
}

impl Perform for Plain {
    fn print(&mut self, c: char) {
        self.text.push(c);
    }

    // Controls that are no escape sequence are shown as in any other text.
    fn execute(&mut self, byte: u8) {
        self.text.push(char::from(byte));
    }

    fn hook(&mut self, _: &Params, _: &[u8], _: bool, _: u8) {
        self.left_out += 1;
    }

    fn osc_dispatch(&mut self, _: &[&[u8]], _: bool) {
        self.left_out += 1;
    }

    fn csi_dispatch(&mut self, params: &Params, intermediates: &[u8], ignore: bool, action: u8) {
        if action == b'm' && intermediates.is_empty() && !ignore {
            let numbers: Vec<u16> = params.iter().flatten().copied().collect();
            self.restyle(if numbers.is_empty() { &[0] } else { &numbers });
        } else {
            self.left_out += 1;
        }
    }

    fn esc_dispatch(&mut self, _: &[u8], _: bool, _: u8) {
        self.left_out += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn spans(text: &str) -> Vec<(String, String)> {
        let plain = Plain::of(text).unwrap();
        plain
            .spans(plain.text.len())
            .into_iter()
            .map(|span| (span.class, span.text))
            .collect()
    }

    #[test]
    fn colours_are_classes() {
        let text = "a \u{1b}[1;31mred\u{1b}[0m b \u{1b}[92mok\u{1b}[39m \u{1b}[38;5;4mblue\u{1b}[m \u{1b}[38;2;1;2;3mown\u{1b}[48;5;200mback";
        let expected = [
            ("", "a "),
            ("t-bold t-red", "red"),
            ("", " b "),
            ("t-green", "ok"),
            ("", " "),
            ("t-blue", "blue"),
            ("", " "),
            ("", "own"),
            ("", "back"),
        ];
        assert_eq!(
            spans(text),
            expected.map(|(class, text)| (class.to_owned(), text.to_owned()))
        );
    }

    #[test]
    fn other_controls_are_counted_and_text_is_never_hidden() {
        let plain = Plain::of(
            "\u{1b}[2J\u{1b}]8;;https://x.example\u{7}link\u{1b}]8;;\u{7}\u{1b}[8mconcealed\u{1b}[7minverse\r\n",
        )
        .unwrap();
        assert_eq!(
            (plain.text.as_str(), plain.left_out),
            ("linkconcealedinverse\r\n", 3)
        );
        assert!(Plain::of("no escape").is_none());
        assert_eq!(
            plain
                .spans(4)
                .iter()
                .map(|span| span.text.as_str())
                .collect::<String>(),
            "link"
        );
    }

    proptest! {
        #[test]
        fn text_outside_of_sequences_stays(parts in prop::collection::vec(("[a-zé \n]{0,8}", "[0-9;]{0,6}"), 0..8)) {
            let text: String = parts.iter().map(|(words, numbers)| format!("{words}\u{1b}[{numbers}m")).collect();
            let words: String = parts.iter().map(|(words, _)| words.as_str()).collect();
            if let Some(plain) = Plain::of(&text) {
                prop_assert_eq!(&plain.text, &words);
                let joined: String = plain.spans(words.len()).into_iter().map(|span| span.text).collect();
                prop_assert_eq!(joined, words);
            }
        }

        #[test]
        fn nothing_panics(text in any::<String>(), head in 0usize..40) {
            if let Some(plain) = Plain::of(&format!("\u{1b}[{text}")) {
                plain.spans(head);
            }
        }
    }
}
