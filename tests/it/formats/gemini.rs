//! Tests sessions and streams of Gemini CLI.

use std::path::Path;
use std::sync::Arc;

use serde_json::{Value, json};
use trace_board::analysis::copies::{marks, relate};

use super::truth::{FIELDS, compare};
use super::{Read, damaged, read, sample};
use crate::cli::board;

const PARENT: &str = "3b0c1d2e-0000-4000-8000-0000000000c1";

#[test]
fn a_reply_that_is_written_again_replaces_the_first() {
    let run = read(&sample(
        "tools/gemini/chats/session-2026-05-04T09-00-3b0c1d2e.jsonl",
    ));
    let row = &run.row;
    assert_eq!((row.steps, row.errors, row.issues), (3, 2, (0, 0)));
    // 9,105, 9,340, 10,044.
    assert_eq!(row.tokens, Some(28_489));
    assert_eq!(
        row.tools,
        [
            "run_shell_command",
            "write_todos",
            "replace",
            "invoke_agent"
        ]
    );
    assert_eq!(row.changed, ["todos", "files./home/me/ledger/split.py"]);
    assert_eq!(
        row.task.as_deref(),
        Some("Splitting 100 by 3 loses a cent.")
    );
    let untold = "Gemini CLI's session files don't record how they ended";
    assert_eq!(row.verdict.sentence, "No end recorded after step 2");
    assert!(
        row.verdict.second.starts_with(untold),
        "{}",
        row.verdict.second
    );
    assert_eq!(
        (
            row.verdict.certainty.as_str(),
            row.verdict.mark.word(),
            &row.answer
        ),
        ("unknown", "unknown", &None)
    );
    let manifest = run.index.manifest().get().expect("a manifest");
    assert_eq!((manifest.turns, manifest.children), (Some(1), Some(1)));
    let step = run.step(0);
    assert_eq!(step["model_response"]["text"], "I read it.", "once");
    assert_eq!(step["decision"]["rationale"], "Reading: Look first.");
    assert_eq!(
        (
            &step["context"]["output_tokens"],
            &step["context"]["reasoning_tokens"]
        ),
        (&105.into(), &45.into())
    );
    let shell = &step["action_results"][0];
    assert_eq!(
        (&shell["status"], &shell["returncode"]),
        (&"error".into(), &1.into()),
        "the tool counts it as a success"
    );
    let edit = run.step(1);
    assert_eq!(
        edit["state_diff"]["files./home/me/ledger/split.py"]["after"],
        "return divmod(a, b)\n"
    );
    assert_eq!(edit["action_results"][2]["error"], "no such file");
}

#[test]
fn a_child_is_known_by_its_directory() {
    let run = read(&sample(&format!(
        "tools/gemini/chats/{PARENT}/3b0c1d2e-0000-4000-8000-0000000000c2.jsonl"
    )));
    assert_eq!(
        (run.row.steps, run.row.tokens, run.row.parent.as_deref()),
        (1, Some(3_029), Some(PARENT))
    );
    let sentence = "Failed with an error after step 0: [API Error: the service is unavailable]";
    assert_eq!(
        (
            &*run.row.verdict.sentence,
            run.row.verdict.certainty.as_str()
        ),
        (sentence, "recorded")
    );
}

#[test]
fn a_session_of_a_version_that_wrote_one_document_is_the_same() {
    let lines = std::fs::read_to_string(sample(
        "tools/gemini/chats/session-2026-05-04T09-00-3b0c1d2e.jsonl",
    ))
    .unwrap();
    let lines = lines
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    let mut document =
        serde_json::json!({"sessionId": PARENT, "projectHash": "00ff", "messages": []});
    for line in lines.filter(|line| line["id"].is_string()) {
        let messages = document["messages"].as_array_mut().unwrap();
        // In this format, a reply occurs once.
        messages.retain(|known| known["id"] != line["id"]);
        messages.push(line);
    }
    let temp = tempfile::tempdir().unwrap();
    let path = temp.path().join("session-2026-05-04T09-00-3b0c1d2e.json");
    // As the program writes it, with the session's fields first.
    let messages = document["messages"].to_string();
    let text = format!(
        "{{\n\"sessionId\": \"{PARENT}\",\n\"projectHash\": \"00ff\",\n\"messages\": {messages}\n}}"
    );
    std::fs::write(&path, text).unwrap();
    let run = read(&path);
    let of_lines = read(&sample(
        "tools/gemini/chats/session-2026-05-04T09-00-3b0c1d2e.jsonl",
    ));
    assert_eq!(
        run.index
            .manifest()
            .get()
            .and_then(|manifest| manifest.run_id.clone())
            .as_deref(),
        Some(PARENT)
    );
    assert_eq!(
        (run.row.steps, run.row.tokens, run.row.errors),
        (of_lines.row.steps, of_lines.row.tokens, of_lines.row.errors)
    );
    assert_eq!(
        (&run.row.verdict.sentence, &run.row.task),
        (&of_lines.row.verdict.sentence, &of_lines.row.task)
    );
    (0..3).for_each(|n| assert_eq!(run.step(n), of_lines.step(n)));
}

/// A session whose file has lost its header and everything before a list of its messages.
#[test]
fn replies_that_stand_in_a_list_of_messages_alone_are_steps() {
    let lines = std::fs::read_to_string(sample(
        "tools/gemini/chats/session-2026-05-04T09-00-3b0c1d2e.jsonl",
    ))
    .unwrap();
    let lines: Vec<serde_json::Value> = lines
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let mut messages: Vec<&serde_json::Value> = Vec::new();
    for line in lines.iter().filter(|line| line["id"].is_string()) {
        messages.retain(|known| known["id"] != line["id"]);
        messages.push(line);
    }
    let (listed, last) = messages.split_at(messages.len() - 1);
    assert_eq!(last[0]["type"], "gemini");
    let text = format!(
        "{}\n{}\n",
        serde_json::json!({"$set": {"messages": listed}}),
        last[0]
    );
    let temp = tempfile::tempdir().unwrap();
    let path = temp.path().join("session-2026-05-04T09-00-3b0c1d2e.jsonl");
    std::fs::write(&path, &text).unwrap();
    let (run, whole) = (
        read(&path),
        read(&sample(
            "tools/gemini/chats/session-2026-05-04T09-00-3b0c1d2e.jsonl",
        )),
    );
    let row = |run: &super::Read| {
        (
            run.row.steps,
            run.row.tokens,
            run.row.errors,
            run.row.task.clone(),
            run.row.turns,
            run.row.children,
        )
    };
    assert_eq!(row(&run), row(&whole));
    (0..whole.row.steps).for_each(|n| assert_eq!(run.step(n), whole.step(n), "step {n}"));
    let listed = run.index.issues().listed();
    let issues: Vec<_> = listed
        .iter()
        .map(|issue| (issue.line, &*issue.reason))
        .collect();
    assert_eq!(
        issues,
        [(Some(1), "the file doesn't begin with a session header")]
    );
    let second = run.index.steps().get(1).unwrap().span;
    let at = usize::try_from(second.offset).unwrap();
    assert!(
        text[at..].starts_with(&format!("{{\"content\":{}", messages[3]["content"])),
        "the offset of the reply"
    );
    // A list that omits replies isn't the session's full history, so no steps are created from it.
    let header = serde_json::json!({"sessionId": "a", "projectHash": "b"});
    std::fs::write(
        &path,
        format!("{header}\n{}\n{}", last[0], text.lines().next().unwrap()),
    )
    .unwrap();
    let run = read(&path);
    let reasons: Vec<_> = run
        .index
        .issues()
        .listed()
        .iter()
        .map(|issue| &*issue.reason)
        .collect();
    assert_eq!(run.row.steps, 1);
    assert_eq!(
        reasons,
        ["2 replies are only in a list of messages, so they aren't counted as steps"]
    );
    let one = r#"{"$set":{"messages":[{"id":"g","timestamp":"2026-05-04T09:00:00Z","type":"gemini","content":"Hi"}]}}"#;
    std::fs::write(&path, format!("{one}\n")).unwrap();
    damaged(&path);
}

#[test]
fn pieces_of_a_text_are_one_text() {
    let run = read(&sample("tools/gemini-stream/answered.jsonl"));
    let row = &run.row;
    assert_eq!(
        (row.steps, row.errors, row.tokens, row.issues),
        (2, 1, Some(19_145), (0, 0))
    );
    assert_eq!(
        (&*row.verdict.sentence, row.verdict.certainty.as_str()),
        ("Answered at step 1", "recorded")
    );
    assert_eq!(run.step(0)["model_response"]["text"], "I read it.");
    assert_eq!(run.step(0)["action_results"][1]["error"], "no such file");
    assert_eq!(row.answer.as_deref(), Some("It spreads the rest now."));
    let limit = read(&sample("tools/gemini-stream/turn-limit.jsonl"));
    let sentence = "Turn limit reached after step 0: Reached max session turns for this session.";
    assert_eq!(
        limit.row.verdict.sentence.trim_end_matches('.'),
        sentence.trim_end_matches('.')
    );
    let cut = read(&sample("tools/gemini-stream/cut.jsonl"));
    assert_eq!(
        (cut.row.verdict.mark.word(), cut.row.steps, cut.row.tokens),
        ("unknown", 1, None)
    );
}

#[test]
fn a_damaged_session_loses_only_what_is_damaged() {
    damaged(&sample(
        "tools/gemini/chats/session-2026-05-04T10-00-cut.jsonl",
    ));
    damaged(&sample("tools/gemini-stream/cut.jsonl"));
}

#[test]
fn a_sub_agent_that_handed_its_answer_over_is_done() {
    let temp = tempfile::tempdir().expect("a directory");
    let file = temp.path().join("child.jsonl");
    let call = r#"{"id":"c","name":"complete_task","args":{},"result":[{"functionResponse":{"response":{"output":"ok"}}}],"status":"success"}"#;
    let lines = format!(
        "{{\"sessionId\":\"a\",\"projectHash\":\"b\",\"kind\":\"subagent\"}}\n\
         {{\"id\":\"g\",\"type\":\"gemini\",\"content\":\"\",\"toolCalls\":[{call}]}}\n"
    );
    std::fs::write(&file, lines).expect("written");
    assert_eq!(
        read(&file).row.verdict.sentence,
        "Finished at step 0 (inferred from \"complete_task\")"
    );
}

#[test]
fn real_sessions_agree_with_what_is_known_of_them() {
    let is_session = |file: &str| file.contains("/chats/") && file.ends_with(".jsonl");
    let lost = "a call is written when it is done";
    let known = &[
        ("sigkill-in-tool", "calls", 1, lost),
        ("sigkill-in-tool", "calls without an answer", 0, lost),
    ];
    compare("gemini", is_session, &FIELDS, known);
}

#[test]
fn real_streams_agree_with_what_is_known_of_them() {
    let own = "replies of sub-agents aren't printed";
    let known = &[
        (
            "sigint-in-stream",
            "replies",
            2,
            "the beginning of a reply is printed",
        ),
        ("sigint-in-stream", "tokens of the run", 0, "no result"),
        ("sigkill-in-tool", "tokens of the run", 0, "no result"),
        ("subagent", "replies", 3, own),
        ("subagent", "calls", 2, own),
    ];
    // A failed command counts as a success here, and nothing else records the failure.
    let fields = [
        "replies",
        "calls",
        "stopped calls",
        "calls without an answer",
        "tokens of the run",
    ];
    compare("gemini", |file| file == "stream.jsonl", &fields, known);
    compare(
        "gemini",
        |file| file == "stream.jsonl",
        &["replies of the run", "calls of the run"],
        known,
    );
}

/// Returns the result of a command with this output for the model and for the user.
fn ran(output: &str, display: &str) -> serde_json::Value {
    let call = serde_json::json!({
        "id": "c", "name": "run_shell_command", "args": {}, "status": "success", "resultDisplay": display,
        "result": [{"functionResponse": {"response": {"output": output}}}],
    });
    let lines = [
        serde_json::json!({"sessionId": "a", "projectHash": "b"}),
        serde_json::json!({"id": "g", "type": "gemini", "content": "", "toolCalls": [call]}),
    ];
    let temp = tempfile::tempdir().expect("a directory");
    let file = temp.path().join("session.jsonl");
    std::fs::write(&file, lines.map(|line| format!("{line}\n")).concat()).expect("written");
    read(&file).step(0)["action_results"][0].clone()
}

#[test]
fn a_command_that_prints_an_exit_code_has_not_failed() {
    let exit = |output: &str, display: &str| ran(output, display)["returncode"].clone();
    let behind = "Process Group PGID: 42\n</untrusted_context>";
    assert_eq!(
        exit(&format!("Output: FAILED\nExit Code: 1\n{behind}"), "FAILED"),
        1
    );
    assert_eq!(
        exit(&format!("Output: (empty)\nExit Code: 2\n{behind}"), ""),
        2
    );
    assert_eq!(
        exit(
            &format!("Output: a\nExit Code: 2\nExit Code: 1\n{behind}"),
            "a\nExit Code: 2"
        ),
        1
    );
    let none = serde_json::Value::Null;
    assert_eq!(
        exit(
            &format!("Output: a\nExit Code: 1\nthat was it\n{behind}"),
            "a\nExit Code: 1\nthat was it"
        ),
        none
    );
    assert_eq!(
        exit(
            &format!("Output: a\nExit Code: 1\n{behind}"),
            "a\nExit Code: 1"
        ),
        none
    );
    assert_eq!(
        exit(&format!("Output: Exit Code: 1\n{behind}"), "Exit Code: 1"),
        none
    );
}

#[test]
fn a_failed_command_has_its_output_as_error() {
    let result = |output: &str, display: &str| {
        let output = format!(
            "<untrusted_context>\nOutput: {output}\nProcess Group PGID: 42\n</untrusted_context>"
        );
        let result = ran(&output, display);
        let words = |key: &str| result[key].as_str().unwrap_or_default().to_owned();
        (
            words("status"),
            words("error"),
            result["returncode"].as_i64(),
        )
    };
    let failed = |words: &str, code| ("error".to_owned(), words.to_owned(), code);
    assert_eq!(result("two\nExit Code: 1", "two"), failed("two", Some(1)));
    // What a command prints may look like the end of a line of the program.
    assert_eq!(result("1\nExit Code: 1", "1"), failed("1", Some(1)));
    let silent = failed("exit code 4, no output", Some(4));
    assert_eq!(
        result("(empty)\nExit Code: 4", "Command exited with code: 4"),
        silent
    );
    let killed = failed("ended by signal 9, no output", None);
    assert_eq!(
        result("(empty)\nSignal: 9", "Command terminated by signal: 9"),
        killed
    );
    let (status, error, code) = result("Signal: 9", "Signal: 9");
    assert_eq!((&*status, &*error, code), ("success", "", None));
}

#[test]
fn whether_a_command_failed_is_not_known_from_a_stream() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("stream.jsonl");
    let text = std::fs::read_to_string(sample("tools/gemini-stream/answered.jsonl")).unwrap();
    assert_eq!(
        read(&sample("tools/gemini-stream/answered.jsonl"))
            .row
            .tool_errors,
        Some(1)
    );
    let id = "\"tool_id\":\"run_shell_command__run_shell_command_1_0\"";
    let text = text
        .replace("\"read_file\"", "\"run_shell_command\"")
        .replace("\"tool_id\":\"a\"", id);
    std::fs::write(&path, text).unwrap();
    let run = read(&path);
    assert_eq!(
        (run.row.tool_errors, run.row.errors, run.row.issues),
        (None, 1, (0, 0))
    );
    let step = run.step(0);
    assert_eq!(step["action_results"][0]["output"], "return a // b");
    assert_ne!(step["action_results"][0]["status"], "success");
}

/// Writes a session with this header and these messages, one a second, and reads it.
fn written(file: &Path, kind: &str, messages: &[Value]) -> Read {
    let mut text = json!({"sessionId": "a", "projectHash": "b", "kind": kind}).to_string() + "\n";
    for (n, message) in messages.iter().enumerate() {
        let mut line = json!({"id": format!("m{n}"), "timestamp": time(n)});
        let object = line.as_object_mut().expect("an object");
        object.extend(message.as_object().expect("an object").clone());
        text += &format!("{line}\n");
    }
    std::fs::write(file, text).expect("written");
    read(file)
}

fn time(second: usize) -> String {
    format!("2026-05-04T09:00:{second:02}.000Z")
}

fn said(words: &str) -> Value {
    json!({"type": "user", "content": [{"text": words}]})
}

fn replied(words: &str) -> Value {
    let tokens = json!({"input": 100, "output": 10, "cached": 0, "thoughts": 0, "total": 110});
    json!({"type": "gemini", "content": words, "thoughts": [], "tokens": tokens, "model": "gemini-2.5-pro"})
}

/// Returns a call of a command with this output that finished at this second.
fn called(id: &str, second: usize, output: &str) -> Value {
    let given = json!({"functionResponse": {"id": id, "response": {"output": output}}});
    json!({"id": id, "name": "run_shell_command", "args": {"command": id}, "status": "success",
        "timestamp": time(second), "result": [given]})
}

#[test]
fn a_record_with_the_calls_of_several_replies_belongs_to_each_of_them() {
    let temp = tempfile::tempdir().expect("a directory");
    let file = temp.path().join("session.jsonl");
    let cancelled = "<untrusted_context>\nCommand was cancelled by user before it could complete. There was \
                     no output before it was cancelled.\n</untrusted_context>";
    let calls = [
        called("c1", 2, cancelled),
        called(
            "c2",
            5,
            "Output: (empty)\nExit Code: 3\nProcess Group PGID: 7",
        ),
        called("c3", 6, "Output: hi\nProcess Group PGID: 7"),
    ];
    // The record keeps its id and its time.
    let record = |calls: &[Value]| {
        json!({"id": "calls", "timestamp": time(2), "type": "gemini", "content": "", "thoughts": [],
            "model": "gemini-2.5-pro", "toolCalls": calls})
    };
    let messages = [
        said("First."),
        replied(""),
        record(&calls[..1]),
        said("Second."),
        replied("I try."),
        record(&calls[..2]),
        record(&calls),
        replied("Done."),
    ];
    let run = written(&file, "main", &messages);
    let row = &run.row;
    assert_eq!((row.steps, row.issues, row.turns), (3, (0, 0), Some(2)));
    assert_eq!((row.model_calls, row.tokens), (Some(3), Some(330)));
    assert_eq!((row.tool_calls, row.tool_errors), (Some(3), Some(1)));
    let results = |n: usize| {
        let step = run.step(n);
        let results = step["action_results"].as_array().cloned();
        let results = results.unwrap_or_default().into_iter();
        let status = results.map(|result| result["status"].as_str().unwrap_or_default().to_owned());
        (
            step["actions"].as_array().map_or(0, Vec::len),
            status.collect::<Vec<_>>(),
        )
    };
    assert_eq!(results(0), (1, vec!["cancelled".to_owned()]));
    assert_eq!(
        results(1),
        (2, vec!["error".to_owned(), "success".to_owned()])
    );
    assert_eq!(results(2), (0, vec![]));
    assert_eq!(run.step(1)["model_response"]["text"], "I try.");
    damaged(&file);
    // A reply has its calls only once they have results. Until then it isn't known to be empty.
    let open = written(&file, "main", &messages[..2]).row;
    assert_eq!((open.steps, open.errors), (1, 0));
    // All calls of the last reply were cancelled, so the turn is over.
    let cancelled = written(&file, "main", &messages[..3]).row;
    let sentence =
        "Cancelled by the user in step 0 during a call to run_shell_command; no records follow";
    assert_eq!(&*cancelled.verdict.sentence, sentence);
}

#[test]
fn a_message_by_the_program_that_makes_the_model_continue_is_no_prompt() {
    let temp = tempfile::tempdir().expect("a directory");
    let file = temp.path().join("session.jsonl");
    for nudge in [
        "System: Potential loop detected. Details: Repetitive patterns identified. Please take a step back.",
        "[System: You previously generated thoughts but failed to provide a final user-facing response.]",
        "[System: You successfully executed a tool but returned an empty response. Please analyze it.]",
    ] {
        let messages = [said("Go."), replied("I go."), said(nudge), replied("Gone.")];
        let row = written(&file, "main", &messages).row;
        assert_eq!(
            (row.turns, row.steps, row.task.as_deref()),
            (Some(1), 2, Some("Go."))
        );
        // The same in a list of all messages.
        let mut listed: Vec<Value> = messages.to_vec();
        for (n, message) in listed.iter_mut().enumerate() {
            (message["id"], message["timestamp"]) = (format!("l{n}").into(), time(n).into());
        }
        let set = json!({"$set": {"messages": listed}});
        std::fs::write(
            &file,
            format!("{}\n{set}\n", json!({"sessionId": "a", "projectHash": "b"})),
        )
        .expect("written");
        let row = read(&file).row;
        assert_eq!((row.turns, row.steps), (Some(1), 2));
    }
}

#[test]
fn a_sub_agent_that_misses_its_last_chance_is_over() {
    let temp = tempfile::tempdir().expect("a directory");
    let file = temp.path().join("child.jsonl");
    let chance = " You have one final chance to complete the task with a short grace period. You MUST call \
                  `complete_task` immediately with your best answer.";
    let messages = |why: &str| {
        vec![
            said("Look."),
            replied("It fails."),
            said(&format!("{why}{chance}")),
            replied("It fails."),
        ]
    };
    let stopped = "You have stopped calling tools without finishing.";
    for (why, sentence, outcome) in [
        (
            stopped,
            "Ended without an answer after step 1 (inferred: the last reply made no tool calls)",
            "failed",
        ),
        (
            "You have exceeded the maximum number of turns.",
            "Turn limit reached after step 1",
            "truncated",
        ),
        (
            "You have exceeded the time limit.",
            "Time limit reached after step 1",
            "truncated",
        ),
    ] {
        let row = written(&file, "subagent", &messages(why)).row;
        assert_eq!(
            (&*row.verdict.sentence, row.verdict.outcome.as_str()),
            (sentence, outcome)
        );
        assert_eq!((row.turns, row.life.liveness.word()), (Some(1), "finished"));
        assert_eq!(row.answer, None);
    }
    // The reply isn't there yet, or returns the answer.
    let mut messages = messages(stopped);
    let waits = written(&file, "subagent", &messages[..3]).row;
    assert_eq!(waits.verdict.outcome.as_str(), "unknown");
    let done = json!({"id": "c", "name": "complete_task", "args": {}, "status": "success",
        "result": [{"functionResponse": {"response": {"output": "ok"}}}]});
    messages[3]["toolCalls"] = json!([done]);
    let answered = written(&file, "subagent", &messages).row;
    assert_eq!(answered.verdict.outcome.as_str(), "completed");
    // A later prompt isn't followed by a last chance.
    messages[3] = replied("It fails.");
    messages.extend([said("Try again."), replied("I try.")]);
    let later = written(&file, "subagent", &messages).row;
    assert_eq!(later.verdict.outcome.as_str(), "unknown");
}

/// A call that is running isn't in the file, so a reply without calls needn't be the last one.
#[test]
fn a_last_reply_without_calls_may_have_made_some() {
    let temp = tempfile::tempdir().expect("a directory");
    let file = temp.path().join("session.jsonl");
    let row = written(&file, "main", &[said("Build it."), replied("Building.")]).row;
    assert_eq!(
        (row.verdict.outcome.as_str(), row.answer),
        ("unknown", None)
    );
}

#[test]
fn a_command_that_the_program_aborted_is_cancelled_or_failed() {
    let status = |output: &str| {
        let wrapped = format!("<untrusted_context>\n{output}\n</untrusted_context>");
        let result = ran(&wrapped, "");
        (result["status"].clone(), result["error"].clone())
    };
    let cancelled = "Command was cancelled by user before it could complete. Below is the output before it was \
                     cancelled:\nhalf";
    assert_eq!(status(cancelled), ("cancelled".into(), cancelled.into()));
    let timeout = "Command was automatically cancelled because it exceeded the timeout of 5.0 minutes without \
                   output. There was no output before it was cancelled.";
    assert_eq!(status(timeout), ("error".into(), timeout.into()));
    let printed = "Output: Command was cancelled by user before it could complete.";
    assert_eq!(status(printed).0, "success");
}

/// Lists a session of one turn with this output of its program next to it. Returns its row.
fn with_output(session: &[Value], output: &[Value]) -> Value {
    let temp = tempfile::tempdir().expect("a directory");
    let header =
        json!({"sessionId": "a", "projectHash": "b", "startTime": time(1), "kind": "main"});
    let mut text = format!("{header}\n");
    for (n, message) in session.iter().enumerate() {
        let mut line = message.clone();
        (line["id"], line["timestamp"]) = (format!("m{n}").into(), time(1 + n).into());
        text += &format!("{line}\n");
    }
    let file = "session-2026-05-04T09-00-a.jsonl";
    std::fs::write(temp.path().join(file), text).expect("written");
    let init =
        json!({"type": "init", "timestamp": time(1), "session_id": "a", "model": "gemini-2.5-pro"});
    let lines: String = std::iter::once(&init)
        .chain(output)
        .map(|line| format!("{line}\n"))
        .collect();
    std::fs::write(temp.path().join("stdout.jsonl"), lines).expect("written");
    let said = board(&["list", &temp.path().display().to_string(), "--json"]);
    assert_eq!(said.code, 0, "{}", said.stderr);
    let list: Value = serde_json::from_str(&said.stdout).expect("JSON");
    let runs = list["runs"].as_array().expect("runs");
    let run = runs.iter().find(|run| run["key"] == file);
    run.expect("the session").clone()
}

#[test]
fn an_end_that_only_the_output_records_is_that_of_the_session() {
    let session = [said("Go."), replied("Gone.")];
    let prompt = json!({"type": "message", "timestamp": time(1), "role": "user", "content": "Go."});
    let reply = json!({"type": "message", "timestamp": time(2), "role": "assistant", "content": "Gone.", "delta": true});
    let result = |status: &str, error: Value| json!({"type": "result", "timestamp": time(3), "status": status, "error": error});
    let row = |output: &[Value]| {
        let run = with_output(&session, output);
        ["outcome", "liveness", "verdict", "certainty"]
            .map(|key| run[key].as_str().unwrap_or_default().to_owned())
    };
    let error = json!({"type": "FatalTurnLimitedError", "message": "Reached max session turns."});
    assert_eq!(
        row(&[
            prompt.clone(),
            reply.clone(),
            result("error", error.clone())
        ]),
        [
            "truncated",
            "finished",
            "Turn limit reached after step 0: Reached max session turns · recorded in stdout.jsonl",
            "recorded"
        ]
    );
    let success = result("success", Value::Null);
    let answered = row(&[prompt.clone(), reply.clone(), success.clone()]);
    assert_eq!(answered[2], "Answered at step 0 · recorded in stdout.jsonl");
    // Output without its end tells nothing.
    assert_eq!(row(&[prompt.clone(), reply.clone()])[0], "unknown");
    // A later turn isn't in the output.
    let later = [said("Go."), replied("Gone."), said("Go on.")];
    let run = with_output(&later, &[prompt, reply, success]);
    assert_eq!(run["outcome"], "unknown");
}

#[test]
fn a_file_with_only_the_id_of_a_session_is_a_copy_of_it() {
    let temp = tempfile::tempdir().expect("a directory");
    let write = |name: &str, id: &str, start: usize, messages: &[Value]| {
        let header =
            json!({"sessionId": id, "projectHash": "b", "startTime": time(start), "kind": "main"});
        let mut text = format!("{header}\n");
        for (n, message) in messages.iter().enumerate() {
            let mut line = message.clone();
            (line["id"], line["timestamp"]) = (format!("m{n}").into(), time(start + n).into());
            text += &format!("{line}\n");
        }
        let file = temp.path().join(name);
        std::fs::write(&file, text).expect("written");
        read(&file)
    };
    let context = said("<session_context>\nThis is the Gemini CLI.</session_context>");
    let runs = [
        write(
            "whole.jsonl",
            "a",
            1,
            &[context.clone(), said("Go."), replied("Gone.")],
        ),
        write("left.jsonl", "a", 9, std::slice::from_ref(&context)),
        write("other.jsonl", "c", 9, std::slice::from_ref(&context)),
        write("prompt.jsonl", "a", 12, &[context, said("Go on.")]),
    ];
    let mut rows: Vec<_> = runs.iter().map(|run| run.row.clone()).collect();
    for (n, row) in rows.iter_mut().enumerate() {
        row.key = trace_board::model::RunKey::new(&format!("run{n}"));
    }
    let rows: Vec<_> = rows.into_iter().map(Arc::new).collect();
    let relations = relate(&rows, &mut |at| marks(&runs[at].index));
    let copies = relations.iter().map(|relation| {
        let of = relation.duplicate_of.as_ref();
        of.map(|key| key.as_str().to_owned())
    });
    assert_eq!(
        copies.collect::<Vec<_>>(),
        [None, Some("run0".to_owned()), None, None]
    );
    assert!(
        relations[0].copies_say.is_empty(),
        "{:?}",
        relations[0].copies_say
    );
}
