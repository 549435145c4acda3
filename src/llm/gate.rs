//! Limits the tools of an agent, by three lists in the agent file: denied, allowed if a person
//! agrees, and allowed.
//!
//! `deny` takes precedence over `ask`, and `ask` over `allow`. If there is an `allow` list, all
//! other tools are denied. So if a tool is in two lists, the stricter one applies.

use regex::Regex;

use crate::engine::{Guard, GuardCx, LastCalls, Pass};

/// The lists, as patterns of tool names.
#[derive(Debug, Clone, Default)]
pub(super) struct GateRules {
    /// `None` allows every tool that isn't denied.
    pub(super) allow: Option<Vec<Glob>>,
    pub(super) deny: Vec<Glob>,
    pub(super) ask: Vec<Glob>,
}

/// A pattern in which `*` matches any text and `?` any character.
#[derive(Debug, Clone)]
pub(super) struct Glob {
    text: String,
    pattern: Regex,
}

impl Glob {
    /// Returns `None` if the text is too long for a pattern.
    pub(super) fn new(text: &str) -> Option<Self> {
        let pattern = regex::escape(text).replace(r"\*", ".*").replace(r"\?", ".");
        let pattern = Regex::new(&format!("^(?s:{pattern})$")).ok()?;
        Some(Self {
            text: text.to_owned(),
            pattern,
        })
    }

    /// Returns the pattern as written.
    pub(super) fn text(&self) -> &str {
        &self.text
    }

    pub(super) fn matches(&self, name: &str) -> bool {
        self.pattern.is_match(name)
    }
}

impl GateRules {
    /// Returns whether there are no rules.
    pub(super) fn is_empty(&self) -> bool {
        self.allow.is_none() && self.deny.is_empty() && self.ask.is_empty()
    }

    fn pass(&self, tool: &str) -> Pass {
        let first = |list: &[Glob]| {
            list.iter()
                .find(|glob| glob.matches(tool))
                .map(|glob| glob.text.clone())
        };
        if let Some(glob) = first(&self.deny) {
            return Pass::Deny(format!("the agent file denies {glob}"));
        }
        if let Some(glob) = first(&self.ask) {
            return Pass::Ask(format!("the agent file requires approval for {glob}"));
        }
        match self.allow.as_deref().map(first) {
            Some(None) => Pass::Deny(format!("the agent file does not allow {tool}")),
            _ => Pass::Allow,
        }
    }
}

impl Guard<LastCalls> for GateRules {
    fn name(&self) -> &str {
        "gate"
    }

    async fn judge(&self, call: GuardCx<'_, LastCalls>) -> Result<Pass, String> {
        Ok(self.pass(call.tool))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(allow: Option<&[&str]>, deny: &[&str], ask: &[&str]) -> GateRules {
        let globs = |list: &[&str]| list.iter().map(|text| Glob::new(text).unwrap()).collect();
        GateRules {
            allow: allow.map(globs),
            deny: globs(deny),
            ask: globs(ask),
        }
    }

    #[test]
    fn the_stricter_list_decides() {
        let denied = |rules: &GateRules, tool: &str| matches!(rules.pass(tool), Pass::Deny(_));
        let asked = |rules: &GateRules, tool: &str| matches!(rules.pass(tool), Pass::Ask(_));
        let some = rules(
            Some(&["read_*", "run_command"]),
            &["write_?ile"],
            &["run_*"],
        );
        assert_eq!(some.pass("read_file"), Pass::Allow);
        assert!(
            denied(&some, "write_file") && denied(&some, "search") && asked(&some, "run_command")
        );
        let open = rules(None, &["*"], &["*"]);
        assert!(denied(&open, "read_file"));
        assert_eq!(
            rules(None, &["a.c"], &[]).pass("abc"),
            Pass::Allow,
            "a dot only matches a dot"
        );
        assert_eq!(
            rules(None, &["read"], &[]).pass("read_file"),
            Pass::Allow,
            "the whole name must match"
        );
        assert!(
            denied(&rules(Some(&[]), &[], &[]), "read_file"),
            "an empty list allows nothing"
        );
    }
}
