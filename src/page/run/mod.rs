//! Shows a run: header, verdict, tabs, and the list of steps next to the current step.
//!
//! Every part has its own id. One template renders it, both on the page and in [`RunPulse`].

pub(crate) mod api;
pub(crate) mod changed;
pub(crate) mod events;
pub(crate) mod files;
pub(crate) mod handler;
pub(crate) mod head;
pub(crate) mod json_raw;
pub(crate) mod lists;
pub(crate) mod markdown;
pub(crate) mod marks;
pub(crate) mod pending;
pub(crate) mod pick;
pub(crate) mod recorded;
pub(crate) mod setup;
pub(crate) mod source;
pub(crate) mod step_row;
pub(crate) mod steps;
#[cfg(test)]
mod tests;
pub(crate) mod timeline;
pub(crate) mod transcript;
pub(crate) mod verdict;

use askama::Template;

use crate::page::part::strip::Strip;
use crate::page::part::text;
use crate::page::run::changed::ChangedTab;
use crate::page::run::events::EventsTab;
use crate::page::run::files::{IssuesTab, ManifestTab};
use crate::page::run::head::{RunHead, Tabs};
use crate::page::run::pending::PendingSlot;
use crate::page::run::setup::SetupTab;
use crate::page::run::steps::{EndSlot, StepRows, StepsTab};
use crate::page::run::timeline::Timeline;
use crate::page::run::transcript::{Outline, Transcript, TranscriptPart};
use crate::page::run::verdict::Verdict;
use crate::page::shell::{Pulse, Shell};
use crate::page::state::StateTab;
use crate::page::step::StepView;

/// The page of a run, on any of its tabs.
#[derive(Template)]
#[template(path = "run/page.html")]
pub(crate) struct RunPage<'a> {
    pub shell: Shell,
    pub pulse: Pulse,
    pub head: RunHead<'a>,
    pub verdict: Verdict<'a>,
    pub strip: Option<Strip>,
    pub tabs: Tabs<'a>,
    pub content: Content<'a>,
}

/// The content of the open tab.
pub(crate) enum Content<'a> {
    Steps(Box<StepsTab<'a>>),
    /// The state after a step. `None` if there is no step.
    State(Option<Box<StateTab>>),
    Timeline(Box<Timeline<'a>>),
    Events(EventsTab<'a>),
    Manifest(ManifestTab<'a>),
    Issues(IssuesTab<'a>),
    Files(Box<ChangedTab<'a>>),
    Setup(SetupTab),
    Transcript(Box<Transcript<'a>>),
}

/// The parts of a run page that may have changed since its last pulse.
#[derive(Template)]
#[template(path = "run/run_pulse.html")]
pub(crate) struct RunPulse<'a> {
    pub pulse: Pulse,
    pub title: String,
    pub head: RunHead<'a>,
    pub verdict: Option<Verdict<'a>>,
    pub strip: Option<Strip>,
    pub tabs: Tabs<'a>,
    /// The changes below the tabs.
    pub tab_update: Option<TabUpdate<'a>>,
}

/// The changes below the tabs of a run page.
pub(crate) enum TabUpdate<'a> {
    Steps {
        /// The rows of the list on the page, including new ones.
        rows: Option<StepRows<'a>>,
        end: EndSlot<'a>,
        pending: PendingSlot<'a>,
        /// The current step, if it changed or the page follows the run.
        selected: Option<Box<StepView>>,
        /// The facts of the current step, if only the number of steps changed.
        facts: Option<String>,
    },
    /// The outline, and the steps on the page if they changed.
    Transcript(Outline, Option<TranscriptPart<'a>>, PendingSlot<'a>),
    State(Box<StateTab>),
    Timeline(Box<Timeline<'a>>),
    Events(EventsTab<'a>),
    WhatIf(crate::page::whatif::answer::RulesAnswer<'a>),
}
