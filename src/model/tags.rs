//! Bounds the tags of a run. A tag names a set of runs.

/// Maximum number of tags of a run from one source.
pub const MAX_TAGS: usize = 32;
/// Maximum number of characters of a tag.
pub const MAX_TAG_CHARS: usize = 64;

/// The tags that a run records.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct RecordedTags {
    /// The tags that are kept, in the order of the records.
    pub(crate) kept: Vec<Box<str>>,
    left_out: usize,
}

impl RecordedTags {
    /// Keeps the distinct ones of `tags` that are within the bounds, without white space around
    /// them.
    pub(crate) fn of<T: AsRef<str>>(tags: impl Iterator<Item = T>) -> Self {
        let mut read = Self::default();
        for tag in tags {
            let tag = tag.as_ref().trim();
            if tag.is_empty() || read.kept.iter().any(|kept| **kept == *tag) {
                continue;
            }
            let is_long = tag.chars().nth(MAX_TAG_CHARS).is_some();
            if is_long || read.kept.len() == MAX_TAGS {
                read.left_out += 1;
            } else {
                read.kept.push(tag.into());
            }
        }
        read
    }

    /// Says how many tags aren't kept, if any.
    pub(crate) fn left_out_words(&self) -> Option<String> {
        let verb = if self.left_out == 1 {
            "tag is"
        } else {
            "tags are"
        };
        (self.left_out > 0).then(|| {
            format!(
                "{} {verb} skipped: board keeps {MAX_TAGS} tags of up to {MAX_TAG_CHARS} characters",
                self.left_out
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_over_the_bounds_are_skipped_and_counted() {
        let read = RecordedTags::of([" a ", "", "b", "a"].into_iter());
        assert_eq!(read.kept, ["a".into(), "b".into()]);
        assert_eq!(read.left_out_words(), None);
        let most = "é".repeat(MAX_TAG_CHARS);
        assert_eq!(RecordedTags::of([&most].into_iter()).kept.len(), 1);
        let read = RecordedTags::of([format!("{most}x")].into_iter());
        assert!(read.kept.is_empty());
        assert_eq!(
            read.left_out_words().as_deref(),
            Some("1 tag is skipped: board keeps 32 tags of up to 64 characters")
        );
        let read = RecordedTags::of((0..40).map(|n| n.to_string()));
        assert_eq!(read.kept.len(), MAX_TAGS);
        assert!(read.left_out_words().unwrap().starts_with("8 tags are"));
    }
}
