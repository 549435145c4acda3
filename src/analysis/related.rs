//! Chooses which of several runs with the same id is meant. Some tools give one id to all files
//! that continue each other, and captured output of a session has the session's id too. The run in
//! the nearest file is meant.

/// The maximum number of runs with one id that are compared.
const MAX_SAME: usize = 64;

/// Returns the index of the candidate key that shares the longest prefix with `key`; of several,
/// the first.
pub(crate) fn nearest<'a>(
    key: &str,
    candidates: impl IntoIterator<Item = &'a str>,
) -> Option<usize> {
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
    fn the_nearest_file_is_chosen() {
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
