//! Reads lines of `events.jsonl` in all layouts of QitOS and of board's engine.

use serde_json::value::RawValue;

use super::super::template::task_line;
use super::step::{call as call_of, critic as critic_of, invocation as invocation_of, some};
use crate::model::end::StopVerdict;
use crate::model::event::{
    Decided, DecisionNote, EndNote, Event, EventKind, InitNote, SpentNote, StopNote, critics_hash,
    invocations_hash, names_hash,
};
use crate::model::head::{MAX_INDEXED, answer_hash, asked_by, one_line};
use crate::model::issue::Remark;
use crate::model::json::walk;
use crate::model::loose::{Many, Maybe, Scalar, wire};
use crate::model::names::{MAX_ANSWER_BYTES, capped};
use crate::model::repair::{Object, object, read_object};
use crate::model::step::{Call, Pointer, Value};
use crate::model::time::parse_ts;
use crate::model::{EventHead, EventNote, IssueKind, Names};

/// Messages in the index are truncated to this many bytes. The event itself shows them whole.
const MAX_NOTE_BYTES: usize = 400;

/// Longer facts of an END event aren't kept in the index.
const MAX_FACTS_BYTES: usize = 4_096;

/// Reads a line of events into the form that the index keeps. Never fails. The caller fills in the
/// offset.
pub fn read(line: &[u8], names: &mut Names) -> (EventHead, Option<EventNote>, Vec<Remark>) {
    let Object {
        read,
        fate,
        mut remarks,
        ..
    } = read_object(line, |text| {
        Some(object::<EventWire<'_>>(text)?.into_head(names))
    });
    let (head, note, more) = read.unwrap_or((
        EventHead {
            ok: true,
            ..EventHead::default()
        },
        None,
        Vec::new(),
    ));
    remarks.extend(more);
    (EventHead { fate, ..head }, note, remarks)
}

/// Returns the kind of an event with this phase and stage.
pub(crate) fn kind(phase: &str, stage: &str) -> EventKind {
    match (phase, stage) {
        ("toolset_setup_start" | "toolset_setup_end" | "toolset_setup_error", _) => {
            EventKind::Setup
        }
        ("toolset_teardown_start" | "toolset_teardown_end" | "toolset_teardown_error", _) => {
            EventKind::Teardown
        }
        // QitOS 0.6 writes a second INIT if model and protocol don't match.
        ("INIT", "harness_mismatch") | ("", _) => EventKind::Other,
        ("INIT", _) => EventKind::RunStart,
        ("END", _) => EventKind::RunEnd,
        // The first event of a step in the oldest layout. Later layouts begin with state_ready.
        ("OBSERVE", "start") => EventKind::StepStart,
        ("DECIDE", "state_ready") => EventKind::StateBefore,
        ("DECIDE", "model_input") => EventKind::Prompt,
        ("DECIDE", "model_output") => EventKind::Output,
        ("DECIDE", "decision_ready") => EventKind::Decided,
        ("OBSERVE" | "DECIDE", _) => EventKind::Deciding,
        ("ACT", "start") => EventKind::Acting,
        ("CRITIC", "stop") => EventKind::CriticStop,
        ("CHECK_STOP", "continue") => EventKind::Checked,
        ("CHECK_STOP", "stop") => EventKind::Stopped,
        ("RECOVER", _) => EventKind::Recovery,
        _ => EventKind::Inside,
    }
}

fields! {
    struct Line { error, payload }
    struct Payload {
        messages, history_message_count, raw_output, tool_calls, observation, state, stop_reason, facts,
    }
    struct Observed { state }
}

/// Returns the fields of a line that its head doesn't have.
pub(crate) fn event(text: &str) -> Event<'_> {
    let at = Pointer::new;
    let line = Line::of(text);
    let payload = line.payload.map(Payload::of).unwrap_or_default();
    let observed = payload.observation.map(Observed::of).unwrap_or_default();
    let state = some(payload.state, at("/payload/state"))
        .or(some(observed.state, at("/payload/observation/state")));
    Event {
        error: some(line.error, at("/error")),
        messages: some(payload.messages, at("/payload/messages")),
        messages_before: payload
            .history_message_count
            .and_then(|count| Scalar::of(count)?.number()),
        output: some(payload.raw_output, at("/payload/raw_output")),
        tool_calls: some(payload.tool_calls, at("/payload/tool_calls")),
        state: state.filter(|state| state.is_object()),
        stop_reason: some(payload.stop_reason, at("/payload/stop_reason")),
        facts: some(payload.facts, at("/payload/facts")),
    }
}

wire! {
    struct EventWire<'a> {
        run_id: Scalar<'a>,
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
        resumed: Maybe<'a, ResumedWire<'a>>,
        observation: Maybe<'a, ObservationWire<'a>>,
        mode: Scalar<'a>,
        actions: Option<&'a RawValue>,
        final_answer: Scalar<'a>,
        critic_outputs: Option<&'a RawValue>,
        tool_invocations: Option<&'a RawValue>,
        reason: Scalar<'a>,
        stop_reason: Scalar<'a>,
        stop_detail: Scalar<'a>,
        env_terminal: Scalar<'a>,
        final_result: Scalar<'a>,
        issues: Many<'a, Maybe<'a, IssueWire<'a>>>,
        stop: Option<&'a RawValue>,
        facts: Option<&'a RawValue>,
        waited_ms: Scalar<'a>,
        context: Maybe<'a, ContextWire<'a>>,
        usage: Maybe<'a, UsageWire<'a>>,
    }

    struct UsageWire<'a> {
        input: Scalar<'a>,
        output: Scalar<'a>,
        estimated: Scalar<'a>,
    }

    struct TaskMetaWire<'a> {
        budget: Maybe<'a, BudgetWire<'a>>,
    }

    struct BudgetWire<'a> {
        max_steps: Scalar<'a>,
        max_tokens: Scalar<'a>,
        max_runtime_seconds: Scalar<'a>,
    }

    struct ResumedWire<'a> {
        steps: Scalar<'a>,
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
        output_tokens: Scalar<'a>,
        counting_mode: Scalar<'a>,
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
            remarks.push((
                IssueKind::Field,
                format!("{field} is {what}; expected {expected}"),
            ));
        };
        if self.step_id.int().is_none() {
            odd("step_id", self.step_id.type_name(), "a whole number");
        }
        if self.phase.text().is_none() {
            odd("phase", self.phase.type_name(), "a string");
        }
        let stamp = self.ts.str().and_then(parse_ts);
        match &stamp {
            None => odd("ts", self.ts.type_name(), "an ISO 8601 time"),
            Some(stamp) if !stamp.zoned => remarks.push((
                IssueKind::Field,
                "ts has no UTC offset; assumed to be UTC".to_owned(),
            )),
            Some(_) => {}
        }
        let payload = self.payload.value();
        let head = EventHead {
            ok: self.ok.bool().unwrap_or(true),
            step_id: self.step_id.int(),
            kind: kind(
                self.phase.str().unwrap_or_default(),
                payload
                    .and_then(|payload| payload.stage.str())
                    .unwrap_or_default(),
            ),
            phase: names.intern(self.phase.str().unwrap_or_default()),
            stage: names.intern(
                payload
                    .and_then(|payload| payload.stage.str())
                    .unwrap_or_default(),
            ),
            run: names.intern(self.run_id.str().unwrap_or_default()),
            ts: stamp.map(|stamp| stamp.micros),
            ..EventHead::default()
        };
        let note = self.note(payload, head.ts, names);
        (head, note, remarks)
    }

    fn note(
        &self,
        payload: Option<&PayloadWire<'_>>,
        ts: Option<i64>,
        names: &mut Names,
    ) -> Option<EventNote> {
        // The END of board's engine repeats the verdict of a failed run in `error`. Its note
        // as an end is more useful.
        if let Some(error) = self
            .error
            .text()
            .filter(|_| self.phase.str() != Some("END"))
        {
            return Some(EventNote::Error(capped(error, MAX_NOTE_BYTES)));
        }
        let payload = payload?;
        match (self.phase.str()?, payload.stage.str().unwrap_or_default()) {
            ("INIT", _) => Some(EventNote::Init(Box::new(payload.init()))),
            ("END", _) => Some(EventNote::End(Box::new(EndNote {
                reason: note(&payload.stop_reason),
                issue: payload
                    .issues
                    .items
                    .iter()
                    .find_map(Maybe::value)
                    .map(|issue| {
                        let words = [&issue.code, &issue.message]
                            .map(|part| part.str().unwrap_or_default());
                        capped(words.join(": ").trim_matches([':', ' ']), MAX_NOTE_BYTES)
                    }),
                stop: StopVerdict::read(payload.stop),
                facts: (payload.facts.map(RawValue::get))
                    .filter(|facts| facts.starts_with('{') && facts.len() <= MAX_FACTS_BYTES)
                    .map(Into::into),
            }))),
            ("DECIDE", "state_ready") | ("OBSERVE", "observation_ready") => {
                let observation = payload.observation.value()?;
                let state = observation.state.value();
                let limit = state
                    .and_then(|state| state.max_steps.int())
                    .or(observation.max_steps.int())?;
                Some(EventNote::StateLimit(limit))
            }
            ("DECIDE", "model_output") => payload.spent().map(EventNote::Spent),
            ("DECIDE", "decision_ready") => {
                let call = payload
                    .actions
                    .and_then(|list| walk::items(list.get()).find(|call| call.starts_with('{')));
                let call = call.map(|text| {
                    call_of(Value {
                        text,
                        at: Pointer::default(),
                    })
                    .summary()
                });
                let line = call.or_else(|| payload.mode.text().map(str::to_owned));
                let line = line.map(|line| one_line(&line, MAX_NOTE_BYTES).into());
                Some(EventNote::Decision(Box::new(DecisionNote {
                    line,
                    decided: payload.decided(names),
                })))
            }
            ("DECIDE", "context_overflow") => {
                let context = payload.context.value()?;
                let input = context.input_tokens_total.int()?;
                let room = context.available_input_budget.int();
                let room = room.map_or_else(String::new, |room| format!(", room for {room}"));
                Some(EventNote::Overflow(
                    format!("{input} input tokens{room}").into(),
                ))
            }
            ("CHECK_STOP", "stop") => Some(EventNote::Stop(Box::new(StopNote {
                reason: note(&payload.stop_reason),
                detail: note(&payload.stop_detail),
                env_terminal: payload.env_terminal.bool().unwrap_or_default(),
                answer: payload
                    .final_result
                    .str()
                    .map(|text| capped(text, MAX_ANSWER_BYTES)),
                non_text_answer: payload.final_result.odd(),
            }))),
            // The event is written when the person answered.
            ("GATE", "ask") => {
                let micros = payload.waited_ms.int()?.checked_mul(1_000)?;
                Some(EventNote::Approval(ts?.checked_sub(micros)?, ts?))
            }
            ("CRITIC", "outputs") => {
                let outputs = payload
                    .critic_outputs
                    .map(RawValue::get)
                    .filter(|list| list.starts_with('['))?;
                let outputs = walk::items(outputs)
                    .filter(|output| output.starts_with('{'))
                    .take(MAX_INDEXED);
                let outputs = outputs.map(|text| {
                    critic_of(Value {
                        text,
                        at: Pointer::default(),
                    })
                });
                Some(EventNote::CriticOutputs(critics_hash(
                    outputs.map(|output| (output.action, output.score)),
                )))
            }
            ("ACT", "action_results") => {
                let list = payload
                    .tool_invocations
                    .map(RawValue::get)
                    .filter(|list| list.starts_with('['))?;
                let list = walk::items(list).map(|text| {
                    invocation_of(Value {
                        text,
                        at: Pointer::default(),
                    })
                });
                Some(EventNote::Invoked(invocations_hash(
                    list.collect::<Vec<_>>().iter(),
                )))
            }
            ("CRITIC", "pass") => Some(EventNote::Passed),
            ("CRITIC", "stop" | "retry") => Some(EventNote::Critics(
                note(&payload.reason).unwrap_or_default(),
            )),
            _ => None,
        }
    }
}

impl PayloadWire<'_> {
    /// Returns the usage of a reply, in the layout of board's engine or of QitOS.
    fn spent(&self) -> Option<SpentNote> {
        let count = |number: &Scalar<'_>| u64::try_from(number.int()?).ok();
        if let Some(usage) = self.usage.value() {
            let (input, output) = (count(&usage.input)?, count(&usage.output)?);
            return Some(SpentNote {
                input,
                output,
                is_estimate: usage.estimated.bool() == Some(true),
            });
        }
        let context = self.context.value()?;
        let (input, output) = (
            count(&context.input_tokens_total)?,
            count(&context.output_tokens)?,
        );
        Some(SpentNote {
            input,
            output,
            is_estimate: context.counting_mode.str() == Some("engine_estimate"),
        })
    }

    fn decided(&self, names: &mut Names) -> Decided {
        let actions = self
            .actions
            .map(RawValue::get)
            .filter(|list| list.starts_with('['));
        let calls = actions.map(|list| {
            let calls = walk::items(list).map(|text| {
                call_of(Value {
                    text,
                    at: Pointer::default(),
                })
            });
            calls.collect::<Vec<_>>()
        });
        let actions = calls.as_ref().map(|calls| {
            let name = |call: &Call<'_>| names.intern(call.name.as_deref().unwrap_or_default());
            let named: Vec<_> = calls.iter().take(MAX_INDEXED).map(name).collect();
            let count = u32::try_from(calls.len()).unwrap_or(u32::MAX);
            (
                count,
                names_hash(named.into_iter().map(|name| names.get(name))),
            )
        });
        let asked = calls
            .filter(|calls| !calls.is_empty())
            .map(|calls| asked_by(calls.into_iter()));
        let answer = match self.final_answer {
            Scalar::Absent => None,
            ref answer => Some(answer.str().map(answer_hash)),
        };
        Decided {
            mode: names.intern(self.mode.str().unwrap_or_default()),
            actions,
            asked,
            answer,
        }
    }

    fn init(&self) -> InitNote {
        let budget = self.task_meta.value().and_then(|meta| meta.budget.value());
        InitNote {
            task: note(&self.task),
            title: self
                .task
                .str()
                .and_then(task_line)
                .map(|line| capped(line, MAX_NOTE_BYTES)),
            model: self
                .run_meta
                .value()
                .and_then(|meta| note(&meta.model_name)),
            max_steps: budget.and_then(|budget| budget.max_steps.int()),
            max_tokens: budget.and_then(|budget| budget.max_tokens.int()),
            max_seconds: budget.and_then(|budget| budget.max_runtime_seconds.number()),
            continues_previous: self.resumed.value().is_some(),
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
        let (head, note, remarks) = read(line, &mut names);
        assert_eq!(remarks, []);
        assert_eq!(
            (head.step_id, head.ok, names.get(head.phase)),
            (Some(6), false, "END")
        );
        let Some(EventNote::End(end)) = note else {
            panic!("no END")
        };
        assert_eq!(end.issue.as_deref(), Some("TASK_X: no file"));
    }

    #[test]
    fn a_question_to_a_person_tells_how_long_the_answer_took() {
        let mut names = Names::default();
        let line = br#"{"step_id": 0, "phase": "GATE", "ts": "1970-01-01T00:01:00+00:00",
            "payload": {"stage": "ask", "guard": "asks", "waited_ms": 20000}}"#;
        let (_, note, _) = read(line, &mut names);
        let expected = EventNote::Approval(40_000_000, 60_000_000);
        assert_eq!(note, Some(expected));
        let odd = String::from_utf8_lossy(line).replace("20000", "9223372036854775807");
        assert_eq!(read(odd.as_bytes(), &mut names).1, None);
    }

    #[test]
    fn odd_events_keep_their_place() {
        let mut names = Names::default();
        for line in [
            &b"42"[..],
            b"null",
            b"\0\0\0",
            b"\xff broken",
            br#"{"step_id": "7", "phase": 3}"#,
            br#"{"no": 1}"#,
        ] {
            let (_, note, remarks) = read(line, &mut names);
            assert!(note.is_none() && !remarks.is_empty());
        }
    }
}
