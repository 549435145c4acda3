//! A server that plays recorded and faulty responses, one connection each.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

/// One response.
pub(crate) enum Play {
    /// A complete response with a status, extra headers and a body.
    Whole(u16, &'static str, String),
    /// An event stream. The connection closes after the last event.
    Events(Vec<String>),
    /// Declares this content length, but sends only this body.
    Short(usize, String),
    /// Never responds.
    Hang,
    /// Starts a response with this event and never finishes it.
    HangInside(String),
    /// Reads the request and closes the connection.
    Close,
}

/// A received request.
#[derive(Debug, Clone)]
pub(crate) struct Seen {
    pub(crate) head: String,
    pub(crate) body: Value,
}

/// The server. It plays its responses in order and repeats the last one.
pub(crate) struct Endpoint {
    pub(crate) base_url: String,
    seen: Arc<Mutex<Vec<Seen>>>,
}

impl Endpoint {
    pub(crate) fn playing(plays: impl IntoIterator<Item = Play>) -> Self {
        Self::checking(|_| None, plays)
    }

    /// A server that rejects requests whose assistant messages lack `field`.
    pub(crate) fn demanding(field: &'static str, plays: impl IntoIterator<Item = Play>) -> Self {
        let lacks = move |body: &Value| {
            let mut messages = body["messages"].as_array().into_iter().flatten();
            let lacks = messages
                .any(|message| message["role"] == "assistant" && message.get(field).is_none());
            let message =
                format!("The {field} in the thinking mode must be passed back to the API.");
            lacks.then(|| Play::Whole(400, "", json!({"error": {"message": message}}).to_string()))
        };
        Self::checking(lacks, plays)
    }

    fn checking(
        refuse: impl Fn(&Value) -> Option<Play> + Clone + Send + 'static,
        plays: impl IntoIterator<Item = Play>,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let base_url = format!("http://{}/v1", listener.local_addr().unwrap());
        let plays: Arc<Mutex<VecDeque<Play>>> = Arc::new(Mutex::new(plays.into_iter().collect()));
        let seen = Arc::new(Mutex::new(Vec::new()));
        let requests = seen.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (plays, requests, refuse) = (plays.clone(), requests.clone(), refuse.clone());
                // Tests include clients that disconnect midway, so errors are ignored.
                std::thread::spawn(move || {
                    stream.and_then(|stream| answer(&stream, &refuse, &plays, &requests))
                });
            }
        });
        Self { base_url, seen }
    }

    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }
}

fn answer(
    stream: &TcpStream,
    refuse: &dyn Fn(&Value) -> Option<Play>,
    plays: &Mutex<VecDeque<Play>>,
    requests: &Mutex<Vec<Seen>>,
) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if reader.read_line(&mut head)? == 0 {
            return Ok(());
        }
    }
    let length = head.lines().find_map(|line| {
        line.to_lowercase()
            .strip_prefix("content-length: ")?
            .parse()
            .ok()
    });
    let mut body = vec![0; length.unwrap_or(0)];
    reader.read_exact(&mut body)?;
    let body: Value = serde_json::from_slice(&body).unwrap_or_default();
    let refused = refuse(&body);
    requests.lock().unwrap().push(Seen { head, body });

    let next = || plays.lock().unwrap().pop_front();
    let play =
        refused
            .or_else(next)
            .unwrap_or(Play::Whole(404, "", "the script is over".to_owned()));
    let mut out = stream;
    match play {
        Play::Whole(status, headers, body) => {
            let length = body.len();
            write!(
                out,
                "HTTP/1.1 {status} x\r\ncontent-type: application/json\r\nconnection: close\r\n{headers}"
            )?;
            write!(out, "content-length: {length}\r\n\r\n{body}")
        }
        Play::Events(events) => {
            write!(
                out,
                "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n"
            )?;
            events
                .iter()
                .try_for_each(|event| write!(out, "data: {event}\n\n").and_then(|()| out.flush()))
        }
        Play::Short(length, body) => {
            write!(
                out,
                "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
            )
        }
        Play::Hang => wait_for_the_end(reader),
        Play::HangInside(event) => {
            write!(
                out,
                "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\ndata: {event}\n\n"
            )?;
            wait_for_the_end(reader)
        }
        Play::Close => Ok(()),
    }
}

/// Holds the connection until the client closes it.
fn wait_for_the_end(mut reader: BufReader<&TcpStream>) -> std::io::Result<()> {
    reader.read_to_end(&mut Vec::new()).map(|_| ())
}

/// A response with this message and fixed token usage.
pub(crate) fn message(message: &Value) -> Play {
    let body = json!({
        "id": "chatcmpl-1", "object": "chat.completion", "model": "tiny-1",
        "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 11, "completion_tokens": 3, "total_tokens": 14},
    });
    Play::Whole(200, "", body.to_string())
}

/// A text response.
pub(crate) fn says(text: &str) -> Play {
    message(&json!({"role": "assistant", "content": text}))
}

/// A response that calls a tool.
pub(crate) fn calls(id: &str, name: &str, arguments: &Value) -> Play {
    let function = json!({"name": name, "arguments": arguments.to_string()});
    message(
        &json!({"role": "assistant", "content": null, "tool_calls": [{"id": id, "type": "function", "function": function}]}),
    )
}

/// One chunk of a streamed response.
pub(crate) fn piece(delta: &Value, finish_reason: Option<&str>) -> String {
    json!({"model": "tiny-1", "choices": [{"index": 0, "delta": delta, "finish_reason": finish_reason}]}).to_string()
}
