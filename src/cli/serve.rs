//! `board serve`: the web board.

use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

use crate::error::{Error, Kind, Result};

/// Serve the web board until Ctrl-C
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Directories with run directories in them, at any depth up to 4; one that is not there yet is waited for
    #[arg(value_name = "ROOT", default_value = "./runs")]
    roots: Vec<PathBuf>,
    /// The address to listen on
    #[arg(long, default_value = "127.0.0.1")]
    host: String,
    /// The port to listen on; 0 takes a free one
    #[arg(long, default_value_t = 8765)]
    port: u16,
    /// Open the board in the browser
    #[arg(long)]
    open: bool,
    /// Look at every file this often instead of waiting for the system to tell of changes
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    poll: Option<Duration>,
}

/// Serves until the process is asked to end.
///
/// # Errors
/// What the server says.
pub(super) fn run(args: &Args, _out: &mut dyn Write) -> Result<u8> {
    let Args { roots: _, host: _, port: _, open: _, poll: _ } = args;
    Err(Error::new(Kind::Bug, "serving does not work yet"))
}

fn seconds(text: &str) -> std::result::Result<Duration, String> {
    let seconds = text.parse().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    seconds.filter(|duration| !duration.is_zero()).ok_or_else(|| "expected a number of seconds above 0".to_owned())
}
