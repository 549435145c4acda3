//! Searches all runs on several threads, newest first, and makes hits available at once.

use std::num::NonZero;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::Builder;
use std::time::Instant;

use crate::analysis::search::{InLine, LeftOut, LineMatch, LinePlace, MAX_HITS, Needle, Tally};
use crate::in_order::{Results, in_order};
use crate::live::{HitSink, Run, search};
use crate::model::{Index, TraceFile};
use crate::page::jobs::over::Over;
use crate::page::jobs::{State, Task, Turn};
use crate::page::search::{keeper, said};
use crate::text_index::{Candidates, Holds, Text, TextIndex};

/// Limits the skipped files that are named. The rest are only counted.
const MAX_LEFT_OUT: usize = 50;
/// How many runs in the index a thread searches before it reports. It starts with a few, so that the first
/// hits arrive early.
const FEW_RUNS: usize = 2;
const MANY_RUNS: usize = 32;
/// A thread checks whether it should rest, or end, after this many bytes of text.
const LOOKED_BYTES: usize = 64 << 10;
/// A short text counts as this many more.
const TEXT_BYTES: usize = 64;

/// Where a search looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Scope {
    /// In everything that the files of a run contain.
    #[default]
    Files,
    /// In messages and tool calls.
    Said,
}

/// A text to search for, and the runs to search.
#[derive(Debug)]
pub(crate) struct Search {
    needle: Needle,
    scope: Scope,
    /// The index of messages and tool calls.
    texts: Option<Arc<TextIndex>>,
    pub(super) over: Over,
    /// How many threads search at the same time.
    threads: NonZero<usize>,
    tally: Mutex<Tally>,
    /// The size of the files, once it's known.
    bytes: AtomicU64,
    bytes_done: AtomicU64,
    /// Whether no more hits are kept, so that further ones are only counted.
    is_full: AtomicBool,
}

/// What a thread reports about a run.
enum News {
    Found(LineMatch),
    /// More texts contain the text. They are only counted.
    Counted(usize),
    LeftOut(TraceFile, String),
    /// All of the run was searched, and whether that was in the index of texts.
    Done {
        from_index: bool,
    },
}

/// News about runs, which are named by their positions.
type Report = Vec<(usize, News)>;

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
            is_full: AtomicBool::new(false),
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

    /// Searches a run, and reports what was found. Returns false if the search ended before.
    fn look(&self, run: &Run, asked: Option<&Asked<'_>>, heard: &mut Heard<'_, '_>) -> bool {
        if let Some(asked) = asked
            && let Some((found, is_complete)) = self.look_in_index(run, asked, heard.turn)
        {
            heard.add(found);
            if is_complete {
                heard.note(News::Done { from_index: true });
            }
            return is_complete;
        }
        let goes_on = self.look_in_run(run, heard) && heard.send();
        if goes_on {
            heard.note(News::Done { from_index: false });
        }
        goes_on
    }

    /// Searches the files of a run. Returns false if the search ended before.
    fn look_in_run(&self, run: &Run, heard: &mut Heard<'_, '_>) -> bool {
        if run.is_evicted() {
            let why =
                "its files were evicted from the store's cache (open the run to fetch them again)";
            heard.left_out(TraceFile::Events, why.to_owned());
            return true;
        }
        // A run that isn't in memory is read only if its own hits need the index.
        let mut index = None;
        let mut index = || Arc::clone(index.get_or_insert_with(|| run.index_once()));
        let goes_on = match self.scope {
            Scope::Files => search(run.dir(), &self.needle, &mut index, heard),
            Scope::Said => self.look_in_files(run, &mut index, heard),
        };
        if run.is_evicted() {
            heard.left_out(
                TraceFile::Events,
                "its files were evicted from the store's cache during the search".to_owned(),
            );
        }
        goes_on
    }

    /// Searches the texts of a run in the index. Returns what was found, and whether the search didn't
    /// end before. `None` if the texts aren't those of the run's files.
    fn look_in_index(
        &self,
        run: &Run,
        asked: &Asked<'_>,
        turn: &mut Turn<'_>,
    ) -> Option<(FoundTexts, bool)> {
        let is_there = asked.holds(run) != Holds::Nothing;
        if !is_there {
            return None;
        }
        let mut found = FoundTexts::new(self.is_full.load(Ordering::Relaxed));
        let (mut looked, mut is_complete) = (0, true);
        let mut each = |text: Text<'_>| {
            found.look(&self.needle, &text);
            // Asking for the time takes about as long as looking into a short text.
            looked += text.text.len() + TEXT_BYTES;
            if looked > LOOKED_BYTES {
                looked = 0;
                turn.rest();
                is_complete = turn.ended().is_none();
            }
            is_complete
        };
        let owner = keeper::owner(run);
        let read = asked.texts.texts(owner, asked.candidates(), &mut each);
        if let Err(error) = read {
            tracing::warn!(
                "{}: its files are searched instead of the index: {error}",
                run.key()
            );
            return None;
        }
        Some((found, is_complete))
    }

    /// Searches messages and tool calls in the files themselves. Returns false if the search ended
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
        let mut found = FoundTexts::new(false);
        let is_complete = said::texts(run, &summary, &index(), &mut |text| {
            found.look(&self.needle, &text);
            heard.turn.rest();
            heard.turn.ended().is_none()
        });
        heard.add(found);
        is_complete
    }
}

/// A question to the index.
struct Asked<'a> {
    texts: &'a TextIndex,
    /// The answer. `None` if any text may contain the one searched for, because it's too short for the index.
    answer: OnceLock<Option<Candidates>>,
}

impl Asked<'_> {
    fn ask(&self, needle: &Needle) {
        let candidates = self
            .texts
            .candidates(needle.text())
            .unwrap_or_else(|error| {
                tracing::warn!("all texts are searched, because the index can't be asked: {error}");
                None
            });
        let _ = self.answer.set(candidates);
    }

    /// Returns the chunks that may contain the text. Without an answer, all of them may.
    fn candidates(&self) -> Option<&Candidates> {
        self.answer.get()?.as_ref()
    }

    fn holds(&self, run: &Run) -> Holds {
        run.version().map_or(Holds::Nothing, |version| {
            self.texts
                .holds(keeper::owner(run), version, self.candidates())
        })
    }
}

/// Divides runs between threads: several in the index together, and each other run alone. It skips the runs
/// that don't contain the text according to the index.
struct Parts<'a> {
    runs: &'a [Arc<Run>],
    asked: Option<&'a Asked<'a>>,
    /// The position of the next run.
    at: usize,
    /// How many runs the next part has.
    most: usize,
    skipped: &'a AtomicUsize,
}

impl Iterator for Parts<'_> {
    /// The positions of runs.
    type Item = Arc<[usize]>;

    fn next(&mut self) -> Option<Self::Item> {
        let mut part = Vec::new();
        while let Some(run) = self.runs.get(self.at) {
            let holds = self.asked.map_or(Holds::Nothing, |asked| asked.holds(run));
            let is_alone = holds == Holds::Nothing;
            if is_alone && !part.is_empty() {
                break;
            }
            self.at += 1;
            if holds == Holds::None {
                self.skipped.fetch_add(1, Ordering::Relaxed);
                continue;
            }
            part.push(self.at - 1);
            if is_alone || part.len() >= self.most {
                break;
            }
        }
        if self.asked.is_some_and(|asked| asked.answer.get().is_some()) {
            self.most = (self.most * 2).min(MANY_RUNS);
        }
        (!part.is_empty()).then(|| part.into())
    }
}

/// The hits in the texts of a run.
struct FoundTexts {
    lines: Vec<LineMatch>,
    /// How many more there are.
    more: usize,
    /// How many lines are kept.
    max: usize,
    /// The last text with a hit. Further pieces of it aren't counted again.
    last: Option<u64>,
}

impl FoundTexts {
    /// If `is_counted`, the texts with a hit are only counted.
    fn new(is_counted: bool) -> Self {
        Self {
            lines: Vec::new(),
            more: 0,
            max: if is_counted { 0 } else { MAX_HITS },
            last: None,
        }
    }

    fn look(&mut self, needle: &Needle, text: &Text<'_>) {
        if self.last == Some(text.number) {
            return;
        }
        if self.lines.len() >= self.max {
            if needle.first_in(text.text).is_some() {
                self.last = Some(text.number);
                self.more += 1;
            }
            return;
        }
        let Some(hit) = needle.look_in(text.text, text.label) else {
            return;
        };
        self.last = Some(text.number);
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
        let asked = self.texts.as_deref().map(|texts| Asked {
            texts,
            answer: OnceLock::new(),
        });
        let asked = asked.as_ref();
        let skipped = AtomicUsize::new(0);
        let count_skipped = |tally: &mut Tally| {
            let skipped = skipped.swap(0, Ordering::Relaxed);
            tally.runs_done += skipped;
            tally.runs_from_index += skipped;
        };
        let parts = Parts {
            runs,
            asked,
            at: 0,
            most: FEW_RUNS,
            skipped: &skipped,
        };
        let turns = || turns.lock().unwrap_or_else(PoisonError::into_inner);
        let work = |part: Arc<[usize]>, results: &Results<Report>| {
            let Some(mut turn) = turns().pop() else {
                return;
            };
            let mut heard = Heard {
                search: self,
                turn: &mut turn,
                results,
                at: 0,
                report: Vec::new(),
            };
            for &at in &*part {
                heard.at = at;
                let run = runs.get(at);
                if !run.is_some_and(|run| self.look(run, asked, &mut heard)) {
                    break;
                }
            }
            heard.send();
            turns().push(turn);
        };
        let (mut done, mut found_in_run) = (0, 0);
        let take = |part: &Arc<[usize]>, report: Option<Report>| {
            let mut tally = self.lock();
            tally.took = began.elapsed();
            count_skipped(&mut tally);
            let Some(report) = report else {
                let is_done = done == part.len();
                done = 0;
                return is_done && turn.ended().is_none();
            };
            for (at, news) in report {
                let key = runs.get(at).map_or("", |run| run.key().as_str());
                match news {
                    News::Found(found) => {
                        found_in_run += found.line.found;
                        tally.keep(MAX_HITS, key, found);
                    }
                    News::Counted(more) => {
                        found_in_run += more;
                        tally.found += more;
                    }
                    News::LeftOut(file, why) => {
                        let key = key.to_owned();
                        tally.leave_out(MAX_LEFT_OUT, LeftOut { key, file, why });
                    }
                    News::Done { from_index } => {
                        tally.runs_done += 1;
                        tally.runs_from_index += usize::from(from_index);
                        tally.runs_with += usize::from(found_in_run > 0);
                        (done, found_in_run) = (done + 1, 0);
                    }
                }
            }
            self.is_full
                .store(tally.kept >= MAX_HITS, Ordering::Relaxed);
            if tally.found > 0 {
                drop(tally);
                turn.mark_partial();
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
            // The newest runs are searched meanwhile. They may have enough hits for a page, and with many
            // hits the index takes longer to answer.
            if let Some(asked) = asked {
                let ask = || asked.ask(&self.needle);
                if Builder::new().spawn_scoped(scope, ask).is_err() {
                    ask();
                }
            }
            in_order(parts, self.threads, work, take);
            has_ended.store(true, Ordering::Relaxed);
        });
        {
            let mut tally = self.lock();
            count_skipped(&mut tally);
            tally.took = began.elapsed();
        }
        if self.lock().runs_done == runs.len() {
            // Files may have grown since their sizes were summed up.
            let bytes = self.bytes_done.load(Ordering::Relaxed);
            self.bytes.store(bytes, Ordering::Relaxed);
            return State::Done;
        }
        turn.ended().unwrap_or(State::Abandoned)
    }
}

/// Reports the matches in runs.
struct Heard<'a, 't> {
    search: &'a Search,
    turn: &'a mut Turn<'t>,
    results: &'a Results<Report>,
    /// The position of the run.
    at: usize,
    /// What wasn't sent yet.
    report: Report,
}

impl Heard<'_, '_> {
    fn note(&mut self, news: News) {
        self.report.push((self.at, news));
    }

    fn add(&mut self, found: FoundTexts) {
        let FoundTexts { lines, more, .. } = found;
        lines
            .into_iter()
            .for_each(|line| self.note(News::Found(line)));
        if more > 0 {
            self.note(News::Counted(more));
        }
    }

    /// Sends the report. Returns false if no more is wanted.
    fn send(&mut self) -> bool {
        let report = std::mem::take(&mut self.report);
        report.is_empty() || self.results.send(report)
    }
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
        self.note(News::Found(found));
        self.send() && self.turn.ended().is_none()
    }

    fn left_out(&mut self, file: TraceFile, why: String) {
        self.note(News::LeftOut(file, why));
        self.send();
    }
}
