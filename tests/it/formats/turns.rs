//! Tests where a turn starts, and which turn's end is the run's, with sessions and streams built
//! line by line.

use std::path::PathBuf;

use serde_json::{Value, json};
use trace_board::model::Outcome;

use super::{Read, read};

const ID: &str = "5f0c7a52-6d0e-4a53-9b0c-0f6f2b3f1a01";

/// A Claude Code session whose lines form a chain, a second apart.
fn session(lines: &[Value]) -> Read {
    let mut parent = Value::Null;
    let whole = lines.iter().enumerate().map(|(n, line)| {
        let mut whole = json!({"sessionId": ID, "timestamp": format!("2026-05-04T09:00:{n:02}.000Z")});
        // The program's queue notes aren't part of the chain.
        if line["type"] != "queue-operation" {
            let id = Value::from(format!("u{n}"));
            let place = json!({"uuid": id, "parentUuid": std::mem::replace(&mut parent, id), "isSidechain": false});
            whole = with(whole, &place);
        }
        let whole = with(whole, line);
        format!("{whole}\n")
    });
    written(&whole.collect::<String>())
}

fn written(text: &str) -> Read {
    let dir = tempfile::tempdir().unwrap();
    let path: PathBuf = dir.path().join(format!("{ID}.jsonl"));
    std::fs::write(&path, text).unwrap();
    read(&path)
}

fn user(text: &str) -> Value {
    json!({"type": "user", "message": {"role": "user", "content": text}})
}

fn note(text: &str) -> Value {
    with(user(text), &json!({"isMeta": true}))
}

fn reply(id: &str, finish: &str, content: &Value) -> Value {
    json!({"type": "assistant", "message": {"id": id, "model": "model-a", "stop_reason": finish, "content": content,
        "usage": {"input_tokens": 10, "output_tokens": 5}}})
}

fn says(id: &str, finish: &str, text: &str) -> Value {
    reply(id, finish, &json!([{"type": "text", "text": text}]))
}

fn calls(id: &str, call: &str) -> Value {
    reply(
        id,
        "tool_use",
        &json!([{"type": "tool_use", "id": call, "name": "Task", "input": {}}]),
    )
}

fn gives(call: &str) -> Value {
    json!({"type": "user", "message": {"content": [{"type": "tool_result", "tool_use_id": call, "content": "ok"}]}})
}

fn with(mut line: Value, more: &Value) -> Value {
    for (key, value) in more.as_object().unwrap() {
        line[key.as_str()] = value.clone();
    }
    line
}

#[test]
fn a_clock_that_goes_back_makes_no_copies() {
    let began = json!({"type": "queue-operation", "operation": "enqueue"});
    let back = json!({"timestamp": "2026-05-04T08:59:50.000Z"});
    let run = session(&[
        began.clone(),
        user("Go."),
        calls("m1", "c1"),
        gives("c1"),
        with(says("m2", "end_turn", "Done."), &back),
    ]);
    assert_eq!((run.row.steps, run.row.tokens), (2, Some(30)));
    assert_eq!(
        run.row.verdict.sentence,
        "Finished at step 1 (inferred from \"end_turn\")"
    );
    // Older lines before the session's first own line belong to another session.
    let old = json!({"timestamp": "2026-05-04T08:00:00.000Z"});
    let run = session(&[
        began,
        with(user("Before."), &old),
        user("Go."),
        says("m2", "end_turn", "Done."),
    ]);
    let manifest = run.index.manifest().get().unwrap();
    assert_eq!(
        manifest.copied.as_ref().map(|copied| copied.records),
        Some(1)
    );
}

#[test]
fn the_end_of_a_sub_agent_in_the_same_file_is_not_the_sessions() {
    let inside = json!({"isSidechain": true, "parentUuid": null});
    let mut answer = with(
        says("s1", "end_turn", "It is broken."),
        &json!({"isSidechain": true}),
    );
    answer["message"]["model"] = "model-b".into();
    let lines = [
        user("Go."),
        calls("m1", "c1"),
        with(user("Look."), &inside),
        answer,
    ];
    let run = session(&lines);
    assert_eq!(
        run.row.verdict.sentence,
        "No result for Task in step 0: killed, or waiting for the user"
    );
    assert_eq!(
        (run.row.turns, run.row.children, run.row.model.as_deref()),
        (Some(1), Some(1), Some("model-a"))
    );
    assert_eq!(run.row.models, ["model-a", "model-b"]);
    let done = session(
        &[
            lines.as_slice(),
            &[gives("c1"), says("m2", "end_turn", "All is well.")],
        ]
        .concat(),
    );
    assert_eq!(done.row.verdict.outcome, Outcome::Completed);
    assert_eq!((done.row.turns, done.row.errors), (Some(1), 0));
}

#[test]
fn a_cut_reply_that_is_gone_on_with_is_not_the_end() {
    let failed = with(
        says("e1", "stop_sequence", "API Error: 500"),
        &json!({"isApiErrorMessage": true}),
    );
    let lines = [
        user("Go."),
        says("m1", "max_tokens", "One, two,"),
        note("Output token limit hit. Resume directly."),
    ];
    assert_eq!(
        session(&lines).row.verdict.sentence,
        "No model reply after step 0: killed, interrupted or stopped"
    );
    let run = session(&[lines.as_slice(), &[failed]].concat());
    assert_eq!(run.row.verdict.sentence, "API error after step 0: 500");
}

#[test]
fn a_command_of_the_users_own_begins_a_turn() {
    let command = "<command-message>fix</command-message>\n<command-name>/fix</command-name>";
    let lines = [
        user("Go."),
        says("m1", "end_turn", "Done."),
        user(command),
        note("Fix all that is broken."),
    ];
    let run = session(&lines);
    let open = "No model reply after step 0: killed, interrupted or stopped";
    assert_eq!(
        (run.row.turns, run.row.verdict.sentence.as_str()),
        (Some(2), open)
    );
    let only = session(&lines[2..]);
    assert_eq!(
        (only.row.turns, only.row.task.as_deref()),
        (Some(1), Some("Fix all that is broken."))
    );
    // A command that the program itself executes doesn't call the model.
    let local = [
        note("Caveat: the messages below were made by the user."),
        user("<command-name>/clear</command-name>\n<command-message>clear</command-message>"),
        user("<local-command-stdout></local-command-stdout>"),
        note("Something else that the program writes."),
    ];
    let run = session(&[&lines[..2], &local].concat());
    assert_eq!(
        (run.row.turns, run.row.verdict.outcome),
        (Some(1), Outcome::Completed)
    );
}

fn stream(results: &[Value]) -> Read {
    let init = json!({"type": "system", "subtype": "init", "session_id": ID, "claude_code_version": "2.1.0"});
    let mut text = String::new();
    for (n, result) in results.iter().enumerate() {
        let asked = with(
            user("Go."),
            &json!({"timestamp": format!("2026-05-04T09:{n}0:00Z")}),
        );
        let mut said = says(&format!("m{n}"), "end_turn", "Done.");
        said["timestamp"] = format!("2026-05-04T09:{n}0:02Z").into();
        for line in [
            &init,
            &asked,
            &said,
            &with(result.clone(), &json!({"type": "result", "n": n})),
        ] {
            text.push_str(&format!(
                "{}\n",
                with(line.clone(), &json!({"session_id": ID}))
            ));
        }
    }
    written(&text)
}

#[test]
fn a_result_says_no_more_than_its_words() {
    let end = |result: Value| {
        let run = stream(&[result]);
        (
            run.row.verdict.outcome,
            run.row
                .verdict
                .stop_reason
                .clone()
                .unwrap_or_default()
                .to_string(),
        )
    };
    let none = json!({"subtype": null, "is_error": false, "terminal_reason": "completed", "stop_reason": "end_turn"});
    assert_eq!(end(none), (Outcome::Completed, "result".to_owned()));
    let deferred =
        json!({"subtype": "success", "is_error": false, "terminal_reason": "tool_deferred"});
    assert_eq!(
        end(deferred),
        (Outcome::Unknown, "tool_deferred".to_owned())
    );
    assert_eq!(
        end(json!({"subtype": "success"})),
        (Outcome::Completed, "success".to_owned())
    );
    assert_eq!(
        end(json!({"subtype": "new", "is_error": true})),
        (Outcome::Failed, "new".to_owned())
    );
}

#[test]
fn a_result_without_a_model_cost_nothing() {
    let run = stream(&[
        json!({"subtype": "success", "total_cost_usd": 0, "model_usage_since_last_result": {}}),
    ]);
    assert_eq!(run.row.cost_usd, Some(0.0));
}

#[test]
fn nobody_works_between_a_result_and_the_next_prompt() {
    let answered = json!({"subtype": "success", "result": "Done."});
    let run = stream(&[answered.clone(), answered]);
    let started: Vec<_> = (0..2)
        .filter_map(|n| run.index.groups().get(n))
        .map(|group| group.started)
        .collect();
    // 09:00:00 and 09:10:00, the times of the prompts.
    assert_eq!(
        started,
        [Some(1_777_885_200_000_000), Some(1_777_885_800_000_000)]
    );
}

#[test]
fn a_summary_is_the_title_only_of_the_session_that_has_its_last_message() {
    let summary =
        |words: &str, leaf: &str| json!({"type": "summary", "summary": words, "leafUuid": leaf});
    let title = |lines: &[Value]| {
        let run = session(lines);
        run.row.titles.first().cloned()
    };
    // The lines are named u0, u1 and so on.
    assert_eq!(
        title(&[
            summary("Mine", "u3"),
            summary("Another session's", "x9"),
            user("Go."),
            says("m1", "end_turn", "Done."),
        ])
        .as_deref(),
        Some("Mine")
    );
    assert_eq!(
        title(&[
            summary("Another session's", "x9"),
            user("Go."),
            says("m1", "end_turn", "Done."),
        ]),
        None
    );
    // A summary may also follow its message.
    let after = [
        user("Go."),
        says("m1", "end_turn", "Done."),
        summary("Mine", "u1"),
    ];
    assert_eq!(title(&after).as_deref(), Some("Mine"));
}
