//! Finds out which lines of a session file belong to that session, and which of them are on its
//! current branch.
//!
//! A session that is resumed or forked into a new file begins with copies of another session's
//! lines, under their old ids. Those lines count in the other file. The lines also form a tree
//! through `parentUuid`. When a user rewinds a session and sends another prompt, the lines after
//! that point remain in the file as an abandoned branch.

use crate::format::lines::stem;
use crate::format::part::text;
use crate::format::recent::RecentSet;
use crate::format::tree::{Entry, Tree, hash};
use crate::format::value::{is_text, is_true, member, micros};

fields! {
    pub(super) struct Line {
        kind = "type", subtype, uuid, session = "sessionId", agent = "agentId", timestamp,
        version, cwd, branch = "gitBranch", message, meta = "isMeta", summary = "isCompactSummary", api_error = "isApiErrorMessage",
        interrupted = "interruptedMessageId", result = "toolUseResult", attachment, total_cost = "totalCostUSD",
        leaf = "leafUuid", compacted = "compactMetadata", models = "modelUsage", operation, parent = "parentUuid", logical = "logicalParentUuid", forked = "forkedFrom",
        ai_title = "aiTitle", custom_title = "customTitle", told_summary = "summary",
        sidechain = "isSidechain", entrypoint, content, ends_turn = "toolEndsTurn", session_of_stream = "session_id",
    }
}

/// A line may be older than the start of its session by up to this much; microseconds.
const SLACK_MICROS: i64 = 200_000;
/// The length of a UUID as text.
const UUID_LEN: usize = 36;

/// The lines of a session file that were read so far.
#[derive(Debug, Default)]
pub(super) struct Lines {
    tree: Tree,
    /// Hashes of the content of lines, to find repeated ones.
    seen: RecentSet<u64>,
    /// Lines that others name as their parent and that haven't been read yet.
    missing: RecentSet<u64>,
    /// When the program queued the first prompt of the session; microseconds.
    began: Option<i64>,
    /// A line named the session that the file is named after.
    has_own: bool,
    /// A line of this session was read. Copies come before all of them.
    is_begun: bool,
}

impl Lines {
    /// Returns the session that the line was copied from, or an empty string if the line doesn't
    /// name it. Returns `None` for a line of this session. `file` is the name of the file.
    pub(super) fn copied(&mut self, line: &Line<'_>, file: &str) -> Option<String> {
        let session = text(line.session).unwrap_or_default();
        if let Some(from) = line.forked.filter(|from| from.starts_with('{')) {
            return Some(text(member(from, "sessionId")).unwrap_or_default());
        }
        let named = stem(file).filter(|name| is_uuid(name));
        self.has_own |= named == Some(&*session);
        let ts = micros(line.timestamp);
        if line.uuid.is_none() {
            if line.kind == Some("\"queue-operation\"") && self.tree.is_empty() {
                self.began = self.began.or(ts);
            }
            return None;
        }
        // Later lines of another session are not copies: some versions write what follows `/resume`
        // into this file.
        let is_others = named.is_some() && !self.has_own && is_uuid(&session);
        let is_older = !self.is_begun
            && ts
                .zip(self.began)
                .is_some_and(|(ts, began)| ts < began - SLACK_MICROS);
        self.is_begun |= !is_others && !is_older;
        (is_others || is_older).then_some(if is_others { session } else { String::new() })
    }

    /// Returns whether the line comes after a line that names it as its parent. That never happens
    /// in a file as the program wrote it.
    pub(super) fn is_misplaced(&mut self, line: &Line<'_>) -> bool {
        let hashed = |id: Option<&str>| id.filter(|id| is_text(Some(id))).map(|id| hash(&id));
        let known = |id: &u64| self.tree.contains(*id);
        let is_misplaced =
            hashed(line.uuid).is_some_and(|id| !known(&id) && self.missing.contains(&id));
        self.missing
            .extend(hashed(line.parent).filter(|parent| !known(parent)));
        is_misplaced
    }

    /// Returns a hash of the line that a summary names, and whether that line was read.
    pub(super) fn summarised(&self, line: &Line<'_>) -> Option<(u64, bool)> {
        let leaf = line.leaf.filter(|leaf| is_text(Some(leaf)))?;
        let id = hash(&leaf);
        Some((id, self.tree.contains(id)))
    }

    /// Returns a hash of the line's id, as [`summarised`](Self::summarised) does of the one named.
    pub(super) fn id(line: &Line<'_>) -> Option<u64> {
        line.uuid.map(|uuid| hash(&uuid))
    }

    /// Adds a line that belongs to `step`. Returns the steps that it abandons (`true`) and the ones
    /// that it returns to (`false`).
    pub(super) fn add(&mut self, line: &Line<'_>, step: Option<usize>) -> Vec<(usize, bool)> {
        let Some(id) = line.uuid.map(|uuid| hash(&uuid)) else {
            return Vec::new();
        };
        let named = line
            .parent
            .filter(|parent| is_text(Some(parent)))
            .or(line.logical);
        self.tree.add(Entry {
            id,
            parent: named.map(|parent| hash(&parent)),
            step,
            // A sub-agent's lines in the same file form a separate tree.
            is_aside: is_true(line.sidechain) || line.agent.is_some(),
            is_note: is_true(line.meta),
        })
    }

    /// Returns whether an earlier line has the same id and the same content. Ids aren't always
    /// unique: other content under the same id is another line. A line without an id is compared as
    /// a whole if it has a message and a time.
    pub(super) fn is_again(&mut self, line: &Line<'_>, record: &str) -> bool {
        let said = match line.uuid {
            Some(uuid) => hash(&(uuid, line.kind, line.message.unwrap_or(record))),
            None if line.message.is_some() && line.timestamp.is_some() => hash(&record),
            None => return false,
        };
        !self.seen.insert(said)
    }
}

fn is_uuid(name: &str) -> bool {
    let is_place = |at: usize| matches!(at, 8 | 13 | 18 | 23);
    let fits = |(at, byte): (usize, u8)| {
        if is_place(at) {
            byte == b'-'
        } else {
            byte.is_ascii_hexdigit()
        }
    };
    name.len() == UUID_LEN && name.bytes().enumerate().all(fits)
}
