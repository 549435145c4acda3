//! Keeps the requests of listings within their budget.

use std::cell::Cell;
use std::collections::VecDeque;
use std::sync::Mutex;
use std::time::Duration;

use tokio::time::Instant;

use super::lock;
use super::shared::Shared;

/// The period of the budget.
const PERIOD: Duration = Duration::from_secs(60);

/// The times of the listing requests in the last minute, oldest first.
#[derive(Debug, Default)]
pub(super) struct Pace(VecDeque<Instant>);

impl Pace {
    /// Returns when another request may be sent, so that no minute has more than `budget`; `None` for now.
    fn due(&mut self, budget: u32, now: Instant) -> Option<Instant> {
        while self
            .0
            .front()
            .is_some_and(|sent| now.saturating_duration_since(*sent) >= PERIOD)
        {
            self.0.pop_front();
        }
        let budget = usize::try_from(budget.max(1)).unwrap_or(usize::MAX);
        let over = self.0.len().checked_sub(budget)?;
        self.0.get(over).map(|sent| *sent + PERIOD)
    }

    fn spend(&mut self, now: Instant) {
        self.0.push_back(now);
    }
}

/// The turns of a listing's requests.
pub(super) struct Turns<'a> {
    pace: &'a Mutex<Pace>,
    budget: u32,
    /// Shows pauses in its status.
    shared: &'a Shared,
    /// The length of all pauses.
    paused: Cell<Duration>,
}

impl<'a> Turns<'a> {
    pub(super) fn new(pace: &'a Mutex<Pace>, budget: u32, shared: &'a Shared) -> Self {
        let paused = Cell::default();
        Self {
            pace,
            budget,
            shared,
            paused,
        }
    }

    /// Waits until the budget allows a request, and counts it.
    pub(super) async fn take(&self) {
        while let Some(due) = { lock(self.pace).due(self.budget, Instant::now()) } {
            let pause = due.saturating_duration_since(Instant::now());
            self.paused.set(self.paused.get() + pause);
            self.shared
                .change(|status| status.paused_until = Some(due.into_std()));
            tokio::time::sleep_until(due).await;
        }
        self.shared.change(|status| status.paused_until = None);
        lock(self.pace).spend(Instant::now());
    }

    /// Uncounts the last request, which wasn't sent.
    pub(super) fn give_back(&self) {
        lock(self.pace).0.pop_back();
    }

    /// Returns the result of `work` and how long it took, or `None` if that is longer than `limit`. Pauses don't count.
    pub(super) async fn within<T>(
        &self,
        limit: Duration,
        work: impl Future<Output = T>,
    ) -> Option<(T, Duration)> {
        let (began, before) = (Instant::now(), self.paused.get());
        let took = || {
            let paused = self.paused.get().saturating_sub(before);
            began.elapsed().saturating_sub(paused)
        };
        tokio::pin!(work);
        loop {
            // A pause that begins meanwhile leaves more time.
            let left = limit.saturating_sub(took());
            tokio::select! {
                biased;
                done = &mut work => return Some((done, took())),
                () = tokio::time::sleep(left) => {
                    if took() >= limit {
                        return None;
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Address;
    use super::super::fake::{self, Fake};
    use super::super::keep::Keep;
    use super::*;
    use crate::mirror::thread::shared;

    #[test]
    fn no_minute_has_more_requests_than_the_budget() {
        let (start, mut pace) = (Instant::now(), Pace::default());
        let at = |second: u64| start + Duration::from_secs(second);
        let mut sent = Vec::new();
        let mut now = start;
        // A page that is requested twice takes two turns.
        for seconds in [1, 1, 0, 1, 1, 1, 1, 1] {
            while let Some(due) = pace.due(3, now) {
                assert!(due > now);
                now = due;
            }
            pace.spend(now);
            sent.push(now);
            now += Duration::from_secs(seconds);
        }
        assert_eq!(sent, [0, 1, 2, 60, 61, 62, 120, 121].map(at));
        assert_eq!(pace.due(u32::MAX, now), None);
    }

    #[tokio::test(start_paused = true)]
    async fn pauses_do_not_count_as_time_of_the_work() {
        let (fake, cache) = (Fake::new(), tempfile::tempdir().unwrap());
        let store = fake.store(fake.settings());
        let address = Address::parse("s3://bucket/runs").unwrap();
        let keep = Keep::open(cache.path(), &address, &store.id()).unwrap();
        let options = fake::options(None, 1 << 20);
        let shared = shared(&address, &store, &keep, &options);
        let pace = Mutex::default();
        let turns = Turns::new(&pace, 1, &shared);
        let (limit, start) = (Duration::from_millis(300), Instant::now());
        let twice = async {
            turns.take().await;
            turns.take().await;
        };
        let (_, took) = turns.within(limit, twice).await.unwrap();
        assert!(took <= limit && start.elapsed() >= PERIOD);
        // The work after a pause counts.
        let slow = async {
            turns.take().await;
            tokio::time::sleep(2 * limit).await;
        };
        assert_eq!(turns.within(limit, slow).await, None);
    }
}
