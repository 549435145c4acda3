//! Bounds the tags of a run. A tag names a set of runs.

/// The most tags of a run from one source.
pub const MAX_TAGS: usize = 32;
/// The most characters of a tag.
pub const MAX_TAG_CHARS: usize = 64;
