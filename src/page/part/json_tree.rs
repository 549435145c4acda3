//! Shows a JSON value as nested lists that fold. Numbers are as written, keys are in file order,
//! and every omission is stated.
//!
//! Small containers fit on one line, and a list of numbers is one paragraph. A large value stops
//! after [`ELEMENTS`] elements, or earlier if the page is full, and links to its raw text.

use askama::Template;
use askama::filters::HtmlSafe;

use crate::analysis::format;
use crate::model::json::Json;
use crate::page::part::attachment::{self, Attachment};
use crate::page::part::fold::{Fold, Folded};
use crate::page::part::text::Line;

/// Elements of one tree, at most. A page with a tree should have at most 1,500.
pub(crate) const ELEMENTS: usize = 1_000;
/// Maximum number of characters of a list of numbers.
const NUMBERS: usize = 4_000;
/// The same where a page shows many values one below the other.
const BRIEF_ELEMENTS: usize = 120;
/// Elements of a member: its list item and its key.
const MEMBER: usize = 2;
/// Elements of a container, including the note on members that aren't shown.
const CONTAINER: usize = 5;
/// Elements of any other value, apart from colored spans, at most.
const VALUE: usize = 6;
/// Containers up to this length are on one line; bytes of compact text.
const INLINE: usize = 100;
/// Longer strings get separate lines; bytes.
const LONG_STRING: usize = 120;

/// A JSON value as nested lists.
#[derive(Debug, Clone, Template)]
#[template(path = "part/json.html")]
pub(crate) struct JsonView {
    pub kind: Kind,
    /// The address of the value's text, for the copy button. Empty if it has none, and inside
    /// another value.
    pub at: String,
}

impl HtmlSafe for JsonView {}

/// The way a value is shown.
#[derive(Debug, Clone)]
pub(crate) enum Kind {
    /// A number, a boolean, null, or text that could not be decoded.
    Token(Line),
    /// A string that fits on the line.
    Text(Line),
    /// A string on separate lines.
    Block(Folded),
    /// A picture or a file embedded in the value.
    Attachment(Attachment),
    /// A small container on one line.
    Inline(Line),
    /// A list of numbers, in one paragraph.
    Numbers {
        summary: String,
        numbers: String,
        more: Option<More>,
    },
    /// A container with its members below.
    Tree {
        /// Whether the container is open at first.
        open: bool,
        /// The kind of container and its size.
        summary: String,
        members: Vec<Member>,
        more: Option<More>,
    },
}

/// The members that aren't shown.
#[derive(Debug, Clone)]
pub(crate) struct More {
    /// Their number in words.
    pub words: Line,
    /// The address of the raw text, which has them.
    pub raw: Option<String>,
}

#[derive(Debug, Clone)]
pub(crate) struct Member {
    /// The key, or the index in an array.
    pub key: Line,
    /// Whether the key is an index.
    pub index: bool,
    pub value: JsonView,
}

impl Fold {
    /// Formats the value at `pointer`.
    pub(crate) fn json(&mut self, value: &Json<'_>, pointer: &str) -> JsonView {
        let elements = if self.is_brief() {
            BRIEF_ELEMENTS
        } else {
            ELEMENTS
        };
        self.json_within(value, pointer, elements)
    }

    /// Formats the value at `pointer` with about `elements` elements, at most.
    pub(crate) fn json_within(
        &mut self,
        value: &Json<'_>,
        pointer: &str,
        elements: usize,
    ) -> JsonView {
        // Each tree leaves half of the room to those after it.
        let most = elements.min(self.tree_elements.div_ceil(2));
        let mut grower = Grower {
            fold: self,
            elements: most,
        };
        let view = grower.grow(value, pointer, 0);
        let taken = most - grower.elements;
        self.tree_elements = self.tree_elements.saturating_sub(taken);
        JsonView {
            at: self.links.value(pointer).unwrap_or_default(),
            ..view
        }
    }
}

struct Grower<'a> {
    fold: &'a mut Fold,
    /// How many more elements fit.
    elements: usize,
}

impl Grower<'_> {
    fn grow(&mut self, value: &Json<'_>, pointer: &str, depth: usize) -> JsonView {
        self.fold.spend("");
        if let Some(inside) = attachment::of(value) {
            let kind = Kind::Attachment(Attachment::new(&inside, pointer, self.fold));
            self.take(VALUE);
            return JsonView {
                kind,
                at: String::new(),
            };
        }
        let kind = match value {
            Json::String(text) if text.len() > LONG_STRING || text.contains('\n') => {
                Kind::Block(self.fold.text(text, pointer))
            }
            Json::String(text) => {
                self.fold.spend(text);
                Kind::Text(text.as_ref().into())
            }
            Json::Deep(raw) if raw.len() > LONG_STRING => Kind::Block(self.fold.text(raw, pointer)),
            Json::Array(items) => match inline(value) {
                Some(line) => Kind::Inline(line),
                None if items.iter().all(|item| matches!(item, Json::Number(_))) => {
                    self.numbers(items, pointer)
                }
                None => {
                    let members = items
                        .iter()
                        .enumerate()
                        .map(|(index, item)| (index.to_string(), item));
                    self.tree(members, items.len(), true, pointer, depth)
                }
            },
            Json::Object(all) => match inline(value) {
                Some(line) => Kind::Inline(line),
                None => {
                    let members = all
                        .iter()
                        .map(|(key, item)| (key.as_ref().to_owned(), item));
                    self.tree(members, all.len(), false, pointer, depth)
                }
            },
            Json::Null | Json::Bool(_) | Json::Number(_) | Json::Deep(_) => {
                Kind::Token(value.to_string().into())
            }
        };
        match &kind {
            Kind::Token(_) | Kind::Text(_) | Kind::Inline(_) => self.take(1),
            Kind::Block(block) => self.take(VALUE + block.colored()),
            Kind::Numbers { .. } | Kind::Attachment(_) => self.take(VALUE),
            // Taken before its members.
            Kind::Tree { .. } => {}
        }
        JsonView {
            kind,
            at: String::new(),
        }
    }

    fn take(&mut self, elements: usize) {
        self.elements = self.elements.saturating_sub(elements);
    }

    fn numbers(&mut self, items: &[Json<'_>], pointer: &str) -> Kind {
        let mut numbers = String::new();
        let mut shown = 0;
        for item in items {
            let number = item.to_string();
            if numbers.len() + number.len() > NUMBERS || self.fold.is_full() {
                break;
            }
            if shown > 0 {
                numbers.push_str(", ");
            }
            numbers.push_str(&number);
            shown += 1;
        }
        self.fold.spend(&numbers);
        Kind::Numbers {
            summary: list_of(items.len()),
            numbers,
            more: self.more(items.len() - shown, pointer),
        }
    }

    fn more(&self, left: usize, pointer: &str) -> Option<More> {
        (left > 0).then(|| More {
            words: format!("{} not shown", format::counted(left, "more item")).into(),
            raw: self
                .fold
                .links
                .raw()
                .or_else(|| self.fold.links.value(pointer)),
        })
    }

    fn tree<'j>(
        &mut self,
        all: impl Iterator<Item = (String, &'j Json<'j>)>,
        len: usize,
        index: bool,
        pointer: &str,
        depth: usize,
    ) -> Kind {
        let mut members = Vec::new();
        self.take(CONTAINER);
        for (key, item) in all {
            if self.elements == 0 || self.fold.is_full() {
                break;
            }
            self.take(MEMBER);
            let at = format!("{pointer}/{}", token(&key));
            if key.len() > LONG_STRING {
                self.fold.spend(&key);
            }
            members.push(Member {
                key: key.into(),
                index,
                value: self.grow(item, &at, depth + 1),
            });
        }
        let more = self.more(len - members.len(), pointer);
        Kind::Tree {
            open: depth == 0 || (depth == 1 && len <= 12),
            summary: if index {
                list_of(len)
            } else {
                format::counted(len, "key")
            },
            members,
            more,
        }
    }
}

fn list_of(len: usize) -> String {
    format!("list of {}", format::counted(len, "item"))
}

/// Returns a container as one line, if it is small and none of its strings has a line break.
fn inline(value: &Json<'_>) -> Option<Line> {
    let mut room = INLINE;
    fits(value, &mut room).then(|| value.to_string().into())
}

/// Returns whether the compact text of `value` has at most `room` bytes. Stops at the first byte
/// too many.
fn fits(value: &Json<'_>, room: &mut usize) -> bool {
    match value {
        Json::Null | Json::Bool(_) => take(room, 5),
        Json::Number(raw) | Json::Deep(raw) => take(room, raw.len()),
        Json::String(text) => !text.contains('\n') && take(room, text.len() + 2),
        Json::Array(items) => {
            take(room, 2) && items.iter().all(|item| take(room, 2) && fits(item, room))
        }
        Json::Object(members) => {
            take(room, 2)
                && members
                    .iter()
                    .all(|(key, item)| take(room, key.len() + 6) && fits(item, room))
        }
    }
}

fn take(room: &mut usize, len: usize) -> bool {
    let left = room.checked_sub(len);
    *room = left.unwrap_or(0);
    left.is_some()
}

/// Escapes a key as one token of a JSON pointer (RFC 6901).
pub(crate) fn token(key: &str) -> String {
    key.replace('~', "~0").replace('/', "~1")
}

/// Returns the value at a JSON pointer. The last of several equal keys counts, as in [`Json::get`].
pub(crate) fn find<'v, 'a>(value: &'v Json<'a>, pointer: &str) -> Option<&'v Json<'a>> {
    if pointer.is_empty() {
        return Some(value);
    }
    pointer
        .strip_prefix('/')?
        .split('/')
        .try_fold(value, |at, raw| {
            let key = raw.replace("~1", "/").replace("~0", "~");
            match at {
                Json::Array(items) => items.get(key.parse::<usize>().ok()?),
                _ => at.get(&key),
            }
        })
}

#[cfg(test)]
mod tests {
    use crate::page::part::fold::ValueLinks;
    use crate::page::part::json_tree::*;

    fn show(text: &str) -> String {
        Fold::new(ValueLinks::default())
            .json(&Json::parse(text).unwrap(), "")
            .render()
            .unwrap()
    }

    #[test]
    fn numbers_and_keys_are_exact() {
        let html = show(
            r#"{"n": 1.10, "big": 12345678901234567890123, "n": 2, "note": "a text that is long enough for a line of its own"}"#,
        );
        assert!(
            html.contains(" 1.10<") && html.contains(" 12345678901234567890123<"),
            "{html}"
        );
        assert_eq!(html.matches(">n<").count(), 2, "{html}");
    }

    #[test]
    fn small_containers_stand_on_one_line() {
        assert!(show(r#"{"a": [1, 2]}"#).contains("{&#34;a&#34;: [1, 2]}"));
        assert!(!show(r#"{"a": [1, 2]}"#).contains("<details"));
        assert!(show(&format!("[{}1]", "1000,".repeat(40))).contains("list of 41 items"));
    }

    #[test]
    fn members_that_do_not_fit_are_counted_and_linked() {
        let json = format!("[{}null]", "null,".repeat(ELEMENTS / 3 + 99));
        let links = ValueLinks {
            value: "/v".into(),
            raw: "/raw".into(),
        };
        let html = Fold::new(links)
            .json(&Json::parse(&json).unwrap(), "")
            .render()
            .unwrap();
        assert!(html.contains("101 more items not shown"), "{html}");
        assert!(html.contains("href=\"/raw\""));
        assert_eq!(
            html.matches("<li").count(),
            ELEMENTS / 3,
            "the last is the note"
        );
    }

    #[test]
    fn numbers_are_one_paragraph() {
        let html = show(&format!("[{}-1.50e3]", "1000,".repeat(40)));
        assert!(html.contains("1000, -1.50e3"), "{html}");
        assert!(!html.contains("<li>"), "{html}");
        let many = show(&format!("[{}0]", "0,".repeat(99_999)));
        assert!(many.contains("0, 0"), "{many}");
        assert!(many.contains("more items not shown"), "{many}");
        assert!(many.len() < 2 * NUMBERS, "{}", many.len());
    }

    #[test]
    fn deep_values_render() {
        let html = show(&format!(
            "{}\"{}\"{}",
            "[".repeat(200),
            "x".repeat(90),
            "]".repeat(200)
        ));
        assert!(html.contains("xxx"));
    }

    #[test]
    fn pointers_find_what_trees_name() {
        let json = Json::parse(r#"{"a/b": [{"~k": 7}], "d": 1, "d": 2}"#).unwrap();
        assert_eq!(
            find(&json, &format!("/{}/0/{}", token("a/b"), token("~k"))),
            Some(&Json::Number("7"))
        );
        assert_eq!(find(&json, "/d"), Some(&Json::Number("2")));
        assert_eq!(find(&json, ""), Some(&json));
        assert!(
            find(&json, "/a~1b/1").is_none()
                && find(&json, "x").is_none()
                && find(&json, "/a~1b/0/~0k/z").is_none()
        );
    }

    #[test]
    fn hostile_keys_and_strings_are_text() {
        let evil = "<script>alert(1)</script></textarea>\u{202e}\u{0}\"'";
        let quoted = serde_json::to_string(evil).unwrap();
        let long = serde_json::to_string(&evil.repeat(90)).unwrap();
        for json in [
            quoted.clone(),
            long.clone(),
            format!("{{{quoted}: {quoted}}}"),
            format!("{{{quoted}: {long}, {quoted}: [{quoted}, {long}]}}"),
        ] {
            let html = show(&json);
            assert!(
                !html.contains("<script") && !html.contains("</textarea"),
                "{html}"
            );
            assert!(
                !html.contains('\u{202e}') && !html.contains('\u{0}'),
                "{html}"
            );
            assert!(html.contains("&#60;script&#62;"), "{html}");
        }
    }
}
