//! Builds the events, steps and manifest of another tool's trace from its records, in the form that
//! an index takes.
//!
//! A reader reports what each record is. The draft keeps what later records may still change: the
//! open steps, and the manifest.

mod limits;
mod odd;
mod sums;

use std::collections::{BTreeMap, HashMap};

use thin_vec::ThinVec;

use odd::Said;
use sums::Sums;

use super::added::own_words_of;
use super::part::text;
use super::recent::{Bits, RecentSet};
use super::template::task_line;
use super::value::{cut, short};
use super::{Answer, Part, Shape, Tokens};
use crate::model::event::InitNote;
use crate::model::json::walk;
use crate::model::step::Usage;
use crate::model::time::parse_ts;
use crate::model::{
    Certainty, Compaction, Delta, Ended, EventHead, EventKind, EventNote, Fate, Format, Index,
    Issue, IssueKind, Manifest, ManifestState, Names, Span, StepHead, TraceFile,
};

/// At most this many steps that wait for a tool result are kept. If no result ever arrives, the
/// steps must not fill the memory.
const MAX_OPEN: usize = 1_000;

/// The parts of open steps are kept up to this size in bytes. Beyond it, the oldest steps are
/// settled.
const MAX_WEIGHT: usize = 48 << 20;

/// A document's events are moved to the index once there are more than this. As many of its newest
/// steps stay open, so that a later part can still refer to them. Each takes about 2 KB.
const MAX_EVENTS: usize = 16_000;

/// A result that waits for its call is kept up to this size in bytes.
const MAX_ORPHAN_BYTES: usize = 16 << 10;

/// At most this many compactions of a run are kept.
const MAX_COMPACTIONS: usize = 1_000;

/// The longest time between lines that are written together, in microseconds.
const BATCH_MICROS: i64 = 60_000_000;

/// The issue for a time without an offset.
const OFFSET: &str = "the time has no UTC offset; all such times are assumed to be UTC";

/// The issue for a second session in one stream. Its usage is added to that of the first.
const OTHER_SESSION: &str = "another session starts here, and the usage of both is added up";

/// The position of a record, and how well it could be read.
#[derive(Debug, Clone, Copy, Default)]
pub struct RecordPlace {
    /// The position of its bytes.
    pub span: Span,
    /// The 1-based number of the line where it starts.
    pub line: u64,
    /// How well it could be read.
    pub fate: Fate,
}

/// An event to add.
#[derive(Debug, Default)]
pub struct EventDraft<'a> {
    /// The kind of event.
    pub kind: EventKind,
    /// The tool's word for the record.
    pub phase: &'a str,
    /// The tool's second word, such as a subtype.
    pub stage: &'a str,
    /// The time, in microseconds since the epoch.
    pub ts: Option<i64>,
    /// The step that it belongs to.
    pub step: Option<usize>,
    /// Whether it reports a failure.
    pub failed: bool,
    /// Further facts for the index.
    pub note: Option<EventNote>,
}

impl<'a> EventDraft<'a> {
    /// Creates an event for a record with this word and this time.
    pub fn new(phase: &'a str, ts: Option<i64>) -> Self {
        Self {
            phase,
            ts,
            ..Self::default()
        }
    }

    /// Sets the tool's second word.
    #[must_use]
    pub fn stage(self, stage: &'a str) -> Self {
        Self { stage, ..self }
    }

    /// Sets whether it reports a failure.
    #[must_use]
    pub fn failed(self, failed: bool) -> Self {
        Self { failed, ..self }
    }
}

/// The state of a trace that isn't in the index yet, because later records may change it.
#[derive(Debug, Default)]
pub struct Open {
    /// Boxed, because a map reserves room for twice as many, and a step takes a kilobyte.
    steps: BTreeMap<usize, Box<OpenStep>>,
    /// The approximate size of their parts in bytes.
    weight: usize,
    /// Whether the file grows, so that a later read may continue a step.
    grows: bool,
    /// The number of a document's steps that are already in the index.
    flushed: usize,
    /// The numbers of the next step and the next event.
    next_step: usize,
    next_event: usize,
    /// The sums over the steps.
    sums: Sums,
    /// The issues that were reported for the run as a whole.
    odd: Said,
    /// Whether an event recorded the task.
    has_task: bool,
    /// The newest time of an event.
    latest: Option<i64>,
    /// The steps that the run abandoned by going back to a point before them.
    left: Bits,
    /// Hashes of the records that contain an id or a time, to find repeated ones.
    seen: RecentSet<u64>,
    /// Hashes of the ids of all calls.
    asked: RecentSet<u64>,
    /// Results whose calls haven't been read yet, by call id, with their events. `None` for a
    /// result that is too large to keep. The empty id is for all results beyond [`MAX_OPEN`].
    orphans: HashMap<Box<str>, Option<(usize, Part)>>,
    /// The number of steps that the newest totals cover, and whether the run continued in another
    /// session without totals for all steps before, so that no totals cover the whole run.
    covered: Option<usize>,
    is_partly_told: bool,
    manifest: Manifest,
    /// The manifest in the newest delta that has one.
    told: Option<Manifest>,
}

impl Open {
    /// Creates the state of a trace of this format before anything was read.
    pub fn new(format: &'static Format, shape: Shape) -> Self {
        Self {
            grows: matches!(shape, Shape::Lines | Shape::LinesBelow { .. }),
            manifest: Manifest {
                format,
                ..Manifest::default()
            },
            ..Self::default()
        }
    }

    /// Returns approximately how many bytes the state takes in memory, with what waits in `delta`.
    pub fn weight(&self, delta: &Delta) -> usize {
        self.weight
            + self.steps.len() * size_of::<OpenStep>()
            + delta.steps.len() * size_of::<StepHead>()
            + delta.events.len() * size_of::<(EventHead, Option<EventNote>)>()
    }
}

/// A step that later records may continue.
#[derive(Debug, Default)]
struct OpenStep {
    part: Part,
    events: Vec<u32>,
    /// The newest event that was referred to.
    referred: Option<u32>,
    first: RecordPlace,
    /// Whether its reply is complete, so that only tool results can follow.
    closed: bool,
    /// The tasks that its calls started and whose ends aren't recorded yet.
    tasks: u32,
    /// Whether anything was added since its head was built.
    touched: bool,
    /// Its share of the sums.
    counted: Sums,
    /// The issues that were reported for it.
    odd: Said,
    /// Its head, if everything else was dropped, and the tokens that it recorded.
    head: Option<Box<StepHead>>,
    tokens: Tokens,
}

/// Collects what a reader reports about the records of one read.
#[derive(Debug)]
pub struct Draft<'a> {
    open: &'a mut Open,
    names: &'a mut Names,
    delta: &'a mut Delta,
    /// The number of steps in the index before this read.
    known: usize,
    place: RecordPlace,
}

impl<'a> Draft<'a> {
    /// Creates a draft for one read.
    pub fn new(open: &'a mut Open, names: &'a mut Names, delta: &'a mut Delta) -> Self {
        let known = open.next_step;
        Self {
            open,
            names,
            delta,
            known,
            place: RecordPlace::default(),
        }
    }

    /// Returns a draft for a document that is read in pieces. All reads since the last flush then
    /// count as one.
    #[must_use]
    pub fn since_flush(self) -> Self {
        Self {
            known: self.open.flushed,
            ..self
        }
    }

    /// Sets the record that the next calls are about.
    pub fn at(&mut self, place: RecordPlace) {
        self.place = place;
    }

    /// Returns the record that the calls are about.
    pub fn place(&self) -> RecordPlace {
        self.place
    }

    /// Adds the record as an event and returns its number.
    pub fn event(&mut self, mark: EventDraft<'_>) -> usize {
        let RecordPlace { span, line, fate } = self.place;
        // Some tools write lines in batches, slightly out of order. If a line is a bit older than
        // the line before it, its event has no time, so that the run's times never go backwards.
        // The record still contains the time.
        let is_batched = !self.open.manifest.format.is_in_order;
        let is_late = |(ts, latest)| ts < latest && latest - ts < BATCH_MICROS;
        let late = is_batched && mark.ts.zip(self.open.latest).is_some_and(is_late);
        self.open.latest = self.open.latest.max(mark.ts);
        let head = EventHead {
            span,
            line,
            fate,
            // An event without a step can't be inside one.
            kind: if mark.kind == EventKind::Inside && mark.step.is_none() {
                EventKind::Other
            } else {
                mark.kind
            },
            ok: !mark.failed,
            step_id: mark.step.and_then(|step| i64::try_from(step).ok()),
            phase: self.names.intern(mark.phase),
            stage: self.names.intern(mark.stage),
            ts: mark.ts.filter(|_| !late),
            run: Default::default(),
        };
        self.delta.events.push((head, mark.note));
        self.open.next_event += 1;
        self.newest()
    }

    /// Records that the following records are copies of older ones. The events before them, which are
    /// about the run as a whole, have no time then, so that the run's times don't go backwards.
    pub fn goes_back(&mut self) {
        self.open.latest = None;
        self.delta
            .events
            .iter_mut()
            .for_each(|(event, _)| event.ts = None);
    }

    /// Returns whether the records are values of one document rather than appended lines.
    pub fn is_document(&self) -> bool {
        !self.open.grows
    }

    /// Returns the newest time of an event, in microseconds since the epoch.
    pub fn latest(&self) -> Option<i64> {
        self.open.latest
    }

    /// Adds the record as an event that was copied into this file from another run, `from`. Its
    /// facts count in that run, and its time isn't a time of this run.
    pub fn copied(&mut self, from: &str, mark: &EventDraft<'_>) {
        self.event(EventDraft {
            kind: EventKind::default(),
            stage: "copied",
            ts: None,
            step: None,
            note: None,
            ..*mark
        });
        let copied = self.open.manifest.copied.get_or_insert_default();
        copied.records += 1;
        if copied.from.is_none() && !from.is_empty() {
            copied.from = Some(cut(from));
        }
    }

    /// Adds the record as an event without further facts, because an earlier record is identical.
    pub fn again(&mut self, mark: &EventDraft<'_>) {
        self.event(EventDraft {
            kind: EventKind::default(),
            stage: "again",
            ts: None,
            step: None,
            note: None,
            ..*mark
        });
        let what = if self.open.grows { "line" } else { "record" };
        self.issue(
            IssueKind::Join,
            format!("the {what} is repeated and counts only once"),
        );
    }

    /// Returns whether an earlier record is identical. Only for records that contain an id or a
    /// time, because different records of that kind can't be identical.
    pub fn is_again(&mut self, record: &str) -> bool {
        !self.open.seen.insert(StepHead::print_of(record.as_bytes()))
    }

    /// Sets whether step `n` is on a branch that the run abandoned.
    pub fn leave(&mut self, n: usize, is_abandoned: bool) {
        let changed = self.open.left.set(n, is_abandoned);
        // The head of a new step is built at the end of the read.
        if changed && n < self.known {
            self.delta.abandoned.push((n, is_abandoned));
        }
    }

    /// Returns the number of the newest event.
    pub fn newest(&self) -> usize {
        self.open.next_event.saturating_sub(1)
    }

    /// Adds the record as an event of a reply: of step `known`, or of a new step that was requested
    /// at `asked`, in microseconds since the epoch. Returns the ordinal of the step.
    pub fn reply(
        &mut self,
        known: Option<usize>,
        asked: Option<i64>,
        mark: EventDraft<'_>,
    ) -> usize {
        if let Some(n) = known {
            // The steps of agents that run in parallel overlap: the step doesn't begin again.
            let kind = match n + 1 == self.open.next_step {
                true => mark.kind,
                false => EventKind::Inside,
            };
            self.event(EventDraft {
                kind,
                step: Some(n),
                ..mark
            });
            return n;
        }
        let (step, note) = (Some(self.open.next_step), asked.map(EventNote::Asked));
        self.event(EventDraft {
            kind: EventKind::StepStart,
            step,
            note,
            ..mark
        });
        self.begin()
    }

    /// Adds the record as a prompt. The first prompt is the task of the run.
    pub fn prompt(&mut self, words: Option<&str>, mark: &EventDraft<'_>) {
        // The task is the first message that a user wrote, rather than a program.
        let is_own =
            words.is_none_or(|words| words.is_empty() || !self.own_words(words).is_empty());
        let note = (!self.open.has_task && is_own).then(|| self.task(words));
        self.event(EventDraft {
            stage: "prompt",
            note,
            ..*mark
        });
    }

    /// Returns the note of the event that records the task.
    pub fn task(&mut self, words: Option<&str>) -> EventNote {
        self.open.has_task = true;
        EventNote::Init(Box::new(InitNote {
            task: words.map(|words| cut(self.own_words(words))),
            title: words.and_then(task_line).map(cut),
            ..InitNote::default()
        }))
    }

    fn own_words<'w>(&self, words: &'w str) -> &'w str {
        own_words_of(self.open.manifest.format)(words)
    }

    /// Returns whether an event recorded the task.
    pub fn has_task(&self) -> bool {
        self.open.has_task
    }

    /// Begins a step with the newest event and returns its ordinal.
    fn begin(&mut self) -> usize {
        let n = self.open.next_step;
        self.open.next_step += 1;
        self.open.steps.insert(
            n,
            Box::new(OpenStep {
                first: self.place,
                touched: true,
                ..OpenStep::default()
            }),
        );
        n
    }

    /// Begins a step whose reply is in the record of the newest event, at an offset of `bytes`, and
    /// returns its ordinal. The record may contain several replies.
    pub fn begin_within(&mut self, bytes: u64) -> usize {
        let n = self.begin();
        if let Some(step) = self.open.steps.get_mut(&n) {
            step.first.span.offset += bytes;
        }
        n
    }

    /// Adds the part of step `n` that the newest event contains. Returns false if the step takes no
    /// more parts.
    pub fn part(&mut self, n: usize, part: Part) -> bool {
        let event = u32::try_from(self.newest()).unwrap_or(u32::MAX);
        let grows = self.open.grows;
        let open = self
            .open
            .steps
            .get_mut(&n)
            .filter(|step| !(grows && step.is_over()));
        let Some(step) = open else { return false };
        if step.events.last() != Some(&event) {
            step.events.push(event);
        }
        let calls: Vec<String> = part
            .calls
            .iter()
            .map(|call| call.id.clone())
            .filter(|id| !id.is_empty())
            .collect();
        step.touched = true;
        let contrary: Vec<String> = step
            .part
            .contrary(&part)
            .map(|(known, new)| {
                let [known, later] = [known.status, new.status].map(Option::unwrap_or_default);
                format!(
                    "a second result of call {:?} records {later}, but the first one records {known}",
                    new.call
                )
            })
            .collect();
        let (weight, beyond) = (part.weight(), step.part.beyond);
        step.part.add(part);
        step.part.shrink();
        self.open.weight += weight;
        let is_full = beyond == 0 && step.part.beyond > 0;
        let odd = odd::of_part(&mut step.part, &mut step.odd);
        odd.into_iter()
            .for_each(|reason| self.issue(IssueKind::Field, reason));
        contrary
            .into_iter()
            .for_each(|reason| self.issue(IssueKind::Join, reason));
        if is_full {
            self.issue(
                IssueKind::TooLong,
                "the step has more calls or results than board reads per step",
            );
        }
        for call in calls {
            self.open.asked.insert(StepHead::print_of(call.as_bytes()));
            if self.open.orphans.get(&*call).is_some_and(Option::is_some)
                && let Some(Some((event, answer))) = self.open.orphans.remove(&*call)
            {
                self.add(n, event, answer);
            }
        }
        true
    }

    /// Adds the record as results of calls of these steps. If no step takes them, they are results
    /// without an earlier call.
    pub fn results(&mut self, steps: &[usize], mark: EventDraft<'_>, part: Part) {
        self.event(EventDraft {
            kind: EventKind::Inside,
            step: steps.first().copied(),
            failed: mark.failed || part.has_failed(),
            ..mark
        });
        let takes = |n: &&usize| self.step(**n).is_some();
        let open: Vec<usize> = steps.iter().filter(takes).copied().collect();
        let Some((last, others)) = open.split_last() else {
            return self.orphan(&part);
        };
        for n in others {
            self.part(*n, part.clone());
        }
        self.part(*last, part);
    }

    /// Reports that the newest event contains a result without an earlier call. If the call comes
    /// later, the result is added to its step.
    pub fn orphan(&mut self, part: &Part) {
        self.issue(IssueKind::Join, "a result without a call before it");
        let event = self.newest();
        for answer in &part.answers {
            let (print, orphans) = (
                StepHead::print_of(answer.call.as_bytes()),
                &mut self.open.orphans,
            );
            if self.open.asked.contains(&print) {
                continue;
            }
            match orphans.len() < MAX_OPEN {
                true => {
                    let kept =
                        Some((event, part)).filter(|(_, part)| part.weight() <= MAX_ORPHAN_BYTES);
                    let kept = kept.map(|(event, part)| (event, part.clone()));
                    orphans.insert((*answer.call).into(), kept)
                }
                false => orphans.insert(Box::default(), None),
            };
        }
    }

    /// Adds an earlier event to those that step `n` is assembled from, unless it's the one that was
    /// added last.
    pub fn refer(&mut self, n: usize, event: usize) {
        let event = u32::try_from(event).unwrap_or(u32::MAX);
        if let Some(step) = self.open.steps.get_mut(&n)
            && step.referred.replace(event) != Some(event)
        {
            step.events.push(event);
        }
    }

    /// Adds an earlier event, and the part of step `n` that it contains.
    pub fn add(&mut self, n: usize, event: usize, part: Part) {
        self.refer(n, event);
        if let Some(step) = self.open.steps.get_mut(&n) {
            self.open.weight += part.weight();
            step.part.add(part);
            step.part.shrink();
            step.touched = true;
        }
    }

    /// Replaces `reference` by `text` in all texts and values of step `n`.
    pub fn resolve(&mut self, n: usize, reference: &str, text: &str) {
        if let Some(step) = self.open.steps.get_mut(&n) {
            step.part.replace(reference, text);
            step.touched = true;
        }
    }

    /// Drops everything but the head of step `n`, which no later record can change. In formats
    /// whose documents are read as a whole, all steps would otherwise be in memory at once.
    pub fn settle(&mut self, n: usize) {
        let Some(step) = self
            .open
            .steps
            .get_mut(&n)
            .filter(|step| step.head.is_none())
        else {
            return;
        };
        let is_known_by_calls = self.open.manifest.format.is_known_by_calls;
        step.settle(n, is_known_by_calls, self.names, &mut self.delta.issues);
    }

    /// Marks the reply of step `n` as complete, so that only results of its calls can follow.
    pub fn close(&mut self, n: usize) {
        self.open
            .steps
            .get_mut(&n)
            .into_iter()
            .for_each(|step| step.closed = true);
    }

    /// Keeps step `n` open for the end of a task that one of its calls started.
    pub fn begin_task(&mut self, n: usize) {
        let grows = self.open.grows;
        if let Some(step) = self.open.steps.get_mut(&n)
            && !(grows && step.is_over())
        {
            step.tasks = step.tasks.saturating_add(1);
        }
    }

    /// Records that such a task ended. The newest event is its end.
    pub fn end_task(&mut self, n: usize) {
        if let Some(step) = self.open.steps.get_mut(&n) {
            step.tasks = step.tasks.saturating_sub(1);
        }
    }

    /// Returns how many calls of step `n` have no result. Zero if no result can follow for the step.
    pub fn unanswered(&self, n: usize) -> usize {
        self.step(n).map_or(0, Part::unanswered)
    }

    /// Returns the tool of the first call of step `n` without a result, if the step may continue.
    pub fn waits_for(&self, n: usize) -> Option<&str> {
        let step = self.step(n)?;
        Some(
            &step
                .calls
                .get(usize::from(step.first_unanswered()?.get() - 1))?
                .name,
        )
    }

    /// Returns the tool of a call of step `n`, if the step may continue.
    pub fn tool_of(&self, n: usize, call: &str) -> Option<&str> {
        let calls = &self.step(n)?.calls;
        let call = calls.iter().find(|known| known.id == call)?;
        Some(&call.name)
    }

    /// Returns the first tool without a result if it is one of `tools`, which only ask the user.
    pub fn asks(&self, n: usize, tools: &[&str]) -> Option<Box<str>> {
        self.waits_for(n)
            .filter(|tool| tools.contains(tool))
            .map(cut)
    }

    /// Returns the end of a run whose last step is `n`, if all calls of that step were cancelled.
    /// Only for tools that make no further request in that case. The end names the user if a result
    /// does.
    pub fn cancelled(&self, n: usize, certainty: Certainty) -> Option<Ended> {
        let step = self.step(n)?;
        let is_cancelled = |answer: &Answer| answer.status == Some("cancelled");
        let call = step
            .calls
            .last()
            .filter(|_| step.unanswered() == 0 && step.answers.iter().all(is_cancelled))?;
        let mut words = step
            .answers
            .iter()
            .filter_map(|answer| answer.error.as_deref());
        let who = if words.any(|words| words.to_lowercase().contains("user ")) {
            "by the user"
        } else {
            ""
        };
        Some(Ended::cancelled_call(
            "cancelled",
            who,
            n,
            &call.name,
            certainty,
        ))
    }

    /// Returns the content of step `n` so far, if the step may continue.
    pub fn step(&self, n: usize) -> Option<&Part> {
        self.open
            .steps
            .get(&n)
            .filter(|step| !(self.open.grows && step.is_over()))
            .map(|step| &step.part)
    }

    /// Returns the model's text in step `n`, truncated for the index. Returns `None` if there is no
    /// text or the step can't continue.
    pub fn said(&self, n: usize) -> Option<Box<str>> {
        let texts = &self.step(n)?.text;
        (!texts.is_empty()).then(|| cut(&texts.join("\n\n")))
    }

    /// Sets the ids of the run from a line of a session: the ids of the session and of the agent,
    /// as JSON. `file` is the name of the file. A sub-agent's file has the agent's id in its name,
    /// and names the session that started it.
    pub fn session(&mut self, session: Option<&str>, agent: Option<&str>, file: &str) {
        let run = &mut self.open.manifest;
        let Some(session) = short(session).filter(|_| run.run_id.is_none()) else {
            return;
        };
        match text(agent).filter(|agent| file.contains(&**agent)) {
            Some(agent) => {
                (run.agent, run.run_id, run.parent) =
                    (Some(cut(&agent)), Some(cut(&agent)), Some(session));
            }
            None => run.run_id = Some(session),
        }
    }

    /// Records a compaction of the conversation.
    pub fn compacted(&mut self, compaction: Compaction) {
        let known = &mut self.open.manifest.compactions;
        if known.len() < MAX_COMPACTIONS {
            known.push(compaction);
        }
    }

    /// Returns the facts about the run as a whole.
    pub fn run(&mut self) -> &mut Manifest {
        &mut self.open.manifest
    }

    /// Sets the model of the run to that of its first reply, unless a record of the run names one.
    pub fn name_model(&mut self, part: &Part) {
        if let Some(model) = &part.model {
            self.run().model.get_or_insert_with(|| cut(model));
        }
    }

    /// Records that the newest event contains totals of the run up to here.
    pub fn totals(&mut self) {
        self.open.covered = Some(self.open.next_step);
    }

    /// Returns the sum of the tokens of all steps so far, or `None` if a step doesn't record its
    /// own.
    pub fn tokens_summed(&self) -> Option<u64> {
        let mut sums = self.open.sums;
        for step in self
            .open
            .steps
            .values()
            .filter(|step| step.touched && step.head.is_none())
        {
            let tokens = step.part.all_tokens();
            sums.replace(step.counted, Sums::of(tokens.sum(), tokens));
        }
        sums.tokens_of_all(self.open.next_step)
    }

    /// Reports that another session begins here. The totals of each session exclude the other.
    pub fn other_session(&mut self) {
        self.issue(IssueKind::Join, OTHER_SESSION);
        self.other_program();
    }

    /// Records that another program begins here, which counts only its own usage.
    pub fn other_program(&mut self) {
        self.open.is_partly_told |= self.open.covered.unwrap_or_default() < self.open.next_step;
    }

    /// Sets the number of replies that the run itself counted. That number takes precedence. If the
    /// file has a different number of replies, this is an issue.
    pub fn counted_calls(&mut self, calls: Option<u64>) {
        self.open.manifest.model_calls = calls;
        let seen = self.open.next_step as u64;
        if let Some(calls) = calls.filter(|calls| *calls != seen) {
            let reason = format!("the run counts {calls} replies, but the file has {seen}");
            self.issue_of_whole(IssueKind::NoStepLine, reason);
        }
    }

    /// Returns an RFC 3339 time in microseconds since the epoch. A time without an offset is
    /// assumed to be UTC.
    pub fn time(&mut self, value: Option<&str>) -> Option<i64> {
        let stamp = parse_ts(&walk::string(value?)?)?;
        if !stamp.zoned && !std::mem::replace(&mut self.open.odd.offset, true) {
            self.issue(IssueKind::Offset, OFFSET);
        }
        Some(stamp.micros)
    }

    /// Returns a time like [`Self::time`], but a time without an offset has this one, in
    /// microseconds, if it's known.
    pub fn local_time(&mut self, value: Option<&str>, offset: Option<i64>) -> Option<i64> {
        let Some(offset) = offset else {
            return self.time(value);
        };
        let stamp = parse_ts(&walk::string(value?)?)?;
        let offset = if stamp.zoned { 0 } else { offset };
        stamp.micros.checked_sub(offset)
    }

    /// Returns a time of the run as a whole in the same way. No record contains such a time.
    pub fn time_of_whole(&mut self, value: Option<&str>) -> Option<i64> {
        let stamp = parse_ts(&walk::string(value?)?)?;
        if !stamp.zoned && !std::mem::replace(&mut self.open.odd.offset, true) {
            self.issue_of_whole(IssueKind::Offset, OFFSET);
        }
        Some(stamp.micros)
    }

    /// Returns a duration in seconds. If it is negative, returns `None` and reports `what` as an
    /// issue.
    pub fn took(&mut self, seconds: Option<f64>, what: &str) -> Option<f64> {
        if seconds.is_some_and(|seconds| seconds < 0.0)
            && !std::mem::replace(&mut self.open.odd.time, true)
        {
            self.issue_of_whole(IssueKind::Time, what);
        }
        seconds.filter(|seconds| *seconds >= 0.0)
    }

    /// Returns the time between two moments in seconds. If the second comes first, returns `None`
    /// and reports `what` as an issue.
    pub fn between(&mut self, start: Option<i64>, end: Option<i64>, what: &str) -> Option<f64> {
        let seconds = start
            .zip(end)
            .and_then(|(start, end)| end.checked_sub(start))
            .map(|micros| micros as f64 / 1e6);
        self.took(seconds, what)
    }

    /// Reports an issue with the record.
    pub fn issue(&mut self, kind: IssueKind, reason: impl Into<String>) {
        let (line, offset) = (Some(self.place.line), Some(self.place.span.offset));
        self.delta.issues.push(Issue {
            kind,
            file: TraceFile::Events,
            line,
            offset,
            reason: reason.into(),
        });
    }

    /// Reports an issue with the run as a whole.
    pub fn issue_of_whole(&mut self, kind: IssueKind, reason: impl Into<String>) {
        let (file, reason) = (TraceFile::Manifest, reason.into());
        self.delta.issues.push(Issue {
            kind,
            file,
            line: None,
            offset: None,
            reason,
        });
    }

    /// Returns whether the part of a document in memory should be moved to the index before more is
    /// read.
    pub fn is_full(&self) -> bool {
        !self.open.grows && (self.delta.events.len() > MAX_EVENTS || self.open.weight > MAX_WEIGHT)
    }

    /// Moves the part of a document in memory to `index`. Steps that aren't among the newest can't
    /// change any more.
    pub fn flush(&mut self, index: &mut Index) {
        self.hand_out();
        let mut delta = std::mem::take(self.delta);
        delta.names = self.names.since(index.names().len()).to_vec();
        index.apply(delta);
        self.known = self.open.next_step;
        self.open.flushed = self.known;
    }

    /// Puts the heads of changed steps into the delta, and drops steps beyond the limits.
    fn hand_out(&mut self) {
        let Self {
            open,
            names,
            delta,
            known,
            ..
        } = self;
        let known = *known;
        let is_known_by_calls = open.manifest.format.is_known_by_calls;
        for (n, step) in open.steps.iter_mut().filter(|(_, step)| step.touched) {
            let settled = step.head.as_deref().cloned();
            let settled = settled.map(|head| StepHead {
                parts: step.events.clone().into(),
                ..head
            });
            let tokens = settled
                .as_ref()
                .map_or_else(|| step.part.all_tokens(), |_| step.tokens);
            let head = settled
                .unwrap_or_else(|| step.build(*n, is_known_by_calls, names, &mut delta.issues));
            let head = StepHead {
                is_abandoned: open.left.contains(*n),
                ..head
            };
            let counted = Sums::of(head.tokens, tokens);
            open.sums.replace(step.counted, counted);
            (step.counted, step.touched) = (counted, false);
            if *n < known {
                delta.touched.push((*n, head))
            } else {
                delta.steps.push(head)
            }
        }
        // A part of a document may refer to any earlier step, so the steps are kept while there is
        // room.
        if open.grows {
            open.steps.retain(|_, step| !step.is_over());
        }
        let most = if open.grows { MAX_OPEN } else { MAX_EVENTS };
        while open.steps.len() > most {
            open.steps.pop_first();
        }
        let weight = |step: &OpenStep| step.part.weight() + step.events.len() * size_of::<u32>();
        open.weight = open.steps.values().map(|step| weight(step)).sum();
        let mut oldest = 0;
        while open.weight > MAX_WEIGHT / 2 && oldest < open.next_step {
            let Some((n, step)) = open.steps.range_mut(oldest..).next() else {
                break;
            };
            oldest = n + 1;
            open.weight = open.weight.saturating_sub(weight(step));
            if open.grows {
                let n = *n;
                open.steps.remove(&n);
            } else if step.head.is_none() {
                step.settle(*n, is_known_by_calls, names, &mut delta.issues);
            }
        }
    }

    /// Puts everything that changed into the delta: the heads of steps, and the manifest.
    pub fn end(mut self) {
        self.hand_out();
        let Self { open, delta, .. } = self;
        let mut manifest = open.manifest.clone();
        manifest.tokens_summed = open.sums.tokens_of_all(open.next_step);
        manifest.cached_summed = open.sums.cached();
        manifest.latency_s = manifest.latency_s.filter(|seconds| *seconds >= 0.0);
        if manifest.parent == manifest.run_id {
            manifest.parent = None;
        }
        // The totals don't cover all steps.
        if open.is_partly_told || open.covered.is_some_and(|covered| covered < open.next_step) {
            (manifest.tokens, manifest.usage) = (None, Usage::default());
            (manifest.cost_usd, manifest.latency_s, manifest.total) = (None, None, None);
            manifest.totals_with_children = false;
        }
        // A negative duration is unknown.
        manifest.latency_s = manifest.latency_s.filter(|seconds| *seconds >= 0.0);
        manifest.answers_without_calls = open.orphans.len();
        manifest.tokens_of_steps = manifest.tokens.is_none();
        manifest.tokens = manifest.tokens.or(open.sums.tokens());
        delta
            .issues
            .extend(odd::of_totals(&mut manifest, &mut open.odd));
        manifest.usage.cached = manifest.usage.cached.or(open.sums.cached());
        limits::dispute(&mut manifest);
        limits::settle(&mut manifest);
        if open.told.as_ref() != Some(&manifest) {
            open.told = Some(manifest.clone());
            delta.manifest = Some(ManifestState::Read(Box::new(manifest)));
        }
    }
}

impl OpenStep {
    /// Returns whether no part can follow. The result must not depend on how the records were
    /// divided into reads.
    fn is_over(&self) -> bool {
        self.closed && self.tasks == 0 && self.part.unanswered() == 0
    }

    /// Drops everything but the head.
    fn settle(
        &mut self,
        n: usize,
        is_known_by_calls: bool,
        names: &mut Names,
        issues: &mut Vec<Issue>,
    ) {
        self.head = Some(Box::new(self.build(n, is_known_by_calls, names, issues)));
        self.tokens = self.part.all_tokens();
        self.part = Part::default();
    }

    /// Builds the head. Reports once what had to be repaired for it.
    fn build(
        &mut self,
        n: usize,
        is_known_by_calls: bool,
        names: &mut Names,
        issues: &mut Vec<Issue>,
    ) -> StepHead {
        let (head, remarks) = self.part.head(n, names);
        let RecordPlace { span, line, .. } = self.first;
        if !remarks.is_empty() && !std::mem::replace(&mut self.odd.repairs, true) {
            issues.extend(remarks.into_iter().map(|(kind, reason)| Issue {
                kind,
                file: TraceFile::Events,
                line: Some(line),
                offset: Some(span.offset),
                reason,
            }));
        }
        let calls = self.part.calls.iter().map(|call| &*call.id);
        let ids: Vec<&str> = calls
            .filter(|id| is_known_by_calls && !id.is_empty())
            .collect();
        // The state after a step isn't the state that the next one finds, because others change the
        // same files.
        StepHead {
            span,
            line,
            parts: self.events.clone().into(),
            unanswered: self.part.first_unanswered(),
            call_ids: match &*ids {
                [] => 0,
                ids => StepHead::print_of(ids.join("\n").as_bytes()),
            },
            is_nested: self.part.is_nested,
            links: ThinVec::new(),
            ..head
        }
    }
}
