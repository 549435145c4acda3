//! Tests sessions of Droid.

use super::{damaged, read, sample};

fn session(letter: char) -> std::path::PathBuf {
    sample(&format!(
        "tools/droid/-home-me-ledger/d0000000-0000-4000-8000-00000000000{letter}.jsonl"
    ))
}

#[test]
fn a_session_with_its_settings() {
    let run = read(&session('a'));
    let row = &run.row;
    assert_eq!(
        (row.steps, row.errors, row.events, row.issues),
        (3, 1, 9, (0, 0))
    );
    // 900 + 40 + 3,000, and 160.
    assert_eq!((row.tokens, row.usage.cached), (Some(4_100), Some(3_000)));
    assert_eq!((row.tool_calls, row.tool_errors), (Some(3), Some(1)));
    assert_eq!(row.turns, Some(1));
    assert_eq!(
        (row.task.as_deref(), row.title()),
        (Some("The total is wrong, fix it."), "Fix the ledger total")
    );
    assert_eq!(row.project.as_deref(), Some("/home/me/ledger"));
    assert_eq!(
        (&*row.verdict.sentence, row.verdict.certainty.as_str()),
        ("Answered at step 2", "recorded")
    );
    let manifest = run.index.manifest().get().expect("a manifest");
    assert_eq!(manifest.model.as_deref(), Some("glm-4.6"));
    assert_eq!(manifest.cost_usd, None);
    let step = run.step(0);
    assert_eq!(step["action_results"][0]["status"], "error", "{step}");
    assert!(step.to_string().contains("FAILED (failures=1)"));
}

#[test]
fn a_sub_agent_names_the_session_that_started_it() {
    let run = read(&session('b'));
    assert_eq!(
        run.row.parent.as_deref(),
        Some("d0000000-0000-4000-8000-00000000000a")
    );
    // Whether the output includes the reasoning isn't recorded.
    assert_eq!(run.row.tokens, None);
    assert_eq!(run.row.verdict.outcome.as_str(), "unknown");
}

#[test]
fn a_later_turn_without_an_outcome_has_no_end() {
    let run = read(&session('c'));
    assert_eq!((run.row.steps, run.row.turns), (2, Some(2)));
    assert_eq!(run.row.title(), "Build it.", "its own says nothing");
    assert_eq!(run.row.verdict.outcome.as_str(), "unknown");
    let manifest = run.index.manifest().get().expect("a manifest");
    assert_eq!(manifest.compactions.len(), 1);
    assert!(manifest.awaits_user);
}

#[test]
fn a_damaged_session_loses_only_what_is_damaged() {
    ['a', 'b', 'c']
        .into_iter()
        .for_each(|letter| damaged(&session(letter)));
}
