//! Which of several runs is meant by an id? Some tools give one id to all the files that go on from one another, and what was
//! captured of a session has its id too: the nearer one is meant.

/// So many runs of one id are looked at.
const MAX_SAME: usize = 64;

/// The place among `candidates`, which are keys, of the one whose key has most in common with `key` from its start; of
/// several the first.
pub fn nearest<'a>(key: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<usize> {
    let shared = |other: &str| {
        key.bytes()
            .zip(other.bytes())
            .take_while(|(own, other)| own == other)
            .count()
    };
    let mut best = None;
    for (at, other) in candidates.into_iter().take(MAX_SAME).enumerate() {
        let shared = shared(other);
        if best.is_none_or(|(_, most)| shared > most) {
            best = Some((at, shared));
        }
    }
    best.map(|(at, _)| at)
}

#[cfg(test)]
mod tests {
    use super::nearest;

    #[test]
    fn the_file_beside_it_is_meant() {
        let keys = [
            "hello.trajectory.json",
            "sum-linear.trajectory.json",
            "sum.trajectory.json",
        ];
        assert_eq!(nearest("sum.trajectory.summary-1.json", keys), Some(2));
        assert_eq!(nearest("sum-linear.trajectory.cont-1.json", keys), Some(1));
        assert_eq!(
            (nearest("other", keys), nearest("other", [])),
            (Some(0), None)
        );
    }
}
