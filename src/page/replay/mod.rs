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

mod position;

use askama::Template;
use askama::filters::HtmlSafe;
use axum::extract::State;

use crate::analysis::format;
use crate::analysis::replay::{
    Breakpoint, Clock, Cursor, GAP_MICROS, Part, Scene, Track, first_hit, next_hit, next_mark,
    previous_mark,
};
use crate::analysis::timing::{Stretch, stretches};
use crate::model::index::Group;
use crate::page::answer::{html, load_again};
use crate::page::app::AppState;
use crate::page::error::{Answer, WebError};
use crate::page::extract::RunParam;
use crate::page::params::Params;
use crate::page::part::action::Actions;
use crate::page::part::critic::Critic;
use crate::page::part::decision::Decision;
use crate::page::part::fold::Folded;
use crate::page::part::sign::Phrase;
use crate::page::part::state_diff::StateDiff;
use crate::page::part::strip::{COLUMNS, Layout, Strip};
use crate::page::part::{href, text};
use crate::page::replay::position::{NoPlace, ReplayQuery, position, step};
use crate::page::run::handler::{ended, run_ended, shell, with_view};
use crate::page::run::pending::PhaseState;
use crate::page::run_view::{RunView, micros, phase};
use crate::page::shell::{Pulse, Shell};
use crate::page::state::{Moment, StatePanel, state_panel};
use crate::page::step::StepView;
use crate::page::step::fill::{StepPlace, step_line};

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
    (Clock::Gaps, "gaps", "short waits"),
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
    /// The part of the run at this position, and the event in it. `None` without records.
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

    /// Returns the position in the run: `step 4 · event 40 of 88`.
    fn pos(&self) -> String {
        let Some((part, event)) = self.part else {
            return String::new();
        };
        let short = self.open().map_or_else(
            || self.name(part.scene).to_lowercase(),
            |n| format!("step {}", self.view.label(n)),
        );
        let index = self.view.index;
        let all = index.events().len();
        match self.event() {
            _ if part.events == 0 => short,
            Some(at) if all == index.event_count() => {
                format!("{short} · event {} of {all}", at + 1)
            }
            // After skipped events, the number in the file is unknown.
            _ => format!("{short} · event {} of {} in it", event + 1, part.events),
        }
    }

    /// Returns the event at the cursor: `event 3 of 13 in this step`.
    fn event_words(&self) -> String {
        match self.part {
            Some((part, event)) if part.events > 0 => {
                let part_name = match self.open() {
                    Some(_) => "step",
                    None => "part",
                };
                format!("event {} of {} in this {part_name}", event + 1, part.events)
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
        let is_here = |n: Option<usize>| n.is_some() && n == from;
        let next_words = match next {
            _ if is_here(next) => "next error, retry or stop: this is the only one",
            Some(_) if next <= from => "first error, retry or stop (wraps around)",
            _ => "next error, retry or stop",
        };
        let previous_words = match previous {
            _ if is_here(previous) => "previous error, retry or stop: this is the only one",
            Some(_) if previous >= from => "last error, retry or stop (wraps around)",
            _ => "previous error, retry or stop",
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
        strip(self)
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

/// Explains which terms of a breakpoint were ignored. Empty if there aren't any.
fn wrong(one: &Breakpoint) -> String {
    let ignored = one.query.ignored.iter();
    ignored
        .map(|term| format!("Ignored {}: {}", term.text, term.why))
        .collect::<Vec<_>>()
        .join(" · ")
}

/// Draws the strip of all steps with the breakpoints. It has the width and scale of the slider
/// below it: every event takes the same space.
fn strip(replay: &Replay<'_>) -> Strip {
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

/// The state at the cursor. A step changes the state when its reduce phase ends, so until then the
/// previous state is shown.
impl Replay<'_> {
    /// Returns the moment whose state is shown, or `None` if no step has a line.
    fn moment(&self) -> Option<Moment> {
        let (part, event) = self.part.as_ref()?;
        let last = self.view.index.steps().len().checked_sub(1)?;
        Some(match part.scene {
            Scene::Start => Moment::Before(0),
            Scene::Step(n) if n <= last && *event >= self.reduced(part) => Moment::After(n),
            Scene::Step(n) if n <= last => Moment::Before(n),
            Scene::Step(_) | Scene::End => Moment::Since(last),
        })
    }

    /// Describes the moment of the state.
    fn state_when(&self) -> String {
        let at_start = self
            .part
            .is_some_and(|(part, _)| part.scene == Scene::Start);
        match self.moment() {
            None => format!("{}, so the state is unknown.", self.view.no_step()),
            Some(_) if at_start => "at the start".to_owned(),
            Some(Moment::Before(n)) => format!("before step {}", self.view.label(n)),
            Some(Moment::After(n) | Moment::Since(n)) => {
                format!("after step {}", self.view.label(n))
            }
        }
    }

    fn state(&self) -> StatePanel {
        let Some(moment) = self.moment() else {
            return StatePanel::default();
        };
        let (Moment::Before(shown) | Moment::After(shown) | Moment::Since(shown)) = moment;
        let current = self.part.and_then(|(part, _)| step(part.scene));
        // A link to another step shows the state after that step. A link to this step only selects
        // the key.
        let at = |n: usize, key: &str| {
            let other = self
                .track
                .find(Scene::Step(n))
                .filter(|_| current != Some(n) && n != shown);
            self.to_key(
                other.map_or(self.at, |other| other.at + self.reduced(other)),
                key,
            )
        };
        state_panel(self.view, moment, &self.query.key, &at).unwrap_or_default()
    }

    /// Returns the event of a part at which its step has changed the state: the last event of its
    /// reduce phase, or else its last event.
    fn reduced(&self, part: &Part) -> usize {
        let index = self.view.index;
        let reduce = index.names().find("REDUCE");
        let events = index.events().range(part.range());
        let last = events
            .clone()
            .rposition(|event| Some(event.phase) == reduce);
        last.unwrap_or_else(|| part.positions() - 1)
    }
}

/// Limits the events of a phase that are listed individually. If the cursor is among them, the list
/// is centered on it.
const NAMED: usize = 24;

/// The events of the step at the cursor, phase by phase: past events, the current one, and later
/// ones.
///
/// The content of a phase is shown with the last block of its events: the decision with DECIDE, the
/// results with ACT, the state changes with REDUCE, the scores with CRITIC. Content without events
/// has a note. It comes before the content of later phases, so that a result follows its call, or
/// else last.
#[derive(Default)]
pub(crate) struct Phases {
    /// A note if the step is unusual, such as one without a line or events. Empty otherwise.
    pub note: Phrase,
    pub phases: Vec<Phase>,
}

/// One phase of the step.
#[derive(Default)]
pub(crate) struct Phase {
    /// The color class.
    pub class: &'static str,
    pub name: String,
    /// When it started and how long it took.
    pub when: String,
    /// Whether it is before, at or after the cursor.
    pub state: PhaseState,
    /// The events: the name, whether it is before, at or after the cursor, and its position.
    pub events: Vec<(String, PhaseState, usize)>,
    /// The number of its events, and the first of them.
    pub lines: Option<(usize, usize)>,
    /// The content of its events, one line each.
    pub details: Vec<Phrase>,
    pub thought: Option<Folded>,
    pub decision: Option<Decision>,
    pub actions: Option<Actions>,
    pub diff: Option<StateDiff>,
    pub critics: Vec<Critic>,
}

/// The phases that have content, in the order in which a step runs them.
const CONTENT: [&str; 4] = ["DECIDE", "ACT", "REDUCE", "CRITIC"];

impl Phases {
    pub(crate) fn new(replay: &Replay<'_>) -> Self {
        let Some((part, event)) = &replay.part else {
            return Self::default();
        };
        let (index, now) = (replay.view.index, part.range().nth(*event));
        let mut step_view = step(part.scene)
            .and_then(|n| step_line(replay.view, n, StepPlace::List))
            .unwrap_or_default();
        let mut group = group_of(part);
        group.ended = part
            .range()
            .next_back()
            .and_then(|at| index.events().get(at))
            .and_then(|event| event.ts);
        let stretches = stretches(index, &group);
        let mut phases: Vec<Phase> = stretches
            .iter()
            .map(|stretch| one(replay, part, stretch, now))
            .collect();
        let is_told = !phases.is_empty();
        let is_past = !is_told || now.is_some_and(|now| now + 1 == part.first + part.events);
        let mut missing: Vec<(usize, Phase)> = Vec::new();
        for (order, name) in CONTENT.iter().enumerate() {
            let slot = stretches
                .iter()
                .rposition(|stretch| index.name(stretch.phase) == *name);
            if let Some(phase) = slot.and_then(|at| phases.get_mut(at)) {
                phase.bring(name, &mut step_view);
                continue;
            }
            let later = CONTENT.get(order + 1..).unwrap_or_default();
            let before = stretches
                .iter()
                .position(|stretch| later.contains(&index.name(stretch.phase)));
            let (class, shown) = phase(name);
            let when = if is_told { "no timestamp" } else { "" }.to_owned();
            let at = before.unwrap_or(phases.len());
            let next = phases.get(at).map(|phase| phase.state);
            // It's over once the phase after it has begun.
            let is_past = next.map_or(is_past, |next| next != PhaseState::Later);
            let state = if is_past {
                PhaseState::Done
            } else {
                PhaseState::Later
            };
            let mut rest = Phase {
                class,
                name: shown,
                when,
                state,
                ..Phase::default()
            };
            rest.bring(name, &mut step_view);
            missing.extend(Some((at, rest)).filter(|(_, rest)| rest.has_content()));
        }
        for (at, rest) in missing.into_iter().rev() {
            phases.insert(at, rest);
        }
        Self {
            note: note(replay, part, step_view.unreadable.is_some()),
            phases,
        }
    }
}

impl Phase {
    /// Moves the phase's content from the step's line into the phase.
    fn bring(&mut self, name: &str, step_view: &mut StepView) {
        match name {
            "DECIDE" => {
                (self.thought, self.decision) =
                    (step_view.thought.take(), step_view.decision.take())
            }
            "ACT" => {
                self.actions = Some(std::mem::take(&mut step_view.actions))
                    .filter(|actions| !actions.is_empty())
            }
            "REDUCE" => self.diff = step_view.diff.take(),
            _ => self.critics = std::mem::take(&mut step_view.critics),
        }
    }

    fn has_content(&self) -> bool {
        let decides = self.thought.is_some() || self.decision.is_some();
        decides || self.actions.is_some() || self.diff.is_some() || !self.critics.is_empty()
    }
}

/// Returns the events of a part as a group, to split them into phases.
pub(crate) fn group_of(part: &Part) -> Group {
    Group {
        first: part.first,
        end: part.first + part.events,
        ..Group::default()
    }
}

/// Describes whatever is unusual about the step.
fn note(replay: &Replay<'_>, part: &Part, is_unreadable: bool) -> Phrase {
    let total = replay.view.index.steps().len();
    match (step(part.scene), is_unreadable) {
        (Some(n), true) => Phrase::new()
            .text("This step's line can't be parsed. ")
            .link("Show the line", href::step(replay.view.key(), n)),
        (Some(n), false) if n >= total && replay.alive() => {
            Phrase::from("In progress. The step's line is written when it ends.")
        }
        (Some(n), false) if n >= total && !replay.view.index.steps_file().exists => {
            Phrase::from("steps.jsonl is missing. Only the events of this step are recorded.")
        }
        (Some(n), false) if n >= total => Phrase::from(
            "This step was never written to steps.jsonl. Only its events are recorded.",
        ),
        (Some(_), false) if part.events == 0 => {
            Phrase::from("No events are recorded for this step, so it's shown as a whole.")
        }
        _ => Phrase::new(),
    }
}

/// Builds a phase from its events.
fn one(replay: &Replay<'_>, part: &Part, stretch: &Stretch, now: Option<usize>) -> Phase {
    let index = replay.view.index;
    let state = |first: usize, end: usize| match now {
        Some(now) if now < first => PhaseState::Later,
        Some(now) if now < end => PhaseState::Now,
        _ => PhaseState::Done,
    };
    let (class, name) = phase(index.name(stretch.phase));
    let offset = replay.view.offset(stretch.started);
    let lasted = stretch.micros.map(micros).filter(|_| !offset.is_empty());
    let here = now
        .filter(|now| (stretch.first..stretch.end).contains(now))
        .unwrap_or(stretch.first);
    let from = here.saturating_sub(NAMED / 2).max(stretch.first);
    let events = (from..(from + NAMED).min(stretch.end)).filter_map(|event| {
        let head = index.events().get(event)?;
        let stage = index.name(head.stage);
        let stage = if stage.is_empty() {
            index.name(head.phase)
        } else {
            stage
        };
        Some((
            stage.to_owned(),
            state(event, event + 1),
            part.at + event - part.first,
        ))
    });
    Phase {
        class,
        name,
        when: [offset.as_str(), lasted.as_deref().unwrap_or_default()]
            .join(" · ")
            .trim_end_matches(" · ")
            .to_owned(),
        state: state(stretch.first, stretch.end),
        events: events.collect(),
        lines: Some((stretch.end - stretch.first, stretch.first)),
        details: details(replay, stretch),
        ..Phase::default()
    }
}

/// Describes the events of a phase from what the index holds.
fn details(replay: &Replay<'_>, stretch: &Stretch) -> Vec<Phrase> {
    let index = replay.view.index;
    let within = |event: usize| (stretch.first..stretch.end).contains(&event);
    let mut details = Vec::new();
    for segment in index.segments() {
        if let Some((_, init)) = segment.init.as_ref().filter(|(event, _)| within(*event)) {
            details.extend(
                init.task
                    .as_deref()
                    .map(|task| Phrase::new().text("Task: ").text(task)),
            );
        }
        if let Some((_, stop)) = segment.stop.as_ref().filter(|(event, _)| within(*event)) {
            let reason = stop.reason.as_deref().unwrap_or("no reason recorded");
            let mut says_stop = Phrase::new().text("The run stops: ").code(reason);
            if let Some(detail) = stop.detail.as_deref() {
                says_stop = says_stop.text(", ").text(detail);
            }
            details.push(says_stop);
        }
        if let Some((_, end, _)) = segment.end.as_ref().filter(|(event, _, _)| within(*event)) {
            details.push(
                Phrase::new()
                    .text("The run ended: ")
                    .code(end.reason.as_deref().unwrap_or("no reason recorded")),
            );
        }
        if segment.teardown.is_some_and(within) && segment.end.is_none() {
            details.push(Phrase::from(
                "The engine stopped with an exception. Its tools were closed, but no END event was written.",
            ));
        }
    }
    let group = index
        .group_at(stretch.first)
        .and_then(|at| index.groups().get(at));
    if let Some((_, text)) = group
        .and_then(|group| group.error.as_ref())
        .filter(|(name, _)| *name == stretch.phase)
    {
        details.push(Phrase::new().strong("Error: ").text(&**text));
    }
    let ends_on = |stage: &str| {
        let last = stretch
            .end
            .checked_sub(1)
            .and_then(|at| index.events().get(at));
        last.is_some_and(|event| index.name(event.stage) == stage)
    };
    if index.name(stretch.phase) == "CHECK_STOP" && ends_on("continue") {
        details.push(Phrase::from("No stop rule fired. The run continues."));
    }
    let own = replay
        .part
        .and_then(|(part, _)| part.group)
        .and_then(|at| index.groups().get(at));
    if let (Some(group), Some(own)) = (group, own)
        && group.first != own.first
    {
        details.push(Phrase::new().dim("from a step that was never recorded"));
    }
    details
}

/// `GET /runs/{key}/replay`
pub(crate) async fn page(
    State(state): State<AppState>,
    RunParam(run): RunParam,
    params: Params,
) -> Answer {
    let shell = shell(&state, &run);
    with_view(&state, &run, move |view| {
        let replay = Replay::new(view, query(&params)?).map_err(|why| no_place(view, &why))?;
        html(&ReplayPage {
            pulse: next(view, shell.revision),
            shell: Shell {
                title: view.title(&replay.title()),
                ..shell
            },
            replay,
        })
    })
    .await
}

/// `GET /runs/{key}/replay/part`
pub(crate) async fn part(
    State(state): State<AppState>,
    RunParam(run): RunParam,
    params: Params,
) -> Answer {
    with_view(&state, &run, move |view| {
        let replay = Replay::new(view, query(&params)?).map_err(|why| no_place(view, &why))?;
        html(&ReplayPart {
            pulse: None,
            replay,
        })
    })
    .await
}

/// `GET /runs/{key}/replay/live`: the same position in the updated run, or the new end for a reader
/// who was at the end.
pub(crate) async fn pulse(
    State(state): State<AppState>,
    run: Result<RunParam, WebError>,
    params: Params,
) -> Answer {
    // The run disappeared while the page was open. Reloading the page shows the error.
    let Ok(RunParam(run)) = run else {
        return Ok(load_again());
    };
    // Read before the index, so that changes made in between trigger another request.
    let revision = run.revision_now();
    with_view(&state, &run, move |view| {
        let mut query = ReplayQuery {
            nearest: true,
            ..query(&params)?
        };
        if params.text("last") == "1" {
            (query.step, query.event) = ("end".to_owned(), None);
        }
        let replay = Replay::new(view, query).map_err(|why| no_place(view, &why))?;
        let say = run_ended(view, params.text("ended"));
        let pulse = Some(Pulse {
            say,
            ..next(view, revision)
        });
        html(&ReplayPart { pulse, replay })
    })
    .await
}

/// Returns the next pulse. The form fields next to the breakpoints carry the cursor.
fn next(view: &RunView<'_>, revision: u64) -> Pulse {
    let base = format!("{}/live", href::replay(view.key()));
    let url = href::with_query(
        &base,
        &[("ended", ended(view)), ("since", &revision.to_string())],
    );
    Pulse {
        url,
        revision,
        ..Pulse::default()
    }
}

fn query(params: &Params) -> Result<ReplayQuery, WebError> {
    let mut breaks = params.all("break").unwrap_or_default();
    breaks.extend(params.all("add").unwrap_or_default());
    breaks.retain(|text| !text.trim().is_empty());
    breaks.truncate(MAX_BREAKS);
    let given = std::mem::take(&mut breaks);
    for text in given {
        if !breaks.contains(&text) {
            breaks.push(text);
        }
    }
    Ok(ReplayQuery {
        step: params.text("step").to_owned(),
        event: params.number("event")?,
        at: params.number("at")?,
        events: signed(params, "events")?,
        steps: signed(params, "steps")?,
        speed: params.text("speed").to_owned(),
        clock: params.text("clock").to_owned(),
        breaks,
        key: params.text("key").to_owned(),
        nearest: false,
    })
}

/// Limits the breakpoints, because each is evaluated on every step.
const MAX_BREAKS: usize = 20;

/// Parses a distance: a whole number that may be negative.
fn signed(params: &Params, name: &str) -> Result<isize, WebError> {
    match params.text(name) {
        "" => Ok(0),
        text => text.parse().map_err(|_| {
            let detail = format!("`{name}` must be a whole number. Negative numbers go back.");
            WebError::bad_request("Invalid number", &detail).named(text)
        }),
    }
}

fn no_place(view: &RunView<'_>, why: &NoPlace) -> WebError {
    let key = view.key();
    WebError::not_found(why.what, &why.instead)
        .named(&why.named)
        .link("Replay from the start", href::replay(key))
        .link("Open the run", href::run(key))
}
