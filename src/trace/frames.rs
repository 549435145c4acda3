//! Reads a file of lines that was compressed as a whole, by Zstandard or gzip.
//!
//! All other code treats such a file as if it weren't compressed: offsets and lengths are those of
//! its text. Its stamp is the compressed file's, so nothing has to be decompressed to detect a
//! change.

use std::cmp::Ordering;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Read};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use flate2::bufread::GzDecoder;
use ruzstd::decoding::{FrameDecoder, StreamingDecoder};

use super::archive::{unbegun, zstandard};
use super::content::Content;
use super::limits::Bounded;
use super::patience::Patience;
use super::stamp::Stamp;
use super::unpacked::Unpacked;
use crate::format::before_compression;

/// The first byte of a gzip member (RFC 1952, section 2.3.1). A Zstandard frame begins with another
/// one.
const GZIP: u8 = 0x1f;

/// Returns whether a file of this name is compressed as a whole, and treated as its text.
pub(super) fn is_packed(name: &OsStr) -> bool {
    name.to_str().and_then(before_compression).is_some()
}

/// Returns the file's name before compression.
pub(super) fn plain(name: &OsStr) -> &OsStr {
    let plain = name.to_str().and_then(before_compression);
    plain.map_or(name, OsStr::new)
}

/// Orders numbered files. Of two copies of one file, the uncompressed one comes last.
pub(super) fn by_number(a: &OsStr, b: &OsStr) -> Ordering {
    let copies = || is_packed(b).cmp(&is_packed(a));
    plain(a).cmp(plain(b)).then_with(copies)
}

/// The compressed bytes read to see the beginning of a text. A Zstandard decoder returns no text
/// before it has decoded a whole window, which has 8 MiB at the levels that programs use.
const HEAD_PACKED_BYTES: u64 = 9 << 20;
/// The space for the beginning of a text, at most; bytes.
const HEAD_SPACE: u64 = 64 << 10;
/// Maximum number of empty frames skipped in one read, so that a file of nothing else doesn't block its
/// reader.
const MAX_EMPTY_FRAMES: usize = 16;
/// Maximum number of compressed bytes that may yield no text. A decoder doesn't return before it has text,
/// and gigabytes of empty blocks would block its reader.
const MAX_IDLE_BYTES: u64 = 64 << 20;

/// Returns the beginning of the text of `file`, whose name is `name`. The text of a file that isn't
/// compressed is its content.
pub(super) fn head(file: File, name: &OsStr, bytes: u64) -> io::Result<Vec<u8>> {
    let mut head = Vec::new();
    if !is_packed(name) {
        // Without space, it would be read in pieces of 32, 64, 128 bytes and so on.
        head.reserve_exact(usize::try_from(bytes.min(HEAD_SPACE)).unwrap_or_default());
        file.take(bytes).read_to_end(&mut head)?;
        return Ok(head);
    }
    // Without any text, the limit is reported and not the end of these bytes.
    match Frames::with_idle(file.take(HEAD_PACKED_BYTES), HEAD_PACKED_BYTES - 1)
        .take(bytes)
        .read_to_end(&mut head)
    {
        // The beginning identifies the tool, unless none of it could be decompressed.
        Err(error) if error.kind() != io::ErrorKind::InvalidData || head.is_empty() => Err(error),
        _ => Ok(head),
    }
}

/// Returns the whole text, and the file's stamp with the size of the text.
///
/// # Errors
/// Fails if there is no space for the text. Returns a would-block error while it's being
/// decompressed, unless the caller waits.
pub(super) fn open(file: File, stamp: Stamp, patience: Patience) -> io::Result<(Content, Stamp)> {
    let text = Unpacked::of_file(stamp, patience, || {
        Box::new(Bounded::new(Frames::new(file), stamp.size))
    })?;
    let size = text.len();
    Ok((Content::Text(text), stamp.with_size(size)))
}

/// The text of a compressed file, which is a sequence of Zstandard frames or gzip members.
struct Frames<R: Read> {
    /// The input after the last frame that was begun.
    rest: Option<Input<R>>,
    frame: Option<Frame<R>>,
    source: Arc<Mutex<Source>>,
}

type Input<R> = BufReader<Watched<R>>;

enum Frame<R: Read> {
    Zstandard(Box<StreamingDecoder<Input<R>, FrameDecoder>>),
    Gzip(Box<GzDecoder<Input<R>>>),
}

/// What a decoder found when it read the compressed bytes. The decoder's own errors don't show
/// whether its input was at fault.
#[derive(Debug, Default)]
struct Source {
    /// The bytes read since the last text.
    idle: u64,
    /// Whether the decoder read on after the last byte.
    is_over: bool,
    /// Why the bytes can't be read.
    error: Option<io::Error>,
}

impl Source {
    /// Returns the error of a decoder that failed with `error`, or the one that made it fail.
    fn blame(&mut self, error: io::Error) -> io::Error {
        match self.error.take() {
            Some(error) => error,
            None if self.is_over => damaged("it is truncated"),
            None => error,
        }
    }
}

/// The compressed bytes.
struct Watched<R> {
    file: R,
    max_idle: u64,
    source: Arc<Mutex<Source>>,
}

impl<R: Read> Read for Watched<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = loop {
            match self.file.read(buffer) {
                // Some decoders would fail.
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                read => break read,
            }
        };
        let mut source = lock(&self.source);
        let read = read.and_then(|read| {
            source.is_over |= read == 0 && !buffer.is_empty();
            source.idle += read as u64;
            if source.idle <= self.max_idle {
                return Ok(read);
            }
            let what = format!(
                "the compressed file has more than {} bytes in a row without text",
                self.max_idle
            );
            Err(io::Error::new(io::ErrorKind::InvalidData, what))
        });
        read.map_err(|error| {
            let kind = error.kind();
            source.error = Some(error);
            kind.into()
        })
    }
}

fn lock(source: &Mutex<Source>) -> MutexGuard<'_, Source> {
    source.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<R: Read> Frame<R> {
    fn new(input: Input<R>, first: u8) -> io::Result<Self> {
        if first == GZIP {
            return Ok(Self::Gzip(Box::new(GzDecoder::new(input))));
        }
        zstandard(input)
            .map(|frame| Self::Zstandard(Box::new(frame)))
            .map_err(|error| unbegun("the compressed file", &error))
    }

    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Zstandard(frame) => frame.read(buffer),
            Self::Gzip(member) => member.read(buffer),
        }
        .map_err(|error| damaged(&error.to_string()))
    }

    fn into_inner(self) -> Input<R> {
        match self {
            Self::Zstandard(frame) => frame.into_inner(),
            Self::Gzip(member) => member.into_inner(),
        }
    }
}

impl<R: Read> Frames<R> {
    fn new(file: R) -> Self {
        Self::with_idle(file, MAX_IDLE_BYTES)
    }

    /// Fails after more than `max_idle` bytes in a row without text.
    fn with_idle(file: R, max_idle: u64) -> Self {
        let source = Arc::default();
        let input = Watched {
            file,
            max_idle,
            source: Arc::clone(&source),
        };
        Self {
            rest: Some(BufReader::with_capacity(64 << 10, input)),
            frame: None,
            source,
        }
    }

    /// Reads from the current frame, or begins the next one. Returns `None` between frames.
    fn step(&mut self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        if let Some(frame) = &mut self.frame {
            let read = frame.read(buffer)?;
            if read > 0 {
                return Ok(Some(read));
            }
            self.rest = self.frame.take().map(Frame::into_inner);
        }
        let Some(mut rest) = self.rest.take() else {
            return Ok(Some(0));
        };
        let Some(first) = rest.fill_buf()?.first().copied() else {
            return Ok(Some(0));
        };
        self.frame = Some(Frame::new(rest, first)?);
        Ok(None)
    }
}

impl<R: Read> Read for Frames<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if buffer.is_empty() {
            return Ok(0);
        }
        for _ in 0..=MAX_EMPTY_FRAMES {
            match self.step(buffer) {
                Ok(Some(read)) => {
                    lock(&self.source).idle = 0;
                    return Ok(read);
                }
                Ok(None) => {}
                Err(error) => return Err(lock(&self.source).blame(error)),
            }
        }
        // Makes the caller read again.
        Err(io::ErrorKind::Interrupted.into())
    }
}

fn damaged(why: &str) -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidData,
        format!("the compressed file is damaged: {why}"),
    )
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::{Read as _, Write as _};
    use std::time::Duration;

    use flate2::Compression;
    use flate2::write::GzEncoder;
    use ruzstd::encoding::{CompressionLevel, compress_to_vec};

    use super::Frames;
    use crate::model::{Index, TraceFile};
    use crate::trace::patience::is_lasting;
    use crate::trace::{RootScanner, RunDir, RunReader};

    fn read(dir: &RunDir) -> Index {
        RunReader::settling(dir.clone(), Duration::ZERO).read_whole()
    }

    #[test]
    fn a_session_is_the_same_run_when_its_file_is_compressed() {
        let root = tempfile::tempdir().unwrap();
        let samples = RootScanner::new("sample_runs/tools/codex/sessions".into())
            .scan()
            .runs;
        let text = fs::read(samples.values().next().unwrap().path()).unwrap();
        let (plain, packed) = (
            root.path().join("rollout-1.jsonl"),
            root.path().join("rollout-1.jsonl.zst"),
        );
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

        // Two frames; the first ends in the middle of a line.
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
        let told = |index: &Index| {
            index
                .passing_issues()
                .iter()
                .any(|issue| issue.reason.contains("damaged"))
        };
        assert!(
            told(&index) && !told(&as_it_was),
            "{:?}",
            index.passing_issues()
        );
    }

    #[test]
    fn gzip_and_endings_in_capitals_are_read() {
        let root = tempfile::tempdir().unwrap();
        let samples = RootScanner::new("sample_runs/tools/codex/sessions".into())
            .scan()
            .runs;
        let text = fs::read(samples.values().next().unwrap().path()).unwrap();
        let member = |text: &[u8]| {
            let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
            packed.write_all(text).unwrap();
            packed.finish().unwrap()
        };
        // As `cat a.gz b.gz` writes it.
        let (left, right) = text.split_at(text.len() / 2);
        let packed = [member(left), member(right)].concat();
        let write = |name: &str, bytes: &[u8]| fs::write(root.path().join(name), bytes).unwrap();
        write("a.jsonl", &text);
        write("b.jsonl.gz", &packed);
        write("c.JSONL", &text);
        write("d.JSONL.GZ", &packed);
        write("e.jsonl.gz", &packed[..packed.len() - 20]);
        let runs = RootScanner::new(root.path().to_owned()).scan().runs;
        let read: Vec<(&str, Index)> = runs
            .iter()
            .map(|(key, dir)| (key.as_str(), read(dir)))
            .collect();
        let keys: Vec<&str> = read.iter().map(|(key, _)| *key).collect();
        assert_eq!(
            keys,
            ["a.jsonl", "b.jsonl", "c.JSONL", "d.JSONL", "e.jsonl"]
        );
        let (_, whole) = &read[0];
        for (key, index) in &read[1..4] {
            assert!(index.steps().iter().eq(whole.steps().iter()), "{key}");
        }
        let (_, truncated) = &read[4];
        assert!(!truncated.events().is_empty());
        let reasons = truncated.passing_issues().iter();
        let reasons: Vec<&str> = reasons.map(|issue| &*issue.reason).collect();
        assert!(
            reasons.iter().any(|reason| reason.contains("truncated")),
            "{reasons:?}"
        );
    }

    /// Returns a frame of `blocks` times 128 KiB of spaces, with four bytes each. Its window has 2
    /// to the power of `window` bytes.
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
    fn a_decompression_bomb_is_cut_off_and_reported() {
        let root = tempfile::tempdir().unwrap();
        let line = "{\"timestamp\":\"2026-05-04T09:00:00Z\",\"type\":\"session_meta\",\"payload\":{\"id\":\"a\"}}\n";
        let mut packed = compress_to_vec(line.as_bytes(), CompressionLevel::Fastest);
        packed.extend(bomb(400, 17));
        fs::write(root.path().join("rollout-1.jsonl.zst"), packed).unwrap();
        fs::write(root.path().join("rollout-2.jsonl.zst"), bomb(1, 30)).unwrap();
        let found = RootScanner::new(root.path().to_owned()).scan();
        let skipped = &found.skipped[0];
        assert!(skipped.path == "rollout-2.jsonl.zst", "{skipped:?}");
        let index = read(found.runs.values().next().unwrap());
        assert_eq!((found.runs.len(), index.events().len()), (1, 1));
        let told = index
            .passing_issues()
            .iter()
            .any(|issue| issue.reason.contains("more than 200 times that size"));
        assert!(told, "{:?}", index.passing_issues());
        assert!(index.events_file().size <= super::super::limits::RATIO_FREE_BYTES);
    }

    #[test]
    fn an_oversized_window_is_a_limit_and_not_damage() {
        let root = tempfile::tempdir().unwrap();
        let line = "{\"timestamp\":\"2026-05-04T09:00:00Z\",\"type\":\"session_meta\",\"payload\":{\"id\":\"a\"}}\n";
        let mut later = compress_to_vec(line.as_bytes(), CompressionLevel::Fastest);
        later.extend(bomb(1, 27));
        fs::write(root.path().join("rollout-1.jsonl.zst"), later).unwrap();
        fs::write(root.path().join("rollout-2.jsonl.zst"), bomb(1, 27)).unwrap();
        let found = RootScanner::new(root.path().to_owned()).scan();
        let limit = "the compressed file needs a decompression window of 128 MiB, but board allows at most 64 MiB";
        assert_eq!((found.skipped.len(), &*found.skipped[0].reason), (1, limit));
        let error = RunDir::of_file(&root.path().join("rollout-2.jsonl.zst")).unwrap_err();
        assert_eq!(error.to_string(), limit);
        // The frames before such a frame are read.
        let index = read(found.runs.values().next().unwrap());
        let told = index
            .passing_issues()
            .iter()
            .any(|issue| issue.reason.contains(limit));
        assert!(
            told && index.events().len() == 1,
            "{:?}",
            index.passing_issues()
        );
    }

    #[test]
    fn empty_frames_do_not_block_readers() {
        let empty = [0x28, 0xb5, 0x2f, 0xfd, 0, 0x38, 1, 0, 0];
        let root = tempfile::tempdir().unwrap();
        let line = "{\"timestamp\":\"2026-05-04T09:00:00Z\",\"type\":\"session_meta\",\"payload\":{\"id\":\"a\"}}\n";
        let packed = [
            empty.repeat(1_000),
            compress_to_vec(line.as_bytes(), CompressionLevel::Fastest),
        ]
        .concat();
        fs::write(root.path().join("rollout-1.jsonl.zst"), &packed).unwrap();
        let found = RootScanner::new(root.path().to_owned()).scan().runs;
        assert_eq!(read(found.values().next().unwrap()).events().len(), 1);
        let reads = Frames::new(&*empty.repeat(1_000))
            .read(&mut [0])
            .unwrap_err();
        assert_eq!(reads.kind(), std::io::ErrorKind::Interrupted);
    }

    #[test]
    fn empty_blocks_do_not_block_readers() {
        // Stored blocks of a gzip member, and raw blocks of a Zstandard frame.
        let gzip = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255];
        let frame = [0x28, 0xb5, 0x2f, 0xfd, 0, 0x38];
        for (start, block) in [
            (&gzip[..], &[0, 0, 0, 0xff, 0xff][..]),
            (&frame, &[0, 0, 0]),
        ] {
            let blocks = block.repeat((10 << 20) / block.len());
            let packed = [start, &blocks].concat();
            let error = Frames::with_idle(&*packed, 512 << 10)
                .read(&mut [0])
                .unwrap_err();
            let reason = "the compressed file has more than 524288 bytes in a row without text";
            assert!(is_lasting(&error) && error.to_string() == reason, "{error}");
            // The file is listed with the reason.
            let root = tempfile::tempdir().unwrap();
            fs::write(root.path().join("a.jsonl.gz"), packed).unwrap();
            let found = RootScanner::new(root.path().to_owned()).scan();
            let reason = "the compressed file has more than 9437183 bytes in a row without text";
            assert_eq!(
                (found.skipped.len(), &*found.skipped[0].reason),
                (1, reason)
            );
        }
    }

    /// Reads `left`, then fails once, then reads `right`.
    struct Fails<'a>(&'a [u8], Option<std::io::Error>);

    impl std::io::Read for Fails<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
            match (self.0.is_empty(), self.1.take()) {
                (true, Some(error)) => Err(error),
                (_, error) => {
                    self.1 = error;
                    self.0.read(buffer)
                }
            }
        }
    }

    #[test]
    fn only_damage_is_lasting() {
        let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
        gzip.write_all(&b"text".repeat(100)).unwrap();
        let gzip = gzip.finish().unwrap();
        let frame = compress_to_vec(&*b"text".repeat(100), CompressionLevel::Fastest);
        for packed in [gzip, frame] {
            for len in 0..packed.len() {
                let failed = std::io::Error::from_raw_os_error(5);
                let error =
                    std::io::read_to_string(Frames::new(Fails(&packed[..len], Some(failed))))
                        .unwrap_err();
                assert_eq!(error.raw_os_error(), Some(5), "{len} {error}");
                assert!(!is_lasting(&error));
                // No data is left after the failure.
                let cut = std::io::read_to_string(Frames::new(&packed[..len]));
                match cut {
                    Ok(text) => assert_eq!((len, text), (0, String::new())),
                    Err(error) => {
                        assert!(is_lasting(&error));
                        let reason = "the compressed file is damaged: it is truncated";
                        assert_eq!(error.to_string(), reason, "{len}");
                    }
                }
            }
            let interrupted = std::io::ErrorKind::Interrupted.into();
            let (left, right) = packed.split_at(packed.len() / 2);
            let input = Fails(left, Some(interrupted)).chain(right);
            let text = std::io::read_to_string(Frames::new(input)).unwrap();
            assert_eq!(text, "text".repeat(100));
        }
    }

    #[test]
    fn small_well_compressed_files_are_read() {
        let root = tempfile::tempdir().unwrap();
        let line = "{\"timestamp\":\"2026-05-04T09:00:00Z\",\"type\":\"session_meta\",\"payload\":{\"id\":\"a\"}}\n";
        let text = line.repeat(50_000);
        let packed = compress_to_vec(text.as_bytes(), CompressionLevel::Fastest);
        assert!(
            packed.len() * 250 < text.len(),
            "{} of {}",
            packed.len(),
            text.len()
        );
        fs::write(root.path().join("rollout-1.jsonl.zst"), packed).unwrap();
        let found = RootScanner::new(root.path().to_owned()).scan().runs;
        let index = read(found.values().next().unwrap());
        assert_eq!(index.events_file().size, text.len() as u64);
        assert_eq!(index.passing_issues(), []);
    }

    #[test]
    fn runs_in_a_compressed_file_are_those_of_its_text() {
        for file in [
            "sample_runs/tools/otlp/traces.jsonl",
            "tests/cases/72-openhands-output-jsonl/output.jsonl",
        ] {
            let text = fs::read(file).unwrap();
            let member = |text: &[u8]| {
                let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
                packed.write_all(text).unwrap();
                packed.finish().unwrap()
            };
            let scan = |name: &str, bytes: &[u8]| {
                let root = tempfile::tempdir().unwrap();
                fs::write(root.path().join(name), bytes).unwrap();
                let found = RootScanner::new(root.path().to_owned()).scan();
                (root, found)
            };
            let (_plain, plain) = scan("a.jsonl", &text);
            assert!(
                plain.runs.len() > 1 && plain.skipped.is_empty(),
                "{plain:?}"
            );
            for (name, packed) in [
                ("a.jsonl.gz", member(&text)),
                (
                    "a.jsonl.zst",
                    compress_to_vec(&*text, CompressionLevel::Fastest),
                ),
            ] {
                let (_root, found) = scan(name, &packed);
                assert!(found.runs.keys().eq(plain.runs.keys()), "{found:?}");
                assert_eq!(found.skipped, []);
                for (dir, plain) in found.runs.values().zip(plain.runs.values()) {
                    let (index, expected) = (read(dir), read(plain));
                    assert!(!index.steps().is_empty());
                    assert!(index.steps().iter().eq(expected.steps().iter()));
                    let step = index.steps().iter().next().unwrap().span;
                    let line = |dir: &RunDir, index: &Index| {
                        dir.line(|| index, TraceFile::Steps, step).unwrap()
                    };
                    assert_eq!(line(dir, &index), line(plain, &expected));
                    let all = |dir: &RunDir| dir.read_all(TraceFile::Events, 1 << 20).unwrap();
                    assert_eq!(all(dir), all(plain));
                    assert_eq!(index.passing_issues(), expected.passing_issues());
                }
            }
            let packed = member(&text);
            let (_root, found) = scan("a.jsonl.gz", &packed[..packed.len() - 20]);
            assert!(!found.runs.is_empty());
            let skipped = &found.skipped[0];
            assert_eq!(skipped.path, "a.jsonl.gz");
            assert_eq!(
                skipped.reason,
                "the compressed file is damaged: it is truncated"
            );
        }
    }

    #[test]
    fn copied_lines_are_found_in_a_compressed_session() {
        let own = "5f0c7a52-6d0e-4a53-9b0c-0f6f2b3f1a01";
        let other = "5f0c7a52-6d0e-4a53-9b0c-0f6f2b3f1a09";
        let line = |id: &str, uuid: &str| {
            format!(
                "{{\"sessionId\":\"{id}\",\"uuid\":\"{uuid}\",\"type\":\"user\",\"message\":{{\"role\":\"user\",\"content\":\"Go\"}},\"timestamp\":\"2026-05-04T09:00:00Z\"}}\n"
            )
        };
        let text = line(other, "a") + &line(own, "b");
        let packed = compress_to_vec(text.as_bytes(), CompressionLevel::Fastest);
        for (ending, bytes) in [(".jsonl", text.as_bytes()), (".jsonl.zst", &packed)] {
            let root = tempfile::tempdir().unwrap();
            fs::write(root.path().join(format!("{own}{ending}")), bytes).unwrap();
            let found = RootScanner::new(root.path().to_owned()).scan().runs;
            let index = read(found.values().next().unwrap());
            let copied = index
                .manifest()
                .get()
                .and_then(|manifest| manifest.copied.as_ref());
            let from = copied.and_then(|copied| copied.from.as_deref());
            assert_eq!(from, Some(other), "{ending}");
        }
    }
}
