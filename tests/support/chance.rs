//! Generates pseudorandom numbers from a seed, so that a failure can be reproduced.

/// A pseudorandom sequence (SplitMix64, with its authors' constants).
#[derive(Debug, Clone)]
pub(crate) struct Chance(u64);

impl Chance {
    /// Starts the sequence of `seed`.
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Returns a number below `end`, which must be above 0.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % end
    }

    /// Returns an index into something of length `len`.
    pub(crate) fn place(&mut self, len: usize) -> usize {
        self.below(len.max(1) as u64) as usize
    }

    /// Returns true once in `times` calls on average.
    pub(crate) fn once_in(&mut self, times: u64) -> bool {
        self.below(times) == 0
    }
}
