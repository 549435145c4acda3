//! Describes problems and repairs in a parsed text, as a record for the trace and feedback for the
//! model.
//!
//! Uses the keys of the trace format and is independent of the grammars.

use std::collections::BTreeSet;

use serde::Serialize;

use crate::engine::Decision;

/// Maximum length of a preview, in characters.
const PREVIEW_CHARS: usize = 280;
/// Maximum length of a quote from the model's text, in characters.
const SNIPPET_CHARS: usize = 40;
/// Maximum number of ignored parts to list. The rest are only counted.
const MAX_IGNORED: usize = 8;

/// The result of parsing a text.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Parsed {
    /// The decision. `None` if the text has none; `diagnostics` then gives the reason.
    pub decision: Option<Decision>,
    /// The problems found. If there is a decision, what was repaired or ignored.
    pub diagnostics: Option<Diagnostics>,
}

/// The problems of a text, under the keys of a step's `parser_diagnostics`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Diagnostics {
    /// The parser's name.
    pub parser: &'static str,
    /// The grammar that the parser expects.
    pub contract: &'static str,
    /// An error if there is no decision, otherwise a warning.
    pub(crate) severity: Severity,
    /// The kind of problem.
    pub(crate) code: Trouble,
    /// The problem in one sentence.
    pub summary: String,
    /// The location, the repairs and the ignored parts. May be empty.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub details: String,
    /// Instructions for the model, ready to send.
    pub repair_instruction: String,
    /// The form of a valid answer.
    pub expected_shape: &'static str,
    /// The most invasive repair that was needed to get the decision. `None` if there is no
    /// decision.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) extraction_mode: Option<Extraction>,
    /// Whether the text had to be repaired.
    pub salvage_applied: bool,
    /// The path of the wrong field, such as `actions[1].args`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub issue_path: Option<String>,
    /// The start of the text, at most 280 characters.
    pub raw_output_preview: String,
    /// The length of the text in characters.
    pub raw_output_chars: usize,
}

/// The severity of a problem.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Severity {
    /// The text has no decision.
    Error,
    /// The text has a decision, but something was repaired or ignored.
    Warning,
}

/// The kind of a problem.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub(crate) enum Trouble {
    /// The text is blank.
    EmptyOutput,
    /// The text has no action, answer or wait.
    MissingActionOrFinal,
    /// The text has no JSON, or the JSON can't be repaired.
    InvalidJson,
    /// The text has no decision element, or the XML can't be repaired.
    InvalidXml,
    /// A field is missing that the rest of the text requires.
    MissingRequiredField,
    /// An action, or a part of it, has the wrong form.
    InvalidActionSchema,
    /// ReAct text was parsed after a repair.
    SalvagedReactPayload,
    /// JSON was parsed after a repair.
    SalvagedJsonPayload,
    /// XML was parsed after a repair.
    SalvagedXmlPayload,
    /// The arguments of a native tool call were parsed after a repair.
    SalvagedToolArguments,
    /// The text was parsed without a repair, but a part of it was ignored.
    IgnoredContent,
}

/// The repairs with which a decision was parsed, from the mildest to the most invasive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub(crate) enum Extraction {
    /// No repair.
    Direct,
    /// Removed a code fence.
    Fenced,
    /// Removed text around the decision.
    Extracted,
    /// Removed a comma before a closing bracket.
    TrailingComma,
    /// Accepted Python's spelling of a value as JSON.
    PythonLiteral,
    /// Kept line breaks and other control characters inside a string.
    ControlChars,
    /// Kept a number that doesn't fit in 64 bits as a string.
    NumberAsText,
    /// Added brackets or tags that are missing at the end.
    Truncated,
}

impl Extraction {
    fn says(self) -> &'static str {
        match self {
            Self::Direct => "Nothing was repaired.",
            Self::Fenced => "A code fence was removed.",
            Self::Extracted => "Other text around the decision was ignored.",
            Self::TrailingComma => "A comma before a closing bracket was dropped.",
            Self::PythonLiteral => "A Python literal was read as JSON.",
            Self::ControlChars => "A raw control character inside a string was kept.",
            Self::NumberAsText => "A number beyond 64 bits was kept as a string.",
            Self::Truncated => "Unclosed brackets at the end were closed.",
        }
    }
}

/// The repairs of a text.
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

/// The ignored parts of a text.
#[derive(Debug, Clone, Default)]
pub(super) struct Ignored {
    named: Vec<String>,
    more: usize,
}

impl Ignored {
    /// Records an ignored part: `what` it is (a key, a text) and the start of its `name`.
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

/// Quotes the start of `text`, short enough for a sentence.
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

/// Where and why parsing stopped.
#[derive(Debug, Clone)]
pub(super) struct Fault {
    /// Number of bytes from there to the end of the text.
    pub(super) left: usize,
    pub(super) what: String,
    /// Whether the text ends there.
    pub(super) cut: bool,
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

    /// Refuses a text that ends early or violates its grammar at `fault`.
    pub(super) fn broken(code: Trouble, summary: &str, fault: &Fault, text: &str) -> Self {
        let fix = if fault.cut {
            "The answer is truncated. Give the whole answer again, shorter if necessary."
        } else {
            "Fix this and give the whole answer again."
        };
        let before = text.len().saturating_sub(fault.left);
        let place = text.get(..before).unwrap_or_default().chars().count() + 1;
        Self::new(code, summary, fix).details(format!("At character {place}: {}.", fault.what))
    }
}

/// A decision, with its repairs and ignored parts.
#[derive(Debug)]
pub(super) struct ParsedDecision {
    pub(super) decision: Decision,
    pub(super) repairs: Repairs,
    pub(super) ignored: Ignored,
}

/// A grammar, as described in a record.
#[derive(Debug)]
pub(super) struct Contract {
    pub(super) parser: &'static str,
    pub(super) id: &'static str,
    pub(super) shape: &'static str,
    pub(super) salvaged: Trouble,
}

impl Contract {
    /// Returns the result of parsing `text`, with its diagnostics.
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

    /// Refuses a blank text.
    pub(super) fn empty() -> Refusal {
        Refusal::new(
            Trouble::EmptyOutput,
            "The answer is empty.",
            "Give a non-empty answer.",
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
            .map(|path| format!(" The problem is at `{path}`."))
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
                "The decision was read; other content was ignored.",
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
                "{summary} {details} Next time, use exactly this form: {}",
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
