//! Defines where a model is and how to call it, and reads that from environment variables.

use std::env::VarError;
use std::time::Duration;

use serde_json::{Map, Value};

use super::retry::Retry;
use super::secret::Secret;
use crate::error::{Error, Kind, Result};

/// The server for which `OPENAI_API_KEY` is meant if `OPENAI_BASE_URL` isn't set.
const OPENAI: &str = "https://api.openai.com/v1";

/// A model's endpoint, and how to call it.
///
/// [`Endpoint::new`] and [`Endpoint::from_env`] return one with defaults. Its fields can be changed
/// one by one.
#[derive(Debug, Clone)]
pub struct Endpoint {
    /// The base address. Requests go to `/chat/completions` below it.
    pub base_url: String,
    /// The model's name at the endpoint.
    pub model: String,
    /// The API key.
    pub key: Secret,
    /// Whether to stream replies.
    pub stream: bool,
    /// Additional fields for each request, such as `temperature`.
    pub settings: Map<String, Value>,
    /// Maximum tokens of a request and its reply together, if known.
    pub context_window: Option<u64>,
    /// Whether to send back the additional fields of earlier replies, such as the model's
    /// reasoning. `None` sends them until the service refuses them.
    pub send_fields: Option<bool>,
    /// When to retry.
    pub retry: Retry,
    /// Time limits for an attempt.
    pub timeouts: Timeouts,
}

impl Endpoint {
    /// Creates an endpoint without a key, whose replies aren't streamed. [`Retry`] and [`Timeouts`]
    /// have their defaults.
    pub fn new(base_url: impl Into<String>, model: impl Into<String>) -> Self {
        Self {
            base_url: base_url.into(),
            model: model.into(),
            key: Secret::default(),
            stream: false,
            settings: Map::new(),
            context_window: None,
            send_fields: None,
            retry: Retry::default(),
            timeouts: Timeouts::default(),
        }
    }

    /// Reads the endpoint from environment variables. Empty variables count as not set.
    ///
    /// | variable | meaning |
    /// |---|---|
    /// | `OPENAI_MODEL` | the model's name; required |
    /// | `OPENAI_BASE_URL` | the base address; `https://api.openai.com/v1` by default |
    /// | `OPENAI_API_KEY` | the key; required unless `OPENAI_BASE_URL` is set |
    ///
    /// # Errors
    /// Fails if a required variable isn't set, or if a variable isn't UTF-8. The error names all
    /// missing variables.
    pub fn from_env() -> Result<Self> {
        Self::from_variables(|name| std::env::var(name))
    }

    fn from_variables(read: impl Fn(&str) -> Result<String, VarError>) -> Result<Self> {
        let variable = |name: &str| match read(name) {
            Ok(value) => Ok(Some(value.trim().to_owned()).filter(|value| !value.is_empty())),
            Err(VarError::NotPresent) => Ok(None),
            Err(VarError::NotUnicode(_)) => {
                Err(Error::new(Kind::Usage, format!("{name} isn't valid UTF-8")))
            }
        };
        let model = variable("OPENAI_MODEL")?;
        let base_url = variable("OPENAI_BASE_URL")?;
        let key = variable("OPENAI_API_KEY")?;
        let mut missing = Vec::new();
        if model.is_none() {
            let hint = "set OPENAI_MODEL to the name of a model at the endpoint".to_owned();
            missing.push(("OPENAI_MODEL", hint));
        }
        if key.is_none() && base_url.is_none() {
            let hint = format!(
                "set OPENAI_API_KEY to your key for {OPENAI}, or OPENAI_BASE_URL to another server, \
                 such as http://127.0.0.1:8080/v1"
            );
            missing.push(("OPENAI_API_KEY", hint));
        }
        if !missing.is_empty() {
            let names: Vec<_> = missing.iter().map(|(name, _)| *name).collect();
            let verb = if names.len() == 1 { "isn't" } else { "aren't" };
            let error = Error::new(Kind::Usage, format!("{} {verb} set", names.join(" and ")));
            let hints = missing.into_iter().map(|(_, hint)| hint);
            return Err(hints.fold(error, Error::hint));
        }
        Ok(Self {
            key: Secret::new(key.as_deref()),
            ..Self::new(
                base_url.unwrap_or_else(|| OPENAI.to_owned()),
                model.unwrap_or_default(),
            )
        })
    }

    /// Sets the API key.
    #[must_use]
    pub fn key(mut self, key: &str) -> Self {
        self.key = Secret::new(Some(key));
        self
    }

    /// Adds a field to each request, such as `temperature`.
    #[must_use]
    pub fn setting(mut self, name: impl Into<String>, value: impl Into<Value>) -> Self {
        self.settings.insert(name.into(), value.into());
        self
    }

    /// Sets the maximum tokens of a request and its reply together. Longer requests are shortened
    /// before they are sent.
    #[must_use]
    pub fn context_window(mut self, tokens: u64) -> Self {
        self.context_window = Some(tokens);
        self
    }
}

/// The time limits of one attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timeouts {
    /// Limit for connecting.
    pub connect: Duration,
    /// Limit until the reply begins. A reply that isn't streamed begins when it is complete.
    pub first_byte: Duration,
    /// Limit until the reply is complete.
    pub whole: Duration,
}

impl Default for Timeouts {
    /// Returns limits of ten seconds, five minutes and ten minutes.
    fn default() -> Self {
        let [connect, first_byte, whole] = [10, 300, 600].map(Duration::from_secs);
        Self {
            connect,
            first_byte,
            whole,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn endpoint(set: &[(&str, &str)]) -> Result<Endpoint> {
        Endpoint::from_variables(|name| {
            let found = set.iter().find(|(key, _)| *key == name);
            found
                .map(|(_, value)| (*value).to_owned())
                .ok_or(VarError::NotPresent)
        })
    }

    fn wrong(set: &[(&str, &str)]) -> String {
        format!("{:#}", endpoint(set).unwrap_err())
    }

    #[test]
    fn the_environment_names_a_model_and_its_server() {
        let own = [
            ("OPENAI_MODEL", "tiny"),
            ("OPENAI_BASE_URL", "http://127.0.0.1:1/v1"),
        ];
        let found = endpoint(&own).unwrap();
        assert_eq!(
            (&*found.base_url, &*found.model),
            ("http://127.0.0.1:1/v1", "tiny")
        );
        assert!(!found.key.is_some(), "another server may need no key");
        let found = endpoint(&[("OPENAI_MODEL", "tiny"), ("OPENAI_API_KEY", "sk-1")]).unwrap();
        assert_eq!(found.base_url, OPENAI);
        assert!(found.key.is_some());
    }

    #[test]
    fn a_missing_variable_is_named_with_what_to_do() {
        let model = "set OPENAI_MODEL to the name of a model at the endpoint";
        let key = "set OPENAI_API_KEY to your key for https://api.openai.com/v1, or OPENAI_BASE_URL \
                   to another server, such as http://127.0.0.1:8080/v1";
        assert_eq!(
            wrong(&[]),
            format!("OPENAI_MODEL and OPENAI_API_KEY aren't set (hint: {model}; {key})")
        );
        assert_eq!(
            wrong(&[("OPENAI_MODEL", "tiny"), ("OPENAI_API_KEY", " ")]),
            format!("OPENAI_API_KEY isn't set (hint: {key})")
        );
        assert_eq!(
            wrong(&[("OPENAI_BASE_URL", "http://127.0.0.1:1/v1")]),
            format!("OPENAI_MODEL isn't set (hint: {model})")
        );
    }

    #[test]
    fn a_variable_that_is_no_text_is_named() {
        let garbled = Endpoint::from_variables(|name| match name {
            "OPENAI_API_KEY" => Err(VarError::NotUnicode("x".into())),
            _ => Ok("http://127.0.0.1:1".to_owned()),
        });
        assert_eq!(
            garbled.unwrap_err().to_string(),
            "OPENAI_API_KEY isn't valid UTF-8"
        );
    }
}
