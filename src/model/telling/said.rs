//! Picks the most informative line of a result: the output of a command, a test run, a file or a
//! helper. Skips what the agent's program puts around a result.
//!
//! Must not know which tool printed the text.

use std::borrow::Cow;

use super::{bare_line, is_tag, without_colours};
use crate::model::json::Json;
use crate::model::names::cut_at;

/// Only this many bytes at the beginning and at the end of a text are read.
const MAX_READ: usize = 64 * 1024;
/// Only this many bytes of a line are looked at.
const MAX_LINE: usize = 1_024;
/// The lines before an output that can belong to its head.
const MAX_HEAD: usize = 12;

/// Returns the line of a result that tells most: that it timed out, how the tests ended, or the
/// first line of the output. Empty if there are no words.
pub(crate) fn said_line(text: &str) -> Cow<'_, str> {
    let inner = inner_text(text);
    match &inner {
        Cow::Borrowed(text) => line_in(text),
        Cow::Owned(text) => Cow::Owned(line_in(text).into_owned()),
    }
}

fn line_in(text: &str) -> Cow<'_, str> {
    let body = body(text);
    if let Some(line) = timed_out(text).or_else(|| tests(body)) {
        return line;
    }
    if body.trim().is_empty() && body.len() < text.len() {
        // The head shows whether the command is still running.
        let running = head(text).find(|line| line.starts_with("Process running "));
        return running.unwrap_or("no output").into();
    }
    first_line(body)
}

/// Returns how a test run ended, if the text has such a line: `1 failed, 19 passed in 3.1s`.
pub(crate) fn tests_line(text: &str) -> Option<Cow<'_, str>> {
    tests(body(text))
}

/// Returns the number of lines in a file that a tool printed. `None` if it printed fewer than two.
/// Lines after a numbered file are the program's notes.
pub(crate) fn lines_of_file(text: &str) -> Option<usize> {
    let mut numbered = 0;
    let mut all = 0;
    for line in text.lines() {
        all += 1;
        numbered += usize::from(is_numbered(line));
    }
    // A note may precede a numbered file.
    let lines = if numbered > 1 { numbered } else { all };
    (lines > 1).then_some(lines)
}

/// Returns whether a line begins with its number: `  12→x`, `12<tab>x`.
fn is_numbered(line: &str) -> bool {
    let line = line.trim_start_matches(' ');
    let digits = line.bytes().take_while(u8::is_ascii_digit).count();
    let rest = line.get(digits..).unwrap_or_default();
    digits > 0 && rest.starts_with(['→', '\t'])
}

/// Returns the words in a result that is an object: `{"output": "…", "metadata": {}}`.
fn inner_text(text: &str) -> Cow<'_, str> {
    let is_object = text.starts_with("{\"") && text.len() <= MAX_READ;
    let json = Some(text).filter(|_| is_object).and_then(Json::parse);
    let words = json.as_ref().and_then(|json| {
        let words = ["output", "message"].iter().find_map(|key| json.get(key));
        words?.as_str()
    });
    words.map_or(Cow::Borrowed(text), |words| Cow::Owned(words.to_owned()))
}

/// Returns the first lines of a text.
fn head(text: &str) -> impl Iterator<Item = &str> {
    cut_at(text, MAX_READ).lines().take(MAX_HEAD)
}

/// Returns the output without the head that the program puts above it.
fn body(text: &str) -> &str {
    /// What the line above the output is.
    const OUTPUT: &str = "Output:";
    /// The words that a head begins with.
    const HEADS: [&str; 8] = [
        "Chunk ID:",
        "Wall time",
        "Exit code:",
        "Script ",
        "Process ",
        "Command:",
        "<untrusted_context>",
        "Output:",
    ];
    /// What precedes the report of a helper.
    const REPORTS: [&str; 2] = ["The report follows:\n", "\nResult:\n"];
    let trimmed = text.trim_start();
    let start = cut_at(trimmed, MAX_READ);
    if start.starts_with("<tools-used-before-summary>")
        || start.starts_with("[Subagent ")
        || start.starts_with("Subagent ")
    {
        let report = REPORTS.iter().find_map(|words| trimmed.split_once(words));
        return report.map_or(text, |(_, report)| report);
    }
    if !HEADS.iter().any(|word| start.starts_with(word)) {
        return text;
    }
    let mut at = 0;
    for line in start.split_inclusive('\n').take(MAX_HEAD) {
        if let Some(rest) = line.strip_prefix(OUTPUT) {
            // Gemini CLI writes the output behind the word.
            let begin = at + line.len() - rest.trim_start().len();
            return trimmed.get(begin..).unwrap_or_default();
        }
        at += line.len();
    }
    text
}

/// Returns the line that says that the command was stopped for taking too long. Programs write it
/// first or last.
fn timed_out(text: &str) -> Option<Cow<'_, str>> {
    /// A longer line is a command's own output.
    const MAX_NOTE: usize = 200;
    let is_note = |line: &&str| {
        let line = line.trim_start_matches('[').to_ascii_lowercase();
        line.starts_with("command timed out") || line.starts_with("timed out after")
    };
    let lines = head(text).take(4).chain(end_of(text).lines().rev().take(3));
    lines
        .filter(|line| line.len() <= MAX_NOTE)
        .map(bare_line)
        .find(is_note)
        .map(Cow::Borrowed)
}

fn end_of(text: &str) -> &str {
    let start = text.ceil_char_boundary(text.len().saturating_sub(MAX_READ));
    text.get(start..).unwrap_or_default()
}

/// Returns the last line that counts the tests of a run.
fn tests(text: &str) -> Option<Cow<'_, str>> {
    // unittest has a separate line on whether the tests passed.
    let mut verdict = None;
    for line in end_of(text).lines().rev() {
        let line = without_colours(cut_at(line, MAX_LINE));
        let line = match line {
            Cow::Borrowed(line) => Cow::Borrowed(bare_line(line)),
            Cow::Owned(line) => Cow::Owned(bare_line(&line).to_owned()),
        };
        if line.is_empty() {
            continue;
        }
        if line.starts_with("Ran ") && line.contains(" test") {
            return Some(match verdict {
                Some(verdict) => format!("{line}: {verdict}").into(),
                None => line,
            });
        }
        if counts_tests(&line) {
            return Some(line);
        }
        if line == "OK" || line.starts_with("OK (") || line.starts_with("FAILED (") {
            verdict = Some(line.into_owned());
        }
    }
    None
}

/// Returns whether a line does nothing but count tests.
fn counts_tests(line: &str) -> bool {
    const STARTS: [&str; 6] = [
        "test result: ",
        "Tests: ",
        "Tests  ",
        "[  PASSED  ] ",
        "[  FAILED  ] ",
        "ok  \t",
    ];
    /// What pytest and mocha count.
    const COUNTED: [&str; 14] = [
        "passed",
        "failed",
        "passing",
        "failing",
        "pending",
        "skipped",
        "deselected",
        "xfailed",
        "xpassed",
        "error",
        "errors",
        "warning",
        "warnings",
        "rerun",
    ];
    if let Some(start) = STARTS.iter().find(|start| line.starts_with(*start)) {
        let rest = line.get(start.len()..).unwrap_or_default();
        return rest.bytes().any(|byte| byte.is_ascii_digit());
    }
    // `1 failed, 19 passed in 3.10s (0:00:03)`, `5 passing (10ms)`.
    let counts = line.split_once(" in ").map_or(line, |(counts, _)| counts);
    let counts = counts.split_once(" (").map_or(counts, |(counts, _)| counts);
    let is_ended = counts.len() < line.len();
    let mut tells = false;
    let is_count = |count: &str| {
        let (number, word) = count.trim().split_once(' ').unwrap_or_default();
        tells |= matches!(word, "passed" | "failed" | "passing" | "failing") || word == "error";
        !number.is_empty()
            && number.bytes().all(|byte| byte.is_ascii_digit())
            && COUNTED.contains(&word)
    };
    is_ended && counts.split(',').all(is_count) && tells
}

/// Returns the first line with words. Skips notes for the model and lines of tags alone.
fn first_line(text: &str) -> Cow<'_, str> {
    let mut in_note = false;
    for raw in cut_at(text, MAX_READ).lines() {
        let plain = without_colours(cut_at(raw, MAX_LINE));
        let line = match plain {
            Cow::Borrowed(line) => Cow::Borrowed(line.trim()),
            Cow::Owned(line) => Cow::Owned(line.trim().to_owned()),
        };
        let begins_note = line.starts_with("<system-reminder>");
        if begins_note || in_note {
            in_note = !line.contains("</system-reminder>");
            continue;
        }
        if !line.chars().any(char::is_alphanumeric) || is_frame(&line) {
            continue;
        }
        return line;
    }
    Cow::default()
}

/// Returns whether a line is a tag, or states that a command succeeded:
/// `<returncode>0</returncode>`.
fn is_frame(line: &str) -> bool {
    let Some(inner) = line.strip_prefix('<') else {
        return false;
    };
    let Some((tag, rest)) = inner.split_once('>') else {
        return false;
    };
    is_tag(tag) && matches!(rest, "" | "0</returncode>" | "0</exit_code>")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_programs_head_is_skipped() {
        for (text, line) in [
            (
                "Chunk ID: 614970\nWall time: 0.0000 seconds\nProcess exited with code 0\nOriginal token count: 143\nOutput:\n\"\"\"Splits money.\"\"\"\n\ndef x():",
                "\"\"\"Splits money.\"\"\"",
            ),
            (
                "Exit code: 0\nWall time: 0 seconds\nOutput:\nSuccess. Updated the following files:\nM a.py\n",
                "Success. Updated the following files:",
            ),
            (
                "Script completed\nWall time 0.2 seconds\nOutput:\n\ndef merge(spans):",
                "def merge(spans):",
            ),
            (
                "{\"output\":\"a.py\\nb.py\\n\",\"metadata\":{\"exit_code\":0}}",
                "a.py",
            ),
            ("{\"message\":\"Wait completed.\"}", "Wait completed."),
            ("{\"task\":\"a\"}", "{\"task\":\"a\"}"),
            (
                "Command: ls\nDirectory: (root)\nOutput: a.py\nb.py\nError: (none)",
                "a.py",
            ),
            (
                "<untrusted_context>\nOutput: a.py\n</untrusted_context>",
                "a.py",
            ),
            (
                "<returncode>0</returncode>\n<output>\na.py\n</output>",
                "a.py",
            ),
            (
                "Chunk ID: 1\nWall time: 1 seconds\nProcess running with session ID 7\nOutput:\n",
                "Process running with session ID 7",
            ),
            (
                "Wall time: 1 seconds\nProcess exited with code 0\nOutput:\n",
                "no output",
            ),
            ("\u{1b}[32mdone\u{1b}[0m\n", "done"),
            (
                "<system-reminder>Be\nbrief</system-reminder>\nx = 1",
                "x = 1",
            ),
            ("-----\n\n", ""),
            // Words that look like a head in an output of another kind.
            ("Process the list\nthen stop", "Process the list"),
        ] {
            assert_eq!(said_line(text), line, "{text}");
        }
    }

    #[test]
    fn a_helper_says_its_answer() {
        for (text, line) in [
            (
                "  <tools-used-before-summary>Read</tools-used-before-summary>\n  \n[Subagent hand-back] It is model output. The report follows:\n  It takes `end`.\nagentId: a7",
                "It takes `end`.",
            ),
            (
                "Subagent 'reader' finished.\nTermination Reason: GOAL\nResult:\nIt takes `end`.",
                "It takes `end`.",
            ),
        ] {
            assert_eq!(said_line(text), line);
        }
    }

    #[test]
    fn a_test_run_says_how_it_ended() {
        for (text, line) in [
            (
                "===== test session starts =====\ncollected 20 items\nFAILED a.py::b\n=== 1 failed, 19 passed in 3.10s ===\n",
                "1 failed, 19 passed in 3.10s",
            ),
            (
                "==== test session starts ====\n== 20 passed, 208 deselected in 39.13s ==",
                "20 passed, 208 deselected in 39.13s",
            ),
            ("....\n4 passed in 0.02s\n", "4 passed in 0.02s"),
            (
                "Chunk ID: 1\nWall time: 0 seconds\nOutput:\n----\nRan 2 tests in 0.000s\n\nOK\n",
                "Ran 2 tests in 0.000s: OK",
            ),
            (
                "----\nRan 2 tests in 0.001s\n\nFAILED (failures=1)",
                "Ran 2 tests in 0.001s: FAILED (failures=1)",
            ),
            (
                "running 2 tests\ntest a ... ok\n\ntest result: ok. 2 passed; 0 failed; finished in 0.00s\n",
                "test result: ok. 2 passed; 0 failed; finished in 0.00s",
            ),
            (
                "PASS a.test.js\n\nTests:       2 passed, 2 total\nTime:        0.5 s",
                "Tests:       2 passed, 2 total",
            ),
            (
                "  suite\n    ✔ one\n\n  5 passing (10ms)\n",
                "5 passing (10ms)",
            ),
            ("=== RUN TestA\nok  \tmod/a\t0.003s", "ok  \tmod/a\t0.003s"),
            // Prose about tests isn't their end.
            (
                "The 2 tests passed in my shell\nbye",
                "The 2 tests passed in my shell",
            ),
            ("2 errors in a.py, b.py\nbye", "2 errors in a.py, b.py"),
        ] {
            assert_eq!(said_line(text), line);
        }
    }

    #[test]
    fn a_command_that_took_too_long_says_so() {
        for text in [
            "test session starts\na PASSED\nCommand timed out after 2m 0.0s",
            "Exit code 143\nCommand timed out after 2m 0.0s\ncompiling",
        ] {
            assert_eq!(said_line(text), "Command timed out after 2m 0.0s");
        }
        // A program's output may mention a limit.
        assert_eq!(said_line("a\nb\nc\nd\ntimed out after 3s\nx\ny\nz"), "a");
    }

    #[test]
    fn the_lines_of_a_file_are_counted() {
        assert_eq!(
            lines_of_file("     1→a\n     2→b\n\n<system-reminder>\nx\n</system-reminder>"),
            Some(2)
        );
        assert_eq!(lines_of_file("1\ta\n2\t\n3\tb\n"), Some(3));
        assert_eq!(lines_of_file("import re\n\nx = 1\n"), Some(3));
        assert_eq!(lines_of_file("No such file"), None);
    }

    #[test]
    fn a_long_text_is_read_at_its_ends() {
        let long = "x\n".repeat(MAX_READ);
        assert_eq!(
            said_line(&format!("{long}2 passed in 1s")),
            "2 passed in 1s"
        );
        assert_eq!(
            said_line(&format!("2 passed in 1s\n{long}")),
            "2 passed in 1s"
        );
        assert_eq!(said_line(&"ä".repeat(MAX_READ)).len(), MAX_LINE);
    }
}
