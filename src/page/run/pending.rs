//! What is known of the step that has no line yet? Its events tell it, phase by phase.

use crate::analysis::format;
use crate::analysis::timing::{stretches, took};
use crate::model::index::Group;
use crate::page::lens::{Lens, micros, phase};
use crate::page::part::sign::{Phrase, Sign};
use crate::page::run::{PendingPhase, PendingSlot, PendingStep, PhaseState};

/// The phases of a step in the order of the engine.
const PHASES: [&str; 5] = ["DECIDE", "ACT", "REDUCE", "CRITIC", "CHECK_STOP"];

/// Room for the step that is being written, and the step where there is one.
pub(crate) fn pending_slot(lens: &Lens<'_>) -> PendingSlot {
    PendingSlot { step: pending(lens) }
}

/// The step that is being written, or was when the run ended.
fn pending(lens: &Lens<'_>) -> Option<PendingStep> {
    let group = lens.index.groups().get(lens.index.pending_group()?)?;
    let alive = lens.summary.life.liveness.may_grow();
    let events = format::counted(group.end - group.first, "event");
    let note = if alive { "the line is written when the step ends" } else { "the step has no line and never got one" };
    let status = if alive {
        Sign::word("st running", "running", "in progress")
    } else {
        Sign::word("st died", "died", "never finished")
    };
    Some(PendingStep {
        title: group.step_id.map_or_else(|| "Step without id".to_owned(), |id| format!("Step {id}")).into(),
        status,
        note: Phrase::from(format!("from {events}; {note}")),
        so_far: so_far(lens, group, alive),
        phases: phases(lens, group, alive),
    })
}

fn so_far(lens: &Lens<'_>, group: &Group, alive: bool) -> Phrase {
    match (group.started, alive) {
        // The words run on in the browser while the page is live.
        (Some(start), true) => Phrase::new().since(micros(lens.now - start), lens.iso(start)),
        (Some(_), false) => took(group).map_or_else(Phrase::new, |time| Phrase::from(micros(time))),
        (None, _) => Phrase::new(),
    }
}

fn phases(lens: &Lens<'_>, group: &Group, alive: bool) -> Vec<PendingPhase> {
    let stretches = stretches(lens.index, group);
    let last = stretches.len().saturating_sub(1);
    let mut shown: Vec<PendingPhase> = stretches
        .iter()
        .enumerate()
        .map(|(at, stretch)| {
            let name = lens.index.name(stretch.phase);
            let (class, title) = phase(name);
            let stages: Vec<&str> = lens
                .index
                .events()
                .get(stretch.first..stretch.end)
                .unwrap_or_default()
                .iter()
                .map(|event| lens.index.name(event.stage))
                .filter(|stage| !stage.is_empty())
                .collect();
            let now = at == last && alive;
            let tool = group.decision.as_deref().and_then(|call| Some(call.split_once('(')?.0));
            let mut says = match tool.filter(|_| now && name == "ACT" && stages == ["start"]) {
                Some(tool) => vec![Phrase::new().text("Waiting for the result of ").code(tool)],
                None => vec![Phrase::new().dim(stages.join(" → "))],
            };
            if name == "DECIDE" {
                says.extend(group.decision.as_deref().map(|call| Phrase::new().code(call)));
            }
            if let Some((_, text)) = group.error.as_ref().filter(|(phase, _)| *phase == stretch.phase) {
                says.push(Phrase::from(&**text));
            }
            let when = if now {
                stretch.started.map_or_else(Phrase::new, |start| {
                    Phrase::new().since(micros(lens.now - start), lens.iso(start)).text(" so far")
                })
            } else if at == last && stretch.micros == Some(0) {
                Phrase::new().dim("nothing after it")
            } else {
                stretch.micros.map_or_else(Phrase::new, |time| Phrase::from(micros(time)))
            };
            PendingPhase {
                class,
                name: title.into(),
                state: if now { PhaseState::Now } else { PhaseState::Done },
                when,
                says,
            }
        })
        .collect();
    let reached = |name: &&&str| stretches.iter().any(|stretch| lens.index.name(stretch.phase) == **name);
    let furthest = PHASES.iter().rposition(|name| reached(&name)).map_or(0, |at| at + 1);
    let later: Vec<String> = PHASES.iter().skip(furthest).map(|name| phase(name).1).collect();
    if !later.is_empty() {
        let says = vec![Phrase::new().dim(format!("{}: not reached", later.join(", ")))];
        shown.push(PendingPhase {
            class: "plain",
            name: "Later".into(),
            state: PhaseState::Later,
            when: Phrase::new(),
            says,
        });
    }
    shown
}
