//! Tests sessions in SQLite databases: OpenCode, Kilo, Hermes, Crush and Goose.
//! `tests/support/stores.py` wrote the samples.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rusqlite::Connection;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use trace_board::analysis::copies::{marks, relate};
use trace_board::model::TraceFile;
use trace_board::trace::{RootScanner, read_index};

use crate::soak::times;

use super::truth::{FIELDS, compare};
use super::{Read, read, sample};

/// Copies the files of a sample into a directory.
fn copied(name: &str) -> tempfile::TempDir {
    let temp = tempfile::tempdir().expect("a directory");
    for entry in fs::read_dir(sample(name)).expect("the sample") {
        let entry = entry.expect("an entry");
        fs::copy(entry.path(), temp.path().join(entry.file_name())).expect("copied");
    }
    temp
}

/// Returns the hash of each file in a directory.
fn hashes(dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let files = fs::read_dir(dir).expect("a directory");
    let hashed = files.map(|entry| {
        let path = entry.expect("an entry").path();
        let hash = Sha256::digest(fs::read(&path).expect("readable"));
        (path, hash.to_vec())
    });
    hashed.collect()
}

/// Reads all runs below a directory, and all their steps. Returns their number of steps by key, and
/// the reasons for skipped files.
fn read_all(root: &Path) -> (BTreeMap<String, usize>, Vec<String>) {
    let found = RootScanner::new(root.to_owned()).scan();
    let steps = found.runs.iter().map(|(key, dir)| {
        let index = read_index(dir);
        for step in index.steps() {
            let line = dir.line(|| &index, TraceFile::Steps, step.span);
            line.expect("a listed step can be read");
        }
        (key.as_str().to_owned(), index.steps().len())
    });
    let steps = steps.collect();
    let skipped = found.skipped.into_iter().map(|skipped| skipped.reason);
    (steps, skipped.collect())
}

fn names(steps: &BTreeMap<String, usize>) -> Vec<(&str, usize)> {
    steps.iter().map(|(key, n)| (key.as_str(), *n)).collect()
}

#[test]
fn each_session_of_a_database_is_a_run() {
    let (steps, skipped) = read_all(&sample("tools/opencode"));
    let expected = [
        ("opencode.db/ses_help0001", 1),
        ("opencode.db/ses_kill0001", 1),
        ("opencode.db/ses_main0001", 5),
        ("opencode.db/ses_stop0001", 1),
    ];
    assert_eq!(names(&steps), expected);
    assert_eq!(skipped, [""; 0]);
}

#[test]
fn a_session_with_a_sub_agent_and_a_compaction() {
    let run = read(&sample("tools/opencode/opencode.db/ses_main0001"));
    let row = &run.row;
    // The row of the session, three prompts, the user's command with its output, a compaction with
    // its summary, and five replies.
    assert_eq!(
        (row.steps, row.errors, row.events, row.issues),
        (5, 2, 12, (0, 0))
    );
    // 1500 + 1800 + 1700 + 100 + 50, of which 3000 were cached, and 100 + 50 + 100 + 20 + 10, of
    // which 40 for reasoning. The summary isn't a step.
    assert_eq!(row.tokens, Some(5_430));
    assert_eq!(
        (row.cost_usd, row.turns, row.children),
        (Some(0.05), Some(2), Some(1)),
        "the session's own sum includes the summary"
    );
    assert_eq!((row.tool_calls, row.tool_errors), (Some(5), Some(2)));
    assert_eq!(
        (row.task.as_deref(), row.title()),
        (Some("The total is wrong, fix it."), "Ledger total fix")
    );
    assert_eq!(row.project.as_deref(), Some("/home/me/ledger"));
    assert_eq!(
        (&*row.verdict.sentence, row.verdict.certainty.as_str()),
        ("Finished at step 4 (inferred from \"stop\")", "inferred")
    );
    let manifest = run.index.manifest().get().expect("a manifest");
    assert_eq!(manifest.child_ids, ["ses_help0001".into()]);
    let compactions = manifest.compactions.iter().map(|at| &*at.trigger);
    assert_eq!(compactions.collect::<Vec<_>>(), ["auto"]);
    // A command that failed is complete for the program.
    let step = run.step(0);
    let result = &step["action_results"][0];
    assert_eq!(result["status"], "error", "{step}");
    assert!(step.to_string().contains("FAILED (failures=1)"));
    assert!(
        run.step(2)
            .to_string()
            .contains("-    return sum(rows[1:])")
    );
    assert_eq!(row.files_changed, Some(1));
    let child = read(&sample("tools/opencode/opencode.db/ses_help0001"));
    assert_eq!(child.row.parent.as_deref(), Some("ses_main0001"));
}

#[test]
fn a_killed_session_has_no_end_and_no_tokens() {
    let run = read(&sample("tools/opencode/opencode.db/ses_kill0001"));
    assert_eq!(
        (run.row.steps, run.row.tokens, run.row.tool_calls),
        (1, None, Some(1))
    );
    assert_eq!(&*run.row.verdict.sentence, "No end recorded after step 0");
    assert_eq!(run.row.title(), "Build it.", "its own is only the time");
    let run = read(&sample("tools/opencode/opencode.db/ses_stop0001"));
    assert_eq!(
        (
            &*run.row.verdict.sentence,
            run.row.verdict.certainty.as_str()
        ),
        ("Cancelled after step 0", "recorded")
    );
}

#[test]
fn a_request_without_a_reply_is_no_step() {
    let temp = copied("tools/opencode");
    let writer = Connection::open(temp.path().join("opencode.db")).expect("opened");
    let add = |row: &str, data: &str| {
        let sql = format!("INSERT INTO {row},'ses_main0001',1777890000000,1777890000000,?1)");
        writer.execute(&sql, [data]).expect("written");
        writer
            .execute("UPDATE event_sequence SET seq=seq+1", [])
            .expect("written");
    };
    let read = || read(&temp.path().join("opencode.db/ses_main0001")).row;
    let before = read();
    add(
        "message VALUES('msg_9'",
        r#"{"role":"assistant","time":{"created":1777890000000}}"#,
    );
    let after = read();
    assert_eq!(
        (after.steps, after.model_calls, after.events),
        (before.steps, before.model_calls, before.events + 1)
    );
    let sentence = &*after.verdict.sentence;
    assert_eq!(sentence, "No end recorded after step 4");
    add(
        "part VALUES('prt_9','msg_9'",
        r#"{"type":"text","text":"It"}"#,
    );
    assert_eq!(read().steps, before.steps + 1);
}

#[test]
fn the_message_of_kilo_has_the_cost_of_its_sub_agent_too() {
    let run = read(&sample("tools/kilo/kilo.db/ses_kilo0001"));
    assert_eq!(
        (run.row.cost_usd, run.row.tokens, run.row.tool_calls),
        (Some(0.01), Some(550), Some(1))
    );
    assert_eq!(
        &*run.row.verdict.sentence,
        "Reply token limit reached in step 1 (inferred from \"length\")"
    );
    let manifest = run.index.manifest().get().expect("a manifest");
    assert!(manifest.conflicts.is_empty(), "{:?}", manifest.conflicts);
    let command = "kilo --session ses_kilo0001";
    assert_eq!(manifest.resume().as_deref(), Some(command));
}

/// Creates a database of OpenCode's tables with these messages: session, id, and time of creation,
/// data without that time, parts.
fn opencode(
    name: &str,
    sessions: &str,
    messages: &[(&str, &str, i64, Value, &[Value])],
) -> tempfile::TempDir {
    let temp = tempfile::tempdir().expect("a directory");
    let db = Connection::open(temp.path().join(name)).expect("created");
    db.execute_batch(
        "CREATE TABLE session(id TEXT, parent_id TEXT, directory TEXT, title TEXT, time_created);
        CREATE TABLE message(id TEXT, session_id TEXT, time_created, time_updated, data TEXT);
        CREATE TABLE part(id TEXT, message_id TEXT, session_id TEXT, time_created, time_updated, data TEXT);",
    )
    .expect("created");
    let sql = format!("INSERT INTO session VALUES {sessions}");
    db.execute_batch(&sql).expect("written");
    for (session, id, time, data, parts) in messages {
        let mut data = data.clone();
        data["time"]["created"] = json!(time);
        if data["role"] == "assistant" {
            data["time"]["completed"] = json!(time + 500);
        }
        let row = (id, session, time, data.to_string());
        db.execute("INSERT INTO message VALUES(?1, ?2, ?3, ?3, ?4)", row)
            .expect("written");
        for (n, part) in parts.iter().enumerate() {
            let row = (format!("{id}_{n}"), id, session, time, part.to_string());
            db.execute("INSERT INTO part VALUES(?1, ?2, ?3, ?4, ?4, ?5)", row)
                .expect("written");
        }
    }
    temp
}

fn asked(words: &str) -> (Value, Vec<Value>) {
    let part = json!({"type": "text", "text": words});
    (json!({"role": "user"}), vec![part])
}

/// Returns a reply of 1,240 tokens with these parts.
fn replied(finish: &str, parts: Vec<Value>) -> (Value, Vec<Value>) {
    let tokens = json!({"total": 1240, "input": 1000, "output": 40, "reasoning": 0,
        "cache": {"read": 200, "write": 0}});
    let data = json!({"role": "assistant", "agent": "build", "finish": finish, "tokens": tokens,
        "path": {"cwd": "/p"}});
    (data, parts)
}

fn said(words: &str) -> Value {
    json!({"type": "text", "text": words})
}

fn called(tool: &str, id: &str, state: &Value) -> Value {
    json!({"type": "tool", "tool": tool, "callID": id, "state": state})
}

/// Reads the only session of a database with these replies to one prompt.
fn talk(name: &str, replies: Vec<(Value, Vec<Value>)>) -> (tempfile::TempDir, Read) {
    let talk: Vec<_> = [asked("Go.")].into_iter().chain(replies).collect();
    let ids: Vec<String> = (0..talk.len()).map(|n| format!("msg_{n}")).collect();
    let rows = talk.iter().zip(&ids).enumerate();
    let rows: Vec<_> = rows
        .map(|(n, ((data, parts), id))| {
            let at = 1_777_885_200_000 + 1_000 * i64::try_from(n).expect("few");
            ("s", &**id, at, data.clone(), &**parts)
        })
        .collect();
    let temp = opencode(name, "('s', NULL, '/p', 'x', 1777885200000)", &rows);
    let run = read(&temp.path().join(name).join("s"));
    (temp, run)
}

#[test]
fn a_fork_counts_its_own_messages() {
    for name in ["opencode.db", "kilo.db"] {
        // Forks are made at once and much later.
        for later in [8_000, 80_000_000] {
            let began = 1_777_885_200_000_i64;
            let listed = json!({"status": "completed", "input": {"command": "ls"}, "output": "a",
                "metadata": {"exit": 0}});
            let old = [
                asked("Look."),
                replied("tool-calls", vec![called("bash", "call_1", &listed)]),
                replied("stop", vec![said("A.")]),
            ];
            let new = [asked("Go on."), replied("stop", vec![said("B.")])];
            let mut rows = Vec::new();
            for (n, (data, parts)) in old.iter().enumerate() {
                let at = began + 1_000 * i64::try_from(n).expect("few");
                let ids = [["a0", "a1", "a2"][n], ["b0", "b1", "b2"][n]];
                rows.push(("ses_a", ids[0], at, data.clone(), &**parts));
                rows.push(("ses_b", ids[1], at, data.clone(), &**parts));
            }
            let forked = began + later;
            for (n, (data, parts)) in new.iter().enumerate() {
                let at = forked + 1_000 * i64::try_from(n + 1).expect("few");
                rows.push(("ses_b", ["b3", "b4"][n], at, data.clone(), &**parts));
            }
            let sessions = format!(
                "('ses_a', NULL, '/p', 'x', {began}), ('ses_b', NULL, '/p', 'x (fork #1)', {forked})"
            );
            let temp = opencode(name, &sessions, &rows);
            let store = temp.path().join(name);
            let runs = ["ses_a", "ses_b"].map(|id| read(&store.join(id)));
            let rows: Vec<_> = runs.iter().map(|run| Arc::new(run.row.clone())).collect();
            let relations = relate(&rows, &mut |at| marks(&runs[at].index));
            let copied = relations
                .iter()
                .map(|relation| relation.copied.as_ref().map(|(_, steps)| *steps));
            assert_eq!(
                copied.collect::<Vec<_>>(),
                [None, Some(2)],
                "{name} {later}"
            );
            let [_, fork] = &runs;
            assert_eq!(fork.row.issues, (0, 0), "{name} {later}");
            let own = fork
                .row
                .clone()
                .related(relations[1].clone(), || &fork.index);
            assert_eq!(
                (own.steps, own.tokens, own.turns, own.duration_ms),
                (1, Some(1_240), Some(1), Some(1_500.0)),
                "{name} {later}"
            );
            assert_eq!(own.copied_steps(), 2);
        }
    }
}

#[test]
fn a_call_that_no_tool_takes_has_failed() {
    let state = |tool: &str, error: &str| {
        json!({"status": "completed", "input": {"tool": tool, "error": error},
            "output": format!("The arguments provided to the tool are invalid: {error}"), "metadata": {}})
    };
    let unknown = "Model tried to call unavailable tool 'make_coffee'. Available tools: bash.";
    let broken = "Invalid input for tool bash: JSON parsing failed: Text: {\"command\": \"ls\", x.\nError message: bad";
    let parts = vec![
        called("invalid", "c1", &state("make_coffee", unknown)),
        called("invalid", "c2", &state("bash", broken)),
    ];
    let replies = vec![
        replied("tool-calls", parts),
        replied("stop", vec![said("No.")]),
    ];
    let (_temp, run) = talk("opencode.db", replies);
    assert_eq!(
        (run.row.tool_calls, run.row.tool_errors),
        (Some(2), Some(2))
    );
    let step = run.step(0);
    assert_eq!(
        (&step["actions"][0]["name"], &step["actions"][1]["name"]),
        (&json!("make_coffee"), &json!("bash")),
        "{step}"
    );
    assert_eq!(step["action_results"][0]["error"], unknown);
    let args = step["actions"][1]["args"].to_string();
    assert!(args.contains(r#"{\"command\": \"ls\", x"#), "{args}");
    assert!(!args.contains("Error message"), "{args}");
}

#[test]
fn a_command_that_took_too_long_has_failed() {
    let note = "tool terminated command after exceeding timeout 2000 ms. Retry.";
    let state = |output: &str| {
        json!({"status": "completed", "input": {"command": "x"}, "output": output,
            "metadata": {"output": "begun", "exit": null}})
    };
    for (output, failed) in [
        (
            format!("begun\n<shell_metadata>\nshell {note}\n</shell_metadata>"),
            1,
        ),
        (
            format!("begun\n<bash_metadata>\nbash {note}\n</bash_metadata>"),
            1,
        ),
        // Another program prints these words.
        (format!("shell {note}"), 0),
    ] {
        let call = called("bash", "c", &state(&output));
        let replies = vec![
            replied("tool-calls", vec![call]),
            replied("stop", vec![said("Yes.")]),
        ];
        let (_temp, run) = talk("kilo.db", replies);
        assert_eq!(run.row.tool_errors, Some(failed), "{output}");
        let code = run.step(0)["action_results"][0]["returncode"].clone();
        assert_eq!(code, Value::Null, "{output}");
    }
}

#[test]
fn a_refused_call_has_failed_and_did_not_run() {
    let words = "The user rejected permission to use this specific tool call.";
    let state = json!({"status": "error", "input": {"command": "ls"}, "error": words});
    let call = called("bash", "c", &state);
    let row = talk("opencode.db", vec![replied("tool-calls", vec![call])])
        .1
        .row;
    assert_eq!(
        (
            &*row.verdict.sentence,
            row.verdict.certainty.as_str(),
            row.tool_errors
        ),
        (
            "Stopped in step 0 because a call of bash wasn't permitted; no records follow",
            "inferred",
            Some(1)
        )
    );
    assert_eq!(row.verdict.outcome.as_str(), "cancelled");
}

#[test]
fn a_reply_that_the_providers_filter_blocked_is_a_refusal() {
    let mut reply = replied("content-filter", vec![said("I can't help wi")]);
    let words = "The response was blocked by the provider's content filter";
    reply.0["error"] = json!({"name": "ContentFilterError", "data": {"message": words}});
    let row = talk("opencode.db", vec![reply]).1.row;
    let sentence = format!("The model refused to continue after step 0: {words}");
    assert_eq!(
        (&*row.verdict.sentence, row.verdict.outcome.as_str()),
        (&*sentence, "failed")
    );
    assert_eq!(row.answer, None);
}

#[test]
fn a_complete_reply_for_an_unknown_reason_ends_its_turn() {
    let reply = |finish: &str| vec![replied(finish, vec![said("It breaks")])];
    let verdict = talk("kilo.db", reply("other")).1.row.verdict;
    assert_eq!(
        (
            &*verdict.sentence,
            verdict.outcome.as_str(),
            verdict.certainty.as_str()
        ),
        (
            "Turn ended after step 0 (inferred from \"other\")",
            "unknown",
            "inferred"
        )
    );
    // The program asks again after this one.
    let verdict = talk("opencode.db", reply("unknown")).1.row.verdict;
    assert_eq!(&*verdict.sentence, "No end recorded after step 0");
}

#[test]
fn a_written_file_is_a_change_without_a_diff_too() {
    let wrote = |tool: &str, status: &str, path: &str| {
        let state = json!({"status": status, "input": {"filePath": path, "content": "x\n"},
            "output": "Wrote file successfully.", "error": "no",
            "metadata": {"filepath": path, "exists": false}});
        called(tool, path, &state)
    };
    let parts = vec![
        wrote("write", "completed", "/p/n.txt"),
        wrote("write", "error", "/p/failed.txt"),
        wrote("read", "completed", "/p/read.txt"),
    ];
    let replies = vec![
        replied("tool-calls", parts),
        replied("stop", vec![said("B.")]),
    ];
    let (_temp, run) = talk("opencode.db", replies);
    assert_eq!(run.row.changed, ["files.n.txt"]);
    assert_eq!(run.row.files_changed, Some(1));
    let manifest = run.index.manifest().get().expect("a manifest");
    assert_eq!(manifest.final_result.as_deref(), Some("B."));
}

#[test]
fn the_tokens_of_a_summary_are_named() {
    let (mut summary, parts) = replied("stop", vec![said("SUMMARY")]);
    summary["summary"] = json!(true);
    let replies = vec![
        replied("tool-calls", vec![]),
        (summary, parts),
        replied("stop", vec![said("Done.")]),
    ];
    let (_temp, run) = talk("opencode.db", replies);
    assert_eq!((run.row.steps, run.row.tokens), (2, Some(2_480)));
    let manifest = run.index.manifest().get().expect("a manifest");
    assert_eq!(
        manifest.notes,
        ["1240 more tokens went to summaries outside the steps.".into()]
    );
}

#[test]
fn a_reply_of_opencode_without_text_is_no_answer() {
    let thought = json!({"type": "reasoning", "text": "Nothing to say."});
    let (_temp, run) = talk("opencode.db", vec![replied("stop", vec![thought])]);
    assert_eq!(
        (
            &*run.row.verdict.sentence,
            run.row.verdict.outcome.as_str(),
            run.row.answer.as_deref()
        ),
        (
            "Turn ended without an answer after step 0 (inferred from \"stop\")",
            "unknown",
            None
        )
    );
}

#[test]
fn turns_that_the_user_undid_are_abandoned() {
    let talk = [
        asked("One."),
        replied("stop", vec![said("One done.")]),
        asked("Two."),
        replied("stop", vec![said("Two done.")]),
    ];
    let ids = ["msg_0", "msg_1", "msg_2", "msg_3"];
    let rows = talk.iter().zip(ids).enumerate();
    let rows: Vec<_> = rows
        .map(|(n, ((data, parts), id))| {
            let at = 1_777_885_200_000 + 1_000 * i64::try_from(n).expect("few");
            ("s", id, at, data.clone(), &**parts)
        })
        .collect();
    let temp = opencode(
        "opencode.db",
        "('s', NULL, '/p', 'x', 1777885200000)",
        &rows,
    );
    let store = temp.path().join("opencode.db");
    let undone = |id: &str| {
        let db = Connection::open(&store).expect("a database");
        // The second call finds the column.
        let _ = db.execute_batch("ALTER TABLE session ADD COLUMN revert TEXT");
        let revert = json!({"messageID": id}).to_string();
        db.execute("UPDATE session SET revert = ?1", [revert])
            .expect("written");
        drop(db);
        read(&store.join("s"))
    };
    let run = undone("msg_2");
    assert_eq!(
        (&*run.row.verdict.sentence, run.row.answer.as_deref()),
        (
            "Finished at step 0 (inferred from \"stop\")",
            Some("One done.")
        )
    );
    let left = |run: &Read| {
        let steps = (0..run.index.steps().len()).filter_map(|n| run.index.steps().get(n));
        steps.map(|step| step.is_abandoned).collect::<Vec<_>>()
    };
    assert_eq!(left(&run), [false, true]);
    let run = undone("msg_0");
    assert_eq!(left(&run), [true, true]);
    assert_eq!(
        (run.row.verdict.outcome.as_str(), run.row.answer.as_deref()),
        ("cancelled", None)
    );
    assert!(
        run.row.verdict.sentence.starts_with("Undone by the user"),
        "{}",
        run.row.verdict.sentence
    );
}

/// Reads a session of Hermes with this number of counted requests and these messages: role, content,
/// calls, finish reason.
fn hermes(calls: i64, messages: &[(&str, &str, Value, &str)]) -> (tempfile::TempDir, Read) {
    let temp = tempfile::tempdir().expect("a directory");
    let db = Connection::open(temp.path().join("state.db")).expect("created");
    db.execute_batch(
        "CREATE TABLE sessions(id TEXT, started_at, api_call_count, input_tokens, output_tokens,
            cache_read_tokens, cache_write_tokens);
        CREATE TABLE messages(id INTEGER PRIMARY KEY, session_id, role, content, tool_calls,
            tool_call_id, timestamp, finish_reason);",
    )
    .expect("created");
    let row = "INSERT INTO sessions VALUES('a', 1777885200.0, ?1, 1000, 40, 200, 0)";
    db.execute(row, [calls]).expect("written");
    for (n, (role, content, calls, finish)) in messages.iter().enumerate() {
        let call = format!("c{}", n.saturating_sub(1));
        let time = 1_777_885_201.0 + n as f64;
        let calls = (!calls.is_null()).then(|| calls.to_string());
        let n = i64::try_from(n).expect("few");
        let row = (n, role, content, calls, call, time, finish);
        db.execute(
            "INSERT INTO messages VALUES(?1, 'a', ?2, ?3, ?4, ?5, ?6, ?7)",
            row,
        )
        .expect("written");
    }
    drop(db);
    let run = read(&temp.path().join("state.db/a"));
    (temp, run)
}

fn hermes_call(n: usize, name: &str) -> Value {
    json!([{"id": format!("c{n}"), "type": "function", "function": {"name": name, "arguments": "{}"}}])
}

#[test]
fn the_tokens_of_hermes_are_a_lower_bound_if_it_counted_fewer_replies() {
    let none = Value::Null;
    let messages = [
        ("user", "List everything.", none.clone(), ""),
        ("assistant", "", hermes_call(1, "terminal"), "tool_calls"),
        (
            "tool",
            r#"{"output": "a", "exit_code": 0, "error": null}"#,
            none.clone(),
            "",
        ),
        ("assistant", "Item one, it", none.clone(), "length"),
        (
            "user",
            "[System: Your previous response was truncated.]",
            none.clone(),
            "",
        ),
        ("assistant", "Item one, it", none, "length"),
    ];
    let row = hermes(1, &messages).1.row;
    assert_eq!((row.tokens, row.tokens_unknown), (Some(1_240), 2));
    let words = row.tokens_words().expect("tokens");
    assert_eq!(words, "at least 1,240; 2 steps don't record their tokens");
    assert_eq!(row.spent.iter().map(|spent| spent.unknown).sum::<u32>(), 2);
    assert_eq!(
        hermes(3, &messages).1.row.tokens_words().as_deref(),
        Some("1,240")
    );
}

#[test]
fn hermes_counts_requests_without_a_message_and_tokens_by_model() {
    let none = Value::Null;
    let messages = [
        ("user", "Go.", none.clone(), ""),
        ("assistant", "", hermes_call(1, "terminal"), "tool_calls"),
        (
            "tool",
            r#"{"output": "a", "exit_code": 0}"#,
            none.clone(),
            "",
        ),
        ("assistant", "Done.", none, "stop"),
    ];
    let (temp, run) = hermes(3, &messages);
    assert_eq!((run.row.steps, run.row.model_calls), (2, Some(3)));
    // A reply that was cut short isn't counted.
    assert_eq!(hermes(1, &messages).1.row.model_calls, Some(2));
    let store = temp.path().join("state.db");
    let used = |rows: &str| {
        let temp = tempfile::tempdir().expect("a directory");
        let copy = temp.path().join("state.db");
        fs::copy(&store, &copy).expect("copied");
        let db = Connection::open(&copy).expect("a database");
        db.execute_batch(&format!(
            "CREATE TABLE session_model_usage(session_id TEXT, model, task, api_call_count,
                input_tokens, output_tokens, cache_read_tokens, last_seen);
            INSERT INTO session_model_usage VALUES {rows};"
        ))
        .expect("written");
        drop(db);
        let row = read(&copy.join("a")).row;
        let spent = row.spent.iter();
        let spent = spent.map(|spent| (spent.model.to_string(), spent.tokens()));
        (spent.collect::<Vec<_>>(), row.models)
    };
    // Each provider of a model has a row.
    let (spent, models) = used(
        "('a', 'glm-5', '', 1, 400, 10, 100, 1777885201.5), ('a', 'glm-5', '', 1, 200, 10, 0, 1777885201.9),
            ('a', 'glm-6', '', 1, 400, 20, 100, 1777885202.5)",
    );
    let both = [("glm-5".to_owned(), 720), ("glm-6".to_owned(), 520)];
    assert_eq!(spent, both);
    assert_eq!(models.len(), 2);
    // Other sums aren't those of the session.
    let (spent, _) = used("('a', 'glm-6', '', 1, 400, 20, 100, 1777885202.5)");
    assert_eq!(spent, [("glm-6".to_owned(), 1_240)]);
}

#[test]
fn a_reply_of_hermes_without_text_is_no_answer() {
    let messages = [
        ("user", "Go.", Value::Null, ""),
        ("assistant", "", Value::Null, "stop"),
    ];
    let row = hermes(1, &messages).1.row;
    assert_eq!(
        &*row.verdict.sentence,
        "Turn ended without an answer after step 0 (inferred from \"stop\")"
    );
}

#[test]
fn the_message_of_hermes_about_an_interruption_is_no_reply() {
    let none = || Value::Null;
    let messages = |last: &'static str| {
        [
            ("user", "Go.", none(), ""),
            ("assistant", "", hermes_call(1, "terminal"), "tool_calls"),
            (
                "tool",
                r#"{"output": "", "exit_code": 5, "error": null}"#,
                none(),
                "",
            ),
            ("assistant", "Operation interrupted.", none(), last),
        ]
    };
    let row = hermes(1, &messages("")).1.row;
    assert_eq!(&*row.verdict.sentence, "Cancelled after step 0");
    assert_eq!((row.steps, row.model_calls), (1, Some(1)));
    assert_eq!(row.verdict.certainty.as_str(), "recorded");
    // The model may say so, too.
    assert_eq!(hermes(2, &messages("stop")).1.row.steps, 2);
}

#[test]
fn what_a_compaction_of_hermes_keeps_counts_once() {
    let none = || Value::Null;
    let output = r#"{"output": "", "exit_code": 1, "error": null}"#;
    let call = || hermes_call(1, "terminal");
    let messages = [
        ("user", "Fix add.", none(), ""),
        ("assistant", "", call(), "tool_calls"),
        ("tool", output, none(), ""),
        ("assistant", "Done.", none(), "stop"),
        // What was kept, with the summary.
        ("user", "Fix add.", none(), ""),
        ("user", "[CONTEXT COMPACTION] Done.", none(), ""),
        ("assistant", "", call(), "tool_calls"),
        (
            "tool",
            "{\"output\": \"shorter\", \"exit_code\": 1}",
            none(),
            "",
        ),
        ("assistant", "Done.", none(), "stop"),
        ("user", "Why?", none(), ""),
        ("assistant", "Because.", none(), "stop"),
        // The same prompt again isn't a copy.
        ("user", "Fix add.", none(), ""),
        ("assistant", "Done.", none(), "stop"),
    ];
    let (temp, _) = hermes(4, &messages);
    let db = Connection::open(temp.path().join("state.db")).expect("opened");
    db.execute_batch(
        "ALTER TABLE messages ADD COLUMN active DEFAULT 1;
        ALTER TABLE messages ADD COLUMN compacted DEFAULT 0;
        UPDATE messages SET active = 0, compacted = 1 WHERE id < 4;
        UPDATE messages SET tool_call_id = CASE role WHEN 'tool' THEN 'c1' END;
        ALTER TABLE sessions ADD COLUMN end_reason;
        UPDATE sessions SET end_reason = 'cli_close'",
    )
    .expect("changed");
    drop(db);
    let run = read(&temp.path().join("state.db/a"));
    let row = &run.row;
    assert_eq!(
        (row.steps, row.tool_calls, row.tool_errors),
        (4, Some(1), Some(1))
    );
    assert_eq!((row.turns, row.issues), (Some(3), (0, 0)));
    let manifest = run.index.manifest().get().expect("a manifest");
    let [compaction] = &*manifest.compactions else {
        panic!("{:?}", manifest.compactions)
    };
    let event = run.index.events().get(compaction.event).expect("its event");
    assert_eq!(run.index.name(event.stage), "kept");
    let sentence = "Finished at step 3 (inferred from \"stop\")";
    assert_eq!(&*row.verdict.sentence, sentence);
    assert!(!manifest.awaits_user, "the user closed it");
}

#[test]
fn a_question_and_stopped_calls_of_hermes_are_no_failures() {
    let none = || Value::Null;
    let mut messages = vec![
        ("user", "Go.", none(), ""),
        ("assistant", "", hermes_call(1, "clarify"), "tool_calls"),
    ];
    let run = hermes(1, &messages).1;
    let manifest = run.index.manifest().get().expect("a manifest");
    assert_eq!(manifest.asks_user.as_deref(), Some("clarify"));
    messages[1] = ("assistant", "", hermes_call(1, "terminal"), "tool_calls");
    for (output, exit) in [
        (
            r#"{"output": "[Command interrupted]", "exit_code": 130, "error": null}"#,
            130.into(),
        ),
        (
            "[Tool execution skipped — terminal was not started]",
            Value::Null,
        ),
    ] {
        let mut messages = messages.clone();
        messages.push(("tool", output, none(), ""));
        let (_temp, run) = hermes(1, &messages);
        let result = &run.step(0)["action_results"][0];
        assert_eq!(
            (&result["status"], &result["returncode"]),
            (&"cancelled".into(), &exit)
        );
        assert_eq!(run.row.tool_errors, Some(0), "{output}");
    }
    messages[1] = ("assistant", "(empty)", none(), "");
    let row = hermes(4, &messages).1.row;
    assert!(
        row.verdict
            .sentence
            .starts_with("Turn ended without an answer"),
        "{}",
        row.verdict.sentence
    );
}

#[test]
fn results_of_hermes_name_changed_files_and_missing_tools() {
    let none = Value::Null;
    let wrote =
        r#"{"bytes_written": 4, "resolved_path": "/p/new.txt", "files_modified": ["/p/new.txt"]}"#;
    let missing = "Tool 'make_coffee' does not exist. Available tools: terminal";
    let messages = [
        ("user", "Go.", none.clone(), ""),
        ("assistant", "", hermes_call(1, "write_file"), "tool_calls"),
        ("tool", wrote, none.clone(), ""),
        ("assistant", "", hermes_call(3, "make_coffee"), "tool_calls"),
        ("tool", missing, none.clone(), ""),
        ("assistant", "Both.", none, "stop"),
    ];
    let (_temp, run) = hermes(3, &messages);
    assert_eq!(run.row.changed, ["files./p/new.txt"]);
    assert_eq!(
        (run.row.tool_calls, run.row.tool_errors),
        (Some(2), Some(1))
    );
    assert_eq!(run.step(1)["action_results"][0]["error"], missing);
    let manifest = run.index.manifest().get().expect("a manifest");
    assert_eq!(manifest.final_result.as_deref(), Some("Both."));
}

#[test]
fn a_session_of_hermes_records_its_tokens_as_a_whole() {
    let run = read(&sample("tools/hermes/state.db/20260504_090000_aaaaaa"));
    let row = &run.row;
    // The rows of the session and of its model, and seven messages less the result of a sub-agent.
    assert_eq!((row.steps, row.errors, row.issues), (3, 1, (0, 0)));
    assert_eq!(
        (row.tokens, row.cost_usd, row.children),
        (Some(2_090), Some(0.02), Some(1))
    );
    assert_eq!((row.tool_calls, row.tool_errors), (Some(3), Some(1)));
    assert_eq!(
        &*row.verdict.sentence,
        "Finished at step 2 (inferred from \"stop\")"
    );
    let step = run.step(0);
    assert_eq!(
        step["action_results"][0]["status"], "error",
        "a warning follows the JSON of the result: {step}"
    );
    assert_eq!(row.files_changed, Some(1));
    let child = read(&sample("tools/hermes/state.db/20260504_090100_bbbbbb"));
    assert_eq!(child.row.parent.as_deref(), Some("20260504_090000_aaaaaa"));
    let limited = read(&sample("tools/hermes/state.db/20260504_090200_cccccc"));
    assert_eq!(
        (
            &*limited.row.verdict.sentence,
            limited.row.verdict.certainty.as_str()
        ),
        (
            "Step limit reached after step 1: 1 of 1 iteration",
            "recorded"
        )
    );
}

#[test]
fn a_session_of_hermes_was_written_at_its_end_or_at_its_newest_message() {
    let written = |run: &str| {
        let run = read(&sample(&format!("tools/hermes/state.db/{run}")));
        run.dir.written().map(|(_, newest)| newest)
    };
    let open = written("20260504_090000_aaaaaa");
    assert_eq!(open, Some(1_777_885_207_000_000), "it has no end");
    let ended = written("20260504_090100_bbbbbb");
    assert_eq!(
        ended,
        Some(1_777_885_210_000_000),
        "a second after its last message"
    );
}

/// Returns the id of a session in the sample of Crush.
fn of_crush(n: usize) -> String {
    format!("tools/crush/crush.db/{n}0000000-1111-4111-8111-111111111111")
}

#[test]
fn a_session_of_crush_with_a_sub_agent_and_a_summary() {
    let run = read(&sample(&of_crush(1)));
    let row = &run.row;
    // The row of the session, two prompts, the user's command, a summary, four replies and four
    // results.
    assert_eq!(
        (row.steps, row.errors, row.events, row.issues),
        (4, 2, 13, (0, 0))
    );
    assert_eq!(
        (row.tokens, row.cost_usd, row.cost_with_children),
        (None, Some(0.05), true),
        "the session only has the tokens of its newest request"
    );
    assert_eq!((row.turns, row.children), (Some(2), Some(1)));
    assert_eq!((row.tool_calls, row.tool_errors), (Some(4), Some(2)));
    assert_eq!(
        (row.task.as_deref(), row.title()),
        (Some("The total is wrong, fix it."), "Ledger total fix")
    );
    assert_eq!(row.project.as_deref(), Some("/home/me/ledger"));
    assert_eq!(
        (&*row.verdict.sentence, row.verdict.certainty.as_str()),
        (
            "Reply token limit reached in step 3 (inferred from \"max_tokens\")",
            "inferred"
        )
    );
    let manifest = run.index.manifest().get().expect("a manifest");
    assert_eq!(manifest.compactions.len(), 1);
    // For the program, a failed command is a success.
    let step = run.step(0);
    let result = &step["action_results"][0];
    assert_eq!(
        (&result["status"], &result["returncode"]),
        (&"error".into(), &1.into()),
        "{step}"
    );
    // Both sides of an edit are recorded.
    let edit = run.step(1).to_string();
    assert!(
        edit.contains("sum(rows[1:])") && edit.contains("sum(rows)"),
        "{edit}"
    );
    assert_eq!(row.files_changed, Some(1));
    let helper = &manifest.child_ids[0];
    assert!(helper.ends_with("$$call_2"), "{helper}");
    let child = read(&sample(&format!("tools/crush/crush.db/{helper}")));
    assert_eq!(child.row.parent.as_deref(), row.run_id.as_deref());
    assert_eq!(child.row.title(), "What does total skip?");
}

#[test]
fn the_last_part_of_a_reply_of_crush_is_the_end() {
    let ends = [
        (2, (1, "No end recorded after step 0", "unknown")),
        (
            3,
            (1, "Cancelled in step 0 during a call to bash", "recorded"),
        ),
        (
            4,
            (
                0,
                "Failed with an error: Provider Error: 500 Internal Server Error",
                "recorded",
            ),
        ),
        (
            5,
            (
                1,
                "Cancelled by the user in step 0 during a call to bash; no records follow",
                "recorded",
            ),
        ),
    ];
    for (n, expected) in ends {
        let row = read(&sample(&of_crush(n))).row;
        let verdict = &row.verdict;
        let found = (row.steps, &*verdict.sentence, verdict.certainty.as_str());
        assert_eq!(found, expected, "session {n}");
    }
}

#[test]
fn rows_of_crush_in_the_same_second_are_in_the_order_of_writing() {
    // Their ids are random.
    let sql = r#"CREATE TABLE sessions(id TEXT PRIMARY KEY, title TEXT);
        CREATE TABLE messages(id TEXT PRIMARY KEY, session_id TEXT, role TEXT, parts TEXT, created_at INTEGER);
        CREATE INDEX by_id ON messages(session_id, id);
        INSERT INTO sessions VALUES('a', 'New Session');
        INSERT INTO messages VALUES
        ('z', 'a', 'user', '[{"type":"text","data":{"text":"Say both."}}]', 1777885200),
        ('y', 'a', 'assistant', '[{"type":"text","data":{"text":"One."}},{"type":"tool_call","data":{"id":"c","name":"ls","input":""}}]', 1777885200),
        ('x', 'a', 'tool', '[{"type":"tool_result","data":{"tool_call_id":"c","content":"a","is_error":false}}]', 1777885200),
        ('w', 'a', 'assistant', '[{"type":"text","data":{"text":"Two."}},{"type":"finish","data":{"reason":"end_turn"}}]', 1777885200)"#;
    let (temp, steps, _) = made("crush.db", sql);
    assert_eq!(names(&steps), [("crush.db/a", 2)]);
    let run = read(&temp.path().join("crush.db/a"));
    assert_eq!(run.row.issues, (0, 0));
    assert_eq!(
        (run.row.title(), &*run.row.verdict.sentence),
        (
            "Say both.",
            "Finished at step 1 (inferred from \"end_turn\")"
        )
    );
    assert!(run.step(0).to_string().contains("One."));
}

#[test]
fn values_of_other_types_in_rows_of_crush_are_unknown() {
    let parts = [
        "5",
        "null",
        "[5, null, [], {}]",
        "no JSON",
        r#"{"type":"text"}"#,
        r#"[{"type":5,"data":[]},{"type":"text","data":{"text":5}},{"type":"finish","data":{"reason":7}}]"#,
        r#"[{"type":"tool_call","data":{"id":null,"name":{},"input":"no JSON"}},{"type":"tool_call"}]"#,
        r#"[{"type":"tool_result","data":{"metadata":"[1","is_error":"yes","content":null}},{"type":"tool_result","data":"x"}]"#,
        r#"[{"type":"finish","data":{"reason":"error","message":["x"]}}]"#,
        r#"[{"type":"shell_command","data":null}]"#,
    ];
    let mut sql = "CREATE TABLE sessions(id TEXT, parent_session_id, title, cost, summary_message_id, created_at, updated_at);
        CREATE TABLE messages(id TEXT, session_id TEXT, role, parts, model, created_at, finished_at, is_summary_message);
        INSERT INTO sessions VALUES('a', 5, x'00', 'free', 1.5, 'now', -1);"
        .to_owned();
    for (n, parts) in parts.iter().enumerate() {
        for (role, summary) in [
            ("user", "NULL"),
            ("assistant", "'x'"),
            ("tool", "0"),
            ("assistant", "1"),
            ("", "2"),
        ] {
            sql.push_str(&format!(
                "INSERT INTO messages VALUES('m{n}{role}{}', 'a', '{role}', '{parts}', 7, 9e99, '', {summary});",
                summary.len()
            ));
        }
    }
    let (temp, _, skipped) = made("crush.db", &sql);
    assert_eq!(skipped, [""; 0]);
    let run = read(&temp.path().join("crush.db/a"));
    assert_eq!(run.row.events, 1 + 5 * parts.len());
    assert_eq!((run.row.cost_usd, run.row.parent.as_deref()), (None, None));
    assert_eq!(run.row.started, None);
}

/// Adds a session of Crush with these messages, each of a role and its parts.
fn add_crush(
    db: &Connection,
    id: &str,
    parent: Option<&str>,
    cost: f64,
    messages: &[(&str, Value)],
) {
    db.execute_batch(
        "CREATE TABLE IF NOT EXISTS sessions(id TEXT, parent_session_id TEXT, title TEXT, cost REAL);
        CREATE TABLE IF NOT EXISTS messages(id TEXT, session_id TEXT, role TEXT, parts TEXT, created_at INTEGER)",
    )
    .expect("created");
    let sql = "INSERT INTO sessions VALUES(?1, ?2, 'New Session', ?3)";
    db.execute(sql, (id, parent, cost)).expect("written");
    for (n, (role, parts)) in messages.iter().enumerate() {
        let sql = "INSERT INTO messages VALUES(?1, ?2, ?3, ?4, 1777885200)";
        let row = (format!("m{n}"), id, role, parts.to_string());
        db.execute(sql, row).expect("written");
    }
}

fn call_of_crush(id: &str, name: &str, args: &Value) -> Value {
    let data = json!({"id": id, "name": name, "input": args.to_string()});
    json!({"type": "tool_call", "data": data})
}

fn result_of_crush(id: &str, name: &str, content: &str, failed: bool, metadata: &Value) -> Value {
    let data = json!({"tool_call_id": id, "name": name, "content": content, "is_error": failed,
        "metadata": metadata.to_string()});
    json!({"type": "tool_result", "data": data})
}

fn ended_crush(reason: &str) -> Value {
    json!({"type": "finish", "data": {"reason": reason}})
}

/// Returns the first step of a session of Crush with one call.
fn called_by_crush(name: &str, args: &Value, content: &str, metadata: &Value) -> Value {
    let temp = tempfile::tempdir().expect("a directory");
    let db = Connection::open(temp.path().join("crush.db")).expect("created");
    let messages = [
        ("user", json!([{"type": "text", "data": {"text": "Go."}}])),
        (
            "assistant",
            json!([call_of_crush("c", name, args), ended_crush("tool_use")]),
        ),
        (
            "tool",
            json!([result_of_crush("c", name, content, false, metadata)]),
        ),
    ];
    add_crush(&db, "a", None, 0.0, &messages);
    drop(db);
    let run = read(&temp.path().join("crush.db/a"));
    assert_eq!(run.row.issues, (0, 0));
    run.step(0)
}

#[test]
fn the_program_writes_the_exit_code_of_a_command_at_the_very_end() {
    let failed = "\nexit status 7\nExit code 7";
    let with_dir = |output: &str| format!("{output}\n\n<cwd>/proj</cwd>");
    let of = |output: &str| json!({"output": output, "working_directory": "/proj"});
    let in_background = json!({"output": failed, "background": true});
    let still_running = json!({"output": failed, "background": true, "shell_id": "1"});
    let hook = format!("{}\nRemember to lint.", with_dir(failed));
    let printed = "building\nExit code 3\n";
    let bare = "Exit code 3";
    let aborted = "\nstopped\nCommand was aborted before completion";
    let printed_aborted = "some\nCommand was aborted before completion\n";
    let cases = [
        (
            "failed",
            with_dir(failed),
            of(failed),
            "error",
            Some(failed),
        ),
        (
            "background",
            with_dir(failed),
            in_background,
            "error",
            Some(failed),
        ),
        (
            "running",
            "Background shell".to_owned(),
            still_running,
            "success",
            None,
        ),
        ("hook", hook.clone(), of(failed), "error", Some(failed)),
        ("no metadata", hook, json!({}), "error", Some(failed)),
        ("printed", with_dir(printed), of(printed), "success", None),
        ("bare", with_dir(bare), of(bare), "success", None),
        (
            "aborted",
            with_dir(aborted),
            of(aborted),
            "cancelled",
            Some(aborted),
        ),
        (
            "printed aborted",
            with_dir(printed_aborted),
            of(printed_aborted),
            "success",
            None,
        ),
    ];
    for (name, content, metadata, status, error) in cases {
        let step = called_by_crush("bash", &json!({"command": "x"}), &content, &metadata);
        let result = &step["action_results"][0];
        let found = (result["status"].as_str(), result["error"].as_str());
        assert_eq!(found, (Some(status), error), "{name}");
        let exit = (status == "error").then_some(7);
        assert_eq!(result["returncode"].as_i64(), exit, "{name}");
    }
}

#[test]
fn a_reply_of_crush_without_text_is_no_answer() {
    let temp = tempfile::tempdir().expect("a directory");
    let db = Connection::open(temp.path().join("crush.db")).expect("created");
    let thought = json!({"type": "reasoning", "data": {"thinking": "Nothing to say."}});
    let messages = [
        ("user", json!([{"type": "text", "data": {"text": "Go."}}])),
        ("assistant", json!([thought, ended_crush("end_turn")])),
    ];
    add_crush(&db, "a", None, 0.0, &messages);
    drop(db);
    let row = read(&temp.path().join("crush.db/a")).row;
    assert_eq!(
        &*row.verdict.sentence,
        "Turn ended without an answer after step 0 (inferred from \"end_turn\")"
    );
}

#[test]
fn a_file_is_changed_as_a_hook_of_crush_wanted() {
    let args = json!({"file_path": "/p/secret.env", "content": "KEY=original\n"});
    let written = "<result>\nFile successfully written: /p/safe.env\n</result>";
    let diff = "--- a/safe.env\n+++ b/safe.env\n@@ -0,0 +1 @@\n+KEY=redacted\n";
    let metadata = |rewritten: bool| json!({"diff": diff, "hook": {"input_rewrite": rewritten}});
    let step = called_by_crush("write", &args, written, &metadata(true));
    let expected = json!({"files./p/safe.env": {"diff": "@@ -0,0 +1 @@\n+KEY=redacted\n"}});
    assert_eq!(step["state_diff"], expected);
    let step = called_by_crush("write", &args, written, &metadata(false));
    assert_eq!(
        step["state_diff"]["files./p/secret.env"]["after"],
        "KEY=original\n"
    );
    let said =
        "<result>\nApplied 1 of 2 edits to file: /p/b (c).txt (1 edit(s) failed)\n</result>\n";
    let metadata = json!({"old_content": "x", "new_content": "y", "hook": {"input_rewrite": true}});
    let step = called_by_crush("multiedit", &args, said, &metadata);
    let expected = json!({"files./p/b (c).txt": {"before": "x", "after": "y"}});
    assert_eq!(step["state_diff"], expected);
    // Nothing names the file.
    let step = called_by_crush("edit", &args, "Done.", &metadata);
    assert_eq!(step["state_diff"], Value::Null);
}

#[test]
fn messages_of_crush_that_cannot_be_read_are_issues() {
    let temp = tempfile::tempdir().expect("a directory");
    let db = Connection::open(temp.path().join("crush.db")).expect("created");
    let messages = [
        ("user", json!([{"type": "text", "data": {"text": "Go."}}])),
        ("assistant", json!("no list")),
        (
            "assistant",
            json!([1, {"data": {}}, {"type": "text", "data": {"text": "Yes."}}]),
        ),
        ("assistant", json!([])),
    ];
    add_crush(&db, "a", None, 0.0, &messages);
    drop(db);
    let run = read(&temp.path().join("crush.db/a"));
    assert_eq!((run.row.steps, run.row.events, run.row.issues.0), (2, 5, 2));
}

#[test]
fn the_cost_of_a_sub_agent_of_crush_is_in_that_of_its_parent_unless_it_failed() {
    let temp = tempfile::tempdir().expect("a directory");
    let db = Connection::open(temp.path().join("crush.db")).expect("created");
    let agents = ["done", "failed", "wordless", "running"];
    let calls = agents.map(|id| call_of_crush(id, "agent", &json!({"prompt": "x"})));
    let result = |id: &str, content: &str, failed: bool| {
        let result = result_of_crush(id, "agent", content, failed, &Value::Null);
        ("tool", json!([result]))
    };
    let wordless = "Sub-agent completed but produced no text output.";
    let messages = [
        ("user", json!([{"type": "text", "data": {"text": "Go."}}])),
        ("assistant", Value::from(calls.to_vec())),
        result("done", "yes", false),
        result("failed", "Failed to generate response: boom", true),
        result("wordless", wordless, true),
    ];
    add_crush(&db, "p", None, 1.0, &messages);
    for agent in agents {
        add_crush(&db, &format!("m1$${agent}"), Some("p"), 0.4, &[]);
    }
    drop(db);
    let ids = agents.map(|agent| format!("m1$${agent}"));
    let keys = ids.iter().map(|id| format!("crush.db/{id}"));
    let keys = ["crush.db/p".to_owned()].into_iter().chain(keys);
    let runs: Vec<_> = keys
        .map(|key| Arc::new(read(&temp.path().join(key)).row))
        .collect();
    let relations = relate(&runs, &mut |_| Arc::from([]));
    let paid: Vec<bool> = relations.iter().map(|run| run.paid_by.is_some()).collect();
    assert_eq!(paid, [false, true, false, true, false]);
}

#[test]
fn an_id_that_is_no_name_changes_nothing_for_other_sessions() {
    let temp = tempfile::tempdir().expect("a directory");
    let db = Connection::open(temp.path().join("crush.db")).expect("created");
    let prompt = ("user", json!([{"type": "text", "data": {"text": "Go."}}]));
    let reply = (
        "assistant",
        json!([{"type": "text", "data": {"text": "Yes."}}, ended_crush("end_turn")]),
    );
    let talk = [prompt, reply];
    let signed = format!("m1$$call_1__thought__CiQB/{}", "abc+".repeat(100));
    let similar = format!("{signed}=");
    add_crush(&db, "good", None, 0.0, &talk);
    for id in [&*signed, &*similar, "m1$$x/y"] {
        add_crush(&db, id, Some("good"), 0.0, &talk);
    }
    add_crush(&db, "a\nb", None, 0.0, &talk);
    drop(db);
    let (steps, skipped) = read_all(temp.path());
    assert_eq!(skipped, ["rows of runs without a usable id: 1"]);
    assert!(steps.keys().all(|key| key.len() < 220), "{steps:?}");
    assert_eq!((steps.len(), steps.values().sum::<usize>()), (4, 4));
    let mut ids = Vec::new();
    for key in steps.keys() {
        let row = read(&temp.path().join(key)).row;
        assert_eq!(
            (&*row.verdict.sentence, row.issues),
            ("Finished at step 0 (inferred from \"end_turn\")", (0, 0)),
            "{key}"
        );
        if row.parent.is_none() {
            assert_eq!(
                (row.run_id.as_deref(), row.children),
                (Some("good"), Some(3))
            );
            assert_eq!(row.child_ids.len(), 3);
        }
        ids.push(row.run_id.expect("an id"));
    }
    assert!(ids.iter().any(|id| &**id == "m1$$x/y"), "{ids:?}");
}

#[test]
fn the_folder_of_crush_is_searched_although_it_begins_with_a_dot() {
    let temp = tempfile::tempdir().expect("a directory");
    for folder in ["app/.crush", "app/.git"] {
        let folder = temp.path().join(folder);
        fs::create_dir_all(&folder).expect("created");
        fs::copy(sample("tools/crush/crush.db"), folder.join("crush.db")).expect("copied");
    }
    let (steps, skipped) = read_all(temp.path());
    assert_eq!((steps.len(), skipped.len()), (6, 0));
    assert!(
        steps.keys().all(|key| key.starts_with("app/.crush/")),
        "{steps:?}"
    );
}

#[test]
fn messages_of_goose_become_the_replies_that_it_split() {
    let run = read(&sample("tools/goose/sessions.db/20260504_1"));
    let row = &run.row;
    // The row of the session, and fourteen messages. A reply has a text and two calls.
    assert_eq!(
        (row.steps, row.errors, row.events, row.issues),
        (3, 1, 15, (0, 0))
    );
    assert_eq!(
        (row.tokens, row.cost_usd, row.cost_estimated_usd()),
        (Some(2_450), None, Some(0.02)),
        "the total includes the compaction"
    );
    assert_eq!((row.turns, row.children), (Some(1), Some(1)));
    assert_eq!((row.tool_calls, row.tool_errors), (Some(3), Some(1)));
    assert_eq!(
        (row.task.as_deref(), row.title()),
        (Some("The total is wrong, fix it."), "Ledger total fix")
    );
    assert_eq!(row.project.as_deref(), Some("/home/me/ledger"));
    assert_eq!(
        (&*row.verdict.sentence, row.verdict.certainty.as_str()),
        ("No end recorded after step 2", "unknown"),
        "the slash command isn't a prompt, nor is its answer a reply"
    );
    assert_eq!(row.model_calls, Some(3), "the usage confirms it");
    let manifest = run.index.manifest().get().expect("a manifest");
    assert_eq!(manifest.compactions.len(), 1);
    assert_eq!(manifest.tokens_summed, Some(560 + 640 + 720));
    let step = run.step(0);
    let result = &step["action_results"][0];
    assert_eq!(
        (&result["status"], &result["returncode"]),
        (&"error".into(), &1.into()),
        "{step}"
    );
    assert_eq!(
        step["action_results"][1]["output"], "the first row",
        "{step}"
    );
    let thoughts = step.to_string().matches("Run the test first.").count();
    assert_eq!(thoughts, 1, "each message of a reply repeats them: {step}");
    assert_eq!(row.files_changed, Some(1));
    let child = read(&sample("tools/goose/sessions.db/20260504_2"));
    assert_eq!(child.row.parent.as_deref(), Some("20260504_1"));
    let text = run.dir.read_all(TraceFile::Events, 1 << 20).expect("text");
    let text = String::from_utf8(text).expect("text");
    assert!(!text.contains("not for board"), "no configuration is read");
}

#[test]
fn goose_records_few_ends() {
    let stopped = read(&sample("tools/goose/sessions.db/20260504_3"));
    assert_eq!(
        (
            &*stopped.row.verdict.sentence,
            stopped.row.verdict.certainty.as_str(),
            stopped.row.title()
        ),
        (
            "Cancelled in step 0 during a call to developer__shell; no records follow",
            "inferred",
            "Wait for me."
        )
    );
    let empty = read(&sample("tools/goose/sessions.db/20260504_4"));
    assert_eq!(
        &*empty.row.verdict.sentence,
        "The model's reply was empty after step 1"
    );
    let declined = &empty.step(0)["action_results"][0];
    assert_eq!(declined["status"], "cancelled", "{declined}");
}

#[test]
fn calls_of_goose_with_a_usage_or_a_time_between_them_are_replies_of_their_own() {
    let call = |id: &str| {
        format!(
            r#"[{{"type":"toolRequest","id":"{id}","toolCall":{{"status":"success","value":{{"name":"shell","arguments":{{}}}}}}}}]"#
        )
    };
    let result = |id: &str| {
        format!(
            r#"[{{"type":"toolResponse","id":"{id}","toolResult":{{"status":"success","value":[{{"type":"text","text":"a"}}]}}}}]"#
        )
    };
    let usage =
        r#"{"userVisible":true,"agentVisible":true,"usage":{"inputTokens":5,"outputTokens":1}}"#;
    let mut sql = "CREATE TABLE sessions(id TEXT PRIMARY KEY, description TEXT);
        CREATE TABLE messages(id INTEGER PRIMARY KEY, session_id TEXT, role TEXT, content_json TEXT, created_timestamp INTEGER, metadata_json TEXT);
        INSERT INTO sessions VALUES('same', 'Three calls'), ('used', ''), ('later', '');"
        .to_owned();
    for (n, id) in ["1", "2", "3"].iter().enumerate() {
        for (session, seconds, metadata) in [("same", 0, ""), ("used", 0, usage), ("later", n, "")]
        {
            // A desktop may write milliseconds.
            let at = if session == "later" {
                1_777_885_200 + seconds
            } else {
                1_777_885_200_000
            };
            sql.push_str(&format!(
                "INSERT INTO messages(session_id, role, content_json, created_timestamp, metadata_json) VALUES \
                 ('{session}', 'assistant', '{}', {at}, '{metadata}'), ('{session}', 'user', '{}', {at}, '');",
                call(id),
                result(id)
            ));
        }
    }
    let (temp, steps, skipped) = made("sessions.db", &sql);
    assert_eq!(skipped, [""; 0]);
    assert_eq!(
        names(&steps),
        [
            ("sessions.db/later", 3),
            ("sessions.db/same", 1),
            ("sessions.db/used", 3)
        ]
    );
    let run = read(&temp.path().join("sessions.db/same"));
    assert_eq!((run.row.tool_calls, run.row.issues), (Some(3), (0, 0)));
    assert_eq!(run.row.model_calls, None, "they may be three replies");
    assert_eq!(run.row.title(), "Three calls");
    let written = run.dir.written().map(|(_, newest)| newest);
    assert_eq!(written, Some(1_777_885_200_000_000));
    let used = read(&temp.path().join("sessions.db/used"));
    assert_eq!(used.row.tokens, Some(18));
}

#[test]
fn values_of_other_types_in_rows_of_goose_are_unknown() {
    let contents = [
        "5",
        "null",
        "[5, null, [], {}]",
        "no JSON",
        r#"[{"type":5,"text":[]},{"type":"text","text":5,"annotations":{"audience":7}}]"#,
        r#"[{"type":"toolRequest","id":5,"toolCall":{"status":"error","error":"no call"}},{"type":"toolRequest"}]"#,
        r#"[{"type":"toolResponse","id":null,"toolResult":"x"},{"type":"toolResponse","id":"a","toolResult":{"status":"success","value":7}}]"#,
        r#"[{"type":"toolResponse","id":"b","toolResult":{"status":"success","value":{"content":5,"structuredContent":[],"isError":"yes"}}}]"#,
        r#"[{"type":"thinking"},{"type":"systemNotification","msg":"x"},{"type":"conversationCompacted"}]"#,
    ];
    let metadata = [
        "NULL",
        "'[]'",
        r#"'{"userVisible":5,"usage":7,"inference":[]}'"#,
        r#"'{"userVisible":false,"steer":true}'"#,
    ];
    let mut sql = "CREATE TABLE sessions(id TEXT, parent_session_id, name, accumulated_cost, accumulated_input_tokens, model_config_json, created_at);
        CREATE TABLE messages(id INTEGER PRIMARY KEY, session_id TEXT, role, content_json, created_timestamp, metadata_json);
        INSERT INTO sessions VALUES('a', 5, x'00', 'free', -7, '[1]', 'now');"
        .to_owned();
    for content in contents {
        for role in ["'user'", "'assistant'", "7"] {
            for metadata in metadata {
                sql.push_str(&format!(
                    "INSERT INTO messages(session_id, role, content_json, created_timestamp, metadata_json) \
                     VALUES('a', {role}, '{content}', 'soon', {metadata});"
                ));
            }
        }
    }
    let (temp, _, skipped) = made("sessions.db", &sql);
    assert_eq!(skipped, [""; 0]);
    let run = read(&temp.path().join("sessions.db/a"));
    assert_eq!(run.row.events, 1 + 3 * contents.len() * metadata.len());
    assert_eq!((run.row.cost_usd, run.row.parent.as_deref()), (None, None));
    assert_eq!((run.row.tokens, run.row.started), (None, None));
}

/// Returns the rows of a Goose session: role, contents, time in seconds, and members of the metadata.
fn goose(session: &str, rows: &[(&str, &str, i64, &str)]) -> String {
    let mut sql = format!("INSERT INTO sessions VALUES('{session}', '{session}');");
    for (role, contents, at, metadata) in rows {
        let at = 1_777_885_200 + at;
        sql.push_str(&format!(
            "INSERT INTO messages(session_id, role, content_json, created_timestamp, metadata_json) \
             VALUES('{session}', '{role}', '{}', {at}, '{{{metadata}}}');",
            contents.replace('\'', "''")
        ));
    }
    sql
}

const GOOSE: &str = "CREATE TABLE sessions(id TEXT PRIMARY KEY, name TEXT);
    CREATE TABLE messages(id INTEGER PRIMARY KEY, session_id TEXT, role TEXT, content_json TEXT, created_timestamp INTEGER, metadata_json TEXT);";
const GO: (&str, &str, i64, &str) = ("user", r#"[{"type":"text","text":"go"}]"#, 0, "");
const USAGE: &str = r#""usage":{"inputTokens":5,"outputTokens":1}"#;
const DONE: &str = r#"[{"type":"text","text":"done"}]"#;

fn goose_call(id: &str, name: &str, arguments: &str) -> String {
    format!(
        r#"[{{"type":"toolRequest","id":"{id}","toolCall":{{"status":"success","value":{{"name":"{name}","arguments":{arguments}}}}}}}]"#
    )
}

fn goose_result(id: &str) -> String {
    format!(
        r#"[{{"type":"toolResponse","id":"{id}","toolResult":{{"status":"success","value":{{"content":[{{"type":"text","text":"ok"}}]}}}}}}]"#
    )
}

#[test]
fn the_usage_of_a_reply_of_goose_may_come_with_its_first_call() {
    let [a, b, c] = ["a", "b", "c"].map(|id| goose_call(id, "shell", "{}"));
    let [ra, rb, rc] = ["a", "b", "c"].map(goose_result);
    let sql = [
        GOOSE.to_owned(),
        goose(
            "first",
            &[
                GO,
                ("assistant", &a, 2, USAGE),
                ("user", &ra, 2, ""),
                ("assistant", &b, 2, ""),
                ("user", &rb, 2, ""),
                ("assistant", &c, 2, ""),
                ("user", &rc, 2, ""),
                ("assistant", DONE, 9, USAGE),
            ],
        ),
        // Another time, or another usage.
        goose(
            "others",
            &[
                GO,
                ("assistant", &a, 2, USAGE),
                ("user", &ra, 2, ""),
                ("assistant", &b, 2, USAGE),
                ("user", &rb, 2, ""),
                ("assistant", &c, 4, ""),
                ("user", &rc, 4, ""),
                ("assistant", DONE, 9, USAGE),
            ],
        ),
    ];
    let (temp, steps, skipped) = made("sessions.db", &sql.concat());
    assert_eq!(skipped, [""; 0]);
    assert_eq!(
        names(&steps),
        [("sessions.db/first", 2), ("sessions.db/others", 4)]
    );
    let run = read(&temp.path().join("sessions.db/first"));
    assert_eq!(
        (run.row.model_calls, run.row.tool_calls),
        (Some(2), Some(3))
    );
    assert_eq!(run.row.tokens, Some(12), "each usage counts once");
}

#[test]
fn goose_records_limits_and_errors() {
    const LIMITED: &str = r#""outputTokenLimitReached":true"#;
    let limited = format!("{LIMITED},{USAGE}");
    let half = r#"[{"type":"text","text":"half an ans"}]"#;
    let error = r#"[{"type":"error","kind":"authentication","message":"401 Unauthorized"}]"#;
    let turns = r#"[{"type":"text","text":"I've reached the maximum number of actions I can do without user input. Would you like me to continue?"}]"#;
    let call = goose_call("a", "shell", "{}");
    let result = goose_result("a");
    let begun = [
        GO,
        ("assistant", &*call, 2, USAGE),
        ("user", &*result, 2, ""),
    ];
    let with = |last| [&begun[..], &[last]].concat();
    let sql = [
        GOOSE.to_owned(),
        goose("text", &[GO, ("assistant", half, 2, &limited)]),
        goose(
            "marker",
            &[
                GO,
                ("assistant", half, 2, USAGE),
                ("assistant", "[]", 2, LIMITED),
            ],
        ),
        goose("error", &[GO, ("assistant", error, 2, "")]),
        goose("turns", &with(("assistant", turns, 4, ""))),
        goose("quoted", &with(("assistant", turns, 4, USAGE))),
        goose(
            "again",
            &[
                GO,
                ("assistant", error, 2, ""),
                GO,
                ("assistant", DONE, 3, USAGE),
            ],
        ),
    ];
    let (temp, steps, skipped) = made("sessions.db", &sql.concat());
    assert_eq!(skipped, [""; 0]);
    let of = |name: &str| {
        let run = read(&temp.path().join("sessions.db").join(name));
        assert_eq!(run.row.issues, (0, 0), "{name}");
        let verdict = &run.row.verdict;
        (
            steps[&format!("sessions.db/{name}")],
            verdict.sentence.to_string(),
            verdict.certainty.as_str(),
        )
    };
    let is = |steps, sentence: &str, certainty| (steps, sentence.to_owned(), certainty);
    let sentence =
        "Reply token limit reached in step 0 (inferred from \"outputTokenLimitReached\")";
    let cut = is(1, sentence, "inferred");
    assert_eq!(of("text"), cut);
    assert_eq!(of("marker"), cut);
    assert_eq!(
        of("error"),
        is(0, "Failed with an error: 401 Unauthorized", "recorded")
    );
    assert_eq!(
        of("turns"),
        is(1, "Turn limit reached after step 0", "recorded")
    );
    assert_eq!(
        of("quoted"),
        is(2, "No end recorded after step 1", "unknown"),
        "the model wrote it"
    );
    assert_eq!(
        of("again"),
        is(1, "No end recorded after step 0", "unknown")
    );
}

#[test]
fn contents_of_goose_that_cannot_be_read_are_reported_once_per_row() {
    let sql = [
        GOOSE.to_owned(),
        goose(
            "a",
            &[
                ("user", "not json at all", 0, ""),
                ("assistant", r#"{"a":1}"#, 1, ""),
                ("assistant", r#"[1,"x",{"type":"text","text":"a"}]"#, 2, ""),
                ("user", "[]", 3, ""),
                ("assistant", r#"[{"type":"new"}]"#, 4, ""),
            ],
        ),
    ];
    let (temp, _, _) = made("sessions.db", &sql.concat());
    let run = read(&temp.path().join("sessions.db/a"));
    let issues = run.index.issues().listed();
    let reasons: Vec<_> = issues.iter().map(|issue| &*issue.reason).collect();
    assert_eq!(
        reasons,
        [
            "content_json isn't a list",
            "content_json isn't a list",
            "content_json[0] isn't an object with a type"
        ]
    );
    assert!(issues.iter().all(|issue| issue.offset.is_some()));
}

#[test]
fn only_the_edit_tools_of_goose_itself_change_files() {
    let names = [
        ("write", r#"{"path":"/a","content":"a"}"#),
        ("developer__write", r#"{"path":"/b","content":"a"}"#),
        ("bucket__write", r#"{"path":"/c","content":"a"}"#),
        ("notes__edit", r#"{"path":"/d"}"#),
        ("notes__developer__edit", r#"{"path":"/e"}"#),
    ];
    let mut sql = GOOSE.to_owned();
    let calls = names.map(|(name, arguments)| goose_call(name, name, arguments));
    let results = names.map(|(name, _)| goose_result(name));
    let mut rows = vec![GO];
    for (at, (call, result)) in (1..).zip(calls.iter().zip(&results)) {
        rows.extend([
            ("assistant", &**call, at, USAGE),
            ("user", &**result, at, ""),
        ]);
    }
    sql.push_str(&goose("a", &rows));
    let (temp, ..) = made("sessions.db", &sql);
    let run = read(&temp.path().join("sessions.db/a"));
    assert_eq!(run.row.tool_calls, Some(5));
    assert_eq!(run.row.files_changed, Some(2));
}

#[test]
fn prompts_of_goose_are_counted_once() {
    const BY_USER: &str = r#""agentVisible":false"#;
    const BY_AGENT: &str = r#""userVisible":false"#;
    let said = |words: &str| format!(r#"[{{"type":"text","text":"{words}"}}]"#);
    let goal = said("/goal pass the tests");
    let set = said("Goal set");
    let work = said("Work toward this goal: pass the tests");
    let two = r#"[{"type":"text","text":"part one"},{"type":"text","text":"part two"}]"#;
    let joined = said(r"part one\npart two");
    let compacted = said("Your context was compacted.");
    let image = r#"[{"type":"image","data":"aaaa","mimeType":"image/png"}]"#;
    let sql = [
        GOOSE.to_owned(),
        goose(
            "goal",
            &[
                ("user", &goal, 0, BY_USER),
                ("assistant", &set, 0, BY_USER),
                ("user", &work, 0, BY_AGENT),
                ("assistant", DONE, 5, USAGE),
            ],
        ),
        goose(
            "copy",
            &[
                ("user", two, 0, BY_USER),
                ("assistant", &compacted, 4, BY_AGENT),
                ("user", &joined, 4, ""),
                ("assistant", DONE, 5, USAGE),
            ],
        ),
        goose(
            "image",
            &[("user", image, 0, ""), ("assistant", DONE, 5, USAGE)],
        ),
    ];
    let (temp, ..) = made("sessions.db", &sql.concat());
    let of = |name: &str| {
        let row = read(&temp.path().join("sessions.db").join(name)).row;
        (row.turns, row.steps, row.task.as_deref().map(str::to_owned))
    };
    let task = "Work toward this goal: pass the tests".to_owned();
    assert_eq!(of("goal"), (Some(1), 1, Some(task)));
    assert_eq!(
        of("copy"),
        (Some(1), 1, Some("part one\n\npart two".to_owned()))
    );
    assert_eq!(of("image"), (Some(1), 1, None));
}

#[test]
fn columns_named_like_row_ids_are_no_row_ids() {
    let messages = |columns: &str| {
        format!(
            "CREATE TABLE sessions(id TEXT, name TEXT);
             CREATE TABLE messages(id INTEGER, session_id TEXT, role TEXT, content_json TEXT, created_timestamp INTEGER, metadata_json TEXT, {columns});"
        )
    };
    let rows = goose("a", &[GO, ("assistant", DONE, 1, USAGE)]);
    for columns in [
        "RowID INTEGER DEFAULT 2",
        "rowid INTEGER DEFAULT 2, _rowid_ INTEGER DEFAULT 2",
        "rowid INTEGER AS (2), _rowid_ INTEGER AS (2) STORED",
    ] {
        let (temp, steps, skipped) = made("sessions.db", &(messages(columns) + &rows));
        assert_eq!(skipped, [""; 0], "{columns}");
        assert_eq!(names(&steps), [("sessions.db/a", 1)], "{columns}");
        let run = read(&temp.path().join("sessions.db/a"));
        assert_eq!(run.row.task.as_deref(), Some("go"), "{columns}");
    }
    let sql = messages("rowid, _rowid_, oid") + &rows;
    let (_, steps, skipped) = made("sessions.db", &sql);
    assert_eq!(names(&steps), []);
    assert_eq!(skipped.len(), 1);
    assert!(skipped[0].contains("hide its row ids"), "{skipped:?}");
}

#[test]
fn reading_changes_no_byte_and_blocks_no_writer() {
    let temp = copied("tools/opencode");
    let path = temp.path().join("opencode.db");
    let before = hashes(temp.path());
    let (steps, skipped) = read_all(temp.path());
    assert_eq!((steps.len(), skipped.len()), (4, 0));
    assert_eq!(hashes(temp.path()), before, "without a program");
    // A program that writes, with the index of its log in shared memory.
    let writer = Connection::open(&path).expect("opened");
    let add = |n: usize| {
        let data = r#"{"role":"assistant","finish":"stop","time":{"created":1,"completed":2}}"#;
        writer
            .execute(
                "INSERT INTO message VALUES(?1,'ses_stop0001',1777890000000,1777890000000,?2)",
                (format!("msg_9{n:03}"), data),
            )
            .expect("written");
        writer
            .execute("UPDATE event_sequence SET seq=seq+1", [])
            .expect("written");
    };
    let mut scanner = RootScanner::new(temp.path().to_owned());
    for n in 0..4 {
        add(n);
        let before = hashes(temp.path());
        let runs = scanner.scan().runs;
        let stopped = runs
            .iter()
            .find(|(key, _)| key.as_str().ends_with("ses_stop0001"));
        let index = read_index(stopped.expect("the run").1);
        assert_eq!(index.steps().len(), 2 + n, "the newest row is read");
        assert_eq!(hashes(temp.path()), before, "next to a program");
        // Another program can move all rows to the database in between.
        let busy: i64 = writer
            .query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get(0))
            .expect("done");
        assert_eq!(busy, 0);
        // Its log is empty now, and the program still writes to it.
        let before = hashes(temp.path());
        assert!(before.contains_key(&temp.path().join("opencode.db-wal")));
        assert_eq!(read_all(temp.path()).0.len(), 4);
        assert_eq!(hashes(temp.path()), before, "an empty log stays");
    }
    drop(writer);
    assert!(!temp.path().join("opencode.db-wal").exists());
    let before = hashes(temp.path());
    assert_eq!(read_all(temp.path()).0.len(), 4);
    assert_eq!(hashes(temp.path()), before, "no log is created");
}

#[test]
fn a_database_without_its_newest_rows_says_so() {
    let temp = copied("tools/opencode");
    fs::remove_file(temp.path().join("opencode.db-wal")).expect("removed");
    let before = hashes(temp.path());
    let (steps, skipped) = read_all(temp.path());
    assert_eq!(steps.len(), 0);
    assert_eq!(
        skipped,
        ["its newest rows are in opencode.db-wal, which is missing here: copy both files"]
    );
    assert_eq!(hashes(temp.path()), before);
}

fn made(name: &str, sql: &str) -> (tempfile::TempDir, BTreeMap<String, usize>, Vec<String>) {
    let temp = tempfile::tempdir().expect("a directory");
    let db = Connection::open(temp.path().join(name)).expect("created");
    db.execute_batch(sql).expect("written");
    drop(db);
    let (steps, skipped) = read_all(temp.path());
    (temp, steps, skipped)
}

#[test]
fn other_databases_and_other_versions() {
    let (_temp, steps, skipped) = made("state.db", "CREATE TABLE cookies(id)");
    assert_eq!(
        (steps.len(), &*skipped),
        (
            0,
            &["not a Hermes store (no table `sessions`)".to_owned()][..]
        )
    );
    let (_temp, _, skipped) = made(
        "opencode.db",
        "CREATE TABLE session(name); CREATE TABLE message(id, session_id)",
    );
    assert_eq!(
        skipped,
        ["not an OpenCode store (table `session` has no column `id`)"]
    );
    // A version with few columns and without events.
    let (_temp, steps, skipped) = made(
        "opencode-dev.db",
        r#"CREATE TABLE session(id TEXT); CREATE TABLE message(id TEXT, session_id TEXT, time_created, data TEXT);
        INSERT INTO session VALUES('a'), ('b/c'), (NULL);
        INSERT INTO message VALUES('m', 'a', 1, '{"role":"assistant","finish":"stop"}'), ('n', 'a', 2, 'no JSON')"#,
    );
    let expected = [
        ("opencode-dev.db/a", 1),
        ("opencode-dev.db/b_c~b9e2beb9a0cdd309", 0),
    ];
    assert_eq!(names(&steps), expected);
    assert_eq!(skipped, ["rows of runs without a usable id: 1"]);
}

#[test]
fn the_index_of_another_tool_is_no_store() {
    let sql = "CREATE TABLE sessions(session_id TEXT PRIMARY KEY, status TEXT, messages_path TEXT);
        CREATE TABLE schedules(schedule_id TEXT); INSERT INTO sessions VALUES('a', 'completed', '/a')";
    let (_temp, steps, skipped) = made("sessions.db", sql);
    assert_eq!(steps.len(), 0);
    assert_eq!(
        skipped,
        ["Cline's session index; the sessions are read from their own files"]
    );
    let (_temp, _, skipped) = made("sessions.db", "CREATE TABLE sessions(session_id, status)");
    assert_eq!(
        skipped,
        ["not a Goose store (table `sessions` has no column `id`)"]
    );
}

#[test]
fn only_tables_of_the_format_are_read() {
    // A view could read anything, and so could a table of another module.
    let hostile = [
        "CREATE TABLE credential(id, session_id, secret); INSERT INTO credential VALUES('a', 'a', 'not for board');
        CREATE VIEW session AS SELECT * FROM credential; CREATE TABLE message(id, session_id)",
        "CREATE TABLE session(id); CREATE TABLE credential(secret);
        CREATE VIEW message AS SELECT secret AS id, 'a' AS session_id FROM credential",
    ];
    for sql in hostile {
        let (_temp, steps, skipped) = made("kilo.db", sql);
        assert_eq!(steps.len(), 0, "{skipped:?}");
        assert!(skipped[0].starts_with("not a Kilo store"), "{skipped:?}");
    }
    // Nothing else of the file is in a document.
    let (temp, steps, _) = made(
        "kilo.db",
        r#"CREATE TABLE session(id TEXT, share_url TEXT, title TEXT); CREATE TABLE message(id TEXT, session_id TEXT, time_created);
        CREATE TABLE part(id TEXT, message_id TEXT, data TEXT, secret TEXT);
        INSERT INTO session VALUES('a', 'not for board', 'Title');
        INSERT INTO message VALUES('m', 'a', 1); INSERT INTO part VALUES('p', 'm', '{"type":"text"}', 'not for board')"#,
    );
    assert_eq!(names(&steps), [("kilo.db/a", 0)]);
    let run = read(&temp.path().join("kilo.db/a"));
    let text = run.dir.read_all(TraceFile::Events, 1 << 20).expect("text");
    let text = String::from_utf8(text).expect("text");
    assert!(
        text.contains("Title") && !text.contains("not for board"),
        "{text}"
    );
}

#[test]
fn values_and_lists_that_are_too_large_are_left_out() {
    let text = "x".repeat(5 << 20);
    let sql = format!(
        r#"CREATE TABLE session(id TEXT, title TEXT); CREATE TABLE message(id TEXT, session_id TEXT, time_created, data TEXT);
        CREATE TABLE part(id TEXT, message_id TEXT, data TEXT);
        INSERT INTO session VALUES('a', '{text}');
        INSERT INTO message VALUES('m', 'a', 1, '{{"role":"assistant","finish":"stop"}}'), ('n', 'a', 2, '{{"role":"assistant","finish":"stop"}}');
        INSERT INTO part VALUES('p', 'm', '{{"type":"text","text":"{text}"}}');
        WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 6000)
        INSERT INTO part SELECT 'p' || i, 'n', '{{"type":"text","text":"a"}}' FROM n"#
    );
    let (temp, steps, skipped) = made("opencode.db", &sql);
    assert_eq!(skipped, [""; 0]);
    assert_eq!(names(&steps), [("opencode.db/a", 2)]);
    let run = read(&temp.path().join("opencode.db/a"));
    assert_eq!(
        run.row.issues,
        (3, 3),
        "one for the session and each message"
    );
}

#[test]
fn damaged_databases_are_read_as_far_as_possible() {
    for (folder, name) in [
        ("tools/kilo", "kilo.db"),
        ("tools/hermes", "state.db"),
        ("tools/crush", "crush.db"),
        ("tools/goose", "sessions.db"),
        ("tools/opencode", "opencode.db-wal"),
    ] {
        let whole = fs::read(sample(folder).join(name)).expect("the sample");
        let temp = copied(folder);
        let path = temp.path().join(name);
        let look = |bytes: &[u8]| {
            fs::write(&path, bytes).expect("written");
            let before = hashes(temp.path());
            let (steps, skipped) = read_all(temp.path());
            assert_eq!(hashes(temp.path()), before);
            (steps.values().sum::<usize>(), skipped)
        };
        let all = look(&whole).0;
        assert!(all > 2);
        let stride = 1 + whole.len() / times(40, 800);
        for cut in (0..whole.len()).step_by(stride) {
            let (steps, skipped) = look(&whole[..cut]);
            assert!(steps <= all);
            // A file without a header isn't known as a database. A log that ends early is an older
            // state, in which there may be no session yet.
            let is_told = !skipped.is_empty() || cut < 16 || steps > 0 || name.ends_with("-wal");
            assert!(is_told, "{name} cut at {cut}");
        }
        for (at, byte) in (0..whole.len())
            .step_by(stride)
            .zip([0, 0xff, b'"', 1].iter().cycle())
        {
            let mut spoilt = whole.clone();
            spoilt[at] = *byte;
            look(&spoilt);
        }
        // A page that was written halfway.
        for page in (1024..whole.len().saturating_sub(1024)).step_by(1024 * 2) {
            let mut torn = whole.clone();
            torn[page..page + 512].fill(0);
            look(&torn);
        }
    }
}

#[test]
fn real_sessions_agree_with_what_is_known_of_them() {
    let is_store = |file: &str| file.ends_with(".db");
    let stopped = "the reply that the user stopped is recorded";
    let killed = "the usage of a reply is recorded when it has ended";
    let unknown = "a killed program doesn't record that its call was stopped";
    let opencode = [
        ("abort-in-stream-then-goes-on", "replies", 2, stopped),
        ("sigint-in-tool", "stopped calls", 0, unknown),
        ("sigint-in-tool", "input", 0, killed),
        ("sigint-in-tool", "output", 0, killed),
        ("sigint-in-tool", "tokens of the run", 0, killed),
    ];
    let kilo = [
        ("sigkill-in-tool", "input", 3_000, killed),
        ("sigkill-in-tool", "cached", 0, killed),
        ("sigkill-in-tool", "output", 20, killed),
        ("sigkill-in-tool", "tokens of the run", 3_020, killed),
    ];
    let opencode: Vec<_> = opencode.into_iter().chain(kilo).collect();
    compare("opencode", is_store, &FIELDS, &opencode);
    compare("kilo", is_store, &FIELDS, &kilo);
    let hermes = [
        ("sigint-in-tool", "stopped calls", 0, unknown),
        ("max-tokens", "input", 0, "it records no usage then"),
        ("max-tokens", "cached", 0, "it records no usage then"),
        ("max-tokens", "output", 0, "it records no usage then"),
        (
            "max-tokens",
            "tokens of the run",
            0,
            "it records no usage then",
        ),
    ];
    // Only the session has tokens.
    let of_steps = ["input", "cached", "output", "thought"];
    let fields = FIELDS.into_iter().filter(|field| !of_steps.contains(field));
    compare("hermes", is_store, &fields.collect::<Vec<_>>(), &hermes);
}

/// Any file name may be in the variable for a program's database. The program's own name is then that of
/// the runs.
#[test]
fn a_database_that_the_environment_names_may_have_any_name() {
    for (own, variable, program) in [
        ("opencode/opencode.db", "OPENCODE_DB", "OpenCode session"),
        ("kilo/kilo.db", "KILO_DB", "Kilo session"),
    ] {
        let temp = tempfile::tempdir().expect("a directory");
        let path = temp.path().join("work.sqlite");
        for ending in ["", "-wal"] {
            let from = sample("tools").join(format!("{own}{ending}"));
            if from.exists() {
                let to = temp.path().join(format!("work.sqlite{ending}"));
                fs::copy(from, to).expect("copied");
            }
        }
        let list = |root: &Path, named: Option<&Path>| {
            let mut command = std::process::Command::new(crate::board::BINARY);
            command.args(["table", "runs"]).arg(root);
            named.into_iter().for_each(|path| {
                command.env(variable, path);
            });
            let output = command.output().expect("started");
            String::from_utf8(output.stdout).expect("text")
        };
        assert_eq!(list(&path, None), "", "{own}");
        for root in [&*path, temp.path()] {
            let rows = list(root, Some(&path));
            assert!(
                rows.contains(&format!("\"source_type\":\"{program}\"")),
                "{rows}"
            );
            assert!(rows.contains("work.sqlite/"), "{rows}");
        }
    }
}
