//! How does a set of rules come about? Declared, checked, and made ready once.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use serde_json::Value;

use super::StopSet;
use super::custom::{SchemaCheck, SchemaCompiler, StopCriterion, StopCx, When};
use super::facts::GateSet;
use super::record::{EntryRule, RuleEntry, StopRules};
use super::rules::Condition;
use super::spec::SpecError;
use crate::model::{Budget, Gate, Origin};

/// A rule in its place.
pub(super) struct Entry<S> {
    pub(super) id: String,
    pub(super) from: Origin,
    pub(super) gates: GateSet,
    pub(super) ask: Ask<S>,
    /// The rule as it is recorded.
    pub(super) written: EntryRule,
}

/// Whom to ask.
pub(super) enum Ask<S> {
    Built(Box<dyn Condition>),
    Live(Box<dyn StopCriterion<S>>),
    /// A rule in code whose code is not here: only its recorded answers are.
    Recorded,
}

enum Draft<S> {
    Written(RuleEntry),
    Live(Box<dyn StopCriterion<S>>),
}

type Schemas = Box<dyn Fn(&Value) -> Result<Arc<dyn SchemaCheck>, String>>;

/// Collects the rules of a [`StopSet`]. Within a list the order of the calls is the order of the rules.
pub struct StopSetBuilder<S = ()> {
    budget: Budget,
    completion: Vec<Draft<S>>,
    policies: Vec<Draft<S>>,
    schemas: Option<Schemas>,
}

impl<S> Default for StopSetBuilder<S> {
    fn default() -> Self {
        Self {
            budget: Budget::default(),
            completion: Vec::new(),
            policies: Vec::new(),
            schemas: None,
        }
    }
}

impl<S> fmt::Debug for StopSetBuilder<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (completion, policies) = (self.completion.len(), self.policies.len());
        write!(
            f,
            "StopSetBuilder {{ {:?}, {completion} completion rules, {policies} policies }}",
            self.budget
        )
    }
}

impl<S> StopSetBuilder<S> {
    /// Sets the budget, field by field over what was set before.
    #[must_use]
    pub fn budget(mut self, budget: Budget) -> Self {
        self.budget = self.budget.overridden_by(budget);
        self
    }

    /// Adds a rule to the list it belongs to: those that accept answers to the completion list, others to the policies.
    #[must_use]
    pub fn rule(self, rule: impl Into<RuleEntry>) -> Self {
        let entry = rule.into();
        match &entry.rule {
            EntryRule::Spec(spec) if spec.is_completion() => self.accept(entry),
            _ => self.policy(entry),
        }
    }

    /// Adds a rule that accepts answers.
    #[must_use]
    pub fn accept(mut self, rule: impl Into<RuleEntry>) -> Self {
        self.completion.push(Draft::Written(rule.into()));
        self
    }

    /// Adds a rule that ends the run.
    #[must_use]
    pub fn policy(mut self, rule: impl Into<RuleEntry>) -> Self {
        self.policies.push(Draft::Written(rule.into()));
        self
    }

    /// Adds a user's rule that accepts answers; its stops accept.
    #[must_use]
    pub fn accept_with(mut self, rule: impl StopCriterion<S> + 'static) -> Self {
        self.completion.push(Draft::Live(Box::new(rule)));
        self
    }

    /// Adds a user's rule that ends the run.
    #[must_use]
    pub fn policy_with(mut self, rule: impl StopCriterion<S> + 'static) -> Self {
        self.policies.push(Draft::Live(Box::new(rule)));
        self
    }

    /// Accepts a candidate answer where `holds`.
    #[must_use]
    pub fn accept_when<F>(self, id: impl Into<String>, holds: F) -> Self
    where
        F: Fn(&StopCx<'_, S>) -> bool + Send + Sync + 'static,
    {
        self.accept_with(When {
            id: id.into(),
            gate: Gate::AfterStep,
            holds,
        })
    }

    /// Ends the run where `holds` at `gate`.
    #[must_use]
    pub fn policy_when<F>(self, id: impl Into<String>, gate: Gate, holds: F) -> Self
    where
        F: Fn(&StopCx<'_, S>) -> bool + Send + Sync + 'static,
    {
        self.policy_with(When {
            id: id.into(),
            gate,
            holds,
        })
    }

    /// Adds all rules of a record or a file.
    #[must_use]
    pub fn rules(mut self, rules: StopRules) -> Self {
        self.completion
            .extend(rules.completion.into_iter().map(Draft::Written));
        self.policies
            .extend(rules.policies.into_iter().map(Draft::Written));
        self.budget(rules.budget)
    }

    /// Hands in another validator for `structured_output` with a schema than that of the feature `schema`.
    #[must_use]
    pub fn schemas(
        mut self,
        compile: impl Fn(&Value) -> Result<Arc<dyn SchemaCheck>, String> + 'static,
    ) -> Self {
        self.schemas = Some(Box::new(compile));
        self
    }

    /// Makes the set, for a program that can still be corrected.
    ///
    /// # Errors
    /// All of [`StopSetBuilder::build_fail_closed`], and a pattern that does not compile.
    pub fn build(self) -> Result<StopSet<S>, SpecError> {
        for draft in self.completion.iter().chain(&self.policies) {
            if let Draft::Written(RuleEntry {
                rule: EntryRule::Spec(spec),
                ..
            }) = draft
                && let Some(lint) = spec.lint().into_iter().next()
            {
                return Err(SpecError::new(lint));
            }
        }
        self.build_fail_closed()
    }

    /// Makes the set from a file that is already in use: a pattern that does not compile stops the run at its first gate.
    ///
    /// # Errors
    /// An empty group, a schema that cannot be used, two rules with one id, a completion rule that accepts nothing.
    pub fn build_fail_closed(self) -> Result<StopSet<S>, SpecError> {
        let schemas = self.schemas.as_deref();
        let completion = entries("accept", self.completion, schemas)?;
        let policies = entries("stop", self.policies, schemas)?;
        for entry in &completion {
            if let EntryRule::Spec(spec) = &entry.written
                && !spec.is_completion()
            {
                let id = &entry.id;
                return Err(SpecError::new(format!(
                    "{id} never accepts an answer; it belongs to the policies"
                )));
            }
        }
        let mut seen = BTreeSet::new();
        for id in completion.iter().chain(&policies).map(|entry| &entry.id) {
            let reserved = ["decision", "agent", "env", "recovery"].contains(&id.as_str())
                || ["budget.", "critic["]
                    .iter()
                    .any(|start| id.starts_with(start));
            if id.is_empty() || reserved || !seen.insert(id) {
                let why = if reserved {
                    "is the engine's own"
                } else {
                    "is empty or taken"
                };
                return Err(SpecError::new(format!("the rule id {id:?} {why}")));
            }
        }
        Ok(StopSet {
            budget: self.budget,
            completion,
            policies,
        })
    }
}

fn entries<S>(
    list: &str,
    drafts: Vec<Draft<S>>,
    schemas: Option<SchemaCompiler<'_>>,
) -> Result<Vec<Entry<S>>, SpecError> {
    let entry = |(place, draft)| {
        Ok(match draft {
            Draft::Live(rule) => {
                let gates = rule.gates();
                let id = rule.id().to_owned();
                let written = EntryRule::Opaque { opaque: gates };
                Entry {
                    id,
                    from: Origin::default(),
                    gates,
                    ask: Ask::Live(rule),
                    written,
                }
            }
            Draft::Written(RuleEntry { id, rule, from }) => {
                let id = id.unwrap_or_else(|| format!("{list}[{place}]"));
                let (gates, ask) = match &rule {
                    EntryRule::Opaque { opaque } => (*opaque, Ask::Recorded),
                    EntryRule::Spec(spec) => {
                        let rule = spec
                            .compile(schemas)
                            .map_err(|wrong| SpecError::new(format!("{id}: {wrong}")))?;
                        (rule.gates(), Ask::Built(rule))
                    }
                };
                Entry {
                    id,
                    from,
                    gates,
                    ask,
                    written: rule,
                }
            }
        })
    };
    drafts.into_iter().enumerate().map(entry).collect()
}
