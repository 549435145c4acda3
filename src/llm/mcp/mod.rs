//! Provides tools of other programs: starts or calls the Model Context Protocol servers that an agent file names, lists
//! their tools, and ends the servers with the run.
//!
//! The SDK implements the protocol. Servers aren't trusted: they may hang, flood, send nonsense or exit. Before the run that
//! is an error for the user. During the run it is a failed call, which the model sees.

mod config;
mod http;
mod link;
mod pipe;
mod result;
#[cfg(test)]
#[cfg(unix)]
mod tests;
mod tool;

use std::collections::HashSet;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use rmcp::model::{
    ClientCapabilities, ClientConfig, ClientRequest, ErrorCode, Implementation, ListToolsRequest,
    PaginatedRequestParams, ProtocolVersion,
};
use rmcp::service::{ClientInitializeError, PeerRequestOptions, RunningService};
use rmcp::{ClientLifecycleMode, ClientServiceExt as _, RoleClient};
use serde_json::Value;
use tokio::time::timeout;

pub(super) use self::config::McpPart;
use self::config::Pattern;
use self::http::Http;
use self::link::{Lost, Status, Waiting};
use self::pipe::{MAX_MESSAGE, Pipe};
use self::tool::{McpTool, Spec};
use super::build::AgentContext;
use super::config::AgentFile;
use super::gate::Glob;
use super::secret::{Scrubbed, Secret};
use crate::engine::{Agent, Builder};
use crate::error::{Error, Kind, Result};
use crate::tools::passed_on;

/// Limits a list of tools, which might never end.
const MAX_TOOLS: usize = 512;
const MAX_WINDOWS: usize = 64;
/// Limits a list of tools in bytes, and over HTTP all lists of a run: there, the SDK keeps each tool that it ever saw.
const MAX_LISTED: usize = MAX_MESSAGE;
/// The time that a server has to end by itself.
const GRACE: Duration = Duration::from_secs(2);

/// The servers of an agent file and their tools. The servers end when this and the engine are dropped.
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
    /// Fails if a server can't be started or doesn't follow the protocol, two tools have the same
    /// name, or the gate names a tool that no server has.
    pub async fn mcp_servers(&self, context: &AgentContext) -> Result<McpServers> {
        let mut all = McpServers {
            key: context.key.clone(),
            ..McpServers::default()
        };
        let workspace = self.workspace();
        // One at a time, so that the error is about the first that fails.
        for (name, part) in &self.mcp {
            let cwd = part.cwd.as_deref().map(|path| self.beside(path));
            let cwd = cwd.as_deref().unwrap_or(&workspace);
            let (server, specs) = Server::start(name, part, context, cwd).await?;
            all.servers.push(Arc::clone(&server));
            for spec in specs {
                let tool = McpTool::new(Arc::clone(&server), spec, part.timeout.0);
                if let Some(other) = all.tools.iter().find(|known| known.is_named_like(&tool)) {
                    let what = format!(
                        "the tools {} and {} would have the same name",
                        other.place(),
                        tool.place()
                    );
                    return Err(Error::new(Kind::Usage, what)
                        .hint("exclude one with `tools` under its server"));
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
                let what = format!(
                    "the gate names {:?}, but no tool has that name",
                    glob.text()
                );
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
    /// Adds the tools to an engine.
    pub fn join<A: Agent>(&self, engine: Builder<A>) -> Builder<A> {
        let tools = self.tools.iter().cloned();
        tools.fold(engine, |engine, tool| {
            engine.tool(Scrubbed::new(tool, self.key.clone()))
        })
    }

    /// Waits `GRACE` for each server to exit, then kills it.
    pub async fn end(self) {
        for server in &self.servers {
            if let Link::Pipe(pipe) = &server.link {
                pipe.end(GRACE).await;
            }
        }
    }
}

/// A running server.
#[derive(Debug)]
pub(super) struct Server {
    name: String,
    link: Link,
    status: Arc<Status>,
    service: RunningService<RoleClient, ClientConfig>,
    /// The length of all lists of tools over HTTP so far, in bytes.
    listed: AtomicUsize,
    offered: tokio::sync::Mutex<Offered>,
}

/// The transport to a server.
#[derive(Debug)]
enum Link {
    Pipe(Pipe),
    Http(Http),
}

impl Link {
    /// Starts the program, or prepares to call the address.
    fn open(
        name: &str,
        part: &McpPart,
        context: &AgentContext,
        cwd: &Path,
        status: Arc<Status>,
    ) -> Result<Self> {
        let Some(command) = &part.command else {
            let url = part.url.as_deref().unwrap_or_default();
            return Ok(Link::Http(Http::new(url, &part.headers, status)?));
        };
        let mut environment = passed_on(context.environment.iter().cloned());
        let own = part.env.iter();
        environment.extend(own.map(|(name, value)| (name.into(), value.into())));
        let pipe = Pipe::open(command, cwd, environment, status).map_err(|error| {
            let command = command.join(" ");
            let what = format!("can't start the MCP server {name}: {command}");
            Error::new(Kind::Unreadable, what)
                .because(error)
                .hint("set `command` to an installed program, followed by its arguments")
        })?;
        Ok(Link::Pipe(pipe))
    }

    async fn serve(
        &self,
        lifecycle: ClientLifecycleMode,
    ) -> std::result::Result<RunningService<RoleClient, ClientConfig>, ClientInitializeError> {
        let version = env!("CARGO_PKG_VERSION");
        let client = Implementation::new("board", version);
        let config = ClientConfig::new(ClientCapabilities::default(), client)
            .with_protocol_version(ProtocolVersion::LATEST_WITH_INITIALIZE);
        match self {
            Link::Pipe(pipe) => config.serve_with_lifecycle(pipe.clone(), lifecycle).await,
            Link::Http(http) => {
                config
                    .serve_with_lifecycle(http.transport(), lifecycle)
                    .await
            }
        }
    }

    /// Starts with a handshake, since most servers need one. Servers that only support newer versions refuse it and start
    /// with `server/discover`.
    async fn begin(
        &self,
        status: &Status,
    ) -> std::result::Result<RunningService<RoleClient, ClientConfig>, Lost> {
        let begun = match self.serve(ClientLifecycleMode::Initialize).await {
            Err(ClientInitializeError::JsonRpcError(error))
                if error.code == ErrorCode::UNSUPPORTED_PROTOCOL_VERSION =>
            {
                let preferred_versions = vec![ProtocolVersion::LATEST];
                self.serve(ClientLifecycleMode::Discover { preferred_versions })
                    .await
            }
            begun => begun,
        };
        let service = begun.map_err(|error| status.not_begun(error))?;
        let version = service
            .peer_info()
            .map(|info| info.protocol_version.clone());
        match version {
            Some(version) if !ProtocolVersion::KNOWN_VERSIONS.contains(&version) => {
                let known = ProtocolVersion::LATEST;
                Err(Lost::Gone(format!(
                    "it uses protocol version {:?}, but the newest supported version is {known}",
                    version.as_str()
                )))
            }
            _ => Ok(service),
        }
    }
}

impl Server {
    /// Starts a server and asks for its tools.
    async fn start(
        name: &str,
        part: &McpPart,
        context: &AgentContext,
        cwd: &Path,
    ) -> Result<(Arc<Self>, Vec<Spec>)> {
        let status = Arc::new(Status::default());
        let link = Link::open(name, part, context, cwd, Arc::clone(&status))?;
        let begun = timeout(part.start_timeout.0, async {
            let service = link.begin(&status).await?;
            let server = Self {
                name: name.to_owned(),
                link,
                status: Arc::clone(&status),
                service,
                listed: AtomicUsize::new(0),
                offered: tokio::sync::Mutex::default(),
            };
            let specs = server.tools().await?;
            Ok((server, specs))
        });
        let failed = |why: &str| {
            let why = context.key.scrub(why);
            let what = format!("the MCP server {name} didn't start: {why}");
            let error = Error::new(Kind::Unreadable, what);
            let words = status.last_words();
            let words = context.key.scrub(words.trim());
            match words.is_empty() {
                true if part.command.is_some() => error.hint(
                    "run its command in a terminal to see why; it must speak MCP over stdin and stdout",
                ),
                true => error,
                false => error.hint(format!("its last output: {words}")),
            }
        };
        let (server, mut specs) = match begun.await {
            Ok(Ok(begun)) => begun,
            Ok(Err(lost)) => return Err(failed(&Lost::to_string(&lost))),
            Err(_) => {
                let limit = part.start_timeout.0.as_secs_f64();
                return Err(failed(&format!("no response within {limit} s"))
                    .hint(format!("raise `start_timeout` under [mcp.{name}]")));
            }
        };
        if let Some(wanted) = &part.tools {
            let is_wanted = |pattern: &Pattern, spec: &Spec| pattern.0.matches(&spec.name);
            if let Some(none) = wanted
                .iter()
                .find(|pattern| !specs.iter().any(|spec| is_wanted(pattern, spec)))
            {
                let names: Vec<_> = specs.iter().map(|spec| &*spec.name).collect();
                let what = format!("the MCP server {name} has no tool {:?}", none.0.text());
                return Err(
                    Error::new(Kind::Usage, what).hint(format!("it has {}", names.join(", ")))
                );
            }
            specs.retain(|spec| wanted.iter().any(|pattern| is_wanted(pattern, spec)));
        }
        Ok((Arc::new(server), specs))
    }

    /// Sends a request and returns the result as JSON, which can also hold results that deviate from the protocol. Dropping
    /// the future cancels the request.
    async fn request(&self, request: ClientRequest) -> std::result::Result<Value, Lost> {
        let peer = self.service.peer();
        let lost = |error| self.status.lost(error);
        let sent = peer.send_cancellable_request(request, PeerRequestOptions::no_options());
        let sent = sent.await.map_err(lost)?;
        let mut waiting = Waiting {
            peer,
            id: Some(sent.id.clone()),
        };
        let answer = sent.await_response().await;
        waiting.id = None;
        let result = answer.map_err(lost)?;
        serde_json::to_value(result).map_err(|error| Lost::Gone(error.to_string()))
    }

    /// Returns the tools that the server offers now.
    async fn tools(&self) -> std::result::Result<Vec<Spec>, Lost> {
        let gone = |why: &str| Lost::Gone(why.to_owned());
        let too_long = || {
            let limit = MAX_LISTED >> 20;
            Lost::Gone(format!("it lists more than {limit} MiB of tools"))
        };
        let this_list = AtomicUsize::new(0);
        let listed = match self.link {
            Link::Pipe(_) => &this_list,
            Link::Http(_) => &self.listed,
        };
        if listed.load(Ordering::Relaxed) > MAX_LISTED {
            return Err(too_long());
        }
        let (mut specs, mut cursor) = (Vec::new(), None::<String>);
        for _ in 0..MAX_WINDOWS {
            let params = PaginatedRequestParams::default().with_cursor(cursor);
            let request = ListToolsRequest::with_param(params);
            let answer = self.request(request.into()).await?;
            let len = length(&answer);
            if listed.fetch_add(len, Ordering::Relaxed) + len > MAX_LISTED {
                return Err(too_long());
            }
            let tools = answer
                .get("tools")
                .and_then(Value::as_array)
                .ok_or_else(|| gone("tools/list returned no list"))?;
            for tool in tools {
                specs.push(
                    Spec::read(tool)
                        .ok_or_else(|| gone("tools/list returned a tool without a name"))?,
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
        Err(gone("its list of tools doesn't end"))
    }

    /// Fails if the server changed its list of tools and no longer offers this one, or if the new
    /// list can't be read. Calls wait for the one that reads it.
    async fn still_has(&self, tool: &str) -> std::result::Result<(), Lost> {
        let mut offered = self.offered.lock().await;
        let changes = self.status.changes();
        if offered.changes != changes {
            let specs = self.tools().await?;
            let names = specs.into_iter().map(|spec| spec.name).collect();
            *offered = Offered {
                changes,
                names: Some(names),
            };
        }
        match &offered.names {
            Some(names) if !names.contains(tool) => Err(Lost::Gone(format!(
                "the server {} no longer offers {tool}",
                self.name
            ))),
            _ => Ok(()),
        }
    }
}

/// The tools that a server offers.
#[derive(Debug, Default)]
struct Offered {
    /// The number of changes of the list before it was read.
    changes: u64,
    /// The names in the last list, if it was read after the start.
    names: Option<HashSet<String>>,
}

/// Returns the length of a value as JSON, in bytes.
fn length(value: &Value) -> usize {
    let mut written = Written(0);
    // Nothing here can fail.
    let _ = serde_json::to_writer(&mut written, value);
    written.0
}

/// Counts bytes and drops them.
struct Written(usize);

impl io::Write for Written {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
