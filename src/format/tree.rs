//! Finds out which steps of a session are on its current branch.
//!
//! The records of some sessions form a tree: each names the one before it. When a user rewinds such a
//! session and sends another prompt, the records after that point remain in the file as an abandoned
//! branch. Must not know the format of a record.

use std::hash::{DefaultHasher, Hash, Hasher as _};

use super::recent::Recent;

/// Records of the tree that may be visited per record of the file, on average. If each record
/// leaves a long branch, the later branches of the file are not evaluated.
const WALK: usize = 64;

/// The records of a session that were read so far.
#[derive(Debug, Default)]
pub(super) struct Tree {
    nodes: Recent<u64, Node>,
    /// The newest record of the main conversation.
    leaf: Option<u64>,
    /// How many records of each step are on the current branch.
    alive: Recent<u32, u32>,
    /// How many records may still be visited.
    walk: usize,
}

/// A record of the tree.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Entry {
    /// A hash of its id.
    pub(super) id: u64,
    /// A hash of the id of the record before it.
    pub(super) parent: Option<u64>,
    /// The step that it belongs to.
    pub(super) step: Option<usize>,
    /// Whether it belongs to another agent, whose records form a separate tree.
    pub(super) is_aside: bool,
    /// Whether the program wrote it for itself. Later records that continue the conversation may
    /// refer back to it.
    pub(super) is_note: bool,
}

#[derive(Debug, Clone, Copy)]
struct Node {
    parent: Option<u64>,
    step: Option<u32>,
    is_alive: bool,
    is_note: bool,
}

impl Tree {
    /// Returns whether no record was added.
    pub(super) fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// Returns whether the record with this id was added.
    pub(super) fn contains(&self, id: u64) -> bool {
        self.nodes.contains_key(&id)
    }

    /// Adds a record. Returns the steps that it abandons (`true`) and the ones that it returns to
    /// (`false`).
    pub(super) fn add(&mut self, entry: Entry) -> Vec<(usize, bool)> {
        // If records share an id, the first one determines its position in the tree.
        if self.contains(entry.id) {
            return Vec::new();
        }
        let step = entry.step.and_then(|step| u32::try_from(step).ok());
        let parent = entry.parent.filter(|parent| self.contains(*parent));
        if let Some(step) = step {
            self.count_alive(step, |records| records + 1);
        }
        self.walk += WALK;
        let is_main = !entry.is_aside;
        let refers = |parent: &u64| self.nodes.get(parent).is_some_and(|parent| parent.is_note);
        // A record without a known parent continues the newest one.
        let parent = parent
            .filter(|parent| !is_main || !refers(parent))
            .or(self.leaf.filter(|_| is_main));
        self.nodes.insert(
            entry.id,
            Node {
                parent,
                step,
                is_alive: true,
                is_note: entry.is_note,
            },
        );
        if !is_main {
            return Vec::new();
        }
        let leaf = self.leaf.replace(entry.id);
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

    /// Changes how many records of a step are on the current branch. Returns the previous number.
    fn count_alive(&mut self, step: u32, count: impl Fn(u32) -> u32) -> u32 {
        let before = self.alive.get(&step).copied().unwrap_or_default();
        self.alive.insert(step, count(before));
        before
    }

    /// Marks the records from `at` towards the root, up to `end` or the first record that already
    /// has the mark. Returns the record where it stopped.
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
            let before = self.count_alive(step, |records| {
                if is_alive {
                    records + 1
                } else {
                    records.saturating_sub(1)
                }
            });
            // A step is on the branch if any of its records is: each of its calls may have a
            // separate record.
            if let (0, true, Ok(step)) | (1, false, Ok(step)) =
                (before, is_alive, usize::try_from(step))
            {
                changed.push((step, !is_alive));
            }
        }
        at
    }
}

/// Returns a hash of an id.
pub(super) fn hash(what: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    what.hash(&mut hasher);
    hasher.finish()
}
