//! Defines the format of this crate's own engine: QitOS 0.6 plus the rules, the facts that they
//! checked, and the verdict. The readers of QitOS also read its lines.

use super::Row;
use crate::model::json::walk;
use crate::model::{Can, Capabilities, Format, StateRecord};

/// The row of this format. Its manifests are recognized by `writer`.
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
        // Its steps record changes of the counters like any other change.
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
