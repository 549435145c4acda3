//! Shows the events of the step at the cursor, phase by phase: past events, the current one, and
//! later ones.
//!
//! The content of a phase is shown with the last block of its events: the decision with DECIDE, the
//! results with ACT, the state changes with REDUCE, the scores with CRITIC. Content without events
//! comes last, with a note.

use crate::analysis::replay::Part;
use crate::analysis::timing::{Stretch, stretches};
use crate::model::index::Group;
use crate::page::part::action::Actions;
use crate::page::part::critic::Critic;
use crate::page::part::decision::Decision;
use crate::page::part::fold::Folded;
use crate::page::part::href;
use crate::page::part::sign::Phrase;
use crate::page::part::state_diff::StateDiff;
use crate::page::replay::{Replay, step};
use crate::page::run::pending::PhaseState;
use crate::page::run_view::{micros, phase};
use crate::page::step::StepView;
use crate::page::step::fill::{StepPlace, step_line};

/// Limits the events of a phase that are listed individually. If the cursor is among them, the list
/// is centred on it.
const NAMED: usize = 24;

#[derive(Default)]
pub(crate) struct Phases {
    /// A note if the step is unusual, such as one without a line or events. Empty otherwise.
    pub note: Phrase,
    pub phases: Vec<Phase>,
}

/// One phase of the step.
#[derive(Default)]
pub(crate) struct Phase {
    /// The colour class.
    pub class: &'static str,
    pub name: String,
    /// When it started and how long it took.
    pub when: String,
    /// Whether it is before, at or after the cursor.
    pub state: PhaseState,
    /// The events: the name, whether it is before, at or after the cursor, and its position.
    pub events: Vec<(String, PhaseState, usize)>,
    /// The number of its events, and the first of them.
    pub lines: Option<(usize, usize)>,
    /// The content of its events, one line each.
    pub details: Vec<Phrase>,
    pub thought: Option<Folded>,
    pub decision: Option<Decision>,
    pub actions: Option<Actions>,
    pub diff: Option<StateDiff>,
    pub critics: Vec<Critic>,
}

impl Phases {
    pub(crate) fn new(replay: &Replay<'_>) -> Self {
        let Some((part, event)) = &replay.part else {
            return Self::default();
        };
        let (index, now) = (replay.view.index, part.range().nth(*event));
        let mut step_view = step(part.scene)
            .and_then(|n| step_line(replay.view, n, StepPlace::List))
            .unwrap_or_default();
        let mut group = group_of(part);
        group.ended = part
            .range()
            .next_back()
            .and_then(|at| index.events().get(at))
            .and_then(|event| event.ts);
        let stretches = stretches(index, &group);
        let mut phases: Vec<Phase> = stretches
            .iter()
            .map(|stretch| one(replay, part, stretch, now))
            .collect();
        // Content without events comes last, with a note.
        let is_told = !phases.is_empty();
        let is_past = !is_told || now.is_some_and(|now| now + 1 == part.first + part.events);
        for name in ["DECIDE", "ACT", "REDUCE", "CRITIC"] {
            let slot = stretches
                .iter()
                .rposition(|stretch| index.name(stretch.phase) == name);
            if let Some(phase) = slot.and_then(|at| phases.get_mut(at)) {
                phase.bring(name, &mut step_view);
                continue;
            }
            let (class, shown) = phase(name);
            let when = if is_told { "no timestamp" } else { "" }.to_owned();
            let state = if is_past {
                PhaseState::Done
            } else {
                PhaseState::Later
            };
            let mut rest = Phase {
                class,
                name: shown,
                when,
                state,
                ..Phase::default()
            };
            rest.bring(name, &mut step_view);
            phases.extend(Some(rest).filter(Phase::has_content));
        }
        Self {
            note: note(replay, part, step_view.unreadable.is_some()),
            phases,
        }
    }
}

impl Phase {
    /// Moves the phase's content from the step's line into the phase.
    fn bring(&mut self, name: &str, step_view: &mut StepView) {
        match name {
            "DECIDE" => {
                (self.thought, self.decision) =
                    (step_view.thought.take(), step_view.decision.take())
            }
            "ACT" => {
                self.actions = Some(std::mem::take(&mut step_view.actions))
                    .filter(|actions| !actions.is_empty())
            }
            "REDUCE" => self.diff = step_view.diff.take(),
            _ => self.critics = std::mem::take(&mut step_view.critics),
        }
    }

    fn has_content(&self) -> bool {
        let decides = self.thought.is_some() || self.decision.is_some();
        decides || self.actions.is_some() || self.diff.is_some() || !self.critics.is_empty()
    }
}

/// Returns the events of a part as a group, to split them into phases.
pub(crate) fn group_of(part: &Part) -> Group {
    Group {
        first: part.first,
        end: part.first + part.events,
        ..Group::default()
    }
}

/// Describes whatever is unusual about the step.
fn note(replay: &Replay<'_>, part: &Part, is_unreadable: bool) -> Phrase {
    let total = replay.view.index.steps().len();
    match (step(part.scene), is_unreadable) {
        (Some(n), true) => Phrase::new()
            .text("This step's line can't be parsed. ")
            .link("Show the line", href::step(replay.view.key(), n)),
        (Some(n), false) if n >= total && replay.alive() => {
            Phrase::from("In progress. The step's line is written when it ends.")
        }
        (Some(n), false) if n >= total => Phrase::from(
            "This step was never written to steps.jsonl. Only its events are recorded.",
        ),
        (Some(_), false) if part.events == 0 => {
            Phrase::from("No events are recorded for this step, so it's shown as a whole.")
        }
        _ => Phrase::new(),
    }
}

/// Builds a phase from its events.
fn one(replay: &Replay<'_>, part: &Part, stretch: &Stretch, now: Option<usize>) -> Phase {
    let index = replay.view.index;
    let state = |first: usize, end: usize| match now {
        Some(now) if now < first => PhaseState::Later,
        Some(now) if now < end => PhaseState::Now,
        _ => PhaseState::Done,
    };
    let (class, name) = phase(index.name(stretch.phase));
    let offset = replay.view.offset(stretch.started);
    let lasted = stretch.micros.map(micros).filter(|_| !offset.is_empty());
    let here = now
        .filter(|now| (stretch.first..stretch.end).contains(now))
        .unwrap_or(stretch.first);
    let from = here.saturating_sub(NAMED / 2).max(stretch.first);
    let events = (from..(from + NAMED).min(stretch.end)).filter_map(|event| {
        let head = index.events().get(event)?;
        let stage = index.name(head.stage);
        let stage = if stage.is_empty() {
            index.name(head.phase)
        } else {
            stage
        };
        Some((
            stage.to_owned(),
            state(event, event + 1),
            part.at + event - part.first,
        ))
    });
    Phase {
        class,
        name,
        when: [offset.as_str(), lasted.as_deref().unwrap_or_default()]
            .join(" · ")
            .trim_end_matches(" · ")
            .to_owned(),
        state: state(stretch.first, stretch.end),
        events: events.collect(),
        lines: Some((stretch.end - stretch.first, stretch.first)),
        details: details(replay, stretch),
        ..Phase::default()
    }
}

/// Describes the events of a phase from what the index holds.
fn details(replay: &Replay<'_>, stretch: &Stretch) -> Vec<Phrase> {
    let index = replay.view.index;
    let within = |event: usize| (stretch.first..stretch.end).contains(&event);
    let mut details = Vec::new();
    for segment in index.segments() {
        if let Some((_, init)) = segment.init.as_ref().filter(|(event, _)| within(*event)) {
            details.extend(
                init.task
                    .as_deref()
                    .map(|task| Phrase::new().text("Task: ").text(task)),
            );
        }
        if let Some((_, stop)) = segment.stop.as_ref().filter(|(event, _)| within(*event)) {
            let reason = stop.reason.as_deref().unwrap_or("no reason recorded");
            let mut says_stop = Phrase::new().text("The run stops: ").code(reason);
            if let Some(detail) = stop.detail.as_deref() {
                says_stop = says_stop.text(", ").text(detail);
            }
            details.push(says_stop);
        }
        if let Some((_, end, _)) = segment.end.as_ref().filter(|(event, _, _)| within(*event)) {
            details.push(
                Phrase::new()
                    .text("The run ended: ")
                    .code(end.reason.as_deref().unwrap_or("no reason recorded")),
            );
        }
        if segment.teardown.is_some_and(within) && segment.end.is_none() {
            details.push(Phrase::from(
                "The engine stopped with an exception. Its tools were closed, but no END event was written.",
            ));
        }
    }
    let group = index
        .group_at(stretch.first)
        .and_then(|at| index.groups().get(at));
    if let Some((_, text)) = group
        .and_then(|group| group.error.as_ref())
        .filter(|(name, _)| *name == stretch.phase)
    {
        details.push(Phrase::new().strong("Error: ").text(&**text));
    }
    let ends_on = |stage: &str| {
        let last = stretch
            .end
            .checked_sub(1)
            .and_then(|at| index.events().get(at));
        last.is_some_and(|event| index.name(event.stage) == stage)
    };
    if index.name(stretch.phase) == "CHECK_STOP" && ends_on("continue") {
        details.push(Phrase::from("No stop rule fired. The run continues."));
    }
    let own = replay
        .part
        .and_then(|(part, _)| part.group)
        .and_then(|at| index.groups().get(at));
    if let (Some(group), Some(own)) = (group, own)
        && group.first != own.first
    {
        details.push(Phrase::new().dim("from a step that was never recorded"));
    }
    details
}
