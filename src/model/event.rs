//! What is kept of an event line? The place of the line, its phase and time, and the few facts that explain a run.

use serde_json::value::RawValue;

use super::end::StopVerdict;
use super::loose::{Many, Maybe, Scalar, wire};
use super::names::capped;
use super::repair::{Remark, object, read_object};
use super::step::{ActionWire, one_line};
use super::time::parse_ts;
use super::{Fate, IssueKind, Names, Span, Symbol};

/// A message kept in the index is cut to this many bytes; the event itself shows all of it.
const MAX_NOTE_BYTES: usize = 400;

/// One line of `events.jsonl` as the index keeps it.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct EventHead {
    /// Where the line lies.
    pub span: Span,
    /// The line's number in its file, counted from 1; blank lines count here.
    pub line: u64,
    /// How well the line could be read.
    pub fate: Fate,
    /// Whether the event says that it went well; true where it says nothing.
    pub ok: bool,
    /// The step the event names. Life cycle events all name step 0.
    pub step_id: Option<i64>,
    /// The phase, as written.
    pub phase: Symbol,
    /// The stage inside the phase, as written.
    pub stage: Symbol,
    /// Microseconds since the Unix epoch.
    pub ts: Option<i64>,
}

/// What an event tells about the run, beyond its head.
#[derive(Debug, Clone, PartialEq)]
pub enum EventNote {
    /// The run begins.
    Init(Box<InitNote>),
    /// The step limit inside the agent's state, which is not the engine's budget.
    StateLimit(i64),
    /// What was decided, as one line.
    Decision(Box<str>),
    /// `CHECK_STOP` stopped the run.
    Stop(Box<StopNote>),
    /// The critics' verdict for the step: its stage and the reason.
    Critics(Box<str>),
    /// An error in words.
    Error(Box<str>),
    /// The run ends.
    End(Box<EndNote>),
    /// A request did not fit the model's context window.
    Overflow(Box<str>),
}

/// What the INIT event says.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct InitNote {
    /// The task in words.
    pub task: Option<Box<str>>,
    /// The model's name.
    pub model: Option<Box<str>>,
    /// The step budget of the task, if it sets one.
    pub max_steps: Option<i64>,
    /// The token budget of the task, if it sets one.
    pub max_tokens: Option<i64>,
    /// The time budget of the task in seconds, if it sets one.
    pub max_seconds: Option<f64>,
}

/// What a stopping `CHECK_STOP` event says.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct StopNote {
    /// The reason, as written.
    pub reason: Option<Box<str>>,
    /// The rule's own words.
    pub detail: Option<Box<str>>,
    /// Whether the environment ended the episode.
    pub env_terminal: bool,
    /// The answer at that moment.
    pub answer: Option<Box<str>>,
}

/// What an END event says.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct EndNote {
    /// The reason, as written.
    pub reason: Option<Box<str>>,
    /// The first preflight issue: code and message.
    pub issue: Option<Box<str>>,
    /// The verdict, where it is recorded.
    pub stop: Option<Box<StopVerdict>>,
}

impl EventHead {
    /// Reads a line; never fails. `span` and `line` are left for the caller to fill.
    pub fn read(line: &[u8], names: &mut Names) -> (Self, Option<EventNote>, Vec<Remark>) {
        let (read, fate, mut remarks) = read_object(line, |text| Some(object::<EventWire<'_>>(text)?.into_head(names)));
        let (head, note, more) = read.unwrap_or((Self { ok: true, ..Self::default() }, None, Vec::new()));
        remarks.extend(more);
        (Self { fate, ..head }, note, remarks)
    }
}

wire! {
    struct EventWire<'a> {
        step_id: Scalar<'a>,
        phase: Scalar<'a>,
        ok: Scalar<'a>,
        error: Scalar<'a>,
        ts: Scalar<'a>,
        payload: Maybe<'a, PayloadWire<'a>>,
    }

    struct PayloadWire<'a> {
        stage: Scalar<'a>,
        task: Scalar<'a>,
        task_meta: Maybe<'a, TaskMetaWire<'a>>,
        run_meta: Maybe<'a, RunMetaWire<'a>>,
        observation: Maybe<'a, ObservationWire<'a>>,
        mode: Scalar<'a>,
        actions: Many<'a, Maybe<'a, ActionWire<'a>>>,
        reason: Scalar<'a>,
        stop_reason: Scalar<'a>,
        stop_detail: Scalar<'a>,
        env_terminal: Scalar<'a>,
        final_result: Scalar<'a>,
        issues: Many<'a, Maybe<'a, IssueWire<'a>>>,
        stop: Option<&'a RawValue>,
        context: Maybe<'a, ContextWire<'a>>,
    }

    struct TaskMetaWire<'a> {
        budget: Maybe<'a, BudgetWire<'a>>,
    }

    struct BudgetWire<'a> {
        max_steps: Scalar<'a>,
        max_tokens: Scalar<'a>,
        max_runtime_seconds: Scalar<'a>,
    }

    struct RunMetaWire<'a> {
        model_name: Scalar<'a>,
    }

    struct ObservationWire<'a> {
        state: Maybe<'a, StateWire<'a>>,
        max_steps: Scalar<'a>,
    }

    struct StateWire<'a> {
        max_steps: Scalar<'a>,
    }

    struct IssueWire<'a> {
        code: Scalar<'a>,
        message: Scalar<'a>,
    }

    struct ContextWire<'a> {
        input_tokens_total: Scalar<'a>,
        available_input_budget: Scalar<'a>,
    }
}

fn note(text: &Scalar<'_>) -> Option<Box<str>> {
    text.text().map(|text| capped(text, MAX_NOTE_BYTES))
}

impl EventWire<'_> {
    fn into_head(self, names: &mut Names) -> (EventHead, Option<EventNote>, Vec<Remark>) {
        let mut remarks = Vec::new();
        let mut odd = |field: &str, what: &str, expected: &str| {
            remarks.push((IssueKind::Field, format!("{field} is {what}; expected {expected}")));
        };
        if self.step_id.int().is_none() {
            odd("step_id", self.step_id.type_name(), "a whole number");
        }
        if self.phase.text().is_none() {
            odd("phase", self.phase.type_name(), "a name");
        }
        let stamp = self.ts.str().and_then(parse_ts);
        match &stamp {
            None => odd("ts", self.ts.type_name(), "a time in ISO 8601"),
            Some(stamp) if !stamp.zoned => {
                remarks.push((IssueKind::Field, "ts names no offset; taken as UTC".to_owned()))
            }
            Some(_) => {}
        }
        let payload = self.payload.value();
        let head = EventHead {
            ok: self.ok.bool().unwrap_or(true),
            step_id: self.step_id.int(),
            phase: names.intern(self.phase.str().unwrap_or_default()),
            stage: names.intern(payload.and_then(|payload| payload.stage.str()).unwrap_or_default()),
            ts: stamp.map(|stamp| stamp.micros),
            ..EventHead::default()
        };
        (head, self.note(payload), remarks)
    }

    fn note(&self, payload: Option<&PayloadWire<'_>>) -> Option<EventNote> {
        // Our own END repeats its verdict under `error` where the run failed; that it is the end counts for more.
        if let Some(error) = self.error.text().filter(|_| self.phase.str() != Some("END")) {
            return Some(EventNote::Error(capped(error, MAX_NOTE_BYTES)));
        }
        let payload = payload?;
        match (self.phase.str()?, payload.stage.str().unwrap_or_default()) {
            ("INIT", _) => Some(EventNote::Init(Box::new(payload.init()))),
            ("END", _) => Some(EventNote::End(Box::new(EndNote {
                reason: note(&payload.stop_reason),
                issue: payload.issues.items.iter().find_map(Maybe::value).map(|issue| {
                    let words = [&issue.code, &issue.message].map(|part| part.str().unwrap_or_default());
                    capped(words.join(": ").trim_matches([':', ' ']), MAX_NOTE_BYTES)
                }),
                stop: StopVerdict::read(payload.stop),
            }))),
            ("DECIDE", "state_ready") | ("OBSERVE", "observation_ready") => {
                let observation = payload.observation.value()?;
                let state = observation.state.value();
                let limit = state.and_then(|state| state.max_steps.int()).or(observation.max_steps.int())?;
                Some(EventNote::StateLimit(limit))
            }
            ("DECIDE", "decision_ready") => {
                let call = payload.actions.items.iter().find_map(Maybe::value).map(ActionWire::call);
                let line = call.or_else(|| payload.mode.text().map(str::to_owned))?;
                Some(EventNote::Decision(one_line(&line, MAX_NOTE_BYTES).into()))
            }
            ("DECIDE", "context_overflow") => {
                let context = payload.context.value()?;
                let input = context.input_tokens_total.int()?;
                let room = context.available_input_budget.int();
                let room = room.map_or_else(String::new, |room| format!(", room for {room}"));
                Some(EventNote::Overflow(format!("{input} input tokens{room}").into()))
            }
            ("CHECK_STOP", "stop") => Some(EventNote::Stop(Box::new(StopNote {
                reason: note(&payload.stop_reason),
                detail: note(&payload.stop_detail),
                env_terminal: payload.env_terminal.bool().unwrap_or_default(),
                answer: note(&payload.final_result),
            }))),
            ("CRITIC", "stop" | "retry") => Some(EventNote::Critics(note(&payload.reason).unwrap_or_default())),
            _ => None,
        }
    }
}

impl PayloadWire<'_> {
    fn init(&self) -> InitNote {
        let budget = self.task_meta.value().and_then(|meta| meta.budget.value());
        InitNote {
            task: note(&self.task),
            model: self.run_meta.value().and_then(|meta| note(&meta.model_name)),
            max_steps: budget.and_then(|budget| budget.max_steps.int()),
            max_tokens: budget.and_then(|budget| budget.max_tokens.int()),
            max_seconds: budget.and_then(|budget| budget.max_runtime_seconds.number()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_end_event() {
        let mut names = Names::default();
        let line = br#"{"step_id": 6, "phase": "END", "ok": false, "error": null, "ts": "2026-11-21T20:25:58+00:00",
            "payload": {"stop_reason": "task_validation_failed", "issues": [{"code": "TASK_X", "message": "no file"}]}}"#;
        let (head, note, remarks) = EventHead::read(line, &mut names);
        assert_eq!(remarks, []);
        assert_eq!((head.step_id, head.ok, names.get(head.phase)), (Some(6), false, "END"));
        let Some(EventNote::End(end)) = note else { panic!("no END") };
        assert_eq!(end.issue.as_deref(), Some("TASK_X: no file"));
    }

    #[test]
    fn odd_events_keep_their_place() {
        let mut names = Names::default();
        for line in
            [&b"42"[..], b"null", b"\0\0\0", b"\xff broken", br#"{"step_id": "7", "phase": 3}"#, br#"{"no": 1}"#]
        {
            let (_, note, remarks) = EventHead::read(line, &mut names);
            assert!(note.is_none() && !remarks.is_empty());
        }
    }
}
