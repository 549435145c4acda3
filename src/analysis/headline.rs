//! Represents an answer as a headline and further sentences, which a page shows smaller.

use std::fmt;

use serde::{Serialize, Serializer};

/// A headline with details, in full sentences.
#[derive(Debug, Clone, Default)]
pub(crate) struct Headline {
    /// The answer in one sentence.
    pub(crate) lead: String,
    /// Further sentences. May be empty.
    pub(crate) more: String,
}

impl Headline {
    /// Puts words before the headline.
    pub(crate) fn after(mut self, words: &str) -> Self {
        self.lead.insert_str(0, words);
        self
    }

    /// Adds a sentence.
    pub(crate) fn and(mut self, sentence: &str) -> Self {
        if !self.more.is_empty() {
            self.more.push(' ');
        }
        self.more += sentence;
        self
    }
}

impl From<String> for Headline {
    fn from(lead: String) -> Self {
        let more = String::new();
        Self { lead, more }
    }
}

impl fmt::Display for Headline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.lead)?;
        match &*self.more {
            "" => Ok(()),
            more => write!(f, " {more}"),
        }
    }
}

impl Serialize for Headline {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}
