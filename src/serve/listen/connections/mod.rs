//! Takes connections and bounds what each may cost: their number, the bytes of a head, and time.
//!
//! Hands each request to the router. A connection that is refused or broken never ends the server.

pub(crate) mod seats;

use std::collections::HashMap;
use std::io;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::Router;
use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service as _, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{AcquireError, OwnedSemaphorePermit, Semaphore, watch};
use tokio_io_timeout::TimeoutStream;

use self::seats::{Displaced, Seat, Seats};
use crate::{Error, Kind, Result};

/// What a connection may cost.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    /// Limits the open connections. Beyond it, a new one takes the place of one that is not being answered.
    pub(crate) connections: u32,
    /// Limits the requests that are answered at a time. The other connections are for `/healthz` and for waiting requests.
    pub(crate) requests: u32,
    /// Limits the event streams among them. A stream lasts as long as its page is open.
    pub(crate) streams: u32,
    /// So many of them may be from one other machine; more are closed at once.
    pub(crate) of_machine: u32,
    /// The same for this machine, from which proxies and tunnels come too.
    pub(crate) of_this_machine: u32,
    /// So long a request's head may take, and so long a connection may stay without one.
    pub(crate) head: Duration,
    /// A reader that takes nothing for so long is dropped.
    pub(crate) stalled: Duration,
}

/// More bytes before a request's body are refused (431). The same bound holds for bytes that wait to be sent.
pub(crate) const MAX_HEAD_BYTES: usize = 64 << 10;
/// After the system refused a connection, most likely for want of descriptors, others first get time to end.
const PAUSE: Duration = Duration::from_millis(200);
/// What the board itself holds open, and some to read with.
const MIN_DESCRIPTORS: u32 = 32;
/// Four browsers of 500 tabs each. At the most bytes a head may have, they hold 128 MiB.
const MAX_CONNECTIONS: u32 = 2_048;
/// Limits how many connections are kept for `/healthz` and waiting requests; at most an eighth of all.
const MAX_RESERVED: u32 = 64;

impl Limits {
    /// What the process can afford: it must still open as many files.
    ///
    /// # Errors
    /// The system lets it open so few that a board cannot run.
    pub(crate) fn affordable() -> Result<Self> {
        let files = descriptors();
        if files < MIN_DESCRIPTORS {
            let what = format!(
                "the system lets the board open {files} files, and it needs {MIN_DESCRIPTORS}"
            );
            return Err(Error::new(Kind::Unreadable, what).hint("raise the limit: ulimit -n 1024"));
        }
        let connections = (files / 2).min(MAX_CONNECTIONS);
        let (of_machine, of_this_machine) = (connections.div_ceil(8), connections);
        let requests = connections - (connections / 8).min(MAX_RESERVED);
        let streams = requests - requests / 4;
        let (head, stalled) = (Duration::from_secs(10), Duration::from_secs(60));
        Ok(Self {
            connections,
            requests,
            streams,
            of_machine,
            of_this_machine,
            head,
            stalled,
        })
    }
}

/// How many files the process may hold open.
#[cfg(unix)]
fn descriptors() -> u32 {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    // The lower limit is a default for programs that use `select`; this one does not.
    let raised = setrlimit(
        Resource::Nofile,
        Rlimit {
            current: maximum,
            maximum,
        },
    )
    .is_ok();
    let files = if raised { maximum } else { current };
    files.map_or(u32::MAX, |files| u32::try_from(files).unwrap_or(u32::MAX))
}

#[cfg(not(unix))]
fn descriptors() -> u32 {
    u32::MAX
}

/// How many connections are open from each machine.
#[derive(Debug, Default)]
struct Machines(Mutex<HashMap<IpAddr, u32>>);

/// One of the connections of a machine, for as long as the value lives.
#[derive(Debug)]
struct ConnectionSlot {
    machines: Arc<Machines>,
    machine: IpAddr,
}

impl Machines {
    /// A place for a connection from `machine`; `None` where it has all it may have.
    fn enter(self: &Arc<Self>, machine: IpAddr, limits: Limits) -> Option<ConnectionSlot> {
        let machine = machine.to_canonical();
        let most = if machine.is_loopback() {
            limits.of_this_machine
        } else {
            limits.of_machine
        };
        let mut open = self.open();
        let count = open.entry(machine).or_default();
        if *count >= most {
            return None;
        }
        *count += 1;
        Some(ConnectionSlot {
            machines: Arc::clone(self),
            machine,
        })
    }

    fn open(&self) -> MutexGuard<'_, HashMap<IpAddr, u32>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        let mut open = self.machines.open();
        let left = open.get_mut(&self.machine).map(|count| {
            *count -= 1;
            *count
        });
        if left == Some(0) {
            open.remove(&self.machine);
        }
    }
}

/// Takes connections until `stopping` turns true, and ends once the open ones have ended.
pub(crate) async fn accept(
    listener: TcpListener,
    app: Router,
    limits: Limits,
    stopping: watch::Receiver<bool>,
) {
    let places = Arc::new(Semaphore::new(limits.connections as usize));
    let machines = Arc::new(Machines::default());
    let seats = Seats::new(limits.requests);
    let mut stop = stopping.clone();
    loop {
        let taken = tokio::select! {
            taken = next(&listener, &places, &seats) => taken,
            // An error says that nobody can ask to stop any more, which comes to the same.
            _ = stop.wait_for(|stop| *stop) => break,
        };
        match taken {
            Ok((stream, machine, place)) => {
                let Some(of_machine) = machines.enter(machine, limits) else {
                    continue;
                };
                let places = (of_machine, place);
                tokio::spawn(connection(
                    stream,
                    app.clone(),
                    limits,
                    stopping.clone(),
                    seats.seat(),
                    places,
                ));
            }
            Err(error) if is_of_one_connection(&error) => {}
            Err(error) => {
                tracing::warn!(%error, "a connection could not be taken");
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
    drop(listener);
    // Each connection gives back its place when it ends. The semaphore is never closed.
    let _ = places.acquire_many(limits.connections).await;
}

/// Returns the next connection, once there is a place for it.
async fn next(
    listener: &TcpListener,
    places: &Arc<Semaphore>,
    seats: &Seats,
) -> io::Result<(TcpStream, IpAddr, OwnedSemaphorePermit)> {
    let (stream, machine) = listener.accept().await?;
    // Nothing is closed before a new connection needs the place.
    let place = place(places, seats).await.map_err(io::Error::other)?;
    Ok((stream, machine.ip(), place))
}

/// Returns a place for a connection. Where all are taken, one that is not being answered is closed for it.
async fn place(
    places: &Arc<Semaphore>,
    seats: &Seats,
) -> Result<OwnedSemaphorePermit, AcquireError> {
    loop {
        let changed = seats.changed();
        if let Ok(place) = Arc::clone(places).try_acquire_owned() {
            return Ok(place);
        }
        let later = match seats.displace() {
            Displaced::One => return Arc::clone(places).acquire_owned().await,
            Displaced::NoneBefore(moment) => Some(moment),
            Displaced::None => None,
        };
        let until = async {
            match later {
                Some(moment) => tokio::time::sleep_until(moment).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            place = Arc::clone(places).acquire_owned() => return place,
            () = changed => {}
            () = until => {}
        }
    }
}

/// Whether only the one connection is lost, which went away before it was taken.
fn is_of_one_connection(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset, Interrupted};
    matches!(
        error.kind(),
        ConnectionAborted | ConnectionRefused | ConnectionReset | Interrupted
    )
}

async fn connection(
    stream: TcpStream,
    app: Router,
    limits: Limits,
    mut stopping: watch::Receiver<bool>,
    seat: Arc<Seat>,
    // The first is given back first: whoever takes the second finds room among those of its machine.
    _places: (ConnectionSlot, OwnedSemaphorePermit),
) {
    // Small answers to one reader: waiting to fill a packet only adds delay.
    let _ = stream.set_nodelay(true);
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new())
        .header_read_timeout(limits.head)
        .max_buf_size(MAX_HEAD_BYTES);
    // A browser that was put to sleep and a program that never reads look alike: the system takes bytes until its buffer
    // is full, and what waits behind that is held for as long as the connection is.
    let mut stream = TimeoutStream::new(stream);
    stream.set_write_timeout(Some(limits.stalled));
    let (app, sitting) = (TowerToHyperService::new(app), Arc::clone(&seat));
    let app = service_fn(move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(Arc::clone(&sitting));
        app.call(request)
    });
    let served = http.serve_connection(TokioIo::new(Box::pin(stream)), app);
    tokio::pin!(served);
    tokio::select! {
        // How a connection ends is the other side's affair.
        _ = served.as_mut() => return,
        // Nothing of it is being answered.
        () = seat.displaced() => return,
        _ = stopping.wait_for(|stop| *stop) => served.as_mut().graceful_shutdown(),
    }
    let _ = served.await;
}

#[cfg(test)]
mod tests;
