//! What stands in the row of a run? In the order of the columns.
//!
//! Names are those of Inspect Scout's table of transcripts where it has a column for the same.

use std::borrow::Cow;

use super::Read::{Column, Flag, Number, Text, Time, Whole};
use super::{Field, Read, whole};
use crate::analysis::columns::{self, named};
use crate::analysis::facts::Record;
use crate::analysis::newest::newest_run;
use crate::analysis::summary::Summary;
use crate::analysis::verdict::RunStatus;
use crate::analysis::why;
use crate::model::time::day;
use crate::model::{CallEnd, Certainty, EndKind, Index, Outcome, Reading, StopReason, Trial};
use crate::stop::{Counted, Counts, counts, course};

/// A run as its row and those of its steps are made from it.
#[derive(Debug)]
pub struct Run {
    pub(super) summary: Summary,
    pub(super) index: Index,
    /// Where it lies.
    pub(super) place: RunSource,
    pub(super) record: Record,
    pub(super) course: Vec<Counted>,
    ended_by: Option<Reading>,
}

/// Where a run lies, and where a person looks at it.
#[derive(Debug, Clone, Default)]
pub struct RunSource {
    /// The root as the person typed it.
    pub root: String,
    /// Bytes of its files.
    pub size: u64,
    /// The address of its page.
    pub address: String,
}

impl Run {
    /// Of the newest run in `index`; `record` is what stop rules looked at.
    pub fn new(summary: Summary, index: Index, record: Record, place: RunSource) -> Self {
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

    /// When it began; microseconds since the epoch.
    pub fn started(&self) -> Option<i64> {
        self.summary.started
    }

    /// What ended it, in one of few words that are the same for all formats.
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
            RunStatus::OwnRule => "own_rule",
            RunStatus::Critic => "critic",
            RunStatus::Cancelled => "cancelled",
            RunStatus::Error => "error",
            RunStatus::Died => "died",
            RunStatus::Unknown => return None,
        })
    }

    /// The sort of end that the trace of another tool tells.
    fn told_kind(&self) -> Option<EndKind> {
        let ended = self.index.manifest().get()?.ended.as_deref()?;
        ended
            .kind()
            .filter(|_| self.summary.verdict.outcome == ended.outcome)
    }

    /// Which sort of limit ended it.
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

    /// Whether the run succeeded by its manifest; `None` where the files disagree on its end.
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

    /// Messages of the conversation: as the trace holds them, else what a session shows of them, its prompts, replies and
    /// what came back from calls. `None` where it went back and on another way, since nobody counts which messages went.
    fn messages(&self) -> Option<i64> {
        if let Some(recorded) = self.trial().and_then(|trial| trial.messages) {
            return whole(recorded);
        }
        let prompts = self.index.manifest().get()?.turns?;
        let mut count = prompts;
        for step in self.index.steps() {
            if step.is_left || step.calls.len() < step.actions as usize {
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

    /// What failed, in the words of the trace.
    fn error(&self) -> Option<Cow<'_, str>> {
        if self.summary.verdict.outcome != Outcome::Failed {
            return None;
        }
        let manifest = self.index.manifest().get();
        let told = manifest
            .and_then(|manifest| manifest.ended.as_deref())
            .map(|ended| &*ended.detail);
        let fatal = || {
            manifest
                .and_then(|manifest| manifest.fatal())
                .map(|failure| &*failure.message)
        };
        let stop = || self.index.stop().map(|stop| &*stop.reading.detail);
        let event = || {
            self.index
                .segment()?
                .error
                .as_ref()
                .map(|(_, text)| &**text)
        };
        let filled = |text: &&str| !text.is_empty();
        let text = told
            .filter(filled)
            .or_else(|| fatal().filter(filled))
            .or_else(|| stop().filter(filled));
        text.or_else(event).map(Cow::Borrowed)
    }

    /// Why the newest of those critics that score the run or its steps said what they said.
    fn explanation(&self) -> Option<Cow<'_, str>> {
        let scored = newest_run(&self.index)
            .rev()
            .find(|(_, step)| step.lowest_score().is_some());
        scored
            .and_then(|(_, step)| step.critic_reason.as_deref())
            .map(Cow::Borrowed)
    }

    /// How many steps have no line, where that is known.
    fn steps_missing(&self) -> Option<i64> {
        self.record
            .lost
            .map_or((!self.record.untold).then_some(0), |lost| whole(lost.count))
    }

    /// What its steps add up to; `None` where one does not say, or has no line.
    fn tokens_of_steps(&self) -> Option<i64> {
        let sum = self.course.last().map_or(Some(0), |last| last.tokens)?;
        // A run that records no tokens may have used some.
        let is_whole = self.record.lost.is_none() && self.record.foreign.is_none();
        let is_whole = is_whole && !self.record.untold && !self.record.begun;
        let is_known = (sum > 0 || self.record.inferred.is_empty()) && is_whole;
        if is_known { whole(sum) } else { None }
    }
}

/// The columns of the table of runs.
pub static RUNS: &[Field<Run>] = &[
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
    // What is not in other tools' tables.
    shared("cost_estimated", named("cost_estimated")),
    shared("verdict", named("verdict")),
    shared("liveness", named("liveness")),
    shared("task", named("task")),
    field("answered", Flag(|run| run.summary.verdict.answer_known())),
    // Steps that were over and have no line; and the one that has none because it is under way, or the run died in it.
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
];

const fn field(name: &'static str, read: Read<Run>) -> Field<Run> {
    Field::new(name, read)
}

const fn shared(name: &'static str, column: &'static columns::Column) -> Field<Run> {
    Field::new(name, Column(column, |run| &run.summary))
}
