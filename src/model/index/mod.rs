//! What is known of a run without reading a line again? Heads of steps and events, and how they belong together.
//!
//! [`Index::apply`] is the one way in. It depends only on the order of lines inside each file, never on how the
//! files were cut into reads, so a run that was followed line by line ends on the same index as one read at once.

mod assemble;
mod fold;
mod join;
mod list;
mod room;
mod skip;
mod stated;
mod tally;

use std::collections::BTreeMap;

use super::event::{Decided, EndNote, InitNote, SpentNote, StopNote};
use super::{
    CriticAction, EventHead, EventNote, Format, Issue, Issues, ManifestState, Names, StepHead,
    StopVerdict, Symbol,
};
pub use assemble::Unassembled;
use join::{Again, Laps};
pub use list::List;
pub use room::STEPS_AT_ONCE;
pub use skip::{Skip, Skips, Why};
pub use stated::{Answer, AnswerSort, Ignored, is_same_reason, is_same_total};
use tally::Void;
pub use tally::{Distinct, RunTally, Spent, Tally};

/// Everything new since the last look at a run's files.
#[derive(Debug, Default)]
pub struct Delta {
    /// The files were replaced: what the index holds is void.
    pub restarted: bool,
    /// Names that came up, after those handed out before.
    pub names: Vec<Box<str>>,
    /// New step lines, in file order.
    pub steps: Vec<StepHead>,
    /// Steps before those of which more is known now, by ordinal: what they were put together from went on.
    pub touched: Vec<(usize, StepHead)>,
    /// Steps before those that the run went back to before, or came back to, by ordinal.
    pub left: Vec<(usize, bool)>,
    /// New event lines, in file order.
    pub events: Vec<(EventHead, Option<EventNote>)>,
    /// The provisional last line of `steps.jsonl` got its line end.
    pub step_confirmed: bool,
    /// The provisional last line of `events.jsonl` got its line end.
    pub event_confirmed: bool,
    /// The manifest, if it changed.
    pub manifest: Option<ManifestState>,
    /// New oddities that stay.
    pub issues: Vec<Issue>,
    /// The oddities that hold now and may be gone later: missing files, an unfinished last line.
    pub passing: Vec<Issue>,
    /// How much of each file there is and was read.
    pub steps_file: FileState,
    /// As `steps_file`.
    pub events_file: FileState,
    /// More bytes are there than one look reads.
    pub more: bool,
    /// The files are packed: how much they say is no measure of how large they are.
    pub is_packed: bool,
    /// All there is, where it was read into an index of its own; it replaces what the index holds.
    pub whole: Option<Box<Index>>,
}

/// How much of a file there is and was read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FileState {
    /// Whether the file exists.
    pub exists: bool,
    /// Bytes on disk at the last look.
    pub size: u64,
    /// Bytes of it that are in the index.
    pub read: u64,
}

/// The events of one round of the engine's loop: what happened in a step, before its line is written.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Group {
    /// The loop counter.
    pub step_id: Option<i64>,
    /// The first event, as an index into [`Index::events`].
    pub first: usize,
    /// One past the last event.
    pub end: usize,
    /// Time of the first event; microseconds since the epoch.
    pub started: Option<i64>,
    /// Time of the last event.
    pub ended: Option<i64>,
    /// When the last of what its events began was over, where they say so.
    pub until: Option<i64>,
    /// Whether one of its events is older than the one before it: how long it took is not known.
    pub goes_back: bool,
    /// Whether one of its events alone has a time: it says when, and not for how long.
    pub is_timed_once: bool,
    /// The first error in words, and its phase.
    pub error: Option<(Symbol, Box<str>)>,
    /// Whether the engine recovered (or gave up) after the error: a RECOVER event.
    pub recovered: bool,
    /// Whether the stop rules were asked.
    pub checked: bool,
    /// What was decided. Kept only for the newest group; older steps have lines that say it.
    pub decision: Option<Box<str>>,
    /// What its requests took, by the events of their replies. Kept only for the newest group, likewise.
    pub spent: Option<SpentNote>,
    /// What the event of its last decision says, which the line of its step says too.
    pub decided: Option<Decided>,
    /// How its calls went, as [`invocations_hash`](super::event::invocations_hash).
    pub invoked: Option<u64>,
    /// What its critics said, as [`critics_hash`](super::event::critics_hash).
    pub critics: Option<u64>,
    /// What the engine did after the critics: go on, try again or stop.
    pub wish: Option<CriticAction>,
}

/// One run inside the directory: from a set-up or an INIT event to the next.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Segment {
    /// Its first event, as an index into [`Index::events`].
    pub first_event: usize,
    /// Its first group, as an index into [`Index::groups`].
    pub first_group: usize,
    /// What INIT said, and the event.
    pub init: Option<(usize, InitNote)>,
    /// What END said, the event, and whether it says that all went well.
    pub end: Option<(usize, EndNote, bool)>,
    /// What the last stopping `CHECK_STOP` said, and the event.
    pub stop: Option<(usize, StopNote)>,
    /// All that said that the run stops, in file order, up to a number: the last of each sort may be above.
    pub stops: Vec<(usize, Stopping)>,
    /// The last critics' verdict that was not a pass: the event, whether it stopped the run, and the reason.
    pub critics: Option<(usize, bool, Box<str>)>,
    /// The last error, and the event.
    pub error: Option<(usize, Box<str>)>,
    /// The last context overflow in words, and the event.
    pub overflow: Option<(usize, Box<str>)>,
    /// The first event of the tool sets' teardown.
    pub teardown: Option<usize>,
    /// The step limit inside the agent's state.
    pub state_limit: Option<i64>,
    /// How often critics asked for a retry.
    pub retries: usize,
    /// How often the engine recovered from an error.
    pub recoveries: usize,
    /// Times of its first event and of the latest; microseconds since the epoch.
    pub span: Option<(i64, i64)>,
    /// The first event that is older than the one before it: from there on no time since the beginning is known.
    pub goes_back: Option<usize>,
    /// Whether one of its events alone has a time.
    pub is_timed_once: bool,
    /// How many replies of a model its events tell of.
    pub outputs: usize,
    /// How many of its event lines are not JSON.
    pub unreadable: usize,
    /// The run that its events name; empty where none names one.
    pub run: Symbol,
    /// The first event that names another run.
    pub of_other_run: Option<usize>,
    /// Whether anything but set-up happened in it.
    begun: bool,
    /// Whether an INIT event was seen in it.
    initialised: bool,
}

/// An event that says that the run stops.
#[derive(Debug, Clone, PartialEq)]
pub enum Stopping {
    /// An END event.
    End(EndNote),
    /// A stopping `CHECK_STOP`.
    Check(StopNote),
    /// A critic's stop, with its reason.
    Critic(Box<str>),
}

impl Segment {
    /// Whether it goes on with the run before it, as its beginning says.
    pub fn goes_on(&self) -> bool {
        self.init.as_ref().is_some_and(|(_, init)| init.goes_on)
    }

    /// How long it took by its events; microseconds. `None` where no event tells, or where the clock went back.
    pub fn took(&self) -> Option<i64> {
        self.span
            .filter(|_| self.goes_back.is_none())
            .map(|(from, to)| to - from)
    }
}

/// A run as the board remembers it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Index {
    names: Names,
    steps: List<StepHead>,
    events: List<EventHead>,
    groups: List<Group>,
    segments: Vec<Segment>,
    step_laps: Laps,
    group_laps: Laps,
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
    /// The verdict as all records of it agree.
    stop: Option<Box<StopVerdict>>,
    back_steps: usize,
    first_back: Option<usize>,
    /// What the steps add up to, and the same without the newest ones.
    tally: Tally,
    settled: Tally,
    /// The same of all steps up to and with the last that was dropped for want of room.
    base: Tally,
    /// Steps of the newest run that are counted and not kept, because they hold no record.
    void: Void,
    /// Which steps and events are counted and not kept.
    step_skips: Skips,
    event_skips: Skips,
    is_packed: bool,
    /// How many groups have a step, lap by lap.
    joined: usize,
    /// What the newest steps left of the state, hashed; `None` is a value that is not known.
    state: BTreeMap<Symbol, Option<u64>>,
    /// Whether that is the whole state, and not only what steps changed.
    state_is_whole: bool,
    more: bool,
}

impl Index {
    /// The names that symbols stand for.
    pub fn names(&self) -> &Names {
        &self.names
    }

    /// The text of a symbol.
    pub fn name(&self, symbol: Symbol) -> &str {
        self.names.get(symbol)
    }

    /// The step lines, in file order; the position is the step's ordinal.
    pub fn steps(&self) -> &List<StepHead> {
        &self.steps
    }

    /// What step `ordinal` is called: its recorded id, or its place where there is none.
    pub fn label(&self, ordinal: usize) -> String {
        match self.steps.get(ordinal).and_then(|step| step.step_id) {
            Some(id) => id.to_string(),
            None => format!("#{}", self.step_skips.number(ordinal)),
        }
    }

    /// Which of the steps are counted and not kept.
    pub fn step_skips(&self) -> &Skips {
        &self.step_skips
    }

    /// Which of the events are counted and not kept.
    pub fn event_skips(&self) -> &Skips {
        &self.event_skips
    }

    /// How many step lines there are, with those that are not kept.
    pub fn step_count(&self) -> usize {
        self.steps.len() + self.step_skips.uncounted()
    }

    /// How many event lines there are, with those that are not kept.
    pub fn event_count(&self) -> usize {
        self.events.len() + self.event_skips.uncounted()
    }

    /// How many event lines there are from the one at `start` on, where a segment begins.
    pub fn event_count_since(&self, start: usize) -> usize {
        self.events.len().saturating_sub(start) + self.event_skips.uncounted_since(start)
    }

    /// Whether records of this run were dropped for want of room, so that what all of them add up to need not be known.
    pub fn is_cut(&self) -> bool {
        self.step_skips.is_cut() || self.event_skips.is_cut()
    }

    /// Whether steps of the newest run were dropped.
    pub fn is_newest_cut(&self) -> bool {
        let start = self.newest_start();
        self.step_skips
            .list()
            .iter()
            .any(|skip| skip.why == Why::Room && skip.at >= start)
    }

    /// The positions of the records that the step at `ordinal` is put together from; `None` stands for one that is not
    /// kept.
    pub fn parts_of(&self, ordinal: usize) -> impl Iterator<Item = Option<usize>> {
        let parts = self
            .steps
            .get(ordinal)
            .into_iter()
            .flat_map(|step| step.parts.iter());
        parts.map(|number| self.event_skips.position(usize::try_from(*number).ok()?))
    }

    /// The event lines, in file order.
    pub fn events(&self) -> &List<EventHead> {
        &self.events
    }

    /// The rounds of the engine's loop that events tell of, in file order.
    pub fn groups(&self) -> &List<Group> {
        &self.groups
    }

    /// The runs in this directory, in file order; usually one.
    pub fn segments(&self) -> &[Segment] {
        &self.segments
    }

    /// The newest run in this directory.
    pub fn segment(&self) -> Option<&Segment> {
        self.segments.last()
    }

    /// How the run is written, where its manifest tells.
    pub fn format(&self) -> &'static Format {
        self.manifest
            .get()
            .map_or(&Format::UNKNOWN, |manifest| manifest.format)
    }

    /// The manifest as last read.
    pub fn manifest(&self) -> &ManifestState {
        &self.manifest
    }

    /// The oddities found while reading that stay.
    pub fn issues(&self) -> &Issues {
        &self.issues
    }

    /// The oddities that hold now and may pass: missing files, an unfinished last line.
    pub fn passing_issues(&self) -> &[Issue] {
        &self.passing
    }

    /// Returns why a file of the run cannot be read right now, if one can't: what is in the index is not all there is.
    pub fn away(&self) -> Option<&Issue> {
        self.passing
            .iter()
            .find(|issue| issue.kind == super::IssueKind::Away)
    }

    /// How much of `steps.jsonl` is here.
    pub fn steps_file(&self) -> FileState {
        self.steps_file
    }

    /// How much of `events.jsonl` is here.
    pub fn events_file(&self) -> FileState {
        self.events_file
    }

    /// How many step lines are JSON.
    pub fn steps_read(&self) -> usize {
        self.steps_read
    }

    /// How many event lines are JSON.
    pub fn events_read(&self) -> usize {
        self.events_read
    }

    /// Time of the first event that has one; microseconds since the epoch.
    pub fn first_ts(&self) -> Option<i64> {
        self.first_ts
    }

    /// Time of the newest event; microseconds since the epoch.
    pub fn last_ts(&self) -> Option<i64> {
        self.last_ts
    }

    /// The longest time between two events that follow each other inside one run, in microseconds.
    pub fn slowest_gap(&self) -> i64 {
        self.slowest_gap
    }

    /// How often an event is older than the one before it.
    pub fn back_steps(&self) -> usize {
        self.back_steps
    }

    /// The first event that is older than the one before it, inside one run.
    pub fn first_back(&self) -> Option<usize> {
        self.first_back
    }

    /// Whether the reader knows of bytes it has not read yet.
    pub fn is_partial(&self) -> bool {
        self.more
    }

    /// The group with the events of step `ordinal`.
    pub fn group_of(&self, ordinal: usize) -> Option<usize> {
        let id = self.steps.get(ordinal)?.step_id?;
        join::matching(&self.step_ids(), &self.group_ids(), ordinal, id)
    }

    /// The round with the events of step `ordinal`.
    pub fn round_of(&self, ordinal: usize) -> Option<&Group> {
        self.groups.get(self.group_of(ordinal)?)
    }

    /// The ordinal of the step whose events are group `at`.
    pub fn step_of(&self, at: usize) -> Option<usize> {
        let id = self.groups.get(at)?.step_id?;
        join::matching(&self.group_ids(), &self.step_ids(), at, id)
    }

    /// The group event `at` belongs to, by position; `None` for the run's own events.
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

    /// Which segment a group belongs to.
    pub fn segment_of(&self, group: usize) -> Option<usize> {
        self.segments
            .partition_point(|segment| segment.first_group <= group)
            .checked_sub(1)
    }

    /// The segment with which the run begins that a group belongs to.
    pub fn run_of(&self, group: usize) -> Option<usize> {
        let upto = self.segments.get(..=self.segment_of(group)?)?;
        Some(
            upto.iter()
                .rposition(|segment| !segment.goes_on())
                .unwrap_or_default(),
        )
    }

    /// The segments of the newest run: the last one, and those before it whose step ids it goes on with.
    pub fn newest_segments(&self) -> &[Segment] {
        let goes_on = |segment: &Segment| segment.goes_on();
        let last = self
            .segments
            .iter()
            .rposition(|segment| !goes_on(segment))
            .unwrap_or_default();
        let first = self
            .group_of(self.newest_start())
            .and_then(|group| self.segment_of(group));
        self.segments
            .get(first.unwrap_or(last)..)
            .unwrap_or_default()
    }

    /// How long the newest run took by its events, without pauses between segments; microseconds. `None` where no event
    /// tells, where one alone has a time, or where the clock went back.
    pub fn elapsed(&self) -> Option<i64> {
        let segments = self.newest_segments();
        if segments.iter().all(|segment| segment.is_timed_once) {
            None
        } else {
            segments.iter().map(Segment::took).sum()
        }
    }

    /// The error in the round of step `ordinal`, and its phase.
    pub fn error_of(&self, ordinal: usize) -> Option<&(Symbol, Box<str>)> {
        // Most runs have none, and need not be asked for the round of each step.
        self.segments
            .iter()
            .find(|segment| segment.error.is_some())?;
        self.round_of(ordinal)?.error.as_ref()
    }

    /// What went wrong in step `ordinal`, in words: the first error of a tool, else that of its round.
    pub fn failure_of(&self, ordinal: usize) -> Option<&str> {
        let of_step = self.steps.get(ordinal)?.error.as_deref();
        of_step.or_else(|| self.error_of(ordinal).map(|(_, words)| &**words))
    }

    /// The tokens of step `ordinal`, where they are recorded. Those of the steps of a run add up to what it took.
    pub fn tokens_of(&self, ordinal: usize) -> Option<u64> {
        let step = self.steps.get(ordinal)?;
        // What a total adds to the one before is known only in the order of the steps.
        if step.tokens_total.is_some() && step.facts.is_none() && self.has_disordered_steps() {
            return None;
        }
        step.tokens_alone(self.tokens_before(ordinal))
    }

    /// Whether tokens of step `ordinal` are recorded as an estimate.
    pub fn tokens_estimated(&self, ordinal: usize) -> bool {
        self.steps
            .get(ordinal)
            .is_some_and(|step| step.tokens_estimated)
    }

    /// What the run of step `ordinal` had taken before it, where its total runs over several steps.
    pub fn tokens_before(&self, ordinal: usize) -> Option<u64> {
        self.steps
            .get(ordinal)?
            .tokens_total
            .filter(|total| *total > 0)?;
        let lap = self
            .lap_starts()
            .partition_point(|start| *start <= ordinal)
            .checked_sub(1);
        let start = lap
            .and_then(|lap| self.lap_starts().get(lap).copied())
            .unwrap_or(0);
        // Totals are most often a step apart.
        let since = (start..ordinal).rev().find(|n| {
            self.steps
                .get(*n)
                .is_some_and(|step| step.total_told().is_some())
        });
        let steps = self.steps.range(since.unwrap_or(start)..ordinal);
        steps.fold(None, |before, step| step.tokens_with(before))
    }

    /// Groups of rounds that no step line belongs to.
    pub fn groups_without_line(&self) -> Vec<usize> {
        // The round under way is one, and most often the only one: the newest come first.
        let newest_first = (0..self.groups.len())
            .rev()
            .filter(|at| self.step_of(*at).is_none());
        let mut found: Vec<usize> = newest_first
            .take(self.kept_without_line().unwrap_or(usize::MAX))
            .collect();
        found.reverse();
        found
    }

    /// The newest group, if its step has no line yet.
    pub fn pending_group(&self) -> Option<usize> {
        let last = self.groups.len().checked_sub(1)?;
        (self.group_open && self.step_of(last).is_none()).then_some(last)
    }

    /// The newest group, if its step has no line yet or never got one: a run that an exception ended was torn down in the
    /// middle of it.
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
