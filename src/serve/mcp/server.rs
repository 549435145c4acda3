//! Answers the methods of the protocol: the handshake, the list of tools, and their calls.

use std::sync::Arc;

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, CustomRequest,
    CustomResult, DiscoverResult, ErrorCode, Implementation, InitializeRequestParams,
    InitializeResult, ListToolsResult, MetaObject, PaginatedRequestParams, ProtocolVersion,
    ServerCapabilities, ServerConfig, ToolsCapability,
};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer, ServerHandler};
use tokio::task::JoinSet;

use super::session::Session;
use super::tools;

/// Tells a model how to use the server.
const INSTRUCTIONS: &str = "Traces of agent runs (sessions of coding agents, trajectories, evaluation logs), read-only. \
    list_runs returns the keys of runs. why explains why a run stopped, with evidence. step, state, diff, search and \
    whatif show more. Steps are counted from 0. null means unknown, never 0. `certainty` says whether an end was recorded \
    or inferred. If a result was truncated, `truncated` lists the truncated parts; retry with a larger max_bytes or a \
    narrower request.";

/// Implements the server for the SDK.
pub(super) struct Board(Arc<Session>);

impl Board {
    pub(super) fn new(session: Session) -> Self {
        Self(Arc::new(session))
    }
}

impl ServerHandler for Board {
    fn get_info(&self) -> ServerConfig {
        let mut tools = ToolsCapability::default();
        tools.list_changed = Some(false);
        let capabilities = ServerCapabilities::builder()
            .enable_tools_with(tools)
            .build();
        ServerConfig::new(capabilities)
            .with_server_info(server())
            .with_instructions(INSTRUCTIONS)
    }

    /// Remembers the version that was agreed on. The SDK would remember the one that the client asked for.
    async fn initialize(
        &self,
        mut request: InitializeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<InitializeResult, ErrorData> {
        let result = self.negotiate_initialize(&request)?;
        request.protocol_version = result.protocol_version.clone();
        context.peer.set_peer_info(request);
        Ok(result)
    }

    /// Lists only the version without a handshake, since clients of the others don't call this.
    async fn discover(&self, _: RequestContext<RoleServer>) -> Result<DiscoverResult, ErrorData> {
        let versions = vec![ProtocolVersion::LATEST];
        Ok(DiscoverResult::from_server_info(versions, self.get_info()))
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let mut result = ListToolsResult::with_all_items(tools::list());
        result.meta = meta(&context);
        Ok(result)
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let Some(tool) = tools::find(&request.name) else {
            let names = tools::names().join(", ");
            let why = format!("there is no tool {:?}; the tools are {names}", request.name);
            return Err(ErrorData::invalid_params(why, None));
        };
        let session = Arc::clone(&self.0);
        let arguments = request.arguments.unwrap_or_default();
        // A separate task turns a panic into an error, and dropping it stops the call.
        let mut call = JoinSet::new();
        call.spawn(async move { tool.call(&session, arguments).await });
        let answer = tokio::select! {
            answer = call.join_next() => answer,
            () = context.ct.cancelled() => None,
        };
        let result = match answer {
            Some(Ok(Ok(text))) => CallToolResult::success(vec![ContentBlock::text(text)]),
            Some(Ok(Err(trouble))) => {
                CallToolResult::error(vec![ContentBlock::text(trouble.to_string())])
            }
            Some(Err(error)) => {
                tracing::error!("a tool call failed: {error}");
                let why = "board failed to answer; its log has the details";
                return Err(ErrorData::internal_error(why, None));
            }
            None => return Err(ErrorData::internal_error("the call was cancelled", None)),
        };
        Ok(result.with_meta(meta(&context)).into())
    }

    /// Refuses unknown methods, and known ones whose parameters the SDK couldn't read.
    async fn on_custom_request(
        &self,
        request: CustomRequest,
        _: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        let method = request.method;
        let known = [
            "initialize",
            "ping",
            "server/discover",
            "tools/call",
            "tools/list",
        ];
        Err(match known.contains(&&*method) {
            true => ErrorData::invalid_params(format!("invalid parameters for {method}"), None),
            false => {
                let why = format!("there is no method {method}");
                ErrorData::new(ErrorCode::METHOD_NOT_FOUND, why, None)
            }
        })
    }
}

fn server() -> Implementation {
    Implementation::new("board", env!("CARGO_PKG_VERSION"))
        .with_title("board: why agent runs stopped")
}

/// The `_meta` of a result. Without a handshake, each result names its server.
fn meta(context: &RequestContext<RoleServer>) -> Option<MetaObject> {
    let version = context.protocol_version()?;
    let server = serde_json::to_value(server()).ok()?;
    let fields = [("io.modelcontextprotocol/serverInfo".to_owned(), server)];
    (!version.has_initialize()).then(|| MetaObject(fields.into_iter().collect()))
}
