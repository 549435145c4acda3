//! Lists a bucket and gets its objects through object_store, with retries.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use http::Extensions;
use object_store::list::PaginatedListOptions;
use object_store::path::Path;
use object_store::{GetOptions, GetRange, GetResult};

use super::address::Address;
use super::client::{Bucket, client, target};
use super::fault::Fault;
use super::http::{Http, Patience, Purpose};
use super::listing::{Object, Page};
use super::lock;
use super::pace::Turns;
use super::settings::{Login, Settings};
use crate::error::Result;

/// The number of objects on a page.
const PAGE_OBJECTS: usize = 1_000;
/// The longest wait that a store may ask for. The next listing tries again anyway.
const MAX_WAIT: Duration = Duration::from_secs(30);
/// The number of attempts at a request.
const TRIES: u32 = 4;

/// A bucket.
#[derive(Debug)]
pub(super) struct Store {
    address: Address,
    current: Mutex<Current>,
    http: Arc<Http>,
    pub(super) patience: Patience,
    first_wait: Duration,
    /// Whether tags that look like checksums are checksums, as far as is known.
    pub(super) tags_are_sums: AtomicBool,
}

/// The settings, and the client built from them.
#[derive(Debug)]
struct Current {
    settings: Settings,
    client: Arc<dyn Bucket>,
}

impl Store {
    /// Builds the clients, without sending a request.
    pub(super) fn new(
        address: Address,
        settings: Settings,
        patience: Patience,
        first_wait: Duration,
    ) -> Result<Self> {
        let is_tls = target(&address, &settings).is_tls()?;
        let http = Arc::new(Http::new(is_tls, patience)?);
        let client = client(&address, &settings, &http)?;
        Ok(Self {
            address,
            current: Mutex::new(Current { settings, client }),
            http,
            patience,
            first_wait,
            tags_are_sums: AtomicBool::new(true),
        })
    }

    /// Identifies the store: its host, and the path of the endpoint if it has one.
    pub(super) fn id(&self) -> String {
        target(&self.address, &self.current().settings).store
    }

    /// Counts the requests.
    pub(super) fn http(&self) -> &Http {
        &self.http
    }

    /// Reads the credentials again, since other programs replace expired ones.
    pub(super) fn reread(&self) {
        if !self.current().settings.reread {
            return;
        }
        if let Ok(fresh) = Settings::read(&self.address)
            && !matches!(fresh.login, Login::Anonymous { .. })
        {
            self.change(|settings| {
                (settings.login, settings.options) = (fresh.login, fresh.options);
            });
        }
    }

    fn current(&self) -> MutexGuard<'_, Current> {
        lock(&self.current)
    }

    /// Changes the settings, unless object_store can't use them.
    fn change(&self, change: impl FnOnce(&mut Settings)) {
        let mut current = self.current();
        let mut settings = current.settings.clone();
        change(&mut settings);
        match client(&self.address, &settings, &self.http) {
            Ok(client) => *current = Current { settings, client },
            Err(error) => tracing::warn!("{error:#}"),
        }
    }

    /// Gets one page of the listing. Keys are relative to the prefix. Each request waits for its turn.
    pub(super) async fn list(&self, after: Option<&str>, turns: &Turns<'_>) -> Result<Page, Fault> {
        let sent = || self.http.listings.load(Ordering::Relaxed);
        let attempt = async || {
            turns.take().await;
            let before = sent();
            let listed = self.list_once(after).await;
            // Without credentials, no request is sent.
            if sent() == before {
                turns.give_back();
            }
            listed
        };
        let list = async || self.patiently(&attempt).await;
        let listed = list().await;
        let before = self.current().settings.login.clone();
        let then_instance = true;
        if !matches!(listed, Err(Fault::Refused(..)))
            || before != (Login::Anonymous { then_instance })
        {
            return listed;
        }
        self.change(|settings| settings.login = Login::Instance);
        match list().await {
            // This machine has no role.
            Err(Fault::Client(..)) => {
                self.change(|settings| settings.login = before);
                listed
            }
            signed => signed,
        }
    }

    async fn list_once(&self, after: Option<&str>) -> Result<Page, Fault> {
        let prefix = &*self.address.prefix;
        let mut options = PaginatedListOptions {
            max_keys: Some(PAGE_OBJECTS),
            page_token: after.map(str::to_owned),
            ..PaginatedListOptions::default()
        };
        options.extensions.insert(Purpose::List);
        let client = Arc::clone(&self.current().client);
        let some = Some(prefix).filter(|prefix| !prefix.is_empty());
        let listed = client.list_paginated(some, options).await;
        let mut listed = listed.map_err(|error| match Fault::of(&error) {
            // The page isn't read by object_store, so only credentials can be missing.
            Fault::Client(what, None) => Fault::no_login(&what, self.address.cloud),
            fault => fault,
        })?;
        let mut page = page_of(&mut listed.result.extensions)?;
        let before = page.objects.len();
        page.objects.retain_mut(|object| {
            let below = object.key.strip_prefix(prefix).map(str::to_owned);
            let is_below = below.is_some();
            object.key = below.unwrap_or_default();
            is_below
        });
        page.unreadable += before - page.objects.len();
        Ok(page)
    }

    /// Requests an object once. With `from`, requests what follows after this byte if the object still has the listed tag.
    pub(super) async fn get(&self, listed: &Object, from: Option<u64>) -> Result<GetResult, Fault> {
        let path = Path::parse(format!("{}{}", self.address.prefix, listed.key));
        let path = path.map_err(|error| Fault::Wrong(error.to_string(), None))?;
        let size = listed.size - from.unwrap_or_default();
        let mut options = GetOptions {
            if_match: from.map(|_| format!("\"{}\"", listed.etag)),
            range: from.map(GetRange::Offset),
            ..GetOptions::default()
        };
        options.extensions.insert(Purpose::Get { size });
        let client = Arc::clone(&self.current().client);
        let answer = client.get_opts(&path, options).await;
        answer.map_err(|error| Fault::of(&error))
    }

    /// Repeats `attempt` until it succeeds or fails for good.
    pub(super) async fn patiently<T>(
        &self,
        mut attempt: impl AsyncFnMut() -> Result<T, Fault>,
    ) -> Result<T, Fault> {
        let mut tries = 1;
        loop {
            match attempt().await {
                Err(Fault::Passing(_, wait))
                    if tries < TRIES && wait.is_none_or(|wait| wait <= MAX_WAIT) =>
                {
                    let ours = jittered(self.first_wait * 2_u32.pow(tries - 1));
                    tokio::time::sleep(wait.map_or(ours, |wait| wait.max(ours))).await;
                }
                // Followed once, since a second region could lead back to the first.
                Err(Fault::Elsewhere(region)) if tries == 1 => {
                    self.change(|settings| settings.region = region);
                }
                done => return done,
            }
            tries += 1;
        }
    }
}

/// Returns the page that our client read. Without one, all cached objects would count as deleted.
fn page_of(extensions: &mut Extensions) -> Result<Page, Fault> {
    let what = "the listing was lost because of a bug in board";
    let lost = || Fault::Wrong(what.to_owned(), None);
    extensions.remove().ok_or_else(lost)
}

/// Spreads the retries of boards that failed at the same time.
fn jittered(wait: Duration) -> Duration {
    let part = f64::from(getrandom::u32().unwrap_or_default()) / f64::from(u32::MAX);
    wait.mul_f64(0.5 + part / 2.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lost_page_is_no_empty_page() {
        let mut extensions = Extensions::new();
        assert!(matches!(page_of(&mut extensions), Err(Fault::Wrong(..))));
        extensions.insert(Page::default());
        assert_eq!(page_of(&mut extensions), Ok(Page::default()));
    }
}
