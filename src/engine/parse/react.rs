//! Parses a decision from text with labeled blocks.
//!
//! Defines the labels and the form of a call. `literal` parses the values. The grammar:
//!
//! ```text
//! text   = [thought] { label block }
//! label  = line start, [ "*" "#" ">" ], name, [number], ":"     Thought, Reflection, Action, Action Input,
//!                                                               Observation, Final Answer
//! call   = name "(" [ key "=" value { "," key "=" value } [","] ] ")"
//! ```
//!
//! The block of an Action holds calls, one per line or separated by `;`. Alternatively it holds an
//! object with `name` and `args`, or just a name, with the arguments under Action Input. A label
//! inside a string is text, because a call is parsed before the next label is searched. A Final
//! Answer extends to the end of the text. An Observation after an action is made up by the model,
//! so the text ends there.

use serde_json::{Map, Value};

use super::diagnostics::{
    Contract, Extraction, Fault, Parsed, ParsedDecision, Refusal, Repairs, Trouble, snippet,
};
use super::draft::{Draft, Word, action, after_reasoning, arguments, is_fence};
use super::literal::{Reader, consumed, is_word};
use super::{Parser, tool_list};
use crate::engine::{Action, ToolSpec};

const CONTRACT: Contract = Contract {
    parser: "react",
    id: "react_text_v1",
    shape: "Thought: ...\nAction: tool(key=\"value\", other=1)\nor\nThought: ...\nFinal Answer: ...",
    salvaged: Trouble::SalvagedReactPayload,
};

/// Parses labeled text: `Thought:`, `Action: tool(key="value")`, `Final Answer:`.
#[derive(Debug, Clone, Copy, Default)]
pub struct ReAct;

impl Parser for ReAct {
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
            r#"Answer in labelled lines. To call a tool:
Thought: why
Action: tool(key="value", other=1)
Arguments are given by name, as Python literals: text in quotes (""" around several lines), numbers, True, False, None,
lists and dicts. To call several in order, write several Action lines. Then stop: the result comes in the next message.
When the task is done:
Thought: why
Final Answer: the answer

{tools}"#
        )
    }
}

fn decide(text: &str) -> Result<ParsedDecision, Refusal> {
    if text.trim().is_empty() {
        return Err(Contract::empty());
    }
    let mut scan = Scan {
        text,
        rest: after_reasoning(text),
        draft: Draft::default(),
        repairs: Repairs::default(),
    };
    let before = if label(scan.rest).is_some() {
        ""
    } else {
        scan.block()
    };
    if !is_fence(before, "") {
        // A prompt may end with the label of the thought, so that the reply starts inside the
        // thought.
        scan.draft.think(before);
    } else if !before.trim().is_empty() {
        scan.repairs.note(Extraction::Fenced);
    }
    while let Some((word, body)) = label(scan.rest) {
        scan.rest = body;
        match word {
            Word::Thought => {
                let block = scan.block();
                scan.draft.think(block);
            }
            Word::Reflection => {
                let block = scan.block();
                scan.draft.reflect(block);
            }
            Word::Answer => {
                scan.answer()?;
                break;
            }
            Word::Observation if !scan.draft.actions.is_empty() => {
                scan.draft.ignored.note("an imagined result", body);
                break;
            }
            Word::Action => scan.actions()?,
            Word::Input => {
                let summary = "An Action Input belongs to no action.";
                return Err(Refusal::new(Trouble::InvalidActionSchema, summary, FIX));
            }
            Word::Observation | Word::Mode => {
                let block = scan.block();
                scan.draft.ignored.note("the block", block);
            }
        }
    }
    scan.draft.settle(scan.repairs)
}

/// Parses the label at the start of a line. Returns its meaning and the text after the colon.
fn label(line: &str) -> Option<(Word, &str)> {
    let line = line.trim_start_matches([' ', '\t', '*', '#', '>']);
    let end = line.find(|letter: char| {
        !(letter.is_alphanumeric() || matches!(letter, ' ' | '_' | '-' | '*'))
    })?;
    let (name, after) = line.split_at_checked(end)?;
    let name = name
        .trim_end_matches('*')
        .trim_end_matches(|letter: char| letter.is_ascii_digit() || letter == ' ');
    let body = after.strip_prefix(':')?;
    Some((Word::of(name)?, body.strip_prefix("**").unwrap_or(body)))
}

struct Scan<'t> {
    text: &'t str,
    rest: &'t str,
    draft: Draft,
    repairs: Repairs,
}

impl<'t> Scan<'t> {
    /// Returns the text up to the next label or the end.
    fn block(&mut self) -> &'t str {
        let start = self.rest;
        loop {
            self.rest = self.rest.split_once('\n').map_or("", |(_, after)| after);
            if self.rest.is_empty() || label(self.rest).is_some() {
                return consumed(start, self.rest);
            }
        }
    }

    fn answer(&mut self) -> Result<(), Refusal> {
        let mut answer = self.rest.trim();
        if answer.is_empty() {
            let fix = "Write the answer after `Final Answer:`.";
            let refusal = Refusal::new(
                Trouble::MissingRequiredField,
                "The final answer is blank.",
                fix,
            );
            return Err(refusal.at("final_answer"));
        }
        // This closes a fence that was opened before the labels.
        if let Some(inside) = answer
            .strip_suffix("```")
            .filter(|inside| !inside.contains("```"))
        {
            self.repairs.note(Extraction::Fenced);
            answer = inside;
        }
        self.draft.answer(answer)
    }

    /// Removes the opening line of a fence, or a backtick, from the start.
    fn unfence(&mut self) {
        self.rest = self.rest.trim_start();
        let inside = match self.rest.strip_prefix("```") {
            Some(after) => Some(after.trim_start_matches(char::is_alphanumeric)),
            None => self.rest.strip_prefix('`'),
        };
        if let Some(inside) = inside {
            self.repairs.note(Extraction::Fenced);
            self.rest = inside.trim_start();
        }
    }

    fn actions(&mut self) -> Result<(), Refusal> {
        self.unfence();
        if self.rest.starts_with('{') {
            let path = format!("actions[{}]", self.draft.actions.len());
            let value = self.read(Reader::json(self.rest), |reader| reader.value(0))?;
            let cut = self.repairs.has(Extraction::Truncated);
            let read = action(value, &path, cut, &mut self.draft.ignored)?;
            self.draft.actions.push(read);
        } else {
            self.call()?;
            while self.another() {
                self.call()?;
            }
        }
        let beside = self.block();
        let beside = beside.trim_matches(|letter: char| {
            letter.is_whitespace() || matches!(letter, '`' | ';' | ',')
        });
        if !beside.is_empty() {
            self.draft.ignored.note("the text after an action", beside);
        }
        Ok(())
    }

    /// Moves to the next call if one follows on a new line or after a `;`. Returns whether it did.
    fn another(&mut self) -> bool {
        let after = self
            .rest
            .trim_start_matches(|letter: char| letter.is_whitespace() || letter == ';');
        let parted = consumed(self.rest, after).contains(['\n', ';']);
        let called = split_name(after).is_some_and(|(_, after)| after.starts_with('('));
        if parted && called {
            self.rest = after;
        }
        parted && called
    }

    fn call(&mut self) -> Result<(), Refusal> {
        let path = format!("actions[{}]", self.draft.actions.len());
        let Some((name, after)) = split_name(self.rest) else {
            let summary = format!(
                "The action has no call, but {}.",
                snippet(first_line(self.rest))
            );
            return Err(Refusal::new(Trouble::InvalidActionSchema, summary, FIX).at(path));
        };
        let args = if after.trim_start_matches([' ', '\t']).starts_with('(') {
            self.rest = after.trim_start();
            self.arguments(&path)?
        } else {
            self.rest = after;
            self.input(name, &path)?
        };
        self.draft.actions.push(Action {
            name: name.to_owned(),
            args,
            id: None,
        });
        Ok(())
    }

    /// Parses the arguments in parentheses at the start.
    fn arguments(&mut self, path: &str) -> Result<Map<String, Value>, Refusal> {
        let mut args = Map::new();
        let mut at = None;
        let reader = Reader::python(self.rest, |line| label(line).is_some());
        let read = self.read(reader, |reader| {
            reader.items(')', |reader| {
                let before = reader.rest.len();
                let Some((key, after)) = split_key(reader.rest.trim_start()) else {
                    let blank = reader.rest.trim().is_empty();
                    return Err(if blank {
                        reader.cut("an argument is missing")
                    } else {
                        reader.fault(UNNAMED)
                    });
                };
                reader.rest = after;
                at = Some(key.to_owned());
                let value = reader.value(1)?;
                at = None;
                if args.insert(key.to_owned(), value).is_some() {
                    let what = format!("the argument {} is given twice", snippet(key));
                    return Err(Fault {
                        left: before,
                        what,
                        cut: false,
                    });
                }
                Ok(())
            })
        });
        let path = at.map_or_else(
            || path.to_owned(),
            |key| format!("{path}.args.{}", snippet(&key).trim_matches('"')),
        );
        read.map_err(|refusal| refusal.at(path))?;
        Ok(args)
    }

    /// Parses the arguments of `name` under the Action Input that must follow.
    fn input(&mut self, name: &str, path: &str) -> Result<Map<String, Value>, Refusal> {
        let beside = self.block();
        let beside = beside.trim_matches(|letter: char| letter.is_whitespace() || letter == '`');
        let path = format!("{path}.args");
        let (true, Some((Word::Input, body))) = (beside.is_empty(), label(self.rest)) else {
            let summary = format!(
                "The action {} has no arguments in parentheses.",
                snippet(name)
            );
            return Err(Refusal::new(Trouble::MissingRequiredField, summary, FIX).at(path));
        };
        self.rest = body;
        self.unfence();
        if !self.rest.starts_with('{') {
            let summary = format!("The arguments of {} are not an object.", snippet(name));
            return Err(Refusal::new(Trouble::InvalidActionSchema, summary, FIX).at(path));
        }
        let value = self
            .read(Reader::json(self.rest), |reader| reader.value(0))
            .map_err(|refusal| refusal.at(&path))?;
        arguments(value, name)
    }

    /// Parses a value from the start.
    fn read<T>(
        &mut self,
        mut reader: Reader<'t>,
        value: impl FnOnce(&mut Reader<'t>) -> Result<T, Fault>,
    ) -> Result<T, Refusal> {
        let read = value(&mut reader).map_err(|fault| {
            let mut refusal = Refusal::broken(
                Trouble::InvalidActionSchema,
                "The action's arguments are broken.",
                &fault,
                self.text,
            );
            refusal.fix = format!("{} {FIX}", refusal.fix);
            refusal
        })?;
        self.repairs.add(&reader.repairs);
        self.rest = reader.rest;
        Ok(read)
    }
}

const FIX: &str = "Write the call as `tool(key=\"value\")`, with `tool()` for no arguments.";
const UNNAMED: &str = "an argument is not written as name=value";

/// Splits off a tool's name from the start.
fn split_name(text: &str) -> Option<(&str, &str)> {
    let part = |letter: char| is_word(letter) || matches!(letter, '.' | '-');
    let end = text.find(|letter| !part(letter)).unwrap_or(text.len());
    text.split_at_checked(end).filter(|(name, _)| {
        name.starts_with(|letter: char| letter.is_alphabetic() || letter == '_')
    })
}

/// Splits off an argument's name from the start. Returns it and the text after `=`.
fn split_key(text: &str) -> Option<(&str, &str)> {
    let end = text.find(|letter| !is_word(letter))?;
    let (key, after) = text
        .split_at_checked(end)
        .filter(|(key, _)| !key.is_empty())?;
    Some((key, after.trim_start().strip_prefix('=')?))
}

fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or_default()
}
