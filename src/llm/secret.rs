//! Keeps the API key out of traces, messages and the terminal.
//!
//! All data from outside (a server's error, a model's reply, a tool's output) passes through
//! [`Secret::scrub`] before it is kept: servers echo keys, and a command can read the key's file.

use std::borrow::Cow;
use std::fmt;
use std::io;
use std::sync::Arc;

use http::HeaderValue;
use serde_json::Value;

use crate::engine::{Tool, ToolCx, ToolError, ToolLimits};

/// The replacement for the key.
const SCRUBBED: &str = "[key]";
/// A shorter key is a placeholder such as `none`, which may be a word of the text.
const MIN_KEY_BYTES: usize = 8;

/// Protects the memory of this process, which holds the key, from the commands it starts. They
/// can't read it from `/proc` or by tracing the process. Commands of the root user may still read
/// its environment. Must be called before the first thread is started, because threads and commands
/// inherit the setting.
///
/// # Errors
/// Fails if the system doesn't support this (only Linux does) or refuses it.
pub fn close_process() -> io::Result<()> {
    #[cfg(target_os = "linux")]
    {
        use rustix::process::{DumpableBehavior, set_dumpable_behavior};
        use rustix::thread::{
            CapabilitySet, capability_is_in_bounding_set, remove_capability_from_bounding_set,
        };

        set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
        // The memory of a process that can't be dumped is still open to processes that may trace
        // all others. Commands of the root user may, unless they start without that capability.
        // Other users don't have it.
        let tracing = CapabilitySet::SYS_PTRACE;
        if rustix::process::geteuid().is_root() && capability_is_in_bounding_set(tracing)? {
            remove_capability_from_bounding_set(tracing)?;
        }
        Ok(())
    }
    #[cfg(not(target_os = "linux"))]
    Err(io::ErrorKind::Unsupported.into())
}

/// Number of bytes that every system's pipe holds without a reader.
#[cfg(unix)]
const MAX_PIPED_BYTES: usize = 4096;

/// An API key, or none. Never displayed.
#[derive(Clone, Default)]
pub struct Secret(Option<Arc<str>>);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() {
            "Secret(..)"
        } else {
            "Secret(none)"
        })
    }
}

impl Secret {
    /// Creates a secret from a key. Trims whitespace, which comes from files. An empty key counts as
    /// none.
    pub fn new(key: Option<&str>) -> Self {
        Self(
            key.map(str::trim)
                .filter(|key| !key.is_empty())
                .map(Arc::from),
        )
    }

    /// Returns a pipe that holds only the key. It stays open if this process executes another
    /// program.
    ///
    /// # Errors
    /// Fails if the system can't create the pipe, or if the key is longer than a pipe can hold.
    #[cfg(unix)]
    pub fn pipe(&self) -> io::Result<io::PipeReader> {
        use std::io::Write as _;

        let key = self.0.as_deref().unwrap_or_default();
        if key.len() > MAX_PIPED_BYTES {
            return Err(io::Error::other(
                "the key is too long to pass on through a pipe",
            ));
        }
        let (reader, mut writer) = io::pipe()?;
        writer.write_all(key.as_bytes())?;
        rustix::io::fcntl_setfd(&reader, rustix::io::FdFlags::empty())?;
        Ok(reader)
    }

    /// Returns whether there is a key.
    pub fn is_some(&self) -> bool {
        self.0.is_some()
    }

    /// Returns the authorization header. `None` if there is no key.
    ///
    /// # Errors
    /// Fails if the key contains characters that a header can't.
    pub(super) fn header(&self) -> Result<Option<HeaderValue>, http::header::InvalidHeaderValue> {
        let header = |key: &Arc<str>| {
            let mut value = HeaderValue::from_str(&format!("Bearer {key}"))?;
            value.set_sensitive(true);
            Ok(value)
        };
        self.0.as_ref().map(header).transpose()
    }

    fn searched(&self) -> Option<&str> {
        self.0.as_deref().filter(|key| key.len() >= MIN_KEY_BYTES)
    }

    /// Returns the text with the key replaced.
    pub fn scrub<'a>(&self, text: &'a str) -> Cow<'a, str> {
        match self.searched() {
            Some(key) if text.contains(key) => Cow::Owned(text.replace(key, SCRUBBED)),
            _ => Cow::Borrowed(text),
        }
    }

    /// Returns a JSON value with the key replaced in names and values.
    pub fn scrub_value(&self, value: Value) -> Value {
        match value {
            _ if self.searched().is_none() => value,
            Value::String(text) => Value::String(self.scrub(&text).into_owned()),
            Value::Array(items) => items
                .into_iter()
                .map(|item| self.scrub_value(item))
                .collect(),
            Value::Object(map) => {
                let scrubbed = map
                    .into_iter()
                    .map(|(name, value)| (self.scrub(&name).into_owned(), self.scrub_value(value)));
                Value::Object(scrubbed.collect())
            }
            other => other,
        }
    }

    /// Returns the length of the longest end of `text` that may be the start of the key.
    fn begun_in(&self, text: &str) -> usize {
        let Some(key) = self.searched() else { return 0 };
        let longest = key.len().saturating_sub(1).min(text.len());
        (1..=longest)
            .rev()
            .find(|many| {
                text.as_bytes()
                    .ends_with(key.as_bytes().get(..*many).unwrap_or_default())
            })
            .unwrap_or(0)
    }
}

/// Removes the key from streamed text, even if the key is split over several pieces.
#[derive(Debug)]
pub(super) struct Pieces<'a> {
    secret: &'a Secret,
    held: String,
}

impl<'a> Pieces<'a> {
    pub(super) fn new(secret: &'a Secret) -> Self {
        Self {
            secret,
            held: String::new(),
        }
    }

    /// Passes on the text that can't be part of the key.
    pub(super) fn push(&mut self, piece: &str, on_text: &(dyn Fn(&str) + Send + Sync)) {
        self.held.push_str(piece);
        let scrubbed = self.secret.scrub(&self.held).into_owned();
        let (free, begun) = scrubbed.split_at(scrubbed.len() - self.secret.begun_in(&scrubbed));
        if !free.is_empty() {
            on_text(free);
        }
        self.held = begun.to_owned();
    }

    /// Passes on the rest.
    pub(super) fn end(self, on_text: &(dyn Fn(&str) + Send + Sync)) {
        if !self.held.is_empty() {
            on_text(&self.held);
        }
    }
}

/// A tool that removes the key from its results.
#[derive(Debug, Clone)]
pub struct Scrubbed<T> {
    tool: T,
    secret: Secret,
}

impl<T: Tool> Scrubbed<T> {
    /// Wraps `tool` and removes `secret` from its results.
    pub fn new(tool: T, secret: Secret) -> Self {
        Self { tool, secret }
    }
}

impl<T: Tool> Tool for Scrubbed<T> {
    type Args = T::Args;
    type Output = Value;

    fn name(&self) -> &str {
        self.tool.name()
    }

    fn description(&self) -> &str {
        self.tool.description()
    }

    async fn call(&self, args: Self::Args, cx: ToolCx<'_>) -> Result<Value, ToolError> {
        match self.tool.call(args, cx).await {
            Ok(output) => {
                let output = serde_json::to_value(output);
                let output = output.map_err(|error| {
                    ToolError::new(format!("the result can't be written as JSON: {error}"))
                })?;
                Ok(self.secret.scrub_value(output))
            }
            Err(error) => Err(ToolError {
                message: self.secret.scrub(&error.message).into_owned(),
                ..error
            }),
        }
    }

    fn schema(&self) -> Value {
        self.tool.schema()
    }

    fn limits(&self) -> ToolLimits {
        self.tool.limits()
    }

    fn is_parallel(&self) -> bool {
        self.tool.is_parallel()
    }

    fn needs(&self) -> &[&str] {
        self.tool.needs()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use serde_json::json;

    use super::*;

    #[test]
    fn a_key_is_never_shown() {
        let secret = Secret::new(Some(" sk-123456789\n"));
        assert_eq!(format!("{secret:?}"), "Secret(..)");
        assert!(secret.header().unwrap().unwrap().is_sensitive());
        assert_eq!(secret.scrub("bad key sk-123456789!"), "bad key [key]!");
        let value = json!({"a": ["sk-123456789", 1], "sk-123456789": "x"});
        assert_eq!(
            secret.scrub_value(value),
            json!({"a": ["[key]", 1], "[key]": "x"})
        );
        assert!(Secret::new(Some("a\nb")).header().is_err());
    }

    #[test]
    fn a_placeholder_is_a_word_like_any_other() {
        let secret = Secret::new(Some("none"));
        assert_eq!(secret.scrub("none of it"), "none of it");
        assert!(!Secret::new(Some(" ")).is_some() && secret.is_some());
    }

    #[test]
    fn a_key_that_comes_in_pieces_is_held_back() {
        let secret = Secret::new(Some("sk-123456789"));
        let heard = |pieces: &[&str]| {
            let parts = Mutex::new(Vec::new());
            let mut scrubber = Pieces::new(&secret);
            let hear = |text: &str| parts.lock().unwrap().push(text.to_owned());
            pieces.iter().for_each(|piece| scrubber.push(piece, &hear));
            scrubber.end(&hear);
            parts.into_inner().unwrap()
        };
        assert_eq!(
            heard(&["it is sk-12", "3456", "789 ok"]),
            ["it is ", "[key] ok"]
        );
        assert_eq!(heard(&["ask-", "no"]), ["a", "sk-no"]);
        assert_eq!(heard(&["s"]), ["s"]);
    }
}
