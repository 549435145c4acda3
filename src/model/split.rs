//! Finds the complete records on a line that isn't one JSON object.
//!
//! A killed writer leaves a line without a line terminator, and the next writer appends its record
//! to that line. The torn record ends inside a string or where no value can begin, so an object
//! there is a separate record. Where a value is expected, an object is part of the torn record
//! unless the caller recognizes it as a record by its members.

use super::issue::{IssueKind, Remark};
use super::json::Json;
use super::repair::repair;

/// Maximum number of records that are read from one line.
const MAX_PIECES: usize = 32 << 10;
/// The search reads at most this many times the length of the line, and at least [`MIN_BUDGET`]
/// bytes.
const BUDGET: usize = 16;
const MIN_BUDGET: usize = 1 << 20;
/// Maximum number of positions that are tried in a truncated text.
const MAX_RESTARTS: usize = 32;

/// A complete record on a line that also holds something else.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Piece {
    /// The offset of its first byte in the line.
    pub from: usize,
    /// One past its last byte.
    pub to: usize,
    /// Remarks on the line at this piece.
    pub remarks: Vec<Remark>,
}

/// Returns the complete records on `line`, in order. The list is empty if there aren't any.
///
/// `is_record` decides by an object's members whether it's a record. This matters for objects where
/// a value is expected.
pub fn split(line: &[u8], is_record: impl Fn(&str) -> bool) -> Vec<Piece> {
    let mut pieces: Vec<Piece> = Vec::new();
    let mut search = Search {
        line,
        budget: line.len().saturating_mul(BUDGET).max(MIN_BUDGET),
        is_record,
    };
    let mut at = 0;
    while let Some((from, to)) = search.next_from(at) {
        let mut remarks = Vec::new();
        if let Some(torn) = Torn::of(line.get(at..from)) {
            remarks.push((IssueKind::Torn, torn.before()));
        }
        pieces.push(Piece { from, to, remarks });
        at = to;
        if pieces.len() == MAX_PIECES {
            break;
        }
    }
    let count = pieces.len();
    if let Some(first) = pieces.first_mut().filter(|_| count > 1) {
        let rest = line.get(first.to..).unwrap_or_default();
        let how = if rest.trim_ascii_start().len() < rest.len() && rest.starts_with(b"\r") {
            ", separated by CR"
        } else {
            ""
        };
        first.remarks.push((
            IssueKind::Joined,
            format!("this line contains {count} complete records{how}"),
        ));
    }
    if let (Some(last), Some(torn)) = (pieces.last_mut(), Torn::of(line.get(at..))) {
        last.remarks.push((IssueKind::Torn, torn.behind()));
    }
    pieces
}

/// The bytes of a line that belong to no complete record.
struct Torn {
    bytes: usize,
    are_nul: bool,
}

impl Torn {
    /// Returns `None` if there's only white space and byte order marks.
    fn of(bytes: Option<&[u8]>) -> Option<Self> {
        let bytes = bytes?;
        let rest = bytes.strip_prefix("\u{feff}".as_bytes()).unwrap_or(bytes);
        let are_nul = rest
            .iter()
            .all(|byte| *byte == 0 || byte.is_ascii_whitespace());
        (!rest.trim_ascii().is_empty()).then_some(Self {
            bytes: bytes.len(),
            are_nul,
        })
    }

    fn before(&self) -> String {
        match (self.are_nul, self.bytes) {
            (true, 1) => "1 NUL byte comes before this record on the same line".to_owned(),
            (true, bytes) => format!("{bytes} NUL bytes come before this record on the same line"),
            (false, 1) => {
                "1 byte of an incomplete record comes before this one on the same line".to_owned()
            }
            (false, bytes) => {
                format!(
                    "{bytes} bytes of an incomplete record come before this one on the same line"
                )
            }
        }
    }

    fn behind(&self) -> String {
        match (self.are_nul, self.bytes) {
            (true, 1) => "1 NUL byte follows this record on the same line".to_owned(),
            (true, bytes) => format!("{bytes} NUL bytes follow this record on the same line"),
            (false, 1) => {
                "1 byte follows this record on the same line but isn't a complete record".to_owned()
            }
            (false, bytes) => format!(
                "{bytes} bytes follow this record on the same line but aren't a complete record"
            ),
        }
    }
}

/// A search through one line. The budget bounds it, because a hostile line may begin an object at
/// every byte.
struct Search<'a, F> {
    line: &'a [u8],
    budget: usize,
    is_record: F,
}

impl<F: Fn(&str) -> bool> Search<'_, F> {
    /// Returns the range of the first complete record that begins at or after `start`.
    fn next_from(&mut self, start: usize) -> Option<(usize, usize)> {
        let (line, blank) = (self.line, |byte: &u8| {
            *byte == 0 || byte.is_ascii_whitespace()
        });
        let mark = "\u{feff}".as_bytes();
        let start = if line.get(start..)?.starts_with(mark) {
            start + mark.len()
        } else {
            start
        };
        let start = start + line.get(start..)?.iter().position(|byte| !blank(byte))?;
        if line.get(start) == Some(&b'{')
            && let Some((end, _)) = self.object_at(start)
        {
            return Some((start, end));
        }
        self.behind_stub(start)
    }

    /// Returns the range of the first complete record after the torn text at `start`.
    fn behind_stub(&mut self, start: usize) -> Option<(usize, usize)> {
        let torn = self.line.get(start..)?;
        let mut before = 0;
        for (at, is_between) in begins(torn) {
            self.budget = self.budget.checked_sub(at - before)?;
            before = at;
            if let Some((end, is_known)) = self.object_at(start + at)
                && (is_between || is_known)
                && self.may_end_at(end)
            {
                return Some((start + at, end));
            }
        }
        None
    }

    /// Returns the end of the object at `start`, if it's complete, and whether its members are
    /// those of a record.
    fn object_at(&mut self, start: usize) -> Option<(usize, bool)> {
        let end = self.end_of(start)?;
        let bytes = self.line.get(start..end)?;
        self.budget = self.budget.checked_sub(bytes.len())?;
        match std::str::from_utf8(bytes)
            .ok()
            .filter(|text| Json::is_json(text))
        {
            Some(text) => Some((end, (self.is_record)(text))),
            None => {
                let (text, repairs) = repair(bytes);
                (!repairs.is_empty() && Json::is_json(&text))
                    .then(|| (end, (self.is_record)(&text)))
            }
        }
    }

    /// Returns one past the brace that closes the one at `start`.
    fn end_of(&mut self, start: usize) -> Option<usize> {
        let (mut depth, mut in_string, mut is_escaped) = (0_usize, false, false);
        for (at, byte) in self.line.iter().enumerate().skip(start) {
            self.budget = self.budget.checked_sub(1)?;
            match byte {
                _ if is_escaped => is_escaped = false,
                b'\\' if in_string => is_escaped = true,
                b'"' => in_string = !in_string,
                _ if in_string => {}
                b'{' | b'[' => depth += 1,
                b'}' | b']' => {
                    depth = depth.checked_sub(1)?;
                    if depth == 0 {
                        return Some(at + 1);
                    }
                }
                _ => {}
            }
        }
        None
    }

    /// Returns whether a record after a stub may end at `end`. If a closing bracket or anything
    /// else but a new object follows, it's part of the stub.
    fn may_end_at(&self, end: usize) -> bool {
        let rest = self.line.get(end..).unwrap_or_default();
        rest.iter()
            .find(|byte| !byte.is_ascii_whitespace())
            .is_none_or(|byte| matches!(byte, b'{' | 0))
    }
}

/// Returns the offsets at which an object may begin in a torn or truncated text, except the first
/// byte. The flag is whether the offset is inside a string or where no value can begin.
fn begins(torn: &[u8]) -> impl Iterator<Item = (usize, bool)> {
    // Whether a value may begin here, and the open objects and lists, innermost last.
    let (mut is_value_next, mut open) = (false, Vec::new());
    let (mut in_string, mut is_escaped) = (false, false);
    torn.iter().enumerate().filter_map(move |(at, byte)| {
        // A brace after a backslash isn't an escape: the string was truncated there.
        let is_begin = *byte == b'{' && at > 0 && matches!(torn.get(at + 1), Some(b'"' | b' '));
        let found = is_begin.then_some((at, in_string || !is_value_next));
        if in_string {
            (in_string, is_escaped) = match byte {
                _ if is_escaped => (true, false),
                b'\\' => (true, true),
                b'"' => (false, false),
                _ => (true, false),
            };
            return found;
        }
        match byte {
            b'{' | b'[' => {
                open.push(*byte);
                is_value_next = *byte == b'[';
            }
            b'}' | b']' => {
                open.pop();
                is_value_next = false;
            }
            b'"' => (in_string, is_value_next) = (true, false),
            b':' => is_value_next = true,
            b',' => is_value_next = open.last() == Some(&b'['),
            byte if byte.is_ascii_whitespace() => {}
            _ => is_value_next = false,
        }
        found
    })
}

/// Returns the offsets at which a record may begin after a torn one in a truncated text.
pub fn restarts(text: &[u8]) -> impl Iterator<Item = usize> {
    begins(text).map(|(at, _)| at).take(MAX_RESTARTS)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(line: &str) -> Vec<&str> {
        let is_record = |text: &str| text.starts_with("{\"type\"") && text.contains("\"uuid\"");
        split(line.as_bytes(), is_record)
            .iter()
            .map(|piece| &line[piece.from..piece.to])
            .collect()
    }

    #[test]
    fn the_complete_record_is_found_wherever_the_one_before_it_is_torn() {
        let whole =
            r#"{"type":"assistant","message":{"content":[{"text":"a {\"b\":1}"}]},"uuid":"1"}"#;
        let stubs = [
            r#"{"type":"assi"#,
            r#"{"type":"pr-link","sessionId":"x","prNu"#,
            r#"{"type":"user","n":12"#,
            r#"{"type":"user","message":{"content":[{"text":"x"}"#,
            r#"{"type""#,
            r#"{"a":"b \\"#,
            r#"{"a":"b \"#,
            r#"{"a":"b","c":tru"#,
            r#"{"one":"tor{"two":"tor"#,
            r#"{"type":"user","message":"#,
            r#"{"type":"user","list":["#,
            r#"{"type":"user","list":[1, "#,
            "{",
            "garbage",
            "\0\0",
        ];
        for stub in stubs {
            assert_eq!(texts(&format!("{stub}{whole}")), [whole], "{stub}");
            assert_eq!(
                texts(&format!("{whole}{stub}{whole}")),
                [whole, whole],
                "{stub}"
            );
        }
    }

    #[test]
    fn a_nested_object_of_a_torn_record_is_no_record() {
        let torn = [
            r#"{"type":"user","message":{"role":"user","content":"x"}"#,
            r#"{"type":"user","list":[{"a":1},{"b":2}"#,
            r#"{"type":"user","message":{"text":"braces {"},"b":{"c":1}"#,
            r#"{"type":"user,"message":{"role":"user","content":"x"},"uuid":"1"}"#,
            r#"{"type":"user,"n":1,"message":{"role":"user"}}"#,
            r#"{"type":"assi"#,
            "",
            "{",
        ];
        for line in torn {
            assert_eq!(texts(line), [""; 0], "{line}");
        }
    }

    #[test]
    fn complete_records_on_one_line_have_their_own_places() {
        let line = b"{\"a\":NaN}{\"b\":\"}\"}\r{\"c\":[{}]}\0\0";
        let pieces = split(line, |_| false);
        let places: Vec<_> = pieces.iter().map(|piece| (piece.from, piece.to)).collect();
        assert_eq!(places, [(0, 9), (9, 18), (19, 29)]);
        let remarks: Vec<_> = pieces.into_iter().flat_map(|piece| piece.remarks).collect();
        assert_eq!(
            remarks,
            [
                (
                    IssueKind::Joined,
                    "this line contains 3 complete records".to_owned()
                ),
                (
                    IssueKind::Torn,
                    "2 NUL bytes follow this record on the same line".to_owned()
                ),
            ]
        );
    }

    #[test]
    fn garbage_after_a_complete_record_leaves_it_complete() {
        for garbage in ["}", ",", "xy", "{\"b\":", "\0", "null"] {
            assert_eq!(
                texts(&format!("{{\"a\":1}}{garbage}")),
                ["{\"a\":1}"],
                "{garbage}"
            );
        }
    }

    #[test]
    fn a_hostile_line_ends_the_search() {
        let line = "{\"a\":\"".repeat(1 << 17);
        assert_eq!(texts(&line), [""; 0]);
    }

    proptest::proptest! {
        #[test]
        fn no_bytes_panic(bytes: Vec<u8>) {
            let _ = split(&bytes, |_| true);
        }
    }
}
