//! Which decision does a model's text stand for? One that is written there, or none.
//!
//! Knows three grammars for text ([`ReAct`], [`JsonText`], [`XmlText`]) and native tool calls ([`native()`]); knows no
//! model, no tool and no loop. What a model meant is not guessed: where a text has to be understood rather than read,
//! it is refused, and [`Diagnostics::repair_instruction`] asks the model for another one. Plain text is no answer.
//!
//! | what is written | is |
//! |---|---|
//! | a code fence, or other text, around a JSON object or decision element | left out |
//! | `<think>..</think>` in front | left out without a word, as reasoning models write it always |
//! | text in front of the first ReAct label | the thought |
//! | `'single'`, `"""triple"""` and `r"raw"` strings, `True`, `False`, `None`, `+1`, `.5` in JSON | read as Python reads them |
//! | `\'`, or a backslash before a letter that is no escape, in a JSON string | read as Python reads it |
//! | line breaks and control characters inside a string | kept |
//! | a comma before a closing bracket | dropped |
//! | `)`, `]`, `}`, `</action>`, `</decision>` missing at the end, after a whole value | added |
//! | an integer beyond 64 bits, or a number beyond a double's range | a string with the same digits |
//! | `<` and `&` in an XML value | themselves |
//! | a ReAct Observation after an action, and all after it | ignored: the model imagines its result |
//! | a key, element, attribute or remark with no meaning here | ignored, and named in the details |
//! | *a string, number or key that breaks off, or a comma at the end* | refused: half a command is another command |
//! | *an action that breaks off before its arguments, `<think>` in front without its end* | refused |
//! | *two decisions, two answers, an action and an answer without a mode, a key twice* | refused: which one counts? |
//! | *arguments that are not an object, have no name, or stand where they would be lost* | refused |
//! | *text without quotes, keys without quotes, a comma or colon missing inside* | refused |
//! | *an answer that is not a text; a mode other than act, wait, final* | refused |
//! | *`\x`, `\1` and the like in a JSON string, half of a surrogate pair, `NaN`* | refused |
//! | *values nested deeper than 64* | refused |
//!
//! The first half is a warning beside the decision, but for `<`, `&`, `<think>` and text in front of a label, which
//! are part of the grammar; the second half is an error without one. Of a mode and a field that disagree, the mode
//! counts and the field is ignored. Each parser reads a text once from front to back, and what it returns is not
//! larger than the text times a small constant.

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

pub use diagnostics::{Diagnostics, Extraction, Parsed, Severity, Trouble};
pub(super) use draft::after_reasoning;
pub use json::JsonText;
pub use native::native;
pub use react::ReAct;
pub use xml::XmlText;

use super::ToolSpec;

/// Reads decisions out of a model's text.
pub trait Parser: Send + Sync {
    /// The parser's name, as recorded.
    fn name(&self) -> &'static str;

    /// The grammar it holds a text to, as recorded.
    fn contract(&self) -> &'static str;

    /// Reads `text`.
    fn parse(&self, text: &str) -> Parsed;

    /// How a model must write, with the tools it may call; for the system message.
    fn instructions(&self, tools: &[ToolSpec]) -> String;
}

/// The tools with the schemas of their arguments, a line each.
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
        // Writing into a string cannot fail.
        let _ = write!(list, "\n- {name}: {}\n  {parameters}", description.trim());
    }
    list
}
