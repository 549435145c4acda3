//! Tests sessions and streams of Pi.

use serde_json::{Value, json};
use trace_board::trace::RunDir;

use super::truth::{FIELDS, compare, files, sessions};
use super::{Read, damaged, read, sample};
use crate::cli::board;

const ID: &str = "019df000-0000-7000-8000-0000000000";

fn session(time: &str, n: &str) -> std::path::PathBuf {
    sample(&format!(
        "tools/pi/--home-me-ledger--/2026-05-04T{time}-000Z_{ID}{n}.jsonl"
    ))
}

#[test]
fn a_session_is_read_by_its_lines() {
    let run = read(&session("09-00-00", "e1"));
    let row = &run.row;
    assert_eq!(
        (row.steps, row.errors, row.events, row.issues),
        (4, 1, 17, (0, 0))
    );
    // 1,460, 1,820, 950, 960; of these 1,400 and 900 from the cache.
    assert_eq!((row.tokens, row.usage.cached), (Some(5_190), Some(2_300)));
    assert_eq!(row.tools, ["read", "bash", "edit", "write"]);
    assert_eq!(row.changed, ["files.split.py", "files.NOTES.md"]);
    assert_eq!(
        row.verdict.sentence,
        "Finished at step 3 (inferred from \"stop\")"
    );
    // The four replies, and 0.002 for the summary, by Pi's own prices.
    assert_eq!(row.cost_by_run_usd, Some(0.016));
    let manifest = run.index.manifest().get().expect("a manifest");
    assert_eq!(manifest.turns, Some(2));
    assert_eq!(manifest.titles, ["Cents of a split".into()]);
    assert_eq!(
        (manifest.run_id.as_deref(), manifest.project.as_deref()),
        (Some(&*format!("{ID}e1")), Some("/home/me/ledger"))
    );
    let tokens: Vec<_> = manifest.compactions.iter().map(|at| at.tokens).collect();
    assert_eq!(tokens, [Some(1_820)]);
    assert_eq!(
        manifest.notes,
        ["540 more tokens went to requests outside the steps.".into()]
    );
    let step = run.step(0);
    assert_eq!(step["decision"]["rationale"], "Read first.");
    let failed = &step["action_results"][1];
    assert_eq!(
        (&failed["status"], &failed["returncode"]),
        (&"error".into(), &1.into())
    );
    let edit = &run.step(1)["state_diff"]["files.split.py"];
    assert!(
        edit["diff"]
            .as_str()
            .expect("a patch")
            .contains("\n+    share, rest")
    );
    let written = &run.step(2)["state_diff"]["files.NOTES.md"];
    assert_eq!(written["after"], "No cent is lost.\n");
}

#[test]
fn a_fork_counts_its_own_lines() {
    let run = read(&session("09-10-00", "e2"));
    let row = &run.row;
    // The first ten entries are those of the session that it was forked from.
    assert_eq!((row.steps, row.tokens), (1, Some(2_020)));
    assert_eq!(row.cost_by_run_usd, Some(0.002));
    let copied = run
        .index
        .manifest()
        .get()
        .and_then(|run| run.copied.clone());
    let copied = copied.expect("copies");
    assert_eq!(
        (copied.records, copied.from.as_deref()),
        (10, Some(&*format!("{ID}e1")))
    );
    assert_eq!(row.task.as_deref(), Some("Use a loop instead."));
    assert!(
        row.verdict
            .sentence
            .starts_with("API error after step 0: 500"),
        "{}",
        row.verdict.sentence
    );
    assert_eq!(row.verdict.certainty.as_str(), "recorded");
}

#[test]
fn steps_before_a_rewind_are_abandoned() {
    let run = read(&session("09-20-00", "e3"));
    let left: Vec<bool> = run
        .index
        .steps()
        .iter()
        .map(|step| step.is_abandoned)
        .collect();
    assert_eq!(left, [true, false]);
    assert!(
        run.row.verdict.sentence.starts_with("Cancelled in step 1 "),
        "{}",
        run.row.verdict.sentence
    );
    assert_eq!(run.step(1)["action_results"][0]["status"], "cancelled");
    assert_eq!(
        (run.row.tool_calls, run.row.tool_errors),
        (Some(1), Some(0))
    );
}

#[test]
fn a_stream_counts_each_message_once() {
    let run = read(&sample("tools/pi-stream/answered.jsonl"));
    let row = &run.row;
    // 840 and 912.
    assert_eq!(
        (row.steps, row.errors, row.tokens, row.issues),
        (2, 1, Some(1_752), (0, 0))
    );
    assert_eq!(
        (&*row.verdict.sentence, row.verdict.certainty.as_str()),
        ("Answered at step 1", "recorded")
    );
    let cut = read(&sample("tools/pi-stream/cut.jsonl"));
    assert_eq!(
        (&*cut.row.verdict.sentence, cut.row.tokens),
        ("Reply token limit reached in step 0", Some(864))
    );
}

#[test]
fn a_usage_of_zeros_and_a_reply_without_text() {
    let message = |n: u32, message: serde_json::Value| {
        let time = format!("2026-05-04T09:00:0{n}.000Z");
        serde_json::json!({"type": "message", "id": format!("m{n}"), "timestamp": time, "message": message})
    };
    let usage = |input: u64, usd: f64| serde_json::json!({"input": input, "output": input / 10, "cacheRead": 0, "cacheWrite": 0, "cost": {"total": usd}});
    let asked = "<system-reminder>mine</system-reminder> Go.";
    let lines = [
        serde_json::json!({"type": "session", "version": 3, "id": "s", "timestamp": "2026-05-04T09:00:00.000Z", "cwd": "/p"}),
        message(1, serde_json::json!({"role": "user", "content": asked})),
        message(
            2,
            serde_json::json!({"role": "assistant", "model": "m", "stopReason": "toolUse", "usage": usage(0, 0.0),
            "content": [{"type": "toolCall", "id": "a", "name": "ls", "arguments": {}}]}),
        ),
        message(
            3,
            serde_json::json!({"role": "toolResult", "toolCallId": "a", "toolName": "ls", "isError": false, "content": []}),
        ),
        message(
            4,
            serde_json::json!({"role": "assistant", "model": "m", "stopReason": "stop", "usage": usage(100, 0.5),
            "content": [{"type": "thinking", "thinking": "Nothing to say."}]}),
        ),
    ];
    let temp = tempfile::tempdir().expect("a directory");
    let path = temp.path().join("2026-05-04_s.jsonl");
    let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
    std::fs::write(&path, text).expect("written");
    let run = read(&path);
    assert_eq!(
        (run.row.tokens, run.row.steps_without_tokens),
        (Some(110), 1)
    );
    assert_eq!(
        (run.row.cost_usd, run.row.cost_estimated_usd()),
        (None, None)
    );
    assert_eq!(
        &*run.row.verdict.sentence,
        "Turn ended without an answer after step 1 (inferred from \"stop\")"
    );
    assert_eq!(run.row.task.as_deref(), Some(asked), "Pi adds no reminders");
}

#[test]
fn a_damaged_session_loses_only_what_is_damaged() {
    damaged(&session("09-00-00", "e1"));
    damaged(&session("09-10-00", "e2"));
    damaged(&session("09-20-00", "e3"));
    damaged(&sample("tools/pi-stream/answered.jsonl"));
}

/// A reply that the user stopped is in the file, with the tokens until then. A call that was running
/// when the program was interrupted has no result.
const KNOWN: [(&str, &str, u64, &str); 5] = [
    ("abort-in-stream-then-goes-on", "replies", 2, "stopped"),
    ("abort-in-stream-then-goes-on", "input", 3_001, "stopped"),
    ("abort-in-stream-then-goes-on", "output", 7, "stopped"),
    (
        "abort-in-stream-then-goes-on",
        "tokens of the run",
        3_008,
        "stopped",
    ),
    ("sigint-in-tool", "stopped calls", 0, "not recorded"),
];

#[test]
fn real_sessions_agree_with_what_is_known_of_them() {
    let is_session = |file: &str| file.starts_with("sessions/") && file.ends_with(".jsonl");
    compare("pi", is_session, &FIELDS, &KNOWN);
}

#[test]
fn real_streams_agree_with_their_sessions() {
    for dir in sessions("pi") {
        for stream in files(&dir, |file| file.starts_with("stream")) {
            // A program that is driven over RPC prints no header.
            if RunDir::of_file(&stream).expect("readable").is_none() {
                continue;
            }
            let printed = read(&stream);
            let id = printed.row.run_id.clone().expect("an id");
            let session = files(&dir, |file| file.starts_with("sessions/"))
                .into_iter()
                .find(|file| file.to_string_lossy().contains(&*id))
                .expect("its session");
            let kept = read(&session);
            let of = |run: &Read| {
                let row = &run.row;
                let calls = (row.tool_calls, row.tool_errors, row.changed.clone());
                (
                    row.steps,
                    row.tokens,
                    *row.usage,
                    calls,
                    row.verdict.outcome,
                )
            };
            assert_eq!(of(&printed), of(&kept), "{}", stream.display());
        }
    }
}

/// Since version 1.6, a tool may ask a model itself, and a provider may hand out a reply later. The
/// message of a failed request has the provider's error as JSON.
#[test]
fn requests_by_tools_deferred_replies_and_errors_of_a_provider() {
    let message = |n: u32, message: serde_json::Value| {
        let time = format!("2026-05-04T09:00:0{n}.000Z");
        serde_json::json!({"type": "message", "id": format!("m{n}"), "timestamp": time, "message": message})
    };
    let usage = |input: u64, usd: f64| serde_json::json!({"input": input, "output": 10, "cacheRead": 0, "cacheWrite": 0, "cost": {"total": usd}});
    let lines = [
        serde_json::json!({"type": "session", "version": 3, "id": "s", "timestamp": "2026-05-04T09:00:00.000Z", "cwd": "/p"}),
        message(1, serde_json::json!({"role": "user", "content": "Go."})),
        message(
            2,
            serde_json::json!({"role": "assistant", "model": "m", "stopReason": "toolUse", "usage": usage(90, 0.5),
            "content": [{"type": "toolCall", "id": "a", "name": "ask", "arguments": {}}]}),
        ),
        message(
            3,
            serde_json::json!({"role": "toolResult", "toolCallId": "a", "toolName": "ask", "isError": false,
            "content": [{"type": "text", "text": "Yes."}], "usage": usage(40, 0.25)}),
        ),
        message(
            4,
            serde_json::json!({"role": "assistant", "model": "m", "stopReason": "deferred", "usage": usage(100, 0.5),
            "content": [{"type": "text", "text": "Later."}]}),
        ),
    ];
    let failed = message(
        5,
        serde_json::json!({"role": "assistant", "model": "m", "stopReason": "error", "content": [],
        "errorMessage": "500 {\"type\":\"error\",\"error\":{\"type\":\"api_error\",\"message\":\"Internal server error\"}}"}),
    );
    let temp = tempfile::tempdir().expect("a directory");
    let path = temp.path().join("2026-05-04_s.jsonl");
    let written = |lines: &[serde_json::Value]| {
        let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
        std::fs::write(&path, text).expect("written");
        read(&path)
    };
    let run = written(&lines);
    assert_eq!((run.row.steps, run.row.tokens), (2, Some(210)));
    assert_eq!(run.row.verdict.outcome.as_str(), "unknown");
    let manifest = run.index.manifest().get().expect("a manifest");
    assert_eq!(manifest.cost_usd, Some(1.25));
    assert_eq!(
        manifest.notes,
        ["50 more tokens went to requests outside the steps.".into()]
    );
    let run = written(&[&lines[..], &[failed]].concat());
    assert_eq!(
        &*run.row.verdict.sentence,
        "API error after step 1: 500 Internal server error"
    );
}

#[test]
fn the_calls_of_a_script_count_as_what_it_did() {
    let message = |n: u32, message: Value| {
        let time = format!("2026-05-04T09:00:0{n}.000Z");
        json!({"type": "message", "id": format!("m{n}"), "timestamp": time, "message": message})
    };
    let script = |id: &str| json!({"type": "toolCall", "id": id, "name": "codemode", "arguments": {"code": "await tools.bash({command:'python3 test.py'})"}});
    let reply = |calls: Value| json!({"role": "assistant", "model": "m", "stopReason": "toolUse", "content": calls});
    let result = |id: &str, failed: bool, calls: Value| json!({"role": "toolResult", "toolCallId": id, "toolName": "codemode", "isError": failed, "durationMs": 393, "content": [{"type": "text", "text": "Script completed"}], "details": {"calls": calls}});
    let tests = json!({"id": "a/1", "name": "bash", "args": "{\"command\":\"python3 test.py\"}", "status": "error", "durationMs": 126.9, "error": "AssertionError: -1\n\n\nCommand exited with code 1"});
    let edit = json!({"id": "b/1", "name": "edit", "args": "{\"path\":\"calc.py\",\"edits\":[{\"oldText\":\"a - b\",\"newText\":\"a + b\"}]}", "status": "ok"});
    let write = json!({"id": "b/2", "name": "write", "args": "{\"path\":\"NOTES.md\",\"content\":\"x\\n\"}", "status": "ok"});
    let stopped = json!({"id": "d/1", "name": "edit", "args": "{\"path\":\"other.py\"}", "status": "error", "error": "Not found"});
    let lines = [
        json!({"type": "session", "version": 3, "id": "s", "timestamp": "2026-05-04T09:00:00.000Z", "cwd": "/home/dev/project"}),
        message(1, json!({"role": "user", "content": "Fix add."})),
        // Two scripts in one reply: each has its own calls.
        message(2, reply(json!([script("a"), script("b")]))),
        message(3, result("a", false, json!([tests]))),
        message(4, result("b", false, json!([edit, write]))),
        message(5, reply(json!([script("c")]))),
        message(6, result("c", true, json!([]))),
        message(7, reply(json!([script("d")]))),
        message(8, result("d", false, json!([stopped]))),
    ];
    let temp = tempfile::tempdir().expect("a directory");
    let path = temp.path().join("session.jsonl");
    std::fs::write(&path, lines.map(|line| format!("{line}\n")).concat()).expect("written");
    let run = read(&path);
    assert_eq!(
        (run.row.tool_calls, run.row.tool_errors),
        (Some(4), Some(3))
    );
    assert_eq!(run.row.changed, ["files.calc.py", "files.NOTES.md"]);
    let step = run.step(0);
    let results = &step["action_results"];
    assert_eq!(
        (&results[0]["status"], &results[0]["returncode"]),
        (&"error".into(), &1.into())
    );
    assert_eq!(results[1]["status"], "success");
    let edits = board(&["edits", &temp.path().display().to_string()]).stdout;
    assert!(edits.contains("+1 −1"), "{edits}");
    let shown = board(&["show", &path.display().to_string()]).stdout;
    assert!(shown.contains("codemode python3 test.py"), "{shown}");
    let change = &step["state_diff"]["files.calc.py"];
    assert_eq!(change["diff"], "@@ -?,1 +?,1 @@\n-a - b\n+a + b\n");
}

#[test]
fn a_reply_that_broke_off_is_a_failed_step_unless_it_was_interrupted() {
    let message = |n: u32, message: Value| {
        let time = format!("2026-05-04T09:00:0{n}.000Z");
        json!({"type": "message", "id": format!("m{n}"), "timestamp": time, "message": message})
    };
    let reply = |stop: &str, error: &str, content: Value| json!({"role": "assistant", "model": "m", "stopReason": stop, "errorMessage": error, "content": content});
    let text = |words: &str| json!([{"type": "text", "text": words}]);
    let call = json!([{"type": "toolCall", "id": "c", "name": "bash", "arguments": {}}]);
    let lines = [
        json!({"type": "session", "version": 3, "id": "s", "timestamp": "2026-05-04T09:00:00.000Z", "cwd": "/p"}),
        message(1, json!({"role": "user", "content": "Go."})),
        message(2, reply("error", "Stream ended", text("This breaks o"))),
        message(3, reply("error", "Stream ended", call)),
        message(
            4,
            reply("aborted", "Request was aborted", text("So does th")),
        ),
        message(5, reply("stop", "", text("Whole."))),
    ];
    let temp = tempfile::tempdir().expect("a directory");
    let path = temp.path().join("session.jsonl");
    std::fs::write(&path, lines.map(|line| format!("{line}\n")).concat()).expect("written");
    let run = read(&path);
    let errors: Vec<Option<&str>> = run
        .index
        .steps()
        .iter()
        .map(|step| step.error.as_deref())
        .collect();
    let cut = Some("incomplete reply: Stream ended");
    let stopped = Some("incomplete reply: Request was aborted");
    assert_eq!(errors, [cut, cut, stopped, None]);
    // The user stopped the third one.
    assert_eq!(run.row.errors, 2);
    let failures: Vec<_> = run.row.failures.iter().collect();
    assert_eq!(failures.len(), 1, "{failures:?}");
}

#[test]
fn a_fork_names_the_session_that_it_was_forked_from() {
    let of = |dir: &std::path::Path, n: &str| {
        let said = board(&["list", &dir.display().to_string(), "--json"]);
        assert_eq!(said.code, 0, "{}", said.stderr);
        let list: Value = serde_json::from_str(&said.stdout).expect("JSON");
        let id = format!("{ID}{n}");
        let runs = list["runs"].as_array().expect("runs").clone();
        let run = runs.into_iter().find(|run| run["run_id"] == *id);
        run.expect("the run")
    };
    let dir = sample("tools/pi/--home-me-ledger--");
    let (fork, original) = (of(&dir, "e2"), of(&dir, "e1"));
    assert_eq!(fork["copied_from"], original["key"]);
    assert_eq!(
        (&fork["copied_steps"], &fork["steps"]),
        (&0.into(), &1.into())
    );
    assert_eq!(original["copied_from"], Value::Null);
    // Without the original, its id is known.
    let temp = tempfile::tempdir().expect("a directory");
    let path = session("09-10-00", "e2");
    std::fs::copy(&path, temp.path().join(path.file_name().expect("a name"))).expect("copied");
    assert_eq!(of(temp.path(), "e2")["copied_from"], format!("{ID}e1"));
}
