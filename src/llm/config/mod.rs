//! Parses agent files, which are TOML. Unknown keys are refused, and every error names its line.
//!
//! Independent of the engine: `build` makes an engine from the file. The keys are listed at
//! [`AgentFile`].

mod critic;
mod seconds;

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;
use serde::de::{self, Deserializer, MapAccess, Visitor, value::MapAccessDeserializer};
use serde_json::{Map, Value};
use toml::Spanned;

pub(super) use self::critic::{CriticPart, OnFail, When};
pub(super) use self::seconds::Seconds;
use super::gate::{GateRules, Glob};
use super::mcp::McpPart;
use crate::engine::Keep;
use crate::error::{Error, Kind, Result, in_plain_words};
use crate::model::price::{Price, Prices};
use crate::stop::StopSpec;

/// The default system prompt.
const SYSTEM: &str = "You work on the task that you are given, step by step, with the tools that you have. Look before you \
                      change anything, and check what you did. When the task is done, say in a few sentences what you did.";

/// A complete agent file, for `--help` and for getting started.
pub const EXAMPLE: &str = include_str!("../example.toml");

/// An agent as described by a file.
///
/// Paths are relative to the file. Only `base_url` and `model` under `[model]` have no default.
/// Unknown keys are refused.
///
/// | key | meaning | default |
/// |---|---|---|
/// | `[agent] name` | the agent's name in the trace | the file's name |
/// | `system`, `system_file` | the system prompt, inline or in a separate file | a few sentences |
/// | `protocol` | how the model decides: `native` tool calls, or text as `react`, `json` or `xml` | `native` |
/// | `max_tokens`, `temperature` | sent with each request | the server's |
/// | `history` | how much of the conversation to send: `"all"`, `{ messages = 24 }` or `{ tokens = 8000 }` | 24 messages |
/// | `[model] base_url`, `model` | the endpoint, with `/chat/completions` below it, and the model | |
/// | `api_key_env` | the environment variable with the key; `""` for no key | `OPENAI_API_KEY` |
/// | `api_key_file` | instead of `api_key_env`, a file or pipe with the key, such as `/dev/fd/3` | none |
/// | `stream` | whether to stream replies | `false` |
/// | `timeout_s`, `first_byte_timeout_s`, `connect_timeout_s` | limits of one attempt in seconds: in total, until the reply begins, and for connecting | 600, `timeout_s`, 10 |
/// | `retries` | how often to retry a temporary failure, within two minutes and the run's remaining time; then the run ends | 4 |
/// | `context_window` | the model's context window in tokens; longer requests are shortened before they are sent | unknown |
/// | `send_reasoning` | whether to send back the additional fields of a reply, such as `reasoning_content`, in later requests | until the service refuses them |
/// | `extra` | a table of additional fields for each request | none |
/// | `[workspace] dir` | the directory in which the agent works | `.` |
/// | `tools` | a list of `read_file`, `write_file`, `replace_lines`, `list_dir`, `search`, `run_command` | all except `run_command` |
/// | `command_timeout_s`, `max_output_bytes` | limits of a command, and of output per call | 60, 32768 |
/// | `[budget] steps`, `tokens` | limits checked before each step | 10 steps |
/// | `seconds` | time limit, checked before each step; also interrupts decisions and actions, but an answer that was already given is still judged | none |
/// | `hard_seconds` | time limit that interrupts everything | twice `seconds` |
/// | `[stop] completion`, `policies` | stop rules, in the short form (`"max_steps=8"`) or as tables (`{ type = "max_steps", steps = 8 }`) | none |
/// | `[gate] allow`, `deny`, `ask` | tools that are allowed, denied, or allowed if a person at the terminal agrees, as names or patterns such as `run_*`. `deny` takes precedence over `ask`, and `ask` over `allow`. If `allow` is set, all other tools are denied. Waiting for the person counts as run time: if `seconds`, `hard_seconds` or a rule limits it and no one answers in time, the call is denied | all allowed |
/// | `[[critic]] kind` | `command`, `regex` or `judge` | |
/// | `name` | the critic's name in the trace | the kind |
/// | `when` | which steps to judge: those with an `answer`, or `every_step` | `answer` |
/// | `on_fail` | `retry`, `stop` or `continue` | `retry` |
/// | `command` | (command) passes if its exit status is 0 | |
/// | `timeout_s` | (command) its time limit in seconds | `command_timeout_s` |
/// | `pattern` | (regex) passes if the text matches | |
/// | `want` | (regex) with `false`, passes if the text doesn't match | `true` |
/// | `criteria` | (judge) what to judge by, in words | |
/// | `threshold` | (judge) the lowest score that passes | 0.5 |
/// | `model` | (judge) another model at the same endpoint | the agent's |
/// | `[prices."NAME"] input`, `cached`, `output` | a model's prices in US dollars per million tokens, used if the service doesn't report the cost; the name may end in `*` | none |
/// | `[mcp.NAME] command` | a Model Context Protocol server to start, whose tools are named `NAME__TOOL`: program and arguments | |
/// | `env` | its environment variables, in addition to a few harmless ones | none |
/// | `cwd` | its directory | the workspace |
/// | `url`, `headers` | instead of `command`, a running server: its address, and headers for each request | |
/// | `tools` | which of the server's tools to use, as names or patterns | all |
/// | `timeout`, `start_timeout` | limits in seconds for a call, and until the server has listed its tools | 60, 30 |
/// | `[task] objective` | the task, if the command line has none | |
#[derive(Debug)]
pub struct AgentFile {
    pub(super) path: PathBuf,
    pub(super) name: String,
    pub(super) system: String,
    pub(super) protocol: Protocol,
    pub(super) history: Keep,
    pub(super) model: ModelPart,
    /// Additional fields for each request.
    pub(super) settings: Map<String, Value>,
    pub(super) workspace: WorkspacePart,
    pub(super) budget: BudgetPart,
    pub(super) completion: Vec<StopSpec>,
    pub(super) policies: Vec<StopSpec>,
    pub(super) gate: GateRules,
    pub(super) critics: Vec<CriticPart>,
    pub(super) objective: Option<String>,
    pub(super) prices: Prices,
    pub(super) mcp: BTreeMap<String, McpPart>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Whole {
    #[serde(default)]
    agent: AgentPart,
    model: ModelPart,
    #[serde(default)]
    workspace: WorkspacePart,
    #[serde(default)]
    budget: BudgetPart,
    #[serde(default)]
    stop: StopPart,
    #[serde(default)]
    gate: GatePart,
    #[serde(default, rename = "critic")]
    critics: Vec<CriticPart>,
    #[serde(default)]
    task: TaskPart,
    #[serde(default)]
    prices: BTreeMap<Spanned<String>, Price>,
    #[serde(default)]
    mcp: BTreeMap<String, Spanned<McpPart>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct AgentPart {
    name: Option<String>,
    system: Option<String>,
    system_file: Option<Spanned<PathBuf>>,
    protocol: Protocol,
    max_tokens: Option<u64>,
    temperature: Option<f64>,
    history: Option<History>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Protocol {
    #[default]
    Native,
    React,
    Json,
    Xml,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
enum History {
    All,
    Messages(usize),
    Tokens(u64),
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ModelPart {
    pub(super) base_url: String,
    pub(super) model: String,
    pub(super) api_key_env: Option<String>,
    api_key_file: Option<Spanned<PathBuf>>,
    #[serde(default)]
    pub(super) stream: bool,
    #[serde(default = "Seconds::ten_minutes")]
    pub(super) timeout_s: Seconds,
    pub(super) first_byte_timeout_s: Option<Seconds>,
    #[serde(default = "Seconds::ten")]
    pub(super) connect_timeout_s: Seconds,
    #[serde(default = "four")]
    pub(super) retries: u32,
    pub(super) context_window: Option<u64>,
    pub(super) send_reasoning: Option<bool>,
    #[serde(default)]
    extra: Map<String, Value>,
}

fn four() -> u32 {
    4
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct WorkspacePart {
    pub(super) dir: PathBuf,
    pub(super) tools: Vec<ToolName>,
    pub(super) command_timeout_s: Seconds,
    pub(super) max_output_bytes: usize,
}

impl Default for WorkspacePart {
    fn default() -> Self {
        use ToolName::{ListDir, ReadFile, ReplaceLines, Search, WriteFile};
        Self {
            dir: PathBuf::from("."),
            tools: vec![ReadFile, WriteFile, ReplaceLines, ListDir, Search],
            command_timeout_s: Seconds(Duration::from_secs(60)),
            max_output_bytes: 32 << 10,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum ToolName {
    ReadFile,
    WriteFile,
    ReplaceLines,
    ListDir,
    Search,
    RunCommand,
}

impl ToolName {
    /// The tools' names for models and files.
    const NAMES: [&str; 6] = [
        "read_file",
        "write_file",
        "replace_lines",
        "list_dir",
        "search",
        "run_command",
    ];
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct BudgetPart {
    pub(super) steps: Option<u64>,
    pub(super) seconds: Option<Seconds>,
    pub(super) hard_seconds: Option<Seconds>,
    pub(super) tokens: Option<u64>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct StopPart {
    completion: Vec<Spanned<StopEntry>>,
    policies: Vec<Spanned<StopEntry>>,
}

/// A rule as written in the file.
#[derive(Debug)]
enum StopEntry {
    Short(String),
    Long(StopSpec),
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct GatePart {
    allow: Option<Vec<Spanned<String>>>,
    deny: Vec<Spanned<String>>,
    ask: Vec<Spanned<String>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct TaskPart {
    objective: Option<String>,
}

impl<'de> Deserialize<'de> for StopEntry {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        struct Written;
        impl<'de> Visitor<'de> for Written {
            type Value = StopEntry;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a rule, as a string or a table")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> std::result::Result<StopEntry, E> {
                Ok(StopEntry::Short(text.to_owned()))
            }

            fn visit_map<M: MapAccess<'de>>(
                self,
                map: M,
            ) -> std::result::Result<StopEntry, M::Error> {
                // Converted to JSON first, because rules are deserialized from JSON elsewhere.
                // Deserializing from TOML would compile all of them again.
                let table = Value::deserialize(MapAccessDeserializer::new(map))?;
                serde_json::from_value(table)
                    .map(StopEntry::Long)
                    .map_err(de::Error::custom)
            }
        }
        deserializer.deserialize_any(Written)
    }
}

impl AgentFile {
    /// Reads an agent file.
    ///
    /// # Errors
    /// Fails if the file can't be read or isn't a valid agent file. The message names the line.
    pub fn load(path: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(path).map_err(|error| {
            let kind = if error.kind() == std::io::ErrorKind::NotFound {
                Kind::NotFound
            } else {
                Kind::Unreadable
            };
            Error::new(
                kind,
                format!("can't read the agent file {}", path.display()),
            )
            .because(error)
            .hint(HELP)
        })?;
        Self::parse(&text, path)
    }

    /// Parses the text of the agent file at `path`.
    ///
    /// # Errors
    /// Fails like [`AgentFile::load`], except that the file isn't read.
    pub fn parse(text: &str, path: &Path) -> Result<Self> {
        let place = ConfigText { text, path };
        let whole: Whole = toml::from_str(text).map_err(|wrong| {
            let span = wrong.span().unwrap_or_default();
            let words = in_plain_words(wrong.message());
            let of_value = words.starts_with("unknown value ") || words.starts_with("must be ");
            let words = match place.key_of(span.start).filter(|_| of_value) {
                Some(key) => format!("{key}: {words}"),
                None => words,
            };
            place.error(span, &words).hint(HELP)
        })?;
        let Whole {
            agent,
            model,
            workspace,
            budget,
            stop,
            gate,
            critics,
            task,
            prices,
            ..
        } = whole;
        let mcp = place.servers(whole.mcp)?;
        // The tools of servers are known only once the servers run.
        let may_have_more = !mcp.is_empty();
        if let Some(file) = model
            .api_key_file
            .as_ref()
            .filter(|_| model.api_key_env.is_some())
        {
            return Err(place.error(
                file.span(),
                "set either `api_key_env` or `api_key_file`, not both",
            ));
        }
        let mut settings = model.extra.clone();
        if let Some(temperature) = agent.temperature {
            settings.insert("temperature".to_owned(), temperature.into());
        }
        if let Some(tokens) = agent.max_tokens {
            settings.insert("max_tokens".to_owned(), tokens.into());
        }
        let system = match (agent.system, agent.system_file) {
            (Some(_), Some(file)) => {
                return Err(place.error(
                    file.span(),
                    "set either `system` or `system_file`, not both",
                ));
            }
            (Some(system), None) => system,
            (None, Some(file)) => place.read(file.get_ref(), file.span())?,
            (None, None) => SYSTEM.to_owned(),
        };
        let history = match agent.history {
            None => Keep::default(),
            Some(History::All) => Keep::All,
            Some(History::Messages(messages)) => Keep::Window { messages },
            Some(History::Tokens(tokens)) => Keep::TokenBudget { tokens },
        };
        let stem = path
            .file_stem()
            .map(|stem| stem.to_string_lossy().into_owned());
        Ok(Self {
            path: path.to_owned(),
            name: agent.name.or(stem).unwrap_or_default(),
            system,
            protocol: agent.protocol,
            history,
            model,
            settings,
            workspace,
            budget,
            completion: place.rules(stop.completion, true)?,
            policies: place.rules(stop.policies, false)?,
            gate: GateRules {
                allow: gate
                    .allow
                    .map(|allow| place.globs(allow, may_have_more))
                    .transpose()?,
                deny: place.globs(gate.deny, may_have_more)?,
                ask: place.globs(gate.ask, may_have_more)?,
            },
            critics,
            objective: task
                .objective
                .filter(|objective| !objective.trim().is_empty()),
            prices: place.prices(prices)?,
            mcp,
        })
    }

    /// Returns the names of the built-in tools.
    pub(super) fn tool_names() -> &'static [&'static str] {
        &ToolName::NAMES
    }

    /// Returns the agent's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the task, if the file has one.
    pub fn objective(&self) -> Option<&str> {
        self.objective.as_deref()
    }

    /// Returns the name of the environment variable with the key. `None` if the file sets it to be
    /// empty.
    pub fn key_variable(&self) -> Option<&str> {
        match self.model.api_key_env.as_deref() {
            None => Some("OPENAI_API_KEY"),
            Some(name) => Some(name.trim()).filter(|name| !name.is_empty()),
        }
    }

    /// Returns the file or pipe with the key, if the file names one.
    pub fn key_file(&self) -> Option<PathBuf> {
        self.model
            .api_key_file
            .as_ref()
            .map(|file| self.beside(file.get_ref()))
    }

    /// Returns the directory in which the agent works.
    pub fn workspace(&self) -> PathBuf {
        self.beside(&self.workspace.dir)
    }

    /// Returns whether the agent runs commands: the agent's own, those of critics, or MCP servers.
    pub fn runs_commands(&self) -> bool {
        if !self.mcp.is_empty() {
            return true;
        }
        self.workspace.tools.contains(&ToolName::RunCommand)
            || self
                .critics
                .iter()
                .any(|critic| matches!(critic, CriticPart::Command { .. }))
    }

    /// Returns whether the run needs a key. A server on the same machine rarely needs one, so this
    /// returns false for it unless the file names a variable or file.
    pub fn needs_key(&self) -> bool {
        let host = self
            .model
            .base_url
            .parse::<http::Uri>()
            .ok()
            .and_then(|uri| Some(uri.host()?.to_owned()));
        let local = host.is_some_and(|host| {
            matches!(host.as_str(), "localhost" | "[::1]") || host.starts_with("127.")
        });
        self.model.api_key_env.is_some() || self.model.api_key_file.is_some() || !local
    }

    /// Resolves a path of the file, relative to the file's directory.
    pub(super) fn beside(&self, path: &Path) -> PathBuf {
        beside(&self.path, path)
    }
}

/// The hint for errors.
const HELP: &str = "`board run --help` shows a complete agent file";

fn beside(file: &Path, path: &Path) -> PathBuf {
    file.parent()
        .map_or_else(|| path.to_owned(), |dir| dir.join(path))
}

/// The text of the file that is being parsed.
struct ConfigText<'a> {
    text: &'a str,
    path: &'a Path,
}

impl ConfigText<'_> {
    /// Creates an error with the line of `span`.
    fn error(&self, span: Range<usize>, message: &str) -> Error {
        let line = 1 + self
            .text
            .get(..span.start)
            .unwrap_or_default()
            .matches('\n')
            .count();
        Error::new(
            Kind::Usage,
            format!("{}:{line}: {message}", self.path.display()),
        )
    }

    /// Returns the key whose value begins at this offset, or the key of the list that contains it.
    fn key_of(&self, start: usize) -> Option<&str> {
        let (before, after) = self.text.get(..start)?.rsplit_once('=')?;
        let open = |bracket| after.matches(bracket).count();
        let is_value =
            after.trim().is_empty() || after.trim_start().starts_with('[') && open('[') > open(']');
        let key = before.rsplit(['\n', '{', ',']).next()?.trim();
        (is_value && !key.is_empty()).then_some(key)
    }

    fn read(&self, file: &Path, span: Range<usize>) -> Result<String> {
        let path = beside(self.path, file);
        let wrong = |error| {
            self.error(span, &format!("can't read {}", path.display()))
                .because(error)
        };
        std::fs::read_to_string(&path).map_err(wrong)
    }

    /// Checks the servers.
    fn servers(
        &self,
        written: BTreeMap<String, Spanned<McpPart>>,
    ) -> Result<BTreeMap<String, McpPart>> {
        let server = |(name, part): (String, Spanned<McpPart>)| match part.get_ref().lint(&name) {
            Some(wrong) => Err(self.error(part.span(), &format!("[mcp.{name}]: {wrong}"))),
            None => Ok((name, part.into_inner())),
        };
        written.into_iter().map(server).collect()
    }

    fn prices(&self, rows: BTreeMap<Spanned<String>, Price>) -> Result<Prices> {
        let names: Vec<_> = rows.keys().cloned().collect();
        let rows = rows
            .into_iter()
            .map(|(name, price)| (name.into_inner(), price))
            .collect();
        Prices::new(rows, self.path.display().to_string()).map_err(|odd| {
            let name = names.iter().find(|name| *name.get_ref() == odd.0);
            self.error(
                name.map(Spanned::span).unwrap_or_default(),
                &odd.to_string(),
            )
        })
    }

    /// Parses the patterns of one list of the gate. Refuses a pattern that matches no tool, because
    /// it would have no effect.
    fn globs(&self, written: Vec<Spanned<String>>, may_have_more: bool) -> Result<Vec<Glob>> {
        let glob = |text: Spanned<String>| {
            let is_known = |glob: &Glob| {
                may_have_more || ToolName::NAMES.iter().any(|name| glob.matches(name))
            };
            let glob = Glob::new(text.get_ref()).filter(is_known);
            let known = ToolName::NAMES.join(", ");
            let wrong = || {
                self.error(
                    text.span(),
                    &format!("no tool matches {:?}", text.get_ref()),
                )
            };
            glob.ok_or_else(|| wrong().hint(format!("the tools are {known}; `*` matches any text")))
        };
        written.into_iter().map(glob).collect()
    }

    /// Parses the rules of one list. Refuses a rule in the wrong list, because it would never have
    /// the intended effect.
    fn rules(&self, written: Vec<Spanned<StopEntry>>, completion: bool) -> Result<Vec<StopSpec>> {
        let rule = |rule: Spanned<StopEntry>| {
            let span = rule.span();
            let wrong = |message: &str| self.error(span.clone(), message).hint(HELP);
            let spec = match rule.into_inner() {
                StopEntry::Long(spec) => spec,
                StopEntry::Short(text) => StopSpec::parse_with(&text, |file| {
                    let text = self
                        .read(Path::new(file), span.clone())
                        .map_err(|error| error.to_string())?;
                    serde_json::from_str(&text)
                        .map_err(|error| format!("the schema {file} isn't JSON: {error}"))
                })
                .map_err(|error| wrong(&error.to_string()))?,
            };
            if let Some(doubt) = spec.lint().first() {
                return Err(wrong(doubt));
            }
            match (completion, spec.is_completion()) {
                (true, false) => Err(wrong(
                    "this rule never accepts an answer, so it belongs in `policies`",
                )),
                (false, true) => Err(wrong(
                    "this rule accepts answers, so it belongs in `completion`",
                )),
                _ => Ok(spec),
            }
        };
        written.into_iter().map(rule).collect()
    }
}
