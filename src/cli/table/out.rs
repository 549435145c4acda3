//! Keeps a table in a directory, in one file for each hour in which runs began. Files are written
//! under a temporary name and replaced atomically, and only if their rows changed.
//!
//! The same runs produce the same files, whether written in one call or in many. If the program is
//! killed at any moment, files are complete and the note is old, and the next call finishes the
//! work. Only files that the note lists, and that are unchanged since they were written, are
//! replaced or removed.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs::{self, File, TryLockError};
use std::hash::{DefaultHasher, Hash as _, Hasher};
use std::io::{self, BufReader, BufWriter, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use super::known::{Entry, Head, Look, TableNote};
use super::maker::Maker;
use super::read::{self, Piece};
use super::rows::Sheet;
use super::{place, temporary};
use crate::cli::command::Failure;
use crate::error::{Error, Kind};
use crate::live::Listed;
use crate::model::time::{day, rfc3339};
use crate::trace::Stamps;

/// The directory for notes, locks and temporary rows. Engines ignore names with this prefix.
const NOTES: &str = "_board";
/// The value of an unknown partition, as written by Hive.
const NO_DAY: &str = "__HIVE_DEFAULT_PARTITION__";

/// A report of what was done.
#[derive(Debug, Default, serde::Serialize)]
pub(super) struct TableReport {
    /// The number of runs in the table.
    pub(super) runs: usize,
    /// The number of rows in the table.
    pub(super) rows: u64,
    /// The number of runs that were read.
    pub(super) runs_read: usize,
    /// The size of their files in bytes.
    pub(super) bytes_read: u64,
    /// The number of files in the table.
    pub(super) files: usize,
    /// The number of files written.
    pub(super) files_written: usize,
    /// The number of files removed.
    pub(super) files_removed: usize,
}

/// Updates the table in `dir`.
///
/// # Errors
/// The directory isn't suitable for this table, is being written by another program, or can't be
/// written.
pub(super) fn keep(
    dir: &Path,
    roots: &[PathBuf],
    query: &str,
    runs: &[Listed],
    maker: &Maker,
) -> Result<TableReport, Failure> {
    let failed = |error: io::Error| {
        let what = format!("can't write the table in {}", dir.display());
        Failure::Told(Error::new(Kind::Unreadable, what).because(error))
    };
    let (notes, table) = (dir.join(NOTES), dir.join(maker.table.name()));
    check_outside_roots(&table, roots, failed)?;
    let note = notes.join(format!("{}.jsonl", maker.table.name()));
    let lock_file = note.with_extension("lock");
    [&notes, &table]
        .into_iter()
        .try_for_each(|path| place::directory(path))?;
    [&note, &lock_file]
        .into_iter()
        .try_for_each(|path| place::file(path))?;
    fs::create_dir_all(&notes).map_err(failed)?;
    let _lock = lock(&lock_file, dir)?;
    fs::create_dir_all(&table).map_err(failed)?;
    let there = place::parts(&table)?;
    let head = head_of(roots, query, maker).map_err(failed)?;
    let known = match TableNote::read(&note).map_err(failed)? {
        Some((before, _)) if before.roots != head.roots => {
            let what = format!(
                "{} contains the table of other runs: {}",
                table.display(),
                before.roots.join(", ")
            );
            return Err(Error::new(Kind::Usage, what)
                .hint("choose another --out, or remove this one")
                .into());
        }
        Some((before, known)) if before == head => known,
        // All rows are written again, but the files still belong to the table.
        Some((_, known)) => TableNote {
            runs: BTreeMap::new(),
            ..known
        },
        None if there.is_empty() => TableNote::default(),
        None => {
            let what = format!(
                "{} contains files of a table that this command didn't write",
                table.display()
            );
            return Err(Error::new(Kind::Usage, what)
                .hint("choose another --out, or remove this one")
                .into());
        }
    };
    there
        .iter()
        .try_for_each(|name| place::part(&table, name, &known))?;
    temporary::sweep(&note).map_err(failed)?;
    // After this, the files belong to this table, whatever happens.
    known.write(&head, &note).map_err(failed)?;
    let keys = |run: &Listed| {
        let entry: &Entry = known.runs.get(run.key.as_str())?;
        (entry.stamps.is_some() && entry.stamps == Stamps::of(&run.dir))
            .then_some(entry.keys.clone())
    };
    maker.relate(runs, &keys);
    let mut work = Work {
        maker,
        table: &table,
        note: &note,
        spool: Spool::new(&notes).map_err(failed)?,
        before: known,
        now: TableNote::default(),
        dirty: BTreeSet::new(),
        done: TableReport::default(),
        failed: &failed,
    };
    work.collect(runs)?;
    work.put(&there)?;
    work.now.write(&head, &note).map_err(failed)?;
    let rows = work.now.runs.values().filter(|entry| entry.part.is_some());
    Ok(TableReport {
        runs: rows.clone().count(),
        rows: rows.map(|entry| entry.rows).sum(),
        files: work.now.parts.len(),
        ..work.done
    })
}

/// Checks that the table isn't inside a directory that is only read, and doesn't contain one.
fn check_outside_roots(
    table: &Path,
    roots: &[PathBuf],
    failed: impl Fn(io::Error) -> Failure,
) -> Result<(), Failure> {
    let own = resolved(table).map_err(&failed)?;
    for root in roots {
        let root_place = fs::canonicalize(root).map_err(&failed)?;
        if own.starts_with(&root_place) || root_place.starts_with(&own) {
            let what = format!(
                "the table can't be in {}, which board only reads",
                root.display()
            );
            return Err(Error::new(Kind::Usage, what)
                .hint("choose a directory outside all roots")
                .into());
        }
    }
    Ok(())
}

/// Resolves links in a path, even if parts of it don't exist yet.
fn resolved(path: &Path) -> io::Result<PathBuf> {
    let whole = std::path::absolute(path)?;
    let there = whole
        .ancestors()
        .find_map(|ancestor| Some((ancestor, fs::canonicalize(ancestor).ok()?)));
    let below =
        |(ancestor, place): (&Path, PathBuf)| Some(place.join(whole.strip_prefix(ancestor).ok()?));
    Ok(there.and_then(below).unwrap_or_else(|| whole.clone()))
}

/// Locks the table for this program, for the lifetime of the returned value.
fn lock(path: &Path, dir: &Path) -> Result<File, Failure> {
    let what = || format!("can't write the table in {}", dir.display());
    let open = File::options()
        .create(true)
        .truncate(false)
        .write(true)
        .open(path);
    let file = open.map_err(|error| Error::new(Kind::Unreadable, what()).because(error))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::Error(error)) => {
            Err(Error::new(Kind::Unreadable, what()).because(error).into())
        }
        Err(TryLockError::WouldBlock) => {
            let error = Error::new(
                Kind::Unreadable,
                format!("{}: another program is writing it", what()),
            );
            Err(error
                .hint("wait until it's done, or choose another --out")
                .into())
        }
    }
}

/// Returns what rows depend on, apart from the files of their run.
fn head_of(roots: &[PathBuf], query: &str, maker: &Maker) -> io::Result<Head> {
    let roots = roots.iter().map(|root| {
        Ok(format!(
            "{} as {}",
            fs::canonicalize(root)?.display(),
            root.display()
        ))
    });
    let program = std::env::current_exe().and_then(fs::metadata);
    let build = program
        .map(|program| (program.len(), program.modified().ok()))
        .ok();
    let tags = match maker.query.asks_for_tags() {
        true => format!("; tags {:x}", hash_of(&maker.tags.now())),
        false => String::new(),
    };
    let (version, extension) = (env!("CARGO_PKG_VERSION"), maker.format.extension());
    Ok(Head {
        roots: roots.collect::<io::Result<_>>()?,
        made_by: format!(
            "board {version} {build:?}; {extension}; prices {:x}; address {:?}; query {query:?}{tags}",
            hash_of(&maker.prices),
            maker.board
        ),
    })
}

/// Returns a hash of everything in `value`.
fn hash_of(value: &impl std::fmt::Debug) -> u64 {
    let mut hash = DefaultHasher::new();
    format!("{value:?}").hash(&mut hash);
    hash.finish()
}

/// Returns the file for a run that began at this time.
fn part(started: Option<i64>, extension: &str) -> String {
    let hour = started.and_then(|at| Some((day(at)?, rfc3339(at)?.get(11..13)?.to_owned())));
    let (day, hour) = hour.unwrap_or_else(|| (NO_DAY.to_owned(), "00".to_owned()));
    format!("day={day}/{hour}.{extension}")
}

/// Rows on disk that were read but aren't in a file yet.
struct Spool {
    file: BufWriter<File>,
    end: u64,
    /// The start of the rows that haven't been assigned to a run yet.
    named: u64,
    /// The offset and length of each run's rows, by key.
    rows: HashMap<String, (u64, u64)>,
}

impl Spool {
    fn new(dir: &Path) -> io::Result<Self> {
        // The file has no name, so that it disappears with the program.
        Ok(Self {
            file: BufWriter::new(tempfile::tempfile_in(dir)?),
            end: 0,
            named: 0,
            rows: HashMap::new(),
        })
    }

    /// Adds rows of the current run.
    fn push(&mut self, rows: &[u8]) -> io::Result<()> {
        self.file.write_all(rows)?;
        self.end += rows.len() as u64;
        Ok(())
    }

    /// Assigns the rows added since the last call to a run.
    fn name(&mut self, key: &str) {
        self.rows
            .insert(key.to_owned(), (self.named, self.end - self.named));
        self.named = self.end;
    }

    /// Returns the rows of a run.
    fn rows(&mut self, key: &str) -> io::Result<impl Read> {
        let (offset, len) = self.rows.get(key).copied().unwrap_or_default();
        self.file.flush()?;
        let file = self.file.get_mut();
        file.seek(SeekFrom::Start(offset))?;
        Ok(file.take(len))
    }
}

/// The state of one call.
struct Work<'a, F> {
    maker: &'a Maker,
    table: &'a Path,
    note: &'a Path,
    spool: Spool,
    before: TableNote,
    now: TableNote,
    /// The table's files that have to be written or removed.
    dirty: BTreeSet<String>,
    done: TableReport,
    failed: &'a F,
}

impl<F: Fn(io::Error) -> Failure> Work<'_, F> {
    /// Reads the runs whose files changed, then the other runs of every table file whose rows
    /// changed as a result.
    fn collect(&mut self, runs: &[Listed]) -> Result<(), Failure> {
        let mut gone: BTreeSet<&str> = self.before.runs.keys().map(String::as_str).collect();
        let (mut unread, mut next) = (BTreeMap::new(), Vec::new());
        for run in runs {
            gone.remove(run.key.as_str());
            let entry = self.before.runs.get(run.key.as_str());
            let is_alone = self.maker.relation(run).is_none();
            if is_alone
                && entry.is_some_and(|entry| {
                    entry.stamps.is_some() && entry.stamps == Stamps::of(&run.dir)
                })
            {
                unread.insert(run.key.as_str(), run);
            } else {
                next.push(run);
            }
        }
        let part_of = |key: &str| self.before.runs.get(key)?.part.clone();
        let damaged = self
            .before
            .runs
            .values()
            .filter_map(|entry| entry.part.clone())
            .filter(|part| !self.is_whole(part));
        self.dirty = gone
            .into_iter()
            .filter_map(part_of)
            .chain(damaged)
            .collect();
        loop {
            self.read(&next)?;
            let part_of = |key: &str| self.before.runs.get(key)?.part.as_ref();
            next = unread
                .extract_if(.., |key, _| {
                    part_of(key).is_some_and(|part| self.dirty.contains(part))
                })
                .map(|(_, run)| run)
                .collect();
            if next.is_empty() {
                break;
            }
        }
        for key in unread.into_keys() {
            self.now.runs.extend(
                self.before
                    .runs
                    .get(key)
                    .map(|entry| (key.to_owned(), entry.clone())),
            );
        }
        Ok(())
    }

    /// Reads runs, and marks the table's files that change as a result.
    fn read(&mut self, runs: &[&Listed]) -> Result<(), Failure> {
        let (maker, failed) = (self.maker, self.failed);
        let mut hash = DefaultHasher::new();
        read::each(
            runs,
            |run, send| maker.make(run, send),
            |run, piece| {
                let made = match piece {
                    Piece::Rows(rows) => {
                        hash.write(&rows);
                        return self.spool.push(&rows).map_err(failed);
                    }
                    Piece::Done(made) => made,
                };
                let key = run.key.as_str();
                let part = (made.count > 0).then(|| part(made.started, maker.format.extension()));
                self.done.runs_read += 1;
                self.done.bytes_read += made.size;
                if part.is_some() {
                    self.spool.name(key);
                }
                let hash = std::mem::replace(&mut hash, DefaultHasher::new()).finish();
                let entry = Entry {
                    part,
                    stamps: made.stamps,
                    keys: made.keys,
                    rows: made.count,
                    hash,
                };
                let before = self.before.runs.get(key);
                if before
                    .is_none_or(|before| (&before.part, before.hash) != (&entry.part, entry.hash))
                {
                    self.dirty.extend(
                        before
                            .and_then(|before| before.part.clone())
                            .into_iter()
                            .chain(entry.part.clone()),
                    );
                }
                self.now.runs.insert(key.to_owned(), entry);
                Ok(())
            },
        )
    }

    /// Returns whether a file is unchanged.
    fn is_whole(&self, part: &str) -> bool {
        self.before
            .parts
            .get(part)
            .is_some_and(|look| Look::of(&self.table.join(part)).as_ref() == Some(look))
    }

    /// Writes the files whose rows changed. `there` lists all existing files.
    fn put(&mut self, there: &BTreeSet<String>) -> Result<(), Failure> {
        let mut parts: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for (key, entry) in &self.now.runs {
            if let Some(part) = &entry.part {
                parts.entry(part.clone()).or_default().push(key.clone());
            }
        }
        for (name, keys) in &parts {
            if self.dirty.contains(name) {
                // Another program may have created a file while runs were read.
                place::part(self.table, name, &self.before)?;
                self.done.files_written +=
                    usize::from(self.put_part(name, keys).map_err(self.failed)?);
            }
            self.now
                .parts
                .extend(Look::of(&self.table.join(name)).map(|look| (name.clone(), look)));
        }
        for name in there.iter().filter(|name| !parts.contains_key(*name)) {
            let path = self.table.join(name);
            place::part(self.table, name, &self.before)?;
            fs::remove_file(&path).map_err(self.failed)?;
            self.done.files_removed += 1;
            // Removes a day without runs too, unless it contains other files.
            let _ = path.parent().map(fs::remove_dir);
        }
        Ok(())
    }

    /// Writes one file, if its content changes.
    fn put_part(&mut self, name: &str, keys: &[String]) -> io::Result<bool> {
        let path = self.table.join(name);
        fs::create_dir_all(path.parent().unwrap_or(&path))?;
        let mut out = BufWriter::with_capacity(1 << 16, temporary::beside(self.note)?);
        let mut sheet = Sheet::begin(self.maker.table, self.maker.format, &mut out)?;
        for key in keys {
            sheet.push(&mut self.spool.rows(key)?, &mut out)?;
        }
        sheet.end(&mut out)?;
        let mut file = out.into_inner().map_err(io::IntoInnerError::into_error)?;
        if is_same(file.as_file_mut(), &path)? {
            return Ok(false);
        }
        // Announced before the file is renamed, so that it's recognized as the table's own even if
        // the program is killed.
        TableNote::record_pending(self.note, name, Look::of_file(file.as_file())?)?;
        file.persist(&path).map_err(|error| error.error)?;
        Ok(true)
    }
}

/// Returns whether the file at `path` has the same bytes.
fn is_same(file: &mut File, path: &Path) -> io::Result<bool> {
    let other = match File::open(path) {
        Ok(other) => other,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(error),
    };
    if file.metadata()?.len() != other.metadata()?.len() {
        return Ok(false);
    }
    file.seek(SeekFrom::Start(0))?;
    let (mut one, mut other) = (
        BufReader::with_capacity(1 << 16, file),
        BufReader::with_capacity(1 << 16, other),
    );
    let (mut first, mut second) = (vec![0; 1 << 16], vec![0; 1 << 16]);
    loop {
        let read = one.read(&mut first)?;
        let (a, b) = (
            first.get(..read).unwrap_or_default(),
            second.get_mut(..read).unwrap_or_default(),
        );
        other.read_exact(b)?;
        if a != b {
            return Ok(false);
        }
        if read == 0 {
            return Ok(true);
        }
    }
}
