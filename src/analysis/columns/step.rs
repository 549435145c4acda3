//! Provides what a query matches in one step, using only the index.

use crate::analysis::failures::id_text;
use crate::analysis::timing::took;
use crate::model::failure::id_of;
use crate::model::index::Group;
use crate::model::{CriticAction, Index, StepHead, Symbol};

/// One step of a run, as the index knows it.
#[derive(Debug, Clone, Copy)]
pub struct StepSubject<'a> {
    index: &'a Index,
    ordinal: usize,
    step: &'a StepHead,
    group: Option<&'a Group>,
}

impl<'a> StepSubject<'a> {
    /// Returns the step at `ordinal`, or `None` if the run has no such step.
    pub fn new(index: &'a Index, ordinal: usize) -> Option<Self> {
        let step = index.steps().get(ordinal)?;
        let group = index.round_of(ordinal);
        Some(Self {
            index,
            ordinal,
            step,
            group,
        })
    }

    /// Passes to `out` every text that a free-text search covers: the call, the names of all called
    /// tools, errors, and the reason of a critic that objected.
    pub fn texts(&self, out: &mut dyn FnMut(&str)) {
        out(&self.step.call);
        tools(self, out);
        [&self.step.error, &self.step.critic_reason]
            .into_iter()
            .flatten()
            .for_each(|text| out(text));
        if let Some((_, words)) = self.group.and_then(|group| group.error.as_ref()) {
            out(words);
        }
    }

    /// Returns whether the step changed `key` of the state. Ignores ASCII case.
    pub fn changed(&self, key: &str) -> bool {
        self.step
            .changed
            .iter()
            .any(|changed| self.index.name(*changed).eq_ignore_ascii_case(key))
    }

    fn name(&self, symbol: Symbol, out: &mut dyn FnMut(&str)) {
        if symbol != Symbol::default() {
            out(self.index.name(symbol));
        }
    }
}

pub(super) fn files(subject: &StepSubject<'_>, out: &mut dyn FnMut(&str)) {
    let changed = subject.step.changed.iter();
    let paths = changed.filter_map(|key| subject.index.name(*key).strip_prefix("files."));
    paths.for_each(out);
}

pub(super) fn mode(subject: &StepSubject<'_>, out: &mut dyn FnMut(&str)) {
    subject.name(subject.step.mode, out);
}

pub(super) fn agent(subject: &StepSubject<'_>, out: &mut dyn FnMut(&str)) {
    subject.name(subject.step.agent, out);
}

pub(super) fn tools(subject: &StepSubject<'_>, out: &mut dyn FnMut(&str)) {
    subject
        .step
        .tools()
        .for_each(|tool| subject.name(tool, out));
}

/// The model that wrote the step, if it names one.
pub(super) fn model(subject: &StepSubject<'_>, out: &mut dyn FnMut(&str)) {
    subject.name(subject.step.model, out);
}

/// The critics' names and actions.
pub(super) fn critics(subject: &StepSubject<'_>, out: &mut dyn FnMut(&str)) {
    for critic in &subject.step.critics {
        subject.name(critic.name, out);
        if critic.action != CriticAction::Other {
            out(critic.action.as_str());
        }
    }
}

pub(super) fn place(subject: &StepSubject<'_>, out: &mut dyn FnMut(f64)) {
    out(subject.ordinal as f64);
}

pub(super) fn events(subject: &StepSubject<'_>, out: &mut dyn FnMut(f64)) {
    subject
        .group
        .iter()
        .for_each(|group| out((group.end - group.first) as f64));
}

pub(super) fn tokens(subject: &StepSubject<'_>, out: &mut dyn FnMut(f64)) {
    subject
        .index
        .tokens_of(subject.ordinal)
        .into_iter()
        .for_each(|tokens| out(tokens as f64));
}

/// The time from the first event of the step to its last; seconds.
pub(super) fn seconds(subject: &StepSubject<'_>, out: &mut dyn FnMut(f64)) {
    let span = subject.group.and_then(took);
    span.into_iter().for_each(|micros| out(micros as f64 / 1e6));
}

pub(super) fn scores(subject: &StepSubject<'_>, out: &mut dyn FnMut(f64)) {
    subject
        .step
        .critics
        .iter()
        .filter_map(|critic| critic.score)
        .for_each(out);
}

/// The ids and the folded messages of the step's failures.
pub(super) fn failure(subject: &StepSubject<'_>, out: &mut dyn FnMut(&str)) {
    let error = subject.group.and_then(|group| group.error.as_ref());
    for (key, _) in subject.index.failure_keys(subject.step, error) {
        let tool = subject.index.name(key.tool);
        out(&id_text(id_of(key.source, tool, &key.message)));
        out(&key.message);
    }
}

pub(super) fn erred(subject: &StepSubject<'_>) -> Option<bool> {
    let event = subject.group.is_some_and(|group| group.error.is_some());
    subject
        .step
        .fate
        .is_readable()
        .then(|| event || !subject.step.is_ok())
}
