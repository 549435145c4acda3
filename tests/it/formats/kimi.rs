//! Tests sessions of Kimi Code.

use super::truth::{FIELDS, compare};
use super::{damaged, read, sample};

fn agent(session: u8, agent: &str) -> std::path::PathBuf {
    sample(&format!(
        "tools/kimi-code/wd_ledger_0a1b2c3d4e5f/{}/agents/{agent}/wire.jsonl",
        id(session)
    ))
}

fn id(session: u8) -> String {
    format!("session_4d5e6f70-0000-4000-8000-0000000000a{session}")
}

#[test]
fn a_session_is_read_by_its_lines() {
    let run = read(&agent(1, "main"));
    let row = &run.row;
    assert_eq!((row.steps, row.errors, row.issues), (4, 1, (0, 0)));
    // 1,060, 1,140, 1,390, 1,360.
    assert_eq!((row.tokens, row.usage.cached), (Some(4_950), Some(3_400)));
    assert_eq!((row.tool_calls, row.tool_errors), (Some(4), Some(1)));
    assert_eq!(row.changed, ["files.split.py"]);
    assert_eq!(
        (&*row.verdict.sentence, row.verdict.certainty.as_str()),
        ("Answered at step 3", "recorded")
    );
    let manifest = run.index.manifest().get().expect("a manifest");
    assert_eq!((manifest.turns, manifest.children), (Some(1), Some(1)));
    assert_eq!(manifest.child_ids, [format!("{}/agent-0", id(1)).into()]);
    assert_eq!(
        (manifest.run_id.as_deref(), manifest.project.as_deref()),
        (Some(&*id(1)), Some("/home/me/ledger"))
    );
    let step = run.step(0);
    assert_eq!(step["model"], "glm-5");
    assert_eq!(step["decision"]["rationale"], "Read first.");
    assert_eq!(step["action_results"][1]["returncode"], 1);
}

#[test]
fn a_sub_agent_is_a_run_of_its_own() {
    let run = read(&agent(1, "agent-0"));
    // 520, 590.
    assert_eq!((run.row.steps, run.row.tokens), (2, Some(1_110)));
    assert_eq!(run.row.parent.as_deref(), Some(&*id(1)));
    assert_eq!(
        run.row.run_id.as_deref(),
        Some(&*format!("{}/agent-0", id(1)))
    );
    assert_eq!(run.row.task.as_deref(), Some("Say what is lost."));
}

#[test]
fn a_turn_that_completed_with_a_truncated_reply_did_not_answer() {
    let path = agent(2, "main");
    let text = std::fs::read_to_string(&path).expect("the sample");
    let temp = tempfile::tempdir().expect("a directory");
    let first = temp.path().join("wire.jsonl");
    let (turn, _) = text.split_once("\n{\"type\":\"turn.prompt\",\"agentId\":\"main\",\"input\":[{\"type\":\"text\",\"text\":\"Build").expect("a second turn");
    std::fs::write(&first, turn).expect("written");
    let run = read(&first);
    assert_eq!(
        run.row.verdict.sentence,
        "Reply token limit reached in step 0"
    );
    let both = read(&path);
    assert!(
        both.row
            .verdict
            .sentence
            .starts_with("Cancelled by the user in step 1 "),
        "{}",
        both.row.verdict.sentence
    );
    // 864, 920. The record that ends an interrupted step has no tokens.
    assert_eq!((both.row.steps, both.row.tokens), (2, Some(1_784)));
    assert_eq!(both.step(1)["action_results"][0]["status"], "cancelled");
}

#[test]
fn a_failed_request_is_no_step_and_a_limit_is_named() {
    let row = read(&agent(3, "main")).row;
    assert_eq!((row.steps, row.tokens), (1, Some(715)));
    assert!(
        row.verdict.sentence.starts_with("Step limit reached"),
        "{}",
        row.verdict.sentence
    );
    assert_eq!(row.verdict.outcome.as_str(), "truncated");
}

#[test]
fn a_damaged_session_loses_only_what_is_damaged() {
    (1..=3).for_each(|session| damaged(&agent(session, "main")));
    damaged(&agent(1, "agent-0"));
}

#[test]
fn real_sessions_agree_with_what_is_known_of_them() {
    // Kimi Code doesn't record reasoning tokens.
    let fields: Vec<_> = FIELDS
        .into_iter()
        .filter(|field| !field.starts_with("thought"))
        .collect();
    let is_session = |file: &str| file.ends_with("wire.jsonl");
    let known = [(
        "sigint-in-tool",
        "calls without an answer",
        0,
        "the result says that the session was closed",
    )];
    compare("kimi-code", is_session, &fields, &known);
}
