//! What is sent, and answers that are as they should be.

use serde_json::{Value, json};

use super::endpoint::{Endpoint, Play, calls, message, piece, says};
use super::{KEY, address, client};
use crate::engine::{ChatModel, Message, Request, ToolCall, ToolSpec};
use crate::llm::{Endpoint as Address, Secret};
use crate::stop::Usage;

fn call(id: &str, name: &str, arguments: &str) -> ToolCall {
    ToolCall { id: id.to_owned(), name: name.to_owned(), arguments: arguments.to_owned() }
}

#[tokio::test]
async fn a_request_is_what_a_server_expects() {
    let endpoint = Endpoint::playing([says("hi")]);
    let settings = json!({"temperature": 0.5, "max_tokens": 9}).as_object().unwrap().clone();
    let asked = client(Address { settings, ..address(&endpoint) });
    let mut assistant = Message::assistant("");
    assistant.tool_calls = vec![call("c1", "sum", "{}")];
    let mut request = Request::new(vec![Message::system("be brief"), assistant, Message::tool("c1", "4")]);
    request.tools = vec![ToolSpec::new("sum", "Adds.", json!({"type": "object"}))];
    let reply = asked.client.complete(&request, &|_| ()).await.unwrap();
    assert_eq!((reply.text.as_str(), reply.attempts, reply.model.as_deref()), ("hi", 1, Some("tiny-1")));
    assert_eq!(reply.usage, Some(Usage { input: 11, output: 3, estimated: false }));

    let seen = endpoint.seen().remove(0);
    assert!(seen.head.starts_with("POST /v1/chat/completions HTTP/1.1\r\n"), "{}", seen.head);
    assert!(seen.head.contains(&format!("authorization: Bearer {KEY}\r\n")), "{}", seen.head);
    let function = json!({"name": "sum", "arguments": "{}"});
    let expected = json!({
        "model": "tiny", "temperature": 0.5, "max_tokens": 9,
        "messages": [
            {"role": "system", "content": "be brief"},
            {"role": "assistant", "content": "", "tool_calls": [{"id": "c1", "type": "function", "function": function}]},
            {"role": "tool", "content": "4", "tool_call_id": "c1"},
        ],
        "tools": [{"type": "function", "function":
            {"name": "sum", "description": "Adds.", "parameters": {"type": "object"}}}],
    });
    assert_eq!(seen.body, expected);
}

#[tokio::test]
async fn without_a_key_nothing_is_presented() {
    let endpoint = Endpoint::playing([says("hi")]);
    let asked = client(Address { key: Secret::new(None), ..address(&endpoint) });
    asked.ask().await.unwrap();
    assert!(!endpoint.seen()[0].head.contains("authorization"));
}

#[tokio::test]
async fn calls_of_tools_are_taken() {
    let endpoint = Endpoint::playing([calls("c7", "read_file", &json!({"path": "a"}))]);
    let reply = client(address(&endpoint)).ask().await.unwrap();
    assert_eq!((reply.text.as_str(), reply.tool_calls), ("", vec![call("c7", "read_file", r#"{"path":"a"}"#)]));
}

#[tokio::test]
async fn a_streamed_answer_is_heard_and_put_together() {
    let usage = json!({"choices": [], "usage": {"prompt_tokens": 5, "completion_tokens": 2}}).to_string();
    let endpoint = Endpoint::playing([Play::Events(vec![
        piece(&json!({"role": "assistant", "content": ""}), None),
        piece(&json!({"content": "Hel"}), None),
        piece(&json!({"content": "lo"}), None),
        piece(&json!({}), Some("stop")),
        usage,
        "[DONE]".to_owned(),
    ])]);
    let (reply, heard) = client(Address { stream: true, ..address(&endpoint) }).listen().await;
    let reply = reply.unwrap();
    assert_eq!((reply.text.as_str(), reply.finish_reason.as_deref()), ("Hello", Some("stop")));
    assert_eq!((heard.concat(), heard.len()), ("Hello".to_owned(), 2));
    assert_eq!(reply.usage, Some(Usage { input: 5, output: 2, estimated: false }));
    let body = &endpoint.seen()[0].body;
    assert_eq!((&body["stream"], &body["stream_options"]), (&json!(true), &json!({"include_usage": true})));
}

#[tokio::test]
async fn streamed_calls_are_put_together_by_index() {
    let part = |index: u64, rest: Value| {
        let mut part = rest;
        part["index"] = index.into();
        piece(&json!({"tool_calls": [part]}), None)
    };
    let endpoint = Endpoint::playing([Play::Events(vec![
        part(0, json!({"id": "a", "type": "function", "function": {"name": "read", "arguments": ""}})),
        part(1, json!({"id": "b", "function": {"name": "list", "arguments": "{\"pa"}})),
        part(0, json!({"function": {"arguments": "{\"x\""}})),
        part(1, json!({"function": {"arguments": "th\":1}"}})),
        part(0, json!({"function": {"arguments": ":2}"}})),
        piece(&json!({}), Some("tool_calls")),
    ])]);
    let reply = client(Address { stream: true, ..address(&endpoint) }).ask().await.unwrap();
    assert_eq!(reply.tool_calls, [call("a", "read", r#"{"x":2}"#), call("b", "list", r#"{"path":1}"#)]);
    assert_eq!(reply.usage, None, "nobody said what it cost");
}

#[tokio::test]
async fn streamed_calls_without_an_index_are_told_apart_by_id() {
    let part = |part: Value| piece(&json!({"tool_calls": [part]}), None);
    let endpoint = Endpoint::playing([Play::Events(vec![
        part(json!({"id": "a", "function": {"name": "read", "arguments": "{\"x\""}})),
        part(json!({"function": {"arguments": ":2}"}})),
        part(json!({"id": "b", "function": {"name": "read", "arguments": "{}"}})),
        piece(&json!({}), Some("tool_calls")),
    ])]);
    let reply = client(Address { stream: true, ..address(&endpoint) }).ask().await.unwrap();
    assert_eq!(reply.tool_calls, [call("a", "read", r#"{"x":2}"#), call("b", "read", "{}")]);
}

#[tokio::test]
async fn a_server_that_does_not_stream_is_understood() {
    let endpoint = Endpoint::playing([says("whole")]);
    let (reply, heard) = client(Address { stream: true, ..address(&endpoint) }).listen().await;
    assert_eq!((reply.unwrap().text.as_str(), heard), ("whole", vec!["whole".to_owned()]));
}

#[tokio::test]
async fn odd_shapes_are_understood() {
    let parts = json!([{"type": "text", "text": "a"}, {"type": "other"}, {"type": "text", "text": "b"}]);
    let object =
        json!({"tool_calls": [{"function": {"name": "f", "arguments": {"x": 1}}, "new": true}], "content": null});
    let bare = json!({"choices": [{"message": {"content": "ok"}}], "usage": null, "error": null}).to_string();
    let declines = json!({"content": null, "refusal": "I will not."});
    let endpoint = Endpoint::playing([
        message(&json!({"content": parts})),
        message(&object),
        Play::Whole(200, "", bare),
        message(&declines),
    ]);
    let asked = client(address(&endpoint));
    assert_eq!(asked.ask().await.unwrap().text, "ab");
    assert_eq!(asked.ask().await.unwrap().tool_calls, [call("", "f", r#"{"x":1}"#)]);
    let bare = asked.ask().await.unwrap();
    assert_eq!((bare.text.as_str(), bare.usage, bare.model, bare.finish_reason), ("ok", None, None, None));
    assert_eq!(asked.ask().await.unwrap().text, "I will not.");
}

#[tokio::test]
async fn a_key_that_comes_back_is_dropped() {
    let pieces = KEY.split_at(7);
    let endpoint = Endpoint::playing([
        message(&json!({"content": format!("your key is {KEY}"), "tool_calls": [
            {"id": KEY, "function": {"name": "f", "arguments": format!("{{\"k\":\"{KEY}\"}}")}}]})),
        Play::Events(vec![
            piece(&json!({"content": format!("key {}", pieces.0)}), None),
            piece(&json!({"content": format!("{} there", pieces.1)}), Some("stop")),
        ]),
    ]);
    let asked = client(address(&endpoint));
    let (reply, heard) = asked.listen().await;
    let reply = reply.unwrap();
    assert_eq!((reply.text.as_str(), heard.concat()), ("your key is [key]", "your key is [key]".to_owned()));
    assert_eq!(reply.tool_calls, [call("[key]", "f", r#"{"k":"[key]"}"#)]);
    let (reply, heard) = asked.listen().await;
    assert_eq!((reply.unwrap().text.as_str(), heard.concat()), ("key [key] there", "key [key] there".to_owned()));
    assert!(!format!("{:?}", asked.client).contains(KEY));
}
