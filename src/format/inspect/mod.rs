//! Reads logs of Inspect evaluations: `LOG.eval`, a zip archive with one member per sample, or
//! `LOG.json`, the same as one JSON document. Each epoch of a sample is a separate run. A header
//! has the facts about all samples.
//!
//! Covers versions 0.3.41 to 0.3.285. A `model` event of the solver is a step, and the `tool`
//! events after it are its results. A scorer's model request isn't a step. Each long text is stored
//! once, after the events, so a step is assembled with the texts that it refers to.

mod end;
mod part;

use std::collections::{BTreeMap, HashMap};

use super::recent::Recent;
use super::value::{count, cut, filled, is_true, micros, short, spoken};
use super::watch::begun;
use super::{
    Draft, EventDraft, MESSAGE, Reader, RecordPlace, STORED, SYSTEM, Several, Shape, Source, Tool,
};
use crate::format::part::text;
use crate::model::json::walk;
use crate::model::{Compaction, EventKind, IssueKind};

use end::{FORMAT, Facts, Last};
pub(super) use part::references_in;
use part::{MAX_TEXTS, PREFIXES, is_key, part_of, references, score_at_end};

/// A log.
pub(super) static LOG: Tool = Tool {
    format: FORMAT,
    shape: Shape::Several(&Several {
        paths: PATHS,
        runs: &[&["samples", "*"]],
        named_by: &[&["samples", "*", "id"], &["samples", "*", "epoch"]],
        name: |values| match values {
            [Some(id), epoch] => {
                let id = text(Some(id)).unwrap_or_else(|| id.clone());
                Some(format!("{id}_epoch_{}", epoch.as_deref().unwrap_or("1")))
            }
            _ => None,
        },
        member: |name| name.strip_prefix("samples/")?.strip_suffix(".json"),
        beside: &["header.json", "_journal/start.json"],
        is_run_alone: true,
        ..Several::NONE
    }),
    is,
    reader: || Box::new(Sample::default()),
};

/// The paths of a sample's records. The index in this list identifies the kind of record.
const PATHS: &[&[&str]] = &[
    &["events", "*"],
    &["transcript", "events", "*"],
    &["attachments", "{}"],
    &["transcript", "content", "{}"],
    &["events_data", "messages", "*"],
    &["message_pool", "*"],
    &["input"],
    &["scores"],
    &["limit"],
    &["error"],
    &["model_usage"],
    &["uuid"],
    &["id"],
    &["epoch"],
    &["started_at"],
    &["completed_at"],
    &["total_time"],
    &["working_time"],
    &["turn_count"],
    &["output", "completion"],
    &["message_limit"],
    &["token_limit"],
    &["time_limit"],
    &["working_limit"],
    &["cost_limit"],
    &["turn_limit"],
    &["messages", "*", "content"],
    &["messages", "*", "role"],
    &["invalidation"],
    &["error_retries", "*"],
    &["target"],
];

fields! {
    struct Compacted { kind = "type", before = "tokens_before", after = "tokens_after" }
    struct Event {
        event, timestamp, completed, span_id, id, parent_id, name, action, failed, error, kind = "type",
        decision, level, intermediate, model, uuid,
    }
}

/// At most this many spans and referenced texts are tracked, so that a file can't fill the memory.
const MAX_KEPT: usize = 500_000;
/// A step larger than this many bytes is dropped from memory as soon as it's complete.
const LARGE_BYTES: usize = 8 << 10;
/// The same for a step that refers to texts after the events. Its row then shows the references.
const HUGE_BYTES: usize = 64 << 10;
/// System messages of a sample that are kept as events, at most.
const MAX_SYSTEM: usize = 50;
/// Texts stored after the events that can be found by their key, at most.
const MAX_STORED: usize = 5_000;
/// The part of a long text that is read for the row of a step, in bytes.
const MAX_TEXT_BYTES: usize = 2_000;

fn is(name: &str, head: &[u8]) -> bool {
    if name.ends_with(".eval") {
        return head.starts_with(b"PK\x03\x04");
    }
    let keys = begun(head);
    let begins = |wanted: &str, with: &[char]| {
        keys.iter()
            .any(|(key, value)| key.trim_matches('"') == wanted && value.starts_with(with))
    };
    name.ends_with(".json")
        && begins("eval", &['{'])
        && begins("status", &['"'])
        && begins("version", &['2', '3', '4'])
}

/// A sample while it is being read.
#[derive(Debug, Default)]
struct Sample {
    spans: HashMap<String, Inside>,
    /// The open steps that older versions have in place of spans, outermost first.
    open: Vec<String>,
    /// The newest step.
    last: Option<usize>,
    /// The steps whose calls have no result yet, by call id.
    calls: Recent<String, usize>,
    /// The texts that each step refers to, in order.
    refers: BTreeMap<usize, Vec<String>>,
    /// The steps that refer to a text, and the event that contains it.
    texts: HashMap<String, (Vec<usize>, Option<usize>)>,
    /// The first event of each step that refers to a text.
    first: Recent<usize, usize>,
    kept: usize,
    /// The content of the message that is being read.
    content: Option<RecordPlace>,
    /// The number of system messages, and of texts stored after the events.
    system: usize,
    stored: usize,
    facts: Facts,
}

/// A span of events.
#[derive(Debug)]
struct Inside {
    parent: Option<String>,
    kind: String,
    /// The event that begins the span, if it names an agent.
    agent: Option<(usize, super::Part)>,
}

impl Reader for Sample {
    fn record(&mut self, record: Source<'_>, draft: &mut Draft<'_>) {
        let Some(path) = PATHS.get(record.path) else {
            return;
        };
        match *path {
            ["events", _] | ["transcript", "events", _] => self.event(record.text, draft),
            ["attachments", _] | ["transcript", "content", _] => self.attached(record, draft),
            ["events_data" | "message_pool", ..] => {
                draft.event(EventDraft::new("message pool", None));
            }
            ["input"] => {
                let words = text(Some(record.text)).unwrap_or_else(|| last_said(record.text));
                draft.prompt(Some(&words), &EventDraft::new("input", None));
            }
            ["messages", _, "content"] => {
                let is_empty = matches!(record.text, "null" | "\"\"" | "[]");
                self.content = (!is_empty).then(|| draft.place());
            }
            ["messages", ..] => self.message(record.text, draft),
            [key] | [key, _] => {
                let is_object = record.text.starts_with('{');
                let at = is_object
                    .then(|| draft.event(EventDraft::new(key, None).failed(*key == "error")));
                self.facts.take(key, record.text, at);
            }
            _ => {}
        }
    }

    fn beside(&mut self, text: &str) {
        self.facts.header = Some(text.to_owned());
    }

    fn look(&mut self, draft: &mut Draft<'_>) {
        // References come after all records of the step itself, where they're expected.
        for (n, texts) in std::mem::take(&mut self.refers) {
            let own = self.first.get(&n).copied().unwrap_or_default();
            for reference in texts {
                let event = self.texts.get(&reference).and_then(|(_, event)| *event);
                // A missing text takes a place in the list too, because texts are identified by
                // their position.
                draft.refer(n, event.unwrap_or(own));
            }
        }
        let last = self.last.and_then(|n| {
            Some(Last::of(
                draft.step(n)?,
                draft.said(n),
                self.first.get(&n).copied(),
                &self.facts,
            ))
        });
        let latest = draft.latest();
        draft.time_of_whole(self.facts.unzoned.take().as_deref());
        if let Some(difference) = self.facts.differences() {
            draft.issue_of_whole(IssueKind::Count, difference);
        }
        for (seconds, what) in self.facts.odd_times() {
            draft.took(seconds, what);
        }
        self.facts
            .tell(last.unwrap_or_default(), latest, draft.run());
    }
}

/// Returns the texts of the last message by a user.
fn last_said(messages: &str) -> String {
    let last = walk::items(messages).last();
    last.map(|message| spoken(super::value::member(message, "content")))
        .unwrap_or_default()
}

impl Sample {
    fn event(&mut self, record: &str, draft: &mut Draft<'_>) {
        let event = Event::of(record);
        let sort = text(event.event).unwrap_or_default();
        let stage = [
            event.kind,
            event.name,
            event.decision,
            event.level,
            event.action,
        ]
        .into_iter()
        .find_map(text_of);
        let stage = stage.unwrap_or_default();
        let latest = draft.latest();
        // Events are ordered by start time. If an event began during another one, its time is only
        // in its record.
        let in_order = |ts: Option<i64>| ts.filter(|ts| latest.is_none_or(|latest| *ts >= latest));
        let began = draft.time(event.timestamp);
        let ts = in_order(if sort == "model" {
            micros(event.completed).or(began)
        } else {
            began
        });
        let failed = is_true(event.failed) || matches!(event.error, Some(error) if error != "null");
        let mark = EventDraft {
            phase: &sort,
            stage: &stage,
            ts,
            failed,
            ..EventDraft::default()
        };
        if event.uuid.is_some() && draft.is_again(record) {
            return draft.again(&mark);
        }
        let inside = EventDraft {
            kind: EventKind::Inside,
            step: self.last,
            note: None,
            ..mark
        };
        match &*sort {
            "model" if !self.is_scoring(event.span_id) => {
                let asked = began
                    .filter(|_| micros(event.completed).is_some())
                    .or(latest);
                self.reply(record, &event, asked, mark, draft);
            }
            "model" => {
                self.facts.was_scored = true;
                let part = part_of(record);
                self.facts.asked(&part);
                self.facts.graded(&part);
                draft.event(mark);
            }
            "tool" if !self.is_scoring(event.span_id) => self.answer(record, &event, mark, draft),
            "span_begin" => {
                let begins = matches!(&*stage, "tool" | "agent") && self.last.is_some();
                let at = draft.event(if begins { inside } else { mark });
                self.span(record, &event, stage, at);
            }
            "span_end" => {
                let kind = text(event.id)
                    .and_then(|id| self.spans.get(&id))
                    .map(|span| &*span.kind);
                let ends = matches!(kind, Some("tool" | "agent")) && self.last.is_some();
                draft.event(if ends { inside } else { mark });
            }
            "step" => {
                match text(event.action).as_deref() {
                    Some("begin") if self.open.len() < 100 => {
                        self.open.push(text(event.kind).unwrap_or_default())
                    }
                    Some("end") => drop(self.open.pop()),
                    _ => {}
                }
                draft.event(mark);
            }
            // Applies to the whole run, not to the newest step.
            "score" if !is_true(event.intermediate) => {
                self.facts.judged(score_at_end(record));
                draft.event(mark);
            }
            "state" | "store" | "score" if self.last.is_some() => {
                let part = part_of(record);
                let says = !part.changes.is_empty() || !part.scores.is_empty();
                draft.event(if says { inside } else { mark });
                if let Some(n) = self.last.filter(|_| says) {
                    self.part(n, part, draft);
                }
            }
            "compaction" => {
                let at = draft.event(if self.last.is_some() { inside } else { mark });
                let sizes = Compacted::of(record);
                draft.compacted(Compaction {
                    event: at,
                    tokens: count(sizes.before),
                    tokens_after: count(sizes.after),
                    trigger: short(sizes.kind).unwrap_or_default(),
                });
            }
            "sandbox" | "subtask" | "approval" if self.last.is_some() => {
                draft.event(inside);
            }
            "sample_limit" => {
                let at = draft.event(mark.failed(true));
                self.facts.limit_event(at, record);
            }
            _ => {
                draft.event(mark);
            }
        }
    }

    /// Handles a reply of the model.
    fn reply(
        &mut self,
        record: &str,
        event: &Event<'_>,
        asked: Option<i64>,
        mark: EventDraft<'_>,
        draft: &mut Draft<'_>,
    ) {
        let n = draft.reply(None, asked, mark);
        let before = self.last.replace(n);
        self.first.insert(n, draft.newest());
        if let Some(model) = filled(event.model) {
            self.facts.model.get_or_insert_with(|| cut(&model));
        }
        let part = part_of(record);
        self.facts.asked(&part);
        self.facts.step(&part);
        for call in part.calls.iter().filter(|call| !call.id.is_empty()) {
            self.calls.insert(call.id.clone(), n);
        }
        self.part(n, part, draft);
        if let Some((at, agent)) = self.agent(event.span_id) {
            draft.add(n, at, agent);
        }
        draft.close(n);
        if let Some(before) = before {
            self.settle(before, draft);
        }
    }

    /// Handles the result of a call.
    fn answer(
        &mut self,
        record: &str,
        event: &Event<'_>,
        mark: EventDraft<'_>,
        draft: &mut Draft<'_>,
    ) {
        let n = text(event.id)
            .and_then(|id| self.calls.remove(&id))
            .or(self.last);
        let part = part_of(record);
        let kind = if n.is_some() {
            EventKind::Inside
        } else {
            EventKind::Other
        };
        draft.event(EventDraft {
            kind,
            step: n,
            failed: part.has_failed(),
            ..mark
        });
        if let Some(n) = n {
            self.part(n, part, draft);
            if self.last != Some(n) {
                self.settle(n, draft);
            }
        }
    }

    /// Adds a part to a step.
    fn part(&mut self, n: usize, part: super::Part, draft: &mut Draft<'_>) {
        self.note(n, &part);
        draft.part(n, part);
    }

    /// Records the texts that a part of a step refers to.
    fn note(&mut self, n: usize, part: &super::Part) {
        for reference in references(part) {
            let full = |known: &Vec<String>| known.len() >= MAX_TEXTS || known.contains(&reference);
            if self.kept >= MAX_KEPT || self.refers.get(&n).is_some_and(full) {
                continue;
            }
            self.kept += 1;
            self.texts.entry(reference.clone()).or_default().0.push(n);
            self.refers.entry(n).or_default().push(reference);
        }
    }

    /// Drops a large complete step from memory.
    fn settle(&mut self, n: usize, draft: &mut Draft<'_>) {
        let size = draft
            .step(n)
            .filter(|part| part.unanswered() == 0)
            .map_or(0, super::Part::len);
        let most = if self.refers.contains_key(&n) {
            HUGE_BYTES
        } else {
            LARGE_BYTES
        };
        if size > most {
            draft.settle(n);
        }
    }

    /// Handles the role of a message in the final conversation, which follows the content. The
    /// content of a system message becomes an event. The other messages are in the steps.
    fn message(&mut self, role: &str, draft: &mut Draft<'_>) {
        self.facts.take("messages", role, None);
        let content = self.content.take();
        let is_system = text(Some(role)).as_deref() == Some(SYSTEM);
        if let Some(content) = content.filter(|_| is_system && self.system < MAX_SYSTEM) {
            self.system += 1;
            let own = draft.place();
            draft.at(content);
            draft.event(EventDraft::new(MESSAGE, None).stage(SYSTEM));
            draft.at(own);
        }
    }

    /// Handles a text that events refer to. Its key is the stage of its event.
    fn attached(&mut self, record: Source<'_>, draft: &mut Draft<'_>) {
        self.stored += 1;
        let key = Some(record.key).filter(|key| self.stored <= MAX_STORED && is_key(key));
        let mark = EventDraft::new(STORED, None).stage(key.unwrap_or_default());
        let at = draft.event(mark);
        let prefix = if matches!(PATHS.get(record.path), Some(["attachments", ..])) {
            PREFIXES[0]
        } else {
            PREFIXES[1]
        };
        let reference = format!("{prefix}{}", record.key);
        if self.texts.len() > MAX_KEPT && !self.texts.contains_key(&reference) {
            return;
        }
        let (steps, event) = self.texts.entry(reference.clone()).or_default();
        *event = Some(at);
        let Some(whole) = text(Some(record.text)).filter(|_| !steps.is_empty()) else {
            return;
        };
        let shown = if whole.len() > MAX_TEXT_BYTES {
            let end = (0..=MAX_TEXT_BYTES)
                .rev()
                .find(|end| whole.is_char_boundary(*end))
                .unwrap_or_default();
            // The key distinguishes texts with the same beginning.
            format!("{}… ({})", whole.get(..end).unwrap_or_default(), record.key)
        } else {
            whole
        };
        for n in steps {
            draft.resolve(*n, &reference, &shown);
        }
    }

    fn span(&mut self, record: &str, event: &Event<'_>, kind: String, at: usize) {
        let Some(id) = text(event.id).filter(|_| self.kept < MAX_KEPT) else {
            return;
        };
        self.kept += 1;
        let agent = (kind == "agent").then(|| (at, part_of(record)));
        self.spans.insert(
            id,
            Inside {
                parent: text(event.parent_id),
                kind,
                agent,
            },
        );
    }

    /// Returns the spans around an event, innermost first.
    fn around(&self, span: Option<&str>) -> impl Iterator<Item = &Inside> {
        let mut next = text(span);
        // Real logs never nest this deep, and a cycle of parents would never end.
        (0..100).map_while(move |_| {
            let span = self.spans.get(next.as_ref()?)?;
            next.clone_from(&span.parent);
            Some(span)
        })
    }

    /// Returns whether an event belongs to scoring.
    fn is_scoring(&self, span: Option<&str>) -> bool {
        let is = |kind: &str| matches!(kind, "scorer" | "scorers");
        self.open.iter().any(|kind| is(kind)) || self.around(span).any(|span| is(&span.kind))
    }

    /// Returns the record that names the agent of an event, if another agent called it.
    fn agent(&self, span: Option<&str>) -> Option<(usize, super::Part)> {
        let mut around = self.around(span).skip_while(|span| span.agent.is_none());
        let (at, part) = around.next()?.agent.clone()?;
        let outer: Vec<&Inside> = around.collect();
        let is_nested = outer.iter().any(|span| span.kind == "tool");
        let is_called = is_nested || outer.iter().any(|span| span.agent.is_some());
        is_called.then_some((at, super::Part { is_nested, ..part }))
    }
}

fn text_of(value: Option<&str>) -> Option<String> {
    filled(value)
}
