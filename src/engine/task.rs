//! What is an agent asked to do? A task with its files, limits and needs, and what must be right before the first step.

use std::path::{Component, Path};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::stop::{Budget, Origin};

/// A task.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct Task {
    /// Its name; `None` for a task of words alone.
    pub id: Option<String>,
    /// What is to be done, in words.
    pub objective: String,
    /// What it works with.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub resources: Vec<Resource>,
    /// The environment it needs.
    pub env_spec: Option<EnvSpec>,
    /// What must be kept to, by name.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub constraints: Map<String, Value>,
    /// When it counts as done, in words. Whether they hold is for the agent and its critics to say; see
    /// [`State::set_criterion`](super::State::set_criterion).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub success_criteria: Vec<String>,
    /// Limits that go before the engine's, field by field.
    pub budget: TaskBudget,
    /// Values for the agent.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub inputs: Map<String, Value>,
    /// Anything else.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub metadata: Map<String, Value>,
}

/// The limits of a task; 0 lets nothing run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct TaskBudget {
    /// Completed steps.
    pub max_steps: Option<u64>,
    /// Seconds.
    pub max_runtime_seconds: Option<f64>,
    /// Tokens sent and received.
    pub max_tokens: Option<u64>,
}

/// Something a task works with.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Resource {
    /// What it is.
    pub kind: ResourceKind,
    /// Where it lies, relative to the workspace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Where it is on the network.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uri: Option<String>,
    /// Where it is copied to before the first step, relative to the workspace and inside of it. Nothing that is there is
    /// written over, and nothing is fetched from the network.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mount_to: Option<String>,
    /// Whether the run cannot begin without it: a required path must exist.
    #[serde(default)]
    pub required: bool,
}

/// Kinds of resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ResourceKind {
    /// A file.
    File,
    /// A directory.
    Dir,
    /// An address.
    Url,
    /// Something that the run makes.
    Artifact,
    /// A picture.
    Image,
}

impl Resource {
    /// A file or another thing with a path.
    pub fn at(kind: ResourceKind, path: impl Into<String>) -> Self {
        Self {
            kind,
            path: Some(path.into()),
            uri: None,
            mount_to: None,
            required: false,
        }
    }

    /// An address.
    pub fn url(uri: impl Into<String>) -> Self {
        Self {
            kind: ResourceKind::Url,
            path: None,
            uri: Some(uri.into()),
            mount_to: None,
            required: false,
        }
    }

    /// Says where in the workspace it is copied to before the first step.
    #[must_use]
    pub fn mount_to(mut self, place: impl Into<String>) -> Self {
        self.mount_to = Some(place.into());
        self
    }

    /// Says that the run cannot begin without it.
    #[must_use]
    pub fn required(mut self) -> Self {
        self.required = true;
        self
    }
}

/// The environment a task needs.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct EnvSpec {
    /// The name of the environment, where it must be a certain one.
    #[serde(rename = "type")]
    pub kind: Option<String>,
    /// How it is set up; the environment reads it when it is reset.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub config: Map<String, Value>,
    /// What it must offer.
    pub capabilities: Vec<String>,
}

/// What is wrong with a task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TaskIssue {
    /// The name of the fault; `ENV_..` where the environment does not fit, `TASK_..` elsewhere.
    pub code: &'static str,
    /// What is wrong and what to do.
    pub message: String,
    /// Where in the task.
    pub field: String,
}

impl TaskIssue {
    pub(super) fn new(
        code: &'static str,
        field: impl Into<String>,
        message: impl Into<String>,
    ) -> Self {
        Self {
            code,
            message: message.into(),
            field: field.into(),
        }
    }

    /// Whether the environment is to blame.
    pub fn is_env(&self) -> bool {
        self.code.starts_with("ENV_")
    }
}

impl From<&str> for Task {
    fn from(objective: &str) -> Self {
        Task::new(objective)
    }
}

impl From<String> for Task {
    fn from(objective: String) -> Self {
        Task::new(objective)
    }
}

impl Task {
    /// A task of words alone.
    pub fn new(objective: impl Into<String>) -> Self {
        Self {
            objective: objective.into(),
            ..Self::default()
        }
    }

    /// Names it.
    #[must_use]
    pub fn id(mut self, id: impl Into<String>) -> Self {
        self.id = Some(id.into());
        self
    }

    /// Limits its steps.
    #[must_use]
    pub fn max_steps(mut self, steps: u64) -> Self {
        self.budget.max_steps = Some(steps);
        self
    }

    /// Limits its time.
    #[must_use]
    pub fn max_runtime(mut self, seconds: f64) -> Self {
        self.budget.max_runtime_seconds = Some(seconds);
        self
    }

    /// Limits its tokens.
    #[must_use]
    pub fn max_tokens(mut self, tokens: u64) -> Self {
        self.budget.max_tokens = Some(tokens);
        self
    }

    /// Adds something it works with.
    #[must_use]
    pub fn resource(mut self, resource: Resource) -> Self {
        self.resources.push(resource);
        self
    }

    /// Names the environment it needs.
    #[must_use]
    pub fn needs(mut self, capability: impl Into<String>) -> Self {
        self.env_spec
            .get_or_insert_default()
            .capabilities
            .push(capability.into());
        self
    }

    /// Names the environment that it must run in, and how that is set up.
    #[must_use]
    pub fn env(mut self, kind: impl Into<String>, config: Map<String, Value>) -> Self {
        let spec = self.env_spec.get_or_insert_default();
        (spec.kind, spec.config) = (Some(kind.into()), config);
        self
    }

    /// Adds something that must be kept to.
    #[must_use]
    pub fn constraint(mut self, name: impl Into<String>, value: impl Into<Value>) -> Self {
        self.constraints.insert(name.into(), value.into());
        self
    }

    /// Adds a value for the agent.
    #[must_use]
    pub fn input(mut self, key: impl Into<String>, value: impl Into<Value>) -> Self {
        self.inputs.insert(key.into(), value.into());
        self
    }

    /// Says when it counts as done.
    #[must_use]
    pub fn success(mut self, criterion: impl Into<String>) -> Self {
        self.success_criteria.push(criterion.into());
        self
    }

    /// Everything that is wrong with the task itself; its paths are looked for in `workspace`.
    pub fn issues(&self, workspace: Option<&Path>) -> Vec<TaskIssue> {
        let mut issues = Vec::new();
        if self.id.as_deref().is_some_and(|id| id.trim().is_empty()) {
            issues.push(TaskIssue::new(
                "TASK_ID_INVALID",
                "id",
                "the id is empty; leave it out or give one",
            ));
        }
        if self.objective.trim().is_empty() {
            issues.push(TaskIssue::new(
                "TASK_OBJECTIVE_INVALID",
                "objective",
                "the task does not say what to do",
            ));
        }
        if self
            .budget
            .max_runtime_seconds
            .is_some_and(|limit| !(limit.is_finite() && limit >= 0.0))
        {
            let message = format!(
                "{:?} is no time in seconds",
                self.budget.max_runtime_seconds.unwrap_or_default()
            );
            issues.push(TaskIssue::new(
                "TASK_BUDGET_RUNTIME_INVALID",
                "budget.max_runtime_seconds",
                message,
            ));
        }
        for (place, resource) in self.resources.iter().enumerate() {
            resource.check(place, workspace, &mut issues);
        }
        issues
    }

    /// The task's limits as a part of the budget; a time that is no number is left to [`Task::issues`].
    pub(super) fn limits(&self) -> Budget {
        let mut budget = Budget::default();
        if let Some(steps) = self.budget.max_steps {
            budget = budget.steps(steps, Origin::Task);
        }
        if let Some(seconds) = self
            .budget
            .max_runtime_seconds
            .filter(|limit| limit.is_finite() && *limit >= 0.0)
        {
            let time =
                std::time::Duration::try_from_secs_f64(seconds).unwrap_or(std::time::Duration::MAX);
            budget = budget.time(time, Origin::Task);
        }
        if let Some(tokens) = self.budget.max_tokens {
            budget = budget.tokens(tokens, Origin::Task);
        }
        budget
    }
}

impl Resource {
    fn check(&self, place: usize, workspace: Option<&Path>, issues: &mut Vec<TaskIssue>) {
        let field = format!("resources[{place}]");
        let place = self
            .path
            .as_deref()
            .or(self.uri.as_deref())
            .filter(|place| !place.trim().is_empty());
        let Some(place) = place else {
            let message = "needs a path or a uri";
            issues.push(TaskIssue::new(
                "TASK_RESOURCE_LOCATOR_MISSING",
                field,
                message,
            ));
            return;
        };
        if let Some(wrong) = self
            .mount_to
            .as_deref()
            .and_then(|to| self.wrong_mount(to, workspace))
        {
            issues.push(TaskIssue::new(
                "TASK_RESOURCE_MOUNT_INVALID",
                field.clone(),
                wrong,
            ));
        }
        if !self.required || self.path.is_none() {
            return;
        }
        let path = workspace.map_or_else(
            || Path::new(place).to_owned(),
            |workspace| workspace.join(place),
        );
        let there = match self.kind {
            ResourceKind::Dir => path.is_dir(),
            ResourceKind::File | ResourceKind::Image => path.is_file(),
            ResourceKind::Url | ResourceKind::Artifact => path.exists(),
        };
        if !there {
            let kind = if self.kind == ResourceKind::Dir {
                "directory"
            } else {
                "file"
            };
            let message = format!("the required {kind} {place:?} is not there");
            issues.push(TaskIssue::new("TASK_RESOURCE_MISSING", field, message));
        }
    }

    /// Why it cannot be copied to `to`.
    fn wrong_mount(&self, to: &str, workspace: Option<&Path>) -> Option<String> {
        if self.path.is_none() {
            return Some(format!(
                "what is to be at {to:?} has no path, and nothing is fetched from the network"
            ));
        }
        if workspace.is_none() {
            return Some(format!(
                "{to:?} is a place in the workspace, and the engine was given none"
            ));
        }
        let is_inside = Path::new(to)
            .components()
            .all(|part| matches!(part, Component::Normal(_)));
        (to.is_empty() || !is_inside)
            .then(|| format!("{to:?} does not name a place inside of the workspace"))
    }
}
