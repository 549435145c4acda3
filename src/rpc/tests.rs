use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

fn read(text: &str) -> Result<Message, (Value, Fault)> {
    Message::read(serde_json::from_str(text).unwrap())
}

#[test]
fn messages_read_as_they_are_written() {
    let fault = || Fault::new(METHOD_NOT_FOUND, "there is no method x");
    for message in [
        Message::Request {
            id: 1.into(),
            method: "ping".into(),
            params: Value::Null,
        },
        Message::Request {
            id: "a".into(),
            method: "tools/call".into(),
            params: json!({ "name": "why" }),
        },
        Message::Notice {
            method: "notifications/initialized".into(),
            params: Value::Null,
        },
        Message::Notice {
            method: "notifications/cancelled".into(),
            params: json!({ "requestId": 1 }),
        },
        Message::Reply {
            id: 1.into(),
            result: Ok(json!({})),
        },
        Message::Reply {
            id: 1.into(),
            result: Ok(Value::Null),
        },
        Message::Reply {
            id: Value::Null,
            result: Err(fault()),
        },
        Message::Reply {
            id: 2.into(),
            result: Err(fault().with(json!(["x"]))),
        },
    ] {
        assert_eq!(Message::read(message.clone().write()), Ok(message));
    }
}

#[test]
fn what_is_no_message_is_refused_with_its_id() {
    for (text, id, words) in [
        ("1", Value::Null, "a message is an object"),
        (
            r#"{"jsonrpc":"2.0","id":[1],"method":"x"}"#,
            Value::Null,
            "an id is",
        ),
        (
            r#"{"jsonrpc":"2.0","id":true,"method":"x"}"#,
            Value::Null,
            "an id is",
        ),
        (
            r#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#,
            Value::Null,
            "not null",
        ),
        (r#"{"id":7,"method":"x"}"#, 7.into(), "jsonrpc"),
        (
            r#"{"jsonrpc":"1.0","id":7,"method":"x"}"#,
            7.into(),
            "jsonrpc",
        ),
        (r#"{"jsonrpc":"2.0","id":7,"method":1}"#, 7.into(), "method"),
        (r#"{"jsonrpc":"2.0","id":"q"}"#, "q".into(), "neither"),
    ] {
        let (told, fault) = read(text).unwrap_err();
        assert_eq!((told, fault.code), (id, INVALID_REQUEST), "{text}");
        assert!(fault.message.contains(words), "{text}: {}", fault.message);
    }
}

#[test]
fn an_error_of_another_shape_keeps_its_words() {
    let error = |text: &str| match read(text) {
        Ok(Message::Reply {
            result: Err(fault), ..
        }) => (fault.code, fault.message),
        other => panic!("{other:?}"),
    };
    let told = error(r#"{"jsonrpc":"2.0","id":1,"error":"no"}"#);
    assert_eq!(told, (INTERNAL_ERROR, "\"no\"".to_owned()));
    let told = error(r#"{"jsonrpc":"2.0","id":1,"error":{"code":5,"message":"no"},"result":{}}"#);
    assert_eq!(told, (5, "no".to_owned()));
}

/// Splits `text`, which arrives in chunks of `size` bytes, into lines.
fn lines(text: &[u8], size: usize, max: usize) -> Vec<Result<Vec<u8>, TooLong>> {
    let (mut cut, mut found) = (Lines::new(max), Vec::new());
    text.chunks(size)
        .for_each(|piece| cut.push(piece, |line| found.push(line)));
    found.extend(cut.end());
    found
}

#[test]
fn lines_end_at_line_feeds_and_long_ones_are_let_go_of() {
    let found = lines(b"{}\r\n\n  \n0123456789\nabc\nlast", 3, 8);
    assert_eq!(
        found,
        [
            Ok(b"{}".to_vec()),
            Err(TooLong),
            Ok(b"abc".to_vec()),
            Ok(b"last".to_vec())
        ]
    );
    assert_eq!(lines(b"0123456789", 4, 8), [Err(TooLong)]);
}

proptest! {
    #[test]
    fn lines_are_the_same_in_pieces_of_any_size(text in "[a-c\n\r ]{0,60}", size in 1_usize..20, max in 1_usize..12) {
        prop_assert_eq!(lines(text.as_bytes(), size, max), lines(text.as_bytes(), usize::MAX, max));
    }

    #[test]
    fn no_json_is_too_odd_to_be_answered(text in "\\PC{0,40}") {
        if let Ok(value) = serde_json::from_str(&text) {
            let _ = Message::read(value);
        }
    }
}
