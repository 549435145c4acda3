//! Parses the values of rules in the short form. Independent of the rules.

use std::convert::Infallible;
use std::fmt;

use serde_json::Value;

/// Maximum size of a compiled pattern, in bytes. Patterns come from users. Matching takes linear
/// time, but compiling may not.
pub(super) const MAX_REGEX_BYTES: usize = 1 << 20;

/// Why a rule can't be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpecError(String);

impl SpecError {
    /// Creates an error with this message.
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

/// For callers that take a rule or the text of one.
impl From<Infallible> for SpecError {
    fn from(never: Infallible) -> Self {
        match never {}
    }
}

/// Loads a schema from the file with this name.
type Load<'a> = &'a mut dyn FnMut(&str) -> Result<Value, String>;

/// A rule in the short form that is being parsed.
pub(crate) struct Args<'a> {
    pub(super) name: &'a str,
    pub(super) value: Option<&'a str>,
    pub(super) load: Load<'a>,
}

impl Args<'_> {
    /// Returns the value as a whole number.
    pub(super) fn number(&self) -> Result<u64, SpecError> {
        let Self { name, value, .. } = self;
        let number = value.and_then(|value| value.trim().parse().ok());
        number.ok_or_else(|| {
            let not = value.map_or_else(String::new, |value| format!(", not `{value}`"));
            SpecError::new(format!("{name} must be a whole number ≥ 0{not}"))
        })
    }

    /// Returns the value as text.
    pub(super) fn text(&self) -> Result<String, SpecError> {
        let name = self.name;
        let value = self.value.map(str::to_owned);
        value.ok_or_else(|| SpecError::new(format!("{name} needs a value")))
    }

    /// Checks that the rule has no value.
    pub(super) fn none(&self) -> Result<(), SpecError> {
        if self.value.is_none() {
            Ok(())
        } else {
            Err(SpecError::new(format!("{} takes no value", self.name)))
        }
    }

    /// Returns the content of the file that the value names. `None` without a value.
    pub(super) fn file(&mut self) -> Result<Option<Value>, SpecError> {
        let file = self.value.map(str::trim).filter(|file| !file.is_empty());
        file.map(|file| (self.load)(file))
            .transpose()
            .map_err(SpecError::new)
    }

    pub(super) fn only_json(&self) -> SpecError {
        SpecError::new(format!("{} has no short form; write it as JSON", self.name))
    }
}
