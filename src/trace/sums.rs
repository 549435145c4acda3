//! Detects changes in bytes that were already read, with a checksum for each block. Knows nothing
//! of lines.
//!
//! For a file that only grows, this costs only the checksums of the new bytes. To detect other
//! changes, the caller compares old blocks again, as many at a time as it can afford.

use std::io;

use super::read_at::ReadAt;

/// The bytes per checksum. Each append to a file also re-reads at least this many.
pub(super) const BLOCK_BYTES: u64 = 16 << 10;
/// The bytes per word of a checksum.
const WORD: usize = 8;

/// The checksums of the first bytes of a file.
#[derive(Debug, Default)]
pub(super) struct Sums {
    /// `None` for a block that wasn't seen completely.
    blocks: Vec<Option<u64>>,
    /// The offset where the checksummed bytes end.
    end: u64,
    /// The next block to compare.
    next: usize,
}

impl Sums {
    /// Adds bytes at `offset`. Any gap before them makes the affected blocks unknown.
    pub(super) fn add(&mut self, offset: u64, bytes: &[u8]) {
        if offset > self.end {
            for block in self.end / BLOCK_BYTES..=(offset - 1) / BLOCK_BYTES {
                self.change(block, |_| None);
            }
        }
        let mut at = offset;
        let mut rest = bytes;
        while !rest.is_empty() {
            let room = (BLOCK_BYTES - at % BLOCK_BYTES).min(rest.len() as u64);
            let (now, later) =
                rest.split_at(usize::try_from(room).unwrap_or(rest.len()).min(rest.len()));
            self.change(at / BLOCK_BYTES, |sum| {
                sum.map(|sum| sum.wrapping_add(sum_of(at, now)))
            });
            (at, rest) = (at + room, later);
        }
        self.end = self.end.max(at);
    }

    /// Returns the number of blocks.
    pub(super) fn len(&self) -> usize {
        self.blocks.len()
    }

    /// Compares the next `count` blocks with the file, in a cycle. Returns whether they are
    /// unchanged.
    ///
    /// # Errors
    /// Returns the error of reading.
    pub(super) fn agree(&mut self, file: &impl ReadAt, count: usize) -> io::Result<bool> {
        let mut bytes = Vec::new();
        for _ in 0..count.min(self.blocks.len()) {
            let at = self.next % self.blocks.len();
            self.next = at + 1;
            let Some(Some(sum)) = self.blocks.get(at) else {
                continue;
            };
            let start = at as u64 * BLOCK_BYTES;
            let len =
                usize::try_from((self.end - start).min(BLOCK_BYTES)).map_err(io::Error::other)?;
            bytes.resize(len, 0);
            if file.read_at(&mut bytes, start)? < len || sum_of(start, &bytes) != *sum {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn change(&mut self, block: u64, new: impl FnOnce(Option<u64>) -> Option<u64>) {
        let Ok(at) = usize::try_from(block) else {
            return;
        };
        if at >= self.blocks.len() {
            self.blocks.resize(at + 1, Some(0));
        }
        if let Some(sum) = self.blocks.get_mut(at) {
            *sum = new(*sum);
        }
    }
}

/// Returns what `bytes` at `offset` add to the checksum of their block: each word of the file times
/// a distinct odd number.
///
/// The result doesn't depend on how the bytes were split into reads. Changing a single word always
/// changes the checksum, because an odd number has an inverse modulo 2^64. If words are swapped,
/// the checksums only match by a 64-bit coincidence.
fn sum_of(offset: u64, bytes: &[u8]) -> u64 {
    let before = (WORD - offset as usize % WORD) % WORD;
    let (head, rest) = bytes.split_at(before.min(bytes.len()));
    let (words, tail) = rest.as_chunks::<WORD>();
    let first = (offset + head.len() as u64) / WORD as u64;
    let mut sum = part(offset, head);
    for (at, word) in (first..).zip(words) {
        sum = sum.wrapping_add(u64::from_le_bytes(*word).wrapping_mul(factor(at)));
    }
    sum.wrapping_add(part((first + words.len() as u64) * WORD as u64, tail))
}

/// Returns the same for bytes inside one word.
fn part(offset: u64, bytes: &[u8]) -> u64 {
    let shift = |at: u64| 8 * (at % WORD as u64);
    let word = (offset..)
        .zip(bytes)
        .fold(0, |word, (at, byte)| word | u64::from(*byte) << shift(at));
    word.wrapping_mul(factor(offset / WORD as u64))
}

/// Returns an odd number for the word at `at`, from the finalizer of SplitMix64.
fn factor(at: u64) -> u64 {
    let mixed = at.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    ((mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 7) | 1
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::{Seek as _, SeekFrom, Write as _};

    use super::*;

    fn text(len: usize) -> Vec<u8> {
        (0..len).map(|at| (at * at / 7 % 251) as u8).collect()
    }

    fn on_disk(text: &[u8]) -> File {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(text).unwrap();
        file
    }

    fn put(mut file: &File, at: u64, byte: u8) {
        file.seek(SeekFrom::Start(at)).unwrap();
        file.write_all(&[byte]).unwrap();
    }

    #[test]
    fn the_sums_do_not_depend_on_the_reads() {
        let text = text(200_001);
        let mut whole = Sums::default();
        whole.add(0, &text);
        for step in [1, 3, 8, 1000, 65_537] {
            let mut pieces = Sums::default();
            for (at, piece) in text.chunks(step).enumerate() {
                pieces.add((at * step) as u64, piece);
            }
            assert_eq!(
                (pieces.blocks, pieces.end),
                (whole.blocks.clone(), whole.end),
                "{step}"
            );
        }
    }

    #[test]
    fn one_other_byte_is_found_wherever_it_is() {
        let text = text(150_000);
        let file = on_disk(&text);
        let mut sums = Sums::default();
        sums.add(0, &text);
        assert!(sums.agree(&file, sums.len()).unwrap());
        for at in [0, 1, 65_535, 65_536, 80_003, 149_999] {
            put(&file, at as u64, text[at] ^ 0x80);
            assert!(!sums.agree(&file, sums.len()).unwrap(), "{at}");
            put(&file, at as u64, text[at]);
            assert!(sums.agree(&file, sums.len()).unwrap(), "{at}");
        }
        file.set_len(149_000).unwrap();
        assert!(!sums.agree(&file, sums.len()).unwrap());
    }

    #[test]
    fn words_that_change_places_are_found() {
        let (text, turned) = (*b"one word two text", *b"two text one word");
        let mut sums = Sums::default();
        sums.add(0, &text);
        assert!(sums.agree(&on_disk(&text), 1).unwrap());
        assert!(!sums.agree(&on_disk(&turned), 1).unwrap());
    }

    #[test]
    fn what_was_not_seen_is_not_judged_and_the_rest_is() {
        let text = text(300_000);
        let mut sums = Sums::default();
        sums.add(0, &text[..70_000]);
        sums.add(140_000, &text[140_000..]);
        let mut other = text.clone();
        other[100_000] ^= 1;
        assert!(sums.agree(&on_disk(&other), sums.len()).unwrap());
        other[250_000] ^= 1;
        assert!(!sums.agree(&on_disk(&other), sums.len()).unwrap());
    }

    #[test]
    fn a_few_blocks_at_a_time_come_round() {
        let mut text = text(10 * BLOCK_BYTES as usize);
        let mut sums = Sums::default();
        sums.add(0, &text);
        text[9 * BLOCK_BYTES as usize] ^= 1;
        let file = on_disk(&text);
        let agree: Vec<bool> = (0..6).map(|_| sums.agree(&file, 4).unwrap()).collect();
        assert_eq!(agree, [true, true, false, true, true, false]);
    }
}
