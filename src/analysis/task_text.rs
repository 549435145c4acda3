//! Compares the texts of tasks as queries do: letter case doesn't matter. Else a link to the runs of a
//! task would show those of another one too.

use std::cmp::Ordering;
use std::hash::{Hash, Hasher};

/// The text of a task.
#[derive(Debug, Clone, Copy)]
pub(super) struct TaskText<'a>(pub(super) &'a str);

impl<'a> TaskText<'a> {
    /// Iterates over the characters in lower case.
    fn folded(self) -> impl Iterator<Item = char> + use<'a> {
        self.0.chars().flat_map(char::to_lowercase)
    }
}

impl PartialEq for TaskText<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0 || self.folded().eq(other.folded())
    }
}

impl Eq for TaskText<'_> {}

impl Ord for TaskText<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        match self.0 == other.0 {
            true => Ordering::Equal,
            false => self.folded().cmp(other.folded()),
        }
    }
}

impl PartialOrd for TaskText<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Hash for TaskText<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        /// Tasks that begin alike are compared in full.
        const HASHED: usize = 200;
        let mut buffer = [0; 4];
        for c in self.folded().take(HASHED) {
            state.write(c.encode_utf8(&mut buffer).as_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn tasks_that_differ_only_in_case_are_one() {
        let long = "a".repeat(300);
        let texts = [
            "Fix É".to_owned(),
            "fix é".to_owned(),
            "fix e".to_owned(),
            format!("{long}b"),
            format!("{long}C"),
            format!("{long}c"),
        ];
        let found: HashSet<TaskText<'_>> = texts.iter().map(|text| TaskText(text)).collect();
        assert_eq!(found.len(), 4);
        assert_eq!(TaskText("ABC").cmp(&TaskText("abc")), Ordering::Equal);
        assert_eq!(TaskText("B").cmp(&TaskText("a")), Ordering::Greater);
    }
}
