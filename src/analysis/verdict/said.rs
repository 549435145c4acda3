//! Holds what a verdict says: a sentence, and the few words of a table cell.

use crate::analysis::{format, stated};

/// A verdict in a sentence, and in the few words of a table cell.
pub(super) struct Said {
    pub(super) sentence: String,
    /// Empty if the sentence is short enough.
    pub(super) brief: String,
}

impl From<String> for Said {
    fn from(sentence: String) -> Self {
        Self {
            sentence,
            brief: String::new(),
        }
    }
}

impl Said {
    /// Creates a verdict with a brief form.
    pub(super) fn new(sentence: String, brief: String) -> Self {
        Self { sentence, brief }
    }

    /// Describes a limit that was reached: "Step limit reached after step 5: 6 steps, limit 6", in
    /// brief "Step limit: 6 of 6 steps". `headline` is "Step limit reached".
    pub(super) fn limit(headline: &str, rest: &str, reached: Option<(f64, f64, &str)>) -> Self {
        let name = headline.strip_suffix(" reached").unwrap_or(headline);
        let Some((measured, limit, unit)) = reached else {
            let brief = format!("{name}{rest}");
            return Self::new(format!("{headline}{rest}"), brief);
        };
        let sentence = format!(
            "{headline}{rest}: {}",
            stated::compared(measured, limit, unit)
        );
        Self::new(
            sentence,
            format!("{name}: {}", of_limit(measured, limit, unit)),
        )
    }
}

/// Formats "10 of 10 steps", "840 ms of 700 ms", "$0.08 of $0.05".
pub(super) fn of_limit(measured: f64, limit: f64, unit: &str) -> String {
    let used = match unit {
        "ms" | "usd" => format::amount(measured, unit),
        _ => format::amount(measured, ""),
    };
    format!("{used} of {}", format::amount(limit, unit))
}

impl std::ops::Add<&str> for Said {
    type Output = Self;

    fn add(mut self, note: &str) -> Self {
        self.sentence.push_str(note);
        self
    }
}
