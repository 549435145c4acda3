//! Finds out which lines of a session file belong to that session, and which of them are on its
//! current branch.
//!
//! A session that is resumed or forked into a new file begins with copies of another session's
//! lines, under their old ids. Those lines count in the other file. The lines also form a tree
//! through `parentUuid`. When a user rewinds a session and sends another prompt, the lines after
//! that point remain in the file as an abandoned branch.

use std::hash::{DefaultHasher, Hash, Hasher as _};

use crate::format::lines::stem;
use crate::format::part::text;
use crate::format::recent::{Recent, RecentSet};
use crate::format::value::{is_text, is_true, member, micros};

fields! {
    pub(super) struct Line {
        kind = "type", subtype, uuid, session = "sessionId", agent = "agentId", timestamp,
        version, cwd, branch = "gitBranch", message, meta = "isMeta", summary = "isCompactSummary", api_error = "isApiErrorMessage",
        interrupted = "interruptedMessageId", result = "toolUseResult", attachment, total_cost = "totalCostUSD",
        leaf = "leafUuid", compacted = "compactMetadata", models = "modelUsage", operation, parent = "parentUuid", logical = "logicalParentUuid", forked = "forkedFrom",
        ai_title = "aiTitle", custom_title = "customTitle", told_summary = "summary",
        sidechain = "isSidechain", entrypoint, session_of_stream = "session_id",
    }
}

/// A line may be older than the start of its session by up to this much; microseconds.
const SLACK_MICROS: i64 = 200_000;
/// Lines of the tree that may be visited per line of the file, on average. If each line leaves a
/// long branch, the later branches of the file are not evaluated.
const WALK: usize = 64;
/// The length of a UUID as text.
const UUID_LEN: usize = 36;

/// The lines of a session file that were read so far.
#[derive(Debug, Default)]
pub(super) struct Lines {
    nodes: Recent<u64, Node>,
    /// Hashes of the content of lines, to find repeated ones.
    seen: RecentSet<u64>,
    /// Lines that others name as their parent and that haven't been read yet.
    missing: RecentSet<u64>,
    /// The newest line of the main conversation.
    leaf: Option<u64>,
    /// How many lines of each step are on the current branch.
    alive: Recent<u32, u32>,
    /// How many lines may still be visited.
    walk: usize,
    /// When the program queued the first prompt of the session; microseconds.
    began: Option<i64>,
    /// A line named the session that the file is named after.
    has_own: bool,
    /// A line of this session was read. Copies come before all of them.
    is_begun: bool,
}

#[derive(Debug, Clone, Copy)]
struct Node {
    parent: Option<u64>,
    step: Option<u32>,
    is_alive: bool,
    /// The program wrote this line itself (`isMeta`). Later commands may refer back to it.
    is_note: bool,
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
            if line.kind == Some("\"queue-operation\"") && self.nodes.is_empty() {
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
        let known = |id: &u64| self.nodes.contains_key(id);
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
        Some((id, self.nodes.contains_key(&id)))
    }

    /// Returns a hash of the line's id, as [`summarised`](Self::summarised) does of the one named.
    pub(super) fn id(line: &Line<'_>) -> Option<u64> {
        line.uuid.map(|uuid| hash(&uuid))
    }

    /// Adds a line that belongs to `step`. Returns the steps that it abandons (`true`) and the ones
    /// that it returns to (`false`).
    pub(super) fn add(&mut self, line: &Line<'_>, step: Option<usize>) -> Vec<(usize, bool)> {
        // If lines share an id, the first one determines its position in the tree.
        let Some(id) = line
            .uuid
            .map(|uuid| hash(&uuid))
            .filter(|id| !self.nodes.contains_key(id))
        else {
            return Vec::new();
        };
        let step = step.and_then(|step| u32::try_from(step).ok());
        let named = line
            .parent
            .filter(|parent| is_text(Some(parent)))
            .or(line.logical);
        let parent = named
            .map(|parent| hash(&parent))
            .filter(|parent| self.nodes.contains_key(parent));
        let is_note = is_true(line.meta);
        if let Some(step) = step {
            self.count_alive(step, |lines| lines + 1);
        }
        self.walk += WALK;
        // A sub-agent's lines in the same file form a separate tree.
        let is_main = !is_true(line.sidechain) && line.agent.is_none();
        let refers = |parent: &u64| self.nodes.get(parent).is_some_and(|parent| parent.is_note);
        // A line without a known parent continues the newest line.
        let parent = parent
            .filter(|parent| !is_main || !refers(parent))
            .or(self.leaf.filter(|_| is_main));
        self.nodes.insert(
            id,
            Node {
                parent,
                step,
                is_alive: true,
                is_note,
            },
        );
        if !is_main {
            return Vec::new();
        }
        let leaf = self.leaf.replace(id);
        if parent == leaf {
            Vec::new()
        } else {
            self.turn(leaf, parent)
        }
    }

    /// Switches from the branch that ended in `leaf` to the one with `parent`.
    fn turn(&mut self, leaf: Option<u64>, parent: Option<u64>) -> Vec<(usize, bool)> {
        let mut changed = Vec::new();
        let fork = self.mark(parent, None, true, &mut changed);
        self.mark(leaf, fork, false, &mut changed);
        changed
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

    /// Changes how many lines of a step are on the current branch. Returns the previous number.
    fn count_alive(&mut self, step: u32, count: impl Fn(u32) -> u32) -> u32 {
        let before = self.alive.get(&step).copied().unwrap_or_default();
        self.alive.insert(step, count(before));
        before
    }

    /// Marks the lines from `at` towards the root, up to `end` or the first line that already has
    /// the mark. Returns the line where it stopped.
    fn mark(
        &mut self,
        mut at: Option<u64>,
        end: Option<u64>,
        is_alive: bool,
        changed: &mut Vec<(usize, bool)>,
    ) -> Option<u64> {
        while let Some(id) = at.filter(|_| at != end && self.walk > 0) {
            let Some(node) = self
                .nodes
                .get_mut(&id)
                .filter(|node| node.is_alive != is_alive)
            else {
                break;
            };
            self.walk -= 1;
            node.is_alive = is_alive;
            at = node.parent;
            let Some(step) = node.step else { continue };
            let before = self.count_alive(step, |lines| {
                if is_alive {
                    lines + 1
                } else {
                    lines.saturating_sub(1)
                }
            });
            // A step is on the branch if any of its lines is: each of its calls may have a separate
            // line.
            if let (0, true, Ok(step)) | (1, false, Ok(step)) =
                (before, is_alive, usize::try_from(step))
            {
                changed.push((step, !is_alive));
            }
        }
        at
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

fn hash(what: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    what.hash(&mut hasher);
    hasher.finish()
}
