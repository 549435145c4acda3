//! Runs questions over many runs on one thread, one after the other, and keeps recent results.
//!
//! A job is identified by its question, so clients that ask the same question share a job. A job
//! that no client polls ends by itself, and the results of the last few jobs are kept. This module
//! must not know what the tasks compute.

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
use crate::page::jobs::over::Over;
use crate::page::params::Params;
use crate::page::part::job;
use crate::page::shell::now;

/// How long a response waits for its job to end, so that short jobs need no second request.
const WAIT: Duration = Duration::from_millis(100);
/// How long it does if there are enough partial results for a page.
const WAIT_WITH_ENOUGH: Duration = Duration::from_millis(5);
/// How long it then waits for a first partial result.
const WAIT_MORE: Duration = Duration::from_millis(150);
/// How long a response to a program waits for its job to end, so that programs rarely have to poll.
const WAIT_FOR_PROGRAM: Duration = Duration::from_secs(1);
/// How long a job continues when no client polls it.
const PATIENCE: Duration = Duration::from_secs(10);
/// Limits the jobs that are running or waiting.
const MAX_OPEN: usize = 4;
/// Limits the jobs kept, including those in progress.
const MAX_KEPT: usize = 8;
/// How long the thread works before it rests, so that pages take priority even on one core.
const SLICE: Duration = Duration::from_millis(10);
const REST: Duration = Duration::from_millis(1);

/// A question over many runs.
pub(crate) trait Task: Send + Sync + 'static {
    /// The name of the thread that works on such tasks.
    const THREAD: &'static str;

    /// Works until it is done or `turn` tells it to end. Returns how it ended.
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
    /// Whether the thread is running.
    busy: bool,
}

/// A question over many runs, as far as it distinguishes jobs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Question {
    /// Its canonical form.
    pub(crate) text: String,
    /// [`Query::times`] of its query.
    ///
    /// [`Query::times`]: crate::analysis::query::Query::times
    pub(crate) times: Vec<i64>,
}

#[derive(Debug)]
pub(crate) struct Job<T> {
    question: Question,
    /// The start time in microseconds since the epoch, which distinguishes this job from earlier
    /// ones about the same question.
    pub(crate) number: i64,
    pub(crate) task: T,
    life: Life,
}

/// Whether a job should continue.
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
    /// Running, with partial results to show.
    Partial,
    /// All runs were evaluated.
    Done,
    /// A client cancelled it.
    Cancelled,
    /// Abandoned: no client polled it any more.
    Abandoned,
    /// A fault of board ended it.
    Failed,
}

impl State {
    /// Whether it hasn't ended.
    fn is_open(self) -> bool {
        matches!(self, State::Waiting | State::Running | State::Partial)
    }

    /// Returns the state as shown to clients.
    fn shown(self) -> job::State {
        match self {
            // A request for an abandoned job restarts it.
            State::Waiting | State::Running | State::Partial | State::Abandoned => {
                job::State::Running
            }
            State::Done => job::State::Done,
            State::Cancelled => job::State::Cancelled,
            State::Failed => job::State::Failed,
        }
    }
}

/// A job's time on a thread. A job that uses several has a copy for each.
#[derive(Debug, Clone)]
pub(crate) struct Turn<'a> {
    life: &'a Life,
    patience: Duration,
    stopping: &'a watch::Receiver<bool>,
    slice: Instant,
}

impl Turn<'_> {
    /// Returns the job's final state if it must end now.
    pub(crate) fn ended(&self) -> Option<State> {
        if self.life.cancelled.load(Ordering::Relaxed) {
            return Some(State::Cancelled);
        }
        (!self.life.is_looked_at(self.patience) || *self.stopping.borrow())
            .then_some(State::Abandoned)
    }

    /// Marks the job as having partial results, or more of them.
    pub(crate) fn mark_partial(&self) {
        self.life.state.send_if_modified(|state| {
            if *state == State::Running {
                *state = State::Partial;
            }
            // Those who wait find out whether they have enough.
            *state == State::Partial
        });
    }

    /// Sleeps briefly once the time slice is used up. Returns whether it slept, which is when tasks
    /// report progress.
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

    /// Returns the job for `question`. Creates it with the task from `make` if there isn't one, then
    /// waits briefly for results: for fewer if the partial ones are enough.
    ///
    /// The parameter `again` is the number of a job to replace, and `cancel` the number of a job to
    /// end.
    ///
    /// # Errors
    /// Fails if a parameter isn't a number, `make` fails, or too many other jobs are in progress.
    pub(crate) async fn ask<E: From<WebError> + Send + 'static>(
        self: &Arc<Self>,
        params: &Params,
        question: Question,
        make: impl FnOnce() -> Result<T, E> + Send + 'static,
        is_enough: impl Fn(&T) -> bool,
    ) -> Result<Arc<Job<T>>, E> {
        let number = |name: &str| {
            Ok::<_, WebError>(
                params
                    .number(name)?
                    .and_then(|number| i64::try_from(number).ok()),
            )
        };
        // `again` names a job, so following such a link twice starts only one new job.
        let (than, cancel) = (number("again")?.unwrap_or(i64::MIN), number("cancel")?);
        let job = match self.find(&question, than) {
            Some(job) => job,
            None => {
                let task = blocking(make).await??;
                self.begin(question, than, now(), task)?
            }
        };
        if cancel == Some(job.number) {
            job.cancel();
        }
        job.wait(WAIT_WITH_ENOUGH, |state| !state.is_open()).await;
        let is_enough = |state| state == State::Partial && is_enough(&job.task);
        job.wait(WAIT - WAIT_WITH_ENOUGH, |state| {
            !state.is_open() || is_enough(state)
        })
        .await;
        job.wait(WAIT_MORE, |state| {
            !state.is_open() || state == State::Partial
        })
        .await;
        Ok(job)
    }

    /// Does the same for a program, which gets a complete result if that takes less than a second.
    ///
    /// # Errors
    /// As [`Jobs::ask`].
    pub(crate) async fn ask_for_program<E: From<WebError> + Send + 'static>(
        self: &Arc<Self>,
        params: &Params,
        question: Question,
        make: impl FnOnce() -> Result<T, E> + Send + 'static,
    ) -> Result<Arc<Job<T>>, E> {
        let job = self.ask(params, question, make, |_| false).await?;
        job.wait(WAIT_FOR_PROGRAM, |state| !state.is_open()).await;
        Ok(job)
    }

    /// Returns the job for `question` if its number is greater than `than` and it hasn't been
    /// abandoned.
    fn find(&self, question: &Question, than: i64) -> Option<Arc<Job<T>>> {
        self.find_in(&self.lock(), question, than)
    }

    fn find_in(&self, queue: &Queue<T>, question: &Question, than: i64) -> Option<Arc<Job<T>>> {
        // A client that follows a job gets its answer, although the time has moved on meanwhile.
        let is_same = |job: &Job<T>| {
            job.question.text == question.text
                && (job.question.times == question.times || job.life.is_looked_at(self.patience))
        };
        let job = queue
            .jobs
            .iter()
            .find(|job| is_same(job) && job.number > than && job.state() != State::Abandoned)?;
        job.life.look();
        Some(Arc::clone(job))
    }

    /// Starts a job for `question` at the time `now`, replacing earlier ones. If another request has just
    /// started one, returns that.
    ///
    /// # Errors
    /// Fails if too many other jobs are in progress.
    fn begin(
        self: &Arc<Self>,
        question: Question,
        than: i64,
        now: i64,
        task: T,
    ) -> Result<Arc<Job<T>>, WebError> {
        let mut queue = self.lock();
        if let Some(job) = self.find_in(&queue, &question, than) {
            return Ok(job);
        }
        queue.jobs.retain(|job| {
            let other = job.question.text != question.text;
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
                "Each job reads many runs, and jobs take turns. Try again when one has finished.";
            return Err(WebError::new(
                StatusCode::SERVICE_UNAVAILABLE,
                "Too many jobs are running",
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
            question,
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
                    tracing::error!(%error, "can't start the job thread");
                    job.life.end(State::Failed);
                }
            }
        }
        Ok(job)
    }

    fn lock(&self) -> MutexGuard<'_, Queue<T>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Works on waiting jobs, and returns when there aren't any.
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
    /// Returns the job's state. Once the job has ended, its results no longer change.
    pub(crate) fn state(&self) -> State {
        *self.life.state.borrow()
    }

    /// Returns the job's status for a page. `over` holds the runs in question. Read the status
    /// before the results, so that a finished job never appears with incomplete results.
    pub(crate) fn status(&self, over: &Over, library: &Library) -> job::Status {
        job::Status {
            state: self.state().shown(),
            number: self.number,
            changed: over.changed(library),
        }
    }

    /// Cancels the job: at once if it is waiting, or else when the task next checks.
    fn cancel(&self) {
        self.life.cancelled.store(true, Ordering::Relaxed);
        self.life.pass(State::Waiting, State::Cancelled);
    }

    /// Waits for at most `time` until the state is wanted.
    async fn wait(&self, time: Duration, is_wanted: impl Fn(State) -> bool) {
        let mut news = self.life.state.subscribe();
        // After a timeout, callers read the state anyway.
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
            tracing::error!(
                question = self.question.text,
                "a job over many runs panicked"
            );
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

    /// Changes the state from `from` to `to`. Returns `false` if the state isn't `from`.
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
