//! What stands in a replay at one cursor? Where that is, what is known there, and the ways to other places.
//!
//! The address is the cursor: `step` is an ordinal, `start` or `end`; `event` counts the events of the step that have
//! happened, the current one included, so that `step=4&event=3` is event 3 of step 4. Without `event` it is the first.

use crate::analysis::format;
use crate::analysis::replay::{Breakpoint, Clock, Cursor, GAP_MICROS, Scene, Track, first_hit, next_hit, next_mark};
use crate::page::lens::{Lens, micros, status};
use crate::page::part::href;
use crate::page::part::sign::{Link, Phrase};
use crate::page::replay::{Choice, Drive, Jump, Replay, Transport};

pub(crate) mod phases;
pub(crate) mod scrub;
pub(crate) mod state;
pub(crate) mod stops;

/// What is played is shown for at least this long, in microseconds of the reader's time.
const FRAME: i64 = 60_000;

/// The speeds there are, in tenths.
const SPEEDS: [(i64, &str, &str); 4] = [(5, "0.5", "0.5×"), (10, "1", "1×"), (20, "2", "2×"), (50, "5", "5×")];

/// The clocks there are, by the name they have in an address.
const CLOCKS: [(Clock, &str, &str); 3] =
    [(Clock::Step, "step", "per step"), (Clock::Time, "time", "real time"), (Clock::Gaps, "gaps", "no gaps")];

/// What is asked of a replay.
#[derive(Debug, Clone, Default)]
pub(crate) struct ReplayQuery {
    /// The step: an ordinal, `start`, `end`, or empty.
    pub step: String,
    /// The event of the step, counted from 1.
    pub event: Option<usize>,
    /// A position over the whole run, in place of step and event.
    pub at: Option<usize>,
    /// Go on so many events, or back.
    pub events: isize,
    /// Go on so many steps, or back.
    pub steps: isize,
    /// How fast it is played; empty for 1.
    pub speed: String,
    /// The clock; empty for steps.
    pub clock: String,
    /// The breakpoints that are on.
    pub breaks: Vec<String>,
    /// The selected key of the state; empty for none.
    pub key: String,
    /// Whether to take the nearest place where the run has not the one that is asked for.
    pub nearest: bool,
}

/// What a replay cannot be asked: what was named, and what there is instead.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NoPlace {
    /// What is wrong, up to the name: `This run has no step`.
    pub what: &'static str,
    /// The name.
    pub named: String,
    /// What there is.
    pub instead: String,
}

/// A replay and the words for the title of its page.
pub(crate) fn replay(lens: &Lens<'_>, query: &ReplayQuery) -> Result<(Replay, String), NoPlace> {
    let track = Track::new(lens.index);
    let speed = SPEEDS.iter().position(|speed| speed.1 == or(&query.speed, "1"));
    let speed = speed.ok_or_else(|| no("There is no speed", &query.speed, "Speeds are 0.5, 1, 2 and 5."))?;
    let clock = CLOCKS.iter().position(|clock| clock.1 == or(&query.clock, "step"));
    let clock = clock.ok_or_else(|| no("There is no clock", &query.clock, "Clocks are step, time and gaps."))?;
    let way = Way { key: lens.key(), speed, clock, breaks: &query.breaks, selected: &query.key };
    if track.is_empty() {
        return Ok((nothing(lens, &way), "Replay".to_owned()));
    }
    let at = position(lens, &track, query)?;
    let place = Place { lens, track: &track, at, way: &way };
    let Some((part, event)) = track.part(at) else { return Ok((nothing(lens, &way), "Replay".to_owned())) };
    let breaks: Vec<Breakpoint> = query.breaks.iter().map(|text| Breakpoint::new(lens.index, text)).collect();
    let hit = first_hit(&breaks, lens.index, part, event);
    let named = place.name(part.scene);
    let count = part.events;
    let counted = if count == 0 { "no events".to_owned() } else { format!("event {} of {count}", event + 1) };
    let when = part.range().nth(event).and_then(|at| lens.index.events().get(at)).and_then(|event| event.ts);
    let offset = lens.offset(when);
    let mut replay = Replay {
        status: Some(status(lens.summary)),
        verdict: lens.summary.verdict.sentence.as_str().into(),
        cursor: way.cursor(&track, at).into(),
        here: way.to(&track, at),
        open: step(part.scene)
            .filter(|n| *n < lens.index.steps().len())
            .map(|n| Link::new(format!("Open step {}", lens.label(n)), lens.at_step(n))),
        drive: place.drive(&breaks, hit.is_some()),
        title: named.as_str().into(),
        place: if offset.is_empty() { counted.clone() } else { format!("{counted} · {offset}") }.into(),
        hit: hit.map_or_else(Phrase::new, |hit| Phrase::new().text("at breakpoint ").code(hit.text.as_str())),
        stops: stops::stops(&place, &breaks),
        scrub: scrub::scrub(&place, &breaks),
        transport: place.transport(&breaks),
        ..Replay::default()
    };
    phases::fill(&place, &mut replay);
    state::fill(&place, &mut replay);
    replay.transport.said = format!("{}, {counted}", named.to_lowercase()).into();
    let title = format!("Replay {}", named.to_lowercase());
    Ok((replay, title))
}

fn or<'t>(text: &'t str, default: &'t str) -> &'t str {
    if text.is_empty() { default } else { text }
}

fn no(what: &'static str, named: &str, instead: &str) -> NoPlace {
    NoPlace { what, named: named.to_owned(), instead: instead.to_owned() }
}

/// The ordinal of a step.
fn step(scene: Scene) -> Option<usize> {
    if let Scene::Step(n) = scene { Some(n) } else { None }
}

/// The replay of a run of which nothing is recorded.
fn nothing(lens: &Lens<'_>, way: &Way<'_>) -> Replay {
    let alive = lens.summary.life.liveness.may_grow();
    Replay {
        status: Some(status(lens.summary)),
        verdict: lens.summary.verdict.sentence.as_str().into(),
        here: way.with(way.speed, way.clock, &[]),
        nothing: if alive { "Nothing has been written yet." } else { "Nothing was recorded: no step and no event." }
            .into(),
        drive: Drive { alive, part: format!("{}/part?speed=1", href::replay(way.key)), ..Drive::default() },
        ..Replay::default()
    }
}

/// The position that is asked for.
fn position(lens: &Lens<'_>, track: &Track, query: &ReplayQuery) -> Result<usize, NoPlace> {
    let named = match (query.step.as_str(), query.at) {
        (_, Some(at)) => at.min(track.last()),
        // Who opens a run that is being written wants to see what it does; who opens another, how it began.
        ("", _) if lens.summary.life.liveness.may_grow() => track.last(),
        ("", _) | ("start", None) if query.event.is_none() => 0,
        ("end", _) if query.event.is_none() => track.last(),
        (name, None) => at_step(track, name, query)?,
    };
    let walked = track.by_steps(named, query.steps);
    let walked = if query.steps == 0 { named } else { walked };
    Ok(track.by_events(walked, query.events))
}

fn at_step(track: &Track, name: &str, query: &ReplayQuery) -> Result<usize, NoPlace> {
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
        let steps = track.parts().iter().filter(|part| step(part.scene).is_some()).count();
        let steps = match steps {
            0 => "It has no steps".to_owned(),
            1 => "It has one step, 0".to_owned(),
            _ => format!("It has {steps} steps, 0 to {}", steps - 1),
        };
        return Err(no("This run has no step", name, &format!("{steps}; start and end are places, too.")));
    };
    // An event too many, or an event of a step that has none.
    let event = query.event.unwrap_or(1).max(1) - 1;
    if event >= part.positions() && !query.nearest {
        let has = match part.events {
            0 => "It has no events.".to_owned(),
            1 => "It has one event.".to_owned(),
            events => format!("It has {events} events, 1 to {events}."),
        };
        return Err(no("This step has no event", &(event + 1).to_string(), &has));
    }
    Ok(part.at + event.min(part.positions() - 1))
}

/// Addresses of a replay: of one run, with what was chosen.
struct Way<'a> {
    key: &'a str,
    speed: usize,
    clock: usize,
    breaks: &'a [String],
    selected: &'a str,
}

impl Way<'_> {
    /// The replay with a speed, a clock and a place.
    fn with(&self, speed: usize, clock: usize, place: &[(&str, &str)]) -> String {
        self.with_key(speed, clock, place, self.selected)
    }

    fn with_key(&self, speed: usize, clock: usize, place: &[(&str, &str)], key: &str) -> String {
        let name = |of: Option<&str>, default: &str| of.filter(|name| *name != default).unwrap_or_default().to_owned();
        let speed = name(SPEEDS.get(speed).map(|speed| speed.1), "1");
        let clock = name(CLOCKS.get(clock).map(|clock| clock.1), "step");
        let mut pairs = place.to_vec();
        pairs.extend([("speed", speed.as_str()), ("clock", clock.as_str()), ("key", key)]);
        pairs.extend(self.breaks.iter().map(|text| ("break", text.as_str())));
        href::with_query(&href::replay(self.key), &pairs)
    }

    /// The names of a position in an address.
    fn names(track: &Track, at: usize) -> (String, String) {
        let Some((part, event)) = track.part(at) else { return Default::default() };
        let step = match part.scene {
            Scene::Start => "start".to_owned(),
            Scene::Step(n) => n.to_string(),
            Scene::End => "end".to_owned(),
        };
        // The places of a part that grows keep their names.
        (step, if part.events == 0 { String::new() } else { (event + 1).to_string() })
    }

    fn cursor(&self, track: &Track, at: usize) -> String {
        let (step, event) = Self::names(track, at);
        href::with_query("", &[("step", &step), ("event", &event)])
    }

    /// The replay at a position.
    fn to(&self, track: &Track, at: usize) -> String {
        self.to_key(track, at, self.selected)
    }

    /// The replay at a position with a key of the state selected.
    fn to_key(&self, track: &Track, at: usize, key: &str) -> String {
        let (step, event) = Self::names(track, at);
        self.with_key(self.speed, self.clock, &[("step", &step), ("event", &event)], key)
    }

    fn clock(&self) -> Clock {
        CLOCKS.get(self.clock).map(|clock| clock.0).unwrap_or_default()
    }
}

/// One place in a run, and how to get to others.
pub(crate) struct Place<'a> {
    lens: &'a Lens<'a>,
    track: &'a Track,
    at: usize,
    way: &'a Way<'a>,
}

impl Place<'_> {
    fn to(&self, at: usize) -> String {
        self.way.to(self.track, at)
    }

    /// The first position of step `n`.
    fn to_step(&self, n: usize) -> Option<String> {
        let at = self.track.position(Cursor { scene: Scene::Step(n), event: 0 })?;
        Some(self.to(at))
    }

    /// What a part is called.
    fn name(&self, scene: Scene) -> String {
        match scene {
            Scene::Start => "Start".to_owned(),
            Scene::End => "End".to_owned(),
            Scene::Step(n) if n < self.lens.index.steps().len() => format!("Step {}", self.lens.label(n)),
            Scene::Step(_) => {
                let group = self.track.find(scene).and_then(|part| part.group);
                let id = group.and_then(|at| self.lens.index.groups().get(at)).and_then(|group| group.step_id);
                id.map_or_else(|| "Step without id".to_owned(), |id| format!("Step {id}"))
            }
        }
    }

    /// The step that "after" and "before" are counted from: none at the start, past the last one at the end.
    fn from(&self) -> Option<usize> {
        match self.track.part(self.at)?.0.scene {
            Scene::Start => None,
            Scene::Step(n) => Some(n),
            Scene::End => Some(usize::MAX),
        }
    }

    fn drive(&self, breaks: &[Breakpoint], stop: bool) -> Drive {
        let (track, index) = (self.track, self.lens.index);
        let speed = SPEEDS.get(self.way.speed).map_or(10, |speed| speed.0);
        let hit = next_hit(breaks, index, track, self.at, false);
        let tick = track.tick(index, self.way.clock(), self.at, FRAME * speed / 10, hit);
        let place = self.way.with(self.way.speed, self.way.clock, &[]);
        let query = place.split_once('?').map_or("", |(_, query)| query);
        Drive {
            at: self.at,
            last: track.last(),
            part: format!("{}/part?{query}{}", href::replay(self.way.key), if query.is_empty() { "" } else { "&" }),
            tick: tick.map(|(next, wait)| (next - self.at, wait * 10 / speed / 1_000)),
            stop,
            alive: self.lens.summary.life.liveness.may_grow(),
        }
    }

    fn transport(&self, breaks: &[Breakpoint]) -> Transport {
        let (track, at) = (self.track, self.at);
        let (part, event) = track.part(at).map_or((None, 0), |(part, event)| (Some(part), event));
        let short = match part.map(|part| part.scene) {
            Some(Scene::Step(n)) if n < self.lens.index.steps().len() => self.lens.label(n),
            Some(scene) => self.name(scene).to_lowercase(),
            None => String::new(),
        };
        let events = part.map_or(0, |part| part.events);
        let clock = self.way.clock();
        let time = format::offset_short(track.offset(self.lens.index, clock, at));
        Transport {
            at_start: at == 0,
            at_end: at == track.last(),
            first: self.to(0),
            step_back: self.to(track.by_steps(at, -1)),
            event_back: self.to(track.by_events(at, -1)),
            event_on: self.to(track.by_events(at, 1)),
            step_on: self.to(track.by_steps(at, 1)),
            last: self.to(track.last()),
            jumps: self.jumps(breaks),
            pos: if events == 0 { short } else { format!("{short} · event {} / {events}", event + 1) }.into(),
            said: "".into(),
            time: format!("plays {} of {}", time.trim_start_matches('+'), micros(track.total(clock))).into(),
            speeds: self.speeds(),
            clocks: CLOCKS.iter().enumerate().map(|(n, clock)| self.clock_choice(n, clock.2)).collect(),
        }
    }

    fn jumps(&self, breaks: &[Breakpoint]) -> Vec<Jump> {
        let (index, from) = (self.lens.index, self.from());
        let jump = |key, label: String, href: Option<String>| Jump { key, label: label.into(), href };
        let hit = |back| next_hit(breaks, index, self.track, self.at, back).map(|at| self.to(at));
        let mark = next_mark(index, from.map(|n| n.min(index.steps().len())));
        vec![
            jump("b", "next breakpoint".to_owned(), hit(false)),
            jump("B", "previous breakpoint".to_owned(), hit(true)),
            jump("e", "next mark".to_owned(), mark.and_then(|n| self.to_step(n))),
        ]
    }

    fn speeds(&self) -> Vec<Choice> {
        let choice = |(n, speed): (usize, &(i64, &str, &'static str))| Choice {
            label: speed.2,
            title: "".into(),
            href: {
                let (step, event) = Way::names(self.track, self.at);
                self.way.with(n, self.way.clock, &[("step", &step), ("event", &event)])
            },
            current: n == self.way.speed,
            key: match () {
                () if n + 1 == self.way.speed => ",",
                () if n == self.way.speed + 1 => ".",
                () => "",
            },
        };
        SPEEDS.iter().enumerate().map(choice).collect()
    }

    fn clock_choice(&self, n: usize, label: &'static str) -> Choice {
        let (step, event) = Way::names(self.track, self.at);
        let title = match CLOCKS.get(n).map(|clock| clock.0) {
            Some(Clock::Time) => "as recorded; what has no time takes as long as per step".to_owned(),
            Some(Clock::Gaps) => format!("as recorded, waits cut to {}", micros(GAP_MICROS)),
            _ => "every step takes one second".to_owned(),
        };
        Choice {
            label,
            title: title.into(),
            href: self.way.with(self.way.speed, n, &[("step", &step), ("event", &event)]),
            current: n == self.way.clock,
            key: "",
        }
    }
}
