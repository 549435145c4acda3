//! Stub.
use super::chat::{ToolCall, ToolSpec};
use super::decision::Decision;
use serde::Serialize;
/// x
pub trait Parser: Send + Sync {
    /// x
    fn name(&self) -> &'static str;
    /// x
    fn contract(&self) -> &'static str;
    /// x
    fn parse(&self, text: &str) -> Parsed;
    /// x
    fn instructions(&self, tools: &[ToolSpec]) -> String;
}
/// x
#[derive(Debug, Clone, Default)]
pub struct Parsed {
    /// x
    pub decision: Option<Decision>,
    /// x
    pub diagnostics: Option<Diagnostics>,
}
/// x
#[derive(Debug, Clone, Default, Serialize)]
pub struct Diagnostics {
    /// x
    pub summary: String,
    /// x
    pub repair_instruction: String,
}
/// x
pub(super) fn native(_: &[ToolCall], _: &str) -> Parsed {
    Parsed::default()
}
