//! When is what asked? The store is listed again and again, as often as the budget allows; what changed is fetched, many
//! at a time, and taken in one by one.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};

use super::evicted::is_within;
use super::fetch::{Got, Here, rest, whole};
use super::keep::Keep;
use super::plan::{CachedObject, How, Limits, Plan, plan};
use super::status::{Odd, Trouble};
use super::store::{Fault, Store};
use super::thread::Shared;
use super::xml::Object;
use super::{ListingBounds, Options};

/// The budget counts the requests of so long.
const BUDGET_PERIOD: Duration = Duration::from_secs(60);
/// An object that comes more slowly than this is given up, so that a few don't keep all others waiting.
const SLOWEST_BYTES_A_SECOND: u64 = 16 << 10;
/// Time for an object in addition, for pauses between attempts.
const OBJECT_TIME: Duration = Duration::from_secs(300);
/// So many objects are fetched at a time.
const AT_ONCE: usize = 32;
/// After so many failures in a row, what is left waits for the next listing.
const GIVE_UP_AFTER: u32 = 8;
/// A store that does not answer is asked again after at most this long.
const LONGEST_REST: Duration = Duration::from_secs(60);
/// As many odd objects are named.
const MAX_NAMED: usize = 100;

/// A whole listing.
struct Listed {
    objects: Vec<Object>,
    unreadable: usize,
}

/// What became of one object.
struct Came {
    object: Object,
    got: Result<Got, Fault>,
}

/// An object that could not be had.
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
    listing: Option<(Instant, JoinHandle<Result<Listed, Fault>>)>,
    running: JoinSet<Came>,
    busy: HashMap<String, u64>,
    late: HashMap<String, Late>,
    odd: Vec<Odd>,
    /// When the listing began that is being worked off.
    worked_off: Option<Instant>,
    failures: u32,
    fetch_failures: u32,
    next: Instant,
    pace: Arc<Mutex<Pace>>,
}

/// When requests of listings were sent, the oldest first; those of the last minute.
#[derive(Debug, Default)]
struct Pace(VecDeque<Instant>);

impl Pace {
    /// Returns when another request may be sent, so that no minute has more than `budget`; `None` for now.
    fn due(&mut self, budget: u32, now: Instant) -> Option<Instant> {
        while self
            .0
            .front()
            .is_some_and(|sent| now.saturating_duration_since(*sent) >= BUDGET_PERIOD)
        {
            self.0.pop_front();
        }
        let budget = usize::try_from(budget.max(1)).unwrap_or(usize::MAX);
        let over = self.0.len().checked_sub(budget)?;
        self.0.get(over).map(|sent| *sent + BUDGET_PERIOD)
    }

    fn spend(&mut self, requests: u64, now: Instant) {
        (0..requests).for_each(|_| self.0.push_back(now));
    }
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
            busy: HashMap::new(),
            late: HashMap::new(),
            odd: Vec::new(),
            worked_off: None,
            failures: 0,
            fetch_failures: 0,
            next: Instant::now(),
            pace: Arc::default(),
        }
    }

    /// Follows the store until it is told to stop. Inside of a [`tokio::task::LocalSet`].
    pub(super) async fn follow(mut self, mut stop: watch::Receiver<bool>) {
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
                Some(came) = self.running.join_next(), if !self.running.is_empty() => {
                    if let Ok(came) = came {
                        self.take(came);
                    }
                }
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
        let listing =
            tokio::task::spawn_local(
                async move { list(&store, &shared, bounds, budget, &pace).await },
            );
        self.listing = Some((Instant::now(), listing));
        self.shared.change(|status| status.listing = Some(0));
    }

    fn take_listing(&mut self, listed: Result<Listed, Fault>) {
        let Some((began, _)) = self.listing.take() else {
            return;
        };
        let asked = self.store.listings.load(Ordering::Relaxed);
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
                if matches!(fault, Fault::Refused(..)) {
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

    /// Compares a listing with what is here.
    fn work_off(&mut self, listed: Listed, began: Instant) {
        // What was opened and is not here takes no room before it comes.
        let asked = self.shared.evicted.asked_and_here();
        let limits = Limits {
            bytes: self.options.limit,
            folds: self.keep.folds,
            asked: &asked,
        };
        let plan = plan(listed.objects, self.keep.objects(), limits);
        for key in plan.gone.iter().filter(|key| !self.busy.contains_key(*key)) {
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
            !self.busy.contains_key(&object.key) && late.is_none_or(|late| late.again <= now)
        };
        self.queue = plan.wanted.into_iter().filter(is_due).collect();
        self.fetch_asked();
        self.odd = plan.odd;
        if listed.unreadable > 0 {
            let reason = "the listing has entries that cannot be read".to_owned();
            self.odd.push(Odd {
                key: format!("{} more", listed.unreadable),
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

    /// Removes the files of objects, while nobody reads them.
    fn evict(&mut self, keys: &[String]) {
        let Self {
            keep, busy, shared, ..
        } = self;
        for key in keys.iter().filter(|key| !busy.contains_key(*key)) {
            shared.evicted.evict(key, || {
                if let Err(error) = keep.evict(key) {
                    tracing::warn!("{}: {key}: {error}", shared.address);
                }
                keep.is_evicted(key)
            });
        }
    }

    /// Somebody opens what is not here any more: it is tried again, however often it failed.
    fn hear(&mut self) {
        let asked = self.shared.evicted.asked();
        self.late
            .retain(|key, _| !asked.iter().any(|place| is_within(key, place)));
        self.fetch_asked();
    }

    /// Fetches what somebody opened and is not here any more, before all others; as it was when it was here, or newer.
    fn fetch_asked(&mut self) {
        let mut awaited: HashSet<String> = self.shared.evicted.awaited().into_iter().collect();
        let coming = self.queue.iter().map(|(object, _)| &object.key);
        for key in coming.chain(self.late.keys()).chain(self.busy.keys()) {
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
        for key in awaited {
            self.shared
                .evicted
                .fail(&key, "the cache is too small for it");
        }
    }

    /// Whether an object was evicted, and somebody opened it.
    fn comes_back(&self, key: &str) -> bool {
        self.keep.is_evicted(key)
            && self
                .shared
                .evicted
                .asked()
                .iter()
                .any(|place| is_within(key, place))
    }

    /// What has to be done if the store holds what it held; what was opened longer ago makes room too.
    fn plan_known(&self) -> Plan {
        let object = |(key, kept): (&String, &CachedObject)| Object {
            key: key.clone(),
            etag: kept.etag.clone(),
            size: kept.size,
            modified: kept.modified,
        };
        let known = self.keep.objects().iter().map(object).collect();
        let asked = self.shared.evicted.asked();
        let limits = Limits {
            bytes: self.options.limit,
            folds: self.keep.folds,
            asked: &asked,
        };
        plan(known, self.keep.objects(), limits)
    }

    /// Others make room once what was asked for came: of a store that is away, nothing is lost by asking.
    fn make_room(&mut self) {
        // A plan looks at all objects: of a run of many files, the last one makes room, unless they are much.
        let more_come = self
            .queue
            .front()
            .is_some_and(|(object, _)| self.comes_back(&object.key));
        let limit = if more_come {
            self.options.limit / 8 * 9
        } else {
            self.options.limit
        };
        if self.keep.bytes() > limit {
            let plan = self.plan_known();
            self.evict(&plan.evict);
        }
    }

    fn begin_fetching(&mut self) {
        while self.running.len() < AT_ONCE
            && let Some((object, how)) = self.queue.pop_front()
        {
            let before = self.keep.here(&object.key).map_or(0, |here| here.size);
            let sizes = self.busy.values().chain([&object.size]);
            let after = sizes.fold(self.keep.bytes(), |sum, size| sum.saturating_add(*size));
            let is_full = after > self.options.limit.saturating_add(before);
            if is_full && !self.comes_back(&object.key) {
                self.delay(&object, "the cache is full".to_owned());
                continue;
            }
            let here = self.keep.here(&object.key).filter(|_| how == How::Rest);
            let (store, beside) = (Arc::clone(&self.store), self.keep.beside());
            self.busy.insert(object.key.clone(), object.size);
            self.running.spawn_local(async move {
                let got = fetch(&store, &beside, &object, here).await;
                Came { object, got }
            });
        }
        if self.queue.is_empty() && self.running.is_empty() {
            self.late_named();
            if let Some(began) = self.worked_off.take() {
                self.shared.change(|status| {
                    // Of a store that lists objects and does not hand them out, more is missing than a few.
                    status.fetch_trouble = status
                        .fetch_trouble
                        .take()
                        .filter(|_| !self.late.is_empty());
                    if status.fetch_trouble.is_none() {
                        // Told together: whoever sees the one sees the other.
                        (status.as_of, status.kept_bytes, status.waiting) =
                            (Some(began), self.keep.bytes(), 0);
                    }
                });
            }
        }
    }

    fn take(&mut self, Came { object, got }: Came) {
        self.busy.remove(&object.key);
        let fault = match got {
            Ok(got) => match self.keep.take(got) {
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
            // The next listing says more.
            Err(Fault::Outdated) => {
                self.shared.evicted.fail(
                    &object.key,
                    "the store has another object there by now, or none",
                );
                return;
            }
            Err(fault) => fault,
        };
        self.delay(&object, fault.what());
        self.fetch_failures += 1;
        if self.fetch_failures >= GIVE_UP_AFTER {
            self.queue.clear();
            // What was not fetched is not as the listing says.
            self.worked_off = None;
            self.shared.change(|status| {
                status.fetch_trouble = Some(trouble(&fault, status.fetch_trouble.take()))
            });
        }
    }

    /// Tries an object again later, and later each time.
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

    fn late_named(&self) {
        if self.shared.read(|status| status.odd_total) != self.odd.len() + self.late.len() {
            self.name_odd();
        }
    }

    fn name_odd(&self) {
        let late = self.late.iter().map(|(key, late)| Odd {
            key: key.clone(),
            reason: late.reason.clone(),
        });
        let mut all: Vec<Odd> = self
            .odd
            .iter()
            .cloned()
            .chain(late.take(MAX_NAMED))
            .collect();
        all.sort_by(|a, b| a.key.cmp(&b.key));
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
    listing: Option<&mut (Instant, JoinHandle<Result<Listed, Fault>>)>,
) -> Result<Listed, Fault> {
    match listing {
        Some((_, listing)) => listing.await.unwrap_or_else(|_| {
            Err(Fault::Wrong(
                "listing failed, which is a fault of the board".into(),
                None,
            ))
        }),
        None => std::future::pending().await,
    }
}

/// Lists all pages; where one is missing, none counts. Sends at most `budget` requests in any minute.
///
/// # Errors
/// Returns what the store says, or which bound the listing exceeds.
async fn list(
    store: &Store,
    shared: &Shared,
    bounds: ListingBounds,
    budget: u32,
    pace: &Mutex<Pace>,
) -> Result<Listed, Fault> {
    let mut listed = Listed {
        objects: Vec::new(),
        unreadable: 0,
    };
    let mut after: Option<String> = None;
    let (mut seen, mut bytes, mut empty, mut took) =
        (HashSet::new(), 0_usize, 0_usize, Duration::ZERO);
    let pace = || pace.lock().unwrap_or_else(PoisonError::into_inner);
    let too_much = |what: String| {
        let hint = "a longer address, such as s3://bucket/runs/2026, lists fewer objects";
        Fault::Wrong(
            format!("the listing was given up: {what}"),
            Some(hint.to_owned()),
        )
    };
    loop {
        while let Some(due) = { pace().due(budget, Instant::now()) } {
            shared.change(|status| status.paused_until = Some(due));
            tokio::time::sleep_until(due.into()).await;
        }
        shared.change(|status| status.paused_until = None);
        let (began, before) = (Instant::now(), store.listings.load(Ordering::Relaxed));
        let page = tokio::time::timeout(bounds.page_time, store.list(after.as_deref())).await;
        // Attempts that failed are requests too.
        pace().spend(store.listings.load(Ordering::Relaxed) - before, began);
        let slow = |_| {
            Fault::Passing(
                format!("a page took longer than {} s", bounds.page_time.as_secs()),
                None,
            )
        };
        let page = page.map_err(slow)??;
        took += began.elapsed();
        bytes += page
            .objects
            .iter()
            .map(|object| object.key.len() + object.etag.len())
            .sum::<usize>();
        empty = if page.objects.is_empty() {
            empty + 1
        } else {
            0
        };
        listed.objects.extend(page.objects);
        listed.unreadable += page.unreadable;
        shared.change(|status| status.listing = Some(listed.objects.len()));
        if listed.objects.len() > bounds.objects {
            return Err(too_much(format!(
                "it has more than {} objects",
                count(bounds.objects)
            )));
        }
        if bytes > bounds.bytes {
            return Err(too_much(format!(
                "its keys have more than {} bytes",
                count(bounds.bytes)
            )));
        }
        let Some(next) = page.next else {
            return Ok(listed);
        };
        if !seen.insert(next.clone()) {
            return Err(Fault::Wrong(
                "the listing leads in a circle".to_owned(),
                None,
            ));
        }
        if seen.len() >= bounds.pages {
            return Err(too_much(format!(
                "it has more than {} pages",
                count(bounds.pages)
            )));
        }
        if empty >= bounds.empty_pages {
            return Err(too_much(format!("{empty} pages in a row have no object")));
        }
        if took > bounds.time {
            return Err(too_much(format!(
                "the store took {} s to answer",
                took.as_secs()
            )));
        }
        after = Some(next);
    }
}

/// A number with a comma between thousands.
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
    here: Option<Here>,
) -> Result<Got, Fault> {
    let coming = async {
        if let Some(here) = here
            && let Some(got) = rest(store, beside, object, &here).await?
        {
            return Ok(got);
        }
        whole(store, beside, object).await
    };
    let time = OBJECT_TIME + Duration::from_secs(object.size / SLOWEST_BYTES_A_SECOND);
    let slow = |_| {
        Err(Fault::Passing(
            format!("it did not come within {} s", time.as_secs()),
            None,
        ))
    };
    tokio::time::timeout(time, coming)
        .await
        .unwrap_or_else(slow)
}

/// What is wrong now; since when, if it was wrong before.
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

    #[test]
    fn no_minute_has_more_requests_than_the_budget() {
        let (start, mut pace) = (Instant::now(), Pace::default());
        let at = |second: u64| start + Duration::from_secs(second);
        let mut sent = Vec::new();
        let mut now = start;
        // A page that was asked for twice counts twice.
        for requests in [1, 1, 2, 1, 1, 1, 1] {
            while let Some(due) = pace.due(3, now) {
                assert!(due > now);
                now = due;
            }
            pace.spend(requests, now);
            sent.extend((0..requests).map(|_| now));
            now += Duration::from_secs(1);
        }
        assert_eq!(sent, [0, 1, 2, 2, 61, 62, 63, 121].map(at));
        assert_eq!(pace.due(u32::MAX, now), None);
    }

    #[test]
    fn a_number_is_read_by_its_thousands() {
        assert_eq!(
            [0, 999, 1_000, 1_000_000].map(count),
            ["0", "999", "1,000", "1,000,000"]
        );
    }
}
