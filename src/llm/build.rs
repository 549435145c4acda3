//! Builds an engine from an agent file: its model, tools, critics and rules.

use std::ffi::OsString;

use super::client::Client;
use super::config::{AgentFile, CriticPart, Protocol, ToolName};
use super::critics::{CommandCritic, Common, JudgeCritic, RegexCritic};
use super::endpoint::{Endpoint, Timeouts};
use super::retry::Retry;
use super::secret::{Scrubbed, Secret};
use crate::engine::parse::{JsonText, ReAct, XmlText};
use crate::engine::{Builder, Engine, ModelAgent, Tool};
use crate::error::Result;
use crate::tools::{
    ListDir, ReadFile, ReplaceLines, RunCommand, Search, Workspace, WriteFile, passed_on,
};

/// The inputs for an engine that an agent file doesn't contain.
#[derive(Debug, Clone, Default)]
pub struct AgentContext {
    /// The API key.
    pub key: Secret,
    /// The environment. Commands get a few harmless variables from it.
    pub environment: Vec<(OsString, OsString)>,
    /// Seed for the random part of waits before retries.
    pub seed: u64,
}

impl AgentFile {
    /// Creates the builder of the agent's engine. The caller still has to set where to record the
    /// run and how to cancel it.
    ///
    /// # Errors
    /// Fails if the workspace doesn't exist, or if the endpoint's address or the key can't be used.
    pub fn engine(&self, context: &AgentContext) -> Result<Builder<ModelAgent>> {
        let dir = self.workspace();
        let workspace = Workspace::open(&dir).map_err(|error| {
            error.hint(format!(
                "`dir` under [workspace] in {} sets it",
                self.path.display()
            ))
        })?;
        let endpoint = self.endpoint(context);
        let engine = Engine::builder(ModelAgent::new(&self.name, &self.system))
            .model(Client::new(endpoint.clone())?)
            .workspace(workspace.root())
            .history(self.history)
            .prices(self.prices.clone());
        let engine = self.limits(engine);
        let engine = match self.protocol {
            Protocol::Native => engine,
            Protocol::React => engine.parser(ReAct),
            Protocol::Json => engine.parser(JsonText),
            Protocol::Xml => engine.parser(XmlText),
        };
        let engine = if self.gate.is_empty() {
            engine
        } else {
            engine.guard(self.gate.clone())
        };
        let rules = self.completion.iter().chain(&self.policies).cloned();
        let engine = rules.fold(engine, Builder::stop);
        let shell = RunCommand::new(workspace.clone())
            .environment(passed_on(context.environment.iter().cloned()))
            .timeout(self.workspace.command_timeout_s.0)
            .max_output_bytes(self.workspace.max_output_bytes);
        let engine = self.tools(engine, &workspace, &shell, &context.key);
        self.critics.iter().try_fold(engine, |engine, critic| {
            self.critic(engine, critic, &endpoint, &shell)
        })
    }

    fn endpoint(&self, context: &AgentContext) -> Endpoint {
        let model = &self.model;
        let whole = model.timeout_s.0;
        Endpoint {
            base_url: model.base_url.clone(),
            model: model.model.clone(),
            key: context.key.clone(),
            stream: model.stream,
            settings: self.settings.clone(),
            context_window: model.context_window,
            send_fields: model.send_reasoning,
            retry: Retry {
                retries: model.retries,
                seed: context.seed,
                ..Retry::default()
            },
            timeouts: Timeouts {
                connect: model.connect_timeout_s.0,
                first_byte: model.first_byte_timeout_s.map_or(whole, |limit| limit.0),
                whole,
            },
        }
    }

    fn limits(&self, mut engine: Builder<ModelAgent>) -> Builder<ModelAgent> {
        let limits = &self.budget;
        if let Some(steps) = limits.steps {
            engine = engine.max_steps(steps);
        }
        if let Some(seconds) = limits.seconds {
            engine = engine.max_runtime(seconds.0);
        }
        if let Some(tokens) = limits.tokens {
            engine = engine.max_tokens(tokens);
        }
        // Without it, twice `seconds`.
        if let Some(seconds) = limits.hard_seconds {
            engine = engine.hard_timeout(seconds.0);
        }
        engine
    }

    fn tools(
        &self,
        engine: Builder<ModelAgent>,
        workspace: &Workspace,
        shell: &RunCommand,
        key: &Secret,
    ) -> Builder<ModelAgent> {
        fn add(
            engine: Builder<ModelAgent>,
            tool: impl Tool + 'static,
            key: &Secret,
        ) -> Builder<ModelAgent> {
            engine.tool(Scrubbed::new(tool, key.clone()))
        }
        let at = || workspace.clone();
        self.workspace
            .tools
            .iter()
            .fold(engine, |engine, name| match name {
                ToolName::ReadFile => add(
                    engine,
                    ReadFile::new(at(), self.workspace.max_output_bytes),
                    key,
                ),
                ToolName::WriteFile => add(engine, WriteFile::new(at()), key),
                ToolName::ReplaceLines => add(engine, ReplaceLines::new(at()), key),
                ToolName::ListDir => add(engine, ListDir::new(at()), key),
                ToolName::Search => add(engine, Search::new(at()), key),
                ToolName::RunCommand => add(engine, shell.clone(), key),
            })
    }

    fn critic(
        &self,
        engine: Builder<ModelAgent>,
        part: &CriticPart,
        endpoint: &Endpoint,
        shell: &RunCommand,
    ) -> Result<Builder<ModelAgent>> {
        let common = |name: &Option<String>, kind: &str, when, on_fail| {
            let name = name.clone().unwrap_or_else(|| kind.to_owned());
            Common {
                name,
                when,
                on_fail,
            }
        };
        Ok(match part {
            CriticPart::Command {
                name,
                command,
                timeout_s,
                when,
                on_fail,
            } => engine.critic(CommandCritic {
                common: common(name, "command", *when, *on_fail),
                command: command.clone(),
                limit: timeout_s.unwrap_or(self.workspace.command_timeout_s).0,
                shell: shell.clone(),
                secret: endpoint.key.clone(),
            }),
            CriticPart::Regex {
                name,
                pattern,
                want,
                when,
                on_fail,
            } => engine.critic(RegexCritic {
                common: common(name, "regex", *when, *on_fail),
                pattern: pattern.0.clone(),
                want: *want,
            }),
            CriticPart::Judge {
                name,
                criteria,
                threshold,
                model,
                when,
                on_fail,
            } => engine.critic(JudgeCritic {
                common: common(name, "judge", *when, *on_fail),
                criteria: criteria.clone(),
                threshold: *threshold,
                prices: self.prices.clone(),
                model: Client::new(Endpoint {
                    model: model.clone().unwrap_or_else(|| endpoint.model.clone()),
                    stream: false,
                    ..endpoint.clone()
                })?,
            }),
        })
    }
}
