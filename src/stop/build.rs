//! Builds a set of rules: collects them, validates them and compiles each one once.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use serde_json::Value;

use super::args::SpecError;
use super::custom::{SchemaCheck, SchemaCompiler, StopCriterion, StopCx, When};
use super::entry::{Ask, Entry};
use super::record::{EntryRule, RuleEntry, StopRules};
use super::set::StopSet;
use crate::model::{Budget, Gate, Origin};

enum Draft<S> {
    Written(RuleEntry),
    Live(Box<dyn StopCriterion<S>>),
}

type Schemas = Box<dyn Fn(&Value) -> Result<Arc<dyn SchemaCheck>, String>>;

impl<S> StopSet<S> {
    /// Returns an empty builder. A set without rules stops at the first final decision.
    pub fn builder() -> StopSetBuilder<S> {
        StopSetBuilder::default()
    }
}

/// Builds a [`StopSet`]. Within a list, rules keep the order in which they are added.
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
    /// Sets the budget's limits. A limit given here replaces an earlier one; other limits are kept.
    #[must_use]
    pub(crate) fn budget(mut self, budget: Budget) -> Self {
        self.budget = self.budget.overridden_by(budget);
        self
    }

    /// Returns whether the budget limits the steps.
    pub(crate) fn limits_steps(&self) -> bool {
        self.budget.steps.is_some()
    }

    /// Adds a rule to the list it belongs to: rules that accept answers go to the completion list,
    /// all others to the policies.
    #[must_use]
    pub fn rule(self, rule: impl Into<RuleEntry>) -> Self {
        let entry = rule.into();
        match &entry.rule {
            EntryRule::Spec(spec) if spec.is_completion() => self.accept(entry),
            _ => self.policy(entry),
        }
    }

    /// Adds a completion rule, which accepts answers.
    #[must_use]
    pub fn accept(mut self, rule: impl Into<RuleEntry>) -> Self {
        self.completion.push(Draft::Written(rule.into()));
        self
    }

    /// Adds a policy, which ends the run.
    #[must_use]
    pub fn policy(mut self, rule: impl Into<RuleEntry>) -> Self {
        self.policies.push(Draft::Written(rule.into()));
        self
    }

    /// Adds a custom completion rule. A stop from it accepts the answer.
    #[must_use]
    pub fn accept_with(mut self, rule: impl StopCriterion<S> + 'static) -> Self {
        self.completion.push(Draft::Live(Box::new(rule)));
        self
    }

    /// Adds a custom policy, which ends the run.
    #[must_use]
    pub fn policy_with(mut self, rule: impl StopCriterion<S> + 'static) -> Self {
        self.policies.push(Draft::Live(Box::new(rule)));
        self
    }

    /// Adds a completion rule that accepts a candidate answer if `holds` returns true.
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

    /// Adds a policy that ends the run if `holds` returns true at `gate`.
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

    /// Adds all rules of a record or file, and the limits of its budget.
    #[must_use]
    pub fn rules(mut self, rules: StopRules) -> Self {
        self.completion
            .extend(rules.completion.into_iter().map(Draft::Written));
        self.policies
            .extend(rules.policies.into_iter().map(Draft::Written));
        self.budget(rules.budget)
    }

    /// Sets the schema validator for `structured_output` rules. It replaces the built-in one of the
    /// feature `board`.
    #[must_use]
    pub fn schemas(
        mut self,
        compile: impl Fn(&Value) -> Result<Arc<dyn SchemaCheck>, String> + 'static,
    ) -> Self {
        self.schemas = Some(Box::new(compile));
        self
    }

    /// Builds the set, and rejects rules that are likely mistakes.
    ///
    /// # Errors
    /// Fails like [`StopSetBuilder::build_fail_closed`], and for a pattern that doesn't compile.
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

    /// Builds the set from a file that is already in use. A pattern that doesn't compile is
    /// accepted here, and its rule stops the run at the first gate.
    ///
    /// # Errors
    /// Fails if a group is empty, a schema can't be used, a completion rule never accepts an
    /// answer, or a rule's id is empty, reserved or already taken.
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
                    "{id} never accepts an answer, so it must be a policy"
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
                let why = match (id.is_empty(), reserved) {
                    (true, _) => "is empty",
                    (_, true) => "is reserved for the engine",
                    _ => "is already taken",
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
