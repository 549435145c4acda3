//! Reads the SQLite databases in which tools keep their runs: lists the runs, and makes the document
//! of one from its rows.
//!
//! Changes nothing: SQLite's locks and shared memory aren't used, so that no program waits for
//! board, and no file is created. Without locks, a checkpoint of the writer may change pages while
//! they are read. The database is therefore compared before and after, and read again if it
//! changed. A connection sees the state in which it was opened, so each list of the runs is read by
//! a new one. That connection then also reads the documents of the runs in this list, as long as no
//! page that it may read has changed.
//!
//! A database may be damaged or hostile. Only the tables and columns of a format are read, which
//! SQLite's authorizer enforces. Sizes of values, numbers of rows and time are limited.

use std::collections::{HashMap, HashSet, VecDeque};
use std::ffi::{OsStr, OsString};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_encode};
use rusqlite::config::DbConfig;
use rusqlite::hooks::{AuthAction, AuthContext, Authorization};
use rusqlite::limits::Limit;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, ErrorCode, OpenFlags, Row, Statement};
use sha2::{Digest as _, Sha256};

use super::beneath::{Dir, Kind, refused};
use super::idle::Idle;
use super::read_at::ReadAt as _;
use super::stamp::Stamp;
use crate::format::{Rows, SQLITE, Table};
use crate::model::MAX_LINE_BYTES;
use crate::model::json::Json;

/// Larger values are left out of a document.
const MAX_VALUE_BYTES: usize = 4 << 20;
/// A record of a document has at most about this many bytes. Values beyond them are left out.
const MAX_RECORD_BYTES: usize = (MAX_LINE_BYTES as usize) / 4 * 3;
/// The names of row ids in SQLite, unless a column has the same name.
const ROW_IDS: [&str; 3] = ["rowid", "_rowid_", "oid"];
/// Maximum number of messages of a run, parts of a message, and children or further rows of a run.
const MAX_MESSAGES: usize = 200_000;
const MAX_PARTS: usize = 5_000;
const MAX_BESIDE: usize = 1_000;
/// The longest name of a run in bytes, and how many characters of its id a shortened one keeps.
const MAX_NAME_BYTES: usize = 200;
const KEPT_CHARS: usize = 45;
/// The digits of the hash in such a name.
const HASH_DIGITS: usize = 16;
/// The characters of a child's id that are read. Formats keep fewer.
const MAX_ID_CHARS: usize = 1_000;
/// How long listing the runs may take, and reading the rows of one record.
const LIST_TIME: Duration = Duration::from_secs(20);
const RECORD_TIME: Duration = Duration::from_secs(5);
/// How long all rows of a document may take.
const DOCUMENT_TIME: Duration = Duration::from_secs(60);
/// After this long, a reader gets what was read so far.
const TURN_TIME: Duration = Duration::from_millis(100);
/// The memory that SQLite may take, for all databases together. Sorting rows without an index takes
/// as much as the rows.
const MAX_HEAP_BYTES: usize = 256 << 20;
/// How many thousand operations SQLite may make to read a schema. That of a large tool takes four.
const SCHEMA_OPS: u64 = 400;
/// A document isn't read beyond this many bytes.
const MAX_DOCUMENT_BYTES: u64 = 1 << 30;
/// How often a database is read again if it changes meanwhile.
const TRIES: usize = 4;
/// A document of at most this many bytes is read again as a whole if the database changes
/// meanwhile.
const AT_ONCE_BYTES: usize = 4 << 20;
/// Maximum number of databases that stay open for their next reader, and for how long. Each has two open files.
/// To open one with a log of 25 MB takes longer than a page may take.
const MAX_IDLE: usize = 4;
const IDLE_TIME: Duration = Duration::from_secs(600);
/// The size of a database's header, and that of its write-ahead log.
const HEADER_BYTES: usize = 100;
const LOG_HEADER_BYTES: usize = 32;
/// The bytes of a URI's path that need no escape.
const PLAIN: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'/')
    .remove(b'-')
    .remove(b'_')
    .remove(b'.');

/// A run of a database.
#[derive(Debug, Clone, Copy)]
pub(super) struct RunRow {
    /// Changes with any row of the run.
    pub(super) version: u64,
    /// The time of the last change, if it's recorded.
    pub(super) written: Option<SystemTime>,
}

/// What a mark tells about a run.
#[derive(Debug)]
struct Marked {
    hash: u64,
    written: Option<SystemTime>,
}

/// The runs of a database by name, what is wrong with it, and how many more runs it has.
pub(super) type RunRows = (Vec<(Arc<str>, RunRow)>, Option<String>, usize);

/// Which connections see a list of runs: the one that read it, and those opened later.
#[derive(Debug, Clone, Copy)]
pub(super) struct Seen {
    by: u64,
    since: u64,
}

impl Seen {
    fn is_by(self, connection: u64) -> bool {
        connection == self.by || connection >= self.since
    }
}

#[cfg(test)]
thread_local! {
    /// How many databases the thread of a test opened.
    static OPENED: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

/// The number of the next connection.
static NEXT: AtomicU64 = AtomicU64::new(0);

/// Returns the databases that wait for their next reader.
#[cfg(not(test))]
fn idle() -> &'static Idle<Store> {
    static IDLE: Idle<Store> = Idle::new(MAX_IDLE, IDLE_TIME);
    &IDLE
}

/// Returns those of the thread. Tests that run at the same time would close each other's.
#[cfg(test)]
fn idle() -> &'static Idle<Store> {
    thread_local! {
        static IDLE: &'static Idle<Store> = Box::leak(Box::new(Idle::new(MAX_IDLE, IDLE_TIME)));
    }
    IDLE.with(|idle| *idle)
}

/// Closes the databases that had no reader for a while, and those that changed.
pub(crate) fn close_idle() {
    idle().close(Instant::now(), |store| store.is_still().unwrap_or(false));
}

/// The place of a database.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Place {
    root: PathBuf,
    below: PathBuf,
    name: OsString,
}

impl Place {
    pub(super) fn of(root: &Path, below: &Path, name: &OsStr) -> Self {
        Self {
            root: root.to_owned(),
            below: below.to_owned(),
            name: name.to_owned(),
        }
    }

    fn path(&self) -> PathBuf {
        self.root.join(&self.below).join(&self.name)
    }
}

/// Returns the name of the write-ahead log or of the rollback journal.
fn beside(name: &OsStr, ending: &str) -> OsString {
    let mut name = name.to_owned();
    name.push(ending);
    name
}

/// Returns the stamp of a database with its write-ahead log, which holds its newest rows.
///
/// When root opens the log, SQLite sets its owner to what it is already. That changes nothing but the
/// time of the last change, which therefore doesn't count: each read would cause another one.
///
/// # Errors
/// Fails if the database doesn't exist, or can't be examined.
pub(super) fn stamp(dir: &Dir, name: &OsStr) -> io::Result<(Kind, Stamp)> {
    let (kind, stamp) = dir.look(name)?;
    match dir.look(&beside(name, "-wal")) {
        Ok((_, log)) => Ok((kind, stamp.and(log.without_change()))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok((kind, stamp)),
        Err(error) => Err(error),
    }
}

/// What shows whether pages changed that a reader without locks may have read.
#[derive(Debug)]
struct State {
    database: Stamp,
    header: [u8; HEADER_BYTES],
    /// The header of the write-ahead log, if there is one. A writer that starts it over changes
    /// that. New rows are appended.
    log: Option<[u8; LOG_HEADER_BYTES]>,
    /// Changes with any new row.
    whole: Stamp,
    /// Whether any later change of the file shows in its stamp.
    is_settled: bool,
}

impl State {
    fn of(place: &Place) -> io::Result<Self> {
        let dir = Dir::open(&place.root, &place.below)?;
        let (file, database) = dir.file(&place.name)?;
        let mut header = [0; HEADER_BYTES];
        // SQLite would delete the log of an empty file.
        if file.read_at(&mut header, 0)? < HEADER_BYTES || !header.starts_with(SQLITE) {
            return Err(damaged("it has no header"));
        }
        let log = match dir.look(&beside(&place.name, "-wal")) {
            Ok((Kind::File, _)) => {
                let (file, _) = dir.file(&beside(&place.name, "-wal"))?;
                let mut log = [0; LOG_HEADER_BYTES];
                // An empty one has no rows.
                (file.read_at(&mut log, 0)? > 0).then_some(log)
            }
            Ok(_) => return Err(refused("its -wal isn't a regular file")),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(error),
        };
        // A program is changing pages, or was killed while it did.
        if log.is_none() && has_journal(&dir, &place.name)? {
            return Err(busy("a program is writing to it"));
        }
        let (_, whole) = stamp(&dir, &place.name)?;
        Ok(Self {
            database,
            header,
            log,
            whole,
            is_settled: database.is_settled(),
        })
    }

    /// Returns whether the database is in the mode that keeps new rows in a separate file.
    fn wants_log(&self) -> bool {
        self.header.get(18..20) == Some(&[2, 2])
    }

    /// Returns whether what was read since `self` is one state of the database.
    fn is_still(&self, now: &Self) -> bool {
        // A log that is begun now contains only rows that weren't read.
        let log = self.log.is_none() || self.log == now.log;
        self.database == now.database && self.header == now.header && log
    }
}

/// Returns whether there is a rollback journal. A program that keeps the file clears its beginning.
fn has_journal(dir: &Dir, name: &OsStr) -> io::Result<bool> {
    let name = beside(name, "-journal");
    match dir.look(&name) {
        Ok((Kind::File, _)) => {
            let mut first = [0];
            let read = dir.file(&name)?.0.read_at(&mut first, 0)?;
            Ok(read > 0 && first != [0])
        }
        Ok(_) => Err(refused("its -journal isn't a regular file")),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

fn damaged(why: &str) -> io::Error {
    let what = format!("the database is damaged: {why}");
    io::Error::new(io::ErrorKind::InvalidData, what)
}

fn busy(why: &str) -> io::Error {
    io::Error::other(why.to_owned())
}

/// The queries for messages and their parts.
struct Queries<'a> {
    message: Statement<'a>,
    parts: Option<Statement<'a>>,
}

/// An open database.
struct Store {
    number: u64,
    connection: Connection,
    rows: &'static Rows,
    place: Place,
    state: State,
    /// Until when SQLite may work, in milliseconds since `begun`, and the thousands of operations
    /// that are left.
    until: Arc<AtomicU64>,
    left: Arc<AtomicU64>,
    begun: Instant,
    /// The columns of each table that are read.
    columns: HashMap<&'static str, Vec<&'static str>>,
    /// The name of the row id of the table of messages.
    rowid: &'static str,
    /// The tables of marks that exist.
    marks: HashSet<&'static str>,
}

impl Store {
    fn open(place: &Place, rows: &'static Rows) -> io::Result<Self> {
        if !cfg!(unix) {
            return Err(io::Error::new(
                io::ErrorKind::Unsupported,
                "board reads SQLite databases without changing them only on Unix",
            ));
        }
        #[cfg(test)]
        OPENED.set(OPENED.get() + 1);
        let number = NEXT.fetch_add(1, Ordering::SeqCst);
        let state = State::of(place)?;
        let path = place.path();
        let path = percent_encode(path.as_os_str().as_encoded_bytes(), PLAIN).to_string();
        // Without a log, SQLite would create one. With one, it must be read.
        let how = if state.log.is_some() {
            "mode=ro&vfs=unix-none"
        } else {
            "mode=ro&immutable=1"
        };
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY
            | OpenFlags::SQLITE_OPEN_URI
            | OpenFlags::SQLITE_OPEN_NO_MUTEX
            | OpenFlags::SQLITE_OPEN_NOFOLLOW;
        let mut connection =
            Connection::open_with_flags(format!("file:{path}?{how}"), flags).map_err(failed)?;
        // Without locks, SQLite takes this connection for the only one when it's closed. It would then
        // move all rows to the database, and delete a log without any.
        connection
            .set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)
            .map_err(failed)?;
        let (until, left) = (
            Arc::new(AtomicU64::new(0)),
            Arc::new(AtomicU64::new(SCHEMA_OPS)),
        );
        let begun = Instant::now();
        let handler = {
            let (until, left) = (Arc::clone(&until), Arc::clone(&left));
            move || {
                let ops = left.load(Ordering::Relaxed);
                left.store(ops.saturating_sub(1), Ordering::Relaxed);
                ops == 0 || millis(begun.elapsed()) > until.load(Ordering::Relaxed)
            }
        };
        connection
            .progress_handler(1_000, Some(handler))
            .map_err(failed)?;
        for (limit, most) in [
            (Limit::SQLITE_LIMIT_LENGTH, 2 * MAX_VALUE_BYTES as i32),
            (Limit::SQLITE_LIMIT_SQL_LENGTH, 1 << 20),
            (Limit::SQLITE_LIMIT_COLUMN, 500),
            (Limit::SQLITE_LIMIT_EXPR_DEPTH, 100),
            (Limit::SQLITE_LIMIT_COMPOUND_SELECT, 4),
            (Limit::SQLITE_LIMIT_ATTACHED, 0),
            (Limit::SQLITE_LIMIT_TRIGGER_DEPTH, 1),
            (Limit::SQLITE_LIMIT_WORKER_THREADS, 0),
        ] {
            connection.set_limit(limit, most).map_err(failed)?;
        }
        // The first of these must come before anything is read.
        connection
            .execute_batch(
                "PRAGMA locking_mode=EXCLUSIVE; PRAGMA trusted_schema=OFF; PRAGMA cell_size_check=ON; \
                 PRAGMA query_only=ON; PRAGMA temp_store=MEMORY; PRAGMA mmap_size=0;",
            )
            .map_err(failed)?;
        connection
            .execute_batch(&format!("PRAGMA hard_heap_limit={MAX_HEAP_BYTES};"))
            .map_err(failed)?;
        let mut store = Self {
            number,
            connection,
            rows,
            place: place.clone(),
            state,
            until,
            left,
            begun,
            columns: HashMap::new(),
            rowid: ROW_IDS[0],
            marks: HashSet::new(),
        };
        store.allow(LIST_TIME, SCHEMA_OPS);
        store.learn()?;
        let tables: Vec<&'static str> = store.tables().map(|table| table.name).collect();
        let marks = store.marks.clone();
        let authorize = move |context: AuthContext<'_>| match context.action {
            AuthAction::Select | AuthAction::Function { .. } => Authorization::Allow,
            AuthAction::Read { table_name, .. }
                if tables.contains(&table_name) || marks.contains(table_name) =>
            {
                Authorization::Allow
            }
            _ => Authorization::Deny,
        };
        store
            .connection
            .authorizer(Some(authorize))
            .map_err(failed)?;
        Ok(store)
    }

    /// Returns a database that sees a list of runs: one that is still open, or a new one.
    fn of(place: &Place, rows: &'static Rows, seen: Seen) -> io::Result<Self> {
        let fits = |store: &Self| {
            store.place == *place && std::ptr::eq(store.rows, rows) && seen.is_by(store.number)
        };
        // One that changed is closed.
        while let Some(store) = idle().take(fits) {
            if store.is_still()? {
                return Ok(store);
            }
        }
        Self::open(place, rows)
    }

    /// Keeps the database open for its next reader, if any change of its pages will show.
    fn keep(self) {
        if self.state.is_settled {
            idle().keep(self);
        }
    }

    /// Lets SQLite work for this long, and for as many thousand operations.
    fn allow(&self, time: Duration, ops: u64) {
        let until = millis(self.begun.elapsed().saturating_add(time));
        self.until.store(until, Ordering::Relaxed);
        self.left.store(ops, Ordering::Relaxed);
    }

    fn tables(&self) -> impl Iterator<Item = &'static Table> + use<> {
        let rows = self.rows;
        [Some(&rows.run), Some(&rows.messages)]
            .into_iter()
            .chain([rows.parts.as_ref(), rows.beside.as_ref()])
            .flatten()
    }

    /// Finds the columns that exist of those that are read. A view or a virtual table doesn't count
    /// as a table, because reading it may run anything.
    fn learn(&mut self) -> io::Result<()> {
        let mut columns = HashMap::new();
        let mut rowid = Some(self.rowid);
        let mut stranger = None;
        for table in self.tables() {
            if !self.is_table(table.name)? {
                continue;
            }
            let mut known: Vec<&'static str> = Vec::new();
            let mut row_ids = ROW_IDS.to_vec();
            let mut names: HashSet<String> = HashSet::new();
            let mut query = self
                .connection
                .prepare("SELECT name, hidden FROM pragma_table_xinfo(?1)")
                .map_err(failed)?;
            let mut found = query.query([table.name]).map_err(failed)?;
            while let Some(row) = found.next().map_err(failed)? {
                let name = row.get_ref(0).ok().and_then(|name| name.as_str().ok());
                names.extend(name.map(str::to_owned));
                row_ids.retain(|id| !name.is_some_and(|name| name.eq_ignore_ascii_case(id)));
                // A generated column may be the result of anything.
                let is_stored = row.get::<_, i64>(1).is_ok_and(|hidden| hidden == 0);
                known.extend(
                    table
                        .columns
                        .iter()
                        .filter(|known| is_stored && Some(**known) == name),
                );
            }
            if table.name == self.rows.run.name {
                let mut strangers = self.rows.strangers.iter();
                stranger = strangers.find(|stranger| {
                    let mut columns = stranger.columns.iter();
                    columns.all(|column| names.contains(*column))
                });
            }
            columns.insert(table.name, known);
            if table.name == self.rows.messages.name {
                rowid = row_ids.first().copied();
            }
        }
        self.rowid = rowid.ok_or_else(|| {
            let (what, name) = (self.rows.what, self.rows.messages.name);
            let what = format!("not {what} (columns of table `{name}` hide its row ids)");
            io::Error::new(io::ErrorKind::InvalidData, what)
        })?;
        for mark in self.rows.marks {
            if self.is_table(mark.table)? {
                self.marks.insert(mark.table);
            }
        }
        self.columns = columns;
        let run = &self.rows.run;
        let has = |table: &Table, column: &str| self.has(table, column);
        let messages = &self.rows.messages;
        let missing = [(run, "id"), (messages, "id"), (messages, messages.of)]
            .into_iter()
            .find(|(table, column)| !has(table, column));
        let Some((table, column)) = missing else {
            return Ok(());
        };
        let what = if self.columns.is_empty() && self.state.wants_log() && self.state.log.is_none()
        {
            let log = beside(&self.place.name, "-wal");
            format!(
                "its newest rows are in {}, which is missing here: copy both files",
                log.display()
            )
        } else if let Some(stranger) = stranger {
            stranger.reason.to_owned()
        } else {
            let what = self.rows.what;
            let name = table.name;
            match self.columns.contains_key(name) {
                false => format!("not {what} (no table `{name}`)"),
                true => format!("not {what} (table `{name}` has no column `{column}`)"),
            }
        };
        Err(io::Error::new(io::ErrorKind::InvalidData, what))
    }

    fn is_table(&self, name: &str) -> io::Result<bool> {
        let mut query = self
            .connection
            .prepare(
                "SELECT 1 FROM sqlite_schema WHERE name = ?1 AND type = 'table' AND rootpage > 0 \
                 AND sql LIKE 'CREATE TABLE%'",
            )
            .map_err(failed)?;
        query.exists([name]).map_err(failed)
    }

    fn has(&self, table: &Table, column: &str) -> bool {
        self.columns
            .get(table.name)
            .is_some_and(|known| known.contains(&column))
    }

    /// Returns the columns of a query for rows of `table`, each with its size. A value that's too
    /// large isn't loaded.
    fn select(&self, table: &Table) -> String {
        let columns = self.columns.get(table.name);
        let columns: Vec<String> = columns
            .into_iter()
            .flatten()
            .map(|column| {
                format!(
                    "CASE WHEN octet_length({column}) <= {MAX_VALUE_BYTES} THEN {column} END, octet_length({column})"
                )
            })
            .collect();
        format!("SELECT {} FROM {}", columns.join(", "), table.name)
    }

    /// Returns the part of a query that sorts the rows of `table` by the columns that exist.
    fn order(&self, table: &Table) -> String {
        let columns = table.order.iter().copied();
        let columns: Vec<&str> = columns.filter(|column| self.has(table, column)).collect();
        match columns.is_empty() {
            true => String::new(),
            false => format!("ORDER BY {}", columns.join(", ")),
        }
    }

    /// Lists the runs, at most `most`.
    fn list(&self, most: usize) -> io::Result<RunRows> {
        // A row takes some dozen operations and more than a byte. In a damaged database, pages may
        // repeat.
        let size = self.state.whole.size;
        self.allow(LIST_TIME, SCHEMA_OPS.saturating_add(size / 100));
        let marks = self.marks(most)?;
        // Without marks, any new row may belong to any run.
        let whole = marks.is_none().then_some(self.state.whole);
        let marks = marks.unwrap_or_default();
        let table = &self.rows.run;
        let (written, unit) = self.rows.written;
        let versions: Vec<&str> = self
            .rows
            .versions
            .iter()
            .copied()
            .filter(|column| self.has(table, column))
            .collect();
        let time = match self.has(table, written) {
            true => written,
            false => "NULL",
        };
        let mut wanted = vec!["id", time];
        wanted.extend(versions);
        let query = format!("SELECT {} FROM {}", wanted.join(", "), table.name);
        let mut query = self.connection.prepare(&query).map_err(failed)?;
        let mut found = query.query([]).map_err(failed)?;
        let (mut runs, mut odd, mut beyond) = (HashMap::new(), 0_usize, 0_usize);
        while let Some(row) = found.next().map_err(failed)? {
            let id = row.get_ref(0).ok().and_then(id_of);
            let Some((id, name)) = id.and_then(|id| Some((id, name_of(id)?))) else {
                odd += 1;
                continue;
            };
            if runs.len() >= most {
                beyond += 1;
                continue;
            }
            let mut hasher = DefaultHasher::new();
            for column in 1..wanted.len() {
                hash(row, column, &mut hasher);
            }
            let mark = marks.get(&*name);
            (mark.map(|mark| mark.hash), whole).hash(&mut hasher);
            let micros = number(row, 1).map(|time| time * unit);
            let version = hasher.finish();
            let written = micros.and_then(time_of);
            let written = written.max(mark.and_then(|mark| mark.written));
            let run = RunRow { version, written };
            let is_taken = runs.contains_key(&name);
            odd += usize::from(is_taken);
            // A row with this id comes before one whose name was made.
            if !is_taken || *name == *id {
                runs.insert(name, run);
            }
        }
        let mut runs: Vec<_> = runs.into_iter().collect();
        runs.sort_by(|(a, _), (b, _)| a.cmp(b));
        let fault = (odd > 0).then(|| format!("rows of runs without a usable id: {odd}"));
        Ok((runs, fault, beyond))
    }

    /// Returns what shows the state of each run's rows, for at most `most` runs, or `None` if nothing
    /// does.
    fn marks(&self, most: usize) -> io::Result<Option<HashMap<Arc<str>, Marked>>> {
        // Another version may lack a column of a query.
        let marks = self.rows.marks.iter();
        let query = marks
            .filter(|mark| self.marks.contains(mark.table))
            .find_map(|mark| Some((mark, self.connection.prepare(mark.query).ok()?)));
        let Some((mark, mut query)) = query else {
            return Ok(None);
        };
        let columns = query.column_count();
        let mut found = query.query([]).map_err(failed)?;
        let mut marks = HashMap::new();
        while let Some(row) = found.next().map_err(failed)? {
            let id = row.get_ref(0).ok().and_then(id_of);
            let Some(name) = id.and_then(name_of) else {
                continue;
            };
            let mut hasher = DefaultHasher::new();
            (1..columns).for_each(|column| hash(row, column, &mut hasher));
            let micros = mark
                .written
                .and_then(|unit| Some(number(row, columns.checked_sub(1)?)? * unit));
            let marked = Marked {
                hash: hasher.finish(),
                written: micros.and_then(time_of),
            };
            marks.insert(name, marked);
            // The rows of the others may change unnoticed. They aren't listed either.
            if marks.len() >= most {
                break;
            }
        }
        Ok(Some(marks))
    }

    /// Returns whether everything read so far belongs to one state.
    fn is_still(&self) -> io::Result<bool> {
        Ok(self.state.is_still(&State::of(&self.place)?))
    }

    /// Returns the id of the run with this name.
    fn id_of_run(&self, name: &str) -> io::Result<String> {
        if !is_made(name) {
            return Ok(name.to_owned());
        }
        let (kept, _) = name.rsplit_once('~').unwrap_or((name, ""));
        self.allow(LIST_TIME, u64::MAX);
        let query = format!("SELECT id FROM {}", self.rows.run.name);
        let mut query = self.connection.prepare(&query).map_err(failed)?;
        let mut found = query.query([]).map_err(failed)?;
        let mut made = None;
        while let Some(row) = found.next().map_err(failed)? {
            match row.get_ref(0).ok().and_then(id_of) {
                // An id may look like a name that was made.
                Some(id) if id == name => return Ok(id.to_owned()),
                // Most ids differ at their beginning, and need no hash.
                Some(id)
                    if made.is_none()
                        && beginning(id) == kept
                        && name_of(id).as_deref() == Some(name) =>
                {
                    made = Some(id.to_owned());
                }
                _ => {}
            }
        }
        Ok(made.unwrap_or_else(|| name.to_owned()))
    }

    /// Returns the start of the run's document: everything but the messages. Also returns whether it
    /// lacks children.
    fn start(&self, id: &str) -> io::Result<(Vec<u8>, bool)> {
        let mut is_cut = false;
        self.allow(RECORD_TIME, u64::MAX);
        let run = &self.rows.run;
        let mut out = format!("{{{}:", quoted(run.key)).into_bytes();
        let query = format!("{} WHERE id = ?1", self.select(run));
        let mut query = self.connection.prepare(&query).map_err(failed)?;
        let mut found = query.query([id]).map_err(failed)?;
        let Some(row) = found.next().map_err(failed)? else {
            return Err(io::Error::new(
                io::ErrorKind::NotFound,
                "the database has no such run",
            ));
        };
        self.object(row, run, MAX_RECORD_BYTES, &mut out);
        out.push(b'}');
        out.extend_from_slice(b",\n\"children\":[");
        if self.has(run, self.rows.parent) {
            let parent = self.rows.parent;
            let query = format!(
                "SELECT id FROM {} WHERE {parent} = ?1 ORDER BY id LIMIT {}",
                run.name,
                MAX_BESIDE + 1
            );
            let mut query = self.connection.prepare(&query).map_err(failed)?;
            let mut found = query.query([id]).map_err(failed)?;
            let (mut is_first, mut count) = (true, 0);
            while let Some(row) = found.next().map_err(failed)? {
                count += 1;
                if count > MAX_BESIDE {
                    is_cut = true;
                } else if let Some(id) = row.get_ref(0).ok().and_then(id_of) {
                    let id: String = id.chars().take(MAX_ID_CHARS).collect();
                    separate(&mut is_first, &mut out);
                    out.extend_from_slice(quoted(&id).as_bytes());
                }
            }
        }
        out.push(b']');
        if let Some(table) = &self.rows.beside {
            out.extend_from_slice(format!(",\n{}:[", quoted(table.key)).as_bytes());
            if let Some(mut query) = self.query_of(table, MAX_BESIDE)? {
                let most = (MAX_BESIDE, MAX_RECORD_BYTES);
                self.rows_of(table, &mut query, id, most, &mut out)?;
            }
            out.push(b']');
        }
        out.extend_from_slice(format!(",\n{}:[", quoted(self.rows.messages.key)).as_bytes());
        Ok((out, is_cut))
    }

    /// Returns a query for the rows of `table` that belong to an id, and one more than `most`, if it
    /// has such rows.
    fn query_of(&self, table: &Table, most: usize) -> io::Result<Option<Statement<'_>>> {
        if !self.has(table, table.of) {
            return Ok(None);
        }
        let query = format!(
            "{} WHERE {} = ?1 {} LIMIT {}",
            self.select(table),
            table.of,
            self.order(table),
            most + 1
        );
        self.connection.prepare(&query).map(Some).map_err(failed)
    }

    /// Appends the rows of `table` that belong to `id`, of at most this number and about this many
    /// bytes, and leaves out what is too large.
    fn rows_of(
        &self,
        table: &Table,
        query: &mut Statement<'_>,
        id: &str,
        (most, most_bytes): (usize, usize),
        out: &mut Vec<u8>,
    ) -> io::Result<()> {
        let begun = out.len();
        let mut found = query.query([id]).map_err(failed)?;
        let (mut is_first, mut count) = (true, 0);
        while let Some(row) = found.next().map_err(failed)? {
            count += 1;
            if count > most {
                separate(&mut is_first, out);
                out.extend_from_slice(b"{\"left_out\":[\"further rows\"]}");
                break;
            }
            let before = out.len();
            separate(&mut is_first, out);
            let rest = most_bytes.saturating_sub(before - begun);
            if self.object(row, table, rest, out) {
                out.truncate(before);
                is_first = is_first || before == begun;
            } else {
                out.push(b'}');
            }
        }
        Ok(())
    }

    /// Appends a row as an object without its last brace, of at most about `most` bytes. Returns
    /// whether the row isn't part of the document.
    fn object(&self, row: &Row<'_>, table: &Table, most: usize, out: &mut Vec<u8>) -> bool {
        let begun = out.len();
        let mut left_out = Vec::new();
        let mut is_first = true;
        out.push(b'{');
        for (at, column) in self
            .columns
            .get(table.name)
            .into_iter()
            .flatten()
            .enumerate()
        {
            let size = row.get::<_, i64>(2 * at + 1).unwrap_or_default();
            let value = row.get_ref(2 * at).unwrap_or(ValueRef::Null);
            let is_large = size > MAX_VALUE_BYTES as i64
                || size.saturating_add((out.len() - begun) as i64) > most as i64;
            if is_large {
                left_out.push(*column);
                continue;
            }
            let holds_json = table.json.contains(column);
            let text = match value {
                ValueRef::Text(bytes) if holds_json => match std::str::from_utf8(bytes) {
                    Ok(text) if (self.rows.leaves_out)(text) => return true,
                    Ok(text) if is_json(text) => text.to_owned(),
                    _ => quoted(&String::from_utf8_lossy(bytes)),
                },
                ValueRef::Text(bytes) => quoted(&String::from_utf8_lossy(bytes)),
                ValueRef::Integer(number) => number.to_string(),
                ValueRef::Real(number) if number.is_finite() => {
                    serde_json::Number::from_f64(number)
                        .map_or_else(|| "null".to_owned(), |number| number.to_string())
                }
                ValueRef::Null | ValueRef::Real(_) | ValueRef::Blob(_) => continue,
            };
            // Escapes may make it longer.
            if text.len().saturating_add(out.len() - begun) > most {
                left_out.push(*column);
                continue;
            }
            let members = text
                .trim()
                .strip_prefix('{')
                .and_then(|text| text.strip_suffix('}'))
                .filter(|_| table.spread == *column);
            if let Some(members) = members {
                if !members.trim().is_empty() {
                    separate(&mut is_first, out);
                    out.extend_from_slice(members.as_bytes());
                }
                continue;
            }
            separate(&mut is_first, out);
            out.extend_from_slice(format!("{}:", quoted(column)).as_bytes());
            out.extend_from_slice(text.as_bytes());
        }
        if !left_out.is_empty() {
            let names: Vec<String> = left_out.iter().map(|name| quoted(name)).collect();
            separate(&mut is_first, out);
            out.extend_from_slice(format!("\"left_out\":[{}]", names.join(",")).as_bytes());
        }
        false
    }

    /// Returns the row ids of the run's messages in order.
    fn messages(&self, id: &str) -> io::Result<(VecDeque<i64>, bool)> {
        self.allow(LIST_TIME, u64::MAX);
        let table = &self.rows.messages;
        let rowid = self.rowid;
        // Rows of the same time are in the order in which they were written.
        let order = match self.order(table) {
            order if order.is_empty() => format!("ORDER BY {rowid}"),
            order => format!("{order}, {rowid}"),
        };
        let query = format!(
            "SELECT {rowid} FROM {} WHERE {} = ?1 {order} LIMIT {}",
            table.name,
            table.of,
            MAX_MESSAGES + 1
        );
        let mut query = self.connection.prepare(&query).map_err(failed)?;
        let mut found = query.query([id]).map_err(failed)?;
        let mut ids = VecDeque::new();
        while let Some(row) = found.next().map_err(failed)? {
            ids.extend(row.get::<_, i64>(0).ok());
        }
        let is_cut = ids.len() > MAX_MESSAGES;
        ids.truncate(MAX_MESSAGES);
        Ok((ids, is_cut))
    }

    /// Returns the queries for messages and their parts. One of them takes as long to prepare as to
    /// answer.
    fn queries(&self) -> io::Result<Queries<'_>> {
        self.allow(RECORD_TIME, u64::MAX);
        let messages = self.select(&self.rows.messages);
        let query = format!("{messages} WHERE {} = ?1", self.rowid);
        let parts = self.rows.parts.as_ref();
        Ok(Queries {
            message: self.connection.prepare(&query).map_err(failed)?,
            parts: parts
                .map(|table| self.query_of(table, MAX_PARTS))
                .transpose()?
                .flatten(),
        })
    }

    /// Appends a message with its parts.
    fn message(&self, queries: &mut Queries<'_>, rowid: i64, out: &mut Vec<u8>) -> io::Result<()> {
        self.allow(RECORD_TIME, u64::MAX);
        let table = &self.rows.messages;
        let mut found = queries.message.query([rowid]).map_err(failed)?;
        let Some(row) = found.next().map_err(failed)? else {
            out.extend_from_slice(b"null");
            return Ok(());
        };
        let begun = out.len();
        if self.object(row, table, MAX_RECORD_BYTES, out) {
            out.truncate(begun);
            out.extend_from_slice(b"null");
            return Ok(());
        }
        let at = self
            .columns
            .get(table.name)
            .and_then(|known| known.iter().position(|column| *column == "id"));
        let id = at.and_then(|at| row.get_ref(2 * at).ok()).and_then(id_of);
        if let Some((table, id)) = self.rows.parts.as_ref().zip(id) {
            out.extend_from_slice(format!(",{}:[", quoted(table.key)).as_bytes());
            let rest = MAX_RECORD_BYTES.saturating_sub(out.len() - begun);
            if let Some(query) = &mut queries.parts {
                self.rows_of(table, query, id, (MAX_PARTS, rest), out)?;
            }
            out.push(b']');
        }
        out.push(b'}');
        Ok(())
    }
}

/// Returns the runs of a database, at most `most`, and which connections see them.
///
/// # Errors
/// Fails if it isn't a database of this kind, or can't be read now.
pub(super) fn list(place: &Place, rows: &'static Rows, most: usize) -> io::Result<(RunRows, Seen)> {
    // They may not see the newest rows.
    while idle().take(|store| store.place == *place).is_some() {}
    let mut failure = None;
    let begun = Instant::now();
    for _ in 0..TRIES {
        // A damaged one takes as long each time.
        if failure.is_some() && begun.elapsed() > RECORD_TIME {
            break;
        }
        let found = Store::open(place, rows).and_then(|store| {
            let found = store.list(most);
            Ok((store.is_still()?, found?, store))
        });
        match found {
            Ok((true, found, store)) => {
                let seen = Seen {
                    by: store.number,
                    since: NEXT.load(Ordering::SeqCst),
                };
                store.keep();
                return Ok((found, seen));
            }
            Ok((false, ..)) => failure = None,
            // It may have changed meanwhile.
            Err(error) => failure = Some(error),
        }
    }
    Err(failure.unwrap_or_else(|| busy("a program is writing to it")))
}

/// Returns a reader for the document of the run `id` in a list of runs.
///
/// # Errors
/// Fails like [`list`]. The reader fails if the database changes while it's being read.
pub(super) fn document(
    place: &Place,
    rows: &'static Rows,
    name: &str,
    seen: Seen,
) -> io::Result<Box<dyn Read + Send>> {
    let mut failure = None;
    let begun = Instant::now();
    for attempt in 0..TRIES {
        if failure.is_some() && begun.elapsed() > RECORD_TIME {
            break;
        }
        let read = || -> io::Result<(bool, Document)> {
            let store = match attempt {
                0 => Store::of(place, rows, seen)?,
                _ => Store::open(place, rows)?,
            };
            let mut document = Document::new(store, name)?;
            document.read_on(AT_ONCE_BYTES)?;
            Ok((document.is_still()?, document))
        };
        match read() {
            Ok((true, document)) => return Ok(Box::new(document)),
            Ok((false, _)) => failure = None,
            Err(error) => {
                let is_gone = error.kind() == io::ErrorKind::NotFound;
                failure = Some(error);
                if is_gone {
                    break;
                }
            }
        }
    }
    Err(failure.unwrap_or_else(|| busy(CHANGED)))
}

const CHANGED: &str = "the database changed while it was read";

/// The document of a run while it's being read.
struct Document {
    /// `None` once it's read.
    store: Option<Store>,
    rest: VecDeque<i64>,
    /// Whether the run has more messages or children than are read.
    is_cut: bool,
    is_begun: bool,
    ready: Vec<u8>,
    /// How many of the ready bytes were read.
    taken: usize,
    /// The bytes before the ready ones.
    before: u64,
    /// How long its rows took so far.
    took: Duration,
}

impl Document {
    fn new(store: Store, name: &str) -> io::Result<Self> {
        let id = store.id_of_run(name)?;
        let (ready, lacks_children) = store.start(&id)?;
        let (rest, is_cut) = store.messages(&id)?;
        Ok(Self {
            store: Some(store),
            rest,
            is_cut: is_cut || lacks_children,
            is_begun: false,
            ready,
            taken: 0,
            before: 0,
            took: Duration::ZERO,
        })
    }

    /// Returns whether everything read so far belongs to one state of the database.
    fn is_still(&self) -> io::Result<bool> {
        self.store.as_ref().map_or(Ok(true), Store::is_still)
    }

    /// Reads messages until this many bytes are ready, or for `TURN_TIME`. Reads at least one, if
    /// there are any. The text ends only if it's from one state of the database.
    fn read_on(&mut self, bytes: usize) -> io::Result<()> {
        let Some(store) = &self.store else {
            return Ok(());
        };
        let start = Instant::now();
        let mut queries = None;
        let is_over = loop {
            let is_large = self.before.saturating_add(self.ready.len() as u64) > MAX_DOCUMENT_BYTES;
            let took = self.took.saturating_add(start.elapsed());
            if is_large || took > DOCUMENT_TIME {
                self.is_cut |= !self.rest.is_empty();
                self.rest.clear();
            }
            let Some(rowid) = self.rest.pop_front() else {
                break true;
            };
            let queries = match &mut queries {
                Some(queries) => queries,
                none => none.insert(store.queries()?),
            };
            let mut is_first = !std::mem::replace(&mut self.is_begun, true);
            separate(&mut is_first, &mut self.ready);
            store.message(queries, rowid, &mut self.ready)?;
            if self.ready.len() >= bytes || start.elapsed() >= TURN_TIME {
                break false;
            }
        };
        drop(queries);
        self.took += start.elapsed();
        if !is_over {
            return Ok(());
        }
        if !store.is_still()? {
            return Err(busy(CHANGED));
        }
        let end: &[u8] = match self.is_cut {
            true => b"],\n\"left_out\":[\"further messages or children\"]}\n",
            false => b"]}\n",
        };
        self.ready.extend_from_slice(end);
        if let Some(store) = self.store.take() {
            store.keep();
        }
        Ok(())
    }
}

impl Read for Document {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.taken == self.ready.len() {
            self.before += self.ready.len() as u64;
            (self.taken, self.ready) = (0, Vec::new());
            self.read_on(buffer.len())?;
        }
        let rest = self.ready.get(self.taken..).unwrap_or_default();
        let read = (&*rest).read(buffer)?;
        self.taken += read;
        Ok(read)
    }
}

/// Returns why SQLite failed.
#[expect(clippy::needless_pass_by_value, reason = "for `map_err`")]
fn failed(error: rusqlite::Error) -> io::Error {
    let code = error.sqlite_error_code();
    let (kind, what) = match code {
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
            return damaged(&error.to_string());
        }
        Some(ErrorCode::OperationInterrupted) => (
            io::ErrorKind::InvalidData,
            "reading the database takes too long".to_owned(),
        ),
        Some(ErrorCode::OutOfMemory) => (
            io::ErrorKind::InvalidData,
            "reading the database takes too much memory".to_owned(),
        ),
        Some(ErrorCode::CannotOpen | ErrorCode::SystemIoFailure)
        | Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
            (io::ErrorKind::Other, error.to_string())
        }
        _ => (
            io::ErrorKind::InvalidData,
            format!("the database can't be read: {error}"),
        ),
    };
    io::Error::new(kind, what)
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// Appends a comma before all values but the first.
fn separate(is_first: &mut bool, out: &mut Vec<u8>) {
    if !std::mem::replace(is_first, false) {
        out.extend_from_slice(b",\n");
    }
}

/// Returns a text as a JSON string.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// Returns whether a text is JSON and not just a word or a number.
fn is_json(text: &str) -> bool {
    text.starts_with(['{', '[', '"']) && Json::is_json(text)
}

/// Returns an id, if it's a text.
fn id_of(value: ValueRef<'_>) -> Option<&str> {
    value.as_str().ok().filter(|id| !id.is_empty())
}

/// Returns the name of the run with this id, if it can have one. A name is the last part of a path
/// and has a limited length. If the id can't be the name, a hash of the id replaces its end.
fn name_of(id: &str) -> Option<Arc<str>> {
    if id.contains(char::is_control) {
        return None;
    }
    if id.len() <= MAX_NAME_BYTES && !id.contains('/') {
        return Some(id.into());
    }
    let mut name = beginning(id);
    name.push('~');
    for byte in Sha256::digest(id.as_bytes()).iter().take(HASH_DIGITS / 2) {
        name.push_str(&format!("{byte:02x}"));
    }
    Some(name.into())
}

/// Returns how the name of a run begins whose id can't be the name.
fn beginning(id: &str) -> String {
    let kept: String = id.chars().take(KEPT_CHARS).collect();
    kept.replace('/', "_")
}

/// Returns whether a name may be one that isn't its run's id.
fn is_made(name: &str) -> bool {
    let is_hash =
        |hash: &str| hash.len() == HASH_DIGITS && hash.bytes().all(|c| c.is_ascii_hexdigit());
    name.rsplit_once('~').is_some_and(|(_, hash)| is_hash(hash))
}

fn number(row: &Row<'_>, column: usize) -> Option<f64> {
    match row.get_ref(column).ok()? {
        ValueRef::Integer(number) => Some(number as f64),
        ValueRef::Real(number) => Some(number),
        _ => None,
    }
}

/// Returns the moment this many microseconds after the epoch.
fn time_of(micros: f64) -> Option<SystemTime> {
    let is_usable = micros.is_finite() && (0.0..1e17).contains(&micros);
    is_usable.then(|| UNIX_EPOCH + Duration::from_micros(micros as u64))
}

fn hash(row: &Row<'_>, column: usize, hasher: &mut DefaultHasher) {
    match row.get_ref(column) {
        Ok(ValueRef::Integer(number)) => (1, number).hash(hasher),
        Ok(ValueRef::Real(number)) => (2, number.to_bits()).hash(hasher),
        Ok(ValueRef::Text(bytes) | ValueRef::Blob(bytes)) => (3, bytes).hash(hasher),
        Ok(ValueRef::Null) | Err(_) => 0.hash(hasher),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::format::{Shape, tool};

    /// Copies the sample of OpenCode, with its database as if it was written a while ago.
    fn copied() -> (tempfile::TempDir, Place, &'static Rows) {
        copied_of("opencode", NAME)
    }

    /// Copies the database of a sample in this way.
    fn copied_of(folder: &str, name: &str) -> (tempfile::TempDir, Place, &'static Rows) {
        let samples = Path::new(env!("CARGO_MANIFEST_DIR")).join("sample_runs/tools");
        let root = tempfile::tempdir().unwrap();
        for entry in fs::read_dir(samples.join(folder)).unwrap() {
            let entry = entry.unwrap();
            fs::copy(entry.path(), root.path().join(entry.file_name())).unwrap();
        }
        age(&root.path().join(name));
        let head = fs::read(root.path().join(name)).unwrap();
        let Shape::Several(several) = &tool(name, &head).unwrap().shape else {
            panic!("a database has several runs")
        };
        let place = Place::of(root.path(), Path::new(""), OsStr::new(name));
        (root, place, several.rows.unwrap())
    }

    const NAME: &str = "opencode.db";

    fn age(path: &Path) {
        let file = fs::OpenOptions::new().write(true).open(path).unwrap();
        let time = SystemTime::now() - Duration::from_secs(60);
        file.set_modified(time).unwrap();
    }

    /// Returns what `work` returns, and how often it opens a database.
    fn opened<T>(work: impl FnOnce() -> T) -> (T, usize) {
        let before = OPENED.get();
        (work(), OPENED.get() - before)
    }

    fn text(place: &Place, rows: &'static Rows, seen: Seen) -> String {
        let mut text = String::new();
        let mut input = document(place, rows, "ses_stop0001", seen).unwrap();
        input.read_to_string(&mut text).unwrap();
        text
    }

    fn is_open(place: &Place) -> bool {
        let store = idle().take(|store| store.place == *place);
        store.map(|store| idle().keep(store)).is_some()
    }

    #[test]
    fn a_look_at_a_database_causes_no_other() {
        let (root, place, rows) = copied();
        let dir = Dir::open(root.path(), Path::new("")).unwrap();
        let name = OsStr::new(NAME);
        let before = stamp(&dir, name).unwrap().1;
        let ((runs, fault, beyond), _) = list(&place, rows, 100).unwrap();
        assert_eq!((runs.len(), fault, beyond), (4, None, 0));
        assert_eq!(stamp(&dir, name).unwrap().1, before);
        // New rows show.
        let log = root.path().join("opencode.db-wal");
        let file = fs::OpenOptions::new().append(true).open(log).unwrap();
        file.set_len(50_000).unwrap();
        assert_ne!(stamp(&dir, name).unwrap().1, before);
    }

    #[test]
    fn a_database_is_opened_once_for_a_list_and_its_documents() {
        let (_root, place, rows) = copied();
        let (((runs, ..), seen), opens) = opened(|| list(&place, rows, 100).unwrap());
        assert_eq!((runs.len(), opens), (4, 1));
        let read = || (0..3).map(|_| text(&place, rows, seen)).collect::<Vec<_>>();
        let (texts, opens) = opened(read);
        assert_eq!(opens, 0);
        assert!(texts.iter().all(|text| text.contains("There was a cent")));
        // It's in use until it's read.
        let first = Store::of(&place, rows, seen).unwrap();
        let (second, opens) = opened(|| Store::of(&place, rows, seen).unwrap());
        assert_eq!(opens, 1);
        first.keep();
        second.keep();
        assert_eq!(opened(|| list(&place, rows, 100).unwrap()).1, 1);
        let (_, opens) = opened(|| text(&place, rows, seen));
        assert_eq!(opens, 0, "a later state is as good");
    }

    #[test]
    fn an_open_database_is_not_used_for_newer_rows() {
        let (root, place, rows) = copied();
        let (_, seen) = list(&place, rows, 100).unwrap();
        let old = text(&place, rows, seen);
        let writer = Connection::open(root.path().join(NAME)).unwrap();
        let sql = "INSERT INTO message VALUES('m', 'ses_stop0001', 1777890000000, 0, '{\"role\":\"new\"}')";
        writer.execute_batch(sql).unwrap();
        let (text_now, opens) = opened(|| text(&place, rows, seen));
        assert!(opens == 0 && text_now == old, "the state of its list");
        let ((_, seen), opens) = opened(|| list(&place, rows, 100).unwrap());
        assert_eq!(opens, 1);
        let (text_now, opens) = opened(|| text(&place, rows, seen));
        assert_eq!((text_now.contains("\"new\""), opens), (true, 0));
        // Pages move to the database, and the log begins again.
        writer
            .execute_batch("PRAGMA wal_checkpoint(TRUNCATE)")
            .unwrap();
        let (text_now, opens) = opened(|| text(&place, rows, seen));
        assert_eq!((text_now.contains("\"new\""), opens), (true, 1));
        assert!(!is_open(&place), "its next change might not show");
        age(&root.path().join(NAME));
        text(&place, rows, seen);
        assert!(is_open(&place));
        writer
            .execute_batch("DELETE FROM message WHERE id = 'm'")
            .unwrap();
        let (_, seen) = list(&place, rows, 100).unwrap();
        assert_eq!(text(&place, rows, seen), old);
    }

    #[test]
    fn each_change_of_a_session_shows_in_its_version_and_no_other() {
        for (folder, name, session, parts) in [
            (
                "crush",
                "crush.db",
                "20000000-1111-4111-8111-111111111111",
                "parts",
            ),
            ("goose", "sessions.db", "20260504_3", "content_json"),
        ] {
            let (root, place, rows) = copied_of(folder, name);
            let writer = Connection::open(root.path().join(name)).unwrap();
            let versions = || {
                let ((runs, ..), _) = list(&place, rows, 100).unwrap();
                let versions = runs.into_iter().map(|(id, run)| (id, run.version));
                versions.collect::<HashMap<_, _>>()
            };
            let newest =
                format!("(SELECT max(rowid) FROM messages WHERE session_id = '{session}')");
            for sql in [
                // A reply grows in the second in which it was written.
                format!("UPDATE messages SET {parts} = {parts} || ' ' WHERE rowid = {newest}"),
                // Rows are replaced by equal ones.
                format!(
                    "CREATE TEMP TABLE old AS SELECT * FROM messages WHERE rowid = {newest}; \
                     DELETE FROM messages WHERE rowid = {newest}; \
                     INSERT INTO messages SELECT * FROM old; \
                     UPDATE messages SET rowid = rowid + 1000 WHERE rowid = {newest}"
                ),
                format!("DELETE FROM messages WHERE rowid = {newest}"),
                format!(
                    "UPDATE sessions SET {} = 'another' WHERE id = '{session}'",
                    if folder == "crush" { "title" } else { "name" }
                ),
            ] {
                let before = versions();
                writer.execute_batch(&sql).unwrap();
                let changed: Vec<_> = versions()
                    .into_iter()
                    .filter(|(id, version)| before.get(id) != Some(version))
                    .map(|(id, _)| id.to_string())
                    .collect();
                assert_eq!(changed, [session], "{name}: {sql}");
            }
        }
    }

    #[test]
    fn a_replaced_or_deleted_database_is_closed() {
        let (root, place, rows) = copied();
        let (_, seen) = list(&place, rows, 100).unwrap();
        close_idle();
        assert!(is_open(&place));
        let path = root.path().join(NAME);
        fs::rename(&path, root.path().join("old")).unwrap();
        fs::copy(root.path().join("old"), &path).unwrap();
        age(&path);
        let (_, opens) = opened(|| text(&place, rows, seen));
        assert_eq!(opens, 1);
        assert!(is_open(&place));
        fs::remove_file(&path).unwrap();
        close_idle();
        assert!(!is_open(&place));
    }
}
