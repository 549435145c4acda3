//! What does an agent file say? TOML, with unknown keys refused and every mistake told with its line.
//!
//! Knows no engine; what the words come to is `build`'s. The keys are listed at [`AgentFile`].

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
use crate::engine::Keep;
use crate::error::{Error, Kind, Result};
use crate::model::price::{Price, Prices};
use crate::stop::StopSpec;

/// What the agent is told where the file says nothing.
const SYSTEM: &str = "You work on the task that you are given, step by step, with the tools that you have. Look before you \
                      change anything, and check what you did. When the task is done, say in a few sentences what you did.";

/// A whole agent file, for `--help` and for those who begin.
pub const EXAMPLE: &str = include_str!("../example.toml");

/// An agent as a file describes it.
///
/// Paths are relative to the file. Only `base_url` and `model` under `[model]` have no default; an unknown key is refused.
///
/// | key | meaning | default |
/// |---|---|---|
/// | `[agent] name` | its name in the trace | the file's name |
/// | `system`, `system_file` | the instructions, here or in a file of their own | a few sentences |
/// | `protocol` | how the model decides: `native` tool calls, or text as `react`, `json` or `xml` | `native` |
/// | `max_tokens`, `temperature` | sent with each request | the server's |
/// | `history` | `"all"`, `{ messages = 24 }` or `{ tokens = 8000 }` of the conversation go into a request | 24 messages |
/// | `[model] base_url`, `model` | the endpoint that `/chat/completions` stands below, and the model there | |
/// | `api_key_env` | the variable that holds the key; `""` for none | `OPENAI_API_KEY` |
/// | `api_key_file` | instead, the file or pipe that holds it, such as `/dev/fd/3` | none |
/// | `stream` | whether answers come in pieces | `false` |
/// | `timeout_s`, `first_byte_timeout_s`, `connect_timeout_s` | timeouts with one attempt: for all of it, until the answer begins, until there is a connection | 600, the whole, 10 |
/// | `retries` | how often a failure that may pass is tried again, as long as two minutes and the run's time allow; then the run ends | 4 |
/// | `context_window` | tokens that fit; longer requests are made shorter before they are sent | unknown |
/// | `send_reasoning` | whether what a reply has besides its text, such as `reasoning_content`, goes back in later requests | sent until the service refuses it |
/// | `extra` | a table of further fields for each request | none |
/// | `[workspace] dir` | the directory that the agent works in | `.` |
/// | `tools` | a list of `read_file`, `write_file`, `replace_lines`, `list_dir`, `search`, `run_command` | all but `run_command` |
/// | `command_timeout_s`, `max_output_bytes` | limits of commands and of what is read at once | 60, 32768 |
/// | `[budget] steps`, `tokens` | limits asked before each step | 10 steps |
/// | `seconds` | asked before each step, and what decides or acts is dropped after it; an answer that is there is still judged | none |
/// | `hard_seconds` | whatever is under way is dropped after it | twice `seconds` |
/// | `[stop] completion`, `policies` | stop rules, short (`"max_steps=8"`) or as tables (`{ type = "max_steps", steps = 8 }`) | none |
/// | `[gate] allow`, `deny`, `ask` | tools that may be called, may not, or may where a person says so at the terminal; names or patterns as `run_*`. `deny` goes before `ask`, and `ask` before `allow`; where there is `allow`, all else is denied. The wait for an answer counts as time of the run: where that is limited, by `seconds`, `hard_seconds` or a rule, no answer by then is a no | all may |
/// | `[[critic]] kind` | `command`, `regex` or `judge` | |
/// | `name` | its name in the trace | the kind |
/// | `when` | which steps are judged: those with an `answer`, or `every_step` | `answer` |
/// | `on_fail` | `retry`, `stop` or `continue` | `retry` |
/// | `command`, `timeout_s` | (command) passes where the exit status is 0 | , `command_timeout_s` |
/// | `pattern`, `want` | (regex) passes where the text matches, or with `want = false` where it does not | , `true` |
/// | `criteria`, `threshold`, `model` | (judge) what to look at; passes from this score on; another model at the same endpoint | , 0.5, the agent's |
/// | `[prices."NAME"] input`, `cached`, `output` | what a model takes for a million tokens in US dollars, where the service does not say; one `*` may end the name | none |
/// | `[mcp.NAME] command`, `env`, `cwd` | a Model Context Protocol server to start, whose tools are called `NAME__TOOL`: program and arguments, variables beside a few harmless ones, directory | , none, the workspace |
/// | `url`, `headers` | instead, one that is there: its address, and headers of each request | |
/// | `tools` | which of its tools there are; names or patterns | all |
/// | `timeout`, `start_timeout` | seconds for a call, and until it tells its tools | 60, 30 |
/// | `[task] objective` | the task, where the command line names none | |
#[derive(Debug)]
pub struct AgentFile {
    pub(super) path: PathBuf,
    pub(super) name: String,
    pub(super) system: String,
    pub(super) protocol: Protocol,
    pub(super) history: Keep,
    pub(super) model: ModelPart,
    /// Fields of each request.
    pub(super) settings: Map<String, Value>,
    pub(super) workspace: WorkspacePart,
    pub(super) budget: BudgetPart,
    pub(super) completion: Vec<StopSpec>,
    pub(super) policies: Vec<StopSpec>,
    pub(super) gate: GateRules,
    pub(super) critics: Vec<CriticPart>,
    pub(super) objective: Option<String>,
    pub(super) prices: Prices,
    pub(super) mcp: super::mcp::McpParts,
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
    mcp: BTreeMap<String, Spanned<super::mcp::McpPart>>,
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
    /// The tools' names, as models and files write them.
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

/// A rule as written.
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
                f.write_str("a rule as text or as a table")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> std::result::Result<StopEntry, E> {
                Ok(StopEntry::Short(text.to_owned()))
            }

            fn visit_map<M: MapAccess<'de>>(
                self,
                map: M,
            ) -> std::result::Result<StopEntry, M::Error> {
                // As JSON, which rules are read from elsewhere; from TOML itself all of them would be compiled again.
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
    /// It is not there, or not what an agent file is: the message names the line.
    pub fn load(path: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(path).map_err(|error| {
            let kind = if error.kind() == std::io::ErrorKind::NotFound {
                Kind::NotFound
            } else {
                Kind::Unreadable
            };
            Error::new(
                kind,
                format!("cannot read the agent file {}", path.display()),
            )
            .because(error)
        })?;
        Self::parse(&text, path)
    }

    /// Reads the text of the agent file at `path`.
    ///
    /// # Errors
    /// As [`AgentFile::load`].
    pub fn parse(text: &str, path: &Path) -> Result<Self> {
        let place = ConfigText { text, path };
        let whole: Whole = toml::from_str(text).map_err(|wrong| {
            place
                .error(wrong.span().unwrap_or_default(), wrong.message())
                .hint(HELP)
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
        // Which tools servers have is known once they are asked.
        let may_have_more = !mcp.is_empty();
        if let Some(file) = model
            .api_key_file
            .as_ref()
            .filter(|_| model.api_key_env.is_some())
        {
            return Err(place.error(
                file.span(),
                "there is `api_key_env` already; keep one of the two",
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
                    "there is `system` already; keep one of the two",
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

    /// What the tools of this crate are called.
    pub(super) fn tool_names() -> &'static [&'static str] {
        &ToolName::NAMES
    }

    /// The agent's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The task, where the file has one.
    pub fn objective(&self) -> Option<&str> {
        self.objective.as_deref()
    }

    /// The environment variable that holds the key; `None` where there shall be none.
    pub fn key_variable(&self) -> Option<&str> {
        match self.model.api_key_env.as_deref() {
            None => Some("OPENAI_API_KEY"),
            Some(name) => Some(name.trim()).filter(|name| !name.is_empty()),
        }
    }

    /// The file or pipe that holds the key, where it is not an environment variable.
    pub fn key_file(&self) -> Option<PathBuf> {
        self.model
            .api_key_file
            .as_ref()
            .map(|file| self.beside(file.get_ref()))
    }

    /// The directory that the agent works in.
    pub fn workspace(&self) -> PathBuf {
        self.beside(&self.workspace.dir)
    }

    /// Whether commands run: the agent's, those of critics, or servers.
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

    /// Whether the run makes no sense without a key. A server on the same machine seldom wants one, unless the file
    /// names its variable.
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

    /// A path of the file, which is relative to where the file is.
    pub(super) fn beside(&self, path: &Path) -> PathBuf {
        beside(&self.path, path)
    }
}

/// Where to look next.
const HELP: &str = "`board run --help` shows a whole agent file";

fn beside(file: &Path, path: &Path) -> PathBuf {
    file.parent()
        .map_or_else(|| path.to_owned(), |dir| dir.join(path))
}

/// The file that is being read.
struct ConfigText<'a> {
    text: &'a str,
    path: &'a Path,
}

impl ConfigText<'_> {
    /// What is wrong at `span`, with its line.
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

    fn read(&self, file: &Path, span: Range<usize>) -> Result<String> {
        let path = beside(self.path, file);
        let wrong = |error| {
            self.error(span, &format!("cannot read {}", path.display()))
                .because(error)
        };
        std::fs::read_to_string(&path).map_err(wrong)
    }

    /// The servers, each with its name.
    fn servers(
        &self,
        written: BTreeMap<String, Spanned<super::mcp::McpPart>>,
    ) -> Result<super::mcp::McpParts> {
        let server =
            |(name, part): (String, Spanned<super::mcp::McpPart>)| match part.get_ref().lint(&name)
            {
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

    /// The patterns of one list of the gate; one that matches no tool would guard nothing.
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
                    &format!("no tool is called {:?}", text.get_ref()),
                )
            };
            glob.ok_or_else(|| wrong().hint(format!("the tools are {known}; `*` is any text")))
        };
        written.into_iter().map(glob).collect()
    }

    /// The rules of one list; a rule in the wrong one would never do what its author means.
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
                        .map_err(|error| format!("the schema {file} is no JSON: {error}"))
                })
                .map_err(|error| wrong(&error.to_string()))?,
            };
            if let Some(doubt) = spec.lint().first() {
                return Err(wrong(doubt));
            }
            match (completion, spec.is_completion()) {
                (true, false) => Err(wrong(
                    "this rule accepts no answers; it belongs to `policies`",
                )),
                (false, true) => Err(wrong(
                    "this rule accepts answers; it belongs to `completion`",
                )),
                _ => Ok(spec),
            }
        };
        written.into_iter().map(rule).collect()
    }
}
