//! Shows the step that has no line yet. Its events show the progress of each phase.

use askama::Template;
use askama::filters::HtmlSafe;

use crate::analysis::format;
use crate::analysis::format::capitalised;
use crate::analysis::timing::{Stretch, began, stretches, took};
use crate::model::index::Group;
use crate::page::part::sign::{Link, Phrase, Sign};
use crate::page::part::text::{self, Line};
use crate::page::run_view::{RunView, micros, phase};

/// The phases of a step, in the order of the engine.
const PHASES: [&str; 5] = ["DECIDE", "ACT", "REDUCE", "CRITIC", "CHECK_STOP"];

/// The step that is being written, or was when the run ended (`#pending`). May be empty.
#[derive(Clone, Copy, Template)]
#[template(path = "run/pending.html")]
pub(crate) struct PendingSlot<'a> {
    pub view: &'a RunView<'a>,
}

impl HtmlSafe for PendingSlot<'_> {}

/// The state of a phase in an unfinished step.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum PhaseState {
    #[default]
    Done,
    Now,
    /// Not reached.
    Later,
}

impl<'a> PendingSlot<'a> {
    fn group(&self) -> Option<&'a Group> {
        self.view
            .index
            .groups()
            .get(self.view.index.unfinished_group()?)
    }

    fn status(&self) -> Sign {
        if self.view.is_alive() {
            Sign::word("st running", "running", "in progress")
        } else {
            Sign::word("st died", "died", "never finished")
        }
    }

    fn events(&self, group: &Group) -> Link {
        Link::new(
            format::counted(group.end - group.first, "event"),
            self.view.at_event(group.first),
        )
    }

    /// Returns when the step began. Empty if unknown.
    fn began(&self, group: &Group) -> Line {
        self.view.offset(began(self.view.index, group))
    }

    /// Returns how long the step has taken. The browser keeps counting while the page is live.
    fn so_far(&self, group: &Group) -> Option<Phrase> {
        let start = group.started?;
        if self.view.is_alive() {
            return Some(self.since(start));
        }
        took(group).map(|time| Phrase::from(micros(time)))
    }

    fn since(&self, start: i64) -> Phrase {
        Phrase::new().since(micros(self.view.now - start), self.view.iso(start))
    }

    /// Returns the phases that have events. The last one is in progress while the run is alive.
    fn phases(&self, group: &Group) -> Vec<(Stretch, PhaseState)> {
        let mut phases: Vec<_> = stretches(self.view.index, group)
            .into_iter()
            .map(|stretch| (stretch, PhaseState::Done))
            .collect();
        if let Some((_, state)) = phases.last_mut().filter(|_| self.view.is_alive()) {
            *state = PhaseState::Now;
        }
        phases
    }

    fn phase(&self, stretch: &Stretch) -> (&'static str, String) {
        phase(self.view.index.name(stretch.phase))
    }

    /// Returns how long a phase took, or has taken so far.
    fn took(&self, group: &Group, stretch: &Stretch, state: &PhaseState) -> Option<Phrase> {
        if *state == PhaseState::Now {
            return Some(self.since(stretch.started?).text(" so far"));
        }
        let took = stretch.micros?;
        let nothing_after = stretch.end == group.end && took == 0;
        Some(if nothing_after {
            Phrase::new().dim("no later events")
        } else {
            Phrase::from(micros(took))
        })
    }

    /// Describes a phase, one line per fact.
    fn description(&self, group: &Group, stretch: &Stretch, state: &PhaseState) -> Vec<Phrase> {
        let index = self.view.index;
        let name = index.name(stretch.phase);
        let events = index.events().range(stretch.first..stretch.end);
        let stages: Vec<&str> = events
            .map(|event| index.name(event.stage))
            .filter(|stage| !stage.is_empty())
            .collect();
        let waits = *state == PhaseState::Now && name == "ACT" && stages == ["start"];
        let tool = group
            .decision()
            .and_then(|call| Some(call.split_once('(')?.0));
        let mut description = vec![match tool.filter(|_| waits) {
            Some(tool) => Phrase::new().text("Waiting for ").code(tool),
            None => Phrase::new().dim(stages.join(" → ")),
        }];
        if name == "DECIDE" {
            description.extend(group.decision().map(|call| Phrase::new().code(call)));
        }
        if let Some((_, text)) = group
            .error
            .as_ref()
            .filter(|(phase, _)| *phase == stretch.phase)
        {
            description.push(Phrase::from(&**text));
        }
        description
    }

    /// Lists the phases that the step hasn't reached. May be empty.
    fn later(&self, group: &Group) -> String {
        let stretches = stretches(self.view.index, group);
        let reached = |name: &&str| {
            stretches
                .iter()
                .any(|stretch| self.view.index.name(stretch.phase) == *name)
        };
        let furthest = PHASES.iter().rposition(reached).map_or(0, |at| at + 1);
        let later: Vec<String> = PHASES
            .iter()
            .skip(furthest)
            .map(|name| phase(name).1)
            .collect();
        later.join(", ")
    }
}

fn title(group: &Group) -> String {
    capitalised(&name(group))
}

/// Names an unfinished step: `step 9`.
pub(crate) fn name(group: &Group) -> String {
    group.step_id.map_or_else(
        || "step without an id".to_owned(),
        |id| format!("step {id}"),
    )
}
