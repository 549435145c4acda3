//! How is a run ended from outside? A handle that any task may hold.

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

/// Ends a run from outside. Clones end the same run.
#[derive(Debug, Clone)]
pub struct Cancel {
    wish: watch::Sender<Wish>,
    /// When this run is to be ended whatever is under way; the engine's own clone alone has one.
    deadline: Option<Instant>,
    /// When its time is used up: what decides or acts is dropped then, and an answer that is there is still judged.
    limit: Option<Instant>,
    /// When a rule ends the run: so long a person may take to answer. All else is left to the rule's gate.
    answer_by: Option<Instant>,
    /// Whether something was dropped then.
    dropped: Arc<AtomicBool>,
}

/// How soon.
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
    /// A handle that nobody has used.
    pub fn new() -> Self {
        Self::default()
    }

    /// Ends the run at once: what is under way (a model's answer, a tool) is dropped, and its step is recorded as far
    /// as it came.
    pub fn now(&self) {
        self.wish.send_replace(Wish::Now);
    }

    /// Ends the run after the step that is under way.
    pub fn after_step(&self) {
        self.wish
            .send_modify(|wish| *wish = (*wish).max(Wish::AfterStep));
    }

    /// Whether the run is to end at once, or its time is over.
    pub fn is_now(&self) -> bool {
        self.wish() == Wish::Now
    }

    /// Waits until the run is to end at once. What the engine itself waits for is dropped then.
    pub async fn cancelled(&self) {
        let mut signal = self.wish.subscribe();
        tokio::select! {
            _ = signal.wait_for(|wish| *wish == Wish::Now) => {}
            () = over(self.deadline) => {}
            () = over(self.limit) => {}
        }
    }

    /// Sets the time after which whatever is under way is dropped.
    pub(super) fn at_most(&mut self, limit: Duration) {
        self.deadline = Instant::now().checked_add(limit);
    }

    /// Sets the time that the run has left.
    pub(super) fn limit(&mut self, left: Duration) {
        // The wish is shared with other runs that hold a clone, what became of this one is not.
        self.dropped = Arc::default();
        self.limit = Instant::now().checked_add(left);
    }

    /// Sets the time that people have to answer.
    pub(super) fn answer_within(&mut self, left: Duration) {
        self.answer_by = Instant::now().checked_add(left);
    }

    /// How long something that begins now may take, where that is limited.
    pub(super) fn left(&self) -> Option<Duration> {
        let until = self.limit.into_iter().chain(self.deadline).min()?;
        Some(until.saturating_duration_since(Instant::now()))
    }

    /// Whether something was dropped because the run's time was used up.
    pub(super) fn dropped(&self) -> bool {
        self.dropped.load(Ordering::Relaxed)
    }

    /// Whether that time is over.
    pub(super) fn is_late(&self) -> bool {
        self.deadline
            .is_some_and(|deadline| Instant::now() >= deadline)
    }

    pub(super) fn wish(&self) -> Wish {
        if self.is_late() || self.dropped() {
            Wish::Now
        } else {
            *self.wish.borrow()
        }
    }

    /// What the work gives, or how it ended otherwise.
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

    /// The same for the answer of a person; `None` where it did not come before a rule's time was over.
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

    /// The same for work that may take longer than the run's time: judging an answer that is there.
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

/// Why a run ended in the middle of something, where people had so much of its time to answer.
pub(super) fn cut_off(limit_ms: u128, waited_ms: u64) -> String {
    let waited = waited_for_people(waited_ms);
    format!("the run was to end within {limit_ms} ms, and what was under way was dropped{waited}")
}

async fn over(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}

/// Why a piece of work has no result.
#[derive(Debug)]
pub(super) enum Lost {
    /// The run was cancelled meanwhile, or its time was over.
    Cancelled,
    /// It panicked, saying this.
    Panicked(String),
}

/// Runs work that may panic; what it broke half way in is dropped with it.
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

/// [`caught`] for work that does not wait.
pub(super) fn caught_now<T>(work: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(work)).map_err(|panic| panic_text(&*panic))
}

fn panic_text(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    format!("panicked: {}", text.unwrap_or("no message"))
}
