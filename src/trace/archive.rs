//! Lists the members of a zip archive and reads their bytes: stored, deflated, or compressed with
//! Zstandard.
//!
//! Nothing is written, and names are never used as paths. They only identify members. A member's
//! entry in the central directory bounds how much of it is decompressed, and its checksum is
//! verified.

use std::fs::File;
use std::io::{self, BufReader, Read, Seek as _, SeekFrom};

use flate2::Crc;
use flate2::bufread::DeflateDecoder;
use ruzstd::decoding::errors::FrameDecoderError;
use ruzstd::decoding::{FrameDecoder, StreamingDecoder};

use super::limits::{MAX_TEXT_BYTES, check_size};
use super::read_at::ReadAt as _;

/// The first bytes of an archive: the header of its first member.
pub(super) const MAGIC: &[u8] = b"PK\x03\x04";
/// The largest window that a Zstandard frame may require, because that much is held in memory.
const MAX_WINDOW_BYTES: u64 = 64 << 20;
/// The size of the fixed part of a member's header. Its name and its extra fields follow.
const HEADER_BYTES: u64 = 30;
/// The buffer size for reading the central directory. Each of its records has to fit.
const RECORD_BYTES: usize = 256 << 10;
/// Maximum number of members read. No evaluation writes a larger archive.
const MAX_MEMBERS: usize = 1_000_000;

/// A member, as recorded in the archive's central directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Entry {
    /// The offset of its header.
    pub(super) header: u64,
    /// Its compressed size in bytes.
    pub(super) packed: u64,
    /// Its uncompressed size in bytes.
    pub(super) size: u64,
    pub(super) crc: u32,
    method: u16,
    encrypted: bool,
}

/// The members by name, and what is wrong with the archive.
pub(super) type Entries = (Vec<(String, Entry)>, Option<String>);

/// Returns the members of the archive `file`, in the order of its central directory. Without a
/// central directory, returns those members whose headers record where they end.
///
/// # Errors
/// Fails if the file can't be read.
pub(super) fn entries(file: &File, size: u64) -> io::Result<Entries> {
    let mut buffer = vec![0; RECORD_BYTES];
    let Ok(archive) = rawzip::ZipArchive::from_file(file.try_clone()?, &mut buffer) else {
        return by_headers(file, size);
    };
    let (mut found, mut fault) = (Vec::new(), None);
    let mut records = archive.entries(&mut buffer);
    loop {
        let record = match records.next_entry() {
            Ok(Some(record)) => record,
            Ok(None) => break,
            Err(error) => {
                fault = Some(format!(
                    "the archive's central directory is damaged after {} members: {error}",
                    found.len()
                ));
                break;
            }
        };
        if found.len() == MAX_MEMBERS {
            fault = Some(format!(
                "the archive has more than {MAX_MEMBERS} members, so only the first {MAX_MEMBERS} are read"
            ));
            break;
        }
        let entry = Entry {
            header: record.local_header_offset(),
            packed: record.compressed_size_hint(),
            size: record.uncompressed_size_hint(),
            crc: record.crc32(),
            method: record.compression_method().as_u16(),
            encrypted: record.flags().is_encrypted(),
        };
        found.push((
            String::from_utf8_lossy(record.file_path().as_ref()).into_owned(),
            entry,
        ));
    }
    if overlap(&found, size) {
        return Ok((
            Vec::new(),
            Some("archive members overlap, or extend past the end of the file".to_owned()),
        ));
    }
    Ok((found, fault))
}

/// Returns whether members overlap or extend beyond the end. A few bytes shared by many members
/// would keep a reader busy forever.
fn overlap(found: &[(String, Entry)], size: u64) -> bool {
    let mut places: Vec<(u64, u64)> = found
        .iter()
        .map(|(_, entry)| {
            (
                entry.header,
                entry
                    .header
                    .saturating_add(HEADER_BYTES)
                    .saturating_add(entry.packed),
            )
        })
        .collect();
    places.sort_unstable();
    let next = places.iter().skip(1).map(|(start, _)| *start).chain([size]);
    places.iter().zip(next).any(|((_, end), next)| *end > next)
}

/// Returns the members of an archive that is truncated or has no central directory yet, one after
/// the other.
fn by_headers(file: &File, size: u64) -> io::Result<Entries> {
    let (mut found, mut at) = (Vec::new(), 0);
    while let Some((name, entry, end)) =
        by_header(file, at, size)?.filter(|_| found.len() < MAX_MEMBERS)
    {
        found.push((name, entry));
        at = end;
    }
    let fault = format!(
        "the archive has no central directory (still being written, or truncated); its members are complete up to byte {at}"
    );
    Ok((found, Some(fault)))
}

/// Returns the member whose header is at `at`, and where it ends. Returns `None` if there is no
/// header, or if it doesn't record the member's length.
fn by_header(file: &File, at: u64, size: u64) -> io::Result<Option<(String, Entry, u64)>> {
    let Some((fixed, name_len)) = header(file, at)? else {
        return Ok(None);
    };
    let data = HEADER_BYTES + u64::from(name_len) + u64::from(short(&fixed, 28));
    let mut name = vec![0; usize::from(name_len)];
    let flags = short(&fixed, 6);
    let entry = Entry {
        header: at,
        packed: u64::from(long(&fixed, 18)),
        size: u64::from(long(&fixed, 22)),
        crc: long(&fixed, 14),
        method: short(&fixed, 8),
        encrypted: flags & 1 != 0,
    };
    let end = at.saturating_add(data).saturating_add(entry.packed);
    // In these cases, the sizes follow the data or are in an extra field.
    if flags & 8 != 0 || entry.packed == u64::from(u32::MAX) || end > size {
        return Ok(None);
    }
    match file.read_exact_at(&mut name, at + HEADER_BYTES) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(None),
        read => read.map(|()| Some((String::from_utf8_lossy(&name).into_owned(), entry, end))),
    }
}

/// Returns the fixed part of a header, with the length of the name.
fn header(file: &File, at: u64) -> io::Result<Option<([u8; HEADER_BYTES as usize], u16)>> {
    let mut fixed = [0; HEADER_BYTES as usize];
    match file.read_exact_at(&mut fixed, at) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        read => read?,
    }
    Ok(fixed.starts_with(MAGIC).then(|| (fixed, short(&fixed, 26))))
}

fn short(bytes: &[u8], at: usize) -> u16 {
    bytes
        .get(at..at + 2)
        .and_then(|bytes| bytes.try_into().ok())
        .map_or(0, u16::from_le_bytes)
}

fn long(bytes: &[u8], at: usize) -> u32 {
    bytes
        .get(at..at + 4)
        .and_then(|bytes| bytes.try_into().ok())
        .map_or(0, u32::from_le_bytes)
}

/// Returns the decompressed text of the Zstandard frame at the start of `input`.
///
/// # Errors
/// Fails if there is no frame, or it requires a window larger than [`MAX_WINDOW_BYTES`].
pub(super) fn zstandard<R: Read>(
    input: R,
) -> Result<StreamingDecoder<R, FrameDecoder>, FrameDecoderError> {
    let mut decoder = FrameDecoder::new();
    decoder.set_max_window_size(MAX_WINDOW_BYTES);
    StreamingDecoder::new_with_decoder(input, decoder)
}

/// Returns the error of `what`, a Zstandard frame that can't be decompressed. A frame that exceeds
/// a limit isn't damaged.
pub(super) fn unbegun(what: &str, error: &FrameDecoderError) -> io::Error {
    let mib = |bytes: u64| bytes.div_ceil(1 << 20);
    let needs = match error {
        FrameDecoderError::WindowSizeTooBig { requested, max } => {
            format!(
                "needs a decompression window of {} MiB, but board allows at most {} MiB",
                mib(*requested),
                mib(*max)
            )
        }
        FrameDecoderError::DictNotProvided { dict_id } => {
            format!("needs compression dictionary {dict_id}, which board doesn't have")
        }
        error => return damaged(format!("{what} is damaged: {error}")),
    };
    io::Error::new(io::ErrorKind::InvalidData, format!("{what} {needs}"))
}

/// Returns the uncompressed bytes of a member, from its start.
///
/// # Errors
/// Fails if the member exceeds the size limit, is encrypted, or uses an unknown compression method.
/// Reading returns an invalid data error if the member is damaged, which may only show at the end
/// if its checksum differs.
pub(super) fn unpack(mut file: File, entry: Entry) -> io::Result<impl Read + Send + use<>> {
    let Entry {
        header: at,
        packed,
        size,
        crc,
        method,
        encrypted,
    } = entry;
    // The member is checked against the central directory while it's decompressed.
    check_size(packed, size, MAX_TEXT_BYTES).map_err(|error| {
        io::Error::new(
            error.kind(),
            format!("the archive member wasn't decompressed: {error}"),
        )
    })?;
    if encrypted {
        return Err(io::Error::new(
            io::ErrorKind::Unsupported,
            "the archive member is encrypted",
        ));
    }
    let Some((fixed, name_len)) = header(&file, at)? else {
        return Err(damaged(
            "the archive is damaged: its central directory points to a missing member",
        ));
    };
    let data = at + HEADER_BYTES + u64::from(name_len) + u64::from(short(&fixed, 28));
    file.seek(SeekFrom::Start(data))?;
    let bytes = BufReader::with_capacity(64 << 10, file.take(packed));
    let inner: Box<dyn Read + Send> = match method {
        0 => Box::new(bytes),
        8 => Box::new(DeflateDecoder::new(bytes)),
        20 | 93 => {
            Box::new(zstandard(bytes).map_err(|error| unbegun("the archive member", &error))?)
        }
        _ => {
            let what = format!(
                "the archive member uses compression method {method}, which board doesn't support"
            );
            return Err(io::Error::new(io::ErrorKind::Unsupported, what));
        }
    };
    Ok(Checked {
        inner,
        left: size,
        crc,
        read: Crc::new(),
        done: false,
    })
}

fn damaged(why: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}

/// Checks a member's size and checksum against the central directory.
struct Checked {
    inner: Box<dyn Read + Send>,
    left: u64,
    crc: u32,
    read: Crc,
    done: bool,
}

impl Read for Checked {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.done || buffer.is_empty() {
            return Ok(0);
        }
        let most = usize::try_from(self.left)
            .unwrap_or(usize::MAX)
            .min(buffer.len());
        if most == 0 {
            self.done = true;
            return self.end();
        }
        let part = buffer.get_mut(..most).unwrap_or_default();
        let read = match self.inner.read(part) {
            Ok(0) => Err(damaged(format!(
                "the archive member is damaged: it ends {} bytes early",
                self.left
            ))),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return Err(error),
            Err(error) => Err(damaged(format!("the archive member is damaged: {error}"))),
            Ok(read) => Ok(read),
        };
        self.done = read.is_err();
        let read = read?;
        self.read.update(part.get(..read).unwrap_or_default());
        self.left -= read as u64;
        Ok(read)
    }
}

impl Checked {
    /// Checks that the data ends here, and that its checksum is right.
    fn end(&mut self) -> io::Result<usize> {
        if self.inner.read(&mut [0]).is_ok_and(|more| more > 0) {
            return Err(damaged(
                "the archive member is damaged: it is longer than the central directory says",
            ));
        }
        if self.read.sum() != self.crc {
            return Err(damaged(
                "the archive member is damaged: its checksum differs from the central directory's",
            ));
        }
        Ok(0)
    }
}
