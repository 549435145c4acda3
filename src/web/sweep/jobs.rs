//! Which questions over many runs are under way, and how far are they? One thread answers one after the other.
//!
//! A question is known by what is asked, not by who asks: whoever asks the same gets the same job. A job that nobody
//! looks at ends by itself, and the answers of the last few are kept.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::watch;

use crate::analysis::facts::record;
use crate::analysis::query::Query;
use crate::analysis::sweep::{Inquiry, Sweep};
use crate::live::{Library, Run};

/// A job ends by itself when nobody has looked at it for so long.
const PATIENCE: Duration = Duration::from_secs(10);
/// So many jobs may be under way or wait for their turn.
const MAX_OPEN: usize = 4;
/// So many jobs are kept, with those that are under way.
const MAX_KEPT: usize = 8;
/// After so much work the thread rests, so that pages come first also where there is one core.
const SLICE: Duration = Duration::from_millis(10);
const REST: Duration = Duration::from_millis(1);

/// The jobs of a server.
#[derive(Debug)]
pub(in crate::web) struct Jobs {
    queue: Mutex<Queue>,
    patience: Duration,
    stopping: watch::Receiver<bool>,
}

#[derive(Debug, Default)]
struct Queue {
    jobs: VecDeque<Arc<Job>>,
    /// Whether the thread runs.
    busy: bool,
}

/// One question over many runs.
#[derive(Debug)]
pub(in crate::web) struct Job {
    /// What is asked, in its one spelling.
    pub(super) id: String,
    /// Tells this job from an earlier one about the same: when it began, in microseconds since the epoch.
    pub(super) number: i64,
    /// The rules.
    pub(super) inquiry: Inquiry,
    /// The runs that matched when it began.
    runs: Vec<Arc<Run>>,
    query: Query,
    /// The library's revision when the runs were taken.
    revision: u64,
    progress: watch::Sender<Progress>,
    looked: Mutex<Instant>,
    cancelled: AtomicBool,
}

/// How far a job is.
#[derive(Debug, Clone)]
pub(super) struct Progress {
    pub(super) state: State,
    /// Runs that were asked.
    pub(super) done: usize,
    /// The sums, once it has ended.
    pub(super) sweep: Option<Arc<Sweep>>,
}

/// How a job stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    /// Under way, or waiting for its turn.
    Running,
    /// All runs were asked.
    Done,
    /// Somebody ended it.
    Cancelled,
    /// Nobody looked at it any more.
    Left,
    /// A fault of ours ended it.
    Failed,
}

/// What a new job begins with.
#[derive(Debug)]
pub(super) struct Begin {
    pub(super) inquiry: Inquiry,
    pub(super) runs: Vec<Arc<Run>>,
    pub(super) query: Query,
    pub(super) revision: u64,
    pub(super) now: i64,
}

impl Jobs {
    pub(in crate::web) fn new(stopping: watch::Receiver<bool>) -> Self {
        Self { queue: Mutex::default(), patience: PATIENCE, stopping }
    }

    /// The job about `id`, if there is one younger than `than` that still says something.
    pub(super) fn find(&self, id: &str, than: i64) -> Option<Arc<Job>> {
        Self::find_in(&self.lock(), id, than)
    }

    fn find_in(queue: &Queue, id: &str, than: i64) -> Option<Arc<Job>> {
        let job = queue.jobs.iter().find(|job| job.id == id && job.number > than && job.state() != State::Left)?;
        job.look();
        Some(Arc::clone(job))
    }

    /// Begins a job about `id`, in place of earlier ones; `None` while too many others are under way. Where somebody
    /// else has just begun it, theirs is taken.
    pub(super) fn begin(self: &Arc<Self>, id: String, than: i64, begin: Begin) -> Option<Arc<Job>> {
        let mut queue = self.lock();
        if let Some(job) = Self::find_in(&queue, &id, than) {
            return Some(job);
        }
        queue.jobs.retain(|job| {
            let other = job.id != id;
            if !other {
                job.cancel();
            }
            other
        });
        if queue.jobs.iter().filter(|job| job.is_open(self.patience)).count() >= MAX_OPEN {
            return None;
        }
        while queue.jobs.len() >= MAX_KEPT {
            let oldest = queue.jobs.iter().position(|job| job.state() != State::Running).unwrap_or_default();
            queue.jobs.remove(oldest);
        }
        let Begin { inquiry, runs, query, revision, now } = begin;
        let job = Arc::new(Job {
            id,
            number: now.max(than.saturating_add(1)),
            inquiry,
            runs,
            query,
            revision,
            progress: watch::Sender::new(Progress { state: State::Running, done: 0, sweep: None }),
            looked: Mutex::new(Instant::now()),
            cancelled: AtomicBool::new(false),
        });
        queue.jobs.push_back(Arc::clone(&job));
        if !queue.busy {
            let jobs = Arc::clone(self);
            let thread = std::thread::Builder::new().name("board-sweep".to_owned()).spawn(move || jobs.work());
            match thread {
                Ok(_) => queue.busy = true,
                Err(error) => {
                    tracing::error!(%error, "the thread that asks many runs did not start");
                    job.end(State::Failed, 0, None);
                }
            }
        }
        Some(job)
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Answers what is open, and ends when nothing is.
    fn work(&self) {
        loop {
            let mut queue = self.lock();
            let open = queue.jobs.iter().find(|job| job.state() == State::Running).cloned();
            let Some(job) = open else {
                queue.busy = false;
                return;
            };
            drop(queue);
            if catch_unwind(AssertUnwindSafe(|| job.work(self.patience, &self.stopping))).is_err() {
                tracing::error!(question = job.id, "asking many runs failed");
                job.end(State::Failed, 0, None);
            }
        }
    }
}

impl Job {
    pub(super) fn progress(&self) -> Progress {
        self.progress.borrow().clone()
    }

    fn state(&self) -> State {
        self.progress.borrow().state
    }

    /// How many runs it asks.
    pub(super) fn total(&self) -> usize {
        self.runs.len()
    }

    pub(super) fn cancel(&self) {
        self.cancelled.store(true, Ordering::Relaxed);
    }

    /// Waits until it has ended, at most for `time`.
    pub(super) async fn ended(&self, time: Duration) {
        let mut news = self.progress.subscribe();
        // Whether it ended in time is read from its progress.
        let _ = tokio::time::timeout(time, news.wait_for(|progress| progress.state != State::Running)).await;
    }

    /// How many of its runs changed, came or went since it began.
    pub(super) fn changed(&self, library: &Library) -> usize {
        let gone = self.runs.iter().filter(|run| run.is_gone()).count();
        let is_news = |run: &&Arc<Run>| run.revision_now() > self.revision;
        let changed = self.runs.iter().filter(|run| !run.is_gone()).filter(is_news).count();
        let came = library.runs();
        let came = came.iter().filter(|run| run.born() > self.revision && self.query.matches(&*run.summary()));
        gone + changed + came.count()
    }

    fn look(&self) {
        *self.looked.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }

    fn is_looked_at(&self, patience: Duration) -> bool {
        self.looked.lock().unwrap_or_else(PoisonError::into_inner).elapsed() < patience
    }

    fn is_open(&self, patience: Duration) -> bool {
        self.state() == State::Running && self.is_looked_at(patience)
    }

    fn work(&self, patience: Duration, stopping: &watch::Receiver<bool>) {
        let mut sweep = self.inquiry.begin();
        let mut slice = Instant::now();
        for (done, run) in self.runs.iter().enumerate() {
            if self.cancelled.load(Ordering::Relaxed) {
                return self.end(State::Cancelled, done, Some(sweep));
            }
            if !self.is_looked_at(patience) || *stopping.borrow() {
                return self.end(State::Left, done, None);
            }
            if slice.elapsed() > SLICE {
                self.progress.send_replace(Progress { state: State::Running, done, sweep: None });
                std::thread::sleep(REST);
                slice = Instant::now();
            }
            self.ask(run, &mut sweep);
        }
        self.end(State::Done, self.runs.len(), Some(sweep));
    }

    fn ask(&self, run: &Run, sweep: &mut Sweep) {
        let summary = run.summary();
        if run.is_gone() {
            sweep.vanished += 1;
        } else if summary.partial {
            sweep.unread += 1;
        } else {
            let record = record(&run.index_once(), run, self.inquiry.depth());
            sweep.add(&self.inquiry.ask(&summary, &record));
        }
    }

    fn end(&self, state: State, done: usize, sweep: Option<Sweep>) {
        self.progress.send_replace(Progress { state, done, sweep: sweep.map(Arc::new) });
    }
}

#[cfg(test)]
mod tests;
