//! Encodes the rows of a page as a short text in the pulse's address, so that the server doesn't
//! need to remember pages.
//!
//! The format is `COUNT.FROM-TO.ONE`: the number of rows, then ranges of [`Listed::born`]. No range
//! includes a run that isn't shown. The unused numbers between two runs stay unused, because new
//! runs get new numbers.

use std::collections::HashSet;
use std::fmt::Write as _;

use crate::page::runs::fill::list::Listed;

/// A longer text is omitted from the address; bytes. The next pulse then sends the whole body.
const MAX_BYTES: usize = 4_000;

/// The rows that a page shows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Shown {
    count: usize,
    ranges: Vec<(u64, u64)>,
}

impl Shown {
    /// Parses the output of [`write()`].
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split('.');
        let count = parts.next()?.parse().ok()?;
        let range = |part: &str| {
            let (from, to) = part.split_once('-').unwrap_or((part, part));
            Some((from.parse().ok()?, to.parse().ok()?))
        };
        let ranges: Vec<(u64, u64)> = parts.map(range).collect::<Option<_>>()?;
        let rising =
            ranges.is_sorted_by(|a, b| a.1 < b.0) && ranges.iter().all(|(from, to)| from <= to);
        rising.then_some(Self { count, ranges })
    }

    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// Returns whether the page shows the run that was found at revision `born`.
    pub(crate) fn holds(&self, born: u64) -> bool {
        let at = self.ranges.partition_point(|(_, to)| *to < born);
        self.ranges.get(at).is_some_and(|(from, _)| *from <= born)
    }
}

/// Encodes which of `runs` are in `rows`. Returns an empty string if that would be too long for an
/// address.
pub(crate) fn write(rows: &[&Listed], runs: &[Listed]) -> String {
    let shown: HashSet<u64> = rows.iter().map(|listed| listed.born).collect();
    let mut all: Vec<u64> = runs.iter().map(|listed| listed.born).collect();
    all.sort_unstable();
    let mut text = rows.len().to_string();
    for stretch in all.chunk_by(|a, b| shown.contains(a) == shown.contains(b)) {
        let ends = stretch
            .first()
            .zip(stretch.last())
            .filter(|(first, _)| shown.contains(first));
        // Writing to a string can't fail.
        let _ = match ends {
            Some((first, last)) if first == last => write!(text, ".{first}"),
            Some((first, last)) => write!(text, ".{first}-{last}"),
            None => Ok(()),
        };
    }
    if text.len() > MAX_BYTES {
        String::new()
    } else {
        text
    }
}
