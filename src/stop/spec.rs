//! Parses and writes rules, as JSON (`{"type": "max_steps", "steps": 8}`) or in the short form
//! (`max_steps=8`).

use std::fmt;
use std::str::FromStr;

use serde_json::Value;

use super::args::{Args, SpecError};
use super::custom::SchemaCompiler;
use super::rules::{Amount, Compiler, Condition, RULES, Reads, StopSpec};

impl StopSpec {
    /// Returns whether the rule accepts answers. All other rules end a run without one. A group
    /// accepts answers if every member does.
    pub fn is_completion(&self) -> bool {
        match self.rule().members() {
            Some(of) => !of.is_empty() && of.iter().all(Self::is_completion),
            None => self.row().accepts,
        }
    }

    /// Returns warnings about a rule that can be used but is probably a mistake. For example, a
    /// pattern that doesn't compile stops the run at its first gate.
    pub fn lint(&self) -> Vec<String> {
        match self.rule().members() {
            Some(of) => of.iter().flat_map(Self::lint).collect(),
            None => self.rule().lint().into_iter().collect(),
        }
    }

    /// Returns the rule's name, which is its `type` in JSON.
    pub fn name(&self) -> &'static str {
        self.row().name
    }

    /// Returns the rule's limit for display.
    pub(crate) fn limit(&self) -> Amount<'_> {
        self.rule().limit()
    }

    /// Returns how much of a recorded step the rule reads.
    pub(crate) fn reads(&self) -> Reads {
        let members = self.rule().members().unwrap_or_default();
        members
            .iter()
            .map(Self::reads)
            .max()
            .unwrap_or(self.row().reads)
    }

    /// Checks whether the rule can be used.
    ///
    /// # Errors
    /// Fails if a group is empty, groups are nested deeper than 16, a number is negative or not
    /// finite, or a schema doesn't compile. Also fails if the rule has a schema but there is
    /// neither `schemas` nor the feature `board`.
    pub fn validate(&self, schemas: Option<SchemaCompiler<'_>>) -> Result<(), SpecError> {
        self.compile(schemas).map(|_| ())
    }

    /// Compiles the rule so that it can be checked.
    pub(super) fn compile(
        &self,
        schemas: Option<SchemaCompiler<'_>>,
    ) -> Result<Box<dyn Condition>, SpecError> {
        self.rule().compile(Compiler { schemas, depth: 0 })
    }

    /// Parses the short form or JSON. A schema is given as a file name, which `load` reads.
    ///
    /// # Errors
    /// Fails if the text isn't a rule. If the name is unknown, the message lists the known names.
    pub fn parse_with(
        text: &str,
        mut load: impl FnMut(&str) -> Result<Value, String>,
    ) -> Result<Self, SpecError> {
        let text = text.trim();
        if text.starts_with('{') {
            return serde_json::from_str(text)
                .map_err(|wrong| SpecError::new(format!("the rule {text} is invalid: {wrong}")));
        }
        let (name, value) = match text.split_once('=') {
            Some((name, value)) => (name.trim(), Some(value)),
            None => (text, None),
        };
        let Some(row) = RULES.iter().find(|row| row.is_called(name)) else {
            let short = RULES.iter().filter(|row| !row.example.starts_with('{'));
            let names: Vec<_> = short.map(|row| row.name).collect();
            return Err(SpecError::new(format!(
                "unknown rule `{name}`; use one of {}",
                names.join(", ")
            )));
        };
        (row.parse)(&mut Args {
            name,
            value,
            load: &mut load,
        })
    }
}

/// Writes the short form, or JSON if the short form would be parsed as a different rule. For
/// example, a text may end in a space, or a name may look like a score.
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

impl TryFrom<&str> for StopSpec {
    type Error = SpecError;

    /// Parses a rule like [`str::parse`].
    fn try_from(text: &str) -> Result<Self, SpecError> {
        text.parse()
    }
}

impl FromStr for StopSpec {
    type Err = SpecError;

    /// Parses a rule like [`StopSpec::parse_with`], but without reading schema files.
    fn from_str(text: &str) -> Result<Self, SpecError> {
        Self::parse_with(text, |file| {
            Err(format!("the schema file {file:?} can't be read here"))
        })
    }
}
