//! How does a model come to a decision? Prompt, request, reply, parser; what does not fit or cannot be read is tried
//! again within bounds.

use serde::Serialize;

use super::agent::{Agent, Prompt};
use super::cancel::caught_now;
use super::chat::{Message, ModelError, ModelErrorKind, Reply, Request, ToolSpec};
use super::decision::{Action, Decision};
use super::history::{History, HistoryPolicy};
use super::parse::{self, Parsed, Parser};
use super::result::{ModelTurn, StepRecord};
use super::run::Session;
use super::step::{Fault, NoDecision, cx, said};
use super::toolbox::ToolResult;
use crate::stop::Usage;

/// How often a request that does not fit is made shorter.
const MAX_SHRINKS: u32 = 3;
/// How often an empty reply is asked for again.
const MAX_EMPTY: u32 = 1;

/// What a model was told and said so far.
pub(super) struct Conversation {
    history: History,
    policy: HistoryPolicy,
    /// Empty where calls are written as text.
    tools: Vec<ToolSpec>,
    /// How to write a decision; `None` where calls are native.
    instructions: Option<String>,
    system: Option<String>,
    /// A critic's prompt instead of the agent's.
    replacement: Option<String>,
}

impl Conversation {
    pub(super) fn new(parser: Option<&dyn Parser>, tools: Vec<ToolSpec>, policy: HistoryPolicy) -> Self {
        let instructions = parser.map(|parser| parser.instructions(&tools));
        let tools = if parser.is_some() { Vec::new() } else { tools };
        Self { history: History::default(), policy, tools, instructions, system: None, replacement: None }
    }

    pub(super) fn replace_prompt(&mut self, prompt: Option<String>) {
        self.replacement = prompt;
    }

    /// Takes in what the actions gave. A native call is answered under its id, others in words.
    pub(super) fn results(&mut self, actions: &[Action], results: &[ToolResult]) {
        if self.system.is_none() {
            // No model was asked so far.
            return;
        }
        let native = self.instructions.is_none();
        let told = actions.iter().zip(results).map(|(action, result)| match &action.id {
            Some(id) if native => Message::tool(id, result.text()),
            _ => Message::user(format!("{} gave: {}", action.name, result.text())),
        });
        self.history.extend(told);
    }

    /// The system message, where it is new or changed.
    fn instruct(&mut self, prompt: Option<String>) -> Option<Message> {
        let parts = [prompt, self.instructions.clone()].into_iter().flatten();
        let system = parts.filter(|part| !part.trim().is_empty()).collect::<Vec<_>>().join("\n\n");
        let is_new = self.system.as_deref() != Some(&*system);
        self.system = Some(system.clone());
        (is_new && !system.is_empty()).then(|| Message::system(system))
    }

    fn request(&self, new: &[Message]) -> Request {
        let system = self.system.iter().filter(|system| !system.is_empty()).map(Message::system);
        let messages = system.chain(self.history.select(self.policy)).chain(new.iter().cloned()).collect();
        Request { messages, tools: self.tools.clone() }
    }
}

#[derive(Serialize)]
struct Input<'a> {
    history_message_count: usize,
    /// What is new since the request before; the rest stands in the steps before.
    messages: Vec<&'a Message>,
    estimated_tokens: u64,
}

#[derive(Serialize)]
struct Output<'a> {
    raw_output: &'a str,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    tool_calls: &'a [super::chat::ToolCall],
    #[serde(skip_serializing_if = "Option::is_none")]
    finish_reason: Option<&'a str>,
    attempts: u32,
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
    pub(super) async fn ask_model(&mut self, record: &mut StepRecord) -> Result<Decision, NoDecision> {
        if self.parts.model.is_none() {
            let wrong = "the agent decided nothing, and the engine has no model to ask";
            return Err(Fault::new("agent_error", wrong).fatal().into());
        }
        let new = self.tell(record)?;
        let reply = self.request(record, &new).await?;
        let parsed = self.read(record, &reply);
        let mut turn: Vec<Message> =
            new.into_iter().filter(|message| message.role != super::chat::Role::System).collect();
        turn.push(Message { tool_calls: reply.tool_calls.clone(), ..Message::assistant(reply.text.clone()) });
        if parsed.decision.is_none() && self.talk.instructions.is_none() {
            // A call without an answer makes the next request one that many servers refuse.
            let unread =
                reply.tool_calls.iter().map(|call| Message::tool(&call.id, "error: the call could not be read"));
            turn.extend(unread);
        }
        self.talk.history.push(turn);
        record.diagnostics = parsed.diagnostics;
        match (parsed.decision, &record.diagnostics) {
            (Some(decision), _) => Ok(decision),
            (None, Some(diagnostics)) => {
                let fault = Fault::new("parse_error", diagnostics.summary.clone());
                Err(Fault { advice: Some(diagnostics.repair_instruction.clone()), ..fault }.into())
            }
            (None, None) => Err(Fault::new("parse_error", "the reply holds no decision").into()),
        }
    }

    /// What the model is told in this step.
    fn tell(&mut self, record: &StepRecord) -> Result<Vec<Message>, NoDecision> {
        let cx = cx(&self.run, &self.parts, &self.last, &self.feedback, record);
        let prompt = caught_now(|| self.agent.prepare(&self.state, &cx));
        let prompt = prompt.map_err(|text| Fault::new("panic", text).fatal())?;
        let Prompt { system, user } = prompt.map_err(|error| Fault {
            category: "agent_error",
            message: error.message,
            recoverable: error.recoverable,
            advice: None,
        })?;
        let user = self.talk.replacement.take().or(user);
        let mut new: Vec<Message> = self.talk.instruct(system).into_iter().collect();
        let told = user.into_iter().chain(self.feedback.iter().cloned()).collect::<Vec<_>>().join("\n\n");
        if !told.is_empty() {
            new.push(Message::user(told));
        } else if self.last.is_empty() {
            // Most servers refuse a conversation that ends with the assistant.
            new.push(Message::user("Go on."));
        }
        Ok(new)
    }

    async fn request(&mut self, record: &mut StepRecord, new: &[Message]) -> Result<Reply, NoDecision> {
        let (mut shrinks, mut empty) = (0, 0);
        loop {
            let without_system: Vec<_> =
                new.iter().filter(|message| message.role != super::chat::Role::System).cloned().collect();
            let request = self.talk.request(&without_system);
            let estimated: u64 = request.messages.iter().map(Message::estimated_tokens).sum();
            let older = request.messages.len() - new.len().min(request.messages.len());
            let input =
                Input { history_message_count: older, messages: new.iter().collect(), estimated_tokens: estimated };
            self.emit(record.step, "DECIDE", "model_input", input);
            let Some(model) = self.parts.model.as_deref() else { return Err(NoDecision::Cancelled) };
            let too_long = model.context_window().filter(|window| estimated > *window);
            let answered = match too_long {
                Some(window) => {
                    let wrong = format!("about {estimated} tokens do not fit the model's window of {window}");
                    Err(ModelError::new(ModelErrorKind::Overflow, wrong))
                }
                None => self.parts.cancel.guard(model.complete(&request, &*self.parts.heard)).await?,
            };
            let error = match answered {
                Ok(reply) if reply.text.trim().is_empty() && reply.tool_calls.is_empty() => {
                    self.count(record, &reply, estimated);
                    ModelError::new(ModelErrorKind::Empty, "the reply is empty: neither text nor calls")
                }
                Ok(reply) => {
                    self.count(record, &reply, estimated);
                    return Ok(reply);
                }
                Err(error) => error,
            };
            match error.kind {
                ModelErrorKind::Overflow => {
                    let before = request.messages.len();
                    if shrinks == MAX_SHRINKS || !self.talk.history.shrink() {
                        return Err(NoDecision::Overflow(error.message));
                    }
                    shrinks += 1;
                    let after = self.talk.request(&without_system).messages.len();
                    let compacted =
                        Compacted { messages_before: before, messages_after: after, reason: &error.message };
                    self.emit(record.step, "COMPACT", "reactive_compact", compacted);
                }
                ModelErrorKind::Empty if empty < MAX_EMPTY => empty += 1,
                ModelErrorKind::Empty | ModelErrorKind::Transient => {
                    return Err(Fault::new("model_error", error.message).into());
                }
                ModelErrorKind::Fatal => return Err(Fault::new("model_error", error.message).fatal().into()),
            }
        }
    }

    /// Takes a reply's cost and text into the record.
    fn count(&mut self, record: &mut StepRecord, reply: &Reply, estimated_input: u64) {
        let estimate = || Usage {
            input: estimated_input,
            output: Message { tool_calls: reply.tool_calls.clone(), ..Message::assistant(&*reply.text) }
                .estimated_tokens(),
            estimated: true,
        };
        let used = record.facts.usage.unwrap_or_default().plus(reply.usage.unwrap_or_else(estimate));
        record.facts.usage = Some(used);
        record.facts.text = said(&reply.text);
        if !reply.text.trim().is_empty() {
            self.run.last_text = Some(reply.text.clone());
        }
        let asked = self.parts.model.as_deref().map(|model| model.name().to_owned());
        record.model = Some(ModelTurn {
            text: reply.text.clone(),
            tool_calls: reply.tool_calls.clone(),
            finish_reason: reply.finish_reason.clone(),
            model: reply.model.clone().or(asked).unwrap_or_default(),
            usage: used,
            tokens_total: self.run.stats.tokens.plus(used).total(),
        });
        let output = Output {
            raw_output: &reply.text,
            tool_calls: &reply.tool_calls,
            finish_reason: reply.finish_reason.as_deref(),
            attempts: reply.attempts,
        };
        self.emit(record.step, "DECIDE", "model_output", output);
    }

    /// Reads a decision out of a reply.
    fn read(&mut self, record: &StepRecord, reply: &Reply) -> Parsed {
        let parser = self.parts.parser.as_deref();
        let parsed = match parser {
            // Some servers turn calls written as text into native ones.
            _ if !reply.tool_calls.is_empty() => parse::native(&reply.tool_calls, &reply.text),
            Some(parser) => parser.parse(&reply.text),
            None => {
                let answer = parse::after_reasoning(&reply.text).trim().to_owned();
                Parsed { decision: Some(Decision::final_answer(answer)), diagnostics: None }
            }
        };
        let result = ParserResult {
            parser: parser.filter(|_| reply.tool_calls.is_empty()).map_or("native", |parser| parser.name()),
            parsed_mode: parsed.decision.as_ref().map(|decision| decision.mode.as_str()),
            has_diagnostics: parsed.diagnostics.is_some(),
        };
        self.emit(record.step, "DECIDE", "parser_result", result);
        parsed
    }
}
