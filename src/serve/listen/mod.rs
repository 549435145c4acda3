//! Starts and stops the server.

mod connections;

use std::io::{self, Read as _, Write as _};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::sync::{Semaphore, watch};

use crate::live::{Editor, Library};
use crate::page::app::MAX_DOWNLOADS;
use crate::page::runs::saved::SavedViews;
use crate::page::search::keeper;
pub(super) use crate::serve::listen::connections::MAX_HEAD_BYTES;
pub(super) use crate::serve::listen::connections::connection_pool::in_turn;
use crate::serve::listen::connections::{Limits, accept};
use crate::serve::token::Token;
use crate::serve::{AppState, router};
use crate::{Error, Kind, Result};

/// The address to listen on.
#[derive(Debug, Clone)]
pub(crate) struct Address {
    /// A host name or an IP address.
    pub host: String,
    /// The port; 0 picks a free one.
    pub port: u16,
}

/// How long open responses may take to finish after the server stops. Closing the library takes at
/// most one more second, so the process ends within two.
const GRACE: Duration = Duration::from_millis(800);

/// Limits the pages and downloads built at a time, since each may hold some lines. Others wait
/// for a free thread.
const MAX_THREADS: usize = MAX_DOWNLOADS + 16;

/// The facts that are known once the server accepts requests.
#[derive(Debug)]
pub(crate) struct Ready<'a> {
    /// The address that the server listens on.
    pub local: SocketAddr,
    /// The generated token, if none was given and other machines can reach the address.
    pub made: Option<&'a Token>,
}

/// Serves `library` with the saved `views` until Ctrl-C or SIGTERM. `texts` opens the index of texts, if
/// there is one. Pages link files to the `editor`
/// if only this machine can reach the address.
///
/// Requests need `token`. Without one, the server generates a token if other machines can reach the
/// address. `ready` is called once the server accepts requests.
///
/// # Errors
/// Fails if the address can't be used, or if the system refuses a resource the server needs.
pub(crate) fn serve(
    library: Library,
    texts: Option<keeper::Open>,
    views: SavedViews,
    editor: Option<Editor>,
    address: &Address,
    token: Option<Token>,
    ready: impl FnOnce(&Ready<'_>) -> Result<()>,
) -> Result<()> {
    let limits = Limits::affordable()?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .max_blocking_threads(MAX_THREADS)
        .build()
        .map_err(|error| Error::new(Kind::Unreadable, "the server can't start").because(error))?;
    let library = Arc::new(library);
    let served = runtime.block_on(async {
        let listener = bind(address).await?;
        let local = listener
            .local_addr()
            .map_err(|error| unusable(address).because(error))?;
        // Check the bound address, because a host name may resolve to any address.
        let is_private = local.ip().to_canonical().is_loopback();
        let (stop, stopping) = watch::channel(false);
        let state = AppState::new(Arc::clone(&library), &address.host, stopping.clone());
        if let Some(open) = texts {
            let texts = Arc::clone(&state.texts);
            // Without the thread, searches read the files.
            if let Err(error) = keeper::start(&library, open, texts, stopping.clone()) {
                tracing::warn!("there is no search index: {error}");
            }
        }
        let state = AppState {
            streams: Arc::new(Semaphore::new(limits.streams as usize)),
            views,
            // The address opens an editor on the machine of the browser, not of board.
            editor: editor.filter(|_| is_private).map(Arc::new),
            ..state
        };
        let made = if token.is_none() && !is_private {
            Some(Token::random()?)
        } else {
            None
        };
        let asked = asked_to_stop();
        tokio::pin!(asked);
        // Poll `asked` once to install the signal handlers before `ready`, because a signal may
        // follow immediately.
        tokio::select! {
            biased;
            () = &mut asked => return Ok(()),
            () = std::future::ready(()) => {}
        }
        ready(&Ready {
            local,
            made: made.as_ref(),
        })?;
        let server = accept(
            listener,
            router(state, token.or_else(|| made.clone())),
            limits,
            stopping,
        );
        tokio::pin!(server);
        tokio::select! {
            () = &mut server => return Err(Error::new(Kind::Bug, "the server ended unexpectedly")),
            () = &mut asked => {}
        }
        let _ = stop.send(true);
        library.stop();
        // A stalled reader must not keep the process alive.
        let _ = tokio::time::timeout(GRACE, server).await;
        Ok(())
    });
    library.close();
    // A response that is still being built must not keep the process alive either.
    runtime.shutdown_background();
    served
}

async fn bind(address: &Address) -> Result<TcpListener> {
    match TcpListener::bind((address.host.as_str(), address.port)).await {
        Ok(listener) => Ok(listener),
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
            let hint = if is_board(address) {
                format!(
                    "another board is already running there: open http://{}:{}/, or choose a port with --port",
                    address.host, address.port
                )
            } else {
                "choose another port with --port, or --port 0 for a free one".to_owned()
            };
            Err(unusable(address).because(error).hint(hint))
        }
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Err(unusable(address)
            .because(error)
            .hint("ports below 1024 need special permissions: choose a higher one with --port")),
        Err(error) => Err(unusable(address)
            .because(error)
            .hint("--host must be an address of this machine, such as 127.0.0.1")),
    }
}

fn unusable(address: &Address) -> Error {
    Error::new(
        Kind::Unreadable,
        format!("can't listen on {}:{}", address.host, address.port),
    )
}

/// Whether a board already answers at `address`. Used only to give a better hint.
fn is_board(address: &Address) -> bool {
    let ask = || -> io::Result<String> {
        let mut stream = std::net::TcpStream::connect((address.host.as_str(), address.port))?;
        stream.set_read_timeout(Some(Duration::from_millis(300)))?;
        write!(stream, "GET /healthz HTTP/1.0\r\nHost: localhost\r\n\r\n")?;
        let mut answer = String::new();
        stream.take(4096).read_to_string(&mut answer)?;
        Ok(answer)
    };
    // A board that requires a token reveals only that it is a board.
    ask().is_ok_and(|answer| {
        answer.contains("\"scan_age_ms\"") || answer.contains("realm=\"board\"")
    })
}

/// Resolves on Ctrl-C, and on SIGTERM where the platform has it.
pub(crate) async fn asked_to_stop() {
    #[cfg(unix)]
    if let Ok(mut term) = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())
    {
        tokio::select! {
            _ = tokio::signal::ctrl_c() => {}
            _ = term.recv() => {}
        }
        return;
    }
    let _ = tokio::signal::ctrl_c().await;
}
