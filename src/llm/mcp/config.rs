//! Defines the part of an agent file about one server.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;

use super::super::config::Seconds;
use super::super::gate::Glob;

/// A server: a program, or an address.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::llm) struct McpPart {
    pub(super) command: Option<Vec<String>>,
    #[serde(default)]
    pub(super) env: BTreeMap<String, String>,
    pub(super) cwd: Option<PathBuf>,
    pub(super) url: Option<String>,
    #[serde(default)]
    pub(super) headers: BTreeMap<String, String>,
    pub(super) tools: Option<Vec<Pattern>>,
    #[serde(default = "minute")]
    pub(super) timeout: Seconds,
    #[serde(default = "half_minute")]
    pub(super) start_timeout: Seconds,
}

/// A pattern for tool names.
#[derive(Debug, Clone, Deserialize)]
#[serde(try_from = "String")]
pub(super) struct Pattern(pub(super) Glob);

impl TryFrom<String> for Pattern {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, &'static str> {
        Glob::new(&text)
            .map(Self)
            .ok_or("this is too long for a pattern")
    }
}

fn minute() -> Seconds {
    Seconds(Duration::from_secs(60))
}

fn half_minute() -> Seconds {
    Seconds(Duration::from_secs(30))
}

impl McpPart {
    /// Returns what is wrong with the part or its name.
    pub(in crate::llm) fn lint(&self, name: &str) -> Option<String> {
        let plain = |letter: char| letter.is_ascii_alphanumeric() || letter == '_' || letter == '-';
        if name.is_empty() || name.len() > 32 || !name.chars().all(plain) || name.contains("__") {
            return Some(format!(
                "{name:?} can't be a prefix of tool names; use up to 32 letters, digits, - and _, but not __"
            ));
        }
        let wrong = match (&self.command, &self.url) {
            (None, None) => "it needs `command` or `url`",
            (Some(_), Some(_)) => "set either `command` or `url`, not both",
            (Some(command), None)
                if command
                    .first()
                    .is_none_or(|program| program.trim().is_empty()) =>
            {
                "`command` needs a program"
            }
            (Some(_), None) if !self.headers.is_empty() => "`headers` belong to `url`",
            (None, Some(_)) if !self.env.is_empty() || self.cwd.is_some() => {
                "`env` and `cwd` belong to `command`"
            }
            _ => return None,
        };
        Some(wrong.to_owned())
    }
}
