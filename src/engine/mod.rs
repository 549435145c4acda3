//! How is a trace made? A loop that asks an agent, runs its tools, hears its critics and obeys its stop rules.
//!
//! Knows the model, the stop rules and the writing half of `trace`. It reads no trace, serves no page and talks to no
//! network: whoever has a client implements [`ChatModel`].

mod chat;
mod decision;
mod parse;
mod tool;

pub use chat::{ChatModel, Message, ModelError, ModelErrorKind, Reply, Request, Role, Scripted, ToolCall, ToolSpec};
pub use decision::{Action, Candidate, Choice, Decision, First, HighestScore, Mode, Selector};
pub use parse::{Code, Diagnostics, Extraction, JsonText, Parsed, Parser, ReAct, Severity, XmlText, native};
pub use tool::{Tool, ToolCx, ToolError, ToolLimits};
