//! Checks parsers of user input: everything typed is parsed or reported, and printed values parse
//! back to the same.

use serde_json::Value;
use trace_board::analysis::query::Query;
use trace_board::analysis::state::path_of;
use trace_board::analysis::whatif::typed;
use trace_board::model::json::{Json, same};
use trace_board::stop::StopSpec;

/// A search box query: every term is kept, and the printed form parses back to the same query.
pub fn query(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    let query = Query::parse(text);
    let shown = query.to_string();
    assert_eq!(Query::parse(&shown), query, "{shown}");
    assert_eq!(
        query.terms.is_empty() && query.ignored.is_empty(),
        text.trim().is_empty(),
        "nothing is dropped"
    );
    for place in 0..query.terms.len().min(8) {
        let rest = Query::parse(&query.without(place));
        assert_eq!(
            (rest.terms.len(), rest.ignored.len()),
            (query.terms.len() - 1, query.ignored.len())
        );
    }
    assert!(
        query
            .ignored
            .iter()
            .all(|ignored| !ignored.why.is_empty() && !ignored.text.is_empty())
    );
}

/// A stop rule, in the short form or as JSON.
pub fn rules(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    let no_files = |file: &str| Err(format!("{file} is not read"));
    match StopSpec::parse_with(text, no_files) {
        Ok(spec) => {
            let shown = spec.to_string();
            let read = StopSpec::parse_with(&shown, no_files)
                .unwrap_or_else(|wrong| panic!("{wrong}: {shown}"));
            assert_eq!(read, spec, "{shown}");
            if let Ok(json) = serde_json::to_string(&spec) {
                let finite = serde_json::from_str::<StopSpec>(&json);
                assert!(
                    finite.as_ref().is_ok_and(|read| *read == spec) || spec.validate(None).is_err(),
                    "{json}"
                );
            }
        }
        Err(wrong) => assert!(!wrong.to_string().is_empty()),
    }
    for rule in typed([text.to_owned()], no_files) {
        if let Err(wrong) = rule.read {
            assert!(!wrong.why.is_empty());
            assert!(
                StopSpec::parse_with(wrong.example, no_files).is_ok(),
                "{} is right",
                wrong.example
            );
        }
    }
}

/// The path of a value in the state. The first line of the input is the path, the rest is the
/// value.
pub fn key_path(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    let (path, value) = text.split_once('\n').unwrap_or((text, "{}"));
    assert_eq!(
        path_of(path, |key| key == path).key,
        path,
        "a key of the state is itself"
    );
    let parsed = path_of(path, |_| false);
    let pointer = |parts: &mut dyn Iterator<Item = &String>| {
        parts
            .map(|part| format!("/{}", part.replace('~', "~0").replace('/', "~1")))
            .collect::<String>()
    };
    let whole = pointer(&mut std::iter::once(&parsed.key).chain(&parsed.below));
    assert_eq!(path_of(&whole, |_| false), parsed, "{whole}");
    let below = pointer(&mut parsed.below.iter());
    let found = parsed.find(value);
    if let Ok(read) = serde_json::from_str::<Value>(value)
        && let Some(expected) = read.pointer(&below)
    {
        let found = found.unwrap_or_else(|| panic!("{below} leads somewhere in {value}"));
        let value_there = expected;
        let expected = expected.to_string();
        // `Value` rounds numbers that it can't represent; the board doesn't.
        let alike = Json::parse(&found)
            .zip(Json::parse(&expected))
            .is_some_and(|(a, b)| same(&a, &b));
        let rounded =
            serde_json::from_str::<Value>(&found).is_ok_and(|found| found == *value_there);
        assert!(alike || rounded, "{below}: {found}, {expected}");
    }
}
