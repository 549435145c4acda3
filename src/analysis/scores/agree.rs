//! Measures whether two critics agree: whether their scores rise and fall together over the steps
//! that both scored.

use super::Lane;

/// Limits the critics that are paired, since the number of pairs grows with its square.
pub const MAX_CRITICS: usize = 6;
/// With fewer common steps, any two orders agree by chance.
const MIN_STEPS: usize = 3;

/// Two critics and their agreement.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Pair {
    /// The index of the first critic's lane.
    pub a: usize,
    /// The index of the second critic's lane.
    pub b: usize,
    /// How many steps both scored.
    pub steps: usize,
    /// The correlation of their scores.
    pub rank: Rank,
}

/// The rank correlation of two series of scores.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Rank {
    /// Fewer than three common steps.
    TooFew,
    /// One of them has the same score at all common steps, so there's nothing to correlate.
    Flat,
    /// Spearman's rank correlation, from -1 (opposite order) to 1 (same order). Equal scores share
    /// their mean rank.
    Of(f64),
}

/// Returns all pairs of the first [`MAX_CRITICS`] lanes.
pub fn agreement(lanes: &[Lane]) -> Vec<Pair> {
    let steps: Vec<Vec<(usize, f64)>> = lanes.iter().take(MAX_CRITICS).map(Lane::by_step).collect();
    let mut pairs = Vec::new();
    for (a, first) in steps.iter().enumerate() {
        for (b, second) in steps.iter().enumerate().skip(a + 1) {
            let (left, right) = common(first, second);
            let rank = if left.len() < MIN_STEPS {
                Rank::TooFew
            } else {
                correlation(&ranks(&left), &ranks(&right))
            };
            pairs.push(Pair {
                a,
                b,
                steps: left.len(),
                rank,
            });
        }
    }
    pairs
}

/// Returns the scores of the steps that both scored.
fn common(first: &[(usize, f64)], second: &[(usize, f64)]) -> (Vec<f64>, Vec<f64>) {
    let mut others = second.iter().peekable();
    let mut both = (Vec::new(), Vec::new());
    for (n, score) in first {
        while others.next_if(|(other, _)| other < n).is_some() {}
        if let Some((_, other)) = others.next_if(|(other, _)| other == n) {
            both.0.push(*score);
            both.1.push(*other);
        }
    }
    both
}

/// Returns the rank of each score. Equal scores share their mean rank.
fn ranks(scores: &[f64]) -> Vec<f64> {
    let mut order: Vec<(f64, usize)> = scores.iter().copied().zip(0..).collect();
    order.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut ranks = vec![0.0; scores.len()];
    let mut before = 0;
    for group in order.chunk_by(|a, b| a.0 == b.0) {
        let rank = before as f64 + (group.len() as f64 - 1.0) / 2.0;
        before += group.len();
        for (_, place) in group {
            if let Some(slot) = ranks.get_mut(*place) {
                *slot = rank;
            }
        }
    }
    ranks
}

/// Computes Pearson's correlation of two lists of ranks.
fn correlation(a: &[f64], b: &[f64]) -> Rank {
    let mean = (a.len() as f64 - 1.0) / 2.0;
    let (mut both, mut own_a, mut own_b) = (0.0, 0.0, 0.0);
    for (a, b) in a.iter().zip(b) {
        both += (a - mean) * (b - mean);
        own_a += (a - mean) * (a - mean);
        own_b += (b - mean) * (b - mean);
    }
    if own_a == 0.0 || own_b == 0.0 {
        Rank::Flat
    } else {
        Rank::Of((both / (own_a * own_b).sqrt()).clamp(-1.0, 1.0))
    }
}
