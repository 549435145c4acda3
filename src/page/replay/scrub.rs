//! Shows where in the run the cursor is. Draws all steps in the same strip as the run's page, with
//! the width and scale of the slider below it: every event takes the same space.

use crate::analysis::replay::{Cursor, Scene};
use crate::page::part::strip::{COLUMNS, Layout, Strip};
use crate::page::replay::{Replay, step};

/// Draws the strip of all steps with the breakpoints.
pub(crate) fn strip(replay: &Replay<'_>) -> Strip {
    let track = &replay.track;
    let columns = track.len().min(COLUMNS);
    let column = |at: usize| at * columns / track.len().max(1);
    let total = replay.view.index.steps().len();
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
        replay.view,
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
