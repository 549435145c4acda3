//! What does the board say to a program that talks the Model Context Protocol? Reads requests from a stream, a message a
//! line, and writes an answer to each, until the stream ends.
//!
//! It only reads traces. What a tool answers is a document of the API, so that there is one source of JSON; the tools say
//! which, and [`bound`] keeps it as short as the caller wants it.

mod bound;
mod session;
#[cfg(test)]
mod tests;
mod tools;

use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio::sync::{mpsc, watch};
use tokio::task::{AbortHandle, Id, JoinSet};

use crate::error::{Error, Kind};
use crate::live::Library;
use crate::page::app::AppState;
use crate::rpc::mcp::CANCELLED;
use crate::rpc::{Fault, INTERNAL_ERROR, INVALID_REQUEST, Lines, Message, PARSE_ERROR, TooLong};
use session::Session;

/// A longer message is refused.
const MAX_MESSAGE: usize = 4 << 20;
/// So many requests are answered at a time; further ones wait in the stream.
const MAX_OPEN: usize = 32;
/// So many lines are read ahead.
const READ_AHEAD: usize = 32;
/// So many threads may make answers.
const MAX_THREADS: usize = 16;
/// The first questions wait so long until the runs are known; then the answers say that some are not.
const SETTLE: Duration = Duration::from_secs(10);

/// Answers what `input` asks about the runs of `library` until it ends.
///
/// # Errors
/// The answers cannot be written, or the system refuses what is needed.
pub(crate) fn talk(
    library: Library,
    input: impl Read + Send + 'static,
    out: &mut dyn Write,
) -> std::result::Result<(), Ended> {
    let cannot =
        |error| Ended::Told(Error::new(Kind::Unreadable, "the server cannot start").because(error));
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .max_blocking_threads(MAX_THREADS)
        .enable_all()
        .build()
        .map_err(cannot)?;
    let lines = read(input).map_err(cannot)?;
    let library = Arc::new(library);
    let (_stop, stopping) = watch::channel(false);
    let state = AppState::new(Arc::clone(&library), "localhost", stopping);
    let session = Arc::new(Session::new(state, SETTLE));
    let done = runtime.block_on(
        Talk {
            session,
            open: JoinSet::new(),
            ids: HashMap::new(),
        }
        .run(lines, out),
    );
    library.close();
    runtime.shutdown_background();
    done.map_err(Ended::Output)
}

/// Why a talk did not come to its end.
#[derive(Debug)]
pub(crate) enum Ended {
    /// What a person is told.
    Told(Error),
    /// The answers cannot be written.
    Output(io::Error),
}

/// The lines of `input`, read by a thread of their own, because a read of the standard input cannot be given up.
fn read(mut input: impl Read + Send + 'static) -> io::Result<mpsc::Receiver<Line>> {
    let (sender, lines) = mpsc::channel(READ_AHEAD);
    let work = move || {
        let (mut cut, mut piece) = (Lines::new(MAX_MESSAGE), vec![0; 64 << 10]);
        let send = |line| drop(sender.blocking_send(line));
        loop {
            match input.read(&mut piece) {
                Ok(0) => break,
                Ok(len) => cut.push(piece.get(..len).unwrap_or_default(), &send),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    tracing::warn!("the requests cannot be read any more: {error}");
                    break;
                }
            }
        }
        cut.end().into_iter().for_each(send);
    };
    std::thread::Builder::new()
        .name("board-mcp-read".to_owned())
        .spawn(work)?;
    Ok(lines)
}

type Line = std::result::Result<Vec<u8>, TooLong>;

/// The requests under way.
struct Talk {
    session: Arc<Session>,
    open: JoinSet<Option<Value>>,
    /// By task the ids of the requests it answers.
    ids: HashMap<Id, (Vec<Value>, AbortHandle)>,
}

impl Talk {
    async fn run(mut self, mut lines: mpsc::Receiver<Line>, out: &mut dyn Write) -> io::Result<()> {
        let mut more = true;
        loop {
            tokio::select! {
                line = lines.recv(), if more && self.open.len() < MAX_OPEN => match line {
                    Some(line) => self.take(line, out)?,
                    // What was asked before the end is still answered.
                    None => more = false,
                },
                Some(done) = self.open.join_next_with_id() => self.answer(done, out)?,
                else => return Ok(()),
            }
        }
    }

    /// Takes a line: a message, or several in a list, as 2025-03-26 has it.
    fn take(&mut self, line: Line, out: &mut dyn Write) -> io::Result<()> {
        let value = match line {
            Ok(line) => serde_json::from_slice(&line)
                .map_err(|error| format!("this line is no JSON: {error}")),
            Err(TooLong) => Err(format!(
                "a message has at most {MAX_MESSAGE} bytes, and this line has more"
            )),
        };
        match value {
            Err(why) => send(out, &refusal(Value::Null, Fault::new(PARSE_ERROR, why))),
            Ok(Value::Array(list)) if list.is_empty() => send(
                out,
                &refusal(
                    Value::Null,
                    Fault::new(INVALID_REQUEST, "an empty list asks nothing"),
                ),
            ),
            Ok(Value::Array(list)) => {
                let messages: Vec<_> = list.into_iter().map(Message::read).collect();
                let ids = messages
                    .iter()
                    .filter_map(|message| id(message.as_ref().ok()?))
                    .collect();
                let session = Arc::clone(&self.session);
                self.spawn(ids, async move {
                    let mut answers = Vec::new();
                    for message in messages {
                        answers.extend(answer(&session, message).await);
                    }
                    (!answers.is_empty()).then_some(Value::Array(answers))
                });
                Ok(())
            }
            Ok(value) => {
                match Message::read(value) {
                    Ok(Message::Notice { method, params }) if method == CANCELLED => {
                        self.cancel(&params)
                    }
                    message => {
                        let ids = message.as_ref().ok().and_then(id).into_iter().collect();
                        let session = Arc::clone(&self.session);
                        self.spawn(ids, async move { answer(&session, message).await });
                    }
                }
                Ok(())
            }
        }
    }

    fn spawn(
        &mut self,
        ids: Vec<Value>,
        work: impl Future<Output = Option<Value>> + Send + 'static,
    ) {
        let handle = self.open.spawn(work);
        self.ids.insert(handle.id(), (ids, handle));
    }

    /// Ends a request that nobody waits for any more; it is not answered.
    fn cancel(&self, params: &Value) {
        let Some(wanted) = params.get("requestId") else {
            return;
        };
        for (ids, handle) in self.ids.values() {
            // A list is answered as a whole.
            if ids.as_slice() == [wanted.clone()] {
                handle.abort();
            }
        }
    }

    fn answer(
        &mut self,
        done: std::result::Result<(Id, Option<Value>), tokio::task::JoinError>,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        match done {
            Ok((task, answer)) => {
                self.ids.remove(&task);
                answer.map_or(Ok(()), |answer| send(out, &answer))
            }
            Err(error) => {
                let ids = self
                    .ids
                    .remove(&error.id())
                    .map(|(ids, _)| ids)
                    .unwrap_or_default();
                if error.is_cancelled() {
                    return Ok(());
                }
                tracing::error!("an answer failed: {error}");
                let fault = || {
                    Fault::new(
                        INTERNAL_ERROR,
                        "the board failed to answer; its log has the details",
                    )
                };
                ids.into_iter()
                    .try_for_each(|id| send(out, &refusal(id, fault())))
            }
        }
    }
}

/// The id of a request.
fn id(message: &Message) -> Option<Value> {
    match message {
        Message::Request { id, .. } => Some(id.clone()),
        Message::Notice { .. } | Message::Reply { .. } => None,
    }
}

/// What is said to a message, if anything is.
async fn answer(
    session: &Session,
    message: std::result::Result<Message, (Value, Fault)>,
) -> Option<Value> {
    match message {
        Ok(Message::Request { id, method, params }) => {
            let result = session.answer(&method, params).await;
            Some(Message::Reply { id, result }.write())
        }
        // The board asks its client nothing, and takes no notice of what it does not know.
        Ok(Message::Notice { .. } | Message::Reply { .. }) => None,
        Err((id, fault)) => Some(refusal(id, fault)),
    }
}

fn refusal(id: Value, fault: Fault) -> Value {
    Message::Reply {
        id,
        result: Err(fault),
    }
    .write()
}

/// Writes one line, at once.
fn send(out: &mut dyn Write, message: &Value) -> io::Result<()> {
    serde_json::to_writer(&mut *out, message)?;
    out.write_all(b"\n")?;
    out.flush()
}
