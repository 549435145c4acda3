//! Random numbers with a fixed seed, so that the same runs have the same answer.

/// A generator of random numbers: SplitMix64. Unlike the generators of libraries, it gives the same
/// numbers in every version.
#[derive(Debug)]
pub(super) struct Random(pub(super) u64);

impl Random {
    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Returns a number below `end`, which must be less than 2³².
    pub(super) fn below(&mut self, end: usize) -> usize {
        (((self.next() >> 32) * end as u64) >> 32) as usize
    }

    /// Shuffles a list.
    pub(super) fn shuffle<T>(&mut self, list: &mut [T]) {
        for end in (1..list.len()).rev() {
            let other = self.below(end + 1);
            list.swap(end, other);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_those_of_splitmix64_and_each_place_is_equally_likely() {
        // The reference implementation in C with the seed 1234567.
        let mut random = Random(1_234_567);
        let numbers = [random.next(), random.next(), random.next()];
        assert_eq!(
            numbers,
            [
                6_457_827_717_110_365_317,
                3_203_168_211_198_807_973,
                9_817_491_932_198_370_423
            ]
        );
        let mut places = [[0_u32; 4]; 4];
        for _ in 0..40_000 {
            let mut list = [0, 1, 2, 3];
            random.shuffle(&mut list);
            for (place, item) in list.into_iter().enumerate() {
                places[item][place] += 1;
            }
        }
        // The standard deviation is 87.
        let is_even = |count: &u32| (9_600..10_400).contains(count);
        assert!(places.iter().flatten().all(is_even), "{places:?}");
    }
}
