//! Reads what Gemini CLI and Qwen Code report to the model about a command: its output between lines
//! of the program.

use crate::format::Answer;
use crate::format::part::text;
use crate::format::value::silent;

/// How the lines after a command's output begin, the last one first.
const BEHIND: [&str; 6] = [
    "</untrusted_context>",
    "Process Group PGID: ",
    "Background PIDs: ",
    "Signal: ",
    "Exit Code: ",
    "Error: ",
];
/// How the output begins, and the word for an empty one.
const OUTPUT: &str = "Output: ";
const EMPTY: &str = "(empty)";
/// A value that the program doesn't have.
const NONE: &str = "(none)";
/// How a report begins that repeats the command, and the line after the command.
const COMMAND: &str = "Command: ";
const DIRECTORY: &str = "\nDirectory: ";

/// A report about a command.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Report<'a> {
    /// What the command printed.
    printed: &'a str,
    /// The exit code.
    exit: Option<i64>,
    /// The number or name of the signal that ended the command.
    signal: Option<&'a str>,
}

impl<'a> Report<'a> {
    /// Returns the report in a text for the model. `display` is what the program shows of the output,
    /// if known: a command may print lines like those of the program itself.
    fn of(text: &'a str, display: &str) -> Option<Self> {
        let mut report = Self::default();
        let display = display.trim_end();
        let mut rest = text.trim_end();
        for begin in BEHIND {
            let (before, last) = rest.rsplit_once('\n').unwrap_or_default();
            let Some(value) = last.strip_prefix(begin) else {
                continue;
            };
            if is_of_command(rest, display) {
                break;
            }
            let value = Some(value.trim()).filter(|value| !value.is_empty() && *value != NONE);
            match begin {
                "Exit Code: " => report.exit = value.and_then(|code| code.parse().ok()),
                "Signal: " => report.signal = value.filter(|signal| is_signal(signal)),
                // A command may print such a line, too, so it stays with the output.
                "Error: " if value.is_some() => break,
                _ => {}
            }
            rest = before.trim_end();
        }
        let is_known = report.has_failed() || report.exit.is_some();
        report.printed = printed(rest).or(is_known.then_some(text))?;
        Some(report)
    }

    /// Returns whether the command failed.
    fn has_failed(&self) -> bool {
        self.exit.is_some_and(|code| code != 0) || self.signal.is_some()
    }

    /// Returns what the command printed, with the program's error. If there is neither, describes how
    /// the command ended.
    fn words(&self) -> String {
        match (self.printed.trim().is_empty(), self.signal) {
            (false, _) => self.printed.to_owned(),
            (true, Some(signal)) => format!("ended by signal {signal}, no output"),
            (true, None) => silent(self.exit),
        }
    }
}

/// Returns whether a text names a signal.
fn is_signal(text: &str) -> bool {
    // A terminal reports 0 if there was none.
    text.parse::<u32>().is_ok_and(|signal| signal > 0) || text.starts_with("SIG")
}

/// Returns whether a text ends with what the command printed.
fn is_of_command(text: &str, display: &str) -> bool {
    let before = text.strip_suffix(display).filter(|_| !display.is_empty());
    before.is_some_and(|before| before.ends_with('\n') || before.ends_with(OUTPUT))
}

/// Returns the output in a report without the lines after it.
fn printed(report: &str) -> Option<&str> {
    let from = match report.starts_with(COMMAND) {
        true => report.find(DIRECTORY)?,
        false => 0,
    };
    let rest = report.get(from..)?;
    let begins_line = |(at, _): &(usize, &str)| {
        let before = rest.get(..*at).unwrap_or_default();
        before.is_empty() || before.ends_with('\n')
    };
    let (at, _) = rest.match_indices(OUTPUT).find(begins_line)?;
    let printed = rest.get(at + OUTPUT.len()..)?;
    // The program's error may follow.
    let rest = printed.strip_prefix(EMPTY);
    let rest = rest.filter(|rest| rest.is_empty() || rest.starts_with('\n'));
    Some(rest.map_or(printed, str::trim_start))
}

/// How a text about a command begins that the program aborted, with the status of the call.
const ABORTED: [(&str, &str); 2] = [
    (
        "Command was cancelled by user before it could ",
        "cancelled",
    ),
    (
        "Command was automatically cancelled because it exceeded the timeout of ",
        "error",
    ),
];

/// Returns the status of a command that the program aborted, and the program's words.
fn aborted(text: &str) -> Option<(&'static str, &str)> {
    let words = text.strip_prefix("<untrusted_context>\n").unwrap_or(text);
    let words = words.trim_end();
    let words = words
        .strip_suffix("\n</untrusted_context>")
        .unwrap_or(words);
    let (_, status) = ABORTED
        .into_iter()
        .find(|(begin, _)| words.starts_with(begin))?;
    Some((status, words))
}

/// Completes the answer of a command from the report about it. For Gemini CLI, a failed command is a
/// success. `display` is what the program shows of the output.
pub(in crate::format) fn reported(answer: Answer, display: &str) -> Answer {
    if answer.status == Some("cancelled") {
        return answer;
    }
    let text = answer.error.clone().or_else(|| text(Some(&answer.output)));
    if let Some((status, words)) = text.as_deref().and_then(aborted) {
        return Answer {
            status: Some(status),
            error: Some(words.to_owned()),
            output: "null".to_owned(),
            ..answer
        };
    }
    let report = text.as_deref().and_then(|text| Report::of(text, display));
    let Some(report) = report else { return answer };
    let exit = answer.exit.or(report.exit);
    if answer.status == Some("error") || report.has_failed() {
        let report = Report { exit, ..report };
        return Answer {
            status: Some("error"),
            exit,
            error: Some(report.words()),
            output: "null".to_owned(),
            ..answer
        };
    }
    answer
}

/// Returns whether a text is a report that repeats the command.
pub(in crate::format) fn names_command(text: &str) -> bool {
    text.starts_with(COMMAND) && text.contains(DIRECTORY)
}

#[cfg(test)]
mod tests {
    use super::Report;

    fn ran(text: &str, display: &str) -> (Option<i64>, bool, String) {
        let report = Report::of(text, display).unwrap();
        (report.exit, report.has_failed(), report.words())
    }

    #[test]
    fn a_report_is_the_output_of_a_command_between_lines_of_the_program() {
        let gemini = "<untrusted_context>\nOutput: two\nlines\nExit Code: 1\nProcess Group PGID: 19204\n</untrusted_context>";
        assert_eq!(
            ran(gemini, "two\nlines"),
            (Some(1), true, "two\nlines".to_owned())
        );
        let killed = "<untrusted_context>\nOutput: (empty)\nSignal: 9\nProcess Group PGID: 22870\n</untrusted_context>";
        let words = "ended by signal 9, no output".to_owned();
        assert_eq!(
            ran(killed, "Command terminated by signal: 9"),
            (None, true, words)
        );
        let silent = "Output: (empty)\nExit Code: 4\nProcess Group PGID: 7";
        let words = "exit code 4, no output".to_owned();
        assert_eq!(
            ran(silent, "Command exited with code: 4"),
            (Some(4), true, words)
        );
        let qwen = |output: &str, error: &str, exit: &str| {
            format!(
                "Command: false\nDirectory: (root)\nOutput: {output}\nError: {error}\nExit Code: {exit}\nSignal: (none)\nProcess Group PGID: (none)"
            )
        };
        assert_eq!(
            ran(&qwen("no", "(none)", "1"), ""),
            (Some(1), true, "no".to_owned())
        );
        assert_eq!(
            ran(&qwen("no", "lost", "(none)"), ""),
            (None, false, "no\nError: lost".to_owned())
        );
        assert!(!ran(&qwen("(empty)", "(none)", "0"), "").1);
    }

    #[test]
    fn a_command_may_print_lines_like_those_of_the_program() {
        let printed = "Output: a\nExit Code: 3";
        assert_eq!(
            ran(printed, "a\nExit Code: 3"),
            (None, false, "a\nExit Code: 3".to_owned())
        );
        let both = "Output: Exit Code: 3\nSignal: 2\nExit Code: 1\nProcess Group PGID: 5";
        assert_eq!(
            ran(both, "Exit Code: 3\nSignal: 2"),
            (Some(1), true, "Exit Code: 3\nSignal: 2".to_owned())
        );
        let command = "Command: echo 'Output: no'\nDirectory: /a\nOutput: yes\nExit Code: 1";
        assert_eq!(ran(command, "yes").2, "yes");
        for other in ["", "Output", "Tool not found", "Command: x\nOutput: y"] {
            assert_eq!(Report::of(other, ""), None, "{other}");
        }
    }
}
