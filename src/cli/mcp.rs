//! `board mcp`: runs board as a Model Context Protocol server on stdin and stdout, for coding
//! agents that ask why a run stopped.

use std::io::Write;
use std::path::PathBuf;

use super::command::{Done, Failure};
use super::config::{Settings, followed_tags};
use super::serve;
use super::sessions;
use crate::live::{Library, Options};
use crate::serve::mcp::{Ended, talk};

/// Serve runs to coding agents over the Model Context Protocol on stdin and stdout
#[derive(Debug, clap::Args)]
#[command(
    after_help = "For Claude Code: claude mcp add board -- board mcp ~/.claude/projects
Its tools are read-only: list_runs, why, step, state, search, usage, overview, failures, experiment, diff, whatif. Exits when stdin closes."
)]
pub(super) struct Args {
    /// Directories with runs, searched up to 8 levels deep; missing ones are picked up once they exist.
    /// Also object stores, as in `board serve`
    /// [default: the roots in the settings, else ./runs]
    #[arg(value_name = "ROOT")]
    roots: Vec<PathBuf>,
    /// Also serve this user's coding-agent sessions
    #[arg(long)]
    sessions: bool,
    /// Disable the index cache
    #[arg(long)]
    no_cache: bool,
    #[command(flatten)]
    stores: super::stores::Stores,
    #[command(flatten)]
    settings: Settings,
}

pub(super) fn run(args: &Args, out: &mut dyn Write) -> Done {
    let config = args.settings.read()?;
    let (roots, _) = serve::roots(&args.roots, args.sessions, &config, sessions::places())?;
    let cache = if args.no_cache {
        None
    } else {
        serve::cache_dir()
    };
    let (roots, mirrors) = args.stores.follow(roots, cache.as_deref())?;
    roots.iter().try_for_each(|root| serve::check(root))?;
    let library = Library::open(
        roots,
        Options {
            cache,
            mirrors,
            prices: config.prices,
            tags: followed_tags(),
            ..Options::default()
        },
    );
    talk(library, tokio::io::stdin(), out).map_err(|ended| match ended {
        Ended::Told(error) => Failure::Told(error),
        Ended::Output(error) => Failure::Output(error),
    })?;
    Ok(0)
}
