//! What readers of sessions in databases share: where the records are in the document that is made
//! from a session's rows, and the issues about rows that are left out.

use super::Several;
use super::part::text;
use super::value::{cut, listed};

/// A database of sessions with messages. The formats add their tables.
pub(super) const STORE: Several = Several {
    paths: &[
        &["session"],
        &["children"],
        &["messages", "*"],
        &["left_out"],
    ],
    ..Several::NONE
};

/// What a session's row lacks if a value in it is too large.
pub(super) const LARGE_ROW: &str = "a value of the session is too large to read";
/// What a message lacks if values in it are too large.
pub(super) const LARGE_MESSAGE: &str = "the message has values that are too large to be read";
/// What a session lacks if it has too many rows.
pub(super) const MORE_ROWS: &str = "the session has more messages or sub-agents than board reads";

/// Returns the ids of a session's sub-agents.
pub(super) fn children(ids: &str) -> Vec<Box<str>> {
    let ids = listed(Some(ids)).filter_map(|id| text(Some(id)));
    ids.map(|id| cut(&id)).collect()
}
