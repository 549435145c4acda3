//! Spreads work over threads, and hands over the results in the order of the items.
//!
//! Items are taken in order, so the first results arrive as early as on one thread. This module must
//! not know what the work is.

use std::num::NonZero;
use std::sync::atomic::{AtomicBool, Ordering};
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

/// The items that aren't begun yet.
struct Source<I, T, S> {
    items: S,
    /// Announces the begun ones, in their order.
    begun: SyncSender<(I, Receiver<T>)>,
}

impl<I: Clone, T, S: Iterator<Item = I>> Source<I, T, S> {
    /// Takes the next item and announces it, which must be one step.
    fn begin(&mut self) -> Option<(I, Results<T>)> {
        let item = self.items.next()?;
        let (sender, receiver) = sync_channel(MAX_WAITING);
        self.begun.send((item.clone(), receiver)).ok()?;
        Some((item, Results(sender)))
    }
}

/// Returns the number of threads that this machine can run at the same time.
pub(crate) fn cores() -> NonZero<usize> {
    thread::available_parallelism().unwrap_or(NonZero::<usize>::MIN)
}

/// Calls `work` for each of `items` on at most `threads` threads, and `take` on this one, with the
/// results of the first item, then of the second, and so on. `take` gets `None` after the last
/// result of an item. If it returns false, it starts no further item. `items` is asked for the next one
/// when a thread is free.
///
/// # Panics
/// If `work` panics.
pub(crate) fn in_order<I: Clone + Send, T: Send>(
    items: impl Iterator<Item = I> + Send,
    threads: NonZero<usize>,
    work: impl Fn(I, &Results<T>) + Sync,
    mut take: impl FnMut(&I, Option<T>) -> bool,
) {
    let (begun, results) = sync_channel::<(I, Receiver<T>)>(MAX_AHEAD);
    let count = items.size_hint().1.unwrap_or(usize::MAX);
    let has_ended = AtomicBool::new(false);
    // Only the threads own the sender, so that nothing waits for threads that panicked.
    let source = Arc::new(Mutex::new(Source { items, begun }));
    thread::scope(|scope| {
        for _ in 0..threads.get().min(count) {
            let source = Arc::clone(&source);
            let (work, has_ended) = (&work, &has_ended);
            let begin = move || {
                let mut source = source.lock().unwrap_or_else(PoisonError::into_inner);
                let wants_more = !has_ended.load(Ordering::Relaxed);
                wants_more.then(|| source.begin()).flatten()
            };
            scope.spawn(move || {
                while let Some((item, results)) = begin() {
                    work(item, &results);
                }
            });
        }
        drop(source);
        // Some items are missing only if a thread panicked, which the scope reports.
        for (item, results) in results {
            let wants_more = results.iter().all(|result| take(&item, Some(result)));
            if !(wants_more && take(&item, None)) {
                has_ended.store(true, Ordering::Relaxed);
                break;
            }
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Barrier;
    use std::sync::atomic::AtomicUsize;

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
            in_order(0..1_000, threads(n), work, |&item, result| {
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
        let work = |_, results: &Results<()>| {
            both.wait();
            results.send(());
        };
        in_order(0..2, threads(2), work, |_, result| {
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
        in_order(0..100_000, threads(2), work, |_, _| false);
        assert!(begun.into_inner() <= 2, "the threads' first items only");
        in_order(
            0..0,
            threads(2),
            |_, _: &Results<()>| {},
            |_, _| unreachable!(),
        );
    }

    #[test]
    #[should_panic(expected = "a scoped thread panicked")]
    fn a_panic_is_passed_on() {
        in_order(
            0..3,
            threads(1),
            |_, _: &Results<()>| panic!("on purpose"),
            |_, _| true,
        );
    }
}
