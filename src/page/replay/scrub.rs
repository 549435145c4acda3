//! Where in the run is the cursor? All steps in the one picture that the page of the run has too, as wide as the slider
//! below it and laid out as the slider is: every event takes the same room.

use crate::analysis::replay::{Cursor, Scene};
use crate::page::part::strip::{COLUMNS, Layout, Strip};
use crate::page::replay::{Replay, step};

/// The picture of all steps, and where breakpoints are.
pub(crate) fn strip(replay: &Replay<'_>) -> Strip {
    let track = &replay.track;
    let columns = track.len().min(COLUMNS);
    let column = |at: usize| at * columns / track.len().max(1);
    let total = replay.lens.index.steps().len();
    let mut places = vec![(0, 0); total];
    let mut hits = vec![false; columns];
    let mut stops = None;
    for part in track.parts() {
        let Some(n) = step(part.scene) else { continue };
        let place = (column(part.at), column(part.at + part.positions() - 1));
        if let Some(known) = places.get_mut(n) {
            *known = place;
        }
        if replay.breaks.iter().any(|one| one.hits(n)) {
            hits.iter_mut()
                .take(place.1 + 1)
                .skip(place.0)
                .for_each(|hit| *hit = true);
            stops = Some(stops.map_or((n, 1), |(first, count)| (first, count + 1)));
        }
    }
    let to = |n: usize| {
        let at = track.position(Cursor {
            scene: Scene::Step(n),
            event: 0,
        });
        at.map(|at| replay.to(at)).unwrap_or_default()
    };
    let place = |n: usize| places.get(n).copied().unwrap_or_default();
    Strip::along(
        replay.lens,
        &Layout {
            columns,
            place: &place,
            to: &to,
            here: column(replay.at),
            hits: &hits,
            stops,
        },
    )
}
