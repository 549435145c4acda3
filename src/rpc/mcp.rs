//! The words of the Model Context Protocol that both of its sides use.
//!
//! There are two ways to begin. Up to 2025-11-25 a client shakes hands: `initialize`, then the notice that it did. Since
//! 2026-07-28 every request says in `_meta` which version it is of, and `server/discover` tells what a server takes.

/// Versions that begin with a handshake, the newest last.
pub(crate) const HANDSHAKE_VERSIONS: [&str; 4] =
    ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"];
/// The newest of them, which is offered to whoever names another one.
pub(crate) const HANDSHAKE_VERSION: &str = "2025-11-25";
/// The version whose requests stand for themselves.
pub(crate) const MODERN_VERSION: &str = "2026-07-28";

/// A request is of a version that is not spoken.
pub(crate) const UNSUPPORTED_VERSION: i64 = -32022;

pub(crate) const INITIALIZE: &str = "initialize";
pub(crate) const INITIALIZED: &str = "notifications/initialized";
pub(crate) const DISCOVER: &str = "server/discover";
pub(crate) const PING: &str = "ping";
pub(crate) const TOOLS_LIST: &str = "tools/list";
pub(crate) const TOOLS_CALL: &str = "tools/call";
pub(crate) const CANCELLED: &str = "notifications/cancelled";
pub(crate) const LIST_CHANGED: &str = "notifications/tools/list_changed";

/// In `_meta`: the version of a request.
pub(crate) const META_VERSION: &str = "io.modelcontextprotocol/protocolVersion";
/// In `_meta`: who asks, and what it can do.
pub(crate) const META_CLIENT: &str = "io.modelcontextprotocol/clientInfo";
pub(crate) const META_CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
/// In `_meta`: who answers.
pub(crate) const META_SERVER: &str = "io.modelcontextprotocol/serverInfo";
