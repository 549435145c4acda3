//! Accepts connections and limits what they cost: their number, the size of a request head, and
//! time.
//!
//! Hands each request to the router. A refused or broken connection never ends the server.

pub(crate) mod connection_pool;

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

use self::connection_pool::{ConnectionPool, ConnectionState, Eviction};
use crate::{Error, Kind, Result};

/// Limits on connections.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    /// Limits the open connections. At the limit, a new one replaces one that isn't being answered.
    pub(crate) connections: u32,
    /// Limits the requests answered at a time. The remaining connections serve `/healthz` and
    /// waiting requests.
    pub(crate) requests: u32,
    /// Limits the event streams among the requests. A stream lasts as long as its page is open.
    pub(crate) streams: u32,
    /// Limits the connections from one other machine. Further ones are closed at once.
    pub(crate) of_machine: u32,
    /// The same limit for this machine, which proxies and tunnels also connect from.
    pub(crate) of_this_machine: u32,
    /// How long a request head may take, and how long a connection may stay open without one.
    pub(crate) head: Duration,
    /// How long a reader may stall before it is dropped.
    pub(crate) stalled: Duration,
}

/// Limits the bytes of a request head; longer ones are refused (431). The same limit applies to
/// bytes waiting to be sent.
pub(crate) const MAX_HEAD_BYTES: usize = 64 << 10;
/// How long to wait after the system refuses a connection, most likely for lack of file
/// descriptors, so that other connections can end.
const PAUSE: Duration = Duration::from_millis(200);
/// File descriptors that board itself keeps open, plus some to read with.
const MIN_DESCRIPTORS: u32 = 32;
/// Allows four browsers with 500 tabs each. With heads of maximum size, the connections hold 128
/// MiB.
const MAX_CONNECTIONS: u32 = 2_048;
/// Limits the connections reserved for `/healthz` and waiting requests. At most an eighth of all
/// connections are reserved.
const MAX_RESERVED: u32 = 64;

impl Limits {
    /// Returns the limits that the process can afford. Half of its file descriptors remain for
    /// files.
    ///
    /// # Errors
    /// Fails if the system lets the process open too few files for board to run.
    pub(crate) fn affordable() -> Result<Self> {
        let files = descriptors();
        if files < MIN_DESCRIPTORS {
            let what = format!(
                "the system allows only {files} open files, but board needs {MIN_DESCRIPTORS}"
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

/// Returns how many files the process may hold open, after raising the soft limit to the hard
/// limit.
#[cfg(unix)]
fn descriptors() -> u32 {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    // The soft limit is low only to protect programs that use `select`, which this one doesn't.
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

/// Counts the open connections from each machine.
#[derive(Debug, Default)]
struct Machines(Mutex<HashMap<IpAddr, u32>>);

/// One of a machine's connections, counted until this is dropped.
#[derive(Debug)]
struct ConnectionSlot {
    machines: Arc<Machines>,
    machine: IpAddr,
}

impl Machines {
    /// Counts a connection from `machine`. Returns `None` if the machine has reached its limit.
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

/// Accepts connections until `stopping` turns true, then waits until the open ones have ended.
pub(crate) async fn accept(
    listener: TcpListener,
    app: Router,
    limits: Limits,
    stopping: watch::Receiver<bool>,
) {
    let places = Arc::new(Semaphore::new(limits.connections as usize));
    let machines = Arc::new(Machines::default());
    let pool = ConnectionPool::new(limits.requests);
    let mut stop = stopping.clone();
    loop {
        let taken = tokio::select! {
            taken = next(&listener, &places, &pool) => taken,
            // `wait_for` fails if the sender is gone. Nothing can request a stop then, so stop now.
            _ = stop.wait_for(|stop| *stop) => break,
        };
        match taken {
            Ok((stream, machine, place)) => {
                let Some(of_machine) = machines.enter(machine, limits) else {
                    continue;
                };
                let places = (of_machine, place);
                tokio::spawn(serve_connection(
                    stream,
                    app.clone(),
                    limits,
                    stopping.clone(),
                    pool.connection(),
                    places,
                ));
            }
            Err(error) if is_of_one_connection(&error) => {}
            Err(error) => {
                tracing::warn!(%error, "can't accept a connection");
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
    drop(listener);
    // Each connection returns its permit when it ends. The semaphore is never closed.
    let _ = places.acquire_many(limits.connections).await;
}

/// Returns the next connection once it has a permit.
async fn next(
    listener: &TcpListener,
    places: &Arc<Semaphore>,
    pool: &ConnectionPool,
) -> io::Result<(TcpStream, IpAddr, OwnedSemaphorePermit)> {
    let (stream, machine) = listener.accept().await?;
    // Accept first, so that no connection is closed before a new one needs its permit.
    let place = place(places, pool).await.map_err(io::Error::other)?;
    Ok((stream, machine.ip(), place))
}

/// Returns a permit for a connection. If all are taken, closes a connection that isn't being
/// answered.
async fn place(
    places: &Arc<Semaphore>,
    pool: &ConnectionPool,
) -> Result<OwnedSemaphorePermit, AcquireError> {
    loop {
        let changed = pool.changed();
        if let Ok(place) = Arc::clone(places).try_acquire_owned() {
            return Ok(place);
        }
        let later = match pool.evict_one() {
            Eviction::One => return Arc::clone(places).acquire_owned().await,
            Eviction::NoneBefore(moment) => Some(moment),
            Eviction::None => None,
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

/// Whether the error affects only one connection, which ended before it was accepted.
fn is_of_one_connection(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset, Interrupted};
    matches!(
        error.kind(),
        ConnectionAborted | ConnectionRefused | ConnectionReset | Interrupted
    )
}

async fn serve_connection(
    stream: TcpStream,
    app: Router,
    limits: Limits,
    mut stopping: watch::Receiver<bool>,
    connection: Arc<ConnectionState>,
    // The slot drops before the permit, so whoever gets the permit finds the machine's count
    // reduced.
    _places: (ConnectionSlot, OwnedSemaphorePermit),
) {
    // Responses are small and go to one reader, so waiting to fill a packet only adds delay.
    let _ = stream.set_nodelay(true);
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new())
        .header_read_timeout(limits.head)
        .max_buf_size(MAX_HEAD_BYTES);
    // A sleeping browser and a program that never reads look alike. The system accepts bytes until
    // its buffer is full, and the rest stays in memory as long as the connection is open.
    let mut stream = TimeoutStream::new(stream);
    stream.set_write_timeout(Some(limits.stalled));
    let (app, idle_connection) = (TowerToHyperService::new(app), Arc::clone(&connection));
    let app = service_fn(move |mut request: Request<Incoming>| {
        request
            .extensions_mut()
            .insert(Arc::clone(&idle_connection));
        app.call(request)
    });
    let served = http.serve_connection(TokioIo::new(Box::pin(stream)), app);
    tokio::pin!(served);
    tokio::select! {
        // Connection errors are the client's concern.
        _ = served.as_mut() => return,
        // The connection isn't being answered, so it can be dropped.
        () = connection.evicted() => return,
        _ = stopping.wait_for(|stop| *stop) => served.as_mut().graceful_shutdown(),
    }
    let _ = served.await;
}

#[cfg(test)]
mod tests;
