//! The state after a step against the whole states that the files hold.

use std::collections::BTreeSet;
use std::path::Path;

use super::*;
use crate::analysis::facts::tests::{Files, runs_below};
use crate::model::json::Json;

fn open(run: &str) -> Files {
    Files::open(&Path::new(env!("CARGO_MANIFEST_DIR")).join(run))
}

/// Goes through a run: the keys that changed outside of reduce, and how many steps could be checked.
fn observed_as_left(files: &Files) -> (BTreeSet<String>, usize) {
    let mut keys = BTreeSet::new();
    let mut checked = 0;
    for n in 1..files.index.steps().len() {
        let Some(observed) = observed(files, files.index.steps()[n].span) else { continue };
        if files.index.lap_starts().contains(&n) {
            continue;
        }
        checked += 1;
        let before = state_at(&files.index, files, n - 1).unwrap();
        let outside: Vec<String> = outside(&files.index, files, n).into_iter().map(|change| change.key).collect();
        for (key, value) in observed.iter().filter(|(key, _)| !outside.contains(key)) {
            let known = before.get(key).unwrap_or_else(|| panic!("{key} is known after step {}", n - 1));
            let equal = known.value.as_deref().and_then(Json::parse).zip(Json::parse(value));
            let equal = equal.is_some_and(|(known, value)| same(&known, &value));
            assert!(equal || !known.doubt.is_empty(), "step {n}: {key} is {value}, not {known:?}");
        }
        keys.extend(outside);
    }
    (keys, checked)
}

#[test]
fn a_state_is_the_one_that_the_next_step_observes_but_for_what_changes_outside_of_reduce() {
    let mut checked = 0;
    for group in ["q010", "q030", "q060", "emulated"] {
        for path in runs_below(&format!("tests/corpus/{group}")) {
            let (keys, steps) = observed_as_left(&Files::open(&path));
            checked += steps;
            // The engine counts its steps, keeps books in metadata, and sets the result and the reason without a diff.
            let own = ["current_step", "metadata", "final_result", "stop_reason"];
            let odd: Vec<_> = keys.iter().filter(|key| !own.contains(&key.as_str())).collect();
            assert!(odd.is_empty(), "{}: {odd:?}", path.display());
        }
    }
    assert!(checked > 100, "{checked} steps were checked");
}

#[test]
fn what_a_step_of_ours_found_is_what_the_steps_before_it_left() {
    let mut checked = 0;
    for path in runs_below("sample_runs") {
        let files = Files::open(&path);
        for n in 0..files.index.steps().len() {
            let before = state_before(&files.index, &files, n).unwrap();
            let after = state_at(&files.index, &files, n).unwrap();
            for key in keys_of(&files.index, &files, n) {
                let path = KeyPath { key: key.to_string(), below: Vec::new() };
                let change = change_of(&files.index, &files, &path, n).unwrap();
                let at = |state: &StateAt| state.get(&key).and_then(|known| known.value.clone());
                let holds =
                    |a: Option<String>, b: Option<&str>| equal(&a.unwrap_or("null".into()), b.unwrap_or("null"));
                assert!(holds(at(&before), change.before.as_deref()), "{}: step {n}, {key}", files.index.label(n));
                assert!(holds(at(&after), change.after.as_deref()), "{}: step {n}, {key}", files.index.label(n));
                assert_eq!(after.get(&key).and_then(|known| known.written), Some(n));
                checked += 1;
            }
        }
    }
    assert!(checked > 200, "{checked} changes were checked");
}

#[test]
fn a_value_has_a_history() {
    let files = open("sample_runs/fix_bug");
    let all = changes_of(&files.index, &files, "tests", 0..11);
    assert_eq!(all, [1, 5, 9], "{all:?}");
    assert_eq!(changes_of(&files.index, &files, "tests", 0..8), [1, 5]);
    assert!(changes_of(&files.index, &files, "no such key", 0..11).is_empty());
    let passed = path_of("tests.passed", |key| key == "tests");
    assert_eq!((passed.key.as_str(), passed.below.as_slice()), ("tests", &["passed".to_owned()][..]));
    let told: Vec<_> = all.iter().filter_map(|n| change_of(&files.index, &files, &passed, *n)).collect();
    let sides: Vec<_> = told.iter().map(|change| (change.before.as_deref(), change.after.as_deref())).collect();
    assert_eq!(sides, [(Some("0"), Some("2")), (Some("2"), Some("3")), (Some("3"), Some("4"))]);
    let last = state_at(&files.index, &files, 10).unwrap();
    assert_eq!(last.get("tests").map(|known| (known.changes, known.written)), Some((3, Some(9))));
}

#[test]
fn paths_are_keys_pointers_or_names_with_dots() {
    let path = |text: &str| {
        let path = path_of(text, |key| key == "a.b");
        (path.key, path.below.join(" "))
    };
    assert_eq!(path("a.b"), ("a.b".into(), "".into()));
    assert_eq!(path("plan[0].status"), ("plan".into(), "0 status".into()));
    assert_eq!(path("/a~1b/c~0d"), ("a/b".into(), "c~d".into()));
    assert_eq!(path("..").0, "..");
    let found = |text: &str| path_of(text, |_| false).find(r#"[{"status": "todo"}, 2]"#);
    assert_eq!(found("plan[0].status").as_deref(), Some("\"todo\""));
    assert_eq!((found("plan[7]"), found("plan.x").as_deref()), (None, None));
}

#[test]
fn a_step_that_changes_very_many_keys_loses_none() {
    let dir = tempfile::tempdir().unwrap();
    let key = |n: usize| format!("\"k{n}\": {{\"before\": null, \"after\": {n}}}");
    let keys: Vec<String> = (0..3_000).map(key).collect();
    let line = format!("{{\"step_id\": 0, \"state_diff\": {{{}}}}}\n", keys.join(", "));
    std::fs::write(dir.path().join("steps.jsonl"), line).unwrap();
    let files = Files::open(dir.path());
    let state = state_at(&files.index, &files, 0).unwrap();
    assert_eq!((state.base, state.keys.len()), (Base::Nowhere, 3_000));
    assert_eq!(state.get("k2999").unwrap().value.as_deref(), Some("2999"));
    assert_eq!(changes_of(&files.index, &files, "k2999", 0..1), [0]);
}

#[test]
fn a_walk_through_a_run_meets_the_state_of_every_step() {
    let mut met = 0;
    for group in ["sample_runs", "tests/corpus/q010", "tests/corpus/q030", "tests/corpus/q060", "tests/corpus/emulated"]
    {
        for path in runs_below(group) {
            let files = Files::open(&path);
            let mut steps = 0;
            walk(&files.index, &files, &mut |n, keys| {
                let by_name = |keys: &[KeyAt]| {
                    let named = keys.iter().map(|known| (known.key.clone(), known.clone()));
                    named.collect::<std::collections::BTreeMap<_, _>>()
                };
                let state = state_at(&files.index, &files, n).unwrap();
                assert_eq!(by_name(keys), by_name(&state.keys), "{}: step {n}", path.display());
                steps += 1;
                true
            });
            assert_eq!(steps, files.index.steps().len(), "{}", path.display());
            met += steps;
        }
    }
    assert!(met > 400, "{met} steps were met");
}

#[test]
fn a_step_that_observed_nothing_is_known_from_what_the_next_one_found() {
    let files = open("tests/corpus/q060/q060_wait_forever");
    for n in [0, 1, 2] {
        let state = state_at(&files.index, &files, n).unwrap();
        assert!(matches!(state.base, Base::Found { step, .. } if step == n), "{n}: {:?}", state.base);
        let steps = state.get("current_step").unwrap();
        assert_eq!((steps.value.as_deref(), steps.doubt), (Some(&*n.to_string()), ""));
    }
    // Nothing tells what the last step began with but what is known of the step before it.
    let last = files.index.steps().len() - 1;
    let state = state_at(&files.index, &files, last).unwrap();
    assert_eq!(state.get("current_step").unwrap().doubt, OLDER);
}
