//! Finds names similar to an unknown one, such as a run or a rule, for "did you mean" hints.

/// Returns the items whose names are similar to `wanted`, most similar first. Skips names that have
/// little in common with it.
pub(crate) fn closest<'n, T>(
    wanted: &str,
    names: impl Iterator<Item = (&'n str, T)>,
) -> impl Iterator<Item = T> {
    let mut close: Vec<(usize, T)> = names
        .filter_map(|(name, what)| Some((difference(wanted, name)?, what)))
        .collect();
    close.sort_by_key(|(difference, _)| *difference);
    close.into_iter().map(|(_, what)| what)
}

/// Words the most similar name as a hint, ` (did you mean task?)`. Empty if none is similar.
pub(crate) fn did_you_mean<'n>(wanted: &str, names: impl Iterator<Item = &'n str>) -> String {
    let close = closest(wanted, names.map(|name| (name, name))).next();
    close.map_or_else(String::new, |close| format!(" (did you mean {close}?)"))
}

/// Returns the number of bytes in the longer name that are outside the common prefix and suffix, or
/// outside the shorter name if the longer one contains it. Returns `None` if more than half of the
/// shorter name differs, or if two bytes or fewer match.
fn difference(a: &str, b: &str) -> Option<usize> {
    let (shorter, longer) = if a.len() <= b.len() { (a, b) } else { (b, a) };
    let start = a.bytes().zip(b.bytes()).take_while(|(a, b)| a == b).count();
    let rest = shorter.len() - start;
    let end = a
        .bytes()
        .rev()
        .zip(b.bytes().rev())
        .take(rest)
        .take_while(|(a, b)| a == b)
        .count();
    let common = if longer.contains(shorter) {
        shorter.len()
    } else {
        start + end
    };
    (common > 2 && common * 2 >= shorter.len()).then(|| longer.len() - common)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_similar_name_comes_first() {
        let names = [
            "fix_bug",
            "fix_bug_2",
            "research",
            "big/fix_bag",
            "token_budget",
        ];
        let close =
            |wanted| closest(wanted, names.iter().map(|name| (*name, *name))).collect::<Vec<_>>();
        assert_eq!(close("fix_bug"), ["fix_bug", "fix_bug_2"]);
        assert_eq!(close("fix_bag"), ["fix_bug", "fix_bug_2", "big/fix_bag"]);
        assert_eq!(close("budget"), ["token_budget"]);
        assert_eq!(
            (close("nonsense"), close("x"), close("")),
            (vec![], vec![], vec![])
        );
        assert_eq!(close("reserach"), ["research"]);
    }
}
