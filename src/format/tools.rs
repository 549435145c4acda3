//! Lists the supported tools, and what differs between them before a file is read.

use std::ffi::OsStr;

use super::lines::before_compression;
use super::{
    Before, Shape, Tool, aider, amp, atif, claude, cline, codex, continue_cli, copilot, crush,
    droid, gemini, goose, gptme, harbor, hermes, inspect, kimi, kimi_cli, mini_swe_agent, opencode,
    openhands, otlp, pi, qwen, swe_agent, tau2, vibe, vibe2,
};

#[cfg(test)]
use super::lines;

/// The tools whose traces are read. They are tried in this order.
static TOOLS: &[&Tool] = &[
    // The first line identifies these, so most files are known without looking into further lines.
    &codex::ROLLOUT,
    &codex::exec::STREAM,
    &gemini::SESSION,
    &gemini::stream::STREAM,
    &pi::SESSION,
    &copilot::SESSION,
    &kimi::SESSION,
    &kimi_cli::SESSION,
    &vibe::SESSION,
    &vibe2::SESSION,
    &droid::SESSION,
    &qwen::SESSION,
    &claude::SESSION,
    &claude::stream::CLAUDE,
    &claude::stream::QWEN,
    &gemini::DOCUMENT,
    &pi::stream::STREAM,
    &copilot::STREAM,
    &cline::SESSION,
    &continue_cli::SESSION,
    &gptme::SESSION,
    &amp::THREAD,
    &swe_agent::TRAJECTORY,
    &mini_swe_agent::TRAJECTORY,
    &harbor::TRIAL,
    &harbor::CLAUDE_TRIAL,
    &harbor::CODEX_TRIAL,
    &harbor::MINI_TRIAL,
    &inspect::LOG,
    &atif::TRAJECTORY,
    &openhands::CONVERSATION,
    &openhands::EVENTS,
    &openhands::exported::TRAJECTORY,
    &openhands::instance::INSTANCES,
    &otlp::TRACES,
    &otlp::SPANS,
    &tau2::RESULTS,
    &tau2::SIMULATION,
    &aider::SESSION,
    &opencode::OPENCODE,
    &opencode::KILO,
    &hermes::SESSION,
    &opencode::FILES,
    &opencode::EXPORT,
    &crush::SESSION,
    &goose::SESSION,
];

/// Returns the tool that wrote a file with this name and beginning.
#[cfg(test)]
pub(crate) fn tool(name: &str, head: &[u8]) -> Option<&'static Tool> {
    let name = &*lines::with_lower_ending(name);
    tool_of(name, &lines::mended(head, lines::is_lines(name)))
}

/// Returns the tool that wrote a file with this name and beginning. The beginning must not end in a
/// torn line, and the name must not end in capitals.
pub(super) fn tool_of(name: &str, head: &[u8]) -> Option<&'static Tool> {
    TOOLS.iter().find(|tool| (tool.is)(name, head)).copied()
}

/// Returns whether the directory `name` in `folder` only holds parts of runs whose own files are
/// elsewhere. There may be a hundred thousand such directories.
pub(crate) fn holds_parts(folder: &OsStr, name: &OsStr) -> bool {
    let (Some(folder), Some(name)) = (folder.to_str(), name.to_str()) else {
        return false;
    };
    TOOLS.iter().any(|tool| match tool.shape {
        Shape::Composed(composed) => composed.has(folder, name),
        _ => false,
    })
}

/// The name of the directories with the segments of a run.
pub(crate) const SEGMENTS: &str = vibe::JOURNAL;

/// Returns the number of a tool in this build.
pub(crate) fn number_of(tool: &'static Tool) -> Option<usize> {
    TOOLS.iter().position(|known| std::ptr::eq(*known, tool))
}

/// Returns the tool with this number.
pub(crate) fn numbered(number: usize) -> Option<&'static Tool> {
    TOOLS.get(number).copied()
}

/// A file with further facts about the run in a single file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Companion {
    /// Its name.
    pub name: String,
    /// Whether it's in the directory above the file's.
    pub is_above: bool,
    /// Whether it repeats the records, one in each line, with times that have an offset. Otherwise
    /// it's a document.
    pub is_clock: bool,
}

/// Where to find the files of a session's child runs.
#[derive(Debug, Clone, Copy)]
pub struct ChildFiles {
    /// The directory, relative to the directory of the session's file or to the parent of that.
    /// `{}` is replaced by the name of the session.
    pub below: &'static str,
    /// Whether it is relative to the parent of the session's directory.
    pub is_beside_directory: bool,
    /// Whether the name of the session is its id rather than the name of its file.
    pub by_id: bool,
    /// How the names of the files begin.
    pub begins: &'static str,
}

impl Tool {
    /// Returns whether the file `name` in the directory `dir` is a segment of a run. Its other segments
    /// are in the same directory, and the program deletes them when the next one begins.
    pub fn is_segment(&self, dir: &OsStr, name: &OsStr) -> bool {
        let is_journal = |name| vibe::is_journal(before_compression(name).unwrap_or(name));
        self.format == vibe::SESSION.format
            && dir == SEGMENTS
            && name.to_str().is_some_and(is_journal)
    }

    /// Returns how to make the records that may be missing before those in a file of this name.
    pub fn before(&self, name: &OsStr) -> Option<&'static Before> {
        let is_journal = name.to_str().is_some_and(vibe::is_journal);
        (self.format == vibe::SESSION.format && is_journal).then_some(&vibe::BEFORE)
    }

    /// Returns where in a run's directory to find further runs: the directories on the way; `*`
    /// matches any.
    pub fn runs_inside(&self) -> Option<&'static [&'static str]> {
        (self.format == harbor::TRIAL.format).then_some(harbor::RUNS_INSIDE)
    }

    /// Returns the tool that reads a directory of this one. `has` checks whether a file exists. If
    /// the document with the steps is missing, the steps are read from the agent's output.
    pub fn for_directory(&'static self, has: impl Fn(&str) -> bool) -> &'static Self {
        let is_trial = std::ptr::eq(self, &raw const harbor::TRIAL);
        if is_trial {
            harbor::with_records(has).unwrap_or(self)
        } else {
            self
        }
    }

    /// Returns the tool that reads a copy of a run of this one. A document that was made from several
    /// files is one file there.
    pub fn of_copy(&'static self) -> &'static Self {
        match self.shape {
            Shape::Composed(_) => &opencode::EXPORT,
            _ => self,
        }
    }

    /// Returns the file, next to a file of this name, that has further facts about the run.
    pub fn companion(&self, name: &OsStr) -> Option<Companion> {
        let is_clock = self.format == gptme::SESSION.format;
        let (name, is_above) = match self.format {
            format if format == vibe::SESSION.format => (vibe::META.to_owned(), true),
            format if format == vibe2::SESSION.format => (vibe::META.to_owned(), false),
            format if format == cline::SESSION.format => (cline::manifest(name.to_str()?)?, false),
            format if format == droid::SESSION.format => (droid::settings(name.to_str()?)?, false),
            format if format == claude::SESSION.format || format == qwen::SESSION.format => {
                (claude::document_of(name.to_str()?)?, false)
            }
            _ if is_clock => (gptme::clock(name.to_str()?)?, false),
            _ => return None,
        };
        Some(Companion {
            name,
            is_above,
            is_clock,
        })
    }

    /// Returns where to find the files of child runs, for tools that store them in a directory
    /// named after the session.
    pub fn child_files(&self) -> Option<ChildFiles> {
        let files = |below, is_beside_directory, by_id, begins| ChildFiles {
            below,
            is_beside_directory,
            by_id,
            begins,
        };
        match self.format {
            format if format == claude::SESSION.format => {
                Some(files("{}/subagents", false, false, claude::AGENT))
            }
            format if format == gemini::SESSION.format => Some(files("{}", false, true, "")),
            format if format == qwen::SESSION.format => {
                Some(files("subagents/{}", true, true, claude::AGENT))
            }
            _ => None,
        }
    }
}
