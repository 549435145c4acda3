//! The state after a step against the whole states that the files hold.

use std::collections::BTreeSet;
use std::path::Path;

use super::*;
use crate::analysis::facts::tests::{Files, runs_below};

fn corpus(run: &str) -> Files {
    Files::open(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus").join(run))
}

/// Walks a run: the keys that changed outside of reduce, and how many steps could be checked.
fn walk(files: &Files) -> (BTreeSet<String>, usize) {
    let mut keys = BTreeSet::new();
    let mut checked = 0;
    for n in 1..files.index.steps().len() {
        let line = Line::read(files, TraceFile::Steps, files.index.steps()[n].span);
        let Some(observed) = line.as_ref().and_then(Line::observed) else { continue };
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
    let mut all = 0;
    for group in ["q010", "q030", "q060", "emulated"] {
        for path in runs_below(&format!("tests/corpus/{group}")) {
            let (keys, checked) = walk(&Files::open(&path));
            all += checked;
            // The engine counts its steps, and sets the result and the reason, outside of reduce.
            let own = ["current_step", "metadata", "final_result", "stop_reason"];
            let odd: Vec<_> = keys.iter().filter(|key| !own.contains(&key.as_str())).collect();
            println!("{} {checked} {odd:?}", path.display());
        }
    }
    assert!(all > 100, "{all} steps were checked");
}
