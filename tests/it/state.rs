//! Compares the state after every step with the one that the next step observed, over HTTP, for
//! every run.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::board::Board;
use crate::disk::{copy, corpus};
use crate::soak::times;
use crate::traces::traces;

/// Keys that QitOS's engine sets without a diff: its step count, metadata, the result and the stop
/// reason.
const OWN: [&str; 4] = ["current_step", "metadata", "final_result", "stop_reason"];

/// Checks one of every `every` runs below `root`. Returns other keys that changed outside reduce,
/// as `run: key`, and the number of compared steps.
fn compared(root: &Path, every: usize) -> (BTreeSet<String>, usize) {
    let board = Board::serve(root);
    board.until_read();
    let runs = board.json("/api/runs?limit=1000");
    let (mut outside, mut steps) = (BTreeSet::new(), 0);
    for run in runs["runs"].as_array().unwrap().iter().step_by(every) {
        let key = run["key"].as_str().unwrap();
        let text = fs::read(root.join(key).join("steps.jsonl")).unwrap_or_default();
        let text = String::from_utf8_lossy(&text).into_owned();
        let lines: Vec<Option<Value>> = text
            .split('\n')
            .map(|line| serde_json::from_str(line).ok())
            .collect();
        for (n, line) in lines.iter().enumerate().skip(1) {
            let before = lines[n - 1].as_ref();
            // Only while every line so far is readable and belongs to one run, so that line
            // positions are ordinals.
            let Some((line, before)) = line.as_ref().zip(before) else {
                break;
            };
            if line["step_id"].as_i64() <= before["step_id"].as_i64() {
                break;
            }
            let at = |n: usize| {
                board.json(&format!(
                    "/api/runs/{}/state/{n}",
                    crate::client::segment(key)
                ))
            };
            let (state, now) = (at(n - 1), at(n));
            let listed: Vec<&str> = now["outside"]
                .as_array()
                .unwrap()
                .iter()
                .filter_map(|found| found["key"].as_str())
                .collect();
            outside.extend(
                listed
                    .iter()
                    .filter(|name| !OWN.contains(name))
                    .map(|name| format!("{key}: {name}")),
            );
            // A step that failed or waited observed nothing.
            let Some(observed) = line["observation"]["state"].as_object() else {
                continue;
            };
            for (name, value) in observed
                .iter()
                .filter(|(name, _)| !listed.contains(&name.as_str()))
            {
                let unknown = state["unknown"]
                    .as_array()
                    .unwrap()
                    .iter()
                    .any(|key| key == name);
                // If no whole state is recorded, keys that no step wrote have no value.
                let unclaimed = state["base"] == "none" && state["state"].get(name).is_none();
                assert!(
                    state["state"][name] == *value || unknown || unclaimed,
                    "{key}: {name} after step {}: {state}",
                    n - 1
                );
            }
            steps += 1;
        }
    }
    (outside, steps)
}

#[test]
fn a_state_is_what_the_next_step_observes() {
    let (outside, steps) = compared(&corpus(), times(3, 1));
    assert_eq!(outside, BTreeSet::new());
    assert!(steps > times(30, 100), "{steps} steps were compared");
}

#[test]
fn so_it_is_in_every_other_recorded_run() {
    let Some(traces) = traces() else { return };
    let (outside, steps) = compared(&traces, 1);
    let outside: Vec<&str> = outside.iter().map(String::as_str).collect();
    // A critic's patch and a recovery's patch, both verified in their files.
    assert_eq!(
        outside,
        [
            "q060/q060_critic_retry: last_tool",
            "q060/q060_recovery_custom: last_tool"
        ]
    );
    assert!(steps > 300, "{steps} steps were compared");
}

#[test]
fn a_key_tells_its_history_on_the_tab_and_in_the_command() {
    let dir = tempfile::tempdir().unwrap();
    copy(
        &Path::new(env!("CARGO_MANIFEST_DIR")).join("sample_runs/fix_bug"),
        &dir.path().join("fix_bug"),
    );
    let board = Board::serve(dir.path());
    board.until_read();
    let state = board.json("/api/runs/fix_bug/state/5");
    assert_eq!(
        (&state["last_changed"]["edits"], &state["state"]["suspect"]),
        (&4.into(), &"discount".into())
    );
    assert_eq!(
        state["changed"],
        serde_json::json!(["current_step", "suspect", "tests", "todo"])
    );
    let page = board.get("/runs/fix_bug?tab=state&step=5&key=tests");
    let page = page.text();
    for part in [
        "State after step 5",
        "3 changes",
        "3 of 4 fields",
        "data-change=\"prev\"",
        "step 9 <kbd>]</kbd>",
    ] {
        assert!(page.contains(part), "{part} in {page}");
    }
    let said = std::process::Command::new(crate::board::BINARY)
        .args(["state", "--key", "tests.passed"])
        .arg(dir.path().join("fix_bug"))
        .env("NO_COLOR", "1")
        .output()
        .unwrap();
    let said = String::from_utf8(said.stdout).unwrap();
    assert_eq!(
        said,
        "tests.passed: 3 changes up to step 10\nstep 1     0 → 2\nstep 5     2 → 3\nstep 9     3 → 4\nafter step 10  4\n"
    );
}
