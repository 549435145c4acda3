//! Defines tasks, with their files, limits and requirements, and the checks before the first step.

use std::path::{Component, Path};
use std::time::Duration;

use fluent_uri::Iri;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::stop::{Budget, Origin};

/// A task for an agent.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct Task {
    /// The task's id. `None` for a task that only has an objective.
    pub id: Option<String>,
    /// The objective, in words.
    pub objective: String,
    /// The resources for the task.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub resources: Vec<Resource>,
    /// The required environment.
    pub env_spec: Option<EnvSpec>,
    /// Constraints, by name.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub constraints: Map<String, Value>,
    /// Success criteria, in words. The agent and its critics judge whether they hold; see
    /// [`State::set_criterion`](super::State::set_criterion).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub success_criteria: Vec<String>,
    /// Limits that override the engine's. Limits that aren't set here are the engine's.
    pub budget: TaskBudget,
    /// Values for the agent.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub inputs: Map<String, Value>,
    /// Additional data.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub metadata: Map<String, Value>,
}

/// The limits of a task. A limit of 0 allows nothing to run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct TaskBudget {
    /// Completed steps.
    pub max_steps: Option<u64>,
    /// Run time in seconds.
    pub max_runtime_seconds: Option<f64>,
    /// Input and output tokens.
    pub max_tokens: Option<u64>,
}

/// A resource for a task.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Resource {
    /// The kind of resource.
    pub kind: ResourceKind,
    /// The path, relative to the workspace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// The network address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uri: Option<String>,
    /// Where to copy the resource before the first step: a path inside the workspace, relative to
    /// it. Existing files aren't overwritten, and nothing is fetched from the network.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mount_to: Option<String>,
    /// Whether the resource is required. A required path must exist before the run starts, and a
    /// required network address must have a scheme and a host. Nothing is fetched.
    #[serde(default)]
    pub required: bool,
}

/// The kind of a resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ResourceKind {
    /// A file.
    File,
    /// A directory.
    Dir,
    /// A network address.
    Url,
    /// A file or directory from an earlier run.
    Artifact,
    /// An image.
    Image,
}

impl Resource {
    /// Creates a resource with a path.
    pub fn at(kind: ResourceKind, path: impl Into<String>) -> Self {
        Self {
            kind,
            path: Some(path.into()),
            uri: None,
            mount_to: None,
            required: false,
        }
    }

    /// Creates a resource with a network address.
    pub fn url(uri: impl Into<String>) -> Self {
        Self {
            kind: ResourceKind::Url,
            path: None,
            uri: Some(uri.into()),
            mount_to: None,
            required: false,
        }
    }

    /// Sets where in the workspace to copy the resource before the first step.
    #[must_use]
    pub fn mount_to(mut self, place: impl Into<String>) -> Self {
        self.mount_to = Some(place.into());
        self
    }

    /// Marks the resource as required.
    #[must_use]
    pub fn required(mut self) -> Self {
        self.required = true;
        self
    }
}

/// The environment that a task requires.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct EnvSpec {
    /// The environment's name, if a specific one is required.
    #[serde(rename = "type")]
    pub kind: Option<String>,
    /// The configuration, which the environment reads when it is reset.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub config: Map<String, Value>,
    /// The required capabilities.
    pub capabilities: Vec<String>,
}

/// A problem with a task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct TaskIssue {
    /// The code: `ENV_..` if the environment doesn't match the task, `TASK_..` otherwise.
    pub(super) code: &'static str,
    /// What is wrong and what to do.
    pub(super) message: String,
    /// The field of the task.
    pub(super) field: String,
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

    /// Returns whether the problem is the environment.
    pub(super) fn is_env(&self) -> bool {
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
    /// Creates a task that only has an objective.
    pub fn new(objective: impl Into<String>) -> Self {
        Self {
            objective: objective.into(),
            ..Self::default()
        }
    }

    /// Sets the id.
    #[must_use]
    pub fn id(mut self, id: impl Into<String>) -> Self {
        self.id = Some(id.into());
        self
    }

    /// Limits the steps of this task. Overrides the engine's limit, as do the two methods below.
    #[must_use]
    pub fn max_steps(mut self, steps: u64) -> Self {
        self.budget.max_steps = Some(steps);
        self
    }

    /// Limits the run time.
    #[must_use]
    pub fn max_runtime(mut self, limit: Duration) -> Self {
        self.budget.max_runtime_seconds = Some(limit.as_secs_f64());
        self
    }

    /// Limits the input and output tokens.
    #[must_use]
    pub fn max_tokens(mut self, tokens: u64) -> Self {
        self.budget.max_tokens = Some(tokens);
        self
    }

    /// Adds a resource.
    #[must_use]
    pub fn resource(mut self, resource: Resource) -> Self {
        self.resources.push(resource);
        self
    }

    /// Adds a capability that the environment must have.
    #[must_use]
    pub fn needs(mut self, capability: impl Into<String>) -> Self {
        self.env_spec
            .get_or_insert_default()
            .capabilities
            .push(capability.into());
        self
    }

    /// Sets the required environment and its configuration.
    #[must_use]
    pub fn env(mut self, kind: impl Into<String>, config: Map<String, Value>) -> Self {
        let spec = self.env_spec.get_or_insert_default();
        (spec.kind, spec.config) = (Some(kind.into()), config);
        self
    }

    /// Adds a constraint.
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

    /// Adds data, which is recorded in the manifest.
    #[must_use]
    pub fn metadata(mut self, key: impl Into<String>, value: impl Into<Value>) -> Self {
        self.metadata.insert(key.into(), value.into());
        self
    }

    /// Adds a success criterion.
    #[must_use]
    pub fn success(mut self, criterion: impl Into<String>) -> Self {
        self.success_criteria.push(criterion.into());
        self
    }

    /// Returns all problems of the task itself. Paths are resolved in `workspace`.
    pub(super) fn issues(&self, workspace: Option<&Path>) -> Vec<TaskIssue> {
        let mut issues = Vec::new();
        if self.id.as_deref().is_some_and(|id| id.trim().is_empty()) {
            issues.push(TaskIssue::new(
                "TASK_ID_INVALID",
                "id",
                "the id is empty; omit it or give one",
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
                "{:?} is not a time in seconds",
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

    /// Returns the task's limits as a budget. Skips an invalid time, which `issues`
    /// reports.
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
        if !self.required {
            return;
        }
        if let Some(wrong) = self.uri.as_deref().and_then(wrong_address) {
            let code = "TASK_RESOURCE_URI_INVALID";
            issues.push(TaskIssue::new(code, field.clone(), wrong));
        }
        if self.path.is_none() {
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
            let message = format!("the required {kind} {place:?} does not exist");
            issues.push(TaskIssue::new("TASK_RESOURCE_MISSING", field, message));
        }
    }

    /// Returns why the resource can't be copied to `to`.
    fn wrong_mount(&self, to: &str, workspace: Option<&Path>) -> Option<String> {
        if self.path.is_none() {
            return Some(format!(
                "the resource for {to:?} has no path, and resources are not fetched from the network"
            ));
        }
        if workspace.is_none() {
            return Some(format!(
                "{to:?} is a path in the workspace, but the engine has no workspace"
            ));
        }
        let is_inside = Path::new(to)
            .components()
            .all(|part| matches!(part, Component::Normal(_)));
        (to.is_empty() || !is_inside).then(|| format!("{to:?} is not a path inside the workspace"))
    }
}

/// Returns why this isn't a network address with a scheme and a host.
fn wrong_address(text: &str) -> Option<String> {
    let why = match Iri::parse(text) {
        Err(error) => format!(": {error}"),
        Ok(address) => match address.authority() {
            Some(authority) if !authority.host().is_empty() => return None,
            _ => String::new(),
        },
    };
    Some(format!(
        "the required address {text:?} needs a scheme and a host, as in https://example.com{why}"
    ))
}
