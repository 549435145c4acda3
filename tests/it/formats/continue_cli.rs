//! Tests sessions of Continue.

use super::truth::{FIELDS, compare};
use super::{damaged, read, sample};

fn session(number: u8) -> std::path::PathBuf {
    sample(&format!(
        "tools/continue/sessions/5e6f7081-0000-4000-8000-0000000000a{number}.json"
    ))
}

#[test]
fn a_session_is_read_by_its_history() {
    let run = read(&session(1));
    let row = &run.row;
    assert_eq!((row.steps, row.errors, row.issues), (4, 1, (0, 0)));
    // 1,060, 1,140, 1,350, 1,410.
    assert_eq!((row.tokens, row.usage.cached), (Some(4_960), Some(3_300)));
    assert_eq!((row.tool_calls, row.tool_errors), (Some(4), Some(1)));
    assert_eq!(
        row.changed,
        [
            "files./home/me/ledger/split.py",
            "files./home/me/ledger/NOTES.md"
        ]
    );
    let manifest = run.index.manifest().get().expect("a manifest");
    assert_eq!(
        manifest.run_id.as_deref(),
        Some("5e6f7081-0000-4000-8000-0000000000a1")
    );
    assert_eq!(manifest.model.as_deref(), Some("glm-5"));
    assert_eq!(manifest.project.as_deref(), Some("/home/me/ledger"));
    assert_eq!(manifest.cost_usd, Some(0.0112));
    assert!(manifest.titles.is_empty(), "{:?}", manifest.titles);
    let step = run.step(0);
    assert_eq!(step["model"], "glm-5");
    assert_eq!(step["action_results"][1]["returncode"], 1);
    let diff = run.step(1).to_string();
    assert!(
        diff.contains("@@ -1,2 +1,3 @@\\n def split(a, b)"),
        "{diff}"
    );
}

#[test]
fn why_a_reply_ended_is_unknown() {
    let run = read(&session(2));
    // 564, 564.
    assert_eq!((run.row.steps, run.row.tokens), (2, Some(1_128)));
    assert_eq!(run.row.turns, Some(2));
    let manifest = run.index.manifest().get().expect("a manifest");
    assert_eq!(manifest.titles, ["Names".into()]);
    for number in 1..=2 {
        let verdict = read(&session(number)).row.verdict;
        assert_eq!(verdict.outcome.as_str(), "unknown", "{}", verdict.sentence);
    }
}

#[test]
fn a_damaged_session_loses_only_what_is_damaged() {
    (1..=2).for_each(|number| damaged(&session(number)));
}

#[test]
fn real_sessions_agree_with_what_is_known_of_them() {
    let is_session = |file: &str| file.starts_with("sessions/") && !file.ends_with("sessions.json");
    compare("continue", is_session, &FIELDS, &[]);
}
