//! Searches all runs on several threads, newest first, and makes hits available at once.

use std::num::NonZero;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use crate::analysis::search::{InLine, LeftOut, LineMatch, LinePlace, MAX_HITS, Needle, Tally};
use crate::in_order::{Results, in_order};
use crate::live::{HitSink, Run, search};
use crate::model::{Index, TraceFile};
use crate::page::jobs::over::Over;
use crate::page::jobs::{State, Task, Turn};
use crate::page::search::{keeper, said};
use crate::text_index::{Candidates, Text, TextIndex};

/// Limits the skipped files that are named. The rest are only counted.
const MAX_LEFT_OUT: usize = 50;

/// Where a search looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Scope {
    /// In everything that the files of a run contain.
    #[default]
    Files,
    /// In what was said and done.
    Said,
}

/// A text to search for, and the runs to search.
#[derive(Debug)]
pub(crate) struct Search {
    needle: Needle,
    scope: Scope,
    /// The index of what was said and done.
    texts: Option<Arc<TextIndex>>,
    pub(super) over: Over,
    /// How many threads search at the same time.
    threads: NonZero<usize>,
    tally: Mutex<Tally>,
    /// The size of the files, once it's known.
    bytes: AtomicU64,
    bytes_done: AtomicU64,
}

/// What a thread reports about the run that it searches.
enum News {
    Found(LineMatch),
    LeftOut(TraceFile, String),
    /// All of the run was searched, and whether that was in the index of texts.
    Done {
        from_index: bool,
    },
}

impl Search {
    /// Creates a search of `over`, newest runs first.
    pub(super) fn new(
        needle: Needle,
        scope: Scope,
        mut over: Over,
        texts: Option<Arc<TextIndex>>,
        threads: NonZero<usize>,
    ) -> Self {
        over.runs
            .sort_by_cached_key(|run| std::cmp::Reverse(run.summary().updated));
        let tally = Tally {
            runs: over.runs.len(),
            duplicates_left_out: over.duplicates,
            ..Tally::default()
        };
        Self {
            needle,
            scope,
            texts: texts.filter(|_| scope == Scope::Said),
            over,
            threads,
            tally: Mutex::new(tally),
            bytes: AtomicU64::new(0),
            bytes_done: AtomicU64::new(0),
        }
    }

    /// Returns the progress and the hits so far.
    pub(super) fn tally(&self) -> Tally {
        let tally = self.lock().clone();
        Tally {
            bytes: self.bytes.load(Ordering::Relaxed),
            bytes_done: self.bytes_done.load(Ordering::Relaxed),
            ..tally
        }
    }

    /// Returns whether this many hits are kept.
    pub(super) fn has(&self, hits: usize) -> bool {
        self.lock().kept >= hits
    }

    fn lock(&self) -> MutexGuard<'_, Tally> {
        self.tally.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sums up the sizes of the files, unless the search ends before.
    fn measure(&self, turn: &mut Turn<'_>, has_ended: &AtomicBool) {
        let mut bytes = 0_u64;
        for run in &self.over.runs {
            bytes = bytes.saturating_add(run.dir().bytes());
            turn.rest();
            if has_ended.load(Ordering::Relaxed) {
                return;
            }
        }
        self.bytes.store(bytes, Ordering::Relaxed);
    }

    /// Returns what the index says about the text. `None` if there's no index, or it can't be used.
    fn ask_index(&self) -> Option<Asked<'_>> {
        let texts = self.texts.as_deref()?;
        match texts.candidates(self.needle.text()) {
            Ok(candidates) => Some(Asked { texts, candidates }),
            Err(error) => {
                tracing::warn!("can't search the index, so files are read: {error}");
                None
            }
        }
    }

    /// Searches a run, and reports to `results`. Returns how, or `None` if the search ended before.
    fn look(
        &self,
        run: &Run,
        asked: Option<&Asked<'_>>,
        turn: &mut Turn<'_>,
        results: &Results<News>,
    ) -> Option<News> {
        let mut heard = Heard {
            search: self,
            turn,
            results,
        };
        if let Some(asked) = asked
            && let Some((found, is_complete)) = self.look_in_index(run, asked, heard.turn)
        {
            let goes_on = found.into_iter().all(|found| heard.found(found));
            return (goes_on && is_complete).then_some(News::Done { from_index: true });
        }
        if run.is_evicted() {
            let why =
                "its files were evicted from the store's cache (open the run to fetch them again)";
            heard.left_out(TraceFile::Events, why.to_owned());
            return Some(News::Done { from_index: false });
        }
        // A run that isn't in memory is read only if its own hits need the index.
        let mut index = None;
        let mut index = || Arc::clone(index.get_or_insert_with(|| run.index_once()));
        let goes_on = match self.scope {
            Scope::Files => search(run.dir(), &self.needle, &mut index, &mut heard),
            Scope::Said => self.look_in_files(run, &mut index, &mut heard),
        };
        if run.is_evicted() {
            heard.left_out(
                TraceFile::Events,
                "its files were evicted from the store's cache during the search".to_owned(),
            );
        }
        goes_on.then_some(News::Done { from_index: false })
    }

    /// Searches the texts of a run in the index. Returns what was found, and whether the search didn't
    /// end before. `None` if the texts aren't those of the run's files.
    fn look_in_index(
        &self,
        run: &Run,
        asked: &Asked<'_>,
        turn: &mut Turn<'_>,
    ) -> Option<(Vec<LineMatch>, bool)> {
        let (owner, version) = (keeper::owner(run), run.version()?);
        if !asked.texts.has(owner, version) {
            return None;
        }
        let (mut found, mut is_complete) = (FoundTexts::default(), true);
        let mut each = |text: Text| {
            found.look(&self.needle, &text);
            turn.rest();
            is_complete = turn.ended().is_none();
            is_complete
        };
        let read = asked
            .texts
            .texts(owner, asked.candidates.as_ref(), &mut each);
        if let Err(error) = read {
            tracing::warn!(
                "{}: its files are searched instead of the index: {error}",
                run.key()
            );
            return None;
        }
        Some((found.lines, is_complete))
    }

    /// Searches what was said and done according to the files. Returns false if the search ended
    /// before.
    fn look_in_files(
        &self,
        run: &Run,
        index: &mut dyn FnMut() -> Arc<Index>,
        heard: &mut Heard<'_, '_>,
    ) -> bool {
        let summary = run.summary();
        let mut anywhere = Anywhere {
            heard,
            is_found: self.needle.first_in(summary.title()).is_some(),
        };
        let goes_on = anywhere.is_found || search(run.dir(), &self.needle, index, &mut anywhere);
        // The search also ends as soon as it finds something.
        if !anywhere.is_found {
            return goes_on;
        }
        let mut found = FoundTexts::default();
        let is_complete = said::texts(run, &summary, &index(), &mut |text| {
            found.look(&self.needle, &text);
            heard.turn.rest();
            heard.turn.ended().is_none()
        });
        found.lines.into_iter().all(|line| heard.found(line)) && is_complete
    }
}

/// What the index says about a text.
struct Asked<'a> {
    texts: &'a TextIndex,
    /// `None` if the text is too short for the index, so that all texts are searched.
    candidates: Option<Candidates>,
}

/// The hits in the texts of a run.
#[derive(Default)]
struct FoundTexts {
    lines: Vec<LineMatch>,
    /// The last text with a hit. Further pieces of it aren't counted again.
    last: Option<u64>,
}

impl FoundTexts {
    fn look(&mut self, needle: &Needle, text: &Text) {
        if self.last == Some(text.number) {
            return;
        }
        let Some(hit) = needle.look_in(&text.text, &text.label) else {
            return;
        };
        self.last = Some(text.number);
        if self.lines.len() >= MAX_HITS
            && let Some(last) = self.lines.last_mut()
        {
            last.line.found += 1;
            return;
        }
        self.lines.push(LineMatch {
            file: TraceFile::Steps,
            place: LinePlace {
                offset: text.offset,
                step: text.step,
                ..LinePlace::default()
            },
            line: InLine {
                hits: vec![hit],
                found: 1,
                as_text: false,
            },
        });
    }
}

/// Finds out whether a run contains the text anywhere.
struct Anywhere<'a, 'b, 't> {
    heard: &'a mut Heard<'b, 't>,
    is_found: bool,
}

impl HitSink for Anywhere<'_, '_, '_> {
    fn read(&mut self, bytes: u64) -> bool {
        self.heard.read(bytes)
    }

    fn found(&mut self, _: LineMatch) -> bool {
        self.is_found = true;
        false
    }

    fn left_out(&mut self, file: TraceFile, why: String) {
        self.heard.left_out(file, why);
    }
}

impl Task for Search {
    const THREAD: &'static str = "board-search";

    fn work(&self, turn: &mut Turn<'_>) -> State {
        let (began, runs) = (Instant::now(), &self.over.runs);
        // A new turn for each run would never rest while runs are small.
        let turns = Mutex::new(vec![turn.clone(); self.threads.get()]);
        let asked = self.ask_index();
        let turns = || turns.lock().unwrap_or_else(PoisonError::into_inner);
        let work = |at: usize, results: &Results<News>| {
            let own = turns().pop();
            let (Some(mut turn), Some(run)) = (own, runs.get(at)) else {
                return;
            };
            if let Some(done) = self.look(run, asked.as_ref(), &mut turn, results) {
                results.send(done);
            }
            turns().push(turn);
        };
        let (mut is_done, mut found_in_run) = (false, 0);
        let take = |&at: &usize, news: Option<News>| {
            let mut tally = self.lock();
            tally.took = began.elapsed();
            let key = runs.get(at).map_or("", |run| run.key().as_str());
            match news {
                Some(News::Found(found)) => {
                    found_in_run += found.line.found;
                    tally.keep(MAX_HITS, key, found);
                    turn.mark_partial();
                }
                Some(News::LeftOut(file, why)) => {
                    let key = key.to_owned();
                    tally.leave_out(MAX_LEFT_OUT, LeftOut { key, file, why });
                }
                Some(News::Done { from_index }) => {
                    is_done = true;
                    tally.runs_from_index += usize::from(from_index);
                }
                None if !is_done => return false,
                None => {
                    tally.runs_done += 1;
                    tally.runs_with += usize::from(found_in_run > 0);
                    (is_done, found_in_run) = (false, 0);
                }
            }
            turn.ended().is_none()
        };
        // With an index, few files are read.
        let (has_ended, mut measuring) = (AtomicBool::new(false), turn.clone());
        std::thread::scope(|scope| {
            // Only the progress needs the sizes, so the search doesn't wait for them.
            if self.texts.is_none() {
                scope.spawn(|| self.measure(&mut measuring, &has_ended));
            }
            in_order(0..runs.len(), self.threads, work, take);
            has_ended.store(true, Ordering::Relaxed);
        });
        if self.lock().runs_done == runs.len() {
            // Files may have grown since their sizes were summed up.
            let bytes = self.bytes_done.load(Ordering::Relaxed);
            self.bytes.store(bytes, Ordering::Relaxed);
            return State::Done;
        }
        turn.ended().unwrap_or(State::Abandoned)
    }
}

/// Reports the matches in one run.
struct Heard<'a, 't> {
    search: &'a Search,
    turn: &'a mut Turn<'t>,
    results: &'a Results<News>,
}

impl HitSink for Heard<'_, '_> {
    fn read(&mut self, bytes: u64) -> bool {
        self.search.bytes_done.fetch_add(bytes, Ordering::Relaxed);
        self.turn.rest();
        self.turn.ended().is_none()
    }

    fn found(&mut self, found: LineMatch) -> bool {
        // Parsing the lines of a block takes time, so rest here too.
        self.turn.rest();
        self.results.send(News::Found(found)) && self.turn.ended().is_none()
    }

    fn left_out(&mut self, file: TraceFile, why: String) {
        self.results.send(News::LeftOut(file, why));
    }
}
