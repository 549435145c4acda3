//! Describes the possible contents of a trace of each format. When a value is missing, this decides whether
//! it's absent or the format never records it.
//!
//! [`crate::format`] contains the table of formats. This module must not know any of their keys.

use super::files::TraceFile;

/// The name for a file that contains a program's captured output.
pub const CAPTURED: &str = "captured output";

/// A format in which a tool writes its traces.
#[derive(Debug, Clone, Copy)]
pub struct Format {
    /// The writer's name for display.
    pub name: &'static str,
    /// What the format can record.
    pub can: Capabilities,
    /// Where the trace records the full state of a run.
    pub state: StateRecord,
    /// The state keys that the engine itself increments between steps. No step records these
    /// changes.
    pub counters: &'static [&'static str],
    /// Whether a prompt contains only messages that no earlier prompt contained.
    pub prompts_hold_news: bool,
    /// The name for the file of a run if a run is a single file: "session file". Empty for a
    /// directory of three files.
    pub file: &'static str,
    /// Why a trace of this format may end without recording an end, whatever the reason was, as the
    /// end of a sentence. Empty if a run whose trace ends this way has died.
    pub no_end_reason: &'static str,
    /// Whether its files are named by ids, so that only the task describes a run.
    pub is_session: bool,
    /// Whether a coding agent wrote it, so that a run is read from top to bottom as a session is.
    pub is_of_coding_agent: bool,
    /// The command that continues a session, without its id. Empty if there is none.
    pub resume: &'static str,
    /// Whether a run is a sample of an evaluation: it's called by the first line of its input, and
    /// its page opens with the transcript.
    pub is_sample: bool,
    /// Whether its records are in chronological order, so that an exception is an issue.
    pub is_in_order: bool,
    /// Whether a step is one reply of the model. If not, the number of replies is unknown.
    pub has_reply_steps: bool,
    /// Whether a record of a reply may contain the request to the model's provider and its response, as
    /// `call`.
    pub has_exchange: bool,
    /// Whether its tools are shell commands, so that the command of a call begins with the tool's name.
    pub has_command_tools: bool,
    /// Whether the program may add texts in tags to those of the user, such as reminders for the model.
    /// If not, the user wrote such tags.
    pub adds_to_prompts: bool,
    /// Whether a run shares records with another one only if it names one, even if both begin alike.
    pub names_copied: bool,
    /// Whether a provider's ids of its calls identify a step, because its records have no times.
    pub is_known_by_calls: bool,
    /// Assembles the line of step `n` from its records, or `None` if each step has its own line.
    pub assemble: Option<fn(usize, &[String]) -> String>,
}

/// Words that end the name of a format but aren't part of the tool's name.
const KINDS: [&str; 5] = ["session", "trajectory", "log", "trace", "events"];

/// Returns the name of the tool that writes a format: `Claude Code`, of `Claude Code session`.
pub(crate) fn tool_of(format: &str) -> &str {
    match format.rsplit_once(' ') {
        Some((tool, kind)) if KINDS.contains(&kind) => tool,
        _ => format,
    }
}

/// Formats are rows of one table, so the name identifies them.
impl PartialEq for Format {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Format {
    /// Returns whether a run of this format is a single file, whose records are its events.
    pub fn is_one_file(&self) -> bool {
        !self.file.is_empty()
    }

    /// Returns whether the file is a database. Board builds a document from its records, and lines are
    /// those of the document.
    pub fn is_database(&self) -> bool {
        self.file == "database"
    }

    /// Returns whether a run is the work of a coding agent, which is read from top to bottom.
    pub fn is_conversation(&self) -> bool {
        self.is_session || self.is_of_coding_agent
    }

    /// Returns whether this format is a program's captured output without times. Steps of such a
    /// run can only be distinguished by what they ask for.
    pub fn is_untimed_stream(&self) -> bool {
        self.file == CAPTURED && self.can.times == Can::No
    }

    /// Returns whether a step that records no state change changed nothing. If only some of an
    /// agent's tools record their changes, a missing record proves nothing.
    pub fn tells_each_change(&self) -> bool {
        !self.is_one_file() || self.can.state == Can::Yes
    }

    /// Returns the name for the file that contains an event or a step.
    pub fn file_name(&self, file: TraceFile) -> &'static str {
        if self.is_one_file() {
            self.file
        } else {
            file.name()
        }
    }

    /// The format of a run that doesn't name its writer.
    pub const UNKNOWN: Self = Self {
        name: "",
        can: Capabilities {
            state: Can::Partly,
            scores: Can::Partly,
            times: Can::Partly,
            tokens: Can::Partly,
            cost: Can::Partly,
            limits: Can::Partly,
            success: Can::Partly,
            facts: Can::No,
        },
        state: StateRecord::Observed,
        counters: &["current_step"],
        prompts_hold_news: false,
        file: "",
        no_end_reason: "",
        is_session: false,
        is_of_coding_agent: false,
        resume: "",
        is_sample: false,
        is_in_order: false,
        has_reply_steps: true,
        has_exchange: false,
        adds_to_prompts: true,
        names_copied: false,
        has_command_tools: false,
        is_known_by_calls: false,
        assemble: None,
    };
}

impl Default for &'static Format {
    fn default() -> Self {
        &Format::UNKNOWN
    }
}

/// Whether a trace can record something.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Can {
    /// Never. A missing value is unknown.
    No,
    /// Some writers or some steps do.
    Partly,
    /// Wherever it applies. A missing value means that there isn't one, or that the trace is damaged.
    Yes,
}

/// What a trace can record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capabilities {
    /// The state, and how each step changed it.
    pub state: Can,
    /// The critics' scores.
    pub scores: Can,
    /// When a step began and ended.
    pub times: Can,
    /// The tokens of each step.
    pub tokens: Can,
    /// The cost of a step.
    pub cost: Can,
    /// The rules that governed the run, and who set their limits.
    pub limits: Can,
    /// Whether the task was solved.
    pub success: Can,
    /// The facts that the stop rules evaluated in each step.
    pub facts: Can,
}

impl Capabilities {
    /// None of these. Rows of the table name what they can record.
    pub const NONE: Self = Self {
        state: Can::No,
        scores: Can::No,
        times: Can::No,
        tokens: Can::No,
        cost: Can::No,
        limits: Can::No,
        success: Can::No,
        facts: Can::No,
    };
}

/// Where the trace records the full state of a run. Everything else is a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StateRecord {
    /// Once, in the event that begins the run. Only steps change the state.
    Initial,
    /// With each step, as observed. The state may change between steps.
    Observed,
}
