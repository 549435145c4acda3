//! What does a file hold that was compressed as a whole? Zstandard frames, one behind the other, of lines.
//!
//! Everything behind this file takes such a one as if it were not compressed: places and lengths are those of its text.
//! Who reads all of it gets it in a file without a name; who reads a line of it shares one copy with all others.

use std::cell::RefCell;
use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::sync::{Mutex, PoisonError};

use ruzstd::decoding::{FrameDecoder, StreamingDecoder};

use super::archive::{MAX_MEMBER_BYTES, zstandard};
use super::recognise::is_packed;
use super::stamp::{FileId, Stamp};
use super::unpacked::Unpacked;
use crate::model::Span;

/// The lengths of so many files are kept.
const MAX_KNOWN: usize = 100_000;

/// How long the text of a file is, and what is wrong with it.
type TextLengths = HashMap<FileId, (Stamp, u64, Option<String>)>;

static KNOWN: Mutex<Option<TextLengths>> = Mutex::new(None);

thread_local! {
    /// The text of the file that this thread unpacked to know how long it is: it opens the file next as a rule.
    static READY: RefCell<Option<(Stamp, File)>> = const { RefCell::new(None) };
}

/// The name that it had before.
pub(super) fn plain(name: &OsStr) -> &OsStr {
    match name.to_str().and_then(|name| name.strip_suffix(".zst")) {
        Some(plain) if is_packed(name) => OsStr::new(plain),
        _ => name,
    }
}

/// The beginning of its text.
pub(super) fn head(file: File, bytes: u64) -> io::Result<Vec<u8>> {
    let mut head = Vec::new();
    match Frames::new(file).take(bytes).read_to_end(&mut head) {
        // Of one that is damaged from the start nobody can say what it is.
        Err(error) if error.kind() != io::ErrorKind::InvalidData || head.is_empty() => Err(error),
        _ => Ok(head),
    }
}

/// The file as it would look without compression, by what it looks like.
pub(super) fn stat(stamp: Stamp, open: impl FnOnce() -> io::Result<File>) -> io::Result<Stamp> {
    if let Some((size, _)) = known(stamp) {
        return Ok(stamp.with_size(size));
    }
    let (text, unpacked) = unpack(open()?, stamp)?;
    READY.set(Some((stamp, text)));
    Ok(unpacked)
}

/// What is wrong with the file that looks like this, where it was read.
pub(super) fn fault(stamp: Stamp) -> Option<String> {
    known(stamp)?.1
}

/// All its text, in a file.
pub(super) fn open(file: File, stamp: Stamp) -> io::Result<(File, Stamp)> {
    let unpacked = READY.with_borrow_mut(|ready| ready.take_if(|(of, _)| *of == stamp)).map(|(_, text)| text);
    match unpacked.zip(known(stamp)) {
        Some((text, (size, _))) => Ok((text, stamp.with_size(size))),
        None => unpack(file, stamp),
    }
}

/// Some of its text.
pub(super) fn part(file: File, stamp: Stamp, span: Span) -> io::Result<Box<dyn Read + Send>> {
    let size = known(stamp).map_or(u64::MAX, |(size, _)| size);
    Ok(Box::new(Unpacked::of_frames(stamp, || Frames::new(file), size)?.part(span)))
}

fn known(stamp: Stamp) -> Option<(u64, Option<String>)> {
    let known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    let (seen, size, fault) = known.as_ref()?.get(&stamp.id)?;
    (*seen == stamp).then(|| (*size, fault.clone()))
}

/// All text of a file, in one without a name. What comes before a damage is good.
fn unpack(file: File, stamp: Stamp) -> io::Result<(File, Stamp)> {
    let mut text = tempfile::tempfile()?;
    let fault = match io::copy(&mut Frames::new(file), &mut text) {
        Err(error) if error.kind() == io::ErrorKind::InvalidData => Some(format!("{error}; what came before is read")),
        copied => copied.map(|_| None)?,
    };
    let size = io::Seek::stream_position(&mut text)?;
    io::Seek::rewind(&mut text)?;
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    let known = known.get_or_insert_default();
    if known.len() >= MAX_KNOWN {
        known.clear();
    }
    known.insert(stamp.id, (stamp, size, fault));
    Ok((text, stamp.with_size(size)))
}

/// The text of the frames of a file.
struct Frames {
    /// Behind the last frame that was begun.
    rest: Option<BufReader<File>>,
    frame: Option<StreamingDecoder<BufReader<File>, FrameDecoder>>,
    /// So many bytes may come, and at most so many in all.
    left: u64,
    most: u64,
}

impl Frames {
    fn new(file: File) -> Self {
        #[cfg(test)]
        UNPACKED.with(|unpacked| unpacked.set(unpacked.get() + 1));
        Self::bounded(file, MAX_MEMBER_BYTES)
    }

    fn bounded(file: File, most: u64) -> Self {
        Self { rest: Some(BufReader::with_capacity(64 << 10, file)), frame: None, left: most, most }
    }
}

#[cfg(test)]
thread_local! {
    /// How often a file was unpacked.
    static UNPACKED: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

impl Read for Frames {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if buffer.is_empty() {
            return Ok(0);
        }
        loop {
            if let Some(frame) = &mut self.frame {
                let read = frame.read(buffer).map_err(|error| damaged(&error.to_string()))?;
                if read > 0 {
                    let left = self.left.checked_sub(read as u64);
                    self.left = left.ok_or_else(|| damaged(&format!("more than {} bytes", self.most)))?;
                    return Ok(read);
                }
                self.rest = self.frame.take().map(StreamingDecoder::into_inner);
            }
            let Some(mut rest) = self.rest.take() else { return Ok(0) };
            if io::BufRead::fill_buf(&mut rest)?.is_empty() {
                return Ok(0);
            }
            self.frame = Some(zstandard(rest).map_err(|error| damaged(&error.to_string()))?);
        }
    }
}

fn damaged(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("the compressed file is damaged: {why}"))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::time::Duration;

    use ruzstd::encoding::{CompressionLevel, compress_to_vec};

    use super::*;
    use crate::model::{Index, TraceFile};
    use crate::trace::{RootScanner, RunDir, RunReader};

    fn read(dir: &RunDir) -> Index {
        RunReader::settling(dir.clone(), Duration::ZERO).read_whole()
    }

    #[test]
    fn a_session_is_the_same_run_when_its_file_is_compressed() {
        let root = tempfile::tempdir().unwrap();
        let samples = RootScanner::new("sample_runs/tools/codex/sessions".into()).scan().runs;
        let text = fs::read(samples.values().next().unwrap().path()).unwrap();
        let (plain, packed) = (root.path().join("rollout-1.jsonl"), root.path().join("rollout-1.jsonl.zst"));
        fs::write(&plain, &text).unwrap();
        let mut scanner = RootScanner::new(root.path().to_owned());
        let before = scanner.scan().runs;
        let (key, dir) = before.first_key_value().unwrap();
        let as_it_was = read(dir);
        let line = |dir: &RunDir, index: &Index| {
            let step = index.steps().iter().next().unwrap().span;
            dir.line(|| index, TraceFile::Steps, step).unwrap()
        };
        let first = line(dir, &as_it_was);

        // Two frames, of which one ends in the middle of a line.
        let (left, right) = text.split_at(text.len() / 2);
        let mut frames = compress_to_vec(left, CompressionLevel::Fastest);
        frames.extend(compress_to_vec(right, CompressionLevel::Fastest));
        fs::write(&packed, &frames).unwrap();
        fs::remove_file(&plain).unwrap();
        let after = scanner.scan().runs;
        assert_eq!(after.keys().collect::<Vec<_>>(), [key]);
        let dir = &after[key];
        let index = read(dir);
        assert!(index.steps().iter().eq(as_it_was.steps().iter()));
        assert_eq!(index.events().len(), as_it_was.events().len());
        assert_eq!(line(dir, &index), first);
        assert_eq!(dir.read_all(TraceFile::Events, 1 << 20).unwrap(), text);
        assert_eq!(index.passing_issues(), as_it_was.passing_issues());

        fs::write(&packed, &frames[..frames.len() - 20]).unwrap();
        let index = read(dir);
        assert!(index.steps().len() <= as_it_was.steps().len() && !index.events().is_empty());
        let told = |index: &Index| index.passing_issues().iter().any(|issue| issue.reason.contains("damaged"));
        assert!(told(&index) && !told(&as_it_was), "{:?}", index.passing_issues());
    }

    /// A frame of `blocks` times 128 KiB of spaces, four bytes each; its window is 2 to the power of `window`.
    fn bomb(blocks: usize, window: u8) -> Vec<u8> {
        let mut frame = vec![0x28, 0xb5, 0x2f, 0xfd, 0, (window - 10) << 3];
        for block in 1..=blocks {
            let header = (128_u32 << 10) << 3 | 1 << 1 | u32::from(block == blocks);
            frame.extend(&header.to_le_bytes()[..3]);
            frame.push(b' ');
        }
        frame
    }

    #[test]
    fn a_file_is_unpacked_once_to_be_read() {
        let root = tempfile::tempdir().unwrap();
        let line = "{\"timestamp\":\"2026-05-04T09:00:00Z\",\"type\":\"session_meta\",\"payload\":{\"id\":\"a\"}}\n";
        let packed = compress_to_vec(line.as_bytes(), CompressionLevel::Fastest);
        fs::write(root.path().join("rollout-once.jsonl.zst"), packed).unwrap();
        let found = RootScanner::new(root.path().to_owned()).scan().runs;
        let dir = found.values().next().unwrap();
        UNPACKED.set(0);
        assert_eq!(read(dir).events().len(), 1);
        assert_eq!(UNPACKED.get(), 1);
    }

    #[test]
    fn a_bomb_is_bound_in_what_it_holds_and_in_what_it_looks_back_to() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("bomb.zst");
        fs::write(&path, bomb(9, 17)).unwrap();
        let mut out = Vec::new();
        let ended = Frames::bounded(File::open(&path).unwrap(), 1 << 20).read_to_end(&mut out);
        assert!(ended.unwrap_err().to_string().ends_with("more than 1048576 bytes"));
        assert!(out.len() <= 1 << 20);
        let whole = Frames::bounded(File::open(&path).unwrap(), 9 << 17).read_to_end(&mut Vec::new());
        assert_eq!(whole.unwrap(), 9 << 17);
        fs::write(root.path().join("rollout-2.jsonl.zst"), bomb(1, 30)).unwrap();
        let found = RootScanner::new(root.path().to_owned()).scan();
        let skipped = &found.skipped[0];
        assert!(found.runs.is_empty() && skipped.path == "rollout-2.jsonl", "{skipped:?}");
        assert!(skipped.reason.starts_with("the compressed file is damaged: "), "{}", skipped.reason);
    }
}
