//! How does a replay look at one cursor? The state beside the step, the step's events up to the cursor, where in the run
//! that is, and the ways to other places.
//!
//! Every place is a link: the page works without scripts, and `replay.js` only asks for the same part, `#replay`, at
//! another cursor. Only the step at the cursor is in the page, however long the run.
//!
//! The address is the cursor: `step` is an ordinal, `start` or `end`; `event` counts the events of the step that have
//! happened, the current one included, so that `step=4&event=3` is event 3 of step 4. Without `event` it is the first.

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
use crate::page::lens::{Lens, micros};
use crate::page::part::strip::Strip;
use crate::page::part::{href, text};
use crate::page::replay::phases::Phases;
use crate::page::replay::position::{NoPlace, ReplayQuery, position};
use crate::page::run::pending::PhaseState;
use crate::page::shell::{Pulse, Shell};

/// What is played is shown for at least this long, in microseconds of the reader's time.
const FRAME: i64 = 60_000;

/// The speeds there are: tenths, and the name in an address.
const SPEEDS: [(i64, &str); 7] = [
    (5, "0.5"),
    (10, "1"),
    (20, "2"),
    (50, "5"),
    (200, "20"),
    (1_000, "100"),
    (5_000, "500"),
];

/// The clocks there are, with the name in an address and on the page.
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

/// A replay at another cursor, or what changed in the run since.
#[derive(Template)]
#[template(path = "replay/replay_part.html")]
pub(crate) struct ReplayPart<'a> {
    /// The next pulse, where this answers one.
    pub pulse: Option<Pulse>,
    pub replay: Replay<'a>,
}

/// A run at a cursor, `#replay`.
#[derive(Template)]
#[template(path = "replay/replay.html")]
pub(crate) struct Replay<'a> {
    pub lens: &'a Lens<'a>,
    query: ReplayQuery,
    track: Track,
    /// The position, counted over the whole run from 0.
    at: usize,
    /// The part of the run at this position, and the event in it; `None` where nothing is recorded.
    part: Option<(Part, usize)>,
    /// Places of [`SPEEDS`] and [`CLOCKS`].
    speed: usize,
    clock: usize,
    breaks: Vec<Breakpoint>,
}

impl HtmlSafe for Replay<'_> {}

impl<'a> Replay<'a> {
    /// # Errors
    /// The query names a place, a speed or a clock that is not there.
    pub(crate) fn new(lens: &'a Lens<'a>, query: ReplayQuery) -> Result<Self, NoPlace> {
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
                "There is no speed",
                &query.speed,
                "Speeds are 0.5, 1, 2, 5, 20, 100 and 500.",
            )
        })?;
        let clock = or(&query.clock, "step");
        let clock = CLOCKS.iter().position(|(_, name, _)| *name == clock);
        let clock = clock.ok_or_else(|| {
            no(
                "There is no clock",
                &query.clock,
                "Clocks are step, time and gaps.",
            )
        })?;
        let track = Track::new(lens.index);
        let at = if track.is_empty() {
            0
        } else {
            position(lens, &track, &query)?
        };
        let part = track.part(at).map(|(part, event)| (*part, event));
        let breaks = query.breaks.iter().filter(|_| part.is_some());
        let breaks = breaks
            .map(|text| Breakpoint::new(lens.index, text))
            .collect();
        Ok(Self {
            lens,
            query,
            track,
            at,
            part,
            speed,
            clock,
            breaks,
        })
    }

    /// The words for the title of the page.
    pub(crate) fn title(&self) -> String {
        match self.part {
            Some((part, _)) => format!("Replay {}", self.name(part.scene).to_lowercase()),
            None => "Replay".to_owned(),
        }
    }

    fn document_title(&self) -> text::Line {
        self.lens.title(&self.title()).into()
    }

    fn alive(&self) -> bool {
        self.lens.is_alive()
    }

    fn last(&self) -> usize {
        self.track.last()
    }

    /// What a part is called.
    fn name(&self, scene: Scene) -> String {
        match scene {
            Scene::Start => "Start".to_owned(),
            Scene::End => "End".to_owned(),
            Scene::Step(n) if n < self.lens.index.steps().len() => {
                format!("Step {}", self.lens.label(n))
            }
            Scene::Step(_) => {
                let group = self.track.find(scene).and_then(|part| part.group);
                let id = group
                    .and_then(|at| self.lens.index.groups().get(at))
                    .and_then(|group| group.step_id);
                id.map_or_else(|| "Step without id".to_owned(), |id| format!("Step {id}"))
            }
        }
    }

    /// The names of a position in an address.
    fn names(&self, at: usize) -> (String, String) {
        let Some((part, event)) = self.track.part(at) else {
            return Default::default();
        };
        let step = match part.scene {
            Scene::Start => "start".to_owned(),
            Scene::Step(n) => n.to_string(),
            Scene::End => "end".to_owned(),
        };
        // The places of a part that grows keep their names.
        (
            step,
            if part.events == 0 {
                String::new()
            } else {
                (event + 1).to_string()
            },
        )
    }

    /// `path` at a position, with a speed, a clock and a key of the state.
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
        href::replay(self.lens.key())
    }

    fn to(&self, at: usize) -> String {
        self.to_key(at, &self.query.key)
    }

    /// The replay at a position with a key of the state selected.
    fn to_key(&self, at: usize, key: &str) -> String {
        self.address(&self.path(), Some(at), self.speed, self.clock, key)
    }

    fn by_steps(&self, steps: isize) -> String {
        self.to(self.track.by_steps(self.at, steps))
    }

    fn by_events(&self, events: isize) -> String {
        self.to(self.track.by_events(self.at, events))
    }

    /// The address of this part without its position.
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

    /// The written step at the cursor.
    fn open(&self) -> Option<usize> {
        self.part
            .and_then(|(part, _)| step(part.scene))
            .filter(|n| *n < self.lens.index.steps().len())
    }

    /// How many positions playing goes on, and after how many milliseconds; `None` at the end.
    fn tick(&self) -> Option<(usize, i64)> {
        let speed = SPEEDS.get(self.speed).map_or(10, |speed| speed.0);
        let hit = next_hit(&self.breaks, self.lens.index, &self.track, self.at, false);
        let tick = self.track.tick(
            self.lens.index,
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

    /// `4 · event 3 / 13`.
    fn pos(&self) -> String {
        let Some((part, event)) = self.part else {
            return String::new();
        };
        let short = self.open().map_or_else(
            || self.name(part.scene).to_lowercase(),
            |n| self.lens.label(n),
        );
        if part.events == 0 {
            short
        } else {
            format!("{short} · event {} / {}", event + 1, part.events)
        }
    }

    /// `event 3 of 13`.
    fn event_words(&self) -> String {
        match self.part {
            Some((part, event)) if part.events > 0 => {
                format!("event {} of {}", event + 1, part.events)
            }
            _ => "no events".to_owned(),
        }
    }

    /// The event of the step at the cursor, by its place in the file.
    fn event(&self) -> Option<usize> {
        self.part.and_then(|(part, event)| part.range().nth(event))
    }

    /// When the event happened, from the start of the run; empty where no time is recorded.
    fn offset(&self) -> text::Line {
        let event = self.event().and_then(|at| self.lens.index.events().get(at));
        self.lens.offset(event.and_then(|event| event.ts))
    }

    /// How far playing is: `17.4 s of 50.2 s`.
    fn played(&self) -> String {
        let clock = self.clock();
        let time = format::offset_short(self.track.offset(self.lens.index, clock, self.at));
        format!(
            "{} of {}",
            time.trim_start_matches('+'),
            micros(self.track.total(clock))
        )
    }

    /// The breakpoint at the cursor.
    fn hit(&self) -> Option<&Breakpoint> {
        self.part
            .as_ref()
            .and_then(|(part, event)| first_hit(&self.breaks, self.lens.index, part, *event))
    }

    /// Places that matter, each with its key: `None` where there is none.
    fn jumps(&self) -> [(&'static str, &'static str, Option<String>); 4] {
        let index = self.lens.index;
        let hit =
            |back| next_hit(&self.breaks, index, &self.track, self.at, back).map(|at| self.to(at));
        // Marks are counted from before the first step, or from past the last one.
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
        // Where the marks start over that is said.
        let next_words = if next.is_some() && next <= from {
            "first mark (none follows)"
        } else {
            "next mark"
        };
        let is_last = previous.is_some() && previous >= from;
        let previous_words = if is_last {
            "last mark (none comes before)"
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

    /// The speeds: name, address, whether it is the one chosen, and the key that chooses it from here.
    fn speeds(&self) -> impl Iterator<Item = (&'static str, String, bool, &'static str)> {
        SPEEDS.iter().enumerate().map(|(n, (_, name))| {
            let key = if n + 1 == self.speed { "," } else { "." };
            let key = if n.abs_diff(self.speed) == 1 { key } else { "" };
            let address = self.address(&self.path(), Some(self.at), n, self.clock, &self.query.key);
            (*name, address, n == self.speed, key)
        })
    }

    /// The clocks: name, meaning, address, and whether it is the one chosen.
    fn clocks(&self) -> impl Iterator<Item = (&'static str, String, String, bool)> {
        CLOCKS.iter().enumerate().map(|(n, (clock, _, name))| {
            let title = match clock {
                Clock::Time => "as recorded; what has no time takes as long as per step".to_owned(),
                Clock::Gaps => format!("as recorded, waits cut to {}", micros(GAP_MICROS)),
                Clock::Step => "every step takes one second".to_owned(),
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

    /// What goes along with the form of breakpoints: names and values.
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
        // For the pulse: who is at the end follows it.
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

    /// The breakpoints, and whether each is on: those that would find something keep their places, and what was typed
    /// comes behind them.
    fn stops(&self) -> Vec<(Breakpoint, bool)> {
        let on = |text: &str| self.breaks.iter().any(|one| one.text == text);
        let offers = self.offers();
        let typed = self.breaks.iter().filter(|one| !offers.contains(&one.text));
        let typed: Vec<_> = typed
            .map(|one| (Breakpoint::new(self.lens.index, &one.text), true))
            .collect();
        let offered = offers
            .iter()
            .map(|text| (Breakpoint::new(self.lens.index, text), on(text)));
        offered
            .filter(|(one, on)| *on || !one.steps.is_empty())
            .chain(typed)
            .collect()
    }

    /// What people stop at, as far as this run knows the names.
    fn offers(&self) -> Vec<String> {
        let summary = self.lens.summary;
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
        // The newest names are the rarest: what every step does stops everywhere.
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

/// What of a breakpoint is not understood; empty for nothing.
fn wrong(one: &Breakpoint) -> String {
    let ignored = one.query.ignored.iter();
    ignored
        .map(|term| format!("{} is not understood: {}", term.text, term.why))
        .collect::<Vec<_>>()
        .join("; ")
}

/// The ordinal of a step.
fn step(scene: Scene) -> Option<usize> {
    if let Scene::Step(n) = scene {
        Some(n)
    } else {
        None
    }
}
