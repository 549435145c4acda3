//! Decides which connection a full server closes for a new one, and limits how many requests are
//! answered at a time.
//!
//! Clients may hold any number of connections, partial requests, and unread responses. The server
//! can close a connection that isn't being answered at any time, longest idle first, to accept a
//! new one. Requests need a turn to be answered, and there are fewer turns than connections: the
//! difference is reserved for `/healthz`.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody};
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::http::header::{CONNECTION, HeaderValue};
use axum::middleware::Next;
use axum::response::Response;
use hyper::body::{Frame, SizeHint};
use tokio::sync::futures::Notified;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout};

use crate::page::app::AppState;
use crate::page::error::WebError;
use crate::page::error_page::respond;
use crate::page::extract::is_api_path;

/// How long a request waits for its turn.
const PATIENCE: Duration = Duration::from_secs(10);

/// How long a connection without a request is safe from being closed, so that a new one has time to
/// send its request.
const IDLE_GRACE: Duration = Duration::from_millis(500);

/// The connections of a server, grouped by whether they may be closed.
#[derive(Debug)]
pub(super) struct ConnectionPool(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    lists: Mutex<Lists>,
    /// Notified when a connection is added to a list.
    changed: Notify,
    /// Limits how many requests are answered at a time.
    turns: Arc<Semaphore>,
}

/// Connections that may be closed, oldest first, each with its notifier.
#[derive(Debug, Default)]
struct Lists {
    count: u64,
    /// Connections without a request, with the time they became idle. Closing one loses nothing.
    idle: BTreeMap<u64, (Instant, Arc<Notify>)>,
    /// Connections whose request waits for its turn. The request is refused.
    waiting: BTreeMap<u64, Arc<Notify>>,
}

/// The result of displacing a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Eviction {
    One,
    /// No connection may be closed before this moment.
    NoneBefore(Instant),
    /// All connections are being answered.
    None,
}

impl Lists {
    fn next_number(&mut self) -> u64 {
        self.count += 1;
        self.count
    }
}

impl ConnectionPool {
    /// Creates a pool that allow `turns` requests at a time.
    pub(super) fn new(turns: u32) -> Self {
        let turns = Arc::new(Semaphore::new(turns as usize));
        Self(Arc::new(Shared {
            lists: Mutex::default(),
            changed: Notify::new(),
            turns,
        }))
    }

    /// Returns the state of a new connection, which is idle.
    pub(super) fn connection(&self) -> Arc<ConnectionState> {
        let (number, close, refuse) = (Mutex::new(None), Arc::default(), Arc::default());
        let connection = Arc::new(ConnectionState {
            shared: Arc::clone(&self.0),
            number,
            close,
            refuse,
        });
        connection.rest();
        connection
    }

    /// Closes the longest idle connection, or else refuses the request that has waited longest.
    pub(super) fn evict_one(&self) -> Eviction {
        let mut lists = self.0.lists();
        let now = Instant::now();
        let from = lists
            .idle
            .first_key_value()
            .map(|(_, (since, _))| *since + IDLE_GRACE);
        let oldest = match from {
            Some(from) if from <= now => lists.idle.pop_first().map(|(_, (_, close))| close),
            _ => lists.waiting.pop_first().map(|(_, refuse)| refuse),
        };
        match (oldest, from) {
            (Some(notify), _) => {
                notify.notify_one();
                Eviction::One
            }
            (None, Some(from)) => Eviction::NoneBefore(from),
            (None, None) => Eviction::None,
        }
    }

    /// Resolves once another connection may be displaced.
    pub(super) fn changed(&self) -> Notified<'_> {
        self.0.changed.notified()
    }
}

impl Shared {
    fn lists(&self) -> MutexGuard<'_, Lists> {
        self.lists.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The state of a connection, driven by its requests. A connection has at most one request at a
/// time.
#[derive(Debug)]
pub(crate) struct ConnectionState {
    shared: Arc<Shared>,
    /// The connection's number on the lists, or `None` while it is being answered.
    number: Mutex<Option<u64>>,
    close: Arc<Notify>,
    refuse: Arc<Notify>,
}

/// A request's turn, which ends when this is dropped.
#[derive(Debug)]
struct Turn {
    connection: Arc<ConnectionState>,
    /// `None` for `/healthz`.
    _turn: Option<OwnedSemaphorePermit>,
}

impl ConnectionState {
    /// Resolves once the connection must be closed.
    pub(super) async fn evicted(&self) {
        self.close.notified().await;
    }

    /// Takes the connection off the lists. Returns `false` if it is on none because it was
    /// displaced.
    fn leave(&self, lists: &mut Lists) -> bool {
        let number = self.number().take();
        number.is_some_and(|number| {
            lists.idle.remove(&number).is_some() || lists.waiting.remove(&number).is_some()
        })
    }

    fn rest(&self) {
        let mut lists = self.shared.lists();
        let number = lists.next_number();
        lists
            .idle
            .insert(number, (Instant::now(), Arc::clone(&self.close)));
        *self.number() = Some(number);
        drop(lists);
        self.shared.changed.notify_waiters();
    }

    /// Lists the connection as waiting. Returns `false` if it was displaced.
    fn wait(&self) -> bool {
        let mut lists = self.shared.lists();
        if !self.leave(&mut lists) {
            return false;
        }
        let number = lists.next_number();
        lists.waiting.insert(number, Arc::clone(&self.refuse));
        *self.number() = Some(number);
        drop(lists);
        self.shared.changed.notify_waiters();
        true
    }

    fn begin(self: &Arc<Self>, turn: Option<OwnedSemaphorePermit>) -> Option<Turn> {
        let is_listed = self.leave(&mut self.shared.lists());
        is_listed.then(|| Turn {
            connection: Arc::clone(self),
            _turn: turn,
        })
    }

    /// Waits until the request may be answered. Returns `None` if it must be refused.
    async fn turn(self: &Arc<Self>) -> Option<Turn> {
        let turns = &self.shared.turns;
        if let Ok(turn) = Arc::clone(turns).try_acquire_owned() {
            return self.begin(Some(turn));
        }
        if !self.wait() {
            return None;
        }
        tokio::select! {
            () = self.refuse.notified() => None,
            // The semaphore is never closed.
            turn = timeout(PATIENCE, Arc::clone(turns).acquire_owned()) => self.begin(Some(turn.ok()?.ok()?)),
        }
    }

    fn number(&self) -> MutexGuard<'_, Option<u64>> {
        self.number.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.connection.rest();
    }
}

impl Drop for ConnectionState {
    fn drop(&mut self) {
        self.leave(&mut self.shared.lists());
    }
}

/// Answers a request in its turn, which lasts until the response is sent. `/healthz` needs no turn.
pub(crate) async fn in_turn(
    State(state): State<AppState>,
    request: Request,
    next: Next,
) -> Response {
    // Requests from inside this process have no connection.
    let Some(connection) = request.extensions().get::<Arc<ConnectionState>>().cloned() else {
        return next.run(request).await;
    };
    let path = request.uri().path();
    let turn = if path == "/healthz" {
        connection.begin(None)
    } else {
        connection.turn().await
    };
    let Some(turn) = turn else {
        let detail = "Too many requests are being handled at the same time.";
        let busy = WebError::new(StatusCode::SERVICE_UNAVAILABLE, "board is busy", detail)
            .hint("Try again in a moment.");
        let mut refusal = respond(&busy, &state, is_api_path(path));
        refusal
            .headers_mut()
            .insert(CONNECTION, HeaderValue::from_static("close"));
        return refusal;
    };
    next.run(request)
        .await
        .map(|body| Body::new(InTurn { body, _turn: turn }))
}

/// A body that holds its request's turn until it is sent.
struct InTurn {
    body: Body,
    _turn: Turn,
}

impl HttpBody for InTurn {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
