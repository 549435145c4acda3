//! Which runs does one file hold, and where in it? A JSON document or a zip archive; what it holds is looked up again
//! whenever the file changed.
//!
//! Nothing here is kept of what a run says. A run is known by its name alone: where it lies may be another place each time.

use std::collections::{BTreeMap, HashMap};
use std::ffi::OsString;
use std::fs::File;
use std::hash::{DefaultHasher, Hasher as _};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use super::archive::{self, Entry};
use super::beneath::{Dir, refused};
use super::content::{Patience, ReadAt as _, is_lasting, pending};
use super::lister::{self, Lister};
use super::manifest::MAX_MANIFEST_BYTES;
use super::pieces::{self, Pieces};
use super::stamp::Stamp;
use super::unpacked::{self, Unpacked};
use crate::format::{Lines, Several, Values};
use crate::model::{Span, TraceFile};

/// A file that could not be looked through for a reason that may pass is tried again after this long.
const TRY_AGAIN_AFTER: Duration = Duration::from_secs(2);
/// Read at a time.
const PIECE_BYTES: usize = 256 << 10;
/// At most so many runs of a file are listed, and one more for each so many bytes of it: each takes some 2 KB on the board.
const MAX_RUNS: usize = 120_000;
const BYTES_A_RUN: u64 = 1_024;
/// No longer value is taken for a part of a run's name.
const MAX_NAME_BYTES: usize = 200;

/// What an archive begins with: the header of its first member.
pub(super) const ARCHIVE_MAGIC: &[u8] = b"PK\x03\x04";

/// A file that holds several runs.
#[derive(Debug)]
pub(super) struct Holder {
    root: PathBuf,
    below: PathBuf,
    name: OsString,
    several: &'static Several,
    known: Mutex<Option<Arc<Listing>>>,
    /// Held while the file is looked through: whoever waits for that finds the outcome.
    looking: Mutex<()>,
    /// Why the file could not be looked through, and what it looked like then.
    failed: Mutex<Option<Failed>>,
    /// Who looks the file through where the one who asks must not wait.
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

/// What a file held when it was looked through.
#[derive(Debug)]
pub(super) struct Listing {
    stamp: Stamp,
    /// The time of the file was old enough that a later change shows in its stamp.
    settled: bool,
    runs: BTreeMap<Arc<str>, At>,
    /// What is said of all runs.
    beside: Option<At>,
    /// The member is there that is added to an archive last.
    is_closed: bool,
    /// What is wrong with the file as a whole.
    pub(super) fault: Option<String>,
}

/// Where something lies.
#[derive(Debug, Clone)]
enum At {
    /// Bytes of the file; the first is on this line.
    Bytes(Span, u64),
    /// What stands before the runs of a JSON document; so many bytes.
    Before(u64),
    /// A member of an archive, and its name there.
    Packed(Entry, Arc<str>),
    /// A line of the file: its bytes, its number, and a print of what it says.
    Line(Span, u64, u64),
    /// Values of the file that lie apart.
    Apart(Pieces),
}

/// One run of a file, or the file itself where it holds none.
#[derive(Debug, Clone)]
pub(super) struct Member {
    holder: Arc<Holder>,
    name: Option<Arc<str>>,
}

/// A document that is read from its start.
pub(super) struct Opened {
    pub(super) input: Box<dyn Read + Send>,
    pub(super) stamp: Stamp,
    /// Where in its file it begins, and how many line ends are before it.
    pub(super) start: (u64, u64),
    /// All that there will be of it is there, by the word of what holds it.
    pub(super) is_closed: bool,
}

impl Listing {
    /// The runs by their names. `None` stands for the file itself: it holds no run, and tells of something all the same.
    pub(super) fn members(&self) -> Vec<Option<Arc<str>>> {
        if self.runs.is_empty() && self.beside.is_some() {
            return vec![None];
        }
        self.runs.keys().cloned().map(Some).collect()
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

    /// Has a large file looked through by `lister` from now on.
    pub(super) fn look_aside(&self, lister: &Arc<Lister>) {
        self.aside.get_or_init(|| Arc::clone(lister));
    }

    pub(super) fn path(&self) -> PathBuf {
        self.root.join(&self.below).join(&self.name)
    }

    /// When a file that takes long is looked through again at the earliest.
    pub(super) fn rests_until(&self) -> Option<Instant> {
        *self
            .rests_until
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn rest(&self, until: Option<Instant>) {
        *self
            .rests_until
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = until;
    }

    /// What the file holds now; what it held before while a large file is being looked through again.
    ///
    /// # Errors
    /// It is not there, or cannot be read. Would block while a large file is looked through for the first time.
    pub(super) fn listing(self: &Arc<Self>) -> io::Result<Arc<Listing>> {
        let dir = Dir::open(&self.root, &self.below)?;
        let (_, stamp) = dir.look(&self.name)?;
        if let Some(known) = self.known(stamp) {
            return Ok(known);
        }
        self.check_failed(stamp)?;
        match self.lister_for(stamp) {
            Some(lister) => {
                lister.ask(self);
                self.last_listing().ok_or_else(is_being_looked_through)
            }
            None => Ok(self.opened(Patience::Wait)?.1),
        }
    }

    /// Whether the lister is looking the file through again, or is about to.
    #[cfg(feature = "board")]
    fn is_being_listed(self: &Arc<Self>) -> bool {
        let look = Dir::open(&self.root, &self.below).and_then(|dir| dir.look(&self.name));
        let changed = look.ok().map(|(_, stamp)| stamp);
        let changed = changed.filter(|stamp| self.known(*stamp).is_none());
        let changed = changed.filter(|stamp| self.check_failed(*stamp).is_ok());
        let lister = changed.and_then(|stamp| self.lister_for(stamp));
        lister.inspect(|lister| lister.ask(self)).is_some()
    }

    /// Who looks a file through that looks like `stamp`, where that takes too long for the one who asks.
    fn lister_for(&self, stamp: Stamp) -> Option<&Arc<Lister>> {
        self.aside
            .get()
            .filter(|_| stamp.size > lister::SMALL_BYTES)
    }

    /// Returns what it held when it was read last.
    pub(super) fn last_listing(&self) -> Option<Arc<Listing>> {
        self.known
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// What it held, where it still looks like that.
    fn known(&self, stamp: Stamp) -> Option<Arc<Listing>> {
        self.last_listing()
            .filter(|known| known.stamp == stamp && (known.settled || !stamp.is_settled()))
    }

    /// Looks the file through where it is not what it was.
    pub(super) fn look_through(&self) {
        // Whoever asks next is told of an error.
        let _ = self.open_and_list();
    }

    /// The error of the last look, where the file still looks like it did then.
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

    /// The file, with what it holds.
    ///
    /// # Errors
    /// As [`Self::listing`]. Would block while a large file is being looked through, unless the caller waits.
    fn opened(self: &Arc<Self>, patience: Patience) -> io::Result<(File, Arc<Listing>)> {
        if patience == Patience::Now {
            let (file, stamp) = Dir::open(&self.root, &self.below)?.file(&self.name)?;
            if let Some(listing) = self.known(stamp) {
                return Ok((file, listing));
            }
            if let Some(lister) = self.lister_for(stamp) {
                self.check_failed(stamp)?;
                lister.ask(self);
                return Err(is_being_looked_through());
            }
        }
        self.open_and_list()
    }

    fn open_and_list(&self) -> io::Result<(File, Arc<Listing>)> {
        let _looking = self.looking.lock().unwrap_or_else(PoisonError::into_inner);
        let (file, stamp) = Dir::open(&self.root, &self.below)?.file(&self.name)?;
        if let Some(listing) = self.known(stamp) {
            return Ok((file, listing));
        }
        let listed = list(&file, stamp, self.several);
        let failed = listed.as_ref().err().map(|error| Failed {
            stamp,
            at: Instant::now(),
            kind: error.kind(),
            reason: error.to_string(),
        });
        *self.failed.lock().unwrap_or_else(PoisonError::into_inner) = failed;
        let listing = Arc::new(listed?);
        *self.known.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(&listing));
        Ok((file, listing))
    }
}

/// The error of who doesn't wait.
fn is_being_looked_through() -> io::Error {
    pending("its runs are being looked up")
}

impl Member {
    pub(super) fn new(holder: Arc<Holder>, name: Option<Arc<str>>) -> Self {
        Self { holder, name }
    }

    /// The run of that name; the only one where none is given.
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
                ", .."
            } else {
                ""
            };
            let runs = format!("it holds {} runs: {}{more}", names.len(), shown.join(", "));
            let fault = listing
                .fault
                .as_ref()
                .map_or_else(String::new, |fault| format!("; {fault}"));
            io::Error::new(io::ErrorKind::NotFound, format!("{what}{runs}{fault}"))
        };
        let found = match name {
            // Its name as a member of the archive will do as well.
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
            None if name.is_some() => Err(said("no run of that name is in the file; ")),
            None => Err(said("")),
        }
    }

    /// Whether it is the file itself, which holds no run yet.
    pub(super) fn is_file(&self) -> bool {
        self.name.is_none()
    }

    /// Its name in the file.
    #[cfg(feature = "board")]
    pub(super) fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// The path of the run: no file has it.
    pub(super) fn path(&self) -> PathBuf {
        let mut path = self.file().into_os_string();
        if let Some(name) = &self.name {
            // A name is no path: it may begin with a slash, which joined to one would replace it.
            path.push("/");
            path.push(&**name);
        }
        PathBuf::from(path)
    }

    /// Whether `file` holds it and is being looked through again.
    #[cfg(feature = "board")]
    pub(super) fn is_being_listed(&self, file: &Path) -> bool {
        self.file() == file && self.holder.is_being_listed()
    }

    /// The path of the file that holds it.
    pub(super) fn file(&self) -> PathBuf {
        self.holder.path()
    }

    /// The file that one of its files is, or lies in: a member of an archive as if that were a directory.
    pub(super) fn place(&self, file: TraceFile) -> PathBuf {
        self.member_of(file).unwrap_or_else(|| self.file())
    }

    /// The place of its records, where that is a member of an archive.
    pub(super) fn packed(&self) -> Option<PathBuf> {
        self.member_of(TraceFile::Events)
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

    /// What is wrong with the file that holds it.
    pub(super) fn fault(&self) -> Option<String> {
        self.holder.listing().ok()?.fault.clone()
    }

    /// When the file that holds it was written.
    pub(super) fn modified(&self) -> Option<std::time::SystemTime> {
        self.holder.listing().ok()?.stamp.modified
    }

    /// Where one of the files is that a run has elsewhere.
    fn at(&self, listing: &Listing, file: TraceFile) -> io::Result<At> {
        let at = match (file, &self.name) {
            (TraceFile::Manifest, _) => listing.beside.clone(),
            (TraceFile::Steps | TraceFile::Events, Some(name)) => listing.runs.get(name).cloned(),
            (TraceFile::Steps | TraceFile::Events, None) if listing.runs.is_empty() => None,
            // The file holds runs by now, each with a name.
            (TraceFile::Steps | TraceFile::Events, None) => {
                return Err(refused("the file holds several runs"));
            }
        };
        at.ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "the file holds no such run"))
    }

    /// Whether the file holds it.
    pub(super) fn is_there(&self) -> bool {
        let there = |listing: Arc<Listing>| match &self.name {
            Some(name) => listing.runs.contains_key(name),
            None => listing.runs.is_empty() && listing.beside.is_some(),
        };
        match self.holder.listing() {
            Ok(listing) => there(listing),
            Err(error) => !is_lasting(&error),
        }
    }

    /// What one of its files looks like: equal where its bytes are, whatever is added to an archive.
    pub(super) fn stat(&self, file: TraceFile) -> io::Result<Stamp> {
        let listing = self.holder.listing()?;
        Ok(stamp_of(&listing, &self.at(&listing, file)?))
    }

    /// Opens one of its files at its start.
    ///
    /// # Errors
    /// Not there; what the system says; would block where it is being unpacked and `patience` is none.
    pub(super) fn open(&self, file: TraceFile, patience: Patience) -> io::Result<Opened> {
        let (opened, listing) = self.holder.opened(patience)?;
        let at = self.at(&listing, file)?;
        let stamp = stamp_of(&listing, &at);
        let is_closed = matches!(at, At::Packed(..));
        let (input, start): (Box<dyn Read + Send>, _) = match at {
            At::Bytes(span, line) | At::Line(span, line, _) => (
                Box::new(bytes_of(opened, span)?),
                (span.offset, line.saturating_sub(1)),
            ),
            At::Before(len) => (Box::new(io::Cursor::new(before(&opened, len)?)), (0, 0)),
            At::Packed(entry, _) => (
                unpacked::whole(opened, listing.stamp, entry, patience)?,
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
        };
        Ok(Opened {
            input,
            stamp,
            start,
            is_closed,
        })
    }

    /// Unpacks its records for whoever reads them and then parts of them, where they are packed.
    #[cfg(feature = "board")]
    pub(super) fn unpack(&self) {
        if let Ok((opened, listing)) = self.holder.opened(Patience::Wait)
            && let Ok(At::Packed(entry, _)) = self.at(&listing, TraceFile::Events)
        {
            // What is wrong with it is told by who reads it.
            let _ = Unpacked::of(opened, listing.stamp, entry, Patience::Wait);
        }
    }

    /// Some bytes of one of its files, or all of them, and how many they are.
    ///
    /// # Errors
    /// Not there; what the system says; more than `max` bytes. Would block while it is being unpacked, unless the caller waits.
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
        };
        let span = span.unwrap_or(whole);
        if span.len > max {
            // Nothing is unpacked to find that out.
            return Err(io::Error::new(
                io::ErrorKind::FileTooLarge,
                format!("{} bytes, more than {max}", span.len),
            ));
        }
        let ends = whole.offset.saturating_add(whole.len);
        if span.offset < whole.offset || span.offset.saturating_add(span.len) > ends {
            return Err(io::Error::new(
                io::ErrorKind::UnexpectedEof,
                "the file was written anew since it was indexed",
            ));
        }
        let input: Box<dyn Read + Send> = match at {
            At::Bytes(..) | At::Line(..) => Box::new(bytes_of(opened, span)?),
            At::Before(len) => {
                let mut bytes = io::Cursor::new(before(&opened, len)?);
                bytes.set_position(span.offset);
                Box::new(bytes.take(span.len))
            }
            At::Packed(entry, _) => {
                Unpacked::of(opened, listing.stamp, entry, patience)?.part(span)
            }
            At::Apart(pieces) => Box::new(pieces.read(opened, span)),
        };
        Ok((input, span.len))
    }
}

/// What closes a document whose runs are left out.
const CLOSING: &[u8] = b"]}";

fn stamp_of(listing: &Listing, at: &At) -> Stamp {
    let stamp = match at {
        At::Bytes(span, _) => listing
            .stamp
            .with_size(span.offset.saturating_add(span.len)),
        At::Before(len) => listing.stamp.with_size(*len),
        At::Packed(entry, _) => {
            let stamp = Stamp::of_bytes(entry.crc, entry.packed, entry.size);
            // The checksum is of the bytes that should be there. As long as members are added the others are not read again
            // for it; once nobody adds any, a change of the file may be one of any of them.
            if listing.is_closed {
                stamp.within(listing.stamp)
            } else {
                stamp
            }
        }
        // Lines are added behind it. As for other parts of a file, the size is where it ends: places count from the start
        // of the file.
        At::Line(span, _, print) => Stamp::of_bytes(
            *print as u32,
            span.offset,
            span.offset.saturating_add(span.len),
        ),
        At::Apart(pieces) => pieces.stamp(),
    };
    // What is wrong with the file is told of each run in it, whose own bytes may be the same before and after.
    listing
        .fault
        .as_ref()
        .map_or(stamp, |fault| stamp.with_fault(fault))
}

fn bytes_of(mut file: File, span: Span) -> io::Result<io::Take<File>> {
    io::Seek::seek(&mut file, io::SeekFrom::Start(span.offset))?;
    Ok(file.take(span.len))
}

/// What stands before the runs, as a document without any.
fn before(file: &File, len: u64) -> io::Result<Vec<u8>> {
    if len > MAX_MANIFEST_BYTES {
        let what = format!("{len} bytes before the first run, more than {MAX_MANIFEST_BYTES}");
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, what));
    }
    let mut bytes = vec![0; usize::try_from(len).map_err(io::Error::other)?];
    file.read_exact_at(&mut bytes, 0)?;
    bytes.extend_from_slice(CLOSING);
    Ok(bytes)
}

/// Looks the file through.
fn list(file: &File, stamp: Stamp, several: &Several) -> io::Result<Listing> {
    if let Some(apart) = several.apart {
        let (runs, fault) = pieces::list(file, apart, most(stamp.size))?;
        let runs = runs
            .into_iter()
            .map(|(name, pieces)| (name, At::Apart(pieces)))
            .collect();
        return Ok(Listing {
            stamp,
            settled: stamp.is_settled(),
            runs,
            beside: None,
            is_closed: false,
            fault,
        });
    }
    if let Some(lines) = several.lines {
        let (runs, fault) = in_lines(file, stamp.size, several, lines)?;
        return Ok(Listing {
            stamp,
            settled: stamp.is_settled(),
            runs,
            beside: None,
            is_closed: false,
            fault,
        });
    }
    let mut start = [0; 4];
    let read = file.read_at(&mut start, 0)?;
    let is_archive = start
        .get(..read)
        .is_some_and(|start| start.starts_with(ARCHIVE_MAGIC));
    let (runs, beside, fault) = if is_archive {
        in_archive(file, stamp.size, several)?
    } else {
        in_document(file, stamp.size, several)?
    };
    Ok(Listing {
        stamp,
        settled: stamp.is_settled(),
        is_closed: matches!(&beside, Some(At::Packed(_, name)) if several.beside.first() == Some(&&**name)),
        runs,
        beside,
        fault,
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
            // Of two members of one name, the later one counts for every reader of archives.
            twice += usize::from(
                runs.insert(shown(run), At::Packed(entry, name.as_str().into()))
                    .is_some(),
            );
        }
    }
    if twice > 0 {
        fault.get_or_insert_with(|| {
            format!("members with the name of another: {twice}; the last of each name is shown")
        });
    }
    if beyond > 0 {
        fault.get_or_insert_with(|| too_many(runs.len(), beyond));
    }
    if runs.is_empty() && beside.is_none() {
        fault.get_or_insert_with(|| "an archive without a run in it".to_owned());
    }
    Ok((runs, beside.map(|(_, at)| at), fault))
}

/// Where each run is, by name.
type Runs = BTreeMap<Arc<str>, At>;

/// Adds a run under a name that no other has.
struct Named {
    runs: Runs,
    /// Up to which number each name is taken: runs of one name would else take the square of their number.
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

/// One pass over a file whose lines are runs. Holds no line, only where each is.
fn in_lines(
    file: &File,
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
    // A writer may be in the middle of the last one.
    let is_open = !line.is_blank;
    let last = line.run(several);
    let is_torn = is_open && last.is_none();
    last.into_iter()
        .for_each(|(name, run)| named.add(&name, run));
    let what = lines.what;
    let fault = match (others, is_torn) {
        _ if beyond > 0 => Some(too_many(named.runs.len(), beyond)),
        (0, false) => None,
        (0, true) => Some("its last line is not whole".to_owned()),
        (1, _) => Some(format!("1 line of it is not an {what}")),
        (others, _) => Some(format!("{others} lines of it are not {what}s")),
    };
    Ok((named.runs, fault))
}

/// A line while it is read.
struct LineUnderWay {
    start: u64,
    len: u64,
    number: u64,
    values: Values,
    /// What names the run, by its paths.
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

    /// The run that the line is, with its name; `None` where it isn't one, or isn't whole.
    fn run(self, several: &Several) -> Option<(String, At)> {
        let name = (several.name)(&self.names).filter(|_| self.values.is_whole())?;
        let span = Span {
            offset: self.start,
            len: self.len,
        };
        Some((name, At::Line(span, self.number, self.hasher.finish())))
    }
}

/// One pass: where each run is, and what names it.
fn in_document(file: &File, expected: u64, several: &Several) -> io::Result<RunsInFile> {
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
            // A run has a few names.
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
        (true, _) => Some("it is not one JSON document".to_owned()),
        (false, true) => None,
        (false, false) => Some(format!(
            "the document ends in the middle, after {size} bytes"
        )),
    };
    let fault = fault.or_else(|| (beyond > 0).then(|| too_many(spans.len(), beyond)));
    // What there is of a run that is cut is there.
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
    // A document without a run is all about the runs that it might hold.
    let alone = several.is_run_alone.then_some(At::Bytes(
        Span {
            offset: 0,
            len: size,
        },
        1,
    ));
    Ok((named.runs, first.map(At::Before).or(alone), fault))
}

/// How many runs of a file with so many bytes are listed.
fn most(size: u64) -> usize {
    MAX_RUNS.saturating_add(usize::try_from(size / BYTES_A_RUN).unwrap_or(usize::MAX))
}

/// What is wrong with a file that holds more runs than are listed.
pub(super) fn too_many(listed: usize, beyond: usize) -> String {
    format!(
        "it holds {} runs, and the first {listed} are listed",
        listed + beyond
    )
}

/// A name as it is shown, and as a part of a run's key.
fn shown(name: &str) -> Arc<str> {
    if name.is_empty() {
        "run".into()
    } else {
        name.into()
    }
}

/// The file that a path leads to whose end is the name of a run in it, and that name.
pub(super) fn split(path: &Path) -> Option<(PathBuf, String)> {
    let file = path.ancestors().skip(1).find(|part| part.is_file())?;
    let rest = path
        .as_os_str()
        .as_encoded_bytes()
        .get(file.as_os_str().len()..)?;
    let name = std::str::from_utf8(rest).ok()?.strip_prefix('/')?;
    Some((file.to_owned(), name.to_owned()))
}
