//! What becomes of a run whose files were removed from a store's mirror so that newer ones have room? Its row stays as it
//! is, and nothing is read before the files are back.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::{Run, now};
use crate::analysis::life::Outside;
use crate::analysis::summary::{Summary, summary};
use crate::mirror::Mirror;
use crate::model::{Delta, Index, Issue, IssueKind, TraceFile};

/// Whoever opens an evicted run waits so long for its files, and is then told that they are on their way.
pub const FETCH_PATIENCE: Duration = Duration::from_secs(20);

/// The files of a run are not on this machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Evicted;

impl Run {
    /// The same run, in the mirror of a store.
    pub(in crate::live) fn in_store(self, store: Option<Arc<Mirror>>) -> Self {
        Self { store, ..self }
    }

    /// Whether it lies in an object store.
    pub(in crate::live) fn is_stored(&self) -> bool {
        self.store.is_some()
    }

    fn files(&self) -> Vec<PathBuf> {
        TraceFile::ALL
            .iter()
            .map(|file| self.dir.file(*file))
            .collect()
    }

    /// Whether files of it were removed to keep a store's cache within its limit.
    pub fn is_evicted(&self) -> bool {
        self.store
            .as_ref()
            .is_some_and(|store| store.has_evicted() && store.is_evicted(&self.files()))
    }

    /// Whether it stays on the board without its files: what was read of it is all there was.
    pub(in crate::live) fn stays(&self) -> bool {
        self.is_evicted() && self.is_known() && !self.summary().partial
    }

    /// Keeps its files where they are as long as the value lives; an error where they were evicted.
    pub fn hold(&self) -> Result<Option<impl Sized + Send + use<>>, Evicted> {
        match &self.store {
            None => Ok(None),
            Some(store) => store.hold(&self.files()).map(Some).ok_or(Evicted),
        }
    }

    /// Somebody opens it: of the runs of a store, those that were opened last are evicted last.
    pub fn ask(&self) {
        if let Some(store) = &self.store {
            store.ask(self.dir.path());
        }
    }

    /// Has its files fetched again where they were evicted, and waits for them until then.
    ///
    /// # Errors
    /// Why they are not here.
    pub async fn fetch(&self, until: Instant) -> Result<(), String> {
        let Some(store) = self.store.as_ref().filter(|_| self.is_evicted()) else {
            return Ok(());
        };
        let mut news = store.news();
        self.ask();
        let came = async {
            while self.is_evicted() {
                if let Some(why) = store.failure(self.dir.path()) {
                    return Err(format!(
                        "they could not be fetched again from {}: {why}",
                        store.address()
                    ));
                }
                if news.changed().await.is_err() {
                    break;
                }
            }
            Ok(())
        };
        let late = |_| {
            Err(format!(
                "they are being fetched again from {}; look again in a moment",
                store.address()
            ))
        };
        tokio::time::timeout_at(until, came)
            .await
            .unwrap_or_else(late)
    }

    /// As time passes, a run that had not ended is silent for longer; that is judged by its last sign of life. Says whether
    /// something about it changed.
    pub(in crate::live) fn grows_older(&self) -> bool {
        let (Some(index), before) = (self.open_index(), self.summary()) else {
            return false;
        };
        let written = before.life.sign.map(|sign| (sign, sign));
        if before.life.clone().at(now(), None).liveness == before.life.liveness {
            return false;
        }
        let fresh = summary(
            &self.key,
            self.path.clone(),
            &index,
            Outside {
                now: now(),
                written,
                process: None,
            },
        );
        let fresh = Summary {
            prices: before.prices.clone(),
            ..fresh
        };
        self.show(fresh, &index);
        true
    }

    /// As if its last sign of life had been another one.
    #[cfg(test)]
    pub(in crate::live) fn set_sign(&self, sign: i64) {
        let mut summary = self
            .summary
            .write()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        Arc::make_mut(&mut summary).life.sign = Some(sign);
    }

    /// What is known of its records while its files are not here.
    pub(super) fn nothing_here() -> Arc<Index> {
        let mut index = Index::default();
        let reason =
            "its files were evicted from the cache of the store; opening the run fetches them again".to_owned();
        let issue = Issue {
            kind: IssueKind::Unreadable,
            file: TraceFile::Steps,
            line: None,
            offset: None,
            reason,
        };
        index.apply(Delta {
            passing: vec![issue],
            ..Delta::default()
        });
        Arc::new(index)
    }
}
