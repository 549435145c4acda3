//! Keeps texts in a database of board's own, with an index that finds which of them may contain a
//! text.
//!
//! SQLite's trigram index names all chunks that contain every three characters of the text in a row.
//! The caller then looks for the whole text in those chunks. The database is a cache: it's written
//! only by this user's boards, may be deleted at any time, and is created again if it's damaged or
//! another build wrote it. This module must not know what a run is: an owner of texts is a name with
//! a version.

use std::collections::HashMap;
use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use rusqlite::{Connection, ErrorCode, OpenFlags, OptionalExtension as _, Row, params};
use serde::{Deserialize, Serialize};

use crate::cache_file::{self, Access};

/// The beginning and the end of a database's name. A hash of what it's for is in between.
const PREFIX: &str = "texts-";
const ENDING: &str = ".db";
/// The databases of other boards that weren't opened for this long are deleted.
const UNUSED: Duration = Duration::from_secs(60 * 24 * 3600);
/// A chunk ends after this many bytes of text. Smaller chunks are searched faster and take more
/// space in the index.
const CHUNK_BYTES: usize = 16 << 10;
/// Longer texts are divided into pieces of this many bytes.
const PIECE_BYTES: usize = 32 << 10;
/// Pieces begin this many bytes before the end of the previous one, so that a text across the border
/// is found: 500 characters of up to four bytes.
const OVERLAP_BYTES: usize = 2_000;
/// A text's other fields count as this many bytes, which is more than they take.
const FIELDS_BYTES: usize = 40;
/// A chunk that unpacks to more than this is damaged. It has at most a piece more than it needs to
/// end.
const MAX_UNPACKED_BYTES: usize = 2 * (CHUNK_BYTES + PIECE_BYTES);
/// The chunks of an owner. Their number is the low bits of their id.
const CHUNK_BITS: u32 = 22;
const MAX_CHUNKS: i64 = 1 << CHUNK_BITS;
/// The size of the database is checked whenever an owner has this many more chunks.
const CHECK_EVERY: i64 = 16;
/// More trigrams than this make a search no more precise.
const MAX_TRIGRAMS: usize = 48;
/// How long a statement waits for another board that writes.
const PATIENCE: Duration = Duration::from_secs(2);
/// The size that the write-ahead log is reduced to after a large change.
const MAX_LOG_BYTES: i64 = 16 << 20;
/// The memory of each connection for pages of the database, in KiB.
const PAGE_CACHE_KIB: i64 = 4 << 10;

/// A text, or a piece of one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Text<'a> {
    /// The number of the text among the owner's texts. All pieces of a text have the same.
    pub number: u64,
    /// The step that it belongs to.
    pub step: Option<usize>,
    /// The position of the step's line in its file.
    pub offset: u64,
    /// What the text is, such as `reply`.
    pub label: &'a str,
    pub text: &'a str,
}

/// The chunks that may contain a text.
#[derive(Debug, Default)]
pub(crate) struct Candidates {
    /// Their ids in ascending order, so that those of an owner are next to each other.
    chunks: Vec<i64>,
    /// The newest owner at that time. Later ones aren't covered.
    newest: i64,
}

impl Candidates {
    /// Returns the chunks of an owner. `None` if the search doesn't know its texts.
    fn of(&self, owner: i64) -> Option<&[i64]> {
        let from = self
            .chunks
            .partition_point(|chunk| chunk >> CHUNK_BITS < owner);
        let (_, rest) = self.chunks.split_at(from);
        let count = rest.partition_point(|chunk| chunk >> CHUNK_BITS == owner);
        (owner <= self.newest).then(|| rest.split_at(count).0)
    }
}

/// What the database knows about an owner's texts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Holds {
    /// Nothing, or only those of another version.
    Nothing,
    /// None of them contains the text.
    None,
    /// Some of them may contain the text.
    Some,
}

/// An owner as the database knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Known {
    id: i64,
    version: u64,
}

/// The database.
#[derive(Debug)]
pub(crate) struct TextIndex {
    path: PathBuf,
    /// Locked while the database is in use, so that no other board changes it.
    _lock: File,
    build: String,
    /// The database may take this many bytes.
    max_bytes: u64,
    /// `None` if it can't be written, or was found to be damaged.
    writer: Mutex<Option<Connection>>,
    /// Connections that wait for their next search.
    readers: Mutex<Vec<Reader>>,
    known: Mutex<HashMap<Box<[u8]>, Known>>,
}

/// A connection that only reads.
#[derive(Debug)]
struct Reader {
    connection: Connection,
    /// The last chunk, unpacked.
    chunk: Vec<u8>,
}

/// What became of the texts of an owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Put {
    Stored,
    /// They weren't complete. The earlier ones stay.
    Incomplete,
    /// The database would be too large. The earlier ones may be gone.
    NoRoom,
}

/// A database error, or why the database can't be used.
#[derive(Debug)]
pub(crate) enum Fault {
    Sqlite(rusqlite::Error),
    Unusable(String),
}

impl From<rusqlite::Error> for Fault {
    fn from(error: rusqlite::Error) -> Self {
        Fault::Sqlite(error)
    }
}

impl std::fmt::Display for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Fault::Sqlite(error) => error.fmt(f),
            Fault::Unusable(why) => f.write_str(why),
        }
    }
}

type Result<T> = std::result::Result<T, Fault>;

impl TextIndex {
    /// Opens the database `name` in `dir`, or creates it. `build` identifies the program, whose texts
    /// differ from those of other builds.
    ///
    /// # Errors
    /// Fails if another board uses the database, if the directory can't be written, or if something
    /// else is at the database's place.
    pub(crate) fn open(dir: &Path, name: &str, build: &str, max_bytes: u64) -> Result<Self> {
        let unusable = |error: std::io::Error| Fault::Unusable(error.to_string());
        fs::create_dir_all(dir).map_err(unusable)?;
        let path = dir.join(format!("{PREFIX}{name}{ENDING}"));
        let locked =
            cache_file::open(&path.with_extension("lock"), Access::Lock).map_err(unusable)?;
        locked.try_lock().map_err(|error| match error {
            TryLockError::WouldBlock => Fault::Unusable("another board uses it".to_owned()),
            TryLockError::Error(error) => unusable(error),
        })?;
        let index = Self {
            path,
            _lock: locked,
            build: build.to_owned(),
            max_bytes,
            writer: Mutex::default(),
            readers: Mutex::default(),
            known: Mutex::default(),
        };
        let writer = match index.connect() {
            Err(Fault::Sqlite(error)) if is_damage(&error) => index.replace()?,
            other => other?,
        };
        let known = load(&writer);
        *lock(&index.writer) = Some(match &known {
            Err(error) if is_damage(error) => index.replace()?,
            _ => writer,
        });
        *lock(&index.known) = known.unwrap_or_default();
        delete_unused(dir, &index.path);
        Ok(index)
    }

    /// Deletes a damaged database, and creates it again.
    fn replace(&self) -> Result<Connection> {
        tracing::warn!(
            "the search index {} is damaged; board builds it again",
            self.path.display()
        );
        lock(&self.known).clear();
        lock(&self.readers).clear();
        delete(&self.path);
        self.connect()
    }

    /// Opens the database for writing.
    fn connect(&self) -> Result<Connection> {
        self.claim()?;
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
            | OpenFlags::SQLITE_OPEN_NO_MUTEX
            | OpenFlags::SQLITE_OPEN_NOFOLLOW;
        let mut connection = Connection::open_with_flags(&self.path, flags)?;
        set_up(&connection)?;
        connection.pragma_update(None, "journal_mode", "wal")?;
        connection.pragma_update(None, "journal_size_limit", MAX_LOG_BYTES)?;
        // After a power failure, the newest texts may be missing. They are then read again.
        connection.pragma_update(None, "synchronous", "normal")?;
        let change =
            connection.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
        let build: Option<String> = change
            .query_row("SELECT build FROM about", [], |row| row.get(0))
            .optional()
            .or_else(|error| {
                if is_damage(&error) {
                    Err(error)
                } else {
                    Ok(None)
                }
            })?;
        if build.as_ref() != Some(&self.build) {
            change.execute_batch(
                "DROP TABLE IF EXISTS about; DROP TABLE IF EXISTS owners; DROP TABLE IF EXISTS chunks;
                 DROP TABLE IF EXISTS grams;
                 CREATE TABLE about (build TEXT NOT NULL);
                 CREATE TABLE owners (id INTEGER PRIMARY KEY AUTOINCREMENT, name BLOB NOT NULL UNIQUE, version INTEGER NOT NULL);
                 CREATE TABLE chunks (id INTEGER PRIMARY KEY, body BLOB NOT NULL);
                 CREATE VIRTUAL TABLE grams USING fts5(text, content='', contentless_delete=1, detail='none',
                     tokenize='trigram');",
            )?;
            change.execute("INSERT INTO about VALUES (?)", [&self.build])?;
        }
        change.commit()?;
        Ok(connection)
    }

    /// Creates the file if it doesn't exist, for its owner only, and checks that it's this user's.
    fn claim(&self) -> Result<()> {
        let unusable = |error: std::io::Error| Fault::Unusable(error.to_string());
        let file = cache_file::open(&self.path, Access::Lock).map_err(unusable)?;
        // Shows other boards that the database is in use.
        file.set_modified(SystemTime::now()).map_err(unusable)
    }

    /// Returns whether the texts of `owner` are those of this version.
    pub(crate) fn has(&self, owner: &[u8], version: u64) -> bool {
        lock(&self.known)
            .get(owner)
            .is_some_and(|known| known.version == version)
    }

    /// Replaces the texts of `owner`. `texts` calls its argument with each of them, until that returns false.
    /// If it returns false itself, the texts aren't complete and nothing changes.
    ///
    /// # Errors
    /// Returns the database's error. Nothing has changed then.
    pub(crate) fn put(
        &self,
        owner: &[u8],
        version: u64,
        texts: impl FnOnce(&mut dyn FnMut(Text<'_>) -> bool) -> bool,
    ) -> Result<Put> {
        let mut writer = lock(&self.writer);
        let Some(connection) = writer.as_mut() else {
            return Ok(Put::NoRoom);
        };
        let put = self.put_with(connection, owner, version, texts);
        if let Err(Fault::Sqlite(error)) = &put
            && is_damage(error)
        {
            *writer = None;
            *writer = Some(self.replace()?);
        }
        put
    }

    fn put_with(
        &self,
        connection: &mut Connection,
        owner: &[u8],
        version: u64,
        texts: impl FnOnce(&mut dyn FnMut(Text<'_>) -> bool) -> bool,
    ) -> Result<Put> {
        let change =
            connection.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
        let before: Option<i64> = change
            .query_row("SELECT id FROM owners WHERE name = ?", [owner], |row| {
                row.get(0)
            })
            .optional()?;
        if let Some(id) = before {
            remove(&change, id)?;
        }
        if size(&change)? > self.max_bytes {
            // The place of the old texts is free for the next ones.
            change.commit()?;
            lock(&self.known).remove(owner);
            return Ok(Put::NoRoom);
        }
        change.execute(
            "INSERT INTO owners (name, version) VALUES (?, ?)",
            params![owner, version.cast_signed()],
        )?;
        let id = change.last_insert_rowid();
        let mut chunks = Chunks {
            change: &change,
            max_bytes: self.max_bytes,
            first: id << CHUNK_BITS,
            count: 0,
            body: Vec::new(),
            words: String::new(),
            bytes: 0,
            ended: None,
        };
        let is_complete = texts(&mut |text| chunks.add(&text));
        chunks.flush();
        match chunks.ended {
            Some(Ended::Failed(error)) => return Err(error),
            Some(Ended::NoRoom) => return Ok(Put::NoRoom),
            None if !is_complete => return Ok(Put::Incomplete),
            None => {}
        }
        change.commit()?;
        lock(&self.known).insert(owner.into(), Known { id, version });
        Ok(Put::Stored)
    }

    /// Returns the bytes that the database may take.
    pub(crate) fn max_bytes(&self) -> u64 {
        self.max_bytes
    }

    /// Removes the texts of all owners that `stays` doesn't want, which may take the place of others.
    ///
    /// # Errors
    /// Returns the database's error.
    pub(crate) fn retain(&self, stays: impl Fn(&[u8]) -> bool) -> Result<usize> {
        let gone: Vec<(Box<[u8]>, i64)> = lock(&self.known)
            .iter()
            .filter(|(name, _)| !stays(name))
            .map(|(name, known)| (name.clone(), known.id))
            .collect();
        let mut writer = lock(&self.writer);
        let Some(connection) = writer.as_mut() else {
            return Ok(0);
        };
        for (name, id) in &gone {
            let change = connection.transaction()?;
            remove(&change, *id)?;
            change.commit()?;
            lock(&self.known).remove(name);
        }
        Ok(gone.len())
    }

    /// Makes the space of removed texts available to others.
    ///
    /// # Errors
    /// Returns the database's error.
    pub(crate) fn compact(&self) -> Result<()> {
        if let Some(connection) = lock(&self.writer).as_ref() {
            connection.execute("INSERT INTO grams (grams) VALUES ('optimize')", [])?;
        }
        Ok(())
    }

    /// Returns the chunks that may contain `text`, or `None` if the text is too short for the index.
    ///
    /// # Errors
    /// Returns the database's error.
    pub(crate) fn candidates(&self, text: &str) -> Result<Option<Candidates>> {
        let wanted = trigrams(text);
        if wanted.is_empty() {
            return Ok(None);
        }
        self.read(|Reader { connection, .. }| {
            let newest = "SELECT ifnull(max(id), 0) FROM owners";
            let mut found = Candidates {
                newest: connection.query_row(newest, [], |row| row.get(0))?,
                ..Candidates::default()
            };
            let mut statement =
                connection.prepare("SELECT rowid FROM grams WHERE grams MATCH ?")?;
            let mut rows = statement.query([wanted.join(" AND ")])?;
            while let Some(row) = rows.next()? {
                found.chunks.push(row.get(0)?);
            }
            // They usually are.
            if !found.chunks.is_sorted() {
                found.chunks.sort_unstable();
            }
            Ok(Some(found))
        })
    }

    /// Returns whether the texts of `owner` are those of this version, and whether one of them may be in the chunks of
    /// `candidates`. Without any, each owner may have one.
    pub(crate) fn holds(
        &self,
        owner: &[u8],
        version: u64,
        candidates: Option<&Candidates>,
    ) -> Holds {
        let known = lock(&self.known);
        let Some(known) = known.get(owner).filter(|known| known.version == version) else {
            return Holds::Nothing;
        };
        match candidates.and_then(|found| found.of(known.id)) {
            Some([]) => Holds::None,
            _ => Holds::Some,
        }
    }

    /// Calls `each` with the texts of `owner` in the chunks of `candidates`, or with all of its texts without
    /// any, until it returns false.
    ///
    /// # Errors
    /// Returns the database's error. A chunk that can't be read is one.
    pub(crate) fn texts(
        &self,
        owner: &[u8],
        candidates: Option<&Candidates>,
        each: &mut dyn FnMut(Text<'_>) -> bool,
    ) -> Result<()> {
        let id = lock(&self.known).get(owner).map(|known| known.id);
        let Some(id) = id else {
            return Ok(());
        };
        let chunks = candidates.and_then(|found| found.of(id));
        // Most owners have no candidates.
        if chunks.is_some_and(<[i64]>::is_empty) {
            return Ok(());
        }
        self.read(|Reader { connection, chunk }| {
            // Otherwise, each chunk would be read in a transaction of its own.
            let _reading = connection.unchecked_transaction()?;
            let mut one = |row: &Row<'_>| -> Result<bool> {
                let body = row.get_ref(0)?.as_blob().map_err(rusqlite::Error::from)?;
                unpack(body, chunk)?;
                all(chunk, each)
            };
            let Some(chunks) = chunks else {
                let mut statement = connection
                    .prepare("SELECT body FROM chunks WHERE id BETWEEN ? AND ? ORDER BY id")?;
                let mut rows = statement.query([id << CHUNK_BITS, ((id + 1) << CHUNK_BITS) - 1])?;
                while let Some(row) = rows.next()? {
                    if !one(row)? {
                        break;
                    }
                }
                return Ok(());
            };
            let mut statement = connection.prepare("SELECT body FROM chunks WHERE id = ?")?;
            for chunk in chunks {
                let mut rows = statement.query([chunk])?;
                // They may have been replaced since.
                let Some(row) = rows.next()? else {
                    return Err(Fault::Unusable(
                        "its texts were replaced during the search".to_owned(),
                    ));
                };
                if !one(row)? {
                    break;
                }
            }
            Ok(())
        })
    }

    /// Runs `work` with a connection that only reads.
    fn read<T>(&self, work: impl FnOnce(&mut Reader) -> Result<T>) -> Result<T> {
        let idle = lock(&self.readers).pop();
        let mut reader = match idle {
            Some(reader) => reader,
            None => {
                let flags = OpenFlags::SQLITE_OPEN_READ_ONLY
                    | OpenFlags::SQLITE_OPEN_NO_MUTEX
                    | OpenFlags::SQLITE_OPEN_NOFOLLOW;
                let connection = Connection::open_with_flags(&self.path, flags)?;
                set_up(&connection)?;
                Reader {
                    connection,
                    chunk: Vec::new(),
                }
            }
        };
        let done = work(&mut reader);
        match &done {
            Err(Fault::Sqlite(error)) if is_damage(error) => {
                let mut writer = lock(&self.writer);
                *writer = None;
                *writer = Some(self.replace()?);
            }
            _ => lock(&self.readers).push(reader),
        }
        done
    }
}

/// Collects texts into chunks.
struct Chunks<'a> {
    change: &'a Connection,
    max_bytes: u64,
    /// The id of the first chunk, and the number of chunks.
    first: i64,
    count: i64,
    /// The texts of the next chunk: as they're stored, and as they're indexed.
    body: Vec<u8>,
    words: String,
    /// The size of the next chunk.
    bytes: usize,
    /// Why no more texts are taken.
    ended: Option<Ended>,
}

enum Ended {
    Failed(Fault),
    NoRoom,
}

impl Chunks<'_> {
    /// Adds a text. Returns false if no more are taken.
    fn add(&mut self, text: &Text<'_>) -> bool {
        let mut rest = text.text;
        loop {
            let (piece, after) = rest.split_at(rest.floor_char_boundary(PIECE_BYTES));
            self.bytes += piece.len() + text.label.len() + FIELDS_BYTES;
            let body = std::mem::take(&mut self.body);
            match postcard::to_extend(
                &Text {
                    text: piece,
                    ..*text
                },
                body,
            ) {
                Ok(body) => self.body = body,
                Err(error) => {
                    self.ended = Some(Ended::Failed(Fault::Unusable(error.to_string())));
                    return false;
                }
            }
            self.words.push_str(piece);
            self.words.push('\n');
            if self.bytes >= CHUNK_BYTES {
                self.flush();
            }
            if after.is_empty() || self.ended.is_some() {
                return self.ended.is_none();
            }
            let (_, overlap) = rest.split_at(rest.floor_char_boundary(piece.len() - OVERLAP_BYTES));
            rest = overlap;
        }
    }

    fn flush(&mut self) {
        if !self.body.is_empty() && self.ended.is_none() {
            match self.write() {
                Err(error) => self.ended = Some(Ended::Failed(error)),
                Ok(false) => self.ended = Some(Ended::NoRoom),
                Ok(true) => {}
            }
            self.count += 1;
        }
        self.body.clear();
        self.words.clear();
        self.bytes = 0;
    }

    /// Writes a chunk. Returns whether there is room for another one.
    fn write(&self) -> Result<bool> {
        let id = self.first + self.count;
        let mut insert = self
            .change
            .prepare("INSERT INTO grams (rowid, text) VALUES (?, ?)")?;
        insert.execute(params![id, self.words])?;
        let mut insert = self
            .change
            .prepare("INSERT INTO chunks (id, body) VALUES (?, ?)")?;
        insert.execute(params![
            id,
            lz4_flex::block::compress_prepend_size(&self.body)
        ])?;
        // Finding out the size takes about as long as writing a chunk.
        let is_due = self.count % CHECK_EVERY == CHECK_EVERY - 1;
        Ok(self.count + 1 < MAX_CHUNKS && !(is_due && size(self.change)? > self.max_bytes))
    }
}

/// Deletes the databases in `dir` that no board uses, and that weren't opened for a long time.
fn delete_unused(dir: &Path, own: &Path) {
    for file in fs::read_dir(dir).into_iter().flatten().flatten() {
        let path = file.path();
        let name = file.file_name();
        let name = name.to_string_lossy();
        let is_unused = || {
            let opened = file.metadata().ok()?.modified().ok()?;
            Some(opened.elapsed().ok()? > UNUSED)
        };
        if path == own
            || !name.starts_with(PREFIX)
            || !name.ends_with(ENDING)
            || is_unused() != Some(true)
        {
            continue;
        }
        let lock = cache_file::open(&path.with_extension("lock"), Access::Lock);
        if lock.is_ok_and(|lock| lock.try_lock().is_ok()) {
            delete(&path);
        }
    }
}

/// Deletes a database. What can't be deleted stays.
fn delete(path: &Path) {
    for ending in ["", "-wal", "-shm"] {
        let mut path = path.as_os_str().to_owned();
        path.push(ending);
        if let Err(error) = fs::remove_file(&path)
            && error.kind() != std::io::ErrorKind::NotFound
        {
            tracing::warn!("can't delete {}: {error}", path.display());
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn set_up(connection: &Connection) -> rusqlite::Result<()> {
    connection.busy_timeout(PATIENCE)?;
    connection.pragma_update(None, "temp_store", "memory")?;
    connection.pragma_update(None, "cache_size", -PAGE_CACHE_KIB)
}

fn load(connection: &Connection) -> rusqlite::Result<HashMap<Box<[u8]>, Known>> {
    let mut statement = connection.prepare("SELECT name, id, version FROM owners")?;
    let rows = statement.query_map([], |row| {
        let name: Vec<u8> = row.get(0)?;
        let version: i64 = row.get(2)?;
        Ok((
            name.into(),
            Known {
                id: row.get(1)?,
                version: version.cast_unsigned(),
            },
        ))
    })?;
    rows.collect()
}

fn remove(change: &Connection, id: i64) -> rusqlite::Result<()> {
    let range = [id << CHUNK_BITS, ((id + 1) << CHUNK_BITS) - 1];
    change.execute(
        "DELETE FROM grams WHERE rowid IN (SELECT id FROM chunks WHERE id BETWEEN ? AND ?)",
        range,
    )?;
    change.execute("DELETE FROM chunks WHERE id BETWEEN ? AND ?", range)?;
    change.execute("DELETE FROM owners WHERE id = ?", [id])?;
    Ok(())
}

/// Returns the bytes of the database in use.
fn size(connection: &Connection) -> rusqlite::Result<u64> {
    let number =
        |pragma: &str| connection.pragma_query_value(None, pragma, |row| row.get::<_, i64>(0));
    let pages = number("page_count")?.saturating_sub(number("freelist_count")?);
    let bytes = pages.saturating_mul(number("page_size")?);
    Ok(u64::try_from(bytes).unwrap_or_default())
}

/// Returns whether an error shows that the file isn't the database that board wrote.
fn is_damage(error: &rusqlite::Error) -> bool {
    matches!(
        error.sqlite_error_code(),
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase)
    )
}

/// Returns every three characters of `text` in a row, as terms of a query, or some of them if there are
/// many. SQLite's tokenizer ignores the case of all letters, which is never narrower than the search.
fn trigrams(text: &str) -> Vec<String> {
    let chars: Vec<char> = text.chars().collect();
    // The tokenizer skips NUL.
    let all: Vec<&[char]> = chars
        .windows(3)
        .filter(|three| !three.contains(&'\0'))
        .collect();
    let apart = all.len().div_ceil(MAX_TRIGRAMS).max(1);
    let term = |three: &&[char]| {
        let text: String = three.iter().collect();
        format!("\"{}\"", text.replace('"', "\"\""))
    };
    let mut terms: Vec<String> = all.iter().step_by(apart).map(term).collect();
    terms.sort_unstable();
    terms.dedup();
    terms
}

/// Unpacks a chunk into `texts`.
fn unpack(body: &[u8], texts: &mut Vec<u8>) -> Result<()> {
    let (size, packed) = lz4_flex::block::uncompressed_size(body).map_err(damaged)?;
    if size > MAX_UNPACKED_BYTES {
        return Err(damaged(format_args!("it would unpack to {size} bytes")));
    }
    texts.resize(size, 0);
    let size = lz4_flex::block::decompress_into(packed, texts).map_err(damaged)?;
    texts.truncate(size);
    Ok(())
}

/// Calls `each` with the texts of an unpacked chunk until it returns false. Returns whether it had all of them.
fn all(mut texts: &[u8], each: &mut dyn FnMut(Text<'_>) -> bool) -> Result<bool> {
    while !texts.is_empty() {
        let (text, rest) = postcard::take_from_bytes(texts).map_err(damaged)?;
        texts = rest;
        if !each(text) {
            return Ok(false);
        }
    }
    Ok(true)
}

fn damaged(why: impl std::fmt::Display) -> Fault {
    Fault::Unusable(format!("a chunk of the search index is damaged: {why}"))
}

#[cfg(test)]
mod tests;
