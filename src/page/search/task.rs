//! Searches all runs file by file on the jobs thread, and makes hits available at once.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::analysis::search::{LeftOut, LineMatch, MAX_HITS, Needle, Tally};
use crate::live::{HitSink, search};
use crate::model::TraceFile;
use crate::page::jobs::over::Over;
use crate::page::jobs::{State, Task, Turn};

/// Limits the skipped files that are named. The rest are only counted.
const MAX_LEFT_OUT: usize = 50;
/// Limits the runs whose file sizes are summed up first, because that takes a system call per file.
const MAX_MEASURED: usize = 5_000;

/// A text to search for, and the runs to search.
#[derive(Debug)]
pub(crate) struct Search {
    needle: Needle,
    pub(super) over: Over,
    tally: Mutex<Tally>,
}

impl Search {
    /// Creates a search of `over`, newest runs first.
    pub(super) fn new(needle: Needle, mut over: Over) -> Self {
        over.runs
            .sort_by_cached_key(|run| std::cmp::Reverse(run.summary().updated));
        let tally = Tally {
            runs: over.runs.len(),
            duplicates_left_out: over.duplicates,
            ..Tally::default()
        };
        Self {
            needle,
            over,
            tally: Mutex::new(tally),
        }
    }

    /// Sums up the sizes of the files, unless there are so many runs that this would delay hits.
    fn measure(&self, turn: &mut Turn<'_>) {
        if self.over.runs.len() > MAX_MEASURED {
            return;
        }
        let mut bytes = 0_u64;
        for run in &self.over.runs {
            bytes = bytes.saturating_add(run.dir().bytes());
            turn.rest();
            if turn.ended().is_some() {
                return;
            }
        }
        self.lock().bytes = bytes;
    }

    pub(super) fn tally(&self) -> Tally {
        self.lock().clone()
    }

    fn lock(&self) -> MutexGuard<'_, Tally> {
        self.tally.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Task for Search {
    const THREAD: &'static str = "board-search";

    fn work(&self, turn: &mut Turn<'_>) -> State {
        let began = Instant::now();
        self.measure(turn);
        for run in &self.over.runs {
            let mut heard = Heard {
                search: self,
                key: run.key().as_str(),
                turn,
                began,
                in_run: 0,
            };
            if run.is_evicted() {
                let why = "its files were evicted from the store's cache (open the run to fetch them again)";
                heard.left_out(TraceFile::Events, why.to_owned());
                self.lock().runs_done += 1;
                continue;
            }
            // A run that isn't in memory is read only if its own hits need the index.
            let mut index = None;
            let mut index = || Arc::clone(index.get_or_insert_with(|| run.index_once()));
            let goes_on = search(run.dir(), &self.needle, &mut index, &mut heard);
            if run.is_evicted() {
                heard.left_out(
                    TraceFile::Events,
                    "its files were evicted from the store's cache during the search".to_owned(),
                );
            }
            let found_in_run = heard.in_run > 0;
            let mut tally = self.lock();
            tally.took = began.elapsed();
            if !goes_on {
                break;
            }
            tally.runs_done += 1;
            tally.runs_with += usize::from(found_in_run);
        }
        // Files may have grown since their sizes were summed up.
        let mut tally = self.lock();
        if tally.runs_done == tally.runs {
            tally.bytes = tally.bytes_done;
            return State::Done;
        }
        drop(tally);
        turn.ended().unwrap_or(State::Abandoned)
    }
}

/// Records the matches in one run.
struct Heard<'a, 't> {
    search: &'a Search,
    key: &'a str,
    turn: &'a mut Turn<'t>,
    began: Instant,
    in_run: usize,
}

impl HitSink for Heard<'_, '_> {
    fn read(&mut self, bytes: u64) -> bool {
        let took: Duration = self.began.elapsed();
        let mut tally = self.search.lock();
        tally.bytes_done += bytes;
        tally.took = took;
        drop(tally);
        self.turn.rest();
        self.turn.ended().is_none()
    }

    fn found(&mut self, found: LineMatch) -> bool {
        self.in_run += found.line.found;
        self.search.lock().keep(MAX_HITS, self.key, found);
        self.turn.mark_partial();
        // Parsing the lines of a block takes time, so rest here too.
        self.turn.rest();
        self.turn.ended().is_none()
    }

    fn left_out(&mut self, file: TraceFile, why: String) {
        self.search.lock().leave_out(
            MAX_LEFT_OUT,
            LeftOut {
                key: self.key.to_owned(),
                file,
                why,
            },
        );
    }
}
