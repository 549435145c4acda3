//! Tests sessions of Continue.

use std::fs;
use std::sync::Arc;

use serde_json::{Value, json};
use trace_board::analysis::copies::{marks, relate};

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
fn whether_a_command_without_an_error_output_failed_is_unknown() {
    let call = |id: &str, name: &str| json!({"id": id, "type": "function", "function": {"name": name, "arguments": "{}"}});
    let state = |id: &str, status: &str, words: &str| json!({"toolCallId": id, "status": status, "output": [{"content": words}]});
    let session = |calls: &[Value], states: &[Value]| {
        let reply = json!({"message": {"role": "assistant", "content": "", "toolCalls": calls}, "toolCallStates": states});
        let history = [
            json!({"message": {"role": "user", "content": "Go."}}),
            reply,
        ];
        let session =
            json!({"sessionId": "s", "title": "t", "workspaceDirectory": "/p", "history": history});
        let temp = tempfile::tempdir().expect("a directory");
        let path = temp.path().join("s.json");
        fs::write(&path, session.to_string()).expect("written");
        let run = read(&path);
        (
            run.row.tool_calls,
            run.row.tool_errors,
            run.step(0)["action_results"].clone(),
        )
    };
    // `exit 3` without any output is `done`.
    let done = state("a", "done", "");
    let (calls, errors, results) = session(&[call("a", "Bash")], &[done]);
    assert_eq!((calls, errors), (Some(1), None));
    assert_ne!(results[0]["status"], "success", "{results}");
    let failed = state(
        "a",
        "errored",
        "Error executing tool Bash: Error (exit code 3): no",
    );
    let (_, errors, results) = session(&[call("a", "Bash")], &[failed]);
    assert_eq!((errors, &results[0]["returncode"]), (Some(1), &3.into()));
    let (_, errors, _) = session(&[call("a", "Read")], &[state("a", "done", "x")]);
    assert_eq!(errors, Some(0));
}

fn reply(words: &str, call: Option<&str>) -> Value {
    let calls = call.map(|id| {
        json!([{"id": id, "type": "function",
            "function": {"name": "Bash", "arguments": "{\"command\":\"echo a\"}"}}])
    });
    let states =
        call.map(|id| json!([{"toolCallId": id, "status": "done", "output": [{"content": "a"}]}]));
    json!({
        "message": {"role": "assistant", "content": words, "toolCalls": calls,
            "usage": {"prompt_tokens": 1200, "completion_tokens": 40, "model": "glm-5"}},
        "contextItems": [], "toolCallStates": states,
    })
}

/// Returns how many steps of each session are copied from another one. Each has these replies.
fn copied(sessions: &[Vec<Value>]) -> Vec<Option<usize>> {
    let temp = tempfile::tempdir().expect("a directory");
    let runs: Vec<_> = sessions
        .iter()
        .enumerate()
        .map(|(n, replies)| {
            let mut history = vec![json!({"message": {"role": "user", "content": "Go."}})];
            history.extend(replies.iter().cloned());
            let session = json!({"sessionId": format!("s{n}"), "title": "Untitled Session",
                "workspaceDirectory": "/p", "history": history});
            let path = temp.path().join(format!("{n}.json"));
            fs::write(&path, session.to_string()).expect("written");
            read(&path)
        })
        .collect();
    let rows: Vec<_> = runs.iter().map(|run| Arc::new(run.row.clone())).collect();
    let relations = relate(&rows, &mut |at| marks(&runs[at].index));
    for ((run, relation), replies) in runs.iter().zip(&relations).zip(sessions) {
        let copied = relation.copied.as_ref().map_or(0, |(_, steps)| *steps);
        let own = run.row.clone().related(relation.clone(), || &run.index);
        let tokens = 1_240 * (replies.len() - copied) as u64;
        assert_eq!((own.tokens, own.copied_steps()), (Some(tokens), copied));
    }
    let copied = relations.iter();
    copied
        .map(|relation| relation.copied.as_ref().map(|(_, steps)| *steps))
        .collect()
}

#[test]
fn a_fork_counts_its_own_replies() {
    let old = vec![reply("", Some("call_1")), reply("A.", None)];
    let fork = |id: &str| {
        let new = [reply("", Some(id)), reply("B.", None)];
        old.iter().cloned().chain(new).collect::<Vec<_>>()
    };
    assert_eq!(copied(&[old.clone(), fork("call_2")]), [None, Some(2)]);
    // The same call again is another one.
    assert_eq!(
        copied(&[old.clone(), fork("call_2"), fork("call_3")])
            .iter()
            .flatten()
            .collect::<Vec<_>>(),
        [&2, &2]
    );
    // Nothing identifies a reply without calls.
    let plain = vec![reply("A.", None)];
    assert_eq!(copied(&[plain.clone(), plain]), [None, None]);
    let other = vec![reply("", Some("call_9")), reply("A.", None)];
    assert_eq!(copied(&[old, other]), [None, None]);
}

#[test]
fn a_damaged_session_loses_only_what_is_damaged() {
    (1..=2).for_each(|number| damaged(&session(number)));
}

/// Whether a command without error output failed isn't recorded, so neither is the number of failed
/// calls.
const KNOWN: [(&str, &str, u64, &str); 3] = [
    (
        "errors-then-recovers",
        "failed calls of the run",
        0,
        "not recorded",
    ),
    ("finishes", "failed calls of the run", 0, "not recorded"),
    ("slow-growth", "failed calls of the run", 0, "not recorded"),
];

#[test]
fn real_sessions_agree_with_what_is_known_of_them() {
    let is_session = |file: &str| file.starts_with("sessions/") && !file.ends_with("sessions.json");
    compare("continue", is_session, &FIELDS, &KNOWN);
}
