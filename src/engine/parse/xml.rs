//! Parses a decision from a `<decision>` element in a text.
//!
//! XML written by a model contains code, and code contains `<` and `&`. A conforming XML parser
//! stops there, including the available crates. For this reason, this module has its own grammar,
//! in which a value is everything up to its closing tag:
//!
//! ```text
//! text     = ... "<decision" attributes ">" { item } "</decision>" ...
//! item     = thought | reflection | answer | action | <actions> { action } </actions> | comment | ignored
//! thought  = "<think>" value "</think>"                        also thought, thinking, rationale
//! answer   = "<final_answer>" value "</final_answer>"          also final, answer
//! action   = "<action name=..>" { arg | comment } "</action>"  also tool, call
//! arg      = "<arg name=..>" value "</arg>"
//! value    = { character | "<![CDATA[" characters "]]>" | "&amp;" | "&lt;" | "&gt;" | "&quot;" | "&apos;" | "&#N;" }
//! ```
//!
//! Any other `<` or `&` in a value is kept. A value that starts with a line break is a block: that
//! line break and the last one are removed, so that a file's lines can be written between the tags
//! unchanged. An argument is text, or JSON with `type="json"`. An unknown element is ignored with
//! its content. Inside an action, it might be an argument and is refused.

use serde_json::{Map, Value};

use super::diagnostics::{
    Contract, Extraction, Fault, Parsed, ParsedDecision, Refusal, Repairs, Trouble, snippet,
};
use super::draft::{Draft, Word, after_reasoning, is_fence};
use super::literal::{Reader, consumed};
use super::markup::{Cursor, Next, Tag, block};
use super::{Parser, tool_list};
use crate::engine::{Action, ToolSpec};

const CONTRACT: Contract = Contract {
    parser: "xml",
    id: "xml_decision_v1",
    shape: r#"<decision mode="act"><think>...</think><action name="tool"><arg name="key">value</arg></action></decision> or <decision mode="final"><think>...</think><final_answer>...</final_answer></decision>"#,
    salvaged: Trouble::SalvagedXmlPayload,
};

/// Parses `<decision>` with `<think>`, `<action name="tool">` and `<final_answer>`.
#[derive(Debug, Clone, Copy, Default)]
pub struct XmlText;

impl Parser for XmlText {
    fn name(&self) -> &'static str {
        CONTRACT.parser
    }

    fn contract(&self) -> &'static str {
        CONTRACT.id
    }

    fn parse(&self, text: &str) -> Parsed {
        CONTRACT.report(text, decide(text))
    }

    fn instructions(&self, tools: &[ToolSpec]) -> String {
        let tools = tool_list(tools);
        format!(
            r#"Answer with one decision element and nothing else. To call a tool:
<decision mode="act"><think>why</think>
<action name="tool"><arg name="key">value</arg><arg name="other" type="json">1</arg></action>
</decision>
A value is plain text; numbers, true, false, null, lists and objects are JSON, with type="json". To call several
in order, write several action elements. When the task is done:
<decision mode="final"><think>why</think><final_answer>the answer</final_answer></decision>
To do nothing in this step: <decision mode="wait"><think>why</think></decision>

{tools}"#
        )
    }
}

fn decide(whole: &str) -> Result<ParsedDecision, Refusal> {
    if whole.trim().is_empty() {
        return Err(Contract::empty());
    }
    let text = after_reasoning(whole);
    let Some(cursor) = Cursor::find(text, "decision") else {
        let summary = "There is no decision element.";
        return Err(Refusal::new(
            Trouble::InvalidXml,
            summary,
            "Give one decision element and nothing else.",
        ));
    };
    let before = consumed(text, cursor.rest);
    let mut scan = Scan {
        cursor,
        whole,
        draft: Draft::default(),
        repairs: Repairs::default(),
    };
    scan.decision()?;
    let after = scan.cursor.rest;
    if Cursor::find(after, "decision").is_some() {
        let fix = "Give one decision element.";
        return Err(Refusal::new(
            Trouble::InvalidXml,
            "There is more than one decision element.",
            fix,
        ));
    }
    if !before.trim().is_empty() || !after.trim().is_empty() {
        scan.repairs.note(if is_fence(before, after) {
            Extraction::Fenced
        } else {
            Extraction::Extracted
        });
    }
    scan.draft.settle(scan.repairs)
}

struct Scan<'t> {
    cursor: Cursor<'t>,
    whole: &'t str,
    draft: Draft,
    repairs: Repairs,
}

impl<'t> Scan<'t> {
    fn decision(&mut self) -> Result<(), Refusal> {
        let decision = self.cursor.open().map_err(|fault| self.broken(&fault))?;
        for (key, value) in decision.attributes {
            match Word::of(key) {
                Some(Word::Mode) => self.draft.mode = Some(value),
                _ => self.draft.ignored.note("the attribute", key),
            }
        }
        if decision.empty {
            return Ok(());
        }
        loop {
            let (beside, next) = self.next()?;
            if !is_layout(beside) {
                self.draft.ignored.note("the text", beside);
            }
            match next {
                Next::Comment => {}
                Next::Open(tag) => self.item(tag)?,
                Next::Close(name) if name.eq_ignore_ascii_case("decision") => return Ok(()),
                Next::Close(name) if name.eq_ignore_ascii_case("actions") => {}
                Next::Close(name) => self.draft.ignored.note("the closing tag", name),
                Next::End => {
                    self.repairs.note(Extraction::Truncated);
                    return Ok(());
                }
            }
        }
    }

    fn item(&mut self, tag: Tag<'t>) -> Result<(), Refusal> {
        match Word::of(tag.name) {
            _ if tag.name.eq_ignore_ascii_case("actions") => {}
            Some(Word::Action) => return self.action(tag),
            Some(Word::Thought) => {
                let value = self.value(&tag)?;
                self.draft.think(&value);
            }
            Some(Word::Reflection) => {
                let value = self.value(&tag)?;
                self.draft.reflect(&value);
            }
            Some(Word::Answer) => {
                let value = self.value(&tag)?;
                self.draft.answer(&value)?;
            }
            _ if tag.name.eq_ignore_ascii_case("decision") => {
                let fix = "Give one decision element.";
                return Err(Refusal::new(
                    Trouble::InvalidXml,
                    "A decision is nested inside a decision.",
                    fix,
                ));
            }
            _ => {
                self.draft.ignored.note("the element", tag.name);
                self.value(&tag)?;
            }
        }
        Ok(())
    }

    fn action(&mut self, mut tag: Tag<'t>) -> Result<(), Refusal> {
        let path = format!("actions[{}]", self.draft.actions.len());
        let name = tag
            .attributes
            .remove("name")
            .map(|name| name.trim().to_owned())
            .filter(|name| !name.is_empty());
        let Some(name) = name else {
            let refusal = Refusal::new(
                Trouble::MissingRequiredField,
                "The action has no name.",
                FIX,
            );
            return Err(refusal.at(format!("{path}.name")));
        };
        tag.attributes
            .keys()
            .for_each(|key| self.draft.ignored.note("the attribute", key));
        let args = if tag.empty {
            Map::new()
        } else {
            self.arguments(tag.name, &name, &path)?
        };
        self.draft.actions.push(Action {
            name,
            args,
            id: None,
        });
        Ok(())
    }

    /// Parses the arguments up to the closing `tag` of the action `name`.
    fn arguments(
        &mut self,
        tag: &str,
        name: &str,
        path: &str,
    ) -> Result<Map<String, Value>, Refusal> {
        let mut args = Map::new();
        loop {
            let start = self.cursor;
            let (beside, next) = self.next()?;
            let wrong = match next {
                _ if !is_layout(beside) => format!("the text {} outside an arg", snippet(beside)),
                Next::Comment => continue,
                Next::Open(arg) if arg.name.eq_ignore_ascii_case("arg") => {
                    let path = format!("{path}.args");
                    self.argument(arg, &mut args)
                        .map_err(|refusal| refusal.at(path))?;
                    continue;
                }
                Next::Open(other) => format!("the element {}", snippet(other.name)),
                Next::Close(close) if close.eq_ignore_ascii_case(tag) => return Ok(args),
                Next::Close(close) if close.eq_ignore_ascii_case("decision") => {
                    self.cursor = start;
                    self.repairs.note(Extraction::Truncated);
                    return Ok(args);
                }
                Next::Close(close) => format!("the closing tag {}", snippet(close)),
                // The text may have ended before the arguments.
                Next::End if args.is_empty() => "nothing, and then the end".to_owned(),
                Next::End => {
                    self.repairs.note(Extraction::Truncated);
                    return Ok(args);
                }
            };
            let summary = format!("The action {} contains {wrong}.", snippet(name));
            return Err(Refusal::new(Trouble::InvalidActionSchema, summary, FIX).at(path));
        }
    }

    fn argument(&mut self, mut arg: Tag<'t>, args: &mut Map<String, Value>) -> Result<(), Refusal> {
        let wrong = |summary: String| Err(Refusal::new(Trouble::InvalidActionSchema, summary, FIX));
        let key = arg
            .attributes
            .remove("name")
            .map(|key| key.trim().to_owned())
            .filter(|key| !key.is_empty());
        let Some(key) = key else {
            return wrong("An argument has no name.".to_owned());
        };
        let text = self.value(&arg)?;
        let value = match arg.attributes.remove("type").as_deref() {
            None | Some("text" | "string") => Value::String(block(text)),
            Some("json") => {
                let mut reader = Reader::json(&text);
                let value = reader.value(0).map_err(|fault| {
                    let summary = format!("The argument {} is broken JSON.", snippet(&key));
                    Refusal::new(Trouble::InvalidActionSchema, summary, FIX)
                        .details(format!("{}.", fault.what))
                })?;
                if !reader.rest.trim().is_empty() {
                    return wrong(format!(
                        "The argument {} is more than one JSON value.",
                        snippet(&key)
                    ));
                }
                self.repairs.add(&reader.repairs);
                value
            }
            Some(other) => {
                return wrong(format!(
                    "There is no type {} of an argument.",
                    snippet(other)
                ));
            }
        };
        arg.attributes
            .keys()
            .for_each(|key| self.draft.ignored.note("the attribute", key));
        let twice = format!("The argument {} is given twice.", snippet(&key));
        if args.insert(key, value).is_some() {
            wrong(twice)
        } else {
            Ok(())
        }
    }

    fn value(&mut self, tag: &Tag<'t>) -> Result<String, Refusal> {
        if tag.empty {
            return Ok(String::new());
        }
        self.cursor
            .value(tag.name)
            .map_err(|fault| self.broken(&fault))
    }

    /// Returns the text up to the next tag, and the tag.
    fn next(&mut self) -> Result<(&'t str, Next<'t>), Refusal> {
        self.cursor.next().map_err(|fault| self.broken(&fault))
    }

    fn broken(&self, fault: &Fault) -> Refusal {
        Refusal::broken(
            Trouble::InvalidXml,
            "The decision element is broken.",
            fault,
            self.whole,
        )
    }
}

/// Returns whether text next to the elements is only layout or the rest of a code fence.
fn is_layout(text: &str) -> bool {
    text.chars()
        .all(|letter| letter.is_whitespace() || letter == '`')
}

const FIX: &str =
    r#"Write the action as <action name="tool"><arg name="key">value</arg></action>."#;
