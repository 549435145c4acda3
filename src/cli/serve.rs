//! `board serve`: serves the web board.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io::Write;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket};
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::config::{Config, Settings, followed_tags};
use super::sessions;
use super::stores::{Stores, seconds, size};
use super::warning::warn;
use crate::error::{Error, Kind, Result};
use crate::live::{Elsewhere, Library, Options, build};
use crate::page::search::keeper::Open;
use crate::serve::Address;
use crate::serve::Token;
use crate::serve::serve;
use crate::text_index::TextIndex;
use crate::trace::RootScanner;

/// Serve the web interface until Ctrl-C
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Directories with runs, searched up to 8 levels deep; missing ones are picked up once they exist.
    /// s3://BUCKET/PREFIX, gs://BUCKET/PREFIX and az://CONTAINER/PREFIX read object stores, with the
    /// same credentials as the cloud's own tools
    /// [default: the roots in the settings, else ./runs]
    #[arg(value_name = "ROOT")]
    roots: Vec<PathBuf>,
    /// Also show this user's coding-agent sessions
    #[arg(long)]
    sessions: bool,
    /// The address to listen on
    #[arg(long, default_value = "127.0.0.1")]
    host: String,
    /// The port to listen on; 0 picks a free one
    #[arg(long, default_value_t = 8765, value_parser = port)]
    port: u16,
    /// Require this token (at least 16 characters); set BOARD_TOKEN instead to keep it out of the
    /// process list. Without a token, one is generated and printed if other machines can reach the address
    #[arg(long, value_name = "TOKEN")]
    token: Option<String>,
    /// Open board in the browser
    #[arg(long)]
    open: bool,
    /// Check every file this often instead of watching for changes
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    poll: Option<Duration>,
    /// Disable the index cache
    #[arg(long)]
    no_cache: bool,
    /// Don't index messages and tool calls; searches then read all files
    #[arg(long)]
    no_search_index: bool,
    /// Keep the search index below this size, such as 500MB; removes the oldest runs first
    #[arg(long, value_name = "SIZE", default_value = "4GB", value_parser = size)]
    search_cache: u64,
    /// Read and search runs on at most this many threads [default: one for each core]
    #[arg(long, value_name = "N")]
    threads: Option<NonZero<usize>>,
    #[command(flatten)]
    stores: Stores,
    #[command(flatten)]
    settings: Settings,
}

/// Serves until the process is asked to stop. The first line written to `out` is the address.
///
/// # Errors
/// A setting is invalid, a root is a file, or the address can't be used.
pub(super) fn run(args: &Args, out: &mut dyn Write) -> Result<u8> {
    let token = token(args)?;
    let config = args.settings.read()?;
    let (roots, elsewhere) = roots(&args.roots, args.sessions, &config, sessions::places())?;
    let cache = if args.no_cache { None } else { cache_dir() };
    let (roots, mirrors) = args.stores.follow(roots, cache.as_deref())?;
    for root in &roots {
        check(root)?;
    }
    let options = Options {
        poll: args.poll,
        cache,
        elsewhere,
        mirrors,
        prices: config.prices,
        tags: followed_tags(),
        threads: args.threads,
    };
    let texts = texts(args, options.cache.as_deref(), &roots);
    let library = Library::open(roots, options);
    let address = Address {
        host: args.host.clone(),
        port: args.port,
    };
    let (views, editor) = (config.views, config.editor);
    serve(library, texts, views, editor, &address, token, |ready| {
        let ip = ready.local.ip();
        // No browser can open the unspecified address.
        let this_machine = || {
            if ip.is_ipv4() {
                Ipv4Addr::LOCALHOST.into()
            } else {
                Ipv6Addr::LOCALHOST.into()
            }
        };
        let reached = ip
            .is_unspecified()
            .then(|| own_address(ip).unwrap_or_else(this_machine));
        let host = reached.map_or_else(|| args.host.clone(), |ip| ip.to_string());
        let host = if host.contains(':') {
            format!("[{host}]")
        } else {
            host
        };
        let url = format!("http://{host}:{}/", ready.local.port());
        let key = ready
            .made
            .map(|made| format!("{url}?token={}", made.reveal()));
        let said = writeln!(out, "board: listening on {url}")
            .and_then(|()| {
                key.as_ref()
                    .map_or(Ok(()), |key| writeln!(out, "board: open {key}"))
            })
            .and_then(|()| out.flush());
        said.map_err(|error| {
            Error::new(Kind::Unreadable, "can't write the address to stdout").because(error)
        })?;
        if !ready.local.ip().to_canonical().is_loopback() {
            warn(
                "other machines can reach this address; the token keeps strangers out, but traces and the token are sent \
                 unencrypted; remove --host to listen on this machine only",
            );
        }
        if args.open {
            // Without the token, which other users of this machine would see in the process list.
            // The page asks for it.
            open(&url);
        }
        Ok(())
    })?;
    Ok(0)
}

/// Returns the roots to serve, and the directories with other sessions. If neither roots nor
/// `./runs` exist, warns where sessions were found.
pub(super) fn roots(
    typed: &[PathBuf],
    sessions: bool,
    config: &Config,
    found: Vec<Elsewhere>,
) -> Result<(Vec<PathBuf>, Vec<Elsewhere>)> {
    let named = if typed.is_empty() {
        &config.roots
    } else {
        typed
    };
    let runs = Path::new("./runs");
    let missing = named.is_empty() && !runs.exists();
    let mut roots = if named.is_empty() {
        vec![runs.to_owned()]
    } else {
        named.to_vec()
    };
    if sessions && missing && found.is_empty() {
        let error = Error::new(Kind::NotFound, "no sessions found in this user's home");
        return Err(error.hint("pass the directory that contains them: board serve DIR"));
    }
    if sessions || config.sessions {
        if missing && !found.is_empty() {
            roots.clear();
        }
        for place in found {
            if !roots.contains(&place.dir) {
                roots.push(place.dir);
            }
        }
        return Ok((roots, Vec::new()));
    }
    for place in found.iter().filter(|_| missing) {
        warn(&format!(
            "{} keeps sessions in {}; add `--sessions` to show them",
            place.tool,
            place.dir.display()
        ));
    }
    let unopened = found
        .into_iter()
        .filter(|place| !roots.contains(&place.dir))
        .collect();
    Ok((roots, unopened))
}

/// Returns the address at which other machines can reach this one, or `None` without a network.
/// Sends nothing: a datagram socket only reports the address it would send from.
fn own_address(any: IpAddr) -> Option<IpAddr> {
    let from = |any: IpAddr, to: IpAddr| {
        let socket = UdpSocket::bind((any, 0)).ok()?;
        socket.connect((to, 9)).ok()?;
        Some(socket.local_addr().ok()?.ip()).filter(|ip| !ip.is_loopback() && !ip.is_unspecified())
    };
    // Addresses reserved for documentation. They're routed like any other, but unused.
    let v4 = || {
        from(
            Ipv4Addr::UNSPECIFIED.into(),
            Ipv4Addr::new(192, 0, 2, 1).into(),
        )
    };
    let v6 = || from(any, Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1).into());
    v4().or_else(|| v6().filter(|_| any.is_ipv6()))
}

/// Returns the token from the option, or else from the environment.
fn token(args: &Args) -> Result<Option<Token>> {
    let given = match &args.token {
        Some(token) => Some(token.clone()),
        None => std::env::var_os("BOARD_TOKEN").map(|token| token.to_string_lossy().into_owned()),
    };
    let token = given.as_deref().map(Token::new).transpose();
    token.map_err(|error| {
        error.hint("remove --token and BOARD_TOKEN to have a token generated if one is needed")
    })
}

/// Checks a root. One that doesn't exist yet is fine, but one that can never contain runs is an
/// error.
pub(super) fn check(root: &Path) -> Result<()> {
    match std::fs::metadata(root) {
        Ok(metadata) if !metadata.is_dir() => {
            match RootScanner::new(root.to_owned()).scan().fault {
                None => Ok(()),
                Some(fault) => {
                    let error =
                        Error::new(Kind::Unreadable, format!("{}: {fault}", root.display()));
                    Err(error
                        .hint("ROOT must be a directory with runs, or a file that contains runs"))
                }
            }
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            warn(&format!(
                "there is no directory {} yet; its runs appear once it exists",
                root.display()
            ));
            Ok(())
        }
        // Other problems, such as missing permissions, may be temporary and are shown on the page.
        _ => Ok(()),
    }
}

/// Returns a function that opens the index of texts for these roots, unless there shall be none.
fn texts(args: &Args, cache: Option<&Path>, roots: &[PathBuf]) -> Option<Open> {
    let dir = cache.filter(|_| !args.no_search_index)?.to_owned();
    let (roots, max_bytes) = (roots.to_owned(), args.search_cache);
    Some(Box::new(move || {
        let build = build()?;
        let mut names = DefaultHasher::new();
        for root in &roots {
            let whole = std::fs::canonicalize(root);
            whole.as_ref().unwrap_or(root).hash(&mut names);
        }
        let name = format!("{:016x}", names.finish());
        TextIndex::open(&dir, &name, &build, max_bytes)
            .inspect_err(|error| {
                tracing::warn!(
                    "searches read all files, because the search index can't be used: {error}"
                );
            })
            .ok()
    }))
}

/// Returns the system's cache directory for this program, if known.
pub(super) fn cache_dir() -> Option<PathBuf> {
    let var = |name| {
        std::env::var_os(name)
            .filter(|value| !value.is_empty())
            .map(PathBuf::from)
    };
    let base = var("XDG_CACHE_HOME").or_else(|| {
        if cfg!(windows) {
            var("LOCALAPPDATA")
        } else {
            var("HOME").map(|home| {
                home.join(if cfg!(target_os = "macos") {
                    "Library/Caches"
                } else {
                    ".cache"
                })
            })
        }
    });
    Some(base?.join("trace-board"))
}

/// Opens the address in the user's browser with the system's own program.
fn open(url: &str) {
    let program = if cfg!(target_os = "macos") {
        "open"
    } else if cfg!(windows) {
        "explorer"
    } else {
        "xdg-open"
    };
    if let Err(error) = std::process::Command::new(program)
        .arg(url)
        .env_remove("BOARD_TOKEN")
        .spawn()
    {
        warn(&format!("can't open a browser with {program}: {error}"));
    }
}

fn port(text: &str) -> std::result::Result<u16, String> {
    text.parse()
        .map_err(|_| "must be a port number from 0 to 65535".to_owned())
}
