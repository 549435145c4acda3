//! What does a query find in one step? What its index tells.

use crate::analysis::timing::took;
use crate::model::index::Group;
use crate::model::{CriticAction, Index, StepHead, Symbol};

/// One step of a run, as far as its index tells.
#[derive(Debug, Clone, Copy)]
pub struct StepSubject<'a> {
    index: &'a Index,
    ordinal: usize,
    step: &'a StepHead,
    group: Option<&'a Group>,
}

impl<'a> StepSubject<'a> {
    /// The step at `ordinal`, if there is one.
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

    /// Gives every text that free words search: the call, the names of all tools called, errors and the reason of a
    /// critic that objected.
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

    /// Whether it changed `key` of the state.
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

/// The model that wrote it, where it names one.
pub(super) fn model(subject: &StepSubject<'_>, out: &mut dyn FnMut(&str)) {
    subject.name(subject.step.model, out);
}

/// The critics' names and what they decided.
pub(super) fn critics(subject: &StepSubject<'_>, out: &mut dyn FnMut(&str)) {
    for critic in &subject.step.critics {
        subject.name(critic.name, out);
        match critic.action {
            CriticAction::Continue => out("continue"),
            CriticAction::Retry => out("retry"),
            CriticAction::Stop => out("stop"),
            CriticAction::Failed => out("failed"),
            CriticAction::Other => {}
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

/// From its first event to its last.
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

pub(super) fn erred(subject: &StepSubject<'_>) -> Option<bool> {
    let event = subject.group.is_some_and(|group| group.error.is_some());
    subject
        .step
        .fate
        .is_readable()
        .then(|| event || !subject.step.is_ok())
}
