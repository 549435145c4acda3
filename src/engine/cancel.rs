//! Provides a handle with which any task can end a run.

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

use crate::stop::waited_for_people;

/// Ends a run from outside. All clones end the same run.
#[derive(Debug, Clone)]
pub struct Cancel {
    wish: watch::Sender<Wish>,
    /// When the run ends and drops all work in progress. Only set in the engine's own clone.
    deadline: Option<Instant>,
    /// When the run's time is used up. All work is dropped then, except the judging of an existing
    /// answer.
    limit: Option<Instant>,
    /// When a rule will end the run. Limits how long a person may take to answer. The rule's gate
    /// handles everything else.
    answer_by: Option<Instant>,
    /// Whether work was dropped because `limit` was reached.
    dropped: Arc<AtomicBool>,
}

/// How soon to end the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(super) enum Wish {
    #[default]
    None,
    AfterStep,
    Now,
}

impl Default for Cancel {
    fn default() -> Self {
        let wish = watch::Sender::new(Wish::None);
        Self {
            wish,
            deadline: None,
            limit: None,
            answer_by: None,
            dropped: Arc::default(),
        }
    }
}

impl Cancel {
    /// Creates a handle that hasn't been cancelled.
    pub fn new() -> Self {
        Self::default()
    }

    /// Ends the run immediately. Work in progress, such as a model's reply or a tool, is dropped.
    /// Its step is recorded as far as it ran.
    pub fn now(&self) {
        self.wish.send_replace(Wish::Now);
    }

    /// Ends the run after the current step.
    pub fn after_step(&self) {
        self.wish
            .send_modify(|wish| *wish = (*wish).max(Wish::AfterStep));
    }

    /// Returns whether the run was cancelled with [`Cancel::now`] or its time is over.
    pub fn is_now(&self) -> bool {
        self.wish() == Wish::Now
    }

    /// Waits until the run must end immediately. The engine itself drops everything that it is
    /// waiting for then.
    pub async fn cancelled(&self) {
        let mut signal = self.wish.subscribe();
        tokio::select! {
            _ = signal.wait_for(|wish| *wish == Wish::Now) => {}
            () = over(self.deadline) => {}
            () = over(self.limit) => {}
        }
    }

    /// Sets the time after which all work in progress is dropped.
    pub(super) fn at_most(&mut self, limit: Duration) {
        self.deadline = Instant::now().checked_add(limit);
    }

    /// Sets the run's remaining time.
    pub(super) fn limit(&mut self, left: Duration) {
        // Other runs with a clone share `wish`, but `dropped` belongs to this run.
        self.dropped = Arc::default();
        self.limit = Instant::now().checked_add(left);
    }

    /// Sets how long people may take to answer.
    pub(super) fn answer_within(&mut self, left: Duration) {
        self.answer_by = Instant::now().checked_add(left);
    }

    /// Returns the remaining time for new work, if limited.
    pub(super) fn left(&self) -> Option<Duration> {
        let until = self.limit.into_iter().chain(self.deadline).min()?;
        Some(until.saturating_duration_since(Instant::now()))
    }

    /// Returns whether work was dropped because the run's time was used up.
    pub(super) fn dropped(&self) -> bool {
        self.dropped.load(Ordering::Relaxed)
    }

    /// Returns whether work was dropped, or must be dropped now, because of a time limit.
    pub(super) fn is_out_of_time(&self) -> bool {
        self.is_late() || self.dropped()
    }

    /// Returns whether the deadline has passed.
    pub(super) fn is_late(&self) -> bool {
        self.deadline
            .is_some_and(|deadline| Instant::now() >= deadline)
    }

    pub(super) fn wish(&self) -> Wish {
        if self.is_out_of_time() {
            Wish::Now
        } else {
            *self.wish.borrow()
        }
    }

    /// Returns the result of `work`, or why it was lost.
    pub(super) async fn guard<T>(&self, work: impl Future<Output = T>) -> Result<T, Lost> {
        tokio::select! {
            biased;
            done = self.guard_judging(work) => done,
            () = over(self.limit) => {
                self.dropped.store(true, Ordering::Relaxed);
                Err(Lost::Cancelled)
            }
        }
    }

    /// Like [`Cancel::guard`], for a person's answer. Returns `None` if there was no answer before
    /// a rule's time limit.
    pub(super) async fn guard_answer<T>(
        &self,
        answer: impl Future<Output = T>,
    ) -> Result<Option<T>, Lost> {
        tokio::select! {
            biased;
            done = self.guard(answer) => done.map(Some),
            () = over(self.answer_by) => Ok(None),
        }
    }

    /// Like [`Cancel::guard`], for work that may exceed the run's time: judging an existing answer.
    pub(super) async fn guard_judging<T>(&self, work: impl Future<Output = T>) -> Result<T, Lost> {
        let mut signal = self.wish.subscribe();
        if *signal.borrow_and_update() == Wish::Now {
            return Err(Lost::Cancelled);
        }
        let work = caught(work);
        tokio::select! {
            biased;
            done = work => done.map_err(Lost::Panicked),
            _ = signal.wait_for(|wish| *wish == Wish::Now) => Err(Lost::Cancelled),
            () = over(self.deadline) => Err(Lost::Cancelled),
        }
    }
}

/// Describes why a run ended in the middle of work. `waited_ms` is the time spent waiting for
/// people.
pub(super) fn cut_off(limit_ms: u128, waited_ms: u64) -> String {
    let waited = waited_for_people(waited_ms);
    format!("the run's time limit of {limit_ms} ms passed before the work was done{waited}")
}

async fn over(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}

/// Why work has no result.
#[derive(Debug)]
pub(super) enum Lost {
    /// The run was cancelled, or its time was over.
    Cancelled,
    /// The work panicked with this message.
    Panicked(String),
}

/// Runs work and catches panics. The work is dropped after a panic, so its broken state isn't
/// visible.
pub(super) async fn caught<T>(work: impl Future<Output = T>) -> Result<T, String> {
    let mut work = pin!(work);
    std::future::poll_fn(
        |cx| match catch_unwind(AssertUnwindSafe(|| work.as_mut().poll(cx))) {
            Ok(Poll::Ready(done)) => Poll::Ready(Ok(done)),
            Ok(Poll::Pending) => Poll::Pending,
            Err(panic) => Poll::Ready(Err(panic_text(&*panic))),
        },
    )
    .await
}

/// Like [`caught`], for work that isn't async.
pub(super) fn caught_now<T>(work: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(work)).map_err(|panic| panic_text(&*panic))
}

fn panic_text(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    format!("panicked: {}", text.unwrap_or("no message"))
}
