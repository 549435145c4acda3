//! Picks the line of a failed result that tells most about the failure.
//!
//! A build or a test run prints hundreds of lines, and the cause is rarely the first or the last of
//! them. The lines are ranked by what they look like. The text is read once, and only its end.
//! Here rather than in `analysis`, because the index keeps the line and not the text.
//!
//! Must not know which tool printed the text.

mod said;

use std::borrow::Cow;

use memchr::{memchr, memchr2, memrchr2_iter};

pub(crate) use said::{lines_of_file, said_line, tests_line};

use super::names::cut_at;

/// Only this many bytes at the end of a text are ranked. What fails is reported last.
const MAX_RANKED: usize = 64 * 1024;
/// Only this many bytes of a line are looked at.
const MAX_LINE: usize = 1_024;
/// Shorter lines are too short for most ranks, and there may be many.
const SHORTEST: usize = 5;

/// What a line looks like, least telling first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    /// Doesn't name the cause: `Exit code 1`, a ruler, a hint.
    Noise,
    /// Anything else.
    Plain,
    /// `error: …`, `fatal: …`, `sh: 1: foo: not found`.
    Bare,
    /// `2 failed, 5 passed`, `6 files would be reformatted`.
    Summary,
    /// `ValueError: …`, `thread 'main' panicked at …`.
    Exception,
    /// `FAILED tests/test_a.py::test_b`, `--- FAIL: TestC`.
    Test,
    /// `src/a.rs:3:5: error: …`.
    Place,
}

/// Which of several lines of the same rank is quoted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tells {
    /// The first plain line: messages that a tool words itself begin with what's wrong.
    First,
    /// The last plain line: programs print what they do before they report how it ended.
    Last,
}

/// Returns the line of `text` that tells most about a failure, without colors, the prefixes of
/// logs, and tags around it. Empty if `text` is blank.
pub(crate) fn telling_line(text: &str, tells: Tells) -> Cow<'_, str> {
    best_line(text, tells).map_or_else(Cow::default, |(_, line)| line)
}

/// Returns what [`telling_line`] returns, unless that line doesn't describe the failure.
pub(crate) fn cause_in(text: &str) -> Option<Cow<'_, str>> {
    let (rank, line) = best_line(text, Tells::Last)?;
    (rank > Rank::Noise).then_some(line)
}

fn best_line(text: &str, tells: Tells) -> Option<(Rank, Cow<'_, str>)> {
    let start = text.ceil_char_boundary(text.len().saturating_sub(MAX_RANKED));
    let end = text.get(start..).unwrap_or(text);
    let mut lines = Lines {
        has_colours: has_colours(end),
        ..Lines::default()
    };
    let (mut rest, mut last_place) = (Some(end), None);
    while let Some(text) = rest {
        // A carriage return begins the line of a progress bar again.
        let at = memchr2(b'\n', b'\r', text.as_bytes());
        let (line, after) = text
            .split_at_checked(at.unwrap_or(text.len()))
            .unwrap_or((text, ""));
        rest = after.get(1..);
        lines.push(cut_at(line, MAX_LINE), tells);
        // Only a place tells more than the name of a failed test, and nothing tells more than a place.
        let is_over = match lines.best {
            Some((Rank::Place, _)) => true,
            // Colors may be within a place.
            Some((Rank::Test, _)) if !lines.has_colours => {
                let last = *last_place.get_or_insert_with(|| last_place_in(end));
                end.len() - after.len() > last
            }
            _ => false,
        };
        if is_over {
            break;
        }
    }
    let (rank, line) = lines.best?;
    let message = match line {
        Cow::Borrowed(line) => message_in(line).map(Cow::Borrowed),
        Cow::Owned(ref line) => message_in(line).map(|message| Cow::Owned(message.to_owned())),
    };
    Some((rank, message.unwrap_or(line)))
}

/// Returns where the last text begins that may be a row or a column of a place, as [`location`] and
/// [`is_row_and_column`] read them. Usually none does.
fn last_place_in(text: &str) -> usize {
    let bytes = text.as_bytes();
    let begins = |at: &usize| {
        let next = bytes.get(at + 1);
        next.is_some_and(|byte| byte.is_ascii_digit() || *byte == b'[')
    };
    memrchr2_iter(b':', b'(', bytes).find(begins).unwrap_or(0)
}

/// Returns the message in an error that is printed as an object: `{"message": "…"}`,
/// `Denied(message='…')`.
fn message_in(line: &str) -> Option<&str> {
    let name = line.split(['(', '{']).next().unwrap_or_default();
    let is_object = name.len() < line.len()
        && name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'.');
    let (_, rest) = line.split_once("message").filter(|_| is_object)?;
    let rest = rest.trim_start_matches(['"', '\'', ':', '=', ' ']);
    let quoted = line.get(..line.len() - rest.len())?;
    let quote = quoted
        .chars()
        .next_back()
        .filter(|c| matches!(c, '"' | '\''))?;
    let (message, _) = rest.split_once(quote)?;
    (!message.is_empty()).then_some(message)
}

/// Returns whether a text says no more than that a command or tool failed: `Exit code 1`, `failed`.
pub(crate) fn says_nothing(text: &str) -> bool {
    let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let (first, more) = (lines.next(), lines.next());
    more.is_none() && first.is_none_or(|line| is_exit_code(line) || line == "failed")
}

#[derive(Debug, Default)]
struct Lines<'a> {
    best: Option<(Rank, Cow<'a, str>)>,
    /// The last line that isn't blank, with its rank, if that was needed.
    before: Option<(Option<Rank>, Cow<'a, str>)>,
    /// The file that the following lines are about, as linters print it.
    file: Option<Cow<'a, str>>,
    in_traceback: bool,
    has_colours: bool,
}

impl<'a> Lines<'a> {
    fn push(&mut self, raw: &'a str, tells: Tells) {
        let raw = match self.has_colours {
            true => without_colours(raw),
            false => Cow::Borrowed(raw),
        };
        let is_blank = |byte: &u8| matches!(byte, b' ' | b'\t');
        let is_indented = |logged: &str| logged.as_bytes().first().is_some_and(is_blank);
        let (is_indented, line) = match raw {
            Cow::Borrowed(line) => {
                let logged = unlogged(line);
                (is_indented(logged), Cow::Borrowed(bare(logged)))
            }
            Cow::Owned(line) => {
                let logged = unlogged(&line);
                (is_indented(logged), Cow::Owned(bare(logged).to_owned()))
            }
        };
        if line.is_empty() {
            return;
        }
        let (known, line) = self.judge(line, is_indented, tells);
        let rank = known.unwrap_or(Rank::Noise);
        let replaces = match &self.best {
            None => true,
            Some((best, _)) if rank != *best => rank > *best,
            Some(_) => match rank {
                // The first error is the cause of the others.
                Rank::Place | Rank::Test | Rank::Bare => false,
                // The last exception is the one that no one handled, and a summary ends a report.
                Rank::Exception | Rank::Summary => true,
                Rank::Plain | Rank::Noise => tells == Tells::Last,
            },
        };
        if replaces {
            self.best = Some((rank, line.clone()));
        }
        self.before = Some((known, line));
    }

    /// Ranks a line, given the lines before it. Returns it with the details from those lines. The rank
    /// of a line that can't replace the best one may be missing.
    fn judge(
        &mut self,
        line: Cow<'a, str>,
        is_indented: bool,
        tells: Tells,
    ) -> (Option<Rank>, Cow<'a, str>) {
        let before = self.before.take();
        if line.starts_with("Traceback (most recent call last)") {
            self.in_traceback = true;
            return (Some(Rank::Noise), line);
        }
        if self.in_traceback && !is_indented {
            self.in_traceback = false;
            return (Some(Rank::Exception), line);
        }
        if let Some((rank, before)) = before {
            // rustc, ty and ruff: the place is below the message.
            let place = line.strip_prefix("--> ").map(str::trim);
            if let Some(place) = place.filter(|place| location(place).is_some()) {
                return match starts_with_error(&before) || begins_with_lint(&before) {
                    true => (Some(Rank::Place), format!("{place}: {before}").into()),
                    false => (Some(Rank::Noise), line),
                };
            }
            let rank = || rank.unwrap_or_else(|| rank_of(&before, tells));
            // Rust prints the message of a panic below its position.
            let is_panic = before.ends_with(':') && before.contains("panicked at ");
            if is_panic && rank() == Rank::Exception {
                return (Some(Rank::Exception), format!("{before} {line}").into());
            }
            // JavaScript: an error with its stack.
            let is_frame = line.starts_with("at ") && is_indented;
            let is_error = || match rank() {
                Rank::Bare => before.starts_with("Error: "),
                rank => rank == Rank::Exception,
            };
            if is_frame && is_error() {
                return (Some(Rank::Exception), before);
            }
        }
        // eslint: the place is in two lines.
        if let Some(file) = self.file.as_deref().filter(|_| is_indented)
            && let Some((place, message)) = line.split_once(char::is_whitespace)
            && is_row_and_column(place)
            && is_word(message.trim_start(), "error")
        {
            let message: Vec<&str> = message.split_whitespace().collect();
            let line = format!("{file}:{place}: {}", message.join(" "));
            return (Some(Rank::Place), line.into());
        }
        if !is_indented && !line.contains(char::is_whitespace) && line.contains(['/', '.']) {
            self.file = Some(line.clone());
        }
        // Only a place tells more than the name of a failed test.
        let rank = match self.best {
            Some((Rank::Test, _)) => {
                (line.len() >= SHORTEST && is_place(&line)).then_some(Rank::Place)
            }
            _ => Some(rank_of(&line, tells)),
        };
        (rank, line)
    }
}

fn rank_of(line: &str, tells: Tells) -> Rank {
    match rank(line) {
        // In a tool's own message, what follows explains the first line, or quotes a text.
        Rank::Bare if tells == Tells::First => Rank::Plain,
        rank => rank,
    }
}

/// Ranks a line by itself.
fn rank(line: &str) -> Rank {
    if line.len() < SHORTEST {
        return if is_noise(line) {
            Rank::Noise
        } else {
            Rank::Plain
        };
    }
    if is_place(line) {
        Rank::Place
    } else if is_test(line) {
        Rank::Test
    } else if is_exception(line) {
        Rank::Exception
    } else if is_noise(line) {
        Rank::Noise
    } else if is_summary(line) {
        Rank::Summary
    } else if is_bare(line) {
        Rank::Bare
    } else {
        Rank::Plain
    }
}

/// Returns whether the line begins with a place in a file and an error there.
fn is_place(line: &str) -> bool {
    // Maven marks every line of an error.
    let marked = line.strip_prefix("[ERROR] ");
    let Some((path, message)) = location(marked.unwrap_or(line)) else {
        return false;
    };
    let message = message.trim_start_matches([':', ' ', '-', '–', '|', '\t']);
    marked.is_some()
        || ["error", "fatal error", "syntax error"]
            .iter()
            .any(|word| is_word(message, word))
        || begins_with_lint(message)
        // Go's compiler doesn't call its errors errors. Its tests log with a line alone.
        || (path.ends_with(".go") && has_column(line, path) && !message.is_empty())
}

/// Returns whether a text begins with the code of a lint: `F401`, `TS2322`.
fn begins_with_lint(text: &str) -> bool {
    let word = text.split([' ', ':', '[']).next().unwrap_or_default();
    let letters = word
        .bytes()
        .take_while(|byte| byte.is_ascii_uppercase())
        .count();
    let digits = word.len() - letters;
    (1..=6).contains(&letters)
        && (2..=5).contains(&digits)
        && word.bytes().skip(letters).all(|byte| byte.is_ascii_digit())
}

/// Splits `src/a.rs:3:5: error` into the path and what follows the place.
fn location(line: &str) -> Option<(&str, &str)> {
    let mut bytes = line.bytes().take_while(|byte| *byte != b' ');
    if !bytes.any(|byte| matches!(byte, b'(' | b':')) {
        return None;
    }
    let end = line.find(char::is_whitespace).unwrap_or(line.len());
    let (token, _) = line.split_at_checked(end)?;
    let is_path = |path: &str| {
        path.contains(['.', '/', '\\']) && path.bytes().any(|byte| byte.is_ascii_alphabetic())
    };
    // `a.ts(3,5): error`
    if let Some((path, rest)) = token.split_once('(')
        && let Some((place, _)) = rest.split_once(')')
        && is_path(path)
        && place.starts_with(|c: char| c.is_ascii_digit())
        && place
            .bytes()
            .all(|byte| byte.is_ascii_digit() || byte == b',')
    {
        return Some((path, line.get(path.len() + place.len() + 2..)?));
    }
    // Maven: `A.java:[3,5] cannot find symbol`
    if let Some((path, rest)) = token.split_once(":[")
        && let Some((place, _)) = rest.split_once(']')
        && is_path(path)
        && place
            .bytes()
            .all(|byte| byte.is_ascii_digit() || byte == b',')
    {
        return Some((path, line.get(path.len() + place.len() + 3..)?));
    }
    // The first colon before a digit. A drive's colon has none after it.
    let at = token.match_indices(':').find_map(|(at, _)| {
        let rest = token.get(at + 1..)?;
        rest.starts_with(|c: char| c.is_ascii_digit()).then_some(at)
    })?;
    let (path, rest) = line.split_at_checked(at)?;
    let rest = rest.trim_start_matches(|c: char| c.is_ascii_digit() || c == ':');
    is_path(path).then_some((path, rest))
}

/// Returns whether the place after `path` is a row and a column.
fn has_column(line: &str, path: &str) -> bool {
    let place = line.get(path.len() + 1..).unwrap_or_default();
    let end = place.find(|c: char| !c.is_ascii_digit() && c != ':');
    let place = place.get(..end.unwrap_or(place.len())).unwrap_or_default();
    is_row_and_column(place.trim_end_matches(':'))
}

fn is_row_and_column(text: &str) -> bool {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    text.split_once(':')
        .is_some_and(|(row, column)| is_number(row) && is_number(column))
}

/// Returns whether the line names a test that failed.
fn is_test(line: &str) -> bool {
    let names_file = |rest: &str| {
        let name = rest.split_whitespace().next().unwrap_or_default();
        name.contains("::") || (name.contains('.') && name.contains(|c: char| c.is_alphabetic()))
    };
    // Most lines begin with none of the following.
    if !matches!(
        line.bytes().next(),
        Some(b'n' | b'F' | b'E' | b'-' | b'r' | b't' | b'[' | 0x80..)
    ) {
        return false;
    }
    if let Some(rest) = line.strip_prefix("not ok ") {
        return rest.starts_with(|c: char| c.is_ascii_digit()) && !rest.contains("# TODO");
    }
    // unittest: `FAIL: test_a (mod.Class)`.
    for word in ["FAIL: ", "ERROR: "] {
        if let Some(rest) = line.strip_prefix(word) {
            return rest.starts_with("test") && rest.contains('(');
        }
    }
    for word in ["FAILED ", "FAIL "] {
        if let Some(rest) = line.strip_prefix(word) {
            return names_file(rest);
        }
    }
    // pytest, of a file that it can't import. Loggers begin their lines with the word, too.
    if let Some(rest) = line.strip_prefix("ERROR ") {
        let name = rest.split_whitespace().next().unwrap_or_default();
        return name.contains("::") || name.ends_with(".py");
    }
    line.starts_with("--- FAIL: ")
        || line.starts_with("rspec ./")
        || (line.starts_with("test ") && line.ends_with("... FAILED"))
        || line.strip_prefix("[  FAILED  ] ").is_some_and(names_file)
        || (line.starts_with("● ") && line.contains(" › "))
        || ["✕ ", "✗ ", "✘ ", "× "]
            .iter()
            .any(|sign| line.starts_with(sign))
}

/// Returns whether the line is an exception with its message.
fn is_exception(line: &str) -> bool {
    let starts = [
        "panic: ",
        "Exception in thread ",
        "Uncaught ",
        "Unhandled ",
        "terminate called after",
        "Segmentation fault",
    ];
    if starts_with_any(line, &starts)
        || (line.starts_with("thread '") && line.contains("panicked at "))
    {
        return true;
    }
    // Ruby: `a.rb:3:in 'x': undefined method (NoMethodError)`
    if line.ends_with("Error)") && location(line).is_some() {
        return true;
    }
    let is_of_name = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'$');
    let end = line.bytes().position(|byte| !is_of_name(byte));
    let (name, rest) = line
        .split_at_checked(end.unwrap_or(line.len()))
        .unwrap_or((line, ""));
    if !rest.is_empty() && !rest.starts_with(':') {
        return false;
    }
    let message = rest.get(1..).unwrap_or_default().trim();
    let last = name.rsplit('.').next().unwrap_or_default();
    let is_name = last.starts_with(|c: char| c.is_ascii_uppercase());
    let is_kind = ["Error", "Exception"]
        .iter()
        .any(|kind| last.strip_suffix(kind).is_some_and(|rest| !rest.is_empty()))
        || matches!(last, "KeyboardInterrupt" | "SystemExit" | "StopIteration");
    is_name && is_kind && (!message.is_empty() || line == name)
}

/// Returns whether the line counts what failed.
fn is_summary(line: &str) -> bool {
    if line.starts_with("test result: FAILED")
        || line.starts_with("FAILED (")
        || line.starts_with("BUILD FAILED")
        || line.starts_with("FAIL\t")
    {
        return true;
    }
    const COUNTED: [&str; 10] = [
        "failed",
        "failing",
        "failure",
        "failures",
        "error",
        "errors",
        "problem",
        "problems",
        "reformatted",
        "mismatches",
    ];
    // Before a number that isn't a count: "Attempt 1 failed".
    const ORDINALS: [&str; 12] = [
        "attempt", "try", "retry", "step", "line", "job", "task", "exit", "code", "status",
        "stage", "worker",
    ];
    if !line.bytes().any(|byte| byte.is_ascii_digit()) {
        return false;
    }
    let is_sign = |c: char| !c.is_alphanumeric();
    let (mut before, mut left) = ("", 0_u8);
    for token in line.split_whitespace().take(60) {
        let word = token.trim_matches(is_sign);
        let is_count = !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit());
        if is_count {
            let is_ordinal = ORDINALS
                .iter()
                .any(|word| before.eq_ignore_ascii_case(word));
            let is_none = word.bytes().all(|byte| byte == b'0');
            left = if is_ordinal || is_none { 0 } else { 4 };
            // "1 error:" begins a message, "1," is an item of a list.
            if token.ends_with([',', ':', '.']) {
                left = 0;
            }
        } else if left > 0 {
            if COUNTED
                .iter()
                .any(|counted| word.eq_ignore_ascii_case(counted))
            {
                return true;
            }
            left = if token.ends_with([',', ';', '.', ':']) {
                0
            } else {
                left - 1
            };
        }
        before = word;
    }
    false
}

/// Returns whether the line calls itself an error.
fn is_bare(line: &str) -> bool {
    const ENDS: [&str; 7] = [
        ": not found",
        "No such file or directory",
        "Permission denied",
        "Is a directory",
        "Not a directory",
        "Operation not permitted",
        "Connection refused",
    ];
    const STARTS: [&str; 9] = [
        "npm ERR! ",
        "npm error ",
        "E: ",
        "❌",
        "✖ ",
        "!!! ",
        "CMake Error",
        "PHP Fatal error",
        // rustfmt
        "Diff in ",
    ];
    const WITHIN: [(u8, &[&str]); 3] = [
        (b':', &[": error: ", ": fatal: ", ": Error: "]),
        (b'R', &[" ERROR ", "[ERROR]"]),
        (
            b'f',
            &[
                "undefined reference to ",
                "command not found",
                "timed out after ",
            ],
        ),
    ];
    starts_with_error(line)
        || [
            "failed to",
            "cannot",
            "can't",
            "could not",
            "unable to",
            "invalid",
        ]
        .iter()
        .any(|start| is_word(line, start))
        || starts_with_any(line, &STARTS)
        || ends_with_any(line, &ENDS)
        || contains_any(line, &WITHIN)
}

fn starts_with_error(line: &str) -> bool {
    let line = line.strip_prefix("[ERROR]").map_or(line, str::trim_start);
    ["error", "fatal", "err"].iter().any(|word| {
        is_word(line, word)
            && line
                .get(word.len()..)
                .is_some_and(|rest| !rest.trim().is_empty())
    })
}

/// Returns whether the line doesn't name the cause.
fn is_noise(line: &str) -> bool {
    const STARTS: [&str; 20] = [
        "note: ",
        "npm error code ",
        "npm error syscall ",
        "npm error path ",
        "npm error errno ",
        "npm ERR! code ",
        "npm ERR! syscall ",
        "npm ERR! path ",
        "npm ERR! errno ",
        "hint: ",
        "help: ",
        "For more information about this error",
        "Node.js v",
        "npm error A complete log",
        "npm ERR! A complete log",
        "(Use `node ",
        "make: *** [",
        "make[",
        "During handling of the above exception",
        "The above exception was the direct cause",
    ];
    // Of what an earlier line says.
    const WITHIN: [(u8, &[&str]); 3] = [
        (b'v', &["previous error"]),
        (b'b', &["aborted due to "]),
        (b'\'', &["--help' for more information"]),
    ];
    !has_words(line)
        || is_exit_code(line)
        || starts_with_any(line, &STARTS)
        || contains_any(line, &WITHIN)
}

/// Returns whether a line begins with one of these texts. Most lines don't begin with the first byte of
/// any, which is found sooner than the text.
fn starts_with_any(line: &str, starts: &[&str]) -> bool {
    let first = line.bytes().next();
    starts
        .iter()
        .any(|start| start.bytes().next() == first && line.starts_with(start))
}

/// Returns the same about the end.
fn ends_with_any(line: &str, ends: &[&str]) -> bool {
    let last = line.bytes().next_back();
    ends.iter()
        .any(|end| end.bytes().next_back() == last && line.ends_with(end))
}

/// Returns whether a line contains one of these texts. They are grouped by a byte of theirs that few
/// lines have.
fn contains_any(line: &str, groups: &[(u8, &[&str])]) -> bool {
    groups.iter().any(|(byte, parts)| {
        memchr(*byte, line.as_bytes()).is_some() && parts.iter().any(|part| line.contains(part))
    })
}

/// Returns whether the line has letters, unlike a ruler, a bracket, or a caret below code.
fn has_words(line: &str) -> bool {
    line.chars().filter(|c| c.is_alphabetic()).nth(1).is_some()
}

/// Returns whether the line only states an exit code: `Exit code 1`, `[exit code: 2]`,
/// `Command exited with code 1`.
fn is_exit_code(line: &str) -> bool {
    let mut words = line
        .split(|c: char| !c.is_alphanumeric())
        .filter(|word| !word.is_empty());
    let is_filler = |word: &str| {
        const FILLERS: [&str; 21] = [
            "exit",
            "exited",
            "code",
            "status",
            "with",
            "command",
            "process",
            "the",
            "failed",
            "error",
            "shell",
            "returned",
            "non",
            "zero",
            "returncode",
            "a",
            "program",
            "finished",
            "completed",
            "return",
            "shellid",
        ];
        FILLERS
            .iter()
            .any(|filler| word.eq_ignore_ascii_case(filler))
            || word.bytes().all(|byte| byte.is_ascii_digit())
    };
    let mut tells_code = false;
    line.len() <= 80
        && words.all(|word| {
            tells_code |= word.len() >= 4
                && ["exit", "exited", "code", "status", "returncode"]
                    .iter()
                    .any(|known| word.eq_ignore_ascii_case(known));
            is_filler(word)
        })
        && tells_code
}

/// Returns whether `text` begins with `word` as a whole word. Ignores ASCII case.
fn is_word(text: &str, word: &str) -> bool {
    text.get(..word.len())
        .is_some_and(|start| start.eq_ignore_ascii_case(word))
        && !text
            .get(word.len()..)
            .is_some_and(|rest| rest.starts_with(|c: char| c.is_alphanumeric() || c == '_'))
}

fn has_colours(text: &str) -> bool {
    memchr(b'\x1b', text.as_bytes()).is_some()
}

/// Removes the escape sequences that color a terminal.
fn without_colours(line: &str) -> Cow<'_, str> {
    if !has_colours(line) {
        return Cow::Borrowed(line);
    }
    let mut out = String::with_capacity(line.len());
    let mut chars = line.chars().peekable();
    while let Some(c) = chars.next() {
        if c != '\u{1b}' {
            out.push(c);
        } else if chars.next_if_eq(&'[').is_some() {
            // Parameters end with a letter.
            chars.by_ref().find(|c| ('@'..='~').contains(c));
        } else {
            chars.next();
        }
    }
    Cow::Owned(out)
}

/// Removes what logs put before a line: `[CI/test-2]   | `, a time, the sequence number of a
/// build's step. The indentation of the line itself stays.
fn unlogged(line: &str) -> &str {
    let mut rest = line;
    if let Some(inner) = rest.strip_prefix('[')
        && let Some((name, after)) = inner.split_once(']')
        && name.len() <= 60
        && after.starts_with(' ')
        // `[parse_error]` and `[Errno 2]` say what failed.
        && !["err", "fatal", "fail"]
            .iter()
            .any(|word| name.to_ascii_lowercase().contains(word))
    {
        let trimmed = after.trim_start();
        rest = match trimmed.strip_prefix("| ") {
            Some(logged) => logged,
            None => trimmed,
        };
    }
    // pytest marks the lines of an exception.
    if let Some(quoted) = rest.strip_prefix("E  ") {
        rest = quoted;
    }
    without_time(rest)
}

/// Removes a time like `2026-02-22T09:15:01.123Z ` from the beginning of a line.
fn without_time(line: &str) -> &str {
    if !line.starts_with(|c: char| c.is_ascii_digit()) {
        return line;
    }
    let is_date = |word: &str| {
        let bytes = word.as_bytes();
        bytes.len() >= 10
            && bytes.iter().take(4).all(u8::is_ascii_digit)
            && bytes.get(4) == Some(&b'-')
            && bytes.get(7) == Some(&b'-')
    };
    let is_time = |word: &str| {
        word.len() >= 8
            && word.starts_with(|c: char| c.is_ascii_digit())
            && word.bytes().filter(|byte| *byte == b':').count() == 2
    };
    let Some((first, rest)) = line.split_once(' ').filter(|(word, _)| is_date(word)) else {
        return line;
    };
    match rest.split_once(' ') {
        _ if first.len() > 10 => rest,
        Some((time, rest)) if is_time(time) => rest,
        _ => line,
    }
}

/// Returns the line without the prefixes of logs, tags around it, and rulers at its ends.
fn bare_line(line: &str) -> &str {
    bare(unlogged(line))
}

/// Returns a line without tags around it, and rulers at its ends.
fn bare(line: &str) -> &str {
    let mut rest = line.trim();
    // A box around the message.
    rest = rest.strip_prefix("│ ").map_or(rest, str::trim_start);
    // Tags that programs put around their messages: `<tool_use_error>…</tool_use_error>`.
    if let Some(inner) = rest.strip_prefix('<')
        && let Some((tag, after)) = inner.split_once('>')
        && is_tag(tag)
    {
        rest = after.trim_start();
    }
    if let Some(inner) = rest.strip_suffix('>')
        && let Some((before, tag)) = inner.rsplit_once("</")
        && is_tag(tag)
    {
        rest = before.trim_end();
    }
    if !rest.starts_with('=') && !rest.ends_with('=') {
        return rest;
    }
    let inner = rest.trim_matches('=').trim();
    if inner.len() + 4 <= rest.len() {
        inner
    } else {
        rest
    }
}

fn is_tag(tag: &str) -> bool {
    let tag = tag.strip_prefix('/').unwrap_or(tag);
    (2..=32).contains(&tag.len())
        && tag
            .bytes()
            .all(|byte| byte.is_ascii_lowercase() || matches!(byte, b'_' | b'-'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn last(text: &str) -> String {
        telling_line(text, Tells::Last).into_owned()
    }

    #[test]
    fn a_place_in_a_file_tells_most() {
        for (text, line) in [
            (
                "0 errors so far\nsrc/a.py:3:5 - error: \"x\" is unbound\n1 error, 0 warnings",
                "src/a.py:3:5 - error: \"x\" is unbound",
            ),
            (
                "a.c: In function main:\na.c:3:5: fatal error: no.h: No such file\ncompilation terminated.",
                "a.c:3:5: fatal error: no.h: No such file",
            ),
            (
                "src/a.ts(3,5): error TS2322: Type 'x'\nFound 2 errors.",
                "src/a.ts(3,5): error TS2322: Type 'x'",
            ),
            (
                "src/a.py:1:8: F401 [*] `os` imported but unused\nFound 1 error.",
                "src/a.py:1:8: F401 [*] `os` imported but unused",
            ),
            (
                "# mod\n./main.go:5:2: undefined: x\nFAIL\tmod [build failed]",
                "./main.go:5:2: undefined: x",
            ),
            (
                "error[E0308]: mismatched types\n --> src/main.rs:3:5\n  |\nerror: could not compile `x` due to 1 previous error",
                "src/main.rs:3:5: error[E0308]: mismatched types",
            ),
            (
                "/w/src/a.js\n  12:5  error  'x' is not defined  no-undef\n\n✖ 1 problem (1 error, 0 warnings)",
                "/w/src/a.js:12:5: error 'x' is not defined no-undef",
            ),
            (
                "F401 [*] `os` imported but unused\n --> src/a.py:1:8\n  |\nFound 1 error.",
                "src/a.py:1:8: F401 [*] `os` imported but unused",
            ),
            (
                "[INFO] compiling\n[ERROR] COMPILATION ERROR :\n[ERROR] /w/A.java:[3,5] cannot find symbol",
                "[ERROR] /w/A.java:[3,5] cannot find symbol",
            ),
            (
                "    a_test.go:9: got 1\n./a.go:5:2: undefined: x",
                "./a.go:5:2: undefined: x",
            ),
            // What grep prints isn't an error.
            (
                "src/a.rs:3:    return Err(error);\nerror: no such subcommand",
                "error: no such subcommand",
            ),
        ] {
            assert_eq!(last(text), line);
        }
    }

    #[test]
    fn a_failing_test_tells_more_than_the_exception_in_it() {
        for (text, line) in [
            (
                "E   AssertionError: assert 1 == 2\na.py:3: AssertionError\nFAILED a.py::test_b - AssertionError: assert 1 == 2\n== 1 failed, 2 passed in 0.1s ==",
                "FAILED a.py::test_b - AssertionError: assert 1 == 2",
            ),
            (
                "    a_test.go:9: got 1\n--- FAIL: TestA (0.00s)\nFAIL\nexit status 1",
                "--- FAIL: TestA (0.00s)",
            ),
            (
                "test a::b ... FAILED\nthread 'a::b' panicked at src/a.rs:3:5:\nboom\ntest result: FAILED. 0 passed; 1 failed",
                "test a::b ... FAILED",
            ),
            (
                "  ✓ one\n  ✕ two (5 ms)\nTests: 1 failed, 2 total",
                "✕ two (5 ms)",
            ),
            (
                "FAIL: test_a (t.T.test_a)\nAssertionError: 1 != 2\nFAILED (failures=1)",
                "FAIL: test_a (t.T.test_a)",
            ),
            ("ok 1 - a\nnot ok 2 - b", "not ok 2 - b"),
        ] {
            assert_eq!(last(text), line);
        }
    }

    #[test]
    fn the_last_exception_is_the_one_that_nobody_handled() {
        for (text, line) in [
            (
                "Traceback (most recent call last):\n  File \"a.py\", line 1\n    x\nKeyError: 'a'\n\nDuring handling of the above exception, another exception occurred:\n\nTraceback (most recent call last):\n  File \"a.py\", line 2\nmod.Bad: no a\nbye",
                "mod.Bad: no a",
            ),
            (
                "thread 'main' panicked at src/a.rs:3:5:\nboom\nnote: run with `RUST_BACKTRACE=1`",
                "thread 'main' panicked at src/a.rs:3:5: boom",
            ),
            (
                "/w/a.js:3\nError: Cannot find module './b'\n    at Module._load (node:1)\n    at run (node:2)\n\nNode.js v20.1.0",
                "Error: Cannot find module './b'",
            ),
            (
                "java.io.IOException: closed\n\tat a.B.c(B.java:1)",
                "java.io.IOException: closed",
            ),
        ] {
            assert_eq!(last(text), line);
        }
    }

    #[test]
    fn counts_of_failures_tell_more_than_an_error_without_a_place() {
        for (text, line) in [
            (
                "[CI/test-2]   | would reformat a.py\n[CI/test-2]   | 6 files would be reformatted, 10 files already formatted\n[CI/test-2]   ❌  Failure - Main Run formatting check",
                "6 files would be reformatted, 10 files already formatted",
            ),
            (
                "error: x\n==== 2 failed, 5 passed in 1.2s ====",
                "2 failed, 5 passed in 1.2s",
            ),
            // Nothing failed here, and this isn't a count.
            (
                "5 passed, 0 failed\nerror: no coverage",
                "error: no coverage",
            ),
            (
                "Attempt 1 failed with status 429\nfatal: gave up",
                "fatal: gave up",
            ),
        ] {
            assert_eq!(last(text), line);
        }
    }

    #[test]
    fn without_any_of_them_it_is_the_line_that_calls_itself_an_error_or_the_last_one() {
        for (text, line) in [
            (
                "cloning\nfatal: not a git repository\nhint: run git init",
                "fatal: not a git repository",
            ),
            (
                "Exit code 127\nsh: 1: uv: not found",
                "sh: 1: uv: not found",
            ),
            ("Exit code 1\nThe answer is 3\n-----\n", "The answer is 3"),
            ("Exit code 1", "Exit code 1"),
            ("lost\n<shellId: 0 completed with exit code 3>", "lost"),
            ("lost\n\nReturn code: 3", "lost"),
            (
                "2026-02-22T09:15:01.123Z ERROR no disk\ndone",
                "ERROR no disk",
            ),
            ("\u{1b}[31merror\u{1b}[0m: red", "error: red"),
            (
                "Command timed out after 2m 0.0s\ncompiling a\ncompiling b",
                "Command timed out after 2m 0.0s",
            ),
            (
                "[parse_error] Expecting value",
                "[parse_error] Expecting value",
            ),
            ("[Errno 2] No such file: x", "[Errno 2] No such file: x"),
            (
                "c.o: in function `main':\nc.c:(.text+0x5): undefined reference to `f'\ncollect2: error: ld returned 1 exit status",
                "c.c:(.text+0x5): undefined reference to `f'",
            ),
            (
                "tar: This does not look like a tar archive\ntar: Exiting with failure status due to previous errors",
                "tar: This does not look like a tar archive",
            ),
            (
                "cp: missing file operand\nTry 'cp --help' for more information.",
                "cp: missing file operand",
            ),
            (
                "npm error code ENOENT\nnpm error enoent Could not read package.json",
                "npm error enoent Could not read package.json",
            ),
            ("╷\n│ Error: no provider\n│ more", "Error: no provider"),
            ("ERROR django.request: no\nbye", "ERROR django.request: no"),
            ("10%\r50%\rbroken pipe", "broken pipe"),
            (" \n\n", ""),
            (
                r#"{"type": "error", "error": {"code": 400, "message": "No such model"}}"#,
                "No such model",
            ),
            (
                "Item(name='deploy', message=\"Tool 'deploy' needs approval\", spec=None)",
                "Tool 'deploy' needs approval",
            ),
        ] {
            assert_eq!(last(text), line);
        }
        let tool =
            "<tool_use_error>String to replace not found in file.\nString: x = 1</tool_use_error>";
        assert_eq!(cause_in("1\n---"), None);
        assert_eq!(
            telling_line(tool, Tells::First),
            "String to replace not found in file."
        );
    }

    #[test]
    fn only_the_end_of_a_long_text_is_ranked() {
        let noise = "compiling a crate\n".repeat(MAX_RANKED);
        assert_eq!(
            last(&format!("a.c:1:1: error: far\n{noise}")),
            "compiling a crate"
        );
        assert_eq!(
            last(&format!("{noise}a.c:1:1: error: near")),
            "a.c:1:1: error: near"
        );
        // A line without an end, and one of many bytes per character.
        assert_eq!(last(&"ä".repeat(MAX_RANKED)).len(), MAX_LINE);
        assert!(last(&":1:1".repeat(MAX_RANKED)).len() <= MAX_LINE);
    }

    #[test]
    fn any_mixture_of_signs_is_read_as_one_line() {
        const PIECES: [&str; 12] = [
            "\n", "a.c:1", ":1: ", "error", ": ", "[x] ", "\u{1b}[", "E  ", "-->", "<a>", "ä",
            "(1,2)",
        ];
        for number in 0..PIECES.len().pow(4) {
            let mut rest = number;
            let text: String = (0..4)
                .map(|_| {
                    let piece = PIECES[rest % PIECES.len()];
                    rest /= PIECES.len();
                    piece
                })
                .collect();
            assert!(last(&text).lines().count() <= 1, "{text:?}");
        }
    }
}
