//! What is the state at the cursor? A step changes it when its reduce is done, so until then it is the one before.

use crate::analysis::replay::{Part, Scene};
use crate::page::replay::Replay;
use crate::page::replay::fill::{Place, step};
use crate::page::state::fill::{Moment, state_panel};

/// Fills the state beside the step.
pub(crate) fn fill(place: &Place<'_>, replay: &mut Replay) {
    let Some((part, event)) = place.track.part(place.at) else { return };
    let last = place.lens.index.steps().len().checked_sub(1);
    let written = |n: usize| last.is_some_and(|last| n <= last);
    let moment = match part.scene {
        Scene::Start => last.map(|_| Moment::Before(0)),
        Scene::Step(n) if written(n) && event >= reduced(place, part) => Some(Moment::After(n)),
        Scene::Step(n) if written(n) => Some(Moment::Before(n)),
        Scene::Step(_) | Scene::End => last.map(Moment::Since),
    };
    let Some(moment) = moment else {
        replay.state_when = "No step has a line, so no state is known.".into();
        return;
    };
    let (words, here) = match moment {
        Moment::Before(n) => ("before", n),
        Moment::After(n) | Moment::Since(n) => ("after", n),
    };
    let label = place.lens.label(here);
    replay.state_when = match (part.scene, moment) {
        (Scene::Start, _) => "at the start".to_owned(),
        (_, Moment::Before(_)) => format!("{words} step {label} changes it"),
        _ => format!("{words} step {label}"),
    }
    .into();
    // A link to another step shows what that step made of the state; one to this step only selects the key.
    let at = |n: usize, key: &str| {
        let other = place.track.find(Scene::Step(n)).filter(|_| step(part.scene) != Some(n) && n != here);
        let at = other.map_or(place.at, |other| other.at + reduced(place, other));
        place.way.to_key(place.track, at, key)
    };
    replay.state = state_panel(place.lens, moment, place.way.selected, &at).unwrap_or_default();
}

/// The event of a part with which its step has changed the state: the last of its reduce, or the last of all.
fn reduced(place: &Place<'_>, part: &Part) -> usize {
    let index = place.lens.index;
    let reduce = index.names().find("REDUCE");
    let events = index.events().get(part.range()).unwrap_or_default();
    let last = events.iter().rposition(|event| Some(event.phase) == reduce);
    last.unwrap_or_else(|| part.positions() - 1)
}
