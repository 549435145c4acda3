//! Evaluates rules on many runs, one run after the other, on the jobs thread.

use std::sync::{Arc, Mutex, PoisonError};

use crate::analysis::facts::record;
use crate::analysis::sweep::{PreparedSweep, Sweep};
use crate::live::Run;
use crate::page::jobs::over::Over;
use crate::page::jobs::{State, Task, Turn};

/// Rules, and the runs to evaluate them on.
#[derive(Debug)]
pub(crate) struct SweepTask {
    pub(super) prepared: PreparedSweep,
    /// The runs that matched when the question started.
    pub(super) over: Over,
    progress: Mutex<Progress>,
}

/// The progress of a question.
#[derive(Debug, Clone, Default)]
pub(super) struct Progress {
    /// The number of runs evaluated.
    pub(super) done: usize,
    /// The sums, once the question has ended.
    pub(super) sweep: Option<Arc<Sweep>>,
}

impl SweepTask {
    pub(super) fn new(prepared: PreparedSweep, over: Over) -> Self {
        Self {
            prepared,
            over,
            progress: Mutex::default(),
        }
    }

    pub(super) fn progress(&self) -> Progress {
        self.progress
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    fn say(&self, done: usize, sweep: Option<Sweep>) {
        let progress = Progress {
            done,
            sweep: sweep.map(Arc::new),
        };
        *self.progress.lock().unwrap_or_else(PoisonError::into_inner) = progress;
    }

    fn ask(&self, run: &Run, sweep: &mut Sweep) {
        let summary = run.summary();
        if run.is_gone() {
            sweep.vanished += 1;
        } else if summary.partial || run.is_evicted() {
            sweep.unread += 1;
        } else {
            let index = run.index_once();
            if run.is_evicted() {
                // The files may have been evicted before they were read.
                sweep.unread += 1;
                return;
            }
            let record = record(&index, run, self.prepared.depth())
                .priced(&index, summary.prices.as_deref());
            sweep.add(&self.prepared.ask(&summary, &record));
        }
    }
}

impl Task for SweepTask {
    const THREAD: &'static str = "board-sweep";

    fn work(&self, turn: &mut Turn<'_>) -> State {
        let mut sweep = self.prepared.begin();
        for (done, run) in self.over.runs.iter().enumerate() {
            if let Some(ended) = turn.ended() {
                self.say(done, Some(sweep));
                return ended;
            }
            if turn.rest() {
                self.say(done, None);
            }
            self.ask(run, &mut sweep);
        }
        self.say(self.over.runs.len(), Some(sweep));
        State::Done
    }
}
