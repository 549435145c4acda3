//! Which names are like one that nothing has? For "did you mean": runs, rules.

/// What goes by the names that are like `wanted`, the likest first. Names that have little in common are left out.
pub fn closest<'n, T>(
    wanted: &str,
    names: impl Iterator<Item = (&'n str, T)>,
) -> impl Iterator<Item = T> {
    let mut close: Vec<(usize, T)> = names
        .filter_map(|(name, what)| Some((difference(wanted, name)?, what)))
        .collect();
    close.sort_by_key(|(difference, _)| *difference);
    close.into_iter().map(|(_, what)| what)
}

/// How many bytes are left of the longer name without the common start and end, or without the shorter name where that
/// stands in it; `None` where more than half of the shorter name differs.
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
    fn the_likest_name_comes_first_and_others_are_left_out() {
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
