//! What happens in the step at the cursor? Its events phase by phase: those that happened, the current one, the rest.
//!
//! What a phase brought stands with the last stretch of its events: the decision with DECIDE, the results with ACT, what
//! changed with REDUCE, the scores with CRITIC. What no event tells of stands behind, and says so.

use crate::analysis::format;
use crate::analysis::timing::{Stretch, stretches};
use crate::page::lens::{micros, phase};
use crate::page::part::href;
use crate::page::part::sign::{Link, Phrase};
use crate::page::replay::fill::scrub::group_of;
use crate::page::replay::fill::{Place, step};
use crate::page::replay::{Event, Phase, Replay};
use crate::page::run::PhaseState;
use crate::page::step::StepView;
use crate::page::step::fill::{StepPlace, step_line};

/// At most this many events of a phase are named one by one, around the cursor where it is among them.
const NAMED: usize = 24;

/// Fills the middle of the page.
pub(crate) fn fill(place: &Place<'_>, replay: &mut Replay) {
    let Some((part, event)) = place.track.part(place.at) else { return };
    let (index, now) = (place.lens.index, part.range().nth(event));
    let mut view = step(part.scene).and_then(|n| step_line(place.lens, n, StepPlace::List)).unwrap_or_default();
    let mut group = group_of(part);
    group.ended = part.range().next_back().and_then(|at| index.events().get(at)).and_then(|event| event.ts);
    let stretches = stretches(index, &group);
    let mut phases: Vec<Phase> = stretches.iter().map(|stretch| one(place, stretch, now)).collect();
    let last = |name: &str| stretches.iter().rposition(|stretch| index.name(stretch.phase) == name);
    let mut rest = Vec::new();
    for name in ["DECIDE", "ACT", "REDUCE", "CRITIC"] {
        let slot = match last(name).and_then(|at| phases.get_mut(at)) {
            Some(phase) => phase,
            None => {
                let (class, shown) = phase(name);
                rest.push(Phase { class, name: shown.into(), ..Phase::default() });
                let Some(new) = rest.last_mut() else { continue };
                new
            }
        };
        bring(name, &mut view, slot);
    }
    rest.retain(|phase| {
        phase.thought.is_some()
            || phase.decision.is_some()
            || phase.actions.is_some()
            || phase.diff.is_some()
            || !phase.critics.is_empty()
    });
    let told = !phases.is_empty();
    for phase in &mut rest {
        phase.when = if told { "no event tells when" } else { "" }.into();
        let after = now.is_some_and(|now| now + 1 == part.first + part.events);
        phase.state = if told && !after { PhaseState::Later } else { PhaseState::Done };
    }
    phases.append(&mut rest);
    replay.note = note(place, part.scene, part.events, view.unreadable.take());
    replay.phases = phases;
}

/// What is odd about the step.
fn note(place: &Place<'_>, scene: crate::analysis::replay::Scene, events: usize, unreadable: Option<Phrase>) -> Phrase {
    let total = place.lens.index.steps().len();
    match (step(scene), unreadable) {
        (Some(n), Some(_)) => Phrase::new()
            .text("The line of this step cannot be read as a step. ")
            .link("See it", href::step(place.way.key, n)),
        (Some(n), None) if n >= total && place.lens.summary.life.liveness.may_grow() => {
            Phrase::from("In progress: the line of this step is written when it ends.")
        }
        (Some(n), None) if n >= total => {
            Phrase::from("This step has no line and never got one; its events are all there is.")
        }
        (Some(_), None) if events == 0 => Phrase::from("No event of this step is recorded; it is shown as a whole."),
        _ => Phrase::new(),
    }
}

/// Moves what a phase brought from the step's line to the phase.
fn bring(name: &str, view: &mut StepView, phase: &mut Phase) {
    match name {
        "DECIDE" => {
            phase.thought = view.thought.take();
            phase.decision = view.decision.take();
        }
        "ACT" => phase.actions = Some(std::mem::take(&mut view.actions)).filter(|actions| !actions.is_empty()),
        "REDUCE" => phase.diff = view.diff.take(),
        _ => phase.critics = std::mem::take(&mut view.critics),
    }
}

/// A phase as its events tell it.
fn one(place: &Place<'_>, stretch: &Stretch, now: Option<usize>) -> Phase {
    let (lens, index) = (place.lens, place.lens.index);
    let state = |first: usize, end: usize| match now {
        Some(now) if now < first => PhaseState::Later,
        Some(now) if now < end => PhaseState::Now,
        _ => PhaseState::Done,
    };
    let (class, name) = phase(index.name(stretch.phase));
    let offset = lens.offset(stretch.started);
    let lasted = stretch.micros.map(micros).filter(|_| !offset.is_empty());
    let part = place.track.part(place.at).map(|(part, _)| *part);
    let at = |event: usize| part.map_or(0, |part| part.at + event - part.first);
    let here = now.filter(|now| (stretch.first..stretch.end).contains(now)).unwrap_or(stretch.first);
    let from = here.saturating_sub(NAMED / 2).max(stretch.first);
    let to = (from + NAMED).min(stretch.end);
    let events = (from..to).filter_map(|event| {
        let head = index.events().get(event)?;
        let stage = index.name(head.stage);
        let stage = if stage.is_empty() { index.name(head.phase) } else { stage };
        Some(Event { name: stage.into(), state: state(event, event + 1), href: place.to(at(event)) })
    });
    let count = stretch.end - stretch.first;
    Phase {
        class,
        name: name.into(),
        when: [offset.as_str(), lasted.as_deref().unwrap_or_default()].join(" · ").trim_end_matches(" · ").into(),
        state: state(stretch.first, stretch.end),
        events: events.collect(),
        lines: Some(Link::new(format::counted(count, "line"), lens.at_event(stretch.first))),
        says: says(place, stretch),
        ..Phase::default()
    }
}

/// What the index knows of the events of a phase.
fn says(place: &Place<'_>, stretch: &Stretch) -> Vec<Phrase> {
    let index = place.lens.index;
    let within = |event: usize| (stretch.first..stretch.end).contains(&event);
    let mut says = Vec::new();
    for segment in index.segments() {
        if let Some((_, init)) = segment.init.as_ref().filter(|(event, _)| within(*event)) {
            says.extend(init.task.as_deref().map(|task| Phrase::new().text("Task: ").text(task)));
        }
        if let Some((_, stop)) = segment.stop.as_ref().filter(|(event, _)| within(*event)) {
            let reason = stop.reason.as_deref().unwrap_or("no reason");
            let mut says_stop = Phrase::new().text("The run stops: ").code(reason);
            if let Some(detail) = stop.detail.as_deref() {
                says_stop = says_stop.text(", ").text(detail);
            }
            says.push(says_stop);
        }
        if let Some((_, end, _)) = segment.end.as_ref().filter(|(event, _, _)| within(*event)) {
            says.push(Phrase::new().text("The run ended: ").code(end.reason.as_deref().unwrap_or("no reason")));
        }
        if segment.teardown.is_some_and(within) && segment.end.is_none() {
            says.push(Phrase::from("Torn down without an END event."));
        }
    }
    let group = index.group_at(stretch.first).and_then(|at| index.groups().get(at));
    if let Some((_, text)) = group.and_then(|group| group.error.as_ref()).filter(|(name, _)| *name == stretch.phase) {
        says.push(Phrase::new().strong("Error: ").text(&**text));
    }
    let ends_on = |stage: &str| {
        let last = stretch.end.checked_sub(1).and_then(|at| index.events().get(at));
        last.is_some_and(|event| index.name(event.stage) == stage)
    };
    if index.name(stretch.phase) == "CHECK_STOP" && ends_on("continue") {
        says.push(Phrase::from("No rule ends the run; it goes on."));
    }
    let part = place.track.part(place.at).map(|(part, _)| *part);
    let own = part.and_then(|part| part.group).and_then(|at| index.groups().get(at));
    if let (Some(group), Some(own)) = (group, own)
        && group.first != own.first
    {
        says.push(Phrase::new().dim("of a step that has no line"));
    }
    says
}
