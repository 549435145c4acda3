//! Builds every address that board links to, so that keys are encoded in one place.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use crate::page::assets;

/// Encodes everything but the unreserved characters of RFC 3986. A key is then always one path
/// segment.
const SEGMENT: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'_')
    .remove(b'.')
    .remove(b'~');

/// Encodes one path segment or one query value.
pub(crate) fn encode(text: &str) -> String {
    // Browsers treat a segment of only dots as a relative path.
    if text == "." || text == ".." {
        return text.replace('.', "%2E");
    }
    utf8_percent_encode(text, SEGMENT).to_string()
}

/// The query parameters that name one run each, in the order of the compared runs.
pub(crate) const SIDE_PARAMS: [&str; 6] = ["a", "b", "c", "d", "e", "f"];

/// Adds `name=value` pairs to `path`. Skips pairs with an empty value.
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

/// Returns the address of the run table with a query.
pub(crate) fn runs(query: &str) -> String {
    with_query("/", &[("q", query)])
}

/// Returns the address of a sweep: other rules for the runs that a query selects.
pub(crate) fn sweep(query: &str) -> String {
    with_query("/whatif", &[("q", query)])
}

/// Returns the address of the usage of the runs that a query selects.
pub(crate) fn usage(query: &str, by: &str, period: &str) -> String {
    with_query("/usage", &[("by", by), ("period", period), ("q", query)])
}

/// The failures of many runs.
pub(crate) const FAILURES: &str = "/failures";

/// Returns the address of the failures of the runs that a query selects, with one of them open.
pub(crate) fn failures(query: &str, show: &str, place: &str, open: &str) -> String {
    let pairs = [
        ("q", query),
        ("show", show),
        ("where", place),
        ("open", open),
    ];
    let address = with_query(FAILURES, &pairs);
    match open {
        "" => address,
        id => format!("{address}#{}", encode(id)),
    }
}

/// Returns the address of the comparison of two sets of runs.
pub(crate) fn experiments(a: &str, b: &str) -> String {
    with_query("/experiments", &[("a", a), ("b", b)])
}

/// Returns the address of a full-text search in the runs that a query selects.
pub(crate) fn search(text: &str, query: &str) -> String {
    with_query("/search", &[("q", text), ("in", query)])
}

pub(crate) const KEYS: &str = "/keys";

/// Many runs at once.
pub(crate) const OVERVIEW: &str = "/overview";

/// The newest edits of files over all runs.
pub(crate) const EDITS: &str = "/edits";

/// Two runs side by side.
pub(crate) const COMPARE: &str = "/compare";
/// Two runs row by row.
pub(crate) const LOCKSTEP: &str = "/compare/replay";

/// Returns the address of two runs side by side. An empty key means that a run isn't chosen yet.
pub(crate) fn compare(a: &str, b: &str) -> String {
    with_query(COMPARE, &[("a", a), ("b", b)])
}

/// Returns the address of runs side by side, starting at row `from`. With `all`, equal rows are
/// shown too.
pub(crate) fn compare_from(keys: &[&str], from: Option<usize>, all: bool) -> String {
    let from = from.map(|from| from.to_string()).unwrap_or_default();
    compare_at(
        keys,
        &[("from", &*from), ("all", if all { "1" } else { "" })],
    )
}

/// Returns the address of runs side by side, with their settings from `setting`.
pub(crate) fn compare_settings(keys: &[&str], setting: usize) -> String {
    let setting = setting.to_string();
    format!("{}#settings", compare_at(keys, &[("setting", &setting)]))
}

fn compare_at(keys: &[&str], place: &[(&str, &str)]) -> String {
    let named = keys.len() <= SIDE_PARAMS.len();
    let side = |(at, key): (usize, &&'_ str)| {
        let name = SIDE_PARAMS.get(at).filter(|_| named);
        (*name.unwrap_or(&"run"), key.to_string())
    };
    let sides: Vec<(&str, String)> = keys.iter().enumerate().map(side).collect();
    let mut pairs: Vec<(&str, &str)> = sides.iter().map(|(name, key)| (*name, &**key)).collect();
    pairs.extend_from_slice(place);
    with_query(COMPARE, &pairs)
}

/// Returns the address of row `at` of two runs.
pub(crate) fn lockstep(a: &str, b: &str, at: usize) -> String {
    with_query(LOCKSTEP, &[("a", a), ("b", b), ("at", &at.to_string())])
}

pub(crate) fn run(key: &str) -> String {
    format!("/runs/{}", encode(key))
}

/// Returns the address of a run with step `n` selected.
pub(crate) fn run_at(key: &str, n: usize) -> String {
    format!("/runs/{}?step={n}", encode(key))
}

/// Returns the address of a run with the step selected that started the run `child`.
pub(crate) fn run_started(key: &str, child: &str) -> String {
    with_query(&run(key), &[("started", child)])
}

/// Returns the address of the separate page of a step.
pub(crate) fn step(key: &str, n: usize) -> String {
    format!("/runs/{}/steps/{n}", encode(key))
}

/// Returns the address of an event. The addresses of its line and values are below it.
pub(crate) fn event(key: &str, n: usize) -> String {
    format!("/runs/{}/events/{n}", encode(key))
}

/// Returns the address of a line of `len` bytes, given its `base`: a page of the value, or the raw
/// text if the line is too long for that.
pub(crate) fn alone(base: &str, len: u64) -> String {
    let is_page = len <= crate::model::MAX_LINE_BYTES;
    format!("{base}/{}", if is_page { "value" } else { "raw" })
}

/// Returns the address of the manifest.
pub(crate) fn manifest(key: &str) -> String {
    format!("/runs/{}/manifest", encode(key))
}

/// Returns the address of a tab of the run page: `events`, `manifest`, `issues`. An empty name
/// means the steps. Tabs are a parameter because `/runs/{key}/events` is the stream of revisions.
pub(crate) fn tab(key: &str, tab: &str) -> String {
    with_query(&run(key), &[("tab", tab)])
}

/// Returns the address where other stop rules can be tried on a run. Without rules, the page uses
/// those that board suggests.
pub(crate) fn whatif(key: &str) -> String {
    format!("{}/whatif", run(key))
}

/// Returns the address of these rules on a run, with the current step. An empty list means only the
/// run's own rules.
pub(crate) fn whatif_with(key: &str, rules: &[String], step: Option<usize>) -> String {
    let rules: Vec<String> = rules
        .iter()
        .map(|rule| format!("rule={}", encode(rule)))
        .collect();
    // An empty parameter means "no rule". Without the parameter, there is no question yet.
    let query = if rules.is_empty() {
        "rule=".to_owned()
    } else {
        rules.join("&")
    };
    let step = step.map(|n| format!("&step={n}")).unwrap_or_default();
    format!("{}?{query}{step}", whatif(key))
}

/// Returns the address of the replay of a run, event by event.
pub(crate) fn replay(key: &str) -> String {
    format!("{}/replay", run(key))
}

/// Returns the address of the replay at the first event of step `n`.
pub(crate) fn replay_at(key: &str, n: usize) -> String {
    with_query(&replay(key), &[("step", &n.to_string())])
}

/// Returns the address of the critics' scores of a run.
pub(crate) fn scores(key: &str) -> String {
    format!("{}/scores", run(key))
}

/// Returns the address of an overlay of several runs' scores, starting with this run. With an empty
/// key, the page lets the user choose runs.
pub(crate) fn overlay(key: &str) -> String {
    with_query("/scores", &[("run", key)])
}

/// Longer keys are hashed in ids; bytes.
const MAX_ID: usize = 40;

/// Returns the element id of a run. Letters, digits and `-` stay. `_` is doubled, and every other
/// byte becomes `_` and two hex digits. The id is a valid CSS identifier, and no two keys share
/// one.
pub(crate) fn run_id(key: &str) -> String {
    let mut id = String::from("run-");
    // `_h` isn't a byte. A page repeats the id of each run in its table.
    if key.len() > MAX_ID {
        let mut hash = DefaultHasher::new();
        key.hash(&mut hash);
        return format!("{id}_h{:016x}", hash.finish());
    }
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
