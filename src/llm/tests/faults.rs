//! Tests faulty replies: which ones are retried, with which delays, and how the others are
//! reported.

use std::time::Duration;

use serde_json::json;

use super::endpoint::{Endpoint, Play, message, piece, says};
use super::{KEY, address, client};
use crate::engine::{ChatModel, ModelError, ModelErrorKind, Request};
use crate::llm::{Client, Endpoint as Address, Retry, Secret, Timeouts};
use crate::stop::Usage;

fn fails(status: u16, message: &str) -> Play {
    Play::Whole(
        status,
        "",
        json!({"error": {"message": message, "type": "some_error"}}).to_string(),
    )
}

/// Sends a request to a server with these responses, and returns the error.
async fn error(plays: impl IntoIterator<Item = Play>) -> ModelError {
    let endpoint = Endpoint::playing(plays);
    client(Address {
        retry: Retry {
            retries: 0,
            ..Retry::default()
        },
        ..address(&endpoint)
    })
    .ask()
    .await
    .unwrap_err()
}

#[tokio::test]
async fn a_server_that_fails_is_asked_again_after_a_growing_wait() {
    let endpoint = Endpoint::playing([fails(500, "oops"), fails(503, "busy"), says("at last")]);
    let asked = client(address(&endpoint));
    let reply = asked.ask().await.unwrap();
    assert_eq!((reply.text.as_str(), reply.attempts), ("at last", 3));
    let waits = asked.waits();
    let bounds = [(250, 500), (500, 1000)];
    assert_eq!(waits.len(), 2);
    for (wait, (least, most)) in waits.iter().zip(bounds) {
        assert!((least..=most).contains(&wait.as_millis()), "{waits:?}");
    }
}

#[tokio::test]
async fn a_server_is_not_asked_for_ever() {
    let endpoint = Endpoint::playing([
        fails(500, "1"),
        fails(500, "2"),
        fails(500, "3"),
        says("too late"),
    ]);
    let asked = client(address(&endpoint));
    let error = asked.ask().await.unwrap_err();
    assert_eq!(
        (error.kind, error.attempts, endpoint.seen().len()),
        (ModelErrorKind::GivenUp, 3, 3)
    );
    assert!(
        error
            .message
            .ends_with(": HTTP 500 Internal Server Error: 3 (3 attempts)"),
        "{error}"
    );
}

#[tokio::test]
async fn what_a_server_asks_for_is_obeyed() {
    let date =
        "date: Sun, 06 Nov 1994 08:49:37 GMT\r\nretry-after: Sun, 06 Nov 1994 08:49:58 GMT\r\n";
    let endpoint = Endpoint::playing([
        Play::Whole(429, "retry-after: 7\r\n", "slow down".to_owned()),
        Play::Whole(503, date, String::new()),
        says("ok"),
    ]);
    let asked = client(address(&endpoint));
    assert_eq!(asked.ask().await.unwrap().text, "ok");
    assert_eq!(asked.waits(), [7, 21].map(Duration::from_secs));
}

#[tokio::test]
async fn nobody_waits_longer_than_all_waits_may_take() {
    let endpoint = Endpoint::playing([
        Play::Whole(429, "retry-after: 100\r\n", String::new()),
        Play::Whole(429, "retry-after: 100\r\n", "come back tomorrow".to_owned()),
    ]);
    let asked = client(address(&endpoint));
    let error = asked.ask().await.unwrap_err();
    assert_eq!(
        (error.attempts, error.retry_after),
        (2, Some(Duration::from_secs(100)))
    );
    assert_eq!(
        asked.waits(),
        [Duration::from_secs(100)],
        "the second wait would exceed two minutes"
    );
    let told = "come back tomorrow; it says to retry after 100 s (2 attempts). Another attempt would exceed the limit of 120 s per reply";
    assert!(error.message.ends_with(told), "{error}");
}

#[tokio::test]
async fn nobody_waits_longer_than_the_run_may_take() {
    let endpoint = Endpoint::playing([
        Play::Whole(429, "retry-after: 30\r\n", "busy".to_owned()),
        says("too late"),
    ]);
    let asked = client(address(&endpoint));
    let request = Request {
        time_left: Some(Duration::from_secs(20)),
        ..Request::default()
    };
    let error = asked.client.complete(&request, &|_| ()).await.unwrap_err();
    assert_eq!(
        (error.kind, asked.waits().len()),
        (ModelErrorKind::GivenUp, 0)
    );
    assert!(
        error.message.ends_with(
            ": busy; it says to retry after 30 s. Another attempt would exceed the run's remaining time"
        ),
        "{error}"
    );
}

#[tokio::test]
async fn half_a_character_is_no_reason_to_lose_an_answer() {
    let body = r#"{"choices": [{"message": {"content": "a\ud83d b"}, "finish_reason": "stop"}]}"#;
    let endpoint = Endpoint::playing([Play::Whole(200, "", body.to_owned())]);
    assert_eq!(
        client(address(&endpoint)).ask().await.unwrap().text,
        "a\u{fffd} b"
    );
    let piece = r#"{"choices": [{"delta": {"content": "a\ude00 b"}, "finish_reason": "stop"}]}"#;
    let endpoint = Endpoint::playing([Play::Events(vec![piece.to_owned()])]);
    assert_eq!(
        client(address(&endpoint)).ask().await.unwrap().text,
        "a\u{fffd} b"
    );
}

#[tokio::test]
async fn an_answer_without_end_is_not_asked_for_again() {
    let endpoint = Endpoint::playing([says(&"x".repeat(17 << 20)), says("short")]);
    let error = client(address(&endpoint)).ask().await.unwrap_err();
    assert_eq!((error.kind, error.attempts), (ModelErrorKind::Fatal, 1));
    assert!(
        error.message.ends_with(": the reply is longer than 16 MiB"),
        "{error}"
    );
}

#[tokio::test]
async fn a_refusal_is_final() {
    for (status, again) in [
        (400, false),
        (401, false),
        (403, false),
        (404, false),
        (422, false),
        (408, true),
        (409, true),
    ] {
        let endpoint = Endpoint::playing([fails(status, "no"), says("ok")]);
        let asked = client(address(&endpoint));
        match asked.ask().await {
            Ok(_) => assert!(again, "{status}"),
            Err(error) => {
                assert!(!again, "{status}");
                assert_eq!((error.kind, error.attempts), (ModelErrorKind::Fatal, 1));
                assert!(
                    error.message.contains(&status.to_string()) && error.message.ends_with(": no"),
                    "{error}"
                );
            }
        }
        assert_eq!(asked.waits().len(), usize::from(again));
    }
}

#[tokio::test]
async fn what_is_too_long_is_said_to_be() {
    let code =
        json!({"error": {"message": "Reduce it.", "code": "context_length_exceeded"}}).to_string();
    let text = "This model's maximum context length is 8192 tokens.";
    let llama =
        json!({"error": {"code": 400, "message": "the request exceeds the available context size"}}).to_string();
    for play in [
        Play::Whole(400, "", code),
        fails(400, text),
        Play::Whole(400, "", llama),
        fails(413, "too large"),
    ] {
        assert_eq!(error([play]).await.kind, ModelErrorKind::Overflow);
    }
    // An error in the middle of a reply, too.
    let inside = json!({"error": {"message": text}}).to_string();
    assert_eq!(
        error([Play::Events(vec![inside.clone()])]).await.kind,
        ModelErrorKind::Overflow
    );
    assert_eq!(
        error([Play::Whole(200, "", inside)]).await.kind,
        ModelErrorKind::Overflow
    );
}

#[tokio::test]
async fn an_answer_that_says_nothing_is_the_engines_to_judge() {
    let nothing = json!({"choices": []}).to_string();
    let reasoned = piece(&json!({"reasoning_content": "hm"}), Some("length"));
    for play in [
        says(""),
        says(" \n"),
        Play::Whole(200, "", nothing),
        Play::Events(vec![reasoned]),
    ] {
        let reply = client(address(&Endpoint::playing([play])))
            .ask()
            .await
            .unwrap();
        assert_eq!(
            (reply.text.trim(), reply.tool_calls.len(), reply.attempts),
            ("", 0, 1)
        );
    }
}

#[tokio::test]
async fn a_torn_answer_is_asked_for_again() {
    let torn = || Play::Events(vec![piece(&json!({"content": "half"}), None)]);
    let faults = [
        torn(),
        Play::Events(vec![
            piece(&json!({"content": "x"}), None),
            "{\"choices\": [".to_owned(),
        ]),
        Play::Events(vec![
            json!({"error": {"message": "the model crashed"}}).to_string(),
        ]),
        Play::Short(1000, "{\"choices\":".to_owned()),
        Play::Whole(200, "", "<html>".to_owned()),
        Play::Close,
    ];
    for fault in faults {
        let endpoint = Endpoint::playing([fault, says("whole")]);
        let reply = client(address(&endpoint)).ask().await.unwrap();
        assert_eq!((reply.text.as_str(), reply.attempts), ("whole", 2));
    }
    assert!(
        error([torn()])
            .await
            .message
            .ends_with("the reply ended early")
    );
}

#[tokio::test]
async fn what_came_of_a_torn_answer_counts_as_an_estimate() {
    let call = json!({"tool_calls": [{"index": 0, "id": "a", "function": {"name": "search", "arguments": "{\"path"}}]});
    let usage =
        json!({"usage": {"prompt_tokens": 90, "completion_tokens": 30}, "choices": []}).to_string();
    let text = || piece(&json!({"content": "sixteen letters."}), None);
    let came = [
        (Play::Events(vec![text(), text()]), Some(8)),
        (
            Play::Events(vec![
                text(),
                json!({"error": {"message": "overloaded"}}).to_string(),
            ]),
            Some(4),
        ),
        (Play::Events(vec![piece(&call, None)]), Some(3)),
        (
            Play::Events(vec![piece(
                &json!({"reasoning_content": "sixteen letters."}),
                None,
            )]),
            Some(4),
        ),
        (Play::HangInside(text()), Some(4)),
        // No reply arrived, and whether the model worked on one is unknown.
        (Play::Events(Vec::new()), Some(0)),
        (Play::Close, Some(0)),
        (Play::Hang, Some(0)),
        (Play::Whole(200, "", "<h1>Hello</h1>".to_owned()), Some(0)),
        // The server says that it did nothing.
        (Play::Whole(500, "", "{}".to_owned()), None),
        (fails(200, "overloaded"), None),
    ];
    for (play, output) in came {
        let mut timeouts = Timeouts::default();
        if matches!(play, Play::Hang) {
            timeouts.first_byte = Duration::from_secs(1);
        }
        if matches!(play, Play::HangInside(_)) {
            timeouts.whole = Duration::from_secs(2);
        }
        let endpoint = Endpoint::playing([play, says("whole")]);
        let reply = client(Address {
            timeouts,
            ..address(&endpoint)
        })
        .ask()
        .await
        .unwrap();
        let sent = endpoint.seen()[0].body.to_string().len() as u64;
        let expected = output.map_or(Usage::default(), |output| {
            Usage::estimated(sent.div_ceil(4), output)
        });
        assert_eq!(
            (reply.wasted, reply.usage),
            (expected, Some(Usage::reported(11, 3)))
        );
    }
    let told = error([Play::Events(vec![text(), usage])]).await;
    assert_eq!(
        told.usage,
        Usage::reported(90, 30),
        "the service's value takes precedence"
    );
}

#[tokio::test]
async fn a_server_that_hangs_is_given_up() {
    let timeouts = Timeouts {
        first_byte: Duration::from_millis(500),
        ..Timeouts::default()
    };
    let endpoint = Endpoint::playing([Play::Hang, says("ok")]);
    let reply = client(Address {
        timeouts,
        ..address(&endpoint)
    })
    .ask()
    .await
    .unwrap();
    assert_eq!((reply.text.as_str(), reply.attempts), ("ok", 2));

    let timeouts = Timeouts {
        whole: Duration::from_millis(100),
        ..Timeouts::default()
    };
    let endpoint = Endpoint::playing([Play::HangInside("{}".to_owned())]);
    let retry = Retry {
        retries: 0,
        ..Retry::default()
    };
    let error = client(Address {
        timeouts,
        retry,
        ..address(&endpoint)
    })
    .ask()
    .await
    .unwrap_err();
    assert_eq!(error.kind, ModelErrorKind::GivenUp);
    assert!(
        error
            .message
            .ends_with("the reply wasn't complete within 100 ms"),
        "{error}"
    );
}

#[tokio::test]
async fn a_server_that_is_not_there_is_named() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let place = taken.local_addr().unwrap();
    drop(taken);
    let endpoint = Endpoint::playing([]);
    let base_url = format!("http://{place}/v1");
    let asked = client(Address {
        base_url,
        ..address(&endpoint)
    });
    let error = asked.ask().await.unwrap_err();
    assert_eq!((error.kind, error.attempts), (ModelErrorKind::GivenUp, 3));
    assert!(
        error
            .message
            .starts_with(&format!("{place}: can't connect: ")),
        "{error}"
    );
    assert_eq!(error.usage, Usage::default(), "nothing was sent");
}

#[tokio::test]
async fn a_message_is_short_on_one_line_and_without_the_key() {
    let complaint = format!("Incorrect key {KEY}\n\n{}", "ä".repeat(2000));
    let key = error([fails(401, &complaint)]).await;
    assert!(
        key.message
            .contains("HTTP 401 Unauthorized: Incorrect key [key] ää"),
        "{key}"
    );
    assert!(!key.message.contains(KEY) && !key.message.contains('\n'));
    assert!(
        key.message.len() <= 503 && key.message.ends_with("ä..."),
        "{}",
        key.message.len()
    );
    let html = error([Play::Whole(502, "", "<h1>Bad Gateway</h1>".to_owned())]).await;
    assert!(
        html.message
            .ends_with("HTTP 502 Bad Gateway: <h1>Bad Gateway</h1>"),
        "{html}"
    );
}

#[test]
fn an_address_or_a_key_that_cannot_be_is_refused_at_once() {
    let endpoint = Endpoint::playing([message(&json!({}))]);
    let wrong = Client::new(Address {
        base_url: "nowhere".to_owned(),
        ..address(&endpoint)
    })
    .unwrap_err();
    assert!(wrong.to_string().starts_with("the base_url "), "{wrong}");
    let wrong = Client::new(Address {
        key: Secret::new(Some("a\u{7f}b")),
        ..address(&endpoint)
    })
    .unwrap_err();
    assert_eq!(
        wrong.to_string(),
        "the key contains characters that a header can't contain"
    );
}

#[tokio::test]
async fn a_refusal_without_a_key_says_that_none_was_sent() {
    let refusal = || {
        let body = json!({"error": {"message": "who are you?"}});
        Play::Whole(401, "", body.to_string())
    };
    let endpoint = Endpoint::playing([refusal(), refusal()]);
    let without = Address {
        key: Secret::default(),
        ..address(&endpoint)
    };
    let said = client(without).ask().await.unwrap_err().message;
    assert!(
        said.ends_with("HTTP 401 Unauthorized: who are you? (no API key was sent)"),
        "{said}"
    );
    let said = client(address(&endpoint)).ask().await.unwrap_err().message;
    assert!(said.ends_with(": who are you?"), "{said}");
}
