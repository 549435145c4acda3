//! Defines the rule that matches the model's text against a pattern. A pattern that doesn't compile
//! stops the run at its first gate.

use regex::{Regex, RegexBuilder};

use super::*;
use crate::stop::args::MAX_REGEX_BYTES;
use crate::stop::facts::Text;

/// Stops if the model's text matches the pattern, before the step's actions run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ContentMatch {
    /// A regular expression that may match anywhere in the text; empty is off.
    pub pattern: String,
}

impl ContentMatch {
    pub(in crate::stop) const ROW: &'static Row = &Row {
        name: "content_match",
        label: "Text in the reply",
        usage: "content_match=REGEX",
        example: "content_match=(?i)done",
        when: "the model's text isn't empty and matches the pattern",
        off: Some("content_match="),
        reads: Reads::Texts,
        field: Some(Field::new(FieldGroup::Answer, Input::Text)),
        parse: |args| {
            Ok(ContentMatch {
                pattern: args.text()?,
            }
            .into())
        },
        ..Row::BASE
    };

    fn regex(&self) -> Result<Regex, regex::Error> {
        RegexBuilder::new(&self.pattern)
            .size_limit(MAX_REGEX_BYTES)
            .build()
    }
}

impl Rule for ContentMatch {
    fn value(&self) -> Option<String> {
        Some(self.pattern.clone())
    }

    fn limit(&self) -> Amount<'_> {
        Amount::Text(self.pattern.as_str().into())
    }

    fn compile(&self, _: Compiler<'_>) -> Result<Box<dyn Condition>, SpecError> {
        let pattern = self.pattern.clone();
        Ok(match self.regex() {
            Ok(regex) => Box::new(Matcher { pattern, regex }),
            Err(error) => Box::new(Invalid {
                pattern,
                error: error.to_string(),
            }),
        })
    }

    fn lint(&self) -> Option<String> {
        let error = self.regex().err()?.to_string();
        // The last line of a syntax error says what is wrong. The lines before it show where.
        let why = error
            .lines()
            .last()
            .unwrap_or_default()
            .trim_start_matches("error: ");
        Some(format!(
            "the pattern {:?} doesn't compile: {why}",
            self.pattern
        ))
    }
}

struct Matcher {
    pattern: String,
    regex: Regex,
}

impl Condition for Matcher {
    fn gates(&self) -> GateSet {
        AFTER_DECIDE
    }

    /// A step without text never matches, even if the pattern matches the empty string.
    fn check(&self, _: GateSet, _: &Stats, facts: &StepFacts) -> Check {
        if self.pattern.is_empty() {
            return Check::Off("empty pattern".into());
        }
        let text = match &facts.text {
            Text::Known(text) if text.is_empty() => return Check::pass(),
            Text::Known(text) => text,
            Text::Redacted { len: 0, .. } => return Check::pass(),
            _ => return Check::Unknown("the model's text".into()),
        };
        match self.regex.find(text) {
            Some(found) => Check::Stop {
                code: ContentMatch::ROW.code(),
                reading: Reading::text(format!("the text matches {:?}", self.pattern))
                    .evidence([span(facts, found.start(), found.end())]),
            },
            None => Check::pass(),
        }
    }
}

/// Stops the run before its first step, because a rule that can't work must not let any step run.
struct Invalid {
    pattern: String,
    error: String,
}

impl Condition for Invalid {
    fn gates(&self) -> GateSet {
        GateSet::ALL
    }

    fn check(&self, _: GateSet, _: &Stats, _: &StepFacts) -> Check {
        let detail = format!(
            "the pattern {:?} doesn't compile: {}",
            self.pattern, self.error
        );
        Check::Stop {
            code: Code::InvalidRegex,
            reading: Reading::text(detail),
        }
    }

    fn fails_closed(&self) -> bool {
        true
    }
}
