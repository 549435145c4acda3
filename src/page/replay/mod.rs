//! Defines the replay of a run at a cursor: the state next to the step, the step's events up to the
//! cursor, the position in the run, and links to other positions.
//!
//! Every position is a link, so the page works without scripts. `replay.js` only requests the same
//! part, `#replay`, at another cursor. The page contains only the step at the cursor, however long
//! the run.
//!
//! The address is the cursor. `step` is an ordinal, `start` or `end`. `event` is the number of the
//! step's events that have happened, including the current one, so `step=4&event=3` is event 3 of
//! step 4. It defaults to the first event.

pub(crate) mod handler;
mod phases;
mod position;
mod scrub;
mod state;

use askama::Template;
use askama::filters::HtmlSafe;

use crate::analysis::format;
use crate::analysis::replay::{
    Breakpoint, Clock, Cursor, GAP_MICROS, Part, Scene, Track, first_hit, next_hit, next_mark,
    previous_mark,
};
use crate::page::part::strip::Strip;
use crate::page::part::{href, text};
use crate::page::replay::phases::Phases;
use crate::page::replay::position::{NoPlace, ReplayQuery, position};
use crate::page::run::pending::PhaseState;
use crate::page::run_view::{RunView, micros};
use crate::page::shell::{Pulse, Shell};

/// The minimum time a frame is shown, in microseconds of the reader's time.
const FRAME: i64 = 60_000;

/// The available speeds in tenths, with their names in addresses.
const SPEEDS: [(i64, &str); 7] = [
    (5, "0.5"),
    (10, "1"),
    (20, "2"),
    (50, "5"),
    (200, "20"),
    (1_000, "100"),
    (5_000, "500"),
];

/// The available clocks, with their names in addresses and on the page.
const CLOCKS: [(Clock, &str, &str); 3] = [
    (Clock::Step, "step", "per step"),
    (Clock::Time, "time", "real time"),
    (Clock::Gaps, "gaps", "no gaps"),
];

#[derive(Template)]
#[template(path = "replay/page.html")]
pub(crate) struct ReplayPage<'a> {
    pub shell: Shell,
    pub pulse: Pulse,
    pub replay: Replay<'a>,
}

/// A replay at another cursor, or the changes to the run.
#[derive(Template)]
#[template(path = "replay/replay_part.html")]
pub(crate) struct ReplayPart<'a> {
    /// The next pulse, if this responds to one.
    pub pulse: Option<Pulse>,
    pub replay: Replay<'a>,
}

/// A run at a cursor, `#replay`.
#[derive(Template)]
#[template(path = "replay/replay.html")]
pub(crate) struct Replay<'a> {
    pub view: &'a RunView<'a>,
    query: ReplayQuery,
    track: Track,
    /// The position in the whole run, counted from 0.
    at: usize,
    /// The part of the run at this position, and the event in it. `None` if nothing is recorded.
    part: Option<(Part, usize)>,
    /// Indices into [`SPEEDS`] and [`CLOCKS`].
    speed: usize,
    clock: usize,
    breaks: Vec<Breakpoint>,
}

impl HtmlSafe for Replay<'_> {}

impl<'a> Replay<'a> {
    /// Creates the replay at the position in `query`.
    ///
    /// # Errors
    /// Fails if `query` names a position, a speed or a clock that doesn't exist.
    pub(crate) fn new(view: &'a RunView<'a>, query: ReplayQuery) -> Result<Self, NoPlace> {
        let no = |what, named: &str, instead: &str| NoPlace {
            what,
            named: named.to_owned(),
            instead: instead.to_owned(),
        };
        let or = |text: &str, default: &'static str| {
            if text.is_empty() {
                default.to_owned()
            } else {
                text.to_owned()
            }
        };
        let speed = or(&query.speed, "1");
        let speed = SPEEDS.iter().position(|(_, name)| *name == speed);
        let speed = speed.ok_or_else(|| {
            no(
                "Unknown speed",
                &query.speed,
                "Use 0.5, 1, 2, 5, 20, 100 or 500.",
            )
        })?;
        let clock = or(&query.clock, "step");
        let clock = CLOCKS.iter().position(|(_, name, _)| *name == clock);
        let clock =
            clock.ok_or_else(|| no("Unknown clock", &query.clock, "Use step, time or gaps."))?;
        let track = Track::new(view.index);
        let at = if track.is_empty() {
            0
        } else {
            position(view, &track, &query)?
        };
        let part = track.part(at).map(|(part, event)| (*part, event));
        let breaks = query.breaks.iter().filter(|_| part.is_some());
        let breaks = breaks
            .map(|text| Breakpoint::new(view.index, text))
            .collect();
        Ok(Self {
            view,
            query,
            track,
            at,
            part,
            speed,
            clock,
            breaks,
        })
    }

    /// Returns the text for the page's title.
    pub(crate) fn title(&self) -> String {
        match self.part {
            Some((part, _)) => format!("Replay {}", self.name(part.scene).to_lowercase()),
            None => "Replay".to_owned(),
        }
    }

    fn document_title(&self) -> text::Line {
        self.view.title(&self.title()).into()
    }

    fn alive(&self) -> bool {
        self.view.is_alive()
    }

    fn last(&self) -> usize {
        self.track.last()
    }

    /// Returns the name of a part.
    fn name(&self, scene: Scene) -> String {
        match scene {
            Scene::Start => "Start".to_owned(),
            Scene::End => "End".to_owned(),
            Scene::Step(n) if n < self.view.index.steps().len() => {
                format!("Step {}", self.view.label(n))
            }
            Scene::Step(_) => {
                let group = self.track.find(scene).and_then(|part| part.group);
                let id = group
                    .and_then(|at| self.view.index.groups().get(at))
                    .and_then(|group| group.step_id);
                id.map_or_else(
                    || "Step without an id".to_owned(),
                    |id| format!("Step {id}"),
                )
            }
        }
    }

    /// Returns the `step` and `event` of a position in an address.
    fn names(&self, at: usize) -> (String, String) {
        let Some((part, event)) = self.track.part(at) else {
            return Default::default();
        };
        let step = match part.scene {
            Scene::Start => "start".to_owned(),
            Scene::Step(n) => n.to_string(),
            Scene::End => "end".to_owned(),
        };
        // Positions in a growing part keep their names.
        (
            step,
            if part.events == 0 {
                String::new()
            } else {
                (event + 1).to_string()
            },
        )
    }

    /// Returns `path` at a position, with a speed, a clock and a state key.
    fn address(
        &self,
        path: &str,
        at: Option<usize>,
        speed: usize,
        clock: usize,
        key: &str,
    ) -> String {
        let name = |name: Option<&'static str>, default: &str| {
            name.filter(|name| *name != default).unwrap_or_default()
        };
        let speed = name(SPEEDS.get(speed).map(|speed| speed.1), "1");
        let clock = name(CLOCKS.get(clock).map(|clock| clock.1), "step");
        let (step, event) = at.map(|at| self.names(at)).unwrap_or_default();
        let mut pairs = vec![
            ("step", step.as_str()),
            ("event", &event),
            ("speed", speed),
            ("clock", clock),
            ("key", key),
        ];
        pairs.extend(
            self.query
                .breaks
                .iter()
                .map(|text| ("break", text.as_str())),
        );
        href::with_query(path, &pairs)
    }

    fn path(&self) -> String {
        href::replay(self.view.key())
    }

    fn to(&self, at: usize) -> String {
        self.to_key(at, &self.query.key)
    }

    /// Returns the address of a position with a state key selected.
    fn to_key(&self, at: usize, key: &str) -> String {
        self.address(&self.path(), Some(at), self.speed, self.clock, key)
    }

    fn by_steps(&self, steps: isize) -> String {
        self.to(self.track.by_steps(self.at, steps))
    }

    fn by_events(&self, events: isize) -> String {
        self.to(self.track.by_events(self.at, events))
    }

    /// Returns the address of this part without its position.
    fn part_address(&self) -> String {
        let path = format!("{}/part", self.path());
        if self.part.is_none() {
            return format!("{path}?speed=1");
        }
        let address = self.address(&path, None, self.speed, self.clock, &self.query.key);
        if address == path {
            format!("{path}?")
        } else {
            format!("{address}&")
        }
    }

    /// Returns the step at the cursor, if it has a line.
    fn open(&self) -> Option<usize> {
        self.part
            .and_then(|(part, _)| step(part.scene))
            .filter(|n| *n < self.view.index.steps().len())
    }

    /// Returns how many positions playback advances, and after how many milliseconds. `None` at the
    /// end.
    fn tick(&self) -> Option<(usize, i64)> {
        let speed = SPEEDS.get(self.speed).map_or(10, |speed| speed.0);
        let hit = next_hit(&self.breaks, self.view.index, &self.track, self.at, false);
        let tick = self.track.tick(
            self.view.index,
            self.clock(),
            self.at,
            FRAME * speed / 10,
            hit,
        );
        tick.map(|(next, wait)| (next - self.at, wait * 10 / speed / 1_000))
    }

    fn clock(&self) -> Clock {
        CLOCKS
            .get(self.clock)
            .map(|clock| clock.0)
            .unwrap_or_default()
    }

    /// Returns the position: `4 · event 3 of 13`.
    fn pos(&self) -> String {
        let Some((part, event)) = self.part else {
            return String::new();
        };
        let short = self.open().map_or_else(
            || self.name(part.scene).to_lowercase(),
            |n| self.view.label(n),
        );
        if part.events == 0 {
            short
        } else {
            format!("{short} · event {} of {}", event + 1, part.events)
        }
    }

    /// Returns the event at the cursor: `event 3 of 13`.
    fn event_words(&self) -> String {
        match self.part {
            Some((part, event)) if part.events > 0 => {
                format!("event {} of {}", event + 1, part.events)
            }
            _ => "no events".to_owned(),
        }
    }

    /// Returns the event at the cursor by its ordinal in the run.
    fn event(&self) -> Option<usize> {
        self.part.and_then(|(part, event)| part.range().nth(event))
    }

    /// Returns the time of the event since the start of the run. Empty if no time is recorded.
    fn offset(&self) -> text::Line {
        let event = self.event().and_then(|at| self.view.index.events().get(at));
        self.view.offset(event.and_then(|event| event.ts))
    }

    /// Returns the playback progress: `17.4 s of 50.2 s`.
    fn played(&self) -> String {
        let clock = self.clock();
        let time = format::offset_short(self.track.offset(self.view.index, clock, self.at));
        format!(
            "{} of {}",
            time.trim_start_matches('+'),
            micros(self.track.total(clock))
        )
    }

    /// Returns the breakpoint at the cursor.
    fn hit(&self) -> Option<&Breakpoint> {
        self.part
            .as_ref()
            .and_then(|(part, event)| first_hit(&self.breaks, self.view.index, part, *event))
    }

    /// Lists the jumps to breakpoints and marks: the key, the label, and the address if there is a
    /// target.
    fn jumps(&self) -> [(&'static str, &'static str, Option<String>); 4] {
        let index = self.view.index;
        let hit =
            |back| next_hit(&self.breaks, index, &self.track, self.at, back).map(|at| self.to(at));
        // The search for marks starts before the first step, or after the last one.
        let from = match self.part.map(|(part, _)| part.scene) {
            None | Some(Scene::Start) => None,
            Some(Scene::Step(n)) => Some(n.min(index.steps().len())),
            Some(Scene::End) => Some(index.steps().len()),
        };
        let place = |n: Option<usize>| {
            let cursor = n.map(|n| Cursor {
                scene: Scene::Step(n),
                event: 0,
            })?;
            self.track.position(cursor).map(|at| self.to(at))
        };
        let (next, previous) = (next_mark(index, from), previous_mark(index, from));
        // The label says if the search wraps around.
        let next_words = if next.is_some() && next <= from {
            "first mark (wraps around)"
        } else {
            "next mark"
        };
        let is_last = previous.is_some() && previous >= from;
        let previous_words = if is_last {
            "last mark (wraps around)"
        } else {
            "previous mark"
        };
        [
            ("b", "next breakpoint", hit(false)),
            ("B", "previous breakpoint", hit(true)),
            ("e", next_words, place(next)),
            ("E", previous_words, place(previous)),
        ]
    }

    /// Lists the speeds: the name, the address, whether it is selected, and the key that selects it
    /// from here.
    fn speeds(&self) -> impl Iterator<Item = (&'static str, String, bool, &'static str)> {
        SPEEDS.iter().enumerate().map(|(n, (_, name))| {
            let key = if n + 1 == self.speed { "," } else { "." };
            let key = if n.abs_diff(self.speed) == 1 { key } else { "" };
            let address = self.address(&self.path(), Some(self.at), n, self.clock, &self.query.key);
            (*name, address, n == self.speed, key)
        })
    }

    /// Lists the clocks: the name, the meaning, the address, and whether it is selected.
    fn clocks(&self) -> impl Iterator<Item = (&'static str, String, String, bool)> {
        CLOCKS.iter().enumerate().map(|(n, (clock, _, name))| {
            let title = match clock {
                Clock::Time => "Recorded pace. Steps without times take one second".to_owned(),
                Clock::Gaps => format!(
                    "Recorded pace, with waits shortened to {}",
                    micros(GAP_MICROS)
                ),
                Clock::Step => "One second per step".to_owned(),
            };
            let address = self.address(&self.path(), Some(self.at), self.speed, n, &self.query.key);
            (*name, title, address, n == self.clock)
        })
    }

    fn phases(&self) -> Phases {
        Phases::new(self)
    }

    fn strip(&self) -> Strip {
        scrub::strip(self)
    }

    /// Returns the hidden fields of the breakpoint form, as names and values.
    fn hidden(&self) -> Vec<(&'static str, String)> {
        let (step, event) = self.names(self.at);
        let speed = SPEEDS
            .get(self.speed)
            .map(|speed| speed.1)
            .unwrap_or_default();
        let clock = CLOCKS
            .get(self.clock)
            .map(|clock| clock.1)
            .unwrap_or_default();
        // For the pulse: a reader at the end keeps following the run.
        let last = if self.at == self.last() { "1" } else { "" };
        let mut fields = vec![
            ("step", step),
            ("event", event),
            ("speed", speed.to_owned()),
            ("clock", clock.to_owned()),
        ];
        fields.extend([
            ("key", self.query.key.clone()),
            ("last", last.to_owned()),
            ("from", self.at.to_string()),
        ]);
        fields.retain(|(_, value)| !value.is_empty());
        fields
    }

    /// Lists the breakpoints, and whether each is on. Suggestions that hit a step keep their order,
    /// followed by the breakpoints that the user typed.
    fn stops(&self) -> Vec<(Breakpoint, bool)> {
        let on = |text: &str| self.breaks.iter().any(|one| one.text == text);
        let offers = self.offers();
        let typed = self.breaks.iter().filter(|one| !offers.contains(&one.text));
        let typed: Vec<_> = typed
            .map(|one| (Breakpoint::new(self.view.index, &one.text), true))
            .collect();
        let offered = offers
            .iter()
            .map(|text| (Breakpoint::new(self.view.index, text), on(text)));
        offered
            .filter(|(one, on)| *on || !one.steps.is_empty())
            .chain(typed)
            .collect()
    }

    /// Suggests breakpoints, using names that occur in this run.
    fn offers(&self) -> Vec<String> {
        let summary = self.view.summary;
        let quoted = |name: &str| {
            let bare = name.chars().all(|c| c.is_alphanumeric() || c == '_');
            if bare {
                name.to_owned()
            } else {
                format!("\"{name}\"")
            }
        };
        let mut offers = ["err:true", "critic:retry", "score<0.4"]
            .map(str::to_owned)
            .to_vec();
        // Names that appeared last are the rarest. A breakpoint on something every step does would
        // stop everywhere.
        offers.extend(
            summary
                .changed
                .last()
                .map(|key| format!("state.{} changed", quoted(key))),
        );
        offers.extend(
            summary
                .tools
                .last()
                .map(|tool| format!("tool:{}", quoted(tool))),
        );
        offers
    }
}

/// Explains which terms of a breakpoint were ignored. Empty if there are none.
fn wrong(one: &Breakpoint) -> String {
    let ignored = one.query.ignored.iter();
    ignored
        .map(|term| format!("Ignored {}: {}", term.text, term.why))
        .collect::<Vec<_>>()
        .join(" · ")
}

/// Returns the ordinal of a step.
fn step(scene: Scene) -> Option<usize> {
    if let Scene::Step(n) = scene {
        Some(n)
    } else {
        None
    }
}
