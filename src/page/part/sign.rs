//! Which small things do all pages share? Links, signs, facts and sentences with code in them, as ready values.

use askama::Template;
use askama::filters::HtmlSafe;

use crate::model::CriticAction;
use crate::page::part::text::Line;

/// Words that lead somewhere.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Link {
    /// The words.
    pub label: Line,
    /// The address.
    pub href: String,
}

impl Link {
    /// Makes a link.
    pub(crate) fn new(label: impl Into<Line>, href: impl Into<String>) -> Self {
        Self { label: label.into(), href: href.into() }
    }
}

/// A small sign with or without a word: a status, a mark in a row, an action of a critic.
#[derive(Debug, Clone, Default, PartialEq, Eq, Template)]
#[template(path = "part/sign.html")]
pub(crate) struct Sign {
    /// The class that colours it: `st limit`, `mk err`, `mk retry`, ...
    pub class: &'static str,
    /// The symbol in the sprite, without `i-`; empty for none.
    pub icon: &'static str,
    /// The word or glyph shown; empty where the icon stands alone.
    pub text: Line,
    /// What it means in words, for a reader that hears it; needed where the text is a glyph or empty.
    pub meaning: Line,
}

impl HtmlSafe for Sign {}

impl Sign {
    /// An icon that stands alone and says `meaning`.
    pub(crate) fn icon(class: &'static str, icon: &'static str, meaning: impl Into<Line>) -> Self {
        Self { class, icon, text: Line::default(), meaning: meaning.into() }
    }

    /// An icon and its word.
    pub(crate) fn word(class: &'static str, icon: &'static str, text: impl Into<Line>) -> Self {
        Self { class, icon, text: text.into(), meaning: Line::default() }
    }

    /// What a critic asked for.
    pub(crate) fn action(action: CriticAction) -> Self {
        match action {
            CriticAction::Continue => Self::plain("mk", "continue"),
            CriticAction::Retry => Self::word("mk retry", "retry", "retry"),
            CriticAction::Stop => Self::word("mk stop", "critic", "stop"),
            CriticAction::Failed => Self::word("mk err", "error", "failed"),
            CriticAction::Other => Self::plain("mk", "another word"),
        }
    }

    /// A word without an icon.
    pub(crate) fn plain(class: &'static str, text: impl Into<Line>) -> Self {
        Self::word(class, "", text)
    }
}

/// One entry of a list of facts: a term and what is said of it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Fact {
    /// The term.
    pub term: Line,
    /// What is said.
    pub says: Phrase,
}

impl Fact {
    /// Makes a fact.
    pub(crate) fn new(term: impl Into<Line>, says: impl Into<Phrase>) -> Self {
        Self { term: term.into(), says: says.into() }
    }
}

/// A sentence in which some words are code, stand out, step back or lead somewhere.
#[derive(Debug, Clone, Default, PartialEq, Eq, Template)]
#[template(path = "part/phrase.html")]
pub(crate) struct Phrase {
    /// The pieces in order; spaces between them are part of the text.
    pub words: Vec<Word>,
}

impl HtmlSafe for Phrase {}

/// One piece of a [`Phrase`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Word {
    /// Plain words.
    Text(Line),
    /// A name from the trace, set as code.
    Code(Line),
    /// Words that stand out.
    Strong(Line),
    /// Words that step back.
    Dim(Line),
    /// A place.
    Link(Link),
    /// A time with its machine form.
    Time {
        /// The words.
        text: Line,
        /// The value of `datetime`.
        datetime: String,
    },
    /// An age that goes on while the page is live: `4 s ago`.
    Age {
        /// The words.
        text: Line,
        /// Since when.
        datetime: String,
    },
    /// A duration that goes on while the page is live: `38 s`.
    Since {
        /// The words.
        text: Line,
        /// Since when.
        datetime: String,
    },
    /// A status or a mark.
    Sign(Sign),
}

impl Phrase {
    /// An empty sentence to add to.
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// Adds plain words; none where `text` is empty, so that an empty sentence stays empty.
    #[must_use]
    pub(crate) fn text(self, text: impl Into<Line>) -> Self {
        let text = text.into();
        if text.is_empty() { self } else { self.and(Word::Text(text)) }
    }

    /// Adds a name from the trace.
    #[must_use]
    pub(crate) fn code(self, text: impl Into<Line>) -> Self {
        self.and(Word::Code(text.into()))
    }

    /// Adds words that stand out.
    #[must_use]
    pub(crate) fn strong(self, text: impl Into<Line>) -> Self {
        self.and(Word::Strong(text.into()))
    }

    /// Adds words that step back.
    #[must_use]
    pub(crate) fn dim(self, text: impl Into<Line>) -> Self {
        self.and(Word::Dim(text.into()))
    }

    /// Adds a link.
    #[must_use]
    pub(crate) fn link(self, label: impl Into<Line>, href: impl Into<String>) -> Self {
        self.and(Word::Link(Link::new(label, href)))
    }

    /// Adds a time.
    #[must_use]
    pub(crate) fn time(self, text: impl Into<Line>, datetime: impl Into<String>) -> Self {
        self.and(Word::Time { text: text.into(), datetime: datetime.into() })
    }

    /// Adds an age that goes on while the page is live.
    #[must_use]
    pub(crate) fn age(self, text: impl Into<Line>, datetime: impl Into<String>) -> Self {
        self.and(Word::Age { text: text.into(), datetime: datetime.into() })
    }

    /// Adds a duration that goes on while the page is live.
    #[must_use]
    pub(crate) fn since(self, text: impl Into<Line>, datetime: impl Into<String>) -> Self {
        self.and(Word::Since { text: text.into(), datetime: datetime.into() })
    }

    /// Adds a sign.
    #[must_use]
    pub(crate) fn sign(self, mark: Sign) -> Self {
        self.and(Word::Sign(mark))
    }

    /// Adds any piece.
    #[must_use]
    pub(crate) fn and(mut self, word: Word) -> Self {
        self.words.push(word);
        self
    }

    /// Whether nothing is said.
    pub(crate) fn is_empty(&self) -> bool {
        self.words.is_empty()
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
            .sign(Sign::word("mk", "ok", evil))
            .sign(Sign::icon("mk", "ok", evil));
        let html = phrase.render().unwrap();
        assert!(!html.contains("<script"), "{html}");
        assert_eq!(html.matches("&#60;script&#62;&#34;&#39;&#38;⟨U+202E⟩␀").count(), 9, "{html}");
        assert!(html.contains("role=\"img\" aria-label=\"&#60;script"), "{html}");
    }

    #[test]
    fn a_glyph_has_hidden_words() {
        let mark = Sign { class: "mk err", icon: "", text: "≠0".into(), meaning: "the command failed".into() };
        let html = mark.render().unwrap();
        assert!(html.contains("≠0<span class=\"vh\">, the command failed</span>"), "{html}");
    }
}
