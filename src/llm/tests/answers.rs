//! Tests requests, and correct replies.

use serde_json::{Value, json};

use super::endpoint::{Endpoint, Play, calls, message, piece, says};
use super::{KEY, address, client};
use crate::engine::{ChatModel, Message, Request, ToolCall, ToolSpec};
use crate::llm::{Client, Endpoint as Address, Secret};
use crate::stop::Usage;

fn call(id: &str, name: &str, arguments: &str) -> ToolCall {
    ToolCall::new(id, name, arguments)
}

#[tokio::test]
async fn a_request_is_what_a_server_expects() {
    let endpoint = Endpoint::playing([says("hi")]);
    let settings = json!({"temperature": 0.5, "max_tokens": 9})
        .as_object()
        .unwrap()
        .clone();
    let asked = client(Address {
        settings,
        ..address(&endpoint)
    });
    let mut assistant = Message::assistant("");
    assistant.tool_calls = vec![call("c1", "sum", "{}")];
    let mut request = Request::new(vec![
        Message::system("be brief"),
        assistant,
        Message::tool("c1", "4"),
    ]);
    request.tools = vec![ToolSpec::new("sum", "Adds.", json!({"type": "object"}))];
    let reply = asked.client.complete(&request, &|_| ()).await.unwrap();
    assert_eq!(
        (reply.text.as_str(), reply.attempts, reply.model.as_deref()),
        ("hi", 1, Some("tiny-1"))
    );
    assert_eq!(reply.usage, Some(Usage::reported(11, 3)));

    let seen = endpoint.seen().remove(0);
    assert!(
        seen.head
            .starts_with("POST /v1/chat/completions HTTP/1.1\r\n"),
        "{}",
        seen.head
    );
    assert!(
        seen.head
            .contains(&format!("authorization: Bearer {KEY}\r\n")),
        "{}",
        seen.head
    );
    assert!(
        seen.head.contains("user-agent: trace-board/"),
        "{}",
        seen.head
    );
    let function = json!({"name": "sum", "arguments": "{}"});
    let expected = json!({
        "model": "tiny", "temperature": 0.5, "max_tokens": 9,
        "messages": [
            {"role": "system", "content": "be brief"},
            {"role": "assistant", "content": null, "tool_calls": [{"id": "c1", "type": "function", "function": function}]},
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
    let asked = client(Address {
        key: Secret::new(None),
        ..address(&endpoint)
    });
    asked.ask().await.unwrap();
    assert!(!endpoint.seen()[0].head.contains("authorization"));
}

#[tokio::test]
async fn calls_of_tools_are_taken() {
    let endpoint = Endpoint::playing([calls("c7", "read_file", &json!({"path": "a"}))]);
    let reply = client(address(&endpoint)).ask().await.unwrap();
    assert_eq!(
        (reply.text.as_str(), reply.tool_calls),
        ("", vec![call("c7", "read_file", r#"{"path":"a"}"#)])
    );
}

#[tokio::test]
async fn a_streamed_answer_is_heard_and_put_together() {
    let usage =
        json!({"choices": [], "usage": {"prompt_tokens": 5, "completion_tokens": 2}}).to_string();
    let endpoint = Endpoint::playing([Play::Events(vec![
        piece(&json!({"role": "assistant", "content": ""}), None),
        piece(&json!({"content": "Hel"}), None),
        piece(&json!({"content": "lo"}), None),
        piece(&json!({}), Some("stop")),
        usage,
        "[DONE]".to_owned(),
    ])]);
    let (reply, heard) = client(Address {
        stream: true,
        ..address(&endpoint)
    })
    .listen()
    .await;
    let reply = reply.unwrap();
    assert_eq!(
        (reply.text.as_str(), reply.finish_reason.as_deref()),
        ("Hello", Some("stop"))
    );
    assert_eq!((heard.concat(), heard.len()), ("Hello".to_owned(), 2));
    assert_eq!(reply.usage, Some(Usage::reported(5, 2)));
    let body = &endpoint.seen()[0].body;
    assert_eq!(
        (&body["stream"], &body["stream_options"]),
        (&json!(true), &json!({"include_usage": true}))
    );
}

#[tokio::test]
async fn streamed_calls_are_put_together_by_index() {
    let part = |index: u64, rest: Value| {
        let mut part = rest;
        part["index"] = index.into();
        piece(&json!({"tool_calls": [part]}), None)
    };
    let endpoint = Endpoint::playing([Play::Events(vec![
        part(
            0,
            json!({"id": "a", "type": "function", "function": {"name": "read", "arguments": ""}}),
        ),
        part(
            1,
            json!({"id": "b", "function": {"name": "list", "arguments": "{\"pa"}}),
        ),
        part(0, json!({"function": {"arguments": "{\"x\""}})),
        part(1, json!({"function": {"arguments": "th\":1}"}})),
        part(0, json!({"function": {"arguments": ":2}"}})),
        piece(&json!({}), Some("tool_calls")),
    ])]);
    let reply = client(Address {
        stream: true,
        ..address(&endpoint)
    })
    .ask()
    .await
    .unwrap();
    assert_eq!(
        reply.tool_calls,
        [
            call("a", "read", r#"{"x":2}"#),
            call("b", "list", r#"{"path":1}"#)
        ]
    );
    assert_eq!(reply.usage, None, "no usage was reported");
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
    let reply = client(Address {
        stream: true,
        ..address(&endpoint)
    })
    .ask()
    .await
    .unwrap();
    assert_eq!(
        reply.tool_calls,
        [call("a", "read", r#"{"x":2}"#), call("b", "read", "{}")]
    );
}

#[tokio::test]
async fn a_server_that_does_not_stream_is_understood() {
    let endpoint = Endpoint::playing([says("whole")]);
    let (reply, heard) = client(Address {
        stream: true,
        ..address(&endpoint)
    })
    .listen()
    .await;
    assert_eq!(
        (reply.unwrap().text.as_str(), heard),
        ("whole", vec!["whole".to_owned()])
    );
}

#[tokio::test]
async fn odd_shapes_are_understood() {
    let parts =
        json!([{"type": "text", "text": "a"}, {"type": "other"}, {"type": "text", "text": "b"}]);
    let object = json!({"tool_calls": [{"function": {"name": "f", "arguments": {"x": 1}}, "new": true}], "content": null});
    let bare = json!({"choices": [{"message": {"content": "ok"}}], "usage": null, "error": null})
        .to_string();
    let declines = json!({"content": null, "refusal": "I will not."});
    let endpoint = Endpoint::playing([
        message(&json!({"content": parts})),
        message(&object),
        Play::Whole(200, "", bare),
        message(&declines),
    ]);
    let asked = client(address(&endpoint));
    assert_eq!(asked.ask().await.unwrap().text, "ab");
    let mut calls = asked.ask().await.unwrap().tool_calls;
    assert_eq!(
        std::mem::take(&mut calls[0].fields).get("new"),
        Some(&json!(true)),
        "unknown fields are kept"
    );
    assert_eq!(
        calls,
        [call("call_0", "f", r#"{"x":1}"#)],
        "each call gets an id"
    );
    let bare = asked.ask().await.unwrap();
    assert_eq!(
        (
            bare.text.as_str(),
            bare.usage,
            bare.model,
            bare.finish_reason
        ),
        ("ok", None, None, None)
    );
    assert_eq!(asked.ask().await.unwrap().text, "I will not.");
}

#[tokio::test]
async fn a_key_that_comes_back_is_dropped() {
    let pieces = KEY.split_at(7);
    let endpoint = Endpoint::playing([
        message(
            &json!({"content": format!("your key is {KEY}"), "tool_calls": [
            {"id": KEY, "function": {"name": "f", "arguments": format!("{{\"k\":\"{KEY}\"}}")}}]}),
        ),
        Play::Events(vec![
            piece(&json!({"content": format!("key {}", pieces.0)}), None),
            piece(
                &json!({"content": format!("{} there", pieces.1)}),
                Some("stop"),
            ),
        ]),
    ]);
    let asked = client(address(&endpoint));
    let (reply, heard) = asked.listen().await;
    let reply = reply.unwrap();
    assert_eq!(
        (reply.text.as_str(), heard.concat()),
        ("your key is [key]", "your key is [key]".to_owned())
    );
    assert_eq!(reply.tool_calls, [call("[key]", "f", r#"{"k":"[key]"}"#)]);
    let (reply, heard) = asked.listen().await;
    assert_eq!(
        (reply.unwrap().text.as_str(), heard.concat()),
        ("key [key] there", "key [key] there".to_owned())
    );
    assert!(!format!("{:?}", asked.client).contains(KEY));
}

#[tokio::test]
async fn what_a_message_has_besides_its_text_is_kept_and_goes_back() {
    let call = json!({"id": "c1", "type": "function", "extra_content": {"signature": "s"},
        "function": {"name": "f", "arguments": "{}", "strict": true}});
    let said = json!({"role": "assistant", "content": null, "refusal": null, "annotations": [], "tool_calls": [call],
        "reasoning_content": format!("I should look with {KEY}")});
    let endpoint = Endpoint::playing([message(&said), says("done")]);
    let asked = client(address(&endpoint));
    let reply = asked.ask().await.unwrap();
    assert_eq!(
        serde_json::to_value(&reply.fields).unwrap(),
        json!({"reasoning_content": "I should look with [key]"})
    );
    let mut assistant = Message::assistant("");
    (assistant.tool_calls, assistant.fields) = (reply.tool_calls, reply.fields);
    let request = Request::new(vec![
        Message::user("hello"),
        assistant,
        Message::tool("c1", "4"),
    ]);
    asked.client.complete(&request, &|_| ()).await.unwrap();
    let back = endpoint.seen().remove(1).body["messages"][1].clone();
    let expected = json!({"role": "assistant", "content": null, "tool_calls": [call],
        "reasoning_content": "I should look with [key]"});
    assert_eq!(back, expected);
}

#[tokio::test]
async fn a_streamed_thought_is_put_together() {
    let details = |more: Value| piece(&json!({"reasoning_details": [more]}), None);
    let endpoint = Endpoint::playing([Play::Events(vec![
        piece(
            &json!({"role": "assistant", "content": "", "reasoning_content": "first "}),
            None,
        ),
        piece(&json!({"reasoning_content": "then"}), None),
        details(json!({"index": 0, "type": "reasoning.text", "text": "a"})),
        details(json!({"index": 0, "type": "reasoning.text", "text": "b", "signature": "s"})),
        piece(&json!({"content": "so"}), Some("stop")),
    ])]);
    let (reply, heard) = client(Address {
        stream: true,
        ..address(&endpoint)
    })
    .listen()
    .await;
    let reply = reply.unwrap();
    assert_eq!(
        (reply.text.as_str(), heard.concat()),
        ("so", "so".to_owned()),
        "a thought isn't an answer"
    );
    let whole = json!([{"index": 0, "type": "reasoning.text", "text": "ab", "signature": "s"}]);
    assert_eq!(
        serde_json::to_value(reply.fields).unwrap(),
        json!({"reasoning_content": "first then", "reasoning_details": whole})
    );
}

#[tokio::test]
async fn a_content_with_a_thought_in_it_stays_whole() {
    let content = json!([{"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}, {"type": "text", "text": "42"}]);
    let parts = content.as_array().unwrap();
    let endpoint = Endpoint::playing([
        message(&json!({"content": content})),
        Play::Events(vec![
            piece(&json!({"content": [parts[0]]}), None),
            piece(&json!({"content": "42"}), Some("stop")),
        ]),
    ]);
    let asked = client(address(&endpoint));
    for _ in 0..2 {
        let reply = asked.ask().await.unwrap();
        assert_eq!(
            (reply.text.as_str(), &reply.fields["content"]),
            ("42", &content)
        );
    }
}

#[tokio::test]
async fn tokens_of_the_cache_and_of_the_thought_are_told_apart() {
    let usage = |usage: Value| {
        let body = json!({"choices": [{"message": {"content": "x"}, "finish_reason": "stop"}], "usage": usage});
        Play::Whole(200, "", body.to_string())
    };
    let endpoint = Endpoint::playing([
        usage(
            json!({"prompt_tokens": 100, "completion_tokens": 50, "prompt_tokens_details": {"cached_tokens": 80},
            "completion_tokens_details": {"reasoning_tokens": 40}, "total_tokens": 150}),
        ),
        usage(
            json!({"prompt_tokens": 100, "completion_tokens": 10, "prompt_cache_hit_tokens": 60,
            "completion_tokens_details": {"reasoning_tokens": 40}, "total_tokens": 150}),
        ),
    ]);
    let asked = client(address(&endpoint));
    let expected = Usage {
        cached: Some(80),
        reasoning: Some(40),
        ..Usage::reported(100, 50)
    };
    assert_eq!(asked.ask().await.unwrap().usage, Some(expected));
    let beside = Usage {
        cached: Some(60),
        ..expected
    };
    assert_eq!(
        asked.ask().await.unwrap().usage,
        Some(beside),
        "reasoning tokens that are counted separately are added"
    );
}

#[tokio::test]
async fn numbers_that_are_no_counts_of_tokens_are_unknown() {
    let usage = |prompt: Value, completion: Value, cached: Value| {
        let usage = json!({"prompt_tokens": prompt, "completion_tokens": completion,
            "prompt_tokens_details": {"cached_tokens": cached}});
        let body = json!({"choices": [{"message": {"content": "x"}, "finish_reason": "stop"}], "usage": usage});
        Play::Whole(200, "", body.to_string())
    };
    let most = u64::from(u32::MAX);
    let endpoint = Endpoint::playing([
        usage(json!(u64::MAX), json!(5), json!(0)),
        usage(json!(10), json!(most + 1), json!(0)),
        usage(json!(-5), json!(5), json!(0)),
        usage(json!(10), json!("7"), json!(0)),
        usage(json!(10), json!(1.5), json!(0)),
        usage(json!(10), json!(most), json!(u64::MAX)),
    ]);
    let asked = client(address(&endpoint));
    for _ in 0..5 {
        assert_eq!(asked.ask().await.unwrap().usage, None);
    }
    let known = asked.ask().await.unwrap().usage.unwrap();
    assert_eq!((known.input, known.output, known.cached), (10, most, None));
}

#[tokio::test]
async fn a_service_that_refuses_thoughts_is_asked_without_them() {
    let refused = || {
        let message = "messages.1: property 'reasoning_content' is unsupported";
        Play::Whole(400, "", json!({"error": {"message": message}}).to_string())
    };
    let request = || {
        let mut assistant = Message::assistant("yes");
        assistant
            .fields
            .insert("reasoning_content".to_owned(), "hm".into());
        Request::new(vec![
            Message::user("hello"),
            assistant,
            Message::user("why?"),
        ])
    };
    let endpoint = Endpoint::playing([refused(), says("one"), says("two"), refused(), refused()]);
    let asked = client(address(&endpoint));
    let first = asked.client.complete(&request(), &|_| ()).await.unwrap();
    assert_eq!((first.text.as_str(), first.attempts), ("one", 2));
    asked.client.complete(&request(), &|_| ()).await.unwrap();
    let sent: Vec<_> = endpoint
        .seen()
        .iter()
        .map(|seen| seen.body["messages"][1].get("reasoning_content").is_some())
        .collect();
    assert_eq!(sent, [true, false, false], "the field is refused only once");
    let insisting = client(Address {
        send_fields: Some(true),
        ..address(&endpoint)
    });
    let error = insisting
        .client
        .complete(&request(), &|_| ())
        .await
        .unwrap_err();
    assert_eq!(error.attempts, 1, "{error}");
    assert!(asked.waits().is_empty());
}

#[tokio::test]
async fn a_client_needs_only_an_address_and_a_model() {
    let endpoint = Endpoint::playing([says("hi"), says("hi again")]);
    let request = Request::new(vec![Message::user("hello")]);
    let plain = Client::openai(&endpoint.base_url, "tiny").unwrap();
    assert_eq!(plain.complete(&request, &|_| ()).await.unwrap().text, "hi");
    let with_key = Address::new(&endpoint.base_url, "tiny")
        .key(KEY)
        .setting("temperature", 0);
    let with_key = Client::new(with_key).unwrap();
    with_key.complete(&request, &|_| ()).await.unwrap();
    let seen = endpoint.seen();
    let messages = json!([{"role": "user", "content": "hello"}]);
    assert_eq!(seen[0].body, json!({"model": "tiny", "messages": messages}));
    assert!(!seen[0].head.contains("authorization"), "{}", seen[0].head);
    assert_eq!(seen[1].body["temperature"], 0);
    let bearer = format!("authorization: Bearer {KEY}\r\n");
    assert!(seen[1].head.contains(&bearer), "{}", seen[1].head);
}
