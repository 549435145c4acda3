//! Finds the watched values in a JSON document. Takes bytes in pieces that may end anywhere, and
//! passes on each watched value with its position.
//!
//! Skips everything else by counting brackets, without decoding. Holds at most one watched value.
//! If the value is longer than [`MAX_LINE_BYTES`], holds only its position. The caller checks
//! whether a value is valid JSON.

use memchr::{memchr_iter, memchr2};

use crate::model::json::walk;
use crate::model::{MAX_LINE_BYTES, Span};

/// Longer keys match no path.
const MAX_KEY_BYTES: usize = 256;

/// A scan of one document.
#[derive(Debug)]
pub(crate) struct Values {
    paths: &'static [&'static [&'static str]],
    /// The open objects and lists that a watched path leads into.
    frames: Vec<Frame>,
    state: State,
    /// The number of bytes before the current piece, and of newlines.
    offset: u64,
    lines: u64,
    /// Offsets in the current piece: the start of the open value's bytes, and the end of the part
    /// whose newlines are counted.
    kept: usize,
    counted: usize,
    key: Vec<u8>,
    open: Option<Open>,
    /// The end offset of the last watched value.
    end: u64,
    /// Whether only positions are needed, and no values.
    places_only: bool,
}

/// A watched value.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WatchedValue<'a> {
    /// The index of its path.
    pub path: usize,
    /// Its key, if the path matches any member of an object.
    pub key: &'a str,
    /// Its position in bytes.
    pub span: Span,
    /// The 1-based line where it starts.
    pub line: u64,
    /// Its bytes, or `None` if it's longer than [`MAX_LINE_BYTES`] or only positions are needed.
    pub bytes: Option<&'a [u8]>,
}

/// An open object or list on the way to watched values.
#[derive(Debug, Clone, Copy)]
struct Frame {
    is_list: bool,
    /// The paths that lead into it, one bit each.
    paths: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Before a value.
    Value,
    /// Before an item of a list, or its end.
    Item,
    /// Before a key, or the end of the object.
    Key,
    KeyText {
        escaped: bool,
    },
    Colon,
    /// After a value.
    After,
    /// In a string, or in an object or list that no path leads into.
    Inside {
        depth: u32,
        string: bool,
        escaped: bool,
    },
    /// In a number or a word.
    Scalar,
    Done,
    Broken,
}

/// A watched value that hasn't ended yet.
#[derive(Debug)]
struct Open {
    path: usize,
    key: String,
    start: u64,
    line: u64,
    bytes: Vec<u8>,
    is_too_long: bool,
}

impl Open {
    fn keep(&mut self, bytes: &[u8]) {
        self.is_too_long |= (self.bytes.len() + bytes.len()) as u64 > MAX_LINE_BYTES;
        if self.is_too_long {
            self.bytes = Vec::new();
        } else {
            self.bytes.extend_from_slice(bytes);
        }
    }
}

/// A mark that some editors and shells put before the text of a file.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

impl Values {
    /// Creates a scan for the values at `paths`, at most 64. `*` matches any item of a list, `{}`
    /// any member of an object.
    pub(crate) fn new(paths: &'static [&'static [&'static str]]) -> Self {
        Self {
            paths,
            frames: Vec::new(),
            state: State::Value,
            offset: 0,
            lines: 0,
            kept: 0,
            counted: 0,
            key: Vec::new(),
            open: None,
            end: 0,
            places_only: false,
        }
    }

    /// Sets the position of the document in its file: its offset, and the number of newlines before
    /// it. The reported positions are then those in the file.
    #[must_use]
    pub(crate) fn from(self, offset: u64, lines: u64) -> Self {
        Self {
            offset,
            lines,
            ..self
        }
    }

    /// Disables values. Only positions are reported.
    #[must_use]
    pub(crate) fn places_only(self) -> Self {
        Self {
            places_only: true,
            ..self
        }
    }

    /// Returns the offset and the line where an unfinished watched value starts.
    pub(crate) fn under_way(&self) -> Option<(u64, u64)> {
        self.open.as_ref().map(|open| (open.start, open.line))
    }

    /// Returns whether the document has ended.
    pub(crate) fn is_whole(&self) -> bool {
        self.state == State::Done
    }

    /// Returns whether it isn't a JSON document.
    pub(crate) fn is_broken(&self) -> bool {
        self.state == State::Broken
    }

    /// Returns the end offset of the last watched value.
    pub(crate) fn end(&self) -> u64 {
        self.end
    }

    /// Takes the next piece, and passes on the watched values that end in it.
    pub(crate) fn push(&mut self, piece: &[u8], mut on_value: impl FnMut(WatchedValue<'_>)) {
        (self.kept, self.counted) = (0, 0);
        let begins = self.offset == 0 && self.state == State::Value && self.frames.is_empty();
        let mut at = if begins && piece.starts_with(BYTE_ORDER_MARK) {
            BYTE_ORDER_MARK.len()
        } else {
            0
        };
        while let Some(byte) = piece
            .get(at)
            .copied()
            .filter(|_| self.state != State::Broken)
        {
            at = match self.state {
                State::Inside {
                    depth,
                    string,
                    escaped,
                } => self.inside(piece, at, (depth, string, escaped), &mut on_value),
                State::Scalar => self.scalar(piece, at, &mut on_value),
                State::KeyText { escaped } => {
                    self.key_text(byte, escaped);
                    at + 1
                }
                _ => {
                    self.mark(byte, piece, at);
                    at + 1
                }
            };
        }
        let rest = piece.get(self.kept..).unwrap_or_default();
        self.open.iter_mut().for_each(|open| open.keep(rest));
        self.count_lines(piece, piece.len());
        self.offset += piece.len() as u64;
    }

    /// Handles a byte between values.
    fn mark(&mut self, byte: u8, piece: &[u8], at: usize) {
        let is_list = self.frames.last().map(|frame| frame.is_list);
        self.state = match (self.state, byte) {
            (state, b' ' | b'\t' | b'\n' | b'\r') => state,
            (State::Item | State::After, b']') if is_list == Some(true) => return self.close(),
            (State::Key | State::After, b'}') if is_list == Some(false) => return self.close(),
            (State::After, b',') => match is_list {
                Some(true) => State::Item,
                Some(false) => State::Key,
                None => State::Broken,
            },
            (State::Key, b'"') => {
                self.key.clear();
                State::KeyText { escaped: false }
            }
            (State::Colon, b':') => State::Value,
            (State::Value | State::Item, _) => return self.begin(byte, piece, at),
            _ => State::Broken,
        };
    }

    fn close(&mut self) {
        self.frames.pop();
        self.state = self.behind();
    }

    /// Returns the state after a value.
    fn behind(&self) -> State {
        if self.frames.is_empty() {
            State::Done
        } else {
            State::After
        }
    }

    fn key_text(&mut self, byte: u8, escaped: bool) {
        self.state = match (byte, escaped) {
            (b'"', false) => State::Colon,
            _ => State::KeyText {
                escaped: byte == b'\\' && !escaped,
            },
        };
        if self.state != State::Colon && self.key.len() < MAX_KEY_BYTES {
            self.key.push(byte);
        }
    }

    /// Begins a value whose first byte is `byte`.
    fn begin(&mut self, byte: u8, piece: &[u8], at: usize) {
        let nested = matches!(byte, b'{' | b'[');
        let depth = self.frames.len();
        let paths = self.paths_to_value();
        let ends = |path: &usize| {
            paths & (1 << path) != 0 && self.paths.get(*path).is_some_and(|p| p.len() == depth)
        };
        let watched = (0..self.paths.len().min(64)).find(ends);
        if watched.is_none() && paths != 0 && nested {
            self.frames.push(Frame {
                is_list: byte == b'[',
                paths,
            });
            self.state = if byte == b'[' {
                State::Item
            } else {
                State::Key
            };
            return;
        }
        if let Some(path) = watched {
            self.count_lines(piece, at);
            let start = self.offset + at as u64;
            let (line, is_too_long) = (self.lines + 1, self.places_only);
            let key = if self.ends_open(path) {
                self.key_text_now()
            } else {
                String::new()
            };
            self.open = Some(Open {
                path,
                key,
                start,
                line,
                bytes: Vec::new(),
                is_too_long,
            });
            self.kept = at;
        }
        self.state = match byte {
            b'{' | b'[' => State::Inside {
                depth: 1,
                string: false,
                escaped: false,
            },
            b'"' => State::Inside {
                depth: 0,
                string: true,
                escaped: false,
            },
            b'-' | b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z' => State::Scalar,
            _ => State::Broken,
        };
    }

    /// Returns the paths that lead to or beyond the value that begins now.
    fn paths_to_value(&self) -> u64 {
        let Some(frame) = self.frames.last() else {
            return u64::MAX;
        };
        let place = self.frames.len() - 1;
        let decoded = self.key.contains(&b'\\').then(|| self.key_text_now());
        let key = decoded.as_deref().map_or(&*self.key, str::as_bytes);
        let leads = |path: &&'static [&'static str]| match path.get(place) {
            Some(&"*") => frame.is_list,
            Some(&"{}") => !frame.is_list,
            Some(name) => !frame.is_list && name.as_bytes() == key,
            None => false,
        };
        let paths = self
            .paths
            .iter()
            .take(64)
            .enumerate()
            .filter(|(_, path)| leads(path));
        paths.fold(0, |all, (at, _)| all | 1 << at) & frame.paths
    }

    /// Returns whether a path ends with any member of an object.
    fn ends_open(&self, path: usize) -> bool {
        self.paths.get(path).and_then(|path| path.last()) == Some(&"{}")
    }

    /// Returns the last key.
    fn key_text_now(&self) -> String {
        let key = String::from_utf8_lossy(&self.key);
        walk::string(&format!("\"{key}\""))
            .map_or_else(|| key.clone().into_owned(), std::borrow::Cow::into_owned)
    }

    /// Skips bytes of a value that no path leads into. Returns the position to continue at.
    fn inside(
        &mut self,
        piece: &[u8],
        mut at: usize,
        (mut depth, mut string, mut escaped): (u32, bool, bool),
        on_value: &mut impl FnMut(WatchedValue<'_>),
    ) -> usize {
        while let Some(rest) = piece.get(at..).filter(|rest| !rest.is_empty()) {
            if escaped {
                (escaped, at) = (false, at + 1);
            } else if string {
                let Some(found) = memchr2(b'"', b'\\', rest) else {
                    at = piece.len();
                    break;
                };
                at += found + 1;
                (string, escaped) = match rest.get(found) {
                    Some(b'"') => (false, false),
                    _ => (true, true),
                };
                if !string && depth == 0 {
                    return self.ended(piece, at, on_value);
                }
            } else {
                let mark = |byte: &u8| matches!(byte, b'"' | b'{' | b'[' | b'}' | b']');
                let Some(found) = rest.iter().position(mark) else {
                    at = piece.len();
                    break;
                };
                at += found + 1;
                match rest.get(found) {
                    Some(b'"') => string = true,
                    Some(b'{' | b'[') => depth = depth.saturating_add(1),
                    _ => depth = depth.saturating_sub(1),
                }
                if depth == 0 && !string {
                    return self.ended(piece, at, on_value);
                }
            }
        }
        self.state = State::Inside {
            depth,
            string,
            escaped,
        };
        at
    }

    fn scalar(
        &mut self,
        piece: &[u8],
        at: usize,
        on_value: &mut impl FnMut(WatchedValue<'_>),
    ) -> usize {
        let ends = |byte: &u8| {
            matches!(
                byte,
                b',' | b'}' | b']' | b' ' | b'\t' | b'\n' | b'\r' | b':' | b'"'
            )
        };
        match piece.get(at..).unwrap_or_default().iter().position(ends) {
            Some(len) => self.ended(piece, at + len, on_value),
            None => piece.len(),
        }
    }

    /// Ends a value before `at`.
    fn ended(
        &mut self,
        piece: &[u8],
        at: usize,
        on_value: &mut impl FnMut(WatchedValue<'_>),
    ) -> usize {
        self.state = self.behind();
        if let Some(mut open) = self.open.take() {
            open.keep(piece.get(self.kept..at).unwrap_or_default());
            self.end = self.offset + at as u64;
            on_value(WatchedValue {
                path: open.path,
                key: &open.key,
                span: Span {
                    offset: open.start,
                    len: self.end - open.start,
                },
                line: open.line,
                bytes: Some(&*open.bytes).filter(|_| !open.is_too_long),
            });
        }
        at
    }

    fn count_lines(&mut self, piece: &[u8], to: usize) {
        let new = piece.get(self.counted..to).unwrap_or_default();
        self.lines += memchr_iter(b'\n', new).count() as u64;
        self.counted = to;
    }
}

/// Returns the members of the object at the start of a text. The last member may be incomplete.
/// Keys keep their quotes.
pub(super) fn begun(head: &[u8]) -> Vec<(&str, &str)> {
    let whole = match std::str::from_utf8(head) {
        Ok(text) => text,
        Err(error) => head
            .get(..error.valid_up_to())
            .and_then(|head| std::str::from_utf8(head).ok())
            .unwrap_or_default(),
    };
    walk::begun(whole)
}

/// Returns whether the object at the start of a text has these members.
pub(super) fn has_begun(head: &[u8], wanted: &[&str]) -> bool {
    let keys = begun(head);
    wanted
        .iter()
        .all(|wanted| keys.iter().any(|(key, _)| key.trim_matches('"') == *wanted))
}

/// Returns a member of an object that may be truncated. `key` includes its quotes.
pub(super) fn begun_member<'a>(object: &'a str, key: &str) -> Option<&'a str> {
    begun(object.as_bytes())
        .into_iter()
        .find(|(name, _)| *name == key)
        .map(|(_, value)| value)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATHS: &[&[&str]] = &[
        &["steps", "*"],
        &["info"],
        &["sub", "*", "steps", "*"],
        &["odd\"key"],
    ];
    const TEXT: &str = r#" {"info" : {"a": "]}\"", "b": [1]},
 "skip": [{"steps": [1]}, "x\\", -1.5e3, null],
 "steps": [{"n": 1},
   "two", 3 , [4, {"5": "\u00e9"}]], "sub": [{"x": {}, "steps": [{}, true]}, 7, []], "odd\"key":false}
"#;

    type Seen = Vec<(usize, Span, u64, String)>;

    fn values(pieces: &[&[u8]]) -> (Seen, Values) {
        let (mut seen, mut values) = (Vec::new(), Values::new(PATHS));
        for piece in pieces {
            values.push(piece, |found| {
                let text = String::from_utf8_lossy(found.bytes.unwrap_or_default()).into_owned();
                seen.push((found.path, found.span, found.line, text));
            });
        }
        (seen, values)
    }

    #[test]
    fn a_byte_order_mark_before_the_document_is_skipped() {
        let marked = [BYTE_ORDER_MARK, TEXT.as_bytes()].concat();
        let (seen, values) = values(&[&marked]);
        assert!(values.is_whole() && seen.len() == self::values(&[TEXT.as_bytes()]).0.len());
        assert_eq!(
            seen[0].1.offset,
            self::values(&[TEXT.as_bytes()]).0[0].1.offset + 3
        );
    }

    #[test]
    fn watched_values_and_their_places() {
        let (seen, done) = values(&[TEXT.as_bytes()]);
        assert!(done.is_whole());
        let texts: Vec<(usize, u64, &str)> = seen
            .iter()
            .map(|(path, _, line, text)| (*path, *line, &**text))
            .collect();
        let expected = [
            (1, 1, r#"{"a": "]}\"", "b": [1]}"#),
            (0, 3, r#"{"n": 1}"#),
            (0, 4, r#""two""#),
            (0, 4, "3"),
            (0, 4, r#"[4, {"5": "\u00e9"}]"#),
            (2, 4, "{}"),
            (2, 4, "true"),
            (3, 4, "false"),
        ];
        assert_eq!(texts, expected);
        for (_, span, _, text) in &seen {
            let start = usize::try_from(span.offset).unwrap();
            assert_eq!(&TEXT[start..start + text.len()], text);
        }
    }

    #[test]
    fn truncated_and_invalid_documents_are_detected() {
        let (all, _) = values(&[TEXT.as_bytes()]);
        for cut in 0..TEXT.trim_end().len() {
            let (seen, cut) = values(&[&TEXT.as_bytes()[..cut]]);
            assert!(!cut.is_whole() && !cut.is_broken());
            assert_eq!(seen, all[..seen.len()]);
        }
        for text in [
            "{} x",
            "{\"info\" 1}",
            "}",
            "{\"steps\": [1}",
            "[1, 2}",
            "{,}",
        ] {
            assert!(values(&[text.as_bytes()]).1.is_broken(), "{text}");
        }
    }

    #[test]
    fn an_oversized_value_has_only_a_position() {
        let long = format!(
            "{{\"info\": \"{}\", \"steps\": [1]}}",
            "x".repeat(MAX_LINE_BYTES as usize)
        );
        let mut seen = Vec::new();
        let mut values = Values::new(PATHS);
        for piece in long.as_bytes().chunks(1 << 20) {
            values.push(piece, |found| {
                seen.push((found.span.len, found.bytes.map(<[u8]>::len)))
            });
            assert!(
                values
                    .open
                    .as_ref()
                    .is_none_or(|open| open.bytes.len() as u64 <= MAX_LINE_BYTES)
            );
        }
        assert_eq!(seen, [(MAX_LINE_BYTES + 2, None), (1, Some(1))]);
    }

    #[test]
    fn the_beginning_of_a_document() {
        let head = br#"{"schema": "A", "steps": [{"a": 1}, {"b"#;
        assert_eq!(
            begun(head),
            [("\"schema\"", "\"A\""), ("\"steps\"", r#"[{"a": 1}, {"b"#)]
        );
        assert_eq!(begun(br#"{"a": 1}"#), [("\"a\"", "1")]);
        assert_eq!(
            begun(b"[1]").len() + begun(b"").len() + begun(b"{\"a").len() + begun(b"\xff").len(),
            0
        );
    }

    proptest::proptest! {
        #[test]
        fn pieces_make_no_difference(cuts in proptest::collection::vec(0..TEXT.len(), 0..20)) {
            let mut cuts = cuts;
            cuts.extend([0, TEXT.len()]);
            cuts.sort_unstable();
            let pieces: Vec<&[u8]> = cuts.windows(2).map(|pair| &TEXT.as_bytes()[pair[0]..pair[1]]).collect();
            let ((pieced, _), (whole, _)) = (values(&pieces), values(&[TEXT.as_bytes()]));
            proptest::prop_assert_eq!(pieced, whole);
        }

        #[test]
        fn any_bytes_are_taken(text in "[\\[\\]{}\",:\\\\ a1\n]{0,60}", cut in 0_usize..60) {
            let bytes = text.as_bytes();
            let (first, second) = bytes.split_at(cut.min(bytes.len()));
            let ((pieced, _), (whole, _)) = (values(&[first, second]), values(&[bytes]));
            proptest::prop_assert_eq!(pieced, whole);
        }
    }
}
