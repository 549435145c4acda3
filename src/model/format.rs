//! What can a trace of some format hold? Asked where something is not there: it is absent, or no trace of this sort has it.
//!
//! The rows stand in [`crate::format`]; must not know the keys of any.

use super::TraceFile;

/// What a file is called that holds what a program printed.
pub const CAPTURED: &str = "captured stream";

/// A way in which a tool writes its traces.
#[derive(Debug, Clone, Copy)]
pub struct Format {
    /// The writer in words.
    pub name: &'static str,
    /// What it can hold.
    pub can: Capabilities,
    /// Where the whole state of a run stands.
    pub state: StateRecord,
    /// The keys of the state that the engine itself counts up between steps, and that no step is recorded to change.
    pub counters: &'static [&'static str],
    /// Whether a prompt holds only the messages that no prompt before it held.
    pub prompts_hold_news: bool,
    /// What the one file of a run is called, where a run is one: "session file". Empty for a directory of three files.
    pub file: &'static str,
    /// Why a trace of it may end without a word of how its run ended, whatever the reason was, as the end of a sentence.
    /// Empty where a run that ends so has died.
    pub untold: &'static str,
    /// Whether its files are named by ids, so that only the task says what a run is about.
    pub is_session: bool,
    /// Whether its records stand in the order of their times, so that one which does not is odd.
    pub is_in_order: bool,
    /// Whether a step is one reply of the model. Where it is not, nobody knows how many there were.
    pub tells_replies: bool,
    /// Puts the line of step `n` together from the records that it is spread over; `None` where steps have lines of
    /// their own.
    pub assemble: Option<fn(usize, &[String]) -> String>,
}

/// A format is one row of a table.
impl PartialEq for Format {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Format {
    /// Whether a run of it is one file, whose records are its events.
    pub fn is_one_file(&self) -> bool {
        !self.file.is_empty()
    }

    /// Whether it is what a program printed, and has no times. Only what such a run asks for tells its steps apart.
    pub fn is_untimed_stream(&self) -> bool {
        self.file == CAPTURED && self.can.times == Can::No
    }

    /// Whether a step that tells of no change of the state changed nothing. Where only some tools of an agent tell what they
    /// changed, silence says nothing.
    pub fn tells_each_change(&self) -> bool {
        !self.is_one_file() || self.can.state == Can::Yes
    }

    /// What people call the file that an event or a step stands in.
    pub fn file_name(&self, file: TraceFile) -> &'static str {
        if self.is_one_file() {
            self.file
        } else {
            file.name()
        }
    }

    /// That of a run which does not say who wrote it.
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
        untold: "",
        is_session: false,
        is_in_order: false,
        tells_replies: true,
        assemble: None,
    };
}

impl Default for &'static Format {
    fn default() -> Self {
        &Format::UNKNOWN
    }
}

/// Whether a trace can hold something.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Can {
    /// Never: where it is not there, it is unknown.
    No,
    /// Some writers, or some steps.
    Partly,
    /// Wherever it applies: where it is not there, something is wrong or there is nothing.
    Yes,
}

/// What a trace can hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capabilities {
    /// What the state was and how each step changed it.
    pub state: Can,
    /// The scores of critics.
    pub scores: Can,
    /// When a step began and ended.
    pub times: Can,
    /// Tokens of each step.
    pub tokens: Can,
    /// What a step cost.
    pub cost: Can,
    /// The rules that the run was under, with who set their limits.
    pub limits: Can,
    /// Whether the task was done.
    pub success: Can,
    /// What the stop rules looked at in each step.
    pub facts: Can,
}

impl Capabilities {
    /// Nothing of it: a row of the table names what it can.
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

/// Where the whole state of a run stands; all else are changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StateRecord {
    /// Once, in the event that begins the run. Nothing but a step changes it.
    Initial,
    /// With the steps, as each observed it; it may change between them.
    Observed,
}
