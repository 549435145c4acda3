//! Tests what a transcript shows besides the steps: the user's commands and pictures, changes of the
//! model, compactions, and prompts that are recorded out of order.

use std::path::Path;

use serde_json::{Value, json};

use crate::board::Board;
use crate::client::segment;

/// A PNG with one pixel.
const PIXEL: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

fn lines(values: &[Value]) -> String {
    values.iter().map(|value| format!("{value}\n")).collect()
}

/// Serves a file and returns its page.
fn page(name: &str, text: &str, query: &str) -> (tempfile::TempDir, Board, String) {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(Path::new(dir.path()).join(name), text).unwrap();
    let board = Board::serve(dir.path());
    board.until_read();
    let runs = board.json("/api/runs");
    let key = segment(runs["runs"][0]["key"].as_str().unwrap());
    let page = board.get(&format!("/runs/{key}{query}"));
    assert_eq!(page.status, 200, "{name}");
    let body = page.text().to_owned();
    (dir, board, body)
}

fn claude(n: u64, kind: &str, message: &Value) -> Value {
    json!({"type": kind, "uuid": format!("u{n}"), "parentUuid": format!("u{}", n - 1), "sessionId": "s", "cwd": "/p",
        "timestamp": format!("2026-01-02T03:04:{n:02}Z"), "message": message})
}

fn user(n: u64, content: &Value) -> Value {
    claude(n, "user", &json!({"role": "user", "content": content}))
}

fn reply(n: u64, model: &str, input: u64) -> Value {
    let message = json!({"id": format!("m{n}"), "role": "assistant", "model": model, "stop_reason": "end_turn",
        "content": [{"type": "text", "text": "Done."}], "usage": {"input_tokens": input, "output_tokens": 5}});
    claude(n, "assistant", &message)
}

#[test]
fn a_claude_session_has_commands_pictures_models_and_compactions() {
    let picture = json!([
        {"type": "text", "text": "Look <b>here</b>"},
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PIXEL}},
        {"type": "image", "source": {"type": "base64", "media_type": "image/svg+xml", "data": "PHN2ZyBvbmxvYWQ9YWxlcnQoMSk+PC9zdmc+PHN2ZyBvbmxvYWQ9YWxlcnQoMSk+PC9zdmc+PHN2Zy8+PHN2Zy8+PHN2Zy8+"}},
    ]);
    let text = lines(&[
        user(1, &json!("Go.")),
        reply(2, "model-a", 900),
        user(3, &json!("<bash-input>ls <i></bash-input>")),
        user(
            4,
            &json!("<bash-stdout>one\ntwo</bash-stdout><bash-stderr></bash-stderr>"),
        ),
        json!({"type": "system", "subtype": "compact_boundary", "uuid": "u5", "parentUuid": "u4", "sessionId": "s",
            "timestamp": "2026-01-02T03:04:05Z", "compactMetadata": {"trigger": "auto", "preTokens": 1000, "postTokens": 200}}),
        user(6, &picture),
        reply(7, "model-b", 300),
        user(8, &json!("<bash-input>true</bash-input>")),
    ]);
    let (_dir, board, page) = page("s.jsonl", &text, "?tab=transcript");
    // The outline has the prompts too.
    let (_, page) = page.split_once("id=\"transcript\"").unwrap();
    let at = |what: &str| {
        page.find(what)
            .unwrap_or_else(|| panic!("{what} in {page}"))
    };
    assert!(
        at("ls &#60;i&#62;") < at("Look &#60;b&#62;here"),
        "the command comes first"
    );
    assert!(
        page.contains("<pre class=\"wrap\">\none\ntwo</pre>"),
        "{page}"
    );
    assert!(page.contains("No output recorded"), "{page}");
    at("Model changed from model-a to model-b");
    at("Context compacted (auto), 1,000 tokens before, 200 after");
    // The picture whose bytes aren't those of one isn't shown.
    assert_eq!(page.matches("<img ").count(), 1, "{page}");
    let src = page
        .split("<img src=\"")
        .nth(1)
        .unwrap()
        .split('"')
        .next()
        .unwrap();
    let served = board.get(&src.replace("&#38;", "&"));
    assert_eq!(served.status, 200, "{src}");
    // The commands begin no turn.
    assert_eq!(board.json("/api/runs")["runs"][0]["turns"], 2);
}

#[test]
fn long_outputs_are_linked_and_many_commands_are_named() {
    let mut all = vec![user(1, &json!("Go.")), reply(2, "m", 9)];
    for n in 0..21 {
        all.push(user(
            3 + n,
            &json!(format!("<bash-input>make {n}.</bash-input>")),
        ));
        all.last_mut().unwrap()["timestamp"] = json!("2026-01-02T03:04:30Z");
    }
    let long = "x".repeat(300 << 10);
    let output = format!("<bash-stdout>{long}</bash-stdout><bash-stderr></bash-stderr>");
    all.push(user(24, &json!(output)));
    all.insert(4, user(24, &json!(output)));
    all[4]["uuid"] = json!("long");
    let (_dir, _board, page) = page("s.jsonl", &lines(&all), "?tab=transcript");
    let (_, page) = page.split_once("id=\"transcript\"").unwrap();
    assert!(
        page.contains("make 19.") && !page.contains("make 20."),
        "{page}"
    );
    assert!(
        page.contains("More of the user&#39;s commands are in the events"),
        "{page}"
    );
    assert_eq!(page.matches("Too long to show here").count(), 1, "{page}");
    assert!(page.contains("#event-4\">Show the record</a>"), "{page}");
    assert_eq!(page.matches("No output recorded").count(), 19, "{page}");
}

#[test]
fn a_codex_session_names_patches_without_text_and_commands() {
    let item = |n: u64, payload: &Value| json!({"timestamp": format!("2026-01-02T03:04:{n:02}Z"), "type": "response_item", "payload": payload});
    let message = |role: &str, kind: &str, text: &str| json!({"type": "message", "role": role, "content": [{"type": kind, "text": text}]});
    let ran = "<user_shell_command>\n<command>\nmake\n</command>\n<result>\nExit code: 2\nDuration: 0.1 seconds\nOutput:\nmake: *** No rule\n</result>\n</user_shell_command>";
    let patch = |id: &str| json!({"type": "custom_tool_call", "call_id": id, "name": "apply_patch", "input": "[REDACTED_INPUT len=62]"});
    let text = lines(&[
        json!({"timestamp": "2026-01-02T03:04:00Z", "type": "session_meta", "payload": {"id": "c", "cwd": "/p", "cli_version": "0.1", "originator": "codex_cli_rs", "timestamp": "2026-01-02T03:04:00Z"}}),
        json!({"timestamp": "2026-01-02T03:04:01Z", "type": "event_msg", "payload": {"type": "user_message", "message": "Go."}}),
        item(2, &patch("1")),
        item(
            3,
            &json!({"type": "custom_tool_call_output", "call_id": "1", "output": "{}"}),
        ),
        item(4, &patch("2")),
        item(
            5,
            &json!({"type": "custom_tool_call_output", "call_id": "2", "output": "{}"}),
        ),
        item(6, &message("user", "input_text", ran)),
        item(7, &message("assistant", "output_text", "Done.")),
    ]);
    let (_dir, board, files) = page("rollout-c.jsonl", &text, "?tab=files");
    assert!(
        files.contains("2 patches were recorded without their text: "),
        "{files}"
    );
    assert!(!files.contains("No file edits found"), "{files}");
    let key = segment(board.json("/api/runs")["runs"][0]["key"].as_str().unwrap());
    assert_eq!(
        board.json(&format!("/api/runs/{key}/files"))["patches_without_text"],
        json!([0, 1])
    );
    let shown = board
        .get(&format!("/runs/{key}?tab=transcript"))
        .text()
        .to_owned();
    assert!(
        shown.contains("exit 2") && shown.contains("make: *** No rule"),
        "{shown}"
    );
}

#[test]
fn a_gemini_command_is_no_prompt() {
    let ran = "I ran the following shell command:\n```sh\ngit status\n```\n\nThis produced the following result:\n```\nclean\n```";
    let text = lines(&[
        json!({"sessionId": "g", "projectHash": "h", "startTime": "2026-01-02T03:04:00.000Z", "lastUpdated": "2026-01-02T03:04:00.000Z", "kind": "main"}),
        json!({"id": "1", "timestamp": "2026-01-02T03:04:01.000Z", "type": "user", "content": [{"text": "Go."}]}),
        json!({"id": "2", "timestamp": "2026-01-02T03:04:02.000Z", "type": "gemini", "content": "Done.", "model": "gemini-x"}),
        json!({"id": "3", "timestamp": "2026-01-02T03:04:03.000Z", "type": "user", "content": [{"text": ran}]}),
    ]);
    let (_dir, board, page) = page("session-g.jsonl", &text, "?tab=transcript");
    assert!(
        page.contains("git status") && !page.contains("I ran the following"),
        "{page}"
    );
    assert_eq!(board.json("/api/runs")["runs"][0]["turns"], 1);
    // A resumed session begins with a list of all messages.
    let user = |id: &str, text: &str| json!({"id": id, "timestamp": "2026-01-02T03:04:01.000Z", "type": "user", "content": [{"text": text}]});
    let text = lines(&[
        json!({"sessionId": "g", "projectHash": "h", "startTime": "2026-01-02T03:04:00.000Z", "lastUpdated": "2026-01-02T03:04:00.000Z", "kind": "main"}),
        json!({"$set": {"messages": [
            user("3", ran),
            user("1", "Go."),
            json!({"id": "2", "timestamp": "2026-01-02T03:04:02.000Z", "type": "gemini", "content": "Done.", "model": "gemini-x"}),
        ]}}),
    ]);
    let (_dir, board, page) = self::page("session-g.jsonl", &text, "?tab=transcript");
    assert!(
        page.contains("Go.") && !page.contains("I ran the following"),
        "{page}"
    );
    assert_eq!(board.json("/api/runs")["runs"][0]["turns"], 1);
}

#[test]
fn prompts_may_consist_of_pictures() {
    // The type differs, so that the pictures do.
    let picture = |kind: &str| json!({"type": "image", "source": {"type": "base64", "media_type": kind, "data": PIXEL}});
    let words = |words: &str| json!({"type": "text", "text": words});
    let text = lines(&[
        user(1, &json!([picture("image/png")])),
        user(2, &json!([picture("image/x-png")])),
        user(3, &json!([words("Like this?"), picture("image/png")])),
        user(4, &json!([words("Like this?"), picture("image/x-png")])),
        user(5, &json!("Twice.")),
        user(6, &json!("Twice.")),
        reply(7, "m", 9),
    ]);
    let (_dir, board, page) = page("s.jsonl", &text, "?tab=transcript");
    let (outline, shown) = page.split_once("id=\"transcript\"").unwrap();
    assert_eq!(shown.matches("<img ").count(), 4, "{shown}");
    assert_eq!(shown.matches("class=\"b you\"").count(), 5, "{shown}");
    assert_eq!(shown.matches("Like this?").count(), 2, "{shown}");
    assert_eq!(shown.matches("Twice.").count(), 1, "{shown}");
    // The outline names the prompt that the reply answers.
    assert!(outline.contains(">Twice.<"), "{outline}");
    let alone = lines(&[user(1, &json!([picture("image/png")])), reply(2, "m", 9)]);
    let (_dir_of_one, _board_of_one, one) = self::page("s.jsonl", &alone, "?tab=transcript");
    let (outline, _) = one.split_once("id=\"transcript\"").unwrap();
    assert!(outline.contains(">Image<"), "{outline}");
    let key = segment(board.json("/api/runs")["runs"][0]["key"].as_str().unwrap());
    let markdown = board.get(&format!("/runs/{key}/transcript.md"));
    assert_eq!(markdown.text().matches("**User:**").count(), 3);
}

#[test]
fn a_picture_in_two_records_of_a_prompt_is_shown_once() {
    let url = format!("data:image/png;base64,{PIXEL}");
    let at = |n: u64, kind: &str, payload: &Value| json!({"timestamp": format!("2026-01-02T03:04:{n:02}Z"), "type": kind, "payload": payload});
    let text = lines(&[
        at(
            0,
            "session_meta",
            &json!({"id": "c", "cwd": "/p", "cli_version": "0.1", "originator": "codex_cli_rs", "timestamp": "2026-01-02T03:04:00Z"}),
        ),
        at(
            1,
            "response_item",
            &json!({"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Look."}, {"type": "input_image", "image_url": url}]}),
        ),
        at(
            2,
            "event_msg",
            &json!({"type": "user_message", "message": "Look.", "images": [url]}),
        ),
        at(
            3,
            "response_item",
            &json!({"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Done."}]}),
        ),
    ]);
    let (_dir, _board, page) = page("rollout-c.jsonl", &text, "?tab=transcript");
    let (_, shown) = page.split_once("id=\"transcript\"").unwrap();
    assert_eq!(shown.matches("<img ").count(), 1, "{shown}");
    assert_eq!(shown.matches("class=\"b you\"").count(), 1, "{shown}");
}

#[test]
fn the_prompt_of_swe_agent_comes_first_and_once() {
    let prompt = format!("Solve this. {} The end.", "x ".repeat(3_000));
    let element = json!({"action": "create a.py\n", "observation": "ok", "response": "Let's go.", "state": "{}", "thought": "Let's go."});
    let text = json!({"environment": "e", "trajectory": [element],
        "history": [{"role": "system", "content": "S"}, {"role": "user", "content": prompt}], "info": {"exit_status": "submitted"}});
    let (_dir, _board, page) = page("a.traj", &text.to_string(), "?tab=transcript");
    assert_eq!(page.matches("class=\"b you\"").count(), 1, "{page}");
    assert!(
        page.find("class=\"b you\"") < page.find("id=\"t0\"").map(|at| at + 200),
        "{page}"
    );
    assert!(
        page.contains("<b>create</b><span class=\"a\">a.py</span>"),
        "{page}"
    );
    assert!(
        !page.contains("class=\"th\""),
        "a reply isn't a thought: {page}"
    );
}

#[test]
fn a_text_that_the_program_adds_to_a_prompt_is_no_prompt() {
    let sample =
        "sample_runs/tools/droid/-home-me-ledger/d0000000-0000-4000-8000-00000000000a.jsonl";
    let text = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(sample)).unwrap();
    assert!(text.contains("Today is a Friday."));
    let (_dir, _board, page) = page("s.jsonl", &text, "?tab=transcript");
    assert!(page.contains("The total is wrong, fix it."), "{page}");
    assert!(!page.contains("a Friday"), "{page}");
}

#[test]
fn a_command_of_another_tool_keeps_its_first_word() {
    let call =
        json!({"type": "tool_use", "id": "c", "name": "make", "input": {"command": "make all"}});
    let text = lines(&[
        user(1, &json!("Go.")),
        claude(
            2,
            "assistant",
            &json!({"id": "m", "role": "assistant", "model": "m", "stop_reason": "tool_use", "content": [call]}),
        ),
    ]);
    let (_dir, _board, page) = page("s.jsonl", &text, "?tab=transcript");
    assert!(
        page.contains("<b>make</b><span class=\"a\">make all</span>"),
        "{page}"
    );
}

#[test]
fn a_folded_error_shows_the_line_that_failed() {
    let noise = |word: &str| format!("{word} line\n").repeat(400);
    let output = format!(
        "{}src/a.rs:3:5: error: no such name\n{}",
        noise("before"),
        noise("after")
    );
    let text = lines(&[
        user(1, &json!("Go.")),
        claude(
            2,
            "assistant",
            &json!({"id": "m", "role": "assistant", "model": "m", "stop_reason": "tool_use",
            "content": [{"type": "tool_use", "id": "c", "name": "Bash", "input": {"command": "make"}}]}),
        ),
        user(
            3,
            &json!([{"type": "tool_result", "tool_use_id": "c", "is_error": true, "content": output}]),
        ),
    ]);
    for query in ["?tab=transcript", "?tab=steps&step=0"] {
        let (_dir, _board, page) = page("s.jsonl", &text, query);
        let shown = "before line\nsrc/a.rs:3:5: error: no such name\nafter line\n";
        assert!(page.contains(shown), "{query}: {page}");
    }
}

/// A reply that calls a tool.
fn call(n: u64, id: &str, name: &str, input: &Value) -> Value {
    let content = json!([{"type": "tool_use", "id": id, "name": name, "input": input}]);
    let message = json!({"id": format!("m{n}"), "role": "assistant", "model": "m", "stop_reason": "tool_use", "content": content});
    claude(n, "assistant", &message)
}

#[test]
fn an_interruption_is_a_line_and_its_call_is_cancelled() {
    let mut rejected = user(
        3,
        &json!([{"type": "tool_result", "tool_use_id": "c", "is_error": true, "content": "The user doesn't want to proceed."}]),
    );
    rejected["toolUseResult"] = json!("User rejected tool use");
    let text = lines(&[
        user(1, &json!("Go.")),
        call(2, "c", "Bash", &json!({"command": "make"})),
        rejected,
        user(4, &json!("[Request interrupted by user for tool use]")),
        user(5, &json!("Go on.")),
        reply(6, "m", 9),
        user(7, &json!("[Request interrupted by user]")),
    ]);
    let (_dir, _board, page) = page("s.jsonl", &text, "?tab=transcript");
    let (head, shown) = page.split_once("id=\"transcript\"").unwrap();
    let (_, outline) = head.split_once("id=\"outline\"").unwrap();
    // Not also "1 cancelled".
    assert!(outline.contains(" · interrupted<"), "{outline}");
    assert!(!outline.contains("1 failed"), "{outline}");
    let line = "<p class=\"dv\"><span>Interrupted by the user · Bash was cancelled</span></p>";
    assert!(shown.contains(line), "{shown}");
    assert!(shown.find(line) < shown.find("Go on."), "{shown}");
    // The last one has no call.
    let last = "<p class=\"dv\"><span>Interrupted by the user</span></p>";
    assert_eq!(shown.matches(last).count(), 1, "{shown}");
}

#[test]
fn a_codex_interruption_names_the_user_if_it_is_recorded() {
    let at = |n: u64, kind: &str, payload: &Value| json!({"timestamp": format!("2026-01-02T03:04:{n:02}Z"), "type": kind, "payload": payload});
    let aborted = |reason: &str, by: &str| {
        let text = lines(&[
            at(
                0,
                "session_meta",
                &json!({"id": "c", "cwd": "/p", "cli_version": "0.1", "timestamp": "2026-01-02T03:04:00Z"}),
            ),
            at(
                1,
                "event_msg",
                &json!({"type": "user_message", "message": "Go."}),
            ),
            at(
                2,
                "response_item",
                &json!({"type": "function_call", "call_id": "1", "name": "exec_command", "arguments": "{\"cmd\":\"make\"}"}),
            ),
            at(
                3,
                "response_item",
                &json!({"type": "function_call_output", "call_id": "1", "output": by}),
            ),
            at(
                4,
                "event_msg",
                &json!({"type": "turn_aborted", "reason": reason}),
            ),
        ]);
        page("rollout-c.jsonl", &text, "?tab=transcript").2
    };
    let user = aborted("interrupted", "Wall time: 0.5 seconds\naborted by user");
    let line = "Interrupted by the user · exec_command was cancelled";
    assert!(user.contains(line), "{user}");
    // The output of a search has the same words.
    let found = aborted(
        "interrupted",
        "aborted by user\nThe user interrupted\nOutput:\n",
    );
    assert!(found.contains("<span>Interrupted · "), "{found}");
    let found = aborted(
        "interrupted",
        "a.py:3: aborted by user\nb.py:9: The user interrupted",
    );
    assert!(found.contains("<span>Interrupted</span>"), "{found}");
    let other = aborted("replaced", "it was \"interrupted\"");
    assert!(!other.contains("class=\"dv\""), "{other}");
    let nobody = aborted("interrupted", "Process exited with code 0\nOutput:\n");
    assert!(nobody.contains("<span>Interrupted</span>"), "{nobody}");
    let replaced = aborted("replaced", "Process exited with code 0\nOutput:\n");
    assert!(!replaced.contains("class=\"dv\""), "{replaced}");
}

#[test]
fn the_lines_around_a_found_text_are_shown() {
    let output: String = (0..400).map(|n| format!("row {n}\n")).collect();
    let text = lines(&[
        user(1, &json!("Go.")),
        call(2, "c", "Bash", &json!({"command": "make"})),
        user(
            3,
            &json!([{"type": "tool_result", "tool_use_id": "c", "content": output}]),
        ),
        reply(4, "m", 9),
    ]);
    let (_dir, board, page) = page("s.jsonl", &text, "?tab=transcript");
    assert!(!page.contains("row 300"), "{page}");
    let key = segment(board.json("/api/runs")["runs"][0]["key"].as_str().unwrap());
    let found = board.get(&format!("/runs/{key}/transcript/found?find=ROW%20300"));
    assert!(
        found
            .text()
            .contains("data-steps=\"0\" data-hits=\"1\">1 match in 1 step</output>"),
        "{}",
        found.text()
    );
    let none = board.get(&format!("/runs/{key}/transcript/found?find=absent"));
    assert!(
        none.text().contains(">no matches</output>"),
        "{}",
        none.text()
    );
    for query in [
        "?tab=transcript&find=row+300",
        "/transcript/part?around=0&find=row+300",
    ] {
        let shown = board.get(&format!("/runs/{key}{query}")).text().to_owned();
        assert!(
            shown.contains("row 299\n<mark>row 300</mark>\nrow 301"),
            "{query}: {shown}"
        );
        assert!(
            shown.contains("<details class=\"tool\" open>"),
            "the call is open without scripts, too: {shown}"
        );
        assert!(!shown.contains("row 200\n"), "{query}: {shown}");
    }
}

/// Claude Code adds reminders to the user's messages, and its extensions for editors add what is open
/// there. A notice of a task in the background is no prompt either.
#[test]
fn what_a_program_adds_to_a_prompt_is_not_shown_as_the_users() {
    let added = |words: &str| json!({"type": "text", "text": format!("<system-reminder>\n{words}\n</system-reminder>\n")});
    let open = "<ide_opened_file>The user opened a.rs.</ide_opened_file>";
    let call = json!({"id": "m5", "role": "assistant", "model": "model-a", "stop_reason": "tool_use",
        "content": [{"type": "tool_use", "id": "t1", "name": "Read", "input": {"file_path": "a.rs"}}],
        "usage": {"input_tokens": 10, "output_tokens": 5}});
    let text = lines(&[
        user(1, &json!([added("first added")])),
        user(
            2,
            &json!([added("second added"), {"type": "text", "text": open}, {"type": "text", "text": "Fix it."}]),
        ),
        reply(3, "model-a", 100),
        user(
            4,
            &json!("<system-reminder>third added</system-reminder>\nAnd test it."),
        ),
        claude(5, "assistant", &call),
        user(
            6,
            &json!([{"type": "tool_result", "tool_use_id": "t1", "content": "x"}, added("fourth added"),
            {"type": "text", "text": "Be quick."}]),
        ),
        user(
            7,
            &json!("<task-notification>\n<status>completed</status>\n</task-notification>"),
        ),
        reply(8, "model-a", 120),
    ]);
    let (_dir, board, page) = page("s.jsonl", &text, "?tab=transcript");
    let run = &board.json("/api/runs")["runs"][0];
    assert_eq!(
        (&run["task"], &run["turns"]),
        (&"Fix it.".into(), &2.into()),
        "{run}"
    );
    let (_, page) = page.split_once("id=\"transcript\"").unwrap();
    for words in ["Fix it.", "And test it.", "Be quick."] {
        assert!(page.contains(words), "{words}: {page}");
    }
    for words in ["added", "opened", "task-notification"] {
        assert!(!page.contains(words), "{words}: {page}");
    }
    let key = segment(run["key"].as_str().unwrap());
    let markdown = board.get(&format!("/runs/{key}/transcript.md"));
    assert!(!markdown.text().contains("added"), "{}", markdown.text());
}

/// The user may write while a tool runs. The words are then next to its result.
#[test]
fn words_next_to_a_tool_result_are_the_users() {
    let droid = |n: u64, role: &str, content: Value| {
        json!({"type": "message", "id": format!("m{n}"), "timestamp": format!("2026-01-02T03:04:{n:02}Z"),
            "message": {"role": role, "content": content}})
    };
    let says = |words: &str| json!({"type": "text", "text": words});
    let session = lines(&[
        json!({"type": "session_start", "id": "s1", "title": "New Session", "cwd": "/p"}),
        droid(1, "user", json!([says("Build it.")])),
        droid(
            2,
            "assistant",
            json!([{"type": "tool_use", "id": "t1", "name": "Execute", "input": {}}]),
        ),
        droid(
            3,
            "user",
            json!([{"type": "tool_result", "tool_use_id": "t1", "content": "ok"},
            says("<system-reminder>added</system-reminder>"), says("Stop after that.")]),
        ),
        droid(4, "assistant", json!([says("It is built.")])),
    ]);
    let message = |role: &str, content: Value| json!({"role": role, "content": content});
    let result = json!({"type": "tool_result", "toolUseID": "t1", "run": {"status": "done", "result": "ok"}});
    let thread = json!({"v": 1, "id": "T-1", "created": 1, "messages": [
        message("user", json!([says("Build it.")])),
        message("assistant", json!([{"type": "tool_use", "id": "t1", "name": "Bash", "input": {}}])),
        message("user", json!([result, says("Stop after that.")])),
        message("assistant", json!([says("It is built.")])),
    ]});
    for (name, text) in [("s1.jsonl", session), ("T-1.json", thread.to_string())] {
        let (_dir, board, page) = page(name, &text, "?tab=transcript");
        let run = &board.json("/api/runs")["runs"][0];
        assert_eq!(
            (&run["steps"], &run["turns"]),
            (&2.into(), &1.into()),
            "{run}"
        );
        let (_, page) = page.split_once("id=\"transcript\"").unwrap();
        let place = |words: &str| {
            page.find(words)
                .unwrap_or_else(|| panic!("{name}: {words}: {page}"))
        };
        assert!(place("Build it.") < place("Stop after that."), "{name}");
        assert!(place("Stop after that.") < place("It is built."), "{name}");
        assert!(!page.contains("added"), "{name}");
    }
}

#[test]
fn the_steps_of_sub_agents_are_marked() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("sample_runs/tools/claude-code-stream");
    let board = Board::serve(&root);
    board.until_read();
    let page = |tab: &str| {
        let page = board.get(&format!("/runs/answered.jsonl?tab={tab}"));
        page.text().to_owned()
    };
    // The second of three steps.
    let transcript = page("transcript");
    assert_eq!(transcript.matches("<section class=\"ts").count(), 3);
    assert_eq!(transcript.matches("<p class=\"helper\">").count(), 1);
    assert!(
        transcript.contains("<section class=\"ts sub\" id=\"t1\""),
        "{transcript}"
    );
    assert_eq!(page("steps").matches("<em>a1</em>").count(), 1);
}

#[test]
fn a_transcript_has_the_pictures_of_its_steps() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus/q060");
    let board = Board::serve(&root);
    board.until_read();
    let page = board.get("/runs/q060_visual_desktop?tab=transcript");
    let body = page.text().to_owned();
    let picture = "/runs/q060_visual_desktop/steps/1/assets/0";
    assert!(body.contains(&format!("<img src=\"{picture}\"")), "{body}");
    assert_eq!(board.get(picture).status, 200);
}

#[test]
fn the_outline_has_the_cost_of_each_turn_and_prompts_without_a_reply() {
    let text = lines(&[
        user(1, &json!("Go.")),
        reply(2, "claude-sonnet-4-5-20250929", 1_000),
        user(3, &json!("And again.")),
    ]);
    let (_dir, _board, page) = page("s.jsonl", &text, "?tab=transcript");
    let (_, outline) = page.split_once("id=\"outline\"").unwrap();
    let (outline, _) = outline.split_once("</nav>").unwrap();
    assert!(
        outline.contains("2 prompts") && outline.contains("And again."),
        "{outline}"
    );
    // 1,000 tokens at $3 and 5 at $15 per million.
    assert!(outline.contains("1,005 tokens · ≈$0.0031"), "{outline}");
}

#[test]
fn the_run_of_a_coding_agent_opens_with_its_transcript() {
    let element = json!({"action": "create a.py\n", "observation": "ok", "response": "Let's go.", "state": "{}", "thought": "Let's go."});
    let swe = json!({"environment": "e", "trajectory": [element],
        "history": [{"role": "system", "content": "S"}, {"role": "user", "content": "Solve this."}], "info": {"exit_status": "submitted"}});
    let atif = json!({"schema_version": "ATIF-v1.4", "session_id": "s", "agent": {"name": "terminus-2", "version": "1"},
        "steps": [{"step_id": 1, "source": "user", "message": "Solve this."},
            {"step_id": 2, "source": "agent", "message": "Let's go.", "tool_calls":
                [{"tool_call_id": "c", "function_name": "create", "arguments": {"path": "a.py"}}],
             "observation": {"results": [{"source_call_id": "c", "content": "ok"}]}}]});
    for (name, document) in [("a.traj", swe), ("trajectory.json", atif)] {
        let (dir, _board, page) = page(name, &document.to_string(), "");
        let tabs = scraper::Html::parse_document(&page);
        let tabs = crate::html::texts(&tabs, "nav.tabs a");
        assert_eq!(tabs[..2], ["Transcript", "Steps 1"], "{name}");
        assert!(
            page.contains("id=\"transcript\"") && page.contains("Let&#39;s go."),
            "{name}: {page}"
        );
        let show = |more: &[&str]| {
            let shown = std::process::Command::new(crate::board::BINARY)
                .arg("show")
                .arg(dir.path().join(name))
                .args(more)
                .env("NO_COLOR", "1")
                .output()
                .unwrap();
            String::from_utf8(shown.stdout).unwrap()
        };
        let (read, listed) = (show(&[]), show(&["--steps"]));
        assert!(
            read.contains("> Solve this.") && read.contains("Let's go."),
            "{name}: {read}"
        );
        assert!(!listed.contains("> Solve this."), "{name}: {listed}");
    }
    let steps = "{\"step_id\": 0, \"decision\": {\"mode\": \"wait\"}}\n";
    let (_dir, _board, engine) = page("steps.jsonl", steps, "");
    let tabs = scraper::Html::parse_document(&engine);
    assert_eq!(crate::html::texts(&tabs, "nav.tabs a")[0], "Steps 1");
}

#[test]
fn a_wait_in_the_timeline_is_named_with_the_words_that_are_seen() {
    let mut later = [user(3, &json!("And again.")), reply(4, "model-a", 9)];
    for (n, record) in later.iter_mut().enumerate() {
        record["timestamp"] = json!(format!("2026-01-02T03:08:{:02}Z", 11 + n));
    }
    let text = lines(&[user(1, &json!("Go.")), reply(2, "model-a", 9)]) + &lines(&later);
    let (_dir, _board, page) = page("s.jsonl", &text, "?tab=timeline");
    let page = scraper::Html::parse_document(&page);
    let mut seen = 0;
    for block in page.select(&crate::html::selector("#timeline a[data-lane]")) {
        let words: String = block.text().collect();
        let label = block.attr("aria-label").unwrap_or_default();
        // axe ignores what is in brackets.
        let outside = label.split('(').next().unwrap_or_default();
        assert!(outside.contains(words.trim()), "{words} in {label}");
        seen += usize::from(!words.trim().is_empty());
    }
    assert_eq!(seen, 1, "the wait says how long it took");
}

#[test]
fn a_title_on_one_line_doesnt_repeat_the_prompt() {
    let title = json!({"type": "ai-title", "sessionId": "s", "aiTitle": "Go on. Then stop."});
    for (prompt, is_told) in [("Go on.\n\nThen stop.", false), ("Something else.", true)] {
        let text = lines(&[
            title.clone(),
            user(1, &json!(prompt)),
            reply(2, "model-a", 9),
        ]);
        let (_dir, _board, page) = page("s.jsonl", &text, "");
        let page = scraper::Html::parse_document(&page);
        assert_eq!(crate::html::texts(&page, "h1"), ["Go on. Then stop."]);
        let told = crate::html::texts(&page, "#runhead .task");
        assert_eq!(!told.is_empty(), is_told, "{told:?}");
    }
}

#[test]
fn the_verdict_in_a_line_is_apart_from_its_notes() {
    let text = lines(&[user(1, &json!("Go.")), reply(2, "model-a", 9)]);
    let (_dir, _board, page) = page("s.jsonl", &text, "");
    let page = scraper::Html::parse_document(&page);
    let line = crate::html::texts(&page, "#verdict-line > summary > :is(b, .vr)");
    assert_eq!(line, ["Finished at step 0", "inferred from \"end_turn\""]);
}

#[test]
fn a_turn_is_copied_at_the_prompt_that_got_a_reply() {
    let text = lines(&[
        user(1, &json!("Lost.")),
        user(2, &json!("Go.")),
        reply(3, "model-a", 9),
    ]);
    let (_dir, _board, page) = page("s.jsonl", &text, "?tab=transcript");
    let page = scraper::Html::parse_document(&page);
    let prompts: Vec<_> = page
        .select(&crate::html::selector("#transcript .you"))
        .map(|prompt| prompt.text().collect::<String>().contains("Copy turn"))
        .collect();
    assert_eq!(prompts, [false, true]);
}

#[test]
fn the_outline_says_how_turns_ended_and_prompts_are_markdown() {
    let bash = |n: u64| {
        let mut call = call(n, &format!("c{n}"), "Bash", &json!({"command": "make"}));
        call["message"]["usage"] = json!({"input_tokens": 1, "output_tokens": 1});
        call
    };
    let gives = |n: u64, id: &str| {
        user(
            n,
            &json!([{"type": "tool_result", "tool_use_id": id, "content": "made"}]),
        )
    };
    let text = lines(&[
        user(1, &json!("Run `make` <b>now</b>:\n\n- once\n- twice")),
        bash(2),
        gives(3, "c2"),
        user(
            4,
            &json!([{"type": "text", "text": "[Request interrupted by user]"}]),
        ),
        user(5, &json!("And test it.")),
        bash(6),
        gives(7, "c6"),
        user(8, &json!("Well?")),
        reply(9, "model-a", 9),
        user(10, &json!("Thanks.")),
        reply(11, "model-a", 9),
    ]);
    let (_dir, _board, page) = page("s.jsonl", &text, "?tab=transcript");
    let page = scraper::Html::parse_document(&page);
    let facts = crate::html::texts(&page, "#outline small");
    assert_eq!(facts.len(), 4, "{facts:?}");
    assert!(
        facts[0].ends_with("interrupted")
            && facts[1].ends_with("no answer")
            && !facts[2].contains("no answer")
            && !facts[3].contains("unknown"),
        "{facts:?}"
    );
    assert_eq!(
        crate::html::texts(&page, "#t0 .you code, #outline code, h1 code"),
        ["make", "make", "make"]
    );
    assert_eq!(crate::html::texts(&page, "#t0 .you li"), ["once", "twice"]);
    assert!(crate::html::texts(&page, "#t0 .you b").is_empty());
}
