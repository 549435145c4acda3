//! Splits the Markdown of a history into records: what the user, the model and the program said.
//!
//! The lines of the user begin with `#### `, those of the program with `> `, and both end with two
//! spaces. Everything else is the model's. A text of the model that looks like one of the others is read
//! as such: the history doesn't say who wrote a line. Must not know what the records mean.

use crate::format::Rewrite;
use crate::format::part::quoted;

/// How a session begins. Its local time follows.
const STARTS: &str = "# aider chat started at ";
const USER: &str = "#### ";
const PROGRAM: &str = "> ";
/// How the lines of the user and the program end.
const BREAK: &str = "  ";
/// How the first line of a message of the program begins and ends that has further lines.
const FAILED_EDITS: [(&str, &str); 2] = [
    ("> # ", "failed to match!"),
    ("> UnifiedDiff", "hunk failed to apply!"),
];
/// Longer records are cut; bytes.
const MAX_RECORD_BYTES: usize = 4 << 20;

/// Returns the time with which a line begins a session: `2026-05-04 09:00:00`.
pub(super) fn started(line: &[u8]) -> Option<String> {
    let time = std::str::from_utf8(line).ok()?.strip_prefix(STARTS)?;
    let time = time.trim_end();
    let is_time = time.len() == 19
        && time
            .bytes()
            .zip(b"0000-00-00 00:00:00")
            .all(|(byte, form)| match form {
                b'0' => byte.is_ascii_digit(),
                form => byte == *form,
            });
    is_time.then(|| time.to_owned())
}

/// Returns whether a line is one of the user.
pub(super) fn is_said(line: &[u8]) -> bool {
    line.starts_with(USER.as_bytes())
}

/// Who wrote a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Who {
    User,
    Program,
    Model,
}

impl Who {
    fn word(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Program => "aider",
            Self::Model => "assistant",
        }
    }
}

/// A session whose lines are being read.
#[derive(Debug, Default)]
pub(super) struct History {
    /// The record so far.
    open: Option<(Who, String)>,
    /// Whether further lines belong to a message of the program: those without a mark, or those with
    /// one. Versions differ.
    is_unmarked: bool,
    is_marked: bool,
    has_records: bool,
    /// Whether anything follows the start.
    is_begun: bool,
    /// Whether the record so far has no room for further lines, and whether it lacks something.
    is_full: bool,
    is_cut: bool,
}

impl Rewrite for History {
    fn line(&mut self, line: &str, is_cut: bool, out: &mut Vec<u8>) {
        self.take(line, out);
        self.is_cut |= is_cut && self.open.is_some();
    }

    fn end(&mut self, out: &mut Vec<u8>) {
        self.close(out);
        if !self.has_records {
            out.extend_from_slice(b"{\"records\":[");
        }
        out.extend_from_slice(b"]}");
    }
}

impl History {
    fn take(&mut self, line: &str, out: &mut Vec<u8>) {
        if !self.has_records
            && self.open.is_none()
            && let Some(time) = started(line.as_bytes())
        {
            let time = quoted(&time.replace(' ', "T"));
            return self.write(&format!("\"role\":\"start\",\"started\":{time}"), out);
        }
        let said = line
            .strip_prefix(USER)
            .and_then(|words| words.strip_suffix(BREAK));
        if self.is_unmarked {
            let is_last = line.ends_with(BREAK) || said.is_some();
            self.is_unmarked = !is_last;
            if said.is_none() {
                return self.add(Who::Program, line.trim_end(), true, out);
            }
        }
        if let Some(words) = said {
            return self.add(Who::User, words, true, out);
        }
        let marked = line
            .strip_prefix(PROGRAM)
            .filter(|_| line.ends_with(BREAK))
            .map(str::trim_end);
        // The first message is the command line, with all lines of its prompt.
        if !self.is_begun && marked.is_none() && line.starts_with(PROGRAM) {
            self.is_unmarked = true;
            let words = line.strip_prefix(PROGRAM).unwrap_or(line);
            return self.add(Who::Program, words, false, out);
        }
        let is_failed_edit = FAILED_EDITS
            .iter()
            .any(|(begins, ends)| line.starts_with(begins) && line.trim_end().ends_with(ends));
        let continues = std::mem::replace(&mut self.is_marked, false);
        match marked {
            Some(words) => {
                self.is_marked = is_failed_edit || continues;
                self.add(Who::Program, words, continues, out);
            }
            None if is_failed_edit => {
                self.is_unmarked = true;
                let words = line.strip_prefix(PROGRAM).unwrap_or(line);
                self.add(Who::Program, words, false, out);
            }
            None => self.add(Who::Model, line, true, out),
        }
    }

    /// Adds a line to the record of `who`, or to a new one.
    fn add(&mut self, who: Who, line: &str, may_continue: bool, out: &mut Vec<u8>) {
        let continues = may_continue && self.open.as_ref().is_some_and(|(open, _)| *open == who);
        if !continues {
            self.close(out);
            // Blank lines separate records.
            if who != Who::User && line.trim().is_empty() {
                return;
            }
            self.open = Some((who, String::new()));
            self.is_begun = true;
        }
        if let Some((_, text)) = &mut self.open {
            self.is_full |= text.len() + line.len() >= MAX_RECORD_BYTES;
            self.is_cut |= self.is_full;
            if !self.is_full {
                text.push_str(line);
                text.push('\n');
            }
        }
    }

    fn close(&mut self, out: &mut Vec<u8>) {
        let Some((who, text)) = self.open.take() else {
            return;
        };
        let words = quoted(text.trim_end());
        self.is_full = false;
        let cut = match std::mem::take(&mut self.is_cut) {
            true => ",\"cut\":true",
            false => "",
        };
        self.write(
            &format!("\"role\":\"{}\",\"content\":{words}{cut}", who.word()),
            out,
        );
    }

    fn write(&mut self, members: &str, out: &mut Vec<u8>) {
        let before: &[u8] = if self.has_records {
            b",\n"
        } else {
            b"{\"records\":[\n"
        };
        self.has_records = true;
        out.extend_from_slice(before);
        out.extend_from_slice(format!("{{{members}}}").as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::json::Json;

    /// Returns the document of these lines: who wrote what.
    fn records(text: &str) -> Vec<String> {
        let (mut history, mut out) = (History::default(), Vec::new());
        text.lines()
            .for_each(|line| history.line(line, false, &mut out));
        history.end(&mut out);
        let out = String::from_utf8(out).unwrap();
        let document = Json::parse(&out).unwrap();
        let list = document.get("records").and_then(Json::as_array).unwrap();
        let of = |record: &Json<'_>, key: &str| {
            let text = record.get(key).and_then(Json::as_str);
            text.map(str::to_owned)
        };
        list.iter()
            .map(|record| {
                let said = of(record, "content").or(of(record, "started"));
                format!("{}: {}", of(record, "role").unwrap(), said.unwrap())
            })
            .collect()
    }

    #[test]
    fn a_command_line_has_the_lines_of_its_prompt() {
        let text = "# aider chat started at 2026-05-04 09:00:00\n\n> aider --message One\n\ntwo notes.txt  \n> Aider v0.86.2  \n\n#### One  \n#### two  \n\nText.\n";
        assert_eq!(
            records(text),
            [
                "start: 2026-05-04T09:00:00",
                "aider: aider --message One\n\ntwo notes.txt",
                "aider: Aider v0.86.2",
                "user: One\ntwo",
                "assistant: Text.",
            ]
        );
    }

    #[test]
    fn a_line_belongs_to_who_its_mark_names() {
        let text = "# aider chat started at 2026-05-04 09:00:00\n\n> One.  \n> Two.  \n\n#### a  \n#### b  \n\nText.\n\n> Quote.\n#### Title\n\n>  \n> Tokens: 1.  \n";
        assert_eq!(
            records(text),
            [
                "start: 2026-05-04T09:00:00",
                "aider: One.",
                "aider: Two.",
                "user: a\nb",
                "assistant: Text.\n\n> Quote.\n#### Title",
                "aider: Tokens: 1.",
            ]
        );
        assert_eq!(records(""), Vec::<String>::new());
    }

    #[test]
    fn a_message_about_blocks_that_do_not_match_has_further_lines() {
        let first = "# 2 SEARCH/REPLACE blocks failed to match!";
        let text = format!("> {first}\n\na\n> b  \nText.\n");
        assert_eq!(
            records(&text),
            [
                format!("aider: {first}\n\na\n> b"),
                "assistant: Text.".into()
            ]
        );
        let text = format!("> {first}  \n> a  \n>  \n> b  \n\n> c  \n");
        assert_eq!(
            records(&text),
            [format!("aider: {first}\na\n\nb"), "aider: c".into()]
        );
    }

    #[test]
    fn a_record_that_is_too_long_ends_early_and_says_so() {
        let (mut history, mut out) = (History::default(), Vec::new());
        let long = "x".repeat(MAX_RECORD_BYTES);
        for line in ["a", &long, "b", "> c  "] {
            history.line(line, false, &mut out);
        }
        history.end(&mut out);
        let out = String::from_utf8(out).unwrap();
        let first = r#"{"role":"assistant","content":"a","cut":true}"#;
        assert!(out.contains(first), "{out}");
        assert!(out.contains(r#"{"role":"aider","content":"c"}"#), "{out}");
        let (mut history, mut out) = (History::default(), Vec::new());
        for (line, is_cut) in [("a", false), ("b", true), ("c", false)] {
            history.line(line, is_cut, &mut out);
        }
        history.end(&mut out);
        let out = String::from_utf8(out).unwrap();
        let whole = r#"{"role":"assistant","content":"a\nb\nc","cut":true}"#;
        assert!(out.contains(whole), "{out}");
    }

    #[test]
    fn only_a_time_begins_a_session() {
        let name = |line: &str| started(line.as_bytes());
        let time = "2026-05-04 09:00:00";
        assert_eq!(name(&format!("{STARTS}{time}\r\n")).as_deref(), Some(time));
        for line in [
            "noon",
            "2026-05-04",
            "2026-05-04 09:00:0x",
            "2026-05-04 09:00:000",
        ] {
            assert_eq!(name(&format!("{STARTS}{line}")), None);
        }
    }
}
