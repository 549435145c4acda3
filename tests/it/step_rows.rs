//! Tests the rows of the list of steps and the strip above it, with a session built line by line.

use serde_json::{Value, json};

use crate::board::Board;
use crate::html::{attributes, page, texts};

const ID: &str = "5f0c7a52-6d0e-4a53-9b0c-0f6f2b3f1a02";

/// Writes a Claude Code session in `/home/a/proj`, a second per line.
fn session(lines: &[Value]) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let mut text = String::new();
    for (n, line) in lines.iter().enumerate() {
        let parent = n.checked_sub(1).map(|before| format!("u{before}"));
        let mut whole = json!({"sessionId": ID, "timestamp": format!("2026-05-04T09:00:{n:02}.000Z"),
            "cwd": "/home/a/proj", "uuid": format!("u{n}"), "parentUuid": parent, "isSidechain": false});
        for (key, value) in line.as_object().unwrap() {
            whole[key.as_str()] = value.clone();
        }
        text += &format!("{whole}\n");
    }
    std::fs::write(dir.path().join(format!("{ID}.jsonl")), text).unwrap();
    dir
}

fn user(text: &str) -> Value {
    json!({"type": "user", "message": {"role": "user", "content": text}})
}

/// A reply whose request had 100 new input tokens and `cached` cached ones.
fn reply(id: &str, finish: &str, cached: u64, content: &Value) -> Value {
    json!({"type": "assistant", "message": {"id": id, "model": "model-a", "stop_reason": finish, "content": [content],
        "usage": {"input_tokens": 100, "cache_read_input_tokens": cached, "output_tokens": 5}}})
}

fn calls(id: &str, cached: u64, tool: &str, input: &Value) -> Value {
    let call = json!({"type": "tool_use", "id": format!("c{id}"), "name": tool, "input": input});
    reply(id, "tool_use", cached, &call)
}

fn gives(id: &str, text: &str, is_error: bool) -> Value {
    json!({"type": "user", "message": {"content": [
        {"type": "tool_result", "tool_use_id": format!("c{id}"), "content": text, "is_error": is_error}]}})
}

fn says(id: &str, cached: u64, text: &str) -> Value {
    reply(
        id,
        "end_turn",
        cached,
        &json!({"type": "text", "text": text}),
    )
}

#[test]
fn a_row_says_what_the_step_did() {
    let edit = json!({"file_path": "/home/a/proj/src/lib.rs", "old_string": "one\n", "new_string": "two\nthree\n"});
    let dir = session(&[
        user("Mend the library.\nIt is broken."),
        calls("0", 0, "Edit", &edit),
        gives("0", "The file has been updated.", false),
        calls("1", 300, "Bash", &json!({"command": "cargo test"})),
        gives(
            "1",
            "Exit code 1\nrunning 1 test\nsrc/lib.rs:3:1: error: no such value",
            true,
        ),
        says("2", 400, "It **fails**."),
        user("Read it again."),
        calls(
            "3",
            500,
            "Read",
            &json!({"file_path": "/home/a/proj/src/lib.rs", "offset": 3, "limit": 4}),
        ),
        gives("3", "3\tthree", false),
        says("4", 900, "Done."),
    ]);
    let board = Board::serve(dir.path());
    board.until_read();
    let run = page(&board, &format!("/runs/{ID}.jsonl?tab=steps&step=0"));
    let words = |what: &str| -> Vec<String> {
        let joined = |text: &String| text.split_whitespace().collect::<Vec<_>>().join(" ");
        texts(&run, what).iter().map(joined).collect()
    };
    assert_eq!(
        words("#steprows li > a > span:nth-of-type(2)"),
        [
            "Edit lib.rs +2 −1",
            "Bash cargo test ✗ src/lib.rs:3:1: error: no such value",
            "Reply: It **fails**.",
            "Read lib.rs:3–6",
            "Reply: Done.",
        ]
    );
    assert_eq!(
        words("#steprows li.segment"),
        [
            "Turn 1 Mend the library. It is broken. 3 steps · 5.0 s",
            "Turn 2 Read it again. 2 steps · 3.0 s",
        ]
    );
    // 2,600 input tokens, of which 2,100 were cached. The window isn't recorded.
    let strip = words("#strip .strip-words li");
    assert!(
        strip.contains(&"peak context 1,000 tokens at step 4, context window unknown".to_owned())
            && strip.contains(&"81% of the input cached".to_owned()),
        "{strip:?}"
    );
    let lines = attributes(&run, "#steprows", "data-lines");
    assert_eq!(lines, ["7"], "five steps and two headings");
}

#[test]
fn the_verdict_is_open_until_a_step_is_chosen() {
    let dir = session(&[user("Go."), says("0", 0, "Done.")]);
    let board = Board::serve(dir.path());
    board.until_read();
    let opens = |query: &str| {
        let run = page(&board, &format!("/runs/{ID}.jsonl?{query}"));
        assert_eq!(texts(&run, "#verdict-line > summary").len(), 1);
        attributes(&run, "#verdict-line", "open").len()
    };
    assert_eq!(opens("tab=steps"), 1);
    for query in ["step=0", "tab=transcript", "tab=events", "tab=files"] {
        assert_eq!(opens(query), 0, "{query}");
    }
}

#[test]
fn a_small_context_is_visible_in_the_strip() {
    let small = |id: &str, input: u64| {
        let mut reply = says(id, 0, "Done.");
        reply["message"]["model"] = json!("claude-sonnet-4-5-20250929");
        reply["message"]["usage"]["input_tokens"] = json!(input);
        reply
    };
    let dir = session(&[user("Go."), small("0", 40), user("On."), small("1", 1_000)]);
    let board = Board::serve(dir.path());
    board.until_read();
    let run = page(&board, &format!("/runs/{ID}.jsonl"));
    let words = texts(&run, "#strip .strip-words li").join("\n");
    assert!(words.contains("1,000 of 200k tokens"), "{words}");
    let numbers = |path: &str| -> Vec<f64> {
        let split = path.split(|c: char| c.is_ascii_alphabetic() || c == ' ');
        split.filter_map(|number| number.parse().ok()).collect()
    };
    let lanes = ["#strip path.ctx", "#strip path.ctx-new"];
    let paths: Vec<String> = lanes
        .iter()
        .flat_map(|lane| attributes(&run, lane, "d"))
        .collect();
    let heights: Vec<f64> = paths
        .iter()
        .flat_map(|path| {
            let numbers = numbers(path);
            let base = numbers[1];
            path.split('V')
                .skip(1)
                .map(move |y| base - numbers_of(y))
                .collect::<Vec<_>>()
        })
        .collect();
    // It's visible, but much lower than a context of a third of the window.
    let peak = heights.iter().copied().fold(0.0, f64::max);
    assert!(
        (3.0..5.0).contains(&peak) && heights.contains(&2.0),
        "{heights:?} in {paths:?}"
    );
}

/// Returns the number that a part of a path begins with.
fn numbers_of(path: &str) -> f64 {
    let end = path.find(|c: char| c.is_ascii_alphabetic());
    path[..end.unwrap_or(path.len())].parse().unwrap()
}
