//! Folds an error message: replaces what varies between two occurrences of one error, so that the
//! errors of many runs can be counted by message.
//!
//! | folded | as | stays |
//! |---|---|---|
//! | numbers, sizes, versions | `‹n›` | exit codes, HTTP statuses, `errno`, signals, codes such as `E0308`, digits in names such as `python3` |
//! | durations, dates, times of day | `‹time›` | |
//! | paths, with the line and column after them | `‹path›` | in `tests/test_a.py::test_b`, the names of the file and the test |
//! | URLs, hosts, IP and e-mail addresses | `‹address›` | |
//! | UUIDs, hashes, pointers, ids of calls and requests | `‹id›` | |
//! | names of models | `‹model›` | |
//! | other quoted text | `‹text›` | keys, the message in an object such as `{"error": "…"}`, and the text if the message has no other words |
//!
//! Names that aren't quoted stay, because they often are the cause: `jq: command not found`. Lists count as one item, and what a test run
//! passed or skipped isn't part of its failure.
//!
//! Must not know which tool printed the message.

use std::borrow::Cow;

use super::super::names::cut_at;

/// Only this much of a message is read; bytes.
const MAX_READ: usize = 2_048;
/// A folded message is truncated to this many bytes.
pub(crate) const MAX_FOLDED: usize = 200;

/// The placeholder for a part of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Folded {
    /// A number.
    Number,
    /// A time or a duration.
    Time,
    /// A path.
    Path,
    /// An address.
    Address,
    /// An id or a hash.
    Id,
    /// A model.
    Model,
    /// A quoted text.
    Text,
}

impl Folded {
    const ALL: [Self; 7] = [
        Self::Number,
        Self::Time,
        Self::Path,
        Self::Address,
        Self::Id,
        Self::Model,
        Self::Text,
    ];

    /// Returns the word between `‹` and `›`.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Number => "n",
            Self::Time => "time",
            Self::Path => "path",
            Self::Address => "address",
            Self::Id => "id",
            Self::Model => "model",
            Self::Text => "text",
        }
    }
}

/// A part of a folded message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part<'a> {
    /// Words of the message.
    Words(&'a str),
    /// The word for something that was folded.
    Folded(&'static str),
}

/// Splits a folded message into words and what was folded.
pub(crate) fn parts(folded: &str) -> Vec<Part<'_>> {
    let mut parts = Vec::new();
    let mut rest = folded;
    while let Some((before, from)) = rest.split_once('‹') {
        let kind = from.split_once('›').and_then(|(word, after)| {
            let kind = Folded::ALL.into_iter().find(|kind| kind.word() == word)?;
            Some((kind.word(), after))
        });
        let Some((word, after)) = kind else { break };
        if !before.is_empty() {
            parts.push(Part::Words(before));
        }
        parts.push(Part::Folded(word));
        rest = after;
    }
    if !rest.is_empty() {
        parts.push(Part::Words(rest));
    }
    parts
}

/// Folds a message.
pub(crate) fn fold(message: &str) -> String {
    let clean = clean(cut_at(message, MAX_READ));
    let text = without_shell(without_ticks(&clean));
    let folded = |keeps_quotes| {
        let mut scan = Scan {
            is_test: is_test(text),
            keeps_quotes,
            ..Scan::default()
        };
        scan.read(text, 0);
        scan.done()
    };
    let whole = folded(false);
    let whole = if has_cause(&whole) {
        whole
    } else {
        folded(true)
    };
    capped(whole)
}

/// Removes what isn't shown, and puts the message on one line.
fn clean(message: &str) -> Cow<'_, str> {
    // Most messages are one short line.
    let is_shown = message.bytes().all(|byte| matches!(byte, b' '..=b'~'));
    if is_shown && !message.starts_with(' ') && !message.ends_with(' ') && !message.contains("  ") {
        return Cow::Borrowed(message);
    }
    let mut out = String::with_capacity(message.len());
    let mut chars = message.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\u{1b}' => {
                if chars.next_if_eq(&'[').is_some() {
                    chars.by_ref().find(|c| ('@'..='~').contains(c));
                } else {
                    chars.next();
                }
            }
            // Zero width, direction marks, and the marks that folded messages use.
            '\u{200b}'..='\u{200f}'
            | '\u{202a}'..='\u{202e}'
            | '\u{2060}'..='\u{2069}'
            | '\u{feff}' => {}
            '‹' => out.push('<'),
            '›' => out.push('>'),
            c if c.is_whitespace() || c.is_control() => {
                if !out.is_empty() && !out.ends_with(' ') {
                    out.push(' ');
                }
            }
            c => out.push(c),
        }
    }
    out.truncate(out.trim_end().len());
    Cow::Owned(out)
}

/// Removes the marks of Markdown around a message that a program shows as code.
fn without_ticks(text: &str) -> &str {
    let inner = text
        .strip_prefix('`')
        .and_then(|rest| rest.strip_suffix('`'));
    inner
        .map(str::trim)
        .filter(|inner| !inner.is_empty() && !inner.contains('`'))
        .unwrap_or(text)
}

/// Removes the name of the shell that reports an error: `/bin/sh: 1: `, `bash: line 3: `.
fn without_shell(text: &str) -> &str {
    let Some((shell, rest)) = text.split_once(':') else {
        return text;
    };
    let name = shell.rsplit('/').next().unwrap_or_default();
    if !matches!(name, "sh" | "bash" | "zsh" | "dash" | "ksh" | "fish") {
        return text;
    }
    let mut rest = rest;
    loop {
        let trimmed = rest.trim_start().trim_start_matches("-c: ");
        let words = trimmed.strip_prefix("line ").unwrap_or(trimmed);
        let after = words.trim_start_matches(|c: char| c.is_ascii_digit());
        match after
            .strip_prefix(':')
            .filter(|_| after.len() < words.len())
        {
            Some(after) => rest = after,
            None => return trimmed,
        }
    }
}

/// Returns whether the message names a test. The numbers in its name aren't accidents.
fn is_test(text: &str) -> bool {
    let starts = [
        "FAIL",
        "ERROR: test",
        "--- FAIL",
        "test ",
        "not ok ",
        "✕ ",
        "✗ ",
        "✘ ",
        "× ",
        "● ",
        "rspec ",
    ];
    starts.iter().any(|start| text.starts_with(start))
}

/// Returns whether a folded message has a word that tells one error from another.
fn has_cause(folded: &str) -> bool {
    const GENERIC: [&str; 71] = [
        "a",
        "action",
        "an",
        "and",
        "api",
        "at",
        "because",
        "by",
        "call",
        "called",
        "calling",
        "cancelled",
        "cause",
        "client",
        "code",
        "command",
        "detail",
        "details",
        "due",
        "err",
        "error",
        "errors",
        "exception",
        "execute",
        "executing",
        "execution",
        "failed",
        "failure",
        "fatal",
        "following",
        "for",
        "from",
        "got",
        "had",
        "has",
        "have",
        "http",
        "in",
        "is",
        "mcp",
        "message",
        "msg",
        "of",
        "ok",
        "on",
        "operation",
        "or",
        "process",
        "reason",
        "received",
        "request",
        "response",
        "returned",
        "run",
        "running",
        "runtimeerror",
        "server",
        "status",
        "success",
        "the",
        "there",
        "to",
        "tool",
        "type",
        "value",
        "valueerror",
        "warning",
        "was",
        "were",
        "while",
        "with",
    ];
    parts(folded).iter().any(|part| match part {
        Part::Folded(_) => false,
        Part::Words(words) => words
            .split(|c: char| !c.is_alphanumeric())
            .filter(|word| !word.is_empty())
            .any(|word| {
                let is_number = word.bytes().all(|byte| byte.is_ascii_digit());
                let is_generic = GENERIC.iter().any(|known| word.eq_ignore_ascii_case(known));
                // A status or a code that stayed names the cause.
                is_number || (word.chars().nth(1).is_some() && !is_generic)
            }),
    })
}

/// Truncates a folded message, but not within the mark of something folded.
fn capped(folded: String) -> String {
    if folded.len() <= MAX_FOLDED {
        return folded;
    }
    let start = cut_at(&folded, MAX_FOLDED - '…'.len_utf8());
    let start = match start.rfind('‹') {
        Some(at) if !start.get(at..).unwrap_or_default().contains('›') => {
            start.get(..at).unwrap_or_default()
        }
        _ => start,
    };
    format!("{}…", start.trim_end())
}

/// A message under construction.
#[derive(Debug, Default)]
struct Scan<'a> {
    pieces: Vec<Piece>,
    /// The two latest words, the newest last.
    words: [&'a str; 2],
    is_test: bool,
    keeps_quotes: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Piece {
    Words(String),
    Folded(Folded),
}

/// Quotes within quotes are read to this depth.
const MAX_DEPTH: usize = 4;

/// Returns whether this character ends a token, and no path contains it.
fn is_mark(c: char) -> bool {
    matches!(
        c,
        '"' | '\'' | '`' | '“' | '”' | '‘' | '’' | '«' | '»' | ',' | ';' | '<' | '>' | '|' | '…'
    )
}

/// Returns whether a token ends before this character.
fn is_break(c: char) -> bool {
    c.is_whitespace() || is_mark(c) || matches!(c, '(' | ')' | '[' | ']' | '{' | '}' | '=')
}

/// Returns whether a path may contain this character.
fn is_of_path(c: char) -> bool {
    !c.is_whitespace() && !is_mark(c) && c != '('
}

impl<'a> Scan<'a> {
    fn read(&mut self, text: &'a str, depth: usize) {
        let mut rest = text;
        let mut before: Option<char> = None;
        while let Some(c) = rest.chars().next() {
            let after_word = before.is_some_and(|c| c.is_alphanumeric() || c == '_');
            // `</div>` isn't a path.
            let is_tag = before == Some('<') && c == '/';
            let used = self
                .quoted(rest, after_word, depth)
                .or_else(|| (!after_word && !is_tag).then(|| self.token(rest))?);
            let used = match used {
                Some(used) => used,
                None => {
                    self.push(c.encode_utf8(&mut [0; 4]));
                    c.len_utf8()
                }
            };
            let Some((read, after)) = rest.split_at_checked(used.max(1)) else {
                break;
            };
            before = read.chars().next_back();
            rest = after;
        }
    }

    fn push(&mut self, words: &str) {
        match self.pieces.last_mut() {
            Some(Piece::Words(last)) => last.push_str(words),
            _ => self.pieces.push(Piece::Words(words.to_owned())),
        }
    }

    fn word(&mut self, word: &'a str) {
        self.push(word);
        if word.chars().any(char::is_alphabetic) {
            let [_, newest] = self.words;
            self.words = [newest, word];
        }
    }

    fn fold(&mut self, kind: Folded) {
        self.pieces.push(Piece::Folded(kind));
    }

    /// Reads a quoted text at the start of `rest`. Returns its length.
    fn quoted(&mut self, rest: &'a str, after_word: bool, depth: usize) -> Option<usize> {
        let open = rest.chars().next()?;
        let close = match open {
            '"' | '\'' | '`' if !after_word => open,
            '“' | '„' => '”',
            '‘' => '’',
            '«' => '»',
            _ => return None,
        };
        let inside = rest.get(open.len_utf8()..)?;
        let len = closing(inside, open, close)?;
        let inner = inside.get(..len)?;
        let used = open.len_utf8() + len + close.len_utf8();
        let after = rest.get(used..).unwrap_or_default();
        // The rest of a truncated text.
        let used = used.min(rest.len());
        let is_key =
            after.trim_start().starts_with([':', '=']) && is_name(inner) && self.is_in_object();
        if is_key {
            self.push(rest.get(..open.len_utf8())?);
            self.word(inner);
            self.push(close.encode_utf8(&mut [0; 4]));
            return Some(used);
        }
        let kind = kind_of_quoted(inner);
        if (self.keeps_quotes || self.follows_cause_key())
            && kind == Folded::Text
            && depth < MAX_DEPTH
        {
            self.push(rest.get(..open.len_utf8())?);
            self.read(inner, depth + 1);
            self.push(close.encode_utf8(&mut [0; 4]));
        } else {
            self.fold(kind);
        }
        Some(used)
    }

    /// Returns whether a text at this place may be the key of an object.
    fn is_in_object(&self) -> bool {
        let Some(Piece::Words(words)) = self.pieces.last() else {
            return false;
        };
        words.trim_end().ends_with(['{', ',', '['])
    }

    /// Returns whether the text before names what follows as the message or the code of an error.
    fn follows_cause_key(&self) -> bool {
        const KEYS: [&str; 12] = [
            "code",
            "detail",
            "details",
            "error",
            "error_code",
            "error_message",
            "errormessage",
            "message",
            "msg",
            "reason",
            "status",
            "type",
        ];
        let Some(Piece::Words(words)) = self.pieces.last() else {
            return false;
        };
        let words = words.trim_end();
        let Some(key) = words.strip_suffix([':', '=']) else {
            return false;
        };
        let is_object = key.ends_with(['"', '\'']) || words.ends_with('=');
        let name = key.trim_end_matches(['"', '\'']);
        let name = name
            .rsplit(|c: char| !c.is_alphanumeric() && c != '_')
            .next()
            .unwrap_or_default();
        is_object && KEYS.iter().any(|known| name.eq_ignore_ascii_case(known))
    }

    /// Reads a token at the start of `rest`. Returns its length.
    fn token(&mut self, rest: &'a str) -> Option<usize> {
        if let Some(len) = url(rest) {
            self.fold(Folded::Address);
            return Some(len);
        }
        if let Some(len) = self.path(rest) {
            return Some(len);
        }
        let end = rest.find(is_break).unwrap_or(rest.len());
        let token = rest.get(..end).filter(|token| !token.is_empty())?;
        let bare = token.trim_end_matches([':', '.', '!', '?']);
        if bare.is_empty() {
            self.push(token);
            return Some(end);
        }
        if let Some(kind) = self.kind_of(bare) {
            self.fold(kind);
            let after = token.get(bare.len()..).unwrap_or_default();
            if kind == Folded::Path && after.is_empty() {
                return Some(end + bracketed_place(rest.get(end..).unwrap_or_default()));
            }
            self.push(after);
            return Some(end);
        }
        self.sub_tokens(token, rest.get(end..).unwrap_or_default());
        Some(end)
    }

    /// Returns what a whole token is folded to.
    fn kind_of(&self, token: &str) -> Option<Folded> {
        if is_pointer(token) && token.len() <= 6 {
            return Some(Folded::Number);
        }
        if is_uuid(token) || is_pointer(token) {
            return Some(Folded::Id);
        }
        if is_model(token) {
            return Some(Folded::Model);
        }
        if is_clock(token) {
            return Some(Folded::Time);
        }
        if is_host(token) || is_email(token) {
            return Some(Folded::Address);
        }
        let (file, place) = split_place(token);
        // `a.c` may be a member, `a.c:3:5` isn't.
        if is_file(file) || place > 0 && file.len() > 2 && is_file(&format!("_{file}")) {
            return Some(Folded::Path);
        }
        (!self.is_test && (is_hash(token) || is_opaque(token))).then_some(Folded::Id)
    }

    /// Reads a path at the start of `rest`. Returns its length.
    fn path(&mut self, rest: &'a str) -> Option<usize> {
        // A message of nothing but closing brackets would be read to its end at each of them.
        if rest.starts_with(is_break) {
            return None;
        }
        let mut has_slash = false;
        let end = rest.find(|c| {
            has_slash |= matches!(c, '/' | '\\');
            // `key=/path` and `[/path]`
            !is_of_path(c) || !has_slash && matches!(c, '=' | '{' | '[')
        });
        if !has_slash {
            return None;
        }
        let run = rest.get(..end.unwrap_or(rest.len()))?;
        let run = without_sentence(run);
        let (bare, place) = split_place(run);
        if !is_path(bare) {
            return None;
        }
        let mut used = bare.len() + place;
        // The name of a test in a file.
        if let Some((file, name)) = bare.split_once("::") {
            let file = file.rsplit(['/', '\\']).next().unwrap_or_default();
            self.word(file);
            self.push("::");
            let was_test = std::mem::replace(&mut self.is_test, true);
            self.sub_tokens(name, "");
            self.is_test = was_test;
            return Some(used);
        }
        self.fold(Folded::Path);
        let after = rest.get(used..).unwrap_or_default();
        used += bracketed_place(after);
        Some(used)
    }

    /// Reads the words, numbers and signs of a token.
    fn sub_tokens(&mut self, token: &'a str, next: &str) {
        let mut rest = token;
        while let Some(c) = rest.chars().next() {
            if c.is_ascii_digit() || (matches!(c, '-' | '+') && self.begins_number(rest)) {
                let used = self.number(rest, next).max(1);
                rest = rest.get(used..).unwrap_or_default();
                continue;
            }
            let is_in_word = |c: char| c.is_alphanumeric() || c == '_' || c == '$';
            if is_in_word(c) {
                let end = rest.find(|c| !is_in_word(c)).unwrap_or(rest.len());
                let (word, after) = rest.split_at_checked(end).unwrap_or((rest, ""));
                self.identifier(word);
                rest = after;
                continue;
            }
            self.push(c.encode_utf8(&mut [0; 4]));
            rest = rest.get(c.len_utf8()..).unwrap_or_default();
        }
    }

    fn begins_number(&self, rest: &str) -> bool {
        let is_after_word = match self.pieces.last() {
            Some(Piece::Words(words)) => words.ends_with(|c: char| c.is_alphanumeric() || c == '_'),
            Some(Piece::Folded(_)) => true,
            None => false,
        };
        !is_after_word
            && rest
                .chars()
                .nth(1)
                .is_some_and(|next| next.is_ascii_digit())
    }

    /// Reads a number with its unit at the start of `rest`. Returns its length.
    fn number(&mut self, rest: &'a str, next: &str) -> usize {
        let sign = usize::from(rest.starts_with(['-', '+']));
        let body = rest.get(sign..).unwrap_or_default();
        let is_digit = |c: char| c.is_ascii_digit();
        let mut end = body.find(|c| !is_digit(c)).unwrap_or(body.len());
        let whole = body.get(..end).unwrap_or_default();
        // Decimals, thousands, versions: `1.5`, `1_000`, `3.12.1`.
        loop {
            let after = body.get(end..).unwrap_or_default();
            let more = after
                .strip_prefix(['.', '_', ':', '-', '/'])
                .filter(|more| more.starts_with(is_digit));
            let Some(more) = more else { break };
            end += 1 + more.find(|c| !is_digit(c)).unwrap_or(more.len());
        }
        let is_plain = end == whole.len();
        let unit_end = body
            .get(end..)
            .and_then(|unit| unit.find(|c: char| !c.is_alphanumeric() && c != '%' && c != '_'))
            .map_or(body.len(), |at| end + at);
        let unit = body.get(end..unit_end).unwrap_or_default();
        let after = body.get(end..).unwrap_or_default();
        if unit.is_empty()
            && is_plain
            && self.is_code(whole, if after.is_empty() { next } else { after })
        {
            self.push(rest.get(..sign + end).unwrap_or_default());
            return sign + end;
        }
        match unit {
            "" | "%" | "x" | "th" | "st" | "nd" | "rd" | "k" | "K" | "M" | "G" => {
                self.fold(Folded::Number)
            }
            "am" | "pm" | "AM" | "PM" => self.fold(Folded::Time),
            _ if is_time_unit(unit) || is_mixed_duration(unit) => self.fold(Folded::Time),
            _ if is_size_unit(unit) => self.fold(Folded::Number),
            _ => {
                // `2fa`, `3d_model`
                self.fold(Folded::Number);
                self.word(unit);
            }
        }
        sign + unit_end
    }

    /// Returns whether a number names a cause: an exit code, an HTTP status, an error number.
    fn is_code(&self, digits: &str, after: &str) -> bool {
        /// How the words after an HTTP status begin, if they aren't capitalized. After a number of
        /// things, there would be their name.
        const PHRASES: [&str; 18] = [
            "bad",
            "conflict",
            "forbidden",
            "gateway",
            "incorrect",
            "internal",
            "invalid",
            "method",
            "not",
            "overloaded",
            "payload",
            "rate",
            "request",
            "server",
            "service",
            "status",
            "too",
            "unauthorized",
        ];
        let [before, last] = self.words.map(str::to_lowercase);
        let gap = match self.pieces.last() {
            Some(Piece::Words(words)) => words
                .rsplit(|c: char| c.is_alphanumeric())
                .next()
                .unwrap_or_default(),
            Some(Piece::Folded(_)) => return false,
            None => "",
        };
        let is_near = gap.len() <= 3
            && gap
                .chars()
                .all(|c| matches!(c, ' ' | ':' | '=' | '-' | '"' | '(' | '[' | '#'));
        let names = [
            "code",
            "errno",
            "exit",
            "exited",
            "http",
            "rc",
            "returncode",
            "exitcode",
            "exit_code",
            "signal",
            "status",
            "statuscode",
            "status_code",
            "winerror",
        ];
        if is_near && names.contains(&&*last) {
            return true;
        }
        // `exited with 1`, `make: *** Error 2`
        if gap == " " && (last == "with" && before.starts_with("exit") || last == "error") {
            return true;
        }
        let is_status = digits.len() == 3 && digits.starts_with(['4', '5']);
        let next = after.trim_start_matches([' ', ':', '-', ')', ']']);
        let is_phrase = || {
            let word = next.split(|c: char| !c.is_alphabetic()).next();
            word.is_some_and(|word| PHRASES.contains(&word))
        };
        let is_named = next.is_empty()
            || next.starts_with(|c: char| c.is_uppercase() || matches!(c, '{' | '"'))
            || is_phrase();
        let is_first = last.is_empty()
            || matches!(
                &*last,
                "error" | "err" | "api" | "failed" | "returned" | "response" | "got" | "request"
            );
        is_status && is_first && is_named
    }

    /// Adds a word that may contain digits.
    fn identifier(&mut self, word: &'a str) {
        let digits = word.bytes().filter(u8::is_ascii_digit).count();
        if digits == 0 || self.is_test || is_error_code(word) {
            self.word(word);
            return;
        }
        if let Some(version) = word
            .strip_prefix('v')
            .filter(|rest| rest.bytes().all(|byte| byte.is_ascii_digit()))
        {
            self.number(version, "");
            return;
        }
        // `python3` and `utf8` are names. In `task_12` and `user20931`, the number is an accident.
        let mut rest = word;
        while let Some(at) = rest.find(|c: char| c.is_ascii_digit()) {
            let (name, from) = rest.split_at_checked(at).unwrap_or((rest, ""));
            let end = from
                .find(|c: char| !c.is_ascii_digit())
                .unwrap_or(from.len());
            let (number, after) = from.split_at_checked(end).unwrap_or((from, ""));
            let is_apart = name.ends_with('_') && (after.is_empty() || after.starts_with('_'));
            self.word(name);
            if is_apart || number.len() >= 3 {
                self.fold(Folded::Number);
            } else {
                self.push(number);
            }
            rest = after;
        }
        self.word(rest);
    }

    /// Joins lists, and returns the message.
    fn done(self) -> String {
        let mut joined: Vec<Piece> = Vec::new();
        for piece in self.pieces {
            if let Piece::Folded(kind) = &piece {
                match joined.as_slice() {
                    [.., Piece::Folded(last)] if last == kind => continue,
                    [.., Piece::Folded(last), Piece::Words(gap)] if last == kind && is_gap(gap) => {
                        joined.pop();
                        continue;
                    }
                    _ => {}
                }
            }
            joined.push(piece);
        }
        let mut out = String::new();
        for piece in &joined {
            match piece {
                Piece::Words(words) => out.push_str(words),
                Piece::Folded(kind) => {
                    out.push('‹');
                    out.push_str(kind.word());
                    out.push('›');
                }
            }
        }
        without_operand(with_time_units(counted(out)))
    }
}

/// Returns whether a list continues after this.
fn is_gap(gap: &str) -> bool {
    matches!(
        gap,
        "" | " "
            | ", "
            | ","
            | " and "
            | "-"
            | ":"
            | "/"
            | " / "
            | ".."
            | "–"
            | " - "
            | " x "
            | "x"
            | ", and "
            | " or "
    )
}

/// Returns the length of the text up to the closing quote.
fn closing(inside: &str, open: char, close: char) -> Option<usize> {
    if inside.starts_with(char::is_whitespace) {
        return None;
    }
    // `Command '['git', 'status']' failed`
    if inside.starts_with('[') && open == '\'' {
        return inside.find("]'").map(|at| at + 1);
    }
    let mut before = None;
    let mut is_escaped = false;
    for (at, c) in inside.char_indices() {
        if is_escaped {
            is_escaped = false;
        } else if c == '\\' && open != '`' {
            // A path of Windows may end with one.
            let next = inside.get(at + 1..).and_then(|rest| rest.chars().next());
            is_escaped = next == Some(close) || next == Some('\\');
        } else if c == close {
            let after = inside
                .get(at + c.len_utf8()..)
                .and_then(|rest| rest.chars().next());
            let ends =
                open != close || after.is_none_or(|after| !after.is_alphanumeric() && after != '_');
            // `''` is an empty text.
            if ends && before != Some(' ') {
                return Some(at);
            }
            if ends && open != '\'' {
                return Some(at);
            }
        }
        before = Some(c);
    }
    // The quote may be in the part of a message that was truncated.
    (inside.ends_with('…') && open != '\'').then_some(inside.len())
}

fn is_name(text: &str) -> bool {
    !text.is_empty()
        && text.len() <= 40
        && text
            .chars()
            .all(|c| c.is_alphanumeric() || matches!(c, '_' | '-' | '.'))
}

/// Returns what a quoted text is folded to.
fn kind_of_quoted(inner: &str) -> Folded {
    if url(inner) == Some(inner.len()) || is_host(inner) || is_email(inner) {
        return Folded::Address;
    }
    let (bare, _) = split_place(inner);
    let is_rooted = bare.starts_with(['/', '~'])
        || bare.starts_with("./")
        || bare.starts_with("../")
        || is_drive(bare);
    if is_path(bare) || is_file(bare) || is_rooted && bare.len() > 1 {
        return Folded::Path;
    }
    if !inner.is_empty() && inner.bytes().all(|byte| byte.is_ascii_digit()) {
        return Folded::Number;
    }
    if is_uuid(inner) || is_hash(inner) || is_pointer(inner) {
        return Folded::Id;
    }
    if is_model(inner) {
        return Folded::Model;
    }
    Folded::Text
}

/// Returns the length of a URL at the start of the text.
fn url(text: &str) -> Option<usize> {
    let is_of_scheme =
        |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'.' | b'-');
    let at = text.bytes().take(13).position(|byte| !is_of_scheme(byte))?;
    if at < 2 || !text.get(at..)?.starts_with("://") {
        return None;
    }
    let end = text
        .find(|c: char| {
            c.is_whitespace() || matches!(c, '"' | '\'' | '`' | '<' | '>' | '”' | '’' | '…')
        })
        .unwrap_or(text.len());
    let run = text.get(..end)?;
    Some(
        run.trim_end_matches(['.', ',', ':', ';', ')', ']', '}', '!', '?'])
            .len(),
    )
}

fn is_drive(text: &str) -> bool {
    let bytes = text.as_bytes();
    bytes.first().is_some_and(u8::is_ascii_alphabetic)
        && bytes.get(1) == Some(&b':')
        && matches!(bytes.get(2), Some(b'\\' | b'/'))
}

/// Returns whether a run of characters without spaces is a path.
fn is_path(run: &str) -> bool {
    let is_slash = |c: char| c == '/' || c == '\\';
    if !run.contains(is_slash) || run.starts_with("//") || run.starts_with("HTTP/") {
        return false;
    }
    if !run.contains(|c: char| c.is_alphanumeric()) {
        return false;
    }
    let is_rooted = run.starts_with('/')
        || ["./", "../", "~/", ".\\", "..\\", "\\\\"]
            .iter()
            .any(|start| run.starts_with(start))
        || is_drive(run);
    if is_rooted {
        return true;
    }
    // An escape sequence in a printed text isn't a path.
    if run.contains('\\') && !run.contains('/') {
        return run.matches('\\').count() > 1 && run.rsplit('\\').next().is_some_and(is_file);
    }
    let parts: Vec<&str> = run.split(is_slash).collect();
    if parts
        .last()
        .is_some_and(|last| is_file(last) || last.contains("::"))
    {
        return true;
    }
    let is_dir = |part: &&str| {
        !part.is_empty()
            && part
                .chars()
                .all(|c| c.is_alphanumeric() || matches!(c, '.' | '_' | '-' | '@' | '+' | '*'))
            && part.contains(|c: char| c.is_alphabetic())
    };
    let all = parts.iter().filter(|part| !part.is_empty()).all(is_dir);
    // `and/or`, `text/html` and `I/O` aren't paths, `src/main` and `feature/x-1` may be.
    let is_odd = run.contains(|c: char| c.is_ascii_digit() || matches!(c, '_' | '.' | '@'));
    all && (parts.len() >= 3 || run.ends_with('/') || is_odd)
}

/// Returns whether a word is the name of a file.
fn is_file(word: &str) -> bool {
    const ENDS: [&str; 84] = [
        "bash", "bat", "bin", "c", "cc", "cfg", "class", "cmake", "conf", "config", "cpp", "cs",
        "css", "csv", "cxx", "db", "dll", "env", "erl", "ex", "exe", "exs", "gif", "go", "gradle",
        "gz", "h", "hpp", "hs", "htm", "html", "ini", "ipynb", "jar", "java", "jpeg", "jpg", "js",
        "json", "jsonl", "jsx", "kt", "lock", "log", "lua", "m", "md", "mjs", "ml", "o", "out",
        "parquet", "pdf", "php", "pl", "png", "proto", "py", "pyc", "pyi", "r", "rb", "rs", "rst",
        "scala", "scss", "sh", "so", "sql", "sqlite", "svelte", "svg", "swift", "tar", "tf",
        "toml", "ts", "tsx", "txt", "vue", "wasm", "xml", "yaml", "yml",
    ];
    let Some((stem, end)) = word.rsplit_once('.') else {
        return matches!(
            word,
            "Makefile" | "Dockerfile" | "Gemfile" | "Rakefile" | "CMakeLists"
        );
    };
    let is_named = stem.is_empty() || stem.contains(|c: char| c.is_alphanumeric());
    // `self.m` and `x.r` are members. A file has a longer name.
    let is_short = end.len() == 1 && (stem.len() < 2 || stem.contains('.'));
    is_named
        && !is_short
        && !stem.contains(['(', ')', ':', '='])
        && ENDS.iter().any(|known| end.eq_ignore_ascii_case(known))
}

/// Splits `src/a.rs:3:5` into the path and the length of the place after it.
fn split_place(run: &str) -> (&str, usize) {
    let bare = run.trim_end_matches(|c: char| c.is_ascii_digit() || matches!(c, ':' | '-'));
    let place = run.get(bare.len()..).unwrap_or_default();
    if place.starts_with(':') && place.len() > 1 {
        (bare, place.trim_end_matches([':', '-']).len())
    } else {
        (run, 0)
    }
}

/// Returns a path without the end of the sentence around it: full stops, and closing brackets unless
/// they were opened in the path.
fn without_sentence(run: &str) -> &str {
    // None of these is at the end, so what is cut opens nothing.
    let opens = ['(', '[', '{'].map(|open| run.contains(open));
    let [round, square, curly] = opens;
    run.trim_end_matches(|c| match c {
        ':' | '.' | '!' | '?' => true,
        ')' => !round,
        ']' => !square,
        '}' => !curly,
        _ => false,
    })
}

/// Returns the length of a place in brackets after a path: `(3,5)`, `:[3,5]`.
fn bracketed_place(after: &str) -> usize {
    let inner = after.strip_prefix(":[").or_else(|| after.strip_prefix('('));
    let Some((place, _)) = inner.and_then(|inner| inner.split_once([')', ']'])) else {
        return 0;
    };
    let is_place = !place.is_empty()
        && place
            .bytes()
            .all(|byte| byte.is_ascii_digit() || byte == b',');
    let opened = after.len() - inner.map_or(0, str::len);
    if is_place {
        opened + place.len() + 1
    } else {
        0
    }
}

fn is_uuid(token: &str) -> bool {
    let token = token.trim_matches(['{', '}']);
    token.len() == 36
        && token.bytes().enumerate().all(|(at, byte)| match at {
            8 | 13 | 18 | 23 => byte == b'-',
            _ => byte.is_ascii_hexdigit(),
        })
}

fn is_pointer(token: &str) -> bool {
    token
        .strip_prefix("0x")
        .is_some_and(|hex| !hex.is_empty() && hex.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

fn is_hash(token: &str) -> bool {
    let token = token
        .strip_prefix("sha256:")
        .or_else(|| token.strip_prefix("sha1:"))
        .unwrap_or(token);
    let has = |is: fn(&u8) -> bool| token.bytes().any(|byte| is(&byte));
    (7..=128).contains(&token.len())
        && token.bytes().all(|byte| byte.is_ascii_hexdigit())
        && has(u8::is_ascii_digit)
        && has(u8::is_ascii_alphabetic)
}

/// Returns whether a token is an id without meaning: `toolu_01Ab3…`, `req_011CSH`, `7ghQz91Lm2`.
fn is_opaque(token: &str) -> bool {
    const STARTS: [&str; 15] = [
        "toolu_",
        "call_",
        "req_",
        "msg_",
        "resp_",
        "run_",
        "chatcmpl-",
        "thread_",
        "sess_",
        "session-",
        "sk-",
        "ghp_",
        "item_",
        "fc_",
        "rs_",
    ];
    if token.len() < 8
        || !token
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'))
    {
        return false;
    }
    if !token.bytes().any(|byte| byte.is_ascii_digit()) {
        return false;
    }
    let known = STARTS.iter().find_map(|start| token.strip_prefix(start));
    if known.is_some_and(|rest| rest.len() >= 5 && rest.bytes().any(|byte| byte.is_ascii_digit())) {
        return true;
    }
    // A long part in which letters and digits alternate.
    token.split(['_', '-']).any(|part| {
        let kinds = |byte: u8| byte.is_ascii_digit();
        let bytes = part.as_bytes();
        let turns = bytes
            .iter()
            .zip(bytes.iter().skip(1))
            .filter(|(a, b)| kinds(**a) != kinds(**b))
            .count();
        let has = |is: fn(&u8) -> bool| bytes.iter().filter(|byte| is(byte)).count();
        let is_mixed = has(u8::is_ascii_digit) >= 3
            && has(u8::is_ascii_lowercase) > 0
            && bytes.iter().skip(1).any(u8::is_ascii_uppercase);
        part.len() >= 8 && (turns >= 3 || is_mixed)
    })
}

/// Returns whether a token is the name of a model.
fn is_model(token: &str) -> bool {
    const FAMILIES: [&str; 15] = [
        "claude-",
        "gpt-",
        "gemini-",
        "qwen",
        "deepseek-",
        "mistral-",
        "llama-",
        "llama3",
        "grok-",
        "kimi-",
        "glm-",
        "codestral-",
        "command-r",
        "gemma-",
        "phi-",
    ];
    let name = token.rsplit('/').next().unwrap_or_default();
    if !name.bytes().any(|byte| byte.is_ascii_digit()) {
        return false;
    }
    let name = name.to_ascii_lowercase();
    name.len() >= 5
        && FAMILIES.iter().any(|family| name.starts_with(family))
        && name.bytes().all(|byte| {
            byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b':' | b'_' | b'@')
        })
}

/// Returns whether a token is a date or a time of day: `2026-11-27T09:15:01Z`, `9:15pm`.
fn is_clock(token: &str) -> bool {
    if !token.starts_with(|c: char| c.is_ascii_digit()) {
        return false;
    }
    let mut digits = 0;
    let mut signs = 0;
    let date = token.as_bytes();
    let is_date = date.len() >= 10
        && date.iter().take(4).all(u8::is_ascii_digit)
        && matches!(date.get(4), Some(b'-' | b'/'))
        && date.get(7) == date.get(4);
    let lower = token.to_ascii_lowercase();
    let time = lower.trim_end_matches("am").trim_end_matches("pm");
    let is_time = time.contains(':')
        && time.bytes().all(|byte| {
            digits += usize::from(byte.is_ascii_digit());
            signs += usize::from(byte == b':');
            byte.is_ascii_digit() || matches!(byte, b':' | b'.' | b'z' | b'+')
        })
        && signs <= 2
        && time.split(':').skip(1).all(|part| part.len() >= 2)
        && time.split(':').next().is_some_and(|hour| hour.len() <= 2)
        && digits >= 3;
    // `3:15` may be a line and a column; that's a number.
    is_date || (is_time && (signs == 2 || time.len() < lower.len()))
}

/// Returns whether a token is a host, with or without a port.
fn is_host(token: &str) -> bool {
    if !token.bytes().any(|byte| matches!(byte, b'.' | b':')) {
        return token == "localhost";
    }
    let (host, port) = match token.rsplit_once(':') {
        Some((host, port))
            if !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit()) =>
        {
            (host, true)
        }
        _ => (token, false),
    };
    let parts: Vec<&str> = host.split('.').collect();
    let is_number = |part: &&str| {
        (1..=3).contains(&part.len()) && part.bytes().all(|byte| byte.is_ascii_digit())
    };
    if parts.len() == 4 && parts.iter().all(is_number) {
        return true;
    }
    if host == "localhost" {
        return true;
    }
    const TOP: [&str; 22] = [
        "ai", "app", "ch", "cloud", "cn", "com", "de", "dev", "edu", "eu", "fr", "gov", "internal",
        "io", "jp", "lan", "local", "net", "org", "ru", "uk", "xyz",
    ];
    let is_label = |part: &&str| {
        !part.is_empty()
            && part
                .bytes()
                .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
    };
    let is_named = parts.len() >= 2
        && parts.iter().all(is_label)
        && parts.last().is_some_and(|last| TOP.contains(last));
    // `db:5432`
    let is_service = port
        && parts.len() == 1
        && host.len() >= 2
        && host
            .bytes()
            .all(|byte| byte.is_ascii_lowercase() || byte == b'-')
        && !matches!(
            host,
            "line"
                | "col"
                | "column"
                | "zsh"
                | "sh"
                | "bash"
                | "code"
                | "exit"
                | "status"
                | "error"
                | "errno"
                | "step"
        )
        && token.len() - host.len() >= 5;
    is_named || is_service
}

fn is_email(token: &str) -> bool {
    token.split_once('@').is_some_and(|(name, host)| {
        !name.is_empty() && host.contains('.') && is_host(&host.to_ascii_lowercase())
    })
}

/// Returns whether a word is the code of an error: `E0308`, `TS2322`, `F401`.
fn is_error_code(word: &str) -> bool {
    let letters = word.bytes().take_while(u8::is_ascii_uppercase).count();
    let digits = word.len() - letters;
    (1..=6).contains(&letters)
        && (2..=6).contains(&digits)
        && word.bytes().skip(letters).all(|byte| byte.is_ascii_digit())
}

fn is_time_unit(unit: &str) -> bool {
    matches!(
        unit,
        "ms" | "s"
            | "sec"
            | "secs"
            | "second"
            | "seconds"
            | "m"
            | "min"
            | "mins"
            | "minute"
            | "minutes"
            | "h"
            | "hr"
            | "hrs"
            | "hour"
            | "hours"
            | "d"
            | "day"
            | "days"
            | "us"
            | "µs"
            | "ns"
            | "milliseconds"
            | "millisecond"
    )
}

/// Returns whether the rest of `1m30s` continues a duration.
fn is_mixed_duration(unit: &str) -> bool {
    let mut rest = unit;
    let mut units = 0;
    loop {
        let end = rest
            .find(|c: char| c.is_ascii_digit())
            .unwrap_or(rest.len());
        let (name, after) = rest.split_at_checked(end).unwrap_or((rest, ""));
        if !is_time_unit(name) {
            return false;
        }
        units += 1;
        if after.is_empty() {
            return units > 1;
        }
        rest = after.trim_start_matches(|c: char| c.is_ascii_digit());
        if rest.is_empty() {
            return false;
        }
    }
}

fn is_size_unit(unit: &str) -> bool {
    matches!(
        unit,
        "B" | "b"
            | "KB"
            | "kB"
            | "kb"
            | "MB"
            | "mb"
            | "GB"
            | "gb"
            | "TB"
            | "KiB"
            | "MiB"
            | "GiB"
            | "Mi"
            | "Gi"
            | "bytes"
    )
}

/// Folds the words after numbers that depend on them: units of time, and plurals.
fn with_time_units(text: String) -> String {
    const MARK: &str = "‹n› ";
    if !text.contains(MARK) && !text.contains("‹time› ‹") {
        return text;
    }
    let mut out = String::with_capacity(text.len());
    let mut rest = text.as_str();
    while let Some((before, after)) = rest.split_once(MARK) {
        out.push_str(before);
        let end = after
            .find(|c: char| !c.is_alphabetic())
            .unwrap_or(after.len());
        let (word, more) = after.split_at_checked(end).unwrap_or((after, ""));
        // `3 d` is a duration, `3 m` rarely is.
        if is_time_unit(word) && word.len() != 1 || word == "s" {
            out.push_str("‹time›");
            rest = more;
        } else if is_size_unit(word) && word.len() != 1 || word == "byte" {
            out.push_str("‹n›");
            rest = more.strip_prefix("(s)").unwrap_or(more);
        } else {
            out.push_str(MARK);
            rest = after;
        }
    }
    out.push_str(rest);
    while out.contains("‹time› ‹time›") {
        out = out.replace("‹time› ‹time›", "‹time›");
    }
    out
}

/// Folds the number of what's counted into its word, and removes what didn't fail.
fn counted(text: String) -> String {
    if !text.contains("‹n› ") && !text.contains("=‹n›") {
        return text;
    }
    const NOUNS: [&str; 43] = [
        "argument",
        "attempt",
        "call",
        "change",
        "character",
        "check",
        "column",
        "commit",
        "conflict",
        "dependency",
        "element",
        "entry",
        "error",
        "example",
        "failure",
        "file",
        "hunk",
        "issue",
        "item",
        "key",
        "line",
        "match",
        "message",
        "mismatch",
        "occurrence",
        "package",
        "parameter",
        "problem",
        "request",
        "result",
        "row",
        "step",
        "suite",
        "test",
        "time",
        "token",
        "try",
        "value",
        "vulnerability",
        "violation",
        "warning",
        "word",
        "char",
    ];
    const ADJECTIVES: [&str; 16] = [
        "compile",
        "failed",
        "failing",
        "fixable",
        "known",
        "lint",
        "matching",
        "more",
        "other",
        "previous",
        "required",
        "source",
        "syntax",
        "type",
        "unexpected",
        "unique",
    ];
    let mut out = String::with_capacity(text.len());
    let mut rest = text.as_str();
    while let Some((before, after)) = rest.split_once("‹n› ") {
        out.push_str(before);
        out.push_str("‹n› ");
        // `10 source files`
        let (adjective, after) = ADJECTIVES
            .iter()
            .find_map(|word| Some((*word, after.strip_prefix(word)?.strip_prefix(' ')?)))
            .unwrap_or(("", after));
        if !adjective.is_empty() {
            out.push_str(adjective);
            out.push(' ');
        }
        let end = after
            .find(|c: char| !c.is_alphabetic())
            .unwrap_or(after.len());
        let (word, more) = after.split_at_checked(end).unwrap_or((after, ""));
        let is_plural_of = |noun: &str| {
            let (word, noun) = (word.to_ascii_lowercase(), noun);
            word == noun
                || word.strip_suffix('s') == Some(noun)
                || word.strip_suffix("es") == Some(noun)
                || word
                    .strip_suffix("ies")
                    .is_some_and(|stem| noun.strip_suffix('y') == Some(stem))
        };
        // In `line 3 column 7`, the word belongs to the number after it.
        let noun = NOUNS.iter().find(|noun| is_plural_of(noun));
        let Some(noun) = noun.filter(|_| {
            !more.starts_with(" ‹n›")
                && !more.starts_with(|c: char| c.is_alphanumeric() || c == '_')
        }) else {
            rest = after;
            continue;
        };
        let more = more.strip_prefix("(s)").unwrap_or(more);
        out.push_str(noun);
        out.push_str("(s)");
        rest = [(" was ", " were "), (" is ", " are "), (" has ", " have ")]
            .into_iter()
            .find_map(|(one, many)| {
                let after = more.strip_prefix(one)?;
                out.push_str(many);
                Some(after)
            })
            .unwrap_or(more);
    }
    out.push_str(rest);
    const WELL: [&str; 19] = [
        "passed",
        "passing",
        "skipped",
        "deselected",
        "xfailed",
        "xpassed",
        "ignored",
        "pending",
        "todo",
        "total",
        "warning(s)",
        "file(s) already formatted",
        "file(s) left unchanged",
        "file(s) would be left unchanged",
        "snapshot written",
        "flaky",
        "did not run",
        "filtered out",
        "measured",
    ];
    for word in WELL {
        if !out.contains(word) {
            continue;
        }
        for (part, by) in [
            (format!(", ‹n› {word}"), ""),
            (format!("; ‹n› {word}"), ""),
            (format!("‹n› {word}, "), ""),
            (format!("‹n› {word}; "), ""),
        ] {
            if out.contains(&part) {
                out = out.replace(&part, by);
            }
        }
    }
    for part in [
        ", skipped=‹n›",
        "skipped=‹n›, ",
        ", expected failures=‹n›",
        "expected failures=‹n›, ",
    ] {
        if out.contains(part) {
            out = out.replace(part, "");
        }
    }
    out
}

/// Folds the name of a file that can't be used: `cat: README: No such file or directory`.
fn without_operand(text: String) -> String {
    const ENDS: [&str; 7] = [
        ": No such file or directory",
        ": Permission denied",
        ": Is a directory",
        ": Not a directory",
        ": File exists",
        ": Directory not empty",
        ": Read-only file system",
    ];
    for end in ENDS {
        let Some(before) = text.strip_suffix(end) else {
            continue;
        };
        let Some((start, operand)) = before.rsplit_once(": ") else {
            continue;
        };
        if !operand.is_empty() && !operand.contains(char::is_whitespace) && !operand.contains('‹')
        {
            return format!("{start}: ‹path›{end}");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks that these messages fold to one.
    fn same(messages: &[&str], folded: &str) {
        for message in messages {
            assert_eq!(fold(message), folded, "{message}");
        }
    }

    #[test]
    fn numbers_fold_and_codes_stay() {
        same(
            &[
                "File content (25312 tokens) exceeds 25000",
                "File content (1 token) exceeds 900",
            ],
            "File content (‹n› token(s)) exceeds ‹n›",
        );
        same(&["worker-3 died", "worker-14 died"], "worker-‹n› died");
        same(&["task_12 failed hard"], "task_‹n› failed hard");
        same(&["x = 3, y=[1, 2, 3] and -5"], "x = ‹n›, y=[‹n›] and ‹n›");
        same(
            &["Tried to allocate 2.00 GiB", "Tried to allocate 512MiB"],
            "Tried to allocate ‹n›",
        );
        same(
            &[
                "Found 1 error in 1 file (checked 1 source file)",
                "Found 3 errors in 2 files (checked 10 source files)",
            ],
            "Found ‹n› error(s) in ‹n› file(s) (checked ‹n› source file(s))",
        );
        same(
            &["line 3 column 7 (char 44)"],
            "line ‹n› column ‹n› (char ‹n›)",
        );
        for kept in [
            "Exit code 137",
            "exited with 2",
            "command terminated by signal 9",
            "[Errno 13] Permission denied",
            "429 Too Many Requests",
            "401 invalid x-api-key",
            "500 status code (no body)",
            "API Error: 529 Overloaded",
            "Request failed with status code 404",
            "MCP error -32602: Invalid arguments",
            "make: *** Error 2",
            "error[E0308]: mismatched types",
            "error TS2322: wrong",
            "python3 and utf8 are names",
        ] {
            same(&[kept], kept);
        }
        same(
            &[
                "429 files would be reformatted",
                "1 file would be reformatted",
            ],
            "‹n› file(s) would be reformatted",
        );
    }

    #[test]
    fn a_message_that_is_shown_as_code_is_the_same_error() {
        same(
            &[
                "`cat: /a/b: No such file or directory`",
                "cat: /c: No such file or directory",
            ],
            "cat: ‹path›: No such file or directory",
        );
        same(&["`a` and `b`"], "`a` and `b`");
    }

    #[test]
    fn what_passed_is_no_part_of_a_failure() {
        same(
            &[
                "1 failed in 0.03s",
                "3 failed, 5 passed, 2 warnings in 2.31s",
                "2 failed, 1 skipped in 61.20s",
            ],
            "‹n› failed in ‹time›",
        );
        same(
            &["FAILED (failures=1)", "FAILED (failures=2, skipped=1)"],
            "FAILED (failures=‹n›)",
        );
        same(&["FAILED (errors=1)"], "FAILED (errors=‹n›)");
        same(
            &[
                "Tests: 1 failed, 5 passed, 6 total",
                "Tests: 2 failed, 2 total",
            ],
            "Tests: ‹n› failed",
        );
    }

    #[test]
    fn times_fold() {
        same(
            &[
                "timed out after 2m 0.0s",
                "timed out after 120 seconds",
                "timed out after 120000ms",
                "timed out after 1m30s",
            ],
            "timed out after ‹time›",
        );
        same(
            &[
                "resets 3pm",
                "resets 11:30am",
                "resets 2026-11-27T09:15:01.123Z",
            ],
            "resets ‹time›",
        );
    }

    #[test]
    fn paths_fold_with_their_places() {
        same(
            &[
                "[Errno 2] No such file or directory: '/a/b.py'",
                "[Errno 2] No such file or directory: \"/a/<script>x('y')</script>\"",
                "[Errno 2] No such file or directory: 'C:\\Users\\a\\b.txt'",
            ],
            "[Errno 2] No such file or directory: ‹path›",
        );
        same(
            &[
                "src/a.rs:3:5: error[E0308]: mismatched",
                "/b/c.rs:120:17: error[E0308]: mismatched",
                "a.c:1: error[E0308]: mismatched",
            ],
            "‹path›: error[E0308]: mismatched",
        );
        same(
            &[
                "src/a.ts(3,5): error TS2322: x",
                "b.ts(13,25): error TS2322: x",
            ],
            "‹path›: error TS2322: x",
        );
        same(
            &[
                "cat: README: No such file or directory",
                "cat: a/b.txt: No such file or directory",
            ],
            "cat: ‹path›: No such file or directory",
        );
        for kept in [
            "Input/output error",
            "unsupported media type text/html",
            "read and/or write",
            "</div> expected",
        ] {
            same(&[kept], kept);
        }
    }

    #[test]
    fn tests_keep_their_names() {
        same(
            &[
                "FAILED tests/test_a.py::test_two_2 - AssertionError: assert 3 == 4",
                "FAILED /home/x/tests/test_a.py::test_two_2 - AssertionError: assert 30 == 41",
            ],
            "FAILED test_a.py::test_two_2 - AssertionError: assert ‹n› == ‹n›",
        );
        let other = fold("FAILED tests/test_c.py::test_two_2 - AssertionError: assert 3 == 4");
        assert!(other.starts_with("FAILED test_c.py::"), "{other}");
        same(
            &["--- FAIL: TestTwo2 (0.00s)", "--- FAIL: TestTwo2 (1.23s)"],
            "--- FAIL: TestTwo2 (‹time›)",
        );
    }

    #[test]
    fn addresses_ids_and_models_fold() {
        same(
            &[
                "fatal: unable to access 'https://a.org/b/': no route",
                "fatal: unable to access 'http://10.0.0.1:80/': no route",
            ],
            "fatal: unable to access ‹address›: no route",
        );
        same(
            &[
                "connect ECONNREFUSED 127.0.0.1:5432",
                "connect ECONNREFUSED localhost:80",
            ],
            "connect ECONNREFUSED ‹address›",
        );
        same(
            &[
                "no call toolu_01ABCdefGHI found",
                "no call 7f9c2ba4-e88f-4a7b-9d2f-3f1c0a7e6b11 found",
                "no call 9f2c1ab found",
                "no call 0x7fffdeadbeef found",
            ],
            "no call ‹id› found",
        );
        same(
            &[
                "quota for gemini-2.5-pro exceeded, retry in 38 s",
                "quota for claude-sonnet-4-5-20250929 exceeded, retry in 1 min 4 s",
            ],
            "quota for ‹model› exceeded, retry in ‹time›",
        );
    }

    #[test]
    fn quoted_texts_fold_unless_they_are_the_message() {
        same(
            &["No module named 'numpy'", "No module named 'a.b'"],
            "No module named ‹text›",
        );
        same(
            &["Type of \"a\" is unknown", "Type of `b c` is unknown"],
            "Type of ‹text› is unknown",
        );
        same(
            &["Command '['git', '-c']' returned exit status 128"],
            "Command ‹text› returned exit status 128",
        );
        for kept in [
            "'plan_cursor'",
            "Error: \"Permission denied\"",
            "Tool execution failed: \"File not found\"",
            "{\"error\":\"rate limited\"}",
            "{\"error\": {\"code\": 429, \"status\": \"RESOURCE_EXHAUSTED\"}}",
            "The user doesn't want what isn't asked",
            "jq: command not found",
        ] {
            same(&[kept], kept);
        }
        same(
            &["{'error': 'Permission denied', 'path': '/a/b'}"],
            "{'error': 'Permission denied', 'path': ‹path›}",
        );
    }

    #[test]
    fn the_shell_that_reports_an_error_is_left_out() {
        same(
            &[
                "bash: line 3: foo: command not found",
                "/bin/bash: line 12: foo: command not found",
            ],
            "foo: command not found",
        );
        same(
            &["/bin/sh: 1: ./run.sh: Permission denied"],
            "‹path›: Permission denied",
        );
    }

    #[test]
    fn causes_stay_apart() {
        let causes = [
            "Exit code 1",
            "Exit code 137",
            "429 Too Many Requests",
            "503 Service Unavailable",
            "jq: command not found",
            "rg: command not found",
            "FAIL: test_a (m.T.test_a)",
            "FAIL: test_b (m.T.test_b)",
            "connection refused",
            "connection reset by peer",
            "{\"error\":\"not found\"}",
            "{\"error\":\"rate limited\"}",
            "Error: \"Permission denied\"",
            "Error: \"connection refused\"",
            "MCP error -32602: x",
            "MCP error -32001: x",
            "a.rs:1:1: error[E0308]: x",
            "a.rs:1:1: error[E0433]: x",
            "[Errno 2] No such file or directory: 'x'",
            "[Errno 13] Permission denied: 'x'",
            "FAILED (failures=1)",
            "FAILED (errors=1)",
        ];
        let folded: std::collections::BTreeSet<String> =
            causes.iter().map(|cause| fold(cause)).collect();
        assert_eq!(folded.len(), causes.len(), "{folded:#?}");
    }

    #[test]
    fn hostile_messages_stay_short_and_on_one_line() {
        let long = [
            "x".repeat(100_000),
            "a b ".repeat(50_000),
            "'".repeat(50_000),
            "/".repeat(50_000),
            "\"a".repeat(9_000),
            "1,".repeat(9_000),
            "‹n›".repeat(9_000),
            "(".repeat(50_000),
            "é".repeat(50_000),
        ];
        for text in &long {
            let folded = fold(text);
            assert!(folded.len() <= MAX_FOLDED, "{} {folded}", folded.len());
        }
        same(&["a\u{1b}[31mred\u{1b}[0m b\tc\r\nd\u{0}"], "ared b c d");
        same(&["\u{202e}evil\u{2066} \u{200b}text"], "evil text");
        same(&["a ‹n› b"], "a <n> b");
        assert_eq!(fold(""), "");
        assert_eq!(fold(" \n "), "");
        // Not within a mark.
        let cut = fold(&format!("{}'q' and more words", "word ".repeat(39)));
        assert!(!cut.trim_end_matches('…').ends_with(['‹', 't']), "{cut}");
    }

    /// Cutting one bracket at a time took time with the square of their number at each of them.
    #[test]
    fn closing_brackets_behind_a_path_are_cut_at_once() {
        for closes in [")", "]", "}", ")]}", ").", "]:", "}!?"] {
            let path = format!("/a/b.rs{}", closes.repeat(100_000));
            assert_eq!(without_sentence(&path), "/a/b.rs", "{closes}");
            let only = closes.repeat(100_000);
            assert_eq!(without_sentence(&only), "");
            assert!(fold(&path).starts_with("‹path›"), "{closes}");
            assert!(fold(&only).len() <= MAX_FOLDED);
        }
        let opened = format!("/a[b{}", "])".repeat(100_000));
        assert_eq!(without_sentence(&opened).len(), opened.len() - 1);
        same(&["(see /a/b[1].rs) failed"], "(see ‹path›) failed");
    }

    #[test]
    fn a_folded_message_splits_into_words_and_marks() {
        assert_eq!(
            parts("a ‹n› b ‹what› ‹path›"),
            [
                Part::Words("a "),
                Part::Folded("n"),
                Part::Words(" b ‹what› ‹path›"),
            ]
        );
        assert_eq!(parts(""), []);
    }
}
