//! Folds long texts: decides how much of a text to show at once. Cuts fall between characters. The page always states
//! how much is left and where to find it.
//!
//! Up to 4 KB is shown whole. Up to 64 KB opens in place. A longer value gets a separate page, in parts of 250 KB. Must
//! not know files, nor any markup but its own.

use askama::Template;
use askama::filters::HtmlSafe;

use crate::analysis::format;
use crate::analysis::search::Needle;
use crate::model::path::relative;
use crate::model::telling::{Tells, telling_line};
use crate::page::part::highlight;
use crate::page::part::href;
use crate::page::part::markdown::Markdown;
use crate::page::part::terminal::{Plain, Span};
use crate::page::part::text::Line;

/// A longer text shows only its first lines; bytes.
pub(crate) const SHORT: usize = 4_000;
/// The rest of a longer text is on a separate page; bytes.
pub(crate) const LONG: usize = 64_000;
/// The size of one part on a separate page, at most; bytes.
pub(crate) const PART: usize = 250_000;
/// Lines shown of a folded text.
pub(crate) const LINES: usize = 20;
/// The same for a page that shows many texts one below the other.
const BRIEF: usize = 1_500;
const BRIEF_LINES: usize = 12;
/// Lines shown of a prompt.
const PROMPT_LINES: usize = 60;
/// Maximum number of lines shown of an edit.
const EDIT_LINES: usize = 400;
const BRIEF_EDIT_LINES: usize = 40;
/// Bytes of values per page, so that many values don't add up to a huge page.
const PAGE: usize = 160_000;
/// Bytes shown of each text once the page is full.
const PREVIEW: usize = 256;

/// Addresses of the values in one line (a step, an event, the manifest).
#[derive(Debug, Clone, Default)]
pub(crate) struct ValueLinks {
    /// The address that accepts `?at=POINTER&part=N`. May be empty.
    pub value: String,
    /// The address of the raw bytes. May be empty.
    pub raw: String,
}

impl ValueLinks {
    /// Returns the addresses for the line at `base`.
    pub(crate) fn below(base: &str) -> Self {
        Self {
            value: format!("{base}/value"),
            raw: format!("{base}/raw"),
        }
    }

    /// Returns the address of the value at a JSON pointer.
    pub(crate) fn value(&self, pointer: &str) -> Option<String> {
        (!self.value.is_empty()).then(|| href::with_query(&self.value, &[("at", pointer)]))
    }

    /// Returns the address of one part of a long text.
    pub(crate) fn part(&self, pointer: &str, number: usize) -> Option<String> {
        let number = number.to_string();
        (!self.value.is_empty())
            .then(|| href::with_query(&self.value, &[("at", pointer), ("part", &number)]))
    }

    /// Returns the address of the raw bytes.
    pub(crate) fn raw(&self) -> Option<String> {
        (!self.raw.is_empty()).then(|| self.raw.clone())
    }
}

/// A JSON value with more spans is shown without colors. Each span is an element, and a page has many values.
const MAX_STRETCHES: usize = 200;
/// The size of the element around a colored span; bytes.
const SPAN: usize = "<span class=\"c-k\"></span>".len();
/// The weight of a list item without its texts; bytes.
const ITEM: usize = 250;
/// List items that are always shown.
const FEW: usize = 20;

/// Folds the values of one page: supplies links and keeps the page small.
#[derive(Debug, Clone)]
pub(crate) struct Fold {
    /// Links to the text that isn't shown.
    pub links: ValueLinks,
    left: usize,
    /// How many more elements its trees may have.
    pub tree_elements: usize,
    /// How many more pictures it may show.
    pictures: usize,
    /// Whether each value is kept short, because the page has many.
    is_brief: bool,
    /// The directory that paths of edits are relative to. May be empty.
    project: String,
    /// The text that the page was searched for.
    wanted: Option<Needle>,
}

/// Pictures inside values that one page shows. Further ones are only named.
const PICTURES: usize = 20;

impl Fold {
    /// Starts a new page.
    pub(crate) fn new(links: ValueLinks) -> Self {
        Self {
            links,
            left: PAGE,
            tree_elements: usize::MAX,
            pictures: PICTURES,
            is_brief: false,
            project: String::new(),
            wanted: None,
        }
    }

    /// Shows the paths of edits relative to this directory.
    pub(crate) fn set_project(&mut self, project: &str) {
        project.clone_into(&mut self.project);
    }

    /// Returns a path as edits show it.
    pub(crate) fn relative<'p>(&self, path: &'p str) -> &'p str {
        relative(path, &self.project)
    }

    /// Starts a page that shows the beginnings of many values, with links to the rest.
    pub(crate) fn brief(links: ValueLinks) -> Self {
        Self {
            is_brief: true,
            ..Self::new(links)
        }
    }

    /// Shows the lines around `text` of values that contain it below their beginning.
    #[must_use]
    pub(crate) fn finding(self, text: &str) -> Self {
        Self {
            wanted: Needle::new(text).ok(),
            ..self
        }
    }

    /// Returns whether each value is kept short.
    pub(crate) fn is_brief(&self) -> bool {
        self.is_brief
    }

    /// Returns the number of lines to show of an edit, at most.
    pub(crate) fn edit_lines(&self) -> usize {
        match (self.is_brief, self.is_full()) {
            (true, true) => BRIEF_LINES,
            (true, false) => BRIEF_EDIT_LINES,
            (false, true) => LINES,
            (false, false) => EDIT_LINES,
        }
    }

    /// Switches to the values of another line on the same page. Returns the previous links.
    pub(crate) fn elsewhere(&mut self, links: ValueLinks) -> ValueLinks {
        std::mem::replace(&mut self.links, links)
    }

    /// Folds the text at `pointer`, which a model wrote for people. Shows it as Markdown if it contains any.
    pub(crate) fn prose(&mut self, text: &str, pointer: &str) -> Folded {
        // Replies of models may start with empty lines. A paragraph shouldn't.
        let text = text.trim_start_matches(['\n', '\r']);
        let markdown = Markdown::of(text).filter(|html| html.len() <= self.left);
        let Some(markdown) = markdown else {
            let room = if self.is_full() { PREVIEW } else { SHORT };
            let lines = if self.is_brief { PROMPT_LINES } else { LINES };
            return self.folded(text, pointer, room, lines).prose();
        };
        self.left = self.left.saturating_sub(markdown.len() + ITEM);
        Folded {
            raw: self.links.part(pointer, 1),
            markdown: Some(markdown),
            ..Folded::whole(text).prose()
        }
    }

    /// Folds the text at `pointer`.
    pub(crate) fn text(&mut self, text: &str, pointer: &str) -> Folded {
        if let Some(folded) = self.found(text, pointer) {
            return folded;
        }
        let Some(plain) = Plain::of(text) else {
            return self.unstyled(text, pointer);
        };
        let mut folded = self.unstyled(&plain.text, pointer);
        let mut spans = plain.spans(folded.shown_bytes);
        spans
            .iter_mut()
            .for_each(|span| span.text = format::visible(&span.text).into_owned());
        folded.left_out = plain.left_out;
        if spans.iter().any(|span| !span.class.is_empty()) {
            folded.spans = spans;
        }
        folded
    }

    /// Folds the text at `pointer`, which a tool printed. Colors it as the file `path`, if that is known.
    /// Otherwise colors it as JSON, if the whole text is JSON and is shown.
    pub(crate) fn output(&mut self, text: &str, pointer: &str, path: Option<&str>) -> Folded {
        let mut folded = self.text(text, pointer);
        // A page with many results has no room for the elements of their colors.
        if folded.spans.is_empty() && !self.is_brief {
            // The shown text has the same syntax: visible signs replace hidden characters, which occur only in strings.
            let of_file = path.and_then(|path| highlight::file(&folded.shown, path));
            let is_whole = folded.more == More::Nothing;
            let json = || is_whole.then(|| highlight::json(&folded.shown)).flatten();
            let json = || json().filter(|spans| spans.len() <= MAX_STRETCHES);
            folded.spans = self.colored(of_file.or_else(json));
        }
        folded
    }

    /// Folds the text at `pointer`, which is code in `language`.
    pub(crate) fn code(&mut self, text: &str, pointer: &str, language: &str) -> Folded {
        let mut folded = self.text(text, pointer);
        if folded.spans.is_empty() && !self.is_brief {
            folded.spans = self.colored(highlight::code(&folded.shown, language));
        }
        folded
    }

    /// Turns the spans of a code into elements. Returns none if the page has no room for them.
    fn colored(&mut self, spans: Option<Vec<(&'static str, &str)>>) -> Vec<Span> {
        let spans = spans.unwrap_or_default();
        let coloured = spans.iter().filter(|(class, _)| !class.is_empty()).count();
        if !self.takes_spans(coloured) {
            return Vec::new();
        }
        let span = |(class, text): (&str, &str)| Span {
            class: class.to_owned(),
            text: text.to_owned(),
        };
        spans.into_iter().map(span).collect()
    }

    /// Reserves room for the elements of colored spans. Returns false if the page has no room for them.
    pub(crate) fn takes_spans(&mut self, count: usize) -> bool {
        let left = self.left.checked_sub(count * SPAN);
        self.left = left.unwrap_or(self.left);
        left.is_some()
    }

    /// Returns the beginning of the text at `pointer`, which the page shows in another place too.
    pub(crate) fn preview(&mut self, text: &str, pointer: &str) -> Folded {
        match Plain::of(text) {
            Some(plain) => self.folded(&plain.text, pointer, PREVIEW, LINES),
            None => self.folded(text, pointer, PREVIEW, LINES),
        }
    }

    fn unstyled(&mut self, text: &str, pointer: &str) -> Folded {
        let room = match (self.is_full(), self.is_brief) {
            (true, _) => PREVIEW,
            (false, true) => BRIEF,
            (false, false) => SHORT,
        };
        let lines = if self.is_brief { BRIEF_LINES } else { LINES };
        self.folded(text, pointer, room, lines)
    }

    /// Folds a text longer than `room` bytes. If no other page has the text, this one gets all of it.
    fn folded(&mut self, text: &str, pointer: &str, room: usize, lines: usize) -> Folded {
        let room = if self.links.part(pointer, 1).is_some() {
            room
        } else {
            SHORT
        };
        if text.len() <= room {
            self.spend(text);
            return Folded::whole(text);
        }
        let (head, rest) = text.split_at(head_len(text, room, lines));
        self.spend(head);
        let head_text = head.strip_suffix('\n').unwrap_or(head);
        let shown = format::visible(head_text).into_owned();
        let shown_bytes = head_text.len();
        let goes_on = if head.ends_with('\n') {
            ""
        } else {
            ", line continues"
        };
        let size = format::bytes(text.len() as u64);
        let more = match self.links.part(pointer, 1) {
            Some(href) if text.len() > LONG || weight(rest) > self.left || room < SHORT => {
                More::Elsewhere {
                    size: format!("{size}{goes_on}"),
                    href,
                    raw: self.links.raw(),
                }
            }
            _ => {
                self.spend(rest);
                More::Here {
                    label: format!("show all {size}{goes_on}"),
                    rest: format::visible(rest).into_owned(),
                }
            }
        };
        Folded {
            shown,
            shown_bytes,
            more,
            ..Folded::default()
        }
    }

    /// Returns the lines around the one that tells most about a failure. The text at `pointer` has all.
    pub(crate) fn failing(&mut self, text: &str, pointer: &str) -> Folded {
        let (room, lines) = match (self.is_brief, self.is_full()) {
            (true, _) | (_, true) => (BRIEF, BRIEF_LINES),
            (false, false) => (SHORT, LINES),
        };
        let Some(href) = self.links.part(pointer, 1).filter(|_| text.len() > room) else {
            return self.text(text, pointer);
        };
        if let Some(folded) = self.found(text, pointer) {
            return folded;
        }
        let plain = Plain::of(text);
        let plain = plain.as_ref().map_or(text, |plain| &plain.text).trim_end();
        let telling = telling_line(plain, Tells::Last);
        let at = plain.rfind(&*telling).unwrap_or(plain.len());
        self.around(plain, at, (room, lines), text.len(), href)
    }

    /// Returns the lines of a text around the first place that the page was searched for. `None` if
    /// the beginning shows the place, or the text doesn't contain it.
    fn found(&mut self, text: &str, pointer: &str) -> Option<Folded> {
        /// Longer texts aren't searched.
        const MAX_SEARCHED: usize = 8 << 20;
        let room = if self.is_brief { BRIEF } else { SHORT };
        let lines = if self.is_brief { BRIEF_LINES } else { LINES };
        let is_short = text.len() <= room || text.len() > MAX_SEARCHED;
        if is_short || self.is_full() {
            return None;
        }
        let wanted = self.wanted.as_ref()?;
        let href = self.links.part(pointer, 1)?;
        let plain = Plain::of(text);
        let plain = plain.as_ref().map_or(text, |plain| &plain.text).trim_end();
        let at = wanted.first_in(plain)?;
        let is_shown = at + wanted.text().len() <= head_len(plain, room, lines);
        (!is_shown).then(|| self.around(plain, at, (room, lines), text.len(), href))
    }

    /// Returns the lines around the byte `at` of a text. The text at `href` has all, of `size` bytes.
    fn around(
        &mut self,
        plain: &str,
        at: usize,
        (room, lines): (usize, usize),
        size: usize,
        href: String,
    ) -> Folded {
        let before = plain.get(..at).unwrap_or_default();
        let nth = |count: usize| memchr::memrchr_iter(b'\n', before.as_bytes()).nth(count);
        let after = plain.get(at..).unwrap_or_default();
        // If the place is at the end, more lines above it have room.
        let below = memchr::memchr_iter(b'\n', after.as_bytes()).count();
        let above = (lines - 1).saturating_sub(below).max(lines / 3);
        let start = nth(above).map_or(0, |at| at + 1);
        let start = plain.ceil_char_boundary(start.max(at.saturating_sub(room / 2)));
        let rest = plain.get(start..).unwrap_or_default();
        let shown = rest.split_at(head_len(rest, room, lines)).0;
        self.spend(shown);
        let [head, tail] = [start > 0, shown.len() < rest.len()];
        let head = if head { "…\n" } else { "" };
        let tail = if tail { "\n…" } else { "" };
        Folded {
            more: More::Elsewhere {
                size: format::bytes(size as u64),
                href,
                raw: self.links.raw(),
            },
            ..Folded::whole(&format!("{head}{}{tail}", shown.trim_end_matches('\n')))
        }
    }

    /// Returns the beginning of a text that a person wrote, as Markdown if it contains any. `href`
    /// leads to the rest.
    pub(crate) fn beginning(&mut self, text: &str, href: Option<String>) -> Folded {
        let text = text.trim_matches(['\n', '\r']);
        let room = if self.is_full() { PREVIEW } else { SHORT };
        let head = text.split_at(head_len(text, room, PROMPT_LINES)).0;
        self.spend(head);
        let more = match href {
            Some(href) if head.len() < text.len() => More::Elsewhere {
                size: format::bytes(text.len() as u64),
                href,
                raw: None,
            },
            _ => More::Nothing,
        };
        let cut = if head.len() < text.len() { " …" } else { "" };
        let shown = format!("{}{cut}", head.trim_end());
        let markdown = Markdown::of(&shown).filter(|html| html.len() <= self.left);
        if let Some(markdown) = &markdown {
            self.left = self.left.saturating_sub(markdown.len());
        }
        Folded {
            more,
            markdown,
            ..Folded::whole(&shown).prose()
        }
    }

    /// Returns the beginning of a text that a command printed. `href` leads to the rest.
    pub(crate) fn printed(&mut self, text: &str, href: String) -> Folded {
        let plain = Plain::of(text);
        let text = plain.as_ref().map_or(text, |plain| &plain.text);
        Folded {
            prose: false,
            markdown: None,
            ..self.beginning(text, Some(href))
        }
    }

    /// Returns whether the page may show another picture, and counts it.
    pub(crate) fn takes_picture(&mut self) -> bool {
        let takes = self.pictures > 0;
        self.pictures = self.pictures.saturating_sub(1);
        takes
    }

    /// Returns whether the page has reached its size limit.
    pub(crate) fn is_full(&self) -> bool {
        self.left == 0
    }

    /// Returns whether a list with `shown` items may show another one. The first few always are.
    pub(crate) fn takes(&mut self, shown: usize) -> bool {
        let takes = shown < FEW || !self.is_full();
        self.left = self.left.saturating_sub(ITEM);
        takes
    }

    /// Counts a text that is about to be shown.
    pub(crate) fn spend(&mut self, text: &str) {
        self.left = self.left.saturating_sub(weight(text));
    }
}

/// The bytes of a text after escaping, plus some for the element around it.
fn weight(text: &str) -> usize {
    let escaped = text
        .bytes()
        .filter(|byte| matches!(byte, b'"' | b'&' | b'\'' | b'<' | b'>'))
        .count();
    text.len() + 4 * escaped + 48
}

/// Returns where the first `lines` lines end, or `room` bytes if that is less.
fn head_len(text: &str, room: usize, lines: usize) -> usize {
    let lines = memchr::memchr_iter(b'\n', text.as_bytes())
        .nth(lines - 1)
        .map_or(text.len(), |end| end + 1);
    text.floor_char_boundary(lines.min(room))
}

/// The beginning of a text, with the rest or a link to it.
#[derive(Debug, Clone, Default, Template)]
#[template(path = "part/fold.html")]
pub(crate) struct Folded {
    /// The beginning, or the whole text.
    pub shown: String,
    /// How many bytes of the text are shown.
    shown_bytes: usize,
    /// The shown text with terminal colors or syntax colors. Empty if it has none.
    spans: Vec<Span>,
    /// How many other terminal control sequences were removed.
    left_out: usize,
    /// The whole text as Markdown, and the address of its source.
    markdown: Option<Markdown>,
    raw: Option<String>,
    pub more: More,
    /// An accessible name of the text. A named text scrolls sideways; others wrap.
    pub name: Line,
    /// Whether it is prose rather than code.
    pub prose: bool,
}

impl HtmlSafe for Folded {}

impl Folded {
    /// Returns the number of its colored spans, each an element.
    pub(crate) fn colored(&self) -> usize {
        self.spans.len()
    }
}

/// The rest of a folded text.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) enum More {
    #[default]
    Nothing,
    /// The rest is on the same page and opens in place.
    Here {
        /// States the size.
        label: String,
        rest: String,
    },
    /// The whole text is on a separate page.
    Elsewhere {
        /// The size of the whole text, in words.
        size: String,
        /// The address of the separate page.
        href: String,
        raw: Option<String>,
    },
}

impl Folded {
    /// Creates a text that needs no fold.
    pub(crate) fn whole(text: &str) -> Self {
        Self {
            shown: format::visible(text).into_owned(),
            shown_bytes: text.len(),
            ..Self::default()
        }
    }

    /// Creates prose that needs no fold, as Markdown if it contains any.
    pub(crate) fn prose_of(text: &str) -> Self {
        Self {
            markdown: Markdown::of(text),
            ..Self::whole(text).prose()
        }
    }

    /// Returns whether it's shown as Markdown.
    pub(crate) fn is_markdown(&self) -> bool {
        self.markdown.is_some()
    }

    /// Names the text. Its lines then scroll instead of wrapping, unless they are too long to scroll.
    #[must_use]
    pub(crate) fn named(mut self, name: impl Into<Line>) -> Self {
        const LONG_LINE: usize = 300;
        if self.shown.lines().all(|line| line.len() <= LONG_LINE) {
            self.name = name.into();
        }
        self
    }

    /// Returns the first line that isn't blank, without its markup for headings and emphasis.
    pub(crate) fn first_line(&self) -> Line {
        let first = self.shown.lines().find(|line| !line.trim().is_empty());
        let first = first.unwrap_or_default().trim();
        Line::from(first.trim_matches(['#', '*', ' ']))
    }

    /// Marks the text as prose.
    #[must_use]
    pub(crate) fn prose(mut self) -> Self {
        self.prose = true;
        self
    }
}

/// One part of a text that is too long for one page.
#[derive(Debug, Clone)]
pub(crate) struct Part {
    /// The text of this part, with hidden characters made visible.
    pub text: String,
    /// The number of this part, from 1.
    pub number: usize,
    /// The number of parts.
    pub of: usize,
    /// The range of bytes, and the size of the whole text.
    pub range: String,
    pub previous: Option<String>,
    pub next: Option<String>,
}

impl Part {
    /// Returns the text as spans with a class each. Only a JSON text in one part is colored.
    pub(crate) fn stretches(&self) -> Vec<(&'static str, &str)> {
        let whole = self.of == 1;
        whole
            .then(|| highlight::json(&self.text))
            .flatten()
            .unwrap_or_else(|| vec![("", self.text.as_str())])
    }

    /// Returns part `number` (from 1) of `text`, or `None` if there is no such part.
    pub(crate) fn of(text: &str, number: usize, pointer: &str, links: &ValueLinks) -> Option<Self> {
        let mut starts = vec![0];
        let mut at = 0;
        while text.len() - at > PART {
            at = cut(text, at);
            starts.push(at);
        }
        let index = number.checked_sub(1)?;
        let start = *starts.get(index)?;
        let end = starts.get(number).copied().unwrap_or(text.len());
        let range = match end {
            0 => "empty".to_owned(),
            _ => {
                let [start, end, all] =
                    [start + 1, end, text.len()].map(|at| format::count(at as u64));
                format!("bytes {start} to {end} of {all}")
            }
        };
        Some(Self {
            text: format::visible(text.get(start..end)?).into_owned(),
            number,
            of: starts.len(),
            range,
            previous: if index > 0 {
                links.part(pointer, index)
            } else {
                None
            },
            next: if number < starts.len() {
                links.part(pointer, number + 1)
            } else {
                None
            },
        })
    }
}

/// Returns the end of the part that begins at `at`: after a nearby line end, or else between two characters.
fn cut(text: &str, at: usize) -> usize {
    let hard = text.floor_char_boundary(at + PART);
    let near = text.floor_char_boundary(hard - PART / 8);
    let line_end = text.get(near..hard).and_then(|tail| tail.rfind('\n'));
    line_end.map_or(hard, |end| near + end + 1)
}

#[cfg(test)]
mod tests {
    use crate::page::part::fold::*;

    fn links() -> ValueLinks {
        ValueLinks {
            value: "/v".into(),
            raw: "/raw".into(),
        }
    }

    #[test]
    fn short_texts_are_whole() {
        let folded = Fold::new(links()).text("one\ntwo\u{0}", "/a");
        assert_eq!(
            (folded.shown.as_str(), folded.more),
            ("one\ntwo␀", More::Nothing)
        );
    }

    #[test]
    fn colours_have_no_more_room_than_the_page() {
        let code = "a = [1, 2, 3, 4, 5, 6, 7, 8, 9]\n".repeat(LINES);
        let mut fold = Fold::new(links());
        let values = (0..200).map(|_| fold.output(&code, "/a", Some("a.py")));
        let coloured = values.map(|folded| {
            let spans = folded.spans.iter();
            spans.filter(|span| !span.class.is_empty()).count()
        });
        let bytes = coloured.sum::<usize>() * SPAN;
        assert!(bytes > 0 && bytes <= PAGE, "{bytes}");
    }

    #[test]
    fn middle_texts_open_in_place_and_lose_nothing() {
        let text: String = (0..900).map(|n| format!("line {n}\n")).collect();
        let folded = Fold::new(links()).text(&text, "/a");
        assert_eq!(folded.shown.lines().count(), LINES);
        let More::Here { label, rest } = folded.more else {
            panic!("folds in place")
        };
        assert_eq!(label, "show all 8.0 KB");
        assert_eq!(format!("{}\n{rest}", folded.shown), text);
    }

    #[test]
    fn the_lines_around_a_text_that_was_searched_for_are_shown() {
        let text: String = (0..900).map(|n| format!("line {n}\n")).collect();
        let folded = Fold::brief(links()).finding("LINE 500").text(&text, "/a");
        assert!(folded.shown.starts_with("…\nline 4"), "{}", folded.shown);
        assert!(folded.shown.contains("line 500\n"), "{}", folded.shown);
        assert_eq!(folded.shown.lines().count(), BRIEF_LINES + 2);
        assert!(matches!(folded.more, More::Elsewhere { .. }));
        // Letters before the place may be longer than a byte, or in capitals.
        let wide = text.replace("line", "ÉİLine");
        let folded = Fold::brief(links()).finding("lINE 500").text(&wide, "/a");
        assert!(folded.shown.contains("ÉİLine 500\n"), "{}", folded.shown);
        // The beginning shows the first, no line has the second, and the others can't be searched for.
        let long = "line 500\n".repeat(200);
        for wanted in ["line 2", "none", "", &long] {
            let folded = Fold::brief(links()).finding(wanted).text(&text, "/a");
            assert!(folded.shown.starts_with("line 0\n"), "{wanted}");
        }
    }

    #[test]
    fn one_long_line_is_cut_between_characters() {
        let text = "é".repeat(4000);
        let folded = Fold::new(links()).text(&text, "");
        let More::Here { label, rest } = folded.more else {
            panic!("folds in place")
        };
        assert!(label.ends_with(", line continues"), "{label}");
        assert_eq!(format!("{}{rest}", folded.shown), text);
        let odd = format!("a{}", "é".repeat(4000));
        assert_eq!(Fold::new(links()).text(&odd, "").shown.len(), SHORT - 1);
    }

    #[test]
    fn long_texts_are_elsewhere_unless_there_is_no_elsewhere() {
        let text = "x".repeat(LONG + 1);
        let More::Elsewhere { href, size, .. } = Fold::new(links()).text(&text, "/a~1b").more
        else {
            panic!("on request")
        };
        assert_eq!(href, "/v?at=%2Fa~1b&part=1");
        assert!(size.contains("64.0 KB"), "{size}");
        let More::Here { rest, .. } = Fold::new(ValueLinks::default()).text(&text, "").more else {
            panic!("in place")
        };
        assert_eq!(rest.len() + SHORT, text.len());
    }

    #[test]
    fn many_middle_texts_do_not_make_a_huge_page() {
        let text = "x".repeat(LONG);
        let mut fold = Fold::new(links());
        let here = (0..10)
            .filter(|_| matches!(fold.text(&text, "").more, More::Here { .. }))
            .count();
        assert_eq!(here, 2);
        (0..100).for_each(|_| drop(fold.text(&"x".repeat(SHORT), "")));
        assert!(fold.is_full());
        let preview = fold.text(&"x".repeat(SHORT), "/a");
        assert_eq!(preview.shown.len(), PREVIEW);
        assert!(matches!(preview.more, More::Elsewhere { .. }));
    }

    #[test]
    fn parts_join_to_the_whole() {
        let text: String = (0..120_000).map(|n| format!("{n} é\n")).collect();
        let first = Part::of(&text, 1, "/a", &links()).unwrap();
        assert!(first.of > 3);
        assert_eq!(first.previous, None);
        assert_eq!(first.next.as_deref(), Some("/v?at=%2Fa&part=2"));
        let joined: String = (1..=first.of)
            .map(|n| Part::of(&text, n, "", &links()).unwrap().text)
            .collect();
        assert_eq!(joined, text);
        assert!(
            Part::of(&text, first.of, "", &links())
                .unwrap()
                .next
                .is_none()
        );
        assert!(Part::of(&text, first.of + 1, "", &links()).is_none());
        assert!(Part::of(&text, 0, "", &links()).is_none());
        let dense = "é".repeat(PART);
        let joined: String = (1..=3)
            .filter_map(|n| Part::of(&dense, n, "", &links()))
            .map(|part| part.text)
            .collect();
        assert_eq!(joined, dense);
        assert_eq!(Part::of("", 1, "", &links()).unwrap().range, "empty");
    }

    #[test]
    fn only_lines_one_can_scroll_along_do_scroll() {
        assert!(
            Folded::whole("a\nb")
                .named("output")
                .render()
                .unwrap()
                .contains("aria-label=\"output\"")
        );
        assert!(
            Folded::whole(&"x".repeat(400))
                .named("output")
                .render()
                .unwrap()
                .contains("class=\"wrap\"")
        );
    }

    #[test]
    fn hostile_text_is_text() {
        let hostile = "</pre><script>alert(1)</script>\"'</textarea>\u{202e}\u{0}";
        let long = hostile.repeat(200);
        for folded in [
            Folded::whole(hostile).named(hostile),
            Folded::whole(hostile).prose(),
            Fold::new(links()).text(&long, hostile),
        ] {
            let html = folded.render().unwrap();
            assert!(
                !html.contains("<script")
                    && !html.contains("</textarea")
                    && !html.contains('\u{202e}'),
                "{html}"
            );
            assert!(html.contains("&#60;script&#62;"), "{html}");
        }
    }
}
