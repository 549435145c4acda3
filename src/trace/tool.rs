//! Reads new content in the file of another tool's run since the last read: bytes in, results of
//! its reader out.

use std::io;
use std::time::Duration;

use super::beside::BesideFile;
use super::children;
use super::dir::RunDir;
use super::document::Document;
use super::numbered_tail::Numbered;
use super::patience::Patience;
use super::records::{each_record, is_record};
use super::stamp::Stamp;
use super::tail::{Look, Tail};
use crate::format::{Draft, EventDraft, Open, Reader, RecordPlace, Shape, Source, Tool};
use crate::model::{Delta, Fate, Names, Record, TraceFile};

/// Follows the file of another tool's run.
#[derive(Debug)]
pub(super) struct ToolFile {
    tool: &'static Tool,
    tail: Tail,
    document: Document,
    numbered: Numbered,
    beside: BesideFile,
    reader: Box<dyn Reader>,
    open: Open,
}

impl ToolFile {
    pub(super) fn new(tool: &'static Tool) -> Self {
        let (tail, document) = (Tail::new(TraceFile::Events), Document::default());
        let (numbered, beside) = (Numbered::default(), BesideFile::default());
        Self {
            tool,
            tail,
            document,
            numbered,
            beside,
            reader: tool.reader(),
            open: Open::new(&tool.format, tool.shape),
        }
    }

    /// Returns the stamp of the file at the last read.
    pub(super) fn seen(&self) -> Option<Stamp> {
        self.tail
            .seen()
            .or(self.document.seen())
            .or(self.numbered.seen())
    }

    /// Returns whether any of it was published.
    pub(super) fn has_read(&self) -> bool {
        self.tail.has_read() || self.document.has_read() || self.numbered.seen().is_some()
    }

    /// Returns the stamp of the document next to the records at the last read.
    pub(super) fn seen_beside(&self) -> Option<Stamp> {
        self.document
            .seen_beside()
            .or(self.numbered.seen_beside())
            .or(self.beside.seen())
    }

    /// Returns whether a document is being read again, so that the published version may be
    /// outdated.
    pub(super) fn is_under_way(&self) -> bool {
        self.document.is_under_way()
    }

    /// Returns what is wrong with the file as a whole, if it's compressed.
    pub(super) fn fault(&self) -> Option<&str> {
        self.tail.fault()
    }

    /// Returns whether another read may find something although the file doesn't change.
    pub(super) fn is_unsettled(&self, look: &io::Result<Look>) -> bool {
        let lines = look.as_ref().is_ok_and(|look| self.tail.is_unsettled(look));
        lines
            || look.as_ref().is_ok_and(|look| look.busy || look.waits)
            || self.document.is_unsettled()
            || self.numbered.is_unsettled()
            || self.beside.is_torn()
    }

    /// Publishes what is new, reading at most about `limit` bytes.
    ///
    /// # Errors
    /// Fails if the file can't be read now.
    pub(super) fn look(
        &mut self,
        dir: &RunDir,
        (limit, patience): (u64, Patience),
        settle: Duration,
        names: &mut Names,
        delta: &mut Delta,
    ) -> io::Result<Look> {
        let paths = match self.tool.shape {
            Shape::Document(paths) | Shape::Directory { paths, .. } => Some(paths),
            Shape::Several(several) => Some(several.paths),
            Shape::Composed(composed) => Some(composed.paths),
            Shape::Lines | Shape::LinesBelow { .. } | Shape::Files { .. } => None,
        };
        if let Some(paths) = paths {
            return self
                .document
                .look(dir, (self.tool, paths), (limit, patience), names, delta);
        }
        let Self {
            tail,
            numbered,
            beside,
            reader,
            open,
            ..
        } = self;
        if let Shape::Files { numbering, .. } = self.tool.shape {
            let mut draft = Draft::new(open, names, delta);
            let look = numbered.look(dir, numbering, limit, reader.as_mut(), &mut draft);
            if look.as_ref().is_ok_and(|look| look.restarted) {
                return look;
            }
            reader.look(&mut draft);
            draft.end();
            numbered.passing(delta);
            return look;
        }
        if dir.has_clock() {
            if beside.look_at_clock(dir, reader.as_mut()) && tail.has_read() {
                return Ok(Look {
                    restarted: true,
                    ..Look::default()
                });
            }
        } else if matches!(self.tool.shape, Shape::LinesBelow { .. }) || dir.has_companion() {
            beside.look(dir, reader.as_mut())?;
            beside.passing(delta);
        }
        let mut issues = Vec::new();
        let mut draft = Draft::new(open, names, delta);
        let look = tail.look(dir, (limit, patience), settle, is_record, |line| {
            each_record(TraceFile::Events, line, &mut issues, |line| {
                let Record {
                    text,
                    fate,
                    remarks,
                } = match line.bytes {
                    Some(bytes) => Record::whole(bytes),
                    None => unread(),
                };
                let fate = line.fate(fate);
                if fate == Fate::Unreadable && line.may_hold_records {
                    return Err(remarks);
                }
                draft.at(RecordPlace {
                    span: line.span,
                    line: line.number,
                    fate,
                });
                if fate.is_readable() {
                    reader.record(
                        Source {
                            text: &text,
                            path: 0,
                            key: "",
                            file: dir.path(),
                        },
                        &mut draft,
                    );
                } else {
                    draft.event(EventDraft {
                        failed: true,
                        ..EventDraft::default()
                    });
                }
                Ok(remarks)
            });
        });
        if look.as_ref().is_ok_and(|look| look.restarted) {
            return look;
        }
        // The part that can't be decompressed may contain the end.
        draft.run().damage = tail.fault().map(Box::from);
        reader.look(&mut draft);
        let run = draft.run();
        let beside = children::count(dir, run.run_id.as_deref());
        run.children = run.children.max(Some(beside).filter(|beside| *beside > 0));
        if let Some(total) = run.total.as_mut().filter(|total| total.counts_children) {
            total.has_children |= beside > 0;
        }
        draft.end();
        delta.issues.append(&mut issues);
        if look.is_err() {
            tail.forget_look();
        }
        look
    }
}

/// Returns the record for a line that is too long to be parsed.
fn unread() -> Record<'static> {
    Record {
        text: Default::default(),
        fate: Fate::Unreadable,
        remarks: Vec::new(),
    }
}
