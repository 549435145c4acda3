//! What is made of the records of another tool? Events, steps and a manifest, as an index takes them in.
//!
//! A reader says what each record is; the draft keeps what may still change: the steps that go on, and the manifest.

mod limits;
mod odd;
mod sums;

use std::collections::{BTreeMap, HashMap};

use odd::Said;
use sums::Sums;

use super::part::text;
use super::recent::{Bits, RecentSet};
use super::value::{cut, short};
use super::{Answer, OTHER_SESSION, Part, Tokens, Tool};
use crate::model::event::InitNote;
use crate::model::step::Usage;
use crate::model::{
    Certainty, Compaction, Delta, Ended, EventHead, EventKind, EventNote, Fate, Index, Issue,
    IssueKind, Manifest, ManifestState, Names, Span, StepHead, TraceFile,
};

/// So many steps that wait for an answer are kept: a reader of a file in which none ever comes must not fill the memory.
const MAX_OPEN: usize = 1_000;

/// The parts of these steps are kept while they weigh no more; the oldest are settled first.
const MAX_WEIGHT: usize = 48 << 20;

/// A document's events go into the index after this many. As many of its newest steps stay open, so that a later part can
/// still refer to them; each takes some 2 KB.
const MAX_EVENTS: usize = 16_000;

/// An answer that waits for its call is kept up to this size.
const MAX_ORPHAN_BYTES: usize = 16 << 10;

/// So many compactions of one run are kept.
const MAX_COMPACTIONS: usize = 1_000;

/// Lines that are written together are not further apart; microseconds.
const BATCH_MICROS: i64 = 60_000_000;

/// Where a record lies.
#[derive(Debug, Clone, Copy, Default)]
pub struct RecordPlace {
    /// Its bytes.
    pub span: Span,
    /// The number of its line, counted from 1; its own number in a document.
    pub line: u64,
    /// How well it could be read.
    pub fate: Fate,
}

/// What an event is.
#[derive(Debug, Default)]
pub struct EventDraft<'a> {
    /// What it is to the run.
    pub kind: EventKind,
    /// The tool's word for the record.
    pub phase: &'a str,
    /// A second word.
    pub stage: &'a str,
    /// When it was; microseconds since the epoch.
    pub ts: Option<i64>,
    /// The step that it belongs to.
    pub step: Option<usize>,
    /// It tells of something that failed.
    pub failed: bool,
    /// What else it tells.
    pub note: Option<EventNote>,
}

/// What is known of a trace besides what the index has: the part that later records may change.
#[derive(Debug, Default)]
pub struct Open {
    steps: BTreeMap<usize, Going>,
    /// What their parts weigh, about.
    weight: usize,
    /// The file grows: what one look sees may come in several.
    grows: bool,
    /// So many steps of a document are in an index already.
    flushed: usize,
    /// How many steps and events there are.
    next_step: usize,
    next_event: usize,
    /// What the steps add up to.
    sums: Sums,
    /// What of the run as a whole cannot be, and is said.
    odd: Said,
    /// An event told of the task.
    has_task: bool,
    /// The newest time of an event.
    latest: Option<i64>,
    /// Steps that the run went back to before.
    left: Bits,
    /// The prints of records of which no two are the same.
    seen: RecentSet<u64>,
    /// The prints of the ids of all calls.
    asked: RecentSet<u64>,
    /// Answers whose calls are in no record so far, by the call, with their events; without the answer where it has no room.
    orphans: HashMap<Box<str>, Option<(usize, Part)>>,
    /// Up to how many steps the totals cover that the run told last; and whether it went on to another session without telling
    /// those of one before, so that no totals cover all.
    covered: Option<usize>,
    is_partly_told: bool,
    manifest: Manifest,
    /// The manifest that was handed out last.
    told: Option<Manifest>,
}

impl Open {
    /// Nothing is known of a trace of `tool` yet.
    pub fn new(tool: &'static Tool) -> Self {
        Self {
            grows: matches!(
                tool.shape,
                super::Shape::Lines | super::Shape::LinesBelow { .. }
            ),
            manifest: Manifest {
                format: &tool.format,
                ..Manifest::default()
            },
            ..Self::default()
        }
    }
}

/// A step that may go on.
#[derive(Debug, Default)]
struct Going {
    part: Part,
    events: Vec<u32>,
    first: RecordPlace,
    /// Its reply is over: only answers can come.
    closed: bool,
    /// Something came since its head was made.
    touched: bool,
    /// What of it is in the sums.
    counted: Sums,
    /// What of it cannot be, and is said.
    odd: Said,
    /// What it came to, where nothing of it is kept but that; and the tokens that it said.
    head: Option<Box<StepHead>>,
    tokens: Tokens,
}

/// Takes in what a reader says of one look's records.
#[derive(Debug)]
pub struct Draft<'a> {
    open: &'a mut Open,
    names: &'a mut Names,
    delta: &'a mut Delta,
    /// Steps that the index had before this look.
    known: usize,
    place: RecordPlace,
}

impl<'a> Draft<'a> {
    /// A draft for one look.
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

    /// The same, where all looks so far were pieces of one: a document that is read in pieces.
    #[must_use]
    pub fn from_start(self) -> Self {
        Self {
            known: self.open.flushed,
            ..self
        }
    }

    /// What follows is said of the record at this place.
    pub fn at(&mut self, place: RecordPlace) {
        self.place = place;
    }

    /// Adds the record as an event; its number.
    pub fn event(&mut self, mark: EventDraft<'_>) -> usize {
        let RecordPlace { span, line, fate } = self.place;
        // Some tools write in batches, a bit out of order: of a line that was made a moment before the one above it, when
        // it was is in its record alone, so that the course of the run does not go back.
        let is_batched = !self.open.manifest.format.is_in_order;
        let is_late = |(ts, latest)| ts < latest && latest - ts < BATCH_MICROS;
        let late = is_batched && mark.ts.zip(self.open.latest).is_some_and(is_late);
        self.open.latest = self.open.latest.max(mark.ts);
        let head = EventHead {
            span,
            line,
            fate,
            // What is inside of no step is beside all of them.
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

    /// Whether the records are values of one document, and no lines that are appended.
    pub fn is_document(&self) -> bool {
        !self.open.grows
    }

    /// The newest time of an event; microseconds since the epoch.
    pub fn latest(&self) -> Option<i64> {
        self.open.latest
    }

    /// Adds the record as an event of another run, `from`, which was copied into this file: what it tells of counts there.
    /// When that was is no time of this run.
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

    /// Adds the record as an event that tells nothing new: the same record stands before it.
    pub fn again(&mut self, mark: &EventDraft<'_>) {
        self.event(EventDraft {
            kind: EventKind::default(),
            stage: "again",
            ts: None,
            step: None,
            note: None,
            ..*mark
        });
        let what = if self.open.grows { "the line" } else { "it" };
        self.issue(
            IssueKind::Join,
            format!("{what} is there twice, and counts once"),
        );
    }

    /// Whether the same record stood before this one; asked of records that have an id or a time in them, so that no two are
    /// the same.
    pub fn is_again(&mut self, record: &str) -> bool {
        !self.open.seen.insert(StepHead::print_of(record.as_bytes()))
    }

    /// Step `n` is on a branch that the run left, or not any more.
    pub fn leave(&mut self, n: usize, is_abandoned: bool) {
        let changed = self.open.left.set(n, is_abandoned);
        // The head of a step that is new in this look is made when it ends.
        if changed && n < self.known {
            self.delta.abandoned.push((n, is_abandoned));
        }
    }

    /// The number of the newest event.
    pub fn newest(&self) -> usize {
        self.open.next_event.saturating_sub(1)
    }

    /// Adds the record as an event of a reply of the model: of step `known`, or of a new one, which was asked for at
    /// `asked`, in microseconds since the epoch. The ordinal of the step.
    pub fn reply(
        &mut self,
        known: Option<usize>,
        asked: Option<i64>,
        mark: EventDraft<'_>,
    ) -> usize {
        if let Some(n) = known {
            self.event(EventDraft {
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

    /// Adds the record as a prompt; the first one is the task of the run.
    pub fn prompt(&mut self, words: Option<&str>, mark: &EventDraft<'_>) {
        let note = (!self.open.has_task).then(|| self.task(words));
        self.event(EventDraft {
            stage: "prompt",
            note,
            ..*mark
        });
    }

    /// What an event notes that tells of the task.
    pub fn task(&mut self, words: Option<&str>) -> EventNote {
        self.open.has_task = true;
        EventNote::Init(Box::new(InitNote {
            task: words.map(cut),
            ..InitNote::default()
        }))
    }

    /// Whether an event told of the task.
    pub fn has_task(&self) -> bool {
        self.open.has_task
    }

    /// Begins a step with the newest event; its ordinal.
    fn begin(&mut self) -> usize {
        let n = self.open.next_step;
        self.open.next_step += 1;
        self.open.steps.insert(
            n,
            Going {
                first: self.place,
                touched: true,
                ..Going::default()
            },
        );
        n
    }

    /// Begins a step whose reply stands in the record of the newest event, behind so many bytes of it; its ordinal. The
    /// record may hold several.
    pub fn begin_within(&mut self, bytes: u64) -> usize {
        let n = self.begin();
        if let Some(step) = self.open.steps.get_mut(&n) {
            step.first.span.offset += bytes;
        }
        n
    }

    /// The newest event holds this part of step `n`. False where that step takes no more.
    pub fn part(&mut self, n: usize, part: Part) -> bool {
        let event = u32::try_from(self.newest()).unwrap_or(u32::MAX);
        let grows = self.open.grows;
        let going = self
            .open
            .steps
            .get_mut(&n)
            .filter(|step| !(grows && step.is_over()));
        let Some(step) = going else { return false };
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
                    "a second result of call {:?} says {later}, the first one {known}",
                    new.call
                )
            })
            .collect();
        let (weight, beyond) = (part.weight(), step.part.beyond);
        step.part.add(part);
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
                "the step has more calls or results than the board reads of one",
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

    /// The newest event holds answers, one of them to a call that no record before it has. Should the call come later, it is
    /// the answer to that.
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

    /// Step `n` is put together with the record of this older event too.
    pub fn refer(&mut self, n: usize, event: usize) {
        let event = u32::try_from(event).unwrap_or(u32::MAX);
        self.open
            .steps
            .get_mut(&n)
            .into_iter()
            .for_each(|step| step.events.push(event));
    }

    /// The same for what that record says of the step.
    pub fn add(&mut self, n: usize, event: usize, part: Part) {
        self.refer(n, event);
        if let Some(step) = self.open.steps.get_mut(&n) {
            self.open.weight += part.weight();
            step.part.add(part);
            step.touched = true;
        }
    }

    /// Puts `text` in the place of `reference` in all that is said of step `n`.
    pub fn resolve(&mut self, n: usize, reference: &str, text: &str) {
        if let Some(step) = self.open.steps.get_mut(&n) {
            step.part.replace(reference, text);
            step.touched = true;
        }
    }

    /// Nothing more can come for step `n`: all that is kept of it is its head. Of a format whose documents are read as a
    /// whole, the steps would else all be in memory at once.
    pub fn settle(&mut self, n: usize) {
        let Some(step) = self
            .open
            .steps
            .get_mut(&n)
            .filter(|step| step.head.is_none())
        else {
            return;
        };
        step.settle(n, self.names);
    }

    /// The reply of step `n` is over: nothing but answers to its calls can come.
    pub fn close(&mut self, n: usize) {
        self.open
            .steps
            .get_mut(&n)
            .into_iter()
            .for_each(|step| step.closed = true);
    }

    /// How many calls of step `n` have no answer, as far as it may still go on.
    pub fn unanswered(&self, n: usize) -> usize {
        self.step(n).map_or(0, Part::unanswered)
    }

    /// The tool of the first call of step `n` without an answer, as far as the step may still go on.
    pub fn waits_for(&self, n: usize) -> Option<&str> {
        let step = self.step(n)?;
        Some(
            &step
                .calls
                .get(usize::from(step.first_unanswered()?.get() - 1))?
                .name,
        )
    }

    /// The same, where it is one of these, which do nothing but ask the user.
    pub fn asks(&self, n: usize, tools: &[&str]) -> Option<Box<str>> {
        self.waits_for(n)
            .filter(|tool| tools.contains(tool))
            .map(cut)
    }

    /// The end of a run whose last step is `n`, where all its calls were cancelled and its tool asks no model then. By the
    /// user where their results say so.
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

    /// What is known of step `n`, as long as it may go on.
    pub fn step(&self, n: usize) -> Option<&Part> {
        self.open
            .steps
            .get(&n)
            .filter(|step| !(self.open.grows && step.is_over()))
            .map(|step| &step.part)
    }

    /// What the model said in step `n`, cut for the index, as long as the step may go on; `None` where it said nothing.
    pub fn said(&self, n: usize) -> Option<Box<str>> {
        let texts = &self.step(n)?.text;
        (!texts.is_empty()).then(|| cut(&texts.join("\n\n")))
    }

    /// What a line of a session says of its run: the ids of the session and of the agent, as JSON, where `file` is its
    /// name. A sub-agent's file has the id of the agent in its name, and names the session that started it.
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

    /// The conversation was compacted.
    pub fn compacted(&mut self, compaction: Compaction) {
        let known = &mut self.open.manifest.compactions;
        if known.len() < MAX_COMPACTIONS {
            known.push(compaction);
        }
    }

    /// What is said of the run as a whole.
    pub fn run(&mut self) -> &mut Manifest {
        &mut self.open.manifest
    }

    /// The newest event tells what the run took as a whole, up to here.
    pub fn totals(&mut self) {
        self.open.covered = Some(self.open.next_step);
    }

    /// The sum of the tokens of all steps so far; `None` where one of them doesn't record its own.
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

    /// Another session begins here: what it takes, and what the one before took, is told apart.
    pub fn other_session(&mut self) {
        self.issue(IssueKind::Join, OTHER_SESSION);
        self.other_program();
    }

    /// Another program begins here, which counts only what it takes itself.
    pub fn other_program(&mut self) {
        self.open.is_partly_told |= self.open.covered.unwrap_or_default() < self.open.next_step;
    }

    /// The run counts itself how often it asked the model: that counts, and is told where the file has other replies.
    pub fn counted_calls(&mut self, calls: Option<u64>) {
        self.open.manifest.model_calls = calls;
        let seen = self.open.next_step as u64;
        if let Some(calls) = calls.filter(|calls| *calls != seen) {
            let reason =
                format!("the run counts {calls} replies of the model, and {seen} are in the file");
            self.issue_of_whole(IssueKind::NoStepLine, reason);
        }
    }

    /// Something is odd about the record.
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

    /// Something is odd about the run as a whole.
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

    /// Whether what is held of a document should go into the index before more is read of it.
    pub fn is_full(&self) -> bool {
        !self.open.grows && (self.delta.events.len() > MAX_EVENTS || self.open.weight > MAX_WEIGHT)
    }

    /// Puts what is held of a document into `index`. Steps that are not among the newest can change no more.
    pub fn flush(&mut self, index: &mut Index) {
        self.hand_out();
        let mut delta = std::mem::take(self.delta);
        delta.names = self.names.since(index.names().len()).to_vec();
        index.apply(delta);
        self.known = self.open.next_step;
        self.open.flushed = self.known;
    }

    /// Hands out the heads of steps that changed, and lets go of what has no room.
    fn hand_out(&mut self) {
        let Self {
            open,
            names,
            delta,
            known,
            ..
        } = self;
        let known = *known;
        for (n, step) in open.steps.iter_mut().filter(|(_, step)| step.touched) {
            let settled = step.head.as_deref().cloned();
            let settled = settled.map(|head| StepHead {
                parts: step.events.clone().into(),
                ..head
            });
            let tokens = settled
                .as_ref()
                .map_or_else(|| step.part.all_tokens(), |_| step.tokens);
            let head = settled.unwrap_or_else(|| step.head(*n, names));
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
        // A part of a document may refer to any step before it, as long as there is room for all.
        if open.grows {
            open.steps.retain(|_, step| !step.is_over());
        }
        let most = if open.grows { MAX_OPEN } else { MAX_EVENTS };
        while open.steps.len() > most {
            open.steps.pop_first();
        }
        let weight = |step: &Going| step.part.weight() + step.events.len() * size_of::<u32>();
        open.weight = open.steps.values().map(weight).sum();
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
                step.settle(*n, names);
            }
        }
    }

    /// Hands out what changed: heads of steps, and the manifest.
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
        // Steps came after the totals that they are not in.
        if open.is_partly_told || open.covered.is_some_and(|covered| covered < open.next_step) {
            (manifest.tokens, manifest.usage) = (None, Usage::default());
            (manifest.cost_usd, manifest.latency_s, manifest.total) = (None, None, None);
            manifest.totals_with_children = false;
        }
        // Nothing takes less than no time: how long it took is unknown.
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

impl Going {
    /// Nothing more can come: whether it was said in this look or in one before must make no difference.
    fn is_over(&self) -> bool {
        self.closed && self.part.unanswered() == 0
    }

    /// Keeps nothing but the head.
    fn settle(&mut self, n: usize, names: &mut Names) {
        self.head = Some(Box::new(self.head(n, names)));
        self.tokens = self.part.all_tokens();
        self.part = Part::default();
    }

    fn head(&self, n: usize, names: &mut Names) -> StepHead {
        let head = self.part.head(n, names);
        let RecordPlace { span, line, .. } = self.first;
        // What one step left is not what the next one finds: others change the same files.
        StepHead {
            span,
            line,
            parts: self.events.clone().into(),
            unanswered: self.part.first_unanswered(),
            is_nested: self.part.is_nested,
            links: Box::default(),
            ..head
        }
    }
}
