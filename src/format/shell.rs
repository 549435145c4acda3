//! Recognizes shell commands that the user ran from a session's prompt, and their output. The tool
//! adds both to the conversation, so the model reads them with the next prompt.
//!
//! Claude Code writes the command and its output as two messages; Codex, Gemini CLI and Qwen Code
//! write one. The records of Pi and Crush have them in fields.

use crate::model::json::Json;

/// The stage of an event with such a command or its output.
pub(crate) const USER_SHELL: &str = "user_shell";

/// What a message contains of a command.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct UserShell<'a> {
    /// The command. `None` if the message is the output of the one before.
    pub command: Option<&'a str>,
    /// The output. `None` if a later message may contain it.
    pub output: Option<&'a str>,
    /// The output to standard error. Empty if there isn't one, or if it isn't recorded separately.
    pub stderr: &'a str,
    /// The exit code, if recorded.
    pub exit: Option<i64>,
}

/// What Gemini CLI and Qwen Code write before the command.
const RAN: &str = "I ran the following shell command:\n";
/// What they write between the command and its output.
const PRODUCED: &str = "This produced the following result:\n";

impl<'a> UserShell<'a> {
    /// Returns the command or output in a message. `None` if the message is something else.
    pub(crate) fn of(message: &'a str) -> Option<Self> {
        let message = message.trim();
        if let Some(rest) = message.strip_prefix("<bash-input>") {
            let command = rest.strip_suffix("</bash-input>").unwrap_or(rest);
            return Some(Self {
                command: Some(command.trim()),
                ..Self::default()
            });
        }
        if message.starts_with("<bash-stdout>") || message.starts_with("<bash-stderr>") {
            let [stdout, stderr] = ["bash-stdout", "bash-stderr"].map(|tag| within(message, tag));
            return Some(Self {
                output: Some(stdout.unwrap_or_default()),
                stderr: stderr.unwrap_or_default(),
                ..Self::default()
            });
        }
        if let Some(rest) = message.strip_prefix("<user_shell_command>") {
            let result = within(rest, "result").unwrap_or_default();
            let (head, output) = result.split_once("Output:\n").unwrap_or((result, ""));
            let exit = head
                .lines()
                .find_map(|line| line.strip_prefix("Exit code: ")?.trim().parse().ok());
            let command = within(rest, "command")
                .or(rest.strip_suffix("</user_shell_command>"))
                .unwrap_or(rest);
            return Some(Self {
                command: Some(command.trim()),
                output: Some(output.trim_end()),
                exit,
                ..Self::default()
            });
        }
        let (command, output) = message.strip_prefix(RAN)?.split_once(PRODUCED)?;
        Some(Self {
            command: Some(unfenced(command)),
            output: Some(unfenced(output)),
            ..Self::default()
        })
    }

    /// Returns the command in a record that has it in fields: in its message, or in a part of it.
    pub(crate) fn in_record(record: &'a Json<'_>) -> Option<Self> {
        let text = |command: &'a Json<'_>, key: &str| command.get(key).and_then(Json::as_str);
        let part = || match record.get("parts")? {
            Json::Array(parts) => parts
                .iter()
                .find(|part| text(part, "type") == Some("shell_command"))?
                .get("data"),
            _ => None,
        };
        let ran = record.get("message").or_else(part)?;
        Some(Self {
            command: Some(text(ran, "command")?),
            output: text(ran, "output"),
            stderr: "",
            exit: ["exitCode", "exit_code"]
                .iter()
                .find_map(|key| ran.get(key))
                .and_then(Json::as_f64)
                .map(|code| code as i64),
        })
    }

    /// Returns whether a message is a command that the user ran, or its output.
    pub(crate) fn is_in(message: &'a str) -> bool {
        Self::of(message).is_some()
    }

    /// Returns the whole output, with the text from standard error last.
    pub(crate) fn whole_output(&self) -> Option<String> {
        let texts = [self.output?, self.stderr];
        let texts = texts.into_iter().filter(|text| !text.is_empty());
        Some(texts.collect::<Vec<_>>().join("\n"))
    }
}

/// Returns the text from the first opening tag to the last closing one. A truncated text has no
/// closing tag.
fn within<'a>(text: &'a str, tag: &str) -> Option<&'a str> {
    let (_, rest) = text.split_once(&format!("<{tag}>"))?;
    let end = format!("</{tag}>");
    Some(
        rest.rsplit_once(&end)
            .map_or(rest, |(inside, _)| inside)
            .trim_matches('\n'),
    )
}

/// Returns the content of a code fence, or the text itself.
fn unfenced(text: &str) -> &str {
    let text = text.trim();
    let Some(rest) = text.strip_prefix("```") else {
        return text;
    };
    let inside = rest.split_once('\n').map_or("", |(_, inside)| inside);
    inside.strip_suffix("```").unwrap_or(inside).trim_end()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell<'a>(
        command: &'a str,
        output: Option<&'a str>,
        exit: Option<i64>,
    ) -> Option<UserShell<'a>> {
        Some(UserShell {
            command: Some(command).filter(|command| !command.is_empty()),
            output,
            exit,
            ..UserShell::default()
        })
    }

    #[test]
    fn each_tool_writes_the_users_commands_in_its_own_way() {
        let claude = UserShell::of("<bash-input>ls -l</bash-input>");
        assert_eq!(claude, shell("ls -l", None, None));
        let output = "<bash-stdout>a\nb</bash-stdout><bash-stderr>no such file</bash-stderr>";
        let both = UserShell::of(output).unwrap();
        assert_eq!(both.command, None);
        assert_eq!(both.whole_output().as_deref(), Some("a\nb\nno such file"));
        let empty = "<bash-stdout></bash-stdout><bash-stderr></bash-stderr>";
        assert_eq!(UserShell::of(empty), shell("", Some(""), None));
        let codex = "<user_shell_command>\n<command>\necho <b>\n</command>\n<result>\nExit code: 2\n\
                     Duration: 0.0210 seconds\nOutput:\n</result> x\n\n</result>\n</user_shell_command>";
        assert_eq!(
            UserShell::of(codex),
            shell("echo <b>", Some("</result> x"), Some(2))
        );
        let gemini = "I ran the following shell command:\n```sh\ngit diff --stat\n```\n\n\
                      This produced the following result:\n```\n a | 1 +\n```";
        assert_eq!(
            UserShell::of(gemini),
            shell("git diff --stat", Some(" a | 1 +"), None)
        );
    }

    #[test]
    fn other_messages_are_no_commands_and_cut_ones_are() {
        for other in [
            "",
            "Please run <bash-input>ls</bash-input>",
            "I ran the following shell command: ls",
        ] {
            assert_eq!(UserShell::of(other), None, "{other}");
        }
        assert_eq!(UserShell::of("<bash-input>ls"), shell("ls", None, None));
        assert_eq!(
            UserShell::of("<bash-stdout>a\nb"),
            shell("", Some("a\nb"), None)
        );
        assert_eq!(
            UserShell::of("<user_shell_command>ls</user_shell_command>"),
            shell("ls", Some(""), None)
        );
        assert_eq!(
            UserShell::of("<user_shell_command>"),
            shell("", Some(""), None).map(|ran| UserShell {
                command: Some(""),
                ..ran
            })
        );
    }
}
