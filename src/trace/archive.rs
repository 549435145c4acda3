//! What are the members of a zip archive, and what are their bytes? Deflated, in Zstandard, or as they are.
//!
//! Nothing is written, and a name is no path: it only tells members apart. What the directory says of a member bounds what
//! is unpacked of it, and its checksum is compared.

use std::fs::File;
use std::io::{self, BufReader, Read, Seek as _, SeekFrom};

use flate2::Crc;
use flate2::bufread::DeflateDecoder;
use ruzstd::decoding::errors::FrameDecoderError;
use ruzstd::decoding::{FrameDecoder, StreamingDecoder};

use super::content::ReadAt as _;
use super::several::ARCHIVE_MAGIC;
use super::unpacked::{MAX_TEXT_BYTES, check_size};

/// A Zstandard frame that looks further back is refused: so much of it is held in memory.
const MAX_WINDOW_BYTES: u64 = 64 << 20;
/// The fixed part of a member's header, which its name and its extra fields follow.
const HEADER_BYTES: u64 = 30;
/// A record of the directory has to fit.
const RECORD_BYTES: usize = 256 << 10;
/// A larger archive is none that an evaluation writes.
const MAX_MEMBERS: usize = 1_000_000;

/// A member, as the directory of its archive tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Entry {
    /// Where its header begins.
    pub(super) header: u64,
    /// Its bytes in the archive.
    pub(super) packed: u64,
    /// Its bytes.
    pub(super) size: u64,
    pub(super) crc: u32,
    method: u16,
    encrypted: bool,
}

/// The members by their names, and what is wrong with the archive.
pub(super) type Entries = (Vec<(String, Entry)>, Option<String>);

/// The members of the archive `file`, in the order of its directory. Of one without a directory, those whose headers tell
/// where they end.
///
/// # Errors
/// The file cannot be read.
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
                    "the directory of the archive is damaged after {} members: {error}",
                    found.len()
                ));
                break;
            }
        };
        if found.len() == MAX_MEMBERS {
            fault = Some(format!(
                "the archive has more than {MAX_MEMBERS} members; the others are left out"
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
            Some("members of the archive lie over each other, or beyond its end".to_owned()),
        ));
    }
    Ok((found, fault))
}

/// Few bytes that are members many times over would keep a reader busy without end.
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

/// The members of an archive that is cut, or whose directory is not written yet, one behind the other.
fn by_headers(file: &File, size: u64) -> io::Result<Entries> {
    let (mut found, mut at) = (Vec::new(), 0);
    while let Some((name, entry, end)) =
        by_header(file, at, size)?.filter(|_| found.len() < MAX_MEMBERS)
    {
        found.push((name, entry));
        at = end;
    }
    let fault = format!(
        "the archive has no directory: it is being written, or was cut; its members are whole up to byte {at}"
    );
    Ok((found, Some(fault)))
}

/// The member whose header is at this place, and where it ends; `None` where none is, or its header does not tell its
/// length.
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
    // The sizes stand behind the bytes then, or in an extra field.
    if flags & 8 != 0 || entry.packed == u64::from(u32::MAX) || end > size {
        return Ok(None);
    }
    match file.read_exact_at(&mut name, at + HEADER_BYTES) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(None),
        read => read.map(|()| Some((String::from_utf8_lossy(&name).into_owned(), entry, end))),
    }
}

/// The fixed part of a header, with the length of the name.
fn header(file: &File, at: u64) -> io::Result<Option<([u8; HEADER_BYTES as usize], u16)>> {
    let mut fixed = [0; HEADER_BYTES as usize];
    match file.read_exact_at(&mut fixed, at) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        read => read?,
    }
    Ok(fixed
        .starts_with(ARCHIVE_MAGIC)
        .then(|| (fixed, short(&fixed, 26))))
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

/// The text of the Zstandard frame that `input` begins with.
///
/// # Errors
/// It begins with none, or the frame looks back further than [`MAX_WINDOW_BYTES`].
pub(super) fn zstandard<R: Read>(
    input: R,
) -> Result<StreamingDecoder<R, FrameDecoder>, FrameDecoderError> {
    let mut decoder = FrameDecoder::new();
    decoder.set_max_window_size(MAX_WINDOW_BYTES);
    StreamingDecoder::new_with_decoder(input, decoder)
}

/// Returns the error of `what`, a Zstandard frame that can't be unpacked. A frame that exceeds a limit isn't damaged.
pub(super) fn unbegun(what: &str, error: &FrameDecoderError) -> io::Error {
    let mib = |bytes: u64| bytes.div_ceil(1 << 20);
    let needs = match error {
        FrameDecoderError::WindowSizeTooBig { requested, max } => {
            format!(
                "needs a window of {} MiB to be unpacked, and the board gives at most {}",
                mib(*requested),
                mib(*max)
            )
        }
        FrameDecoderError::DictNotProvided { dict_id } => {
            format!("is packed with a dictionary, {dict_id}, which the board does not have")
        }
        error => return damaged(format!("{what} is damaged: {error}")),
    };
    io::Error::new(io::ErrorKind::InvalidData, format!("{what} {needs}"))
}

/// The bytes of a member, from its start.
///
/// # Errors
/// It is larger than anything that is unpacked, encrypted, or packed in a way that is not known. While it is read: invalid
/// data where it is damaged, at the end too where its checksum is another.
pub(super) fn unpack(mut file: File, entry: Entry) -> io::Result<impl Read + Send + use<>> {
    let Entry {
        header: at,
        packed,
        size,
        crc,
        method,
        encrypted,
    } = entry;
    // What the directory says is held against the member while it is unpacked.
    check_size(packed, size, MAX_TEXT_BYTES).map_err(|error| {
        io::Error::new(
            error.kind(),
            format!("the member of the archive is not unpacked: {error}"),
        )
    })?;
    if encrypted {
        return Err(io::Error::new(
            io::ErrorKind::Unsupported,
            "the member of the archive is encrypted",
        ));
    }
    let Some((fixed, name_len)) = header(&file, at)? else {
        return Err(damaged(
            "the archive is damaged: it has no member where its directory says",
        ));
    };
    let data = at + HEADER_BYTES + u64::from(name_len) + u64::from(short(&fixed, 28));
    file.seek(SeekFrom::Start(data))?;
    let bytes = BufReader::with_capacity(64 << 10, file.take(packed));
    let inner: Box<dyn Read + Send> = match method {
        0 => Box::new(bytes),
        8 => Box::new(DeflateDecoder::new(bytes)),
        20 | 93 => Box::new(
            zstandard(bytes).map_err(|error| unbegun("the member of the archive", &error))?,
        ),
        _ => {
            let what = format!(
                "the member of the archive is packed by method {method}, which is not read"
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

/// Holds a member to what the directory says of it.
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
                "the member of the archive is damaged: it ends {} bytes early",
                self.left
            ))),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return Err(error),
            Err(error) => Err(damaged(format!(
                "the member of the archive is damaged: {error}"
            ))),
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
    /// All bytes that the directory tells of were read.
    fn end(&mut self) -> io::Result<usize> {
        if self.inner.read(&mut [0]).is_ok_and(|more| more > 0) {
            return Err(damaged(
                "the member of the archive is damaged: it has more bytes than its directory says",
            ));
        }
        if self.read.sum() != self.crc {
            return Err(damaged(
                "the member of the archive is damaged: its checksum is not the one in the directory",
            ));
        }
        Ok(0)
    }
}
