//! Reads the complete lines that were added to a file since the last read. Offsets in, lines out,
//! without knowing what a line means.
//!
//! Lines end at LF only, because Python writes U+2028 and similar characters raw inside strings.
//! The bytes after the last LF aren't a line yet. If the file has been quiet for a while and these
//! bytes are a complete record, they are passed on as a provisional line. A writer that is killed
//! between its two write calls leaves exactly that.

use std::io;
use std::time::{Duration, Instant};

use super::content::Content;
use super::dir::RunDir;
use super::patience::{Patience, is_pending};
use super::read_at::ReadAt as _;
use super::stamp::{Stamp, TICK};
use super::sums::{BLOCK_BYTES, Sums};
use crate::model::index::FileState;
use crate::model::{Fate, MAX_LINE_BYTES, Span, TraceFile};

/// The bytes read at a time.
const CHUNK_BYTES: usize = 1 << 20;
/// The size that a shorter line counts as, if a read has a limit. Its head takes more than a short
/// line.
const MIN_LINE_BYTES: u64 = 256;
/// The bytes before the offset, and at the start of the file, that are compared to detect a
/// rewritten file.
const MARK_BYTES: u64 = 64;
/// The number of old blocks compared at each read while the file is quiet.
const QUIET_BLOCKS: usize = 16;

/// A position in a growing file.
#[derive(Debug)]
pub(super) struct Tail {
    file: TraceFile,
    /// The stamp at the last read.
    seen: Option<Stamp>,
    /// The end of the last line passed on.
    offset: u64,
    /// There is no LF between `offset` and this offset.
    scanned: u64,
    /// The number of lines passed on or skipped so far, including blank ones.
    lines: u64,
    /// The expected bytes at the start, and before `offset`.
    head: Vec<u8>,
    mark: Vec<u8>,
    /// The checksums of the bytes between the two.
    sums: Sums,
    /// How many blocks must still be compared, because the file may not only have grown.
    doubted: usize,
    /// When the file was last seen to change.
    changed: Instant,
    /// The start of the last line, if it was passed on without its LF.
    provisional: Option<u64>,
    /// Whether the bytes after the last LF were examined since the file last changed, and aren't a
    /// record.
    rest_judged: bool,
    more: bool,
    /// The length of the text when it was last opened. For an uncompressed file, this is its size.
    size: u64,
    /// Why the text couldn't be decompressed completely, if that's so.
    fault: Option<String>,
}

/// The difference between the file's current metadata and the last read's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum News {
    Nothing,
    /// The file is seen for the first time, or it grew.
    Grown,
    /// The file changed without growing.
    Touched,
    /// A different file has the name.
    Replaced,
}

/// The result of a read of a file, apart from its lines.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Look {
    /// Whether the file was replaced. Nothing was read, and the caller must start over.
    pub(super) restarted: bool,
    /// Whether the provisional line got its LF.
    pub(super) confirmed: bool,
    /// The state of the file.
    pub(super) state: FileState,
    /// Whether there is more to read.
    pub(super) more: bool,
    /// Whether a writer holds a lease on the file, so that another read is needed.
    pub(super) busy: bool,
    /// Whether the file is being decompressed, so that another read is needed.
    pub(super) waits: bool,
    /// The number of bytes after the last line terminator that weren't passed on.
    pub(super) rest: u64,
    /// The number and offset of a last line that was passed on without its line terminator.
    pub(super) provisional: Option<(u64, u64)>,
}

/// A line of a file.
#[derive(Debug, Clone, Copy)]
pub(super) struct Line<'a> {
    pub(super) span: Span,
    /// The 1-based line number.
    pub(super) number: u64,
    /// `None` if the line is longer than [`MAX_LINE_BYTES`].
    pub(super) bytes: Option<&'a [u8]>,
    pub(super) provisional: bool,
    /// Whether to search the line for complete records if it isn't one itself.
    pub(super) may_hold_records: bool,
}

impl Line<'_> {
    /// Returns the line's fate, given the fate of its content.
    pub(super) fn fate(&self, fate: Fate) -> Fate {
        if self.provisional && fate == Fate::Good {
            Fate::Provisional
        } else {
            fate
        }
    }
}

impl Tail {
    pub(super) fn new(file: TraceFile) -> Self {
        Self {
            file,
            seen: None,
            offset: 0,
            scanned: 0,
            lines: 0,
            head: Vec::new(),
            mark: Vec::new(),
            sums: Sums::default(),
            doubted: 0,
            changed: Instant::now(),
            provisional: None,
            rest_judged: false,
            more: false,
            size: 0,
            fault: None,
        }
    }

    /// Returns why the file couldn't be decompressed completely, if that's so.
    pub(super) fn fault(&self) -> Option<&str> {
        self.fault.as_deref()
    }

    /// Returns the stamp of the file at the last read, or `None` if it didn't exist.
    pub(super) fn seen(&self) -> Option<Stamp> {
        self.seen
    }

    /// Returns whether any line of the file was passed on.
    pub(super) fn has_read(&self) -> bool {
        self.lines > 0
    }

    /// Forgets the last read because it failed, so that the next one tries again even if the file
    /// doesn't change.
    pub(super) fn forget_look(&mut self) {
        self.seen = None;
    }

    /// Returns whether another read may find something although the file doesn't change.
    pub(super) fn is_unsettled(&self, look: &Look) -> bool {
        self.more
            || look.busy
            || look.waits
            || self.doubted > 0
            || (look.rest > 0 && !self.rest_judged)
    }

    /// Passes on new lines, reading at most about `limit` bytes.
    ///
    /// `is_record` returns whether an unfinished last line is complete. It's called once the file
    /// was quiet for `settle`.
    ///
    /// # Errors
    /// Returns the error of opening or reading. The position is then unchanged.
    pub(super) fn look(
        &mut self,
        dir: &RunDir,
        (limit, patience): (u64, Patience),
        settle: Duration,
        is_record: impl Fn(&[u8]) -> bool,
        mut on_line: impl FnMut(Line<'_>),
    ) -> io::Result<Look> {
        let stamp = match dir.stat(self.file) {
            Ok(stamp) => stamp,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Ok(Look {
                    restarted: self.offset > 0,
                    ..Look::default()
                });
            }
            Err(error) => return Err(error),
        };
        let (mut stamp, mut news) = (stamp, self.notice(stamp));
        let is_packed = dir.is_packed();
        // The length of a compressed file's text is unknown until it's decompressed, and that of
        // records before a file until they are made.
        let is_longer = is_packed || dir.may_be_continued();
        let size = if is_longer { self.size } else { stamp.size };
        let judged = self.offset >= size || self.provisional.is_some() || self.rest_judged;
        if news == News::Nothing && !self.more && judged && !self.may_compare() {
            return Ok(self.state(size, Look::default()));
        }
        let (file, opened) = match dir.open(self.file, patience) {
            Ok(opened) => opened,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                // Keep what is known.
                self.forget_look();
                let waits = is_pending(&error);
                let state = self.state(size, Look::default());
                return Ok(Look {
                    busy: !waits,
                    waits,
                    more: waits || state.more,
                    rest: 0,
                    ..state
                });
            }
            Err(error) => return Err(error),
        };
        if opened.id != stamp.id {
            (stamp, news) = (opened, self.notice(opened));
        }
        let size = if is_longer { opened.size } else { stamp.size };
        self.size = size;
        self.fault = file.fault().map(str::to_owned);
        if is_packed && news == News::Grown && self.offset > 0 {
            // The file was compressed again, so its growth doesn't show how much text is new.
            news = News::Touched;
        }
        if self.offset > 0 && (news == News::Replaced || size < self.offset) {
            return Ok(Look {
                restarted: true,
                ..Look::default()
            });
        }
        let in_pieces = self.more;
        if !self.still_the_same(&file)? || !self.compare(&file, news, limit)? {
            return Ok(Look {
                restarted: true,
                ..Look::default()
            });
        }
        // No mark covers the bytes after the last line. They are searched again, unless they are
        // long and only grew.
        if news == News::Replaced
            || size < self.scanned
            || self.scanned - self.offset < CHUNK_BYTES as u64
        {
            self.scanned = self.offset;
        }
        let mut look = Look::default();
        if self.provisional.is_some() {
            match self.line_end_follows(&file)? {
                None => return Ok(self.state(size, look)),
                Some(false) => {
                    return Ok(Look {
                        restarted: true,
                        ..look
                    });
                }
                Some(true) => look.confirmed = true,
            }
        }
        let size = self.read_lines(&file, size, limit, &mut on_line)?.max(size);
        if !self.more && size > self.offset && self.changed.elapsed() >= settle {
            self.hand_out_rest(&file, size, is_record, on_line)?;
        }
        if (news != News::Nothing || in_pieces) && self.changed.elapsed() < settle.max(TICK) {
            self.doubted = self.sums.len();
        }
        if self.head.is_empty() {
            self.head = bytes_at(&file, 0, self.offset.min(MARK_BYTES))?;
        }
        let start = self.offset.saturating_sub(MARK_BYTES);
        self.mark = bytes_at(&file, start, self.offset - start)?;
        Ok(self.state(size, look))
    }

    fn state(&self, size: u64, look: Look) -> Look {
        let state = FileState {
            exists: true,
            size,
            read: self.offset,
        };
        let provisional = self.provisional.map(|start| (self.lines, start));
        Look {
            state,
            more: self.more,
            rest: size.saturating_sub(self.offset),
            provisional,
            ..look
        }
    }

    /// Records the file's stamp and returns the difference.
    fn notice(&mut self, seen: Stamp) -> News {
        let before = self.seen.replace(seen);
        if before == Some(seen) {
            return News::Nothing;
        }
        self.rest_judged = false;
        self.changed = Instant::now();
        if before.is_none()
            && let Some(age) = seen.age()
        {
            // A file that was quiet before board started need not be quiet again.
            self.changed = self.changed.checked_sub(age).unwrap_or(self.changed);
        }
        match before {
            Some(before) if before.id != seen.id => News::Replaced,
            Some(before) if before.size >= seen.size => News::Touched,
            _ => News::Grown,
        }
    }

    /// Returns whether there are blocks to compare and the file is quiet. A change within one tick
    /// of the file system's clock after the comparison would have the same stamp.
    fn may_compare(&self) -> bool {
        self.doubted > 0 && !self.more && self.changed.elapsed() >= TICK
    }

    /// Compares the bytes read before with the file. Returns whether they are unchanged.
    ///
    /// If the file grew, one block suffices for now. The rest is compared once it's quiet, so that
    /// a run that appends for hours isn't read again and again.
    fn compare(&mut self, file: &Content, news: News, limit: u64) -> io::Result<bool> {
        let count = match news {
            News::Nothing if self.may_compare() => QUIET_BLOCKS,
            News::Nothing | News::Replaced => 0,
            News::Grown => 1,
            News::Touched => usize::try_from(limit / BLOCK_BYTES).unwrap_or(usize::MAX),
        };
        if news == News::Nothing {
            self.doubted = self.doubted.saturating_sub(count);
        }
        self.sums.agree(file, count)
    }

    fn still_the_same(&self, file: &Content) -> io::Result<bool> {
        let start = self.offset - self.mark.len() as u64;
        Ok(bytes_at(file, 0, self.head.len() as u64)? == self.head
            && bytes_at(file, start, self.mark.len() as u64)? == self.mark)
    }

    /// Returns whether the byte after the provisional line is its LF, or `None` if there is no byte
    /// yet.
    fn line_end_follows(&mut self, file: &Content) -> io::Result<Option<bool>> {
        let mut next = [0];
        if file.read_at(&mut next, self.offset)? == 0 {
            return Ok(None);
        }
        if next == *b"\n" {
            self.sums.add(self.offset, &next);
            self.offset += 1;
            self.scanned = self.offset;
            self.provisional = None;
            return Ok(Some(true));
        }
        Ok(Some(false))
    }

    /// Reads and passes on complete lines. Returns the end of the file as far as it was seen.
    fn read_lines(
        &mut self,
        file: &Content,
        size: u64,
        limit: u64,
        on_line: &mut impl FnMut(Line<'_>),
    ) -> io::Result<u64> {
        let mut chunk = Vec::new();
        let stop = self.scanned.saturating_add(limit);
        let last = self.lines.saturating_add((limit / MIN_LINE_BYTES).max(1));
        self.more = false;
        loop {
            let from = self.scanned;
            // One byte more than expected, so that a full chunk means that there may be more.
            let expected = usize::try_from(size.saturating_sub(from)).unwrap_or(CHUNK_BYTES);
            let wanted = (expected + 1).min(CHUNK_BYTES);
            chunk.resize(wanted, 0);
            let read = file.read_at(&mut chunk, from)?;
            chunk.truncate(read);
            let mut at = 0;
            for end in memchr::memchr_iter(b'\n', &chunk) {
                let line_end = from + end as u64;
                let span = Span {
                    offset: self.offset,
                    len: line_end - self.offset,
                };
                if self.offset < from {
                    self.hand_out_long(file, span, on_line)?;
                } else {
                    self.hand_out(span, chunk.get(at..end), false, on_line);
                }
                at = end + 1;
                self.offset = line_end + 1;
                if self.lines >= last {
                    break;
                }
            }
            if self.lines >= last {
                (self.scanned, self.more) = (self.offset, true);
                return Ok(from + read as u64);
            }
            // A line that begins in this chunk is read again from its start, unless the chunk
            // contains no other.
            self.scanned = if at > 0 && read == wanted {
                self.offset
            } else {
                from + read as u64
            };
            if read < wanted {
                return Ok(from + read as u64);
            }
            if self.scanned >= stop {
                self.more = true;
                return Ok(self.scanned);
            }
        }
    }

    fn hand_out_long(
        &mut self,
        file: &Content,
        span: Span,
        on_line: &mut impl FnMut(Line<'_>),
    ) -> io::Result<()> {
        let bytes = if span.len <= MAX_LINE_BYTES {
            Some(bytes_at(file, span.offset, span.len)?)
        } else {
            None
        };
        self.hand_out(span, bytes.as_deref(), false, on_line);
        Ok(())
    }

    fn hand_out(
        &mut self,
        span: Span,
        bytes: Option<&[u8]>,
        provisional: bool,
        on_line: &mut impl FnMut(Line<'_>),
    ) {
        self.lines += 1;
        if let Some(bytes) = bytes {
            self.sums.add(span.offset, bytes);
        }
        if !provisional {
            self.sums.add(span.offset + span.len, b"\n");
        }
        on_line(Line {
            span,
            number: self.lines,
            bytes,
            provisional,
            may_hold_records: false,
        });
    }

    fn hand_out_rest(
        &mut self,
        file: &Content,
        size: u64,
        is_record: impl Fn(&[u8]) -> bool,
        mut on_line: impl FnMut(Line<'_>),
    ) -> io::Result<()> {
        let span = Span {
            offset: self.offset,
            len: size - self.offset,
        };
        self.rest_judged = true;
        if span.len > MAX_LINE_BYTES {
            return Ok(());
        }
        let bytes = bytes_at(file, span.offset, span.len)?;
        if is_record(&bytes) {
            self.hand_out(span, Some(&bytes), true, &mut on_line);
            self.provisional = Some(self.offset);
            self.offset = size;
            self.scanned = size;
        }
        Ok(())
    }
}

fn bytes_at(file: &Content, offset: u64, len: u64) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; usize::try_from(len).map_err(io::Error::other)?];
    match file.read_exact_at(&mut bytes, offset) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(Vec::new()),
        done => done.map(|()| bytes),
    }
}
