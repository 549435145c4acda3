//! What does a manifest say? The few fields lists and verdicts need; the file itself shows the rest.

use super::Format;
use super::end::{Bound, Budget, Ended, Op, Reading, StopVerdict};
use super::stated::Statement;
use super::step::Usage;

/// The manifest of a run, or why there is none.
#[derive(Debug, Clone, Default, PartialEq)]
pub enum ManifestState {
    /// There is no such file.
    #[default]
    Missing,
    /// There is one, and it says nothing that can be used.
    Unreadable,
    /// It was read.
    Read(Box<Manifest>),
}

/// What the index keeps of a manifest. Words are the file's own; `None` is "not said".
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Manifest {
    /// The recorded run id; not trusted as an identity.
    pub run_id: Option<Box<str>>,
    /// `running`, `completed`, `failed`, `stopped`, or any other word.
    pub status: Option<Box<str>>,
    /// Microseconds since the epoch: creation or the last refresh while running, the end afterwards.
    pub updated_at: Option<i64>,
    /// When the run began, where the writer records it; microseconds since the epoch.
    pub started_at: Option<i64>,
    /// The writer's process, where it is recorded.
    pub pid: Option<i64>,
    /// The machine the writer runs on, where it is recorded.
    pub host: Option<Box<str>>,
    /// Steps the writer counted.
    pub step_count: Option<i64>,
    /// Steps that the run itself counted, by its summary: a writer that was handed over to another one may have counted none.
    pub steps_summed: Option<i64>,
    /// Events the writer counted.
    pub event_count: Option<i64>,
    /// The stop reason, as written.
    pub stop_reason: Option<Box<str>>,
    /// The answer.
    pub final_result: Option<Box<str>>,
    /// Whether the task counts as done, in the writer's view.
    pub success: Option<bool>,
    /// Tokens of the whole run; `None` also where a scripted run says 0.
    pub tokens: Option<u64>,
    /// Run time in seconds on the writer's monotonic clock.
    pub latency_s: Option<f64>,
    /// What the run cost in US dollars; `None` also where it says 0.
    pub cost_usd: Option<f64>,
    /// Whether the writer estimated any of that from tokens and prices.
    pub cost_estimated: bool,
    /// The titles of the session, the one that counts first: by its user, by its program, and of summaries.
    pub titles: Vec<Box<str>>,
    /// The model's name; `None` where it says "unknown".
    pub model: Option<Box<str>>,
    /// Whether that is the last of several, and steps do not name theirs.
    pub model_changed: bool,
    /// The starting agent.
    pub agent: Option<Box<str>>,
    /// The run that started this one.
    pub parent: Option<Box<str>>,
    /// What it states besides, field by field, of facts that other records may state too. A field above that is stated
    /// elsewhere in the same file is here once for each place.
    pub statements: Vec<Statement>,
    /// The budget that held, where it is recorded.
    pub budget: Option<Budget>,
    /// The stop rules of the run and the counters it resumed with, as JSON: an object with `stop_rules` and
    /// `resumed_from`. `None` if no rules are recorded, or if the text is longer than an index keeps.
    pub rules: Option<Box<str>>,
    /// The verdict that ended the run, where it is recorded.
    pub stop: Option<Box<StopVerdict>>,
    /// After how many steps of an earlier run this one went on.
    pub resumed_after: Option<i64>,
    /// How many steps at its beginning are those of its parent, where somebody branched from that.
    pub branched_after: Option<u64>,
    /// The criteria that could stop the run, by their classes, where they are recorded.
    pub criteria: Option<Vec<Box<str>>>,
    /// Failures that reached the recovery policy.
    pub failures: Vec<Failure>,
    /// How many of those the file lists.
    pub failures_listed: usize,
    /// How many of them the writer counted.
    pub failure_count: Option<i64>,
    /// In what the writer found, at the end, that the files are not those that it wrote.
    pub altered: Vec<Box<str>>,
    /// The configured seed.
    pub seed: Option<i64>,
    /// Hash of the prompt.
    pub prompt_hash: Option<Box<str>>,
    /// Hash of the configuration.
    pub config_hash: Option<Box<str>>,
    /// How the run is written.
    pub format: &'static Format,
    /// How the run ended, where another tool's format tells.
    pub ended: Option<Box<Ended>>,
    /// The end if nothing more comes: the last record is an error, and the record of the end is missing.
    pub presumed_end: Option<Box<Ended>>,
    /// Its last turn is over, or asks its user something, and its user may go on with it: nothing tells that the program which wrote it is gone.
    pub awaits_user: bool,
    /// The tool whose call asks the user something, or asks for leave, and has no answer; nothing follows it.
    pub asks_user: Option<Box<str>>,
    /// The limits that the run was under, where another tool's trace names them.
    pub limits: Vec<ToolLimit>,
    /// The program that wrote the trace and its version, where the trace names them.
    pub tool: Option<Box<str>>,
    /// The directory that the agent worked in.
    pub project: Option<Box<str>>,
    /// What a person asked for, from one prompt to the next.
    pub turns: Option<u64>,
    /// Runs that this one started.
    pub children: Option<u64>,
    /// The ids of those, as far as this run's own records name them.
    pub child_ids: Vec<Box<str>>,
    /// What the run records that it took as a whole is with all that its child runs took.
    pub totals_with_children: bool,
    /// The tokens apart, where that is said of the run as a whole.
    pub usage: Usage,
    /// Replies of the model, by the run's own count.
    pub model_calls: Option<u64>,
    /// Answers to calls that are in no record.
    pub answers_without_calls: usize,
    /// The total that a record of another tool states for the whole run, to be compared with its steps.
    pub total: Option<Total>,
    /// The tokens are those of a whole thread: what runs took that it went on from is among them, where there are any.
    pub tokens_of_thread: bool,
    /// The sum of the steps, where each of them records its tokens.
    pub tokens_summed: Option<u64>,
    /// The sum of what caches held, where each step records it.
    pub cached_summed: Option<u64>,
    /// The run of whose thread this one is a later segment, in a file of its own.
    pub continues: Option<Box<str>>,
    /// Where the conversation was compacted.
    pub compactions: Vec<Compaction>,
    /// Some replies of the model are in no record: how many there were is not known.
    pub replies_untold: bool,
    /// The tokens are the sum of what the steps say that they took.
    pub tokens_of_steps: bool,
    /// The records do not tell where each step of the run begins: how many there were is not known.
    pub steps_untold: bool,
    /// The last step asked for something, and when that came back is not recorded.
    pub end_untold: bool,
    /// Records that were copied from another run into this one's file.
    pub copied: Option<Copied>,
    /// Scores of the run as a whole.
    pub scores: Vec<RunScore>,
    /// Who took back what the run came to, and why, as the end of a sentence: "invalidated by me: grader was wrong".
    pub invalidation: Option<Box<str>>,
    /// Further facts that the writer records: failed attempts before this one, failed checks behind a full reward. A
    /// sentence each.
    pub notes: Vec<Box<str>>,
    /// Where records of another tool contradict each other about the end or the totals, a sentence each without a full
    /// stop.
    pub conflicts: Vec<Box<str>>,
    /// Which task it was, and what agent and model were given, where the trace says any of that.
    pub trial: Option<Box<Trial>>,
    /// The one document of the run ends in the middle: what it says of its end may stand before steps that are missing.
    pub is_cut: bool,
    /// Nothing can be added to the document of the run: it lies in an archive, or says that all is over.
    pub is_closed: bool,
    /// Why what is missing of such a document can not be read.
    pub damage: Option<Box<str>>,
}

/// A run as one of many: which task of which set it was, and what agent and model were given.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Trial {
    /// The set that the task is of, such as a benchmark.
    pub task_set: Option<Box<str>>,
    /// The task within it.
    pub task_id: Option<Box<str>>,
    /// Which run of the same task it is.
    pub repeat: Option<i64>,
    /// What the agent was given, as JSON.
    pub agent_args: Option<Box<str>>,
    /// What the model was given beside its messages, as JSON.
    pub model_options: Option<Box<str>>,
    /// Messages of the conversation as the trace holds it.
    pub messages: Option<u64>,
}

/// A score of the run as a whole.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RunScore {
    /// Who or what gave it.
    pub name: Box<str>,
    /// The score, where it is a number.
    pub score: Option<f64>,
    /// The grade as recorded, where it isn't a number: a string's own text, else JSON.
    pub grade: Option<Box<str>>,
    /// Why it was given.
    pub reason: Option<Box<str>>,
}

impl RunScore {
    /// A score that is a number, without a reason.
    pub fn number(name: impl Into<Box<str>>, score: f64) -> Self {
        Self {
            name: name.into(),
            score: Some(score),
            ..Self::default()
        }
    }
}

/// A total of tokens that a record states.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Total {
    /// The tokens.
    pub tokens: u64,
    /// The record: "result", "cost-state".
    pub record: &'static str,
    /// What may explain a difference to the steps, such as "4 retries are recorded"; empty where nothing does.
    pub aside: Box<str>,
    /// Whether child runs, whose replies stand elsewhere, are in it.
    pub has_children: bool,
    /// Whether it would be with child runs, if there are any.
    pub counts_children: bool,
    /// What the child runs took, where that is recorded of all of them.
    pub children: Option<u64>,
    /// Of the tokens, those from a cache.
    pub cached: Option<u64>,
    /// What was read by the record and by the replies, where replies don't say what they wrote.
    pub read: Option<(u64, u64)>,
}

/// A place where the conversation was compacted: the model no longer sees what stands before it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Compaction {
    /// The event that records it, by number.
    pub event: usize,
    /// How many tokens the conversation had before; `None` where that is not recorded.
    pub tokens: Option<u64>,
    /// What caused it, in the tool's word; empty where that is not recorded.
    pub trigger: Box<str>,
}

/// What was copied from another run; its steps and tokens count there.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Copied {
    /// How many records.
    pub records: u64,
    /// The run that they come from, where they name it.
    pub from: Option<Box<str>>,
}

/// A limit that another tool was given.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolLimit {
    /// What the tool calls it.
    pub name: &'static str,
    /// The limit.
    pub limit: f64,
    /// Its unit, in the plural: `steps`, `turns`, `messages`, `usd`, `tokens`, `ms`.
    pub unit: &'static str,
    /// How much was used, where the trace says so; else what the board counts of it stands beside it.
    pub used: Option<f64>,
    /// Whether `used` is the figure or a bound of it.
    pub bound: Bound,
    /// How the tool compares the two.
    pub op: Op,
}

impl ToolLimit {
    /// The same, with another comparison.
    #[must_use]
    pub fn compared(self, op: Op) -> Self {
        Self { op, ..self }
    }

    /// The same; `used` is only a bound of what was used.
    #[must_use]
    pub fn bounded(self, bound: Bound) -> Self {
        Self { bound, ..self }
    }

    /// Whether what was used reaches the limit; `None` if that is unknown.
    pub fn is_reached(&self) -> Option<bool> {
        self.is_reached_by(self.used?, self.bound)
    }

    /// Whether this much reaches the limit.
    pub fn is_reached_by(&self, used: f64, bound: Bound) -> Option<bool> {
        let reading = Reading::compare(used, self.op, self.limit, self.unit);
        match (bound, self.op.holds(used, self.limit)) {
            (Bound::AtMost, true) | (Bound::AtLeast, false) => None,
            (_, true) => Some(true),
            // Rounding may hide that it was reached.
            (_, false) => reading.is_refuted().then_some(false),
        }
    }
}

/// One entry of the failure report.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Failure {
    /// The step's recorded id.
    pub step_id: Option<i64>,
    /// The phase that failed.
    pub phase: Box<str>,
    /// The sort of error.
    pub category: Box<str>,
    /// The error in words.
    pub message: Box<str>,
    /// Whether the engine takes it for a sort of error that it may recover from.
    pub recoverable: Option<bool>,
    /// What the engine did: `continue` or `stop`.
    pub decision: Box<str>,
}

impl Failure {
    /// Whether the run ended with it although it is of a sort that is recovered from.
    pub fn is_given_up(&self) -> bool {
        self.recoverable == Some(true) && &*self.decision == "stop"
    }
}

impl Manifest {
    /// How many steps ran: by the count of the lines that were written, or where there is none, by the summary, which of a run
    /// that was gone on with counts those before it too.
    pub fn steps_counted(&self) -> usize {
        let counted = self
            .step_count
            .filter(|steps| *steps > 0)
            .or(self.steps_summed);
        counted
            .and_then(|steps| usize::try_from(steps).ok())
            .unwrap_or_default()
    }

    /// The model of a step that does not name its own; `None` where it may have been another one.
    pub fn model_of_steps(&self) -> Option<&str> {
        self.model.as_deref().filter(|_| !self.model_changed)
    }

    /// The failure that ended the run: the newest one, unless the engine went on after it.
    pub fn fatal(&self) -> Option<&Failure> {
        self.failures
            .last()
            .filter(|failure| &*failure.decision != "continue")
    }

    /// Whether it says that the run is over.
    pub fn is_final(&self) -> bool {
        self.ended.is_some()
            || self
                .status
                .as_deref()
                .is_some_and(|status| status != "running")
    }
}

impl ManifestState {
    /// The manifest, if it could be read.
    pub fn get(&self) -> Option<&Manifest> {
        match self {
            ManifestState::Read(manifest) => Some(manifest),
            _ => None,
        }
    }
}
