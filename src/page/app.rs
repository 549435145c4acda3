//! Holds the state that all handlers share.

use std::sync::{Arc, OnceLock};

use jiff::tz::TimeZone;
use tokio::sync::{Semaphore, watch};

use crate::analysis::format::visible_line;
use crate::analysis::query::{Clock, Query};
use crate::live::{Editor, Library};
use crate::page::error::WebError;
use crate::page::runs::saved::SavedViews;
use crate::page::shell::{NavItem, Shell, now};
use crate::page::turns::{Turn, Turns};
use crate::page::{edits, jobs, run, search, sweep};
use crate::text_index::TextIndex;

/// Limits concurrent downloads. Others wait for their turn.
pub(crate) const MAX_DOWNLOADS: usize = 16;
/// Limits concurrent reloads of evicted runs for requests. Pages have separate threads.
pub(crate) const MAX_RELOADS: usize = 4;
/// Lists of files that may be built at a time. Each reads all lines of a run, and other pages need
/// threads too.
pub(crate) const MAX_WALKS: usize = 2;
/// Completions that are counted at a time. They read no files, and mustn't wait for those that do.
const MAX_COMPLETIONS: usize = 2;
/// Limits open event streams, unless the server computes its own limit.
const MAX_STREAMS: usize = 1_024;

/// The state that all handlers share.
#[derive(Debug, Clone)]
pub(crate) struct AppState {
    pub(crate) library: Arc<Library>,
    /// Boot id: identifies one start of the server.
    pub(crate) boot: Arc<str>,
    /// The name given with `--host`. IP addresses and `localhost` are accepted as well.
    pub(crate) host: Arc<str>,
    pub(crate) zone: TimeZone,
    /// The roots as the user typed them. They don't change while a board runs.
    pub(crate) roots: Arc<str>,
    /// What-if questions over many runs: those in progress and recent results.
    pub(crate) sweeps: Arc<jobs::Jobs<sweep::SweepTask>>,
    /// Searches in progress and recent results.
    pub(crate) searches: Arc<jobs::Jobs<search::Search>>,
    /// The index of messages and tool calls, once it's open, if board keeps one.
    pub(crate) texts: Arc<OnceLock<Arc<TextIndex>>>,
    /// Limits concurrent downloads.
    pub(crate) downloads: Turns,
    /// Limits concurrent reloads of evicted runs for requests.
    pub(crate) reloads: Arc<Semaphore>,
    /// Acquired before `reloads` to reload a large run, so that large runs waiting for each other
    /// don't use up `reloads`.
    pub(crate) large_reloads: Arc<Semaphore>,
    /// Limits the responses that may read all lines of a run at the same time.
    pub(crate) walks: Turns,
    /// Limits the completions that are counted at the same time.
    pub(crate) completions: Turns,
    /// Limits open event streams.
    pub(crate) streams: Arc<Semaphore>,
    /// The most recently requested lists of changed files.
    pub(crate) lists: Arc<run::lists::Lists>,
    /// The edits of the runs that were looked at last.
    pub(crate) edits: Arc<edits::recent::Found>,
    /// The saved views of the run table.
    pub(crate) views: SavedViews,
    /// The editor that pages link files to. `None` if other machines can reach board.
    pub(crate) editor: Option<Arc<Editor>>,
    /// True once the server is to stop, which ends all streams.
    pub(crate) stopping: watch::Receiver<bool>,
}

impl AppState {
    /// Creates the state for a library served under the name `host`. Streams end when `stopping`
    /// turns true.
    pub(crate) fn new(library: Arc<Library>, host: &str, stopping: watch::Receiver<bool>) -> Self {
        // The start time is unique enough, and the id needn't be secret.
        let started = std::time::SystemTime::now()
            .duration_since(std::time::UNIX_EPOCH)
            .unwrap_or_default();
        let boot = format!("{:x}", started.as_nanos());
        let sweeps = Arc::new(jobs::Jobs::new(stopping.clone()));
        let searches = Arc::new(jobs::Jobs::new(stopping.clone()));
        let downloads = Turns::new(MAX_DOWNLOADS);
        let reloads = Arc::new(Semaphore::new(MAX_RELOADS));
        let large_reloads = Arc::new(Semaphore::new(1));
        let walks = Turns::new(MAX_WALKS);
        let completions = Turns::new(MAX_COMPLETIONS);
        let streams = Arc::new(Semaphore::new(MAX_STREAMS));
        let (boot, host, zone) = (boot.into(), host.into(), TimeZone::system());
        let lists = Arc::default();
        let roots: Vec<String> = library
            .status()
            .roots
            .iter()
            .map(|root| visible_line(&root.path.to_string_lossy()).into_owned())
            .collect();
        Self {
            library,
            boot,
            host,
            zone,
            roots: roots.join(", ").into(),
            sweeps,
            searches,
            texts: Arc::default(),
            downloads,
            reloads,
            large_reloads,
            walks,
            completions,
            streams,
            lists,
            edits: Arc::default(),
            views: SavedViews::default(),
            editor: None,
            stopping,
        }
    }

    /// Waits until a response may read all lines of a run. Keep the returned turn until they are
    /// read.
    pub(crate) async fn walk(&self) -> Result<Turn, WebError> {
        self.walks.take().await
    }

    /// Parses a query whose dates are those of the current time in board's zone.
    pub(crate) fn query(&self, text: &str) -> Query {
        Query::parse_at(text, &self.clock())
    }

    /// Returns a clock with the current time in board's zone.
    pub(crate) fn clock(&self) -> Clock {
        Clock::at(now(), &self.zone)
    }

    /// Returns the roots as the user typed them.
    pub(crate) fn shown_roots(&self) -> &str {
        &self.roots
    }

    /// Returns the shell of a page without a run or a stream.
    pub(crate) fn shell(&self, place: NavItem) -> Shell {
        Shell {
            root: self.shown_roots().to_owned(),
            boot: self.boot.to_string(),
            place,
            ..Shell::default()
        }
    }
}
