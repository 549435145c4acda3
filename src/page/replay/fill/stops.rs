//! What can a replay stop at? The breakpoints that are on, and those that would find something in this run.

use crate::analysis::format;
use crate::analysis::replay::Breakpoint;
use crate::page::part::href;
use crate::page::replay::fill::{Place, Way};
use crate::page::replay::{Stop, Stops};

/// The breakpoints.
pub(crate) fn stops(place: &Place<'_>, breaks: &[Breakpoint]) -> Stops {
    // The offers keep their places whether they are on or not; what was typed comes behind them.
    let on = |text: &str| breaks.iter().any(|one| one.text == text);
    let offers = offers(place);
    let found = offers.iter().map(|text| Breakpoint::new(place.lens.index, text));
    let offered = found.filter(|one| !one.steps.is_empty() || on(&one.text));
    let mut rows: Vec<Stop> = offered.map(|one| row(&one, on(&one.text))).collect();
    rows.extend(breaks.iter().filter(|one| !offers.contains(&one.text)).map(|one| row(one, true)));
    let (step, event) = Way::names(place.track, place.at);
    let hidden = [("step", step), ("event", event), ("speed", speed(place)), ("clock", clock(place))];
    // For the pulse: who is at the end follows it.
    let last = if place.at == place.track.last() { "1" } else { "" }.to_owned();
    let key = [("key", place.way.selected.to_owned()), ("last", last), ("from", place.at.to_string())];
    Stops {
        action: href::replay(place.way.key),
        hidden: hidden.into_iter().chain(key).filter(|(_, value)| !value.is_empty()).collect(),
        on: breaks.len(),
        rows,
    }
}

fn speed(place: &Place<'_>) -> String {
    crate::page::replay::fill::SPEEDS.get(place.way.speed).map(|speed| speed.1.to_owned()).unwrap_or_default()
}

fn clock(place: &Place<'_>) -> String {
    crate::page::replay::fill::CLOCKS.get(place.way.clock).map(|clock| clock.1.to_owned()).unwrap_or_default()
}

fn row(one: &Breakpoint, on: bool) -> Stop {
    let wrong: Vec<String> = one
        .query
        .ignored
        .iter()
        .map(|ignored| format!("{} is not understood: {}", ignored.text, ignored.why))
        .collect();
    Stop {
        text: one.text.as_str().into(),
        on,
        count: format::counted(one.steps.len(), "step").into(),
        wrong: wrong.join("; ").into(),
    }
}

/// What people stop at, as far as this run knows the names.
fn offers(place: &Place<'_>) -> Vec<String> {
    let summary = place.lens.summary;
    let mut offers = vec!["err:true".to_owned(), "critic:retry".to_owned(), "score<0.4".to_owned()];
    let quoted = |name: &str| {
        if name.contains(|c: char| !c.is_alphanumeric() && c != '_') { format!("\"{name}\"") } else { name.to_owned() }
    };
    // The newest names are the rarest: what every step does stops everywhere.
    offers.extend(summary.changed.last().map(|key| format!("state.{} changed", quoted(key))));
    offers.extend(summary.tools.last().map(|tool| format!("tool:{}", quoted(tool))));
    offers
}
