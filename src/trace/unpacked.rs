//! Where are the bytes of a member of an archive while somebody looks at them? Unpacked once for all that a page reads of
//! it: a small one in memory, a large one in a file without a name, which is gone with the program.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Read, Write as _};
use std::sync::{Arc, Mutex, PoisonError};

use super::archive::{self, Entry};
use super::dir::read_at;
use super::stamp::{FileId, Stamp};
use crate::model::Span;

/// A larger member is unpacked to the disk.
const MAX_HELD_BYTES: u64 = 8 << 20;
/// So much is kept of members that nobody may look at any more: in memory, and on the disk.
const MAX_KEPT_BYTES: [u64; 2] = [16 << 20, 2 << 30];

/// An unpacked member.
#[derive(Debug)]
pub(super) struct Unpacked {
    bytes: Bytes,
    len: u64,
    /// Nothing is wrong with it.
    is_whole: bool,
    /// What the file looked like that it was unpacked from.
    packed: Stamp,
}

#[derive(Debug)]
enum Bytes {
    Held(Vec<u8>),
    /// Several readers share its position.
    OnDisk(Mutex<File>),
}

/// Which bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Key {
    /// A member of an archive.
    Member(FileId, Entry),
    /// A file that is compressed as a whole.
    File(Stamp),
}

/// The newest are last. One list for the program: it has one memory.
static KEPT: Mutex<VecDeque<(Key, Arc<Unpacked>)>> = Mutex::new(VecDeque::new());

impl Unpacked {
    /// The unpacked member `entry` of the archive `file`, which looks like this.
    ///
    /// # Errors
    /// It is damaged, or more than is unpacked; there is no place for it.
    pub(super) fn of(file: File, archive: Stamp, entry: Entry) -> io::Result<Arc<Self>> {
        Self::kept(Key::Member(archive.id, entry), archive, || Ok((archive::unpack(file, entry)?, entry.size)))
    }

    /// The text of a compressed file that looks like this, which `input` reads; it has so many bytes.
    ///
    /// # Errors
    /// There is no place for it.
    pub(super) fn of_frames<R: Read>(stamp: Stamp, input: impl FnOnce() -> R, size: u64) -> io::Result<Arc<Self>> {
        Self::kept(Key::File(stamp), stamp, || Ok((input(), size)))
    }

    fn kept<R: Read>(key: Key, packed: Stamp, input: impl FnOnce() -> io::Result<(R, u64)>) -> io::Result<Arc<Self>> {
        if let Some(unpacked) = Self::known(key, packed) {
            return Ok(unpacked);
        }
        let (input, size) = input()?;
        let unpacked = Arc::new(Self::read(input, size, packed)?);
        let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
        kept.push_back((key, Arc::clone(&unpacked)));
        for (on_disk, most) in [(false, MAX_KEPT_BYTES[0]), (true, MAX_KEPT_BYTES[1])] {
            let alike = |kept: &(Key, Arc<Self>)| matches!(kept.1.bytes, Bytes::OnDisk(_)) == on_disk;
            while kept.iter().filter(|kept| alike(kept)).map(|(_, kept)| kept.len).sum::<u64>() > most
                && let Some(oldest) = kept.iter().position(alike)
            {
                kept.remove(oldest);
            }
        }
        Ok(unpacked)
    }

    /// What is kept of it; it is the newest then. What was damaged may be mended since the file looked like that.
    fn known(key: Key, packed: Stamp) -> Option<Arc<Self>> {
        let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
        let holds = |kept: &Self| kept.is_whole || kept.packed == packed;
        let at = kept.iter().position(|(known, unpacked)| *known == key && holds(unpacked))?;
        let found = kept.remove(at)?;
        let unpacked = Arc::clone(&found.1);
        kept.push_back(found);
        Some(unpacked)
    }

    fn read(mut input: impl Read, size: u64, packed: Stamp) -> io::Result<Self> {
        // What came before the damage can be shown.
        let whole = |read: io::Result<u64>| match read {
            Err(error) if error.kind() == io::ErrorKind::InvalidData => Ok(false),
            read => read.map(|_| true),
        };
        if size <= MAX_HELD_BYTES {
            let mut bytes = Vec::new();
            let is_whole = whole(io::copy(&mut input, &mut bytes))?;
            return Ok(Self { len: bytes.len() as u64, bytes: Bytes::Held(bytes), is_whole, packed });
        }
        let no_place = |error| io::Error::other(format!("no place to unpack it, {size} bytes: {error}"));
        let mut file = tempfile::tempfile().map_err(no_place)?;
        let is_whole = whole(io::copy(&mut input, &mut file))?;
        file.flush()?;
        Ok(Self { len: file.metadata()?.len(), bytes: Bytes::OnDisk(Mutex::new(file)), is_whole, packed })
    }

    /// Some of its bytes.
    pub(super) fn part(self: Arc<Self>, span: Span) -> impl Read + Send {
        Part { of: self, at: span.offset, end: span.offset.saturating_add(span.len) }
    }
}

/// The member `entry` of the archive `file` from its start: as it is kept, else unpacked while it is read. Why it cannot be
/// unpacked is said where it is read.
pub(super) fn whole(file: File, archive: Stamp, entry: Entry) -> Box<dyn Read + Send> {
    // What is wrong with a member is found by unpacking it.
    let kept = Unpacked::known(Key::Member(archive.id, entry), archive);
    if let Some(kept) = kept.filter(|kept| kept.is_whole && kept.packed == archive) {
        let span = Span { offset: 0, len: kept.len };
        return Box::new(kept.part(span));
    }
    match archive::unpack(file, entry) {
        Ok(input) => Box::new(input),
        Err(error) => Box::new(Refused(Some(error))),
    }
}

/// What cannot be read at all.
struct Refused(Option<io::Error>);

impl Read for Refused {
    fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
        self.0.take().map_or(Ok(0), Err)
    }
}

struct Part {
    of: Arc<Unpacked>,
    at: u64,
    end: u64,
}

impl Read for Part {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left = usize::try_from(self.end.saturating_sub(self.at)).unwrap_or(usize::MAX);
        let wanted = buffer.len().min(left);
        let buffer = buffer.get_mut(..wanted).unwrap_or_default();
        let read = match &self.of.bytes {
            Bytes::Held(bytes) => {
                let rest = usize::try_from(self.at).ok().and_then(|at| bytes.get(at..)).unwrap_or_default();
                (&*rest).read(buffer)?
            }
            Bytes::OnDisk(file) => read_at(&file.lock().unwrap_or_else(PoisonError::into_inner), buffer, self.at)?,
        };
        self.at += read as u64;
        Ok(read)
    }
}
