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

    /// Returns both texts without most of the start that they have in common. Tasks made from a
    /// template begin with the same thousands of bytes.
    fn past_common_start(self, other: Self) -> (Self, Self) {
        const BLOCK: usize = 64;
        let blocks = |text: Self| text.0.as_bytes().chunks(BLOCK);
        let equal = blocks(self).zip(blocks(other)).take_while(|(a, b)| a == b);
        let at = equal.map(|(block, _)| block.len()).sum();
        let rest =
            |text: &'a str| Self(text.get(text.floor_char_boundary(at)..).unwrap_or_default());
        (rest(self.0), rest(other.0))
    }
}

impl PartialEq for TaskText<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for TaskText<'_> {}

impl Ord for TaskText<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        let (rest, of_other) = TaskText(self.0).past_common_start(TaskText(other.0));
        rest.folded().cmp(of_other.folded())
    }
}

impl PartialOrd for TaskText<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Hash for TaskText<'_> {
    /// Hashes the whole text. If only the start counted, tasks made from a template would all have
    /// the same hash.
    fn hash<H: Hasher>(&self, state: &mut H) {
        const BLOCK: usize = 64;
        // A hasher may treat the same bytes differently if they come in other portions, so both ways
        // write the same blocks.
        if self.0.is_ascii() {
            let mut block = [0; BLOCK];
            for letters in self.0.as_bytes().chunks(BLOCK) {
                let (folded, _) = block.split_at_mut(letters.len());
                folded.copy_from_slice(letters);
                folded.make_ascii_lowercase();
                state.write(folded);
            }
        } else {
            let mut block = String::with_capacity(BLOCK + 4);
            for c in self.folded() {
                block.push(c);
                if block.len() >= BLOCK {
                    state.write(block.as_bytes());
                    block.clear();
                }
            }
            if !block.is_empty() {
                state.write(block.as_bytes());
            }
        }
        state.write_u8(0xff);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::hash::{BuildHasher, RandomState};

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

    #[test]
    fn a_common_start_changes_no_order() {
        let starts = ["", "a", "É", &"ab".repeat(40), &"aé€𝄞".repeat(20)];
        let ends = ["", "b", "B", "é", "É", "€", "\u{20ad}", "𝄞", "İ", "zz"];
        let texts: Vec<String> = starts
            .iter()
            .flat_map(|start| ends.map(|end| format!("{start}{end}")))
            .collect();
        for a in &texts {
            for b in &texts {
                let (one, other) = (TaskText(a), TaskText(b));
                let whole = a.to_lowercase().cmp(&b.to_lowercase());
                assert_eq!(one.cmp(&other), whole, "{a:?} {b:?}");
                assert_eq!(one == other, whole == Ordering::Equal);
            }
        }
    }

    #[test]
    fn equal_tasks_have_equal_hashes() {
        let state = RandomState::new();
        // The Kelvin sign is a k in lower case.
        for len in [0, 1, 63, 64, 65, 128, 200] {
            let tasks = ["k", "K", "\u{212a}"].map(|letter| letter.repeat(len));
            let hashes = tasks.each_ref().map(|task| state.hash_one(TaskText(task)));
            assert_eq!(TaskText(&tasks[0]), TaskText(&tasks[2]));
            assert!(hashes.iter().all(|hash| *hash == hashes[0]), "{len}");
        }
    }

    #[test]
    fn tasks_with_the_same_start_have_different_hashes() {
        let state = RandomState::new();
        let start = "You are a careful engineer. ".repeat(100);
        let hashes: HashSet<u64> = (0..1_000)
            .map(|n| state.hash_one(TaskText(&format!("{start}{n}"))))
            .collect();
        assert!(hashes.len() > 990, "{}", hashes.len());
    }
}
