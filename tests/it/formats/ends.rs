//! Tests traces with more lines after their end, and traces whose last lines leave the end open, by
//! appending lines to samples.

use super::{Read, read, sample};

const CLAUDE: &str = "tools/claude-code/-home-me-ledger/5f0c7a52-6d0e-4a53-9b0c-0f6f2b3f1a01.jsonl";

/// Reads the sample with these lines appended, as of a year later.
fn with(name: &str, file: &str, more: &[serde_json::Value]) -> Read {
    let mut text = std::fs::read_to_string(sample(name)).expect("the sample");
    // A truncated line stays a separate line.
    if !text.ends_with('\n') {
        text.push('\n');
    }
    more.iter().for_each(|line| text += &format!("{line}\n"));
    let temp = tempfile::tempdir().expect("a directory");
    let path = temp.path().join(file);
    std::fs::write(&path, text).expect("written");
    read(&path)
}

fn claude(more: &[serde_json::Value]) -> Read {
    with(CLAUDE, "5f0c7a52-6d0e-4a53-9b0c-0f6f2b3f1a01.jsonl", more)
}

fn line(uuid: &str, kind: &str, rest: &serde_json::Value) -> serde_json::Value {
    let mut line = serde_json::json!({
        "type": kind, "uuid": uuid, "sessionId": "5f0c7a52-6d0e-4a53-9b0c-0f6f2b3f1a01", "timestamp": "2026-11-20T10:00:00Z",
    });
    line.as_object_mut()
        .unwrap()
        .extend(rest.as_object().unwrap().clone());
    line
}

fn prompt(uuid: &str) -> serde_json::Value {
    line(
        uuid,
        "user",
        &serde_json::json!({"message": {"role": "user", "content": "And now?"}}),
    )
}

fn reply(uuid: &str, stop: Option<&str>, content: &serde_json::Value) -> serde_json::Value {
    let message = serde_json::json!({"id": uuid, "role": "assistant", "model": "m", "content": content, "stop_reason": stop});
    line(uuid, "assistant", &serde_json::json!({"message": message}))
}

#[test]
fn a_prompt_after_a_used_up_budget_begins_a_new_turn() {
    let spent = [
        line(
            "b1",
            "attachment",
            &serde_json::json!({"attachment": {"type": "budget_usd", "total": 0.01, "used": 0.0}}),
        ),
        serde_json::json!({"type": "cost-state", "totalCostUSD": 0.05}),
    ];
    let run = claude(&spent);
    assert!(
        run.row.verdict.sentence.starts_with("Cost limit reached"),
        "{}",
        run.row.verdict.sentence
    );
    let run = claude(&[spent[0].clone(), spent[1].clone(), prompt("u1")]);
    assert_eq!(
        run.row.verdict.sentence,
        "No model reply after step 4: killed, interrupted or stopped"
    );
}

#[test]
fn an_end_that_is_concluded_is_no_rule_that_fired() {
    let board = crate::board::Board::serve(&sample("tools/claude-code"));
    board.until_read();
    let rule = |n: usize| {
        let key = format!("-home-me-ledger%2F5f0c7a52-6d0e-4a53-9b0c-0f6f2b3f1a0{n}.jsonl");
        let page = board.get(&format!("/runs/{key}"));
        let rule = board.json(&format!("/api/runs/{key}/why"))["rules"][0].clone();
        let said =
            [": 1 fired (inferred), ", ": 1 fired, "].map(|words| page.text().contains(words));
        (
            rule["result"].clone(),
            rule["fired"].clone(),
            rule["inferred"].clone(),
            said,
        )
    };
    assert_eq!(
        rule(1),
        ("unknown".into(), false.into(), true.into(), [true, false])
    );
    assert_eq!(
        rule(2),
        ("fired".into(), true.into(), false.into(), [false, true])
    );
}

#[test]
fn a_reply_that_is_only_thought_so_far_is_no_answer() {
    let thought = serde_json::json!([{"type": "thinking", "thinking": "Let me see."}]);
    let run = claude(&[prompt("u1"), reply("a1", None, &thought)]);
    assert_eq!(run.row.verdict.mark.word(), "unknown");
    let run = claude(&[
        prompt("u1"),
        reply(
            "a1",
            None,
            &serde_json::json!([{"type": "text", "text": "Yes."}]),
        ),
    ]);
    assert_eq!(
        run.row.verdict.sentence,
        "Finished at step 5 (inferred: the last reply made no tool calls)"
    );
}

#[test]
fn a_finish_reason_that_is_no_answer_is_not_told_as_one() {
    let said = serde_json::json!([{"type": "text", "text": "Searching."}]);
    let run = claude(&[prompt("u1"), reply("a1", Some("pause_turn"), &said)]);
    assert_eq!(run.row.verdict.mark.word(), "unknown");
    let run = claude(&[prompt("u1"), reply("a1", Some("of_tomorrow"), &said)]);
    assert_eq!(
        run.row.verdict.sentence,
        "Turn ended after step 5 (inferred from \"of_tomorrow\")"
    );
    assert_eq!(run.row.verdict.mark.word(), "unknown");
}

#[test]
fn what_the_service_did_itself_is_answered_in_the_reply() {
    let search = serde_json::json!([
        {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {"query": "cents"}},
        {"type": "web_search_tool_result", "tool_use_id": "s1", "content": []},
        {"type": "text", "text": "Found."},
    ]);
    let run = claude(&[prompt("u1"), reply("a1", Some("end_turn"), &search)]);
    assert_eq!(
        run.row.verdict.sentence,
        "Finished at step 5 (inferred from \"end_turn\")"
    );
    assert_eq!(run.index.steps().get(5).unwrap().unanswered, None);
}

#[test]
fn a_call_that_the_user_stopped_is_not_told_as_failed() {
    let call = serde_json::json!([{"type": "tool_use", "id": "c1", "name": "Bash", "input": {"command": "make"}}]);
    let result = serde_json::json!([{"type": "tool_result", "tool_use_id": "c1", "is_error": true, "content": "Not now."}]);
    let result = serde_json::json!({
        "message": {"role": "user", "content": result}, "toolUseResult": "User rejected tool use",
    });
    let stopped = serde_json::json!({
        "message": {"role": "user", "content": [{"type": "text", "text": "[Request interrupted by user for tool use]"}]},
    });
    let run = claude(&[
        prompt("u1"),
        reply("a1", Some("tool_use"), &call),
        line("u2", "user", &result),
        line("u3", "user", &stopped),
    ]);
    assert_eq!(
        run.row.verdict.sentence,
        "Cancelled by the user in step 5 during a call to Bash"
    );
    assert_eq!(
        run.row.verdict.second,
        "In step 5, a call was cancelled: Not now."
    );
}

#[test]
fn what_a_notice_says_is_not_the_task() {
    let notice = serde_json::json!({
        "type": "user", "session_id": "s", "parent_tool_use_id": null,
        "message": {"role": "user", "content": [{"type": "text", "text": "A helper is done."}]},
    });
    let run = with("tools/qwen-stream/cut.jsonl", "stream.jsonl", &[notice]);
    assert_eq!((run.row.steps, run.row.task), (1, None));
}

#[test]
fn no_change_that_is_told_is_not_no_change() {
    // Its commands may have changed files.
    let run = read(&sample("tools/swe-agent/submitted.traj"));
    assert_eq!(run.row.files_changed, None);
    assert_eq!(claude(&[]).row.files_changed, Some(1));
}

#[test]
fn arguments_that_are_no_object_are_still_told_apart() {
    let call = |n: usize| {
        serde_json::json!({"timestamp": "2026-05-04T12:00:00Z", "type": "response_item", "payload": {
            "type": "function_call", "name": "look", "arguments": format!("not JSON {n}"), "call_id": format!("x{n}")}})
    };
    let result = |n: usize| {
        serde_json::json!({"timestamp": "2026-05-04T12:00:00Z", "type": "response_item", "payload": {
            "type": "function_call_output", "output": "seen", "call_id": format!("x{n}")}})
    };
    let lines: Vec<serde_json::Value> = (0..4).flat_map(|n| [call(n), result(n)]).collect();
    let name = "tools/codex/sessions/2026/05/04/rollout-2026-05-04T10-00-00-019df000-0000-7000-8000-0000000000a3.jsonl";
    let run = with(name, "rollout-x.jsonl", &lines);
    let calls: Vec<&str> = run
        .index
        .steps()
        .iter()
        .map(|step| &*step.call)
        .skip(2)
        .collect();
    assert_eq!(calls[0], "look(arguments=\"not JSON 0\")");
    assert_eq!(calls[3], "look(arguments=\"not JSON 3\")");
}

/// A question about such a marker may start with it.
#[test]
fn a_prompt_that_begins_with_the_words_of_an_interruption_is_a_prompt() {
    let said = |words: &str| {
        let text = serde_json::json!([{"type": "text", "text": words}]);
        let session = line(
            "u9",
            "user",
            &serde_json::json!({"message": {"role": "user", "content": text}}),
        );
        let stream = [
            serde_json::json!({"type": "system", "subtype": "init", "session_id": "s", "model": "m"}),
            serde_json::json!({"type": "user", "session_id": "s", "message": {"role": "user", "content": text}}),
        ];
        let temp = tempfile::tempdir().expect("a directory");
        let path = temp.path().join("stream.jsonl");
        std::fs::write(&path, stream.map(|line| format!("{line}\n")).concat()).expect("written");
        (
            claude(&[session]).row.verdict.sentence,
            read(&path).row.task.is_some(),
        )
    };
    for marker in [
        "[Request interrupted by user]",
        "[Request interrupted by user for tool use]",
    ] {
        let (sentence, is_task) = said(marker);
        assert!(
            sentence.ends_with("a later turn was interrupted by the user, before any step")
                && !is_task,
            "{marker}"
        );
        let (sentence, is_task) = said(&format!("{marker} is what it says. Why?"));
        assert_eq!(
            (&*sentence, is_task),
            (
                "No model reply after step 4: killed, interrupted or stopped",
                true
            ),
            "{marker}"
        );
    }
}

#[test]
fn an_error_of_codex_is_what_its_class_says_and_not_what_its_message_mentions() {
    let session = |class: serde_json::Value, words: &str| {
        let error =
            serde_json::json!({"type": "error", "message": words, "codex_error_info": class});
        let line = serde_json::json!({"timestamp": "2026-11-20T10:00:00Z", "type": "event_msg", "payload": error});
        let file = "tools/codex/sessions/2026/05/04/rollout-2026-05-04T10-00-00-019df000-0000-7000-8000-0000000000a3.jsonl";
        with(file, "rollout-a.jsonl", &[line]).row.verdict.sentence
    };
    let limit = "Incomplete response returned, reason: max_output_tokens";
    assert!(session("other".into(), limit).starts_with("Reply token limit reached"));
    let quoted = "the context window and max_output_tokens and content_filter are no members of this request";
    assert!(session("other".into(), quoted).starts_with("Failed with an error"));
    assert!(session("bad_request".into(), limit).starts_with("API error"));
    assert!(session("context_window_exceeded".into(), "no").starts_with("Context window full"));
    let stream = |words: &str| {
        let line = serde_json::json!({"type": "turn.failed", "error": {"message": words}});
        with("tools/codex-exec/cut.jsonl", "stream.jsonl", &[line])
            .row
            .verdict
            .sentence
    };
    assert!(
        stream(quoted).starts_with("Failed with an error"),
        "{}",
        stream(quoted)
    );
    assert!(
        stream("Codex ran out of room in the model's context window.")
            .starts_with("Context window full")
    );
}

#[test]
fn a_loop_is_told_by_the_words_of_the_program_alone() {
    let stream = |more: &[serde_json::Value]| {
        with("tools/gemini-stream/cut.jsonl", "stream.jsonl", more)
            .row
            .verdict
    };
    let failed = |words: &str| serde_json::json!({"type": "result", "status": "error", "error": {"type": "unknown", "message": words}});
    let detected = "Loop detected, stopping execution";
    let told = serde_json::json!({"type": "error", "severity": "warning", "message": detected});
    let done = serde_json::json!({"type": "result", "status": "success"});
    for more in [&[told, done.clone()][..], &[failed(detected)]] {
        assert!(
            stream(more)
                .sentence
                .starts_with("Stopped by loop detection"),
            "{}",
            stream(more).sentence
        );
    }
    let other = stream(&[failed("the event loop is blocked")]).sentence;
    assert!(other.starts_with("Failed with an error"), "{other}");
    let other = serde_json::json!({"type": "error", "severity": "warning", "message": "a loop device is missing"});
    assert!(stream(&[other, done]).sentence.starts_with("Answered"));
}
