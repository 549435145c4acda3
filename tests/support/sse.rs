//! A client of an event stream.

use std::io::BufRead;
use std::net::SocketAddr;
use std::sync::mpsc;

use serde_json::Value;

use crate::http;
use crate::wait::DEADLINE;

/// An open stream, read by a thread that ends with it.
#[derive(Debug)]
pub(crate) struct Stream {
    revs: mpsc::Receiver<u64>,
}

/// The outcome of a check for events.
#[derive(Debug)]
pub(crate) enum Heard {
    /// A new revision.
    News,
    /// No event yet.
    Nothing,
    /// The stream ended.
    End,
}

impl Stream {
    /// Opens `path`, which must answer with an event stream.
    pub(crate) fn open(address: SocketAddr, path: &str) -> Self {
        Self::try_open(address, path).unwrap_or_else(|| panic!("no stream opens at {path}"))
    }

    /// Opens `path`, or returns `None` if it has no stream.
    pub(crate) fn try_open(address: SocketAddr, path: &str) -> Option<Self> {
        let headers = [("Accept", "text/event-stream")];
        let (head, reader) = http::open(address, "GET", path, &headers)
            .ok()
            .filter(|(head, _)| head.status == 200)?;
        assert!(
            head.header("content-type").starts_with("text/event-stream"),
            "{head:?}"
        );
        // A quiet stream hasn't failed, and callers that wait have their own deadline.
        reader
            .get_ref()
            .set_read_timeout(None)
            .expect("the socket takes the option");
        let (sender, revs) = mpsc::channel();
        std::thread::spawn(move || {
            let mut event = String::new();
            for line in reader.lines() {
                let Ok(line) = line else { break };
                if let Some(name) = line.strip_prefix("event:") {
                    event = name.trim().to_owned();
                }
                let Some(data) = line.strip_prefix("data:").filter(|_| event == "rev") else {
                    continue;
                };
                let data: Value = serde_json::from_str(data).expect("data of a rev event is JSON");
                let rev = data["rev"].as_u64().expect("a rev event has a number");
                if sender.send(rev).is_err() {
                    break;
                }
            }
        });
        Some(Self { revs })
    }

    /// Takes the next event without waiting.
    pub(crate) fn heard(&self) -> Heard {
        match self.revs.try_recv() {
            Ok(_) => Heard::News,
            Err(mpsc::TryRecvError::Empty) => Heard::Nothing,
            Err(mpsc::TryRecvError::Disconnected) => Heard::End,
        }
    }

    /// Waits for the next revision. Panics at the deadline or if the stream has ended.
    pub(crate) fn next(&self) -> u64 {
        self.revs
            .recv_timeout(DEADLINE)
            .expect("a revision is announced")
    }

    /// Waits for the end of the stream. Panics at the deadline.
    pub(crate) fn ended(&self) {
        loop {
            match self.revs.recv_timeout(DEADLINE) {
                Ok(_) => {}
                Err(mpsc::RecvTimeoutError::Disconnected) => return,
                Err(mpsc::RecvTimeoutError::Timeout) => panic!("the stream is still open"),
            }
        }
    }
}
