//! Lists the store as often as the budget allows, and fetches what changed, many objects at a time.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tokio::sync::watch;
use tokio::task::{Id, JoinError, JoinHandle, JoinSet};

use super::evicted::is_within;
use super::fault::Fault;
use super::fetch::{CachedFile, Fetched, rest, whole};
use super::keep::Keep;
use super::listing::{Object, Page};
use super::pace::{Pace, Turns};
use super::plan::{CachedObject, How, Limits, Plan, plan};
use super::shared::Shared;
use super::status::Trouble;
use super::store::Store;
use super::{ListingBounds, Options};
use crate::trace::{Skipped, SkippedKind};

/// Slower objects are given up, so that a few don't block all others.
const SLOWEST_BYTES_A_SECOND: u64 = 16 << 10;
/// Additional time for an object, for pauses between attempts.
const OBJECT_TIME: Duration = Duration::from_secs(300);
/// The number of objects fetched at a time.
const AT_ONCE: usize = 32;
/// After this many failures in a row, the rest waits for the next listing.
const GIVE_UP_AFTER: u32 = 8;
/// The longest pause before a failed listing or object is tried again.
const LONGEST_REST: Duration = Duration::from_secs(60);
/// The number of objects in the status that couldn't be fetched.
const MAX_NAMED: usize = 100;

/// An object that couldn't be fetched.
struct Late {
    tag: String,
    tries: u32,
    again: Instant,
    reason: String,
}

pub(super) struct Follower {
    store: Arc<Store>,
    keep: Keep,
    shared: Arc<Shared>,
    options: Options,
    queue: VecDeque<(Object, How)>,
    listing: Option<(Instant, JoinHandle<Result<Page, Fault>>)>,
    running: JoinSet<Result<Fetched, Fault>>,
    /// The objects of the running tasks. A task that panics doesn't return its object.
    fetching: HashMap<Id, Object>,
    late: HashMap<String, Late>,
    odd: Vec<Skipped>,
    /// When the listing began whose objects are being fetched.
    worked_off: Option<Instant>,
    failures: u32,
    fetch_failures: u32,
    next: Instant,
    pace: Arc<Mutex<Pace>>,
}

impl Follower {
    pub(super) fn new(store: Store, keep: Keep, shared: Arc<Shared>, options: Options) -> Self {
        Self {
            store: Arc::new(store),
            keep,
            shared,
            options,
            queue: VecDeque::new(),
            listing: None,
            running: JoinSet::new(),
            fetching: HashMap::new(),
            late: HashMap::new(),
            odd: Vec::new(),
            worked_off: None,
            failures: 0,
            fetch_failures: 0,
            next: Instant::now(),
            pace: Arc::default(),
        }
    }

    /// Follows the store until `stop` changes. Must run in a [`tokio::task::LocalSet`].
    pub(super) async fn follow(&mut self, mut stop: watch::Receiver<bool>) {
        let shared = Arc::clone(&self.shared);
        loop {
            self.begin_fetching();
            self.publish();
            let next = tokio::time::Instant::from_std(self.next);
            tokio::select! {
                _ = stop.changed() => return,
                () = tokio::time::sleep_until(next), if self.listing.is_none() => self.begin_listing(),
                () = shared.evicted.wanted.notified() => self.hear(),
                listed = ended(self.listing.as_mut()), if self.listing.is_some() => self.take_listing(listed),
                Some(done) = self.running.join_next_with_id(), if !self.running.is_empty() => self.finish(done),
            }
        }
    }

    fn begin_listing(&mut self) {
        let (store, shared, pace) = (
            Arc::clone(&self.store),
            Arc::clone(&self.shared),
            Arc::clone(&self.pace),
        );
        let (bounds, budget) = (self.options.listing, self.options.budget);
        let listing = async move { list(&store, &shared, bounds, budget, &pace).await };
        self.listing = Some((Instant::now(), tokio::task::spawn_local(listing)));
        self.shared.change(|status| status.listing = Some(0));
    }

    fn take_listing(&mut self, listed: Result<Page, Fault>) {
        let Some((began, _)) = self.listing.take() else {
            return;
        };
        let asked = self.store.http().listings.load(Ordering::Relaxed);
        let took = asked - self.shared.listings_before.swap(asked, Ordering::Relaxed);
        let budget = u64::from(self.options.budget.max(1));
        let affordable = Duration::from_millis(took.saturating_mul(60_000) / budget);
        let every = self.options.every.max(affordable);
        match listed {
            Ok(listed) => {
                self.failures = 0;
                self.next = began + every;
                self.shared.change(|status| {
                    (status.listing, status.every) = (None, every);
                    (status.listed, status.listing_trouble) = (Some(Instant::now()), None);
                });
                self.work_off(listed, began);
            }
            Err(fault) => {
                let rest = every
                    .saturating_mul(2_u32.saturating_pow(self.failures))
                    .min(LONGEST_REST.max(every));
                self.failures += 1;
                self.next = Instant::now() + rest;
                if matches!(fault, Fault::Refused(..) | Fault::Client(..)) {
                    self.store.reread();
                }
                self.shared.change(|status| {
                    status.listing = None;
                    status.every = every;
                    status.listing_trouble = Some(trouble(&fault, status.listing_trouble.take()));
                });
            }
        }
    }

    /// Compares a listing with the cache.
    fn work_off(&mut self, listed: Page, began: Instant) {
        // Opened objects that aren't fetched yet take no room.
        let plan = self.plan(listed.objects, &self.shared.evicted.asked_and_here());
        for key in &plan.gone {
            if self.is_busy(key) {
                continue;
            }
            if let Err(error) = self.keep.lose(key) {
                tracing::warn!("{}: {key}: {error}", self.shared.address);
            }
            self.shared.evicted.forget(key);
        }
        self.evict(&plan.evict);
        let now = Instant::now();
        let wanted: HashSet<&str> = plan.wanted.iter().map(|(object, _)| &*object.key).collect();
        self.late
            .retain(|key, _| wanted.contains(&**key) || self.keep.is_evicted(key));
        let is_due = |(object, _): &(Object, How)| {
            let late = self
                .late
                .get(&object.key)
                .filter(|late| late.tag == object.etag);
            !self.is_busy(&object.key) && late.is_none_or(|late| late.again <= now)
        };
        self.queue = plan.wanted.into_iter().filter(is_due).collect();
        self.fetch_asked();
        self.odd = plan.odd;
        if listed.unreadable > 0 {
            let reason = "the listing has unreadable entries".to_owned();
            self.odd.push(Skipped {
                kind: SkippedKind::Object,
                path: format!("{} more", listed.unreadable),
                reason,
            });
        }
        self.fetch_failures = 0;
        self.worked_off = Some(began);
        self.shared.change(|status| {
            (status.objects, status.bytes, status.others) = (plan.objects, plan.bytes, plan.others);
        });
        self.name_odd();
    }

    /// Removes the files of objects, unless somebody reads them.
    fn evict(&mut self, keys: &[String]) {
        for key in keys {
            if self.is_busy(key) {
                continue;
            }
            let Self { keep, shared, .. } = self;
            shared.evicted.evict(key, || {
                if let Err(error) = keep.evict(key) {
                    tracing::warn!("{}: {key}: {error}", shared.address);
                }
                keep.is_evicted(key)
            });
        }
    }

    /// Fetches evicted objects that somebody opened, even if they failed before.
    fn hear(&mut self) {
        let asked = self.shared.evicted.asked();
        self.late
            .retain(|key, _| !asked.iter().any(|place| is_within(key, place)));
        self.fetch_asked();
    }

    /// Queues evicted objects that somebody opened before all others.
    fn fetch_asked(&mut self) {
        let mut awaited: HashSet<String> = self.shared.evicted.awaited().into_iter().collect();
        let coming = self.queue.iter().map(|(object, _)| &object.key);
        let running = self.fetching.values().map(|object| &object.key);
        for key in coming.chain(self.late.keys()).chain(running) {
            awaited.remove(key);
        }
        if awaited.is_empty() {
            return;
        }
        for (object, how) in self.plan_known().wanted.into_iter().rev() {
            if awaited.remove(&object.key) {
                self.queue.push_front((object, how));
            }
        }
        let evicted = &self.shared.evicted;
        awaited
            .iter()
            .for_each(|key| evicted.fail(key, "the cache is too small for it"));
    }

    /// Returns whether an object is being fetched.
    fn is_busy(&self, key: &str) -> bool {
        self.fetching.values().any(|object| object.key == key)
    }

    /// Returns whether an object was evicted and somebody opened it.
    fn comes_back(&self, key: &str) -> bool {
        let asked = self.shared.evicted.asked();
        self.keep.is_evicted(key) && asked.iter().any(|place| is_within(key, place))
    }

    /// Plans as if the store hadn't changed. Evicts what was opened longest ago, too.
    fn plan_known(&self) -> Plan {
        let object = |(key, kept): (&String, &CachedObject)| Object {
            key: key.clone(),
            etag: kept.etag.clone(),
            size: kept.size,
            modified: kept.modified,
        };
        let known = self.keep.objects().iter().map(object).collect();
        self.plan(known, &self.shared.evicted.asked())
    }

    fn plan(&self, listed: Vec<Object>, asked: &[String]) -> Plan {
        let limits = Limits {
            bytes: self.options.limit,
            folds: self.keep.folds,
            asked,
        };
        plan(listed, self.keep.objects(), limits)
    }

    /// Makes room after an opened object was fetched, and not before: the store may be away.
    fn make_room(&mut self) {
        // A plan looks at all objects, so a run of many files makes room once, unless it is large.
        let next = self.queue.front();
        let limit = match next.is_some_and(|(object, _)| self.comes_back(&object.key)) {
            true => self.options.limit / 8 * 9,
            false => self.options.limit,
        };
        if self.keep.bytes() > limit {
            self.evict(&self.plan_known().evict);
        }
    }

    fn begin_fetching(&mut self) {
        while self.running.len() < AT_ONCE
            && let Some((object, how)) = self.queue.pop_front()
        {
            let before = self.keep.here(&object.key).map_or(0, |here| here.size);
            let sizes = self.fetching.values().chain([&object]);
            let sizes = sizes.map(|object| object.size);
            let after = sizes.fold(self.keep.bytes(), u64::saturating_add);
            let is_full = after > self.options.limit.saturating_add(before);
            if is_full && !self.comes_back(&object.key) {
                self.delay(&object, "the cache is full".to_owned());
                continue;
            }
            let here = self.keep.here(&object.key).filter(|_| how == How::Rest);
            let (store, beside) = (Arc::clone(&self.store), self.keep.beside());
            let task = self.running.spawn_local({
                let object = object.clone();
                async move { fetch(&store, &beside, &object, here).await }
            });
            self.fetching.insert(task.id(), object);
        }
        if self.queue.is_empty() && self.running.is_empty() {
            if self.shared.read(|status| status.odd_total) != self.odd.len() + self.late.len() {
                self.name_odd();
            }
            if let Some(began) = self.worked_off.take() {
                self.shared.change(|status| {
                    // A store that lists objects and refuses to send them stays in trouble.
                    status.fetch_trouble = status
                        .fetch_trouble
                        .take()
                        .filter(|_| !self.late.is_empty());
                    if status.fetch_trouble.is_none() {
                        // Changed together, so that readers see all or none.
                        (status.as_of, status.kept_bytes, status.waiting) =
                            (Some(began), self.keep.bytes(), 0);
                    }
                });
            }
        }
    }

    fn finish(&mut self, done: Result<(Id, Result<Fetched, Fault>), JoinError>) {
        let (task, fetched) = done.unwrap_or_else(|error| {
            let what = "fetching failed because of a bug in board".to_owned();
            (error.id(), Err(Fault::Wrong(what, None)))
        });
        if let Some(object) = self.fetching.remove(&task) {
            self.take(&object, fetched);
        }
    }

    fn take(&mut self, object: &Object, fetched: Result<Fetched, Fault>) {
        let fault = match fetched {
            Ok(fetched) => match self.keep.take(fetched) {
                Ok(()) => {
                    self.make_room();
                    self.shared.evicted.forget(&object.key);
                    self.late.remove(&object.key);
                    self.fetch_failures = 0;
                    self.shared.change(|status| status.fetch_trouble = None);
                    return;
                }
                Err(error) => Fault::Wrong(format!("the cache directory: {error}"), None),
            },
            // The next listing has the new object.
            Err(Fault::Outdated) => {
                let why = "the store has replaced or deleted the object";
                return self.shared.evicted.fail(&object.key, why);
            }
            Err(fault) => fault,
        };
        self.delay(object, fault.what());
        self.fetch_failures += 1;
        if self.fetch_failures >= GIVE_UP_AFTER {
            self.queue.clear();
            // The cache is incomplete.
            self.worked_off = None;
            self.shared.change(|status| {
                status.fetch_trouble = Some(trouble(&fault, status.fetch_trouble.take()))
            });
        }
    }

    /// Tries an object again later, after a pause that doubles.
    fn delay(&mut self, object: &Object, reason: String) {
        let tries = self
            .late
            .get(&object.key)
            .filter(|late| late.tag == object.etag)
            .map_or(0, |late| late.tries + 1);
        let rest = self
            .options
            .every
            .saturating_mul(2_u32.saturating_pow(tries))
            .min(LONGEST_REST);
        self.shared.evicted.fail(&object.key, &reason);
        let late = Late {
            tag: object.etag.clone(),
            tries,
            again: Instant::now() + rest,
            reason,
        };
        self.late.insert(object.key.clone(), late);
    }

    fn name_odd(&self) {
        let late = self.late.iter().map(|(key, late)| Skipped {
            kind: SkippedKind::Object,
            path: key.clone(),
            reason: late.reason.clone(),
        });
        let late = late.take(MAX_NAMED);
        let mut all: Vec<Skipped> = self.odd.iter().cloned().chain(late).collect();
        all.sort_by(|a, b| a.path.cmp(&b.path));
        all.truncate(MAX_NAMED);
        self.shared.change(|status| {
            status.odd_total = self.odd.len() + self.late.len();
            status.odd = all.into();
        });
    }

    fn publish(&self) {
        self.shared.change(|status| {
            status.waiting = self.queue.len() + self.running.len();
            status.kept_bytes = self.keep.bytes();
            status.next = self.listing.is_none().then_some(self.next);
        });
        self.shared.tell();
    }
}

async fn ended(
    listing: Option<&mut (Instant, JoinHandle<Result<Page, Fault>>)>,
) -> Result<Page, Fault> {
    match listing {
        Some((_, listing)) => {
            let what = "listing failed because of a bug in board";
            listing
                .await
                .unwrap_or_else(|_| Err(Fault::Wrong(what.to_owned(), None)))
        }
        None => std::future::pending().await,
    }
}

/// Lists all pages, with at most `budget` requests in any minute. Fails if one page fails.
async fn list(
    store: &Store,
    shared: &Shared,
    bounds: ListingBounds,
    budget: u32,
    pace: &Mutex<Pace>,
) -> Result<Page, Fault> {
    let mut listed = Page::default();
    let mut after: Option<String> = None;
    let (mut seen, mut took) = (HashSet::new(), Duration::ZERO);
    let (mut bytes, mut empty) = (0_usize, 0_usize);
    let turns = Turns::new(pace, budget, shared);
    let too_much = |what: String| {
        let hint =
            "a longer address, such as s3://bucket/runs/2026, lists fewer objects".to_owned();
        Fault::Wrong(format!("stopped listing: {what}"), Some(hint))
    };
    loop {
        let limit = bounds.page_time;
        let page = turns.within(limit, store.list(after.as_deref(), &turns));
        let slow = || {
            Fault::Passing(
                format!("a page took longer than {} s", limit.as_secs()),
                None,
            )
        };
        let (page, time) = page.await.ok_or_else(slow)?;
        let page = page?;
        took += time;
        let sizes = page.objects.iter();
        bytes += sizes.map(|it| it.key.len() + it.etag.len()).sum::<usize>();
        bytes += page.next.as_ref().map_or(0, String::len);
        empty = match page.objects.is_empty() {
            true => empty + 1,
            false => 0,
        };
        listed.objects.extend(page.objects);
        listed.unreadable += page.unreadable;
        shared.change(|status| status.listing = Some(listed.objects.len()));
        if listed.objects.len() > bounds.objects {
            let most = count(bounds.objects);
            return Err(too_much(format!("it has more than {most} objects")));
        }
        if bytes > bounds.bytes {
            let most = count(bounds.bytes);
            return Err(too_much(format!(
                "its keys, tags and tokens have more than {most} bytes"
            )));
        }
        let Some(next) = page.next else {
            return Ok(listed);
        };
        if !seen.insert(next.clone()) {
            let what = "the listing repeats a page";
            return Err(Fault::Wrong(what.to_owned(), None));
        }
        if seen.len() >= bounds.pages {
            let most = count(bounds.pages);
            return Err(too_much(format!("it has more than {most} pages")));
        }
        if empty >= bounds.empty_pages {
            return Err(too_much(format!("{empty} pages in a row have no object")));
        }
        if took > bounds.time {
            let took = took.as_secs();
            return Err(too_much(format!("the store took {took} s to answer")));
        }
        after = Some(next);
    }
}

/// Formats a number with commas.
fn count(number: usize) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

async fn fetch(
    store: &Store,
    beside: &std::path::Path,
    object: &Object,
    here: Option<CachedFile>,
) -> Result<Fetched, Fault> {
    let coming = async {
        if let Some(here) = here
            && let Some(got) = rest(store, beside, object, &here).await?
        {
            return Ok(got);
        }
        whole(store, beside, object).await
    };
    let time = OBJECT_TIME + Duration::from_secs(object.size / SLOWEST_BYTES_A_SECOND);
    let what = format!("it didn't arrive within {} s", time.as_secs());
    let fetched = tokio::time::timeout(time, coming).await;
    fetched.unwrap_or(Err(Fault::Passing(what, None)))
}

/// Describes a fault, and keeps the time since when there is one.
fn trouble(fault: &Fault, before: Option<Trouble>) -> Trouble {
    let since = before.map_or_else(Instant::now, |before| before.since);
    Trouble {
        what: fault.what(),
        hint: fault.hint().map(str::to_owned),
        since,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mirror::Address;
    use crate::mirror::fake::{self, Fake};
    use crate::mirror::thread::shared;

    #[test]
    fn a_fetch_that_panics_is_named_and_tried_again() {
        let fake = Fake::new();
        let store = fake.store(fake.settings());
        let address = Address::parse("s3://bucket/runs").unwrap();
        let cache = tempfile::tempdir().unwrap();
        let keep = Keep::open(cache.path(), &address, &store.id()).unwrap();
        let options = fake::options(None, 1 << 20);
        let shared = Arc::new(shared(&address, &store, &keep, &options));
        let mut follower = Follower::new(store, keep, shared, options);
        let object = |etag: &str, size| Object {
            key: "a.jsonl".to_owned(),
            etag: etag.to_owned(),
            size,
            modified: 0,
        };
        let cached = Fetched {
            object: object("x", 0),
            file: tempfile::NamedTempFile::new_in(follower.keep.beside()).unwrap(),
            after: None,
            unproven: false,
            sum: None,
        };
        follower.keep.take(cached).unwrap();
        // object_store panics because no header can have this tag.
        let listed = object("x\ny", 1);
        follower.queue.push_back((listed, How::Rest));
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        tokio::task::LocalSet::new().block_on(&runtime, async {
            follower.begin_fetching();
            let done = follower.running.join_next_with_id().await.unwrap();
            follower.finish(done);
        });
        assert!(follower.fetching.is_empty());
        let reason = &follower.late["a.jsonl"].reason;
        assert_eq!(reason, "fetching failed because of a bug in board");
    }

    #[test]
    fn a_number_is_read_by_its_thousands() {
        assert_eq!(
            [0, 999, 1_000, 1_000_000].map(count),
            ["0", "999", "1,000", "1,000,000"]
        );
    }
}
