//! Tests threads of Amp.

use super::{damaged, read, sample};

fn thread(number: u8) -> std::path::PathBuf {
    sample(&format!(
        "tools/amp/T-0a1b2c3d-0000-4000-8000-00000000000{number}.json"
    ))
}

#[test]
fn a_thread_is_read_by_its_messages() {
    let run = read(&thread(1));
    let row = &run.row;
    assert_eq!((row.steps, row.errors, row.issues), (3, 2, (0, 0)));
    // 970, 1,070, 1,050.
    assert_eq!((row.tokens, row.usage.cached), (Some(3_090), Some(1_900)));
    assert_eq!((row.tool_calls, row.tool_errors), (Some(3), Some(2)));
    assert_eq!(
        (row.task.as_deref(), row.title()),
        (Some("The total is wrong, fix it."), "Fix the ledger total")
    );
    assert_eq!(row.project.as_deref(), Some("/home/me/ledger"));
    assert_eq!(row.changed, ["files./home/me/ledger/ledger.py"]);
    assert_eq!(
        (&*row.verdict.sentence, row.verdict.certainty.as_str()),
        ("Answered at step 2", "recorded")
    );
    let manifest = run.index.manifest().get().expect("a manifest");
    assert_eq!(manifest.model.as_deref(), Some("claude-opus-4-6"));
    let step = run.step(0);
    assert_eq!(step["action_results"][0]["returncode"], 1, "{step}");
    assert!(
        run.step(1)
            .to_string()
            .contains("-    return sum(rows[1:])")
    );
}

#[test]
fn a_cancelled_reply_ends_the_turn() {
    let run = read(&thread(2));
    assert_eq!((run.row.steps, run.row.turns), (2, Some(2)));
    assert_eq!(run.row.tokens, None);
    assert_eq!(run.row.verdict.outcome.as_str(), "cancelled");
    let manifest = run.index.manifest().get().expect("a manifest");
    assert_eq!(
        manifest.continues.as_deref(),
        Some("T-0a1b2c3d-0000-4000-8000-000000000001")
    );
}

#[test]
fn a_damaged_thread_loses_only_what_is_damaged() {
    (1..=2).for_each(|number| damaged(&thread(number)));
}
