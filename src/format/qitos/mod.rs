//! Reads traces of QitOS: a directory of three files. They have three layouts, all of which call
//! themselves `v1`.

mod event;
mod manifest;
mod step;

#[cfg(test)]
pub(crate) use event::kind as event_kind;
pub(crate) use event::{event, read as event_head};
pub(crate) use manifest::read as manifest;
pub(crate) use step::read as step;
pub(super) use step::{critics, outcome_of};

use super::Row;
use crate::model::json::walk;
use crate::model::{Can, Capabilities, Format};

/// QitOS 0.6.
pub(super) static V06: Row = Row {
    format: Format {
        name: "QitOS 0.6",
        ..QITOS
    },
    recognise: |manifest| has(manifest, "parent_run_id"),
};

/// QitOS 0.3.
pub(super) static V03: Row = Row {
    format: Format {
        name: "QitOS 0.3",
        ..QITOS
    },
    recognise: |manifest| has(manifest, "token_usage"),
};

/// QitOS up to 0.1. Its manifests have no distinctive key.
pub(super) static V01: Row = Row {
    format: Format {
        name: "QitOS up to 0.1",
        ..QITOS
    },
    recognise: |_| true,
};

const QITOS: Format = Format {
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
