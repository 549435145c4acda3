//! Defines the parts of a manifest that lists and verdicts need. For the rest, pages show the file
//! itself.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Format;
use super::end::{Budget, Ended, StopVerdict, ToolLimit};
use super::stated::Statement;
use super::step::Usage;
use super::stored;

/// The manifest of a run, or why it is not available.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub enum ManifestState {
    /// The file doesn't exist.
    #[default]
    Missing,
    /// The file exists, but no part of it is usable.
    Unreadable,
    /// The file was read.
    Read(Box<Manifest>),
}

/// The fields of a manifest that the index keeps. Strings are copied verbatim. `None` means not
/// recorded.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    /// The recorded run id. It isn't trusted as an identity.
    pub run_id: Option<Box<str>>,
    /// `running`, `completed`, `failed`, `stopped`, or any other status.
    pub status: Option<Box<str>>,
    /// Microseconds since the epoch: the creation or the last refresh while running, the end
    /// afterwards.
    pub updated_at: Option<i64>,
    /// When the run began in microseconds since the epoch, if recorded.
    pub started_at: Option<i64>,
    /// The process id of the writer, if recorded.
    pub pid: Option<i64>,
    /// The machine that the writer runs on, if recorded.
    pub host: Option<Box<str>>,
    /// The number of steps that the writer counted.
    pub step_count: Option<i64>,
    /// The number of steps in the run's own summary. A writer that handed over to another one may
    /// have counted none.
    pub steps_summed: Option<i64>,
    /// The number of events that the writer counted.
    pub event_count: Option<i64>,
    /// The recorded stop reason.
    pub stop_reason: Option<Box<str>>,
    /// The answer.
    pub final_result: Option<Box<str>>,
    /// Whether the writer considers the task done.
    pub success: Option<bool>,
    /// The tokens of the whole run. Also `None` if a scripted run records 0.
    pub tokens: Option<u64>,
    /// The run time in seconds on the writer's monotonic clock.
    pub latency_s: Option<f64>,
    /// The cost of the run in US dollars. Also `None` if recorded as 0.
    pub cost_usd: Option<f64>,
    /// Whether the writer estimated any of the cost from tokens and prices.
    pub cost_estimated: bool,
    /// The titles of the session, in order of precedence: the user's, the program's, and those of
    /// summaries.
    pub titles: Vec<Box<str>>,
    /// The first files of the patch that the run submitted, bounded.
    pub patched: Vec<Box<str>>,
    /// The tags of the run, bounded.
    pub tags: Vec<Box<str>>,
    /// The name of the model; `None` if recorded as "unknown".
    pub model: Option<Box<str>>,
    /// Whether `model` is the last of several, and steps don't name theirs.
    pub model_changed: bool,
    /// The starting agent.
    pub agent: Option<Box<str>>,
    /// The parent run.
    pub parent: Option<Box<str>>,
    /// Further statements of the file, field by field, about facts that other records may state
    /// too. If the file also states one of the fields above in other places, each of those has an
    /// entry here.
    pub statements: Vec<Statement>,
    /// The budget in effect, if recorded.
    #[serde(with = "stored::as_json")]
    pub budget: Option<Budget>,
    /// The stop rules of the run and the counters it resumed with, as JSON: an object with
    /// `stop_rules` and `resumed_from`. `None` if no rules are recorded, or if the text is longer
    /// than an index keeps.
    pub rules: Option<Box<str>>,
    /// The verdict that ended the run, if recorded.
    #[serde(with = "stored::as_json")]
    pub stop: Option<Box<StopVerdict>>,
    /// The number of steps of the earlier run that this one resumed.
    pub resumed_after: Option<i64>,
    /// The number of steps at the start that were copied from the parent, if this run is a branch.
    pub branched_after: Option<u64>,
    /// The classes of the criteria that could stop the run, if recorded.
    pub criteria: Option<Vec<Box<str>>>,
    /// The failures that reached the recovery policy.
    pub failures: Vec<Failure>,
    /// How many of these failures the file lists.
    pub failures_listed: usize,
    /// How many of these failures the writer counted.
    pub failure_count: Option<i64>,
    /// Changes to the files by others, as the writer found them at the end.
    pub altered: Vec<Box<str>>,
    /// The configured seed.
    pub seed: Option<i64>,
    /// The hash of the prompt.
    pub prompt_hash: Option<Box<str>>,
    /// The hash of the configuration.
    pub config_hash: Option<Box<str>>,
    /// The format of the run.
    #[serde(skip)]
    pub format: &'static Format,
    /// How the run ended, if another tool's format records that.
    pub ended: Option<Box<Ended>>,
    /// The end to assume if no more records follow: the last record is an error, and there is no
    /// end record.
    pub presumed_end: Option<Box<Ended>>,
    /// Whether the last turn is over or asks the user something, so that the user may continue. No
    /// record shows that the program has exited.
    pub awaits_user: bool,
    /// The tool whose call asks the user a question or for permission, if it has no answer and no
    /// records follow it.
    pub asks_user: Option<Box<str>>,
    /// The limits of the run, if another tool's trace names them.
    pub limits: Vec<ToolLimit>,
    /// The program that wrote the trace and its version, if recorded.
    pub tool: Option<Box<str>>,
    /// The directory that the agent worked in.
    pub project: Option<Box<str>>,
    /// The Git branches that were checked out there, in order and bounded.
    pub branches: Vec<Box<str>>,
    /// The Git commit that was checked out when the run began.
    pub commit: Option<Box<str>>,
    /// The reasoning efforts that the model was asked for, in order and bounded.
    pub efforts: Vec<Box<str>>,
    /// The number of turns, each from one user prompt to the next.
    pub turns: Option<u64>,
    /// The number of child runs.
    pub children: Option<u64>,
    /// The ids of the child runs, as far as this run's own records name them.
    pub child_ids: Vec<Box<str>>,
    /// Whether the recorded totals of the run include its child runs.
    pub totals_with_children: bool,
    /// Whether the recorded cost includes that of the child runs.
    pub cost_with_children: bool,
    /// The ids of the child runs whose cost is included although they record it too.
    pub paid_children: Vec<Box<str>>,
    /// The tokens by kind, if recorded for the run as a whole.
    pub usage: Usage,
    /// The tokens by model, if recorded for the run as a whole, with the time of each model's last use
    /// in microseconds since the epoch.
    pub models: Vec<(Box<str>, Usage, Option<i64>)>,
    /// The number of model replies, as counted by the run itself.
    pub model_calls: Option<u64>,
    /// The number of tool results whose calls aren't in the records.
    pub answers_without_calls: usize,
    /// The total that a record of another tool states for the whole run, for comparison with the
    /// steps.
    pub total: Option<Total>,
    /// The number of records at the start that were made from other files. The run's own file has its
    /// first line after them.
    pub records_made: u64,
    /// Whether the tokens are those of a whole thread. They then include the tokens of any earlier
    /// runs that this one continues.
    pub tokens_of_thread: bool,
    /// Whether the tokens don't include those of steps that were copied from another run.
    pub tokens_without_copies: bool,
    /// The sum over the steps, if each step records its tokens.
    pub tokens_summed: Option<u64>,
    /// The sum of cached tokens, if each step records them.
    pub cached_summed: Option<u64>,
    /// Whether the run's records name another run of the same program.
    pub names_others: bool,
    /// Other ids than the run's, by which files with records of the same session find each other.
    pub shared_ids: Vec<Box<str>>,
    /// The run that this one continues. Both are segments of one thread, in separate files.
    pub continues: Option<Box<str>>,
    /// The model's context window in tokens, if recorded. Of several, the last.
    pub context_window: Option<u64>,
    /// The points at which the conversation was compacted.
    pub compactions: Vec<Compaction>,
    /// Whether some replies of the model aren't in the records, so that their number is unknown.
    pub replies_unknown: bool,
    /// The part of the run before its first record, if the program doesn't keep that part's records.
    pub earlier: Option<Earlier>,
    /// Whether the tokens are the sum of what the steps record.
    pub tokens_of_steps: bool,
    /// How many replies the recorded totals don't include, so that they're lower bounds.
    pub replies_uncounted: u64,
    /// Whether the records don't show where each step of the run begins, so that the number of
    /// steps is unknown.
    pub steps_unknown: bool,
    /// Whether the last step made a tool call whose result has no recorded time.
    pub end_unknown: bool,
    /// The records that were copied from another run into this one's file.
    pub copied: Option<Copied>,
    /// The scores of the run as a whole.
    #[serde(with = "scores")]
    pub scores: Vec<RunScore>,
    /// The tokens of the requests that graders made to models. They aren't among the run's tokens.
    pub grader_tokens: Option<u64>,
    /// Who withdrew the outcome of the run, and why, as the end of a sentence: "invalidated by me:
    /// grader was wrong".
    pub invalidation: Option<Box<str>>,
    /// Further facts that the writer records, one sentence each: failed attempts before this one,
    /// failed checks despite a full reward.
    pub notes: Vec<Box<str>>,
    /// Contradictions between records of another tool about the end or the totals. Each is a
    /// sentence without a full stop.
    pub conflicts: Vec<Box<str>>,
    /// The task, and the options of the agent and the model, if the trace records any of them.
    pub trial: Option<Box<Trial>>,
    /// Whether the document of the run is truncated. An end that it states may precede missing
    /// steps.
    pub is_cut: bool,
    /// Whether the document of the run is final, because it's in an archive, is written only after
    /// the run, or states that the run is over.
    pub is_closed: bool,
    /// Whether the records have no times although the document is rewritten after each step, so
    /// neither shows whether the run continues.
    pub is_untimed: bool,
    /// Why the missing part of such a document can't be read.
    pub damage: Option<Box<str>>,
}

/// The run as part of a set: its task, and the options of the agent and the model.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trial {
    /// The set that contains the task, such as a benchmark.
    pub task_set: Option<Box<str>>,
    /// The task within the set.
    pub task_id: Option<Box<str>>,
    /// The number of this run among those of the same task.
    pub repeat: Option<i64>,
    /// The answer that the task expects. If there are several, they are separated by commas.
    pub target: Option<Box<str>>,
    /// The metrics over all runs of the set, in words: "accuracy 0.75, stderr 0.25".
    pub set_results: Option<Box<str>>,
    /// The options of the agent, as JSON.
    pub agent_args: Option<Box<str>>,
    /// The options of the model, as JSON. Messages are not included.
    pub model_options: Option<Box<str>>,
    /// The number of messages in the conversation, as recorded.
    pub messages: Option<u64>,
}

/// A score of the whole run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
pub struct RunScore {
    /// The name of the score or of the grader.
    #[schemars(description = "")]
    pub name: Box<str>,
    /// The score, if it is a number.
    pub score: Option<f64>,
    /// A grade that isn't a number: the text of a string, otherwise JSON.
    #[serde(rename = "score_text")]
    pub grade: Option<Box<str>>,
    /// The explanation.
    pub reason: Option<Box<str>>,
    /// The answer that was scored, if the score names it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answer: Option<Box<str>>,
    /// The event that contains the whole explanation, and the explanation's JSON pointer in it.
    #[serde(skip)]
    pub source: Option<(usize, Box<str>)>,
}

impl RunScore {
    /// Creates a numeric score without a reason.
    pub fn number(name: impl Into<Box<str>>, score: f64) -> Self {
        Self {
            name: name.into(),
            score: Some(score),
            ..Self::default()
        }
    }
}

/// Stores scores as tuples, because their JSON omits the source.
mod scores {
    use serde::{Deserialize as _, Deserializer, Serializer};

    use super::RunScore;

    type Stored = (
        Box<str>,
        Option<f64>,
        Option<Box<str>>,
        Option<Box<str>>,
        Option<Box<str>>,
        Option<(usize, Box<str>)>,
    );

    pub(super) fn serialize<S: Serializer>(
        scores: &[RunScore],
        target: S,
    ) -> Result<S::Ok, S::Error> {
        target.collect_seq(scores.iter().map(|score| {
            let RunScore {
                name,
                score,
                grade,
                reason,
                answer,
                source,
            } = score;
            (name, score, grade, reason, answer, source)
        }))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        source: D,
    ) -> Result<Vec<RunScore>, D::Error> {
        let stored = Vec::<Stored>::deserialize(source)?;
        let scores = stored.into_iter();
        let scores = scores.map(|(name, score, grade, reason, answer, source)| RunScore {
            name,
            score,
            grade,
            reason,
            answer,
            source,
        });
        Ok(scores.collect())
    }
}

/// A token total stated by a record.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Total {
    /// The tokens.
    pub tokens: u64,
    /// The name of the record: "result", "cost-state line".
    #[serde(deserialize_with = "stored::word")]
    pub record: stored::Word,
    /// A possible reason for a difference from the steps, such as "4 retries are recorded". May be
    /// empty.
    pub aside: Box<str>,
    /// Whether the program counts something else than the replies in the file, so that a difference is
    /// no error.
    pub counts_other: bool,
    /// Whether the total includes child runs, whose replies are in other files.
    pub has_children: bool,
    /// Whether the total would include child runs if there were any.
    pub counts_children: bool,
    /// The tokens of the child runs, if recorded for all of them.
    pub children: Option<u64>,
    /// The part of the tokens that came from a cache.
    pub cached: Option<u64>,
    /// The input tokens according to the record and to the replies, if the replies don't record
    /// their output.
    pub read: Option<(u64, u64)>,
}

/// A compaction of the conversation: the model no longer sees the messages before it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Compaction {
    /// The number of the event that records it.
    pub event: usize,
    /// The tokens of the conversation before the compaction, if recorded.
    pub tokens: Option<u64>,
    /// The tokens after it, if recorded.
    pub tokens_after: Option<u64>,
    /// What triggered it, in the tool's term. Empty if not recorded.
    pub trigger: Box<str>,
}

/// The part of a run before its first record, as far as later records tell. It isn't among the steps.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Earlier {
    /// The number of model replies.
    pub replies: Option<u64>,
    /// The number of tool calls.
    pub calls: Option<u64>,
    /// The number of tool calls that failed.
    pub failed_calls: Option<u64>,
}

/// Records copied from another run. Their steps and tokens count in that run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Copied {
    /// The number of records.
    pub records: u64,
    /// The run that they were copied from, if they name it.
    pub from: Option<Box<str>>,
}

/// One entry of the failure report.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Failure {
    /// The step's recorded id.
    pub step_id: Option<i64>,
    /// The phase that failed.
    pub phase: Box<str>,
    /// The category of the error.
    pub category: Box<str>,
    /// The error message.
    pub message: Box<str>,
    /// Whether the engine considers this kind of error recoverable.
    pub recoverable: Option<bool>,
    /// What the engine did: `continue` or `stop`.
    pub decision: Box<str>,
}

impl Failure {
    /// Returns whether the run ended with this failure although it was recoverable.
    pub fn is_given_up(&self) -> bool {
        self.recoverable == Some(true) && &*self.decision == "stop"
    }
}

/// Maximum number of branches, and of efforts, that are kept of a run.
const MAX_NAMES: usize = 4;

impl Manifest {
    /// Appends a name that isn't the newest one, up to `MAX_NAMES`.
    pub fn add_name(names: &mut Vec<Box<str>>, name: Option<Box<str>>) {
        let newest = names.last().map(|newest| &**newest);
        let is_new = name
            .as_deref()
            .is_some_and(|name| !name.is_empty() && newest != Some(name));
        if is_new && names.len() < MAX_NAMES {
            names.extend(name);
        }
    }

    /// Returns the command that continues the run. A child run can't be continued alone.
    pub fn resume(&self) -> Option<String> {
        let id = self.run_id.as_deref()?;
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
        let is_usable = !id.is_empty() && !id.starts_with('-') && id.bytes().all(is_plain);
        let command = self.format.resume;
        (is_usable && !command.is_empty() && self.parent.is_none())
            .then(|| format!("{command} {id}"))
    }

    /// Returns how many steps ran. This is the count of written lines or, without one, the count in
    /// the summary. The summary of a resumed run includes the earlier steps.
    pub fn steps_counted(&self) -> usize {
        let counted = self
            .step_count
            .filter(|steps| *steps > 0)
            .or(self.steps_summed);
        counted
            .and_then(|steps| usize::try_from(steps).ok())
            .unwrap_or_default()
    }

    /// Returns the model of a step that doesn't name one, or `None` if it may have been a different
    /// one.
    pub fn model_of_steps(&self) -> Option<&str> {
        self.model.as_deref().filter(|_| !self.model_changed)
    }

    /// Returns the failure that ended the run: the last one, unless the engine continued after it.
    pub fn fatal(&self) -> Option<&Failure> {
        self.failures
            .last()
            .filter(|failure| &*failure.decision != "continue")
    }

    /// Returns whether the manifest states that the run is over.
    pub fn is_final(&self) -> bool {
        self.ended.is_some()
            || self
                .status
                .as_deref()
                .is_some_and(|status| status != "running")
    }
}

impl ManifestState {
    /// Returns the manifest, if it could be read.
    pub fn get(&self) -> Option<&Manifest> {
        match self {
            ManifestState::Read(manifest) => Some(manifest),
            _ => None,
        }
    }
}
