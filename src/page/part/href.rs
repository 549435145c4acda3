//! Every address the board links to is made here, so that a key is encoded once and in one way.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use crate::page::assets;

/// Everything but the unreserved characters of RFC 3986 is encoded, so a key is always one path segment.
const SEGMENT: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'_')
    .remove(b'.')
    .remove(b'~');

/// Encodes one path segment or one query value.
pub(crate) fn encode(text: &str) -> String {
    // A segment of dots alone would be taken for a relative path by every browser.
    if text == "." || text == ".." {
        return text.replace('.', "%2E");
    }
    utf8_percent_encode(text, SEGMENT).to_string()
}

/// Adds `name=value` pairs to `path`; pairs without a value are left out.
pub(crate) fn with_query(path: &str, pairs: &[(&str, &str)]) -> String {
    let mut out = path.to_owned();
    for (index, (name, value)) in pairs
        .iter()
        .filter(|(_, value)| !value.is_empty())
        .enumerate()
    {
        out.push(if index == 0 { '?' } else { '&' });
        out.push_str(name);
        out.push('=');
        out.push_str(&encode(value));
    }
    out
}

pub(crate) fn assets() -> String {
    format!("/static/{}", assets::version())
}

/// The run table with a query.
pub(crate) fn runs(query: &str) -> String {
    with_query("/", &[("q", query)])
}

/// Other rules over the runs that a query selects.
pub(crate) fn sweep(query: &str) -> String {
    with_query("/whatif", &[("q", query)])
}

/// A text in the runs that a query selects.
pub(crate) fn search(text: &str, query: &str) -> String {
    with_query("/search", &[("q", text), ("in", query)])
}

pub(crate) const KEYS: &str = "/keys";

/// Two runs beside each other.
pub(crate) const COMPARE: &str = "/compare";
/// Two runs row by row.
pub(crate) const LOCKSTEP: &str = "/compare/replay";

/// Two runs beside each other; an empty key is still to be chosen.
pub(crate) fn compare(a: &str, b: &str) -> String {
    with_query(COMPARE, &[("a", a), ("b", b)])
}

/// The same from row `from` on.
pub(crate) fn compare_from(a: &str, b: &str, from: Option<usize>) -> String {
    let from = from.map(|from| from.to_string()).unwrap_or_default();
    with_query(COMPARE, &[("a", a), ("b", b), ("from", &from)])
}

/// Row `at` of two runs.
pub(crate) fn lockstep(a: &str, b: &str, at: usize) -> String {
    with_query(LOCKSTEP, &[("a", a), ("b", b), ("at", &at.to_string())])
}

pub(crate) fn run(key: &str) -> String {
    format!("/runs/{}", encode(key))
}

/// The page of a run with step `n` selected.
pub(crate) fn run_at(key: &str, n: usize) -> String {
    format!("/runs/{}?step={n}", encode(key))
}

/// The run page with the step selected that started the run `child`.
pub(crate) fn run_started(key: &str, child: &str) -> String {
    with_query(&run(key), &[("started", child)])
}

/// One step on a page of its own.
pub(crate) fn step(key: &str, n: usize) -> String {
    format!("/runs/{}/steps/{n}", encode(key))
}

/// One event; what is below it is its line and the values in it.
pub(crate) fn event(key: &str, n: usize) -> String {
    format!("/runs/{}/events/{n}", encode(key))
}

/// The line of `len` bytes whose address is `base`, on a page of its own; one that is too long for that, as it is.
pub(crate) fn alone(base: &str, len: u64) -> String {
    let is_page = len <= crate::model::MAX_LINE_BYTES;
    format!("{base}/{}", if is_page { "value" } else { "raw" })
}

/// The manifest likewise.
pub(crate) fn manifest(key: &str) -> String {
    format!("/runs/{}/manifest", encode(key))
}

/// A tab of the run page: `events`, `manifest`, `issues`; the empty name is the steps. `/runs/{key}/events` is the
/// stream of revisions, so tabs are a parameter.
pub(crate) fn tab(key: &str, tab: &str) -> String {
    with_query(&run(key), &[("tab", tab)])
}

/// Other stop rules asked about a run; without rules, those that the board suggests.
pub(crate) fn whatif(key: &str) -> String {
    format!("{}/whatif", run(key))
}

/// The same with these rules, and with the step that is read; with no rules, only the run's own.
pub(crate) fn whatif_with(key: &str, rules: &[String], step: Option<usize>) -> String {
    let rules: Vec<String> = rules
        .iter()
        .map(|rule| format!("rule={}", encode(rule)))
        .collect();
    // An empty parameter tells "no rule" from "nothing asked yet".
    let query = if rules.is_empty() {
        "rule=".to_owned()
    } else {
        rules.join("&")
    };
    let step = step.map(|n| format!("&step={n}")).unwrap_or_default();
    format!("{}?{query}{step}", whatif(key))
}

/// A run, event by event.
pub(crate) fn replay(key: &str) -> String {
    format!("{}/replay", run(key))
}

/// The same at the first event of step `n`.
pub(crate) fn replay_at(key: &str, n: usize) -> String {
    with_query(&replay(key), &[("step", &n.to_string())])
}

/// What the critics of a run said.
pub(crate) fn scores(key: &str) -> String {
    format!("{}/scores", run(key))
}

/// The scores of several runs over each other, from this one on; of no run, how to choose them.
pub(crate) fn overlay(key: &str) -> String {
    with_query("/scores", &[("run", key)])
}

/// The element id for a run: letters, digits and `-` stay, everything else becomes `_` and its bytes in hex,
/// so that the id is a valid CSS identifier and two keys never share one.
pub(crate) fn run_id(key: &str) -> String {
    let mut id = String::from("run-");
    for byte in key.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' => id.push(char::from(byte)),
            b'_' => id.push_str("__"),
            _ => {
                id.push('_');
                id.push_str(&format!("{byte:02x}"));
            }
        }
    }
    id
}

#[cfg(test)]
mod tests {
    use crate::page::part::href::*;

    #[test]
    fn a_key_is_one_segment() {
        assert_eq!(run("a/b c"), "/runs/a%2Fb%20c");
        assert_eq!(run(".."), "/runs/%2E%2E");
        assert_eq!(with_query("/", &[("q", "a&b"), ("sort", "")]), "/?q=a%26b");
    }

    #[test]
    fn ids_are_identifiers_and_distinct() {
        assert_eq!(run_id("q060_x"), "run-q060__x");
        assert_ne!(run_id("a/b"), run_id("a_2fb"));
    }
}
