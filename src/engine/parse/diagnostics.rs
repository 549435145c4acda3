//! What went wrong in a text, and what was put right? A record for the trace, and a sentence for the model.
//!
//! Knows the keys of the trace format and no grammar.

use std::collections::BTreeSet;

use serde::Serialize;

use super::literal::Fault;
use crate::engine::Decision;

/// The longest preview of a text, in characters.
const PREVIEW_CHARS: usize = 280;
/// The longest piece of a model's text inside a sentence of ours, in characters.
const SNIPPET_CHARS: usize = 40;
/// How many ignored pieces are named; the rest is counted.
const MAX_IGNORED: usize = 8;

/// What a text says, or why it says nothing.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Parsed {
    /// The decision; `None` where the text holds none, and the diagnostics then say why.
    pub decision: Option<Decision>,
    /// What was wrong; beside a decision, what was put right or left out.
    pub diagnostics: Option<Diagnostics>,
}

/// What was wrong with a text, under the keys of a step's `parser_diagnostics`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Diagnostics {
    /// The parser's name.
    pub parser: &'static str,
    /// The grammar it holds a text to.
    pub contract: &'static str,
    /// An error where there is no decision, else a warning.
    pub severity: Severity,
    /// What kind of trouble.
    pub code: Trouble,
    /// The trouble in one sentence.
    pub summary: String,
    /// Where it is, what was repaired and what was ignored; may be empty.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub details: String,
    /// What the model is asked to do about it, in words that can be sent as they are.
    pub repair_instruction: String,
    /// The form of a right answer.
    pub expected_shape: &'static str,
    /// How the decision was got out of the text: the boldest repair; `None` where there is no decision.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub extraction_mode: Option<Extraction>,
    /// Whether the text had to be repaired.
    pub salvage_applied: bool,
    /// The field that is wrong, such as `actions[1].args`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub issue_path: Option<String>,
    /// How the text begins, in at most 280 characters.
    pub raw_output_preview: String,
    /// How long the text is, in characters.
    pub raw_output_chars: usize,
}

/// How bad it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// There is no decision.
    Error,
    /// There is one, after a repair or with something left out.
    Warning,
}

/// What kind of trouble.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Trouble {
    /// Nothing but blanks.
    EmptyOutput,
    /// No action, no answer and no wish to wait.
    MissingActionOrFinal,
    /// No JSON, or broken beyond repair.
    InvalidJson,
    /// No decision element, or broken beyond repair.
    InvalidXml,
    /// A field that the rest of the text calls for is not there.
    MissingRequiredField,
    /// An action, or what goes with it, has the wrong form.
    InvalidActionSchema,
    /// Read after a repair: ReAct text.
    SalvagedReactPayload,
    /// Read after a repair: JSON.
    SalvagedJsonPayload,
    /// Read after a repair: XML.
    SalvagedXmlPayload,
    /// Read after a repair: the arguments of a native tool call.
    SalvagedToolArguments,
    /// Read as it stands, but something in it has no meaning here.
    IgnoredContent,
}

/// How a decision was got out of a text, from the mildest to the boldest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Extraction {
    /// As it stands.
    Direct,
    /// Out of a code fence.
    Fenced,
    /// Out of other text.
    Extracted,
    /// A comma before a closing bracket was dropped.
    TrailingComma,
    /// Python's spelling of a value was taken for JSON.
    PythonLiteral,
    /// Line breaks and other control characters inside a string were kept.
    ControlChars,
    /// A number that no 64 bits hold was kept as a string.
    NumberAsText,
    /// Brackets or tags that are missing at the end were added.
    Truncated,
}

impl Extraction {
    fn says(self) -> &'static str {
        match self {
            Self::Direct => "Nothing was repaired.",
            Self::Fenced => "A code fence was taken off.",
            Self::Extracted => "Other text around the decision was left out.",
            Self::TrailingComma => "A comma before a closing bracket was dropped.",
            Self::PythonLiteral => "Python's spelling of a value was taken for JSON.",
            Self::ControlChars => "A raw control character inside a string was kept.",
            Self::NumberAsText => "A number beyond 64 bits was kept as a string.",
            Self::Truncated => "What is left open at the end was closed.",
        }
    }
}

/// The liberties that were taken with a text.
#[derive(Debug, Clone, Default)]
pub(super) struct Repairs(BTreeSet<Extraction>);

impl Repairs {
    pub(super) fn note(&mut self, repair: Extraction) {
        self.0.insert(repair);
    }

    pub(super) fn add(&mut self, other: &Self) {
        self.0.extend(&other.0);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn has(&self, repair: Extraction) -> bool {
        self.0.contains(&repair)
    }
}

/// What a text holds besides its decision.
#[derive(Debug, Clone, Default)]
pub(super) struct Ignored {
    named: Vec<String>,
    more: usize,
}

impl Ignored {
    /// Notes `what` (a key, a text) by the beginning of `name`.
    pub(super) fn note(&mut self, what: &str, name: &str) {
        if self.named.len() < MAX_IGNORED {
            self.named.push(format!("{what} {}", snippet(name)));
        } else {
            self.more += 1;
        }
    }

    fn says(&self) -> Option<String> {
        if self.named.is_empty() {
            return None;
        }
        let more = if self.more > 0 {
            format!(" and {} more", self.more)
        } else {
            String::new()
        };
        Some(format!("Ignored: {}{more}.", self.named.join(", ")))
    }
}

/// A quoted beginning of `text` that is short enough for a sentence.
pub(super) fn snippet(text: &str) -> String {
    format!("{:?}", shorten(text.trim(), SNIPPET_CHARS))
}

fn shorten(text: &str, chars: usize) -> String {
    if text.chars().nth(chars).is_none() {
        return text.to_owned();
    }
    text.chars()
        .take(chars.saturating_sub(1))
        .chain(['…'])
        .collect()
}

/// Why a text is refused.
#[derive(Debug, Clone)]
pub(super) struct Refusal {
    pub(super) code: Trouble,
    pub(super) summary: String,
    pub(super) details: String,
    pub(super) fix: String,
    pub(super) path: Option<String>,
}

impl Refusal {
    pub(super) fn new(code: Trouble, summary: impl Into<String>, fix: impl Into<String>) -> Self {
        Self {
            code,
            summary: summary.into(),
            details: String::new(),
            fix: fix.into(),
            path: None,
        }
    }

    #[must_use]
    pub(super) fn at(mut self, path: impl Into<String>) -> Self {
        self.path = Some(path.into());
        self
    }

    #[must_use]
    pub(super) fn details(mut self, details: impl Into<String>) -> Self {
        self.details = details.into();
        self
    }

    /// A text that breaks off or breaks its grammar at `fault`.
    pub(super) fn broken(code: Trouble, summary: &str, fault: &Fault, text: &str) -> Self {
        let fix = if fault.cut {
            "The answer breaks off in the middle: give all of it again, shorter if need be."
        } else {
            "Mend that place and give the whole answer again."
        };
        let before = text.len().saturating_sub(fault.left);
        let place = text.get(..before).unwrap_or_default().chars().count() + 1;
        Self::new(code, summary, fix).details(format!("At character {place}: {}.", fault.what))
    }
}

/// A decision and the liberties that led to it.
#[derive(Debug)]
pub(super) struct ParsedDecision {
    pub(super) decision: Decision,
    pub(super) repairs: Repairs,
    pub(super) ignored: Ignored,
}

/// A grammar, by what a record says of it.
#[derive(Debug)]
pub(super) struct Contract {
    pub(super) parser: &'static str,
    pub(super) id: &'static str,
    pub(super) shape: &'static str,
    pub(super) salvaged: Trouble,
}

impl Contract {
    /// The outcome of reading `text`, with its record.
    pub(super) fn report(&self, text: &str, outcome: Result<ParsedDecision, Refusal>) -> Parsed {
        match outcome {
            Ok(ParsedDecision {
                decision,
                repairs,
                ignored,
            }) => {
                let diagnostics = self.warning(text, &repairs, &ignored);
                Parsed {
                    decision: Some(decision),
                    diagnostics,
                }
            }
            Err(refusal) => Parsed {
                decision: None,
                diagnostics: Some(self.error(text, refusal)),
            },
        }
    }

    /// The refusal of a text that is all blanks.
    pub(super) fn empty() -> Refusal {
        Refusal::new(
            Trouble::EmptyOutput,
            "The answer is empty.",
            "Give an answer that is not empty.",
        )
    }

    fn error(&self, text: &str, refusal: Refusal) -> Diagnostics {
        let Refusal {
            code,
            summary,
            details,
            fix,
            path,
        } = refusal;
        let where_ = path
            .as_deref()
            .map(|path| format!(" The trouble is at `{path}`."))
            .unwrap_or_default();
        let said = if details.is_empty() {
            String::new()
        } else {
            format!(" {details}")
        };
        let instruction = format!(
            "{summary}{said}{where_} {fix} Expected form: {}",
            self.shape
        );
        Diagnostics {
            issue_path: path,
            details,
            repair_instruction: instruction,
            ..self.blank(text, Severity::Error, code, summary)
        }
    }

    fn warning(&self, text: &str, repairs: &Repairs, ignored: &Ignored) -> Option<Diagnostics> {
        let (boldest, ignored) = (repairs.0.last().copied(), ignored.says());
        let (code, summary) = match (boldest, &ignored) {
            (Some(_), _) => (self.salvaged, "The decision was read after a repair."),
            (None, Some(_)) => (
                Trouble::IgnoredContent,
                "The decision was read, and something beside it ignored.",
            ),
            (None, None) => return None,
        };
        let details: Vec<_> = repairs
            .0
            .iter()
            .map(|repair| repair.says().to_owned())
            .chain(ignored)
            .collect();
        let details = details.join(" ");
        Some(Diagnostics {
            repair_instruction: format!(
                "{summary} {details} Next time write exactly this form: {}",
                self.shape
            ),
            details,
            extraction_mode: Some(boldest.unwrap_or(Extraction::Direct)),
            salvage_applied: boldest.is_some(),
            ..self.blank(text, Severity::Warning, code, summary.to_owned())
        })
    }

    fn blank(&self, text: &str, severity: Severity, code: Trouble, summary: String) -> Diagnostics {
        Diagnostics {
            parser: self.parser,
            contract: self.id,
            severity,
            code,
            summary,
            details: String::new(),
            repair_instruction: String::new(),
            expected_shape: self.shape,
            extraction_mode: None,
            salvage_applied: false,
            issue_path: None,
            raw_output_preview: shorten(text.trim(), PREVIEW_CHARS),
            raw_output_chars: text.chars().count(),
        }
    }
}
