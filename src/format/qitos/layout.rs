//! Defines the layouts of a run's directory, which a manifest identifies: those of QitOS, and that
//! of board's engine.

use crate::model::json::walk;
use crate::model::{Can, Capabilities, Format, StateRecord};

/// A row of `FORMATS`.
struct Row {
    format: Format,
    /// Whether the text of a manifest is of this format. The rows are tried in order.
    recognise: fn(&str) -> bool,
}

/// The formats of directories with a manifest.
static FORMATS: [&Row; 4] = [&BOARD, &V06, &V03, &V01];

/// Returns the format of a manifest with this text.
pub(super) fn of_manifest(text: &str) -> &'static Format {
    let row = FORMATS.iter().find(|row| (row.recognise)(text));
    row.map_or(&Format::UNKNOWN, |row| &row.format)
}

/// Returns the format of this name, or [`Format::UNKNOWN`].
#[cfg(feature = "board")]
pub(crate) fn named(name: &str) -> &'static Format {
    let row = FORMATS.iter().find(|row| row.format.name == name);
    row.map_or(&Format::UNKNOWN, |row| &row.format)
}

/// This crate's own engine: QitOS 0.6 plus the rules, the facts that they checked, and the verdict.
/// Its manifests are recognized by `writer`.
static BOARD: Row = Row {
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

/// QitOS 0.6.
static V06: Row = Row {
    format: Format {
        name: "QitOS 0.6",
        ..QITOS
    },
    recognise: |manifest| has(manifest, "parent_run_id"),
};

/// QitOS 0.3.
static V03: Row = Row {
    format: Format {
        name: "QitOS 0.3",
        ..QITOS
    },
    recognise: |manifest| has(manifest, "token_usage"),
};

/// QitOS up to 0.1. Its manifests have no distinctive key.
static V01: Row = Row {
    format: Format {
        name: "QitOS up to 0.1",
        ..QITOS
    },
    recognise: |_| true,
};

pub(super) const QITOS: Format = Format {
    can: Capabilities {
        state: Can::Partly,
        scores: Can::Partly,
        times: Can::Yes,
        tokens: Can::Partly,
        cost: Can::No,
        limits: Can::Partly,
        success: Can::Partly,
        facts: Can::No,
    },
    ..Format::UNKNOWN
};

/// Returns whether a manifest has a key at its top level.
fn has(manifest: &str, key: &str) -> bool {
    walk::members(manifest).any(|(name, _)| name.trim_matches('"') == key)
}
