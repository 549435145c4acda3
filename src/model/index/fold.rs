//! Applies new lines to the index, with one function per kind of line, in file order.

use std::collections::{BTreeMap, BTreeSet};

use super::super::event::EventKind;
use super::super::head::hash_of_text;
use super::super::{
    CriticAction, EventHead, EventNote, Fate, Issue, IssueKind, StepHead, Symbol, TraceFile,
};
use super::id_runs::MAX_WALK;
use super::skip::{Fold, Skips};
use super::{Delta, Group, Index, Repeated, Segment, Stopping};

/// At most this many state changes outside reduce are listed. A run that makes one in each step
/// adds nothing new.
const MAX_OUTSIDE: usize = 20;
/// Each run keeps at most this many events that say that it stops. A run that obeys them has three.
const MAX_STOPS: usize = 16;
/// At most this many waits for approval are kept. A person can't answer more.
const MAX_APPROVALS: usize = 10_000;
/// The approximate weight of a run within a directory, including its notes. It's copied whenever a
/// page holds the index.
pub(super) const SEGMENT_WEIGHT: u64 = 4 * size_of::<Segment>() as u64;

impl Index {
    /// Applies a reader's delta.
    pub fn apply(&mut self, delta: Delta) {
        if delta.restarted {
            *self = Self::default();
        }
        if let Some(whole) = delta.whole {
            *self = *whole;
        }
        self.is_packed |= delta.is_packed;
        self.names.extend(&delta.names);
        confirm(
            self.steps.last_mut().map(|step| &mut step.fate),
            delta.step_confirmed,
        );
        confirm(
            self.events.last_mut().map(|event| &mut event.fate),
            delta.event_confirmed,
        );
        self.issues.extend(delta.issues);
        for (number, step) in delta.touched {
            // Steps that are assembled from events have no state to compare with their neighbors.
            let Some(ordinal) = self.step_skips.position(number) else {
                continue;
            };
            let before = self.steps.get(ordinal).map_or(0, |known| known.parts.len());
            self.note_long_step(before, &step);
            if let Some(known) = self.steps.get_mut(ordinal) {
                self.step_skips.unweigh(known.weight());
                self.step_skips.weigh(step.weight());
                *known = step;
            }
            self.unsettle(ordinal);
        }
        for (number, is_abandoned) in delta.abandoned {
            let Some(ordinal) = self.step_skips.position(number) else {
                continue;
            };
            self.steps
                .get_mut(ordinal)
                .into_iter()
                .for_each(|step| step.is_abandoned = is_abandoned);
            self.unsettle(ordinal);
        }
        let begins = |(event, _): &(EventHead, _)| {
            matches!(event.kind, EventKind::RunStart | EventKind::Setup)
        };
        if !self.segments.is_empty() && delta.events.iter().any(begins) {
            // A repeated id may belong to the run that begins.
            self.step_runs.takes_none_twice();
        }
        delta
            .steps
            .into_iter()
            .for_each(|step| self.push_step(step));
        delta
            .events
            .into_iter()
            .for_each(|(event, note)| self.push_event(event, note));
        if let Some(manifest) = delta.manifest {
            self.manifest = manifest;
        }
        self.passing = delta.passing;
        self.steps_file = delta.steps_file;
        self.events_file = delta.events_file;
        self.more = delta.more;
        self.settle_laps();
        self.settle_stop();
        self.add_up();
        self.name_skips();
    }

    fn push_step(&mut self, mut step: StepHead) {
        self.steps_read += usize::from(step.fate != Fate::Unreadable);
        let place = (step.line, step.span);
        match self
            .step_skips
            .next(step.is_void(), self.steps.len(), place)
        {
            Fold::Keep => {}
            Fold::Begin => {
                self.name_skips();
                self.void.add(&step);
                step.fate = Fate::Unreadable;
            }
            Fold::Count => return self.void.add(&step),
        }
        let is_out_of_order = self.is_out_of_order(&step);
        self.lap_of_step(&step, self.steps.len());
        if !step.fate.is_readable() || step.repeats || is_out_of_order {
            // The state before this step is unknown: lines may be missing, or another run came
            // before. The start of a run may be known only once its events are read, and the
            // indexed content must not depend on when that happens.
            self.state.clear();
            self.state_is_whole = false;
        }
        self.follow_state(&mut step);
        self.note_long_step(0, &step);
        self.step_skips.weigh(step.weight());
        self.steps.push(step);
        self.join_newest_step();
        self.bound_steps();
    }

    /// Returns whether the line's id doesn't rise above the id of the line before, or whether it
    /// follows such a line with a gap. The line before then left a different state than the
    /// preceding step did.
    fn is_out_of_order(&self, step: &StepHead) -> bool {
        let mut ids = self
            .steps
            .iter()
            .rev()
            .take(MAX_WALK)
            .filter_map(|above| above.step_id);
        let (Some(id_now), Some(above)) = (step.step_id, ids.next()) else {
            return false;
        };
        id_now <= above
            || (ids.next().is_some_and(|before| above <= before)
                && id_now > above.saturating_add(1))
    }

    /// Compares the step's state with the state that the previous step left, and notes the keys
    /// that differ.
    fn follow_state(&mut self, step: &mut StepHead) {
        let mut broken: Vec<Symbol> = Vec::new();
        let observed = std::mem::take(&mut step.observed);
        if !observed.is_empty() {
            let observed: BTreeMap<Symbol, Option<u64>> = observed
                .iter()
                .map(|(key, value)| (*key, Some(*value)))
                .collect();
            broken.extend(self.changed_since(&observed));
            (self.state, self.state_is_whole) = (observed, true);
        }
        for link in std::mem::take(&mut step.links) {
            let left = self.state.insert(link.key, link.after).flatten();
            let differs = left
                .zip(link.before)
                .is_some_and(|(left, before)| left != before);
            broken.extend(Some(link.key).filter(|key| differs && !broken.contains(key)));
        }
        // For a key that the step changed too, its own record contains the difference.
        let noted = broken
            .iter()
            .find(|key| step.changed.contains(key))
            .copied();
        step.outside = broken.into_iter().collect();
        let Some(key) = noted else { return };
        let key = self.names.get(key);
        let noted = self.issues.count(IssueKind::Outside);
        // board's engine records every change in a step. QitOS lets critics and recoveries change
        // the state between steps.
        let (kind, reason) = if step.facts.is_some() {
            (
                IssueKind::State,
                format!("state_diff starts with a different {key} than the previous step left"),
            )
        } else if noted < MAX_OUTSIDE {
            let more = if noted + 1 == MAX_OUTSIDE {
                " (later changes like this aren't listed)"
            } else {
                ""
            };
            (
                IssueKind::Outside,
                format!("{key} changed after the previous step, not by a recorded step{more}"),
            )
        } else {
            return;
        };
        let (line, offset) = (Some(step.line), Some(step.span.offset));
        self.issues.push(Issue {
            kind,
            file: TraceFile::Steps,
            line,
            offset,
            reason,
        });
    }

    /// Returns the keys whose values differ from those that the previous steps left, in order of
    /// first appearance of their names.
    fn changed_since(&self, observed: &BTreeMap<Symbol, Option<u64>>) -> Vec<Symbol> {
        // Writers treat a missing key and `null` the same.
        let null = Some(hash_of_text("null"));
        let absent =
            |state: &BTreeMap<Symbol, Option<u64>>, is_whole: bool, key: &Symbol| match state
                .get(key)
            {
                Some(value) => *value,
                None => null.filter(|_| is_whole),
            };
        let keys: BTreeSet<Symbol> = observed.keys().chain(self.state.keys()).copied().collect();
        let differs = |key: &Symbol| {
            let left = absent(&self.state, self.state_is_whole, key);
            left.zip(absent(observed, true, key))
                .is_some_and(|(left, now)| left != now)
        };
        keys.into_iter().filter(differs).collect()
    }

    fn push_event(&mut self, mut event: EventHead, note: Option<EventNote>) {
        self.events_read += usize::from(event.fate != Fate::Unreadable);
        let at = self.events.len();
        let fold = self.event_skips.next(
            event.is_void() && note.is_none(),
            at,
            (event.line, event.span),
        );
        if fold == Fold::Count {
            if let Some(segment) = self
                .segments
                .last_mut()
                .filter(|_| event.fate == Fate::Unreadable)
            {
                segment.unreadable += 1;
            }
            return;
        }
        self.open_segment(&event, at);
        if let Some(segment) = self
            .segments
            .last_mut()
            .filter(|_| event.fate == Fate::Unreadable)
        {
            segment.unreadable += 1;
        }
        if let Some(segment) = self.segments.last_mut() {
            segment.outputs += usize::from(event.kind == EventKind::Output);
            if segment.run == Symbol::default() {
                segment.run = event.run;
            } else if event.run != Symbol::default() && event.run != segment.run {
                segment.of_other_run.get_or_insert(at);
            }
        }
        self.keep_time(&event, at);
        self.join_group(&event, at);
        if let Some(note) = note {
            self.take_note(&event, note, at);
        }
        if event.kind == EventKind::Teardown
            && let Some(segment) = self.segments.last_mut()
        {
            segment.teardown.get_or_insert(at);
        }
        if fold == Fold::Begin {
            event.fate = Fate::Unreadable;
        }
        self.event_skips.weigh(size_of::<EventHead>() as u64);
        self.events.push(event);
        self.bound_events();
    }

    fn open_segment(&mut self, event: &EventHead, at: usize) {
        let kind = event.kind;
        // A set-up event that is older than the previous events belongs to the same run: the lines
        // are out of order. A run that begins after a clock was set back has an INIT event.
        let is_older = |segment: &Segment| {
            event
                .ts
                .zip(segment.span)
                .is_some_and(|(ts, (_, latest))| ts < latest)
        };
        let starts = match (self.segments.last(), kind) {
            (None, _) => true,
            (Some(segment), EventKind::Setup) => segment.begun && !is_older(segment),
            (Some(segment), EventKind::RunStart) => {
                segment.initialised && !self.is_again(segment, event)
            }
            _ => false,
        };
        if starts {
            self.segments.push(Segment {
                first_event: at,
                first_group: self.groups.len(),
                ..Segment::default()
            });
            self.event_skips.weigh(SEGMENT_WEIGHT);
            self.group_open = false;
        }
        if let Some(segment) = self.segments.last_mut() {
            segment.begun |= kind != EventKind::Setup;
            segment.initialised |= kind == EventKind::RunStart;
        }
    }

    /// Returns whether the event duplicates the one that began the run.
    fn is_again(&self, segment: &Segment, event: &EventHead) -> bool {
        let begun = segment
            .init
            .as_ref()
            .and_then(|(at, _)| self.events.get(*at));
        let is_next = segment
            .init
            .as_ref()
            .is_some_and(|(at, _)| at + 1 == self.events.len());
        is_next
            && begun.is_some_and(|begun| {
                event.ts.is_some() && begun.ts == event.ts && begun.span.len == event.span.len
            })
    }

    fn keep_time(&mut self, event: &EventHead, at: usize) {
        let Some(ts) = event.ts else { return };
        if let Some(segment) = self.segments.last_mut() {
            if let Some((_, latest)) = segment.span {
                let goes_back = self.last_ts.is_some_and(|last| ts < last);
                self.back_steps += usize::from(goes_back);
                self.first_back = self.first_back.or(goes_back.then_some(at));
                segment.goes_back = segment.goes_back.or(goes_back.then_some(at));
                // If the clock went back, returning to the latest time isn't a pause.
                self.slowest_gap = self.slowest_gap.max(ts.saturating_sub(latest));
            }
            segment.is_timed_once = segment.span.is_none();
            let (first, latest) = segment.span.unwrap_or((ts, ts));
            segment.span = Some((first, latest.max(ts)));
        }
        self.first_ts = self.first_ts.or(Some(ts));
        self.last_ts = Some(ts);
    }

    fn join_group(&mut self, event: &EventHead, at: usize) {
        use EventKind as Kind;
        let current = self.groups.last().filter(|_| self.group_open);
        let opens = match event.kind {
            Kind::StepStart | Kind::StateBefore => true,
            // These begin a step if the event that should is missing.
            Kind::Deciding | Kind::Prompt | Kind::Output | Kind::Decided => {
                current.is_none_or(|group| group.step_id != event.step_id)
            }
            Kind::Acting
            | Kind::CriticStop
            | Kind::Checked
            | Kind::Stopped
            | Kind::Recovery
            | Kind::Inside => current.is_none() && event.step_id.is_some(),
            Kind::RunStart | Kind::RunEnd | Kind::Teardown => {
                self.group_open = false;
                return;
            }
            Kind::Setup | Kind::Other => return,
        };
        if opens {
            if let Some(group) = self.groups.last_mut() {
                group.unwritten = None;
            }
            self.lap_of_group(event.step_id, self.groups.len());
            let group = Group {
                step_id: event.step_id,
                first: at,
                started: event.ts,
                ..Group::default()
            };
            self.event_skips.weigh(group.weight());
            self.groups.push(group);
            self.group_open = true;
            self.join_newest_group();
        }
        if let Some(group) = self.groups.last_mut() {
            group.end = at + 1;
            group.checked |= matches!(event.kind, Kind::Checked | Kind::Stopped);
            group.goes_back |= group
                .ended
                .zip(event.ts)
                .is_some_and(|(last, ts)| ts < last);
            if event.ts.is_some() {
                group.is_timed_once = group.ended.is_none();
                group.ended = event.ts;
            }
        }
    }

    fn take_note(&mut self, event: &EventHead, note: EventNote, at: usize) {
        let (recover, stops) = (
            event.kind == EventKind::Recovery,
            event.kind == EventKind::CriticStop,
        );
        let group = self.groups.last_mut().filter(|_| self.group_open);
        let Some(segment) = self.segments.last_mut() else {
            return;
        };
        let stopping = match &note {
            EventNote::Stop(stop) => Some(Stopping::Check((**stop).clone())),
            EventNote::End(end) => Some(Stopping::End((**end).clone())),
            EventNote::Critics(reason) if stops => Some(Stopping::Critic(reason.clone())),
            _ => None,
        };
        if let Some(stopping) = stopping {
            // The newest is always kept.
            segment.stops.truncate(MAX_STOPS - 1);
            segment.stops.push((at, stopping));
        }
        match note {
            EventNote::Init(init) => segment.init = Some((at, *init)),
            EventNote::StateLimit(limit) => segment.state_limit = Some(limit),
            EventNote::Decision(note) => {
                if let Some(group) = group {
                    if note.line.is_some() {
                        group.unwritten.get_or_insert_default().decision = note.line;
                    }
                    repeated(group, &mut self.event_skips).decided = Some(note.decided);
                }
            }
            EventNote::CriticOutputs(outputs) => {
                if let Some(group) = group {
                    repeated(group, &mut self.event_skips).critics = Some(outputs);
                }
            }
            EventNote::Invoked(calls) => {
                if let Some(group) = group {
                    repeated(group, &mut self.event_skips).invoked = Some(calls);
                }
            }
            EventNote::Passed => group
                .into_iter()
                .for_each(|group| group.wish = Some(CriticAction::Continue)),
            EventNote::Spent(spent) => {
                if let Some(group) = group {
                    group.unwritten.get_or_insert_default().spent = Some(spent);
                }
            }
            EventNote::Stop(stop) => segment.stop = Some((at, *stop)),
            EventNote::Critics(reason) => {
                segment.retries += usize::from(!stops);
                segment.critics = Some((at, stops, reason));
                let wish = if stops {
                    CriticAction::Stop
                } else {
                    CriticAction::Retry
                };
                group.into_iter().for_each(|group| group.wish = Some(wish));
            }
            EventNote::Error(text) => {
                segment.recoveries += usize::from(recover);
                segment.error = Some((at, text.clone()));
                if let Some(group) = group {
                    group.recovered |= recover;
                    if group.error.is_none() {
                        self.event_skips.weigh(text.len() as u64);
                        group.error = Some((event.phase, text));
                        self.fail_newest_group();
                    }
                }
            }
            EventNote::End(end) => segment.end = Some((at, *end, event.ok)),
            EventNote::Overflow(text) => segment.overflow = Some((at, text)),
            EventNote::Until(ts) => {
                let own = |group: &Group| group.step_id.is_some() && group.step_id == event.step_id;
                let found = self.groups.iter().rposition(own);
                if let Some(at) = found
                    && let Some(group) = self.groups.get_mut(at)
                {
                    group.until = group.until.max(Some(ts));
                    if at >= segment.first_group {
                        segment.until = segment.until.max(Some(ts));
                    }
                }
            }
            EventNote::Approval(from, to) => {
                if from < to && self.approvals.len() < MAX_APPROVALS {
                    self.approvals.push((from, to));
                }
            }
            EventNote::Asked(ts) => {
                if let Some(group) = group.filter(|group| group.first == at) {
                    group.started = Some(ts);
                }
            }
        }
    }
}

/// Returns the facts of a group that the line of its step repeats, and adds their weight if they are
/// the first.
fn repeated<'a>(group: &'a mut Group, skips: &mut Skips) -> &'a mut Repeated {
    if group.repeated.is_none() {
        skips.weigh(Repeated::WEIGHT);
    }
    group.repeated.get_or_insert_default()
}

fn confirm(fate: Option<&mut Fate>, confirmed: bool) {
    if let Some(fate) = fate.filter(|fate| confirmed && **fate == Fate::Provisional) {
        *fate = Fate::Good;
    }
}
