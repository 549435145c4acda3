//! Handles runs whose files were removed from a store's mirror to make room for newer ones. Their
//! rows stay unchanged, and the files aren't read until they are back.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::{Run, now};
use crate::analysis::life::ExternalFacts;
use crate::analysis::summary::{Summary, summary};
use crate::mirror::Mirror;
use crate::model::{Delta, Index, Issue, IssueKind, TraceFile};

/// How long opening an evicted run waits for its files before it reports that they are being
/// fetched.
pub(crate) const FETCH_PATIENCE: Duration = Duration::from_secs(20);

impl Run {
    /// Returns the run as part of a store's mirror.
    pub(in crate::live) fn in_store(self, store: Option<Arc<Mirror>>) -> Self {
        Self { store, ..self }
    }

    /// Returns whether the run is in an object store.
    pub(in crate::live) fn is_stored(&self) -> bool {
        self.store.is_some()
    }

    pub(super) fn files(&self) -> Vec<PathBuf> {
        TraceFile::ALL
            .iter()
            .map(|file| self.dir.file(*file))
            .collect()
    }

    /// Returns whether files of the run were removed to keep a store's cache within its limit.
    pub(crate) fn is_evicted(&self) -> bool {
        self.store
            .as_ref()
            .is_some_and(|store| store.has_evicted() && store.is_evicted(&self.files()))
    }

    /// Returns whether the run stays known without its files, because it was read
    /// completely.
    pub(in crate::live) fn stays(&self) -> bool {
        self.is_evicted() && self.is_known() && !self.summary().partial
    }

    /// Records that the run was opened. A store evicts the runs that were opened last, last.
    pub(crate) fn ask(&self) {
        if let Some(store) = &self.store {
            store.ask(self.dir.path());
        }
    }

    /// Fetches the files if they were evicted, and waits for them until `until`.
    ///
    /// # Errors
    /// Returns why the files aren't available.
    pub(crate) async fn fetch(&self, until: Instant) -> Result<(), String> {
        let Some(store) = self.store.as_ref().filter(|_| self.is_evicted()) else {
            return Ok(());
        };
        let mut news = store.news();
        self.ask();
        let came = async {
            while self.is_evicted() {
                if let Some(why) = store.failure(self.dir.path()) {
                    return Err(format!(
                        "they couldn't be fetched again from {}: {why}",
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
                "they are being fetched again from {}. Try again in a moment",
                store.address()
            ))
        };
        tokio::time::timeout_at(until, came)
            .await
            .unwrap_or_else(late)
    }

    /// Updates the liveness of a run without an end, which has been silent for longer by now. It's
    /// judged by the run's last sign of life. Returns whether anything changed.
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
            ExternalFacts {
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

    /// Sets the last sign of life.
    #[cfg(test)]
    pub(in crate::live) fn set_sign(&self, sign: i64) {
        let mut summary = self
            .summary
            .write()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        Arc::make_mut(&mut summary).life.sign = Some(sign);
    }

    /// Returns an index for a run whose files were evicted.
    pub(super) fn nothing_here() -> Arc<Index> {
        let mut index = Index::default();
        let reason =
            "its files were evicted from the store's cache (open the run to fetch them again)"
                .to_owned();
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
