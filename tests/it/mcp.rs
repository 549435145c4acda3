//! Tests that `board mcp` writes only protocol messages to its streams. Its answers are tested in
//! the library, and by real clients.

use std::io::Write as _;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::board::BINARY;
use crate::disk::corpus;

#[test]
fn a_talk_with_a_program_has_nothing_on_stdout_but_answers_and_ends_with_its_input() {
    let mut command = Command::new(BINARY);
    command
        .args(["mcp", "--no-cache"])
        .arg(corpus().join("q060/q060_handoff"))
        .arg("/there/is/none");
    let mut talk = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    let params = r#"{"name":"why","arguments":{"run":"q060_handoff"}}"#;
    let lines = format!(
        "{{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}}\n{{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"tools/call\",\"params\":{params}}}\n"
    );
    talk.stdin
        .take()
        .unwrap()
        .write_all(lines.as_bytes())
        .unwrap();
    let output = talk.wait_with_output().unwrap();
    let (stdout, stderr) = (
        String::from_utf8(output.stdout).unwrap(),
        String::from_utf8(output.stderr).unwrap(),
    );
    assert_eq!(output.status.code(), Some(0), "{stderr}");
    assert!(
        stderr.contains("there is no directory /there/is/none yet"),
        "{stderr}"
    );
    let mut ids: Vec<_> = stdout
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap())
        .map(|answer| (answer["id"].as_u64(), answer["result"].is_object()))
        .collect();
    ids.sort();
    assert_eq!(ids, [(Some(1), true), (Some(2), true)]);
}
