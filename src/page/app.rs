//! What do all handlers share?

use std::sync::Arc;

use jiff::tz::TimeZone;
use tokio::sync::{Semaphore, watch};

use crate::live::Library;
use crate::page::error::WebError;
use crate::page::turns::{Turn, Turns};
use crate::page::{download, extract, jobs, run, search, sweep};

/// So many streams of news are open at a time, unless the server knows what it can afford.
const MAX_STREAMS: usize = 1_024;

/// What all handlers share.
#[derive(Debug, Clone)]
pub struct AppState {
    pub(crate) library: Arc<Library>,
    /// Tells one start of the server from another.
    pub(crate) boot: Arc<str>,
    /// The name the server was told to listen on, beside addresses and `localhost`.
    pub(crate) host: Arc<str>,
    pub(crate) zone: TimeZone,
    /// Questions over many runs that are under way or were answered lately.
    pub(crate) sweeps: Arc<jobs::Jobs<sweep::Question>>,
    /// Searches that are under way or were done lately.
    pub(crate) searches: Arc<jobs::Jobs<search::Search>>,
    /// One for each long answer that may be written now.
    pub(crate) downloads: Turns,
    /// One for each run that may be read again now because somebody asks for it.
    pub(crate) wakes: Arc<Semaphore>,
    /// Taken before one of `wakes` for a large run, so that large runs don't hold all of those while they wait for each other.
    pub(crate) large_wakes: Arc<Semaphore>,
    /// One for each answer that may read all lines of a run now.
    pub(crate) walks: Turns,
    /// One for each stream of news that may be open.
    pub(crate) streams: Arc<Semaphore>,
    /// The lists of changed files that were asked for last.
    pub(crate) lists: Arc<run::lists::Lists>,
    /// True once the server is to stop; streams end then.
    pub(crate) stopping: watch::Receiver<bool>,
}

impl AppState {
    /// State for a library served under the name `host`; `stopping` ends all streams when it turns true.
    pub fn new(library: Arc<Library>, host: &str, stopping: watch::Receiver<bool>) -> Self {
        // A start is told apart by its time; nobody has to guess or keep it secret.
        let started = std::time::SystemTime::now()
            .duration_since(std::time::UNIX_EPOCH)
            .unwrap_or_default();
        let boot = format!("{:x}", started.as_nanos());
        let sweeps = Arc::new(jobs::Jobs::new(stopping.clone()));
        let searches = Arc::new(jobs::Jobs::new(stopping.clone()));
        let downloads = Turns::new(download::MAX_DOWNLOADS);
        let wakes = Arc::new(Semaphore::new(extract::MAX_WAKES));
        let large_wakes = Arc::new(Semaphore::new(1));
        let walks = Turns::new(run::changed::MAX_WALKS);
        let streams = Arc::new(Semaphore::new(MAX_STREAMS));
        let (boot, host, zone) = (boot.into(), host.into(), TimeZone::system());
        let lists = Arc::default();
        Self {
            library,
            boot,
            host,
            zone,
            sweeps,
            searches,
            downloads,
            wakes,
            large_wakes,
            walks,
            streams,
            lists,
            stopping,
        }
    }

    /// Waits until all lines of a run may be read for an answer; what is returned is kept until they are.
    pub(crate) async fn walk(&self) -> Result<Turn, WebError> {
        self.walks.take().await
    }
}
