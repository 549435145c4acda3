//! Parses the headline of an end. Headlines are board's own words, which the reader of each
//! format writes in one of these forms. They never contain text of a trace.

/// What a headline names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Named<'a> {
    /// A limit: "Turn limit", of "Turn limit reached".
    Limit(&'a str),
    /// A kind of error: "agent error", of "Failed with an agent error".
    Error(&'a str),
    /// An interruption, and who caused it: " by the user", of "Interrupted by the user".
    Interruption(&'a str),
    /// Anything else: the headline itself.
    Other(&'a str),
}

impl<'a> Named<'a> {
    /// Returns what a headline names.
    pub fn of(headline: &'a str) -> Self {
        let starts = |starts: &[&str]| starts.iter().find_map(|it| headline.strip_prefix(it));
        if let Some(name) = limit_of(headline) {
            Self::Limit(name)
        } else if let Some(kind) = starts(&["Failed with an ", "Failed with a "]) {
            Self::Error(kind)
        } else if let Some(who) = starts(&["Interrupted"]) {
            Self::Interruption(who)
        } else {
            Self::Other(headline)
        }
    }
}

/// Returns the limit that a headline names: "Step limit", of "Step limit reached".
pub fn limit_of(headline: &str) -> Option<&str> {
    headline.strip_suffix(" reached")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_headline_names_what_ended_the_run() {
        for (headline, named) in [
            ("Turn limit reached", Named::Limit("Turn limit")),
            ("Failed with an agent error", Named::Error("agent error")),
            ("Failed with a sandbox error", Named::Error("sandbox error")),
            (
                "Interrupted by the user",
                Named::Interruption(" by the user"),
            ),
            ("Interrupted", Named::Interruption("")),
            ("API error", Named::Other("API error")),
        ] {
            assert_eq!(Named::of(headline), named, "{headline}");
        }
    }
}
