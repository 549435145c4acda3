//! Finds the runs in a file that holds several, and their offsets. The file is a JSON document, a
//! sequence of documents, a file of lines, a text with sections, or a zip archive. It's scanned
//! again whenever it changes. If the file is compressed as a whole, its text is scanned.
//!
//! Must not keep any content of a run. A run is identified by its name alone: its offset may differ
//! in each scan.

use std::collections::{BTreeMap, HashMap};
use std::ffi::OsString;
use std::fs::File;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use super::archive::{self, Entry};
use super::beneath::{Dir, Kind, refused};
use super::content::Content;
use super::frames;
use super::limits::MAX_MANIFEST_BYTES;
use super::lister::{self, LargeFile, Lister};
use super::patience::is_pending;
use super::patience::{Patience, is_lasting, pending};
use super::pieces::{self, Pieces};
use super::read_at::ReadAt;
use super::sections::{self, Section};
use super::stamp::Stamp;
use super::store::{self, RunRow, Seen};
use super::unpacked::{self, Unpacked};
use crate::format::{Lines, Rows, Sections, Several, Values};
use crate::model::InFile;
use crate::model::{Span, TraceFile};

/// How long to wait before a retry, if scanning the file failed for a reason that may be temporary.
const TRY_AGAIN_AFTER: Duration = Duration::from_secs(2);
/// Bytes read from the file at a time.
const PIECE_BYTES: usize = 256 << 10;
/// Maximum number of runs listed per file, plus one for each `BYTES_A_RUN` bytes of the file. Each run takes
/// about 1.7 KB of memory in board.
const MAX_RUNS: usize = 120_000;
const BYTES_A_RUN: u64 = 8_192;
/// A compressed file may take this many times as long to scan as another one of its size.
const PACKED_WEIGHT: u64 = 16;
/// Values longer than this many bytes aren't used in the name of a run.
const MAX_NAME_BYTES: usize = 200;

/// A file that holds several runs.
#[derive(Debug)]
pub(super) struct Holder {
    root: PathBuf,
    below: PathBuf,
    name: OsString,
    several: &'static Several,
    known: Mutex<Option<Arc<Listing>>>,
    /// Held during a scan, so that other threads wait for its outcome.
    looking: Mutex<()>,
    /// Why the last scan failed, and the stamp of the file at that time.
    failed: Mutex<Option<Failed>>,
    /// Scans the file in the background, if it is large and the caller must not wait.
    aside: OnceLock<Arc<Lister>>,
    rests_until: Mutex<Option<Instant>>,
}

#[derive(Debug, Clone)]
struct Failed {
    stamp: Stamp,
    at: Instant,
    kind: io::ErrorKind,
    reason: String,
}

/// The contents of a file at its last scan.
#[derive(Debug)]
pub(super) struct Listing {
    stamp: Stamp,
    /// Whether the file had been unchanged long enough that any later change shows in its stamp.
    settled: bool,
    runs: Sorted,
    /// Facts that apply to all runs.
    beside: Option<At>,
    /// Whether the archive contains the member that is written last.
    is_closed: bool,
    /// A problem of the file as a whole.
    pub(super) fault: Option<String>,
    /// Which connections to the database see these runs.
    seen: Option<Seen>,
}

/// The runs by name. There may be a hundred thousand, and a map takes twice the memory.
#[derive(Debug)]
struct Sorted(Box<[(Arc<str>, At)]>);

impl From<Runs> for Sorted {
    fn from(runs: Runs) -> Self {
        Self(runs.into_iter().collect())
    }
}

impl Sorted {
    fn get(&self, name: &str) -> Option<&At> {
        let found = self.0.binary_search_by(|(known, _)| (**known).cmp(name));
        self.0.get(found.ok()?).map(|(_, at)| at)
    }

    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// The position of something in the file.
#[derive(Debug, Clone)]
enum At {
    /// Bytes of the file, and the number of their first line.
    Bytes(Span, u64),
    /// The part of a JSON document before the runs, and its length in bytes.
    Before(u64),
    /// A member of an archive, and its name there.
    Packed(Entry, Arc<str>),
    /// A line of the file: its bytes, its number, and a hash of its content.
    Line(Span, u64, u64),
    /// Values in several places of the file.
    Apart(Pieces),
    /// A text that is made from other records.
    Made(Made),
}

/// The records from which a run's document is made.
#[derive(Debug, Clone, Copy)]
enum Made {
    /// Rows of a database.
    Rows(RunRow),
    /// A section of a text.
    Section(Section),
}

impl Made {
    /// Returns a hash of the records. It changes with them.
    fn version(self) -> u64 {
        match self {
            Self::Rows(row) => row.version,
            Self::Section(section) => section.print,
        }
    }
}

/// One run of a file, or the file itself if it holds none.
#[derive(Debug, Clone)]
pub(super) struct Member {
    holder: Arc<Holder>,
    name: Option<Arc<str>>,
}

/// A document opened at its start.
pub(super) struct Opened {
    pub(super) input: Box<dyn Read + Send>,
    pub(super) stamp: Stamp,
    /// Its offset in the file, and the number of lines before it.
    pub(super) start: (u64, u64),
    /// The offset of its end.
    pub(super) end: u64,
    /// Whether its container marks the document as complete.
    pub(super) is_closed: bool,
}

impl Listing {
    /// Returns the problem of the file, if the run that is being read may be affected. The rows of a
    /// database that can't be read belong to others.
    fn fault_of_runs(&self) -> Option<&String> {
        self.fault.as_ref().filter(|_| self.seen.is_none())
    }

    /// Returns the runs by name. `None` is the file itself, which contains no run but is worth
    /// listing.
    pub(super) fn members(&self) -> Vec<Option<Arc<str>>> {
        if self.runs.is_empty() && self.beside.is_some() {
            return vec![None];
        }
        self.runs
            .0
            .iter()
            .map(|(name, _)| Some(Arc::clone(name)))
            .collect()
    }
}

impl Holder {
    pub(super) fn new(
        root: PathBuf,
        below: PathBuf,
        name: OsString,
        several: &'static Several,
    ) -> Self {
        Self {
            root,
            below,
            name,
            several,
            known: Mutex::default(),
            looking: Mutex::default(),
            failed: Mutex::default(),
            aside: OnceLock::new(),
            rests_until: Mutex::default(),
        }
    }

    /// Makes `lister` scan the file if it is large.
    pub(super) fn look_aside(&self, lister: &Arc<Lister>) {
        self.aside.get_or_init(|| Arc::clone(lister));
    }

    /// Returns the current contents of the file. While a large file is being scanned again, returns
    /// its previous contents.
    ///
    /// # Errors
    /// Fails if the file doesn't exist or can't be read. Returns a would-block error during the
    /// first scan of a large file.
    pub(super) fn listing(self: &Arc<Self>) -> io::Result<Arc<Listing>> {
        let dir = Dir::open(&self.root, &self.below)?;
        let (_, stamp) = self.look(&dir)?;
        if let Some(known) = self.known(stamp) {
            return Ok(known);
        }
        self.check_failed(stamp)?;
        match self.lister_for(stamp) {
            Some(lister) => {
                lister.ask(Arc::<Self>::clone(self));
                self.last_listing().ok_or_else(is_being_looked_through)
            }
            None => Ok(self.opened(Patience::Wait)?.1),
        }
    }

    /// Returns the type of the file, and its stamp with that of its newest rows.
    fn look(&self, dir: &Dir) -> io::Result<(Kind, Stamp)> {
        if self.several.rows.is_some() {
            store::stamp(dir, &self.name)
        } else {
            dir.look(&self.name)
        }
    }

    /// Opens the file.
    ///
    /// # Errors
    /// Fails if it isn't a regular file, or the system reports an error.
    fn file(&self) -> io::Result<(File, Stamp)> {
        let dir = Dir::open(&self.root, &self.below)?;
        // Rows that are written after this show in the next stamp.
        let whole = self.several.rows.map(|_| self.look(&dir)).transpose()?;
        let (file, stamp) = dir.file(&self.name)?;
        Ok((file, whole.map_or(stamp, |(_, whole)| whole)))
    }

    /// Returns the place of the database.
    fn store(&self) -> store::Place {
        store::Place::of(&self.root, &self.below, &self.name)
    }

    /// Returns whether the file is large and changed. If so, the lister scans it again.
    fn is_being_listed(self: &Arc<Self>) -> bool {
        self.opened(Patience::Now)
            .is_err_and(|error| is_pending(&error))
    }

    /// Returns the lister that scans the file, if a file with this stamp takes too long for the
    /// caller.
    fn lister_for(&self, stamp: Stamp) -> Option<&Arc<Lister>> {
        let weight = if frames::is_packed(&self.name) {
            PACKED_WEIGHT
        } else {
            1
        };
        self.aside
            .get()
            .filter(|_| stamp.size.saturating_mul(weight) > lister::SMALL_BYTES)
    }

    /// Returns the content of the opened file, and its size in bytes.
    ///
    /// # Errors
    /// Fails if a compressed file can't be decompressed. Returns a would-block error while it's
    /// being decompressed, unless the caller waits.
    fn content(&self, file: File, stamp: Stamp, patience: Patience) -> io::Result<(Content, u64)> {
        if frames::is_packed(&self.name) {
            let (text, stamp) = frames::open(file, stamp, patience)?;
            return Ok((text, stamp.size));
        }
        Ok((Content::File(file), stamp.size))
    }

    /// Returns the contents at the last scan.
    pub(super) fn last_listing(&self) -> Option<Arc<Listing>> {
        self.known
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Returns the contents at the last scan, if the file hasn't changed since.
    fn known(&self, stamp: Stamp) -> Option<Arc<Listing>> {
        self.last_listing()
            .filter(|known| known.stamp == stamp && (known.settled || !stamp.is_settled()))
    }

    /// Returns the error of the last scan, if the file hasn't changed since.
    fn check_failed(&self, stamp: Stamp) -> io::Result<()> {
        let failed = self
            .failed
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        match failed {
            Some(Failed {
                stamp: seen,
                at,
                kind,
                reason,
            }) if seen == stamp => {
                let error = io::Error::new(kind, reason);
                if is_lasting(&error) || at.elapsed() < TRY_AGAIN_AFTER {
                    Err(error)
                } else {
                    Ok(())
                }
            }
            _ => Ok(()),
        }
    }

    /// Opens the file and returns its contents.
    ///
    /// # Errors
    /// Fails like [`Self::listing`]. Returns a would-block error while a large file is being
    /// scanned or decompressed, unless the caller waits.
    fn opened(self: &Arc<Self>, patience: Patience) -> io::Result<(Content, Arc<Listing>)> {
        if patience == Patience::Now {
            let (file, stamp) = self.file()?;
            if let Some(listing) = self.known(stamp) {
                return Ok((self.content(file, stamp, patience)?.0, listing));
            }
            if let Some(lister) = self.lister_for(stamp) {
                self.check_failed(stamp)?;
                lister.ask(Arc::<Self>::clone(self));
                return Err(is_being_looked_through());
            }
        }
        self.open_and_list()
    }

    fn open_and_list(&self) -> io::Result<(Content, Arc<Listing>)> {
        let _looking = self.looking.lock().unwrap_or_else(PoisonError::into_inner);
        let (file, stamp) = self.file()?;
        if let Some(listing) = self.known(stamp) {
            return Ok((self.content(file, stamp, Patience::Wait)?.0, listing));
        }
        let listed = self
            .content(file, stamp, Patience::Wait)
            .and_then(|(content, size)| {
                let listing = match self.several.rows {
                    Some(rows) => in_rows(&self.store(), rows, stamp)?,
                    None => list(&content, (stamp, size), self.several)?,
                };
                Ok((listing, content))
            });
        let failed = listed.as_ref().err().map(|error| Failed {
            stamp,
            at: Instant::now(),
            kind: error.kind(),
            reason: error.to_string(),
        });
        *self.failed.lock().unwrap_or_else(PoisonError::into_inner) = failed;
        let (listing, content) = listed?;
        let listing = Arc::new(listing);
        *self.known.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(&listing));
        Ok((content, listing))
    }
}

impl LargeFile for Holder {
    fn path(&self) -> PathBuf {
        self.root.join(&self.below).join(&self.name)
    }

    fn rests_until(&self) -> Option<Instant> {
        *self
            .rests_until
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn rest(&self, until: Option<Instant>) {
        *self
            .rests_until
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = until;
    }

    fn look_through(&self) {
        // The next caller gets the error.
        let _ = self.open_and_list();
    }
}

/// The error for a caller that doesn't wait.
fn is_being_looked_through() -> io::Error {
    pending("its runs are still being listed")
}

impl Member {
    pub(super) fn new(holder: Arc<Holder>, name: Option<Arc<str>>) -> Self {
        Self { holder, name }
    }

    /// Returns the run of that name. Without a name, returns the only run.
    pub(super) fn chosen(holder: Holder, name: Option<&str>) -> io::Result<Self> {
        let holder = Arc::new(holder);
        let listing = holder.listing()?;
        let names = listing.members();
        let said = |what: &str| {
            let shown: Vec<&str> = names
                .iter()
                .take(5)
                .map(|name| name.as_deref().unwrap_or_default())
                .collect();
            let more = if names.len() > shown.len() {
                ", …"
            } else {
                ""
            };
            let count = match names.len() {
                1 => "1 run".to_owned(),
                count => format!("{count} runs"),
            };
            let runs = format!("it contains {count}: {}{more}", shown.join(", "));
            let fault = listing
                .fault
                .as_ref()
                .map_or_else(String::new, |fault| format!("; {fault}"));
            io::Error::new(io::ErrorKind::NotFound, format!("{what}{runs}{fault}"))
        };
        let found = match name {
            // The name of an archive member is accepted too.
            Some(name) => names.iter().find(|known| {
                let member = (holder.several.member)(name).unwrap_or(name);
                known
                    .as_deref()
                    .is_some_and(|known| known == name || known == member)
            }),
            None => names.first().filter(|_| names.len() == 1),
        };
        match found {
            Some(found) => Ok(Self {
                name: found.clone(),
                holder,
            }),
            None if name.is_some() => Err(said("no run in the file has that name; ")),
            None => Err(said("")),
        }
    }

    /// Returns whether this is the file itself, which holds no run yet.
    pub(super) fn is_file(&self) -> bool {
        self.name.is_none()
    }

    /// Returns the name of the run in the file.
    pub(super) fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// Returns the path of the run. No file has this path.
    pub(super) fn path(&self) -> PathBuf {
        let mut path = self.file().into_os_string();
        if let Some(name) = &self.name {
            // A name is not a path. It may begin with a slash, and joining it would then replace
            // the path.
            path.push("/");
            path.push(&**name);
        }
        PathBuf::from(path)
    }

    /// Returns whether the run is in `file` and the lister scans that file again.
    pub(super) fn is_being_listed(&self, file: &Path) -> bool {
        self.file() == file && self.holder.is_being_listed()
    }

    /// Returns the path of the file that holds the run.
    pub(super) fn file(&self) -> PathBuf {
        self.holder.path()
    }

    /// Returns the path of one of the run's files, or of the file that contains it. An archive
    /// counts as a directory of its members.
    pub(super) fn place(&self, file: TraceFile) -> PathBuf {
        self.member_of(file).unwrap_or_else(|| self.file())
    }

    /// Returns the path of the records if they are a member of an archive.
    pub(super) fn packed(&self) -> Option<PathBuf> {
        self.member_of(TraceFile::Events)
    }

    /// Returns the name of the run in the file, and that of the archive's member with its records.
    pub(super) fn in_file(&self) -> Option<InFile> {
        let listing = self.holder.last_listing();
        let at = listing.and_then(|listing| self.at(&listing, TraceFile::Events).ok());
        let member = match at {
            Some(At::Packed(_, name)) => Some(name.to_string()),
            _ => None,
        };
        let name = self.name()?.to_owned();
        Some(InFile { name, member })
    }

    fn member_of(&self, file: TraceFile) -> Option<PathBuf> {
        let listing = self.holder.listing().ok()?;
        let At::Packed(_, name) = self.at(&listing, file).ok()? else {
            return None;
        };
        let mut path = self.file().into_os_string();
        path.push("/");
        path.push(&*name);
        Some(PathBuf::from(path))
    }

    /// Returns the problem of the file that holds the run, if the run may be affected.
    pub(super) fn fault(&self) -> Option<String> {
        self.holder.listing().ok()?.fault_of_runs().cloned()
    }

    /// Returns the time of the last change to the file that holds the run, or to the run's own rows.
    pub(super) fn modified(&self) -> Option<std::time::SystemTime> {
        let listing = self.holder.listing().ok()?;
        match self.at(&listing, TraceFile::Events) {
            Ok(At::Made(Made::Rows(row))) => row.written,
            // Only the last section may have changed.
            Ok(At::Made(Made::Section(section))) if !section.is_last => None,
            _ => listing.stamp.modified,
        }
    }

    /// Returns the size of the records as a document.
    pub(super) fn size(&self) -> Option<u64> {
        let listing = self.holder.listing().ok()?;
        match self.at(&listing, TraceFile::Events).ok()? {
            At::Made(made) => {
                let (opened, listing) = self.holder.opened(Patience::Wait).ok()?;
                let text = self.made(opened, &listing, made, Patience::Wait);
                Some(text.ok()?.len())
            }
            at => Some(self.stamp_of(&listing, &at).size),
        }
    }

    /// Returns a hash of the path of the file and the name of the run.
    fn place_in_rows(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        (self.holder.path(), &self.name).hash(&mut hasher);
        hasher.finish()
    }

    /// Makes the run's document, or returns it if it's kept. `opened` is the file with the records.
    fn made(
        &self,
        opened: Content,
        listing: &Listing,
        made: Made,
        patience: Patience,
    ) -> io::Result<Arc<Unpacked>> {
        let several = self.holder.several;
        let place = self.place_in_rows();
        let stamp = Stamp::of_rows(place, made.version());
        let input = || -> io::Result<Box<dyn Read + Send>> {
            match made {
                Made::Rows(_) => {
                    let (Some(rows), Some(name), Some(seen)) =
                        (several.rows, &self.name, listing.seen)
                    else {
                        return Err(refused("not a database"));
                    };
                    store::document(&self.holder.store(), rows, name, seen)
                }
                Made::Section(section) => {
                    let Some(sections) = several.sections else {
                        return Err(refused("not a text with sections"));
                    };
                    Ok(sections::document(opened, section.span, sections))
                }
            }
        };
        Unpacked::of_rows(place, stamp, patience, input)
    }

    fn stamp_of(&self, listing: &Listing, at: &At) -> Stamp {
        stamp_of(listing, at, || self.place_in_rows())
    }

    /// Finds the part of the file that corresponds to a separate file of other runs.
    fn at(&self, listing: &Listing, file: TraceFile) -> io::Result<At> {
        let at = match (file, &self.name) {
            (TraceFile::Manifest, _) => listing.beside.clone(),
            (TraceFile::Steps | TraceFile::Events, Some(name)) => listing.runs.get(name).cloned(),
            (TraceFile::Steps | TraceFile::Events, None) if listing.runs.is_empty() => None,
            // The file has gained runs by now, and each has a name.
            (TraceFile::Steps | TraceFile::Events, None) => {
                return Err(refused("the file contains several runs"));
            }
        };
        at.ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "the file has no such run"))
    }

    /// Returns whether the file holds the run.
    pub(super) fn is_there(&self) -> bool {
        let there = |listing: Arc<Listing>| match &self.name {
            Some(name) => listing.runs.get(name).is_some(),
            None => listing.runs.is_empty() && listing.beside.is_some(),
        };
        match self.holder.listing() {
            Ok(listing) => there(listing),
            Err(error) => !is_lasting(&error),
        }
    }

    /// Returns the stamp of one of the run's files. Equal bytes have equal stamps, even if members
    /// were added to the archive.
    pub(super) fn stat(&self, file: TraceFile) -> io::Result<Stamp> {
        let listing = self.holder.listing()?;
        Ok(self.stamp_of(&listing, &self.at(&listing, file)?))
    }

    /// Opens one of the run's files at its start.
    ///
    /// # Errors
    /// Fails if the file doesn't exist, or the system reports an error. Returns a would-block error
    /// while the file is being decompressed, unless `patience` allows waiting.
    pub(super) fn open(&self, file: TraceFile, patience: Patience) -> io::Result<Opened> {
        let (opened, listing) = self.holder.opened(patience)?;
        let at = self.at(&listing, file)?;
        let stamp = self.stamp_of(&listing, &at);
        let mut end = stamp.size;
        let is_closed = matches!(at, At::Packed(..));
        let (input, start): (Box<dyn Read + Send>, _) = match at {
            At::Bytes(span, line) | At::Line(span, line, _) => (
                Box::new(opened.from(span.offset).take(span.len)),
                (span.offset, line.saturating_sub(1)),
            ),
            At::Before(len) => (Box::new(io::Cursor::new(before(&opened, len)?)), (0, 0)),
            At::Packed(entry, _) => (
                unpacked::whole(opened.into_file()?, listing.stamp, entry, patience)?,
                (0, 0),
            ),
            At::Apart(pieces) => (
                Box::new(pieces.read(
                    opened,
                    Span {
                        offset: 0,
                        len: pieces.len(),
                    },
                )),
                (0, 0),
            ),
            At::Made(made) => {
                let text = self.made(opened, &listing, made, patience)?;
                end = text.len();
                let whole = Span {
                    offset: 0,
                    len: end,
                };
                (text.part(whole), (0, 0))
            }
        };
        Ok(Opened {
            input,
            stamp,
            start,
            end,
            is_closed,
        })
    }

    /// Decompresses the records, if they are compressed, for a caller that reads all of them and
    /// then parts again.
    pub(super) fn unpack(&self) {
        if let Ok((opened, listing)) = self.holder.opened(Patience::Wait)
            && let Ok(At::Packed(entry, _)) = self.at(&listing, TraceFile::Events)
        {
            // The reader reports errors.
            let _ = opened
                .into_file()
                .and_then(|file| Unpacked::of(file, listing.stamp, entry, Patience::Wait));
        }
    }

    /// Opens a span of one of the run's files, or all of it. Also returns the length in bytes.
    ///
    /// # Errors
    /// Fails if the file doesn't exist, the system reports an error, or the length exceeds `max`
    /// bytes. Returns a would-block error while the file is being decompressed, unless the caller
    /// waits.
    pub(super) fn span(
        &self,
        file: TraceFile,
        span: Option<Span>,
        (max, patience): (u64, Patience),
    ) -> io::Result<(Box<dyn Read + Send>, u64)> {
        let (opened, listing) = self.holder.opened(patience)?;
        let at = self.at(&listing, file)?;
        let whole = match &at {
            At::Bytes(whole, _) | At::Line(whole, ..) => *whole,
            At::Before(len) => Span {
                offset: 0,
                len: len + CLOSING.len() as u64,
            },
            At::Packed(entry, _) => Span {
                offset: 0,
                len: entry.size,
            },
            At::Apart(pieces) => Span {
                offset: 0,
                len: pieces.len(),
            },
            At::Made(made) => {
                let text = self.made(opened, &listing, *made, patience)?;
                let whole = Span {
                    offset: 0,
                    len: text.len(),
                };
                let span = span.unwrap_or(whole);
                check_within(span, whole, max)?;
                return Ok((text.part(span), span.len));
            }
        };
        let span = span.unwrap_or(whole);
        // Checked without decompressing.
        check_within(span, whole, max)?;
        let input: Box<dyn Read + Send> = match at {
            At::Bytes(..) | At::Line(..) => Box::new(opened.from(span.offset).take(span.len)),
            At::Before(len) => {
                let mut bytes = io::Cursor::new(before(&opened, len)?);
                bytes.set_position(span.offset);
                Box::new(bytes.take(span.len))
            }
            At::Packed(entry, _) => {
                Unpacked::of(opened.into_file()?, listing.stamp, entry, patience)?.part(span)
            }
            At::Apart(pieces) => Box::new(pieces.read(opened, span)),
            // Returned above.
            At::Made(_) => Box::new(io::empty()),
        };
        Ok((input, span.len))
    }
}

/// Checks that a span has at most `max` bytes and is inside `whole`.
pub(super) fn check_within(span: Span, whole: Span, max: u64) -> io::Result<()> {
    if span.len > max {
        return Err(io::Error::new(
            io::ErrorKind::FileTooLarge,
            format!("it has {} bytes, more than the limit of {max}", span.len),
        ));
    }
    let ends = whole.offset.saturating_add(whole.len);
    if span.offset < whole.offset || span.offset.saturating_add(span.len) > ends {
        return Err(io::Error::new(
            io::ErrorKind::UnexpectedEof,
            "the file was rewritten since it was indexed",
        ));
    }
    Ok(())
}

/// Closes a document whose runs are omitted.
const CLOSING: &[u8] = b"]}";

fn stamp_of(listing: &Listing, at: &At, place: impl FnOnce() -> u64) -> Stamp {
    let stamp = match at {
        At::Bytes(span, _) => listing
            .stamp
            .with_size(span.offset.saturating_add(span.len)),
        At::Before(len) => listing.stamp.with_size(*len),
        At::Packed(entry, _) => {
            let stamp = Stamp::of_bytes(entry.crc, entry.packed, entry.size);
            // The checksum covers the bytes as they should be. While members are still being added,
            // the others are not read again each time. Once the archive is closed, a change of the
            // file may affect any member.
            if listing.is_closed {
                stamp.within(listing.stamp)
            } else {
                stamp
            }
        }
        // Further lines may follow. As for other parts of a file, the size is the end of the line:
        // offsets count from the start of the file.
        At::Line(span, _, print) => Stamp::of_bytes(
            *print as u32,
            span.offset,
            span.offset.saturating_add(span.len),
        ),
        At::Apart(pieces) => pieces.stamp(),
        At::Made(made) => Stamp::of_rows(place(), made.version()),
    };
    with_fault(listing, stamp)
}

/// A problem of the file is reported for each run in it that it may affect, even if the run's own
/// bytes haven't changed.
fn with_fault(listing: &Listing, stamp: Stamp) -> Stamp {
    listing
        .fault_of_runs()
        .map_or(stamp, |fault| stamp.with_fault(fault))
}

/// Returns the part before the runs, as a document without runs.
fn before(file: &impl ReadAt, len: u64) -> io::Result<Vec<u8>> {
    if len > MAX_MANIFEST_BYTES {
        let what = format!(
            "the first run starts after {len} bytes, more than the limit of {MAX_MANIFEST_BYTES}"
        );
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, what));
    }
    let mut bytes = vec![0; usize::try_from(len).map_err(io::Error::other)?];
    file.read_exact_at(&mut bytes, 0)?;
    bytes.extend_from_slice(CLOSING);
    Ok(bytes)
}

/// Lists the runs of a database with this stamp.
fn in_rows(place: &store::Place, rows: &'static Rows, stamp: Stamp) -> io::Result<Listing> {
    let ((runs, fault, beyond), seen) = store::list(place, rows, most(stamp.size))?;
    let fault = with_too_many(fault, runs.len(), beyond);
    let runs = runs
        .into_iter()
        .map(|(name, row)| (name, At::Made(Made::Rows(row))));
    Ok(Listing {
        stamp,
        settled: stamp.is_settled(),
        runs: Sorted(runs.collect()),
        beside: None,
        is_closed: false,
        fault,
        seen: Some(seen),
    })
}

/// Scans the file. Its stamp is `stamp`, and its content has `size` bytes.
fn list(file: &Content, (stamp, size): (Stamp, u64), several: &Several) -> io::Result<Listing> {
    let listing = |runs: Sorted, beside, fault: Option<String>| Listing {
        stamp,
        settled: stamp.is_settled(),
        runs,
        beside,
        is_closed: false,
        // A text that ends early has an incomplete last line too.
        fault: file.fault().map(str::to_owned).or(fault),
        seen: None,
    };
    if let Some(apart) = several.apart {
        let (runs, fault) = pieces::list(file, apart, most(size))?;
        let runs = runs
            .into_iter()
            .map(|(name, pieces)| (name, At::Apart(pieces)))
            .collect();
        return Ok(listing(Sorted(runs), None, fault));
    }
    if let Some(sections) = several.sections {
        let (runs, fault) = in_sections(file, size, sections)?;
        return Ok(listing(runs.into(), None, fault));
    }
    if let Some(lines) = several.lines {
        let (runs, fault) = in_lines(file, size, several, lines)?;
        return Ok(listing(runs.into(), None, fault));
    }
    let mut start = [0; 4];
    let read = file.read_at(&mut start, 0)?;
    let is_archive = start
        .get(..read)
        .is_some_and(|start| start.starts_with(archive::MAGIC));
    let (runs, beside, fault) = match file {
        Content::File(file) if is_archive => in_archive(file, size, several)?,
        content => in_document(content, size, several)?,
    };
    let is_closed =
        matches!(&beside, Some(At::Packed(_, name)) if several.beside.first() == Some(&&**name));
    Ok(Listing {
        is_closed,
        ..listing(runs.into(), beside, fault)
    })
}

type RunsInFile = (BTreeMap<Arc<str>, At>, Option<At>, Option<String>);

fn in_archive(file: &File, size: u64, several: &Several) -> io::Result<RunsInFile> {
    let (entries, mut fault) = archive::entries(file, size)?;
    let (mut runs, mut beside) = (BTreeMap::new(), None);
    let (mut twice, mut beyond) = (0, 0);
    for (name, entry) in entries {
        if let Some(at) = several.beside.iter().position(|known| *known == name) {
            if beside.as_ref().is_none_or(|(best, _)| at <= *best) {
                beside = Some((at, At::Packed(entry, name.into())));
            }
        } else if let Some(run) = (several.member)(&name) {
            if runs.len() >= most(size) {
                beyond += 1;
                continue;
            }
            // If two members share a name, every archive reader uses the later one.
            twice += usize::from(
                runs.insert(shown(run), At::Packed(entry, name.as_str().into()))
                    .is_some(),
            );
        }
    }
    if twice > 0 {
        fault.get_or_insert_with(|| {
            format!("members with a duplicate name: {twice}; the last one of each name is shown")
        });
    }
    fault = with_too_many(fault, runs.len(), beyond);
    if runs.is_empty() && beside.is_none() {
        fault.get_or_insert_with(|| "the archive contains no runs".to_owned());
    }
    Ok((runs, beside.map(|(_, at)| at), fault))
}

/// The position of each run, by name.
type Runs = BTreeMap<Arc<str>, At>;

/// Adds runs under unique names.
struct Named {
    runs: Runs,
    /// The last number used for each name. Without this, runs that share a name would take
    /// quadratic time.
    copies: HashMap<String, usize>,
}

impl Named {
    fn add(&mut self, name: &str, at: At) {
        let copies: &mut usize = self.copies.entry(name.to_owned()).or_insert(1);
        let name = (*copies..).map(|copy| {
            (
                copy,
                if copy == 1 {
                    name.to_owned()
                } else {
                    format!("{name} ({copy})")
                },
            )
        });
        let mut free = name
            .map(|(copy, name)| (copy, shown(&name)))
            .filter(|(_, name)| !self.runs.contains_key(name));
        if let Some((copy, name)) = free.next() {
            *copies = copy + 1;
            self.runs.insert(name, at);
        }
    }
}

/// Scans a text whose sections are runs, in one pass.
fn in_sections(
    file: &Content,
    size: u64,
    sections: &Sections,
) -> io::Result<(Runs, Option<String>)> {
    let mut named = Named {
        runs: BTreeMap::new(),
        copies: HashMap::new(),
    };
    let mut beyond = 0;
    sections::list(file, sections, |name, section| {
        if named.runs.len() >= most(size) {
            beyond += 1;
        } else {
            named.add(name, At::Made(Made::Section(section)));
        }
    })?;
    let fault = with_too_many(None, named.runs.len(), beyond);
    Ok((named.runs, fault))
}

/// Scans a file whose lines are runs, in one pass. Keeps only the position of each line.
fn in_lines(
    file: &Content,
    size: u64,
    several: &Several,
    lines: &Lines,
) -> io::Result<(Runs, Option<String>)> {
    let mut named = Named {
        runs: BTreeMap::new(),
        copies: HashMap::new(),
    };
    let (mut others, mut beyond) = (0_usize, 0);
    let (mut at, mut line) = (0, LineUnderWay::new(several, 0, 1));
    let mut piece = vec![0; PIECE_BYTES];
    loop {
        let read = file.read_at(&mut piece, at)?;
        let bytes = piece.get(..read).unwrap_or_default();
        if bytes.is_empty() {
            break;
        }
        for part in bytes.split_inclusive(|byte| *byte == b'\n') {
            let text = part.strip_suffix(b"\n").unwrap_or(part);
            line.push(text);
            at += part.len() as u64;
            if text.len() < part.len() {
                let next = LineUnderWay::new(several, at, line.number + 1);
                let is_blank = line.is_blank;
                match std::mem::replace(&mut line, next).run(several) {
                    Some(_) if named.runs.len() >= most(size) => beyond += 1,
                    Some((name, run)) => named.add(&name, run),
                    None => others += usize::from(!is_blank),
                }
            }
        }
    }
    // The last line may still be incomplete.
    let is_open = !line.is_blank;
    let last = line.run(several);
    let is_torn = is_open && last.is_none();
    last.into_iter()
        .for_each(|(name, run)| named.add(&name, run));
    let what = lines.what;
    let fault = match (others, is_torn) {
        (0, false) => None,
        (0, true) => Some("its last line is incomplete".to_owned()),
        (1, _) => Some(format!("1 line isn't an {what}")),
        (others, _) => Some(format!("{others} lines aren't {what}s")),
    };
    let fault = with_too_many(fault, named.runs.len(), beyond);
    Ok((named.runs, fault))
}

/// A line while it is being read.
struct LineUnderWay {
    start: u64,
    len: u64,
    number: u64,
    values: Values,
    /// The values that name the run, in the order of their paths.
    names: Vec<Option<String>>,
    hasher: DefaultHasher,
    is_blank: bool,
}

impl LineUnderWay {
    fn new(several: &Several, start: u64, number: u64) -> Self {
        Self {
            start,
            len: 0,
            number,
            values: Values::new(several.named_by),
            names: vec![None; several.named_by.len()],
            hasher: DefaultHasher::new(),
            is_blank: true,
        }
    }

    fn push(&mut self, bytes: &[u8]) {
        self.len += bytes.len() as u64;
        self.is_blank &= bytes.iter().all(u8::is_ascii_whitespace);
        self.hasher.write(bytes);
        let names = &mut self.names;
        self.values.push(bytes, |found| {
            let text = found
                .bytes
                .filter(|bytes| bytes.len() <= MAX_NAME_BYTES)
                .unwrap_or_default();
            let text = String::from_utf8_lossy(text).into_owned();
            names
                .iter_mut()
                .skip(found.path)
                .take(1)
                .for_each(|name| *name = Some(text.clone()));
        });
    }

    /// Returns the run in the line, with its name. Returns `None` if the line isn't a run or is
    /// incomplete.
    fn run(self, several: &Several) -> Option<(String, At)> {
        let name = (several.name)(&self.names).filter(|_| self.values.is_whole())?;
        let span = Span {
            offset: self.start,
            len: self.len,
        };
        Some((name, At::Line(span, self.number, self.hasher.finish())))
    }
}

/// Scans a document in one pass for the position and the name of each run.
fn in_document(file: &Content, expected: u64, several: &Several) -> io::Result<RunsInFile> {
    let (mut places, mut names) = (
        Values::new(several.runs).places_only(),
        Values::new(several.named_by),
    );
    let mut spans: Vec<(Span, u64)> = Vec::new();
    let mut said: Vec<(u64, usize, String)> = Vec::new();
    let (most, mut beyond) = (most(expected), 0);
    let mut piece = vec![0; PIECE_BYTES];
    let mut size = 0;
    loop {
        let read = file.read_at(&mut piece, size)?;
        let bytes = piece.get(..read).unwrap_or_default();
        places.push(bytes, |found| match spans.len() < most {
            true => spans.push((found.span, found.line)),
            false => beyond += 1,
        });
        names.push(bytes, |found| {
            // Each run has only a few values in its name.
            if said.len() >= most * several.named_by.len().max(1) {
                return;
            }
            let text = found
                .bytes
                .filter(|bytes| bytes.len() <= MAX_NAME_BYTES)
                .unwrap_or_default();
            said.push((
                found.span.offset,
                found.path,
                String::from_utf8_lossy(text).into_owned(),
            ));
        });
        size += bytes.len() as u64;
        if bytes.len() < PIECE_BYTES {
            break;
        }
    }
    let fault = match (places.is_broken(), places.is_whole()) {
        (true, _) => Some("the file isn't a single JSON document".to_owned()),
        (false, true) => None,
        (false, false) => Some(format!("the document is truncated after {size} bytes")),
    };
    let fault = with_too_many(fault, spans.len(), beyond);
    // A truncated run is listed too, up to the end of the file.
    spans.extend(places.under_way().map(|(offset, line)| {
        (
            Span {
                offset,
                len: size - offset,
            },
            line,
        )
    }));
    let mut said = said.into_iter().peekable();
    let first = spans.first().map(|(span, _)| span.offset);
    let mut named = Named {
        runs: BTreeMap::new(),
        copies: HashMap::new(),
    };
    for (nth, (span, line)) in spans.into_iter().enumerate() {
        let mut values = vec![None; several.named_by.len()];
        while let Some((_, path, text)) =
            said.next_if(|(offset, ..)| *offset < span.offset + span.len)
        {
            values
                .iter_mut()
                .skip(path)
                .take(1)
                .for_each(|value| *value = Some(text.clone()));
        }
        let name = (several.name)(&values).unwrap_or_else(|| format!("run {}", nth + 1));
        named.add(&name, At::Bytes(span, line));
    }
    // Without runs, the whole document applies to the runs that may be added later.
    let alone = several.is_run_alone.then_some(At::Bytes(
        Span {
            offset: 0,
            len: size,
        },
        1,
    ));
    Ok((named.runs, first.map(At::Before).or(alone), fault))
}

/// Returns how many runs are listed for a file of this size.
fn most(size: u64) -> usize {
    MAX_RUNS.saturating_add(usize::try_from(size / BYTES_A_RUN).unwrap_or(usize::MAX))
}

/// Adds to the issue of a file that it contains more runs than are listed, if it does.
fn with_too_many(fault: Option<String>, listed: usize, beyond: usize) -> Option<String> {
    let all = listed + beyond;
    let rest = (beyond > 0)
        .then(|| format!("the file contains {all} runs; only the first {listed} are listed"));
    let both: Vec<String> = fault.into_iter().chain(rest).collect();
    (!both.is_empty()).then(|| both.join("; "))
}

/// Returns the name of a run for display and for its key.
fn shown(name: &str) -> Arc<str> {
    if name.is_empty() {
        "run".into()
    } else {
        name.into()
    }
}

/// Splits a path that ends in the name of a run into the path of the file and that name.
pub(super) fn split(path: &Path) -> Option<(PathBuf, String)> {
    let file = path.ancestors().skip(1).find(|part| part.is_file())?;
    let rest = path
        .as_os_str()
        .as_encoded_bytes()
        .get(file.as_os_str().len()..)?;
    let name = std::str::from_utf8(rest).ok()?.strip_prefix('/')?;
    Some((file.to_owned(), name.to_owned()))
}
