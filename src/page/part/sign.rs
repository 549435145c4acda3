//! Provides small values that all pages share: links, signs, facts, and sentences that may contain
//! code.

use std::fmt;

use askama::Template;
use askama::filters::HtmlSafe;

use crate::model::CriticAction;
use crate::page::part::text::Line;

/// A label with an address.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Link {
    pub label: Line,
    pub href: String,
}

impl Link {
    pub(crate) fn new(label: impl Into<Line>, href: impl Into<String>) -> Self {
        Self {
            label: label.into(),
            href: href.into(),
        }
    }
}

/// A small sign with or without a word: a status, a mark in a row, or an action of a critic.
#[derive(Debug, Clone, Default, PartialEq, Eq, Template)]
#[template(path = "part/sign.html")]
pub(crate) struct Sign {
    /// The class that sets the color: `st limit`, `mk err`, `mk retry`, ...
    pub class: &'static str,
    /// The name of the symbol in the sprite, without `i-`. Empty for no icon.
    pub icon: &'static str,
    /// The word or glyph. Empty if there is only an icon.
    pub text: Line,
    /// The meaning for screen readers. Required if the text is a glyph or empty.
    pub meaning: Line,
}

impl HtmlSafe for Sign {}

impl Sign {
    /// Creates an icon without a word. `meaning` explains it.
    pub(crate) fn icon(class: &'static str, icon: &'static str, meaning: impl Into<Line>) -> Self {
        Self {
            class,
            icon,
            text: Line::default(),
            meaning: meaning.into(),
        }
    }

    /// Creates an icon with a word.
    pub(crate) fn word(class: &'static str, icon: &'static str, text: impl Into<Line>) -> Self {
        Self {
            class,
            icon,
            text: text.into(),
            meaning: Line::default(),
        }
    }

    /// Creates the sign of a critic's action.
    pub(crate) fn action(action: CriticAction) -> Self {
        match action {
            CriticAction::Continue => Self::plain("mk", "continue"),
            CriticAction::Retry => Self::word("mk retry", "retry", "retry"),
            CriticAction::Stop => Self::word("mk stop", "critic", "stop"),
            CriticAction::Failed => Self::word("mk err", "error", "failed"),
            CriticAction::Other => Self::plain("mk", "other action"),
        }
    }

    /// Creates a word without an icon.
    pub(crate) fn plain(class: &'static str, text: impl Into<Line>) -> Self {
        Self::word(class, "", text)
    }
}

/// One entry of a list of facts: a term and its description.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Fact {
    pub term: Line,
    pub description: Phrase,
}

impl Fact {
    pub(crate) fn new(term: impl Into<Line>, description: impl Into<Phrase>) -> Self {
        Self {
            term: term.into(),
            description: description.into(),
        }
    }
}

/// A sentence as HTML, with all words escaped. Words may be code, strong, dim or links.
#[must_use]
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Phrase(String);

impl HtmlSafe for Phrase {}

impl fmt::Display for Phrase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Phrase {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds plain text.
    pub(crate) fn text(mut self, text: impl Into<Line>) -> Self {
        escape(text.into().as_str(), &mut self.0);
        self
    }

    /// Adds a name from the trace, as code.
    pub(crate) fn code(self, text: impl Into<Line>) -> Self {
        self.element("code", &[], text)
    }

    /// Returns a line whose text between backticks is code.
    pub(crate) fn coded(line: &str) -> Self {
        Self::new().with_code(line)
    }

    /// Adds such a line.
    pub(crate) fn with_code(self, line: &str) -> Self {
        let mut words = self;
        let mut rest = line;
        while let Some((before, code, after)) = rest.split_once('`').and_then(|(before, from)| {
            let (code, after) = from.split_once('`')?;
            (!code.trim().is_empty()).then_some((before, code, after))
        }) {
            words = words.text(before).code(code);
            rest = after;
        }
        words.text(rest)
    }

    pub(crate) fn strong(self, text: impl Into<Line>) -> Self {
        self.element("strong", &[], text)
    }

    pub(crate) fn dim(self, text: impl Into<Line>) -> Self {
        self.element("span", &[("class", "dim")], text)
    }

    /// Adds text with a class of the style sheet.
    pub(crate) fn classed(self, class: &'static str, text: impl Into<Line>) -> Self {
        self.element("span", &[("class", class)], text)
    }

    pub(crate) fn link(self, label: impl Into<Line>, href: impl AsRef<str>) -> Self {
        self.element("a", &[("href", href.as_ref())], label)
    }

    /// Adds a time and its machine-readable form.
    pub(crate) fn time(self, text: impl Into<Line>, datetime: impl AsRef<str>) -> Self {
        self.element("time", &[("datetime", datetime.as_ref())], text)
    }

    /// Adds an age that keeps counting while the page is live: `4 s ago`.
    pub(crate) fn age(self, text: impl Into<Line>, since: impl AsRef<str>) -> Self {
        self.element(
            "time",
            &[("datetime", since.as_ref()), ("data-age", "")],
            text,
        )
    }

    /// Adds a duration that keeps counting while the page is live: `38.2 s`.
    pub(crate) fn since(self, text: impl Into<Line>, since: impl AsRef<str>) -> Self {
        self.element("time", &[("data-since", since.as_ref())], text)
    }

    /// Adds words with a tooltip.
    pub(crate) fn tip(self, text: impl Into<Line>, tip: &str) -> Self {
        let tip = Line::from(tip.to_owned());
        self.element("span", &[("title", tip.as_str())], text)
    }

    /// Adds a name that a narrow line may truncate, with the whole of what it shortens.
    pub(crate) fn path(self, text: impl Into<Line>, whole: &str) -> Self {
        let whole = Line::from(whole.to_owned());
        self.element(
            "span",
            &[("class", "path"), ("title", whole.as_str())],
            text,
        )
    }

    /// Adds a button that copies a text exactly.
    pub(crate) fn copy(self, whole: &str, meaning: &str) -> Self {
        let attributes = [
            ("class", "btn quiet js"),
            ("type", "button"),
            ("data-copy", whole),
            ("title", meaning),
            ("aria-label", meaning),
        ];
        self.element("button", &attributes, "Copy")
    }

    pub(crate) fn sign(mut self, sign: &Sign) -> Self {
        // Writing to a string cannot fail.
        let _ = sign.render_into(&mut self.0);
        self
    }

    fn element(mut self, name: &str, attributes: &[(&str, &str)], text: impl Into<Line>) -> Self {
        self.0.extend(["<", name]);
        for (name, value) in attributes {
            self.0.extend([" ", name]);
            if !value.is_empty() {
                self.0.push_str("=\"");
                escape(value, &mut self.0);
                self.0.push('"');
            }
        }
        self.0.push('>');
        let mut phrase = self.text(text);
        phrase.0.extend(["</", name, ">"]);
        phrase
    }
}

/// Escapes text as the templates do.
pub(crate) fn escape(text: &str, out: &mut String) {
    for letter in text.chars() {
        match letter {
            '"' => out.push_str("&#34;"),
            '&' => out.push_str("&#38;"),
            '\'' => out.push_str("&#39;"),
            '<' => out.push_str("&#60;"),
            '>' => out.push_str("&#62;"),
            letter => out.push(letter),
        }
    }
}

impl From<&str> for Phrase {
    fn from(text: &str) -> Self {
        Self::new().text(text)
    }
}

impl From<String> for Phrase {
    fn from(text: String) -> Self {
        Self::new().text(text)
    }
}

#[cfg(test)]
mod tests {
    use crate::page::part::sign::*;

    #[test]
    fn every_piece_is_escaped_and_visible() {
        let evil = "<script>\"'&\u{202e}\u{0}";
        let phrase = Phrase::new()
            .text(evil)
            .code(evil)
            .strong(evil)
            .dim(evil)
            .link(evil, "/x")
            .time(evil, "PT1S")
            .sign(&Sign::word("mk", "ok", evil))
            .sign(&Sign::icon("mk", "ok", evil));
        let html = phrase.to_string();
        assert!(!html.contains("<script"), "{html}");
        assert_eq!(
            html.matches("&#60;script&#62;&#34;&#39;&#38;⟨U+202E⟩␀")
                .count(),
            9,
            "{html}"
        );
        assert!(
            html.contains("role=\"img\" aria-label=\"&#60;script"),
            "{html}"
        );
    }

    #[test]
    fn a_glyph_has_hidden_words() {
        let mark = Sign {
            class: "mk err",
            icon: "",
            text: "≠0".into(),
            meaning: "the command failed".into(),
        };
        let html = mark.render().unwrap();
        assert!(
            html.contains("≠0<span class=\"vh\">, the command failed</span>"),
            "{html}"
        );
    }
}
