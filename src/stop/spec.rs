//! How is a rule written down? As JSON (`{"type": "max_steps", "steps": 8}`) or short (`max_steps=8`).

use std::fmt;
use std::str::FromStr;

use serde_json::Value;

use super::custom::SchemaCompiler;
use super::rules::{Amount, Compiler, Condition, RULES, Reads, StopSpec};

/// A compiled pattern may take this many bytes. Patterns come from users; matching is linear, compiling need not be.
pub(super) const MAX_REGEX_BYTES: usize = 1 << 20;

/// Why a rule cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpecError(String);

impl SpecError {
    /// An error that says `message`.
    pub fn new(message: impl Into<String>) -> Self {
        Self(message.into())
    }
}

impl fmt::Display for SpecError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for SpecError {}

/// Reads a schema by the name of its file.
type Load<'a> = &'a mut dyn FnMut(&str) -> Result<Value, String>;

/// A rule in the short form, while it is read.
pub(crate) struct Args<'a> {
    text: &'a str,
    name: &'a str,
    value: Option<&'a str>,
    load: Load<'a>,
}

impl Args<'_> {
    /// The value as a whole number.
    pub(super) fn number(&self) -> Result<u64, SpecError> {
        let Self { name, text, .. } = self;
        let number = self.value.and_then(|value| value.trim().parse().ok());
        number.ok_or_else(|| {
            SpecError::new(format!(
                "{name} needs a whole number, as in {name}=8, not {text:?}"
            ))
        })
    }

    /// The value as it is.
    pub(super) fn text(&self) -> Result<String, SpecError> {
        let name = self.name;
        let value = self.value.map(str::to_owned);
        value.ok_or_else(|| SpecError::new(format!("{name} needs a value, as in {name}=TEXT")))
    }

    /// No value.
    pub(super) fn none(&self) -> Result<(), SpecError> {
        if self.value.is_none() {
            Ok(())
        } else {
            Err(SpecError::new(format!("{} takes no value", self.name)))
        }
    }

    /// What the file holds that the value names; `None` without a value.
    pub(super) fn file(&mut self) -> Result<Option<Value>, SpecError> {
        let file = self.value.map(str::trim).filter(|file| !file.is_empty());
        file.map(|file| (self.load)(file))
            .transpose()
            .map_err(SpecError::new)
    }

    pub(super) fn only_json(&self) -> SpecError {
        SpecError::new(format!(
            "{} has no short form; it is written as JSON",
            self.name
        ))
    }
}

impl StopSpec {
    /// Whether the rule accepts answers; all others end a run without one. A group does where every member does.
    pub fn is_completion(&self) -> bool {
        match self.rule().members() {
            Some(of) => !of.is_empty() && of.iter().all(Self::is_completion),
            None => self.row().accepts,
        }
    }

    /// What is doubtful about the rule though it can be used: a pattern that does not compile fails closed.
    pub fn lint(&self) -> Vec<String> {
        match self.rule().members() {
            Some(of) => of.iter().flat_map(Self::lint).collect(),
            None => self.rule().lint().into_iter().collect(),
        }
    }

    /// The rule's name, its `type` in JSON.
    pub fn name(&self) -> &'static str {
        self.row().name
    }

    /// Its limit, as a page shows it.
    pub(crate) fn limit(&self) -> Amount<'_> {
        self.rule().limit()
    }

    /// How much of a recorded step the rule looks at.
    pub(crate) fn reads(&self) -> Reads {
        let members = self.rule().members().unwrap_or_default();
        members
            .iter()
            .map(Self::reads)
            .max()
            .unwrap_or(self.row().reads)
    }

    /// Whether the rule can be used at all.
    ///
    /// # Errors
    /// An empty group, groups nested deeper than 16, a score that is not finite, a schema that does not compile,
    /// or one for which there is neither `schemas` nor the feature `schema`.
    pub fn validate(&self, schemas: Option<SchemaCompiler<'_>>) -> Result<(), SpecError> {
        self.compile(schemas).map(|_| ())
    }

    /// Makes the rule ready to be asked.
    pub(super) fn compile(
        &self,
        schemas: Option<SchemaCompiler<'_>>,
    ) -> Result<Box<dyn Condition>, SpecError> {
        self.rule().compile(Compiler { schemas, depth: 0 })
    }

    /// Reads the short form or JSON; a schema is named by its file, which `load` reads.
    ///
    /// # Errors
    /// What is wrong with the text, naming the forms that exist.
    pub fn parse_with(
        text: &str,
        mut load: impl FnMut(&str) -> Result<Value, String>,
    ) -> Result<Self, SpecError> {
        let text = text.trim();
        if text.starts_with('{') {
            return serde_json::from_str(text)
                .map_err(|wrong| SpecError::new(format!("the rule {text}: {wrong}")));
        }
        let (name, value) = match text.split_once('=') {
            Some((name, value)) => (name.trim(), Some(value)),
            None => (text, None),
        };
        let Some(row) = RULES.iter().find(|row| row.is_called(name)) else {
            let short = RULES.iter().filter(|row| !row.example.starts_with('{'));
            let names: Vec<_> = short.map(|row| row.name).collect();
            return Err(SpecError::new(format!(
                "no rule is called {name:?}; there are {}",
                names.join(", ")
            )));
        };
        (row.parse)(&mut Args {
            text,
            name,
            value,
            load: &mut load,
        })
    }
}

/// The short form, or JSON where there is none that would be read as the same rule: a text may end in a blank, a name
/// look like a score.
impl fmt::Display for StopSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let short = match self.rule().value() {
            Some(value) => format!("{}={value}", self.name()),
            None => self.name().to_owned(),
        };
        if short.parse().as_ref() == Ok(self) {
            return f.write_str(&short);
        }
        f.write_str(&serde_json::to_string(self).map_err(|_| fmt::Error)?)
    }
}

impl FromStr for StopSpec {
    type Err = SpecError;

    /// [`StopSpec::parse_with`] for callers that read no files.
    fn from_str(text: &str) -> Result<Self, SpecError> {
        Self::parse_with(text, |file| {
            Err(format!("the schema file {file:?} cannot be read here"))
        })
    }
}
