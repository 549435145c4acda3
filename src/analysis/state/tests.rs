//! Compares reconstructed states with the whole states that the files contain.

use std::collections::BTreeSet;
use std::path::Path;

use super::*;
use crate::analysis::facts::tests::{Files, runs_below};
use crate::analysis::whatif::{RuleSet, StopTiming};
use crate::model::json::{Json, same};

fn open(run: &str) -> Files {
    Files::open(&Path::new(env!("CARGO_MANIFEST_DIR")).join(run))
}

/// Checks a run. Returns the keys that changed outside of reduce, and the number of steps that
/// could be checked.
fn observed_as_left(files: &Files) -> (BTreeSet<String>, usize) {
    let mut keys = BTreeSet::new();
    let mut checked = 0;
    for n in 1..files.index.steps().len() {
        let Some(observed) = observed(files, files.index.steps().get(n).unwrap().span) else {
            continue;
        };
        if files.index.lap_starts().contains(&n) {
            continue;
        }
        checked += 1;
        let before = state_at(&files.index, files, n - 1).unwrap();
        let outside: Vec<String> = outside(&files.index, files, n)
            .into_iter()
            .map(|change| change.key)
            .collect();
        for (key, value) in observed.iter().filter(|(key, _)| !outside.contains(key)) {
            let known = before
                .get(key)
                .unwrap_or_else(|| panic!("{key} is known after step {}", n - 1));
            let equal = known
                .value
                .as_deref()
                .and_then(Json::parse)
                .zip(Json::parse(value));
            let equal = equal.is_some_and(|(known, value)| same(&known, &value));
            assert!(
                equal || !known.doubt.is_empty(),
                "step {n}: {key} is {value}, not {known:?}"
            );
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
            // The engine counts its steps, writes to metadata, and sets the result and the reason
            // without a diff.
            let own = ["current_step", "metadata", "final_result", "stop_reason"];
            let odd: Vec<_> = keys
                .iter()
                .filter(|key| !own.contains(&key.as_str()))
                .collect();
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
                let path = KeyPath {
                    key: key.to_string(),
                    below: Vec::new(),
                };
                let change = change_of(&files.index, &files, &path, n).unwrap();
                let at = |state: &StateAt| state.get(&key).and_then(|known| known.value.clone());
                let holds = |a: Option<String>, b: Option<&str>| {
                    equal(&a.unwrap_or("null".into()), b.unwrap_or("null"))
                };
                assert!(
                    holds(at(&before), change.before.as_deref()),
                    "{}: step {n}, {key}",
                    files.index.label(n)
                );
                assert!(
                    holds(at(&after), change.after.as_deref()),
                    "{}: step {n}, {key}",
                    files.index.label(n)
                );
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
    assert_eq!(
        (passed.key.as_str(), passed.below.as_slice()),
        ("tests", &["passed".to_owned()][..])
    );
    let told: Vec<_> = all
        .iter()
        .filter_map(|n| change_of(&files.index, &files, &passed, *n))
        .collect();
    let sides: Vec<_> = told
        .iter()
        .map(|change| (change.before.as_deref(), change.after.as_deref()))
        .collect();
    assert_eq!(
        sides,
        [
            (Some("0"), Some("2")),
            (Some("2"), Some("3")),
            (Some("3"), Some("4"))
        ]
    );
    let last = state_at(&files.index, &files, 10).unwrap();
    assert_eq!(
        last.get("tests")
            .map(|known| (known.changes, known.written)),
        Some((3, Some(9)))
    );
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
    let line = format!(
        "{{\"step_id\": 0, \"state_diff\": {{{}}}}}\n",
        keys.join(", ")
    );
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
    for group in [
        "sample_runs",
        "tests/corpus/q010",
        "tests/corpus/q030",
        "tests/corpus/q060",
        "tests/corpus/emulated",
    ] {
        for path in runs_below(group) {
            let files = Files::open(&path);
            let mut steps = 0;
            walk(&files.index, &files, &mut |n, keys| {
                let by_name = |keys: &[KeyAt]| {
                    let named = keys.iter().map(|known| (known.key.clone(), known.clone()));
                    named.collect::<std::collections::BTreeMap<_, _>>()
                };
                let state = state_at(&files.index, &files, n).unwrap();
                assert_eq!(
                    by_name(keys),
                    by_name(&state.keys),
                    "{}: step {n}",
                    path.display()
                );
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
        assert!(
            matches!(state.base, Base::Found { step, .. } if step == n),
            "{n}: {:?}",
            state.base
        );
        let steps = state.get("current_step").unwrap();
        assert_eq!(
            (steps.value.as_deref(), steps.doubt),
            (Some(&*n.to_string()), "")
        );
    }
    // The state before the last step can only be derived from the step before it.
    let last = files.index.steps().len() - 1;
    let state = state_at(&files.index, &files, last).unwrap();
    assert_eq!(state.get("current_step").unwrap().doubt, OLDER);
}

/// A run of four steps whose agent changes `plan` while deciding on the first two, and adds `extra`
/// on the last.
fn changed_in_decide() -> (tempfile::TempDir, Files) {
    let observed = [
        r#"{"plan": ["a"], "seen": 0, "current_step": 0}"#,
        r#"{"plan": ["a", "b"], "seen": 1, "current_step": 1}"#,
        r#"{"plan": ["a", "b"], "seen": 1, "current_step": 2}"#,
        r#"{"plan": ["a", "b"], "seen": 1, "current_step": 3, "extra": 5}"#,
    ];
    let diffs = [
        r#""seen": {"before": 0, "after": 1}"#,
        "",
        "",
        r#""plan": {"before": ["a", "b"], "after": []}"#,
    ];
    let mut began = r#"{"plan": [], "seen": 0, "current_step": 0}"#;
    let (mut steps, mut events) = (String::new(), String::new());
    for (n, (state, diff)) in observed.into_iter().zip(diffs).enumerate() {
        let ready = format!(r#"{{"stage": "state_ready", "observation": {{"state": {began}}}}}"#);
        events.push_str(&format!(
            "{{\"step_id\": {n}, \"phase\": \"DECIDE\", \"payload\": {ready}}}\n"
        ));
        let decision = r#""decision": {"mode": "act"}"#;
        let seen = format!(r#""observation": {{"state": {state}}}, "state_diff": {{{diff}}}"#);
        steps.push_str(&format!("{{\"step_id\": {n}, {decision}, {seen}}}\n"));
        began = state;
    }
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("steps.jsonl"), steps).unwrap();
    std::fs::write(dir.path().join("events.jsonl"), events).unwrap();
    let files = Files::open(dir.path());
    (dir, files)
}

#[test]
fn a_change_that_no_step_is_recorded_to_have_made_is_unknown_until_it_is_observed_and_has_no_writer()
 {
    let (_dir, files) = changed_in_decide();
    let index = &files.index;
    let outside: Vec<Vec<&str>> = index
        .steps()
        .iter()
        .map(|step| step.outside.iter().map(|key| index.name(*key)).collect())
        .collect();
    assert_eq!(
        outside,
        [vec![], vec!["plan"], vec![], vec!["extra"]],
        "the engine's own counter isn't a change"
    );
    let before = |n: usize, key: &str| {
        let state = state_before(index, &files, n).unwrap();
        let known = state.get(key).unwrap();
        (known.value.clone(), known.doubt)
    };
    assert_eq!(
        before(0, "plan"),
        (Some("[]".to_owned()), BETWEEN),
        "not yet changed by the step"
    );
    assert_eq!(before(1, "plan"), (Some(r#"["a"]"#.to_owned()), BETWEEN));
    assert_eq!(before(3, "extra"), (None, BETWEEN));
    assert_eq!(
        (before(1, "seen"), before(1, "current_step")),
        ((Some("1".into()), ""), (Some("1".into()), ""))
    );
    assert_eq!(before(2, "plan"), (Some(r#"["a", "b"]"#.to_owned()), ""));
    let after = |n: usize, key: &str| {
        let state = state_at(index, &files, n).unwrap();
        let known = state.get(key).unwrap();
        (known.outside, known.written)
    };
    assert_eq!(
        (after(2, "plan"), after(2, "seen")),
        ((Some(1), None), (None, Some(0)))
    );
    assert_eq!(
        (after(3, "plan"), after(3, "extra")),
        ((None, Some(3)), (Some(3), None)),
        "a later step wrote the plan"
    );
    let found: Vec<String> = super::outside(index, &files, 0)
        .into_iter()
        .map(|change| change.key)
        .collect();
    assert_eq!(found, ["plan"], "the run began with a different one");
}

#[test]
fn rules_over_a_state_that_changed_unrecorded_cannot_be_told() {
    let (_dir, files) = changed_in_decide();
    let record = files.record(crate::analysis::facts::Depth::Heads);
    let known: Vec<bool> = record
        .facts
        .iter()
        .map(|facts| facts.signature.is_some())
        .collect();
    assert_eq!(known, [true, false, true, false]);
    let rule_set = RuleSet::new(vec!["stagnation=1".parse().unwrap()]).unwrap();
    let answer = &rule_set.ask(&record, false)[0];
    assert_eq!(
        (answer.found, answer.unknown_from),
        (StopTiming::Unknown, Some(1))
    );
}
