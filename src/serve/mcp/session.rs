//! How does the server answer a method? The handshake, the list of tools, and calls of them.

use std::time::Duration;

use serde_json::{Map, Value, json};
use tokio::time::{Instant, timeout_at};

use super::tools;
use crate::page::app::AppState;
use crate::rpc::mcp::{
    DISCOVER, HANDSHAKE_VERSION, HANDSHAKE_VERSIONS, INITIALIZE, META_SERVER, META_VERSION,
    MODERN_VERSION, PING, TOOLS_CALL, TOOLS_LIST, UNSUPPORTED_VERSION,
};
use crate::rpc::{Fault, INVALID_PARAMS, METHOD_NOT_FOUND};
use crate::serve::Inside;

/// What a model is told about the server.
const INSTRUCTIONS: &str = "Traces of agent runs (sessions of coding agents, trajectories, evaluation logs), read-only. \
    list_runs gives keys of runs; why says why a run stopped, with evidence; step, state, diff, search and whatif go on \
    from there. Steps are counted from 0. null is unknown, never 0. `certainty` says whether an end was recorded or \
    inferred. Where an answer was cut, `truncated` names each place; ask again with a larger max_bytes, or for less.";

/// What all requests share.
#[derive(Debug)]
pub(super) struct Session {
    pub(super) state: AppState,
    pub(super) inside: Inside,
    /// Until then questions wait for the runs to be known.
    settled_by: Instant,
}

impl Session {
    /// A session about the runs of `state`; its first questions wait for at most `settle` until they are known.
    pub(super) fn new(state: AppState, settle: Duration) -> Self {
        let now = std::time::Instant::now();
        Self {
            inside: Inside::new(state.clone()),
            state,
            settled_by: Instant::from_std(now + settle),
        }
    }

    /// Waits until the runs are known, but not for long; says how many are not.
    pub(super) async fn settle(&self) -> usize {
        let mut news = self.state.library.revision();
        loop {
            let status = self.state.library.status();
            let unknown = if status.first_look_done {
                status.indexing
            } else {
                status.indexing.max(1)
            };
            if unknown == 0 && !status.uncompared || Instant::now() >= self.settled_by {
                return unknown;
            }
            // Not every end of a look is news.
            let soon = (Instant::now() + Duration::from_millis(20)).min(self.settled_by);
            let _ = timeout_at(soon, news.changed()).await;
        }
    }

    /// The result of a request.
    pub(super) async fn answer(&self, method: &str, params: Value) -> Result<Value, Fault> {
        let version = params.get("_meta").and_then(|meta| meta.get(META_VERSION));
        let modern = match version.map(Value::as_str) {
            None => false,
            Some(Some(MODERN_VERSION)) => true,
            Some(other) => {
                let data = json!({ "supported": [MODERN_VERSION], "requested": other });
                return Err(
                    Fault::new(UNSUPPORTED_VERSION, "Unsupported protocol version").with(data),
                );
            }
        };
        let result = match method {
            INITIALIZE => initialize(&params),
            DISCOVER => json!({
                "supportedVersions": [MODERN_VERSION],
                "capabilities": capabilities(),
                "instructions": INSTRUCTIONS,
            }),
            PING => json!({}),
            TOOLS_LIST => json!({ "tools": tools::list() }),
            TOOLS_CALL => self.call(params).await?,
            other => {
                return Err(Fault::new(
                    METHOD_NOT_FOUND,
                    format!("there is no method {other}"),
                ));
            }
        };
        Ok(if modern {
            stamped(result, method)
        } else {
            result
        })
    }

    async fn call(&self, params: Value) -> Result<Value, Fault> {
        let Value::Object(mut params) = params else {
            return Err(Fault::new(
                INVALID_PARAMS,
                "tools/call takes an object with name and arguments",
            ));
        };
        let name = params
            .get("name")
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned();
        let Some(tool) = tools::find(&name) else {
            let names = tools::names().join(", ");
            return Err(Fault::new(
                INVALID_PARAMS,
                format!("there is no tool {name:?}; there are {names}"),
            ));
        };
        let arguments = match params.remove("arguments") {
            Some(Value::Object(arguments)) => arguments,
            None | Some(Value::Null) => Map::new(),
            Some(_) => return Err(Fault::new(INVALID_PARAMS, "arguments are an object")),
        };
        let (text, is_error) = match tool.call(self, arguments).await {
            Ok(text) => (text, false),
            Err(trouble) => (trouble.to_string(), true),
        };
        Ok(json!({ "content": [{ "type": "text", "text": text }], "isError": is_error }))
    }
}

fn capabilities() -> Value {
    json!({ "tools": { "listChanged": false } })
}

fn server() -> Value {
    json!({ "name": "board", "title": "board: why agent runs stopped", "version": env!("CARGO_PKG_VERSION") })
}

/// The answer to a handshake: the version that was asked for, or the newest one that begins so.
fn initialize(params: &Value) -> Value {
    let asked = params
        .get("protocolVersion")
        .and_then(Value::as_str)
        .unwrap_or_default();
    let version = HANDSHAKE_VERSIONS
        .into_iter()
        .find(|known| *known == asked)
        .unwrap_or(HANDSHAKE_VERSION);
    json!({
        "protocolVersion": version,
        "capabilities": capabilities(),
        "serverInfo": server(),
        "instructions": INSTRUCTIONS,
    })
}

/// What every result of the version without a handshake carries.
fn stamped(mut result: Value, method: &str) -> Value {
    if let Value::Object(fields) = &mut result {
        fields.insert("resultType".to_owned(), "complete".into());
        fields.insert("_meta".to_owned(), json!({ META_SERVER: server() }));
        if matches!(method, DISCOVER | TOOLS_LIST) {
            fields.insert("ttlMs".to_owned(), 0.into());
            fields.insert("cacheScope".to_owned(), "private".into());
        }
    }
    result
}
