//! What is kept of a run, and what of it reaches the disk? Records in memory, lines through the writer, if there is one.
//!
//! A failed write is remembered and ends the run; what comes after it is tried all the same, since the writer keeps a
//! reserve for the end.

use serde::Serialize;

use super::recorder::StepLine;
use super::result::{EventRecord, StepRecord};
use crate::stop::{Code, Source};
use crate::trace::{EventLine, RunEnd, RunInfo, RunWriter, WriteError};

/// The records of a run.
#[derive(Default)]
pub(super) struct Log {
    writer: Option<RunWriter>,
    /// Why the trace is not whole.
    pub(super) broken: Option<String>,
    pub(super) steps: Vec<StepRecord>,
    pub(super) events: Vec<EventRecord>,
}

/// One phase event, on its way into the log.
pub(super) struct Event<'a, P> {
    pub(super) step: u64,
    pub(super) phase: &'static str,
    pub(super) stage: &'static str,
    pub(super) payload: P,
    /// What failed, if this is what the event tells.
    pub(super) error: Option<&'a str>,
    /// Whether it went well.
    pub(super) ok: bool,
}

impl<'a, P> Event<'a, P> {
    /// Something that went well.
    pub(super) fn new(step: u64, phase: &'static str, stage: &'static str, payload: P) -> Self {
        Self { step, phase, stage, payload, error: None, ok: true }
    }

    /// Something that failed.
    pub(super) fn failed(self, error: &'a str) -> Self {
        Self { error: Some(error), ok: false, ..self }
    }
}

impl Log {
    pub(super) fn new(writer: Option<RunWriter>) -> Self {
        Self { writer, ..Self::default() }
    }

    /// What ends a run whose trace cannot be written.
    pub(super) fn fault(&self) -> Option<(Source, Code, String)> {
        let wrong = self.broken.as_ref()?;
        Some((Source::Error, Code::TraceWriteFailed, format!("the trace cannot be written: {wrong}")))
    }

    pub(super) fn begin(&mut self, info: impl FnOnce() -> RunInfo) {
        let done = self.writer.as_mut().map(|writer| writer.begin(info()));
        self.heed(done);
    }

    pub(super) fn event<P: Serialize>(&mut self, event: Event<'_, P>, ts: impl FnOnce() -> i64) {
        let Event { step, phase, stage, payload, error, ok } = event;
        self.events.push(EventRecord { step, phase, stage, ok });
        let line = |ts| EventLine { step_id: step, phase, stage, ok, payload, error, ts };
        let done = self.writer.as_mut().map(|writer| writer.event(&line(ts())));
        self.heed(done);
    }

    pub(super) fn step(&mut self, agent: &str, record: StepRecord, ts: impl FnOnce() -> i64) {
        let write = |writer: &mut RunWriter| writer.step(record.step, ts(), &StepLine::new(agent, &record));
        let done = self.writer.as_mut().map(write);
        self.heed(done);
        self.steps.push(record);
    }

    pub(super) fn finish(&mut self, end: impl FnOnce() -> RunEnd) {
        let done = self.writer.as_mut().map(|writer| writer.finish(end()));
        self.heed(done);
    }

    pub(super) fn dir(&self) -> Option<std::path::PathBuf> {
        self.writer.as_ref().map(|writer| writer.dir().to_owned())
    }

    fn heed(&mut self, done: Option<Result<(), WriteError>>) {
        if let Some(Err(wrong)) = done {
            let cause = std::error::Error::source(&wrong).map(|cause| format!(": {cause}")).unwrap_or_default();
            self.broken.get_or_insert_with(|| format!("{wrong}{cause}"));
        }
    }
}
