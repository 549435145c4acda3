//! Spreads work over threads, and hands over the results in the order of the items.
//!
//! Items are taken in order, so the first results arrive as early as on one thread. This module must
//! not know what the work is.

use std::num::NonZero;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

/// How many items may be finished before the one whose results are being handed over. Until it is
/// finished too, the threads then wait.
const MAX_AHEAD: usize = 256;
/// How many results of an item may wait.
const MAX_WAITING: usize = 8;

/// Sends the results of an item.
#[derive(Debug)]
pub(crate) struct Results<T>(SyncSender<T>);

impl<T> Results<T> {
    /// Sends a result, and waits for its turn if too many are waiting. Returns false if no more are
    /// wanted.
    pub(crate) fn send(&self, result: T) -> bool {
        self.0.send(result).is_ok()
    }
}

/// Returns the number of threads that this machine can run at the same time.
pub(crate) fn cores() -> NonZero<usize> {
    thread::available_parallelism().unwrap_or(NonZero::<usize>::MIN)
}

/// Calls `work` for each of `count` items on at most `threads` threads, and `take` on this one, with the
/// results of the first item, then of the second, and so on. `take` gets `None` after the last
/// result of an item. If it returns false, no further item is begun.
///
/// # Panics
/// If `work` panics.
pub(crate) fn in_order<T: Send>(
    count: usize,
    threads: NonZero<usize>,
    work: impl Fn(usize, &Results<T>) + Sync,
    mut take: impl FnMut(usize, Option<T>) -> bool,
) {
    let (begun, items) = sync_channel::<(usize, Receiver<T>)>(MAX_AHEAD);
    let next = AtomicUsize::new(0);
    // Only the threads own the sender, so that nothing waits for threads that panicked.
    let begun = Arc::new(Mutex::new(begun));
    let begin = |begun: &Mutex<SyncSender<_>>| {
        // Taking an item and announcing it must be one step.
        let begun = begun.lock().unwrap_or_else(PoisonError::into_inner);
        let item = next.fetch_add(1, Ordering::Relaxed);
        if item >= count {
            return None;
        }
        let (sender, receiver) = sync_channel(MAX_WAITING);
        begun.send((item, receiver)).ok()?;
        Some((item, Results(sender)))
    };
    thread::scope(|scope| {
        for _ in 0..threads.get().min(count) {
            let begun = Arc::clone(&begun);
            let (begin, work) = (&begin, &work);
            scope.spawn(move || {
                while let Some((item, results)) = begin(&begun) {
                    work(item, &results);
                }
            });
        }
        drop(begun);
        // There are fewer than `count` items only if a thread panicked, which the scope reports.
        for (item, results) in items {
            let wants_more = results.iter().all(|result| take(item, Some(result)));
            if !(wants_more && take(item, None)) {
                next.store(count, Ordering::Relaxed);
                break;
            }
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Barrier;

    fn threads(n: usize) -> NonZero<usize> {
        NonZero::new(n).unwrap()
    }

    #[test]
    fn results_come_in_the_order_of_the_items_however_many_threads_work() {
        let expected: Vec<_> = (0..1_000)
            .flat_map(|item| {
                let results = (0..item % 20).map(move |n| (item, Some(n)));
                results.chain([(item, None)])
            })
            .collect();
        for n in [1, 2, 7] {
            let mut taken = Vec::new();
            let work = |item: usize, results: &Results<usize>| {
                assert!((0..item % 20).all(|n| results.send(n)));
            };
            in_order(1_000, threads(n), work, |item, result| {
                taken.push((item, result));
                true
            });
            assert_eq!(taken, expected, "{n} threads");
        }
    }

    #[test]
    fn the_work_is_done_at_the_same_time() {
        // Each item waits for the other.
        let both = Barrier::new(2);
        let mut taken = 0;
        let work = |_: usize, results: &Results<()>| {
            both.wait();
            results.send(());
        };
        in_order(2, threads(2), work, |_, result| {
            taken += usize::from(result.is_some());
            true
        });
        assert_eq!(taken, 2);
    }

    #[test]
    fn no_item_is_begun_after_the_last_wanted_one() {
        let begun = AtomicUsize::new(0);
        let work = |_: usize, results: &Results<()>| {
            begun.fetch_add(1, Ordering::Relaxed);
            while results.send(()) {}
        };
        in_order(100_000, threads(2), work, |_, _| false);
        assert!(begun.into_inner() <= 2, "the threads' first items only");
        in_order(
            0,
            threads(2),
            |_, _: &Results<()>| {},
            |_, _| unreachable!(),
        );
    }

    #[test]
    #[should_panic(expected = "a scoped thread panicked")]
    fn a_panic_is_passed_on() {
        in_order(
            3,
            threads(1),
            |_, _: &Results<()>| panic!("on purpose"),
            |_, _| true,
        );
    }
}
