//! Which questions over many runs are under way, and which were answered lately? One thread answers one after the other.
//!
//! A question is known by what is asked, not by who asks: whoever asks the same gets the same job. A job that nobody
//! looks at ends by itself, and the answers of the last few are kept. What is asked is the task's affair.

pub(crate) mod over;

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use axum::http::StatusCode;
use tokio::sync::watch;

use crate::live::Library;
use crate::page::blocking::blocking;
use crate::page::error::WebError;
use crate::page::extract::Params;
use crate::page::jobs::over::Over;
use crate::page::part::job;
use crate::page::runs::handler::now;

/// An answer waits so long for the end of its job, so that little work needs no second request.
const WAIT: Duration = Duration::from_millis(100);
/// And then so long for anything to show.
const WAIT_MORE: Duration = Duration::from_millis(150);
/// A job ends by itself when nobody has looked at it for so long.
const PATIENCE: Duration = Duration::from_secs(10);
/// So many jobs may be under way or wait for their turn.
const MAX_OPEN: usize = 4;
/// So many jobs are kept, with those that are under way.
const MAX_KEPT: usize = 8;
/// After so much work the thread rests, so that pages come first also where there is one core.
const SLICE: Duration = Duration::from_millis(10);
const REST: Duration = Duration::from_millis(1);

/// What is asked of many runs.
pub(crate) trait Task: Send + Sync + 'static {
    /// The name of the thread that works on such tasks.
    const THREAD: &'static str;

    /// Works until it is done, or until `turn` says that it ends; says how it ended.
    fn work(&self, turn: &mut Turn<'_>) -> State;
}

/// The jobs of one kind.
#[derive(Debug)]
pub(crate) struct Jobs<T> {
    queue: Mutex<Queue<T>>,
    patience: Duration,
    stopping: watch::Receiver<bool>,
}

#[derive(Debug)]
struct Queue<T> {
    jobs: VecDeque<Arc<Job<T>>>,
    /// Whether the thread runs.
    busy: bool,
}

#[derive(Debug)]
pub(crate) struct Job<T> {
    /// What is asked, in its one spelling.
    id: String,
    /// Tells this job from an earlier one about the same: when it began, in microseconds since the epoch.
    pub(crate) number: i64,
    pub(crate) task: T,
    life: Life,
}

/// Whether a job goes on.
#[derive(Debug)]
struct Life {
    state: watch::Sender<State>,
    looked: Mutex<Instant>,
    cancelled: AtomicBool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    Waiting,
    Running,
    /// Under way, with something to show.
    Telling,
    /// All runs were asked.
    Done,
    /// Somebody ended it.
    Cancelled,
    /// Nobody looked at it any more.
    Left,
    /// A fault of ours ended it.
    Failed,
}

impl State {
    /// Whether it has not ended.
    fn is_open(self) -> bool {
        matches!(self, State::Waiting | State::Running | State::Telling)
    }

    /// How it stands for those who look at it.
    fn shown(self) -> job::State {
        match self {
            // Whoever looks again begins it again.
            State::Waiting | State::Running | State::Telling | State::Left => job::State::Running,
            State::Done => job::State::Done,
            State::Cancelled => job::State::Cancelled,
            State::Failed => job::State::Failed,
        }
    }
}

/// A job's time on the thread.
#[derive(Debug)]
pub(crate) struct Turn<'a> {
    life: &'a Life,
    patience: Duration,
    stopping: &'a watch::Receiver<bool>,
    slice: Instant,
}

impl Turn<'_> {
    /// How the job ends, where it is to end now.
    pub(crate) fn ended(&self) -> Option<State> {
        if self.life.cancelled.load(Ordering::Relaxed) {
            return Some(State::Cancelled);
        }
        (!self.life.is_looked_at(self.patience) || *self.stopping.borrow()).then_some(State::Left)
    }

    /// Says that there is something to show.
    pub(crate) fn tell(&self) {
        self.life.pass(State::Running, State::Telling);
    }

    /// Lets others have the processor, now and then; true where it did, which is the time to say how far the job is.
    pub(crate) fn rest(&mut self) -> bool {
        let due = self.slice.elapsed() > SLICE;
        if due {
            std::thread::sleep(REST);
            self.slice = Instant::now();
        }
        due
    }
}

impl<T: Task> Jobs<T> {
    pub(crate) fn new(stopping: watch::Receiver<bool>) -> Self {
        let queue = Mutex::new(Queue {
            jobs: VecDeque::new(),
            busy: false,
        });
        Self {
            queue,
            patience: PATIENCE,
            stopping,
        }
    }

    /// The job about `id`, as `params` ask for it: the one there is, or one that begins now with the task that `make`
    /// gives; `again` names the one that is not wanted any more, `cancel` the one that is to end. Gives it a moment.
    ///
    /// # Errors
    /// A number is none, the task cannot be made, or too many others are under way.
    pub(crate) async fn ask<E: From<WebError> + Send + 'static>(
        self: &Arc<Self>,
        params: &Params,
        id: String,
        make: impl FnOnce() -> Result<T, E> + Send + 'static,
    ) -> Result<Arc<Job<T>>, E> {
        let number = |name: &str| {
            Ok::<_, WebError>(
                params
                    .number(name)?
                    .and_then(|number| i64::try_from(number).ok()),
            )
        };
        // A link that asks again names a job, so that following it twice asks once.
        let (than, cancel) = (number("again")?.unwrap_or(i64::MIN), number("cancel")?);
        let job = match self.find(&id, than) {
            Some(job) => job,
            None => {
                let task = blocking(make).await??;
                self.begin(id, than, now(), task)?
            }
        };
        if cancel == Some(job.number) {
            job.cancel();
        }
        job.wait(WAIT, |state| !state.is_open()).await;
        job.wait(WAIT_MORE, |state| {
            !state.is_open() || state == State::Telling
        })
        .await;
        Ok(job)
    }

    /// The job about `id`, if there is one younger than `than` that still says something.
    fn find(&self, id: &str, than: i64) -> Option<Arc<Job<T>>> {
        Self::find_in(&self.lock(), id, than)
    }

    fn find_in(queue: &Queue<T>, id: &str, than: i64) -> Option<Arc<Job<T>>> {
        let job = queue
            .jobs
            .iter()
            .find(|job| job.id == id && job.number > than && job.state() != State::Left)?;
        job.life.look();
        Some(Arc::clone(job))
    }

    /// Begins a job about `id` at the time `now`, in place of earlier ones. Where somebody else has just begun it,
    /// theirs is taken.
    ///
    /// # Errors
    /// Too many others are under way.
    fn begin(
        self: &Arc<Self>,
        id: String,
        than: i64,
        now: i64,
        task: T,
    ) -> Result<Arc<Job<T>>, WebError> {
        let mut queue = self.lock();
        if let Some(job) = Self::find_in(&queue, &id, than) {
            return Ok(job);
        }
        queue.jobs.retain(|job| {
            let other = job.id != id;
            if !other {
                job.cancel();
            }
            other
        });
        if queue
            .jobs
            .iter()
            .filter(|job| job.is_open(self.patience))
            .count()
            >= MAX_OPEN
        {
            let detail =
                "Each asks many runs, and they take turns. Look again when one of them has ended.";
            return Err(WebError::new(
                StatusCode::SERVICE_UNAVAILABLE,
                "Too many questions are under way",
                detail,
            ));
        }
        while queue.jobs.len() >= MAX_KEPT {
            let oldest = queue
                .jobs
                .iter()
                .position(|job| !job.state().is_open())
                .unwrap_or_default();
            queue.jobs.remove(oldest);
        }
        let life = Life {
            state: watch::Sender::new(State::Waiting),
            looked: Mutex::new(Instant::now()),
            cancelled: AtomicBool::new(false),
        };
        let job = Arc::new(Job {
            id,
            number: now.max(than.saturating_add(1)),
            task,
            life,
        });
        queue.jobs.push_back(Arc::clone(&job));
        if !queue.busy {
            let jobs = Arc::clone(self);
            let thread = std::thread::Builder::new()
                .name(T::THREAD.to_owned())
                .spawn(move || jobs.work());
            match thread {
                Ok(_) => queue.busy = true,
                Err(error) => {
                    tracing::error!(%error, "the thread that asks many runs did not start");
                    job.life.end(State::Failed);
                }
            }
        }
        Ok(job)
    }

    fn lock(&self) -> MutexGuard<'_, Queue<T>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Answers what is open, and ends when nothing is.
    fn work(&self) {
        loop {
            let mut queue = self.lock();
            let open = queue
                .jobs
                .iter()
                .find(|job| job.state() == State::Waiting)
                .cloned();
            let Some(job) = open else {
                queue.busy = false;
                return;
            };
            drop(queue);
            job.work(self.patience, &self.stopping);
        }
    }
}

impl<T: Task> Job<T> {
    /// How it stands. Once it is not open any more, the task holds all it will ever hold.
    pub(crate) fn state(&self) -> State {
        *self.life.state.borrow()
    }

    /// How it stands for a page; `over` are the runs that it asks. Taken before what the task found, it never says less
    /// than is shown.
    pub(crate) fn status(&self, over: &Over, library: &Library) -> job::Status {
        job::Status {
            state: self.state().shown(),
            number: self.number,
            changed: over.changed(library),
        }
    }

    /// Ends it: at once where it waits for its turn, else as soon as the task asks.
    fn cancel(&self) {
        self.life.cancelled.store(true, Ordering::Relaxed);
        self.life.pass(State::Waiting, State::Cancelled);
    }

    /// Waits until it stands as wanted, at most for `time`.
    async fn wait(&self, time: Duration, is_wanted: impl Fn(State) -> bool) {
        let mut news = self.life.state.subscribe();
        // Whether it came in time is read from its state.
        let _ = tokio::time::timeout(time, news.wait_for(|state| is_wanted(*state))).await;
    }

    fn is_open(&self, patience: Duration) -> bool {
        self.state().is_open() && self.life.is_looked_at(patience)
    }

    fn work(&self, patience: Duration, stopping: &watch::Receiver<bool>) {
        if !self.life.pass(State::Waiting, State::Running) {
            return;
        }
        let mut turn = Turn {
            life: &self.life,
            patience,
            stopping,
            slice: Instant::now(),
        };
        let ended = catch_unwind(AssertUnwindSafe(|| match turn.ended() {
            Some(ended) => ended,
            None => self.task.work(&mut turn),
        }));
        self.life.end(ended.unwrap_or_else(|_| {
            tracing::error!(question = self.id, "asking many runs failed");
            State::Failed
        }));
    }
}

impl Life {
    fn look(&self) {
        *self.looked.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }

    fn is_looked_at(&self, patience: Duration) -> bool {
        self.looked
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .elapsed()
            < patience
    }

    /// From one state to the next; false where it is not in the first.
    fn pass(&self, from: State, to: State) -> bool {
        self.state.send_if_modified(|state| {
            let is_due = *state == from;
            if is_due {
                *state = to;
            }
            is_due
        })
    }

    fn end(&self, state: State) {
        self.state.send_replace(state);
    }
}

#[cfg(test)]
mod tests;
