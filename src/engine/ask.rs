//! Gets a decision from the model: builds the prompt, sends the request and parses the reply.
//! Retries requests that are too long and replies that are empty, within limits.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use serde::Serialize;
use serde_json::{Map, Value};

use super::agent::{Agent, Prompt};
use super::cancel::caught_now;
use super::chat::{Message, ModelError, ModelErrorKind, Reply, Request};
use super::decision::Decision;
use super::earlier::Spent;
use super::fault::{Fault, NoDecision};
use super::hook::Moment;
use super::parse::{self, Parsed};
use super::result::{ModelTurn, StepRecord};
use super::session::{Asking, Session};
use super::step::cx;
use super::talk::with_ids;
use super::toolbox::clip;
use crate::stop::{Text, Usage, text_hash};

/// How many times a request that is too long is shortened.
const MAX_SHRINKS: u32 = 3;
/// How many times a request is repeated after an empty reply.
const MAX_EMPTY: u32 = 1;

/// Maximum size of a reply's text and arguments, in bytes. No model writes that much. A larger
/// reply is rejected, and only its start is recorded.
const MAX_REPLY_BYTES: usize = 1 << 20;
/// How much of a rejected reply is recorded, in bytes.
const MAX_START_BYTES: usize = 16 << 10;

/// Truncates a reply that is too large, and returns the error. The usage covers the whole reply.
fn shorten(reply: &mut Reply, estimated_input: u64) -> Option<String> {
    let arguments: usize = reply
        .tool_calls
        .iter()
        .map(|call| call.name.len() + call.arguments.len())
        .sum();
    let beside: usize = reply
        .fields
        .values()
        .map(|value| value.to_string().len())
        .sum();
    let bytes = reply
        .text
        .len()
        .saturating_add(arguments)
        .saturating_add(beside);
    if bytes <= MAX_REPLY_BYTES {
        return None;
    }
    let output = (bytes as u64).div_ceil(4);
    reply
        .usage
        .get_or_insert(Usage::estimated(estimated_input, output));
    clip(&mut reply.text, MAX_START_BYTES);
    reply.tool_calls.clear();
    reply.fields.clear();
    Some(format!(
        "the reply has {bytes} bytes, more than the limit of {MAX_REPLY_BYTES}"
    ))
}

/// Returns a hash of the model's calls if the reply has no text, so that repeated calls can be
/// detected.
fn calls_hash(reply: &Reply) -> Option<u64> {
    if reply.tool_calls.is_empty() || !reply.text.trim().is_empty() {
        return None;
    }
    let calls: Vec<_> = reply
        .tool_calls
        .iter()
        .map(|call| (&*call.name, call.arguments.trim()))
        .collect();
    // 53 bits, so that readers with double-precision numbers keep it exact.
    Some(text_hash(&serde_json::to_string(&calls).unwrap_or_default()) >> 11)
}

#[derive(Serialize)]
struct Input<'a> {
    history_message_count: usize,
    /// Only messages that weren't part of an earlier answered request. The others are recorded in
    /// earlier steps.
    messages: Vec<&'a Message>,
    estimated_tokens: u64,
}

#[derive(Serialize)]
struct Output<'a> {
    raw_output: &'a str,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    tool_calls: &'a [super::chat::ToolCall],
    #[serde(skip_serializing_if = "Map::is_empty")]
    fields: &'a Map<String, Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    finish_reason: Option<&'a str>,
    attempts: u32,
    /// Usage of the step so far, for resuming a run at an unfinished step.
    usage: Usage,
    #[serde(skip_serializing_if = "Option::is_none")]
    cost_usd: Option<f64>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    cost_estimated: bool,
}

#[derive(Serialize)]
struct Compacted<'a> {
    messages_before: usize,
    messages_after: usize,
    reason: &'a str,
}

#[derive(Serialize)]
struct ParserResult<'a> {
    parser: &'a str,
    parsed_mode: Option<&'static str>,
    has_diagnostics: bool,
}

impl<A: Agent> Session<A> {
    /// Asks the model for the decision of a step.
    pub(super) async fn ask_model(
        &mut self,
        record: &mut StepRecord,
    ) -> Result<Decision, NoDecision> {
        if self.parts.model.is_none() {
            let wrong = "the agent decided nothing, and the engine has no model to ask";
            return Err(Fault::new("agent_error", wrong).fatal().into());
        }
        let new = self.prompt(record)?;
        let mut reply = self.request(record, &new).await?;
        with_ids(record.step, &mut reply.tool_calls);
        let parsed =
            caught_now(|| self.read(&reply)).map_err(|text| Fault::new("panic", text).fatal());
        self.talk.push(new, &reply);
        // The feedback was sent; the next step starts without it.
        self.feedback.clear();
        let parsed = parsed?;
        self.record_reply(record.step, &reply, &parsed);
        if parsed.decision.is_some()
            && reply.tool_calls.is_empty()
            && reply.finish_reason.as_deref() == Some("length")
        {
            let cut = Fault::new(
                "parse_error",
                "the reply was truncated at the model's token limit",
            );
            return Err(cut.into());
        }
        if reply.finish_reason.as_deref() == Some("content_filter") {
            let filtered = Fault::new(
                "model_error",
                "the service withheld all or part of the reply: content_filter",
            );
            return Err(filtered.into());
        }
        record.diagnostics = parsed.diagnostics;
        match (parsed.decision, &record.diagnostics) {
            (Some(decision), _) => Ok(decision),
            (None, Some(diagnostics)) => {
                let fault = Fault::new("parse_error", diagnostics.summary.clone());
                Err(Fault {
                    advice: Some(diagnostics.repair_instruction.clone()),
                    ..fault
                }
                .into())
            }
            (None, None) => Err(Fault::new("parse_error", "the reply contains no decision").into()),
        }
    }

    /// Returns the new messages of this step.
    fn prompt(&mut self, record: &StepRecord) -> Result<Vec<Message>, NoDecision> {
        let cx = cx(&self.run, &self.parts, &self.talk, &self.feedback, record);
        let prompt = caught_now(|| self.agent.prepare(&self.state, &cx));
        let prompt = prompt.map_err(|text| Fault::new("panic", text).fatal())?;
        let Prompt { system, user } = prompt.map_err(Fault::from)?;
        let user = self.talk.replacement().or(user);
        let user = user
            .into_iter()
            .chain(self.feedback.iter().cloned())
            .collect::<Vec<_>>()
            .join("\n\n");
        Ok(self.talk.add_turn(system, user))
    }

    /// Returns the next request and its estimated tokens.
    fn make_request(&self, new: &[Message]) -> Result<(Request, u64), NoDecision> {
        let made = caught_now(|| self.talk.request(new, &*self.parts.history));
        Ok(made.map_err(|text| Fault::new("panic", text).fatal())?)
    }

    async fn request(
        &mut self,
        record: &mut StepRecord,
        new: &[Message],
    ) -> Result<Reply, NoDecision> {
        let (mut shrinks, mut empty) = (0, 0);
        loop {
            let (mut request, estimated) = self.make_request(new)?;
            request.time_left = self.parts.cancel.left();
            let older = request.messages.len().saturating_sub(new.len());
            let input = Input {
                history_message_count: older,
                messages: new.iter().collect(),
                estimated_tokens: estimated,
            };
            self.emit(record.step, "DECIDE", "model_input", input);
            let Some(model) = self.parts.model.as_deref() else {
                return Err(NoDecision::Ended);
            };
            let too_long = model.context_window().filter(|window| estimated > *window);
            let answered = match too_long {
                Some(window) => {
                    let wrong = format!(
                        "about {estimated} tokens don't fit in the model's {window}-token window"
                    );
                    Err(ModelError::new(ModelErrorKind::Overflow, wrong))
                }
                None => {
                    let asking = Arc::new(Asking::new(estimated));
                    self.run.asking = Some(Arc::clone(&asking));
                    let on_text = |text: &str| {
                        asking.bytes.fetch_add(text.len() as u64, Ordering::Relaxed);
                        (self.parts.on_text)(text);
                    };
                    let answer = async {
                        asking.has_begun.store(true, Ordering::Relaxed);
                        model.complete(&request, &on_text).await
                    };
                    self.run.log.flush();
                    let answered = self.parts.cancel.guard(answer).await;
                    self.run.asking = None;
                    if answered.is_err() && asking.has_begun() {
                        self.spend(record, asking.usage(), None, None);
                    }
                    answered?
                }
            };
            let error = match answered {
                Ok(reply) if reply.text.trim().is_empty() && reply.tool_calls.is_empty() => {
                    self.count(record, &reply, estimated);
                    let why = reply
                        .finish_reason
                        .map(|why| format!(" (finish reason: {why})"))
                        .unwrap_or_default();
                    let thought = if reply.fields.is_empty() {
                        ""
                    } else {
                        ", only thought"
                    };
                    let wrong = format!("the reply is empty: neither text nor calls{thought}{why}");
                    ModelError::new(ModelErrorKind::Empty, wrong)
                }
                Ok(mut reply) => {
                    let too_large = shorten(&mut reply, estimated);
                    self.count(record, &reply, estimated);
                    match too_large {
                        Some(wrong) => return Err(Fault::new("model_error", wrong).into()),
                        None => return Ok(reply),
                    }
                }
                Err(error) => {
                    self.spend(record, error.usage, None, None);
                    error
                }
            };
            match error.kind {
                ModelErrorKind::Overflow => {
                    let before = request.messages.len();
                    if shrinks == MAX_SHRINKS || !self.talk.shrink() {
                        return Err(NoDecision::Overflow(error.message));
                    }
                    shrinks += 1;
                    let after = self.make_request(new)?.0.messages.len();
                    let compacted = Compacted {
                        messages_before: before,
                        messages_after: after,
                        reason: &error.message,
                    };
                    self.emit(record.step, "COMPACT", "reactive_compact", compacted);
                }
                ModelErrorKind::Empty if empty < MAX_EMPTY => empty += 1,
                ModelErrorKind::Empty | ModelErrorKind::Transient => {
                    return Err(Fault::new("model_error", error.message).into());
                }
                ModelErrorKind::GivenUp | ModelErrorKind::Fatal => {
                    return Err(Fault::new("model_error", error.message).fatal().into());
                }
            }
        }
    }

    /// Adds a reply's usage and text to the record.
    fn count(&mut self, record: &mut StepRecord, reply: &Reply, estimated_input: u64) {
        let estimate = || Usage::estimated(estimated_input, reply.message().estimated_tokens());
        self.spend(record, reply.wasted, None, reply.model.as_deref());
        self.spend(
            record,
            reply.usage.unwrap_or_else(estimate),
            reply.cost_usd,
            reply.model.as_deref(),
        );
        let used = record.facts.usage.unwrap_or_default();
        record.facts.text = Text::Known(reply.text.clone());
        record.facts.calls = calls_hash(reply);
        if !reply.text.trim().is_empty() {
            self.run.last_text = Some(reply.text.clone());
        }
        let asked = self
            .parts
            .model
            .as_deref()
            .map(|model| model.name().to_owned());
        record.model = Some(ModelTurn {
            text: reply.text.clone(),
            tool_calls: reply.tool_calls.clone(),
            fields: reply.fields.clone(),
            finish_reason: reply.finish_reason.clone(),
            model: reply.model.clone().or(asked).unwrap_or_default(),
            usage: used,
        });
        let output = Output {
            raw_output: &reply.text,
            tool_calls: &reply.tool_calls,
            fields: &reply.fields,
            finish_reason: reply.finish_reason.as_deref(),
            attempts: reply.attempts,
            usage: used,
            cost_usd: record.facts.cost_usd,
            cost_estimated: record.facts.cost_estimated,
        };
        self.emit(record.step, "DECIDE", "model_output", output);
        self.tell(&Moment::Text {
            step: record.step,
            text: &reply.text,
        });
    }

    /// Adds the tokens of a request and their cost. The cost is the reported one, or else an
    /// estimate from the prices.
    fn spend(
        &mut self,
        record: &mut StepRecord,
        usage: Usage,
        told: Option<f64>,
        model: Option<&str>,
    ) {
        if usage == Usage::default() && told.is_none() {
            return;
        }
        let told = told.filter(|cost| cost.is_finite() && *cost >= 0.0);
        let asked = self.parts.model.as_deref().map(|model| model.name());
        let mut names = [model, asked].into_iter().flatten();
        let estimated =
            || names.find_map(|name| self.parts.prices.cost_of_request(name, usage.into()));
        let facts = &mut record.facts;
        let cost = told.or_else(estimated);
        facts.cost_estimated |= told.is_none() && cost.is_some();
        let before = facts.usage.unwrap_or_default();
        facts.cost_usd = match facts.cost_usd {
            None if before == Usage::default() => cost,
            // One call without a cost makes the step's cost unknown.
            spent => spent.zip(cost).map(|(spent, cost)| spent + cost),
        };
        let usage = before.plus(usage);
        facts.usage = Some(usage);
        self.run.spent = Spent {
            usage,
            cost_usd: facts.cost_usd,
            cost_estimated: facts.cost_estimated,
        };
    }

    /// Parses the decision from a reply.
    fn read(&self, reply: &Reply) -> Parsed {
        match &self.parts.parser {
            // Some servers convert calls written as text into native ones.
            _ if !reply.tool_calls.is_empty() => parse::native(&reply.tool_calls, &reply.text),
            Some(parser) => parser.parse(&reply.text),
            None => {
                let answer = parse::after_reasoning(&reply.text).trim().to_owned();
                Parsed {
                    decision: Some(Decision::final_answer(answer)),
                    diagnostics: None,
                }
            }
        }
    }

    fn record_reply(&mut self, step: u64, reply: &Reply, parsed: &Parsed) {
        let parser = self
            .parts
            .parser
            .as_deref()
            .filter(|_| reply.tool_calls.is_empty());
        let result = ParserResult {
            parser: parser.map_or("native", |parser| parser.name()),
            parsed_mode: parsed
                .decision
                .as_ref()
                .map(|decision| decision.mode.as_str()),
            has_diagnostics: parsed.diagnostics.is_some(),
        };
        self.emit(step, "DECIDE", "parser_result", result);
    }
}
