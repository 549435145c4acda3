//! How does this crate's own engine write a trace? As QitOS 0.6 does, and more: the rules, the facts they looked at, and the
//! verdict. Its lines are read where QitOS's are.

use super::Row;
use crate::model::json::walk;
use crate::model::{Can, Capabilities, Format, StateRecord};

/// It names itself under `writer`.
pub(super) static BOARD: Row = Row {
    format: Format {
        name: "board",
        can: Capabilities {
            state: Can::Yes,
            scores: Can::Yes,
            times: Can::Yes,
            tokens: Can::Yes,
            cost: Can::Partly,
            limits: Can::Yes,
            success: Can::Yes,
            facts: Can::Yes,
        },
        state: StateRecord::Initial,
        // Its steps record that change like any other.
        counters: &[],
        prompts_hold_news: true,
        ..Format::UNKNOWN
    },
    recognise: |manifest| {
        let writer = walk::members(manifest)
            .filter(|(key, _)| *key == "\"writer\"")
            .last();
        writer
            .and_then(|(_, writer)| walk::string(writer))
            .is_some_and(|writer| writer.starts_with("board"))
    },
};
