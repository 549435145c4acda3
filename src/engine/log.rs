//! Keeps the records of a run in memory, and writes them to disk if the run has a writer.
//!
//! Events that follow each other without waiting are written together: [`Log::flush`] is called
//! before anything that may take time, so that viewers see what has begun.
//!
//! The first failed write is remembered and ends the run. The end is still written if possible,
//! because the writer keeps a reserve for it.

use serde::Serialize;

use super::recorder::StepLine;
use super::result::{EventRecord, StepRecord};
use super::toolbox::clip;
use crate::stop::{Code, Source};
use crate::trace::{EventLine, RunEnd, RunInfo, RunWriter, WriteError};

/// Maximum length of an error's message in the result, in bytes. The trace has all of it.
const MAX_ERROR_BYTES: usize = 1 << 10;

/// The records of a run.
#[derive(Default)]
pub(super) struct Log {
    writer: Option<RunWriter>,
    /// Why the trace is incomplete.
    pub(super) broken: Option<String>,
    pub(super) steps: Vec<StepRecord>,
    pub(super) events: Vec<EventRecord>,
    /// Whether the run has begun and isn't closed. Always false without a writer.
    pub(super) is_open: bool,
}

/// A phase event to record.
pub(super) struct Event<'a, P> {
    pub(super) step: u64,
    pub(super) phase: &'static str,
    pub(super) stage: &'static str,
    pub(super) payload: P,
    /// The error, if the event reports a failure.
    pub(super) error: Option<&'a str>,
    /// Whether the event reports a success.
    pub(super) ok: bool,
}

impl<'a, P> Event<'a, P> {
    /// Creates an event for a success.
    pub(super) fn new(step: u64, phase: &'static str, stage: &'static str, payload: P) -> Self {
        Self {
            step,
            phase,
            stage,
            payload,
            error: None,
            ok: true,
        }
    }

    /// Turns the event into one for a failure.
    pub(super) fn failed(self, error: &'a str) -> Self {
        Self {
            error: Some(error),
            ok: false,
            ..self
        }
    }
}

impl Log {
    pub(super) fn new(writer: Option<RunWriter>) -> Self {
        Self {
            writer,
            ..Self::default()
        }
    }

    /// Returns the end of a run whose trace can't be written.
    pub(super) fn fault(&self) -> Option<(Source, Code, String)> {
        let wrong = self.broken.as_ref()?;
        Some((
            Source::Error,
            Code::TraceWriteFailed,
            format!("can't write the trace: {wrong}"),
        ))
    }

    pub(super) fn begin(&mut self, info: impl FnOnce() -> RunInfo) {
        let Some(writer) = &mut self.writer else {
            return;
        };
        let info = info();
        self.is_open = true;
        let done = writer.begin(info);
        self.note_failure(done);
    }

    pub(super) fn event<P: Serialize>(&mut self, event: Event<'_, P>, ts: impl FnOnce() -> i64) {
        let Event {
            step,
            phase,
            stage,
            payload,
            error,
            ok,
        } = event;
        let ts = ts();
        let message = error.map(|error| {
            let mut message = error.to_owned();
            clip(&mut message, MAX_ERROR_BYTES);
            message
        });
        self.events.push(EventRecord {
            step,
            phase,
            stage,
            ok,
            ts,
            error: message,
        });
        // The remaining disk space is reserved for the end.
        if self.broken.is_some() && phase != "END" {
            return;
        }
        let Some(writer) = &mut self.writer else {
            return;
        };
        let line = EventLine {
            step_id: step,
            phase,
            stage,
            ok,
            payload,
            error,
            ts,
        };
        let done = if phase == "END" {
            // If earlier events don't fit on the disk, the end still does.
            let before = writer.flush();
            before.and(writer.event(&line))
        } else {
            writer.hold(&line)
        };
        self.note_failure(done);
    }

    /// Writes the events so far.
    pub(super) fn flush(&mut self) {
        let done = self.writer.as_mut().map_or(Ok(()), RunWriter::flush);
        self.note_failure(done);
    }

    pub(super) fn step(&mut self, agent: &str, record: StepRecord, ts: impl FnOnce() -> i64) {
        if let Some(writer) = self.writer.as_mut().filter(|_| self.broken.is_none()) {
            let ts = ts();
            let done = match writer.step(record.step, ts, &StepLine::new(agent, &record)) {
                Err(WriteError::TooLong { bytes, .. }) => writer.step(
                    record.step,
                    ts,
                    &StepLine::new(agent, &record).without_values(bytes),
                ),
                done => done,
            };
            self.note_failure(done);
        }
        self.steps.push(record);
    }

    pub(super) fn finish(&mut self, end: impl FnOnce() -> RunEnd) {
        let done = self.writer.as_mut().map(|writer| writer.finish(end()));
        self.is_open = false;
        self.note_failure(done.unwrap_or(Ok(())));
        if let Some(altered) = self
            .writer
            .as_ref()
            .map(RunWriter::altered)
            .filter(|altered| !altered.is_empty())
        {
            self.broken.get_or_insert_with(|| {
                format!("another program changed it: {}", altered.join("; "))
            });
        }
    }

    pub(super) fn dir(&self) -> Option<std::path::PathBuf> {
        self.writer.as_ref().map(|writer| writer.dir().to_owned())
    }

    fn note_failure(&mut self, done: Result<(), WriteError>) {
        if let Err(wrong) = done {
            let cause = std::error::Error::source(&wrong)
                .map(|cause| format!(": {cause}"))
                .unwrap_or_default();
            self.broken.get_or_insert_with(|| format!("{wrong}{cause}"));
        }
    }
}
