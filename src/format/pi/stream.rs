//! Reads the output of `pi --mode json`: one JSON object per line. It has the header of the session,
//! and then events: messages as they begin, continue and end, tool calls, retries, and the end of
//! the agent's work.
//!
//! The lines have no times, but the messages do. Every message is repeated at the end of its turn and
//! of the agent's work, so only the line that ends it counts.

use super::line::{Line, has_header, is_stream};
use super::message::{Dialog, Message, assembled};

use crate::format::part::text;
use crate::format::value::{count, is_true, member, millis, number};
use crate::format::{Draft, EventDraft, Reader, Shape, Source, Tool};
use crate::model::{CAPTURED, Can, Capabilities, Certainty, Compaction, Ended, Format, Outcome};

/// The output of Pi.
pub(in crate::format) static STREAM: Tool = Tool {
    format: Format {
        name: "Pi stream",
        can: Capabilities {
            state: Can::Partly,
            times: Can::Partly,
            tokens: Can::Yes,
            cost: Can::Partly,
            ..Capabilities::NONE
        },
        file: CAPTURED,
        adds_to_prompts: false,
        assemble: Some(assembled),
        is_of_coding_agent: true,
        ..Format::UNKNOWN
    },
    shape: Shape::Lines,
    is: |name, head| name.ends_with(".jsonl") && has_header(head) && is_stream(head),
    reader: || Box::new(Stream::default()),
};

/// A stream while it is being read.
#[derive(Debug, Default)]
struct Stream {
    dialog: Dialog,
    /// Whether the agent's work is over.
    is_settled: bool,
}

impl Reader for Stream {
    fn record(&mut self, record: Source<'_>, draft: &mut Draft<'_>) {
        let line = Line::of(record.text);
        let message = line.message.map(Message::of).unwrap_or_default();
        let (kind, role) = (
            text(line.kind).unwrap_or_default(),
            text(message.role).unwrap_or_default(),
        );
        let is_end = kind == "message_end";
        let began = millis(message.timestamp);
        // Results have the time of their end, and a duration too.
        let ms = number(message.ms).filter(|ms| role == "assistant" && *ms >= 0.0 && *ms < 1e12);
        let took = ms.map_or(0, |ms| (ms * 1e3) as i64);
        let ts = draft.time(line.timestamp);
        let ts = ts.or(began
            .filter(|_| is_end)
            .and_then(|began| began.checked_add(took)));
        let mark = EventDraft::new(&kind, ts).stage(&role);
        let is_one_of_a_kind = matches!(
            &*kind,
            "session"
                | "message_start"
                | "message_end"
                | "tool_execution_start"
                | "tool_execution_end"
                | "turn_end"
                | "agent_end"
        );
        if is_one_of_a_kind && draft.is_again(record.text) {
            return draft.again(&mark);
        }
        match &*kind {
            "session" => {
                let at = draft.event(mark);
                let before = draft.run().run_id.clone();
                self.dialog.begin(at, &line, draft);
                if before.is_some() && before != draft.run().run_id {
                    draft.other_session();
                }
            }
            "message_end" => {
                self.dialog.message(&message, began, mark, draft);
            }
            "agent_start" => {
                draft.event(mark);
                self.is_settled = false;
            }
            "agent_end" => {
                draft.event(mark);
                self.is_settled = true;
            }
            "auto_retry_start" => {
                draft.event(mark.failed(true));
                self.dialog.retry();
            }
            "compaction_end" => {
                let event = draft.event(mark);
                let of = |key: &str| member(member(record.text, "result")?, key);
                draft.compacted(Compaction {
                    event,
                    tokens: count(of("tokensBefore")),
                    tokens_after: None,
                    trigger: text(member(record.text, "reason"))
                        .unwrap_or_default()
                        .into(),
                });
            }
            "agent_settled" => {
                let at = draft.event(mark);
                let is_stopped = is_true(member(record.text, "aborted"));
                if is_stopped && self.dialog.end.is_none() {
                    let end = Ended::new(
                        "aborted",
                        "Interrupted",
                        Outcome::Cancelled,
                        Certainty::Recorded,
                    );
                    self.dialog.end = Some(end.at_event(at));
                }
            }
            _ => {
                draft.event(mark);
            }
        }
    }

    fn look(&mut self, draft: &mut Draft<'_>) {
        self.dialog.look(draft);
        // The program prints this only after a turn, so the last reply is the answer.
        if let Some(end) = draft.run().ended.as_mut().filter(|_| self.is_settled)
            && end.outcome == Outcome::Completed
        {
            end.certainty = Certainty::Recorded;
        }
    }
}
