//! Holds everything board keeps in memory about a run: the heads of steps and events, and how
//! they belong together.
//!
//! [`Index::apply`] is the only way in. The result depends only on the order of lines inside each
//! file, never on how the files were split into reads. A run that was followed line by line
//! therefore ends with the same index as one read at once.

mod assemble;
mod chunk;
mod fold;
mod id_runs;
mod join;
mod list;
#[cfg(feature = "board")]
mod pieces;
mod room;
mod skip;
mod stated;
mod sum;
mod tally;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::event::{Decided, EndNote, InitNote, SpentNote, StopNote};

use super::{
    CriticAction, EventHead, EventNote, Format, Issue, Issues, ManifestState, Names, StepHead,
    StopVerdict, Symbol,
};
pub use assemble::Unassembled;
use id_runs::{Again, RunStarts};
pub use list::List;
#[cfg(feature = "board")]
pub(crate) use pieces::Piece;
pub use room::STEPS_AT_ONCE;
pub use skip::{Skip, Skips, Why};
pub use stated::{Answer, AnswerSort, Ignored, is_same_reason, is_same_total};
use tally::Void;
pub use tally::{Distinct, QUARTER, RunTally, Spent, SpentKey, Tally, ToolCalls, Tools};

/// Everything new since the last look at a run's files.
#[derive(Debug, Default)]
pub struct Delta {
    /// Whether the files were replaced, so the old content of the index is void.
    pub restarted: bool,
    /// New names, after those already assigned.
    pub names: Vec<Box<str>>,
    /// New step lines, in file order.
    pub steps: Vec<StepHead>,
    /// Earlier steps that changed, by ordinal, because their records continued.
    pub touched: Vec<(usize, StepHead)>,
    /// Earlier steps that the run abandoned or returned to, by ordinal, with the new value of
    /// [`StepHead::is_abandoned`].
    pub abandoned: Vec<(usize, bool)>,
    /// New event lines, in file order.
    pub events: Vec<(EventHead, Option<EventNote>)>,
    /// Whether the provisional last line of `steps.jsonl` got its line terminator.
    pub step_confirmed: bool,
    /// Whether the provisional last line of `events.jsonl` got its line terminator.
    pub event_confirmed: bool,
    /// The manifest, if it changed.
    pub manifest: Option<ManifestState>,
    /// New permanent issues.
    pub issues: Vec<Issue>,
    /// The current temporary issues, such as missing files or an unfinished last line.
    pub passing: Vec<Issue>,
    /// The state of `steps.jsonl`.
    pub steps_file: FileState,
    /// The state of `events.jsonl`.
    pub events_file: FileState,
    /// Whether more bytes exist than one look reads.
    pub more: bool,
    /// Whether the files are compressed, so that the size of their content is no measure of their
    /// size on disk.
    pub is_packed: bool,
    /// A complete index that replaces the current content, if the reader built a separate one.
    pub whole: Option<Box<Index>>,
}

/// How much of a file exists, and how much of it was read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileState {
    /// Whether the file exists.
    pub exists: bool,
    /// The size on disk at the last look, in bytes.
    pub size: u64,
    /// The number of bytes that are in the index.
    pub read: u64,
}

/// The events of one pass through the engine's loop: what happened in a step before its line was
/// written.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Group {
    /// The loop counter.
    pub step_id: Option<i64>,
    /// The first event, as an index into [`Index::events`].
    pub first: usize,
    /// One past the last event.
    pub end: usize,
    /// The time of the first event, in microseconds since the epoch.
    pub started: Option<i64>,
    /// The time of the last event.
    pub ended: Option<i64>,
    /// When the last activity that its events began was over, if recorded.
    pub until: Option<i64>,
    /// Whether one of its events is older than the previous one, so that the duration is unknown.
    pub goes_back: bool,
    /// Whether only one of its events has a time, so that the duration is unknown.
    pub is_timed_once: bool,
    /// The phase and the message of the first error.
    pub error: Option<(Symbol, Box<str>)>,
    /// Whether the engine recovered or gave up after the error, as a RECOVER event records.
    pub recovered: bool,
    /// Whether the stop rules were evaluated.
    pub checked: bool,
    /// What the step's line would contain, if its events contain it. Kept only for the newest
    /// group, because older steps have lines.
    pub unwritten: Option<Box<Unwritten>>,
    /// The facts that the line of its step repeats, if its events contain any.
    pub repeated: Option<Box<Repeated>>,
    /// The engine's reaction to the critics: continue, retry or stop.
    pub wish: Option<CriticAction>,
}

/// What events say about a step that has no line yet.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Unwritten {
    /// The decision on one line.
    pub decision: Option<Box<str>>,
    /// The tokens of its requests, from the events of their replies.
    pub spent: Option<SpentNote>,
}

/// The facts in a group's events that the line of its step repeats. The two are compared.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Repeated {
    /// The facts of the last decision event.
    pub decided: Option<Decided>,
    /// The outcome of the calls, as [`invocations_hash`](super::event::invocations_hash).
    pub invoked: Option<u64>,
    /// The outputs of the critics, as [`critics_hash`](super::event::critics_hash).
    pub critics: Option<u64>,
}

/// A part of a run, or all of it: the events from a set-up or an INIT event to the next. A resumed
/// run has several segments.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Segment {
    /// Its first event, as an index into [`Index::events`].
    pub first_event: usize,
    /// Its first group, as an index into [`Index::groups`].
    pub first_group: usize,
    /// The event number and the content of INIT.
    pub init: Option<(usize, InitNote)>,
    /// The event number and the content of END, and whether it reports success.
    pub end: Option<(usize, EndNote, bool)>,
    /// The event number and the content of the last `CHECK_STOP` that stopped the run.
    pub stop: Option<(usize, StopNote)>,
    /// All events that say that the run stops, in file order. Their number is bounded, so the last
    /// event of each kind may only be in the fields above.
    pub stops: Vec<(usize, Stopping)>,
    /// The last critics' verdict that wasn't a pass: the event, whether it stopped the run, and the
    /// reason.
    pub critics: Option<(usize, bool, Box<str>)>,
    /// The event number and the message of the last error.
    pub error: Option<(usize, Box<str>)>,
    /// The event number and the message of the last context overflow.
    pub overflow: Option<(usize, Box<str>)>,
    /// The first event of the tools' teardown.
    pub teardown: Option<usize>,
    /// The step limit inside the agent's state.
    pub state_limit: Option<i64>,
    /// The number of retries that critics requested.
    pub retries: usize,
    /// The number of errors that the engine recovered from.
    pub recoveries: usize,
    /// The times of its first and its latest event, in microseconds since the epoch.
    pub span: Option<(i64, i64)>,
    /// When the last activity that its events began was over, if recorded.
    pub until: Option<i64>,
    /// The first event that is older than the previous one. After that, the time since the start is
    /// unknown.
    pub goes_back: Option<usize>,
    /// Whether only one of its events has a time.
    pub is_timed_once: bool,
    /// The number of model replies in its events.
    pub outputs: usize,
    /// The number of its event lines that aren't JSON.
    pub unreadable: usize,
    /// The run that its events name, or the empty symbol.
    pub run: Symbol,
    /// The first event that names another run.
    pub of_other_run: Option<usize>,
    /// Whether anything other than set-up happened.
    begun: bool,
    /// Whether an INIT event was seen.
    initialised: bool,
}

/// An event that says that the run stops.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Stopping {
    /// An END event.
    End(EndNote),
    /// A `CHECK_STOP` event that stopped the run.
    Check(StopNote),
    /// A critic's stop, with its reason.
    Critic(Box<str>),
}

impl Repeated {
    /// The size in memory in bytes, with the allocator's overhead.
    const WEIGHT: u64 = size_of::<Self>() as u64 + 16;
}

impl Group {
    /// Returns the decision on one line, if this is the newest group.
    pub fn decision(&self) -> Option<&str> {
        self.unwritten.as_ref()?.decision.as_deref()
    }

    /// Returns the facts of the last decision event that the line of its step repeats.
    pub fn decided(&self) -> Option<Decided> {
        self.repeated.as_ref()?.decided
    }

    /// Returns the group's approximate size in memory, in bytes.
    fn weight(&self) -> u64 {
        let words = self.error.as_ref().map_or(0, |(_, words)| words.len());
        // The newest group's `unwritten` doesn't stay.
        let repeated = self.repeated.as_ref().map_or(0, |_| Repeated::WEIGHT);
        (size_of::<Self>() + words) as u64 + repeated
    }
}

impl Segment {
    /// Returns whether INIT says that the run continues the previous one.
    pub fn continues_previous(&self) -> bool {
        self.init
            .as_ref()
            .is_some_and(|(_, init)| init.continues_previous)
    }

    /// Returns the duration from the first to the latest event in microseconds, or `None` if no
    /// event has a time or the clock went back.
    pub fn took(&self) -> Option<i64> {
        self.span
            .filter(|_| self.goes_back.is_none())
            .map(|(from, to)| to - from)
    }
}

/// A run in memory.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Index {
    names: Names,
    /// These lists are stored separately, in [`Piece`]s.
    #[serde(skip)]
    steps: List<StepHead>,
    #[serde(skip)]
    events: List<EventHead>,
    #[serde(skip)]
    groups: List<Group>,
    segments: Vec<Segment>,
    approvals: Vec<(i64, i64)>,
    step_runs: RunStarts,
    group_runs: RunStarts,
    again: Again,
    manifest: ManifestState,
    issues: Issues,
    passing: Vec<Issue>,
    steps_file: FileState,
    events_file: FileState,
    steps_read: usize,
    events_read: usize,
    group_open: bool,
    first_ts: Option<i64>,
    last_ts: Option<i64>,
    slowest_gap: i64,
    /// The verdict, as far as all records agree on it.
    #[serde(with = "crate::model::stored::as_json")]
    stop: Option<Box<StopVerdict>>,
    back_steps: usize,
    first_back: Option<usize>,
    /// The sums over all steps, and over all but the newest ones.
    tally: Tally,
    settled: Tally,
    /// Whether `settled` lacks an error that was read after its step was added.
    has_late_error: bool,
    /// The sums over all steps up to and including the last one dropped for lack of room.
    base: Tally,
    /// Steps of the newest run that are counted but not kept, because they contain no record.
    void: Void,
    /// The steps and events that are counted but not kept.
    step_skips: Skips,
    event_skips: Skips,
    is_packed: bool,
    /// The number of groups that have a step, joined by id run.
    joined: usize,
    /// The hashed state after the newest steps. `None` marks an unknown value.
    state: BTreeMap<Symbol, Option<u64>>,
    /// Whether `state` is the whole state, rather than only the keys that steps changed.
    state_is_whole: bool,
    more: bool,
}

impl Index {
    /// Returns the table of names, which maps symbols to text.
    pub fn names(&self) -> &Names {
        &self.names
    }

    /// Returns from when to when the agent waited for a person's approval, in file order and in
    /// microseconds since the epoch.
    pub fn approvals(&self) -> &[(i64, i64)] {
        &self.approvals
    }

    /// Returns the text of a symbol.
    pub fn name(&self, symbol: Symbol) -> &str {
        self.names.get(symbol)
    }

    /// Returns the step lines, in file order. A step's position is its ordinal.
    pub fn steps(&self) -> &List<StepHead> {
        &self.steps
    }

    /// Returns the label of step `ordinal`: its recorded id, or its position if it has none.
    pub fn label(&self, ordinal: usize) -> String {
        match self.steps.get(ordinal).and_then(|step| step.step_id) {
            Some(id) => id.to_string(),
            None => format!("#{}", self.step_skips.number(ordinal)),
        }
    }

    /// Returns which steps are counted but not kept.
    pub fn step_skips(&self) -> &Skips {
        &self.step_skips
    }

    /// Returns which events are counted but not kept.
    pub fn event_skips(&self) -> &Skips {
        &self.event_skips
    }

    /// Returns the number of step lines, including those that aren't kept.
    pub fn step_count(&self) -> usize {
        self.steps.len() + self.step_skips.uncounted()
    }

    /// Returns the number of event lines, including those that aren't kept.
    pub fn event_count(&self) -> usize {
        self.events.len() + self.event_skips.uncounted()
    }

    /// Returns the number of event lines from position `start`, where a segment begins.
    pub fn event_count_since(&self, start: usize) -> usize {
        self.events.len().saturating_sub(start) + self.event_skips.uncounted_since(start)
    }

    /// Returns whether records of this run were dropped for lack of room, so that totals may be
    /// unknown.
    pub fn is_cut(&self) -> bool {
        self.step_skips.is_cut() || self.event_skips.is_cut()
    }

    /// Returns the positions of the records that the step at `ordinal` is assembled from, with
    /// `None` for each one that isn't kept.
    pub fn parts_of(&self, ordinal: usize) -> impl Iterator<Item = Option<usize>> {
        let parts = self
            .steps
            .get(ordinal)
            .into_iter()
            .flat_map(|step| step.parts.iter());
        parts.map(|number| self.event_skips.position(usize::try_from(*number).ok()?))
    }

    /// Returns the event lines, in file order.
    pub fn events(&self) -> &List<EventHead> {
        &self.events
    }

    /// Returns the groups of events, one for each pass through the engine's loop, in file order.
    pub fn groups(&self) -> &List<Group> {
        &self.groups
    }

    /// Returns the segments of all runs in this directory, in file order. Usually there is one.
    pub fn segments(&self) -> &[Segment] {
        &self.segments
    }

    /// Returns the newest segment in this directory.
    pub fn segment(&self) -> Option<&Segment> {
        self.segments.last()
    }

    /// Returns the run's format, if its manifest was read.
    pub fn format(&self) -> &'static Format {
        self.manifest
            .get()
            .map_or(&Format::UNKNOWN, |manifest| manifest.format)
    }

    /// Sets the format of the run, if its manifest was read. A stored index doesn't contain it.
    #[cfg(feature = "board")]
    pub(crate) fn set_format(&mut self, format: &'static Format) {
        if let ManifestState::Read(manifest) = &mut self.manifest {
            manifest.format = format;
        }
    }

    /// Returns the manifest as last read.
    pub fn manifest(&self) -> &ManifestState {
        &self.manifest
    }

    /// Returns the permanent issues found while reading.
    pub fn issues(&self) -> &Issues {
        &self.issues
    }

    /// Returns whether a recorded time has no UTC offset, so that it was read as UTC but may be a local
    /// time.
    pub fn lacks_offset(&self) -> bool {
        self.issues.count(super::IssueKind::Offset) > 0
    }

    /// Returns the current temporary issues, such as missing files or an unfinished last line.
    pub fn passing_issues(&self) -> &[Issue] {
        &self.passing
    }

    /// Returns why a file of the run can't be read right now, if one can't. The index is then
    /// incomplete.
    pub fn away(&self) -> Option<&Issue> {
        self.passing
            .iter()
            .find(|issue| issue.kind == super::IssueKind::Away)
    }

    /// Returns the state of `steps.jsonl`.
    pub fn steps_file(&self) -> FileState {
        self.steps_file
    }

    /// Returns the state of `events.jsonl`.
    pub fn events_file(&self) -> FileState {
        self.events_file
    }

    /// Returns the number of step lines that are JSON.
    pub fn steps_read(&self) -> usize {
        self.steps_read
    }

    /// Returns the number of event lines that are JSON.
    pub fn events_read(&self) -> usize {
        self.events_read
    }

    /// Returns the time of the first event that has one, in microseconds since the epoch.
    pub fn first_ts(&self) -> Option<i64> {
        self.first_ts
    }

    /// Returns the time of the newest event that has one, in microseconds since the epoch.
    pub fn last_ts(&self) -> Option<i64> {
        self.last_ts
    }

    /// Returns the longest time between two consecutive events of one run, in microseconds.
    pub fn slowest_gap(&self) -> i64 {
        self.slowest_gap
    }

    /// Returns how many events are older than the previous one.
    pub fn back_steps(&self) -> usize {
        self.back_steps
    }

    /// Returns the first event that is older than the previous one of the same run.
    pub fn first_back(&self) -> Option<usize> {
        self.first_back
    }

    /// Returns whether bytes remain unread.
    pub fn is_partial(&self) -> bool {
        self.more
    }

    /// Returns the position in [`Index::groups`] of the group with the events of step `ordinal`.
    pub fn group_of(&self, ordinal: usize) -> Option<usize> {
        let id = self.steps.get(ordinal)?.step_id?;
        id_runs::matching(&self.step_ids(), &self.group_ids(), ordinal, id)
    }

    /// Returns the group with the events of step `ordinal`.
    pub fn round_of(&self, ordinal: usize) -> Option<&Group> {
        self.groups.get(self.group_of(ordinal)?)
    }

    /// Returns the ordinal of the step whose events are group `at`.
    pub fn step_of(&self, at: usize) -> Option<usize> {
        let id = self.groups.get(at)?.step_id?;
        id_runs::matching(&self.group_ids(), &self.step_ids(), at, id)
    }

    /// Returns the ordinal of the step of the first group after event `at`.
    pub fn step_after(&self, at: usize) -> Option<usize> {
        self.step_of(self.groups.partition_point(|group| group.first <= at))
    }

    /// Returns the group that contains event `at`, or `None` for events that belong to the run as a
    /// whole.
    pub fn group_at(&self, at: usize) -> Option<usize> {
        let group = self
            .groups
            .partition_point(|group| group.first <= at)
            .checked_sub(1)?;
        self.groups
            .get(group)
            .filter(|group| at < group.end)
            .map(|_| group)
    }

    /// Returns the segment that contains a group.
    pub fn segment_of(&self, group: usize) -> Option<usize> {
        self.segments
            .partition_point(|segment| segment.first_group <= group)
            .checked_sub(1)
    }

    /// Returns the segment that begins the run which contains `group`.
    pub fn run_of(&self, group: usize) -> Option<usize> {
        let upto = self.segments.get(..=self.segment_of(group)?)?;
        Some(
            upto.iter()
                .rposition(|segment| !segment.continues_previous())
                .unwrap_or_default(),
        )
    }

    /// Returns the segments of the newest run: the last one, and earlier ones whose step ids it
    /// continues.
    pub fn newest_segments(&self) -> &[Segment] {
        let continues_previous = |segment: &Segment| segment.continues_previous();
        let last = self
            .segments
            .iter()
            .rposition(|segment| !continues_previous(segment))
            .unwrap_or_default();
        let first = self
            .group_of(self.newest_start())
            .and_then(|group| self.segment_of(group));
        self.segments
            .get(first.unwrap_or(last)..)
            .unwrap_or_default()
    }

    /// Returns the duration of the newest run in microseconds, by its events and without pauses
    /// between segments. Returns `None` if a segment has no times, if every segment has only one,
    /// or if the clock went back.
    pub fn elapsed(&self) -> Option<i64> {
        let segments = self.newest_segments();
        if segments.iter().all(|segment| segment.is_timed_once) {
            None
        } else {
            segments.iter().map(Segment::took).sum()
        }
    }

    /// Returns the phase and the message of the error in the group of step `ordinal`.
    pub fn error_of(&self, ordinal: usize) -> Option<&(Symbol, Box<str>)> {
        // Most runs have no errors, so this saves finding the group of each step.
        self.segments
            .iter()
            .find(|segment| segment.error.is_some())?;
        self.round_of(ordinal)?.error.as_ref()
    }

    /// Returns the error message of step `ordinal`: the first error of a tool, otherwise that of
    /// its group.
    pub fn failure_of(&self, ordinal: usize) -> Option<&str> {
        let of_step = self.steps.get(ordinal)?.error.as_deref();
        of_step.or_else(|| self.error_of(ordinal).map(|(_, words)| &**words))
    }

    /// Returns the recorded tokens of step `ordinal`. The values of all steps add up to the run's
    /// total.
    pub fn tokens_of(&self, ordinal: usize) -> Option<u64> {
        let step = self.steps.get(ordinal)?;
        // A difference between totals is only meaningful in the order of the steps.
        if step.tokens_total.is_some() && step.facts.is_none() && self.has_disordered_steps() {
            return None;
        }
        step.tokens_alone(self.tokens_before(ordinal))
    }

    /// Returns whether tokens of step `ordinal` are recorded as an estimate.
    pub fn tokens_estimated(&self, ordinal: usize) -> bool {
        self.steps
            .get(ordinal)
            .is_some_and(|step| step.tokens_estimated)
    }

    /// Returns the tokens that the run had used before step `ordinal`, if the step records a
    /// running total.
    pub fn tokens_before(&self, ordinal: usize) -> Option<u64> {
        self.steps
            .get(ordinal)?
            .tokens_total
            .filter(|total| *total > 0)?;
        let run_index = self
            .lap_starts()
            .partition_point(|start| *start <= ordinal)
            .checked_sub(1);
        let start = run_index
            .and_then(|run_index| self.lap_starts().get(run_index).copied())
            .unwrap_or(0);
        // The previous step usually has a total.
        let since = (start..ordinal).rev().find(|n| {
            self.steps
                .get(*n)
                .is_some_and(|step| step.total_told().is_some())
        });
        let steps = self.steps.range(since.unwrap_or(start)..ordinal);
        steps.fold(None, |before, step| step.tokens_with(before))
    }

    /// Returns the groups that no step line belongs to.
    pub fn groups_without_line(&self) -> Vec<usize> {
        // The group in progress is usually the only one, so search from the newest.
        let newest_first = (0..self.groups.len())
            .rev()
            .filter(|at| self.step_of(*at).is_none());
        let mut found: Vec<usize> = newest_first
            .take(self.kept_without_line().unwrap_or(usize::MAX))
            .collect();
        found.reverse();
        found
    }

    /// Returns the newest group, if its step has no line yet.
    pub fn pending_group(&self) -> Option<usize> {
        let last = self.groups.len().checked_sub(1)?;
        (self.group_open && self.step_of(last).is_none()).then_some(last)
    }

    /// Returns the newest group, if its step has no line yet or never got one. A run that died of
    /// an exception is torn down in the middle of a step.
    pub fn unfinished_group(&self) -> Option<usize> {
        let cut = || {
            let last = self.groups.len().checked_sub(1)?;
            let segment = self
                .segments
                .last()
                .filter(|segment| segment.first_group <= last)?;
            let is_cut =
                segment.end.is_none() && segment.teardown.is_some() && self.step_of(last).is_none();
            is_cut.then_some(last)
        };
        self.pending_group().or_else(cut)
    }
}

#[cfg(test)]
mod tests;
