//! Parses decisions from a model's text.
//!
//! Supports three text grammars ([`ReAct`], [`JsonText`], [`XmlText`]) and native tool calls.
//! Independent of models, tools and the engine's loop. A parser never guesses what
//! a model meant: an ambiguous text is refused, and [`Diagnostics::repair_instruction`] asks the
//! model for a new one. Plain text isn't an answer.
//!
//! | input | result |
//! |---|---|
//! | a code fence, or other text, around a JSON object or decision element | removed |
//! | `<think>..</think>` at the start | removed without a warning, because reasoning models always write it |
//! | text before the first ReAct label | the thought |
//! | `'single'`, `"""triple"""` and `r"raw"` strings, `True`, `False`, `None`, `+1`, `.5` in JSON | parsed as in Python |
//! | `\'`, or a backslash before a letter that isn't an escape, in a JSON string | parsed as in Python |
//! | line breaks and control characters inside a string | kept |
//! | a comma before a closing bracket | removed |
//! | `)`, `]`, `}`, `</action>`, `</decision>` missing at the end, after a complete value | added |
//! | an integer beyond 64 bits, or a number beyond the range of a double | a string with the same digits |
//! | `<` and `&` in an XML value | kept |
//! | a ReAct Observation after an action, and everything after it | ignored, because the model made up the result |
//! | a key, element, attribute or remark without a meaning | ignored, and listed in the details |
//! | *a truncated string, number or key, or a comma at the end* | refused: half a command is a different command |
//! | *an action that ends before its arguments, a leading `<think>` without its end* | refused |
//! | *two decisions, two answers, an action and an answer without a mode, a repeated key* | refused as ambiguous |
//! | *arguments that aren't an object, have no name, or are in a place where they would be lost* | refused |
//! | *text without quotes, keys without quotes, a missing comma or colon inside* | refused |
//! | *an answer that isn't text; a mode other than act, wait, final* | refused |
//! | *`\x`, `\1` and the like in a JSON string, half of a surrogate pair, `NaN`* | refused |
//! | *values nested deeper than 64* | refused |
//!
//! The first half of the table gives a decision with a warning. Exceptions are `<`, `&`, `<think>`
//! and text before a label, which are part of the grammar and give no warning. The second half, in
//! italics, gives an error and no decision. If a mode and a field disagree, the mode counts and the
//! field is ignored. Each parser reads a text once from start to end. The size of its result is at
//! most the size of the text times a small constant.

mod diagnostics;
mod draft;
mod json;
mod literal;
mod markup;
mod native;
mod react;
#[cfg(test)]
mod tests;
mod xml;

use std::fmt::Write as _;

pub use diagnostics::{Diagnostics, Parsed};
#[cfg(test)]
pub(crate) use diagnostics::{Extraction, Severity, Trouble};
pub(super) use draft::after_reasoning;
pub use json::JsonText;
// The fuzz targets call it.
#[doc(hidden)]
pub use native::native;
pub use react::ReAct;
pub use xml::XmlText;

use super::ToolSpec;

/// Parses decisions from a model's text.
pub trait Parser: Send + Sync {
    /// Returns the parser's name, as recorded.
    fn name(&self) -> &'static str;

    /// Returns the id of the parser's grammar, as recorded.
    fn contract(&self) -> &'static str;

    /// Parses `text`.
    fn parse(&self, text: &str) -> Parsed;

    /// Returns instructions for the system message: how the model must write, and which tools it
    /// may call.
    fn instructions(&self, tools: &[ToolSpec]) -> String;
}

/// Lists the tools with the schemas of their arguments.
fn tool_list(tools: &[ToolSpec]) -> String {
    if tools.is_empty() {
        return "There are no tools.".to_owned();
    }
    let mut list = "The tools, each with the JSON Schema of its arguments:".to_owned();
    for ToolSpec {
        name,
        description,
        parameters,
    } in tools
    {
        // Writing to a string can't fail.
        let _ = write!(list, "\n- {name}: {}\n  {parameters}", description.trim());
    }
    list
}
