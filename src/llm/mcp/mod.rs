//! Which tools do other programs offer? Servers of the Model Context Protocol that an agent file names: started or called,
//! asked for their tools, and ended with the run.
//!
//! Nothing that a server does is trusted: it may say nothing, too much or nonsense, or end. Before the run that is an error
//! that a person is told, within it a failed call that the model sees.

mod config;
mod http;
mod pipe;
mod result;
#[cfg(test)]
#[cfg(unix)]
mod tests;
mod tool;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::timeout;

pub(super) use self::config::McpPart;
use self::http::Http;
use self::pipe::Pipe;
use self::tool::{McpTool, Spec};
use super::agent::FileAgent;
use super::build::Surroundings;
use super::config::AgentFile;
use super::gate::Glob;
use super::secret::{Scrubbed, Secret};
use crate::engine::Builder;
use crate::error::{Error, Kind, Result};
use crate::rpc::Fault;
use crate::rpc::mcp::{
    HANDSHAKE_VERSION, HANDSHAKE_VERSIONS, INITIALIZE, INITIALIZED, META_CAPABILITIES, META_CLIENT,
    META_VERSION, MODERN_VERSION, TOOLS_LIST, UNSUPPORTED_VERSION,
};
use crate::tools::passed_on;

/// A server that offers more tools, or more windows of them, is taken for one that never ends its list.
const MAX_TOOLS: usize = 512;
const MAX_WINDOWS: usize = 64;
/// So long a server may take to end by itself.
const GRACE: Duration = Duration::from_secs(2);

/// The servers of an agent file, and the tools that they offer. They end when this and the engine are dropped.
#[derive(Debug, Default)]
pub struct McpServers {
    servers: Vec<Arc<Server>>,
    tools: Vec<McpTool>,
    key: Secret,
}

impl AgentFile {
    /// Starts the servers that the file names, and asks them for their tools.
    ///
    /// # Errors
    /// One cannot be started or does not answer as a server does; two tools have one name; the gate names a tool that none
    /// has.
    pub async fn mcp_servers(&self, around: &Surroundings) -> Result<McpServers> {
        let mut all = McpServers {
            key: around.key.clone(),
            ..McpServers::default()
        };
        let workspace = self.workspace();
        // One after the other: what goes wrong is told of the first.
        for (name, part) in &self.mcp {
            let (server, specs) =
                Server::start(name, part, around, &workspace, |path| self.beside(path)).await?;
            all.servers.push(Arc::clone(&server));
            for spec in specs {
                let tool = McpTool::new(Arc::clone(&server), spec, part.timeout.0);
                if let Some(other) = all.tools.iter().find(|known| known.is_named_like(&tool)) {
                    let what = format!(
                        "the tools {} and {} would have one name",
                        other.place(),
                        tool.place()
                    );
                    return Err(Error::new(Kind::Usage, what)
                        .hint("leave one out with `tools` of its server"));
                }
                all.tools.push(tool);
            }
        }
        let globs = [
            self.gate.allow.as_deref().unwrap_or_default(),
            &self.gate.deny,
            &self.gate.ask,
        ];
        let missing = globs
            .into_iter()
            .flatten()
            .find(|glob| !self.has_tool(glob, &all.tools));
        match missing {
            Some(glob) => {
                let names = all
                    .tools
                    .iter()
                    .map(McpTool::known_as)
                    .collect::<Vec<_>>()
                    .join(", ");
                let what = format!("the gate names {:?}, and no tool is called so", glob.text());
                Err(Error::new(Kind::Usage, what)
                    .hint(format!("the tools of the servers are {names}")))
            }
            None => Ok(all),
        }
    }

    fn has_tool(&self, glob: &Glob, tools: &[McpTool]) -> bool {
        Self::tool_names().iter().any(|name| glob.matches(name))
            || tools.iter().any(|tool| glob.matches(tool.known_as()))
    }
}

impl McpServers {
    /// Gives an engine the tools.
    pub fn join(&self, engine: Builder<FileAgent>) -> Builder<FileAgent> {
        let tools = self.tools.iter().cloned();
        tools.fold(engine, |engine, tool| {
            engine.tool(Scrubbed::new(tool, self.key.clone()))
        })
    }

    /// Lets the servers end by themselves, for a moment, and ends those that do not.
    pub async fn end(self) {
        for server in &self.servers {
            server.link.end(GRACE).await;
        }
    }
}

/// One server.
#[derive(Debug)]
pub(super) struct Server {
    name: String,
    link: Link,
    /// Whether requests say for themselves what they are.
    modern: bool,
}

/// How messages go.
#[derive(Debug)]
enum Link {
    Pipe(Pipe),
    Http(Box<Http>),
}

/// Why a request has no result.
#[derive(Debug, Clone, PartialEq)]
enum Lost {
    /// The server says so.
    Refused(Fault),
    /// There is no answer.
    Gone(String),
}

impl std::fmt::Display for Lost {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Lost::Refused(fault) => write!(f, "{} (error {})", fault.message, fault.code),
            Lost::Gone(why) => f.write_str(why),
        }
    }
}

impl Link {
    async fn request(&self, method: &str, params: Value) -> std::result::Result<Value, Lost> {
        match self {
            Link::Pipe(pipe) => pipe.request(method, params).await,
            Link::Http(http) => http.request(method, params).await,
        }
    }

    async fn notify(&self, method: &str) {
        match self {
            Link::Pipe(pipe) => pipe.notify(method, Value::Null),
            Link::Http(http) => http.notify(method).await,
        }
    }

    /// Whether the tools are others than at the last question.
    fn has_changed(&self) -> bool {
        match self {
            Link::Pipe(pipe) => pipe.has_changed(),
            Link::Http(http) => http.has_changed(),
        }
    }

    async fn end(&self, grace: Duration) {
        if let Link::Pipe(pipe) = self {
            pipe.end(grace).await;
        }
    }

    /// What a person should know besides: the last words of a program.
    fn last_words(&self) -> String {
        match self {
            Link::Pipe(pipe) => pipe.last_words(),
            Link::Http(_) => String::new(),
        }
    }
}

impl Server {
    /// Starts a server and asks for its tools.
    async fn start(
        name: &str,
        part: &McpPart,
        around: &Surroundings,
        workspace: &Path,
        beside: impl Fn(&Path) -> std::path::PathBuf,
    ) -> Result<(Arc<Self>, Vec<Spec>)> {
        let link = match (&part.command, &part.url) {
            (Some(command), _) => {
                let cwd = part
                    .cwd
                    .as_deref()
                    .map_or_else(|| workspace.to_owned(), beside);
                let mut environment = passed_on(around.environment.iter().cloned());
                environment.extend(
                    part.env
                        .iter()
                        .map(|(name, value)| (name.into(), value.into())),
                );
                let pipe = Pipe::open(command, &cwd, environment).map_err(|error| {
                    let what = format!(
                        "the MCP server {name} cannot be started: {}",
                        command.join(" ")
                    );
                    Error::new(Kind::Unreadable, what)
                        .because(error)
                        .hint("`command` is a program and its arguments")
                })?;
                Link::Pipe(pipe)
            }
            (None, url) => Link::Http(Box::new(Http::new(
                url.as_deref().unwrap_or_default(),
                &part.headers,
            )?)),
        };
        let begun = timeout(part.start_timeout.0, async {
            let modern = greet(&link).await?;
            let server = Self {
                name: name.to_owned(),
                link,
                modern,
            };
            let found = server.tools().await;
            let words = server.link.last_words();
            found
                .map(|specs| (server, specs))
                .map_err(|lost| (lost, words))
        });
        let failed = |why: String, words: String| {
            let what = format!(
                "the MCP server {name} did not begin: {}",
                around.key.scrub(&why)
            );
            let error = Error::new(Kind::Unreadable, what);
            let words = around.key.scrub(words.trim()).into_owned();
            if words.is_empty() {
                error
            } else {
                error.hint(format!("its last words: {words}"))
            }
        };
        let (server, mut specs) = match begun.await {
            Ok(Ok(begun)) => begun,
            Ok(Err((lost, words))) => return Err(failed(lost.to_string(), words)),
            Err(_) => {
                let limit = part.start_timeout.0.as_secs_f64();
                return Err(failed(format!("no answer within {limit} s"), String::new())
                    .hint(format!("`start_timeout` under [mcp.{name}] gives it more")));
            }
        };
        if let Some(wanted) = &part.tools {
            if let Some(none) = wanted
                .iter()
                .find(|glob| !specs.iter().any(|spec| glob.0.matches(&spec.name)))
            {
                let names = specs
                    .iter()
                    .map(|spec| &*spec.name)
                    .collect::<Vec<_>>()
                    .join(", ");
                let what = format!("the MCP server {name} has no tool {:?}", none.0.text());
                return Err(Error::new(Kind::Usage, what).hint(format!("it has {names}")));
            }
            specs.retain(|spec| wanted.iter().any(|glob| glob.0.matches(&spec.name)));
        }
        Ok((Arc::new(server), specs))
    }

    /// Asks for something; a server whose requests stand for themselves is told each time who asks.
    async fn request(&self, method: &str, mut params: Value) -> std::result::Result<Value, Lost> {
        if let (true, Some(fields)) = (self.modern, params.as_object_mut()) {
            fields.insert(
                "_meta".to_owned(),
                json!({ META_VERSION: MODERN_VERSION, META_CAPABILITIES: {}, META_CLIENT: client() }),
            );
        }
        self.link.request(method, params).await
    }

    /// The tools that it offers now.
    async fn tools(&self) -> std::result::Result<Vec<Spec>, Lost> {
        let gone = |why: &str| Lost::Gone(why.to_owned());
        let (mut specs, mut cursor) = (Vec::new(), None::<String>);
        for _ in 0..MAX_WINDOWS {
            let params = cursor
                .as_ref()
                .map_or_else(|| json!({}), |cursor| json!({ "cursor": cursor }));
            let answer = self.request(TOOLS_LIST, params).await?;
            let tools = answer
                .get("tools")
                .and_then(Value::as_array)
                .ok_or_else(|| gone("tools/list gave no list"))?;
            for tool in tools {
                specs.push(
                    Spec::read(tool)
                        .ok_or_else(|| gone("tools/list gave a tool without a name"))?,
                );
            }
            if specs.len() > MAX_TOOLS {
                return Err(Lost::Gone(format!("it offers more than {MAX_TOOLS} tools")));
            }
            cursor = answer
                .get("nextCursor")
                .and_then(Value::as_str)
                .map(str::to_owned);
            if cursor.is_none() {
                return Ok(specs);
            }
        }
        Err(gone("its list of tools does not end"))
    }

    /// Errs where the server took a tool back since it was asked.
    async fn still_has(&self, tool: &str) -> std::result::Result<(), Lost> {
        if !self.link.has_changed() {
            return Ok(());
        }
        let specs = self.tools().await?;
        match specs.iter().any(|spec| spec.name == tool) {
            true => Ok(()),
            false => Err(Lost::Gone(format!(
                "the server {} does not offer {tool} any more",
                self.name
            ))),
        }
    }
}

/// Begins the talk; says whether requests have to stand for themselves.
async fn greet(link: &Link) -> std::result::Result<bool, (Lost, String)> {
    let params =
        json!({ "protocolVersion": HANDSHAKE_VERSION, "capabilities": {}, "clientInfo": client() });
    let answer = match link.request(INITIALIZE, params).await {
        Ok(answer) => answer,
        Err(Lost::Refused(fault)) if fault.code == UNSUPPORTED_VERSION => {
            let spoken = fault
                .data
                .as_ref()
                .and_then(|data| data.get("supported"))
                .and_then(Value::as_array);
            return match spoken
                .is_some_and(|versions| versions.iter().any(|version| version == MODERN_VERSION))
            {
                true => Ok(true),
                false => Err((Lost::Refused(fault), String::new())),
            };
        }
        Err(lost) => return Err((lost, link.last_words())),
    };
    let version = answer
        .get("protocolVersion")
        .and_then(Value::as_str)
        .unwrap_or_default();
    if !HANDSHAKE_VERSIONS.contains(&version) {
        let why = format!(
            "it speaks version {version:?} of the protocol, and the newest here is {HANDSHAKE_VERSION}"
        );
        return Err((Lost::Gone(why), String::new()));
    }
    if let Link::Http(http) = link {
        http.speaks(version);
    }
    link.notify(INITIALIZED).await;
    Ok(false)
}

fn client() -> Value {
    json!({ "name": "board", "version": env!("CARGO_PKG_VERSION") })
}

/// The parts of a file by the names of their servers.
pub(super) type McpParts = BTreeMap<String, McpPart>;
