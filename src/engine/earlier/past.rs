//! Restores the start of a run, and the conversation and feedback of each step, from its events.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::super::chat::{Message, Reply, ToolCall};
use super::super::recovery::{FailureLine, Failures};
use super::super::talk::Exchange;
use super::super::task::Task;
use super::lines::StepBack;
use crate::model::time::parse_ts;
use crate::stop::{StepFacts, Usage};
use crate::trace::Beginning;

/// The parts of an event that are needed.
#[derive(Deserialize)]
pub(super) struct Event {
    step_id: u64,
    phase: String,
    #[serde(default)]
    payload: Payload,
    error: Option<String>,
    ts: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Payload {
    stage: String,
    task: Option<String>,
    task_meta: Map<String, Value>,
    state: Option<BTreeMap<String, Box<RawValue>>>,
    messages: Vec<Message>,
    raw_output: String,
    tool_calls: Vec<ToolCall>,
    fields: Map<String, Value>,
    usage: Usage,
    cost_usd: Option<f64>,
    cost_estimated: bool,
    feedback: Vec<String>,
    category: String,
    recoverable: bool,
    recovered: bool,
    consecutive: u64,
    total: u64,
}

impl Event {
    pub(super) fn read(line: &[u8]) -> Result<Self, String> {
        serde_json::from_slice(line).map_err(|wrong| wrong.to_string())
    }
}

/// A step that began but has no line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(crate) struct Unfinished {
    /// The step's number, counted from 0. The step is repeated.
    pub step: u64,
    /// Number of events of the step.
    pub events: u64,
    /// Tokens of its completed requests. They count in the repeated step.
    pub tokens: u64,
}

/// Usage of a step's requests.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub(in super::super) struct Spent {
    pub(in super::super) usage: Usage,
    /// US dollars, if the cost of all requests is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in super::super) cost_usd: Option<f64>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(in super::super) cost_estimated: bool,
}

impl Spent {
    /// Adds the usage to a step that is repeated.
    pub(in super::super) fn add_to(self, facts: &mut StepFacts) {
        facts.usage = Some(self.usage);
        (facts.cost_usd, facts.cost_estimated) = (self.cost_usd, self.cost_estimated);
    }
}

/// The events of a step, which complement its line.
#[derive(Debug, Default)]
pub(super) struct Round {
    pub(super) said: Vec<Exchange>,
    pub(super) feedback: Vec<String>,
    reply: Option<Box<Reply>>,
    spent: Spent,
    failure: Option<FailureLine>,
    recovery: Option<(u64, u64)>,
    events: u64,
    /// The position after the step's last event.
    end: Option<Beginning>,
}

/// The run as restored from its events.
#[derive(Default)]
pub(super) struct Past {
    pub(super) task: Task,
    pub(super) state: BTreeMap<String, Box<RawValue>>,
    pub(super) rounds: Vec<Round>,
    /// Microseconds since the end of the last completed step, without pauses.
    since_us: i64,
    has_begun: bool,
    last_ts: i64,
}

impl Past {
    /// Adds an event, which ends at `so_far`.
    pub(super) fn take(&mut self, event: Event, so_far: Beginning) -> Result<(), String> {
        let ts = parse_ts(&event.ts)
            .map(|stamp| stamp.micros)
            .ok_or_else(|| format!("{:?} is not a time", event.ts))?;
        let payload = event.payload;
        if event.phase == "INIT" {
            if !self.has_begun {
                self.begin(payload.task, payload.task_meta, payload.state)?;
            }
            // Pauses before an INIT event don't count.
            self.last_ts = ts;
            return Ok(());
        }
        self.since_us += ts.saturating_sub(self.last_ts).max(0);
        self.last_ts = ts;
        if event.phase == "END" {
            return Ok(());
        }
        if (event.phase.as_str(), payload.stage.as_str()) == ("DECIDE", "start") {
            // An unfinished step is repeated under the same number.
            let step = usize::try_from(event.step_id).unwrap_or(usize::MAX);
            let spent = self
                .rounds
                .get(step)
                .map(|round| round.spent)
                .unwrap_or_default();
            self.rounds.truncate(step);
            self.rounds.push(Round {
                spent,
                ..Round::default()
            });
        }
        let known = self.rounds.len() as u64;
        let Some(round) = self
            .rounds
            .last_mut()
            .filter(|_| known == event.step_id.saturating_add(1))
        else {
            return Err(format!(
                "an event of step {} is among the events of another step",
                event.step_id
            ));
        };
        round.events += 1;
        match (event.phase.as_str(), payload.stage.as_str()) {
            ("DECIDE", "model_input") => round.said.push(Exchange::Asked(payload.messages)),
            ("DECIDE", "model_output") => {
                let Payload {
                    raw_output: text,
                    tool_calls,
                    fields,
                    usage,
                    cost_usd,
                    cost_estimated,
                    ..
                } = payload;
                round.spent = Spent {
                    usage,
                    cost_usd,
                    cost_estimated,
                };
                round.reply = Some(Box::new(Reply {
                    text,
                    tool_calls,
                    fields,
                    ..Reply::default()
                }));
            }
            ("DECIDE", "parser_result") => round
                .said
                .extend(round.reply.take().map(Exchange::Answered)),
            ("COMPACT", _) => round.said.push(Exchange::Shortened),
            ("DECIDE_ERROR" | "ACT_ERROR" | "REDUCE_ERROR", _) => {
                round.failure = Some(FailureLine {
                    step_id: event.step_id,
                    phase: event.phase.trim_end_matches("_ERROR").to_owned(),
                    category: payload.category,
                    message: event.error.unwrap_or_default(),
                    recoverable: payload.recoverable,
                    decision: "stop",
                });
            }
            ("RECOVER", _) => {
                round.recovery = Some((payload.consecutive, payload.total));
                if let Some(failure) = round.failure.as_mut().filter(|_| payload.recovered) {
                    failure.decision = "continue";
                }
            }
            ("CHECK_STOP", _) => {
                round.feedback = payload.feedback;
                round.end = Some(so_far);
                self.since_us = 0;
            }
            _ => {}
        }
        Ok(())
    }

    fn begin(
        &mut self,
        objective: Option<String>,
        mut meta: Map<String, Value>,
        state: Option<BTreeMap<String, Box<RawValue>>>,
    ) -> Result<(), String> {
        self.has_begun = true;
        self.state = state.ok_or("it ended before its agent had a state")?;
        let id = meta.remove("task_id").unwrap_or_default();
        meta.insert("id".to_owned(), id);
        meta.insert("objective".to_owned(), objective.unwrap_or_default().into());
        self.task = serde_json::from_value(Value::Object(meta))
            .map_err(|wrong| format!("can't read its task: {wrong}"))?;
        Ok(())
    }

    /// Keeps the data of the first `steps` steps. Returns the unfinished step after them, if any,
    /// and its usage.
    pub(super) fn settle(&mut self, steps: usize) -> Result<Option<(Unfinished, Spent)>, String> {
        if !self.has_begun {
            return Err("its INIT event is missing".to_owned());
        }
        if self.rounds.len() < steps
            || self
                .rounds
                .iter()
                .take(steps)
                .any(|round| round.end.is_none())
        {
            return Err("the events of some steps are missing".to_owned());
        }
        let unfinished = self.rounds.get(steps).map(|round| {
            let (step, tokens) = (steps as u64, round.spent.usage.total());
            (
                Unfinished {
                    step,
                    events: round.events,
                    tokens,
                },
                round.spent,
            )
        });
        self.rounds.truncate(steps);
        Ok(unfinished)
    }

    /// Returns the position after the last step's events.
    pub(super) fn end_of_steps(&self) -> Beginning {
        self.rounds
            .last()
            .and_then(|round| round.end)
            .unwrap_or_default()
    }

    /// Returns the milliseconds after the last completed step.
    pub(super) fn lost_ms(&self) -> u64 {
        u64::try_from(self.since_us / 1000).unwrap_or_default()
    }
}

/// Restores the failures as the recovery policy counted them.
pub(super) fn failures(rounds: &[Round], steps: &[StepBack]) -> Failures {
    let mut failures = Failures::default();
    for (round, step) in rounds.iter().zip(steps) {
        if let Some((consecutive, total)) = round.recovery {
            (failures.consecutive, failures.total) = (consecutive, total);
        }
        if step.facts.error.is_none() {
            failures.consecutive = 0;
        }
        failures.report.extend(round.failure.clone());
    }
    failures
}
