//! Resolves the position in a run that an address names.

use crate::analysis::replay::{Scene, Track};
use crate::page::run_view::RunView;

/// The query of a replay.
#[derive(Debug, Clone, Default)]
pub(crate) struct ReplayQuery {
    /// The step: an ordinal, `start`, `end`, or empty.
    pub step: String,
    /// The event of the step, counted from 1.
    pub event: Option<usize>,
    /// A position in the whole run, which replaces step and event.
    pub at: Option<usize>,
    /// How many events to advance. Negative goes back.
    pub events: isize,
    /// How many steps to advance. Negative goes back.
    pub steps: isize,
    /// The playback speed; empty for 1.
    pub speed: String,
    /// The clock; empty for `step`.
    pub clock: String,
    /// The active breakpoints.
    pub breaks: Vec<String>,
    /// The selected state key; empty for none.
    pub key: String,
    /// Whether to use the nearest position if the requested one doesn't exist.
    pub nearest: bool,
}

/// An invalid replay query: the value given, and the valid ones.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NoPlace {
    /// The problem, up to the value: `This run has no step`.
    pub what: &'static str,
    pub named: String,
    /// The valid values.
    pub instead: String,
}

/// Returns the requested position.
pub(crate) fn position(
    view: &RunView<'_>,
    track: &Track,
    query: &ReplayQuery,
) -> Result<usize, NoPlace> {
    let named = match (query.step.as_str(), query.at) {
        (_, Some(at)) => at.min(track.last()),
        // A run in progress opens at its newest event, and any other run at its start.
        ("", _) if view.is_alive() => track.last(),
        ("", _) | ("start", None) if query.event.is_none() => 0,
        ("end", _) if query.event.is_none() => track.last(),
        (name, None) => at_step(view, track, name, query)?,
    };
    let walked = if query.steps == 0 {
        named
    } else {
        track.by_steps(named, query.steps)
    };
    Ok(track.by_events(walked, query.events))
}

fn at_step(
    view: &RunView<'_>,
    track: &Track,
    name: &str,
    query: &ReplayQuery,
) -> Result<usize, NoPlace> {
    let scene = match name {
        "start" | "" => Some(Scene::Start),
        "end" => Some(Scene::End),
        number => number.parse().ok().map(Scene::Step),
    };
    let part = scene.and_then(|scene| track.find(scene));
    let Some(part) = part else {
        if query.nearest {
            return Ok(track.last());
        }
        let steps = track
            .parts()
            .iter()
            .filter(|part| step(part.scene).is_some())
            .count();
        let has_steps = steps > 0;
        // A step in progress, or one that never finished, has no line.
        let lines = view.index.steps().len();
        let steps = match lines {
            1.. if steps == lines + 1 => {
                let steps = view.summary.has_steps("It", view.index, lines);
                format!("{steps}, and step {lines}, which has no line")
            }
            _ => view.summary.has_steps("It", view.index, steps),
        };
        let instead = match has_steps {
            true => format!("{steps}. You can also use start and end."),
            false => format!("{steps}. Use start or end."),
        };
        return Err(NoPlace {
            what: "This run has no step",
            named: name.to_owned(),
            instead,
        });
    };
    // Reject event numbers that are too high, including any event of a step without events.
    let event = query.event.unwrap_or(1).max(1) - 1;
    if event >= part.positions() && !query.nearest {
        let has = match part.events {
            0 => "It has no events.".to_owned(),
            1 => "It has 1 event, event 1.".to_owned(),
            events => format!("It has {events} events, numbered from 1 to {events}."),
        };
        return Err(NoPlace {
            what: "This step has no event",
            named: (event + 1).to_string(),
            instead: has,
        });
    }
    Ok(part.at + event.min(part.positions() - 1))
}

/// Returns the ordinal of a step.
pub(crate) fn step(scene: Scene) -> Option<usize> {
    if let Scene::Step(n) = scene {
        Some(n)
    } else {
        None
    }
}
