//! Reads new content of a run since the last read: bytes in, heads and issues out.

use std::io;
use std::time::Duration;

use super::dir::RunDir;
use super::manifest::ManifestTail;
use super::patience::{Patience, is_lasting, unread};
use super::records::{each_record, is_record};
use super::stamp::Stamps;
use super::tail::{Look, Tail};
use super::tool::ToolFile;
use crate::format;
use crate::model::words::grouped;
use crate::model::{Delta, EventHead, Fate, Index, Issue, IssueKind, Names, StepHead, TraceFile};

/// A last line without its line terminator counts as a record once the file has been quiet for this
/// long. A writer's two calls for one line (text, then LF) are microseconds apart.
pub const SETTLE: Duration = Duration::from_secs(2);

/// The bytes read at a time when a whole run is read. Larger pieces would cost memory: while data
/// is parsed, it takes more memory than its part of the index.
pub const PIECE_BYTES: u64 = 4 << 20;

/// Follows the three files of one run.
#[derive(Debug)]
pub struct RunReader {
    dir: RunDir,
    names: Names,
    steps: Tail,
    events: Tail,
    manifest: ManifestTail,
    /// Reads the file of another tool. The three readers above are unused then.
    tool: Option<ToolFile>,
    settle: Duration,
    /// The hash of the newest step line, to recognize copies of it.
    newest_step: Option<u64>,
    /// Whether a file was replaced, so that the next delta starts over.
    restarted: bool,
    unsettled: bool,
    /// Whether a file couldn't be read last time.
    failed: bool,
    /// Whether a writer held a lease on a file at the last read.
    busy: bool,
    /// Whether a file was being decompressed, or a document waited for others, at the last read.
    waits: bool,
}

/// Reads a run completely, as it is now, without waiting for writers to finish their lines.
pub fn read_index(dir: &RunDir) -> Index {
    RunReader::settling(dir.clone(), Duration::ZERO).read_whole()
}

impl RunReader {
    /// Creates a reader at the start of the run in `dir`.
    pub fn new(dir: RunDir) -> Self {
        Self::settling(dir, SETTLE)
    }

    /// Creates a reader that considers files quiet after `settle`. Use zero for a single read of
    /// files that aren't being written.
    pub fn settling(dir: RunDir, settle: Duration) -> Self {
        let tool = dir.tool().map(ToolFile::new);
        Self {
            dir,
            names: Names::default(),
            steps: Tail::new(TraceFile::Steps),
            events: Tail::new(TraceFile::Events),
            manifest: ManifestTail::default(),
            tool,
            settle,
            newest_step: None,
            restarted: false,
            unsettled: false,
            failed: false,
            busy: false,
            waits: false,
        }
    }

    /// Returns the run directory.
    pub fn dir(&self) -> &RunDir {
        &self.dir
    }

    /// Returns whether another read may find something even if no file changes: an unfinished line
    /// may turn out to be complete, or bytes have to be compared once more.
    pub fn is_unsettled(&self) -> bool {
        self.unsettled
    }

    /// Returns whether a writer held a lease on a file at the last read, so that not everything was
    /// read.
    pub fn is_busy(&self) -> bool {
        self.busy
    }

    /// Returns whether a file is being decompressed, or a document waits for others. A read after
    /// that finds more.
    pub fn waits(&self) -> bool {
        self.waits
    }

    /// Returns whether a document is being read again, so that another read immediately finds more.
    /// The version published before remains complete until then.
    pub fn is_under_way(&self) -> bool {
        self.tool.as_ref().is_some_and(ToolFile::is_under_way)
    }

    /// Returns the stamps of the files at the last read. Returns `None` if there is more to read,
    /// if another read may find something, or if a file changed so recently that its next change
    /// may not show.
    ///
    /// Also returns `None` if a new reader might report something else: after a file couldn't be
    /// read, and while the manifest is damaged.
    pub fn stamps(&self) -> Option<Stamps> {
        let stamps = self.seen();
        let special = self.unsettled || self.failed || self.manifest.is_faulty();
        (!special && stamps.are_settled()).then_some(stamps)
    }

    /// Returns the stamps like [`Self::stamps`], for files that are gone: they may have changed just
    /// before the last read, but they can't grow any more.
    pub(crate) fn last_stamps(&self) -> Option<Stamps> {
        let special = self.failed || self.busy || self.manifest.is_faulty();
        (!special).then(|| self.seen())
    }

    /// Returns the stamps of the files at the last read.
    pub fn seen(&self) -> Stamps {
        if let Some(tool) = &self.tool {
            return Stamps([tool.seen_beside(), tool.seen(), tool.seen()]);
        }
        Stamps([self.manifest.seen(), self.steps.seen(), self.events.seen()])
    }

    /// Reads everything, with a reader that hasn't read anything yet.
    pub fn read_whole(&mut self) -> Index {
        self.read_whole_with(Patience::Wait)
    }

    /// Reads like [`Self::read_whole`], but for a request, which waits like [`Self::refresh_patiently`].
    pub(crate) fn read_whole_in_turn(&mut self) -> Index {
        self.read_whole_with(Patience::Turn)
    }

    fn read_whole_with(&mut self, patience: Patience) -> Index {
        let mut index = Index::default();
        loop {
            index.apply(self.refresh_with(PIECE_BYTES, patience));
            if !index.is_partial() {
                return index;
            }
        }
    }

    /// Checks the three files, reads at most about `limit` bytes of each, and returns what is
    /// new.
    pub fn refresh(&mut self, limit: u64) -> Delta {
        // A caller that reads in pieces has other work to do. A single read of files that aren't
        // being written waits.
        let is_patient = limit == u64::MAX || self.settle.is_zero();
        self.refresh_with(
            limit,
            if is_patient {
                Patience::Wait
            } else {
                Patience::Now
            },
        )
    }

    /// Reads like [`Self::refresh`], but waits for files that are being decompressed or listed, and
    /// up to 30 s for other documents that take much memory.
    pub fn refresh_patiently(&mut self, limit: u64) -> Delta {
        self.refresh_with(limit, Patience::Turn)
    }

    fn refresh_with(&mut self, limit: u64, patience: Patience) -> Delta {
        let mut delta = Delta::default();
        if self.read_into(&mut delta, (limit, patience)) {
            return delta;
        }
        // A file was replaced, so read once more from the start. A second replacement is left to
        // the next read.
        delta = Delta::default();
        self.read_into(&mut delta, (limit, patience));
        delta
    }

    /// Returns false if the pass must be repeated from the start.
    fn read_into(&mut self, delta: &mut Delta, limit: (u64, Patience)) -> bool {
        delta.restarted = std::mem::take(&mut self.restarted);
        let handed_out = if delta.restarted { 0 } else { self.names.len() };
        if let Some(tool) = &mut self.tool {
            let look = tool.look(&self.dir, limit, self.settle, &mut self.names, delta);
            if look.as_ref().is_ok_and(|look| look.restarted) {
                *self = Self {
                    restarted: true,
                    ..Self::settling(self.dir.clone(), self.settle)
                };
                return false;
            }
            self.failed = look.is_err();
            self.unsettled =
                tool.is_unsettled(&look) || look.as_ref().is_err_and(|error| !is_lasting(error));
            self.busy = look.as_ref().is_ok_and(|look| look.busy);
            self.waits = look.as_ref().is_ok_and(|look| look.waits);
            let look = settle_look(TraceFile::Events, look, tool.has_read(), delta);
            let torn = |reason| Issue {
                kind: IssueKind::Torn,
                file: TraceFile::Events,
                line: None,
                offset: None,
                reason,
            };
            let packed = || {
                Some(format!(
                    "{}; everything before that was read",
                    tool.fault()?
                ))
            };
            delta
                .passing
                .extend(packed().or_else(|| self.dir.fault()).map(torn));
            delta.event_confirmed = look.confirmed;
            (delta.steps_file, delta.events_file, delta.more) = (look.state, look.state, look.more);
            delta.is_packed = self.dir.is_unpacked();
            // A document that was read again has its own names.
            delta.names = self
                .names
                .since(if delta.restarted { 0 } else { handed_out })
                .to_vec();
            return true;
        }
        // Steps are read before events. A step's events are on disk before its line, so they are
        // all available with it.
        let (names, newest) = (&mut self.names, &mut self.newest_step);
        let mut issues = Vec::new();
        let steps = self
            .steps
            .look(&self.dir, limit, self.settle, is_record, |line| {
                each_record(TraceFile::Steps, line, &mut issues, |line| {
                    let (mut head, remarks) = match line.bytes {
                        Some(bytes) => format::step_head(bytes, names),
                        None => (
                            StepHead {
                                fate: Fate::Unreadable,
                                ..StepHead::default()
                            },
                            Vec::new(),
                        ),
                    };
                    head.fate = line.fate(head.fate);
                    if head.fate == Fate::Unreadable && line.may_hold_records {
                        return Err(remarks);
                    }
                    (head.span, head.line) = (line.span, line.number);
                    let print = line.bytes.map(StepHead::print_of);
                    head.repeats = print.is_some() && print == std::mem::replace(newest, print);
                    delta.steps.push(head);
                    Ok(remarks)
                });
            });
        let events = self
            .events
            .look(&self.dir, limit, self.settle, is_record, |line| {
                each_record(TraceFile::Events, line, &mut issues, |line| {
                    let (mut head, note, remarks) = match line.bytes {
                        Some(bytes) => format::event_head(bytes, names),
                        None => (
                            EventHead {
                                fate: Fate::Unreadable,
                                ok: true,
                                ..EventHead::default()
                            },
                            None,
                            Vec::new(),
                        ),
                    };
                    head.fate = line.fate(head.fate);
                    if head.fate == Fate::Unreadable && line.may_hold_records {
                        return Err(remarks);
                    }
                    (head.span, head.line) = (line.span, line.number);
                    delta.events.push((head, note));
                    Ok(remarks)
                });
            });
        delta.issues.append(&mut issues);
        if [&steps, &events]
            .into_iter()
            .any(|look| look.as_ref().is_ok_and(|look| look.restarted))
        {
            *self = Self {
                restarted: true,
                ..Self::settling(self.dir.clone(), self.settle)
            };
            return false;
        }
        delta.manifest = self.manifest.look(&self.dir);
        let is_away =
            |look: &io::Result<Look>| look.as_ref().is_err_and(|error| !is_lasting(error));
        self.unsettled =
            self.manifest.wants_another_look(self.settle) || is_away(&steps) || is_away(&events);
        self.failed = steps.is_err() || events.is_err();
        self.busy = [&steps, &events]
            .iter()
            .any(|look| look.as_ref().is_ok_and(|look| look.busy));
        delta
            .passing
            .extend(self.manifest.issues(self.settle).cloned());
        delta.passing.extend(self.manifest.renamed(self.dir.path()));
        for (tail, look) in [(&mut self.steps, &steps), (&mut self.events, &events)] {
            match look {
                Ok(look) => self.unsettled |= tail.is_unsettled(look),
                Err(_) => tail.forget_look(),
            }
        }
        let steps = settle_look(TraceFile::Steps, steps, self.steps.has_read(), delta);
        let events = settle_look(TraceFile::Events, events, self.events.has_read(), delta);
        (delta.step_confirmed, delta.steps_file) = (steps.confirmed, steps.state);
        (delta.event_confirmed, delta.events_file) = (events.confirmed, events.state);
        delta.more = steps.more || events.more;
        delta.names = self.names.since(handed_out).to_vec();
        true
    }
}

/// Reports the result of a read of a file. After a failed read, the content read before stays, if
/// there is any, and the issue says that it's old.
fn settle_look(file: TraceFile, look: io::Result<Look>, has_read: bool, delta: &mut Delta) -> Look {
    let mut tell = |kind, line, offset, reason| {
        delta.passing.push(Issue {
            kind,
            file,
            line,
            offset,
            reason,
        })
    };
    let look = match look {
        Ok(look) => look,
        Err(error) => {
            let old = if has_read {
                "; showing what was read before that, which may be out of date"
            } else {
                ""
            };
            let (kind, reason) = unread(&error);
            tell(kind, None, None, format!("{reason}{old}"));
            return Look::default();
        }
    };
    if look.busy {
        let reason = "can't be read right now: another program has locked it; retrying".to_owned();
        tell(IssueKind::Away, None, None, reason);
    }
    if look.rest > 0 && !look.more {
        let reason = format!(
            "the last {} bytes aren't a complete line",
            grouped(look.rest)
        );
        tell(IssueKind::Torn, None, Some(look.state.read), reason);
    }
    if let Some((line, offset)) = look.provisional {
        tell(
            IssueKind::Unterminated,
            Some(line),
            Some(offset),
            "the last line has no newline".to_owned(),
        );
    }
    look
}
