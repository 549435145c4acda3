//! Parses the critics of an agent file.

use regex::{Regex, RegexBuilder};
use serde::Deserialize;

use super::Seconds;

/// Maximum size of a compiled pattern, in bytes. Matching takes linear time, but compiling may not.
const MAX_REGEX_BYTES: usize = 1 << 20;

/// A critic as written in the file.
#[derive(Debug, Clone, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub(in crate::llm) enum CriticPart {
    Command {
        name: Option<String>,
        command: String,
        timeout_s: Option<Seconds>,
        #[serde(default)]
        when: When,
        #[serde(default)]
        on_fail: OnFail,
    },
    Regex {
        name: Option<String>,
        pattern: Pattern,
        #[serde(default = "yes")]
        want: bool,
        #[serde(default)]
        when: When,
        #[serde(default)]
        on_fail: OnFail,
    },
    Judge {
        name: Option<String>,
        criteria: String,
        #[serde(default = "half")]
        threshold: f64,
        model: Option<String>,
        #[serde(default)]
        when: When,
        #[serde(default)]
        on_fail: OnFail,
    },
}

fn yes() -> bool {
    true
}

fn half() -> f64 {
    0.5
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(in crate::llm) enum When {
    #[default]
    Answer,
    EveryStep,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(in crate::llm) enum OnFail {
    #[default]
    Retry,
    Stop,
    Continue,
}

/// A regular expression that compiles.
#[derive(Debug, Clone, Deserialize)]
#[serde(try_from = "String")]
pub(in crate::llm) struct Pattern(pub(in crate::llm) Regex);

impl TryFrom<String> for Pattern {
    type Error = String;

    fn try_from(pattern: String) -> std::result::Result<Self, String> {
        let built = RegexBuilder::new(&pattern)
            .size_limit(MAX_REGEX_BYTES)
            .build();
        built.map(Self).map_err(|wrong| {
            // The crate's message shows the location on several lines. The last line says what is
            // wrong.
            let wrong = wrong.to_string();
            let last = wrong.lines().last().unwrap_or_default().trim();
            format!(
                "the pattern {pattern:?} doesn't compile: {}",
                last.trim_start_matches("error: ")
            )
        })
    }
}
