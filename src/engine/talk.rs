//! Keeps the conversation between an agent and its model in a form that strict servers accept:
//! every call has an id, and every call has a result.

use super::chat::{Message, Reply, Request, Role, ToolCall, ToolSpec};
use super::decision::Action;
use super::history::{History, HistoryPolicy};
use super::parse::Parser;
use super::toolbox::ToolResult;

/// The messages to and from the model so far.
pub(super) struct Conversation {
    history: History,
    /// Empty if calls are written as text.
    tools: Vec<ToolSpec>,
    /// Estimated tokens of the tools in each request.
    tools_tokens: u64,
    /// Instructions on how to write a decision. `None` if calls are native.
    instructions: Option<String>,
    system: Option<String>,
    /// A critic's replacement for the agent's prompt.
    replacement: Option<String>,
    /// Results of actions before the first request to the model.
    early: Vec<Message>,
    /// The model's texts, oldest first. Replies without text are skipped.
    texts: Vec<String>,
    /// The ids of the newest calls that don't have a result yet.
    open: Vec<String>,
}

/// One part of a conversation.
#[derive(Debug)]
pub(super) enum Exchange {
    /// The new messages of a request.
    Asked(Vec<Message>),
    /// Older turns were dropped.
    Shortened,
    /// The accepted reply.
    Answered(Box<Reply>),
}

impl Conversation {
    pub(super) fn new(parser: Option<&dyn Parser>, tools: Vec<ToolSpec>) -> Self {
        let instructions = parser.map(|parser| parser.instructions(&tools));
        let tools = if parser.is_some() { Vec::new() } else { tools };
        let bytes: usize = tools
            .iter()
            .map(|tool| {
                tool.name.len() + tool.description.len() + tool.parameters.to_string().len()
            })
            .sum();
        Self {
            history: History::default(),
            tools,
            tools_tokens: (bytes as u64).div_ceil(4),
            instructions,
            system: None,
            replacement: None,
            early: Vec::new(),
            texts: Vec::new(),
            open: Vec::new(),
        }
    }

    /// Returns the model's texts so far, oldest first.
    pub(super) fn texts(&self) -> &[String] {
        &self.texts
    }

    /// Returns whether the model was called before.
    pub(super) fn has_begun(&self) -> bool {
        !self.history.is_empty()
    }

    pub(super) fn replace_prompt(&mut self, prompt: Option<String>) {
        self.replacement = prompt;
    }

    /// Returns the critic's prompt, which is kept until a request with it has been answered.
    pub(super) fn replacement(&self) -> Option<String> {
        self.replacement.clone()
    }

    /// Adds the results of actions. Results of the model's calls are sent under their ids, others
    /// as text.
    pub(super) fn results(&mut self, actions: &[Action], results: &[ToolResult]) {
        let mut words = Vec::new();
        let mut answers = Vec::new();
        for (action, result) in actions.iter().zip(results) {
            let open = action
                .id
                .as_ref()
                .and_then(|id| self.open.iter().position(|open| open == id));
            match open {
                Some(at) => answers.push(Message::tool(self.open.swap_remove(at), result.text())),
                None => words.push(Message::user(format!(
                    "{} gave: {}",
                    action.name,
                    result.text()
                ))),
            }
        }
        // Results must directly follow their calls.
        self.add(answers);
        self.close();
        self.add(words);
    }

    /// Adds results for the calls that weren't executed.
    pub(super) fn close(&mut self) {
        let answers = self
            .open
            .drain(..)
            .map(|id| Message::tool(id, "error: the call was not carried out"));
        let answers: Vec<_> = answers.collect();
        self.add(answers);
    }

    fn add(&mut self, messages: Vec<Message>) {
        if self.has_begun() {
            self.history.extend(messages);
        } else {
            self.early.extend(messages);
        }
    }

    /// Returns the new messages for the model: the system message if it changed, what happened
    /// before the first request, and `user`.
    pub(super) fn add_turn(&mut self, system: Option<String>, user: String) -> Vec<Message> {
        self.close();
        let mut new: Vec<Message> = self.instruct(system).into_iter().collect();
        let ends_with_user = self
            .history
            .last()
            .is_some_and(|last| last.role != Role::Assistant);
        if !user.is_empty() {
            new.push(Message::user(user));
        } else if !ends_with_user && self.early.is_empty() {
            // Most servers refuse an empty conversation or one that ends with the assistant.
            new.push(Message::user("Go on."));
        }
        new.extend(self.early.iter().cloned());
        new
    }

    /// Returns the system message if it is new or changed.
    fn instruct(&mut self, prompt: Option<String>) -> Option<Message> {
        let parts = [prompt, self.instructions.clone()].into_iter().flatten();
        let system = parts
            .filter(|part| !part.trim().is_empty())
            .collect::<Vec<_>>()
            .join("\n\n");
        let is_new = self.system.as_deref() != Some(&*system);
        self.system = Some(system.clone());
        (is_new && !system.is_empty()).then(|| Message::system(system))
    }

    /// Returns a request with `new` after the messages that the policy selects, and its estimated
    /// tokens.
    pub(super) fn request(&self, new: &[Message], policy: &dyn HistoryPolicy) -> (Request, u64) {
        let system = self
            .system
            .iter()
            .filter(|system| !system.is_empty())
            .map(Message::system);
        let new = new
            .iter()
            .filter(|message| message.role != Role::System)
            .cloned();
        let messages: Vec<_> = system
            .chain(policy.select(&self.history.turns()))
            .chain(new)
            .collect();
        let tokens =
            messages.iter().map(Message::estimated_tokens).sum::<u64>() + self.tools_tokens;
        (
            Request {
                messages,
                tools: self.tools.clone(),
                time_left: None,
            },
            tokens,
        )
    }

    /// Replays the messages of an earlier step.
    pub(super) fn retell(&mut self, step: u64, said: Vec<Exchange>) {
        let mut new = Vec::new();
        for said in said {
            match said {
                Exchange::Asked(messages) => {
                    self.close();
                    let system = messages.iter().find(|message| message.role == Role::System);
                    self.system = system
                        .map(|system| system.content.clone())
                        .or(self.system.take());
                    new = messages;
                }
                Exchange::Shortened => drop(self.shrink()),
                Exchange::Answered(mut reply) => {
                    with_ids(step, &mut reply.tool_calls);
                    self.push(std::mem::take(&mut new), &reply);
                }
            }
        }
    }

    /// Shortens future requests. Returns false if that isn't possible.
    pub(super) fn shrink(&mut self) -> bool {
        self.history.shrink()
    }

    /// Adds a turn: the new messages and the model's reply.
    pub(super) fn push(&mut self, new: Vec<Message>, reply: &Reply) {
        let mut turn: Vec<_> = new
            .into_iter()
            .filter(|message| message.role != Role::System)
            .collect();
        turn.push(reply.message());
        self.history.push(turn);
        if !reply.text.trim().is_empty() {
            self.texts.push(reply.text.clone());
        }
        self.open = reply
            .tool_calls
            .iter()
            .map(|call| call.id.clone())
            .collect();
        self.early.clear();
        self.replacement = None;
    }
}

/// Sets an id for each call without a unique one.
pub(super) fn with_ids(step: u64, calls: &mut [ToolCall]) {
    let mut seen = std::collections::BTreeSet::new();
    for (place, call) in calls.iter_mut().enumerate() {
        if call.id.is_empty() || !seen.insert(call.id.clone()) {
            call.id = format!("call_{step}_{place}");
            seen.insert(call.id.clone());
        }
    }
}
