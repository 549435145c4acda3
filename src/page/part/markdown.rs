//! Formats the Markdown that a model wrote, as headings, lists, tables and code. Nothing in it is
//! active.
//!
//! Raw HTML is shown as text. A link becomes its text followed by its address, and can't be
//! clicked. A picture becomes its description and address, and isn't loaded. Line breaks are kept.

use std::fmt::{self, Write as _};
use std::ops::Range;

use askama::filters::HtmlSafe;
use pulldown_cmark::{CodeBlockKind, Event, Options, Parser, Tag, TagEnd};

use crate::analysis::format::visible;
use crate::page::part::highlight;
use crate::page::part::sign::escape;

/// Longer texts are shown as plain text; bytes.
pub(crate) const MAX_BYTES: usize = 32_000;
/// Quotes and lists nested deeper get no further elements.
const MAX_DEPTH: usize = 12;

/// Text as HTML that is safe to include in a page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Markdown(String);

impl HtmlSafe for Markdown {}

impl fmt::Display for Markdown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Markdown {
    /// Formats a text. Returns `None` if it has only paragraphs, or is too long.
    pub(crate) fn of(text: &str) -> Option<Self> {
        if text.len() > MAX_BYTES {
            return None;
        }
        let mut out = Writer::default();
        let parser = Parser::new_ext(text, Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH);
        // Link definitions wouldn't appear in the output, so such a text is shown as plain text.
        if parser.reference_definitions().iter().next().is_some() {
            return None;
        }
        for (event, range) in parser.into_offset_iter() {
            out.take(event, text, range);
        }
        out.has_markup.then_some(Self(out.html))
    }

    /// Returns the length of the HTML, in bytes.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }
}

#[derive(Debug, Default)]
struct Writer {
    html: String,
    /// Whether the text has any markup, not only paragraphs.
    has_markup: bool,
    /// The addresses of the open links and pictures.
    addresses: Vec<String>,
    /// The number of open quotes and lists. Only the outermost `MAX_DEPTH` have an element.
    depth: usize,
    /// Whether a table's head is open. Its cells are headings.
    in_head: bool,
    /// The language and the text of the open code block.
    code: Option<(String, String)>,
}

impl Writer {
    fn take(&mut self, event: Event<'_>, text: &str, range: Range<usize>) {
        self.has_markup |= !matches!(
            event,
            Event::Text(_)
                | Event::SoftBreak
                | Event::HardBreak
                | Event::Html(_)
                | Event::InlineHtml(_)
                | Event::Start(Tag::Paragraph | Tag::HtmlBlock)
                | Event::End(_)
        );
        match event {
            Event::Start(Tag::Emphasis | Tag::Strong)
            | Event::End(TagEnd::Emphasis | TagEnd::Strong)
                if is_name(text, &range) =>
            {
                let strong = matches!(
                    event,
                    Event::Start(Tag::Strong) | Event::End(TagEnd::Strong)
                );
                let marks = range.start..range.start + if strong { 2 } else { 1 };
                self.text(text.get(marks).unwrap_or_default());
            }
            Event::Start(Tag::Item) if self.depth <= MAX_DEPTH => {
                let digits = text.get(range).unwrap_or_default();
                let digits = digits
                    .split(|c: char| !c.is_ascii_digit())
                    .next()
                    .unwrap_or_default();
                match digits.parse::<u32>() {
                    // Writing to a string can't fail.
                    Ok(number) => drop(write!(self.html, "<li value=\"{number}\">")),
                    Err(_) => self.html.push_str("<li>"),
                }
            }
            Event::Text(text) if self.code.is_some() => {
                self.code
                    .iter_mut()
                    .for_each(|(_, code)| code.push_str(&text));
            }
            Event::Start(tag) => self.start(tag),
            Event::End(tag) => self.end(tag),
            Event::Text(text) | Event::Html(text) | Event::InlineHtml(text) => self.text(&text),
            Event::Code(text) | Event::InlineMath(text) | Event::DisplayMath(text) => {
                self.html.push_str("<code>");
                self.text(&text);
                self.html.push_str("</code>");
            }
            Event::SoftBreak | Event::HardBreak => self.html.push_str("<br>"),
            Event::Rule => self.html.push_str("<hr>"),
            Event::FootnoteReference(text) => self.text(&text),
            Event::TaskListMarker(is_done) => {
                self.html.push_str(if is_done { "☑ " } else { "☐ " })
            }
        }
    }

    fn start(&mut self, tag: Tag<'_>) {
        let html = match tag {
            Tag::Heading { .. } => "<p class=\"md-h\">",
            Tag::BlockQuote(_) => self.deeper("<blockquote>"),
            Tag::List(Some(1)) => self.deeper("<ol>"),
            Tag::List(Some(first)) => {
                let list = self.deeper("<ol");
                if !list.is_empty() {
                    // Writing to a string can't fail.
                    let _ = write!(self.html, "<ol start=\"{first}\">");
                }
                return;
            }
            Tag::List(None) => self.deeper("<ul>"),
            Tag::CodeBlock(kind) => {
                let language = match &kind {
                    CodeBlockKind::Fenced(language) => {
                        language.split_whitespace().next().unwrap_or_default()
                    }
                    CodeBlockKind::Indented => "",
                };
                if !language.is_empty() {
                    self.html.push_str("<p class=\"label\">");
                    self.text(language);
                    self.html.push_str("</p>");
                }
                self.code = Some((language.to_owned(), String::new()));
                "<pre class=\"wrap\"><code>"
            }
            Tag::Table(_) => "<div class=\"scroll\"><table class=\"md-t\">",
            Tag::TableHead => {
                self.in_head = true;
                "<thead><tr>"
            }
            Tag::TableRow => "<tr>",
            Tag::TableCell => {
                if self.in_head {
                    "<th scope=\"col\">"
                } else {
                    "<td>"
                }
            }
            Tag::Emphasis => "<em>",
            Tag::Strong => "<strong>",
            Tag::Strikethrough => "<s>",
            Tag::Link { dest_url, .. } => {
                self.addresses.push(dest_url.into_string());
                "<span class=\"md-a\">"
            }
            Tag::Image { dest_url, .. } => {
                self.addresses.push(dest_url.into_string());
                "<span class=\"md-a\">picture: "
            }
            Tag::Paragraph => "<p>",
            _ => "",
        };
        self.html.push_str(html);
    }

    fn end(&mut self, tag: TagEnd) {
        let html = match tag {
            TagEnd::Heading(_) | TagEnd::Paragraph => "</p>",
            TagEnd::BlockQuote(_) => self.higher("</blockquote>"),
            TagEnd::List(true) => self.higher("</ol>"),
            TagEnd::List(false) => self.higher("</ul>"),
            TagEnd::Item if self.depth <= MAX_DEPTH => "</li>",
            TagEnd::CodeBlock => {
                let (language, code) = self.code.take().unwrap_or_default();
                self.code(&code, &language);
                "</code></pre>"
            }
            TagEnd::Table => "</tbody></table></div>",
            TagEnd::TableHead => {
                self.in_head = false;
                "</tr></thead><tbody>"
            }
            TagEnd::TableRow => "</tr>",
            TagEnd::TableCell => {
                if self.in_head {
                    "</th>"
                } else {
                    "</td>"
                }
            }
            TagEnd::Emphasis => "</em>",
            TagEnd::Strong => "</strong>",
            TagEnd::Strikethrough => "</s>",
            TagEnd::Link | TagEnd::Image => {
                let address = self.addresses.pop().unwrap_or_default();
                self.html.push_str(" <code>");
                self.text(&address);
                self.html.push_str("</code>");
                "</span>"
            }
            _ => "",
        };
        self.html.push_str(html);
    }

    /// Opens a quote or a list. Returns its element, or nothing if it is nested too deep.
    fn deeper(&mut self, html: &'static str) -> &'static str {
        self.depth += 1;
        if self.depth <= MAX_DEPTH { html } else { "" }
    }

    fn higher(&mut self, html: &'static str) -> &'static str {
        self.depth -= 1;
        if self.depth < MAX_DEPTH { html } else { "" }
    }

    /// Writes code with colored strings, comments, numbers and keywords.
    fn code(&mut self, code: &str, language: &str) {
        let Some(stretches) = highlight::code(code, language) else {
            return self.text(code);
        };
        for (class, text) in stretches {
            if class.is_empty() {
                self.text(text);
                continue;
            }
            self.html.extend(["<span class=\"", class, "\">"]);
            self.text(text);
            self.html.push_str("</span>");
        }
    }

    fn text(&mut self, text: &str) {
        escape(&visible(text), &mut self.html);
    }
}

/// Returns whether apparent emphasis is part of a word or a name: `__init__`, `2*3*4`.
fn is_name(text: &str, range: &Range<usize>) -> bool {
    let beside = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
    let before = text
        .get(..range.start)
        .and_then(|text| text.chars().next_back());
    let after = text.get(range.end..).and_then(|text| text.chars().next());
    let inside = text.get(range.clone()).unwrap_or_default();
    inside.starts_with('_') && !inside.contains(' ') || beside(before) || beside(after)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn html(text: &str) -> String {
        Markdown::of(text).unwrap().to_string()
    }

    #[test]
    fn what_models_write() {
        let text = "# Plan\n\nFix `split`:\n1. *read*\n2. **write**\n\n```python\nx < 1\n```\n\n| a | b |\n|---|---|\n| 1 | 2 |\n";
        let html = html(text);
        for part in [
            "<p class=\"md-h\">Plan</p>",
            "<code>split</code>",
            "<ol><li value=\"1\"><em>read</em></li><li value=\"2\"><strong>write</strong></li></ol>",
            "<p class=\"label\">python</p><pre class=\"wrap\"><code>x &#60; <span class=\"c-n\">1</span>\n</code></pre>",
            "<thead><tr><th scope=\"col\">a</th>",
            "<tbody><tr><td>1</td><td>2</td></tr></tbody></table></div>",
        ] {
            assert!(html.contains(part), "{part} in {html}");
        }
    }

    #[test]
    fn names_and_numbers_stay_what_they_are() {
        assert!(html("`x` in __init__.py").contains("in __init__.py"));
        assert!(html("`x` 2*3*4").contains("2*3*4"));
        assert!(html("3. c\n7. d").contains("<li value=\"7\">d"));
        assert_eq!(Markdown::of("# See [a]\n\n[a]: https://a.example"), None);
    }

    #[test]
    fn text_without_markup_is_left_as_it_is() {
        assert_eq!(
            Markdown::of("One line.\nAnother <b>line</b>.\n\nA paragraph."),
            None
        );
        assert_eq!(Markdown::of(&format!("# {}", "x".repeat(MAX_BYTES))), None);
        assert!(html("First line\nsecond `line`").contains("First line<br>second"));
    }

    #[test]
    fn links_and_pictures_do_nothing() {
        let html = html(
            "[click](javascript:alert(1)) ![see](https://x.example/p.png) <https://y.example> [a]: x",
        );
        assert!(
            !html.contains("href")
                && !html.contains("src")
                && !html.contains("<a")
                && !html.contains("<img"),
            "{html}"
        );
        assert!(
            html.contains("javascript:alert(1)") && html.contains("https://x.example/p.png"),
            "{html}"
        );
    }

    #[test]
    fn hostile_text_is_text() {
        let evil = "<script>alert(1)</script></textarea>\"'\u{202e}\u{0}";
        for text in [
            format!("# {evil}\n\n{evil}"),
            format!("```{evil}\n{evil}\n```"),
            format!("[{evil}]({evil}) ![{evil}](<{evil}>) `{evil}`"),
            format!("| {evil} |\n|---|\n| {evil} |"),
            format!("<div onload=x>\n{evil}\n</div>\n\n* x"),
        ] {
            let html = html(&text);
            assert!(
                !html.contains("<script")
                    && !html.contains("</textarea")
                    && !html.contains("<div on"),
                "{html}"
            );
            assert!(
                !html.contains('\u{202e}') && !html.contains('\u{0}'),
                "{html}"
            );
        }
    }

    /// Checks that elements are closed in the right order, and that no element needs a script or a
    /// style.
    fn is_well_formed(html: &str) -> bool {
        let mut open = Vec::new();
        for tag in html
            .split('<')
            .skip(1)
            .filter_map(|tag| tag.split('>').next())
        {
            match tag.strip_prefix('/') {
                Some(name) => {
                    if open.pop() != Some(name) {
                        return false;
                    }
                }
                None if matches!(tag, "br" | "hr") => {}
                None => open.push(tag.split(' ').next().unwrap_or_default()),
            }
        }
        open.is_empty()
    }

    proptest! {
        #[test]
        fn any_text_gives_whole_elements(text in "([#>*`|~_\\[\\]()!<&\"' \n-]{1,3}|[a-z]{1,4}|\\|---\\||1\\. |<b>|```){0,40}") {
            if let Some(html) = Markdown::of(&text) {
                prop_assert!(is_well_formed(&html.to_string()), "{html}");
            }
        }
    }

    #[test]
    fn deep_nesting_is_bound() {
        let html = html(&format!("{}x", "> ".repeat(2_000)));
        assert_eq!(html.matches("<blockquote>").count(), MAX_DEPTH);
        assert!(is_well_formed(&html));
        let lists: String = (0..40)
            .map(|n| format!("{}- x\n", "  ".repeat(n)))
            .collect();
        assert!(is_well_formed(&self::html(&lists)));
    }
}
