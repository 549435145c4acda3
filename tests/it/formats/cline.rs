//! Tests sessions of Cline's command line.

use super::truth::{FIELDS, compare};
use super::{damaged, read, sample};

fn messages(name: &str) -> std::path::PathBuf {
    sample(&format!("tools/cline/sessions/{name}.messages.json"))
}

const MAIN: &str = "1777885200000_aaaa1/1777885200000_aaaa1";

#[test]
fn a_session_is_read_from_its_messages_and_its_status() {
    let run = read(&messages(MAIN));
    let row = &run.row;
    assert_eq!((row.steps, row.errors, row.issues), (4, 2, (0, 0)));
    // 1,060, 1,140, 1,350, 1,410.
    assert_eq!((row.tokens, row.usage.cached), (Some(4_960), Some(3_300)));
    assert_eq!((row.tool_calls, row.tool_errors), (Some(5), Some(2)));
    assert_eq!(row.changed, ["files./home/me/ledger/split.py"]);
    assert_eq!(
        (&*row.verdict.sentence, row.verdict.certainty.as_str()),
        ("Answered at step 3", "recorded")
    );
    let manifest = run.index.manifest().get().expect("a manifest");
    assert_eq!(manifest.run_id.as_deref(), Some("1777885200000_aaaa1"));
    assert_eq!(manifest.model.as_deref(), Some("glm-5"));
    assert_eq!(manifest.project.as_deref(), Some("/home/me/ledger"));
    assert_eq!((manifest.turns, manifest.children), (Some(1), Some(1)));
    assert_eq!(
        row.task.as_deref(),
        Some("Splitting 100 by 3 loses a cent.")
    );
    let step = run.step(0);
    assert_eq!(step["model"], "glm-5");
    assert_eq!(step["decision"]["rationale"], "Read first.");
    assert_eq!(step["action_results"][0]["status"], "success");
    assert_eq!(step["action_results"][1]["returncode"], 1);
    let head = run.index.steps().get(0).expect("a step");
    let failed = head.failed_call.as_deref().expect("a failed call");
    assert_eq!(failed.command.as_deref(), Some("python3 -m unittest -q"));
    // JSON in a text.
    assert_eq!(run.step(1)["action_results"][0]["output"], "The rest.");
    assert_eq!(run.step(1)["action_results"][1]["status"], "error");
    let diff = run.step(2).to_string();
    assert!(
        diff.contains("@@ -2,1 +2,2 @@\\n-    return [a // b] * b\\n+    c, d = divmod(a, b)"),
        "{diff}"
    );
}

#[test]
fn a_sub_agent_is_a_run_without_a_status() {
    let run = read(&messages("1777885200000_aaaa1/agent_1777885202000_bbbb1"));
    // 520, 590.
    assert_eq!((run.row.steps, run.row.tokens), (2, Some(1_110)));
    assert_eq!(run.row.parent.as_deref(), Some("1777885200000_aaaa1"));
    assert_eq!(run.row.task.as_deref(), Some("Say what is lost."));
    assert_eq!(
        (
            run.row.verdict.outcome.as_str(),
            run.row.verdict.certainty.as_str()
        ),
        ("completed", "inferred")
    );
}

#[test]
fn the_status_names_the_end() {
    let row = |name: &str| read(&messages(&format!("{name}/{name}"))).row;
    let row_2 = row("1777888800000_aaaa2");
    assert_eq!(row_2.verdict.outcome.as_str(), "cancelled");
    assert_eq!((row_2.tool_calls, row_2.tool_errors), (Some(1), Some(0)));
    let cut = row("1777892400000_aaaa3");
    assert_eq!(cut.verdict.sentence, "Reply token limit reached in step 1");
    // 564, 574. The program's own request is no prompt.
    assert_eq!((cut.tokens, cut.turns), (Some(1_138), Some(1)));
    let failed = row("1777896000000_aaaa4");
    assert_eq!(
        failed.verdict.sentence,
        "Failed with an error: Internal server error"
    );
    assert_eq!(failed.steps, 0);
    let killed = row("1777899600000_aaaa5");
    // The reader can't know whether the process still runs.
    assert_eq!(killed.verdict.outcome.as_str(), "unknown");
}

#[test]
fn a_session_without_its_status_has_an_inferred_end() {
    let temp = tempfile::tempdir().expect("a directory");
    let copy = temp.path().join("1777885200000_aaaa1.messages.json");
    std::fs::copy(messages(MAIN), &copy).expect("copied");
    let row = read(&copy).row;
    assert_eq!(row.verdict.certainty.as_str(), "inferred");
    assert_eq!(row.verdict.outcome.as_str(), "completed");
    assert_eq!(row.tokens, Some(4_960));
}

#[test]
fn a_damaged_session_loses_only_what_is_damaged() {
    damaged(&messages(MAIN));
}

#[test]
fn real_sessions_agree_with_what_is_known_of_them() {
    // Cline doesn't record reasoning tokens.
    let fields: Vec<_> = FIELDS
        .into_iter()
        .filter(|field| !field.starts_with("thought"))
        .collect();
    let is_session = |file: &str| file.ends_with(".messages.json");
    let known = [(
        "sigint-in-tool",
        "calls without an answer",
        0,
        "the result says that the command was aborted",
    )];
    compare("cline", is_session, &fields, &known);
}
