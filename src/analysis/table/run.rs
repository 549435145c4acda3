//! The columns of the runs table, in order.
//!
//! Names match those of Inspect Scout's transcripts table if it has the same column.

use std::borrow::Cow;

use super::Read::{Column, Flag, Number, Text, Time, Whole};
use super::{Field, Read, whole};
use crate::analysis::columns::{self, named};
use crate::analysis::facts::Record;
use crate::analysis::newest::newest_run;
use crate::analysis::rule_replay::{Counted, course};
use crate::analysis::summary::Summary;
use crate::analysis::verdict::{RunStatus, ended, error_of_end};
use crate::analysis::why;
use crate::model::time::day;
use crate::model::{CallEnd, Certainty, EndKind, Index, Outcome, Reading, StopReason, Trial};
use crate::stop::{Counts, counts};

/// The data for a run's row and the rows of its steps.
#[derive(Debug)]
pub(crate) struct Run {
    pub(super) summary: Summary,
    pub(super) index: Index,
    pub(super) place: RunSource,
    pub(super) record: Record,
    pub(super) course: Vec<Counted>,
    ended_by: Option<Reading>,
}

/// The location of a run and the address of its page.
#[derive(Debug, Clone, Default)]
pub(crate) struct RunSource {
    /// The root as the user typed it.
    pub root: String,
    /// The size of its files in bytes.
    pub size: u64,
    /// The address of its page.
    pub address: String,
}

impl Run {
    /// Prepares the newest run in `index`. `record` contains the facts that stop rules used.
    pub(crate) fn new(summary: Summary, index: Index, record: Record, place: RunSource) -> Self {
        let course = course(record.start(), &record.facts);
        let ended_by = why::ended_by(&summary, &index);
        Self {
            summary,
            index,
            place,
            record,
            course,
            ended_by,
        }
    }

    /// Returns the start time, in microseconds since the epoch.
    pub(crate) fn started(&self) -> Option<i64> {
        self.summary.started
    }

    /// Returns what ended the run, as one of a few words that are the same for all formats.
    fn kind(&self) -> Option<&'static str> {
        if let Some(kind) = self
            .told_kind()
            .filter(|_| self.summary.verdict.mark != RunStatus::Limit)
        {
            return Some(kind.as_str());
        }
        Some(match self.summary.verdict.mark {
            RunStatus::Running | RunStatus::Quiet | RunStatus::Stalled => "running",
            RunStatus::Answered => "answered",
            RunStatus::Limit => self.limit(),
            RunStatus::Stopped => "own_rule",
            RunStatus::Critic => "critic",
            RunStatus::Cancelled => "cancelled",
            RunStatus::Error => "error",
            RunStatus::Died => "died",
            RunStatus::Unknown => return None,
        })
    }

    /// Returns the kind of end that another tool's trace records.
    fn told_kind(&self) -> Option<EndKind> {
        let ended = ended(&self.index, &self.summary.life)?;
        ended
            .kind()
            .filter(|_| self.summary.verdict.outcome == ended.outcome)
    }

    /// Returns the kind of limit that ended the run.
    fn limit(&self) -> &'static str {
        if let Some(kind) = self.told_kind() {
            return kind.as_str();
        }
        let unit = self
            .ended_by
            .as_ref()
            .map(|reading| &*reading.unit)
            .unwrap_or_default();
        let word = self
            .summary
            .verdict
            .stop_reason
            .as_deref()
            .unwrap_or_default();
        let code = self.index.stop().map_or(word, |stop| stop.code.as_str());
        match (unit, StopReason::parse(word), counts(code)) {
            (_, StopReason::Stagnation, _) => "loop",
            (_, StopReason::ContextOverflow, _) => "context",
            ("steps" | "turns" | "rounds" | "messages", ..) | (_, _, Counts::Steps) => "steps",
            ("tokens", ..) | (_, _, Counts::Tokens) => "tokens",
            ("usd", ..) | (_, _, Counts::Cost) => "cost",
            ("ms", ..) | (_, _, Counts::Time) => "time",
            _ => "limit",
        }
    }

    /// Returns whether the run succeeded according to its manifest. `None` if the files disagree on
    /// its end.
    fn success(&self) -> Option<bool> {
        let verdict = &self.summary.verdict;
        let is_disputed = verdict.answer_known().is_none() && !verdict.contradictions.is_empty();
        self.index
            .manifest()
            .get()?
            .success
            .filter(|_| !is_disputed)
    }

    fn trial(&self) -> Option<&Trial> {
        self.index.manifest().get()?.trial.as_deref()
    }

    /// Counts the messages of the conversation: the recorded count, or else the prompts, replies
    /// and tool results that a session shows. `None` if the conversation went back and took a
    /// different path, since which messages were removed isn't recorded.
    fn messages(&self) -> Option<i64> {
        if let Some(recorded) = self.trial().and_then(|trial| trial.messages) {
            return whole(recorded);
        }
        let prompts = self.index.manifest().get()?.turns?;
        let mut count = prompts;
        for step in self.index.steps() {
            if step.is_abandoned || step.calls.len() < step.actions as usize {
                return None;
            }
            let answered = step
                .calls
                .iter()
                .filter(|call| call.end != CallEnd::Open)
                .count();
            count += 1 + answered as u64;
        }
        whole(count)
    }

    /// Returns the trace's description of the failure.
    fn error(&self) -> Option<Cow<'_, str>> {
        if self.summary.verdict.outcome != Outcome::Failed {
            return None;
        }
        let stated = error_of_end(&self.index, &self.summary.life);
        let event = || {
            self.index
                .segment()?
                .error
                .as_ref()
                .map(|(_, text)| &**text)
        };
        stated.or_else(event).map(Cow::Borrowed)
    }

    /// Returns the reason given by the newest critic that scored the run or its steps.
    fn explanation(&self) -> Option<Cow<'_, str>> {
        let scored = newest_run(&self.index)
            .rev()
            .find(|(_, step)| step.lowest_score().is_some());
        scored
            .and_then(|(_, step)| step.critic_reason.as_deref())
            .map(Cow::Borrowed)
    }

    /// Returns the number of steps without a line, if known.
    fn steps_missing(&self) -> Option<i64> {
        self.record
            .lost
            .map_or((!self.record.steps_unknown).then_some(0), |lost| {
                whole(lost.count)
            })
    }

    /// Returns the sum of the steps' tokens. `None` if a step doesn't record its tokens or has no
    /// line.
    fn tokens_of_steps(&self) -> Option<i64> {
        let sum = self.course.last().map_or(Some(0), |last| last.tokens)?;
        // A run that records no tokens may still have used some.
        let is_whole = self.record.lost.is_none() && self.record.foreign.is_none();
        let is_whole = is_whole && !self.record.steps_unknown && !self.record.begun;
        let is_known = (sum > 0 || self.record.inferred.is_empty()) && is_whole;
        if is_known { whole(sum) } else { None }
    }
}

/// The columns of the runs table.
pub(crate) static RUNS: &[Field<Run>] = &[
    shared("transcript_id", columns::RUN),
    shared("source_type", named("format")),
    shared("source_id", named("run_id")),
    field(
        "source_uri",
        Text(|run| Some(run.place.address.as_str().into())),
    ),
    field(
        "date",
        Text(|run| day(run.summary.started?).map(Cow::Owned)),
    ),
    field(
        "task_set",
        Text(|run| run.trial()?.task_set.as_deref().map(Cow::Borrowed)),
    ),
    field(
        "task_id",
        Text(|run| run.trial()?.task_id.as_deref().map(Cow::Borrowed)),
    ),
    field("task_repeat", Whole(|run| run.trial()?.repeat)),
    field(
        "agent",
        Text(|run| {
            run.summary
                .agents
                .first()
                .map(|agent| agent.as_str().into())
        }),
    ),
    field(
        "agent_args",
        Text(|run| run.trial()?.agent_args.as_deref().map(Cow::Borrowed)),
    ),
    shared("model", columns::MODEL),
    field(
        "model_options",
        Text(|run| run.trial()?.model_options.as_deref().map(Cow::Borrowed)),
    ),
    shared("score", named("score")),
    field("score_explanation", Text(Run::explanation)),
    field("success", Flag(Run::success)),
    field("message_count", Whole(Run::messages)),
    field(
        "total_time",
        Number(|run| Some(run.summary.duration_ms? / 1e3)),
    ),
    shared("total_tokens", named("tokens")),
    field("error", Text(Run::error)),
    field(
        "limit",
        Text(|run| (run.summary.verdict.mark == RunStatus::Limit).then(|| run.limit().into())),
    ),
    shared("format", named("format")),
    shared("format_version", named("writer")),
    shared("outcome", named("outcome")),
    field("stop_kind", Text(|run| run.kind().map(Cow::Borrowed))),
    shared("stop_word", columns::STOP),
    field(
        "stop_grade",
        Text(|run| {
            Some(Cow::Borrowed(match run.summary.verdict.certainty {
                Certainty::Recorded => "recorded",
                Certainty::Inferred => "derived",
                Certainty::Unknown => "absent",
            }))
        }),
    ),
    field("stop_limit", Number(|run| run.ended_by.as_ref()?.limit())),
    field(
        "stop_measured",
        Number(|run| run.ended_by.as_ref()?.measured()),
    ),
    field(
        "first_trouble_step",
        Whole(|run| whole(why::first_trouble(&run.index)?.step?)),
    ),
    shared("steps", named("steps")),
    shared("tool_calls", named("calls")),
    shared("tool_errors", named("tool_errors")),
    shared("tokens_in", named("input")),
    shared("tokens_cached", named("cached")),
    shared("tokens_out", named("output")),
    shared("cost_usd", named("cost_recorded")),
    shared("started_at", named("started")),
    field(
        "ended_at",
        Time(|run| {
            run.summary
                .updated
                .filter(|_| run.summary.life.liveness.is_over())
        }),
    ),
    shared("parent_id", columns::PARENT),
    field("root", Text(|run| Some(run.place.root.as_str().into()))),
    shared("path", named("path")),
    field("size_bytes", Whole(|run| whole(run.place.size))),
    shared("issues", named("issues")),
    shared("result", columns::RESULT),
    // Columns that other tools' tables don't have.
    shared("cost_estimated", named("cost_estimated")),
    shared("cost_in", named("cost_in")),
    shared("verdict", named("verdict")),
    shared("liveness", named("liveness")),
    shared("task", named("task")),
    field("answered", Flag(|run| run.summary.verdict.answer_known())),
    // Steps that finished but have no line, and the step without a line because it's still running
    // or the run died in it.
    field("steps_missing", Whole(Run::steps_missing)),
    field(
        "steps_begun",
        Whole(|run| Some(i64::from(run.record.begun))),
    ),
    field("tokens_of_steps", Whole(Run::tokens_of_steps)),
    shared("tokens_estimated", named("tokens_estimated")),
    shared("children", named("children")),
    shared("also_at", named("also_at")),
    shared("copies_say", named("copies_say")),
    shared("contradictions", named("contradictions")),
    // A lower bound, if `total_time` is unknown.
    field(
        "total_time_at_least",
        Number(|run| Some(run.summary.duration_at_least_ms? / 1e3)),
    ),
    // A lower bound, if no cost is recorded and not all of it can be estimated.
    shared("cost_at_least", named("cost_at_least")),
];

const fn field(name: &'static str, read: Read<Run>) -> Field<Run> {
    Field::new(name, read)
}

const fn shared(name: &'static str, column: &'static columns::Column) -> Field<Run> {
    Field::new(name, Column(column, |run| &run.summary))
}
