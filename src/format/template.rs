//! Finds the task in a prompt that an agent program wrote around it.
//!
//! Some programs put each task into the same long text, so the first line is the same in each
//! run. Only texts with a program's exact words are recognized.

/// A text that a program writes around a task.
struct Template {
    /// How the prompt begins.
    begins: &'static str,
    /// What comes directly before the task: the first of these that the prompt has.
    before: &'static [&'static str],
    /// What comes directly after it. Empty if the end doesn't matter, because a title is one line.
    after: &'static str,
}

const TEMPLATES: [Template; 7] = [
    // SWE-agent before 1.0
    Template {
        begins: "We're currently solving the following issue within our repository.",
        before: &["\nISSUE:\n"],
        after: "",
    },
    Template {
        begins: "We're currently solving the following CTF challenge.",
        before: &[" named \""],
        after: "\", worth ",
    },
    // SWE-agent since 1.0, and OpenHands for benchmarks
    Template {
        begins: "<uploaded_files>",
        before: &["<pr_description>", "<issue_description>"],
        after: "",
    },
    // mini-swe-agent
    Template {
        begins: "<pr_description>",
        before: &["Consider the following PR description:"],
        after: "",
    },
    Template {
        begins: "Please solve this issue:",
        before: &["Please solve this issue:"],
        after: "",
    },
    // Terminus
    Template {
        begins: "You are an AI assistant tasked with solving command-line tasks in a Linux environment.",
        before: &["\nTask Description:\n", "\nInstruction:\n"],
        after: "",
    },
    Template {
        begins: "You are picking up work from a previous AI agent on this task:",
        before: &["**Original Task:**"],
        after: "",
    },
];

/// Returns the first line of the task in a prompt from a known template. `None` for other prompts.
pub(super) fn task_line(prompt: &str) -> Option<&str> {
    let prompt = prompt.trim_start();
    let template = TEMPLATES
        .iter()
        .find(|template| prompt.starts_with(template.begins))?;
    let task = template
        .before
        .iter()
        .find_map(|before| Some(prompt.split_once(before)?.1))?;
    let task = match template.after {
        "" => task,
        after => task.split_once(after)?.0,
    };
    let line = task.lines().map(str::trim).find(|line| !line.is_empty())?;
    // A heading in Markdown. The end of an empty section isn't a task.
    let line = line.trim_start_matches('#').trim_start();
    (!line.is_empty() && !line.starts_with("</")).then_some(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_of_a_task_is_found_in_the_text_around_it() {
        for (prompt, line) in [
            (
                "We're currently solving the following issue within our repository. Here's the issue text:\nISSUE:\nSyntaxError: invalid syntax\nI'm running `x`.\n\nINSTRUCTIONS:\nNow",
                Some("SyntaxError: invalid syntax"),
            ),
            (
                "We're currently solving the following CTF challenge. The CTF challenge is a web security problem named \"I Got Id\", worth 10 points. The description is:\nI just",
                Some("I Got Id"),
            ),
            (
                "<uploaded_files>\n/testbed\n</uploaded_files>\nI've uploaded a python code repository in the directory /testbed. Consider the following PR description:\n\n<pr_description>\n# Fix `sum`\r\n\nIt fails.\n</pr_description>",
                Some("Fix `sum`"),
            ),
            (
                "<uploaded_files>\n/w\n</uploaded_files>\n<issue_description>\n\n</issue_description>\nCan you",
                None,
            ),
            (
                "<pr_description>\nConsider the following PR description:\nFix `sum`\n</pr_description>",
                Some("Fix `sum`"),
            ),
            (
                "Please solve this issue: Fix `sum`\n\nYou can",
                Some("Fix `sum`"),
            ),
            (
                "You are an AI assistant tasked with solving command-line tasks in a Linux environment. You will be given a task description.\n\nTask Description:\nCreate a file.\n\n\nCurrent terminal state:",
                Some("Create a file."),
            ),
            (
                "You are picking up work from a previous AI agent on this task:\n\n**Original Task:** Create a file.\n\n**Summary",
                Some("Create a file."),
            ),
            // Other prompts, and prompts without the section
            ("Fix `sum`\nISSUE:\nNo", None),
            (
                "We're currently solving the following issue within our repository.",
                None,
            ),
            ("", None),
        ] {
            assert_eq!(task_line(prompt), line, "{prompt}");
        }
    }
}
